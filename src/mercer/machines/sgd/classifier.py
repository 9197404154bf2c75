"""KernelSGDClassifier: classes by any convex loss, point by point."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import _check_partial_fit_first_call

from mercer.data.points import Points
from mercer.losses import Hinge, Logistic, Loss, PerceptronLoss, SquaredHinge
from mercer.machines.checks import checked_parameters
from mercer.machines.labels import (
    available_if,
    check_classes,
    check_columns,
    check_known,
    check_two,
    labelled,
)
from mercer.machines.sgd.base import CONSTRAINTS, KernelSGD, takes_streams
from mercer.multiclass import Classes
from mercer.native.sorting import distinct

SIDES: dict[str, type[Loss]] = {
    "hinge": Hinge,
    "perceptron": PerceptronLoss,
    "squared_hinge": SquaredHinge,
    "logistic": Logistic,
    "log_loss": Logistic,
}


def _has_probabilities(machine: KernelSGDClassifier) -> bool:
    if not isinstance(machine._loss(), Logistic):
        raise AttributeError(
            f"predict_proba comes with the logistic loss; got loss={machine.loss!r}."
        )
    return True


class KernelSGDClassifier(ClassifierMixin, KernelSGD):
    """f(x) = ⟨w, φ(x)⟩, w ← (1 - 2 reg η) w - η ℓ′(y, f(x)) φ(x): classes by its sign.

    Minimises reg ‖w‖² + mean ℓ, or the mean over ‖w‖ ≤ norm, by one step for each
    visit of a point. Several classes are learnt one against the rest, all in one pass
    that shares its kernel values.

    With many points, or a stream, of a kernel with few explicit features w is kept on
    these, and a step takes no longer the more points there were.

    Parameters
    ----------
    loss : "hinge", "perceptron", "squared_hinge", "logistic" ("log_loss"), or any
        convex loss as an object; of numbers, such as Squared(), on the sides ±1
    kernel : a kernel; a word ("linear", "rbf", ..., "precomputed"), the kernel of that
        name with its defaults; a function of two sets of points, giving their matrix;
        None for RBF()
    reg : number ≥ 0; as in `RegularizedMachine`, so that C of an SVM is 1/(2 reg n).
        Pegasos' λ is 2 reg
    norm : B > 0: after each step w ← w · min(1, B/‖w‖); None for no projection
    learning_rate : η of step t. "constant": eta0; "root": eta0/√t; "pegasos":
        1/(2 reg t); "theory": B/(L R √T), with T = horizon or all steps of `fit`;
        "auto": 1/(2 reg t + c R²), and "root" for reg = 0. R² = max k(x, x), L the
        steepest slope, c the largest curvature of the loss (1 where it has corners)
    eta0 : None for B/(L R) where there is a norm, else 1/(c R²)
    average : whether f is the mean of w before each step, as the theory has it, or
        the last w, which a stream that changes asks for; None for the mean unless
        there is a budget
    budget : terms at most, whose budget² kernel values are kept; None for no limit
    removal : what a full budget gives up: its "oldest" term; its "smallest", by the
        largest |coef| √k(x, x) over the classes; or "merge": the smallest in the mean
        or the newest, and another of the same signs, become one (RBF on vectors only),
        which loses least by far. What leaves is missing from averages too, all that it
        was before: f is then poor, and average=None the better choice
    fit_intercept : whether the kernel is k + 1: a bias, regularised like the rest
    max_iter : passes over the points
    tol : `fit` ends after n_iter_no_change passes that lowered the mean loss by no
        more; None for max_iter passes
    shuffle : whether `fit` visits the points in an order drawn anew for each pass;
        for vectors it does not depend on the order in which they are given
    verbose : whether to print a line now and then
    callback : called with a `Progress` every few hundred steps; True stops the fit
    time_limit : seconds; None for no limit. The fit then ends with the best it has, the
        status "time_limit" and a warning. `partial_fit` has none

    Attributes
    ----------
    expansion_ : f itself, on kernel k + 1 with fit_intercept
    last_ : w after the last step, where `expansion_` is an average
    dual_coef_ : the coefficients of `expansion_`, a row for each function
    norm_ : ‖w‖ of `last_`, kept step by step
    classes_ : the classes, in order
    loss_curve_ : mean loss of each pass or batch, at each point before its step
    t_, n_iter_ : steps, and passes or batches so far
    run_ : what the last fit took; its status is "passes" (all that were asked for),
        "converged", "max_iter" or "stopped"
    bound_ : L·B·R/√T of runs at the rate of the theory; see also `regret_bound`

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from mercer import KernelSGDClassifier, RBF
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> machine = KernelSGDClassifier(kernel=RBF(2), budget=100, random_state=0)
    >>> for start in range(0, 300, 100):
    ...     part = slice(start, start + 100)
    ...     machine = machine.partial_fit(X[part], y[part], classes=[0, 1])
    >>> machine.t_, machine.dual_coef_.shape[1] <= 100, machine.score(X, y) > 0.9
    (300, True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [StrOptions(set(SIDES)), Loss],
        **CONSTRAINTS,
    }

    classes_: np.ndarray

    def __init__(
        self,
        loss: Any = "hinge",
        *,
        kernel: Any = None,
        reg: float = 1e-4,
        norm: float | None = None,
        learning_rate: str = "auto",
        eta0: float | None = None,
        horizon: int | None = None,
        average: bool | None = None,
        budget: int | None = None,
        removal: str = "oldest",
        fit_intercept: bool = True,
        max_iter: int = 10,
        tol: float | None = None,
        n_iter_no_change: int = 2,
        shuffle: bool = True,
        random_state: Any = None,
        verbose: Any = False,
        callback: Any = None,
        time_limit: float | None = None,
    ):
        self.loss = loss
        self.kernel = kernel
        self.reg = reg
        self.norm = norm
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.horizon = horizon
        self.average = average
        self.budget = budget
        self.removal = removal
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.shuffle = shuffle
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback
        self.time_limit = time_limit

    def _loss(self) -> Loss:
        return SIDES[self.loss]() if isinstance(self.loss, str) else self.loss

    @checked_parameters
    def fit(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Learn f from the points X and their classes y, anew; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : n classes, numbers or strings
        sample_weight : n numbers ≥ 0; a point of weight 2 is visited twice in a pass,
            one of weight 0.5 once with half the step
        """
        data = labelled(self, self._fit_data(X, y, sample_weight))
        self._learn(data, Classes(self.classes_).sides(data.target))
        return self

    @available_if(takes_streams)
    @checked_parameters
    def partial_fit(
        self,
        X: Points,
        y: Any,
        classes: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> Self:
        """Go on learning from a batch, its points in the order given; returns self.

        The kernel's learnt parameters are those of the first batch. A batch that is
        refused, for a NaN or otherwise, leaves everything as it was.

        Parameters
        ----------
        X : points, one or more
        classes : all the classes there will be; needed in the first call
        sample_weight : as in `fit`
        """
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        X, y = self._validated(X, y, reset=first)
        check_classes(self, y)
        known = self.classes_ if classes is None or not first else distinct(classes)
        if not first and classes is not None:
            _check_partial_fit_first_call(self, classes)
        check_two(self, known)
        check_known(self, y, known)
        check_columns(self, len(known), len(y))
        self._learn_more(X, _sides(y, known), sample_weight)
        self.classes_ = known
        return self

    def _targets(self, y: np.ndarray) -> np.ndarray:
        check_known(self, y, self.classes_)
        return _sides(y, self.classes_)

    def decision_function(self, X: Points) -> np.ndarray:
        """f at m points: (m,) for two classes, (m, k), a column per class, for more."""
        return self._values(X)

    def predict(self, X: Points) -> np.ndarray:
        """The class of each of the m points of X."""
        values = self._values(X)
        return Classes(self.classes_).chosen(values)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Points) -> np.ndarray:
        """1 / (1 + e^(-f)) for the second of two classes; shares of these for more."""
        values = self._values(X)
        return Classes(self.classes_).probabilities(values)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Points) -> np.ndarray:
        """The logarithm of `predict_proba`."""
        return np.log(self.predict_proba(X))


def _sides(y: np.ndarray, names: np.ndarray) -> np.ndarray:
    """±1 for each point, a column for two classes and one per class for more."""
    classes = Classes(names)
    return classes.sides(classes.label(y))
