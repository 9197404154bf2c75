"""Kernels that compare a graph with a graph by counts: of patterns, of paths.

Points are graphs in any form that `Graph.of` reads: `Graph`s, tuples (edges, labels),
lists of edges, adjacency matrices, networkx graphs. Nodes without labels all have the
same one, and so have edges. The kernel by walks is in `walk.py`, kernels between the
nodes of one graph are in `node.py`.

Shervashidze et al., JMLR 12 (2011), for `WeisfeilerLehman`; Borgwardt and Kriegel,
ICDM (2005), for `ShortestPath`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import dijkstra

from mercer.data.graphs import Graph, GraphUnion, graphs_of
from mercer.data.points import Points
from mercer.kernels.checks import check_whole
from mercer.kernels.counts import (
    CountKernel,
    Counts,
    beside,
    check_attributes,
    counted,
    label_ids,
    mixed,
)
from mercer.kernels.routes import (
    CHUNK,
    label_texts,
    path_ids,
    rounded,
    route_chunks,
)

LONGEST_NAME = 120  # of a pattern; larger ones are named by their root and id
MOST_TOGETHER = 128  # nodes of a graph whose paths are found together with others'
MOST_DEPTHS = 10_000  # each adds counts, also where it separates no further nodes
FAR = 2**14 - 1  # no path; twice this fits in 16 bits


_OWN, _NEAR, _EDGE = (np.uint64(n) for n in (0x51ED270B, 0xA3B19535, 0x165667B1))


def edge_texts(labels: Sequence[Hashable]) -> list[str]:
    """How labels of edges stand before a node's; nothing for no label."""
    texts = label_texts(labels)
    return [
        "" if label is None else f"{text}:"
        for label, text in zip(labels, texts, strict=True)
    ]


# Patterns


@dataclass
class WeisfeilerLehman(CountKernel):
    """k(G, H) = Σ over depths 0..iterations of the pairs of nodes with equal patterns.

    The pattern of depth 0 of a node is its label, that of depth i its label and the
    patterns of depth i - 1 of its neighbours, each with the label of the edge to it
    where edges have labels. Weights of edges do not matter.

    Parameters
    ----------
    iterations : the largest depth; 0 compares labels only
    label, edge_label : attributes of networkx graphs that are the labels of nodes and
        of edges; None for "label", where there is one

    Examples
    --------
    >>> from mercer import Graph, WeisfeilerLehman
    >>> triangle, path = Graph([(0, 1), (1, 2), (2, 0)]), Graph([(0, 1), (1, 2)])
    >>> WeisfeilerLehman(1)([triangle, path]).tolist()
    [[18.0, 12.0], [12.0, 14.0]]
    """

    iterations: int = 5
    label: str | None = None
    edge_label: str | None = None

    def __post_init__(self) -> None:
        check_whole(self, "iterations", self.iterations, least=0, most=MOST_DEPTHS)
        check_attributes(self, "label", "edge_label")

    def counts(self, X: Points) -> Counts:
        graphs = self._graphs(X)
        union = GraphUnion.of(graphs)
        return beside(
            [counted(union.owner, ids, len(graphs)) for ids in self._refined(union)]
        )

    def _graphs(self, X: Points) -> list[Graph]:
        return graphs_of(X, "WeisfeilerLehman", self.label, self.edge_label)

    def _refined(self, union: GraphUnion) -> Iterator[np.ndarray]:
        """The ids of the patterns of all nodes, depth by depth."""
        ids = label_ids(union.labels)[union.code]
        yield ids
        linked = np.flatnonzero(np.diff(union.first))
        labelled = [label is not None for label in union.edge_labels]
        along = np.flatnonzero(np.array(labelled, dtype=bool)[union.kind])
        edges = mixed(label_ids(union.edge_labels) ^ _EDGE)[union.kind[along]]
        for _ in range(int(self.iterations)):
            around = np.zeros(len(ids), dtype=np.uint64)
            if len(linked):
                near = mixed(ids ^ _NEAR)[union.near]
                near[along] = mixed(near[along] + edges)
                around[linked] = np.add.reduceat(near, union.first[linked])
            ids = mixed(mixed(ids ^ _OWN) + around)
            yield ids

    def feature_names(self, X: Points) -> list[str]:
        """The patterns, such as "depth 1: C(C, O)": a C with the neighbours C and O.

        The label of an edge stands before the neighbour: "depth 1: C(1:C, 2:O)".
        """
        union = GraphUnion.of(self._graphs(X))
        texts = label_texts(union.labels), edge_texts(union.edge_labels)
        names: list[str] = []
        below: list[str] = []  # the name of the pattern of each node, a depth before
        for depth, ids in enumerate(self._refined(union)):
            found, first, which = np.unique(ids, return_index=True, return_inverse=True)
            patterns = [
                self._pattern(union, v, texts, below, number)
                for v, number in zip(first.tolist(), found.tolist(), strict=True)
            ]
            below = [patterns[i] for i in which.tolist()]
            names += [f"depth {depth}: {pattern}" for pattern in patterns]
        return names

    def _pattern(
        self,
        union: GraphUnion,
        v: int,
        texts: tuple[list[str], list[str]],
        below: list[str],
        number: int,
    ) -> str:
        nodes, edges = texts
        root = nodes[union.code[v]]
        if not below:
            return root
        arcs = slice(union.first[v], union.first[v + 1])
        near = union.near[arcs].tolist()
        kinds = (edges[kind] for kind in union.kind[arcs].tolist())
        inside = ", ".join(
            sorted(edge + below[u] for edge, u in zip(kinds, near, strict=True))
        )
        if len(root) + len(inside) > LONGEST_NAME:
            inside = f"{len(near)} neighbours, #{number:016x}"
        return f"{root}({inside})"


