"""What a machine says at every point of the plane."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from scipy.ndimage import gaussian_filter
from sklearn.base import is_outlier_detector, is_regressor
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.utils.validation import check_is_fitted

from mercer.data.points import Points, is_frame
from mercer.multiclass import scores
from mercer.plots.base import (
    COLOURS,
    GRID,
    MARKERS,
    SMALLEST,
    draw_points,
    draw_support,
    frame_of,
    last_step,
    like,
    one_each,
    support_of,
)


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
            f"plot_regions draws classes; {type(last_step(machine)).__name__} predicts "
            "numbers. Use plot_tube."
        )
    values = np.asarray(X, dtype=float)
    if values.ndim != 2 or values.shape[1] != 2:
        raise ValueError(
            f"plot_regions draws points of the plane, (n, 2); got shape {values.shape}."
        )
    if y is not None:
        y = one_each(y, len(values))
    support = support_of(machine, values)
    ax = ax or plt.figure().gca()
    corners = like(X, frame_of(values))
    classes = getattr(machine, "classes_", [None])
    if len(classes) > 2 or not hasattr(machine, "decision_function"):
        _draw_several(machine, corners, len(classes), ax)
    else:
        _draw_two(machine, corners, ax)
    draw_points(values, y, classes, ax)
    draw_support(support, ax)
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
    kind = np.zeros(len(values)) if y is None else one_each(y, len(values))
    ax = ax or plt.figure().gca()
    low, high = frame_of(values)
    place = np.meshgrid(*np.linspace(low, high, GRID).T)
    grid = like(X, np.column_stack([axis.ravel() for axis in place]))
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
    ax.contourf(*place, logs, [*levels, np.inf], colors=shades, alpha=0.45, zorder=0)
    ax.contour(*place, logs, levels, colors=shades * [0.7, 0.7, 0.7, 1], linewidths=1.4)
    if is_frame(X):
        ax.set(xlabel=X.columns[0], ylabel=X.columns[1])
    if legend:
        for share, shade in zip(outwards[chosen], shades, strict=True):
            ax.fill([], [], color=shade, alpha=0.8, label=f"{share:.0%} of the points")
        ax.legend(fontsize="small")
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
    (left, bottom), (right, top) = frame_of(values)
    x, y = np.linspace(left, right, GRID), np.linspace(bottom, top, GRID)
    places = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    f = np.asarray(machine.transform(like(X, places)))[:, component]
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


def _draw_two(machine: Any, corners: Points, ax: Axes) -> None:
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
    if not inside and hasattr(last_step(machine), "support_"):
        style = {
            "levels": [-1.0, 0.0, 1.0],
            "linestyles": ["dashed", "solid", "dashed"],
            "linewidths": [1.0, 1.8, 1.0],
        }
    display.plot(plot_method="contour", ax=ax, colors="black", **style)


def _draw_several(machine: Any, corners: Points, n_classes: int, ax: Axes) -> None:
    """The region of each class, the lines between, and the margins of each pair."""
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
    if not hasattr(last_step(machine), "multiclass"):
        return
    grid = like(corners, np.column_stack([axis.ravel() for axis in place]))
    for values in _pair_values(machine, grid, n_classes):
        values = values.reshape(place[0].shape)
        known = values[np.isfinite(values)]
        for level in (-1.0, 1.0):
            # matplotlib warns of a level outside of the values.
            if (known < level).any() and (known > level).any():
                ax.contour(
                    *place,
                    np.ma.masked_invalid(values),
                    [level],
                    colors="black",
                    linestyles="dashed",
                    linewidths=1.0,
                )


def _pair_values(machine: Any, grid: Points, n_classes: int) -> list[np.ndarray]:
    """f of each pair of classes, NaN but where these two come first.

    Of one-against-the-rest there are no pairs: f of each class, where it comes first.
    """
    last = last_step(machine)
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
