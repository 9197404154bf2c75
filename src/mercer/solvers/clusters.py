"""Clusters in feature space: Lloyd's iteration on kernel values, or on features.

The centroid of a cluster is an expansion, so that distances to it need the sums
Σⱼ k(xᵢ, xⱼ) over its points and nothing else; a step computes only what the points
that moved change in them. Of a kernel with an explicit map centroids are vectors of
features, K is not needed, and a step takes time linear in the points. Weights and the
normalised cut: Dhillon, Guan and Kulis, KDD (2004); starts: Arthur and Vassilvitskii,
SODA (2007), several candidates a step.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import _core
from mercer.data.points import Points, double, take
from mercer.gram import Gram
from mercer.kernels.base import row_blocks
from mercer.maps import explicit
from mercer.native.clock import is_over, tick
from mercer.native.interruptible import multiply
from mercer.outcomes import Progress, Run, Status, Watch
from mercer.solvers.feature_rows import FeatureRows
from mercer.solvers.rounding import LAST, UNIT, SumRounding, of_sum

# What the iteration calls its numbers.
WORDS = (("objective", "inertia"), ("violation", "points moved"))
TERMS = 512
BLOCK = 2**18  # numbers of a block of features or distances, which stays in the caches
AFRESH = 4  # centroids are summed anew where more than n/4 points moved


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
    features : Φ with K = ΦΦᵀ, which is then read instead of K; None for K

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
    features: FeatureRows | None = None

    def __len__(self) -> int:
        return len(self.weight)

    def unscaled(self) -> Partition:
        """The same points with φ(xᵢ) for sᵢφ(xᵢ), and their masses for weights."""
        return Partition(self.gram, self.n_clusters, self.mass, features=self.features)

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
        if self.features is not None:
            return self.scales**2 * self.features.lengths()
        return self.scales**2 * np.asarray(self.gram.diag(), dtype=float)

    @cached_property
    def unit(self) -> float:
        """Half a unit in the last place of a kernel value."""
        if self.features is not None:
            return UNIT
        return float(np.finfo(self.gram.rows([0]).dtype).eps) / 2

    @property
    def rounding(self) -> float:
        """How far from 0 a difference of squares may be that should be 0, over them."""
        return 128.0 * self.unit

    def distances(self, chosen: np.ndarray) -> np.ndarray:
        """‖sᵢφ(xᵢ) - sⱼφ(xⱼ)‖² for the chosen points i and all points j."""
        rows = self._rows(chosen) * self.scales
        square = self.squares[chosen, None] + self.squares
        return self._vanishing(square - 2 * self.scales[chosen, None] * rows, square)

    def _rows(self, chosen: np.ndarray) -> np.ndarray:
        """K[chosen]."""
        if self.features is None:
            return self.gram.rows(chosen)
        some = self.features.take(chosen).matrix
        some = some.toarray() if self.features.sparse else some
        return np.asarray(multiply(self.features.matrix, some.T)).T

    def nearest_of(self, Y: Points) -> np.ndarray:
        """Which of some points y is nearest to each point: least ‖sᵢφ(xᵢ) - sφ(y)‖.

        With a scale, that of y is 1 / Σᵢ wᵢsᵢ k(xᵢ, y).
        """
        Y, kernel = double(Y), self.gram.kernel
        own, features = kernel.diag(Y), self._features_of(Y)
        if features is not None:
            return self._nearest_features(features, own)
        rows = np.asarray(kernel(Y, double(self.gram.X)), dtype=float)
        scale = np.ones(len(rows)) if self.scale is None else 1 / (rows @ self.mass)
        label = np.empty(len(self), dtype=np.intp)
        for some in row_blocks(len(self), len(rows), BLOCK / 2**17):
            square = (scale**2 * own)[:, None] + self.squares[some]
            cross = scale[:, None] * rows[:, some] * self.scales[some]
            distances = self._vanishing(square - 2 * cross, square)
            label[some] = np.argmin(distances, axis=0)
        return label

    def _features_of(self, Y: Points) -> np.ndarray | None:
        """Φ of some points in the columns that Φ of all has; None where sparse."""
        if self.features is None or self.features.sparse:
            return None
        found = explicit(self.gram.kernel, Y)
        # Columns that are known by their place are those of Φ.
        known = found.keys == range(self.features.shape[1])
        return found.matrix if known else None

    def _nearest_features(self, found: np.ndarray, own: np.ndarray) -> np.ndarray:
        """`nearest_of` in the core; the first of points that are equally near."""
        assert self.features is not None
        scale = np.ones(len(found))
        if self.scale is not None:
            scale = 1 / (found @ self.features.pull(self.mass))
        offset = scale**2 * own
        label, bounds = np.zeros(len(self), dtype=np.intp), np.empty((2, len(self)))
        _core.nearest_centroids(
            np.ascontiguousarray(self.features.matrix, dtype=float),
            self.scale,
            self.squares,
            -2 * scale[:, None] * found,
            offset,
            np.zeros(len(found)),
            None,
            float(offset.max()),
            self.rounding,
            label,
            *bounds,
        )
        return label

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


def weighted_sums(
    gram: Gram, weight: np.ndarray, features: FeatureRows | None = None
) -> np.ndarray:
    """Σⱼ k(xᵢ, xⱼ) wⱼ of every point, (n,)."""
    if features is None:
        return product(gram, weight[None])[0]
    return features.times(features.pull(weight))


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
    centroids: np.ndarray | None = None  # μ of each cluster, (k, p), where on features

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
        kind = _KernelState if problem.features is None else _FeatureState
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

    def _step(self, state: _State) -> str:
        """Move points; the status of the end where there is none to move, else ""."""
        label = state.nearest()
        falls = (label != state.label).any() and state.move(label)
        if falls or (self.hartigan and state.move_alone()):
            return ""
        fixed = self.hartigan or (label == state.label).all()
        state.moved = 0
        return "optimal" if fixed else "indefinite"


class _State(ABC):
    """A partition with the sums ⟨φ(xᵢ), Σⱼ mⱼφ(xⱼ)⟩ over the points j of each cluster.

    Subclasses keep these sums, or the vectors that they are products with.
    """

    def __init__(self, problem: Partition, label: np.ndarray):
        self.problem = problem
        self.label = np.asarray(label, dtype=np.intp)
        n = len(problem)
        self.rows, self.moved = n, n
        self.together = n  # points that move alone, at the same time
        self.total = float(problem.weight @ np.abs(problem.squares))
        self.whole = float(problem.weight @ problem.squares)
        self.sums = self._summed()
        self._centre()

    @abstractmethod
    def _summed(self) -> np.ndarray:
        """The sums of the partition, computed anew."""

    @abstractmethod
    def _changed(self, index: np.ndarray, former: np.ndarray) -> np.ndarray:
        """The sums, after the points of this index came from their former clusters."""

    @abstractmethod
    def _within(self) -> np.ndarray:
        """(k,): ‖Σⱼ mⱼφ(xⱼ)‖² over the points of each cluster."""

    @abstractmethod
    def _blocks(self) -> Iterator[slice]:
        """All points, as many at a time as distances are computed for."""

    @abstractmethod
    def _products(self, rows: slice, factor: np.ndarray) -> np.ndarray:
        """(k, b): the sums of some points, times a factor for each cluster."""

    @abstractmethod
    def _rounding(self) -> float:
        """How far Σ w‖sφ‖² - Σ within / volume can be off."""

    def _centre(self) -> None:
        """Volumes, centroids and the objective of the partition."""
        problem, k = self.problem, self.problem.n_clusters
        self.count = np.bincount(self.label, minlength=k)
        self.volume = np.bincount(self.label, problem.weight, minlength=k)
        within = self._within()
        present = self.count > 0
        volume = np.where(present, self.volume, 1.0)
        self.norm = within / volume**2
        self.inertia = self.whole - float((within / volume).sum())
        self.objective = self.inertia + problem.shift * (len(problem) - present.sum())

    def _distances(self, rows: slice) -> np.ndarray:
        """(k, b): squared distances of some points from the centroids, less ‖sφ(x)‖².

        ∞ from centroids without points.
        """
        problem, present = self.problem, self.count > 0
        volume = np.where(present, self.volume, 1.0)
        distances = self._products(rows, -2 / volume)
        if problem.scale is not None:
            distances *= problem.scale[rows]
        distances += self.norm[:, None]
        if problem.shift:
            label = self.label[rows]
            distances += problem.shift * (
                1 / problem.weight[rows] + 1 / volume[:, None]
            )
            own = 2 * problem.shift / self.volume[label]
            distances[label, np.arange(len(label))] -= own
        distances[~present] = np.inf
        return distances

    def nearest(self) -> np.ndarray:
        """The nearest centroid of each point, its own if no other is truly nearer."""
        return self._refilled(self._nearest_label())

    def _nearest_label(self) -> np.ndarray:
        problem, most = self.problem, float(np.abs(self.norm).max())
        label = self.label.copy()
        for rows in self._blocks():
            distances = self._distances(rows)
            mine, every = label[rows], np.arange(rows.stop - rows.start)
            gain = distances[mine, every] - distances.min(axis=0)
            slack = problem.rounding * (np.abs(problem.squares[rows]) + most)
            moving = np.flatnonzero(gain > slack)
            # Few do, after the first steps; the others need no number.
            mine[moving] = np.argmin(distances[:, moving], axis=0)
        return label

    def _refilled(self, label: np.ndarray) -> np.ndarray:
        """The labels, with the farthest points in clusters that have none."""
        count = np.bincount(label, minlength=self.problem.n_clusters)
        if count.all():
            return label
        reached = self._reached(label)
        farthest = iter(np.argsort(-reached, kind="stable"))
        for c in np.flatnonzero(count == 0):
            # A point alone, or at its centroid, is better left where it is.
            i = next((i for i in farthest if count[label[i]] > 1), None)
            if i is None or not reached[i] > 0:
                break
            count[label[i]] -= 1
            count[c], label[i] = 1, c
        return label

    def _reached(self, label: np.ndarray) -> np.ndarray:
        """Squared distances of all points from these centroids, 0 for rounding."""
        problem, most = self.problem, float(np.abs(self.norm).max())
        out = problem.squares.copy()
        for rows in self._blocks():
            every = np.arange(rows.stop - rows.start)
            out[rows] += self._distances(rows)[label[rows], every]
        out[out <= problem.rounding * (np.abs(problem.squares) + most)] = 0
        return out

    def move(self, label: np.ndarray) -> bool:
        """Go over to these labels, unless that raises the objective; whether it did."""
        former, sums, before = self.label, self.sums, self.objective
        index = np.flatnonzero(label != former)
        self.label, self.moved = label, len(index)
        self.rows += len(index)
        self.sums = self._changed(index, former)
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
        problem, n = self.problem, len(self.problem)
        target, gain = np.empty(n, dtype=np.intp), np.empty(n)
        for rows in self._blocks():
            target[rows], gain[rows] = self._gains(rows)
        large = problem.weight * (np.abs(problem.squares) + self.norm.max())
        many = np.count_nonzero(gain > problem.rounding * large)
        order = np.argsort(-gain, kind="stable")[:many]
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

    def _gains(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Where some points would best move to alone, and what that gains."""
        problem, label = self.problem, self.label[rows]
        weight, own, every = problem.weight[rows], self.volume[label], range(len(label))
        distances = self._distances(rows) + problem.squares[rows]
        volume = self.volume[:, None]
        with np.errstate(invalid="ignore"):
            paid = weight * volume / (volume + weight) * distances
        paid[np.isnan(paid)] = np.inf  # a cluster without points: 0 · ∞
        paid[label, every] = np.inf
        target = np.argmin(paid, axis=0)
        others = np.where(self.count[label] > 1, own - weight, np.inf)
        saved = weight * own / others * distances[label, every]
        return target, saved - paid[target, every]

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
            self._centroids(present),
        )

    def _centroids(self, present: np.ndarray) -> np.ndarray | None:
        """μ of these clusters as vectors of features; None where there are none."""
        return None


