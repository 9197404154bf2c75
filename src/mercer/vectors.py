"""Kernels on vectors by the native core: blocks of k(X, Y), computed and not stored.

A kernel the core knows is a `Recipe`, finish(Σₜ part(xₜ, yₜ)). Points are dense arrays
or CSR matrices, or `Packed` once for many calls. Blocks of two float32 sets of points
are float32, all others float64.

The environment is read at import: MERCER_ISA (baseline, avx2, avx512) forces an
instruction set, MERCER_PRODUCT (own, blas, auto) says who multiplies dense matrices,
MERCER_NUM_THREADS how many threads may work.
"""

import os
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.sparse

import mercer.pools  # noqa: F401  (threadpoolctl gets to know our threads)
from mercer import _core

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

    def __post_init__(self):
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

    def __init__(self, X, *, only_core: bool = False):
        self.sparse = scipy.sparse.issparse(X)
        self._dense = None
        if self.sparse:
            X = X.tocsr()
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
            self._points = _core.pack(X)
            if not only_core and _blas_may_serve(X.shape[1]):
                self._dense = X.copy() if X is given else X

    @property
    def shape(self) -> tuple[int, int]:
        return self._points.shape

    @property
    def nbytes(self) -> int:
        return self._points.nbytes

    def __repr__(self):
        kind = "sparse" if self.sparse else "dense"
        return f"<Packed {kind} {self.shape} {self.dtype}>"

    def _widened(self):
        """The same points in float64."""
        wide = object.__new__(Packed)
        wide.sparse = self.sparse
        wide.dtype = np.dtype(np.float64)
        wide._dense = None if self._dense is None else self._dense.astype(np.float64)
        wide._points = _core.widen(self._points)
        return wide


def block(recipe: Recipe, X, Y=None, *, out=None) -> np.ndarray:
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


def product(recipe: Recipe, X, Y, V) -> np.ndarray:
    """block(recipe, X, Y) @ V in float64, without ever storing the block.

    Parameters
    ----------
    X, Y : (n, d) and (m, d) arrays, CSR matrices or `Packed`
    V : (m,) or (m, q) array
    """
    X, Y = _pair(X, Y)
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


def originals(X) -> _core.Originals:
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


def symmetric_product(recipe: Recipe, X, v) -> np.ndarray:
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


def add_both_ways(tile, v_rows, v_columns, of_rows, of_columns) -> None:
    """of_rows += tile @ v_columns and of_columns += tile.T @ v_rows, in one reading.

    Parameters
    ----------
    tile : (n, m) array with contiguous rows, a part of a symmetric matrix
    v_rows, v_columns : (n, q) and (m, q) arrays of the dtype of the tile
    of_rows, of_columns : float64 arrays of these shapes; of_columns may be None
    """
    _core.both_ways(tile, v_rows, v_columns, of_rows, of_columns)


