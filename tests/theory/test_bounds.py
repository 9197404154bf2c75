"""Bounds hold as often as they promise, and are the numbers of their formulas."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import binom
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer.gram import Gram
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.operators import Constant
from mercer.kernels.radial import RBF
from mercer.kernels.string import Subsequence
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import Precomputed
from mercer.machines.perceptron import KernelPerceptron
from mercer.machines.ridge import KernelRidge
from mercer.machines.sgd import KernelSGDClassifier
from mercer.machines.svm import SVC, SVR, NuSVC, OneClassSVM
from mercer.solvers.coordinate import CoordinateAscent
from mercer.theory import mistake_bound
from mercer.theory.formulas import (
    fitted_margin_bound,
    margin_bound,
    rademacher,
    spans,
    spread,
    xi_alpha,
)
from mercer.theory.table import bounds


def data(n=60, d=2, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + noise * rng.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    return X, y


# Rademacher complexity


@pytest.mark.parametrize("B", [1.0, 3.5])
def test_orthonormal_points_attain_the_complexity_bound(B):
    found = rademacher(Gram(Linear(), np.eye(25)), B)
    assert_allclose(found.value, B / 5, rtol=1e-12)
    assert_allclose(found.bound, B / 5, rtol=1e-12)
    assert found.error < 1e-12


def test_complexity_is_the_mean_over_all_signs_of_the_best_function_of_the_ball():
    X = np.random.default_rng(0).normal(size=(8, 3))
    # The best unit vector w for signs σ follows Σ σᵢ xᵢ.
    best = []
    for signs in product([-1.0, 1.0], repeat=8):
        w = X.T @ signs / np.linalg.norm(X.T @ signs)
        best.append(2.0 * np.mean(signs * (X @ w)))
    found = rademacher(Gram(Linear(), X), 2.0, samples=2000)
    assert abs(found.value - np.mean(best)) < 5 * found.error
    assert found.value < found.bound
    assert_allclose(found.bound, 2 / 8 * np.sqrt((X**2).sum()), rtol=1e-12)


def test_equal_points_are_worth_one_walk():
    m = 40
    found = rademacher(Gram(RBF(1.0), np.ones((m, 2))), samples=4000)
    steps = np.arange(m + 1)
    walk = np.sum(binom.pmf(steps, m, 0.5) * np.abs(2 * steps - m))
    assert abs(found.value - walk / m) < 5 * found.error


def test_a_constant_is_added_to_the_kernel():
    X, _ = data(30)
    one = rademacher(Gram(RBF(0.5), X), 1.5, constant=1.0, seed=4)
    other = rademacher(Gram(RBF(0.5) + Constant(1.0), X), 1.5, seed=4)
    assert_allclose(one, other, rtol=1e-10)
    with pytest.raises(ValueError, match="samples ≥ 2; got samples=1"):
        rademacher(Gram(RBF(0.5), X), samples=1)


# The margin bound


def test_margin_bound_is_its_formula():
    reached = np.array([2.0, 0.25, -3.0, 1.0])
    found = margin_bound(reached, 0.5, 3.0, 0.1)
    assert_allclose(found.loss, (0.75 + 1) / 4)
    assert_allclose(found.complexity, 2 * 0.5 * 3 / 2)
    assert_allclose(found.confidence, 3 * np.sqrt(np.log(20) / 8))
    assert_allclose(found.value, sum(found[:3]))


def test_the_shares_of_the_grid_sum_to_delta(monkeypatch):
    asked = []

    def spy(reached, norm, radius, delta):
        asked.append((norm, delta))
        return margin_bound(reached, norm, radius, delta)

    monkeypatch.setattr("mercer.theory.formulas.margin_bound", spy)
    fitted_margin_bound([1.0, -0.5], 3.0, 1.0, 0.2)
    norms, deltas = zip(*asked, strict=True)
    assert len(set(norms)) == len(norms) and {0.5, 1, 2, 4} < set(norms)
    assert 0.19 < sum(deltas) <= 0.2


def test_the_grid_does_not_see_how_f_is_scaled():
    reached = np.random.default_rng(1).normal(1, 1, size=500)
    one = fitted_margin_bound(reached, 2.0, 1.5, 0.05)
    other = fitted_margin_bound(1e3 * reached, 2e3, 1.5, 0.05)
    assert_allclose(one, other, rtol=1e-9)
    # It is one of the bounds for a fixed norm, with less than all of δ.
    fixed = margin_bound(reached * one.norm / 2, one.norm, 1.5, 0.05)
    assert fixed.value < one.value < fixed.value + 0.2


DRAWS, DOUBT = 100, 1e-6


def most_violations(delta):
    """So many of the draws violate a bound of 1 - δ, or more, in one of 10⁶ tests."""
    return binom.ppf(1 - DOUBT, DRAWS, delta)


def test_bound_holds_on_a_circle_as_often_as_it_promises():
    # The error of ⟨w, x⟩ is known: points on the circle, labels by (1, 0), one in ten
    # of them wrong.
    rng, delta, m = np.random.default_rng(5), 0.3, 60
    machine = SVC(C=0.2, kernel=Linear(), fit_intercept=False)
    violated, bare = {None: 0, 4.0: 0}, 0  # by the norm that is given
    for _ in range(DRAWS):
        angle = rng.uniform(0, 2 * np.pi, size=m)
        X = np.column_stack([np.cos(angle), np.sin(angle)])
        y = np.where(rng.random(m) < 0.1, -1, 1) * np.where(X[:, 0] > 0, 1, -1)
        w = machine.fit(X, y).coef_[0]
        between = abs(np.arctan2(w[1], w[0]))
        error = 0.1 + 0.8 * between / np.pi
        for norm in violated:
            found = bounds(machine, X, y, delta, norm=norm, samples=2)["margin bound"]
            violated[norm] += error > found.value
        bare += error > float(np.mean(y * (X @ w) <= 0))
    assert max(violated.values()) <= most_violations(delta), violated
    assert bare > most_violations(delta)  # the training error is no bound


def test_bound_holds_where_the_training_error_is_nothing_but_luck():
    # Labels are coins: every machine errs on half of the new points, and one with a
    # narrow kernel on none of those learnt.
    rng, delta = np.random.default_rng(6), 0.3
    machine = SVC(C=100.0, kernel=RBF(200.0), fit_intercept=False)
    violated = lucky = 0
    for _ in range(DRAWS):
        X, y = rng.random((40, 2)), rng.choice([-1, 1], size=40)
        y[:2] = 1, -1
        found = bounds(machine.fit(X, y), X, y, delta, samples=2)
        violated += found["margin bound"].value < 0.5
        lucky += found["training error"].value < 0.2
    assert violated <= most_violations(delta)
    assert lucky > 0.9 * DRAWS


def test_for_a_fixed_norm_the_row_is_the_formula_of_the_machine():
    X, y = data(80)
    machine = SVC(kernel=RBF(0.5), fit_intercept=False).fit(X, y)
    reached = y * machine.decision_function(X)
    B = 2 * machine.expansion_.norm()
    row = bounds(machine, X, y, 0.1, norm=B)["margin bound"]
    slack = np.maximum(0, 1 - reached)
    expected = [
        np.mean(np.minimum(1, slack)),
        2 * B / np.sqrt(80),
        3 * np.sqrt(np.log(20) / 160),
    ]
    assert_allclose(row.parts, expected, rtol=1e-9)
    assert_allclose(row.value, sum(expected), rtol=1e-9)
    assert "given" in row.assumptions


def test_a_bias_is_a_part_of_f_with_the_kernel_plus_one():
    X, y = data(80)
    machine = SVC(kernel=RBF(0.5)).fit(X, y)
    f = machine.expansion_
    row = bounds(machine, X, y, 0.1)["margin bound"]
    norm = np.hypot(f.norm(), f.bias)
    reached = y * machine.decision_function(X)
    expected = fitted_margin_bound(reached, norm, np.sqrt(2), 0.1)
    assert_allclose(row.value, expected.value, rtol=1e-9)
    assert "RKHS of k + 1" in row.assumptions
    other = SVC(kernel=RBF(0.5), fit_intercept=False).fit(X, y)
    assert "k + 1" not in bounds(other, X, y)["margin bound"].assumptions


def test_a_norm_that_f_exceeds_is_refused():
    X, y = data()
    machine = SVC(fit_intercept=False).fit(X, y)
    with pytest.raises(ValueError, match="outside of the ball"):
        bounds(machine, X, y, norm=0.1)


# Leaving one out


def left_out_one_by_one(machine, X, y):
    values = []
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        again = clone(machine).fit(X[rest], y[rest])
        values.append(again.expansion_(X[i : i + 1])[0])
    return np.array(values)


MACHINES = {
    "SVC": SVC(C=3.0, kernel=RBF(0.5)),
    "SVC without bias": SVC(C=3.0, kernel=RBF(0.5), fit_intercept=False),
    "class weights": SVC(kernel=RBF(0.5), class_weight={1: 2.0, -1: 0.5}),
    "coordinates": SVC(
        kernel=RBF(0.5), fit_intercept=False, solver=CoordinateAscent(1e-9)
    ),
    "NuSVC": NuSVC(nu=0.3, kernel=RBF(0.5)),
    "KernelRidge": KernelRidge(0.5, kernel=RBF(0.5)),
}


@pytest.mark.parametrize("name", MACHINES)
def test_leave_one_out_is_that_of_a_fit_for_every_point(name):
    X, y = data(24)
    machine = clone(MACHINES[name]).fit(X, y)
    row = bounds(machine, X, y, refit=True)["leave-one-out"]
    values = left_out_one_by_one(machine, X, y)
    assert np.abs(values).min() > 1e-5
    assert row.value == np.mean(y * values <= 0)
    assert row.kind == "exact"


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([0.3, 3.0, 100.0]))
def test_bounds_on_leave_one_out_are_above_it(seed, bias, C):
    X, y = data(12, seed=seed, noise=1.0)
    machine = SVC(C=C, kernel=RBF(0.5), fit_intercept=bias).fit(X, y)
    found = bounds(machine, X, y, refit=True)
    exact = found["leave-one-out"].value
    if bias and machine.certificate_.n_free == 0:
        assert {"support vectors", "xi-alpha", "span"} <= dict(found.absent).keys()
        return
    assert found["support vectors"].value >= max(found["xi-alpha"].value, exact)
    # With a bias it is an estimate: see test_assessment.
    assert bias or found["xi-alpha"].value >= exact


@pytest.mark.parametrize("bias", [True, False])
def test_the_span_is_what_leaving_out_takes_away_while_no_other_point_changes(bias):
    checked = {1: 0, 2: 0}  # free support vectors, and those at their bound
    for seed in range(6):
        X, y = data(24, seed=seed, noise=0.5)
        machine = SVC(C=1.2, kernel=RBF(1.0), fit_intercept=bias).fit(X, y)
        alpha = np.zeros(24)
        alpha[machine.support_] = np.abs(machine.expansion_.coef)
        free, bound = (np.flatnonzero(kinds(alpha) == kind) for kind in (1, 2))
        squares = np.zeros(24)
        squares[free], squares[bound] = spans(Gram(RBF(1.0), X), free, bound, bias)
        reached = y * machine.decision_function(X)
        for i in machine.support_:
            rest = np.delete(np.arange(24), i)
            again = clone(machine).fit(X[rest], y[rest])
            other = np.zeros(24)
            other[rest[again.support_]] = np.abs(again.expansion_.coef)
            same = (kinds(other) == kinds(alpha))[rest].all()
            if same and (kinds(other) == 1).any():
                value = y[i] * again.decision_function(X[i : i + 1])[0]
                expected = reached[i] - alpha[i] * squares[i]
                assert_allclose(value, expected, atol=1e-6)
                checked[kinds(alpha)[i]] += 1
    assert min(checked.values()) >= 3, checked


def kinds(alpha):
    """0 for unused, 1 for free, 2 for bound."""
    return (alpha > 0).astype(int) + (alpha == 1.2)


def test_spans_of_dependent_and_of_no_support_vectors():
    X = np.array([[1.0, 0], [0, 1], [1, 1], [2, 0]])
    gram = Gram(Linear(), X)
    own, rest = spans(gram, np.arange(3), np.array([3]), bias=False)
    assert_allclose(own, 0, atol=1e-8)  # three vectors in a plane
    assert_allclose(rest, 0, atol=1e-8)
    own, rest = spans(gram, np.array([0, 1]), np.array([3]), bias=True)
    # The line through the others: a single point; and x₁ + x₂ = 1.
    assert_allclose(own, 2.0, rtol=1e-8)
    assert_allclose(rest, 0.5, rtol=1e-8)
    nothing = np.zeros(0, dtype=int)
    assert_allclose(spans(gram, nothing, np.array([3]), bias=False)[1], 4.0)
    assert np.isinf(spans(gram, nothing, np.array([3]), bias=True)[1]).all()
    assert np.isinf(spans(gram, np.array([0]), nothing, bias=True)[0]).all()


def test_spread_is_that_of_the_matrix():
    X, _ = data(50)
    K = Polynomial(2)(X)
    assert_allclose(spread(Gram(Polynomial(2), X)), K.max() - K.min(), rtol=1e-12)


def test_xi_alpha_counts_what_could_be_missed():
    alpha = np.array([0.0, 0.5, 0.5, 1.0])
    reached = np.array([-1.0, 1.0, 0.4, 1.0])
    assert xi_alpha(alpha, reached, 1.0).tolist() == [False, False, True, True]


def test_the_hard_margin_has_all_its_rows():
    X, y = data(40, noise=0.0)
    machine = SVC(C=np.inf, kernel=RBF(0.5), fit_intercept=False).fit(X, y)
    found = bounds(machine, X, y, refit=True)
    assert found["training error"].value == 0
    assert found["leave-one-out"].value <= found["xi-alpha"].value
    assert_allclose(found["span"].value, found["leave-one-out"].value, atol=0.06)


def test_a_point_alone_in_its_class_is_missed():
    X, y = data(20)
    y[:] = -1
    y[3] = 1
    machine = SVC(kernel=RBF(0.5)).fit(X, y)
    row = bounds(machine, X, y, refit=True)["leave-one-out"]
    assert row.value >= 1 / 20


# The table


def test_the_public_name_is_the_function():
    assert mercer.bounds is bounds


def test_rows_are_found_by_name_and_read_well():
    X, y = data()
    machine = SVC(kernel=RBF(0.5)).fit(X, y)
    found = bounds(machine, X, y, test=data(30, seed=9))
    assert [row.name for row in found][:2] == ["training error", "test error"]
    assert_allclose(found["test error"].value, 1 - machine.score(*data(30, seed=9)))
    assert "span" in found and "leave-one-out" not in found
    assert len(found) == len(found.rows)
    text = repr(found)
    assert text.startswith("SVC on 60 points, δ = 0.05\n")
    assert all(row.name in text and row.formula in text for row in found)
    assert "≥ 1: says nothing" in text and " ± " in text
    with pytest.raises(KeyError, match="pass refit=True"):
        found["leave-one-out"]
    with pytest.raises(KeyError, match="No row 'luck'; the rows are training error"):
        found["luck"]


def test_every_row_states_its_formula_and_its_assumptions():
    X, y = data(16)
    for machine in MACHINES.values():
        found = bounds(clone(machine).fit(X, y), X, y, refit=True)
        assert all(row.formula and row.assumptions and row.kind for row in found)
        assert all(f'"{row.name}"' in bounds.__doc__ for row in found)


@pytest.mark.parametrize("kind", [SVC, KernelRidge])
def test_kernel_values_give_what_the_points_give(kind):
    X, y = data()
    points = bounds(kind(kernel=RBF(0.5)).fit(X, y), X, y, refit=True)
    K = RBF(0.5)(X)
    values = bounds(kind(kernel="precomputed").fit(K, y), K, y, refit=True)
    assert [row.name for row in values] == [row.name for row in points]
    assert_allclose(
        [row.value for row in values], [row.value for row in points], rtol=1e-6
    )
    assert "nobody has checked" in values["margin bound"].assumptions
    assert "nobody" not in points["margin bound"].assumptions


def test_points_may_be_strings_and_classes_words():
    words = ["ab" * (k % 5) + "ba" * (k % 3) + "c" for k in range(30)]
    y = np.array(["few", "many"])[[int(word.count("b") > 2) for word in words]]
    machine = SVC(kernel=Subsequence(2, 0.5), fit_intercept=False).fit(words, y)
    found = bounds(machine, words, y, refit=True)
    assert_allclose(found["training error"].value, 1 - machine.score(words, y))
    assert found["leave-one-out"].value <= found["xi-alpha"].value


@pytest.mark.parametrize(
    "machine",
    [
        SVC(),
        SVC(kernel=RBF()),
        SVC(kernel="poly"),
        KernelRidge(kernel=RBF()),
        KernelSGDClassifier(kernel="rbf"),
    ],
)
def test_a_kernel_that_learnt_from_the_points_is_told(machine):
    X, y = data()
    row = bounds(clone(machine).fit(X, y), X, y)["margin bound"]
    assert "NOT SO" in row.assumptions


@pytest.mark.parametrize(
    "machine",
    [
        SVC(kernel=RBF(0.5)),
        SVC(gamma=0.5),
        SVC(kernel="linear"),
        KernelRidge(kernel="rbf"),
    ],
)
def test_a_kernel_that_was_given_is_not_suspected(machine):
    X, y = data()
    row = bounds(clone(machine).fit(X, y), X, y)["margin bound"]
    assert "NOT SO" not in row.assumptions


def test_numbers_have_squared_errors_and_no_margin():
    X, _ = data()
    target = np.sin(X[:, 0])
    ridge = KernelRidge(0.1, kernel=RBF(0.5)).fit(X, target)
    found = bounds(ridge, X, target, test=(X[:9], target[:9]))
    assert_allclose(
        found["training error"].value, np.mean((ridge.predict(X) - target) ** 2)
    )
    left_out = np.mean((ridge.loo_predictions_ - target) ** 2)
    assert_allclose(found["leave-one-out"].value, left_out)
    assert found["test error"].value > 0
    assert dict(found.absent)["margin bound"].startswith("it is about classes")
    tube = SVR(kernel=RBF(0.5)).fit(X, target)
    values = left_out_one_by_one(tube, X, target)
    found = bounds(tube, X, target, refit=True)
    assert_allclose(
        found["leave-one-out"].value, np.mean((values - target) ** 2), rtol=1e-4
    )


def test_numbers_learnt_from_classes_are_judged_by_their_sign():
    X, y = data()
    ridge = KernelRidge(0.1, kernel=RBF(0.5)).fit(X, y)
    found = bounds(ridge, X, y)
    assert found["training error"].value == np.mean(y * ridge.predict(X) <= 0)
    assert "SVC, which KernelRidge has not" in dict(found.absent)["xi-alpha"]
    tube = bounds(SVR(kernel=RBF(0.5)).fit(X, y), X, y)
    assert {"support vectors", "xi-alpha", "span"} <= dict(tube.absent).keys()


def test_rows_are_absent_where_they_say_nothing():
    X, y = data()
    indefinite = SVC(kernel=Sigmoid(1.0, -1.0), fit_intercept=False).fit(X, y)
    absent = dict(bounds(indefinite, X, y).absent)
    for name in ("margin bound", "Rademacher", "xi-alpha", "span"):
        assert "indefinite" in absent[name]
    hidden = SVC(kernel=Precomputed(np.diag([1.0, -5.0]))).fit([0, 1], [1, -1])
    assert "indefinite" in dict(bounds(hidden, [0, 1], [1, -1]).absent)["Rademacher"]
    soft = SVC(C=1e-3, kernel=Linear()).fit([[1.0], [-1.0]], [1, -1])
    assert soft.certificate_.n_free == 0
    absent = dict(bounds(soft, [[1.0], [-1.0]], [1, -1]).absent)
    for name in ("support vectors", "xi-alpha", "span"):
        assert "free support vector" in absent[name]


def test_nothing_learnt_is_always_wrong_and_never_bounded():
    X, y = np.zeros((10, 2)), np.tile([1.0, -1.0], 5)
    found = bounds(KernelRidge(kernel=Linear()).fit(X, y), X, y)
    assert found["training error"].value == 1
    assert found["margin bound"].value >= 1
    assert found["Rademacher"].value == 0


def test_a_perceptron_has_a_row_of_its_mistake_bound():
    X, y = data()
    with pytest.warns(ConvergenceWarning):
        machine = KernelPerceptron(RBF(0.5), max_iter=1, shuffle=False).fit(X, y)
    found = bounds(machine, X, y)
    assert_allclose(
        found["mistakes"].value, mistake_bound(machine, X, y).bound / 60, rtol=1e-12
    )
    assert found["mistakes"].value >= len(machine.mistakes_) / 60


def test_what_cannot_be_judged_is_refused():
    X, y = data()
    machine = SVC(kernel=RBF(0.5)).fit(X, y)
    with pytest.raises(ValueError, match="0 < delta < 1; got delta=1"):
        bounds(machine, X, y, 1)
    with pytest.raises(ValueError, match="60 points that SVC was fitted on; got 7"):
        bounds(machine, X[:7], y[:7])
    with pytest.raises(ValueError, match="60 targets, one per point"):
        bounds(machine, X, y[:7])
    with pytest.raises(ValueError, match="two classes"):
        bounds(machine, X, y * 3)
    with pytest.raises(ValueError, match="SVC learns targets: bounds needs y"):
        bounds(machine, X)
    with pytest.raises(ValueError, match="60 points that KernelRidge was fitted on"):
        bounds(KernelRidge().fit(X, y), X[:7], y[:7])
    with pytest.raises(NotFittedError):
        bounds(OneClassSVM(), X)
    with pytest.raises(TypeError, match="last step and the points as they reach it"):
        bounds(make_pipeline(StandardScaler(), SVC()).fit(X, y), X, y)
