"""Kernel: its values, its derivatives, whether it is one, and its operators.

A kernel is a value: a dataclass with its parameters (`Parameterized`). What the
operators build is in `operators`.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from mercer.data.checks import brief
from mercer.data.points import Points, as_points, count, one, take
from mercer.kernels import latex
from mercer.kernels.checks import GUARDS, Range, checked, is_finite, is_number
from mercer.kernels.parameters import Parameterized, written
from mercer.native.clock import tick
from mercer.native.interruptible import elementwise, multiply

MOST_NODES = 10_000  # of a kernel written out: what stands in two places counts twice
LARGEST_FORMULA = 60  # parts of a kernel that a notebook shows as a formula
BLOCK_MB = 64.0  # memory for a temporary block of kernel values


class Rule(NamedTuple):
    """Why a kernel is valid (psd True), is not (False), or may not be (None)."""

    psd: bool | None
    reason: str


class Proof(str):
    """A proof as text, whose repr is the text itself."""

    def __repr__(self) -> str:
        return str(self)


class Kernel(Parameterized, ABC):
    """k(x, y) = ⟨φ(x), φ(y)⟩, a similarity of two points; `k(X, Y)` is its matrix.

    To write one, make a dataclass of its parameters and fill in `__call__`. Everything
    else here is right as it stands; a kernel may replace `diag`, `sqdist`, `matmul` or
    `resolve` by a faster or more exact equal, and `rule` by what is known of it.
    Values that are not finite numbers are refused: they overflow, or are NaN.

    Examples
    --------
    >>> from mercer import Linear, RBF
    >>> k = 2 * RBF(gamma=0.5) + Linear() ** 2
    >>> k([[1.0, 0.0], [1.0, 2.0]]).round(4).tolist()
    [[3.0, 1.2707], [1.2707, 27.0]]
    >>> k.psd
    True
    """

    # With a numpy number on the left, Python calls our reflected operator.
    __array_ufunc__ = None

    # The parameters that k(x, y) is a smooth function of, and what they may be.
    smooth: ClassVar[Mapping[str, Range]] = {}

    # Whether values take longer to compute than to find again in a cache.
    _is_slow: ClassVar[bool] = True

    _nodes = 1  # of this kernel written out; set by `check_kernels`

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, guard in GUARDS.items():
            method = cls.__dict__.get(name)
            if method is not None and not getattr(
                method, "__isabstractmethod__", False
            ):
                setattr(cls, name, guard(method))

    @abstractmethod
    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        """The (n, m) array of k(xᵢ, yⱼ); Y None stands for X."""

    def value(self, x: Any, y: Any) -> float:
        """k(x, y), one number."""
        return float(self(one(x), one(y))[0, 0])

    @checked
    def diag(self, X: Points) -> np.ndarray:
        """The (n,) array of k(xᵢ, xᵢ)."""
        X = as_points(X)
        blocks = (self(take(X, slice(i, i + 1))) for i in range(count(X)))
        return np.array([block[0, 0] for block in blocks])

    @checked
    def sqdist(self, X: Points, Y: Points | None = None) -> np.ndarray:
        """The (n, m) array of ‖φ(xᵢ) - φ(yⱼ)‖² = k(x, x) - 2 k(x, y) + k(y, y).

        Clearly negative where an indefinite kernel makes it so.
        """
        across = self.diag(X)
        down = across if Y is None else self.diag(Y)
        distances = elementwise(_squared_distances, across, down, self(X, Y))
        if Y is None:
            np.fill_diagonal(distances, 0)
        return distances

    @checked
    def matmul(
        self,
        X: Points,
        Y: Points | None,
        V: npt.ArrayLike,
        *,
        block_mb: float = BLOCK_MB,
    ) -> np.ndarray:
        """k(X, Y) @ V in float64, a block of rows at a time; nothing n × m is stored.

        Parameters
        ----------
        V : (m,) or (m, q) array
        block_mb : memory for the block
        """
        X = as_points(X)
        Y = X if Y is None else as_points(Y)
        V = as_factor(V, count(Y))
        out = np.empty((count(X), *V.shape[1:]))
        for rows in row_blocks(count(X), count(Y), block_mb):
            tick("products with kernel values", rows.start / count(X))
            out[rows] = multiply(self(take(X, rows), Y), V)
        return out

    def feature_weights(self, Y: Points, V: npt.ArrayLike) -> np.ndarray | None:
        """What `evaluate` makes k(X, Y) @ V of for any X, without Y; None elsewhere.

        Φ(Y)ᵀV, or what follows from it, of kernels with few features.
        """
        return None

    def evaluate(self, X: Points, weights: np.ndarray) -> np.ndarray:
        """k(X, Y) @ V in float64 from `feature_weights(Y, V)`."""
        raise NotImplementedError(f"{self} has no weights of features.")

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> Kernel:
        """The kernel with every parameter that is to be learnt from data fixed by X.

        Parameters that stand for "learn it" are None. This kernel does not change.

        Parameters
        ----------
        weight : how often each point counts, n numbers ≥ 0; None for once
        """
        resolved = {
            name: _resolve_child(child, X, weight)
            for name, child in self._kernel_fields()
        }
        if all(resolved[name] is child for name, child in self._kernel_fields()):
            return self
        return type(self)(**(self._parameters() | resolved))

    def native(self, X: Points) -> Any:
        """How the compiled core computes this kernel on X (a `Recipe`), or None."""
        return None

    def log(self, X: Points, Y: Points | None = None) -> np.ndarray | None:
        """ln k(X, Y) where k is never negative and may leave float64; None elsewhere.

        A kernel that has it has `log_diag` too. `Normalized` then needs no k(X, Y).
        """
        return None

    def log_diag(self, X: Points) -> np.ndarray | None:
        """The (n,) array of ln k(xᵢ, xᵢ), or None as `log`."""
        return None

    # Derivatives

    def smooth_parameters(self) -> dict[str, Range]:
        """What k is a smooth function of, by the names of `get_params`, with its range.

        Degrees, lengths, flags and points are not among these parameters.
        """
        found = {}
        for name, allowed in self.smooth.items():
            optional = allowed.optional and getattr(self, name) is None
            setting = None if optional else self._resolved(name)
            if setting is not None and is_smooth(setting):
                found[name] = allowed
        for name, child in self._named_kernels():
            for path, allowed in child.smooth_parameters().items():
                found[f"{name}__{path}"] = allowed
        return found

    def parameter_gradient(
        self,
        X: Points,
        Y: Points | None = None,
        *,
        weight: npt.ArrayLike | None = None,
        names: Collection[str] | None = None,
    ) -> dict[str, Any]:
        """∂k(X, Y)/∂θ, (n, m), for every smooth parameter θ, by its name.

        Names are those of `get_params`. Of a parameter that is a list of p numbers
        (p, n, m). Most are formulas; those
        of a decay in strings, trees and walks, of the order of a Matern and of a user's
        own kernels or windows are extrapolated from differences, to about ten digits.

        Parameters
        ----------
        weight : (n, m) array W, for the sums Σᵢⱼ Wᵢⱼ ∂k(xᵢ, yⱼ)/∂θ alone: one number,
            or p, for each parameter, from a few matrices at a time
        names : of the parameters; None for all of `smooth_parameters()`

        Examples
        --------
        >>> from mercer import RBF
        >>> k = 2 * RBF(gamma=0.5)
        >>> slopes = k.parameter_gradient([[0.0], [1.0]])
        >>> list(slopes), slopes["factor"].round(3).tolist()
        (['factor', 'kernel__gamma'], [[1.0, 0.607], [0.607, 1.0]])
        """
        return _gradients().gradient(self, X, Y, weight, names)

    def point_gradient(self, x: Any, Y: Points) -> np.ndarray:
        """∂k(x, yⱼ)/∂x, (m, d), of vectors; 0 where a distance has its kink.

        Formulas for the kernels of inner products and distances and for the algebra;
        central differences elsewhere.

        Examples
        --------
        >>> from mercer import Polynomial
        >>> Polynomial(2).point_gradient([1.0, 0.0], [[1.0, 1.0], [0.0, 1.0]]).tolist()
        [[4.0, 4.0], [0.0, 2.0]]
        """
        return _slopes().point_gradient(self, x, Y)

    @property
    def missing(self) -> bool:
        """Whether points may have missing values (NaN); machines then accept them."""
        return bool(self.children()) and all(k.missing for k in self.children())

    # Validity

    def rule(self) -> Rule:
        """The rule that decides whether this node is positive semidefinite."""
        return Rule(None, "a formula of the user's; nothing is known about it")

    @property
    def psd(self) -> bool | None:
        """True: proved; False: `proof` shows a counterexample; None: unknown."""
        return self.rule().psd

    def proof(self) -> Proof:
        """The rule behind every node, as a tree; where validity is lost, it says so."""
        verdict = {
            True: f"{self!r} is a kernel: every Gram matrix is positive semidefinite.",
            False: f"{self!r} is not a kernel: some Gram matrix is indefinite.",
            None: f"Whether {self!r} is a kernel is not known.",
        }[self.psd]
        how = {False: "lost", None: "unknown"}
        ends = [f"Validity is {how[c.psd]} at {c!r}." for c in self._culprits()]
        return Proof("\n".join([verdict, *self._proof_lines("", ""), *unique(ends)]))

    def children(self) -> list[Kernel]:
        """The kernels this one is made of."""
        return self._parts()

    def _culprits(self) -> Iterator[Kernel]:
        """The lowest nodes that are not proved, from left to right."""
        if self.psd:
            return
        below = [node for child in self.children() for node in child._culprits()]
        yield from below or [self]

    def _proof_lines(self, first: str, rest: str) -> Iterator[str]:
        mark = {True: "✓", False: "✗", None: "?"}[self.psd]
        children = self.children()
        label = repr(self)
        if children:
            parts = [name for name, _ in self._kernel_fields()]
            label = self._call(without=parts).removesuffix("()")
        yield f"{first}{mark} {label}: {self.rule().reason}"
        for i, child in enumerate(children):
            last = i == len(children) - 1
            branch, stem = ("└─ ", "   ") if last else ("├─ ", "│  ")
            yield from child._proof_lines(rest + branch, rest + stem)

    # Shown in notebooks

    def _repr_latex_(self) -> str:
        if self._nodes > LARGEST_FORMULA:
            formula = latex.roman(f"a kernel of {self._nodes:,} parts")
        else:
            formula = self._formula("x", "y").text
        return rf"$\displaystyle k(x, y) = {formula}$"

    def _formula(self, x: str, y: str) -> latex.Formula:
        """k(x, y) in LaTeX, for points written x and y; its name where none is set."""
        settings = {
            name: written(setting)
            for name, setting in self._parameters().items()
            if setting is not None
        }
        return latex.named(type(self).__name__, settings, x, y)

    # The algebra

    def __add__(self, other: Any) -> Kernel:
        if isinstance(other, Kernel):
            return _operators().Sum(self, other)
        return self._plus(other)

    def __radd__(self, other: Any) -> Kernel:
        return self._plus(other, reverse=True)

    def _plus(self, other: Any, reverse: bool = False) -> Kernel:
        if not is_number(other):
            return NotImplemented
        nodes = _operators()
        constant = nodes.Constant(other)
        return nodes.Sum(constant, self) if reverse else nodes.Sum(self, constant)

    def __mul__(self, other: Any) -> Kernel:
        if isinstance(other, Kernel):
            return _operators().Product(self, other)
        return self.__rmul__(other)

    def __rmul__(self, other: Any) -> Kernel:
        if not is_number(other):
            return NotImplemented
        return _operators().Scaled(other, self)

    def __pow__(self, exponent: int) -> Kernel:
        return _operators().Power(self, exponent)

    def __sub__(self, other: object) -> NoReturn:
        raise TypeError(
            "A difference of kernels need not be a kernel, so there is no k - k'. "
            "Use +, *, ** and positive factors; or BlockFunction for any formula."
        )

    __rsub__ = __sub__

    def __neg__(self) -> NoReturn:
        raise TypeError(
            "-k is not a kernel: k(x, x) would be negative. Use positive factors."
        )


@cache
def _operators() -> Any:
    """The kernels that operators build; imported late, as they import this file."""
    return importlib.import_module("mercer.kernels.operators")


def _gradients() -> Any:
    """The derivatives of all kernels; imported late as well."""
    return importlib.import_module("mercer.kernels.gradients")


def _slopes() -> Any:
    return importlib.import_module("mercer.kernels.slopes")


def is_smooth(setting: Any) -> bool:
    """Whether a parameter is a finite number, or a list of such."""
    if isinstance(setting, list | tuple | np.ndarray) and np.ndim(setting) == 1:
        return len(setting) > 0 and all(map(is_finite, setting))
    return is_finite(setting)


def row_blocks(n: int, m: int, block_mb: float) -> Iterator[slice]:
    """Slices of range(n) so that rows × m float64 numbers take at most block_mb."""
    rows = max(1, int(block_mb * 2**20 / (8 * max(m, 1))))
    return (slice(i, min(i + rows, n)) for i in range(0, n, rows))


def unique(texts: Sequence[str]) -> list[str]:
    """The texts without repetition, in order."""
    return list(dict.fromkeys(texts))


def _squared_distances(
    across: np.ndarray, down: np.ndarray, block: np.ndarray
) -> np.ndarray:
    squares = across[:, None] + down[None, :]
    distances = squares - 2 * block
    # Rounding can leave -1e-17 here; sqrt would turn it into NaN.
    rounding = np.sqrt(np.finfo(distances.dtype).eps) * np.abs(squares)
    distances[(distances < 0) & (distances >= -rounding)] = 0
    return distances


def as_factor(V: npt.ArrayLike, m: int) -> np.ndarray:
    """V of a product k(X, Y) @ V in float64, checked to fit the m points of Y."""
    V = np.asarray(V, dtype=float)
    if V.ndim not in (1, 2) or len(V) != m:
        raise ValueError(
            f"k(X, Y) @ V needs one number or one row of V for each of the {m} points "
            f"of Y; got V of shape {V.shape}."
        )
    return V


def _resolve_child(child: Any, X: Points, weight: np.ndarray | None) -> Any:
    if isinstance(child, Kernel):
        return child.resolve(X, weight)
    parts = [part.resolve(X, weight) for part in child]
    unchanged = all(new is old for new, old in zip(parts, child, strict=True))
    return child if unchanged else type(child)(parts)


def closed(kernel: Kernel, reason: str) -> Rule:
    """The rule of an operation that preserves validity; unknown if a part's is."""
    return closed_if(all(child.psd for child in kernel.children()), reason)


