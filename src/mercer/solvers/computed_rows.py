"""ComputedRows: Φ whose rows are computed when they are read: it takes no room."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.blocks import Blocks
from mercer.data.points import Points, count, double, take
from mercer.kernels.base import Kernel
from mercer.kernels.nystrom import Nystrom
from mercer.maps import dense_columns, explicit
from mercer.native import memory, tall
from mercer.native.clock import tick
from mercer.native.interruptible import multiply, summed
from mercer.native.tall import Between, even_blocks
from mercer.solvers.feature_rows import FeatureRows
from mercer.solvers.rounding import LAST, UNIT

COMPUTED_MB = 16.0  # of rows that are computed, for products of matrices
NORMAL_MB = 64.0  # the same, where p × p numbers are added up for every block
TRIP_MB = 4.0  # the same, where it is read twice at once and stays near the processor
FEW_MB = 256.0  # of rows that are taken into memory
SHORT = 64  # coordinates of points whose kernel values are computed, not held


class ComputedRows(FeatureRows):
    """Φ - 1cᵀ of points, each block of rows computed whenever it is read.

    Of a well-conditioned `Nystrom` neither products nor ΦᵀDΦ need φ itself: kernel
    values with the landmarks are summed first.

    Parameters
    ----------
    kernel : with an explicit map of dense columns, their number known beforehand
    X : the points, perhaps in files
    columns : how many there are, where X does not tell
    """

    computed = True
    sparse = False
    is_near = True  # whether the rows are computed in this process
    _beside: np.ndarray | None = None  # V of `normal_and_pull`,
    _pulls: dict[int, np.ndarray]  # and sums k(L, x)V, by their first rows

    def __init__(
        self,
        kernel: Kernel,
        X: Points,
        center: np.ndarray | None = None,
        columns: int | None = None,
    ):
        self.kernel, self.X, self.center = kernel, X, center
        columns = dense_columns(kernel, X) if columns is None else columns
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
        for rows, part in self.parts(block_numbers()):
            out[rows] = part
        return FeatureRows(out)

    def _less(self, center: np.ndarray) -> FeatureRows:
        return ComputedRows(self.kernel, self.X, center, self.shape[1])

    def _of(self, X: Points) -> ComputedRows:
        """The same of other points."""
        return ComputedRows(self.kernel, X, self.center, self.shape[1])

    def _step(self, numbers: int) -> int:
        shape = getattr(self.X, "shape", ())
        wide = max(self.shape[1], *shape[1:], 1)
        return max(16, numbers // wide)

    def _blocks(self) -> Iterator[slice]:
        step = self._step(block_numbers())
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

    @property
    def is_filled(self) -> bool:
        """Whether k(X, L) is there already."""
        return self._values is not None

    def hold(self, values: np.ndarray) -> None:
        """Keep k(X, L), which another one has computed."""
        self._values = values

    def forget(self) -> None:
        """Free the kernel values that are held; they are computed anew when read."""
        self._values = self.narrow = None

    def _filled(self) -> np.ndarray:
        assert self.landmarks is not None
        kernel, out = self.landmarks, np.empty(self.shape)

        def fill(rows: slice) -> tuple[()]:
            kernel.fill_products(self._points(rows), out[rows])
            return ()

        # Threads also share the time in which the system finds new memory.
        blocks = even_blocks(self.shape[0], self._step(block_numbers(TRIP_MB)))
        many = kernel.kernel.native(kernel.base_points()) is not None
        if blocks:
            summed(fill, blocks, "kernel values", many=many)
        return out

    def times(self, w: np.ndarray) -> np.ndarray:
        if self.landmarks is not None:
            values = self.values
            if values is None:
                out = self.landmarks.evaluate(self.X, w)
            else:
                out = tall.times(values, self.landmarks.base_coefficients(w))
            return out if self.center is None else out - self.center @ w
        out = np.empty((self.shape[0], *w.shape[1:]))
        for rows, part in self.parts(block_numbers()):
            out[rows] = multiply(part, w)
        return out

    def pull(self, v: np.ndarray) -> np.ndarray:
        if self.landmarks is not None:
            values = self.values
            if values is None:
                out = self.landmarks.feature_weights(self.X, v)
            else:
                return self._turned(tall.pull(values, v), v)
            if self.center is not None:
                out = out - np.multiply.outer(self.center, v.sum(axis=0))
            return out
        out = np.zeros((self.shape[1], *v.shape[1:]))
        for rows, part in self.parts(block_numbers()):
            out += multiply(part.T, v[rows])
        return out

    def pull_some(self, index: np.ndarray, v: np.ndarray) -> np.ndarray:
        # Points in files find room a block at a time only.
        step = self._step(block_numbers()) if isinstance(self.X, Blocks) else len(index)
        out = np.zeros(self.shape[1])
        for begin in range(0, len(index), max(1, step)):
            part = slice(begin, begin + step)
            rows = self._of(self._points(index[part]))
            out += rows.pull(v[part])
        return out

    def against(self, V: np.ndarray) -> np.ndarray:
        return self.pull(V)

    def round_trip(self, W: np.ndarray, between: Between) -> tuple[np.ndarray, ...]:
        if self.landmarks is None:
            return super().round_trip(W, between)
        kernel, values = self.landmarks, self.values
        level = 0.0 if self.center is None else self.center @ W
        if values is not None:
            coef = kernel.base_coefficients(W)
            V, sums = tall.round_trip(
                values, coef, lambda f, rows: between(f - level, rows)
            )
            return V, self._turned(sums, V)
        coef, out = kernel.base_coefficients(W), np.empty((self.shape[0], W.shape[1]))

        def multiplied(rows: slice) -> tuple[np.ndarray, ...]:
            part = kernel.base_products(double(self._points(rows)))
            out[rows] = between(part @ coef - level, rows)
            return (part.T @ out[rows],)

        blocks = even_blocks(self.shape[0], self._step(block_numbers(TRIP_MB)))
        stage = "products with kernel values"
        # Points in files are read in order, by one thread.
        many = not isinstance(self.X, Blocks)
        found = summed(multiplied, blocks, stage, many=many) if blocks else [0 * coef]
        return out, self._turned(found[0], out)

    def _turned(self, sums: np.ndarray, V: np.ndarray) -> np.ndarray:
        """ΦᵀV by the sums k(L, X)V."""
        assert self.landmarks is not None
        found = self.landmarks.turned(sums)
        if self.center is None:
            return found
        return found - np.multiply.outer(self.center, V.sum(axis=0))

    def take(self, index: np.ndarray) -> FeatureRows:
        """Some of the rows: in memory, where they are few."""
        few = memory.block_mb(FEW_MB) * 2**20
        if 8.0 * len(index) * max(1, self.shape[1]) <= few:
            out, step = (
                np.empty((len(index), self.shape[1])),
                self._step(block_numbers()),
            )
            for begin in range(0, len(index), step):
                part = slice(begin, begin + step)
                out[part] = self._part(index[part])
            return FeatureRows(out)
        return self._of(take(self.X, index))

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
    def adds_values(self) -> bool:  # type: ignore[override]
        return self.landmarks is not None and self.center is None

    def added(
        self, index: np.ndarray, weight: np.ndarray, border: np.ndarray
    ) -> np.ndarray:
        p = self.shape[1]
        out = np.zeros((p + border.shape[1],) * 2)

        def multiplied(part: slice) -> tuple[np.ndarray, ...]:
            some = index[part]
            U = self._summed(some) if self.adds_values else self._part(some)
            h, side = weight[part].astype(U.dtype), border[part]
            edge = weight[part, None] * side
            across = U.T @ edge.astype(U.dtype, copy=False)
            # A copy already, by its index.
            return tall.squares(U, h, spare=True), across, edge.T @ side

        step = self._step(block_numbers())
        ends = range(0, len(index), step)
        blocks = [slice(begin, begin + step) for begin in ends]
        if blocks:
            many = not isinstance(self.X, Blocks)
            sums = summed(multiplied, blocks, many=many)
            out[:p, :p], out[:p, p:], out[p:, p:] = sums
            out[p:, :p] = out[:p, p:].T
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

    def slope_from(self, slope: np.ndarray) -> np.ndarray:
        """The slope in w that `slope_of` makes this of."""
        if not self.adds_values:
            return slope
        assert self.landmarks is not None
        return self.landmarks.turned(slope)

    def coefficients_of(self, weights: np.ndarray) -> np.ndarray:
        """The c that `weights_of` makes these weights of."""
        if not self.adds_values:
            return weights
        assert self.landmarks is not None
        return self.landmarks.base_coefficients(weights)

    def normal(
        self,
        weights: np.ndarray,
        shift: np.ndarray | None,
        kept: dict[str, Any] | None = None,
    ) -> np.ndarray:
        """Σᵢ hᵢ (φᵢ - shift)(φᵢ - shift)ᵀ, (p, p), for weights h of either sign."""
        sums, total = self._moments(weights, kept)
        if self.landmarks is not None:
            sums = self.landmarks.turned(self.landmarks.turned(sums).T)
            total = self.landmarks.turned(total)
        if shift is not None:
            sums -= np.multiply.outer(total, shift) + np.multiply.outer(shift, total)
            sums += float(weights.sum()) * np.multiply.outer(shift, shift)
        return (sums + sums.T) / 2

    def normal_and_pull(
        self, weights: np.ndarray, V: np.ndarray, kept: dict[str, Any]
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Σᵢ hᵢ φᵢφᵢᵀ, and ΦᵀV in double where one reading is enough for both."""
        self._beside, self._pulls = V, {}
        try:
            found = self.normal(weights, None, kept)
        finally:
            self._beside, pulls = None, self._pulls
            del self._pulls
        if not pulls or self.center is not None:
            return found, None
        # In the order of the points, whichever thread was first.
        sums = sum((pulls[first] for first in sorted(pulls)), start=np.zeros(1))
        assert self.landmarks is not None
        return found, self.landmarks.turned(sums)

    def _pull_beside(self, first: int, some: slice, values: np.ndarray) -> None:
        """Add k(L, x)V of some points, where V is asked for beside other sums.

        Parameters
        ----------
        first : of the rows that one thread reads, in which `some` are
        """
        if self._beside is not None:
            V = self._beside[first + some.start : first + some.stop]
            found = tall.pull_rows(values, V)
            known = self._pulls.get(first)
            self._pulls[first] = found if known is None else known + found

    def sums_of_squares(self, weights: np.ndarray, around_mean: bool) -> np.ndarray:
        """AΦᵀHΦAᵀ for weights h ≥ 0, less what a constant takes away if that is asked.

        In the coordinates c of `added`: of sums of kernel values nothing is solved.
        """
        sums, total = self._moments(weights, None)
        mass = float(weights.sum())
        if around_mean and mass > 0:
            sums -= np.multiply.outer(total, total / mass)
        return sums

    def _moments(
        self, weights: np.ndarray, kept: dict[str, Any] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Σᵢ hᵢ uᵢuᵢᵀ and Σᵢ hᵢ uᵢ, u being k(x, L) where these are summed, else φ."""
        blocks = even_blocks(self.shape[0], self._step(block_numbers(NORMAL_MB)))
        if not blocks:
            return np.zeros((self.shape[1],) * 2), np.zeros(self.shape[1])
        even, middle = bool(np.all(weights == 1)), self._middle()
        room = threading.local()

        def multiplied(rows: slice) -> tuple[np.ndarray, ...]:
            sums, total = np.zeros((self.shape[1],) * 2), np.zeros(self.shape[1])
            for strip in self._strips(rows):
                U, own = self._moved(strip, middle, room)
                h = weights[strip].astype(U.dtype, copy=False)
                total += h @ U
                tall.add_squares(U, None if even else h, sums, spare=own)
            return sums, total

        sums, total = self._summed_over(blocks, multiplied, kept)
        sums = tall.mirrored(sums)
        if middle is not None:
            moved = total + float(weights.sum()) / 2 * middle
            sums += np.multiply.outer(moved, middle) + np.multiply.outer(middle, moved)
            total += float(weights.sum()) * middle
        return sums, total

    def _strips(self, rows: slice) -> list[slice]:
        """The rows in pieces, from one reading to the next one near the processor."""
        if not tall.core_squares():
            return [rows]
        first, length = rows.start, rows.stop - rows.start
        step = self._step(block_numbers(TRIP_MB))
        return [
            slice(first + begin, first + min(begin + step, length))
            for begin in range(0, length, step)
        ]

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

    def _moved(
        self, rows: slice, middle: np.ndarray | None, room: threading.local
    ) -> tuple[np.ndarray, bool]:
        """u - middle of some points, and whether these numbers may be written to.

        Parameters
        ----------
        room : of this thread, for numbers that are read before the next call
        """
        U = self._part(rows) if self.landmarks is None else self._summed(rows)
        own = U.base is None
        # Sums that go on after an error in reading would lack what was read before.
        whole = self.landmarks is not None and not isinstance(self.X, Blocks)
        if whole and U.dtype == np.float64:
            self._pull_beside(rows.start, slice(0, len(U)), U)
        if middle is not None:
            U, own = np.subtract(U, middle, out=U if own else None), True
        return U, own

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


def block_numbers(most: float = COMPUTED_MB) -> int:
    """Numbers of a block of rows that is computed."""
    return int(memory.block_mb(most) * 2**17)
