"""Kernels of vectors made coordinate by coordinate: sums and products over i of a
function of xᵢ and yᵢ.

The recursion for ANOVA kernels: Shawe-Taylor and Cristianini, "Kernel Methods for
Pattern Analysis" (2004), section 9.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer.data import points
from mercer.data.points import Points
from mercer.kernels import latex
from mercer.kernels.base import BLOCK_MB, Kernel, Rule, check_kernels, closed
from mercer.kernels.checks import (
    Range,
    check_positive,
    check_whole,
)
from mercer.kernels.vector import Linear, VectorKernel, by_tiles, is_vectors
from mercer.native import vectors
from mercer.native.sparsity import Vectors
from mercer.native.vectors import Recipe


@dataclass
class Anova(Kernel):
    """k(x, y) = Σ over i₁ < ... < i_D of Π base(xᵢ, yᵢ), D = order.

    The elementary symmetric polynomial of the d numbers base(xᵢ, yᵢ): interactions of
    exactly D coordinates, none with itself. O(d D) for each pair of points.

    Parameters
    ----------
    base : a kernel of single coordinates, or a list with one for each
    cumulative : the sum over the orders 1..D instead

    Examples
    --------
    >>> from mercer import Anova, Linear
    >>> Anova(2, base=Linear()).value([1, 2, 3], [1, 1, 1])
    11.0
    """

    order: int
    base: Any = field(default_factory=Linear)
    cumulative: bool = False

    def __post_init__(self) -> None:
        check_whole(self, "order", self.order, least=1)
        bases = self.base if isinstance(self.base, list | tuple) else [self.base]
        check_kernels(self, *bases)
        if not bases:
            raise ValueError("Anova needs a kernel for each coordinate; got none.")

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        X, Y = self._pair(X, Y)
        if self._is_linear():
            return vectors.block(self._recipe(X), X, Y)
        return by_tiles(self._tile, X, Y, depth=3 + min(self.order, X.shape[1]))

    def diag(self, X: Points) -> np.ndarray:
        X, _ = self._pair(X)
        if self._is_linear():
            return vectors.diag(self._recipe(X), X)
        terms = (k.diag(X[:, [i]]) for i, k in enumerate(self._bases(X)))
        return self._elementary(terms, (X.shape[0],), X)

    def matmul(
        self,
        X: Points,
        Y: Points | None,
        V: npt.ArrayLike,
        *,
        block_mb: float = BLOCK_MB,
    ) -> np.ndarray:
        if not self._is_linear():
            return super().matmul(X, Y, V, block_mb=block_mb)
        X, Y = self._pair(X, Y)
        return vectors.product(self._recipe(X), X, X if Y is None else Y, V)

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> Anova:
        if self._is_linear():
            return self
        X = points.vectors(X, "Anova")
        bases = self._bases(X)
        resolved = [k.resolve(X[:, [i]], weight) for i, k in enumerate(bases)]
        if all(new is old for new, old in zip(resolved, bases, strict=True)):
            return self
        return Anova(self.order, resolved, self.cumulative)

    def native(self, X: Points) -> Recipe | None:
        if not (self._is_linear() and is_vectors(X)):
            return None
        self._pair(X)  # refuses what `__call__` would refuse
        return self._recipe(X)

    def _pair(
        self, X: Points, Y: Points | None = None
    ) -> tuple[Vectors, Vectors | None]:
        """X and Y as vectors with enough coordinates, Y None where it is X."""
        X, Y = points.pair(X, Y, "Anova")
        if self.order > X.shape[1] and not self.cumulative:
            raise ValueError(
                f"Anova(order={self.order}) sums over products of {self.order} "
                f"different coordinates; the points have {X.shape[1]}, so that k would "
                "be 0 everywhere. Lower order."
            )
        return X, Y

    def _is_linear(self) -> bool:
        return self.base == Linear()

    def _recipe(self, X: Vectors) -> Recipe:
        return Recipe(
            "anova",
            "identity",
            # All orders beyond the number of coordinates give the same sums, 0.
            degree=int(min(self.order, X.shape[1] + 1)),
            cumulative=bool(self.cumulative),
        )

    def _bases(self, X: Vectors) -> list[Kernel]:
        """A kernel for each coordinate of X."""
        if isinstance(self.base, Kernel):
            return [self.base] * X.shape[1]
        if len(self.base) != X.shape[1]:
            raise ValueError(
                f"Anova has kernels for {len(self.base)} coordinates; the points have "
                f"{X.shape[1]}. Pass one kernel per coordinate, or one for all."
            )
        return list(self.base)

    def _tile(self, A: np.ndarray, B: np.ndarray | None) -> np.ndarray:
        terms = (
            k(A[:, [i]], None if B is None else B[:, [i]])
            for i, k in enumerate(self._bases(A))
        )
        return self._elementary(terms, (len(A), len(A if B is None else B)), A)

    def _elementary(
        self, terms: Iterable[np.ndarray], shape: tuple[int, ...], X: Vectors
    ) -> np.ndarray:
        """The sum over i₁ < ... < i_D of products of terms, each an array."""
        highest = min(self.order, X.shape[1])
        E = np.zeros((highest + 1, *shape), dtype=X.dtype)  # E[r]: the sum of order r
        E[0] = 1
        for i, term in enumerate(terms):
            for r in range(min(i + 1, highest), 0, -1):
                E[r] += term * E[r - 1]
        if self.cumulative:
            return E[1:].sum(axis=0)
        return E[highest] if self.order == highest else np.zeros(shape, dtype=X.dtype)

    def rule(self) -> Rule:
        return closed(
            self, "a sum of products of kernels, each on one coordinate of the points"
        )


@dataclass
class ChiSquared(VectorKernel):
    """k(x, y) = exp(-γ Σᵢ (xᵢ - yᵢ)² / (xᵢ + yᵢ)), 0/0 = 0, on histograms.

    Examples
    --------
    >>> from mercer import ChiSquared
    >>> round(ChiSquared().value([0.5, 0.5, 0], [0.5, 0, 0.5]), 4)
    0.3679
    """

    smooth = Range.positive("gamma")

    gamma: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self, "gamma", self.gamma)

    def recipe(self) -> Recipe:
        return Recipe("chi2", "exp", scale=-float(self.gamma))

    def _pair(
        self, X: Points, Y: Points | None = None
    ) -> tuple[Vectors, Vectors | None]:
        return _histograms(self, X, Y)

    def rule(self) -> Rule:
        return Rule(
            True,
            "a product over coordinates of e^{-γx} e^{4γ xy/(x+y)} e^{-γy}, since "
            "(x - y)²/(x + y) = x + y - 4xy/(x + y); and xy/(x + y) = "
            "∫ x e^{-xt} y e^{-yt} dt is a kernel on x, y ≥ 0",
        )

    def _formula(self, x: str, y: str) -> latex.Formula:
        share = rf"\frac{{({x}_i - {y}_i)^2}}{{{x}_i + {y}_i}}"
        return latex.exponential(rf"-{latex.factor(self.gamma)}\sum_i {share}")


@dataclass
class Intersection(VectorKernel):
    """k(x, y) = Σᵢ min(xᵢ, yᵢ), on histograms.

    Examples
    --------
    >>> from mercer import Intersection
    >>> Intersection().value([3, 0, 2], [1, 4, 2])
    3.0
    """

    def recipe(self) -> Recipe:
        return Recipe("minimum", "identity")

    def _pair(
        self, X: Points, Y: Points | None = None
    ) -> tuple[Vectors, Vectors | None]:
        return _histograms(self, X, Y)

    def rule(self) -> Rule:
        return Rule(
            True,
            "min(x, y) = ∫ 1[t ≤ x] 1[t ≤ y] dt over t ≥ 0, an inner product of "
            "functions, for x, y ≥ 0",
        )

    def _formula(self, x: str, y: str) -> latex.Formula:
        return latex.Formula(rf"\sum_i \min({x}_i, {y}_i)", latex.SERIES)


@dataclass
class Spline(Kernel):
    """k(x, y) = Πᵢ (1 + xy + xy m - (x + y) m²/2 + m³/3), m = min(x, y).

    In the factor i, x and y stand for the coordinates xᵢ and yᵢ. Splines of third
    degree with knots at the points; a kernel on points without negative coordinates.

    Examples
    --------
    >>> from mercer import Spline
    >>> round(Spline().value([1, 2], [1, 1]), 4)
    8.9444
    """

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        X, Y = points.pair(X, Y, "Spline")
        return by_tiles(self._tile, X, Y, depth=6)

    def diag(self, X: Points) -> np.ndarray:
        X = points.vectors(X, "Spline")
        total = np.ones(X.shape[0], dtype=X.dtype)
        for i in range(X.shape[1]):
            x = X[:, [i]]
            x = (x.toarray() if sp.issparse(x) else x)[:, 0]
            total *= _cubic(x, x)
        return total

    def factors(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The factors of k(x, y), coordinate by coordinate."""
        return _cubic(x, y)

    def _tile(self, A: np.ndarray, B: np.ndarray | None) -> np.ndarray:
        B = A if B is None else B
        total = np.ones((len(A), len(B)), dtype=np.result_type(A, B))
        for x, y in zip(A.T, B.T, strict=True):
            total *= _cubic(x[:, None], y[None, :])
        return total

    def rule(self) -> Rule:
        return Rule(
            None,
            "1 + xy + ∫ (x - t)(y - t) dt over 0 ≤ t ≤ min(x, y) is an inner product "
            "for x, y ≥ 0, so it is a kernel on points without negative coordinates; "
            f"on others it is not, as k(-4, -4) = {self.value(-4.0, -4.0):.3f} < 0",
        )


def _cubic(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """1 + xy + m² (3M - m) / 6, M = max(x, y): the formula without its differences."""
    m, M = np.minimum(x, y), np.maximum(x, y)
    return 1 + x * y + m * m * (M / 2 - m / 6)


def _histograms(
    kernel: Kernel, X: Points, Y: Points | None
) -> tuple[Vectors, Vectors | None]:
    who = type(kernel).__name__
    X, Y = points.pair(X, Y, who)
    for Z in (X,) if Y is None else (X, Y):
        _refuse_negative(who, Z)
    return X, Y


def _refuse_negative(who: str, X: Vectors) -> None:
    if sp.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    entries = X.data if sp.issparse(X) else X
    if not (entries < 0).any():
        return
    if sp.issparse(X):
        place = int(np.argmax(entries < 0))
        i = int(np.searchsorted(X.indptr, place, side="right")) - 1
        j = int(X.indices[place])
    else:
        i, j = (int(axis[0]) for axis in np.nonzero(entries < 0))
    raise ValueError(
        f"{who} compares histograms; point {i} has the negative entry "
        f"{float(X[i, j]):.6g} in column {j}. Pass counts or shares."
    )
