"""Pictures: Gram matrices and spectra; what a machine learnt; how a solve went; losses.

Every function draws on a matplotlib Axes (a new one unless given) and returns it;
none shows a window or writes a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.base import is_outlier_detector, is_regressor
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.multiclass import scores
from mercer.points import Points, as_points, is_frame
from mercer.solvers.losses import Loss, ZeroOne
from mercer.solvers.problems import BoxQP, Progress
from mercer.theory import MistakeBound

try:
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap, ListedColormap
except ImportError as error:
    raise ImportError(
        'mercer.plots draws with matplotlib. Install it: pip install "mercer[plot]".'
    ) from error

COLOURS = [f"C{k}" for k in range(10)]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<", ">", "p"]
GRID = 301  # places along each axis where a machine is asked
SMALLEST, LARGEST = 20, 130  # the area of a point, and of the heaviest support vector


def plot_gram(
    K: np.ndarray | Gram | Kernel,
    points: Points | None = None,
    order: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """K as a heat map, one cell per pair of points.

    Parameters
    ----------
    K : (n, n) array, a Gram, or a kernel on `points`
    order : n labels; points are grouped by label, with a line between the groups
    """
    values = _dense(K, points)
    ax = ax or plt.figure().gca()
    if order is not None:
        labels = _labels(order, len(values))
        place = np.argsort(labels, kind="stable")
        values = values[np.ix_(place, place)]
    image = ax.imshow(values, interpolation="nearest", **_colours(values))
    ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04)
    if order is None:
        ax.set(xlabel="point", ylabel="point")
    else:
        _draw_groups(ax, labels[place])
    return ax


def plot_spectrum(
    K: np.ndarray | Gram | Kernel, points: Points | None = None, ax: Axes | None = None
) -> Axes:
    """The eigenvalues |λ₁| ≥ |λ₂| ≥ ... of K on a logarithmic scale.

    Negative ones, which no positive semidefinite matrix has, are drawn apart. Below the
    dotted line n · eps · |λ₁| an eigenvalue is rounding.
    """
    values = _dense(K, points)
    eigenvalues = np.linalg.eigvalsh(values.astype(float))
    eigenvalues = eigenvalues[np.argsort(-np.abs(eigenvalues))]
    rank = np.arange(1, len(eigenvalues) + 1)
    ax = ax or plt.figure().gca()
    for chosen, style, label in (
        (eigenvalues > 0, "o", "positive"),
        (eigenvalues < 0, "x", "negative"),
    ):
        if chosen.any():
            sizes = np.abs(eigenvalues[chosen])
            ax.semilogy(rank[chosen], sizes, style, markersize=4, label=label)
    # A float32 matrix brings its own rounding along.
    eps = np.finfo(values.dtype).eps
    rounding = len(values) * eps * np.abs(eigenvalues).max(initial=0)
    if rounding > 0:
        ax.axhline(rounding, color="grey", linestyle=":", label="rounding")
    ax.set(xlabel="rank", ylabel="|eigenvalue|")
    ax.legend()
    return ax


def plot_regions(
    machine: Any,
    X: Points,
    y: Any = None,
    ax: Axes | None = None,
    *,
    legend: bool = True,
) -> Axes:
    """The regions of a fitted machine in the plane, f = 0, f = ±1, support vectors.

    The boundary is a full line, the margins are dashed. The area of a support vector
    grows with its |α|; the free ones, which lie on the margin, are filled, those at
    their bound, which lie inside the margin or beyond it, have a ring.

    Machines that are not made of support vectors have regions and lines between them.
    With several classes the margins of a pair are drawn where these two come first; a
    support vector of several pairs has its largest |α|, and a ring if any of the pairs
    has it at the bound. One class has a boundary and no margins.

    Parameters
    ----------
    machine : a fitted classifier or one-class machine, or a Pipeline that ends in one
    X : (n, 2) array or data frame of points to draw; those of `fit` for a Pipeline
    y : their classes; None for points without colour
    legend : whether to say in the picture what is what
    """
    check_is_fitted(machine)
    if is_regressor(machine):
        raise ValueError(
            f"plot_regions draws classes; {type(_last(machine)).__name__} predicts "
            "numbers. Use plot_tube."
        )
    values = np.asarray(X, dtype=float)
    if values.ndim != 2 or values.shape[1] != 2:
        raise ValueError(
            f"plot_regions draws points of the plane, (n, 2); got shape {values.shape}."
        )
    if y is not None:
        y = _one_each(y, len(values))
    support = _support(machine, values)
    ax = ax or plt.figure().gca()
    corners = _like(X, _frame(values))
    classes = getattr(machine, "classes_", [None])
    if len(classes) > 2 or not hasattr(machine, "decision_function"):
        _draw_several(machine, corners, len(classes), ax)
    else:
        _draw_two(machine, corners, ax)
    _draw_points(values, y, classes, ax)
    _draw_support(support, ax)
    if legend:
        ax.legend(fontsize="small")
    return ax


def plot_clusters(
    machine: Any, X: Points, y: Any = None, ax: Axes | None = None
) -> Axes:
    """The regions of the clusters in the plane, and the points with their cluster.

    Parameters
    ----------
    machine : fitted, with `predict` for points of the plane: a KernelKMeans, ...
    X : (n, 2) array or data frame of points to draw
    y : their classes, drawn as markers; None for one marker
    """
    check_is_fitted(machine)
    values = np.asarray(X, dtype=float)
    if values.ndim != 2 or values.shape[1] != 2:
        raise ValueError(
            f"plot_clusters draws points of the plane, (n, 2); got {values.shape}."
        )
    kind = np.zeros(len(values)) if y is None else _one_each(y, len(values))
    ax = ax or plt.figure().gca()
    low, high = _frame(values)
    place = np.meshgrid(*np.linspace(low, high, GRID).T)
    grid = _like(X, np.column_stack([axis.ravel() for axis in place]))
    region = machine.predict(grid).reshape(place[0].shape)
    label = machine.predict(X)
    found = np.union1d(region, label).astype(int)
    for c in found:
        own = gaussian_filter((region == c).astype(float), 1.0)
        colour = COLOURS[c % len(COLOURS)]
        ax.contourf(*place, own, [0.5, 2.0], colors=[colour], alpha=0.18)
        if own.min() < 0.5 < own.max():
            ax.contour(*place, own, [0.5], colors="black", linewidths=1.5)
    for k, name in enumerate(np.unique(kind)):
        for c in np.unique(label):
            x1, x2 = values[(kind == name) & (label == c)].T
            marker, colour = MARKERS[k % len(MARKERS)], COLOURS[c % len(COLOURS)]
            ax.scatter(x1, x2, s=SMALLEST, color=colour, marker=marker, linewidths=0)
    return ax


def plot_tube(
    machine: Any, X: Points, y: Any, ax: Axes | None = None, *, legend: bool = True
) -> Axes:
    """f of a support vector regression on the line, and the tube f ± ε around it.

    The area of a support vector grows with its |α|; the free ones, which lie on the rim
    of the tube, are filled, those at their bound, which lie outside, have a ring. The
    ε of NuSVR is the one it found.

    Parameters
    ----------
    machine : a fitted SVR or NuSVR, or a Pipeline that ends in one
    X, y : the n points of `fit`, (n, 1), and their targets
    legend : whether to say in the picture what is what
    """
    check_is_fitted(machine)
    last = _last(machine)
    if not (is_regressor(machine) and hasattr(last, "support_")):
        raise ValueError(
            f"plot_tube draws a support vector regression; {type(last).__name__} is "
            "none. plot_regions draws classes."
        )
    values = np.asarray(X, dtype=float)
    if values.ndim != 2 or values.shape[1] != 1:
        raise ValueError(
            f"plot_tube draws a function on the line, (n, 1); got shape {values.shape}."
        )
    y = _one_each(y, len(values)).astype(float)
    place = _of_fit(last, np.column_stack([values, y]))
    distance = np.abs(y - machine.predict(X))
    # Free support vectors lie on the rim of the tube, the others outside.
    nearest = distance[last.support_].min(initial=distance.max())
    epsilon = getattr(last, "epsilon", nearest)
    support = _Support(
        place,
        label=np.ones(len(place), dtype=int),
        weight=np.abs(last.expansion_.coef),
        bound=distance[last.support_] > epsilon + last.tol,
    )
    ax = ax or plt.figure().gca()
    low, high = _frame(values)
    line = np.linspace(low, high, 2 * GRID)
    curve, x = machine.predict(_like(X, line)), line[:, 0]
    colour, rim = COLOURS[0], f"f ± ε,  ε = {epsilon:.3g}"
    ax.fill_between(x, curve - epsilon, curve + epsilon, color=colour, alpha=0.12, lw=0)
    for side, label in ((-epsilon, rim), (epsilon, None)):
        ax.plot(x, curve + side, color=colour, linestyle="--", lw=1, label=label)
    ax.plot(x, curve, color=colour, linewidth=2, label="f")
    ax.scatter(values[:, 0], y, s=SMALLEST, color="grey", lw=0, zorder=3, label="point")
    _draw_support(support, ax, marker="o")
    ax.margins(x=0)
    if is_frame(X):
        ax.set_xlabel(X.columns[0])
    if legend:
        ax.legend(fontsize="small")
    return ax


def plot_density(
    machine: Any,
    X: Points,
    ax: Axes | None = None,
    *,
    shares: Sequence[float] = (0.25, 0.5, 0.75, 0.95),
    legend: bool = True,
) -> Axes:
    """Contours of a density in the plane; each surrounds a share of the points of X.

    Of all regions with that share of the points these are the ones where p is highest:
    the contour of the share s is at the (1 - s) quantile of p over X.

    Parameters
    ----------
    machine : a fitted density, with `score_samples` for ln p
    X : (n, 2) array or data frame of points to draw
    shares : from the inside out, increasing, between 0 and 1
    legend : whether to say in the picture what is what
    """
    check_is_fitted(machine)
    values = np.asarray(X, dtype=float)
    if values.ndim != 2 or values.shape[1] != 2:
        raise ValueError(
            f"plot_density draws points of the plane, (n, 2); got shape {values.shape}."
        )
    if not (len(shares) and (np.diff([0.0, *shares, 1.0]) > 0).all()):
        raise ValueError(
            f"plot_density needs increasing shares between 0 and 1; got {shares}."
        )
    outwards = np.array(shares, dtype=float)[::-1]
    ax = ax or plt.figure().gca()
    sides = [np.linspace(low, high, GRID) for low, high in _frame(values).T]
    place = np.meshgrid(*sides)
    grid = _like(X, np.column_stack([axis.ravel() for axis in place]))
    logs = machine.score_samples(grid).reshape(place[0].shape)
    levels = np.quantile(machine.score_samples(X), 1 - outwards)
    # Contours need rising levels; points all alike have one.
    levels, chosen = np.unique(levels, return_index=True)
    x1, x2 = values.T
    ax.scatter(x1, x2, s=SMALLEST / 2, color="grey", alpha=0.6, lw=0, label="point")
    shades = plt.get_cmap("Blues")(np.linspace(0.25, 0.85, len(levels)))
    ax.contourf(*place, logs, [*levels, np.inf], colors=shades, alpha=0.45, zorder=0)
    ax.contour(*place, logs, levels, colors=shades * [0.7, 0.7, 0.7, 1], linewidths=1.4)
    if is_frame(X):
        ax.set(xlabel=X.columns[0], ylabel=X.columns[1])
    if legend:
        for share, shade in zip(outwards[chosen], shades, strict=True):
            ax.fill([], [], color=shade, alpha=0.8, label=f"{share:.0%} of the points")
        ax.legend(fontsize="small")
    return ax


def plot_convergence(
    history: Sequence[Progress],
    ax: Axes | None = None,
    *,
    against: str = "iterations",
    optimum: float | None = None,
    tol: float | None = None,
) -> Axes:
    """How a solve came to its end: the violation, and the objective above its optimum.

    Both on a logarithmic scale. A history is what a solver tells on its way:

        history = []
        solution = SMO().solve(problem, watch=history.append)
        plot_convergence(history, optimum=-solution.dual)

    Parameters
    ----------
    against : "iterations" or "seconds"
    optimum : the least objective, -dual of the finest solution known; None for the
        objective at the end of the history
    tol : a line is drawn there; below it the solver stops
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
    ax = ax or plt.figure().gca()
    ax.set_yscale("log")
    marker = "o" if len(history) <= 60 else None
    for values, label in ((violation, "violation"), (excess, "objective − optimum")):
        # A logarithmic scale has no place for what is 0, or below it by rounding.
        shown = values > 1e-15 * np.abs(objective).max()
        ax.plot(when[shown], values[shown], marker=marker, markersize=3, label=label)
    if tol is not None:
        ax.axhline(tol, color="grey", linestyle=":", label=f"tol = {tol:g}")
    ax.set(xlabel=against)
    ax.legend()
    return ax


