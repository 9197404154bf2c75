"""The closure rules without an operator: valid kernels from valid kernels.

Exp(k)               e^k(x, y)
PolynomialOf(k, a)   Σₙ aₙ k(x, y)ⁿ, aₙ ≥ 0
Conformal(k, f)      f(x) k(x, y) f(y)
Normalized(k)        k(x, y) / √(k(x, x) k(y, y))
Pullback(k, φ)       k(φ(x), φ(y))
On(field, k)         k on one field of a record, or on some columns
Centered(k, X)       ⟨φ(x) - μ, φ(y) - μ⟩, μ the mean of φ over X
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mercer.data.checks import brief, check_finite
from mercer.data.copies import owned, same_value
from mercer.data.points import Points, as_points, count, field, take
from mercer.kernels import latex
from mercer.kernels.base import (
    BLOCK_MB,
    Kernel,
    Rule,
    check_kernels,
    closed,
    polynomial,
)
from mercer.kernels.checks import Range, check_coefficients
from mercer.kernels.ways import check_callable, numbers_at
from mercer.native.interruptible import elementwise

# Parts of a kernel that is repeated within a formula; a larger one is written once.
Image = TypeVar("Image")

SMALL = 2


@dataclass
class Exp(Kernel):
    """k(x, y) = exp(kernel(x, y)).

    Examples
    --------
    >>> from mercer import Exp, Linear
    >>> round(Exp(Linear()).value([1, 1], [0, 1]), 4)
    2.7183
    """

    kernel: Kernel

    def __post_init__(self) -> None:
        check_kernels(self, self.kernel)

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return elementwise(np.exp, self.kernel(X, Y))

    def diag(self, X: Points) -> np.ndarray:
        return np.exp(self.kernel.diag(X))

    def rule(self) -> Rule:
        return closed(
            self,
            "1 + k + k²/2! + ... is a limit of polynomials in a kernel, with "
            "coefficients ≥ 0",
        )

    def _formula(self, x: str, y: str) -> latex.Formula:
        return latex.exponential(self.kernel._formula(x, y).text)


@dataclass
class PolynomialOf(Kernel):
    """k(x, y) = Σₙ coefficients[n] kernel(x, y)ⁿ, n = 0, 1, 2, ...

    Parameters
    ----------
    coefficients : non-negative numbers, the constant first

    Examples
    --------
    >>> from mercer import Linear, PolynomialOf
    >>> PolynomialOf(Linear(), [1, 0, 2]).value([3], [1])
    19.0
    """

    smooth = Range.not_negative("coefficients")

    kernel: Kernel
    coefficients: Sequence[float]

    def __post_init__(self) -> None:
        check_kernels(self, self.kernel)
        check_coefficients(self, self.coefficients)

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        values = self.kernel(X, Y)
        return elementwise(partial(polynomial, self.coefficients), values)

    def diag(self, X: Points) -> np.ndarray:
        return polynomial(self.coefficients, self.kernel.diag(X))

    def rule(self) -> Rule:
        return closed(
            self, "sums of non-negative multiples of powers of a kernel are kernels"
        )

    def _formula(self, x: str, y: str) -> latex.Formula:
        inside = self.kernel._formula(x, y)
        if self.kernel._nodes > SMALL:
            return latex.applied("PolynomialOf", inside)
        return latex.polynomial(self.coefficients, inside)


@dataclass
class Conformal(Kernel):
    """k(x, y) = f(x) kernel(x, y) f(y).

    Parameters
    ----------
    f : takes a dataset of n points, returns n numbers of any sign

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Conformal, Linear
    >>> k = Conformal(Linear(), lambda X: X[:, 0])
    >>> k(np.array([[2.0, 1.0], [3.0, 1.0]])).tolist()
    [[20.0, 42.0], [42.0, 90.0]]
    """

    kernel: Kernel
    f: Callable[[Points], Any]

    def __post_init__(self) -> None:
        check_kernels(self, self.kernel)
        check_callable(self, "f", self.f)

    def _factor(self, X: Points) -> np.ndarray:
        return numbers_at(self, "f", self.f, X)

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        left, right = _both(self._factor, X, Y)
        block = self.kernel(X, Y)
        # By the outer product, so that it stays symmetric bit for bit.
        return elementwise(
            lambda block: block * np.multiply.outer(left, right).astype(block.dtype),
            block,
        )

    def diag(self, X: Points) -> np.ndarray:
        values = self.kernel.diag(X)
        return values * (self._factor(X) ** 2).astype(values.dtype)

    def matmul(
        self,
        X: Points,
        Y: Points | None,
        V: npt.ArrayLike,
        *,
        block_mb: float = BLOCK_MB,
    ) -> np.ndarray:
        left, right = _both(self._factor, X, Y)
        inner = self.kernel.matmul(X, Y, _rows_times(right, V), block_mb=block_mb)
        return _rows_times(left, inner)

    def rule(self) -> Rule:
        return closed(self, "f(x) k(x, y) f(y) is the kernel of the map f(x) φ(x)")

    def _formula(self, x: str, y: str) -> latex.Formula:
        inside = self.kernel._formula(x, y).within(latex.PRODUCT)
        f = latex.function(self.f, "f")
        return latex.Formula(rf"{f}({x}) \cdot {inside} \cdot {f}({y})", latex.PRODUCT)


@dataclass
class Normalized(Kernel):
    """k(x, y) = kernel(x, y) / √(kernel(x, x) kernel(y, y)), the cosine of φ(x), φ(y).

    Points with kernel(x, x) = 0, such as empty strings, are alike: 1 among themselves,
    0 against all others. Where the kernel has a `log`, kernel(x, y) itself may overflow
    or underflow.

    Examples
    --------
    >>> from mercer import Normalized, Spectrum
    >>> k = Normalized(Spectrum(2))
    >>> round(k.value("kernel", "kernels"), 4)
    0.9129
    """

    kernel: Kernel

    def __post_init__(self) -> None:
        check_kernels(self, self.kernel)

    def _norms(self, X: Points) -> np.ndarray:
        squares = self.kernel.diag(X)
        if (squares < 0).any():
            i = int(np.argmax(squares < 0))
            raise ValueError(
                f"Normalized needs k(x, x) ≥ 0; {self.kernel} gives "
                f"{squares[i]:.6g} at point {i}."
            )
        # The cosine with a vector of infinite length is undefined.
        return np.sqrt(np.where(np.isinf(squares), np.nan, squares))

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        logarithms = self.kernel.log(X, Y)
        if logarithms is not None:
            across, down = _both(self.kernel.log_diag, X, Y)
            assert across is not None and down is not None  # as there is a `log`
            return _cosines(logarithms, across, down, symmetric=Y is None)
        left, right = _both(self._norms, X, Y)
        block = self.kernel(X, Y)
        cosines = elementwise(lambda block: _divided(block, left, right), block)
        if Y is None:
            np.fill_diagonal(cosines, _ones(left))
        return cosines

    def diag(self, X: Points) -> np.ndarray:
        logarithms = self.kernel.log_diag(X)
        return _ones(self._norms(X)) if logarithms is None else np.ones(len(logarithms))

    def matmul(
        self,
        X: Points,
        Y: Points | None,
        V: npt.ArrayLike,
        *,
        block_mb: float = BLOCK_MB,
    ) -> np.ndarray:
        if self.kernel.log_diag(take(as_points(X), slice(0, 0))) is not None:
            return super().matmul(X, Y, V, block_mb=block_mb)
        left, right = _both(self._norms, X, Y)
        V = np.asarray(V, dtype=float)
        inner = self.kernel.matmul(
            X, Y, _rows_times(_inverse(right), V), block_mb=block_mb
        )
        out = _rows_times(_inverse(left), inner)
        out[left == 0] += V[right == 0].sum(axis=0)
        return out

    def rule(self) -> Rule:
        return closed(
            self,
            "f(x) k(x, y) f(y) is a kernel, here with f(x) = 1 / √k(x, x); points of "
            "length 0 share a feature of their own",
        )

    def _formula(self, x: str, y: str) -> latex.Formula:
        across = self.kernel._formula(x, y)
        if self.kernel._nodes > SMALL:
            return latex.applied("Normalized", across)
        own = (self.kernel._formula(z, z).within(latex.PRODUCT) for z in (x, y))
        lengths = r" \cdot ".join(own)
        text = rf"\frac{{{across.text}}}{{\sqrt{{{lengths}}}}}"
        return latex.Formula(text, latex.PRODUCT)


@dataclass
class Pullback(Kernel):
    """k(x, y) = kernel(phi(x), phi(y)).

    Parameters
    ----------
    phi : takes a dataset of n points, returns a dataset of n points for `kernel`

    Examples
    --------
    >>> from mercer import Pullback, Spectrum
    >>> k = Pullback(Spectrum(2), lambda X: [s.lower() for s in X])
    >>> k.value("KERNEL", "kernel")
    5.0
    """

    kernel: Kernel
    phi: Callable[[Points], Any]

    def __post_init__(self) -> None:
        check_kernels(self, self.kernel)
        check_callable(self, "phi", self.phi)

    def _image(self, X: Points) -> Points:
        image = as_points(self.phi(as_points(X)))
        if count(image) != count(as_points(X)):
            raise ValueError(
                f"phi of Pullback takes a whole dataset and must return one point for "
                f"each; it made {count(image)} of {count(as_points(X))}. For a "
                "function of one point write lambda X: [phi(x) for x in X]."
            )
        return image

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return self.kernel(self._image(X), None if Y is None else self._image(Y))

    def diag(self, X: Points) -> np.ndarray:
        return self.kernel.diag(self._image(X))

    def sqdist(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return self.kernel.sqdist(self._image(X), None if Y is None else self._image(Y))

    def matmul(
        self,
        X: Points,
        Y: Points | None,
        V: npt.ArrayLike,
        *,
        block_mb: float = BLOCK_MB,
    ) -> np.ndarray:
        left, right = _both(self._image, X, Y)
        return self.kernel.matmul(left, right, V, block_mb=block_mb)

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> Pullback:
        kernel = self.kernel.resolve(self._image(X), weight)
        return self if kernel is self.kernel else Pullback(kernel, self.phi)

    def rule(self) -> Rule:
        return closed(self, "a Gram matrix of points is that of their images")

    def _formula(self, x: str, y: str) -> latex.Formula:
        phi = latex.function(self.phi, r"\phi")
        return self.kernel._formula(f"{phi}({x})", f"{phi}({y})")


@dataclass
class On(Kernel):
    """k(x, y) = kernel(x[field], y[field]), on one part of a record or a vector.

    `On(0, k) + On(1, l)` is the direct sum, `On(0, k) * On(1, l)` the direct product
    of two kernels; the parts may overlap.

    Parameters
    ----------
    field : a column name or number, a slice, or a list of names or numbers

    Examples
    --------
    >>> from mercer import Linear, On, Spectrum
    >>> k = On(0, Spectrum(2)) + On(1, Linear())
    >>> k.value(("red", 2.0), ("reed", 3.0))
    8.0
    """

    field: Any
    kernel: Kernel

    def __post_init__(self) -> None:
        check_kernels(self, self.kernel)
        parts = self.field if isinstance(self.field, list) else [self.field]
        named = all(
            isinstance(part, str | int | np.integer) and not isinstance(part, bool)
            for part in parts
        )
        if not (isinstance(self.field, slice) or (parts and named)):
            raise TypeError(
                f"On needs a column name or number, a slice, or a list of them; got "
                f"field={brief(self.field)}."
            )

    def _part(self, X: Points) -> Points:
        part = field(as_points(X), self.field)
        if not self.kernel.missing:
            check_finite(part, f"On({brief(self.field)}, {type(self.kernel).__name__})")
        return part

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return self.kernel(self._part(X), None if Y is None else self._part(Y))

    def diag(self, X: Points) -> np.ndarray:
        return self.kernel.diag(self._part(X))

    def sqdist(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return self.kernel.sqdist(self._part(X), None if Y is None else self._part(Y))

    def matmul(
        self,
        X: Points,
        Y: Points | None,
        V: npt.ArrayLike,
        *,
        block_mb: float = BLOCK_MB,
    ) -> np.ndarray:
        left, right = _both(self._part, X, Y)
        return self.kernel.matmul(left, right, V, block_mb=block_mb)

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> On:
        kernel = self.kernel.resolve(self._part(X), weight)
        return self if kernel is self.kernel else On(self.field, kernel)

    def rule(self) -> Rule:
        return closed(self, "a Gram matrix of points is that of their parts")

    def _formula(self, x: str, y: str) -> latex.Formula:
        part = latex.index(self.field)
        return self.kernel._formula(f"{x}[{part}]", f"{y}[{part}]")


@dataclass
class Centered(Kernel):
    """k(x, y) = ⟨φ(x) - μ, φ(y) - μ⟩, μ = Σᵢ wᵢ φ(rᵢ) / Σᵢ wᵢ over reference points.

    Parameters
    ----------
    reference : the points rᵢ, or None for the training points, fixed by `resolve`
    weight : the wᵢ, numbers ≥ 0; None for ones

    Examples
    --------
    >>> from mercer import Centered, Linear
    >>> X = [[0.0], [2.0]]
    >>> Centered(Linear()).resolve(X)(X).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """

    kernel: Kernel
    reference: Any = None
    weight: Any = None

    def __post_init__(self) -> None:
        # A product with it takes three with the kernel inside, or nine where nested.
        check_kernels(self, *3 * [self.kernel])
        n = None if self.reference is None else count(as_points(self.reference))
        if n == 0:
            raise ValueError("Centered needs at least one reference point; got none.")
        if self.weight is not None:
            w = np.asarray(self.weight, dtype=float)
            if w.shape != (n,) or not (np.isfinite(w) & (w >= 0)).all() or not w.any():
                raise ValueError(
                    "Centered needs one weight ≥ 0 for each reference point, not all "
                    f"0; got weights of shape {w.shape} for {n or 'no'} points."
                )

    def _means(self, X: Points) -> np.ndarray:
        """⟨φ(xᵢ), μ⟩ for the points of X."""
        return self._kept()[1] if self._are_reference(X) else self._fresh_means(X)

    def _are_reference(self, X: Points) -> bool:
        """Whether X are the reference points; comparing is cheaper than new means."""
        if X is self.reference:
            return True
        alike = type(X) is type(self.reference) and count(X) == count(self.reference)
        return alike and same_value(X, self.reference)

    def _fresh_means(self, X: Points) -> np.ndarray:
        reference = as_points(self._resolved("reference"))
        return self.kernel.matmul(X, reference, self._shares())

    def _shares(self) -> np.ndarray:
        N = count(as_points(self.reference))
        w = np.ones(N) if self.weight is None else np.asarray(self.weight, dtype=float)
        return w / w.sum()

    def _square(self) -> float:
        """‖μ‖²."""
        return float(self._shares() @ self._kept()[1])

    def _kept(self) -> tuple[Kernel, np.ndarray]:
        """The means of the reference points, while the kernel inside stays as it is."""
        kept = self.__dict__.get("_means_of_reference")
        if kept is None or kept[0] != self.kernel:
            means = self._fresh_means(self._resolved("reference"))
            kept = (self.kernel.copied(), means)
            self.__dict__["_means_of_reference"] = kept
        return kept

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        left, right = _both(self._means, X, Y)
        block = self.kernel(X, Y)
        square = self._square()

        def centred(block: np.ndarray) -> np.ndarray:
            return block - (left[:, None] + right - square).astype(block.dtype)

        return elementwise(centred, block)

    def diag(self, X: Points) -> np.ndarray:
        values = self.kernel.diag(X)
        return values - (2 * self._means(X) - self._square()).astype(values.dtype)

    def matmul(
        self,
        X: Points,
        Y: Points | None,
        V: npt.ArrayLike,
        *,
        block_mb: float = BLOCK_MB,
    ) -> np.ndarray:
        left, right = _both(self._means, X, Y)
        V = np.asarray(V, dtype=float)
        inner = self.kernel.matmul(X, Y, V, block_mb=block_mb)
        shift = np.multiply.outer(left - self._square(), V.sum(axis=0))
        return inner - shift - right @ V

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> Centered:
        kernel = self.kernel.resolve(X, weight)
        if self.reference is None:
            return Centered(kernel, owned(X), None if weight is None else weight.copy())
        return (
            self
            if kernel is self.kernel
            else Centered(kernel, self.reference, self.weight)
        )

    def rule(self) -> Rule:
        return closed(self, "the kernel of the map φ(x) - μ, a fixed shift of φ")

    def _formula(self, x: str, y: str) -> latex.Formula:
        return latex.applied("Centered", self.kernel._formula(x, y))


def _both(
    function: Callable[[Points], Image], X: Points, Y: Points | None
) -> tuple[Image, Image]:
    """function(X) and function(Y), computed once where Y stands for X."""
    left = function(X)
    return left, left if Y is None else function(Y)


def _divided(block: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """blockᵢⱼ / (leftᵢ rightⱼ), 0 where that is 0/0, and 1 where both lengths are 0."""
    lengths = np.multiply.outer(left, right)
    cosines = np.zeros_like(block)
    np.divide(block, lengths, out=cosines, where=lengths != 0)
    cosines[np.logical_and.outer(left == 0, right == 0)] = 1
    return cosines


def _cosines(
    block: np.ndarray, left: np.ndarray, right: np.ndarray, symmetric: bool
) -> np.ndarray:
    """exp(block - (left + right) / 2), the cosines of logarithms; as `Normalized`."""
    empty_left, empty_right = np.isneginf(left), np.isneginf(right)
    halves = np.add.outer(
        np.where(empty_left, 0, left) / 2, np.where(empty_right, 0, right) / 2
    )
    # Both are large where the values overflow, and rounding may leave a little more.
    cosines = np.exp(np.minimum(block - halves, 0))
    cosines[np.logical_and.outer(empty_left, empty_right)] = 1
    if symmetric:
        np.fill_diagonal(cosines, 1)
    return cosines


def _inverse(norms: np.ndarray) -> np.ndarray:
    """1 / norms, and 0 for 0."""
    return np.divide(1, norms, out=np.zeros_like(norms), where=norms != 0)


def _ones(norms: np.ndarray) -> np.ndarray:
    """norms / norms, with 0 / 0 = 1."""
    return np.where(np.isnan(norms), norms, norms.dtype.type(1))


def _rows_times(factors: np.ndarray, V: npt.ArrayLike) -> np.ndarray:
    V = np.asarray(V, dtype=float)
    return factors.reshape(-1, *[1] * (V.ndim - 1)) * V
