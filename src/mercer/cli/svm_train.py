"""svm-train: machines by LIBSVM's options, from problems and solvers, in its words.

Folds are drawn as LIBSVM's are by the C library of GNU, so that cross validation judges
the same folds.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.calibration import platt
from mercer.cli.options import Refused, TrainOptions
from mercer.cli.svm_data import Data, data_of, largest_index, read_file
from mercer.cli.svm_text import regression_scores
from mercer.data.points import take
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.io.libsvm import (
    KERNEL_TYPES,
    MARKS,
    SVM_TYPES,
    LibsvmModel,
    write_libsvm_model,
)
from mercer.multiclass import PairExpansion
from mercer.native.sorting import distinct
from mercer.outcomes import Solution, Status
from mercer.solvers.auto import AutoSMO
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.class_pairs import PairSolutions, nu_svc_pairs, svc_pairs
from mercer.solvers.programs import nu_svc, nu_svr, one_class, svc, svr

FOLDS = 5  # of the values that probabilities are fitted to
Say = Callable[[str], Any]


def run(options: TrainOptions) -> int:
    """Fit and write a machine, or judge it by cross validation."""
    data = prepared(options)
    say: Say = _nothing if options.quiet else sys.stdout.write
    random = Random()
    if options.folds:
        sys.stdout.write(judged(data, options, random, say))
        return 0
    model = trained(data, options, random, say).model(data, options)
    try:
        write_libsvm_model(model, options.model_file)
    except OSError as error:
        raise Refused(f"can't save model to file {options.model_file}") from error
    return 0


def _nothing(text: str) -> None:
    pass


def prepared(options: TrainOptions) -> Data:
    """The points of the file, and the options checked against them."""
    X, y = read_file(options.data_file)
    if options.gamma == 0 and largest_index(X):
        options.gamma = 1.0 / largest_index(X)
    why = options.reason_to_refuse()
    if why is None and options.svm_type == 1 and not _is_feasible(y, options.nu):
        why = "specified nu is infeasible"
    if why is not None:
        raise Refused(f"ERROR: {why}")
    if options.svm_type in (0, 1) and np.abs(y).max() >= 2**31:
        raise Refused("ERROR: the label of a class needs more than 32 bits")
    for number in (options.C, options.gamma, options.coef0, options.p, options.eps):
        if not math.isfinite(number):
            raise Refused(f"ERROR: {number} is not a finite number")
    return data_of(X, y, options)


def _is_feasible(y: np.ndarray, nu: float) -> bool:
    """Whether each class of a pair can bear its half of ν times their points."""
    sizes = [len(members) for members in grouped(y)[1]]
    return all(
        nu * (one + other) / 2 <= min(one, other)
        for i, one in enumerate(sizes)
        for other in sizes[i + 1 :]
    )


def grouped(y: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The classes as they first come up, and the points of each; +1 comes before -1.

    A label counts without its fraction, as in LIBSVM.
    """
    whole = np.trunc(y).astype(np.int64)
    labels, first, own = np.unique(whole, return_index=True, return_inverse=True)
    order = np.argsort(first)
    if labels[order].tolist() == [-1, 1]:
        order = order[::-1]
    return labels[order], [np.flatnonzero(own == c) for c in order]


class Random:
    """rand() of the GNU C library, whose folds LIBSVM uses; its seed is 1."""

    def __init__(self) -> None:
        state = [1]
        for _ in range(30):
            state.append(16807 * state[-1] % 2147483647)
        state = state[:31]
        self.state = deque(state, maxlen=31)
        for number in list(state[:3]):
            self.state.append(number)
        for _ in range(310):
            self()

    def __call__(self) -> int:
        """The next number, below 2³¹."""
        number = (self.state[0] + self.state[-3]) & 0xFFFFFFFF
        self.state.append(number)
        return number >> 1

    def shuffled(self, items: np.ndarray) -> np.ndarray:
        """The items in another order."""
        order, n = items.tolist(), len(items)
        for i in range(n):
            j = i + self() % (n - i)
            order[i], order[j] = order[j], order[i]
        return np.array(order, dtype=np.int64)


