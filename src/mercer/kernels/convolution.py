"""Convolution: a kernel on things from kernels on their parts.

Haussler, Convolution kernels on discrete structures, UCSC-CRL-99-10 (1999).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.checks import describe
from mercer.data.points import Points, as_points, each, field, take
from mercer.kernels.base import (
    BLOCK_MB,
    Kernel,
    Rule,
    check_kernels,
    closed,
    row_blocks,
)
from mercer.kernels.ways import check_callable
from mercer.native.sorting import distinct


@dataclass
class Convolution(Kernel):
    """k(x, y) = Σ Π k_d(x_d, y_d), over decompositions (x_1, ..., x_D) of x and y.

    A point without decompositions has k(x, y) = 0. Parts that are equal strings are
    compared once, however often they occur.

    Parameters
    ----------
    parts : takes one point, returns its decompositions: finitely many tuples of D
        parts each; parts instead of tuples where `kernels` is a single kernel
    kernels : k_1, ..., k_D, or a single kernel

    Examples
    --------
    >>> from mercer import Convolution, Spectrum
    >>> k = Convolution(str.split, Spectrum(2))  # the sum over all pairs of words
    >>> k.value("red rose", "reed rose")
    5.0
    """

    parts: Callable[[Any], Iterable[Any]]
    kernels: Sequence[Kernel] | Kernel

    def __post_init__(self) -> None:
        check_callable(self, "parts", self.parts)
        if isinstance(self.kernels, list | tuple) and self.kernels:
            check_kernels(self, *self.kernels)
        else:
            check_kernels(self, self.kernels)

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        left = self._decomposed(X)
        right = left if Y is None else self._decomposed(Y)
        n, m = left.owners.shape[0], right.owners.shape[0]
        total = right.owners.shape[1]
        K = np.zeros((n, m))
        if not total:
            return K
        for rows in row_blocks(left.owners.shape[1], total, BLOCK_MB):
            values = np.ones((rows.stop - rows.start, total))
            columns = zip(self._kernels(), left.columns, right.columns, strict=True)
            for kernel, x, y in columns:
                values *= kernel(take(x, rows), y)
            some = left.owners[:, rows]
            those = distinct(some.nonzero()[0])
            K[those] += some[those] @ (right.owners @ values.T).T
        if Y is None:
            # Rows and columns are summed one after the other: keep one of two orders.
            K = np.triu(K) + np.triu(K, 1).T
        return K

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> Convolution:
        parts = self._decomposed(X)
        if not parts.owners.shape[1]:
            raise ValueError(
                "Convolution.resolve learns from the parts of points; parts(x) gave "
                "none for any of them."
            )
        n = parts.owners.shape[0]
        each_part = (
            np.ones(n) if weight is None else np.asarray(weight)
        ) @ parts.owners
        if weight is None and (each_part == 1).all():
            each_part = None
        kernels = self._kernels()
        resolved = [
            kernel.resolve(column, each_part)
            for kernel, column in zip(kernels, parts.columns, strict=True)
        ]
        if all(new is old for new, old in zip(resolved, kernels, strict=True)):
            return self
        single = isinstance(self.kernels, Kernel)
        return Convolution(self.parts, resolved[0] if single else resolved)

    def rule(self) -> Rule:
        return closed(
            self,
            "φ(x) is the sum over the decompositions of x of φ_1(x_1) ⊗ ... ⊗ φ_D(x_D)",
        )

    def _kernels(self) -> list[Kernel]:
        single = isinstance(self.kernels, Kernel)
        return [self.kernels] if single else list(self.kernels)  # type: ignore[list-item, arg-type]

    def _decomposed(self, X: Points) -> _Parts:
        tuples: list[tuple[Any, ...]] = []
        # Of decompositions into words, each kept once.
        places: dict[tuple[Any, ...], int] = {}
        owned: list[int] = []
        start = [0]
        for i, x in enumerate(each(as_points(X))):
            for item in self._decompositions(x, i):
                found = self._checked(item, i)
                place = len(tuples)
                if all(type(part) is str for part in found):
                    place = places.setdefault(found, place)
                if place == len(tuples):
                    tuples.append(found)
                owned.append(place)
            start.append(len(owned))
        n, total = len(start) - 1, len(tuples)
        columns = [field(tuples, d) for d in range(len(self._kernels()))]
        ones = np.ones(len(owned)), np.array(owned, dtype=np.int64), np.array(start)
        owners = sp.csr_array(ones, shape=(n, total))
        owners.sum_duplicates()
        return _Parts(columns, owners)

    def _decompositions(self, x: Any, i: int) -> Iterator[Any]:
        found = self.parts(x)
        try:
            return iter(found)
        except TypeError:
            raise TypeError(
                "parts of Convolution takes one point and must return its "
                f"decompositions, a list; for point {i} it returned {describe(found)}."
            ) from None

    def _checked(self, item: Any, i: int) -> tuple[Any, ...]:
        """A decomposition as a tuple of its parts."""
        if isinstance(self.kernels, Kernel):
            return (item,)
        if not (isinstance(item, list | tuple) and len(item) == len(self.kernels)):
            raise ValueError(
                f"Convolution has {len(self.kernels)} kernels, so parts must return "
                f"tuples of {len(self.kernels)}; for point {i} it returned "
                f"{describe(item)}. With a single kernel, not in a list, parts are no "
                "tuples."
            )
        return tuple(item)


@dataclass
class _Parts:
    """Different decompositions of some points: part d of each, and whose they are."""

    columns: list[Points]
    owners: sp.csr_array  # (points, decompositions), how often a point has each
