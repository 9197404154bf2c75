"""`mercer plan`, `check`, `gram` and `info`: what would be, and what is there."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np

from mercer.cli.live import Console
from mercer.cli.report import (
    certificate_text,
    kernel_of_fit,
    parameters_text,
    proof_line,
)
from mercer.cli.settings import (
    as_read_by,
    dataset_of,
    description,
    kernel_of,
    last_step,
    machine_of,
    target_text,
)
from mercer.data.points import Points, take
from mercer.gram import Gram
from mercer.io.dataset import Dataset, are_classes
from mercer.io.models import load
from mercer.kernels.base import Kernel
from mercer.machines.words import as_kernel
from mercer.native.sorting import distinct
from mercer.theory.condition import check

_SUFFIXES = (".npy", ".csv")


def run(options: argparse.Namespace) -> int:
    """One of the commands of this module."""
    console = Console(options)
    _COMMANDS[options.command](options, console)
    console.end()
    return int(console.found.get("psd") is False)


def _plan(options: argparse.Namespace, console: Console) -> None:
    data = dataset_of(options.data, options)
    machine = machine_of(options, data)
    data = as_read_by(getattr(machine, "kernel", "rbf"), data)
    plan = machine.plan(data.points, data.target, pilot=options.pilot)
    console.line(str(plan))
    console.tell(
        machine=plan.machine,
        points=plan.n,
        road=plan.road,
        why=plan.why,
        entries=plan.entries,
        memory=plan.memory,
        available=plan.available,
        seconds=plan.seconds,
        fits=plan.fits,
        ways_out=[str(way) for way in plan.ways_out],
        notes=plan.notes,
    )


def _kernel_on(text: str, data: Dataset | None) -> tuple[Kernel, Points | None]:
    """A kernel, having learnt from the points, and the points as it reads them."""
    kernel = kernel_of(text, data)
    kernel = as_kernel(kernel) if isinstance(kernel, str) else kernel
    if data is None:
        return kernel, None
    points = as_read_by(kernel, data).points
    return kernel.resolve(points), points


def _check(options: argparse.Namespace, console: Console) -> None:
    data = dataset_of(options.data, options) if options.data else None
    kernel, points = _kernel_on(options.kernel, data)
    console.line(str(kernel.proof()))
    console.tell(kernel=repr(kernel), psd=kernel.psd, proof=str(kernel.proof()))
    if data is None or points is None:
        return
    if len(data) > options.most:
        chosen = np.sort(
            np.random.default_rng(0).permutation(len(data))[: options.most]
        )
        points = take(points, chosen)
    found = check(kernel, points)
    console.line(repr(found))
    psd = kernel.psd if found.psd else False
    console.tell(
        psd=psd,
        points=found.n,
        smallest=found.smallest,
        largest=found.largest,
        tolerance=found.tolerance,
    )


def _gram(options: argparse.Namespace, console: Console) -> None:
    output = Path(options.output)
    if output.suffix not in _SUFFIXES:
        raise ValueError(f"The matrix is written as .npy or .csv; got {output}.")
    data = dataset_of(options.data, options)
    kernel, points = _kernel_on(options.kernel, data)
    other = None
    if options.other:
        other = as_read_by(kernel, dataset_of(options.other, options)).points
    K = Gram(kernel, points, other).dense()
    if output.suffix == ".npy":
        np.save(output, K)
    else:
        with output.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows(K.tolist())
    shape = " × ".join(map(str, K.shape))
    console.rows([("kernel", f"{kernel!r:.300}"), ("written", f"{output}, {shape}")])
    console.tell(kernel=repr(kernel), shape=K.shape, output=str(output))


def _info(options: argparse.Namespace, console: Console) -> None:
    path = Path(options.file)
    if path.is_file() and _is_model(path):
        _about_model(load(path), console)
        return
    data = dataset_of(options.file, options)
    kernel = f"{data.kernel!r:.300}"
    console.rows([("data", f"{path}: {description(data)}")])
    console.rows([("note", note) for note in data.notes])
    rows = [("column", f"{name}: {kind}") for name, kind in data.types.items()]
    shown = (
        rows if len(rows) <= 40 else [*rows[:40], ("", f"and {len(rows) - 40} more")]
    )
    console.rows(shown)
    console.rows([("target", target_text(data)), ("kernel", kernel)])
    target = data.target
    classes = None if target is None or not are_classes(target) else distinct(target)
    console.tell(
        kind=data.kind,
        points=len(data),
        types=data.types,
        target=data.target_name,
        classes=classes,
        kernel=repr(data.kernel),
    )


def _is_model(path: Path) -> bool:
    """Whether a file begins as a model does: a length, and a header in braces."""
    with path.open("rb") as stream:
        head = stream.read(9)
    return len(head) == 9 and head[8:] == b"{" and head[4:8] == b"\0\0\0\0"


def _about_model(loaded: Any, console: Console) -> None:
    machine = last_step(loaded)
    name = type(machine).__name__
    if not hasattr(machine, "get_params") or isinstance(machine, Kernel):
        console.rows([(name, f"{machine!r:.500}")])
        console.tell(machine=name)
        return
    kernel, layout = kernel_of_fit(machine), getattr(loaded, "data_layout_", None)
    rows: list[tuple[str, object]] = [("machine", parameters_text(machine))]
    if kernel is not None:
        rows += [("kernel", f"{kernel!r:.300}"), ("proof", proof_line(kernel))]
    f = getattr(machine, "expansion_", None)
    if f is not None:
        rows.append(("expansion", f"on {len(f.coef):,} points, {f.n_outputs} outputs"))
    classes = getattr(machine, "classes_", None)
    if classes is not None:
        rows.append(("classes", ", ".join(map(str, classes[:20]))))
    if text := certificate_text(machine):
        rows.append(("certificate", text))
    if layout:
        rows.append(("learnt from", f"{layout['kind']}, target {layout['target']}"))
    if loaded is not machine:
        rows.append(("columns", f"scaled first: {loaded[0]!r}"))
    run = getattr(machine, "run_", None)
    if run is not None:
        rows.append(("solver", f"{run.status}, {run.iterations:,} steps"))
    console.rows(rows)
    console.tell(
        machine=name,
        parameters={k: repr(v) for k, v in machine.get_params(deep=False).items()},
        kernel=repr(kernel),
        classes=classes,
        points=None if f is None else len(f.coef),
        status=None if run is None else str(run.status),
        layout=layout,
    )


_COMMANDS = {"plan": _plan, "check": _check, "gram": _gram, "info": _info}
