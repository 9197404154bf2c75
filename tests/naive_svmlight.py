"""Points in svmlight text, read line by line with Python's own numbers."""

import math
import re

NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
INDEX = re.compile(rb"[0-9]+\Z")
QUERY = re.compile(rb"qid:(-?[0-9]+)\Z")
LARGEST = 2**53


class Malformed(Exception):
    """The line that cannot be read, from 1."""


def number(word):
    if not NUMBER.match(word) or not math.isfinite(float(word)):
        raise ValueError(word)
    return float(word)


def parsed(text, *, multilabel=False, query=True, blank=True, largest=LARGEST):
    """A list of (labels, query or None, [(index, value), ...]), one for each point."""
    rows = []
    lines = text.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    for number_of_line, line in enumerate(lines, 1):
        # A comment begins at a #, wherever it is.
        words = re.split(rb"[ \t\r\f\v]+", line.partition(b"#")[0])
        words = [word for word in words if word]
        if not words:
            if not blank:
                raise Malformed(number_of_line)
            continue
        try:
            rows.append(_row(words, multilabel, query, largest))
        except ValueError as error:
            raise Malformed(number_of_line) from error
    return rows


def _row(words, multilabel, query, largest):
    labels = []
    if not (multilabel and b":" in words[0]):
        head = words.pop(0)
        labels = [number(one) for one in (head.split(b",") if multilabel else [head])]
    group = None
    if query and words and words[0].startswith(b"qid:"):
        found = QUERY.match(words.pop(0))
        if not found or not -(2**63) <= int(found[1]) < 2**63:
            raise ValueError("qid")
        group = int(found[1])
    entries, last = [], -1
    for word in words:
        index, colon, value = word.partition(b":")
        if not colon or not INDEX.match(index) or not last < int(index) <= largest:
            raise ValueError(word)
        last = int(index)
        entries.append((last, number(value)))
    return labels, group, entries
