"""`mercer predict` and `mercer evaluate`: what a model says, and how well."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import IO, Any

import numpy as np

from mercer.cli.live import Console, table
from mercer.cli.scores import is_judged, judged
from mercer.cli.settings import last_step, needs_target, read_for
from mercer.data.points import Points
from mercer.io.models import load

MOST_SHOWN = 12  # classes of a confusion matrix in the terminal


def run(options: argparse.Namespace) -> int:
    """Predict, or evaluate."""
    console = Console(options)
    machine = load(options.model)
    if not hasattr(machine, "fit"):
        raise ValueError(
            f"{options.model} holds a {type(machine).__name__}, and no machine."
        )
    if options.command == "predict":
        return _predict(machine, options, console)
    return _evaluate(machine, options, console)


def _predict(machine: Any, options: argparse.Namespace, console: Console) -> int:
    data = read_for(machine, options.data, options)
    points, name = data.points, type(last_step(machine)).__name__
    if not hasattr(machine, "predict"):
        raise ValueError(f"{name} makes no predictions.")
    columns: dict[str, np.ndarray] = {"prediction": machine.predict(points)}
    if options.values:
        columns |= _named("value", _values(machine, points), machine)
    if options.probabilities:
        if not hasattr(machine, "predict_proba"):
            raise ValueError(
                f"This {name} has no probabilities. Train with "
                "--set probability=True, or with KernelLogisticRegression."
            )
        columns |= _named("probability", machine.predict_proba(points), machine)
    console.tell(points=len(data), model=options.model, **columns)
    if options.output:
        with Path(options.output).open("w", encoding="utf-8", newline="") as stream:
            _write(columns, stream)
        console.rows([("written", f"{options.output}, {len(data):,} predictions")])
    elif not console.silent:
        _write(columns, sys.stdout)
    console.end()
    return 0


def _values(machine: Any, points: Points) -> np.ndarray:
    if not hasattr(machine, "decision_function"):
        name = type(last_step(machine)).__name__
        raise ValueError(f"{name} has no values besides predictions.")
    return np.asarray(machine.decision_function(points))


def _named(word: str, values: np.ndarray, machine: Any) -> dict[str, np.ndarray]:
    """The columns of values with names: of the classes where there is one each."""
    if values.ndim == 1:
        return {word: values}
    classes = [str(name) for name in getattr(machine, "classes_", ())]
    names: list[Any] = classes if len(classes) == values.shape[1] else []
    names = names or list(range(values.shape[1]))
    return {f"{word} {name}": values[:, j] for j, name in enumerate(names)}


def _write(columns: dict[str, np.ndarray], stream: IO[str]) -> None:
    """The columns as CSV; numbers so that they are read back as they are."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    rows = zip(
        *(np.asarray(values).tolist() for values in columns.values()), strict=True
    )
    writer.writerows(rows)


def _evaluate(machine: Any, options: argparse.Namespace, console: Console) -> int:
    layout = getattr(machine, "data_layout_", None) or {}
    if options.target is None:
        options.target = layout.get("target")
    data = read_for(machine, options.data, options)
    target = needs_target(data, options.data)
    if not is_judged(machine):
        name = type(last_step(machine)).__name__
        raise ValueError(f"There are no scores for a {name}.")
    scores = judged(machine, target, machine.predict(data.points))
    console.rows([("points", f"{len(data):,}"), ("scores", scores.text())])
    classes, counts = scores.classes, scores.confusion
    if classes is not None and counts is not None and len(classes) <= MOST_SHOWN:
        head = ["true \\ predicted", *map(str, classes)]
        rows = zip(classes, counts.tolist(), strict=True)
        body = [[name, *some] for name, some in rows]
        for line in table([head, *body], range(1, len(head))):
            console.line(line)
    console.tell(model=options.model, points=len(data), **scores.as_object())
    console.end()
    return 0
