"""Gaussian processes: beside scikit-learn's, on any data, and what they refuse."""

from dataclasses import replace

import catalog
import numpy as np
import pytest
from checks import machine_checks
from looped import looped
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import expit
from sklearn import gaussian_process as theirs
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import kernels

from mercer import (
    RBF,
    Constant,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    Matern,
    Normalized,
    Sigmoid,
    Spectrum,
    Subsequence,
    SubsetTree,
    WeisfeilerLehman,
)
from mercer.native.threads import one_blas_thread
from mercer.solvers.ascent import FreeParameters
from mercer.solvers.gaussian import LogisticEvidence, NormalEvidence, mean_logistic

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 2))
NEW = rng.normal(size=(9, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=40)
TWO = (X[:, 0] + 0.3 * rng.normal(size=40) > 0).astype(int)
THREE = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]


@machine_checks(
    [
        GaussianProcessRegressor(1.0 * RBF(0.5), noise=0.1),
        GaussianProcessClassifier(),
    ]
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


def constant_rbf_white(constant=1.0, length=1.0, noise=0.1):
    inner = kernels.ConstantKernel(constant) * kernels.RBF(length)
    return inner + kernels.WhiteKernel(noise)


def test_regression_is_scikit_learns_at_the_same_parameters():
    twin = theirs.GaussianProcessRegressor(constant_rbf_white(), optimizer=None)
    twin.fit(X, Y)
    kernel = Constant(1.0) * RBF(0.5)
    machine = GaussianProcessRegressor(kernel, noise=0.1, optimizer=None).fit(X, Y)
    assert_allclose(machine.predict(NEW), twin.predict(NEW), atol=1e-8)
    for option in ("return_std", "return_cov"):
        for found, expected in zip(
            machine.predict(NEW, **{option: True}),
            twin.predict(NEW, **{option: True}),
            strict=True,
        ):
            assert_allclose(found, expected, atol=1e-8)
    assert_allclose(machine.L_, twin.L_, atol=1e-8)
    assert_allclose(machine.alpha_, twin.alpha_, atol=1e-8)
    theta = np.array([0.3, -0.2, -2.0])  # ln of constant, length and noise
    ours = np.array([0.3, np.log(0.5) + 0.4, -2.0])
    value, slope = twin.log_marginal_likelihood(theta, eval_gradient=True)
    found, own = machine.log_marginal_likelihood(ours, eval_gradient=True)
    assert_allclose([found, machine.log_marginal_likelihood(ours)], value, atol=1e-8)
    assert_allclose(own * [1, -2, 1], slope, atol=1e-8)


def test_widths_of_coordinates_are_scikit_learns():
    lengths, new = np.array([0.7, 2.0, 5.0]), np.column_stack([NEW, NEW[:, 0] ** 2])
    wide = np.column_stack([X, np.cos(7 * X[:, 0])])
    twin = theirs.GaussianProcessRegressor(
        kernels.ConstantKernel(2.0) * kernels.RBF(lengths), alpha=0.1, optimizer=None
    ).fit(wide, Y)
    widths = 0.5 / lengths**2
    machine = GaussianProcessRegressor(2.0 * RBF(widths), alpha=0.1, optimizer=None)
    machine.fit(wide, Y)
    value, slope = twin.log_marginal_likelihood(twin.kernel_.theta, True)
    theta = np.log([2.0, *widths])
    found, own = machine.log_marginal_likelihood(theta, eval_gradient=True)
    assert found == pytest.approx(value, rel=1e-12)
    assert_allclose(own * [1, -2, -2, -2], slope, rtol=1e-9, atol=1e-10)
    for options in ({"return_std": True}, {"return_cov": True}):
        beside = twin.predict(new, **options)
        for ours, other in zip(machine.predict(new, **options), beside, strict=True):
            assert_allclose(ours, other, rtol=1e-9, atol=1e-10)


def test_regression_finds_scikit_learns_optimum():
    twin = theirs.GaussianProcessRegressor(constant_rbf_white()).fit(X, Y)
    machine = GaussianProcessRegressor(1.0 * RBF(0.5), noise=0.1).fit(X, Y)
    assert machine.log_marginal_likelihood_value_ == pytest.approx(
        twin.log_marginal_likelihood_value_, abs=1e-5
    )
    assert_allclose(machine.predict(NEW), twin.predict(NEW), atol=1e-4)
    assert machine.curve_[-1].value >= machine.curve_[0].value
    assert machine.run_.iterations == len(machine.curve_)
    wrapped = GaussianProcessRegressor(constant_rbf_white()).fit(X, Y)
    assert_allclose(wrapped.kernel_.theta, twin.kernel_.theta, atol=1e-6)
    assert_allclose(
        wrapped.sample_y(NEW, 2, random_state=3), twin.sample_y(NEW, 2, 3), atol=1e-6
    )


def test_several_targets_share_a_kernel_and_keep_their_units():
    both = np.column_stack([Y, 1 - 3 * Y])
    options = {"alpha": 0.1, "normalize_y": True}
    twin = theirs.GaussianProcessRegressor(kernels.RBF(1.0), **options).fit(X, both)
    machine = GaussianProcessRegressor(RBF(0.5), **options).fit(X, both)
    assert machine.log_marginal_likelihood_value_ == pytest.approx(
        twin.log_marginal_likelihood_value_, abs=1e-5
    )
    for option in ("return_std", "return_cov"):
        for found, expected in zip(
            machine.predict(NEW, **{option: True}),
            twin.predict(NEW, **{option: True}),
            strict=True,
        ):
            assert_allclose(found, expected, atol=1e-4)
    assert machine.sample_y(NEW, 4).shape == (9, 2, 4)
    assert_allclose(machine.expansion_(NEW), machine.predict(NEW))


def test_the_prior_is_predicted_before_a_fit():
    twin = theirs.GaussianProcessRegressor(kernels.RBF(1.0))
    machine = GaussianProcessRegressor(RBF(0.5))
    for option in ("return_std", "return_cov"):
        for found, expected in zip(
            machine.predict(NEW, **{option: True}),
            twin.predict(NEW, **{option: True}),
            strict=True,
        ):
            assert_allclose(found, expected, atol=1e-12)


def differences(problem, theta, step=1e-5):
    units = step * np.eye(len(theta))
    ends = [[problem.value(theta + s * u) for s in (1, -1)] for u in units]
    return np.array([(up - down) / (2 * step) for up, down in ends])


@looped(
    "kernel, points",
    [
        (2.0 * RBF([0.5, 1.0, 0.1]) + Constant(0.3), catalog.vectors),
        (Matern(1.5, 0.7) * RBF(0.2), catalog.vectors),
        (Normalized(Subsequence(2, 0.5)), catalog.words),
        (Spectrum(2, [0.5, 1.0]), catalog.words),
        (2.0 * Normalized(SubsetTree(0.5)), catalog.trees),
        (0.5 * WeisfeilerLehman(1), catalog.graphs),
    ],
)
def test_slopes_of_both_evidences_are_differences(kernel, points):
    some = points(3, 12)
    y = np.sin(np.arange(12))
    for profiled in (False, True):
        free = FreeParameters(kernel, None, {"noise": 0.3})
        problem = NormalEvidence(some, np.column_stack([y, y**2]), 0.01, free, profiled)
        value, slope = problem.objective(free.start)
        assert value == pytest.approx(problem.value(free.start), abs=1e-9)
        assert_allclose(slope, differences(problem, free.start), rtol=1e-5, atol=1e-6)
    free = FreeParameters(kernel)
    problem = LogisticEvidence(some, (y > 0).astype(float), free)
    _, slope = problem.objective(free.start)
    assert_allclose(slope, differences(problem, free.start), rtol=1e-4, atol=1e-6)


def test_slopes_of_many_points_are_summed_in_rows(monkeypatch):
    free = FreeParameters(2.0 * RBF(0.5), None, {"noise": 0.3})
    problem = NormalEvidence(X, Y[:, None], 0.0, free)
    whole = problem.objective(free.start)[1]
    monkeypatch.setattr("mercer.solvers.gaussian.WHOLE", 0)
    monkeypatch.setattr("mercer.solvers.gaussian.STRIP", 7)
    assert_allclose(problem.objective(free.start)[1], whole, rtol=1e-10)


def test_two_classes_are_scikit_learns():
    twin = theirs.GaussianProcessClassifier(1.0 * kernels.RBF(1.0)).fit(X, TWO)
    machine = GaussianProcessClassifier(1.0 * RBF(0.5)).fit(X, TWO)
    assert machine.log_marginal_likelihood_value_ == pytest.approx(
        twin.log_marginal_likelihood_value_, abs=1e-5
    )
    # Theirs approximates the integral over f, to about 1e-3; ours is exact.
    assert_allclose(machine.predict_proba(NEW), twin.predict_proba(NEW), atol=2e-3)
    assert (machine.predict(NEW) == twin.predict(NEW)).all()
    value, slope = twin.log_marginal_likelihood(np.array([0.3, 0.2]), True)
    ours = np.array([0.3, np.log(0.5) - 0.4])
    found, own = machine.log_marginal_likelihood(ours, eval_gradient=True)
    assert_allclose(found, value, atol=1e-8)
    assert_allclose(own * [1, -2], slope, atol=1e-6)


@pytest.mark.parametrize("scheme", ["one_vs_rest", "one_vs_one"])
def test_three_classes_are_scikit_learns(scheme):
    options = {"multi_class": scheme, "optimizer": None}
    twin = theirs.GaussianProcessClassifier(2.0 * kernels.RBF(1.0), **options)
    machine = GaussianProcessClassifier(2.0 * RBF(0.5), **options).fit(X, THREE)
    twin.fit(X, THREE)
    assert (machine.predict(NEW) == twin.predict(NEW)).all()
    assert machine.log_marginal_likelihood_value_ == pytest.approx(
        twin.log_marginal_likelihood_value_, abs=1e-8
    )
    if scheme == "one_vs_rest":
        assert_allclose(machine.predict_proba(NEW), twin.predict_proba(NEW), atol=2e-3)
        assert machine.expansion_(NEW).shape == (9, 3)
    else:
        with pytest.raises(ValueError, match="one_vs_one multi-class mode"):
            machine.predict_proba(NEW)
        assert len(machine.base_estimator_.estimators_) == 3


@pytest.mark.parametrize("scheme", ["one_vs_rest", "one_vs_one"])
def test_classes_learnt_at_the_same_time_are_those_learnt_in_turn(scheme):
    options = {"multi_class": scheme, "n_restarts_optimizer": 1}
    with one_blas_thread():  # as those at the same time have it: sums in one order
        found = [
            GaussianProcessClassifier(
                1.0 * RBF(0.5), n_jobs=jobs, random_state=seed, **options
            ).fit(X, THREE)
            for jobs in (None, 2)
            for seed in (3, np.random.RandomState(3))
        ]
    for alone, beside in (found[::2], found[1::2]):
        assert alone.kernel_ == beside.kernel_
        assert_allclose(alone.decision_function(NEW), beside.decision_function(NEW))


def test_an_error_of_one_class_ends_the_others():
    def broken(function, start, bounds):
        raise RuntimeError("no way up")

    machine = GaussianProcessClassifier(RBF(0.5), optimizer=broken, n_jobs=2)
    with pytest.raises(RuntimeError, match="no way up"):
        machine.fit(X, THREE)


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e8])
def test_steps_in_single_precision_lead_to_the_same_mode(monkeypatch, scale):
    points = rng.normal(size=(150, 3))
    target = (np.sin(3 * points[:, 0]) + points[:, 1] > 0).astype(float)
    free = FreeParameters(scale * RBF(0.5))
    alone = LogisticEvidence(points, target, free)
    value, slope = alone.objective(free.start)
    few = [replace(alone, max_iter=m).value(free.start) for m in (1, 2, 3)]
    monkeypatch.setattr("mercer.solvers.gaussian.MANY", 0)
    some = [replace(alone, max_iter=m).value(free.start) for m in (1, 2, 3)]
    assert_allclose(some, few, rtol=1e-12 * max(scale, 1e3))
    for start in (None, np.zeros(150), 50 * (1 - target)):
        found, own = replace(alone, start=start).objective(free.start)
        assert found == pytest.approx(value, rel=1e-10)
        assert_allclose(own, slope, rtol=1e-6, atol=1e-7)


