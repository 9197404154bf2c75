"""Whether features cost less than kernel values: estimates, in multiplications."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.blocks import Blocks
from mercer.data.partitions import Partitions
from mercer.data.points import Points, as_points, count, take, vectors
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.vector import Linear, is_vectors
from mercer.kernels.ways import FeatureKernel
from mercer.maps import dense_columns, entries_estimate, explicit, has_quick_map
from mercer.native import memory
from mercer.solvers.auto.small import SMALL
from mercer.solvers.chunking import Chunking
from mercer.solvers.decomposition import Decomposition
from mercer.solvers.feature_descent import FeatureDescent
from mercer.solvers.features import (
    features_of,
    packed_entries,
    partitioned_of,
    placed_numbers,
    rows_of,
)
from mercer.solvers.semismooth import SemismoothNewton

OnFeatures = SemismoothNewton | FeatureDescent | Chunking | Decomposition

# Problems of fewer points are solved by kernel values, whatever the kernel.
MANY_POINTS = 4000
FEW_COLUMNS = 1000  # of a sparse map, up to which Newton's systems are small
MANY_TO_CLUSTER = 1000  # of fewer points, K takes no time
MANY_TO_SAMPLE = 4000  # of fewer points, samples cost as much as they tell
FEWEST = 0.005  # of half of K, that SMO computes at least
STEPS_OF_LLOYD = 30
MANY_TO_STEP = 500  # points from which on steps are made on features
WIDEST_STEP = 2**14  # features of a point of a stream


def on_features(
    gram: Gram,
    n: int | None = None,
    tube_is_found: bool = False,
    support: Callable[[], float] | None = None,
) -> type | None:
    """What solves n of its points, or all, on features at less cost than SMO on K.

    All costs are in multiplications, and rough: from fits of 5,000 to 1,000,000 points
    of 20 and of 200 columns, of a9a, of w8a and of the 6-mers of DNA. Newton's
    method reads Φ some 60 times, multiplies ΦᵀDΦ out once for all points (the samples
    and bands it is used for are much smaller) and factors it 30 times. Descent reads
    some 1500 times as many entries as Φ has, most of them of free variables. SMO
    computes half of K, and an entry takes as long as 20 multiplications and one for
    each column. The kernel values that chunking needs are a part of those of SMO.

    Parameters
    ----------
    tube_is_found : as of the `BoxQP`, which has no working sets then
    support : gives the share of the points that will have a coefficient, whose rows are
        what SMO computes; asked for where it may decide
    """
    n = gram.shape[0] if n is None else n
    if isinstance(gram.X, Partitions):
        return _on_partitions(gram, tube_is_found)
    if isinstance(gram.X, Blocks):
        return SemismoothNewton  # there is no other way
    if n < MANY_POINTS or gram.is_held or not has_quick_map(gram.kernel):
        return None
    p = dense_columns(gram.kernel, gram.X)
    placed = placed_numbers(gram.kernel, gram.X) if p is None else None
    if placed is not None and memory.keeps(16.0 * placed):
        return Chunking  # which computes a few kernel values at the worst
    if p is None:
        most = packed_entries(gram.kernel, gram.X)
        if most is not None and not memory.keeps(8.0 * most):
            return None
        entries = entries_estimate(gram.kernel, gram.X)
        if entries is not None and not _is_worth_making(gram, entries):
            return None
        rows = rows_of(gram)
        p, wide = rows.shape[1], rows.entries / max(1, rows.shape[0])
        columns = wide
    else:
        wide = columns = float(p)
        if not isinstance(gram.kernel, FeatureKernel):
            columns = float(getattr(gram.X, "shape", (n, p))[1])
    smo = n**2 * (columns + 20.0) / 2
    newton = 60.0 * n * wide + n * wide**2 + 30.0 * p**3
    if p <= FEW_COLUMNS or wide == p:
        may_decide = FEWEST * smo < newton < smo and n >= MANY_TO_SAMPLE
        if may_decide and support is not None:
            smo *= 2 * support()
            if gram.kernel.native(gram.X) is None:
                smo += n * wide**2 / 2  # Φ itself, which SMO needs
        return SemismoothNewton if newton < smo else None
    return FeatureDescent if 1500.0 * n * wide < smo else None


def by_rows_of_map(gram: Gram) -> Gram:
    """The Gram of `Linear` on the rows of Φ, for SMO, or the same.

    Where the core does not know the kernel, but Φ is dense and fits into memory: rows
    of K are then computed there as quickly as those of `Linear`.
    """
    if not has_rows_of_map(gram):
        return gram
    rows = features_of(gram)
    return Gram(Linear(), (rows.held() if rows.computed else rows).matrix)


def has_rows_of_map(gram: Gram) -> bool:
    """Whether `by_rows_of_map` gives another Gram."""
    kernel, X = gram.kernel, gram.X
    if gram.is_held or isinstance(X, Blocks) or not has_quick_map(kernel):
        return False
    p = dense_columns(kernel, X)
    if p is None or kernel.native(X) is not None:
        return False
    return memory.keeps(8.0 * gram.shape[0] * p)


def _on_partitions(gram: Gram, tube_is_found: bool) -> type:
    """Newton's method where its systems are small, else a working set at a time."""
    rows = partitioned_of(gram)
    wide = rows is not None and rows.X.sparse and rows.shape[1] > FEW_COLUMNS
    if rows is None or (wide and not tube_is_found):
        return Decomposition
    return SemismoothNewton


