"""Graph: a small immutable container for points that are graphs, or have one.

Kernels take graphs in many forms, which `Graph.of` brings to one: a `Graph`; a list of
edges; a tuple (edges, labels) or (edges, labels, edge labels); a numpy or scipy matrix
of the weights of edges, alone or in the place of the edges; an object of the networkx
kind, read through its methods.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from mercer import _html
from mercer.data.checks import describe
from mercer.data.edges import (
    edges_of,
    is_matrix,
    labels_of_edges,
    listed,
    named,
    numbered,
    shape_of,
    square_side,
)
from mercer.data.points import Points, as_points, objects
from mercer.native.sparsity import Vectors

_NO_ENDS = np.empty((0, 2), dtype=np.intp)  # the edges of an empty set of graphs
MOST_DRAWN = 200  # nodes of a graph that a notebook draws
MOST_DRAWN_EDGES = 1000
FORMS = (
    "Pass a Graph, a tuple (edges, labels), a list of edges (u, v), a square matrix of "
    "the weights of edges, or a networkx graph."
)


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
    edge_labels : {(u, v): label}, or a label for each of the edges as they are given;
        None for no labels

    Examples
    --------
    >>> from mercer import Graph
    >>> water = Graph([(0, 1), (0, 2)], labels="OHH")
    >>> water
    <Graph of 3 nodes and 2 edges, labelled>
    >>> water.adjacency().toarray().tolist()
    [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """

    _edge_labels: tuple[Hashable, ...] | None = None

    def __init__(
        self,
        edges: Iterable[Any],
        labels: Mapping[Any, Hashable] | Sequence[Hashable] | None = None,
        *,
        nodes: Iterable[Hashable] | None = None,
        edge_labels: Mapping[Any, Hashable] | Sequence[Hashable] | None = None,
    ) -> None:
        edges = listed(edges, "edges")
        self._nodes, self._labels = named(edges, labels, nodes)
        self._ends, self._weights = numbered(edges, self._nodes)
        self._name_edges(edge_labels, edges)

    def _name_edges(self, given: Any, edges: list[Any] | None) -> None:
        """Take the labels of the edges; nothing changes after that."""
        if given is not None:
            self._edge_labels = labels_of_edges(given, edges, self.index, self._ends)
        for array in (self._ends, self._weights):
            array.flags.writeable = False

    @classmethod
    def of(
        cls,
        x: Any,
        who: str = "A graph kernel",
        what: str = "the point",
        label: str | None = None,
        edge_label: str | None = None,
    ) -> Graph:
        """x as a graph; `who` needs it and `what` it is, for the error.

        Parameters
        ----------
        label, edge_label : attributes of networkx graphs that are labels and must be
            there; None for "label", where there is one
        """
        if isinstance(x, cls):
            return x
        if all(hasattr(x, name) for name in ("nodes", "edges", "is_directed")):
            return _from_attributes(x, label, edge_label)
        if isinstance(x, tuple) and len(x) in (2, 3):
            return _from_parts(*x)
        if is_matrix(x) and x.ndim == 2:
            return cls.from_adjacency(x)
        if isinstance(x, list) and not any(isinstance(edge, str) for edge in x):
            return cls(x)
        raise TypeError(f"{who} needs graphs; {what} is {shape_of(x)}. {FORMS}")

    @classmethod
    def from_adjacency(
        cls,
        A: Vectors,
        labels: Mapping[Any, Hashable] | Sequence[Hashable] | None = None,
        *,
        nodes: Iterable[Hashable] | None = None,
        edge_labels: Mapping[Any, Hashable] | None = None,
    ) -> Graph:
        """The graph with the edges {i, j} where A(i, j) or A(j, i) is not 0.

        That is their weight; where both are not 0 they must agree. So the matrices of
        `kneighbors_graph` are read as they are: i and j are joined if either is among
        the nearest of the other.

        Parameters
        ----------
        A : (n, n) array or sparse matrix, entries ≥ 0; zeros that are stored in a
            sparse matrix are no edges either
        labels : of the nodes, as of a Graph
        nodes : the names of the nodes; None for 0..n-1
        edge_labels : {(u, v): label} or None
        """
        if not is_matrix(A):
            raise TypeError(
                f"Graph.from_adjacency needs a numpy or scipy matrix; got "
                f"{describe(A)}. Lists of edges are for Graph(edges)."
            )
        n = square_side(A)
        graph = cls.__new__(cls)
        graph._nodes, graph._labels = named(
            [], labels, range(n) if nodes is None else nodes
        )
        if len(graph._nodes) != n:
            raise ValueError(
                f"An adjacency matrix of shape {A.shape} has {n} nodes; got "
                f"{len(graph._nodes)} names of nodes."
            )
        graph._ends, graph._weights = edges_of(A)
        graph._name_edges(edge_labels, None)
        return graph

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        *,
        label: str = "label",
        weight: str | None = "weight",
        edge_label: str | None = "label",
    ) -> Graph:
        """A networkx graph, or an object with the same methods, as a Graph.

        Parameters
        ----------
        label : the node attribute that is the label; where no node has it, no labels
        weight : the edge attribute that is the weight, 1 where absent; None ignores it
        edge_label : the edge attribute that is the label of the edge; where no edge
            has it, no labels; None ignores it
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
        kinds = [] if edge_label is None else graph.edges(data=edge_label, default=None)
        edge_labels = {(u, v): kind for u, v, kind in kinds if kind is not None}
        return cls(edges, labels or None, nodes=given, edge_labels=edge_labels or None)

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
    def edge_labels(self) -> tuple[Hashable, ...] | None:
        """The labels of the edges, or None."""
        return self._edge_labels

    @property
    def edge_colours(self) -> Sequence[Hashable]:
        """The labels; None for every edge where there are no labels."""
        if self._edge_labels is None:
            return (None,) * len(self._ends)
        return self._edge_labels

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

    def _content(self) -> tuple[frozenset[Any], frozenset[Any]]:
        """What equality compares."""
        nodes = self._nodes
        pairs = (frozenset((nodes[i], nodes[j])) for i, j in self._ends.tolist())
        edges = frozenset(
            zip(pairs, self._weights.tolist(), self.edge_colours, strict=True)
        )
        if self._labels is None:
            return frozenset(nodes), edges
        return frozenset(zip(nodes, self._labels, strict=True)), edges

    def __eq__(self, other: object) -> bool:
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

    def __getstate__(self) -> dict[str, Any]:
        return {key: part for key, part in vars(self).items() if key != "index"}

    def __copy__(self) -> Graph:
        return self  # nothing can change it

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        return self

    def __repr__(self) -> str:
        labelled = "" if self._labels is None else ", labelled"
        if self._edge_labels is not None:
            labelled += ", edges labelled"
        nodes, edges = len(self._nodes), len(self._ends)
        return (
            f"<Graph of {nodes} node{'s' * (nodes != 1)} and {edges} "
            f"edge{'s' * (edges != 1)}{labelled}>"
        )

    def _repr_svg_(self) -> str | None:
        """None for a large graph, whose repr is shown instead."""
        if len(self._nodes) > MOST_DRAWN or len(self._ends) > MOST_DRAWN_EDGES:
            return None
        return _drawn(self)


class GraphUnion(NamedTuple):
    """Many graphs as one: their nodes side by side."""

    start: np.ndarray  # (n + 1,): the nodes of graph i are start[i]..start[i + 1] - 1
    labels: list[Hashable]  # the different labels
    code: np.ndarray  # the number of each node's label among them
    first: np.ndarray  # the neighbours of node v are near[first[v]:first[v + 1]]
    near: np.ndarray
    weights: np.ndarray  # of the edges to them
    edge_labels: list[Hashable]  # the different labels of edges, None for no label
    kind: np.ndarray  # the number of each such edge's label among them

    @classmethod
    def of(cls, graphs: Sequence[Graph]) -> GraphUnion:
        start = np.append(0, np.cumsum([len(g.nodes) for g in graphs], dtype=np.intp))
        number: dict[Hashable, int] = {}
        codes = [
            number.setdefault(label, len(number)) for g in graphs for label in g.colours
        ]
        ends = np.concatenate([_NO_ENDS, *(g.ends for g in graphs)])
        ends = ends + np.repeat(start[:-1], [len(g.ends) for g in graphs])[:, None]
        weights = np.concatenate([np.empty(0), *(g.weights for g in graphs)])
        apart = ends[:, 0] != ends[:, 1]  # by a loop a node is its own neighbour once
        own, near = np.concatenate([ends, ends[apart, ::-1]]).T
        order = np.argsort(own, kind="stable")
        edge_labels, kind = _edge_kinds(graphs, len(ends))
        return cls(
            start,
            list(number),
            np.array(codes, dtype=np.intp),
            np.append(0, np.cumsum(np.bincount(own, minlength=start[-1]))),
            near[order],
            np.append(weights, weights[apart])[order],
            edge_labels,
            np.append(kind, kind[apart])[order],
        )

    @property
    def owner(self) -> np.ndarray:
        """The graph of each node."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def adjacency(self, kind: int | None = None) -> sp.csr_array:
        """A of all the graphs, block by block; with the edges of one label only."""
        size = int(self.start[-1])
        weights = self.weights if kind is None else self.weights * (self.kind == kind)
        return sp.csr_array((weights, self.near, self.first), shape=(size, size))


