"""Kernels of a distance: k(x, y) = f(d(x, y)).

A function of ‖x - y‖² is a kernel in every dimension exactly if it is a mixture of
Gaussians (Schoenberg, Annals of Mathematics 39, 1938). For large orders the Matérn
kernel uses the uniform expansion of Kν (Abramowitz and Stegun, 9.7.8).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy  # of which a part is loaded when it is used
from scipy.special import gammaln, kve

from mercer.data import points
from mercer.data.points import Points
from mercer.kernels import latex
from mercer.kernels.base import Kernel, Rule, row_blocks
from mercer.kernels.checks import (
    Range,
    check_positive,
    check_widths,
)
from mercer.kernels.explicit import GaussianSeries
from mercer.kernels.vector import (
    TransformedKernel,
    VectorKernel,
    by_tiles,
    has_widths,
    inverse_deviation,
    inverse_variance,
    is_vectors,
    one_width,
)
from mercer.kernels.ways import PIECE_MB, check_callable, dense
from mercer.native import vectors
from mercer.native.interruptible import elementwise
from mercer.native.vectors import Recipe

METRICS = (
    "braycurtis",
    "canberra",
    "chebyshev",
    "cityblock",
    "correlation",
    "cosine",
    "euclidean",
    "hamming",
    "jaccard",
    "jensenshannon",
    "sqeuclidean",
)
FAR = 1e4  # e^-FAR is 0, while FAR² is a number: ∞ · 0 would be NaN
LARGE_ORDER = 60.0  # of a Matérn kernel: from here on Kν overflows at usual distances


class _Widths:
    """One width, or one for each coordinate; coordinates are then scaled first."""

    def _after(self, name: str) -> float:
        """The width that is left where coordinates are scaled: 1 of a list."""
        setting = self._resolved(name)  # type: ignore[attr-defined]
        return 1.0 if has_widths(setting) else float(setting)

    def scalar(self) -> Any:
        """The kernel of coordinates that are scaled already."""
        name = "gamma" if hasattr(self, "gamma") else "length"
        return replace(self, **{name: self._after(name)})  # type: ignore[type-var]


@dataclass
class RBF(_Widths, VectorKernel):
    """k(x, y) = exp(-γ‖x - y‖²), the Gaussian kernel.

    Parameters
    ----------
    gamma : float > 0, or a list of them, γᵢ for Σᵢ γᵢ (xᵢ - yᵢ)²; None for
        1 / (d · var X), fixed by `resolve`

    Examples
    --------
    >>> from mercer import RBF
    >>> round(RBF(gamma=0.5).value([0, 0], [1, 1]), 4)
    0.3679
    >>> RBF().resolve([[0.0, 0.0], [2.0, 2.0]])
    RBF(gamma=0.5)
    """

    smooth = Range.positive("gamma")

    gamma: Any = None

    def __post_init__(self) -> None:
        check_widths(self, "gamma", self.gamma, optional=True)

    @classmethod
    def from_sigma(cls, sigma: float) -> RBF:
        """exp(-‖x - y‖² / 2σ²): γ = 1 / 2σ²."""
        if not sigma > 0:
            raise ValueError(f"RBF.from_sigma needs sigma > 0; got {sigma!r}.")
        return cls(float(0.5 / sigma / sigma))

    @classmethod
    def from_width(cls, width: float) -> RBF:
        """exp(-‖x - y‖² / c): γ = 1 / c."""
        if not width > 0:
            raise ValueError(f"RBF.from_width needs width > 0; got {width!r}.")
        return cls(float(1 / width))

    def recipe(self) -> Recipe:
        return Recipe("square", "exp", scale=-self._after("gamma"))

    def _stretch(self) -> np.ndarray | None:
        widths = self._resolved("gamma")
        return np.sqrt(np.asarray(widths, float)) if has_widths(widths) else None

    # Any: the gamma of what it returns is a number, which the field's type hides.
    def resolve(self, X: Points, weight: np.ndarray | None = None) -> Any:
        if self.gamma is not None:
            return self
        return RBF(inverse_variance(self, "gamma", X, weight))

    def series(self, degree: int) -> GaussianSeries:
        """The kernel of the features of total degree ≤ degree, with its error bound."""
        return GaussianSeries(one_width(self, "gamma", "RBF.series"), degree)

    def rule(self) -> Rule:
        return Rule(
            True,
            "e^{-γ‖x‖²} e^{2γ⟨x, y⟩} e^{-γ‖y‖²}: a Conformal of an Exp of a scaled "
            "Linear",
        )

    def _formula(self, x: str, y: str) -> latex.Formula:
        if has_widths(self.gamma):
            return latex.exponential(rf"-\sum_i \gamma_i ({x}_i - {y}_i)^2")
        gamma = latex.factor(self.gamma, r"\gamma")
        return latex.exponential(f"-{gamma}{latex.distance(x, y)}^2")


@dataclass
class Laplacian(_Widths, VectorKernel):
    """k(x, y) = exp(-γ Σᵢ |xᵢ - yᵢ|).

    With ‖x - y‖₂ in place of the sum it is `Matern(0.5)`.

    Parameters
    ----------
    gamma : float > 0, or a list of them, γᵢ for Σᵢ γᵢ |xᵢ - yᵢ|; None for
        1 / (d · std X), fixed by `resolve`

    Examples
    --------
    >>> from mercer import Laplacian
    >>> round(Laplacian(gamma=0.5).value([0, 0], [1, 1]), 4)
    0.3679
    """

    smooth = Range.positive("gamma")

    gamma: Any = None

    def __post_init__(self) -> None:
        check_widths(self, "gamma", self.gamma, optional=True)

    def recipe(self) -> Recipe:
        return Recipe("absolute", "exp", scale=-self._after("gamma"))

    def _stretch(self) -> np.ndarray | None:
        widths = self._resolved("gamma")
        return np.asarray(widths, float) if has_widths(widths) else None

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> Laplacian:
        if self.gamma is not None:
            return self
        return Laplacian(inverse_deviation(self, "gamma", X, weight))

    def rule(self) -> Rule:
        return Rule(
            True,
            "a product over coordinates of exp(-γ|x - y|), the Fourier transform of a "
            "Cauchy density (Bochner)",
        )

    def _formula(self, x: str, y: str) -> latex.Formula:
        if has_widths(self.gamma):
            return latex.exponential(rf"-\sum_i \gamma_i |{x}_i - {y}_i|")
        gamma = latex.factor(self.gamma, r"\gamma")
        return latex.exponential(f"-{gamma}{latex.distance(x, y)}_1")


@dataclass
class Matern(_Widths, TransformedKernel):
    """k(x, y) = 2^{1-ν}/Γ(ν) zᵛ Kν(z), z = √(2ν) ‖x - y‖ / length.

    nu = ½ is exp(-‖x - y‖ / length), nu = ∞ the Gaussian exp(-‖x - y‖² / 2 length²);
    functions in its space have about nu derivatives. length may be a list: the
    coordinates are then divided by its numbers, one for each.

    Examples
    --------
    >>> from mercer import Matern
    >>> [round(Matern(nu).value([0], [1]), 4) for nu in (0.5, 1.5, float("inf"))]
    [0.3679, 0.4834, 0.6065]
    """

    smooth = Range.positive("length") | Range.positive("nu", learnt=False)

    part: ClassVar[str] = "square"
    decreasing: ClassVar[bool] = True

    nu: float
    length: Any = 1.0

    def __post_init__(self) -> None:
        if self.nu != np.inf:
            check_positive(self, "nu", self.nu)
        check_widths(self, "length", self.length)

    def _stretch(self) -> np.ndarray | None:
        lengths = self.length
        return 1 / np.asarray(lengths, float) if has_widths(lengths) else None

    def transform(self, sums: np.ndarray) -> np.ndarray:
        nu, length = float(self.nu), self._after("length")
        if nu == np.inf:
            return np.exp(-0.5 * (np.sqrt(sums) / length) ** 2)
        z = np.sqrt(sums) * (math.sqrt(2 * nu) / length)
        if nu > LARGE_ORDER:
            return _matern_large(nu, z.astype(float)).astype(sums.dtype)
        z = np.minimum(z, FAR)
        if nu == 0.5:
            return np.exp(-z)
        if nu == 1.5:
            return (1 + z) * np.exp(-z)
        if nu == 2.5:
            return (1 + z + z * z / 3) * np.exp(-z)
        return _matern(nu, z.astype(float)).astype(sums.dtype)

    def rule(self) -> Rule:
        return Rule(True, "a mixture of Gaussians of all widths (Schoenberg)")


def _matern(nu: float, z: np.ndarray) -> np.ndarray:
    """2^{1-ν}/Γ(ν) zᵛ Kν(z), in logarithms."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        bessel = kve(nu, z)  # e^z Kν(z)
        logarithm = (1 - nu) * math.log(2) - gammaln(nu) + nu * np.log(z) - z
        values = np.exp(logarithm + np.log(bessel))
        # Where Kν overflows z is so small that its power series ends here.
        near = 1 - z * z / (4 * (nu - 1)) if nu > 1 else np.ones_like(z)
    return np.where(np.isposinf(bessel), near, values)