def plot_component(
    machine: Any, X: Points, component: int = 0, ax: Axes | None = None
) -> Axes:
    """One coordinate f of a fitted KernelPCA in the plane: its contour lines, f = 0.

    On a line all points have the same projection on the component. The title is the
    eigenvalue.

    Parameters
    ----------
    machine : a fitted KernelPCA
    X : (n, 2) array or data frame of points to draw
    component : which one, from 0
    """
    check_is_fitted(machine)
    values = np.asarray(X, dtype=float)
    if values.ndim != 2 or values.shape[1] != 2:
        raise ValueError(
            "plot_component draws points of the plane, (n, 2); got shape "
            f"{values.shape}."
        )
    count = len(machine.eigenvalues_)
    if not 0 <= component < count:
        raise ValueError(
            f"plot_component draws one of {count} components, from 0; got {component}."
        )
    (left, bottom), (right, top) = _frame(values)
    x, y = np.linspace(left, right, GRID), np.linspace(bottom, top, GRID)
    places = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    f = np.asarray(machine.transform(_like(X, places)))[:, component]
    f = f.reshape(GRID, GRID)
    size = np.abs(f).max() or 1.0
    ax = ax or plt.figure().gca()
    ax.contourf(x, y, f, np.linspace(-size, size, 21), cmap="RdBu", alpha=0.75)
    lines = np.linspace(-size, size, 17)
    ax.contour(x, y, f, lines[lines != 0], colors="0.35", linewidths=0.6)
    if f.min() < 0 < f.max():
        ax.contour(x, y, f, [0.0], colors="black", linewidths=1.4)
    x, y = values.T
    ax.scatter(x, y, s=SMALLEST / 2, color="black", linewidths=0, zorder=3)
    ax.set(title=f"λ = {machine.eigenvalues_[component]:.2f}")
    if is_frame(X):
        ax.set(xlabel=X.columns[0], ylabel=X.columns[1])
    return ax


