"""The one place that chooses how a problem is solved: by what, how exactly, K held.

Each class here is itself a solver. A machine states a problem, hands it to one of them
and reads the solution; a solver of the user's own takes the place of what is chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from mercer.gram import Gram
from mercer.kernels.base import Constant, Sum
from mercer.kernels.ways import Precomputed
from mercer.native import memory
from mercer.outcomes import Progress, Solution, Status
from mercer.solvers.ball import within_ball
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.components import Components, Eigenpairs
from mercer.solvers.eigen import DOUBLE, WIDEST, BlockKrylov, Covariance, Lapack
from mercer.solvers.l1 import Columns, CoordinateDescent
from mercer.solvers.lasso import L1Problem
from mercer.solvers.lasso_features import Design
from mercer.solvers.newton import Newton
from mercer.solvers.penalized import Penalized, unboxed
from mercer.solvers.smo import SMO

# Problems this small are solved to rounding, at next to no cost: then it does not show
# in what order the points came, or whether one counted twice or came twice.
SMALL = 256
ROUNDING = 1e-11
STEPS = 200  # for each variable
ROUNDING_GAP = 1e-12  # of an L1 problem, relative to the objective of the best constant
# LAPACK is the quicker one up to so many points, and where more than this share of all
# components is sought, with kernel values in double or in single precision.
DENSE = 800
DENSE_SHARE = {"double": 1 / 30, "single": 1 / 10}

Watch = Callable[[Progress], bool] | None


def held_for_many(gram: Gram) -> Gram:
    """The same Gram with K in memory, where several problems would each compute it."""
    if isinstance(gram.kernel, Precomputed) or gram.is_held:
        return gram
    fits = memory.keeps(8.0 * gram.shape[0] ** 2)
    return gram.held_in_double() if fits else gram


def held_for_passes(gram: Gram) -> Gram:
    """K as a matrix that its points are places in, where it is slow, for many passes.

    Where the core computes kernel values itself, or K does not fit, the same Gram.
    """
    kernel, n = gram.kernel, gram.shape[0]
    if isinstance(kernel, Sum) and isinstance(kernel.right, Constant):
        kernel = kernel.left  # k + 1 is as slow as k
    slow = kernel.native(gram.X) is None and not isinstance(kernel, Precomputed)
    if not slow or not memory.keeps(8.0 * n**2):
        return gram
    return Gram(Precomputed(gram.dense()), np.arange(n))


@dataclass
class AutoL1:
    """Minimise a `L1Problem` until gap ≤ tol · (the objective of the best constant).

    By `CoordinateDescent`, small problems to rounding. Problems on the same Gram that
    are solved one after another share what was read of K.

    Parameters
    ----------
    max_iter, cache_mb : those of `CoordinateDescent`
    solver : what solves the problem in its place; its own tol counts, where it has one
    """

    tol: float = 1e-4
    max_iter: int = 1000
    cache_mb: float | None = None
    solver: Any = None
    _last: tuple[Any, Columns | Design] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def solve(
        self,
        problem: L1Problem,
        *,
        start: np.ndarray | None = None,
        watch: Watch = None,
    ) -> Solution:
        """The minimiser, from `start` or from 0; `watch` returns True to stop."""
        solution = self._solving(problem)(problem, start=start, watch=watch)
        goal = getattr(self.solver, "tol", self.tol) * problem.of_constant()
        early = solution.status in ("stalled", "max_iter", "stopped")
        if early and solution.gap + solution.rounding <= goal:
            return solution.ended(Status.OPTIMAL)
        return solution

    def _solving(self, problem: L1Problem) -> Callable[..., Solution]:
        if self.solver is not None:
            return self.solver.solve
        small = problem.gram.shape[0] <= SMALL
        tol = min(self.tol, ROUNDING_GAP) if small else self.tol
        solver = CoordinateDescent(tol, self.max_iter, self.cache_mb)
        if self._last is None or self._last[0] is not problem.gram:
            self._last = problem.gram, solver.columns(problem.gram)
        return partial(solver.solve, columns=self._last[1])


@dataclass(frozen=True)
class AutoPenalized:
    """Minimise a `Penalized` until gap ≤ tol · (the loss of f = 0).

    Curved losses by `Newton`; those of straight pieces in their dual by `SMO`, small
    ones to rounding, others in single precision first where that is enough; the loss
    alone in a ball, ‖f‖ ≤ norm, by a search for the reg that goes with it.

    Parameters
    ----------
    max_iter : steps of the solver; -1 for its own limit
    solver : a `Newton`, or for straight pieces an `SMO`, in place of what is chosen
    seed : of the columns that precondition `Newton`
    """

    tol: float = 1e-4
    max_iter: int = -1
    solver: Any = None
    seed: int = 0

    def solve(
        self,
        problem: Penalized,
        *,
        start: np.ndarray | None = None,
        watch: Watch = None,
    ) -> Solution:
        """The minimiser, from `start` or from 0; `watch` returns True to stop.

        Of a problem with norm it has the reg that gave it, a `BallSolution`.
        """
        solve = self._newton if problem.loss.curved else self._box
        if problem.norm is None:
            return solve(problem, start, watch, self.tol)
        # The gap of the ball is made of that of the problem and of the norm.
        return within_ball(
            problem,
            lambda part, near: solve(part, near, watch, self.tol / 4),
            self.tol,
            start,
        )

    def _newton(self, problem: Penalized, start, watch: Watch, tol: float) -> Solution:
        most = 100 if self.max_iter < 0 else self.max_iter
        solver = self.solver or Newton(tol, most, seed=self.seed)
        return solver.solve(problem, start=start, watch=watch)

    def _box(self, problem: Penalized, start, watch: Watch, tol: float) -> Solution:
        """The dual of straight pieces by SMO, until the gap is small enough."""
        box = problem.boxed()
        near = None if start is None else box.start(start)
        if self.solver is not None:
            found = self.solver.solve(box, start=near, watch=watch)
            return unboxed(problem, found)
        low, high = problem.loss.slopes(problem.target)
        goal = tol * problem.zero_loss
        # gap ≤ violation · (largest - least slope), up to rounding.
        close = max(goal, 1e-300) / float(np.max(high - low))
        if len(box) <= SMALL:
            found = self._to_rounding(problem, box, near, watch, close)
            found = _reached(found, goal)
            done = found.status == "optimal" and _near(found, goal)
            if done or self.max_iter >= 0:
                return found
            near = found.value
        solver = SMO(close, None, self.max_iter)
        found = unboxed(problem, solver.solve(box, start=near, watch=watch))
        if found.status == "imprecise":
            found = _reached(found, goal)
        for _ in range(3):
            if found.status != "optimal" or _near(found, goal):
                return found
            solver = replace(solver, tol=solver.tol / 10, precision="double")
            near = found.value
            found = unboxed(problem, solver.solve(box, start=near, watch=watch))
        if found.status == "optimal" and not _near(found, goal):
            return found.ended(Status.IMPRECISE)
        return found

    def _to_rounding(
        self, problem: Penalized, box: BoxQP, near, watch: Watch, close: float
    ) -> Solution:
        size = max(1.0, np.abs(box.linear).max())
        budget = STEPS * SMALL if self.max_iter < 0 else self.max_iter
        fine = SMO(min(close, ROUNDING * size), None, budget, precision="double")
        return unboxed(problem, fine.solve(box, start=near, watch=watch))


@dataclass(frozen=True)
class AutoComponents:
    """Find `Components` by what is quickest.

    `Covariance` where there are few explicit features, `Lapack` for few points and for
    many of the components, else `BlockKrylov`.

    Parameters
    ----------
    krylov : the `BlockKrylov` of that case
    """

    krylov: BlockKrylov = field(default_factory=BlockKrylov)

    def solve(
        self, problem: Components, *, start=None, watch: Watch = None
    ) -> Eigenpairs:
        """The components; `watch` returns True to stop."""
        return self.chosen(problem).solve(problem, start=start, watch=watch)

    def chosen(self, problem: Components) -> Any:
        n, features = problem.gram.shape[0], problem.features
        if features is not None and features.shape[1] <= WIDEST:
            return Covariance()
        share = DENSE_SHARE["double" if n <= DOUBLE else "single"]
        dense = n <= DENSE or problem.count > share * n
        return Lapack() if dense else self.krylov


def _near(found: Solution, goal: float) -> bool:
    return found.gap + found.objective_rounding <= goal


def _reached(found: Solution, goal: float) -> Solution:
    """The solution, optimal where a limit or rounding ended it below the goal."""
    early = found.status in ("max_iter", "stalled", "imprecise")
    return found.ended(Status.OPTIMAL) if early and _near(found, goal) else found
