"""Explicit feature maps of vector kernels: the coordinates of φ, written out.

⟨x, y⟩ʳ is the sum of Π xᵢ · Π yᵢ over all ordered r-tuples of coordinates, which is
one feature map; collecting the r!/α! tuples that give the same monomial x^α is
another, with fewer coordinates and the weight √(r!/α!). Both give the same kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, xlogy

from mercer.data.points import Points, column_names, pair, vectors
from mercer.kernels.base import Rule, row_blocks
from mercer.kernels.checks import (
    Range,
    check_positive,
    check_whole,
)
from mercer.kernels.ways import PIECE_MB, FeatureKernel
from mercer.native.interruptible import elementwise, interruptible
from mercer.native.memory import check_room
from mercer.native.sparsity import Vectors

MOST_COLUMNS = 10_000_000
MOST_FACTORS = 10_000
MOST_ENTRIES = 2**30  # of a matrix of features: 8 GB in float64
EXACT_FACTORIALS = 170  # the last factorial that is a float


@dataclass(frozen=True)
class PolynomialMap:
    """φ with ⟨φ(x), φ(y)⟩ = (scale ⟨x, y⟩ + offset)^degree.

    By the binomial theorem a block of coordinates for every r = 0..degree, weighted by
    √(C(degree, r) offset^(degree-r) scale^r); only r = degree where offset = 0.

    Parameters
    ----------
    ordered : the dʳ products of r coordinates in order, instead of the monomials
    """

    degree: int
    scale: float
    offset: float
    ordered: bool = False

    def features(self, X: Vectors) -> Vectors:
        """Φ, (n, p), for vectors X; sparse where X is."""
        self._check(X, X.shape[1])
        return beside(
            weighted(block, self._weights(step))
            for step, block in products(X, self.degree, self.ordered)
            if step.degree in self._degrees()
        )

    def names(self, columns: Sequence[str]) -> list[str]:
        """The product each coordinate is a multiple of, such as x0^2*x1."""
        self._check(None, len(columns))
        return [
            name
            for step, names in product_names(columns, self.degree, self.ordered)
            if step.degree in self._degrees()
            for name in names
        ]

    def _check(self, X: Vectors | None, d: int) -> None:
        check_degree("Polynomial", self.degree)
        check_size(f"Polynomial(degree={self.degree})", X, self.width, d)

    def width(self, d: int) -> int:
        """p, the number of coordinates of φ on d-dimensional points."""
        every = self.offset > 0
        if not self.ordered:
            return monomial_count(d + every, self.degree)
        if d > 1:
            # A large exponent is capped: the count is refused all the same.
            most = min(self.degree, 2 * MOST_COLUMNS.bit_length())
            return sum(d**r for r in range(0 if every else most, most + 1))
        return 1 + every * self.degree * d if d or every else int(self.degree == 0)

    def _degrees(self) -> range:
        return range(0 if self.offset > 0 else self.degree, self.degree + 1)

    def _weights(self, step: Step) -> np.ndarray:
        r, n = step.degree, self.degree
        factorials = np.zeros(len(step.last)) if self.ordered else step.log_factorials
        if n <= EXACT_FACTORIALS:
            square = math.comb(n, r) * self.offset ** (n - r) * self.scale**r
            if self.ordered:
                return np.full(len(step.last), math.sqrt(square))
            return np.sqrt(square * (math.factorial(r) / step.factorials))
        binomial = gammaln(n + 1) - gammaln(r + 1) - gammaln(n - r + 1)
        square = binomial + xlogy(n - r, self.offset) + r * math.log(self.scale)
        with np.errstate(over="ignore"):
            collected = 0.0 if self.ordered else gammaln(r + 1)
            return np.exp((square + collected - factorials) / 2)


@dataclass
class GaussianSeries(FeatureKernel):
    """k(x, y) = e^{-γ‖x‖²} (Σⱼ (2γ⟨x, y⟩)ʲ / j!, j ≤ degree) e^{-γ‖y‖²}.

    The Gaussian kernel with its power series cut off, and so with finitely many
    features: φ(x) = e^{-γ‖x‖²} √((2γ)^|α| / α!) x^α for every |α| ≤ degree. For
    numbers x that is e^{-γx²} √((2γ)ᵏ / k!) xᵏ, k = 0..degree.

    Examples
    --------
    >>> from mercer import GaussianSeries, RBF
    >>> k = GaussianSeries(gamma=0.5, degree=6)
    >>> round(k.value([1, 0], [0.5, 1]), 4), round(RBF(0.5).value([1, 0], [0.5, 1]), 4)
    (0.5353, 0.5353)
    >>> k.features([[1, 0]]).shape
    (1, 28)
    """

    smooth = Range.positive("gamma")

    gamma: float
    degree: int

    def __post_init__(self) -> None:
        check_positive(self, "gamma", self.gamma)
        check_whole(self, "degree", self.degree, least=0)

    def features(self, X: Points) -> Vectors:
        X = vectors(X, "GaussianSeries")
        d = X.shape[1]
        self._check(X, d)
        lengths = norms(X)
        directions = rows_divided(X, lengths)
        root = math.sqrt(self.gamma) * lengths
        blocks = []
        for step, block in products(directions, self.degree):
            r = step.degree
            # x^α alone can overflow where e^{-γ‖x‖²} underflows: ‖x‖ʳ joins the
            # exponent; and so does r!, as beyond 170 no float holds it. What remains,
            # √((2γ‖x‖²)ʳ/r!) e^{-γ‖x‖²}, is the root of a probability of Poisson's.
            with np.errstate(over="ignore"):
                logs = xlogy(r, math.sqrt(2) * root) - root**2 - gammaln(r + 1) / 2
            if r <= EXACT_FACTORIALS:
                weights = np.sqrt(math.factorial(r) / step.factorials)
            else:
                weights = np.exp((gammaln(r + 1) - step.log_factorials) / 2)
            blocks.append(rows_multiplied(weighted(block, weights), np.exp(logs)))
        return beside(blocks)

    def feature_names(self, X: Points) -> list[str]:
        columns = column_names(X)
        self._check(None, len(columns))
        every = product_names(columns, self.degree)
        return [name for _, names in every for name in names]

    def _check(self, X: Vectors | None, d: int) -> None:
        check_degree("GaussianSeries", self.degree)
        check_size(f"GaussianSeries(degree={self.degree})", X, self.width, d)

    def width(self, d: int) -> int:
        """p, the number of coordinates of φ on d-dimensional points."""
        # One more coordinate, 1, makes up what is missing in the degree.
        return monomial_count(d + 1, self.degree)

    def error_bound(self, X: Points, Y: Points | None = None) -> np.ndarray:
        """(n, m) bounds tʳ⁺¹ / (r+1)! · e^{-γ(‖x‖ - ‖y‖)²}, t = 2γ‖x‖‖y‖, r = degree.

        The exponential series cut off after the power r misses e^z by at most
        |z|ʳ⁺¹ / (r+1)! · e^|z|, and |2γ⟨x, y⟩| ≤ t; the factors e^{-γ‖x‖²} complete
        e^t to a square.
        """
        X, Y = pair(X, Y, "GaussianSeries")
        across = norms(X)
        down = across if Y is None else norms(Y)
        with np.errstate(divide="ignore", over="ignore"):
            log_t = math.log(2 * self.gamma) + np.add.outer(
                np.log(across), np.log(down)
            )
            gap = self.gamma * np.subtract.outer(across, down) ** 2
        order = self.degree + 1
        return np.exp(order * log_t - gammaln(order + 1) - gap)

    def rule(self) -> Rule:
        return Rule(
            True, "a partial sum of the Gaussian's power series: finitely many features"
        )


# Products of r coordinates: each is one of r - 1, its parent, times a last column


@dataclass(frozen=True)
class Step:
    """The products of one degree, in lexicographic order, from those of one less."""

    degree: int
    parent: np.ndarray  # place among the products of one degree less
    last: np.ndarray  # the column that multiplies it
    run: np.ndarray  # how often that column stands at the end
    factorials: np.ndarray  # α! of the monomial; ∞ beyond the largest float
    log_factorials: np.ndarray  # ln α!


def steps(d: int, degree: int, ordered: bool = False) -> Iterator[Step]:
    """The products of 0, 1, ..., degree of d columns: i₁ ≤ ... ≤ iᵣ, or in any order.

    The arrays follow the number of products, however many columns are in each.
    """
    none = np.zeros(1, dtype=np.intp)
    step = Step(0, none, none, none, np.ones(1), np.zeros(1))
    yield step
    for r in range(1, degree + 1):
        first = np.zeros_like(step.last) if ordered else step.last
        children = d - first
        parent = np.repeat(np.arange(len(first)), children)
        begin = np.cumsum(children) - children
        last = np.arange(len(parent)) - begin[parent] + first[parent]
        again = (last == step.last[parent]) & (r > 1)
        run = np.where(again, step.run[parent] + 1, 1)
        with np.errstate(over="ignore"):
            factorials = step.factorials[parent] * run
        logs = step.log_factorials[parent] + np.log(run)
        step = Step(r, parent, last, run, factorials, logs)
        yield step


def products(
    X: Vectors, degree: int, ordered: bool = False
) -> Iterator[tuple[Step, Any]]:
    """Each degree with its (n, count) products of columns of X; sparse as X is."""
    ones = np.ones((X.shape[0], 1), dtype=X.dtype)
    block = sp.csr_array(ones) if sp.issparse(X) else ones
    for step in steps(X.shape[1], degree, ordered):
        if step.degree == 1:
            block = X[:, step.last]
        elif step.degree > 1:
            block = _extended(block, X, step)
        yield step, block


def _extended(block: Vectors, X: Vectors, step: Step) -> Vectors:
    pieces = row_blocks(X.shape[0], len(step.last), PIECE_MB)
    if sp.issparse(X):
        parts = [
            block[rows][:, step.parent].multiply(X[rows][:, step.last])
            for rows in pieces
        ] or [X[:, step.last]]
        return parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr")
    out = np.empty((X.shape[0], len(step.last)), dtype=X.dtype)
    for rows in pieces:
        np.multiply(block[rows][:, step.parent], X[rows][:, step.last], out=out[rows])
    return out


def row_products(left: Vectors, right: Vectors) -> tuple[Vectors, Any]:
    """Every product of a column of one with a column of the other, row by row.

    Dense, all p·q columns, the right ones within the left ones, and None. Sparse, those
    columns alone that occur, and the two columns each is a product of, (2, s).
    """
    if not (sp.issparse(left) or sp.issparse(right)):
        n = left.shape[0]
        width = left.shape[1] * right.shape[1]
        out = np.empty((n, width), dtype=np.result_type(left, right))
        for rows in row_blocks(n, width, PIECE_MB):
            part = left[rows, :, None] * right[rows, None, :]
            out[rows] = part.reshape(-1, width)
        return out, None
    left, right = sp.csr_array(left), sp.csr_array(right)
    row, i, j = entry_pairs(left, right)
    q = max(1, right.shape[1])
    # Columns of counts are numbered from 0, so that p·q is an int64.
    column = left.indices[i].astype(np.int64) * q + right.indices[j]
    present, place = np.unique(column, return_inverse=True)
    data = left.data[i] * right.data[j]
    shape = left.shape[0], len(present)
    matrix = sp.csr_array((data, (row, place.ravel())), shape=shape)
    return matrix, np.stack(np.divmod(present, q))


def entry_pairs(
    left: sp.csr_array, right: sp.csr_array
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All pairs of entries of one row: the row, and their places in either data."""
    wide, high = np.diff(left.indptr), np.diff(right.indptr)
    row = np.repeat(np.arange(left.shape[0]), wide)
    often = high[row]
    i = np.repeat(np.arange(left.nnz), often)
    first = np.cumsum(often) - often
    j = np.arange(len(i)) - first[i] + right.indptr[row][i]
    return row[i], i, j