def plot_losses(
    losses: Sequence[Loss | ZeroOne],
    ax: Axes | None = None,
    *,
    reach: float = 3.0,
    conjugate: bool = False,
) -> Axes:
    """ℓ(y, f) against y f for losses of a side, against y - f for those of a number.

    A dot marks what counts where a loss jumps: at y f = 0 the 0-1 loss is 1.

    Parameters
    ----------
    losses : all of one of the two kinds
    reach : the curves go from -reach to reach
    conjugate : whether to draw ℓ*(1, u), or ℓ*(0, u), against u instead, where finite
    """
    losses = list(losses)
    if not losses or len({loss.of_sides for loss in losses}) > 1:
        raise ValueError(
            "plot_losses needs losses of one kind, of sides or of numbers: the axis is "
            f"y f or y - f; got {losses!r}. Draw the kinds side by side."
        )
    ax = ax or plt.figure().gca()
    sides = losses[0].of_sides
    for k, loss in enumerate(losses):
        style: dict[str, Any] = {
            "color": COLOURS[k % len(COLOURS)],
            "label": repr(loss),
        }
        if conjugate and isinstance(loss, Loss):
            _draw_conjugate(loss, reach, ax, style)
        elif not conjugate:
            _draw_loss(loss, reach, ax, style)
    target = "1" if sides else "0"
    name = "y f" if sides else "y − f"
    across, up = ("u", f"ℓ*({target}, u)") if conjugate else (name, "loss")
    ax.set(xlabel=across, ylabel=up)
    ax.legend(fontsize="small")
    return ax


