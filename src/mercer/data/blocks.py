"""Points that do not fit into memory: read from files, or from a stream, in blocks.

A `Blocks` has n rows of d numbers, like an array, and holds none of them: what is asked
for, a run of rows or some of them, is read then. Its sources are

- an .npy file, named by its path, or a folder of them, read in the order of names;
- an array that is mapped from a file (np.memmap);
- any object with a method `blocks()` that gives (rows, d) arrays one after another, the
  same ones whenever it is called. Such a stream is read from its beginning again where
  rows before those that were read last are asked for.

Files that are named are read, not mapped: one that is cut meanwhile is an error, not
the end of the process.
"""

from __future__ import annotations

import math
import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from mercer.native.memory import block_mb

ROWS_MB = 4.0  # of a block that is read of a file
TAKEN_MB = 16.0  # of points that are taken into memory


@runtime_checkable
class HasBlocks(Protocol):
    """What gives its points in blocks."""

    def blocks(self) -> Iterator[np.ndarray]:
        """(rows, d) arrays of numbers, the same ones in every call."""
        ...


@dataclass(frozen=True)
class _File:
    """Rows of numbers in an .npy file."""

    path: Path
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    offset: int  # bytes before the first row

    @classmethod
    def opened(cls, path: Path) -> _File:
        try:
            with open(path, "rb") as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0
                if version != (1, 0):
                    read = np.lib.format.read_array_header_2_0
                shape, by_columns, dtype = read(file)
                offset = file.tell()
        except ValueError as error:
            raise ValueError(
                f"{path} is not an .npy file that can be read in blocks: {error} Write "
                "it with np.save."
            ) from error
        if len(shape) != 2 or dtype.kind not in "biuf":
            raise ValueError(
                f"{path} holds an array of shape {shape} and dtype {dtype}; points in "
                "blocks are (n, d) arrays of real numbers."
            )
        if by_columns and min(shape) > 1:
            raise ValueError(
                f"{path} is stored column by column, and points are read row by row. "
                "Save it with np.save(path, np.ascontiguousarray(X))."
            )
        return cls(path, (int(shape[0]), int(shape[1])), dtype, offset)

    def read(self, begin: int, end: int) -> np.ndarray:
        """Some of the rows, one after another."""
        d = self.shape[1]
        skipped = self.offset + begin * d * self.dtype.itemsize
        try:
            flat = np.fromfile(
                self.path, self.dtype, count=(end - begin) * d, offset=skipped
            )
        except OSError as error:
            raise OSError(
                error.errno, f"rows {begin} to {end - 1}: {error.strerror or error}"
            ) from error
        if len(flat) < (end - begin) * d:
            raise OSError(
                f"{self.path} ends within rows {begin} to {end - 1}, where it had "
                f"{self.shape[0]:,} rows when it was opened: it was cut. Restore the "
                "file."
            )
        return flat.reshape(end - begin, d)


