"""Conjugate gradients on Gram matrices: fast products and a low-rank preconditioner.

`Products` multiplies K in single precision, for steps that are corrected afterwards; K
is kept where it fits in memory, else its tiles are computed in every product. `factor`
is K ≈ L Lᵀ from a few columns of K, chosen at random in proportion to what is not yet
explained: Chen, Epperly, Tropp and Webber, Communications on Pure and Applied
Mathematics 78 (2025), in blocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from mercer.data.partitions import Partitions
from mercer.gram import Gram
from mercer.kernels.base import row_blocks
from mercer.native import memory
from mercer.native.clock import OutOfTime
from mercer.native.interruptible import interruptible, multiply
from mercer.solvers.limits import CLOSING
from mercer.solvers.products import Tiles

BLOCK = 64  # columns of K chosen at a time
LARGEST = 1e30  # that is left to single precision: n sums of n of them are finite
NEAR, NEAR_DOUBLE = 384, 256  # sides of tiles that are computed to be read once
LEAST_SHARE = 0.2  # of a product, from which on its time can be told
DOUBLE = 2.5  # products in single precision in the time of one in double
PAUSE = 0.5  # seconds between two reports of what is being done
PIECE_MB = 16.0  # of a factor that is converted at a time
WHOLE = 2.0**27  # bytes of a factor that is multiplied as it is
LARGEST_FACTOR = 2.0**29  # bytes
WIDE_FACTOR = 2.0**28  # bytes of a factor in double precision, at most
LONG = 8000  # points whose kernel values take some tenths of a second or more
EXPLAINED_SINGLE = 1e-6  # of the trace, where that is all that single precision tells
EXPLAINED = 1e-12  # of the trace: what is left beyond is rounding


class Pulse:
    """Calls `report` with what is being done, at most twice a second.

    Parameters
    ----------
    report : returns True to stop, which is kept in `stopped`; None for nothing
    closing : products in the time of what ends the solve
    """

    def __init__(
        self, report: Callable[[str], bool] | None = None, closing: float = CLOSING
    ):
        self.report, self.stopped, self.closing = report, False, closing
        self.last = time.perf_counter()
        self.longest = 0.0  # seconds of a product, or of all kernel values
        self.under_way = 0.0  # of the one that is, as far as that can be told

    @property
    def needed(self) -> float:
        """Seconds for what ends the solve; one product in double, at the least."""
        return max(self.closing * self.longest, DOUBLE * self.under_way)

    def __call__(self, stage: str, share: float | None = None) -> None:
        now = time.perf_counter()
        if self.report is not None and now - self.last > PAUSE:
            self.last = now
            text = stage if share is None else f"{stage}, {share:.0%}"
            self.stopped |= self.report(text)

    def took(self, begin: float, share: float = 1.0) -> None:
        """A product has taken the time since then, for a share of it."""
        seconds = time.perf_counter() - begin
        if share == 1:
            self.longest, self.under_way = max(self.longest, seconds), 0.0
        elif share > LEAST_SHARE:
            self.under_way = seconds / share

    def reported(self) -> None:
        """There was a report of another kind: the next one can wait."""
        self.last = time.perf_counter()


class Products:
    """K V to about seven digits, from tiles that are kept where all of them fit.

    Parameters
    ----------
    gram : of one set of points
    dtype : float64 for products in double precision
    pulse : is called with how much of a long product is done
    keep : whether tiles may be kept
    breaks : whether a product that the pulse stops raises OutOfTime
    """

    def __init__(
        self,
        gram: Gram,
        dtype: Any = np.float32,
        pulse: Pulse | None = None,
        keep: bool = True,
        breaks: bool = False,
    ):
        gram = gram.with_one_width()
        self.gram, self.pulse, self.breaks = gram.double(), pulse, breaks
        # What single precision cannot hold is in double.
        if float(np.max(self.gram.diag(), initial=0.0)) > LARGEST:
            dtype = np.float64
        self.tiles: Tiles | None = None
        if isinstance(gram.X, Partitions):
            self.single = False
            return  # products are computed where the points are
        self.single = dtype == np.float32
        room = memory.room_to_keep() if keep else 0.0
        n = gram.shape[0]
        gram = gram if self.single else self.gram
        native = gram.kernel.native(gram.X) is not None
        if not native and 10.0 * n * n <= room:
            gram = gram.held()  # one call computes each pair of points once
        tiles = Tiles(gram, None, dtype, room / 2**20)
        if tiles.fits:
            try:
                self.tiles = tiles.filled(self._ticking("kernel values", breaks=True))
            except OutOfTime:
                pass  # what is left to do takes a product or two
        if self.tiles is None and native:
            # Of a side whose tiles stay near the processor.
            side = NEAR if self.single else NEAR_DOUBLE
            self.tiles = Tiles(gram, None, dtype, 0.0, side)
        self.single = self.single and self.tiles is not None

    def __call__(self, V: np.ndarray) -> np.ndarray:
        if self.tiles is None:
            return self.gram @ V
        # Columns are brought to about 1: single precision has a small range.
        size = np.abs(V).max(axis=0, initial=0.0)
        size[~((size > 0) & np.isfinite(size))] = 1.0
        out = self.tiles.times(V / size, self._ticking("product", self.breaks))
        return out * size

    def _ticking(
        self, stage: str, breaks: bool = False
    ) -> Callable[[float], None] | None:
        pulse = self.pulse
        if pulse is None:
            return None

        begin = time.perf_counter()

        def tick(share: float) -> None:
            pulse.took(begin, share)
            pulse(stage, share)
            if breaks and pulse.stopped:
                raise OutOfTime(stage, share)

        return tick


def whole_products(
    gram: Gram, pulse: Pulse, breaks: bool = False
) -> Callable[[np.ndarray], np.ndarray]:
    """The function K V in double precision; of many points with its reports."""
    gram = gram.with_one_width()
    long = gram.shape[0] > LONG and gram.kernel.native(gram.X) is not None
    if long and not gram.is_held:
        return Products(gram, np.float64, pulse, keep=False, breaks=breaks)
    return gram.__matmul__


def kept_by_products(gram: Gram) -> float:
    """Bytes of the tiles that `Products` in single precision keeps: all, or none."""
    if isinstance(gram.X, Partitions):
        return 0.0
    n = gram.shape[0]
    size = Tiles.bytes_of(n, np.dtype(np.float32))
    return size if size <= memory.room_to_keep() else 0.0


def preconditioner_rank(n: int, rank: int) -> int:
    """The rank, or less: L has half a gigabyte at most, and a quarter of the memory."""
    room = min(memory.room_to_keep(), LARGEST_FACTOR)
    return max(1, min(n, rank, int(room / (4.0 * n))))


def factor(
    gram: Gram, rank: int, seed: int = 0, dtype: Any = float, pulse: Pulse | None = None
) -> np.ndarray:
    """L, (n, r) with r ≤ rank, K ≈ L Lᵀ: exact on the span of the columns chosen.

    It ends early where nothing is left to explain; an indefinite K is followed as long
    as what is left has a positive diagonal.

    Parameters
    ----------
    dtype : of L; what float32 cannot tell from nothing counts as explained
    """
    n = gram.shape[0]
    rng = np.random.default_rng(seed)
    L = np.empty((n, min(rank, n)), dtype=dtype, order="F")
    left = np.maximum(np.asarray(gram.diag(), dtype=float), 0.0)
    digits = EXPLAINED if L.dtype == np.float64 else EXPLAINED_SINGLE
    enough, done = digits * left.sum(), 0
    while done < L.shape[1] and left.sum() > enough:
        if pulse is not None:
            pulse("preconditioner", done / L.shape[1])
            if pulse.stopped and done:
                break
        size = min(BLOCK, L.shape[1] - done, int(np.count_nonzero(left)))
        chosen = rng.choice(n, size, replace=False, p=left / left.sum())
        rows = np.asarray(gram.rows(chosen), dtype=float)
        for columns in row_blocks(n, max(done, 1), PIECE_MB):
            rows[:, columns] -= multiply(L[chosen, :done], L[columns, :done].T)
        R, order, found, _ = dpstrf(rows[:, chosen], tol=-1.0)
        kept = order[:found] - 1
        if not found:
            break
        new = solve_triangular(R[:found, :found], rows[kept], trans="T")
        L[:, done : done + found] = new.T
        left = np.maximum(left - np.einsum("ij,ij->j", new, new), 0.0)
        left[chosen] = 0.0
        done += found
    return L[:, :done]


class LowRank:
    """(λI + S L Lᵀ S)⁻¹ V for a diagonal S, by a matrix of the rank of L.

    Parameters
    ----------
    L : (n, r) array
    scale : the diagonal of S, (n, 1)
    reg : λ > 0
    wide : whether an L of single precision is multiplied in double: it is then the
        inverse of this very matrix, also where λ is small beside it
    """

    def __init__(
        self, L: np.ndarray, scale: np.ndarray, reg: float, wide: bool = False
    ):
        self.reg, self.L, self.scale = reg, L, scale
        self.dtype: Any = np.dtype(float) if wide else L.dtype
        inner = np.zeros((L.shape[1], L.shape[1]))
        for rows, part in self._parts():
            part = part * scale[rows].astype(self.dtype)
            inner += multiply(part.T, part)
        # Rounding can leave a singular L a little below 0.
        slack = 8 * np.finfo(self.dtype).eps * np.trace(inner)
        inner[np.diag_indices_from(inner)] += max(reg, slack)
        # By numpy alone: scipy's BLAS would wait for the threads of numpy's to rest.
        self.inverse = interruptible(np.linalg.inv, inner, work=1.0 * len(inner) ** 3)

    def __call__(self, V: np.ndarray) -> np.ndarray:
        scaled = (self.scale * V).astype(self.dtype)
        inside = np.zeros((self.L.shape[1], V.shape[1]))
        for rows, part in self._parts():
            inside += part.T @ scaled[rows]
        inside = (self.inverse @ inside).astype(self.dtype)
        out = np.empty(V.shape)
        for rows, part in self._parts():
            out[rows] = part @ inside
        return (V - self.scale * out) / self.reg

    def _parts(self) -> Iterator[tuple[slice, np.ndarray]]:
        """L in the precision it is multiplied in, rows of it at a time."""
        n, r = self.L.shape
        if self.L.dtype == self.dtype and self.L.nbytes <= WHOLE:
            yield slice(0, n), self.L
            return
        for rows in row_blocks(n, max(r, 1), PIECE_MB):
            yield rows, self.L[rows].astype(self.dtype, copy=False)


class Krylov(NamedTuple):
    """What conjugate gradients found: x, the residual left, and how many products."""

    x: np.ndarray
    residual: np.ndarray
    n_iter: int
    convex: bool  # no direction of negative curvature was met


def conjugate_gradient(
    apply: Callable[[np.ndarray], np.ndarray],
    rhs: np.ndarray,
    precondition: Callable[[np.ndarray], np.ndarray],
    done: Callable[[np.ndarray], bool],
    max_iter: int,
    *,
    together: bool = False,
    watch: Callable[[int, np.ndarray], bool] | None = None,
) -> Krylov:
    """x with A x = rhs for a positive definite A, until done(residual).

    Parameters
    ----------
    apply, precondition : A V, and an approximation of A⁻¹ V
    rhs : (n, q) array
    together : whether the columns are one vector of n q numbers, or q systems
    watch : called with the number of products and the residual; returns True to stop
    """
    axis = None if together else 0
    x, r = np.zeros_like(rhs), rhs.copy()
    p = z = precondition(r)
    rz = np.sum(r * z, axis=axis)
    n_iter = 0
    while n_iter < max_iter and not done(r):
        Ap = apply(p)
        n_iter += 1
        curvature = np.sum(p * Ap, axis=axis)
        if np.any(curvature < 0):
            return Krylov(x, r, n_iter, False)
        # A column that is solved has no direction left: it stays.
        step = np.divide(rz, curvature, out=np.zeros_like(rz), where=curvature > 0)
        x += step * p
        r -= step * Ap
        if watch is not None and watch(n_iter, r):
            break
        z = precondition(r)
        fresh = np.sum(r * z, axis=axis)
        p = z + np.divide(fresh, rz, out=np.zeros_like(rz), where=rz > 0) * p
        rz = fresh
    return Krylov(x, r, n_iter, True)
