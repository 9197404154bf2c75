"""Products with a symmetric matrix that is large: in tiles, or by explicit features.

Of a Gram matrix only the tiles on and below the diagonal are computed, each of which
serves its mirror image too. As many as fit in memory are kept.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.points import take, vectors
from mercer.gram import Gram
from mercer.kernels.base import BLOCK_MB, Kernel, row_blocks
from mercer.kernels.checks import finite, unchecked
from mercer.native import memory
from mercer.native.interruptible import elementwise, interruptible, multiply
from mercer.native.vectors import Packed, add_both_ways, block, centered
from mercer.solvers.computed_rows import ComputedRows

SIDE = 2048  # points along the side of a tile, at most
NARROW = 64  # vectors up to which a tile is read once for both halves; more suit a BLAS


class Tiles:
    """K of the points X[order] in square tiles; the first is that of a sample of them.

    Parameters
    ----------
    order : of the points; None for their own
    dtype : of the kernel values; sums over several tiles are in float64
    cache_mb : memory for tiles; None for a quarter of what is free
    side : of a tile, at most; None for 2048
    """

    def __init__(
        self,
        gram: Gram,
        order: np.ndarray | None,
        dtype: Any,
        cache_mb: float | None = None,
        side: int | None = None,
    ):
        order = np.arange(gram.shape[0]) if order is None else order
        n, side = len(order), SIDE if side is None else side
        self.n, self.dtype, self.rows = n, np.dtype(dtype), 0
        edges = np.linspace(0, n, -(-n // side) + 1).astype(int)
        self.chunks = [slice(a, b) for a, b in pairwise(edges)]
        self.room = min(memory.room_to_keep(cache_mb), float(2**62))
        self.kept: dict[tuple[int, int], np.ndarray] = {}
        self.fits = self.bytes_of(n, self.dtype, side) <= self.room
        own = type(gram.kernel).matmul is not Kernel.matmul
        native = gram.kernel.native(gram.X) is not None
        # A kernel with a product of its own knows something better than its blocks.
        self.whole = None if self.fits or native or not own else gram
        self.order, self.kernel = order, gram.kernel
        self.compute = _blocks(gram, order, self.chunks, self.dtype)

    @staticmethod
    def bytes_of(n: int, dtype: np.dtype, side: int | None = None) -> float:
        """What all tiles of n points take."""
        return n * (n + (SIDE if side is None else side)) / 2 * dtype.itemsize

    def tile(self, i: int, j: int) -> np.ndarray:
        """K between two chunks of points, kept where there is room."""
        found = self.kept.get((i, j))
        if found is None:
            found = finite(self.compute(i, j), self.kernel)
            self.rows += _length(self.chunks[i]) if i == j else 0
            if found.nbytes <= self.room:
                self.room -= found.nbytes
                self.kept[i, j] = found
        return found

    def filled(self, tick: Callable[[float], Any] | None = None) -> Tiles:
        """The same with all tiles in memory, and no more need of the points."""
        for i in range(len(self.chunks)):
            for j in range(i + 1):
                if tick is not None:
                    tick(self._share(i, j))
                self.tile(i, j)
        if tick is not None:
            tick(1.0)
        del self.compute
        return self

    def _share(self, i: int, j: int) -> float:
        """Of all tiles, those before this one."""
        many = len(self.chunks)
        return (i * (i + 1) + 2 * j) / (many * (many + 1))

    def times(
        self, V: np.ndarray, tick: Callable[[float], Any] | None = None
    ) -> np.ndarray:
        """K V in float64; `tick` is called with the share of it that is done."""
        if self.whole is not None:
            self.rows += self.n
            W = np.empty_like(V)
            W[self.order] = V
            return (self.whole @ W)[self.order]
        shape, V = V.shape, V.reshape(self.n, -1).astype(self.dtype, order="C")
        out = np.zeros(V.shape)
        for i, rows in enumerate(self.chunks):
            for j, columns in enumerate(self.chunks[: i + 1]):
                if tick is not None:
                    tick(self._share(i, j))
                tile, mirrored = self.tile(i, j), out[columns] if j < i else None
                if V.shape[1] <= NARROW:
                    add_both_ways(tile, V[rows], V[columns], out[rows], mirrored)
                    continue
                out[rows] += multiply(tile, V[columns])
                if mirrored is not None:
                    mirrored += multiply(tile.T, V[rows])
        if tick is not None:
            tick(1.0)
        return out.reshape(shape)

    def sample(self) -> np.ndarray | None:
        """K on some of the points, or None where there are too few for a choice."""
        return self.tile(0, 0) if len(self.chunks) > 1 and self.whole is None else None

    def from_sample(self, V: np.ndarray) -> np.ndarray:
        """K V, V being given on the sample and 0 elsewhere."""
        V = V.astype(self.dtype)
        parts = [multiply(self.tile(i, 0), V) for i in range(len(self.chunks))]
        return np.concatenate(parts).astype(float)


def _blocks(
    gram: Gram, order: np.ndarray, chunks: list[slice], dtype: np.dtype
) -> Callable[[int, int], np.ndarray]:
    """The function of i and j that computes a tile."""
    if gram.is_held:
        matrix = gram.rows(slice(None))  # no copy
        in_order = np.array_equal(order, np.arange(len(matrix)))

        def held(i: int, j: int) -> np.ndarray:
            # Of a tile alone: all of its rows would be copied to be thrown away.
            place: tuple[Any, ...] = (chunks[i], chunks[j])
            if not in_order:
                place = np.ix_(order[chunks[i]], order[chunks[j]])
            return interruptible(
                lambda: np.ascontiguousarray(matrix[place], dtype=dtype),
                work=100.0 * _length(chunks[i]) * _length(chunks[j]),
            )

        return held
    kernel, recipe = gram.kernel, gram.kernel.native(gram.X)
    if recipe is None:
        parts = [take(gram.X, order[rows]) for rows in chunks]

        def general(i: int, j: int) -> np.ndarray:
            with unchecked():  # whoever asks for a tile looks at it
                values = kernel(parts[i], None if i == j else parts[j])
            return np.ascontiguousarray(values, dtype=dtype)

        return general
    X = centered(vectors(gram.X), recipe.part, dtype)
    packed = [
        Packed(X[order[rows]].astype(dtype, copy=False), only_core=True)
        for rows in chunks
    ]

    def native(i: int, j: int) -> np.ndarray:
        out = _small_pages((packed[i].shape[0], packed[j].shape[0]), dtype)
        return block(recipe, packed[i], None if i == j else packed[j], out=out)

    return native


def _length(chunk: slice) -> int:
    return chunk.stop - chunk.start


def _small_pages(shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
    """An empty array that asks for no large pages.

    Hundreds of megabytes of them make some systems tidy their memory first, which can
    take longer than all that is then done with it.
    """
    size = shape[0] * shape[1] * dtype.itemsize
    if not hasattr(mmap, "MAP_PRIVATE") or size < 2**20:
        return np.empty(shape, dtype)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(pages, dtype).reshape(shape)


class Features:
    """K = ΦΦᵀ of explicit features Φ, (n, p); Φ̃ is Φ less the mean of its rows."""

    rows = 0
    fits = True

    def __init__(self, features: Any):
        self.sparse = sp.issparse(features)
        self.mean = np.asarray(features.mean(axis=0), dtype=float).ravel()
        if self.sparse:
            self.features = sp.csr_array(features)
            self.across = sp.csr_array(self.features.T)
        else:
            # Products of the features less their mean lose fewer digits.
            self.features = np.asarray(features, dtype=float) - self.mean
            self.across = self.features.T

    def times(self, V: np.ndarray) -> np.ndarray:
        """Φ Φᵀ V in float64."""
        self.rows += len(V)
        if self.sparse:
            return np.asarray(self.features @ (self.across @ V))
        total = V.sum(axis=0)
        inner = multiply(self.across, V) + np.multiply.outer(self.mean, total)
        return multiply(self.features, inner) + self.mean @ inner

    def covariance(self) -> np.ndarray:
        """Φ̃ᵀΦ̃, (p, p)."""
        if not self.sparse:
            return multiply(self.across, self.features)
        C = self.across @ self.features
        n = self.features.shape[0]
        return C.toarray() - n * np.multiply.outer(self.mean, self.mean)

    def project(self, directions: np.ndarray) -> np.ndarray:
        """Φ̃ u for directions u in feature space."""
        if not self.sparse:
            return multiply(self.features, directions)
        return np.asarray(self.features @ directions) - self.mean @ directions

    def gather(self, V: np.ndarray) -> np.ndarray:
        """Φ̃ᵀ v for vectors v that sum to 0."""
        return np.asarray(self.across @ V) if self.sparse else multiply(self.across, V)

    def means(self) -> np.ndarray:
        """The mean of each row of ΦΦᵀ."""
        values = np.asarray(self.features @ self.mean)
        return values if self.sparse else values + self.mean @ self.mean


class RowFeatures(Features):
    """The same of rows that are not in memory: each product reads them."""

    sparse = False

    def __init__(self, rows: ComputedRows):
        self.features, self.mean = rows, rows.mean()

    def times(self, V: np.ndarray) -> np.ndarray:
        self.rows += len(V)
        return self.features.times(self.features.pull(V))

    def covariance(self) -> np.ndarray:
        return self.features.normal(np.ones(self.features.shape[0]), self.mean)

    def project(self, directions: np.ndarray) -> np.ndarray:
        return self.features.times(directions) - self.mean @ directions

    def gather(self, V: np.ndarray) -> np.ndarray:
        return self.features.pull(V) - np.multiply.outer(self.mean, V.sum(axis=0))

    def means(self) -> np.ndarray:
        return self.features.times(self.mean)


class GramProducts:
    """K V of points in partitions, computed where these are."""

    rows = 0
    fits = False

    def __init__(self, gram: Gram):
        self.gram = gram

    def times(self, V: np.ndarray) -> np.ndarray:
        """K V in float64."""
        self.rows += len(V)
        return self.gram @ V


class Centered:
    """H K H V, and on the way the means of the rows of K.

    `tick` is called with the share of a product that is done.
    """

    means: np.ndarray

    def __init__(
        self,
        product: Tiles | Features | GramProducts,
        tick: Callable[[float], Any] | None = None,
    ):
        self.product, self.count, self.tick = product, 0, tick

    def __call__(self, V: np.ndarray) -> np.ndarray:
        shape, V = V.shape, V.reshape(len(V), -1)
        V = V - V.mean(axis=0)
        if not self.count:
            V = np.column_stack([V, np.full(len(V), 1 / len(V))])
        if isinstance(self.product, Tiles):
            W = self.product.times(V, self.tick)
        else:
            W = self.product.times(V)
        if not self.count:
            self.means, W = W[:, -1].copy(), W[:, :-1]
        self.count += 1
        return (W - W.mean(axis=0)).reshape(shape)


def centered_matrix(gram: Gram) -> tuple[np.ndarray, np.ndarray]:
    """H K H in float64, and the means of the rows of K."""
    K = elementwise(partial(np.array, dtype=float), gram.double().dense())
    # Rounding may make the halves of K differ; what is sought is symmetric.
    means = elementwise(lambda K: (K.mean(axis=0) + K.mean(axis=1)) / 2, K)
    for rows in row_blocks(len(K), len(K), BLOCK_MB):
        K[rows] -= means
        K[rows] -= means[rows, None] - means.mean()
    return K, means
