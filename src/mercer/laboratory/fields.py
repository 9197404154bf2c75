"""JSON, read and checked field by field."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from typing import Any, NoReturn

from mercer.laboratory.refusals import Refusal

MOST_BYTES = 2**20  # of the body of a request


def read_json(body: bytes) -> Any:
    """The value of a body; constants that are no JSON, such as NaN, are refused."""
    try:
        return json.loads(body, parse_constant=_no_constant)
    except RecursionError:
        raise _no_json("it is nested too deeply") from None
    except (ValueError, UnicodeDecodeError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise _no_json(reason.rstrip(".")) from None


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _no_json(reason: str) -> Refusal:
    return Refusal(f"The body is no JSON: {reason}.", code="json")


class Fields:
    """The fields of a JSON object; those that nobody knows are refused.

    Parameters
    ----------
    value : what was read; anything but an object is refused
    known : the names it may have
    place : JSON pointer of the object
    """

    def __init__(self, value: Any, known: Collection[str], place: str = ""):
        self.place = place
        if not isinstance(value, dict):
            self.refuse("", f"needs an object {{...}}; got {kind_of(value)}")
        self.value: dict[str, Any] = value
        for name in value:
            if name not in known:
                listed = ", ".join(sorted(known))
                self.refuse(name, f"is not known here; there are {listed}")

    def refuse(self, name: str, what: str) -> NoReturn:
        """Refuse a field, or with "" the object itself."""
        field = self.place + (f"/{escaped(name)}" if name else "")
        shown = field or "The request"
        raise Refusal(f"{shown} {what}.", code="field", field=field)

    def has(self, name: str) -> bool:
        """Whether it is given, and not null."""
        return self.value.get(name) is not None

    def needed(self, name: str) -> Any:
        """What is given; it must be."""
        if not self.has(name):
            self.refuse(name, "is missing")
        return self.value[name]

    def text(self, name: str, most: int, default: str | None = None) -> str:
        """A text of 1 to `most` letters."""
        if default is not None and not self.has(name):
            return default
        value = self.needed(name)
        if not isinstance(value, str):
            self.refuse(name, f"needs a text; got {kind_of(value)}")
        if not 0 < len(value) <= most:
            self.refuse(name, f"needs 1 to {most} letters; got {len(value)}")
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            self.refuse(name, "has half of a pair of surrogates, which is no letter")
        return value

    def choice(
        self, name: str, words: Collection[str], default: str | None = None
    ) -> str:
        """One of some words."""
        if default is not None and not self.has(name):
            return default
        value = self.needed(name)
        if not isinstance(value, str) or value not in words:
            self.refuse(name, f"needs one of {', '.join(words)}; got {shown(value)}")
        return value

    def number(
        self, name: str, low: float, high: float, default: float | None = None
    ) -> float:
        """A number from `low` to `high`."""
        if default is not None and not self.has(name):
            return default
        value = self.needed(name)
        if not is_number(value) or not low <= value <= high:
            self.refuse(
                name, f"needs a number from {low:g} to {high:g}; got {shown(value)}"
            )
        return float(value)

    def whole(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number from `low` to `high`; 3.0 is one."""
        if default is not None and not self.has(name):
            return default
        value = self.needed(name)
        if not is_number(value) or value != int(value) or not low <= value <= high:
            self.refuse(
                name, f"needs a whole number from {low} to {high}; got {shown(value)}"
            )
        return int(value)

    def items(self, name: str, least: int, most: int) -> list[Any]:
        """A list of so many items."""
        value = self.needed(name)
        if not isinstance(value, list):
            self.refuse(name, f"needs a list; got {kind_of(value)}")
        if not least <= len(value) <= most:
            self.refuse(name, f"needs {least} to {most} items; got {len(value)}")
        return value

    def pair(self, name: str, low: float, high: float) -> tuple[float, float]:
        """A list of two numbers."""
        value = self.items(name, 2, 2)
        if not all(is_number(one) and low <= one <= high for one in value):
            self.refuse(
                name, f"needs two numbers from {low:g} to {high:g}; got {shown(value)}"
            )
        return float(value[0]), float(value[1])

    def inner(self, name: str, known: Collection[str]) -> Fields:
        """The object in a field."""
        return Fields(self.needed(name), known, f"{self.place}/{escaped(name)}")


def is_number(value: Any) -> bool:
    """Whether it is a finite number; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:  # a whole number beyond all of float64
        return False


def kind_of(value: Any) -> str:
    """What JSON calls it."""
    kinds = {str: "a text", bool: "true or false", list: "a list", dict: "an object"}
    return kinds.get(type(value), "null" if value is None else "a number")


def shown(value: Any) -> str:
    """A value in a message."""
    if isinstance(value, dict | list):
        return kind_of(value)
    try:
        text = json.dumps(value)
    except ValueError:  # whole numbers beyond what Python writes
        return kind_of(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def escaped(name: str) -> str:
    """A name within a JSON pointer."""
    return name[:60].replace("~", "~0").replace("/", "~1")
