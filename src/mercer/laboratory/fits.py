"""A machine fitted to the plane, and what is drawn of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import r2_score

from mercer.kernels.vector import Linear
from mercer.laboratory.frames import Answer
from mercer.laboratory.jobs import Job
from mercer.laboratory.refusals import Refusal
from mercer.laboratory.state import State
from mercer.native.sorting import distinct

AT_BOUND = 1e-9  # relative distance within which a variable is at its bound
ZERO, FREE, BOUND = 0, 1, 2
ENTRIES = 2_000_000  # kernel values that are computed at a time
LEAST_ROWS = 256


def fitted(state: State, job: Job, **more: Any) -> Any:
    """The machine of a state, fitted; what it reports goes to the job.

    Parameters
    ----------
    more : parameters beside those of the state
    """
    options = {"kernel": state.kernel, "callback": job.watch, "time_limit": job.seconds}
    options["cache_size"] = None  # as much as a job may keep
    machine = job.of(state.offer.make(state.params | more, **options))
    job.report({"stage": "fitting"})
    machine.fit(state.X) if state.y is None else machine.fit(state.X, state.y)
    job.check()
    return machine


def fit(state: State, job: Job) -> Answer:
    """The fit, f on the grid, and the dual variables."""
    begin = time.perf_counter()
    machine = fitted(state, job)
    seconds = time.perf_counter() - begin
    job.report({"stage": "drawing"})
    head: dict[str, Any] = {
        "task": state.task,
        "kernel": repr(kernel_of(machine, state)),
        "machine": {"name": state.offer.name, "params": state.params},
        "classes": sorted(set(state.labels.tolist())),
        "certificate": certificate(machine),
        "n_support": None,
        "fit_seconds": seconds,
    }
    arrays = _DRAWN[state.task](Drawing(state, machine, job), head)
    head["score"] = score(state, machine, arrays)
    head["history"] = job.history
    head["warnings"] = job.warnings
    head["seconds"] = time.perf_counter() - begin
    return Answer(head, arrays)


def kernel_of(machine: Any, state: State) -> Any:
    """The kernel as it was used, with what it learnt from the points."""
    for name in ("expansion_", "kernel_"):
        found = getattr(machine, name, None)
        if found is not None:
            kernel = getattr(found, "kernel", found)
            if not isinstance(kernel, str):
                return kernel
    return state.kernel.resolve(state.X)


def certificate(machine: Any) -> dict[str, Any] | None:
    """What is known of the solution of an SVM; None for other machines."""
    found = getattr(machine, "certificate_", None)
    if found is None:
        return None
    run = found.run
    return {
        "status": str(found.status),
        "primal": found.primal,
        "dual": found.dual,
        "gap": found.gap,
        "violation": found.violation,
        "rounding": found.rounding,
        "n_free": found.n_free,
        "n_bound": found.n_bound,
        "margin": found.margin,
        "iterations": run.iterations,
        "seconds": run.seconds,
        "rows": run.rows,
    }


def score(
    state: State, machine: Any, arrays: Mapping[str, np.ndarray]
) -> dict[str, Any] | None:
    """How well the machine does on the points themselves."""
    values = arrays.get("value")
    if state.task == "classify":
        hits = winners(machine, np.asarray(values)) == state.labels
        return {"name": "accuracy", "value": float(np.mean(hits))}
    if state.task == "regress" and len(state.points) > 1:
        return {"name": "R²", "value": float(r2_score(state.y, values))}
    if state.task == "one-class":
        return {"name": "outside", "value": float(np.mean(np.asarray(values) < 0))}
    if state.task == "cluster":
        return {"name": "inertia", "value": float(machine.inertia_)}
    if state.task == "density":
        mean = float(np.mean(np.log(np.asarray(values))))
        return {"name": "mean log-likelihood", "value": mean}
    return None


# What is drawn of each task


@dataclass(frozen=True, eq=False)
class Drawing:
    """A fitted machine with the state it was fitted to."""

    state: State
    machine: Any
    job: Job

    def at(
        self, function: Callable[[np.ndarray], Any], points: np.ndarray
    ) -> np.ndarray:
        """The function at many points, some at a time, as long as the job may go on.

        Values of a point are a row, or a number.
        """
        step = max(LEAST_ROWS, ENTRIES // max(1, len(self.state.points)))
        parts = []
        for first in range(0, len(points), step):
            self.job.check()
            parts.append(np.asarray(function(points[first : first + step]), float))
        return np.concatenate(parts)

    def on_grid(self, function: Callable[[np.ndarray], Any]) -> np.ndarray:
        """The function at all cells: (..., rows, columns)."""
        values = self.at(function, self.state.cells())
        return values.T.reshape(*values.T.shape[:-1], *self.state.grid[::-1])


def class_values(machine: Any, points: np.ndarray) -> np.ndarray:
    """f: (m,) for two classes, > 0 for the second; else (m, k), the greatest wins."""
    if hasattr(machine, "decision_function"):
        return np.asarray(machine.decision_function(points), dtype=float)
    values = np.asarray(machine.predict_proba(points), dtype=float)
    return values[:, 1] - 0.5 if values.shape[1] == 2 else values


def winners(machine: Any, values: np.ndarray) -> np.ndarray:
    """The labels that values of f speak for, a row for each class; of one f, 0 is for
    the first class.
    """
    two = len(machine.classes_) == 2
    number = (values > 0).astype(int) if two else values.argmax(axis=0)
    return np.asarray(machine.classes_)[number]


def _classes(drawing: Drawing, head: dict[str, Any]) -> dict[str, np.ndarray]:
    state, machine = drawing.state, drawing.machine

    def f(points: np.ndarray) -> np.ndarray:
        return class_values(machine, points)

    decision = drawing.on_grid(f)
    out = {
        "value": drawing.at(f, state.X).T,
        "decision": decision,
        "winner": winners(machine, decision),
    }
    two = decision.ndim == 2
    if state.offer.probable and two:
        out["probability"] = drawing.on_grid(lambda P: machine.predict_proba(P)[:, 1])
    head["margins"] = [-1, 0, 1] if state.offer.dual and two else [0]
    if state.offer.dual:
        coefs = np.asarray(machine.dual_coef_)
        out |= _dual(state, machine, coefs, head)
        if two:
            sides = np.where(state.labels == machine.classes_[1], 1, -1)
            out["slack"] = np.maximum(0, 1 - sides * out["value"])
            if isinstance(state.kernel, Linear):
                out["foot"] = _on_margin(machine, state.points, sides * out["slack"])
            head["slack"] = float(out["slack"].sum())
    return out


def line_of(f: Callable[[np.ndarray], Any]) -> np.ndarray:
    """(w₁, w₂, b) of a function that is affine."""
    b, *ends = np.asarray(f(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])), float)
    return np.array([ends[0] - b, ends[1] - b, b])


def _on_margin(machine: Any, points: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Where points with slack would be on their margin; those without, where they are.

    `missing` is by how much f is to change: y ξ.
    """
    w = line_of(machine.decision_function)[:2]
    return points + missing[:, None] * w / (w @ w or np.nan)


