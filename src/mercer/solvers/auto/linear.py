"""AutoLinear and BySize: how a `LinearSystem` is solved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.data.partitions import Partitions
from mercer.data.points import precision
from mercer.gram import Gram
from mercer.native.clock import OutOfTime, breakable
from mercer.native.memory import fits
from mercer.outcomes import Solution, Status, Watch
from mercer.solvers.cholesky import Cholesky, inverse_diagonal
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.features import features_of
from mercer.solvers.krylov import kept_by_products
from mercer.solvers.limits import TimeLimit, solve_within
from mercer.solvers.linear import LinearSystem
from mercer.solvers.normal_equations import NormalEquations, inverse_diagonal_by_map
from mercer.solvers.primal import affordable, has_small_map
from mercer.solvers.roads import Road, by_matrix, on_map

RESERVE = 4  # times the points that are few: factors are tried where a map failed
MOST_FACTORED = 30_000  # points in reserve for Cholesky, which says nothing on its way


@dataclass(frozen=True)
class AutoLinear:
    """Solve a `LinearSystem` by what is quickest.

    `NormalEquations` where the kernel has a small explicit map, else `BySize`, which is
    also asked where rounding leaves the first too large a residual.

    Parameters
    ----------
    few : points up to which the matrix is factored
    time_limit : seconds; None for no limit. Factors for which there is no time give way
        to what conjugate gradients find
    """

    few: int = 3000
    tol: float = 1e-8
    time_limit: float | None = None

    def solve(
        self,
        problem: LinearSystem,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        """The solution; `watch` returns True to stop."""
        limit = TimeLimit(None, self.time_limit)
        if self._by_map(problem):
            solver = NormalEquations(self.tol, trust=Cholesky.tol)
            found = solve_within(solver, problem, limit.left, start=start, watch=watch)
            # Beyond, K has no digits that Φ has not, and is too large to be factored.
            few = problem.gram.shape[0] <= RESERVE * self.few
            if found.status in ("optimal", "stopped", "time_limit") or not few:
                return found
        by_size = BySize(self.few, self.tol, limit.left)
        return by_size.solve(problem, start=start, watch=watch)

    def road(self, problem: LinearSystem) -> Road:
        """How it would be solved."""
        if self._by_map(problem):
            solver: Any = NormalEquations(self.tol, trust=Cholesky.tol)
            return on_map(problem.gram, solver, parameters={"solver": solver})
        solver = BySize(self.few, self.tol).chosen(problem)
        return linear_road(problem.gram, solver)

    def inverse_diagonal(self, problem: LinearSystem) -> np.ndarray:
        """The diagonal of (K + diag(reg/weight))⁻¹, a column per target."""
        if self._by_map(problem) and affordable(features_of(problem.gram).shape[1]):
            return inverse_diagonal_by_map(problem)
        return inverse_diagonal(problem)

    def _by_map(self, problem: LinearSystem) -> bool:
        positive = bool(np.all(np.asarray(problem.reg, dtype=float) > 0))
        return positive and has_small_map(problem.gram, self.few)


@dataclass(frozen=True)
class BySize:
    """Cholesky for few points, conjugate gradients for many, Cholesky if those fail.

    Parameters
    ----------
    few : points up to which the matrix is factored at once
    time_limit : seconds; None for no limit. Factors for which there is no time give way
        to what conjugate gradients find
    """

    few: int = 3000
    tol: float = 1e-8
    time_limit: float | None = None

    def solve(
        self,
        problem: LinearSystem,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        limit = TimeLimit(None, self.time_limit)
        if isinstance(self.chosen(problem), Cholesky):
            try:
                with breakable():
                    return Cholesky().solve(problem)
            except OutOfTime:
                if not self._is_definite(problem):
                    raise  # nothing else solves such a system
        solver = replace(self._gradients(problem), time_limit=limit.left)
        found = solver.solve(problem, start=start, watch=watch)
        ended = found.status in ("optimal", "stopped", "time_limit")
        if ended or not self._factors_fit(problem):
            return found
        try:
            with breakable():
                return Cholesky().solve(problem)
        except OutOfTime:
            return found.ended(Status.TIME_LIMIT)

    def chosen(self, problem: LinearSystem) -> Cholesky | ConjugateGradient:
        """What is tried first; of points in partitions, what is."""
        if isinstance(problem.gram.X, Partitions):
            return self._gradients(problem)
        if problem.gram.shape[0] <= self.few or not self._is_definite(problem):
            return Cholesky()
        return self._gradients(problem)

    def _gradients(self, problem: LinearSystem) -> ConjugateGradient:
        single = precision(problem.gram.X) == np.float32
        # So many products cost about as much as the factors.
        most = max(30, problem.gram.shape[0] // 60)
        if isinstance(problem.gram.X, Partitions):
            most = ConjugateGradient.max_iter  # there are no factors
        return ConjugateGradient(
            1e-6 if single else self.tol,
            most,
            precision="single" if self._factors_fit(problem) else "auto",
            trust=Cholesky.tol,
        )

    @staticmethod
    def _is_definite(problem: LinearSystem) -> bool:
        """Whether K + λI is known to be, as far as its kernel is."""
        regs = np.asarray(problem.reg, dtype=float)
        return problem.gram.kernel.psd is not False and bool(np.all(regs > 0))

    @staticmethod
    def _factors_fit(problem: LinearSystem) -> bool:
        n = problem.gram.shape[0]
        there = isinstance(problem.gram.X, Partitions)
        return not there and n <= MOST_FACTORED and fits(8.0 * n * n)


def linear_road(gram: Gram, solver: Any) -> Road:
    """That of a solver of a `LinearSystem`."""
    if isinstance(solver, NormalEquations):
        return on_map(gram, solver, parameters={"solver": solver})
    if isinstance(solver, ConjugateGradient):
        kept = kept_by_products(gram)
        options: dict[str, Any] = {"single": True, "parameters": {"solver": solver}}
        return Road("products", gram, solver, kept=kept, **options)
    return by_matrix(gram, solver)
