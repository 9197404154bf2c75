"""Checkpoints: what a training has reached, in a file that is whole or not there.

Such a file is a machine with what tells whose training it is: what the points were read
from and the parameters. Anything else is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mercer.io import container
from mercer.io.files import Source
from mercer.io.records import Reader, Writer
from mercer.kernels.parameters import version

FORMAT, VERSION = "mercer checkpoint", "1"
_CHUNK = 2**20


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What a training has reached.

    Attributes
    ----------
    machine : fitted as far as it came
    data : the fingerprint of what the points were read from
    parameters : of the machine and of reading, as text by name
    seconds, iterations : that it took so far
    done : whether the solver came to its end
    """

    machine: Any
    data: str
    parameters: Mapping[str, str]
    seconds: float = 0.0
    iterations: int = 0
    done: bool = False


def write_checkpoint(checkpoint: Checkpoint, path: Source) -> None:
    """Write it whole, or leave the one before."""
    writer = Writer()
    root = writer.record(checkpoint.machine, type(checkpoint.machine).__name__)
    known = {
        "data": checkpoint.data,
        "parameters": dict(checkpoint.parameters),
        "seconds": checkpoint.seconds,
        "iterations": checkpoint.iterations,
        "done": checkpoint.done,
    }
    texts = {
        "format": FORMAT,
        "version": VERSION,
        "mercer": version(),
        "training": json.dumps(known),
        "content": json.dumps(
            {"objects": writer.objects, "root": root}, allow_nan=False
        ),
    }
    container.write(path, writer.arrays, texts)


def read_checkpoint(path: Source) -> Checkpoint:
    """The checkpoint of a file; a damaged or another file is refused."""
    try:
        arrays, texts = container.read(path, _check)
        content = container.parsed(texts["content"])
        reader = Reader(content["objects"], arrays, os.path.getsize(path))
        known = container.parsed(texts["training"])
        return Checkpoint(reader.value(content["root"]), **known)
    except OSError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, ValueError) and os.fspath(path) in str(error):
            raise
        raise ValueError(
            f"{os.fspath(path)!r} is no checkpoint that can be read: {error}."
        ) from error


def _check(texts: Mapping[str, str], path: Source) -> None:
    if texts.get("format") != FORMAT:
        raise ValueError(
            f"{os.fspath(path)!r} is {texts.get('format', 'a file of arrays')!r:.60}, "
            "and no checkpoint. Pass one that mercer train --checkpoint wrote."
        )
    if texts.get("version") != VERSION:
        raise ValueError(
            f"{os.fspath(path)!r} is a checkpoint of mercer "
            f"{texts.get('mercer', '?')[:40]}, which this version does not read. Train "
            "on with that version, or anew."
        )


def fingerprint(path: Source) -> str:
    """A checksum of a file, or of all files of a folder with their names."""
    found = hashlib.sha256()
    there = Path(path)
    if not there.exists():
        return f"the data named {there.name}"
    files = sorted(p for p in there.rglob("*") if p.is_file()) if there.is_dir() else []
    for file in files or [there]:
        if files:
            found.update(file.relative_to(there).as_posix().encode() + b"\0")
        with file.open("rb") as stream:
            while part := stream.read(_CHUNK):
                found.update(part)
    return found.hexdigest()
