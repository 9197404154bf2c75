"""What the pictures share: matplotlib, colours, points and the vectors that matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import is_outlier_detector
from sklearn.pipeline import Pipeline

from mercer.data.points import Points, is_frame

try:
    from matplotlib.axes import Axes
except ImportError as error:
    raise ImportError(
        'mercer.plots draws with matplotlib. Install it: pip install "mercer[plot]".'
    ) from error

COLOURS = [f"C{k}" for k in range(10)]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<", ">", "p"]
GRID = 301  # grid points along each axis where a machine is evaluated
SMALLEST, LARGEST = 20, 130  # the area of a point, and of the heaviest support vector


class Support(NamedTuple):
    """Support vectors: where they are drawn, of which class, |α|, and at the bound?"""

    place: np.ndarray
    label: np.ndarray
    weight: np.ndarray
    bound: np.ndarray


def support_of(machine: Any, values: np.ndarray) -> Support:
    """The support vectors of a machine; none, where it is not made of them.

    Free ones have yᵢ f(xᵢ) = 1 to the tolerance of the solver, those at their bound
    less: that distinguishes them for any weights of points and classes.
    """
    last = last_step(machine)
    if not hasattr(last, "support_") or hasattr(last, "approximation_"):
        nothing = np.zeros(0)
        return Support(np.zeros((0, 2)), nothing.astype(int), nothing, nothing > 0)
    f = last.expansion_
    place = f.points if machine is last else of_fit(last, values)
    coef = f.coef.reshape(len(f.coef), -1)
    weight = np.abs(coef).max(axis=1, initial=0)
    if is_outlier_detector(last):
        # What the coefficients sum to is the unit of f; SVDD has divided it by νn.
        tol = last.tol * coef.sum() / (last.nu * last.shape_fit_[0])
        bound = last.decision_function(f.points) < -tol
        return Support(place, np.zeros(len(coef), dtype=int), weight, bound)
    label = np.repeat(np.arange(len(last.classes_)), last.n_support_)
    reached = np.sign(coef) * f(f.points).reshape(coef.shape)
    bound = ((coef != 0) & (reached < 1 - last.tol)).any(axis=1)
    return Support(place, label, weight, bound)


def of_fit(last: Any, values: np.ndarray) -> np.ndarray:
    """The support vectors among the points of `fit`, as they are drawn."""
    if last.shape_fit_[0] != len(values):
        raise ValueError(
            f"{type(last).__name__} knows its support vectors by their places among "
            f"the {last.shape_fit_[0]} points of `fit`; got {len(values)} points. Pass "
            "those of `fit`."
        )
    return values[last.support_]


def last_step(machine: Any) -> Any:
    return machine[-1] if isinstance(machine, Pipeline) else machine


def frame_of(values: np.ndarray) -> np.ndarray:
    """The lower and the upper corner of a picture with room around the points."""
    low, high = values.min(axis=0), values.max(axis=0)
    room = np.where(high > low, 0.12 * (high - low), 1.0)
    return np.array([low - room, high + room])


def like(X: Points, values: np.ndarray) -> Points:
    """Values in a data frame with the columns of X, if X is one."""
    if not is_frame(X):
        return values
    return type(X)(dict(zip(X.columns, values.T, strict=True)))


def one_each(y: npt.ArrayLike, n: int) -> np.ndarray:
    y = np.asarray(y)
    if y.shape != (n,):
        raise ValueError(f"y needs {n} values, one per point; got shape {y.shape}.")
    return y


def draw_points(
    values: np.ndarray,
    y: np.ndarray | None,
    classes: Sequence[Any] | np.ndarray,
    ax: Axes,
) -> None:
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


def draw_support(support: Support, ax: Axes, marker: str | None = None) -> None:
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
    # A handle for the legend only: in the picture each class has its colour.
    for some, colour, name in (
        (~bound, "lightgrey", "free support vector"),
        (bound, "none", "support vector at its bound"),
    ):
        if some.any():
            style = ring | {"facecolors": colour, "s": LARGEST / 2}
            ax.scatter([], [], **style, label=name)


def draw_relevance(machine: object, places: np.ndarray, ax: Axes) -> None:
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
