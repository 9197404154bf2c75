"""Φ on landmarks to single precision: k(X, L) in float32, held where it finds room.

Steps of solvers need few digits, as long as what they are judged by has all. Kernel
values in float32 take half the time and half the room of those in float64, and so does
their product with themselves, n m² multiplications. Their rounding, of 2⁻²⁴, grows by κ
in φ and by κ² in ΦᵀHΦ (`Nystrom.growth`), and is nothing to step by where κ is large.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.blocks import Blocks
from mercer.data.points import double, take, vectors
from mercer.native import memory
from mercer.native.clock import tick
from mercer.native.interruptible import summed
from mercer.native.tall import Between, even_blocks, sizes
from mercer.native.vectors import Packed, block, product
from mercer.solvers.computed_rows import ComputedRows
from mercer.solvers.feature_rows import BLOCK, FeatureRows

WIDE = 200  # columns from which on products of Φ with itself count
MOST_GROWTH = 500.0  # κ up to which ΦᵀHΦ has some digits
LARGEST = 1e15  # of k(x, x): squares of kernel values, added up, are finite
SUMMED = 8192  # rows whose terms are added in single precision
STRIP = 2**18  # numbers that are converted at a time
PIECE_MB = 32.0  # of kernel values that are computed at a time, to be held
SOME = 1000  # points, at most, that tell the mean of k(x, L)


def in_single(rows: FeatureRows) -> FeatureRows:
    """The same rows to single precision, or themselves where that is no gain.

    Made once, and kept with them.
    """
    if rows.narrow is None:
        rows.narrow = _in_single(rows)
    return rows.narrow


def _in_single(rows: FeatureRows) -> FeatureRows:
    if not isinstance(rows, ComputedRows):
        wide = not rows.sparse and rows.shape[1] >= WIDE and rows.center is None
        return NarrowRows(rows.matrix) if wide else rows
    return SingleRows(rows) if suits_single(rows) else rows


def suits_single(rows: ComputedRows) -> bool:
    """Whether kernel values with landmarks in single precision are a gain."""
    kernel = rows.landmarks
    if kernel is None or kernel.growth > MOST_GROWTH or rows.center is not None:
        return False
    points = kernel.base_points()
    if kernel.kernel.native(points) is None:
        return False
    own = kernel.kernel.diag(double(points))
    return float(np.max(own, initial=0.0)) <= LARGEST


class NarrowRows(FeatureRows):
    """Φ in memory, whose products with itself are in single precision."""

    def parts(self, numbers: int = BLOCK) -> Iterator[tuple[slice, np.ndarray]]:
        for rows, part in super().parts(numbers):
            yield rows, part.astype(np.float32)

    def take(self, index: np.ndarray) -> FeatureRows:
        return NarrowRows(self.matrix[index])


class SingleRows(ComputedRows):
    """Φ of a well-conditioned `Nystrom` with a compiled kernel, by float32 k(X, L).

    Parameters
    ----------
    fine : the same in double precision; where it holds k(X, L), that is read
    """

    def __init__(self, fine: ComputedRows):
        super().__init__(fine.kernel, fine.X)
        kernel = self.landmarks
        assert kernel is not None
        points = vectors(double(kernel.base_points()))
        self.fine = fine
        self.recipe = kernel.kernel.native(points)
        # A common offset would take digits away from differences.
        moves = self.recipe.part in ("square", "absolute") and not sp.issparse(points)
        self.origin = points.mean(axis=0) if moves else None
        self._packed_landmarks = Packed(self._narrow(points), only_core=True)
        # Of values that are held a copy takes half the time to read.
        self.holds = memory.keeps(4.0 * self.entries)
        self.exact = fine.holds and not self.holds
        self._made: np.ndarray | None = None  # k(X, L) in double, while it is computed

    def times(self, w: np.ndarray) -> np.ndarray:
        assert self.landmarks is not None
        if self.exact:
            return self.fine.times(w)
        if self.holds:
            return super().times(w)
        coef = self.landmarks.base_coefficients(w)
        out = np.empty((self.shape[0], *w.shape[1:]))
        for rows, part in self._narrow_parts():
            out[rows] = product(self.recipe, part, self._packed_landmarks, coef)
        return out

    def pull(self, v: np.ndarray) -> np.ndarray:
        assert self.landmarks is not None
        if self.exact:
            return self.fine.pull(v)
        if self.holds:
            return super().pull(v)
        sums = np.zeros((self.shape[1], *v.shape[1:]))
        for rows, part in self._narrow_parts():
            sums += product(self.recipe, self._packed_landmarks, part, v[rows])
        return self.landmarks.turned(sums)

    def round_trip(self, W: np.ndarray, between: Between) -> tuple[np.ndarray, ...]:
        if self.exact:
            return self.fine.round_trip(W, between)
        if self.holds:
            return super().round_trip(W, between)
        return FeatureRows.round_trip(self, W, between)

    def take(self, index: np.ndarray) -> FeatureRows:
        """Some of the rows, in double precision."""
        return self.fine.take(index)

    def some(self, index: np.ndarray) -> SingleRows:
        """Some of the rows, as these are: in memory, where all of them are."""
        # Of points in files, many stay there.
        taken = SingleRows(ComputedRows(self.kernel, take(self.X, index)))
        values = self.fine.values if self._values is None else self._values
        if values is not None:
            taken.fine.holds = taken.exact = False
            taken._values, taken.holds = _narrowed(values, index), True
        return taken

    def pull_some(self, index: np.ndarray, v: np.ndarray) -> np.ndarray:
        assert self.landmarks is not None
        if self.exact:
            return self.fine.pull_some(index, v)
        size, sums = sizes(v), np.zeros(self.shape[1])
        narrow = (v / size).astype(np.float32)
        step = min(SUMMED, self._rows_of_a_piece(max(self.shape[1], self._coordinates)))
        for begin in range(0, len(index), step):
            part = slice(begin, begin + step)
            sums += narrow[part] @ self._summed(index[part])
        return self.landmarks.turned(size * sums)

    def _summed(self, rows: Any) -> np.ndarray:
        """k(x, L) of some points; those of all are not computed for that."""
        known = self._values
        return self._computed_values(rows) if known is None else known[rows]

    def _computed_values(self, rows: Any) -> np.ndarray:
        if self.fine.values is not None:
            return self.fine.values[rows].astype(np.float32)
        return self._narrow_values(rows)

    def _narrow_values(self, rows: Any) -> np.ndarray:
        """k(x, L) of some points, computed in float32."""
        part = self._narrow(vectors(double(self._points(rows))))
        out = np.empty((part.shape[0], self.shape[1]), dtype=np.float32)
        return block(self.recipe, part, self._packed_landmarks, out=out)

    def _filled(self) -> np.ndarray:
        if self.fine.values is not None:
            return _narrowed(self.fine.values, np.arange(self.shape[0]))
        out = np.empty(self.shape, dtype=np.float32)

        def fill(rows: slice) -> tuple[()]:
            part = self._narrow(vectors(double(self._points(rows))))
            block(self.recipe, part, self._packed_landmarks, out=out[rows])
            return ()

        step = self._rows_of_a_piece(max(self.shape[1], self._coordinates))
        # Points in files are read in order, by one thread.
        many = not isinstance(self.X, Blocks)
        summed(fill, even_blocks(self.shape[0], step), "kernel values", many=many)
        return out

    def _moments(
        self, weights: np.ndarray, kept: dict[str, Any] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        if self.holds_values or not self.fine.holds:
            return super()._moments(weights, kept)
        # Values in double are made on the way, and narrowed while they are near.
        self._made = np.empty(self.shape)
        try:
            found = super()._moments(weights, kept)
            self.fine.hold(self._made)
        finally:
            self._made = None
        return found

    @property
    def holds_values(self) -> bool:
        """Whether k(X, L) is in memory, in one precision or the other."""
        return self._values is not None or self.fine.is_filled

    def _moved(
        self, rows: slice, middle: np.ndarray | None, room: threading.local
    ) -> tuple[np.ndarray, bool]:
        made = self._made
        if middle is None or (made is None and self._values is not None):
            return super()._moved(rows, middle, room)
        values = self.fine.values if made is None else made
        if values is None:
            return super()._moved(rows, middle, room)
        part, known = values[rows], getattr(room, "narrow", None)
        # Memory that is new to a process takes longer to write to than to fill.
        if known is None or len(known) < len(part):
            known = room.narrow = np.empty(part.shape, dtype=np.float32)
        out, step = known[: len(part)], max(64, STRIP // part.shape[1])
        for begin in range(0, len(part), step):
            some = slice(begin, min(begin + step, len(part)))
            if made is not None:
                assert self.landmarks is not None
                first = rows.start
                points = self._points(slice(first + begin, first + some.stop))
                self.landmarks.fill_products(points, part[some])
            out[some] = part[some]
            out[some] -= middle
            self._pull_beside(rows.start, some, part[some])
        return out, True

    def _middle(self) -> np.ndarray | None:
        # Products of what is left are rounded less than those of k(x, L) themselves.
        most = min(SOME, self._step(int(memory.block_mb(PIECE_MB) * 2**17)))
        step = max(1, self.shape[0] // most)
        some = np.arange(0, self.shape[0], step)[:most]
        values = self._summed(some) if self._made is None else self._narrow_values(some)
        return values.mean(axis=0)

    def _narrow_parts(self) -> Iterator[tuple[slice, Any]]:
        """The points in float32, some of them at a time."""
        for rows in self._pieces(self._coordinates):
            tick("products with kernel values", rows.start / self.shape[0])
            yield rows, self._narrow(vectors(double(self._points(rows))))

    @property
    def _coordinates(self) -> int:
        return max(getattr(self.X, "shape", ())[1:], default=1)

    def _pieces(self, wide: int) -> Iterator[slice]:
        step = self._rows_of_a_piece(wide)
        for begin in range(0, self.shape[0], step):
            yield slice(begin, min(begin + step, self.shape[0]))

    def _rows_of_a_piece(self, wide: int) -> int:
        return max(64, int(memory.block_mb(PIECE_MB) * 2**17) // wide)

    def _narrow(self, X: Any) -> Any:
        X = X if self.origin is None else X - self.origin
        return X.astype(np.float32)


def _narrowed(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Some rows of these numbers, in float32."""
    out = np.empty((len(index), values.shape[1]), dtype=np.float32)

    def fill(rows: slice) -> tuple[()]:
        out[rows] = values[index[rows]]
        return ()

    step = max(64, STRIP // max(1, values.shape[1]))
    blocks = even_blocks(len(index), step)
    if blocks:
        summed(fill, blocks, "kernel values")
    return out
