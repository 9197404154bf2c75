"""What a machine says at every point of the plane."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from scipy.ndimage import binary_dilation, gaussian_filter
from sklearn.base import is_outlier_detector, is_regressor
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.utils.validation import check_is_fitted

from mercer.data.points import Points
from mercer.plots.base import (
    COLOURS,
    DIVERGING,
    GRID,
    MARKERS,
    SMALLEST,
    Display,
    axes_or_new,
    draw_points,
    draw_support,
    frame_of,
    ink,
    last_step,
    legend_beside,
    like,
    name_axes,
    one_each,
    paper,
    plane_of,
    support_of,
)

COARSE = 200  # grid points along each axis where all classes are predicted,
FINER = 5  # and parts of a cell where the class changes


def plot_regions(
    machine: Any,
    X: Points,
    y: Any = None,
    ax: Axes | None = None,
    *,
    legend: bool = True,
) -> Display:
    """The regions of a fitted machine in the plane, f = 0, f = ±1, support vectors.

    The boundary is a full line, the margins are dashed. The area of a support vector
    grows with its |α|; the free ones, which lie on the margin, are filled, those at
    their bound, which lie inside the margin or beyond it, have a ring.

    Machines that are not made of support vectors have regions and lines between them.
    With several classes the margin of a class is where it wins all of its pairs with
    f ≥ 1 (with one machine for each class: where f = 1 in its region); a support vector
    of several pairs has its largest |α|, and a ring if any of the pairs has it at the
    bound. One class has a boundary and no margins.

    Parameters
    ----------
    machine : a fitted classifier or one-class machine, or a Pipeline that ends in one
    X : (n, 2) array or data frame of points to draw; those of `fit` for a Pipeline
    y : their classes; None for points without colour
    legend : whether to say beside the picture what is what

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import make_moons
    >>> from mercer import SVC
    >>> from mercer.plots import plot_regions
    >>> X, y = make_moons(40, noise=0.1, random_state=0)
    >>> display = plot_regions(SVC().fit(X, y), X, y)
    >>> display.ax_.get_legend_handles_labels()[1][:2]
    ['0', '1']
    """
    check_is_fitted(machine)
    if is_regressor(machine):
        raise ValueError(
            f"plot_regions draws classes; {type(last_step(machine)).__name__} predicts "
            "numbers. Use plot_tube."
        )
    values = plane_of(X, "plot_regions")
    if y is not None:
        y = one_each(y, len(values))
    support = support_of(machine, values)
    ax = axes_or_new(ax)
    corners = like(X, frame_of(values))
    classes = getattr(machine, "classes_", [None])
    if len(classes) > 2 or not hasattr(machine, "decision_function"):
        artists = _draw_several(machine, corners, len(classes), ax)
    else:
        artists = _draw_two(machine, corners, ax)
    draw_points(values, y, classes, ax)
    draw_support(support, ax)
    name_axes(X, ax)
    if legend:
        legend_beside(ax)
    return Display(ax, artists)


def plot_clusters(
    machine: Any, X: Points, y: Any = None, ax: Axes | None = None
) -> Display:
    """The regions of the clusters in the plane, and the points with their cluster.

    Parameters
    ----------
    machine : fitted, with `predict` for points of the plane: a KernelKMeans, ...
    X : (n, 2) array or data frame of points to draw
    y : their classes, drawn as markers; None for one marker

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import make_blobs
    >>> from mercer import KernelKMeans
    >>> from mercer.plots import plot_clusters
    >>> X, _ = make_blobs(30, centers=3, random_state=0)
    >>> display = plot_clusters(KernelKMeans(3, random_state=0).fit(X), X)
    >>> len(display.artists_["points"])
    3
    """
    check_is_fitted(machine)
    values = plane_of(X, "plot_clusters")
    kind = np.zeros(len(values)) if y is None else one_each(y, len(values))
    ax = axes_or_new(ax)
    label = np.asarray(machine.predict(X)).astype(int)
    sides, region = _labels(lambda P: machine.predict(like(X, P)), frame_of(values))
    colours = [COLOURS[c % len(COLOURS)] for c in range(int(region.max()) + 1)]
    artists: dict[str, Any] = _draw_labels(sides, region, colours, ax)
    artists["points"] = []
    for k, name in enumerate(np.unique(kind)):
        for c in np.unique(label):
            x1, x2 = values[(kind == name) & (label == c)].T
            marker, colour = MARKERS[k % len(MARKERS)], COLOURS[c % len(COLOURS)]
            style: dict[str, Any] = {"color": colour, "marker": marker, "lw": 0}
            artists["points"].append(ax.scatter(x1, x2, s=SMALLEST, **style))
    name_axes(X, ax)
    return Display(ax, artists)


def plot_density(
    machine: Any,
    X: Points,
    ax: Axes | None = None,
    *,
    shares: Sequence[float] = (0.25, 0.5, 0.75, 0.95),
    legend: bool = True,
) -> Display:
    """Contours of a density in the plane; each surrounds a share of the points of X.

    Of all regions with that share of the points these are the ones where p is highest:
    the contour of the share s is at the (1 - s) quantile of p over X.

    Parameters
    ----------
    machine : a fitted density, with `score_samples` for ln p
    X : (n, 2) array or data frame of points to draw
    shares : from the inside out, increasing, between 0 and 1
    legend : whether to say beside the picture what is what

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from mercer import ParzenDensity
    >>> from mercer.plots import plot_density
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> display = plot_density(ParzenDensity(0.5).fit(X), X, shares=(0.5, 0.9))
    >>> display.ax_.get_legend_handles_labels()[1]
    ['point', '90% of the points', '50% of the points']
    """
    check_is_fitted(machine)
    values = plane_of(X, "plot_density")
    if not (len(shares) and (np.diff([0.0, *shares, 1.0]) > 0).all()):
        raise ValueError(
            f"plot_density needs increasing shares between 0 and 1; got {shares}."
        )
    outwards = np.array(shares, dtype=float)[::-1]
    ax = axes_or_new(ax)
    sides = [np.linspace(low, high, GRID) for low, high in frame_of(values).T]
    place = np.meshgrid(*sides)
    grid = like(X, np.column_stack([axis.ravel() for axis in place]))
    logs = machine.score_samples(grid).reshape(place[0].shape)
    levels = np.quantile(machine.score_samples(X), 1 - outwards)
    # Contours need rising levels; points all alike have one.
    levels, chosen = np.unique(levels, return_index=True)
    x1, x2 = values.T
    ax.scatter(x1, x2, s=SMALLEST / 2, color="grey", alpha=0.6, lw=0, label="point")
    shades = plt.get_cmap("Blues")(np.linspace(0.25, 0.85, len(levels)))
    fill: dict[str, Any] = {"colors": shades, "alpha": 0.45, "zorder": 0}
    filled = ax.contourf(*place, logs, [*levels, np.inf], **fill)
    edges = shades * [0.7, 0.7, 0.7, 1]
    lines = ax.contour(*place, logs, levels, colors=edges, linewidths=1.4)
    name_axes(X, ax)
    for share, shade in zip(outwards[chosen], shades, strict=True):
        ax.fill([], [], color=shade, alpha=0.8, label=f"{share:.0%} of the points")
    if legend:
        legend_beside(ax)
    return Display(ax, {"regions": filled, "lines": lines})


def plot_component(
    machine: Any,
    X: Points,
    component: int = 0,
    ax: Axes | None = None,
    *,
    limit: float | None = None,
    bar: bool = True,
) -> Display:
    """Lines of equal f(x) = ⟨u, φ(x) - μ⟩, the coordinate along a principal component.

    u is the direction of length 1 in feature space, μ the mean of the points there.
    The thick line is f = 0, the points of the plane that lie level with the mean; the
    title is the eigenvalue, Σᵢ f(xᵢ)² over the points of `fit`.

    Parameters
    ----------
    machine : a fitted KernelPCA
    X : (n, 2) array or data frame of points to draw
    component : which one, from 0
    limit : the |f| of the strongest colours; None for the largest in the picture
    bar : whether to draw the scale of the colours

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from mercer import RBF, KernelPCA
    >>> from mercer.plots import plot_component
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    >>> plot_component(KernelPCA(1, kernel=RBF(1)).fit(X), X).ax_.get_title()
    'λ₁ = 1.11'
    """
    check_is_fitted(machine)
    values = plane_of(X, "plot_component")
    count = len(machine.eigenvalues_)
    if not 0 <= component < count:
        raise ValueError(
            f"plot_component draws one of {count} components, from 0; got {component}."
        )
    (left, bottom), (right, top) = frame_of(values)
    x, y = np.linspace(left, right, GRID), np.linspace(bottom, top, GRID)
    places = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    f = np.asarray(machine.transform(like(X, places)))[:, component]
    f = f.reshape(GRID, GRID)
    size = limit or np.abs(f).max() or 1.0
    ax = axes_or_new(ax)
    shades = np.linspace(-size, size, 21)
    filled = ax.contourf(x, y, f, shades, cmap=DIVERGING, extend="both")
    lines = np.linspace(-size, size, 17)
    ax.contour(x, y, f, lines[lines != 0], colors="0.35", linewidths=0.5)
    artists: dict[str, Any] = {"values": filled}
    if f.min() < 0 < f.max():
        zero = ax.contour(x, y, f, [0.0], colors="black", linewidths=1.8)
        artists["zero"] = zero
    x, y = values.T
    ax.scatter(x, y, s=SMALLEST / 2, color="black", linewidths=0, zorder=3)
    which = str(component + 1).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
    ax.set(title=f"λ{which} = {machine.eigenvalues_[component]:.2f}")
    name_axes(X, ax)
    if bar:
        label = f"f{which}, the coordinate along component {component + 1}"
        artists["bar"] = ax.figure.colorbar(filled, ax=ax, label=label)
    return Display(ax, artists)


def _draw_two(machine: Any, corners: Points, ax: Axes) -> dict[str, Any]:
    """Where f < 0, where f > 0, and the lines between; f = ±1 for two classes."""
    inside = is_outlier_detector(machine)
    display = DecisionBoundaryDisplay.from_estimator(
        machine,
        corners,
        response_method="decision_function",
        grid_resolution=GRID,
        eps=0,
        levels=[-np.inf, 0, np.inf],
        colors=[paper(), COLOURS[0]] if inside else COLOURS[:2],
        alpha=0.18,
        ax=ax,
    )
    style: dict[str, Any] = {"levels": [0.0], "linestyles": "solid", "linewidths": 1.8}
    if not inside and hasattr(last_step(machine), "support_"):
        style = {
            "levels": [-1.0, 0.0, 1.0],
            "linestyles": ["dashed", "solid", "dashed"],
            "linewidths": [1.1, 1.8, 1.1],
        }
    regions = display.surface_
    display.plot(plot_method="contour", ax=ax, colors=ink(), **style)
    return {"regions": regions, "lines": display.surface_}


def _draw_several(
    machine: Any, corners: Points, n_classes: int, ax: Axes
) -> dict[str, Any]:
    """The region of each class, the lines between, and the margins of each class."""

    def number(places: np.ndarray) -> np.ndarray:
        return np.searchsorted(machine.classes_, machine.predict(like(corners, places)))

    sides, label = _labels(number, np.asarray(corners, dtype=float))
    colours = [COLOURS[k % len(COLOURS)] for k in range(n_classes)]
    artists = _draw_labels(sides, label, colours, ax)
    artists["margins"] = []
    if not hasattr(last_step(machine), "multiclass"):
        return artists
    place = np.meshgrid(*(side[::FINER] for side in sides))
    grid = np.column_stack([axis.ravel() for axis in place])
    for lead in _leads(machine, like(corners, grid), n_classes):
        lead = np.ma.masked_invalid(lead.reshape(place[0].shape))
        # matplotlib warns of a level outside of the values.
        if lead.count() and lead.min() < 1 < lead.max():
            style: dict[str, Any] = {
                "colors": ink(),
                "linestyles": "dashed",
                "linewidths": 1.1,
            }
            artists["margins"].append(ax.contour(*place, lead, [1.0], **style))
    return artists


def _labels(number: Any, frame: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Class numbers on a fine grid, computed only where a coarse one sees a change."""
    fine = FINER * (COARSE - 1) + 1
    sides = [np.linspace(low, high, fine) for low, high in frame.T]
    x, y = np.meshgrid(*(side[::FINER] for side in sides))
    coarse = np.asarray(number(np.column_stack([x.ravel(), y.ravel()])), dtype=int)
    coarse = coarse.reshape(x.shape)
    nearest = (np.arange(fine) + FINER // 2) // FINER
    label = coarse[np.ix_(nearest, nearest)]
    changes = np.zeros(coarse.shape, dtype=bool)
    changes[:, 1:] |= coarse[:, 1:] != coarse[:, :-1]
    changes[1:] |= coarse[1:] != coarse[:-1]
    near = binary_dilation(changes, np.ones((3, 3)))[np.ix_(nearest, nearest)]
    rows, columns = np.nonzero(near)
    if len(rows):
        label[rows, columns] = number(
            np.column_stack([sides[0][columns], sides[1][rows]])
        )
    return sides, label


def _draw_labels(
    sides: list[np.ndarray], label: np.ndarray, colours: Sequence[str], ax: Axes
) -> dict[str, Any]:
    """Each class number as a coloured region, with lines between the regions."""
    (left, right), (bottom, top) = ((side[0], side[-1]) for side in sides)
    image = ax.imshow(
        label,
        extent=(left, right, bottom, top),
        origin="lower",
        interpolation="nearest",
        aspect=ax.get_aspect(),
        cmap=ListedColormap(list(colours)),
        vmin=-0.5,
        vmax=len(colours) - 0.5,
        alpha=0.18,
        zorder=0,
    )
    lines = []
    present = np.unique(label)
    for k in present[1:] if len(present) == 2 else present:
        # The edge of a 0-1 picture is a staircase; blurred by a part of a cell it is
        # a line, with the corners where they are.
        own = gaussian_filter((label == k).astype(float), 1.0)
        if own.min() < 0.5 < own.max():
            lines.append(ax.contour(*sides, own, [0.5], colors=ink(), linewidths=1.8))
    return {"regions": image, "lines": lines}


def _leads(machine: Any, grid: Points, n_classes: int) -> list[np.ndarray]:
    """By how much each class wins: the least f over its pairs; ≥ 1 behind its margin.

    Of one-against-the-rest there are no pairs: f of each class, where it comes first.
    """
    last = last_step(machine)
    points = machine[:-1].transform(grid) if last is not machine else grid
    values = last.expansion_(np.asarray(points))
    if getattr(last, "multiclass", "ovr") == "ovr":
        first = np.searchsorted(machine.classes_, machine.predict(grid))
        return [np.where(first == k, f, np.nan) for k, f in enumerate(values.T)]
    leads = [np.full(len(values), np.inf) for _ in range(n_classes)]
    # A positive f of the pair (i, j) is for i, as in multiclass.scores.
    for (i, j), f in zip(combinations(range(n_classes), 2), values.T, strict=True):
        leads[i] = np.minimum(leads[i], f)
        leads[j] = np.minimum(leads[j], -f)
    return leads
