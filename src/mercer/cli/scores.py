"""How well a machine does: on points with targets, and by cross-validation."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import KFold, StratifiedKFold

from mercer.data.points import Points, count, take
from mercer.native.sorting import distinct


@dataclass(frozen=True, eq=False)
class Scores:
    """What a machine said of points, against what is true.

    Attributes
    ----------
    numbers : the scores by name; the first is what people ask for
    classes, confusion : of a classifier: rows are true classes, columns predicted ones
    predicted, true : for pictures
    folds : the first score of each fold, of a cross-validation
    """

    numbers: dict[str, float]
    true: np.ndarray
    predicted: np.ndarray
    classes: np.ndarray | None = None
    confusion: np.ndarray | None = None
    folds: list[float] = field(default_factory=list)

    def text(self) -> str:
        """The scores in a line."""
        shown = [f"{name} {value:.4f}" for name, value in self.numbers.items()]
        if self.folds:
            spread = np.std(self.folds)
            shown[0] += f" ± {spread:.4f} over {len(self.folds)} folds"
        return ", ".join(shown)

    def as_object(self) -> dict[str, Any]:
        """The scores for programs."""
        found: dict[str, Any] = dict(self.numbers)
        if self.folds:
            found["folds"] = self.folds
        if self.confusion is not None:
            found["classes"], found["confusion"] = self.classes, self.confusion
        return found


def judged(machine: Any, true: np.ndarray, predicted: np.ndarray) -> Scores:
    """The scores of predictions."""
    if is_regressor(machine):
        return Scores(_of_numbers(true, predicted), true, predicted)
    classes = distinct(np.concatenate([distinct(true), distinct(predicted)]))
    counts = confusion_matrix(true, predicted, labels=classes)
    return Scores(_of_classes(counts), true, predicted, classes, counts)


def _of_numbers(true: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    error = np.asarray(true, dtype=float) - predicted
    spread = float(np.sum((true - np.mean(true)) ** 2))
    r2 = 1 - float(np.sum(error**2)) / spread if spread > 0 else float("nan")
    return {
        "R2": r2,
        "root mean squared error": float(np.sqrt(np.mean(error**2))),
        "mean absolute error": float(np.mean(np.abs(error))),
    }


def _of_classes(counts: np.ndarray) -> dict[str, float]:
    n = counts.sum(axis=1)
    shares = counts.diagonal()[n > 0] / n[n > 0]
    return {
        "accuracy": float(counts.trace() / counts.sum()),
        "balanced accuracy": float(np.mean(shares)),
    }


def is_judged(machine: Any) -> bool:
    """Whether there are scores for such a machine."""
    return bool(is_classifier(machine) or is_regressor(machine))


def cross_validated(machine: Any, X: Points, y: np.ndarray, folds: int) -> Scores:
    """The scores of predictions for each point by a machine that did not see it."""
    if not is_judged(machine):
        raise ValueError(f"--cv judges predictions; {type(machine).__name__} has none.")
    n = count(X)
    splits: Any = KFold(folds, shuffle=True, random_state=0)
    if is_classifier(machine):
        least = int(np.unique(y, return_counts=True)[1].min())
        if folds > least:
            raise ValueError(
                f"--cv {folds} needs {folds} points of each class; one has {least}."
            )
        splits = StratifiedKFold(folds, shuffle=True, random_state=0)
    elif folds > n:
        raise ValueError(f"--cv {folds} needs {folds} points; there are {n}.")
    predicted = np.empty(
        n, dtype=np.asarray(y).dtype if is_classifier(machine) else float
    )
    scores = []
    for train, test in splits.split(np.zeros((n, 1)), y):
        one = clone(machine)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            one.fit(take(X, train), y[train])
        predicted[test] = one.predict(take(X, test))
        part = judged(machine, y[test], predicted[test])
        scores.append(next(iter(part.numbers.values())))
    whole = judged(machine, np.asarray(y), predicted)
    return Scores(
        whole.numbers, whole.true, predicted, whole.classes, whole.confusion, scores
    )
