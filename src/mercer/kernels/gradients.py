"""Derivatives of kernels with respect to their parameters.

A kernel declares its smooth parameters in `smooth`; a rule below says how k changes
with each, and kernels inside others follow the chain rule by `Link`s, which pass the
matrices dk/dθ up or, where only Σᵢⱼ Wᵢⱼ ∂k(xᵢ, yⱼ)/∂θ is wanted, the weights W down:
no matrix is then kept, and a width for each of d coordinates costs one product of
matrices. What has no rule is differenced numerically, see `differenced`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy

from mercer.data.points import Points, as_points, count, double, pair, take
from mercer.data.sequences import edit_distances, encode
from mercer.kernels.algebra import (
    Centered,
    Conformal,
    Exp,
    Normalized,
    On,
    PolynomialOf,
    Pullback,
)
from mercer.kernels.base import (
    Constant,
    Kernel,
    Power,
    Product,
    Scaled,
    Sum,
    polynomial,
)
from mercer.kernels.convolution import Convolution
from mercer.kernels.coordinate import Anova, ChiSquared
from mercer.kernels.distance import FromDistance
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.explicit import GaussianSeries
from mercer.kernels.generative import Natural
from mercer.kernels.landmarks import values
from mercer.kernels.multiple import MultipleKernel
from mercer.kernels.node import Diffusion, MatrixExponential, NodeKernel
from mercer.kernels.nystrom import Nystrom
from mercer.kernels.radial import RBF, Laplacian, Matern, RationalQuadratic
from mercer.kernels.random_features import PolynomialSketch, RandomFourier
from mercer.kernels.slopes import by_square, derived
from mercer.kernels.string import EditSimilarity, Subsequence, WeightedDegree
from mercer.kernels.substring import Spectrum, WeightedSubstrings
from mercer.kernels.tree import TaggedTree
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
from mercer.native.lapack import half
from mercer.native.vectors import Recipe

SIDE = (
    8  # points whose k(x, x) is differentiated together, in a square of which few count
)
WIDEST = 2.0**-6  # step of numerical derivatives, relative to the parameter
HALVINGS = 24  # of it, at most
PRECISE = 1e-11  # relative error that ends them


class Link(NamedTuple):
    """How k depends on a kernel inside it: dk = push(d kernel(X, Y)).

    `pull` takes weights of k to those of the kernel inside. On the diagonal the two
    are of the n numbers k(x, x).
    """

    name: str
    kernel: Kernel
    X: Points
    Y: Points | None
    push: Callable[[np.ndarray], np.ndarray]
    pull: Callable[[np.ndarray], np.ndarray]
    diagonal: bool = False


def matrices(
    kernel: Kernel, X: Points, Y: Points | None, names: Collection[str]
) -> dict[str, np.ndarray]:
    """∂k(X, Y)/∂θ for the named parameters; of a list of p numbers (p, n, m)."""
    out: dict[str, np.ndarray] = {}
    for name in _own(kernel, names):
        out[name] = np.asarray(_rule(kernel, name)(kernel, name, X, Y), dtype=float)
    for link in _links(kernel, X, Y, names):
        inside = _inside(link, names)
        if link.diagonal:
            found = _diagonals(link.kernel, link.X, inside)
        else:
            found = matrices(link.kernel, link.X, link.Y, inside)
        for name, inner in found.items():
            path = f"{link.name}__{name}"
            change = _each(link.push, inner, 1 if link.diagonal else 2)
            out[path] = out[path] + change if path in out else change
    return {name: out[name] for name in names}


def sums(
    kernel: Kernel, X: Points, Y: Points | None, W: np.ndarray, names: Collection[str]
) -> dict[str, Any]:
    """Σᵢⱼ Wᵢⱼ ∂k(xᵢ, yⱼ)/∂θ for the named parameters."""
    out: dict[str, Any] = {}
    for name in _own(kernel, names):
        by_weight = _SUMS.get(type(kernel))
        total = None if by_weight is None else by_weight(kernel, name, X, Y, W)
        if total is None:
            total = _total(W, _rule(kernel, name)(kernel, name, X, Y))
        out[name] = total
    for link in _links(kernel, X, Y, names):
        inside, weights = _inside(link, names), link.pull(W)
        if link.diagonal:
            found = _diagonal_sums(link.kernel, link.X, weights, inside)
        else:
            found = sums(link.kernel, link.X, link.Y, weights, inside)
        for name, total in found.items():
            path = f"{link.name}__{name}"
            out[path] = out[path] + total if path in out else total
    return {name: out[name] for name in names}


def is_exact(kernel: Kernel, name: str) -> bool:
    """Whether the derivative is a formula, and not differenced numerically."""
    if name in _own(kernel, [name]):
        return _rule(kernel, name) is not _differenced
    head, _, rest = name.partition("__")
    child = dict(kernel._kernel_fields())[head]
    if isinstance(child, list | tuple):
        head, _, rest = rest.partition("__")
        child = child[int(head)]
    return is_exact(child, rest)


def _own(kernel: Kernel, names: Collection[str]) -> list[str]:
    """The names that this kernel has a rule for, and none inside it."""
    if isinstance(kernel, RandomFourier | PolynomialSketch):
        return list(names)
    if isinstance(kernel, Normalized) and _has_log(kernel.kernel):
        return list(names)
    return [name for name in names if name in kernel.smooth]


def _has_log(kernel: Kernel) -> bool:
    """Whether k itself may leave float64, and cosines come from its logarithm."""
    return type(kernel).log is not Kernel.log and not (
        isinstance(kernel, TaggedTree) and not _has_log(kernel.kernel)
    )


def _rule(kernel: Kernel, name: str) -> Callable[..., np.ndarray]:
    if hasattr(kernel, "own_gradient"):  # of a kernel from outside
        return type(kernel).own_gradient
    rule: Callable[..., np.ndarray] = _RULES.get(type(kernel), _differenced)
    return rule if rule is _differenced or _ruled(kernel, name) else _differenced


def _ruled(kernel: Kernel, name: str) -> bool:
    """Whether the rule of the kernel knows this parameter."""
    if isinstance(kernel, Matern):
        return name == "length"
    if isinstance(kernel, Subsequence):
        return name == "weights"
    if isinstance(kernel, RadialWindow | ProductWindow):
        return kernel.shape is not None
    if isinstance(kernel, RandomFourier):
        return np.ndim(kernel.get_params()[name]) == 0
    return True


def _inside(link: Link, names: Collection[str]) -> list[str]:
    begin = f"{link.name}__"
    return [name.removeprefix(begin) for name in names if name.startswith(begin)]


def _links(
    kernel: Kernel, X: Points, Y: Points | None, names: Collection[str]
) -> Iterator[Link]:
    """The links to the kernels inside that have one of the named parameters."""
    rule = _LINKS.get(type(kernel))
    if rule is None or len(_own(kernel, names)) == len(names):
        return
    for link in rule(kernel, X, Y):
        if _inside(link, names):
            yield link


def _each(
    function: Callable[[np.ndarray], np.ndarray], array: np.ndarray, axes: int
) -> np.ndarray:
    """The function of each matrix, or vector, of a stack of them."""
    if array.ndim == axes:
        return function(array)
    return np.stack([_each(function, part, axes) for part in array])


def _total(W: np.ndarray, derivative: np.ndarray) -> Any:
    if derivative.ndim == 2:
        return float(np.einsum("ij,ij->", W, derivative))
    return np.einsum("ij,rij->r", W, derivative)


def _diagonals(kernel: Kernel, X: Points, names: list[str]) -> dict[str, np.ndarray]:
    """∂k(x, x)/∂θ for each point, a few of them at a time."""
    X = as_points(X)
    parts = [
        matrices(kernel, take(X, slice(i, i + SIDE)), None, names)
        for i in range(0, count(X), SIDE)
    ]
    return {
        name: np.concatenate(
            [np.diagonal(part[name], axis1=-2, axis2=-1) for part in parts], axis=-1
        )
        for name in names
    }


def _diagonal_sums(
    kernel: Kernel, X: Points, weights: np.ndarray, names: list[str]
) -> dict[str, Any]:
    """Σᵢ weightsᵢ ∂k(xᵢ, xᵢ)/∂θ."""
    X = as_points(X)
    out: dict[str, Any] = dict.fromkeys(names, 0.0)
    for i in range(0, count(X), SIDE):
        rows = slice(i, i + SIDE)
        found = sums(kernel, take(X, rows), None, np.diag(weights[rows]), names)
        for name in names:
            out[name] = out[name] + found[name]
    return out


# Numerical derivatives


def _differenced(kernel: Kernel, name: str, X: Points, Y: Points | None) -> np.ndarray:
    setting = kernel.get_params()[name]
    allowed = kernel.smooth_parameters()[name]

    def slope(changed: Callable[[float], Any], at: float) -> np.ndarray:
        # At the ends of the range to the one side there is.
        side = (at == allowed.low) - (at == allowed.high)
        return differenced(lambda v: moved(kernel, name, changed(v))(X, Y), at, side)

    if np.ndim(setting) == 0:
        return slope(float, float(setting))
    entries = [float(part) for part in setting]
    return np.stack(
        [
            slope(lambda v, r=r: [*entries[:r], v, *entries[r + 1 :]], at)  # type: ignore[misc]
            for r, at in enumerate(entries)
        ]
    )


def differenced(
    function: Callable[[float], np.ndarray], at: float, side: int = 0
) -> np.ndarray:
    """function′(at) by differences, extrapolated to steps of 0 (Ridders, 1982).

    Steps are halved until two extrapolations agree to 1e-11 of the largest entry, or
    rounding outgrows what halving gains; a step that the function refuses is halved
    too. About ten digits are right where the function is smooth.

    Parameters
    ----------
    side : 0 for central differences, 1 or -1 for those to the right or left
    """
    step = WIDEST * (abs(at) or 1.0)
    base = 2.0 if side else 4.0  # what an error of the lowest order shrinks by
    start = np.asarray(function(at), dtype=float) if side else 0.0
    before: list[np.ndarray] = []
    best, least = None, math.inf
    for _ in range(HALVINGS):
        try:
            end = np.asarray(function(at + (side or 1) * step), dtype=float)
            back = start if side else np.asarray(function(at - step), dtype=float)
        except ValueError:
            if before:
                raise
            step /= 2
            continue
        row = [(end - back) / (side * step if side else 2 * step)]
        for order, coarse in enumerate(before, 1):
            row.append(row[-1] + (row[-1] - coarse) / (base**order - 1))
        if before:
            scale = float(np.abs(row[-1]).max(initial=0.0))
            error = float(np.abs(row[-1] - before[-1]).max(initial=0.0))
            if error <= least:
                best, least = row[-1], error
            if least <= PRECISE * scale or error > 4 * least:
                break
        before = row
        step /= 2
    if best is None:
        function(at + (side or 1) * step)  # says why
        raise ValueError(f"There is no derivative at {at!r}.")
    return best


def moved(kernel: Kernel, path: str, setting: Any) -> Kernel:
    """The kernel with another value of a parameter; what is not changed is shared."""
    name, nested, rest = path.partition("__")
    parameters = kernel._parameters()
    if nested:
        child = parameters[name]
        if isinstance(child, Kernel):
            setting = moved(child, rest, setting)
        else:
            number, nested, rest = rest.partition("__")
            part = moved(child[int(number)], rest, setting)
            setting = type(child)(
                part if i == int(number) else other for i, other in enumerate(child)
            )
    return type(kernel)(**(parameters | {name: setting}))


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


def _times(
    name: str,
    kernel: Kernel,
    X: Points,
    Y: Points | None,
    factor: Callable[[], np.ndarray] | None = None,
) -> Link:
    """dk = factor · d kernel, entry by entry; computed when it is needed."""
    if factor is None:
        return Link(name, kernel, X, Y, np.asarray, np.asarray)
    found = cache(factor)
    return Link(name, kernel, X, Y, lambda D: D * found(), lambda W: W * found())


def _of_sum(kernel: Sum, X: Points, Y: Points | None) -> Iterator[Link]:
    yield _times("left", kernel.left, X, Y)
    yield _times("right", kernel.right, X, Y)


def _of_weighted(kernel: MultipleKernel, X: Points, Y: Points | None) -> Iterator[Link]:
    weights = np.asarray(kernel.weights, dtype=float)
    for i, (weight, part) in enumerate(zip(weights, kernel.kernels, strict=True)):
        yield _times(f"kernels__{i}", part, X, Y, partial(np.asarray, weight))


def _by_weights(
    kernel: MultipleKernel, name: str, X: Points, Y: Points | None
) -> np.ndarray:
    return np.stack([np.asarray(part(X, Y), dtype=float) for part in kernel.kernels])


def _of_product(kernel: Product, X: Points, Y: Points | None) -> Iterator[Link]:
    yield _times("left", kernel.left, X, Y, lambda: kernel.right(X, Y))
    yield _times("right", kernel.right, X, Y, lambda: kernel.left(X, Y))


def _of_scaled(kernel: Scaled, X: Points, Y: Points | None) -> Iterator[Link]:
    yield _times("kernel", kernel.kernel, X, Y, lambda: np.array(float(kernel.factor)))


def _of_power(kernel: Power, X: Points, Y: Points | None) -> Iterator[Link]:
    p = int(kernel.exponent)
    yield _times(
        "kernel", kernel.kernel, X, Y, lambda: p * kernel.kernel(X, Y) ** (p - 1)
    )


def _of_exp(kernel: Exp, X: Points, Y: Points | None) -> Iterator[Link]:
    yield _times("kernel", kernel.kernel, X, Y, lambda: kernel(X, Y))


def _of_polynomial(kernel: PolynomialOf, X: Points, Y: Points | None) -> Iterator[Link]:
    def slope() -> np.ndarray:
        return polynomial(derived(kernel.coefficients), kernel.kernel(X, Y))

    yield _times("kernel", kernel.kernel, X, Y, slope)


def _of_conformal(kernel: Conformal, X: Points, Y: Points | None) -> Iterator[Link]:
    def factor() -> np.ndarray:
        left = kernel._factor(X)
        return np.multiply.outer(left, left if Y is None else kernel._factor(Y))

    yield _times("kernel", kernel.kernel, X, Y, factor)


def _of_image(kernel: Kernel, X: Points, Y: Points | None) -> Iterator[Link]:
    """Of a kernel on what points are made into."""
    image = {Pullback: "_image", On: "_part", TaggedTree: "_tags"}[type(kernel)]
    become = getattr(kernel, image)
    inner: Kernel = kernel.kernel  # type: ignore[attr-defined]
    yield _times("kernel", inner, become(X), None if Y is None else become(Y))


def _of_normalized(kernel: Normalized, X: Points, Y: Points | None) -> Iterator[Link]:
    """d cos = dk / (‖φ(x)‖ ‖φ(y)‖) - ½ cos (dk(x, x)/k(x, x) + dk(y, y)/k(y, y))."""
    inner = kernel.kernel
    squares = {True: inner.diag(X)}
    squares[False] = squares[True] if Y is None else inner.diag(Y)

    def inverse(numbers: np.ndarray) -> np.ndarray:
        return np.divide(1, numbers, out=np.zeros(len(numbers)), where=numbers > 0)

    def factor() -> np.ndarray:
        return np.sqrt(np.multiply.outer(*map(inverse, squares.values())))

    def half_cosines() -> np.ndarray:
        return kernel(X, Y) / -2

    yield _times("kernel", inner, X, Y, factor)
    half_cosine = cache(half_cosines)
    for own, Z in ((True, X), (False, X if Y is None else Y)):
        shares = inverse(squares[own])
        yield Link(
            "kernel",
            inner,
            Z,
            None,
            lambda d, s=shares, own=own: (
                half_cosine()  # type: ignore[misc]
                * ((d * s)[:, None] if own else d * s)
            ),
            lambda W, s=shares, own=own: (
                s  # type: ignore[misc]
                * np.sum(W * half_cosine(), axis=1 if own else 0)
            ),
            diagonal=True,
        )


def _of_centered(kernel: Centered, X: Points, Y: Points | None) -> Iterator[Link]:
    inner, shares = kernel.kernel, kernel._shares()
    reference = as_points(kernel._resolved("reference"))
    n = count(as_points(X))
    m = n if Y is None else count(as_points(Y))
    yield _times("kernel", inner, X, Y)
    yield Link(
        "kernel", inner, X, reference,
        lambda D: np.repeat(-(D @ shares)[:, None], m, axis=1),
        lambda W: np.multiply.outer(-W.sum(axis=1), shares),
    )  # fmt: skip
    yield Link(
        "kernel", inner, X if Y is None else Y, reference,
        lambda D: np.repeat(-(D @ shares)[None], n, axis=0),
        lambda W: np.multiply.outer(-W.sum(axis=0), shares),
    )  # fmt: skip
    yield Link(
        "kernel", inner, reference, None,
        lambda D: np.full((n, m), shares @ D @ shares),
        lambda W: W.sum() * np.multiply.outer(shares, shares),
    )  # fmt: skip


def _of_anova(kernel: Anova, X: Points, Y: Points | None) -> Iterator[Link]:
    """dk/d term i is the sum of products of the other terms."""
    A, B = pair(double(as_points(X)), Y if Y is None else double(as_points(Y)), "Anova")
    d = A.shape[1]
    many = isinstance(kernel.base, list | tuple)
    columns = [(A[:, [i]], None if B is None else B[:, [i]]) for i in range(d)]
    bases = kernel._bases(A)
    terms = cache(
        lambda: [base(*both) for base, both in zip(bases, columns, strict=True)]
    )

    def others(i: int) -> np.ndarray:
        """The elementary polynomials of the other terms, up to order - 1."""
        values = terms()
        highest = min(int(kernel.order), d) - 1
        E = np.zeros((highest + 1, *values[0].shape))
        E[0] = 1
        for j, term in enumerate(values):
            for r in range(highest, 0, -1) if j != i else ():
                E[r] += term * E[r - 1]
        if kernel.cumulative:
            return E.sum(axis=0)
        return E[highest] if kernel.order <= d else np.zeros(values[0].shape)

    for i, (base, both) in enumerate(zip(bases, columns, strict=True)):
        name = f"base__{i}" if many else "base"
        yield _times(name, base, *both, lambda i=i: others(i))  # type: ignore[misc]


def _of_convolution(kernel: Convolution, X: Points, Y: Points | None) -> Iterator[Link]:
    """The sum over pairs of decompositions of the product of the other kernels."""
    left = kernel._decomposed(X)
    right = left if Y is None else kernel._decomposed(Y)
    kernels, many = kernel._kernels(), isinstance(kernel.kernels, list | tuple)
    if not (left.owners.shape[1] and right.owners.shape[1]):
        return

    def others(d: int) -> np.ndarray:
        product = np.ones((left.owners.shape[1], right.owners.shape[1]))
        for e, (inner, x, y) in enumerate(
            zip(kernels, left.columns, right.columns, strict=True)
        ):
            product = product if e == d else product * inner(x, y)
        return product

    for d, inner in enumerate(kernels):
        rest = cache(lambda d=d: others(d))
        yield Link(
            f"kernels__{d}" if many else "kernels",
            inner,
            left.columns[d],
            right.columns[d],
            lambda D, rest=rest: left.owners @ (right.owners @ (D * rest()).T).T,  # type: ignore[misc]
            lambda W, rest=rest: (  # type: ignore[misc]
                left.owners.T @ (right.owners.T @ W.T).T * rest()
            ),
        )


def _of_nystrom(kernel: Nystrom, X: Points, Y: Points | None) -> Iterator[Link]:
    """d(A M⁻¹ Bᵀ) = dA (B M⁻¹)ᵀ + (A M⁻¹) dBᵀ - A M⁻¹ dM M⁻¹ Bᵀ, M = k(L, L)."""
    inner, landmarks = kernel.kernel, double(kernel.base_points())
    lower = kernel.triangle()

    def shares(Z: Points) -> np.ndarray:
        across = values(inner, double(as_points(Z)), landmarks)
        turned = half(lower, np.asfortranarray(across.T))
        return np.linalg.solve(lower.T, turned).T

    if not len(lower):
        return
    left = shares(X)
    right = left if Y is None else shares(Y)
    Z = X if Y is None else Y
    X, Z = double(as_points(X)), double(as_points(Z))
    yield Link(
        "kernel", inner, X, landmarks, lambda D: D @ right.T, lambda W: W @ right
    )
    yield Link(
        "kernel", inner, Z, landmarks, lambda D: left @ D.T, lambda W: W.T @ left
    )
    yield Link(
        "kernel",
        inner,
        landmarks,
        None,
        lambda D: -left @ D @ right.T,
        lambda W: -left.T @ W @ right,
    )


_RULES: dict[type[Kernel], Callable[..., np.ndarray]] = {
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

_LINKS: dict[type[Kernel], Callable[..., Iterator[Link]]] = {
    Sum: _of_sum,
    MultipleKernel: _of_weighted,
    Product: _of_product,
    Scaled: _of_scaled,
    Power: _of_power,
    Exp: _of_exp,
    PolynomialOf: _of_polynomial,
    Conformal: _of_conformal,
    Pullback: _of_image,
    On: _of_image,
    TaggedTree: _of_image,
    Normalized: _of_normalized,
    Centered: _of_centered,
    Anova: _of_anova,
    Convolution: _of_convolution,
    Nystrom: _of_nystrom,
}

# Σ W · dk without the matrices, where that is cheaper.
_SUMS: dict[type[Kernel], Callable[..., Any]] = {
    RBF: _sums_by_widths,
    Matern: _sums_by_widths,
    RationalQuadratic: _sums_by_widths,
}
