"""What the page builds its menus from: tasks, machines, kernels, data sets, limits."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from mercer.laboratory.datasets import DATASETS
from mercer.laboratory.fields import MOST_BYTES
from mercer.laboratory.jobs import SECONDS
from mercer.laboratory.offers import MOST_POINTS, OFFERS, TASKS, offers_for
from mercer.laboratory.state import MOST_CELLS, MOST_CLASSES
from mercer.laboratory.structures import CATALOG

# What a task begins with.
KERNELS_OF = {
    "classify": "RBF(1)",
    "regress": "RBF(0.5)",
    "one-class": "RBF(1)",
    "cluster": "RBF(2)",
    "density": "RBF()",
    "pca": "RBF(2)",
}
KERNELS = (
    ("Linear()", "Linear"),
    ("Polynomial(2)", "Polynomial"),
    ("RBF(1)", "Gaussian"),
    ("Laplacian(1)", "Laplacian"),
    ("Matern(1.5, 1)", "Matérn"),
    ("RationalQuadratic(1, 1)", "Rational quadratic"),
    ("Exponential(1)", "Exponential"),
    ("Anova(2, RBF(1))", "ANOVA"),
    ("Constant(1)", "Constant"),
    ("Spline()", "Spline (points ≥ 0)"),
    ("Intersection()", "Intersection (points ≥ 0)"),
    ("Sigmoid(1, 0)", "Sigmoid (no kernel)"),
    ("Normalized(Polynomial(2))", "Normalised"),
    ("Exp(Linear())", "Exponential of a kernel"),
    ("2*RBF(0.5) + Linear()**2", "A sum and a power"),
    ("RBF(1) * Polynomial(2)", "A product"),
    ("Nystrom(RBF(1), 10)", "Ten landmarks"),
    ("RandomFourier(RBF(1), 50)", "Fifty random waves"),
)


def catalog() -> dict[str, Any]:
    """All of it."""
    tasks = []
    for name, title in TASKS.items():
        machines = offers_for(name)
        default = {
            "task": name,
            "machine": {"name": machines[0], "params": {}},
            "kernel": KERNELS_OF[name],
        }
        one = {"name": name, "title": title, "machines": machines, "default": default}
        tasks.append(one)
    return {
        "version": version("mercer"),
        "tasks": tasks,
        "machines": {name: offer.content() for name, offer in OFFERS.items()},
        "kernels": [
            {"formula": formula, "title": title, "data": "vectors"}
            for formula, title in KERNELS
        ],
        "datasets": [
            {"name": name, "title": one.title, "task": one.task, "n": one.n}
            for name, one in DATASETS.items()
        ],
        "structures": {kind: make() for kind, make in CATALOG.items()},
        "limits": {
            "points": MOST_POINTS,
            "body": MOST_BYTES,
            "seconds": SECONDS,
            "grid": MOST_CELLS,
            "classes": MOST_CLASSES,
        },
    }
