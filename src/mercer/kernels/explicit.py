"""Explicit feature maps of vector kernels: the coordinates of φ, written out.

⟨x, y⟩ʳ is the sum of Π xᵢ · Π yᵢ over all ordered r-tuples of coordinates, which is
one feature map; collecting the r!/α! tuples that give the same monomial x^α is
another, with fewer coordinates and the weight √(r!/α!). Both give the same kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations_with_replacement, product

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, xlogy

from mercer.data.points import column_names, pair, vectors
from mercer.kernels.base import Rule, check_positive, check_whole, row_blocks
from mercer.kernels.ways import PIECE_MB, FeatureKernel
from mercer.native.interruptible import elementwise, interruptible

MOST_COLUMNS = 10_000_000
MOST_FACTORS = 10_000
MOST_ENTRIES = 2**30  # of a dense matrix of features: 8 GB in float64


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

    def features(self, X) -> np.ndarray | sp.csr_array:
        """Φ, (n, p), for vectors X; sparse where X is."""
        self._check(X, X.shape[1])
        return beside(
            weighted(products(X, index), self._weights(index))
            for index in self._blocks(X.shape[1])
        )

    def names(self, columns: Sequence[str]) -> list[str]:
        """The product each coordinate is a multiple of, such as x0^2*x1."""
        self._check(None, len(columns))
        spell = ordered_name if self.ordered else monomial_name
        return [
            spell(columns, row) for index in self._blocks(len(columns)) for row in index
        ]

    def _check(self, X, d: int) -> None:
        check_degree("Polynomial", self.degree)
        check_size(f"Polynomial(degree={self.degree})", X, self.width(d))

    def width(self, d: int) -> int:
        """p, the number of coordinates of φ on d-dimensional points."""
        every = self.offset > 0
        if not self.ordered:
            return monomial_count(d + every, self.degree)
        if d > 1:
            # A power of two digits is refused as surely as one of a million.
            most = min(self.degree, 2 * MOST_COLUMNS.bit_length())
            return sum(d**r for r in range(0 if every else most, most + 1))
        return 1 + every * self.degree * d if d or every else int(self.degree == 0)

    def _degrees(self) -> range:
        return range(0 if self.offset > 0 else self.degree, self.degree + 1)

    def _blocks(self, d: int) -> Iterator[np.ndarray]:
        list_rows = ordered_products if self.ordered else monomials
        return (list_rows(d, r) for r in self._degrees())

    def _weights(self, index: np.ndarray) -> np.ndarray:
        r = index.shape[1]
        binomial = math.comb(self.degree, r)
        square = binomial * self.offset ** (self.degree - r) * self.scale**r
        if self.ordered:
            return np.full(len(index), math.sqrt(square))
        return np.sqrt(square * multinomials(index))


@dataclass
class GaussianSeries(FeatureKernel):
    """k(x, y) = e^{-γ‖x‖²} (Σⱼ (2γ⟨x, y⟩)ʲ / j!, j ≤ degree) e^{-γ‖y‖²}.

    The Gaussian kernel with its power series cut off, and so with finitely many
    features: φ(x) = e^{-γ‖x‖²} √((2γ)^|α| / α!) x^α for every |α| ≤ degree. For
    numbers x that is e^{-γx²} √((2γ)ᵏ / k!) xᵏ, k = 0..degree.
    """

    gamma: float
    degree: int

    def __post_init__(self):
        check_positive(self, "gamma", self.gamma)
        check_whole(self, "degree", self.degree, least=0)

    def features(self, X):
        X = vectors(X, "GaussianSeries")
        d = X.shape[1]
        check_degree("GaussianSeries", self.degree)
        # One more coordinate, 1, makes up what is missing in the degree.
        width = monomial_count(d + 1, self.degree)
        check_size(f"GaussianSeries(degree={self.degree})", X, width)
        lengths = norms(X)
        directions = rows_divided(X, lengths)
        root = math.sqrt(self.gamma) * lengths
        # x^α alone can overflow where e^{-γ‖x‖²} underflows: ‖x‖ʳ joins the exponent.
        with np.errstate(over="ignore"):
            factors = [
                np.exp(xlogy(r, math.sqrt(2) * root) - root**2)
                for r in range(self.degree + 1)
            ]
        blocks = []
        for r, factor in enumerate(factors):
            index = monomials(d, r)
            block = weighted(products(directions, index), inverse_factorials(index))
            blocks.append(rows_multiplied(block, factor))
        return beside(blocks)

    def feature_names(self, X):
        columns = column_names(X)
        return [
            monomial_name(columns, row)
            for r in range(self.degree + 1)
            for row in monomials(len(columns), r)
        ]

    def error_bound(self, X, Y=None) -> np.ndarray:
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

    def rule(self):
        return Rule(
            True, "a partial sum of the Gaussian's power series: finitely many features"
        )


# Products of coordinates, as arrays of column numbers: (count, r), a row per product


def monomials(d: int, r: int) -> np.ndarray:
    """Every i₁ ≤ ... ≤ iᵣ of d columns."""
    return _table(combinations_with_replacement(range(d), r), r)


def ordered_products(d: int, r: int) -> np.ndarray:
    """Every (i₁, ..., iᵣ) of d columns."""
    return _table(product(range(d), repeat=r), r)


def _table(rows, r: int) -> np.ndarray:
    if r == 0:
        return np.empty((1, 0), dtype=np.intp)  # the empty product
    return np.fromiter(chain.from_iterable(rows), dtype=np.intp).reshape(-1, r)


def monomial_count(d: int, r: int) -> int:
    """C(d + r - 1, r), the number of monomials of degree r in d variables.

    Where both are large it is not worked out; a lower bound that is refused stands in.
    """
    few = min(r, 64)
    count = math.comb(d + few - 1, few) if d else int(r == 0)
    # It grows with r, and is a polynomial of degree d - 1 in it.
    return math.comb(d + r - 1, r) if count <= MOST_COLUMNS and d else count


def inverse_factorials(index: np.ndarray) -> np.ndarray:
    """1 / √α! for each monomial."""
    return 1 / np.sqrt(_factorials(index))


def multinomials(index: np.ndarray) -> np.ndarray:
    """r! / α! for each monomial."""
    return math.factorial(index.shape[1]) / _factorials(index)


def _factorials(index: np.ndarray) -> np.ndarray:
    """α! for each monomial: the running lengths of equal columns, multiplied."""
    result = np.ones(len(index))
    run = np.ones(len(index))
    for k in range(1, index.shape[1]):
        run = np.where(index[:, k] == index[:, k - 1], run + 1, 1)
        result *= run
    return result


def products(X, index: np.ndarray):
    """(n, count): the product of the columns in each row of index; sparse as X is."""
    if index.shape[1] == 0:
        ones = np.ones((X.shape[0], 1), dtype=X.dtype)
        return sp.csr_array(ones) if sp.issparse(X) else ones
    blocks = row_blocks(X.shape[0], len(index), PIECE_MB)
    if sp.issparse(X):
        parts = [_products(X[rows], index) for rows in blocks] or [X[:, index[:, 0]]]
        return parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr")
    out = np.empty((X.shape[0], len(index)), dtype=X.dtype)
    for rows in blocks:
        out[rows] = _products(X[rows], index)
    return out


def _products(X, index: np.ndarray):
    block = X[:, index[:, 0]]
    for columns in index.T[1:]:
        factor = X[:, columns]
        block = block.multiply(factor) if sp.issparse(X) else block * factor
    return block


def monomial_name(columns: Sequence[str], row: Sequence[int]) -> str:
    """x0^2*x1 for (0, 0, 1), and 1 for ()."""
    powers: dict[str, int] = {}
    for i in row:
        powers[columns[i]] = powers.get(columns[i], 0) + 1
    return (
        "*".join(
            name if power == 1 else f"{name}^{power}" for name, power in powers.items()
        )
        or "1"
    )


def ordered_name(columns: Sequence[str], row: Sequence[int]) -> str:
    """x0*x0*x1 for (0, 0, 1), and 1 for ()."""
    return "*".join(columns[i] for i in row) or "1"


def check_degree(who: str, degree: int) -> None:
    """Refuse products of too many coordinates to write out."""
    if degree > MOST_FACTORS:
        raise ValueError(
            f"{who} would write out products of {degree:,} coordinates; of at most "
            f"{MOST_FACTORS:,} they are made. Lower the degree."
        )


def check_size(who: str, X, width: int) -> None:
    """Refuse a map with too many coordinates to write out."""
    if width > MOST_COLUMNS:
        raise ValueError(
            f"{who} would write out {width:,} columns of features; at most "
            f"{MOST_COLUMNS:,} are made. Use the kernel, which never forms them."
        )
    if X is not None and not sp.issparse(X) and X.shape[0] * width > MOST_ENTRIES:
        raise ValueError(
            f"{who} would write out {width:,} columns of features for each of "
            f"{X.shape[0]:,} points; at most {MOST_ENTRIES:,} numbers are made. Pass "
            "fewer points at a time, or use the kernel, which never forms them."
        )


# Dense and sparse matrices alike


def beside(blocks):
    """The blocks as one matrix, from left to right."""
    blocks = list(blocks)
    if sp.issparse(blocks[0]):
        return sp.csr_array(sp.hstack(blocks, format="csr"))
    return interruptible(np.hstack, blocks, work=100.0 * sum(map(np.size, blocks)))


def weighted(block, weights: np.ndarray):
    """The block with its columns multiplied by the weights, in its own precision."""
    weights = weights.astype(block.dtype)
    if sp.issparse(block):
        return block.multiply(weights[None])
    return elementwise(np.multiply, block, weights)


def rows_multiplied(block, factors: np.ndarray):
    """The block with its rows multiplied by the factors, in its own precision."""
    factors = factors.astype(block.dtype)[:, None]
    return block.multiply(factors) if sp.issparse(block) else block * factors


def rows_divided(X, lengths: np.ndarray):
    """The rows of X divided by their lengths; rows of zeros stay."""
    lengths = np.where(lengths == 0, 1, lengths).astype(X.dtype)
    if not sp.issparse(X):
        return X / lengths[:, None]
    entries = X.data / np.repeat(lengths, np.diff(X.indptr))
    return sp.csr_array((entries, X.indices, X.indptr), shape=X.shape)


def norms(X) -> np.ndarray:
    """‖xᵢ‖ in float64, where neither overflow nor underflow of the squares matters."""
    if not sp.issparse(X):
        return np.hypot.reduce(X.astype(float, copy=False), axis=1)
    X = X.copy()
    X.sum_duplicates()
    lengths = np.zeros(X.shape[0])
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    np.hypot.at(lengths, rows, X.data.astype(float, copy=False))
    return lengths