def powers(X: Vectors, degree: int) -> Iterator[tuple[Vectors, np.ndarray]]:
    """For r = 1..degree the monomials of degree r: Φᵣ with ΦᵣΦᵣᵀ = (XXᵀ)ʳ.

    With each the (r, s) columns i₁ ≤ ... ≤ iᵣ of X that its s columns are products of;
    of sparse X those alone that occur.
    """
    if sp.issparse(X):
        yield from _sparse_powers(X, degree)
        return
    factors = np.empty((0, 1), dtype=np.intp)
    for step, block in products(X, degree):
        if step.degree == 0:
            continue
        factors = np.vstack([factors[:, step.parent], step.last])
        logs = gammaln(step.degree + 1) - step.log_factorials
        weights = np.exp(logs / 2)
        if step.degree <= EXACT_FACTORIALS:
            weights = np.sqrt(math.factorial(step.degree) / step.factorials)
        yield weighted(block, weights), factors


def _sparse_powers(
    X: sp.csr_array, degree: int
) -> Iterator[tuple[sp.csr_array, np.ndarray]]:
    X = sp.csr_array(X, copy=True)
    X.sum_duplicates()
    d = X.shape[1]
    block, factors, run = X, np.arange(d)[None], np.ones(d)
    yield block, factors
    for r in range(2, degree + 1):
        row, i, j = entry_pairs(block, X)
        rising = factors[-1][block.indices[i]] <= X.indices[j]
        row, i, j = row[rising], i[rising], j[rising]
        column = block.indices[i].astype(np.int64) * d + X.indices[j]
        present, place = np.unique(column, return_inverse=True)
        parent, last = np.divmod(present, max(1, d))
        run = np.where(last == factors[-1][parent], run[parent] + 1, 1.0)
        # r!/α! is that of the parent times r, by how often the last one occurs.
        data = np.sqrt(r / run)[place.ravel()] * block.data[i] * X.data[j]
        shape = X.shape[0], len(present)
        block = sp.csr_array((data, (row, place.ravel())), shape=shape)
        factors = np.vstack([factors[:, parent], last])
        yield block, factors


