"""svm-grid: cross validation on a grid of C and gamma, as LIBSVM's grid.py prints it.

The points are read once, and every pair is judged by the library itself. Of regression
the pair of the least error is the best one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from mercer.cli.options import GridOptions, Range, Refused
from mercer.cli.svm_data import Data, kernel
from mercer.cli.svm_train import Random, judged, prepared
from mercer.gram import Gram

Pair = tuple[float | None, float | None]  # log2 of C and of gamma; None as given


def run(options: GridOptions) -> int:
    """Judge all pairs, and print the best."""
    for path, missing in (
        (options.svmtrain, "svm-train executable not found"),
        (options.data_file, "dataset not found"),
        (options.resume_file, "file for resumption not found"),
    ):
        if path is not None and not Path(path).exists():
            raise Refused(f'{missing}\nTry "svm-grid" for more information.')
    if options.gnuplot is not None and not Path(options.gnuplot).exists():
        sys.stderr.write("gnuplot executable not found\n")
        options.gnuplot = None
    known = {} if options.resume_file is None else _rates_in(options.resume_file)
    best = _Best(options, smaller=options.train.svm_type > 2)
    for pair, rate in known.items():
        best.take(pair, rate, "resumed", None)
    mode = "w" if options.resume_file is None else "a"
    judge = _Judge(options)
    rates: dict[Pair, float] = dict(known)
    out = None
    if options.out_file is not None:
        out = open(options.out_file, mode, encoding="ascii")
    try:
        for pair in _pairs(options):
            if pair not in known:
                rates[pair] = judge.rate(pair)
                best.take(pair, rates[pair], "local", out)
    finally:
        if out is not None:
            out.close()
    if options.gnuplot is not None:
        _draw(options, rates, best)
    shown = [2.0**value for value in (best.pair or ()) if value is not None]
    print(" ".join(map(str, shown)), best.rate)
    return 0


class _Judge:
    """The rate of a pair: the accuracy in per cent, or the mean squared error."""

    def __init__(self, options: GridOptions) -> None:
        self.options = options
        self.data: Data | None = None
        self.gamma: float | None = None
        if options.svmtrain is None:
            self.data = prepared(options.train)

    def rate(self, pair: Pair) -> float:
        """The number that svm-train -v prints."""
        text = self._by_program(pair) if self.data is None else self._by_library(pair)
        found = re.search(r"Cross Validation [A-Z][a-z ]* = (\S+)", text)
        if found is None:
            raise Refused(f"get no rate\n{text}")
        return float(found[1].rstrip("%"))

    def _by_library(self, pair: Pair) -> str:
        train, data = self.options.train, self.data
        assert data is not None
        c, g = pair
        train = replace(
            train,
            C=train.C if c is None else 2.0**c,
            gamma=train.gamma if g is None else 2.0**g,
        )
        if g is not None and train.kernel_type != 4:
            data = replace(data, gram=Gram(kernel(train), data.gram.X))
        return judged(data, train, Random(), lambda text: None)

    def _by_program(self, pair: Pair) -> str:
        options = self.options
        words = [str(options.svmtrain)]
        for flag, value in zip(("-c", "-g"), pair, strict=True):
            words += [] if value is None else [flag, str(2.0**value)]
        words += ["-v", str(options.folds), *options.passed_on, options.data_file]
        return subprocess.run(words, capture_output=True, text=True).stdout


@dataclass
class _Best:
    """The best pair so far."""

    options: GridOptions
    smaller: bool  # whether small rates are good ones
    rate: float = -1
    pair: Pair | None = None

    def take(self, pair: Pair, rate: float, who: str, out: IO[str] | None) -> None:
        """Look at one more, and say so."""
        if self.pair is None or self._is_better(pair, rate):
            self.rate, self.pair = rate, pair
        assert self.pair is not None
        given = " ".join(str(value) for value in pair if value is not None)
        text, kept = f"[{who}] {given} {rate} (best ", ""
        for name, own, best in zip("cg", pair, self.pair, strict=True):
            if own is not None and best is not None:
                text += f"{name}={2.0**best}, "
                kept += f"log2{name}={own} "
        print(f"{text}rate={self.rate})", flush=True)
        if out is not None:
            out.write(f"{kept}rate={rate}\n")
            out.flush()

    def _is_better(self, pair: Pair, rate: float) -> bool:
        assert self.pair is not None
        if rate != self.rate:
            return (rate < self.rate) == self.smaller
        c, best = pair[0], self.pair[0]
        return (
            pair[1] == self.pair[1] and c is not None and best is not None and c < best
        )


def _values(given: Range | None) -> list[float | None]:
    """From the middle outwards, so that the whole range is soon looked at."""
    if given is None:
        return [None]
    begin, end, step = given
    values: list[float | None] = []
    while begin <= end if step > 0 else begin >= end:
        values.append(begin)
        begin += step
    return _spread(values)


def _spread(values: list[float | None]) -> list[float | None]:
    if len(values) <= 1:
        return values
    middle = len(values) // 2
    left, right = _spread(values[:middle]), _spread(values[middle + 1 :])
    ordered = [values[middle]]
    for i in range(max(len(left), len(right))):
        ordered += left[i : i + 1] + right[i : i + 1]
    return ordered


def _pairs(options: GridOptions) -> list[Pair]:
    """All pairs, in a rectangle that grows on both sides alike."""
    first, second = _values(options.log2c), _values(options.log2g)
    pairs: list[Pair] = []
    i = j = 0
    while i < len(first) or j < len(second):
        if i * len(second) < j * len(first):
            pairs += [(first[i], g) for g in second[:j]]
            i += 1
        else:
            pairs += [(c, second[j]) for c in first[:i]]
            j += 1
    return pairs


def _rates_in(path: str) -> dict[Pair, float]:
    """The rates of an earlier run."""
    rates: dict[Pair, float] = {}
    for line in Path(path).read_text("ascii", "backslashreplace").splitlines():
        found = dict(re.findall(r"(log2c|log2g|rate)=(-?[0-9.]+(?:e-?[0-9]+)?)", line))
        if "rate" in found:
            c, g = (
                float(found[name]) if name in found else None
                for name in ("log2c", "log2g")
            )
            rates[c, g] = float(found["rate"])
    return rates


def _draw(options: GridOptions, rates: dict[Pair, float], best: _Best) -> None:
    """Lines of equal rates over both logarithms, by gnuplot, where there are some."""
    pairs = [(c, g) for c, g in rates if c is not None and g is not None]
    flat = any(
        len(set(some)) < 2 for some in (*zip(*pairs, strict=True), rates.values())
    )
    if not pairs or flat or best.pair is None:
        return
    quoted = options.png_file.replace("\\", "\\\\").replace('"', '\\"')
    lines = [
        "set term png",
        f'set output "{quoted}"',
        'set xlabel "log2(C)"',
        'set ylabel "log2(gamma)"',
        f'set title "best: log2(C) = {best.pair[0]}, log2(gamma) = {best.pair[1]}, '
        f'rate = {best.rate}"',
        "set contour",
        "set cntrparam levels 10",
        "unset surface",
        "set view 0,0",
        'splot "-" with lines notitle',
    ]
    before = None
    for c, g in sorted(pairs):
        if before not in (None, c):
            lines.append("")
        lines.append(f"{c} {g} {rates[c, g]}")
        before = c
    text = "\n".join([*lines, "e", ""])
    subprocess.run([str(options.gnuplot)], input=text, text=True, capture_output=True)
