"""What machines predict for a point that was left out of their fit.

In closed form: KernelRidge, from the inverse of its matrix; nearest neighbours, which
judge a point by the others; ParzenClassifier(method="mean"), whose means lose a point.
All others by a fit for each point that matters. The kernel stays as it is, and a point
leaves with all of its weight; one of weight 0 was never there. Where fits end before
their optimum, what they say depends on rounding, and is an estimate.
"""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning

from mercer.data.points import Points, take
from mercer.kernels.base import row_blocks
from mercer.kernels.ways import Precomputed
from mercer.machines.neighbors import KernelKNNClassifier, NearestNeighbors
from mercer.machines.parzen import ParzenClassifier
from mercer.machines.perceptron import MistakeDriven, Perceptron
from mercer.machines.ridge import KernelRidge
from mercer.machines.sgd.base import KernelSGD
from mercer.machines.svm import SVC, SVR
from mercer.machines.svm.classifier import Classifier
from mercer.machines.svm.svr import Regressor
from mercer.native.sorting import distinct
from mercer.outcomes import Status
from mercer.theory.assumptions import Absent, Judged, first_sentence

UNFREE = "with a bias it needs a free support vector, 0 < αᵢ < C"
BALANCED = 'class_weight="balanced" gives every point another C when one of them leaves'
ZERO = 1e-11  # relative to what is added; solvers end no nearer to the optimum
SAME = 0.02  # relative; how far two fits of the same f, both to some tol, may differ
STEPS = 1e-9  # the same for machines that take the same steps whenever they are fitted


# Their f is where a given number of steps leads, and no optimum.
STEPWISE = (MistakeDriven, KernelSGD)


class LeftOut(NamedTuple):
    """The prediction for each point by the others, and how it was found."""

    predictions: np.ndarray
    how: str
    kind: str = "exact"


def left_out(judged: Judged, refit: bool) -> LeftOut:
    """What the machine predicts for each point without having seen it."""
    try:
        found = _left_out(judged, refit)
    except (ValueError, np.linalg.LinAlgError) as error:
        raise Absent(f"leaving points out fails: {first_sentence(error)}") from error
    if judged.mode == "sides" and judged.has_f:
        # The sign of what is 0 but for rounding differs from processor to processor.
        values = found.predictions
        values[np.abs(values) <= ZERO * _sums_of_others(judged)] = 0.0
    return found


def _sums_of_others(judged: Judged) -> np.ndarray:
    """Σⱼ |coefⱼ k(xⱼ, xᵢ)| over the points of f other than xᵢ, and |bias|."""
    f, sums = judged.f, np.zeros(judged.m)
    if not len(f.coef):
        return sums + abs(f.bias)
    for rows in row_blocks(judged.m, len(f.coef), 16.0):
        terms = np.abs(f.kernel(take(judged.points, rows), f.points) * f.coef)
        sums[rows] = terms.sum(axis=1) - terms.max(axis=1)
    return sums + abs(f.bias)


def _left_out(judged: Judged, refit: bool) -> LeftOut:
    machine = judged.machine
    if isinstance(machine, KernelRidge):
        return LeftOut(_of_ridge(judged), "from (K + αI)⁻¹")
    if isinstance(machine, NearestNeighbors):
        return LeftOut(_of_neighbours(judged), "each point judged by the others")
    if isinstance(machine, ParzenClassifier) and machine.method == "mean":
        return LeftOut(_of_means(judged), "the mean of its class without the point")
    if refit:
        return _refitted(judged)
    raise Absent("it takes a fit for each point that matters; pass refit=True")


def _check_same(judged: Judged, target: npt.ArrayLike) -> None:
    if not np.array_equal(np.asarray(target), judged.given.reshape(np.shape(target))):
        raise Absent(f"these targets are not those that {judged.name} was fitted on")


# In closed form


def _of_ridge(judged: Judged) -> np.ndarray:
    machine = judged.machine
    _check_same(judged, machine._problem.target)
    values = np.array(machine.loo_predictions_).reshape(judged.y.shape)
    if not np.isfinite(values).all():
        raise Absent("K + αI has no inverse to read it from; raise alpha")
    return values


