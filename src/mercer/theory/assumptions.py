"""What `bounds` knows of each machine: its loss, its bias, how it is fitted again.

A machine is judged by what it is, by its class, and not by the attributes it happens to
have: a new one has no rows until it has its line in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from mercer.data.points import Points, count, take
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.operators import Constant
from mercer.kernels.ways import Precomputed
from mercer.losses import (
    EpsilonInsensitive,
    Hinge,
    Logistic,
    Loss,
    PerceptronLoss,
    Squared,
    ZeroOne,
)
from mercer.machines.base import Machine
from mercer.machines.gp import GaussianProcessClassifier, GaussianProcessRegressor
from mercer.machines.kmeans import KernelKMeans
from mercer.machines.neighbors import (
    KernelKNNClassifier,
    KernelKNNRegressor,
    NearestNeighbors,
)
from mercer.machines.parzen import ParzenClassifier, ParzenDensity
from mercer.machines.pca import KernelPCA
from mercer.machines.perceptron import KernelPerceptron, MistakeDriven, Perceptron
from mercer.machines.regularized import (
    KernelHuberRegression,
    KernelLogisticRegression,
    KernelQuantileRegression,
    RegularizedMachine,
)
from mercer.machines.ridge import KernelRidge
from mercer.machines.rvm import RVC, RVR
from mercer.machines.sgd import KernelSGDClassifier, KernelSGDRegressor
from mercer.machines.sparse import SparseKernelClassifier, SparseKernelRegressor
from mercer.machines.svm import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM
from mercer.machines.words import as_kernel
from mercer.native.sorting import distinct


class Absent(Exception):
    """Why a row cannot be given: a clause without its full stop."""


def first_sentence(error: Exception) -> str:
    return " ".join(str(error).split()).split(". ")[0].rstrip(".")


@dataclass(frozen=True)
class Kind:
    """What is known of the machines of one class.

    Attributes
    ----------
    loss : of a machine, what it minimises; None where it minimises none
    bias : of a machine, whether f has a constant outside of its kernel
    outside : of a machine, why what it says is no function of the kernel's space; ""
        where it is `expansion_`
    by_points : whether it must see the points themselves to be fitted again, and not
        only their kernel values
    learns_targets : whether there is a y to be wrong about
    """

    loss: Callable[[Any], Any] = lambda machine: None
    bias: Callable[[Any], bool] = lambda machine: False
    outside: Callable[[Any], str] = lambda machine: ""
    by_points: Callable[[Any], bool] = lambda machine: False
    learns_targets: bool = True


def _intercept(machine: Any) -> bool:
    return bool(machine.fit_intercept)


def _always(machine: object) -> bool:
    return True


def _own(machine: Any) -> Any:
    return machine._loss()


def _neighbours(machine: object) -> str:
    return "what the nearest points say is no function of the kernel's space"


def _votes(machine: KernelPerceptron) -> str:
    if machine.variant == "voted":
        return "a vote of many functions is no function of the kernel's space"
    return ""


def _densities(machine: ParzenClassifier) -> str:
    if machine.method == "density":
        return "a ratio of densities is no function of the kernel's space"
    return ""


def _has_densities(machine: ParzenClassifier) -> bool:
    return machine.method == "density"


def _on_features(machine: object) -> bool:
    return getattr(machine, "on", "points") != "points"


def _features(machine: object) -> str:
    if _on_features(machine):
        return "f is a sum of features, and not one of kernel values"
    return ""


_NO_TARGETS = Kind(learns_targets=False)

KINDS: dict[type, Kind] = {
    SVC: Kind(lambda machine: Hinge(), _intercept),
    NuSVC: Kind(lambda machine: Hinge(), _always),
    SVR: Kind(lambda machine: EpsilonInsensitive(float(machine.epsilon)), _intercept),
    # Its ε is learnt from the points: no loss that was fixed before them.
    NuSVR: Kind(lambda machine: EpsilonInsensitive(0.0), _always),
    KernelRidge: Kind(lambda machine: Squared()),
    KernelLogisticRegression: Kind(lambda machine: Logistic(), _intercept),
    RegularizedMachine: Kind(_own, _intercept),
    KernelQuantileRegression: Kind(_own, _intercept),
    KernelHuberRegression: Kind(_own, _intercept),
    KernelPerceptron: Kind(lambda machine: PerceptronLoss(), outside=_votes),
    Perceptron: Kind(lambda machine: PerceptronLoss(), _intercept, by_points=_always),
    # The order of their steps comes from the coordinates of the points.
    KernelSGDClassifier: Kind(_own, by_points=_always),
    KernelSGDRegressor: Kind(_own, by_points=_always),
    SparseKernelClassifier: Kind(
        lambda machine: Logistic(), _intercept, _features, _on_features
    ),
    SparseKernelRegressor: Kind(
        lambda machine: Squared(), _intercept, _features, _on_features
    ),
    RVC: Kind(lambda machine: Logistic(), _intercept),
    RVR: Kind(lambda machine: Squared(), _intercept),
    GaussianProcessRegressor: Kind(lambda machine: Squared()),
    GaussianProcessClassifier: Kind(lambda machine: Logistic()),
    ParzenClassifier: Kind(bias=_always, outside=_densities, by_points=_has_densities),
    KernelKNNClassifier: Kind(outside=_neighbours),
    KernelKNNRegressor: Kind(outside=_neighbours),
    OneClassSVM: _NO_TARGETS,
    SVDD: _NO_TARGETS,
    KernelPCA: _NO_TARGETS,
    KernelKMeans: _NO_TARGETS,
    ParzenDensity: _NO_TARGETS,
}


def kind_of(machine: Machine) -> Kind | None:
    """Its line in `KINDS`, or that of the class it was derived from."""
    return next((KINDS[c] for c in type(machine).__mro__ if c in KINDS), None)


class Judged:
    """A fitted machine with the points and the targets of its fit.

    Its prediction for a point is a number whose sign is a class (`sides`), a class, a
    number, or several numbers; `wrong` is the cost of it: 0 or 1, or the square.
    """

    def __init__(
        self,
        machine: Any,
        X: Points,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
    ):
        if not isinstance(machine, Machine):
            raise TypeError(
                "bounds judges a machine of this library; got "
                f"{type(machine).__name__}. Of a pipeline, pass its last step and the "
                "points as they reach it."
            )
        check_is_fitted(machine)
        self.machine, self.name = machine, type(machine).__name__
        self.kind = kind_of(machine)
        self.X = X = machine._validated_points(X, reset=False)
        self.m = count(X)
        self._check_places()
        # New points come with their kernel values; here they are those of `fit`.
        self.points = np.arange(self.m) if machine._precomputed else _double(X)
        self.weight = self._weights(sample_weight)
        self.learns = self.kind is not None and self.kind.learns_targets
        if not self.learns:
            return
        if y is None:
            raise ValueError(f"{self.name} learns targets: bounds needs y as well.")
        self.given, (self.y, self.mode) = np.asarray(y), self._targets(y, self.m)

    def _check_places(self) -> None:
        """Refuse points that cannot be those of `fit`."""
        machine = self.machine
        fitted: int | None
        if isinstance(machine, KernelRidge):
            problem = vars(machine).get("_problem")
            fitted = None if problem is None else problem.gram.shape[0]
        elif isinstance(machine, NearestNeighbors):
            fitted = machine.n_samples_fit_
        elif isinstance(machine, MistakeDriven):
            fitted = machine._handed
        else:
            fitted = getattr(machine, "shape_fit_", (None,))[0]
        if fitted is not None and fitted != self.m:
            raise ValueError(
                f"bounds needs the {fitted} points that {self.name} was fitted on; got "
                f"{self.m}. Other points go into test=(X, y)."
            )

    def _weights(self, sample_weight: npt.ArrayLike | None) -> np.ndarray | None:
        if sample_weight is None:
            return None
        if not has_fit_parameter(self.machine, "sample_weight"):
            raise ValueError(f"{self.name} takes no sample_weight, so bounds does not.")
        return self.machine._checked_weight(sample_weight, self.X)

    # Targets and predictions

    def _targets(self, y: npt.ArrayLike, n: int) -> tuple[np.ndarray, str]:
        """y as ±1, classes or numbers; and which: "sides", "classes" or "numbers"."""
        y = np.asarray(y)
        if not is_classifier(self.machine):
            return self._numbers(y, n)
        if y.shape != (n,):
            raise ValueError(f"bounds needs {n} targets, one per point; got {y.shape}.")
        classes = self.machine.classes_
        if not np.isin(y, classes).all():
            many = "two" if len(classes) == 2 else len(classes)
            raise ValueError(
                f"bounds needs targets of {many} classes; the machine knows "
                f"{list(classes)}, y has {list(distinct(y))[:5]}."
            )
        if len(classes) == 2 and hasattr(self.machine, "decision_function"):
            return np.where(y == classes[1], 1.0, -1.0), "sides"
        return y, "classes"

    def _numbers(self, y: np.ndarray, n: int) -> tuple[np.ndarray, str]:
        try:
            y = y.astype(float)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{self.name} learns numbers, and so bounds needs them; got {y!r:.80}."
            ) from error
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.ndim not in (1, 2) or len(y) != n or not np.isfinite(y).all():
            raise ValueError(
                f"bounds needs {n} targets, one per point, finite; got {y.shape}."
            )
        sides = y.ndim == 1 and bool(np.all(np.abs(y) == 1))
        return y, "sides" if sides else "numbers"

    def predicted(self, machine: Any, X: Points) -> np.ndarray:
        """What a machine like this one predicts for points."""
        if self.mode == "classes" or not is_classifier(machine):
            return np.asarray(machine.predict(X)).reshape(count(X), *self.y.shape[1:])
        return np.asarray(machine.decision_function(X))

    @cached_property
    def own(self) -> np.ndarray:
        """What the machine predicts for its own points."""
        if self.has_f:
            return self.values
        try:
            return self.predicted(self.machine, self.X)
        except ValueError as error:
            raise Absent(f"predicting fails: {first_sentence(error)}") from error

    def wrong(self, y: np.ndarray, predictions: np.ndarray) -> np.ndarray:
        """The cost at each point."""
        if self.mode == "sides":
            return ZeroOne().value(y, predictions)
        if self.mode == "classes":
            return (predictions != y).astype(float)
        squares = Squared().value(y, predictions)
        return squares.mean(axis=1) if squares.ndim == 2 else squares

    @property
    def formula(self) -> str:
        if self.mode == "sides":
            return "#{yᵢ f(xᵢ) ≤ 0}/m"
        if self.mode == "classes":
            return "#{ŷ(xᵢ) ≠ yᵢ}/m"
        return "(1/m) Σ (yᵢ - f(xᵢ))²"

    # f and its RKHS

    @property
    def has_f(self) -> bool:
        """Whether its prediction is one expansion."""
        try:
            self.check_f()
        except Absent:
            return False
        return True

    def check_f(self) -> None:
        """Raise `Absent` where its prediction is not one function of the RKHS."""
        assert self.kind is not None
        if reason := self.kind.outside(self.machine):
            raise Absent(reason)
        many = self.machine.expansion_.n_outputs
        if many > 1:
            raise Absent(
                f"it is about one f, and this {self.name} has {many}, one for each "
                "class, pair of classes or target; fit a machine for each"
            )

    @cached_property
    def f(self) -> Expansion:
        """The f of the machine on points that are compared in double precision."""
        f = self.machine.expansion_
        if hasattr(self.machine, "approximation_"):
            dual, used = (
                self.machine._of_points,
                getattr(self.machine, "support_", slice(None)),
            )
            points = take(self.points, used)
            f = Expansion(self.machine.approximation_, points, dual.coef, f.bias)
        coef = f.coef[:, 0] if f.coef.ndim == 2 else f.coef
        bias = float(np.ravel(f.bias)[0])
        return Expansion(self._closed(f.kernel), _double(f.points), coef, bias)

    def _closed(self, kernel: Kernel) -> Kernel:
        """The kernel, with the matrix where kernel values stand for points."""
        if not self.machine._precomputed:
            return kernel
        values = Precomputed(np.asarray(self.X, dtype=float))
        return values + Constant(1.0) if not isinstance(kernel, Precomputed) else values

    @cached_property
    def values(self) -> np.ndarray:
        """f at the points."""
        return self.f(self.points)

    @cached_property
    def length(self) -> float:
        """Σ |coefᵢ| √k(xᵢ, xᵢ), at least ‖f‖ and what sums of f go through."""
        f = self.f
        squares = np.maximum(f.kernel.diag(f.points), 0) if len(f.coef) else np.zeros(0)
        return float(np.abs(f.coef) @ np.sqrt(squares, dtype=float))

    @property
    def scale(self) -> float:
        """What |f| at the points is at most, by the sums it goes through."""
        if not self.has_f:
            return float(np.abs(self.own).max(initial=0))
        square = float(np.max(self.gram.diag(), initial=0))
        return self.length * np.sqrt(max(square, 0.0)) + abs(self.f.bias)

    @cached_property
    def gram(self) -> Gram:
        """The Gram of f's kernel."""
        return self.gram_of(self.f.kernel)

    def gram_of(self, kernel: Kernel) -> Gram:
        return Gram(kernel, self.points)

    @property
    def base(self) -> Kernel:
        """The kernel that was given, its parameters resolved: f's without a + 1."""
        machine = self.machine
        if isinstance(machine, NearestNeighbors | ParzenClassifier):
            return self._closed(machine.kernel_)
        kernel = getattr(machine, "approximation_", machine.expansion_.kernel)
        kernel = self._closed(kernel)
        constant = isinstance(
            machine, KernelPerceptron | KernelSGDClassifier | KernelSGDRegressor
        )
        # Those machines have a fit_intercept, and with it a Sum as their kernel.
        return kernel.left if constant and machine.fit_intercept else kernel  # type: ignore[attr-defined]

    @property
    def biased(self) -> bool:
        """Whether f has a bias, or would have one on other points."""
        assert self.kind is not None
        return self.kind.bias(self.machine)

    @property
    def loss(self) -> Loss | None:
        """What the machine minimises, for its targets as they are."""
        assert self.kind is not None
        return self.kind.loss(self.machine)

    @property
    def learnt(self) -> bool:
        """Whether a parameter of the kernel is known to be learnt from the points."""
        given = self.machine.kernel
        if given is None:
            return True
        if isinstance(given, Kernel):
            return not (self.machine._precomputed or given == self.base)
        if not isinstance(given, str) or given in ("linear", "precomputed"):
            return False
        if "gamma" in self.machine.get_params(deep=False):
            return self.machine.gamma == "scale"
        return as_kernel(given) != self.base


def _double(points: Points) -> Points:
    single = getattr(points, "dtype", None) == np.float32
    return points.astype(np.float64) if single else points
