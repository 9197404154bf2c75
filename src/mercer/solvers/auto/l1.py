"""AutoL1: how an `L1Problem` is minimised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from mercer.gram import Gram
from mercer.native import memory
from mercer.outcomes import Solution, Status, Watch
from mercer.solvers.auto.small import SMALL
from mercer.solvers.l1 import Columns, CoordinateDescent
from mercer.solvers.lasso import L1Problem
from mercer.solvers.lasso_features import Design
from mercer.solvers.limits import TimeLimit
from mercer.solvers.roads import Road, by_matrix, on_map

ROUNDING_GAP = 1e-12  # of an L1 problem, relative to the objective of the best constant


@dataclass
class AutoL1:
    """Minimise a `L1Problem` until gap ≤ tol · (the objective of the best constant).

    By `CoordinateDescent`, small problems to rounding. Problems on the same Gram that
    are solved one after another share what was read of K.

    Parameters
    ----------
    max_iter, cache_mb : those of `CoordinateDescent`
    solver : what solves the problem in its place; its own tol counts, where it has one
    time_limit : seconds of a solve; None for no limit
    """

    tol: float = 1e-4
    max_iter: int = 1000
    cache_mb: float | None = None
    solver: Any = None
    time_limit: float | None = None
    _last: tuple[Any, Columns | Design] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def solve(
        self,
        problem: L1Problem,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        """The minimiser, from `start` or from 0; `watch` returns True to stop."""
        limit = TimeLimit(watch, self.time_limit)
        watch = watch if self.time_limit is None else limit
        solution = self._solving(problem)(problem, start=start, watch=watch)
        solution = limit.ended(solution)
        goal = getattr(self.solver, "tol", self.tol) * problem.of_constant()
        early = solution.status in ("stalled", "max_iter", "stopped", "time_limit")
        if early and solution.gap + solution.rounding <= goal:
            return solution.ended(Status.OPTIMAL)
        return solution

    def road(self, problem: L1Problem, gram: Gram, n_problems: int = 1) -> Road:
        """How it would be solved, and as many more on the same points.

        Parameters
        ----------
        gram : of the points, of which the problem may know the features alone
        """
        solver = self.solver or CoordinateDescent(
            self.tol, self.max_iter, self.cache_mb
        )
        if isinstance(problem.gram, Design):
            return on_map(gram, solver, n_problems=n_problems)
        n = gram.shape[0]
        if 8.0 * n * n <= memory.cache_bytes(self.cache_mb):
            return by_matrix(gram, solver, n_problems=n_problems)
        return Road("rows", gram, solver, n_problems, memory.cache_bytes(self.cache_mb))

    def _solving(self, problem: L1Problem) -> Callable[..., Solution]:
        if self.solver is not None:
            return self.solver.solve
        small = problem.gram.shape[0] <= SMALL
        tol = min(self.tol, ROUNDING_GAP) if small else self.tol
        solver = CoordinateDescent(tol, self.max_iter, self.cache_mb)
        if self._last is None or self._last[0] is not problem.gram:
            self._last = problem.gram, solver.columns(problem.gram)
        return partial(solver.solve, columns=self._last[1])
