"""Bounds know every machine: a row is right, or absent with its reason."""

import re
import warnings

import catalog
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import has_fit_parameter

from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.operators import Constant
from mercer.kernels.radial import RBF
from mercer.kernels.string import Subsequence
from mercer.kernels.vector import Linear, Polynomial
from mercer.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Quantile,
    Squared,
    SquaredHinge,
)
from mercer.machines.base import Machine
from mercer.machines.gp import GaussianProcessClassifier, GaussianProcessRegressor
from mercer.machines.neighbors import KernelKNNClassifier, KernelKNNRegressor
from mercer.machines.parzen import ParzenClassifier
from mercer.machines.perceptron import KernelPerceptron, Perceptron
from mercer.machines.regularized import RegularizedMachine
from mercer.machines.ridge import KernelRidge
from mercer.machines.sgd import KernelSGDClassifier, KernelSGDRegressor
from mercer.machines.sparse import SparseKernelClassifier
from mercer.machines.svm import SVC, SVR, NuSVC
from mercer.theory.assumptions import KINDS
from mercer.theory.formulas import (
    clipped_steepness,
    extremes,
    fitted_loss_bound,
    loss_bound,
    power_above,
    share,
)
from mercer.theory.table import ROWS, bounds

MORE = [
    Perceptron(max_iter=20, random_state=0),
    KernelPerceptron(variant="voted", max_iter=3, random_state=0),
    KernelPerceptron(fit_intercept=True, max_iter=1, shuffle=False),
    KernelSGDClassifier("hinge", budget=5, random_state=0, fit_intercept=True),
    ParzenClassifier(),
    RegularizedMachine(Hinge(), reg=0.05, fit_intercept=True),
    RegularizedMachine(Squared(), norm=1.5),
    SVC(fit_intercept=False),
    SVC(class_weight="balanced"),
    SVC(multiclass="ovr"),
    SVR(fit_intercept=False),
    KernelKNNClassifier(3, weights="distance"),
]
EVERY = [entry.values[0] for entry in catalog.machines + catalog.window_machines]
LEARNING = [m for m in EVERY + MORE if KINDS[type(m)].learns_targets]
# At a small nu the hulls of classes at random meet, and nothing is left of f.
LEARNING = [NuSVC(nu=0.45) if type(m) is NuSVC else m for m in LEARNING]
every_machine = looped("machine", EVERY + MORE, ids=str)


