"""WeightSearch: the weights of several kernels, by Newton's method on the weights.

With J(d) the optimum of a machine on Σₘ dₘ Kₘ, multiple kernel learning is

    min over d ≥ 0, ‖d‖ₚ ≤ 1   J(d) = max over β   D(β) - ½ Σₘ dₘ Sₘ,   Sₘ = βᵀKₘβ

(Kloft et al., JMLR 12 (2011); Rakotomamonjy et al., JMLR 9 (2008) for p = 1). J is
convex, its gradient is -S/2, and every β bounds the optimum from below by
D(β) - ½ ‖S‖_q, 1/p + 1/q = 1: that is the dual. Where the set of free variables stays
as it is, J has second derivatives, so that few trials of d suffice.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mercer import _core
from mercer.native.clock import is_over
from mercer.outcomes import Status

LONGEST_STEP = 3.0  # in ln d, at a time
TRIALS = 12  # of a length along one direction
DESCENT = 1e-4  # of what the slope promises, which a step has to reach
FINER = 0.1  # of tol, which the gap of a machine may have
TINY = float(np.finfo(float).tiny)
RIDGE = 1e-9  # relative, of each curvature: equal kernels stay equal


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The machine on Σₘ dₘ Kₘ: dual ≤ J(d) ≤ primal.

    Attributes
    ----------
    weights, squares : d, and Sₘ = βᵀKₘβ, summed over the problems of the machine
    curvature : gives the (M, M) matrix of second derivatives of J
    status : how its solver ended
    answer : what the solver found
    rounding : what of its gap is rounding, or beyond what its solver reaches
    least : a value of J that is as good as 0
    squares_rounding : how far the Sₘ can be off, all of them together
    gram : of Σₘ dₘ Kₘ, in memory
    """

    weights: np.ndarray
    primal: float
    dual: float
    squares: np.ndarray
    curvature: Callable[[], np.ndarray]
    status: Status = Status.OPTIMAL
    answer: Any = None
    rounding: float = 0.0
    least: float = 0.0
    squares_rounding: float = 0.0
    gram: Any = None

    @property
    def interrupted(self) -> bool:
        """Whether it was ended by a limit, which the next one would meet too."""
        return is_interrupted(self.status)

    def size(self, dual: float) -> float:
        """What a gap is relative to."""
        return max(abs(self.primal), abs(dual), self.least)


def is_interrupted(status: Status) -> bool:
    """Whether a solve was ended by a limit, which the next one would meet too."""
    return status in (Status.MAX_ITER, Status.TIME_LIMIT, Status.STOPPED)


class Family(Protocol):
    """The problems of a machine, one for each d."""

    def evaluate(
        self, weights: np.ndarray, near: Evaluation | None, tol: float
    ) -> Evaluation:
        """The machine on Σₘ dₘ Kₘ, its relative gap below tol if that can be.

        Parameters
        ----------
        near : an earlier one to start from
        """


@dataclass(frozen=True, eq=False)
class Found:
    """What a search found.

    Attributes
    ----------
    best : the evaluation with the least primal
    dual : the largest lower bound of the optimum over all d
    status, trials, seconds : how it ended, and what it took
    """

    best: Evaluation
    dual: float
    status: Status
    trials: int
    seconds: float


def dual_norm(squares: np.ndarray, norm: float) -> float:
    """‖S‖_q, 1/p + 1/q = 1: the largest Σₘ dₘ Sₘ with d ≥ 0, ‖d‖ₚ ≤ 1; S ≥ 0."""
    most = max(float(squares.max()), 0.0) if len(squares) else 0.0
    if norm == 1 or not most > 0:
        return most
    q = 1.0 if math.isinf(norm) else norm / (norm - 1)
    share = np.maximum(squares, 0) / most
    return most * float((share**q).sum()) ** (1 / q)


def excess(weights: np.ndarray, squares: np.ndarray, norm: float) -> float:
    """½ (‖S‖_q - Σₘ dₘ Sₘ) ≥ 0: by how much other weights could still lower J."""
    return (dual_norm(squares, norm) - float(weights @ squares)) / 2


def equal_weights(n: int, norm: float) -> np.ndarray:
    """n equal weights with ‖d‖ₚ = 1."""
    return np.full(n, float(n) ** (-1 / norm))


def normalized(weights: np.ndarray, norm: float) -> np.ndarray:
    """The weights scaled to ‖d‖ₚ = 1."""
    if math.isinf(norm):
        return np.ones(len(weights))
    share = weights / weights.max()
    return share / float((share**norm).sum()) ** (1 / norm)


