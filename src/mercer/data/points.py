"""What a dataset is: an array, a CSR matrix, a data frame, or a list of objects.

Every other file uses this one to count points, to select some of them or one field of
each, and to read them as vectors. Data frames (pandas, polars and others)
are reached through narwhals, and only here.
"""

from __future__ import annotations

import numbers
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer.data.blocks import Blocks, mapping_of
from mercer.data.partitions import Partitions, is_collection, opened
from mercer.native import sparsity
from mercer.native.sparsity import Sparse, Vectors

if TYPE_CHECKING:
    from narwhals import Series

Points = Any  # (n, d) array, CSR, data frame, or a sequence of n objects
Index = Any  # which points: a slice, or an array of whole numbers or booleans

_PRECISIONS = (np.float64, np.float32)
FOR_STRINGS = (
    "Spectrum, Subsequence, Mismatch, WeightedDegree, WeightedSubstrings and "
    "EditSimilarity compare strings"
)
MOST_NUMBERS = 2**31  # in lists that are made an array
MOST_PARTS = 10_000  # of a tuple that is a label or a token
_NUMBER = numbers.Real | np.bool_ | Decimal


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of any library narwhals knows."""
    # Called for every array, most of which are no frames; narwhals is slow to tell.
    return not isinstance(X, np.ndarray) and nw.dependencies.is_into_dataframe(X)


def is_series(X: Any) -> bool:
    """Whether X is a column of a data frame."""
    return not isinstance(X, np.ndarray) and nw.dependencies.is_into_series(X)


def _opened(X: Points) -> nw.DataFrame[Any]:
    """A data frame as narwhals has it, whose columns have different names."""
    names = list(X.columns) if hasattr(X, "columns") else []
    if len(set(map(str, names))) < len(names):
        texts = list(map(str, names))
        twice = next(name for name in texts if texts.count(name) > 1)
        raise ValueError(
            f"The data frame has more than one column named {twice!r}. Give its "
            "columns different names, or pass an array."
        )
    return nw.from_native(X, eager_only=True)


def as_points(X: Any) -> Points:
    """X as a dataset: arrays and frames as they are, sparse as CSR, the rest a list."""
    if type(X) is np.ndarray and X.ndim:
        return X  # the common case, first
    if sp.issparse(X):
        return sparsity.as_csr(X)
    if is_collection(X):
        return opened(X)
    if isinstance(X, Blocks) or is_frame(X):
        return X
    if is_series(X):
        return _column(nw.from_native(X, series_only=True))
    if hasattr(X, "__array__") and not isinstance(X, np.generic):
        check_file(X)
        return _plain_array(X)
    if isinstance(X, str | bytes | Mapping | Set) or not hasattr(X, "__len__"):
        raise TypeError(
            f"A dataset is an array, a sparse matrix, a data frame or a list of "
            f"points; got {describe(X)}. Wrap a single point in a list."
        )
    return X if isinstance(X, list) else list(X)


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
        X = _plain_array(X)
    if isinstance(X, np.ndarray):
        return _without_gaps(X) if X.dtype == object and X.ndim == 2 else X
    if is_frame(X):
        return _plain_frame(X) if holds_numbers(X) else X
    if isinstance(X, list | tuple):
        some = [x for x in X if sp.issparse(x)]
        for x in some:
            sparsity.check(x)
        rows = [x for x in some if x.ndim == 1 or x.shape[0] == 1 < x.shape[1]]
        if rows and len(rows) == len(X):
            return sparsity.canonical(vectors(list(X)))
        return _read(X)
    return X


def check_file(X: Any) -> None:
    """Refuse a memory-mapped array whose file was cut: to read it ends the process."""
    source, begin = mapping_of(X)
    if source is None:
        return
    try:
        size = source.size()
    except (OSError, ValueError):  # not of a file, or the file is closed
        return
    if size < begin + len(source):
        raise ValueError(
            f"The file of a memory-mapped array has {size:,} bytes, where the array "
            f"needs {begin + len(source):,}: it was cut after the array was opened. "
            "Restore the file, or open it anew."
        )


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
        is_gap(value) or isinstance(value, _NUMBER) for x in X for value in x
    ):
        return X
    try:
        return np.array([[np.nan if is_gap(v) else float(v) for v in x] for x in X])
    except OverflowError:  # a whole number beyond every float, for `vectors` to name
        return X


def _plain_frame(X: Points) -> Points:
    """A data frame of numbers with float64 for what arrays would hold as objects."""
    frame = _opened(X)
    odd = [series for series in frame.iter_columns() if not _is_plain(series)]
    if not odd:
        return X
    made = [
        nw.new_series(
            series.name, _as_floats(series), nw.Float64, backend=frame.implementation
        )
        for series in odd
    ]
    return frame.with_columns(*made).to_native()


def _is_plain(series: Series[Any]) -> bool:
    kind = series.dtype
    if kind.is_integer() or kind.is_float():
        return True
    if kind == nw.Boolean:
        return not series.is_null().any()
    # Complex numbers are refused later, with a better message.
    return any(isinstance(v, complex | np.complexfloating) for v in series.to_list())


def _as_floats(series: Series[Any]) -> np.ndarray:
    values, gaps = series.to_list(), series.is_null().to_list()
    return np.array(
        [np.nan if gap else float(v) for v, gap in zip(values, gaps, strict=True)]
    )


def cloned_frame(X: Points) -> Points:
    """A copy of a data frame."""
    return _opened(X).clone().to_native()


def frame_columns(X: Points) -> Iterator[np.ndarray]:
    """The columns of a data frame as arrays, of its own memory where that can be."""
    return (series.to_numpy() for series in _opened(X).iter_columns())


_LIBRARIES = ("pandas", "polars", "pyarrow")  # of frames that can be made anew
_KINDS: dict[str, Any] = {"": None, "String": nw.String, "Object": nw.Object}


def frame_columns_by_name(X: Points) -> tuple[str, list[tuple[Any, str, Any]]]:
    """The library of a data frame, and the name, kind and values of each column.

    Values are those that kernels read: numbers as an array, of the kind "", NaN where
    one is missing; others as a list, of the kind "String" or "Object", None there.
    """
    frame = _opened(X)
    library = str(frame.implementation)
    if library not in _LIBRARIES:
        raise TypeError(
            f"Data frames of {', '.join(_LIBRARIES)} can be taken apart; got one of "
            f"{library}. Convert it."
        )
    columns = [(one.name, _column(one)) for one in frame.iter_columns()]
    return library, [(name, _kind_of(values), values) for name, values in columns]


def _kind_of(values: np.ndarray | list[Any]) -> str:
    if isinstance(values, np.ndarray):
        return ""
    texts = all(value is None or isinstance(value, str) for value in values)
    return "String" if texts else "Object"


def frame_of_columns(library: Any, columns: Sequence[tuple[Any, str, Any]]) -> Points:
    """The data frame that `frame_columns_by_name` took apart."""
    if library not in _LIBRARIES:
        raise ValueError(f"{library!r:.40} makes no data frames")
    made = [
        nw.new_series(name, values, _KINDS[kind], backend=library)
        for name, kind, values in columns
    ]
    return nw.concat([one.to_frame() for one in made], how="horizontal").to_native()


def holds_numbers(X: Points) -> bool:
    """Whether all columns of a data frame are of numbers, some perhaps missing."""
    return all(map(_is_of_numbers, _opened(X).iter_columns()))


def _is_of_numbers(series: Series[Any]) -> bool:
    kind = series.dtype
    if kind.is_numeric() or kind == nw.Boolean:
        return True
    if kind not in (nw.Object, nw.Unknown):
        return False
    values, gaps = series.to_list(), series.is_null().to_list()
    return all(
        gap or isinstance(value, numbers.Number)
        for value, gap in zip(values, gaps, strict=True)
    )


def _plain_array(X: Points) -> np.ndarray:
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
        frame = nw.from_native(X, eager_only=True)
        narrow = [name for name in frame.columns if frame.schema[name] == nw.Float32]
        if not narrow:
            return X
        return frame.with_columns(nw.col(*narrow).cast(nw.Float64)).to_native()
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
        frame = _opened(X)
        rows = zip(*map(_listed, frame.iter_columns()), strict=True)
        return [dict(zip(frame.columns, row, strict=True)) for row in rows]
    return [X[i : i + 1] for i in range(count(X))] if sp.issparse(X) else X


def objects(X: Points) -> Sequence[Any]:
    """`each`, for kernels of whole objects: a frame of one column is a list of them."""
    if is_frame(X) and len(_opened(X).columns) == 1:
        [series] = _opened(X).iter_columns()
        return _listed(series)
    return each(X)


def take(X: Points, index: Index) -> Points:
    """The points X[i] for i in index (a slice, or an array of integers or booleans)."""
    if isinstance(X, np.ndarray) or sp.issparse(X):
        return X[index]
    if isinstance(X, Blocks):
        return X.take(index)
    if is_frame(X):
        chosen = np.arange(count(X))[index]
        return _opened(X)[chosen.tolist()].to_native()
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
        frames = [_opened(Z) for Z in (X, Y)]
        return nw.concat(frames, how="vertical").to_native()
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
        "have."
    )


def _frame_field(X: Points, name: Any) -> Points:
    frame = _opened(X)
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
    columns = [_column(frame.get_column(c)) for c in chosen]
    if not isinstance(name, list | slice):
        values = columns[0]
        return (
            values[:, None] if isinstance(values, np.ndarray) else _as_numbers(values)
        )
    if all(isinstance(values, np.ndarray) for values in columns):
        return np.column_stack(columns)
    lists = (_listed(frame.get_column(c)) for c in chosen)
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


def _column(series: Series[Any]) -> np.ndarray | list[Any]:
    """A column of numbers as an array, of anything else as a list."""
    kind = series.dtype
    if kind.is_numeric() or kind == nw.Boolean:
        values = series.to_numpy()
        # Booleans with gaps and decimals arrive as objects.
        numeric = values.dtype.kind in "biuf"
        return values if numeric else series.cast(nw.Float64).to_numpy()
    gaps = series.is_null().to_list()
    listed = series.to_list()
    return [None if gap else v for gap, v in zip(gaps, listed, strict=True)]


def _listed(series: Series[Any]) -> list[Any]:
    values = _column(series)
    return values.tolist() if isinstance(values, np.ndarray) else values


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
        and all(isinstance(number, _NUMBER) for row in rows for number in row)
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


def _real(dtype: np.dtype, who: str) -> npt.DTypeLike:
    if dtype.kind in "biuf":
        return dtype.newbyteorder("=") if dtype.str[1:] == "f4" else np.float64
    raise TypeError(
        f"{who} compares vectors of real numbers; got dtype {dtype}. Encode the points "
        "as numbers, or choose a kernel for such points."
    )


def _frame_array(X: Points, who: str) -> np.ndarray:
    frame = _opened(X)
    columns = [_column(series) for series in frame.iter_columns()]
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
                f"{who} compares vectors; point {i} is the string {_shown(x)}. "
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
                f"{_shown(number)}. {FOR_STRINGS}: choose one of these kernels, or "
                "encode the strings as numbers."
            )
        if not isinstance(number, _NUMBER):
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
        for series in _opened(X).iter_columns():
            for value in series.to_list():
                if isinstance(value, str | bytes):
                    return f"{_shown(value)} in column {series.name!r} of the frame"
        return None
    # The dtypes of polars have no attribute `kind`.
    kind = getattr(getattr(X, "dtype", None), "kind", "O")
    if sp.issparse(X) or kind in "biufc":
        return None
    if isinstance(X, str | bytes):
        return _shown(X)
    # An iterator may have no end.
    for i, x in enumerate(
        X if hasattr(X, "__iter__") and hasattr(X, "__len__") else []
    ):
        for value in x if isinstance(x, list | tuple | np.ndarray) else [x]:
            if isinstance(value, str | bytes):
                return f"{_shown(value)}, of point {i},"
    return None


def _shown(text: str | bytes) -> str:
    """A string for an error message, of which a long one is cut."""
    text = repr(text.item() if isinstance(text, np.generic) else text)
    return text if len(text) <= 40 else f"{text[:36]}...{text[-1]}"


def check_finite(X: Points, who: str) -> None:
    """Refuse NaN and infinity among numbers; `who` reads them, for the error."""
    if not (isinstance(X, np.ndarray) or sp.issparse(X)) or X.dtype.kind != "f":
        return
    entries = X.data if sp.issparse(X) else X
    # A sum is finite only if all numbers are, or overflows: then they are looked at.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(entries.sum(dtype=float)) or np.isfinite(entries).all():
            return
    if sp.issparse(X):
        X = X.tocoo()
        i = int(np.flatnonzero(~np.isfinite(X.data))[0])
        row, value = X.coords[0][i], X.data[i]
    else:
        where = tuple(np.argwhere(~np.isfinite(X))[0])
        row, value = where[0], X[where]
    what = "missing (NaN)" if np.isnan(value) else f"{value}"
    raise ValueError(
        f"{who} compares finite numbers; at point {row} one is {what}. Fill it in, or "
        "leave the point out."
    )


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
        return [str(name) for name in _opened(X).columns]
    return [f"x{j}" for j in range(vectors(X).shape[1])]


def describe(x: object) -> str:
    """x for an error message: its type, and its value where that is short."""
    text = _BRIEF.repr(x)
    kind = type(x).__name__
    article = "an" if kind[0] in "aeiouAEIOU" else "a"
    return f"{article} {kind} ({text})" if len(text) <= 40 else f"{article} {kind}"


def brief(x: object) -> str:
    """x as it is written, for an error message: of much data, the beginning."""
    return _BRIEF.repr(x)


# Lists that share their parts could have more to write than there is memory.
_BRIEF = reprlib.Repr()
_BRIEF.maxlevel = 4
_BRIEF.maxlist = _BRIEF.maxtuple = _BRIEF.maxset = _BRIEF.maxdict = 8
_BRIEF.maxfrozenset = _BRIEF.maxarray = _BRIEF.maxdeque = 8
_BRIEF.maxstring = _BRIEF.maxlong = _BRIEF.maxother = 60


def check_ending(values: Any, needs: str) -> None:
    """Refuse targets or weights without end, in length or nesting, before numpy reads.

    Parameters
    ----------
    needs : how an error begins, as in "SVC needs y as an array, one for each point"
    """
    if hasattr(values, "__array__") or sp.issparse(values):
        return
    if isinstance(values, Iterable) and not hasattr(values, "__len__"):
        raise TypeError(f"{needs}; got {describe(values)}. Make a list of it.")
    if hasattr(values, "__len__") and len(values) > MOST_NUMBERS:
        raise ValueError(f"{needs}; got {describe(values)} of length {len(values):,}.")
    check_nesting(values, f"{needs}; what was given")


def check_nesting(x: Any, what: str = "A point") -> None:
    """Refuse lists in lists that have no end, or more numbers than memory has room.

    numpy would follow them. Parts that are shared are looked at once here.
    """
    sizes: dict[int, int] = {}
    above: set[int] = set()  # the lists between the outermost and this one
    pending = [(x, False)] if isinstance(x, list | tuple) else []
    while pending:
        part, seen = pending.pop()
        inner = [item for item in part if isinstance(item, list | tuple)]
        if seen:
            above.discard(id(part))
            sizes[id(part)] = len(part) + sum(sizes[id(item)] for item in inner)
        elif id(part) in above:
            raise ValueError(f"{what} is a list that contains itself; it has no end.")
        elif id(part) not in sizes:
            above.add(id(part))
            pending.append((part, True))
            pending.extend((item, False) for item in inner)
    if sizes.get(id(x), 0) > MOST_NUMBERS:
        raise ValueError(
            f"{what} is lists in lists with more than {MOST_NUMBERS:,} entries, since "
            "they contain the same parts over and over. Pass arrays of numbers."
        )


def check_label(label: object, whose: str) -> None:
    """Refuse what cannot be hashed, or is a tuple with too many parts for that.

    `whose` labels they are, and which, as in "The labels of a tree are; node 3".
    """
    what, _, which = whose.partition(";")
    if type(label) is tuple and not _is_small(label):
        raise ValueError(
            f"{what} small;{which} has a tuple with more than {MOST_PARTS:,} parts, "
            "counted as often as they occur. Use a number or a word for it."
        )
    try:
        hash(label)
    except TypeError:
        raise TypeError(
            f"{what} hashable;{which} has the label {describe(label)}."
        ) from None


def _is_small(label: tuple[Any, ...]) -> bool:
    """Whether a nested tuple has at most MOST_PARTS parts, shared ones each time."""
    parts, pending = 0, [label]
    while pending:
        some = pending.pop()
        parts += len(some)
        if parts > MOST_PARTS:
            return False
        pending.extend(part for part in some if type(part) is tuple)
    return True


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
