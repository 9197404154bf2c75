"""Stochastic gradient steps in the RKHS: projection, averages, streams with a budget.

With w in the RKHS and f(x) = ⟨w, φ(x)⟩, a visit of the point x with target y is

    w ← (1 - 2 reg η) w - η ℓ′(y, f(x)) φ(x),    then    w ← w · min(1, norm/‖w‖).

Points are visited in blocks: one product gives f at all points of a block, and the
steps within it are made up for by the small kernel matrix of the block, in the core,
so that the order of the steps is that of the plain algorithm. The steps with reg > 0
are those of Kivinen, Smola and Williamson, IEEE Trans. Signal Processing 52 (2004), and
of Shalev-Shwartz et al., ICML 2007, whose λ is 2 reg. Walks with a budget are in
`budget.py`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from mercer import _core
from mercer.data.points import Points, concatenate, count, take
from mercer.kernels.base import Kernel
from mercer.kernels.checks import finite
from mercer.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    PerceptronLoss,
    Quantile,
    Squared,
    SquaredHinge,
)
from mercer.outcomes import Progress, Watch

RATES = ("auto", "constant", "root", "pegasos", "theory")
REMOVALS = ("oldest", "smallest", "merge")
BLOCK = 256  # points whose values are computed together
TINY = 1e-100  # a scale below this is multiplied out

# How the core calls a loss, and the loss's parameter.
_NATIVE: dict[type[Loss], tuple[str, str]] = {
    Hinge: ("hinge", ""),
    PerceptronLoss: ("perceptron", ""),
    SquaredHinge: ("squared_hinge", ""),
    Logistic: ("logistic", ""),
    Squared: ("squared", ""),
    EpsilonInsensitive: ("epsilon_insensitive", "epsilon"),
    Huber: ("huber", "delta"),
    Quantile: ("quantile", "q"),
}


def native_loss(loss: Loss) -> tuple[str, float] | None:
    """The loss's name and parameter for the core; None where it does not know it."""
    if type(loss) not in _NATIVE:
        return None
    word, parameter = _NATIVE[type(loss)]
    return word, float(getattr(loss, parameter)) if parameter else 0.0


# What the steps call their numbers.
WORDS = (("objective", "loss"), ("support", "terms"), ("norm", "norm"))


@dataclass(frozen=True, eq=False)
class SGDSnapshot:
    """w = Σᵢ coefᵢ φ(xᵢ) after so many steps, and what the next step needs to know.

    Columns are outputs, each with a w of its own.

    Parameters
    ----------
    total : (m, q) coefficients of w₁ + ... + w_T, each wₜ before step t; where an
        average is kept
    square : (q,) ‖w‖², kept step by step
    steps, averaged : visits so far, and those among them that `total` has summed
    radius : R, the largest √k(x, x) so far
    steepest : L, the largest slope a step may have met, by the targets so far
    age : (m,) the last step that touched each term
    matrix : (m, m) kernel values of the terms, where a budget needs them
    even : whether every step so far had the same rate
    primal : the `Primal` of `sgd_features.py` where w is kept on features; points, coef
        and total are then there, and none here
    """

    kernel: Kernel
    points: Points
    coef: np.ndarray
    total: np.ndarray
    square: np.ndarray
    steps: int = 0
    averaged: int = 0
    radius: float = 0.0
    steepest: float = 0.0
    age: np.ndarray | None = None
    matrix: np.ndarray | None = None
    rate: float | None = None
    even: bool = True
    primal: Any = None

    @property
    def mean(self) -> np.ndarray:
        """(m, q) coefficients of (w₁ + ... + w_T) / T."""
        return self.total / max(self.averaged, 1)


