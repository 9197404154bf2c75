"""What the command shows: lines and tables, and how far a training has come.

Words for people go to stdout, progress to stderr; with --json, stdout has one object
and nothing else, with --quiet nothing. rich draws where it is installed and stderr is a
terminal; elsewhere there is a plain line from time to time.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mercer.outcomes import Progress

try:
    from rich.console import Console as RichConsole
    from rich.live import Live
    from rich.text import Text
except ImportError:
    HAS_RICH = False
else:
    HAS_RICH = True

PAUSE = 2.0  # seconds between plain lines of progress
_RECENT = 0.5  # the share of the history that tells how quickly a violation falls
_FEWEST = 5  # reports before a time left is estimated
KEPT = 2000  # reports of a training that are kept, for pictures


class Console:
    """Where a command writes.

    Parameters
    ----------
    options : with `quiet` and `json`
    """

    def __init__(self, options: argparse.Namespace):
        self.silent = bool(options.quiet or options.json)
        self.json = bool(options.json)
        self.found: dict[str, Any] = {}

    def line(self, text: str = "") -> None:
        """A line for people."""
        if not self.silent:
            print(text, flush=True)

    def rows(self, rows: Iterable[tuple[str, object]]) -> None:
        """Names and what they stand for, aligned; long texts over several lines."""
        for name, value in rows:
            first, *more = str(value).split("\n")
            self.line(f"{name:<12} {first}".rstrip())
            for text in more:
                self.line(f"{'':<12} {text}".rstrip())

    def warn(self, text: str) -> None:
        """A line on stderr, also where the rest is for programs."""
        print(f"mercer: {text}", file=sys.stderr, flush=True)

    def tell(self, **found: Any) -> None:
        """What programs are told in the end."""
        self.found.update(found)

    def end(self) -> None:
        """Print the object for programs, if it is asked for."""
        if self.json:
            print(json.dumps(plain(self.found), ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """A value as JSON has it: numbers that are none are null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    return str(value)


def seconds_text(seconds: float) -> str:
    """Seconds in a unit that suits them."""
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


class Training:
    """The `callback` of a fit: shows its progress, keeps it, and stops it when asked.

    Parameters
    ----------
    tol : the violation at which the solver ends, for the time that is left
    expected : seconds of the whole fit by its plan; None where there is none
    show : called with a line of text
    """

    def __init__(
        self, tol: float | None, expected: float | None = None, show: Any = None
    ):
        self.tol, self.expected, self.show = tol, expected, show
        self.begin = time.perf_counter()
        self.history: list[Progress] = []
        self.last: Progress | None = None
        self.stop = False  # set by Ctrl-C

    def __call__(self, progress: Progress) -> bool:
        other = self.last is not None and progress.problem != self.last.problem
        if other or len(self.history) >= KEPT:
            self.history = self.history[::2] if not other else []
        self.history.append(progress)
        self.last = progress
        if self.show is not None:
            self.show(self.line(progress))
        return self.stop

    def line(self, progress: Progress) -> str:
        """The progress in a line: what is solved, how far, and the time left."""
        name = f"{progress.problem}: " if progress.problem else ""
        spent = time.perf_counter() - self.begin
        parts = [f"{progress.unit} {progress.iterations:,}"]
        for field, word in progress.words:
            value = getattr(progress, field)
            if isinstance(value, int):
                parts.append(f"{value:,} {word}")
            elif not math.isnan(value):
                parts.append(f"{word} {value:.3g}")
        parts.append(seconds_text(spent))
        left = self.left(progress)
        if left is not None:
            parts.append(f"about {seconds_text(left)} left")
        return name + ", ".join(parts)

    def left(self, progress: Progress) -> float | None:
        """Seconds that are left of this problem, an estimate; None where unknown."""
        if not math.isnan(progress.left):
            return progress.left
        falling = self._falling(progress)
        if falling is not None:
            return falling
        if self.expected is None:
            return None
        return max(self.expected - (time.perf_counter() - self.begin), 0.0) or None

    def _falling(self, progress: Progress) -> float | None:
        """By how quickly the violation fell of late: log v falls by a rate."""
        recent = self.history[int(len(self.history) * _RECENT) :]
        if self.tol is None or len(recent) < _FEWEST:
            return None
        first, last = recent[0], progress
        spent = last.seconds - first.seconds
        if not (0 < last.violation < first.violation and spent > 0):
            return None
        if last.violation <= self.tol:
            return 0.0
        rate = math.log(first.violation / last.violation) / spent
        return math.log(last.violation / self.tol) / rate


@contextmanager
def shown(training: Training, silent: bool) -> Iterator[None]:
    """While a fit runs, its progress is shown on stderr, as it suits what that is."""
    if silent:
        yield
        return
    if HAS_RICH and sys.stderr.isatty():
        with Live(
            console=RichConsole(stderr=True), refresh_per_second=8, transient=True
        ) as live:
            training.show = lambda text: live.update(Text(text, style="cyan"))
            yield
        training.show = None
        return
    quiet_until = time.monotonic() + PAUSE

    def say(text: str) -> None:
        nonlocal quiet_until
        if time.monotonic() >= quiet_until:
            print(text, file=sys.stderr, flush=True)
            quiet_until = time.monotonic() + PAUSE

    training.show = say
    yield
    training.show = None


@contextmanager
def stopping(training: Training, console: Console) -> Iterator[None]:
    """Within, Ctrl-C asks the fit to end with what it has; a second one ends it."""

    def ask(number: int, frame: Any) -> None:
        if training.stop:
            raise KeyboardInterrupt
        training.stop = True
        if not console.silent:
            console.warn("stopping with what was learnt; Ctrl-C again to end at once.")

    try:
        before = signal.signal(signal.SIGINT, ask)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def table(rows: Sequence[Sequence[object]], right: Sequence[int] = ()) -> list[str]:
    """Rows of cells as lines, columns aligned.

    Parameters
    ----------
    right : the numbers of the columns that end, rather than begin, in one line
    """
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[j]) for row in texts) for j in range(len(texts[0]))]
    return [
        "  ".join(
            cell.rjust(width) if j in right else cell.ljust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in texts
    ]
