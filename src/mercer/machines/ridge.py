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
from mercer.data.checks import describe
from mercer.data.copies import owned
from mercer.data.matching import carried_over
from mercer.data.partitions import Partitions
from mercer.data.points import Points, concatenate, count, double, take
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.machines.base import NO_PAIRWISE_MATRIX, Machine
from mercer.machines.checks import TIME_LIMIT, check_kind, checked_parameters, index_of
from mercer.machines.progress import CallbackSupportMixin, reporting, watching
from mercer.machines.words import WORDS, as_scikit_learn_kernel
from mercer.machines.wrappers import all_or_nothing
from mercer.native.clock import breakable, seconds_left
from mercer.outcomes import Certificate, Solution
from mercer.solvers.auto import AutoLinear, linear_road
from mercer.solvers.bordered import BorderedCholesky
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
    _solves_partitions: ClassVar[bool] = True
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
    _bordered: BorderedCholesky

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
            self._learn(X, problem, solution)
            self._judge_weights(problem.coef(solution.value))
        self._warn_unless_optimal(
            self.certificate_ if hasattr(self, "kernel_weights_") else solution
        )
        return self

    def _learn(self, X: Points, problem: LinearSystem, solution: Solution) -> None:
        """Set f, and what it was found from."""
        coef = problem.coef(solution.value)
        f = self._expanded(problem.gram, X, coef, solution.bias)
        self.expansion_ = self._on_landmarks(f, coef, solution.weights)
        # Not the matrix that a search for weights leaves behind.
        gram = problem.gram
        own = Gram(gram.kernel, gram.X) if self._mixture is not None else gram
        self.X_fit_, self._problem = X, replace(problem, gram=own)
        if hasattr(self, "approximation_"):
            self.X_fit_ = self.expansion_.points
        if isinstance(X, Partitions):  # which are no part of the machine
            self.X_fit_ = getattr(self.expansion_, "points", None)
            del self._problem
        self.run_, self.certificate_ = solution.run, certificate(problem, solution)
        for name in ("loo_predictions_", "_bordered"):
            self.__dict__.pop(name, None)

    # Points that come and go

    @all_or_nothing
    def add(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Learn from more points: f is then that of a fit on all of them.

        Of an unfitted machine, `fit`. The first call after that factors K + αW⁻¹; from
        then on a point takes time n², as its row is bordered to the factor. What the
        kernel learnt stays as it is. An error or Ctrl-C leaves the machine as it was.

        Parameters
        ----------
        X, y, sample_weight : as of `fit`; weights > 0
        """
        if not hasattr(self, "expansion_"):
            return self.fit(X, y, sample_weight)
        old = self._factored("add")
        known, problem = self.X_fit_, self._problem
        X, y = self._validated(X, y, reset=False, multi_output=True, y_numeric=True)
        check_kind(self, known, X)
        if np.shape(y)[1:] != np.shape(problem.target)[1:]:
            raise ValueError(
                f"KernelRidge.add needs targets of shape {np.shape(problem.target)[1:]}"
                f" for each point, as before; got {np.shape(y)[1:]}."
            )
        weight = np.ones(count(X))
        if sample_weight is not None:
            weight = self._checked_weight(sample_weight, X)
            if not (weight > 0).all():
                raise ValueError("KernelRidge.add needs weights > 0. Leave 0 out.")
        kernel, new = problem.gram.kernel, double(X)
        B = np.asarray(kernel(double(known), new), dtype=float)
        larger = old.extended(B, np.asarray(kernel(new), dtype=float), weight)
        target = np.concatenate([problem.target, np.asarray(y, dtype=float)])
        return self._go_on(larger, concatenate(known, owned(X)), target, count(X))

    @all_or_nothing
    def remove(self, index: Any) -> Self:
        """Forget points: f is then that of a fit on the others.

        Parameters
        ----------
        index : the number of a point, in the order in which they came, or several;
            points that are left are numbered anew
        """
        check_is_fitted(self)
        smaller = self._factored("remove")
        leaving = index_of(index, len(smaller.K), "KernelRidge")
        for place in np.sort(leaving)[::-1].tolist():
            smaller = smaller.without(place)
        stay = np.delete(np.arange(count(self.X_fit_)), leaving)
        points, target = take(self.X_fit_, stay), self._problem.target[stay]
        return self._go_on(smaller, points, target, 0)

    def _factored(self, name: str) -> BorderedCholesky:
        """The factor of the points as they are."""
        if "_bordered" in self.__dict__:
            return self._bordered
        if self._precomputed or isinstance(self.X_fit_, Blocks):
            raise ValueError(
                f"KernelRidge.{name} needs points in memory and a kernel that compares "
                "new ones with old; use kernel=Precomputed(K) with indices as points."
            )
        if hasattr(self, "approximation_") or "_problem" not in self.__dict__:
            raise ValueError(
                f"KernelRidge on Nystrom keeps its landmarks alone, and on partitions "
                f"f; {name} needs all points. Fit with the kernel itself, on points in "
                "memory."
            )
        problem, n = self._problem, self._problem.gram.shape[0]
        weight = np.ones(n) if problem.weight is None else problem.weight
        if not (weight > 0).all():
            raise ValueError(
                f"KernelRidge.{name} needs weights > 0; {int(np.sum(weight == 0))} "
                "points were fitted with weight 0. Fit without them."
            )
        K = np.asarray(problem.gram.double().dense(), dtype=float)
        return BorderedCholesky.empty(self._reg(problem.target)).extended(
            np.zeros((0, n)), K, weight
        )

    def _go_on(
        self, factor: BorderedCholesky, points: Points, target: np.ndarray, rows: int
    ) -> Self:
        gram = Gram(self._problem.gram.kernel, points).holding(factor.K)
        plain = bool(np.all(factor.weight == 1))
        weight = None if plain else factor.weight
        problem = LinearSystem(gram, target, self._reg(target), weight)
        solution = factor.solve(problem, rows)
        self._borrows = False
        self.__dict__.pop("kernel_shares_", None)  # those of other points
        self._learn(points, problem, solution)
        self._bordered = factor
        self._warn_unless_optimal(solution)
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
        f = self.expansion_
        return f.coef if isinstance(f, Expansion) else self._of_points.coef

    @cached_property
    def loo_predictions_(self) -> np.ndarray:
        """ŷ₋ᵢ = yᵢ - cᵢ / [(K + α W⁻¹)⁻¹]ᵢᵢ, what a fit without point i says of it.

        The kernel's learnt parameters stay as they are. A point leaves with all of its
        weight; one of weight 0 was never there, so its prediction is f(xᵢ).
        """
        check_is_fitted(self)
        if "_problem" not in self.__dict__:
            raise AttributeError(
                "loo_predictions_ needs the points of the fit, which KernelRidge does "
                "not store on Nystrom, nor where they are in partitions. Read it "
                "before the machine is saved; of partitions, use cross-validation."
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
        if "_bordered" in state:
            # K and its factor are made anew when they are asked for.
            problem, gram = self._problem, self._problem.gram
            plain = replace(problem, gram=Gram(gram.kernel, gram.X))
            state |= {"_problem": plain}
            del state["_bordered"]
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
