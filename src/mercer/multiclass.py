"""Several classes by two-class problems: one against one, one against the rest.

Each problem is a column of one expansion. With two classes there is one problem, and
f ≥ 0 means the second class; with more, column (i, j), i < j, of one-against-one is
positive for class i, and column i of one-against-the-rest is positive for class i.
One rule for all machines where f = 0, that of scikit-learn's SVC: of two classes the
second has it, and of equal votes or scores the first class. (The scores themselves are
scikit-learn's too, which count f = 0 for the first of a pair.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import isqrt
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import expit

from mercer import _core, calibration
from mercer.data.points import Points, count, take
from mercer.expansion import Expansion
from mercer.kernels.base import Kernel, row_blocks
from mercer.native.memory import check_room

MANY = 32  # classes; of more, coefficients are kept by rival and not by pair
BLOCK_MB = 64.0  # of kernel values, or values of pairs, at a time


@dataclass(frozen=True, eq=False)
class Part:
    """A two-class problem: some of the points, and the side ±1 of each."""

    index: Any  # of the points; a slice for all of them
    sign: np.ndarray


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes of a machine: their names in order, and how f tells them apart.

    Parameters
    ----------
    names : (k,) array, sorted
    scheme : "ovo", every class against every other; "ovr", each against the rest. Of
        two classes both are one function
    """

    names: np.ndarray
    scheme: str = "ovr"

    def __len__(self) -> int:
        return len(self.names)

    def label(self, y: npt.ArrayLike) -> np.ndarray:
        """The number of the class of each point, all of whose classes are known."""
        return np.searchsorted(self.names, y)

    def parts(self, label: np.ndarray) -> Sequence[Part]:
        """The two-class problems."""
        return parts(label, len(self), self.scheme)

    def sides(self, label: np.ndarray) -> np.ndarray:
        """±1 of each point in each of the problems, (n, q); of "ovr" only."""
        return np.column_stack([part.sign for part in self.parts(label)])

    def problems(self) -> list[str]:
        """What to call the problems of `parts`."""
        return names(self.names, self.scheme)

    def winners(self, values: np.ndarray) -> np.ndarray:
        """The number of the class that the values of f speak for.

        Parameters
        ----------
        values : (..., ) of two classes, f; (..., k) for "ovr", (m, k(k - 1)/2) for
            "ovo"
        """
        if len(self) == 2:
            return (np.asarray(values) >= 0).astype(np.intp)
        if self.scheme == "ovo":
            return np.argmax(votes(values, len(self)), axis=1)
        return np.argmax(values, axis=-1)

    def chosen(self, values: np.ndarray) -> np.ndarray:
        """The names of the winners."""
        return self.names.take(self.winners(values))

    def probabilities(self, odds: np.ndarray) -> np.ndarray:
        """1 / (1 + e^-f) of each class, divided by their sum; the largest wins, (m, k).

        Parameters
        ----------
        odds : (m,) of two classes, (m, k) of each class against the rest
        """
        if odds.ndim == 1:
            return np.column_stack([expit(-odds), expit(odds)])
        p = np.maximum(expit(odds), np.finfo(float).tiny)
        p /= p.sum(axis=1, keepdims=True)
        return calibration.agreeing(p, self.winners(odds))


