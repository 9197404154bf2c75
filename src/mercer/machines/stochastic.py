"""What the machines of stochastic gradient steps share: passes, batches, bounds.

A machine adds what its targets are and what it says of new points.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from hashlib import blake2b
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer.data.points import Points, count, double, take
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.kernels.base import Kernel, Sum
from mercer.kernels.ways import Precomputed
from mercer.losses import Loss
from mercer.machines.base import WORDS, Machine, as_kernel, checked_weight
from mercer.machines.progress import CallbackSupportMixin, Watcher, watching
from mercer.native import memory
from mercer.outcomes import Run, Status
from mercer.solvers.budget import BudgetSGD
from mercer.solvers.sgd import (
    RATES,
    REMOVALS,
    SGD,
    SGDSnapshot,
    SGDState,
    UnlimitedSGD,
    mean_loss,
)

POSITIVE = Interval(Real, 0, None, closed="neither")
COUNT = Interval(Integral, 1, None, closed="left")
CONSTRAINTS: dict[str, list] = {
    "kernel": [StrOptions(set(WORDS)), callable, None],
    "reg": [Interval(Real, 0, None, closed="left")],
    "norm": [POSITIVE, None],
    "learning_rate": [StrOptions(set(RATES))],
    "eta0": [POSITIVE, None],
    "horizon": [COUNT, None],
    "average": ["boolean", None],
    "budget": [COUNT, None],
    "removal": [StrOptions(set(REMOVALS))],
    "fit_intercept": ["boolean"],
    "max_iter": [COUNT],
    "tol": [Interval(Real, 0, None, closed="left"), None],
    "n_iter_no_change": [COUNT],
    "shuffle": ["boolean"],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
    "callback": [callable, None],
}


class Passes(NamedTuple):
    """How the passes over the points ended."""

    run: Run  # "passes" (all that were asked for), "converged", "max_iter", "stopped"
    violation: float  # by how much the last pass lowered the loss


class KernelSGD(CallbackSupportMixin, Machine):
    """w ← (1 - 2 reg η) w - η ℓ′(y, f(x)) φ(x), f(x) = ⟨w, φ(x)⟩, point by point."""

    _advice: ClassVar[dict[str, str]] = {
        "passes": "",
        "converged": "",
        "max_iter": (
            "{name} made its {solution.run.iterations} passes, and the last lowered "
            "the loss by {solution.violation:.2g} > tol={machine.tol:g}. Raise "
            "max_iter, or go on with partial_fit."
        ),
        "stopped": (
            "{name} was stopped in pass {solution.run.iterations} of "
            "{machine.max_iter}; what it learnt until then is kept. Go on with "
            "partial_fit."
        ),
    }

    # Parameters of both machines
    loss: Any
    reg: float
    norm: float | None
    learning_rate: str
    eta0: float | None
    horizon: int | None
    average: bool | None
    budget: int | None
    removal: str
    fit_intercept: bool
    max_iter: int
    tol: float | None
    n_iter_no_change: int
    shuffle: bool
    random_state: Any
    verbose: Any
    callback: Any

    # What is learnt
    n_iter_: int
    loss_curve_: list[float]
    _state: SGDSnapshot
    _last: Expansion

    @abstractmethod
    def _loss(self) -> Loss:
        """The loss that `loss` stands for."""

    def _solver(self, horizon: int | None) -> SGD:
        if self.learning_rate == "theory" and horizon is None:
            raise ValueError(
                f'{type(self).__name__}(learning_rate="theory") needs horizon, the '
                "number of points the stream will have; partial_fit cannot know it."
            )
        return SGD(
            self._loss(),
            float(self.reg),
            np.inf if self.norm is None else float(self.norm),
            self.learning_rate,
            self.eta0,
            horizon,
            self._averages,
            self.budget,
            self.removal,
        )

    @property
    def _averages(self) -> bool:
        return self.budget is None if self.average is None else bool(self.average)

    def _kernel(self, X, weight) -> Kernel:
        kernel = Precomputed(X) if self._precomputed else as_kernel(self.kernel)
        kernel = kernel.resolve(np.arange(count(X)) if self._precomputed else X, weight)
        return kernel + 1 if self.fit_intercept else kernel

    # Learning

    def _learn(self, X, y, target, sample_weight, **learnt) -> None:
        """All passes over the points; what is learnt is set at the end, all at once."""
        X = self._kept_points(X)
        weight, index = weights(self, sample_weight, X)
        points = np.arange(count(X)) if self._precomputed else double(X)
        keys = _keys(points, target) if self.shuffle else np.arange(count(X))
        if index is not None:
            points, target, keys = take(points, index), target[index], keys[index]
        kernel = self._kernel(X if self._precomputed else points, weight)
        steps = len(keys) if weight is None else int(np.ceil(weight).sum())
        solver = self._solver(self.horizon or steps * self.max_iter)
        known = self._known(kernel, points)
        state = solver.start(known.kernel, known.points, target.shape[1])
        sgd = _sgd_state(solver, state, known.points, target)
        names = [f"pass {i + 1}" for i in range(self.max_iter)]
        with watching(self, names, X, y, sample_weight) as watcher:
            curve, ended = self._passes(sgd, self._orders(keys, weight), watcher)
            state = sgd.state()
            if known.kernel is not kernel:
                own = take(points, state.points)
                state = replace(state, kernel=kernel, points=own)
            state = replace(state, points=self._own(state.points, X))
            self._store(state, curve, ended.run, learnt)
        self._warn_unless_optimal(ended)

    def _known(self, kernel: Kernel, points) -> _Known:
        """The points, or their kernel values where those are read more than once."""
        merged = self.budget is not None and self.removal == "merge"
        base = kernel.left if self.fit_intercept and isinstance(kernel, Sum) else kernel
        slow = base.native(points) is None and not isinstance(base, Precomputed)
        size = 8.0 * count(points) ** 2
        if not slow or merged or self.max_iter == 1 or not memory.keeps(size):
            return _Known(kernel, points)
        matrix = Precomputed(Gram(kernel, points).dense())
        return _Known(matrix, np.arange(count(points)))

    def _orders(self, keys, weight) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For each pass, the points to visit and how much each visit counts.

        Visits are sorted by numbers drawn from the keys of their points, so that the
        order is the same however the points are listed, and for a point of weight 2
        what it is for the same point twice.
        """
        random = check_random_state(self.random_state)
        place, each = _visits(len(keys), weight)
        keys = _numbered(keys[place])
        for _ in range(self.max_iter):
            order: Any = slice(None)
            if self.shuffle:
                salt = random.randint(2**32, size=2, dtype=np.uint64)
                order = np.argsort(_mixed(keys, salt), kind="stable")
            yield place[order], each[order]

    def _passes(self, sgd: SGDState, orders, watcher: Watcher | None):
        """The mean loss of each pass, and how they ended."""
        curve: list[float] = []
        best, idle, gain, begin = np.inf, 0, np.inf, time.perf_counter()
        for order, each in orders:
            reporting: Any = nullcontext() if watcher is None else watcher.problem()
            with reporting as watch:
                losses, stopped = sgd.run(order, each, watch)
            curve.append(mean_loss(losses, each))
            if stopped or (watcher is not None and watcher.stopped):
                return curve, self._ended(Status.STOPPED, curve, gain, begin)
            gain = best - curve[-1]
            if self.tol is not None:
                idle = idle + 1 if gain <= self.tol else 0
                if idle >= self.n_iter_no_change:
                    return curve, self._ended(Status.CONVERGED, curve, gain, begin)
            best = min(best, curve[-1])
        idle_enough = self.tol is None or gain <= self.tol
        status = Status.PASSES if idle_enough else Status.MAX_ITER
        return curve, self._ended(status, curve, gain, begin)

    @staticmethod
    def _ended(status: Status, curve, gain: float, begin: float) -> Passes:
        seconds = time.perf_counter() - begin
        return Passes(Run(status, len(curve), seconds), gain)

    def _learn_more(self, X, target, sample_weight, **learnt) -> None:
        """One pass over a batch in the order given, from where the last one ended."""
        begin = time.perf_counter()
        X = self._kept_points(X)
        weight, index = weights(self, sample_weight, X)
        solver = self._solver(self.horizon)
        points = double(X if index is None else take(X, index))
        target = target if index is None else target[index]
        state = self.__dict__.get("_state")
        if state is None:
            state = solver.start(self._kernel(points, weight), points, target.shape[1])
        sgd = _sgd_state(solver, state, points, target)
        order, each = _visits(count(points), weight)
        losses, _ = sgd.run(order, each)
        curve = [*self.__dict__.get("loss_curve_", []), mean_loss(losses, each)]
        state = sgd.state()
        state = replace(state, points=self._own(state.points, X))
        seconds = time.perf_counter() - begin
        self._store(state, curve, Run(Status.PASSES, len(curve), seconds), learnt)

    def _kept_points(self, X) -> Points:
        """X; objects are copied at once, as a copy of a list would still share them."""
        if isinstance(X, np.ndarray) or sp.issparse(X):
            return X
        X, self._borrows = self._own(X, X), False
        return X

    def _store(self, state: SGDSnapshot, curve: list[float], run: Run, learnt) -> None:
        last = self._expansion(state, state.coef)
        f = self._expansion(state, state.mean) if self._averages else last
        self.__dict__.update(learnt)
        self._state, self._last, self.expansion_ = state, last, f
        self.loss_curve_, self.n_iter_, self.run_ = curve, len(curve), run

    def _expansion(self, state: SGDSnapshot, coef: np.ndarray) -> Expansion:
        kernel = state.kernel
        if self._precomputed:
            # Kernel values of new points come with them: no need for the old ones.
            kernel = Precomputed() + 1 if self.fit_intercept else Precomputed()
        coef = coef[:, 0] if coef.shape[1] == 1 else coef
        return Expansion(kernel, state.points, coef).pruned()

    # What was learnt

    @property
    def last_(self) -> Expansion:
        """w after the last step; `expansion_` itself unless that is an average."""
        check_is_fitted(self)
        return self._last

    @property
    def norm_(self):
        """‖w‖ of `last_`, a number or one per output, kept step by step."""
        check_is_fitted(self)
        root = np.sqrt(self._state.square)
        return float(root[0]) if len(root) == 1 else root

    @property
    def coef_(self) -> np.ndarray:
        """The coefficients of `expansion_`, (m,) or (m, q)."""
        check_is_fitted(self)
        return self.expansion_.coef

    @property
    def t_(self) -> int:
        """T, the number of steps so far."""
        check_is_fitted(self)
        return self._state.steps

    @abstractmethod
    def _targets(self, y) -> np.ndarray:
        """Targets as the loss takes them, a column per output."""

    def mean_loss(self, X: Points, y) -> float:
        """(1/m) Σ ℓ(y, f(x)) over m points, summed over the outputs."""
        check_is_fitted(self)
        values = np.asarray(self._values(X))
        target = self._targets(np.asarray(y))
        if len(target) != len(values):
            raise ValueError(
                f"mean_loss needs a target for each point; got {len(values)} points "
                f"and {len(target)} targets."
            )
        return mean_loss(self._loss().value(target, values.reshape(target.shape)))

    def regret_bound(self) -> float:
        """L·B·R·√T ≥ Σₜ ℓ(yₜ, fₜ(xₜ)) - Σₜ ℓ(yₜ, g(xₜ)), for every ‖g‖ ≤ B.

        Here fₜ is f before step t, B is `norm`, R² = max k(x, x), and L the steepest
        slope of the loss (for a loss without one, its steepest for |f| ≤ B R). It
        holds for every sequence of points, one output at a time, where the rate was
        B/(L R √T) throughout: `learning_rate="theory"`, no reg, no budget. Visits
        of weight < 1 count as much of their loss.
        """
        check_is_fitted(self)
        state, name = self._state, type(self).__name__
        if self.learning_rate != "theory" or self.reg or self.budget is not None:
            raise ValueError(
                "The bound L·B·R·√T is that of a projected run at the rate "
                f'B/(L R √T); make it {name}(learning_rate="theory", norm=B, reg=0, '
                "budget=None)."
            )
        solver = self._solver(state.steps)
        if not state.even or not np.isclose(
            state.rate or 0, solver.rates(state, 0, 1)[0]
        ):
            raise ValueError(
                f"The bound holds for one rate, B/(L R √T), over all T={state.steps} "
                "steps; here R or L grew on the way, or T is not the horizon. Pass the "
                "points at once, or horizon=T."
            )
        return solver.norm * state.steepest * state.radius * np.sqrt(state.steps)

    @property
    def bound_(self) -> float:
        """L·B·R/√T: how much worse than the best g, ‖g‖ ≤ B, to expect of the average.

        After one pass over T independent points from one distribution, the mean over
        such draws of E ℓ(y, f(x)), f the averaged iterate and (x, y) a new point, is
        at most E ℓ(y, g(x)) + L·B·R/√T for every ‖g‖ ≤ B. `regret_bound`, of which
        it is the share per step, says when.
        """
        try:
            return self.regret_bound() / self.t_
        except ValueError as error:
            # What dir() lists and cannot be read is an attribute that is not there.
            raise AttributeError(str(error)) from error


