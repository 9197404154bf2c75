"""Sparse matrices that are what they say, checked before anything reads them.

The routines of scipy and of the core trust `indptr` and `indices`: with one wrong entry
they read memory that is not the matrix's. Each check here is one pass over the arrays.
"""

from __future__ import annotations

import copy
from numbers import Number
from typing import Any

import numpy as np

from mercer.native.sorting import distinct

Sparse = Any  # a sparse matrix or array of scipy, in any of its formats
Vectors = Any  # an (n, d) array or CSR matrix

WAY_OUT = "Build it anew from its entries: sp.csr_array((data, (row, column)), shape)."


def as_csr(X: Sparse) -> Sparse:
    """X as CSR, the same object where it is one; refused where it is damaged.

    Room behind the last entry is left out, as some routines of scipy read it too;
    numbers of a type that scipy does not work with are converted.
    """
    check(X)
    X = _with_numbers_of_scipy(X)
    if X.format != "csr":
        return (X.tocoo() if X.format == "dok" else X).tocsr()
    stored = int(X.indptr[-1])
    if len(X.data) == stored:
        return X
    return type(X)((X.data[:stored], X.indices[:stored], X.indptr), shape=X.shape)


def _with_numbers_of_scipy(X: Sparse) -> Sparse:
    """X with native numbers, and float64 for float16, which scipy does not have."""
    part = getattr(X, "data", None)
    if not isinstance(part, np.ndarray) or part.dtype.kind not in "biufc":
        return X
    native = (
        np.dtype(float) if part.dtype == np.float16 else part.dtype.newbyteorder("=")
    )
    if part.dtype == native:
        return X
    X = copy.copy(X)
    X.data = part.astype(native)
    return X


def canonical(X: Sparse) -> Sparse:
    """X as CSR with sorted columns, each once in a row, and no stored zeros.

    The same object where it is so already; X itself is never changed.
    """
    given, X = X, as_csr(X)
    if X.ndim != 2 or X.dtype.kind not in "biufc":
        return X
    sorted_ = _is_sorted(X.indptr, X.indices)
    if sorted_ and np.count_nonzero(X.data) == len(X.data):
        # What scipy remembers of it may be from before an edit.
        X.has_sorted_indices = X.has_canonical_format = True
        return X
    # A part of it is a view, and X itself is the user's.
    shared = given.format == "csr"
    X = type(X)((X.data, X.indices, X.indptr), shape=X.shape, copy=shared)
    X.has_sorted_indices = X.has_canonical_format = sorted_
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def _is_sorted(indptr: np.ndarray, indices: np.ndarray) -> bool:
    """Whether the columns of every row grow from each entry to the next."""
    if len(indices) < 2:
        return True
    falls = indices[1:] <= indices[:-1]
    begin = indptr[1:-1]
    falls[begin[(begin > 0) & (begin < len(indices))] - 1] = False
    return not falls.any()


def check(X: Sparse) -> None:
    """Refuse a sparse matrix whose arrays do not fit each other or its shape."""
    known = {
        "csr": _check_compressed,
        "csc": _check_compressed,
        "bsr": _check_compressed,
        "coo": _check_coordinates,
        "dia": _check_diagonals,
        "lil": _check_lists,
        "dok": _check_keys,
    }
    try:
        known.get(X.format, lambda X: None)(X)
    except AttributeError as error:
        raise ValueError(
            f"The {type(X).__name__} is damaged: a part of it is gone ({error}). "
            f"{WAY_OUT}"
        ) from error


def _check_compressed(X: Sparse) -> None:
    data = _array(X, "data", X.data, 3 if X.format == "bsr" else 1, "biufcO")
    indptr = _array(X, "indptr", X.indptr, 1, "i")
    indices = _array(X, "indices", X.indices, 1, "i")
    lines, width = (1, X.shape[0]) if X.ndim == 1 else X.shape
    if X.format == "csc":
        lines, width = width, lines
    if X.format == "bsr":
        for axis, size in enumerate(data.shape[1:]):
            if size < 1 or X.shape[axis] % size:
                raise _damaged(
                    X, f"blocks of {data.shape[1]} × {data.shape[2]} do not fill it"
                )
        lines, width = lines // data.shape[1], width // data.shape[2]
    if len(indptr) != lines + 1:
        raise _damaged(
            X, f"indptr has {len(indptr)} entries where {lines + 1} are needed"
        )
    if len(indices) != len(data):
        raise _damaged(X, f"it has {len(indices)} indices for {len(data)} entries")
    if indptr[0] != 0:
        raise _damaged(X, f"indptr[0] is {indptr[0]} and must be 0")
    falls = indptr[1:] < indptr[:-1]
    if falls.any():
        i = int(np.argmax(falls))
        raise _damaged(
            X, f"indptr falls from {indptr[i]} to {indptr[i + 1]} at place {i + 1}"
        )
    if indptr[-1] > len(data):
        i = int(np.argmax(indptr > len(data)))
        raise _damaged(X, f"indptr[{i}] is {indptr[i]}, beyond its {len(data)} entries")
    _check_range(X, "indices", indices[: indptr[-1]], width)


