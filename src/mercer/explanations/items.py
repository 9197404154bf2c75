"""Features taken down to the items they are made of: letters, nodes, atoms."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.contributions.parts import Described, Found, Place
from mercer.data.graphs import Graph
from mercer.data.trees import Tree
from mercer.kernels.algebra import On, Pullback
from mercer.kernels.base import Kernel
from mercer.kernels.graph import ShortestPath, WeisfeilerLehman
from mercer.kernels.string import Subsequence, WeightedDegree
from mercer.kernels.substring import Mismatch, Spectrum, WeightedSubstrings
from mercer.kernels.tree import MatchingNodes, Subtree, TaggedTree

UNPLACED = "features without places"


def kind_of(kernel: Kernel) -> str:
    """What the items of points of a kernel are."""
    kinds = {kind for some, kind in _KINDS if isinstance(kernel, some)}
    if isinstance(kernel, On):  # items of one field of a record
        return "other"
    kinds |= set() if kinds else {kind_of(child) for child in kernel.children()}
    return kinds.pop() if len(kinds) == 1 else "other"


def has_items(kernel: Kernel) -> bool:
    """Whether its features are made of letters, nodes or atoms of the points given."""
    return kind_of(kernel) != "other" and not _is_of_images(kernel)


def _is_of_images(kernel: Kernel) -> bool:
    return isinstance(kernel, Pullback) or any(map(_is_of_images, kernel.children()))


_KINDS: tuple[tuple[Any, str], ...] = (
    (Spectrum | Mismatch | WeightedSubstrings, "sequence"),
    (Subsequence | WeightedDegree, "sequence"),
    (Subtree | MatchingNodes | TaggedTree, "tree"),
    (WeisfeilerLehman | ShortestPath, "graph"),
)


def by_items(found: Found, bias: np.ndarray, point: Any, kind: str) -> Found:
    """f(x) by the items of a point: shares of its features, and of the bias.

    An item has its share of the places of every feature, and the bias is divided
    evenly: f(x) is shared out whole. Features without places are one part; those that
    are not listed stay `rest`.

    Parameters
    ----------
    bias : (c,) array, of f without what `found` has as base
    kind : "sequence", "tree" or "graph"
    """
    names = _names(point, kind)
    n = len(names)
    values, unplaced = np.zeros((n, len(bias))), np.zeros((1, len(bias)))
    for j, value in enumerate(found.values):
        _, places = found.described(j)
        unplaced += 0 if places else value
        for place in places:
            items = np.array(place.items, dtype=int)
            np.add.at(values, items, value * place.share / len(items))
    base = found.base
    if n:
        values += (bias + base) / n
        base = -bias
    if unplaced.any():
        values = np.concatenate([values, unplaced])

    def described(j: int) -> Described:
        return (names[j], (Place((j,)),)) if j < n else (UNPLACED, ())

    return Found(values, described, found.rest, base)


def _names(point: Any, kind: str) -> list[str]:
    """Each item with its place: "'G' at 3"; "O(N) at 7", an atom beside an N."""
    if kind == "sequence":
        return [f"{token!r} at {i}" for i, token in enumerate(point)]
    if kind == "tree":
        return [f"{label} at {i}" for i, label in enumerate(Tree(point).labels)]
    graph = Graph.of(point)
    around: list[list[str]] = [[] for _ in graph.nodes]
    for u, v in graph.ends.tolist():
        around[u].append(str(graph.colours[v]))
        around[v].append(str(graph.colours[u]))
    return [
        f"{colour}({', '.join(sorted(beside))}) at {i}"
        for i, (colour, beside) in enumerate(zip(graph.colours, around, strict=True))
    ]
