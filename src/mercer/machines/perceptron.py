"""Perceptrons: Perceptron in the primal, KernelPerceptron on points of any kind.

The rule, its passes and its papers are in `mercer.solvers.perceptron`; the bound on the
mistakes is `mercer.theory.mistake_bound`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import check_is_fitted

from mercer.data.parts import Parts
from mercer.data.points import Points, concatenate, count, double, take
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.kernels.base import BLOCK_MB, Kernel, row_blocks
from mercer.kernels.nystrom import Nystrom
from mercer.kernels.operators import Constant, without_constant
from mercer.kernels.vector import Linear
from mercer.kernels.ways import Precomputed
from mercer.machines.base import (
    KernelSum,
    Machine,
    biases,
    of_weights,
    on_landmarks,
)
from mercer.machines.checks import TIME_LIMIT, checked_parameters
from mercer.machines.labels import (
    available_if,
    check_classes,
    check_columns,
    check_known,
    check_two,
    classes_of,
)
from mercer.machines.progress import CallbackSupportMixin, reporting, watching
from mercer.machines.words import WORDS
from mercer.maps import ColumnIndex, explicit
from mercer.multiclass import Classes
from mercer.native.clock import seconds_left
from mercer.native.interruptible import multiply
from mercer.native.sorting import distinct
from mercer.outcomes import Watch
from mercer.solvers.auto import steps_on_features
from mercer.solvers.limits import TimeLimit, solve_within
from mercer.solvers.perceptron import (
    PerceptronProblem,
    PerceptronRule,
    PerceptronSolution,
    Weights,
)
from mercer.solvers.roads import Road, on_map

VARIANTS = {"plain", "averaged", "voted"}

_COMMON_CONSTRAINTS: dict[str, list[Any]] = {
    "fit_intercept": ["boolean"],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "shuffle": ["boolean"],
    "random_state": ["random_state"],
    "warm_start": ["boolean"],
    "verbose": ["verbose"],
    "callback": [callable, None],
    "time_limit": TIME_LIMIT,
}


NO_STREAM = (
    "Kernel values that come with their points cannot go on: those against earlier "
    "points are missing. Use kernel=Precomputed(matrix), whose points are indices."
)


def _takes_more(machine: Machine) -> bool:
    """Whether earlier points can be compared with later ones."""
    if machine._precomputed:
        raise AttributeError(NO_STREAM)
    return True


def _later(first: PerceptronSolution, second: PerceptronSolution) -> PerceptronSolution:
    """Mistakes on points that have the numbers of both already."""
    return first.then(second, 0)


class MistakeDriven(CallbackSupportMixin, ClassifierMixin, Machine):
    """f changes where it is wrong: classes as sides, `fit`, and the mistakes."""

    fit_intercept: bool
    max_iter: int
    shuffle: bool
    random_state: Any
    warm_start: bool
    verbose: Any
    callback: Any
    time_limit: float | None

    classes_: np.ndarray
    n_iter_: int
    _calls: Parts[PerceptronSolution]  # of all calls
    _handed: int  # points given to it so far

    _advice: ClassVar[dict[str, str]] = {
        "max_iter": (
            "Every pass made mistakes: the classes are not separated, and may not be "
            "separable. Raise max_iter, choose a richer kernel, or let all that was "
            'learnt on the way decide (variant="averaged").'
        ),
    }

    @abstractmethod
    def _learn(
        self,
        X: Points,
        y: np.ndarray,
        classes: np.ndarray,
        solver: PerceptronRule,
        goes_on: bool,
    ) -> PerceptronSolution:
        """Solve, and set what was learnt; from the last f if it goes on."""

    @checked_parameters
    def fit(self, X: Points, y: Any) -> Self:
        """Learn f from the points X and their classes y; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : n classes, numbers or strings
        """
        goes_on = self.warm_start and hasattr(self, "_calls")
        if goes_on and self._precomputed:
            raise ValueError(NO_STREAM)
        X, y = self._validated(X, y, reset=not goes_on)
        check_classes(self, y)
        classes = self.classes_ if goes_on else classes_of(y)[0]
        check_two(self, classes)
        check_columns(self, len(classes), len(y))
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        solver = PerceptronRule(self.max_iter, shuffle=self.shuffle, seed=seed)
        check_known(self, y, classes)
        found = self._learn(X, y, classes, solver, goes_on)
        self._warn_unless_optimal(found)
        return self

    def _road(self, X: Points, y: Any) -> Road:
        X, y = self._validated(X, y)
        check_two(self, classes_of(y)[0])
        gram = self._weighted_gram(X, None).gram
        if "kernel" not in self.get_params(deep=False):
            return on_map(gram, None)
        return Road("rows", gram)

    @available_if(_takes_more)
    @checked_parameters
    def partial_fit(
        self, X: Points, y: Any, classes: npt.ArrayLike | None = None
    ) -> Self:
        """Go on with one pass over more points, as they come; returns self.

        Points that are refused leave it as it was.

        Parameters
        ----------
        X : n points
        y : n classes
        classes : all there will be; needed in the first call
        """
        goes_on = hasattr(self, "_calls")
        X, y = self._validated(X, y, reset=not goes_on)
        check_classes(self, y)
        classes = self._classes_given(classes)
        check_columns(self, len(classes), len(y))
        solver = PerceptronRule(max_iter=1)
        check_known(self, y, classes)
        self._learn(X, y, classes, solver, goes_on)
        return self

    def _classes_given(self, classes: npt.ArrayLike | None) -> np.ndarray:
        """The classes of a `partial_fit`: named in the first call, known afterwards."""
        known = getattr(self, "classes_", None)
        if classes is None:
            if known is None:
                raise ValueError(
                    "classes must be passed on the first call to partial_fit."
                )
            return known
        named = unique_labels(classes)
        check_two(self, named)
        if known is not None and not np.array_equal(known, named):
            raise ValueError(
                f"`classes={classes!r}` is not the same as on last call to "
                f"partial_fit, was: {known!r}"
            )
        return named

    # What was missed

    @property
    def _mistakes(self) -> PerceptronSolution:
        """All mistakes so far."""
        return self._calls.whole()

    def _remember(
        self, found: PerceptronSolution, n: int, classes: np.ndarray, goes_on: bool
    ) -> None:
        """Keep what was found on n more points; their numbers go on."""
        handed = self._handed if goes_on else 0
        later = replace(found, point=found.point + handed)
        calls = self._calls if goes_on else Parts(_later)
        self._calls = calls.with_more(later)
        self._handed, self.classes_ = handed + n, classes
        self.run_, self.n_iter_ = found.run, found.run.iterations

    @property
    def mistakes_(self) -> np.ndarray | list[np.ndarray]:
        """Points in the order in which they were missed; a list of them per class."""
        found = self._mistakes
        if found.n_outputs == 1:
            return found.point
        return [found.point[found.column == c] for c in range(found.n_outputs)]

    @property
    def n_mistakes_(self) -> int | np.ndarray:
        """M, how many mistakes there were; (k,) of them for k > 2 classes."""
        found = self._mistakes
        many = np.bincount(found.column, minlength=found.n_outputs)
        return int(many[0]) if found.n_outputs == 1 else many

    @property
    def mistake_curve_(self) -> np.ndarray:
        """Mistakes made until each point seen, (T,), or (T, k) for k > 2 classes."""
        curve = self._mistakes.curve()
        return curve[:, 0] if curve.shape[1] == 1 else curve

    def _chosen(self, values: np.ndarray) -> np.ndarray:
        """The classes that the values of f speak for."""
        return Classes(self.classes_).chosen(values)


@dataclass(frozen=True, eq=False)
class _Support:
    """Points that were missed, and their numbers."""

    points: Points
    number: np.ndarray

    def __len__(self) -> int:
        return len(self.number)

    def then(self, later: _Support) -> _Support:
        """These points, and those after them."""
        if not len(self):
            return later
        points = concatenate(self.points, later.points)
        return _Support(points, np.concatenate([self.number, later.number]))


@dataclass(eq=False)
class _Made:
    """f of the mistakes, on the points that were missed."""

    kernel: Kernel
    supports: Parts[_Support]
    calls: Parts[PerceptronSolution]
    averages: bool
    primal: _Primal | None = None  # where f is kept on features

    @cached_property
    def on_points(self) -> Expansion:
        support = self.supports.whole()
        coef = self.calls.whole().coef(support.number, self.averages)
        coef = coef[:, 0] if coef.shape[1] == 1 else coef
        return Expansion(self.kernel, support.points, coef)

    @cached_property
    def expansion(self) -> Expansion:
        primal = self.primal
        if primal is not None and isinstance(primal.kernel, Nystrom):
            return of_weights(primal.kernel, *primal.now(self.averages))
        return on_landmarks(self.on_points)


@dataclass(frozen=True, eq=False)
class _Primal:
    """w on the columns of an explicit map: f(x) = ⟨w, φ(x)⟩ + constant · bias."""

    kernel: Kernel  # without its constant
    columns: ColumnIndex
    weights: Weights

    def values(self, X: Points, averaged: bool) -> np.ndarray:
        """f at m points, (m, q)."""
        features = self.columns.known(explicit(self.kernel, X))
        w, bias = self.now(averaged)
        return np.asarray(multiply(features, w)) + bias

    def now(self, averaged: bool) -> tuple[np.ndarray, np.ndarray]:
        """w, (p, q), and what the constant adds to f, (q,)."""
        weights = self.weights.widened(len(self.columns))
        w = weights.averaged() if averaged else weights.w
        return w[:, :-1].T, weights.constant * w[:, -1]


def _sides(y: np.ndarray, names: np.ndarray) -> np.ndarray:
    """(n, q) array of ±1: the second of two classes, or each against the rest."""
    classes = Classes(names)
    return classes.sides(classes.label(y))


class KernelPerceptron(MistakeDriven):
    """f += y k(x, ·) wherever y f(x) ≤ 0, point after point: f = Σᵢ yᵢ αᵢ k(xᵢ, ·).

    αᵢ counts how often point i was missed; a score of 0 is a mistake. On classes that
    some bias-free w of norm ‖w‖ separates with y w(x) ≥ 1 it makes at most R²‖w‖²
    mistakes, R² = max k(x, x); `mistake_bound` has the bound for all others. With many
    points, or a stream, of a kernel with few explicit features f is kept as a vector of
    weights on these, and a step takes no longer the more points there were.

    Several classes are told apart one against the rest: k perceptrons see every point
    at the same time, and a kernel value is computed once for all of them. Pairs of two
    classes would each leave out most points, and have no common time to average over.

    Parameters
    ----------
    kernel : a kernel; a word ("rbf", "linear", ..., "precomputed"), the kernel of that
        name with its defaults; a function of two sets of points, giving their matrix;
        or None for RBF()
    variant : "plain", the last f; "averaged", the mean of f over time, which judges new
        points better where classes overlap; "voted", where every f on the way has as
        many votes as points it lasted for, and f(x) is the vote, between -1 and 1
    fit_intercept : whether f has a constant: then the kernel is k + 1
    max_iter : passes over the points; fewer, after one without a mistake
    shuffle : whether every pass of `fit` takes the points in a new order;
        `partial_fit` takes them as they come
    random_state : of these orders
    warm_start : whether `fit` goes on from what was learnt before
    verbose : whether to print how far it is: passes, points seen, mistakes, seconds
    callback : a function of a `Progress`, whose objective are the mistakes, called some
        times a second; the fit stops where it returns True, and keeps what it learnt.
        Callbacks of scikit-learn's (1.9) are set by `set_callbacks`
    time_limit : seconds; None for no limit. The fit then ends with the best it has, the
        status "time_limit" and a warning

    Attributes
    ----------
    expansion_ : f, a column per class where there are more than two; of "voted" the
        last f, while the vote is in `decision_function`
    kernel_ : the kernel of f, with all it learnt
    mistakes_ : the points in the order in which they were missed, counted from 0 in the
        order in which they were given (over all calls); a list of them per class for
        more than two classes
    n_mistakes_ : M, their number, (k,) for k > 2 classes
    mistake_curve_ : mistakes made until each point seen, (T,) or (T, k)
    support_ : the points missed at least once, those of `expansion_`
    counts_ : α of these points, (m,) or (m, k)
    run_ : what the last call took; its status is "optimal" where the last pass was
        without a mistake
    n_iter_ : passes of the last call
    classes_, n_features_in_, feature_names_in_ : as scikit-learn's

    Examples
    --------
    >>> from mercer import KernelPerceptron, Polynomial
    >>> X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0]
    >>> machine = KernelPerceptron(Polynomial(2), shuffle=False).fit(X, y)
    >>> machine.predict(X).tolist(), machine.n_mistakes_
    ([0, 1, 1, 0], 21)
    >>> machine.support_.tolist(), machine.counts_.tolist()
    ([0, 1, 2, 3], [7, 5, 5, 4])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_COMMON_CONSTRAINTS,
        "kernel": [StrOptions(set(WORDS)), callable, None],
        "variant": [StrOptions(VARIANTS)],
    }

    def __init__(
        self,
        kernel: Any = None,
        *,
        variant: str = "plain",
        fit_intercept: bool = False,
        max_iter: int = 100,
        shuffle: bool = True,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: Any = False,
        callback: Any = None,
        time_limit: float | None = None,
    ):
        self.kernel = kernel
        self.variant = variant
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback
        self.time_limit = time_limit

    _supports: Parts[_Support]
    _primal: _Primal | None  # where f is kept on features
    _f: _Made

    def _learn(
        self,
        X: Points,
        y: np.ndarray,
        classes: np.ndarray,
        solver: PerceptronRule,
        goes_on: bool,
    ) -> PerceptronSolution:
        gram, kernel = self._gram_of(X, goes_on)
        sign = _sides(y, classes)
        primal = self._begun(gram, sign.shape[1], solver, goes_on)
        start = self._last(gram.X) if goes_on and primal is None else None
        with watching(self, [""], X, y, None) as watcher:
            with reporting(watcher) as watch:
                left = seconds_left()
                if primal is None:
                    problem = PerceptronProblem(gram, sign)
                    found = solve_within(
                        solver, problem, left, start=start, watch=watch
                    )
                else:
                    limit = None if left is None else TimeLimit(watch, left)
                    seen = limit or watch
                    primal, found = _solved(primal, solver, gram.X, sign, seen)
                    found = found if limit is None else limit.ended(found)
            places = distinct(found.point)
            # Votes are those of every f on the way; the last one ends on landmarks.
            reduced = primal is not None and isinstance(primal.kernel, Nystrom)
            kept = places[:0] if reduced and self.variant != "voted" else places
            points = self._own(take(gram.X, kept), X)
            offset = self._handed if goes_on else 0
            supports = self._supports if goes_on else Parts(_Support.then)
            self._supports = supports.with_more(_Support(points, places + offset))
            self._primal = primal
            self._remember(found, count(X), classes, goes_on)
            averages = self.variant == "averaged"
            self._f = _Made(kernel, self._supports, self._calls, averages, primal)
        return found

    def _begun(
        self, gram: Gram, q: int, solver: PerceptronRule, goes_on: bool
    ) -> _Primal | None:
        """w as it is, where it is kept on features; else None."""
        if goes_on and self._primal is not None:
            return self._primal
        if self._precomputed:
            return None
        kernel, constant = without_constant(gram.kernel)
        passes = None if solver.max_iter == 1 else solver.max_iter
        if not steps_on_features(gram.kernel, gram.X, passes):
            return None
        w, u = np.zeros((2, q, 1))
        weights = Weights(w, u, constant=float(np.sqrt(constant)))
        primal = _Primal(kernel, ColumnIndex(), weights)
        if not goes_on:
            return primal
        # What was learnt on points goes on on features.
        f, found = self._f.on_points, self._mistakes
        features = primal.columns.extended(explicit(kernel, double(f.points)))
        ones = np.full((len(f.coef), 1), weights.constant)
        w, u = (
            np.hstack([np.asarray(features.T @ sums).T, (ones.T @ sums).T])
            for sums in (found.coef(self.support_), found.times(self.support_))
        )
        weights = replace(weights, w=w, u=u, rounds=found.rounds)
        return replace(primal, weights=weights)

    @property
    def expansion_(self) -> Expansion:
        """f, made of all that was missed when it is first asked for."""
        return self._f.expansion

    @expansion_.setter
    def expansion_(self, f: Expansion) -> None:
        self._f = _Made(f.kernel, self._supports, self._calls, self._f.averages)
        self._f.expansion = self._f.on_points = f
        self._primal = None

    @property
    def support_(self) -> np.ndarray:
        """The points missed at least once, by their numbers."""
        return self._supports.whole().number

    def _values(self, X: Points) -> np.ndarray:
        check_is_fitted(self)
        if self._primal is None:
            return super()._values(X)
        X = double(self._validated_points(X, reset=False))
        values = self._primal.values(X, self._f.averages)
        return values[:, 0] if values.shape[1] == 1 else values

    def _gram_of(self, X: Points, goes_on: bool) -> tuple[Gram, Kernel]:
        """The Gram of these points, and the kernel that new ones are compared by."""
        if goes_on:
            return Gram(self.kernel_, X).double(), self.kernel_
        gram = self._weighted_gram(X, None).gram
        kernel = self._with_constant(gram.kernel)
        # Kernel values of new points come with them: no need for the old ones.
        of_new = self._with_constant(Precomputed()) if self._precomputed else kernel
        return Gram(kernel, gram.X).double(), of_new

    def _with_constant(self, kernel: Kernel) -> Kernel:
        return kernel + Constant(1.0) if self.fit_intercept else kernel

    def _last(self, X: Points) -> np.ndarray:
        """The last f at these points."""
        f = self._f.on_points
        coef = self._mistakes.coef(self.support_)
        return f.kernel.matmul(double(X), double(f.points), coef)

    @property
    def kernel_(self) -> Kernel:
        """The kernel of f, with all it learnt; k + 1 where there is a constant."""
        return self._f.kernel

    @property
    def counts_(self) -> np.ndarray:
        """α, how often each of the points of `support_` was missed."""
        counts = self._mistakes.counts(self.support_)
        return counts[:, 0] if counts.shape[1] == 1 else counts

    # What f says

    def decision_function(self, X: Points) -> np.ndarray:
        """f at m points: (m,) for two classes, else (m, k), one against the rest."""
        if self.variant == "voted":
            check_is_fitted(self)
            return self._votes(self._validated_points(X, reset=False))
        return self._values(X)

    def predict(self, X: Points) -> np.ndarray:
        """The class of each of the m points of X."""
        return self._chosen(self.decision_function(X))

    def _as_sum(self) -> KernelSum:
        if self.variant == "voted":
            raise TypeError(
                "The votes of a voted perceptron are no sum that could be taken apart. "
                'Use variant="averaged".'
            )
        return super()._as_sum()

    def _votes(self, X: Points) -> np.ndarray:
        """Σ over every f on the way of its share of the time, times the sign of f."""
        if count(self._supports.whole().points) < len(self.support_):
            raise ValueError(
                "Votes are those of every f on the way, and this machine kept the last "
                'on the landmarks alone. Fit it with variant="voted".'
            )
        found, f = self._mistakes, self._f.on_points
        q = found.n_outputs
        mine = [np.flatnonzero(found.column == c) for c in range(q)]
        widest = max(len(self.support_), *map(len, mine), 1)
        votes = np.zeros((count(X), q))
        for rows in row_blocks(count(X), widest, BLOCK_MB):
            K = f.kernel(double(take(X, rows)), double(f.points))
            K = np.asarray(K, dtype=float)
            for c, chosen in enumerate(mine):
                place = np.searchsorted(self.support_, found.point[chosen])
                values = np.cumsum(K[:, place] * found.side[chosen], axis=1)
                lasted = np.diff(np.append(found.time[chosen], found.rounds))
                votes[rows, c] = np.sign(values) @ lasted / found.rounds
        return votes[:, 0] if q == 1 else votes


