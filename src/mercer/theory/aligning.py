"""Centred alignment: how much a kernel looks like what is to be learnt.

Cortes, Mohri and Rostamizadeh, JMLR 13 (2012).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import nnls
from sklearn.utils.multiclass import type_of_target

from mercer.data.checks import brief
from mercer.data.points import Points
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.native import memory
from mercer.solvers.weights import normalized


def alignment(first: Any, second: Any, X: Points | None = None) -> float:
    """⟨HK₁H, HK₂H⟩ / (‖HK₁H‖ ‖HK₂H‖) with H = I - 11ᵀ/n: from 0 to 1 for kernels.

    Parameters
    ----------
    first, second : a kernel, the (n, n) array of its values, or n targets: numbers y
        stand for the kernel yᵢ yⱼ, classes for 1 where two are the same, else 0
    X : the n points, where a kernel is given; what it learns from data it learns here

    Examples
    --------
    >>> from mercer import RBF, Linear
    >>> from mercer.theory import alignment
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> round(alignment(Linear(), y, X), 4), round(alignment(RBF(1.0), y, X), 4)
    (0.8, 0.7719)
    """
    A, B = (_centred(part, X) for part in (first, second))
    if A.shape != B.shape:
        raise ValueError(
            f"alignment compares two kernels on the same points; got {len(A)} and "
            f"{len(B)} of them."
        )
    sizes = float(np.linalg.norm(A)) * float(np.linalg.norm(B))
    return float(np.vdot(A, B)) / sizes if sizes > 0 else 0.0


def align(
    kernels: Sequence[Any], X: Points | None, y: Any, *, norm: float = 2.0
) -> np.ndarray:
    """d ≥ 0 with the largest alignment of Σₘ dₘ Kₘ and y, scaled to ‖d‖ₚ = 1.

    A quadratic program in as many variables as there are kernels: no machine is fitted.

    Parameters
    ----------
    kernels : kernels, or (n, n) arrays of their values
    X : the n points; None where all values are given
    y : n targets, numbers or classes
    norm : p

    Examples
    --------
    >>> from mercer import RBF, SVC, Linear, MultipleKernel
    >>> from mercer.theory import align
    >>> X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0]
    >>> kernels = [Linear(), RBF(1.0)]
    >>> weights = align(kernels, X, y, norm=1)
    >>> weights.round(3).tolist()
    [0.0, 1.0]
    >>> SVC(C=10, kernel=MultipleKernel(kernels, weights=weights)).fit(X, y).score(X, y)
    1.0
    """
    kernels = list(kernels)
    if not kernels:
        raise ValueError("align needs kernels, one or more; got none.")
    n = len(y)
    memory.check_room(
        8.0 * n**2 * (len(kernels) + 2),
        f"align compares {len(kernels)} matrices on {n} points, which takes",
        "Take fewer points: the weights change little.",
    )
    matrices = [_centred(kernel, X) for kernel in kernels]
    target = _centred(np.asarray(y), X)
    for i, K in enumerate(matrices):
        if K.shape != target.shape:
            raise ValueError(
                f"align needs all kernels on the {n} points of y; kernel {i} is on "
                f"{len(K)}."
            )
    sizes = np.array([float(np.linalg.norm(K)) for K in matrices])
    scale = np.divide(1, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    products = np.array([[np.vdot(A, B) for B in matrices] for A in matrices])
    products *= scale[:, None] * scale
    toward = np.array([np.vdot(K, target) for K in matrices]) * scale
    weights = scale * _nonnegative(products, toward)
    if not weights.any():
        raise ValueError(
            "align finds no kernel that is aligned with y: all would have weight 0. "
            "Choose other kernels."
        )
    return normalized(weights, norm)


def _nonnegative(products: np.ndarray, toward: np.ndarray) -> np.ndarray:
    """v ≥ 0 of the least vᵀMv - 2 vᵀa, M positive semidefinite."""
    values, vectors = np.linalg.eigh(products)
    kept = values > 1e-12 * values.max(initial=0.0)
    roots = np.sqrt(values[kept])
    image = (vectors[:, kept].T @ toward) / roots
    return nnls(roots[:, None] * vectors[:, kept].T, image)[0]


def _centred(part: Any, X: Points | None) -> np.ndarray:
    """HKH of a kernel, of its values, or of targets."""
    if isinstance(part, Kernel):
        if X is None:
            raise ValueError(f"The alignment of {part} needs the points X.")
        part = Gram(part.resolve(X), X).double().dense()
    K = np.asarray(part)
    if K.ndim == 1 and len(K):
        K = _of_targets(K)
    K = np.asarray(K, dtype=float)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(
            "alignment compares kernels, square arrays of their values, or targets; "
            f"got {brief(part)}."
        )
    means = K.mean(axis=0)
    return K - means - K.mean(axis=1)[:, None] + means.mean()


def _of_targets(y: np.ndarray) -> np.ndarray:
    if type_of_target(y) == "continuous":
        return np.outer(y, y)
    return (y[:, None] == y).astype(float)
