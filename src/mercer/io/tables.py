"""Tables: CSV and TSV, numpy's files; a target column, types from the values.

A column is of numbers where all its cells are; of words where few different ones come
again and again; else of text. A column of numbers with a few cells that are none is an
error that names them, not a column of words.
"""

from __future__ import annotations

import codecs
import math
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mercer.io.cells import WORDS, Row, divider_of, split_rows, transposed
from mercer.io.dataset import Dataset
from mercer.io.files import (
    Source,
    decoded,
    finite,
    most_bytes,
    read_bytes,
    refused,
    refusing,
    shown,
    suffix_of,
)
from mercer.io.svmlight import table_of

MISSING = frozenset(["", "na", "n/a", "nan", "null", "none", "?", "."])
TYPES = ("numbers", "words", "text")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+$")
_STRAY = 0.1  # the share of cells up to which those that are no numbers are mistakes
_FEW = 20  # different words, at least, that a column of words may have
_LONGEST = 40  # characters of a word
_ARRAY = b"\x93NUMPY"  # how an .npy begins
_HEAD = 60  # lines that tell what a table of numbers is like
_NAMED = 3  # missing values that an error names

Name = str | int


@dataclass(frozen=True, eq=False)
class Column:
    """One column: its name, its cells as text, and what they are."""

    name: str
    number: int  # in the file, from 1 on
    cells: Sequence[str]
    lines: Sequence[int]  # of the file
    path: Source
    read: np.ndarray | None = None  # numbers in place of cells, where all are plain

    def error(self, i: int, reason: str) -> ValueError:
        return refused(self.path, reason, self.lines[i], self.number, self.name)

    @cached_property
    def numbers(self) -> np.ndarray | None:
        """The cells as numbers, NaN where one is missing; None for another column.

        Where nearly all are numbers, the first that is none is an error.
        """
        if self.read is not None:
            return self.read
        quick = _as_floats(self.cells)
        if quick is not None and np.isfinite(quick).all():
            return quick
        values = [_number(cell) for cell in self.cells]
        wrong = [i for i, value in enumerate(values) if value is None]
        right = sum(value is not None and not math.isnan(value) for value in values)
        if not right or (wrong and len(wrong) > _STRAY * right):
            commas = [i for i in wrong if _DECIMAL_COMMA.match(self.cells[i].strip())]
            if commas and len(commas) == len(wrong):
                i = commas[0]
                raise self.error(
                    i, f"{shown(self.cells[i])} has a decimal comma; pass decimal=','."
                )
            return None
        if wrong:
            i = wrong[0]
            raise self.error(
                i,
                f"{shown(self.cells[i])} is no finite number, while {right} cells of "
                f"this column are. Correct it, or pass types={{{self.name!r}: "
                "'words'}.",
            )
        return np.array(values)

    def kind(self) -> str:
        """numbers, words or text."""
        if self.numbers is not None:
            return "numbers"
        different = set(self.cells)
        few = len(different) <= max(_FEW, len(self.cells) // 10)
        again = len(different) < len(self.cells) or len(self.cells) <= 2
        short = max(map(len, different)) <= _LONGEST
        return "words" if few and again and short else "text"

    def values(self, kind: str) -> np.ndarray | list[str]:
        """The cells as what they are."""
        if kind != "numbers":
            return list(self.cells)
        found = self.numbers
        if found is None:
            places = (i for i, cell in enumerate(self.cells) if _number(cell) is None)
            i = next(places, 0)
            raise self.error(i, f"{shown(self.cells[i])} is no number.")
        return found

    def missing(self, kind: str) -> list[int]:
        """Where cells are empty, or stand for numbers that are not there."""
        if kind == "numbers":
            return np.flatnonzero(np.isnan(self.values(kind))).tolist()
        return [i for i, cell in enumerate(self.cells) if not cell.strip()]


def _as_floats(cells: Sequence[str]) -> np.ndarray | None:
    """All cells as numbers at once; None where one is none, or odd."""
    joined = "".join(cells)
    if "_" in joined or not joined.isascii():  # Python reads 1_000, and other digits
        return None
    try:
        return np.array(list(map(float, cells)))
    except ValueError:
        return None


def _number(cell: str) -> float | None:
    """A cell as a number, NaN where it stands for a missing one, None for others."""
    text = cell.strip()
    return math.nan if text.lower() in MISSING else finite(text)


def read_csv(
    path: Source,
    target: Name | None = None,
    *,
    columns: Sequence[Name] | None = None,
    drop: Sequence[Name] = (),
    header: bool | None = None,
    divider: str | None = None,
    decimal: str = ".",
    types: Mapping[str, str] | None = None,
    missing: str = "refuse",
    limit: float | None = None,
) -> Dataset:
    """A table of text as a `Dataset`: divider, header and types are told by themselves.

    A table of numbers gives an (n, d) array; one column of text, a list of strings;
    anything else, records: a dictionary for each row.

    Parameters
    ----------
    path : of the file, which may be compressed (gz, bz2, xz)
    target : the column that is to be learnt, by its name or its number from 0 on
    columns, drop : the columns that points have; those left out
    header : whether the first row names the columns; None to tell by the rows below
    divider : such as "," or ";"; " " for any white space; None to tell by the rows
    decimal : the sign in numbers, "." or ","
    types : of columns, by name: "numbers", "words" or "text"
    missing : what to do about missing values: "refuse", which names their places;
        "drop" for rows left out, which is noted; "keep" for NaN and empty words
    limit : bytes that the file may have, unpacked; None for half of the memory

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from mercer.io import read_csv
    >>> path = pathlib.Path(tempfile.mkdtemp(), "fruit.csv")
    >>> _ = path.write_text("weight,colour,fruit\\n120,red,apple\\n9,red,cherry\\n")
    >>> data = read_csv(path, target="fruit")
    >>> data.points[0], data.target.tolist()
    ({'weight': 120.0, 'colour': 'red'}, ['apple', 'cherry'])
    >>> data.kernel
    On(field=['weight'], kernel=RBF(gamma=None)) + On(field=['colour'], ...
    """
    check_choice("missing", missing, ("refuse", "drop", "keep"))
    check_choice("decimal", decimal, (".", ","))
    raw = read_bytes(path, limit)
    if decimal == "." and not set((types or {}).values()) - {"numbers"}:
        if (plain := _plain_table(raw, divider, header, target, path)) is not None:
            made, note = plain
            data = dataset_of(made, target, columns, drop, types or {}, missing, path)
            return replace(data, notes=(note, *data.notes))
    text = decoded(raw, path)
    divider = divider or divider_of(text, suffix_of(path))
    rows, lines = split_rows(text, divider, path)
    if not rows:
        raise refused(path, "has no rows.")
    if decimal == ",":
        rows = [[_with_point(cell) for cell in row] for row in rows]
    names, rows, lines = _named(rows, lines, header, target, path)
    made = [
        Column(name, j + 1, cells, lines, path)
        for j, (name, cells) in enumerate(zip(names, transposed(rows), strict=True))
    ]
    data = dataset_of(made, target, columns, drop, types or {}, missing, path)
    return replace(data, notes=(_shape(len(rows), len(names), divider), *data.notes))


def _shape(rows: int, cells: int, divider: str) -> str:
    return f"{rows} rows of {cells} cells, divided by {WORDS.get(divider)}"


def _plain_table(
    raw: bytes,
    divider: str | None,
    header: bool | None,
    target: Name | None,
    path: Source,
) -> tuple[list[Column], str] | None:
    """The columns of a table of numbers alone, perhaps below their names; else None.

    The compiled core reads them, to the same numbers. Whatever else there is, quotes,
    words, gaps or mistakes, is left to those who read cell by cell.
    """
    raw = raw.removeprefix(codecs.BOM_UTF8)
    head = _first_lines(raw)
    if head is None:
        return None
    divider = divider or divider_of(head, suffix_of(path))
    if len(divider) != 1 or not divider.isascii():
        return None
    two = [
        line.split() if divider == " " else line.split(divider)
        for line in head.split("\n", 2)[:2]
    ]
    if len({len(cells) for cells in two}) > 1:
        return None
    if header is None:
        header = _is_header([cell.strip() for cell in two[0]], two[1:], target)
    first = raw.find(b"\n") + 1 if header else 0
    rows = raw.count(b"\n", first) + (not raw.endswith(b"\n"))
    # A cell takes two bytes at least: no more room is asked for than the file says.
    if not rows or 2 * rows * len(two[0]) > len(raw) + 1:
        return None
    numbers = table_of(raw, first, divider, (rows, len(two[0])))
    if numbers is None:
        return None
    names, _, _ = _named(two, [1, 2], header, target, path)
    made = [
        Column(name, j + 1, (), (), path, numbers[:, j]) for j, name in enumerate(names)
    ]
    return made, _shape(rows, len(names), divider)


def _first_lines(raw: bytes) -> str | None:
    """As many lines as tell divider and header; None where they are not plain."""
    end = -1
    for _ in range(_HEAD):
        end = raw.find(b"\n", end + 1)
        if end < 0:
            break
    try:
        head = raw[: end + 1 if end >= 0 else None].decode().replace("\r\n", "\n")
    except UnicodeDecodeError:
        return None
    return None if any(sign in head for sign in '"\0\r') else head


def check_choice(what: str, given: Any, choices: Sequence[str]) -> None:
    if given not in choices:
        wanted = ", ".join(map(repr, choices))
        raise ValueError(f"{what} is one of {wanted}; got {given!r}.")


def _with_point(cell: str) -> str:
    return cell.replace(",", ".") if _DECIMAL_COMMA.match(cell.strip()) else cell


# Names


def _named(
    rows: list[Row],
    lines: list[int],
    header: bool | None,
    target: Name | None,
    path: Source,
) -> tuple[list[str], list[Row], list[int]]:
    """The names of the columns, and the rows below them."""
    first = [cell.strip() for cell in rows[0]]
    if header is None:
        header = _is_header(first, rows[1:], target)
    if not header:
        return [f"column{j}" for j in range(len(first))], rows, lines
    for j, name in enumerate(first):
        if not name:
            raise refused(path, "the column has no name.", lines[0], j + 1)
        if first.index(name) < j:
            raise refused(
                path,
                f"the name {shown(name)} stands for column {first.index(name) + 1} "
                "too. Give the columns different names.",
                lines[0],
                j + 1,
            )
    if len(rows) == 1:
        raise refused(path, "has names of columns, and no rows below them.", lines[0])
    return first, rows[1:], lines[1:]


def _is_header(first: Row, below: list[Row], target: Name | None) -> bool:
    """Whether the first row names the columns: its cells are unlike those below."""
    if isinstance(target, str) and target in first:
        return True
    if not below or any(_number(cell) is not None for cell in first if cell):
        return False
    columns = transposed(below)
    if any(_mostly_numbers(cells) for cells in columns):
        return True
    # Words alone: names do not come again, where other words do.
    if not all(first):
        return False
    again = [
        (name, set(cells))
        for name, cells in zip(first, columns, strict=True)
        if len(set(cells)) <= len(cells) / 2
    ]
    return bool(again) and all(name not in words for name, words in again)


def _mostly_numbers(cells: Sequence[str]) -> bool:
    found = [_number(cell) for cell in cells[:1000]]
    right = sum(value is not None and not math.isnan(value) for value in found)
    return right > 0 and sum(value is None for value in found) <= _STRAY * right


def _place(name: Name, names: Sequence[str], what: str, path: Source) -> int:
    """The number of a column that is named, or numbered."""
    if isinstance(name, str) and name in names:
        return names.index(name)
    try:
        return range(len(names))[int(name)]
    except (ValueError, IndexError):
        some = ", ".join(map(shown, names[:8])) + (", ..." if len(names) > 8 else "")
        raise refused(
            path,
            f"has no column {name!r} for {what}; its {len(names)} columns are {some}.",
        ) from None


# From columns to points


def dataset_of(
    made: Sequence[Column],
    target: Name | None,
    columns: Sequence[Name] | None,
    drop: Sequence[Name],
    types: Mapping[str, str],
    missing: str,
    path: Source,
) -> Dataset:
    """The points and the target that columns make; parameters as of `read_csv`."""
    names = [column.name for column in made]
    for name, kind in types.items():
        _place(name, names, "types", path)
        check_choice(f"types[{name!r}]", kind, TYPES)
    at = None if target is None else _place(target, names, "target", path)
    left_out = {_place(name, names, "drop", path) for name in drop} | {at}
    if columns is not None:
        chosen = [_place(name, names, "columns", path) for name in columns]
    else:
        chosen = list(range(len(made)))
    chosen = [j for j in chosen if j not in left_out]
    if not chosen:
        raise refused(path, "has no column left for the points.")
    used = chosen if at is None else [*chosen, at]
    kinds = {j: types.get(names[j]) or made[j].kind() for j in used}
    kept, notes = _complete([made[j] for j in used], kinds, used, missing)
    some = dict(zip(used, kept, strict=True))
    points, kind = _points([(names[j], kinds[j], some[j]) for j in chosen])
    return Dataset(
        points,
        None if at is None else as_target(some[at].values(kinds[at])),
        tuple(names[j] for j in chosen),
        kind,
        types={names[j]: kinds[j] for j in chosen},
        target_name=None if at is None else names[at],
        notes=notes,
    )


def _complete(
    made: Sequence[Column], kinds: Mapping[int, str], used: Sequence[int], how: str
) -> tuple[Sequence[Column], tuple[str, ...]]:
    """The columns without missing values, or as they are, where these may be kept."""
    if how == "keep":
        return made, ()
    gaps = [
        (i, column)
        for j, column in zip(used, made, strict=True)
        for i in column.missing(kinds[j])
    ]
    if not gaps:
        return made, ()
    gaps.sort(key=lambda gap: (gap[0], gap[1].number))
    rows = {i for i, _ in gaps}
    if how == "drop" and len(rows) < len(made[0].cells):
        keep = [i for i in range(len(made[0].cells)) if i not in rows]
        note = f"{len(rows)} rows with missing values were left out"
        return [_taken(column, keep) for column in made], (note,)
    i, column = gaps[0]
    more = "; ".join(
        f"line {c.lines[i]}, column {c.number} ({shown(c.name)})"
        for i, c in gaps[1:_NAMED]
    )
    raise column.error(
        i,
        f"a value is missing, one of {len(gaps)} in {len(rows)} rows"
        + (f" ({more}{'; ...' if len(gaps) > _NAMED else ''})" if more else "")
        + ". Fill them in, or leave these rows out: missing='drop'.",
    )


def _taken(column: Column, keep: Sequence[int]) -> Column:
    return replace(
        column,
        cells=[column.cells[i] for i in keep],
        lines=[column.lines[i] for i in keep],
    )


def _points(chosen: Sequence[tuple[str, str, Column]]) -> tuple[Any, str]:
    """The points that columns make, and their kind."""
    values = [column.values(kind) for _, kind, column in chosen]
    if all(kind == "numbers" for _, kind, _ in chosen):
        return np.column_stack(values), "numbers"
    if len(chosen) == 1 and chosen[0][1] == "text":
        return values[0], "text"
    names = [name for name, _, _ in chosen]
    lists = [v.tolist() if isinstance(v, np.ndarray) else v for v in values]
    rows = zip(*lists, strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows], "records"


def as_target(values: Any) -> np.ndarray:
    """Targets as an array: whole numbers where all are, floats, or words."""
    if not isinstance(values, np.ndarray):
        return np.array(values, dtype=np.str_)
    if values.dtype.kind != "f":
        return values
    whole = np.isfinite(values).all() and np.all(values % 1 == 0)
    small = whole and bool(np.all(np.abs(values) < 2**53))
    return values.astype(np.int64) if small else values


# Arrays


def read_numpy(
    path: Source,
    target: Name | None = None,
    *,
    points: str | None = None,
    drop: Sequence[Name] = (),
    limit: float | None = None,
) -> Dataset:
    """Points of an .npy or .npz file; objects (pickles) are refused.

    Parameters
    ----------
    target : in an .npz the name of an array (default: "y", or "y_train"), in an .npy
        the number of a column
    points : in an .npz the name of the array of points (default: "X", or "X_train")
    drop : numbers of columns left out
    limit : bytes that the arrays may take; None for half of the memory

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from mercer.io import read_numpy
    >>> path = pathlib.Path(tempfile.mkdtemp(), "data.npz")
    >>> np.savez(path, X=np.eye(3), y=np.arange(3))
    >>> data = read_numpy(path)
    >>> data.points.shape, data.target.tolist()
    ((3, 3), [0, 1, 2])
    """
    limit = most_bytes() if limit is None else limit
    with Path(path).open("rb") as file:
        is_array = file.read(len(_ARRAY)) == _ARRAY
    if is_array:
        loaded = _loaded(path, limit)
        found, y, name = _from_npy(loaded, target, path)
    else:
        found, y, name = _from_npz(path, target, points, limit)
    X = _checked_points(found, path)
    if y is not None and len(y) != len(X):
        raise refused(path, f"has {len(X)} points and {len(y)} targets ({name!r}).")
    if drop:
        names = [f"column{j}" for j in range(X.shape[1])]
        X = np.delete(X, [_place(n, names, "drop", path) for n in drop], axis=1)
    target_array = None if y is None else _checked_target(y, path)
    return Dataset(X, target_array, kind="numbers", target_name=name)


def _loaded(path: Source, limit: float) -> Any:
    with refusing(path, "is no array that can be read"):
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    if mapped.nbytes > limit:
        raise refused(path, f"has more than {limit:,.0f} bytes. Pass a larger limit.")
    return np.array(mapped)


def _from_npz(
    path: Source, target: Name | None, points: str | None, limit: float
) -> tuple[Any, Any, str | None]:
    with refusing(path, "is no archive of arrays"):
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > limit:
            raise refused(path, f"unpacks to {size:,} bytes, more than {limit:,.0f}.")
        # Opened here: of a damaged archive, numpy leaves its own file open.
        with (
            Path(path).open("rb") as file,
            np.load(file, allow_pickle=False) as arrays,
        ):
            names = list(arrays)
            X_name = points or next((n for n in ("X", "X_train") if n in names), None)
            y_name = target
            if y_name is None:
                usual = {"X": "y", "X_train": "y_train"}.get(str(X_name), "y")
                y_name = usual if usual in names else None
            for name, what in ((X_name, "points"), (y_name, "target")):
                if name not in names and (name is not None or what == "points"):
                    raise refused(
                        path,
                        f"has no array {name!r} for {what}; its arrays are "
                        f"{', '.join(names)}.",
                    )
            y = None if y_name is None else arrays[str(y_name)]
            return arrays[str(X_name)], y, None if y_name is None else str(y_name)


def _from_npy(
    loaded: np.ndarray, target: Name | None, path: Source
) -> tuple[Any, Any, str | None]:
    if target is None:
        return loaded, None, None
    if loaded.ndim != 2:
        raise refused(
            path, f"has shape {loaded.shape}; a target is a column of (n, d)."
        )
    names = [f"column{j}" for j in range(loaded.shape[1])]
    j = _place(target, names, "target", path)
    return np.delete(loaded, j, axis=1), loaded[:, j], names[j]


def _checked_points(X: np.ndarray, path: Source) -> np.ndarray:
    if X.dtype.kind not in "biuf":
        raise refused(path, f"holds points of type {X.dtype}; numbers are needed.")
    if X.ndim > 2:
        X = X.reshape(len(X), -1)  # pictures, say: their numbers in a row
    if X.ndim != 2 or 0 in X.shape:
        raise refused(path, f"has points of shape {X.shape}; (n, d) is needed.")
    if X.dtype.kind == "f" and not np.isfinite(X).all():
        i, j = np.argwhere(~np.isfinite(X))[0]
        raise refused(path, f"row {i}, column {j}: {X[i, j]} is no finite number.")
    return X


def _checked_target(y: np.ndarray, path: Source) -> np.ndarray:
    if y.dtype.kind not in "biufU":
        raise refused(
            path, f"holds targets of type {y.dtype}; numbers or words needed."
        )
    if y.ndim != 1:
        raise refused(path, f"has targets of shape {y.shape}; (n,) is needed.")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        i = int(np.flatnonzero(~np.isfinite(y))[0])
        raise refused(path, f"the target of row {i} is {y[i]}, no finite number.")
    return as_target(y.astype(float) if y.dtype.kind == "f" else y)
