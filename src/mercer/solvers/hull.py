"""The hard margin, C = ∞, as the distance between the hulls of the two classes.

Bennett and Bredensteiner, "Duality and geometry in SVM classifiers" (ICML 2000): the
hyperplane of largest margin halves the shortest segment between the hulls. The distance
of two hulls always exists, so the search ends also where no hyperplane separates them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.gram import Gram
from mercer.outcomes import Run, Solution, Status, Watch
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.programs import hulls

MEETING = 1e-7  # hulls nearer than this times the width of the data meet
ROUNDS = 12


@dataclass(frozen=True)
class HullDistance:
    """Minimise an `svc` without upper bounds, until yᵢ f(xᵢ) ≥ 1 - tol for all points.

    The status is "infeasible" where the hulls meet: the distance found is at most
    1e-7 of the width of the data. Then `value` are weights ≥ 0, summing to 1 in
    each class, with Σ₊ αᵢ φ(xᵢ) = Σ₋ αᵢ φ(xᵢ) up to that distance, and `violation` is
    the distance relative to the width.

    Parameters
    ----------
    solver : a dataclass with a field `tol` that minimises a `BoxQP` with two groups
    """

    solver: Any

    def solve(
        self,
        problem: BoxQP,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        hull = hulls(problem.gram, problem.sign)
        value = None
        if start is not None and start.any():
            # The α of a margin are hull weights times a factor that both classes share.
            value = hull.start(start / start[problem.sign > 0].sum())
        width = squared_width(problem.gram)
        tol, spent = 1e-2 * width, Run()
        for _ in range(ROUNDS):
            solver = replace(self.solver, tol=max(tol, np.finfo(float).tiny))
            found = solver.solve(hull, start=value, watch=watch)
            spent = found.run.after(spent)
            value = found.value
            square = float(hull.coef(value) @ found.function)
            half = (found.level[0] - found.level[1]) / 2
            if square <= MEETING**2 * width:
                distance = np.sqrt(max(square, 0.0) / width) if width > 0 else 0.0
                met = replace(spent, status=Status.INFEASIBLE)
                return replace(found, run=met, violation=float(distance))
            # |f| is 1 at the two levels, so that the slopes of f are those of F / half.
            needed = self.solver.tol * half
            ended = found.status in ("optimal", "indefinite")
            if not ended or found.violation <= needed:
                break
            tol = min(found.violation / 10, needed if half > 0 else np.inf)
        return replace(_scaled(problem, hull, found), run=spent)


def squared_width(gram: Gram) -> float:
    """The largest ‖φ(xᵢ) - φ(x₁)‖²: between once and four times the radius squared."""
    diagonal = np.asarray(gram.diag(), dtype=float)
    row = np.asarray(gram.rows([0])[0], dtype=float)
    return float(np.max(diagonal + diagonal[0] - 2 * row, initial=0.0))


def _scaled(problem: BoxQP, hull: BoxQP, found: Solution) -> Solution:
    """The solution of `problem`: that of the hulls, f = ±1 at their nearest points."""
    half = (found.level[0] - found.level[1]) / 2
    if not half > 0:
        return found  # not even an order of the classes; the status says why
    value, function = found.value / half, found.function / half
    level = (float(np.mean(found.level)) / half,)
    rounding = found.rounding / half
    primal, dual, error = problem.bracket(value, function, level, rounding)
    return replace(
        found,
        value=value,
        bias=-level[0],
        primal=np.nan if np.isnan(found.primal) else primal,
        dual=dual,
        violation=problem.violation(value, function),
        level=level,
        function=function,
        rounding=rounding,
        objective_rounding=error,
    )
