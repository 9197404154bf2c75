"""LAPACK on large symmetric matrices, which Ctrl-C interrupts.

scipy's own functions keep Python's lock, so that not even another thread runs while
they do. The same routines are called here by their pointers (`cython_lapack` and
`cython_blas`), which gives the lock up, and as `interruptible`. Small matrices go the
usual way, which costs less; so do all where a scipy has routines of another kind.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import blas, lapack

from mercer.native.interruptible import LONG, elementwise, interruptible

# The arguments of each routine: c a letter, i an int, d a double, s a float, all of
# them by pointers.
_ARGUMENTS = {
    "dlatrd": "c iidi ddd i",
    "dsyr2k": "cc ii d di di d di",
    "dsytd2": "c idi ddd i",
    "dstemr": "cc idd ddii idd iii i di ii i",
    "dstevr": "cc idd ddiid idd ii di ii i",
    "dormtr": "ccc ii di d di di i",
    "dpotrf": "c idi i",
    "spotrf": "c isi i",
    "dpotri": "c idi i",
    "dpotrs": "c iid id ii",
    "dpocon": "c idi ddd ii",
    "dtpqrt": "iiii di di di d i",
    "dtrtri": "cc idi i",
    "dtrtrs": "ccc iid id ii",
    "dsymm": "cc ii d di di d di",
}
_EIGEN = ("dlatrd", "dsyr2k", "dsytd2", "dstevr", "dormtr")
_BLAS = ("dsymm", "dsyr2k")

PANEL = 32  # columns that are brought to tridiagonal form together, as LAPACK does
SHORT = 1e6  # multiplications for which another thread gives up Python's lock
COLUMNS = 256  # eigenvectors of T that are turned together


def eigh(
    A: np.ndarray,
    *,
    subset_by_index: Sequence[int] | None = None,
    eigvals_only: bool = False,
) -> Any:
    """Eigenvalues of a symmetric A in ascending order, and vectors, as scipy's eigh.

    A = Q T Qᵀ with a tridiagonal T, and the eigenvectors of A are Q times those of T.
    These are the steps of LAPACK's dsyevr, a piece at a time: what an interrupt leaves
    behind is soon over. But for some of the vectors of T that takes inverse iteration,
    which makes all of them orthogonal to each other; the relatively robust
    representations it has for all of them do without, and so for some.
    """
    n = len(A)
    large = float(n) ** 3 >= LONG and A.dtype == np.float64
    if not large or not all(map(_routine, _EIGEN)):
        return scipy.linalg.eigh(
            A, subset_by_index=subset_by_index, eigvals_only=eigvals_only
        )
    own = elementwise(partial(np.array, order="F"), A)
    largest = elementwise(lambda A: np.abs(A).max(initial=0.0), own)
    if not np.isfinite(largest):
        raise ValueError("array must not contain infs or NaNs")
    # Squares of the numbers must be numbers; a power of two rounds nothing.
    scale = 2.0 ** np.frexp(largest)[1] if not 1e-70 < largest < 1e70 else 1.0
    if scale != 1 and largest:
        own = elementwise(lambda A: A / scale, own)
    d, e, tau = _tridiagonal(own)
    values, vectors = _of_tridiagonal(d, e, subset_by_index, not eigvals_only)
    if eigvals_only:
        return values * scale
    _rotate(own, tau, vectors)
    return values * scale, vectors


def _tridiagonal(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The diagonal of T, the entries beside it, and the factors of Q, A = Q T Qᵀ.

    A is overwritten by the reflections that make up Q, `PANEL` columns at a time.
    """
    n, first = len(A), 0
    beside, tau, info = np.empty(n), np.empty(n), ctypes.c_int()
    W = np.empty((n, PANEL), order="F")
    reduce, update, finish = (_routine(name) for name in _EIGEN[:3])
    assert reduce and update and finish
    while (m := n - first) > PANEL:
        A1, last, work = A[first:, first:], first + PANEL, 4.0 * PANEL * m * m
        interruptible(
            reduce, "L", m, PANEL, A1, n, beside[first:], tau[first:], W, n, work=work
        )
        m, A1 = m - PANEL, A[last:, first:]  # A1 W' + W A1' is taken from the rest
        interruptible(
            update, "L", "N", m, PANEL, -1.0, A1, n, W[PANEL:], n, 1.0,
            A[last:, last:], n, work=work,
        )  # fmt: skip
        first = last
    rest = np.empty(m)
    finish("L", m, A[first:, first:], n, rest, beside[first:], tau[first:], info)
    return A.diagonal().copy(), beside, tau


