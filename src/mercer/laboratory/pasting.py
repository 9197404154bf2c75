"""Text that was pasted, as points."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from mercer.laboratory.datasets import points_of
from mercer.laboratory.offers import MOST_POINTS
from mercer.laboratory.refusals import Refusal
from mercer.laboratory.state import FARTHEST, MOST_CLASSES


def points_in(text: str) -> dict[str, Any]:
    """Rows of x, y and perhaps a label; a heading is skipped.

    Labels that are words, or numbers other than 0 to 5, are counted in their order.
    """
    rows: list[tuple[float, float, str]] = []
    lines = [(k, line) for k, line in enumerate(text.splitlines(), 1) if line.strip()]
    for k, line in lines:
        cells = [cell for cell in re.split(r"[,;\t ]+", line.strip()) if cell]
        places = [_number(cell) for cell in cells[:2]]
        if None in places and not rows and k == lines[0][0] and len(lines) > 1:
            continue
        if len(cells) not in (2, 3) or None in places:
            raise _refused(k, "needs two numbers and perhaps a label, as 0.5, 1.2, 1")
        x, y = (float(one) for one in places if one is not None)
        if max(abs(x), abs(y)) > FARTHEST:
            raise _refused(k, f"has a number beyond {FARTHEST:g}")
        rows.append((x, y, cells[2] if len(cells) == 3 else "0"))
        if len(rows) > MOST_POINTS:
            raise _refused(k, f"is beyond the {MOST_POINTS} points that are taken")
    if not rows:
        raise Refusal(
            "There are no points in the text: rows of two numbers are needed.",
            code="points",
            field="/text",
        )
    names = _names([label for *_, label in rows])
    labels = np.array([names.index(label) for *_, label in rows])
    places_of_all = np.array([(x, y) for x, y, _ in rows])
    return {"points": points_of(places_of_all, labels), "labels": names}


def _names(labels: list[str]) -> list[str]:
    """The names of the labels 0, 1, ...; digits that are labels already stay."""
    found = sorted(set(labels), key=_rank)
    if all(one in map(str, range(MOST_CLASSES)) for one in found):
        return [str(k) for k in range(int(found[-1]) + 1)]
    if len(found) > MOST_CLASSES:
        raise Refusal(
            f"The text has {len(found)} different labels; at most {MOST_CLASSES} are "
            "taken.",
            code="points",
            field="/text",
        )
    return found


def _rank(label: str) -> tuple[bool, float, str]:
    """Numbers by their size, then words by their letters."""
    number = _number(label)
    return number is None, 0.0 if number is None else number, label


def _number(cell: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _refused(line: int, what: str) -> Refusal:
    return Refusal(f"Line {line} {what}.", code="points", field="/text")