def _curve(drawing: Drawing, head: dict[str, Any]) -> dict[str, np.ndarray]:
    state, machine = drawing.state, drawing.machine
    across = state.cells()
    head["band"] = None
    out = {"x": across[:, 0]}
    if state.offer.name == "GaussianProcessRegressor":
        mean, deviation = machine.predict(across, return_std=True)
        head["band"], width = "deviation", 2 * deviation
    else:
        mean, width = drawing.at(machine.predict, across), None
    out |= {"mean": mean, "value": drawing.at(machine.predict, state.X)}
    tube = state.params.get("epsilon")
    if tube is not None:
        head["band"], width = "tube", np.full(len(across), tube)
    if width is not None:
        out |= {"low": mean - width, "high": mean + width}
    if state.offer.dual:
        out |= _dual(state, machine, np.asarray(machine.dual_coef_), head)
        free = 0.0 if tube is None else tube
        error = state.points[:, 1] - out["value"]
        out["slack"] = np.maximum(0, np.abs(error) - free)
        edge = state.points[:, 1] - np.sign(error) * out["slack"]
        out["foot"] = np.column_stack([state.points[:, 0], edge])
        head["slack"] = float(out["slack"].sum())
    elif state.offer.name == "KernelRidge":
        out["coef"] = np.asarray(machine.dual_coef_)
    return out


