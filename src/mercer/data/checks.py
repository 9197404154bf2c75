"""What is refused among data of every kind, and how an error message shows it."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.blocks import mapping_of

MOST_NUMBERS = 2**31  # in lists that are made an array
MOST_PARTS = 10_000  # of a tuple that is a label or a token

# Lists that share their parts could have more to write than there is memory.
_BRIEF = reprlib.Repr()
_BRIEF.maxlevel = 4
_BRIEF.maxlist = _BRIEF.maxtuple = _BRIEF.maxset = _BRIEF.maxdict = 8
_BRIEF.maxfrozenset = _BRIEF.maxarray = _BRIEF.maxdeque = 8
_BRIEF.maxstring = _BRIEF.maxlong = _BRIEF.maxother = 60


def describe(x: object) -> str:
    """x for an error message: its type, and its value where that is short."""
    text = _BRIEF.repr(x)
    kind = type(x).__name__
    article = "an" if kind[0] in "aeiouAEIOU" else "a"
    return f"{article} {kind} ({text})" if len(text) <= 40 else f"{article} {kind}"


def brief(x: object) -> str:
    """x as it is written, for an error message: of much data, the beginning."""
    return _BRIEF.repr(x)


def shown(text: str | bytes) -> str:
    """A string for an error message, of which a long one is cut."""
    text = repr(text.item() if isinstance(text, np.generic) else text)
    return text if len(text) <= 40 else f"{text[:36]}...{text[-1]}"


def check_file(X: Any) -> None:
    """Refuse a memory-mapped array whose file was cut: to read it ends the process."""
    source, begin = mapping_of(X)
    if source is None:
        return
    try:
        size = source.size()
    except (OSError, ValueError):  # not of a file, or the file is closed
        return
    if size < begin + len(source):
        raise ValueError(
            f"The file of a memory-mapped array has {size:,} bytes, where the array "
            f"needs {begin + len(source):,}: it was cut after the array was opened. "
            "Restore the file, or open it anew."
        )


def check_finite(X: Any, who: str) -> None:
    """Refuse NaN and infinity among numbers; `who` reads them, for the error."""
    if not (isinstance(X, np.ndarray) or sp.issparse(X)) or X.dtype.kind != "f":
        return
    entries = X.data if sp.issparse(X) else X
    # A sum is finite only if all numbers are, or overflows: then they are looked at.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(entries.sum(dtype=float)) or np.isfinite(entries).all():
            return
    if sp.issparse(X):
        X = X.tocoo()
        i = int(np.flatnonzero(~np.isfinite(X.data))[0])
        row, value = X.coords[0][i], X.data[i]
    else:
        where = tuple(np.argwhere(~np.isfinite(X))[0])
        row, value = where[0], X[where]
    what = "missing (NaN)" if np.isnan(value) else f"{value}"
    raise ValueError(
        f"{who} compares finite numbers; at point {row} one is {what}. Fill it in, or "
        "leave the point out."
    )


def check_ending(values: Any, needs: str) -> None:
    """Refuse targets or weights without end, in length or nesting, before numpy reads.

    Parameters
    ----------
    needs : how an error begins, as in "SVC needs y as an array, one for each point"
    """
    if hasattr(values, "__array__") or sp.issparse(values):
        return
    if isinstance(values, Iterable) and not hasattr(values, "__len__"):
        raise TypeError(f"{needs}; got {describe(values)}. Make a list of it.")
    if hasattr(values, "__len__") and len(values) > MOST_NUMBERS:
        raise ValueError(f"{needs}; got {describe(values)} of length {len(values):,}.")
    check_nesting(values, f"{needs}; what was given")


def check_nesting(x: Any, what: str = "A point") -> None:
    """Refuse lists in lists that have no end, or more numbers than memory has room.

    numpy would follow them. Parts that are shared are looked at once here.
    """
    sizes: dict[int, int] = {}
    above: set[int] = set()  # the lists between the outermost and this one
    pending = [(x, False)] if isinstance(x, list | tuple) else []
    while pending:
        part, seen = pending.pop()
        inner = [item for item in part if isinstance(item, list | tuple)]
        if seen:
            above.discard(id(part))
            sizes[id(part)] = len(part) + sum(sizes[id(item)] for item in inner)
        elif id(part) in above:
            raise ValueError(f"{what} is a list that contains itself; it has no end.")
        elif id(part) not in sizes:
            above.add(id(part))
            pending.append((part, True))
            pending.extend((item, False) for item in inner)
    if sizes.get(id(x), 0) > MOST_NUMBERS:
        raise ValueError(
            f"{what} is lists in lists with more than {MOST_NUMBERS:,} entries, since "
            "they contain the same parts over and over. Pass arrays of numbers."
        )


def check_label(label: object, whose: str) -> None:
    """Refuse what cannot be hashed, or is a tuple with too many parts for that.

    `whose` labels they are, and which, as in "The labels of a tree are; node 3".
    """
    what, _, which = whose.partition(";")
    if type(label) is tuple and not _is_small(label):
        raise ValueError(
            f"{what} small;{which} has a tuple with more than {MOST_PARTS:,} parts, "
            "counted as often as they occur. Use a number or a word for it."
        )
    try:
        hash(label)
    except TypeError:
        raise TypeError(
            f"{what} hashable;{which} has the label {describe(label)}."
        ) from None


def _is_small(label: tuple[Any, ...]) -> bool:
    """Whether a nested tuple has at most MOST_PARTS parts, shared ones each time."""
    parts, pending = 0, [label]
    while pending:
        some = pending.pop()
        parts += len(some)
        if parts > MOST_PARTS:
            return False
        pending.extend(part for part in some if type(part) is tuple)
    return True
