"""Partitions on their way: what Lloyd's iteration keeps, and the moves it makes.

A step computes only what the points that moved change in the sums. On features it takes
time linear in the points.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.partitions import Once
from mercer.data.points import Points
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.outcomes import Run, Status
from mercer.solvers.feature_rows import FeatureRows
from mercer.solvers.partition import BLOCK, Clustering, Partition, product
from mercer.solvers.partitioned_rows import PartitionedRows, rows_of_part
from mercer.solvers.rounding import LAST, UNIT, SumRounding, of_sum

AFRESH = 4  # centroids are summed anew where more than n/4 points moved


class ClusterState(ABC):
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


class KernelState(ClusterState):
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


class FeatureState(ClusterState):
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


class PartitionedState(FeatureState):
    """The same on Φ of points in partitions, where the nearest centroids are found."""

    def _nearest_label(self) -> np.ndarray:
        problem, rows = self.problem, self.features
        assert isinstance(rows, PartitionedRows)
        arrays = self.label, problem.weight, problem.scale, problem.squares
        sent = Once((problem.n_clusters, problem.shift, self._seen()))
        split = rows.X.remote.slices(*arrays)
        shared = rows.kernel, sent
        return np.concatenate(rows.X.remote.each(_nearest_of_part, split, shared))

    def _seen(self) -> dict[str, Any]:
        """What the distances from the centroids follow from."""
        names = "sums", "count", "volume", "norm"
        return {name: getattr(self, name) for name in names}

    def _summed(self) -> np.ndarray:
        problem = self.problem
        return self.features.grouped(self.label, problem.mass, problem.n_clusters)

    def _changed(self, index: np.ndarray, former: np.ndarray) -> np.ndarray:
        return self._summed()

    def _blocks(self) -> Iterator[slice]:
        yield slice(0, len(self.problem))

    def _products(self, rows: slice, factor: np.ndarray) -> np.ndarray:
        return self.features.times((self.sums * factor[:, None]).T)[rows].T


class _PartState(PartitionedState):
    """That of a partition, whose centroids are those of all."""

    def __init__(self, problem: Partition, label: np.ndarray, seen: dict[str, Any]):
        self.problem, self.label = problem, label
        self.__dict__.update(seen)

    def _nearest_label(self) -> np.ndarray:
        return ClusterState._nearest_label(self)


def _nearest_of_part(
    part: Points,
    label: np.ndarray,
    weight: np.ndarray,
    scale: np.ndarray | None,
    squares: np.ndarray,
    kernel: Kernel,
    sent: tuple[int, float, dict[str, Any]],
) -> np.ndarray:
    k, shift, seen = sent
    rows, gram = rows_of_part(part, kernel), Gram(kernel, part)
    problem = Partition(gram, k, weight, scale, shift, rows)
    problem.__dict__["squares"] = squares  # known already
    return _PartState(problem, label, seen)._nearest_label()


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
        self.upper, self.lower = np.full(n, np.inf), np.zeros(n)
        self.label: np.ndarray | None = None  # whose bounds these are
        self.middles = np.empty((0, 0))

    def nearest(self, state: FeatureState) -> np.ndarray:
        """The nearest centroid of each point, its own if no other is truly nearer."""
        problem, present = self.problem, state.count > 0
        volume = np.where(present, state.volume, 1.0)
        middles = np.where(present[:, None], state.sums / volume[:, None], np.inf)
        label = state.label.copy()
        most = float(np.abs(state.norm).max())
        problem.to_nearest(
            self.matrix,
            np.where(present[:, None], -2 * middles, 0.0),
            np.where(present, state.norm + problem.shift / volume, np.inf),
            -2 * problem.shift / volume,
            self._moved(middles, label, most),
            most,
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
