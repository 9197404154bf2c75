"""Expansion: f(x) = Σᵢ coefᵢ k(xᵢ, x) + bias, what every machine of the library is."""

from __future__ import annotations

import numbers
import operator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.data.blocks import Blocks
from mercer.data.checks import describe
from mercer.data.points import Points, as_points, concatenate, count, double, take
from mercer.kernels.base import Kernel
from mercer.native.sorting import distinct

PerOutput = Any  # a float, or for coef (n, c) a (c,) array

FEW = 2**20  # kernel values up to which double precision costs next to nothing
CLOSE = 2e-5  # of |f|, or of its median: by how much single precision may change it
SAMPLE = 32  # points on which that is tested, and as many with the largest k(x, x)


@dataclass(frozen=True, eq=False, repr=False)
class Expansion:
    """f(x) = Σᵢ coefᵢ k(xᵢ, x) + bias, an element of the RKHS of k plus a constant.

    `inner`, `norm`, `distance`, `cosine` and `angle` are those of the RKHS and leave
    the bias out: a constant need not belong to it. `+`, `-`, `*` and `/` act on all of
    f. With several outputs every one of them works column by column.

    Parameters
    ----------
    kernel : with no parameter left to learn
    points : the n points xᵢ
    coef : (n,) array, or (n, c) for c outputs on the same points
    bias : a number, or (c,) of them

    Examples
    --------
    >>> from mercer import Expansion, Linear
    >>> f = Expansion(Linear(), [[1.0, 0.0], [0.0, 1.0]], coef=[3.0, 4.0], bias=1.0)
    >>> f([[1.0, 1.0]]).tolist()
    [8.0]
    >>> round(float(f.norm()), 4)
    5.0
    """

    kernel: Kernel
    points: Points
    coef: np.ndarray
    bias: PerOutput = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"Expansion needs a kernel; got {describe(self.kernel)}.")
        points = as_points(self.points)
        coef = _frozen(self.coef, "coef")
        if coef.ndim not in (1, 2) or len(coef) != count(points):
            raise ValueError(
                f"Expansion needs one coefficient, or one row of them, per point: "
                f"coef of shape ({count(points)},) or ({count(points)}, c); got "
                f"{coef.shape}."
            )
        bias = _frozen(self.bias, "bias")
        if bias.shape not in ((), coef.shape[1:]):
            raise ValueError(
                f"Expansion needs one number as bias, or one per output, shape "
                f"{coef.shape[1:]}; got shape {bias.shape}."
            )
        # set_params changes a kernel in place; f must not change with it.
        object.__setattr__(self, "kernel", self.kernel.copied())
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "coef", coef)
        many = np.broadcast_to(bias, coef.shape[1:])
        object.__setattr__(self, "bias", many if coef.ndim == 2 else float(bias))

    @property
    def n_outputs(self) -> int:
        """c, the number of columns of coef; 1 where coef is (n,)."""
        return 1 if self.coef.ndim == 1 else self.coef.shape[1]

    def __call__(self, X: Points) -> np.ndarray:
        """f at the m points of X: (m,), or (m, c) with several outputs.

        Of float32 points the kernel values are float32 where, on a sample of X, that
        changes f by at most 2e-5 of |f| or of its median; else, and for few points,
        they are float64. A value that is not a finite number is refused.
        """
        return self._sums(as_points(X)) + self.bias

    def _sums(self, X: Points) -> np.ndarray:
        """Σᵢ coefᵢ k(xᵢ, x) at the points of X."""
        if count(X) == 0 or len(self.coef) == 0:
            return np.zeros((count(X), *self.coef.shape[1:]))
        if isinstance(X, Blocks):
            return np.concatenate([self._sums(part) for _, part in X.parts()])
        if self._weights is not None:
            return self.kernel.evaluate(X, self._weights)
        if _both_single(X, self.points):
            try:
                if self._single_suffices(X):
                    return self._product(X, self.points)
            except ValueError:  # not finite; in double precision they may be
                pass
        wide = double(self.points)
        return self._product(wide if X is self.points else double(X), wide)

    @cached_property
    def _weights(self) -> np.ndarray | None:
        """f by the few features of its kernel, whatever the number of points."""
        return self.kernel.feature_weights(self.points, self.coef)

    def _product(self, X: Points, points: Points) -> np.ndarray:
        return self.kernel.matmul(X, None if X is points else points, self.coef)

    def _single_suffices(self, X: Points) -> bool:
        """Whether float32 kernel values leave f as it is, on some of the points."""
        m = count(X)
        if m * len(self.coef) <= FEW:
            return False
        lengths = np.asarray(self.kernel.diag(X), dtype=float)
        largest = np.argpartition(lengths, m - min(SAMPLE, m))[-SAMPLE:]
        some = np.append(largest, np.arange(0, m, -(-m // SAMPLE)))
        few = take(X, distinct(some))
        exact = self._product(double(few), double(self.points)) + self.bias
        error = np.abs(self._product(few, self.points) + self.bias - exact)
        size = np.abs(exact)
        return bool(np.all(error <= CLOSE * np.maximum(size, np.median(size, 0))))

    # Geometry in the RKHS

    def gram(self, other: Expansion | None = None) -> np.ndarray:
        """The (c, c') array of ⟨fₐ, g_b⟩, every output with every other; biases out.

        Parameters
        ----------
        other : g, or None for f itself
        """
        g = self if other is None else other
        self._needs_same_kernel(g)
        return _columns(self.coef).T @ _columns(g._sums(self.points))

    def inner(self, other: Expansion) -> PerOutput:
        """⟨f, g⟩ = Σᵢⱼ coefᵢ k(xᵢ, yⱼ) coef'ⱼ, a number, or (c,) column by column.

        Biases are left out. A single output goes with every column of the other.
        """
        self._needs_same_kernel(other)
        left, values = self.coef, other._sums(self.points)
        if left.ndim == values.ndim == 2 and left.shape != values.shape:
            raise ValueError(
                f"inner goes column by column; the expansions have {left.shape[1]} and "
                f"{values.shape[1]} outputs. Take columns (f[j]), or f.gram(g) for "
                "every pair."
            )
        if left.ndim == values.ndim == 1:
            return float(left @ values)
        return (_columns(left) * _columns(values)).sum(axis=0)

    def norm(self) -> PerOutput:
        """‖f‖ = √⟨f, f⟩ in the RKHS, a number or (c,); the bias is left out."""
        squares = np.asarray(self.inner(self))
        if (squares < 0).any():
            self._refuse_negative(squares)
        root = np.sqrt(np.maximum(squares, 0))
        return root if root.ndim else float(root)

    def _refuse_negative(self, squares: np.ndarray) -> None:
        """Raise unless the squares are negative by rounding only."""
        values = self.kernel(take(self.points, slice(0, 1)), self.points)
        eps = np.finfo(values.dtype).eps
        # |Σ coefᵢ Kᵢⱼ coefⱼ| is at most this for a kernel, by Cauchy and Schwarz.
        lengths = np.sqrt(np.abs(self.kernel.diag(self.points)).astype(float))
        scale = (lengths @ np.abs(self.coef)) ** 2
        if (squares < -len(self.coef) * eps * scale).any():
            raise ValueError(
                f"‖f‖² is {squares.min():.6g}: {self.kernel} is indefinite on the "
                "points of this expansion, so f has no norm. Use a kernel, or "
                "`repair` the Gram matrix and use Precomputed."
            )

    def distance(self, other: Expansion) -> PerOutput:
        """‖f - g‖ in the RKHS, a number or (c,); biases are left out."""
        return (self - other).norm()

    def cosine(self, other: Expansion) -> PerOutput:
        """⟨f, g⟩ / (‖f‖ ‖g‖), a number in [-1, 1] or (c,); biases are left out."""
        norms = np.asarray(self.norm() * other.norm())
        if (norms == 0).any():
            raise ValueError(
                "The angle between two expansions is defined where neither is zero; "
                f"their norms are {self.norm()} and {other.norm()}."
            )
        cosine = np.clip(self.inner(other) / norms, -1, 1)
        return cosine if cosine.ndim else float(cosine)

    def angle(self, other: Expansion) -> PerOutput:
        """arccos of `cosine`, in radians from 0 to π."""
        angle = np.arccos(self.cosine(other))
        return angle if angle.ndim else float(angle)

    # The vector space

    def __add__(self, other: Any) -> Expansion:
        if _is_number(other):
            # float: 1.0 + np.float32(2) would be a float32.
            bias = self.bias + float(other)
            return Expansion(self.kernel, self.points, self.coef, bias)
        if not isinstance(other, Expansion):
            return NotImplemented
        if self.coef.shape[1:] != other.coef.shape[1:]:
            raise ValueError(
                f"Expansions add output by output; these have coef of shapes "
                f"{self.coef.shape} and {other.coef.shape}."
            )
        self._needs_same_kernel(other)
        bias = self.bias + other.bias
        if self.points is other.points:
            return Expansion(self.kernel, self.points, self.coef + other.coef, bias)
        # An empty list beside an array would turn the points into a list.
        if not len(self.coef):
            return Expansion(self.kernel, other.points, other.coef, bias)
        if not len(other.coef):
            return Expansion(self.kernel, self.points, self.coef, bias)
        points = concatenate(self.points, other.points)
        coef = np.concatenate([self.coef, other.coef])
        return Expansion(self.kernel, points, coef, bias)

    __radd__ = __add__

    def __mul__(self, factor: Any) -> Expansion:
        if not _is_number(factor):
            return NotImplemented
        c = float(factor)
        return Expansion(self.kernel, self.points, self.coef * c, self.bias * c)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> Expansion:
        if not _is_number(divisor):
            return NotImplemented
        c = float(divisor)
        return Expansion(self.kernel, self.points, self.coef / c, self.bias / c)

    def __neg__(self) -> Expansion:
        return -1 * self

    def __sub__(self, other: Any) -> Expansion:
        if not (_is_number(other) or isinstance(other, Expansion)):
            return NotImplemented
        return self + -other

    def __rsub__(self, other: Any) -> Expansion:
        return -self + other

    # With a numpy number on the left, Python calls our reflected operator.
    __array_ufunc__ = None

    def _needs_same_kernel(self, other: Expansion) -> None:
        if not self.kernel == other.kernel:
            raise ValueError(
                "Expansions meet in the RKHS of one kernel; these have "
                f"{self.kernel} and {other.kernel}."
            )

    # Parts

    def __getitem__(self, j: int) -> Expansion:
        """fⱼ, one output."""
        columns, j = _columns(self.coef), operator.index(j)
        if not -self.n_outputs <= j < self.n_outputs:
            raise IndexError(f"Output {j} of an expansion with {self.n_outputs}.")
        bias = np.atleast_1d(self.bias)[j]
        return Expansion(self.kernel, self.points, columns[:, j], bias)

    def pruned(self, tolerance: float = 0.0) -> Expansion:
        """f without the points whose coefficients are all |coef| ≤ tolerance.

        With tolerance 0 it is the same function; a function without points is its bias.
        """
        if not tolerance >= 0:
            raise ValueError(f"pruned needs tolerance ≥ 0; got {tolerance!r}.")
        kept = (np.abs(_columns(self.coef)) > tolerance).any(axis=1)
        if kept.all():
            return self
        index = np.flatnonzero(kept)
        return Expansion(
            self.kernel, take(self.points, index), self.coef[index], self.bias
        )

    def __repr__(self) -> str:
        outputs = f", {self.n_outputs} outputs" if self.coef.ndim == 2 else ""
        n = len(self.coef)
        points = f"{n} point" + "s" * (n != 1)
        bias = ", ".join(f"{b:.6g}" for b in np.atleast_1d(self.bias)[:4])
        bias += ", ..." * (self.n_outputs > 4)
        return f"Expansion of {self.kernel!r} on {points}{outputs}, bias {bias}"


def _both_single(X: Points, Y: Points) -> bool:
    """Whether these are two float32 arrays or CSR matrices."""
    return all(getattr(Z, "dtype", None) == np.float32 for Z in (X, Y))


def _columns(values: np.ndarray) -> np.ndarray:
    return values[:, None] if values.ndim == 1 else values


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _frozen(values: npt.ArrayLike, name: str) -> np.ndarray:
    """A read-only float64 copy, checked to be finite."""
    values = np.array(values, dtype=float)
    if not np.isfinite(values).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        place = f"{name}[{', '.join(map(str, where))}]" if where else name
        raise ValueError(f"Expansion needs finite numbers; {place} is {values[where]}.")
    values.setflags(write=False)
    return values
