"""Probabilities of classes from the values of f.

Of two classes p = 1 / (1 + exp(A f + B|f|)): Platt's sigmoid ("Probabilistic outputs
for support vector machines", 1999) held to p = ½ at f = 0, with a slope of its own on
either side. Several classes by coupling their pairs, Wu, Lin and Weng, JMLR 5 (2004),
second method.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

LEAST_SLOPE = 1e-6  # p grows with f, if only by this
STEEPEST = 1e6
CLEAR = 1e-7  # p of a pair stays between this and 1 minus this


def sigmoid(
    values: np.ndarray, sign: np.ndarray, weight: np.ndarray | None = None
) -> tuple[float, float]:
    """(A, B) of 1 / (1 + exp(A f + B|f|)), by maximum likelihood on values of f.

    Parameters
    ----------
    values : (n,) array, f at points it was not fitted on
    sign : (n,) array of ±1, the true classes
    weight : how often each point counts; None for once
    """
    weight = np.ones(len(values)) if weight is None else weight
    above, below = (
        _slope(np.abs(values[side]), sign[side] * np.sign(values[side]), weight[side])
        for side in (values > 0, values < 0)
    )
    return -(above + below) / 2, (below - above) / 2


def _slope(size: np.ndarray, right: np.ndarray, weight: np.ndarray) -> float:
    """a > 0 that maximises Σ w log expit(±a|f|), + where the sign of f is right.

    The targets are Platt's, as if each side had seen one point more of either kind, so
    that a finite a is best. The derivative falls in a: bisection on its logarithm.
    """
    hits, misses = weight[right > 0].sum(), weight[right < 0].sum()
    if not len(size) or not size.any():
        return 1.0
    target = np.where(right > 0, (hits + 1) / (hits + 2), 1 / (misses + 2))
    low, high = np.log(LEAST_SLOPE), np.log(STEEPEST)
    for _ in range(60):
        middle = (low + high) / 2
        rising = weight @ (size * (target - expit(np.exp(middle) * size))) > 0
        low, high = (middle, high) if rising else (low, middle)
    return float(np.exp((low + high) / 2))


def platt(values: np.ndarray, sign: np.ndarray) -> tuple[float, float]:
    """(A, B) of 1 / (1 + exp(A f + B)), by maximum likelihood on values of f.

    Platt's sigmoid as it is, for LIBSVM's model files: p need not be ½ where f = 0. The
    likelihood is concave; Newton's method with halved steps, as Lin, Lin and Weng,
    "A note on Platt's probabilistic outputs", Machine Learning 68 (2007).

    Parameters
    ----------
    values : (n,) array, f at points it was not fitted on
    sign : (n,) array of ±1, the true classes
    """
    above, below = np.sum(sign > 0), np.sum(sign < 0)
    target = np.where(sign > 0, (above + 1) / (above + 2), 1 / (below + 2))
    rows = np.vstack([values, np.ones(len(values))])

    def loss(at: np.ndarray) -> float:
        t = at @ rows
        return float(np.sum(target * t + np.logaddexp(0, -t)))

    at = np.array([0.0, np.log((below + 1.0) / (above + 1.0))])
    now = loss(at)
    for _ in range(100):
        p = expit(-(at @ rows))
        slope = rows @ (target - p)
        # A ridge as small as rounding, where all values are equal.
        curvature = (rows * (p * (1 - p))) @ rows.T + 1e-12 * np.eye(2)
        step = -np.linalg.solve(curvature, slope)
        if not -slope @ step > 1e-14 * max(1.0, abs(now)):
            break
        while (then := loss(at + step)) > now + 1e-4 * float(slope @ step):
            step /= 2
            if not np.abs(step).max() > 1e-12 * max(1.0, np.abs(at).max()):
                return float(at[0]), float(at[1])
        at, now = at + step, then
    return float(at[0]), float(at[1])


def sigmoids(
    values: np.ndarray, sign: np.ndarray, weight: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """`sigmoid` of many problems at once, (2, number of problems).

    Parameters
    ----------
    values, sign, weight : those of all problems, one after another
    sizes : how many each problem has
    """
    owner = np.repeat(np.arange(len(sizes)), sizes)
    above, below = (
        _slopes(
            np.abs(values[side]),
            sign[side] * np.sign(values[side]),
            weight[side],
            owner[side],
            len(sizes),
        )
        for side in (values > 0, values < 0)
    )
    return np.array([-(above + below) / 2, (below - above) / 2])


def _slopes(
    size: np.ndarray,
    right: np.ndarray,
    weight: np.ndarray,
    owner: np.ndarray,
    n_problems: int,
) -> np.ndarray:
    """`_slope` of each of many problems; the numbers of problem j have owner j."""

    def sums(numbers: np.ndarray) -> np.ndarray:
        return np.bincount(owner, numbers, minlength=n_problems)

    hits, misses = sums(weight * (right > 0)), sums(weight * (right < 0))
    target = np.where(
        right > 0, ((hits + 1) / (hits + 2))[owner], (1 / (misses + 2))[owner]
    )
    low = np.full(n_problems, np.log(LEAST_SLOPE))
    high = np.full(n_problems, np.log(STEEPEST))
    for _ in range(60):
        middle = (low + high) / 2
        slope = np.exp(middle)[owner]
        rising = sums(weight * size * (target - expit(slope * size))) > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    empty = sums(np.ones(len(size))) == 0
    return np.where(empty, 1.0, np.exp((low + high) / 2))


def probability(
    values: np.ndarray, A: float | np.ndarray, B: float | np.ndarray
) -> np.ndarray:
    """1 / (1 + exp(A f + B|f|)), of the class for which f is positive."""
    return expit(-(A * values + B * np.abs(values)))


def coupled(pairs: np.ndarray, n_classes: int) -> np.ndarray:
    """p of each class that agrees best with its pairs, (m, n_classes).

    min Σᵢ Σⱼ (rⱼᵢ pᵢ - rᵢⱼ pⱼ)², Σ p = 1, by its optimality conditions.

    Parameters
    ----------
    pairs : (m, n_classes (n_classes - 1) / 2) array, rᵢⱼ = p(i | i or j), i < j
    """
    m, k = len(pairs), n_classes
    r = np.zeros((m, k, k))
    pairs = np.clip(pairs, CLEAR, 1 - CLEAR)
    first, second = np.triu_indices(k, 1)
    r[:, first, second], r[:, second, first] = pairs, 1 - pairs
    system = np.ones((m, k + 1, k + 1))
    system[:, k, k] = 0
    system[:, :k, :k] = -np.swapaxes(r, 1, 2) * r
    system[:, range(k), range(k)] = np.sum(r**2, axis=1)
    right = np.zeros((m, k + 1, 1))
    right[:, k] = 1
    p = np.clip(np.linalg.solve(system, right)[:, :k, 0], 0, None)
    return p / p.sum(axis=1, keepdims=True)


def agreeing(p: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """p moved as little as need be so that the largest is that of the class predicted.

    Parameters
    ----------
    p : (m, k) array, rows that sum to 1
    predicted : (m,) array of classes 0 to k - 1
    """
    p = p.copy()
    for row in np.flatnonzero(np.argmax(p, axis=1) != predicted):
        p[row] = _raised(p[row], predicted[row])
    return p


def _raised(p: np.ndarray, winner: int) -> np.ndarray:
    """The nearest distribution in which `winner` is first, level with the largest."""
    order = np.argsort(-p)
    order = order[order != winner]
    level, total, count = p[winner], p[winner], 1
    for other in order:
        if p[other] <= level:
            break
        total, count = total + p[other], count + 1
        level = total / count
    raised = np.minimum(p, level)
    # A little above the others: equal numbers would leave the order to the reader.
    raised[winner] = level * (1 + 4 * np.finfo(float).eps)
    return raised
