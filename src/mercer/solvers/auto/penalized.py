"""AutoPenalized: how a `Penalized` is minimised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.data.blocks import Blocks
from mercer.data.partitions import Partitions
from mercer.outcomes import Solution, Status, Watch
from mercer.solvers.auto.costs import on_features
from mercer.solvers.auto.holding import holds_for_many
from mercer.solvers.auto.small import ROUNDING, SMALL, STEPS
from mercer.solvers.auto.smo import AutoSMO
from mercer.solvers.ball import within_ball
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.krylov import kept_by_products
from mercer.solvers.limits import TimeLimit, solve_within
from mercer.solvers.newton import Newton
from mercer.solvers.penalized import Penalized, unboxed
from mercer.solvers.primal import has_small_map
from mercer.solvers.roads import Road, by_matrix, on_map
from mercer.solvers.smo import SMO


@dataclass(frozen=True)
class AutoPenalized:
    """Minimise a `Penalized` until gap ≤ tol · (the loss of f = 0).

    Curved losses by `Newton`, in the coordinates of an explicit map where the kernel
    has a small one; those of straight pieces in their dual by `SMO`, small ones to
    rounding, others in single precision first where that is enough; the loss alone in a
    ball, ‖f‖ ≤ norm, by a search for the reg that goes with it.

    Parameters
    ----------
    max_iter : steps of the solver; -1 for its own limit
    solver : a `Newton`, or for straight pieces an `SMO`, in place of what is chosen
    seed : of the columns that precondition `Newton`
    time_limit : seconds; None for no limit
    """

    tol: float = 1e-4
    max_iter: int = -1
    solver: Any = None
    seed: int = 0
    time_limit: float | None = None

    def solve(
        self,
        problem: Penalized,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        """The minimiser, from `start` or from 0; `watch` returns True to stop.

        Of a problem with norm it has the reg that gave it, a `BallSolution`.
        """
        solve = self._newton if problem.loss.curved else self._box
        limit = TimeLimit(watch, self.time_limit)
        if problem.norm is None:
            return solve(problem, start, limit, self.tol)
        # The gap of the ball is made of that of the problem and of the norm.
        return within_ball(
            problem,
            lambda part, near: solve(part, near, limit, self.tol / 4),
            self.tol,
            start,
        )

    def road(self, problems: Sequence[Penalized]) -> Road:
        """How these would be solved, all of the same points."""
        problem, many = problems[0], len(problems)
        gram = problem.gram
        if not problem.loss.curved:
            held = many > 1 and holds_for_many(gram)
            solver = self.solver
            if solver is None and on_features(gram) is None:
                solver = SMO(self.tol, None, self.max_iter)
            road = AutoSMO(self.tol, solver=solver).road([problem.boxed()], many)
            if not held or road.name != "rows":
                return road
            return by_matrix(gram, solver, n_problems=many)
        solver = self._chosen_newton(problem, self.tol)
        if solver.features:
            return on_map(gram, solver, n_problems=many, parameters={"solver": solver})
        held = many > 1 and holds_for_many(gram, self.solver is None)
        n, k = gram.shape[0], getattr(problem.loss, "k", 1)
        there = isinstance(gram.X, Partitions)
        if held or (n * k <= solver.direct and not there):
            return by_matrix(gram, solver, n_problems=many)
        never = replace(solver, direct=0)
        return Road(
            "products",
            gram,
            solver,
            many,
            kept_by_products(gram),
            single=True,
            parameters={"solver": never},
        )

    def _chosen_newton(self, problem: Penalized, tol: float) -> Any:
        if self.solver is not None:
            return self.solver
        most = 100 if self.max_iter < 0 else self.max_iter
        by_map = has_small_map(problem.gram, Newton.direct)
        return Newton(tol, most, seed=self.seed, features=by_map)

    def _newton(
        self,
        problem: Penalized,
        start: np.ndarray | None,
        limit: TimeLimit,
        tol: float,
    ) -> Solution:
        solver = self._chosen_newton(problem, tol)
        seconds, watch = limit.left, limit.watch
        return solve_within(solver, problem, seconds, start=start, watch=watch)

    def _box(
        self,
        problem: Penalized,
        start: np.ndarray | None,
        limit: TimeLimit,
        tol: float,
    ) -> Solution:
        """The dual of straight pieces by SMO, until the gap is small enough.

        Or on features, where that costs less, or is the only way.
        """
        box = problem.boxed()
        near = None if start is None else box.start(start)
        if self.solver is not None:
            seconds, watch = limit.left, limit.watch
            found = solve_within(self.solver, box, seconds, start=near, watch=watch)
            return unboxed(problem, found)
        low, high = problem.loss.slopes(problem.target)
        goal = tol * problem.zero_loss
        # gap ≤ violation · (largest - least slope), up to rounding.
        close = max(goal, 1e-300) / float(np.max(high - low))
        on_rows = on_features(problem.gram)
        if on_rows is not None:
            solver = on_rows(close, self.max_iter)
            found = _reached(_unboxed_in_time(problem, solver, box, near, limit), goal)
            alone = isinstance(problem.gram.X, Blocks)
            if alone or found.status not in ("optimal", "stalled", "imprecise"):
                return found
            if found.status == "optimal" and _near(found, goal):
                return found
            near = found.value
        if len(box) <= SMALL:
            found = self._to_rounding(problem, box, near, limit, close)
            found = _reached(found, goal)
            done = found.status == "optimal" and _near(found, goal)
            if done or self.max_iter >= 0 or found.status == "time_limit":
                return found
            near = found.value
        solver = SMO(close, None, self.max_iter)
        found = _unboxed_in_time(problem, solver, box, near, limit)
        if found.status == "imprecise":
            found = _reached(found, goal)
        for _ in range(3):
            if found.status != "optimal" or _near(found, goal):
                return found
            solver = replace(solver, tol=solver.tol / 10, precision="double")
            found = _unboxed_in_time(problem, solver, box, found.value, limit)
        if found.status == "optimal" and not _near(found, goal):
            return found.ended(Status.IMPRECISE)
        return found

    def _to_rounding(
        self,
        problem: Penalized,
        box: BoxQP,
        near: np.ndarray | None,
        limit: TimeLimit,
        close: float,
    ) -> Solution:
        size = max(1.0, np.abs(box.linear).max())
        budget = STEPS * SMALL if self.max_iter < 0 else self.max_iter
        fine = SMO(min(close, ROUNDING * size), None, budget, precision="double")
        return _unboxed_in_time(problem, fine, box, near, limit)


def _unboxed_in_time(
    problem: Penalized,
    solver: Any,
    box: BoxQP,
    near: np.ndarray | None,
    limit: TimeLimit,
) -> Solution:
    seconds, watch = limit.left, limit.watch
    found = solve_within(solver, box, seconds, start=near, watch=watch)
    return unboxed(problem, found)


def _near(found: Solution, goal: float) -> bool:
    return found.gap + found.objective_rounding <= goal


def _reached(found: Solution, goal: float) -> Solution:
    """The solution, optimal where a limit or rounding ended it below the goal."""
    early = found.status in ("max_iter", "time_limit", "stalled", "imprecise")
    return found.ended(Status.OPTIMAL) if early and _near(found, goal) else found
