"""The journal of a search: what was judged so far, in a file that survives a kill.

A line for each fit, written and flushed before the next one begins, with a checksum.
The first line tells whose search it is. A last line that is not whole, as a kill leaves
it, is dropped; anything else that does not fit is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.frames import is_frame
from mercer.data.matching import keys_of
from mercer.data.partitions import Slices
from mercer.data.points import Points, as_points
from mercer.kernels.parameters import version

FORMAT = "mercer search 1"
Key = tuple[int, int, int]  # of a rung, a candidate, a fold


class Journal:
    """What was judged so far, by rung, candidate and fold; in memory and in a file.

    Parameters
    ----------
    path : of the file; None for no file
    about : what tells this search from others, as text by name
    """

    def __init__(self, path: Any, about: dict[str, str]):
        self.path = None if path is None else Path(path)
        self.about = about | {"format": FORMAT, "mercer": version()}
        self.known: dict[Key, dict[str, Any]] = {}
        self._lock = Lock()
        self._stream: Any = None

    def __enter__(self) -> Journal:
        if self.path is None:
            return self
        if not self.path.parent.is_dir():
            raise ValueError(
                f"There is no folder {self.path.parent} for resume={str(self.path)!r}. "
                "Make it first."
            )
        size = self._read() if self.path.exists() else 0
        self._stream = self.path.open("ab")
        self._stream.truncate(size)
        if size == 0:
            self._write(self.about)
            _flush_folder(self.path.parent)
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            self._stream.close()

    def get(self, key: Key) -> dict[str, Any] | None:
        """What is known of a fit; None where it is still to be done."""
        return self.known.get(key)

    def put(self, key: Key, result: dict[str, Any]) -> None:
        """Keep what a fit gave, in the file before anything else is done."""
        with self._lock:
            self.known[key] = result
            if self._stream is not None:
                self._write({"key": key, "result": result})

    def _write(self, content: dict[str, Any]) -> None:
        self._stream.write(_line(content))
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def _read(self) -> int:
        """Read the file; how many of its bytes are whole lines."""
        assert self.path is not None
        data = self.path.read_bytes()
        end = data.rfind(b"\n") + 1
        lines = data[:end].splitlines()
        if not lines and not data:
            return 0
        if not lines or not data.startswith(b'{"'):
            # A kill before the first line was whole leaves a piece of that line.
            if _line(self.about).startswith(data):
                return 0
            raise self._refused("is no journal of a search")
        found = [self._content(number, line) for number, line in enumerate(lines, 1)]
        self._check_about(found[0])
        for number, content in enumerate(found[1:], 2):
            try:
                self.known[tuple(content["key"])] = content["result"]
            except (KeyError, TypeError) as error:
                raise self._refused(f"is damaged in line {number}") from error
        return end

    def _content(self, number: int, line: bytes) -> dict[str, Any]:
        text, _, checksum = line.rpartition(b"\t")
        if _checksum(text) != checksum:
            what = "is no journal of a search" if number == 1 else None
            raise self._refused(what or f"is damaged in line {number}")
        content: dict[str, Any] = json.loads(text)
        return content

    def _check_about(self, found: dict[str, Any]) -> None:
        if found.get("format") != FORMAT:
            raise self._refused("is no journal of a search")
        for name in sorted({*found, *self.about}):
            old, new = found.get(name), self.about.get(name)
            if old != new:
                shown = (
                    ""
                    if name in ("points", "targets", "folds", "options")
                    else (f": {str(old)[:200]}; here it is {str(new)[:200]}")
                )
                raise self._refused(
                    f"is the journal of another search, with other {name}{shown}"
                )

    def _refused(self, what: str) -> ValueError:
        return ValueError(
            f"resume={str(self.path)!r} {what}. Pass the same machine, space, data and "
            "folds as before, or another file."
        )


def _line(content: dict[str, Any]) -> bytes:
    text = json.dumps(content, sort_keys=True, default=_plain).encode()
    return text + b"\t" + _checksum(text) + b"\n"


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:16].encode()


def _plain(value: Any) -> Any:
    """A number of numpy's as one of Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is no number")


def _flush_folder(folder: Path) -> None:
    """That the file is there is known to the disk; not all systems can be asked."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def digest(values: Points | None) -> str:
    """A checksum of points, targets or weights by their values."""
    found = hashlib.sha256()
    if values is None:
        return "none"
    if isinstance(values, Slices):
        return hashlib.sha256(values.origin.encode()).hexdigest()
    if not isinstance(values, np.ndarray) and not sp.issparse(values):
        values = as_points(values)
    if isinstance(values, np.ndarray) and values.dtype != object:
        found.update(f"{values.dtype} {values.shape}".encode())
        found.update(np.ascontiguousarray(values).tobytes())
        return found.hexdigest()
    if is_frame(values):
        found.update(repr(list(values.columns)).encode())
    for key in keys_of(values):
        found.update(key if isinstance(key, bytes) else repr(key).encode())
        found.update(b"\0")
    return found.hexdigest()


def text_of(value: Any) -> str:
    """A value as text that is the same in another process: without addresses."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