# What is fitted


@dataclass(frozen=True, eq=False)
class Fit:
    """f on some of the points, in the parts of a `LibsvmModel`.

    Parameters
    ----------
    support : which points have coefficients, sorted by class
    coef, rho, label, n_support, probA, probB, marks : as of `LibsvmModel`
    """

    support: np.ndarray
    coef: np.ndarray
    rho: np.ndarray
    label: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    n_support: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    probA: np.ndarray = field(default_factory=lambda: np.empty(0))
    probB: np.ndarray = field(default_factory=lambda: np.empty(0))
    marks: np.ndarray = field(default_factory=lambda: np.empty(0))

    def model(self, data: Data, options: TrainOptions) -> LibsvmModel:
        """The same with its points."""
        precomputed = options.kernel_type == 4
        vectors = sp.csr_array((0, 0)) if precomputed else data.X[self.support]
        none = np.empty(0, dtype=np.int64)
        return LibsvmModel(
            SVM_TYPES[options.svm_type],
            KERNEL_TYPES[options.kernel_type],
            self.rho,
            self.coef,
            vectors,
            options.degree,
            options.gamma,
            options.coef0,
            data.serial[self.support] if precomputed else none,
            self.label,
            self.n_support,
            self.probA,
            self.probB,
            self.marks,
        )

    def values(self, gram: Gram, X: Any) -> np.ndarray:
        """f at m points, (m,) or (m, k(k - 1)/2); `gram` is of those it was fitted to.

        As quick as the kernel is, and not with LIBSVM's roundings.
        """
        points = take(gram.X, self.support)
        if len(self.label) < 3:
            f = Expansion(gram.kernel, points, self.coef[0], -float(self.rho[0]))
            return f(X)
        return self._pairs(gram, points)(X)

    def _pairs(self, gram: Gram, points: Any) -> PairExpansion:
        own = np.repeat(np.arange(len(self.label)), self.n_support)
        coef = np.ascontiguousarray(self.coef.T)
        return PairExpansion(gram.kernel, points, own, coef, -self.rho)

    def predicted(self, gram: Gram, X: Any, options: TrainOptions) -> np.ndarray:
        """What LIBSVM predicts from f: a class, ±1, or f itself, (m,)."""
        if len(self.label) == 1:
            return (
                np.full(len(X) if isinstance(X, np.ndarray) else X.shape[0], 1.0)
                * (self.label[0])
            )
        if options.probability and self.label.size:
            return self._likeliest(self.values(gram, X))
        if len(self.label) > 2:
            votes = self._pairs(gram, take(gram.X, self.support)).votes(X)
            return self.label[np.argmax(votes, axis=1)].astype(float)
        values = self.values(gram, X)
        if options.svm_type > 2:
            return values
        first, second = self.label if self.label.size else (1, -1)
        return np.where(values > 0, float(first), float(second))

    def _likeliest(self, values: np.ndarray) -> np.ndarray:
        model = LibsvmModel(
            "c_svc",
            "linear",
            self.rho,
            self.coef,
            sp.csr_array((0, 0)),
            label=self.label,
            probA=self.probA,
            probB=self.probB,
        )
        p, _ = model.probabilities(values.reshape(len(values), -1))
        return self.label[np.argmax(p, axis=1)].astype(float)


