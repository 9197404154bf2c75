"""SparseKernelClassifier: logistic regression on few points, or few features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions

from mercer.data.points import Points
from mercer.losses import Logistic
from mercer.machines.base import FitData
from mercer.machines.checks import checked_parameters
from mercer.machines.labels import labelled
from mercer.machines.sparse.base import SparseMachine, SparsePath, positive
from mercer.machines.sparse.terms import FeatureTerms, PointTerms
from mercer.machines.wrappers import timed
from mercer.multiclass import Classes
from mercer.outcomes import iterations
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
    time_limit : seconds; None for no limit. The fit then ends with the best it has, its
        certificate, the status "time_limit" and a warning with the gap; classes share
        the time

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
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
        time_limit: float | None = None,
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
        data = self._prepared(X, y, sample_weight)
        self._learn(data)
        self._label = data.target[self._places] if self.on == "points" else None
        return self

    @property
    def _reg(self) -> float:
        return 1 / self.C

    def _prepared(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None, reset: bool = True
    ) -> FitData:
        checks = {} if reset else {"reset": False}
        return labelled(self, self._fit_data(X, y, sample_weight, **checks), True)

    def _problems(
        self, terms: PointTerms | FeatureTerms, data: FitData, reg: float
    ) -> list[L1Problem]:
        """The two-class problems, each class against the rest."""
        parts = Classes(self.classes_).parts(data.target)
        return [terms.problem(p.sign, Logistic(), reg, data.weight) for p in parts]

    def _names(self, data: FitData) -> list[str]:
        return Classes(self.classes_).problems()

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
    def n_iter_(self) -> np.ndarray:
        """Newton steps for each two-class problem."""
        return iterations(self.certificate_.parts or [self.certificate_])

    @property
    def n_support_(self) -> np.ndarray:
        """How many points of each class f stands on."""
        if self._label is None:
            raise AttributeError("n_support_ is of points; this f stands on features.")
        counts = np.bincount(self._label, minlength=len(self.classes_))
        return counts.astype(np.int32)

    def path(
        self,
        X: Points,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        *,
        Cs: Sequence[float] | None = None,
        n_steps: int = 30,
        ratio: float = 1e-2,
    ) -> SparsePath:
        """f for one C after another, from the least that leaves no point at all.

        Each begins where the last ended; together they take little longer than the
        last alone. The machine itself is not fitted. With `time_limit` the path ends
        where the time is up, its last step perhaps with the status "time_limit".

        Parameters
        ----------
        X, y, sample_weight : as for `fit`
        Cs : the C to take; None for `n_steps` of them between the least, C_min, and
            C_min / ratio, evenly on a logarithmic scale
        """
        regs = None if Cs is None else 1 / positive(Cs, "Cs")
        with timed(self):
            path = self._traced(X, y, sample_weight, regs, n_steps, ratio)
        return replace(path, parameter=1 / path.parameter)
