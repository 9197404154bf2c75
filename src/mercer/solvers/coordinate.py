"""Coordinate ascent on the dual of a machine without bias: one variable at a time.

Hsieh et al., ICML 2008, with kernels: a block of variables is visited on its own block
of K, and what they moved goes to all the others by one product. The steps are those of
plain coordinate ascent, in the same order.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import copysign, inf, isinf

import numpy as np

from mercer.data.points import take
from mercer.native import memory
from mercer.outcomes import Progress, Run, Solution, Status, Watch
from mercer.solvers.boxqp import BoxQP

BLOCK = 128  # variables visited between two products with all points
BUDGET = 10_000_000  # steps, where no other number is asked for
ORDERS = ("cyclic", "random", "greedy")


@dataclass(frozen=True)
class CoordinateAscent:
    """Minimise a `BoxQP` without total one variable at a time, until violation < tol:

        αᵢ ← clip(αᵢ - gᵢ/Qᵢᵢ, lowerᵢ, upperᵢ),    g = Qα + linear.

    Every step goes to the minimum along its axis, so the objective never rises; its
    negative is the dual, which ascends. Where Qᵢᵢ ≤ 0 that minimum is a bound.

    Parameters
    ----------
    max_iter : steps at most; -1 for 10 million, or 100 per variable if more. A visit
        that leaves its variable where it is counts for nothing
    order : "cyclic", one after another; "random", in a new order in every round;
        "greedy", the variable with the steepest slope
    record : whether the solution has the `path`, all variables after every step
    seed : of the random order

    Examples
    --------
    >>> from mercer import Gram, RBF
    >>> from mercer.solvers import CoordinateAscent, svc
    >>> gram = Gram(RBF(1), [[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> problem = svc(gram, [-1, 1, 1, -1], upper=10.0, bias=False)
    >>> solution = CoordinateAscent(tol=1e-9, record=True).solve(problem)
    >>> solution.value.round(3).tolist(), solution.path.shape[1]
    ([2.503, 2.503, 2.503, 2.503], 4)
    """

    tol: float = 1e-3
    max_iter: int = -1
    order: str = "cyclic"
    record: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.tol > 0:
            raise ValueError(f"CoordinateAscent needs tol > 0; got tol={self.tol!r}.")
        if self.order not in ORDERS:
            raise ValueError(
                f"CoordinateAscent knows order {', '.join(ORDERS)}; got {self.order!r}."
            )

    def solve(
        self,
        problem: BoxQP,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        """The minimiser, from a feasible `start`; `watch` returns True to stop."""
        if problem.total is not None:
            raise ValueError(
                "CoordinateAscent moves one variable at a time, which a fixed sum of "
                f"them forbids; this problem has total={problem.total!r}. Leave the "
                "bias out (fit_intercept=False, total=None), or use SMO."
            )
        begin = time.perf_counter()
        ascent = _Ascent(self, problem, problem.start(start))
        status = ascent.run(watch, begin)
        if not ascent.fresh:
            ascent.refresh()
        value, function = ascent.value, ascent.function
        rounding = problem.rounding(value)
        primal, dual, error = problem.bracket(value, function, (0.0,), rounding)
        indefinite = problem.refuted(value, function)
        ended = status in ("optimal", "stalled")
        return Solution(
            value=value,
            bias=0.0,
            primal=np.nan if indefinite else primal,
            dual=dual,
            violation=problem.violation(value, function),
            run=Run(
                Status.INDEFINITE if indefinite and ended else Status(status),
                ascent.steps,
                time.perf_counter() - begin,
                ascent.rows,
            ),
            level=(0.0,),
            function=function,
            path=ascent.path(),
            rounding=problem.violation_rounding(rounding),
            objective_rounding=error,
        )


class _Ascent:
    """One solve, in the signed variables β = sign∘α; F = Kβ at the points."""

    def __init__(self, options: CoordinateAscent, problem: BoxQP, value: np.ndarray):
        self.options, self.problem = options, problem
        self.holds = memory.keeps(8.0 * problem.gram.shape[0] ** 2)
        self.gram = problem.gram.held() if self.holds else problem.gram
        self.rows = problem.gram.shape[0] if self.holds else 0
        n = len(problem)
        self.all = np.arange(n)
        self.index = self.all if problem.index is None else problem.index
        self.curvature = np.asarray(self.gram.diag(), dtype=float)[self.index]
        self.beta = problem.sign * value
        self.low, self.high = problem.bounds
        self.tube = np.zeros(n) if problem.tube is None else problem.tube
        limit = options.max_iter
        self.budget = limit if limit >= 0 else max(BUDGET, 100 * n)
        self.random = np.random.default_rng(options.seed)
        self.steps = 0
        self.start = value
        self.moves: list[tuple[int, float]] = []
        self.refresh()

    @property
    def value(self) -> np.ndarray:
        return self.problem.sign * self.beta

    def refresh(self) -> None:
        """F from its definition: what the steps added up has their rounding."""
        self.function = np.asarray(self.gram @ self.problem.coef(self.value))
        self.fresh = True
        if not np.isfinite(self.function).all():
            raise ValueError(
                f"The kernel {self.gram.kernel!r} has values that are not finite "
                "numbers on these points."
            )

    def run(self, watch: Watch | None, begin: float) -> str:
        """Round after round; how it ended."""
        turn = 0
        while True:
            violation = self.problem.violation(self.value, self.function)
            near = not violation >= self.options.tol  # or NaN
            if near and not self.fresh:
                self.refresh()
                continue
            stop = watch and watch(self.progress(turn, violation, begin))
            if near:
                return "optimal"
            if self.steps >= self.budget:
                return "max_iter"
            if stop:
                return "stopped"
            self.check_path()
            before = self.steps
            status = self.steepest() if self.greedy else self.sweep()
            if status is not None:
                return status
            if self.steps == before:
                if self.fresh:
                    return "stalled"
                self.refresh()
            turn += 1

    @property
    def greedy(self) -> bool:
        return self.options.order == "greedy"

    def progress(self, turn: int, violation: float, begin: float) -> Progress:
        value, problem = self.value, self.problem
        primal, dual = problem.objectives(value, self.function, (0.0,))
        refuted = problem.gram.kernel.psd is False
        return Progress(
            turn,
            self.steps,
            self.rows,
            time.perf_counter() - begin,
            support=int(np.count_nonzero(value)),
            violation=violation,
            objective=-dual,
            gap=np.nan if refuted else primal - dual,
        )

    def sweep(self) -> str | None:
        """Every variable once; a status if that ends the search."""
        n, random = len(self.beta), self.options.order == "random"
        order = self.random.permutation(n) if random else self.all
        for first in range(0, n, BLOCK):
            members = slice(first, min(first + BLOCK, n))  # a view of the matrix
            status = self.visit(order[members] if random else members)
            if status is not None or self.steps >= self.budget:
                return status
        return None

    def visit(self, members: np.ndarray | slice) -> str | None:
        """These variables, one after another, on their block of K."""
        points = members if self.problem.index is None else self.index[members]
        rows = self.gram.rows(points) if self.holds else None
        block = self.gram.take(points).dense() if rows is None else rows[:, points]
        slope = self.function[points] - self.problem.target[members]
        before = self.beta[members].copy()  # a slice would be a view
        beta, status = before.tolist(), None
        limits = zip(
            self.curvature[members].tolist(),
            self.tube[members].tolist(),
            self.low[members].tolist(),
            self.high[members].tolist(),
            strict=True,
        )
        for r, (curvature, tube, low, high) in enumerate(limits):
            found = _best(beta[r], float(slope[r]), curvature, tube, low, high)
            if found == beta[r]:
                continue
            if isinf(found):
                status = "unbounded"
                break
            slope += (found - beta[r]) * block[r]
            beta[r] = found
            self.count(self.all[members][r], found)
            if self.steps >= self.budget:
                break
        self.beta[members] = beta
        change = self.beta[members] - before
        if rows is not None:
            self.function += change @ rows
        else:
            self.add(self.index[members], change)
        self.fresh &= not change.any()
        return status

    def add(self, points: np.ndarray, change: np.ndarray) -> None:
        """F += K[:, points] change, of those that moved."""
        moved, X = np.flatnonzero(change), self.gram.X
        if len(moved):
            moving = take(X, points[moved])
            self.function += self.gram.kernel.matmul(X, moving, change[moved])
            self.rows += len(moved)

    def steepest(self) -> str | None:
        """As many steps as there are variables, each where the slope is steepest."""
        for _ in range(len(self.beta)):
            if self.steps >= self.budget:
                break
            below, above = self.problem.slopes(self.value, self.function)
            gain = np.maximum(below, -above)
            t = int(np.argmax(gain))
            if gain[t] < self.options.tol:
                break
            before, status = self.steps, self.visit(np.array([t]))
            if status is not None or self.steps == before:
                return status
        return None

    # The path

    def count(self, t: int, found: float) -> None:
        self.steps += 1
        if self.options.record:
            self.moves.append((int(t), found))

    def check_path(self) -> None:
        size = 8.0 * len(self.moves) * len(self.beta)
        if self.moves:
            memory.check_room(
                size,
                f"The path of {len(self.moves)} steps in {len(self.beta)} variables "
                "takes",
                "Leave record=False, or lower max_iter.",
            )

    def path(self) -> np.ndarray | None:
        """α after 0, 1, 2, ... steps, a row each; None where it was not recorded."""
        if not self.options.record:
            return None
        path = np.empty((len(self.moves) + 1, len(self.start)))
        path[0] = self.start
        for k, (t, found) in enumerate(self.moves):
            path[k + 1] = path[k]
            path[k + 1, t] = self.problem.sign[t] * found
        return path


def _best(
    b: float, slope: float, curvature: float, tube: float, low: float, high: float
) -> float:
    """The x in [low, high] of the least slope·(x - b) + ½ curvature (x - b)² + tube|x|.

    It is b where nothing is less, and ±∞ where there is no least.
    """
    if curvature > 0:
        x = b - slope / curvature
        if tube:
            x = copysign(max(0.0, abs(x) - tube / curvature), x)
        return min(max(x, low), high)

    def cost(x: float) -> float:
        if isinf(x):
            falls = curvature < 0 or copysign(slope, slope * x) + tube < 0
            return -inf if falls else inf
        return slope * (x - b) + curvature / 2 * (x - b) ** 2 + tube * abs(x)

    return min(b, min(max(0.0, low), high), low, high, key=cost)
