"""From the words of a command line to data, kernels and machines."""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from mercer.data.points import Points
from mercer.io.dataset import Dataset, are_classes
from mercer.io.reading import kind_of, read
from mercer.kernels.base import Kernel
from mercer.kernels.parse import parse
from mercer.machines.checks import reads_names
from mercer.machines.estimator import KernelEstimator
from mercer.machines.words import WORDS

EMBEDDED = ("digits", "iris", "wine")  # of scikit-learn, by name where no file has it
FLAGS = ("C", "gamma", "epsilon", "nu", "alpha", "tol")
UNEVEN = 30.0  # the ratio of the spreads of two columns from which it is worth a note
_mercer: Any = importlib.import_module("mercer")  # its names, as users write them
_TABLES = ("table", "parquet")  # formats with columns


# Data


def dataset_of(
    path: str,
    options: argparse.Namespace,
    layout: Mapping[str, Any] | None = None,
    columns: int | None = None,
) -> Dataset:
    """The data of a command line.

    Parameters
    ----------
    layout : of the data that a model learnt from: what is read as it was then; None
        for a model that has none, or no model
    columns : of sparse points, as many as that model learnt from
    """
    target = getattr(options, "target", None)
    if path in EMBEDDED and not Path(path).exists():
        return _embedded(path)
    if Path(path).is_dir() and not any(Path(path).rglob("*_A.txt")):
        raise ValueError(f"{path} is a folder without graphs (..._A.txt). Name a file.")
    kind = options.format or kind_of(path)
    given = _reading_options(options, kind)
    if layout and kind in _TABLES:
        given.setdefault("columns", list(layout["names"]))
        given.setdefault("types", dict(layout["types"]))
    if kind == "svmlight" and columns is not None:
        given["n_features"] = columns
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the notes of the data say it
        return read(path, target, kind, **given)


def _reading_options(options: argparse.Namespace, kind: str) -> dict[str, Any]:
    """What was said about reading, as the functions of `mercer.io` take it."""
    found: dict[str, Any] = {}
    for name in ("columns", "drop"):
        if text := getattr(options, name):
            found[name] = [part.strip() for part in text.split(",")]
    if options.type:
        found["types"] = dict(pair(text, "--type") for text in options.type)
    if options.header:
        found["header"] = options.header == "yes"
    for name in ("divider", "decimal", "missing", "labels"):
        if (value := getattr(options, name)) is not None:
            found[name] = "\t" if value == "\\t" else value
    allowed = {
        "table": {
            "columns",
            "drop",
            "types",
            "header",
            "divider",
            "decimal",
            "missing",
        },
        "parquet": {"columns", "drop", "types", "missing"},
        "numpy": {"drop"},
        "fasta": {"labels"},
        "fastq": {"labels"},
        "edges": {"labels"},
    }.get(kind, set())
    for name in found:
        if name not in allowed:
            flag = "type" if name == "types" else name
            raise ValueError(f"--{flag} is not for files of the format {kind!r}.")
    return found


