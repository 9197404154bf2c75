"""What a machine says along a line: values, their deviations, probabilities."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from sklearn.base import is_regressor
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.utils.validation import check_is_fitted

from mercer.data.points import Points, is_frame
from mercer.plots.base import (
    COLOURS,
    GRID,
    SMALLEST,
    Support,
    draw_points,
    draw_relevance,
    draw_support,
    frame_of,
    last_step,
    like,
    of_fit,
    one_each,
)


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
    last = last_step(machine)
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
    y = one_each(y, len(values)).astype(float)
    place = of_fit(last, np.column_stack([values, y]))
    distance = np.abs(y - machine.predict(X))
    # Free support vectors lie on the rim of the tube, the others outside.
    nearest = distance[last.support_].min(initial=distance.max())
    epsilon = getattr(last, "epsilon", nearest)
    support = Support(
        place,
        label=np.ones(len(place), dtype=int),
        weight=np.abs(last.expansion_.coef),
        bound=distance[last.support_] > epsilon + last.tol,
    )
    ax = ax or plt.figure().gca()
    low, high = frame_of(values)
    line = np.linspace(low, high, 2 * GRID)
    curve, x = machine.predict(like(X, line)), line[:, 0]
    colour, rim = COLOURS[0], f"f ± ε,  ε = {epsilon:.3g}"
    ax.fill_between(x, curve - epsilon, curve + epsilon, color=colour, alpha=0.12, lw=0)
    for side, label in ((-epsilon, rim), (epsilon, None)):
        ax.plot(x, curve + side, color=colour, linestyle="--", lw=1, label=label)
    ax.plot(x, curve, color=colour, linewidth=2, label="f")
    ax.scatter(values[:, 0], y, s=SMALLEST, color="grey", lw=0, zorder=3, label="point")
    draw_support(support, ax, marker="o")
    ax.margins(x=0)
    if is_frame(X):
        ax.set_xlabel(X.columns[0])
    if legend:
        ax.legend(fontsize="small")
    return ax


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
    y = one_each(y, len(values)).astype(float)
    low, high = frame_of(values)
    line = np.linspace(low, high, 2 * GRID)
    mean, deviation = machine.predict(like(X, line), return_std=True)
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
    draw_relevance(machine, np.column_stack([values[:, 0], y]), ax)
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
    corners = like(X, frame_of(values))
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
    draw_points(values, one_each(y, len(values)), machine.classes_, ax)
    draw_relevance(machine, values, ax)
    if legend:
        ax.legend(fontsize="small")
    return ax
