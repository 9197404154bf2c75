"""read: any file of data, by its suffix and its first lines."""

from __future__ import annotations

import importlib
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mercer.io.dataset import Dataset
from mercer.io.files import Source, first_lines, refused, refusing, suffix_of
from mercer.io.tables import as_target

# Modules are loaded when a file is of their format: some of them need others.
_READERS = {
    "table": ("tables", "read_csv"),
    "numpy": ("tables", "read_numpy"),
    "parquet": ("parquet", "read_parquet"),
    "svmlight": ("svmlight", "read_svmlight"),
    "fasta": ("strings", "read_fasta"),
    "fastq": ("strings", "read_fastq"),
    "strings": ("strings", "read_strings"),
    "trees": ("trees", "read_trees"),
    "tu": ("graphs", "read_tu"),
    "edges": ("graphs", "read_edges"),
    "smiles": ("molecules", "read_smiles"),
}
FORMATS = tuple(_READERS)
SUFFIXES = {
    ".csv": "table",
    ".tsv": "table",
    ".npy": "numpy",
    ".npz": "numpy",
    ".parquet": "parquet",
    ".pq": "parquet",
    **dict.fromkeys((".fa", ".fasta", ".faa", ".fna", ".ffn"), "fasta"),
    **dict.fromkeys((".fq", ".fastq"), "fastq"),
    **dict.fromkeys((".tree", ".trees", ".mrg", ".ptb"), "trees"),
    **dict.fromkeys((".edges", ".edgelist"), "edges"),
    **dict.fromkeys((".smi", ".smiles"), "smiles"),
    **dict.fromkeys((".svm", ".svmlight", ".libsvm"), "svmlight"),
}
_SVMLIGHT = re.compile(r"[+-]?[\d.eE+,-]+(\s+(qid|\d+):\S+)*\s*(#.*)?$")
_NUMBERED = ("trees", "smiles", "strings")  # where a target may be a column's number


def read(
    path: Source,
    target: str | int | None = None,
    kind: str | None = None,
    **options: Any,
) -> Dataset:
    """Any file of data as a `Dataset`, read by the function for its format.

    Parameters
    ----------
    path : of the file, or of a folder of the TU collection
    target : what is to be learnt: a column of a table, by name or number; an array of
        an .npz; for sequences and strings a regular expression with one group; for
        trees "root", or 0; for FASTA, FASTQ and edges also the path of a table of
        labels
    kind : the format: table, numpy, parquet, svmlight, fasta, fastq, strings, trees,
        tu, edges or smiles; None to tell by the suffix and the first lines
    options : of the function for that format, as `drop` of `read_csv`

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from mercer.io import read
    >>> path = pathlib.Path(tempfile.mkdtemp(), "points.csv")
    >>> _ = path.write_text("a,b,y\\n1,2,0\\n3,4,1\\n")
    >>> read(path, target="y").points.tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    kind = kind_of(path) if kind is None else kind
    if kind not in _READERS:
        raise ValueError(f"kind is one of {', '.join(sorted(_READERS))}; got {kind!r}.")
    reader = reader_of(kind)
    if kind == "tu":
        return reader(path, **options)
    if kind == "svmlight":
        X, y, _ = reader(path, **options)  # the target stands before each point
        return Dataset(X, as_target(y), kind="numbers")
    if kind == "edges":
        if target is not None:
            options.setdefault("labels", target)
        return reader(path, **options)
    if kind in ("fasta", "fastq") and isinstance(target, str):
        if Path(target).suffix and Path(target).is_file():
            options.setdefault("labels", target)
            target = None
    if kind in _NUMBERED and isinstance(target, str) and re.fullmatch(r"-?\d", target):
        target = int(target)
    if kind == "smiles" and isinstance(target, str):
        raise ValueError(
            "The target of SMILES is the number of a column, from 0 on; got "
            f"{target!r}."
        )
    return reader(path, target, **options)


def reader_of(kind: str) -> Callable[..., Any]:
    """The function that reads a format."""
    module, name = _READERS[kind]
    return getattr(importlib.import_module(f"mercer.io.{module}"), name)


def kind_of(path: Source) -> str:
    """The format of a file, by its suffix, else by its first lines."""
    there = Path(path)
    if not there.exists():
        raise FileNotFoundError(2, "There is no such file", str(path))
    if there.is_dir():
        return "tu"
    suffix = suffix_of(path)
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    if zipfile.is_zipfile(path):
        with refusing(path, "is no zip that can be read"):
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
        return "numpy" if any(name.endswith(".npy") for name in names) else "tu"
    with there.open("rb") as stream:
        head = stream.read(8)
    if head.startswith(b"\x93NUMPY"):
        return "numpy"
    if head.startswith(b"PAR1"):
        return "parquet"
    return _by_content(path)


def _by_content(path: Source) -> str:
    found = first_lines(path)
    if not found:
        raise refused(path, "is empty.")
    first = found[0].lstrip()
    if first.startswith(">"):
        return "fasta"
    if first.startswith("@") and len(found) > 2 and found[2].startswith("+"):
        return "fastq"
    if first.startswith("("):
        return "trees"
    some = found[:20] if len(found) > 20 else found[:-1] or found
    if all(map(_SVMLIGHT.match, some)) and any(":" in line for line in some):
        return "svmlight"
    return "table"
