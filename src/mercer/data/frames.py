"""Data frames and their columns (pandas, polars and others), through narwhals."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np

if TYPE_CHECKING:
    from narwhals import Series


_LIBRARIES = ("pandas", "polars", "pyarrow")  # of frames that can be made anew
_KINDS: dict[str, Any] = {"": None, "String": nw.String, "Object": nw.Object}


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of any library narwhals knows."""
    # Called for every array, most of which are no frames; narwhals is slow to tell.
    return not isinstance(X, np.ndarray) and nw.dependencies.is_into_dataframe(X)


def is_series(X: Any) -> bool:
    """Whether X is a column of a data frame."""
    return not isinstance(X, np.ndarray) and nw.dependencies.is_into_series(X)


def opened(X: Any) -> nw.DataFrame[Any]:
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


def cloned_frame(X: Any) -> Any:
    """A copy of a data frame."""
    return opened(X).clone().to_native()


def frame_columns(X: Any) -> Iterator[np.ndarray]:
    """The columns of a data frame as arrays, of its own memory where that can be."""
    return (series.to_numpy() for series in opened(X).iter_columns())


def frame_columns_by_name(X: Any) -> tuple[str, list[tuple[Any, str, Any]]]:
    """The library of a data frame, and the name, kind and values of each column.

    Values are those that kernels read: numbers as an array, of the kind "", NaN where
    one is missing; others as a list, of the kind "String" or "Object", None there.
    """
    frame = opened(X)
    library = str(frame.implementation)
    if library not in _LIBRARIES:
        raise TypeError(
            f"Data frames of {', '.join(_LIBRARIES)} can be taken apart; got one of "
            f"{library}. Convert it."
        )
    columns = [(one.name, column(one)) for one in frame.iter_columns()]
    return library, [(name, _kind_of(values), values) for name, values in columns]


def _kind_of(values: np.ndarray | list[Any]) -> str:
    if isinstance(values, np.ndarray):
        return ""
    texts = all(value is None or isinstance(value, str) for value in values)
    return "String" if texts else "Object"


def frame_of_columns(library: Any, columns: Sequence[tuple[Any, str, Any]]) -> Any:
    """The data frame that `frame_columns_by_name` took apart."""
    if library not in _LIBRARIES:
        raise ValueError(f"{library!r:.40} makes no data frames")
    made = [
        nw.new_series(name, values, _KINDS[kind], backend=library)
        for name, kind, values in columns
    ]
    return nw.concat([one.to_frame() for one in made], how="horizontal").to_native()


def holds_numbers(X: Any) -> bool:
    """Whether all columns of a data frame are of numbers, some perhaps missing."""
    return all(map(_is_of_numbers, opened(X).iter_columns()))


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


def frame_rows(X: Any, rows: np.ndarray) -> Any:
    """The rows of a data frame with these numbers."""
    return opened(X)[rows.tolist()].to_native()


def joined_frames(X: Any, Y: Any) -> Any:
    """The rows of one data frame, then those of another."""
    return nw.concat([opened(X), opened(Y)], how="vertical").to_native()


def double_frame(X: Any) -> Any:
    """A data frame with float64 numbers for its float32 ones."""
    frame = nw.from_native(X, eager_only=True)
    narrow = [name for name in frame.columns if frame.schema[name] == nw.Float32]
    if not narrow:
        return X
    return frame.with_columns(nw.col(*narrow).cast(nw.Float64)).to_native()


def series_values(X: Any) -> np.ndarray | list[Any]:
    """A column that stands alone: numbers as an array, anything else as a list."""
    return column(nw.from_native(X, series_only=True))


def column(series: Series[Any]) -> np.ndarray | list[Any]:
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


def listed(series: Series[Any]) -> list[Any]:
    """A column as a list."""
    values = column(series)
    return values.tolist() if isinstance(values, np.ndarray) else values


def plain_frame(X: Any) -> Any:
    """A data frame of numbers with float64 for what arrays would hold as objects."""
    frame = opened(X)
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
