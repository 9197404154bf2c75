"""Machine: from data to a Gram, from coefficients to f, and a warning in between."""

from __future__ import annotations

import hashlib
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mercer.contributions.heavy import heaviest_features
from mercer.contributions.tables import FeatureWeight, TopFeatures
from mercer.data.blocks import Blocks
from mercer.data.matching import carried_over
from mercer.data.partitions import Partitions
from mercer.data.points import Points, count, take
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.nystrom import Nystrom
from mercer.kernels.operators import without_constant
from mercer.kernels.vector import Linear
from mercer.kernels.ways import Precomputed
from mercer.machines.checks import check_squares, checked_weight
from mercer.machines.estimator import KernelEstimator
from mercer.machines.labels import check_classes
from mercer.machines.words import as_kernel
from mercer.machines.wrappers import outside
from mercer.multiclass import names
from mercer.native import memory
from mercer.native.clock import breakable
from mercer.outcomes import Certificate, Run, Status
from mercer.solvers.partitioned_rows import PartitionedRows, computed_rows
from mercer.solvers.resume import begun

MANY = 10_000  # points whose weights are kept as one number


class HasRun(Protocol):
    """What a solver returned: it knows how it ended."""

    @property
    def run(self) -> Run: ...


@dataclass(frozen=True, eq=False)
class WeightedGram:
    """The points that count: their Gram, their places in X, and how often each does."""

    gram: Gram
    index: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True, eq=False)
class FitData(WeightedGram):
    """A fit that is ready: the points that count, with their targets."""

    target: np.ndarray
    # X, y and sample_weight, all checked, for callbacks
    given: tuple[Points, np.ndarray, Any]


@dataclass(frozen=True, eq=False)
class Dual:
    """coef of f = Σᵢ coefᵢ k(xᵢ, ·) on points of a fit; None where these are not kept.

    It is `expansion_` itself, unless that is reduced to landmarks.

    Attributes
    ----------
    origin : what tells points in partitions from others; None of points elsewhere
    """

    coef: np.ndarray
    points: Points | None
    origin: str | None = None

    @property
    def n_outputs(self) -> int:
        return 1 if self.coef.ndim == 1 else self.coef.shape[1]


class KernelSum(NamedTuple):
    """scale · (f(x) - f.bias) + bias + square · k(x, x), what a machine says of x.

    Attributes
    ----------
    f : the expansion, on points or on features
    places : the numbers of the points of f among those of the fit; None for `support_`,
        or all of them in order
    """

    f: Any
    scale: float
    bias: Any
    square: float = 0.0
    places: np.ndarray | None = None


