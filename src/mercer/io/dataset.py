"""Dataset: points that were read from a file, with what is known of them.

What a column holds is told from its values; from that follows a kernel, where nobody
has named one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.data.points import Points, count
from mercer.kernels.algebra import Normalized, On
from mercer.kernels.base import Kernel
from mercer.kernels.graph import WeisfeilerLehman
from mercer.kernels.radial import RBF
from mercer.kernels.string import WeightedDegree
from mercer.kernels.substring import Spectrum
from mercer.kernels.tree import SubsetTree
from mercer.native.sorting import distinct

KINDS = ("numbers", "records", "text", "sequences", "trees", "graphs", "nodes")
MOST_CLASSES = 20  # whole numbers of a target with more values are numbers


@dataclass(frozen=True, eq=False)
class Dataset:
    """Points with their targets, and what is known of them.

    Attributes
    ----------
    points : an array, or a list of strings, of records (dictionaries), of trees, ...
    target : n classes or numbers; None where there is none
    names : of the columns, for tables; of the points, where these have names; or ()
    kind : numbers, records, text, sequences, trees, graphs or nodes
    kernel : one that compares such points
    types : of the columns of a table, by name: "numbers", "words" or "text"
    target_name : of the column that is the target
    notes : what was noticed while reading

    Examples
    --------
    >>> from mercer.io import Dataset
    >>> data = Dataset(["banana", "bandana"], kind="text")
    >>> data.kernel
    Normalized(kernel=Spectrum(k=3, weights=None))
    >>> len(data)
    2
    """

    points: Points
    target: np.ndarray | None = None
    names: Sequence[str] = ()
    kind: str = "numbers"
    kernel: Kernel | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    target_name: str | None = None
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.kernel is None:
            object.__setattr__(self, "kernel", self._suggested())

    def __len__(self) -> int:
        return count(self.points)

    @property
    def is_classification(self) -> bool:
        """Whether the targets are classes: words, or few different whole numbers."""
        return self.target is not None and are_classes(self.target)

    def records(self) -> list[dict[str, Any]]:
        """The rows of a table as dictionaries, for kernels that read them by name."""
        if self.kind == "records":
            return self.points
        if self.kind != "numbers" or len(self.names) != np.shape(self.points)[1]:
            raise ValueError(
                f"Points of kind {self.kind!r} have no columns with names. Name the "
                "columns in the first line of a table."
            )
        rows = np.asarray(self.points).tolist()
        return [dict(zip(self.names, row, strict=True)) for row in rows]

    def _suggested(self) -> Kernel:
        """A kernel for points of this kind."""
        if self.kind == "numbers":
            return RBF()
        if self.kind == "records":
            return record_kernel(self.types)
        if self.kind in ("text", "sequences"):
            return string_kernel(self.points)
        if self.kind == "trees":
            return Normalized(SubsetTree())
        if self.kind == "graphs":
            return Normalized(WeisfeilerLehman(3))
        raise ValueError(
            f"A Dataset of kind {self.kind!r} needs a kernel; kinds with one of their "
            f"own are {', '.join(KINDS[:-1])}."
        )


def are_classes(target: np.ndarray) -> bool:
    """Whether targets are classes: words, or whole numbers of few different values."""
    if target.dtype.kind not in "iuf":
        return True
    different = distinct(target)
    return len(different) <= MOST_CLASSES and bool(np.all(different % 1 == 0))


def string_kernel(points: Sequence[str]) -> Kernel:
    """For strings of equal length what they share place by place, else substrings."""
    sizes = {len(point) for point in points}
    if len(sizes) == 1 and 10 <= min(sizes) <= 2000:
        return Normalized(WeightedDegree(5))
    return Normalized(Spectrum(3))


def record_kernel(types: Mapping[str, str]) -> Kernel:
    """A sum: one Gaussian of all numbers, equal words, substrings of each text."""
    by_type: dict[str, list[str]] = {}
    for name, kind in types.items():
        by_type.setdefault(kind, []).append(name)
    parts: list[Kernel] = []
    if "numbers" in by_type:
        parts.append(On(by_type["numbers"], RBF()))
    if "words" in by_type:
        # Of tuples of one length: how many fields are equal, place by place.
        parts.append(On(by_type["words"], Normalized(WeightedDegree(1))))
    parts += [On(name, Normalized(Spectrum(3))) for name in by_type.get("text", ())]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