def _draw_loss(loss, reach: float, ax: Axes, style: dict) -> None:
    # Both sides of 0, where the 0-1 loss jumps, and the corners at ±1.
    line = np.linspace(-reach, reach, 2 * GRID - 1)
    if isinstance(loss, ZeroOne):
        for part in (line[line <= 0], line[line > 0]):
            ax.plot(part, loss.value(1.0, part), lw=2.2, **style)
            style = style | {"label": None}
        ax.plot([0], [1], "o", ms=6, **style)
        return
    values = loss.value(1.0, line) if loss.of_sides else loss.value(line, 0.0)
    ax.plot(line, values, lw=2, **style)


def _draw_conjugate(loss: Loss, reach: float, ax: Axes, style: dict) -> None:
    target = 1.0 if loss.of_sides else 0.0
    least, largest = (float(end) for end in loss.slopes(np.array(target)))
    line = np.linspace(max(least, -reach), min(largest, reach), GRID)
    ax.plot(line, loss.conjugate(target, line), lw=2, **style)
    # Beyond the last slope the conjugate is infinite.
    ends = [end for end in (least, largest) if abs(end) <= reach]
    ax.plot(
        ends,
        loss.conjugate(target, np.array(ends)),
        "o",
        ms=5,
        **style | {"label": None},
    )


