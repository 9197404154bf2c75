"""KernelLogisticRegression: probabilities from a function in the RKHS."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.special import log_expit, log_softmax
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions

from mercer.data.points import Points
from mercer.losses import Logistic
from mercer.machines.base import FitData
from mercer.machines.checks import checked_parameters
from mercer.machines.labels import labelled
from mercer.machines.regularized.base import CONSTRAINTS, RepresenterMachine
from mercer.multiclass import Classes
from mercer.solvers.newton import Softmax
from mercer.solvers.penalized import Penalized


class KernelLogisticRegression(ClassifierMixin, RepresenterMachine):
    """min ½ ‖f‖² + C Σᵢ wᵢ ln(1 + e^(-yᵢ f(xᵢ))): P(y = 1 | x) = 1 / (1 + e^(-f(x))).

    With k > 2 classes f has a column for each, the penalty is ½ Σⱼ ‖fⱼ‖², and
    P(y = j | x) = e^fⱼ(x) / Σᵢ e^fᵢ(x): the multinomial model. On an explicit feature
    map it is scikit-learn's LogisticRegression with an L2 penalty. Minimised by
    `Newton`, for many points with preconditioned conjugate gradients, and in time
    linear in the points where the kernel has a small explicit map.

    Parameters
    ----------
    C : number > 0; a smaller one regularises more
    kernel : a kernel; a word ("rbf", "linear", ..., "precomputed"), the kernel of that
        name with its defaults; a function of two sets of points, giving their matrix;
        None for RBF()
    fit_intercept : whether f has a constant b, which is not penalised
    tol : the duality gap to reach, as a share of the loss of f = 0
    max_iter : Newton steps; -1 for the solver's own limit
    class_weight : {class: weight}, "balanced", or None for 1 each
    warm_start : whether `fit` starts from the last solution, on points known from it
    random_state : seed of the columns that precondition; the solution agrees to tol
    solver : a `Newton`; None for one with `tol` and `max_iter`
    verbose : whether to print how far the fit is
    callback : called with a `Progress` after every step; returns True to stop
    time_limit : seconds; None for no limit. The fit then ends with the best it has, its
        certificate, the status "time_limit" and a warning with the gap. Where there was
        none for a single product with K, without which no gap is known, a TimeoutError
        says so

    Attributes
    ----------
    expansion_ : f itself
    classes_, class_weight_ : the classes, of two of which a positive f speaks for the
        second, and what each counts
    certificate_ : primal, dual and gap, of the objective divided by C Σw;
        `certify(X, y)` computes it anew
    reg_ : 1 / (2 C Σw), of the form reg ‖f‖² + mean loss
    support_, dual_coef_, intercept_, n_iter_ : as for `RegularizedMachine`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import KernelLogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = KernelLogisticRegression(C=10).fit(X, y)
    >>> machine.score(X, y) > 0.95
    True
    >>> machine.predict_proba(X[:1]).sum(axis=1).round(6).tolist()
    [1.0]
    >>> bool(machine.certificate_.gap < 1e-3)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "C": [Interval(Real, 0, None, closed="neither")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "random_state": ["random_state"],
    }
    _path: ClassVar[tuple[str, bool]] = ("C", False)

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = None,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 100,
        class_weight: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        solver: Any = None,
        verbose: Any = False,
        callback: Any = None,
        time_limit: float | None = None,
    ):
        self.C = C
        self.kernel = kernel
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.solver = solver
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
        self._learn(self._prepared(X, y, sample_weight))
        return self

    def _prepared(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None, **checks: Any
    ) -> FitData:
        return labelled(self, self._fit_data(X, y, sample_weight, **checks), True)

    def _problems(self, data: FitData) -> list[Penalized]:
        target, loss = data.target, Softmax(len(self.classes_))  # type: Any, Any
        if len(self.classes_) == 2:
            target, loss = np.where(data.target == 1, 1.0, -1.0), Logistic()
        reg = 1 / (2 * float(self.C) * data.weight.sum())
        return [self._problem(data, target, loss, reg)]

    def decision_function(self, X: Points) -> np.ndarray:
        """f at the m points of X: (m,) for two classes, (m, k) for k."""
        return self._values(X)

    def predict(self, X: Points) -> np.ndarray:
        """The likeliest class of each of the m points of X."""
        values = self._values(X)
        return Classes(self.classes_).chosen(values)

    def predict_proba(self, X: Points) -> np.ndarray:
        """The probability of each class at the m points of X, (m, k)."""
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Points) -> np.ndarray:
        """The logarithm of `predict_proba`."""
        values = self._values(X)
        if values.ndim == 1:
            return np.column_stack([log_expit(-values), log_expit(values)])
        return log_softmax(values, axis=1)
