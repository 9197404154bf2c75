"""PartitionedRows: Φ of points in partitions, multiplied where these are.

What solvers see are `ComputedRows`: vectors with a number for each point are here, and
their slices travel; sums over points (Φᵀv, ΦᵀDΦ) are added up in a tree on the way.
Maps of landmarks and of vectors are computed whenever they are read; others are points
of their own (`partitioned_map`), with the kernel `Linear`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.partitions import Partitions
from mercer.data.points import Points, count, double
from mercer.kernels.approximate import Approximation
from mercer.kernels.base import Kernel
from mercer.kernels.nystrom import Nystrom
from mercer.kernels.vector import Linear
from mercer.maps import FeatureExpansion, has_quick_map
from mercer.native import memory
from mercer.native.tall import Between
from mercer.solvers.computed_rows import FEW_MB, ComputedRows
from mercer.solvers.feature_rows import RUN, FeatureRows
from mercer.solvers.partitioned_map import PartitionedMap, mapped, names_of
from mercer.solvers.rounding import LAST, UNIT
from mercer.solvers.single_rows import SingleRows, in_single, suits_single


def computed_rows(kernel: Kernel, X: Points) -> ComputedRows:
    """Φ whose rows are computed when they are read, wherever the points are."""
    if not isinstance(X, Partitions):
        return ComputedRows(kernel, X)
    found = partitioned_rows(kernel, X)
    if found is None:
        raise MemoryError(
            f"The explicit map of {kernel} on {X!r} finds no room with the workers. "
            "Add workers, or choose a map of fewer columns: Nystrom(kernel, size)."
        )
    return found


def partitioned_rows(kernel: Kernel, X: Partitions) -> PartitionedRows | None:
    """Φ of points in partitions; None where there is no map, or no room for one."""
    if isinstance(kernel, Nystrom | Linear):
        return PartitionedRows(kernel, X)
    if not has_quick_map(kernel):
        return None
    found = mapped(kernel, X)
    if found is not None:
        return MappedRows(kernel, X, found)
    return PartitionedRows(kernel, X) if isinstance(kernel, Approximation) else None


class PartitionedRows(ComputedRows):
    """Φ - 1cᵀ of points in partitions.

    Parameters
    ----------
    kernel : with an explicit map of dense columns, their number known beforehand
    single : whether products are in single precision, where that is a gain
    """

    X: Partitions
    is_near = False

    def __init__(
        self,
        kernel: Kernel,
        X: Partitions,
        center: np.ndarray | None = None,
        single: bool = False,
    ):
        super().__init__(kernel, X, center)
        self.holds, self.single = False, single
        self.exact = not single
        if not single:
            gain = suits_single(self)
            self.narrow = PartitionedRows(kernel, X, center, True) if gain else self

    def centered(self) -> FeatureRows:
        # Sparse rows less their mean would not be sparse any more.
        return self if self.X.sparse else super().centered()

    def _less(self, center: np.ndarray) -> FeatureRows:
        return PartitionedRows(self.kernel, self.X, center)

    def forget(self) -> None:
        """Nothing is held here."""

    def function(self, weights: np.ndarray, bias: Any) -> FeatureExpansion:
        """f(x) = ⟨weights, φ(x)⟩ + bias, the columns of φ known by their names."""
        keys, names = range(self.shape[1]), list(self.kernel.feature_names())  # type: ignore[attr-defined]
        return FeatureExpansion(self.kernel, keys, names, weights, bias)

    # What is asked of the rows of each partition

    def _each(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        shared = (self.kernel,)
        return self.X.remote.each(_asked, self._sent(method, arguments), shared)

    def _total(self, method: str, arguments: Sequence[Any]) -> Any:
        shared = (self.kernel,)
        return self.X.remote.total(_asked, self._sent(method, arguments), shared)

    def _sent(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        about = self.center, self.single, method
        return [None if some is None else (*about, some) for some in arguments]

    def _alike(self, *arguments: Any) -> list[Any]:
        return [arguments] * len(self.X.names)

    # Products

    def times(self, w: np.ndarray) -> np.ndarray:
        return np.concatenate(self._each("times", self._alike(w)))

    def pull(self, v: np.ndarray) -> np.ndarray:
        return self._total("pull", self.X.remote.slices(v))

    def pull_some(self, index: np.ndarray, v: np.ndarray) -> np.ndarray:
        found = self._total("pull_some", self.X.remote.split(index, v))
        return np.zeros(self.shape[1]) if found is None else found

    def round_trip(self, W: np.ndarray, between: Between) -> tuple[np.ndarray, ...]:
        return FeatureRows.round_trip(self, W, between)

    def squares(self, weight: np.ndarray) -> np.ndarray:
        return self._total("squares", self.X.remote.slices(weight))

    def lengths(self) -> np.ndarray:
        return np.concatenate(self._each("lengths", self._alike()))

    def squared_norms(self) -> np.ndarray:
        return np.concatenate(self._each("squared_norms", self._alike()))

    def grouped(self, label: np.ndarray, mass: np.ndarray, k: int) -> np.ndarray:
        split = self.X.remote.slices(label, mass)
        return self._total("grouped", [(*some, k) for some in split])

    def added(
        self, index: np.ndarray, weight: np.ndarray, border: np.ndarray
    ) -> np.ndarray:
        split = self.X.remote.split(index, np.asarray(weight), border)
        found = self._total("added", split)
        side = self.shape[1] + border.shape[1]
        return np.zeros((side, side)) if found is None else found

    def normal(
        self,
        weights: np.ndarray,
        shift: np.ndarray | None,
        kept: dict[str, Any] | None = None,
    ) -> np.ndarray:
        split = self.X.remote.slices(weights)
        return self._total("normal", [(*some, shift) for some in split])

    def rounding(self, coef: np.ndarray, w: np.ndarray) -> float:
        if self.landmarks is not None:
            return super().rounding(coef, w)
        # As of `FeatureRows`, whose sums are those of partitions.
        terms = int(np.count_nonzero(coef))
        of_sums = np.sqrt(min(terms, RUN)) + np.sqrt(terms / RUN)
        of_sums = np.sqrt(terms) if self._stays_sparse else of_sums
        sizes = self.X.remote.slices(np.abs(coef))
        pulled = self._total("pulled_sizes", sizes)
        off = (of_sums + LAST) * pulled
        off += (np.sqrt(self.shape[1]) + LAST) * np.abs(w)
        return UNIT * max(self._each("largest_size", self._alike(off)))

    # Some of the rows

    def held(self) -> FeatureRows:
        parts = self._each("whole", self._alike())
        if self.X.sparse:
            return FeatureRows(sp.vstack(parts, format="csr"))
        return FeatureRows(np.concatenate(parts))

    def nearby(self, index: np.ndarray) -> FeatureRows:
        """Rows of some points: computed here, where these are few."""
        X = self.X.take(index)
        if isinstance(X, Partitions):
            return PartitionedRows(self.kernel, X, self.center, self.single)
        if self._stays_sparse:
            return FeatureRows(sp.csr_array(double(X)))
        rows = _Near(self.kernel, X, self.shape[1], self.center)
        narrow = in_single(rows) if self.single else rows
        return narrow if isinstance(narrow, SingleRows) else rows

    def some(self, index: np.ndarray) -> FeatureRows:
        return self.nearby(index)

    @property
    def _stays_sparse(self) -> bool:
        return self.X.sparse and isinstance(self.kernel, Linear)

    def take(self, index: np.ndarray) -> FeatureRows:
        rows = self.nearby(index)
        if not rows.computed:
            return rows
        rows = rows.fine if isinstance(rows, SingleRows) else rows
        few = memory.block_mb(FEW_MB) * 2**20
        return rows.held() if 8.0 * rows.entries <= few else rows


class MappedRows(PartitionedRows):
    """Φ of a map with columns of its own, which is kept where the points are.

    Parameters
    ----------
    kernel, X : whose map it is, and of which points
    found : Φ, and what its columns are known by
    """

    def __init__(self, kernel: Kernel, X: Partitions, found: PartitionedMap):
        super().__init__(Linear(), found.points)
        self.of, self.source, self.keys = kernel, X, found.keys

    def function(self, weights: np.ndarray, bias: Any) -> FeatureExpansion:
        names = names_of(self.of, self.source, self.keys)
        return FeatureExpansion(self.of, self.keys, names, weights, bias)


class _Near(ComputedRows):
    """Φ of points that are in memory here, of a width known from others."""

    def __init__(
        self, kernel: Kernel, X: Points, width: int, center: np.ndarray | None
    ):
        super().__init__(kernel, X, center, width)

    def held(self) -> FeatureRows:
        return FeatureRows(self._part(slice(0, count(self.X))))

    def whole(self) -> np.ndarray:
        return self.held().matrix

    def pulled_sizes(self, sizes: np.ndarray) -> np.ndarray:
        """|Φ|ᵀ sizes."""
        out = np.zeros(self.shape[1])
        for rows, part in self._magnitudes():
            out += part.T @ sizes[rows]
        return out

    def largest_size(self, off: np.ndarray) -> float:
        """The largest entry of |Φ| off."""
        found = (np.max(part @ off, initial=0.0) for _, part in self._magnitudes())
        return float(max(found, default=0.0))


class _NearSparse(FeatureRows):
    """Φ of points that are rows of CSR, as they are."""

    def whole(self) -> Any:
        return self.matrix

    def pull(self, v: np.ndarray) -> np.ndarray:
        return self._pull(v) if v.ndim == 1 else np.asarray(self.matrix.T @ v)

    def normal(self, weights: np.ndarray, shift: np.ndarray | None) -> np.ndarray:
        """Σᵢ hᵢ (φᵢ - shift)(φᵢ - shift)ᵀ, (p, p), for weights h of either sign."""
        scaled = sp.csr_array(self.matrix.multiply(weights[:, None]))
        out = (self.matrix.T @ scaled).toarray()
        if shift is not None:
            total = self._pull(weights)
            out -= np.multiply.outer(total, shift) + np.multiply.outer(shift, total)
            out += float(weights.sum()) * np.multiply.outer(shift, shift)
        return out

    def pulled_sizes(self, sizes: np.ndarray) -> np.ndarray:
        """|Φ|ᵀ sizes."""
        return self._pull(sizes, magnitudes=True)

    def largest_size(self, off: np.ndarray) -> float:
        """The largest entry of |Φ| off."""
        return float(np.max(self._times(off, magnitudes=True), initial=0.0))


def rows_of_part(
    part: Points, kernel: Kernel, center: np.ndarray | None = None
) -> FeatureRows:
    """Φ of a partition, where that is."""
    if sp.issparse(part) and isinstance(kernel, Linear):
        return _NearSparse(sp.csr_array(double(part)))
    width = part.shape[1] if not hasattr(kernel, "n_columns") else kernel.n_columns
    rows = _Near(kernel, part, width, center)
    rows.holds = False
    return rows


def _asked(
    part: Points,
    center: np.ndarray | None,
    single: bool,
    method: str,
    arguments: tuple[Any, ...],
    kernel: Kernel,
) -> Any:
    """What the rows of a partition answer."""
    rows = rows_of_part(part, kernel, center)
    if single and method in ("times", "pull", "pull_some", "added", "normal"):
        narrow = in_single(rows)
        if isinstance(narrow, SingleRows):
            narrow.holds, rows = False, narrow
    return getattr(rows, method)(*arguments)
