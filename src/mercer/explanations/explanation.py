"""Explanation: the parts of f(x), as numbers, as a table, as a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from mercer import _html, plots
from mercer.contributions.parts import Found, Part
from mercer.data.checks import brief

LONGEST_NAME = 60  # letters of a name in a table
SHOWN_PLACES = 4  # of a part, in a table


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """f(x) = bias + Σ values of the parts, for one point and one output of a machine.

    Parameters
    ----------
    point : x
    output : which function it is: "EI against N" is positive for EI; empty where there
        is only one
    by : what the parts are: "features", "items", "coordinates", "terms" or "points"
    bias : what f is before any part counts
    total : f(x), as the machine computes it
    kind : "sequence", "tree" or "graph" of points whose items are tokens or nodes; else
        "other"

    Attributes
    ----------
    parts : the largest, by size, and the sum of all others as `rest`, where there are
        more than were asked for
    n_parts : how many there are in all; None where not all were looked at
    gradient : (d,) array, ∂f/∂x of vectors; None of other points

    Examples
    --------
    >>> from mercer import SVC, Spectrum, explain
    >>> X, y = ["abab", "baba", "bbaa", "aabb"], [1, 1, 0, 0]
    >>> machine = SVC(kernel=Spectrum(2), C=10).fit(X, y)
    >>> [explanation] = explain(machine, ["abb"])
    >>> print(explanation)
    f(x) = -0.5 for 1 against 0, 2 parts by features
            +0.5  substring 'ab'  at 0-1
            -0.5  substring 'bb'  at 1-2
            -0.5  bias
    """

    point: Any
    output: str
    by: str
    bias: float
    total: float
    kind: str
    _found: Found = field(repr=False)
    _column: int = 0
    _n: int = 10
    _slope: Callable[[], np.ndarray | None] = field(default=lambda: None, repr=False)

    @property
    def n_parts(self) -> int | None:
        """How many parts there are in all; None where not all were looked at."""
        return None if self._found.rest[self._column] else len(self._values)

    @property
    def _values(self) -> np.ndarray:
        return self._found.values[:, self._column]

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The largest parts, and `rest`, the sum of the others."""
        values = self._values
        order = np.argsort(-np.abs(values), kind="stable")
        chosen, others = order[: self._n], order[self._n :]
        out = [self._part(j) for j in chosen.tolist()]
        unlisted = float(self._found.rest[self._column])
        if len(others) or unlisted:
            out.append(Part("rest", float(values[others].sum()) + unlisted))
        return tuple(out)

    def _part(self, j: int) -> Part:
        name, places = self._found.described(j)
        return Part(name, float(self._values[j]), places)

    def top(self, n: int) -> Explanation:
        """The same with the n largest of the parts that were found."""
        return replace(self, _n=checked_number(n))

    @cached_property
    def gradient(self) -> np.ndarray | None:
        """∂f/∂x of vectors; None of other points."""
        return self._slope()

    @cached_property
    def items(self) -> dict[Any, float]:
        """What each token, node or column adds to f(x), of all parts that have places.

        Where not all parts were looked at (`n_parts` is None), of the heaviest.
        A part is divided over its places by their shares, a place evenly over its
        items.
        """
        out: dict[Any, float] = {}
        for j in range(len(self._values)):
            part = self._part(j)
            for place in part.places:
                for item in place.items:
                    share = part.value * place.share / len(place.items)
                    out[item] = out.get(item, 0.0) + share
        return out

    def plot(self, ax: Any = None) -> Any:
        """The point coloured by `items`, or bars of the parts: a `Display`.

        Strings, trees and graphs are drawn; of other points the parts are.
        """
        return plots.plot_explanation(self, ax)

    def rows(self) -> list[tuple[str, str, str]]:
        """Value, name and places of each part, the bias last, as text."""
        table = [
            (f"{part.value:+.4g}", _short(part.name), place_text(part, self.kind))
            for part in self.parts
        ]
        return [*table, (f"{self.bias:+.4g}", "bias", "")]

    def heading(self) -> str:
        """f(x), and which function it is."""
        name = f" for {self.output}" if self.output else ""
        return f"f(x) = {self.total:.4g}{name}"

    def _title(self) -> str:
        number = self.n_parts
        of = "the heaviest parts" if number is None else f"{number:,} parts"
        return f"{self.heading()}, {of} by {self.by}"

    def __str__(self) -> str:
        rows = self.rows()
        width = min(LONGEST_NAME, max(len(name) for _, name, _ in rows))
        lines = [
            f"{value:>12}  {name:<{width}}  {places}".rstrip()
            for value, name, places in rows
        ]
        return "\n".join([self._title(), *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(name, value, places) for value, name, places in self.rows()]
        return _html.table(rows, [self._title()])


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def place_text(part: Part, kind: str) -> str:
    """The places of a part, such as "at 3-5, 9-11"; columns have names instead."""
    some = part.places[:SHOWN_PLACES]
    of_fields = any(isinstance(item, tuple) for p in some for item in p.items)
    if not some or (kind == "other" and not of_fields):
        return ""
    if part.name.endswith(f" at {some[0].items[0]}"):  # a name that says it
        return ""
    texts = [_items_text(place.items) for place in some]
    more = f", … ({len(part.places)} places)" * (len(part.places) > SHOWN_PLACES)
    return f"at {', '.join(texts)}{more}"


def _items_text(items: tuple[Any, ...]) -> str:
    fields = {item[0] for item in items if isinstance(item, tuple)}
    if len(fields) == 1 and all(isinstance(item, tuple) for item in items):
        return _items_text(tuple(item[1] for item in items))
    whole = len(items) > 1 and all(isinstance(item, int) for item in items)
    if whole and items == tuple(range(items[0], items[0] + len(items))):
        return f"{items[0]}-{items[-1]}"
    return " ".join(map(str, items))


def checked_number(n: Any) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n is how many parts are listed, 1 or more; got {brief(n)}.")
    return int(n)


def parts_of(explanations: Sequence[Any]) -> list[Explanation]:
    """The explanations in one row, whatever the number of outputs."""
    flat: list[Explanation] = []
    for one in explanations:
        flat += one if isinstance(one, list) else [one]
    return flat
