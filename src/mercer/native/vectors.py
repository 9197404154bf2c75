"""Kernels on vectors by the native core: blocks of k(X, Y), computed and not stored.

A kernel the core knows is a `Recipe`, finish(Σₜ part(xₜ, yₜ)). Points are dense arrays
or CSR matrices, or `Packed` once for many calls. Blocks of two float32 sets of points
are float32, all others float64.

The environment is read at import: MERCER_ISA (baseline, avx2, avx512) forces an
instruction set, MERCER_PRODUCT (own, blas, auto) says what multiplies dense matrices
(auto: a BLAS only where a product of long points is all there is to do),
MERCER_NUM_THREADS how many threads may work.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

import mercer.native.threads  # noqa: F401  (threadpoolctl gets to know our threads)
from mercer import _core
from mercer.native import sparsity
from mercer.native.interruptible import elementwise, multiply
from mercer.native.sparsity import Vectors

SHORT = 64  # coordinates up to which differences are summed as they are


@dataclass(frozen=True)
class Recipe:
    """k(x, y) = finish(Σₜ part(xₜ, yₜ)), a kernel in the words of the native core.

    Parameters
    ----------
    part : "product" xy, "square" (x - y)², "absolute" |x - y|, "minimum" min(x, y),
        "chi2" (x - y)² / (x + y) with 0/0 = 0, or "anova", where the sum runs over
        the products of `degree` different coordinates of x and y
    finish : "identity" s, "power" (scale·s + offset)**degree, or "exp" exp(scale·s)
    degree : exponent of "power"; order of "anova", which has no "power"
    cumulative : "anova" only, the sum of the orders 1..degree
    """

    part: str
    finish: str
    scale: float = 1.0
    offset: float = 0.0
    degree: int = 1
    cumulative: bool = False

    def __post_init__(self) -> None:
        native_recipe(self)


@lru_cache(maxsize=256)
def native_recipe(recipe: Recipe) -> _core.Recipe:
    """The recipe as the core holds it; raises where it makes no sense."""
    return _core.Recipe(
        recipe.part,
        recipe.finish,
        float(recipe.scale),
        float(recipe.offset),
        int(recipe.degree),
        bool(recipe.cumulative),
    )


class Packed:
    """Points in the layout of the native core, packed once for many calls.

    Parameters
    ----------
    X : (n, d) array or scipy sparse matrix; float32 stays, all else becomes float64
    only_core : whether the core alone will read them; a BLAS needs a copy of its own
    """

    __slots__ = ("_dense", "_points", "dtype", "sparse")

    def __init__(self, X: Vectors, *, only_core: bool = False) -> None:
        self.sparse = scipy.sparse.issparse(X)
        self._dense = None
        if self.sparse:
            X = sparsity.as_csr(X)
            self.dtype = _precision(X.dtype)
            wide = np.int64 in (X.indptr.dtype, X.indices.dtype)
            index = np.int64 if wide else np.int32
            self._points = _core.pack_csr(
                np.require(X.indptr, index, ["C", "A"]),
                np.require(X.indices, index, ["C", "A"]),
                np.require(X.data, self.dtype, ["C", "A"]),
                X.shape[1],
            )
        else:
            X = np.asarray(X)
            if X.ndim != 2:
                raise ValueError(f"Points are an (n, d) array; got shape {X.shape}.")
            self.dtype = _precision(X.dtype)
            given, X = X, np.require(X, self.dtype, ["C", "A"])
            self._points = elementwise(_core.pack, X)
            if not only_core and _blas_may_serve():
                self._dense = elementwise(np.copy, X) if X is given else X

    @property
    def shape(self) -> tuple[int, int]:
        return self._points.shape

    @property
    def nbytes(self) -> int:
        return self._points.nbytes

    def __repr__(self) -> str:
        kind = "sparse" if self.sparse else "dense"
        return f"<Packed {kind} {self.shape} {self.dtype}>"

    def _widened(self) -> Packed:
        """The same points in float64."""
        wide = object.__new__(Packed)
        wide.sparse = self.sparse
        wide.dtype = np.dtype(np.float64)
        wide._dense = None if self._dense is None else self._dense.astype(np.float64)
        wide._points = _core.widen(self._points)
        return wide


def block(
    recipe: Recipe,
    X: Vectors | Packed,
    Y: Vectors | Packed | None = None,
    *,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """K with K[i, j] = k(xᵢ, yⱼ); Y None means Y = X and an exactly symmetric K.

    Parameters
    ----------
    X, Y : (n, d) and (m, d) arrays, CSR matrices or `Packed`
    out : C-contiguous (n, m) array of the result's dtype to write into
    """
    if _is_plain_product(recipe, X, Y):
        return _plain_product(recipe, X, Y, out)
    X, Y = _pair(X, Y)
    out = _room(out, X.shape[0], (X if Y is None else Y).shape[0], X.dtype)
    points, others = X._points, None if Y is None else Y._points
    if _multiply(recipe, X, X if Y is None else Y, out):
        _core.complete(native_recipe(recipe), points, others, out)
    else:
        _core.block(native_recipe(recipe), points, others, out)
    return out


def product(
    recipe: Recipe, X: Vectors | Packed, Y: Vectors | Packed | None, V: npt.ArrayLike
) -> np.ndarray:
    """block(recipe, X, Y) @ V in float64, without ever storing the block.

    Parameters
    ----------
    X, Y : (n, d) and (m, d) arrays, CSR matrices or `Packed`
    V : (m,) or (m, q) array
    """
    X, Y = _pair(X, Y, only_core=True)
    Y = X if Y is None else Y
    V = np.asarray(V)
    if V.ndim not in (1, 2) or V.shape[0] != Y.shape[0]:
        raise ValueError(
            f"product needs V with one row per point of Y, {Y.shape[0]}; "
            f"got V of shape {V.shape}."
        )
    matrix = V if V.ndim == 2 else V[:, None]
    exponent = None
    if X.dtype == np.float32 and matrix.size:
        # Columns outside the range of float32 are brought to about 1, exactly.
        matrix = np.asarray(matrix, np.float64)
        largest = np.abs(matrix).max(axis=0)
        exponent = np.where(np.isfinite(largest), np.frexp(largest)[1], 0)
        matrix = np.ldexp(matrix, -exponent)
    out = np.empty((X.shape[0], matrix.shape[1]))
    _core.product(
        native_recipe(recipe),
        X._points,
        Y._points,
        np.require(matrix, X.dtype, ["C", "A"]),
        out,
    )
    if exponent is not None:
        out = np.ldexp(out, exponent)
    return out if V.ndim == 2 else out[:, 0]


def originals(X: Vectors) -> _core.Originals:
    """X for sums in double, where what works on it is packed in single precision.

    Parameters
    ----------
    X : (n, d) array or CSR matrix of float32 or float64
    """
    if scipy.sparse.issparse(X):
        wide = np.int64 in (X.indptr.dtype, X.indices.dtype)
        index = np.int64 if wide else np.int32
        return _core.originals(
            np.require(X.indptr, index, ["C", "A"]),
            np.require(X.indices, index, ["C", "A"]),
            np.require(X.data, _precision(X.dtype), ["C", "A"]),
            X.shape[1],
        )
    return _core.originals(np.require(X, _precision(X.dtype), ["C", "A"]))


def symmetric_product(recipe: Recipe, X: Vectors | Packed, v: np.ndarray) -> np.ndarray:
    """block(recipe, X) @ v in float64, every pair of points met once.

    Parameters
    ----------
    X : (n, d) array, CSR matrix or `Packed`
    v : (n,) array
    """
    X = X if isinstance(X, Packed) else Packed(X)
    out = np.empty(X.shape[0])
    _core.symmetric_product(
        native_recipe(recipe), X._points, np.require(v, X.dtype, ["C", "A"]), out
    )
    return out


def add_both_ways(
    tile: np.ndarray,
    v_rows: np.ndarray,
    v_columns: np.ndarray,
    of_rows: np.ndarray,
    of_columns: np.ndarray | None,
) -> None:
    """of_rows += tile @ v_columns and of_columns += tile.T @ v_rows, in one reading.

    Parameters
    ----------
    tile : (n, m) array with contiguous rows, a part of a symmetric matrix
    v_rows, v_columns : (n, q) and (m, q) arrays of the dtype of the tile
    of_rows, of_columns : float64 arrays of these shapes; of_columns may be None
    """
    _core.both_ways(tile, v_rows, v_columns, of_rows, of_columns)


def centered(X: Vectors, part: str, dtype: npt.DTypeLike) -> Vectors:
    """X, moved to the middle: unseen by the kernel, but not by single precision.

    A common offset takes digits away from the differences. Points of many zeros keep
    them, unless it is large.
    """
    shifts = dtype == np.float32 and part in ("square", "absolute")
    if not shifts or scipy.sparse.issparse(X) or not len(X):
        return X
    mean = middle(X)
    return X if mean is None else X - mean.astype(X.dtype, copy=False)


def middle(X: np.ndarray) -> np.ndarray | None:
    """A point near the middle of dense points; None where the origin will do."""
    some = X[:: max(1, len(X) // 256)]  # any point near the middle will do
    mean = some.mean(axis=0, dtype=float)
    zeros = 3 * np.count_nonzero(some) < some.size
    spread = 8 if zeros or X.shape[1] <= SHORT else 0.1
    # Columns far apart from each other spread all entries, and none of their points.
    width = min(some.std(dtype=float), some.std(axis=0, dtype=float).max(initial=0.0))
    near = np.abs(mean).max(initial=0.0) <= spread * width
    return None if near else mean


def diag(recipe: Recipe, X: Vectors | Packed) -> np.ndarray:
    """k(xᵢ, xᵢ) for every point of X, (n,)."""
    zero_sums = recipe.finish == "exp" and recipe.part in ("square", "absolute")
    if zero_sums and isinstance(X, np.ndarray) and np.isfinite(X).all():
        return np.ones(len(X), _precision(X.dtype))
    X = X if isinstance(X, Packed) else Packed(X, only_core=True)
    out = np.empty(X.shape[0], X.dtype)
    _core.diag(native_recipe(recipe), X._points, out)
    return out


# Kernels on vectors whose nearest points the core finds.
RANKED = {
    ("product", "identity"),
    ("product", "power"),
    ("product", "exp"),
    ("square", "exp"),
    ("absolute", "exp"),
}


def nearest(
    recipe: Recipe, X: Vectors, Y: Vectors, count: int, own: npt.ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Of each x the `count` nearest points y: their keys, and their numbers in Y.

    Two (n, count) arrays, from the least key on, equal ones in the order of their
    numbers. The key is Σₜ (xₜ - yₜ)² for ⟨x, y⟩ and kernels of it, Σₜ |xₜ - yₜ| for
    kernels of that, and k(x, x) - 2 k(x, y) + k(y, y) for others: in float64, by one
    sum in a fixed order without fused multiply-adds, so that neither the processor nor
    threads, tiles, precision or zeros left out change it. Only equal keys tie.

    Points are ruled out by quick products where a bound of the rounding of all that is
    computed allows it, and get their key where it does not.

    Parameters
    ----------
    recipe : one of those in `RANKED`
    X, Y : (n, d) and (m, d) arrays or CSR matrices
    own : the n numbers of the x among the y, which are not their own neighbours
    """
    _check_columns(X, Y)
    key = np.empty((X.shape[0], count))
    index = np.empty((X.shape[0], count), np.int64)
    x, y, dtype = _given_rows(X, Y)
    screen = _screen(recipe, X, Y, dtype) if dtype == np.float32 else None
    if screen is None:
        screen = _screen(recipe, X, Y, np.dtype(np.float64))
    assert screen is not None  # double precision is never too coarse
    exact = recipe
    if (recipe.part, recipe.finish) == ("product", "identity"):
        exact = Recipe("square", "identity")
    search: Any = _core.nearest if len(x) == 1 else _core.nearest_csr
    search(
        *screen,
        native_recipe(exact),
        *x,
        *y,
        np.require(np.empty(0) if own is None else own, np.int64, ["C", "A"]),
        key,
        index,
    )
    return key, index


