"""Parzen windows: a density as the mean of windows around the points, and classifiers.

Parzen, Annals of Mathematical Statistics 33 (1962). The bandwidth is the one with the
greatest leave-one-out likelihood (Habbema, Hermans, van den Broek, COMPSTAT 1974).
Equal points leave together, else the likelihood of data with repetitions would grow
without bound as the windows shrink onto them.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax
from sklearn.base import ClassifierMixin, DensityMixin, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer.data.partitions import Once, Partitions, in_memory
from mercer.data.points import Points, double, take, vectors
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.radial import RBF
from mercer.kernels.window import SHAPES, RadialWindow, WindowIntegral
from mercer.machines.base import Machine
from mercer.machines.checks import checked_parameters
from mercer.machines.labels import (
    available_if,
    check_classes,
    check_columns,
    classes_of,
)
from mercer.machines.words import WORDS, as_kernel
from mercer.machines.wrappers import of_collections
from mercer.multiclass import Classes
from mercer.outcomes import Run, Status
from mercer.solvers.features import partitioned_of
from mercer.solvers.roads import Road
from mercer.solvers.windows import Window, distinct, window

FINE = 1e-3  # the relative accuracy of a bandwidth
GRID = (-3, -2, -1, 0, 1)  # powers of 2 times the first guess
NEVER = 1e100  # the loss where a point is alone
DOUBLINGS = 60  # of a bandwidth that leaves a point alone
# The windows of scikit-learn's KernelDensity and ours, by their names.
WINDOW_WORDS = {word: word for word in SHAPES} | {"tophat": "box", "linear": "triangle"}

KERNEL = [Kernel, StrOptions(set(WORDS) | set(WINDOW_WORDS)), callable, None]
BANDWIDTH = [Interval(Real, 0, None, closed="neither"), StrOptions({"loo"}), None]


class Trial(NamedTuple):
    """One bandwidth that was tried: the mean leave-one-out log-likelihood there."""

    trial: int
    bandwidth: float
    score: float
    seconds: float


class _Stopped(Exception):
    """The callback wants no more trials."""


class Parzen(Machine):
    """What the density and the classifier share: windows and their bandwidth."""

    bandwidth: Any
    verbose: Any
    callback: Callable[[Trial], Any] | None
    kernel_: Kernel
    bandwidth_: float
    integral_: WindowIntegral
    trials_: list[Trial]
    _windows: Window
    _points: Any  # what it holds of vectors or partitions
    _weight: np.ndarray

    _solves_partitions: ClassVar[bool] = True

    def _road(self, X: Points, y: Any) -> Road:
        if is_classifier(self):
            X, y = self._validated(X, y)
            check_classes(self, y)
        else:
            X = self._validated_points(X)
        if getattr(self, "method", "density") == "mean":
            return Road("products", self._weighted_gram(X, None).gram)
        start = window(_as_window(self.kernel, X).copied())
        start.check(X.shape[1])
        given = isinstance(self.bandwidth, Real)
        if given or (self.bandwidth is None and start.bandwidth is not None):
            found = start.at(float(self.bandwidth)) if given else start
            return Road("points", Gram(found.kernel, X))
        self._check_given(X)
        return Road("products", Gram(start.at(1.0).kernel, X))

    def _check_given(self, X: Points) -> None:
        """Refuse to choose a bandwidth by points in partitions."""
        if isinstance(X, Partitions):
            raise ValueError(
                f"{type(self).__name__} on {X!r} needs a bandwidth: leave-one-out "
                "compares all points with each other. Choose it on some of them, and "
                "pass it."
            )

    def _learn_window(self, X: Points, groups: list[tuple[Points, np.ndarray]]) -> None:
        """Set the window with its bandwidth: given, the kernel's own, or learnt."""
        start = window(_as_window(self.kernel, X).copied())
        start.check(X.shape[1])
        trials, status = [], "given"
        if isinstance(self.bandwidth, Real):
            found = start.at(float(self.bandwidth))
        elif self.bandwidth is None and start.bandwidth is not None:
            found = start
        else:
            self._check_given(X)
            search = _Search(self, start, groups)
            best = search.best()
            found = start.at(best)
            trials, status = search.trials, search.status
        self._windows, self.kernel_ = found, found.kernel
        # A kernel holds 1/h or the like, of which h is not the inverse bit for bit.
        self.bandwidth_ = best if trials else found.bandwidth
        self.trials_ = trials
        seconds = trials[-1].seconds if trials else 0.0
        self.run_ = Run(Status(status), len(trials), seconds)
        self.integral_ = found.integral(X.shape[1])

    def _log_sums_there(
        self, X: Points, label: np.ndarray, n_classes: int
    ) -> np.ndarray:
        """ln Σⱼ weightⱼ k(xᵢ, yⱼ) over the points of each class in partitions."""
        about = Once((self._windows, X, n_classes))
        parts = self._points.each(_log_sums, self._weight, label, shared=(about,))
        logs = np.logaddexp.reduce(parts)
        for column in logs.T:
            self._windows.refuse_beyond(column)
        return logs


