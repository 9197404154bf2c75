"""Clusters in feature space: starts, and Lloyd's iteration on a `Partition`.

Starts: Arthur and Vassilvitskii, SODA (2007), several candidates a step.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from mercer.native.clock import is_over, tick
from mercer.outcomes import Progress, Watch
from mercer.solvers.cluster_states import (
    ClusterState,
    FeatureState,
    KernelState,
    PartitionedState,
)
from mercer.solvers.partition import Clustering, Partition
from mercer.solvers.partitioned_rows import PartitionedRows

# What the iteration calls its numbers.
WORDS = (("objective", "inertia"), ("violation", "points moved"))


def drawn_start(
    problem: Partition, random: np.random.RandomState, *, spread: bool, key: np.ndarray
) -> np.ndarray:
    """The nearest of k points that are drawn one by one, for every point: n labels.

    Parameters
    ----------
    spread : True for k-means++, which draws a point by its squared distance from those
        drawn before and takes the best of 2 + ln k candidates; False for any points
    key : n numbers that tell the points apart; the first draw is from their order
    """
    n, weight = len(problem), problem.weight
    label, nearest = np.zeros(n, dtype=np.intp), np.full(n, np.inf)
    trials = 2 + int(np.log(problem.n_clusters)) if spread else 1
    for c in range(problem.n_clusters):
        tick("starts", c / problem.n_clusters)
        if c and is_over():
            # No time for distances: the other clusters begin with any point each.
            rest = random.permutation(n)[: problem.n_clusters - c]
            label[rest] = np.arange(c, c + len(rest))
            break
        if c == 0:
            order, share = problem.order(key), weight
        else:
            order = problem.order(nearest)
            share = weight * (nearest if spread else nearest > 0)
        ends = np.cumsum(share[order])
        if not ends[-1] > 0:
            break  # all other points coincide with one that was drawn
        draws = random.uniform(size=trials if c else 1) * ends[-1]
        chosen = order[np.minimum(np.searchsorted(ends, draws, side="right"), n - 1)]
        distances = np.maximum(problem.distances(chosen), 0)
        left = np.minimum(distances, nearest) @ weight
        best = distances[np.argmin(np.round(left / (left.max() or 1), 12))]
        label[best < nearest] = c
        nearest = np.minimum(nearest, best)
    return label


@dataclass(frozen=True)
class KernelLloyd:
    """Lower a `Partition` by turns, points to centroids and centroids to their points.

    Ends at a partition where no point is nearer to another centroid ("optimal"), which
    takes finitely many steps, or where a step gains at most tol times the objective. A
    cluster without points gets the farthest point of the others; where no point is away
    from its centroid it stays without ("few"). A step that raises the objective, as
    only indefinite kernels make it, is taken back ("indefinite").

    Parameters
    ----------
    hartigan : whether to go on with points that gain by moving alone, their centroids
        following: a point draws its own centroid near, which holds back the others. It
        ends where no point has anything to gain, for any symmetric matrix

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import KernelLloyd, Partition
    >>> gram = Gram(Linear(), [[0.0], [1.0], [10.0], [11.0]])
    >>> problem = Partition(gram, 2, weight=np.ones(4))
    >>> found = KernelLloyd().solve(problem, start=np.array([0, 0, 0, 1]))
    >>> found.label.tolist(), found.status
    ([0, 0, 1, 1], 'optimal')
    """

    max_iter: int = 300
    tol: float = 0.0
    hartigan: bool = False

    def solve(
        self,
        problem: Partition,
        *,
        start: np.ndarray,
        watch: Watch | None = None,
    ) -> Clustering:
        """From n labels to a partition; `watch` returns True to stop."""
        begin = time.perf_counter()
        kind: type[ClusterState]
        kind = KernelState if problem.features is None else FeatureState
        if isinstance(problem.features, PartitionedRows):
            kind = PartitionedState
        state = kind(problem, start)
        history, status, n_iter = [state.inertia], "", 1
        while True:
            seconds = time.perf_counter() - begin
            progress = Progress(
                n_iter - 1,
                n_iter,
                state.rows,
                seconds,
                violation=float(state.moved),
                objective=state.inertia,
                words=WORDS,
            )
            if watch is not None and watch(progress):
                status = status or "stopped"
            if not status and n_iter >= self.max_iter:
                status = "max_iter"
            if status:
                return state.clustering(history, n_iter, status, begin)
            before = state.objective
            status = self._step(state)
            n_iter += 1
            if state.moved:
                history.append(state.inertia)
                if before - state.objective <= self.tol * abs(before):
                    status = "optimal"

    def _step(self, state: ClusterState) -> str:
        """Move points; the status of the end where there is none to move, else ""."""
        label = state.nearest()
        falls = (label != state.label).any() and state.move(label)
        if falls or (self.hartigan and state.move_alone()):
            return ""
        fixed = self.hartigan or (label == state.label).all()
        state.moved = 0
        return "optimal" if fixed else "indefinite"
