"""Where the features of a point are: places for the columns of explicit maps."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache, cached_property
from itertools import product
from typing import Any

import numpy as np

from mercer.contributions.parts import Place, moved, shared
from mercer.data.frames import is_frame
from mercer.data.graphs import Graph, GraphUnion
from mercer.data.points import Points, as_points, field, take
from mercer.data.trees import sorted_places, subtree_ends
from mercer.kernels.algebra import Conformal, Normalized, On, PolynomialOf, Pullback
from mercer.kernels.base import Kernel
from mercer.kernels.explicit import GaussianSeries, steps
from mercer.kernels.fragments import Shapes, names
from mercer.kernels.graph import ShortestPath, WeisfeilerLehman
from mercer.kernels.operators import Power, Product, Scaled, Sum
from mercer.kernels.string import WeightedDegree
from mercer.kernels.substring import Mismatch, Spectrum
from mercer.kernels.tree import Subtree, TaggedTree, trees_of
from mercer.kernels.vector import Linear, Polynomial, PowerSeries, is_vectors

MOST_PLACES = 10_000  # of one part that are listed

Finder = Callable[[Hashable], tuple[Place, ...]]


def finder(kernel: Kernel, X: Points) -> Finder:
    """A function that finds the columns of `explicit`, by their keys, in one point.

    Parameters
    ----------
    X : a dataset of one point
    """
    rule: Callable[..., Finder] = _RULES.get(type(kernel), _nowhere)
    return rule(kernel, X)


def _nowhere(kernel: Kernel, X: Points) -> Finder:
    return lambda key: ()


# Sequences


def _by_windows(kernel: Spectrum, X: Points) -> Finder:
    [x] = X
    lengths = range(1, kernel.k + 1) if kernel.weights is not None else [kernel.k]

    @cache
    def table() -> dict[str, list[tuple[int, ...]]]:
        found: dict[str, list[tuple[int, ...]]] = {}
        for r in lengths:
            for i in range(len(x) - r + 1):
                name = f"substring {_piece(x, i, r)!r}"
                found.setdefault(name, []).append(tuple(range(i, i + r)))
        return found

    return lambda key: shared([(items, 1.0) for items in table().get(str(key), [])])


def _piece(x: Any, i: int, r: int) -> Any:
    part = x[i : i + r]
    return part if isinstance(part, str) else tuple(np.asarray(part, object).tolist())


def _by_place(kernel: WeightedDegree, X: Points) -> Finder:
    [x] = X

    def found(key: Any) -> tuple[Place, ...]:
        text, _, place = str(key).rpartition(" at ")
        i = int(place)
        for r in range(1, len(x) - i + 1):
            if repr(_piece(x, i, r)) == text:
                return (Place(tuple(range(i, i + r))),)
        return ()

    return found


def _by_near(kernel: Mismatch, X: Points) -> Finder:
    [x] = X
    k, alphabet = int(kernel.k), kernel._resolved("alphabet")

    def word_of(key: str) -> Any:
        return key.split(" of ", 1)[1]

    @cache
    def table() -> dict[str, tuple[Place, ...]]:
        windows = [list(x[i : i + k]) for i in range(len(x) - k + 1)]
        found: dict[str, list[tuple[tuple[int, ...], float]]] = {}
        for i, window in enumerate(windows):
            for near in _near(window, list(alphabet), int(kernel.m)):
                text = "".join(near) if isinstance(alphabet, str) else tuple(near)
                place = tuple(range(i, i + k)), 1.0
                found.setdefault(repr(text), []).append(place)
        return {text: shared(some) for text, some in found.items()}

    return lambda key: table().get(word_of(str(key)), ())


def _near(window: list[Any], alphabet: list[Any], m: int) -> list[list[Any]]:
    """The words over the alphabet that differ from a window in at most m tokens."""
    begun: list[tuple[list[Any], int]] = [([], 0)]
    for token in window:
        begun = [
            ([*word, letter], differ + (letter != token))
            for word, differ in begun
            for letter in alphabet
            if differ + (letter != token) <= m
        ]
    return [word for word, _ in begun]


# Trees


def _by_subtree(kernel: Subtree, X: Points) -> Finder:
    [tree] = trees_of(kernel, X)

    @cache
    def table() -> dict[str, list[tuple[tuple[int, ...], float]]]:
        shapes = Shapes([tree])
        texts = names(shapes.keys)
        ends = subtree_ends(tree.arity)
        found: dict[str, list[tuple[tuple[int, ...], float]]] = {}
        # Shapes are found from the last node to the first.
        for v, shape in zip(reversed(range(tree.size)), shapes.found, strict=True):
            place = tuple(range(v, ends[v])), 1.0
            found.setdefault(texts[shape], []).append(place)
        return found

    return lambda key: shared(table().get(str(key), [])[::-1])


def node_of_token(kernel: TaggedTree, X: Points) -> Callable[[int], int]:
    """The node that each token of the tag of a tree is of."""
    [tree] = trees_of(kernel, X)
    place = sorted_places(tree) if kernel.sort else range(tree.size)
    [tokens] = kernel._tags(X)
    nodes: list[int] = []
    opened: list[int] = []
    number = 0
    for token in tokens:
        if token == ")":
            nodes.append(opened.pop())
        else:
            opened.append(place[number])
            nodes.append(place[number])
            number += 1
    return nodes.__getitem__


def _by_tag(kernel: TaggedTree, X: Points) -> Finder:
    inner, node = finder(kernel._explicit(), kernel._tags(X)), node_of_token(kernel, X)
    return lambda key: moved(inner(key), node)


# Graphs


class _Patterns:
    """The patterns of Weisfeiler and Lehman in one graph: where each is."""

    def __init__(self, kernel: WeisfeilerLehman, X: Points) -> None:
        self.kernel = kernel
        [self.graph] = kernel._graphs(X)

    @cached_property
    def _places(self) -> dict[int, list[tuple[int, int]]]:
        """(depth, node) of each id."""
        found: dict[int, list[tuple[int, int]]] = {}
        union = GraphUnion.of([self.graph])
        for depth, ids in enumerate(self.kernel._refined(union)):
            for v, number in enumerate(ids.tolist()):
                found.setdefault(number, []).append((depth, v))
        return found

    def __call__(self, key: Any) -> tuple[Place, ...]:
        some = self._places.get(key, [])
        around = [_around(self.graph, v, depth) for depth, v in some]
        return tuple(Place(items, 1 / len(some), edges) for items, edges in around)


def _around(
    graph: Graph, v: int, depth: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The nodes up to `depth` steps away, nearest first, and the edges on the way."""
    reached, last = {v: None}, [v]
    edges: dict[int, None] = {}
    ends = graph.ends.tolist()
    for _ in range(depth):
        beyond = []
        for number, (a, b) in enumerate(ends):
            for here, there in ((a, b), (b, a)):
                if here in last:
                    edges[number] = None
                    if there not in reached:
                        reached[there] = None
                        beyond.append(there)
        last = beyond
    return tuple(reached), tuple(sorted(edges))


