"""`BoxQP`s on many sparse features: one variable after another, w = Φᵀβ being kept.

Hsieh et al., "A dual coordinate descent method for large-scale linear SVM" (ICML 2008).
The bias of f is free: the sums of β that it asks for are kept by multipliers. After
each pass all variables go on along the ways of the last three passes, as far as the
objective gets less: conjugate gradients, with a pass for their preconditioner.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.native.threads import blas_for
from mercer.outcomes import Progress, Run, Solution, Status, Watch
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.feature_rows import DescentState
from mercer.solvers.features import check_bounds, rows_of, solution_on, totals_of
from mercer.solvers.overlap import may_overlap, overlapped

WORK = 2e7  # entries of Φ between two reports, some hundredths of a second
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
        self.rows = rows_of(problem.gram).compressed()
        self.totals = totals_of(problem)
        self.state = DescentState(len(problem))
        self.read, self.rounds, self.stopped = 0.0, 0, False
        self.program = self._program()

    def _program(self) -> dict[str, Any]:
        problem, lengths = self.problem, self.rows.lengths()
        index = np.empty(0) if problem.index is None else problem.index
        tube = np.empty(0) if problem.tube is None else problem.tube
        group = np.empty(0) if problem.group is None else problem.group
        low, high = map(np.ascontiguousarray, problem.bounds)
        return {
            "place": np.ascontiguousarray(index, dtype=np.int32),
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
        quickly = self._overlapped() if start is None else None
        if quickly is not None:
            return quickly
        beta = problem.sign * problem.start(start)
        w = self.rows.pull(problem.coef(problem.sign * beta))
        function = self.rows.times(w) if beta.any() else np.zeros(self.rows.shape[0])
        level = problem.level(problem.sign * beta, function)
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

    def _overlapped(self) -> Solution | None:
        """The solution, if that is quickly found where classes overlap."""
        problem, tol = self.problem, self.options.tol
        if self.options.max_iter >= 0 or not may_overlap(problem, self.rows):
            return None
        with blas_for(self.rows.shape[1]):
            beta = overlapped(problem, self.rows, tol, self._is_over)
        if beta is None:
            return None
        run = Run(Status.OPTIMAL, self.rounds, time.perf_counter() - self.begin)
        found = solution_on(self.rows, problem, self._settled(beta), run, tol)
        return found if found.status == Status.OPTIMAL else None

    def _is_over(self) -> bool:
        """Before each of Newton's steps: whether there is to be no more."""
        self.rounds += 1
        limit = self.options.time_limit
        late = limit is not None and time.perf_counter() - self.begin >= limit
        none = np.zeros(len(self.problem))
        return late or self._is_stopped(self._progress(none, np.nan))

    def _is_stopped(self, progress: Progress) -> bool:
        """Whether the callback asked to stop, now or before."""
        if self.watch is not None and not self.stopped:
            self.stopped = bool(self.watch(progress))
        return self.stopped

    def _descend(
        self, beta: np.ndarray, w: np.ndarray, rho: np.ndarray, goal: float
    ) -> Status:
        """Move β, w and ρ until no slope is off by more than the goal."""
        most = PASSES if self.options.max_iter < 0 else self.options.max_iter
        while True:
            left = (most - self._passes()) * self._entries()
            if left < 1:
                return Status.MAX_ITER
            violation, complete, read = self.rows.packed.descend(
                **self.program,
                beta=beta,
                w=w,
                rho=rho,
                state=self.state,
                tol=goal,
                work=int(max(min(max(WORK, self._entries()), left), 1)),
            )
            self.read += read
            self.rounds += 1
            if complete and violation <= goal:
                return Status.OPTIMAL
            # Sums of many small changes: they are not to drift.
            w[:] = self.rows.pull(self.problem.coef(self.problem.sign * beta))
            seconds = time.perf_counter() - self.begin
            limit = self.options.time_limit
            if limit is not None and seconds >= limit:
                return Status.TIME_LIMIT
            if self._is_stopped(self._progress(beta, violation)):
                return Status.STOPPED

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
