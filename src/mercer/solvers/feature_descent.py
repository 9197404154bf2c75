"""`BoxQP`s on many sparse features: one variable after another, w = Φᵀβ being kept.

Hsieh et al., "A dual coordinate descent method for large-scale linear SVM" (ICML 2008).
The bias of f is free: the sums of β that it asks for are kept by multipliers. Where few
variables still come to their bounds, steps for all free ones at once, by conjugate
gradients, take turns with those for one after another.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import _core
from mercer.outcomes import Progress, Run, Solution, Status, Watch
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.features import (
    FeatureRows,
    check_bounds,
    features_of,
    solution_on,
    totals_of,
)

WORK = 2e7  # entries of Φ between two reports, some tenths of a second
NEAR = 0.02  # violation, relative to the largest, from which free ones move at once
TURN = 20  # passes over the free variables between two such steps
GRADIENTS = 40  # conjugate gradients of such a step
PASSES = 10_000  # over all of Φ, where no other number is asked for
PRICE = 0.1  # of a squared sum that is off, relative to the mean of ‖φ(x)‖²


@dataclass(frozen=True)
class FeatureDescent:
    """Minimise a `BoxQP` on sparse features Φ, K = ΦΦᵀ, until violation < tol.

    Each step moves one variable to where the objective is least, at the cost of reading
    one row of Φ; variables that stay at their bounds are left out until the others
    agree. For kernels with a sparse explicit map (`mercer.maps.explicit`) and finite
    bounds.

    Parameters
    ----------
    max_iter : passes over Φ at most, or steps that read as much; -1 for 10,000
    time_limit : seconds; None for no limit. A solve that it, max_iter or `watch` ended
        goes on from `start=solution.value`

    Examples
    --------
    >>> from mercer import Gram, Spectrum
    >>> from mercer.solvers import FeatureDescent, svc
    >>> X = ["ACGTACGT", "ACGTTCGT", "GGGGCCCC", "GGCGCCCC"]
    >>> problem = svc(Gram(Spectrum(2), X), [1, 1, -1, -1], upper=1.0)
    >>> solution = FeatureDescent(tol=1e-6).solve(problem)
    >>> solution.status, bool(solution.gap < 1e-5)
    ('optimal', True)
    """

    tol: float = 1e-3
    max_iter: int = -1
    time_limit: float | None = None

    def __post_init__(self) -> None:
        if not self.tol > 0:
            raise ValueError(f"FeatureDescent needs tol > 0; got tol={self.tol!r}.")

    def solve(
        self,
        problem: BoxQP,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        """The minimiser, from a feasible `start`; `watch` returns True to stop."""
        check_bounds(self, problem)
        return _Run(self, problem, watch)(start)


class _Run:
    """One solve."""

    def __init__(self, options: FeatureDescent, problem: BoxQP, watch: Watch | None):
        self.options, self.problem, self.watch = options, problem, watch
        self.begin = time.perf_counter()
        self.rows = features_of(problem.gram).compressed()
        self.totals = totals_of(problem)
        self.order = np.arange(len(problem), dtype=np.int32)
        self.shrunk = np.array([len(problem), np.inf])  # how many take part; see core
        self.read, self.rounds, self.worst = 0.0, 0, 0.0
        self.program = self._program()

    def _program(self) -> dict[str, Any]:
        problem = self.problem
        rows = self.rows
        if problem.index is not None:
            rows = rows.take(problem.index)
        matrix, lengths = rows.matrix, rows.lengths()
        tube = np.empty(0) if problem.tube is None else problem.tube
        group = np.empty(0) if problem.group is None else problem.group
        low, high = map(np.ascontiguousarray, problem.bounds)
        return {
            "begin": matrix.indptr,
            "column": matrix.indices,
            "entry": matrix.data,
            "target": np.ascontiguousarray(problem.target),
            "low": low,
            "high": high,
            "tube": np.ascontiguousarray(tube),
            "group": np.ascontiguousarray(group, dtype=np.uint8),
            "total": self.totals,
            "square": lengths,
            "sigma": self._price(lengths),
        }

    def _price(self, lengths: np.ndarray) -> float:
        """σ of σ/2 (Σβ - total)²: of what moves levels as fast as variables."""
        if not len(lengths):
            return 1.0
        low, high = self.problem.bounds
        widest = float(np.max(high - low)) or 1.0
        reach = float(np.ptp(self.problem.target)) / widest
        return PRICE * max(float(lengths.mean()), reach / 5) or 1.0

    def __call__(self, start: np.ndarray | None) -> Solution:
        problem, tol = self.problem, self.options.tol
        beta = problem.sign * problem.start(start)
        w = self.rows.pull(problem.coef(problem.sign * beta))
        level = problem.level(problem.sign * beta, self.rows.times(w))
        rho = np.array(level, dtype=float)[: len(self.totals)]
        goal = 0.4 * tol
        for _ in range(8):
            status = self._descend(beta, w, rho, goal)
            run = Run(
                status, int(np.ceil(self._passes())), time.perf_counter() - self.begin
            )
            found = solution_on(self.rows, problem, self._settled(beta), run, tol)
            if found.status != Status.STALLED:
                return found
            goal /= 2  # what is between two slopes may be twice what either is off
        return found

    def _descend(
        self, beta: np.ndarray, w: np.ndarray, rho: np.ndarray, goal: float
    ) -> Status:
        """Move β, w and ρ until no slope is off by more than the goal."""
        most = PASSES if self.options.max_iter < 0 else self.options.max_iter
        work = max(WORK, self._entries())
        while True:
            left = (most - self._passes()) * self._entries()
            if left < 1:
                return Status.MAX_ITER
            violation, complete, read = _core.descend_features(
                **self.program,
                beta=beta,
                w=w,
                rho=rho,
                order=self.order,
                shrunk=self.shrunk,
                tol=goal,
                work=int(max(min(work, left), 1)),
                seed=self.rounds,
            )
            self.read += read
            self.rounds += 1
            if complete and violation <= goal:
                return Status.OPTIMAL
            self.worst = max(self.worst, violation)
            if violation <= NEAR * self.worst:
                work = self._move_free(beta, w, rho)
            # Sums of many small changes: they are not to drift.
            w[:] = self.rows.pull(self.problem.coef(self.problem.sign * beta))
            seconds = time.perf_counter() - self.begin
            limit = self.options.time_limit
            if limit is not None and seconds >= limit:
                return Status.TIME_LIMIT
            if self.watch is not None and self.watch(self._progress(beta, violation)):
                return Status.STOPPED

    def _move_free(self, beta: np.ndarray, w: np.ndarray, rho: np.ndarray) -> float:
        """Move all free variables towards their common minimum, their sums being fixed.

        What to read of Φ until the next such step.
        """
        problem, (low, high) = self.problem, self.problem.bounds
        free = np.flatnonzero((beta > low) & (beta < high) & (beta != 0))
        rows = self.rows.take(free if problem.index is None else problem.index[free])
        work = self._entries() + TURN * (rows.entries + 8.0 * len(free))
        if len(free) < 2:
            return work
        slope = rows.times(w) - problem.target[free]
        if problem.tube is not None:
            slope += problem.tube[free] * np.sign(beta[free])
        if len(self.totals):
            group = problem.group
            slope -= rho[0] if group is None else rho[group[free]]
        self.read += 2.0 * GRADIENTS * rows.entries
        step = self._gradients(rows, slope, free)
        least, largest = low[free], high[free]
        if problem.tube is not None:  # none is to pass the kink at 0
            least = np.where(beta[free] > 0, np.maximum(least, 0.0), least)
            largest = np.where(beta[free] < 0, np.minimum(largest, 0.0), largest)
        for shorter in (1.0, 1 / 4, 1 / 16, 1 / 64):
            moved = np.clip(beta[free] + shorter * step, least, largest) - beta[free]
            pulled = rows.pull(moved)
            if float(slope @ moved) + float(pulled @ pulled) / 2 < 0:
                beta[free] += moved
                np.clip(beta, low, high, out=beta)
                break
        return work

    def _gradients(
        self, rows: FeatureRows, slope: np.ndarray, free: np.ndarray
    ) -> np.ndarray:
        """Conjugate gradients for ½ dᵀKd + slopeᵀd with Σd = 0 in each group."""

        def fixed(v: np.ndarray) -> np.ndarray:
            if not len(self.totals):
                return v
            if self.problem.group is None:
                return v - v.mean()
            group = self.problem.group[free]
            sizes = np.maximum(np.bincount(group, minlength=2), 1)
            return v - (np.bincount(group, weights=v, minlength=2) / sizes)[group]

        x, r = np.zeros_like(slope), -fixed(slope)
        d, square = r, float(r @ r)
        for _ in range(GRADIENTS):
            Kd = fixed(rows.times(rows.pull(d)))
            curvature = float(d @ Kd)
            if not curvature > 1e-12 * float(d @ d) * float(
                np.max(self.program["square"])
            ):
                break
            t = square / curvature
            x, r = x + t * d, r - t * Kd
            last, square = square, float(r @ r)
            d = r + (square / last) * d
        return x

    def _entries(self) -> float:
        return float(max(self.rows.entries, 1) + 8 * len(self.problem))

    def _passes(self) -> float:
        return self.read / self._entries()

    def _progress(self, beta: np.ndarray, violation: float) -> Progress:
        return Progress(
            self.rounds,
            int(np.ceil(self._passes())),
            0,
            time.perf_counter() - self.begin,
            support=int(np.count_nonzero(beta)),
            violation=violation,
            words=(("support", "support vectors"), ("violation", "violation")),
            unit="pass",
        )

    def _settled(self, beta: np.ndarray) -> np.ndarray:
        """β with its sums put right: what is missing is shared by the free ones."""
        problem, beta = self.problem, beta.copy()
        low, high = problem.bounds
        for members, total in problem.groups():
            if total is None:
                continue
            part = beta[members]
            for _ in range(50):
                missing = total - float(part.sum())
                up = missing > 0
                room = (high[members] - part) if up else (part - low[members])
                free = (part > low[members]) & (part < high[members]) & (part != 0)
                free &= room > 0
                if not free.any() or missing == 0:
                    break
                each = abs(missing) / np.count_nonzero(free)
                part[free] += np.sign(missing) * np.minimum(room[free], each)
                if each <= 1e-15 * float(np.abs(part).max()):
                    break
            beta[members] = part
        missed = [
            abs(float(beta[members].sum()) - total) > 1e-12 * np.abs(beta).sum()
            for members, total in problem.groups()
            if total is not None
        ]
        # None is free: some have to leave their bounds.
        return (
            problem.sign * problem.start(problem.sign * beta) if any(missed) else beta
        )
