"""Which points of one set are also in another, by value: where a fit can go on."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Hashable

import numpy as np
import scipy.sparse as sp

from mercer.data.frames import is_frame
from mercer.data.partitions import Partitions
from mercer.data.points import Points, each


def carried_over(
    rows: np.ndarray, known: Points, points: Points, places: np.ndarray
) -> np.ndarray:
    """The rows of the known points at the same points of another set; 0 at new ones.

    Parameters
    ----------
    rows : (m, q) array, a row for each known point
    places : m numbers, where the known points were in their own set: looked at first
    """
    if isinstance(points, Partitions):
        return _in_partitions(rows, known, points, places)
    if _are_there(known, points, places):
        found = np.zeros((len(points), rows.shape[1]))
        found[places] = rows
        return found
    of_known, keys = keys_of(known), keys_of(points)
    found = np.zeros((len(keys), rows.shape[1]))
    if [keys[i] for i in places if i < len(keys)] == of_known:
        found[places] = rows  # the same points, where they were
        return found
    waiting: dict[Hashable, deque[np.ndarray]] = {}
    for key, row in zip(of_known, rows, strict=True):
        waiting.setdefault(key, deque()).append(row)
    for i, key in enumerate(keys):
        if waiting.get(key):
            found[i] = waiting[key].popleft()
    return found


def _are_there(known: Points, points: Points, places: np.ndarray) -> bool:
    """Whether known points are at these places of others; of arrays only."""
    for some in (known, points):
        if not isinstance(some, np.ndarray) or some.dtype == object:
            return False
    if len(places) and not int(np.max(places)) < len(points):
        return False
    return bool(np.array_equal(points[places], known))


def _in_partitions(
    rows: np.ndarray, known: Points, points: Partitions, places: np.ndarray
) -> np.ndarray:
    """The same where they were; 0 at all where other points are there now."""
    found = np.zeros((len(points), rows.shape[1]))
    if isinstance(known, Partitions):
        same = known.origin() == points.origin()
    else:
        inside = bool(np.all(np.asarray(places) < len(points)))
        same = inside and keys_of(points.fetched(places)) == keys_of(known)
    if same:
        found[places] = rows
    return found


def keys_of(points: Points) -> list[Hashable]:
    """Something to know each point by; equal points have equal keys."""
    if sp.issparse(points):
        points = points.sorted_indices()
        ends = zip(points.indptr[:-1], points.indptr[1:], strict=True)
        return [
            (points.indices[a:b].tobytes(), points.data[a:b].tobytes()) for a, b in ends
        ]
    if isinstance(points, np.ndarray) and points.dtype != object:
        return [np.asarray(point).tobytes() for point in points]
    if is_frame(points):
        return [tuple(row.items()) for row in each(points)]
    return [_key(point) for point in points]


def _key(point: object) -> Hashable:
    """The point itself where it compares by value, else all that it is made of."""
    if type(point).__hash__ not in (None, object.__hash__):
        try:
            hash(point)
            return point
        except TypeError:  # a tuple of lists
            pass
    try:
        return pickle.dumps(point)
    except (pickle.PicklingError, AttributeError, TypeError):
        return id(point)