def trained(data: Data, options: TrainOptions, random: Random, say: Say) -> Fit:
    """The machine of these options on these points."""
    if options.svm_type in (0, 1):
        return _classifier(data, options, random, say)
    problem = _single_problem(data, options)
    solution = AutoSMO(options.eps, options.cache_mb).solve(problem)
    _report(problem, solution, options, say)
    coef, bias = problem.decision(solution)
    support = np.flatnonzero(coef)
    fit = Fit(support, coef[None, support], np.array([-bias]))
    if not options.probability:
        return fit
    if options.svm_type == 2:
        return replace(fit, marks=_marks(fit, data, options))
    scale = _laplace_scale(data, options, random, say)
    return replace(fit, probA=np.array([scale]))


def _single_problem(data: Data, options: TrainOptions) -> BoxQP:
    if options.svm_type == 2:
        return one_class(data.gram, options.nu)
    if options.svm_type == 3:
        return svr(data.gram, data.y, options.C, options.p)
    return nu_svr(data.gram, data.y, options.C, options.nu)


def _classifier(data: Data, options: TrainOptions, random: Random, say: Say) -> Fit:
    labels, members = grouped(data.y)
    k, n = len(labels), len(data)
    if k == 1:
        say(
            "WARNING: all points are of one class: the model says so of every point.\n"
            "Total nSV = 0\n"
        )
        return Fit(
            np.empty(0, dtype=np.int64),
            np.empty((0, 0)),
            np.empty(0),
            labels,
            np.zeros(1, dtype=np.int64),
        )
    price = _prices(labels, options)
    pairs = np.column_stack(np.triu_indices(k, 1))
    coef, rho = np.zeros((n, k - 1)), np.empty(len(pairs))
    A, B = np.empty((2, len(pairs) if options.probability else 0))
    solutions = _solutions(data.gram, members, pairs, price, options)
    for number, ((i, j), (problem, solution)) in enumerate(
        zip(pairs.tolist(), solutions, strict=True)
    ):
        own = np.concatenate([members[i], members[j]])
        if options.probability:
            sizes = len(members[i]), len(members[j])
            A[number], B[number] = _sigmoid(
                data.gram.take(own), sizes, price[[i, j]], options, random, say
            )
        _report(problem, solution, options, say)
        beta, bias = problem.decision(solution)
        coef[own, np.repeat([j - 1, i], [len(members[i]), len(members[j])])] = beta
        rho[number] = -bias
    order = np.concatenate(members)
    used = np.asarray(coef.any(axis=1))
    support = order[used[order]]
    say(f"Total nSV = {len(support)}\n")
    counts = np.array([np.count_nonzero(used[some]) for some in members])
    return Fit(
        support,
        np.ascontiguousarray(coef[support].T),
        rho,
        labels,
        counts,
        A,
        B,
    )


def _prices(labels: np.ndarray, options: TrainOptions) -> np.ndarray:
    """C of each class."""
    price = np.full(len(labels), options.C)
    for label, weight in options.weights:
        if label not in labels:
            sys.stderr.write(
                f"WARNING: class label {label} specified in weight is not found\n"
            )
        price[labels == label] *= weight
    if options.svm_type == 0 and not (np.isfinite(price).all() and (price > 0).all()):
        raise Refused("ERROR: C times the weight of a class is not positive and finite")
    return price


def _solutions(
    gram: Gram,
    members: Sequence[np.ndarray],
    pairs: np.ndarray,
    price: np.ndarray,
    options: TrainOptions,
) -> Any:
    """Each pair's problem, on the points of one class after those of the other."""
    solver = AutoSMO(options.eps, options.cache_mb)
    if len(members) == 2:
        sizes = len(members[0]), len(members[1])
        together = gram.take(np.concatenate(members))
        problem = _two_classes(together, sizes, price, options)
        return [(problem, solver.solve(problem))]
    if options.svm_type == 1:
        weight = np.ones(gram.shape[0])
        problems = nu_svc_pairs(gram, members, pairs, options.nu, weight)
    else:
        upper = np.empty(gram.shape[0])
        for one, some in zip(price, members, strict=True):
            upper[some] = one
        problems = svc_pairs(gram, members, pairs, upper)
    found = solver.solve_many(problems)
    if isinstance(found, PairSolutions):
        return ((problems[j], found[j]) for j in range(len(problems)))
    return found


