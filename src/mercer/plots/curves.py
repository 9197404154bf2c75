"""What a machine says along a line: values, their deviations, probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from sklearn.base import is_regressor
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.utils.validation import check_is_fitted

from mercer.data.points import Points
from mercer.plots.base import (
    COLOURS,
    DIVERGING,
    GRID,
    SMALLEST,
    Display,
    Support,
    axes_or_new,
    draw_points,
    draw_relevance,
    draw_support,
    frame_of,
    ink,
    last_step,
    legend_beside,
    like,
    line_of,
    name_axes,
    of_fit,
    one_each,
    plane_of,
)


def plot_tube(
    machine: Any, X: Points, y: Any, ax: Axes | None = None, *, legend: bool = True
) -> Display:
    """f of a support vector regression on the line, and the tube f ± ε around it.

    The area of a support vector grows with its |α|; the free ones, which lie on the rim
    of the tube, are filled, those at their bound, which lie outside, have a ring. The
    ε of NuSVR is the one it found.

    Parameters
    ----------
    machine : a fitted SVR or NuSVR, or a Pipeline that ends in one
    X, y : the n points of `fit`, (n, 1), and their targets
    legend : whether to say beside the picture what is what

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from mercer import SVR
    >>> from mercer.plots import plot_tube
    >>> x = np.linspace(0, 6, 40)[:, None]
    >>> machine = SVR(epsilon=0.2).fit(x, np.sin(x[:, 0]))
    >>> display = plot_tube(machine, x, np.sin(x[:, 0]))
    >>> display.ax_.get_legend_handles_labels()[1][:3]
    ['f ± ε,  ε = 0.2', 'f', 'point']
    """
    check_is_fitted(machine)
    last = last_step(machine)
    if not (is_regressor(machine) and hasattr(last, "support_")):
        raise ValueError(
            f"plot_tube draws a support vector regression; {type(last).__name__} is "
            "none. plot_regions draws classes."
        )
    values = line_of(X, "plot_tube")
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
    ax = axes_or_new(ax)
    low, high = frame_of(values)
    across = np.linspace(low, high, 2 * GRID)
    curve, x = machine.predict(like(X, across)), across[:, 0]
    colour, rim = COLOURS[0], f"f ± ε,  ε = {epsilon:.3g}"
    style: dict[str, Any] = {"color": colour, "alpha": 0.12, "lw": 0}
    tube = ax.fill_between(x, curve - epsilon, curve + epsilon, **style)
    rims = [
        ax.plot(x, curve + side, color=colour, linestyle="--", lw=1, label=label)[0]
        for side, label in ((-epsilon, rim), (epsilon, None))
    ]
    [line] = ax.plot(x, curve, color=colour, linewidth=2, label="f")
    ax.scatter(values[:, 0], y, s=SMALLEST, color="grey", lw=0, zorder=3, label="point")
    draw_support(support, ax, marker="o")
    ax.margins(x=0)
    name_axes(X, ax)
    if legend:
        legend_beside(ax)
    return Display(ax, {"f": line, "rims": rims, "tube": tube})


def plot_band(
    machine: Any, X: Points, y: Any, ax: Axes | None = None, *, legend: bool = True
) -> Display:
    """The mean of a regression on the line, two deviations around it, and its vectors.

    The darker band is f ± 2σ, the lighter one where 19 of 20 new values are expected.

    Parameters
    ----------
    machine : a fitted RVR or GaussianProcessRegressor, or a regressor whose `predict`
        has `return_std`
    X, y : points to draw, (n, 1), and their targets; those of `fit` for the vectors
    legend : whether to say beside the picture what is what

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from mercer import RBF, RVR
    >>> from mercer.plots import plot_band
    >>> rng = np.random.default_rng(0)
    >>> x = np.linspace(0, 6, 40)[:, None]
    >>> y = np.sin(x[:, 0]) + rng.normal(scale=0.1, size=40)
    >>> sorted(plot_band(RVR(RBF(0.5)).fit(x, y), x, y).artists_)
    ['bands', 'mean']
    """
    check_is_fitted(machine)
    values = line_of(X, "plot_band")
    y = one_each(y, len(values)).astype(float)
    low, high = frame_of(values)
    line = np.linspace(low, high, 2 * GRID)
    mean, deviation = machine.predict(like(X, line), return_std=True)
    x, colour = line[:, 0], COLOURS[0]
    ax = axes_or_new(ax)
    bands = [(deviation, 0.12, "new values, ± 2σ")]
    noise = 1 / machine.beta_ if hasattr(machine, "beta_") else _noise(machine)
    if noise:
        own = np.sqrt(np.maximum(deviation**2 - noise, 0))
        bands.append((own, 0.3, "f ± 2σ"))
    drawn = []
    for width, alpha, label in bands:
        sides = mean - 2 * width, mean + 2 * width
        style: dict[str, Any] = {"color": colour, "alpha": alpha, "lw": 0}
        drawn.append(ax.fill_between(x, *sides, label=label, **style))
    [curve] = ax.plot(x, mean, color=colour, linewidth=2, label="mean")
    ax.scatter(values[:, 0], y, s=SMALLEST, color="grey", lw=0, zorder=3, label="point")
    draw_relevance(machine, np.column_stack([values[:, 0], y]), ax)
    ax.margins(x=0)
    name_axes(X, ax)
    if legend:
        legend_beside(ax)
    return Display(ax, {"mean": curve, "bands": drawn})


def _noise(machine: Any) -> float:
    """The variance of the noise that a Gaussian process learnt, in the units of y."""
    scale = float(np.max(getattr(machine, "_y_train_std", 1.0)))
    return float(getattr(machine, "noise_", 0.0)) * scale**2


def plot_probabilities(
    machine: Any, X: Points, y: Any, ax: Axes | None = None, *, legend: bool = True
) -> Display:
    """The probability of the second of two classes in the plane, and the vectors.

    The boundary, p = ½, is a full line; p = ¼ and ¾ are dashed.

    Parameters
    ----------
    machine : a fitted RVC, or a classifier of two classes with `predict_proba`
    X, y : points to draw, (n, 2), and their classes; those of `fit` for the vectors
    legend : whether to say beside the picture what is what

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import make_moons
    >>> from mercer import RBF, RVC
    >>> from mercer.plots import plot_probabilities
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> display = plot_probabilities(RVC(RBF(1.0)).fit(X, y), X, y)
    >>> display.artists_["lines"].levels.tolist()
    [0.25, 0.5, 0.75]
    """
    check_is_fitted(machine)
    values = plane_of(X, "plot_probabilities")
    if len(machine.classes_) != 2:
        raise ValueError(
            "plot_probabilities draws two classes; got a machine of "
            f"{len(machine.classes_)} classes. Use plot_regions."
        )
    ax = axes_or_new(ax)
    corners = like(X, frame_of(values))
    display = DecisionBoundaryDisplay.from_estimator(
        machine,
        corners,
        response_method="predict_proba",
        class_of_interest=machine.classes_[1],
        grid_resolution=GRID,
        eps=0,
        levels=np.linspace(0, 1, 21),
        cmap=DIVERGING,
        alpha=0.5,
        ax=ax,
    )
    shades = display.surface_
    display.plot(
        plot_method="contour",
        ax=ax,
        cmap=None,
        colors=ink(),
        levels=[0.25, 0.5, 0.75],
        linestyles=["dashed", "solid", "dashed"],
        linewidths=[1.0, 1.8, 1.0],
        alpha=1.0,
    )
    draw_points(values, one_each(y, len(values)), machine.classes_, ax)
    draw_relevance(machine, values, ax)
    name_axes(X, ax)
    if legend:
        legend_beside(ax)
    return Display(ax, {"probabilities": shades, "lines": display.surface_})