class _Known(NamedTuple):
    kernel: Kernel
    points: Points


def _sgd_state(solver: SGD, state: SGDSnapshot, points, target) -> SGDState:
    kind = UnlimitedSGD if solver.budget is None else BudgetSGD
    return kind(solver, state, points, target)


def weights(machine, sample_weight, X) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The weights > 0 and the places of their points; None for all of them, once."""
    if sample_weight is None:
        return None, None
    weight = checked_weight(machine, sample_weight, X, ensure_non_negative=True)
    index = np.flatnonzero(weight)
    visits = np.ceil(weight).sum()
    if 32 * visits > memory.available_memory():
        raise ValueError(
            f"{type(machine).__name__} visits a point as often as its sample_weight "
            f"says; these make {visits:.6g} visits in a pass, more than memory holds. "
            "Divide the weights by their mean."
        )
    if not len(index):
        raise ValueError("Every point has weight 0; nothing can be learnt.")
    return weight[index], index


def _visits(n: int, weight) -> tuple[np.ndarray, np.ndarray]:
    """Each point as often as it counts: 2.5 is two whole visits and one of a half."""
    if weight is None:
        return np.arange(n), np.ones(n)
    often = np.ceil(weight).astype(np.intp)
    each = np.ones(int(often.sum()))
    each[np.cumsum(often) - 1] = weight - often + 1
    return np.repeat(np.arange(n), often), each


def _numbered(keys: np.ndarray) -> np.ndarray:
    """The keys, with equal ones counted: the first, the second, ... of a kind."""
    order = np.argsort(keys, kind="stable")
    known = keys[order]
    first = np.flatnonzero(np.append(True, known[1:] != known[:-1]))
    runs = np.diff(np.append(first, len(keys)))
    copies = np.empty(len(keys), dtype=np.uint64)
    copies[order] = np.arange(len(keys)) - np.repeat(first, runs)
    return keys.astype(np.uint64) + copies * np.uint64(0x9E3779B97F4A7C15)


def _keys(X, target: np.ndarray) -> np.ndarray:
    """A number for each point, by its coordinates and target; else by its place."""
    if not (sp.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2)):
        return np.arange(count(X), dtype=np.uint64)
    rows = sp.csr_array(X, dtype=np.float64, copy=sp.issparse(X))
    rows.sum_duplicates()
    rows.eliminate_zeros()
    columns, ends = rows.indices.astype(np.int64), rows.indptr
    keys = np.empty(count(X), dtype=np.uint64)
    for i, known in enumerate(np.asarray(target, dtype=np.float64) + 0.0):
        part = slice(ends[i], ends[i + 1])
        text = columns[part].tobytes() + rows.data[part].tobytes() + known.tobytes()
        keys[i] = int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
    return keys


def _mixed(keys: np.ndarray, salt: np.ndarray) -> np.ndarray:
    """Numbers that look random, equal for equal keys: Steele et al.'s SplitMix64."""
    z = keys.astype(np.uint64) ^ (salt[0] << np.uint64(32) | salt[1])
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
