"""What the machines of a loss and a norm share: from data to problems, and to f.

A machine states a `Penalized` problem for each of its functions.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer.data.checks import brief
from mercer.data.points import Points, count
from mercer.kernels.base import Kernel
from mercer.machines.base import FitData, Machine, biases, dual_rows
from mercer.machines.checks import TIME_LIMIT
from mercer.machines.labels import check_same
from mercer.machines.progress import CallbackSupportMixin, reporting, watching
from mercer.machines.words import WORDS
from mercer.machines.wrappers import timed
from mercer.multiclass import Classes
from mercer.native.clock import seconds_left
from mercer.outcomes import Certificate, together
from mercer.solvers.auto import AutoPenalized, held_for_many
from mercer.solvers.limits import Shares, TimeLimit
from mercer.solvers.penalized import Penalized, certificate, certified
from mercer.solvers.roads import Road

REG = 1e-3
CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [StrOptions(set(WORDS)), Kernel, callable, None],
    "fit_intercept": ["boolean"],
    "tol": [Interval(Real, 0, None, closed="neither")],
    "max_iter": [Interval(Integral, -1, None, closed="left")],
    "warm_start": ["boolean"],
    "solver": [HasMethods("solve"), None],
    "verbose": ["verbose"],
    "callback": [callable, None],
    "time_limit": TIME_LIMIT,
}


class RepresenterMachine(CallbackSupportMixin, Machine):
    """f = Σᵢ cᵢ k(xᵢ, ·) + b of least penalty and loss, by a `Penalized` problem."""

    _streams: ClassVar[bool] = True
    _solves_partitions: ClassVar[bool] = True
    # The parameter of `regularization_path`, and whether more of it regularises more.
    _path: ClassVar[tuple[str, bool]] = ("reg", True)

    fit_intercept: bool
    tol: float
    max_iter: int
    warm_start: bool
    solver: Any
    verbose: Any
    callback: Any
    time_limit: float | None

    classes_: np.ndarray  # of classifiers
    certificate_: Certificate
    support_: np.ndarray
    n_iter_: int
    reg_: Any
    _places: np.ndarray  # of the points of `support_` among those that counted

    @abstractmethod
    def _prepared(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None, **checks: Any
    ) -> FitData:
        """The data of a fit, checked."""

    @abstractmethod
    def _problems(self, data: FitData) -> list[Penalized]:
        """What is to be solved: one problem, or one for each class."""

    def _numeric_data(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None, **checks: Any
    ) -> FitData:
        data = self._fit_data(X, y, sample_weight, y_numeric=True, **checks)
        return replace(data, target=data.target.astype(float))

    def _problem(
        self,
        data: FitData,
        target: np.ndarray,
        loss: Any,
        reg: float | None,
        norm: float | None = None,
    ) -> Penalized:
        weight, bias = data.weight, self.fit_intercept
        return Penalized(data.gram, target, loss, reg, norm, weight, bias)

    def _solver(self) -> AutoPenalized:
        seed = getattr(self, "random_state", None)
        seed = int(seed) if isinstance(seed, Integral) else 0
        return AutoPenalized(self.tol, self.max_iter, self.solver, seed)

    def _road(self, X: Points, y: Any) -> Road:
        return self._solver().road(self._problems(self._prepared(X, y, None)))

    def _learn(self, data: FitData, start: np.ndarray | None = None) -> None:
        """Solve the problems and keep what was found."""
        problems = self._problems(data)
        several = len(problems) > 1
        self._check_room(lambda: self._solver().road(problems), data.gram.shape[0])
        if several:
            curved = all(problem.loss.curved for problem in problems)
            gram = held_for_many(data.gram, by_map=curved and self.solver is None)
            problems = [replace(problem, gram=gram) for problem in problems]
        if start is None and self.warm_start:
            start = self._before(data, problems)
        starts = [None] * len(problems) if start is None else _columns(problems, start)
        names = Classes(self.classes_).problems() if several else [""]
        solver = self._solver()
        with watching(self, names, *data.given) as watcher:

            def solve(j: int, seconds: float | None, before: Any) -> Any:
                near = starts[j] if before is None else before.value
                limited = replace(solver, time_limit=seconds)
                with reporting(watcher, names[j]) as watch:
                    found = limited.solve(problems[j], start=near, watch=watch)
                if before is None:
                    return found
                return replace(found, run=found.run.after(before.run))

            sizes = np.ones(len(problems))
            found = Shares(seconds_left(), sizes).solve(solve)
            self._store(data, problems, found)
        self._warn_unless_optimal(self.certificate_)

    def _before(
        self, data: FitData, problems: Sequence[Penalized]
    ) -> np.ndarray | None:
        """coef of the last fit at these points, 0 at new ones; None to start afresh."""
        f = self._of_points if hasattr(self, "expansion_") else None
        width = sum(getattr(problem.loss, "k", 1) for problem in problems)
        if f is None or f.n_outputs != width:
            return None
        rows = f.coef.reshape(-1, width)
        return self._carried(f, rows, data.gram.X, self._places)

    def _store(
        self, data: FitData, problems: Sequence[Penalized], found: Sequence[Any]
    ) -> None:
        """Set what was learnt."""
        columns = [solution.value.reshape(data.gram.shape[0], -1) for solution in found]
        coef = columns[0] if len(columns) == 1 else np.column_stack(columns)
        bias = np.concatenate([np.atleast_1d(solution.bias) for solution in found])
        used = np.flatnonzero(coef.any(axis=1))
        kept, level = (coef, bias) if coef.shape[1] > 1 else (coef[:, 0], bias[0])
        X = data.given[0]
        f = self._expanded(data.gram, X, kept[used], level, used)
        weights = None
        if all(solution.weights is not None for solution in found):
            weights = np.column_stack([solution.weights for solution in found])
            weights = weights if coef.shape[1] > 1 else weights[:, 0]
        self.expansion_ = self._on_landmarks(f, kept[used], weights)
        self._places, self.support_ = used, data.index[used]
        pairs = list(zip(problems, found, strict=True))
        self.certificate_ = together([certificate(*pair) for pair in pairs])
        self.run_ = self.certificate_.run
        self.n_iter_ = max(1, max(solution.run.iterations for solution in found))
        regs = [float(s.reg if p.reg is None else p.reg) for p, s in pairs]
        self.reg_ = regs[0] if len(regs) == 1 else np.array(regs)

    @property
    def dual_coef_(self) -> np.ndarray:
        """c at the points `support_`, (q, s): a row for each function."""
        return dual_rows(self._of_points)

    @property
    def intercept_(self) -> np.ndarray:
        """b, one for each function."""
        return biases(self.expansion_)

    def certify(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None = None
    ) -> Certificate:
        """The certificate of f, recomputed in float64 from the training data alone.

        Parameters
        ----------
        X, y, sample_weight : as they were given to `fit`
        """
        check_is_fitted(self)
        machine = copy.copy(self)  # checking data sets attributes
        data = machine._prepared(X, y, sample_weight, reset=False)
        check_same(self, count(data.given[0]), vars(machine).get("classes_"))
        f, problems = self._of_points, machine._problems(data)
        coef = np.zeros((count(data.given[0]), f.n_outputs))
        coef[self.support_] = f.coef.reshape(-1, f.n_outputs)
        columns = np.array_split(coef[data.index], len(problems), axis=1)
        constants = np.array_split(self.intercept_, len(problems))
        regs = np.broadcast_to(self.reg_, len(problems)).tolist()
        parts = zip(problems, columns, constants, regs, strict=True)
        return together([certified(*part) for part in parts])


def _columns(problems: Sequence[Penalized], start: np.ndarray) -> list[np.ndarray]:
    """The coefficients to start from, those of each problem as it takes them."""
    columns = np.array_split(start, len(problems), axis=1)
    return [
        part if hasattr(problem.loss, "k") else part.reshape(-1)
        for problem, part in zip(problems, columns, strict=True)
    ]


def regularization_path(
    machine: RepresenterMachine,
    X: Points,
    y: Any,
    values: npt.ArrayLike,
    sample_weight: npt.ArrayLike | None = None,
) -> list[RepresenterMachine]:
    """The machine fitted with each value of its reg (or C), each from its neighbour.

    The points are checked and the kernel learns from them once; fits go from the
    strongest regularisation to the weakest, whatever the order of the values. They
    share the machine's `time_limit`: what one does not need is for those after it.

    Parameters
    ----------
    machine : a `RegularizedMachine` without norm, a `KernelLogisticRegression`, ...
    values : of `reg`, or of `C` where the machine has that

    Examples
    --------
    >>> from mercer import KernelLogisticRegression
    >>> from mercer.machines import regularization_path
    >>> X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0]
    >>> path = regularization_path(KernelLogisticRegression(), X, y, [0.1, 1, 10])
    >>> norms = [machine.expansion_.norm() for machine in path]
    >>> [machine.C for machine in path], bool(norms[0] < norms[1] < norms[2])
    ([0.1, 1.0, 10.0], True)
    """
    if not isinstance(machine, RepresenterMachine):
        kind = machine.__name__ if isinstance(machine, type) else type(machine).__name__
        raise TypeError(
            "regularization_path fits a RegularizedMachine, KernelLogisticRegression, "
            "KernelQuantileRegression or KernelHuberRegression for many values; got "
            f"{kind}. Fit other machines once for each value."
        )
    name, more = machine._path
    given, values = values, _numbers(values)
    if values.ndim != 1 or not np.all(values > 0):
        raise ValueError(
            f"regularization_path needs values of {name}, numbers > 0; got "
            f"{brief(given)}."
        )
    first = clone(machine)
    first._validate_params()
    limit = TimeLimit(None, first.time_limit)
    with timed(first):
        data = first._prepared(X, y, sample_weight)
        curved = all(problem.loss.curved for problem in first._problems(data))
        by_map = curved and first.solver is None
        data = replace(data, gram=held_for_many(data.gram, by_map))
    fitted: list[Any] = [None] * len(values)
    start = None
    order = np.argsort(-values if more else values, kind="stable")
    for done, i in enumerate(order):
        fitted[i] = copy.copy(first).set_params(**{name: float(values[i])})
        with timed(fitted[i], limit.share(1 / (len(values) - done))):
            fitted[i]._learn(data, start)
        start = np.zeros((len(data.index), fitted[i].expansion_.n_outputs))
        start[fitted[i]._places] = fitted[i].dual_coef_.T
    return fitted


def _numbers(values: npt.ArrayLike) -> np.ndarray:
    """The values as an array; of what is no list of numbers, one that is refused."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        return np.array(np.nan)