@dataclass(frozen=True)
class SGD:
    """min reg ‖w‖² + mean ℓ(y, ⟨w, φ(x)⟩), ‖w‖ ≤ norm, one visit of a point at a time.

    Runs over the points it is given and stops there; nothing is iterated to a
    tolerance. The rate of step t, with R² = max k(x, x) and L the largest slope, is

    - "constant": eta0,
    - "root": eta0/√t,
    - "pegasos": 1 / (2 reg t),
    - "theory": norm / (L R √horizon),
    - "auto": 1 / (2 reg t + c R²) for reg > 0, with c the largest curvature of the loss
      (1 where it has corners): as large as is stable at first, that of "pegasos" in
      the end. For reg = 0 it is "root".

    Parameters
    ----------
    eta0 : None for norm/(L R) where there is a norm, else 1/(c R²)
    horizon : T of "theory", the number of steps
    budget : terms at most; None for no limit
    removal : which term leaves a full budget: the "oldest"; the "smallest", by the
        largest |coef| √k(x, x) over the outputs; or "merge", where the smallest in the
        mean or the newest, and another of the same signs, become one point between
        them (RBF on vectors only)

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF
    >>> from mercer.losses import Hinge
    >>> from mercer.solvers import SGD
    >>> solver = SGD(Hinge(), reg=0.5, rate="pegasos")
    >>> state = solver.start(RBF(1), np.zeros((3, 2)), n_outputs=1)
    >>> solver.rates(state, 0, 4).round(3).tolist()  # 1 / (2 reg t)
    [1.0, 0.5, 0.333, 0.25]
    """

    loss: Loss
    reg: float = 0.0
    norm: float = np.inf
    rate: str = "auto"
    eta0: float | None = None
    horizon: int | None = None
    average: bool = False
    budget: int | None = None
    removal: str = "oldest"

    def __post_init__(self) -> None:
        if self.rate not in RATES:
            raise ValueError(
                f"SGD knows the rates {', '.join(RATES)}; got {self.rate!r}."
            )
        if self.removal not in REMOVALS:
            raise ValueError(
                f"SGD removes {', '.join(REMOVALS)}; got removal={self.removal!r}."
            )
        if self.rate == "pegasos" and not self.reg > 0:
            raise ValueError(
                f"The rate 1 / (2 reg t) needs reg > 0; got reg={self.reg!r}. Choose "
                "another rate for a machine without regularisation."
            )
        if self.rate == "theory" and not (self.norm < np.inf and self.horizon):
            raise ValueError(
                "The rate norm / (L R √horizon) needs a norm and the number of steps; "
                f"got norm={self.norm!r} and horizon={self.horizon!r}. Give both, or "
                'choose the rate "root".'
            )

    def start(self, kernel: Kernel, points: Points, n_outputs: int) -> SGDSnapshot:
        """w = 0, on none of these points."""
        none = np.zeros((0, n_outputs))
        return SGDSnapshot(
            kernel, take(points, slice(0, 0)), none, none, np.zeros(n_outputs)
        )

    def informed(
        self, state: SGDSnapshot, diagonal: np.ndarray, target: np.ndarray
    ) -> SGDSnapshot:
        """The state with R and L of more points; a new rate is taken note of.

        Parameters
        ----------
        diagonal : k(x, x) of these points
        """
        diagonal = np.asarray(diagonal, dtype=float)
        finite(diagonal, state.kernel)
        radius = float(np.sqrt(np.max(diagonal, initial=state.radius**2)))
        steepest = max(state.steepest, steepness(self.loss, target, self.norm * radius))
        state = replace(state, radius=radius, steepest=steepest)
        rate = float(self.rates(state, 0, 1)[0])
        even = self.rate in ("constant", "theory")
        even = even and state.even and state.rate in (None, rate)
        return replace(state, rate=rate, even=even)

    def rates(self, state: SGDSnapshot, steps: int, n: int) -> np.ndarray:
        """η of the n steps after so many."""
        t = np.arange(steps + 1, steps + n + 1, dtype=float)
        R, L = state.radius or 1.0, state.steepest or 1.0
        if self.rate == "pegasos":
            return 1 / (2 * self.reg * t)
        if self.rate == "theory":
            assert self.horizon is not None
            return np.full(n, self.norm / (L * R * np.sqrt(self.horizon)))
        stable = 1 / (bend(self.loss) * R * R)
        if self.rate == "auto" and self.reg > 0:
            return 1 / (2 * self.reg * t + 1 / stable)
        first = self.eta0
        if first is None:
            first = self.norm / (L * R) if self.norm < np.inf else stable
        if 2 * self.reg * first > 1:
            raise ValueError(
                f"A step shrinks w by 1 - 2 reg η, which needs η ≤ 1 / (2 reg); got "
                f"η={first:.6g} and reg={self.reg:.6g}. Lower eta0 or reg."
            )
        return np.full(n, first) if self.rate == "constant" else first / np.sqrt(t)


def bend(loss: Loss) -> float:
    """The largest curvature, found at f = 0 and f = y for all here; 1 at corners."""
    if not loss.curved:
        return 1.0
    y = np.ones(2)
    return float(np.max(loss.curvature(y, np.array([0.0, 1.0])))) or 1.0


def steepness(loss: Loss, target: np.ndarray, reach: float) -> float:
    """L: the loss's own, or where it has none, the largest |slope| for |f| ≤ reach."""
    if np.isfinite(loss.lipschitz) or not np.isfinite(reach):
        return float(loss.lipschitz)
    ends = [
        np.abs(loss.slope(target, np.full_like(target, f))) for f in (-reach, reach)
    ]
    return float(np.max(ends, initial=0.0))


