"""svm-scale: every column moved and stretched to the same range, by LIBSVM's formulas.

The file is read twice, some megabytes at a time. A value v of a column whose least and
largest values are a and b becomes lower + (upper - lower) (v - a) / (b - a); columns of
one value are left out, and so are zeros.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from mercer.cli.options import Refused, ScaleOptions
from mercer.cli.svm_text import DIALECT, malformed
from mercer.io.svmlight import MalformedLine, formatted, gathered, opened, parsed_parts

ROWS_MB = 16.0  # of rows with all their zeros


def run(options: ScaleOptions) -> int:
    """Print the scaled points."""
    try:
        ranges = _Ranges.of(options)
        if options.restore_file is not None:
            ranges.restore(options.restore_file, options)
        ranges.warn(options)
        if options.save_file is not None:
            ranges.save(options.save_file)
        written = _write(ranges, options.data_file)
    except MalformedLine as error:
        raise malformed(error) from error
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise Refused(f"can't open file {error.filename}") from error
    except ValueError as error:
        raise Refused(str(error)) from error
    if written > ranges.entries:
        sys.stderr.write(
            f"WARNING: original #nonzeros {ranges.entries}\n"
            f"       > new      #nonzeros {written}\n"
            "If feature values are non-negative and sparse, use -l 0 rather than the "
            "default -l -1\n"
        )
    return 0


def _parts(path: str) -> Iterator[tuple[sp.csr_array, np.ndarray]]:
    with opened(path) as source:
        for parsed in parsed_parts(source, path, DIALECT):
            X, y, _ = gathered([parsed], path)
            yield X, y


@dataclass
class _Ranges:
    """The least and the largest value of each column, and where they go.

    Columns are known by their indices; index 0 counts only where it is there.
    """

    least: np.ndarray
    most: np.ndarray
    lower: float
    upper: float
    y_range: tuple[float, float] | None  # where labels go
    y_least: float = np.inf
    y_most: float = -np.inf
    entries: int = 0
    has_zero_index: bool = False

    @classmethod
    def of(cls, options: ScaleOptions) -> _Ranges:
        """Those of the points of a file."""
        found = cls(
            np.empty(0), np.empty(0), options.lower, options.upper, options.y_range
        )
        counts, n = np.empty(0, dtype=np.int64), 0
        for X, y in _parts(options.data_file):
            found.widen(X.shape[1])
            counts = np.concatenate([counts, np.zeros(X.shape[1], dtype=np.int64)])
            counts = counts[: len(found.least)]
            np.minimum.at(found.least, X.indices, X.data)
            np.maximum.at(found.most, X.indices, X.data)
            counts += np.bincount(X.indices, minlength=len(counts))
            found.entries += X.nnz
            found.y_least = min(found.y_least, float(y.min()))
            found.y_most = max(found.y_most, float(y.max()))
            n += len(y)
        if not n:
            raise Refused("ERROR: failed to read labels")
        found.has_zero_index = bool(counts[:1].any())
        some = counts < n  # columns with points that do not name them, and are 0 there
        some[:1] = False
        found.least[some] = np.minimum(found.least[some], 0)
        found.most[some] = np.maximum(found.most[some], 0)
        return found

    def widen(self, width: int) -> None:
        """Make room for columns up to this number; nothing is known of new ones."""
        more = width - len(self.least)
        if more > 0:
            self.least = np.concatenate([self.least, np.full(more, np.inf)])
            self.most = np.concatenate([self.most, np.full(more, -np.inf)])

    def warn(self, options: ScaleOptions) -> None:
        if not self.has_zero_index:
            return
        sys.stderr.write(
            "WARNING: minimal feature index is 0, but indices should start from 1\n"
        )
        if options.save_file is not None:
            sys.stderr.write(
                "WARNING: scaling factors with indices smaller than 1 are not stored "
                f"to the file {options.save_file}.\n"
            )

    def restore(self, path: str, options: ScaleOptions) -> None:
        """Take them from a file that `save` wrote."""
        with open(path, encoding="ascii", errors="backslashreplace") as file:
            lines = _Lines(path, [line.split() for line in file if line.strip()])
        if lines.next_is("y"):
            low, high = lines.numbers(2)
            self.y_range = low, high
            self.y_least, self.y_most = lines.numbers(2)
        if not lines.next_is("x"):
            raise Refused(f"ERROR: failed to read scaling parameters\n{path} has no x.")
        self.lower, self.upper = lines.numbers(2)
        known: dict[int, tuple[float, float]] = {}
        while lines.rest:
            index, least, most = lines.numbers(3)
            if index != int(index) or not 1 <= index < 2**31:
                raise lines.wrong(f"{index:g} is not an index")
            known[int(index)] = least, most
        self.widen(1 + max(known, default=0))
        differ = np.flatnonzero(self.least != self.most)
        empty = np.isinf(self.least)
        for j in differ.tolist():
            if j and j not in known and not empty[j]:
                sys.stderr.write(
                    f"WARNING: feature index {j} appeared in file {options.data_file} "
                    f"was not seen in the scaling factor file {path}. The feature is "
                    "scaled to 0.\n"
                )
        lost = np.ones(len(self.least), dtype=bool)
        lost[[0, *known]] = False
        self.least[lost] = self.most[lost] = 0
        for j, (least, most) in known.items():
            self.least[j], self.most[j] = least, most

    def save(self, path: str) -> None:
        """Write them so that they read back the same."""
        with open(path, "w", encoding="ascii") as file:
            if self.y_range is not None:
                low, high = self.y_range
                file.write(f"y\n{low:.17g} {high:.17g}\n")
                file.write(f"{self.y_least:.17g} {self.y_most:.17g}\n")
            file.write(f"x\n{self.lower:.17g} {self.upper:.17g}\n")
            for j in np.flatnonzero(self.least != self.most).tolist():
                if j:
                    file.write(f"{j} {self.least[j]:.17g} {self.most[j]:.17g}\n")

    def scaled(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Values of these columns, where they go."""
        return _moved(
            values, self.least[columns], self.most[columns], self.lower, self.upper
        )

    def labels(self, y: np.ndarray) -> np.ndarray:
        """Labels, where they go."""
        if self.y_range is None:
            return y
        least, most = np.full_like(y, self.y_least), np.full_like(y, self.y_most)
        return _moved(y, least, most, *self.y_range)


