"""In what order the points are visited, and how often: the same for the same points.

Visits are sorted by numbers drawn from the keys of their points, so that the order is
the same however the points are listed, and for a point of weight 2 what it is for the
same point twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.points import Points
from mercer.native.rows import ascending, row_keys
from mercer.native.sparsity import canonical


def orders(
    keys: np.ndarray,
    weight: np.ndarray,
    passes: int,
    random: np.random.RandomState | None,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each pass, the points to visit and how much each visit counts.

    Parameters
    ----------
    random : numpy's RandomState, for a new order in each pass; None for that given
    """
    place, each = visits(weight)
    keys, once = numbered(keys[place]), bool((weight == 1).all())
    for _ in range(passes):
        order: Any = slice(None)
        if random is not None:
            salt = random.randint(2**32, size=2, dtype=np.uint64)
            order = ascending(mixed(keys, salt))
        yield (order, each) if once and random else (place[order], each[order])


def visits(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each point as often as it counts: 2.5 is two whole visits and one of a half."""
    often = np.ceil(weight).astype(np.intp)
    each = np.ones(int(often.sum()))
    each[np.cumsum(often) - 1] = weight - often + 1
    return np.repeat(np.arange(len(weight)), often), each


def numbered(keys: np.ndarray) -> np.ndarray:
    """The keys, with equal ones counted: the first, the second, ... of a kind."""
    order = ascending(keys)
    known = keys[order]
    first = np.flatnonzero(np.append(True, known[1:] != known[:-1]))
    runs = np.diff(np.append(first, len(keys)))
    copies = np.empty(len(keys), dtype=np.uint64)
    copies[order] = np.arange(len(keys)) - np.repeat(first, runs)
    return keys.astype(np.uint64) + copies * np.uint64(0x9E3779B97F4A7C15)


def keys_of(X: Points, target: np.ndarray, places: np.ndarray) -> np.ndarray:
    """A number for each point, by its coordinates and target; else by its place."""
    if not (sp.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2)):
        return places.astype(np.uint64)
    rows = canonical(X) if sp.issparse(X) else X
    return row_keys(rows.astype(np.float64, copy=False), target)


def mixed(keys: np.ndarray, salt: np.ndarray) -> np.ndarray:
    """Numbers that look random, equal for equal keys: Steele et al.'s SplitMix64."""
    z = keys.astype(np.uint64) ^ (salt[0] << np.uint64(32) | salt[1])
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
