"""SparseKernelRegressor: the lasso on the columns of the kernel matrix, or features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils._param_validation import Interval

from mercer.data.points import Points
from mercer.losses import Squared
from mercer.machines.base import FitData
from mercer.machines.checks import checked_parameters, columns_of
from mercer.machines.sparse.base import SparseMachine, SparsePath, positive
from mercer.machines.sparse.terms import FeatureTerms, PointTerms
from mercer.machines.wrappers import timed
from mercer.outcomes import iterations
from mercer.solvers.lasso import L1Problem


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
    time_limit : seconds; None for no limit. The fit then ends with the best it has, its
        certificate, the status "time_limit" and a warning with the gap; targets share
        the time

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
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
        time_limit: float | None = None,
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
        self.time_limit = time_limit

    @checked_parameters
    def fit(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Learn f from the points X and the targets y; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : (n,) array, or (n, q) for q targets
        sample_weight : n numbers ≥ 0; weight 2 is the row twice, weight 0 no row
        """
        self._learn(self._prepared(X, y, sample_weight))
        return self

    @property
    def _reg(self) -> float:
        return self.alpha

    def _prepared(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None, reset: bool = True
    ) -> FitData:
        checks: dict[str, Any] = {"multi_output": True, "y_numeric": True}
        checks |= {} if reset else {"reset": False}
        data = self._fit_data(X, y, sample_weight, **checks)
        return replace(data, target=columns_of(data.target))

    def _problems(
        self, terms: PointTerms | FeatureTerms, data: FitData, reg: float
    ) -> list[L1Problem]:
        weight = data.weight / (2 * data.weight.sum())
        return [terms.problem(y, Squared(), reg, weight) for y in data.target.T]

    def _names(self, data: FitData) -> list[str]:
        q = data.target.shape[1]
        return [""] if q == 1 else [f"output {j}" for j in range(q)]

    def predict(self, X: Points) -> np.ndarray:
        """f at the m points of X: (m,), or (m, q) for q targets."""
        return self._values(X)

    @property
    def n_iter_(self) -> int | np.ndarray:
        """Newton steps, an array of them for several targets."""
        parts = self.certificate_.parts
        return iterations(parts) if parts else self.certificate_.run.iterations

    @property
    def n_support_(self) -> np.ndarray:
        """How many points f stands on."""
        return np.array([len(self.support_)], dtype=np.int32)

    def path(
        self,
        X: Points,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        *,
        alphas: Sequence[float] | None = None,
        n_steps: int = 30,
        ratio: float = 1e-2,
    ) -> SparsePath:
        """f for one alpha after another, from the least that leaves no point at all.

        Each begins where the last ended; together they take little longer than the
        last alone. The machine itself is not fitted. With `time_limit` the path ends
        where the time is up, its last step perhaps with the status "time_limit".

        Parameters
        ----------
        X, y, sample_weight : as for `fit`
        alphas : those to take; None for `n_steps` of them between the largest,
            alpha_max, and ratio · alpha_max, evenly on a logarithmic scale
        """
        regs = None if alphas is None else positive(alphas, "alphas")
        with timed(self):
            return self._traced(X, y, sample_weight, regs, n_steps, ratio)