def closed_if(parts: bool | None, reason: str) -> Rule:
    """The rule of an operation whose parts are kernels (True), or may be none."""
    if parts:
        return Rule(True, reason)
    return Rule(None, f"{reason}; but not every part is known to be a kernel")


def check_kernels(node: Kernel, *parts: object) -> None:
    """Refuse parts that are not kernels, and more than MOST_NODES of them."""
    nodes = 1
    for part in parts:
        if not isinstance(part, Kernel):
            hint = f" Write {part.__name__}()." if isinstance(part, type) else ""
            hint = " Pass an object, such as RBF()." if isinstance(part, str) else hint
            raise TypeError(
                f"{type(node).__name__} is made of kernels; got {brief(part)}.{hint}"
            )
        nodes += part._nodes
    if nodes > MOST_NODES:
        raise ValueError(
            f"{type(node).__name__} would be a kernel of {nodes:,} parts, those that "
            f"stand in several places counted in each; at most {MOST_NODES:,} are "
            "possible. k + k is 2 * k, and k * k is k ** 2."
        )
    node.__dict__["_nodes"] = nodes


def polynomial(coefficients: Sequence[float], values: np.ndarray) -> np.ndarray:
    """Σₙ coefficients[n] valuesⁿ by Horner's rule, in the precision of the values."""
    # 0 · ∞ would be NaN where a power overflows: begin at a coefficient above 0.
    highest = max((n for n, a in enumerate(coefficients) if a), default=0)
    total = np.full_like(values, coefficients[highest])
    for coefficient in coefficients[:highest][::-1]:
        total *= values
        total += values.dtype.type(coefficient)
    return total
