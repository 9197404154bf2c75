"""OneClassSVM and SVDD: where the points are, by a half-space or by a ball.

OneClassSVM is a drop-in for scikit-learn's. SVDD is from Tax and Duin, Machine Learning
54 (2004).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from mercer.data.points import Points, count, double
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.machines.base import KernelSum, WeightedGram
from mercer.machines.checks import checked_parameters
from mercer.machines.labels import check_same
from mercer.machines.svm.base import COMMON_CONSTRAINTS, FRACTION, SupportVectorMachine
from mercer.machines.svm.mixtures import fitted_gram, road_on, weighed
from mercer.machines.svm.model import dense_values
from mercer.outcomes import Certificate
from mercer.solvers.box_certificate import certified
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.programs import one_class, svdd
from mercer.solvers.roads import Road

RELATIVE_SLACK = 1e-10  # relative; what the boundary of one class is moved outwards


class OneClass(OutlierMixin, SupportVectorMachine):
    """Where the points are: +1 there, -1 elsewhere."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        "nu": FRACTION,
    }

    offset_: Any

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        nu: float = 0.5,
        shrinking: bool = True,
        cache_size: float | None = 200,
        verbose: Any = False,
        max_iter: int = -1,
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
        self.nu = nu
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.solver = solver
        self.warm_start = warm_start
        self.callback = callback
        self.time_limit = time_limit

    @abstractmethod
    def _problem(self, gram: Gram, weight: np.ndarray) -> BoxQP:
        """The problem; each point counts weight times."""

    @abstractmethod
    def _learn(
        self,
        X: Points,
        counted: WeightedGram,
        coef: np.ndarray,
        bias: float,
        found: Sequence[Certificate],
    ) -> None:
        """Set what was learnt."""

    @abstractmethod
    def _depth(self, X: Points) -> np.ndarray:
        """How far inside checked points are."""

    @checked_parameters
    def fit(
        self, X: Points, y: Any = None, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Learn where the points X are; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : ignored
        sample_weight : n numbers; weight 2 is the row twice, weight ≤ 0 no row
        """
        X = self._validated_points(X)
        counted = self._weighted_gram(X, sample_weight)

        def state(gram: Gram) -> list[BoxQP]:
            return [self._problem(gram, counted.weight)]

        with self._watched([""], X, None, sample_weight):
            counted = weighed(self, counted, state)
            problem = self._problem(counted.gram, counted.weight)
            coef, bias, found = self._columns(counted, [problem], range(1))
            self._learn(X, counted, coef[:, 0], bias[0], found)
            self.n_iter_ = found[0].run.iterations
        self._warn_unless_optimal(self._certificate)
        return self

    # Points that come and go

    def _new_points(self, X: Points, y: Any, reset: bool) -> tuple[Points, None]:
        if isinstance(self, SVDD):
            raise ValueError(
                "SVDD.add: the ball of other points has another scale. Use fit, or "
                "OneClassSVM, which is the same where k(x, x) is constant."
            )
        return self._validated_points(X, reset=reset), None

    def _stated_problems(
        self, counted: WeightedGram, target: Any, parts: Sequence[Any]
    ) -> Sequence[BoxQP]:
        return [self._problem(counted.gram, counted.weight)]

    def _finish(
        self,
        counted: WeightedGram,
        target: Any,
        parts: Sequence[Any],
        columns: tuple[np.ndarray, np.ndarray, Sequence[Certificate]],
    ) -> None:
        coef, bias, found = columns
        self._learn(counted.gram.X, counted, coef[:, 0], bias[0], found)
        self.n_iter_ = found[0].run.iterations

    def _predicted(self, values: np.ndarray) -> np.ndarray:
        return np.where(values[:, 0] > 0, 1, -1)

    def _road(self, X: Points, y: Any) -> Road:
        counted = self._weighted_gram(self._validated_points(X), None)
        return road_on(
            self, counted.gram, lambda gram: [self._problem(gram, counted.weight)]
        )

    def _loosened(
        self, found: Sequence[Certificate], moved: float, weight: np.ndarray
    ) -> list[Certificate]:
        """The certificates, where the level was moved outwards by so much.

        A point's loss grows by at most its weight times that.
        """
        error = moved * float(np.sum(weight))
        return [one.loosened(error, self._tolerance) for one in found]

    def decision_function(self, X: Points) -> np.ndarray:
        """How far inside the m points of X are; negative outside."""
        check_is_fitted(self)
        return self._depth(self._validated_points(X, reset=False))

    def score_samples(self, X: Points) -> np.ndarray:
        """`decision_function` before `offset_` was taken off."""
        return self.decision_function(X) + self.offset_

    def predict(self, X: Points) -> np.ndarray:
        """+1 for the points inside, -1 for those outside."""
        return np.where(self.decision_function(X) > 0, 1, -1)

    def _dual_rows(self) -> np.ndarray:
        return self._of_points.coef[None]

    @property
    def n_support_(self) -> np.ndarray:
        """How many support vectors there are."""
        return np.array([len(self.support_)], dtype=np.int32)


class OneClassSVM(OneClass):
    """min ½‖f‖² - ρνn + Σᵢ wᵢ max(0, ρ - f(xᵢ)): f > ρ where the points are.

    A drop-in for scikit-learn's OneClassSVM. At the optimum at most the fraction ν of
    the points is left outside, and at least that fraction are support vectors; what is
    on the boundary then is within `tol` of it, on either side.

    Parameters
    ----------
    nu : in (0, 1]

    The others are those of SVC.

    Attributes
    ----------
    offset_ : ρ, as an array of one
    expansion_ : f - ρ

    The others are those of SVC.

    Examples
    --------
    >>> from mercer import OneClassSVM
    >>> X = [[0, 0], [0, 1], [1, 0], [1, 1], [0.5, 0.5]]
    >>> machine = OneClassSVM(nu=0.1).fit(X)
    >>> machine.predict([[0.5, 0.6], [5, 5]]).tolist()
    [1, -1]
    """

    def _problem(self, gram: Gram, weight: np.ndarray) -> BoxQP:
        return one_class(gram.with_one_width(), self.nu, weight)

    def _learn(
        self,
        X: Points,
        counted: WeightedGram,
        coef: np.ndarray,
        bias: float,
        found: Sequence[Certificate],
    ) -> None:
        # A little more than the level of the free points: they are on the boundary, and
        # rounding is not to decide on which side of it.
        moved = RELATIVE_SLACK * abs(bias)
        found = self._loosened(found, moved, counted.weight)
        self._store(X, counted, np.arange(len(coef)), coef, bias + moved, found)
        self.offset_ = -self.intercept_

    def _depth(self, X: Points) -> np.ndarray:
        return self.expansion_(X)

    def certify(
        self, X: Points, y: Any = None, sample_weight: npt.ArrayLike | None = None
    ) -> Certificate:
        """The certificate of f, recomputed in float64 from the training data alone.

        Parameters
        ----------
        X, sample_weight : as they were given to `fit`; y is ignored
        """
        check_is_fitted(self)
        X = self._validated_points(X, reset=False)
        counted = fitted_gram(self, X, sample_weight)
        problem = self._problem(counted.gram, counted.weight)
        return self._recomputed(X, counted, [problem], range(1))


class SVDD(OneClass):
    """min R² + Σᵢ wᵢ ξᵢ / νn, ‖φ(xᵢ) - c‖² ≤ R² + ξᵢ: the smallest ball of most points.

    At the optimum at most the fraction ν of the points is left outside the ball, and
    what is on its surface then is within `tol` of it, on either side. Where k(x, x) is
    constant, it is OneClassSVM in other units.

    Parameters
    ----------
    nu : in (0, 1]

    The others are those of SVC; "precomputed" rows do not tell k(x, x) of new points,
    so use Precomputed(K) with indices as points.

    Attributes
    ----------
    expansion_ : the centre c, a mean of the points
    radius_ : R
    offset_ : -R²; `score_samples` is -‖φ(x) - c‖²

    The others are those of SVC.

    Examples
    --------
    >>> from mercer import SVDD
    >>> machine = SVDD(nu=0.01, kernel="linear").fit([[0, 0], [2, 0], [1, 0.5]])
    >>> round(machine.radius_, 3)
    1.0
    >>> machine.predict([[1, 0.9], [1, 1.1]]).tolist()
    [1, -1]
    """

    _f_is_expansion: ClassVar[bool] = False  # that is the centre
    _streams: ClassVar[bool] = False  # distances from it need k(x, x) of new points
    _weighs_kernels: ClassVar[bool] = False  # the ball is smallest where all are 0

    def _problem(self, gram: Gram, weight: np.ndarray) -> BoxQP:
        if self._precomputed:
            raise ValueError(
                "SVDD measures ‖φ(x) - c‖², which needs k(x, x) of new points; rows of "
                "kernel values do not hold it. Use kernel=Precomputed(K) with indices "
                "as points, or OneClassSVM."
            )
        return svdd(gram.with_one_width(), self.nu, weight)

    def _learn(
        self,
        X: Points,
        counted: WeightedGram,
        coef: np.ndarray,
        bias: float,
        found: Sequence[Certificate],
    ) -> None:
        total = self.nu * counted.weight.sum()
        self._store(X, counted, np.arange(len(coef)), coef / total, 0.0, found)
        self._unit = 1 / total  # the next fit starts from the variables, not the mean
        # ‖φ(x) - c‖² = k(x, x) - 2 c(x) + ‖c‖², and k(x, x) - 2 c(x) is 2 bias / T on
        # the sphere.
        self._square = self._centre.inner(self._centre)
        moved = RELATIVE_SLACK * abs(self._square)
        square = self._square + 2 * bias / total + moved
        found = self._loosened(found, total / 2 * moved, counted.weight)
        self._certificate = found[0]
        # Below 0 by rounding, or where the kernel is indefinite.
        self.radius_, self.offset_ = float(np.sqrt(max(0.0, square))), -float(square)

    @property
    def _centre(self) -> Expansion:
        """c, whose values are float64: they cancel against k(x, x) in a distance."""
        c = self.expansion_
        return Expansion(c.kernel, double(c.points), c.coef, c.bias)

    def _as_sum(self) -> KernelSum:
        """radius² - ‖φ(x) - c‖² = 2 c(x) - k(x, x) + what does not depend on x."""
        return KernelSum(self.expansion_, 2.0, -self._square - self.offset_, -1.0)

    def _depth(self, X: Points) -> np.ndarray:
        c, X = self._centre, double(X)
        kernel: Kernel = getattr(self, "approximation_", c.kernel)
        return 2 * c(X) - kernel.diag(X) - self._square - self.offset_

    def certify(
        self, X: Points, y: Any = None, sample_weight: npt.ArrayLike | None = None
    ) -> Certificate:
        """The certificate of the ball, recomputed in float64 from the training data.

        Parameters
        ----------
        X, sample_weight : as they were given to `fit`; y is ignored
        """
        check_is_fitted(self)
        X = self._validated_points(X, reset=False)
        counted = self._weighted_gram(X, sample_weight)
        check_same(self, count(X))
        problem = self._problem(counted.gram, counted.weight)
        coef = np.zeros((len(counted.index), 1))
        places = np.searchsorted(counted.index, self.support_)
        coef[places, 0] = problem.total * self._of_points.coef
        values, indefinite = dense_values(counted.gram, coef)
        level = problem.total / 2 * (self._square + self.offset_)
        value = problem.snapped(coef[:, 0], slack=1e-13)
        return certified(problem, value, values[:, 0], (level,), indefinite)
