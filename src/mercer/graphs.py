"""Graph: a small immutable container for points that are graphs, or have one.

Kernels take graphs in any of three forms, which `Graph.of` brings to one: a `Graph`,
a pair (edges, labels), or an object of the networkx kind, read through its methods.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from mercer.points import as_points, describe, each


class Graph:
    """G = (V, E), undirected: nodes of any hashable kind, labels, weights on edges.

    An edge given twice, also as (v, u), is one edge. Graphs are equal where they have
    the same nodes, labels and weighted edges, in whatever order.

    Parameters
    ----------
    edges : pairs (u, v) or triples (u, v, weight); a weight is a number > 0, else 1
    labels : {node: label}, or the labels of the nodes 0..n-1 (a text:
        one letter each); None for no labels
    nodes : the nodes, where neither labels nor edges name them all
    """

    def __init__(
        self,
        edges: Iterable,
        labels: Mapping | Sequence | None = None,
        *,
        nodes: Iterable[Hashable] | None = None,
    ):
        edges = _listed(edges, "edges")
        self._nodes, self._labels = _named(edges, labels, nodes)
        self._ends, self._weights = _numbered(edges, self._nodes)
        for array in (self._ends, self._weights):
            array.flags.writeable = False

    @classmethod
    def of(cls, x, who: str = "A graph kernel", what: str = "the point") -> Graph:
        """x as a graph; `who` needs it and `what` it is, for the error."""
        if isinstance(x, cls):
            return x
        if all(hasattr(x, name) for name in ("nodes", "edges", "is_directed")):
            return cls.from_networkx(x)
        if isinstance(x, tuple) and len(x) == 2:
            return cls(*x)
        raise TypeError(
            f"{who} needs graphs; {what} is {describe(x)}. Pass a Graph, a tuple "
            "(edges, labels) or a networkx graph."
        )

    @classmethod
    def from_networkx(
        cls, graph: Any, *, label: str = "label", weight: str | None = "weight"
    ) -> Graph:
        """A networkx graph, or an object with the same methods, as a Graph.

        Parameters
        ----------
        label : the node attribute that is the label; where no node has it, no labels
        weight : the edge attribute that is the weight, 1 where absent; None ignores it
        """
        if graph.is_directed():
            raise ValueError(
                "Graphs are undirected here; got a directed one. Pass "
                "graph.to_undirected() if the direction does not matter."
            )
        if graph.is_multigraph():
            raise ValueError(
                "Two nodes are joined by one edge at most here; got a multigraph. Pass "
                "networkx.Graph(graph), with the weights of parallel edges added up."
            )
        given = dict(graph.nodes(data=True))
        labels = {node: data[label] for node, data in given.items() if label in data}
        if 0 < len(labels) < len(given):
            bare = next(node for node in given if node not in labels)
            raise ValueError(
                f"Either all nodes of a graph have a label or none; node {bare!r} has "
                f"no attribute {label!r}."
            )
        edges = (
            [(u, v) for u, v in graph.edges()]
            if weight is None
            else [(u, v, w) for u, v, w in graph.edges(data=weight, default=1)]
        )
        return cls(edges, labels or None, nodes=given)

    @property
    def nodes(self) -> Sequence[Hashable]:
        """The names of the nodes, in the order of all arrays."""
        return self._nodes

    @property
    def labels(self) -> tuple[Hashable, ...] | None:
        """The labels of the nodes, or None."""
        return self._labels

    @property
    def colours(self) -> Sequence[Hashable]:
        """The labels; None for every node where there are no labels."""
        return (None,) * len(self._nodes) if self._labels is None else self._labels

    @property
    def ends(self) -> np.ndarray:
        """(m, 2) whole numbers: the places of the ends of each edge, smaller first."""
        return self._ends

    @property
    def weights(self) -> np.ndarray:
        """The (m,) weights of the edges."""
        return self._weights

    @cached_property
    def index(self) -> dict[Hashable, int]:
        """The place of each node."""
        return {node: i for i, node in enumerate(self._nodes)}

    def adjacency(self) -> sp.csr_array:
        """A, (n, n) and symmetric: the weight of the edge between two nodes, else 0."""
        n, (u, v) = len(self._nodes), self._ends.T
        apart = u != v  # a loop is one entry
        rows, columns = np.append(u, v[apart]), np.append(v, u[apart])
        entries = np.append(self._weights, self._weights[apart])
        return sp.csr_array((entries, (rows, columns)), shape=(n, n))

    def laplacian(self) -> sp.csr_array:
        """L = D - A, D the sums of the rows of A: wᵀLw = Σ over edges Aᵢⱼ(wᵢ - wⱼ)²."""
        A = self.adjacency()
        return sp.csr_array(sp.diags_array(A.sum(axis=1)) - A)

    def _content(self):
        """What equality compares."""
        nodes = self._nodes
        pairs = (frozenset((nodes[i], nodes[j])) for i, j in self._ends.tolist())
        edges = frozenset(zip(pairs, self._weights.tolist(), strict=True))
        if self._labels is None:
            return frozenset(nodes), edges
        return frozenset(zip(nodes, self._labels, strict=True)), edges

    def __eq__(self, other) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        if self is other:
            return True
        sizes = [
            (len(g._nodes), len(g._ends), g._labels is None) for g in (self, other)
        ]
        return sizes[0] == sizes[1] and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def __getstate__(self):
        return {key: part for key, part in vars(self).items() if key != "index"}

    def __copy__(self) -> Graph:
        return self  # nothing can change it

    def __deepcopy__(self, memo) -> Graph:
        return self

    def __repr__(self) -> str:
        labelled = "" if self._labels is None else ", labelled"
        nodes, edges = len(self._nodes), len(self._ends)
        return (
            f"<Graph of {nodes} node{'s' * (nodes != 1)} and {edges} "
            f"edge{'s' * (edges != 1)}{labelled}>"
        )


class GraphUnion(NamedTuple):
    """Many graphs as one: their nodes side by side."""

    start: np.ndarray  # (n + 1,): the nodes of graph i are start[i]..start[i + 1] - 1
    labels: list[Hashable]  # the different labels
    code: np.ndarray  # the number of each node's label among them
    first: np.ndarray  # the neighbours of node v are near[first[v]:first[v + 1]]
    near: np.ndarray
    weights: np.ndarray  # of the edges to them

    @classmethod
    def of(cls, graphs: Sequence[Graph]) -> GraphUnion:
        start = np.append(0, np.cumsum([len(g.nodes) for g in graphs], dtype=np.intp))
        number: dict[Hashable, int] = {}
        codes = [
            number.setdefault(label, len(number)) for g in graphs for label in g.colours
        ]
        none = Graph([])
        ends = np.concatenate([none.ends, *(g.ends for g in graphs)])
        ends = ends + np.repeat(start[:-1], [len(g.ends) for g in graphs])[:, None]
        weights = np.concatenate([none.weights, *(g.weights for g in graphs)])
        apart = ends[:, 0] != ends[:, 1]  # by a loop a node is its own neighbour once
        own, near = np.concatenate([ends, ends[apart, ::-1]]).T
        order = np.argsort(own, kind="stable")
        return cls(
            start,
            list(number),
            np.array(codes, dtype=np.intp),
            np.append(0, np.cumsum(np.bincount(own, minlength=start[-1]))),
            near[order],
            np.append(weights, weights[apart])[order],
        )

    @property
    def owner(self) -> np.ndarray:
        """The graph of each node."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def adjacency(self) -> sp.csr_array:
        """A of all the graphs, block by block."""
        size = int(self.start[-1])
        return sp.csr_array((self.weights, self.near, self.first), shape=(size, size))