def pair(text: str, flag: str) -> tuple[str, str]:
    """NAME=VALUE as two texts."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise ValueError(f"{flag} needs NAME=VALUE; got {text!r}.")
    return name.strip(), value.strip()


def _embedded(name: str) -> Dataset:
    """Data that come with scikit-learn."""
    datasets = importlib.import_module("sklearn.datasets")
    found = getattr(datasets, f"load_{name}")()
    words = np.array([str(word) for word in found.target_names])
    target = found.target if name == "digits" else words[found.target]
    return Dataset(
        np.asarray(found.data, dtype=float),
        target,
        tuple(map(str, found.feature_names)),
        "numbers",
        types=dict.fromkeys(map(str, found.feature_names), "numbers"),
        target_name="class",
        notes=(f"the {name} of scikit-learn",),
    )


def needs_target(data: Dataset, path: str) -> np.ndarray:
    """The target; data without one are refused."""
    if data.target is not None:
        return data.target
    names = ", ".join(data.names[:8]) + (", ..." if len(data.names) > 8 else "")
    known = f" Its columns are {names}." if data.kind in ("numbers", "records") else ""
    raise ValueError(f"{path} has no target yet: name it with --target.{known}")


# Scales


def scaler_of(data: Dataset, how: str) -> Any:
    """What scales columns, fitted; None for nothing."""
    if how == "none":
        return None
    if data.kind != "numbers" or hasattr(data.points, "tocsr"):
        raise ValueError(
            f"--scale is for tables of numbers; these points are {data.kind}."
        )
    made = {"standard": StandardScaler(), "range": MinMaxScaler((-1, 1))}[how]
    return made.fit(np.asarray(data.points, dtype=float))


def scaled(points: Points, scaler: Any) -> Points:
    """Points with their columns scaled."""
    return points if scaler is None else scaler.transform(np.asarray(points, float))


def piped(machine: Any, scaler: Any) -> Any:
    """The machine as it takes points that are not scaled."""
    return (
        machine
        if scaler is None
        else Pipeline([("scale", scaler), ("machine", machine)])
    )


def last_step(machine: Any) -> Any:
    """The machine at the end of a pipeline; one that is in none is itself."""
    return machine[-1] if isinstance(machine, Pipeline) else machine


def uneven(data: Dataset) -> str:
    """A note where columns of numbers differ much in scale, else ""."""
    if data.kind != "numbers" or not isinstance(data.points, np.ndarray):
        return ""
    spread = np.std(np.asarray(data.points, dtype=float), axis=0)
    spread = spread[spread > 0]
    if len(spread) < 2 or np.median(spread) * UNEVEN > spread.max():
        return ""
    return (
        f"the spreads of the columns differ by a factor of "
        f"{spread.max() / spread.min():.2g}; consider --scale standard"
    )


# Machines


def machine_class(name: str, data: Dataset, task: str | None) -> type:
    """The class of a machine, by its name or by the target."""
    if name == "auto":
        if data.target is None:
            raise ValueError(
                "What is to be learnt? Name it with --target, or a machine that needs "
                "none: --machine OneClassSVM."
            )
        if task is not None:
            name = "SVC" if task == "classification" else "SVR"
        else:
            name = "SVC" if are_classes(data.target) else "SVR"
    found = getattr(_mercer, name) if name in _mercer.__all__ else None
    if not (isinstance(found, type) and issubclass(found, KernelEstimator)):
        known = _machines()
        near = difflib.get_close_matches(name, known, 1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(
            f"There is no machine {name!r}.{meant} Machines: {', '.join(known)}."
        )
    return found


def _machines() -> list[str]:
    found = ((name, getattr(_mercer, name)) for name in _mercer.__all__)
    return sorted(
        name
        for name, thing in found
        if isinstance(thing, type) and issubclass(thing, KernelEstimator)
    )


def kernel_of(text: str, data: Dataset | None) -> Kernel | str:
    """A kernel from text: "auto" by the data, a word of scikit-learn, or a formula."""
    if text == "auto":
        if data is None or data.kernel is None:
            raise ValueError("A kernel by the data needs data: name a file.")
        return data.kernel
    if text in WORDS:
        return text
    return parse(text)


def machine_of(options: argparse.Namespace, data: Dataset) -> Any:
    """The machine of a command line, not fitted."""
    made = machine_class(options.machine, data, options.task)
    parameters = {
        name: value_of(getattr(options, name))
        for name in FLAGS
        if getattr(options, name) is not None
    }
    for text in options.set:
        name, value = pair(text, "--set")
        parameters[name] = value_of(value)
    machine = made()
    known = machine.get_params(deep=False)
    if "kernel" not in parameters and "kernel" in known:
        parameters["kernel"] = kernel_of(options.kernel, data)
    if isinstance(parameters.get("kernel"), str) and "gamma" in parameters:
        pass  # a word, which gamma is for
    elif "gamma" in parameters and options.kernel == "auto" and data.kind == "numbers":
        parameters["kernel"] = "rbf"
    for name in parameters:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise ValueError(
                f"{made.__name__} has no parameter {name!r}.{meant} Its parameters: "
                f"{', '.join(sorted(known))}."
            )
    return machine.set_params(**parameters)


def value_of(text: str) -> Any:
    """A parameter from text: a number, True, None, a list, a kernel or a word."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pass
    if text in ("inf", "-inf"):
        return float(text)
    return parse(text) if "(" in text else text


def as_read_by(kernel: Kernel | str, data: Dataset) -> Dataset:
    """The data as a kernel reads them: records, where it names columns."""
    if isinstance(kernel, Kernel) and data.kind == "numbers" and reads_names(kernel):
        return replace(data, points=data.records(), kind="records", kernel=kernel)
    return data


def read_for(machine: Any, path: str, options: argparse.Namespace) -> Dataset:
    """Data as the machine's own were read."""
    layout = getattr(machine, "data_layout_", None) or {}
    named = layout.get("names") or []
    columns = getattr(machine, "n_features_in_", None)
    data = dataset_of(path, options, layout if named else None, columns)
    data = as_read_by(getattr(last_step(machine), "kernel", "rbf"), data)
    if layout and layout["kind"] != data.kind:
        raise ValueError(
            f"The model learnt from {layout['kind']}; {path} has {data.kind}. Say how "
            "to read it: --format, --type, --columns."
        )
    return data


def layout_of(data: Dataset) -> dict[str, Any]:
    """What a model remembers of the data it learnt from, to read others alike."""
    return {
        "kind": data.kind,
        "names": list(data.names) if data.types else [],
        "types": dict(data.types),
        "target": data.target_name,
    }


def description(data: Dataset) -> str:
    """The points in a few words."""
    n = len(data)
    if data.kind == "numbers":
        d = data.points.shape[1]
        return f"{n:,} points of {d:,} number{'s' * (d != 1)}"
    if data.kind == "records":
        kinds = list(data.types.values())
        parts = [
            f"{kinds.count(kind)} of {kind}"
            for kind in ("numbers", "words", "text")
            if kind in kinds
        ]
        return f"{n:,} records with columns: {', '.join(parts)}"
    words = {"text": "texts", "nodes": "nodes of a graph"}
    return f"{n:,} {words.get(data.kind, data.kind)}"


def target_text(data: Dataset, task: str | None = None) -> str:
    """The target in a few words."""
    if data.target is None:
        return "none"
    name = f"{data.target_name}: " if data.target_name else ""
    classes = are_classes(data.target) if task is None else task == "classification"
    if not classes:
        y = np.asarray(data.target, dtype=float)
        return f"{name}numbers from {y.min():.6g} to {y.max():.6g}"
    values, counts = np.unique(data.target, return_counts=True)
    some = [f"{v} ({c:,})" for v, c in zip(values[:6], counts[:6], strict=True)]
    more = ", ..." if len(values) > 6 else ""
    return f"{name}{len(values)} classes: {', '.join(some)}{more}"
