"""Machines of the representer theorem: equal to what they contain, on any points."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from checks import machine_checks
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import HuberRegressor, LogisticRegression, QuantileRegressor
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.preprocessing import PolynomialFeatures

from mercer.kernels.radial import RBF
from mercer.kernels.substring import Spectrum
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import FeatureFunction, PairFunction, Precomputed
from mercer.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    PerceptronLoss,
    Quantile,
    Squared,
    SquaredHinge,
)
from mercer.machines.regularized import (
    KernelHuberRegression,
    KernelLogisticRegression,
    KernelQuantileRegression,
    RegularizedMachine,
    regularization_path,
)
from mercer.machines.ridge import KernelRidge
from mercer.machines.svm import SVC, SVR
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.newton import Newton

SIDED = [Hinge(), SquaredHinge(), Logistic(), PerceptronLoss()]
NUMBERED = [Squared(), EpsilonInsensitive(0.1), Huber(0.3), Quantile(0.3)]
LOSSES = SIDED + NUMBERED
on_losses = looped("loss", LOSSES, ids=repr)

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2))
NEW = rng.normal(size=(25, 2))
y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=60)
SIDES = np.where(y > 0, "up", "down")
LABELS = np.array(["low", "middle", "high"])[np.digitize(y, [-0.4, 0.5])]
WEIGHT = rng.uniform(0.2, 3, size=60)
TIMES = rng.integers(0, 4, size=60)


def target_of(loss):
    return SIDES if loss.of_sides else y


def values(machine, points):
    decide = getattr(machine, "decision_function", machine.predict)
    return decide(points)


# One check shifts a matrix of kernel values, which makes it indefinite.
@pytest.mark.filterwarnings("ignore:RegularizedMachine .* .indefinite.")
@machine_checks(
    [
        RegularizedMachine(),
        RegularizedMachine(Hinge()),
        RegularizedMachine(Logistic(), fit_intercept=True),
        RegularizedMachine(SquaredHinge(), norm=5.0),
        RegularizedMachine(EpsilonInsensitive(), fit_intercept=True),
        RegularizedMachine(Squared(), norm=3.0),
        RegularizedMachine(kernel="precomputed"),
        KernelLogisticRegression(),
        KernelLogisticRegression(10.0, fit_intercept=False),
        KernelQuantileRegression(),
        KernelHuberRegression(),
    ]
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


# Special cases


def test_squared_loss_is_kernel_ridge():
    for weight in (None, WEIGHT):
        mass = 60 if weight is None else WEIGHT.sum()
        ours = RegularizedMachine(Squared(), reg=0.01, kernel=RBF(0.5)).fit(
            X, y, weight
        )
        ridge = KernelRidge(0.01 * mass, kernel=RBF(0.5)).fit(X, y, weight)
        assert_allclose(ours.predict(NEW), ridge.predict(NEW), rtol=1e-9)


@looped("intercept", [False, True])
def test_hinge_loss_is_the_svm(intercept):
    reg = 0.01
    ours = RegularizedMachine(
        Hinge(), kernel=RBF(0.5), reg=reg, fit_intercept=intercept
    ).fit(X, SIDES)
    svm = SVC(
        C=1 / (2 * reg * 60), kernel=RBF(0.5), fit_intercept=intercept, tol=1e-9
    ).fit(X, SIDES)
    assert_allclose(ours.decision_function(NEW), svm.decision_function(NEW), atol=1e-7)
    assert_array_equal(np.sort(ours.support_), np.sort(svm.support_))


def test_epsilon_insensitive_loss_is_support_vector_regression():
    reg = 0.01
    ours = RegularizedMachine(
        EpsilonInsensitive(0.2), kernel=RBF(0.5), reg=reg, fit_intercept=True
    ).fit(X, y)
    svr = SVR(C=1 / (2 * reg * 60), epsilon=0.2, kernel=RBF(0.5), tol=1e-9).fit(X, y)
    assert_allclose(ours.predict(NEW), svr.predict(NEW), atol=1e-7)


def test_logistic_loss_is_kernel_logistic_regression():
    reg = 0.004
    ours = RegularizedMachine(Logistic(), reg=reg, fit_intercept=True).fit(X, SIDES)
    other = KernelLogisticRegression(C=1 / (2 * reg * 60)).fit(X, SIDES)
    assert_allclose(
        ours.decision_function(NEW), other.decision_function(NEW), atol=1e-8
    )
    assert_allclose(other.reg_, reg)


def test_named_losses_are_the_regularized_machine():
    for named, loss in [
        (KernelQuantileRegression(0.3, reg=0.01), Quantile(0.3)),
        (KernelHuberRegression(0.4, reg=0.01), Huber(0.4)),
    ]:
        general = RegularizedMachine(loss, reg=0.01, fit_intercept=True).fit(X, y)
        assert_allclose(named.fit(X, y).predict(NEW), general.predict(NEW), atol=1e-9)


def test_perceptron_loss_is_least_at_zero():
    machine = RegularizedMachine(PerceptronLoss()).fit(X, SIDES)
    assert not machine.decision_function(NEW).any()
    assert machine.certificate_.gap == 0


@on_losses
def test_norm_form_and_penalty_form_agree_at_matching_norm(loss):
    target = target_of(loss)
    penalty = RegularizedMachine(loss, reg=0.01, kernel=RBF(0.5), tol=1e-9)
    penalty.fit(X, target)
    B = float(np.max(penalty.expansion_.norm())) or 1.0
    ball = RegularizedMachine(loss, norm=B, kernel=RBF(0.5), tol=1e-7).fit(X, target)
    assert_allclose(values(ball, NEW), values(penalty, NEW), atol=5e-3)
    assert ball.expansion_.norm() <= B * (1 + 1e-9)
    assert 0 <= ball.certificate_.gap + 1e-12 <= 1e-6
    assert_allclose(ball.certify(X, target).primal, ball.certificate_.primal, rtol=1e-9)


# Explicit feature maps


def monomials(Z):
    return PolynomialFeatures(2, include_bias=False).fit_transform(Z)


@looped("labels", [SIDES, LABELS], ids=["two classes", "three"])
@looped("C", [0.1, 10.0])
@looped("weight", [None, WEIGHT], ids=["", "weighted"])
def test_explicit_map_gives_scikit_learn_s_logistic_regression(labels, C, weight):
    reference = LogisticRegression(C=C, tol=1e-10, max_iter=10_000)
    reference.fit(monomials(X), labels, weight)
    ours = KernelLogisticRegression(C, kernel=FeatureFunction(monomials), tol=1e-11)
    ours.fit(X, labels, weight)
    assert_allclose(
        ours.predict_proba(NEW), reference.predict_proba(monomials(NEW)), atol=2e-5
    )
    assert_array_equal(ours.classes_, reference.classes_)
    assert_allclose(ours.intercept_ - np.mean(ours.intercept_),
                    np.ravel(reference.intercept_) - np.mean(reference.intercept_),
                    atol=1e-3)  # fmt: skip


def test_balanced_classes_agree_with_scikit_learn():
    for class_weight in ("balanced", {"up": 5.0, "down": 0.5}):
        params = {"C": 2.0, "class_weight": class_weight}
        reference = LogisticRegression(tol=1e-10, max_iter=10_000, **params)
        reference.fit(X[:50], SIDES[:50])
        ours = KernelLogisticRegression(kernel=Linear(), **params)
        ours.fit(X[:50], SIDES[:50])
        expected = reference.predict_proba(NEW)
        assert_allclose(ours.predict_proba(NEW), expected, atol=1e-5)


def test_polynomial_kernel_is_regression_on_its_own_map():
    kernel = Polynomial(2, 1.0, 1.0)
    features = np.column_stack(
        [
            np.ones(60),
            np.sqrt(2) * X,
            X**2,
            np.sqrt(2) * X[:, 0] * X[:, 1],
        ]
    )
    reference = LogisticRegression(
        C=3.0, fit_intercept=False, tol=1e-10, max_iter=10**4
    )
    reference.fit(features, SIDES)
    ours = KernelLogisticRegression(3.0, kernel=kernel, fit_intercept=False)
    ours.fit(X, SIDES)
    assert_allclose(ours.predict_proba(X), reference.predict_proba(features), atol=1e-5)


def test_linear_median_is_scikit_learn_s_without_penalty():
    # At a small reg the loss is that of scikit-learn's optimum.
    reference = QuantileRegressor(quantile=0.3, alpha=0.0).fit(X, y)
    ours = KernelQuantileRegression(0.3, reg=1e-5, kernel=Linear()).fit(X, y)
    loss = Quantile(0.3)
    expected = loss.value(y, reference.predict(X)).mean()
    assert_allclose(loss.value(y, ours.predict(X)).mean(), expected, rtol=1e-3)


def test_linear_huber_is_no_worse_than_scikit_learn_s():
    reference = HuberRegressor(epsilon=1.35, alpha=0.0).fit(X, y)
    delta = 1.35 * reference.scale_
    ours = KernelHuberRegression(delta, reg=1e-10, kernel=Linear()).fit(X, y)
    assert_allclose(ours.predict(NEW), reference.predict(NEW), atol=1e-3)


# What holds for all of them


@on_losses
@looped("intercept", [False, True])
def test_weight_two_is_the_row_twice_and_weight_zero_no_row(loss, intercept):
    target = target_of(loss)
    machine = RegularizedMachine(loss, reg=0.01, fit_intercept=intercept)
    weighted = clone(machine).fit(X, target, TIMES)
    repeated = clone(machine).fit(np.repeat(X, TIMES, axis=0), np.repeat(target, TIMES))
    # An unpenalised constant is unique but for losses with a flat piece.
    atol = 1e-6 if loss.curved or not intercept else 2e-3
    assert_allclose(values(weighted, NEW), values(repeated, NEW), atol=atol)
    assert not np.isin(weighted.support_, np.flatnonzero(TIMES == 0)).any()


@on_losses
def test_certificate_is_computed_again(loss):
    machine = RegularizedMachine(loss, reg=0.01, fit_intercept=True)
    machine.fit(X, target_of(loss), WEIGHT)
    fresh = machine.certify(X, target_of(loss), WEIGHT)
    assert fresh.status == "recomputed"
    assert_allclose(fresh.primal, machine.certificate_.primal, rtol=1e-9, atol=1e-12)
    assert -1e-12 <= fresh.gap <= 1e-4
    said = machine.certificate_
    assert abs(fresh.violation - said.violation) <= said.rounding + fresh.rounding


@on_losses
def test_kernel_values_give_what_points_give(loss):
    target, kernel = target_of(loss), RBF(0.5)
    expected = RegularizedMachine(loss, kernel=kernel).fit(X, target)
    rows = RegularizedMachine(loss, kernel="precomputed").fit(kernel(X), target)
    assert_allclose(values(rows, kernel(NEW, X)), values(expected, NEW), atol=1e-6)
    indices = RegularizedMachine(loss, kernel=Precomputed(kernel(X)))
    indices.fit(np.arange(60), target)
    assert_allclose(values(indices, np.arange(5)), values(expected, X[:5]), atol=1e-6)


@on_losses
def test_expansion_is_the_truth(loss):
    machine = RegularizedMachine(loss, fit_intercept=True).fit(X, target_of(loss))
    assert_array_equal(values(machine, NEW), machine.expansion_(NEW))
    assert_array_equal(machine.dual_coef_, [machine.expansion_.coef])
    assert_array_equal(machine.intercept_, [machine.expansion_.bias])
    assert machine.dual_coef_.shape == (1, len(machine.support_))


def test_three_classes_are_one_against_the_rest():
    machine = RegularizedMachine(SquaredHinge(), reg=0.01).fit(X, LABELS)
    found = machine.decision_function(NEW)
    assert found.shape == (25, 3) and len(machine.certificate_.parts) == 3
    for j, name in enumerate(machine.classes_):
        alone = RegularizedMachine(SquaredHinge(), reg=0.01).fit(X, LABELS == name)
        assert_allclose(found[:, j], alone.decision_function(NEW), atol=1e-9)
    assert_array_equal(machine.predict(NEW), machine.classes_[found.argmax(axis=1)])


def test_the_loss_makes_the_machine():
    for loss in LOSSES:
        machine = RegularizedMachine(loss)
        assert is_classifier(machine) == loss.of_sides
        assert is_regressor(machine) != loss.of_sides
        assert hasattr(machine, "decision_function") == loss.of_sides
    assert is_regressor(RegularizedMachine())
    grid = GridSearchCV(
        RegularizedMachine(Hinge(), kernel=RBF()),
        {"loss": [Hinge(), Logistic()], "kernel__gamma": [0.5, 1.0]},
        cv=3,
    ).fit(X, SIDES)
    assert grid.best_score_ > 0.7


def test_score_is_accuracy_or_r2():
    sides = RegularizedMachine(Logistic()).fit(X, SIDES)
    assert sides.score(X, SIDES) == np.mean(sides.predict(X) == SIDES)
    numbers = RegularizedMachine().fit(X, y)
    rest = np.sum((y - numbers.predict(X)) ** 2)
    assert_allclose(numbers.score(X, y), 1 - rest / np.sum((y - y.mean()) ** 2))


def test_probabilities_are_those_of_the_model():
    two = KernelLogisticRegression().fit(X, SIDES)
    p = two.predict_proba(NEW)
    assert_allclose(p[:, 1], expit(two.decision_function(NEW)))
    assert_allclose(np.log(p), two.predict_log_proba(NEW))
    three = KernelLogisticRegression().fit(X, LABELS)
    p = three.predict_proba(NEW)
    e = np.exp(three.decision_function(NEW))
    assert_allclose(p, e / e.sum(axis=1, keepdims=True))
    assert_array_equal(three.predict(NEW), three.classes_[p.argmax(axis=1)])
    assert log_loss(LABELS, three.predict_proba(X)) < np.log(3)


def test_sure_points_have_finite_logarithms():
    machine = KernelLogisticRegression(1e6, kernel=Linear()).fit(
        [[-1.0], [1.0]], ["a", "b"]
    )
    far = machine.predict_log_proba([[1e6], [-1e6]])
    assert np.isfinite(far).all() and far.min() < -1e3


def test_probabilities_average_to_the_shares_of_the_classes():
    # The constant is not penalised: its optimum is Σ wᵢ (p(xᵢ) - [yᵢ]) = 0.
    for labels in (SIDES, LABELS):
        machine = KernelLogisticRegression(5.0).fit(X, labels, WEIGHT)
        shares = [WEIGHT @ (labels == name) for name in machine.classes_]
        assert_allclose(WEIGHT @ machine.predict_proba(X), shares, rtol=1e-8)


def test_a_quantile_has_its_share_of_targets_below():
    # Σ cᵢ = 0 with slopes q - 1 below and q above: shares q up to the free points.
    for q in (0.1, 0.5, 0.9):
        machine = KernelQuantileRegression(q, reg=1e-3).fit(X, y)
        residual = y - machine.predict(X)
        free = np.sum(np.abs(residual) < 1e-6)
        below = np.sum(residual < -1e-6)
        assert below <= 60 * q + 1e-9 and below + free >= 60 * q - 1e-9
        assert machine.certificate_.n_free == free


def test_quantiles_of_shifted_targets_are_shifted():
    for machine in (KernelQuantileRegression(0.2), KernelHuberRegression(0.5)):
        before = clone(machine).fit(X, y).predict(NEW)
        after = clone(machine).fit(X, y + 1000).predict(NEW)
        assert_allclose(after - 1000, before, atol=1e-6)


def test_far_off_target_hardly_moves_huber_s_regression():
    spoilt = y.copy()
    spoilt[7] = 1e6
    robust = [KernelHuberRegression(0.3).fit(X, t).predict(NEW) for t in (y, spoilt)]
    plain = [RegularizedMachine().fit(X, t).predict(NEW) for t in (y, spoilt)]
    assert np.abs(robust[1] - robust[0]).max() < 2
    assert np.abs(plain[1] - plain[0]).max() > 1e3


# Paths and warm starts


@looped("machine, target", [
    (RegularizedMachine(Logistic(), kernel=RBF(0.5)), SIDES),
    (RegularizedMachine(Hinge(), kernel=RBF(0.5)), LABELS),
    (KernelLogisticRegression(kernel=RBF(0.5)), LABELS),
    (KernelQuantileRegression(0.2, kernel=RBF(0.5)), y),
], ids=["logistic", "hinge", "multinomial", "quantile"])  # fmt: skip
def test_path_is_a_fit_for_each_value(machine, target):
    grid = [0.1, 1e-3, 1.0]
    path = regularization_path(machine, X, target, grid, WEIGHT)
    for value, found in zip(grid, path, strict=True):
        alone = clone(machine).set_params(**{machine._path[0]: value})
        alone.fit(X, target, WEIGHT)
        assert_allclose(values(found, NEW), values(alone, NEW), atol=1e-6)
        assert found.n_features_in_ == 2
    norms = [np.linalg.norm(found.expansion_.norm()) for found in path]
    order = np.argsort(grid) if machine._path[1] else np.argsort(grid)[::-1]
    assert np.all(np.diff(np.array(norms)[order]) < 1e-9)


def test_path_needs_positive_values():
    with pytest.raises(ValueError, match="numbers > 0"):
        regularization_path(RegularizedMachine(), X, y, [1.0, 0.0])


@on_losses
def test_warm_start_reaches_the_same_machine_in_no_more_steps(loss):
    cold = RegularizedMachine(loss, reg=0.01).fit(X, target_of(loss))
    warm = RegularizedMachine(loss, reg=0.01, warm_start=True).fit(X, target_of(loss))
    first = warm.n_iter_
    warm.fit(X, target_of(loss))
    assert warm.n_iter_ <= first
    assert_allclose(values(warm, NEW), values(cold, NEW), atol=1e-6)
    warm.fit(X[:30], target_of(loss)[:30])  # from the coefficients of these
    fresh = RegularizedMachine(loss, reg=0.01).fit(X[:30], target_of(loss)[:30])
    assert_allclose(values(warm, NEW), values(fresh, NEW), atol=1e-6)


# Progress


def test_callback_sees_every_step_and_may_stop():
    seen = []
    machine = KernelLogisticRegression(100.0, callback=seen.append).fit(X, SIDES)
    gaps = [progress.gap for progress in seen]
    assert len(seen) > machine.n_iter_ and gaps[-1] < 1e-9 < gaps[0]
    stopped = KernelLogisticRegression(100.0, callback=lambda seen: seen.round == 1)
    with pytest.warns(ConvergenceWarning, match="status 'stopped'"):
        stopped.fit(X, SIDES)
    assert stopped.certificate_.status == "stopped"


def test_lines_are_printed(capsys):
    RegularizedMachine(Logistic(), verbose=True).fit(X, LABELS)
    lines = capsys.readouterr().out.splitlines()
    assert lines and all(line.startswith("[RegularizedMachine ") for line in lines)
    assert "against the rest" in lines[0]


def test_early_end_is_said():
    with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
        KernelLogisticRegression(1e4, max_iter=1).fit(X, SIDES)
    with pytest.warns(ConvergenceWarning, match="'max_iter'"):
        KernelQuantileRegression(max_iter=3).fit(X, y)


def test_interrupted_fit_leaves_what_was_learnt():
    machine = KernelLogisticRegression().fit(X, SIDES)
    before = machine.decision_function(NEW)

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        machine.set_params(callback=interrupt, C=7.0).fit(X, SIDES)
    assert_array_equal(machine.decision_function(NEW), before)


def test_solver_can_be_chosen():
    found = KernelLogisticRegression(solver=Newton(1e-9, direct=0)).fit(X, SIDES)
    expected = KernelLogisticRegression().fit(X, SIDES)
    assert_allclose(
        found.decision_function(NEW), expected.decision_function(NEW), atol=1e-3
    )
    ridge = KernelRidge(0.5, kernel="rbf", solver=ConjugateGradient(1e-10)).fit(X, y)
    assert_allclose(
        ridge.predict(NEW), KernelRidge(0.5, kernel="rbf").fit(X, y).predict(NEW),
        rtol=1e-7,
    )  # fmt: skip
    assert ridge.certificate_.violation <= 1e-10


# Many points


def many(n=3500, dtype=np.float64):
    points = rng.normal(size=(n, 3)).astype(dtype)
    values = np.sin(2 * points[:, 0]) + points[:, 1] + 0.3 * rng.normal(size=n)
    return points, values


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_many_points_are_solved_without_factors_to_the_gap(dtype):
    points, target = many(2000, dtype)
    for labels in (target > 0, np.digitize(target, [-0.7, 0.7])):
        machine = KernelLogisticRegression(10.0).fit(points, labels)
        fresh = machine.certify(points.astype(float), labels)
        assert -1e-6 < fresh.gap < 2e-4
        assert machine.certificate_.status == "optimal"


def test_ridge_of_many_points_states_its_residual():
    for dtype, most in ((np.float64, 1e-8), (np.float32, 1e-6)):
        points, target = many(3200, dtype)
        machine = KernelRidge(0.1, kernel=RBF(0.5)).fit(points, target)
        assert machine.certificate_.violation <= most
        wide = points.astype(float)
        coef = machine.dual_coef_
        residual = target - RBF(0.5)(wide) @ coef - 0.1 * coef
        assert np.linalg.norm(residual) <= 1.1 * most * np.linalg.norm(target)


# Edges


def test_one_class_is_refused():
    for machine in (KernelLogisticRegression(), RegularizedMachine(Hinge())):
        with pytest.raises(ValueError, match="1 class"):
            machine.fit(X, ["a"] * 60)
        weight = (SIDES == "up").astype(float)
        with pytest.raises(ValueError, match="1 class"):
            machine.fit(X, SIDES, weight)


def test_one_point_is_learnt_by_a_regressor():
    for machine in (RegularizedMachine(), KernelQuantileRegression(kernel=RBF(1.0))):
        machine.set_params(kernel=RBF(1.0))
        assert np.isfinite(machine.fit([[1.0]], [2.0]).predict([[1.0]])).all()


def test_duplicates_of_both_classes_are_even():
    machine = KernelLogisticRegression(kernel=RBF(1.0))
    machine.fit([[0.0], [0.0], [1.0], [1.0]], [0, 1, 0, 1])
    assert_allclose(machine.predict_proba([[0.0], [5.0]]), 0.5)


def test_reg_and_norm_are_not_both_given():
    with pytest.raises(ValueError, match="reg or norm"):
        RegularizedMachine(reg=1.0, norm=1.0).fit(X, y)
    for params, word in [
        ({"reg": 0.0}, "reg"),
        ({"norm": -1.0}, "norm"),
        ({"loss": "hinge"}, "loss"),
        ({"tol": 0.0}, "tol"),
    ]:
        with pytest.raises(ValueError, match=f"'{word}' parameter of Regularized"):
            RegularizedMachine(**params).fit(X, y)


def test_an_indefinite_kernel_is_said():
    kernel = PairFunction(lambda a, b: -float(a @ b), psd=False)
    with pytest.warns(ConvergenceWarning, match="not positive semidefinite"):
        RegularizedMachine(Logistic(), kernel=kernel).fit(X, SIDES)
    with pytest.raises(ValueError, match="f has no norm"):
        RegularizedMachine(norm=1.0, kernel=kernel).fit(X, y)


def common_letters(s, t):
    return sum(s.count(letter) * t.count(letter) for letter in set(s))


WORDS = ["kernel", "ridge", "gram", "point", "machine", "spline", "tree", "loss"] * 3
LENGTHS = np.array([float(len(word)) for word in WORDS])


@on_losses
def test_strings_are_points(loss):
    machine = RegularizedMachine(loss, reg=1e-4, kernel=PairFunction(common_letters))
    target = LENGTHS > 5 if loss.of_sides else LENGTHS
    machine.fit(WORDS, target)
    assert np.isfinite(values(machine, ["letters", "a"])).all()
    again = pickle.loads(pickle.dumps(machine))
    assert_allclose(values(again, WORDS), values(machine, WORDS), rtol=1e-9, atol=1e-12)


def test_records_and_frames_pass_through_cross_validation():
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    scores = cross_val_score(KernelLogisticRegression(10.0), frame, SIDES, cv=4)
    assert scores.mean() > 0.8
    machine = KernelLogisticRegression(10.0).fit(frame, SIDES)
    assert list(machine.feature_names_in_) == ["a", "b"]
    copied = copy.deepcopy(machine)
    assert_array_equal(copied.predict(frame), machine.predict(frame))


def test_what_is_not_fitted_says_so():
    for machine in (KernelLogisticRegression(), KernelQuantileRegression()):
        with pytest.raises(NotFittedError):
            machine.predict(X)
        with pytest.raises(NotFittedError):
            machine.certify(X, y)


def test_a_batch_with_nan_leaves_the_machine_as_it_was():
    machine = RegularizedMachine().fit(X, y)
    before = machine.predict(NEW)
    spoilt = X.copy()
    spoilt[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        machine.fit(spoilt, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_array_equal(machine.predict(NEW), before)


# Many points of a kernel with a small explicit map


MANY = 1600
many_rng = np.random.default_rng(5)
POINTS = many_rng.normal(size=(MANY, 4))
VALUES = POINTS[:, 0] - POINTS[:, 1] ** 2 / 2 + 0.5 * many_rng.normal(size=MANY)
STRINGS = ["".join(many_rng.choice(list("abc"), 12)) for _ in range(MANY)]


@pytest.mark.parametrize(
    "machine, target",
    [
        (KernelLogisticRegression(0.5, tol=1e-8), VALUES > 0),
        (KernelLogisticRegression(0.5, tol=1e-8), np.digitize(VALUES, [-1, 0.5])),
        (KernelHuberRegression(reg=1e-2, tol=1e-8), VALUES),
        (RegularizedMachine(Squared(), reg=1e-2, tol=1e-8), VALUES),
        (RegularizedMachine(SquaredHinge(), reg=1e-2, tol=1e-8), VALUES > 0),
        (
            RegularizedMachine(SquaredHinge(), reg=1e-2, tol=1e-8),
            np.digitize(VALUES, [-1, 0.5]),
        ),
        (RegularizedMachine(Squared(), norm=0.02, tol=1e-7), VALUES),
    ],
    ids="logistic softmax huber squared hinge² three ball".split(),
)
@pytest.mark.parametrize(
    "kernel, points",
    [("linear", POINTS), (Polynomial(2, offset=1.0), POINTS), (Spectrum(2), STRINGS)],
    ids=["linear", "polynomial", "strings"],
)
def test_a_small_map_gives_the_machine_of_the_kernel_matrix(
    machine, target, kernel, points, monkeypatch
):
    weight = many_rng.uniform(0.5, 2.0, MANY)
    quick = clone(machine).set_params(kernel=kernel).fit(points, target, weight)
    assert quick.run_.rows == 0 and quick.run_.status == "optimal"
    direct = clone(machine).set_params(kernel=kernel)
    with monkeypatch.context() as patch:
        for module in ("holding", "penalized"):
            name = f"mercer.solvers.auto.{module}.has_small_map"
            patch.setattr(name, lambda *args: False)
        direct.fit(points, target, weight)
    assert direct.run_.rows > 0
    ours, theirs = quick.certificate_, direct.certificate_
    assert_allclose(ours.primal, theirs.primal, rtol=1e-6)
    assert ours.dual <= theirs.primal and theirs.dual <= ours.primal
    f, g = (m.expansion_(points[:100]) for m in (quick, direct))
    assert_allclose(f, g, atol=1e-2)
    assert_allclose(quick.reg_, direct.reg_, rtol=1e-3)
    again = quick.certify(points, target, weight)
    assert_allclose(again.primal, ours.primal, rtol=1e-9)


def test_path_on_a_small_map_is_a_fit_for_each_value():
    machine = KernelLogisticRegression(kernel="linear", tol=1e-8)
    target = VALUES > 0
    path = regularization_path(machine, POINTS, target, [0.1, 10.0])
    for value, fitted in zip([0.1, 10.0], path, strict=True):
        alone = clone(machine).set_params(C=value).fit(POINTS, target)
        assert fitted.run_.rows == 0
        expected = alone.certificate_.primal
        assert_allclose(fitted.certificate_.primal, expected, rtol=1e-6)
