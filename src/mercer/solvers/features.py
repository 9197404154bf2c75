"""Φ with K = ΦΦᵀ, where a kernel has a finite explicit map: products in linear time.

features_of(gram)    Φ of a Gram, made once and kept with it
rows_of(gram)        the same for descent, in as few entries as it can be
FeatureRows          Φ by its rows, less a common offset
ComputedRows         the same, computed whenever it is read: no room for it is needed
solution_on(...)     the solution of a `BoxQP` whose β was found on features
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import _core
from mercer.data.blocks import Blocks
from mercer.data.points import Points, count, double, precision, take
from mercer.gram import Gram
from mercer.kernels.algebra import Normalized
from mercer.kernels.approximate import Nystrom
from mercer.kernels.base import Kernel, Scaled
from mercer.kernels.string import WeightedDegree
from mercer.kernels.vector import Linear
from mercer.maps import dense_columns, explicit
from mercer.native import memory
from mercer.native.clock import breakable, tick
from mercer.native.interruptible import interruptible, multiply, summed
from mercer.outcomes import Run, Solution, Status
from mercer.solvers.box_certificate import covering
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.rounding import LAST, UNIT

DescentState = _core.DescentState  # what passes over rows keep from call to call
BLOCK = 2**18  # numbers of a block of rows, which stays in the caches
COMPUTED_MB = 16.0  # of rows that are computed, for products of matrices
NORMAL_MB = 64.0  # the same, where p × p numbers are added up for every block
FEW_MB = 256.0  # of rows that are taken into memory
RUN = 1024  # rows whose terms are added one after another; then the sums of these
SHORT = 64  # coordinates of points whose kernel values are computed, not held
EXACT_RUN = 2**13  # rows whose leading bits are added without an error
SPREAD = 4096  # rows that tell the mean of rows that are computed
FAR = 1e3  # a mean so many standard deviations from 0 takes digits away


class FeatureRows:
    """Φ - 1cᵀ, (n, p), by its rows: products in float64, and how far they can be off.

    Parameters
    ----------
    matrix : Φ, float64 array or CSR
    center : c, which is subtracted where it is read; None for 0
    """

    computed = False  # whether rows are computed anew whenever they are read
    exact = True  # whether products with vectors are in double precision
    narrow: FeatureRows | None = None  # the same to single precision, once it was made

    def __init__(self, matrix: Any, center: np.ndarray | None = None):
        self.sparse = sp.issparse(matrix)
        if self.sparse and max(matrix.nnz, *matrix.shape) < 2**31:
            # Half the memory to read in every product.
            parts = (
                matrix.data,
                matrix.indices.astype(np.int32, copy=False),
                matrix.indptr.astype(np.int32, copy=False),
            )
            matrix = sp.csr_array(parts, shape=matrix.shape)
        self.matrix, self.center = matrix, center
        self._packed: _core.SparseRows | None = None
        self._across: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def entries(self) -> int:
        """How many numbers a product reads."""
        return int(self.matrix.nnz) if self.sparse else int(self.matrix.size)

    @property
    def packed(self) -> _core.SparseRows:
        """The rows of CSR in as few bytes as they can be, made once."""
        if self._packed is None:
            matrix = self.matrix
            self._packed = _core.SparseRows(
                matrix.indptr, matrix.indices, matrix.data, matrix.shape[1]
            )
        return self._packed

    @property
    def across(self) -> Any:
        """Φᵀ; that of CSR is kept, as its products with matrices take half the time."""
        if not self.sparse:
            return self.matrix.T
        if self._across is None:
            self._across = sp.csr_array(self.matrix.T)
        return self._across

    def centered(self) -> FeatureRows:
        """The same less the mean of its rows, where that is far from 0.

        Of sparse rows nothing is subtracted: they would not be sparse any more.
        """
        n = self.shape[0]
        if self.sparse or not n:
            return self
        mean, square = np.zeros((2, self.shape[1]))
        first = self._part(slice(0, 1))[0].copy()
        # Any offset will do: some of the rows tell it, where they are computed.
        looked_at = self._blocks() if not self.computed else self._spread()
        n = n if not self.computed else min(n, SPREAD)
        for rows in looked_at:
            part = self._part(rows) - first
            mean += part.sum(axis=0)
            square += np.einsum("ij,ij->j", part, part)
        spread = np.sqrt(np.maximum(square / n - (mean / n) ** 2, 0.0))
        mean = first + mean / n
        far = np.abs(mean) > FAR * spread
        # A column that is constant is 0 then, and no part of the problem.
        return self._less(np.where(far, mean, 0.0)) if far.any() else self

    def _spread(self) -> Iterator[np.ndarray]:
        """Places of at most `SPREAD` rows, evenly among all."""
        n, step = self.shape[0], self._step(BLOCK)
        places = np.linspace(0, n - 1, min(n, SPREAD)).astype(np.intp)
        for begin in range(0, len(places), step):
            yield places[begin : begin + step]

    def _less(self, center: np.ndarray) -> FeatureRows:
        return FeatureRows(self.matrix, center)

    def mean(self) -> np.ndarray:
        """The mean of the rows."""
        if self.computed:
            return self.pull(np.ones(self.shape[0])) / max(1, self.shape[0])
        return np.asarray(self.matrix.mean(axis=0)).ravel()

    def parts(self, numbers: int = BLOCK) -> Iterator[tuple[slice, np.ndarray]]:
        """The rows as dense arrays of about so many numbers, one after another."""
        n, step = self.shape[0], self._step(numbers)
        for begin in range(0, n, step):
            rows = slice(begin, min(begin + step, n))
            part = self._part(rows)
            yield rows, part.toarray() if self.sparse else part

    def _step(self, numbers: int) -> int:
        """Rows of about so many numbers."""
        return max(64, numbers // max(self.shape[1], 1))

    def _part(self, rows: Any) -> Any:
        """Some of the rows, less the offset."""
        part = self.matrix[rows]
        return part if self.center is None else part - self.center

    def held(self) -> FeatureRows:
        """The same in memory."""
        return self

    def forget(self) -> None:
        """Free what is held beside Φ."""
        self.narrow = None

    def compressed(self) -> FeatureRows:
        """The same with a sparse matrix."""
        if self.sparse:
            return self
        return FeatureRows(sp.csr_array(self.matrix))

    def times(self, w: np.ndarray) -> np.ndarray:
        """(Φ - 1cᵀ) w."""
        if self.sparse and w.ndim == 1:
            return self._times(w)
        if self.center is None:
            return np.asarray(multiply(self.matrix, w))
        out = np.empty((self.shape[0], *w.shape[1:]))
        for rows in self._blocks():
            out[rows] = self._part(rows) @ w
        return out

    def against(self, V: np.ndarray) -> np.ndarray:
        """ΦᵀV of (n, q) arrays, in the order in which BLAS adds them."""
        return np.asarray(multiply(self.across, V))

    def pull(self, v: np.ndarray) -> np.ndarray:
        """(Φ - 1cᵀ)ᵀ v."""
        if self.sparse:
            return self._pull(v)
        n, p = self.shape
        if self.center is None and self.matrix.flags.c_contiguous:
            whole = n - n % RUN
            runs = (n // RUN, RUN)
            part = self.matrix[:whole].reshape(*runs, p)
            sums = interruptible(
                np.matmul, v[:whole].reshape(runs[0], 1, RUN), part, work=float(n) * p
            )
            return sums[:, 0].sum(axis=0) + v[whole:] @ self.matrix[whole:]
        total = np.zeros(p)
        for begin in range(0, n, RUN):
            rows = slice(begin, begin + RUN)
            total += v[rows] @ self._part(rows)
        return total

    def pull_some(self, index: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Φᵀv of the rows of an index, v having a number for each."""
        if self.sparse:
            return self._pull(v, index.astype(np.int32))
        out, step = np.zeros(self.shape[1]), self._step(BLOCK)
        for begin in range(0, len(index), step):
            part = slice(begin, begin + step)
            out += v[part] @ self.take(index[part]).matrix
        return out

    def _times(
        self, w: np.ndarray, index: np.ndarray | None = None, magnitudes: bool = False
    ) -> np.ndarray:
        """Φ w, or |Φ| w, of the rows of an index, Φ being sparse."""
        if index is None:
            index = np.arange(self.shape[0], dtype=np.int32)
        out = np.empty(len(index))
        self.packed.times(index, np.ascontiguousarray(w), out, magnitudes)
        return out

    def _pull(
        self, v: np.ndarray, index: np.ndarray | None = None, magnitudes: bool = False
    ) -> np.ndarray:
        """Φᵀ v, or |Φ|ᵀ v, of the rows of an index, Φ being sparse."""
        if index is None:
            index = np.arange(self.shape[0], dtype=np.int32)
        out = np.zeros(self.shape[1])
        self.packed.pull(index, np.ascontiguousarray(v), out, magnitudes)
        return out

    def take(self, index: np.ndarray) -> FeatureRows:
        """Some of the rows, copied."""
        some = self.matrix[index]
        return FeatureRows(some if self.center is None else some - self.center)

    def squares(self, weight: np.ndarray) -> np.ndarray:
        """Σᵢ weightᵢ Φᵢⱼ² of every column."""
        if self.sparse:
            return np.asarray(self.matrix.power(2).T @ weight)
        out = np.zeros((self.shape[1], *weight.shape[1:]))
        for rows, part in self.parts():
            out += np.square(part).T @ weight[rows]
        return out

    def lengths(self) -> np.ndarray:
        """‖φᵢ - c‖² of every row."""
        out = np.empty(self.shape[0])
        if self.sparse:
            self.packed.squares(out)
            return out
        for rows, part in self._magnitudes():
            out[rows] = np.einsum("ij,ij->i", part, part)
        return out

    def weighted(
        self, index: np.ndarray, weight: np.ndarray, border: np.ndarray
    ) -> np.ndarray:
        """UᵀDU of the rows U = [Φ, border] of this index, a block of them at a time."""
        p = self.shape[1]
        out = np.zeros((p + border.shape[1],) * 2)
        if self.sparse:
            place, square = index.astype(np.int32), np.zeros((p, p))
            self.packed.weighted(place, weight, square)
            out[:p, :p] = square
            for g, column in enumerate(border.T):
                out[:p, p + g] = out[p + g, :p] = self._pull(weight * column, place)
            out[p:, p:] = (border.T * weight) @ border
            return out
        step = max(64, BLOCK // max(p, 1))
        for begin in range(0, len(index), step):
            part = slice(begin, begin + step)
            U = np.hstack([self.take(index[part]).matrix, border[part]])
            U *= np.sqrt(weight[part])[:, None]
            out += U.T @ U
        return out

    # Coordinates in which ΦᵀDΦ takes the least work, c with w = Aᵀc

    def added(
        self, index: np.ndarray, weight: np.ndarray, border: np.ndarray
    ) -> np.ndarray:
        """`weighted` in the coordinates c: AΦᵀDΦAᵀ with its border."""
        return self.weighted(index, weight, border)

    def metric(self) -> np.ndarray:
        """AAᵀ: ‖w‖² = cᵀAAᵀc."""
        return np.eye(self.shape[1])

    def slope_of(self, slope: np.ndarray) -> np.ndarray:
        """A slope: what a slope in w is in c."""
        return slope

    def weights_of(self, coef: np.ndarray) -> np.ndarray:
        """w = Aᵀc."""
        return coef

    def evaluated(self, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """w = Φᵀcoef, F = Φw, and how far F can be off at a point."""
        if self.sparse or self.center is not None or not self.shape[1]:
            w = self.pull(coef)
            return w, self.times(w), self.rounding(coef, w)
        w, off, largest = _pulled_exactly(self.matrix, coef)
        off = off + UNIT * (np.sqrt(self.shape[1]) + LAST) * np.abs(w)
        return w, self.times(w), float(largest @ off)

    def rounding(self, coef: np.ndarray, w: np.ndarray) -> float:
        """How far F = Φ(Φᵀcoef) can be off at a point, w = Φᵀcoef.

        |Φ|(|Φ|ᵀ|coef|) with what adding n and p numbers does (`rounding.py`).
        """
        size, p = np.abs(coef), self.shape[1]
        terms = int(np.count_nonzero(coef))
        of_sums = np.sqrt(terms)
        if self.sparse:
            pulled = self._pull(size, magnitudes=True)
            off = (of_sums + LAST) * pulled + (np.sqrt(p) + LAST) * np.abs(w)
            return UNIT * float(np.max(self._times(off, magnitudes=True), initial=0.0))
        of_sums = np.sqrt(min(terms, RUN)) + np.sqrt(terms / RUN)
        pulled = np.zeros(p)
        for rows, part in self._magnitudes():
            pulled += part.T @ size[rows]
        off = (of_sums + LAST) * pulled + (np.sqrt(p) + LAST) * np.abs(w)
        most = 0.0
        for _, part in self._magnitudes():
            most = max(most, float(np.max(part @ off, initial=0.0)))
        return UNIT * most

    def _magnitudes(self) -> Iterator[tuple[slice, Any]]:
        """|Φ - 1cᵀ| of a dense Φ, a block of rows at a time."""
        for rows in self._blocks():
            yield rows, abs(self._part(rows))

    def _blocks(self) -> Iterator[slice]:
        n, p = self.shape
        step = max(64, BLOCK // max(p, 1))
        for begin in range(0, n, step):
            yield slice(begin, min(begin + step, n))


class PackedRows(FeatureRows):
    """Φ by its rows, which the core alone holds: products with vectors, and descent."""

    sparse = True
    center = None

    def __init__(self, packed: _core.SparseRows):
        self._packed = packed

    @property
    def shape(self) -> tuple[int, int]:
        return self.packed.size, self.packed.width

    @property
    def entries(self) -> int:
        return self.packed.entries

    @property
    def packed(self) -> _core.SparseRows:
        assert self._packed is not None
        return self._packed


class ComputedRows(FeatureRows):
    """Φ - 1cᵀ of points, each block of rows computed whenever it is read.

    Of a well-conditioned `Nystrom` neither products nor ΦᵀDΦ need φ itself: kernel
    values with the landmarks are summed first.

    Parameters
    ----------
    kernel : with an explicit map of dense columns, their number known beforehand
    X : the points, perhaps in files
    """

    computed = True
    sparse = False

    def __init__(self, kernel: Kernel, X: Points, center: np.ndarray | None = None):
        self.kernel, self.X, self.center = kernel, X, center
        columns = dense_columns(kernel, X)
        assert columns is not None
        self._shape = count(X), columns
        self.landmarks = kernel if isinstance(kernel, Nystrom) else None
        if self.landmarks is not None and not self.landmarks.is_well_conditioned:
            self.landmarks = None
        self._values: np.ndarray | None = None
        self.holds = self.landmarks is not None and self._is_long

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    @property
    def entries(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def across(self) -> Any:
        raise TypeError("Φᵀ is not held: use `against` or `pull`.")

    def held(self) -> FeatureRows:
        """The same in memory."""
        out = np.empty(self.shape)
        for rows, part in self.parts(_computed()):
            out[rows] = part
        return FeatureRows(out)

    def _less(self, center: np.ndarray) -> FeatureRows:
        return ComputedRows(self.kernel, self.X, center)

    def _step(self, numbers: int) -> int:
        shape = getattr(self.X, "shape", ())
        wide = max(self.shape[1], *shape[1:], 1)
        return max(16, numbers // wide)

    def _blocks(self) -> Iterator[slice]:
        step = self._step(_computed())
        for begin in range(0, self.shape[0], step):
            yield slice(begin, min(begin + step, self.shape[0]))

    def _points(self, rows: Any) -> Points:
        """Some of the points, in memory."""
        return self.X[rows] if isinstance(self.X, Blocks) else take(self.X, rows)

    def _part(self, rows: Any) -> np.ndarray:
        part = explicit(self.kernel, self._points(rows)).matrix
        part = part.toarray() if sp.issparse(part) else part
        return part if self.center is None else part - self.center

    @property
    def _is_long(self) -> bool:
        """Whether k(x, L) takes longer to compute than to read, and finds room."""
        wide = max(getattr(self.X, "shape", ())[1:], default=0)
        there = not isinstance(self.X, Blocks) and wide > SHORT
        return there and memory.keeps(8.0 * self.entries)

    @property
    def values(self) -> np.ndarray | None:
        """k(X, L), where it is held; computed once."""
        if self._values is None and self.holds:
            self._values = self._filled()
        return self._values

    def forget(self) -> None:
        """Free the kernel values that are held; they are computed anew when read."""
        self._values = self.narrow = None

    def _filled(self) -> np.ndarray:
        out = np.empty(self.shape)
        for rows in self._blocks():
            tick("kernel values", rows.start / self.shape[0])
            out[rows] = self._computed_values(rows)
        return out

    def times(self, w: np.ndarray) -> np.ndarray:
        if self.landmarks is not None:
            values = self.values
            if values is None:
                out = self.landmarks.evaluate(self.X, w)
            else:
                out = multiply(values, self.landmarks.base_coefficients(w))
            return out if self.center is None else out - self.center @ w
        out = np.empty((self.shape[0], *w.shape[1:]))
        for rows, part in self.parts(_computed()):
            out[rows] = multiply(part, w)
        return out

    def pull(self, v: np.ndarray) -> np.ndarray:
        if self.landmarks is not None:
            values = self.values
            if values is None:
                out = self.landmarks.feature_weights(self.X, v)
            else:
                sums = np.zeros((self.shape[1], *v.shape[1:]))
                for rows in self._blocks():
                    sums += multiply(values[rows].T, v[rows])
                out = self.landmarks.turned(sums)
            if self.center is not None:
                out = out - np.multiply.outer(self.center, v.sum(axis=0))
            return out
        out = np.zeros((self.shape[1], *v.shape[1:]))
        for rows, part in self.parts(_computed()):
            out += multiply(part.T, v[rows])
        return out

    def pull_some(self, index: np.ndarray, v: np.ndarray) -> np.ndarray:
        # Points in files find room a block at a time only.
        step = self._step(_computed()) if isinstance(self.X, Blocks) else len(index)
        out = np.zeros(self.shape[1])
        for begin in range(0, len(index), max(1, step)):
            part = slice(begin, begin + step)
            rows = ComputedRows(self.kernel, self._points(index[part]), self.center)
            out += rows.pull(v[part])
        return out

    def against(self, V: np.ndarray) -> np.ndarray:
        return self.pull(V)

    def take(self, index: np.ndarray) -> FeatureRows:
        """Some of the rows: in memory, where they are few."""
        few = memory.block_mb(FEW_MB) * 2**20
        if 8.0 * len(index) * max(1, self.shape[1]) <= few:
            out, step = np.empty((len(index), self.shape[1])), self._step(_computed())
            for begin in range(0, len(index), step):
                part = slice(begin, begin + step)
                out[part] = self._part(index[part])
            return FeatureRows(out)
        return ComputedRows(self.kernel, take(self.X, index), self.center)

    def lengths(self) -> np.ndarray:
        """‖φᵢ - c‖² of every row, or a little more: k(x, x) of an approximated k."""
        if self.landmarks is None or self.center is not None:
            return super().lengths()
        out = np.empty(self.shape[0])
        for rows in self._blocks():
            out[rows] = self.landmarks.kernel.diag(double(self._points(rows)))
        return out

    def weighted(
        self, index: np.ndarray, weight: np.ndarray, border: np.ndarray
    ) -> np.ndarray:
        out, p = self.added(index, weight, border), self.shape[1]
        if self.adds_values:
            assert self.landmarks is not None
            out[:p] = self.landmarks.turned(out[:p])
            out[:, :p] = self.landmarks.turned(out[:, :p].T).T
        return out

    @property
    def adds_values(self) -> bool:
        """Whether products need kernel values with the landmarks alone."""
        return self.landmarks is not None and self.center is None

    def added(
        self, index: np.ndarray, weight: np.ndarray, border: np.ndarray
    ) -> np.ndarray:
        p = self.shape[1]
        out = np.zeros((p + border.shape[1],) * 2)
        step = self._step(_computed())
        for begin in range(0, len(index), step):
            part = slice(begin, begin + step)
            some = index[part]
            U = self._summed(some) if self.adds_values else self._part(some)
            U = np.hstack([U, border[part]])
            U *= np.sqrt(weight[part])[:, None]
            out += multiply(U.T, U)
        return out

    def metric(self) -> np.ndarray:
        if not self.adds_values:
            return super().metric()
        assert self.landmarks is not None
        lower = self.landmarks.triangle()
        return multiply(lower, lower.T)

    def slope_of(self, slope: np.ndarray) -> np.ndarray:
        if not self.adds_values:
            return slope
        assert self.landmarks is not None
        return self.landmarks.triangle() @ slope

    def weights_of(self, coef: np.ndarray) -> np.ndarray:
        if not self.adds_values:
            return coef
        assert self.landmarks is not None
        return self.landmarks.weights_of(coef)

    def normal(
        self,
        weights: np.ndarray,
        shift: np.ndarray | None,
        kept: dict[str, Any] | None = None,
    ) -> np.ndarray:
        """Σᵢ hᵢ (φᵢ - shift)(φᵢ - shift)ᵀ, (p, p), for weights h of either sign."""
        step = self._step(_computed(NORMAL_MB))
        ends = range(0, self.shape[0], step)
        blocks = [slice(begin, min(begin + step, self.shape[0])) for begin in ends]
        if not blocks:
            return np.zeros((self.shape[1],) * 2)
        negative, even = bool(np.any(weights < 0)), bool(np.all(weights == 1))
        middle = self._middle()

        def multiplied(rows: slice) -> tuple[np.ndarray, ...]:
            U = self._part(rows) if self.landmarks is None else self._summed(rows)
            U = U if middle is None else U - middle
            some = weights[rows].astype(U.dtype, copy=False)
            if negative:
                return multiply((some[:, None] * U).T, U), some @ U
            some = np.sqrt(some)
            U = U if even else U * some[:, None]
            return multiply(U.T, U), some @ U  # half the work, of U with itself

        sums, total = self._summed_over(blocks, multiplied, kept)
        if middle is not None:
            moved = total + float(weights.sum()) / 2 * middle
            sums += np.multiply.outer(moved, middle) + np.multiply.outer(middle, moved)
            total += float(weights.sum()) * middle
        if self.landmarks is not None:
            sums = self.landmarks.turned(self.landmarks.turned(sums).T)
            total = self.landmarks.turned(total)
        if shift is not None:
            sums -= np.multiply.outer(total, shift) + np.multiply.outer(shift, total)
            sums += float(weights.sum()) * np.multiply.outer(shift, shift)
        return (sums + sums.T) / 2

    def _summed_over(
        self,
        blocks: list[slice],
        call: Callable[[slice], tuple[np.ndarray, ...]],
        kept: dict[str, Any] | None,
    ) -> list[np.ndarray]:
        """Σ call(rows) over the blocks; points that are read, by one thread in order.

        What was summed of these until an error is in `kept`, and goes on from there.
        """
        stage = "products of features"
        if not isinstance(self.X, Blocks):
            ample = memory.keeps(4 * 2.0**20 * NORMAL_MB)
            return summed(call, blocks, stage, many=ample)
        kept = {} if kept is None else kept
        first, sums = kept.get("sums", (0, None))
        for i in range(first, len(blocks)):
            tick(stage, i / len(blocks))
            found = call(blocks[i])
            if sums is None:
                sums = [np.zeros(part.shape) for part in found]
            for whole, part in zip(sums, found, strict=True):
                whole += part
            kept["sums"] = i + 1, sums
        return [part.copy() for part in sums]

    def _middle(self) -> np.ndarray | None:
        """What is taken from all k(x, L) before they are multiplied; None for 0."""
        return None

    def _summed(self, rows: Any) -> np.ndarray:
        """k(x, L) of some points."""
        values = self.values
        return self._computed_values(rows) if values is None else values[rows]

    def _computed_values(self, rows: Any) -> np.ndarray:
        assert self.landmarks is not None
        return self.landmarks.base_products(self._points(rows))

    def evaluated(self, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        w = self.pull(coef)
        return w, self.times(w), self.rounding(coef, w)

    def rounding(self, coef: np.ndarray, w: np.ndarray) -> float:
        """As of `FeatureRows`; of kernel values summed first, by √(k(x, x)) and κ.

        F = k(x, L) F⁻ᵀF⁻¹ k(L, X) coef: what is rounded in k, in its sums over points
        and landmarks and in the two triangular systems grows by κ (`Nystrom.growth`).
        """
        if self.landmarks is None:
            return super().rounding(coef, w)
        lengths = np.sqrt(self.lengths())
        reach = float(np.max(lengths, initial=0.0)) * float(lengths @ np.abs(coef))
        return self.units * reach

    @property
    def units(self) -> float:
        """The relative error of |Φ|(|Φ|ᵀ|coef|), where every number is rounded."""
        n, p = self.shape
        units = UNIT * (np.sqrt(n) + np.sqrt(p) + 3 * LAST)
        if self.landmarks is not None:
            units = UNIT * (np.sqrt(n) + 3 * np.sqrt(p) + 3 * LAST)
            units *= max(1.0, self.landmarks.growth)
        return float(units)


def _pulled_exactly(
    matrix: np.ndarray, v: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mᵀv to the last digit, how far each sum is off, and the largest |M| of columns.

    Numbers of M and v are cut into 20 leading bits and the rest. Products of leading
    bits are whole multiples of one number, and so few that 2¹³ of them are added
    without an error, in whatever order; what is added to that is a millionth of them
    (Ozaki, Ogita, Oishi and Rump, Numerical Algorithms 59, 2012). Sums of blocks are
    added with their errors (Knuth's two-sum).
    """
    n, p = matrix.shape
    total, rest, largest, size = np.zeros((4, p))
    for begin in range(0, n, EXACT_RUN):
        M, part = matrix[begin : begin + EXACT_RUN], v[begin : begin + EXACT_RUN]
        # Rows side by side: numpy is slow on short ones.
        side = max(1, 256 // p) if len(M) == EXACT_RUN else 1
        side = 2 ** (side.bit_length() - 1)
        wide = M.reshape(-1, side * p)
        most = np.maximum(wide.max(axis=0), -wide.min(axis=0))
        most = most.reshape(side, p).max(axis=0)
        lead = _leading(wide, np.tile(most, side)).reshape(M.shape)
        of_v = _leading(part, np.max(np.abs(part)))
        exact, less = of_v @ lead, part - of_v
        rest += less @ lead
        rest += part @ np.subtract(M, lead, out=lead)
        after = total + exact
        moved = after - total
        rest += (total - (after - moved)) + (exact - moved)
        total = after
        np.maximum(largest, most, out=largest)
        size += most * float(2.0**-19 * np.abs(part).sum() + np.abs(less).sum())
    w = total + rest
    # What is not exact is rounded, in sums of 2¹³ and of n / 2¹³ numbers.
    units = np.sqrt(EXACT_RUN) + np.sqrt(n / EXACT_RUN) + LAST
    return w, UNIT * (2 * np.abs(w) + units * size), largest


def _leading(numbers: np.ndarray, most: Any) -> np.ndarray:
    """The numbers rounded to multiples of 2⁻¹⁹ of a power of two from `most` on."""
    _, exponent = np.frexp(most)
    shift = np.ldexp(1.5, exponent + 33)
    lead = numbers + shift
    lead -= shift
    return lead


def _computed(most: float = COMPUTED_MB) -> int:
    """Numbers of a block of rows that is computed."""
    return int(memory.block_mb(most) * 2**17)


def features_of(gram: Gram, once: bool = False) -> FeatureRows:
    """Φ of the points of a Gram, made when it is first asked for and kept with it.

    Where there is no room for it, or the points themselves are not in memory, its rows
    are computed whenever they are read.

    Parameters
    ----------
    once : whether it is read a few times only; of landmarks with a compiled kernel,
        kernel values then take less time than Φ itself
    """
    if gram._features is None and once and _is_quick(gram):
        gram._features = ComputedRows(gram.kernel, gram.X)
    if gram._features is None:
        rows = _of_origin(gram)
        if rows is None:
            tick("features")
            rows = _made(gram.kernel, gram.X)
        gram._features = rows
    return gram._features


def rows_of(gram: Gram) -> FeatureRows:
    """Φ of the points of a Gram for descent, in as few entries as it can be."""
    if gram._packed is None and gram._features is None:
        packed = _packed_map(gram.kernel, gram.X)
        gram._packed = None if packed is None else PackedRows(packed)
    return features_of(gram) if gram._packed is None else gram._packed


def packed_entries(kernel: Kernel, X: Points) -> float | None:
    """How many entries Φ has at most, of maps that the core packs; None of others."""
    while isinstance(kernel, Scaled | Normalized):
        kernel = kernel.kernel
    return kernel.most_entries(X) if isinstance(kernel, WeightedDegree) else None


def _packed_map(kernel: Kernel, X: Points) -> _core.SparseRows | None:
    """The rows as the core packs them, where it knows the map."""
    factor = np.ones(count(X))
    while isinstance(kernel, Scaled | Normalized):
        if isinstance(kernel, Scaled):
            factor *= np.sqrt(float(kernel.factor))
        else:
            squares = kernel.kernel.diag(X)
            if not squares.all():
                return None  # points without any part are alike
            factor /= np.sqrt(squares)
        kernel = kernel.kernel
    if not isinstance(kernel, WeightedDegree):
        return None
    tick("features")
    return kernel.packed(X, None if np.all(factor == 1) else factor)


def _is_quick(gram: Gram) -> bool:
    """Whether products with Φ are quick without it."""
    kernel = gram.kernel
    if gram._origin is not None or not isinstance(kernel, Nystrom):
        return False
    compiled = kernel.kernel.native(kernel.base_points()) is not None
    return compiled and kernel.is_well_conditioned


def _made(kernel: Kernel, X: Points) -> FeatureRows:
    columns = dense_columns(kernel, X)
    if columns is not None and is_computed(kernel, X, columns):
        return ComputedRows(kernel, X)
    with breakable():  # there is nothing to solve without them
        return FeatureRows(explicit(kernel, X).matrix)


def is_computed(kernel: Kernel, X: Points, columns: int) -> bool:
    """Whether Φ, of so many columns, is computed when it is read, and not kept."""
    if isinstance(X, Blocks):
        return True
    there = isinstance(kernel, Linear) and precision(X) == np.float64
    return not there and not memory.keeps(8.0 * count(X) * columns)


def _of_origin(gram: Gram) -> FeatureRows | None:
    """Rows of Φ of the Gram whose points these were taken from, where it has them."""
    if gram._origin is None:
        return None
    origin, index = gram._origin
    rows = origin._features
    # Where Φ are the points themselves, they have been taken already.
    if rows is None or (not rows.computed and rows.matrix is origin.X):
        return None
    return rows.take(index)


# Problems on features


def check_bounds(solver: object, problem: BoxQP) -> None:
    """Refuse bounds that a solver on features cannot work with."""
    if not problem.has_finite_bounds:
        raise ValueError(
            f"{type(solver).__name__} needs finite bounds; this BoxQP has infinite "
            "ones. Choose a finite C, or let AutoSMO choose the solver."
        )


def totals_of(problem: BoxQP) -> np.ndarray:
    """What β sums to in each group; empty where nothing is fixed."""
    if problem.total is None:
        return np.empty(0)
    return np.atleast_1d(np.asarray(problem.total, dtype=float))


def solution_on(
    rows: FeatureRows, problem: BoxQP, beta: np.ndarray, run: Run, tol: float
) -> Solution:
    """The solution with these β, F = Φ(Φᵀβ) summed afresh, and its certificate.

    Parameters
    ----------
    run : with the status "optimal" where the solver came to its end; what is stated
        follows from the violation
    """
    # A variable that rounding keeps off its bound would pass for a free one.
    value = problem.balanced(problem.snapped(problem.sign * beta, slack=1e-13))
    if problem.tube_is_found:
        # As `certify` does it, from coef and the bias alone.
        coef = problem.coef(value)
        function = rows.times(rows.pull(coef))
        rho = float(np.mean(problem.level(value, function)))
        value = problem.balanced(problem.split(coef, function, rho))
    w, function, rounding = rows.evaluated(problem.coef(value))
    if rows.center is not None:
        # What all φ(x) have in common adds the same to F at all points.
        common = float(rows.center @ w)
        function += common
        rounding += UNIT * (abs(common) + float(np.abs(rows.center) @ np.abs(w)))
    rounding += 2 * UNIT * float(np.max(np.abs(problem.target), initial=0.0))
    level = problem.level(value, function)
    primal, dual, error = problem.bracket(value, function, level, rounding)
    violation = problem.violation(value, function)
    off, status = problem.violation_rounding(rounding), run.status
    if status == Status.OPTIMAL and violation + off > tol:
        status = Status.IMPRECISE if violation <= tol else Status.STALLED
    return Solution(
        value=value,
        bias=-float(np.mean(level)),
        primal=primal,
        dual=dual,
        violation=violation,
        run=replace(run, status=status),
        level=level,
        function=function,
        rounding=covering(off, error, tol - violation),
        objective_rounding=error,
    )