def _as_window(kernel: Any, X: Points) -> Kernel:
    """What the parameter `kernel` of a density stands for, on the points X."""
    if isinstance(kernel, str) and kernel in WINDOW_WORDS:
        return RBF() if kernel == "gaussian" else RadialWindow(WINDOW_WORDS[kernel])
    if callable(kernel) and not isinstance(kernel, Kernel | type):
        return RadialWindow(kernel)
    return as_kernel(kernel)


class _Search:
    """max over h of Σᵢ wᵢ ln p₋ᵢ(xᵢ), p₋ᵢ the density of the other points."""

    def __init__(
        self, machine: Parzen, start: Window, groups: list[tuple[Points, np.ndarray]]
    ):
        self.machine, self.start = machine, start
        self.groups = [(X, weight) for X, weight in groups if X.shape[0] > 1]
        self.trials: list[Trial] = []
        self.begin = time.monotonic()
        self.status = "optimal"
        if not self.groups:
            raise ValueError(
                f"{type(machine).__name__} chooses its bandwidth by leaving points "
                "out, which takes two different ones; got one sample point. Pass a "
                "bandwidth."
            )

    def best(self) -> float:
        """The best bandwidth: of powers of two, then between its neighbours."""
        guess = math.log(self._guess())
        step = math.log(2)
        try:
            value = {i: self.loss(guess + i * step) for i in GRID}
            while min(value.values()) == math.inf:
                self._check_hope(max(value))
                beyond = max(value) + 1
                value[beyond] = self.loss(guess + beyond * step)
            least = min(value, key=value.__getitem__)
            while least in (min(value), max(value)):
                beyond = least + (1 if least == max(value) else -1)
                value[beyond] = self.loss(guess + beyond * step)
                if value[beyond] >= value[least]:
                    break
                least = beyond
            middle = guess + least * step
            minimize_scalar(
                lambda t: min(self.loss(t), NEVER),  # it subtracts: no ∞
                bounds=(middle - step, middle + step),
                method="bounded",
                options={"xatol": FINE},
            )
        except _Stopped:
            self.status = "stopped"
        best = max(self.trials, key=lambda trial: trial.score)
        self._warn_if_alone(best)
        return best.bandwidth

    def _check_hope(self, doublings: int) -> None:
        if doublings >= DOUBLINGS:
            raise ValueError(
                f"{type(self.machine).__name__} found no bandwidth at which every "
                f"point that is left out has a density: {self.start.kernel!r} is 0 "
                "between them at every width. Pass a bandwidth, or choose a window "
                "that is not 0 there."
            )

    def _warn_if_alone(self, best: Trial) -> None:
        """Say so where few points without neighbours decide the bandwidth."""
        h = best.bandwidth
        alone = any(t.score == -math.inf and t.bandwidth > h / 4 for t in self.trials)
        if alone and self._without_loneliest(h / 1.5) > self._without_loneliest(h):
            warnings.warn(
                f"The bandwidth {h:.4g} of {type(self.machine).__name__} is what a few "
                "isolated points need to have a neighbour: narrower windows, which "
                "would suit the others, give them, left out, a density of 0. Pass a "
                "bandwidth, leave out these points, or choose a window without an end.",
                stacklevel=6,
            )

    def _without_loneliest(self, bandwidth: float) -> float:
        """The mean of ln p₋ᵢ(xᵢ) but for the lowest hundredth, one point at least."""
        windows = self.start.at(bandwidth)
        logs = np.concatenate(
            [_logs_left_out(windows, *group) for group in self.groups]
        )
        weight = np.concatenate([weight for _, weight in self.groups])
        kept = np.argsort(logs, kind="stable")[max(1, len(logs) // 100) :]
        return float(np.average(logs[kept], weights=weight[kept]))

    def _guess(self) -> float:
        """Scott's rule on the mean spread within the groups."""
        n = sum(X.shape[0] for X, _ in self.groups)
        d = self.groups[0][0].shape[1]
        squares = sum(X.shape[0] * _variance(X) for X, _ in self.groups)
        return max(math.sqrt(squares / n), 1e-150) * n ** (-1 / (d + 4))

    def loss(self, log_bandwidth: float) -> float:
        bandwidth = math.exp(log_bandwidth)
        windows = self.start.at(bandwidth)
        total = sum(weight.sum() for _, weight in self.groups)
        score = sum(_left_out(windows, *group) for group in self.groups) / total
        seconds = time.monotonic() - self.begin
        trial = Trial(len(self.trials) + 1, bandwidth, float(score), seconds)
        self.trials.append(trial)
        if self.machine.verbose:
            print(
                f"[{type(self.machine).__name__}] trial {trial.trial:>3}   bandwidth "
                f"{bandwidth:<11.5g} left-out log-likelihood {score:<12.6g} "
                f"{seconds:8.2f} s",
                flush=True,
            )
        if self.machine.callback is not None and self.machine.callback(trial):
            raise _Stopped
        return -trial.score


def _left_out(windows: Window, X: Points, weight: np.ndarray) -> float:
    """Σᵢ wᵢ ln p₋ᵢ(xᵢ) on different points."""
    return float(weight @ _logs_left_out(windows, X, weight))


def _logs_left_out(windows: Window, X: Points, weight: np.ndarray) -> np.ndarray:
    """ln p₋ᵢ(xᵢ) of different points."""
    logs = windows.log_sums(X, None, weight) - np.log(weight.sum() - weight)
    return logs - windows.log_volume(X.shape[1])


def _variance(X: Points) -> float:
    """The mean variance of a coordinate."""
    if sp.issparse(X):
        mean = np.asarray(X.mean(axis=0)).ravel()
        return max(
            0.0, float(X.multiply(X).sum() / X.shape[0] - mean @ mean) / X.shape[1]
        )
    return float(X.var(axis=0).mean())


def _log_sums(
    part: Points, weight: np.ndarray, label: np.ndarray, about: tuple[Any, ...]
) -> np.ndarray:
    """ln Σⱼ weightⱼ k(xᵢ, yⱼ) over the points of each class in a partition, (m, k)."""
    windows, X, n_classes = about
    logs = np.full((X.shape[0], n_classes), -np.inf)
    part = _wide(part)
    for k in np.flatnonzero(np.bincount(label)).tolist():
        some = label == k
        logs[:, k] = windows.log_sums(X, part[some], weight[some], whole=False)
    return logs


def _wide(X: Points) -> Points:
    """Vectors in float64: logarithms of small densities need it."""
    return vectors(X, "A density").astype(float, copy=False)


class ParzenDensity(DensityMixin, Parzen):
    """p(x) = Σᵢ wᵢ k(xᵢ, x) / (c Σᵢ wᵢ), c = ∫ k(xᵢ, x) dx: a window at each point.

    With RBF it is scikit-learn's KernelDensity. Logarithms of densities do not
    underflow; a point so far that they leave the range of float64, as -1e320 would, is
    refused. Equal points are kept once, with their weight.

    Parameters
    ----------
    bandwidth : h, the unit of distance of the window: σ of RBF, 1/γ of Laplacian,
        `length` of Matern and RationalQuadratic; "loo" for the greatest leave-one-out
        likelihood; None for what the kernel says, and "loo" where it leaves it open
    kernel : a window. RBF, Laplacian, Matern or RationalQuadratic with alpha > d/2;
        "box" ("tophat"), "epanechnikov", "biweight", "triweight", "triangle"
        ("linear"), "tricube", "cosine", "exponential", "gaussian", or a function of
        r = ‖x - xᵢ‖ / h, for `RadialWindow`; `ProductWindow(K)` for a function of each
        coordinate; None for RBF(). A window that ends leaves points without density,
        ln p = -∞; at a bandwidth where that happens to a point left out, "loo" has the
        score -∞, so that one isolated point can decide the bandwidth (it warns)
    verbose : whether to print a line for each bandwidth that is tried
    callback : a function that is given each `Trial`; True from it ends the search

    Attributes
    ----------
    kernel_ : the kernel with its bandwidth
    bandwidth_ : h
    integral_ : c, by its `log_value` and `value`; `by` a "formula" or "quadrature",
        then with its `relative_error`
    trials_ : the bandwidths that were tried: trial, bandwidth, score (the mean
        leave-one-out log-likelihood) and seconds
    run_ : the trials as iterations; the status is "given", "optimal", or "stopped" by
        the callback
    expansion_ : p itself; absent where c leaves the range of numbers, as in many
        dimensions
    n_features_in_, feature_names_in_ : of vectors and of data frames

    Examples
    --------
    >>> from mercer import ParzenDensity
    >>> machine = ParzenDensity(bandwidth=1.0, kernel="box").fit([[0.0], [0.5], [3.0]])
    >>> (-machine.score_samples([[0.2], [3.5]])).round(3).tolist()
    [1.099, 1.792]
    >>> machine.score_samples([[9.0]]).tolist()  # outside every window
    [-inf]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "bandwidth": BANDWIDTH,
        "kernel": KERNEL,
        "verbose": ["verbose"],
        "callback": [callable, None],
    }

    def __init__(
        self,
        bandwidth: float | str | None = None,
        *,
        kernel: Any = None,
        verbose: bool = False,
        callback: Callable[[Trial], Any] | None = None,
    ):
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.verbose = verbose
        self.callback = callback

    @checked_parameters
    def fit(
        self, X: Points, y: Any = None, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Put a window at each of the points X; returns self.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or data frame
        y : ignored
        sample_weight : n numbers ≥ 0; weight 2 is the row twice, weight 0 no row
        """
        X = self._validated_points(X)
        if isinstance(X, Partitions):
            return self._fit_partitions(X, sample_weight)
        X = _wide(X)
        weight = self._checked_weight(sample_weight, X)
        some = weight > 0
        points, weight = distinct(X if some.all() else X[some], weight[some])
        self._learn_window(points, [(points, weight)])
        self._points, self._weight = self._own(points, X), weight
        return self

    def _fit_partitions(
        self, X: Partitions, sample_weight: npt.ArrayLike | None
    ) -> Self:
        """Put windows at points that stay where they are."""
        _, _, weight = self._weighted_points(X, sample_weight)
        self._learn_window(X, [])
        self._points, self._weight = X.double(), np.array(weight)
        return self

    def score_samples(self, X: Points) -> np.ndarray:
        """ln p at the m points of X, (m,)."""
        check_is_fitted(self)
        X = _wide(self._validated_points(X, reset=False))
        if isinstance(self._points, Partitions):
            none = np.zeros(len(self._weight), dtype=np.intp)
            logs = self._log_sums_there(X, none, 1)[:, 0]
        else:
            logs = self._windows.log_sums(X, self._points, self._weight)
        return logs - math.log(self._weight.sum()) - self._log_volume

    @of_collections
    def score(self, X: Points, y: Any = None) -> float:
        """ln p of all of X together, Σᵢ ln p(xᵢ)."""
        return float(in_memory(self.score_samples(X)).sum())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Random points with the density p, (n_samples, d)."""
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(
                f"sample needs a whole number n_samples ≥ 1; got {n_samples!r}."
            )
        rng = check_random_state(random_state)
        share = np.cumsum(self._weight) / self._weight.sum()
        chosen = np.searchsorted(share[:-1], rng.uniform(size=n_samples), side="right")
        centres = self._points[chosen]
        centres = centres.toarray() if sp.issparse(centres) else centres
        return centres + self._windows.draw(rng, n_samples, centres.shape[1])

    @property
    def _log_volume(self) -> float:
        return self._windows.log_volume(self._points.shape[1])

    @property
    def expansion_(self) -> Expansion:  # type: ignore[override]  # not set, but made
        """p = Σᵢ coefᵢ k(xᵢ, ·), without logarithms."""
        check_is_fitted(self)
        logs = np.log(self._weight) - math.log(self._weight.sum()) - self._log_volume
        if not (np.abs(logs) < 700).all():
            raise AttributeError(
                f"The density has no expansion_: its coefficients, about "
                f"exp({logs.max():.4g}), leave the range of numbers. score_samples "
                "gives its logarithm."
            )
        return Expansion(self.kernel_, self._points, np.exp(logs))


def _of_densities(machine: ParzenClassifier) -> bool:
    if machine.method != "density":
        raise AttributeError(
            "probabilities come with the densities of method='density'; got "
            f"method={machine.method!r}."
        )
    return True


class ParzenClassifier(ClassifierMixin, Parzen):
    """The class c with the greatest πc pc(x), or the nearest mean in feature space.

    method="density" compares the Parzen densities pc of the classes, all with the same
    window, and their priors πc; probabilities are by Bayes' rule, in logarithms. Where
    a window that ends leaves no class any density, the priors alone decide.

    method="mean" compares ‖φ(x) - μc‖ with the means μc of φ over the classes. For two
    classes that is the sign of f(x) = ⟨φ(x), μ₊ - μ₋⟩ + b, b = ½(‖μ₋‖² - ‖μ₊‖²), for
    more the greatest of ⟨φ(x), μc⟩ - ½‖μc‖². Any kernel on any points will do.

    Parameters
    ----------
    bandwidth : as in `ParzenDensity`, for "density" only; "loo" leaves each point out
        of the density of its own class
    kernel : any kernel for "mean"; a window as in `ParzenDensity` for "density", where
        "linear" and "cosine" are windows and no similarities; None for RBF()
    method : "density" or "mean"
    priors : one number ≥ 0 for each class in sorted order, summing to 1; None for their
        shares of the points. For "density" only
    verbose, callback : as in `ParzenDensity`

    Attributes
    ----------
    classes_ : the classes, sorted
    kernel_ : the kernel with all it learnt
    expansion_ : of "mean" only: f, or one column for each of more than two classes
    priors_, bandwidth_, integral_, trials_ : of "density" only
    n_features_in_, feature_names_in_ : of vectors and of data frames

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import ParzenClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = ParzenClassifier(bandwidth="loo").fit(X, y)
    >>> machine.score(X, y) > 0.95, machine.priors_.round(3).tolist()
    (True, [0.333, 0.333, 0.333])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "method": [StrOptions({"density", "mean"})],
        "bandwidth": BANDWIDTH,
        "kernel": KERNEL,
        "priors": ["array-like", None],
        "verbose": ["verbose"],
        "callback": [callable, None],
    }

    classes_: np.ndarray
    priors_: np.ndarray

    def __init__(
        self,
        bandwidth: float | str | None = None,
        *,
        kernel: Any = None,
        method: str = "density",
        priors: Any = None,
        verbose: bool = False,
        callback: Callable[[Trial], Any] | None = None,
    ):
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.method = method
        self.priors = priors
        self.verbose = verbose
        self.callback = callback

    @checked_parameters
    def fit(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Learn the classes y of the points X; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : (n,) array of classes
        sample_weight : n numbers ≥ 0; weight 2 is the row twice, weight 0 no row
        """
        X, y = self._validated(X, y)
        check_classes(self, y)
        points, index, weight = self._weighted_points(X, sample_weight)
        classes, label = classes_of(y[index])
        check_columns(self, len(classes), len(label), f"a {self.method}")
        for name in ("_groups", "_points", "_weight", "_label"):
            self.__dict__.pop(name, None)
        if self.method != "density":
            self._fit_means(X, points, label, weight)
        elif isinstance(X, Partitions):
            self._fit_partitions(X, label, weight, classes)
        else:
            self._fit_densities(take(X, index), label, weight, classes)
        self.classes_ = classes
        return self

    def _fit_densities(
        self, X: Points, label: np.ndarray, weight: np.ndarray, classes: np.ndarray
    ) -> None:
        X = _wide(X)
        priors = self._priors(np.bincount(label, weight), classes)
        members = [np.flatnonzero(label == k) for k in range(len(classes))]
        groups = [distinct(X[chosen], weight[chosen]) for chosen in members]
        # Classes of one point each say nothing about the window; all points may.
        lonely = all(points.shape[0] == 1 for points, _ in groups)
        known = [distinct(X, weight)] if lonely else groups
        self._learn_window(X, known)
        self._groups, self.priors_ = groups, priors
        self.__dict__.pop("expansion_", None)

    def _fit_partitions(
        self, X: Partitions, label: np.ndarray, weight: np.ndarray, classes: np.ndarray
    ) -> None:
        """Put windows at points that stay where they are."""
        priors = self._priors(np.bincount(label, weight), classes)
        self._learn_window(X, [])
        self._points, self._weight, self._label = X.double(), weight.copy(), label
        self.priors_ = priors
        self.__dict__.pop("expansion_", None)

    def _priors(self, totals: np.ndarray, classes: np.ndarray) -> np.ndarray:
        if self.priors is None:
            return totals / totals.sum()
        priors = np.asarray(self.priors, dtype=float)
        if priors.shape != (len(classes),):
            raise ValueError(
                f"ParzenClassifier needs one prior for each of the {len(classes)} "
                f"classes; got priors of shape {priors.shape}."
            )
        if not ((priors >= 0).all() and abs(priors.sum() - 1) < 1e-8):
            raise ValueError(
                f"ParzenClassifier needs priors ≥ 0 that sum to 1; got "
                f"priors={self.priors!r}."
            )
        return priors

    def _fit_means(
        self, X: Points, points: Points, label: np.ndarray, weight: np.ndarray
    ) -> None:
        for name in ("bandwidth", "priors"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"ParzenClassifier(method='mean') has no {name}; got {name}="
                    f"{getattr(self, name)!r}. Use method='density', or leave it out."
                )
        gram = self._gram(X, points, weight)
        n_classes = label.max() + 1
        means = np.zeros((len(label), n_classes))
        means[np.arange(len(label)), label] = weight / np.bincount(label, weight)[label]
        there = isinstance(X, Partitions)
        squares = (
            _squares_there(gram, means)
            if there
            else [
                _square(gram.kernel, take(points, label == k), means[label == k, k])
                for k in range(n_classes)
            ]
        )
        coef, bias = means, -0.5 * np.array(squares)
        if n_classes == 2:
            coef, bias = coef[:, 1] - coef[:, 0], bias[1] - bias[0]
        f = self._expanded(gram, X, coef, bias)
        self.expansion_ = self._on_landmarks(f, coef) if there else f
        self.kernel_ = gram.kernel if there else f.kernel
        for name in ("bandwidth_", "integral_", "trials_", "priors_"):
            self.__dict__.pop(name, None)

    def decision_function(self, X: Points) -> np.ndarray:
        """f of "mean"; ln πc pc of "density", of two classes the difference."""
        if self.method == "mean":
            return self._values(X)
        logs = self._joint(X)
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs

    def _joint(self, X: Points) -> np.ndarray:
        """ln πc pc(x), (m, classes)."""
        check_is_fitted(self)
        X = _wide(self._validated_points(X, reset=False))
        with np.errstate(divide="ignore"):
            priors = np.log(self.priors_)
        if hasattr(self, "_groups"):
            logs = np.column_stack(
                [
                    self._windows.log_sums(X, points, weight) - math.log(weight.sum())
                    for points, weight in self._groups
                ]
            )
        else:
            logs = self._log_sums_there(X, self._label, len(self.classes_))
            logs -= np.log(np.bincount(self._label, self._weight))
        logs[np.isneginf(logs + priors).all(axis=1)] = 0.0
        return priors - self._windows.log_volume(X.shape[1]) + logs

    def predict(self, X: Points) -> np.ndarray:
        """The class of each point of X, (m,)."""
        values = self.decision_function(X)
        return Classes(self.classes_).chosen(values)

    @available_if(_of_densities)
    def predict_proba(self, X: Points) -> np.ndarray:
        """πc pc(x) / Σ, the probability of each class, (m, classes)."""
        return softmax(self._joint(X), axis=1)

    @available_if(_of_densities)
    def predict_log_proba(self, X: Points) -> np.ndarray:
        """ln of `predict_proba`, also where that is 0."""
        joint = self._joint(X)
        return joint - logsumexp(joint, axis=1, keepdims=True)


def _square(kernel: Kernel, points: Points, share: np.ndarray) -> float:
    """‖μ‖² of a mean of feature vectors."""
    values = kernel.matmul(double(points), None, share)
    return float(share @ values)


def _squares_there(gram: Gram, share: np.ndarray) -> np.ndarray:
    """‖μ‖² of means over points in partitions, one for each column of shares."""
    rows = partitioned_of(gram)
    if rows is not None:
        return np.sum(rows.pull(share) ** 2, axis=0)
    return np.einsum("ij,ij->j", share, gram.double() @ share)