def _two_classes(
    gram: Gram, sizes: tuple[int, int], price: np.ndarray, options: TrainOptions
) -> BoxQP:
    """The problem of two classes; the points of the first come first."""
    sign = np.repeat([1.0, -1.0], sizes)
    if options.svm_type == 1:
        return nu_svc(gram, sign, options.nu)
    return svc(gram, sign, np.repeat(price, sizes))


def _report(
    problem: BoxQP, solution: Solution, options: TrainOptions, say: Say
) -> None:
    """What LIBSVM prints of a solution."""
    if solution.status in (Status.MAX_ITER, Status.TIME_LIMIT):
        sys.stderr.write("\nWARNING: reaching max number of iterations\n")
    value, n = solution.value, problem.gram.shape[0]
    coef, bias = problem.decision(solution)
    lines = f"*\noptimization finished, #iter = {solution.run.iterations}\n"
    prices = distinct(problem.upper)
    if options.svm_type == 0 and len(prices) == 1:
        lines += f"nu = {value.sum() / (prices[0] * n):f}\n"
    elif options.svm_type == 1:
        lines += f"C = {1 / problem.unscaling(coef):f}\n"
    elif options.svm_type == 3:
        lines += f"nu = {np.abs(value).sum() / (options.C * n):f}\n"
    elif options.svm_type == 4:
        level = solution.level
        lines += f"epsilon = {(level[1] - level[0]) / 2:f}\n"
    lines += f"obj = {_objective(problem, solution):f}, rho = {-bias:f}\n"
    bound = np.maximum(np.abs(problem.lower), np.abs(problem.upper))
    at_bound = problem.coef(np.where(np.abs(value) >= bound, value, 0.0))
    support = np.count_nonzero(coef)
    lines += f"nSV = {support}, nBSV = {np.count_nonzero(at_bound * coef)}\n"
    say(lines)


def _objective(problem: BoxQP, solution: Solution) -> float:
    """½ αᵀQα + linearᵀα + Σ tube|α|; of unit margins with α as it is scaled."""
    value, coef = solution.value, problem.coef(solution.value)
    function = solution.function
    if function is None:
        function = problem.gram @ coef
    found = float(coef @ function) / 2 + float(problem.linear @ value)
    if problem.tube is not None:
        found += float(problem.tube @ np.abs(value))
    scaled, _ = problem.decision(solution)
    return found / problem.unscaling(scaled) ** 2


# Probabilities


def _sigmoid(
    gram: Gram,
    sizes: tuple[int, int],
    price: np.ndarray,
    options: TrainOptions,
    random: Random,
    say: Say,
) -> tuple[float, float]:
    """A and B of two classes, from values at points that f was not fitted to."""
    n = sum(sizes)
    sign = np.repeat([1.0, -1.0], sizes)
    order, values = random.shuffled(np.arange(n)), np.empty(n)
    plain = replace(options, probability=0, C=1.0)
    for fold in range(FOLDS):
        begin, end = fold * n // FOLDS, (fold + 1) * n // FOLDS
        outside = order[begin:end]
        inside = np.concatenate([order[:begin], order[end:]])
        first, second = inside[sign[inside] > 0], inside[sign[inside] < 0]
        if not (len(first) and len(second)):
            values[outside] = float(len(first) > 0) - float(len(second) > 0)
            continue
        part = gram.take(np.concatenate([first, second]))
        problem = _two_classes(part, (len(first), len(second)), price, plain)
        solution = AutoSMO(options.eps, options.cache_mb).solve(problem)
        _report(problem, solution, plain, say)
        coef, bias = problem.decision(solution)
        used = np.flatnonzero(coef)
        say(f"Total nSV = {len(used)}\n")
        f = Expansion(gram.kernel, take(part.X, used), coef[used], bias)
        values[outside] = f(take(gram.X, outside))
    return platt(values, sign)


