"""The mode of a Gaussian process with logistic targets, up to its last step.

Newton's method (Rasmussen and Williams, 2006, algorithm 3.1) factors an n × n matrix in
every step, of which all but the last say only where the next one begins. Those are
factored here in single precision, half the work, and their systems are solved by
conjugate gradients in double with these factors as preconditioner.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit

from mercer.native import lapack
from mercer.native.interruptible import multiply

SETTLED = 1e-10  # a change of the logarithm of the probability that ends it
EXACT = 1e-12  # of the right-hand side, that conjugate gradients may leave
ROUNDS = 25  # of conjugate gradients, after which a factor is of no use
STRIP = 512  # columns of a matrix that are written at a time


def near_mode(
    K: np.ndarray, target: np.ndarray, f: np.ndarray, max_iter: int
) -> tuple[np.ndarray, int] | None:
    """Where at most so many steps from f lead, and how many; None where one led down.

    A matrix that single precision cannot factor, or not well, ends the way before.

    Parameters
    ----------
    K : (n, n) array, the covariance of f
    target : n numbers, 0 or 1
    """
    single = np.asfortranarray(K, dtype=np.float32)
    B, before = np.empty_like(single), -math.inf
    for steps in range(max_iter):
        shares = expit(f)
        root = np.sqrt(shares * (1 - shares))
        scale_both_ways(single, root.astype(np.float32), B)
        if not lapack.factor(B):
            return f, steps
        b = root**2 * f + (target - shares)
        inner = _solved(K, root, B, root * multiply(K, b))
        if inner is None:
            return f, steps
        coef = b - root * inner
        reached = multiply(K, coef)
        value = probability(coef, reached, target)
        if not value > before - SETTLED:
            return None
        f = reached
        if value - before < SETTLED:
            return f, steps + 1
        before = value
    return f, max_iter


def probability(coef: np.ndarray, f: np.ndarray, target: np.ndarray) -> float:
    """ln p(target | f) - ½ fᵀK⁻¹f, f = K coef."""
    likelihood = -float(np.logaddexp(0, (1 - 2 * target) * f).sum())
    return likelihood - 0.5 * float(coef @ f)


def scale_both_ways(K: np.ndarray, root: np.ndarray, B: np.ndarray) -> None:
    """Write I + diag(root) K diag(root) to the upper triangle of B."""
    n = len(K)
    for begin in range(0, n, STRIP):
        end = min(begin + STRIP, n)
        part = B[:end, begin:end]
        np.multiply(K[:end, begin:end], root[begin:end], out=part)
        part *= root[:end, None]
    np.fill_diagonal(B, B.diagonal() + 1)


def _solved(
    K: np.ndarray, root: np.ndarray, R: np.ndarray, right: np.ndarray
) -> np.ndarray | None:
    """x of (I + root K root) x = right, with a rough R of its factors RᵀR."""
    x, rest = np.zeros(len(right)), right.copy()
    enough = EXACT * float(np.linalg.norm(right))
    step, before = np.zeros(len(right)), math.inf
    for _ in range(ROUNDS):
        if float(np.linalg.norm(rest)) <= enough:
            return x
        turned = lapack.solve(R, rest.astype(np.float32)[:, None])[:, 0]
        square = float(rest @ turned)
        if not (square > 0 and math.isfinite(square)):
            return None
        step = turned + square / before * step
        image = step + root * multiply(K, root * step)
        length = square / float(step @ image)
        x += length * step
        rest -= length * image
        before = square
    return None