# Paths


@dataclass
class ShortestPath(CountKernel):
    """k(G, H) = the pairs of shortest paths, one of G and one of H, that are alike.

    A shortest path goes from a node to another one, and back as a second path; two are
    alike if they agree in the label of the start, that of the end, and the length.
    Weights of edges are their lengths; lengths that agree to 12 digits are equal.

    Where edges have labels, two paths are alike only if these agree too, from the start
    to the end. Two nodes may then be joined by shortest paths that are not alike: each
    sequence of edge labels counts once for the two nodes.

    Parameters
    ----------
    label, edge_label : attributes of networkx graphs that are the labels of nodes and
        of edges; None for "label", where there is one

    Examples
    --------
    >>> from mercer import Graph, ShortestPath
    >>> triangle, path = Graph([(0, 1), (1, 2), (2, 0)]), Graph([(0, 1), (1, 2)])
    >>> ShortestPath()([triangle, path]).tolist()
    [[36.0, 24.0], [24.0, 20.0]]
    """

    label: str | None = None
    edge_label: str | None = None

    def __post_init__(self) -> None:
        check_attributes(self, "label", "edge_label")

    def counts(self, X: Points) -> Counts:
        graphs = self._graphs(X)
        plain = [i for i, g in enumerate(graphs) if g.edge_labels is None]
        paths, labels = _all_paths([graphs[i] for i in plain])
        owner = np.array(plain, dtype=np.intp)[paths.owner]
        parts = [(owner, paths.ids(labels), paths.times)]
        for chunk in route_chunks(graphs):
            for step in chunk.steps():
                parts.append((step.owner, step.ids, np.ones(len(step.ids))))
        rows, ids, times = map(np.concatenate, zip(*parts, strict=True))
        return counted(rows, ids, len(graphs), times)

    def feature_names(self, X: Points) -> list[str]:
        """The paths, such as "C to O in 3"; with labelled edges "C to O in 2: 1 2"."""
        graphs = self._graphs(X)
        names: dict[int, str] = {}
        paths, labels = _all_paths([g for g in graphs if g.edge_labels is None])
        texts = label_texts(labels)
        found, first = np.unique(paths.ids(labels), return_index=True)
        kinds = zip(
            found.tolist(),
            paths.begin[first].tolist(),
            paths.end[first].tolist(),
            paths.length[first].tolist(),
            strict=True,
        )
        for number, a, b, length in kinds:
            names[number] = f"{texts[a]} to {texts[b]} in {length:.12g}"
        for chunk in route_chunks(graphs):
            names |= chunk.names()
        return [names[number] for number in sorted(names)]

    def ends_of_paths(self, graph: Graph) -> dict[int, list[tuple[int, int]]]:
        """Where the paths of each id begin and end."""
        found: dict[int, list[tuple[int, int]]] = {}
        if graph.edge_labels is not None:
            for chunk in route_chunks([graph]):
                start = chunk.union.start[chunk.union.owner]
                for step in chunk.steps():
                    ends = chunk.sources[step.source], step.node
                    a, b = ((end - start[end]).tolist() for end in ends)
                    for number, u, v in zip(step.ids.tolist(), a, b, strict=True):
                        found.setdefault(number, []).append((u, v))
            return found
        union = GraphUnion.of([graph])
        labels = label_ids(union.labels)[union.code]
        for _, u, v, length in _distances([graph], union):
            exact = rounded(length) if length.dtype.kind == "f" else length
            for a, b in ((u, v), (v, u)):
                ids = path_ids(labels[a], labels[b], exact.astype(float))
                pairs = zip(a.tolist(), b.tolist(), strict=True)
                for number, pair in zip(ids.tolist(), pairs, strict=True):
                    found.setdefault(number, []).append(pair)
        return found

    def _graphs(self, X: Points) -> list[Graph]:
        return graphs_of(X, "ShortestPath", self.label, self.edge_label)