def _solved(
    primal: _Primal,
    solver: PerceptronRule,
    X: Points,
    sign: np.ndarray,
    watch: Watch | None,
) -> tuple[_Primal, PerceptronSolution]:
    """w after passes over these points, and what was missed."""
    features = primal.columns.extended(explicit(primal.kernel, X))
    weights = primal.weights.widened(features.shape[1])
    weights, found = solver.solve_primal(features, sign, weights, watch=watch)
    return replace(primal, weights=weights), found


class Perceptron(MistakeDriven):
    """w += η y x wherever y ⟨w, x⟩ ≤ 0, point after point; f(x) = ⟨w, x⟩.

    The perceptron of the textbook, on vectors: a score of 0 is a mistake, the bias is a
    component of w whose feature is 1, and nothing else ends the passes than one without
    a mistake. Where w begins with 0 the learning rate η scales w and changes no
    decision. Several classes are told apart one against the rest.

    Parameters
    ----------
    eta0 : η > 0, the learning rate
    variant : "plain", the last w; "averaged", its mean over time
    fit_intercept : whether f has a bias, the weight of the constant feature 1

    The others are those of `KernelPerceptron`.

    Attributes
    ----------
    coef_, intercept_ : w and the bias, a row and a number per class, or one of each
        for two classes
    expansion_ : f, with w as its point and the linear kernel
    kernel_ : the kernel of f with its bias, ⟨x, y⟩ + 1, or ⟨x, y⟩ without

    The others are those of `KernelPerceptron`.

    Examples
    --------
    >>> from mercer import Perceptron
    >>> X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], [0, 0, 0, 1]
    >>> machine = Perceptron(shuffle=False).fit(X, y)
    >>> machine.mistakes_.tolist()
    [0, 3, 0, 1, 3, 1, 2, 3, 2, 3, 1, 3, 1, 2, 3, 2, 3, 1]
    >>> machine.coef_.tolist(), machine.intercept_.tolist()
    ([[3.0, 2.0]], [-4.0])
    """

    kernel = "linear"  # not a parameter

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_COMMON_CONSTRAINTS,
        "eta0": [Interval(Real, 0, None, closed="neither")],
        "variant": [StrOptions(VARIANTS - {"voted"})],
    }

    def __init__(
        self,
        *,
        eta0: float = 1.0,
        variant: str = "plain",
        fit_intercept: bool = True,
        max_iter: int = 1000,
        shuffle: bool = True,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: Any = False,
        callback: Any = None,
        time_limit: float | None = None,
    ):
        self.eta0 = eta0
        self.variant = variant
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback
        self.time_limit = time_limit

    _weights: Weights

    def _learn(
        self,
        X: Points,
        y: np.ndarray,
        classes: np.ndarray,
        solver: PerceptronRule,
        goes_on: bool,
    ) -> PerceptronSolution:
        sign = _sides(y, classes)
        if goes_on:
            weights = replace(self._weights, eta=float(self.eta0))
        else:
            shape = (sign.shape[1], X.shape[1] + 1)
            constant = 1.0 if self.fit_intercept else 0.0
            w, u = np.zeros((2, *shape))
            weights = Weights(w, u, 0, float(self.eta0), constant)
        with watching(self, [""], X, y, None) as watcher:
            with reporting(watcher) as watch:
                left = seconds_left()
                limit = None if left is None else TimeLimit(watch, left)
                seen = limit or watch
                weights, found = solver.solve_primal(X, sign, weights, watch=seen)
                found = found if limit is None else limit.ended(found)
            w = weights.averaged() if self.variant == "averaged" else weights.w
            one = len(w) == 1
            self.expansion_ = Expansion(
                Linear(),
                w[:, :-1].copy(),
                np.ones(1) if one else np.eye(len(w)),
                w[0, -1] if one else w[:, -1],
            )
            self._weights = weights
            self._remember(found, count(X), classes, goes_on)
        return found

    @property
    def coef_(self) -> np.ndarray:
        """w, a row per function."""
        return self.expansion_.points

    @property
    def intercept_(self) -> np.ndarray:
        """The biases, one per function."""
        return biases(self.expansion_)

    @property
    def kernel_(self) -> Kernel:
        """⟨x, y⟩, + 1 where there is a bias."""
        return Linear() + Constant(1.0) if self._weights.constant else Linear()

    def decision_function(self, X: Points) -> np.ndarray:
        """f at m points: (m,) for two classes, else (m, k), one against the rest."""
        return self._values(X)

    def predict(self, X: Points) -> np.ndarray:
        """The class of each of the m points of X."""
        return self._chosen(self._values(X))
