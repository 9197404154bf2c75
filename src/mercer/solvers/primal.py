"""Least squares and Newton's steps in the coordinates of an explicit map, K = ΦΦᵀ.

With Φ of p columns, (λI + SᵀKS) z = SᵀΦ r is solved by z = SᵀΦ v with

    (λI + ΦᵀHΦ) v = r,    H = S Sᵀ

p numbers instead of n: the matrix is factored where p is a few hundred, else the system
is solved by conjugate gradients, which read Φ and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.blocks import Blocks
from mercer.data.partitions import Partitions
from mercer.gram import Gram
from mercer.maps import entries_estimate, has_quick_map
from mercer.native import lapack, memory
from mercer.native.interruptible import multiply
from mercer.native.threads import blas_for, one_blas_thread
from mercer.solvers.computed_rows import ComputedRows
from mercer.solvers.feature_rows import BLOCK, FeatureRows
from mercer.solvers.features import features_of, partitioned_of
from mercer.solvers.krylov import conjugate_gradient
from mercer.solvers.rounding import LAST, UNIT

FACTORED = 1500  # columns (times functions) up to which a matrix of them is factored
BESIDE = 3000  # columns whose matrix one thread factors in a fraction of a second
ONCE = 6000  # the same, where it is the only one
TALL = 2048  # rows of a block, at least, whose products with each other are added up
DOMINANT = 1e-3  # of 1 - h: below it the point makes up its own prediction
MOST_WORK = 1e11  # multiplications for the points that do
SPARSE_SHARE = 0.05  # of the entries; a fuller matrix is multiplied as a dense one


class FeatureSums:
    """Bounds of the rounding errors of f = Φ(Φᵀc), as `SumRounding` has those of Kc.

    Both products add up: n numbers for each column, then p for each point. By Cauchy
    and Schwarz |Φ|(|Φ|ᵀ|c|) is at most ‖φ(x)‖ Σⱼ ‖φ(xⱼ)‖ |cⱼ|.
    """

    bounded = True

    def __init__(self, features: FeatureRows):
        self.features = features
        n, p = features.shape
        self.length = np.sqrt(features.lengths())
        # Coordinates themselves are products of a few numbers.
        self.units = UNIT * (np.sqrt(n) + np.sqrt(p) + 3 * LAST)
        if isinstance(features, ComputedRows):
            self.units = features.units

    def __call__(self, coef: np.ndarray, tight: bool = False) -> np.ndarray:
        """How far each f(xᵢ) can be off, in the shape of coef.

        Parameters
        ----------
        tight : whether to read the coordinates, at the cost of a product
        """
        size = np.abs(coef)
        if tight and not self.features.computed:
            if self.features.sparse:
                matrix = self.features.matrix
                return self.units * (abs(matrix) @ (abs(matrix).T @ size))
            added = np.zeros((self.features.shape[1], *size.shape[1:]))
            for rows, part in self.features.parts():
                added += np.abs(part).T @ size[rows]
            parts = [np.abs(part) @ added for _, part in self.features.parts()]
            return self.units * np.concatenate(parts)
        scaled = size * self.length.reshape(-1, *[1] * (size.ndim - 1))
        return np.multiply.outer(self.length, self.units * scaled.sum(axis=0))


def blas_beside(features: FeatureRows) -> AbstractContextManager[None]:
    """As many threads of BLAS as do not wait for those of products with Φ."""
    # Rows are computed and read by our own threads, beside which those of BLAS wait.
    side, most = features.shape[1], BESIDE if features.computed else 0
    return one_blas_thread() if side <= most else blas_for(side)


def along(features: FeatureRows, W: np.ndarray) -> np.ndarray:
    """Φ W, (n, q), of (p, q) arrays."""
    return np.asarray(features.times(W))


def across(features: FeatureRows, V: np.ndarray) -> np.ndarray:
    """ΦᵀV, (p, q), of (n, q) arrays."""
    return features.against(V)


def product(features: FeatureRows, V: np.ndarray) -> np.ndarray:
    """K V = Φ(ΦᵀV)."""
    return along(features, across(features, V))


def weighted_normal(
    features: FeatureRows,
    weights: np.ndarray,
    shift: np.ndarray | None = None,
    kept: dict[str, Any] | None = None,
) -> np.ndarray:
    """Σᵢ hᵢ (φᵢ - shift)(φᵢ - shift)ᵀ, (p, p), for weights h of either sign.

    Sparse features take no shift.

    Parameters
    ----------
    kept : what an earlier call for the same features and weights has summed before an
        error ended it, and this one does (`resume`); None for nothing
    """
    if isinstance(features, ComputedRows):
        return features.normal(weights, shift, kept)
    n, p = features.shape
    if features.sparse and features.entries <= SPARSE_SHARE * n * p:
        assert shift is None
        scaled = sp.csr_array(features.matrix.multiply(weights[:, None]))
        return (features.across @ scaled).toarray()
    out = np.zeros((p, p))
    negative = bool(np.any(weights < 0))
    for rows, part in features.parts(max(BLOCK, TALL * p)):
        part = part if shift is None else part - shift.astype(part.dtype)
        if negative:
            out += multiply((part * weights[rows, None]).T, part)
        else:
            part = part * np.sqrt(weights[rows, None]).astype(part.dtype)
            out += multiply(part.T, part)  # half the work, for a product with itself
    return out


def quadratic(features: FeatureRows, M: np.ndarray) -> np.ndarray:
    """φᵢᵀ M φᵢ of every point, (n,)."""
    out = np.empty(features.shape[0])
    for rows, part in features.parts():
        out[rows] = np.einsum("ij,ij->i", multiply(part, M), part)
    return out


def not_hat(features: FeatureRows, weights: np.ndarray, reg: float) -> np.ndarray:
    """1 - hᵢ, hᵢ = wᵢ φᵢᵀ (ΦᵀWΦ + reg I)⁻¹ φᵢ the diagonal of the hat matrix, (n,).

    (K + reg W⁻¹)⁻¹ has wᵢ(1 - hᵢ)/reg on its diagonal. Where little is left of 1, the
    same is 1/(1 + hᵢ') with the hᵢ' of a matrix without point i.
    """
    matrix = weighted_normal(features, weights)
    out = 1 - weights * _inverse_squares(features, slice(None), matrix, reg)
    dominant = np.flatnonzero(out < DOMINANT)
    if len(dominant) and len(dominant) * len(matrix) ** 3 <= MOST_WORK:
        rest = weights.copy()
        rest[dominant] = 0.0
        # Taken out of the sum, not subtracted from it: that would leave no digits.
        matrix = weighted_normal(features, rest)
        for i in dominant.tolist():
            others = features.take(dominant[dominant != i])
            less = matrix + weighted_normal(others, weights[dominant[dominant != i]])
            square = _inverse_squares(features, np.array([i]), less, reg)
            out[i] = 1 / (1 + weights[i] * square[0])
    return out


def _inverse_squares(
    features: FeatureRows, index: slice | np.ndarray, matrix: np.ndarray, reg: float
) -> np.ndarray:
    """φᵢᵀ (matrix + reg I)⁻¹ φᵢ of some points."""
    R = factored(matrix, reg)
    if R is None:
        raise np.linalg.LinAlgError(
            f"ΦᵀWΦ + λI is singular to rounding at λ={reg}. Raise λ."
        )
    lower = np.asfortranarray(np.triu(R).T)
    some = features if isinstance(index, slice) else features.take(index)
    out = np.empty(some.shape[0])
    for rows, part in some.parts():
        half = lapack.half(lower, np.asfortranarray(part.T))
        out[rows] = np.einsum("ij,ij->j", half, half)
    return out


class NormalSystem:
    """(λI + ΦᵀHΦ) v = r by the factors of that matrix, or by conjugate gradients.

    Parameters
    ----------
    apply : the function ΦᵀHΦ v of (p, k) arrays
    matrix : a function that gives ΦᵀHΦ, (p, p); None where it is too large
    diagonal : of ΦᵀHΦ, (p, 1), to precondition by
    reg : λ > 0
    """

    def __init__(
        self,
        apply: Callable[[np.ndarray], np.ndarray],
        matrix: Callable[[], np.ndarray] | None,
        diagonal: Callable[[], np.ndarray],
        reg: float,
        max_products: int,
    ):
        self.apply, self.reg, self.products = apply, reg, 0
        self.max_products = max_products
        self.R = None if matrix is None else factored(matrix(), reg)
        self.diagonal = diagonal

    @cached_property
    def scale(self) -> np.ndarray:
        """The diagonal of λI + ΦᵀHΦ, read where conjugate gradients need it."""
        return self.diagonal() + self.reg

    def solve(
        self,
        r: np.ndarray,
        goal: float | np.ndarray,
        watch: Callable[[int, np.ndarray], bool] | None = None,
    ) -> np.ndarray:
        """v, with a residual of at most the goal in length (of each column)."""
        if self.R is not None:
            return lapack.solve(self.R, np.asfortranarray(r))

        def done(rest: np.ndarray) -> bool:
            return bool(np.all(np.linalg.norm(rest, axis=0) <= goal))

        found = conjugate_gradient(
            lambda V: self.apply(V) + self.reg * V,
            r,
            lambda rest: rest / self.scale,
            done,
            self.max_products,
            watch=watch,
        )
        self.products += found.n_iter
        return found.x


def has_small_map(gram: Gram, few: int) -> bool:
    """Whether products with Φ cost less than a half of those with K = ΦΦᵀ.

    A product with K reads n² / 2 numbers, one with Φ and Φᵀ its entries twice. Up to
    `few` points K is as good, and so it is where it is in memory already.
    """
    n, kernel = gram.shape[0], gram.kernel
    if isinstance(gram.X, Partitions):
        return partitioned_of(gram) is not None
    if isinstance(gram.X, Blocks):
        return True  # there is no other way
    if n <= few or gram.is_held or kernel.psd is not True or not has_quick_map(kernel):
        return False
    entries = entries_estimate(kernel, gram.X)
    if entries is not None and 8.0 * entries > n**2:
        return False  # before Φ is made
    if entries is None:
        entries = float(features_of(gram).entries)
    return 0 < 8.0 * entries <= n**2


def affordable(columns: int, most: int = FACTORED) -> bool:
    """Whether a matrix of so many columns is factored."""
    return columns <= most and memory.keeps(24.0 * columns**2)


def factored(matrix: np.ndarray, reg: float) -> np.ndarray | None:
    """R of matrix + reg I = RᵀR; None where rounding leaves that not definite."""
    A = np.array(matrix, order="F")
    A[np.diag_indices_from(A)] += reg
    return A if lapack.factor(A) else None
