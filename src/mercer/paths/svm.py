"""Paths of support vector machines: in C, in the width of a tube, in ν."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv

from mercer import multiclass, plots
from mercer.data.points import Points, count
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.machines.svm import SVC, SVR, NuSVC, OneClassSVM
from mercer.native.sorting import distinct
from mercer.outcomes import Solution, Status, Watch
from mercer.paths.checks import (
    check_most,
    check_psd,
    check_weights,
    checked_end,
    largest,
    number_of,
)
from mercer.paths.curves import (
    ErrorCurve,
    errors_along,
    linear_pieces,
    part_of,
    together,
)
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.path import ParametricQP, Trace, Tracer, solution_at, traced
from mercer.solvers.smo import SMO

TOL = 1e-6  # of the machines of a path; they are better than that, as far as known
MOST = 50_000  # breakpoints, where no other number is asked for


@dataclass(frozen=True, eq=False)
class _Given:
    """Stands in for a solver: its solution is known."""

    value: np.ndarray
    tol: float

    def solve(
        self,
        problem: BoxQP,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        found = solution_at(problem, self.value, self.tol)
        if found.violation <= self.tol:
            return found
        return _solver(self.tol).solve(problem, start=problem.start(self.value))


def _solver(tol: float) -> SMO:
    return SMO(tol, precision="double")


class Path:
    """The machines of a family, as a function of its parameter; made by `svm_path`.

    Attributes
    ----------
    parameter : its name: "C", "epsilon" or "nu"
    kernel : the kernel of all machines, with what it learnt from the points
    breakpoints : where the coefficients turn, ascending; between them they are linear
    domain : the least and the largest value of the parameter that the path knows
    complete : whether the path came to its end; else `max_breakpoints` or rounding
        ended it, as `status` says ("max_iter", "imprecise")
    resolved : how often rounding was met by a solve on the way

    Examples
    --------
    >>> from mercer import RBF
    >>> from mercer.paths import svm_path
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    >>> path = svm_path(RBF(1.0), X, y)
    >>> path.complete, len(path.breakpoints)
    (True, 2)
    >>> machine = path(1.5)
    >>> machine.C, machine.predict(X).tolist()
    (1.5, [0, 1, 0, 1])
    """

    def __init__(
        self,
        machine: Any,
        parameter: str,
        given: tuple[Any, ...],
        problem: ParametricQP,
        start: float,
        ends: tuple[float, float],
        max_breakpoints: int,
    ):
        check_most(max_breakpoints)
        self.parameter, self._ends, self._most = parameter, ends, max_breakpoints
        self._machine, self._given, self._problem = machine, given, problem
        below, above = traced(problem, start, ends, max_breakpoints, _solver)
        self._below, self._above, self._start = Trace.of(below), Trace.of(above), start
        self.resolved = below.resolved + above.resolved
        self.status = max(
            (below.status, above.status), key=lambda status: status.gravity
        )
        ended = [tracer.theta for tracer in (below, above)]
        self.domain = (
            ended[0],
            ends[1] if above.status == Status.OPTIMAL else ended[1],
        )
        self._warn()

    def _warn(self) -> None:
        if self.complete:
            return
        name, (low, high) = self.parameter, self.domain
        why = (
            f"after max_breakpoints={self._most} breakpoints; raise it to go on"
            if self.status == Status.MAX_ITER
            else "where rounding hides how it goes on; scale the points"
        )
        warnings.warn(
            f"The path ends {why}. It knows {name} from {low:.6g} to {high:.6g}.",
            ConvergenceWarning,
            stacklevel=4,
        )

    @property
    def complete(self) -> bool:
        return self.status == Status.OPTIMAL

    @property
    def kernel(self) -> Kernel:
        return self._gram.kernel

    @property
    def _gram(self) -> Gram:
        return self._problem.ends[0].gram

    @property
    def breakpoints(self) -> np.ndarray:
        return np.append(self._below.starts[:0:-1], self._above.starts[1:])

    def __repr__(self) -> str:
        low, high = self.domain
        return (
            f"<path of {type(self._machine).__name__} in {self.parameter} from "
            f"{low:.6g} to {high:.6g}: {len(self.breakpoints)} breakpoints, "
            f"{self._gram.shape[0]} points>"
        )

    def _checked(self, value: Any) -> float:
        low, high = self.domain
        theta = number_of(value)
        if not ((low <= theta <= high and 0 < theta < np.inf) or theta == low > 0):
            raise ValueError(
                f"This path knows {self.parameter} from {low:.6g} to {high:.6g}, and "
                f"machines are for finite values > 0; got {value!r}."
            )
        return theta

    @property
    def signs(self) -> np.ndarray:
        """The sides of the points: their classes as ±1, or 1 where there are none."""
        return self._problem.ends[1].sign

    def _trace(self, theta: float) -> Trace:
        below = theta < self._start and len(self._below.pieces) > 0
        return self._below if below else self._above

    def coef(self, value: float) -> np.ndarray:
        """The coefficients of f at a value of the parameter, one for each point."""
        theta = self._checked(value)
        trace = self._trace(theta)
        if not trace.pieces:
            trace = self._above if trace is self._below else self._below
        return trace.beta(theta)

    def alpha(self, values: npt.ArrayLike) -> np.ndarray:
        """|coef| at one value, (n,), or at m of them, (m, n)."""
        if np.ndim(values) == 0:
            return np.abs(self.coef(float(np.asarray(values))))
        rows = [np.abs(self.coef(value)) for value in np.asarray(values).tolist()]
        return np.array(rows).reshape(len(rows), self._gram.shape[0])

    def __call__(self, value: float, tol: float = TOL) -> Any:
        """The fitted machine at a value of the parameter, with its certificate.

        Parameters
        ----------
        tol : of the certificate; where the path misses it, SMO goes on from there
        """
        theta = self._checked(value)
        problem = self._problem.at(theta)
        machine = clone(self._machine)
        known = _Given(problem.sign * self.coef(theta), tol)
        machine.set_params(**{self.parameter: theta, "tol": tol, "solver": known})
        machine.fit(*self._given)
        return machine.set_params(solver=None)

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """The coefficients along the path, by `mercer.plots.plot_alpha_path`."""
        return plots.plot_alpha_path(self, ax, **options)


class ClassifierPath(Path):
    """The path of a machine of two classes: a `Path` that knows its errors."""

    def cross_validated(self, cv: Any = 5) -> ErrorCurve:
        """The cross-validated error along the whole path, exact at every value.

        A path for each fold, by the same kernel as it is on all points; between two
        breakpoints f is linear, and the error changes where f does its sign.

        Parameters
        ----------
        cv : a number of folds, which are stratified, or a splitter of scikit-learn's
        """
        y = self._given[1]
        splitter = check_cv(cv, y, classifier=True)
        curves = []
        for inside, outside in splitter.split(np.zeros(len(y)), y):
            fold = self._fold(np.asarray(inside), np.asarray(outside))
            curves.append((len(outside), fold))
        return together(curves)

    def _fold(self, inside: np.ndarray, outside: np.ndarray) -> ErrorCurve:
        """The error outside of the path that is fitted inside."""
        gram = self._gram
        sign = self._problem.ends[1].sign
        if len(distinct(sign[inside])) < 2:
            raise ValueError(
                "A fold has points of one class alone; choose fewer folds, or "
                "stratified ones."
            )
        problem = ParametricQP(lambda theta: part_of(self._problem.at(theta), inside))
        below, above = traced(problem, self._start, self._ends, self._most, _solver)
        rows = np.asarray(gram.rows(outside), dtype=float)[:, inside]
        pieces = []
        for tracer in (below, above):
            trace = Trace.of(tracer)
            stops = [*trace.starts[1:].tolist(), self._last(tracer)]
            for k, stop in enumerate(stops):
                pieces += linear_pieces(tracer, trace, k, stop)
        pieces.sort(key=lambda piece: piece.low)
        return errors_along(pieces, rows, sign[outside])

    def _last(self, tracer: Tracer) -> float:
        whole = tracer.status == Status.OPTIMAL
        return self._ends[int(tracer.side > 0)] if whole else tracer.theta


def svm_path(
    kernel: Any,
    X: Points,
    y: Any,
    *,
    sample_weight: npt.ArrayLike | None = None,
    class_weight: Any = None,
    C_max: float = np.inf,
    max_breakpoints: int = MOST,
) -> ClassifierPath:
    """SVC for every C: the coefficients as a piecewise linear function of C.

    From C = 0 to where nothing changes any more, or to C_max. K is held in memory; a
    step takes the kernel rows of the free points once. Points that coincide, ties and
    coefficients that are not unique are met by exchanging what depends on each other.

    Parameters
    ----------
    kernel : a kernel, or a word of SVC's; it learns from all points once
    y : two classes
    sample_weight, class_weight : as of SVC; weights > 0
    max_breakpoints : a path that has more ends there, with a warning

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from mercer import RBF, SVC
    >>> from mercer.paths import svm_path
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> path = svm_path(RBF(1.0), X, y, C_max=100)
    >>> machine, fitted = path(3.0), SVC(C=3.0, kernel=RBF(1.0), tol=1e-9).fit(X, y)
    >>> bool(abs(machine.certificate_.dual - fitted.certificate_.dual) < 1e-8)
    True
    """
    machine = SVC(kernel=kernel, class_weight=class_weight)
    X, y, base, weight = _two_classes(machine, "svm_path", X, y, sample_weight)
    problem = ParametricQP(lambda C: replace(base, upper=C * weight))
    start = 1 / (4 * float(weight.sum()) * largest(base.gram))
    ends = 0.0, checked_end("C_max", C_max)
    if not machine._precomputed:
        machine.set_params(kernel=base.gram.kernel)
    given = X, y, sample_weight
    return ClassifierPath(
        machine, "C", given, problem, min(start, ends[1]), ends, max_breakpoints
    )


def svr_path(
    kernel: Any,
    X: Points,
    y: Any,
    *,
    epsilon: float | None = 0.1,
    C: float | None = None,
    sample_weight: npt.ArrayLike | None = None,
    C_max: float = np.inf,
    max_breakpoints: int = MOST,
) -> Path:
    """SVR for every C at one ε; or, with a number C and epsilon=None, for every ε.

    Parameters
    ----------
    y : (n,) array of numbers
    sample_weight, max_breakpoints : as of `svm_path`
    C_max : where a path in C ends at the latest

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF
    >>> from mercer.paths import svr_path
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> path = svr_path(RBF(1.0), X, np.sin(X[:, 0]), epsilon=0.1, C_max=100)
    >>> bool(np.abs(path(50.0).predict(X) - np.sin(X[:, 0])).max() < 0.11)
    True
    >>> path = svr_path(RBF(1.0), X, np.sin(X[:, 0]), epsilon=None, C=10.0)
    >>> path.parameter, path(0.2).epsilon
    ('epsilon', 0.2)
    """
    if (epsilon is None) == (C is None):
        raise ValueError(
            "svr_path needs epsilon for a path in C, or C with epsilon=None for a path "
            f"in epsilon; got epsilon={epsilon!r} and C={C!r}."
        )
    in_epsilon = epsilon is None
    machine = SVR(
        kernel=kernel, epsilon=0.0 if epsilon is None else epsilon, C=C or 1.0
    )
    machine._validate_params()
    X, y = machine._validated(X, y, y_numeric=True)
    counted = machine._weighted_gram(X, sample_weight)
    check_weights("svr_path", counted.index, count(X))
    check_psd("svr_path", counted.gram)
    target, gram = np.asarray(y, dtype=float), counted.gram.held_in_double()
    base = machine._problem(gram, target, counted.weight)
    if in_epsilon:
        problem = ParametricQP(lambda width: replace(base, tube=np.full(len(y), width)))
        start = float(np.ptp(target)) / 2 or 1.0
        ends = 0.0, np.inf
    else:
        problem = ParametricQP(
            lambda C: replace(base, lower=C * base.lower, upper=C * base.upper)
        )
        size = float(np.abs(target - target.mean()).max()) or 1.0
        start = size / (4 * float(counted.weight.sum()) * largest(gram))
        ends = 0.0, checked_end("C_max", C_max)
    given = X, y, sample_weight
    if not machine._precomputed:
        machine.set_params(kernel=gram.kernel)
    name = "epsilon" if in_epsilon else "C"
    start = min(start, ends[1])
    return Path(machine, name, given, problem, start, ends, max_breakpoints)


def nu_path(
    kernel: Any,
    X: Points,
    y: Any = None,
    *,
    sample_weight: npt.ArrayLike | None = None,
    class_weight: Any = None,
    max_breakpoints: int = MOST,
) -> Path:
    """NuSVC for every ν, of two classes y; without y, OneClassSVM for every ν.

    From the largest ν that the classes allow down to 0. Where the reduced hulls of two
    classes meet there is no margin: such machines have the status "flat".

    Parameters
    ----------
    sample_weight, class_weight, max_breakpoints : as of `svm_path`

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF
    >>> from mercer.paths import nu_path
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> path = nu_path(RBF(0.5), X)
    >>> inside = path(0.2).predict(X)
    >>> bool(np.mean(inside < 0) <= 0.2), path.domain
    (True, (0.0, 1.0))
    """
    if y is None:
        one = OneClassSVM(kernel=kernel, nu=1.0)
        one._validate_params()
        X = one._validated_points(X)
        counted = one._weighted_gram(X, sample_weight)
        check_weights("nu_path", counted.index, count(X))
        check_psd("nu_path", counted.gram)
        gram = counted.gram.held_in_double()
        base, most, total = one._problem(gram, counted.weight), 1.0, np.ones(1)
        machine: Any = one
    else:
        machine = NuSVC(kernel=kernel, nu=1e-3, class_weight=class_weight)
        X, y, base, weight = _two_classes(machine, "nu_path", X, y, sample_weight)
        sides = np.array([weight[base.sign > 0].sum(), weight[base.sign < 0].sum()])
        most = float(min(1.0, 2 * sides.min() / sides.sum()))
        base = replace(base, upper=weight, surplus=0.0)
        total = np.array([0.5, -0.5])
    weights = float(np.sum(base.upper))

    def at(nu: float) -> BoxQP:
        share = nu * weights * total
        return replace(base, total=float(share[0]) if y is None else tuple(share))

    if not machine._precomputed:
        machine.set_params(kernel=base.gram.kernel)
    given, ends = (X, y, sample_weight), (0.0, most)
    return Path(machine, "nu", given, ParametricQP(at), most, ends, max_breakpoints)


def _two_classes(
    machine: Any, name: str, X: Points, y: Any, sample_weight: Any
) -> tuple[Points, np.ndarray, BoxQP, np.ndarray]:
    """Checked points and classes, the problem at C = 1, and what each point counts."""
    machine._validate_params()
    X, y = machine._validated(X, y)
    counted = machine._weighted_gram(X, sample_weight)
    n = count(X)
    check_weights(name, counted.index, n)
    classes, label, factors = machine._labels(y, counted)
    if len(classes) > 2:
        raise ValueError(
            f"{name} follows a machine of two classes; got {len(classes)}. Take two of "
            "them, or one against the rest: y == one_class."
        )
    if not (factors > 0).all():
        raise ValueError(f"{name} needs class weights > 0; got {factors.tolist()}.")
    check_psd(name, counted.gram)
    weight = counted.weight * factors[label]
    sign = multiclass.parts(label, 2)[0].sign
    gram = counted.gram.held_in_double()
    return X, y, machine._problem(gram, sign, np.ones(n)), weight
