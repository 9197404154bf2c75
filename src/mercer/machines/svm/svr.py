"""SVR and NuSVR: a tube around f, of a given width or around a given share of points.

Drop-ins for scikit-learn's machines of the same names, on points and kernels of any
kind, and for several targets at once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from mercer.data.points import Points
from mercer.gram import Gram
from mercer.machines.base import WeightedGram
from mercer.machines.checks import checked_parameters, columns_of
from mercer.machines.svm.base import (
    BOX,
    COMMON_CONSTRAINTS,
    FRACTION,
    SupportVectorMachine,
)
from mercer.machines.svm.mixtures import fitted_gram, road_on, weighed
from mercer.outcomes import Certificate, iterations
from mercer.solvers.auto import Problems
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.programs import nu_svr, svr
from mercer.solvers.roads import Road


class Regressor(MultiOutputMixin, RegressorMixin, SupportVectorMachine):
    """f for each of the targets, within a tube around them."""

    @abstractmethod
    def _problem(self, gram: Gram, target: np.ndarray, weight: np.ndarray) -> BoxQP:
        """The problem for one target; each point counts weight times."""

    @checked_parameters
    def fit(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Learn f from the points X and the targets y; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : (n,) array, or (n, q) for q targets
        sample_weight : n numbers; weight 2 is the row twice, weight ≤ 0 no row
        """
        X, y = self._validated(X, y, multi_output=True, y_numeric=True)
        targets = columns_of(y)
        q = targets.shape[1]
        counted = self._weighted_gram(X, sample_weight)
        state = partial(self._problems, targets, counted)
        names = [""] if q == 1 else [f"output {j}" for j in range(q)]
        with self._watched(names, X, y, sample_weight):
            counted = self._shared(weighed(self, counted, state), q)
            problems = state(counted.gram)
            self._learn(X, counted, *self._columns(counted, problems, range(q)))
        self._warn_unless_optimal(self._certificate)
        return self

    def _learn(
        self,
        X: Points,
        counted: WeightedGram,
        coef: np.ndarray,
        bias: np.ndarray,
        found: Sequence[Certificate],
    ) -> None:
        """Set f, a column for each target."""
        q, order = len(found), np.arange(len(coef))
        self.n_iter_ = iterations(found) if q > 1 else found[0].run.iterations
        if q == 1:
            self._store(X, counted, order, coef[:, 0], bias[0], found)
        else:
            self._store(X, counted, order, coef, bias, found)

    # Points that come and go

    def _new_points(self, X: Points, y: Any, reset: bool) -> tuple[Points, np.ndarray]:
        X, y = self._validated(X, y, reset=reset, multi_output=True, y_numeric=True)
        targets = np.array(columns_of(y), dtype=float)
        width = targets.shape[1] if reset else self._held.coef.shape[1]
        if targets.shape[1] != width:
            raise ValueError(
                f"{type(self).__name__}.add needs {width} targets for each point, as "
                f"before; got {targets.shape[1]}."
            )
        return X, targets

    def _stated_parts(self, target: Any, n: int) -> Sequence[Any]:
        return range(target.shape[1])

    def _stated_problems(
        self, counted: WeightedGram, target: Any, parts: Sequence[Any]
    ) -> Sequence[BoxQP]:
        return self._problems(target, counted, counted.gram)

    def _finish(
        self,
        counted: WeightedGram,
        target: Any,
        parts: Sequence[Any],
        columns: tuple[np.ndarray, np.ndarray, Sequence[Certificate]],
    ) -> None:
        self._learn(counted.gram.X, counted, *columns)

    def _predicted(self, values: np.ndarray) -> np.ndarray:
        return values[:, 0] if values.shape[1] == 1 else values

    def _problems(
        self, targets: np.ndarray, counted: WeightedGram, gram: Gram
    ) -> Sequence[BoxQP]:
        """Those of the targets, on a Gram of the points that count."""
        rows, gram = targets.T, gram.with_one_width()
        if len(counted.index) < len(targets):
            rows = targets[counted.index].T
        return Problems(
            len(rows), lambda j: self._problem(gram, rows[j], counted.weight)
        )

    def _road(self, X: Points, y: Any) -> Road:
        X, y = self._validated(X, y, multi_output=True, y_numeric=True)
        counted = self._weighted_gram(X, None)
        state = partial(self._problems, columns_of(y), counted)
        return road_on(self, counted.gram, state)

    def predict(self, X: Points) -> np.ndarray:
        """f at the m points of X: (m,), or (m, q) for q targets."""
        return self._values(X)

    def _dual_rows(self) -> np.ndarray:
        coef = self._of_points.coef
        return coef.reshape(len(coef), -1).T if coef.size else np.zeros((1, 0))

    @property
    def n_support_(self) -> np.ndarray:
        """How many support vectors there are."""
        return np.array([len(self.support_)], dtype=np.int32)

    def certify(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None = None
    ) -> Certificate:
        """The certificate of f, recomputed in float64 from the training data alone.

        Parameters
        ----------
        X, y, sample_weight : as they were given to `fit`
        """
        check_is_fitted(self)
        X, y = self._validated(X, y, reset=False, multi_output=True, y_numeric=True)
        counted = fitted_gram(self, X, sample_weight)
        problems = self._problems(columns_of(y), counted, counted.gram)
        return self._recomputed(X, counted, problems, range(len(problems)))


