"""Kernels of vectors: what they share, and the kernels of the inner product ⟨x, y⟩.

Points are arrays, CSR matrices or data frames of numbers. The sums over coordinates
come from the compiled core. Functions of ⟨x, y⟩ that need not be kernels are in
`dotproduct.py`, kernels of a distance in `radial.py`, and those with a term or factor
for each coordinate in `coordinate.py`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer.data import points
from mercer.data.blocks import Blocks
from mercer.data.frames import is_frame
from mercer.data.points import Points
from mercer.kernels import latex
from mercer.kernels.base import BLOCK_MB, Kernel, Rule, polynomial, row_blocks
from mercer.kernels.checks import (
    HIGHEST,
    Range,
    check_coefficients,
    check_positive,
    check_whole,
)
from mercer.kernels.explicit import PolynomialMap
from mercer.kernels.ways import FeatureFunction, dense
from mercer.native import vectors
from mercer.native.interruptible import elementwise, multiply
from mercer.native.sparsity import Vectors
from mercer.native.vectors import Recipe

DIFFERENCES = ("square", "absolute", "chi2")  # parts that are 0 where x = y
MANY_TERMS = 1e7  # of ⟨x, y⟩ V: fewer are summed pair by pair in no time
TILE_MB = 8.0  # the arrays of a tile stay near the processor


class VectorKernel(Kernel):
    """k(x, y) = finish(Σₜ part(xₜ, yₜ)), all of it in the core: fill in `recipe`."""

    @abstractmethod
    def recipe(self) -> Recipe:
        """How the core computes this kernel."""

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return vectors.block(self.recipe(), *self._pair(X, Y))

    def diag(self, X: Points) -> np.ndarray:
        return vectors.diag(self.recipe(), self._pair(X)[0])

    def sqdist(self, X: Points, Y: Points | None = None) -> np.ndarray:
        recipe = self.recipe()
        linear = (recipe.part, recipe.finish) == ("product", "identity")
        if not linear and not (recipe.finish == "exp" and recipe.part in DIFFERENCES):
            return super().sqdist(X, Y)
        # From differences: a common offset of the points takes no digits away.
        part = "square" if linear else recipe.part
        sums = vectors.block(Recipe(part, "identity"), *self._pair(X, Y))
        if linear:
            return sums
        return -2 * np.expm1(sums.dtype.type(recipe.scale) * sums)

    def matmul(
        self,
        X: Points,
        Y: Points | None,
        V: npt.ArrayLike,
        *,
        block_mb: float = BLOCK_MB,
    ) -> np.ndarray:
        X, Y = self._pair(X, Y)
        return vectors.product(self.recipe(), X, X if Y is None else Y, V)

    def native(self, X: Points) -> Recipe | None:
        if not is_vectors(X) or isinstance(X, Blocks) or self._stretch() is not None:
            return None
        self._pair(X)  # refuses what `__call__` would refuse
        return self.recipe()

    def _pair(
        self, X: Points, Y: Points | None = None
    ) -> tuple[Vectors, Vectors | None]:
        """X and Y as vectors this kernel compares, Y None where it is X."""
        return stretched(self, self._stretch(), X, Y)

    def _stretch(self) -> np.ndarray | None:
        """What each coordinate is multiplied by first; None for nothing."""
        return None


class TransformedKernel(Kernel):
    """k(x, y) = f(Σₜ part(xₜ, yₜ)), the sum from the core: fill in `transform`."""

    part: ClassVar[str] = "product"
    decreasing: ClassVar[bool] = False  # whether f is: the sum then ranks as k does

    @abstractmethod
    def transform(self, sums: np.ndarray) -> np.ndarray:
        """f, on an array of any shape."""

    def _stretch(self) -> np.ndarray | None:
        """What each coordinate is multiplied by first; None for nothing."""
        return None

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        X, Y = stretched(self, self._stretch(), X, Y)
        block = vectors.block(Recipe(self.part, "identity"), X, Y)
        # A few rows at a time, as f may hold several arrays of their size.
        n, m = block.shape
        for rows in row_blocks(n, m, TILE_MB / 8):
            block[rows] = self.transform(block[rows])
        return block

    def diag(self, X: Points) -> np.ndarray:
        X, _ = stretched(self, self._stretch(), X, None)
        return self.transform(vectors.diag(Recipe(self.part, "identity"), X))


@dataclass
class Linear(VectorKernel):
    """k(x, y) = ⟨x, y⟩.

    Examples
    --------
    >>> from mercer import Linear
    >>> Linear()([[1, 2], [3, 4]]).tolist()
    [[5.0, 11.0], [11.0, 25.0]]
    """

    def recipe(self) -> Recipe:
        return Recipe("product", "identity")

    def matmul(
        self,
        X: Points,
        Y: Points | None,
        V: npt.ArrayLike,
        *,
        block_mb: float = BLOCK_MB,
    ) -> np.ndarray:
        A, B = self._pair(X, Y)
        B = A if B is None else B
        (n, d), m, V = A.shape, B.shape[0], np.asarray(V)
        outputs = V.shape[1] if V.ndim == 2 else 1
        linear = (2.0 * n + 2.0 * m + d) * outputs
        if V.shape[:1] != (m,) or n * m * d < MANY_TERMS or linear > n * m:
            return super().matmul(X, Y, V, block_mb=block_mb)
        with np.errstate(over="ignore", invalid="ignore"):
            out = _times_double(A, _times_double(B.T, V.astype(float)))
        if np.isfinite(out).all():
            return out
        return super().matmul(X, Y, V, block_mb=block_mb)  # refuses what is not finite

    def features(self, X: Points) -> Vectors:
        """φ(x) = x."""
        return points.vectors(X, "Linear")

    def feature_names(self, X: Points) -> list[str]:
        """The names of the columns."""
        return points.column_names(X)

    def rule(self) -> Rule:
        return Rule(True, "⟨x, y⟩ is an inner product, with φ(x) = x")

    def _formula(self, x: str, y: str) -> latex.Formula:
        return latex.atom(latex.inner(x, y))


def _times_double(A: Vectors, V: np.ndarray) -> np.ndarray:
    """A V in float64; of A in float32 a block at a time is converted."""
    if sp.issparse(A) or A.dtype == np.float64:
        return np.asarray(multiply(A, V))
    n, m = A.shape
    out = np.zeros((n, *V.shape[1:]))
    # Along the longer side, so that a block is contiguous for A and for its transpose.
    if n >= m:
        for rows in row_blocks(n, m, BLOCK_MB):
            out[rows] = multiply(A[rows].astype(float), V)
    else:
        for columns in row_blocks(m, n, BLOCK_MB):
            out += multiply(A[:, columns].astype(float), V[columns])
    return out


@dataclass
class Polynomial(VectorKernel):
    """k(x, y) = (scale ⟨x, y⟩ + offset)^degree; homogeneous where offset = 0.

    Parameters
    ----------
    scale : float > 0, or None for 1 / (d · var X), fixed by `resolve`
    offset : float ≥ 0

    Examples
    --------
    >>> from mercer import Polynomial
    >>> k = Polynomial(2)
    >>> k.value([1, 2], [3, 1])
    36.0
    >>> k.feature_names([[1, 2]])
    ['1', 'x0', 'x1', 'x0^2', 'x0*x1', 'x1^2']
    """

    smooth = Range.positive("scale") | Range.not_negative("offset")

    degree: int
    scale: float | None = 1
    offset: float = 1

    def __post_init__(self) -> None:
        check_whole(self, "degree", self.degree, least=0, most=HIGHEST)
        check_positive(self, "scale", self.scale, optional=True)
        if not 0 <= self.offset < np.inf:
            raise ValueError(
                f"Polynomial needs a finite offset ≥ 0, or its Gram matrices need not "
                f"be positive semidefinite; got offset={self.offset!r}."
            )

    def recipe(self) -> Recipe:
        return Recipe(
            "product",
            "power",
            scale=float(self._resolved("scale")),
            offset=float(self.offset),
            degree=int(self.degree),
        )

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> Kernel:
        if self.scale is not None:
            return self
        scale = inverse_variance(self, "scale", X, weight)
        return Polynomial(self.degree, scale, self.offset)

    def features(self, X: Points) -> Vectors:
        """Φ, (n, p): a weighted monomial per column; sparse where X is.

        p = C(d + degree, degree), or C(d + degree - 1, degree) where offset = 0. The
        square of the weight of x^α, r = |α|, is the multinomial coefficient r! / α!
        times C(degree, r) offset^(degree-r) scale^r.
        """
        return self._map().features(points.vectors(X, "Polynomial"))

    def feature_names(self, X: Points) -> list[str]:
        """The monomial in each column of `features(X)`, without its weight."""
        return self._map().names(points.column_names(X))

    def ordered_features(self, X: Points) -> Vectors:
        """Another Φ of the same kernel: a column per ordered product of coordinates."""
        return self._map(ordered=True).features(points.vectors(X, "Polynomial"))

    def ordered_feature_names(self, X: Points) -> list[str]:
        """The product in each column of `ordered_features(X)`, without its weight."""
        return self._map(ordered=True).names(points.column_names(X))

    def _map(self, ordered: bool = False) -> PolynomialMap:
        scale = self._resolved("scale")
        return PolynomialMap(self.degree, scale, self.offset, ordered)

    def rule(self) -> Rule:
        return Rule(
            True, "a polynomial in the kernel ⟨x, y⟩ with non-negative coefficients"
        )

    def _formula(self, x: str, y: str) -> latex.Formula:
        base = f"{latex.factor(self.scale, 's')}{latex.inner(x, y)}"
        if self.offset:
            base = rf"\left({base} + {latex.number(self.offset)}\right)"
        elif latex.factor(self.scale, "s"):
            base = rf"\left({base}\right)"
        return latex.Formula(f"{base}^{{{int(self.degree)}}}", latex.POWER)


@dataclass
class Exponential(VectorKernel):
    """k(x, y) = exp(⟨x, y⟩ / scale).

    Examples
    --------
    >>> from mercer import Exponential
    >>> round(Exponential(scale=2).value([1, 1], [1, 1]), 4)
    2.7183
    """

    smooth = Range.positive("scale")

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self, "scale", self.scale)
        check_positive(self, "1 / scale", 1 / self.scale)

    def recipe(self) -> Recipe:
        return Recipe("product", "exp", scale=float(1 / self.scale))

    def rule(self) -> Rule:
        return Rule(True, "the limit of the polynomials Σₙ ⟨x, y⟩ⁿ / (scaleⁿ n!)")

    def _formula(self, x: str, y: str) -> latex.Formula:
        scale = latex.number(self.scale)
        product = latex.inner(x, y)
        share = product if scale == "1" else rf"\frac{{{product}}}{{{scale}}}"
        return latex.exponential(share)


@dataclass
class PowerSeries(TransformedKernel):
    """k(x, y) = Σₙ coefficients[n] ⟨x, y⟩ⁿ, n = 0, 1, 2, ...

    Parameters
    ----------
    coefficients : non-negative numbers, the constant first

    Examples
    --------
    >>> from mercer import PowerSeries
    >>> PowerSeries([1, 0, 2]).value([1, 1], [1, 2])
    19.0
    """

    smooth = Range.not_negative("coefficients")

    coefficients: Sequence[float]

    def __post_init__(self) -> None:
        check_coefficients(self, self.coefficients)

    def transform(self, sums: np.ndarray) -> np.ndarray:
        return polynomial(self.coefficients, sums)

    def rule(self) -> Rule:
        return Rule(
            True, "sums of non-negative multiples of powers of ⟨x, y⟩ are kernels"
        )

    def _formula(self, x: str, y: str) -> latex.Formula:
        return latex.polynomial(self.coefficients, latex.atom(latex.inner(x, y)))


@dataclass
class Bilinear(Kernel):
    """k(x, y) = xᵀA y.

    Parameters
    ----------
    A : (d, d) symmetric positive semidefinite array

    Examples
    --------
    >>> from mercer import Bilinear
    >>> Bilinear([[2, 1], [1, 2]]).value([1, 0], [1, 1])
    3.0
    """

    A: Any

    def __post_init__(self) -> None:
        A = np.asarray(self.A)
        if A.ndim != 2 or A.shape[0] != A.shape[1] or A.dtype.kind not in "biuf":
            raise ValueError(
                f"Bilinear needs a square matrix of numbers A; got shape {A.shape} and "
                f"dtype {A.dtype}."
            )
        if not np.isfinite(A).all():
            raise ValueError("Bilinear needs a finite matrix A; it has NaN or inf.")
        gap = np.abs(A - A.T.astype(float))
        if A.size and gap.max() > 1e-10 * np.abs(A).max():
            i, j = np.unravel_index(np.argmax(gap), gap.shape)
            raise ValueError(
                f"Bilinear needs a symmetric A; A[{i}, {j}] = {A[i, j]:.6g} and "
                f"A[{j}, {i}] = {A[j, i]:.6g}. Use (A + A.T) / 2."
            )
        spectrum = np.linalg.eigvalsh(A.astype(float)) if A.size else np.zeros(1)
        if spectrum[0] < -1e-10 * np.abs(spectrum).max():
            raise ValueError(
                f"Bilinear needs a positive semidefinite A; its smallest eigenvalue is "
                f"{spectrum[0]:.6g}."
            )

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        X, Y, A = self._operands(X, Y)
        block = dense(multiply(multiply(X, A), (X if Y is None else Y).T))
        if Y is not None:
            return block
        # A product rounds (i, j) and (j, i) differently; their mean is symmetric.
        return elementwise(lambda block: (block + block.T) / 2, block)

    def diag(self, X: Points) -> np.ndarray:
        X, _, A = self._operands(X, None)
        if sp.issparse(X):
            return np.asarray(X.multiply(X @ A).sum(axis=1)).ravel()
        return np.einsum("ij,ij->i", X @ A, X)

    def matmul(
        self,
        X: Points,
        Y: Points | None,
        V: npt.ArrayLike,
        *,
        block_mb: float = BLOCK_MB,
    ) -> np.ndarray:
        X, Y, _ = self._operands(X, Y)
        A = np.asarray(self.A, dtype=float)
        V = np.asarray(V, dtype=float)
        return X @ (A @ ((X if Y is None else Y).T @ V))

    def _operands(
        self, X: Points, Y: Points | None
    ) -> tuple[Vectors, Vectors | None, np.ndarray]:
        X, Y = points.pair(X, Y, "Bilinear")
        if X.shape[1] != len(self.A):
            raise ValueError(
                f"Bilinear with a {len(self.A)} × {len(self.A)} matrix compares points "
                f"with {len(self.A)} columns; X has {X.shape[1]}."
            )
        return X, Y, np.asarray(self.A).astype(X.dtype)

    def rule(self) -> Rule:
        return Rule(True, "A = SSᵀ since it is positive semidefinite, and φ(x) = Sᵀx")

    def _formula(self, x: str, y: str) -> latex.Formula:
        return latex.Formula(rf"{x}^\top A\, {y}", latex.PRODUCT)


def stretched(
    kernel: Kernel, factors: np.ndarray | None, X: Points, Y: Points | None
) -> tuple[Vectors, Vectors | None]:
    """X and Y as vectors of one dimension, each coordinate times its factor."""
    X, Y = points.pair(X, Y, type(kernel).__name__)
    if factors is None:
        return X, Y
    if X.shape[1] != len(factors):
        raise ValueError(
            f"{type(kernel).__name__} has a width for each of {len(factors)} "
            f"coordinates; the points have {X.shape[1]}."
        )
    return _times_columns(X, factors), None if Y is None else _times_columns(Y, factors)


def _times_columns(X: Vectors, factors: np.ndarray) -> Vectors:
    if not sp.issparse(X):
        return X * factors.astype(X.dtype)
    X = X.copy()
    X.data = X.data * factors.astype(X.dtype)[X.indices]
    return X


def has_widths(setting: Any) -> bool:
    """Whether a width is a list, one number for each coordinate."""
    # Asked in every call of a kernel, of a number as a rule: numpy takes its time.
    if setting is None or isinstance(setting, float):
        return False
    return np.ndim(setting) == 1


def one_width(kernel: Any, name: str, who: str) -> float:
    """The width of a kernel, refused where there is one for each coordinate."""
    setting = kernel._resolved(name)
    if has_widths(setting):
        raise ValueError(
            f"{who} takes a kernel with one {name} for all coordinates; {kernel} has "
            f"one for each. Scale the columns, and pass {type(kernel).__name__} with "
            "a number."
        )
    return float(setting)


def is_vectors(X: Points) -> bool:
    """Whether X is an array, CSR or data frame of points the core can read."""
    if isinstance(X, np.ndarray | Blocks) or sp.issparse(X):
        return X.ndim == 2 and X.dtype.kind in "biuf"
    return is_frame(X)


def inverse_variance(
    kernel: Kernel, name: str, X: Points, weight: np.ndarray | None = None
) -> float:
    """1 / (d · var X) over all entries, and 1 where they are all equal."""
    return _inverse_power(kernel, name, X, weight, 2, "var X")


def inverse_deviation(
    kernel: Kernel, name: str, X: Points, weight: np.ndarray | None = None
) -> float:
    """1 / (d · std X) over all entries, and 1/√d where they are all equal."""
    return _inverse_power(kernel, name, X, weight, 1, "std X")


def _inverse_power(
    kernel: Kernel,
    name: str,
    X: Points,
    weight: np.ndarray | None,
    power: int,
    what: str,
) -> float:
    """1 / (d · (std X)ᵖ), p being 1 or 2."""
    who = type(kernel).__name__
    X = X if isinstance(X, Blocks) else points.vectors(X, who)
    if 0 in X.shape:
        raise ValueError(
            f"{who}({name}=None) learns {name} from data; got {X.shape[0]} points with "
            f"{X.shape[1]} columns. Pass a number."
        )
    d = X.shape[1]
    spread, exponent = _scaled_variance(X, weight)
    if spread == 0:
        return 1.0 if power == 2 else d**-0.5
    with np.errstate(over="ignore", under="ignore"):
        of_scaled = 1 / (d * (spread if power == 2 else math.sqrt(spread)))
        inverse = float(np.ldexp(of_scaled, -power * exponent))
    # Beyond these the squares that it multiplies leave the range of numbers too.
    tiny = np.finfo(float).tiny
    if not tiny <= inverse <= 1 / tiny:
        size = math.log10(spread) / 2 * power + power * exponent * math.log10(2)
        raise ValueError(
            f"{who}({name}=None) learns {name} = 1 / (d · {what}) from data; {what} is "
            f"about 1e{size:.0f} here, and its inverse is no number of double "
            "precision. Scale the data, or pass a number."
        )
    return inverse


def _scaled_variance(X: Points, weight: np.ndarray | None) -> tuple[float, int]:
    """v and e with var X = v · 4ᵉ, where squares could leave the range of numbers."""
    if isinstance(X, Blocks):
        return _variance_of_blocks(X, weight), 0
    entries = X.data if sp.issparse(X) else X
    largest = float(np.max(np.abs(entries), initial=0.0))
    if 1e-140 < largest < 1e140 or not 0 < largest < np.inf:
        return variance(X, weight), 0
    exponent = int(np.frexp(largest)[1])
    scaled = X.astype(float)
    if sp.issparse(X):
        scaled.data = np.ldexp(scaled.data, -exponent)
    else:
        scaled = np.ldexp(scaled, -exponent)
    return variance(scaled, weight), exponent


def variance(X: Points, weight: np.ndarray | None = None) -> float:
    """The variance of all n · d entries, in float64; a sparse X stays sparse.

    The entries of point i count weight[i] times, once where weight is None.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if not sp.issparse(X) and X.size and X.min() == X.max():
            return 0.0  # which rounding of the mean would not leave
        if weight is None and not sp.issparse(X):
            return float(X.var(dtype=float))
        n, d = X.shape
        share = np.full(n, 1 / n) if weight is None else weight / np.sum(weight)
        if not sp.issparse(X):
            mean = share @ X.mean(axis=1, dtype=float)
            return float(share @ np.square(X - mean).mean(axis=1, dtype=float))
        X = X.copy()
        X.sum_duplicates()
        entries, shares = X.data.astype(float), np.repeat(share, np.diff(X.indptr)) / d
        mean = shares @ entries
        zeros = max(0.0, 1 - shares.sum()) * mean**2
        return float(shares @ np.square(entries - mean) + zeros)


