"""Regression with one loss: quantiles, and Huber's robust loss."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import Interval

from mercer.data.points import Points
from mercer.losses import Huber, Loss, Quantile
from mercer.machines.base import FitData
from mercer.machines.checks import checked_parameters
from mercer.machines.regularized.base import CONSTRAINTS, REG, RepresenterMachine
from mercer.solvers.penalized import Penalized


class _Regression(RegressorMixin, RepresenterMachine):
    """A regressor with one loss: fill in `_loss`."""

    reg: float

    @abstractmethod
    def _loss(self) -> Loss:
        """What a miss costs."""

    def _prepared(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None, **checks: Any
    ) -> FitData:
        return self._numeric_data(X, y, sample_weight, **checks)

    def _problems(self, data: FitData) -> list[Penalized]:
        return [self._problem(data, data.target, self._loss(), self.reg)]

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
        self._learn(self._prepared(X, y, sample_weight))
        return self

    def predict(self, X: Points) -> np.ndarray:
        """f at the m points of X, (m,)."""
        return self._values(X)


class KernelQuantileRegression(_Regression):
    """min reg ‖f‖² + (1/m) Σᵢ max(q rᵢ, (q-1) rᵢ), rᵢ = yᵢ - f(xᵢ): the q-quantile.

    f has a share q of the targets below it. The dual is a quadratic in a box, solved by
    `SMO` and certified by its duality gap.

    Parameters
    ----------
    quantile : q, between 0 and 1; 0.5 is the median
    reg : number > 0
    fit_intercept : whether f has a constant b, which is not penalised
    kernel, tol, max_iter, warm_start, solver, verbose, callback, time_limit : as for
        `RegularizedMachine`

    Attributes
    ----------
    expansion_, certificate_, support_, dual_coef_, intercept_, n_iter_ : as there

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelQuantileRegression
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> y = np.random.default_rng(0).exponential(size=100)
    >>> machine = KernelQuantileRegression(0.9, reg=0.1).fit(X, y)
    >>> bool(0.8 < np.mean(y < machine.predict(X)) < 0.95)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "quantile": [Interval(Real, 0, 1, closed="neither")],
        "reg": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        quantile: float = 0.5,
        *,
        kernel: Any = None,
        reg: float = REG,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = -1,
        warm_start: bool = False,
        solver: Any = None,
        verbose: Any = False,
        callback: Any = None,
        time_limit: float | None = None,
    ):
        self.quantile = quantile
        self.kernel = kernel
        self.reg = reg
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.solver = solver
        self.verbose = verbose
        self.callback = callback
        self.time_limit = time_limit

    def _loss(self) -> Loss:
        return Quantile(float(self.quantile))


class KernelHuberRegression(_Regression):
    """min reg ‖f‖² + (1/m) Σᵢ h(yᵢ - f(xᵢ)), h(r) = r²/2 up to delta, then straight.

    A target that is far off pulls no harder than one at a distance of delta.

    Parameters
    ----------
    delta : number > 0, in the units of y
    reg : number > 0
    fit_intercept : whether f has a constant b, which is not penalised
    kernel, tol, max_iter, warm_start, solver, verbose, callback, time_limit : as for
        `RegularizedMachine`

    Attributes
    ----------
    expansion_, certificate_, support_, dual_coef_, intercept_, n_iter_ : as there

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelHuberRegression, Linear
    >>> X = np.arange(6.0)[:, None]
    >>> y = np.array([0, 1, 2, 3, 4, 100])  # the last one is an outlier
    >>> machine = KernelHuberRegression(0.1, kernel=Linear(), reg=1e-4).fit(X, y)
    >>> bool(abs(machine.predict([[4.0]])[0] - 4) < 0.5)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "delta": [Interval(Real, 0, None, closed="neither")],
        "reg": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        delta: float = 1.0,
        *,
        kernel: Any = None,
        reg: float = REG,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = -1,
        warm_start: bool = False,
        solver: Any = None,
        verbose: Any = False,
        callback: Any = None,
        time_limit: float | None = None,
    ):
        self.delta = delta
        self.kernel = kernel
        self.reg = reg
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.solver = solver
        self.verbose = verbose
        self.callback = callback
        self.time_limit = time_limit

    def _loss(self) -> Loss:
        return Huber(float(self.delta))