def test_the_mean_of_the_logistic_function_is_exact():
    for mean, variance in [(0.3, 0.5), (2, 30), (-5, 1e4), (3, 1e-3), (1, 1), (0, 0)]:
        deviation = np.sqrt(variance)

        def height(t, mean=mean, deviation=deviation):
            return expit(mean + deviation * t) * np.exp(-t * t / 2) / np.sqrt(2 * np.pi)

        at = np.clip(-mean / max(deviation, 1e-9), -11, 11)
        exact = quad(height, -12, at, epsabs=1e-13, limit=500)[0]
        exact += quad(height, at, 12, epsabs=1e-13, limit=500)[0]
        found = mean_logistic(np.array([float(mean)]), np.array([float(variance)]))
        assert_allclose(found, exact, atol=1e-12)


def test_relevance_of_coordinates_is_learnt():
    wide = np.column_stack([X, rng.normal(size=(40, 2))])
    machine = GaussianProcessRegressor(RBF([1.0] * 4), noise=0.1).fit(wide, Y)
    gamma = machine.kernel_.gamma
    assert isinstance(gamma, list) and gamma[0] > 20 * max(gamma[1:])


def test_strings_and_molecules_learn_their_kernels():
    words = catalog.words(1, 20)
    lengths = np.array([float(len(word)) for word in words])
    kernel = 1.0 * Normalized(Subsequence(2, 0.5))
    machine = GaussianProcessRegressor(kernel, noise=0.1, normalize_y=True)
    machine.fit(words, lengths)
    before = GaussianProcessRegressor(
        kernel, noise=0.1, normalize_y=True, optimizer=None
    ).fit(words, lengths)
    gain = machine.log_marginal_likelihood_value_
    assert gain > before.log_marginal_likelihood_value_
    graphs = catalog.graphs(1, 20)
    sides = np.arange(20) % 2
    found = GaussianProcessClassifier(0.1 * WeisfeilerLehman(1)).fit(graphs, sides)
    assert found.predict_proba(graphs).shape == (20, 2)


