"""Φ of points in partitions, over columns that all partitions agree on.

A map that counts parts (k-mers, labels of graphs) has the columns that occur: each
partition tells its own, and the union of them is sent to all. Φ then stays where the
points are, as results of tasks, and problems on it are those of `Linear` on its rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from mercer.data.partitions import Once, Partitions
from mercer.data.points import Points, count
from mercer.kernels.base import Kernel
from mercer.maps import entries_estimate, explicit
from mercer.native import memory
from mercer.native.clock import tick
from mercer.native.sorting import distinct

SPARSE_BYTES = 12.0  # of an entry with its column


class PartitionedMap(NamedTuple):
    """Φ of each partition as points, and what its columns are known by."""

    points: Partitions
    keys: Sequence[Hashable]


def mapped(kernel: Kernel, X: Partitions) -> PartitionedMap | None:
    """Φ, computed once and kept by those who hold the points; None for lack of room.

    Parameters
    ----------
    kernel : with an explicit map and no parameter left to learn
    """
    tick("features")
    if not _has_room(kernel, X):
        return None
    found = X.remote.derived(_features, shared=(kernel,))
    columns = found.each(_columns)
    keys = _union([own for own, _ in columns])
    sparse = any(is_sparse for _, is_sparse in columns)
    width = keys if isinstance(keys, int) else len(keys)
    sent = Once((keys, width, sparse))
    points = Partitions(
        found.derived(_aligned, shared=(sent,)),
        (len(X), width),
        np.dtype(float),
        X.names,
        sparse,
    )
    if isinstance(keys, np.ndarray):
        keys = keys.tolist()
    return PartitionedMap(points, range(keys) if isinstance(keys, int) else keys)


def names_of(kernel: Kernel, X: Partitions, keys: Sequence[Hashable]) -> list[str]:
    """The names of these columns, told by the partitions that have them."""
    found: dict[Hashable, str] = {}
    for some in X.remote.each(_named, shared=(kernel,)):
        found.update(some)
    return [found[key] for key in keys]


def _has_room(kernel: Kernel, X: Partitions) -> bool:
    """Whether Φ finds room with those who hold the points, as far as that is known."""
    some = np.linspace(0, len(X) - 1, min(len(X), 32)).astype(np.intp)
    near = X.fetched(distinct(some))
    entries = entries_estimate(kernel, near, always=True)
    assert entries is not None
    # While columns are brought to their places Φ is there twice.
    needed = 2 * SPARSE_BYTES * entries / count(near) * len(X)
    room = X.remote.room()
    return needed <= room if room else memory.keeps(needed)


def _features(part: Points, kernel: Kernel) -> tuple[Any, Any]:
    """Φ of a partition, and what its columns are known by: a number for places."""
    found = explicit(kernel, part)
    keys: Any = found.keys
    if isinstance(keys, range):
        keys = len(keys)
    elif keys and all(isinstance(key, int) for key in keys):
        keys = np.array(keys)
    return found.matrix, keys


def _columns(found: tuple[Any, Any]) -> tuple[Any, bool]:
    matrix, keys = found
    return keys, sp.issparse(matrix)


def _union(parts: Sequence[Any]) -> Any:
    """All keys: their number where they are places, an array of whole numbers, or a
    list in the order in which they come."""
    if all(isinstance(keys, int) for keys in parts):
        return max(parts)
    parts = [np.arange(keys) if isinstance(keys, int) else keys for keys in parts]
    numbers = [keys for keys in parts if isinstance(keys, np.ndarray)]
    if all(isinstance(keys, np.ndarray) or not len(keys) for keys in parts):
        return distinct(np.concatenate(numbers)) if numbers else np.empty(0, int)
    listed = (keys.tolist() if isinstance(keys, np.ndarray) else keys for keys in parts)
    return list(dict.fromkeys(key for keys in listed for key in keys))


def _aligned(found: tuple[Any, Any], sent: tuple[Any, int, bool]) -> Any:
    """Φ of a partition in the columns of all."""
    (matrix, keys), (every, width, sparse) = found, sent
    own = np.arange(keys) if isinstance(keys, int) else keys
    if isinstance(every, int):
        places = own
    elif isinstance(every, np.ndarray):
        places = np.searchsorted(every, np.asarray(own, every.dtype))
    else:
        place = {key: j for j, key in enumerate(every)}
        listed = own.tolist() if isinstance(own, np.ndarray) else own
        places = np.array([place[key] for key in listed], dtype=np.int64)
    if not sparse:
        out = np.zeros((matrix.shape[0], width))
        out[:, places] = matrix
        return out
    matrix = sp.csr_array(matrix)
    moved = (matrix.data, places[matrix.indices], matrix.indptr)
    out = sp.csr_array(moved, shape=(matrix.shape[0], width))
    out.sort_indices()
    return out


def _named(part: Points, kernel: Kernel) -> dict[Hashable, str]:
    found = explicit(kernel, part)
    return dict(zip(found.keys, found.names(), strict=True))
