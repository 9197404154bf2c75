"""Conjugate gradients on Gram matrices: fast products and a low-rank preconditioner.

`Products` multiplies K in single precision where it fits in memory, for steps that are
corrected afterwards. `factor` is K ≈ L Lᵀ from a few columns of K, chosen at random in
proportion to what is not yet explained: Chen, Epperly, Tropp and Webber, Communications
on Pure and Applied Mathematics 78 (2025), in blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from mercer.gram import Gram
from mercer.native import memory
from mercer.native.interruptible import interruptible, multiply
from mercer.solvers.products import Tiles

BLOCK = 64  # columns of K chosen at a time
LARGEST = 1e30  # that is left to single precision: n sums of n of them are finite
EXPLAINED = 1e-12  # of the trace: what is left beyond is rounding


class Products:
    """K V to about seven digits: from K in single precision where it fits, else anew.

    Parameters
    ----------
    gram : of one set of points
    dtype : float64 for products in double precision
    """

    def __init__(self, gram: Gram, dtype: Any = np.float32):
        self.gram = gram.double()
        # What single precision cannot hold is in double.
        if float(np.max(self.gram.diag(), initial=0.0)) > LARGEST:
            dtype = np.float64
        self.single = dtype == np.float32
        room = memory.room_to_keep()
        n = gram.shape[0]
        gram = gram if self.single else self.gram
        if gram.kernel.native(gram.X) is None and 10.0 * n * n <= room:
            gram = gram.held()  # one call computes each pair of points once
        tiles = Tiles(gram, None, dtype, room / 2**20)
        self.tiles = tiles.filled() if tiles.fits else None
        self.single = self.single and tiles.fits

    def __call__(self, V: np.ndarray) -> np.ndarray:
        if self.tiles is None:
            return self.gram @ V
        # Columns are brought to about 1: single precision has a small range.
        size = np.abs(V).max(axis=0, initial=0.0)
        size[~((size > 0) & np.isfinite(size))] = 1.0
        return self.tiles.times(V / size) * size


def factor(gram: Gram, rank: int, seed: int = 0) -> np.ndarray:
    """L, (n, r) with r ≤ rank, K ≈ L Lᵀ: exact on the span of the columns chosen.

    It ends early where nothing is left to explain; an indefinite K is followed as long
    as what is left has a positive diagonal.
    """
    n = gram.shape[0]
    rng = np.random.default_rng(seed)
    L = np.empty((n, min(rank, n)), order="F")
    left = np.maximum(np.asarray(gram.diag(), dtype=float), 0.0)
    enough, done = EXPLAINED * left.sum(), 0
    while done < L.shape[1] and left.sum() > enough:
        size = min(BLOCK, L.shape[1] - done, int(np.count_nonzero(left)))
        chosen = rng.choice(n, size, replace=False, p=left / left.sum())
        rows = np.asarray(gram.rows(chosen), dtype=float)
        rows -= multiply(L[chosen, :done], L[:, :done].T)
        R, order, found, _ = dpstrf(rows[:, chosen], tol=-1.0)
        kept = order[:found] - 1
        if not found:
            break
        new = solve_triangular(R[:found, :found], rows[kept], trans="T")
        L[:, done : done + found] = new.T
        left = np.maximum(left - np.einsum("ij,ij->j", new, new), 0.0)
        left[chosen] = 0.0
        done += found
    return L[:, :done]


class LowRank:
    """(λI + S L Lᵀ S)⁻¹ V for a diagonal S, by a matrix of the rank of L.

    Parameters
    ----------
    L : (n, r) array
    scale : the diagonal of S, (n, 1)
    reg : λ > 0
    """

    def __init__(self, L: np.ndarray, scale: np.ndarray, reg: float):
        self.reg = reg
        self.left = scale.astype(L.dtype) * L
        inner = multiply(self.left.T, self.left).astype(float)
        # Rounding can leave a singular L a little below 0.
        slack = 8 * np.finfo(L.dtype).eps * np.trace(inner)
        inner[np.diag_indices_from(inner)] += max(reg, slack)
        # By numpy alone: scipy's BLAS would wait for the threads of numpy's to rest.
        self.inverse = interruptible(np.linalg.inv, inner, work=1.0 * len(inner) ** 3)

    def __call__(self, V: np.ndarray) -> np.ndarray:
        inside = self.left.T @ V.astype(self.left.dtype)
        inside = self.inverse @ inside.astype(float)
        return (V - self.left @ inside.astype(self.left.dtype)) / self.reg


class Krylov(NamedTuple):
    """What conjugate gradients found: x, the residual left, and how many products."""

    x: np.ndarray
    residual: np.ndarray
    n_iter: int
    convex: bool  # no direction of negative curvature was met


def conjugate_gradient(
    apply: Callable[[np.ndarray], np.ndarray],
    rhs: np.ndarray,
    precondition: Callable[[np.ndarray], np.ndarray],
    done: Callable[[np.ndarray], bool],
    max_iter: int,
    *,
    together: bool = False,
    watch: Callable[[int, np.ndarray], bool] | None = None,
) -> Krylov:
    """x with A x = rhs for a positive definite A, until done(residual).

    Parameters
    ----------
    apply, precondition : A V, and an approximation of A⁻¹ V
    rhs : (n, q) array
    together : whether the columns are one vector of n q numbers, or q systems
    watch : called with the number of products and the residual; returns True to stop
    """
    axis = None if together else 0
    x, r = np.zeros_like(rhs), rhs.copy()
    p = z = precondition(r)
    rz = np.sum(r * z, axis=axis)
    n_iter = 0
    while n_iter < max_iter and not done(r):
        Ap = apply(p)
        n_iter += 1
        curvature = np.sum(p * Ap, axis=axis)
        if np.any(curvature < 0):
            return Krylov(x, r, n_iter, False)
        # A column that is solved has no direction left: it stays.
        step = np.divide(rz, curvature, out=np.zeros_like(rz), where=curvature > 0)
        x += step * p
        r -= step * Ap
        if watch is not None and watch(n_iter, r):
            break
        z = precondition(r)
        fresh = np.sum(r * z, axis=axis)
        p = z + np.divide(fresh, rz, out=np.zeros_like(rz), where=rz > 0) * p
        rz = fresh
    return Krylov(x, r, n_iter, True)
