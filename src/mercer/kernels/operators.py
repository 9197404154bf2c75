"""What +, * and ** build of kernels: Sum, Product, Scaled, Power, and Constant.

Binary trees of plain nodes, never flattened and never simplified; only operations that
keep a kernel positive semidefinite are among them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mercer.data.checks import brief
from mercer.data.points import Points, as_points, count, precision
from mercer.kernels import latex
from mercer.kernels.base import (
    BLOCK_MB,
    Kernel,
    Rule,
    as_factor,
    check_kernels,
    closed,
    closed_if,
)
from mercer.kernels.checks import HIGHEST, Range, check_whole, is_finite
from mercer.kernels.parameters import written
from mercer.native.interruptible import elementwise, interruptible


def _operand(kernel: Kernel, operator: str, right: bool = False) -> str:
    """A kernel beside an operator, in parentheses where Python would regroup it."""
    strength = {"+": 1, "*": 2, "**": 3}
    inner = {Sum: "+", Product: "*", Scaled: "*", Power: "**"}.get(type(kernel))
    text = repr(kernel)
    if inner is None or strength[inner] > strength[operator]:
        return text
    if strength[inner] == strength[operator] and not right and operator != "**":
        return text
    return f"({text})"


@dataclass
class Sum(Kernel):
    """k(x, y) = left(x, y) + right(x, y).

    Examples
    --------
    >>> from mercer import Linear, Sum
    >>> k = Linear() + 1
    >>> isinstance(k, Sum), k.value([1, 2], [3, 4])
    (True, 12.0)
    """

    left: Kernel
    right: Kernel

    def __post_init__(self) -> None:
        check_kernels(self, self.left, self.right)

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return elementwise(np.add, self.left(X, Y), self.right(X, Y))

    def diag(self, X: Points) -> np.ndarray:
        return self.left.diag(X) + self.right.diag(X)

    def sqdist(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return self.left.sqdist(X, Y) + self.right.sqdist(X, Y)

    def matmul(
        self,
        X: Points,
        Y: Points | None,
        V: npt.ArrayLike,
        *,
        block_mb: float = BLOCK_MB,
    ) -> np.ndarray:
        left = self.left.matmul(X, Y, V, block_mb=block_mb)
        return left + self.right.matmul(X, Y, V, block_mb=block_mb)

    def rule(self) -> Rule:
        return closed(
            self, "a sum of kernels is a kernel: φ is both feature maps side by side"
        )

    def _formula(self, x: str, y: str) -> latex.Formula:
        parts = (part._formula(x, y) for part in (self.left, self.right))
        text = " + ".join(part.within(latex.SUM) for part in parts)
        return latex.Formula(text, latex.SUM)

    def __repr__(self) -> str:
        return f"{_operand(self.left, '+')} + {_operand(self.right, '+', right=True)}"


@dataclass
class Product(Kernel):
    """k(x, y) = left(x, y) · right(x, y).

    Examples
    --------
    >>> from mercer import Linear, Polynomial, Product
    >>> k = Linear() * Polynomial(2)
    >>> isinstance(k, Product), k.value([1, 2], [3, 4])
    (True, 1584.0)
    """

    left: Kernel
    right: Kernel

    def __post_init__(self) -> None:
        check_kernels(self, self.left, self.right)

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return elementwise(np.multiply, self.left(X, Y), self.right(X, Y))

    def diag(self, X: Points) -> np.ndarray:
        return self.left.diag(X) * self.right.diag(X)

    def rule(self) -> Rule:
        return closed(
            self,
            "a product of kernels is a kernel (Schur): φ is every product of one "
            "feature from each",
        )

    def _formula(self, x: str, y: str) -> latex.Formula:
        parts = (part._formula(x, y) for part in (self.left, self.right))
        text = r" \cdot ".join(part.within(latex.PRODUCT) for part in parts)
        return latex.Formula(text, latex.PRODUCT)

    def __repr__(self) -> str:
        return f"{_operand(self.left, '*')} * {_operand(self.right, '*', right=True)}"


@dataclass
class Scaled(Kernel):
    """k(x, y) = factor · kernel(x, y), factor > 0.

    Examples
    --------
    >>> from mercer import Linear, Scaled
    >>> k = 0.5 * Linear()
    >>> isinstance(k, Scaled), k.value([1, 2], [3, 4])
    (True, 5.5)
    """

    smooth = Range.positive("factor")

    factor: float
    kernel: Kernel

    def __post_init__(self) -> None:
        check_kernels(self, self.kernel)
        if not (is_finite(self.factor) and self.factor > 0):
            raise ValueError(
                f"A kernel can be scaled by a positive number only; got "
                f"factor={brief(self.factor)}."
            )

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return _times(self.factor, self.kernel(X, Y))

    def diag(self, X: Points) -> np.ndarray:
        return _times(self.factor, self.kernel.diag(X))

    def sqdist(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return _times(self.factor, self.kernel.sqdist(X, Y))

    def matmul(
        self,
        X: Points,
        Y: Points | None,
        V: npt.ArrayLike,
        *,
        block_mb: float = BLOCK_MB,
    ) -> np.ndarray:
        return float(self.factor) * self.kernel.matmul(X, Y, V, block_mb=block_mb)

    def rule(self) -> Rule:
        # Read once: twice at each level would take exponential time in the depth.
        psd = self.kernel.psd
        if psd is False:
            return Rule(False, "a positive factor keeps the counterexample below")
        return closed_if(
            psd, "a positive multiple of a kernel is a kernel: φ times √factor"
        )

    def _formula(self, x: str, y: str) -> latex.Formula:
        inside = self.kernel._formula(x, y).within(latex.PRODUCT)
        text = rf"{latex.number(self.factor)} \cdot {inside}"
        return latex.Formula(text, latex.PRODUCT)

    def __repr__(self) -> str:
        return f"{written(self.factor)} * {_operand(self.kernel, '*', right=True)}"


@dataclass
class Power(Kernel):
    """k(x, y) = kernel(x, y)^exponent, exponent = 1, 2, 3, ...

    Examples
    --------
    >>> from mercer import Linear, Power
    >>> k = Linear() ** 2
    >>> isinstance(k, Power), k.value([1, 2], [3, 4])
    (True, 121.0)
    """

    kernel: Kernel
    exponent: int

    def __post_init__(self) -> None:
        check_kernels(self, self.kernel)
        check_whole(self, "exponent", self.exponent, least=1, most=HIGHEST)

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        exponent = int(self.exponent)
        return elementwise(lambda block: block**exponent, self.kernel(X, Y))

    def diag(self, X: Points) -> np.ndarray:
        return self.kernel.diag(X) ** int(self.exponent)

    def rule(self) -> Rule:
        return closed(self, "a power is a product of the kernel with itself")

    def _formula(self, x: str, y: str) -> latex.Formula:
        inside = self.kernel._formula(x, y).within(latex.ATOM)
        return latex.Formula(f"{inside}^{{{int(self.exponent)}}}", latex.POWER)

    def __repr__(self) -> str:
        return f"{_operand(self.kernel, '**')} ** {written(self.exponent)}"


@dataclass
class Constant(Kernel):
    """k(x, y) = c ≥ 0, on points of any kind.

    Examples
    --------
    >>> from mercer import Constant
    >>> Constant(2)(["any", "points"]).tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """

    smooth = Range.not_negative("c")

    c: float = 1.0

    def __post_init__(self) -> None:
        if not (is_finite(self.c) and self.c >= 0):
            raise ValueError(f"Constant needs a finite c ≥ 0; got c={brief(self.c)}.")

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        X = as_points(X)
        Y = X if Y is None else as_points(Y)
        kind = np.result_type(precision(X), precision(Y))
        n, m = count(X), count(Y)
        return interruptible(
            np.full, (n, m), float(self.c), dtype=kind, work=100.0 * n * m
        )

    def diag(self, X: Points) -> np.ndarray:
        X = as_points(X)
        return np.full(count(X), float(self.c), dtype=precision(X))

    def matmul(
        self,
        X: Points,
        Y: Points | None,
        V: npt.ArrayLike,
        *,
        block_mb: float = BLOCK_MB,
    ) -> np.ndarray:
        X = as_points(X)
        V = as_factor(V, count(X if Y is None else as_points(Y)))
        total = float(self.c) * V.sum(axis=0)
        return np.full((count(X), *total.shape), total)

    def rule(self) -> Rule:
        return Rule(True, "⟨√c, √c⟩: one feature, the same at every point")

    def _formula(self, x: str, y: str) -> latex.Formula:
        text = latex.number(self.c)
        return latex.Formula(text, latex.ATOM if text.isdigit() else latex.PRODUCT)


def _times(factor: float, values: np.ndarray) -> np.ndarray:
    # A numpy number such as np.float64(2) would turn float32 values into float64.
    return elementwise(np.multiply, values, values.dtype.type(factor))


def without_constant(kernel: Kernel) -> tuple[Kernel, float]:
    """k and c of a kernel k + c; c is 0 where it is not written so."""
    if isinstance(kernel, Sum) and isinstance(kernel.right, Constant):
        inner, shift = without_constant(kernel.left)
        return inner, shift + float(kernel.right.c)
    return kernel, 0.0
