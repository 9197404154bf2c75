"""The loss alone in a ball, min mean of ℓ subject to ‖f‖ ≤ B, by a search for its reg.

‖f‖ falls as reg grows: the reg with ‖f‖ = B is bracketed and closed in on along a line
in the logarithms of both. Any reg on the way gives slopes u and with them a lower bound
of the optimum in the ball; f drawn into the ball gives an upper one. Where the two are
near enough the search ends, so it also ends where the best f lies inside the ball.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mercer.outcomes import Run, Solution, Status
from mercer.solvers.penalized import (
    Penalized,
    Reading,
    rounding_of,
    slopes_of,
    square_rounding,
)
from mercer.solvers.rounding import UNIT

MOST = 60  # values of reg at most
FALL = 8.0  # by what reg is divided while no f has left the ball


@dataclass(frozen=True, eq=False)
class BallSolution(Solution):
    """The solution in the ball, and the reg that gave it."""

    reg: float = float("nan")


def within_ball(
    problem: Penalized,
    solve: Callable[[Penalized, np.ndarray | None], Solution],
    tol: float,
    start: np.ndarray | None = None,
) -> BallSolution:
    """Minimise a `Penalized` with `norm`, until gap ≤ tol · (loss of f = 0).

    Parameters
    ----------
    solve : from a problem with reg and the coefficients to start from, to its solution
    """
    assert problem.norm is not None
    if problem.gram.kernel.psd is False:
        raise ValueError(
            f"‖f‖ ≤ {problem.norm:g} needs a kernel; {problem.gram.kernel!r} is "
            "indefinite, so f has no norm. Give reg in place of norm, or `repair` the "
            "Gram matrix."
        )
    goal, run = tol * problem.zero_loss, Run()
    # reg‖f‖² is at most the loss of f = 0: from here on f lies inside the ball.
    reg = (problem.zero_loss or 1.0) / problem.norm**2
    inside: tuple[float, float] | None = None
    outside: tuple[float, float] | None = None
    best: BallSolution | None = None
    for _ in range(MOST):
        found = solve(problem.at(reg), start)
        start, run = found.value, found.run.after(run)
        size, drawn = _drawn(problem, reg, found)
        if best is None or drawn.gap < best.gap:
            best = BallSolution(**vars(drawn), reg=reg)
        near = drawn.gap + drawn.rounding <= goal
        if near or found.status not in ("optimal", "stalled"):
            break
        place = (np.log(reg), np.log(max(size, 1e-300) / problem.norm))
        inside, outside = (place, outside) if place[1] <= 0 else (inside, place)
        reg = _next(inside, outside)
        if inside and outside and abs(inside[0] - outside[0]) < 1e-14:
            break
    assert best is not None
    status = best.status
    if best.gap + best.rounding <= goal:
        status = Status.OPTIMAL
    elif status == Status.OPTIMAL:
        status = Status.STALLED
    return replace(best, run=replace(run, status=status))


def _next(
    inside: tuple[float, float] | None, outside: tuple[float, float] | None
) -> float:
    """reg for the next try, from (ln reg, ln ‖f‖/B) on either side of the ball."""
    if outside is None:
        assert inside is not None
        return float(np.exp(inside[0]) / FALL)
    if inside is None:
        return float(np.exp(outside[0]) * FALL)
    (a, fa), (b, fb) = inside, outside
    share = fa / (fa - fb) if fa != fb else 0.5
    # Never at an end of the bracket, which might then not shrink.
    return float(np.exp(a + np.clip(share, 0.05, 0.95) * (b - a)))


def _drawn(problem: Penalized, reg: float, found: Solution) -> tuple[float, Solution]:
    """‖f‖, and f drawn into the ball with the objectives of the problem there."""
    coef, bias = np.asarray(found.value), found.bias
    values = np.asarray(found.function) - bias
    square = float(np.sum(coef * values))
    assert problem.norm is not None
    size = np.sqrt(max(square, 0.0))
    # What rounding hides of ‖f‖ is not to leave f outside of the ball.
    most = np.sqrt(max(square, 0.0) + square_rounding(problem, coef, values))
    share = min(1.0, (1 - 8 * UNIT) * problem.norm / most) if most > 0 else 1.0
    function = share * values + bias
    strength = problem.at(reg).strength
    u, image, left_out = slopes_of(problem.at(reg), coef, values)
    square_of_u = float((problem.weights * u) @ image)
    at = Reading(
        coef=coef[:, None],
        values=function[:, None],
        bias=np.atleast_1d(bias),
        slopes=u[:, None],
        image=image[:, None],
        reg=reg,
    )
    rounding = rounding_of(problem, at)
    rounding = replace(rounding, dual=rounding.dual + left_out)
    # Of the dual ‖Σ wuφ‖ is the root of a square, which rounding changes by `off`.
    off = 2 * problem.mass * strength * rounding.dual
    length = max(np.sqrt(max(square_of_u, 0.0)), np.sqrt(off), 1e-300)
    of_dual = rounding.dual + problem.norm * off / length / problem.mass
    rounding = replace(rounding, dual=of_dual)
    return size, replace(
        found,
        value=share * coef,
        weights=None if found.weights is None else share * found.weights,
        function=function,
        primal=problem.primal(0.0, function) + rounding.primal,
        dual=problem.dual(u, square_of_u) - rounding.dual,
        rounding=rounding.most,
        objective_rounding=rounding.objectives,
    )
