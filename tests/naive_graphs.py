"""Kernels of graphs from their definitions, in loops over nodes: too slow to be wrong.

A graph is (edges, labels): triples (i, j, weight) of nodes 0..n-1, each edge once, and
a label for each node. It may have a third part, a label for each edge.
"""

import math
from collections import Counter
from itertools import product

INF = math.inf


def edge_labels(graph):
    """{(i, j): label}, both ways; None where edges have no labels."""
    labels = graph[2] if len(graph) == 3 else [None] * len(graph[0])
    return {
        pair: label
        for (i, j, _), label in zip(graph[0], labels, strict=True)
        for pair in ((i, j), (j, i))
    }


def neighbours(graph):
    near = [[] for _ in graph[1]]
    for i, j, _ in graph[0]:
        near[i].append(j)
        if i != j:
            near[j].append(i)
    return near


def patterns(graph, depth):
    """(label, sorted pairs of the label of an edge and the pattern of a neighbour)."""
    near, labels, along = neighbours(graph), graph[1], edge_labels(graph)
    now = [(label,) for label in labels]
    for _ in range(depth):
        now = [
            (labels[v], tuple(sorted(((along[v, u], now[u]) for u in near[v]),
                                     key=repr)))
            for v in range(len(labels))
        ]  # fmt: skip
    return now


def weisfeiler_lehman(iterations):
    def k(g, h):
        return sum(
            a == b
            for depth in range(iterations + 1)
            for a, b in product(patterns(g, depth), patterns(h, depth))
        )

    return k


def distances(graph):
    """Floyd and Warshall, in three loops."""
    edges, n = graph[0], len(graph[1])
    D = [[0 if i == j else INF for j in range(n)] for i in range(n)]
    for i, j, weight in edges:
        if i != j:
            D[i][j] = D[j][i] = weight
    for k, i, j in product(range(n), repeat=3):
        D[i][j] = min(D[i][j], D[i][k] + D[k][j])
    return D


def routes(graph, D, i, j):
    """The sequences of edge labels along all shortest paths from i to j."""
    if i == j:
        return {()}
    along, length = edge_labels(graph), weights(graph)
    return {
        (along[i, u], *rest)
        for u in neighbours(graph)[i]
        if u != i and length[i, u] + D[u][j] == D[i][j]
        for rest in routes(graph, D, u, j)
    }


def shortest_path():
    def parts(graph):
        D, labels = distances(graph), graph[1]
        found = Counter()
        for i, j in product(range(len(labels)), repeat=2):
            if i != j and D[i][j] < INF:
                ways = routes(graph, D, i, j) if len(graph) == 3 else [None]
                found.update((labels[i], labels[j], D[i][j], way) for way in ways)
        return found

    def k(g, h):
        mine, theirs = parts(g), parts(h)
        return sum(mine[part] * theirs[part] for part in mine)

    return k


def random_walk(decay, steps=200):
    """The series itself, on the product graph: Σₙ decayⁿ 1ᵀ A×ⁿ 1."""

    def k(g, h):
        pairs = [
            (i, j)
            for i, j in product(range(len(g[1])), range(len(h[1])))
            if g[1][i] == h[1][j]
        ]
        A, B = ({**weights(x)} for x in (g, h))
        a, b = edge_labels(g), edge_labels(h)
        edges = [
            (p, q, A[p[0], q[0]] * B[p[1], q[1]])
            for p, q in product(pairs, repeat=2)
            if (p[0], q[0]) in A and (p[1], q[1]) in B
            if a[p[0], q[0]] == b[p[1], q[1]]
        ]
        walks = dict.fromkeys(pairs, 1.0)  # of n steps that begin at a pair
        total, factor = 0.0, 1.0
        for _ in range(steps):
            total += factor * sum(walks.values())
            longer = dict.fromkeys(pairs, 0.0)
            for p, q, weight in edges:
                longer[p] += weight * walks[q]
            walks, factor = longer, factor * decay
        return total

    return k


def weights(graph):
    """{(i, j): weight}, both ways."""
    return {pair: weight for i, j, weight in graph[0] for pair in ((i, j), (j, i))}


def exponential(H, beta, terms=150):
    """Σₙ (βH)ⁿ / n!, on lists of rows; scaled down and squared to converge."""
    n, halvings = len(H), 8
    small = [[beta / 2**halvings * entry for entry in row] for row in H]
    total = term = [[float(i == j) for j in range(n)] for i in range(n)]
    for m in range(1, terms):
        term = [[entry / m for entry in row] for row in times(term, small)]
        total = [[a + b for a, b in zip(*rows, strict=True)]
                 for rows in zip(total, term, strict=True)]  # fmt: skip
    for _ in range(halvings):
        total = times(total, total)
    return total


def times(A, B):
    columns = list(zip(*B, strict=True))
    return [[math.fsum(a * b for a, b in zip(row, column, strict=True))
             for column in columns] for row in A]  # fmt: skip
