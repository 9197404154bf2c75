"""Geometry in feature space: norms, distances, cosines and angles of the φ(x)."""

from __future__ import annotations

import numpy as np

from mercer.data.points import Points
from mercer.kernels.algebra import Normalized
from mercer.kernels.base import Kernel
from mercer.native.interruptible import elementwise


def feature_norms(kernel: Kernel, X: Points) -> np.ndarray:
    """‖φ(xᵢ)‖ = √k(xᵢ, xᵢ), an (n,) array.

    Examples
    --------
    >>> from mercer import Linear
    >>> from mercer.theory import feature_norms
    >>> feature_norms(Linear(), [[3.0, 4.0]]).round(4).tolist()
    [5.0]
    """
    squares = kernel.diag(X)
    if not kernel.psd and (squares < 0).any():
        i = int(np.argmin(squares))
        raise ValueError(
            f"{kernel} has no feature space: k(x, x) is {squares[i]:.6g} at point {i}."
        )
    # For a kernel a negative square can only be rounding.
    return np.sqrt(np.maximum(squares, 0))


def feature_distances(kernel: Kernel, X: Points, Y: Points | None = None) -> np.ndarray:
    """‖φ(xᵢ) - φ(yⱼ)‖ = √(k(x, x) - 2 k(x, y) + k(y, y)), an (n, m) array.

    Examples
    --------
    >>> from mercer import Linear
    >>> from mercer.theory import feature_distances
    >>> feature_distances(Linear(), [[0.0, 0.0]], [[3.0, 4.0]]).round(4).tolist()
    [[5.0]]
    """
    if not kernel.psd:
        feature_cosines(kernel, X, Y)  # refuses where the square would be negative
    return elementwise(np.sqrt, kernel.sqdist(X, Y))


def feature_cosines(kernel: Kernel, X: Points, Y: Points | None = None) -> np.ndarray:
    """k(xᵢ, yⱼ) / √(k(xᵢ, xᵢ) k(yⱼ, yⱼ)), an (n, m) array of numbers in [-1, 1].

    Points with φ(x) = 0 count as alike: 1 among themselves, 0 against all others.

    Examples
    --------
    >>> from mercer import Linear
    >>> from mercer.theory import feature_cosines
    >>> feature_cosines(Linear(), [[1.0, 0.0]], [[1.0, 1.0]]).round(4).tolist()
    [[0.7071]]
    """
    cosines = Normalized(kernel)(X, Y)
    if not kernel.psd:
        largest = float(elementwise(_largest, cosines))
        if largest > 1 + 1e3 * np.finfo(cosines.dtype).eps:
            raise ValueError(
                f"{kernel} has no feature space on these points: |k(x, y)| is "
                f"{largest:.6g} times √(k(x, x) k(y, y)), against Cauchy and Schwarz."
            )
    return elementwise(lambda cosines: np.clip(cosines, -1, 1), cosines)


def _largest(values: np.ndarray) -> float:
    return np.abs(values).max(initial=0)


def feature_angles(kernel: Kernel, X: Points, Y: Points | None = None) -> np.ndarray:
    """arccos of `feature_cosines`, an (n, m) array in radians from 0 to π.

    Examples
    --------
    >>> from mercer import Linear
    >>> from mercer.theory import feature_angles
    >>> feature_angles(Linear(), [[1.0, 0.0]], [[0.0, 2.0]]).round(4).tolist()
    [[1.5708]]
    """
    return elementwise(np.arccos, feature_cosines(kernel, X, Y))
