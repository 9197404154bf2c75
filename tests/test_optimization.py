"""optimize: slopes by differences, and errors that fall."""

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer import (
    RBF,
    SVC,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidge,
    Spectrum,
    optimize,
)
from mercer.optimization import LeaveOneOut, Span
from mercer.solvers.ascent import FreeParameters

matplotlib.use("Agg")

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=40)
SIDES = np.where(X[:, 0] + 0.6 * rng.normal(size=40) > 0, 1, -1)


def assert_slopes(problem, theta, step=1e-5):
    slope = problem.objective(theta)[1]
    units = step * np.eye(len(theta))
    ends = [[problem.objective(theta + s * u)[0] for s in (1, -1)] for u in units]
    expected = [(up - down) / (2 * step) for up, down in ends]
    assert_allclose(slope, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("target", [Y[:, None], np.column_stack([Y, Y**2])])
def test_slopes_of_leave_one_out_are_differences(target):
    free = FreeParameters(2.0 * RBF([0.5, 0.3]), None, {"alpha": 0.1})
    assert_slopes(LeaveOneOut(X, target, free), free.start)


@pytest.mark.parametrize("C", [0.5, 2.0, 30.0])
def test_slopes_of_the_span_are_differences(C):
    free = FreeParameters(1.5 * RBF([0.7, 0.2]), None, {"C": C})
    assert_slopes(Span(SVC(tol=1e-12), X, SIDES, free), free.start, 1e-4)


def test_the_span_says_which_points_leaving_them_out_misses():
    # With a step in place of its logistic function it is near the true count.
    free = FreeParameters(RBF(0.5), None, {"C": 1.0})
    found = -Span(SVC(tol=1e-9), X, SIDES, free).objective(free.start)[0]
    missed = 0
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        machine = SVC(C=1.0, kernel=RBF(0.5)).fit(X[rest], SIDES[rest])
        missed += machine.predict(X[[i]])[0] != SIDES[i]
    assert found == pytest.approx(missed / len(X), abs=0.1)


def test_leave_one_out_of_the_machine_is_what_was_optimised():
    machine = KernelRidge(kernel="rbf", gamma=9.0)
    found = optimize(machine, X, Y, by="loo")
    best = min(step.value for step in found.curve)
    error = np.mean((found.machine.loo_predictions_ - Y) ** 2)
    assert error == pytest.approx(best, rel=1e-8)
    assert best < 0.2 * found.curve[0].value
    assert found.names == ["gamma", "alpha"]
    assert found.machine.kernel == RBF(found.parameters["gamma"])
    assert machine.kernel == "rbf"


def test_evidence_of_ridge_is_that_of_a_process_of_any_scale():
    found = optimize(KernelRidge(kernel=RBF(9.0)), X, Y)
    process = GaussianProcessRegressor(1.0 * RBF(0.5), noise=0.1).fit(X, Y)
    value = max(step.value for step in found.curve)
    assert value == pytest.approx(process.log_marginal_likelihood_value_, abs=1e-4)
    gamma = process.kernel_.kernel.gamma
    assert found.parameters["gamma"] == pytest.approx(gamma, rel=1e-2)


def test_processes_and_support_vectors_are_optimised():
    process = GaussianProcessRegressor(RBF(0.5), noise=0.1, optimizer=None)
    found = optimize(process, X, Y, bounds={"gamma": (0.1, 5)})
    assert found.names == ["gamma", "noise"] and process.optimizer is None
    classes = optimize(GaussianProcessClassifier(1.0 * RBF(0.5)), X, SIDES)
    assert classes.machine.score(X, SIDES) > 0.7
    svm = optimize(SVC(kernel=RBF([3.0, 3.0])), X, SIDES, by="span", max_iter=20)
    values = [step.value for step in svm.curve]
    assert min(values) < 0.8 * values[0]
    assert svm.machine.C == svm.parameters["C"]
    for one in (found, classes, svm):
        assert sorted(one.plot().artists_) == ["best", "value"]


def test_strings_are_optimised():
    words = ["ab" * (i % 4 + 1) + "c" * (i % 3) for i in range(20)]
    y = np.array([word.count("ab") for word in words], dtype=float)
    found = optimize(KernelRidge(kernel=Spectrum(2, [1.0, 1.0])), words, y, by="loo")
    assert found.curve[0].value > 2 * min(step.value for step in found.curve)
    assert len(found.parameters["weights"]) == 2


def test_what_cannot_be_optimised_is_said():
    with pytest.raises(ValueError, match="got by='accuracy'"):
        optimize(SVC(), X, SIDES, by="accuracy")
    with pytest.raises(TypeError, match="is for KernelRidge; got SVC"):
        optimize(SVC(), X, SIDES, by="loo")
    with pytest.raises(ValueError, match="two classes; got 3"):
        optimize(SVC(kernel=RBF(1.0)), X, np.arange(40) % 3, by="span")
    with pytest.raises(ValueError, match="it needs points"):
        optimize(KernelRidge(kernel="precomputed"), X @ X.T, Y, by="loo")
    with pytest.raises(ValueError, match="one alpha for all targets"):
        both = np.column_stack([Y, Y])
        optimize(KernelRidge(alpha=[1.0, 2.0], kernel=RBF(1.0)), X, both, by="loo")
