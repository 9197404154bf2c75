"""FeatureRows: Φ with K = ΦΦᵀ by its rows in memory, and products in linear time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import _core
from mercer.native import tall
from mercer.native.interruptible import interruptible, multiply
from mercer.native.tall import Between
from mercer.solvers.rounding import LAST, UNIT

SparseRows = _core.SparseRows  # CSR in as few bytes as it can be
PlacedTries = _core.PlacedTries  # stretches of tokens at their places
DescentState = _core.DescentState  # what passes over rows keep from call to call
BLOCK = 2**18  # numbers of a block of rows, which stays in the caches
RUN = 1024  # rows whose terms are added one after another; then the sums of these
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
    adds_values = False  # whether products need kernel values with landmarks alone
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
        self._packed: SparseRows | None = None
        self._across: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def entries(self) -> int:
        """How many numbers a product reads."""
        return int(self.matrix.nnz) if self.sparse else int(self.matrix.size)

    @property
    def packed(self) -> SparseRows:
        """The rows of CSR in as few bytes as they can be, made once."""
        if self._packed is None:
            matrix = self.matrix
            self._packed = SparseRows(
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
        if self._is_tall(w):
            return tall.times(self.matrix, w)
        if self.center is None:
            return np.asarray(multiply(self.matrix, w))
        out = np.empty((self.shape[0], *w.shape[1:]))
        for rows in self._blocks():
            out[rows] = self._part(rows) @ w
        return out

    def round_trip(self, W: np.ndarray, between: Between) -> tuple[np.ndarray, ...]:
        """V = between(ΦW) and ΦᵀV, reading rows that are computed only once.

        Parameters
        ----------
        W : (p, q) array
        between : function of some rows of ΦW and the slice they are, to be used by
            several threads
        """
        if self._is_tall(W):
            return tall.round_trip(self.matrix, W, between)
        V = between(self.times(W), slice(0, self.shape[0]))
        return V, self.against(V)

    def _is_tall(self, W: np.ndarray) -> bool:
        """Whether products with some columns take the time of reading Φ."""
        if self.computed or self.sparse or self.center is not None or W.ndim < 2:
            return False
        return tall.suits(self.matrix, W.shape[1])

    def against(self, V: np.ndarray) -> np.ndarray:
        """(Φ - 1cᵀ)ᵀV of (n, q) arrays, in the order in which BLAS adds them."""
        if self._is_tall(V):
            return tall.pull(self.matrix, V)
        out = np.asarray(multiply(self.across, V))
        if self.center is None:
            return out
        return out - np.multiply.outer(self.center, V.sum(axis=0))

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

    def times_some(self, index: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Φw at the rows of an index."""
        if self.sparse:
            return self._times(w, index.astype(np.int32))
        return self.take(index).times(w)

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
            index = np.flatnonzero(v).astype(np.int32)
            v = v[index]
        out = np.zeros(self.shape[1])
        self.packed.pull(index, np.ascontiguousarray(v), out, magnitudes)
        return out

    def some(self, index: np.ndarray) -> FeatureRows:
        """Some of the rows, to the precision of these."""
        return self.take(index)

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

    def squared_norms(self) -> np.ndarray:
        """The same, never more."""
        return FeatureRows.lengths(self)

    def grouped(self, label: np.ndarray, mass: np.ndarray, k: int) -> np.ndarray:
        """Σ massᵢ φᵢ over the rows of each of k labels, (k, p)."""
        masses = np.zeros((self.shape[0], k))
        masses[np.arange(len(label)), label] = mass
        return np.ascontiguousarray(self.against(masses).T)

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

    def __init__(self, packed: SparseRows):
        self._packed = packed

    @property
    def shape(self) -> tuple[int, int]:
        return self.packed.size, self.packed.width

    @property
    def entries(self) -> int:
        return self.packed.entries

    @property
    def packed(self) -> SparseRows:
        assert self._packed is not None
        return self._packed


class PlacedRows(FeatureRows):
    """Φ by the tries of its columns, whose entries are ≥ 0: products with vectors."""

    sparse = True
    center = None

    def __init__(self, tries: PlacedTries):
        self.tries = tries

    @property
    def shape(self) -> tuple[int, int]:
        return self.tries.size, self.tries.width

    @property
    def entries(self) -> int:
        return self.tries.entries

    def _times(
        self, w: np.ndarray, index: np.ndarray | None = None, magnitudes: bool = False
    ) -> np.ndarray:
        out = np.empty(self.shape[0])
        self.tries.times(np.ascontiguousarray(w), out)
        return out if index is None else out[index]

    def _pull(
        self, v: np.ndarray, index: np.ndarray | None = None, magnitudes: bool = False
    ) -> np.ndarray:
        if index is None:
            index = np.flatnonzero(v).astype(np.int32)
            v = v[index]
        out = np.zeros(self.shape[1])
        self.tries.pull(index, np.ascontiguousarray(v), out)
        return out


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