def product_names(
    columns: Sequence[str], degree: int, ordered: bool = False
) -> Iterator[tuple[Step, list[str]]]:
    """Each degree with its names: x0^2*x1, or x0*x0*x1 in any order; 1 for none."""
    stems, names = [""], [""]  # a stem is the name without the last column's power
    for step in steps(len(columns), degree, ordered):
        if step.degree == 0:
            yield step, ["1"]
            continue
        table = zip(
            step.parent.tolist(), step.last.tolist(), step.run.tolist(), strict=True
        )
        made = []
        for parent, last, run in table:
            again = run > 1 and not ordered
            stem = stems[parent] if again else names[parent]
            power = f"{columns[last]}^{run}" if again else columns[last]
            made.append((stem, f"{stem}*{power}" if stem else power))
        stems, names = [stem for stem, _ in made], [name for _, name in made]
        yield step, names


def monomial_count(d: int, r: int) -> int:
    """C(d + r - 1, r), the number of monomials of degree r in d variables.

    Where both are large it is not worked out; a lower bound that is refused stands in.
    """
    few = min(r, 64)
    count = math.comb(d + few - 1, few) if d else int(r == 0)
    # It grows with r, and is a polynomial of degree d - 1 in it.
    return math.comb(d + r - 1, r) if count <= MOST_COLUMNS and d else count