class _KernelState(_State):
    """The sums K Z, (k, n), Z the masses of the points by cluster."""

    def _summed(self) -> np.ndarray:
        sums = np.zeros((self.problem.n_clusters, len(self.problem)))
        every = np.arange(len(self.problem))
        return self._added(sums, every, self._masses(every, self.label))

    def _changed(self, index: np.ndarray, former: np.ndarray) -> np.ndarray:
        change = self._masses(index, self.label[index])
        change -= self._masses(index, former[index])
        return self._added(self.sums.copy(), index, change)

    def _masses(self, index: np.ndarray, label: np.ndarray) -> np.ndarray:
        """(k, len(index)): the mass of each of these points at its cluster."""
        masses = np.zeros((self.problem.n_clusters, len(index)))
        masses[label, np.arange(len(index))] = self.problem.mass[index]
        return masses

    def _added(
        self, sums: np.ndarray, index: np.ndarray, masses: np.ndarray
    ) -> np.ndarray:
        """The sums with masses K[index] added, in the columns that change."""
        used = np.flatnonzero(masses.any(axis=1))
        sums[used] += product(self.problem.gram, masses[used], index)
        return sums

    def _within(self) -> np.ndarray:
        own = self.problem.mass * self.sums[self.label, np.arange(len(self.problem))]
        return np.bincount(self.label, own, minlength=self.problem.n_clusters)

    def _blocks(self) -> Iterator[slice]:
        yield slice(0, len(self.problem))

    def _products(self, rows: slice, factor: np.ndarray) -> np.ndarray:
        return self.sums[:, rows] * factor[:, None]

    def _rounding(self) -> float:
        problem, every = self.problem, np.arange(len(self.problem))
        masses = self._masses(every, self.label).T
        of_sums = SumRounding(problem.gram, problem.unit)(masses)[every, self.label]
        volume = self.volume[self.label]
        own = problem.mass * self.sums[self.label, every] / volume
        of_within = np.linalg.norm(problem.mass * of_sums / volume)
        return float(of_within) + of_sum(own) + of_sum(problem.weight * problem.squares)


