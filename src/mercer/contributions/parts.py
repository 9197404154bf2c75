"""What f(x) is made of: parts with names, values, and places in the point."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np


class Place(NamedTuple):
    """Where a part is in a point.

    Attributes
    ----------
    items : the tokens of a sequence, the nodes of a tree (in preorder) or of a graph,
        the columns of a vector; (field, item) for those of one field of a record
    share : of the value of the part; the shares of all places sum to 1
    edges : of a graph, by their places in `Graph.ends`
    """

    items: tuple[Any, ...]
    share: float = 1.0
    edges: tuple[int, ...] = ()


class Part(NamedTuple):
    """A summand of f(x).

    Attributes
    ----------
    name : what it is, such as "substring 'GT'"
    value : what it adds to f(x)
    places : where it is in the point, a tuple of `Place`s; empty where it has none
    """

    name: str
    value: float
    places: tuple[Place, ...] = ()


Described = tuple[str, tuple[Place, ...]]


@dataclass(frozen=True, eq=False)
class Found:
    """The parts of one point, of which names and places are made when asked for.

    Parameters
    ----------
    values : (s, c) array, a column for each output of f
    described : gives the name and the places of part j
    rest : (c,) array, the sum of further parts that are not listed
    base : (c,) array, what f is before any part counts
    """

    values: np.ndarray
    described: Callable[[int], Described]
    rest: np.ndarray
    base: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, described: Callable[[int], Described]) -> Found:
        """Parts of which none is left out."""
        none = np.zeros(values.shape[1])
        return cls(values, described, none, none)

    @classmethod
    def single(cls, name: str, value: np.ndarray) -> Found:
        """One part without places."""
        return cls.of(np.atleast_2d(value), lambda _: (name, ()))

    @classmethod
    def joined(cls, some: Sequence[Found]) -> Found:
        """The parts of several, one after another."""
        starts = np.cumsum([0, *(len(found.values) for found in some)])

        def described(j: int) -> Described:
            which = int(np.searchsorted(starts, j, side="right")) - 1
            return some[which].described(j - int(starts[which]))

        values = np.concatenate([found.values for found in some])
        pairs = [(found.rest, found.base) for found in some]
        rest, base = (np.sum(part, axis=0) for part in zip(*pairs, strict=True))
        return cls(values, described, rest, base)

    def times(self, factor: float) -> Found:
        """All of it times a number."""
        parts = (factor * part for part in (self.rest, self.base))
        return Found(factor * self.values, self.described, *parts)

    def renamed(self, change: Callable[[Described], Described]) -> Found:
        """The same with other names or places."""
        return replace(self, described=lambda j: change(self.described(j)))


def moved(places: tuple[Place, ...], item: Callable[[Any], Hashable]) -> Any:
    """The places with every item replaced."""
    return tuple(
        place._replace(items=tuple(dict.fromkeys(map(item, place.items))))
        for place in places
    )


def shared(weighted: Sequence[tuple[tuple[Any, ...], float]]) -> tuple[Place, ...]:
    """Places with what each counts, as shares that sum to 1."""
    total = sum(weight for _, weight in weighted)
    return tuple(Place(items, weight / total) for items, weight in weighted if total)