def _moved(
    values: np.ndarray, least: np.ndarray, most: np.ndarray, lower: float, upper: float
) -> np.ndarray:
    """lower + (upper - lower) (v - a) / (b - a), its ends without rounding."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        moved = lower + (upper - lower) * (values - least) / (most - least)
    return np.where(values == least, lower, np.where(values == most, upper, moved))


class _Lines:
    """The lines of a file of ranges, read one after another."""

    def __init__(self, path: str, lines: list[list[str]]) -> None:
        self.path, self.rest, self.read = path, lines, 0

    def wrong(self, why: str) -> Refused:
        return Refused(
            "ERROR: failed to read scaling parameters\n"
            f"{self.path}, line {self.read}: {why}."
        )

    def next_is(self, word: str) -> bool:
        found = bool(self.rest) and self.rest[0] == [word]
        if found:
            self.rest.pop(0)
            self.read += 1
        return found

    def numbers(self, count: int) -> tuple[float, ...]:
        self.read += 1
        words = self.rest.pop(0) if self.rest else []
        try:
            numbers = tuple(map(float, words))
        except ValueError:
            numbers = ()
        if len(numbers) != count:
            raise self.wrong(f"needs {count} numbers")
        return numbers


def _write(ranges: _Ranges, path: str) -> int:
    """Print the points, and return how many entries that took."""
    written = 0
    kept = ranges.least != ranges.most
    kept &= np.isfinite(ranges.least)
    columns = np.flatnonzero(kept)
    zeros = ranges.scaled(np.zeros(len(columns)), columns)
    moving = columns[(zeros != 0) & (columns > 0)]  # where 0 does not stay 0
    step = max(1, int(ROWS_MB * 2**20 / (8 * max(1, len(moving)))))
    output = sys.stdout.buffer
    sys.stdout.flush()
    for X, y in _parts(path):
        for begin in range(0, X.shape[0], step):
            part = _scaled_rows(ranges, X[begin : begin + step], kept, moving)
            labels = ranges.labels(y[begin : begin + step])
            text = formatted(
                part,
                labels,
                label_precision=17,
                value_precision=6,
                trailing_space=True,
            )
            output.write(text)
            written += part.nnz
    output.flush()
    return written


def _scaled_rows(
    ranges: _Ranges, X: sp.csr_array, kept: np.ndarray, moving: np.ndarray
) -> sp.csr_array:
    """The rows, where they go; `moving` are the columns in which zeros go elsewhere."""
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    own = kept[X.indices]
    data = ranges.scaled(X.data[own], X.indices[own])
    shape = X.shape[0], len(kept)
    scaled = sp.csr_array((data, (rows[own], X.indices[own])), shape=shape)
    if len(moving):
        named = sp.csr_array((np.ones(len(data)), (rows[own], X.indices[own])), shape)
        absent = 1.0 - named[:, moving].toarray()
        absent *= ranges.scaled(np.zeros(len(moving)), moving)
        row, column = np.nonzero(absent)
        scaled = scaled + sp.csr_array(
            (absent[row, column], (row, moving[column])), shape=shape
        )
    scaled = sp.csr_array(scaled)
    scaled.eliminate_zeros()
    scaled.sort_indices()
    return scaled
