"""Long trainings: fits of a certain time, each from where the last one ended.

After each of them what was reached is written to a file; a training that was ended in
any way goes on from there.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from mercer.cli.live import Console, Training, seconds_text
from mercer.data.points import Points
from mercer.io.checkpoints import (
    Checkpoint,
    fingerprint,
    read_checkpoint,
    write_checkpoint,
)
from mercer.outcomes import Status

# They start from what was found, end at a time limit, and report on the way.
_NEEDED = ("warm_start", "time_limit", "callback")
_NOT = ("Perceptron", "KernelPerceptron")  # whose warm start counts passes anew
_READING = (
    "target format labels columns drop type header divider decimal missing scale task"
).split()
_LONGER = 1.5  # by which a part grows that came no nearer to the end


def check_machine(machine: Any) -> None:
    """Refuse a machine whose training cannot go on from a checkpoint."""
    name, known = type(machine).__name__, machine.get_params(deep=False)
    lacking = [word for word in _NEEDED if word not in known]
    why = f"it has no {lacking[0]}" if lacking else ""
    if name in _NOT:
        why = "its passes are counted anew in every fit"
    if known.get("probability") is True:
        why = "probability=True fits five more machines each time"
    if why:
        raise ValueError(
            f"{name} cannot go on from a checkpoint: {why}. Leave --checkpoint away; "
            "support vector machines, KernelRidge, KernelLogisticRegression and the "
            "other regularised machines can."
        )


class Checkpoints:
    """The checkpoint file of one training.

    Parameters
    ----------
    options : of the command line
    machine : not fitted, with its parameters
    """

    def __init__(self, options: argparse.Namespace, machine: Any):
        self.path, self.every = Path(options.checkpoint), float(options.every)
        self.data = fingerprint(options.data)
        self.parameters = _texts(options, machine)

    def found(self) -> Checkpoint | None:
        """The checkpoint to go on from, None where there is no file."""
        if not self.path.exists():
            return None
        found = read_checkpoint(self.path)
        if found.data != self.data:
            raise ValueError(
                f"{self.path} is the checkpoint of other data. Name the data that it "
                "was made with, or another --checkpoint."
            )
        for name in sorted({*found.parameters, *self.parameters}):
            old, new = found.parameters.get(name), self.parameters.get(name)
            if old != new:
                raise ValueError(
                    f"{self.path} is the checkpoint of another training: its {name} "
                    f"is {old}, here it is {new}. Use the same options, or another "
                    "--checkpoint."
                )
        return found

    def write(self, machine: Any, seconds: float, iterations: int, done: bool) -> None:
        known = Checkpoint(
            machine, self.data, self.parameters, seconds, iterations, done
        )
        write_checkpoint(known, self.path)


def _texts(options: argparse.Namespace, machine: Any) -> dict[str, str]:
    """What must be the same for a training to go on, as text."""
    found = {
        name: repr(value)
        for name, value in machine.get_params(deep=False).items()
        if name not in (*_NEEDED, "verbose", "cache_size", "max_iter")
    }
    found["machine"] = type(machine).__name__
    for name in _READING:
        found[f"--{name}"] = repr(getattr(options, name))
    return found


def fitted_in_parts(
    machine: Any,
    X: Points,
    y: Any,
    training: Training,
    kept: Checkpoints,
    console: Console,
    options: argparse.Namespace,
) -> tuple[Any, float, int]:
    """The machine, fitted in parts; the seconds and iterations of all of them.

    Each part starts where the last one ended and lasts `every` seconds; a part that
    came no nearer to the end is followed by a longer one.
    """
    seconds, iterations, before = 0.0, 0, float("inf")
    given = {name: getattr(machine, name) for name in _NEEDED}
    found = kept.found() if options.resume else None
    if found is not None:
        machine, seconds, iterations = found.machine, found.seconds, found.iterations
        before = distance_of(machine)
        console.rows([("resumed", f"from {kept.path}, after {seconds_text(seconds)}")])
    end = None if options.time_limit is None else time.monotonic() + options.time_limit
    part = kept.every
    while True:
        left = part if end is None else min(part, max(end - time.monotonic(), 1e-3))
        machine.set_params(warm_start=True, time_limit=left, callback=training)
        begin = time.perf_counter()
        fit_quietly(machine, X, y)
        seconds += time.perf_counter() - begin
        iterations += machine.run_.iterations
        machine.set_params(**given)
        status = machine.run_.status
        done = status.at_the_end or status not in (Status.TIME_LIMIT, Status.STOPPED)
        kept.write(machine, seconds, iterations, done)
        over = end is not None and time.monotonic() >= end
        if done or training.stop or over:
            return machine, seconds, iterations
        now = distance_of(machine)
        if not now < before:
            part *= _LONGER
            console.warn(
                f"{seconds_text(left)} were too few to come nearer to the end; the "
                f"next checkpoint is after {seconds_text(part)}."
            )
        before = min(now, before)


def fit_quietly(machine: Any, X: Points, y: Any) -> None:
    """Fit; that it did not come to its end is said in the report, not in a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if y is None:
            machine.fit(X)
        else:
            machine.fit(X, y)


def distance_of(machine: Any) -> float:
    """How far from the optimum: the gap, else the violation; infinite if unknown."""
    found = getattr(machine, "certificate_", None)
    numbers = [] if found is None else [float(found.gap), float(found.violation)]
    return next((value for value in numbers if value == value), float("inf"))