def plot_path(
    problem: BoxQP, path: np.ndarray, ax: Axes | None = None, *, levels: int = 12
) -> Axes:
    """The way of a solver on the contours of -½ aᵀQa - pᵀa, a problem of two variables.

        problem = quadratic(Q, p, 1, lower, upper, None)
        solution = CoordinateAscent(record=True).solve(problem, start=[2, -2])
        plot_path(problem, solution.path)

    Parameters
    ----------
    path : (steps + 1, 2) array, `solution.path`
    levels : how many contours are drawn
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
    ax = ax or plt.figure().gca()
    height = _ascended(problem, grid * scale)
    top, bottom = height.max(), height.min()
    if top > bottom:
        # Evenly spaced on the ground, as the height falls with the square.
        shares = np.linspace(1, 0, levels, endpoint=False) ** 2
        heights = top - (top - bottom) * shares
        ax.contour(*axes, height, heights, cmap="viridis", alpha=0.8)
    ax.plot(*way.T, "-", color="crimson", lw=1.8, zorder=3)
    ax.plot(*way.T, "o", color="crimson", ms=4, zorder=3)
    ax.plot(*way[0], "o", color="white", mec="crimson", mew=2, ms=9, zorder=4,
            label="start")  # fmt: skip
    ax.plot(*way[-1], "*", color="crimson", mec="black", ms=15, zorder=4, label="end")
    _draw_box(problem, low, high, ax)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="a₁", ylabel="a₂")
    ax.legend(fontsize="small")
    return ax


def _ascended(problem: BoxQP, value: np.ndarray) -> np.ndarray:
    """-½ αᵀQα - linearᵀα - Σ tube|α| at an array (..., 2) of variables."""
    index = np.arange(2) if problem.index is None else problem.index
    Q = problem.gram.dense()[np.ix_(index, index)] * np.outer(
        problem.sign, problem.sign
    )
    square = np.einsum("...s,st,...t", value, Q, value)
    tube = 0.0 if problem.tube is None else problem.tube
    return -square / 2 - value @ problem.linear - np.sum(tube * np.abs(value), axis=-1)


def _draw_box(problem: BoxQP, low, high, ax: Axes) -> None:
    """The bounds, where they are within the picture."""
    ends = np.sort(
        [problem.variables(b) for b in (problem.lower, problem.upper)], axis=0
    )
    within = (ends > low) & (ends < high)
    if within.any():
        (left, bottom), (right, top) = np.clip(ends, low - 1, high + 1)
        across = [left, right, right, left, left]
        up = [bottom, bottom, top, top, bottom]
        ax.plot(across, up, color="black", lw=1.5, label="bounds")


def plot_mistakes(
    machine,
    bounds: MistakeBound | Mapping[str, MistakeBound] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The mistakes of a perceptron against the points it has seen, below their bound.

    A bound R²‖w‖² + 2 Σξᵢ is drawn as it grows: at every time it holds for the mistakes
    made so far.

    Parameters
    ----------
    machine : a fitted `Perceptron` or `KernelPerceptron`; more than two classes have a
        curve each
    bounds : what `mistake_bound` returned for it; several of them by their names
    """
    check_is_fitted(machine)
    ax = ax or plt.figure().gca()
    curves = machine.mistake_curve_.reshape(len(machine.mistake_curve_), -1).T
    several = len(curves) > 1
    names = [f"mistakes on {name}" for name in machine.classes_]
    for c, curve in enumerate(curves):
        label = names[c] if several else "mistakes"
        ax.step(
            np.arange(len(curve) + 1),
            np.append(0, curve),
            where="post",
            color=COLOURS[c % len(COLOURS)] if several else "black",
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
    return ax


def plot_sgd_bound(
    machines: Sequence[Any], X: Points, y, best: float, ax: Axes | None = None
) -> Axes:
    """Mean loss above the best within ‖g‖ ≤ B after T steps, beside L·B·R/√T.

    Both scales are logarithmic. Machines of equal T are drawn as points, and their mean
    as a line: the bound speaks of the mean over draws.

    Parameters
    ----------
    machines : `KernelSGDClassifier` or `KernelSGDRegressor`, fitted at the rate of the
        theory (`learning_rate="theory"`), each on its own draw of T points
    X, y : points that stand for the distribution the draws came from
    best : the least mean loss on them that any g of this norm reaches
    """
    if not len(machines):
        raise ValueError("plot_sgd_bound needs fitted machines; got none.")
    steps = np.array([machine.t_ for machine in machines])
    bound = np.array([machine.bound_ for machine in machines])
    excess = np.array([machine.mean_loss(X, y) for machine in machines]) - best
    places = np.unique(steps)
    means = [excess[steps == place].mean() for place in places]
    ax = ax or plt.figure().gca()
    ax.set(xscale="log", yscale="log", xlabel="T", ylabel="mean loss − the best")
    ax.plot(steps, excess, "o", color="C0", alpha=0.35, markersize=4, label="a draw")
    ax.plot(places, means, color="C0", label="mean over the draws")
    highest = [bound[steps == place].max() for place in places]
    ax.plot(places, highest, color="C3", linestyle="--", label="L·B·R/√T")
    ax.legend()
    return ax


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


class _Support(NamedTuple):
    """Support vectors: where they are drawn, of which class, |α|, and at the bound?"""

    place: np.ndarray
    label: np.ndarray
    weight: np.ndarray
    bound: np.ndarray


def _support(machine, values) -> _Support:
    """The support vectors of a machine; none, where it is not made of them.

    Free ones have yᵢ f(xᵢ) = 1 to the tolerance of the solver, those at their bound
    less: this tells them apart whatever the points and the classes weigh.
    """
    last = _last(machine)
    if not hasattr(last, "support_"):
        nothing = np.zeros(0)
        return _Support(np.zeros((0, 2)), nothing.astype(int), nothing, nothing > 0)
    f = last.expansion_
    place = f.points if machine is last else _of_fit(last, values)
    coef = f.coef.reshape(len(f.coef), -1)
    weight = np.abs(coef).max(axis=1, initial=0)
    if is_outlier_detector(last):
        # What the coefficients sum to is the unit of f; SVDD has divided it by νn.
        tol = last.tol * coef.sum() / (last.nu * last.shape_fit_[0])
        bound = last.decision_function(f.points) < -tol
        return _Support(place, np.zeros(len(coef), dtype=int), weight, bound)
    label = np.repeat(np.arange(len(last.classes_)), last.n_support_)
    reached = np.sign(coef) * f(f.points).reshape(coef.shape)
    bound = ((coef != 0) & (reached < 1 - last.tol)).any(axis=1)
    return _Support(place, label, weight, bound)


def _of_fit(last, values: np.ndarray) -> np.ndarray:
    """The support vectors among the points of `fit`, as they are drawn."""
    if last.shape_fit_[0] != len(values):
        raise ValueError(
            f"{type(last).__name__} knows its support vectors by their places among "
            f"the {last.shape_fit_[0]} points of `fit`; got {len(values)} points. Pass "
            "those of `fit`."
        )
    return values[last.support_]


def _last(machine):
    return machine[-1] if isinstance(machine, Pipeline) else machine


def _frame(values: np.ndarray) -> np.ndarray:
    """The lower and the upper corner of a picture with room around the points."""
    low, high = values.min(axis=0), values.max(axis=0)
    room = np.where(high > low, 0.12 * (high - low), 1.0)
    return np.array([low - room, high + room])


def _like(X, values: np.ndarray) -> Points:
    """Values in a data frame with the columns of X, if X is one."""
    if not is_frame(X):
        return values
    return type(X)(dict(zip(X.columns, values.T, strict=True)))


def _one_each(y, n: int) -> np.ndarray:
    y = np.asarray(y)
    if y.shape != (n,):
        raise ValueError(f"y needs {n} values, one per point; got shape {y.shape}.")
    return y


def _draw_two(machine, corners, ax: Axes) -> None:
    """Where f < 0, where f > 0, and the lines between; f = ±1 for two classes."""
    inside = is_outlier_detector(machine)
    display = DecisionBoundaryDisplay.from_estimator(
        machine,
        corners,
        response_method="decision_function",
        grid_resolution=GRID,
        eps=0,
        levels=[-np.inf, 0, np.inf],
        colors=["white", COLOURS[0]] if inside else COLOURS[:2],
        alpha=0.18,
        ax=ax,
    )
    style: dict[str, Any] = {"levels": [0.0], "linestyles": "solid", "linewidths": 1.8}
    if not inside and hasattr(_last(machine), "support_"):
        style = {
            "levels": [-1.0, 0.0, 1.0],
            "linestyles": ["dashed", "solid", "dashed"],
            "linewidths": [1.0, 1.8, 1.0],
        }
    display.plot(plot_method="contour", ax=ax, colors="black", **style)


def _draw_several(machine, corners, n_classes: int, ax: Axes) -> None:
    """The region of each class, the lines between, and the margins of each duel."""
    colours = [COLOURS[k % len(COLOURS)] for k in range(n_classes)]
    # scikit-learn takes the colours of classes for three or more of them.
    painted: dict[str, Any] = {"multiclass_colors": colours}
    if n_classes == 2:
        painted = {"cmap": ListedColormap(colours)}
    display = DecisionBoundaryDisplay.from_estimator(
        machine,
        corners,
        response_method="predict",
        # Contours of class numbers would show class 1 between 0 and 2.
        plot_method="pcolormesh",
        grid_resolution=GRID,
        eps=0,
        **painted,
        alpha=0.18,
        linewidth=0,
        rasterized=True,
        ax=ax,
    )
    place = display.xx0, display.xx1
    for k in range(n_classes):
        # The edge of a 0-1 picture is a staircase; blurred by a cell it is a line.
        own = gaussian_filter((display.response == k).astype(float), 1.5)
        if own.min() < 0.5 < own.max():
            ax.contour(*place, own, [0.5], colors="black", linewidths=1.8)
    if not hasattr(_last(machine), "multiclass"):
        return
    grid = _like(corners, np.column_stack([axis.ravel() for axis in place]))
    for values in _duels(machine, grid, n_classes):
        values = values.reshape(place[0].shape)
        known = values[np.isfinite(values)]
        for level in (-1.0, 1.0):
            # matplotlib warns of a level that is nowhere.
            if (known < level).any() and (known > level).any():
                ax.contour(
                    *place,
                    np.ma.masked_invalid(values),
                    [level],
                    colors="black",
                    linestyles="dashed",
                    linewidths=1.0,
                )


def _duels(machine, grid, n_classes: int) -> list[np.ndarray]:
    """f of each pair of classes, NaN but where these two come first.

    Of one-against-the-rest there are no pairs: f of each class, where it comes first.
    """
    last = _last(machine)
    points = machine[:-1].transform(grid) if last is not machine else grid
    values = last.expansion_(np.asarray(points))
    first = np.searchsorted(machine.classes_, machine.predict(grid))
    if getattr(last, "multiclass", "ovr") == "ovr":
        return [np.where(first == k, f, np.nan) for k, f in enumerate(values.T)]
    score = scores(values, n_classes)
    score[np.arange(len(score)), first] = np.inf
    ahead = np.sort(np.argsort(score, axis=1)[:, -2:], axis=1)
    pairs = zip(combinations(range(n_classes), 2), values.T, strict=True)
    return [np.where((ahead == pair).all(axis=1), f, np.nan) for pair, f in pairs]


def _draw_points(values, y, classes, ax: Axes) -> None:
    if y is None:
        x1, x2 = values.T
        ax.scatter(x1, x2, s=SMALLEST, color="grey", linewidths=0, label="point")
        return
    names = np.unique(y) if len(classes) < 2 else classes
    for k, name in enumerate(names):
        x1, x2 = values[y == name].T
        ax.scatter(
            x1,
            x2,
            s=SMALLEST,
            color=COLOURS[k % len(COLOURS)],
            marker=MARKERS[k % len(MARKERS)],
            linewidths=0,
            label=str(name),
        )


def _draw_support(support: _Support, ax: Axes, marker: str | None = None) -> None:
    """Free support vectors filled, those at their bound with a ring around them."""
    heaviest = support.weight.max(initial=0) or 1.0
    area = SMALLEST + (LARGEST - SMALLEST) * support.weight / heaviest
    for k in np.unique(support.label):
        free = (support.label == k) & ~support.bound
        x1, x2 = support.place[free].T
        ax.scatter(
            x1,
            x2,
            s=area[free],
            color=COLOURS[k % len(COLOURS)],
            marker=marker or MARKERS[k % len(MARKERS)],
            edgecolors="black",
            zorder=4,
        )
    bound = support.bound
    ring: dict[str, Any] = {"edgecolors": "black", "facecolors": "none", "zorder": 4}
    x1, x2 = support.place[bound].T
    ax.scatter(x1, x2, s=area[bound], **ring)
    # What the legend shows is nowhere: in the picture each class has its colour.
    for some, colour, name in (
        (~bound, "lightgrey", "free support vector"),
        (bound, "none", "support vector at its bound"),
    ):
        if some.any():
            style = ring | {"facecolors": colour, "s": LARGEST / 2}
            ax.scatter([], [], **style, label=name)


def _dense(K, points) -> np.ndarray:
    if isinstance(K, Kernel):
        if points is None:
            raise ValueError(
                f"A picture of {K!r} needs points to compare; pass points=X."
            )
        return K.resolve(as_points(points))(points)
    if points is not None:
        raise ValueError(
            "points go with a kernel; a matrix is drawn as it is. Pass one of the two."
        )
    K = K.dense() if isinstance(K, Gram) else np.asarray(K)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"A Gram matrix is square; got shape {K.shape}.")
    return K if K.dtype.kind == "f" else K.astype(float)


