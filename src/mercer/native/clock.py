"""The clock of a fit: how far what takes long has come, and when it has to end.

Solvers report to whoever watches them. What comes before them is deep below: landmarks,
features, all values of a slow kernel. A loop there says with `tick` what is being done.
Within `running(clock)` a clock hears it: it says so to whoever wants to know, and ends
what is `breakable` when the time is up. Elsewhere a tick is next to nothing.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PAUSE = 1.0  # seconds without a report before a tick is one
SILENCE = 1.8  # seconds after which a report says that it goes on


class OutOfTime(TimeoutError):
    """The time was up before anything was found that could be returned.

    Parameters
    ----------
    stage : what was being done
    share : how much of it was done, where that is known
    """

    def __init__(self, stage: str, share: float | None = None):
        done = "" if share is None else f" ({share:.0%} done)"
        super().__init__(f"The time was up while at {stage}{done}.")
        self.stage, self.share = stage, share


class Clock:
    """Seconds since the beginning, and those that are left.

    Parameters
    ----------
    seconds : of all that is done; None for as many as it takes
    report : called with a line of text, after a second or two of silence; None for
        nobody
    owner : whose clock it is
    """

    def __init__(
        self,
        seconds: float | None = None,
        report: Callable[[str], None] | None = None,
        owner: object = None,
    ):
        self.owner = owner
        self.begin = time.perf_counter()
        self.seconds, self.report = seconds, report
        self.breaks = math.inf  # when a tick ends what is being done
        self.stage, self.since, self.share = "preparations", self.begin, 0.0
        self.heard, self.known = self.begin, ""

    @property
    def left(self) -> float | None:
        """Seconds, more than 0 in any case; None without a limit."""
        if self.seconds is None:
            return None
        return max(self.begin + self.seconds - time.perf_counter(), 1e-9)

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        if self.seconds is None:
            return False
        return time.perf_counter() >= self.begin + self.seconds

    def at(self, stage: str) -> None:
        """This is what is being done from now on."""
        if stage != self.stage:
            self.stage, self.since = stage, time.perf_counter()

    def reported(self, known: str = "") -> None:
        """There was a report of another kind: the next one can wait.

        Parameters
        ----------
        known : what it said, to be said again where the next one is long in coming
        """
        self.heard, self.known = time.perf_counter(), known

    def tick(self, stage: str, share: float | None) -> None:
        if time.perf_counter() >= self.breaks:
            raise OutOfTime(stage or self.stage, share)
        if stage:
            self.at(stage)
        if share is not None:
            if share < self.share:  # the same again
                self.since = time.perf_counter()
            self.share = share
        if self.report is not None and time.perf_counter() - self.heard > PAUSE:
            self._say(share)

    def _say(self, share: float | None = None) -> None:
        """A line of what is being done; the time left of it is an estimate."""
        assert self.report is not None
        now = self.heard = time.perf_counter()
        text = f"{self.stage} {now - self.begin:8.2f} s"
        if share is not None:
            text = f"{self.stage} {share:4.0%} {now - self.begin:8.2f} s"
            if 0 < share < 1:
                left = (now - self.since) * (1 - share) / share
                text += f", about {left:.0f} s left of it"
        self.report(f"{text} ({self.known})" if self.known else text)

    def watch_silence(self, ended: threading.Event) -> None:
        """Until the end, report what is being done where nothing else is reported.

        Loops that no tick comes from, as those of LAPACK, do not keep it silent.
        """
        while not ended.wait(max(SILENCE - (time.perf_counter() - self.heard), 0.05)):
            if time.perf_counter() - self.heard >= SILENCE:
                self._say()


_clock: ContextVar[Clock | None] = ContextVar("mercer_clock", default=None)


def current() -> Clock | None:
    """The clock that is running, of this thread."""
    return _clock.get()


@contextmanager
def running(clock: Clock) -> Iterator[Clock]:
    """What is done inside is timed by this clock."""
    token = _clock.set(clock)
    ended = threading.Event()
    heart = None
    if clock.report is not None:
        heart = threading.Thread(
            target=clock.watch_silence, args=(ended,), name="mercer-clock", daemon=True
        )
        heart.start()
    try:
        yield clock
    finally:
        ended.set()
        if heart is not None:
            heart.join()
        _clock.reset(token)


def tick(stage: str = "", share: float | None = None) -> None:
    """Say what is being done, and how much of it is done; "" for the same as before.

    Raises OutOfTime where the time is up and what is being done is `breakable`.
    """
    clock = _clock.get()
    if clock is not None:
        clock.tick(stage, share)


def seconds_left() -> float | None:
    """Those of the clock that is running; None where there is no limit."""
    clock = _clock.get()
    return None if clock is None else clock.left


def is_over() -> bool:
    """Whether the time of the clock that is running is up."""
    clock = _clock.get()
    return clock is not None and clock.is_over


@contextmanager
def breakable(share: float = 1.0) -> Iterator[None]:
    """Inside, a tick raises OutOfTime when the time is up: there is another way then.

    Or none at all, and the user has to hear of it.

    Parameters
    ----------
    share : of the time that is left, after which it is up for what is done inside
    """
    clock = _clock.get()
    if clock is None or clock.left is None:
        yield
        return
    before = clock.breaks
    clock.breaks = min(before, time.perf_counter() + share * clock.left)
    try:
        yield
    finally:
        clock.breaks = before
