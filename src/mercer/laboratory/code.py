"""Python that reproduces what is on the page, and the numbers that it gives.

The code is written, never run here: the numbers come from the same calls.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.data.graphs import Graph
from mercer.laboratory.fits import fitted
from mercer.laboratory.frames import Answer
from mercer.laboratory.jobs import UNFIT, Job
from mercer.laboratory.state import State
from mercer.laboratory.structures import Structures, fitted_machine
from mercer.laboratory.views import MOST_BOUNDS, MOST_REFITS, MOST_WHOLE, gram
from mercer.theory.table import bounds as bounds_table


def code_of_state(state: State, job: Job) -> Answer:
    """The code of a fit on the plane."""
    machine = fitted(state, job)
    lines = [*_fit_lines(state, machine), "print(numbers)"]
    numbers = _numbers(state, machine)
    return Answer({"code": joined(lines), "numbers": numbers}, {})


def code_of_duality(state: State, job: Job) -> Answer:
    """The code of a fit with its bounds and the spectrum of K."""
    machine = fitted(state, job)
    numbers = _numbers(state, machine)
    lines = _fit_lines(state, machine)
    if len(state.points) <= MOST_WHOLE:
        values = gram(state, job).arrays["eigenvalues"]
        numbers["greatest eigenvalue of K"] = float(values[0])
        lines += [
            "values = np.linalg.eigvalsh(kernel.resolve(X)(X))",
            "numbers['greatest eigenvalue of K'] = float(values[-1])",
        ]
    found = _bounds(state, machine)
    if found:
        refit = len(state.points) <= MOST_REFITS
        names = f"from mercer import {state.offer.name}, parse"
        lines[lines.index(names)] = (
            f"from mercer import {state.offer.name}, bounds, parse"
        )
        lines += [
            f"for row in bounds(machine, X, y, refit={refit}):",
            "    if np.isfinite(row.value):",
            "        numbers[row.name] = float(row.value)",
        ]
        numbers |= found
    lines.append("print(numbers)")
    return Answer({"code": joined(lines), "numbers": numbers}, {})


def _bounds(state: State, machine: Any) -> dict[str, float]:
    """The bounds that are shown; none where there are none."""
    if state.y is None or len(state.points) > MOST_BOUNDS:
        return {}
    try:
        table = bounds_table(
            machine, state.X, state.y, refit=len(state.points) <= MOST_REFITS
        )
    except UNFIT:  # the page says why beside the empty table
        return {}
    return {row.name: float(row.value) for row in table if np.isfinite(row.value)}


def _fit_lines(state: State, machine: Any) -> list[str]:
    return [
        "import numpy as np",
        "",
        f"from mercer import {state.offer.name}, parse",
        "",
        *point_lines(state),
        "",
        *call_lines(state),
        "",
        *_numbers_lines(state, machine),
    ]


def call_lines(state: State) -> list[str]:
    """The kernel and the machine of a state, fitted."""
    settings = {**state.offer.fixed, **state.params}
    return [
        f"kernel = parse({repr(state.kernel)!r})",
        _call(state.offer.name, settings),
        f"machine.fit(X{', y' if state.y is not None else ''})",
    ]


def joined(lines: list[str]) -> str:
    """The text of a file."""
    return "\n".join([*lines, ""])


def point_lines(state: State) -> list[str]:
    """The points as literals that give the same float64."""
    if state.task == "regress":
        lines = ["# x, target"]
        rows = [f"    [{x!r}, {y!r}]," for x, y in state.points.tolist()]
        return [
            *lines,
            "data = np.array([",
            *rows,
            "])",
            "X, y = data[:, :1], data[:, 1]",
        ]
    if state.task == "classify":
        places = zip(state.points.tolist(), state.labels.tolist(), strict=True)
        rows = [f"    [{x!r}, {y!r}, {label}]," for (x, y), label in places]
        last = "X, y = data[:, :2], data[:, 2].astype(int)"
        return ["# x₁, x₂, class", "data = np.array([", *rows, "])", last]
    rows = [f"    [{x!r}, {y!r}]," for x, y in state.points.tolist()]
    return ["X = np.array([", *rows, "])"]


def _call(name: str, settings: dict[str, Any]) -> str:
    parts = [f"{key}={value!r}" for key, value in settings.items()]
    return f"machine = {name}({', '.join(['kernel=kernel', *parts])})"


def _numbers_lines(state: State, machine: Any) -> list[str]:
    """How each number is found."""
    ways = dict(_WAYS[state.task])
    if hasattr(machine, "certificate_"):
        ways |= _CERTIFIED
    if state.offer.dual:
        ways |= _DUAL
    found = [f"    {name!r}: float({text})," for name, text in ways.items()]
    return ["numbers = {", *found, "}"]


_CERTIFIED = {
    "primal": "machine.certificate_.primal",
    "dual": "machine.certificate_.dual",
}
_DUAL = {
    "support vectors": "len(machine.support_)",
    "sum of alpha": "np.abs(machine.dual_coef_).sum()",
}
_WAYS = {
    "classify": {
        "accuracy": "machine.score(X, y)",
        "class at the mean": "machine.predict(X.mean(axis=0, keepdims=True))[0]",
    },
    "regress": {
        "R²": "machine.score(X, y)",
        "f at the mean": "machine.predict(X.mean(axis=0, keepdims=True))[0]",
    },
    "one-class": {
        "outside": "np.mean(machine.predict(X) < 0)",
        "f at the mean": (
            "machine.decision_function(X.mean(axis=0, keepdims=True))[0]"
        ),
    },
    "cluster": {"inertia": "machine.inertia_"},
    "density": {
        "mean log-likelihood": "np.mean(machine.score_samples(X))",
    },
    "pca": {"first eigenvalue": "machine.eigenvalues_[0]"},
}


def _numbers(state: State, machine: Any) -> dict[str, float]:
    """The same numbers, by the same calls."""
    X, y = state.X, state.y
    middle = X.mean(axis=0, keepdims=True)
    out: dict[str, float]
    if state.task == "classify":
        out = {
            "accuracy": machine.score(X, y),
            "class at the mean": machine.predict(middle)[0],
        }
    elif state.task == "regress":
        out = {"R²": machine.score(X, y), "f at the mean": machine.predict(middle)[0]}
    elif state.task == "one-class":
        inside = machine.decision_function(middle)[0]
        out = {"outside": np.mean(machine.predict(X) < 0), "f at the mean": inside}
    elif state.task == "cluster":
        out = {"inertia": machine.inertia_}
    elif state.task == "density":
        out = {"mean log-likelihood": np.mean(machine.score_samples(X))}
    else:
        out = {"first eigenvalue": machine.eigenvalues_[0]}
    if hasattr(machine, "certificate_"):
        found = machine.certificate_
        out |= {"primal": found.primal, "dual": found.dual}
    if state.offer.dual:
        size = np.abs(machine.dual_coef_).sum()
        out |= {"support vectors": len(machine.support_), "sum of alpha": size}
    return {name: float(value) for name, value in out.items()}


def code_of_structures(given: Structures, job: Job) -> Answer:
    """The code of a machine on strings, trees or graphs."""
    kernel = given.kernel.resolve(given.items)
    K = np.asarray(kernel(given.items), dtype=float)
    name = given.offer.name
    numbers = {"sum of the Gram matrix": float(K.sum())}
    extra = {"trees": ", Tree", "graphs": ", Graph"}.get(given.kind, "")
    judged = len(set(given.y)) > 1
    lines = [
        "import numpy as np",
        "",
        f"from mercer import {f'{name}, ' if judged else ''}parse{extra}",
        "",
        "items = [",
        *(f"    {_literal(item)}," for item in given.items),
        "]",
        f"kernel = parse({repr(given.kernel)!r}).resolve(items)",
        "K = kernel(items)",
        "numbers = {'sum of the Gram matrix': float(np.sum(K))}",
    ]
    if judged:
        settings = {**given.offer.fixed, **given.params}
        lines += [
            f"known, y = {given.known!r}, {given.y!r}",
            _call(name, settings),
            "machine.fit([items[i] for i in known], y)",
            "predicted = machine.predict(items)",
            "for i, label in enumerate(predicted):",
            "    numbers[f'class of item {i}'] = float(label)",
        ]
        machine = fitted_machine(given, kernel, job)
        for i, label in enumerate(machine.predict(given.items)):
            numbers[f"class of item {i}"] = float(label)
    lines.append("print(numbers)")
    return Answer({"code": joined(lines), "numbers": numbers}, {})


def _literal(item: Any) -> str:
    if isinstance(item, str):
        return repr(item)
    if isinstance(item, Graph):
        edges = [tuple(int(end) for end in pair) for pair in item.ends]
        labels = dict(enumerate(item.colours))
        return f"Graph({edges!r}, labels={labels!r}, nodes=range({len(item.nodes)}))"
    return f"Tree({str(item)!r})"
