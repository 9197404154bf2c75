"""Partition, what clusters in feature space minimise, and Clustering, what is found.

The centroid of a cluster is an expansion, so that distances to it need the sums
Σⱼ k(xᵢ, xⱼ) over its points and nothing else. Of a kernel with an explicit map
centroids are vectors of features, and K is not needed. Weights and the normalised cut:
Dhillon, Guan and Kulis, KDD (2004).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from mercer import _core
from mercer.data.partitions import Partitions
from mercer.data.points import Points, double, take
from mercer.gram import Gram
from mercer.kernels.base import row_blocks
from mercer.maps import explicit
from mercer.native.interruptible import multiply
from mercer.outcomes import Run, Status
from mercer.solvers.feature_rows import FeatureRows
from mercer.solvers.rounding import UNIT

TERMS = 512  # numbers that are added up in the precision of K
BLOCK = 2**18  # numbers of a block of features or distances, which stays in the caches


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
            return self.scales**2 * self.features.squared_norms()
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
        some = some.toarray() if sp.issparse(some) else some
        if self.features.computed:
            return self.features.times(some.T).T
        return np.asarray(multiply(self.features.matrix, some.T)).T

    def nearest_of(self, Y: Points) -> np.ndarray:
        """Which of some points y is nearest to each point: least ‖sᵢφ(xᵢ) - sφ(y)‖.

        With a scale, that of y is 1 / Σᵢ wᵢsᵢ k(xᵢ, y).
        """
        Y, kernel = double(Y), self.gram.kernel
        own, features = kernel.diag(Y), self._features_of(Y)
        if features is not None:
            return self._nearest_features(features, own)
        rows = np.asarray(Gram(kernel, Y, double(self.gram.X)).rows(slice(None)))
        rows = rows.astype(float, copy=False)
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
        if self.features is None or self.features.sparse or self.features.computed:
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
        self.to_nearest(
            np.ascontiguousarray(self.features.matrix, dtype=float),
            -2 * scale[:, None] * found,
            offset,
            np.zeros(len(found)),
            None,
            float(offset.max()),
            label,
            *bounds,
        )
        return label

    def to_nearest(
        self,
        matrix: np.ndarray,
        centroids: np.ndarray,
        offset: np.ndarray,
        own: np.ndarray,
        moved: np.ndarray | None,
        largest: float,
        label: np.ndarray,
        upper: np.ndarray,
        lower: np.ndarray,
    ) -> None:
        """Change labels to those of nearer centroids, in the core, and their bounds.

        The distance of point i from centroid c is taken as sᵢφ(xᵢ)ᵀcentroid_c +
        offset_c, with own_c added at its own one.

        Parameters
        ----------
        matrix : Φ, dense
        moved : how far each centroid went since the bounds were written, at most; None
            where they are not to be read
        largest : of the ‖μ‖², for what is rounding
        label, upper, lower : of each point; they are written to
        """
        _core.nearest_centroids(
            matrix,
            self.scale,
            self.squares,
            centroids,
            offset,
            own,
            moved,
            largest,
            self.rounding,
            label,
            upper,
            lower,
        )

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
        if isinstance(gram.X, Partitions):
            return (Gram(gram.kernel, gram.X, points) @ V.T).T
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