def _given_rows(
    X: Vectors, Y: Vectors
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...], np.dtype]:
    """X and Y as the core reads coordinates one by one, and their precision."""
    dtype = np.result_type(_precision(X.dtype), _precision(Y.dtype))
    sparse = scipy.sparse.issparse(X) or scipy.sparse.issparse(Y)
    rows = _csr_rows if sparse else _dense_rows
    x = rows(X, dtype)
    return x, x if Y is X else rows(Y, dtype), dtype


def _dense_rows(X: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return (np.require(X, dtype, ["C", "A"]),)


def _csr_rows(X: Vectors, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    """start, column and value of each row, columns ascending."""
    X = scipy.sparse.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return (
        np.require(X.indptr, np.int64, ["C", "A"]),
        np.require(X.indices, np.int32, ["C", "A"]),
        np.require(X.data, dtype, ["C", "A"]),
    )


def _screen(
    recipe: Recipe, X: Vectors, Y: Vectors, dtype: np.dtype
) -> tuple[Any, ...] | None:
    """What rules points out without their key: k, X, Y, half, base, factor.

    A key ≤ z implies half(y) - k(x, y) ≤ base(x) + factor·z, all of it computed in
    `dtype`. The slack is several times what rounding can do: a sum of r products is
    off by r units in the last place of Σ|xₜyₜ| ≤ (‖x‖² + ‖y‖²)/2 at most. None where
    single precision is too coarse, or overflows.
    """
    kind = (recipe.part, recipe.finish)
    terms = max(_longest_row(X), _longest_row(Y))
    slack = (4 * terms + 64) * float(np.finfo(dtype).eps)
    tiny = (4 * terms + 64) * float(np.finfo(dtype).tiny)
    if recipe.part == "absolute":
        A, B = _packed_both(X, Y, dtype)
        quick = Recipe("absolute", "power", scale=-1.0, offset=0.0, degree=1)
        half, base, factor = np.zeros(B.shape[0]), np.full(A.shape[0], tiny), 1 + slack
    elif recipe.part == "square" or recipe.finish == "identity":
        A, B = _packed_both(*_both_centered(X, Y, dtype), dtype)
        quick = Recipe("product", "identity")
        across, down = (diag(quick, Z).astype(float) for Z in (A, B))
        half = (1 - slack) / 2 * down
        base, factor = tiny - (1 - slack) / 2 * across, 0.5
    else:
        if dtype == np.float32 and recipe.finish == "exp":
            return None  # an exponential of a product has no scale to judge it on
        A, B = _packed_both(X, Y, dtype)
        quick, slack = recipe, 2 * max(1, recipe.degree) * slack
        with np.errstate(over="ignore", invalid="ignore"):
            sizes = [slack * _largest_terms(recipe, Z) for Z in (A, B)]
            across, down = (diag(quick, Z).astype(float) / 2 for Z in (A, B))
            half, base, factor = down - sizes[1], tiny + sizes[0] - across, 0.5
    if dtype == np.float32:
        scale = np.abs(half).max(initial=0.0)
        coarse = slack > 2e-3 or (kind[0] != "absolute" and not 1e-20 < scale < 1e30)
        if coarse or not np.isfinite(base).all():
            return None
    elif slack > 0.1 or not (np.isfinite(half).all() and np.isfinite(base).all()):
        half, base = np.zeros_like(half), np.full_like(base, np.inf)  # rules out none
    return (
        native_recipe(quick),
        A._points,
        B._points,
        np.require(half, dtype, ["C", "A"]),
        base,
        factor,
    )


def _largest_terms(recipe: Recipe, X: Packed) -> np.ndarray:
    """What k(x, x) would be without any cancellation, by which its rounding is judged.

    For e^{cs} of a product s it is (1 + |c|s) e^{|c|s}: the rounding of s counts.
    """
    if recipe.finish == "exp":
        products = np.abs(recipe.scale) * diag(Recipe("product", "identity"), X)
        return (1 + products) * np.exp(products)
    size = Recipe(
        "product",
        "power",
        abs(recipe.scale),
        abs(recipe.offset),
        recipe.degree,
    )
    return diag(size, X).astype(float)


def _longest_row(X: Vectors) -> int:
    """How many terms a sum over the coordinates of a point may have."""
    if not scipy.sparse.issparse(X):
        return X.shape[1]
    return int(np.diff(X.tocsr().indptr).max(initial=0))


def _packed_both(X: Vectors, Y: Vectors, dtype: np.dtype) -> tuple[Packed, Packed]:
    A = Packed(X.astype(dtype, copy=False), only_core=True)
    return A, A if Y is X else Packed(Y.astype(dtype, copy=False), only_core=True)


def _both_centered(X: Vectors, Y: Vectors, dtype: np.dtype) -> tuple[Any, Any]:
    """Both sets, moved by one vector to the middle of Y where they are dense.

    A common offset would leave few digits of the differences to products.
    """
    if scipy.sparse.issparse(X) or scipy.sparse.issparse(Y):
        return X, Y
    with np.errstate(over="ignore", invalid="ignore"):
        mean = middle(Y)
        if mean is None or not np.isfinite(mean).all():
            return X, Y
        A = X.astype(dtype, copy=False) - mean.astype(dtype)
        return A, A if Y is X else Y.astype(dtype, copy=False) - mean.astype(dtype)


def pair_sums(part: str, X: Vectors, Y: Vectors, index: np.ndarray) -> np.ndarray:
    """Σₜ part(xᵢₜ, yⱼₜ) in float64 for the points j = index[i, c] of Y, (n, count).

    In a fixed order, that of `nearest`: the same on every processor, for dense and
    sparse points, wherever they stand.

    Parameters
    ----------
    part : "product", "square" or "absolute", as in `Recipe`
    X, Y : (n, d) and (m, d) arrays or CSR matrices
    index : (n, count) array of whole numbers
    """
    out = np.empty(index.shape)
    recipe = native_recipe(Recipe(part, "identity"))
    x, y, _ = _given_rows(X, Y)
    index = np.require(index, np.int64, ["C", "A"])
    dense = len(x) == 1
    sums: Any = _core.pair_sums if dense else _core.pair_sums_csr
    sums(recipe, *x, *y, *([] if dense else [X.shape[1]]), index, out)
    return out


class KdTree:
    """Points in boxes within boxes, for the nearest ones in few dimensions.

    Parameters
    ----------
    Y : (m, d) array of finite numbers, m and d > 0
    """

    __slots__ = ("_tree",)

    def __init__(self, Y: np.ndarray):
        self._tree = _core.kd_tree(*_dense_rows(Y, _precision(Y.dtype)))

    @property
    def shape(self) -> tuple[int, int]:
        return self._tree.shape

    def nearest(
        self, part: str, X: np.ndarray, count: int, own: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Keys and numbers of `nearest`, equal to its own, and the work it took.

        The work is how many nodes and leaves of the tree were looked at in all.

        Parameters
        ----------
        part : "square" or "absolute": the key is Σₜ (xₜ - yₜ)² or Σₜ |xₜ - yₜ|
        X : (n, d) array of finite numbers
        own : the n numbers of the x among the y, which are not their own neighbours
        """
        key, index = np.empty((len(X), count)), np.empty((len(X), count), np.int64)
        search: Any = self._tree.nearest
        work = search(
            native_recipe(Recipe(part, "identity")),
            *_dense_rows(X, _precision(X.dtype)),
            np.require(np.empty(0) if own is None else own, np.int64, ["C", "A"]),
            key,
            index,
        )
        return key, index, work


def exp(x: npt.ArrayLike) -> np.ndarray:
    """eˣ as the core computes it, in float32 or float64."""
    x = np.asarray(x)
    x = np.require(x, _precision(x.dtype), ["C", "A"])
    out = np.empty(x.shape, x.dtype)
    _core.exp(x.reshape(-1), out.reshape(-1))
    return out


def _precision(dtype: np.dtype) -> np.dtype:
    """float32 for float32, float64 for every other real dtype."""
    if dtype.kind not in "biuf":
        raise TypeError(f"Points are real numbers; got an array of dtype {dtype}.")
    return np.dtype(np.float32 if dtype.newbyteorder("=") == np.float32 else np.float64)


def _pair(
    X: Vectors | Packed, Y: Vectors | Packed | None, only_core: bool = False
) -> tuple[Packed, Packed | None]:
    """Both packed, of one dimension and one precision."""
    X = X if isinstance(X, Packed) else Packed(X, only_core=only_core)
    if Y is None:
        return X, None
    Y = Y if isinstance(Y, Packed) else Packed(Y, only_core=only_core)
    _check_columns(X, Y)
    if X.dtype != Y.dtype:
        X = X if X.dtype == np.float64 else X._widened()
        Y = Y if Y.dtype == np.float64 else Y._widened()
    return X, Y


def _check_columns(X: Vectors | Packed, Y: Vectors | Packed) -> None:
    if X.shape[1] != Y.shape[1]:
        raise ValueError(
            f"X and Y need equally many columns; got X of shape {X.shape} "
            f"and Y of shape {Y.shape}."
        )


def _room(out: np.ndarray | None, n: int, m: int, dtype: np.dtype) -> np.ndarray:
    """out, checked, or a new (n, m) array."""
    if out is None:
        return np.empty((n, m), dtype)
    shape = (n, m)
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != dtype:
        raise ValueError(
            f"out must be an array of shape {shape} and dtype {dtype}; got "
            f"{getattr(out, 'shape', type(out).__name__)} {getattr(out, 'dtype', '')}."
        )
    if not out.flags.c_contiguous or not out.flags.writeable or not out.flags.aligned:
        raise ValueError("out must be C-contiguous, aligned and writeable.")
    return out


_PRODUCT = os.environ.get("MERCER_PRODUCT", "") or "auto"
if _PRODUCT not in ("own", "blas", "auto"):
    raise ValueError(f"MERCER_PRODUCT is own, blas or auto; got {_PRODUCT!r}.")


def _blas_may_serve() -> bool:
    """Whether dense points are multiplied by a BLAS, on request only.

    What a BLAS makes of a row hangs on the rows beside it, on addresses and on the
    processor; our own sums do not, and are the same for sparse points.
    """
    return _PRODUCT == "blas"


# Where nothing but products of long dense points is asked for, there is nothing to gain
# over a BLAS, and at d = 784 it was a tenth faster. A sample of rows tells zeros, which
# our sweeps skip.
_BLAS_ALONE_FROM = 256
_DENSE_FROM = 1 / 3


def _is_plain_product(
    recipe: Recipe, X: Vectors | Packed, Y: Vectors | Packed | None
) -> bool:
    if (recipe.part, recipe.finish) != ("product", "identity") or _PRODUCT == "own":
        return False
    sets = [X] if Y is None else [X, Y]
    return all(
        type(Z) is np.ndarray
        and Z.ndim == 2
        and Z.dtype in (np.float32, np.float64)
        and Z.dtype == X.dtype
        and Z.shape[1] == X.shape[1] >= _BLAS_ALONE_FROM
        and _density(Z) > _DENSE_FROM
        for Z in sets
    )


def _density(X: np.ndarray, rows: int = 256) -> float:
    sample = X[:: max(1, len(X) // rows)]
    return np.count_nonzero(sample) / max(sample.size, 1)


_SIDE = 2048  # rows of a product at a time, so that Ctrl-C is handled in between


def _plain_product(
    recipe: Recipe, X: Vectors, Y: Vectors | None, out: np.ndarray | None
) -> np.ndarray:
    """X Yᵀ; where Y is None symmetric bit for bit, with the diagonal of `diag`."""
    out = _room(out, len(X), len(X if Y is None else Y), X.dtype)
    for i in range(0, len(X), _SIDE):
        rows = slice(i, i + _SIDE)
        if Y is not None:
            np.matmul(X[rows], Y.T, out=out[rows])
            continue
        # Tiles on and above the diagonal, each written twice: a BLAS need not round
        # (i, j) and (j, i) alike.
        for j in range(i, len(X), _SIDE):
            columns = slice(j, j + _SIDE)
            tile = multiply(X[rows], X[columns].T)
            if i == j:
                tile = np.triu(tile) + np.triu(tile, 1).T
            out[rows, columns] = tile
            out[columns, rows] = tile.T
    if Y is None:
        np.fill_diagonal(out, diag(recipe, X))
    return out


def _multiply(recipe: Recipe, X: Packed, Y: Packed, out: np.ndarray) -> bool:
    """Write ⟨xᵢ, yⱼ⟩ to out by a BLAS, if that is chosen and all the recipe needs."""
    if X._dense is None or Y._dense is None:
        return False
    if recipe.part == "square":
        if _core.direct(native_recipe(recipe), X._points, Y._points):
            return False
    elif recipe.part != "product":
        return False
    if not _core.gemm(_gemm(X.dtype.char), X._dense, Y._dense, out):
        np.matmul(X._dense, Y._dense.T, out=out)
    return True


@lru_cache(maxsize=2)
def _gemm(char: str) -> Any:
    """The capsule of scipy's own sgemm or dgemm, or None."""
    import scipy.linalg.cython_blas  # slow, and most processes never get here

    names = getattr(scipy.linalg.cython_blas, "__pyx_capi__", {})
    return names.get({"f": "sgemm", "d": "dgemm"}[char])
