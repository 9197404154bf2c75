"""Points as they were given, checked and made ready for their first reader."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.checks import check_file
from mercer.data.frames import holds_numbers, is_frame, plain_frame
from mercer.data.points import NUMBER, Points, plain_array, vectors
from mercer.native import sparsity


def sound(X: Any) -> Points:
    """X as it was given, for a first reader: sparse points checked and in order.

    They are CSR with sorted columns and no stored zeros; so is a list of sparse rows.
    What is missing among numbers is NaN.
    """
    if sp.issparse(X):
        for name in ("data", "indices", "indptr"):
            check_file(getattr(X, name, None))
        return sparsity.canonical(X)
    check_file(X)
    if isinstance(X, np.ma.MaskedArray):
        X = plain_array(X)
    if isinstance(X, np.ndarray):
        return _without_gaps(X) if X.dtype == object and X.ndim == 2 else X
    if is_frame(X):
        return plain_frame(X) if holds_numbers(X) else X
    if isinstance(X, list | tuple):
        some = [x for x in X if sp.issparse(x)]
        for x in some:
            sparsity.check(x)
        rows = [x for x in some if x.ndim == 1 or x.shape[0] == 1 < x.shape[1]]
        if rows and len(rows) == len(X):
            return sparsity.canonical(vectors(list(X)))
        return _read(X)
    return X


def _read(X: Sequence[Any]) -> Points:
    """Equally long lists of numbers as an array, once; other points as they are."""
    first = X[0] if len(X) else None
    if not isinstance(first, list | tuple) or not len(first):
        return X
    if not (is_gap(first[0]) or isinstance(first[0], numbers.Number)):
        return X
    try:
        array = np.array(X)
    except ValueError:  # of different lengths
        return X
    if array.dtype == object:
        return _read_with_gaps(X)
    return array if array.ndim == 2 and array.dtype.kind in "biufc" else X


def is_gap(value: object) -> bool:
    """Whether a value stands for one that is missing, and is no number."""
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _without_gaps(X: np.ndarray) -> np.ndarray:
    """An array of objects with NaN for what is missing."""
    gaps = np.array([is_gap(value) for value in X.flat], dtype=bool).reshape(X.shape)
    if not gaps.any():
        return X
    X = X.copy()
    X[gaps] = np.nan
    return X


def _read_with_gaps(X: Sequence[Any]) -> Points:
    """Equally long lists of numbers, some missing, as an array; else as they are."""
    sizes = {len(x) if isinstance(x, list | tuple | np.ndarray) else -1 for x in X}
    if len(sizes) > 1 or not all(
        is_gap(value) or isinstance(value, NUMBER) for x in X for value in x
    ):
        return X
    try:
        return np.array([[np.nan if is_gap(v) else float(v) for v in x] for x in X])
    except OverflowError:  # a whole number beyond every float, for `vectors` to name
        return X
