"""Computations behind a short queue: few threads, each job with an end.

A job ends early when a newer request takes its place, when nobody waits for it, or when
its time is up: the callback of a solver says so, and so does every `tick` of what comes
before a solver.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mercer.laboratory.frames import Answer, frame, json_bytes
from mercer.laboratory.refusals import Aborted, Refusal
from mercer.native import memory
from mercer.native.clock import Clock, OutOfTime, running

WORKERS = 2
WAITING = 64  # jobs that may wait; a page has few at a time
SECONDS = 10.0  # of each job, from when it begins
FIT_SHARE = 0.7  # of these for a fit, which then ends with what it has
KEPT_BYTES = 48e6  # kernel values that a fit may keep, to read them again
MOST_NAMES = 1000  # clients and routes whose last number is remembered
MOST_REPORTS = 300  # of a solver that are kept
# What the library says of values that it cannot work with.
UNFIT = (ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError)

Key = tuple[str, str]


class JobClock(Clock):
    """The clock of a job: a fit has a share of its time, a tick after all of it raises.

    So does a tick of a job that was aborted.
    """

    def __init__(self, job: Job):
        super().__init__(FIT_SHARE * job.seconds)
        self.job = job
        self.end = self.begin + job.seconds

    @property
    def is_late(self) -> bool:
        """Whether no time is left for anything."""
        return time.perf_counter() >= self.end

    def tick(self, stage: str, share: float | None) -> None:
        if self.job.aborted:
            raise Aborted
        if self.is_late:
            raise OutOfTime(stage or self.stage, share)
        super().tick(stage, share)
        self.job.report({"stage": self.stage, "share": share})


class Job:
    """One computation: what it reports, whether it is to end, and what came of it.

    Parameters
    ----------
    compute : makes the answer, with this job to report to
    ended : called once, by the thread that computed
    key : the client and the route; None where it has no name
    plain : whether the answer is JSON alone, and no frame
    heavy : whether it takes much memory; such jobs run one at a time
    number : of the request, by which a newer one is told; None where it has none
    """

    def __init__(
        self,
        compute: Callable[[Job], Answer],
        ended: Callable[[], None],
        key: Key | None = None,
        plain: bool = False,
        heavy: bool = False,
        number: int | None = None,
        seconds: float = SECONDS,
    ):
        self.compute, self.ended, self.key, self.seconds = compute, ended, key, seconds
        self.plain, self.heavy, self.number = plain, heavy, number
        self.aborted = False
        self.begun = False
        self.clock: JobClock | None = None
        self.history: list[list[float]] = []
        self.warnings: list[str] = []
        self.progress: dict[str, Any] = {"stage": "waiting"}
        self.reports = 0
        self.body: bytes | None = None  # what came of it: this,
        self.refusal: Refusal | None = None  # or this, or neither if it was aborted

    def __deepcopy__(self, memo: dict[int, Any]) -> Job:
        """Itself: a machine that is cloned reports to the same job."""
        return self

    def abort(self) -> None:
        """Let it end soon."""
        self.aborted = True

    def report(self, progress: dict[str, Any]) -> None:
        """What is told to whoever waits, now and then."""
        self.progress = progress

    def watch(self, progress: Any) -> bool:
        """The callback of a solver: keeps its numbers, and stops it at the end."""
        told = {
            name: getattr(progress, name)
            for name in ("iterations", "objective", "violation", "gap")
            if hasattr(progress, name)
        }
        self.report({"stage": "solving", **told})
        self.reports += 1
        if "objective" in told and "violation" in told:
            row = [told["iterations"], told["objective"], told["violation"]]
            if len(self.history) >= MOST_REPORTS:
                self.history[:] = self.history[::2]
            self.history.append([float(one) for one in row])
        clock = self.clock
        return self.aborted or (clock is not None and clock.is_late)

    @property
    def spent(self) -> float:
        """Seconds since it began."""
        return 0.0 if self.clock is None else time.perf_counter() - self.clock.begin

    def check(self) -> None:
        """Raise if it is to end; called between two steps of a computation."""
        if self.clock is not None:
            self.clock.tick("", None)

    def of(self, machine: Any) -> Any:
        """The machine, whose fit this job times."""
        if self.clock is not None:
            self.clock.owner = machine
        return machine

    def run(self) -> None:
        """Compute, in this thread."""
        self.begun = True
        self.clock = JobClock(self)
        try:
            if not self.aborted:
                room = memory.room_to_keep()
                kept = memory.sharing(min(1.0, KEPT_BYTES / room))
                with running(self.clock), kept, _told_to(self):
                    answer = self.compute(self)
                    plain = self.plain
                    self.body = (
                        json_bytes(answer.head) if plain else frame("result", answer)
                    )
        except Aborted:
            pass
        except Refusal as refusal:
            self.refusal = refusal
        except (OutOfTime, TimeoutError):
            self.refusal = self._late()
        except MemoryError as error:
            self.refusal = Refusal(f"There is no memory for it. {error}", code="memory")
        except UNFIT as error:
            self.refusal = Refusal(str(error) or type(error).__name__)
        except Exception:
            traceback.print_exc(file=sys.stderr)
            self.refusal = Refusal(
                "The laboratory failed here; the terminal in which it runs says where.",
                status=500,
                code="failure",
            )
        finally:
            if self.aborted:
                self.body = None
            self.ended()

    def _late(self) -> Refusal:
        return Refusal(
            f"This took more than {self.seconds:g} seconds, the limit here. Take fewer "
            "points, a smaller C, or another kernel.",
            status=408,
            code="time",
        )


def superseded() -> Refusal:
    """A newer request was there."""
    return Refusal(
        "A newer request took the place of this one.", status=409, code="superseded"
    )


class Desk:
    """The queue and its threads.

    Threads are daemons: a call that cannot be stopped does not hold up the end.
    """

    def __init__(self, workers: int = WORKERS, waiting: int = WAITING):
        self.waiting = waiting
        self.queue: deque[Job] = deque()
        self.running: set[Job] = set()
        self.newest: dict[Key, Job] = {}
        self.numbers: dict[Key, int] = {}  # of the last requests, the latest at the end
        self.changed = threading.Condition()
        self.closed = False
        for number in range(workers):
            threading.Thread(
                target=self._work, name=f"mercer-lab-{number}", daemon=True
            ).start()

    def submit(self, job: Job) -> None:
        """Queue a job; the older one of the same client and route is to end.

        Requests can overtake each other: one with a lower number than the last is old.
        """
        with self.changed:
            self._check_number(job)
            older = self.newest.get(job.key) if job.key is not None else None
            if older is not None:
                older.abort()
                if older in self.queue:
                    self.queue.remove(older)
                    older.ended()
            if len(self.queue) >= self.waiting:
                raise Refusal(
                    f"{self.waiting} computations are waiting already; ask again in a "
                    "moment.",
                    status=429,
                    code="busy",
                )
            if job.key is not None:
                self.newest[job.key] = job
            self.queue.append(job)
            self.changed.notify()

    def _check_number(self, job: Job) -> None:
        """Refuse a job that is older than the last one, and remember its number."""
        if job.key is None or job.number is None:
            return
        last = self.numbers.pop(job.key, -1)
        self.numbers[job.key] = max(last, job.number)
        if len(self.numbers) > MOST_NAMES:
            del self.numbers[next(iter(self.numbers))]
        if job.number < last:
            raise superseded()

    def ahead(self, job: Job) -> int:
        """How many jobs wait before this one."""
        with self.changed:
            return self.queue.index(job) if job in self.queue else 0

    def close(self) -> None:
        """End all jobs; those that wait never begin."""
        with self.changed:
            self.closed = True
            for job in (*self.queue, *self.running):
                job.abort()
            while self.queue:
                self.queue.popleft().ended()
            self.changed.notify_all()

    def _next(self) -> Job | None:
        """The first that may begin: a heavy one only where no other is running."""
        busy = any(job.heavy for job in self.running)
        return next((job for job in self.queue if not (busy and job.heavy)), None)

    def _work(self) -> None:
        while True:
            with self.changed:
                job = self._next()
                while job is None and not self.closed:
                    self.changed.wait()
                    job = self._next()
                if self.closed or job is None:
                    return
                self.queue.remove(job)
                self.running.add(job)
            try:
                job.run()
            finally:
                with self.changed:
                    self.running.discard(job)
                    self.changed.notify()
                    if job.key is not None and self.newest.get(job.key) is job:
                        del self.newest[job.key]


# Warnings

_local = threading.local()


@contextmanager
def _told_to(job: Job) -> Iterator[None]:
    """Warnings of this thread go to the job."""
    _local.job = job
    try:
        yield
    finally:
        _local.job = None


@contextmanager
def warnings_to_jobs() -> Iterator[None]:
    """Inside, what a job warns of is told to whoever asked, and not printed."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        before = warnings.showwarning

        def show(message: Any, category: Any, *rest: Any, **more: Any) -> None:
            job = getattr(_local, "job", None)
            if job is None:
                before(message, category, *rest, **more)
            elif str(message) not in job.warnings and len(job.warnings) < 20:
                job.warnings.append(str(message))

        warnings.showwarning = show
        yield
