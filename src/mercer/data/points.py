"""What a dataset is: an array, a CSR matrix, a data frame, or a list of objects.

Every other file uses this one to count points, to select some of them or one field of
each, and to read them as vectors.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence, Set
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer.data.blocks import Blocks
from mercer.data.checks import check_file, describe, shown
from mercer.data.frames import (
    column,
    double_frame,
    frame_rows,
    is_frame,
    is_series,
    joined_frames,
    listed,
    opened,
    series_values,
)
from mercer.data.partitions import Partitions, as_partitions, is_collection
from mercer.native import sparsity
from mercer.native.memory import check_room
from mercer.native.sparsity import Vectors

Points = Any  # (n, d) array, CSR, data frame, or a sequence of n objects
Index = Any  # which points: a slice, or an array of whole numbers or booleans

_PRECISIONS = (np.float64, np.float32)
NAME_BYTES = 70.0  # of the name of a column in a list
FOR_STRINGS = (
    "Spectrum, Subsequence, Mismatch, WeightedDegree, WeightedSubstrings and "
    "EditSimilarity compare strings"
)
# What an entry of a vector may be.
NUMBER = numbers.Real | np.bool_ | Decimal


def as_points(X: Any) -> Points:
    """X as a dataset: arrays and frames as they are, sparse as CSR, the rest a list."""
    if type(X) is np.ndarray and X.ndim:
        return X  # the common case, first
    if sp.issparse(X):
        return sparsity.as_csr(X)
    if is_collection(X):
        return as_partitions(X)
    if isinstance(X, Blocks) or is_frame(X):
        return X
    if is_series(X):
        return series_values(X)
    if hasattr(X, "__array__") and not isinstance(X, np.generic):
        check_file(X)
        return plain_array(X)
    if isinstance(X, str | bytes | Mapping | Set) or not hasattr(X, "__len__"):
        raise TypeError(
            f"A dataset is an array, a sparse matrix, a data frame or a list of "
            f"points; got {describe(X)}. Wrap a single point in a list."
        )
    return X if isinstance(X, list) else list(X)


def plain_array(X: Points) -> np.ndarray:
    """A matrix, tensor, index, ... as an array without behaviour of its own."""
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(
            "The points are a masked array with masked entries, which an array cannot "
            "hold. Fill them in first: X.filled(...)."
        )
    array = np.asarray(X)
    if array.ndim == 0:
        raise ValueError(
            f"A dataset is a sequence of points; got the single value {array[()]!r}. "
            "Wrap it: [x]."
        )
    return array


def count(X: Points) -> int:
    """n, the number of points in X."""
    return X.shape[0] if hasattr(X, "shape") else len(X)


def precision(X: Points) -> type[np.floating]:
    """float32 where X is an array or CSR of float32, else float64."""
    numbers = isinstance(X, np.ndarray | Blocks) or sp.issparse(X)
    single = numbers and X.dtype == np.float32
    return np.float32 if single else np.float64


def double(X: Points) -> Points:
    """The points with float64 numbers for their float32 ones; others as they are.

    Kernel values of these are computed in double precision.
    """
    if isinstance(X, np.ndarray) or sp.issparse(X):
        return X.astype(np.float64) if X.dtype == np.float32 else X
    if isinstance(X, Blocks):
        return X.double()
    if is_frame(X):
        return double_frame(X)
    if not isinstance(X, list) or not any(_is_narrow(x) for x in X[:1]):
        return X
    return [_widened(x) for x in X]


def _is_narrow(x: Any) -> bool:
    """Whether there is a float32 number in x, an array or a tuple of them."""
    if isinstance(x, tuple | list):
        return any(isinstance(v, np.ndarray | np.generic) and _is_narrow(v) for v in x)
    return getattr(x, "dtype", None) == np.float32


def _widened(x: Any) -> Any:
    if isinstance(x, tuple | list):
        return type(x)(_widened(v) for v in x)
    return x.astype(np.float64) if getattr(x, "dtype", None) == np.float32 else x


def each(X: Points) -> Sequence[Any]:
    """The points of X one by one; rows of a data frame as dicts, of CSR as 1 × d."""
    if is_frame(X):
        frame = opened(X)
        rows = zip(*map(listed, frame.iter_columns()), strict=True)
        return [dict(zip(frame.columns, row, strict=True)) for row in rows]
    return [X[i : i + 1] for i in range(count(X))] if sp.issparse(X) else X


def objects(X: Points) -> Sequence[Any]:
    """`each`, for kernels of whole objects: a frame of one column is a list of them."""
    if is_frame(X) and len(opened(X).columns) == 1:
        [series] = opened(X).iter_columns()
        return listed(series)
    return each(X)


def take(X: Points, index: Index) -> Points:
    """The points X[i] for i in index (a slice, or an array of integers or booleans)."""
    if isinstance(X, np.ndarray) or sp.issparse(X):
        return X[index]
    if isinstance(X, Blocks):
        return X.take(index)
    if is_frame(X):
        return frame_rows(X, np.arange(count(X))[index])
    if isinstance(index, slice):
        return list(X)[index]
    return [X[i] for i in np.arange(len(X))[index]]


def one(x: Any) -> Points:
    """The dataset whose only point is x."""
    if isinstance(x, np.ndarray):
        return x[None] if x.ndim else x.reshape(1, 1)
    if sp.issparse(x) and (x.ndim == 1 or x.shape[0] == 1):
        return sp.csr_array(sparsity.as_csr(x).reshape(1, -1))
    return np.array([[x]]) if isinstance(x, numbers.Real) else [x]


def concatenate(X: Points, Y: Points) -> Points:
    """The points of X, then those of Y."""
    if is_frame(X) and is_frame(Y):
        return joined_frames(X, Y)
    if is_frame(X) or is_frame(Y):
        raise TypeError(
            f"Points of one kind can be joined; got a {type(X).__name__} and a "
            f"{type(Y).__name__}. Convert the data frame, or make both data frames."
        )
    if sp.issparse(X) or sp.issparse(Y):
        return sp.vstack([sp.csr_array(vectors(Z)) for Z in (X, Y)], format="csr")
    if isinstance(X, np.ndarray) and isinstance(Y, np.ndarray):
        return np.concatenate([X, Y])
    return [*X, *Y]


def field(X: Points, name: Any) -> Points:
    """One component of every point: a column, several columns, a field of records.

    `name` is a column name, an index, a slice, or a list of names or indices. Numbers
    come back as an (n, m) array, anything else as a list. What is missing in a data
    frame is NaN among numbers and None among other values.
    """
    if isinstance(X, Partitions):
        return X.mapped(field, name)
    if is_frame(X):
        return _frame_field(X, name)
    if sp.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2):
        if any(
            isinstance(n, str) for n in (name if isinstance(name, list) else [name])
        ):
            raise TypeError(
                f"On({name!r}, ...) reads a named column; the points are a plain "
                "array. Pass a data frame, or name the column by its number."
            )
        if X.dtype.kind in "biufc":
            return _array_field(X, name)
    if isinstance(name, list):
        parts = [tuple(_component(x, i, n) for n in name) for i, x in enumerate(X)]
        return _as_numbers(parts)
    return _as_numbers([_component(x, i, name) for i, x in enumerate(X)])


def _array_field(X: Vectors, name: Any) -> Points:
    columns = [name] if isinstance(name, numbers.Integral) else name
    try:
        part = X[:, columns]
    except IndexError as error:
        raise _no_such_column(X, name) from error
    if part.shape[1] == 0:
        raise _no_such_column(X, name)
    return part


def _no_such_column(X: Vectors, name: Any) -> IndexError:
    return IndexError(
        f"On({name!r}, ...) reads columns that points with {X.shape[1]} columns do not "
        f"have. Columns are numbered from 0 to {X.shape[1] - 1}."
    )


def _frame_field(X: Points, name: Any) -> Points:
    frame = opened(X)
    names = frame.columns
    try:
        if isinstance(name, slice):
            chosen = names[name]
        else:
            wanted = name if isinstance(name, list) else [name]
            chosen = [_column_name(n, names) for n in wanted]
        if not chosen:
            raise IndexError("no column")
    except (TypeError, IndexError) as error:
        raise KeyError(
            f"On({name!r}, ...) names a column the data frame does not have; "
            f"its columns are {names}."
        ) from error
    columns = [column(frame.get_column(c)) for c in chosen]
    if not isinstance(name, list | slice):
        values = columns[0]
        return (
            values[:, None] if isinstance(values, np.ndarray) else _as_numbers(values)
        )
    if all(isinstance(values, np.ndarray) for values in columns):
        return np.column_stack(columns)
    lists = (listed(frame.get_column(c)) for c in chosen)
    return _as_numbers(list(zip(*lists, strict=True)))


def _column_name(n: Any, names: list[Any]) -> Any:
    """The column that n names: by its name, else by its number."""
    if n in names:
        return n
    # Where names are numbers other than 0..d-1, a number is a name only.
    numbered = any(isinstance(c, numbers.Integral) for c in names)
    if numbered and names != list(range(len(names))):
        raise IndexError(n)
    return names[n]


def _component(x: Any, i: int, name: Any) -> Any:
    try:
        return x[name]
    except (TypeError, KeyError, IndexError) as error:
        raise KeyError(
            f"On({name!r}, ...) reads a field that point {i} ({describe(x)}) does not "
            "have."
        ) from error


def _as_numbers(values: list[Any]) -> Points:
    """A list of numbers as an (n, 1) array, of number tuples as (n, m), else as is."""
    rows = [v if isinstance(v, tuple) else (v,) for v in values]
    if (
        len({len(row) for row in rows}) == 1
        and len(rows[0]) > 0
        and len({isinstance(v, tuple) for v in values}) == 1
        and all(isinstance(number, NUMBER) for row in rows for number in row)
    ):
        array: np.ndarray = np.array(rows)
        return array if array.dtype.kind in "biuf" else array.astype(float)
    return values


def vectors(X: Points, who: str = "A vector kernel") -> Vectors:
    """X as an (n, d) float32 or float64 array or CSR; `who` needs it, for the error.

    Integers and booleans become float64. A list of numbers is refused rather than
    guessed at: it could be one point or many.
    """
    if type(X) is np.ndarray and X.ndim == 2 and X.dtype in _PRECISIONS:
        return X  # the common case, first
    X = _frame_array(X, who) if is_frame(X) else as_points(X)
    if isinstance(X, Blocks):
        np.asarray(X)  # says what takes them
    if isinstance(X, list):
        X = _array_of_vectors(X, who)
    if X.dtype.kind in "US" or (X.dtype == object and X.ndim == 1):
        X = _array_of_vectors(X.ravel().tolist(), who)  # says which are strings
    if X.ndim != 2:
        raise ValueError(
            f"{who} compares vectors, given as an (n, d) array; got an array of shape "
            f"{X.shape}. Use np.reshape(X, (-1, 1)) for n numbers, (1, -1) for one "
            "vector."
        )
    if X.dtype == object:
        X = _array_of_vectors(list(X), who)
    if sp.issparse(X):
        X = sparsity.canonical(X)
    return X if X.dtype in _PRECISIONS else X.astype(_real(X.dtype, who))


def width(X: Points, who: str = "A vector kernel") -> int:
    """d of (n, d) vectors, wherever they are."""
    there = isinstance(X, Blocks) and X.ndim == 2
    return X.shape[1] if there else vectors(X, who).shape[1]


def _real(dtype: np.dtype, who: str) -> npt.DTypeLike:
    if dtype.kind in "biuf":
        return dtype.newbyteorder("=") if dtype.str[1:] == "f4" else np.float64
    raise TypeError(
        f"{who} compares vectors of real numbers; got dtype {dtype}. Encode the points "
        "as numbers, or choose a kernel for such points."
    )


def _frame_array(X: Points, who: str) -> np.ndarray:
    frame = opened(X)
    columns = [column(series) for series in frame.iter_columns()]
    for name, values in zip(frame.columns, columns, strict=True):
        if not isinstance(values, np.ndarray):
            raise TypeError(
                f"{who} compares vectors; column {name!r} of the data frame holds "
                f"{frame.schema[name]}, not numbers. Choose columns with "
                f"On([...], kernel), or encode it as numbers. {FOR_STRINGS}."
            )
    return np.column_stack(columns) if columns else np.empty((count(X), 0))


def _array_of_vectors(X: list[Any], who: str) -> Vectors:
    """A list of vectors as an array or CSR; the error names the point that is none."""
    if not X:
        raise ValueError(
            f"{who} compares vectors; an empty list does not say of which dimension. "
            "Pass np.empty((0, d))."
        )
    for i, x in enumerate(X):
        if isinstance(x, str | bytes):
            raise TypeError(
                f"{who} compares vectors; point {i} is the string {shown(x)}. "
                f"{FOR_STRINGS}: choose one of these kernels, or encode the strings as "
                "numbers."
            )
        if isinstance(x, Mapping) or x is None:
            raise TypeError(
                f"{who} compares vectors; point {i} is {describe(x)}. Pass an (n, d) "
                "array, or choose a kernel for such points."
            )
        # numpy would follow lists in lists, which may have no end.
        if isinstance(x, list | tuple):
            for part in x:
                if isinstance(part, list | tuple):
                    raise ValueError(
                        f"{who} compares vectors of real numbers; point {i} holds "
                        f"{describe(part)}. Pass an (n, d) array."
                    )
    try:
        array = np.array(X)
    except ValueError:  # ragged
        array = np.array(None)
    if array.dtype.kind in "biuf":
        return array
    rows = [_row(x, i, who) for i, x in enumerate(X)]
    for i, row in enumerate(rows):
        if row.shape != rows[0].shape:
            raise ValueError(
                f"{who} compares vectors of one length; point 0 has shape "
                f"{rows[0].shape} and point {i} has shape {row.shape}."
            )
    if any(sp.issparse(row) for row in rows):
        return sp.vstack(rows, format="csr")
    return np.array(rows)


def _row(x: Any, i: int, who: str) -> Vectors:
    """One vector; sparse ones as 1 × d."""
    if sp.issparse(x):
        if x.ndim == 2 and x.shape[0] != 1:
            raise ValueError(
                f"{who} compares vectors; point {i} is a sparse matrix of shape "
                f"{x.shape}."
            )
        return sp.csr_array(sparsity.as_csr(x).reshape(1, -1))
    try:
        row = np.asarray(x)
    except ValueError:  # ragged
        row = np.asarray(x, dtype=object)
    if row.dtype.kind in "biuf":
        return row
    if row.dtype.kind in "US":  # numbers beside a string are made strings
        row = np.asarray(x, dtype=object)
    for number in row.ravel():
        if isinstance(number, str | bytes):
            raise TypeError(
                f"{who} compares vectors of real numbers; point {i} holds the string "
                f"{shown(number)}. {FOR_STRINGS}: choose one of these kernels, or "
                "encode the strings as numbers."
            )
        if not isinstance(number, NUMBER):
            raise TypeError(
                f"{who} compares vectors of real numbers; point {i} holds "
                f"{describe(number)}. An argument must be a real number: strings and "
                "other objects are encoded as numbers first, or compared by a kernel "
                "for them."
            )
    try:
        return row.astype(float)
    except OverflowError:
        raise ValueError(
            f"{who} compares vectors of real numbers; point {i} holds a whole number "
            "beyond the largest float. Scale the column."
        ) from None


def a_string(X: Any) -> str | None:
    """Where X holds a string and what it is, for an error; None where it holds none."""
    if is_frame(X):
        for series in opened(X).iter_columns():
            for value in series.to_list():
                if isinstance(value, str | bytes):
                    return f"{shown(value)} in column {series.name!r} of the frame"
        return None
    # The dtypes of polars have no attribute `kind`.
    kind = getattr(getattr(X, "dtype", None), "kind", "O")
    if sp.issparse(X) or kind in "biufc":
        return None
    if isinstance(X, str | bytes):
        return shown(X)
    # An iterator may have no end.
    for i, x in enumerate(
        X if hasattr(X, "__iter__") and hasattr(X, "__len__") else []
    ):
        for value in x if isinstance(x, list | tuple | np.ndarray) else [x]:
            if isinstance(value, str | bytes):
                return f"{shown(value)}, of point {i},"
    return None


def pair(
    X: Points, Y: Points | None, who: str = "A vector kernel"
) -> tuple[Vectors, Vectors | None]:
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


def column_names(X: Points) -> list[str]:
    """The names of a data frame's columns; x0, x1, ... for other vectors."""
    if is_frame(X):
        return [str(name) for name in opened(X).columns]
    d = vectors(X).shape[1]
    check_room(
        NAME_BYTES * d,
        f"The names of {d:,} columns take",
        "Keep the columns that are not empty: X[:, np.unique(X.indices)].",
    )
    return [f"x{j}" for j in range(d)]
