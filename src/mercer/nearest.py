"""The nearest points in feature space, by k(x, x) - 2 k(x, y) + k(y, y).

No matrix of all distances is stored. On vectors the compiled core keeps the best of
each row while it computes kernel values, in the precision of the points; the distances
to these few are then taken again in float64 from the coordinates, where nothing
cancels. All other kernels are asked for tiles of their matrix.
"""

from __future__ import annotations

import math

import numpy as np

from mercer import vectors
from mercer.kernels.base import BLOCK_MB, Kernel
from mercer.points import Points, as_points, count, each, same_value, take
from mercer.points import vectors as as_vectors
from mercer.vectors import Recipe

EXTRA = 4  # candidates beyond those asked for: rounding may swap neighbours
# A few times the relative error of a float32 kernel value: of a sum, of an exponential.
ROUNDING, ROUNDING_EXP = 2e-6, 1e-4
# What the core computes and float64 coordinates make exact.
EXACT = {
    ("product", "identity"),
    ("product", "power"),
    ("product", "exp"),
    ("square", "exp"),
    ("absolute", "exp"),
}


def nearest(
    kernel: Kernel,
    X: Points,
    Y: Points | None = None,
    n_neighbors: int = 1,
    *,
    with_own: bool = True,
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
    """
    X = as_points(X)
    Y = None if Y is None else as_points(Y)
    recipe = kernel.native(X) if Y is None else kernel.native(Y)
    if recipe is not None and (recipe.part, recipe.finish) in EXACT:
        A = as_vectors(X, type(kernel).__name__)
        B = A if Y is None else as_vectors(Y, type(kernel).__name__)
        own = np.arange(A.shape[0]) if Y is None else None
        return _of_vectors(recipe, A, B, n_neighbors, own)
    values, index, down = _by_tiles(kernel, X, Y, n_neighbors)
    if not with_own:
        return down[index] - 2 * values, index
    across = down if Y is None else np.asarray(kernel.diag(X), dtype=float)
    squares = (across[:, None] - values) + (down[index] - values)
    scale = np.abs(across)[:, None] + np.abs(down[index])
    squares = _without_rounding(squares, scale, index, X, X if Y is None else Y)
    return _sorted(squares, index)


# Vectors, in the core


def _of_vectors(recipe: Recipe, A, B, k: int, own):
    """The same in the core; rows that float32 leaves in doubt are done in float64."""
    # An exponential of a product has no scale on which float32 could be judged.
    narrow = A.dtype == B.dtype == np.float32
    if (recipe.part, recipe.finish) == ("product", "exp") or not narrow:
        A, B, narrow = A.astype(float), B.astype(float), False
    squares, index, beyond = _candidates(recipe, A, B, k, own)
    if narrow:
        some = np.flatnonzero(~_certain(recipe, A, B, squares[:, -1], beyond))
        if len(some):
            rest = None if own is None else own[some]
            wide = _candidates(recipe, A[some].astype(float), B.astype(float), k, rest)
            squares[some], index[some] = wide[:2]
    return squares, index


def _candidates(recipe: Recipe, A, B, k: int, own):
    """The k best of k + EXTRA candidates, and k(x, y) - k(y, y)/2 of the last one.

    Other points have no more of it, but for rounding; -∞ where there are no others.
    """
    wanted = min(k + EXTRA, B.shape[0] - (own is not None))
    half = 0.5 * vectors.diag(recipe, B)
    # k(x, y) tells far points apart where the distance does not any more.
    constant = bool((half == half[0]).all())
    scores = np.zeros_like(half) if constant else half
    score, index = vectors.nearest(recipe, A, B, scores, wanted, own)
    beyond = -score[:, -1] - (half[0] if constant else 0)
    if wanted == B.shape[0] - (own is not None):
        beyond[:] = -np.inf
    # Sums of coordinates have the order of the distances, and more digits.
    key = _exact_keys(recipe, A, B, index)
    key, index = (part[:, :k].copy() for part in _sorted(key, index))
    squares = key if recipe.part == "product" else -2 * np.expm1(recipe.scale * key)
    return squares, index, beyond


def _certain(recipe: Recipe, A, B, worst: np.ndarray, beyond: np.ndarray) -> np.ndarray:
    """Whether the points beyond the candidates are farther than the worst kept."""
    if recipe.part != "product":
        value = 1 - worst / 2
        return (beyond + 0.5) * (1 + ROUNDING_EXP) < value
    across = vectors.diag(recipe, A).astype(float)
    scale = across + float(vectors.diag(recipe, B).max())
    rounding = ROUNDING * max(1, recipe.degree) * scale
    return across - 2 * beyond - rounding > worst


def _exact_keys(recipe: Recipe, A, B, index) -> np.ndarray:
    """The squared distances to the points `index`, from the coordinates in float64.

    For kernels of a distance, the sums of which that distance is made.
    """
    if recipe.part != "product":
        return vectors.pair_sums(recipe.part, A, B, index)
    if recipe.finish == "identity":
        return vectors.pair_sums("square", A, B, index)
    each_a, each_b = (np.arange(Z.shape[0])[:, None] for Z in (A, B))
    x = _finished(recipe, vectors.pair_sums("product", A, A, each_a))
    y = _finished(recipe, vectors.pair_sums("product", B, B, each_b))[:, 0]
    between = _finished(recipe, vectors.pair_sums("product", A, B, index))
    # Rounding can leave -1e-17 here; sqrt would turn it into NaN.
    return np.maximum((x - between) + (y[index] - between), 0)


def _finished(recipe: Recipe, sums: np.ndarray) -> np.ndarray:
    if recipe.finish == "exp":
        return np.exp(recipe.scale * sums)
    return (recipe.scale * sums + recipe.offset) ** recipe.degree


# Any kernel, tile by tile


def _by_tiles(kernel: Kernel, X, Y, k: int):
    """k(x, y) and the numbers of the k nearest y of each x; and k(y, y) of all y."""
    own, right = Y is None, X if Y is None else Y
    n, m = count(X), count(right)
    down = np.asarray(kernel.diag(right), dtype=float)
    # k(x, y) tells far points apart where the distance does not any more.
    half = np.zeros(m) if (down == down[0]).all() else down / 2
    side = int(math.sqrt(BLOCK_MB * 2**20 / 8))
    values, index = np.empty((n, k)), np.empty((n, k), dtype=np.int64)
    for i in range(0, n, side):
        rows = slice(i, min(i + side, n))
        part = take(X, rows)
        best: list = [np.empty((rows.stop - i, 0))] * 2
        best.append(np.empty((rows.stop - i, 0), dtype=np.int64))
        for j in range(0, m, side):
            columns = slice(j, min(j + side, m))
            diagonal = own and i == j
            K = np.asarray(kernel(part, None if diagonal else take(right, columns)))
            best = _merged(best, _best_of(K, half[columns], j, k, diagonal), k)
        _, values[rows], index[rows] = best
    return values, index, down


def _best_of(K: np.ndarray, half: np.ndarray, j: int, k: int, diagonal: bool):
    """Scores, kernel values and numbers of the k best of a tile, or all it has."""
    S = half - K.astype(float, copy=False)
    S[np.isnan(S)] = np.inf
    if diagonal:
        # Nobody's own neighbour: behind the points at an infinite distance.
        np.fill_diagonal(S, np.nan)
    best = _least(S, min(k, S.shape[1] - diagonal))
    S, K = (np.take_along_axis(values, best, axis=1) for values in (S, K))
    return [S, K.astype(float, copy=False), best + j]


def _least(S: np.ndarray, k: int) -> np.ndarray:
    """The columns of the k least numbers of each row, ties by column, NaN last."""
    if k >= S.shape[1] - 1:
        return np.argsort(S, axis=1, kind="stable")[:, :k]
    chosen = np.argpartition(S, k, axis=1)[:, :k]
    worst = np.take_along_axis(S, chosen, axis=1).max(axis=1, initial=-np.inf)
    tied = np.flatnonzero((S <= worst[:, None]).sum(axis=1) > k)
    chosen[tied] = np.argsort(S[tied], axis=1, kind="stable")[:, :k]
    order = np.lexsort((chosen, np.take_along_axis(S, chosen, axis=1)), axis=1)
    return np.take_along_axis(chosen, order, axis=1)


def _merged(best: list, more: list, k: int) -> list:
    """The k best of two lists of scores, values and numbers; the first goes first."""
    parts = [np.hstack(pair) for pair in zip(best, more, strict=True)]
    order = np.argsort(parts[0], axis=1, kind="stable")[:, :k]
    return [np.take_along_axis(part, order, axis=1) for part in parts]


def _without_rounding(squares, scale, index, X, Y) -> np.ndarray:
    """0 for equal points and for what rounding has made negative."""
    rounding = math.sqrt(np.finfo(float).eps) * scale
    squares[(squares < 0) & (squares >= -rounding)] = 0
    near = np.argwhere((squares > 0) & (squares <= rounding))
    if len(near):
        left, right = each(X), each(Y)
        for i, c in near:
            if _equal(left[i], right[index[i, c]]):
                squares[i, c] = 0
    return squares


def _equal(x, y) -> bool:
    if hasattr(x, "toarray"):
        x, y = x.toarray(), y.toarray()
    return same_value(x, y)


def _sorted(squares: np.ndarray, index: np.ndarray):
    """Each row from the nearest on, ties by number."""
    order = np.lexsort((index, squares), axis=1)
    return np.take_along_axis(squares, order, 1), np.take_along_axis(index, order, 1)