class Paths(NamedTuple):
    """Shortest paths that are alike, as columns: whose, from, to, how long and many."""

    owner: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    length: np.ndarray
    times: np.ndarray

    def ids(self, labels: Sequence[Hashable]) -> np.ndarray:
        ids = label_ids(labels)
        return path_ids(ids[self.begin], ids[self.end], self.length)


def _all_paths(graphs: Sequence[Graph]) -> tuple[Paths, list[Hashable]]:
    """The shortest paths of all graphs, and the labels they refer to."""
    union = GraphUnion.of(graphs)
    blocks = [
        _alike(owner, union.code[u], union.code[v], length)
        for owner, u, v, length in _distances(graphs, union)
    ]
    if not blocks:
        none = np.empty(0, dtype=np.intp)
        return Paths(none, none, none, np.empty(0), np.empty(0)), union.labels
    half = Paths(*map(np.concatenate, zip(*blocks, strict=True)))
    back = half._replace(begin=half.end, end=half.begin)
    return Paths(*map(np.append, half, back)), union.labels


def _alike(
    owner: np.ndarray, a: np.ndarray, b: np.ndarray, length: np.ndarray
) -> Paths:
    """Undirected paths counted: those alike as one row, the smaller label first."""
    a, b = np.minimum(a, b), np.maximum(a, b)
    lengths, step = np.unique(length, return_inverse=True)
    if lengths.dtype.kind == "f":
        lengths = rounded(lengths)
    key = np.zeros(len(owner), dtype=np.int64)
    spans = 1
    for column in (owner, a, b, step):
        span = int(column.max()) + 1
        if spans * span >= 2**62:  # would overflow: number the keys afresh
            distinct, key = np.unique(key, return_inverse=True)
            spans = len(distinct)
        key, spans = key * span + column, spans * span
    _, first, times = np.unique(key, return_index=True, return_counts=True)
    return Paths(
        owner[first],
        a[first],
        b[first],
        lengths[step[first]].astype(float),
        times.astype(float),
    )


# Distances


def _distances(
    graphs: Sequence[Graph], union: GraphUnion
) -> Iterator[tuple[np.ndarray, ...]]:
    """Blocks of (graph, node, other node, distance), each pair of linked nodes once."""
    together: dict[tuple[int, bool], list[int]] = {}
    for i, graph in enumerate(graphs):
        n = len(graph.nodes)
        plain = bool((graph.weights == 1).all())
        if n > MOST_TOGETHER:
            yield from _distances_within(i, graph, plain, union.start[i])
        elif len(graph.ends):
            together.setdefault((-(-n // 4) * 4, plain), []).append(i)
    for (size, plain), members in together.items():
        most = max(1, CHUNK // size**2)
        for j in range(0, len(members), most):
            some = members[j : j + most]
            found = _distances_across(graphs, some, size, plain, union)
            if len(found[0]):
                yield found


def _distances_within(
    i: int, graph: Graph, plain: bool, start: int
) -> Iterator[tuple[np.ndarray, ...]]:
    """Of one large graph, some sources at a time."""
    A, n = graph.adjacency(), len(graph.nodes)
    rows = max(1, CHUNK // n)
    for j in range(0, n, rows):
        sources = np.arange(j, min(j + rows, n))
        D = dijkstra(A, directed=False, indices=sources, unweighted=plain)
        u, v = np.nonzero(np.isfinite(D) & (np.arange(n) > sources[:, None]))
        if len(u):
            yield np.full(len(u), i), start + j + u, start + v, D[u, v]


def _distances_across(
    graphs: Sequence[Graph],
    members: list[int],
    size: int,
    plain: bool,
    union: GraphUnion,
) -> tuple[np.ndarray, ...]:
    """Of many small graphs at once: Floyd's and Warshall's algorithm, side by side."""
    far = FAR if plain else np.inf
    D = np.full((len(members), size, size), far, dtype=np.int16 if plain else float)
    for place, i in enumerate(members):
        u, v = graphs[i].ends.T
        D[place, u, v] = D[place, v, u] = 1 if plain else graphs[i].weights
    by = np.empty_like(D)
    for k in range(size):
        np.add(D[:, :, k : k + 1], D[:, k : k + 1, :], out=by)
        np.minimum(D, by, out=D)
    u, v = np.triu_indices(size, 1)
    D = D[:, u, v]
    row, pair = np.nonzero(D < far)
    owner = np.array(members)[row]
    start = union.start[owner]
    return owner, start + u[pair], start + v[pair], D[row, pair]
