"""Derivatives of kernels of vectors with respect to their first point.

slopes(k, Z, X, W) is Σᵢ Wₘᵢ ∂k(zₘ, xᵢ)/∂zₘ: the sums, not the (m, n, d) array of all
derivatives, so that functions of ⟨z, x⟩ or ‖z - x‖ cost one product of matrices. Sums,
products, powers and the like follow the chain rule; a kernel that is not in the table
below is differenced numerically.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import gammaln, kve

from mercer.data.points import Points, one
from mercer.data.points import vectors as vectors_of
from mercer.kernels.algebra import Centered, Exp, Normalized, On, PolynomialOf
from mercer.kernels.base import Kernel, polynomial
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.operators import Constant, Power, Product, Scaled, Sum
from mercer.kernels.radial import RBF, Laplacian, Matern, RationalQuadratic
from mercer.kernels.vector import Bilinear, Exponential, Linear, Polynomial, PowerSeries
from mercer.kernels.ways import dense
from mercer.native import vectors
from mercer.native.vectors import Recipe

Wide = RBF | Laplacian | Matern | RationalQuadratic  # with widths of coordinates
SIDE = 32  # points whose own squares are taken together, in a square of which few count
STEP = 6e-6  # of central differences, relative to the largest coordinate: ∛ε


def slopes(kernel: Kernel, Z: np.ndarray, X: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Σᵢ Wₘᵢ ∂k(zₘ, xᵢ)/∂zₘ, (m, d); 0 where a kernel of a distance has its kink.

    Parameters
    ----------
    Z, X : (m, d) and (n, d) float64 arrays
    W : (m, n) array
    """
    rule: Callable[..., np.ndarray] = _RULES.get(type(kernel), _differences)
    if isinstance(kernel, Wide) and (factors := kernel._stretch()) is not None:
        return factors * rule(kernel.scalar(), Z * factors, X * factors, W)
    return rule(kernel, Z, X, W)


def slopes_of_square(
    kernel: Kernel, Z: np.ndarray, weight: np.ndarray | None = None
) -> np.ndarray:
    """∂k(zₘ, zₘ)/∂zₘ, each times its weight, (m, d)."""
    twice = np.full(len(Z), 2.0) if weight is None else 2 * weight
    out = np.empty_like(Z)
    for i in range(0, len(Z), SIDE):
        rows = slice(i, i + SIDE)
        out[rows] = slopes(kernel, Z[rows], Z[rows], np.diag(twice[rows]))
    return out


def point_gradient(kernel: Kernel, x: Any, Y: Points) -> np.ndarray:
    """∂k(x, yⱼ)/∂x for each point of Y, (m, d)."""
    who = type(kernel).__name__
    z, Y = (dense(vectors_of(Z, who)).astype(float) for Z in (one(x), Y))
    if z.shape != (1, Y.shape[1]):
        raise ValueError(
            f"point_gradient needs one point x with as many coordinates as those of Y, "
            f"{Y.shape[1]}; got shape {z.shape}."
        )
    out = np.empty(Y.shape)
    for i in range(0, len(Y), SIDE):
        some = Y[i : i + SIDE]
        Z = np.repeat(z, len(some), axis=0)
        out[i : i + SIDE] = slopes(kernel, Z, some, np.eye(len(some)))
    return out


def is_analytic(kernel: Kernel) -> bool:
    """Whether no part of the kernel is differenced numerically."""
    return type(kernel) in _RULES and all(map(is_analytic, kernel.children()))


def _differences(
    kernel: Kernel, Z: np.ndarray, X: np.ndarray, W: np.ndarray
) -> np.ndarray:
    h = STEP * max(np.abs(X).max(initial=0.0), np.abs(Z).max(initial=0.0), 1e-100)
    # Histograms and the like have no negative coordinates; nor has what they become.
    least = 0.0 if X.min(initial=0.0) >= 0 and Z.min(initial=0.0) >= 0 else -np.inf
    out = np.empty_like(Z)
    for j in range(Z.shape[1]):
        up, down = Z.copy(), Z.copy()
        up[:, j] += h
        down[:, j] = np.maximum(down[:, j] - h, least)
        change = np.asarray(kernel(up, X), float) - np.asarray(kernel(down, X), float)
        out[:, j] = np.sum(W * change, axis=1) / (up[:, j] - down[:, j])
    return out


