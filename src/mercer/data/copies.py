"""Copies of points, so that no later edit changes what a fitted machine keeps.

An array in a memory-mapped file is shared, not read into memory. Copies are equal to
what they are of by `same_value`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.blocks import Blocks, mapping_of
from mercer.data.frames import cloned_frame, is_frame
from mercer.data.points import Points
from mercer.native import sparsity
from mercer.native.interruptible import elementwise, summed
from mercer.native.sparsity import Sparse

LARGE = 2**23  # bytes, from which on threads share a copy
DEEPEST = 100  # levels of lists in lists that are copied
_FIXED = (str, bytes, int, float, type(None), np.generic)


def owned(X: Points) -> Points:
    """A copy of points of any kind; of what is memory-mapped, the thing itself.

    What stands in several places is copied once, and what is nested deeper than any
    record (trees, thousands of levels) is shared from there on.
    """
    return _copied(X, {}, DEEPEST)


def _copied(X: Any, copies: dict[int, Any], levels: int) -> Any:
    """`copies` are those made so far, by the id of what they are of."""
    if isinstance(X, (Blocks, *_FIXED)):
        return X
    if isinstance(X, np.ndarray) and X.dtype != object:
        return X if is_mapped(X) else _copied_array(X)
    if sp.issparse(X):
        return X if is_mapped(X.data) else X.copy()
    if is_frame(X):
        return cloned_frame(X)
    if levels == 0:
        return X
    if id(X) in copies:
        return copies[id(X)]

    def each(values: Iterable[Any]) -> list[Any]:
        return [
            x if isinstance(x, _FIXED) else _copied(x, copies, levels - 1)
            for x in values
        ]

    out: Any
    copies[id(X)] = X  # where X contains itself, its copy holds X; readers refuse it
    if isinstance(X, np.ndarray):
        out = np.empty_like(X)
        out.ravel()[:] = each(X.ravel())
    elif type(X) in (list, tuple):
        out = type(X)(each(X))
    elif type(X) is dict:
        out = dict(zip(X, each(X.values()), strict=True))
    elif _has_own_hash(X):
        out = X  # hashable, so taken as immutable
    else:
        try:
            out = copy.deepcopy(X)
        except Exception:  # a user's object that cannot be copied is shared
            out = X
    copies[id(X)] = out
    return out


def _copied_array(X: np.ndarray) -> np.ndarray:
    if X.nbytes < LARGE or X.ndim == 0 or not X.flags.c_contiguous:
        return elementwise(lambda X: X.copy(), X)
    out = np.empty_like(X)

    def fill(rows: slice) -> tuple[()]:
        out[rows] = X[rows]
        return ()

    # Finding new memory takes most of the time: threads share it.
    step = max(1, LARGE * len(X) // (2 * X.nbytes))
    summed(fill, [slice(at, at + step) for at in range(0, len(X), step)])
    return out


def _has_own_hash(x: object) -> bool:
    return type(x).__hash__ not in (None, object.__hash__)


def shares(X: Points, Y: Points) -> bool:
    """Whether an edit of Y may change X; True may be a false alarm, False never is."""
    if isinstance(X, np.ndarray) and X.dtype != object:
        return isinstance(Y, np.ndarray) and np.may_share_memory(X, Y)
    if sp.issparse(X):
        # CSR is a copy of any other format.
        return (
            sp.issparse(Y)
            and Y.format == "csr"
            and any(
                np.may_share_memory(getattr(X, part), getattr(Y, part))
                for part in ("data", "indices", "indptr")
            )
        )
    return True


def is_mapped(array: np.ndarray) -> bool:
    """Whether the numbers of an array are in a memory-mapped file."""
    return mapping_of(array)[0] is not None


def is_foreign(array: np.ndarray) -> bool:
    """Whether an array made from something else reads the memory of that thing."""
    return array.base is not None or not array.flags.owndata


def same_value(a: Any, b: Any) -> bool:
    """Equality of parameters: by value for arrays and frames, NaN equal to itself."""
    if a is b:
        return True
    if sp.issparse(a) and sp.issparse(b):
        return a.shape == b.shape and all(map(same_value, _entries(a), _entries(b)))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        if type(a) is not type(b) or (a.dtype, a.shape) != (b.dtype, b.shape):
            return False
        if a.dtype == object:
            return same_value(a.ravel().tolist(), b.ravel().tolist())
        return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    if isinstance(a, list | tuple) and type(a) is type(b):
        return len(a) == len(b) and all(map(same_value, a, b))
    if hasattr(a, "equals") or hasattr(b, "equals"):  # data frames
        return type(a) is type(b) and bool(a.equals(b))
    return bool(a == b) or bool(a != a and b != b)


def _entries(matrix: Sparse) -> tuple[np.ndarray, ...]:
    """The non-zero entries of a sparse matrix and their places, in order."""
    matrix = sparsity.canonical(matrix)
    return matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
