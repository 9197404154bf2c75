"""Machines on few points, by a penalty on Σⱼ|coefⱼ|: classes, numbers, and paths.

The penalty makes most coefficients 0 whatever k is: no Mercer condition is needed, and
any similarity of two points will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import (
    ClassifierMixin,
    MultiOutputMixin,
    RegressorMixin,
    _fit_context,
    clone,
)
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer import multiclass
from mercer.data.points import Points
from mercer.losses import Logistic, Squared
from mercer.machines.base import WeightedGram, check_squares
from mercer.machines.l1 import SparseMachine, SparsePath, evenly, positive
from mercer.machines.labels import (
    check_classes,
    class_factors,
    encoded,
)
from mercer.multiclass import Classes
from mercer.outcomes import Certificate, iterations
from mercer.solvers.lasso import L1Problem


class SparseKernelClassifier(ClassifierMixin, SparseMachine):
    """min ‖coef‖₁ + C Σᵢ wᵢ ln(1 + exp(-yᵢ f(xᵢ))), f = Σⱼ coefⱼ k(xⱼ, ·) + bias.

    Logistic regression on the columns of the kernel matrix, most of which it leaves
    out: scikit-learn's LogisticRegression(C=C, l1_ratio=1) fitted on K gives the same f
    with solver="saga", and with "liblinear" but that it penalises the bias as well. k
    need not be a kernel: any similarity will do. Several classes are told apart one
    against the rest, on one set of points.

    Parameters
    ----------
    C : > 0; the smaller, the fewer points. Below 1 / max over j of
        |Σᵢ wᵢ (pᵢ - [yᵢ = 1]) k(xⱼ, xᵢ)|, p the share of the class, there are none;
        `path` begins there
    kernel : a kernel, or any similarity that is symmetric; a word ("rbf",
        "linear", ..., "precomputed"), the kernel of that name with its defaults; a
        function of two sets of points, giving their matrix; None for RBF()
    on : "points", or "features" for f = ⟨w, φ⟩ + bias with the penalty on Σⱼ|wⱼ| over
        the coordinates of an explicit map: which columns, monomials, substrings,
        fragments of trees or patterns of graphs matter. The kernel must have such a
        map (`features`); parts of new points that were not there before are ignored
    fit_intercept : whether f has a bias, which is not penalised
    class_weight : a dict of factors of C; "balanced" for n / (k nᵢ)
    tol : the gap at the end, relative to the objective of the best constant
    max_iter : Newton steps for each two-class problem
    cache_size : megabytes for the kernel matrix; None for a share of what is free. A
        larger one is not stored
    solver : what solves the `L1Problem`; None for CoordinateDescent(tol, max_iter,
        cache_size)
    warm_start : whether `fit` starts from the last solution, on points known from it
    verbose : whether to print how far the solver is
    callback : a function of a `Progress` (of `mercer.solvers`), called after every
        round of the solver; the fit stops where it returns True

    Attributes
    ----------
    expansion_ : f itself, on the points it needs; a column for each two-class problem
    support_, support_vectors_, n_support_ : these points: their places in X, they
        themselves, and how many there are of each class
    dual_coef_, intercept_ : coefficients and biases, a row for each two-class problem
    feature_names_, coef_ : of on="features": the name of every feature, and w, a row
        for each two-class problem; `selected_features` lists those that are not 0.
        There are no support vectors then
    classes_, class_weight_ : as scikit-learn's
    certificate_ : primal, dual, gap (of the objective divided by C), and what it took
    n_iter_ : Newton steps for each two-class problem

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from mercer import SparseKernelClassifier
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> machine = SparseKernelClassifier(C=10).fit(X, y)
    >>> machine.score(X, y) > 0.95, len(machine.support_) < 40
    (True, True)
    """

    _parameter_constraints: ClassVar[dict] = {
        **SparseMachine._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    classes_: np.ndarray
    class_weight_: np.ndarray

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = None,
        on: str = "points",
        fit_intercept: bool = True,
        class_weight: Any = None,
        tol: float = 1e-4,
        max_iter: int = 1000,
        cache_size: float | None = None,
        solver: Any = None,
        warm_start: bool = False,
        verbose: Any = False,
        callback: Any = None,
    ):
        self.C = C
        self.kernel = kernel
        self.on = on
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.solver = solver
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Points, y, sample_weight=None) -> Self:
        """Learn f from the points X and their classes y; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : n classes, numbers or strings
        sample_weight : n numbers; weight 2 is the row twice, weight ≤ 0 no row
        """
        X, counted, classes, label, factors = self._prepared(X, y, sample_weight)
        names = multiclass.names(classes, "ovr")
        with self._watched(names, X, y, sample_weight):
            problems = self._problems(counted, label, factors, 1 / self.C)
            found = self._fit_columns(X, counted, problems, single=len(classes) == 2)
            self.classes_, self.class_weight_ = classes, factors
            if self.on == "points":
                self._label = label[np.searchsorted(counted.index, self.support_)]
            self.n_iter_ = iterations(found)
        self._warn_unless_optimal(self.certificate_)
        return self

    def _prepared(self, X, y, sample_weight, reset: bool = True):
        """Points, those that count, the classes, those of the points, and factors."""
        X, y = self._validated(X, y, **({} if reset else {"reset": False}))
        check_classes(self, y)
        counted = self._weighted_gram(X, sample_weight)
        present = y[counted.index]
        known, label = encoded(self, present)
        classes = known.names
        self._check_symmetric(X)
        factors = class_factors(self, classes, present, counted.weight)
        return X, counted, classes, label, factors

    def _problems(self, counted: WeightedGram, label, factors, reg: float):
        """The two-class problems, each class against the rest."""
        weight = counted.weight * factors[label]
        return [
            self._problem(counted, part.sign, Logistic(), reg, weight)
            for part in multiclass.parts(label, len(factors), "ovr")
        ]

    def decision_function(self, X: Points) -> np.ndarray:
        """f at m points: (m,) for two classes, a column for each class for more."""
        return self._values(X)

    def predict(self, X: Points) -> np.ndarray:
        """The class of each of the m points of X."""
        values = self._values(X)
        return Classes(self.classes_).chosen(values)

    def predict_proba(self, X: Points) -> np.ndarray:
        """The probability of each class at m points, (m, k).

        1 / (1 + exp(-f)) for two classes; for more, those of each class against the
        rest, brought to sum 1.
        """
        values = self._values(X)
        return Classes(self.classes_).probabilities(values)

    def predict_log_proba(self, X: Points) -> np.ndarray:
        """The logarithm of `predict_proba`."""
        return np.log(self.predict_proba(X))

    @property
    def n_support_(self) -> np.ndarray:
        """How many points of each class f stands on."""
        counts = np.bincount(self._label, minlength=len(self.classes_))
        return counts.astype(np.int32)

    def path(
        self,
        X: Points,
        y,
        sample_weight=None,
        *,
        Cs: Sequence[float] | None = None,
        n_steps: int = 30,
        ratio: float = 1e-2,
    ) -> SparsePath:
        """f for one C after another, from the least that leaves no point at all.

        Each begins where the last ended; together they take little longer than the
        last alone. The machine itself is not fitted.

        Parameters
        ----------
        X, y, sample_weight : as for `fit`
        Cs : the C to take; None for `n_steps` of them between the least, C_min, and
            C_min / ratio, evenly on a logarithmic scale
        """
        self._validate_params()
        machine = clone(self)
        _, counted, classes, label, factors = machine._prepared(X, y, sample_weight)
        problems = machine._problems(counted, label, factors, 1.0)
        if Cs is None:
            most = max(problem.largest_reg() for problem in problems)
            regs = evenly(most, n_steps, ratio)
        else:
            regs = 1 / positive(Cs, "Cs")
        names = multiclass.names(classes, "ovr")
        regs, f, found = machine._traced(counted, problems, regs, names)
        return SparsePath(1 / regs, f, found, classes)

    def certify(self, X: Points, y, sample_weight=None) -> Certificate:
        """The certificate of f, recomputed from the training data and all of K.

        Parameters
        ----------
        X, y, sample_weight : as they were given to `fit`
        """
        check_is_fitted(self)
        X, counted, _, label, factors = self._prepared(X, y, sample_weight, reset=False)
        problems = self._problems(counted, label, factors, 1 / self.C)
        return self._recertified(X, counted, problems)


class SparseKernelRegressor(MultiOutputMixin, RegressorMixin, SparseMachine):
    """min Σᵢ wᵢ (yᵢ - f(xᵢ))² / (2 Σw) + α ‖coef‖₁, f = Σⱼ coefⱼ k(xⱼ, ·) + bias.

    The lasso on the columns of the kernel matrix: scikit-learn's Lasso(alpha) fitted on
    K gives the same f. k need not be a kernel: any similarity will do.

    Parameters
    ----------
    alpha : > 0; the larger, the fewer points. From max over j of
        |Σᵢ wᵢ (yᵢ - mean) k(xⱼ, xᵢ)| / Σw on there are none; `path` begins there
    kernel : a kernel, or any similarity that is symmetric; a word ("rbf",
        "linear", ..., "precomputed"), the kernel of that name with its defaults; a
        function of two sets of points, giving their matrix; None for RBF()
    on : "points", or "features" for f = ⟨w, φ⟩ + bias with the penalty on Σⱼ|wⱼ| over
        the coordinates of an explicit map: which columns, monomials, substrings,
        fragments of trees or patterns of graphs matter. The kernel must have such a
        map (`features`); parts of new points that were not there before are ignored
    fit_intercept : whether f has a bias, which is not penalised
    tol : the gap at the end, relative to the objective of the best constant
    max_iter : Newton steps for each target
    cache_size : megabytes for the kernel matrix; None for a share of what is free. A
        larger one is not stored
    solver : what solves the `L1Problem`; None for CoordinateDescent(tol, max_iter,
        cache_size)
    warm_start : whether `fit` starts from the last solution, on points known from it
    verbose : whether to print how far the solver is
    callback : a function of a `Progress` (of `mercer.solvers`), called after every
        round of the solver; the fit stops where it returns True

    Attributes
    ----------
    expansion_ : f itself, on the points it needs; a column for each target
    support_, support_vectors_, n_support_ : these points: their places in X, they
        themselves, and how many there are
    dual_coef_, intercept_ : coefficients and biases, a row for each target
    feature_names_, coef_ : of on="features": the name of every feature, and w, a row
        for each target; `selected_features` lists those that are not 0. There are no
        support vectors then
    certificate_ : primal, dual, gap, and what it took
    n_iter_ : Newton steps, for each target

    Examples
    --------
    >>> from mercer import Linear, SparseKernelRegressor
    >>> X = [[0, 0, 1], [1, 0, 0], [2, 1, 0], [3, 1, 1]]
    >>> machine = SparseKernelRegressor(0.01, kernel=Linear(), on="features")
    >>> machine = machine.fit(X, [0, 1, 2, 3])
    >>> (machine.coef_ != 0).tolist()  # y is the first column
    [[True, False, False]]
    """

    _parameter_constraints: ClassVar[dict] = {
        **SparseMachine._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        alpha: float = 0.01,
        *,
        kernel: Any = None,
        on: str = "points",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        cache_size: float | None = None,
        solver: Any = None,
        warm_start: bool = False,
        verbose: Any = False,
        callback: Any = None,
    ):
        self.alpha = alpha
        self.kernel = kernel
        self.on = on
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.solver = solver
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Points, y, sample_weight=None) -> Self:
        """Learn f from the points X and the targets y; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : (n,) array, or (n, q) for q targets
        sample_weight : n numbers; weight 2 is the row twice, weight ≤ 0 no row
        """
        X, y, counted = self._prepared(X, y, sample_weight)
        with self._watched(_outputs(y), X, y, sample_weight):
            problems = self._problems(y, counted, self.alpha)
            found = self._fit_columns(X, counted, problems, single=y.ndim == 1)
            steps = [part.run.iterations for part in found]
            self.n_iter_ = steps[0] if y.ndim == 1 else np.array(steps, dtype=np.int32)
        self._warn_unless_optimal(self.certificate_)
        return self

    def _prepared(self, X, y, sample_weight, reset: bool = True):
        """Points, targets as numbers, and those that count."""
        checks: dict = {"multi_output": True, "y_numeric": True}
        X, y = self._validated(X, y, **checks, **({} if reset else {"reset": False}))
        if y.ndim == 1 or y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        check_squares(self, y)
        counted = self._weighted_gram(X, sample_weight)
        self._check_symmetric(X)
        return X, y.astype(np.float64, copy=False), counted

    def _problems(self, y, counted: WeightedGram, reg: float) -> list[L1Problem]:
        weight = counted.weight / (2 * counted.weight.sum())
        columns = y[counted.index].reshape(len(counted.index), -1).T
        return [
            self._problem(counted, column, Squared(), reg, weight) for column in columns
        ]

    def predict(self, X: Points) -> np.ndarray:
        """f at the m points of X: (m,), or (m, q) for q targets."""
        return self._values(X)

    @property
    def n_support_(self) -> np.ndarray:
        """How many points f stands on."""
        return np.array([len(self.support_)], dtype=np.int32)

    def path(
        self,
        X: Points,
        y,
        sample_weight=None,
        *,
        alphas: Sequence[float] | None = None,
        n_steps: int = 30,
        ratio: float = 1e-2,
    ) -> SparsePath:
        """f for one alpha after another, from the least that leaves no point at all.

        Each begins where the last ended; together they take little longer than the
        last alone. The machine itself is not fitted.

        Parameters
        ----------
        X, y, sample_weight : as for `fit`
        alphas : those to take; None for `n_steps` of them between the largest,
            alpha_max, and ratio · alpha_max, evenly on a logarithmic scale
        """
        self._validate_params()
        machine = clone(self)
        _, y, counted = machine._prepared(X, y, sample_weight)
        problems = machine._problems(y, counted, 1.0)
        if alphas is None:
            most = max(problem.largest_reg() for problem in problems)
            regs = evenly(most, n_steps, ratio)
        else:
            regs = positive(alphas, "alphas")
        return SparsePath(*machine._traced(counted, problems, regs, _outputs(y)))

    def certify(self, X: Points, y, sample_weight=None) -> Certificate:
        """The certificate of f, recomputed from the training data and all of K.

        Parameters
        ----------
        X, y, sample_weight : as they were given to `fit`
        """
        check_is_fitted(self)
        X, y, counted = self._prepared(X, y, sample_weight, reset=False)
        return self._recertified(X, counted, self._problems(y, counted, self.alpha))


def _outputs(y: np.ndarray) -> list[str]:
    return [""] if y.ndim == 1 else [f"output {j}" for j in range(y.shape[1])]
