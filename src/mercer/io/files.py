"""Text of files, plain or compressed: its lines, and errors that name the place.

Compression is told by the first bytes, not by the name. What a file unpacks to is
bounded, so that a small file cannot fill the memory. Text is UTF-8 in every locale.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path, PurePath
from typing import IO, Any

from mercer.native import memory

Source = str | PathLike[str]

_OPENERS: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
COMPRESSED = (".gz", ".bz2", ".xz")  # suffixes
_FIRST, _CHUNK = 2**14, 2**20  # bytes that are read at a time, at first and at most
_LEAST = 2**28  # bytes that every file may unpack to
_SHOWN = 40  # characters of a cell in an error


class PlacedError(ValueError):
    """What is wrong with a file, where: `data.csv, line 3, column 2 ('age'): ...`."""


def refused(
    path: Source,
    reason: str,
    line: int | None = None,
    column: int | None = None,
    name: str | None = None,
) -> PlacedError:
    """The error for a place in a file; lines and columns count from 1."""
    place = str(path)
    if line is not None:
        place += f", line {line}"
    if column is not None:
        place += f", column {column}"
    if name is not None:
        place += f" ({shown(name)})"
    return PlacedError(f"{place}: {reason}")


@contextmanager
def refusing(path: Source, reason: str) -> Iterator[None]:
    """Around code of others (zipfile, numpy) that reads a file, perhaps a damaged one.

    They raise what they come across: BadZipFile, struct.error, TokenError, an OSError
    of a place before the file's beginning. All of it is an error of the file, but for
    what the system says: that it is not there, or may not be read.
    """
    try:
        yield
    except PlacedError:
        raise
    except MemoryError as error:
        raise MemoryError(
            f"{path}: there is no memory for what the file says that it holds."
        ) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise refused(path, f"{reason}: {str(error).rstrip('.')}.") from error


def shown(text: str) -> str:
    """A cell as errors quote it, not too long."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


def finite(text: str) -> float | None:
    """A decimal number, None for any other text; what only Python reads is none."""
    if "_" in text or not text.isascii():  # 1_000, and other digits
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def suffix_of(path: Source) -> str:
    """The suffix in small letters, that of a compression left off."""
    name = PurePath(path).name.lower()
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    return PurePath(name).suffix


def most_bytes() -> float:
    """What a file may unpack to by default: half of the memory that can be had."""
    return max(_LEAST, memory.available_memory() / 2)


def read_bytes(path: Source, limit: float | None = None) -> bytes:
    """All bytes of a file, unpacked.

    Parameters
    ----------
    limit : bytes that it may have, unpacked; None for half of the memory
    """
    with Path(path).open("rb") as raw:
        return unpacked(raw, path, limit)


def unpacked(raw: IO[bytes], path: Source, limit: float | None = None) -> bytes:
    """The bytes of an open file, unpacked where its first bytes say so."""
    limit = most_bytes() if limit is None else limit
    head = raw.read(6)
    raw.seek(0)
    opener = _opener(head)
    stream = raw if opener is None else opener(raw)
    parts, size, step = [], 0, _FIRST
    try:
        while part := stream.read(step):
            step = min(2 * step, _CHUNK)  # memory is taken for a step at a time
            parts.append(part)
            size += len(part)
            if size > limit:
                raise refused(
                    path,
                    f"has more than {limit:,.0f} bytes"
                    + ("" if opener is None else " when unpacked")
                    + ". Pass a larger limit, or split the file.",
                )
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise refused(path, f"is damaged or cut off: {error}.") from error
    except OSError as error:
        if opener is None:
            raise
        raise refused(path, f"is damaged: {error}.") from error
    return b"".join(parts)


def first_lines(path: Source, size: int = 2**16) -> list[str]:
    """The lines at the beginning of a file that are not empty, the last perhaps cut."""
    with Path(path).open("rb") as raw:
        head = raw.read(6)
        raw.seek(0)
        opener = _opener(head)
        try:
            data = (raw if opener is None else opener(raw)).read(size)
        except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
            raise refused(path, f"is damaged or cut off: {error}.") from error
    text = data.decode("utf-8-sig", errors="replace")
    found = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [line for line in found if line.strip()]


def _opener(head: bytes) -> Any:
    """What unpacks a file that begins so; None for a plain one."""
    return next((o for magic, o in _OPENERS.items() if head.startswith(magic)), None)


def read_text(path: Source, limit: float | None = None) -> str:
    """All text of a file, with \\n for every end of a line."""
    return decoded(read_bytes(path, limit), path)


def decoded(data: bytes, path: Source) -> str:
    """Bytes as text: UTF-8, or UTF-16 where its mark says so; no zero bytes."""
    encoding = "utf-8-sig"
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        raise refused(
            path,
            f"the byte 0x{data[error.start]:02x} is no {encoding[:5].upper()} text. "
            "Store the file as UTF-8.",
            line,
            column,
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise refused(path, "a zero byte: this is no text file.", line)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def lines(path: Source, limit: float | None = None) -> Iterator[tuple[int, str]]:
    """The lines of a file, each with its number from 1 on."""
    text = read_text(path, limit)
    ended = text.removesuffix("\n").split("\n") if text else []
    return enumerate(ended, start=1)
