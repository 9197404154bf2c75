"""What the machines of stochastic gradient steps share: passes, batches, bounds.

A machine adds what its targets are and what it says of new points.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import is_regressor
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer.data.points import Points, double, take
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.ways import Precomputed
from mercer.losses import Loss
from mercer.machines.base import (
    FitData,
    Machine,
    dual_rows,
    of_weights,
    on_landmarks,
)
from mercer.machines.checks import TIME_LIMIT
from mercer.machines.progress import (
    CallbackSupportMixin,
    Watcher,
    reporting,
    watching,
)
from mercer.machines.sgd.visits import keys_of, orders, visits
from mercer.machines.words import WORDS
from mercer.native import memory
from mercer.native.clock import seconds_left
from mercer.outcomes import Run, Status
from mercer.solvers.auto import held_for_passes, road_of_passes, steps_on_features
from mercer.solvers.budget import BudgetSGD
from mercer.solvers.limits import TimeLimit
from mercer.solvers.roads import Road
from mercer.solvers.sgd import (
    RATES,
    REMOVALS,
    SGD,
    SGDSnapshot,
    SGDState,
    UnlimitedSGD,
    mean_loss,
)
from mercer.solvers.sgd_features import FeatureSGD, Primal

POSITIVE = Interval(Real, 0, None, closed="neither")
COUNT = Interval(Integral, 1, None, closed="left")
CONSTRAINTS: dict[str, list[Any]] = {
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
    "time_limit": TIME_LIMIT,
}


class Passes(NamedTuple):
    """How the passes over the points ended."""

    run: Run  # "passes" (all that were asked for), "converged", "max_iter", "stopped"
    violation: float  # by how much the last pass lowered the loss


class KernelSGD(CallbackSupportMixin, Machine):
    """w ← (1 - 2 reg η) w - η ℓ′(y, f(x)) φ(x), f(x) = ⟨w, φ(x)⟩, point by point."""

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
    time_limit: float | None

    # What is learnt
    n_iter_: int
    loss_curve_: list[float]
    _state: SGDSnapshot
    _functions: _Functions

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

    def _with_constant(self, kernel: Kernel) -> Kernel:
        return kernel + 1 if self.fit_intercept else kernel

    # Learning

    def _road(self, X: Points, y: Any) -> Road:
        numeric = is_regressor(self)
        checks = {"multi_output": True} if numeric else {}
        gram = self._fit_data(X, y, None, y_numeric=numeric, **checks).gram
        gram = Gram(self._with_constant(gram.kernel), gram.X).double()
        return road_of_passes(gram, None, many=self._holds())

    def _holds(self) -> bool:
        """Whether K may be held for several passes."""
        merged = self.budget is not None and self.removal == "merge"
        return not merged and self.max_iter > 1

    def _learn(self, data: FitData, target: np.ndarray) -> None:
        """All passes over the points; what is learnt is set at the end, all at once.

        Parameters
        ----------
        target : (n, q) array, a column per output
        """
        self._check_visits(data.weight)
        X = data.given[0]
        gram = data.gram.double()
        gram = Gram(self._with_constant(gram.kernel), gram.X)
        steps = int(np.ceil(data.weight).sum())
        solver = self._solver(self.horizon or steps * self.max_iter)
        primal = self._is_on_features(gram.kernel, gram.X, self.max_iter)
        known = held_for_passes(gram) if self._holds() and not primal else gram
        state = solver.start(known.kernel, known.X, target.shape[1])
        state = Primal.begun(state) if primal else state
        sgd = self._sgd_state(solver, state, known.X, target, X)
        keys, random = data.index, None
        if self.shuffle:
            keys = keys_of(gram.X, target, data.index)
            random = check_random_state(self.random_state)
        each_pass = orders(keys, data.weight, self.max_iter, random)
        names = [f"pass {i + 1}" for i in range(self.max_iter)]
        with watching(self, names, *data.given) as watcher:
            curve, ended = self._passes(sgd, each_pass, watcher)
            state = sgd.state()
            if known is not gram:
                own = take(gram.X, state.points)
                state = replace(state, kernel=gram.kernel, points=own)
            self._store(state, X, curve, ended.run)
        self._warn_unless_optimal(ended)

    def _check_visits(self, weight: np.ndarray) -> None:
        many = np.ceil(weight).sum()
        if many > 2.0**20 and not memory.fits(32 * many):
            raise ValueError(
                f"{type(self).__name__} visits a point as often as its sample_weight "
                f"says; these make {many:.6g} visits in a pass, more than memory "
                "holds. Divide the weights by their mean."
            )

    def _passes(
        self,
        sgd: SGDState,
        orders: Iterable[tuple[np.ndarray, np.ndarray]],
        watcher: Watcher | None,
    ) -> tuple[list[float], Passes]:
        """The mean loss of each pass, and how they ended."""
        curve: list[float] = []
        best, idle, gain, begin = np.inf, 0, np.inf, time.perf_counter()
        for order, each in orders:
            left = seconds_left()
            with reporting(watcher) as watch:
                limit = None if left is None else TimeLimit(watch, left)
                losses, stopped = sgd.run(order, each, limit or watch)
            curve.append(mean_loss(losses, each))
            if stopped and limit is not None and limit.expired:
                return curve, self._ended(Status.TIME_LIMIT, curve, gain, begin)
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
    def _ended(status: Status, curve: list[float], gain: float, begin: float) -> Passes:
        seconds = time.perf_counter() - begin
        return Passes(Run(status, len(curve), seconds), gain)

    def _learn_more(
        self, X: Points, target: np.ndarray, sample_weight: npt.ArrayLike | None
    ) -> None:
        """One pass over a batch in the order given, from where the last one ended."""
        begin = time.perf_counter()
        # Objects are copied at once: with them a copy of a list would still share.
        X = X if isinstance(X, np.ndarray) or sp.issparse(X) else self._kept(X)
        points, index, weight = self._weighted_points(X, sample_weight)
        self._check_visits(weight)
        points, target = double(points), target[index]
        solver = self._solver(self.horizon)
        state = self.__dict__.get("_state")
        if state is None:
            share = None if sample_weight is None else weight
            kernel = self._with_constant(self._resolved(points, share))
            state = solver.start(kernel, points, target.shape[1])
        if state.primal is None and self._is_on_features(state.kernel, points, None):
            state = Primal.begun(state)
        sgd = self._sgd_state(solver, state, points, target, X)
        order, each = visits(weight)
        losses, _ = sgd.run(order, each)
        curve = [*self.__dict__.get("loss_curve_", []), mean_loss(losses, each)]
        seconds = time.perf_counter() - begin
        run = Run(Status.PASSES, len(curve), seconds)
        self._store(sgd.state(), X, curve, run)

    def _is_on_features(self, kernel: Kernel, X: Points, passes: int | None) -> bool:
        """Whether w is kept on features; a budget is one of points."""
        if self.budget is not None or self._precomputed:
            return False
        return steps_on_features(kernel, X, passes)

    def _sgd_state(
        self,
        solver: SGD,
        state: SGDSnapshot,
        points: Points,
        target: np.ndarray,
        X: Points,
    ) -> SGDState:
        """What makes the steps over these points of X."""
        if solver.budget is not None:
            if state.primal is not None:  # a budget that came later
                state = state.primal.on_points(state)
            return BudgetSGD(solver, state, points, target)
        if state.primal is None:
            return UnlimitedSGD(solver, state, points, target)
        return FeatureSGD(solver, state, points, target, partial(self._own, X=X))

    def _store(
        self, state: SGDSnapshot, X: Points, curve: list[float], run: Run
    ) -> None:
        state = replace(state, points=self._own(state.points, X))
        # Kernel values of new points come with them: no need for the old ones.
        pairwise = self._precomputed
        kernel = self._with_constant(Precomputed()) if pairwise else state.kernel
        self._functions = _Functions(kernel, state, self._averages)
        self._state = state
        self.loss_curve_, self.n_iter_, self.run_ = curve, len(curve), run

    def _values(self, X: Points) -> np.ndarray:
        check_is_fitted(self)
        primal = self._state.primal
        if primal is None:
            return super()._values(X)
        X = double(self._validated_points(X, reset=False))
        steps = self._state.averaged if self._functions.averages else None
        values = primal.values(X, steps)
        return values[:, 0] if values.shape[1] == 1 else values

    # What was learnt

    @property
    def last_(self) -> Expansion:
        """w after the last step; `expansion_` itself unless that is an average."""
        check_is_fitted(self)
        return self._functions.last

    @property
    def expansion_(self) -> Expansion:
        """f on the points it was learnt from, made when it is first asked for."""
        return self._functions.f

    @expansion_.setter
    def expansion_(self, f: Expansion) -> None:
        self._functions = replace(self._functions)
        self._functions.f, self._state = f, replace(self._state, primal=None)

    @property
    def norm_(self) -> float | np.ndarray:
        """‖w‖ of `last_`, a number or one per output, kept step by step."""
        check_is_fitted(self)
        root = np.sqrt(self._state.square)
        return float(root[0]) if len(root) == 1 else root

    @property
    def dual_coef_(self) -> np.ndarray:
        """The coefficients of `expansion_`, (q, m): a row for each function."""
        check_is_fitted(self)
        return dual_rows(self.expansion_)

    @property
    def t_(self) -> int:
        """T, the number of steps so far."""
        check_is_fitted(self)
        return self._state.steps

    @abstractmethod
    def _targets(self, y: np.ndarray) -> np.ndarray:
        """Targets as the loss takes them, a column per output."""

    def mean_loss(self, X: Points, y: npt.ArrayLike) -> float:
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


def takes_streams(machine: Machine) -> bool:
    if machine._precomputed:
        raise AttributeError(
            'partial_fit needs points; kernel="precomputed" has only their values. '
            "Pass kernel=Precomputed(K) and the indices of points as X."
        )
    return True


@dataclass(eq=False)
class _Functions:
    """f and the last w as expansions, where they are asked for."""

    kernel: Kernel
    state: SGDSnapshot
    averages: bool

    @cached_property
    def _on_points(self) -> SGDSnapshot:
        primal = self.state.primal
        return self.state if primal is None else primal.on_points(self.state)

    @cached_property
    def last(self) -> Expansion:
        return self._made(None)

    @cached_property
    def f(self) -> Expansion:
        return self._made(self.state.averaged) if self.averages else self.last

    def _made(self, averaged: int | None) -> Expansion:
        """w as it is, or the mean of all w over so many steps."""
        primal = self.state.primal
        if primal is not None and not primal.keeps_points:
            return of_weights(primal.kernel, *primal.weights(averaged))
        state = self._on_points
        coef = state.coef if averaged is None else state.mean
        coef = coef[:, 0] if coef.shape[1] == 1 else coef
        return on_landmarks(Expansion(self.kernel, state.points, coef).pruned())
