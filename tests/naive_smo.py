"""The slow twin of the SMO solver: one pair at a time, on the whole matrix.

Fan, Chen and Lin, JMLR 6 (2005), second-order selection; with |α| terms a step ends at
the kink, and the next one goes on from there.
"""

from dataclasses import dataclass
from math import frexp, fsum

import numpy as np

from mercer.outcomes import Run, Solution

TAU = 1e-12  # what stands in for a curvature that is not positive


@dataclass(frozen=True)
class NaiveSMO:
    """Minimise a `BoxQP` two variables at a time, until violation < tol."""

    tol: float = 1e-8
    max_iter: int = 100_000

    def solve(self, problem, *, start=None, watch=None):
        K = np.asarray(problem.gram.dense(), dtype=float)
        if not np.isfinite(K).all():
            raise ValueError("The kernel has values that are not finite numbers.")
        index = np.arange(len(K)) if problem.index is None else problem.index
        Q = K[np.ix_(index, index)]
        beta = problem.sign * (problem.start() if start is None else start)
        n_iter, status, indefinite = 0, "optimal", False
        while True:
            F = Q @ beta
            value = problem.sign * beta
            pair = self._pair(problem, Q, value, K @ problem.coef(value))
            if pair is None:
                break
            if n_iter == self.max_iter:
                status = "max_iter"
                break
            i, j, gain = pair  # β_i grows, β_j shrinks; gain is the slope between them
            curvature = Q[i, i] + Q[j, j] - 2 * Q[i, j]
            indefinite |= curvature < -1e-9 * (abs(Q[i, i]) + abs(Q[j, j]))
            step = gain / (curvature if curvature > 0 else TAU)
            low, high = problem.bounds
            room_i, room_j = high[i] - beta[i], beta[j] - low[j]
            if problem.tube is not None:
                room_i = -beta[i] if beta[i] < 0 < problem.tube[i] else room_i
                room_j = beta[j] if beta[j] > 0 and problem.tube[j] > 0 else room_j
            if step >= min(room_i, room_j):
                step = min(room_i, room_j)
            beta[i] = high[i] if step == high[i] - beta[i] else beta[i] + step
            beta[j] = low[j] if step == beta[j] - low[j] else beta[j] - step
            n_iter += 1
        value = problem.sign * beta
        F = K @ problem.coef(value)
        level = problem.level(value, F)
        primal, dual = problem.objectives(value, F, level)
        return Solution(
            value,
            -float(np.mean(level)),
            primal,
            dual,
            problem.violation(value, F),
            Run("indefinite" if indefinite and status == "optimal" else status, n_iter),
            level,
            F,
        )

    def _pair(self, problem, Q, value, function):
        below, above = problem.slopes(value, function)
        best = None
        for members, _ in problem.groups():
            t = np.arange(len(problem))[members]
            i = t[np.argmin(above[t])]
            gain = below[t] - above[i]
            candidates = t[gain > self.tol]
            if not len(candidates):
                continue
            curvature = Q[i, i] + Q[candidates, candidates] - 2 * Q[i, candidates]
            gain = below[candidates] - above[i]
            worth = gain**2 / np.where(curvature > 0, curvature, TAU)
            j = int(np.argmax(worth))
            if best is None or worth[j] > best[0]:
                best = worth[j], (int(i), int(candidates[j]), gain[j])
        return best and best[1]


def snapped(value, lower, upper, slack):
    """Values with what rounding took off a bound put back."""
    largest, value = np.abs(value).max(initial=0.0), np.array(value)
    for t in range(len(value)):
        ends = (lower[t], upper[t])
        for bound, other in (ends, ends[::-1]):
            size = abs(bound) if bound else min(abs(other), largest)
            if np.isfinite(bound) and abs(value[t] - bound) <= slack * size:
                value[t] = bound
    return value


def balanced(value, lower, upper, total):
    """Values of this sum, what is left over taken off one of each binary order."""
    value, orders = np.array(value), {}
    for t, number in enumerate(value):
        if lower[t] < number < upper[t] and number != 0:
            orders.setdefault(frexp(number)[1], t)
    for order in sorted(orders, reverse=True):
        excess = fsum([*value.tolist(), -total])
        if excess == 0:
            break
        t = orders[order]
        moved = value[t] - excess
        if lower[t] < moved < upper[t] and moved != 0:
            value[t] = moved
    return value
