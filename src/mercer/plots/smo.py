"""Sequential minimal optimisation, drawn: one step in its square, and all of them.

Platt, Fast training of support vector machines using SMO (1998).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from mercer.plots.base import (
    COLOURS,
    STRONG,
    Display,
    axes_or_new,
    ink,
    legend_beside,
    paper,
)
from mercer.solvers.boxqp import BoxQP

MOST_STEPS = 10_000
MOST_LINES = 200  # variables whose paths are drawn


class Step(NamedTuple):
    """A step in two variables, with the value of the others fixed."""

    before: np.ndarray
    wanted: np.ndarray  # the minimum on the line signᵀα = total
    after: np.ndarray  # the minimum on its part within the bounds
    ends: tuple[float, float]  # of the second variable on that part


def plot_smo_step(
    problem: BoxQP,
    alpha: npt.ArrayLike,
    i: int,
    j: int,
    ax: Axes | None = None,
    *,
    levels: int = 22,
    legend: bool = True,
) -> Display:
    """αⱼ ← clip(αⱼ - (Gⱼ - sᵢsⱼGᵢ)/η, L, H): a step of SMO in the square of two bounds.

    G is the gradient of W(α) = ½ αᵀQα + linearᵀα, s are the signs, and η = Kᵢᵢ + Kⱼⱼ -
    2Kᵢⱼ. The contours are those of W in the two variables, the others fixed; the
    condition signᵀα = total leaves a line, of which [L, H] is the part within bounds.

    Parameters
    ----------
    problem : a BoxQP with one total and no tube, as of `svc` or `one_class`
    alpha : its variables before the step
    i, j : the two that move
    levels : how many contours are drawn
    legend : whether to say beside the picture what is what

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mercer import Gram, Linear
    >>> from mercer.plots import plot_smo_step
    >>> from mercer.solvers import svc
    >>> problem = svc(Gram(Linear(), [[0.0], [2.0]]), [-1, 1], 1.0)
    >>> display = plot_smo_step(problem, [0.0, 0.0], 0, 1)
    >>> display.artists_["after"].get_xydata().tolist()
    [[0.5, 0.5]]
    """
    value = np.asarray(alpha, dtype=float)
    _check(problem, value)
    if i == j:
        raise ValueError(f"A step of SMO moves two variables; got {i} twice.")
    Q, sign = _hessian(problem), problem.sign
    step = _step(problem, Q, Q @ value + problem.linear, value, i, j)
    ax = axes_or_new(ax)
    low, high = _frame(problem, step, [i, j])
    _draw_contours(problem, Q, value, [i, j], low, high, levels, ax)
    lower, upper = (np.clip(b[[i, j]], low - 9, high + 9)
                    for b in (problem.lower, problem.upper))  # fmt: skip
    square = Rectangle(tuple(lower), *(upper - lower), fc="none", ec=ink(), lw=2)
    ax.add_patch(square)
    slope = -sign[i] * sign[j]

    def on_line(second: npt.ArrayLike) -> list[Any]:
        second = np.asarray(second, dtype=float)
        return [step.before[0] + slope * (second - step.before[1]), second]

    whole = np.array([low[1] - 9, high[1] + 9])
    ax.plot(*on_line(whole), "--", color="grey", lw=1.2, label="signᵀα = total")
    part = ax.plot(*on_line(step.ends), color=ink(), lw=3.5, label="within the bounds")
    for end, name in zip(step.ends, "LH", strict=True):
        ax.axhline(end, color="grey", lw=0.8, ls=":")
        ax.annotate(name, (low[0], end), (4, 3), textcoords="offset points")
    arrow = {"arrowstyle": "-|>", "color": STRONG, "lw": 2.5}
    ends = tuple(step.after), tuple(step.before)
    ax.annotate("", *ends, arrowprops=arrow, zorder=5)
    marks: dict[str, Any] = {"part": part[0]}
    for name, place, style in (
        ("before", step.before, {"marker": "o", "mfc": paper(), "mew": 2, "ms": 9}),
        ("after", step.after, {"marker": "o", "ms": 13}),
        ("minimum on the line", step.wanted, {"marker": "x", "mew": 2, "ms": 9}),
    ):
        colour = ink() if name == "minimum on the line" else STRONG
        options: dict[str, Any] = {"color": colour, "ls": "none", "zorder": 6} | style
        [marks[name]] = ax.plot(*place, label=name, **options)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    ax.set(xlabel="αᵢ", ylabel="αⱼ")
    if legend:
        legend_beside(ax)
    return Display(ax, marks)


def plot_smo_path(
    problem: BoxQP,
    path: npt.ArrayLike | None = None,
    ax: Axes | None = None,
    *,
    tol: float = 1e-3,
    legend: bool = True,
) -> Display:
    """Every αₜ against the steps of SMO, in the colour of its sign; two move at a time.

    `display.animate()` shows the steps one after another, as an animation of
    matplotlib: `.save("path.gif")`, or `.to_jshtml()` for a page.

    Parameters
    ----------
    problem : a BoxQP with one total and no tube, as of `svc` or `one_class`
    path : (steps + 1, variables) array; None to solve from the start, the pair that
        violates the conditions of optimality most at a time, until violation < tol
    tol : of that solve
    legend : whether to say beside the picture what is what

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mercer import Gram, Linear
    >>> from mercer.plots import plot_smo_path
    >>> from mercer.solvers import svc
    >>> problem = svc(Gram(Linear(), [[0.0], [2.0], [3.0]]), [-1, 1, 1], 1.0)
    >>> display = plot_smo_path(problem)
    >>> [line.get_ydata()[-1].item() for line in display.artists_["lines"]]
    [0.5, 0.5, 0.0]
    >>> display.frames_
    2
    """
    found = smo_path(problem, tol) if path is None else np.asarray(path, dtype=float)
    if found.ndim != 2 or not len(found):
        raise ValueError(
            "plot_smo_path needs a path of shape (steps + 1, variables); got shape "
            f"{found.shape}."
        )
    _check(problem, found[0])
    if len(problem) > MOST_LINES:
        raise ValueError(
            f"plot_smo_path draws at most {MOST_LINES} variables, a line each; got "
            f"{len(problem)}. plot_convergence draws the solve of any problem."
        )
    ax = axes_or_new(ax)
    steps = np.arange(len(found))
    moved = np.diff(found, axis=0) != 0
    lines, dots = [], []
    for t, values in enumerate(found.T):
        k = int(problem.sign[t] > 0)
        style: dict[str, Any] = {"color": COLOURS[k], "lw": 1.2, "alpha": 0.75}
        lines.extend(ax.plot(steps, values, **style))
        at = np.flatnonzero(moved[:, t]) + 1
        [dot] = ax.plot(at, values[at], "o", ms=4, color=COLOURS[k])
        dots.append(dot)
    for k, name in ((0, "sign −1"), (1, "sign +1")):
        if (problem.sign == 2 * k - 1).any():
            ax.plot([], [], "o-", ms=4, color=COLOURS[k], label=name)
    for bound in np.unique(np.append(problem.lower, problem.upper)):
        if np.isfinite(bound) and len(np.unique(problem.upper)) == 1:
            ax.axhline(bound, color="grey", lw=0.8, ls=":")
    ax.set(xlabel="step", ylabel="α", xlim=(0, max(1, len(found) - 1)))
    if legend:
        legend_beside(ax)

    def draw(frame: int) -> list[Any]:
        for line, values in zip(lines, found.T, strict=True):
            line.set_data(steps[: frame + 1], values[: frame + 1])
        for dot, values, own in zip(dots, found.T, moved.T, strict=True):
            at = np.flatnonzero(own[:frame]) + 1
            dot.set_data(at, values[at])
        return [*lines, *dots]

    return Display(ax, {"lines": lines, "dots": dots}, len(found), draw)


def smo_path(problem: BoxQP, tol: float) -> np.ndarray:
    """(steps + 1, variables): the values from the start until violation < tol."""
    value = problem.start().astype(float)
    _check(problem, value)
    Q, path = _hessian(problem), [value]
    for _ in range(MOST_STEPS):
        gradient = Q @ value + problem.linear
        rise = -problem.sign * gradient
        up = np.where(problem.sign > 0, value < problem.upper, value > problem.lower)
        down = np.where(problem.sign > 0, value > problem.lower, value < problem.upper)
        i = int(np.argmax(np.where(up, rise, -np.inf)))
        j = int(np.argmin(np.where(down, rise, np.inf)))
        if not (up.any() and down.any() and rise[i] - rise[j] >= tol):
            return np.array(path)
        value = value.copy()
        value[[i, j]] = _step(problem, Q, gradient, value, i, j).after
        # A variable that is at its bound but for rounding would be moved again.
        value = problem.snapped(value, slack=1e-13)
        path.append(value)
    raise ValueError(
        f"{MOST_STEPS} steps of SMO were not enough for tol={tol:g}; raise tol, or use "
        "plot_convergence."
    )


def _check(problem: BoxQP, value: np.ndarray) -> None:
    if problem.tube is not None or problem.group is not None or problem.total is None:
        raise ValueError(
            "Steps of SMO are drawn for problems with one total and no tube: those of "
            "svc or one_class."
        )
    if value.shape != (len(problem),):
        raise ValueError(
            f"The problem has {len(problem)} variables; got values of shape "
            f"{value.shape}."
        )


def _hessian(problem: BoxQP) -> np.ndarray:
    """Q of all variables."""
    K = np.asarray(problem.gram.dense(), dtype=float)
    index = np.arange(len(K)) if problem.index is None else problem.index
    return K[np.ix_(index, index)] * np.outer(problem.sign, problem.sign)


def _step(
    problem: BoxQP,
    Q: np.ndarray,
    gradient: np.ndarray,
    value: np.ndarray,
    i: int,
    j: int,
) -> Step:
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
    return Step(np.array([a, b]), pair(wanted), after, (L, H))


def _frame(
    problem: BoxQP, step: Step, pair: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """The corners of a picture with the square, if it is finite, and all places."""
    bounds = np.array([problem.lower[pair], problem.upper[pair]])
    shown = [step.before, step.after, *(np.where(np.isfinite(bounds), bounds, 0.0))]
    low, high = np.min(shown, axis=0), np.max(shown, axis=0)
    room = 0.35 * max(float((high - low).max()), 1e-9)
    # The minimum on the line belongs to the picture unless it is far away.
    near = np.clip(step.wanted, low - 2 * room, high + 2 * room)
    low, high = np.minimum(low - room, near - 0.1), np.maximum(high + room, near + 0.1)
    return np.full(2, low.min()), np.full(2, high.max())


def _draw_contours(
    problem: BoxQP,
    Q: np.ndarray,
    value: np.ndarray,
    pair: list[int],
    low: np.ndarray,
    high: np.ndarray,
    levels: int,
    ax: Axes,
) -> None:
    """W in two variables, the others fixed."""
    rest = value.copy()
    rest[pair] = 0
    p, q = (Q @ rest + problem.linear)[pair]
    (A, B), (_, C) = Q[np.ix_(pair, pair)]
    sides = [np.linspace(start, end, 200) for start, end in zip(low, high, strict=True)]
    a, b = np.meshgrid(*sides)
    W = (A * a**2 + C * b**2) / 2 + B * a * b + p * a + q * b
    ax.contour(a, b, W, levels, cmap="viridis", linewidths=1, alpha=0.7)
