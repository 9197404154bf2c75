"""M W and MᵀV of many numbers that are held, M (n, p), and few columns; MᵀM.

Such products take the time in which M is read. Every thread reads blocks of rows that
stay near the processor, so that both products of a block read it from memory once.
Numbers in float32 are multiplied as they are: columns of W and V are brought to about 1
for that, and sums over blocks are in float64. Of two columns and more the core reads M
as it is, which a BLAS copies.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer import _core
from mercer.native import memory
from mercer.native.interruptible import multiply, summed
from mercer.native.threads import instruction_set, threads

BLOCK_MB = 2.0  # of float64 numbers that stay near the processor while they are read
FEW = 2**20  # numbers that are read in less time than threads take to begin
MOST = 32  # columns up to which reading M takes the time, not multiplying
STAGE = "products with kernel values"

Between = Callable[[np.ndarray, slice], np.ndarray]


def suits(M: np.ndarray, columns: int) -> bool:
    """Whether a product of M with so many columns gains by it."""
    return columns <= MOST and M.size > FEW and M.flags.c_contiguous


def times(M: np.ndarray, W: np.ndarray) -> np.ndarray:
    """M W, (n,) or (n, q), in float64."""
    columns = W if W.ndim == 2 else W[:, None]
    narrow, size = _as_in(M, columns)
    if M.size <= FEW:
        out = multiply(M, narrow) * size
        return out.reshape(len(M), *W.shape[1:])
    out = np.empty((len(M), columns.shape[1]))

    def multiplied(rows: slice) -> tuple[()]:
        np.multiply(_rows_times(M[rows], narrow), size, out=out[rows])
        return ()

    summed(multiplied, _blocks(M), STAGE)
    return out.reshape(len(M), *W.shape[1:])


def pull(M: np.ndarray, V: np.ndarray) -> np.ndarray:
    """MᵀV, (p,) or (p, q), in float64."""
    columns = V if V.ndim == 2 else V[:, None]

    def multiplied(rows: slice) -> tuple[np.ndarray]:
        return (_pulled(M[rows], columns[rows], near=False),)

    sums = _sum(M, multiplied, columns.shape[1])
    return np.ascontiguousarray(sums.T).reshape(M.shape[1], *V.shape[1:])


def pull_rows(part: np.ndarray, V: np.ndarray) -> np.ndarray:
    """MᵀV of some rows, (p, q), by the thread that calls it."""
    return np.ascontiguousarray(_pulled(part, V).T)


def round_trip(
    M: np.ndarray, W: np.ndarray, between: Between
) -> tuple[np.ndarray, np.ndarray]:
    """V = between(M W) and MᵀV in float64, of (p, q) arrays W.

    Parameters
    ----------
    between : function of some rows of M W and the slice they are, to be used by several
        threads
    """
    V = np.empty((len(M), W.shape[1]))
    narrow, size = _as_in(M, W)

    def multiplied(rows: slice) -> tuple[np.ndarray]:
        part = M[rows]
        V[rows] = between(_rows_times(part, narrow) * size, rows)
        return (_pulled(part, V[rows]),)

    sums = _sum(M, multiplied, W.shape[1])
    return V, np.ascontiguousarray(sums.T)


def squares(
    M: np.ndarray, h: np.ndarray | None = None, *, spare: bool = False
) -> np.ndarray:
    """MᵀM or Mᵀ diag(h) M, (p, p), by the thread that calls it.

    Parameters
    ----------
    h : of either sign
    spare : whether M may be written to
    """
    if not core_squares():
        return _blas_squares(M, h, spare)
    sums = np.zeros((M.shape[1],) * 2)
    add_squares(M, h, sums)
    return mirrored(sums)


def add_squares(
    M: np.ndarray, h: np.ndarray | None, sums: np.ndarray, *, spare: bool = False
) -> None:
    """Add `squares` to float64 sums, on and below the diagonal.

    What is above it means nothing until `mirrored` has made a matrix of the sums.
    """
    if core_squares():
        narrow = None if h is None else np.require(h, M.dtype, ["C", "A"])
        _core.tall_squares(np.ascontiguousarray(M), narrow, sums)
    else:
        sums += _blas_squares(M, h, spare)


def core_squares() -> bool:
    """Whether the core multiplies M with itself, as quickly for a few rows at a time.

    OpenBLAS does not use AVX-512 on every processor that has it. With AVX2 it is as
    quick as the core, and with less it is quicker.
    """
    return instruction_set() == "avx512"


def mirrored(sums: np.ndarray) -> np.ndarray:
    """The symmetric matrix that has these numbers on and below its diagonal."""
    return np.tril(sums) + np.tril(sums, -1).T


def _blas_squares(M: np.ndarray, h: np.ndarray | None, spare: bool) -> np.ndarray:
    if h is not None and np.any(h < 0):
        return multiply((h[:, None] * M).T, M)
    if h is not None:
        M = np.multiply(M, np.sqrt(h)[:, None], out=M if spare else None)
    return multiply(M.T, M)  # half the work, of M with itself


def even_blocks(n: int, most: int) -> list[slice]:
    """n rows in blocks of about one size, at most `most`, as many for each thread."""
    each = threads()
    many = -(-n // (most * each)) * each
    step = max(1, -(-n // max(1, many)))
    return [slice(begin, min(begin + step, n)) for begin in range(0, n, step)]


def sizes(V: np.ndarray) -> np.ndarray:
    """The largest number of each column: single precision has a small range."""
    found = np.abs(V).max(axis=0, initial=0.0)
    return np.where((found > 0) & np.isfinite(found), found, 1.0)


def _blocks(M: np.ndarray) -> list[slice]:
    room = int(memory.block_mb(BLOCK_MB) * 2**17)
    return even_blocks(len(M), max(64, room // max(1, M.shape[1])))


def _as_in(M: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
    """W in the precision of M, and what its columns were divided by for that."""
    if M.dtype != np.float32:
        return W, 1.0
    size = sizes(W)
    return (W / size).astype(np.float32), size


def _rows_times(part: np.ndarray, W: np.ndarray) -> np.ndarray:
    """part W of some rows."""
    if not _is_for_core(part, W):
        return part @ W
    out = np.empty((len(part), W.shape[1]))
    _core.tall_times(part, np.ascontiguousarray(W), out)
    return out


def _pulled(part: np.ndarray, V: np.ndarray, near: bool = True) -> np.ndarray:
    """(partᵀV)ᵀ, in the order in which BLAS is quick.

    Parameters
    ----------
    near : whether the rows have just been read: the core goes over them by columns
    """
    narrow, size = _as_in(part, V)
    if not (near and _is_for_core(part, narrow)):
        return (narrow.T @ part) * np.reshape(size, (-1, 1))
    sums = np.zeros((narrow.shape[1], part.shape[1]))
    _core.tall_pull(part, np.ascontiguousarray(narrow), sums)
    return sums * np.reshape(size, (-1, 1))


def _is_for_core(part: np.ndarray, W: np.ndarray) -> bool:
    """Whether the core multiplies these: a single column a BLAS reads once, too."""
    known = part.dtype in (np.float32, np.float64) and part.dtype == W.dtype
    return known and part.flags.c_contiguous and 1 < W.shape[1] <= MOST


def _sum(
    M: np.ndarray, call: Callable[[slice], tuple[np.ndarray]], columns: int
) -> np.ndarray:
    blocks = _blocks(M)
    if not blocks:
        return np.zeros((columns, M.shape[1]))
    return summed(call, blocks, STAGE, many=M.size > FEW)[0]
