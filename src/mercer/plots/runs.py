"""How a solve went, and the bounds beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from sklearn.utils.validation import check_is_fitted

from mercer.data.points import Points
from mercer.outcomes import Progress
from mercer.plots.base import COLOURS, GRID, Display, axes_or_new, ink, paper
from mercer.solvers.ascent import Step
from mercer.solvers.boxqp import BoxQP
from mercer.theory import MistakeBound


def plot_convergence(
    history: Sequence[Progress],
    ax: Axes | None = None,
    *,
    against: str = "iterations",
    optimum: float | None = None,
    tol: float | None = None,
) -> Display:
    """The convergence of a solve: the violation, and the objective above its optimum.

    Both on a logarithmic scale.

    Parameters
    ----------
    history : what a solver reported to `watch`
    against : "iterations" or "seconds"
    optimum : the least objective, -dual of the finest solution known; None for the
        objective at the end of the history
    tol : a line is drawn there; below it the solver stops

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from mercer import RBF, Gram
    >>> from mercer.plots import plot_convergence
    >>> from mercer.solvers import SMO, svc
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> problem, history = svc(Gram(RBF(1), X), np.sign(X[:, 0]), 1.0), []
    >>> solution = SMO(working_set=8).solve(problem, watch=history.append)
    >>> display = plot_convergence(history, optimum=-solution.dual)
    >>> display.ax_.get_yscale(), sorted(display.artists_)
    ('log', ['objective − optimum', 'violation'])
    """
    if against not in ("iterations", "seconds"):
        raise ValueError(
            f"plot_convergence knows iterations and seconds; got against={against!r}."
        )
    if not len(history):
        raise ValueError(
            "plot_convergence needs a history; this one is empty. Fill it with "
            "SMO().solve(problem, watch=history.append)."
        )
    when = np.array([getattr(progress, against) for progress in history])
    violation = np.array([progress.violation for progress in history])
    objective = np.array([progress.objective for progress in history])
    excess = objective - (objective[-1] if optimum is None else optimum)
    ax = axes_or_new(ax)
    ax.set_yscale("log")
    marker = "o" if len(history) <= 60 else None
    artists: dict[str, Any] = {}
    for values, label, colour in (
        (violation, "violation", COLOURS[0]),
        (excess, "objective − optimum", COLOURS[1]),
    ):
        # A logarithmic scale has no place for what is 0, or below it by rounding.
        shown = values > 1e-15 * np.abs(objective).max()
        style: dict[str, Any] = {"marker": marker, "markersize": 3, "color": colour}
        [artists[label]] = ax.plot(when[shown], values[shown], label=label, **style)
    if tol is not None:
        ax.axhline(tol, color="grey", linestyle=":", label=f"tol = {tol:g}")
    ax.set(xlabel=against)
    ax.legend()
    return Display(ax, artists)


def plot_path(
    problem: BoxQP, path: np.ndarray, ax: Axes | None = None, *, levels: int = 12
) -> Display:
    """The path of a solver on the contours of -½ aᵀQa - pᵀa, in two variables.

    Parameters
    ----------
    problem : a BoxQP of two variables, of `quadratic`
    path : (steps + 1, 2) array, the `path` of a solution
    levels : how many contours are drawn

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mercer.plots import plot_path
    >>> from mercer.solvers import CoordinateAscent, quadratic
    >>> problem = quadratic([[1, 0.5], [0.5, 1]], 0, 1, -9.0, 9.0, None)
    >>> found = CoordinateAscent(record=True).solve(problem, start=[2, -2])
    >>> display = plot_path(problem, found.path)
    >>> display.artists_["path"].get_xydata()[0]
    array([ 2., -2.])
    """
    path = np.asarray(path, dtype=float)
    if len(problem) != 2 or path.ndim != 2 or path.shape[1] != 2:
        raise ValueError(
            "plot_path draws problems of two variables, with a path of shape (k, 2); "
            f"got {len(problem)} variables and a path of shape {path.shape}."
        )
    way = problem.variables(path)
    # Around the end, with room for the ellipses that the way crosses.
    half = 1.25 * np.abs(way - way[-1]).max() or 1.0
    low, high = way[-1] - half, way[-1] + half
    axes = [np.linspace(a, b, GRID) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes), axis=-1)
    scale = 1.0 if problem.scale is None else problem.scale
    ax = axes_or_new(ax)
    height = _ascended(problem, grid * scale)
    top, bottom = height.max(), height.min()
    if top > bottom:
        # Evenly spaced on the ground, as the height falls with the square.
        shares = np.linspace(1, 0, levels, endpoint=False) ** 2
        heights = top - (top - bottom) * shares
        ax.contour(*axes, height, heights, cmap="viridis", alpha=0.8)
    [line] = ax.plot(*way.T, "-", color=COLOURS[1], lw=1.8, zorder=3)
    ax.plot(*way.T, "o", color=COLOURS[1], ms=4, zorder=3)
    ax.plot(*way[0], "o", color=paper(), mec=COLOURS[1], mew=2, ms=9, zorder=4,
            label="start")  # fmt: skip
    ax.plot(*way[-1], "*", color=COLOURS[1], mec=ink(), ms=15, zorder=4, label="end")
    _draw_box(problem, low, high, ax)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="a₁", ylabel="a₂")
    ax.legend(fontsize="small")
    return Display(ax, {"path": line})


def _ascended(problem: BoxQP, value: np.ndarray) -> np.ndarray:
    """-½ αᵀQα - linearᵀα - Σ tube|α| at an array (..., 2) of variables."""
    index = np.arange(2) if problem.index is None else problem.index
    Q = problem.gram.dense()[np.ix_(index, index)] * np.outer(
        problem.sign, problem.sign
    )
    square = np.einsum("...s,st,...t", value, Q, value)
    tube = 0.0 if problem.tube is None else problem.tube
    return -square / 2 - value @ problem.linear - np.sum(tube * np.abs(value), axis=-1)


def _draw_box(problem: BoxQP, low: np.ndarray, high: np.ndarray, ax: Axes) -> None:
    """The bounds, where they are within the picture."""
    ends = np.sort(
        [problem.variables(b) for b in (problem.lower, problem.upper)], axis=0
    )
    within = (ends > low) & (ends < high)
    if within.any():
        (left, bottom), (right, top) = np.clip(ends, low - 1, high + 1)
        across = [left, right, right, left, left]
        up = [bottom, bottom, top, top, bottom]
        ax.plot(across, up, color=ink(), lw=1.5, label="bounds")


def plot_ascent(
    curve: Sequence[Step], ax: Axes | None = None, *, by: str = "evidence"
) -> Display:
    """What `optimize` saw: the value at every evaluation, and the best so far.

    Parameters
    ----------
    curve : of `optimize`, or `curve_` of a GaussianProcessRegressor
    by : "evidence", which is maximised; an error otherwise, on a logarithmic scale

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from mercer import KernelRidge, RBF, optimize
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> found = optimize(KernelRidge(kernel=RBF(9.0)), X, np.sin(X[:, 0]), by="loo")
    >>> sorted(found.plot().artists_)
    ['best', 'value']
    """
    if not len(curve):
        raise ValueError(
            "plot_ascent needs at least one evaluation; the curve is empty, as where "
            "nothing was learnt."
        )
    values = np.array([step.value for step in curve])
    upwards = by == "evidence"
    best = np.maximum.accumulate(values) if upwards else np.minimum.accumulate(values)
    when = np.arange(1, len(values) + 1)
    seen = np.where(np.isfinite(values), values, np.nan)
    ax = axes_or_new(ax)
    words = {"evidence": "log evidence", "loo": "mean square error, leave-one-out"}
    [value] = ax.plot(when, seen, "o", ms=4, color=COLOURS[1], label="evaluation")
    [line] = ax.step(when, best, where="post", color=COLOURS[0], label="best so far")
    if not upwards and best[-1] > 0:
        ax.set_yscale("log")
    elif np.isfinite(best[0]):
        # A step too far may be very low, and would hide all the others.
        ax.set_ylim(bottom=best[0] - 0.3 * max(best[-1] - best[0], 1e-9))
    ax.set(xlabel="evaluations", ylabel=words.get(by, "span estimate of the error"))
    ax.legend()
    return Display(ax, {"value": value, "best": line})


def plot_mistakes(
    machine: Any,
    bounds: MistakeBound | Mapping[str, MistakeBound] | None = None,
    ax: Axes | None = None,
) -> Display:
    """The mistakes of a perceptron against the points it was given, below their bound.

    A bound R²‖w‖² + 2 Σξᵢ is drawn as it grows: at every time it holds for the mistakes
    made so far.

    Parameters
    ----------
    machine : a fitted `Perceptron` or `KernelPerceptron`; more than two classes have a
        curve each
    bounds : what `mistake_bound` returned for it; several of them by their names

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mercer import KernelPerceptron, Polynomial
    >>> from mercer.plots import plot_mistakes
    >>> from mercer.theory import mistake_bound
    >>> X, y = [[1, 1], [1, -1], [-1, 1], [-1, -1]], [-1, 1, 1, -1]
    >>> machine = KernelPerceptron(Polynomial(2), random_state=0).fit(X, y)
    >>> display = plot_mistakes(machine, mistake_bound(machine, X, y))
    >>> display.ax_.get_legend_handles_labels()[1]
    ['mistakes', 'bound']
    """
    check_is_fitted(machine)
    ax = axes_or_new(ax)
    curves = machine.mistake_curve_.reshape(len(machine.mistake_curve_), -1).T
    several = len(curves) > 1
    names = [f"mistakes on {name}" for name in machine.classes_]
    for c, curve in enumerate(curves):
        label = names[c] if several else "mistakes"
        ax.step(
            np.arange(len(curve) + 1),
            np.append(0, curve),
            where="post",
            color=COLOURS[c % len(COLOURS)] if several else ink(),
            label=label,
        )
    named: dict[str, Any] = {} if bounds is None else {"bound": bounds}
    if isinstance(bounds, Mapping):
        named = dict(bounds)
    for k, (name, bound) in enumerate(named.items()):
        for c, curve in enumerate(curves):
            ax.step(
                np.arange(len(curve) + 1),
                _growing(bound, c, curve),
                where="post",
                color=COLOURS[(c if several else k) % len(COLOURS)],
                linestyle=["--", ":", "-."][(k if several else 0) % 3],
                label=name if c == 0 or not several else None,
            )
    ax.set(xlabel="points seen", ylabel="mistakes", xlim=(0, len(curves[0])))
    ax.set_ylim(bottom=0)
    ax.legend()
    return Display(ax, {"lines": list(ax.lines)})


def _growing(bound: MistakeBound, c: int, curve: np.ndarray) -> np.ndarray:
    """R²‖w‖² + 2 Σξᵢ over the mistakes made until each point, and before the first."""
    slacks = bound.slacks[c] if isinstance(bound.slacks, list) else bound.slacks
    if len(slacks) != curve[-1]:
        raise ValueError(
            f"The bound is about {len(slacks)} mistakes, the machine made "
            f"{curve[-1]}; compute it after the last fit."
        )
    sums = np.append(0, np.cumsum(slacks))[np.append(0, curve)]
    return (bound.radius * np.atleast_1d(bound.norm)[c]) ** 2 + 2 * sums


def plot_sgd_bound(
    machines: Sequence[Any],
    X: Points,
    y: npt.ArrayLike,
    best: float,
    ax: Axes | None = None,
) -> Display:
    """Mean loss above the best within ‖g‖ ≤ B after T steps, beside L·B·R/√T.

    Both scales are logarithmic. Machines of equal T are drawn as points, and their mean
    as a line: the bound is on the mean over draws.

    Parameters
    ----------
    machines : `KernelSGDClassifier` or `KernelSGDRegressor`, fitted at the rate of the
        theory (`learning_rate="theory"`), each on its own draw of T points
    X, y : points that stand for the distribution the draws came from
    best : the least mean loss on them that any g of this norm reaches

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from mercer import RBF, KernelSGDClassifier
    >>> from mercer.plots import plot_sgd_bound
    >>> X = np.random.default_rng(0).normal(size=(80, 2))
    >>> y = np.sign(X[:, 0])
    >>> machine = KernelSGDClassifier(
    ...     kernel=RBF(0.5), reg=0, norm=2.0, learning_rate="theory", random_state=0
    ... )
    >>> machines = [machine.set_params(max_iter=3).fit(X, y)]
    >>> sorted(plot_sgd_bound(machines, X, y, best=0.0).artists_)
    ['bound', 'draws', 'mean']
    """
    if not len(machines):
        raise ValueError("plot_sgd_bound needs fitted machines; got none.")
    steps = np.array([machine.t_ for machine in machines])
    bound = np.array([machine.bound_ for machine in machines])
    excess = np.array([machine.mean_loss(X, y) for machine in machines]) - best
    places = np.unique(steps)
    means = [excess[steps == place].mean() for place in places]
    ax = axes_or_new(ax)
    ax.set(xscale="log", yscale="log", xlabel="T", ylabel="mean loss − the best")
    style: dict[str, Any] = {"color": COLOURS[0], "alpha": 0.35, "markersize": 4}
    [draws] = ax.plot(steps, excess, "o", label="a draw", **style)
    [mean] = ax.plot(places, means, color=COLOURS[0], label="mean over the draws")
    highest = [bound[steps == place].max() for place in places]
    [limit] = ax.plot(places, highest, "--", color=COLOURS[1], label="L·B·R/√T")
    ax.legend()
    return Display(ax, {"draws": draws, "mean": mean, "bound": limit})