@dataclass(frozen=True)
class WeightSearch:
    """min J(d), d ≥ 0, ‖d‖ₚ ≤ 1, until primal - dual ≤ tol · max(|primal|, |dual|).

    What rounding adds to the gap is not counted, nor what a solver that is at its own
    tolerance does not reach: more steps do not lower it.

    For p = 1 each step minimises a quadratic model of J over the simplex; for p > 1 it
    is Newton's step in ln d along ‖d‖ₚ = 1. Where no step along it lowers J, weights
    that are best for the fₘ at hand are tried, dₘ ~ (dₘ² Sₘ)^(1/(p+1)).

    Parameters
    ----------
    norm : p ≥ 1
    max_iter : steps, each with one trial of d or a few
    """

    norm: float = 2.0
    tol: float = 1e-3
    max_iter: int = 200

    def solve(self, family: Family, start: np.ndarray) -> Found:
        """The weights, from those of `start`, which must not all be 0."""
        begin = time.perf_counter()
        way = _Way(family, self.norm, self.tol)
        # One kernel, or all weights 1: there is nothing to learn.
        fixed = len(start) == 1 or math.isinf(self.norm)
        # A direction takes fewer digits than an end does.
        rough = FINER if fixed else 1.0
        best = way.tried(normalized(start, self.norm), None, rough)
        fixed = fixed or best.interrupted
        status = best.status if fixed else Status.MAX_ITER
        for _ in range(0 if fixed else self.max_iter):
            if not np.isfinite(best.primal):  # indefinite, or without a solution
                status = best.status
                break
            if way.is_reached(best):
                status = Status.OPTIMAL
                break
            if is_over():
                status = Status.TIME_LIMIT
                break
            better = way.step(best)
            if better is None:
                status = Status.STALLED
                break
            if better.primal < best.primal or way.is_reached(better):
                best = better
            if better.interrupted:
                status = better.status
                break
        return Found(best, way.dual, status, way.trials, time.perf_counter() - begin)


@dataclass
class _Way:
    """The trials of one search, and the best bound that they gave."""

    family: Family
    norm: float
    tol: float
    dual: float = -math.inf
    trials: int = 0

    def tried(
        self, weights: np.ndarray, near: Evaluation | None, share: float = FINER
    ) -> Evaluation:
        """The machine on these weights, its gap at most this share of tol."""
        found = self.family.evaluate(weights, near, share * self.tol)
        self.trials += 1
        bound = found.dual - excess(found.weights, found.squares, self.norm)
        bound -= found.squares_rounding
        self.dual = max(self.dual, bound) if bound == bound else self.dual
        return found

    def is_reached(self, best: Evaluation) -> bool:
        gap = best.primal - self.dual - best.rounding
        return gap <= self.tol * best.size(self.dual)

    def step(self, best: Evaluation) -> Evaluation | None:
        """An evaluation with a lower J, or with the gap that is asked for; or None."""
        move = _on_simplex if self.norm == 1 else self._in_logarithms
        found = self._along(best, *move(best))
        return self._alternate(best) if found is None else found

    def _along(
        self, best: Evaluation, path: Callable[[float], np.ndarray], slope: float
    ) -> Evaluation | None:
        """The first trial on a path that lowers J by a share of what it promises."""
        length = 1.0
        for _ in range(TRIALS):
            found = self.tried(path(length), best)
            lower = found.primal <= best.primal + DESCENT * length * slope
            if lower or self.is_reached(found) or found.interrupted:
                return found
            change = (path(length) - best.weights) / length
            end = -float(found.squares @ change) / 2
            shorter = slope / (slope - end) if end > 0 > slope else 0.5
            length *= min(max(shorter, 0.1), 0.7)
        return None

    def _alternate(self, best: Evaluation) -> Evaluation | None:
        """The best weights for the fₘ at hand, ‖fₘ‖² = dₘ² Sₘ."""
        lengths = best.weights**2 * np.maximum(best.squares, 0)
        if not lengths.any():
            return None
        weights = normalized(lengths ** (1 / (self.norm + 1)), self.norm)
        found = self.tried(weights, best)
        better = found.primal < best.primal or self.is_reached(found)
        return found if better else None

    def _in_logarithms(
        self, best: Evaluation
    ) -> tuple[Callable[[float], np.ndarray], float]:
        """Newton's step in ln d for J on ‖d‖ₚ = 1, and the slope of J along it."""
        d, S, p = best.weights, np.maximum(best.squares, 0), self.norm
        pull, surface = d * S, d**p
        matrix = 2 * d[:, None] * best.curvature() * d
        diagonal = matrix.reshape(-1)[:: len(d) + 1]
        diagonal += (p - 1) * pull
        least = TINY + 1e-3 * float(pull.max())
        diagonal += RIDGE * (diagonal + least)
        change = constrained_minimum(matrix, pull, surface)
        change *= min(1.0, LONGEST_STEP / max(float(np.abs(change).max()), 1e-300))

        def path(length: float) -> np.ndarray:
            return normalized(d * np.exp(length * change), p)

        return path, -float(pull @ change) / 2


def _on_simplex(best: Evaluation) -> tuple[Callable[[float], np.ndarray], float]:
    """To the minimum of a quadratic model of J on Σd = 1, and the slope along it."""
    d = best.weights
    H = best.curvature()
    least = 1e-3 * max(float(np.abs(best.squares).max()), 1e-300)
    H = H + RIDGE * np.diag(np.diagonal(H) + least)
    change = simplex_minimum(H, -best.squares / 2, d) - d

    def path(length: float) -> np.ndarray:
        weights = np.maximum(d + length * change, 0)
        return weights / weights.sum()

    return path, -float(best.squares @ change) / 2


def constrained_minimum(A: np.ndarray, pull: np.ndarray, row: np.ndarray) -> np.ndarray:
    """x of min ½ xᵀAx - pullᵀx with rowᵀx = 0, A positive definite."""
    x = np.empty(len(row))
    _core.constrained_minimum(A, pull, row, x)
    return x


def simplex_minimum(H: np.ndarray, slope: np.ndarray, start: np.ndarray) -> np.ndarray:
    """min ½ (x - start)ᵀH(x - start) + slopeᵀ(x - start), x ≥ 0, Σx = 1.

    By active sets, H positive definite.
    """
    x = np.empty(len(start))
    _core.simplex_minimum(H, slope, start, x)
    return x
