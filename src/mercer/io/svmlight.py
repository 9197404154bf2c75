"""Points as text, one a line: `label index:value index:value ...  # comment`.

The format of SVMlight and LIBSVM. A line has a label (with `multilabel` a list of them,
`1,2,5`, or none), perhaps `qid:n`, then entries whose indices ascend, and perhaps a
comment. Words are separated by spaces, tabs, form feeds or carriage returns; lines end
with a line feed, the last one perhaps without. Numbers are decimal, read to the nearest
double whatever the locale. Lines that are empty, or hold a comment only, hold no point.

Everything else is an error that names file, line and column: no label, an entry without
colon, indices that do not ascend or are there twice, negative or beyond 2⁵³, numbers
that are not finite or beyond the largest double, `qid` on some lines only, and a file
without points. A number too small for a double is 0, as the nearest one.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer import _core
from mercer.native.memory import block_mb

CHUNK = 2**24  # bytes of text that are read at a time
LARGEST = 2**53  # an index; a larger one is hardly meant
LEAST_LIMIT_MB = 256.0  # of text that any compressed file may hold
MOST_RATIO = 100.0  # of the text to the compressed file, beyond that
ROWS_MB = 4.0  # of a block of rows as an array

COMPRESSED: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)

File = str | PathLike[str] | IO[bytes]


class SvmlightData(NamedTuple):
    """What a file holds: X, y, and the query of each point, or None without any.

    Attributes
    ----------
    X : (n, d) sparse array
    y : (n,) array; with `multilabel` a list of n tuples
    query_id : (n,) array, or None

    Examples
    --------
    >>> import io
    >>> from mercer.io import SvmlightData, read_svmlight
    >>> data = read_svmlight(io.BytesIO(b"1 qid:7 1:2\\n"))
    >>> isinstance(data, SvmlightData), data.query_id.tolist()
    (True, [7])
    """

    X: sp.csr_array
    y: Any
    query_id: np.ndarray | None = None


@dataclass(frozen=True)
class Dialect:
    """What a line may hold.

    Parameters
    ----------
    multilabel : whether it begins with a list of labels, or with none
    query : whether `qid:n` may follow
    blank : whether a line may hold no point
    not_finite : whether nan and inf are numbers
    largest : the largest index there may be
    """

    multilabel: bool = False
    query: bool = True
    blank: bool = True
    not_finite: bool = False
    largest: int = LARGEST

    def parsed(self, text: bytes) -> _core.ParsedText:
        """The points of whole lines."""
        return _core.parse_text(
            text,
            self.multilabel,
            self.query,
            self.blank,
            self.not_finite,
            self.largest,
        )


class MalformedLine(ValueError):
    """A line that cannot be read; `line` and `column` count from 1."""

    def __init__(self, name: str, line: int, column: int, reason: str) -> None:
        super().__init__(f"{name}, line {line}, column {column}: {reason}.")
        self.line, self.column, self.reason = line, column, reason


def read_svmlight(
    file: File,
    *,
    n_features: int | None = None,
    zero_based: bool | str = "auto",
    multilabel: bool = False,
    allow_nan: bool = False,
    max_text_mb: float | None = None,
) -> SvmlightData:
    """The points of a file in the format of SVMlight and LIBSVM.

    Parameters
    ----------
    file : path, compressed where it ends in .gz, .bz2 or .xz; or a file open in binary
    n_features : d, the columns of X; None for as many as the largest index says
    zero_based : whether the first column has index 0 and not 1; "auto" for where an
        index 0 is found
    multilabel : whether each point has a list of labels
    allow_nan : whether nan and inf are read as numbers, and not refused
    max_text_mb : the most text that a compressed file may hold; None for 100 times its
        size, and 256 MB at least

    Examples
    --------
    >>> import io
    >>> from mercer.io import read_svmlight
    >>> X, y, _ = read_svmlight(io.BytesIO(b"+1 1:0.5 3:2\\n-1 2:1 # a comment\\n"))
    >>> X.toarray().tolist(), y.tolist()
    ([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]], [1.0, -1.0])
    """
    dialect = Dialect(multilabel=multilabel, not_finite=allow_nan)
    name = name_of(file)
    with opened(file, max_text_mb) as source:
        parts = parsed_parts(source, name, dialect)
        data = gathered(parts, name, zero_based, n_features, multilabel)
    if not len(data.y):
        raise ValueError(f"{name} holds no points.")
    return data


def name_of(file: File) -> str:
    """What to call a file in a message."""
    if isinstance(file, str | PathLike):
        return fspath(file)
    return str(getattr(file, "name", "the file"))


@contextmanager
def opened(file: File, max_text_mb: float | None = None) -> Iterator[IO[bytes]]:
    """The bytes of a file; of a compressed one what it holds, up to a limit."""
    if not isinstance(file, str | PathLike):
        yield file
        return
    path = Path(file)
    decompress = COMPRESSED.get(path.suffix)
    if decompress is None:
        with open(path, "rb", buffering=0) as plain:
            yield plain
        return
    limit = max_text_mb
    if limit is None:
        limit = max(LEAST_LIMIT_MB, MOST_RATIO * path.stat().st_size / 2**20)
    with decompress(path, "rb") as inner:
        yield io.BufferedReader(_Limited(inner, limit, path), CHUNK)


class _Limited(io.RawIOBase):
    """What a compressed file holds, and an error where that is too much."""

    def __init__(self, inner: Any, limit_mb: float, path: Path) -> None:
        self.inner, self.limit_mb, self.path, self.seen = inner, limit_mb, path, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self.inner.read(min(len(buffer), 2**20))
        except (*DAMAGED, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise ValueError(
                f"{self.path} is damaged, or not compressed as its name says: "
                f"{error}. Restore the file."
            ) from error
        self.seen += len(data)
        if self.seen > self.limit_mb * 2**20:
            raise ValueError(
                f"{self.path} holds more than {self.limit_mb:g} MB of text, which is "
                "much for its size. If that is right, raise max_text_mb."
            )
        buffer[: len(data)] = data
        return len(data)


def parsed_parts(
    source: IO[bytes], name: str, dialect: Dialect, chunk: int = CHUNK
) -> Iterator[_core.ParsedText]:
    """The points of a file, a part of its lines at a time."""
    lines, rest = 0, b""
    while True:
        text = source.read(chunk)
        end = text.rfind(b"\n") + 1
        if text and not end:
            rest += text  # a line that is longer than that
            continue
        whole, rest = rest + text[:end] if text else rest, text[end:]
        if whole:
            parsed = dialect.parsed(whole)
            line, column, reason = parsed.error
            if line:
                raise MalformedLine(name, lines + line, column, reason)
            lines += parsed.lines
            yield parsed
        if not text:
            return


def table_of(
    text: bytes, first: int, divider: str, shape: tuple[int, int]
) -> np.ndarray | None:
    """The decimal numbers of a text from byte `first` on, a row on each line.

    None where it is anything but such a table; " " divides by any spaces and tabs.
    """
    numbers = np.empty(shape)
    return numbers if _core.parse_table(text, first, divider, numbers) else None


def _first_column(least: int, zero_based: bool | str, name: str) -> int:
    """The index of the first column, 0 or 1; `least` is the least there is."""
    if zero_based not in (True, False, "auto"):
        raise ValueError(
            f'zero_based is True, False or "auto"; got zero_based={zero_based!r}.'
        )
    if zero_based == "auto":
        return 0 if least == 0 else 1
    if not zero_based and least == 0:
        raise ValueError(
            f"{name} has the index 0, where indices begin at 1. Pass zero_based=True."
        )
    return 0 if zero_based else 1


class _Growing:
    """An array that grows part by part, in place where the system can move pages.

    Parts and the whole are then never in memory at the same time.
    """

    def __init__(self, dtype: npt.DTypeLike, first: Sequence[int] = ()) -> None:
        self.array: Any = np.array(first, dtype=dtype)

    def more(self, count: int) -> Any:
        """Room for so many more."""
        size = len(self.array)
        self.array.resize(size + count, refcheck=False)
        return self.array[size:]


def gathered(
    parts: Iterable[_core.ParsedText],
    name: str,
    zero_based: bool | str = True,
    n_features: int | None = None,
    multilabel: bool = False,
) -> SvmlightData:
    """The points of all parts, each of which is let go before the next is read."""
    labels, values, columns = _Growing(float), _Growing(float), _Growing(np.int32)
    ends, label_ends = _Growing(np.int64, [0]), _Growing(np.int64, [0])
    query, queries, least, most = _Growing(np.int64), 0, LARGEST, -1
    for part in parts:
        if part.most >= 2**31 and columns.array.dtype == np.int32:
            columns.array = columns.array.astype(np.int64)
        if multilabel:
            part.label_ends(label_ends.more(part.rows), len(labels.array))
        part.labels(labels.more(part.n_labels))
        part.row_ends(ends.more(part.rows), len(values.array))
        part.values(values.more(part.entries))
        part.columns(columns.more(part.entries), 0)
        queries += part.with_query
        if queries:
            part.query(query.more(part.rows))
        least, most = min(least, part.least), max(most, part.most)
    n = len(ends.array) - 1
    if queries not in (0, n):
        raise ValueError(
            f"{name} has qid on {queries} of its {n} points; it is on all or on none."
        )
    first = _first_column(least, zero_based, name)
    columns.array -= first
    shape = n, _width(most, first, n_features, name)
    wide = max(len(values.array), *shape) >= 2**31
    index = np.int64 if wide else np.int32  # of one type, or scipy copies both
    entries = (
        columns.array.astype(index, copy=False),
        ends.array.astype(index, copy=False),
    )
    X = sp.csr_array((values.array, *entries), shape=shape, copy=False)
    y: Any = labels.array
    if multilabel:
        y = [
            tuple(sorted(labels.array[begin:end].tolist()))
            for begin, end in pairwise(label_ends.array.tolist())
        ]
    return SvmlightData(X, y, query.array if queries else None)


def _width(most: int, first: int, n_features: int | None, name: str) -> int:
    d = most + 1 - first
    if n_features is None:
        return max(0, d)
    if n_features < d:
        raise ValueError(
            f"{name} has the index {most}, which is column {d} of n_features="
            f"{n_features}. Raise n_features, or leave it out."
        )
    return n_features


@dataclass(frozen=True)
class SvmlightBlocks:
    """The points of a file as arrays, some rows at a time, for machines that stream.

    `mercer.data.as_blocks` and the machines take it as it is; `blocks` reads the file
    anew whenever it is called. Arrays hold the zeros too: d is to be moderate.

    Parameters
    ----------
    file : path, as of `read_svmlight`
    n_features : d
    zero_based : whether the first column has index 0 and not 1

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from mercer.io import SvmlightBlocks
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "points.svm"
    ...     _ = path.write_text("1 1:2\\n-1 2:3\\n")
    ...     X = SvmlightBlocks(path, n_features=2)
    ...     [block.tolist() for block in X.blocks()], X.target().tolist()
    ([[[2.0, 0.0], [0.0, 3.0]]], [1.0, -1.0])
    """

    file: str | PathLike[str]
    n_features: int
    zero_based: bool = False
    max_text_mb: float | None = None

    def blocks(self) -> Iterator[np.ndarray]:
        """(rows, d) arrays, one after another."""
        step = max(1, int(block_mb(ROWS_MB) * 2**20 / (8 * max(1, self.n_features))))
        for X, _ in self.sparse_blocks():
            for begin in range(0, X.shape[0], step):
                yield X[begin : begin + step].toarray()

    def sparse_blocks(self) -> Iterator[tuple[sp.csr_array, np.ndarray]]:
        """X and y of some rows after others."""
        name, found = name_of(self.file), False
        with opened(self.file, self.max_text_mb) as source:
            for parsed in parsed_parts(source, name, Dialect()):
                if not parsed.rows:
                    continue
                found = True
                data = gathered([parsed], name, self.zero_based, self.n_features)
                yield data.X, data.y
        if not found:
            raise ValueError(f"{name} holds no points.")

    def target(self) -> np.ndarray:
        """The labels of all points, (n,)."""
        return np.concatenate([y for _, y in self.sparse_blocks()])


def write_svmlight(
    file: File,
    X: Any,
    y: npt.ArrayLike | Sequence[Sequence[float]],
    *,
    query_id: npt.ArrayLike | None = None,
    zero_based: bool = False,
) -> None:
    """Write points and their labels as text that reads back to the same numbers.

    A number has the fewest digits that do so, 17 at most; zeros are left out.

    Parameters
    ----------
    file : path, compressed where it ends in .gz, .bz2 or .xz; or a file open in binary
    X : (n, d) array or sparse array
    y : n labels, or n lists of them
    query_id : n whole numbers, written as `qid:n`
    zero_based : whether the first column has index 0 and not 1

    Examples
    --------
    >>> import io
    >>> from mercer.io import write_svmlight
    >>> file = io.BytesIO()
    >>> write_svmlight(file, [[0.1, 0, 2], [0, 0, 1e-9]], [1, -1])
    >>> file.getvalue()
    b'1 1:0.1 3:2\\n-1 3:1e-09\\n'
    """
    matrix, labels, query = _checked(X, y, query_id)
    first = 0 if zero_based else 1
    with _written(file) as target:
        step = max(1, int(CHUNK / 16 / max(1.0, matrix.nnz / max(1, matrix.shape[0]))))
        for begin in range(0, matrix.shape[0], step):
            part = slice(begin, begin + step)
            text = formatted(
                matrix[part],
                None if isinstance(labels, list) else labels[part],
                query=None if query is None else query[part],
                first=first,
            )
            if isinstance(labels, list):
                lists = (",".join(map(_shortest, one)) for one in labels[part])
                lines = zip(lists, text.split(b"\n"), strict=False)
                text = b"".join(
                    one.encode() + b" " + rest + b"\n" for one, rest in lines
                )
            target.write(text)


def _checked(
    X: Any, y: Any, query_id: npt.ArrayLike | None
) -> tuple[sp.csr_array, Any, np.ndarray | None]:
    """X, the labels and the queries, in the types that are written."""
    matrix = sp.csr_array(X if sp.issparse(X) else np.asarray(X, dtype=float))
    matrix = matrix.astype(float)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if not matrix.data.all():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    lists = len(y) and isinstance(y[0], Sequence | np.ndarray)
    labels = list(y) if lists else np.asarray(y, dtype=float)
    query = None if query_id is None else np.asarray(query_id, dtype=np.int64)
    for what, given in (("y", labels), ("query_id", query)):
        if given is not None and len(given) != matrix.shape[0]:
            raise ValueError(
                f"write_svmlight needs {what} of each point: X has {matrix.shape[0]} "
                f"of them, and {what} {len(given)}."
            )
    numbers = np.concatenate([np.ravel(one) for one in labels]) if lists else labels
    if not (np.isfinite(matrix.data).all() and np.isfinite(numbers).all()):
        raise ValueError("write_svmlight needs finite numbers in X and y.")
    return matrix, labels, query


def _shortest(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


def formatted(
    X: sp.csr_array,
    labels: np.ndarray | None,
    *,
    query: np.ndarray | None = None,
    first: int = 0,
    label_precision: int = 0,
    value_precision: int = 0,
    trailing_space: bool = False,
) -> bytes:
    """Lines of text; a precision 0 stands for the fewest digits.

    Parameters
    ----------
    labels : (n,) or (n, q) array, what begins each line; None for nothing
    first : the index of the first column
    """
    columns = np.empty((X.shape[0], 0)) if labels is None else labels
    if columns.ndim == 1:
        columns = columns[:, None]
    return _core.format_text(
        np.ascontiguousarray(X.indptr, dtype=np.int64),
        np.ascontiguousarray(X.indices, dtype=np.int64),
        np.ascontiguousarray(X.data, dtype=float),
        np.ascontiguousarray(columns, dtype=float),
        np.empty(0, dtype=np.int64) if query is None else query,
        first,
        label_precision,
        value_precision,
        trailing_space,
    )


@contextmanager
def _written(file: File) -> Iterator[Any]:
    if not isinstance(file, str | PathLike):
        yield file
        return
    path = Path(file)
    with COMPRESSED.get(path.suffix, open)(path, "wb") as target:
        yield target
