"""Kernels that count parts: k(x, y) = Σₚ countₚ(x) · countₚ(y).

The parts (substrings, patterns of neighbours, ...) are an open vocabulary, of which
nothing is stored. Columns mean the same for two sets of points in one of two ways:

VocabularyKernel   both sets are mapped together
CountKernel        a part has a 64-bit id, a hash of what it is, the same in every call;
                   two of n parts share an id with probability n² / 2⁶⁵
"""

from __future__ import annotations

import hashlib
import numbers
from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from mercer.data.points import Points, as_points, count, objects
from mercer.kernels.base import Kernel, Rule
from mercer.kernels.ways import FeatureKernel
from mercer.native.interruptible import SORTING, interruptible
from mercer.native.sorting import distinct
from mercer.native.sparsity import Vectors


class Columns(NamedTuple):
    """The features of some points, over the columns that occur in them."""

    matrix: sp.csr_array
    names: Callable[[], list[str]]


class VocabularyKernel(FeatureKernel):
    """k(x, y) = ⟨φ(x), φ(y)⟩ with a column for whatever occurs: fill in `columns`.

    Two sets of points are mapped together, so that their columns mean the same; no
    vocabulary is kept. Between calls the names of the columns say what they are.
    """

    @abstractmethod
    def columns(self, X: Points) -> Columns:
        """Φ over the columns that occur in X, as they first do, and their names."""

    def features(self, X: Points) -> sp.csr_array:
        return self.columns(X).matrix

    def feature_names(self, X: Points) -> list[str]:
        return self.columns(X).names()

    def aligned(self, X: Points, Y: Points | None = None) -> tuple[Vectors, Vectors]:
        if Y is None:
            features = self.features(X)
            return features, features
        n = count(as_points(X))
        features = self.features([*objects(as_points(X)), *objects(as_points(Y))])
        return features[:n], features[n:]


class Counts(NamedTuple):
    """How often each part occurs in each point."""

    matrix: sp.csr_array  # (n, p), float64
    ids: np.ndarray  # (p,), uint64, all different: what the columns count


class CountKernel(FeatureKernel):
    """k(x, y) = Σₚ countₚ(x) · countₚ(y) over all parts p: fill in `counts`.

    Counts are whole numbers in float64, so values below 2⁵³ are exact.
    """

    @abstractmethod
    def counts(self, X: Points) -> Counts:
        """The counts of the parts that occur in X."""

    def features(self, X: Points) -> Vectors:
        return self.counts(X).matrix

    def aligned(self, X: Points, Y: Points | None = None) -> tuple[Vectors, Vectors]:
        left = self.counts(X)
        if Y is None:
            return left.matrix, left.matrix
        return in_common(left, self.counts(Y))

    def rule(self) -> Rule:
        return Rule(True, "an inner product of counts, ⟨φ(x), φ(y)⟩ by construction")


def in_common(left: Counts, right: Counts) -> tuple[sp.csr_array, sp.csr_array]:
    """Both matrices in the columns of either."""
    ids = distinct(np.concatenate([left.ids, right.ids]))
    first, second = (
        sp.csr_array(
            (part.matrix.data, np.searchsorted(ids, part.ids)[part.matrix.indices],
             part.matrix.indptr),
            shape=(part.matrix.shape[0], len(ids)),
        )
        for part in (left, right)
    )  # fmt: skip
    return first, second


def counted(
    rows: np.ndarray, ids: np.ndarray, n: int, times: np.ndarray | None = None
) -> Counts:
    """Counts of n points: part ids[i] occurs times[i] times (once) in point rows[i]."""
    return interruptible(_sorted, rows, ids, n, times, work=SORTING * len(ids))


def _sorted(
    rows: np.ndarray, ids: np.ndarray, n: int, times: np.ndarray | None
) -> Counts:
    ids, columns = np.unique(ids, return_inverse=True)
    times = np.ones(len(rows)) if times is None else times
    matrix = sp.csr_array((times, (rows, columns)), shape=(n, len(ids)))
    return Counts(matrix, ids)


def beside(blocks: Sequence[Counts]) -> Counts:
    """Counts of the same points by different parts, from left to right."""
    entries = sum(block.matrix.nnz for block in blocks)
    matrix = interruptible(
        sp.hstack, [block.matrix for block in blocks], format="csr", work=100 * entries
    )
    return Counts(sp.csr_array(matrix), np.concatenate([block.ids for block in blocks]))


def check_attributes(kernel: Kernel, *names: str) -> None:
    """Refuse names of attributes that are no text."""
    for name in names:
        given = getattr(kernel, name)
        if not (given is None or (isinstance(given, str) and given)):
            raise ValueError(
                f"{type(kernel).__name__} needs the name of an attribute of networkx "
                f"graphs as {name}, or None; got {name}={given!r}."
            )


# Ids


def mixed(values: np.ndarray) -> np.ndarray:
    """64-bit hashes of 64-bit numbers, so that sums of different sets rarely agree."""
    # The finaliser of splitmix64 (Steele, Lea and Flood 2014); products wrap around.
    x = values + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def label_ids(labels: Sequence[Hashable]) -> np.ndarray:
    """A 64-bit id for each of some different labels, the same in every process.

    For labels of a user's class this holds if their hash is the same in every process.
    """
    ids = [
        int.from_bytes(
            hashlib.blake2b(
                _spelled(label).encode(errors="surrogatepass"), digest_size=8
            ).digest()
        )
        for label in labels
    ]
    seen: dict[int, Hashable] = {}
    for label, number in zip(labels, ids, strict=True):
        if number in seen:
            raise ValueError(
                f"The labels {seen[number]!r} and {label!r} differ but have the same "
                "hash. Use numbers, strings or tuples of them as labels."
            )
        seen[number] = label
    return np.array(ids, dtype=np.uint64)


def _spelled(label: Any) -> str:
    """A text for a label: the same for equal labels, different for different ones."""
    if isinstance(label, str):
        return f"s{len(label)}:{label}"
    if isinstance(label, tuple):
        return f"t{len(label)}:" + "".join(map(_spelled, label))
    if isinstance(label, frozenset):
        return f"f{len(label)}:" + "".join(sorted(map(_spelled, label)))
    if isinstance(label, bytes):
        return f"b{len(label)}:{label.hex()}"
    if isinstance(label, np.generic):
        return _spelled(label.item())
    if isinstance(label, numbers.Number | Decimal):
        # 1, 1.0 and True are equal, and so must be their texts.
        try:
            whole = int(label)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            whole = None
        return f"n{whole};" if whole == label else f"h{hash(label)};"
    return f"o{type(label).__qualname__}:{'' if label is None else hash(label)};"