def _of_tridiagonal(
    d: np.ndarray, e: np.ndarray, subset_by_index: Sequence[int] | None, wanted: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of T, ascending, and its vectors if they are wanted."""
    n, routine = len(d), _routine("dstevr")
    assert routine
    low, high = (0, n - 1) if subset_by_index is None else subset_by_index
    count = int(high - low + 1)
    found, info = ctypes.c_int(), ctypes.c_int()
    values = np.empty(n)
    vectors = np.empty((n, count if wanted else 1), order="F")
    support = np.empty(2 * n, dtype=np.intc)
    room, rooms = np.empty(20 * n), np.empty(10 * n, dtype=np.intc)
    robust = _routine("dstemr")
    if wanted and robust:
        # It overwrites the numbers of T, which the other way needs should it fail.
        interruptible(
            robust, "V", "I", n, d.copy(), e.copy(), 0.0, 0.0, int(low) + 1,
            int(high) + 1, found, values, vectors, n, count, support, ctypes.c_int(1),
            room, len(room), rooms, len(rooms), info, work=float(n) ** 3,
        )  # fmt: skip
        if not info.value and found.value == count:
            return values[:count], vectors
    interruptible(
        routine, "V" if wanted else "N",
        "A" if subset_by_index is None else "I", n, d, e, 0.0, 0.0, int(low) + 1,
        int(high) + 1, 0.0, found, values, vectors, n, support, room, len(room), rooms,
        len(rooms), info, work=float(n) ** 3,
    )  # fmt: skip
    if info.value or found.value != count:
        raise np.linalg.LinAlgError(
            f"LAPACK's dstevr found {found.value} of {count} eigenvalues (info="
            f"{info.value})."
        )
    return values[:count], vectors


def _rotate(A: np.ndarray, tau: np.ndarray, V: np.ndarray) -> None:
    """Overwrite V by Q V, some columns at a time; `_tridiagonal` left Q in A."""
    n, info, routine = len(A), ctypes.c_int(), _routine("dormtr")
    assert routine
    room = np.empty(COLUMNS * 64)
    for first in range(0, V.shape[1], COLUMNS):
        part = V[:, first : first + COLUMNS]
        m = part.shape[1]
        interruptible(
            routine, "L", "L", "N", n, m, A, n, tau, part, n, room, len(room), info,
            work=float(n) * n * m,
        )  # fmt: skip


def eigvalsh(A: np.ndarray) -> np.ndarray:
    """The eigenvalues of a symmetric A in ascending order."""
    return eigh(A, eigvals_only=True)


# A = RᵀR, in column-major (n, n) arrays of float64, for `factor` and `solve` float32
# too; R is in the upper triangle of A


def factor(A: np.ndarray) -> bool:
    """Overwrite the upper triangle of A by R; whether A is positive definite."""
    if not A.flags.f_contiguous:  # LAPACK would be given a copy, and A stay as it is
        raise ValueError("A factor is written to a column-major array.")
    n, info = len(A), ctypes.c_int()
    single = A.dtype == np.float32
    routine = _large("spotrf" if single else "dpotrf", A, n**3 / 3)
    if routine is None:
        call = lapack.spotrf if single else lapack.dpotrf
        return not call(A, clean=0, overwrite_a=1)[1]
    interruptible(routine, "U", n, A, n, info, work=n**3 / 3)
    return not info.value


def solve(R: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A⁻¹ B, by the R of A."""
    n, work = len(R), float(R.size) * (B.shape[1] if B.ndim > 1 else 1)
    routine = _large("dpotrs", R, work)
    single = R.dtype == np.float32
    if routine is None and n and B.ndim == 1 and R.dtype == B.dtype:
        trsv = blas.strsv if single else blas.dtrsv
        return trsv(R, trsv(R, B, trans=1))  # a third of the time
    if routine is None:
        return (lapack.spotrs if single else lapack.dpotrs)(R, B)[0]
    X, info = np.array(B, dtype=float, order="F"), ctypes.c_int()
    columns = X.shape[1] if X.ndim > 1 else 1
    interruptible(routine, "U", n, columns, R, n, X, n, info, work=work)
    return X


def bordered(R: np.ndarray, B: np.ndarray, D: np.ndarray) -> np.ndarray | None:
    """The factor of [[A, B], [Bᵀ, D]] by the R of A; None if that is not definite."""
    n, m = B.shape
    larger = np.zeros((n + m, n + m), order="F")
    larger[:n, :n] = R
    half = scipy.linalg.solve_triangular(R, B, trans="T") if n else B
    larger[:n, n:] = half
    rest = np.asfortranarray(D - half.T @ half)
    if not factor(rest):
        return None
    larger[n:, n:] = np.triu(rest)
    return larger


def dropped(R: np.ndarray, place: int) -> np.ndarray:
    """The factor of A without a row and its column, by the R of A, zero below it.

    What is below and right of them, R₂, becomes the triangle of [R₂; r], r the row.
    """
    n, m = len(R), len(R) - 1 - place
    smaller = np.zeros((n - 1, n - 1), order="F")
    smaller[:place, :place] = R[:place, :place]
    smaller[:place, place:] = R[:place, place + 1 :]
    tail = smaller[place:, place:]
    routine = _routine("dtpqrt") if R.dtype == np.float64 else None
    if m and routine:
        tail[:] = R[place + 1 :, place + 1 :]
        row, width, info = R[place, place + 1 :].copy(), min(PANEL, m), ctypes.c_int()
        T, room = np.empty((width, m), order="F"), np.empty(width * m)
        interruptible(
            routine, 1, m, 0, width, tail, n - 1, row, 1, T, width, room, info,
            work=4.0 * m * m,
        )  # fmt: skip
    elif m:
        # Rotations of the triangle with the row above it.
        found = scipy.linalg.qr_delete(
            np.eye(n - place), np.array(R[place:, place:]), 0, which="col"
        )[1]
        tail[:] = found[:-1]
    negative = np.flatnonzero(tail.diagonal() < 0)
    tail[negative] *= -1.0
    return smaller


def invert(R: np.ndarray) -> None:
    """Overwrite the triangle R by its inverse."""
    n, info = len(R), ctypes.c_int()
    routine = _large("dtrtri", R, n**3 / 3)
    if routine is None:
        lapack.dtrtri(R, overwrite_c=1)
    else:
        interruptible(routine, "U", "N", n, R, n, info, work=n**3 / 3)


def invert_positive(R: np.ndarray) -> None:
    """Overwrite the upper triangle R of A = RᵀR by that of A⁻¹."""
    n, info = len(R), ctypes.c_int()
    work = 2 * n**3 / 3
    routine = _large("dpotri", R, work)
    if routine is None:
        R[:] = lapack.dpotri(R, overwrite_c=1)[0]
    else:
        interruptible(routine, "U", n, R, n, info, work=work)


def condition(R: np.ndarray, norm: float) -> float:
    """1 / (‖A‖ ‖A⁻¹‖) in the 1-norm, about; `norm` is ‖A‖."""
    n, info = len(R), ctypes.c_int()
    work = 10.0 * n * n
    routine = _large("dpocon", R, work)
    if routine is None:
        return float(lapack.dpocon(R, norm)[0])
    found, room, rooms = ctypes.c_double(), np.empty(3 * n), np.empty(n, np.intc)
    interruptible(
        routine, "U", n, R, n, float(norm), found, room, rooms, info, work=work
    )
    return found.value


def half(L: np.ndarray, B: np.ndarray, *, transposed: bool = False) -> np.ndarray:
    """L⁻¹ B or L⁻ᵀ B of a lower triangle L."""
    n, work = len(L), float(L.size) * (B.shape[1] if B.ndim > 1 else 1) / 2
    routine = _large("dtrtrs", L, work)
    if routine is None:
        return lapack.dtrtrs(L, B, lower=1, trans=int(transposed))[0]
    X, info = np.array(B, dtype=float, order="F"), ctypes.c_int()
    columns, way = X.shape[1] if X.ndim > 1 else 1, "T" if transposed else "N"
    interruptible(routine, "L", way, "N", n, columns, L, n, X, n, info, work=work)
    return X


def symmetric_product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A B of a symmetric A of which the lower triangle is there; B has 2 dimensions."""
    n, work = len(A), float(A.size) * B.shape[1]
    routine = _large("dsymm", A, work)
    if routine is None:
        return blas.dsymm(1.0, A, B, lower=1)
    B = np.asfortranarray(B, dtype=float)
    C, m = np.empty(B.shape, order="F"), B.shape[1]
    interruptible(routine, "L", "L", n, m, 1.0, A, n, B, n, 0.0, C, n, work=work)
    return C


def _large(name: str, A: np.ndarray, work: float) -> Callable[..., None] | None:
    """The routine without Python's lock, for long work on an A of its layout."""
    # Other threads than the main one gain by it as soon as they work side by side.
    alone = threading.current_thread() is threading.main_thread()
    least = LONG if alone else SHORT
    kind = np.float32 if name.startswith("s") else np.float64
    if work < least or A.dtype != kind or not A.flags.f_contiguous:
        return None
    return _routine(name)


@cache
def _routine(name: str) -> Callable[..., None] | None:
    """LAPACK's routine of a name, without Python's lock; None if it is another one."""
    import scipy.linalg.cython_blas  # slow, and small problems do not need them
    import scipy.linalg.cython_lapack

    module = getattr(scipy.linalg, "cython_blas" if name in _BLAS else "cython_lapack")
    capsule = getattr(module, "__pyx_capi__", {}).get(name)
    kinds = _ARGUMENTS[name].replace(" ", "")
    words = {"c": "char *", "i": "int *", "d": "d *", "s": "s *"}
    wanted = f"void ({', '.join(words[kind] for kind in kinds)})"
    signature = _capsule_name(capsule) if capsule is not None else b""
    if re.sub(r"__pyx_t_\w+_([ds])\b", r"\1", (signature or b"").decode()) != wanted:
        return None
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(kinds))
    pointer = prototype(_capsule_pointer(capsule, signature))

    def call(*args: Any) -> None:
        held = [_by_pointer(arg) for arg in args]
        pointer(*[ctypes.cast(arg, ctypes.c_void_p) for arg in held])

    return call


def _by_pointer(arg: Any) -> Any:
    if isinstance(arg, np.ndarray):
        return ctypes.c_void_p(arg.ctypes.data)
    if isinstance(arg, str):
        return ctypes.c_char_p(arg.encode())
    if isinstance(arg, int):
        arg = ctypes.c_int(arg)
    elif isinstance(arg, float):
        arg = ctypes.c_double(arg)
    return ctypes.pointer(arg)


_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
