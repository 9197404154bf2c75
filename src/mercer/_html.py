"""Tables and drawings for notebooks, as HTML and SVG in which all text is escaped."""

import html
from collections.abc import Iterable, Sequence

LONGEST_LABEL = 24  # letters of a label in a drawing
LETTER = 8  # pixels that a letter takes at most, on average


def table(rows: Iterable[Sequence[object]], notes: Iterable[str] = ()) -> str:
    """Rows of cells, the first of each as its heading, and lines of text below."""
    body = "".join(f"<tr>{_heading(first)}{_cells(rest)}</tr>" for first, *rest in rows)
    below = "".join(f"<div>{escaped(note)}</div>" for note in notes)
    return f"<div><table>{body}</table>{below}</div>"


def escaped(content: object) -> str:
    """str(content) as text of HTML or SVG; characters that cannot be shown are �."""
    text = str(content)
    shown = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)
    return html.escape(shown)


def shortened(label: object) -> str:
    """A label as a drawing shows it."""
    text = str(label)
    whole = len(text) <= LONGEST_LABEL
    return text if whole else f"{text[: LONGEST_LABEL - 1]}…"


def drawing(width: float, height: float, parts: Iterable[str]) -> str:
    """An SVG of these parts, in the colour of the text around it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        'style="max-width:100%" font-family="sans-serif" font-size="13" '
        f'fill="currentColor" stroke="none">{"".join(parts)}</svg>'
    )


def line(x1: float, y1: float, x2: float, y2: float, title: object = "") -> str:
    """A thin line, with a title that is shown under the pointer."""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="currentColor" stroke-opacity="0.5">{_title(title)}</line>'
    )


def circle(
    x: float, y: float, radius: float, title: object = "", filled: bool = True
) -> str:
    """A disc, or the outline of one."""
    paint = "" if filled else 'fill="none" stroke="currentColor" stroke-opacity="0.5"'
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" {paint}>'
        f"{_title(title)}</circle>"
    )


def label(x: float, y: float, content: object, anchor: str = "middle") -> str:
    """A short text whose middle, start or end is at (x, y)."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" dy="0.35em" text-anchor="{anchor}">'
        f"{_title(content)}{escaped(shortened(content))}</text>"
    )


def _title(content: object) -> str:
    return f"<title>{escaped(content)}</title>" if str(content) else ""


def _heading(content: object) -> str:
    return f'<th style="text-align:left">{escaped(content)}</th>'


def _cells(contents: Iterable[object]) -> str:
    return "".join(
        f'<td style="text-align:left">{escaped(content)}</td>' for content in contents
    )