class Machine(KernelEstimator):
    """f(x) = Σᵢ coefᵢ k(xᵢ, x) + bias behind scikit-learn's `fit` and `predict`.

    A machine has a parameter `kernel` and fills in `fit`, which ends with
    `expansion_`; all it says of new points is read from there.
    """

    expansion_: Expansion
    approximation_: Nystrom  # the kernel of the fit, where f is reduced to landmarks

    # What to do about a solution that is not optimal, where a status means more to this
    # machine than `Status.advice` says ("" for silence); {machine} and {solution} may
    # stand in it.
    _advice: ClassVar[dict[str, str]] = {}

    @abstractmethod
    def fit(self, X: Points, y: Any) -> Self:
        """Learn f from the points X and the targets y; returns self."""

    def _values(self, X: Points) -> np.ndarray:
        """f at new points."""
        check_is_fitted(self)
        return self.expansion_(self._validated_points(X, reset=False))

    # What f is made of

    _output_word: ClassVar[str] = "target"  # what a column of f is called

    def top_features(self, n: int = 20) -> TopFeatures:
        """The n features with the largest |wⱼ| of f = ⟨w, φ(·)⟩ + bias, by output.

        For kernels with an explicit map. Subsequences, substrings of all lengths and
        fragments of trees are not written out: those that begin alike have a bound in
        common, and are left where it is too low.

        Parameters
        ----------
        n : how many of each output: of each pair of classes, class or target

        Examples
        --------
        >>> from mercer import SVC, Subsequence
        >>> machine = SVC(kernel=Subsequence(2)).fit(["abb", "aba", "bab"], [0, 0, 1])
        >>> machine.top_features(1)
        1 against 0
                -0.25  subsequence 'ab'
        """
        check_is_fitted(self)
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"top_features needs n ≥ 1; got n={n!r}.")
        outputs = self._output_names()
        columns = getattr(self, "feature_names_in_", None)
        found = [
            some
            for part in self._as_sums()
            for some in heaviest_features(part.f, int(n), columns)
        ]
        rows = [
            FeatureWeight(name, weight, output)
            for output, some in zip(outputs, found, strict=True)
            for name, weight in some
        ]
        return TopFeatures(tuple(rows), tuple(outputs))

    def _as_sums(self) -> list[KernelSum]:
        """What the machine says of x, a sum for each kernel; its outputs in order."""
        return [self._as_sum()]

    def _as_sum(self) -> KernelSum:
        f = getattr(self, "expansion_", None)
        if f is None:
            raise TypeError(
                f"{type(self).__name__} has no expansion_, no sum over points or "
                "features that could be taken apart. SVC, KernelRidge and all machines "
                "with an expansion_ have one."
            )
        return KernelSum(f, 1.0, f.bias)

    def _output_names(self) -> list[str]:
        """What the columns of f speak for; the class that f > 0 means comes first."""
        classes = getattr(self, "classes_", None)
        if classes is not None and len(classes) == 2:
            return [f"{classes[1]} against {classes[0]}"]
        if classes is not None:
            return names(classes, getattr(self, "multiclass", "ovr"))
        f = self._as_sum().f
        if f.coef.ndim == 1:
            return [""]
        return [f"{self._output_word} {j}" for j in range(f.n_outputs)]

    # From data to a Gram

    def _weighted_gram(
        self, X: Points, sample_weight: npt.ArrayLike | None
    ) -> WeightedGram:
        """The points of weight > 0, with a kernel that has learnt from them."""
        points, index, weight = self._weighted_points(X, sample_weight)
        gram = self._gram(X, points, None if sample_weight is None else weight)
        return WeightedGram(gram, index, weight)

    def _gram(
        self, X: Points, points: Points, weight: np.ndarray | None = None
    ) -> Gram:
        """K of points of X, where X holds kernel values of their places."""
        if self._precomputed:
            return Gram(Precomputed(X), points)
        kept = begun()
        if "kernel" not in kept:
            with breakable():  # there is no f without a kernel
                kept["kernel"] = self._resolved(points, weight)
        return Gram(kept["kernel"], points)

    def _weighted_points(
        self, X: Points, sample_weight: npt.ArrayLike | None
    ) -> tuple[Points, np.ndarray, np.ndarray]:
        """The points of weight > 0, their places and weights.

        Where X holds kernel values, the places are the points.
        """
        n = count(X)
        self._check_square(X)
        index, weight = np.arange(n), _ones(n)
        if sample_weight is not None:
            weight = self._checked_weight(sample_weight, X)
            index = np.flatnonzero(weight > 0)
            weight = weight[index]
        if isinstance(X, Blocks) and len(index) < n:
            raise ValueError(
                f"{type(self).__name__} reads these points in blocks, and "
                f"{n - len(index)} of them have weight 0. Leave them out of the blocks."
            )
        if self._precomputed:
            return index, index, weight
        return (X if len(index) == n else take(X, index)), index, weight

    def _fit_data(
        self,
        X: Points,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        **y_checks: Any,
    ) -> FitData:
        """X, y and the weights, checked once, with a kernel that learnt from them.

        With `y_numeric` the targets are numbers, else classes.
        """
        X, y = self._validated(X, y, **y_checks)
        (check_squares if y_checks.get("y_numeric") else check_classes)(self, y)
        counted = self._weighted_gram(X, sample_weight)
        return FitData(
            counted.gram,
            counted.index,
            counted.weight,
            y if len(counted.index) == len(y) else y[counted.index],
            (X, y, sample_weight),
        )

    def _checked_weight(
        self, sample_weight: npt.ArrayLike | None, X: Points
    ) -> np.ndarray:
        """A number ≥ 0 for each point, not all of them 0."""
        return checked_weight(self, sample_weight, X, ensure_non_negative=True)

    def _resolved(self, points: Points, weight: np.ndarray | None) -> Kernel:
        """What the parameter `kernel` stands for, having learnt from these points."""
        return as_kernel(self.kernel).resolve(points, weight)

    # From coefficients to f

    def _expanded(
        self,
        gram: Gram,
        X: Points,
        coef: np.ndarray,
        bias: Any = 0.0,
        chosen: np.ndarray | None = None,
        on_points: bool = False,
    ) -> Any:
        """f with these coefficients at points of the Gram, in memory of its own.

        An `Expansion`; of points in partitions and a map with fewer columns than there
        are points in f, a `FeatureExpansion`.

        Parameters
        ----------
        X : the checked points of the fit
        chosen : the numbers of the points that coef belongs to; None for all
        on_points : whether it is an `Expansion` in any case
        """
        self.__dict__.pop("_dual", None)
        # Kernel values of new points come with them: no need for the old ones.
        kernel = Precomputed() if self._precomputed else gram.kernel
        # All points, in a file perhaps, are not copied only to be taken.
        if isinstance(gram.X, Partitions) and not isinstance(kernel, Nystrom | Linear):
            return self._of_partitions(gram, coef, bias, chosen, on_points)
        if isinstance(gram.X, Blocks):
            every_coef = np.zeros((gram.shape[0], *coef.shape[1:]))
            every_coef[slice(None) if chosen is None else chosen] = coef
            if not isinstance(kernel, Linear):
                return Expansion(kernel, gram.X, every_coef, bias)
            # ⟨w, x⟩ is k(w, x): one point for each output.
            w = np.atleast_2d(computed_rows(kernel, gram.X).pull(every_coef).T)
            ones = np.eye(len(w)) if coef.ndim == 2 else np.ones(1)
            self._dual = Dual(coef, None, _origin_of(gram.X))
            return Expansion(kernel, w, ones, bias)
        every = chosen is None or np.array_equal(chosen, np.arange(gram.shape[0]))
        points = gram.X if every else take(gram.X, chosen)
        return Expansion(kernel, self._own(points, X), coef, bias)

    def _of_partitions(
        self,
        gram: Gram,
        coef: np.ndarray,
        bias: Any,
        chosen: np.ndarray | None,
        on_points: bool,
    ) -> Any:
        """f in memory here: by its points, or its weights, whichever are fewer."""
        n, rows = gram.shape[0], gram._features
        chosen = np.arange(n) if chosen is None else chosen
        by_weights = isinstance(rows, PartitionedRows) and not on_points
        if by_weights and len(chosen) > rows.shape[1]:
            every_coef = np.zeros((n, *coef.shape[1:]))
            every_coef[chosen] = coef
            self._dual = Dual(coef, None, _origin_of(gram.X))
            return rows.function(rows.pull(every_coef), bias)
        wide = max([1, *gram.X.shape[1:]])
        memory.check_room(
            8.0 * len(chosen) * wide,
            f"f is a sum over {len(chosen):,} of {gram.X!r}, which take here",
            "On Nystrom(kernel, size) it is one over landmarks.",
        )
        return Expansion(gram.kernel, gram.X.fetched(chosen), coef, bias)

    def _on_landmarks(
        self, f: Expansion, coef: np.ndarray, weights: np.ndarray | None = None
    ) -> Expansion:
        """The same f as an expansion of k on the landmarks, if its kernel is Nystrom.

        That is small to store and quick to evaluate. What f was on the points of the
        fit that count, coef, is kept as numbers alone, with the points for a warm
        start.

        Parameters
        ----------
        weights : f in the coordinates of φ, where the solver has found them
        """
        self.__dict__.pop("approximation_", None)
        if not isinstance(f.kernel, Nystrom):
            return f
        stored = getattr(self, "warm_start", False) and len(f.coef) == len(coef)
        stored = stored and not isinstance(f.points, Partitions)
        self.approximation_ = f.kernel
        self._dual = Dual(coef, f.points if stored else None, _origin_of(f.points))
        if weights is None:
            landmarks, coef = f.kernel.reduced(f.points, f.coef)
        else:
            landmarks = f.kernel.base_points()
            coef = f.kernel.base_coefficients(weights)
        return Expansion(f.kernel.kernel, landmarks, coef, f.bias)

    @property
    def _of_points(self) -> Dual:
        """The coefficients of f on the points of the fit that count, and these."""
        dual: Dual | None = self.__dict__.get("_dual")
        if dual is not None:
            return dual
        return Dual(self.expansion_.coef, self.expansion_.points)

    def _carried(
        self, f: Any, coef: np.ndarray, points: Points, places: np.ndarray
    ) -> np.ndarray | None:
        """Coefficients of an earlier f at these points, 0 at new ones; None if unknown.

        Points in partitions are known by the collection they are of, as a whole.
        """
        if f.points is not None:
            return carried_over(coef, f.points, points, places)
        if f.origin is None or f.origin != _origin_of(points):
            return None
        out = np.zeros((count(points), coef.shape[1]))
        out[places] = coef
        return out

    def _way_on(self, status: Status) -> str:
        """How what was learnt so far is gone on from, where this machine can."""
        if status.at_the_end:
            return ""
        if hasattr(self, "partial_fit"):
            return " partial_fit goes on from here."
        if hasattr(self, "warm_start"):
            return " With warm_start=True the next fit goes on from here."
        return ""

    def _warn_unless_optimal(self, solution: HasRun) -> None:
        """Say how a fit ended that did not come to its end, and what to do about it."""
        status = solution.run.status
        advice = self._advice.get(status, status.advice)
        if advice and status != Status.OPTIMAL:
            message = (
                f"{type(self).__name__} stopped after {solution.run.iterations} "
                f"iterations with status {status!r}{_how_far(solution)}. "
                + advice.format(machine=self, solution=solution)
                + self._way_on(status)
                + _how_many(solution)
            )
            # Up to the user's call: here, fit, scikit-learn's wrapper of fit.
            warnings.warn(message, ConvergenceWarning, stacklevel=outside())


