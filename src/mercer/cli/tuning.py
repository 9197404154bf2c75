"""`mercer tune`: try parameters and kernels on folds, report, save the best."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
import warnings
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold

from mercer.cli.live import Console, seconds_text
from mercer.cli.settings import (
    FLAGS,
    as_read_by,
    dataset_of,
    description,
    layout_of,
    machine_of,
    needs_target,
    pair,
    piped,
    scaled,
    scaler_of,
    target_text,
    uneven,
    value_of,
)
from mercer.io.dataset import Dataset
from mercer.io.models import save
from mercer.kernels.parse import parse
from mercer.machines.words import WORDS
from mercer.search.cv import KernelSearchCV
from mercer.search.spaces import NUMBERS, kernels_for

_OPENING, _CLOSING = "([{", ")]}"


def run(options: argparse.Namespace) -> int:
    """Tune a machine as the command line says."""
    console = Console(options)
    for path in (options.output, options.resume, options.picture):
        folder = Path(path).parent if path else Path()
        if not folder.is_dir():
            raise ValueError(f"There is no folder {folder} for {path}. Make it first.")
    data = dataset_of(options.data, options)
    target = needs_target(data, options.data)
    machine = machine_of(options, data)
    if is_regressor(machine):
        if target.dtype.kind not in "biuf":
            raise ValueError(
                f"{type(machine).__name__} learns numbers; the target of "
                f"{options.data} has words, as {str(target[0])!r}. Use a classifier."
            )
        target = target.astype(float)
    data = as_read_by(getattr(machine, "kernel", "rbf"), data)
    # By all points: what each fold would scale for itself, none could share.
    scaler = scaler_of(data, options.scale)
    data = replace(data, points=scaled(data.points, scaler), target=target)
    task = "classification" if is_classifier(machine) else "regression"
    console.rows([("data", f"{options.data}: {description(data)}")])
    console.rows([("note", note) for note in data.notes])
    console.rows([("target", target_text(data, task))])
    if options.scale == "none" and (note := uneven(data)):
        console.rows([("note", note)])
    search = _search(machine, data, options, console)
    search, seconds = _fitted(search, data, console)
    _report(search, seconds, options, console)
    _written(search, scaler, layout_of(data), options, console)
    console.end()
    return 0


def _search(
    machine: Any, data: Dataset, options: argparse.Namespace, console: Console
) -> KernelSearchCV:
    folds = StratifiedKFold if is_classifier(machine) else KFold
    return KernelSearchCV(
        machine,
        _space(machine, data, options),
        cv=folds(options.cv, shuffle=True, random_state=options.seed),
        scoring=options.scoring,
        n_iter=options.draw,
        time_limit=options.time_limit,
        halving=options.halving,
        n_jobs=options.jobs,
        resume=options.resume,
        error_score="raise",
        verbose=0 if console.silent else 1,
        random_state=options.seed,
    )


def _space(machine: Any, data: Dataset, options: argparse.Namespace) -> dict[str, Any]:
    """What is tried: what `--try` says; else the kernels and numbers that suit it."""
    known = machine.get_params(deep=False)
    told = dict(pair(text, "--try") for text in options.trials)
    given = {name for name in FLAGS if getattr(options, name) is not None}
    given |= {pair(text, "--set")[0] for text in options.set}
    space: dict[str, Any] = {
        name: list(values)
        for name, values in NUMBERS.items()
        if name in known and name not in given
    }
    if options.kernel == "auto" and "gamma" not in given and "kernel" in known:
        space["kernel"] = [data.kernel]
        if data.kind == "records":
            assert data.kernel is not None
            space["kernel"].append(data.kernel * data.kernel)
        elif data.kind != "nodes":
            space["kernel"] = kernels_for(data.points)
    if "kernel" in told or "gamma" in told:
        space.pop("kernel", None)
    if "gamma" in told and "kernel" not in told and options.kernel == "auto":
        machine.set_params(kernel="rbf")
    for name, text in told.items():
        space[name] = [_value(name, part) for part in _parts(text)]
    return space


def _value(name: str, text: str) -> Any:
    if name == "kernel":
        return text if text in WORDS else parse(text)
    return value_of(text)


def _parts(text: str) -> list[str]:
    """Values divided by commas that stand in no brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in _OPENING) - (sign in _CLOSING)
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    found = [part.strip() for part in parts]
    if not all(found):
        raise ValueError(f"--try needs NAME=VALUE,VALUE,...; got {text!r}.")
    return found


