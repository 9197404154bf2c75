"""The three kinds of support vector machine: of classes, of numbers, of one class.

Each has its `fit`, what it says of new points and scikit-learn's attributes; a machine
adds its parameters and the problem it solves.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import (
    ClassifierMixin,
    MultiOutputMixin,
    OutlierMixin,
    RegressorMixin,
    _fit_context,
)
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer import calibration, multiclass
from mercer.data.points import Points, count, take
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.kernels.ways import Precomputed
from mercer.machines.base import WeightedGram
from mercer.machines.labels import (
    available_if,
    check_classes,
    check_columns,
    check_pairs,
    check_two,
    class_factors,
    classes_of,
)
from mercer.machines.support import (
    COMMON_CONSTRAINTS,
    FRACTION,
    SMALL,
    SupportVectorMachine,
)
from mercer.multiclass import Classes, PairExpansion, Pairs
from mercer.native import memory
from mercer.outcomes import Certificate, Certificates, iterations
from mercer.solvers.boxqp import BoxQP, certificate
from mercer.solvers.class_pairs import PairProblems
from mercer.solvers.smo import SMO, matrix_bytes

FOLDS = 5  # of the values that probabilities are fitted on


def _has_probabilities(machine) -> bool:
    if machine.probability in (False, "deprecated"):
        raise AttributeError(
            "predict_proba is not available when probability=False. Set "
            "probability=True before fit, which then takes five fits more."
        )
    return True


class Classifier(ClassifierMixin, SupportVectorMachine):
    """Two classes by the sign of f, several by two-class problems."""

    _parameter_constraints: ClassVar[dict] = {
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
    def _problem(self, gram: Gram, sign, weight) -> BoxQP:
        """The two-class problem; each point counts weight times."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Points, y, sample_weight=None) -> Self:
        """Learn f from the points X and their classes y; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : n classes, numbers or strings
        sample_weight : n numbers; weight 2 is the row twice, weight ≤ 0 no row
        """
        X, y = self._validated(X, y)
        check_classes(self, y)
        counted = self._weighted_gram(X, sample_weight)
        classes, label, factors = self._labels(y, counted)
        self._check_number(len(classes), len(label))
        parts = multiclass.parts(label, len(classes), self.multiclass)
        weight = counted.weight * factors[label]
        names = self._names(classes, len(parts))
        counted = self._shared(counted, len(names))
        with self._watched(names, X, y, sample_weight):
            coef, bias, found = self._solved_parts(counted, parts, weight)
            sigmoids = None
            if self._calibrates:
                sigmoids = self._sigmoids(counted, label, parts, factors, names)
            self.classes_, self.class_weight_ = classes, factors
            if len(parts) == 1:
                coef, bias = coef[:, 0], bias[0]
            # Grouped by class, in the order of X within a class, as LIBSVM has them.
            order = np.argsort(label, kind="stable")
            by_rival = isinstance(parts, Pairs) and parts.compact
            self._store(
                X, counted, order, coef, bias, found, label if by_rival else None
            )
            self._label = label[np.searchsorted(counted.index, self.support_)]
            self._sigmoid = np.zeros((2, 0)) if sigmoids is None else sigmoids
            self.n_iter_ = iterations(found)
        self._warn_unless_optimal(self._certificate)
        return self

    @property
    def _calibrates(self) -> bool:
        return self.probability is True or self.probability == 1

    def _names(self, classes, n_problems: int) -> _Names:
        """The problems as a reader knows them: those of f, then those of the folds."""
        folds = FOLDS if self._calibrates else 0
        return _Names(classes, self.multiclass, n_problems, folds)

    def _labels(self, y, counted: WeightedGram):
        """The classes, the class of each point by its number, and what each counts."""
        named, _ = classes_of(y)
        check_two(self, named)
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
        return classes, label.ravel(), factors

    # In LIBSVM's words
    _one_class: ClassVar[str] = (
        "Invalid input - all samples with positive weights belong to the same class."
    )

    def _check_weights(self, classes, counts, totals) -> None:
        """Refuse classes that weigh too little beside the others.

        Parameters
        ----------
        counts : the weight of each class by `sample_weight`
        totals : and by `class_weight` as well
        """

    @abstractmethod
    def _pair_problems(self, gram: Gram, members, pairs, weight) -> PairProblems:
        """The problems of pairs of classes, all at once."""

    @property
    def _pairs_apply(self) -> bool:
        """Whether `_pair_problems` has the problems at these parameters."""
        return True

    def _solved_parts(self, counted: WeightedGram, parts, weight):
        """A column of coef, a bias and a certificate for each two-class problem."""
        if self._in_one_call(counted.gram, parts):
            every = np.arange(len(parts))
            return self._solved_pairs(counted.gram, parts, weight, every)
        problems = self._problems(counted.gram, parts, weight)
        return self._columns(counted, problems, parts)

    def _in_one_call(self, gram: Gram, parts) -> bool:
        """Whether the core can take on all pairs of classes in one call."""
        if not isinstance(parts, Pairs) or self.solver is not None:
            return False
        if self._watcher is not None or not self._pairs_apply:
            return False
        if gram.kernel.native(gram.X) is None:
            there = gram.is_held or isinstance(gram.kernel, Precomputed)
            room = memory.room_to_keep() if there else matrix_bytes(self.cache_size)
            if 8.0 * gram.shape[0] ** 2 > room:
                return False
        return self._coefficients_before(gram.X, parts.width) is None

    def _solved_pairs(self, gram: Gram, parts: Pairs, weight, numbers):
        """coef, and the bias and certificate of each of these pairs of classes.

        Small ones are solved to rounding, unless they are very many.
        """
        coef, bias = np.zeros((len(weight), parts.width)), np.zeros(len(parts))
        found, trusted = Certificates.empty(len(parts)), np.zeros(len(parts), bool)
        solver = SMO(tol=self.tol, cache_mb=self.cache_size, max_iter=self.max_iter)
        members = [parts.members(c) for c in range(parts.n_classes)]
        small = (parts.totals <= SMALL) & (not parts.compact)
        for some in (numbers[~small[numbers]], numbers[small[numbers]]):
            if not len(some):
                continue
            problems = self._pair_problems(gram, members, parts.pairs[some], weight)
            solve = solver
            if small[some[0]]:
                largest = np.abs(problems.totals).max(initial=1.0)
                solve = self._to_rounding(solver, float(largest))
            for which, solved in solve.solve_pairs(problems):
                places = some[which]
                coef[parts.places(places)] = solved.coef
                bias[places], trusted[places] = solved.bias, solved.trusted
                if len(places) == len(parts):
                    found = solved.found
                else:
                    found.put(places, solved.found)
        about = found.columns
        trusted &= about["violation"] + about["rounding"] <= self.tol
        # Those that took all their steps are not solved again.
        spent = ~trusted & (about["iterations"] >= self.max_iter) & (self.max_iter >= 0)
        spent &= about["precision"] == "double"
        about["status"][spent] = "max_iter"
        trusted |= spent
        for j in numbers[~trusted[numbers]].tolist():
            # It takes more steps, or more digits, than all of them were given.
            [(problem, own)] = self._problems(gram, [parts[j]], weight)
            places = own, parts.column(j)
            start = problem.start(problem.inverse(coef[places], 0.0)[0])
            solution = self._solve(problem, start, precision="double")
            coef[places], bias[j] = problem.decision(solution)
            found.put(j, certificate(problem, solution))
        return coef, bias, found

    def _problems(
        self, gram: Gram, parts, weight
    ) -> Iterator[tuple[BoxQP, np.ndarray]]:
        """The two-class problems, each made when it is asked for."""
        for part in parts:
            own = gram if len(part.index) == gram.shape[0] else gram.take(part.index)
            yield self._problem(own, part.sign, weight[part.index]), part.index

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
        self, counted: WeightedGram, label, parts, factors, names
    ) -> np.ndarray:
        """A and B of every two-class problem, as rows, from values out of fold."""
        values = np.zeros((len(label), multiclass.width(parts)))
        fold = _folds(label, check_random_state(self.random_state))
        for k in range(FOLDS):
            inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            if len(outside):
                values[outside] = self._values_outside(
                    counted,
                    label,
                    factors,
                    inside,
                    outside,
                    partial(names.in_fold, k),
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
        self, counted: WeightedGram, label, factors, inside, outside, name
    ):
        """What machines fitted on the points inside say of those outside."""
        known, own = label[inside], label[outside]
        gram, weight = counted.gram.take(inside), counted.weight[inside]
        parts = multiclass.parts(known, len(factors), self.multiclass)
        coef, bias = self._fold(gram, parts, weight * factors[known], name)
        points = take(counted.gram.X, outside)
        if not (isinstance(parts, Pairs) and parts.compact):
            return gram.kernel.matmul(points, gram.X, coef) + bias
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
        return values

    def _fold(self, gram: Gram, parts, weight, name: Callable[[int], str]):
        """A column of coef and a bias for each problem, of which some lack a class."""
        if self._in_one_call(gram, parts):
            there = parts.sizes[parts.pairs] > 0
            both = there.all(axis=1)
            some = np.flatnonzero(both)
            coef, bias, _ = self._solved_pairs(gram, parts, weight, some)
            # A fold without one of the two classes predicts the other.
            bias[~both] = there[~both, 0] * 1.0 - there[~both, 1]
            return coef, bias
        coef = np.zeros((len(weight), multiclass.width(parts)))
        bias = np.zeros(len(parts))
        for j, part in enumerate(parts):
            if len(np.unique(part.sign)) < 2:
                # A fold without one of the two classes predicts the other.
                bias[j] = part.sign[0] if len(part.sign) else 0.0
                continue
            [(problem, members)] = self._problems(gram, [part], weight)
            solution = self._solve(problem, name=name(j))
            places = members, multiclass.column(parts, j)
            coef[places], bias[j] = problem.decision(solution)
        return coef, bias

    # Attributes

    def _dual_rows(self) -> np.ndarray:
        f, n_classes = self._of_pairs(), len(self.classes_)
        if f is not None:
            return f.coef.T
        coef = self.expansion_.coef
        if coef.ndim == 1 or self.multiclass == "ovr":
            return coef.reshape(len(coef), -1).T
        return multiclass.by_rival(coef, self._label, n_classes)

    @property
    def n_support_(self) -> np.ndarray:
        """How many support vectors each class has."""
        counts = np.bincount(self._label, minlength=len(self.classes_))
        return counts.astype(np.int32)

    def certify(self, X: Points, y, sample_weight=None) -> Certificate:
        """The certificate of f, recomputed in float64 from the training data alone.

        Parameters
        ----------
        X, y, sample_weight : as they were given to `fit`
        """
        check_is_fitted(self)
        X, y = self._validated(X, y, reset=False)
        counted = self._weighted_gram(X, sample_weight)
        _, label, factors = self._labels(y, counted)
        parts = multiclass.parts(label, len(factors), self.multiclass)
        problems = self._problems(counted.gram, parts, counted.weight * factors[label])
        return self._recomputed(X, counted, problems)


