"""Reports of a fit under way: printed lines, `callback`, scikit-learn's callbacks.

Callbacks are scikit-learn's (`sklearn.callback`, new in its version 1.9), set with
`machine.set_callbacks(...)`. They see a tree of tasks: the fit, the problems it solves,
the rounds of the solver; the metadata of a round are the fields of `Progress`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from sklearn.callback import CallbackContext, CallbackSupportMixin

from mercer.native.clock import current

Progress = Any  # a named tuple: counts, seconds, the problem's name, and its `line`

PAUSE = 0.1  # seconds between lines; the last one of a problem does not wait

__all__ = ["CallbackSupportMixin", "Watcher", "reporting", "watching"]


@contextmanager
def watching(
    machine: Any, names: Sequence[str], X: Any, y: Any, sample_weight: Any = None
) -> Iterator[Watcher | None]:
    """A fit as scikit-learn's callbacks see it; its Watcher, None if none reports."""
    weights = None if sample_weight is None else {"sample_weight": sample_weight}
    data = {"estimator": machine, "X": X, "y": y, "metadata": weights}
    # Always: a search that holds this machine joins its tasks with those here.
    task = machine._init_callback_context(max_subtasks=len(names))
    task.call_on_fit_task_begin(**data)
    followed = task if hasattr(machine, "_skl_callbacks") else None
    watched = machine.verbose or machine.callback is not None or followed is not None
    yield Watcher(machine, followed, names) if watched else None
    task.call_on_fit_task_end(**data, reconstruction_attributes={})


def reporting(
    watcher: Watcher | None, name: str | None = None
) -> AbstractContextManager[Solve | None]:
    """A context with what to give a solver as `watch`; None where nothing reports."""
    return nullcontext() if watcher is None else watcher.problem(name)


class Watcher:
    """Reports the progress of a fit to all callbacks; any of them can stop it.

    Parameters
    ----------
    machine : with `verbose`, `callback` and perhaps callbacks of scikit-learn's
    task : of the fit; None without callbacks of scikit-learn's
    names : of its problems, in the order in which they are solved
    """

    def __init__(
        self, machine: Any, task: CallbackContext | None, names: Iterable[str]
    ):
        self.machine, self.task, self.names = machine, task, iter(names)
        self.begun: set[str] = set()  # names of problems
        self.silent_until = 0.0
        self.stopped = False  # all that is left ends before its first step

    @contextmanager
    def problem(self, name: str | None = None) -> Iterator[Solve]:
        """What to give a solver as `watch`, for the next problem or the one named."""
        name = next(self.names) if name is None else name
        task = None
        clock = current()
        if clock is not None:
            clock.at(f"solving {name}".strip())
        # What a time limit cut short goes on later: that is no other task.
        if self.task is not None and name not in self.begun:
            task = self.task.subcontext(f"solve {name}".strip(), max_subtasks=None)
            task.call_on_fit_task_begin(estimator=self.machine)
        self.begun.add(name)
        solve = Solve(self, task, name)
        yield solve
        solve.end()
        if task is not None:
            self.stopped |= task.call_on_fit_task_end(estimator=self.machine)


class Solve:
    """One problem under watch: called with a `Progress`, returns whether to stop."""

    def __init__(self, watcher: Watcher, task: CallbackContext | None, name: str):
        self.watcher, self.task, self.name = watcher, task, name
        self.round: CallbackContext | None = None
        self.raw: Progress | None = None  # as the solver gave it
        self.last: Progress = None
        self.before: Progress | None = None  # the last of the call before this one
        self.printed: Progress | None = None

    def __call__(self, progress: Progress) -> bool:
        progress = self._continued(progress)
        if self.watcher.machine.verbose:
            if time.monotonic() >= self.watcher.silent_until:
                self._print(progress)
        self.last = progress
        callback = self.watcher.machine.callback
        if callback is not None and callback(progress):
            self.watcher.stopped = True
        # A task of scikit-learn's stops its own level: the rounds of this problem.
        done = self._end_round()
        if self.watcher.stopped or done:
            return True
        if self.task is not None:
            self.round = self.task.subcontext("round").call_on_fit_task_begin(
                estimator=self.watcher.machine, metadata=progress._asdict()
            )
        return False

    def end(self) -> None:
        """The solver is done: print the last progress, if it was not printed."""
        seen = self.raw is not None
        if self.watcher.machine.verbose and seen and self.printed is not self.last:
            self._print(self.last)
        self._end_round()

    def _continued(self, progress: Progress) -> Progress:
        """Counts that go on where a problem takes several calls of the solver."""
        if self.raw is not None and progress.iterations < self.raw.iterations:
            self.before = self.last
        self.raw, before = progress, self.before
        if before is None:
            return progress._replace(problem=self.name)
        return progress._replace(
            iterations=progress.iterations + before.iterations,
            rows=progress.rows + before.rows,
            seconds=progress.seconds + before.seconds,
            problem=self.name,
        )

    def _end_round(self) -> bool:
        """Ends the round under way with the last numbers; whether it is to be the last.

        The round that began with them did not take place: the solver was done.
        """
        if self.round is None:
            return False
        task, self.round = self.round, None
        return task.call_on_fit_task_end(
            estimator=self.watcher.machine, metadata=self.last._asdict()
        )

    def _print(self, progress: Progress) -> None:
        who = f"{type(self.watcher.machine).__name__} {self.name}".strip()
        print(
            f"[{who}] {progress.line()}",
            flush=True,
        )
        self.printed = progress
        clock = current()
        if clock is not None:
            clock.reported(", ".join(part.strip() for part in progress.numbers()))
        self.watcher.silent_until = time.monotonic() + PAUSE
