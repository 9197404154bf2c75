"""Formulas in LaTeX, as notebooks show kernels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

MOST_TERMS = 6  # of a polynomial
LONGEST = 40  # letters of a parameter in a formula
_SPECIAL = {
    "\\": r"\backslash ",
    "{": r"\{",
    "}": r"\}",
    "_": r"\_",
    "$": r"\$",
    "%": r"\%",
    "#": r"\#",
    "&": r"\&",
    "^": r"\wedge ",
    "~": r"\sim ",
    "<": r"\lt ",  # a browser would take these for HTML
    ">": r"\gt ",
    " ": r"\ ",
}


class Formula(NamedTuple):
    """LaTeX, and how strongly its outermost operation binds."""

    text: str
    strength: int

    def within(self, strength: int) -> str:
        """The text beside an operation of this strength, in parentheses if needed."""
        return self.text if self.strength >= strength else rf"\left({self.text}\right)"


# A series Σᵢ aᵢ binds less than a sum: what follows it would seem to be part of it.
SERIES, SUM, PRODUCT, FUNCTION, POWER, ATOM = range(6)


def atom(text: str) -> Formula:
    """A formula that needs no parentheses anywhere."""
    return Formula(text, ATOM)


def exponential(exponent: str) -> Formula:
    """exp(exponent)."""
    return Formula(rf"\exp\left({exponent}\right)", FUNCTION)


def inner(x: str, y: str) -> str:
    """⟨x, y⟩."""
    return rf"\langle {x}, {y}\rangle"


def distance(x: str, y: str) -> str:
    """‖x - y‖."""
    return rf"\lVert {x} - {y}\rVert"


def number(value: float | None, symbol: str = "") -> str:
    """A number to six digits; the symbol for None, which is to be learnt."""
    if value is None:
        return symbol
    mantissa, _, exponent = f"{float(value):.6g}".partition("e")
    if not exponent:
        return mantissa.replace("inf", r"\infty")
    power = f"10^{{{int(exponent)}}}"
    return power if mantissa == "1" else rf"{mantissa} \cdot {power}"


def factor(value: float | None, symbol: str = "") -> str:
    """A number before what it multiplies; nothing for 1."""
    text = number(value, symbol)
    return "" if text == "1" else rf"{text}\,"


def roman(text: str) -> str:
    """Text as it is, in upright letters; long text is cut."""
    cut = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    shown = (c if c.isprintable() else "\ufffd" for c in cut)
    return rf"\mathrm{{{''.join(_SPECIAL.get(c, c) for c in shown)}}}"


def function(user_function: object, symbol: str) -> str:
    """The name of a user's function; the symbol where it has none."""
    name = getattr(user_function, "__name__", "")
    return roman(name) if name.isidentifier() else symbol


def index(field: object) -> str:
    """What a field of records or vectors is chosen by."""
    if isinstance(field, slice):
        ends = ("" if end is None else str(end) for end in (field.start, field.stop))
        return roman(":".join(ends) + (f":{field.step}" if field.step else ""))
    return roman(", ".join(map(str, field)) if isinstance(field, list) else str(field))


def polynomial(coefficients: Iterable[float], base: Formula) -> Formula:
    """Σₙ coefficients[n] baseⁿ, terms of coefficient 0 left out; long ones cut."""
    terms = []
    for n, coefficient in enumerate(coefficients):
        if coefficient:
            power = "" if n == 1 else f"^{{{n}}}"
            inside = f"{base.within(ATOM) if power else base.within(PRODUCT)}{power}"
            terms.append(f"{factor(coefficient)}{inside}" if n else number(coefficient))
    if len(terms) > MOST_TERMS:
        terms[MOST_TERMS - 2 : -1] = [r"\dots"]
    return Formula(" + ".join(terms) or "0", SUM if len(terms) > 1 else PRODUCT)


def applied(name: str, inside: Formula) -> Formula:
    """name[inside], an operation on a kernel."""
    return Formula(rf"{roman(name)}\left[{inside.text}\right]", FUNCTION)


def named(name: str, settings: dict[str, str], x: str, y: str) -> Formula:
    """name(x, y), with parameters as subscripts."""
    below = r",\,".join(
        f"{roman(key)}={roman(setting)}" for key, setting in settings.items()
    )
    subscript = f"_{{{below}}}" if below else ""
    return Formula(rf"{roman(name)}{subscript}({x}, {y})", FUNCTION)