class Blocks(ABC):
    """n points of d numbers each that are read in blocks; `as_blocks` makes them.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.data import Blocks, as_blocks
    >>> class Rows:
    ...     def blocks(self):
    ...         yield np.eye(3)
    ...         yield np.ones((2, 3))
    ...
    >>> X = as_blocks(Rows())
    >>> isinstance(X, Blocks), X.shape, X[[4, 0]].tolist()
    (True, (5, 3), [[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    ndim = 2

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def _run(self, begin: int, end: int) -> np.ndarray:
        """The rows from begin up to end, as they are stored."""

    @abstractmethod
    def _bounds(self) -> list[int]:
        """Where blocks begin, and n."""

    @abstractmethod
    def _place(self, number: int) -> str:
        """Which block that is, for a message."""

    @abstractmethod
    def origin(self) -> tuple[Any, ...]:
        """What tells these points from others: files by size and time, or the object.

        Of two that are equal, what was found on one holds for the other.
        """

    def _named(self, row: int, error: OSError) -> OSError:
        """The error with the block that this row is in."""
        number = int(np.searchsorted(self._bounds(), row, "right")) - 1
        text = error if error.strerror is None else error.strerror
        return OSError(error.errno, f"{self._place(number)} cannot be read: {text}")

    def __getitem__(self, index: Any) -> np.ndarray:
        """Some of the points: a slice, whole numbers, or n booleans."""
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            if step != 1:
                return self[np.arange(begin, end, step)]
            return self._numbers(self._run(begin, max(begin, end)))
        places = np.arange(len(self))[index]
        out = np.empty((len(places), self.shape[1]), dtype=self.dtype)
        order = np.argsort(places, kind="stable")
        bounds = self._bounds()
        cuts = np.searchsorted(places[order], bounds)
        for (begin, end), (low, high) in zip(
            pairwise(bounds), pairwise(cuts.tolist()), strict=True
        ):
            if low < high:
                block = self._numbers(self._run(begin, end))
                out[order[low:high]] = block[places[order[low:high]] - begin]
        return out

    def take(self, index: Any) -> np.ndarray | Blocks:
        """Some of the points: in memory, where they are few, else read in blocks too.

        A run of them (a slice) is always read.
        """
        if isinstance(index, slice):
            return self[index]
        places = np.arange(len(self))[index]
        if 8.0 * len(places) * self.shape[1] <= block_mb(TAKEN_MB) * 2**20:
            return self[places]
        return _TakenBlocks(self, places)

    def parts(self) -> Iterator[tuple[slice, np.ndarray]]:
        """The blocks one after another, with their places."""
        for begin, end in pairwise(self._bounds()):
            yield slice(begin, end), self[begin:end]

    def each(
        self, call: Callable[..., Any], *rows: Any, shared: Sequence[Any] = ()
    ) -> list[Any]:
        """call(block, *rows of the block, *shared) for one block after another.

        Parameters
        ----------
        rows : arrays with a row for each point, or None
        """
        return [
            call(part, *(None if one is None else one[place] for one in rows), *shared)
            for place, part in self.parts()
        ]

    def _numbers(self, rows: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(rows, dtype=self.dtype)

    def double(self) -> Blocks:
        """The same points, read as float64."""
        if self.dtype == np.float64:
            return self
        wide = _Wide.__new__(_Wide)
        wide.source, wide.shape, wide.dtype = self, self.shape, np.dtype(float)
        return wide

    def check(self, missing: bool = False) -> None:
        """Refuse numbers that are not finite, with their place; NaN may be missing."""
        for number, (rows, block) in enumerate(self.parts()):
            good = np.isfinite(block)
            if missing:
                good |= np.isnan(block)
            if not good.all():
                i, j = np.argwhere(~good)[0].tolist()
                raise ValueError(
                    f"{self._place(number)} has {block[i, j]} in column {j} of point "
                    f"{rows.start + i} (row {i} of the block). Points are finite "
                    "numbers: fill in what is missing, or leave the row out."
                )

    def __array__(self, *args: Any, **options: Any) -> np.ndarray:
        raise TypeError(
            f"{self!r} is not read into memory. A machine on Nystrom(kernel, size) or "
            "Linear() takes points in blocks; for all others pass an array, or "
            "np.load(path, mmap_mode='r')."
        )

    def __repr__(self) -> str:
        n, d = self.shape
        return f"<{n:,} points of {d} numbers in {len(self._bounds()) - 1} blocks>"


class _Wide(Blocks):
    """The points of another one, read as float64."""

    source: Blocks

    def _run(self, begin: int, end: int) -> np.ndarray:
        return self.source._run(begin, end)

    def _bounds(self) -> list[int]:
        return self.source._bounds()

    def _place(self, number: int) -> str:
        return self.source._place(number)

    def origin(self) -> tuple[Any, ...]:
        return self.source.origin()


class _TakenBlocks(Blocks):
    """Some of the points of another one, in any order."""

    def __init__(self, source: Blocks, index: np.ndarray):
        self.source, self.index = source, index
        self.shape, self.dtype = (len(index), source.shape[1]), source.dtype
        self.step = _rows(self.shape[1])

    def _run(self, begin: int, end: int) -> np.ndarray:
        return self.source[self.index[begin:end]]

    def _bounds(self) -> list[int]:
        return [*range(0, len(self), self.step), len(self)]

    def _place(self, number: int) -> str:
        return f"Block {number} of {len(self):,} points of {self.source!r}"

    def origin(self) -> tuple[Any, ...]:
        return (self.source.origin(), self.index.tobytes())


class _FileBlocks(Blocks):
    """Points of one .npy file, or of several."""

    def __init__(self, paths: list[Path]):
        self.files = [_File.opened(path) for path in paths]
        first = self.files[0]
        for file in self.files:
            if file.shape[1] != first.shape[1]:
                raise ValueError(
                    f"{file.path} has {file.shape[1]} columns, and {first.path} "
                    f"{first.shape[1]}. Points of all files have the same columns."
                )
            if not file.shape[0]:
                raise ValueError(f"{file.path} holds no points. Remove the file.")
        self.shape = sum(file.shape[0] for file in self.files), first.shape[1]
        self.dtype = _precision([file.dtype for file in self.files])
        self.starts = np.cumsum([0, *(file.shape[0] for file in self.files)]).tolist()
        self.blocks_: list[tuple[int, int]] = []  # where each begins, and its file
        step = _rows(self.shape[1])
        for number, (begin, end) in enumerate(pairwise(self.starts)):
            self.blocks_ += [(row, number) for row in range(begin, end, step)]

    def _run(self, begin: int, end: int) -> np.ndarray:
        parts = []
        for file, start in zip(self.files, self.starts, strict=False):
            low, high = max(begin, start), min(end, start + file.shape[0])
            if low < high:
                try:
                    parts.append(file.read(low - start, high - start))
                except OSError as error:
                    raise self._named(low, error) from error
        if not parts:
            return np.empty((0, self.shape[1]), dtype=self.dtype)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _bounds(self) -> list[int]:
        return [*(begin for begin, _ in self.blocks_), len(self)]

    def _place(self, number: int) -> str:
        return f"Block {number} ({self.files[self.blocks_[number][1]].path})"

    def origin(self) -> tuple[Any, ...]:
        return (self.shape, *(_stamp(file.path) for file in self.files))


class _StreamBlocks(Blocks):
    """Points that an object gives by `blocks()`."""

    def __init__(self, source: HasBlocks):
        self.source = source
        self.starts, kinds, d = [0], [], -1
        for number, block in enumerate(self._opened()):
            if d not in (-1, block.shape[1]):
                raise ValueError(
                    f"Block {number} of {type(source).__name__} has {block.shape[1]} "
                    f"columns, and those before it {d}."
                )
            d = block.shape[1]
            self.starts.append(self.starts[-1] + len(block))
            kinds.append(block.dtype)
        if not kinds:
            raise ValueError(f"{type(source).__name__}.blocks() gave no block at all.")
        self.shape, self.dtype = (self.starts[-1], d), _precision(kinds)
        self._reader: Iterator[np.ndarray] = iter(())
        self._next, self._last = 0, np.empty((0, d))  # of the reader, and its block

    def _opened(self) -> Iterator[np.ndarray]:
        """The blocks, each checked."""
        name, number = type(self.source).__name__, 0
        blocks = iter(self.source.blocks())
        while True:
            try:
                block = next(blocks)
            except StopIteration:
                return
            except OSError as error:
                text = error if error.strerror is None else error.strerror
                raise OSError(
                    error.errno, f"Block {number} of {name} cannot be read: {text}"
                ) from error
            block = np.asarray(block)
            if block.ndim != 2 or block.dtype.kind not in "biuf":
                raise ValueError(
                    f"Block {number} of {name} is an array of shape {block.shape} and "
                    f"dtype {block.dtype}; blocks are (rows, d) arrays of real numbers."
                )
            if not len(block):
                raise ValueError(
                    f"Block {number} of {name} has no rows. Leave empty blocks out."
                )
            yield block
            number += 1

    def _block(self, number: int) -> np.ndarray:
        """Block of this number; the stream is opened anew to go back."""
        if number == self._next - 1:
            return self._last
        if number < self._next:
            self._reader, self._next = self._opened(), 0
        while self._next <= number:
            rows = self.starts[self._next + 1] - self.starts[self._next]
            if not self._next:
                self._reader = self._opened()
            block = next(self._reader, None)
            if block is None or block.shape != (rows, self.shape[1]):
                found = "no more blocks" if block is None else f"shape {block.shape}"
                raise ValueError(
                    f"Block {self._next} of {type(self.source).__name__} had shape "
                    f"({rows}, {self.shape[1]}) when it was first read; now there are "
                    f"{found}. blocks() gives the same ones in every call."
                )
            self._last, self._next = block, self._next + 1
        return self._last

    def _run(self, begin: int, end: int) -> np.ndarray:
        first = int(np.searchsorted(self.starts, begin, "right")) - 1
        parts = []
        while begin < end:
            start = self.starts[first]
            part = self._block(first)[begin - start : end - start]
            parts.append(part)
            begin, first = begin + len(part), first + 1
        if not parts:
            return np.empty((0, self.shape[1]), dtype=self.dtype)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _bounds(self) -> list[int]:
        return self.starts

    def _place(self, number: int) -> str:
        return f"Block {number} of {type(self.source).__name__}"

    def origin(self) -> tuple[Any, ...]:
        return (self.shape, _Same(self.source))


class _ArrayBlocks(Blocks):
    """Points of an array that is mapped from a file."""

    def __init__(self, array: np.ndarray):
        self.array, self.shape = array, (array.shape[0], array.shape[1])
        self.dtype = _precision([array.dtype])
        self.step = _rows(self.shape[1])
        self.file = getattr(array, "filename", None)
        self.mapped, begins = mapping_of(array)
        self.needed = 0 if self.mapped is None else begins + len(self.mapped)

    def _run(self, begin: int, end: int) -> np.ndarray:
        size = math.inf if self.mapped is None else self.mapped.size()
        if size < self.needed:
            cut = OSError(
                f"the file has {size:,} bytes, where the array needs {self.needed:,}: "
                "it was cut. Restore the file."
            )
            raise self._named(begin, cut)
        return np.array(self.array[begin:end])

    def _bounds(self) -> list[int]:
        return [*range(0, len(self), self.step), len(self)]

    def _place(self, number: int) -> str:
        return f"Block {number}" + (f" ({self.file})" if self.file else "")

    def origin(self) -> tuple[Any, ...]:
        where = self.array.__array_interface__
        known = _stamp(self.file) if self.file else _Same(self.array)
        return (self.shape, where["data"][0], where["strides"], known)


class _Same:
    """Equal to itself alone: an object that is told from others by its identity."""

    def __init__(self, one: Any):
        self.one = one

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.one is other.one

    __hash__ = None  # type: ignore[assignment]


def _stamp(path: Any) -> tuple[str, int, int]:
    """A file's name, and what changes when it is written."""
    found = os.stat(path)
    return str(path), found.st_size, found.st_mtime_ns