def _by_path(kernel: ShortestPath, X: Points) -> Finder:
    """Where paths begin and end."""
    [graph] = kernel._graphs(X)

    @cache
    def table() -> dict[int, list[tuple[tuple[int, ...], float]]]:
        return {
            number: [(ends, 1.0) for ends in some]
            for number, some in kernel.ends_of_paths(graph).items()
        }

    return lambda key: shared(table().get(key, []))  # type: ignore[call-overload]


# Vectors


def _by_column(kernel: Linear, X: Points) -> Finder:
    return lambda key: (Place((key,)),)


def _by_monomial(kernel: Polynomial | GaussianSeries, X: Points) -> Finder:
    d = as_points(X).shape[1] if hasattr(X, "shape") else len(X[0])

    @cache
    def table() -> list[tuple[int, ...]]:
        if isinstance(kernel, Polynomial):
            chosen = set(kernel._map()._degrees())
        else:
            chosen = set(range(int(kernel.degree) + 1))
        below: list[tuple[int, ...]] = [()]
        found: list[tuple[int, ...]] = []
        for step in steps(d, max(chosen)):
            if step.degree:
                pairs = zip(step.parent.tolist(), step.last.tolist(), strict=True)
                below = [(*below[parent], last) for parent, last in pairs]
            found += below if step.degree in chosen else []
        return found

    def place(key: Any) -> tuple[Place, ...]:
        items = tuple(dict.fromkeys(table()[key]))
        return (Place(items),) if items else ()

    return place