# Of ⟨z, x⟩


def _linear(kernel: Linear, Z: np.ndarray, X: np.ndarray, W: np.ndarray) -> np.ndarray:
    return W @ X


def _polynomial(
    kernel: Polynomial, Z: np.ndarray, X: np.ndarray, W: np.ndarray
) -> np.ndarray:
    if kernel.degree == 0:
        return np.zeros_like(Z)
    scale = float(kernel._resolved("scale"))
    below = Polynomial(kernel.degree - 1, scale, kernel.offset)
    return (kernel.degree * scale * W * below(Z, X)) @ X


def _exponential(
    kernel: Exponential, Z: np.ndarray, X: np.ndarray, W: np.ndarray
) -> np.ndarray:
    return (W * kernel(Z, X) / kernel.scale) @ X


def _power_series(
    kernel: PowerSeries, Z: np.ndarray, X: np.ndarray, W: np.ndarray
) -> np.ndarray:
    return (W * polynomial(derived(kernel.coefficients), Z @ X.T)) @ X


def _sigmoid(
    kernel: Sigmoid, Z: np.ndarray, X: np.ndarray, W: np.ndarray
) -> np.ndarray:
    return (W * float(kernel._resolved("gamma")) * (1 - kernel(Z, X) ** 2)) @ X


def _bilinear(
    kernel: Bilinear, Z: np.ndarray, X: np.ndarray, W: np.ndarray
) -> np.ndarray:
    return W @ (X @ np.asarray(kernel.A, dtype=float))


def derived(coefficients: Sequence[float]) -> list[float]:
    """The coefficients of the derivative of a polynomial."""
    return [float(n * a) for n, a in enumerate(coefficients)][1:] or [0.0]


# Of ‖z - x‖