def _edge_kinds(graphs: Sequence[Graph], m: int) -> tuple[list[Hashable], np.ndarray]:
    """The different labels of all edges, and the number of each edge's among them."""
    if all(g.edge_labels is None for g in graphs):
        return [None], np.zeros(m, dtype=np.intp)
    number: dict[Hashable, int] = {}
    kinds = [number.setdefault(e, len(number)) for g in graphs for e in g.edge_colours]
    return list(number), np.array(kinds, dtype=np.intp)


def graphs_of(
    X: Points, who: str, label: str | None = None, edge_label: str | None = None
) -> list[Graph]:
    """The points of X as graphs; the error names the one that is none."""
    graphs = []
    points = X if type(X) is list else objects(as_points(X))
    for i, x in enumerate(points):
        try:
            graphs.append(Graph.of(x, who, f"point {i}", label, edge_label))
        except (TypeError, ValueError) as error:
            error.add_note(f"This is point {i}.")
            raise
    return graphs


def _from_attributes(graph: Any, label: str | None, edge_label: str | None) -> Graph:
    """A networkx graph by the attributes a kernel was given, which must be there."""
    read = Graph.from_networkx(
        graph, label=label or "label", edge_label=edge_label or "label"
    )
    if label and len(read.nodes) and read.labels is None:
        there = {key for _, data in graph.nodes(data=True) for key in data}
        raise ValueError(
            f"label={label!r} names the attribute of the nodes that is their label; "
            f"the nodes of this graph have {_attributes(there)}."
        )
    if edge_label and len(read.ends) and read.edge_labels is None:
        there = {key for *_, data in graph.edges(data=True) for key in data}
        raise ValueError(
            f"edge_label={edge_label!r} names the attribute of the edges that is their "
            f"label; the edges of this graph have {_attributes(there)}."
        )
    return read