class Pairs(Sequence[Part]):
    """Every class against every other, (i, j) with i < j in order; made when asked for.

    With many classes a column of coefficients for each pair would be nearly all zeros:
    a point of class i has one for each of its rivals. They are then kept in a matrix of
    k - 1 columns, that of the r-th of the other classes being column r.

    Parameters
    ----------
    label : (n,) array of classes 0 to n_classes - 1
    """

    def __init__(self, label: np.ndarray, n_classes: int) -> None:
        self.n_classes = n_classes
        self.sizes = np.bincount(label, minlength=n_classes)
        self.order = np.argsort(label, kind="stable")
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.pairs = class_pairs(n_classes)

    def __len__(self) -> int:
        return len(self.pairs)

    @overload
    def __getitem__(self, number: int) -> Part: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Part]: ...

    def __getitem__(self, number: int | slice) -> Part | Sequence[Part]:
        if isinstance(number, slice):
            return [self[j] for j in range(*number.indices(len(self)))]
        i, j = self.pairs[number].tolist()
        index = np.concatenate([self.members(i), self.members(j)])
        return Part(index, np.repeat([1.0, -1.0], self.sizes[[i, j]]))

    def members(self, k: int) -> np.ndarray:
        """The points of class k."""
        return self.order[self.starts[k] : self.starts[k] + self.sizes[k]]

    @property
    def totals(self) -> np.ndarray:
        """How many points each pair has."""
        return self.sizes[self.pairs].sum(axis=1)

    @property
    def compact(self) -> bool:
        """Whether coefficients are kept by rival."""
        return self.n_classes > MANY

    @property
    def width(self) -> int:
        """How many columns the matrix of coefficients has."""
        return self.n_classes - 1 if self.compact else len(self)

    def column(self, number: int) -> Any:
        """Where the coefficients of a pair are: a column, or one for each point."""
        if not self.compact:
            return number
        i, j = self.pairs[number].tolist()
        return np.repeat([j - 1, i], self.sizes[[i, j]])

    def places(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the coefficients of these pairs, one after another."""
        pairs = self.pairs[numbers]
        classes = pairs.ravel()
        sizes = self.sizes[classes]
        ends = np.cumsum(sizes)
        within = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
        rows = self.order[np.repeat(self.starts[classes], sizes) + within]
        if self.compact:
            columns = np.column_stack([pairs[:, 1] - 1, pairs[:, 0]]).ravel()
        else:
            columns = np.repeat(numbers, 2)
        return rows, np.repeat(columns, sizes)


def class_pairs(n_classes: int) -> np.ndarray:
    """Rows (i, j) with i < j in order, (k (k - 1) / 2, 2)."""
    rivals = np.arange(n_classes - 1, -1, -1)
    first = np.repeat(np.arange(n_classes), rivals)
    before = np.repeat(np.cumsum(rivals) - rivals, rivals)
    return np.stack([first, np.arange(len(first)) - before + first + 1], axis=1)


def parts(label: np.ndarray, n_classes: int, scheme: str = "ovo") -> Sequence[Part]:
    """The two-class problems that make up one of several classes.

    Parameters
    ----------
    label : (n,) array of classes 0 to n_classes - 1
    scheme : "ovo", every class against every other; "ovr", each against the rest
    """
    everything = slice(None)
    if n_classes == 2:
        return [Part(everything, np.where(label == 1, 1.0, -1.0))]
    if scheme == "ovr":
        return [
            Part(everything, np.where(label == k, 1.0, -1.0)) for k in range(n_classes)
        ]
    return Pairs(label, n_classes)


def width(parts: Sequence[Any]) -> int:
    """How many columns the coefficients of these problems take."""
    return parts.width if isinstance(parts, Pairs) else len(parts)


def cells(parts: Sequence[Any], number: int) -> tuple[Any, Any]:
    """Rows and columns of the coefficients of a problem; off pairs all points' have it.

    Parameters
    ----------
    parts : of `parts`; or a range, of so many problems on all points
    """
    if isinstance(parts, Pairs):
        return parts[number].index, parts.column(number)
    return slice(None), number


def present(parts: Sequence[Part]) -> np.ndarray:
    """Whether the first and the second class of each problem have a point, (m, 2)."""
    if isinstance(parts, Pairs):
        return parts.sizes[parts.pairs] > 0
    return np.array([[(part.sign > 0).any(), (part.sign < 0).any()] for part in parts])


def n_classes(n_pairs: int) -> int:
    """k of k(k - 1)/2 pairs of classes."""
    return (1 + isqrt(1 + 8 * n_pairs)) // 2


def names(classes: Sequence[Any] | np.ndarray, scheme: str = "ovo") -> list[str]:
    """What to call the problems of `parts`; a single one needs no name."""
    if len(classes) == 2:
        return [""]
    if scheme == "ovr":
        return [f"{name} against the rest" for name in classes]
    return [f"{first} against {second}" for first, second in combinations(classes, 2)]


def votes(values: np.ndarray, n_classes: int) -> np.ndarray:
    """How many of its pairs each class wins, (m, n_classes); f = 0 is for the second.

    Parameters
    ----------
    values : (m, n_classes (n_classes - 1) / 2) array, a column for each pair
    """
    won = np.zeros((len(values), n_classes))
    for i, columns in _by_first(n_classes):
        wins = values[:, columns] > 0
        won[:, i] += wins.sum(axis=1)
        won[:, i + 1 :] += ~wins
    return won


def scores(values: np.ndarray, n_classes: int) -> np.ndarray:
    """A number for each class, (m, n_classes): pairs won, then how clearly.

    The sums of the values, brought into (-1/3, 1/3), decide between classes that won
    equally many pairs, and never against one that won more.
    """
    won, confidence = np.zeros((2, len(values), n_classes))
    for i, columns in _by_first(n_classes):
        some = values[:, columns]
        won[:, i] += (some >= 0).sum(axis=1)
        won[:, i + 1 :] += some < 0
        confidence[:, i] += some.sum(axis=1)
        confidence[:, i + 1 :] -= some
    return _scores(won, confidence)


def _scores(won: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    return won + confidence / (3 * (np.abs(confidence) + 1))


def _by_first(n_classes: int) -> Iterator[tuple[int, slice]]:
    """Each class but the last, and the columns of its pairs with those after it."""
    start = 0
    for i in range(n_classes - 1):
        yield i, slice(start, start + n_classes - 1 - i)
        start += n_classes - 1 - i


def pair_of(n_classes: int) -> np.ndarray:
    """The number of the pair of class i and its r-th rival, (k, k - 1)."""
    number = np.zeros((n_classes, n_classes), dtype=np.int64)
    first, second = class_pairs(n_classes).T
    number[first, second] = number[second, first] = np.arange(len(first))
    others = ~np.eye(n_classes, dtype=bool)
    return number[others].reshape(n_classes, n_classes - 1)


def by_rival(coef: np.ndarray, label: np.ndarray, n_classes: int) -> np.ndarray:
    """The coefficients of one-against-one in LIBSVM's layout, (n_classes - 1, n).

    A point of class i takes part in n_classes - 1 pairs; row r holds its coefficient
    in the pair with the r-th of the other classes.

    Parameters
    ----------
    coef : (n, n_classes (n_classes - 1) / 2) array, a column for each pair
    label : (n,) array, the classes of the points
    """
    return np.take_along_axis(coef, pair_of(n_classes)[label], axis=1).T


@dataclass(frozen=True, eq=False)
class PairExpansion:
    """f of every class against every other, with coefficients by rival.

    The same functions as an `Expansion` with a column for each pair, in k/2 times less
    memory and time.

    Parameters
    ----------
    points : n points, sorted by class
    label : (n,) array, their classes
    coef : (n, k - 1) array: of a point of class i, column r is its coefficient in the
        pair of i and the r-th of the other classes
    bias : (k(k - 1)/2,) array
    """

    kernel: Kernel
    points: Points
    label: np.ndarray
    coef: np.ndarray
    bias: np.ndarray

    @property
    def n_classes(self) -> int:
        """k, the number of classes."""
        return self.coef.shape[1] + 1

    @property
    def n_rivals(self) -> int:
        """k - 1."""
        return self.coef.shape[1]

    def votes(self, X: Points) -> np.ndarray:
        """`votes` of the values at the points of X."""
        return self._tallied(X, zero_is_first=False)[0]

    def scores(self, X: Points) -> np.ndarray:
        """`scores` of the values at the points of X."""
        return _scores(*self._tallied(X, zero_is_first=True))

    def __call__(self, X: Points) -> np.ndarray:
        """The values at the m points of X, (m, k(k - 1)/2)."""
        m, n_pairs = count(X), len(self.bias)
        _check_memory(m, n_pairs, "values", 'decision_function_shape="ovr"')
        values = np.empty((m, n_pairs))
        self._tallied(X, zero_is_first=True, values=values)
        return values

    def blocks(self, X: Points) -> Iterator[tuple[slice, np.ndarray]]:
        """The values, some of the points of X at a time."""
        for rows in row_blocks(count(X), len(self.bias), BLOCK_MB):
            yield rows, self(take(X, rows))

    def _tallied(
        self, X: Points, zero_is_first: bool, values: np.ndarray | None = None
    ) -> np.ndarray:
        """Pairs won, and the sums of their values, of each class."""
        m, n = count(X), len(self.coef)
        won, confidence = np.zeros((2, m, self.n_classes))
        if values is None:
            values = np.empty((m, 0))
        first = np.searchsorted(self.label, np.arange(self.n_classes + 1))
        for rows in row_blocks(m, max(1, n), BLOCK_MB):
            K = self.kernel(take(X, rows), self.points) if n else np.zeros((m, 0))
            _core.votes(
                np.ascontiguousarray(K, dtype=float),
                first.astype(np.int64),
                self.coef,
                self._turned,
                self.bias,
                zero_is_first,
                won[rows],
                confidence[rows],
                values[rows] if values.size else np.empty((0, 0)),
            )
        return np.array([won, confidence])

    @cached_property
    def _turned(self) -> np.ndarray:
        return np.ascontiguousarray(self.coef.T)

    def matrix(self) -> sp.csr_array:
        """The coefficients with a column for each pair, (n, k(k - 1)/2)."""
        n, rivals = self.coef.shape
        columns = pair_of(self.n_classes)[self.label].ravel()
        ends = np.arange(n + 1) * rivals
        shape = (n, len(self.bias))
        return sp.csr_array((self.coef.ravel(), columns, ends), shape=shape)

    def expansion(self) -> Expansion:
        """The same with a column for each pair, nearly all of them zeros."""
        _check_memory(len(self.coef), len(self.bias), "coefficients", "dual_coef_")
        coef = self.matrix().toarray()
        return Expansion(self.kernel, self.points, coef, self.bias)


def _check_memory(rows: int, n_pairs: int, what: str, instead: str) -> None:
    check_room(
        16.0 * rows * n_pairs,
        f"{n_pairs} pairs of classes with {rows} {what} each take",
        f"Use {instead}, or fewer points at a time.",
    )
