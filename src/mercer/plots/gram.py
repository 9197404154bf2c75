"""Gram matrices and their spectra."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from mercer.data.points import Points, as_points
from mercer.gram import Gram
from mercer.kernels.base import Kernel


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
    # The rounding is that of float32 for a float32 matrix.
    eps = np.finfo(values.dtype).eps
    rounding = len(values) * eps * np.abs(eigenvalues).max(initial=0)
    if rounding > 0:
        ax.axhline(rounding, color="grey", linestyle=":", label="rounding")
    ax.set(xlabel="rank", ylabel="|eigenvalue|")
    ax.legend()
    return ax


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
