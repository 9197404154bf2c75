"""Explicit maps: the coordinates of φ as columns that are known again at new points.

explicit(kernel, X)    Φ over the columns there are, with a key and a name for each
FeatureExpansion       f(x) = Σⱼ coefⱼ φⱼ(x) + bias on some of these columns

A map with a fixed number of columns (monomials, scores) knows them by their place, one
that counts parts by their 64-bit ids, one with a column for whatever occurs (words,
fragments of trees) by their names. New points may have columns that were not there
before; who has weights for some columns asks for those alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.points import Points, as_points, column_names, count, field, take
from mercer.kernels.algebra import (
    Centered,
    Conformal,
    Normalized,
    On,
    PolynomialOf,
    Pullback,
)
from mercer.kernels.approximate import Approximation
from mercer.kernels.base import Kernel
from mercer.kernels.checks import are_finite
from mercer.kernels.counts import CountKernel, VocabularyKernel
from mercer.kernels.explicit import (
    MOST_COLUMNS,
    GaussianSeries,
    beside,
    monomial_count,
    powers,
    row_products,
    rows_multiplied,
)
from mercer.kernels.operators import Constant, Power, Product, Scaled, Sum
from mercer.kernels.string import WeightedDegree
from mercer.kernels.substring import WeightedSubstrings
from mercer.kernels.vector import Linear, Polynomial, PowerSeries, is_vectors
from mercer.kernels.ways import FeatureKernel
from mercer.native import memory
from mercer.native.sparsity import Vectors

SHORT = 64  # letters of the longest substrings that are listed without being asked
SAMPLE = 32  # points by which the entries of a map are estimated before it is made
BYTES = 64.0  # for each entry of a product, while it is made

WITH_A_MAP = (
    "Linear, Polynomial, PowerSeries, GaussianSeries, FeatureFunction, RankOne, "
    "Spectrum, Mismatch, WeightedSubstrings, WeightedDegree, Subsequence, "
    "Subtree, SubsetTree, PartialTree, TaggedTree, WeisfeilerLehman, ShortestPath, "
    "Fisher, Natural, Nystrom, RandomFourier, PolynomialSketch; sums, multiples, "
    "products, powers and polynomials of them, Normalized, Conformal, Centered, On and "
    "Pullback"
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
    inside = Scaled | Normalized | Conformal | On | Pullback | Power | PolynomialOf
    if isinstance(kernel, inside):
        return has_quick_map(kernel.kernel)
    if isinstance(kernel, Sum | Product):
        return has_quick_map(kernel.left) and has_quick_map(kernel.right)
    if isinstance(kernel, WeightedSubstrings):
        return kernel.weights is not None and len(kernel.weights) <= SHORT
    quick = (
        FeatureKernel | Linear | Polynomial | PowerSeries | Constant | WeightedDegree
    )
    return isinstance(kernel, quick)


def dense_columns(kernel: Kernel, X: Points) -> int | None:
    """p of dense vectors, before Φ is made; None where only Φ itself tells."""
    if isinstance(kernel, Scaled | Normalized | Conformal):
        return dense_columns(kernel.kernel, X)
    if isinstance(kernel, Sum | Product):
        left, right = (dense_columns(k, X) for k in (kernel.left, kernel.right))
        if left is None or right is None:
            return None
        return left + right if isinstance(kernel, Sum) else left * right
    if isinstance(kernel, Power | PolynomialOf):
        inner = dense_columns(kernel.kernel, X)
        return None if inner is None else _width(inner, _terms(kernel))
    if isinstance(kernel, On):
        return dense_columns(kernel.kernel, field(as_points(X), kernel.field))
    if isinstance(kernel, Constant):
        return 1
    if isinstance(kernel, Approximation):
        return kernel.n_columns
    X = as_points(X)
    if not is_vectors(X) or sp.issparse(X):
        return None
    d = X.shape[1]
    if isinstance(kernel, Linear):
        return d
    if isinstance(kernel, Polynomial):
        return kernel._map().width(d)
    if isinstance(kernel, PowerSeries):
        return _width(d, _terms(kernel))
    return kernel.width(d) if isinstance(kernel, GaussianSeries) else None


def entries_estimate(
    kernel: Kernel, X: Points, *, always: bool = False
) -> float | None:
    """How many numbers Φ would have, of maps that may be large; None of others.

    Exact where `dense_columns` is; of products of sparse maps an estimate, by the
    entries that some of the points have in either.

    Parameters
    ----------
    always : whether to make that estimate of other maps too, instead of None
    """
    n, columns = count(as_points(X)), dense_columns(kernel, X)
    if columns is not None:
        return float(n) * columns
    if not (always or _has_products(kernel)):
        return None
    some = np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.intp)
    return n * _mean_entries(kernel, take(as_points(X), some)) if n else 0.0


def _has_products(kernel: Kernel) -> bool:
    if isinstance(kernel, Product | Power | PolynomialOf | PowerSeries):
        return True
    return any(_has_products(child) for child in kernel.children())


def _mean_entries(kernel: Kernel, X: Points) -> float:
    """Entries in a row of Φ, in the mean over these points; no product is made."""
    if isinstance(kernel, Scaled | Normalized | Conformal):
        return _mean_entries(kernel.kernel, X)
    if isinstance(kernel, Sum | Product):
        left, right = (_mean_entries(k, X) for k in (kernel.left, kernel.right))
        return left + right if isinstance(kernel, Sum) else left * right
    if isinstance(kernel, Power | PolynomialOf):
        inner = _mean_entries(kernel.kernel, X)
        return float(_width(int(np.ceil(inner)), _terms(kernel)))
    if isinstance(kernel, On):
        return _mean_entries(kernel.kernel, field(X, kernel.field))
    if isinstance(kernel, Pullback):
        return _mean_entries(kernel.kernel, kernel._image(X))
    if isinstance(kernel, PowerSeries):
        inner = _mean_entries(Linear(), X)
        return float(_width(int(np.ceil(inner)), _terms(kernel)))
    matrix = explicit(kernel, X).matrix
    return (matrix.nnz if sp.issparse(matrix) else matrix.size) / max(1, count(X))


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


def _product(kernel: Product, X: Points, columns: Sequence[str] | None) -> Features:
    left, right = (explicit(k, X, columns) for k in (kernel.left, kernel.right))
    sparse = any(sp.issparse(part.matrix) for part in (left, right))
    if sparse:
        wide, high = (_row_entries(part.matrix) for part in (left, right))
        _check_entries(kernel, float(wide @ high))
    else:
        width = left.matrix.shape[1] * right.matrix.shape[1]
        _check_columns(kernel, width)
        _check_entries(kernel, float(len(left.matrix)) * width)
    matrix, factors = row_products(left.matrix, right.matrix)
    if factors is None:
        p, q = left.matrix.shape[1], right.matrix.shape[1]
        factors = np.stack(np.divmod(np.arange(p * q), max(1, q)))
    return Features(
        _double(matrix),
        lambda: _pairs(left.keys, right.keys, factors),
        lambda: [
            _times(*pair) for pair in _pairs(left.names(), right.names(), factors)
        ],
    )


def _pairs(left: Sequence[Any], right: Sequence[Any], factors: Any) -> list[Any]:
    """What is at these places of one and of the other, (2, s), pair by pair."""
    return [(left[i], right[j]) for i, j in factors.T.tolist()]


def _times(left: str, right: str) -> str:
    """The name of a product; 1 is left out."""
    if "1" in (left, right):
        return right if left == "1" else left
    return f"{left}*{right}"


def _power(
    kernel: Power | PolynomialOf, X: Points, columns: Sequence[str] | None
) -> Features:
    return _of_powers(kernel, explicit(kernel.kernel, X, columns))


def _power_series(
    kernel: PowerSeries, X: Points, columns: Sequence[str] | None
) -> Features:
    return _of_powers(kernel, _linear(Linear(), X, columns))


def _of_powers(kernel: Power | PolynomialOf | PowerSeries, inner: Features) -> Features:
    """√aᵣ times the monomials of degree r, for each r of a polynomial Σᵣ aᵣ kʳ."""
    terms, matrix = _terms(kernel), inner.matrix
    sparse = sp.issparse(matrix)
    if sparse:
        filled, rows = np.unique(_row_entries(matrix), return_counts=True)
        entries = sum(
            _width(int(k), terms) * int(n) for k, n in zip(filled, rows, strict=True)
        )
    else:
        _check_columns(kernel, _width(matrix.shape[1], terms))
        entries = len(matrix) * _width(matrix.shape[1], terms)
    _check_entries(kernel, float(entries))
    ones = np.ones((matrix.shape[0], 1))
    blocks: list[Any] = []
    parts: list[np.ndarray] = []
    if 0 in terms:
        blocks.append((sp.csr_array(ones) if sparse else ones) * np.sqrt(terms[0]))
        parts.append(np.empty((0, 1), dtype=np.intp))
    for r, (block, factors) in enumerate(powers(matrix, max(terms)), start=1):
        if r in terms:
            blocks.append(block * np.sqrt(terms[r]))
            parts.append(factors)
    return Features(
        _double(beside(blocks)),
        lambda: [_monomial(inner.keys, i) for part in parts for i in part.T.tolist()],
        lambda: [
            _named(names, i)
            for names in [inner.names()]
            for part in parts
            for i in part.T.tolist()
        ],
    )


def _terms(kernel: Power | PolynomialOf | PowerSeries) -> dict[int, float]:
    """The powers of a polynomial with their coefficients > 0."""
    if isinstance(kernel, Power):
        return {int(kernel.exponent): 1.0}
    found = {r: float(a) for r, a in enumerate(kernel.coefficients) if a > 0}
    return found or {0: 0.0}


def _width(d: int, terms: dict[int, float]) -> int:
    """The monomials of these degrees in d variables."""
    return sum(monomial_count(d, r) for r in terms)


def _monomial(keys: Sequence[Hashable], places: Sequence[int]) -> Hashable:
    """What a product of columns is known by, in whatever order they come."""
    return frozenset(Counter(keys[i] for i in places).items())


def _named(names: Sequence[str], places: Sequence[int]) -> str:
    """The name of a product, such as a^2*b; 1 for none."""
    often = Counter(names[i] for i in places if names[i] != "1")
    return "*".join(f"{a}^{r}" if r > 1 else a for a, r in often.items()) or "1"


def _row_entries(matrix: Vectors) -> np.ndarray:
    """How many numbers each row has."""
    if sp.issparse(matrix):
        return np.diff(matrix.indptr).astype(float)
    return np.full(matrix.shape[0], float(matrix.shape[1]))


def _check_columns(kernel: Kernel, width: int) -> None:
    if width > MOST_COLUMNS:
        raise ValueError(
            f"The explicit map of {kernel} would have {width:,} columns; at most "
            f"{MOST_COLUMNS:,} are made. {_INSTEAD}"
        )


def _check_entries(kernel: Kernel, entries: float) -> None:
    memory.check_room(
        BYTES * entries,
        f"The explicit map of {kernel} would have {entries:,.0f} numbers; to make them "
        "takes",
        f"Pass fewer points at a time. {_INSTEAD}",
    )


_INSTEAD = (
    "Nystrom(kernel, size) is a kernel near it with few columns, PolynomialSketch one "
    "near a power of the inner product of vectors; or use the kernel, which needs none."
)


def _conformal(kernel: Conformal, X: Points, columns: Sequence[str] | None) -> Features:
    inner = explicit(kernel.kernel, X, columns)
    scaled = rows_multiplied(inner.matrix, kernel._factor(X))
    return replace(inner, matrix=_double(scaled))


def _centered(kernel: Centered, X: Points, columns: Sequence[str] | None) -> Features:
    inner = explicit(kernel.kernel, X, columns)
    reference = explicit(kernel.kernel, as_points(kernel._resolved("reference")))
    if sp.issparse(inner.matrix) or list(inner.keys) != list(reference.keys):
        raise TypeError(
            f"{kernel} has an explicit map where that of {kernel.kernel} is dense, "
            "with the same columns for all points: less its mean, no column of a "
            "sparse one would be sparse. Use the kernel without Centered, or "
            "Nystrom(kernel, size)."
        )
    return replace(inner, matrix=inner.matrix - kernel._shares() @ reference.matrix)


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
    Product: _product,
    Power: _power,
    PolynomialOf: _power,
    PowerSeries: _power_series,
    Conformal: _conformal,
    Centered: _centered,
    Normalized: _normalized,
    On: _on,
    Pullback: _pullback,
}


def _double(matrix: Vectors) -> Vectors:
    """Φ in float64, sparse as CSR, checked to be finite."""
    matrix = sp.csr_array(matrix) if sp.issparse(matrix) else np.asarray(matrix)
    matrix = matrix.astype(float, copy=False)
    entries = matrix.data if sp.issparse(matrix) else matrix
    if not are_finite(entries):
        raise ValueError(
            "The explicit map has coordinates that are not finite numbers. Scale the "
            "points, or choose another kernel."
        )
    return matrix


class ColumnIndex:
    """Columns of an explicit map in the order in which they first came.

    Of maps with a fixed number of columns it is their places. New points may bring
    columns that were not there before.
    """

    def __init__(self) -> None:
        self._size = 0
        self._place: dict[Hashable, int] | None = None  # None: by their places

    def __len__(self) -> int:
        return self._size

    def extended(self, found: Features) -> Vectors:
        """Φ in these columns, and in those it has beyond them, which are added."""
        if isinstance(found.keys, range) and self._place is None:
            self._size = max(self._size, len(found.keys))
            return self._moved(found.matrix, None)
        place = self._by_keys()
        for key in found.keys:
            place.setdefault(key, len(place))
        self._size = len(place)
        columns = np.array([place[key] for key in found.keys], dtype=np.int64)
        return self._moved(found.matrix, columns)

    def known(self, found: Features) -> Vectors:
        """Φ in these columns; others count for nothing."""
        if isinstance(found.keys, range) and self._place is None:
            kept = found.matrix
            if kept.shape[1] > self._size:
                kept = kept[:, : self._size]
            return self._moved(kept, None)
        place = self._by_keys()
        columns = np.array([place.get(key, -1) for key in found.keys], dtype=np.int64)
        used = np.flatnonzero(columns >= 0)
        if len(used) == len(columns):
            return self._moved(found.matrix, columns)
        return self._moved(found.matrix[:, used], columns[used])

    def _by_keys(self) -> dict[Hashable, int]:
        if self._place is None:
            self._place = {key: key for key in range(self._size)}
        return self._place

    def _moved(self, matrix: Vectors, columns: np.ndarray | None) -> Vectors:
        """The matrix with its columns at these places; None for the first ones."""
        shape = matrix.shape[0], self._size
        if columns is None and matrix.shape == shape:
            return matrix
        if sp.issparse(matrix):
            indices = matrix.indices if columns is None else columns[matrix.indices]
            return sp.csr_array((matrix.data, indices, matrix.indptr), shape=shape)
        out = np.zeros(shape)
        out[:, slice(matrix.shape[1]) if columns is None else columns] = matrix
        return out


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