class _Names(Sequence):
    """What the problems are called, f's and those of each fold; made when asked for."""

    def __init__(self, classes, scheme: str, n_problems: int, folds: int):
        self.classes, self.scheme = classes, scheme
        self.n_problems, self.folds = n_problems, folds

    @cached_property
    def names(self) -> list[str]:
        return multiclass.names(self.classes, self.scheme)

    def __len__(self) -> int:
        return self.n_problems * (1 + self.folds)

    def __getitem__(self, number):
        fold, j = divmod(range(len(self))[number], self.n_problems)
        return self.in_fold(fold - 1, j) if fold else self.names[j]

    def in_fold(self, k: int, j: int) -> str:
        """The name of problem j in fold k."""
        return f"{self.names[j]}, fold {k + 1}".removeprefix(", ")


def _folds(label: np.ndarray, random) -> np.ndarray:
    """The fold of each point, at random, every class spread evenly over the folds."""
    fold = np.empty(len(label), dtype=int)
    first = 0
    for k in range(label.max() + 1):
        members = random.permutation(np.flatnonzero(label == k))
        fold[members] = (first + np.arange(len(members))) % FOLDS
        first += len(members)
    return fold


class Regressor(MultiOutputMixin, RegressorMixin, SupportVectorMachine):
    """f for each of the targets, within a tube around them."""

    @abstractmethod
    def _problem(self, gram: Gram, target, weight) -> BoxQP:
        """The problem for one target; each point counts weight times."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Points, y, sample_weight=None) -> Self:
        """Learn f from the points X and the targets y; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : (n,) array, or (n, q) for q targets
        sample_weight : n numbers; weight 2 is the row twice, weight ≤ 0 no row
        """
        X, y = self._validated(X, y, multi_output=True, y_numeric=True)
        y = _targets(y)
        n_targets = 1 if y.ndim == 1 else y.shape[1]
        counted = self._shared(self._weighted_gram(X, sample_weight), n_targets)
        problems = self._problems(y, counted)
        names = [""] if y.ndim == 1 else [f"output {j}" for j in range(n_targets)]
        with self._watched(names, X, y, sample_weight):
            coef, bias, found = self._columns(counted, problems, range(n_targets))
            if y.ndim == 1:
                coef, bias = coef[:, 0], bias[0]
            order = np.arange(len(counted.index))
            self._store(X, counted, order, coef, bias, found)
            steps = [part.run.iterations for part in found]
            self.n_iter_ = steps[0] if y.ndim == 1 else np.array(steps, dtype=np.int32)
        self._warn_unless_optimal(self._certificate)
        return self

    def _problems(self, y, counted: WeightedGram) -> Iterator[tuple[BoxQP, slice]]:
        targets = y[counted.index].reshape(len(counted.index), -1)
        for target in targets.T:
            yield self._problem(counted.gram, target, counted.weight), slice(None)

    def predict(self, X: Points) -> np.ndarray:
        """f at the m points of X: (m,), or (m, q) for q targets."""
        return self._values(X)

    def _dual_rows(self) -> np.ndarray:
        coef = self.expansion_.coef
        return coef.reshape(len(coef), -1).T if coef.size else np.zeros((1, 0))

    @property
    def n_support_(self) -> np.ndarray:
        """How many support vectors there are."""
        return np.array([len(self.support_)], dtype=np.int32)

    def certify(self, X: Points, y, sample_weight=None) -> Certificate:
        """The certificate of f, recomputed in float64 from the training data alone.

        Parameters
        ----------
        X, y, sample_weight : as they were given to `fit`
        """
        check_is_fitted(self)
        X, y = self._validated(X, y, reset=False, multi_output=True, y_numeric=True)
        counted = self._weighted_gram(X, sample_weight)
        return self._recomputed(X, counted, self._problems(_targets(y), counted))


def _targets(y: np.ndarray) -> np.ndarray:
    """Targets as float64; a single column is one target, and scikit-learn says so."""
    single = y.ndim == 1 or y.shape[1] == 1
    y = column_or_1d(y, warn=True) if single else y
    return y.astype(np.float64, copy=False)


class OneClass(OutlierMixin, SupportVectorMachine):
    """Where the points are: +1 there, -1 elsewhere."""

    _parameter_constraints: ClassVar[dict] = {**COMMON_CONSTRAINTS, "nu": FRACTION}

    nu: float
    offset_: Any

    @abstractmethod
    def _problem(self, gram: Gram, weight) -> BoxQP:
        """The problem; each point counts weight times."""

    @abstractmethod
    def _learn(self, X, counted: WeightedGram, coef, bias, found) -> None:
        """Set what was learnt."""

    @abstractmethod
    def _depth(self, X) -> np.ndarray:
        """How far inside checked points are."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Points, y=None, sample_weight=None) -> Self:
        """Learn where the points X are; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : ignored
        sample_weight : n numbers; weight 2 is the row twice, weight ≤ 0 no row
        """
        X = self._validated_points(X)
        counted = self._weighted_gram(X, sample_weight)
        problem = self._problem(counted.gram, counted.weight)
        with self._watched([""], X, None, sample_weight):
            coef, bias, found = self._columns(
                counted, [(problem, slice(None))], range(1)
            )
            self._learn(X, counted, coef[:, 0], bias[0], found)
            self.n_iter_ = found[0].run.iterations
        self._warn_unless_optimal(self._certificate)
        return self

    def _loosened(self, found, moved: float, weight) -> list[Certificate]:
        """The certificates, where the level was moved outwards by so much.

        A point's loss grows by at most its weight times that.
        """
        error = moved * float(np.sum(weight))
        return [one.loosened(error, self._tolerance) for one in found]

    def decision_function(self, X: Points) -> np.ndarray:
        """How far inside the m points of X are; negative outside."""
        check_is_fitted(self)
        return self._depth(self._validated_points(X, reset=False))

    def score_samples(self, X: Points) -> np.ndarray:
        """`decision_function` before `offset_` was taken off."""
        return self.decision_function(X) + self.offset_

    def predict(self, X: Points) -> np.ndarray:
        """+1 for the points inside, -1 for those outside."""
        return np.where(self.decision_function(X) > 0, 1, -1)

    def _dual_rows(self) -> np.ndarray:
        return self.expansion_.coef[None]

    @property
    def n_support_(self) -> np.ndarray:
        """How many support vectors there are."""
        return np.array([len(self.support_)], dtype=np.int32)
