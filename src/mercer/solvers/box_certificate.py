"""The certificate of a `BoxQP`: of what a solver reports, or computed from α and F."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mercer.outcomes import Certificate, Run, Solution, Status
from mercer.solvers.boxqp import BoxQP, Judged
from mercer.solvers.rounding import UNIT


def _covering(rounding: float, objective: float, room: float) -> float:
    """The larger of two errors, if there is room for it below tol; else the first."""
    return max(rounding, objective) if objective <= room else rounding


def certificate(problem: BoxQP, solution: Solution) -> Certificate:
    """The certificate of a solution, from the numbers the solver reports."""
    if solution.status == Status.INDEFINITE:
        solution = replace(solution, primal=np.nan)
    margin = _margin(
        problem,
        solution.value,
        solution.function,
        solution.level,
        solution.rounding,
        solution.objective_rounding,
    )
    return Certificate.of(solution, *_counts(problem, solution.value), margin)


def solution_of(
    problem: BoxQP,
    value: np.ndarray,
    function: np.ndarray,
    rounding: float,
    tol: float,
    run: Run,
    *,
    level: tuple[float, ...] | None = None,
    refuted: bool | None = None,
    otherwise: Status = Status.STALLED,
    square: float | None = None,
) -> Solution:
    """The solution with this α and F = Kβ: "optimal" where that is so to tol.

    Parameters
    ----------
    rounding : how far F can be off
    run : what it took, "optimal" where the solver came to its end: what is stated then
        is found here
    level : of the free variables, where that is known
    refuted : whether K is indefinite; None to find out
    otherwise : what is stated of an end where the violation is above tol
    square : as `Solution` has it
    """
    level = problem.level(value, function) if level is None else level
    bracket = problem.bracket(value, function, level, rounding)
    violation = problem.violation(value, function)
    if refuted is None:
        refuted = problem.refuted(value, function)
    judged = Judged(level, violation, *bracket, rounding)
    return solution_by(
        problem, value, function, judged, refuted, tol, run, otherwise, square
    )


def solution_by(
    problem: BoxQP,
    value: np.ndarray,
    function: np.ndarray,
    judged: Judged,
    refuted: bool,
    tol: float,
    run: Run,
    otherwise: Status = Status.STALLED,
    square: float | None = None,
) -> Solution:
    """The solution of which this is known, as `solution_of` states it."""
    level, violation, primal, dual, error, rounding = judged
    off, status = problem.violation_rounding(rounding), run.status
    ended = status == Status.OPTIMAL
    if refuted:
        primal, status = np.nan, Status.INDEFINITE if ended else status
    elif ended and not violation + off <= tol:
        status = Status.IMPRECISE if violation <= tol else otherwise
    return Solution(
        value=value,
        bias=-float(np.mean(level)),
        primal=primal,
        dual=dual,
        violation=violation,
        run=run if status == run.status else replace(run, status=status),
        level=level,
        function=function,
        rounding=_covering(off, error, tol - violation),
        objective_rounding=error,
        square=square,
    )


def certified(
    problem: BoxQP,
    value: np.ndarray,
    function: np.ndarray,
    level: Sequence[float] | None = None,
    indefinite: bool = False,
) -> Certificate:
    """The certificate of α and F = Kβ, computed here from the definitions.

    Parameters
    ----------
    level : of each group; None for what `problem.level` finds
    indefinite : whether K is known to be, beside what `problem.refuted` finds
    """
    level = problem.level(value, function) if level is None else level
    rounding = problem.rounding(value)
    primal, dual, error = problem.bracket(value, function, level, rounding)
    violation_error = problem.violation_rounding(rounding)
    indefinite = indefinite or problem.refuted(value, function)
    n_free, n_bound = _counts(problem, value)
    return Certificate(
        primal=np.nan if indefinite else primal,
        dual=dual,
        violation=problem.violation(value, function),
        n_free=n_free,
        n_bound=n_bound,
        margin=_margin(problem, value, function, level, violation_error, error),
        run=Run(Status.INDEFINITE if indefinite else Status.RECOMPUTED),
        rounding=violation_error,
        objective_rounding=error,
    )


def _counts(problem: BoxQP, value: np.ndarray) -> tuple[int, int]:
    """How many variables are free and not 0, and how many are at a bound but 0."""
    beta, (low, high) = problem.sign * value, problem.bounds
    bound = (beta != 0) & ((beta == low) | (beta == high))
    return int(np.sum((beta != 0) & ~bound)), int(np.sum(bound))


def _margin(
    problem: BoxQP,
    value: np.ndarray,
    function: np.ndarray,
    level: Sequence[float],
    violation_error: float,
    error: float,
) -> float:
    """A lower bound of 1/‖f‖, f scaled as `decision` scales it.

    Parameters
    ----------
    violation_error, error : how far the violation and the objectives can be off
    """
    coef = problem.coef(value)
    size = np.abs(coef)
    # A quarter of what the objectives allow for covers what F does to the square.
    off = min(float(size.sum()) * violation_error, error / 4)
    off += UNIT * (len(coef) + 4) * float(size @ np.abs(function))
    square = float(coef @ function) + off
    distance = (level[0] - level[1]) / 2 if problem.unit_margin else 1.0
    if not size.any() or not square > 0:
        return float("inf")
    return float(distance / np.sqrt(square)) * (1 - 4 * UNIT)