def _labels(order, n: int) -> np.ndarray:
    labels = np.asarray(order)
    if labels.shape != (n,):
        raise ValueError(f"order needs {n} labels, one per point; got {labels.shape}.")
    return labels


def _colours(values: np.ndarray) -> dict[str, Any]:
    """One hue for similarities ≥ 0, two around white where some are negative."""
    if values.min(initial=0) >= 0:
        return {"cmap": "magma", "vmin": 0}
    largest = np.abs(values).max()
    return {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest}


def _draw_groups(ax: Axes, labels: np.ndarray) -> None:
    names, first, size = np.unique(labels, return_index=True, return_counts=True)
    for edge in first[1:] - 0.5:
        ax.axhline(edge, color="white", linewidth=0.5)
        ax.axvline(edge, color="white", linewidth=0.5)
    centres = first + (size - 1) / 2
    ax.set_xticks(centres, names)
    ax.set_yticks(centres, names)
    ax.tick_params(length=0)


def plot_band(
    machine: Any, X: Points, y: Any, ax: Axes | None = None, *, legend: bool = True
) -> Axes:
    """The mean of a regression on the line, two deviations around it, and its vectors.

    The darker band is f ± 2σ, the lighter one where 19 of 20 new values are expected.

    Parameters
    ----------
    machine : a fitted RVR, or a regressor whose `predict` has `return_std`
    X, y : points to draw, (n, 1), and their targets; those of `fit` for the vectors
    legend : whether to say in the picture what is what
    """
    check_is_fitted(machine)
    values = np.asarray(X, dtype=float)
    if values.ndim != 2 or values.shape[1] != 1:
        raise ValueError(
            f"plot_band draws a function on the line, (n, 1); got shape {values.shape}."
        )
    y = _one_each(y, len(values)).astype(float)
    low, high = _frame(values)
    line = np.linspace(low, high, 2 * GRID)
    mean, deviation = machine.predict(_like(X, line), return_std=True)
    x, colour = line[:, 0], COLOURS[0]
    ax = ax or plt.figure().gca()
    bands = [(deviation, 0.12, "new values, ± 2σ")]
    if hasattr(machine, "beta_"):
        own = np.sqrt(np.maximum(deviation**2 - 1 / machine.beta_, 0))
        bands.append((own, 0.3, "f ± 2σ"))
    for width, alpha, label in bands:
        sides = mean - 2 * width, mean + 2 * width
        ax.fill_between(x, *sides, color=colour, alpha=alpha, lw=0, label=label)
    ax.plot(x, mean, color=colour, linewidth=2, label="mean")
    ax.scatter(values[:, 0], y, s=SMALLEST, color="grey", lw=0, zorder=3, label="point")
    _draw_relevance(machine, np.column_stack([values[:, 0], y]), ax)
    ax.margins(x=0)
    if legend:
        ax.legend(fontsize="small")
    return ax


