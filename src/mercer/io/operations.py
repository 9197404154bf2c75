"""Elementary operations on double-precision arrays, and on pairs of points.

A `Graph` collects operations by their names in ONNX; a `Value` in it can be computed
with as an array can. `Against` and `Own` are the two things that a kernel is asked for:
k(xᵢ, yⱼ) with points yⱼ that are known, and k(xᵢ, xᵢ). Nothing here needs onnx.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# The operation, what it reads, what it makes, its attributes
Node = tuple[str, list[str], list[str], dict[str, Any]]


class Graph:
    """Operations in the order in which they are computed, and their constants."""

    def __init__(self, d: int) -> None:
        self.d = d  # coordinates of the points of X
        self.made: dict[str, Node] = {}  # by the names of what they make
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, array: Any, dtype: Any = np.float64) -> Value:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.ascontiguousarray(array, dtype).reshape(
            np.shape(array)
        )
        return Value(self, name)

    def op(self, kind: str, *inputs: Any, **attributes: Any) -> Value:
        """What an operation makes of values, and of numbers and arrays."""
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def ops(
        self, kind: str, n_outputs: int, *inputs: Any, **attributes: Any
    ) -> list[Value]:
        """The same of an operation with several outputs."""
        given = [
            one if isinstance(one, Value) else self.constant(one) for one in inputs
        ]
        names = [f"v{len(self.made) + i}" for i in range(n_outputs)]
        node = kind, [one.name for one in given], names, attributes
        self.made |= dict.fromkeys(names, node)
        return [Value(self, name) for name in names]

    def needed(self, names: Sequence[str]) -> tuple[list[Node], dict[str, np.ndarray]]:
        """The operations that these values come from, in order, and constants."""
        pending, used = list(names), set()
        while pending:
            name = pending.pop()
            if name not in used and name in self.made:
                pending += self.made[name][1]
            used.add(name)
        nodes = {n[2][0]: n for name, n in self.made.items() if name in used}
        constants = {n: array for n, array in self.constants.items() if n in used}
        return list(nodes.values()), constants

    def largest(self, values: Value, k: int, *, smallest: bool = False) -> list[Value]:
        """The k largest of each row in order, and their places; equal ones by place."""
        many = self.constant([k], np.int64)
        first = int(not smallest)
        return self.ops("TopK", 2, values, many, axis=1, largest=first, sorted=1)


@dataclass(frozen=True, eq=False)
class Value:
    """An array that a graph computes."""

    graph: Graph
    name: str

    def op(self, kind: str, *others: Any, **attributes: Any) -> Value:
        return self.graph.op(kind, self, *others, **attributes)

    def __add__(self, other: Any) -> Value:
        return self.op("Add", other)

    def __sub__(self, other: Any) -> Value:
        return self.op("Sub", other)

    def __rsub__(self, other: Any) -> Value:
        return self.graph.op("Sub", other, self)

    def __mul__(self, other: Any) -> Value:
        number = isinstance(other, float | int)
        return self._times(other) if number else self.op("Mul", other)

    def __truediv__(self, other: Any) -> Value:
        number = isinstance(other, float | int)
        return self._times(1 / other) if number else self.op("Div", other)

    def __rtruediv__(self, other: Any) -> Value:
        return self.graph.op("Div", other, self)

    def __matmul__(self, other: np.ndarray) -> Value:
        node = self.graph.made.get(self.name)
        if node is not None and node[0] == "Mul":
            factor = self.graph.constants.get(node[1][1])
            if factor is not None and factor.ndim == 0:
                return Value(self.graph, node[1][0]) @ (other * factor)
        return self.op("MatMul", other)

    def _times(self, factor: float) -> Value:
        """The product with a number, which goes into the matrix of a product before.

        onnxruntime would make one operation of both, with the number in float32.
        """
        node = self.graph.made.get(self.name)
        if node is not None and node[0] == "MatMul":
            matrix = self.graph.constants[node[1][1]]
            return Value(self.graph, node[1][0]) @ (matrix * factor)
        return self.op("Mul", factor)

    def __neg__(self) -> Value:
        return self.op("Neg")

    __radd__, __rmul__ = __add__, __mul__

    def exp(self) -> Value:
        return self.op("Exp")

    def log(self) -> Value:
        return self.op("Log")

    def sqrt(self) -> Value:
        return self.op("Sqrt")

    def at_least(self, least: float) -> Value:
        return self.op("Max", least)

    def power(self, exponent: float) -> Value:
        """The power; a small whole one by products, which round as numpy's do."""
        if exponent != int(exponent) or not 0 < exponent <= 16:
            return self.op("Pow", float(exponent))
        out: Value | None = None
        base, rest = self, int(exponent)
        while rest:
            if rest % 2:
                out = base if out is None else out * base
            base, rest = (base * base if rest > 1 else base), rest // 2
        assert out is not None
        return out

    def sum(self, axis: int, keep: bool = False) -> Value:
        axes = self.graph.constant([axis], np.int64)
        return self.op("ReduceSum", axes, keepdims=int(keep))

    def unsqueezed(self, axis: int) -> Value:
        return self.op("Unsqueeze", self.graph.constant([axis], np.int64))

    def taken(self, index: Any, axis: int = 0) -> Value:
        where = (
            index if isinstance(index, Value) else self.graph.constant(index, np.int64)
        )
        return self.op("Gather", where, axis=axis)

    def where(self, condition: Value, other: Any) -> Value:
        """This where the condition holds, else the other."""
        return self.graph.op("Where", condition, self, other)


