"""What SVC and NuSVC share: two classes by the sign of f, several by pairs or rests."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer import calibration, multiclass
from mercer.data.points import Points, count, take
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.machines.base import WeightedGram
from mercer.machines.checks import checked_parameters
from mercer.machines.labels import (
    available_if,
    check_classes,
    check_columns,
    check_pairs,
    check_same,
    check_two,
    class_factors,
    classes_of,
)
from mercer.machines.svm.base import COMMON_CONSTRAINTS, SupportVectorMachine
from mercer.machines.svm.mixtures import fitted_gram, road_on, weighed
from mercer.machines.wrappers import outside as outside_of_library
from mercer.multiclass import Classes, PairExpansion, Pairs, Part
from mercer.native.clock import seconds_left
from mercer.native.sorting import distinct
from mercer.outcomes import Certificate, Status, iterations
from mercer.solvers.auto import Problems
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.class_pairs import PairProblems
from mercer.solvers.roads import Road

FOLDS = 5  # of the values that probabilities are fitted on
FOLD_TIME = 0.64  # of a fold, in that of a fit: four fifths of the points


def _has_probabilities(machine: Classifier) -> bool:
    if machine.probability in (False, "deprecated"):
        raise AttributeError(
            "predict_proba is not available when probability=False. Set "
            "probability=True before fit, which then takes five fits more."
        )
    return True


class Classifier(ClassifierMixin, SupportVectorMachine):
    """Two classes by the sign of f, several by two-class problems."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        "probability": ["boolean", StrOptions({"deprecated"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "decision_function_shape": [StrOptions({"ovr", "ovo"})],
        "break_ties": ["boolean"],
        "random_state": ["random_state"],
        "multiclass": [StrOptions({"ovo", "ovr"})],
    }

    probability: Any
    class_weight: Any
    decision_function_shape: str
    break_ties: bool
    random_state: Any
    multiclass: str

    classes_: np.ndarray
    class_weight_: np.ndarray

    @abstractmethod
    def _problem(self, gram: Gram, sign: np.ndarray, weight: np.ndarray) -> BoxQP:
        """The two-class problem; each point counts weight times."""

    @checked_parameters
    def fit(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Learn f from the points X and their classes y; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : n classes, numbers or strings
        sample_weight : n numbers; weight 2 is the row twice, weight ≤ 0 no row
        """
        X, y = self._validated(X, y)
        counted = self._weighted_gram(X, sample_weight)
        classes, label, factors = self._labels(y, counted)
        parts = multiclass.parts(label, len(classes), self.multiclass)
        names = self._names(classes, len(parts))
        weight = counted.weight
        if np.any(factors != 1):
            weight = weight * factors[label]
        state = partial(self._problems, parts=parts, weight=weight)
        with self._watched(names, X, y, sample_weight):
            counted = self._shared(weighed(self, counted, state), len(names))
            problems = state(counted.gram)
            fit_sigmoids = partial(
                self._sigmoids, counted, label, parts, factors, names
            )
            # Of a limited time, the folds have their shares, and f all that they leave.
            limited = seconds_left() is not None
            sigmoid = fit_sigmoids() if limited else None
            columns = self._columns(counted, problems, parts)
            self._sigmoid = fit_sigmoids() if sigmoid is None else sigmoid
            self.classes_, self.class_weight_ = classes, factors
            self._learn(X, counted, label, parts, *columns)
        self._warn_unless_optimal(self._certificate)
        return self

    def _road(self, X: Points, y: Any) -> Road:
        X, y = self._validated(X, y)
        counted = self._weighted_gram(X, None)
        classes, label, factors = self._labels(y, counted)
        parts = multiclass.parts(label, len(classes), self.multiclass)
        state = partial(self._problems, parts=parts, weight=factors[label])
        return road_on(self, counted.gram, state, len(self._names(classes, len(parts))))

    def _learn(
        self,
        X: Points,
        counted: WeightedGram,
        label: np.ndarray,
        parts: Sequence[Part],
        coef: np.ndarray,
        bias: np.ndarray,
        found: Sequence[Certificate],
    ) -> None:
        """Set f on its support vectors, grouped by class as LIBSVM has them."""
        if len(parts) == 1:
            coef, bias = coef[:, 0], bias[0]
        order = np.argsort(label, kind="stable")
        by_rival = isinstance(parts, Pairs) and parts.compact
        self._store(X, counted, order, coef, bias, found, label if by_rival else None)
        self._label = label[np.searchsorted(counted.index, self.support_)]
        self.n_iter_ = iterations(found)

    # Points that come and go

    def _new_points(self, X: Points, y: Any, reset: bool) -> tuple[Points, np.ndarray]:
        X, y = self._validated(X, y, reset=reset)
        check_classes(self, y)
        strange = (
            []
            if reset
            else [one for one in distinct(y).tolist() if one not in self.classes_]
        )
        if strange:
            raise ValueError(
                f"{type(self).__name__}.add knows the classes "
                f"{self.classes_.tolist()}; got {strange[0]!r} too. Fit again for more."
            )
        return X, y

    def _note_classes(self, target: Any, counted: WeightedGram) -> None:
        self.classes_, _, self.class_weight_ = self._labels(target, counted)
        self._sigmoid = np.zeros((2, 0))

    def _check_stay(self, target: Any) -> None:
        lost = [one for one in self.classes_.tolist() if one not in target]
        if lost:
            raise ValueError(
                f"{type(self).__name__}.remove would take the last point of class "
                f"{lost[0]!r}. Fit again without that class."
            )

    def _stated_parts(self, target: Any, n: int) -> Sequence[Part]:
        label = np.searchsorted(self.classes_, target)
        return multiclass.parts(label, len(self.classes_), self.multiclass)

    def _stated_problems(
        self, counted: WeightedGram, target: Any, parts: Sequence[Part]
    ) -> Sequence[BoxQP]:
        factors = self.class_weight_[np.searchsorted(self.classes_, target)]
        return self._problems(counted.gram, parts, counted.weight * factors)

    def _finish(
        self,
        counted: WeightedGram,
        target: Any,
        parts: Sequence[Part],
        columns: tuple[np.ndarray, np.ndarray, Sequence[Certificate]],
    ) -> None:
        label = np.searchsorted(self.classes_, target)
        self._learn(counted.gram.X, counted, label, parts, *columns)

    def _alone(self, problem: BoxQP, place: int) -> float | None:
        side = problem.sign[place]
        return -float(side) if np.sum(problem.sign == side) == 1 else None

    def _predicted(self, values: np.ndarray) -> np.ndarray:
        two = values.shape[1] == 1
        return self.classes_.take(self._winners(values[:, 0] if two else values))

    @property
    def _calibrates(self) -> bool:
        return self.probability is True or self.probability == 1

    def _names(self, classes: np.ndarray, n_problems: int) -> _Names:
        """The problems as a reader knows them: those of f, then those of the folds."""
        folds = FOLDS if self._calibrates else 0
        return _Names(classes, self.multiclass, n_problems, folds)

    def _labels(
        self, y: np.ndarray, counted: WeightedGram
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The classes, the class of each point by its number, and what each counts."""
        check_classes(self, y)
        named, label = classes_of(y)
        check_two(self, named)
        classes = named
        if len(counted.index) < len(y):
            classes, label = classes_of(y[counted.index])
        # scikit-learn balances the rows of y, whatever they weigh.
        factors = class_factors(self, named, y)[np.searchsorted(named, classes)]
        counts = np.bincount(label, counted.weight)
        with np.errstate(over="ignore"):
            totals = counts * factors
        if not np.isfinite(totals.sum()):
            raise ValueError(
                f"{type(self).__name__} adds up sample_weight and class_weight, and "
                "their sum is beyond the largest number. Divide them all by the same."
            )
        if np.sum(totals > 0) < 2:
            raise ValueError(self._one_class)
        self._check_weights(classes, counts, totals)
        self._check_number(len(classes), len(label))
        return classes, label.ravel(), factors

    # In LIBSVM's words
    _one_class: ClassVar[str] = (
        "Invalid input - all samples with positive weights belong to the same class."
    )

    def _check_weights(
        self, classes: np.ndarray, counts: np.ndarray, totals: np.ndarray
    ) -> None:
        """Refuse classes that weigh too little beside the others.

        Parameters
        ----------
        counts : the weight of each class by `sample_weight`
        totals : and by `class_weight` as well
        """

    @abstractmethod
    def _pair_problems(
        self,
        gram: Gram,
        members: Sequence[np.ndarray],
        pairs: np.ndarray,
        weight: np.ndarray,
    ) -> PairProblems:
        """The two-class problems of pairs of classes."""

    def _problems(
        self,
        gram: Gram,
        parts: Sequence[Part],
        weight: np.ndarray,
        numbers: np.ndarray | None = None,
    ) -> Sequence[BoxQP]:
        """The two-class problems, or those of these numbers, made when asked for."""
        gram = gram.with_one_width()
        numbers = np.arange(len(parts)) if numbers is None else numbers
        if isinstance(parts, Pairs):
            members = [parts.members(c) for c in range(parts.n_classes)]
            return self._pair_problems(gram, members, parts.pairs[numbers], weight)
        return Problems(
            len(numbers), lambda j: self._problem(gram, parts[numbers[j]].sign, weight)
        )

    def _check_number(self, k: int, n: int) -> None:
        """Refuse so many classes that their problems would not fit into memory."""
        if self.multiclass == "ovr":
            check_columns(self, k, n)
        elif k > 2:
            check_pairs(self, k, n)

    # What f says

    @property
    def expansion_(self) -> Expansion:
        """f, a column for each two-class problem; of many classes made on demand."""
        if "_expansion" not in self.__dict__ and "_pair_function" in self.__dict__:
            self._expansion = self._pair_function.expansion()
        return self._expansion

    @expansion_.setter
    def expansion_(self, f: Expansion) -> None:
        self.__dict__.pop("_pair_function", None)
        self._expansion = f

    @property
    def _function(self) -> Expansion | PairExpansion:
        return self.__dict__.get("_pair_function") or self.expansion_

    def _of_pairs(self) -> PairExpansion | None:
        """f by pairs of many classes; None where it is an expansion."""
        check_is_fitted(self)
        return self.__dict__.get("_pair_function")

    def decision_function(self, X: Points) -> np.ndarray:
        """f at m points: (m,) for two classes, a column per pair or class for more.

        With `decision_function_shape="ovo"` the values of the pairs, (m, k(k-1)/2);
        with "ovr" a score for each class, (m, k), by pairs won and then by how clearly.
        """
        f = self._of_pairs()
        if f is not None:
            X = self._validated_points(X, reset=False)
            return f.scores(X) if self.decision_function_shape == "ovr" else f(X)
        values = self._values(X)
        if values.ndim == 1 or self.multiclass == "ovr":
            return values
        if self.decision_function_shape == "ovr":
            return multiclass.scores(values, len(self.classes_))
        return values

    def predict(self, X: Points) -> np.ndarray:
        """The class of each of the m points of X."""
        check_is_fitted(self)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError(
                "break_ties must be False when decision_function_shape is 'ovo'"
            )
        f = self._of_pairs()
        if f is None:
            return self.classes_.take(self._winners(self._values(X)))
        X = self._validated_points(X, reset=False)
        tally = f.scores(X) if self.break_ties else f.votes(X)
        return self.classes_.take(np.argmax(tally, axis=1))

    def _winners(self, values: np.ndarray) -> np.ndarray:
        """The number of the class that the values of f speak for."""
        classes = Classes(self.classes_, self.multiclass)
        if self.break_ties and values.ndim == 2 and self.multiclass == "ovo":
            return np.argmax(multiclass.scores(values, len(classes)), axis=1)
        return classes.winners(values)

    # Probabilities

    @available_if(_has_probabilities)
    def predict_proba(self, X: Points) -> np.ndarray:
        """The probability of each class at m points, (m, k); largest for `predict`'s.

        Fitted at `fit`, with `probability=True`, on the values of five machines, each
        at the fifth of the points that it did not see.
        """
        f = self._of_pairs()
        if not self._sigmoid.size:
            raise NotFittedError(
                "predict_proba is not available when fitted with probability=False. "
                "Now that it is True, fit again."
            )
        if f is None:
            return self._probabilities(self._values(X))
        X = self._validated_points(X, reset=False)
        p = np.empty((count(X), len(self.classes_)))
        for rows, values in f.blocks(X):
            p[rows] = self._probabilities(values)
        return p

    def _probabilities(self, values: np.ndarray) -> np.ndarray:
        """The probability of each class from the values of f."""
        p = calibration.probability(
            values, *(self._sigmoid[:, 0] if values.ndim == 1 else self._sigmoid)
        )
        if values.ndim == 1:
            p = np.column_stack([1 - p, p])
        elif self.multiclass == "ovr":
            p = np.maximum(p, np.finfo(float).tiny)
            p /= p.sum(axis=1, keepdims=True)
        else:
            p = calibration.coupled(p, len(self.classes_))
        return calibration.agreeing(p, self._winners(values))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Points) -> np.ndarray:
        """The logarithm of `predict_proba`."""
        return np.log(self.predict_proba(X))

    @property
    def probA_(self) -> np.ndarray:
        """A of p = 1 / (1 + exp(A f + B|f|)), for each two-class problem."""
        return self._sigmoid[0]

    @property
    def probB_(self) -> np.ndarray:
        """B of p = 1 / (1 + exp(A f + B|f|)), for each two-class problem."""
        return self._sigmoid[1]

    def _sigmoids(
        self,
        counted: WeightedGram,
        label: np.ndarray,
        parts: Sequence[Part],
        factors: np.ndarray,
        names: _Names,
    ) -> np.ndarray:
        """A and B of every two-class problem, as rows, from values out of fold.

        None of them, without `probability`.
        """
        if not self._calibrates:
            return np.zeros((2, 0))
        values, late, total = np.zeros((len(label), multiclass.width(parts))), 0, 0
        fold = _folds(label, check_random_state(self.random_state))
        for k in range(FOLDS):
            inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            if len(outside):
                values[outside], found = self._values_outside(
                    counted,
                    label,
                    factors,
                    inside,
                    outside,
                    partial(names.in_fold, k),
                    FOLD_TIME / (1 + FOLD_TIME * (FOLDS - k)),
                )
                late += sum(one.status == Status.TIME_LIMIT for one in found)
                total += len(found)
        if late:
            warnings.warn(
                f"{type(self).__name__}(time_limit={self.time_limit:g}) cut short "
                f"{late} of the {total} fits that the probabilities come from: they "
                "are rough. Raise time_limit, or leave out probability.",
                ConvergenceWarning,
                stacklevel=outside_of_library(),
            )
        if isinstance(parts, Pairs):
            rows, columns = parts.places(np.arange(len(parts)))
            sign = np.where(
                label[rows] == np.repeat(parts.pairs[:, 0], parts.totals), 1, -1
            )
            weight, sizes = counted.weight[rows], parts.totals
            return calibration.sigmoids(values[rows, columns], sign, weight, sizes)
        return np.transpose(
            [
                calibration.sigmoid(
                    values[part.index, j], part.sign, counted.weight[part.index]
                )
                for j, part in enumerate(parts)
            ]
        )

    def _values_outside(
        self,
        counted: WeightedGram,
        label: np.ndarray,
        factors: np.ndarray,
        inside: np.ndarray,
        outside: np.ndarray,
        name: Callable[[int], str],
        share: float,
    ) -> tuple[np.ndarray, Sequence[Certificate]]:
        """What machines fitted on the points inside say of those outside.

        And their certificates. `share` is that of the time that is left.
        """
        known, own = label[inside], label[outside]
        gram, weight = counted.gram.take(inside), counted.weight[inside]
        parts = multiclass.parts(known, len(factors), self.multiclass)
        weight = weight * factors[known]
        coef, bias, found = self._fold(gram, parts, weight, name, share)
        points = take(counted.gram.X, outside)
        if not (isinstance(parts, Pairs) and parts.compact):
            return gram.kernel.matmul(points, gram.X, coef) + bias, found
        order = parts.order
        f = PairExpansion(
            gram.kernel, take(gram.X, order), known[order], coef[order], bias
        )
        table, values = (
            multiclass.pair_of(len(factors)),
            np.empty((len(own), f.n_rivals)),
        )
        for rows, some in f.blocks(points):
            values[rows] = np.take_along_axis(some, table[own[rows]], axis=1)
        return values, found

    def _fold(
        self,
        gram: Gram,
        parts: Sequence[Part],
        weight: np.ndarray,
        name: Callable[[int], str],
        share: float,
    ) -> tuple[np.ndarray, np.ndarray, Sequence[Certificate]]:
        """A column of coef and a bias for each problem, of which some lack a class."""
        there = multiclass.present(parts)
        both = there.all(axis=1)
        some = np.flatnonzero(both)
        problems = self._problems(gram, parts, weight, some)
        watching = self._watching(lambda j: name(some[j]))
        solver = self._auto(share=share)
        solutions = solver.solve_many(problems, watching=watching)
        coef, bias, found = self._gathered(gram, solutions, parts, some)
        # A fold without one of the two classes predicts the other.
        bias[~both] = there[~both, 0] * 1.0 - there[~both, 1]
        return coef, bias, found

    # Attributes

    def _dual_rows(self) -> np.ndarray:
        f, n_classes = self._of_pairs(), len(self.classes_)
        if f is not None:
            return f.coef.T
        coef = self._of_points.coef
        if coef.ndim == 1 or self.multiclass == "ovr":
            return coef.reshape(len(coef), -1).T
        return multiclass.by_rival(coef, self._label, n_classes)

    @property
    def n_support_(self) -> np.ndarray:
        """How many support vectors each class has."""
        counts = np.bincount(self._label, minlength=len(self.classes_))
        return counts.astype(np.int32)

    def certify(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None = None
    ) -> Certificate:
        """The certificate of f, recomputed in float64 from the training data alone.

        Parameters
        ----------
        X, y, sample_weight : as they were given to `fit`
        """
        check_is_fitted(self)
        X, y = self._validated(X, y, reset=False)
        counted = fitted_gram(self, X, sample_weight)
        classes, label, factors = self._labels(y, counted)
        check_same(self, count(X), classes)
        parts = multiclass.parts(label, len(factors), self.multiclass)
        problems = self._problems(counted.gram, parts, counted.weight * factors[label])
        return self._recomputed(X, counted, problems, parts)


class _Names(Sequence[str]):
    """What the problems are called, f's and those of each fold; made when asked for."""

    def __init__(self, classes: np.ndarray, scheme: str, n_problems: int, folds: int):
        self.classes, self.scheme = classes, scheme
        self.n_problems, self.folds = n_problems, folds

    @cached_property
    def names(self) -> list[str]:
        return multiclass.names(self.classes, self.scheme)

    def __len__(self) -> int:
        return self.n_problems * (1 + self.folds)

    def __getitem__(self, number: int) -> str:  # type: ignore[override]  # no slices
        fold, j = divmod(range(len(self))[number], self.n_problems)
        return self.in_fold(fold - 1, j) if fold else self.names[j]

    def in_fold(self, k: int, j: int) -> str:
        """The name of problem j in fold k."""
        return f"{self.names[j]}, fold {k + 1}".removeprefix(", ")


def _folds(label: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """The fold of each point, at random, every class spread evenly over the folds."""
    fold = np.empty(len(label), dtype=int)
    first = 0
    for k in range(label.max() + 1):
        members = random.permutation(np.flatnonzero(label == k))
        fold[members] = (first + np.arange(len(members))) % FOLDS
        first += len(members)
    return fold