def _matern_large(nu: float, z: np.ndarray) -> np.ndarray:
    """The same for large ν; Stirling's series is the expansion's own value at 0."""
    x = np.minimum(z / nu, FAR)
    s = np.hypot(1, x)
    p = 1 / s
    excess = x * x / (1 + s)  # s - 1
    ratio = _debye(nu, p) / _debye(nu, 1.0)
    return ratio * np.sqrt(p) * np.exp(nu * (np.log1p(excess / 2) - excess))


def _debye(nu: float, p: float | np.ndarray) -> float | np.ndarray:
    """Σₖ (-1)ᵏ uₖ(p) / νᵏ, k ≤ 4."""
    q = p * p
    u = (
        p * (3 - 5 * q) / 24,
        q * (81 + q * (-462 + 385 * q)) / 1152,
        p * q * (30375 + q * (-369603 + q * (765765 - 425425 * q))) / 414720,
        q * q * (4465125 + q * (-94121676 + q * (349922430 + q * (-446185740
        + 185910725 * q)))) / 39813120,
    )  # fmt: skip
    return 1 - u[0] / nu + u[1] / nu**2 - u[2] / nu**3 + u[3] / nu**4


@dataclass
class RationalQuadratic(_Widths, TransformedKernel):
    """k(x, y) = (1 + ‖x - y‖² / (2 alpha length²))^-alpha.

    Gaussians of many widths at once; alpha → ∞ leaves exp(-‖x - y‖² / 2 length²).

    length may be a list: the coordinates are then divided by its numbers, one for each.

    Examples
    --------
    >>> from mercer import RationalQuadratic
    >>> round(RationalQuadratic().value([0, 0], [1, 1]), 4)
    0.5
    """

    smooth = Range.positive("alpha", "length")

    part: ClassVar[str] = "square"
    decreasing: ClassVar[bool] = True

    alpha: float = 1.0
    length: Any = 1.0

    def __post_init__(self) -> None:
        check_positive(self, "alpha", self.alpha)
        check_widths(self, "length", self.length)

    def _stretch(self) -> np.ndarray | None:
        lengths = self.length
        return 1 / np.asarray(lengths, float) if has_widths(lengths) else None

    def transform(self, sums: np.ndarray) -> np.ndarray:
        alpha, length = float(self.alpha), self._after("length")
        return np.exp(-alpha * np.log1p((np.sqrt(sums) / length) ** 2 / (2 * alpha)))

    def rule(self) -> Rule:
        return Rule(
            True,
            "a mixture of Gaussians whose γ follows a Gamma distribution (Schoenberg)",
        )

    def _formula(self, x: str, y: str) -> latex.Formula:
        if has_widths(self.length):
            return super()._formula(x, y)
        unit = latex.number(2 * self.alpha * self.length**2)
        square = f"{latex.distance(x, y)}^2"
        base = rf"\left(1 + \frac{{{square}}}{{{unit}}}\right)"
        return latex.Formula(f"{base}^{{-{latex.number(self.alpha)}}}", latex.POWER)