def _of_neighbours(judged: Judged) -> np.ndarray:
    machine = judged.machine
    if isinstance(machine, KernelKNNClassifier):
        _check_same(judged, machine.classes_[machine._label])
    else:
        _check_same(judged, machine._target)
    return np.asarray(machine.predict(None)).reshape(judged.y.shape)


def _of_means(judged: Judged) -> np.ndarray:
    """⟨φ(xᵢ), μ⟩ - ½‖μ‖² for the mean μ of each class, that of xᵢ without it."""
    machine, f = judged.machine, judged.machine.expansion_
    if len(f.coef) != judged.m:
        raise Absent("points of weight 0 were left out by `fit`; leave them out here")
    two = f.coef.ndim == 1
    means = np.maximum([-f.coef, f.coef], 0).T if two else np.array(f.coef)
    label = np.argmax(means, axis=1)
    _check_same(judged, machine.classes_[label])
    gram = judged.gram if two else judged.gram_of(judged.base)
    inner, own = np.asarray(gram @ means), np.asarray(gram.diag(), dtype=float)
    squares = np.sum(means * inner, axis=0)
    score = inner - squares / 2
    place = np.arange(judged.m), label
    share = means[place]
    alone = share >= 1
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (inner[place] - share * own) / (1 - share)
        square = squares[label] - 2 * share * inner[place] + share**2 * own
        score[place] = mean - square / (1 - share) ** 2 / 2
    score[place[0][alone], label[alone]] = -np.inf  # no other point of its class
    if judged.mode == "classes":
        return machine.classes_[np.argmax(score, axis=1)]
    return score[:, 1] - score[:, 0]


# By fitting again


def _refitted(judged: Judged) -> LeftOut:
    """The prediction for each point by a machine fitted without it.

    A point of a class that has no other is missed.
    """
    machine, everything = judged.machine, np.arange(judged.m)
    _check_order(judged)
    again, points = _prepared(judged)
    matters = _places_that_matter(judged)
    predictions = np.array(judged.own)
    unsettled = 0

    def fitted(index: np.ndarray) -> bool:
        weight = judged.weight
        options = {} if weight is None else {"sample_weight": weight[index]}
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            again.fit(take(points, index), judged.given[index], **options)
        _check_told_apart(judged, again)
        return any(issubclass(one.category, ConvergenceWarning) for one in warned)

    fitted(everything)
    _check_reproducible(judged, again, judged.predicted(again, points))
    for i in matters:
        rest = np.delete(everything, i)
        if is_classifier(machine) and _classes_left(judged, rest) < 2:
            predictions[i] = (
                -judged.y[i] if judged.mode == "sides" else _other(judged, i)
            )
            continue
        unsettled += fitted(rest)
        predictions[i] = judged.predicted(again, take(points, np.array([i])))[0]
    how = "by fitting again"
    if unsettled:
        how += f", {unsettled} of {len(matters)} fits ending without convergence"
    early = unsettled and not isinstance(machine, STEPWISE)
    return LeftOut(predictions, how, "estimate" if early else "exact")


def _check_told_apart(judged: Judged, machine: object) -> None:
    """Refuse an f that is nothing but rounding."""
    run = getattr(machine, "run_", None)
    if run is not None and run.status == Status.FLAT:
        raise Absent(
            f"{judged.name} does not tell the classes apart, with all points or "
            "without one: what is left of f is rounding"
        )


def _check_order(judged: Judged) -> None:
    """Refuse machines whose fits are random."""
    machine = judged.machine
    ordered = isinstance(machine, STEPWISE)
    if ordered and machine.shuffle and not isinstance(machine.random_state, Integral):
        raise Absent(
            "every fit takes the points in a new random order; set random_state to a "
            "number, or shuffle=False"
        )


