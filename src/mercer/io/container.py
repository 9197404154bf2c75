"""One file of named arrays and a few texts, in the layout of safetensors.

Eight bytes with the length of a header, the header (JSON), then the numbers of the
arrays, one after the other. `__metadata__` of the header has the texts; one of them is
a checksum of all other bytes of the file. Nothing in a file is ever run, and no more
memory is asked for than the file has bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np

Path = str | os.PathLike[str]

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BOOL": "|b1",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1",
}  # fmt: skip
_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}
_BLANK = "0" * 64  # what stands for the checksum while it is computed
_SUM = re.compile(rb'"checksum":"([^"\\]*)"')
_LARGEST_AXIS = 2**48  # a length that no array in memory has
AGAIN = "Copy the file again from where it came from, or save the machine anew."


class Contents(NamedTuple):
    """What a file holds."""

    arrays: dict[str, np.ndarray]
    texts: dict[str, str]


def is_storable(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of this type, in either order of bytes, can be written."""
    return dtype.newbyteorder("<") in _NAMES


def write(
    path: Path, arrays: Mapping[str, np.ndarray], texts: Mapping[str, str]
) -> None:
    """Write the file whole, or leave what was there before."""
    entries: dict[str, Any] = {"__metadata__": {**texts, "checksum": _BLANK}}
    plain, place = [], 0
    for name, given in arrays.items():
        array = np.ascontiguousarray(given, given.dtype.newbyteorder("<"))
        array = array.reshape(given.shape)  # of no axes, it would have one
        end = place + array.nbytes
        entries[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [place, end],
        }
        plain.append(array)
        place = end
    header = json.dumps(entries, separators=(",", ":"), allow_nan=False).encode()
    header += b" " * (-len(header) % 8)
    start = len(header).to_bytes(8, "little")
    found = hashlib.sha256(start + header)
    for array in plain:
        found.update(_bytes_of(array))
    header = header.replace(_text(_BLANK), _text(found.hexdigest()), 1)
    with replacing(path) as file:
        file.write(start + header)
        for array in plain:
            file.write(_bytes_of(array))


def read(path: Path, check: Callable[[dict[str, str], Path], None]) -> Contents:
    """What the file holds, every byte of it checked.

    Parameters
    ----------
    check : sees the texts before anything else is read, and refuses strange ones
    """
    try:
        with open(path, "rb") as file:
            return _read(file, path, check)
    except MemoryError as error:
        size = os.path.getsize(path)
        raise MemoryError(
            f"{_named(path)} holds {size:,} bytes, for which there is no memory."
        ) from error


def _read(
    file: BinaryIO, path: Path, check: Callable[[dict[str, str], Path], None]
) -> Contents:
    size = os.fstat(file.fileno()).st_size
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > size - 8:
        _refuse(
            path,
            f"it has {size:,} bytes, and its first eight announce a header of "
            f"{length:,}. It is cut short, or no model file",
        )
    header = file.read(length)
    entries = _parsed(header, path)
    texts = _texts(entries.pop("__metadata__", None), path)
    check(texts, path)
    layout = _layout(entries, size - 8 - length, path)
    sums = _SUM.findall(header)
    if len(sums) != 1 or texts.get("checksum") != sums[0].decode("ascii", "replace"):
        _refuse(path, "its header has no checksum, so no part of it can be trusted")
    blanked = _SUM.sub(_text(_BLANK), header)
    found, arrays = hashlib.sha256(start + blanked), {}
    for name, (dtype, shape) in layout.items():
        array = np.empty(shape, dtype)
        part = _bytes_of(array)
        if file.readinto(part) != len(part):  # type: ignore[attr-defined]
            _refuse(path, "it was cut while it was read")
        found.update(part)
        arrays[name] = array
    if found.hexdigest() != texts["checksum"]:
        _refuse(path, "its checksum differs from its contents: some bytes are wrong")
    return Contents(arrays, texts)


def _parsed(header: bytes, path: Path) -> dict[str, Any]:
    try:
        entries = parsed(header.decode())
    except (ValueError, RecursionError) as error:
        _refuse(path, f"its header is no JSON that can be read ({error})", error)
    if not isinstance(entries, dict) or header[:1] != b"{":
        _refuse(path, "its header is no JSON object")
    return entries