def _fitted(
    search: KernelSearchCV, data: Dataset, console: Console
) -> tuple[KernelSearchCV, float]:
    begin = time.perf_counter()
    # Lines on how far it is are not for those who read stdout.
    with redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(data.points, data.target)
    return search, time.perf_counter() - begin


def _report(
    search: KernelSearchCV,
    seconds: float,
    options: argparse.Namespace,
    console: Console,
) -> None:
    results = search.cv_results_
    tried = len(results["params"])
    spread = results["std_test_score"][search.best_index_]
    score = f"{search.best_score_:.4f} ± {spread:.4f} over {search.n_splits_} folds"
    skipped = f", {search.n_skipped_} left out by the time" if search.n_skipped_ else ""
    again = shlex.join(["mercer", *options.given])
    train = _train_command(search, options)
    console.rows(
        [
            ("tried", f"{tried} candidates in {seconds_text(seconds)}{skipped}"),
            ("shared", search.sharing_),
            ("best", f"{_name(options)} {score}"),
            (
                "parameters",
                ", ".join(f"{k}={v}" for k, v in search.best_params_.items()),
            ),
            ("again", again),
            ("this one", train),
        ]
    )
    console.tell(
        best_score=search.best_score_,
        best_params={k: _plain(v) for k, v in search.best_params_.items()},
        score=_name(options),
        deviation=spread,
        folds=search.n_splits_,
        tried=tried,
        skipped=search.n_skipped_,
        seconds=seconds,
        shared=search.sharing_,
        command=again,
        train=train,
        results=[
            {
                "params": {k: _plain(v) for k, v in params.items()},
                "score": results["mean_test_score"][i],
                "deviation": results["std_test_score"][i],
                "rank": int(results["rank_test_score"][i]),
                "seconds": results["mean_fit_time"][i],
            }
            for i, params in enumerate(results["params"])
        ],
    )


def _name(options: argparse.Namespace) -> str:
    return options.scoring or "score"


def _plain(value: Any) -> Any:
    plain = isinstance(value, bool | int | float | str | type(None))
    return value if plain else str(value)


def _train_command(search: KernelSearchCV, options: argparse.Namespace) -> str:
    """The line that trains the best machine anew."""
    words = ["mercer", "train", options.data]
    chosen = dict(search.best_params_)
    skipping = False
    tuning = {
        "--try": 1, "--cv": 1, "--scoring": 1, "--draw": 1, "--time-limit": 1,
        "--resume": 1, "--jobs": 1, "--seed": 1, "--picture": 1, "--halving": 0,
        "--json": 0, "--quiet": 0, "-q": 0, "--kernel": 1,
    }  # fmt: skip
    if "kernel" not in chosen:
        del tuning["--kernel"]
    for word in options.given[1:]:
        if skipping:
            skipping = False
            continue
        name, sign, _ = word.partition("=")
        if name in tuning:
            skipping = bool(tuning[name]) and not sign
        elif word != options.data:
            words.append(word)
    for name, value in chosen.items():
        if name == "kernel" or name in FLAGS:
            words += [f"--{name}", str(value)]
        else:
            words += ["--set", f"{name}={value}"]
    return shlex.join(words)


def _written(
    search: KernelSearchCV,
    scaler: Any,
    layout: dict[str, Any],
    options: argparse.Namespace,
    console: Console,
) -> None:
    if options.output:
        machine = piped(search.best_estimator_, scaler)
        machine.data_layout_ = layout
        save(machine, options.output)
        size = Path(options.output).stat().st_size
        console.rows([("model", f"{options.output}, {size:,} bytes")])
        console.tell(model=options.output)
    if options.picture:
        display = search.plot()
        display.figure_.savefig(options.picture, dpi=120)
        console.rows([("picture", options.picture)])
        console.tell(picture=options.picture)
