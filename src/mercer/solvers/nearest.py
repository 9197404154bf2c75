"""The nearest points in feature space, by k(x, x) - 2 k(x, y) + k(y, y).

No matrix of all distances is stored. Points are ranked by a key that rounds alike on
every processor, for any number of threads and any size of tiles; only equal keys tie,
and ties go by the order of the points:

    kernels of ⟨x, y⟩, ‖x - y‖, Σ|xᵢ - yᵢ|   the core's sum over coordinates, in a fixed
                                             order (`mercer.native.vectors.nearest`)
    explicit features                        that sum of (φ(x) - φ(y))² over features
    all other kernels                        the kernel value of the two points alone

Quick values in tiles rule out what cannot be near enough, with a margin for their
rounding; the others get their key. Of dense vectors in few dimensions a k-d tree rules
out whole boxes of points, by the same keys (`SearchTree`): the answers are equal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer.data.copies import same_value
from mercer.data.partitions import Once, Partitions
from mercer.data.points import (
    Points,
    as_points,
    concatenate,
    count,
    each,
    objects,
    take,
)
from mercer.data.points import vectors as as_vectors
from mercer.kernels.algebra import Normalized
from mercer.kernels.base import BLOCK_MB, Kernel
from mercer.kernels.counts import Columns, VocabularyKernel
from mercer.kernels.operators import Scaled
from mercer.kernels.vector import TransformedKernel, is_vectors
from mercer.kernels.ways import FeatureKernel, PairKernel, Precomputed, dense
from mercer.native import vectors
from mercer.native.memory import fits
from mercer.native.sparsity import Vectors
from mercer.native.vectors import KdTree, Recipe

ROUNDING = 1e-11  # of a kernel value in a tile, relative to k(x, x) + k(y, y)
MOST_FEATURES = 2.0**26  # numbers; a map of more is not held for all points at once
MANY_PAIRS = 20_000  # so many undecided pairs are computed row by row, not one by one
MANY_CANDIDATES = 4_000_000  # that wait for their keys

# Where a k-d tree pays, by measurement. It takes as long to make as about 400 searches
# through all points, and to look at a node or a leaf as to look at 35 + 7 d points of
# such a search.
FEW_DIMENSIONS = 16
MANY_POINTS = 1000
MANY_SEARCHES = 500
PILOTS = (4, 32)  # searches that tell how much of the tree is looked at
THINNED = 8  # a tree of every 8th point shows soon where the whole one is hopeless


def nearest(
    kernel: Kernel,
    X: Points,
    Y: Points | None = None,
    n_neighbors: int = 1,
    *,
    with_own: bool = True,
    tree: SearchTree | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The nearest points of Y to each of X: ‖φ(x) - φ(y)‖² and their numbers in Y.

    Two (n, n_neighbors) arrays, from the nearest on; points at the same distance come
    in the order of their numbers. Rounding leaves no square below 0, and equal points
    are at 0; only where the kernel is indefinite can a square be negative.

    Parameters
    ----------
    kernel : with no parameter left to learn
    X, Y : n and m points; Y None for the points of X without x itself
    n_neighbors : at most m, or m - 1 where Y is None
    with_own : False to leave k(x, x) out of the squares, which keeps their order, where
        the kernel does not know it
    tree : that of earlier calls with the same Y; None to begin a new one
    """
    return _ranked(kernel, X, Y, n_neighbors, with_own, tree)[1:]


def nearest_of_partitions(
    kernel: Kernel, X: Points, Y: Partitions, n_neighbors: int
) -> tuple[np.ndarray, np.ndarray]:
    """The nearest points to each of X among those of partitions, as of `nearest`.

    Each partition finds its own nearest; these are merged by the keys that rank them,
    and then by their numbers.
    """
    shared = kernel, Once((X, n_neighbors))
    keys, squares, index = zip(*Y.each(_nearest_of_part, shared=shared), strict=True)
    numbers = [
        some + begin for some, begin in zip(index, Y.remote.bounds, strict=False)
    ]
    key, square, number = (np.hstack(parts) for parts in (keys, squares, numbers))
    order = np.lexsort((number, key), axis=1)[:, :n_neighbors]
    square, number = (np.take_along_axis(part, order, 1) for part in (square, number))
    return np.maximum.accumulate(square, axis=1), number