def _by_square(Z: np.ndarray, X: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Σᵢ Vₘᵢ ∂‖zₘ - xᵢ‖²/∂zₘ."""
    return 2 * (V.sum(axis=1)[:, None] * Z - V @ X)


def by_square(
    kernel: RBF | RationalQuadratic | Matern, Z: np.ndarray, X: np.ndarray
) -> np.ndarray:
    """∂k(zₘ, xᵢ)/∂‖zₘ - xᵢ‖²; 0 where it is unbounded, at the kink of a Matern."""
    if isinstance(kernel, RBF):
        return -float(kernel._resolved("gamma")) * kernel(Z, X)
    length = float(kernel.length)
    if isinstance(kernel, RationalQuadratic):
        return kernel(Z, X) ** (1 + 1 / float(kernel.alpha)) / (-2 * length**2)
    nu = float(kernel.nu)
    if nu == np.inf:
        return kernel(Z, X) / (-2 * length**2)
    if nu > 1:
        # (zᵛKᵥ)′ = -zᵛKᵥ₋₁: the kernel of order ν - 1 at the same z.
        below = Matern(nu - 1, length * math.sqrt((nu - 1) / nu))
        return -nu / (2 * (nu - 1) * length**2) * below(Z, X)
    squares = vectors.block(Recipe("square", "identity"), Z, X)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = np.sqrt(2 * nu * squares) / length
        logs = (1 - nu) * math.log(2) - gammaln(nu) + (nu - 1) * np.log(z) - z
        change = -nu / length**2 * np.exp(logs) * kve(1 - nu, z)
    return np.where(np.isfinite(change), change, 0.0)


def _radial(
    kernel: RBF | RationalQuadratic | Matern,
    Z: np.ndarray,
    X: np.ndarray,
    W: np.ndarray,
) -> np.ndarray:
    return _by_square(Z, X, W * by_square(kernel, Z, X))


def _laplacian(
    kernel: Laplacian, Z: np.ndarray, X: np.ndarray, W: np.ndarray
) -> np.ndarray:
    V = -float(kernel._resolved("gamma")) * W * kernel(Z, X)
    # Σᵢ Vᵢ sign(z - xᵢ), by comparisons: half the time of signs.
    above = [v @ (z > X) - v @ (z < X) for z, v in zip(Z, V, strict=True)]
    return np.array(above).reshape(Z.shape)


# The algebra


def _sum(kernel: Sum, Z: np.ndarray, X: np.ndarray, W: np.ndarray) -> np.ndarray:
    return slopes(kernel.left, Z, X, W) + slopes(kernel.right, Z, X, W)


def _product(
    kernel: Product, Z: np.ndarray, X: np.ndarray, W: np.ndarray
) -> np.ndarray:
    left = slopes(kernel.left, Z, X, W * kernel.right(Z, X))
    return left + slopes(kernel.right, Z, X, W * kernel.left(Z, X))


def _scaled(kernel: Scaled, Z: np.ndarray, X: np.ndarray, W: np.ndarray) -> np.ndarray:
    return slopes(kernel.kernel, Z, X, float(kernel.factor) * W)


def _power(kernel: Power, Z: np.ndarray, X: np.ndarray, W: np.ndarray) -> np.ndarray:
    p = int(kernel.exponent)
    return slopes(kernel.kernel, Z, X, p * W * kernel.kernel(Z, X) ** (p - 1))


def _constant(
    kernel: Constant, Z: np.ndarray, X: np.ndarray, W: np.ndarray
) -> np.ndarray:
    return np.zeros_like(Z)


def _exp(kernel: Exp, Z: np.ndarray, X: np.ndarray, W: np.ndarray) -> np.ndarray:
    return slopes(kernel.kernel, Z, X, W * kernel(Z, X))


def _polynomial_of(
    kernel: PolynomialOf, Z: np.ndarray, X: np.ndarray, W: np.ndarray
) -> np.ndarray:
    change = polynomial(derived(kernel.coefficients), kernel.kernel(Z, X))
    return slopes(kernel.kernel, Z, X, W * change)


def _normalized(
    kernel: Normalized, Z: np.ndarray, X: np.ndarray, W: np.ndarray
) -> np.ndarray:
    inside = kernel.kernel
    own, other = inside.diag(Z), inside.diag(X)
    lengths = np.sqrt(np.multiply.outer(own, other))
    share = np.divide(W, lengths, out=np.zeros_like(W), where=lengths > 0)
    pull = np.sum(W * kernel(Z, X), axis=1)
    weight = np.divide(pull, 2 * own, out=np.zeros_like(pull), where=own > 0)
    return slopes(inside, Z, X, share) - slopes_of_square(inside, Z, weight)


def _on(kernel: On, Z: np.ndarray, X: np.ndarray, W: np.ndarray) -> np.ndarray:
    columns = np.atleast_1d(np.arange(Z.shape[1])[kernel.field])
    out = np.zeros_like(Z)
    part = slopes(kernel.kernel, Z[:, columns], X[:, columns], W)
    np.add.at(out.T, columns, part.T)  # a column may be named twice
    return out


def _centered(
    kernel: Centered, Z: np.ndarray, X: np.ndarray, W: np.ndarray
) -> np.ndarray:
    means = np.multiply.outer(W.sum(axis=1), kernel._shares())
    reference = np.asarray(kernel.reference, dtype=float)
    return slopes(kernel.kernel, Z, X, W) - slopes(kernel.kernel, Z, reference, means)


_RULES: dict[type[Kernel], Callable[..., np.ndarray]] = {
    Linear: _linear,
    Polynomial: _polynomial,
    Exponential: _exponential,
    PowerSeries: _power_series,
    Sigmoid: _sigmoid,
    Bilinear: _bilinear,
    RBF: _radial,
    RationalQuadratic: _radial,
    Matern: _radial,
    Laplacian: _laplacian,
    Sum: _sum,
    Product: _product,
    Scaled: _scaled,
    Power: _power,
    Constant: _constant,
    Exp: _exp,
    PolynomialOf: _polynomial_of,
    Normalized: _normalized,
    On: _on,
    Centered: _centered,
}
