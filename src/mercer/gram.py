"""The Gram matrix of a kernel, lazily and in blocks: rows, products, and no storage."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from mercer.data.blocks import Blocks
from mercer.data.checks import describe
from mercer.data.partitions import Once, Partitions
from mercer.data.points import Index, Points, as_points, count, double, take
from mercer.kernels.algebra import Centered, Exp, Normalized
from mercer.kernels.base import BLOCK_MB, Kernel, row_blocks
from mercer.kernels.operators import Constant, Power, Product, Scaled, Sum
from mercer.kernels.vector import TransformedKernel, VectorKernel, is_vectors
from mercer.kernels.ways import FeatureKernel, PairKernel, Precomputed
from mercer.native import memory
from mercer.native.clock import seconds_left, tick
from mercer.native.interruptible import multiply

LONG = 4000  # points whose values take the core some tenths of a second
STRIPS = 24  # into which K is divided where the time to compute it is limited
SMALL_BYTES = 2.0**20  # of a matrix that there is always room for
STRIP_ROWS = 256  # of a triangle that are computed at a time


class Gram(LinearOperator):
    """Kᵢⱼ = k(xᵢ, yⱼ), computed when needed and never kept; a LinearOperator.

    `K @ V` and `K.T @ V` are float64 and need room for one block; `rows` and `dense`
    keep the precision of the kernel, which refuses values that are not finite numbers.
    The kernel is taken as symmetric.

    Parameters
    ----------
    kernel : with no parameter left to learn; `kernel.resolve(X)` fixes them
    X, Y : n and m points; Y None stands for X
    block_mb : memory for the block of kernel values a product holds at a time

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gram, Linear
    >>> K = Gram(Linear(), np.arange(6.0).reshape(3, 2))
    >>> K.shape
    (3, 3)
    >>> (K @ np.ones(3)).tolist()
    [9.0, 39.0, 69.0]
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Points,
        Y: Points | None = None,
        *,
        block_mb: float = BLOCK_MB,
    ) -> None:
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"Gram needs a kernel; got {describe(kernel)}. Wrap kernel values in "
                "Precomputed, a function in BlockFunction or PairFunction."
            )
        if not block_mb > 0:
            raise ValueError(f"Gram needs block_mb > 0; got block_mb={block_mb!r}.")
        self.kernel = kernel
        self.X = as_points(X)
        self.Y = None if Y is None or Y is X else as_points(Y)
        self.block_mb = block_mb
        super().__init__(np.float64, (count(self.X), count(self._right)))

    @property
    def _right(self) -> Points:
        return self.X if self.Y is None else self.Y

    _matrix: np.ndarray | None = None  # all of K, where it is held
    _features: Any = None  # Φ with K = ΦΦᵀ, where a solver has made it
    _packed: Any = None  # the same in columns that no one else knows
    _placed: Any = None  # the same for products with vectors alone
    _origin: tuple[Gram, Any] | None = None  # whose points were taken, and which
    _scaled: Gram | None = None  # the same K with one width, where there are several
    _given: Gram | None = None  # whose points these are, scaled

    def held(self) -> Gram:
        """The same Gram with its matrix in memory, for repeated use."""
        return self if self._matrix is not None else self.holding(self.dense())

    def holding(self, matrix: np.ndarray) -> Gram:
        """The same Gram with this matrix in memory, which the caller vouches for."""
        held = Gram(self.kernel, self.X, self.Y, block_mb=self.block_mb)
        held._matrix = matrix
        return held

    @staticmethod
    def of_matrix(kernel: Kernel, X: Points, matrix: np.ndarray) -> Gram:
        """The Gram of a kernel on X with this matrix, which the caller vouches for."""
        gram = Gram(kernel, X)
        gram._matrix = matrix
        return gram

    def held_in_double(self) -> Gram:
        """The same Gram with its matrix in memory as float64, also of float32 points.

        Its points stay as they are.
        """
        return self.holding(self.double().dense())

    def double(self) -> Gram:
        """The same Gram with kernel values in float64, also of float32 points."""
        X = double(self.X)
        Y = None if self.Y is None else double(self.Y)
        narrow = self._matrix is not None and self._matrix.dtype == np.float32
        if X is self.X and Y is self.Y and not narrow:
            return self
        wide = Gram(self.kernel, X, Y, block_mb=self.block_mb)
        # Values of float32 points are computed anew; others can only be converted.
        if self._matrix is not None and (X is self.X or not narrow):
            wide._matrix = self._matrix.astype(np.float64, copy=False)
        return wide

    def with_one_width(self) -> Gram:
        """The same K by one width and scaled points, where k has one for each column.

        The core knows kernels of one width. `given` leads back.
        """
        kernel, X = self.kernel, self.X
        if not isinstance(kernel, VectorKernel) or kernel._stretch() is None:
            return self
        plain = is_vectors(X) and not isinstance(X, Blocks)
        if not plain or self.Y is not None or self.is_held:
            return self
        if self._scaled is None:
            scaled = Gram(kernel.scalar(), kernel._pair(X)[0], block_mb=self.block_mb)  # type: ignore[attr-defined]
            scaled._given, self._scaled = self, scaled
        return self._scaled

    @property
    def given(self) -> Gram:
        """The Gram whose `with_one_width` this is, or itself."""
        return self if self._given is None else self._given

    @property
    def is_held(self) -> bool:
        """Whether all of K is in memory, so that its rows cost nothing."""
        return self._matrix is not None

    def _matmat(self, V: np.ndarray) -> np.ndarray:
        if self._matrix is not None:
            return multiply(self._matrix, V)
        if np.iscomplexobj(V):
            return self._matmat(V.real) + 1j * self._matmat(V.imag)
        if isinstance(self.X, Partitions) or isinstance(self.Y, Partitions):
            return _of_partitions(self.kernel, self.X, self._right, V)
        return self.kernel.matmul(self.X, self.Y, V, block_mb=self.block_mb)

    _matvec = _matmat

    def _transpose(self) -> Gram:
        if self.Y is None:
            return self
        other = Gram(self.kernel, self.Y, self.X, block_mb=self.block_mb)
        other._matrix = None if self._matrix is None else self._matrix.T
        return other

    _adjoint = _transpose

    def rows(self, index: Index) -> np.ndarray:
        """The rows K[index], a (len(index), m) array.

        Parameters
        ----------
        index : a slice, whole numbers, or n booleans; a single number gives one row
        """
        if self._matrix is not None:
            return self._matrix[_many(index)]
        some, right = take(self.X, _many(index)), self._right
        if isinstance(right, Partitions):
            shared = self.kernel, Once(some)
            return np.concatenate(right.each(_values, shared=shared)).T
        return self.kernel(some, right)

    def magnitudes(self, V: np.ndarray) -> np.ndarray:
        """|K| V, in a pass over K."""
        if isinstance(self.X, Partitions) and self.Y is None:
            return _of_partitions(self.kernel, self.X, self.X, V, _cross_sizes)
        n, m = self.shape
        out = np.empty((n, *V.shape[1:]))
        for rows in row_blocks(n, m, self.block_mb):
            out[rows] = np.abs(self.rows(rows)) @ V
        return out

    def diag(self) -> np.ndarray:
        """The (n,) array of k(xᵢ, xᵢ)."""
        self._needs_one_set("diag()", "Use kernel.diag on either set")
        if self._matrix is not None:
            return self._matrix.diagonal()
        if isinstance(self.X, Blocks):
            return np.concatenate(self.X.each(_diag, shared=(self.kernel,)))
        return self.kernel.diag(self.X)

    def dense(self) -> np.ndarray:
        """The whole (n, m) array; refused where the memory for it is missing.

        A composed kernel holds two or three arrays of this size while it computes.
        """
        if self._matrix is not None:
            return self._matrix.copy()
        self.check_memory()
        if isinstance(self.X, Partitions):
            return self._by_partitions()
        if seconds_left() is not None and self._in_strips:
            return self._by_strips()
        return self.kernel(self.X, self.Y)

    def values(self) -> np.ndarray:
        """What `dense` returns, to be read only: K is not copied where it is there."""
        kernel = self.kernel
        if self._matrix is not None:
            return self._matrix
        if self.Y is None and isinstance(kernel, Precomputed):
            found = kernel.whole(self.X)
            if found is not None:
                return found
        return self.dense()

    def _by_partitions(self) -> np.ndarray:
        """K of points in partitions, each of these with every other."""
        X, Y = self.X, self._right
        if not isinstance(Y, Partitions):
            return np.concatenate(X.each(_values, shared=(self.kernel, Once(Y))))
        blocks = []
        for number in range(len(Y.names)):
            tick("kernel values", number / len(Y.names))
            found = X.remote.crossed(Y.remote, number, _both, (), (self.kernel,))
            blocks.append(np.concatenate(found))
        return np.hstack(blocks)

    @property
    def _in_strips(self) -> bool:
        """Whether a call for all values takes long, and can as well be many calls.

        The core is quick on few points, `PairKernel` looks at the clock itself, and
        features would be made anew in each call.
        """
        kernel, n = self.kernel, self.shape[0]
        ready = isinstance(kernel, PairKernel | FeatureKernel | Precomputed)
        least = 2 * STRIPS if kernel.native(self.X) is None else LONG
        return self.Y is None and n >= least and not ready

    def _by_strips(self) -> np.ndarray:
        """K by rows of its upper triangle, with looks at the clock between them."""
        n = self.shape[0]
        K: np.ndarray | None = None
        ends = np.linspace(0, n, STRIPS + 1).astype(int).tolist()
        for begin, end in pairwise(ends):
            tick("kernel values", 1 - (1 - begin / n) ** 2)
            strip = slice(begin, end)
            values = self.kernel(take(self.X, strip), take(self.X, slice(begin, n)))
            K = np.empty((n, n), values.dtype) if K is None else K
            K[strip, begin:] = values
        assert K is not None
        # Not before: the first columns reach into memory that was never touched.
        for begin, end in pairwise(ends):
            block = K[begin:end, begin:end]
            block[:] = np.triu(block) + np.triu(block, 1).T
            K[end:, begin:end] = K[begin:end, end:].T
        return K

    def lower(self) -> np.ndarray:
        """A row-major (n, n) array of float64 with K on and below its diagonal.

        Above it is anything.

        Kernels of vectors compute no more than that, and write it once.
        """
        self._needs_one_set("lower", "dense() has all values.")
        n = self.shape[0]
        if self._matrix is not None or not _without_preparation(self.kernel):
            return np.array(self.double().dense(), dtype=float, order="C")
        self.check_memory()
        X, K = double(self.X), np.empty((n, n))
        for begin in range(0, n, STRIP_ROWS):
            tick("kernel values", (begin / n) ** 2)
            end = min(begin + STRIP_ROWS, n)
            some = take(X, slice(begin, end)), take(X, slice(0, end))
            K[begin:end, :end] = self.kernel(*some)
        return K

    def check_memory(self) -> None:
        """Refuse, with a MemoryError, a matrix larger than the memory there is."""
        n, m = self.shape
        if 8.0 * n * m <= SMALL_BYTES:  # to ask the system takes longer than to compute
            return
        # The precision is that of a row, computed only where it makes a difference.
        if not memory.fits(8.0 * n * m):
            memory.check_room(
                float(n) * m * self.rows([0]).dtype.itemsize,
                f"As an array the {self!r} takes",
                "Multiply it (K @ V) or read it in blocks (K.rows(index)), which needs "
                "neither; or take fewer points (K.take(index)).",
            )

    def take(self, index: Index) -> Gram:
        """The Gram on the points X[index]: of both sides where Y stands for X."""
        index = _many(index)
        taken = Gram(self.kernel, take(self.X, index), self.Y, block_mb=self.block_mb)
        if self._matrix is not None:
            rows = self._matrix[index]
            taken._matrix = rows[:, index] if self.Y is None else rows
        if self.Y is None:
            taken._origin = self, index
        return taken

    def centered(self) -> Gram:
        """H K H with H = I - 11ᵀ/n, the Gram of φ(x) - μ, μ the mean of φ over X."""
        self._needs_one_set(
            "centered()",
            "Say whose mean to subtract: Gram(Centered(kernel, reference), X, Y)",
        )
        return Gram(Centered(self.kernel, self.X), self.X, block_mb=self.block_mb)

    def _needs_one_set(self, method: str, way_out: str) -> None:
        if self.Y is not None:
            raise ValueError(
                f"{method} belongs to the Gram of one set of points; this is the "
                f"{self!r}. {way_out}."
            )

    def __repr__(self) -> str:
        n, m = self.shape
        where = f"on {n} points" if self.Y is None else f"between {n} and {m} points"
        return f"Gram of {self.kernel} {where}"