class _FeatureState(_State):
    """The vectors ZᵀΦ, (k, p), Z the masses of the points by cluster."""

    changes = 0  # of the sums, since they were computed anew
    bounds: _Bounds | None = None

    @property
    def features(self) -> FeatureRows:
        assert self.problem.features is not None
        return self.problem.features

    def _nearest_label(self) -> np.ndarray:
        """By the core where Φ is dense, which computes no distance that bounds tell."""
        if self.features.sparse:
            return super()._nearest_label()
        self.bounds = self.bounds or _Bounds(self.problem)
        return self.bounds.nearest(self)

    def _summed(self) -> np.ndarray:
        n, matrix = len(self.problem), self.features.matrix
        self.changes = 0
        return self._sums_of(matrix, self.label, self.problem.mass, np.arange(n + 1))

    def _changed(self, index: np.ndarray, former: np.ndarray) -> np.ndarray:
        if AFRESH * len(index) > len(self.problem):
            return self._summed()
        self.changes += 1
        label = np.stack([self.label[index], former[index]], axis=1).ravel()
        mass = np.outer(self.problem.mass[index], [1.0, -1.0]).ravel()
        ends = 2 * np.arange(len(index) + 1)
        return self.sums + self._sums_of(self.features.matrix[index], label, mass, ends)

    def _sums_of(
        self, matrix: Any, label: np.ndarray, mass: np.ndarray, ends: np.ndarray
    ) -> np.ndarray:
        """Σ mⱼφ(xⱼ) by cluster, of points with one or more entries (label, mass)."""
        shape = self.problem.n_clusters, len(ends) - 1
        # By columns: every row of Φ is read once, in order.
        sums = sp.csc_array((mass, label, ends), shape=shape) @ matrix
        return sums.toarray() if sp.issparse(sums) else np.asarray(sums)

    def _within(self) -> np.ndarray:
        return np.einsum("ij,ij->i", self.sums, self.sums)

    def _centroids(self, present: np.ndarray) -> np.ndarray | None:
        return self.sums[present] / self.volume[present, None]

    def _blocks(self) -> Iterator[slice]:
        n, p = self.features.shape
        wide = self.features.entries / max(1, n) if self.features.sparse else p
        step = max(64, int(BLOCK / max(wide, self.problem.n_clusters)))
        for begin in range(0, n, step):
            yield slice(begin, min(begin + step, n))

    def _products(self, rows: slice, factor: np.ndarray) -> np.ndarray:
        centroids = self.sums * factor[:, None]
        if self.features.sparse:
            part = np.asarray(self.features.matrix[rows] @ centroids.T)
            return np.ascontiguousarray(part.T)
        return centroids @ self.features.matrix[rows].T

    def _rounding(self) -> float:
        """‖ΣΦ‖² is off by twice its length times what adding up n vectors leaves."""
        problem, (n, p) = self.problem, self.features.shape
        length = problem.mass * np.sqrt(problem.squares) / problem.scales
        added = np.bincount(self.label, length, minlength=problem.n_clusters)
        units = UNIT * (np.sqrt(n) + np.sqrt(p) + 3 * LAST + self.changes)
        volume = np.where(self.count > 0, self.volume, 1.0)
        of_within = 2 * units * added * np.sqrt(self._within()) / volume
        return float(of_within.sum()) + of_sum(problem.weight * problem.squares)


