"""KernelSGDRegressor: numbers by any convex loss, point by point."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils._param_validation import StrOptions

from mercer.data.points import Points
from mercer.losses import EpsilonInsensitive, Huber, Loss, Quantile, Squared
from mercer.machines.checks import checked_parameters, columns_of
from mercer.machines.labels import available_if
from mercer.machines.sgd.base import CONSTRAINTS, KernelSGD, takes_streams

NUMBERS: dict[str, type[Loss]] = {
    "squared": Squared,
    "squared_error": Squared,
    "epsilon_insensitive": EpsilonInsensitive,
    "huber": Huber,
    "quantile": Quantile,
}


class KernelSGDRegressor(MultiOutputMixin, RegressorMixin, KernelSGD):
    """f(x) = ⟨w, φ(x)⟩, w ← (1 - 2 reg η) w - η ℓ′(y, f(x)) φ(x), for numbers y.

    Minimises reg ‖w‖² + mean ℓ, or the mean over ‖w‖ ≤ norm, by one step for each
    visit of a point. Several targets are learnt side by side. Losses with corners make
    steps of about 1 at first: bring targets to that scale.

    With many points, or a stream, of a kernel with few explicit features w is kept on
    these, and a step takes no longer the more points there were.

    Parameters
    ----------
    loss : "squared" ("squared_error"), "epsilon_insensitive", "huber", "quantile", or
        an object such as Quantile(0.9)
    kernel, reg, norm, learning_rate, eta0, horizon, average, budget, removal,
    fit_intercept, max_iter, tol, n_iter_no_change, shuffle, random_state, verbose,
    callback, time_limit : as in `KernelSGDClassifier`

    Attributes
    ----------
    expansion_, last_, dual_coef_, norm_, loss_curve_, t_, n_iter_, run_, bound_ : as in
        `KernelSGDClassifier`

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelSGDRegressor, RBF
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> machine = KernelSGDRegressor(kernel=RBF(1), max_iter=20, random_state=0)
    >>> machine.fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])) > 0.95
    True
    >>> machine.t_, str(machine.run_.status)
    (4000, 'passes')
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [StrOptions(set(NUMBERS)), Loss],
        **CONSTRAINTS,
    }

    def __init__(
        self,
        loss: Any = "squared",
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
        loss = NUMBERS[self.loss]() if isinstance(self.loss, str) else self.loss
        if loss.of_sides:
            raise ValueError(
                f"KernelSGDRegressor needs a loss of numbers; got {loss!r}, of sides "
                "±1. Use KernelSGDClassifier."
            )
        return loss

    @checked_parameters
    def fit(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Learn f from the points X and the targets y, anew; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : (n,) array, or (n, q) for q targets
        sample_weight : n numbers ≥ 0; a point of weight 2 is visited twice in a pass,
            one of weight 0.5 once with half the step
        """
        data = self._fit_data(X, y, sample_weight, multi_output=True, y_numeric=True)
        self._learn(data, columns_of(data.target))
        return self

    @available_if(takes_streams)
    @checked_parameters
    def partial_fit(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Go on learning from a batch, its points in the order given; returns self.

        The kernel's learnt parameters are those of the first batch. A batch that is
        refused, for a NaN or otherwise, leaves everything as it was.

        Parameters
        ----------
        X : points, one or more
        y : (n,) array, or (n, q) for q targets
        sample_weight : as in `fit`
        """
        first = not hasattr(self, "expansion_")
        X, y = self._validated(X, y, reset=first, multi_output=True, y_numeric=True)
        target = columns_of(y)
        if not first and target.shape[1] != self.expansion_.n_outputs:
            raise ValueError(
                f"The first batch had {self.expansion_.n_outputs} targets; got "
                f"{target.shape[1]}."
            )
        self._learn_more(X, target, sample_weight)
        return self

    def _targets(self, y: np.ndarray) -> np.ndarray:
        return columns_of(y)

    def predict(self, X: Points) -> np.ndarray:
        """f at the m points of X: (m,), or (m, q) for q targets."""
        return self._values(X)
