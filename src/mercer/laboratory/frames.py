"""Answers in frames: a JSON head and float32 numbers, as `openapi.yaml` says."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

MEDIA_TYPE = "application/vnd.mercer.frames"


class Answer(NamedTuple):
    """What a computation gives: plain values, and arrays by name."""

    head: dict[str, Any]
    arrays: Mapping[str, np.ndarray]


def frame(event: str, answer: Answer) -> bytes:
    """One frame; what float32 cannot hold becomes its largest number."""
    listed, parts, offset = [], [], 0
    for name, values in answer.arrays.items():
        numbers = in_single(values)
        listed.append({"name": name, "shape": list(numbers.shape), "offset": offset})
        parts.append(numbers.tobytes())
        offset += numbers.size
    head = {"event": event, **answer.head, "arrays": listed}
    text = json_bytes(head)
    return b"".join([struct.pack("<II", len(text), 4 * offset), text, *parts])


def in_single(values: Any) -> np.ndarray:
    """As little-endian float32, NaN kept and the rest finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = np.asarray(values).astype("<f4")
    np.nan_to_num(numbers, copy=False, nan=np.nan)
    return np.ascontiguousarray(numbers)


def json_bytes(value: Any) -> bytes:
    """JSON, in which numbers that are not finite are null."""
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False).encode(
        "utf-8", "backslashreplace"
    )


def plain(value: Any) -> Any:
    """The same of Python's own types."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return str(value) if isinstance(value, str) else value
    raise TypeError(f"{type(value).__name__} has no place in JSON.")