def centered(X, part: str, dtype):
    """X, moved to the middle: unseen by the kernel, but not by single precision.

    A common offset takes digits away from the differences. Points of many zeros keep
    them, unless it is large.
    """
    shifts = dtype == np.float32 and part in ("square", "absolute")
    if not shifts or scipy.sparse.issparse(X) or not len(X):
        return X
    some = X[:: max(1, len(X) // 256)]  # any point near the middle will do
    mean = some.mean(axis=0, dtype=float)
    zeros = 3 * np.count_nonzero(some) < some.size
    spread = 8 if zeros or X.shape[1] <= SHORT else 0.1
    if np.abs(mean).max(initial=0.0) <= spread * some.std(dtype=float):
        return X
    return X - mean.astype(X.dtype, copy=False)


def diag(recipe: Recipe, X) -> np.ndarray:
    """k(xᵢ, xᵢ) for every point of X, (n,)."""
    X = X if isinstance(X, Packed) else Packed(X)
    out = np.empty(X.shape[0], X.dtype)
    _core.diag(native_recipe(recipe), X._points, out)
    return out


def nearest(recipe: Recipe, X, Y, half, count: int, own=None):
    """Of each x the `count` points y with the least half(y) - k(x, y): scores, numbers.

    From the least on, equal ones in the order of their numbers; two (n, count) arrays.

    Parameters
    ----------
    X, Y : (n, d) and (m, d) arrays, CSR matrices or `Packed`
    half : (m,) array; with k(y, y) / 2 the scores have the order of the distances
    own : the n numbers of the x among the y, which are not their own neighbours
    """
    X, Y = _pair(X, Y)
    own = np.empty(0) if own is None else own
    score = np.empty((X.shape[0], count))
    index = np.empty((X.shape[0], count), np.int64)
    _core.nearest(
        native_recipe(recipe),
        X._points,
        Y._points,
        np.require(half, X.dtype, ["C", "A"]),
        np.require(own, np.int64, ["C", "A"]),
        score,
        index,
    )
    return score, index


def pair_sums(part: str, X, Y, index) -> np.ndarray:
    """Σₜ part(xᵢₜ, yⱼₜ) in float64 for the points j = index[i, c] of Y, (n, count).

    Equal points give equal sums, wherever they stand.

    Parameters
    ----------
    part : "product", "square" or "absolute", as in `Recipe`
    X, Y : (n, d) and (m, d) arrays or CSR matrices
    index : (n, count) array of whole numbers
    """
    out = np.empty(index.shape)
    if scipy.sparse.issparse(X) or scipy.sparse.issparse(Y):
        A, B = (scipy.sparse.csr_array(Z, dtype=np.float64) for Z in (X, Y))
        for c in range(index.shape[1]):
            out[:, c] = _sparse_sums(part, A, B[index[:, c]])
        return out
    dtype = np.result_type(_precision(X.dtype), _precision(Y.dtype))
    X, Y = (np.require(Z, dtype, ["C", "A"]) for Z in (X, Y))
    recipe = native_recipe(Recipe(part, "identity"))
    _core.pair_sums(recipe, X, Y, np.require(index, np.int64, ["C", "A"]), out)
    return out


def _sparse_sums(part: str, A, B) -> np.ndarray:
    """Σₜ part(aₜ, bₜ) row by row."""
    if part == "product":
        return np.asarray(A.multiply(B).sum(axis=1)).ravel()
    difference = abs(A - B)
    terms = difference if part == "absolute" else difference.multiply(difference)
    return np.asarray(terms.sum(axis=1)).ravel()


def exp(x) -> np.ndarray:
    """eˣ as the core computes it, in float32 or float64."""
    x = np.asarray(x)
    x = np.require(x, _precision(x.dtype), ["C", "A"])
    out = np.empty(x.shape, x.dtype)
    _core.exp(x.reshape(-1), out.reshape(-1))
    return out


def threads() -> int:
    """How many threads a computation may use."""
    return _core.threads()


def set_threads(n: int) -> None:
    """Let computations use n threads."""
    if n < 1:
        raise ValueError(f"set_threads needs n >= 1; got n={n!r}.")
    _core.set_threads(n)


def instruction_set() -> str:
    """The instruction set in use: "baseline", "avx2" or "avx512"."""
    return _core.instruction_set()


def _precision(dtype: np.dtype) -> np.dtype:
    """float32 for float32, float64 for every other real dtype."""
    if dtype.kind not in "biuf":
        raise TypeError(f"Points are real numbers; got an array of dtype {dtype}.")
    return np.dtype(np.float32 if dtype.newbyteorder("=") == np.float32 else np.float64)


def _pair(X, Y) -> tuple[Packed, Packed | None]:
    """Both packed, of one dimension and one precision."""
    X = X if isinstance(X, Packed) else Packed(X)
    if Y is None:
        return X, None
    Y = Y if isinstance(Y, Packed) else Packed(Y)
    if X.shape[1] != Y.shape[1]:
        raise ValueError(
            f"X and Y need equally many columns; got X of shape {X.shape} "
            f"and Y of shape {Y.shape}."
        )
    if X.dtype != Y.dtype:
        X = X if X.dtype == np.float64 else X._widened()
        Y = Y if Y.dtype == np.float64 else Y._widened()
    return X, Y


def _room(out, n: int, m: int, dtype) -> np.ndarray:
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

# One thread each, AVX2: our tiles were faster than scipy's BLAS up to d = 123 and equal
# within 2 % at d = 784. Our baseline tiles were slower from here on, as a BLAS chooses
# its own instructions. AVX-512 is not measured.
_BLAS_FROM = 32


def _blas_may_serve(d: int) -> bool:
    if _PRODUCT == "auto":
        return instruction_set() == "baseline" and d >= _BLAS_FROM
    return _PRODUCT == "blas"


# Where nothing but products of long dense points is asked for, there is nothing to gain
# over a BLAS, and at d = 784 it was a tenth faster. A sample of rows tells zeros, which
# our sweeps skip.
_BLAS_ALONE_FROM = 256
_DENSE_FROM = 1 / 3


def _is_plain_product(recipe: Recipe, X, Y) -> bool:
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


def _plain_product(recipe: Recipe, X, Y, out) -> np.ndarray:
    """X Yᵀ; where Y is None symmetric bit for bit, with the diagonal of `diag`."""
    out = _room(out, len(X), len(X if Y is None else Y), X.dtype)
    if Y is None:
        np.matmul(X, X.T, out=out)
        np.fill_diagonal(out, diag(recipe, X))
        return out
    for i in range(0, len(X), 4096):  # so that Ctrl-C is heard in between
        np.matmul(X[i : i + 4096], Y.T, out=out[i : i + 4096])
    return out


def _multiply(recipe: Recipe, X: Packed, Y: Packed, out) -> bool:
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
def _gemm(char: str):
    """The capsule of scipy's own sgemm or dgemm, or None."""
    import scipy.linalg.cython_blas  # slow, and most processes never get here

    names = getattr(scipy.linalg.cython_blas, "__pyx_capi__", {})
    return names.get({"f": "sgemm", "d": "dgemm"}[char])
