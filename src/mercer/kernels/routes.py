"""Shortest paths along labelled edges: which sequences of labels lead from u to v.

All paths are followed together, an edge at a time, along edges that lie on a shortest
path; those from u to v with the same labels so far become one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import dijkstra

from mercer.data.graphs import Graph, GraphUnion
from mercer.kernels.counts import label_ids, mixed

CHUNK = 2**18  # distances that are held at a time
MOST_ROUTES = 2**22  # sequences of edge labels that are followed at a time

_START, _END, _EDGE, _ROUTE = (
    np.uint64(n) for n in (0xC2B2AE35, 0x27D4EB2F, 0x165667B1, 0x9E3779B1)
)


def label_texts(labels: Sequence[Hashable]) -> list[str]:
    """How labels are written in names; • stands for no label."""
    texts = ["•" if label is None else str(label) for label in labels]
    return texts if len(set(texts)) == len(texts) else [repr(label) for label in labels]


def path_ids(
    start: np.ndarray, end: np.ndarray, length: np.ndarray, route: np.ndarray | int = 0
) -> np.ndarray:
    """Ids of paths from those of the labels at their ends, their lengths and edges."""
    bits = length.astype(np.float64).view(np.uint64)
    return mixed(mixed(start ^ _START) + mixed(end ^ _END) + mixed(bits) + route)


def rounded(lengths: np.ndarray) -> np.ndarray:
    """Lengths > 0 to 12 digits; the order of a sum shows in the 16th."""
    unit = 10.0 ** (11 - np.floor(np.log10(lengths)))
    return np.rint(lengths * unit) / unit


class Step(NamedTuple):
    """Shortest paths of one more edge, one for each sequence of edge labels."""

    owner: np.ndarray  # the graph
    ids: np.ndarray
    source: np.ndarray  # its row among the sources
    node: np.ndarray  # where it has got to
    parent: np.ndarray  # its row in the step before
    kind: np.ndarray  # the label of its last edge


class RouteChunk(NamedTuple):
    """Some sources in some graphs with labelled edges, followed together."""

    union: GraphUnion
    owner: np.ndarray  # the number of each graph of the union
    sources: np.ndarray  # nodes of the union
    D: np.ndarray  # the distance of source s and node v is D[row[s] + v]
    row: np.ndarray

    def steps(self) -> Iterator[Step]:
        """Shortest paths from all sources, one edge longer at a time."""
        union, D, row = self.union, self.D, self.row
        labels = label_ids(union.labels)[union.code]
        edges = mixed(label_ids(union.edge_labels) ^ _EDGE)
        source, node = np.arange(len(self.sources)), self.sources
        route = np.zeros(len(source), dtype=np.uint64)
        while len(node):
            parent, arc = _arcs(union, node)
            beyond, via = union.near[arc], source[parent]
            here, there = D[row[via] + node[parent]], D[row[via] + beyond]
            by_edge = here + union.weights[arc]
            # Sums in another order differ in the 16th digit.
            shortest = (there > here) & (by_edge <= there * (1 + 1e-12))
            parent, arc = parent[shortest], arc[shortest]
            source, node = source[parent], union.near[arc]
            route = mixed(mixed(route[parent] ^ _ROUTE) + edges[union.kind[arc]])
            place = (source * len(union.code) + node).astype(np.uint64)
            _, some = np.unique(mixed(mixed(route) + place), return_index=True)
            source, node, route = source[some], node[some], route[some]
            start = self.sources[source]
            length = rounded(D[row[source] + node])
            ids = path_ids(labels[start], labels[node], length, mixed(route ^ _EDGE))
            owner = self.owner[union.owner[node]]
            yield Step(owner, ids, source, node, parent[some], union.kind[arc[some]])

    def names(self) -> dict[int, str]:
        """The name of each id, such as "C to O in 2: 1 2"."""
        texts = label_texts(self.union.labels)
        edges = label_texts(self.union.edge_labels)
        before = [""] * len(self.sources)
        names = {}
        for step in self.steps():
            before = [
                f"{before[i]} {edges[kind]}"
                for i, kind in zip(
                    step.parent.tolist(), step.kind.tolist(), strict=True
                )
            ]
            lengths = self.D[self.row[step.source] + step.node]
            start, end = self.union.code[[self.sources[step.source], step.node]]
            for number, a, b, length, route in zip(
                step.ids.tolist(), start, end, lengths, before, strict=True
            ):
                names[number] = f"{texts[a]} to {texts[b]} in {length:.12g}:{route}"
        return names


def _arcs(union: GraphUnion, node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The arcs from some nodes: the row that each begins at, and its place."""
    degree = union.first[node + 1] - union.first[node]
    total = int(degree.sum())
    if total > MOST_ROUTES:
        raise ValueError(
            f"ShortestPath tells paths apart by the labels of their edges; these "
            f"graphs have more than {MOST_ROUTES:,} such sequences of one length. "
            "Leave the edge labels out, or use WeisfeilerLehman."
        )
    parent = np.repeat(np.arange(len(node)), degree)
    skipped = union.first[node] - (np.cumsum(degree) - degree)
    return parent, np.arange(total) + skipped[parent]


def route_chunks(graphs: Sequence[Graph]) -> Iterator[RouteChunk]:
    """The graphs with labelled edges, about CHUNK distances at a time."""
    waiting: list[tuple[int, np.ndarray]] = []  # a graph, and some of its nodes
    room = CHUNK
    for i, graph in enumerate(graphs):
        if graph.edge_labels is None:
            continue
        n = len(graph.nodes)
        most = max(1, CHUNK // max(n, 1))
        for j in range(0, n, most):
            sources = np.arange(j, min(j + most, n))
            if waiting and len(sources) * n > room:
                yield _route_chunk(graphs, waiting)
                waiting, room = [], CHUNK
            waiting.append((i, sources))
            room -= len(sources) * n
    if waiting:
        yield _route_chunk(graphs, waiting)


def _route_chunk(
    graphs: Sequence[Graph], members: list[tuple[int, np.ndarray]]
) -> RouteChunk:
    some = [graphs[i] for i, _ in members]
    union = GraphUnion.of(some)
    tables = [
        dijkstra(
            g.adjacency(),
            directed=False,
            indices=sources,
            unweighted=bool((g.weights == 1).all()),
        )
        for g, (_, sources) in zip(some, members, strict=True)
    ]
    rows, size = [], 0
    for start, table in zip(union.start.tolist(), tables, strict=False):
        rows.append(size - start + table.shape[1] * np.arange(table.shape[0]))
        size += table.size
    return RouteChunk(
        union,
        np.array([i for i, _ in members]),
        np.concatenate(
            [
                start + sources
                for start, (_, sources) in zip(union.start, members, strict=False)
            ]
        ),
        np.concatenate([table.ravel() for table in tables]),
        np.concatenate(rows),
    )
