"""The random walk kernel: walks with the same labels in two graphs, all of them.

Such pairs of walks are the walks on the product graph, whose nodes are the pairs of
nodes with equal labels, and whose matrix is A×((u, u'), (v, v')) = A(u, v) A'(u', v').
It is never formed for a value: a vector on the pairs is a matrix Z, and A× Z = A Z A',
restricted to the pairs. Vishwanathan et al., JMLR 11 (2010), section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

from mercer.graphs import Graph, GraphUnion, graphs_of
from mercer.kernels.base import Kernel, Rule, check_positive

TOLERANCE = 1e-12  # of a residual; the error of k is about its square
MOST_ROUNDS = 10_000
MOST_PAIRS = 2**20  # of nodes, held at a time
DENSE = 400  # a matrix of this size is quicker dense


@dataclass
class RandomWalk(Kernel):
    """k(G, H) = Σₙ decayⁿ · #(pairs of walks of n steps with the same labels).

    A walk may visit a node again; the labels are those of the nodes it visits. It
    counts as often as the product of the weights of its edges. The sum is finite
    where decay is below a bound that depends on the graphs, see `bound`.

    Parameters
    ----------
    decay : > 0, and below the bound of the graphs
    """

    decay: float = 0.01

    def __post_init__(self):
        check_positive(self, "decay", self.decay)

    def bound(self, X) -> float:
        """The decay below which k(x, y) is finite for all pairs from X.

        It is 1 / ρ, ρ the largest eigenvalue of the product of a graph with itself,
        smallest over X; pairs of different graphs then converge, by Cauchy's and
        Schwarz's inequality. It is ∞ where no graph has an edge.
        """
        graphs = graphs_of(X, "RandomWalk")
        highest = max(map(_product_radius, graphs), default=0.0)
        return 1 / highest if highest else np.inf

    def __call__(self, X, Y=None):
        left = self._checked(X)
        right = [] if Y is None else self._checked(Y)
        products = Products(GraphUnion.of([*left, *right]))
        begin, end = (
            (0, len(left)) if Y is None else (len(left), len(left) + len(right))
        )
        K = np.empty((len(left), end - begin))
        for i in range(len(left)):
            start = i if Y is None else 0
            K[i, start:] = products.walks(i, begin + start, end, float(self.decay))
            if Y is None:
                K[start:, i] = K[i, start:]
        return K

    def diag(self, X):
        graphs = self._checked(X)
        products = Products(GraphUnion.of(graphs))
        values = [
            products.walks(i, i, i + 1, float(self.decay))[0]
            for i in range(len(graphs))
        ]
        return np.array(values, dtype=float)

    def rule(self):
        return Rule(
            True,
            "an inner product: a feature for every sequence of n + 1 labels, "
            "decay^(n/2) times the number of walks with it",
        )

    def _checked(self, X) -> list[Graph]:
        """The graphs of X, refused where the sum over walks is infinite."""
        graphs = graphs_of(X, "RandomWalk")
        near = [i for i, g in enumerate(graphs) if not self._surely_finite(g)]
        bounds = {i: 1 / _product_radius(graphs[i]) for i in near}
        worst = min(bounds, key=lambda i: bounds[i], default=None)
        # The eigenvalue is rounded; the bound itself must not slip through.
        if worst is not None and self.decay >= (1 - 1e-12) * bounds[worst]:
            raise ValueError(
                f"RandomWalk sums over walks of every length, which is finite on these "
                f"graphs only for decay < {bounds[worst]:.6g}, the bound of point "
                f"{worst}; got decay={self.decay!r}. Pass a smaller one; "
                "RandomWalk().bound(X) is the bound of all points."
            )
        return graphs

    def _surely_finite(self, graph: Graph) -> bool:
        """Whether decay is below a bound that costs nothing to compute."""
        if not len(graph.ends):
            return True
        degree = graph.adjacency().sum(axis=1)
        # No eigenvalue is above √(dᵤdᵥ), the largest over the edges; those of the
        # product are products of two, or with labels below that.
        highest = degree[graph.ends].prod(axis=1).max()
        return bool(self.decay * highest < 1)


class Products:
    """The products of graph i with the graphs j of a union, many at a time."""

    def __init__(self, union: GraphUnion):
        self.union, self.A = union, union.adjacency()

    def walks(self, i: int, begin: int, end: int, decay: float) -> np.ndarray:
        """Σₙ decayⁿ 1ᵀ A×ⁿ 1 for the products with the graphs begin..end - 1."""
        start = self.union.start
        size = max(1, start[i + 1] - start[i])
        part = (start[begin:end] - start[begin]) * size // MOST_PAIRS
        cuts = [*np.unique(part, return_index=True)[1].tolist(), end - begin]
        values = [self._sums(i, begin + a, begin + b, decay) for a, b in pairwise(cuts)]
        return np.concatenate([*values, np.empty(0)])

    def _sums(self, i: int, begin: int, end: int, decay: float) -> np.ndarray:
        """1ᵀ(I - decay A×)⁻¹1 by conjugate gradients, on all products at once.

        Their vectors are matrices with a row for each node of the graphs j and a column
        for each node of graph i; `total` sums those of each product.
        """
        union, start = self.union, self.union.start
        own, all_others = (
            slice(start[a], start[b]) for a, b in ((i, i + 1), (begin, end))
        )
        A, B = self.A[own, own], self.A[all_others, all_others]
        A = A.toarray() if A.shape[0] <= DENSE else A
        owner = np.repeat(np.arange(end - begin), np.diff(start[begin : end + 1]))
        pairs = (union.code[all_others, None] == union.code[own]).astype(float)

        def total(Z):
            return np.bincount(owner, Z.sum(axis=1), minlength=end - begin)

        value = np.zeros(end - begin)
        residual, direction = pairs.copy(), pairs
        square = total(pairs)
        goal = TOLERANCE**2 * square
        for _ in range(MOST_ROUNDS):
            active = square > goal
            if not active.any():
                return value
            image = direction - decay * pairs * (A @ (B @ direction).T).T
            curvature = total(direction * image)
            if (curvature[active] <= 0).any():
                break
            step = np.divide(square, curvature, out=np.zeros_like(square), where=active)
            value += step * total(direction)
            residual -= step[owner, None] * image
            before, square = square, np.where(active, total(residual**2), square)
            ratio = np.divide(square, before, out=np.zeros_like(square), where=active)
            direction = residual + ratio[owner, None] * direction
        raise ValueError(
            f"RandomWalk(decay={decay!r}) cannot be summed up: decay is too near to "
            "its bound, RandomWalk().bound(X). Pass a smaller one."
        )


def _product_radius(graph: Graph) -> float:
    """ρ, the largest eigenvalue of the product of a graph with itself."""
    if not len(graph.ends):
        return 0.0
    A = graph.adjacency()
    if graph.labels is None or len(set(graph.labels)) == 1:
        return _largest_eigenvalue(A) ** 2
    code = GraphUnion.of([graph]).code
    u, v = np.nonzero(code[:, None] == code)  # the pairs with equal labels
    product = A[u][:, u].multiply(A[v][:, v])
    return _largest_eigenvalue(sp.csr_array(product))


def _largest_eigenvalue(A: sp.csr_array) -> float:
    if A.shape[0] <= DENSE:
        return float(np.linalg.eigvalsh(A.toarray())[-1])
    start = np.ones(A.shape[0])  # of its own choice it would be random
    return float(eigsh(A, 1, which="LA", v0=start, return_eigenvectors=False)[0])
