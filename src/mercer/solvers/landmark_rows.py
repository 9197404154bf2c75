"""Φ of landmarks by their kernel values: products without a triangle for each point.

ValueRows        k(x, L) in memory, which are summed before they are turned into φ
some_of(...)     some rows of Φ, made in the quickest way
rows_for(...)    Φ for a `BoxQP`
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.data.blocks import Blocks
from mercer.data.points import count, double
from mercer.kernels.nystrom import Nystrom
from mercer.native import memory
from mercer.native.clock import tick
from mercer.native.interruptible import multiply
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.computed_rows import FEW_MB, ComputedRows, block_numbers
from mercer.solvers.feature_rows import FeatureRows
from mercer.solvers.features import features_of, totals_of
from mercer.solvers.partitioned_rows import PartitionedRows
from mercer.solvers.single_rows import SingleRows, in_single

SINGLE_MB = 512.0  # of kernel values of some points, in single precision
SHARE = 0.25  # of tol, that rounding of sums of kernel values may take


class ValueRows(ComputedRows):
    """Φ of a well-conditioned `Nystrom`, φ(x) = F⁻¹k(L, x), by k(x, L) in memory.

    Parameters
    ----------
    values : k(X, L)
    own : k(x, x) of every point
    """

    def __init__(self, kernel: Nystrom, values: np.ndarray, own: np.ndarray):
        self.kernel = self.landmarks = kernel
        self.X = None  # no longer needed
        self.center = None
        self.table, self.own = values, own
        self._values, self.holds, self.narrow = values, True, None
        self._shape = values.shape

    def some(self, index: np.ndarray) -> ValueRows:
        """Some of the rows, copied."""
        assert self.landmarks is not None
        return ValueRows(self.landmarks, self.table[index], self.own[index])

    def lengths(self) -> np.ndarray:
        return self.own

    def _less(self, center: np.ndarray) -> FeatureRows:
        return FeatureRows(self.held().matrix, center)

    def _step(self, numbers: int) -> int:
        return FeatureRows._step(self, numbers)

    def times(self, w: np.ndarray) -> np.ndarray:
        assert self.landmarks is not None
        return multiply(self.table, self.landmarks.base_coefficients(w))

    def pull(self, v: np.ndarray) -> np.ndarray:
        assert self.landmarks is not None
        return self.landmarks.turned(FeatureRows(self.table).pull(v))

    def against(self, V: np.ndarray) -> np.ndarray:
        assert self.landmarks is not None
        return self.landmarks.turned(multiply(self.table.T, V))

    def pull_some(self, index: np.ndarray, v: np.ndarray) -> np.ndarray:
        assert self.landmarks is not None
        return self.landmarks.turned(FeatureRows(self.table).pull_some(index, v))

    def take(self, index: np.ndarray) -> FeatureRows:
        return FeatureRows(self._part(index))

    def _part(self, rows: Any) -> np.ndarray:
        assert self.landmarks is not None
        return self.landmarks.turned(self.table[rows].T).T

    def _summed(self, rows: Any) -> np.ndarray:
        return self.table[rows]


def some_of(rows: FeatureRows, index: np.ndarray) -> FeatureRows:
    """Some of the rows, in memory where they are few.

    Those of landmarks as kernel values, whose φ `take` gives.
    """
    if isinstance(rows, PartitionedRows):
        near = rows.nearby(index)
        if isinstance(near, PartitionedRows):
            return near
        rows, index = near, np.arange(len(index))
    if isinstance(rows, ValueRows):
        return rows.some(index)
    if isinstance(rows, SingleRows):
        some = rows.some(index)
        some.holds = some.holds and 4.0 * some.entries <= SINGLE_MB * 2**20
        return some
    if isinstance(rows, ComputedRows) and rows.adds_values:
        few = memory.block_mb(FEW_MB) * 2**20
        if 8.0 * len(index) * rows.shape[1] <= few:
            return rows_of_values(rows, index)
    return rows.take(index)


def rows_of_values(rows: ComputedRows, index: np.ndarray) -> ValueRows:
    """Some rows, of points that need no room all at once."""
    assert rows.landmarks is not None
    values, own = np.empty((len(index), rows.shape[1])), np.empty(len(index))
    step = rows._step(block_numbers())
    for begin in range(0, len(index), step):
        part = slice(begin, begin + step)
        points = double(rows._points(index[part]))
        values[part] = rows.landmarks.base_products(points)
        own[part] = rows.landmarks.kernel.diag(points)
    return ValueRows(rows.landmarks, values, own)


def rows_for(problem: BoxQP, tol: float) -> FeatureRows:
    """Φ; where all β sum to 0, less what all φ(x) have in common: it does not count.

    That of landmarks by their kernel values, where what these lose is little beside
    tol.
    """
    rows = _by_values(problem, tol)
    if rows is None:
        rows = features_of(problem.gram)
    totals = totals_of(problem)
    return rows.centered() if len(totals) and totals.sum() == 0 else rows


def _by_values(problem: BoxQP, tol: float) -> FeatureRows | None:
    gram = problem.gram
    known = gram._features
    if known is not None or not isinstance(gram.kernel, Nystrom):
        return known
    if not gram.kernel.is_well_conditioned or isinstance(gram.X, Blocks):
        return None
    rows = ComputedRows(gram.kernel, gram.X)
    own = rows.lengths()
    most = sum(float(np.sum(np.abs(ends))) for ends in problem.bounds)
    off = rows.units * float(np.max(own, initial=0.0)) * most
    if problem.violation_rounding(off) > SHARE * tol:
        return None
    # Of short points values are computed in less time than new memory takes.
    quick = isinstance(in_single(rows), SingleRows) and not rows.holds
    if not quick and memory.keeps(8.0 * count(gram.X) * rows.shape[1]):
        tick("features")
        # At once: what is computed in blocks would be copied from them.
        values = gram.kernel.base_products(gram.X)
        rows = ValueRows(gram.kernel, values, own)
    gram._features = rows
    return rows
