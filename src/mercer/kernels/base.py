"""Kernel, and the nodes its operators build: Sum, Product, Scaled, Power, Constant.

A kernel is a value: a dataclass with its parameters. The operators build binary trees
of plain nodes, never flattened and never simplified, and only those exist that keep a
kernel positive semidefinite.
"""

from __future__ import annotations

import copy
import importlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer.data.copies import owned
from mercer.data.points import (
    Points,
    as_points,
    brief,
    count,
    double,
    one,
    precision,
    same_value,
    take,
)
from mercer.kernels import latex
from mercer.kernels.checks import (
    GUARDS,
    HIGHEST,
    Range,
    check_whole,
    checked,
    is_finite,
    is_number,
)
from mercer.native.clock import tick
from mercer.native.interruptible import elementwise, interruptible, multiply

MOST_NODES = 10_000  # of a kernel written out: what stands in two places counts twice
LARGEST_FORMULA = 60  # parts of a kernel that a notebook shows as a formula
LONGEST_TEXT = 300  # letters of a kernel within an error message
MOST_WRITTEN = 1000  # numbers of an array that are written as a list
BLOCK_MB = 64.0  # memory for a temporary block of kernel values


class Rule(NamedTuple):
    """Why a kernel is valid (psd True), is not (False), or may not be (None)."""

    psd: bool | None
    reason: str


class Proof(str):
    """A proof as text, whose repr is the text itself."""

    def __repr__(self) -> str:
        return str(self)


