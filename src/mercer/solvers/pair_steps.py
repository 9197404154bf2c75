"""Sequential minimal optimisation written out: every step with what decided it.

Platt, Fast training of support vector machines using SMO (1998), each time with the
pair that violates the conditions of optimality most. It is for people who look on;
`SMO` solves the same problems at speed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer.solvers.boxqp import BoxQP

SLACK = 1e-13  # relative distance from a bound within which a variable is at it


class PairStep(NamedTuple):
    """A step in two variables, with the value of the others fixed.

    Attributes
    ----------
    pair : the two variables
    before : their values before the step
    wanted : the minimum on the line signᵀα = total
    after : the minimum on its part within the bounds
    ends : of the second variable on that part
    """

    pair: tuple[int, int]
    before: np.ndarray
    wanted: np.ndarray
    after: np.ndarray
    ends: tuple[float, float]


class PairSteps(NamedTuple):
    """A run of SMO.

    Attributes
    ----------
    path : (steps + 1, variables) array: the values from the start on
    steps : what each step did
    violation : (steps + 1,) array: by how much the conditions of optimality are missed
    converged : whether the last violation is below tol
    """

    path: np.ndarray
    steps: list[PairStep]
    violation: np.ndarray
    converged: bool


def pair_steps(problem: BoxQP, tol: float, most: int) -> PairSteps:
    """The steps from the start until violation < tol, but at most so many.

    Parameters
    ----------
    problem : with one total and no tube, as of `svc` or `one_class`

    Examples
    --------
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import svc
    >>> from mercer.solvers.pair_steps import pair_steps
    >>> problem = svc(Gram(Linear(), [[0.0], [2.0], [3.0]]), [-1, 1, 1], 1.0)
    >>> run = pair_steps(problem, 1e-3, 100)
    >>> run.steps[0].pair, run.path[-1].tolist(), run.converged
    ((1, 0), [0.5, 0.5, 0.0], True)
    """
    value = problem.start().astype(float)
    check_pairs(problem, value)
    Q, path = hessian(problem), [value]
    steps: list[PairStep] = []
    violations: list[float] = []
    while True:
        gradient = Q @ value + problem.linear
        pair, violation = _worst_pair(problem, value, gradient)
        violations.append(violation)
        converged = not violation >= tol
        if converged or len(steps) >= most:
            return PairSteps(np.array(path), steps, np.array(violations), converged)
        step = pair_step(problem, Q, gradient, value, *pair)
        steps.append(step)
        value = value.copy()
        value[list(pair)] = step.after
        # A variable that is at its bound but for rounding would be moved again.
        value = problem.snapped(value, slack=SLACK)
        path.append(value)


def _worst_pair(
    problem: BoxQP, value: np.ndarray, gradient: np.ndarray
) -> tuple[tuple[int, int], float]:
    """The pair that violates the conditions most, and by how much."""
    rise = -problem.sign * gradient
    above, below = value < problem.upper, value > problem.lower
    up = np.where(problem.sign > 0, above, below)
    down = np.where(problem.sign > 0, below, above)
    i = int(np.argmax(np.where(up, rise, -np.inf)))
    j = int(np.argmin(np.where(down, rise, np.inf)))
    if not (up.any() and down.any()):
        return (i, j), 0.0
    return (i, j), float(rise[i] - rise[j])


def check_pairs(problem: BoxQP, value: np.ndarray) -> None:
    """Refuse problems in which no pair can move alone, and values of another."""
    if problem.tube is not None or problem.group is not None or problem.total is None:
        raise ValueError(
            "Steps of SMO are shown for problems with one total and no tube: those of "
            "svc or one_class."
        )
    if value.shape != (len(problem),):
        raise ValueError(
            f"The problem has {len(problem)} variables; got values of shape "
            f"{value.shape}."
        )


def hessian(problem: BoxQP) -> np.ndarray:
    """Q of all variables."""
    K = np.asarray(problem.gram.dense(), dtype=float)
    index = np.arange(len(K)) if problem.index is None else problem.index
    return K[np.ix_(index, index)] * np.outer(problem.sign, problem.sign)


def pair_step(
    problem: BoxQP,
    Q: np.ndarray,
    gradient: np.ndarray,
    value: np.ndarray,
    i: int,
    j: int,
) -> PairStep:
    """αⱼ ← clip(αⱼ - (Gⱼ - sᵢsⱼGᵢ)/η, L, H), and αᵢ by signᵀα = total.

    Parameters
    ----------
    Q, gradient : of ½ αᵀQα + linearᵀα at `value`
    """
    a, b = value[i], value[j]
    same = problem.sign[i] * problem.sign[j]
    # αᵢ = a - same (αⱼ - b): its bounds, carried over to αⱼ.
    carried = np.sort(b + same * (a - np.array([problem.lower[i], problem.upper[i]])))
    L = max(problem.lower[j], carried[0])
    H = min(problem.upper[j], carried[1])
    eta = Q[i, i] + Q[j, j] - 2 * same * Q[i, j]
    slope = gradient[j] - same * gradient[i]
    # Without curvature the minimum is at the end to which W falls.
    wanted = b - slope / eta if eta > 0 else (L if slope > 0 else H)
    reached = min(max(wanted, L), H)

    def pair(second: float) -> np.ndarray:
        first = a - same * (second - b)
        return np.array([first, second])

    after = np.clip(pair(reached), problem.lower[[i, j]], problem.upper[[i, j]])
    return PairStep((i, j), np.array([a, b]), pair(wanted), after, (L, H))


def frame_of(problem: BoxQP, step: PairStep) -> tuple[np.ndarray, np.ndarray]:
    """The corners of a picture with the square, if it is finite, and all places."""
    pair = list(step.pair)
    bounds = np.array([problem.lower[pair], problem.upper[pair]])
    shown = [step.before, step.after, *(np.where(np.isfinite(bounds), bounds, 0.0))]
    low, high = np.min(shown, axis=0), np.max(shown, axis=0)
    room = 0.35 * max(float((high - low).max()), 1e-9)
    # The minimum on the line belongs to the picture unless it is far away.
    near = np.clip(step.wanted, low - 2 * room, high + 2 * room)
    low, high = np.minimum(low - room, near - 0.1), np.maximum(high + room, near + 0.1)
    return np.full(2, low.min()), np.full(2, high.max())


def landscape(
    problem: BoxQP,
    Q: np.ndarray,
    value: np.ndarray,
    pair: tuple[int, int],
    first: np.ndarray,
    second: np.ndarray,
) -> np.ndarray:
    """W at values of two variables, the others fixed; without what these alone give.

    Parameters
    ----------
    first, second : (m,) and (r,) values of the two; the result is (r, m)
    """
    both = list(pair)
    rest = value.copy()
    rest[both] = 0
    p, q = (Q @ rest + problem.linear)[both]
    (A, B), (_, C) = Q[np.ix_(both, both)]
    a, b = np.meshgrid(first, second)
    return (A * a**2 + C * b**2) / 2 + B * a * b + p * a + q * b
