"""GaussianProcessRegressor: numbers, how sure they are, and the kernel's evidence."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from mercer.data.points import Points, count, double, take
from mercer.expansion import Expansion
from mercer.kernels.base import Kernel
from mercer.machines.checks import checked_parameters
from mercer.machines.gp.base import GaussianProcess, ScikitLearnKernel, blocks
from mercer.machines.progress import reporting, watching
from mercer.native.lapack import half
from mercer.outcomes import Run
from mercer.solvers.gaussian import NormalEvidence

NOT_DEFINITE = (
    "The kernel, {kernel}, is not returning a positive definite matrix: K + alpha I "
    "has no Cholesky factor. Try gradually increasing the 'alpha' parameter of your "
    "GaussianProcessRegressor estimator, or choose a kernel that is positive "
    "semidefinite (kernel.proof() says why one is); mercer.repair makes a Gram matrix "
    "so."
)


class GaussianProcessRegressor(MultiOutputMixin, RegressorMixin, GaussianProcess):
    """y = f(x) + noise, f a Gaussian process: f | y has the mean k(x, X) (K + αI)⁻¹ y.

    A drop-in for scikit-learn's GaussianProcessRegressor over any kernel on any points.
    The smooth parameters of the kernel are those of the highest evidence p(y).

    Parameters
    ----------
    kernel : a kernel, or one of `sklearn.gaussian_process.kernels`; None for
        1.0 * RBF(0.5); a word ("rbf", "linear", ...), the kernel of that name
    alpha : added to the diagonal of K, a number ≥ 0 or one for each point: the variance
        of noise that is known, and what makes K + alpha I invertible
    optimizer : "fmin_l_bfgs_b" for L-BFGS; a function of (function, start, bounds=);
        None to keep the parameters of the kernel
    n_restarts_optimizer : further starts, drawn within the bounds
    normalize_y : whether targets are centred and scaled to variance 1 first
    copy_X_train : whether the points of the fit are copied
    n_targets : how many targets `sample_y` draws of a machine that is not fitted
    random_state : of the restarts
    noise : variance of noise that is learnt, from where the search starts; None for
        none. It is as a WhiteKernel beside the kernel: deviations and covariances are
        those of new targets, noise included
    bounds : for parameters of the kernel, by the names of its `smooth_parameters`, and
        for "noise": (low, high), or "fixed"; 1e-5 to 1e5 for others that are positive
    verbose : whether to print every evaluation of the evidence
    callback : called with a `Progress` after each; returns True to stop
    time_limit : seconds; None for no limit. The search then ends with the best it has

    Attributes
    ----------
    kernel_ : the kernel with all it learnt (of scikit-learn's, theirs)
    noise_ : the variance of the noise that was learnt; 0 without
    expansion_ : the mean of f | y
    X_train_, y_train_ : the points and targets, as they were used
    L_, alpha_ : the lower Cholesky factor of K + αI, and (K + αI)⁻¹ y
    log_marginal_likelihood_value_ : ln p(y) at the end
    curve_ : every evaluation on the way there: theta, value, slope
    run_ : how the search ended, and what it took
    n_features_in_, feature_names_in_ : of vectors and of data frames

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GaussianProcessRegressor, RBF
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> machine = GaussianProcessRegressor(RBF(1.0), noise=0.1).fit(X, np.sin(X[:, 0]))
    >>> mean, deviation = machine.predict([[1.5], [30.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.5)) < 0.01), bool(deviation[1] > 0.9)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GaussianProcess._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
        "normalize_y": ["boolean"],
        "n_targets": [Interval(Integral, 1, None, closed="left"), None],
        "noise": [Interval(Real, 0, None, closed="neither"), None],
    }
    _y_checks: ClassVar[dict[str, bool]] = {"multi_output": True, "y_numeric": True}

    def __init__(
        self,
        kernel: Any = None,
        *,
        alpha: Any = 1e-10,
        optimizer: Any = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 0,
        normalize_y: bool = False,
        copy_X_train: bool = True,
        n_targets: int | None = None,
        random_state: Any = None,
        noise: float | None = None,
        bounds: Mapping[str, Any] | None = None,
        verbose: Any = False,
        callback: Any = None,
        time_limit: float | None = None,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.normalize_y = normalize_y
        self.copy_X_train = copy_X_train
        self.n_targets = n_targets
        self.random_state = random_state
        self.noise = noise
        self.bounds = bounds
        self.verbose = verbose
        self.callback = callback
        self.time_limit = time_limit

    @checked_parameters
    def fit(self, X: Points, y: Any) -> Self:
        """Learn the kernel and f from the points X and the targets y; returns self.

        Parameters
        ----------
        X : n points
        y : (n,) array, or (n, q) for q targets with one kernel
        """
        X, y = self._validated(X, y, **self._y_checks)
        self._check_square(X)
        seen = y.shape[1] if y.ndim > 1 else 1
        if self.n_targets is not None and seen != self.n_targets:
            raise ValueError(
                "The number of targets seen in `y` is different from the parameter "
                f"`n_targets`. Got {seen} != {self.n_targets}."
            )
        y = np.array(y, dtype=float)
        self._y_train_mean, self._y_train_std = self._scales(y)
        points = self._trained_points(X)
        gram = self._gram(X, points)
        target = (y - self._y_train_mean) / self._y_train_std
        extra = {} if self.noise is None else {"noise": float(self.noise)}
        problem = NormalEvidence(
            points,
            target.reshape(len(y), -1),
            self._alpha(len(y)),
            self._free(gram.kernel, extra),
        )
        theta, run = problem.free.start, Run()
        self.curve_: list[Any] = []
        with watching(self, [""], X, y) as watcher:
            if self.optimizer is not None and len(theta):
                with reporting(watcher, "") as watch:
                    found = self._ascended(problem, watch, self.random_state)
                theta, run, self.curve_ = found.theta, found.run, found.curve
            self._store(problem, theta, target)
            self.run_ = run
        self._warn_unless_optimal(self)
        return self

    @property
    def run(self) -> Run:
        return self.run_

    def _store(
        self, problem: NormalEvidence, theta: np.ndarray, target: np.ndarray
    ) -> None:
        kernel, extra = problem.free.at(theta)
        self.noise_ = extra.get("noise", 0.0)
        found = problem.factored(kernel, self.noise_)
        if found is None:
            raise np.linalg.LinAlgError(NOT_DEFINITE.format(kernel=kernel))
        self._problem = problem
        self.L_ = np.tril(found.matrix.T)
        self.alpha_ = found.coef.reshape(target.shape)
        self.log_marginal_likelihood_value_ = found.evidence
        self.theta_ = theta
        self.X_train_, self.y_train_ = problem.X, target
        bias = self._y_train_mean if target.ndim == 2 else float(self._y_train_mean[0])
        coef = self.alpha_ * self._y_train_std
        self.expansion_ = Expansion(kernel, problem.X, coef, bias)

    def _scales(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What targets are centred by, and divided by; one number for each."""
        width = y.shape[1] if y.ndim == 2 else 1
        if not self.normalize_y:
            return np.zeros(width), np.ones(width)
        spread = np.atleast_1d(y.std(axis=0))
        spread = np.where(spread > 10 * np.finfo(float).eps, spread, 1.0)
        return np.atleast_1d(y.mean(axis=0)), spread

    def _alpha(self, n: int) -> Any:
        alpha = np.asarray(self.alpha, dtype=float)
        if alpha.ndim > 1 or alpha.size not in (1, n):
            raise ValueError(
                "alpha must be a scalar or an array with same number of entries as y. "
                f"({alpha.size} != {n})"
            )
        if not np.all((alpha >= 0) & (alpha < np.inf)):
            raise ValueError(
                "GaussianProcessRegressor needs finite numbers alpha ≥ 0; got "
                f"{alpha.min()!r} to {alpha.max()!r}."
            )
        return float(alpha.reshape(-1)[0]) if alpha.size == 1 else alpha

    @property
    def kernel_(self) -> Any:
        kernel = self.expansion_.kernel
        return kernel.there() if isinstance(kernel, ScikitLearnKernel) else kernel

    def log_marginal_likelihood(
        self,
        theta: Any = None,
        eval_gradient: bool = False,
        clone_kernel: bool = True,
    ) -> Any:
        """ln p(y | θ); with `eval_gradient` also its slope by θ.

        Parameters
        ----------
        theta : the free parameters, positive ones by their logarithms, in the order of
            the kernel's `smooth_parameters`, the noise last; None for those learnt
        eval_gradient : whether to return (value, slope)
        clone_kernel : has no effect: `kernel_` never changes
        """
        check_is_fitted(self)
        if theta is None:
            if eval_gradient:
                raise ValueError("Gradient can only be evaluated for theta!=None")
            return self.log_marginal_likelihood_value_
        theta = np.asarray(theta, dtype=float)
        if theta.shape != self._problem.free.start.shape:
            raise ValueError(
                f"theta has {len(self._problem.free.start)} numbers, for "
                f"{', '.join(self._problem.free.names) or 'no parameter'}; got shape "
                f"{theta.shape}."
            )
        if eval_gradient:
            return self._problem.objective(theta)
        return self._problem.value(theta)

    def predict(
        self, X: Points, return_std: bool = False, return_cov: bool = False
    ) -> Any:
        """The mean of y at the m points of X, (m,) or (m, q); as asked for, with more.

        Of a machine that is not fitted, before any target is known.

        Parameters
        ----------
        return_std : whether to return (mean, deviation), both in one shape
        return_cov : whether to return (mean, covariance), (m, m) or (m, m, q)
        """
        if return_std and return_cov:
            raise RuntimeError(
                "At most one of return_std or return_cov can be requested."
            )
        if not hasattr(self, "expansion_"):
            return self._prior(X, return_std, return_cov)
        X = self._validated_points(X, reset=False)
        mean = self.expansion_(X)
        mean = mean[:, 0] if mean.ndim > 1 and mean.shape[1] == 1 else mean
        if not (return_std or return_cov):
            return mean
        kernel, X = self.expansion_.kernel, double(X)
        if return_cov:
            V = half(self.L_, self._across(kernel, X).T)
            spread = np.asarray(kernel(X), dtype=float) - V.T @ V
            np.fill_diagonal(spread, spread.diagonal() + self.noise_)
            return mean, self._per_target(spread)
        variance = np.array(kernel.diag(X), dtype=float) + self.noise_
        for rows in blocks(X, len(self.L_)):
            V = half(self.L_, self._across(kernel, take(X, rows)).T)
            variance[rows] -= np.einsum("ij,ij->j", V, V)
        if (variance < 0).any():
            warnings.warn(
                "Predicted variances smaller than 0. Setting those variances to 0.",
                stacklevel=2,
            )
            variance = np.maximum(variance, 0.0)
        return mean, np.sqrt(self._per_target(variance))

    def _across(self, kernel: Kernel, X: Points) -> np.ndarray:
        return np.asarray(kernel(X, self.X_train_), dtype=float)

    def _per_target(self, spread: np.ndarray) -> np.ndarray:
        """Variances in the units of each target, along a last axis of several."""
        scaled = np.multiply.outer(spread, self._y_train_std**2)
        return scaled[..., 0] if scaled.shape[-1] == 1 else scaled

    def _prior(self, X: Points, return_std: bool, return_cov: bool) -> Any:
        X = self._validated_points(X)
        kernel, q = self._resolved(X, None), self.n_targets or 1
        mean = np.zeros((count(X), q) if q > 1 else count(X))
        noise = float(self.noise or 0.0)
        if return_cov:
            spread = np.array(kernel(X), dtype=float)
            np.fill_diagonal(spread, spread.diagonal() + noise)
        else:
            spread = np.array(kernel.diag(X), dtype=float) + noise
        spread = np.repeat(spread[..., None], q, axis=-1) if q > 1 else spread
        if return_cov:
            return mean, spread
        return (mean, np.sqrt(spread)) if return_std else mean

    def sample_y(self, X: Points, n_samples: int = 1, random_state: Any = 0) -> Any:
        """Draws of y at the m points of X, (m, n_samples) or (m, q, n_samples)."""
        rng = check_random_state(random_state)
        mean, spread = self.predict(X, return_cov=True)
        if mean.ndim == 1:
            return rng.multivariate_normal(mean, spread, n_samples).T
        drawn = [
            rng.multivariate_normal(mean[:, q], spread[..., q], n_samples).T[:, None]
            for q in range(mean.shape[1])
        ]
        return np.hstack(drawn)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags
