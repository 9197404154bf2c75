"""What comes piece by piece, as the points of a stream do."""

from __future__ import annotations

from collections.abc import Callable, Sized
from functools import reduce
from typing import Generic, TypeVar

Part = TypeVar("Part", bound=Sized)


class Parts(Generic[Part]):
    """What comes piece by piece, joined when the whole is asked for.

    A piece is joined to the last at once where it is not much shorter, so that a stream
    of n of them is kept in log n parts, and each is copied log n times.
    """

    def __init__(
        self, joined: Callable[[Part, Part], Part], parts: tuple[Part, ...] = ()
    ):
        self.joined, self.parts = joined, parts

    def with_more(self, part: Part) -> Parts[Part]:
        """These and another one; this object stays as it is."""
        parts = (*self.parts, part)
        while len(parts) > 1 and len(parts[-2]) <= 2 * len(parts[-1]):
            parts = (*parts[:-2], self.joined(parts[-2], parts[-1]))
        return Parts(self.joined, parts)

    def whole(self) -> Part:
        """All of them as one."""
        self.parts = (reduce(self.joined, self.parts),)
        return self.parts[0]
