"""Gram matrices and their spectra."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from mercer.data.points import Points, as_points
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.plots.base import COLOURS, DIVERGING, Display, axes_or_new


def plot_gram(
    K: np.ndarray | Gram | Kernel,
    points: Points | None = None,
    order: Any = None,
    ax: Axes | None = None,
) -> Display:
    """K as a heat map, one cell per pair of points.

    Parameters
    ----------
    K : (n, n) array, a Gram, or a kernel on `points`
    points : what the kernel compares; None with a matrix
    order : n labels; points are grouped by label, with a line between the groups

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mercer import RBF
    >>> from mercer.plots import plot_gram
    >>> display = plot_gram(RBF(1.0), [[0.0], [0.1], [2.0]], order=["a", "a", "b"])
    >>> [tick.get_text() for tick in display.ax_.get_xticklabels()]
    ['a', 'b']
    """
    values = _dense(K, points)
    ax = axes_or_new(ax)
    if order is not None:
        labels = _labels(order, len(values))
        place = np.argsort(labels, kind="stable")
        values = values[np.ix_(place, place)]
    image = ax.imshow(values, interpolation="nearest", **_colours(values))
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04)
    if order is None:
        ax.set(xlabel="point", ylabel="point")
    else:
        _draw_groups(ax, labels[place])
    return Display(ax, {"image": image, "bar": bar})


def plot_spectrum(
    K: np.ndarray | Gram | Kernel, points: Points | None = None, ax: Axes | None = None
) -> Display:
    """The eigenvalues |λ₁| ≥ |λ₂| ≥ ... of K on a logarithmic scale.

    Negative ones, which no positive semidefinite matrix has, are drawn apart. Below the
    dotted line n · eps · |λ₁| an eigenvalue is rounding.

    Parameters
    ----------
    K : (n, n) array, a Gram, or a kernel on `points`
    points : what the kernel compares; None with a matrix

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from mercer.plots import plot_spectrum
    >>> plot_spectrum(np.diag([3.0, -2.0, 1.0])).artists_["negative"].get_ydata()
    array([2.])
    """
    values = _dense(K, points)
    eigenvalues = np.linalg.eigvalsh(values.astype(float))
    eigenvalues = eigenvalues[np.argsort(-np.abs(eigenvalues))]
    rank = np.arange(1, len(eigenvalues) + 1)
    ax = axes_or_new(ax)
    artists: dict[str, Any] = {}
    for chosen, style, colour, label in (
        (eigenvalues > 0, "o", COLOURS[0], "positive"),
        (eigenvalues < 0, "x", COLOURS[1], "negative"),
    ):
        if chosen.any():
            sizes = np.abs(eigenvalues[chosen])
            [artists[label]] = ax.semilogy(
                rank[chosen], sizes, style, color=colour, markersize=4, label=label
            )
    # The rounding is that of float32 for a float32 matrix.
    eps = np.finfo(values.dtype).eps
    rounding = len(values) * eps * np.abs(eigenvalues).max(initial=0)
    if rounding > 0:
        ax.axhline(rounding, color="grey", linestyle=":", label="rounding")
    ax.set(xlabel="rank", ylabel="|eigenvalue|")
    ax.legend()
    return Display(ax, artists)


def _dense(K: Any, points: Points | None) -> np.ndarray:
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


def _labels(order: npt.ArrayLike, n: int) -> np.ndarray:
    labels = np.asarray(order)
    if labels.shape != (n,):
        raise ValueError(f"order needs {n} labels, one per point; got {labels.shape}.")
    return labels


def _colours(values: np.ndarray) -> dict[str, Any]:
    """One hue for similarities ≥ 0, two around white where some are negative."""
    if values.min(initial=0) >= 0:
        return {"cmap": "magma", "vmin": 0}
    largest = np.abs(values).max()
    return {"cmap": DIVERGING, "vmin": -largest, "vmax": largest}


def _draw_groups(ax: Axes, labels: np.ndarray) -> None:
    names, first, size = np.unique(labels, return_index=True, return_counts=True)
    for edge in first[1:] - 0.5:
        ax.axhline(edge, color="white", linewidth=0.5)
        ax.axvline(edge, color="white", linewidth=0.5)
    centres = first + (size - 1) / 2
    ax.set_xticks(centres, names)
    ax.set_yticks(centres, names)
    ax.tick_params(length=0)