def graphs_of(X, who: str) -> list[Graph]:
    """The points of X as graphs; the error names the one that is none."""
    graphs = []
    for i, x in enumerate(each(as_points(X))):
        try:
            graphs.append(Graph.of(x, who, f"point {i}"))
        except (TypeError, ValueError) as error:
            error.add_note(f"This is point {i}.")
            raise
    return graphs


def _listed(items, what: str) -> list:
    if isinstance(items, np.ndarray):
        return items.tolist()
    if isinstance(items, bytes) or not isinstance(items, Iterable):
        raise TypeError(f"A graph needs a list of {what}; got {describe(items)}.")
    return list(items)


def _named(edges: list, labels, nodes) -> tuple[Sequence, tuple | None]:
    """The nodes, and their labels in the same order."""
    if nodes is None and labels is None:
        ends = (end for edge in edges for end in _pair(edge))
        return tuple(_hashable(ends, "node")), None
    if nodes is None and not isinstance(labels, Mapping):
        labels = tuple(_listed(labels, "labels"))
        _hashable(labels, "label")
        return range(len(labels)), labels
    names = tuple(_hashable(labels if nodes is None else nodes, "node"))
    if labels is None:
        return names, None
    if not isinstance(labels, Mapping):
        labels = dict(zip(names, _listed(labels, "labels"), strict=True))
    if labels.keys() != set(names):
        odd = next(iter(labels.keys() ^ set(names)))
        raise ValueError(
            f"Each node of a graph has one label; {odd!r} is among the "
            f"{'labels' if odd in labels else 'nodes'} only."
        )
    _hashable(labels.values(), "label")
    return names, tuple(labels[node] for node in names)


