"""Cells of a table of text: which character divides them, quotes, rows of one length.

In tables divided by commas, semicolons or bars a cell in double quotes may hold the
divider, line ends and, doubled, quotes. Tabs divide without such rules (their files are
full of stray quotes): there a cell loses its quotes only where they enclose all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mercer.io.files import Source, refused, shown

DIVIDERS = ("\t", ";", "|", ",")
WORDS = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma", " ": "white space"}
_SAMPLE = 50  # rows that tell the divider

Row = list[str]


class BadCell(ValueError):
    """What is wrong in a row: the line it is in, the column, and why."""

    def __init__(self, line: int, column: int | None, reason: str):
        super().__init__(reason)
        self.line, self.column, self.reason = line, column, reason


def split_rows(
    text: str, divider: str, path: Source, quotes: bool = True
) -> tuple[list[Row], list[int]]:
    """The rows of a table, all of one length, and the line in which each begins.

    Parameters
    ----------
    divider : one character, or " " for any white space
    quotes : whether double quotes enclose cells
    """
    rows: list[Row] = []
    numbers: list[int] = []
    blank = 0  # the first of the empty lines before this one
    try:
        for number, row in _rows(text, divider, quotes):
            if row == [""] or not row:
                blank = blank or number
                continue
            if blank:
                raise BadCell(blank, None, "the line is empty.")
            if rows and len(row) != len(rows[0]):
                raise BadCell(
                    number,
                    None,
                    f"{_cells(len(row))}, where line {numbers[0]} has "
                    f"{len(rows[0])}; cells are divided by {WORDS.get(divider)}.",
                )
            rows.append(row)
            numbers.append(number)
    except BadCell as error:
        raise refused(path, error.reason, error.line, error.column) from error
    return rows, numbers


def _cells(n: int) -> str:
    return f"{n} cell{'s' * (n != 1)}"


def _rows(text: str, divider: str, quotes: bool) -> Iterator[tuple[int, Row]]:
    """The rows with the numbers of their first lines, of any lengths."""
    found = text.split("\n")
    if found and found[-1] == "":
        found.pop()
    at = 0
    while at < len(found):
        line, number = found[at], at + 1
        at += 1
        if divider == " ":
            yield number, line.split()
        elif '"' not in line or not quotes:
            yield number, line.split(divider)
        elif divider == "\t":
            yield number, [_bare(cell) for cell in line.split("\t")]
        else:
            row, at = _quoted(found, at - 1, divider)
            yield number, row


def _bare(cell: str) -> str:
    """A cell without the quotes that enclose all of it."""
    inner = cell[1:-1]
    whole = len(cell) > 1 and cell[0] == cell[-1] == '"'
    if whole and '"' not in inner.replace('""', ""):
        return inner.replace('""', '"')
    return cell


def _quoted(found: Sequence[str], at: int, divider: str) -> tuple[Row, int]:
    """The cells of the row that begins in line `at`, and the line after the row."""
    cells: Row = []
    begin = 0
    while True:
        line = found[at]
        if line.startswith('"', begin):
            cell, at, end = _enclosed(found, at, begin + 1)
            line = found[at]
            if end < len(line) and not line.startswith(divider, end):
                raise BadCell(
                    at + 1,
                    end + 1,
                    f"{shown(line[end : end + 10])} follows a closing quote; double "
                    "the quotes inside of a cell.",
                )
            end = end if end < len(line) else -1
        else:
            end = line.find(divider, begin)
            cell = line[begin:] if end < 0 else line[begin:end]
        cells.append(cell)
        if end < 0:
            return cells, at + 1
        begin = end + 1


def _enclosed(found: Sequence[str], at: int, end: int) -> tuple[str, int, int]:
    """What stands in quotes; the line and the place after the closing one."""
    opened, parts = (at + 1, end), []
    while True:
        line = found[at]
        close = line.find('"', end)
        if close < 0:  # the cell goes on in the next line
            parts.append(line[end:] + "\n")
            at, end = at + 1, 0
            if at == len(found):
                raise BadCell(*opened, "a quote opens here that is never closed.")
        elif line.startswith('""', close):
            parts.append(line[end : close + 1])
            end = close + 2
        else:
            return "".join([*parts, line[end:close]]), at, close + 1


def divider_of(text: str, suffix: str = "") -> str:
    """The divider of a table: the first that gives rows of one length above 1.

    White space is the last that is tried; a table of a single column has a comma.
    """
    if suffix == ".tsv":
        return "\t"
    cut = _cut_at(text, _SAMPLE)
    for divider in (*DIVIDERS, " "):
        try:
            rows = [
                row for _, row in _rows(cut, divider, True) if row not in ([""], [])
            ]
        except BadCell:
            continue
        if rows and len(rows[0]) > 1 and len({len(row) for row in rows}) == 1:
            return divider
    first = cut.partition("\n")[0]
    present = [d for d in DIVIDERS if d in first]
    # Rows of different lengths are refused later, with their place.
    return max(present, key=first.count) if present else ","


def _cut_at(text: str, lines: int) -> str:
    """The first lines of a text, not in the midst of a quoted cell where that shows."""
    end = -1
    for _ in range(lines):
        end = text.find("\n", end + 1)
        if end < 0:
            return text
    while text.count('"', 0, end) % 2 and end - lines < 10**6:
        following = text.find("\n", end + 1)
        if following < 0:
            return text
        end = following
    return text[:end]


def transposed(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The columns of rows of one length."""
    return list(zip(*rows, strict=True))