def of_weights(kernel: Nystrom, w: np.ndarray, bias: np.ndarray) -> Expansion:
    """f(x) = ⟨w, φ(x)⟩ + bias as an expansion of k on the landmarks of Nystrom(k).

    Parameters
    ----------
    w, bias : (p, q) of the first p columns of φ, those after them 0; (q,)
    """
    landmarks = kernel.base_points()
    w = np.pad(w, ((0, count(landmarks) - len(w)), (0, 0)))
    coef = kernel.base_coefficients(w)
    if coef.shape[1] == 1:
        return Expansion(kernel.kernel, landmarks, coef[:, 0], float(bias[0]))
    return Expansion(kernel.kernel, landmarks, coef, bias)


def on_landmarks(f: Expansion) -> Expansion:
    """f of Nystrom(k), or of that and a constant, as an expansion of k on landmarks."""
    kernel, constant = without_constant(f.kernel)
    if not isinstance(kernel, Nystrom) or not len(f.coef):
        return f
    landmarks, coef = kernel.reduced(f.points, f.coef)
    bias = f.bias + constant * f.coef.sum(axis=0)
    return Expansion(kernel.kernel, landmarks, coef, bias)


def _origin_of(X: Points) -> str | None:
    """What tells points in partitions from those of other collections."""
    if not isinstance(X, Partitions):
        return None
    return hashlib.sha256(repr(X.origin()).encode()).hexdigest()