def _is_worth_making(gram: Gram, entries: float) -> bool:
    """Whether Φ fits into memory, and is smaller than K."""
    return 2 * entries < gram.shape[0] ** 2 and memory.keeps(16.0 * entries)


def clusters_on_features(gram: Gram, n_clusters: int) -> bool:
    """Whether Lloyd's steps on Φ cost less than on K.

    In multiplications, and rough: `STEPS_OF_LLOYD` of them read Φ k times each, at the
    speed of a matrix product, or that of sparse rows. K is computed once, an entry at
    the cost of 20 multiplications and one for each column, and a tenth of it is read in
    a step; where it does not fit it is computed anew.
    """
    n, kernel = gram.shape[0], gram.kernel
    if isinstance(gram.X, Partitions):
        return partitioned_of(gram) is not None
    if n < MANY_TO_CLUSTER or gram.is_held or not has_quick_map(kernel):
        return False
    entries = entries_estimate(kernel, gram.X)
    if entries is not None and not memory.keeps(16.0 * entries):
        return False
    sparse = entries is None or dense_columns(kernel, gram.X) is None
    if entries is None or sparse:
        if entries is not None and not _is_worth_making(gram, entries):
            return False
        rows = features_of(gram)
        entries, sparse = float(rows.entries), rows.sparse
        if not memory.keeps(32.0 * n_clusters * rows.shape[1]):
            return False
    by_features = STEPS_OF_LLOYD * entries * n_clusters * (8 if sparse else 1)
    wide = entries / n
    columns = min(wide, float(getattr(gram.X, "shape", (n, wide))[-1]))
    of_matrix = n**2 * (columns + 20.0) / 2
    fits = memory.keeps(4.0 * n**2)
    by_kernel = of_matrix + STEPS_OF_LLOYD * (n**2 / 10 if fits else of_matrix / 4)
    return by_features < by_kernel


def steps_on_features(kernel: Kernel, X: Points, passes: int | None) -> bool:
    """Whether steps point by point cost less with w on Φ than with w on the points.

    In multiplications, and rough, from fits of 5,000 to 20,000 points of 20 columns: a
    step on points computes kernel values with those it has a coefficient for, a fifth
    of all; one on features, whose products are not blocked, takes as long as 200
    multiplications for each, and making them as long as 1000. A stream has any number
    of points to come.

    Parameters
    ----------
    passes : over these points; None for a stream, of which they are the first
    """
    n = count(as_points(X))
    many = passes is None or n >= MANY_TO_STEP
    if not (many and n and has_quick_map(kernel)):
        return False
    entries = entries_estimate(kernel, X, always=True)
    assert entries is not None
    wide = entries / n
    across = float(getattr(X, "shape", (n, wide))[-1])
    # w, and its sum over the steps, have all columns of sparse vectors.
    if loses_ties(kernel, X) or not memory.keeps(16.0 * across):
        return False
    if passes is None:
        return wide <= WIDEST_STEP
    columns = min(wide, across)
    few = min(passes, STEPS_OF_LLOYD)
    by_points = few * n * (n / 5) * (columns + 20.0)
    by_features = (1000.0 + 200.0 * few) * entries
    return memory.keeps(16.0 * entries) and by_features < by_points


def loses_ties(kernel: Kernel, X: Points) -> bool:
    """Whether kernel values are whole numbers, as the points are, and features not.

    Sums of whole numbers are exact, and often 0 or 1; those of their roots come near.
    """
    X = as_points(X)
    if not is_vectors(X):
        return False
    some = take(X, slice(0, SMALL))
    return _whole(vectors(some)) and not _whole(explicit(kernel, some).matrix)


def _whole(matrix: Any) -> bool:
    """Whether all entries are whole numbers."""
    entries = matrix.data if sp.issparse(matrix) else matrix
    return bool(np.array_equal(entries, np.rint(entries)))