def _prepared(judged: Judged) -> tuple[Any, Points]:
    """A machine to be fitted again with the kernel as it is, and its points."""
    machine = judged.machine
    known = machine.get_params(deep=False)
    changed = {"verbose": False, "callback": None, "warm_start": False}
    changed["probability"] = False
    options = {name: value for name, value in changed.items() if name in known}
    again = clone(machine).set_params(**options)
    if isinstance(machine, Perceptron):
        return again, judged.X
    if isinstance(machine, ParzenClassifier):
        return again.set_params(kernel=machine.kernel_, bandwidth=None), judged.X
    assert judged.kind is not None
    if judged.kind.by_points(machine) and not machine._precomputed:
        return again.set_params(kernel=judged.base), judged.X
    K = np.asarray(judged.gram_of(judged.base).dense(), dtype=float)
    values = Precomputed(K, judged.base.psd)
    return again.set_params(kernel=values), np.arange(judged.m)


def _places_that_matter(judged: Judged) -> np.ndarray:
    """The points without which f would be another: all, or the support vectors."""
    machine = judged.machine
    try:
        if isinstance(machine, SVC | SVR) and judged.base.psd:
            check_support(judged)
            return distinct(np.append(machine.support_, np.flatnonzero(alone(judged))))
    except Absent:
        pass
    present = np.ones(judged.m) if judged.weight is None else judged.weight
    return np.flatnonzero(present > 0)


def check_support(judged: Judged) -> float:
    """Raise `Absent` unless f stays the optimum when a point with αᵢ = 0 leaves.

    Returns the gap: how far from optimal f is at most on the points as they are given.
    """
    machine, name = judged.machine, judged.name
    judged.check_f()
    assert isinstance(machine, Classifier | Regressor)
    if getattr(machine, "class_weight", None) == "balanced":
        raise Absent(BALANCED)
    if judged.base.psd is False:
        raise Absent(f"{judged.base!r} is indefinite: f is stationary at best")
    found = machine.certify(judged.X, judged.given, judged.weight)
    if not (found.violation <= 2 * machine._tolerance and np.isfinite(found.gap)):
        raise Absent(
            f"f is not optimal on these points (violation {found.violation:.2g}, tol "
            f"{machine._tolerance:g}): {name} stopped early, or was fitted on other "
            "points, targets or weights"
        )
    if judged.biased and found.n_free == 0:
        raise Absent(UNFREE)
    return max(0.0, float(found.gap))


def _check_reproducible(judged: Judged, again: Any, predictions: np.ndarray) -> None:
    """Raise `Absent` unless a fit on all points gives the machine itself."""
    machine = judged.machine
    before = judged.predicted(machine, judged.X)
    if judged.mode == "classes":
        same = np.mean(predictions != before) <= 0.01
    else:
        most = float(np.abs(before).max(initial=0))
        share = STEPS if isinstance(machine, STEPWISE) else SAME
        most = max(share * most, ZERO * judged.scale)
        same = np.abs(predictions - before).max(initial=0) <= most
    if isinstance(machine, KernelSGD):
        # Batches choose their own rates, also where these happen to be those of `fit`.
        same = same and (machine.t_, machine.n_iter_) == (again.t_, again.n_iter_)
    if not same:
        raise Absent(
            f"a fit on these points gives another {judged.name}: it was fitted on "
            "other points, targets or weights, or in several calls"
        )


def alone(judged: Judged) -> np.ndarray:
    """Which points are the only ones of their class: no machine knows it without."""
    if not is_classifier(judged.machine):
        return np.zeros(judged.m, dtype=bool)
    there = np.ones(judged.m) if judged.weight is None else judged.weight > 0
    label = np.unique(judged.given, return_inverse=True)[1]
    return (np.bincount(label.ravel(), there)[label.ravel()] == 1) & (there > 0)


def _classes_left(judged: Judged, rest: np.ndarray) -> int:
    if judged.weight is not None:
        rest = rest[judged.weight[rest] > 0]
    return len(distinct(judged.given[rest]))


def _other(judged: Judged, i: int) -> Any:
    """A class that is not that of point i."""
    classes = judged.machine.classes_
    return classes[classes != judged.given[i]][0]
