"""What the machines of the representer theorem share: a loss, a norm, an expansion.

A machine states a `Penalized` problem for each of its functions; from the points to
those problems, and from their solutions to f, the way is here.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import (
    check_is_fitted,
)

from mercer.data.points import Points, brief, count, same_value
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.ways import Precomputed
from mercer.machines.base import WORDS, Machine, check_squares
from mercer.machines.labels import (
    check_classes,
    class_factors,
    encoded,
)
from mercer.machines.progress import CallbackSupportMixin, Watcher, watching
from mercer.native import memory
from mercer.outcomes import Certificate, Solution, Status, together
from mercer.solvers.ball import within_ball
from mercer.solvers.newton import Newton
from mercer.solvers.penalized import Penalized, certificate, certified, unboxed
from mercer.solvers.smo import SMO

# Problems this small are solved to rounding, at next to no cost: then it does not show
# in what order the points came, or whether one counted twice or came twice.
SMALL = 256
ROUNDING = 1e-11
STEPS = 50_000

REPRESENTER_CONSTRAINTS: dict[str, list] = {
    "kernel": [StrOptions(set(WORDS)), Kernel, callable, None],
    "fit_intercept": ["boolean"],
    "tol": [Interval(Real, 0, None, closed="neither")],
    "max_iter": [Interval(Integral, -1, None, closed="left")],
    "warm_start": ["boolean"],
    "solver": [HasMethods("solve"), None],
    "verbose": ["verbose"],
    "callback": [callable, None],
}

_ENDED = (
    "{name} stopped after {solution.run.iterations} iterations with status "
    "{solution.status!r} and a gap of {solution.gap:.2g}, more than tol times the loss "
    "of f = 0. Scale the points, regularise more, or raise max_iter or tol."
)
_ROUNDED = (
    "{name} ended with a gap of {solution.gap:.2g}, known to {solution.rounding:.2g}: "
    "more than tol times the loss of f = 0. The problem is ill-conditioned, and "
    "rounding hides what is left. Scale the points, regularise more, or raise tol."
)


@dataclass(frozen=True, eq=False)
class FitData:
    """A fit that is ready: points that count, how often, and their targets."""

    gram: Gram
    index: np.ndarray  # places among the points given
    weight: np.ndarray
    target: np.ndarray
    given: tuple  # X, y and sample_weight, for callbacks


class RepresenterMachine(CallbackSupportMixin, Machine):
    """f = Σᵢ cᵢ k(xᵢ, ·) + b of least penalty and loss, by a `Penalized` problem."""

    _advice: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("max_iter", "stopped", "time_limit"), _ENDED),
        **dict.fromkeys(("stalled", "imprecise"), _ROUNDED),
        "indefinite": (
            "{name} met a negative eigenvalue: on these points the kernel is not "
            "positive semidefinite, and the solution is stationary at best. Choose "
            "another kernel, or `repair` the Gram matrix."
        ),
    }
    # The parameter of `regularization_path`, and whether more of it regularises more.
    _path: ClassVar[tuple[str, bool]] = ("reg", True)

    fit_intercept: bool
    tol: float
    max_iter: int
    warm_start: bool
    solver: Any
    verbose: Any
    callback: Any

    certificate_: Certificate
    n_iter_: int
    reg_: Any

    @abstractmethod
    def _targets(self, y: np.ndarray, index: np.ndarray, weight: np.ndarray):
        """The targets of the points that count, and by what their weights grow."""

    @abstractmethod
    def _problems(self, data: FitData) -> list[Penalized]:
        """What is to be solved."""

    def _names(self, n_problems: int) -> list[str]:
        """The problems as a reader knows them."""
        return [""] * n_problems

    # From data to problems

    def _fit_data(self, X, y, sample_weight) -> FitData:
        """X, y and the weights, checked once, with a kernel that learnt from them."""
        X, y = self._validated(X, y, y_numeric=is_regressor(self))
        if is_regressor(self):
            check_squares(self, y)
        counted = self._weighted_gram(X, sample_weight)
        target, factors = self._targets(y, counted.index, counted.weight)
        given = (X, y, sample_weight)
        weight = counted.weight * factors
        return FitData(counted.gram, counted.index, weight, target, given)

    def _learn(self, data: FitData, start: np.ndarray | None = None) -> None:
        """Solve the problems and keep what was found."""
        problems = self._problems(data)
        if len(problems) > 1:
            data = shared(data)
            problems = [replace(problem, gram=data.gram) for problem in problems]
        if start is None and self.warm_start:
            start = self._before(data)
        columns: Sequence[np.ndarray | None] = [None] * len(problems)
        if start is not None:
            start = start.reshape(len(start), -1)
            columns = np.array_split(start, len(problems), axis=1)
        names = self._names(len(problems))
        found, regs = [], []
        with watching(self, names, *data.given) as watcher:
            for problem, name, column in zip(problems, names, columns, strict=True):
                solution, reg = self._solve(problem, column, watcher, name)
                found.append(solution)
                regs.append(reg)
            self._store(data, problems, found, regs)
        self._warn_unless_optimal(self.certificate_)

    # From problems to solutions

    def _solve(
        self, problem: Penalized, start, watcher: Watcher | None, name: str
    ) -> tuple[Solution, float]:
        """The solution, and the reg that gave it."""
        if start is not None and not hasattr(problem.loss, "k"):
            start = start.reshape(-1)
        reporting: Any = nullcontext() if watcher is None else watcher.problem(name)
        with reporting as watch:
            solve = self._newton if problem.loss.curved else self._box
            if problem.norm is None:
                return solve(problem, start, watch, self.tol), float(problem.reg or 0)
            found = within_ball(
                problem,
                # The gap of the ball is made of that of the problem and of the norm.
                lambda part, near: solve(part, near, watch, self.tol / 4),
                self.tol,
                start,
            )
            return found.solution, found.reg

    def _newton(self, problem: Penalized, start, watch, tol: float) -> Solution:
        most = 100 if self.max_iter < 0 else self.max_iter
        seed = getattr(self, "random_state", None)
        seed = seed if isinstance(seed, Integral) else 0
        solver = self.solver or Newton(tol, most, seed=int(seed))
        return solver.solve(problem, start=start, watch=watch)

    def _box(self, problem: Penalized, start, watch, tol: float) -> Solution:
        """The dual of straight pieces by SMO, until the gap is small enough."""
        box = problem.boxed()
        near = None if start is None else box.start(start)
        low, high = problem.loss.slopes(problem.target)
        goal = tol * problem.zero_loss
        # gap ≤ violation · (largest - least slope), up to rounding.
        close = max(goal, 1e-300) / float(np.max(high - low))
        if self.solver is not None:
            found = self.solver.solve(box, start=near, watch=watch)
            return unboxed(problem, found)
        if len(box) <= SMALL:
            size = max(1.0, np.abs(box.linear).max())
            budget = STEPS if self.max_iter < 0 else self.max_iter
            fine = SMO(min(close, ROUNDING * size), None, budget, precision="double")
            found = unboxed(problem, fine.solve(box, start=near, watch=watch))
            close_enough = found.gap + found.objective_rounding <= goal
            if found.status in ("max_iter", "stalled", "imprecise") and close_enough:
                found = found.ended(Status.OPTIMAL)
            if (found.status == "optimal" and close_enough) or self.max_iter >= 0:
                return found
            near = found.value
        solver = SMO(close, None, self.max_iter)
        found = unboxed(problem, solver.solve(box, start=near, watch=watch))
        if found.status == "imprecise" and found.gap + found.objective_rounding <= goal:
            found = found.ended(Status.OPTIMAL)
        for _ in range(3):
            if (
                found.status != "optimal"
                or found.gap + found.objective_rounding <= goal
            ):
                break
            solver = replace(solver, tol=solver.tol / 10, precision="double")
            near = found.value
            found = unboxed(problem, solver.solve(box, start=near, watch=watch))
        if (
            found.status == "optimal"
            and not found.gap + found.objective_rounding <= goal
        ):
            return found.ended(Status.IMPRECISE)
        return found

    # From solutions to f

    def _store(self, data: FitData, problems, found: Sequence[Solution], regs) -> None:
        """Set what was learnt."""
        coef = np.column_stack([solution.value for solution in found])
        bias = np.concatenate([np.atleast_1d(solution.bias) for solution in found])
        if coef.shape[1] == 1:
            coef, bias = coef[:, 0], bias[0]
        # Kernel values of new points come with them: no need for the old ones.
        kernel = Precomputed() if self._precomputed else data.gram.kernel
        whole = Expansion(kernel, data.gram.X, coef, bias)
        if self.warm_start:  # all points are kept
            whole = replace(whole, points=self._own(whole.points, data.given[0]))
        pruned = whole.pruned()
        if not self.warm_start:
            points = self._own(pruned.points, data.given[0])
            pruned = replace(pruned, points=points)
        self.expansion_ = pruned
        used = np.flatnonzero(coef.reshape(len(coef), -1).any(axis=1))
        self.support_ = data.index[used]
        self.certificate_ = together(
            [certificate(*pair) for pair in zip(problems, found, strict=True)]
        )
        self.run_ = self.certificate_.run
        self.n_iter_ = max(1, max(solution.run.iterations for solution in found))
        self.reg_ = regs[0] if len(regs) == 1 else np.array(regs)
        self.__dict__.pop("_last", None)
        if self.warm_start:
            self._last = whole

    def _before(self, data: FitData) -> np.ndarray | None:
        """coef of the last fit, if it was of these points."""
        last = getattr(self, "_last", None)
        if last is None or not _same(last.points, data.gram.X):
            return None
        columns = sum(getattr(p.loss, "k", 1) for p in self._problems(data))
        return last.coef if last.n_outputs == columns else None

    @property
    def dual_coef_(self) -> np.ndarray:
        """c at the points `support_`: (s,), or a column for each function."""
        return self.expansion_.coef

    @property
    def intercept_(self):
        """b, a number, or one for each function."""
        return self.expansion_.bias

    def certify(self, X: Points, y, sample_weight=None) -> Certificate:
        """The certificate of f, recomputed in float64 from the training data alone.

        Parameters
        ----------
        X, y, sample_weight : as they were given to `fit`
        """
        check_is_fitted(self)
        X = self._validated_points(X, reset=False)
        # On a copy: checking data sets attributes.
        data = copy.copy(self)._fit_data(X, y, sample_weight)
        f, problems = self.expansion_, self._problems(data)
        coef = np.zeros((count(X), f.n_outputs))
        coef[self.support_] = f.coef.reshape(-1, f.n_outputs)
        columns = np.array_split(coef[data.index], len(problems), axis=1)
        biases = np.array_split(np.atleast_1d(f.bias), len(problems))
        regs = np.broadcast_to(self.reg_, len(problems))
        return together(
            [
                certified(problem, column, bias, float(reg))
                for problem, column, bias, reg in zip(
                    problems, columns, biases, regs, strict=True
                )
            ]
        )


def shared(data: FitData) -> FitData:
    """The same with K in memory, where several problems would each compute it anew."""
    gram = data.gram
    if isinstance(gram.kernel, Precomputed) or gram._matrix is not None:
        return data
    if not memory.keeps(8.0 * gram.shape[0] ** 2):
        return data
    held = Gram(gram.kernel, gram.X, block_mb=gram.block_mb)
    held._matrix = gram.double().dense()
    return replace(data, gram=held)


def classes_and_sides(machine, y, index, weight, weighted: bool = False):
    """The classes, the number of each point's class, and what each class counts."""
    check_classes(machine, y)
    present = y[index]
    classes, label = encoded(machine, present)
    factors = np.ones(len(classes))
    if weighted:
        factors = class_factors(machine, classes.names, present, weight)
    return classes.names, label, factors[label]


def regularization_path(
    machine: RepresenterMachine, X: Points, y, values, sample_weight=None
) -> list[RepresenterMachine]:
    """The machine fitted with each value of its reg (or C), each from its neighbour.

    The points are checked and the kernel learns from them once; fits go from the
    strongest regularisation to the weakest, whatever the order of the values.

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
    data = shared(first._fit_data(X, y, sample_weight))
    fitted: list[Any] = [None] * len(values)
    start = None
    for i in np.argsort(-values if more else values, kind="stable"):
        fitted[i] = copy.copy(first).set_params(**{name: float(values[i])})
        fitted[i]._learn(data, start)
        start = np.zeros((len(data.index), fitted[i].expansion_.n_outputs))
        places = np.searchsorted(data.index, fitted[i].support_)
        start[places] = fitted[i].expansion_.coef.reshape(len(places), -1)
    return fitted


def _numbers(values) -> np.ndarray:
    """The values as an array; of what is no list of numbers, one that is refused."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        return np.array(np.nan)


def _same(X, Y) -> bool:
    """Whether two sets of points are the same, by value."""
    return type(X) is type(Y) and count(X) == count(Y) and same_value(X, Y)
