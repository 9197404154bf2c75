"""∂k(X, Y)/∂θ by formula, for the parameters that a kernel has itself.

A rule takes the kernel, the name of the parameter, X and Y.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import xlogy

from mercer.data.points import Points, as_points, count, double, pair
from mercer.data.sequences import edit_distances, encode
from mercer.kernels.algebra import PolynomialOf
from mercer.kernels.base import Kernel
from mercer.kernels.coordinate import ChiSquared
from mercer.kernels.distance import FromDistance
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.explicit import GaussianSeries
from mercer.kernels.generative import Natural
from mercer.kernels.multiple import MultipleKernel
from mercer.kernels.node import Diffusion, MatrixExponential, NodeKernel
from mercer.kernels.operators import Constant, Scaled
from mercer.kernels.radial import RBF, Laplacian, Matern, RationalQuadratic
from mercer.kernels.random_features import RandomFourier
from mercer.kernels.slopes import by_square
from mercer.kernels.string import EditSimilarity, Subsequence, WeightedDegree
from mercer.kernels.substring import Spectrum, WeightedSubstrings
from mercer.kernels.vector import (
    Exponential,
    Polynomial,
    PowerSeries,
    by_tiles,
    stretched,
)
from mercer.kernels.ways import dense
from mercer.kernels.window import ProductWindow, RadialWindow
from mercer.native import vectors
from mercer.native.vectors import Recipe

# Of ⟨x, y⟩


def _products(kernel: Kernel, X: Points, Y: Points | None) -> np.ndarray:
    return vectors.block(
        Recipe("product", "identity"), *pair(X, Y, type(kernel).__name__)
    )


def _polynomial(
    kernel: Polynomial, name: str, X: Points, Y: Points | None
) -> np.ndarray:
    products = _products(kernel, X, Y)
    if kernel.degree == 0:
        return np.zeros_like(products)
    scale = float(kernel._resolved("scale"))
    slope = kernel.degree * (scale * products + float(kernel.offset)) ** (
        int(kernel.degree) - 1
    )
    return slope * products if name == "scale" else slope


def _exponential(
    kernel: Exponential, name: str, X: Points, Y: Points | None
) -> np.ndarray:
    return -_products(kernel, X, Y) / float(kernel.scale) ** 2 * kernel(X, Y)


def _power_series(
    kernel: PowerSeries, name: str, X: Points, Y: Points | None
) -> np.ndarray:
    return _powers(_products(kernel, X, Y), len(kernel.coefficients))


def _sigmoid(kernel: Sigmoid, name: str, X: Points, Y: Points | None) -> np.ndarray:
    slope = 1 - kernel(X, Y) ** 2
    return slope * _products(kernel, X, Y) if name == "gamma" else slope


def _gaussian_series(
    kernel: GaussianSeries, name: str, X: Points, Y: Points | None
) -> np.ndarray:
    A, B = pair(X, Y, "GaussianSeries")
    squares = [vectors.diag(Recipe("product", "identity"), Z) for Z in (A, B)
               if Z is not None]  # fmt: skip
    lengths = np.add.outer(squares[0], squares[-1])
    if kernel.degree == 0:
        return -lengths * kernel(X, Y)
    below = GaussianSeries(kernel.gamma, int(kernel.degree) - 1)
    return 2 * _products(kernel, X, Y) * below(X, Y) - lengths * kernel(X, Y)


def _powers(values: np.ndarray, number: int) -> np.ndarray:
    return np.stack([values**n for n in range(number)])


# Of a distance


def _distances(kernel: Kernel, part: str, X: Points, Y: Points | None) -> np.ndarray:
    return vectors.block(Recipe(part, "identity"), *kernel._pair(X, Y))  # type: ignore[attr-defined]


def _radial(
    kernel: RBF | Matern | RationalQuadratic, name: str, X: Points, Y: Points | None
) -> np.ndarray:
    if isinstance(kernel, RationalQuadratic) and name == "alpha":
        return _of_alpha(kernel, X, Y)
    if np.ndim(kernel._resolved(name)):
        return _of_widths(kernel, name, X, Y)
    A, B = pair(X, Y, type(kernel).__name__)
    squares = vectors.block(Recipe("square", "identity"), A, B)
    width = float(kernel._resolved(name))
    # k is a function of γ‖x - y‖², or of ‖x - y‖² / length².
    factor = 1 / width if isinstance(kernel, RBF) else -2 / width
    return factor * squares * by_square(kernel, A, A if B is None else B)


def _of_widths(kernel: Any, name: str, X: Points, Y: Points | None) -> np.ndarray:
    """k is a function of Σₜ γₜ part(xₜ, yₜ): its derivative times each part."""
    part, slope, factors = _stretched_slope(kernel, name, X, Y)
    A = dense(pair(X, None, "")[0])
    B = A if Y is None else dense(pair(Y, None, "")[0])
    return np.stack(
        [
            factor * slope * part(a[:, None] - b)
            for factor, a, b in zip(factors, A.T, B.T, strict=True)
        ]
    )


def _stretched_slope(
    kernel: Any, name: str, X: Points, Y: Points | None
) -> tuple[Any, np.ndarray, np.ndarray]:
    """The part, dk by its sum, and that of γₜ by the width of each coordinate."""
    widths = np.asarray(kernel._resolved(name), dtype=float)
    if isinstance(kernel, Laplacian):
        return np.abs, -kernel(X, Y), np.ones(len(widths))
    A, B = stretched(kernel, kernel._stretch(), X, Y)
    slope = by_square(kernel.scalar(), A, A if B is None else B)
    factors = np.ones(len(widths)) if isinstance(kernel, RBF) else -2 / widths**3
    return np.square, slope, factors


def _sums_by_widths(
    kernel: Any, name: str, X: Points, Y: Points | None, W: np.ndarray
) -> Any:
    """Σ Vᵢⱼ (xᵢₜ - yⱼₜ)² for all t by one product of matrices; None for one width."""
    if not np.ndim(kernel._resolved(name)) or isinstance(kernel, Laplacian):
        return None
    _, slope, factors = _stretched_slope(kernel, name, X, Y)
    V = W * slope
    A = dense(pair(X, None, "")[0])
    middle = A.mean(axis=0)  # so that squares of a common offset do not cancel
    A = A - middle
    B = A if Y is None else dense(pair(Y, None, "")[0]) - middle
    squares = V.sum(axis=1) @ A**2 + V.sum(axis=0) @ B**2
    return factors * (squares - 2 * np.einsum("ij,ij->j", A, V @ B))


def _of_alpha(kernel: RationalQuadratic, X: Points, Y: Points | None) -> np.ndarray:
    A, B = stretched(kernel, kernel._stretch(), X, Y)
    squares = vectors.block(Recipe("square", "identity"), A, B)
    alpha = float(kernel.alpha)
    share = squares / (2 * alpha * kernel._after("length") ** 2)
    return kernel(X, Y) * (share / (1 + share) - np.log1p(share))


def _laplacian(kernel: Laplacian, name: str, X: Points, Y: Points | None) -> np.ndarray:
    if np.ndim(kernel._resolved(name)):
        return _of_widths(kernel, name, X, Y)
    return -_distances(kernel, "absolute", X, Y) * kernel(X, Y)


def _chi_squared(
    kernel: ChiSquared, name: str, X: Points, Y: Points | None
) -> np.ndarray:
    return -_distances(kernel, "chi2", X, Y) * kernel(X, Y)


def _edit(kernel: EditSimilarity, name: str, X: Points, Y: Points | None) -> np.ndarray:
    distances = edit_distances(*encode("EditSimilarity", X, Y))
    return -distances * np.exp(-float(kernel.gamma) * distances)


def _from_distance(
    kernel: FromDistance, name: str, X: Points, Y: Points | None
) -> np.ndarray:
    """d(Dᵖ)/dp = Dᵖ ln D of the squares D, and 0 where D is 0."""
    plain = FromDistance(kernel.distance, kernel._origin())
    power = float(kernel.power)

    def slope(squares: np.ndarray) -> np.ndarray:
        return xlogy(squares**power, np.where(squares > 0, squares, 1.0))

    left = slope(plain.diag(X))
    right = left if Y is None else slope(plain.diag(Y))
    return (np.add.outer(left, right) - slope(plain.sqdist(X, Y))) / 2


def _radial_window(
    kernel: RadialWindow, name: str, X: Points, Y: Points | None
) -> np.ndarray:
    assert kernel.shape is not None
    h = float(kernel._resolved("bandwidth"))
    squares = vectors.block(Recipe("square", "identity"), *pair(X, Y, "RadialWindow"))
    r = np.sqrt(squares) / h
    return kernel.shape.slope(r) * r / -h


def _product_window(
    kernel: ProductWindow, name: str, X: Points, Y: Points | None
) -> np.ndarray:
    shape, h = kernel.shape, float(kernel._resolved("bandwidth"))
    assert shape is not None

    def tile(A: np.ndarray, B: np.ndarray | None) -> np.ndarray:
        B = A if B is None else B
        value, change = np.ones((len(A), len(B))), np.zeros((len(A), len(B)))
        for a, b in zip(A.T, B.T, strict=True):
            r = np.abs(a[:, None] - b) / h
            height = shape.function(r)
            change = change * height + value * shape.slope(r) * r / -h
            value = value * height
        return change

    return by_tiles(tile, *pair(X, Y, "ProductWindow"), depth=6)


# Of structures


def _of_weights(kernel: Any, name: str, X: Points, Y: Points | None) -> np.ndarray:
    """k is a sum over lengths: its part of each length, without its weight."""
    units = np.eye(len(kernel.weights)).tolist()
    parameters = kernel._parameters()
    return np.stack(
        [type(kernel)(**(parameters | {"weights": unit}))(X, Y) for unit in units]
    )


def _substrings(
    kernel: WeightedSubstrings, name: str, X: Points, Y: Points | None
) -> np.ndarray:
    if name == "weights":
        return _of_weights(kernel, name, X, Y)
    longest = encode("WeightedSubstrings", X)[0].longest
    lengths = np.arange(1, longest + 1)
    slopes = lengths * float(kernel._resolved("decay")) ** (lengths - 1.0)
    return WeightedSubstrings(weights=slopes.tolist() or [1.0])(X, Y)


def _nodes(kernel: NodeKernel, name: str, X: Points, Y: Points | None) -> np.ndarray:
    """dK/dβ = HK."""
    rows = kernel._places(X)
    columns = rows if Y is None else kernel._places(Y)
    power = kernel._power()
    unit = np.zeros((power.size, len(columns)))
    unit[columns, np.arange(len(columns))] = 1
    return np.asarray(kernel._matrix() @ power.times(unit))[rows]


def _natural(kernel: Natural, name: str, X: Points, Y: Points | None) -> np.ndarray:
    return kernel(X, Y) / -float(kernel.metric)


def _fourier(
    kernel: RandomFourier, name: str, X: Points, Y: Points | None
) -> np.ndarray:
    """k is a function of s(x - y), s the scale of the frequencies."""
    inner, scale = kernel.kernel, kernel._scale()
    W = np.asarray(kernel.frequencies, dtype=float)
    A, B = pair(X, Y, "RandomFourier")

    def waves(Z: Any) -> tuple[np.ndarray, ...]:
        angles = np.asarray(double(Z) @ W)
        cos, sin = np.cos(scale * angles), np.sin(scale * angles)
        return cos, sin, angles * cos, angles * sin

    left = waves(A)
    right = left if B is None else waves(B)
    cos, sin, cos_by_angle, sin_by_angle = left
    slope = sin @ right[2].T - cos @ right[3].T
    slope += cos_by_angle @ right[1].T - sin_by_angle @ right[0].T
    width = float(inner._resolved(name.removeprefix("kernel__")))
    change = -1 / width**2
    if isinstance(inner, RBF | Laplacian):
        change = scale / (2 * width) if isinstance(inner, RBF) else 1.0
    return change / W.shape[1] * slope


# The algebra


def _scaled(kernel: Scaled, name: str, X: Points, Y: Points | None) -> np.ndarray:
    return kernel.kernel(X, Y)


def _constant(kernel: Constant, name: str, X: Points, Y: Points | None) -> np.ndarray:
    n = count(as_points(X))
    return np.ones((n, n if Y is None else count(as_points(Y))))


def _coefficients(
    kernel: PolynomialOf, name: str, X: Points, Y: Points | None
) -> np.ndarray:
    return _powers(kernel.kernel(X, Y), len(kernel.coefficients))


def _by_weights(
    kernel: MultipleKernel, name: str, X: Points, Y: Points | None
) -> np.ndarray:
    return np.stack([np.asarray(part(X, Y), dtype=float) for part in kernel.kernels])


RULES: dict[type[Kernel], Callable[..., np.ndarray]] = {
    MultipleKernel: _by_weights,
    Polynomial: _polynomial,
    Exponential: _exponential,
    PowerSeries: _power_series,
    Sigmoid: _sigmoid,
    GaussianSeries: _gaussian_series,
    RBF: _radial,
    Matern: _radial,
    RationalQuadratic: _radial,
    Laplacian: _laplacian,
    ChiSquared: _chi_squared,
    EditSimilarity: _edit,
    FromDistance: _from_distance,
    RadialWindow: _radial_window,
    ProductWindow: _product_window,
    Spectrum: _of_weights,
    WeightedDegree: _of_weights,
    Subsequence: _of_weights,
    WeightedSubstrings: _substrings,
    Diffusion: _nodes,
    MatrixExponential: _nodes,
    Natural: _natural,
    RandomFourier: _fourier,
    Scaled: _scaled,
    Constant: _constant,
    PolynomialOf: _coefficients,
}

# Σ W · dk without the matrices, where that is cheaper.
SUMS: dict[type[Kernel], Callable[..., Any]] = {
    RBF: _sums_by_widths,
    Matern: _sums_by_widths,
    RationalQuadratic: _sums_by_widths,
}
