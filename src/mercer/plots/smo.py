"""Sequential minimal optimisation, drawn: one step in its square, and all of them.

Platt, Fast training of support vector machines using SMO (1998).
"""

from __future__ import annotations

from typing import Any

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
from mercer.solvers.pair_steps import (
    check_pairs,
    frame_of,
    hessian,
    landscape,
    pair_step,
    pair_steps,
)

MOST_STEPS = 10_000
MOST_LINES = 200  # variables whose paths are drawn


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
    check_pairs(problem, value)
    if i == j:
        raise ValueError(f"A step of SMO moves two variables; got {i} twice.")
    Q, sign = hessian(problem), problem.sign
    step = pair_step(problem, Q, Q @ value + problem.linear, value, i, j)
    ax = axes_or_new(ax)
    low, high = frame_of(problem, step)
    sides = [np.linspace(*ends, 200) for ends in zip(low, high, strict=True)]
    W = landscape(problem, Q, value, (i, j), *sides)
    ax.contour(*sides, W, levels, cmap="viridis", linewidths=1, alpha=0.7)
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
    check_pairs(problem, found[0])
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
    run = pair_steps(problem, tol, MOST_STEPS)
    if run.converged:
        return run.path
    raise ValueError(
        f"{MOST_STEPS} steps of SMO were not enough for tol={tol:g}; raise tol, or use "
        "plot_convergence."
    )