def test_parameters_are_held_and_bounded():
    kernel = 2.0 * Matern(1.5, 0.7)
    free = FreeParameters(kernel)
    assert free.names == ["factor", "kernel__length"]  # the order is held
    free = FreeParameters(kernel, {"kernel__nu": (0.5, 3), "factor": "fixed"})
    assert free.names == ["kernel__length", "kernel__nu"]
    machine = GaussianProcessRegressor(
        RBF(0.5), noise=0.1, bounds={"gamma": (0.4, 0.6), "noise": "fixed"}
    ).fit(X, Y)
    assert 0.4 <= machine.kernel_.gamma <= 0.6 and machine.noise_ == 0.1
    assert GaussianProcessRegressor(RBF(0.5), optimizer=None).fit(X, Y).curve_ == []


def test_a_search_is_watched_stopped_and_restarted(capsys):
    seen = []
    machine = GaussianProcessRegressor(RBF(0.5), noise=0.1, verbose=True)
    machine.set_params(callback=lambda progress: seen.append(progress) or len(seen) > 2)
    with pytest.warns(ConvergenceWarning, match="stopped"):
        machine.fit(X, Y)
    assert machine.run_.status == "stopped" and len(machine.curve_) == 3
    assert "evaluation" in capsys.readouterr().out
    again = GaussianProcessRegressor(
        RBF(0.5), noise=0.1, n_restarts_optimizer=2, random_state=0
    ).fit(X, Y)
    once = GaussianProcessRegressor(RBF(0.5), noise=0.1).fit(X, Y)
    best = once.log_marginal_likelihood_value_
    assert again.log_marginal_likelihood_value_ >= best - 1e-9

    def own(function, start, bounds):
        return start, function(start, eval_gradient=False)

    held = GaussianProcessRegressor(RBF(0.5), noise=0.1, optimizer=own).fit(X, Y)
    assert held.kernel_ == RBF(0.5)


