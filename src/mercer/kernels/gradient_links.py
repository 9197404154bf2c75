"""How kernels that are made of others depend on these: the chain rule, by `Link`s.

A rule takes the kernel, X and Y, and gives a link for each place of a kernel inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from mercer.data.points import Points, as_points, count, double, pair
from mercer.kernels.algebra import (
    Centered,
    Conformal,
    Exp,
    Normalized,
    On,
    PolynomialOf,
    Pullback,
)
from mercer.kernels.base import Kernel, polynomial
from mercer.kernels.convolution import Convolution
from mercer.kernels.coordinate import Anova
from mercer.kernels.landmarks import values
from mercer.kernels.multiple import MultipleKernel
from mercer.kernels.nystrom import Nystrom
from mercer.kernels.operators import Power, Product, Scaled, Sum
from mercer.kernels.slopes import derived
from mercer.kernels.tree import TaggedTree
from mercer.native.lapack import half


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


LINKS: dict[type[Kernel], Callable[..., Iterator[Link]]] = {
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