@dataclass
class Radial(Kernel):
    """k(x, y) = function(d(x, y)) for a metric d and a function of one's own.

    Parameters
    ----------
    function : takes an array of distances, returns a number for each
    metric : a metric's name in scipy's `cdist` or a function of two points of any kind

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Radial
    >>> k = Radial(lambda r: np.exp(-r), metric="cityblock")
    >>> round(k.value([0, 0], [1, 1]), 4)
    0.1353
    """

    function: Callable[[np.ndarray], Any]
    metric: str | Callable[[Any, Any], float] = "euclidean"

    def __post_init__(self) -> None:
        check_callable(self, "function", self.function)
        if not callable(self.metric) and self.metric not in METRICS:
            raise ValueError(
                f"Radial needs a function of two points as metric, or one of "
                f"{', '.join(METRICS)}; got metric={self.metric!r}."
            )

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return self._values(self._distances(X, Y))

    def diag(self, X: Points) -> np.ndarray:
        return self._values(self._self_distances(X))

    def _values(self, distances: np.ndarray) -> np.ndarray:
        n = max(len(distances), 1)
        pieces = row_blocks(n, distances.size // n, PIECE_MB)
        images = [self._image(distances[rows]) for rows in pieces]
        return images[0] if len(images) == 1 else np.concatenate(images)

    def _image(self, distances: np.ndarray) -> np.ndarray:
        image = dense(self.function(distances))
        if image.shape != distances.shape:
            raise ValueError(
                f"The function of Radial takes an array of distances and must return a "
                f"number for each, shape {distances.shape}; it returned shape "
                f"{image.shape}. Use numpy's functions, or np.vectorize."
            )
        return image

    def _distances(self, X: Points, Y: Points | None) -> np.ndarray:
        if callable(self.metric) and not is_vectors(X):
            return self._between_objects(X, Y)
        X, Y = points.pair(X, Y, "Radial")
        if self.metric == "euclidean":
            squares = vectors.block(Recipe("square", "identity"), X, Y)
            return elementwise(np.sqrt, squares)
        if self.metric == "cityblock":
            return vectors.block(Recipe("absolute", "identity"), X, Y)
        return by_tiles(self._tile, X, Y)

    def _tile(self, A: np.ndarray, B: np.ndarray | None) -> np.ndarray:
        if B is not None:
            tile = scipy.spatial.distance.cdist(A, B, self.metric)
        else:
            tile = scipy.spatial.distance.squareform(
                scipy.spatial.distance.pdist(A, self.metric)
            )
            np.fill_diagonal(tile, self._self_distances(A))
        # Some of scipy's metrics pass over NaN, and so over ∞ - ∞.
        tile[~np.isfinite(A).all(axis=1)] = np.nan
        tile[:, ~np.isfinite(A if B is None else B).all(axis=1)] = np.nan
        return tile

    def _between_objects(self, X: Points, Y: Points | None) -> np.ndarray:
        metric: Any = self.metric
        X = points.as_points(X)
        if Y is not None:
            Y = points.as_points(Y)
            distances = [metric(x, y) for x in X for y in Y]
            return np.array(distances, dtype=float).reshape(len(X), len(Y))
        D = np.zeros((len(X), len(X)))
        for i, x in enumerate(X):
            for j in range(i):
                D[i, j] = D[j, i] = metric(x, X[j])
        return D

    def _self_distances(self, X: Points) -> np.ndarray:
        """0 for each point, as d is a metric; NaN for a vector with NaN or ∞ in it."""
        if callable(self.metric) and not is_vectors(X):
            return np.zeros(points.count(points.as_points(X)))
        X = points.vectors(X, "Radial")
        return vectors.diag(Recipe("absolute", "identity"), X)

    def rule(self) -> Rule:
        return Rule(
            None,
            "a user's function of a distance; a function of ‖x - y‖ is a kernel in "
            "every dimension if it is a mixture of Gaussians, else it may not be",
        )
