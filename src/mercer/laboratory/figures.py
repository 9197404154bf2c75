"""Curves and surfaces of the course that are no fit on the plane."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer.laboratory.fits import fitted
from mercer.laboratory.frames import Answer
from mercer.laboratory.jobs import Job
from mercer.laboratory.panels import (
    HARD,
    components,
    digits,
    exclusive,
    lines,
    projections,
    signs,
)
from mercer.laboratory.refusals import Refusal
from mercer.laboratory.state import State
from mercer.losses import EpsilonInsensitive, Hinge, Logistic, Squared, SquaredHinge
from mercer.machines.svm import SVC
from mercer.native.sorting import distinct

SIDE = 65
TOTAL = 4.0  # of x + y, in the problem of the saddle
MOST_TERMS = 200


def losses(job: Job) -> Answer:
    """The losses of a point of class +1 as functions of f, and those of a number."""
    f = np.linspace(-3, 3, 301)
    side = np.ones(len(f))
    curves = {
        "0-1": (f <= 0).astype(float),
        "hinge": Hinge().value(side, f),
        "squared hinge": SquaredHinge().value(side, f),
        "logistic": Logistic().value(side, f),
        "squared": Squared().value(np.zeros(len(f)), f),
        "ε-insensitive": EpsilonInsensitive(0.5).value(np.zeros(len(f)), f),
    }
    about = {
        "0-1": "a mistake or not: y f ≤ 0",
        "hinge": "max(0, 1 - y f)",
        "squared hinge": "max(0, 1 - y f)²",
        "logistic": "ln(1 + e^(-y f))",
        "squared": "(y - f)², over the residual y - f",
        "ε-insensitive": "max(0, |y - f| - ε), ε = 0.5, over the residual",
    }
    numbers = {
        "hinge at y f = -1": float(Hinge().value(side[:1], -side[:1])[0]),
        "logistic at y f = 0": float(Logistic().value(side[:1], 0 * side[:1])[0]),
        "ε-insensitive at y - f = 2": float(
            EpsilonInsensitive(0.5).value(2 * side[:1], 0 * side[:1])[0]
        ),
    }
    head = {"curves": list(curves), "about": about, "numbers": numbers}
    return Answer(head, {"x": f, **curves})


def bumps(state: State, job: Job) -> Answer:
    """coefᵢ k(xᵢ, ·) of every point of a regression, and their sum with the bias."""
    if state.task != "regress" or len(state.points) > MOST_TERMS:
        raise Refusal(
            f"The terms of f are drawn for regression on at most {MOST_TERMS} points.",
            code="task",
            field="/state/task",
        )
    machine = fitted(state, job)
    f = getattr(machine, "expansion_", None)
    if f is None or np.ndim(f.coef) != 1:
        raise Refusal(
            f"{state.offer.name} is no sum of kernel functions at points; choose "
            "another machine.",
            code="machine",
            field="/state/machine/name",
        )
    across = state.cells()
    rows = np.asarray(f.kernel(f.points, across), dtype=float)
    terms = np.asarray(f.coef)[:, None] * rows
    bias = float(np.ravel(f.bias)[0])
    numbers = {
        "points with a part": float(len(f.coef)),
        "sum of |coef|": float(np.abs(f.coef).sum()),
        "R²": float(machine.score(state.X, state.y)),
    }
    head = {"kernel": repr(f.kernel), "bias": bias, "numbers": numbers}
    centres = np.asarray(f.points, dtype=float)[:, 0]
    arrays = {
        "x": across[:, 0], "terms": terms, "sum": terms.sum(axis=0) + bias,
        "centres": centres, "coef": np.asarray(f.coef),
    }  # fmt: skip
    return Answer(head, arrays)


def saddle(job: Job) -> Answer:
    """L(x, λ) = x² + λ(4 - 2x): the Lagrangian of max xy, x + y = 4, along y = x."""
    x, multiplier = np.linspace(-1, 5, SIDE), np.linspace(-1, 5, SIDE)
    across, up = np.meshgrid(x, multiplier)
    # On y = x, L is least in x at x = λ, and 4λ - λ² there, which is greatest at λ = 2.
    surface = across**2 + up * (TOTAL - 2 * across)
    best = TOTAL / 2
    head = {
        "frame": [[x[0], x[-1]], [multiplier[0], multiplier[-1]]],
        "saddle": [best, best],
        "value": best**2,
        "about": "L(x, λ) = xy + λ(4 - x - y) on y = x; the saddle is at x = λ = 2",
        "dual": "min over x: 4λ - λ², greatest at λ = 2",
        "numbers": {"x": best, "y": best, "λ": best, "xy": best**2},
    }
    return Answer(head, {"surface": surface, "x": x, "multiplier": multiplier})


def lift(state: State, job: Job) -> Answer:
    """Points in z = (x₁², √2 x₁x₂, x₂²), and the plane that separates them there."""
    x, y = state.points.T
    lifted = np.column_stack([x**2, np.sqrt(2) * x * y, y**2])
    arrays = {"scores": lifted}
    numbers = {}
    if state.task == "classify" and len(distinct(state.labels)) == 2:
        machine = job.of(SVC(kernel="linear", C=HARD, callback=job.watch))
        machine.fit(lifted, state.labels)
        plane = np.append(np.ravel(machine.coef_), np.ravel(machine.intercept_))
        arrays["plane"] = plane
        numbers["error of the plane"] = float(1 - machine.score(lifted, state.labels))
        numbers["margin"] = float(1 / np.linalg.norm(plane[:3]))
    names = ["x₁²", "√2 x₁x₂", "x₂²"]
    return Answer({"axes": names, "numbers": numbers}, arrays)


PLAIN: dict[str, Callable[[Job], Answer]] = {
    "losses": losses,
    "saddle": saddle,
    "digits": digits,
}
OF_STATE: dict[str, Callable[[State, Job], Answer]] = {
    "bumps": bumps,
    "lift": lift,
    "exclusive": exclusive,
    "signs": signs,
    "lines": lines,
    "components": components,
    "projections": projections,
}
FIGURES = (*PLAIN, *OF_STATE)
