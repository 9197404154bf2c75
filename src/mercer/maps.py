"""Explicit maps: the coordinates of φ as columns that are known again at new points.

explicit(kernel, X)    Φ over the columns there are, with a key and a name for each
FeatureExpansion       f(x) = Σⱼ coefⱼ φⱼ(x) + bias on some of these columns

A map with a fixed number of columns (monomials, scores) knows them by their place, one
that counts parts by their 64-bit ids, one with a column for whatever occurs (words,
fragments of trees) by their names. New points may have columns that were not there
before; who has weights for some columns asks for those alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.points import Points, as_points, column_names, count, field
from mercer.kernels.algebra import Normalized, On, Pullback
from mercer.kernels.approximate import Approximation
from mercer.kernels.base import Constant, Kernel, Scaled, Sum
from mercer.kernels.counts import CountKernel, VocabularyKernel
from mercer.kernels.explicit import GaussianSeries, beside, rows_multiplied
from mercer.kernels.string import WeightedDegree
from mercer.kernels.substring import WeightedSubstrings
from mercer.kernels.vector import Linear, Polynomial, is_vectors
from mercer.kernels.ways import FeatureKernel
from mercer.native.sparsity import Vectors

SHORT = 64  # letters of the longest substrings that are listed without being asked

WITH_A_MAP = (
    "Linear, Polynomial, GaussianSeries, FeatureFunction, RankOne, Spectrum, Mismatch, "
    "WeightedSubstrings, WeightedDegree, Subsequence, Subtree, SubsetTree, "
    "PartialTree, TaggedTree, WeisfeilerLehman, ShortestPath, Fisher, Natural, "
    "Nystrom, RandomFourier, PolynomialSketch; sums and multiples of them, Normalized, "
    "On and Pullback"
)


@dataclass(frozen=True, eq=False)
class Features:
    """Φ, what its columns are known by, and their names.

    Parameters
    ----------
    matrix : (n, p) float64 array or CSR
    listed, names : functions that list the keys of the columns, and their names
    """

    matrix: Any
    listed: Callable[[], Sequence[Hashable]]
    names: Callable[[], list[str]]

    @cached_property
    def keys(self) -> Sequence[Hashable]:
        """What the columns are known by, all different."""
        keys, p = self.listed(), self.matrix.shape[1]
        if len(keys) != p or len(set(keys)) < p:
            raise ValueError(
                f"The explicit map has columns that cannot be distinguished: {p} of "
                f"them, {len(set(keys))} different names."
            )
        return keys


def explicit(
    kernel: Kernel, X: Points, columns: Sequence[str] | None = None
) -> Features:
    """The features of the points X, with k(X) = ΦΦᵀ, in the order of the kernel.

    Parameters
    ----------
    kernel : with an explicit map and no parameter left to learn
    columns : names for the coordinates of vectors; None for those of X
    """
    rule: Callable[..., Features] = _RULES.get(type(kernel), _of_kernel)
    return rule(kernel, X, columns)


def has_quick_map(kernel: Kernel) -> bool:
    """Whether `explicit` takes time and memory linear in the points.

    So it does not where columns stand for subsequences or fragments of trees, which
    are exponentially many, or for substrings of all lengths.
    """
    if isinstance(kernel, Scaled | Normalized | On | Pullback):
        return has_quick_map(kernel.kernel)
    if isinstance(kernel, Sum):
        return has_quick_map(kernel.left) and has_quick_map(kernel.right)
    if isinstance(kernel, WeightedSubstrings):
        return kernel.weights is not None and len(kernel.weights) <= SHORT
    quick = FeatureKernel | Linear | Polynomial | Constant | WeightedDegree
    return isinstance(kernel, quick)


def dense_columns(kernel: Kernel, X: Points) -> int | None:
    """p of dense vectors, before Φ is made; None where only Φ itself tells."""
    if isinstance(kernel, Scaled | Normalized):
        return dense_columns(kernel.kernel, X)
    if isinstance(kernel, Sum):
        left, right = (dense_columns(k, X) for k in (kernel.left, kernel.right))
        return None if left is None or right is None else left + right
    if isinstance(kernel, On):
        return dense_columns(kernel.kernel, field(as_points(X), kernel.field))
    if isinstance(kernel, Constant):
        return 1
    X = as_points(X)
    if not is_vectors(X) or sp.issparse(X):
        return None
    d = X.shape[1]
    if isinstance(kernel, Linear):
        return d
    if isinstance(kernel, Polynomial):
        return kernel._map().width(d)
    return kernel.width(d) if isinstance(kernel, GaussianSeries) else None


def landmark_columns(kernel: Kernel) -> int | None:
    """p of an approximation, which it knows before Φ is made; None of other kernels."""
    if isinstance(kernel, Scaled):
        return landmark_columns(kernel.kernel)
    return kernel._width() if isinstance(kernel, Approximation) else None


def _of_kernel(kernel: Any, X: Points, columns: Sequence[str] | None) -> Features:
    if isinstance(kernel, VocabularyKernel):
        found = kernel.columns(X)
        names = cache(found.names)
        return Features(_double(found.matrix), names, names)
    if isinstance(kernel, CountKernel):
        counts = kernel.counts(X)
        return Features(
            _double(counts.matrix),
            counts.ids.tolist,
            lambda: list(kernel.feature_names(X)),
        )
    if not (hasattr(kernel, "features") and hasattr(kernel, "feature_names")):
        raise TypeError(
            f"{kernel} has no explicit map with finitely many columns. Those that "
            f"have one: {WITH_A_MAP}. Nystrom(kernel, size) is such a kernel near any "
            "other, RBF(gamma).series(degree) near the Gaussian."
        )
    matrix = _double(kernel.features(X))
    if isinstance(kernel, FeatureKernel):
        return Features(matrix, _places(matrix), lambda: list(kernel.feature_names(X)))
    names = cache(lambda: list(kernel.feature_names(X)))
    return Features(matrix, names, names)


def _places(matrix: Vectors) -> Callable[[], Sequence[Hashable]]:
    """Columns that are known by their place."""
    return partial(range, matrix.shape[1])


def _linear(kernel: Linear, X: Points, columns: Sequence[str] | None) -> Features:
    matrix = _double(kernel.features(X))
    names = list(columns) if columns is not None else column_names(X)
    return Features(matrix, _places(matrix), lambda: names)


def _polynomial(
    kernel: Polynomial, X: Points, columns: Sequence[str] | None
) -> Features:
    matrix = _double(kernel.features(X))
    names = list(columns) if columns is not None else column_names(X)
    return Features(matrix, _places(matrix), lambda: kernel._map().names(names))


def _constant(kernel: Constant, X: Points, columns: Sequence[str] | None) -> Features:
    ones = np.full((count(as_points(X)), 1), np.sqrt(float(kernel.c)))
    return Features(ones, _places(ones), lambda: ["1"])


def _scaled(kernel: Scaled, X: Points, columns: Sequence[str] | None) -> Features:
    inner = explicit(kernel.kernel, X, columns)
    return replace(inner, matrix=inner.matrix * np.sqrt(float(kernel.factor)))


def _sum(kernel: Sum, X: Points, columns: Sequence[str] | None) -> Features:
    left, right = (explicit(k, X, columns) for k in (kernel.left, kernel.right))
    blocks = [left.matrix, right.matrix]
    if any(map(sp.issparse, blocks)):
        blocks = [sp.csr_array(block) for block in blocks]
    return Features(
        beside(blocks),
        lambda: [*((0, key) for key in left.keys), *((1, key) for key in right.keys)],
        lambda: [*left.names(), *right.names()],
    )


def _normalized(
    kernel: Normalized, X: Points, columns: Sequence[str] | None
) -> Features:
    inner = explicit(kernel.kernel, X, columns)
    matrix = inner.matrix
    square = matrix.multiply(matrix) if sp.issparse(matrix) else matrix**2
    lengths = np.sqrt(np.asarray(square.sum(axis=1), dtype=float).ravel())
    none = (lengths == 0).astype(float)
    scaled = rows_multiplied(matrix, 1 / np.where(lengths > 0, lengths, 1.0))
    if not none.any():
        return replace(inner, matrix=_double(scaled))
    # Points without any part share one feature, so that k = 1 among them.
    last = sp.csr_array(none[:, None]) if sp.issparse(matrix) else none[:, None]
    return Features(
        _double(beside([scaled, last])),
        lambda: [*inner.keys, (None, "nothing")],
        lambda: [*inner.names(), "nothing"],
    )


def _on(kernel: On, X: Points, columns: Sequence[str] | None) -> Features:
    X, where = as_points(X), kernel.field
    part = field(X, where)
    if is_vectors(X) and is_vectors(part):
        names = np.array(columns if columns is not None else column_names(X), object)
        wanted: Any = where if isinstance(where, list | slice) else [where]
        named = not isinstance(wanted, slice) and isinstance(wanted[0], str)
        chosen = wanted if named else names[wanted].tolist()
        return explicit(kernel.kernel, part, chosen)
    inner = explicit(kernel.kernel, part)
    return replace(
        inner, names=lambda: [f"{name} of {where}" for name in inner.names()]
    )


def _pullback(kernel: Pullback, X: Points, columns: Sequence[str] | None) -> Features:
    return explicit(kernel.kernel, kernel._image(X))


_RULES: dict[type[Kernel], Callable[..., Features]] = {
    Linear: _linear,
    Polynomial: _polynomial,
    Constant: _constant,
    Scaled: _scaled,
    Sum: _sum,
    Normalized: _normalized,
    On: _on,
    Pullback: _pullback,
}


def _double(matrix: Vectors) -> Vectors:
    """Φ in float64, sparse as CSR, checked to be finite."""
    matrix = sp.csr_array(matrix) if sp.issparse(matrix) else np.asarray(matrix)
    matrix = matrix.astype(float, copy=False)
    entries = matrix.data if sp.issparse(matrix) else matrix
    if not np.isfinite(entries).all():
        raise ValueError(
            "The explicit map has coordinates that are not finite numbers. Scale the "
            "points, or choose another kernel."
        )
    return matrix


@dataclass(frozen=True, eq=False, repr=False)
class FeatureExpansion:
    """f(x) = Σⱼ coefⱼ φⱼ(x) + bias on some columns of an explicit map.

    Columns of new points that are not among them count for nothing.

    Parameters
    ----------
    kernel : whose explicit map it is
    keys, names : of the s columns
    coef : (s,) array, or (s, c) for c outputs
    bias : a number, or (c,) of them
    """

    kernel: Kernel
    keys: Sequence[Hashable]
    names: Sequence[str]
    coef: np.ndarray
    bias: Any = 0.0

    @property
    def n_outputs(self) -> int:
        """c, the number of columns of coef; 1 where coef is (s,)."""
        return 1 if self.coef.ndim == 1 else self.coef.shape[1]

    def __call__(self, X: Points) -> np.ndarray:
        """f at the m points of X: (m,), or (m, c) with several outputs."""
        sums = np.zeros((count(as_points(X)), *self.coef.shape[1:]))
        if len(self.keys) and len(sums):
            found = explicit(self.kernel, X)
            sums += found.matrix @ self.at(found.keys)
        return sums + self.bias

    def at(self, keys: Sequence[Hashable]) -> np.ndarray:
        """The coefficients of these columns, 0 where f does not know them."""
        place = {key: j for j, key in enumerate(keys)}
        out = np.zeros((len(keys), *self.coef.shape[1:]))
        for row, key in zip(self.coef, self.keys, strict=True):
            if key in place:
                out[place[key]] = row
        return out

    def norm(self) -> float | np.ndarray:
        """‖w‖₂, a number or (c,); f has no larger norm in the RKHS of the kernel."""
        root = np.linalg.norm(self.coef, axis=0)
        return root if root.ndim else float(root)

    def selected(self) -> list[tuple[str, Any]]:
        """(name, weight) of every column, the largest |weight| first."""
        sizes = np.abs(self.coef.reshape(-1, self.n_outputs)).max(axis=1, initial=0.0)
        order = np.argsort(-sizes, kind="stable")
        rows = self.coef.tolist() if self.coef.ndim == 1 else list(self.coef)
        return [(self.names[j], rows[j]) for j in order]

    def __repr__(self) -> str:
        return (
            f"FeatureExpansion of {self.kernel!r} on {len(self.keys)} columns, "
            f"{self.n_outputs} output(s)"
        )