def _inside(drawing: Drawing, head: dict[str, Any]) -> dict[str, np.ndarray]:
    state, machine = drawing.state, drawing.machine
    own = drawing.at(machine.decision_function, state.X)
    head["margins"] = [0]
    out = {"decision": drawing.on_grid(machine.decision_function), "value": own}
    out |= _dual(state, machine, np.asarray(machine.dual_coef_), head)
    return out | {"slack": np.maximum(0, -own)}


def _dual(
    state: State, machine: Any, coefs: np.ndarray, head: dict[str, Any]
) -> dict[str, np.ndarray]:
    """α of every point and where it stands in its box; of several f the greatest."""
    n = len(state.points)
    coefs = np.atleast_2d(coefs)
    largest = np.abs(coefs).argmax(axis=0)
    coef = np.zeros(n)
    coef[machine.support_] = coefs[largest, np.arange(coefs.shape[1])]
    alpha = np.abs(coef)
    upper = state.params.get("C")
    if upper is None or state.offer.name == "NuSVR":
        upper = 1.0 if state.task == "one-class" else float(alpha.max(initial=0.0))
    some_bound = machine.certificate_.n_bound > 0
    at_bound = (alpha >= upper * (1 - AT_BOUND)) & some_bound
    kkt = np.where(at_bound, BOUND, np.where(alpha > 0, FREE, ZERO))
    head["upper"], head["n_support"] = upper, int(np.count_nonzero(alpha))
    return {"alpha": alpha, "coef": coef, "kkt": kkt}


def _clusters(drawing: Drawing, head: dict[str, Any]) -> dict[str, np.ndarray]:
    machine = drawing.machine
    head["inertia"] = np.asarray(machine.inertia_history_)
    labels = machine.labels_
    return {
        "winner": drawing.on_grid(machine.predict),
        "assigned": labels,
        "value": labels,
    }


def _density(drawing: Drawing, head: dict[str, Any]) -> dict[str, np.ndarray]:
    machine = drawing.machine

    def density(points: np.ndarray) -> np.ndarray:
        return np.exp(machine.score_samples(points))

    head["bandwidth"] = float(machine.bandwidth_)
    own = drawing.at(density, drawing.state.X)
    return {"density": drawing.on_grid(density), "value": own}


def _components(drawing: Drawing, head: dict[str, Any]) -> dict[str, np.ndarray]:
    machine = drawing.machine
    head["eigenvalues"] = np.asarray(machine.eigenvalues_)
    return {
        "components": drawing.on_grid(machine.transform),
        "scores": drawing.at(machine.transform, drawing.state.X),
    }


_DRAWN = {
    "classify": _classes,
    "regress": _curve,
    "one-class": _inside,
    "cluster": _clusters,
    "density": _density,
    "pca": _components,
}


def two_classes(state: State, what: str) -> np.ndarray:
    """The points' sides as ±1; refused where there are not two classes."""
    classes = distinct(state.labels)
    if state.task != "classify" or len(classes) != 2:
        raise Refusal(
            f"{what} is shown for two classes; there are {len(classes)}. Relabel or "
            "remove points.",
            code="points",
            field="/points",
        )
    return np.where(state.labels == classes[1], 1.0, -1.0)