class Visits(NamedTuple):
    """A block of visits: places in X, targets (b, q), weights and rates (b,)."""

    place: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    rate: np.ndarray


class SGDState(ABC):
    """w = Σᵢ coefᵢ φ(xᵢ) on its way over the points of X, as often as they are visited.

    A point that is visited again adds to the term it has.
    """

    coef: np.ndarray

    def __init__(self, options: SGD, state: SGDSnapshot, X: Points, target: np.ndarray):
        self.X, self.target = X, target
        state = options.informed(state, self._diagonal(state.kernel), target)
        self.options, self.begin = options, state
        self.kernel, self.loss = state.kernel, options.loss
        self.old = count(state.points)  # the terms there were come before X
        self.points = concatenate(state.points, X) if self.old else X
        self.square = state.square.copy()
        self.steps, self.averaged = state.steps, state.averaged
        self.blocks = 0

    def _diagonal(self, kernel: Kernel) -> np.ndarray:
        """k(x, x) of the points."""
        return kernel.diag(self.X)

    @abstractmethod
    def block(self, visits: Visits) -> np.ndarray:
        """Make the steps of these visits; f at each point before its step, (b, q).

        Takes at least the first visit, and reports as many as it took.
        """

    @property
    @abstractmethod
    def terms(self) -> int:
        """How many points have a coefficient that is not 0."""

    @property
    def together(self) -> int:
        """Visits of a block."""
        return BLOCK

    @abstractmethod
    def state(self) -> SGDSnapshot:
        """Where w is now."""

    def run(
        self,
        order: np.ndarray | None = None,
        weight: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> tuple[np.ndarray, bool]:
        """The losses, (visits, q), each before its step, and whether it was stopped.

        Parameters
        ----------
        order : the points to visit, one after the other, by their places in X; None
            for each of them once
        weight : for each visit, how much its loss counts; None for 1
        watch : called after each block with a `Progress`; True stops the run
        """
        order = np.arange(count(self.X)) if order is None else order
        weight = np.ones(len(order)) if weight is None else weight
        begin, at, stopped = time.perf_counter(), 0, False
        losses, size = np.empty((len(order), len(self.square))), self.together
        while at < len(order) and not stopped:
            index, share = order[at : at + size], weight[at : at + size]
            rate = self.options.rates(self.begin, self.steps, len(index))
            # What overflows is found below, and said.
            with np.errstate(over="ignore", invalid="ignore"):
                target = self.target.take(index, axis=0)
                f = self.block(Visits(index, target, share, rate))
                losses[at : at + len(f)] = self.loss.value(target[: len(f)], f)
            at, self.blocks = at + len(f), self.blocks + 1
            self._refuse_unless_finite(f)
            if watch is not None:
                mean = mean_loss(losses[:at], weight)
                seconds = time.perf_counter() - begin
                stopped = bool(watch(self._progress(at, mean, seconds)))
        return losses[:at], stopped

    def _progress(self, at: int, mean: float, seconds: float) -> Progress:
        norm = float(np.sqrt(self.square.max()))
        return Progress(
            self.blocks,
            self.steps,
            at,
            seconds,
            support=self.terms,
            objective=mean,
            norm=norm,
            words=WORDS,
            unit="step",
        )

    def _refuse_unless_finite(self, f: np.ndarray) -> None:
        if not (np.isfinite(f).all() and np.isfinite(self.square).all()):
            raise ValueError(
                f"f or ‖w‖ is not a finite number after {self.steps} steps: the steps "
                f"are too large for {self.kernel} and these targets, or a kernel "
                "value is not a number. Lower eta0, give a norm, or scale the targets."
            )


class Steps(NamedTuple):
    """The steps of a block: w = scale (w₀ + Σⱼ added_j φ(xⱼ)), w₀ what it was before.

    Rows are outputs. A step that adds nothing costs nothing, and shrinking w costs one
    product. Where the scale vanishes the block ends, and `last` is what its last step
    added.
    """

    values: np.ndarray  # (q, b): w₀ at the points; then f at each before its step
    added: np.ndarray  # (q, b)
    scales: np.ndarray  # (q, b), before each step
    scale: np.ndarray  # (q,), after the last
    last: np.ndarray  # (q,)

    @classmethod
    def of(cls, values: np.ndarray) -> Steps:
        values = np.array(values.T, dtype=float, order="C")
        q = len(values)
        added, scales = np.zeros_like(values), np.ones_like(values)
        return cls(values, added, scales, np.ones(q), np.zeros(q))

    def make(
        self, options: SGD, gram: np.ndarray, visits: Visits, square: np.ndarray
    ) -> int:
        """Make the steps, the core where it knows the loss; how many. ‖w‖² follows."""
        known = native_loss(options.loss)
        if known is None:
            return self._in_python(options, gram, visits, square)
        return _core.sgd_steps(
            *known,
            gram,
            np.array(visits.target.T, dtype=float, order="C"),
            np.ascontiguousarray(visits.weight, dtype=float),
            visits.rate,
            options.reg,
            options.norm,
            TINY,
            self.values,
            self.added,
            self.scales,
            self.scale,
            square,
            self.last,
        )

    def _in_python(
        self, options: SGD, gram: np.ndarray, visits: Visits, square: np.ndarray
    ) -> int:
        """The same for a loss of one's own."""
        F, scale = self.values, self.scale
        for j in range(F.shape[1]):
            self.scales[:, j] = scale
            F[:, j] *= scale
            shrink, d = step(options, F[:, j], visits, j, gram[j, j], square)
            factor = projection(options, square)
            scale *= shrink
            vanished = scale < TINY
            self.last[vanished] = (factor * d)[vanished]
            d[vanished] = 0.0
            self.added[:, j] = d / np.where(vanished, 1.0, scale)
            F[:, j + 1 :] += self.added[:, j, None] * gram[j, j + 1 :]
            scale *= factor
            if (scale < TINY).any():
                return j + 1
        return F.shape[1]


def step(
    options: SGD, f: np.ndarray, visits: Visits, j: int, kxx: float, square: np.ndarray
) -> tuple[float, np.ndarray]:
    """One visit: (shrink, d) of w ← shrink w + d φ(x). ‖w‖² follows."""
    eta = visits.rate[j]
    # Rounding can leave -1e-17 where the first step of "pegasos" forgets all.
    shrink = max(0.0, 1 - 2 * options.reg * eta)
    d = (-eta * visits.weight[j]) * options.loss.slope(visits.target[j], f)
    square *= shrink * shrink
    square += d * (2 * shrink * f + d * kxx)
    np.maximum(square, 0.0, out=square)
    return shrink, d


def projection(options: SGD, square: np.ndarray) -> np.ndarray:
    """min(1, norm/‖w‖) for each output. ‖w‖² follows."""
    largest = options.norm**2
    factor = np.ones_like(square)
    outside = square > largest
    factor[outside] = np.sqrt(largest / square[outside])
    square[outside] = largest
    return factor


class UnlimitedSGD(SGDState):
    """SGD without a budget: a coefficient for each of the points."""

    def __init__(self, options: SGD, state: SGDSnapshot, X: Points, target: np.ndarray):
        super().__init__(options, state, X, target)
        empty = np.zeros((count(X), len(self.square)))
        self.coef = np.concatenate([state.coef, empty])
        self.total = np.concatenate([state.total, empty])

    @property
    def terms(self) -> int:
        return int(self.coef.any(axis=1).sum())

    def block(self, visits: Visits) -> np.ndarray:
        P = take(self.X, visits.place)
        gram = np.ascontiguousarray(self.kernel(P), dtype=float)
        steps = Steps.of(self._values(P))
        done = steps.make(self.options, gram, visits, self.square)
        place, added = visits.place[:done] + self.old, steps.added[:, :done].T
        if self.options.average:
            # From the end: added_j may be huge where the scales after it are tiny.
            rest = np.cumsum(steps.scales[:, :done].T[::-1], axis=0)[::-1]
            self.total += rest[0] * self.coef
            np.add.at(self.total, place[:-1], rest[1:] * added[:-1])
            self.averaged += done
        self.coef *= steps.scale
        np.add.at(self.coef, place, steps.scale * added)
        self.coef[place[-1]] += steps.last
        self.steps += done
        return steps.values[:, :done].T

    def _values(self, P: Points) -> np.ndarray:
        """f at points, by one product with all the terms."""
        used = np.flatnonzero(self.coef.any(axis=1))
        if not len(used):
            return np.zeros((count(P), self.coef.shape[1]))
        return self.kernel.matmul(P, take(self.points, used), self.coef[used])

    def state(self) -> SGDSnapshot:
        kept = np.flatnonzero(self.coef.any(axis=1) | self.total.any(axis=1))
        return replace(
            self.begin,
            points=take(self.points, kept),
            coef=self.coef[kept],
            total=self.total[kept],
            square=self.square.copy(),
            steps=self.steps,
            averaged=self.averaged,
            age=None,
            matrix=None,
        )


def mean_loss(losses: np.ndarray, weight: np.ndarray | None = None) -> float:
    """The mean over the visits, of the sum over the outputs."""
    sums = losses.sum(axis=1)
    if weight is None:
        return float(sums.mean())
    weight = weight[: len(sums)]
    return float(weight @ sums / weight.sum())
