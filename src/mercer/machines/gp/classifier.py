"""GaussianProcessClassifier: classes, with the evidence of the kernel by Laplace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.parallel import Parallel
from sklearn.utils.validation import check_is_fitted

from mercer.data.points import Points, count, double, take
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.machines.base import KernelSum
from mercer.machines.checks import checked_parameters
from mercer.machines.gp.base import GaussianProcess, ScikitLearnKernel, blocks
from mercer.machines.labels import check_classes, encoded
from mercer.machines.parallel import side_by_side
from mercer.machines.progress import reporting, watching
from mercer.multiclass import names as problem_names
from mercer.multiclass import scores
from mercer.native import memory
from mercer.outcomes import Run, total
from mercer.solvers.gaussian import LogisticEvidence, Mode, mean_logistic

ROOM = 24.0  # bytes for a pair of points, while a kernel is learnt


@dataclass(frozen=True, eq=False)
class BinaryProcess:
    """One class against others: f, its variance, and the evidence of its kernel.

    Parameters
    ----------
    index : the numbers of its points among those of the fit; None for all of them
    """

    expansion_: Expansion
    problem: LogisticEvidence
    mode: Mode
    theta: np.ndarray
    curve: list[Any]
    run: Run
    index: np.ndarray | None = None

    @property
    def kernel_(self) -> Any:
        kernel = self.expansion_.kernel
        return kernel.there() if isinstance(kernel, ScikitLearnKernel) else kernel

    @property
    def log_marginal_likelihood_value_(self) -> float:
        return self.mode.evidence

    def beliefs(self, X: Points) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the variance of f at new points."""
        mean, variance = self.expansion_(X), np.empty(count(X))
        kernel, known = self.expansion_.kernel, self.problem.X
        for rows in blocks(X, count(known)):
            some = double(take(X, rows))
            across = np.asarray(kernel(some, known), dtype=float)
            own = np.asarray(kernel.diag(some), dtype=float)
            variance[rows] = self.mode.variance(across, own)
        return mean, variance

    def share(self, X: Points) -> np.ndarray:
        """The probability of the class at new points."""
        return mean_logistic(*self.beliefs(X))


@dataclass(frozen=True, eq=False)
class ManyProcesses:
    """The binary processes of several classes."""

    estimators_: list[BinaryProcess]


