"""What the two Gaussian processes share: a kernel whose parameters are learnt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel as GaussianProcessKernel
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from mercer.data.points import Points, as_points, count, double
from mercer.gram import Gram
from mercer.kernels.base import Kernel, Rule
from mercer.kernels.checks import Range
from mercer.kernels.radial import RBF
from mercer.machines.base import Machine
from mercer.machines.checks import TIME_LIMIT
from mercer.machines.progress import CallbackSupportMixin
from mercer.machines.words import WORDS, as_kernel
from mercer.native.clock import seconds_left
from mercer.solvers.ascent import Ascended, Ascent, FreeParameters
from mercer.solvers.limits import solve_within
from mercer.solvers.roads import Road, by_matrix


@dataclass
class ScikitLearnKernel(Kernel):
    """k of an object of `sklearn.gaussian_process.kernels`, with its θ and bounds.

    A `WhiteKernel` in it is 0 between two sets of points, and on the diagonal of one.

    Parameters
    ----------
    kernel : the kernel object
    theta : its free parameters, on its logarithmic scale; None for its own
    """

    smooth = Range.any("theta", optional=True)

    kernel: Any
    theta: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, GaussianProcessKernel):
            raise TypeError(
                "ScikitLearnKernel needs a kernel object of scikit-learn's Gaussian "
                f"processes; got {self.kernel!r}."
            )

    def there(self) -> Any:
        """scikit-learn's object at θ."""
        if self.theta is None:
            return self.kernel
        return self.kernel.clone_with_theta(np.asarray(self.theta, dtype=float))

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return np.asarray(self.there()(X, None if Y is None or Y is X else Y))

    def diag(self, X: Points) -> np.ndarray:
        return np.array(self.there().diag(as_points(X)), dtype=float)

    def own_gradient(self, name: str, X: Points, Y: Points | None) -> np.ndarray:
        """dk/dθ, (p, n, n), on one set of points."""
        if Y is not None:
            raise ValueError(
                "The derivatives of scikit-learn's kernels are those of one set of "
                "points: leave out Y."
            )
        return np.moveaxis(self.there()(X, eval_gradient=True)[1], 2, 0)

    def rule(self) -> Rule:
        return Rule(True, "a kernel of scikit-learn's Gaussian processes")


class GaussianProcess(CallbackSupportMixin, Machine):
    """A process with the kernel as covariance; evidence tells its parameters."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions(set(WORDS)), callable, None],
        "optimizer": [StrOptions({"fmin_l_bfgs_b"}), callable, None],
        "n_restarts_optimizer": [Interval(Integral, 0, None, closed="left")],
        "copy_X_train": ["boolean"],
        "random_state": ["random_state"],
        "bounds": [Mapping, None],
        "verbose": ["verbose"],
        "callback": [callable, None],
        "time_limit": TIME_LIMIT,
    }
    _advice: ClassVar[dict[str, str]] = {
        "max_iter": "The search for parameters took too many steps. Name bounds.",
        "time_limit": (
            "The parameters are the best of those tried. Raise the time limit, or take "
            "fewer points."
        ),
    }

    optimizer: Any
    n_restarts_optimizer: int
    copy_X_train: bool
    random_state: Any
    bounds: Any
    verbose: Any
    callback: Any
    time_limit: float | None

    log_marginal_likelihood_value_: float

    def _check_square(self, X: Points) -> None:
        if self._precomputed:
            raise ValueError(
                f"{type(self).__name__} needs k(x, x) of new points, which kernel "
                "values with the points of the fit do not tell. Pass Precomputed(K), K "
                "of all points, and their places in it as points."
            )

    def _resolved(self, points: Points, weight: np.ndarray | None) -> Kernel:
        if self.kernel is None:
            return 1.0 * RBF(0.5)  # exp(-½ ‖x - y‖²), as in scikit-learn
        if isinstance(self.kernel, GaussianProcessKernel):
            own = clone(self.kernel)
            theta = own.theta
            return ScikitLearnKernel(own, np.array(theta) if len(theta) else None)
        return as_kernel(self.kernel).resolve(points, weight)

    def _free(self, kernel: Kernel, extra: Mapping[str, float]) -> FreeParameters:
        """The parameters that are learnt: all smooth ones, unless `bounds` fix them."""
        bounds = dict(self.bounds or {})
        if isinstance(kernel, ScikitLearnKernel) and kernel.theta is not None:
            bounds.setdefault("theta", kernel.kernel.bounds)
        return FreeParameters(kernel, bounds, extra)

    def _ascended(self, problem: Any, watch: Any, seed: Any) -> Ascended:
        """The parameters of the highest evidence; the seed is of further starts."""
        solver = Ascent(self.optimizer, self.n_restarts_optimizer)
        rng = check_random_state(seed)
        return solve_within(solver, problem, seconds_left(), watch=watch, rng=rng)

    def _road(self, X: Points, y: Any) -> Road:
        X, _ = self._validated(X, y, **self._y_checks)
        points, _, _ = self._weighted_points(X, None)
        return by_matrix(Gram(self._resolved(points, None), points), None)

    _y_checks: ClassVar[dict[str, bool]] = {}

    def _trained_points(self, X: Points) -> Points:
        X = self._own(X, X) if self.copy_X_train else X
        return double(X)


def blocks(X: Points, n: int) -> list[slice]:
    """Runs of points whose k(x, X) with n others take about 64 MB."""
    step = max(1, int(2**23 / max(n, 1)))
    return [slice(i, i + step) for i in range(0, count(as_points(X)), step)]
