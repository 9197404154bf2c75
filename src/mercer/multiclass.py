"""Several classes by two-class problems: one against one, one against the rest.

Each problem is a column of one expansion. With two classes there is one problem, and
f > 0 means the second class; with more, column (i, j), i < j, of one-against-one is
positive for class i, and column i of one-against-the-rest is positive for class i.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import isqrt

import numpy as np


@dataclass(frozen=True, eq=False)
class Part:
    """A two-class problem: some of the points, and the side ±1 of each."""

    index: np.ndarray
    sign: np.ndarray


def parts(label: np.ndarray, n_classes: int, scheme: str = "ovo") -> list[Part]:
    """The two-class problems that make up one of several classes.

    Parameters
    ----------
    label : (n,) array of classes 0 to n_classes - 1
    scheme : "ovo", every class against every other; "ovr", each against the rest
    """
    everything = np.arange(len(label))
    if n_classes == 2:
        return [Part(everything, np.where(label == 1, 1.0, -1.0))]
    if scheme == "ovr":
        return [
            Part(everything, np.where(label == k, 1.0, -1.0)) for k in range(n_classes)
        ]
    members = [np.flatnonzero(label == k) for k in range(n_classes)]
    return [
        Part(
            np.concatenate([members[i], members[j]]),
            np.repeat([1.0, -1.0], [len(members[i]), len(members[j])]),
        )
        for i, j in combinations(range(n_classes), 2)
    ]


def n_classes(n_duels: int) -> int:
    """k of k(k - 1)/2 duels."""
    return (1 + isqrt(1 + 8 * n_duels)) // 2


def names(classes, scheme: str = "ovo") -> list[str]:
    """What to call the problems of `parts`; a single one needs no name."""
    if len(classes) == 2:
        return [""]
    if scheme == "ovr":
        return [f"{name} against the rest" for name in classes]
    return [f"{first} against {second}" for first, second in combinations(classes, 2)]


def votes(values: np.ndarray, n_classes: int) -> np.ndarray:
    """How many of its duels each class wins, (m, n_classes); f = 0 is for the second.

    Parameters
    ----------
    values : (m, n_classes (n_classes - 1) / 2) array, a column for each duel
    """
    won = np.zeros((len(values), n_classes))
    for column, (i, j) in zip(values.T, combinations(range(n_classes), 2), strict=True):
        won[:, i] += column > 0
        won[:, j] += column <= 0
    return won


def scores(values: np.ndarray, n_classes: int) -> np.ndarray:
    """A number for each class, (m, n_classes): duels won, then how clearly.

    The sums of the values, brought into (-1/3, 1/3), decide between classes that won
    equally many duels, and never against one that won more.
    """
    won, confidence = np.zeros((2, len(values), n_classes))
    for column, (i, j) in zip(values.T, combinations(range(n_classes), 2), strict=True):
        won[:, i] += column >= 0
        won[:, j] += column < 0
        confidence[:, i] += column
        confidence[:, j] -= column
    return won + confidence / (3 * (np.abs(confidence) + 1))


def by_rival(coef: np.ndarray, label: np.ndarray, n_classes: int) -> np.ndarray:
    """The coefficients of one-against-one in LIBSVM's layout, (n_classes - 1, n).

    A point of class i takes part in n_classes - 1 duels; row r holds its coefficient
    in the duel with the r-th of the other classes.

    Parameters
    ----------
    coef : (n, n_classes (n_classes - 1) / 2) array, a column for each duel
    label : (n,) array, the classes of the points
    """
    rows = np.zeros((n_classes - 1, len(coef)))
    for column, (i, j) in zip(coef.T, combinations(range(n_classes), 2), strict=True):
        rows[j - 1, label == i] = column[label == i]
        rows[i, label == j] = column[label == j]
    return rows
