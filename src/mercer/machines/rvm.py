"""Relevance vector machines: RVR and RVC.

Expansions on few points, found by evidence maximisation, that know how sure they are;
no parameter but those of the kernel, and no Mercer condition on it. Tipping, JMLR 1
(2001); the search is that of Tipping and Faul (2003).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, RegressorMixin, is_regressor
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer.data.points import Points, count, double, take
from mercer.kernels.base import BLOCK_MB, row_blocks
from mercer.kernels.checks import finite
from mercer.machines.base import FitData, Machine, biases, dual_rows
from mercer.machines.checks import TIME_LIMIT, checked_parameters
from mercer.machines.labels import labelled
from mercer.machines.progress import (
    CallbackSupportMixin,
    Watcher,
    reporting,
    watching,
)
from mercer.machines.words import WORDS
from mercer.multiclass import Classes
from mercer.native.clock import seconds_left
from mercer.native.sorting import distinct
from mercer.outcomes import total
from mercer.solvers.auto import held_for_many, road_of_evidence
from mercer.solvers.bayes import Posterior, SparseBayes
from mercer.solvers.evidence import EvidenceAscent
from mercer.solvers.limits import Shares, solve_within
from mercer.solvers.roads import Road


class RelevanceVectorMachine(CallbackSupportMixin, Machine):
    """f = Σᵢ wᵢ k(xᵢ, ·) + w₀, wᵢ ~ N(0, 1/αᵢ), each by a `SparseBayes`."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions(set(WORDS)), callable, None],
        "fit_intercept": ["boolean"],
        "alpha_max": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "verbose": ["verbose"],
        "callback": [callable, None],
        "solver": [HasMethods("solve"), None],
        "time_limit": TIME_LIMIT,
    }

    fit_intercept: bool
    alpha_max: float
    tol: float
    max_iter: int
    verbose: Any
    callback: Any
    time_limit: float | None
    solver: Any

    relevance_: np.ndarray
    posterior_: Any

    def _solved(
        self,
        problem: SparseBayes,
        watcher: Watcher | None,
        name: str,
        seconds: float | None,
    ) -> Posterior:
        with reporting(watcher, name) as watch:
            return solve_within(self._solver(), problem, seconds, watch=watch)

    def _solver(self) -> Any:
        if self.solver is not None:
            return self.solver
        return EvidenceAscent(self.tol, self.max_iter, self.alpha_max)

    def _road(self, X: Points, y: Any) -> Road:
        data = self._fit_data(X, y, None, y_numeric=is_regressor(self))
        return road_of_evidence(data.gram, self._solver())

    def _store(self, data: FitData, found: Sequence[Posterior]) -> None:
        """Set what was learnt: f on the relevance vectors of all its columns."""
        chosen = distinct(np.concatenate([part.index for part in found]))
        coef = np.zeros((len(chosen), len(found)))
        self._places = [np.searchsorted(chosen, part.index) for part in found]
        for column, (part, places) in enumerate(zip(found, self._places, strict=True)):
            coef[places, column] = part.mean
        bias = np.array([part.bias for part in found])
        kept, level = (coef, bias) if len(found) > 1 else (coef[:, 0], bias[0])
        X = data.given[0]
        self.expansion_ = self._expanded(data.gram, X, kept, level, chosen)
        self.relevance_ = data.index[chosen]
        self.posterior_ = found[0] if len(found) == 1 else list(found)
        self.run_ = total([part.run for part in found])

    # What is known of f

    def _posteriors(self) -> list[Posterior]:
        many = isinstance(self.posterior_, list)
        return self.posterior_ if many else [self.posterior_]

    def _beliefs(self, X: Points) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the variance of f at new points, both in the shape of f."""
        check_is_fitted(self)
        X = self._validated_points(X, reset=False)
        f = self.expansion_
        variance = np.empty((count(X), f.n_outputs))
        parts = list(zip(self._posteriors(), self._places, strict=True))
        for rows, values in self._values_with_vectors(X):
            for column, (posterior, places) in enumerate(parts):
                variance[rows, column] = posterior.variance(values[:, places])
        mean = f(X)
        return mean, finite(variance, f.kernel).reshape(mean.shape)

    def _values_with_vectors(self, X: Points) -> Iterator[tuple[slice, np.ndarray]]:
        """The kernel values of new points with the relevance vectors, in blocks."""
        f = self.expansion_
        for rows in row_blocks(count(X), max(1, len(f.coef)), BLOCK_MB):
            if len(f.coef):
                values = f.kernel(double(take(X, rows)), double(f.points))
                yield rows, np.asarray(values, dtype=float)
            else:
                yield rows, np.zeros((rows.stop - rows.start, 0))

    @property
    def relevance_vectors_(self) -> Points:
        """The points that f is made of; for "precomputed" their places."""
        return self.expansion_.points

    @property
    def dual_coef_(self) -> np.ndarray:
        """The means of w at the relevance vectors, (q, s): a row for each function."""
        return dual_rows(self.expansion_)

    @property
    def intercept_(self) -> np.ndarray:
        """The means of w₀, one for each function."""
        return biases(self.expansion_)

    def _of_each(self, name: str) -> Any:
        if isinstance(self.posterior_, list):
            return [getattr(part, name) for part in self.posterior_]
        return getattr(self.posterior_, name)

    @property
    def alpha_(self) -> np.ndarray | list[np.ndarray]:
        """α of the relevance vectors, then of the bias: ∞ if it was left out."""
        return self._of_each("alpha")

    @property
    def sigma_(self) -> np.ndarray | list[np.ndarray]:
        """The covariance of w, in the order of `alpha_`."""
        return self._of_each("covariance")

    @property
    def evidence_(self) -> float | list[float]:
        """log p(y), at the end."""
        return self._of_each("evidence")

    @property
    def evidence_curve_(self) -> np.ndarray | list[np.ndarray]:
        """log p(y) after each step; it never falls."""
        return self._of_each("curve")

    @property
    def n_iter_(self) -> int | np.ndarray:
        """How many steps were taken."""
        runs = self._of_each("run")
        if isinstance(runs, list):
            return np.array([run.iterations for run in runs])
        return runs.iterations


class RVR(RegressorMixin, RelevanceVectorMachine):
    """y = f(x) + noise, f = Σᵢ wᵢ k(xᵢ, ·) + w₀: max over α, β of p(y | α, β).

    Most αᵢ go to ∞ and their wᵢ to 0: f is left with a few points, the relevance
    vectors. The noise is estimated too, and every prediction has its variance,
    1/β + φ(x)ᵀΣφ(x).

    Parameters
    ----------
    kernel : a kernel, valid or not; None for RBF(); a word ("rbf", "linear", ...), the
        kernel of that name with its defaults; or a function of two sets of points,
        giving their matrix
    noise : the standard deviation of the noise, if known; None to estimate it
    fit_intercept : whether 1 is a column beside the k(·, xᵢ)
    alpha_max : αᵢ beyond it are ∞, where columns and y are scaled to mean square 1
    tol : the search ends when no step raises log p(y) by more
    max_iter : steps at most; -1 for 100 for each point
    verbose : whether to print how far the search is
    callback : a function of a `Progress` (of `mercer.solvers`), called at every scan
        of all points; the search stops where it returns True
    time_limit : seconds; None for no limit. The search then ends with the best it has,
        the status "time_limit" and a warning; classes of RVC share the time
    solver : what maximises the evidence; None for EvidenceAscent(tol, max_iter,
        alpha_max)

    Attributes
    ----------
    expansion_ : the mean of f
    relevance_, relevance_vectors_ : the places of the relevance vectors in X, and they
    dual_coef_, intercept_ : the means of their w, a row, and of w₀
    alpha_, sigma_ : α, and the covariance of w, of the vectors and then of the bias
    beta_ : 1 / the variance of the noise
    evidence_, evidence_curve_ : log p(y) at the end, and after each step
    posterior_ : all this as the solver returned it, with status and seconds
    n_iter_, n_features_in_, feature_names_in_ : as scikit-learn's

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, RVR
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> machine = RVR(RBF(1), noise=0.1).fit(X, np.sin(X[:, 0]))
    >>> mean, deviation = machine.predict([[1.5], [30.0]], return_std=True)
    >>> len(machine.relevance_) < 15, bool(deviation.min() > 0.099)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RelevanceVectorMachine._parameter_constraints,
        "noise": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(
        self,
        kernel: Any = None,
        *,
        noise: float | None = None,
        fit_intercept: bool = True,
        alpha_max: float = 1e12,
        tol: float = 1e-5,
        max_iter: int = -1,
        verbose: Any = False,
        callback: Any = None,
        solver: Any = None,
        time_limit: float | None = None,
    ):
        self.kernel = kernel
        self.noise = noise
        self.fit_intercept = fit_intercept
        self.alpha_max = alpha_max
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose
        self.callback = callback
        self.solver = solver
        self.time_limit = time_limit

    @checked_parameters
    def fit(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Learn f from the points X and the targets y; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : n numbers
        sample_weight : n numbers ≥ 0; weight 2 is the row twice, weight 0 no row
        """
        data = self._fit_data(X, y, sample_weight, y_numeric=True)
        problem = SparseBayes(
            data.gram,
            data.target,
            bias=self.fit_intercept,
            weight=data.weight,
            noise=self.noise,
        )
        with watching(self, [""], *data.given) as watcher:
            found = self._solved(problem, watcher, "", seconds_left())
            self._store(data, [found])
        self._warn_unless_optimal(found)
        return self

    @overload
    def predict(self, X: Points, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def predict(
        self, X: Points, return_std: Literal[True]
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self, X: Points, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The mean of y at the m points of X, (m,); also its standard deviation.

        Parameters
        ----------
        return_std : whether to return (mean, deviation): of a new y, noise included
        """
        if not return_std:
            return self._values(X)
        mean, variance = self._beliefs(X)
        return mean, np.sqrt(variance + 1 / self.beta_)

    @property
    def beta_(self) -> float:
        """1 / the variance of the noise."""
        return self.posterior_.beta


class RVC(ClassifierMixin, RelevanceVectorMachine):
    """p(y = 1 | x) = 1 / (1 + exp(-f(x))), f = Σᵢ wᵢ k(xᵢ, ·) + w₀: max of p(y | α).

    The evidence is Laplace's approximation at the mode of w. Probabilities take into
    account how well f is known: with v its variance at x, p = 1 / (1 + exp(-κ f)),
    κ = 1 / √(1 + πv/8). Several classes are told apart each against the rest, and their
    probabilities divided by their sum.

    Parameters
    ----------
    kernel : a kernel, valid or not; None for RBF(); a word ("rbf", "linear", ...), the
        kernel of that name with its defaults; or a function of two sets of points,
        giving their matrix
    fit_intercept, alpha_max, tol, max_iter, verbose, callback, solver,
    time_limit : those of RVR

    Attributes
    ----------
    expansion_ : the mode of f, a column for each class if there are more than two
    classes_ : the classes
    relevance_, relevance_vectors_ : the places of the relevance vectors in X, and they
    dual_coef_, intercept_ : the modes of their w, a row for each function, and of w₀
    alpha_, sigma_, evidence_, evidence_curve_, posterior_ : those of RVR; for more than
        two classes a list with one for each, on the vectors of that class
    n_iter_, n_features_in_, feature_names_in_ : as scikit-learn's

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from mercer import RBF, RVC
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> machine = RVC(RBF(1)).fit(X, y)
    >>> machine.score(X, y) > 0.95, len(machine.relevance_) < 30
    (True, True)
    """

    classes_: np.ndarray

    def __init__(
        self,
        kernel: Any = None,
        *,
        fit_intercept: bool = True,
        alpha_max: float = 1e12,
        tol: float = 1e-5,
        max_iter: int = -1,
        verbose: Any = False,
        callback: Any = None,
        solver: Any = None,
        time_limit: float | None = None,
    ):
        self.kernel = kernel
        self.fit_intercept = fit_intercept
        self.alpha_max = alpha_max
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose
        self.callback = callback
        self.solver = solver
        self.time_limit = time_limit

    @checked_parameters
    def fit(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Learn f from the points X and their classes y; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : n classes, numbers or strings
        sample_weight : n numbers ≥ 0; weight 2 is the row twice, weight 0 no row
        """
        data = labelled(self, self._fit_data(X, y, sample_weight))
        classes, bias = Classes(self.classes_), self.fit_intercept
        parts = classes.parts(data.target)
        gram = held_for_many(data.gram) if len(parts) > 1 else data.gram
        names = classes.problems()
        with watching(self, names, *data.given) as watcher:

            def solve(
                j: int, seconds: float | None, before: Posterior | None
            ) -> Posterior:
                problem = SparseBayes(
                    gram, parts[j].sign, "logistic", bias, data.weight
                )
                if before is None:
                    return self._solved(problem, watcher, names[j], seconds)
                # A search begins with a single column: only a longer one gets further.
                if seconds is None or seconds <= before.run.seconds:
                    return before
                more = self._solved(problem, watcher, names[j], seconds)
                more = replace(more, run=more.run.after(before.run))
                return more if more.evidence > before.evidence else before

            found = Shares(seconds_left(), np.ones(len(parts))).solve(solve)
            self._store(data, found)
        for posterior in found:
            self._warn_unless_optimal(posterior)
        return self

    def decision_function(self, X: Points) -> np.ndarray:
        """κ f, the log odds of the classes: (m,) for two, a column each for more."""
        mean, variance = self._beliefs(X)
        return mean / np.sqrt(1 + np.pi * variance / 8)

    def predict_proba(self, X: Points) -> np.ndarray:
        """The probability of each class at the m points of X, (m, k)."""
        values = self.decision_function(X)
        return Classes(self.classes_).probabilities(values)

    def predict_log_proba(self, X: Points) -> np.ndarray:
        """The logarithm of `predict_proba`."""
        return np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))

    def predict(self, X: Points) -> np.ndarray:
        """The most probable class at each of the m points of X."""
        values = self.decision_function(X)
        return Classes(self.classes_).chosen(values)