class SVR(Regressor):
    """min ½‖f‖² + C Σᵢ wᵢ max(0, |yᵢ - f(xᵢ)| - ε): what is within ε costs nothing.

    A drop-in for scikit-learn's SVR that takes any kernel on any points, several
    targets at once, and knows how far from optimal it is at most.

    Parameters
    ----------
    C : > 0, the price of a unit outside the tube; inf is a hard tube, and as f is
        within tol of it, the certificate has a dual and no finite primal
    epsilon : ≥ 0, half the width of the tube

    The others, and the attributes, are those of SVC; with q targets `expansion_` has a
    column, and `dual_coef_`, `coef_` and `intercept_` a row, for each.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SVR
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> machine = SVR(C=100, epsilon=0.1).fit(X, np.sin(X[:, 0]))
    >>> bool(np.abs(machine.predict(X) - np.sin(X[:, 0])).max() < 0.12)
    True
    >>> len(machine.support_) < 25, bool(machine.certificate_.gap < 1e-6)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        "C": BOX,
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
    }

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        epsilon: float = 0.1,
        shrinking: bool = True,
        cache_size: float | None = 200,
        verbose: Any = False,
        max_iter: int = -1,
        fit_intercept: bool = True,
        solver: Any = None,
        warm_start: bool = False,
        callback: Any = None,
        time_limit: float | None = None,
    ):
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.C = C
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.warm_start = warm_start
        self.callback = callback
        self.time_limit = time_limit

    def _problem(self, gram: Gram, target: np.ndarray, weight: np.ndarray) -> BoxQP:
        upper = self._upper(weight)
        return svr(gram, target, upper, self.epsilon, bias=self.fit_intercept)


class NuSVR(Regressor):
    """SVR whose ε is found so that a fraction ν of the points is not inside the tube.

    A drop-in for scikit-learn's NuSVR, for any kernel and several targets.

    Parameters
    ----------
    nu : in (0, 1], at most the fraction outside the tube, at least that of support
        vectors
    C : > 0 and finite, the price of a unit outside the tube

    The others, and the attributes, are those of SVR; there is always a bias.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import NuSVR
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> machine = NuSVR(nu=0.2, C=100).fit(X, np.sin(X[:, 0]))
    >>> len(machine.support_) >= 0.2 * len(X), machine.score(X, np.sin(X[:, 0])) > 0.99
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        "C": BOX,
        "nu": FRACTION,
    }

    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        tol: float = 1e-3,
        cache_size: float | None = 200,
        verbose: Any = False,
        max_iter: int = -1,
        solver: Any = None,
        warm_start: bool = False,
        callback: Any = None,
        time_limit: float | None = None,
    ):
        self.nu = nu
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.tol = tol
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.solver = solver
        self.warm_start = warm_start
        self.callback = callback
        self.time_limit = time_limit

    def _problem(self, gram: Gram, target: np.ndarray, weight: np.ndarray) -> BoxQP:
        if np.isinf(float(self.C)):
            raise ValueError(
                "NuSVR(C=inf) has no solution: its coefficients sum to ν C n / 2. "
                "Choose a finite C, or SVR(C=inf, epsilon=...) for a tube that holds "
                "every point."
            )
        return nu_svr(gram, target, self._upper(weight), self.nu)