def mapping_of(array: Any) -> tuple[mmap.mmap | None, int]:
    """The memory map that holds an array, None for none, and where it begins."""
    offset, source = 0, array
    while isinstance(source, np.ndarray):
        if isinstance(source, np.memmap):
            offset = getattr(source, "offset", None) or 0
        source = source.base
    if isinstance(source, memoryview):
        source = source.obj
    begin = offset - offset % mmap.ALLOCATIONGRANULARITY
    return (source, begin) if isinstance(source, mmap.mmap) else (None, 0)


def _rows(d: int) -> int:
    """Rows of a block."""
    return max(1, int(block_mb(ROWS_MB) * 2**20 / (8 * max(1, d))))


def _precision(kinds: list[np.dtype[Any]]) -> np.dtype[Any]:
    """float32 where all numbers are, else float64."""
    single = all(kind == np.float32 for kind in kinds)
    return np.dtype(np.float32 if single else np.float64)


def as_blocks(X: Any) -> Blocks | None:
    """X as points that are read in blocks; None where it is a dataset of another kind.

    Parameters
    ----------
    X : the path of an .npy file, or of a folder of them; an array that is mapped from
        a file; or an object with `blocks()`

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.data import as_blocks
    >>> class Squares:
    ...     def blocks(self):
    ...         for begin in (0, 3):
    ...             yield np.arange(begin, begin + 3)[:, None] ** 2.0
    ...
    >>> X = as_blocks(Squares())
    >>> X, X[2:5].ravel().tolist()
    (<6 points of 1 numbers in 2 blocks>, [4.0, 9.0, 16.0])
    """
    if isinstance(X, Blocks):
        return X
    if isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.kind in "biuf":
        return _ArrayBlocks(X)
    if isinstance(X, str | Path):
        path = Path(X)
        named = isinstance(X, Path) or path.suffix == ".npy"
        if path.is_dir():
            files = sorted(path.glob("*.npy"))
            if not files:
                raise ValueError(f"The folder {path} has no .npy files.")
            return _FileBlocks(files)
        if not named:
            return None
        if not path.exists():
            raise FileNotFoundError(f"There is no file {path}.")
        return _FileBlocks([path])
    known = isinstance(X, np.ndarray) or hasattr(X, "__array__")
    if not known and not isinstance(X, type) and isinstance(X, HasBlocks):
        return _StreamBlocks(X)
    return None