def parsed(text: str) -> Any:
    """JSON without what Python's reader takes besides: NaN, 1e999, a key twice."""
    return json.loads(
        text,
        object_pairs_hook=_each_once,
        parse_constant=_no_number,
        parse_float=_finite,
    )


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:80]!r} is there twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is beyond every float")
    return number


def _texts(given: Any, path: Path) -> dict[str, str]:
    if not isinstance(given, dict) or not all(
        isinstance(text, str) for text in given.values()
    ):
        _refuse(path, "its header has no __metadata__ of texts, so it is no model file")
    return given


def _layout(
    entries: dict[str, Any], size: int, path: Path
) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """Type and shape of each array, in the order of their bytes, which fill `size`."""
    parts = []
    for name, entry in entries.items():
        where = f"the array {name[:80]!r}"
        if not isinstance(entry, dict) or entry.keys() != {
            "dtype",
            "shape",
            "data_offsets",
        }:
            _refuse(path, f"{where} has other entries than dtype, shape, data_offsets")
        dtype, shape, offsets = (entry[k] for k in ("dtype", "shape", "data_offsets"))
        if not isinstance(dtype, str) or dtype not in _DTYPES:
            _refuse(path, f"{where} is of the type {str(dtype)[:40]}, which is unknown")
        if not _are_sizes(shape, 32) or max(shape, default=0) > _LARGEST_AXIS:
            _refuse(path, f"{where} has the shape {str(shape)[:80]}")
        if not _are_sizes(offsets, 2) or len(offsets) != 2:
            _refuse(path, f"{where} has the offsets {str(offsets)[:80]}")
        begin, end = offsets
        needed = math.prod(shape) * np.dtype(_DTYPES[dtype]).itemsize
        if end - begin != needed:
            _refuse(
                path,
                f"{where}, {dtype} of shape {shape}, takes {needed:,} bytes, and has "
                f"those from {begin} to {end}",
            )
        parts.append((begin, end, name, np.dtype(_DTYPES[dtype]), tuple(shape)))
    place = 0
    for begin, end, name, _, _ in sorted(parts, key=lambda part: part[:2]):
        if begin != place:
            _refuse(
                path,
                f"the array {name[:80]!r} begins at byte {begin} of the data, and the "
                f"one before it ends at {place}",
            )
        place = end
    if place != size:
        _refuse(
            path, f"its arrays take {place:,} bytes, and {size:,} follow its header"
        )
    ordered = sorted(parts, key=lambda part: part[:2])
    return {name: (dtype, shape) for _, _, name, dtype, shape in ordered}


def _are_sizes(given: Any, most: int) -> bool:
    return (
        isinstance(given, list)
        and len(given) <= most
        and all(type(one) is int and one >= 0 for one in given)
    )


def _bytes_of(array: np.ndarray) -> memoryview:
    """The memory of a contiguous array."""
    flat: Any = array.reshape(-1).view(np.uint8)
    return memoryview(flat)


def _text(checksum: str) -> bytes:
    return f'"checksum":"{checksum}"'.encode()


def _named(path: Path) -> str:
    return repr(os.fspath(path))


def _refuse(path: Path, why: str, error: Exception | None = None) -> NoReturn:
    raise ValueError(f"{_named(path)} cannot be read: {why}. {AGAIN}") from error


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when it is complete and on the disk."""
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    if os.path.isdir(target) or not os.path.isdir(folder):
        what = "a folder" if os.path.isdir(target) else "in a folder that is not there"
        raise OSError(f"{_named(path)} is {what}. Pass the path of a file to write.")
    draft = os.path.join(folder, f".{name}.{secrets.token_hex(6)}.tmp")
    number = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
    try:
        with os.fdopen(number, "wb") as file:
            if os.path.exists(target):
                os.chmod(draft, os.stat(target).st_mode & 0o777)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException:
        os.unlink(draft)
        raise
    _sync_folder(folder)


_BINARY = getattr(os, "O_BINARY", 0)  # of Windows


def _sync_folder(folder: str) -> None:
    """Bring the new name to the disk, where a system can be asked for it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
