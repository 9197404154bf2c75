"""RegularizedMachine: the representer theorem as a machine, for every convex loss."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, Tags
from sklearn.utils._param_validation import Interval

from mercer.data.points import Points
from mercer.losses import Loss, Squared
from mercer.machines.base import FitData
from mercer.machines.checks import checked_parameters
from mercer.machines.labels import available_if, labelled
from mercer.machines.regularized.base import CONSTRAINTS, REG, RepresenterMachine
from mercer.machines.wrappers import checked_score
from mercer.multiclass import Classes
from mercer.solvers.penalized import Penalized


def _of_sides(machine: RegularizedMachine) -> bool:
    if not machine._loss().of_sides:
        raise AttributeError(
            f"decision_function is of classes, and loss={machine.loss!r} fits numbers; "
            "predict gives f. Logistic() or Hinge() tell classes apart."
        )
    return True


class RegularizedMachine(RepresenterMachine):
    """min reg ‖f‖² + (1/m) Σᵢ ℓ(yᵢ, f(xᵢ)), or the loss alone with ‖f‖ ≤ norm.

    The representer theorem as a machine, for every convex loss of `mercer`: a
    classifier for the losses of sides (`Hinge`, `SquaredHinge`, `Logistic`,
    `PerceptronLoss`), several classes one against the rest; else a regressor
    (`Squared`, `EpsilonInsensitive`, `Huber`, `Quantile`). Curved losses are minimised
    by `Newton`, those of straight pieces in their dual by `SMO`; both end with a
    duality gap. The perceptron loss is 0 at f = 0, which is its answer.

    Parameters
    ----------
    loss : a loss; None for Squared()
    kernel : a kernel; a word ("rbf", "linear", ..., "precomputed"), the kernel of that
        name with its defaults; a function of two sets of points, giving their matrix;
        None for RBF()
    reg : number > 0; None for 1e-3, or for the one that goes with `norm`
    norm : the radius of the ball ‖f‖ ≤ norm, that is cᵀKc ≤ norm²; None for no ball
    fit_intercept : whether f has a constant b, which is not penalised and has no part
        in ‖f‖; the theorem is about f without
    tol : the duality gap to reach, as a share of the loss of f = 0
    max_iter : steps of the solver; -1 for its own limit
    warm_start : whether `fit` starts from the last solution, on points known from it
    solver : what solves the problem: a `Newton`, or for straight pieces an `SMO`; None
        for one with `tol` and `max_iter`
    verbose : whether to print how far the fit is
    callback : called with a `Progress` after every round; returns True to stop
    time_limit : seconds; None for no limit. The fit then ends with the best it has, its
        certificate, the status "time_limit" and a warning with the gap; classes share
        the time. Where there was none for a single product with K, without which no gap
        is known, a TimeoutError says so

    Attributes
    ----------
    expansion_ : f itself; a column for each class where there are more than two
    certificate_ : primal, dual and gap; `certify(X, y)` computes it anew
    reg_ : reg; with `norm` the one for which ‖f‖ is at most that
    classes_ : of a classifier
    support_ : the places of the points with a coefficient
    dual_coef_, intercept_ : these coefficients and b, a row and a number for each
        function
    n_iter_ : steps of the solver, the most of any class

    Examples
    --------
    >>> from mercer import RBF, RegularizedMachine
    >>> from mercer.losses import Hinge
    >>> X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0]
    >>> machine = RegularizedMachine(Hinge(), kernel=RBF(1), reg=1e-3).fit(X, y)
    >>> machine.predict(X).tolist()
    [0, 1, 1, 0]
    >>> bool(machine.certificate_.gap < 1e-6)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "loss": [Loss, None],
        "reg": [Interval(Real, 0, None, closed="neither"), None],
        "norm": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(
        self,
        loss: Any = None,
        *,
        kernel: Any = None,
        reg: float | None = None,
        norm: float | None = None,
        fit_intercept: bool = False,
        tol: float = 1e-4,
        max_iter: int = -1,
        warm_start: bool = False,
        solver: Any = None,
        verbose: Any = False,
        callback: Any = None,
        time_limit: float | None = None,
    ):
        self.loss = loss
        self.kernel = kernel
        self.reg = reg
        self.norm = norm
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.solver = solver
        self.verbose = verbose
        self.callback = callback
        self.time_limit = time_limit

    def _loss(self) -> Any:
        return Squared() if self.loss is None else self.loss

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        # A grid over `loss` may try what is none; `fit` says so.
        if getattr(self._loss(), "of_sides", False):
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags()
        else:
            tags.estimator_type = "regressor"
            tags.regressor_tags = RegressorTags()
        return tags

    @checked_parameters
    def fit(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Learn f from the points X and the targets y; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : n numbers, or n classes for a loss of sides
        sample_weight : n numbers ≥ 0; weight 2 is the row twice, weight 0 no row
        """
        if self.reg is not None and self.norm is not None:
            raise ValueError(
                f"RegularizedMachine needs reg or norm, one of them; got "
                f"reg={self.reg!r} and norm={self.norm!r}."
            )
        self._learn(self._prepared(X, y, sample_weight))
        return self

    def _prepared(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None, **checks: Any
    ) -> FitData:
        if self._loss().of_sides:
            return labelled(self, self._fit_data(X, y, sample_weight, **checks))
        return self._numeric_data(X, y, sample_weight, **checks)

    def _problems(self, data: FitData) -> list[Penalized]:
        reg = REG if self.reg is None and self.norm is None else self.reg
        targets = [data.target]
        if self._loss().of_sides:
            parts = Classes(self.classes_).parts(data.target)
            targets = [part.sign for part in parts]
        return [
            self._problem(data, target, self._loss(), reg, self.norm)
            for target in targets
        ]

    @available_if(_of_sides)
    def decision_function(self, X: Points) -> np.ndarray:
        """f at the m points of X: (m,), or (m, k) for k > 2 classes."""
        return self._values(X)

    def predict(self, X: Points) -> np.ndarray:
        """f at the m points of X; for a loss of sides the class it speaks for."""
        values = self._values(X)
        if not self._loss().of_sides:
            return values
        return Classes(self.classes_).chosen(values)

    @checked_score
    def score(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None = None
    ) -> float:
        """The share of right classes, or R² of the predictions of numbers."""
        judge = accuracy_score if self._loss().of_sides else r2_score
        return float(judge(y, self.predict(X), sample_weight=sample_weight))