def minus_expm1(t: Value) -> Value:
    """1 - e^-t, with all digits also where t is small."""
    return (t * 0.5).op("Tanh") * ((-t).exp() + 1.0)


def polynomial(coefficients: Sequence[float], values: Value) -> Value:
    """Σₙ coefficients[n] valuesⁿ by Horner's rule."""
    total = values * 0.0 + float(coefficients[-1])
    for coefficient in list(coefficients)[-2::-1]:
        total = total * values + float(coefficient)
    return total


def multiplied(parts: list[Value]) -> Value:
    """The product of all parts."""
    total = parts[0]
    for part in parts[1:]:
        total = total * part
    return total


class Pairs(ABC):
    """Pairs of points, a value for each: what kernels are functions of."""

    X: Value
    d: int

    @abstractmethod
    def product(self) -> Value:
        """⟨x, y⟩."""

    @abstractmethod
    def square(self, exact: bool = False) -> Value:
        """‖x - y‖²; `exact` where a root of it is to have all digits."""

    @abstractmethod
    def sums(self, of: Callable[[Any, Any], Value]) -> Value:
        """Σₜ of(xₜ, yₜ)."""

    @abstractmethod
    def greatest(self) -> Value:
        """maxₜ |xₜ - yₜ|."""

    @abstractmethod
    def columns(self, index: Sequence[int]) -> Pairs:
        """The same of some coordinates."""

    @abstractmethod
    def stretched(self, factors: np.ndarray) -> Pairs:
        """The same with each coordinate times its factor."""

    @abstractmethod
    def bilinear(self, A: np.ndarray) -> Value:
        """⟨x, A y⟩."""

    @abstractmethod
    def of_sides(
        self, left: Value, right: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[Any, Any]:
        """A number of x and the same of y, in shapes that go with values of pairs."""

    @abstractmethod
    def mapped(
        self, phi: Callable[[Value], Value], known: Callable[[Any], np.ndarray]
    ) -> Value:
        """⟨φ(x), φ(y)⟩."""

    def own(self) -> Own:
        """x with itself."""
        return Own(self.X, self.d)

    def separate(self) -> list[Pairs]:
        """Each coordinate."""
        return [self.columns([i]) for i in range(self.d)]


class Against(Pairs):
    """The points of X with points Y that are known, (n, m)."""

    def __init__(self, X: Value, Y: np.ndarray) -> None:
        self.X, self.Y, self.d = X, Y, Y.shape[1]

    def product(self) -> Value:
        return self.X @ self.Y.T

    def square(self, exact: bool = False) -> Value:
        if exact or self.d == 1:
            return self.sums(lambda x, y: (x - y).power(2))
        # Around the mean of Y: a common offset takes no digits away.
        centre = self.Y.mean(axis=0)
        X, Y = self.X - centre, self.Y - centre
        lengths = (X * X).sum(1, keep=True) + np.einsum("ij,ij->i", Y, Y)
        return (lengths - (X @ (2 * Y.T))).at_least(0.0)

    def _apart(self) -> tuple[Value, np.ndarray]:
        return self.X.unsqueezed(1), self.Y[None]

    def sums(self, of: Callable[[Any, Any], Value]) -> Value:
        return of(*self._apart()).sum(2)

    def greatest(self) -> Value:
        x, y = self._apart()
        axes = self.X.graph.constant([2], np.int64)
        return (x - y).op("Abs").op("ReduceMax", axes, keepdims=0)

    def columns(self, index: Sequence[int]) -> Against:
        return Against(self.X.taken(list(index), axis=1), self.Y[:, list(index)])

    def stretched(self, factors: np.ndarray) -> Against:
        return Against(self.X * factors, self.Y * factors)

    def bilinear(self, A: np.ndarray) -> Value:
        return self.X @ (A @ self.Y.T)

    def of_sides(
        self, left: Value, right: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[Any, Any]:
        return left.unsqueezed(1), np.asarray(right(self.Y), dtype=float)

    def mapped(
        self, phi: Callable[[Value], Value], known: Callable[[Any], np.ndarray]
    ) -> Value:
        return phi(self.X) @ np.asarray(known(self.Y), dtype=float).T


class Own(Pairs):
    """Each of the points of X with itself, (n,)."""

    def __init__(self, X: Value, d: int) -> None:
        self.X, self.d = X, d

    def product(self) -> Value:
        return (self.X * self.X).sum(1)

    def square(self, exact: bool = False) -> Value:
        return self.product() * 0.0

    def sums(self, of: Callable[[Any, Any], Value]) -> Value:
        return of(self.X, self.X).sum(1)

    def greatest(self) -> Value:
        return self.square()

    def columns(self, index: Sequence[int]) -> Own:
        return Own(self.X.taken(list(index), axis=1), len(index))

    def stretched(self, factors: np.ndarray) -> Own:
        return Own(self.X * factors, self.d)

    def bilinear(self, A: np.ndarray) -> Value:
        return ((self.X @ A) * self.X).sum(1)

    def of_sides(
        self, left: Value, right: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[Any, Any]:
        return left, left

    def mapped(
        self, phi: Callable[[Value], Value], known: Callable[[Any], np.ndarray]
    ) -> Value:
        features = phi(self.X)
        return (features * features).sum(1)
