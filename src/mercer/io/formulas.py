"""Kernels as formulas over pairs of points, of the elementary operations of ONNX."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.frames import is_frame
from mercer.data.points import vectors
from mercer.io.operations import (
    Against,
    Pairs,
    Value,
    minus_expm1,
    multiplied,
    polynomial,
)
from mercer.kernels.algebra import Centered, Exp, Normalized, On, PolynomialOf
from mercer.kernels.base import Kernel
from mercer.kernels.coordinate import Anova, ChiSquared, Intersection, Spline
from mercer.kernels.distance import FromDistance
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.explicit import GaussianSeries
from mercer.kernels.multiple import MultipleKernel
from mercer.kernels.nystrom import Nystrom
from mercer.kernels.operators import Constant, Power, Product, Scaled, Sum
from mercer.kernels.radial import RBF, Laplacian, Matern, RationalQuadratic
from mercer.kernels.random_features import PolynomialSketch, RandomFourier
from mercer.kernels.slopes import Wide
from mercer.kernels.vector import Bilinear, Exponential, Linear, Polynomial, PowerSeries
from mercer.kernels.ways import Precomputed
from mercer.kernels.window import ProductWindow, RadialWindow

TINY = 1e-300  # what a divisor is at least: 0 / 0 is 0 where it stands
FAR = 740.0  # e^-r is 0 from here on


def known_points(points: Any, who: str) -> np.ndarray:
    """The points of a machine as a dense array of float64."""
    if is_frame(points) or not (isinstance(points, np.ndarray) or sp.issparse(points)):
        raise TypeError(
            f"{who} stands on points that are no vectors, which ONNX has no operators "
            "for. Use mercer.save; or fit it on an array with a kernel of vectors."
        )
    dense = vectors(points, who)
    return np.asarray(dense.toarray() if sp.issparse(dense) else dense, dtype=float)


def values(kernel: Kernel, pairs: Pairs) -> Value:
    """k of the pairs; refused by name where ONNX has no operators for it."""
    formula = _FORMULAS.get(type(kernel))
    if formula is None:
        raise _refused(kernel)
    if isinstance(kernel, Wide) and (factors := kernel._stretch()) is not None:
        kernel, pairs = kernel.scalar(), pairs.stretched(factors)
    return formula(kernel, pairs)


def _refused(kernel: Kernel, why: str = "") -> TypeError:
    why = why or (
        "kernels of strings, trees, graphs and densities, and functions of your own "
        "are no formulas of its operators"
    )
    return TypeError(
        f"{type(kernel).__name__} cannot be written in ONNX: {why}. Use mercer.save, "
        "or a kernel of vectors such as RBF."
    )


def distances(kernel: Kernel, pairs: Against) -> tuple[Value, Value]:
    """What ranks points as ‖φ(x) - φ(y)‖² does, and that itself."""
    if isinstance(kernel, RBF | Laplacian):
        sums = _exponent(kernel, pairs, exact=True)
        return sums, minus_expm1(sums) * 2.0
    if isinstance(kernel, Linear):
        square = pairs.square(exact=True)
        return square, square
    left, right = pairs.of_sides(values(kernel, pairs.own()), kernel.diag)
    square = (left + right - values(kernel, pairs) * 2.0).at_least(0.0)
    ranked = isinstance(kernel, Matern | RationalQuadratic)
    return (pairs.square(exact=True) if ranked else square), square


def logarithm(kernel: Kernel, pairs: Pairs) -> Value | None:
    """ln k where it is a number however far the points are; None elsewhere."""
    if isinstance(kernel, RBF | Laplacian):
        return -_exponent(kernel, pairs)
    if isinstance(kernel, Matern) and kernel.nu in (0.5, 1.5, 2.5, np.inf):
        z = _matern_distance(kernel, pairs)
        if kernel.nu == np.inf:
            return z * z * -0.5
        return polynomial(_MATERN[kernel.nu], z).log() - z
    if isinstance(kernel, RationalQuadratic):
        return _rational_logarithm(kernel, pairs)
    if isinstance(kernel, RadialWindow) and kernel.function in (
        "exponential",
        "gaussian",
    ):
        r = _radius(kernel, pairs)
        return -r if kernel.function == "exponential" else r * r * -0.5
    return None


# Functions of ⟨x, y⟩ and of distances


def _polynomial_kernel(k: Polynomial, pairs: Pairs) -> Value:
    base = pairs.product() * float(k._resolved("scale")) + float(k.offset)
    return base.power(int(k.degree)) if k.degree else base * 0.0 + 1.0


def _exponent(k: Any, pairs: Pairs, exact: bool = False) -> Value:
    """γ‖x - y‖² or γ Σ|xᵢ - yᵢ|."""
    gamma = float(k._resolved("gamma"))
    return (pairs.square(exact) if isinstance(k, RBF) else _absolute(pairs)) * gamma


def _absolute(pairs: Pairs) -> Value:
    return pairs.sums(lambda x, y: (x - y).op("Abs"))


_MATERN: dict[float, list[float]] = {
    0.5: [1.0],
    1.5: [1.0, 1.0],
    2.5: [1.0, 1.0, 1 / 3],
}


def _matern_distance(k: Matern, pairs: Pairs) -> Value:
    unit = 1.0 if k.nu == np.inf else math.sqrt(2 * k.nu)
    return pairs.square(exact=True).sqrt() * (unit / float(k._resolved("length")))


def _matern(k: Matern, pairs: Pairs) -> Value:
    z = _matern_distance(k, pairs)
    if k.nu == np.inf:
        return (z * z * -0.5).exp()
    if k.nu not in _MATERN:
        raise _refused(k, f"nu={k.nu:g} needs a Bessel function; 0.5, 1.5, 2.5 do not")
    z = z.op("Min", FAR)
    return polynomial(_MATERN[k.nu], z) * (-z).exp()


def _rational_logarithm(k: RationalQuadratic, pairs: Pairs) -> Value:
    length = float(k._resolved("length"))
    share = pairs.square() / (2 * float(k.alpha) * length**2)
    return (share + 1.0).log() * -float(k.alpha)


def _chi_squared(k: ChiSquared, pairs: Pairs) -> Value:
    def part(x: Value, y: Any) -> Value:
        return (x - y).power(2) / (x + y).at_least(TINY)

    return (pairs.sums(part) * -float(k.gamma)).exp()


def _gaussian_series(k: GaussianSeries, pairs: Pairs) -> Value:
    twice = pairs.product() * (2 * k.gamma)
    series = [1 / math.factorial(j) for j in range(k.degree + 1)]
    own = pairs.own().product()
    left, right = pairs.of_sides(
        (own * -k.gamma).exp(),
        lambda Y: np.exp(-k.gamma * np.einsum("ij,ij->i", Y, Y)),
    )
    return polynomial(series, twice) * left * right


def _from_distance(k: FromDistance, pairs: Pairs) -> Value:
    metrics: dict[str, Callable[[Pairs], Value]] = {
        "euclidean": lambda pairs: pairs.square(exact=True),
        "manhattan": lambda pairs: _absolute(pairs).power(2),
        "chebyshev": lambda pairs: pairs.greatest().power(2),
    }
    if not isinstance(k.distance, str) or k.distance not in metrics:
        raise _refused(k, "its distance is no formula of ONNX's operators")
    metric, power = metrics[k.distance], float(k.power)

    def length(pairs: Pairs) -> Value:
        square = metric(pairs)
        return square if power == 1 else square.op("Pow", power)

    origin = np.asarray(k._origin(), dtype=float).reshape(1, -1)
    to_origin = length(Against(pairs.X, origin)).sum(1)
    left, right = pairs.of_sides(to_origin, k.diag)
    return (left + right - length(pairs)) * 0.5


# Windows


def _radius(k: Any, pairs: Pairs) -> Value:
    return pairs.square(exact=True).sqrt() / float(k._resolved("bandwidth"))


def _height(k: RadialWindow | ProductWindow, r: Value) -> Value:
    """K(r) of the windows that have a name."""
    powers = {"epanechnikov": 1, "biweight": 2, "triweight": 3}
    name = k.function
    if not isinstance(name, str):
        raise _refused(k, "its window is a function of your own")
    inside = r.op("Less", 1.0)
    if name == "box":
        return (r * 0.0 + 1.0).where(inside, 0.0)
    if name in powers:
        return (1.0 - r * r).at_least(0.0).power(powers[name])
    if name == "triangle":
        return (1.0 - r).at_least(0.0)
    if name == "tricube":
        return (1.0 - r.power(3)).at_least(0.0).power(3)
    if name == "cosine":
        return (r.op("Min", 1.0) * (math.pi / 2)).op("Cos").where(inside, 0.0)
    return (-r).exp() if name == "exponential" else (r * r * -0.5).exp()


def _product_window(k: ProductWindow, pairs: Pairs) -> Value:
    return multiplied([_height(k, _radius(k, one)) for one in pairs.separate()])


# Coordinate by coordinate


def _spline(k: Spline, pairs: Pairs) -> Value:
    def cubic(x: Value, y: Any) -> Value:
        least, most = x.op("Min", y), x.op("Max", y)
        return x * y + 1.0 + least * least * (most / 2.0 - least / 6.0)

    return multiplied([one.sums(cubic) for one in pairs.separate()])


def _anova(k: Anova, pairs: Pairs) -> Value:
    """The sum over i₁ < ... < i_D of products of terms, of order 1 to D or of D."""
    bases = [k.base] * pairs.d if isinstance(k.base, Kernel) else list(k.base)
    parts = zip(bases, pairs.separate(), strict=True)
    terms = [values(base, one) for base, one in parts]
    highest = min(int(k.order), pairs.d)
    one = terms[0] * 0.0 + 1.0
    E = [one, *[one * 0.0] * highest]
    for i, term in enumerate(terms):
        for r in range(min(i + 1, highest), 0, -1):
            E[r] = E[r] + term * E[r - 1]
    if not k.cumulative:
        return E[highest]
    total = E[1]
    for r in range(2, highest + 1):
        total = total + E[r]
    return total


def _on(k: On, pairs: Pairs) -> Value:
    places = np.arange(pairs.d)
    chosen: Any = k.field
    names = chosen if isinstance(chosen, list) else [chosen]
    if any(isinstance(name, str) for name in names):
        raise _refused(k, f"it reads the column {k.field!r} by name, of a data frame")
    return values(k.kernel, pairs.columns(np.atleast_1d(places[chosen]).tolist()))


# Closure rules


def _normalized(k: Normalized, pairs: Pairs) -> Value:
    inner = values(k.kernel, pairs)
    own = values(k.kernel, pairs.own()).at_least(0.0).sqrt()
    left, right = pairs.of_sides(own, lambda Y: np.sqrt(k.kernel.diag(Y)))
    right = right.at_least(TINY) if isinstance(right, Value) else right + TINY
    return inner / left.at_least(TINY) / right


def _centered(k: Centered, pairs: Pairs) -> Value:
    reference = known_points(k.reference, "Centered")
    to_mean = values(k.kernel, Against(pairs.X, reference)) @ k._shares()
    left, right = pairs.of_sides(to_mean, k._means)
    return values(k.kernel, pairs) - (left + right - k._square())


def _mapped(k: Any, pairs: Pairs) -> Value:
    return pairs.mapped(lambda X: features(k, X, pairs.d), k.features)


def _precomputed(k: Precomputed, pairs: Pairs) -> Value:
    if k.matrix is not None or not isinstance(pairs, Against):
        raise _refused(k, "points are indices of a matrix there")
    return pairs.X.taken(pairs.Y.ravel().astype(np.int64), axis=1)


_FORMULAS: dict[type, Callable[[Any, Pairs], Value]] = {
    Linear: lambda k, pairs: pairs.product(),
    Polynomial: _polynomial_kernel,
    Exponential: lambda k, pairs: (pairs.product() * (1 / float(k.scale))).exp(),
    PowerSeries: lambda k, pairs: polynomial(k.coefficients, pairs.product()),
    Bilinear: lambda k, pairs: pairs.bilinear(np.asarray(k.A, dtype=float)),
    Sigmoid: lambda k, pairs: (
        pairs.product() * float(k._resolved("gamma")) + float(k.offset)
    ).op("Tanh"),
    RBF: lambda k, pairs: (-_exponent(k, pairs)).exp(),
    Laplacian: lambda k, pairs: (-_exponent(k, pairs)).exp(),
    Matern: _matern,
    RationalQuadratic: lambda k, pairs: _rational_logarithm(k, pairs).exp(),
    ChiSquared: _chi_squared,
    Intersection: lambda k, pairs: pairs.sums(lambda x, y: x.op("Min", y)),
    Spline: _spline,
    Anova: _anova,
    GaussianSeries: _gaussian_series,
    FromDistance: _from_distance,
    RadialWindow: lambda k, pairs: _height(k, _radius(k, pairs)),
    ProductWindow: _product_window,
    Nystrom: _mapped,
    RandomFourier: _mapped,
    PolynomialSketch: _mapped,
    Precomputed: _precomputed,
    On: _on,
    Constant: lambda k, pairs: pairs.square() * 0.0 + float(k.c),
    Sum: lambda k, pairs: values(k.left, pairs) + values(k.right, pairs),
    Product: lambda k, pairs: values(k.left, pairs) * values(k.right, pairs),
    MultipleKernel: lambda k, pairs: values(k.total(), pairs),
    Scaled: lambda k, pairs: values(k.kernel, pairs) * float(k.factor),
    Power: lambda k, pairs: values(k.kernel, pairs).power(int(k.exponent)),
    Exp: lambda k, pairs: values(k.kernel, pairs).exp(),
    PolynomialOf: lambda k, pairs: polynomial(k.coefficients, values(k.kernel, pairs)),
    Normalized: _normalized,
    Centered: _centered,
}


# Explicit maps


def features(kernel: Kernel, X: Value, d: int) -> Value:
    """φ of the points of X, (n, p)."""
    if isinstance(kernel, Linear):
        return X
    if isinstance(kernel, Polynomial):
        return _monomials(kernel, X, d)
    if isinstance(kernel, Nystrom):
        points, lower = kernel._kept()
        inverse = np.linalg.inv(np.tril(lower))
        known = known_points(points, "Nystrom")
        return values(kernel.kernel, Against(X, known)) @ inverse.T
    if isinstance(kernel, RandomFourier):
        frequencies = np.asarray(kernel.frequencies, float) * kernel._scale()
        base = kernel.kernel
        if isinstance(base, Wide) and (factors := base._stretch()) is not None:
            frequencies = factors[:, None] * frequencies
        angles = X @ frequencies
        both = angles.op("Cos").op("Concat", angles.op("Sin"), axis=1)
        return both / math.sqrt(kernel.size // 2)
    if isinstance(kernel, PolynomialSketch):
        return _sketch(kernel, X)
    raise TypeError(
        f"The explicit map of {type(kernel).__name__} cannot be written in ONNX; those "
        "of Linear, Polynomial, Nystrom, RandomFourier and PolynomialSketch can. Use "
        "mercer.save."
    )


def _monomials(kernel: Polynomial, X: Value, d: int) -> Value:
    """Weighted products of coordinates: each factor is a column of (X, 1)."""
    weights = np.asarray(kernel.features(np.ones((1, d))))[0]
    columns = np.full((max(1, int(kernel.degree)), len(weights)), d)
    for j, name in enumerate(kernel._map().names([f"x{i}" for i in range(d)])):
        factors = re.findall(r"x(\d+)(?:\^(\d+))?", name)
        every = [int(i) for i, power in factors for _ in range(int(power or 1))]
        columns[: len(every), j] = every
    ones = X.taken([0], axis=1) * 0.0 + 1.0
    wide = X.op("Concat", ones, axis=1)
    return multiplied([wide.taken(row, axis=1) for row in columns]) * weights


def _sketch(kernel: PolynomialSketch, X: Value) -> Value:
    hashes = np.asarray(kernel.hashes, dtype=np.int64)
    scale, offset = 1.0, 0.0
    if isinstance(kernel.kernel, Polynomial):
        scale = float(kernel.kernel._resolved("scale"))
        offset = float(kernel.kernel.offset)
    columns, signs = np.where(hashes < 0, ~hashes, hashes), np.where(hashes < 0, -1, 1)
    d = hashes.shape[1] - 1
    X = X * math.sqrt(scale)
    return sketch(X, d, columns, signs, int(kernel.size), offset)


def sketch(
    X: Value,
    d: int,
    columns: np.ndarray,
    signs: np.ndarray,
    size: int,
    offset: float,
) -> Value:
    """`tensor_sketch`: Fourier's transform is a product with cosines and sines."""
    angles = 2 * np.pi / size * (np.outer(np.arange(size), np.arange(size)) % size)
    cosines, sines = np.cos(angles), np.sin(angles)
    found: tuple[Value, Value] | None = None
    for column, sign in zip(columns, signs, strict=True):
        spread, constant = np.zeros((d, size)), np.zeros(size)
        spread[np.arange(d), column[:d]] = sign[:d]
        if offset:
            constant[column[d]] = sign[d] * math.sqrt(offset)
        a = X @ (spread @ cosines) + constant @ cosines
        b = X @ (spread @ -sines) + constant @ -sines
        if found is not None:
            real, imaginary = found
            a, b = real * a - imaginary * b, real * b + imaginary * a
        found = a, b
    assert found is not None
    return (found[0] @ cosines - found[1] @ sines) / size
