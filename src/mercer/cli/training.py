"""`mercer train`: read, plan, fit, judge, report, save."""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor

from mercer.cli import report
from mercer.cli.checkpoints import (
    Checkpoints,
    check_machine,
    fit_quietly,
    fitted_in_parts,
)
from mercer.cli.live import Console, Training, seconds_text, shown, stopping
from mercer.cli.scores import cross_validated, is_judged, judged
from mercer.cli.settings import (
    as_read_by,
    dataset_of,
    description,
    layout_of,
    machine_of,
    needs_target,
    piped,
    scaled,
    scaler_of,
    target_text,
    uneven,
)
from mercer.data.points import Points
from mercer.io.dataset import Dataset
from mercer.io.models import save
from mercer.outcomes import Status
from mercer.planning import Plan

_WITHOUT_TARGET = ("OneClassSVM", "SVDD", "ParzenDensity", "KernelKMeans", "KernelPCA")


def run(options: argparse.Namespace) -> int:
    """Train a machine as the command line says."""
    console = Console(options)
    _check_places(options)
    data = dataset_of(options.data, options)
    if options.machine == "auto":
        needs_target(data, options.data)
    machine = machine_of(options, data)
    name = type(machine).__name__
    if name not in (*_WITHOUT_TARGET, "FeatureMap"):
        needs_target(data, options.data)
    data, target = _as_learnt(machine, data, options)
    if options.checkpoint:
        check_machine(machine)
    data = as_read_by(getattr(machine, "kernel", "rbf"), data)
    scaler, raw = scaler_of(data, options.scale), data.points
    data = replace(data, points=scaled(raw, scaler), target=target)
    task = "classification" if is_classifier(machine) else "regression"
    task = task if is_classifier(machine) or is_regressor(machine) else ""
    console.rows([("data", f"{options.data}: {description(data)}")])
    console.rows([("note", note) for note in data.notes])
    console.rows([("target", target_text(data, task))] if target is not None else [])
    if options.scale == "none" and (note := uneven(data)):
        console.rows([("note", note)])
    plan = _planned(machine, data, options, console)
    made = _fitted(machine, data, plan, options, console)
    made = replace(made, data=data, path=options.data, scale=options.scale)
    whole = piped(made.machine, scaler)
    made = _judged(made, whole, raw, options)
    console.rows(report.lines(made))
    whole.data_layout_ = layout_of(data)
    _written(made, whole, options, console)
    console.tell(**report.as_object(made))
    console.end()
    kept = options.output or options.checkpoint
    if made.run.status == Status.STOPPED and not kept:
        console.warn("stopped, and no model was written: name one with -o.")
    return 0


def _check_places(options: argparse.Namespace) -> None:
    """Refuse what could not be written in the end, before anything is learnt."""
    for path in (options.output, options.report, options.checkpoint):
        folder = Path(path).parent if path else Path()
        if not folder.is_dir():
            raise ValueError(f"There is no folder {folder} for {path}. Make it first.")
    if options.resume and not options.checkpoint:
        raise ValueError("--resume needs to know from where: --checkpoint FILE.")
    if options.checkpoint and Path(options.checkpoint).exists() and not options.resume:
        raise ValueError(
            f"{options.checkpoint} is there already. Pass --resume to go on from it, "
            "or name another file."
        )


def _as_learnt(
    machine: Any, data: Dataset, options: argparse.Namespace
) -> tuple[Dataset, np.ndarray | None]:
    """The targets as the machine takes them."""
    target = data.target
    if type(machine).__name__ in _WITHOUT_TARGET or target is None:
        return data, None
    if is_regressor(machine):
        if target.dtype.kind not in "biuf":
            raise ValueError(
                f"{type(machine).__name__} learns numbers; the target of "
                f"{options.data} has words, as {str(target[0])!r}. Use a classifier."
            )
        return data, target.astype(float)
    return data, target


def _planned(
    machine: Any, data: Dataset, options: argparse.Namespace, console: Console
) -> Plan | None:
    """What the fit would take; refused where there is no room for it."""
    if options.no_plan or options.quiet:
        return None
    plan = machine.plan(data.points, data.target)
    console.rows([("plan", plan.summary())])
    if not plan.fits:
        ways = "; or ".join(str(way) for way in plan.ways_out) or "fewer points"
        raise MemoryError(f"{plan.summary()}: too much memory. Ways out: {ways}.")
    if plan.ways_out:
        console.rows([("quicker", str(way)) for way in plan.ways_out])
    return plan


def _fitted(
    machine: Any,
    data: Dataset,
    plan: Plan | None,
    options: argparse.Namespace,
    console: Console,
) -> report.Trained:
    known = machine.get_params(deep=False)
    expected = None if plan is None else plan.seconds[1]
    training = Training(known.get("tol"), expected)
    begin = time.perf_counter()
    with ExitStack() as within:
        if "callback" in known:
            within.enter_context(stopping(training, console))
        within.enter_context(shown(training, console.silent))
        if options.checkpoint:
            kept = Checkpoints(options, machine)
            machine, seconds, iterations = fitted_in_parts(
                machine, data.points, data.target, training, kept, console, options
            )
        else:
            _fit_whole(machine, data, training, options)
            seconds = time.perf_counter() - begin
            iterations = machine.run_.iterations
    ended = machine.run_
    if training.stop and not ended.status.at_the_end:  # between two parts, perhaps
        ended = replace(ended, status=Status.STOPPED)
    return report.Trained(
        machine, data, plan, training.history, seconds, iterations, ended
    )


def _fit_whole(
    machine: Any, data: Dataset, training: Training, options: argparse.Namespace
) -> None:
    known = machine.get_params(deep=False)
    watched: dict[str, Any] = {"callback": training} if "callback" in known else {}
    if options.time_limit is not None:
        if "time_limit" not in known:
            raise ValueError(f"{type(machine).__name__} takes no --time-limit.")
        watched["time_limit"] = options.time_limit
    given = {name: known[name] for name in watched}
    machine.set_params(**watched)
    fit_quietly(machine, data.points, data.target)
    machine.set_params(**given)


def _judged(
    made: report.Trained, whole: Any, raw: Points, options: argparse.Namespace
) -> report.Trained:
    """With its scores on the data it learnt from, and by cross-validation.

    Each fold scales by the points it learns from.
    """
    machine, data = made.machine, made.data
    if data.target is None or not is_judged(machine):
        return made
    said = machine.predict(data.points)
    made = replace(made, training=judged(machine, data.target, said))
    if options.cv:
        found = cross_validated(whole, raw, data.target, options.cv)
        made = replace(made, validation=found)
    return made


def _written(
    made: report.Trained,
    whole: Any,
    options: argparse.Namespace,
    console: Console,
) -> None:
    if options.output:
        save(whole, options.output)
        size = Path(options.output).stat().st_size
        console.rows([("model", f"{options.output}, {size:,} bytes")])
        console.tell(model=options.output)
    if options.report:
        report.write_page(made, options.report)
        console.rows([("report", options.report)])
        console.tell(report=options.report)
    if options.checkpoint:
        console.rows(
            [("checkpoint", f"{options.checkpoint}, {seconds_text(made.seconds)} in")]
        )