def test_what_is_wrong_is_said():
    twice = np.vstack([X, X])
    with pytest.raises(np.linalg.LinAlgError, match="increasing the 'alpha'"):
        GaussianProcessRegressor(RBF(0.5), alpha=0, optimizer=None).fit(
            twice, np.append(Y, Y)
        )
    with pytest.raises(np.linalg.LinAlgError, match="positive semidefinite"):
        GaussianProcessRegressor(Sigmoid(1.0, -3.0), optimizer=None).fit(X, Y)
    with pytest.raises(np.linalg.LinAlgError, match="positive semidefinite"):
        GaussianProcessClassifier(9 * Sigmoid(1.0, -3.0), optimizer=None).fit(X, TWO)
    with pytest.raises(ValueError, match="'optimizer' parameter"):
        GaussianProcessRegressor(optimizer="adam").fit(X, Y)
    for bounds, words in [
        ({"gamma": (2, 1)}, "reversed"),
        ({"gamma": (np.nan, 1)}, "are numbers"),
        ({"gama": (1, 2)}, "does not learn"),
        ({"gamma": (0, 1)}, "but for 0"),
        ({"gamma": "free"}, "a pair"),
    ]:
        with pytest.raises(ValueError, match=words):
            GaussianProcessRegressor(RBF(0.5), bounds=bounds).fit(X, Y)
    with pytest.raises(ValueError, match="alpha must be a scalar or an array"):
        GaussianProcessRegressor(alpha=np.ones(3)).fit(X, Y)
    with pytest.raises(ValueError, match="n_targets"):
        GaussianProcessRegressor(n_targets=2).fit(X, Y)
    with pytest.raises(RuntimeError, match="At most one"):
        GaussianProcessRegressor().fit(X, Y).predict(NEW, True, True)
    fitted = GaussianProcessRegressor(RBF(0.5), optimizer=None).fit(X, Y)
    with pytest.raises(ValueError, match="theta has 1 numbers, for gamma"):
        fitted.log_marginal_likelihood([1.0, 2.0])
    with pytest.raises(ValueError, match="greater than one"):
        GaussianProcessClassifier().fit(X, np.zeros(40))