def _variance_of_blocks(X: Blocks, weight: np.ndarray | None) -> float:
    """`variance`, with a block of points in memory."""
    n = len(X)
    share = np.full(n, 1 / n) if weight is None else weight / np.sum(weight)
    means, lows, highs = zip(*X.each(_mean_and_range, share), strict=True)
    if min(lows) == max(highs):
        return 0.0
    return float(sum(X.each(_square_from, share, shared=(float(sum(means)),))))


def _mean_and_range(part: Points, share: np.ndarray) -> tuple[float, float, float]:
    """The mean of all entries of a block, weighted by rows, the least and largest."""
    mean = float(share @ np.asarray(part.mean(axis=1, dtype=float)).ravel())
    return mean, float(part.min()), float(part.max())


def _square_from(part: Points, share: np.ndarray, mean: float) -> float:
    """The mean of (entry - mean)² of a block, weighted by rows."""
    part = part.astype(float)
    if not sp.issparse(part):
        return float(share @ np.square(part - mean).mean(axis=1))
    # (x - m)² = x² - 2xm + m², of which zeros have the last alone.
    part.data = part.data**2 - 2 * mean * part.data
    sums = np.asarray(part.mean(axis=1)).ravel()
    return float(share @ (sums + mean**2))


def by_tiles(
    formula: Callable[[np.ndarray, np.ndarray | None], np.ndarray],
    X: Points,
    Y: Points | None,
    depth: int = 1,
) -> np.ndarray:
    """The (n, m) array of formula(A, B) on dense tiles A of X and B of Y.

    Where Y is None the tiles on the diagonal are formula(A, None), and those below it
    mirror those above. `depth` is how many arrays of a tile's size formula holds.
    """
    n, m = X.shape[0], (X if Y is None else Y).shape[0]
    numbers = TILE_MB * 2**20 / 8
    side = max(1, int(min(math.sqrt(numbers / depth), numbers / max(X.shape[1], 1))))
    out = np.empty((n, m), dtype=X.dtype if Y is None else np.result_type(X, Y))
    for i in range(0, n, side):
        rows = slice(i, i + side)
        A = dense(X[rows])
        if Y is None:
            out[rows, rows] = formula(A, None)
        for j in range(i + side if Y is None else 0, m, side):
            columns = slice(j, j + side)
            tile = formula(A, dense((X if Y is None else Y)[columns]))
            out[rows, columns] = tile
            if Y is None:
                out[columns, rows] = tile.T
    return out


