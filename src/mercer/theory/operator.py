"""Mercer's expansion: eigenvalues and eigenfunctions of a kernel's integral operator.

The operator is discretised by Gauss–Legendre quadrature and its eigenfunctions are
extended off the nodes by Nyström's formula (Atkinson, The Numerical Solution of
Integral Equations of the Second Kind, 1997, chapter 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mercer.kernels.base import Kernel, row_blocks
from mercer.native.lapack import eigh

MOST_NODES = 4000  # eigenvalues of a matrix of this size take some ten seconds


@dataclass(frozen=True, eq=False, repr=False)
class MercerExpansion:
    """k(x, z) = Σⱼ λⱼ φⱼ(x) φⱼ(z) on a box, cut off after some terms.

    Attributes
    ----------
    kernel, low, high : k and the box, corners (d,)
    eigenvalues : (p,) array λⱼ, decreasing
    trace : ∫ k(x, x) dx, the sum of all eigenvalues, those left out included
    nodes, weights : (N, d) and (N,) arrays, the quadrature

    Examples
    --------
    >>> from mercer import Linear
    >>> from mercer.theory import mercer_expansion
    >>> found = mercer_expansion(Linear(), 0, 1)  # λ₁ = ⅓, φ₁(x) = √3 x
    >>> found.eigenvalues.round(4).tolist(), round(found.trace, 4)
    ([0.3333], 0.3333)
    >>> found.eigenfunctions([1.0]).round(4).tolist()
    [[1.7321]]
    """

    kernel: Kernel
    low: np.ndarray
    high: np.ndarray
    eigenvalues: np.ndarray
    trace: float
    nodes: np.ndarray
    weights: np.ndarray
    _extension: np.ndarray  # φⱼ(x) = Σᵢ k(x, zᵢ) extensionᵢⱼ

    def eigenfunctions(self, X: npt.ArrayLike) -> np.ndarray:
        """φⱼ(xᵢ) = (1/λⱼ) ∫ k(xᵢ, z) φⱼ(z) dz, an (n, p) array; ∫ φᵢ φⱼ = 1 or 0.

        Parameters
        ----------
        X : (n, d) array of points of the box; (n,) will do on an interval
        """
        return self.kernel.matmul(self._points(X), self.nodes, self._extension)

    def reconstruct(
        self, X: npt.ArrayLike, Y: npt.ArrayLike | None = None
    ) -> np.ndarray:
        """Σⱼ λⱼ φⱼ(x) φⱼ(y) over the p terms kept, an (n, m) array."""
        left = self.eigenfunctions(X)
        right = left if Y is None else self.eigenfunctions(Y)
        return (left * self.eigenvalues) @ right.T

    def sup_error(self, n_grid: int | None = None) -> float:
        """max |k(x, z) - Σⱼ λⱼ φⱼ(x) φⱼ(z)|, measured on a uniform grid of the box.

        The true supremum may lie between the grid points; a finer grid comes closer.

        Parameters
        ----------
        n_grid : grid points along each axis, ends included; None for some 2,000 in all
        """
        d = len(self.low)
        if n_grid is None:
            n_grid = max(3, int(2000 ** (1 / d)))
        grid = _tensor(list(np.linspace(self.low, self.high, n_grid).T))
        right = self.eigenfunctions(grid)
        worst = 0.0
        for rows in row_blocks(len(grid), len(grid), 16.0):
            truncated = (right[rows] * self.eigenvalues) @ right.T
            error = np.abs(self.kernel(grid[rows], grid) - truncated)
            worst = max(worst, float(error.max()))
        return worst

    def _points(self, X: npt.ArrayLike) -> np.ndarray:
        X = np.asarray(X, dtype=float)
        d = len(self.low)
        if X.ndim == 1 and d == 1:
            X = X[:, None]
        if X.ndim != 2 or X.shape[1] != d:
            raise ValueError(
                f"This Mercer expansion lives on a box in {d} dimensions; its points "
                f"are an (n, {d}) array. Got shape {X.shape}."
            )
        return X

    def __repr__(self) -> str:
        box = " × ".join(
            f"[{low:g}, {high:g}]"
            for low, high in zip(self.low, self.high, strict=True)
        )
        p = len(self.eigenvalues)
        share = self.eigenvalues.sum() / self.trace if self.trace else 1.0
        return (
            f"MercerExpansion of {self.kernel!r} on {box}: {p} eigenvalue"
            f"{'s' * (p != 1)}, {share:.4%} of the trace {self.trace:.6g}"
        )


def mercer_expansion(
    kernel: Kernel,
    low: npt.ArrayLike = 0.0,
    high: npt.ArrayLike = 1.0,
    n_components: int = 10,
    n_nodes: int = 200,
) -> MercerExpansion:
    """λⱼ φⱼ(x) = ∫ k(x, z) φⱼ(z) dz over a box, ‖φⱼ‖ = 1 in L₂: k = Σⱼ λⱼ φⱼ φⱼ.

    Smooth kernels reach rounding error with few nodes. A kink of k on the diagonal, as
    that of min(x, z), leaves an error in λⱼ relative to λⱼ of about (j / n_nodes)².
    Signs are fixed by the first value that is not small being positive; where an
    eigenvalue is multiple, its eigenfunctions are some orthonormal basis.

    Parameters
    ----------
    kernel : continuous, symmetric, positive semidefinite, on points of d numbers
    low, high : corners of the box: numbers for an interval, else (d,) arrays
    n_components : number of terms; fewer where the other eigenvalues are zero to
        within N · eps · λ₁
    n_nodes : Gauss–Legendre nodes along each axis, N = n_nodesᵈ in all

    Examples
    --------
    >>> from mercer import Intersection
    >>> from mercer.theory import mercer_expansion
    >>> found = mercer_expansion(Intersection(), 0, 1, n_components=2)
    >>> found.eigenvalues.round(3).tolist()  # 1 / (π (j - ½))²
    [0.405, 0.045]
    """
    low, high = _box(low, high)
    if not n_nodes >= 1:
        raise ValueError(f"mercer_expansion needs n_nodes ≥ 1; got {n_nodes!r}.")
    N = n_nodes ** len(low)
    if N > MOST_NODES:
        most = int(MOST_NODES ** (1 / len(low)) + 1e-9)
        raise ValueError(
            f"n_nodes={n_nodes} along {len(low)} axes are {N:,} nodes; the expansion "
            f"takes up to {MOST_NODES:,}. Use n_nodes={most} or fewer."
        )
    if not 1 <= n_components <= N:
        raise ValueError(
            f"mercer_expansion needs 1 ≤ n_components ≤ {N} (nodes); got "
            f"n_components={n_components!r}."
        )
    nodes, weights = _quadrature(low, high, n_nodes)
    root = np.sqrt(weights)
    # √W K √W has the eigenvalues of the quadrature and is symmetric.
    K = kernel(nodes).astype(float) * np.multiply.outer(root, root)
    eigenvalues, vectors = eigh(K)
    tolerance = N * np.finfo(float).eps * np.abs(eigenvalues).max()
    if eigenvalues[0] < -tolerance:
        raise ValueError(
            f"Mercer's theorem needs a positive semidefinite kernel; {kernel} has "
            f"the eigenvalue {eigenvalues[0]:.6g} on this box."
        )
    kept = np.flatnonzero(eigenvalues > tolerance)[::-1][:n_components]
    eigenvalues, vectors = eigenvalues[kept], _signed(vectors[:, kept], root)
    return MercerExpansion(
        kernel=kernel,
        low=low,
        high=high,
        eigenvalues=eigenvalues,
        trace=float(weights @ kernel.diag(nodes)),
        nodes=nodes,
        weights=weights,
        _extension=root[:, None] * vectors / eigenvalues,
    )


def _box(low: npt.ArrayLike, high: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.broadcast_arrays(
        np.atleast_1d(np.asarray(low, dtype=float)), np.asarray(high, dtype=float)
    )
    if low.ndim != 1 or not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
        raise ValueError(
            "A box has finite corners with low < high along every axis, numbers or "
            f"(d,) arrays; got low={low.tolist()}, high={high.tolist()}."
        )
    return low, high


def _quadrature(
    low: np.ndarray, high: np.ndarray, n_nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (N, d) and weights (N,) of the tensor Gauss–Legendre rule on a box."""
    at, weight = np.polynomial.legendre.leggauss(n_nodes)
    half = (high - low) / 2
    nodes = _tensor(list((low + high)[:, None] / 2 + np.outer(half, at)))
    return nodes, _tensor(list(np.outer(half, weight))).prod(axis=1)


def _tensor(axes: list[np.ndarray]) -> np.ndarray:
    """Every choice of one number from each axis, an (N, d) array."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def _signed(vectors: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Columns whose function, vector / root, is positive where first it is large."""
    values = vectors / root[:, None]
    size = np.abs(values)
    first = np.argmax(size > 0.1 * size.max(axis=0), axis=0)
    return vectors * np.sign(np.take_along_axis(values, first[None], axis=0))
