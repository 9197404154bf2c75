"""KernelRidge: least squares and ‖f‖², one linear system."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer.data.blocks import Blocks
from mercer.data.matching import carried_over
from mercer.data.points import Points, describe
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.machines.base import NO_PAIRWISE_MATRIX, Machine
from mercer.machines.checks import TIME_LIMIT, checked_parameters
from mercer.machines.progress import CallbackSupportMixin, reporting, watching
from mercer.machines.words import WORDS, as_scikit_learn_kernel
from mercer.native.clock import breakable, seconds_left
from mercer.outcomes import Certificate
from mercer.solvers.auto import AutoLinear, linear_road
from mercer.solvers.cholesky import Cholesky
from mercer.solvers.limits import solve_within
from mercer.solvers.linear import LinearSystem, certificate
from mercer.solvers.multiple import (
    KernelShares,
    LinearFamily,
    Mixture,
    Piece,
    held_grams,
    to_be_weighed,
    weighted_road,
)
from mercer.solvers.roads import Road
from mercer.solvers.weights import WeightSearch, equal_weights

WEIGHTS_TOL = 1e-6  # the relative gap to which weights of kernels are learnt


class KernelRidge(MultiOutputMixin, RegressorMixin, CallbackSupportMixin, Machine):
    """min ½ α‖f‖² + ½ Σᵢ wᵢ (yᵢ - f(xᵢ))²: f = Σᵢ cᵢ k(xᵢ, ·), (K + α W⁻¹) c = y.

    A drop-in for scikit-learn's KernelRidge that takes any kernel on any points, keeps
    the residual of the system it solved, and knows its leave-one-out predictions.

    Parameters
    ----------
    alpha : number ≥ 0, or one per target
    kernel : a kernel; a word of scikit-learn ("linear", "rbf", "poly", "sigmoid",
        "laplacian", "chi2", "additive_chi2", "cosine", "precomputed"); or a function of
        two points that returns a number
    gamma, degree, coef0 : of the kernels named by a word; gamma None is 1/d, and 1 for
        "chi2"
    kernel_params : keyword arguments of a function
    solver : what solves the `LinearSystem`, a `Cholesky`, a `ConjugateGradient` or, on
        an explicit map, `NormalEquations`; None for the first up to 3,000 points, then
        for the last where the map is small and for the second elsewhere, to the
        relative residual 1e-8 (1e-6 of float32 points), with the first in reserve. A
        residual above 1e-4, rounding included, is warned of
    warm_start : whether `fit` starts from the last solution, on points known from it;
        factors have no use for it
    verbose : whether to print how far the solver is: its residual, and about how long
        it will take. Factors report that they are at work, and no more
    callback : called with a `Progress` after every product of the solver, and within
        long ones; returns True to stop
    time_limit : seconds; None for no limit. The fit then ends with the best it has, the
        status "time_limit" and the residual in a warning. Factors that would take
        longer give way to conjugate gradients; where these cannot (alpha=0, an
        indefinite kernel, solver=Cholesky()) there is nothing to return, and a
        TimeoutError says so

    Attributes
    ----------
    expansion_ : f itself; `expansion_.kernel` is the kernel with all it learnt
    dual_coef_ : c, (n,) or (n, q) for q targets
    X_fit_ : the training points (for "precomputed" the training matrix; for a
        `Nystrom`, its landmarks, and dual_coef_ are their coefficients)
    certificate_ : primal, dual and gap of the sum over targets; its violation is the
        relative residual of the system
    run_ : how the solver ended, and what it took
    kernel_weights_, kernel_shares_ : of a `MultipleKernel`, what it learnt, as a table
    loo_predictions_ : the exact leave-one-out predictions, computed when first read
    n_features_in_, feature_names_in_ : of vectors and of data frames

    Examples
    --------
    >>> from mercer import KernelRidge
    >>> X, y = [[1], [2], [3], [4]], [1, 2, 3, 4]
    >>> machine = KernelRidge(alpha=1, kernel="linear").fit(X, y)
    >>> machine.predict([[3]]).round(3).tolist()
    [2.903]
    >>> machine.loo_predictions_.round(3).tolist()
    [0.967, 1.926, 2.864, 3.733]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
        "kernel": [StrOptions(set(WORDS)), callable],
        "gamma": [Interval(Real, 0, None, closed="left"), None],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "solver": [HasMethods("solve"), None],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "callback": [callable, None],
        "time_limit": TIME_LIMIT,
    }

    _streams: ClassVar[bool] = True
    _not_square = NO_PAIRWISE_MATRIX
    _advice: ClassVar[dict[str, str]] = {
        "singular": (  # in scikit-learn's words
            "Singular matrix in solving dual problem. Using least-squares solution "
            "instead. With a larger alpha the solution is unique."
        ),
        "imprecise": (
            "K + alpha I is ill-conditioned. Raise alpha, or scale the points."
        ),
        **dict.fromkeys(
            ("max_iter", "time_limit"),
            "The violation is the relative residual. Raise alpha, or the limits of "
            "the solver or of time.",
        ),
    }

    X_fit_: Points
    certificate_: Certificate
    kernel_weights_: np.ndarray  # of a `MultipleKernel`
    kernel_shares_: KernelShares

    def __init__(
        self,
        alpha: Any = 1,
        *,
        kernel: Any = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        solver: Any = None,
        warm_start: bool = False,
        verbose: Any = False,
        callback: Any = None,
        time_limit: float | None = None,
    ):
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
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
        sample_weight : n numbers ≥ 0, or one for all; weight 2 is the row twice,
            weight 0 no row
        """
        X, y = self._validated(X, y, multi_output=True, y_numeric=True)
        weight = (
            None if sample_weight is None else self._checked_weight(sample_weight, X)
        )
        # All of it is kept: the predictions of leave-one-out are made when asked for.
        X, y = self._kept(X), np.array(y, dtype=float)
        weight = None if weight is None else weight.copy()
        points, _, _ = self._weighted_points(X, None)
        gram = self._gram(X, points, weight)
        gram = self._weighed(gram, y, weight)
        problem = LinearSystem(gram, y, self._reg(y), weight)
        start = self._before(gram.X, y)
        options = {} if start is None else {"start": start}
        solver: Any = self.solver or AutoLinear()
        begun = breakable() if isinstance(solver, Cholesky) else nullcontext()
        self._check_room(lambda: self._road_of(problem), gram.shape[0])
        with watching(self, [""], X, y, sample_weight) as watcher:
            with reporting(watcher) as watch, begun:
                solution = solve_within(
                    solver, problem, seconds_left(), watch=watch, **options
                )
            coef = problem.coef(solution.value)
            f = self._expanded(gram, X, coef, solution.bias)
            self.expansion_ = self._on_landmarks(f, coef, solution.weights)
            self.X_fit_ = X
            # Not the matrix that a search for weights leaves behind.
            own = Gram(gram.kernel, gram.X) if self._mixture is not None else gram
            self._problem = replace(problem, gram=own)
            if hasattr(self, "approximation_"):
                self.X_fit_ = self.expansion_.points
            self.run_, self.certificate_ = solution.run, certificate(problem, solution)
            self._judge_weights(coef)
            self.__dict__.pop("loo_predictions_", None)
        self._warn_unless_optimal(
            self.certificate_ if hasattr(self, "kernel_weights_") else solution
        )
        return self

    _mixture: Mixture | None = None  # during a fit that learns weights of kernels

    def _weighed(self, gram: Gram, y: np.ndarray, weight: np.ndarray | None) -> Gram:
        """The same; of a `MultipleKernel` that of its sum, with learnt weights."""
        for name in ("_mixture", "kernel_weights_", "kernel_shares_"):
            self.__dict__.pop(name, None)
        kernel = to_be_weighed(gram.kernel)
        if kernel is None:
            return gram
        target = y.reshape(len(y), -1)
        reg = np.broadcast_to(self._reg(y), target.shape[1:])
        if not reg.all():
            raise ValueError(
                "KernelRidge(alpha=0) fits its targets whatever the weights of its "
                "kernels: MultipleKernel needs alpha > 0."
            )
        with breakable():  # there is no f without kernel values
            grams = held_grams(kernel, gram)
        present = np.arange(len(y)) if weight is None else np.flatnonzero(weight)
        weight = np.ones(len(y)) if weight is None else weight
        every = len(present) == len(y)
        taken = grams if every else [one.take(present) for one in grams]
        family = LinearFamily(taken, target[present], reg, weight[present])
        search = WeightSearch(float(kernel.norm), WEIGHTS_TOL)
        found = search.solve(family, equal_weights(len(grams), search.norm))
        self._mixture = Mixture(kernel, grams, found, bounded=False)
        return self._mixture.gram

    def _judge_weights(self, coef: np.ndarray) -> None:
        """Set what is known of weights that were learnt, and their certificate."""
        if self._mixture is None:
            return
        coef = coef.reshape(len(coef), -1)
        roots = np.sqrt(np.broadcast_to(self._reg(coef), coef.shape[1:]))
        free = np.zeros(len(coef), dtype=bool)
        columns = [
            Piece(np.arange(len(coef)), root * column, free, None)
            for root, column in zip(roots, coef.T, strict=True)
        ]
        mixture = self._mixture.of(columns)
        self.certificate_ = mixture.certificate(self.certificate_)
        self.run_ = self.certificate_.run
        self.kernel_weights_ = mixture.weights.copy()
        self.kernel_shares_ = mixture.shares()
        self.__dict__.pop("_mixture", None)

    def _before(self, points: Points, y: np.ndarray) -> np.ndarray | None:
        """c of the last fit at these points, 0 at new ones; None to start afresh."""
        f = self._of_points if self.warm_start and hasattr(self, "expansion_") else None
        q = y.shape[1] if y.ndim == 2 else 1
        if f is None or f.points is None or f.n_outputs != q:
            return None
        if isinstance(points, Blocks) or isinstance(f.points, Blocks):
            return None  # to compare them would take a pass over all
        rows = f.coef.reshape(-1, q)
        places = np.arange(len(rows))
        return carried_over(rows, f.points, points, places).reshape(y.shape)

    def _road(self, X: Points, y: Any) -> Road:
        X, y = self._validated(X, y, multi_output=True, y_numeric=True)
        gram = self._gram(X, self._weighted_points(X, None)[0])
        kernel = to_be_weighed(gram.kernel)
        if kernel is None:
            return self._road_of(LinearSystem(gram, y, self._reg(y)))
        gram = Gram(kernel.total(np.ones(len(kernel.kernels))), gram.X)
        road = self._road_of(LinearSystem(gram, y, self._reg(y)))
        return weighted_road(kernel, road)

    def _road_of(self, problem: LinearSystem) -> Road:
        if self.solver is None:
            return AutoLinear().road(problem)
        return linear_road(problem.gram, self.solver)

    def predict(self, X: Points) -> np.ndarray:
        """f at the m points of X: (m,), or (m, q) for q targets.

        For "precomputed", X is the (m, n) matrix of kernel values between the new
        points and the training points.
        """
        return self._values(X)

    @property
    def dual_coef_(self) -> np.ndarray:
        return self.expansion_.coef

    @cached_property
    def loo_predictions_(self) -> np.ndarray:
        """ŷ₋ᵢ = yᵢ - cᵢ / [(K + α W⁻¹)⁻¹]ᵢᵢ, what a fit without point i says of it.

        The kernel's learnt parameters stay as they are. A point leaves with all of its
        weight; one of weight 0 was never there, so its prediction is f(xᵢ).
        """
        check_is_fitted(self)
        if "_problem" not in self.__dict__:
            raise AttributeError(
                "loo_predictions_ needs the points of the fit, which KernelRidge on "
                "Nystrom does not store. Read it before the machine is saved."
            )
        problem, coef = self._problem, self._of_points.coef
        diagonal = AutoLinear().inverse_diagonal(problem)
        if problem.weight is None:
            return problem.target - coef / diagonal
        absent = problem.weight == 0
        diagonal[absent] = 1
        predictions = problem.target - coef / diagonal
        if absent.any():
            predictions[absent] = problem.gram.rows(absent) @ coef
        return predictions

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if hasattr(self, "approximation_"):
            # Landmarks are all that f needs.
            for name in ("_problem", "_dual"):
                state.pop(name, None)
        return state

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Not by __getstate__: a copy in memory has the points of the fit too.
        other = self.__copy__()
        other.__dict__.pop("_interrupted", None)  # it holds what points are read from
        memo[id(self)] = other
        other.__dict__.update(copy.deepcopy(other.__dict__, memo))
        return other

    def __dir__(self) -> list[str]:
        # scikit-learn reads every attribute it lists, to complete a name or to show
        # the machine in a notebook; this one would cost a second fit.
        unread = {"loo_predictions_"} - vars(self).keys()
        names = (name for name in object.__dir__(self) if name not in unread)
        return [name for name in names if hasattr(self, name)]

    def _resolved(self, points: Points, weight: np.ndarray | None) -> Kernel:
        kernel = as_scikit_learn_kernel(
            self.kernel,
            points,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            parameters=self.kernel_params,
        )
        return kernel.resolve(points, weight)

    def _reg(self, y: np.ndarray) -> np.ndarray:
        """alpha, checked against the targets."""
        try:
            alpha = np.asarray(self.alpha, dtype=float)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                "KernelRidge needs alpha as a number or an array of numbers; got "
                f"{describe(self.alpha)}."
            ) from error
        targets = y.shape[1] if y.ndim == 2 else 1
        if alpha.ndim > 1 or alpha.size not in (1, targets):
            raise ValueError(
                f"KernelRidge needs one alpha, or one for each of the {targets} "
                f"targets; got alpha of shape {alpha.shape}."
            )
        if not np.all((alpha >= 0) & (alpha < np.inf)):
            raise ValueError(f"KernelRidge needs alpha ≥ 0; got alpha={self.alpha!r}.")
        return alpha
