"""Clusters in feature space: Lloyd's iteration on kernel values alone.

The centroid of a cluster is an expansion, so that distances to it need the sums
Σⱼ k(xᵢ, xⱼ) over its points and nothing else; a step computes only what the points
that moved change in them. Weights and the normalised cut: Dhillon, Guan and Kulis,
KDD (2004); starts: Arthur and Vassilvitskii, SODA (2007), several candidates a step.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from mercer.data.points import Points, double, take
from mercer.gram import Gram
from mercer.outcomes import Progress, Run, Status, Watch
from mercer.solvers.rounding import SumRounding, of_sum

# What the iteration calls its numbers.
WORDS = (("objective", "inertia"), ("violation", "points moved"))
TERMS = 512


@dataclass(frozen=True, eq=False)
class Partition:
    """min Σᵢ wᵢ ‖sᵢφ(xᵢ) - μ_c(i)‖² over the clusters c(i) of n points, μ their means.

    μ_c = Σᵢ wᵢsᵢφ(xᵢ) / Σᵢ wᵢ over the points of cluster c. A shift σ > 0 adds σ/wᵢ
    to k(xᵢ, xᵢ): every partition into k clusters then costs σ(n - k) more, so the best
    one stays, and with -σ below the smallest eigenvalue of K (for w = s = 1) the
    objective falls at every step though the kernel be indefinite.

    Parameters
    ----------
    gram : of the n points
    n_clusters : k ≤ n
    weight : w, n numbers > 0
    scale : s, n numbers > 0; None for 1
    shift : σ ≥ 0

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import KernelLloyd, Partition
    >>> gram = Gram(Linear(), [[0.0], [1.0], [10.0], [11.0]])
    >>> problem = Partition(gram, 2, weight=np.ones(4))
    >>> round(KernelLloyd().solve(problem, start=np.array([0, 1, 0, 1])).inertia, 6)
    1.0
    """

    gram: Gram
    n_clusters: int
    weight: np.ndarray
    scale: np.ndarray | None = None
    shift: float = 0.0

    def __len__(self) -> int:
        return len(self.weight)

    def unscaled(self) -> Partition:
        """The same points with φ(xᵢ) for sᵢφ(xᵢ), and their masses for weights."""
        return Partition(self.gram, self.n_clusters, self.mass)

    @cached_property
    def scales(self) -> np.ndarray:
        return np.ones(len(self)) if self.scale is None else self.scale

    @cached_property
    def mass(self) -> np.ndarray:
        """wᵢsᵢ, what φ(xᵢ) counts in its centroid."""
        return self.weight * self.scales

    @cached_property
    def squares(self) -> np.ndarray:
        """‖sᵢφ(xᵢ)‖², the shift left out."""
        return self.scales**2 * np.asarray(self.gram.diag(), dtype=float)

    @cached_property
    def unit(self) -> float:
        """Half a unit in the last place of a kernel value."""
        return float(np.finfo(self.gram.rows([0]).dtype).eps) / 2

    @property
    def rounding(self) -> float:
        """How far from 0 a difference of squares may be that should be 0, over them."""
        return 128.0 * self.unit

    def distances(self, chosen: np.ndarray) -> np.ndarray:
        """‖sᵢφ(xᵢ) - sⱼφ(xⱼ)‖² for the chosen points i and all points j."""
        rows = self.gram.rows(chosen) * self.scales
        square = self.squares[chosen, None] + self.squares
        return self._vanishing(square - 2 * self.scales[chosen, None] * rows, square)

    def distances_to(self, Y: Points) -> np.ndarray:
        """‖sᵢφ(xᵢ) - sφ(y)‖² for each y of some points and all points i.

        With a scale, that of y is 1 / Σᵢ wᵢsᵢ k(xᵢ, y).
        """
        kernel, X = self.gram.kernel, self.gram.X
        Y, X = double(Y), double(X)
        rows = np.asarray(kernel(Y, X), dtype=float)
        scale = np.ones(len(rows)) if self.scale is None else 1 / (rows @ self.mass)
        square = (scale**2 * kernel.diag(Y))[:, None] + self.squares
        cross = scale[:, None] * rows * self.scales
        return self._vanishing(square - 2 * cross, square)

    def _vanishing(self, distances: np.ndarray, square: np.ndarray) -> np.ndarray:
        """The distances, 0 where they are nothing but rounding."""
        distances[np.abs(distances) <= self.rounding * np.abs(square)] = 0
        return distances

    def order(self, values: np.ndarray) -> np.ndarray:
        """The points by these values, of which the last digits do not count.

        Draws from points in this order do not depend on the order in which they came.
        """
        largest = np.abs(values).max(initial=0) or 1.0
        steps = 1 / (16 * self.rounding)
        return np.argsort(np.round(values / largest * steps), kind="stable")


def product(gram: Gram, V: np.ndarray, index: np.ndarray | None = None) -> np.ndarray:
    """V K[index], a (q, n) float64 array, for V of q rows; index None for all points.

    K is symmetric. Where it is held, no more than `TERMS` numbers are added up in its
    own precision.
    """
    n = gram.shape[0]
    index = np.arange(n) if index is None else index
    if not gram.is_held:
        points = gram.X if len(index) == n else take(gram.X, index)
        return gram.kernel.matmul(gram.X, points, V.T).T
    matrix = gram.rows(slice(None))  # no copy
    matrix = matrix if matrix.flags.c_contiguous else matrix.T
    out = np.zeros((len(V), n))
    for i in range(0, len(index), TERMS):
        # Most of V is 0, so that a BLAS would do most of its work for nothing.
        part = sp.csr_array(V[:, i : i + TERMS].astype(matrix.dtype, copy=False))
        places, shape = index[i : i + TERMS][part.indices], (len(V), n)
        out += sp.csr_array((part.data, places, part.indptr), shape) @ matrix
    return out


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


@dataclass(frozen=True, eq=False)
class Clustering:
    """A partition, its centroids, and how the iteration ended.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import KernelLloyd, Partition
    >>> gram = Gram(Linear(), [[0.0], [1.0], [10.0], [11.0]])
    >>> problem = Partition(gram, 2, weight=np.ones(4))
    >>> found = KernelLloyd().solve(problem, start=np.array([0, 0, 0, 1]))
    >>> [round(value, 6) for value in found.history]  # it never rises
    [60.666667, 1.0]
    >>> found.volume.tolist(), found.norm.round(6).tolist()
    ([2.0, 2.0], [0.25, 110.25])
    """

    label: np.ndarray  # the cluster of every point
    volume: np.ndarray  # Σ w over each cluster
    norm: np.ndarray  # ‖μ‖² of each cluster, the shift left out
    inertia: float
    history: tuple[float, ...]  # the objective after every step
    run: Run  # "optimal", "few" clusters, "max_iter", "stopped" or "indefinite"
    rounding: float = 0.0  # how far the inertia can be off by rounding

    @property
    def status(self) -> Status:
        """How the iteration ended."""
        return self.run.status


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
        state = _State(problem, start)
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

    def _step(self, state: _State) -> str:
        """Move points; the status of the end where there is none to move, else ""."""
        label = state.nearest()
        falls = (label != state.label).any() and state.move(label)
        if falls or (self.hartigan and state.move_alone()):
            return ""
        fixed = self.hartigan or (label == state.label).all()
        state.moved = 0
        return "optimal" if fixed else "indefinite"


class _State:
    """A partition with the sums K Z, Z the (n, k) matrix of masses by cluster."""

    def __init__(self, problem: Partition, label: np.ndarray):
        self.problem = problem
        self.label = np.asarray(label, dtype=np.intp)
        k, n = problem.n_clusters, len(problem)
        self.sums = np.zeros((k, n))
        self.rows, self.moved = 0, n
        self.together = n  # points that move alone, at the same time
        self.total = float(problem.weight @ np.abs(problem.squares))
        self._add(np.arange(n), self._masses(np.arange(n), self.label))
        self._centre()

    def _masses(self, index: np.ndarray, label: np.ndarray) -> np.ndarray:
        """(k, len(index)): the mass of each of these points at its cluster."""
        masses = np.zeros((self.problem.n_clusters, len(index)))
        masses[label, np.arange(len(index))] = self.problem.mass[index]
        return masses

    def _add(self, index: np.ndarray, masses: np.ndarray) -> None:
        """Add masses K[index] to the sums, in the columns that change."""
        used = np.flatnonzero(masses.any(axis=1))
        self.rows += len(index)
        self.sums[used] += product(self.problem.gram, masses[used], index)

    def _centre(self) -> None:
        """Volumes, centroids and the objective of the partition."""
        problem, k = self.problem, self.problem.n_clusters
        self.count = np.bincount(self.label, minlength=k)
        self.volume = np.bincount(self.label, problem.weight, minlength=k)
        own = problem.mass * self.sums[self.label, np.arange(len(problem))]
        within = np.bincount(self.label, own, minlength=k)
        present = self.count > 0
        volume = np.where(present, self.volume, 1.0)
        self.norm = within / volume**2
        self.inertia = float(problem.weight @ problem.squares - (within / volume).sum())
        self.objective = self.inertia + problem.shift * (len(problem) - present.sum())

    def _distances(self) -> np.ndarray:
        """(k, n): squared distances from the centroids, ∞ from those without points."""
        problem, n = self.problem, len(self.problem)
        present = self.count > 0
        volume = np.where(present, self.volume, 1.0)[:, None]
        distances = problem.squares - 2 * problem.scales * self.sums / volume
        distances += self.norm[:, None]
        if problem.shift:
            distances += problem.shift * (1 / problem.weight + 1 / volume)
            own = 2 * problem.shift / self.volume[self.label]
            distances[self.label, np.arange(n)] -= own
        distances[~present] = np.inf
        return distances

    def nearest(self) -> np.ndarray:
        """The nearest centroid of each point, its own if no other is truly nearer."""
        problem, every = self.problem, np.arange(len(self.problem))
        distances = self._distances()
        best = np.argmin(distances, axis=0)
        largest = np.abs(problem.squares) + np.abs(self.norm).max()
        gain = distances[self.label, every] - distances[best, every]
        label = np.where(gain > problem.rounding * largest, best, self.label)
        reached = distances[label, every]
        reached[reached <= problem.rounding * largest] = 0
        return self._refilled(label, reached)

    def _refilled(self, label: np.ndarray, reached: np.ndarray) -> np.ndarray:
        """The labels, with the farthest points in clusters that have none."""
        count = np.bincount(label, minlength=self.problem.n_clusters)
        if count.all():
            return label
        farthest = iter(np.argsort(-reached, kind="stable"))
        for c in np.flatnonzero(count == 0):
            # A point alone, or at its centroid, is better left where it is.
            i = next((i for i in farthest if count[label[i]] > 1), None)
            if i is None or not reached[i] > 0:
                break
            count[label[i]] -= 1
            count[c], label[i] = 1, c
        return label

    def move(self, label: np.ndarray) -> bool:
        """Go over to these labels, unless that raises the objective; whether it did."""
        former, sums, before = self.label, self.sums.copy(), self.objective
        index = np.flatnonzero(label != former)
        change = self._masses(index, label[index])
        change -= self._masses(index, former[index])
        self._add(index, change)
        self.label, self.moved = label, len(index)
        self._centre()
        if self.objective <= before + self.problem.rounding * self.total:
            return True
        self.label, self.sums = former, sums
        self._centre()
        return False

    def move_alone(self) -> bool:
        """Move as many of the points that gain most as gain together; whether any.

        Point i of cluster a gains wᵢvₐ/(vₐ - wᵢ) dᵢₐ - wᵢv_b/(v_b + wᵢ) dᵢ_b by moving
        to b alone, v being volumes and d squared distances.
        """
        problem, every = self.problem, np.arange(len(self.problem))
        weight, own = problem.weight, self.volume[self.label]
        distances, volume = self._distances(), self.volume[:, None]
        paid = weight * volume / (volume + weight) * distances
        paid[np.isnan(paid)] = np.inf  # a cluster without points: 0 · ∞
        paid[self.label, every] = np.inf
        target = np.argmin(paid, axis=0)
        others = np.where(self.count[self.label] > 1, own - weight, np.inf)
        saved = weight * own / others * distances[self.label, every]
        gain = saved - paid[target, every]
        large = problem.rounding * weight * (np.abs(problem.squares) + self.norm.max())
        order = np.argsort(-gain, kind="stable")[: np.count_nonzero(gain > large)]
        size = min(len(order), self.together)
        while size:
            label = self.label.copy()
            label[order[:size]] = target[order[:size]]
            before = self.objective
            if self.move(label) and self.objective < before:
                self.together = 2 * size
                return True
            size //= 2
        return False

    def _rounding(self) -> float:
        """How far Σ w‖sφ‖² - Σ within / volume can be off."""
        problem, every = self.problem, np.arange(len(self.problem))
        masses = self._masses(every, self.label).T
        of_sums = SumRounding(problem.gram, problem.unit)(masses)[every, self.label]
        volume = self.volume[self.label]
        own = problem.mass * self.sums[self.label, every] / volume
        of_within = np.linalg.norm(problem.mass * of_sums / volume)
        return float(of_within) + of_sum(own) + of_sum(problem.weight * problem.squares)

    def clustering(
        self, history: Sequence[float], n_iter: int, status: str, begin: float
    ) -> Clustering:
        """What was found, clusters without points left out."""
        rounding = self._rounding()
        present = np.flatnonzero(self.count)
        number = np.cumsum(self.count > 0) - 1
        if status == "optimal" and len(present) < len(self.count):
            status = "few"
        run = Run(Status(status), n_iter, time.perf_counter() - begin, self.rows)
        return Clustering(
            number[self.label],
            self.volume[present],
            self.norm[present],
            self.inertia,
            tuple(history),
            run,
            rounding,
        )
