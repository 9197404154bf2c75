"""optimize: a machine whose kernel has learnt its parameters, by gradients.

evidence   ln p(y) of a Gaussian process; of ridge, whose scale is free, the highest
           over all scales of K + αI
loo        the mean square error of leave-one-out of ridge, exactly: rᵢ = cᵢ / [A⁻¹]ᵢᵢ
span       of a support vector machine of two classes, the share of points that the
           span of the others says will be missed when they are left out

Chapelle, Vapnik, Bousquet and Mukherjee, Choosing multiple parameters for support
vector machines (2002): a step of the span estimate is a logistic function, and the
dual variables change with the parameters as long as the same ones are at their bounds.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mercer import plots
from mercer.data.points import Points, double, take
from mercer.kernels.base import Kernel
from mercer.machines.gp import GaussianProcessClassifier, GaussianProcessRegressor
from mercer.machines.ridge import KernelRidge
from mercer.machines.svm import SVC
from mercer.native import lapack
from mercer.native.sorting import distinct
from mercer.native.threads import blas_for
from mercer.outcomes import Run
from mercer.solvers.ascent import Ascent, FreeParameters, Step
from mercer.solvers.gaussian import (
    NormalEvidence,
    lower_weights,
    weighted_slopes,
)

STEEP = 5.0  # of the logistic function that stands for a step
PRECISE = 1e-5  # tol of the fits that the span is read from, at most
KINDS = {
    "evidence": "GaussianProcessRegressor, GaussianProcessClassifier, KernelRidge",
    "loo": "KernelRidge",
    "span": "SVC with two classes",
}


@dataclass(frozen=True, eq=False)
class Optimized:
    """A machine that was optimised, and the way there.

    Attributes
    ----------
    machine : fitted, with the parameters that were learnt
    by : "evidence", "loo" or "span"
    names : of the parameters that were learnt
    parameters : these, by name
    curve : every evaluation: theta, value (of the evidence, or of the error), slope
    run : how the search ended, and what it took
    """

    machine: Any
    by: str
    parameters: dict[str, Any]
    curve: list[Step]
    run: Run

    @property
    def names(self) -> list[str]:
        return list(self.parameters)

    def plot(self, ax: Any = None) -> Any:
        """The value at every evaluation, and the best so far."""
        return plots.plot_ascent(self.curve, ax, by=self.by)


def optimize(
    machine: Any,
    X: Points,
    y: Any,
    by: str = "evidence",
    *,
    bounds: Mapping[str, Any] | None = None,
    restarts: int = 0,
    max_iter: int = 200,
    seed: int = 0,
) -> Optimized:
    """The machine with the parameters of its kernel learnt from X and y, and the way.

    Parameters
    ----------
    machine : a Gaussian process, a `KernelRidge` (whose alpha is learnt too) or an
        `SVC` (whose C is); it stays as it is
    by : "evidence", "loo" or "span": what is optimised
    bounds : for parameters of the kernel by the names of `smooth_parameters`, and for
        "alpha" or "C": (low, high), or "fixed"; 1e-5 to 1e5 for others that are
        positive
    restarts, seed : further starts, drawn within the bounds
    max_iter : steps of L-BFGS from each start

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidge, RBF, optimize
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> found = optimize(KernelRidge(kernel=RBF(20.0)), X, np.sin(X[:, 0]), by="loo")
    >>> found.names, found.curve[0].value > 100 * found.curve[-1].value
    (['gamma', 'alpha'], True)
    """
    _check(machine, by)
    if by == "evidence" and not isinstance(machine, KernelRidge):
        return _process(machine, X, y, bounds, restarts, seed)
    own, targets = clone(machine), {"multi_output": True, "y_numeric": True}
    ridge = isinstance(machine, KernelRidge)
    X, y = own._validated(X, y, **(targets if ridge else {}))
    if own._precomputed:
        raise ValueError(
            "optimize changes the kernel; it needs points, not its values."
        )
    points = double(X)
    kernel = own._resolved(points, None)
    extra = {"alpha": own._reg(y)} if ridge else {"C": float(own.C)}
    free = FreeParameters(kernel, bounds, _start(extra))
    problem: Any = (
        Span(own, points, y, free)
        if by == "span"
        else _ridge(by, points, np.array(y, dtype=float), free)
    )
    rng = np.random.RandomState(seed)
    found = Ascent(restarts=restarts, max_iter=max_iter).solve(problem, rng=rng)
    settings = free.settings(found.theta)
    learnt, numbers = free.at(found.theta)
    own = _with_kernel(own, learnt).set_params(**numbers).fit(X, y)
    sign = 1.0 if by == "evidence" else -1.0
    curve = [step._replace(value=sign * step.value) for step in found.curve]
    return Optimized(own, by, settings, curve, found.run)


def _check(machine: Any, by: str) -> None:
    if by not in KINDS:
        raise ValueError(
            f"optimize knows by='evidence', 'loo' and 'span'; got by={by!r}."
        )
    processes = (GaussianProcessRegressor, GaussianProcessClassifier)
    known: dict[str, Any] = {
        "evidence": (*processes, KernelRidge),
        "loo": KernelRidge,
        "span": SVC,
    }
    if not isinstance(machine, known[by]):
        raise TypeError(
            f"optimize(by={by!r}) is for {KINDS[by]}; got {type(machine).__name__}."
        )


def _start(extra: dict[str, Any]) -> dict[str, float]:
    """Where the numbers beside the kernel start; from 0 there is no way."""
    found = {}
    for name, setting in extra.items():
        numbers = distinct(np.asarray(setting, dtype=float))
        if len(numbers) > 1:
            raise ValueError(
                f"optimize learns one {name} for all targets; got several."
            )
        found[name] = float(numbers[0]) or 1e-3
    return found


def _process(
    machine: Any, X: Points, y: Any, bounds: Any, restarts: int, seed: int
) -> Optimized:
    own = clone(machine)
    if bounds is not None:
        own.set_params(bounds=bounds)
    if own.optimizer is None:
        own.set_params(optimizer="fmin_l_bfgs_b")
    if restarts:
        own.set_params(n_restarts_optimizer=restarts, random_state=seed)
    own.fit(X, y)
    if isinstance(own, GaussianProcessRegressor):
        free, theta, curve = own._problem.free, own.theta_, own.curve_
        return Optimized(own, "evidence", free.settings(theta), curve, own.run_)
    parts = own._processes()
    curve = [step for part in parts for step in part.curve]
    settings = {
        f"{name} of problem {i}" if len(parts) > 1 else name: setting
        for i, part in enumerate(parts)
        for name, setting in part.problem.free.settings(part.theta).items()
    }
    return Optimized(own, "evidence", settings, curve, own.run_)


def _with_kernel(machine: Any, kernel: Kernel) -> Any:
    """The machine with a kernel object; what belonged to a word is as if not given."""
    known = inspect.signature(type(machine)).parameters
    words = {
        name: known[name].default
        for name in ("gamma", "degree", "coef0", "kernel_params")
        if name in known
    }
    return machine.set_params(kernel=kernel, **words)


def _ridge(by: str, X: Points, y: np.ndarray, free: FreeParameters) -> Any:
    target = y.reshape(len(y), -1)
    if by == "loo":
        return LeaveOneOut(X, target, free)
    return NormalEvidence(X, target, 0.0, free, profiled=True, noise="alpha")


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Minus the mean of (y - ŷ₋ᵢ)², of ridge without point i."""

    X: Points
    target: np.ndarray
    free: FreeParameters

    def objective(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The value and its slope by θ.

        With G = A⁻¹, c = Gy, r = c / diag G, the change of Σ r² / 2 is, in terms of
        dA, -(G u)ᵀ dA c + Σ (G diag(v) G) dA; u = r / diag G and v = r c / diag² G.
        """
        kernel, extra = self.free.at(theta)
        normal = NormalEvidence(self.X, self.target, 0.0, self.free)
        found = normal.factored(kernel, extra["alpha"])
        if found is None:
            return -math.inf, np.zeros(len(theta))
        A, c = found.matrix, found.coef
        with blas_for(len(A)):
            lapack.invert_positive(A)
            G = np.triu(A) + np.triu(A, 1).T
            own = G.diagonal()[:, None]
            r = c / own
            u, v = r / own, (r * c / own**2).sum(axis=1)
            W = G @ (v[:, None] * G) - (G @ u) @ c.T
        W = lower_weights(W * (-2 / r.size))
        slopes = weighted_slopes(kernel, self.X, W, self.free)
        slopes["alpha"] = float(W.trace())
        value = -float(np.mean(np.square(r)))
        return value, self.free.gradient(theta, slopes)


@dataclass(frozen=True, eq=False)
class Span:
    """-1/n Σᵢ 1 / (1 + exp(-5 (αᵢ Sᵢ² - yᵢ f(xᵢ)))) over support vectors of an SVC.

    Sᵢ is the distance of φ(xᵢ) from the span of the free support vectors, with weights
    that sum to 1. Left out, xᵢ is missed where αᵢ Sᵢ² > yᵢ f(xᵢ), as long as the same
    vectors are free.
    """

    machine: Any
    X: Points
    y: np.ndarray
    free: FreeParameters

    def objective(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        kernel, extra = self.free.at(theta)
        C = extra["C"]
        fitted = self._fitted(kernel, C)
        beta = fitted.dual_coef_[0]
        support = take(self.X, fitted.support_)
        at_bound = np.abs(beta) >= C * (1 - 1e-9)
        K = np.asarray(kernel(support), dtype=float)
        parts = _Parts(K, beta, at_bound, float(fitted.intercept_[0]))
        shares = expit(STEEP * parts.excess)
        n = len(self.y)
        steep = STEEP * shares * (1 - shares) / n
        slopes: dict[str, Any] = {}
        names = [name for name in self.free.names if name != "C"]
        for name, D in kernel.parameter_gradient(support, names=names).items():
            each = [D] if D.ndim == 2 else D
            total = [-float(steep @ parts.change(dK)) for dK in each]
            slopes[name] = total[0] if D.ndim == 2 else np.array(total)
        slopes["C"] = -float(steep @ parts.change_by_bound())
        value = -float(shares.sum()) / n
        return value, self.free.gradient(theta, slopes)

    def _fitted(self, kernel: Kernel, C: float) -> Any:
        machine = _with_kernel(clone(self.machine), kernel)
        machine.set_params(C=C, tol=min(PRECISE, machine.tol), probability=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            machine.fit(self.X, self.y)
        if len(machine.classes_) > 2:
            raise ValueError(
                f"optimize(by='span') takes two classes; got {len(machine.classes_)}."
            )
        return machine


class _Parts:
    """α S² - y f of support vectors, and how that moves with the kernel and with C.

    Parameters
    ----------
    K : of the support vectors
    beta : α with the signs of the classes
    at_bound : which α are C; for the others y f = 1
    bias : of f
    """

    def __init__(
        self, K: np.ndarray, beta: np.ndarray, at_bound: np.ndarray, bias: float
    ) -> None:
        self.K, self.beta, self.at_bound = K, beta, at_bound
        self.alpha, self.sign = np.abs(beta), np.sign(beta)
        free = self.free = np.flatnonzero(~at_bound)
        m = len(free)
        bordered = np.ones((m + 1, m + 1))
        bordered[:m, :m] = K[np.ix_(free, free)]
        # Free vectors may be spanned by others but for rounding: a little more of each.
        bordered[np.arange(m), np.arange(m)] += 1e-10 * np.abs(K).max(initial=1.0)
        bordered[m, m] = 0.0 if m else 1.0
        self.H = np.linalg.inv(bordered)
        across = np.ones((m + 1, len(K)))
        across[:m] = K[free]
        self.weights = self.H @ across  # of the span, for every vector
        self.spans = np.maximum(K.diagonal() - np.sum(across * self.weights, axis=0), 0)
        self.spans[free] = 1 / np.maximum(self.H.diagonal()[:m], 1e-300)
        margins = self.sign * (K @ beta + bias)
        margins[free] = 1.0
        self.excess = self.alpha * self.spans - margins

    def change(self, D: np.ndarray) -> np.ndarray:
        """As K changes by D."""
        free, m = self.free, len(self.free)
        w, inner = self.weights[:m], D[np.ix_(free, free)]
        spans = (
            D.diagonal()
            - 2 * np.sum(D[free] * w, axis=0)
            + np.einsum("ij,ij->j", w, inner @ w)
        )
        own = self.H[:m, :m]
        spans[free] = np.einsum("ij,ij->j", own, inner @ own) * self.spans[free] ** 2
        still = np.zeros(len(self.K))
        return self._moved(still, D @ self.beta, 0.0) + self.alpha * spans

    def change_by_bound(self) -> np.ndarray:
        """As C grows by 1."""
        signs = np.where(self.at_bound, self.sign, 0.0)
        return self._moved(signs, self.K @ signs, float(signs.sum()))

    def _moved(self, dbeta: np.ndarray, force: np.ndarray, total: float) -> np.ndarray:
        """Of α S² - y f by α and the bias: the free ones keep y f = 1 and Σ β = 0.

        `force` is what f changes by at the vectors, before they move; `dbeta` and
        `total` are the moves of those at the bound, and their sum.
        """
        free, m = self.free, len(self.free)
        moves = self.H @ np.append(-force[free], -total)
        dbeta = dbeta.copy()
        dbeta[free] = moves[:m]
        bias = float(moves[m]) if m else 0.0
        margins = self.sign * (force + self.K[:, free] @ moves[:m] + bias)
        margins[free] = 0.0
        return self.sign * dbeta * self.spans - margins