def plot_probabilities(
    machine: Any, X: Points, y: Any, ax: Axes | None = None, *, legend: bool = True
) -> Axes:
    """The probability of the second of two classes in the plane, and the vectors.

    The boundary, p = ½, is a full line; p = ¼ and ¾ are dashed.

    Parameters
    ----------
    machine : a fitted RVC, or a classifier of two classes with `predict_proba`
    X, y : points to draw, (n, 2), and their classes; those of `fit` for the vectors
    legend : whether to say in the picture what is what
    """
    check_is_fitted(machine)
    values = np.asarray(X, dtype=float)
    if values.ndim != 2 or values.shape[1] != 2 or len(machine.classes_) != 2:
        raise ValueError(
            "plot_probabilities draws two classes in the plane, (n, 2); got shape "
            f"{values.shape} and {len(machine.classes_)} classes. Use plot_regions."
        )
    ax = ax or plt.figure().gca()
    corners = _like(X, _frame(values))
    display = DecisionBoundaryDisplay.from_estimator(
        machine,
        corners,
        response_method="predict_proba",
        class_of_interest=machine.classes_[1],
        grid_resolution=GRID,
        eps=0,
        levels=np.linspace(0, 1, 21),
        cmap=LinearSegmentedColormap.from_list("", [COLOURS[0], "white", COLOURS[1]]),
        alpha=0.5,
        ax=ax,
    )
    display.plot(
        plot_method="contour",
        ax=ax,
        cmap=None,
        colors="black",
        levels=[0.25, 0.5, 0.75],
        linestyles=["dashed", "solid", "dashed"],
        linewidths=[1.0, 1.8, 1.0],
        alpha=1.0,
    )
    _draw_points(values, _one_each(y, len(values)), machine.classes_, ax)
    _draw_relevance(machine, values, ax)
    if legend:
        ax.legend(fontsize="small")
    return ax


def _draw_relevance(machine, places: np.ndarray, ax: Axes) -> None:
    """Rings around the relevance vectors among the points of `fit`, if there are."""
    chosen = getattr(machine, "relevance_", np.empty(0, dtype=int))
    if len(chosen) and chosen.max() < len(places):
        x1, x2 = places[chosen].T
        ax.scatter(
            x1,
            x2,
            s=LARGEST,
            facecolors="none",
            edgecolors="black",
            linewidths=1.6,
            zorder=5,
            label="relevance vector",
        )
