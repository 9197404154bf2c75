"""What a fit has reached, kept for the fit after an error in reading the points.

A fit on points in files takes many passes over them, and any of them may fail. What was
found by then is kept: a solve asks at its beginning with `begun` for what an earlier
one left, a dictionary, and writes there what it would start from. The order of the
solves of a fit tells them apart. Outside `keeping` a dictionary is kept by nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


class Reached:
    """How far the parts of a fit have come, in the order in which they begin.

    Attributes
    ----------
    source : what the points are read from, so that others are told apart; None for
        points in memory, of which nothing is kept
    parts : what each of the parts has left
    """

    def __init__(self) -> None:
        self.source: Any = None
        self.parts: list[dict[str, Any]] = []
        self.next = 0

    def read_from(self, source: Any) -> bool:
        """These points are read; whether what is kept was found on the same ones."""
        same = self.source is not None and source == self.source
        if not same:
            self.source, self.parts = source, []
        return same

    def begun(self) -> dict[str, Any]:
        if self.source is None:
            return {}
        if self.next == len(self.parts):
            self.parts.append({})
        self.next += 1
        return self.parts[self.next - 1]


_reached: ContextVar[Reached | None] = ContextVar("mercer_reached", default=None)


@contextmanager
def keeping(reached: Reached) -> Iterator[Reached]:
    """What is begun inside goes on from there, and is kept there."""
    reached.next = 0
    token = _reached.set(reached)
    try:
        yield reached
    finally:
        _reached.reset(token)


def reading(source: Any) -> bool:
    """The points of the fit are read from there; whether an earlier fit was, too."""
    reached = _reached.get()
    return reached is not None and reached.read_from(source)


def begun() -> dict[str, Any]:
    """What an earlier fit left of the part that begins here; to be written to."""
    reached = _reached.get()
    return {} if reached is None else reached.begun()