def check_degree(who: str, degree: int) -> None:
    """Refuse products of too many coordinates to write out."""
    if degree > MOST_FACTORS:
        raise ValueError(
            f"{who} would write out products of {degree:,} coordinates; of at most "
            f"{MOST_FACTORS:,} they are made. Lower the degree."
        )


def check_columns(who: str, many: int, way_out: str) -> None:
    """Refuse a map with more columns than are ever written out."""
    if many > MOST_COLUMNS:
        raise ValueError(
            f"{who} would write out {many:,} columns of features; at most "
            f"{MOST_COLUMNS:,} are made. {way_out}"
        )


def check_size(
    who: str, X: Vectors | None, width: Callable[[int], int], d: int
) -> None:
    """Refuse a map with too many coordinates to write out, on d-dimensional points."""
    check_columns(who, width(d), "Use the kernel, which never forms them.")
    if X is None:
        return
    if sp.issparse(X):
        # Only the columns of a row that are not zero have products.
        filled, rows = np.unique(np.diff(X.indptr), return_counts=True)
        entries = sum(width(int(k)) * int(n) for k, n in zip(filled, rows, strict=True))
    else:
        entries = X.shape[0] * width(d)
    if entries > MOST_ENTRIES:
        raise ValueError(
            f"{who} would write out {width(d):,} columns of features for each of "
            f"{X.shape[0]:,} points, {entries:,} numbers; at most {MOST_ENTRIES:,} are "
            "made. Pass fewer points at a time, or use the kernel, which never forms "
            "them."
        )
    # Once in blocks by degree, once side by side.
    check_room(
        2.0 * X.dtype.itemsize * entries,
        f"{who} would write out {entries:,} numbers, which takes",
        "Pass fewer points at a time, or use the kernel, which never forms them.",
    )


# Dense and sparse matrices alike


def beside(blocks: Iterable[Vectors]) -> Vectors:
    """The blocks as one matrix, from left to right."""
    blocks = list(blocks)
    if sp.issparse(blocks[0]):
        return sp.csr_array(sp.hstack(blocks, format="csr"))
    return interruptible(np.hstack, blocks, work=100.0 * sum(map(np.size, blocks)))


def weighted(block: Vectors, weights: np.ndarray) -> Vectors:
    """The block with its columns multiplied by the weights, in its own precision."""
    weights = weights.astype(block.dtype)
    if sp.issparse(block):
        return block.multiply(weights[None])
    return elementwise(np.multiply, block, weights)


def rows_multiplied(block: Vectors, factors: np.ndarray) -> Vectors:
    """The block with its rows multiplied by the factors, in its own precision."""
    factors = factors.astype(block.dtype)[:, None]
    return block.multiply(factors) if sp.issparse(block) else block * factors


def rows_divided(X: Vectors, lengths: np.ndarray) -> Vectors:
    """The rows of X divided by their lengths; rows of zeros stay."""
    lengths = np.where(lengths == 0, 1, lengths).astype(X.dtype)
    if not sp.issparse(X):
        return X / lengths[:, None]
    entries = X.data / np.repeat(lengths, np.diff(X.indptr))
    return sp.csr_array((entries, X.indices, X.indptr), shape=X.shape)


def norms(X: Vectors) -> np.ndarray:
    """‖xᵢ‖ in float64, where neither overflow nor underflow of the squares matters."""
    if not sp.issparse(X):
        return np.hypot.reduce(X.astype(float, copy=False), axis=1)
    X = X.copy()
    X.sum_duplicates()
    lengths = np.zeros(X.shape[0])
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    np.hypot.at(lengths, rows, X.data.astype(float, copy=False))
    return lengths
