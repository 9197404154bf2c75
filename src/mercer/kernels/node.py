"""Kernels between the nodes of one graph, or the rows of one matrix: K = e^{βH}.

Kondor and Lafferty, ICML (2002). A small matrix is decomposed once. Otherwise e^{βH}V
is a sum of Chebyshev polynomials of H times V, whose coefficients are Bessel functions:
with the spectrum of H inside [a, b] and z = β(b - a)/2,

    e^{βH} = e^{βb} Σₖ (2 - δₖ₀) e^{-z}Iₖ(z) Tₖ(H'),   H' = (2H - (a + b)I) / (b - a),

cut off where the sum of what is left out is below the rounding. It takes about
√(70 z) products with H where z is large, and nothing n × n is formed.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh
from scipy.special import ive

from mercer.data.checks import check_label, check_nesting, describe
from mercer.data.graphs import Graph
from mercer.data.points import Points, as_points, objects, vectors
from mercer.kernels.base import BLOCK_MB, Kernel, Rule, row_blocks
from mercer.kernels.checks import Range, check_positive
from mercer.native import sparsity
from mercer.native.interruptible import interruptible
from mercer.native.sparsity import Vectors

DECOMPOSED = 400  # rows of a matrix whose eigenvectors are computed
ROUNDING = 1e-17  # of the Chebyshev series, beside its sum 1
LARGEST = math.log(np.finfo(float).max)


class NodeKernel(Kernel):
    """k(i, j) = (e^{βH})ᵢⱼ: fill in H, and which of its rows the points are."""

    smooth = Range.positive("beta")

    beta: float

    @abstractmethod
    def _places(self, X: Points) -> np.ndarray:
        """The rows of H that the points stand for."""

    @abstractmethod
    def _matrix(self) -> Vectors:
        """H, symmetric: an array or CSR."""

    def _power(self) -> MatrixPower:
        """e^{βH}; what was computed for it is kept with the kernel."""
        kept = self.__dict__.get("_kept")
        if kept is None:
            kept = MatrixPower(self._matrix(), float(self.beta), self._highest())
            self.__dict__["_kept"] = kept
        return kept

    def _highest(self) -> float | None:
        """The largest eigenvalue of H, where it is known."""
        return None

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {key: part for key, part in state.items() if key != "_kept"}

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        rows = self._places(X)
        if Y is None:
            block = self._power().block(rows, rows)
            return (block + block.T) / 2  # symmetric bit for bit
        return self._power().block(rows, self._places(Y))

    def diag(self, X: Points) -> np.ndarray:
        return self._power().diagonal(self._places(X))

    def matmul(
        self,
        X: Points,
        Y: Points | None,
        V: npt.ArrayLike,
        *,
        block_mb: float = BLOCK_MB,
    ) -> np.ndarray:
        rows = self._places(X)
        columns = rows if Y is None else self._places(Y)
        V = np.asarray(V, dtype=float)
        if V.ndim not in (1, 2) or len(V) != len(columns):
            raise ValueError(
                f"k(X, Y) @ V needs one number or one row of V for each of the "
                f"{len(columns)} points of Y; got V of shape {V.shape}."
            )
        power = self._power()
        flat = V.reshape(len(V), -1)
        out = np.empty((len(rows), flat.shape[1]))
        for part in row_blocks(flat.shape[1], power.size, block_mb):
            spread = np.zeros((power.size, part.stop - part.start))
            np.add.at(spread, columns, flat[:, part])
            out[:, part] = power.times(spread)[rows]
        return out.reshape(len(rows), *V.shape[1:])

    def rule(self) -> Rule:
        return Rule(True, "e^{βH} is the square of the symmetric matrix e^{βH/2}")


@dataclass
class Diffusion(NodeKernel):
    """k(u, v) = (e^{-βL})ᵤᵥ, L the Laplacian of a graph: the heat from u at v.

    Points are nodes of the graph. Rows over all nodes sum to 1; nodes in different
    components have k = 0. On large graphs `Gram @ V` never forms the matrix.

    Parameters
    ----------
    graph : a Graph, a list of edges, an adjacency matrix (its nodes are 0..n-1), a
        tuple (edges, labels) or a networkx graph; weights count
    beta : the time that the heat has to spread, > 0

    Examples
    --------
    >>> from mercer import Diffusion
    >>> k = Diffusion([("a", "b"), ("b", "c")], beta=0.5)
    >>> k(["a"], ["a", "b", "c"]).round(4).tolist()
    [[0.6738, 0.259, 0.0673]]
    """

    graph: Any
    beta: float = 1.0

    _shared = ("graph",)

    def __post_init__(self) -> None:
        check_positive(self, "beta", self.beta)
        # Read once: later changes of a list or a matrix have no effect.
        self.__dict__["_read"] = Graph.of(self.graph, "Diffusion", "the graph")

    def _graph(self) -> Graph:
        return self.__dict__["_read"]

    def _matrix(self) -> Vectors:
        return -self._graph().laplacian()

    def _highest(self) -> float:
        return 0.0

    def _places(self, X: Points) -> np.ndarray:
        graph, names = self._graph(), names_of(X)
        try:
            return np.array([graph.index[name] for name in names], dtype=np.intp)
        except (KeyError, TypeError):
            for i, name in enumerate(names):
                if not isinstance(name, Hashable) or name not in graph.index:
                    raise ValueError(
                        f"Diffusion compares nodes of its graph; point {i} is "
                        f"{describe(name)}, which is none of its {len(graph.nodes)} "
                        "nodes. Add it to the graph, or leave it out."
                    ) from None
            raise


def names_of(X: Points) -> list[Any]:
    """The points as names: the rows of a matrix of one column are numbers or words."""
    X = as_points(X)
    if isinstance(X, np.ndarray):
        rows = X.tolist()
        if X.ndim == 1:
            return rows
        return [row[0] if len(row) == 1 else tuple(row) for row in rows]
    names = list(objects(X))
    for i, name in enumerate(names):
        if type(name) is tuple:  # with shared parts its hash could take very long
            check_label(name, f"The names of nodes are; point {i}")
    return names


@dataclass
class MatrixExponential(NodeKernel):
    """k(i, j) = (e^{βH})ᵢⱼ, H a symmetric matrix: dK/dβ = HK.

    Points are whole numbers, rows of H. On large sparse H `Gram @ V` never forms the
    matrix.

    Parameters
    ----------
    H : (N, N) symmetric array or sparse matrix
    beta : > 0

    Examples
    --------
    >>> from mercer import MatrixExponential
    >>> k = MatrixExponential([[0.0, 1.0], [1.0, 0.0]])
    >>> k([0], [0, 1]).round(4).tolist()
    [[1.5431, 1.1752]]
    """

    H: Any
    beta: float = 1.0

    _shared = ("H",)

    def __post_init__(self) -> None:
        check_positive(self, "beta", self.beta)
        listed = isinstance(self.H, list) and all(isinstance(h, list) for h in self.H)
        if not (listed or hasattr(self.H, "shape")):
            raise TypeError(
                f"MatrixExponential needs a matrix H, numpy's or scipy's; got "
                f"{describe(self.H)}. For a graph pass its graph.adjacency(), or use "
                "Diffusion(graph)."
            )
        if sp.issparse(self.H):
            sparsity.check(self.H)
        H = vectors(self.H, "MatrixExponential")
        if H.shape[0] != H.shape[1]:
            raise ValueError(
                f"MatrixExponential needs a square matrix H; got shape {H.shape}."
            )
        entries = H.data if sp.issparse(H) else H
        if not np.isfinite(entries).all():
            raise ValueError("MatrixExponential needs finite numbers in H.")
        gap = abs(H - H.T)
        if H.shape[0] and gap.max() > 1e-12 * abs(H).max():
            raise ValueError(
                f"MatrixExponential needs a symmetric H; H and its transpose differ by "
                f"up to {gap.max():.3g}. Take (H + H.T) / 2, or H.T @ H."
            )
        # A copy: later changes of H have no effect.
        self.__dict__["_own"] = (H.astype(float) + H.T) / 2

    def _matrix(self) -> Vectors:
        return self.__dict__["_own"]

    def _places(self, X: Points) -> np.ndarray:
        N = np.shape(self.H)[0]
        names = names_of(X)
        check_nesting(names)
        X = np.asarray(names)
        numeric = X.ndim == 1 and (X.dtype.kind in "iuf" or not X.size)
        if not (numeric and np.array_equal(X, np.trunc(X))):
            raise TypeError(
                "MatrixExponential compares rows of H, named by whole numbers; got an "
                f"array of shape {X.shape} and dtype {X.dtype}."
            )
        index = X.astype(np.intp)
        if index.size and not (0 <= index.min() and index.max() < N):
            raise IndexError(
                f"H of MatrixExponential has {N} rows, numbered 0 to {N - 1}; got an "
                f"index from {index.min()} to {index.max()}."
            )
        return index


class MatrixPower:
    """e^{βH} of a symmetric H: blocks, the diagonal, products.

    Parameters
    ----------
    highest : the largest eigenvalue of H, computed where None
    """

    def __init__(self, H: Vectors, beta: float, highest: float | None = None) -> None:
        self.H, self.beta, self.highest = H, beta, highest
        self.size = H.shape[0]
        self.decomposed = self.size <= DECOMPOSED or not sp.issparse(H)

    def times(self, V: np.ndarray) -> np.ndarray:
        """e^{βH} V for an (N, q) array V."""
        if self.decomposed:
            return self._root @ (self._root.T @ V)
        matrix, coefficients, factor = self._series
        before, now = V, matrix @ V / 2
        out = coefficients[0] * V
        for coefficient in coefficients[1:]:
            out += coefficient * now
            before, now = now, matrix @ now - before
        return factor * out

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The entries at all pairs of some rows and some columns."""
        if self.decomposed:
            return self._root[rows] @ self._root[columns].T
        if len(rows) < len(columns):
            return self.block(columns, rows).T
        some, where = np.unique(columns, return_inverse=True)
        out = np.empty((len(rows), len(some)))
        for part in row_blocks(len(some), 5 * self.size, BLOCK_MB):
            out[:, part] = self._columns(some[part])[rows]
        return out[:, where]

    def diagonal(self, rows: np.ndarray) -> np.ndarray:
        """The entries on the diagonal, in some rows: ‖e^{βH/2} eᵢ‖²."""
        if self.decomposed:
            return np.einsum("ij,ij->i", self._root[rows], self._root[rows])
        half = MatrixPower(self.H, self.beta / 2, self._spectrum[1])
        some, where = np.unique(rows, return_inverse=True)
        out = np.empty(len(some))
        for part in row_blocks(len(some), 5 * self.size, BLOCK_MB):
            out[part] = np.square(half._columns(some[part])).sum(axis=0)
        return out[where]

    def _columns(self, which: np.ndarray) -> np.ndarray:
        unit = np.zeros((self.size, len(which)))
        unit[which, np.arange(len(which))] = 1
        return self.times(unit)

    @cached_property
    def _root(self) -> np.ndarray:
        """U e^{βΛ/2}, so that e^{βH} is this times its transpose."""
        H = self.H.toarray() if sp.issparse(self.H) else self.H
        values, vectors = interruptible(np.linalg.eigh, H, work=4.0 * len(H) ** 3)
        self._check(values.max(initial=0))
        return vectors * np.exp(self.beta * values / 2)

    @cached_property
    def _spectrum(self) -> tuple[float, float]:
        """Bounds of the eigenvalues, the upper one sharp: e^{βb} scales rounding."""
        middle = self.H.diagonal()
        # Gershgorin: an eigenvalue is this near to an entry of the diagonal.
        reach = abs(self.H).sum(axis=1) - abs(middle)
        low, high = float((middle - reach).min()), float((middle + reach).max())
        if self.highest is not None:
            return low, self.highest
        start = np.random.default_rng(0).normal(size=self.size)
        [top] = eigsh(self.H, 1, which="LA", v0=start, return_eigenvectors=False)
        return low, min(high, float(top) + 1e-9 * (high - low))

    @cached_property
    def _series(self) -> tuple[sp.csr_array, np.ndarray, float]:
        """2H', the coefficients of its Chebyshev polynomials, and a factor e^{βb}."""
        low, high = self._spectrum
        self._check(high)
        width = high - low or 1.0  # of any width, where H is a multiple of I
        low = high - width
        z = self.beta * width / 2
        weights = 2 * ive(np.arange(40 + math.ceil(math.sqrt(80 * z))), z)
        weights[0] /= 2
        left_out = np.cumsum(weights[::-1])[::-1]
        identity = sp.eye_array(self.size, format="csr")
        matrix = sp.csr_array(
            (4 / width) * self.H - (2 * (high + low) / width) * identity
        )
        return matrix, weights[left_out > ROUNDING], math.exp(self.beta * high)

    def _check(self, highest: float) -> None:
        if self.beta * highest > LARGEST:
            raise ValueError(
                f"e^(βH) is beyond floating-point numbers: H has the eigenvalue "
                f"{highest:.6g} and beta={self.beta!r}. Pass beta < "
                f"{LARGEST / highest:.3g}, or H - cI, which divides K by e^(βc)."
            )