class _Bounds:
    """What is known of distances since they were computed, so that few are again.

    Every point has an upper bound on the distance from its centroid and a lower one on
    that from all others; both change by how far the centroids went (Hamerly, SDM 2010).
    A point that moves by them is one that moves by its distances.
    """

    def __init__(self, problem: Partition):
        n, features = len(problem), problem.features
        assert features is not None
        self.problem = problem
        self.matrix = np.ascontiguousarray(features.matrix, dtype=float)
        self.square = np.ascontiguousarray(problem.squares, dtype=float)
        self.upper, self.lower = np.full(n, np.inf), np.zeros(n)
        self.label: np.ndarray | None = None  # whose bounds these are
        self.middles = np.empty((0, 0))

    def nearest(self, state: _FeatureState) -> np.ndarray:
        """The nearest centroid of each point, its own if no other is truly nearer."""
        problem, present = self.problem, state.count > 0
        volume = np.where(present, state.volume, 1.0)
        middles = np.where(present[:, None], state.sums / volume[:, None], np.inf)
        label = state.label.copy()
        most = float(np.abs(state.norm).max())
        _core.nearest_centroids(
            self.matrix,
            problem.scale,
            self.square,
            np.where(present[:, None], -2 * middles, 0.0),
            np.where(present, state.norm + problem.shift / volume, np.inf),
            -2 * problem.shift / volume,
            self._moved(middles, label, most),
            most,
            problem.rounding,
            label,
            self.upper,
            self.lower,
        )
        self.middles, self.label = middles, label.copy()
        return label

    def _moved(
        self, middles: np.ndarray, label: np.ndarray, most: float
    ) -> np.ndarray | None:
        """How far the centroids went at most; None where the bounds are not of use."""
        if self.label is None or self.problem.shift:
            return None
        if (np.isinf(middles) != np.isinf(self.middles)).any():
            return None
        self.upper[label != self.label] = np.inf
        with np.errstate(invalid="ignore"):
            moved = np.linalg.norm(np.nan_to_num(middles - self.middles), axis=1)
        return moved * (1 + self.problem.rounding) + self.problem.rounding * most**0.5
