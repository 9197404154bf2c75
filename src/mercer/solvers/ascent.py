"""Learning parameters of a kernel by gradients: which are free, and the way uphill.

A positive parameter moves on a logarithmic scale, all within bounds; the search is
L-BFGS (Byrd, Lu, Nocedal and Zhu, 1995), from one start or several.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from mercer.data.checks import brief
from mercer.kernels.base import Kernel
from mercer.outcomes import Progress, Run, Status, Watch

SMALLEST, LARGEST = 1e-5, 1e5  # bounds of positive parameters, where none are given
WORDS = (("objective", "objective"), ("violation", "largest slope"))


class Slot(NamedTuple):
    """A free parameter: its entries in θ, and which entries of a list they are."""

    name: str
    place: slice
    log: bool
    entries: np.ndarray | None  # None where the parameter is one number


@dataclass(eq=False)
class FreeParameters:
    """The parameters of a kernel that are learnt, as one vector θ.

    Parameters
    ----------
    kernel : with all its parameters, which are where the search starts
    bounds : for the names of some parameters (low, high), or a pair for each entry of
        a list, or "fixed"; others are within 1e-5 and 1e5, where they may be. Those
        that a kernel does not mean to be learnt, such as the order of a Matern, are
        held unless they are named here
    extra : further positive numbers that are learnt, by name, such as a noise

    Examples
    --------
    >>> from mercer import Constant, RBF
    >>> from mercer.solvers.ascent import FreeParameters
    >>> free = FreeParameters(2 * RBF(0.5), {"factor": "fixed"})
    >>> free.names, free.start.round(3).tolist()
    (['kernel__gamma'], [-0.693])
    """

    kernel: Kernel
    bounds: Mapping[str, Any] | None = None
    extra: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.slots: list[Slot] = []
        self._check_names()
        starts: list[np.ndarray] = []
        ends: list[np.ndarray] = []
        for name, setting, allowed, learnt in self._candidates():
            given = (self.bounds or {}).get(name)
            fixed = isinstance(given, str) and given == "fixed"
            if fixed or (given is None and not learnt):
                continue
            start, log = np.atleast_1d(np.asarray(setting, dtype=float)), not allowed[0]
            chosen = start > 0 if log else np.full(len(start), True)
            if not chosen.any():
                continue
            limits = self._limits(name, start, allowed, given)[chosen]
            first = sum(map(len, starts))
            entries = np.flatnonzero(chosen) if np.ndim(setting) else None
            place = slice(first, first + int(chosen.sum()))
            self.slots.append(Slot(name, place, log, entries))
            starts.append(np.log(start[chosen]) if log else start[chosen])
            with np.errstate(divide="ignore"):
                ends.append(np.log(limits) if log else limits)
        self.start = np.concatenate(starts) if starts else np.zeros(0)
        self.box = np.concatenate(ends) if ends else np.zeros((0, 2))

    def _candidates(self) -> Iterator[tuple[str, Any, tuple[float, float], bool]]:
        settings = self.kernel.get_params()
        for name, allowed in self.kernel.smooth_parameters().items():
            yield name, settings[name], (allowed.low, allowed.high), allowed.learnt
        for name, setting in self.extra.items():
            yield name, setting, (0.0, math.inf), True

    def _check_names(self) -> None:
        bounds, known = self.bounds, [name for name, *_ in self._candidates()]
        if bounds is not None and not isinstance(bounds, Mapping):
            raise TypeError(
                "bounds are given for parameters by name, as {'gamma': (0.01, 10)}; "
                f"got {brief(bounds)}."
            )
        for name in bounds or {}:
            if name not in known:
                raise ValueError(
                    f"bounds name the parameter {name!r}, which {self.kernel} does not "
                    f"learn; it has {', '.join(known) or 'none'}."
                )

    def _limits(
        self, name: str, start: np.ndarray, allowed: tuple[float, float], given: Any
    ) -> np.ndarray:
        """(p, 2) bounds of the entries of a parameter."""
        low, high = allowed
        if given is None and low == 0:
            ends = [np.minimum(start, SMALLEST), np.maximum(start, LARGEST)]
            return np.column_stack([ends[0], np.minimum(ends[1], high)])
        try:
            pairs = np.array(allowed if given is None else given, dtype=float)
            pairs = np.broadcast_to(pairs, (len(start), 2))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"The bounds of {name} are a pair (low, high), or 'fixed'; got "
                f"{brief(given)}."
            ) from error
        if np.isnan(pairs).any():
            raise ValueError(f"The bounds of {name} are numbers; got {brief(given)}.")
        if not (pairs[:, 0] <= pairs[:, 1]).all():
            raise ValueError(
                f"The bounds of {name} must not be reversed, low ≤ high; got "
                f"{brief(given)}."
            )
        if (
            (pairs < low).any()
            or (pairs > high).any()
            or (low == 0 and not pairs.all())
        ):
            raise ValueError(
                f"{name} is a number from {low:g} to {high:g}, and its bounds are too"
                f"{', but for 0' if low == 0 else ''}; got {brief(given)}."
            )
        return pairs

    @property
    def names(self) -> list[str]:
        """Of the free parameters, a list of numbers counted once."""
        return [slot.name for slot in self.slots]

    def settings(self, theta: np.ndarray) -> dict[str, Any]:
        """The parameters at θ."""
        known = self.kernel.get_params() | dict(self.extra)
        found: dict[str, Any] = {}
        for slot in self.slots:
            part = np.asarray(theta, dtype=float)[slot.place]
            numbers = np.exp(part) if slot.log else part
            if slot.entries is None:
                found[slot.name] = float(numbers[0])
                continue
            every = np.array(known[slot.name], dtype=float)
            every[slot.entries] = numbers
            kind = type(known[slot.name])
            found[slot.name] = every if kind is np.ndarray else kind(every.tolist())
        return found

    def at(self, theta: np.ndarray) -> tuple[Kernel, dict[str, float]]:
        """The kernel at θ, and the extra numbers there."""
        settings = self.settings(theta)
        extra = {name: settings.pop(name, old) for name, old in self.extra.items()}
        kernel = self.kernel.copied()
        return (kernel.set_params(**settings) if settings else kernel), extra

    def gradient(self, theta: np.ndarray, slopes: Mapping[str, Any]) -> np.ndarray:
        """The derivative by θ, from those by the parameters."""
        out = np.empty(len(self.start))
        for slot in self.slots:
            slope = np.atleast_1d(np.asarray(slopes[slot.name], dtype=float))
            slope = slope if slot.entries is None else slope[slot.entries]
            scale = np.exp(theta[slot.place]) if slot.log else 1.0
            out[slot.place] = slope * scale
        return out


class Step(NamedTuple):
    """One evaluation on the way: where, what there, and how steep."""

    theta: np.ndarray
    value: float
    slope: float


@dataclass(frozen=True, eq=False)
class Ascended:
    """The highest point found, the way there, and what it took."""

    theta: np.ndarray
    value: float
    curve: list[Step]
    run: Run


class _Stopped(Exception):
    pass


@dataclass
class _Way:
    """The evaluations of an ascent, which a watch may end."""

    objective: Callable[[np.ndarray], tuple[float, np.ndarray]]
    watch: Watch | None
    curve: list[Step] = field(default_factory=list)
    begin: float = field(default_factory=time.perf_counter)

    def __call__(self, theta: np.ndarray, eval_gradient: bool = True) -> Any:
        value, slope = self.objective(np.asarray(theta, dtype=float))
        steepest = float(np.abs(slope).max(initial=0.0))
        self.curve.append(Step(np.array(theta, dtype=float), value, steepest))
        if self.watch is not None:
            progress = Progress(
                len(self.curve), len(self.curve), 0, time.perf_counter() - self.begin,
                violation=steepest, objective=value, words=WORDS, unit="evaluation",
            )  # fmt: skip
            if self.watch(progress):
                raise _Stopped
        return (-value, -slope) if eval_gradient else -value


@dataclass(frozen=True)
class Ascent:
    """Maximise a smooth function of the parameters within bounds.

    Parameters
    ----------
    optimizer : "fmin_l_bfgs_b" for L-BFGS, or a function of (function, start, bounds)
        that returns a point and its value: function(θ, eval_gradient=True) is what it
        minimises, with its gradient
    restarts : further starts, drawn uniformly within the bounds
    max_iter : steps of L-BFGS from each start
    """

    optimizer: Any = "fmin_l_bfgs_b"
    restarts: int = 0
    max_iter: int = 15000

    def solve(
        self,
        problem: Any,
        *,
        rng: np.random.RandomState | None = None,
        watch: Watch | None = None,
    ) -> Ascended:
        """The best of all starts; `problem` has `free` parameters and `objective`."""
        free: FreeParameters = problem.free
        way = _Way(problem.objective, watch)
        status = Status.OPTIMAL
        try:
            for start in self._starts(free, rng):
                status = self._from(way, start, free.box)
        except _Stopped:
            status = Status.STOPPED
        best = max(way.curve, key=lambda step: step.value)
        seconds = time.perf_counter() - way.begin
        run = Run(status, len(way.curve), seconds)
        return Ascended(best.theta, best.value, way.curve, run)

    def _starts(
        self, free: FreeParameters, rng: np.random.RandomState | None
    ) -> Sequence[np.ndarray]:
        low, high = free.box.T
        starts = [np.clip(free.start, low, high)]
        if self.restarts and not np.isfinite(free.box).all():
            raise ValueError(
                "Multiple optimizer restarts (n_restarts_optimizer>0) requires that "
                "all bounds are finite. Name bounds for the parameters."
            )
        rng = rng or np.random.RandomState(0)
        return starts + [rng.uniform(low, high) for _ in range(self.restarts)]

    def _from(self, way: _Way, start: np.ndarray, bounds: np.ndarray) -> Status:
        if callable(self.optimizer):
            theta, _ = self.optimizer(way, start, bounds=bounds)
            way(np.asarray(theta, dtype=float))
            return Status.OPTIMAL
        if self.optimizer != "fmin_l_bfgs_b":
            raise ValueError(f"Unknown optimizer {self.optimizer}.")
        if not len(start):
            way(start)
            return Status.OPTIMAL
        options = {"maxiter": self.max_iter}
        found = minimize(
            way, start, method="L-BFGS-B", jac=True, bounds=bounds, options=options
        )
        return Status.MAX_ITER if found.status == 1 else Status.OPTIMAL