def _attributes(names: set[Any]) -> str:
    return f"only {', '.join(sorted(map(repr, names)))}" if names else "no attributes"


def _from_parts(edges: Any, labels: Any, edge_labels: Any = None) -> Graph:
    """A graph from a tuple, in which a matrix may stand for the edges."""
    if sp.issparse(edges):
        return Graph.from_adjacency(edges, labels, edge_labels=edge_labels)
    if not (isinstance(edges, np.ndarray) and edges.ndim == 2):
        return Graph(edges, labels, edge_labels=edge_labels)
    rows, columns = edges.shape
    square = rows == columns and labels is not None and len(labels) == rows
    if square and columns in (2, 3):
        raise ValueError(
            f"An array of shape {edges.shape} with {rows} labels may be {rows} edges "
            f"or the weights between {rows} nodes. Pass Graph(edges, labels) or "
            "Graph.from_adjacency(A, labels)."
        )
    if columns in (2, 3):
        return Graph(edges, labels, edge_labels=edge_labels)
    return Graph.from_adjacency(edges, labels, edge_labels=edge_labels)


def _drawn(graph: Graph, spacing: float = 22) -> str:
    """An SVG with the nodes on a circle, their labels (or names) outside."""
    n = len(graph.nodes)
    words = graph.nodes if graph.labels is None else graph.labels
    longest = max((len(_html.shortened(word)) for word in words), default=0)
    radius = max(50.0, spacing * n / (2 * np.pi))
    middle = radius + 30 + _html.LETTER * longest
    angles = 2 * np.pi * np.arange(n) / max(n, 1) - np.pi / 2
    cos, sin = np.cos(angles), np.sin(angles)
    x, y = middle + radius * cos, middle + radius * sin
    parts = []
    edges = zip(graph.ends.tolist(), graph.weights, graph.edge_colours, strict=True)
    for (i, j), weight, kind in edges:
        title = f"{graph.nodes[i]} - {graph.nodes[j]}, weight {weight:g}"
        if i == j:
            at = middle + (radius - 9) * cos[i], middle + (radius - 9) * sin[i]
            parts.append(_html.circle(*at, 9, title, filled=False))
        else:
            parts.append(_html.line(x[i], y[i], x[j], y[j], title))
        if kind is not None:
            parts.append(_html.label((x[i] + x[j]) / 2, (y[i] + y[j]) / 2, kind))
    for i, word in enumerate(words):
        anchor = "middle" if abs(cos[i]) < 0.1 else "start" if cos[i] > 0 else "end"
        at = middle + (radius + 16) * cos[i], middle + (radius + 16) * sin[i]
        parts.append(_html.circle(x[i], y[i], 4, graph.nodes[i]))
        parts.append(_html.label(*at, word, anchor))
    return _html.drawing(2 * middle, 2 * middle, parts)