class Kernel(ABC):
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

    # Parameters that `owned` does not copy: documented as shared, or read only once.
    _shared: ClassVar[tuple[str, ...]] = ()

    # The parameters that k(x, y) is a smooth function of, and what they may be.
    smooth: ClassVar[Mapping[str, Range]] = {}

    # Whether values take longer to compute than to find again in a cache.
    _is_slow: ClassVar[bool] = True

    _nodes = 1  # of this kernel written out; set by `check_kernels`

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # @dataclass writes an __eq__ that compares tuples and fails on arrays, and a
        # __repr__ without operators, unless the class has its own.
        for name in ("__eq__", "__repr__"):
            if name not in cls.__dict__:
                setattr(cls, name, getattr(cls, name))
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
        known = self.smooth_parameters()
        chosen = list(known) if names is None else list(names)
        for name in chosen:
            if name not in known:
                raise ValueError(
                    f"{self} has no smooth parameter {name!r}; it has "
                    f"{', '.join(known) or 'none'}."
                )
        X = double(as_points(X))
        Y = None if Y is None else double(as_points(Y))
        rules = _gradients()
        if weight is None:
            return rules.matrices(self, X, Y, chosen)
        W = np.asarray(weight, dtype=float)
        shape = count(X), count(X if Y is None else Y)
        if W.shape != shape:
            raise ValueError(
                f"Sums of derivatives need a weight for each pair of points, shape "
                f"{shape}; got shape {W.shape}."
            )
        return rules.sums(self, X, Y, W, chosen)

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
        return [
            kernel
            for _, child in self._kernel_fields()
            for kernel in (child if isinstance(child, list | tuple) else [child])
        ]

    def _distinct(self) -> Iterator[Kernel]:
        """This kernel and all inside it, each once."""
        seen, waiting = set(), [self]
        while waiting:
            kernel = waiting.pop()
            if id(kernel) not in seen:
                seen.add(id(kernel))
                waiting += kernel.children()
                yield kernel

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

    # Parameters, by scikit-learn's conventions

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; with `deep` also those of the kernels inside."""
        params = self._parameters()
        if deep:
            for name, child in self._named_kernels():
                inner = {"": child} if name not in params else {}
                inner |= {f"__{key}": one for key, one in child.get_params().items()}
                params |= {f"{name}{key}": one for key, one in inner.items()}
        return params

    def set_params(self, **params: Any) -> Kernel:
        """Change parameters in place (`left__gamma=2` reaches inside); returns self.

        A value that is refused leaves the kernel as it was.
        """
        own = self._parameters()
        inner: dict[str, dict[str, Any]] = {}
        for key, setting in params.items():
            name, nested, rest = key.partition("__")
            if name not in own:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; "
                    f"it has {', '.join(own) or 'none'}."
                )
            if nested:
                inner.setdefault(name, {})[rest] = setting
            else:
                own[name] = setting
        for name, settings in inner.items():
            if name in dict(self._kernel_fields()) and isinstance(
                own[name], list | tuple
            ):
                own[name] = _with_parts(self, name, own[name], settings)
                continue
            if not isinstance(own[name], Kernel):
                raise ValueError(
                    f"{type(self).__name__} cannot set {name}__{next(iter(settings))}: "
                    f"{name} is not a kernel but {brief(own[name])}."
                )
            own[name] = copy.copy(own[name]).set_params(**settings)
        changed = type(self)(**own)  # checks them
        if any(part is self for part in changed._distinct()):
            raise ValueError(
                f"{type(self).__name__} cannot be a part of itself. Pass a copy of it, "
                "copy.deepcopy(kernel)."
            )
        self.__dict__.clear()
        self.__dict__.update(changed.__dict__)
        return self

    def _parameters(self) -> dict[str, Any]:
        if not is_dataclass(self):
            raise TypeError(
                f"A kernel is a dataclass of its parameters: write @dataclass above "
                f"class {type(self).__name__}."
            )
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def _kernel_fields(self) -> list[tuple[str, Any]]:
        return [
            (name, setting)
            for name, setting in self._parameters().items()
            if isinstance(setting, Kernel)
            or (
                isinstance(setting, list | tuple)
                and setting
                and all(isinstance(part, Kernel) for part in setting)
            )
        ]

    def _named_kernels(self) -> Iterator[tuple[str, Kernel]]:
        """The kernels inside by their names in `get_params`; of a list by number."""
        for name, child in self._kernel_fields():
            if isinstance(child, Kernel):
                yield name, child
            else:
                yield from ((f"{name}__{i}", part) for i, part in enumerate(child))

    def _resolved(self, name: str) -> Any:
        """The parameter `name`, which must not be None any more."""
        setting = getattr(self, name)
        if setting is None:
            kind = type(self).__name__
            raise ValueError(
                f"{kind}({name}=None) learns {name} from data: call "
                f"{kind}().resolve(X) first, or pass a number."
            )
        return setting

    # Kernels are values

    def copied(self) -> Kernel:
        """An equal kernel that `set_params` on this one does not reach.

        Arrays and functions are shared; `owned` copies the arrays too.
        """
        kernel = copy.copy(self)
        for name, child in self._kernel_fields():
            many = isinstance(child, list | tuple)
            parts = type(child)(part.copied() for part in child) if many else None
            setattr(kernel, name, parts if many else child.copied())
        return kernel

    def owned(self) -> Kernel:
        """An equal kernel that no edit of this one or of its arrays and lists reaches.

        Shared are functions, memory-mapped arrays and the matrix of `Precomputed`.
        """
        return self._owned({})

    def _owned(self, copies: dict[int, Kernel]) -> Kernel:
        """`copies` are those made so far: a node in several places is copied once."""
        if id(self) in copies:
            return copies[id(self)]
        kernel = copies[id(self)] = copy.copy(self)
        inside = dict(self._kernel_fields())
        for name, setting in self._parameters().items():
            if name in self._shared or setting is None:
                continue
            if isinstance(setting, Kernel):
                new: Any = setting._owned(copies)
            elif name in inside:
                new = type(setting)(part._owned(copies) for part in setting)
            elif callable(setting):
                continue
            else:
                new = owned(setting)
            kernel.__dict__[name] = new
        return kernel

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_version": version()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        warn_of_version(type(self).__name__, state.pop("_version", "an unknown one"))
        self.__dict__.update(state)

    def __copy__(self) -> Kernel:
        kernel = object.__new__(type(self))
        kernel.__dict__.update(self.__dict__)
        return kernel

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, theirs = self._parameters(), other._parameters()
        return all(_equal(mine[name], theirs[name]) for name in mine)

    __hash__ = None  # type: ignore[assignment]  # set_params changes a kernel in place

    def __repr__(self) -> str:
        return self._call()

    def _repr_latex_(self) -> str:
        if self._nodes > LARGEST_FORMULA:
            formula = latex.roman(f"a kernel of {self._nodes:,} parts")
        else:
            formula = self._formula("x", "y").text
        return rf"$\displaystyle k(x, y) = {formula}$"

    def _formula(self, x: str, y: str) -> latex.Formula:
        """k(x, y) in LaTeX, for points written x and y; its name where none is set."""
        settings = {
            name: _written(setting)
            for name, setting in self._parameters().items()
            if setting is not None
        }
        return latex.named(type(self).__name__, settings, x, y)

    def __format__(self, spec: str) -> str:
        """As in an error message: a long one is cut."""
        text = repr(self)
        whole = len(text) <= LONGEST_TEXT
        return format(text if whole else f"{text[:LONGEST_TEXT]} ...", spec)

    def _call(self, without: Sequence[str] = ()) -> str:
        """The constructor call, without some of its parameters."""
        inside = ", ".join(
            f"{name}={_written(setting)}"
            for name, setting in self._parameters().items()
            if name not in without
        )
        return f"{type(self).__name__}({inside})"

    # The algebra

    def __add__(self, other: Any) -> Kernel:
        return Sum(self, other) if isinstance(other, Kernel) else self._plus(other)

    def __radd__(self, other: Any) -> Kernel:
        return self._plus(other, reverse=True)

    def _plus(self, other: Any, reverse: bool = False) -> Kernel:
        if not is_number(other):
            return NotImplemented
        constant = Constant(other)
        return Sum(constant, self) if reverse else Sum(self, constant)

    def __mul__(self, other: Any) -> Kernel:
        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(other, self) if is_number(other) else NotImplemented

    def __rmul__(self, other: Any) -> Kernel:
        return Scaled(other, self) if is_number(other) else NotImplemented

    def __pow__(self, exponent: int) -> Kernel:
        return Power(self, exponent)

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


def _gradients() -> Any:
    """The derivatives of all kernels; imported late, as they import this file."""
    return importlib.import_module("mercer.kernels.gradients")


def _slopes() -> Any:
    return importlib.import_module("mercer.kernels.slopes")


def is_smooth(setting: Any) -> bool:
    """Whether a parameter is a finite number, or a list of such."""
    if isinstance(setting, list | tuple | np.ndarray) and np.ndim(setting) == 1:
        return len(setting) > 0 and all(map(is_finite, setting))
    return is_finite(setting)


def _with_parts(kernel: Kernel, name: str, parts: Any, settings: dict[str, Any]) -> Any:
    """A list of kernels with parameters of some, or some of them, changed."""
    new = list(parts)
    for key, setting in settings.items():
        number, nested, rest = key.partition("__")
        if not (number.isdecimal() and int(number) < len(new)):
            raise ValueError(
                f"{type(kernel).__name__} cannot set {name}__{key}: {name} holds "
                f"{len(new)} kernels, numbered from 0."
            )
        i = int(number)
        new[i] = copy.copy(new[i]).set_params(**{rest: setting}) if nested else setting
    return type(parts)(new)


def version() -> str:
    """The version of the package; imported late, as the package imports this file."""
    return importlib.import_module("mercer").__version__


def warn_of_version(name: str, made_by: str) -> None:
    """Warn where something was pickled by another version of the package."""
    if made_by != version():
        warnings.warn(
            f"{name} was pickled by mercer {made_by} and is read by mercer "
            f"{version()}, which may give other results, or none. Fit it again, or "
            "read it with the version that wrote it.",
            UserWarning,
            stacklevel=3,
        )


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


def _equal(a: Any, b: Any) -> bool:
    """Equality of parameters; a list of numbers equals the array of them."""
    a, b = (c.tolist() if _is_numbers(c) else c for c in (a, b))
    return same_value(a, b)


def _is_numbers(setting: Any) -> bool:
    """Whether a parameter is an array that is written as a list of numbers."""
    listed = isinstance(setting, np.ndarray) and setting.ndim == 1
    return listed and setting.dtype.kind in "iuf"


def _written(setting: Any) -> str:
    """A parameter as it is written in a constructor call; long data by its size."""
    if _is_numbers(setting) and len(setting) <= MOST_WRITTEN:
        return _written(setting.tolist())
    if isinstance(setting, np.generic):
        return repr(setting.item())
    if isinstance(setting, str | Kernel):
        return repr(setting)
    if callable(setting):
        return getattr(setting, "__name__", repr(setting))
    if isinstance(setting, list | tuple):
        items = [_written(part) for part in setting]
        if sum(map(len, items)) > 2000 and not all(map(is_number, setting)):
            return f"<{type(setting).__name__} of {len(setting)}>"
        inside = ", ".join(items) + (
            "," if type(setting) is tuple and len(items) == 1 else ""
        )
        return f"[{inside}]" if isinstance(setting, list) else f"({inside})"
    if sp.issparse(setting) or (isinstance(setting, np.ndarray) and setting.size > 16):
        return f"<{' × '.join(map(str, setting.shape))} {setting.dtype}>"
    if hasattr(setting, "equals"):  # data frames
        return f"<{' × '.join(map(str, setting.shape))} {type(setting).__name__}>"
    return " ".join(repr(setting).split())


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
        return _kept(
            psd, "a positive multiple of a kernel is a kernel: φ times √factor"
        )

    def _formula(self, x: str, y: str) -> latex.Formula:
        inside = self.kernel._formula(x, y).within(latex.PRODUCT)
        text = rf"{latex.number(self.factor)} \cdot {inside}"
        return latex.Formula(text, latex.PRODUCT)

    def __repr__(self) -> str:
        return f"{_written(self.factor)} * {_operand(self.kernel, '*', right=True)}"


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
        return f"{_operand(self.kernel, '**')} ** {_written(self.exponent)}"


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


def closed(kernel: Kernel, reason: str) -> Rule:
    """The rule of an operation that preserves validity; unknown if a part's is."""
    return _kept(all(child.psd for child in kernel.children()), reason)