def points(seed=0, n=10):
    """Points with their sides, numbers and classes; two of them are the same."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    X[-1] = X[-2]
    sides = np.where(X[:, 0] + rng.normal(size=n) > 0, 1, -1)
    sides[:4] = 1, -1, 1, -1
    numbers = X[:, 0] ** 2 + X[:, 1]
    return X, {"sides": sides, "numbers": numbers, "three": np.arange(n) % 3}


def targets_of(machine):
    return ("sides", "three") if is_classifier(machine) else ("sides", "numbers")


def fitted(machine, X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(machine).fit(X, y, **options)


def with_kernel(machine, kernel):
    takes = "kernel" in machine.get_params()
    return clone(machine).set_params(kernel=kernel) if takes else clone(machine)


# Every machine


def test_every_machine_of_the_catalogue_is_known_by_its_class():
    assert all(type(machine) in KINDS for machine in EVERY)


@every_machine
@looped("kernel", [RBF(2.0), None], ids=str)
def test_every_row_is_there_or_says_why_not(machine, kernel):
    X, targets = points()
    machine = with_kernel(machine, kernel) if kernel is not None else machine
    for name in targets_of(machine):
        found = bounds(fitted(machine, X, targets[name]), X, targets[name], samples=2)
        rows, absent = {row.name for row in found}, dict(found.absent)
        assert set(ROWS) <= rows | absent.keys() and not rows & absent.keys()
        assert all(absent.values())
        assert all(np.isfinite(row.value) and row.assumptions for row in found)
        text = repr(found)
        assert all(name in text.replace("\n      ", " ") for name in ROWS)
        assert max(map(len, text.splitlines())) <= 112


@looped("kernel", [Sigmoid(1.0, -1.0), "precomputed"], ids=str)
@every_machine
def test_kernels_of_every_kind_have_their_table(machine, kernel):
    X, targets = points()
    if kernel == "precomputed":
        X = RBF(2.0)(X)
    y = targets[targets_of(machine)[0]]
    try:
        machine = fitted(with_kernel(machine, kernel), X, y)
    except ValueError as error:
        # Densities know few kernels, a norm and a process need a valid one, SVDD needs
        # k(x, x).
        known = "integral is known|has no norm|needs k|(semi)?definite"
        assert re.search(known, str(error))
        return
    found = bounds(machine, X, y, samples=2)
    assert set(ROWS) <= {row.name for row in found} | dict(found.absent).keys()
    takes = "kernel" in machine.get_params()
    if takes and kernel != "precomputed" and is_classifier(machine):
        assert {"margin bound", "loss bound"} <= dict(found.absent).keys()


def test_machines_without_targets_have_no_error_to_bound():
    X, _ = points()
    for machine in EVERY:
        if not KINDS[type(machine)].learns_targets:
            found = bounds(fitted(machine, X, None), X)
            assert len(found) == 0
            assert {reason for _, reason in found.absent} == {
                f"{type(machine).__name__} learns no targets, so there is no error to "
                "bound"
            }


def test_a_class_derived_from_a_machine_is_that_machine():
    class Mine(SVC):
        pass

    class Unknown(Machine):
        kernel = "linear"

        def fit(self, X, y=None):
            self.expansion_ = SVC(kernel="linear").fit(X, y).expansion_
            return self

    X, targets = points()
    y = targets["sides"]
    assert "span" in bounds(Mine(kernel=RBF(1.0), C=5.0).fit(X, y), X, y)
    absent = bounds(Unknown().fit(X, y), X, y).absent
    assert "does not know what a Unknown is" in dict(absent)["margin bound"]


def test_points_may_be_of_any_kind_and_classes_several():
    words = ["ab" * (k % 4) + "ba" * (k % 3) + "c" for k in range(12)]
    y = np.array(["x", "y", "z"])[np.arange(12) % 3]
    for machine in (SVC(), KernelKNNClassifier(2), ParzenClassifier(method="mean")):
        machine = with_kernel(machine, Subsequence(2, 0.5)).fit(words, y)
        found = bounds(machine, words, y, refit=True)
        assert_allclose(found["training error"].value, 1 - machine.score(words, y))
        assert "leave-one-out" in found
        assert "one f" in dict(found.absent)["margin bound"] or not hasattr(
            machine, "expansion_"
        )


def test_several_targets_have_errors_and_no_single_f():
    X, targets = points()
    Y = np.column_stack([targets["numbers"], X[:, 1]])
    for machine in (KernelRidge(0.5), SVR(), KernelKNNRegressor(2)):
        machine = machine.fit(X, Y)
        found = bounds(machine, X, Y, refit=True, test=(X[:3], Y[:3]))
        assert_allclose(
            found["training error"].value, np.mean((machine.predict(X) - Y) ** 2)
        )
        assert "leave-one-out" in found
        assert "margin bound" in dict(found.absent)


# Leaving one out


def by_refits(machine, X, y, weight=None):
    """The mean cost of each point to a machine fitted without it."""
    costs = []
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        options = {} if weight is None else {"sample_weight": weight[rest]}
        if weight is not None and weight[i] == 0:
            rest, options = slice(None), {"sample_weight": weight}
        again = fitted(machine, X[rest], y[rest], **options)
        if not is_classifier(machine):
            said = again.predict(X[i : i + 1])[0]
            two = np.all(np.abs(y) == 1)
            costs.append(y[i] * said <= 0 if two else (y[i] - said) ** 2)
        elif len(np.unique(y)) == 2 and hasattr(again, "decision_function"):
            value = again.decision_function(X[i : i + 1])[0]
            costs.append((1 if y[i] == again.classes_[1] else -1) * value <= 0)
        else:
            costs.append(again.predict(X[i : i + 1])[0] != y[i])
    return np.mean(costs)


@looped("machine", LEARNING, ids=str)
def test_leave_one_out_is_that_of_a_fit_without_each_point(machine):
    X, targets = points(3, 7 if type(machine) is not NuSVC else 10)
    machine = with_kernel(machine, RBF(2.0))
    for name in targets_of(machine):
        y = targets[name]
        found = bounds(fitted(machine, X, y), X, y, refit=True, samples=2)
        row = found["leave-one-out"]
        assert row.kind == "exact"
        assert_allclose(row.value, by_refits(machine, X, y), rtol=1e-4)


@looped(
    "machine",
    [machine for machine in LEARNING if has_fit_parameter(machine, "sample_weight")],
    ids=str,
)
def test_leave_one_out_takes_the_weights_of_the_fit(machine):
    X, targets = points(4)
    y, machine = targets["sides"], with_kernel(machine, RBF(2.0))
    weight = np.array([2.0, 1.0, 1.0, 3.0, 0.5, 1.0, 2.0, 1.0, 1.0, 1.0])
    after = fitted(machine, X, y, sample_weight=weight)
    found = bounds(after, X, y, refit=True, sample_weight=weight, samples=2)
    expected = by_refits(machine, X, y, weight)
    assert_allclose(found["leave-one-out"].value, expected, rtol=1e-4)


def takes_values(machine):
    """Whether kernel values can take the place of points.

    Windows are of points, and Gaussian processes need k(x, x) of new ones.
    """
    others = (ParzenClassifier, GaussianProcessRegressor, GaussianProcessClassifier)
    return "kernel" in machine.get_params() and not isinstance(machine, others)


@pytest.mark.parametrize("machine", list(filter(takes_values, LEARNING)), ids=str)
def test_kernel_values_are_left_out_as_points_are(machine):
    kernel = RBF(2.0)
    X, targets = points(9)
    options = machine.get_params()
    name = targets_of(machine)[-1]
    K, y = kernel(X), targets[name]
    after = fitted(with_kernel(machine, "precomputed"), K, y)
    row = bounds(after, K, y, refit=True, samples=2)["leave-one-out"]
    if options.get("shuffle"):  # the order comes from the points, here their numbers
        machine = clone(machine).set_params(kernel="precomputed")
        rest = [np.delete(np.arange(10), i) for i in range(10)]
        again = [fitted(machine, K[np.ix_(r, r)], y[r]) for r in rest]
        missed = [again[i].predict(K[i : i + 1, rest[i]])[0] != y[i] for i in range(10)]
        assert_allclose(row.value, np.mean(missed))
        return
    assert_allclose(row.value, by_refits(with_kernel(machine, kernel), X, y), rtol=1e-4)


def takes_linear(machine):
    """Whether it takes Linear(), which is no window of a density."""
    return not (isinstance(machine, ParzenClassifier) and machine.method == "density")


@looped("machine", list(filter(takes_linear, LEARNING)), ids=str)
def test_leave_one_out_holds_where_points_and_values_coincide(machine):
    rng = np.random.default_rng(12)
    X = rng.integers(-1, 2, size=(9, 2)) * 1.0
    machine, y = with_kernel(machine, Linear()), np.arange(9) % 2 * 2 - 1
    found = bounds(fitted(machine, X, y), X, y, refit=True, samples=2)
    if "leave-one-out" not in found:
        reason = dict(found.absent)["leave-one-out"]
        assert re.search("rounding|no inverse|gives another", reason), reason
        return
    row = found["leave-one-out"]
    if row.kind == "estimate":
        assert "without convergence" in row.assumptions
        return
    # What is 0 but for rounding counts as missed: between no and all of these.
    values = [
        y[i] * decided(fitted(machine, *(np.delete(a, i, axis=0) for a in (X, y))), x)
        for i, x in enumerate(X)
    ]
    least, most = (np.mean(np.array(values) <= bound) for bound in (-1e-6, 1e-6))
    assert least <= row.value <= most


def decided(machine, x):
    """f(x), or the class ±1 where there is no f."""
    says = getattr(machine, "decision_function", machine.predict)
    return float(np.ravel(says([x]))[0])


def in_batches(machine, X, y, batches, skip=None):
    after = clone(machine)
    options = {"classes": np.unique(y)} if is_classifier(machine) else {}
    for batch in batches:
        chosen = [i for i in batch if i != skip]
        after.partial_fit(X[chosen], y[chosen], **options)
    return after


@looped("passes", [1, 3])
@looped(
    "machine",
    [
        KernelSGDClassifier(kernel=RBF(1.0), shuffle=False),
        KernelSGDClassifier(kernel=Polynomial(2), shuffle=False, reg=0.01),
        KernelSGDClassifier(kernel=RBF(1.0), shuffle=False, budget=4),
        KernelSGDRegressor("huber", kernel=RBF(1.0), shuffle=False),
        KernelPerceptron(RBF(1.0), shuffle=False),
        KernelPerceptron(RBF(1.0), shuffle=False, variant="voted"),
        Perceptron(shuffle=False),
    ],
    ids=str,
)
def test_a_machine_fitted_in_batches_is_left_out_in_batches_or_not_at_all(
    machine, passes
):
    X, targets = points(13, 15)
    X[2] *= 4  # the largest k(x, x), by which steps are scaled
    y = targets["sides" if is_classifier(machine) else "numbers"]
    machine = clone(machine).set_params(max_iter=passes)
    for batches in ([range(15)], [range(6), range(6, 15)]):
        after = in_batches(machine, X, y, batches)
        found = bounds(after, X, y, refit=True, samples=2)
        if "leave-one-out" not in found:
            assert "several calls" in dict(found.absent)["leave-one-out"]
            continue
        assert passes == 1
        costs = []
        for i in range(15):
            f = decided(in_batches(machine, X, y, batches, skip=i), X[i])
            two = is_classifier(machine)
            costs.append(y[i] * f <= 0 if two else (y[i] - f) ** 2)
        assert_allclose(found["leave-one-out"].value, np.mean(costs))


def test_fits_that_end_early_give_an_estimate_and_rounding_gives_nothing():
    X, targets = points(14, 30)
    y = targets["sides"]
    machine = fitted(SVC(C=1e3, kernel=RBF(2.0), max_iter=3), X, y)
    row = bounds(machine, X, y, refit=True)["leave-one-out"]
    assert row.kind == "estimate" and "without convergence" in row.assumptions
    X = np.tile(X[:15], (2, 1))
    y = np.repeat([1, -1], 15)  # the same points on both sides
    machine = fitted(NuSVC(nu=0.3, kernel=Linear()), X, y)
    absent = dict(bounds(machine, X, y, refit=True).absent)
    assert "what is left of f is rounding" in absent["leave-one-out"]


@looped("kernel", [None, "rbf", RBF(), RBF(0.3)], ids=str)
def test_leave_one_out_keeps_the_kernel_and_says_so(kernel):
    X, targets = points(15)
    y = targets["numbers"]
    machine = KernelSGDRegressor("huber", kernel=kernel, shuffle=False).fit(X, y)
    row = bounds(machine, X, y, refit=True)["leave-one-out"]
    kept = clone(machine).set_params(kernel=machine.expansion_.kernel.left)
    assert_allclose(row.value, by_refits(kept, X, y))
    learnt = "it learnt from all points" in row.assumptions
    assert learnt == (kernel != RBF(0.3))


def test_points_of_no_weight_were_never_there():
    X, targets = points(5, 14)
    y, weight = targets["sides"], np.ones(14)
    weight[5:8] = 0
    for machine in (SVC(kernel=RBF(2.0)), KernelRidge(0.5, kernel=RBF(2.0))):
        after = machine.fit(X, y, weight)
        found = bounds(after, X, y, refit=True, sample_weight=weight)
        expected = by_refits(machine, X, y, weight)
        assert_allclose(found["leave-one-out"].value, expected)


def test_neighbours_at_equal_distances_are_judged_as_by_refits():
    X = np.array([[0, 0], [0, 2], [2, 0], [2, 2], [1, 1], [1, 1], [0, 2], [5, 1.0]])
    y = np.array([0, 1, 1, 0, 0, 1, 0, 1])
    for k in (1, 2, 3, 5):
        machine = KernelKNNClassifier(k, kernel=Linear())
        row = bounds(machine.fit(X, y), X, y)["leave-one-out"]
        assert row.value == by_refits(machine, X, y)
        machine = KernelKNNRegressor(k, kernel=Linear())
        row = bounds(machine.fit(X, y), X, y)["leave-one-out"]
        assert_allclose(row.value, by_refits(machine, X, y))


def test_an_l1_machine_is_no_svm_for_having_a_C_and_supports():
    X, targets = points(6, 30)
    y = targets["sides"]
    machine = SparseKernelClassifier(C=2.0, kernel=RBF(1.0)).fit(X, y)
    found = bounds(machine, X, y, refit=True)
    assert found["leave-one-out"].value == by_refits(machine, X, y)
    for name in ("support vectors", "xi-alpha", "span"):
        assert "which SparseKernelClassifier has not" in dict(found.absent)[name]


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 10**6),
    st.booleans(),
    st.sampled_from([0.05, 0.3, 3.0, 100.0]),
    st.sampled_from([RBF(0.5), RBF(5.0), Linear(), Polynomial(2)]),
    st.booleans(),
)
def test_bounds_on_leave_one_out_hold_with_weights_and_equal_points(
    seed, bias, C, kernel, weighted
):
    rng = np.random.default_rng(seed)
    X, targets = points(seed, 12)
    X = X.round(1)
    weight = rng.choice([0.5, 1.0, 3.0], size=12) if weighted else None
    machine = SVC(C=C, kernel=kernel, fit_intercept=bias)
    machine.fit(X, targets["sides"], weight)
    found = bounds(machine, X, targets["sides"], refit=True, sample_weight=weight)
    exact = found["leave-one-out"].value
    for name in ("support vectors", "xi-alpha"):
        if name in found and found[name].kind.startswith("bound"):
            assert found[name].value >= exact
    assert bias or "xi-alpha" in found


def test_xi_alpha_with_a_bias_can_be_too_low_and_is_an_estimate():
    # Without some points all others are at their bound, and the bias is left open.
    X = [[0.5, 0.1], [0.5, 0.3], [-0.2, 1.3], [-0.1, -0.5], [-1.7, -0.2],
         [-1.5, 0.8], [-0.8, -0.9], [-2.3, 0.3], [-0.3, 0.7]]  # fmt: skip
    X, y = np.array(X), np.array([1, -1, 1, -1, 1, -1, -1, -1, 1])
    machine = SVC(C=0.3, kernel=RBF(5.0)).fit(X, y)
    found = bounds(machine, X, y, refit=True)
    assert found["xi-alpha"].value < found["leave-one-out"].value
    assert found["xi-alpha"].kind == "estimate"
    assert found["support vectors"].value >= found["leave-one-out"].value


def test_balanced_classes_have_no_bound_by_support_vectors():
    X, targets = points(7, 15)
    y = targets["sides"]
    machine = SVC(kernel=RBF(1.0), class_weight="balanced").fit(X, y)
    found = bounds(machine, X, y, refit=True)
    assert found["leave-one-out"].value == by_refits(machine, X, y)
    assert "another C" in dict(found.absent)["support vectors"]


def test_data_that_are_not_those_of_the_fit_are_seen():
    X, targets = points(8, 20)
    y = targets["sides"]
    weight = np.linspace(0.1, 2, 20)
    for other in (
        (SVC(C=5.0, kernel=RBF(1.0)).fit(X, y, weight), X, y),
        (SVC(C=5.0, kernel=RBF(1.0)).fit(X, y), X, -y),
        (SVC(C=5.0, kernel=RBF(1.0)).fit(X, y), X + X[::-1], y),
    ):
        absent = dict(bounds(*other, refit=True).absent)
        for name in ("leave-one-out", "support vectors", "xi-alpha", "span"):
            assert "fitted on other points, targets or weights" in absent[name]
    ridge = KernelRidge(0.5).fit(X, y)
    assert "not those that" in dict(bounds(ridge, X, -y).absent)["leave-one-out"]
    nearest = KernelKNNClassifier(2).fit(X, y)
    assert "not those that" in dict(bounds(nearest, X, -y).absent)["leave-one-out"]


def test_what_cannot_be_left_out_is_said():
    X, targets = points()
    y = targets["sides"]
    nearest = KernelKNNClassifier(10).fit(X, y)
    absent = dict(bounds(nearest, X, y).absent)
    assert "n_neighbors=10 asks for more" in absent["leave-one-out"]
    random = fitted(KernelPerceptron(RBF(2.0), max_iter=2), X, y)
    absent = dict(bounds(random, X, y, refit=True).absent)
    assert "new random order" in absent["leave-one-out"]
    with pytest.raises(ValueError, match="takes no sample_weight"):
        bounds(nearest, X, y, sample_weight=np.ones(10))


# The bound for any Lipschitz loss


def test_loss_bound_is_its_formula():
    y, f = np.array([1.0, -1.0, 1.0, 1.0]), np.array([2.0, 1.0, 0.5, -9.0])
    found = loss_bound(Hinge(), y, f, 0.5, 3.0, 0.1, clip=4.0)
    assert_allclose(found.loss, (0 + 2 + 0.5 + 4) / 4)
    assert_allclose(found.complexity, 2 * 1 * 0.5 * 3 / 2)
    assert_allclose(found.confidence, 3 * 4 * np.sqrt(np.log(20) / 8))
    found = loss_bound(Squared(), y, f, 2.0, 3.0, 0.1, clip=np.inf, largest=4.0)
    assert (found.ceiling, found.steepness) == (100.0, 20.0)
    assert_allclose(found.loss, (1 + 4 + 0.25 + 100) / 4)


@looped(
    "loss",
    [Hinge(), SquaredHinge(), Logistic(), Squared(), EpsilonInsensitive(0.3),
     Huber(0.7), Quantile(0.2)],
    ids=str,
)  # fmt: skip
@looped("c", [0.3, 2.0, 50.0])
def test_no_slope_is_steeper_and_no_value_larger_than_said(loss, c):
    f = np.linspace(-12, 12, 4001)
    targets = [1.0, -1.0] if loss.of_sides else np.linspace(-2, 2, 9)
    most = clipped_steepness(loss, c)
    for y in targets:
        clipped = np.minimum(c, loss.value(y, f))
        assert np.abs(np.diff(clipped) / np.diff(f)).max() <= most * (1 + 1e-9)
    if np.isinf(loss.lipschitz):
        assert_allclose(most, 2 * np.sqrt(c), rtol=1e-9)
    steepness, ceiling = extremes(loss, 3.0, 2.0)
    inside = f[np.abs(f) <= 3]
    for y in targets:
        assert loss.value(y, inside).max() <= ceiling * (1 + 1e-12)
        assert np.abs(loss.slope(y, inside)).max() <= steepness * (1 + 1e-12)


def test_the_grid_is_walked_from_one_and_its_shares_sum_to_delta():
    powers = [0, 1, -1, 2, -2, 3, -3]
    shares = [share(power, 0.3) for power in powers]
    assert_allclose(shares, [0.3 / (k * (k + 1)) for k in range(1, 8)])
    assert [power_above(x) for x in (1.0, 1.01, 2.0, 0.5, 0.3, 0.0)] == [
        0, 1, 1, -1, -1, -64,
    ]  # fmt: skip


def test_a_fitted_norm_takes_the_best_of_the_grid_above_it():
    rng = np.random.default_rng(0)
    y, f = rng.choice([-1.0, 1.0], 50), rng.normal(size=50)
    found = fitted_loss_bound(Hinge(), y, f, 3.0, 1.0, 0.1, clip=4.0)
    assert found.norm == 4.0
    expected = loss_bound(Hinge(), y, f, 4.0, 1.0, share(2, 0.1), clip=4.0)
    assert_allclose(found, expected)
    assert fitted_loss_bound(Hinge(), y, f, 1e-5, 1.0, 0.1, clip=4.0).norm in (
        2.0**-p for p in range(17)
    )


def test_the_row_is_the_formula_of_the_machine():
    X, targets = points(0, 40)
    y = targets["numbers"]
    machine = KernelRidge(0.5, kernel=RBF(0.5)).fit(X, y)
    f = machine.expansion_
    B = 1.5 * f.norm()
    row = bounds(machine, X, y, 0.1, norm=B, clip=4.0)["loss bound"]
    expected = [
        np.mean(np.minimum(4, (y - machine.predict(X)) ** 2)),
        2 * 4 * B / np.sqrt(40),
        3 * 4 * np.sqrt(np.log(20) / 80),
    ]
    assert_allclose(row.parts, expected, rtol=1e-9)
    assert row.most == 4 and "Squared()" in row.assumptions
    whole = bounds(machine, X, y, 0.1, norm=B, clip=np.inf, largest=10.0)["loss bound"]
    assert_allclose(whole.most, (B + 10) ** 2)
    assert_allclose(whole.parts[1], 2 * 2 * (B + 10) * B / np.sqrt(40), rtol=1e-9)
    other = bounds(machine, X, y, loss=Huber(0.3))["loss bound"]
    assert "Huber(delta=0.3)" in other.assumptions


def test_a_bias_belongs_to_the_norm_of_the_loss_bound():
    X, targets = points(0, 40)
    y = targets["numbers"]
    machine = SVR(kernel=RBF(0.5), epsilon=0.2).fit(X, y)
    f = machine.expansion_
    row = bounds(machine, X, y, 0.1, clip=8.0)["loss bound"]
    norm = np.hypot(f.norm(), f.bias)
    loss = EpsilonInsensitive(0.2)
    expected = fitted_loss_bound(loss, y, f(X), norm, np.sqrt(2), 0.1, clip=8.0)
    assert_allclose(row.value, expected.value, rtol=1e-9)
    assert "RKHS of k + 1" in row.assumptions


def test_losses_and_ceilings_that_do_not_fit_are_refused_or_absent():
    X, targets = points(0, 20)
    y = targets["numbers"]
    machine = KernelRidge(0.5).fit(X, y)
    with pytest.raises(ValueError, match="a loss of classes"):
        bounds(machine, X, y, loss=Hinge())
    with pytest.raises(ValueError, match=r"beyond largest=0\.1"):
        bounds(machine, X, y, clip=np.inf, largest=0.1)
    with pytest.raises(ValueError, match="clip > 0"):
        bounds(machine, X, y, clip=-1.0)
    absent = dict(bounds(machine, X, y, clip=np.inf).absent)
    assert "pass what |y| is at most" in absent["loss bound"]
    parzen = ParzenClassifier(method="mean").fit(X, targets["sides"])
    assert (
        "minimises no loss"
        in dict(bounds(parzen, X, targets["sides"]).absent)["loss bound"]
    )
    assert "loss bound" in bounds(parzen, X, targets["sides"], loss=Logistic())


DRAWS = 60


@pytest.mark.parametrize("clip", [None, 1.0, np.inf])
@pytest.mark.parametrize(
    "machine",
    [
        KernelRidge(0.01, kernel=Linear()),
        SVR(kernel=Linear(), C=100.0, epsilon=0.05),
        SVC(C=100.0, kernel=Linear() + Constant(1.0)),
    ],
    ids=str,
)
def test_the_loss_bound_holds_as_often_as_it_promises(machine, clip):
    # Six coordinates of which nine points know little: what was fitted is luck.
    rng = np.random.default_rng(1)
    delta, m, d = 0.5, 9, 6
    classes = is_classifier(machine)
    new = rng.choice([-1.0, 1.0], size=(400, d)) / np.sqrt(d)
    y_new = rng.choice([-1.0, 1.0], size=400)
    violated = bare = 0
    for _ in range(DRAWS if clip is None else DRAWS // 4):
        X = rng.choice([-1.0, 1.0], size=(m, d)) / np.sqrt(d)
        y = rng.choice([-1.0, 1.0], size=m)
        y[:2] = 1, -1
        y = y if classes else y * rng.uniform(0.5, 1, size=m)
        after = fitted(machine, X, y)
        loss = KINDS[type(machine)].loss(machine)
        row = bounds(after, X, y, delta, clip=clip, largest=1.0, samples=2)[
            "loss bound"
        ]
        values = after.expansion_(new)
        truth = y_new if classes else y_new * rng.uniform(0.5, 1, size=400)
        risk = np.minimum(loss.value(truth, values), row.most).mean()
        violated += risk > row.value
        bare += risk > row.parts[0]
    assert violated == 0
    assert bare > 0  # the mean loss at the points learnt is no bound


def test_float32_points_do_not_lower_a_bound():
    rng = np.random.default_rng(2)
    X = (10 + rng.normal(size=(40, 3))).astype(np.float32)
    y = np.where(X[:, 0] > 10, 1, -1)
    machine = SVC(kernel=Polynomial(2), fit_intercept=False, C=1e-3).fit(X, y)
    found = bounds(machine, X, y)
    f = machine.expansion_
    K = Polynomial(2)(f.points.astype(float))
    norm = np.sqrt(f.coef @ K @ f.coef)
    row = found["loss bound"]
    values = Polynomial(2)(X.astype(float), f.points.astype(float)) @ f.coef
    radius = np.sqrt(Polynomial(2).diag(X.astype(float)).max())
    clip = row.most
    exact = fitted_loss_bound(
        Hinge(), y, values, norm, radius, share(power_above(clip), 0.05), clip=clip
    )
    assert row.value >= exact.value * (1 - 1e-15)
    assert_allclose(row.value, exact.value, rtol=1e-6)


def test_the_table_marks_what_says_nothing():
    X, targets = points(0, 20)
    y = targets["sides"]
    text = repr(bounds(SVC(kernel=RBF(0.5)).fit(X, y), X, y))
    lines = text.splitlines()
    assert lines[0] == "SVC on 20 points, δ = 0.05"
    assert any("margin bound" in line and "*" in line for line in lines)
    assert "says nothing" in text
    assert "absent: mistakes: it is about perceptrons" in text


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("removal", [None, "oldest", "smallest", "merge"])
@pytest.mark.parametrize("loss", ["huber", "squared"])
def test_leaving_out_points_of_a_budget_is_fitting_without_them(loss, removal, shuffle):
    random = np.random.default_rng(4)
    X = random.normal(size=(14, 2))
    y = X[:, 0] + random.normal(size=14)
    options = {"shuffle": shuffle, "random_state": 3, "max_iter": 2}
    if removal is not None:
        options |= {"budget": 5, "removal": removal}
    machine = KernelSGDRegressor(loss, **options).fit(X, y)
    # The kernel stays as it is: its scale was learnt from all points.
    again = KernelSGDRegressor(loss, kernel=RBF().resolve(X), **options)
    others = [np.delete(np.arange(14), i) for i in range(14)]
    found = [
        again.fit(X[rest], y[rest]).predict(X[[i]])[0] for i, rest in enumerate(others)
    ]
    row = bounds(machine, X, y, refit=True, samples=2)["leave-one-out"]
    assert row.value == pytest.approx(np.mean((y - found) ** 2), rel=1e-9)
