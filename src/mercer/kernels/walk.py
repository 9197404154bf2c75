"""The random walk kernel: walks with the same labels in two graphs, all of them.

Such pairs of walks are the walks on the product graph, whose nodes are the pairs of
nodes with equal labels, and whose matrix is A×((u, u'), (v, v')) = A(u, v) A'(u', v')
where the two edges have equal labels. Vishwanathan et al., JMLR 11 (2010), section 4.

Where there is one label only, A× has the products of eigenvalues λ of A and λ' of A',
and k = Σ (1ᵀu)² (1ᵀu')² / (1 - decay λλ') over their eigenvectors u and u'. Otherwise
the core solves (I - decay A×) x = 1 by conjugate gradients, up to a residual r with
‖r‖² / (1 - decay ρ) ≤ TOLERANCE · k, ρ at least the largest eigenvalue of A×; that is a
bound of the error of k, rounding apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

from mercer import _core
from mercer.data.graphs import Graph, GraphUnion, graphs_of
from mercer.data.points import Points
from mercer.kernels.base import Kernel, Rule
from mercer.kernels.checks import (
    Range,
    check_positive,
)
from mercer.kernels.counts import check_attributes

TOLERANCE = 1e-15  # of k: what conjugate gradients may leave out
MOST_ROUNDS = 10_000
MOST_ENTRIES = 2**22  # of a product that is written out, in each thread
DENSE = 400  # a matrix of this size is quicker dense
CHUNK = 2**20  # quotients that are held at a time


@dataclass
class RandomWalk(Kernel):
    """k(G, H) = Σₙ decayⁿ · #(pairs of walks of n steps with the same labels).

    A walk may visit a node again; the labels are those of the nodes it visits, and of
    the edges it takes where they have any. It counts as often as the product of the
    weights of its edges. The sum is finite where decay is below a bound that depends on
    the graphs, see `bound`.

    Parameters
    ----------
    decay : > 0, and below the bound of the graphs
    label, edge_label : attributes of networkx graphs that are the labels of nodes and
        of edges; None for "label", where there is one

    Examples
    --------
    >>> from mercer import Graph, RandomWalk
    >>> edge = Graph([(0, 1)])
    >>> round(RandomWalk(decay=0.5).value(edge, edge), 4)
    8.0
    """

    smooth = Range.positive("decay")

    decay: float = 0.01
    label: str | None = None
    edge_label: str | None = None

    def __post_init__(self) -> None:
        check_positive(self, "decay", self.decay)
        check_attributes(self, "label", "edge_label")

    def bound(self, X: Points) -> float:
        """The decay below which k(x, y) is finite for all pairs from X.

        It is 1 / ρ, ρ the largest eigenvalue of the product of a graph with itself,
        smallest over X; pairs of different graphs then converge, by Cauchy's and
        Schwarz's inequality. It is ∞ where no graph has an edge.
        """
        highest = max(map(_product_radius, self._graphs(X)), default=0.0)
        return 1 / highest if highest else np.inf

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        left = self._graphs(X)
        right = [] if Y is None else self._graphs(Y)
        walks = self._walks([left, right])
        n, m = len(left), len(left if Y is None else right)
        K = np.empty((n, m))
        if K.size:
            walks.fill(K, n)
        return K

    def diag(self, X: Points) -> np.ndarray:
        walks = self._walks([self._graphs(X)])
        return walks.diagonal()

    def rule(self) -> Rule:
        return Rule(
            True,
            "an inner product: a feature for every sequence of n + 1 labels, "
            "decay^(n/2) times the number of walks with it",
        )

    def _graphs(self, X: Points) -> list[Graph]:
        return graphs_of(X, "RandomWalk", self.label, self.edge_label)

    def _walks(self, sets: list[list[Graph]]) -> Walks:
        """The graphs of some sets, refused where the sum over walks is infinite."""
        union = GraphUnion.of([graph for graphs in sets for graph in graphs])
        reach = _highest_degrees(union)
        begin = 0
        for graphs in sets:
            part = reach[begin : begin + len(graphs)]
            for i in np.flatnonzero(self.decay * part >= 1).tolist():
                part[i] = _product_radius(graphs[i])
            self._check(part)
            begin += len(graphs)
        return Walks(float(self.decay), union, reach)

    def _check(self, reach: np.ndarray) -> None:
        worst = int(np.argmax(reach)) if len(reach) else None
        # The eigenvalue is rounded: decay = bound must be refused all the same.
        if worst is not None and self.decay * reach[worst] >= 1 - 1e-12:
            raise ValueError(
                f"RandomWalk sums over walks of every length, which is finite on these "
                f"graphs only for decay < {1 / reach[worst]:.6g}, the bound of point "
                f"{worst}; got decay={self.decay!r}. Pass a smaller one; "
                "RandomWalk().bound(X) is the bound of all points."
            )


class Walks:
    """Σₙ decayⁿ 1ᵀ A×ⁿ 1 for pairs of graphs, by one of the two ways.

    Parameters
    ----------
    reach : at least the largest eigenvalue of the product of each graph with itself
    """

    def __init__(self, decay: float, union: GraphUnion, reach: np.ndarray) -> None:
        self.decay, self.union, self.reach = decay, union, reach
        sizes = np.diff(union.start)
        alike = len(union.labels) <= 1 and len(union.edge_labels) <= 1
        self.spectral = alike and sizes.max(initial=0) <= DENSE

    def fill(self, out: np.ndarray, n: int) -> None:
        """Write the (n, m) block of the first n graphs with the others, or all."""
        if self.spectral:
            self._fill_by_spectra(out, n)
            return
        rule = _core.WalkRule(self.decay, MOST_ROUNDS, TOLERANCE, MOST_ENTRIES)
        self._check(_core.walk_block(self._packed(), rule, self.reach, n, out))

    def diagonal(self) -> np.ndarray:
        """k(G, G) for each graph."""
        out = np.empty(len(self.reach))
        if not self.spectral:
            rule = _core.WalkRule(self.decay, MOST_ROUNDS, TOLERANCE, MOST_ENTRIES)
            self._check(_core.walk_diag(self._packed(), rule, self.reach, out))
            return out
        values, squares = self._spectra()
        for i in range(len(out)):
            own = slice(self.union.start[i], self.union.start[i + 1])
            out[i] = (
                self._quotients(values[own], squares[own], values[own]) @ (squares[own])
            )
        return out

    def _packed(self) -> _core.GraphSet:
        """The graphs for the core, nodes with like labels and degrees side by side.

        Loops over them then run equally long, which branch prediction favours.
        """
        union = self.union
        degree = np.diff(union.first)
        order = np.lexsort((degree, union.code, union.owner))
        first = np.append(0, np.cumsum(degree[order]))
        arcs = np.arange(first[-1]) + np.repeat(union.first[order] - first[:-1],
                                                degree[order])  # fmt: skip
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        return _core.GraphSet(
            union.start.astype(np.int64),
            union.code[order].astype(np.int32),
            first.astype(np.int64),
            place[union.near[arcs]],
            union.kind[arcs].astype(np.int32),
            union.weights[arcs],
        )

    def _check(self, unsettled: object) -> None:
        if unsettled is not None:
            raise ValueError(
                f"RandomWalk(decay={self.decay!r}) cannot be summed up: decay is too "
                "near to its bound, RandomWalk().bound(X). Pass a smaller one."
            )

    # One label only

    def _fill_by_spectra(self, out: np.ndarray, n: int) -> None:
        values, squares = self._spectra()
        start = self.union.start
        symmetric = n == len(start) - 1
        last = len(start) - 1
        for i in range(n):
            own = slice(start[i], start[i + 1])
            begin = i if symmetric else n
            # In parts, between which Ctrl-C is checked.
            most = max(1, CHUNK // max(1, start[i + 1] - start[i]))
            part = (start[begin:last] - start[begin]) // most
            cuts = [begin, *(begin + 1 + np.flatnonzero(np.diff(part))), last]
            for a, b in pairwise(cuts):
                nodes = slice(start[a], start[b])
                each = squares[nodes] * self._quotients(
                    values[own], squares[own], values[nodes]
                )
                row = _sums(each, start[a : b + 1] - start[a])
                shift = 0 if symmetric else n
                out[i, a - shift : b - shift] = row
                if symmetric:
                    out[a:b, i] = row

    def _quotients(
        self, values: np.ndarray, squares: np.ndarray, others: np.ndarray
    ) -> np.ndarray:
        """Σ (1ᵀu)² / (1 - decay λλ') over the u of one graph, for each λ' of others."""
        quotients = 1 / (1 - self.decay * np.multiply.outer(values, others))
        # For so little work starting the threads of a BLAS costs more than it saves.
        return np.einsum("i,ij->j", squares, quotients)

    def _spectra(self) -> tuple[np.ndarray, np.ndarray]:
        """The eigenvalues λ of every graph and (1ᵀu)² for its eigenvectors u."""
        A, start = self.union.adjacency(), self.union.start
        values, squares = np.empty((2, int(start[-1])))
        for i in range(len(start) - 1):
            own = slice(start[i], start[i + 1])
            values[own], vectors = np.linalg.eigh(A[own, own].toarray())
            squares[own] = vectors.sum(axis=0) ** 2
        return values, squares


def _sums(values: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The sums of values[start[i] : start[i + 1]], 0 where that is empty."""
    sums = np.zeros(len(start) - 1)
    some = np.flatnonzero(np.diff(start))
    if len(some):
        sums[some] = np.add.reduceat(values, start[some])
    return sums


def _highest_degrees(union: GraphUnion) -> np.ndarray:
    """A cheap bound of ρ for each graph: the largest dᵤdᵥ of an edge.

    No eigenvalue of A is above √(dᵤdᵥ), the largest over the edges; those of the
    product are products of two, or with labels below that.
    """
    n = len(union.start) - 1
    degree = _sums(union.weights, union.first)
    from_ = np.repeat(np.arange(len(degree)), np.diff(union.first))
    reach = np.zeros(n)
    np.maximum.at(reach, union.owner[from_], degree[from_] * degree[union.near])
    return reach


def _product_radius(graph: Graph) -> float:
    """ρ, the largest eigenvalue of the product of a graph with itself."""
    if not len(graph.ends):
        return 0.0
    A = graph.adjacency()
    union = GraphUnion.of([graph])
    if len(union.labels) <= 1 and len(union.edge_labels) <= 1:
        return _largest_eigenvalue(A) ** 2
    u, v = np.nonzero(union.code[:, None] == union.code)  # pairs with equal labels
    product = sp.csr_array((len(u), len(u)))
    for kind in range(len(union.edge_labels)):
        part = union.adjacency(kind)
        product = product + part[u][:, u].multiply(part[v][:, v])
    return _largest_eigenvalue(sp.csr_array(product))


def _largest_eigenvalue(A: sp.csr_array) -> float:
    if A.shape[0] <= DENSE:
        return float(np.linalg.eigvalsh(A.toarray())[-1])
    start = np.ones(A.shape[0])  # a fixed start; the default one is random
    return float(eigsh(A, 1, which="LA", v0=start, return_eigenvectors=False)[0])
