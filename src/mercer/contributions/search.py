"""The heaviest of features that grow: best first, by bounds of what can still come."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import count as counter
from typing import Any

import numpy as np

from mercer.kernels.candidates import Candidate
from mercer.native.clock import tick

MOST_EXPANDED = 300_000  # candidates that are grown before a search gives up
CLOSE = 1e-9  # relative; equal weights differ by rounding, and all of them are found

Rank = Callable[[np.ndarray], float]


def heaviest(
    candidates: Iterable[Candidate],
    n: int,
    score: Rank,
    who: str,
) -> list[Candidate]:
    """The n features with the highest scores, and those that are as high as the last.

    Parameters
    ----------
    score : of (q,) weights; no lower for weights that are larger in size
    who : asks, for the error
    """
    order = counter()
    waiting: list[tuple[float, int, Candidate, bool]] = []

    def push(some: Iterable[Candidate]) -> None:
        for one in some:
            highest = score(np.maximum(one.upper, one.lower))
            if highest > 0:
                heapq.heappush(waiting, (-highest, next(order), one, False))

    push(candidates)
    found: list[Candidate] = []
    expanded, last = 0, 0.0
    while waiting:
        bound, _, one, settled = heapq.heappop(waiting)
        if len(found) >= n and -bound < last * (1 - CLOSE):
            break
        if settled:
            found.append(one)
            if len(found) == n:
                last = -bound
            continue
        expanded += 1
        tick("candidates for the heaviest features", 0.0)
        if expanded > MOST_EXPANDED:
            raise ValueError(
                f"{who} looked at {expanded:,} beginnings of features and cannot yet "
                f"tell which {n} are the heaviest. Ask for fewer, or choose a kernel "
                "with shorter features or a smaller decay."
            )
        if one.weight is not None and (own := score(np.abs(one.weight))) > 0:
            heapq.heappush(waiting, (-own, next(order), one, True))
        push(one.grown())
    return found


def _is_alone(one: Candidate, column: int) -> bool:
    """Whether nothing that a candidate grows into has weight in another column."""
    sums = one.upper + one.lower
    return len(sums) > 1 and not np.delete(sums, column).any()


def every(
    candidates: Iterable[Candidate], column: int, most: int
) -> list[Candidate] | None:
    """All features with weight in one column; None where they are more than `most`.

    Where there are other columns, only those with weight in one of these.
    """
    found: list[Candidate] = []
    waiting: list[Any] = [iter(candidates)]
    seen = 0
    while waiting:
        one = next(waiting[-1], None)
        if one is None:
            waiting.pop()
            continue
        if not one.upper[column] or _is_alone(one, column):
            continue
        seen += 1
        if seen > most:
            return None
        if one.weight is not None and one.weight[column]:
            found.append(one)
        waiting.append(one.grown())
    return found