def _ones(n: int) -> np.ndarray:
    """n times 1; of many points one number that stands for all."""
    return np.ones(n) if n < MANY else np.broadcast_to(1.0, (n,))


def _how_far(solution: HasRun) -> str:
    """What is known of the way left to the optimum."""
    words = ("violation", "rounding", "gap")
    numbers = ((word, getattr(solution, word, None)) for word in words)
    return "".join(
        f", {word} " + ("not known" if np.isnan(value) else f"{value:.2g}")
        for word, value in numbers
        if value is not None
    )


def _how_many(solution: HasRun) -> str:
    """Of several problems, how many were solved."""
    parts = solution.parts if isinstance(solution, Certificate) else ()
    if not parts:
        return ""
    done = sum(part.status.at_the_end for part in parts)
    return f" Of its {len(parts)} problems {done} were solved to tol."


def dual_rows(f: Expansion | Dual) -> np.ndarray:
    """The coefficients of f as scikit-learn's SVC has them, a row for each output."""
    return f.coef.reshape(len(f.coef), f.n_outputs).T


def biases(f: Expansion) -> np.ndarray:
    """The biases of f, (q,): one for each output."""
    return np.array(np.atleast_1d(f.bias))


# In scikit-learn's words, where its machine calls pairwise_kernels.
NO_PAIRWISE_MATRIX = (
    "Precomputed metric requires shape (n_queries, n_indexed). Got ({n}, {m}) for {n} "
    "indexed."
)
