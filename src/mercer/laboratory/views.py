"""Other views of a state: Gram matrix, feature space, bounds, the path in C."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

from mercer.laboratory.fits import class_values, fitted, two_classes
from mercer.laboratory.frames import Answer
from mercer.laboratory.jobs import Job
from mercer.laboratory.refusals import Refusal
from mercer.laboratory.state import State
from mercer.machines.pca import KernelPCA
from mercer.native.lapack import eigvalsh
from mercer.native.sorting import distinct
from mercer.paths.svm import svm_path, svr_path
from mercer.theory.mistakes import mistake_bound
from mercer.theory.table import bounds as bounds_table

MOST_SHOWN = 256  # rows of the Gram matrix
MOST_WHOLE = 1000  # points of a whole spectrum
MOST_PATH = 400  # points of a path
MOST_BOUNDS = 1000
MOST_REFITS = 120  # points that are left out one by one
MOST_FRAMES = 120
BREAKPOINTS = 5000
MOST_GAP = 1000
MOST_POWERS = 24  # fits with twice as many iterations each
TOL = 1e-3  # of the machines here
FOLDS = 5


def gram(state: State, job: Job) -> Answer:
    """K, sorted by labels, and its eigenvalues."""
    kernel = state.kernel.resolve(state.X)
    n = len(state.points)
    labels = state.labels if state.task == "classify" else np.zeros(n)
    if state.task == "regress":
        labels = state.points[:, 0]
    order = np.argsort(labels, kind="stable")
    chosen = order[np.linspace(0, n - 1, min(n, MOST_SHOWN)).round().astype(int)]
    K = np.asarray(kernel(state.X[chosen]), dtype=float)
    job.check()
    whole = n <= MOST_WHOLE
    values = (
        eigvalsh(np.asarray(kernel(state.X), dtype=float)) if whole else eigvalsh(K)
    )
    values = np.asarray(values)[::-1]
    total = float(values.clip(min=0).sum())
    share = np.cumsum(values.clip(min=0)) / total if total else np.ones(len(values))
    least = float(values[-1])
    head = {
        "kernel": repr(kernel),
        "low": float(K.min()),
        "high": float(K.max()),
        "rank_95": int(np.searchsorted(share, 0.95) + 1),
        "condition": float(values[0]) / least if least > 0 else None,
        "whole": whole,
        "psd": kernel.psd,
    }
    return Answer(head, {"gram": K, "order": chosen, "eigenvalues": values})


def features(state: State, job: Job) -> Answer:
    """The points by their first three kernel principal components."""
    n = len(state.points)
    if n < 4:
        raise Refusal(
            f"The feature space is shown from 4 points on; there are {n}.",
            code="points",
            field="/points",
        )
    if n > 2000:
        raise _too_many("The feature space", 2000, n)
    kernel = state.kernel.resolve(state.X)
    machine = job.of(KernelPCA(3, kernel=kernel, callback=job.watch)).fit(state.X)
    scores = np.asarray(machine.transform(state.X), dtype=float)
    scores = np.pad(scores, [(0, 0), (0, 3 - scores.shape[1])])
    centred = np.asarray(kernel.diag(state.X), dtype=float).sum()
    centred -= float(np.mean(kernel(state.X), dtype=float) * n)
    spread = (scores**2).sum(axis=0)
    head: dict[str, Any] = {
        "kernel": repr(kernel),
        "explained": spread / centred if centred > 0 else np.zeros(3),
        "eigenvalues": np.asarray(machine.eigenvalues_),
        "fit_share": None,
    }
    arrays = {"scores": scores}
    if state.task == "classify" and len(distinct(state.labels)) == 2:
        values = class_values(fitted(state, job), state.X)
        design = np.column_stack([scores, np.ones(n)])
        plane = np.linalg.lstsq(design, values, rcond=None)[0]
        variance = float(np.var(values))
        left = float(np.mean((values - design @ plane) ** 2))
        arrays["plane"] = plane
        head["fit_share"] = 1 - left / variance if variance else None
    return Answer(head, arrays)


def bounds(state: State, job: Job) -> Answer:
    """The library's table of bounds, the perceptron's, and measured errors."""
    n = len(state.points)
    if state.y is None:
        raise Refusal(
            "Bounds on the error are for classification and regression.", code="task"
        )
    if n > MOST_BOUNDS:
        raise _too_many("The bounds", MOST_BOUNDS, n)
    machine = fitted(state, job)
    table = bounds_table(machine, state.X, state.y, refit=n <= MOST_REFITS)
    job.check()
    rows: list[dict[str, Any]] = []
    measured: list[dict[str, Any]] = []
    for row in table:
        one = {
            "name": row.name,
            "value": row.value,
            "kind": row.kind,
            "about": "error",
            "formula": row.formula,
            "note": row.assumptions,
        }
        own = row.kind == "measured" or row.name == "leave-one-out"
        (measured if own else rows).append(one)
    rows += _mistakes(state)
    measured += _folds(state, job)
    absent = [{"name": name, "why": why} for name, why in table.absent]
    return Answer({"bounds": rows, "measured": measured, "absent": absent}, {})


def _mistakes(state: State) -> list[dict[str, Any]]:
    """What a perceptron with this kernel can miss at most, for two classes."""
    if state.task != "classify" or len(distinct(state.labels)) != 2:
        return []
    if not state.kernel.psd:
        return []
    kernel = state.kernel.resolve(state.X)
    found = mistake_bound(kernel, state.X, state.labels, C=state.params.get("C", 1.0))
    note = f"{int(found.mistakes)} made in all passes; R = {found.radius:.4g}"
    return [
        {
            "name": "mistakes of a perceptron",
            "value": float(found.bound),
            "kind": "bound",
            "about": "mistakes",
            "formula": "R²‖w‖² + 2 Σξᵢ",
            "note": note,
        }
    ]


def _folds(state: State, job: Job) -> list[dict[str, Any]]:
    """The error on points that were left out, in five folds."""
    assert state.y is not None
    classes = state.task == "classify"
    least = min(np.unique(state.y, return_counts=True)[1]) if classes else len(state.y)
    if least < 2 or len(state.y) < FOLDS:
        return []
    folds = min(FOLDS, int(least))
    kind = StratifiedKFold if classes else KFold
    splitter = kind(folds, shuffle=True, random_state=0)
    machine = state.offer.make(state.params, kernel=state.kernel, callback=job.watch)
    scoring = "accuracy" if classes else "neg_mean_squared_error"
    scores = []
    for fold in splitter.split(state.X, state.y):
        job.check()
        scores += cross_val_score(
            machine, state.X, state.y, cv=[fold], scoring=scoring, error_score="raise"
        ).tolist()
    mean = float(np.mean(scores))
    return [
        {
            "name": f"{folds} folds",
            "value": 1 - mean if classes else -mean,
            "kind": "measured",
            "about": "error",
            "formula": "share missed" if classes else "mean (y - f(x))²",
            "note": "each fold judged by a machine fitted to the others",
        }
    ]


def gap(state: State, job: Job) -> Answer:
    """Primal and dual of fits that end after 1, 2, 4, 8, ... iterations."""
    n = len(state.points)
    if not state.offer.dual:
        raise Refusal(
            f"Primal and dual are those of support vector machines; got "
            f"{state.offer.name}.",
            code="machine",
            field="/machine/name",
        )
    if n > MOST_GAP:
        raise _too_many("The gap", MOST_GAP, n)
    rows: list[tuple[float, float, float]] = []
    for power in range(MOST_POWERS):
        found = fitted(state, job, max_iter=2**power).certificate_
        row = (found.run.iterations, found.primal, found.dual)
        if not rows or row[0] > rows[-1][0]:
            rows.append(row)
        if str(found.status) != "max_iter":
            break
    iterations, primal, dual = np.array(rows, dtype=float).T
    head = {"status": str(found.status), "tol": TOL}
    arrays = {"iterations": iterations, "primal": primal, "dual": dual}
    return Answer(head, arrays)


def path(state: State, job: Job, frames: int, ends: tuple[float, float]) -> Answer:
    """Pictures of the machine for C from one end to the other."""
    n = len(state.points)
    if n > MOST_PATH:
        raise _too_many("The path", MOST_PATH, n)
    if not state.offer.path:
        raise Refusal(
            f"There is a path in C of SVC and SVR; got {state.offer.name}.",
            code="machine",
            field="/machine/name",
        )
    state = state.with_grid(64)
    limits: dict[str, Any] = {"C_max": ends[1], "max_breakpoints": BREAKPOINTS}
    if state.task == "classify":
        two_classes(state, "The path")
        found: Any = svm_path(state.kernel, state.X, state.y, **limits)
    else:
        epsilon = state.params["epsilon"]
        found = svr_path(state.kernel, state.X, state.y, epsilon=epsilon, **limits)
    job.check()
    last = min(ends[1], found.domain[1])
    first = min(max(ends[0], found.domain[0]), last)
    values = np.geomspace(first, last, frames).clip(first, last)
    columns = _along(state, job, found, values)
    head = {
        "kernel": repr(found.kernel),
        "breakpoints": len(found.breakpoints),
        "exact": bool(found.complete),
        "warnings": job.warnings,
    }
    return Answer(head, {"C": values, **columns})


def _along(
    state: State, job: Job, found: Any, values: np.ndarray
) -> dict[str, np.ndarray]:
    """What is drawn at each C."""
    drawn: dict[str, list[Any]] = {}
    cells = state.cells()
    for C in values:
        job.check()
        machine = found(float(C))
        alpha = np.abs(found.coef(float(C)))
        one: dict[str, Any] = {"alpha": alpha, "support": np.count_nonzero(alpha)}
        one["margin"] = machine.certificate_.margin
        if state.task == "classify":
            f = machine.decision_function(cells)
            one["decision"] = f.reshape(state.grid[::-1])
            one["error"] = 1 - machine.score(state.X, state.y)
        else:
            one["mean"] = machine.predict(cells)
            error = machine.predict(state.X) - state.points[:, 1]
            one["error"] = np.mean(error**2)
        for name, value in one.items():
            drawn.setdefault(name, []).append(value)
        job.report({"stage": "drawing", "share": len(drawn["alpha"]) / len(values)})
    arrays = {name: np.array(some) for name, some in drawn.items()}
    if state.task == "regress":
        arrays["x"] = cells[:, 0]
    return arrays


def _too_many(what: str, most: int, n: int) -> Refusal:
    verb = "are" if what.endswith("s") else "is"
    return Refusal(
        f"{what} {verb} computed for at most {most} points here; there are {n}. Remove "
        "some.",
        code="points",
        field="/points",
    )
