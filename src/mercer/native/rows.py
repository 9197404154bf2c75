"""Rows of numbers that the core reads one at a time, and the order to read them in."""

from __future__ import annotations

import numpy as np

from mercer import _core
from mercer.native.sparsity import Sparse, Vectors


def csr_parts(X: Sparse) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts of the rows, columns, entries; all indices of one type."""
    wide = np.int64 in (X.indptr.dtype, X.indices.dtype)
    index = np.int64 if wide else np.int32
    start, column = (np.require(part, index, ["C"]) for part in (X.indptr, X.indices))
    return start, column, np.require(X.data, X.dtype, ["C"])


def explicit_rows(X: Vectors) -> _core.ExplicitRows:
    """The rows of a float64 array or CSR matrix, to be read one by one in the core."""
    if hasattr(X, "indptr"):
        return _core.ExplicitRows(*csr_parts(X), X.shape[1])
    return _core.ExplicitRows(np.require(X, float, ["C", "A"]))


def row_keys(X: Vectors, target: np.ndarray) -> np.ndarray:
    """A 64-bit number for each row, by its entries that are not 0 and its targets.

    Parameters
    ----------
    X : float64 array, or CSR without duplicates
    target : (n, q) array
    """
    keys = np.empty(X.shape[0], dtype=np.uint64)
    explicit_rows(X).keys(np.ascontiguousarray(target, dtype=np.float64), keys)
    return keys


def ascending(keys: np.ndarray) -> np.ndarray:
    """The places of the keys in order, of equal ones as they stand."""
    places = np.empty(len(keys), dtype=np.int64)
    _core.ascending(keys.astype(np.uint64, copy=False), places)
    return places
