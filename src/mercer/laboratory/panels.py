"""Figures of the course that are several pictures side by side.

Each is told as panels: what is drawn in a frame of its own, by the names of the arrays
that hold it. `numbers` of a head are those that the copied code gives too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from mercer.kernels.vector import Linear, Polynomial
from mercer.laboratory.fits import class_values, fitted, line_of, two_classes
from mercer.laboratory.frames import Answer
from mercer.laboratory.jobs import Job
from mercer.laboratory.refusals import Refusal
from mercer.laboratory.state import State, around
from mercer.machines.pca import KernelPCA
from mercer.machines.perceptron import KernelPerceptron
from mercer.machines.ridge import KernelRidge
from mercer.machines.svm import SVC

HARD = 1e6  # C of a machine that has to separate
PASSES = 1000  # of a perceptron
SIDE = 64  # columns and rows of a panel
MOST_PANELS = 8
MOST_POINTS = 500
GOLDEN = np.pi * (3 - np.sqrt(5))  # the angle by which points on a disc lie apart
DEGREES = range(1, 8)
LEARNT = 900  # digits; the others are read
SHOWN = 15  # misread digits


def panel(
    title: str, view: tuple[Sequence[float], Sequence[float]], **drawn: Any
) -> dict[str, Any]:
    """One panel.

    Parameters
    ----------
    view : ends of both axes
    drawn : `labels` of the axes (without them, quiet numbers), and arrays by their
        names: `field` on a grid, `points`, `hollow` ones, `segments` with both ends;
        `contours`, whether the field has lines of equal height, `levels` those that are
        drawn alone; `lines`, each with `at` (a, b, c) of ax + by + c = 0; `arrows` with
        both ends; `texts` at places
    """
    x, y = view
    return {"title": title, "view": {"x": list(x), "y": list(y)}, **drawn}


def _few(state: State) -> None:
    if len(state.points) > MOST_POINTS:
        raise Refusal(
            f"This figure takes at most {MOST_POINTS} points; there are "
            f"{len(state.points)}. Remove some.",
            code="points",
            field="/state/points",
        )


def _separating(X: np.ndarray, sides: np.ndarray, job: Job) -> tuple[SVC, list[float]]:
    """The widest margin, and (w, b) of its line."""
    machine = job.of(SVC(kernel="linear", C=HARD, callback=job.watch))
    machine.fit(X, sides)
    return machine, [*np.ravel(machine.coef_), *np.ravel(machine.intercept_)]


# E1


def exclusive(state: State, job: Job) -> Answer:
    """Points in the plane with f, and in the coordinates 2 and 6 of (1 + ⟨x, y⟩)²."""
    sides = two_classes(state, "This map")
    _few(state)
    machine = fitted(state, job)
    field = class_values(machine, state.cells()).reshape(state.grid[::-1])
    # The library lists √2 x₁x₂ before x₂².
    mapped = np.asarray(Polynomial(2).features(state.points))[:, [1, 4]]
    flat, line = _separating(mapped, sides, job)
    perceptron = KernelPerceptron(
        kernel=state.kernel, max_iter=PASSES, shuffle=False
    ).fit(state.points, sides)
    numbers = {
        "mistakes of a perceptron": float(perceptron.n_mistakes_),
        "error in coordinates 2 and 6": float(1 - flat.score(mapped, sides)),
    }
    if state.offer.dual:
        alpha = np.abs(np.ravel(machine.dual_coef_))
        numbers["least α"] = float(alpha.min())
        numbers["greatest α"] = float(alpha.max())
    levels = [-1, 0, 1] if state.offer.dual else [0]
    panels = [
        panel(
            "In the plane", state.view, labels=["x₁", "x₂"], field="field",
            levels=levels, points="points",
        ),
        panel(
            "In coordinates 2 and 6", around(mapped), labels=["√2 x₁", "√2 x₁x₂"],
            points="mapped", lines=[{"at": line, "margin": 1.0}],
        ),
    ]  # fmt: skip
    arrays = {"field": field, "points": state.points, "mapped": mapped}
    return Answer({"panels": panels, "numbers": numbers}, arrays)


# E2


def signs_of(X: np.ndarray) -> np.ndarray:
    """Whether points are inside the disc and the ellipse, as ±1."""
    x, y = np.asarray(X, dtype=float).T
    curves = np.column_stack([1 - x**2 - y**2, 2 - x**2 - y**2 / 2])
    return np.where(curves >= 0, 1.0, -1.0)


def signs(state: State, job: Job) -> Answer:
    """The disc and the ellipse, and the corners at which their signs can be."""
    _few(state)
    sides = two_classes(state, "This map")
    x, y = state.cells().T
    corners = signs_of(state.points)
    _, line = _separating(corners, sides, job)
    rule = np.where(corners.sum(axis=1) >= 2, 1.0, -1.0)
    places = {
        f"points at ({a:+d}, {b:+d})": float(np.sum((corners == [a, b]).all(axis=1)))
        for a in (1, -1)
        for b in (1, -1)
    }
    wrong = float(np.mean(rule != sides))
    numbers = {"error of the rule": wrong, **places}
    ends = (-1.7, 1.7)
    lines = [
        {"at": [1.0, 1.0, -2.0], "name": "y₁ + y₂ = 2", "dash": True},
        {"at": line, "name": "widest margin"},
    ]
    panels = [
        panel(
            "Inside the disc, inside the ellipse", state.view, labels=["x₁", "x₂"],
            points="points", curves=["disc", "ellipse"],
        ),
        panel(
            "Their signs, points of one corner spread", (ends, ends),
            labels=["y₁", "y₂"], points="corners", lines=lines,
        ),
    ]  # fmt: skip
    shape = state.grid[::-1]
    arrays = {
        "points": state.points,
        "corners": _spread(corners),
        "disc": (1 - x**2 - y**2).reshape(shape),
        "ellipse": (2 - x**2 - y**2 / 2).reshape(shape),
    }
    return Answer({"panels": panels, "numbers": numbers}, arrays)


def _spread(places: np.ndarray) -> np.ndarray:
    """Points of one place on a disc around it, so that each is seen."""
    out = np.array(places, dtype=float)
    for one in sorted(set(map(tuple, places.tolist()))):
        same = np.flatnonzero((places == np.array(one)).all(axis=1))
        radius = 0.32 * np.sqrt(np.arange(len(same)) / max(1, len(same)))
        angle = GOLDEN * np.arange(len(same))
        out[same] += radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return out


# E16


def lines(state: State, job: Job) -> Answer:
    """Three lines between two classes, and the geometry of the widest margin."""
    sides = two_classes(state, "A line between classes")
    _few(state)
    X = state.points
    perceptron = KernelPerceptron(
        kernel=Linear(), fit_intercept=True, max_iter=PASSES, shuffle=False
    )
    squares = KernelRidge(kernel=Polynomial(1), alpha=1e-6)
    _, widest = _separating(X, sides, job)
    found = {
        "H₁ (perceptron)": line_of(perceptron.fit(X, sides).decision_function),
        "H₂ (least squares)": line_of(squares.fit(X, sides).predict),
        "H₃ (support vectors)": np.array(widest),
    }
    numbers = {}
    for name, at in found.items():
        nearest = np.min(sides * (X @ at[:2] + at[2]))
        distance = float(nearest / np.linalg.norm(at[:2]))
        numbers[f"margin of {name}"] = distance
    w, b = np.array(widest[:2]), widest[2]
    length = float(np.linalg.norm(w))
    numbers["b/‖w‖ of H₃"] = b / length
    distances = (X @ w + b) / length
    near = np.flatnonzero(np.abs(distances) <= 1.001 / length)
    feet = X[near] - distances[near, None] * w / length
    foot = -b * w / length**2
    tip = foot + w / length * min(1.0, 2 / length)
    drawn = [
        {"at": list(at), "name": name[:2], "dash": name[:2] != "H₃"}
        for name, at in found.items()
    ]
    drawn[-1]["margin"] = 1.0
    view = around(np.vstack([X, [0.0, 0.0], foot]))
    panels = [
        panel(
            "", view, labels=["x₁", "x₂"], points="points", lines=drawn,
            segments="segments",
            arrows=[{"at": [*foot, *tip], "name": "w"}],
            spans=[{"at": [0.0, 0.0, *foot], "name": "|b|/‖w‖"}],
        )
    ]  # fmt: skip
    arrays = {"points": X, "segments": np.hstack([X[near], feet])}
    return Answer({"panels": panels, "numbers": numbers}, arrays)


# E9, E18


def components(state: State, job: Job) -> Answer:
    """The first components of kernel PCA, a panel for each."""
    _components_only(state)
    machine = fitted(state, job)
    values = np.asarray(machine.eigenvalues_, dtype=float)[:MOST_PANELS]
    small = state.with_grid(SIDE)
    grids = np.asarray(machine.transform(small.cells())).T[: len(values)]
    panels = [
        panel(
            f"{j}: eigenvalue {value:.4g}", state.view, field=f"component {j}",
            contours=True, points="points", plain=True,
        )
        for j, value in enumerate(values, 1)
    ]  # fmt: skip
    arrays = {"points": state.points}
    for j, grid in enumerate(grids, 1):
        arrays[f"component {j}"] = grid.reshape(small.grid[::-1])
    numbers = {f"eigenvalue {j}": float(v) for j, v in enumerate(values, 1)}
    return Answer({"panels": panels, "numbers": numbers}, arrays)


def projections(state: State, job: Job) -> Answer:
    """The first component of PCA beside that of kernel PCA, and what it gives back."""
    _components_only(state)
    _few(state)
    panels, numbers = [], {}
    arrays = {"points": state.points}
    small = state.with_grid(SIDE)
    for name, kernel in (("PCA", Linear()), ("Kernel PCA", state.kernel)):
        machine = KernelPCA(1, kernel=kernel).fit(state.points)
        job.check()
        scores = np.asarray(machine.transform(state.points), dtype=float)
        back = np.asarray(machine.preimage(scores, restarts=1), dtype=float)
        job.check()
        grid = np.asarray(machine.transform(small.cells())).reshape(small.grid[::-1])
        arrays |= {f"{name} field": grid, f"{name} back": back}
        arrays[f"{name} segments"] = np.hstack([state.points, back])
        numbers[f"eigenvalue of {name}"] = float(machine.eigenvalues_[0])
        panels.append(
            panel(
                f"{name}, {kernel!r}", state.view, labels=["x₁", "x₂"],
                field=f"{name} field", contours=True, points="points", plain=True,
                hollow=f"{name} back", segments=f"{name} segments",
            )
        )  # fmt: skip
    return Answer({"panels": panels, "numbers": numbers}, arrays)


def _components_only(state: State) -> None:
    if state.task != "pca":
        raise Refusal(
            "This figure is of principal components; choose that task.",
            code="task",
            field="/state/task",
        )


# E10


def digits(job: Job) -> Answer:
    """Misread digits of 8 × 8 pixels by (xᵀz)^d for each degree, and by a Gaussian."""
    job.report({"stage": "fitting"})
    return _digits()


@cache
def _digits() -> Answer:
    """The same whoever asks, and within a second the first time."""
    learnt, y, unseen, truth = digits_split()
    errors, numbers = [], {}
    for degree in DEGREES:
        machine = SVC(kernel=Linear() ** degree, C=HARD).fit(learnt, y)
        errors.append(100 * float(np.mean(machine.predict(unseen) != truth)))
        numbers[f"misread, degree {degree}, %"] = errors[-1]
    machine = SVC(kernel="rbf", gamma=0.05, C=10.0).fit(learnt, y)
    read = machine.predict(unseen)
    wrong = np.flatnonzero(read != truth)[:SHOWN]
    numbers["misread, Gaussian, %"] = 100 * float(np.mean(read != truth))
    head = {
        "numbers": numbers,
        "misread": [[int(truth[i]), int(read[i])] for i in wrong],
        "published": [4.0, 4.4],
        "counts": [len(y), len(truth)],
    }
    arrays = {
        "degree": np.array(DEGREES),
        "error": np.array(errors),
        "images": unseen[wrong].reshape(-1, 8, 8),
    }
    return Answer(head, arrays)


def digits_split() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Digits to learn from and digits to read, in the order in which they come."""
    images, labels = load_digits(return_X_y=True)
    images, labels = np.asarray(images) / 16, np.asarray(labels)
    return images[:LEARNT], labels[:LEARNT], images[LEARNT:], labels[LEARNT:]