def _nearest_of_part(
    part: Points, kernel: Kernel, sent: tuple[Points, int]
) -> tuple[np.ndarray, ...]:
    X, k = sent
    return _ranked(kernel, X, part, min(k, count(part)), True, None)


def _ranked(
    kernel: Kernel,
    X: Points,
    Y: Points | None,
    n_neighbors: int,
    with_own: bool,
    tree: SearchTree | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The keys of the nearest points, their squares and their numbers."""
    X = as_points(X)
    Y = None if Y is None else as_points(Y)
    if isinstance(kernel, Scaled):
        key, squares, index = _ranked(kernel.kernel, X, Y, n_neighbors, with_own, tree)
        return key, float(kernel.factor) * squares, index
    right, tree = X if Y is None else Y, tree or SearchTree()
    recipe = kernel.native(right)
    if recipe is not None and (recipe.part, recipe.finish) in vectors.RANKED:
        key, index = _of_vectors(kernel, recipe, X, Y, n_neighbors, tree)
        if recipe.part == "product":
            return key, key, index
        return key, _ascending(-2 * np.expm1(recipe.scale * key)), index
    if (
        isinstance(kernel, TransformedKernel)
        and kernel.decreasing
        and kernel._stretch() is None
        and is_vectors(right)
    ):
        recipe = Recipe(kernel.part, "exp", scale=-1.0)
        key, index = _of_vectors(kernel, recipe, X, Y, n_neighbors, tree)
        squares = 2 * (kernel.transform(np.zeros(1)) - kernel.transform(key))
        return key, _ascending(squares), index
    features = _features(kernel, X, Y)
    if features is not None:
        A, B = features
        own = np.arange(A.shape[0]) if Y is None else None
        found = vectors.nearest(Recipe("product", "identity"), A, B, n_neighbors, own)
        return found[0], *found
    squares, index = _by_tiles(kernel, X, Y, n_neighbors, with_own)
    return squares, squares, index


def _of_vectors(
    kernel: Kernel,
    recipe: Recipe,
    X: Points,
    Y: Points | None,
    k: int,
    tree: SearchTree,
) -> tuple[np.ndarray, np.ndarray]:
    """The keys and numbers of the nearest vectors."""
    A = B = as_vectors(X, type(kernel).__name__)
    own = None
    if Y is None:
        own = np.arange(A.shape[0])
    else:
        B = as_vectors(Y, type(kernel).__name__)
    part = recipe.part
    if (part, recipe.finish) == ("product", "identity"):
        part = "square"
    if part in ("square", "absolute"):
        found = tree.nearest(part, A, B, k, own)
        if found is not None:
            return found
    return vectors.nearest(recipe, A, B, k, own)


class SearchTree:
    """A k-d tree of points Y, made when it begins to pay, for many searches.

    Its answers are those of `vectors.nearest`, number for number. Where some searches
    would look at too much of it, as they do in many dimensions, it is given up. Copies
    and pickles begin without a tree: it is as large as the points, and quickly made.
    """

    def __init__(self) -> None:
        self._tree: KdTree | None = None
        self._searches = 0  # so far
        self._too_many: float = np.inf  # neighbours: for so many the tree did not pay

    def __reduce__(self) -> tuple[type[SearchTree], tuple[()]]:
        return SearchTree, ()

    def nearest(
        self, part: str, X: Vectors, Y: Vectors, k: int, own: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Keys and numbers of the k nearest y of each x, (n, k); None without a tree.

        Parameters
        ----------
        part : "square" or "absolute", of which the keys are sums
        own : the numbers of the x among the y, which are not their own neighbours
        """
        n = X.shape[0]
        self._searches += n
        if k >= self._too_many or not self._suits(X, Y):
            return None
        tree = self._tree
        if tree is None:
            # Searches look at no less in the whole tree than in one of fewer points.
            thin = KdTree(np.ascontiguousarray(Y[::THINNED]))
            pilots = min(n, PILOTS[-1])
            if not self._pays(thin, len(Y), part, X, k, None, pilots):
                self._too_many = k
                return None
            tree = self._tree = KdTree(Y)
        for pilots in PILOTS:
            if pilots < n and not self._pays(tree, len(Y), part, X, k, own, pilots):
                self._tree, self._too_many = None, k
                return None
        return tree.nearest(part, X, k, own)[:2]

    def _suits(self, X: Vectors, Y: Vectors) -> bool:
        """Whether the points are for a tree, and searches many enough to make it."""
        if sp.issparse(X) or sp.issparse(Y):
            return False
        m, d = Y.shape
        if not (X.shape[1] == d <= FEW_DIMENSIONS and d > 0 and m >= MANY_POINTS):
            return False
        if self._tree is None:
            if self._searches < MANY_SEARCHES or not fits(40.0 * m * (d + 4)):
                return False
            if not np.isfinite(Y).all():
                return False
        return X.shape[0] > 0 and bool(np.isfinite(X).all())

    def _pays(
        self,
        tree: KdTree,
        m: int,
        part: str,
        X: np.ndarray,
        k: int,
        own: np.ndarray | None,
        pilots: int,
    ) -> bool:
        """Whether searches look at so little that it is quicker than at m points."""
        some = np.linspace(0, len(X) - 1, pilots).astype(np.intp)
        own = None if own is None else own[some]
        _, _, work = tree.nearest(part, X[some], min(k, tree.shape[0]), own)
        # The fewer the pilots, the more a tree must fail to be given up.
        doubt = PILOTS[-1] / pilots
        return work * (35 + 7 * X.shape[1]) < doubt * pilots * m


def _ascending(squares: np.ndarray) -> np.ndarray:
    """Squares in the order of their keys, of which rounding may lose a little."""
    return np.maximum.accumulate(np.maximum(squares, 0), axis=1)


def _features(
    kernel: Kernel, X: Points, Y: Points | None
) -> tuple[Points, Points] | None:
    """Φ(X) and Φ(Y) in the same columns where the kernel has a map; else None."""
    inner = kernel.kernel if isinstance(kernel, Normalized) else kernel
    if not isinstance(inner, FeatureKernel):
        return None
    right = X if Y is None else Y
    first = inner.features(take(right, slice(0, 1)))
    if not sp.issparse(first):
        if (count(X) + count(right)) * first.shape[1] > MOST_FEATURES:
            return None
    A, B = _mapped(inner, X, Y, scaled=inner is not kernel)
    if inner is kernel:
        return A, B
    left = _of_unit_length(A)
    return left, left if Y is None else _of_unit_length(B)


def _mapped(
    kernel: FeatureKernel, X: Points, Y: Points | None, scaled: bool
) -> tuple[Points, Points]:
    """Φ(X) and Φ(Y), equal points having equal rows.

    A map that multiplies by a BLAS may round a point differently beside other points.

    Parameters
    ----------
    scaled : whether rows are divided by their lengths afterwards
    """
    own, n = Y is None, count(X)
    if scaled and isinstance(kernel, VocabularyKernel):
        both = objects(X) if own else [*objects(X), *objects(Y)]
        features = _by_name(kernel.columns(both))
        return features[:n], features if own else features[n:]
    distinct = None
    if type(kernel).aligned is FeatureKernel.aligned and (own or type(X) is type(Y)):
        both = X if own else concatenate(X, Y)
        distinct = _distinct(both)
    if distinct is None:
        A, B = kernel.aligned(X, Y)
        A, B = (Z.tocsr() if sp.issparse(Z) else dense(Z) for Z in (A, B))
        return A, A if own else B
    first, place = distinct
    features = kernel.features(take(both, first))
    features = features.tocsr() if sp.issparse(features) else dense(features)
    A = features[place[:n]]
    return A, A if own else features[place[n:]]


def _by_name(columns: Columns) -> sp.csr_array:
    """Φ with its columns by their names, in which order they are then summed.

    They come as they first occur, which is another order beside other points.
    """
    matrix = sp.csr_array(columns.matrix)
    order = np.argsort(np.array(columns.names()), kind="stable")
    place = np.empty(len(order), dtype=matrix.indices.dtype)
    place[order] = np.arange(len(order))
    sorted_ = sp.csr_array(
        (matrix.data, place[matrix.indices], matrix.indptr), shape=matrix.shape
    )
    sorted_.sort_indices()
    return sorted_


def _distinct(X: Points) -> tuple[npt.ArrayLike, np.ndarray] | None:
    """Where each different point first stands, and which of these every point is."""
    if is_vectors(X) and isinstance(X, np.ndarray):
        _, first, place = np.unique(X, axis=0, return_index=True, return_inverse=True)
        return first, place.ravel()
    points = each(X)
    try:
        known = {x: i for i, x in reversed(list(enumerate(points)))}
    except TypeError:
        return None  # points that are not hashed are as they come
    number = {x: t for t, x in enumerate(known)}
    return list(known.values()), np.array([number[x] for x in points], dtype=int)


def _of_unit_length(features: Points) -> Points:
    """φ / ‖φ‖; a φ of length 0 is 1 in a column of its own, as `Normalized` has it."""
    n = features.shape[0]
    squares = vectors.pair_sums("product", features, features, np.arange(n)[:, None])
    zero = squares == 0
    lengths = np.sqrt(np.where(zero, 1, squares))
    if not sp.issparse(features):
        return np.hstack([features / lengths, zero])
    entries = np.repeat(lengths[:, 0], np.diff(features.indptr))
    scaled = sp.csr_array(
        (features.data / entries, features.indices, features.indptr),
        shape=features.shape,
    )
    return sp.hstack([scaled, sp.csr_array(zero.astype(float))], format="csr")


# Any kernel, tile by tile


class _Rows:
    """Some points x against all y: what is near enough in the tiles, and its keys."""

    def __init__(
        self,
        kernel: Kernel,
        X: Points,
        right: Points,
        rows: slice,
        down: np.ndarray,
        across: np.ndarray | None,
        k: int,
    ):
        self.kernel, self.X, self.right, self.k = kernel, X, right, k
        self.first, self.n = rows.start, rows.stop - rows.start
        # k(x, y) distinguishes far points where rounded distances are equal.
        self.half = np.zeros(len(down)) if (down == down[0]).all() else down / 2
        self.down, self.across = down, across
        self.best = np.full((self.n, k), np.inf)  # the k least scores so far
        self.slack = self._slack()
        self.found: list[
            tuple[np.ndarray, ...]
        ] = []  # row, number, score and kernel value of candidates
        self.waiting = 0

    def _slack(self) -> np.ndarray:
        """How far rounding may move a score."""
        if isinstance(self.kernel, Precomputed | PairKernel):
            return np.zeros(self.n)  # a value is the same in whatever tile it stands
        size = np.abs(self.down).max(initial=0.0)
        own = size if self.across is None else np.abs(self.across)
        slack = np.broadcast_to(ROUNDING * (size + own), self.n)
        return np.where(np.isfinite(slack), slack, 0)

    def see(self, K: np.ndarray, j: int, diagonal: bool) -> None:
        """Take note of the tile of kernel values with the points from j on."""
        scores = self.half[j : j + K.shape[1]] - K.astype(float, copy=False)
        scores[np.isnan(scores)] = np.inf
        if diagonal:
            np.fill_diagonal(scores, np.nan)  # no point is its own neighbour
        least = scores
        if K.shape[1] > self.k:
            least = np.partition(scores, self.k - 1, axis=1)[:, : self.k]
        self.best = np.sort(np.hstack([self.best, least]), axis=1)[:, : self.k]
        row, column = np.nonzero(scores <= self._limit()[:, None])
        value = K[row, column].astype(float)
        self.found.append((row, column + j, scores[row, column], value))
        self.waiting += len(row)
        if self.waiting > MANY_CANDIDATES:
            self.found = [self._chosen()]
            self.waiting = len(self.found[0][0])

    def _limit(self) -> np.ndarray:
        return self.best[:, -1] + self.slack

    def _chosen(self) -> tuple[np.ndarray, ...]:
        """The k first of each row, by their keys and then by their numbers."""
        row, number, score, value = (
            np.concatenate(parts) for parts in zip(*self.found, strict=True)
        )
        near = score <= self._limit()[row]
        row, number, score, value = (part[near] for part in (row, number, score, value))
        order = np.lexsort((number, score, row))
        row, number, score, value = (
            part[order] for part in (row, number, score, value)
        )
        # Scores further apart than rounding are in their order; others form a group.
        with np.errstate(invalid="ignore"):
            apart = np.diff(score) > self.slack[row[1:]]
        starts = np.concatenate([[True], apart | (np.diff(row) > 0)])
        group = np.cumsum(starts) - 1
        rank = np.arange(len(row)) - np.searchsorted(row, row)
        wanted = rank[starts][group] < self.k
        if self.slack.any():
            many = wanted & (np.bincount(group)[group] > 1)
            score, value = score.copy(), value.copy()
            value[many] = self._values(row[many], number[many])
            score[many] = self.half[number[many]] - value[many]
        order = np.lexsort((number, score, group))
        order = order[(rank < self.k)[: len(order)]]
        return tuple(part[order] for part in (row, number, score, value))

    def _values(self, row: np.ndarray, number: np.ndarray) -> np.ndarray:
        """k(x, y) of each pair by itself."""
        values = np.empty(len(row))
        left, right = self.X, self.right
        if len(row) <= MANY_PAIRS:
            for t, (i, j) in enumerate(zip(row + self.first, number, strict=True)):
                pair = self.kernel(take(left, [i]), take(right, [j]))
                values[t] = float(np.asarray(pair)[0, 0])
            return values
        ends = np.flatnonzero(np.diff(row, append=-1)) + 1
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            x = take(left, [row[start] + self.first])
            values[start:end] = self.kernel(x, take(right, number[start:end]))[0]
        return values

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """Kernel values and numbers of the nearest, two (n, k) arrays."""
        _, number, _, value = self._chosen()
        return value.reshape(self.n, self.k), number.reshape(self.n, self.k)


def _wide(X: Points) -> Points:
    """The points in float64, where they are float32 vectors."""
    return X.astype(float) if getattr(X, "dtype", None) == np.float32 else X


def _by_tiles(
    kernel: Kernel, X: Points, Y: Points | None, k: int, with_own: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The squares and numbers of the k nearest y of each x, for any kernel."""
    X, Y = _wide(X), None if Y is None else _wide(Y)
    own, right = Y is None, X if Y is None else Y
    n, m = count(X), count(right)
    down = np.asarray(kernel.diag(right), dtype=float)
    across = None
    if with_own:
        across = down if own else np.asarray(kernel.diag(X), dtype=float)
    side = int(math.sqrt(BLOCK_MB * 2**20 / 8))
    values, index = np.empty((n, k)), np.empty((n, k), dtype=np.int64)
    for i in range(0, n, side):
        rows = slice(i, min(i + side, n))
        part = take(X, rows)
        these = None if across is None else across[rows]
        search = _Rows(kernel, X, right, rows, down, these, k)
        for j in range(0, m, side):
            columns = slice(j, min(j + side, m))
            diagonal = own and i == j
            K = np.asarray(kernel(part, None if diagonal else take(right, columns)))
            search.see(K, j, diagonal)
        values[rows], index[rows] = search.result()
    if across is None:
        return down[index] - 2 * values, index
    squares = (across[:, None] - values) + (down[index] - values)
    scale = np.abs(across)[:, None] + np.abs(down[index])
    return _without_rounding(squares, scale, index, X, right)


def _without_rounding(
    squares: np.ndarray, scale: np.ndarray, index: np.ndarray, X: Points, Y: Points
) -> tuple[np.ndarray, np.ndarray]:
    """0 for equal points, which go first, and for what rounding has made negative."""
    rounding = math.sqrt(np.finfo(float).eps) * scale
    squares[(squares < 0) & (squares >= -rounding)] = 0
    equal = np.zeros(squares.shape, dtype=bool)
    near = np.argwhere(np.abs(squares) <= rounding)
    if len(near):
        left, right = each(X), each(Y)
        for i, c in near:
            equal[i, c] = _equal(left[i], right[index[i, c]])
    squares[equal] = 0
    # Equal points by number; all others stay in the order of their keys.
    place = np.where(equal, index - index.max(initial=0) - 1, np.arange(index.shape[1]))
    order = np.argsort(np.where(squares < -rounding, place - 2**62, place), axis=1)
    squares, index = (np.take_along_axis(part, order, 1) for part in (squares, index))
    return np.maximum.accumulate(squares, axis=1), index


def _equal(x: Any, y: Any) -> bool:
    if hasattr(x, "toarray"):
        x, y = x.toarray(), y.toarray()
    return same_value(x, y)