def _marks(fit: Fit, data: Data, options: TrainOptions) -> np.ndarray:
    """Between which values of f the probability of a normal point grows by a tenth.

    The values at the points are cut into five parts of equally many below 0, and five
    above.
    """
    values = fit.model(data, options).values(data.X)[:, 0]
    # f is 0 at free support vectors; on which side of it they are is rounding.
    values = np.sort(np.where(np.abs(values) <= options.eps, 0.0, values))
    below = int(np.searchsorted(values, 0.0))
    below = 0 if below == len(values) else below  # as LIBSVM counts, with none above
    half, above = MARKS // 2, len(values) - below
    if below < half or above < half:
        sys.stderr.write(
            f"WARNING: number of positive or negative decision values <{half}; too few "
            "to do a probability estimation.\n"
        )
        return np.empty(0)
    lower = values[np.arange(half) * below // half]
    upper = values[below - 1 + np.arange(1, half + 1) * above // half]
    cuts = np.concatenate([lower, [0.0], upper])
    return (cuts[:-1] + cuts[1:]) / 2


def _laplace_scale(
    data: Data, options: TrainOptions, random: Random, say: Say
) -> float:
    """The mean absolute error out of fold, without those beyond five deviations."""
    plain = replace(options, probability=0)
    error = np.abs(data.y - cross_validated(data, plain, FOLDS, random, say))
    deviation = math.sqrt(2) * error.mean()
    scale = float(error[error <= 5 * deviation].mean())
    say(
        "Prob. model for test data: target value = predicted value + z,\n"
        f"z: Laplace distribution e^(-|z|/sigma)/(2sigma),sigma= {scale:g}\n"
    )
    return scale


# Cross validation


def folds_of(
    y: np.ndarray, n_folds: int, by_class: bool, random: Random
) -> list[np.ndarray]:
    """The points of each fold, drawn as LIBSVM draws them."""
    n = len(y)
    if n_folds > n:
        sys.stderr.write(
            f"WARNING: # folds ({n_folds}) > # data ({n}). Will use # folds = # data "
            "instead (i.e., leave-one-out cross validation)\n"
        )
        n_folds = n
    groups = [np.arange(n)]
    if by_class and n_folds < n:
        groups = grouped(y)[1]
    groups = [random.shuffled(group) for group in groups]
    return [
        np.concatenate(
            [
                group[fold * len(group) // n_folds : (fold + 1) * len(group) // n_folds]
                for group in groups
            ]
        )
        for fold in range(n_folds)
    ]


def cross_validated(
    data: Data, options: TrainOptions, n_folds: int, random: Random, say: Say
) -> np.ndarray:
    """What is predicted of each point by a machine that was not fitted to it."""
    folds = folds_of(data.y, n_folds, options.svm_type in (0, 1), random)
    predicted = np.empty(len(data))
    for fold, outside in enumerate(folds):
        inside = np.concatenate(
            [np.empty(0, dtype=np.int64), *folds[:fold], *folds[fold + 1 :]]
        )
        part = data.take(inside)
        fit = trained(part, options, random, say)
        points = take(data.gram.X, outside)
        predicted[outside] = fit.predicted(part.gram, points, options)
    return predicted


def judged(data: Data, options: TrainOptions, random: Random, say: Say) -> str:
    """What LIBSVM prints of a cross validation."""
    predicted = cross_validated(data, options, options.folds, random, say)
    if options.svm_type < 3:
        share = 100.0 * np.count_nonzero(predicted == data.y) / len(data)
        return f"Cross Validation Accuracy = {share:g}%\n"
    error, correlation = regression_scores(predicted, data.y)
    return (
        f"Cross Validation Mean squared error = {error}\n"
        f"Cross Validation Squared correlation coefficient = {correlation}\n"
    )
