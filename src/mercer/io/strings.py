"""Strings: FASTA and FASTQ, and files with one string on each line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from mercer.io.cells import divider_of, split_rows
from mercer.io.dataset import Dataset
from mercer.io.files import Source, lines, read_text, refused, shown, suffix_of

Labels = Mapping[str, str] | Source
_ODD = re.compile(r"[^A-Za-z*.\-]")
_NEEDS_GROUP = "A pattern for labels has one group, as in 'label=(\\S+)'; got {!r}."


def read_fasta(
    path: Source,
    target: str | None = None,
    *,
    labels: Labels | None = None,
    limit: float | None = None,
) -> Dataset:
    """The sequences of a FASTA file, in the order of the file; their names are kept.

    Parameters
    ----------
    path : of the file, which may be compressed
    target : a regular expression with one group, searched in the header line: what it
        matches is the label, as in r"label=(\\S+)"
    labels : instead, the label of each name (the first word of its header): a mapping,
        or the path of a table with names in its first column, labels in its second
    limit : bytes that the file may have, unpacked; None for half of the memory

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from mercer.io import read_fasta
    >>> path = pathlib.Path(tempfile.mkdtemp(), "two.fasta")
    >>> _ = path.write_text(">a site=yes\\nACGT\\nAC\\n>b site=no\\nGGT\\n")
    >>> data = read_fasta(path, r"site=(\\S+)")
    >>> data.points, data.names, data.target.tolist()
    (['ACGTAC', 'GGT'], ('a', 'b'), ['yes', 'no'])
    """
    headers: list[tuple[int, str]] = []
    parts: list[list[str]] = []
    for number, line in lines(path, limit):
        if line.startswith(">"):
            _check_sequence(headers, parts, path)
            headers.append((number, line[1:].strip()))
            parts.append([])
            continue
        text = line.strip()
        if text and not headers:
            raise refused(path, "a sequence before its header, '>name'.", number, 1)
        if odd := _ODD.search(text):
            place = line.index(text) + odd.start() + 1
            raise refused(
                path, f"{odd.group()!r} is no letter of a sequence.", number, place
            )
        if text:
            parts[-1].append(text)
    _check_sequence(headers, parts, path)
    if not headers:
        raise refused(path, "has no sequences; a header is '>name'.")
    points = ["".join(some) for some in parts]
    return _sequences(points, headers, target, labels, path)


def _check_sequence(
    headers: list[tuple[int, str]], parts: list[list[str]], path: Source
) -> None:
    if parts and not parts[-1]:
        raise refused(path, "a header without a sequence below it.", headers[-1][0])


def read_fastq(
    path: Source,
    target: str | None = None,
    *,
    labels: Labels | None = None,
    limit: float | None = None,
) -> Dataset:
    """The sequences of a FASTQ file; qualities are checked, and not kept.

    Parameters
    ----------
    path, target, labels, limit : as of `read_fasta`

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from mercer.io import read_fastq
    >>> path = pathlib.Path(tempfile.mkdtemp(), "reads.fastq")
    >>> _ = path.write_text("@r1\\nACGT\\n+\\nIIII\\n")
    >>> read_fastq(path).points
    ['ACGT']
    """
    headers, points = [], []
    found = list(lines(path, limit))
    while found and not found[-1][1].strip():
        found.pop()
    at = 0
    while at < len(found):
        number, line = found[at]
        if not line.startswith("@"):
            raise refused(
                path, f"{shown(line)} where a header, '@name', is due.", number, 1
            )
        headers.append((number, line[1:].strip()))
        sequence, at = _until(found, at + 1, "+", path, number)
        size = len(sequence)
        quality = ""
        at += 1
        # '@' and '+' are qualities too: their number tells where they end.
        while len(quality) < size and at < len(found):
            quality += _qualities(found[at], path)
            at += 1
        if len(quality) != size:
            last = found[min(at, len(found)) - 1][0]
            raise refused(path, f"{len(quality)} qualities for {size} letters.", last)
        points.append(sequence)
    if not points:
        raise refused(path, "has no sequences; a header is '@name'.")
    return _sequences(points, headers, target, labels, path)


def _until(
    found: Sequence[tuple[int, str]], at: int, end: str, path: Source, header: int
) -> tuple[str, int]:
    """The letters of the lines before one that begins with `end`, and its place."""
    parts = []
    while at < len(found) and not found[at][1].startswith(end):
        number, line = found[at]
        text = line.strip()
        if odd := _ODD.search(text):
            place = line.index(text) + odd.start() + 1
            raise refused(
                path, f"{odd.group()!r} is no letter of a sequence.", number, place
            )
        parts.append(text)
        at += 1
    if at == len(found):
        raise refused(path, "the file ends before '+' and qualities.", header)
    if not any(parts):
        raise refused(path, "a header without a sequence below it.", header)
    return "".join(parts), at


def _qualities(numbered: tuple[int, str], path: Source) -> str:
    number, line = numbered
    for place, letter in enumerate(line):
        if not "!" <= letter <= "~":
            raise refused(path, f"{letter!r} is no quality.", number, place + 1)
    return line


def _sequences(
    points: list[str],
    headers: Sequence[tuple[int, str]],
    target: str | None,
    labels: Labels | None,
    path: Source,
) -> Dataset:
    names = tuple((header.split() or [""])[0] for _, header in headers)
    if target is not None and labels is not None:
        raise ValueError("Labels come from the headers (target) or a table (labels).")
    found = None
    if target is not None:
        pattern = label_pattern(target)
        found = []
        for number, header in headers:
            match = pattern.search(header)
            if match is None:
                raise refused(
                    path, f"{shown(header)} has no match of {target!r}.", number
                )
            found.append(match.group(1))
    elif labels is not None:
        known = label_table(labels)
        found = []
        for (number, _), name in zip(headers, names, strict=True):
            if name not in known:
                raise refused(path, f"the labels have none for {shown(name)}.", number)
            found.append(known[name])
    y = None if found is None else as_labels(found)
    return Dataset(points, y, names, "sequences")


def label_pattern(text: str) -> re.Pattern[str]:
    """A regular expression with one group."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}.") from error
    if pattern.groups != 1:
        raise ValueError(_NEEDS_GROUP.format(text))
    return pattern