def _check_coordinates(X: Sparse) -> None:
    data = _array(X, "data", X.data, 1, "biufcO")
    coords = X.coords
    if len(coords) != X.ndim:
        raise _damaged(X, f"it has {len(coords)} arrays of indices")
    for axis, index in enumerate(coords):
        index = _array(X, f"coords[{axis}]", index, 1, "i")
        if len(index) != len(data):
            raise _damaged(X, f"it has {len(index)} indices for {len(data)} entries")
        _check_range(X, f"coords[{axis}]", index, X.shape[axis])


def _check_diagonals(X: Sparse) -> None:
    data = _array(X, "data", X.data, 2, "biufcO")
    offsets = _array(X, "offsets", X.offsets, 1, "i")
    if len(offsets) != len(data) or len(distinct(offsets)) != len(offsets):
        raise _damaged(
            X, f"{len(data)} diagonals need as many different offsets; got {offsets}"
        )
    n, m = X.shape
    away = (offsets <= -n) | (offsets >= m)
    if away.any() and data[away].any():
        raise _damaged(X, f"its offset {offsets[away][0]} is outside of it")


def _check_lists(X: Sparse) -> None:
    n, m = X.shape
    if len(X.rows) != n or len(X.data) != n:
        raise _damaged(
            X, f"it has {len(X.rows)} lists of indices and {len(X.data)} of entries"
        )
    for i, (columns, entries) in enumerate(zip(X.rows, X.data, strict=True)):
        if not (isinstance(columns, list) and isinstance(entries, list)):
            raise _damaged(X, f"row {i} is not two lists, of indices and of entries")
        if len(columns) != len(entries):
            raise _damaged(
                X,
                f"row {i} has {len(columns)} indices for {len(entries)} entries",
            )
        for j in columns:
            if not _is_place(j, m):
                raise _damaged(X, f"row {i} has the index {j!r:.60}")
        for value in entries:
            if not isinstance(value, Number | np.bool_):
                raise _damaged(X, f"row {i} has the entry {value!r:.60}")


def _check_keys(X: Sparse) -> None:
    for key, value in X.items():
        places = key if isinstance(key, tuple) else (key,)
        if len(places) != X.ndim or not all(map(_is_place, places, X.shape)):
            raise _damaged(X, f"it has the key {key!r:.60}")
        if not isinstance(value, Number | np.bool_):
            raise _damaged(X, f"its entry at {key} is {value!r:.60}")


def _is_place(i: Any, size: int) -> bool:
    whole = isinstance(i, int | np.integer) and not isinstance(i, bool)
    return whole and 0 <= i < size


def _array(X: Sparse, name: str, part: Any, ndim: int, kinds: str) -> np.ndarray:
    """An array of a sparse matrix, of the dimension and type that belongs there."""
    wide = kinds != "i" or getattr(part, "itemsize", 0) in (4, 8)
    if (
        isinstance(part, np.ndarray)
        and part.ndim == ndim
        and part.dtype.kind in kinds
        and wide
        and (part.dtype.isnative or kinds != "i")
    ):
        return part
    shape, dtype = np.shape(part), getattr(part, "dtype", type(part).__name__)
    needed = "whole numbers (int32 or int64)" if kinds == "i" else "numbers"
    raise _damaged(
        X, f"{name} must be {needed} in {ndim} dimension(s); it is {dtype} of {shape}"
    )


def _check_range(X: Sparse, name: str, index: np.ndarray, size: int) -> None:
    if index.size and not (index.min() >= 0 and index.max() < size):
        i = int(np.argmax((index < 0) | (index >= size)))
        raise _damaged(X, f"{name}[{i}] is {index[i]} and must be from 0 to {size - 1}")


def _damaged(X: Sparse, what: str) -> ValueError:
    shape = " × ".join(map(str, X.shape))
    return ValueError(f"The {shape} sparse matrix is damaged: {what}. {WAY_OUT}")