class GaussianProcessClassifier(ClassifierMixin, GaussianProcess):
    """p(y = 1 | x) = E 1 / (1 + e^-f(x)), f | y a Gaussian process by Laplace's method.

    A drop-in for scikit-learn's GaussianProcessClassifier, with any kernel and points.
    The smooth parameters of the kernel are those of the highest evidence p(y); of
    several classes each problem has a kernel of its own.

    Parameters
    ----------
    kernel : a kernel, or one of `sklearn.gaussian_process.kernels`; None for
        1.0 * RBF(0.5), of which nothing is learnt; a word, the kernel of that name
    optimizer, n_restarts_optimizer, copy_X_train, random_state, bounds, verbose,
    callback, time_limit : those of GaussianProcessRegressor
    max_iter_predict : steps of Newton's method to the mode of f
    warm_start : whether the mode is sought from the last one on
    multi_class : "one_vs_rest", or "one_vs_one", which has no `predict_proba`
    n_jobs : binary problems of several classes that are learnt at the same time, in
        threads of this process; None for one, which has all threads, -1 for as many as
        there are cores. With `verbose` or a callback always one

    Attributes
    ----------
    classes_, n_classes_ : the classes, and how many
    kernel_ : the kernel with all it learnt; for several classes a list of them
    expansion_ : the mean of f | y; for several classes a column each, where they have
        one kernel in common (optimizer=None)
    base_estimator_ : the binary process; for several classes its `estimators_` are
    log_marginal_likelihood_value_ : ln p(y) at the end; the mean of several
    run_ : how the searches ended, and what they took
    n_features_in_, feature_names_in_ : of vectors and of data frames

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from mercer import GaussianProcessClassifier, RBF
    >>> X, y = make_moons(100, noise=0.1, random_state=0)
    >>> machine = GaussianProcessClassifier(1.0 * RBF(1.0)).fit(X, y)
    >>> machine.score(X, y) > 0.95, machine.predict_proba(X).shape
    (True, (100, 2))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GaussianProcess._parameter_constraints,
        "max_iter_predict": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "multi_class": [StrOptions({"one_vs_rest", "one_vs_one"})],
        "n_jobs": [Integral, None],
    }

    classes_: np.ndarray

    def __init__(
        self,
        kernel: Any = None,
        *,
        optimizer: Any = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 0,
        max_iter_predict: int = 100,
        warm_start: bool = False,
        copy_X_train: bool = True,
        random_state: Any = None,
        multi_class: str = "one_vs_rest",
        n_jobs: int | None = None,
        bounds: Mapping[str, Any] | None = None,
        verbose: Any = False,
        callback: Any = None,
        time_limit: float | None = None,
    ):
        self.kernel = kernel
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_iter_predict = max_iter_predict
        self.warm_start = warm_start
        self.copy_X_train = copy_X_train
        self.random_state = random_state
        self.multi_class = multi_class
        self.n_jobs = n_jobs
        self.bounds = bounds
        self.verbose = verbose
        self.callback = callback
        self.time_limit = time_limit

    @checked_parameters
    def fit(self, X: Points, y: Any) -> Self:
        """Learn the kernel and f from the points X and their classes y; returns self.

        Parameters
        ----------
        X : n points
        y : n classes, numbers or strings
        """
        X, y = self._validated(X, y)
        self._check_square(X)
        check_classes(self, y)
        known, label = encoded(self, y)
        classes = known.names
        points = self._trained_points(X)
        gram = self._gram(X, points)
        self.classes_, self.n_classes_ = classes, len(classes)
        scheme = "ovo" if self.multi_class == "one_vs_one" else "ovr"
        parts = self._parts(label, len(classes), scheme)
        names = problem_names(classes, scheme) if len(parts) > 1 else [""]
        before = getattr(self, "_starts", None) if self.warm_start else None
        starts = self._kept_starts(before, parts)
        seeds = self._seeds(len(parts))
        tasks = [
            partial(self._learnt, gram, *part, start, seed)
            for part, start, seed in zip(parts, starts, seeds, strict=True)
        ]
        with watching(self, names, X, y) as watcher:
            workers = 1 if watcher is not None else self._workers(parts)
            if workers > 1:
                found = side_by_side(tasks, workers)
            else:
                found = []
                for task, name in zip(tasks, names, strict=True):
                    with reporting(watcher, name) as watch:
                        found.append(task(watch))
            self._store(found)
            self._starts = starts
        for part in found:
            self._warn_unless_optimal(part)
        return self

    @staticmethod
    def _parts(
        label: np.ndarray, k: int, scheme: str
    ) -> list[tuple[np.ndarray | None, np.ndarray]]:
        """The points of each binary problem, None for all, and 1 for its class."""
        if k == 2:
            return [(None, (label == 1).astype(float))]
        if scheme == "ovr":
            return [(None, (label == c).astype(float)) for c in range(k)]
        parts: list[tuple[np.ndarray | None, np.ndarray]] = []
        for a, b in combinations(range(k), 2):
            index = np.flatnonzero((label == a) | (label == b))
            parts.append((index, (label[index] == b).astype(float)))
        return parts

    def _workers(self, parts: Sequence[tuple[Any, np.ndarray]]) -> int:
        """How many problems are learnt at a time, as far as memory goes."""
        largest = max(len(target) for _, target in parts)
        fitting = memory.available_memory() / (ROOM * max(largest, 1) ** 2)
        wanted = Parallel(self.n_jobs)._effective_n_jobs()
        return int(max(1, min(wanted, len(parts), fitting)))

    def _seeds(self, n: int) -> list[Any]:
        """The random state of each problem, whichever of them is solved first."""
        if isinstance(self.random_state, np.random.RandomState):
            return self.random_state.randint(2**31 - 1, size=n).tolist()
        return [self.random_state] * n

    def _kept_starts(
        self, before: Any, parts: Sequence[tuple[Any, np.ndarray]]
    ) -> list[np.ndarray | None]:
        if not self.warm_start:
            return [None] * len(parts)
        sizes = [len(target) for _, target in parts]
        if before is not None and [len(start) for start in before] == sizes:
            return [start.copy() for start in before]
        return [np.zeros(size) for size in sizes]

    def _learnt(
        self,
        gram: Gram,
        index: np.ndarray | None,
        target: np.ndarray,
        start: np.ndarray | None,
        seed: Any,
        watch: Any,
    ) -> BinaryProcess:
        points = gram.X if index is None else take(gram.X, index)
        free = self._free(gram.kernel, {})
        problem = LogisticEvidence(points, target, free, self.max_iter_predict, start)
        theta, run, curve = free.start, Run(), []
        learnt = self.optimizer is not None and self.kernel is not None
        near = problem if start is not None else replace(problem, start=0 * target)
        if learnt and len(theta):
            found = self._ascended(near, watch, seed)
            theta, run, curve = found.theta, found.run, found.curve
        kernel, _ = free.at(theta)
        mode = near.mode(kernel)
        f = Expansion(kernel, points, mode.coef)
        return BinaryProcess(f, problem, mode, theta, curve, run, index)

    def _store(self, found: list[BinaryProcess]) -> None:
        self.__dict__.pop("expansion_", None)
        self.run_ = total([part.run for part in found])
        values = [part.log_marginal_likelihood_value_ for part in found]
        self.log_marginal_likelihood_value_ = float(np.mean(values))
        if len(found) == 1:
            self.base_estimator_: Any = found[0]
            self.expansion_ = found[0].expansion_
            return
        self.base_estimator_ = ManyProcesses(found)
        first = found[0].expansion_
        alike = all(part.expansion_.kernel == first.kernel for part in found)
        if alike and self.multi_class == "one_vs_rest":
            coef = np.column_stack([part.expansion_.coef for part in found])
            bias = np.zeros(len(found))
            self.expansion_ = Expansion(first.kernel, first.points, coef, bias)

    def _processes(self) -> list[BinaryProcess]:
        check_is_fitted(self, "base_estimator_")
        found = self.base_estimator_
        if isinstance(found, ManyProcesses):
            return found.estimators_
        return [replace(found, expansion_=self.expansion_)]

    @property
    def kernel_(self) -> Any:
        kernels = [part.kernel_ for part in self._processes()]
        return kernels[0] if len(kernels) == 1 else kernels

    def _as_sums(self) -> list[KernelSum]:
        """The mean of each latent f, Σᵢ (∂ ln p(yᵢ | fᵢ) / ∂fᵢ) k(xᵢ, x)."""
        if hasattr(self, "expansion_"):  # all have one kernel
            return [self._as_sum()]
        return [
            KernelSum(part.expansion_, 1.0, 0.0, places=part.index)
            for part in self._processes()
        ]

    def _output_names(self) -> list[str]:
        if len(self.classes_) == 2 or self.multi_class == "one_vs_rest":
            return super()._output_names()
        # f > 0 is for the second class of a pair.
        return [f"{b} against {a}" for a, b in combinations(self.classes_, 2)]

    def decision_function(self, X: Points) -> np.ndarray:
        """f / √(1 + πv/8), v its variance: (m,), or a column each for more classes.

        About the log odds. Of "one_vs_one" the votes of the pairs, with these to break
        ties.
        """
        X = self._checked(X)
        beliefs = [part.beliefs(X) for part in self._processes()]
        values = np.column_stack([f / np.sqrt(1 + np.pi * v / 8) for f, v in beliefs])
        if values.shape[1] == 1:
            return values[:, 0]
        one_vs_one = self.multi_class == "one_vs_one"
        return scores(-values, len(self.classes_)) if one_vs_one else values

    def _checked(self, X: Points) -> Points:
        check_is_fitted(self, "base_estimator_")
        return self._validated_points(X, reset=False)

    def predict(self, X: Points) -> np.ndarray:
        """The most probable class at each of the m points of X."""
        if len(self._processes()) == 1:
            f = self._processes()[0].expansion_(self._checked(X))
            return self.classes_[(f >= 0).astype(int)]
        if self.multi_class == "one_vs_one":
            return self.classes_[np.argmax(self.decision_function(X), axis=1)]
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]

    def predict_proba(self, X: Points) -> np.ndarray:
        """The probability of each class at the m points of X, (m, k).

        Of several classes those of each against the rest, divided by their sum.
        """
        check_is_fitted(self, "base_estimator_")
        if len(self.classes_) > 2 and self.multi_class == "one_vs_one":
            raise ValueError(
                "one_vs_one multi-class mode does not support predicting probability "
                "estimates. Use one_vs_rest mode instead."
            )
        X = self._checked(X)
        shares = np.column_stack([part.share(X) for part in self._processes()])
        if shares.shape[1] == 1:
            return np.column_stack([1 - shares, shares])
        sums = shares.sum(axis=1, keepdims=True)
        return np.divide(
            shares, sums, out=np.full(shares.shape, 1 / shares.shape[1]), where=sums > 0
        )

    def latent_mean_and_variance(self, X: Points) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the variance of f at the m points of X, of two classes."""
        if len(self._processes()) > 1:
            raise ValueError(
                "Returning the mean and variance of the latent function f is only "
                f"supported for binary classification, received {self.n_classes_} "
                "classes."
            )
        return self._processes()[0].beliefs(self._checked(X))

    def log_marginal_likelihood(
        self,
        theta: Any = None,
        eval_gradient: bool = False,
        clone_kernel: bool = True,
    ) -> Any:
        """ln p(y | θ), the mean over several problems; also its slope.

        Parameters
        ----------
        theta : the free parameters, positive ones by their logarithms: those of one
            problem, for all, or of each problem in turn; None for those learnt
        eval_gradient : whether to return (value, slope); of several classes, no slope
        clone_kernel : has no effect: `kernel_` never changes
        """
        processes = self._processes()
        if theta is None:
            if eval_gradient:
                raise ValueError("Gradient can only be evaluated for theta!=None")
            return self.log_marginal_likelihood_value_
        theta = np.asarray(theta, dtype=float)
        if len(processes) == 1:
            problem = processes[0].problem
            return problem.objective(theta) if eval_gradient else problem.value(theta)
        if eval_gradient:
            raise NotImplementedError(
                "Gradient of log-marginal-likelihood not implemented for multi-class "
                "GPC. Each of base_estimator_.estimators_ has its own: "
                "problem.objective(theta)."
            )
        size = len(processes[0].theta)
        each = (
            [theta] * len(processes)
            if len(theta) == size
            else np.split(theta, len(processes))
        )
        values = [
            part.problem.value(own) for part, own in zip(processes, each, strict=True)
        ]
        return float(np.mean(values))
