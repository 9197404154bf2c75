"""Labels of the points of a fold, by what its solve left: the sign of f = Kβ + bias.

A solve that reads rows of all points knows f at those that it was not given too, to
what single precision leaves open. Where that is the sign, f is summed in double.
"""

from __future__ import annotations

import copy
from functools import wraps
from typing import Any

import numpy as np

from mercer.data.points import Points, take
from mercer.machines.svm.classifier import Classifier
from mercer.solvers.held_rows import Offer

SAMPLE = 32  # points with the smallest |f|: what is found there bounds the error
SAFETY = 8  # of the largest error that was found, or that roundings typically give
UNIT = 2.0**-24  # half the distance of 1 from the next number in single precision


def answering(machine: Any, offer: Offer | None, test: np.ndarray, X: Points) -> Any:
    """The machine, or a copy that knows the labels of X.

    Parameters
    ----------
    offer : the rows that the last fit of the machine may have read
    test : the numbers of the points X in these
    """
    labels = None if offer is None else _labels(machine, offer, test, X)
    if labels is None:
        return machine
    copied = copy.copy(machine)
    predict = machine.predict

    @wraps(predict)  # scikit-learn tells methods by their names
    def answer(points: Points) -> Any:
        return labels.copy() if points is X else predict(points)

    copied.predict = answer
    return copied


def leaves_open(machine: Any, offer: Offer | None, test: np.ndarray) -> bool:
    """Whether |f| ≤ tol at a point of the test, or f is not known there.

    The label of such a point may hang on where the fit started.
    """
    left = None if offer is None else offer.left
    if left is None or not hasattr(machine, "support_") or len(test) == 0:
        return True
    f = left.function[test] + machine.expansion_.bias
    return bool(np.abs(f).min() <= machine._tolerance)


def _labels(
    machine: Any, offer: Offer, test: np.ndarray, X: Points
) -> np.ndarray | None:
    """The labels of X; None where the offer does not know f."""
    left = offer.left
    if left is None or not isinstance(machine, Classifier) or len(X) == 0:
        return None
    if len(machine.classes_) != 2 or len(left.coef) != machine.shape_fit_[0]:
        return None
    f = machine.expansion_
    rest = left.coef.copy()
    rest[machine._places] -= f.coef
    largest = float(np.max(np.abs(f.kernel.diag(X))))
    typical = UNIT * largest * float(np.linalg.norm(left.coef))
    # What was moved after the solve, by rounding or to another scale.
    off = largest * float(np.abs(rest).sum())
    if off > typical:
        return None
    values = left.function[test] + f.bias
    order = np.argsort(np.abs(values), kind="stable")
    known, error = 0, typical
    # The sign is sure from there on where |f| is larger than what it may be off by.
    while known < len(order):
        near = np.abs(values[order[known:]]) <= SAFETY * error + off
        unsure = max(int(near.sum()), SAMPLE if known == 0 else 0)
        some = order[known : known + unsure]
        if len(some) == 0:
            break
        exact = machine._values(take(X, some))
        error = max(error, float(np.max(np.abs(exact - values[some]))))
        values[some] = exact
        known += len(some)
    return machine.classes_.take(machine._winners(values))
