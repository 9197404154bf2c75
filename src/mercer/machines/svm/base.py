"""What the support vector machines share: from data to problems, from solutions to f.

A machine states its two-class, regression or one-class problem, and `AutoSMO` solves
it; what is read from f once it is found is in `model`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer import multiclass
from mercer.data.points import Points, count
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.radial import RBF
from mercer.kernels.vector import variance
from mercer.kernels.ways import BlockFunction
from mercer.machines.base import WeightedGram
from mercer.machines.checks import TIME_LIMIT, check_numbers, checked_weight
from mercer.machines.progress import CallbackSupportMixin, Watcher, watching
from mercer.machines.svm import kept
from mercer.machines.svm.model import SupportVectorModel
from mercer.machines.words import WORDS, as_scikit_learn_kernel
from mercer.machines.wrappers import all_or_nothing
from mercer.native.clock import seconds_left
from mercer.outcomes import Certificate, Solution, Status, together
from mercer.solvers.auto import AutoSMO, held_for_rows
from mercer.solvers.box_certificate import certificate
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.class_pairs import PairSolutions
from mercer.solvers.multiple import (
    Mixture,
    pieces,
)
from mercer.solvers.programs import svc
from mercer.solvers.smo import SMO
from mercer.solvers.variables import FEW

COMMON_CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [StrOptions(set(WORDS)), callable],
    "degree": [Interval(Integral, 0, None, closed="left")],
    "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "tol": [Interval(Real, 0, None, closed="neither")],
    "shrinking": ["boolean"],
    "cache_size": [Interval(Real, 0, None, closed="neither"), None],
    "verbose": ["verbose"],
    "max_iter": [Interval(Integral, -1, None, closed="left")],
    "solver": [HasMethods("solve"), None],
    "warm_start": ["boolean"],
    "callback": [callable, None],
    "time_limit": TIME_LIMIT,
}


# The share of support vectors at their bound from which on all coefficients grow with
# C: by fits of 8,000 points at C from 0.1 to 1000, which then take fewer steps.
MANY_AT_BOUND = 0.3

BOX = [Interval(Real, 0, None, closed="right")]
FRACTION = [Interval(Real, 0, 1, closed="right")]


_NOT_FINITE = (
    "The dual coefficients or intercepts are not finite. The input data may contain "
    "large values and need to be preprocessed"
)


class SupportVectorMachine(CallbackSupportMixin, SupportVectorModel):
    """f(x) = Σᵢ coefᵢ k(xᵢ, x) + bias, most coefᵢ being 0, by a `BoxQP`."""

    _streams: ClassVar[bool] = True
    _solves_partitions: ClassVar[bool] = True
    _largest: ClassVar[dict[str, float]] = {"C": 1e300}  # `_upper` checks the rest
    _advice: ClassVar[dict[str, str]] = {
        "max_iter": (  # in scikit-learn's words
            "Solver terminated early (max_iter={machine._limit}).  Consider "
            "pre-processing your data with StandardScaler or MinMaxScaler; "
            "{machine._remedy}."
        ),
        "indefinite": "",  # scikit-learn is silent too; the certificate claims no gap
        "flat": (
            "There is no margin: at this nu the reduced hulls of two classes meet, and "
            "what is left of f is rounding. Raise nu, or choose a richer kernel."
        ),
    }

    # Parameters of every machine here
    gamma: Any
    degree: int
    coef0: float
    tol: float
    cache_size: float | None
    max_iter: int
    verbose: Any
    solver: Any
    warm_start: bool
    callback: Any
    time_limit: float | None

    @property
    def _tolerance(self) -> float:
        return getattr(self.solver, "tol", self.tol)

    @property
    def _limit(self) -> str:
        """max_iter, as the solver has it."""
        steps = getattr(self.solver, "max_iter", self.max_iter)
        return f"{steps}" if steps >= 0 else f"{steps}, the solver's own budget"

    @property
    def _remedy(self) -> str:
        if np.isinf(float(getattr(self, "C", 1.0))):
            return (
                "with C=inf there is a solution only where some f fits every point, "
                "with a finite C always"
            )
        return "a lower C or a larger max_iter also help"

    # From data to problems

    def _upper(self, weight: np.ndarray) -> np.ndarray:
        """C wᵢ, the bounds of the coefficients; inf only where C is."""
        C = float(self.C)
        with np.errstate(over="ignore"):
            upper = C * weight
            if len(upper) > FEW and np.min(weight) == np.max(weight):
                # One number for all takes no memory.
                upper = np.broadcast_to(upper[0].copy(), upper.shape)
        if np.isfinite(C) and not np.isfinite(upper).all():
            raise ValueError(
                f"{type(self).__name__} prices a point at C times its weight, which is "
                f"beyond the largest number: C={C:g}, and a weight is "
                f"{np.max(weight):g}. Lower one of them."
            )
        return upper

    def _checked_weight(
        self, sample_weight: npt.ArrayLike | None, X: Points
    ) -> np.ndarray:
        check_numbers(self, "sample_weight", sample_weight)
        n = count(X)
        sample_weight = np.asarray(sample_weight, dtype=np.float64)
        if sample_weight.ndim == 1 and len(sample_weight) != n:
            shape = getattr(X, "shape", (n,))
            raise ValueError(
                "sample_weight and X have incompatible shapes: "
                f"{sample_weight.shape!r} vs {shape!r}\n"
                "Note: Sparse matrices cannot be indexed w/boolean masks (use "
                "`indices=True` in CV)."
            )
        weight = checked_weight(self, sample_weight, X, allow_all_zero_weights=True)
        if not (weight > 0).any():  # in LIBSVM's words; it takes negative ones for 0
            raise ValueError(
                "Invalid input - all samples have zero or negative weights."
            )
        return weight

    def _resolved(self, points: Points, weight: np.ndarray | None) -> Kernel:
        """What `kernel`, `gamma`, `degree` and `coef0` stand for, on these points."""
        gamma = None
        if isinstance(self.kernel, str) and self.kernel != "linear":
            gamma = None if self.gamma == "auto" else self.gamma
            if self.gamma == "scale":
                gamma = self._scale(points, weight)
        kernel = as_scikit_learn_kernel(
            self.kernel,
            points,
            gamma=gamma,
            degree=self.degree,
            coef0=self.coef0,
            function=BlockFunction,
        )
        return kernel.resolve(points, weight)

    def _scale(self, points: Points, weight: np.ndarray | None) -> float:
        """1 / (d · var X), in scikit-learn's words where the variance overflows."""
        try:
            return RBF().resolve(points, weight).gamma
        except ValueError as error:
            if np.isfinite(variance(points, weight)):
                raise
            raise ValueError(f"{_NOT_FINITE}. {error}") from error

    def _shared(self, counted: WeightedGram, n_problems: int) -> WeightedGram:
        """The same, K in memory where several problems would each compute it anew."""
        return replace(
            counted, gram=held_for_rows(counted.gram, n_problems, self.cache_size)
        )

    # Several kernels at once: see `mixtures`

    _weighs_kernels: ClassVar[bool] = True  # whether their weights are learnt
    _mixture: Mixture | None = None  # during a fit that learns weights of kernels

    # From problems to solutions

    _f_is_expansion: ClassVar[bool] = True  # coef of `expansion_` are the signed α
    _watcher: Watcher | None = None  # during a fit that reports its progress
    _problem_names: Sequence[str] = ()

    @contextmanager
    def _watched(
        self,
        names: Sequence[str],
        X: Points,
        y: Any,
        sample_weight: npt.ArrayLike | None,
    ) -> Iterator[None]:
        """While the problems of these names are solved, report their progress."""
        with watching(self, names, X, y, sample_weight) as watcher:
            self._watcher, self._problem_names = watcher, names
            try:
                yield
            finally:
                self.__dict__.pop("_watcher", None)
                self.__dict__.pop("_problem_names", None)

    def _auto(self, objectives: bool = True, share: float = 1.0) -> AutoSMO:
        """What solves the problems, in a share of the time that is left."""
        left = seconds_left()
        return AutoSMO(
            self.tol,
            self.cache_size,
            self.max_iter,
            objectives,
            self.solver,
            None if left is None else share * left,
        )

    def _watching(self, name: Callable[[int], str] | None = None) -> Any:
        """What watches problem j while it is solved; None where nobody does.

        Without names, problems have those given to `_watched`.
        """
        watcher, names = self._watcher, self._problem_names
        if watcher is None:
            return None
        return lambda j: watcher.problem(names[j] if name is None else name(j))

    def _inseparable(self, problem: BoxQP, solution: Solution) -> ValueError:
        """What to say where no hard margin exists: the proof, and the soft margin."""
        value = None
        solver = SMO(1e-3, self.cache_size, 1_000_000, seconds_left())
        for C in (1e2, 1e4, 1e6):  # each from the last: 1e6 at once would take long
            soft = svc(problem.gram, problem.sign, C)
            found = solver.solve(soft, start=soft.start(value))
            value = found.value
        f = found.function + found.bias
        slack = float(np.sum(np.maximum(0, 1 - problem.sign * f)))
        heaviest = np.argsort(-solution.value, kind="stable")[:6]
        shown = ", ".join(f"{solution.value[i]:.3g} of point {i}" for i in heaviest)
        kernel = problem.gram.given.kernel
        error = ValueError(
            f"{type(self).__name__}(C=inf) needs classes that {kernel!r} "
            "separates; the hulls of these two meet, at a relative distance of "
            f"{solution.violation:.2g}. The common point, a mean of either class "
            f"weighted by this error's hull_weights, is {shown}, ... The soft margin "
            f"at C=1e6 leaves Σξ = {slack:.4g}. Choose a finite C or another kernel."
        )
        # Of this error alone: a ValueError has no such attributes.
        error.hull_weights = problem.sign * solution.value  # type: ignore[attr-defined]
        error.slack = slack  # type: ignore[attr-defined]
        return error

    # From solutions to f

    def _columns(
        self, counted: WeightedGram, problems: Sequence[BoxQP], parts: Sequence[Any]
    ) -> tuple[np.ndarray, np.ndarray, Sequence[Certificate]]:
        """Solve the problems: a column of coef, a bias and a certificate for each.

        `parts` has an entry for each problem; those of many classes share columns.
        """
        before = self._coefficients_before(counted.gram.X, multiclass.width(parts))
        near = None
        if before is not None:
            near = partial(self._at_cells, before, parts)
        mixture = self._mixture
        solutions = None if mixture is None else mixture.solved
        if solutions is None:
            solver = self._auto(objectives=len(parts) > 1 or not self._f_is_expansion)
            solutions = solver.solve_many(
                problems, near=near, watching=self._watching()
            )
        if mixture is not None:
            if not isinstance(solutions, PairSolutions):
                solutions = list(solutions)
            again = list(pieces(problems, solutions)) if mixture.single else None
            self._mixture = mixture.of(again)
        return self._gathered(counted.gram, solutions, parts, range(len(parts)))

    @staticmethod
    def _at_cells(coef: np.ndarray, parts: Sequence[Any], j: int) -> np.ndarray:
        """The coefficients of problem j."""
        return coef[multiclass.cells(parts, j)]

    def _gathered(
        self,
        gram: Gram,
        solutions: PairSolutions | Iterable[tuple[BoxQP, Solution]],
        parts: Any,
        numbers: Sequence[int] | np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, Sequence[Certificate]]:
        """coef, biases and certificates of the problems of these numbers."""
        shape = gram.shape[0], multiclass.width(parts)
        coef, bias = np.zeros((0, 0)), np.zeros(len(parts))
        found: Sequence[Certificate]
        if isinstance(solutions, PairSolutions):
            coef, chosen = np.zeros(shape), np.asarray(numbers)
            coef[parts.places(chosen)], bias[chosen] = solutions.decisions()
            found = solutions.certificates
        else:
            found = []
            for j, (problem, solution) in zip(numbers, solutions, strict=True):
                if solution.status == Status.INFEASIBLE:
                    raise self._inseparable(problem, solution)
                coef = coef if len(coef) else np.zeros(shape)  # not before it is solved
                coef[multiclass.cells(parts, j)], bias[j] = problem.decision(solution)
                found.append(certificate(problem, solution))
        if not (np.isfinite(coef).all() and np.isfinite(bias).all()):
            raise ValueError(
                f"{_NOT_FINITE}; or the kernel {gram.kernel!r} has values that are not "
                "finite."
            )
        return coef, bias, found

    def _store(
        self,
        X: Points,
        counted: WeightedGram,
        order: np.ndarray,
        coef: np.ndarray,
        bias: float | np.ndarray,
        found: Sequence[Certificate],
        label: np.ndarray | None = None,
    ) -> None:
        """Set what was learnt: f on its support vectors in the order given.

        With the classes of the points, coef has a column for each rival.
        """
        self.__dict__.pop("_held", None)
        used = np.asarray(coef.reshape(len(coef), -1).any(axis=1))
        chosen = order[used[order]]
        gram = counted.gram
        if label is None:
            on_points = not self._f_is_expansion
            f = self._expanded(gram, X, coef[chosen], bias, chosen, on_points)
            self.expansion_ = self._on_landmarks(f, coef[chosen])
        else:
            assert isinstance(bias, np.ndarray)  # one for each of many pairs
            f = self._expanded(gram, X, coef[chosen], chosen=chosen, on_points=True)
            self.__dict__.pop("_expansion", None)
            self._pair_function = multiclass.PairExpansion(
                f.kernel, f.points, label[chosen], f.coef, bias
            )
        self.support_ = counted.index[chosen].astype(np.int32)
        self._certificate = together(found)
        mixture = self.__dict__.pop("_mixture", None)
        if mixture is not None:
            self._certificate = mixture.certificate(self._certificate)
            self.kernel_weights_ = mixture.weights.copy()
            self.kernel_shares_ = mixture.shares()
        self.run_ = self._certificate.run
        self.fit_status_ = int(early(self._certificate))
        self.shape_fit_ = X.shape if hasattr(X, "shape") else (count(X),)
        self._sparse = sp.issparse(X)
        self._places = chosen
        self._unit = getattr(self, "C", 1.0)

    def _coefficients_before(self, points: Points, n_columns: int) -> np.ndarray | None:
        """coef of the last fit at these points, 0 at new ones; None to start afresh."""
        fitted = self.warm_start and hasattr(self, "support_")
        f = self._dual_function if fitted else None
        if f is None or (f.coef.shape[1] if f.coef.ndim == 2 else 1) != n_columns:
            return None
        coef = self._grown(f.coef.reshape(-1, n_columns))
        return self._carried(f, coef, points, self._places)

    def _grown(self, coef: np.ndarray) -> np.ndarray:
        """The coefficients of the last fit as a start with this C.

        Points at their bound are to stay at it. Where many are, the others grow alike;
        where none is, the optimum is where it was. Bounds that weights set are not
        known here: then all grow.
        """
        ratio, unit = getattr(self, "C", 1.0) / self._unit, self._unit
        if not 0 < ratio < np.inf or ratio == 1:
            return coef
        sizes = np.abs(coef)
        bounded = sizes >= (1 - 1e-9) * unit
        few = bounded.sum() < MANY_AT_BOUND * np.count_nonzero(coef)
        if few and sizes.max(initial=0.0) <= (1 + 1e-9) * unit:
            return np.where(bounded, ratio * coef, coef)
        return ratio * coef

    # Points that come and go

    @all_or_nothing
    def add(
        self, X: Points, y: Any = None, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Learn from more points: f is then that of a fit on all of them, to tol.

        The first call fits, and keeps all points with their gradients; later ones
        compute the kernel rows of the coefficients that move, and no others. What the
        kernel learnt, the weights of classes, and the sums of coefficients that ν asks
        for stay as they first were. An error or Ctrl-C leaves the machine as it was.

        Parameters
        ----------
        X, y, sample_weight : as of `fit`; weights > 0, and no new classes
        """
        kept.add(self, X, y, sample_weight)
        return self

    @all_or_nothing
    def remove(self, index: Any) -> Self:
        """Forget points: f is then that of a fit on the others, to tol.

        Parameters
        ----------
        index : the number of a point, in the order in which they came, or several;
            points that are left are numbered anew
        """
        kept.remove(self, index)
        return self

    def leave_one_out(self) -> np.ndarray:
        """What f predicts for each point of the machine, fitted without that point.

        Exact to tol: only points with a coefficient are taken out, one at a time, each
        from the solution with all points. Needs a machine that began with `add`.
        """
        check_is_fitted(self)
        return kept.leave_one_out(self)

    @abstractmethod
    def _new_points(self, X: Points, y: Any, reset: bool) -> tuple[Points, Any]:
        """Points and targets to be added, checked."""

    def _note_classes(self, target: Any, counted: WeightedGram) -> None:
        """Learn what classes there are."""

    def _check_stay(self, target: Any) -> None:
        """Refuse to forget the last point of a class."""

    def _stated_parts(self, target: Any, n: int) -> Sequence[Any]:
        """What the problems of these targets are made of."""
        return range(1)

    @abstractmethod
    def _stated_problems(
        self, counted: WeightedGram, target: Any, parts: Sequence[Any]
    ) -> Sequence[BoxQP]:
        """The problems on these points."""

    @abstractmethod
    def _finish(
        self,
        counted: WeightedGram,
        target: Any,
        parts: Sequence[Any],
        columns: tuple[np.ndarray, np.ndarray, Sequence[Certificate]],
    ) -> None:
        """Set what was learnt."""

    def _alone(self, problem: BoxQP, place: int) -> float | None:
        """f at a point that is the only one of its side; None for any other."""
        return None

    @abstractmethod
    def _predicted(self, values: np.ndarray) -> np.ndarray:
        """What the values of f, a column for each problem, say."""


def early(found: Solution | Certificate) -> bool:
    """Whether the solver was stopped, by a limit or a callback, or got stuck."""
    return not found.status.at_the_end