def _pair(edge) -> tuple:
    """The two ends of an edge."""
    try:
        u, v, *_ = edge
    except (TypeError, ValueError):
        raise TypeError(
            f"An edge is a pair (u, v) or a triple (u, v, weight); got "
            f"{describe(edge)}."
        ) from None
    return u, v


def _hashable(names: Iterable, what: str) -> dict:
    """The names without repetition, in order."""
    try:
        return dict.fromkeys(names)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        raise TypeError(
            f"The {what}s of a graph must be hashable (numbers, strings, tuples); "
            f"{error}. Make a tuple of a list or an array."
        ) from None


def _numbered(edges: list, nodes: Sequence) -> tuple[np.ndarray, np.ndarray]:
    """The places of the ends of the edges, smaller first, and the weights; sorted."""
    n, place = len(nodes), {node: i for i, node in enumerate(nodes)}
    try:
        keys = sorted(
            {
                i * n + j if i <= j else j * n + i
                for i, j in ((place[u], place[v]) for u, v in edges)
            }
        )
        weights = np.ones(len(keys))
    except (TypeError, ValueError, KeyError):  # not all plain pairs of nodes
        weighted = _weighted(edges, place)
        keys = sorted(weighted)
        weights = np.array([weighted[key] for key in keys])
    ends = np.empty((len(keys), 2), dtype=np.intp)
    np.divmod(np.array(keys, dtype=np.intp), n or 1, out=(ends[:, 0], ends[:, 1]))
    return ends, weights


def _weighted(edges: list, place: dict) -> dict[int, float]:
    """The weight of each edge, by its place in the matrix of all pairs."""
    weights: dict[int, float] = {}
    for k, edge in enumerate(edges):
        u, v = _pair(edge)
        for end in _hashable((u, v), "node"):
            if end not in place:
                raise ValueError(
                    f"Edge {k} ends in {end!r}, which is none of the {len(place)} "
                    "nodes. Give every node a label, or list it in nodes."
                )
        i, j = sorted((place[u], place[v]))
        weight = 1.0 if len(edge) == 2 else _weight(k, edge)
        if weights.setdefault(i * len(place) + j, weight) != weight:
            raise ValueError(
                f"The edge between {u!r} and {v!r} is given twice, with the weights "
                f"{weights[i * len(place) + j]:g} and {weight:g}. Give it once."
            )
    return weights


def _weight(i: int, edge) -> float:
    *_, weight = edge
    try:
        number = float(weight) if len(edge) == 3 else np.nan
    except (TypeError, ValueError):
        number = np.nan
    if not (number > 0 and np.isfinite(number)):
        raise ValueError(
            f"Edge {i} is {edge!r}: an edge is (u, v) or (u, v, weight), its weight a "
            "finite number > 0. Leave edges of weight 0 out."
        )
    return number