def label_table(labels: Labels) -> Mapping[str, str]:
    """The label of each name, from a mapping or a table of two columns."""
    if isinstance(labels, Mapping):
        return {str(name): str(label) for name, label in labels.items()}
    text = read_text(labels)
    rows, numbers = split_rows(text, divider_of(text, suffix_of(labels)), labels)
    known: dict[str, str] = {}
    for row, number in zip(rows, numbers, strict=True):
        if len(row) < 2:
            raise refused(labels, "a name and a label are needed.", number)
        name, label = row[0].strip(), row[1].strip()
        if known.get(name, label) != label:
            raise refused(labels, f"{shown(name)} has another label above.", number, 2)
        known[name] = label
    return known


def as_labels(found: Sequence[str]) -> np.ndarray:
    """Labels as an array: whole numbers where all of them are, else words."""
    if all(re.fullmatch(r"[+-]?\d{1,18}", label) for label in found):
        return np.array([int(label) for label in found])
    return np.array(found, dtype=np.str_)


def read_strings(
    path: Source,
    target: str | int | None = None,
    *,
    limit: float | None = None,
) -> Dataset:
    """A file with a string on each line, perhaps with a label.

    Parameters
    ----------
    path : of the file, which may be compressed
    target : None where every line is a string; a number for the tab-divided column
        that is the label, the other one being the string; or a regular expression with
        one group for the label, matched at the start, the string being the rest
    limit : bytes that the file may have, unpacked; None for half of the memory

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from mercer.io import read_strings
    >>> path = pathlib.Path(tempfile.mkdtemp(), "questions.txt")
    >>> _ = path.write_text("HUM:ind Who was Galileo ?\\nLOC:city Where is Rome ?\\n")
    >>> data = read_strings(path, r"(\\w+):\\w+ ")
    >>> data.points, data.target.tolist()
    (['Who was Galileo ?', 'Where is Rome ?'], ['HUM', 'LOC'])
    """
    points, found = [], []
    pattern = label_pattern(target) if isinstance(target, str) else None
    for number, line in lines(path, limit):
        if not line.strip():
            raise refused(path, "the line is empty; strings are not.", number)
        label, point = None, line
        if pattern is not None:
            match = pattern.match(line)
            if match is None:
                raise refused(path, f"{shown(line)} does not begin with {target!r}.",
                              number)  # fmt: skip
            label, point = match.group(1), line[match.end() :]
        elif target is not None:
            cells = line.split("\t")
            if len(cells) != 2 or int(target) not in (0, 1, -1, -2):
                raise refused(
                    path,
                    f"{len(cells)} cells divided by tabs, and the label is number "
                    f"{target}; two are needed, a label and a string.",
                    number,
                )
            label = cells[int(target)].strip()
            point = cells[1 - int(target) % 2]
        points.append(point)
        found.append(label or "")
    if not points:
        raise refused(path, "has no lines.")
    labelled = None if target is None else as_labels(found)
    return Dataset(points, labelled, kind="text")
