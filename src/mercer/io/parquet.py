"""Parquet files, by pyarrow: tables whose columns have types of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mercer.io.dataset import Dataset
from mercer.io.files import Source, refused
from mercer.io.tables import Column, Name, check_choice, dataset_of

try:
    from pyarrow import parquet
except ImportError:
    HAS_PYARROW = False
else:
    HAS_PYARROW = True


def read_parquet(
    path: Source,
    target: Name | None = None,
    *,
    columns: Sequence[Name] | None = None,
    drop: Sequence[Name] = (),
    types: Mapping[str, str] | None = None,
    missing: str = "refuse",
) -> Dataset:
    """A Parquet file as a `Dataset`; needs pyarrow. Parameters as of `read_csv`.

    Examples
    --------
    >>> from mercer.io import read_parquet
    >>> read_parquet("data.parquet", target="y")  # doctest: +SKIP
    """
    if not HAS_PYARROW:
        raise ImportError(
            "Parquet files are read with pyarrow, which is not installed: pip install "
            "pyarrow."
        )
    check_choice("missing", missing, ("refuse", "drop", "keep"))
    try:
        table = parquet.read_table(path)
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise refused(path, f"is no Parquet file that can be read: {error}") from error
    if not table.num_rows:
        raise refused(path, "has no rows.")
    made = []
    for j, name in enumerate(table.column_names):
        cells = ["" if v is None else _text(v) for v in table.column(j).to_pylist()]
        # Rows of such a file have numbers, from 1 on.
        lines = range(1, table.num_rows + 1)
        made.append(Column(name, j + 1, cells, lines, path))
    return dataset_of(made, target, columns, drop, types or {}, missing, path)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return repr(value) if isinstance(value, float) else str(value)