MADE_DENSE = 2.0**24  # numbers of sparse points far from the origin
# Offsets, in standard deviations, beyond which ⟨x, y⟩ has too few digits of them left.
OFFSET = {np.dtype(np.float64): 100.0, np.dtype(np.float32): 10.0}


@dataclass
class Shift:
    """x ↦ x - origin, in float64."""

    origin: np.ndarray

    def __call__(self, X: Points) -> np.ndarray:
        return dense(points.vectors(X, "Linear")).astype(float) - self.origin


def about_the_middle(X: Points) -> Kernel:
    """⟨x, y⟩, or ⟨x - c, y - c⟩ about a point c amid points far from the origin.

    Components and clusters are the same about any point; but ⟨x, y⟩ would hold the
    square of a large offset, and few digits of what varies. Sparse points too large
    to be made dense stay as they are.
    """
    if isinstance(X, Blocks):
        return _about_the_middle_of_blocks(X)
    X = points.vectors(X, "Linear")
    if 0 in X.shape or (sp.issparse(X) and np.prod(X.shape, dtype=float) > MADE_DENSE):
        return Linear()
    X = dense(X)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = X.mean(axis=0, dtype=float)
        # Of points about the origin their squares tell, at half the cost.
        square = np.einsum("ij,ij->j", X, X, dtype=float) / len(X)
        if np.abs(mean).max() ** 2 <= 4 * (square - mean**2).max():
            return Linear()
        spread = X.std(axis=0, dtype=float).max()
        far = np.abs(mean).max() > OFFSET.get(X.dtype, 100.0) * spread > 0
    return FeatureFunction(Shift(mean)) if far and np.isfinite(mean).all() else Linear()


def _about_the_middle_of_blocks(X: Blocks) -> Kernel:
    """The same, of points that are read in blocks."""
    if getattr(X, "sparse", False):
        return Linear()
    mean = sum(X.each(_column_sums)) / len(X)
    spread = np.sqrt(max(sum(X.each(_column_squares, shared=(mean,))) / len(X)))
    far = np.abs(mean).max() > OFFSET.get(X.dtype, 100.0) * spread > 0
    return FeatureFunction(Shift(mean)) if far and np.isfinite(mean).all() else Linear()


def _column_sums(part: np.ndarray) -> np.ndarray:
    return part.sum(axis=0, dtype=float)


def _column_squares(part: np.ndarray, mean: np.ndarray) -> np.ndarray:
    return np.square(part - mean).sum(axis=0)
