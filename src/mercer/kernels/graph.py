"""Kernels that compare a graph with a graph by counts: of patterns, of paths.

Points are `Graph`s, tuples (edges, labels) or networkx graphs; nodes without labels
all have the same one. The kernel by walks is in `walk.py`, kernels between the nodes
of one graph are in `node.py`.

Shervashidze et al., JMLR 12 (2011), for `WeisfeilerLehman`; Borgwardt and Kriegel,
ICDM (2005), for `ShortestPath`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import dijkstra

from mercer.graphs import Graph, GraphUnion, graphs_of
from mercer.kernels.base import check_whole
from mercer.kernels.counts import (
    CountKernel,
    beside,
    counted,
    label_ids,
    mixed,
)

LONGEST_NAME = 120  # of a pattern; larger ones are named by their root and id
MOST_TOGETHER = 128  # nodes of a graph whose paths are found together with others'
CHUNK = 2**18  # distances that are held at a time
FAR = 2**14 - 1  # no path; twice this fits in 16 bits

_OWN, _NEAR, _START, _END = (
    np.uint64(n) for n in (0x51ED270B, 0xA3B19535, 0xC2B2AE35, 0x27D4EB2F)
)


def label_texts(labels: Sequence[Hashable]) -> list[str]:
    """How labels are written in names; • stands for no label."""
    texts = ["•" if label is None else str(label) for label in labels]
    return texts if len(set(texts)) == len(texts) else [repr(label) for label in labels]


# Patterns


@dataclass
class WeisfeilerLehman(CountKernel):
    """k(G, H) = Σ over depths 0..iterations of the pairs of nodes with equal patterns.

    The pattern of depth 0 of a node is its label, that of depth i its label and the
    patterns of depth i - 1 of its neighbours. Weights of edges do not matter.

    Parameters
    ----------
    iterations : the largest depth; 0 compares labels only
    """

    iterations: int = 5

    def __post_init__(self):
        check_whole(self, "iterations", self.iterations, least=0)

    def counts(self, X):
        graphs = graphs_of(X, "WeisfeilerLehman")
        union = GraphUnion.of(graphs)
        return beside(
            [counted(union.owner, ids, len(graphs)) for ids in self._refined(union)]
        )

    def _refined(self, union: GraphUnion) -> Iterator[np.ndarray]:
        """The ids of the patterns of all nodes, depth by depth."""
        ids = label_ids(union.labels)[union.code]
        yield ids
        linked = np.flatnonzero(np.diff(union.first))
        for _ in range(int(self.iterations)):
            around = np.zeros(len(ids), dtype=np.uint64)
            if len(linked):
                near = mixed(ids ^ _NEAR)[union.near]
                around[linked] = np.add.reduceat(near, union.first[linked])
            ids = mixed(mixed(ids ^ _OWN) + around)
            yield ids

    def feature_names(self, X):
        """The patterns, such as "depth 1: C(C, O)": a C with the neighbours C and O."""
        union = GraphUnion.of(graphs_of(X, "WeisfeilerLehman"))
        texts = label_texts(union.labels)
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

    def _pattern(self, union: GraphUnion, v: int, texts, below, number: int) -> str:
        root = texts[union.code[v]]
        if not below:
            return root
        near = union.near[union.first[v] : union.first[v + 1]].tolist()
        inside = ", ".join(sorted(below[u] for u in near))
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
    """

    def counts(self, X):
        graphs = graphs_of(X, "ShortestPath")
        paths, labels = _all_paths(graphs)
        return counted(paths.owner, paths.ids(labels), len(graphs), paths.times)

    def feature_names(self, X):
        """The paths, such as "C to O in 3"."""
        paths, labels = _all_paths(graphs_of(X, "ShortestPath"))
        texts = label_texts(labels)
        _, first = np.unique(paths.ids(labels), return_index=True)
        kinds = zip(
            paths.begin[first], paths.end[first], paths.length[first], strict=True
        )
        return [f"{texts[a]} to {texts[b]} in {length:.12g}" for a, b, length in kinds]


class Paths(NamedTuple):
    """Shortest paths that are alike, as columns: whose, from, to, how long and many."""

    owner: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    length: np.ndarray
    times: np.ndarray

    def ids(self, labels: Sequence[Hashable]) -> np.ndarray:
        ids = label_ids(labels)
        length = self.length.astype(np.float64).view(np.uint64)
        ends = mixed(ids[self.begin] ^ _START) + mixed(ids[self.end] ^ _END)
        return mixed(ends + mixed(length))


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


def _alike(owner, a, b, length) -> Paths:
    """Undirected paths counted: those alike as one row, the smaller label first."""
    a, b = np.minimum(a, b), np.maximum(a, b)
    lengths, step = np.unique(length, return_inverse=True)
    if lengths.dtype.kind == "f":
        lengths = _rounded(lengths)
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


def _rounded(lengths: np.ndarray) -> np.ndarray:
    """Lengths > 0 to 12 digits; the order of a sum shows in the 16th."""
    unit = 10.0 ** (11 - np.floor(np.log10(lengths)))
    return np.rint(lengths * unit) / unit


def _distances(graphs: Sequence[Graph], union: GraphUnion) -> Iterator[tuple]:
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


def _distances_within(i: int, graph: Graph, plain: bool, start: int) -> Iterator[tuple]:
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
) -> tuple:
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
