"""Weights of features as a table that prints well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mercer import _html


class FeatureWeight(NamedTuple):
    """A feature and its weight in f = ⟨w, φ(·)⟩.

    Attributes
    ----------
    output : which function of the machine, where there are several: a class, a pair of
        classes, a target, a component
    """

    name: str
    weight: float
    output: str


@dataclass(frozen=True)
class TopFeatures(Sequence[FeatureWeight]):
    """The heaviest features of a machine, for each of its outputs.

    A sequence of (name, weight, output); `of(output)` has those of one output.
    """

    rows: tuple[FeatureWeight, ...]
    outputs: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self.rows[index]

    def __iter__(self) -> Iterator[FeatureWeight]:
        return iter(self.rows)

    def of(self, output: str) -> list[FeatureWeight]:
        """The features of one output, the heaviest first."""
        if output not in self.outputs:
            raise ValueError(
                f"There is no output {output!r}: {', '.join(self.outputs)}."
            )
        return [row for row in self.rows if row.output == output]

    def __str__(self) -> str:
        lines = []
        for output in self.outputs:
            if output:
                lines.append(output)
            lines += [f"{row.weight:+12.5g}  {row.name}" for row in self.of(output)]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        several = len(self.outputs) > 1
        return _html.table(
            [
                (row.name, f"{row.weight:+.5g}", *([row.output] if several else []))
                for row in self.rows
            ]
        )
