"""Derivatives of kernels with respect to their parameters.

A kernel declares its smooth parameters in `smooth`; a rule of `gradient_rules` says how
k changes with each, and kernels inside others follow the chain rule by the links of
`gradient_links`, which pass the matrices dk/dθ up or, where only Σᵢⱼ Wᵢⱼ ∂k(xᵢ, yⱼ)/∂θ
is wanted, the weights W down: no matrix is then kept, and a width for each of d
coordinates costs one product of matrices. What has no rule is differenced numerically.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.data.points import Points, as_points, count, double, take
from mercer.kernels.algebra import Normalized
from mercer.kernels.base import Kernel
from mercer.kernels.differences import by_differences
from mercer.kernels.gradient_links import LINKS, Link
from mercer.kernels.gradient_rules import RULES, SUMS
from mercer.kernels.radial import Matern
from mercer.kernels.random_features import PolynomialSketch, RandomFourier
from mercer.kernels.string import Subsequence
from mercer.kernels.tree import TaggedTree
from mercer.kernels.window import ProductWindow, RadialWindow

# Points whose k(x, x) is differentiated together, in a square of which few count.
SIDE = 8


def gradient(
    kernel: Kernel,
    X: Points,
    Y: Points | None,
    weight: npt.ArrayLike | None,
    names: Collection[str] | None,
) -> dict[str, Any]:
    """What `Kernel.parameter_gradient` returns, its arguments checked."""
    known = kernel.smooth_parameters()
    chosen = list(known) if names is None else list(names)
    for name in chosen:
        if name not in known:
            raise ValueError(
                f"{kernel} has no smooth parameter {name!r}; it has "
                f"{', '.join(known) or 'none'}."
            )
    X = double(as_points(X))
    Y = None if Y is None else double(as_points(Y))
    if weight is None:
        return matrices(kernel, X, Y, chosen)
    W = np.asarray(weight, dtype=float)
    shape = count(X), count(X if Y is None else Y)
    if W.shape != shape:
        raise ValueError(
            f"Sums of derivatives need a weight for each pair of points, shape "
            f"{shape}; got shape {W.shape}."
        )
    return sums(kernel, X, Y, W, chosen)


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
        by_weight = SUMS.get(type(kernel))
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
        return _rule(kernel, name) is not by_differences
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
    rule: Callable[..., np.ndarray] = RULES.get(type(kernel), by_differences)
    return rule if rule is by_differences or _ruled(kernel, name) else by_differences


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
    rule = LINKS.get(type(kernel))
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