def _without_preparation(kernel: Kernel) -> bool:
    """Whether blocks of K cost together what the whole does: kernels of vectors."""
    if isinstance(kernel, Sum | Product | Scaled | Power | Exp | Normalized):
        return all(map(_without_preparation, kernel.children()))
    return isinstance(kernel, VectorKernel | TransformedKernel | Constant)


def _of_partitions(
    kernel: Kernel,
    X: Points,
    Y: Points,
    V: np.ndarray,
    cross: Callable[..., np.ndarray] | None = None,
) -> np.ndarray:
    """K(X, Y) V where X, or Y, or both are in partitions.

    Each partition of Y goes to all of X, one after another.

    Parameters
    ----------
    cross : what is computed of two partitions; None for a product with K
    """
    if not isinstance(X, Partitions):
        sent = [(X, *some) for some in Y.remote.slices(V)]
        return Y.remote.total(_transposed, sent, (kernel,))
    if not isinstance(Y, Partitions):
        return np.concatenate(X.remote.each(_times, None, (kernel, Once((Y, V)))))
    out = np.zeros((len(X), *V.shape[1:]))
    for number, (rows,) in enumerate(Y.remote.slices(V)):
        tick("products with kernel values", number / len(Y.names))
        call = _cross if cross is None else cross
        found = X.remote.crossed(Y.remote, number, call, (rows,), (kernel,))
        out += np.concatenate(found)
    return out


def _transposed(part: Points, X: Points, V: np.ndarray, kernel: Kernel) -> np.ndarray:
    return kernel.matmul(X, part, V)


def _times(part: Points, kernel: Kernel, sent: tuple[Points, np.ndarray]) -> np.ndarray:
    return kernel.matmul(part, *sent)


def _cross(part: Points, other: Points, V: np.ndarray, kernel: Kernel) -> np.ndarray:
    return kernel.matmul(part, other, V)


def _cross_sizes(
    part: Points, other: Points, V: np.ndarray, kernel: Kernel
) -> np.ndarray:
    return Gram(kernel, part, other).magnitudes(V)


def _both(part: Points, other: Points, kernel: Kernel) -> np.ndarray:
    return kernel(part, other)


def _values(part: Points, kernel: Kernel, Y: Points) -> np.ndarray:
    return kernel(part, Y)


def _diag(part: Points, kernel: Kernel) -> np.ndarray:
    return kernel.diag(part)


def _many(index: Index) -> Index:
    """An index of points that keeps its axis."""
    if isinstance(index, slice):
        return index
    index = np.atleast_1d(index)
    return index if index.size else index.astype(np.intp)