def _kept(parts: bool | None, reason: str) -> Rule:
    if parts:
        return Rule(True, reason)
    return Rule(None, f"{reason}; but not every part is known to be a kernel")


def check_kernels(node: Kernel, *parts: object) -> None:
    """Refuse parts that are not kernels, and more than MOST_NODES of them."""
    nodes = 1
    for part in parts:
        if not isinstance(part, Kernel):
            hint = f" Write {part.__name__}()." if isinstance(part, type) else ""
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


def without_constant(kernel: Kernel) -> tuple[Kernel, float]:
    """k and c of a kernel k + c; c is 0 where it is not written so."""
    if isinstance(kernel, Sum) and isinstance(kernel.right, Constant):
        inner, shift = without_constant(kernel.left)
        return inner, shift + float(kernel.right.c)
    return kernel, 0.0


def polynomial(coefficients: Sequence[float], values: np.ndarray) -> np.ndarray:
    """Σₙ coefficients[n] valuesⁿ by Horner's rule, in the precision of the values."""
    # 0 · ∞ would be NaN where a power overflows: begin at a coefficient above 0.
    highest = max((n for n, a in enumerate(coefficients) if a), default=0)
    total = np.full_like(values, coefficients[highest])
    for coefficient in coefficients[:highest][::-1]:
        total *= values
        total += values.dtype.type(coefficient)
    return total
