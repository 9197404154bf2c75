"""From a machine to its `Plan`: its road, fits on some of the points, ways out."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.utils import get_tags

from mercer.data.partitions import Partitions, in_memory
from mercer.data.points import Points, as_points, count, take
from mercer.kernels.base import Kernel
from mercer.native import memory
from mercer.planning import (
    Plan,
    Trial,
    WayOut,
    approximations,
    fewer_points,
    held_elsewhere,
    made,
    memory_of,
    needs_way_out,
    travelling,
    trial_of,
    trials,
)
from mercer.solvers.roads import Road

SHORT = 0.1  # seconds of a fit on some of the points that is done three times
MOST = 2  # approximations among the ways out
SQUARES = 16  # matrices of the columns of Φ that find room in any trial
RESOLVED = 2000  # points that a kernel learns from, before its plan is made
PILOT, LEFT_OUT = 5000, 0.2  # points of a pilot, and the share that judges
WITHOUT_Y = (
    "y was not given: the estimate is wider, as no fit on some of the points was "
    "possible, and two classes or one target are assumed"
)
ALONE = (
    "time is that of one process with the points, from fits on some of them: k workers "
    "of as many threads each take about a k-th, and some 10 ms for each product"
)
WITHOUT_TRIAL = (
    "no fit on some of the points succeeded: seconds are those of usual problems"
)


def planned(machine: Any, X: Points, y: Any, pilot: bool) -> Plan:
    """The plan of a machine on these points."""
    machine._validate_params()
    return _Planning(machine, machine._sound(X), in_memory(y)).plan(pilot)


def plan_of(machine: Any, X: Points, y: Any) -> Plan:
    """The plan without any fit, for a refusal."""
    planning = _Planning(machine, machine._sound(X), y)
    return replace(made(planning.name, planning.road), ways_out=planning.by_memory())


@dataclass(frozen=True, eq=False)
class _Planning:
    """One plan: of a machine on its points."""

    machine: Any
    X: Points
    y: Any

    @property
    def name(self) -> str:
        return type(self.machine).__name__

    @cached_property
    def n(self) -> int:
        return count(self.X)

    @property
    def known(self) -> bool:
        """Whether there is a y, or none is needed."""
        return self.y is not None or not get_tags(self.machine).target_tags.required

    @cached_property
    def road(self) -> Road:
        copied = _quiet(self.machine)
        kernel = getattr(copied, "kernel", None)
        if isinstance(kernel, Kernel) and not copied._precomputed:
            copied.kernel = self._resolved(kernel)
        y = self.y if self.known else _stand_in(self.machine, self.n)
        return copied._road(self.X, y)

    def _resolved(self, kernel: Kernel) -> Kernel:
        """The kernel, having learnt from some of the points: landmarks take long."""
        few = max(RESOLVED, 4 * int(getattr(kernel, "size", 0) or 0))
        if self.n <= few:
            return kernel
        points = as_points(self.X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return kernel.resolve(take(points, np.sort(self._order[:few])))

    @cached_property
    def _order(self) -> np.ndarray:
        return np.random.default_rng(0).permutation(self.n)

    def _some(self, index: np.ndarray) -> tuple[Points, Any]:
        y = None if self.y is None else np.asarray(self.y)[index]
        if self.machine._precomputed:
            K = self.X if sp.issparse(self.X) else np.asarray(self.X)
            return K[index][:, index], y
        if isinstance(self.X, Partitions):
            index = np.sort(index)  # in which order they are taken
            y = None if self.y is None else np.asarray(self.y)[index]
        return take(as_points(self.X), index), y

    def trial(self, size: int) -> Trial | None:
        """A fit on so many points that takes the road of all; None where it fails."""
        X, y = self._some(self._order[:size])
        machine = _quiet(self.machine)
        known = machine.get_params(deep=False)
        for name, value in self.road.parameters.items():
            if name in known:
                setattr(machine, name, value)
        with warnings.catch_warnings(), memory.sharing(self._share(size)):
            warnings.simplefilter("ignore")
            seconds = np.inf
            for _ in range(3):
                begin = time.perf_counter()
                try:
                    machine.fit(X) if y is None else machine.fit(X, y)
                except (ValueError, ArithmeticError, MemoryError):
                    return None  # a class that is missing, fewer points than clusters
                seconds = min(seconds, time.perf_counter() - begin)
                if seconds > SHORT:
                    break
        return trial_of(size, seconds, getattr(machine, "run_", None))

    def _share(self, size: int) -> float:
        """Of the memory, with which so few points take the road of all.

        Kernel values grow with n², Φ with n, and what is made of its columns not at
        all: without room for that a trial would be solved in another way.
        """
        road = self.road
        if road.name not in ("features", "landmarks"):
            return (size / self.n) ** 2
        if road.kept >= 8.0 * road.n * road.wide:
            return 1.0  # there is room for all of Φ
        squares = SQUARES * 8.0 * road.columns**2 / memory.room_to_keep()
        return min(1.0, max(size / self.n, squares))

    @cached_property
    def trials(self) -> list[Trial]:
        return trials(self.road, self.trial) if self.known else []

    def plan(self, pilot: bool = False) -> Plan:
        notes = [] if self.known else [WITHOUT_Y]
        if self.known and not self.trials:
            notes.append(WITHOUT_TRIAL)
        plan = replace(made(self.name, self.road, self.trials, notes), n=self.n)
        if isinstance(self.X, Partitions):
            return self._elsewhere(plan)
        if not needs_way_out(plan):
            return plan
        ways = self._approximated(plan)
        if pilot and self.y is not None:
            ways = self._judged(ways)
        less = fewer_points(self.road, self.trials)
        return replace(plan, ways_out=(*ways, *([] if less is None else [less])))

    def _elsewhere(self, plan: Plan) -> Plan:
        """The plan with what workers do; time and memory are those of one process."""
        assert isinstance(self.X, Partitions)
        return replace(
            plan,
            holds=held_elsewhere(self.X),
            travels=travelling(self.road),
            notes=(*plan.notes, ALONE),
        )

    # Ways out

    def _changes(self) -> list[dict[str, Any]]:
        if "kernel" not in self.machine.get_params(deep=False):
            return []
        kernel = self.road.gram.given.kernel
        return [{"kernel": near} for near in approximations(kernel, self.n)]

    def _with(self, change: dict[str, Any]) -> _Planning:
        machine = _quiet(self.machine)
        for name in ("gamma", "degree", "coef0"):  # of the word that is replaced
            default = type(machine)().get_params().get(name)
            if name in machine.get_params(deep=False):
                setattr(machine, name, default)
        machine.set_params(**change)
        return _Planning(machine, self.X, self.y)

    def _approximated(self, plan: Plan) -> list[WayOut]:
        """The approximations that fit into memory and take less time."""
        ways: list[WayOut] = []
        for change in self._changes():
            other = self._with(change)
            if len(ways) == MOST or not memory.fits(memory_of(other.road)):
                continue
            found = made(self.name, other.road, other.trials)
            quicker = not plan.fits or found.seconds[1] < plan.seconds[0]
            if found.fits and quicker:
                ways.append(_way(change, found))
        return ways

    def by_memory(self) -> tuple[WayOut, ...]:
        """The approximations that fit into memory, their time without a fit."""
        plans = [(c, made(self.name, self._with(c).road)) for c in self._changes()]
        return tuple(_way(change, found) for change, found in plans if found.fits)

    def _judged(self, ways: list[WayOut]) -> list[WayOut]:
        """With what each loses on points that a pilot left out."""
        most = min(self.n, PILOT)
        held = int(LEFT_OUT * most)
        inside, outside = self._order[held:most], self._order[:held]
        if not hasattr(self.machine, "score") or self.machine._precomputed:
            return ways
        exact = self._score(self.machine, inside, outside)
        if exact is None:
            return ways
        judged = []
        for way in ways:
            score = self._score(self._with(way.parameters).machine, inside, outside)
            loss = None if score is None else exact - score
            judged.append(replace(way, loss=loss))
        return judged

    def _score(
        self, machine: Any, inside: np.ndarray, outside: np.ndarray
    ) -> float | None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                fitted = _quiet(machine).fit(*self._some(inside))
                return float(fitted.score(*self._some(outside)))
            except (ValueError, ArithmeticError, MemoryError):
                return None


def _way(change: dict[str, Any], plan: Plan) -> WayOut:
    near = change["kernel"]
    text = f"kernel={type(near).__name__}({near.kernel}, {near.size})"
    return WayOut(text, plan.seconds, plan.memory, parameters=change)


def _quiet(machine: Any) -> Any:
    """An unfitted copy that reports nothing, and starts afresh."""
    copied = clone(machine)
    known = copied.get_params(deep=False)
    for name, value in (("verbose", False), ("callback", None), ("warm_start", False)):
        if name in known:
            setattr(copied, name, value)
    return copied


def _stand_in(machine: Any, n: int) -> np.ndarray:
    """Targets where none are given, of which the road does not depend."""
    if is_classifier(machine):
        return np.arange(n) % 2
    return np.random.default_rng(0).normal(size=n)
