"""What a dataset is: an array, a CSR matrix, a data frame, or a list of objects.

Every other file asks this one how many points there are, for some of them, for one
field of each, or for all of them as vectors. Data frames (pandas, polars and others)
are reached through narwhals, and only here.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp

Points = Any  # (n, d) array, CSR, data frame, or a sequence of n objects


def is_frame(X) -> bool:
    """Whether X is a data frame of any library narwhals knows."""
    return nw.dependencies.is_into_dataframe(X)


def as_points(X) -> Points:
    """X as a dataset: arrays and frames as they are, sparse as CSR, the rest a list."""
    if isinstance(X, np.ndarray):
        if X.ndim == 0:
            raise ValueError(
                f"A dataset is a sequence of points; got the single value {X[()]!r}. "
                "Wrap it: [x]."
            )
        return X
    if sp.issparse(X):
        return X if X.format == "csr" else X.tocsr()
    if is_frame(X):
        return X
    if nw.dependencies.is_into_series(X):
        return nw.from_native(X, series_only=True).to_list()
    if isinstance(X, str | bytes | Mapping) or not hasattr(X, "__len__"):
        raise TypeError(
            f"A dataset is an array, a sparse matrix, a data frame or a list of "
            f"points; got {describe(X)}. Wrap a single point in a list."
        )
    if hasattr(X, "__array__"):
        return np.asarray(X)
    return X if isinstance(X, list) else list(X)


def count(X) -> int:
    """n, the number of points in X."""
    return X.shape[0] if hasattr(X, "shape") else len(X)


def take(X, index) -> Points:
    """The points X[i] for i in index (a slice, or an array of integers or booleans)."""
    if isinstance(X, np.ndarray) or sp.issparse(X):
        return X[index]
    if is_frame(X):
        chosen = np.arange(count(X))[index]
        return nw.from_native(X, eager_only=True)[chosen.tolist()].to_native()
    if isinstance(index, slice):
        return list(X)[index]
    return [X[i] for i in np.arange(len(X))[index]]


def one(x) -> Points:
    """The dataset whose only point is x."""
    if isinstance(x, np.ndarray) and x.ndim:
        return x[None]
    if sp.issparse(x):
        return x.tocsr() if x.ndim == 2 else sp.csr_array(x.reshape(1, -1))
    return np.array([[x]]) if isinstance(x, numbers.Real) else [x]


def concatenate(X, Y) -> Points:
    """The points of X, then those of Y."""
    if sp.issparse(X) or sp.issparse(Y):
        return sp.vstack([X, Y], format="csr")
    if isinstance(X, np.ndarray) and isinstance(Y, np.ndarray):
        return np.concatenate([X, Y])
    if is_frame(X) and is_frame(Y):
        frames = [nw.from_native(Z, eager_only=True) for Z in (X, Y)]
        return nw.concat(frames, how="vertical").to_native()
    return [*X, *Y]


def field(X, name) -> Points:
    """One component of every point: a column, several columns, a field of records.

    `name` is a column name, an index, a slice, or a list of names or indices. Numbers
    come back as an (n, m) array, anything else as a list.
    """
    if (isinstance(X, np.ndarray) and X.ndim == 2) or sp.issparse(X):
        columns = [name] if isinstance(name, numbers.Integral) else name
        if isinstance(columns, str):
            raise TypeError(
                f"On({name!r}, ...) reads a named column; the points are a plain "
                "array. Pass a data frame, or name the column by its number."
            )
        try:
            return X[:, columns]
        except IndexError as error:
            raise IndexError(
                f"On({name!r}, ...) reads columns that points with {X.shape[1]} "
                "columns do not have."
            ) from error
    if is_frame(X):
        return _frame_field(X, name)
    if isinstance(name, list):
        return _plain([tuple(_component(x, i, part) for part in name)
                       for i, x in enumerate(X)])  # fmt: skip
    return _plain([_component(x, i, name) for i, x in enumerate(X)])


def _frame_field(X, name) -> Points:
    frame = nw.from_native(X, eager_only=True)
    names = frame.columns
    try:
        if isinstance(name, slice):
            chosen = names[name]
        else:
            wanted = name if isinstance(name, list) else [name]
            # A frame may itself have whole numbers for names; names go first.
            chosen = [n if n in names else names[n] for n in wanted]
    except (TypeError, IndexError) as error:
        raise KeyError(
            f"On({name!r}, ...) names a column the data frame does not have; "
            f"its columns are {list(names)}."
        ) from error
    if len(chosen) == 1 and not isinstance(name, list | slice):
        return _plain(frame[chosen[0]].to_list())
    return _plain(list(zip(*(frame[c].to_list() for c in chosen), strict=True)))


def _component(x, i: int, name):
    try:
        return x[name]
    except (TypeError, KeyError, IndexError) as error:
        raise KeyError(
            f"On({name!r}, ...) reads a field that point {i} ({describe(x)}) does not "
            "have."
        ) from error


def _plain(values: list) -> Points:
    """A list of numbers as an (n, 1) array, of number tuples as (n, m), else as is."""
    numeric = numbers.Real | np.bool_
    if values and all(isinstance(v, numeric) for v in values):
        return np.array(values, dtype=float)[:, None]
    if values and all(
        isinstance(v, tuple) and all(isinstance(u, numeric) for u in v) for v in values
    ):
        return np.array(values, dtype=float)
    return values


def vectors(X, who: str = "A vector kernel"):
    """X as an (n, d) float32 or float64 array or CSR; `who` needs it, for the error.

    Integers and booleans become float64. A list of numbers is refused rather than
    guessed at: it could be one point or many.
    """
    if (
        isinstance(X, np.ndarray)
        and X.ndim == 2
        and X.dtype in (np.float64, np.float32)
    ):
        return X  # the common case, first
    if sp.issparse(X):
        X = as_points(X)
        return (
            X if X.dtype in (np.float64, np.float32) else X.astype(_real(X.dtype, who))
        )
    if is_frame(X):
        X = nw.from_native(X, eager_only=True).to_numpy()
    else:
        X = as_points(X)
    if isinstance(X, list):
        if X and any(sp.issparse(x) for x in X):
            return sp.vstack([sp.csr_array(x.reshape(1, -1)) for x in X], format="csr")
        X = _array_of_vectors(X, who)
    if X.ndim != 2:
        raise ValueError(
            f"{who} compares vectors, given as an (n, d) array; got an array of shape "
            f"{X.shape}. Use X.reshape(-1, 1) for n numbers, X.reshape(1, -1) for one "
            "vector."
        )
    if X.dtype == object:
        X = _array_of_vectors(list(X), who)
    return X if X.dtype in (np.float64, np.float32) else X.astype(_real(X.dtype, who))


def _real(dtype, who: str):
    if dtype.kind in "biuf":
        return np.float64
    raise TypeError(f"{who} compares real vectors; got dtype {dtype}.")


def _array_of_vectors(X: Sequence, who: str) -> np.ndarray:
    for i, x in enumerate(X):
        if isinstance(x, str | bytes | Mapping) or x is None:
            raise TypeError(
                f"{who} compares vectors; point {i} is {describe(x)}. Pass an (n, d) "
                "array, or choose a kernel for such points."
            )
    try:
        return np.array(X, dtype=float)
    except (TypeError, ValueError) as error:
        for i, x in enumerate(X):
            try:
                length = np.asarray(x, dtype=float).shape
            except (TypeError, ValueError):
                raise TypeError(
                    f"{who} compares vectors; point {i} is {describe(x)}, which has "
                    "components that are not numbers."
                ) from error
            if length != np.shape(X[0]):
                raise ValueError(
                    f"{who} compares vectors of one length; point 0 has shape "
                    f"{np.shape(X[0])} and point {i} has shape {length}."
                ) from error
        raise


def pair(X, Y, who: str = "A vector kernel"):
    """X and Y as vectors of one dimension; Y None where it is X itself."""
    A = vectors(X, who)
    if Y is None or Y is X:
        return A, None
    B = vectors(Y, who)
    if A.shape[1] != B.shape[1]:
        raise ValueError(
            f"{who} compares vectors of one dimension; X has {A.shape[1]} columns and "
            f"Y has {B.shape[1]}."
        )
    return A, B


def describe(x) -> str:
    """x for an error message: its type, and its value where that is short."""
    text = repr(x)
    kind = type(x).__name__
    article = "an" if kind[0] in "aeiouAEIOU" else "a"
    return f"{article} {kind} ({text})" if len(text) <= 40 else f"{article} {kind}"