# The algebra


def _inside(kernel: Any, X: Points) -> Finder:
    return finder(kernel.kernel, X)


def _of_image(kernel: Pullback, X: Points) -> Finder:
    return finder(kernel.kernel, kernel._image(X))


def _of_sum(kernel: Sum, X: Points) -> Finder:
    sides = [finder(part, X) for part in (kernel.left, kernel.right)]
    return lambda key: sides[key[0]](key[1])  # type: ignore[index]


def _of_product(kernel: Product, X: Points) -> Finder:
    left, right = finder(kernel.left, X), finder(kernel.right, X)
    return lambda key: together([left(key[0]), right(key[1])])  # type: ignore[index]


def _of_power(kernel: Power | PolynomialOf, X: Points) -> Finder:
    inner = finder(kernel.kernel, X)
    return lambda key: together(
        [inner(part) for part, often in key for _ in range(often)]  # type: ignore[attr-defined]
    )


def _of_series(kernel: PowerSeries, X: Points) -> Finder:
    return lambda key: together([(Place((part,)),) for part, _ in key])  # type: ignore[attr-defined]


def together(some: list[tuple[Place, ...]]) -> tuple[Place, ...]:
    """Where a product of features is: every way to choose a place of each."""
    some = [places for places in some if places]
    if not some:
        return ()
    sizes = np.prod([float(len(places)) for places in some])
    if sizes > MOST_PLACES:
        return ()
    out = []
    for chosen in product(*some):
        items = dict.fromkeys(item for place in chosen for item in place.items)
        edges = dict.fromkeys(edge for place in chosen for edge in place.edges)
        share = float(np.prod([place.share for place in chosen]))
        out.append(Place(tuple(items), share, tuple(edges)))
    return tuple(out)


def columns_of_field(kernel: On, X: Points) -> list[int] | None:
    """Which columns of an array or a sparse matrix a field is; None of other points."""
    if is_frame(X) or not is_vectors(X):
        return None
    return np.atleast_1d(np.arange(X.shape[1])[kernel.field]).tolist()


def item_of_field(kernel: On, X: Points) -> Callable[[Any], Hashable]:
    """What an item of a field is in the whole point."""
    columns = columns_of_field(kernel, as_points(X))
    if columns is not None:
        return columns.__getitem__
    where = kernel.field
    where = tuple(where) if isinstance(where, list) else where
    return lambda item: (where, item)


def _of_field(kernel: On, X: Points) -> Finder:
    inner = finder(kernel.kernel, field(as_points(X), kernel.field))
    item = item_of_field(kernel, X)
    return lambda key: moved(inner(key), item)


_RULES: dict[type[Kernel], Callable[..., Finder]] = {
    Spectrum: _by_windows,
    WeightedDegree: _by_place,
    Mismatch: _by_near,
    Subtree: _by_subtree,
    TaggedTree: _by_tag,
    WeisfeilerLehman: _Patterns,
    ShortestPath: _by_path,
    Linear: _by_column,
    Polynomial: _by_monomial,
    GaussianSeries: _by_monomial,
    PowerSeries: _of_series,
    Scaled: _inside,
    Normalized: _inside,
    Conformal: _inside,
    Pullback: _of_image,
    Sum: _of_sum,
    Product: _of_product,
    Power: _of_power,
    PolynomialOf: _of_power,
    On: _of_field,
}


def single(X: Points, i: int) -> Points:
    """The dataset of point i alone."""
    return take(X, slice(i, i + 1))
