"""The road of an explicit map: the same optima, certificates and leave-one-out."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from mercer.gram import Gram
from mercer.kernels.radial import RBF
from mercer.kernels.substring import Spectrum
from mercer.kernels.vector import Linear, Polynomial
from mercer.losses import Huber, Logistic, Squared, SquaredHinge
from mercer.solvers import primal
from mercer.solvers.auto import AutoLinear, AutoPenalized
from mercer.solvers.cholesky import Cholesky, inverse_diagonal
from mercer.solvers.features import features_of
from mercer.solvers.linear import LinearSystem
from mercer.solvers.newton import Newton, Softmax
from mercer.solvers.normal_equations import NormalEquations, inverse_diagonal_by_map
from mercer.solvers.penalized import Penalized, certificate, certified
from mercer.solvers.primal import has_small_map

N = 300
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 5))
SPARSE = sp.csr_array(X * (rng.random(X.shape) < 0.4))
STRINGS = ["".join(rng.choice(list("abcd"), 25)) for _ in range(N)]
NUMBERS = X[:, 0] - X[:, 1] ** 2 / 3 + 0.3 * rng.normal(size=N)
SIDES = np.where(NUMBERS > 0, 1.0, -1.0)
WEIGHT = rng.uniform(0.3, 3.0, size=N)

GRAMS = [
    pytest.param(Gram(Linear(), X), id="dense"),
    pytest.param(Gram(Polynomial(2, offset=1.0), X), id="polynomial"),
    pytest.param(Gram(Linear(), SPARSE), id="CSR"),
    pytest.param(Gram(Spectrum(2), STRINGS), id="strings"),
    pytest.param(Gram(Spectrum(2) + 0.5 * Spectrum(1), STRINGS), id="sum"),
    pytest.param(Gram(Linear(), X.astype(np.float32)), id="float32"),
]
on_grams = pytest.mark.parametrize("gram", GRAMS)
by_both = pytest.mark.parametrize("factored", [1500, 0], ids=["factored", "iterated"])


# Least squares


SYSTEMS = [
    pytest.param(NUMBERS, 0.5, None, id="plain"),
    pytest.param(NUMBERS, 0.5, WEIGHT, id="weights"),
    pytest.param(
        np.column_stack([NUMBERS, NUMBERS**2, X[:, 2]]),
        np.array([0.5, 3.0, 0.5]),
        np.where(np.arange(N) % 7 == 0, 0.0, WEIGHT),
        id="targets",
    ),
]


@by_both
@on_grams
@pytest.mark.parametrize("target, reg, weight", SYSTEMS)
def test_normal_equations_solve_the_system_of_the_gram_matrix(
    gram, target, reg, weight, factored, monkeypatch
):
    monkeypatch.setattr("mercer.solvers.normal_equations.ONCE", factored)
    problem = LinearSystem(gram, target, reg, weight)
    solvers = Cholesky(), NormalEquations(1e-10, trust=1e-6)
    direct, found = (solver.solve(problem) for solver in solvers)
    assert found.status == "optimal" and found.value.shape == target.shape
    size = np.abs(direct.value).max()
    assert_allclose(found.value, direct.value, rtol=0, atol=1e-7 * size)
    assert_allclose(found.primal, direct.primal, rtol=1e-8)
    assert found.dual <= direct.primal and direct.dual <= found.primal
    assert found.violation + found.rounding < 1e-6 * (1 + found.primal)
    assert found.run.rows == 0


@on_grams
@pytest.mark.parametrize("target, reg, weight", SYSTEMS)
def test_hat_matrix_gives_the_diagonal_of_the_inverse(gram, target, reg, weight):
    problem = LinearSystem(gram, target, reg, weight)
    found, direct = inverse_diagonal_by_map(problem), inverse_diagonal(problem)
    assert found.shape == direct.shape
    assert_allclose(found, direct, rtol=1e-8)


def test_points_that_make_up_their_own_prediction_keep_their_digits():
    far = X.copy()
    far[4] *= 1e7
    problem = LinearSystem(Gram(Linear(), far), NUMBERS, 1.0)
    # 1 - h is about 1e-12 there: as a difference from 1 it would have few digits.
    rest = np.delete(far, 4, axis=0)
    inside = far[4] @ np.linalg.solve(rest.T @ rest + np.eye(5), far[4])
    assert_allclose(inverse_diagonal_by_map(problem)[4], 1 / (1 + inside), rtol=1e-9)


def test_start_is_used_and_watch_stops():
    problem = LinearSystem(Gram(Linear(), X), NUMBERS, 0.5)
    solver = NormalEquations(1e-8)
    found = solver.solve(problem)
    again = solver.solve(problem, start=found.value)
    assert again.run.iterations < found.run.iterations
    seen = []
    solver.solve(problem, watch=lambda progress: seen.append(progress) or False)
    assert seen and seen[-1].violation < 1e-8


def test_watch_stops_conjugate_gradients_on_features(monkeypatch):
    monkeypatch.setattr("mercer.solvers.normal_equations.ONCE", 0)
    problem = LinearSystem(Gram(Polynomial(2, offset=1.0), X), NUMBERS, 1e-3)
    found = NormalEquations(1e-10).solve(problem, watch=lambda p: p.iterations >= 2)
    assert found.status == "stopped" and found.run.iterations <= 3
    assert found.violation > 1e-10 and found.dual <= found.primal


def test_residual_that_rounding_leaves_is_stated():
    problem = LinearSystem(Gram(Linear(), X + 1e6), NUMBERS, 1e-3)
    found = NormalEquations(1e-8).solve(problem)
    assert found.status == "imprecise"
    exact = Gram(Linear(), X + 1e6).dense() @ found.value + 1e-3 * found.value
    left = np.linalg.norm(NUMBERS - exact) / np.linalg.norm(NUMBERS)
    assert left <= found.violation + found.rounding + 1e-3


def test_reg_0_is_refused():
    with pytest.raises(ValueError, match="NormalEquations needs reg > 0"):
        NormalEquations().solve(LinearSystem(Gram(Linear(), X), NUMBERS, 0.0))


# Newton's method


LOSSES = [Squared(), Huber(0.3), SquaredHinge(), Logistic(), Softmax(3)]


def penalized(gram, loss, bias, weight=WEIGHT, reg=1e-2):
    target = SIDES if getattr(loss, "of_sides", False) else NUMBERS
    if isinstance(loss, Softmax):
        target = np.digitize(NUMBERS, [-0.5, 0.5])
    return Penalized(gram, target, loss, reg, weight=weight, bias=bias)


def newton_cases():
    """Every loss on one kind of features; each kind with one function and several."""
    for gram in GRAMS:
        (made,) = getattr(gram, "values", (gram,))
        for loss in LOSSES if gram is GRAMS[0] else (Logistic(), Softmax(3)):
            for bias in (False, True):
                name = f"{gram.id}-{type(loss).__name__}-{'bias' * bias}"
                yield pytest.param(made, loss, bias, id=name)


@by_both
@pytest.mark.parametrize("gram, loss, bias", list(newton_cases()))
def test_newton_on_features_reaches_the_optimum_of_the_gram_matrix(
    gram, loss, bias, factored, monkeypatch
):
    monkeypatch.setattr(primal, "FACTORED", factored)
    problem = penalized(gram, loss, bias)
    direct = Newton(1e-9).solve(problem)
    found = Newton(1e-9, features=True).solve(problem)
    assert direct.status == found.status == "optimal"
    assert_allclose(found.primal, direct.primal, rtol=1e-6)
    assert found.gap <= 1e-9 * problem.zero_loss
    assert found.dual <= direct.primal and direct.dual <= found.primal
    assert found.value.shape == direct.value.shape and found.run.rows == 0
    assert_allclose(found.function, direct.function, atol=1e-3)


@on_grams
def test_certificate_of_features_is_the_one_recomputed(gram):
    problem = penalized(gram, Logistic(), True)
    found = Newton(1e-8, features=True).solve(problem)
    stated = certificate(problem, found)
    again = certified(problem, found.value[:, None], [found.bias], problem.reg)
    slack = stated.objective_rounding + again.objective_rounding
    assert_allclose(again.primal, stated.primal, rtol=0, atol=slack + 1e-14)
    assert_allclose(again.dual, stated.dual, rtol=0, atol=slack + 1e-14)
    assert_allclose(again.margin, stated.margin, rtol=1e-6)


def test_offset_that_takes_digits_away_is_said():
    problem = penalized(Gram(Linear(), X + 1e6), Logistic(), True)
    found = Newton(1e-9, features=True).solve(problem)
    assert found.status in ("stalled", "imprecise")
    assert found.objective_rounding > 1e-9 * problem.zero_loss


def test_rounding_of_products_with_features_is_bounded():
    features = features_of(Gram(Polynomial(3, offset=1.0), 10 * X))
    wide = features.matrix.astype(np.longdouble)
    coef = rng.normal(size=(N, 2))
    exact = wide @ (wide.T @ coef.astype(np.longdouble))
    off = np.abs(primal.product(features, coef) - exact).astype(float)
    sums = primal.FeatureSums(features)
    assert np.all(off <= sums(coef, tight=True))
    assert np.all(sums(coef, tight=True) <= sums(coef) * (1 + 1e-12))


# The choice of a road


def test_the_road_is_that_of_fewer_numbers():
    few = 100
    assert has_small_map(Gram(Linear(), X), few)
    assert not has_small_map(Gram(Linear(), X), N)  # few points
    assert not has_small_map(Gram(RBF(1.0), X), few)  # no map
    assert not has_small_map(Gram(Linear(), X).held(), few)  # K is there
    assert not has_small_map(Gram(Linear(), rng.normal(size=(N, N + 1))), few)
    assert not has_small_map(Gram(Polynomial(4, offset=1.0), X), few)  # 126 columns
    assert has_small_map(Gram(Spectrum(2), STRINGS), few)
    long = ["".join(rng.choice(list("abcd"), 500)) for _ in range(N)]
    assert not has_small_map(Gram(Spectrum(5), long), few)


def test_more_columns_than_points_are_left_to_the_gram_matrix(monkeypatch):
    def refused(*args, **options):
        raise AssertionError("the road of features was taken")

    monkeypatch.setattr(NormalEquations, "solve", refused)
    gram = Gram(Linear(), rng.normal(size=(N, N + 1)))
    assert AutoLinear(few=100).solve(LinearSystem(gram, NUMBERS, 1.0)).status


@on_grams
def test_many_points_take_the_road_of_features(gram, monkeypatch):
    def refused(*args, **options):
        raise AssertionError("a matrix of kernel values was computed")

    problem = LinearSystem(gram, NUMBERS, 1.0)
    expected = Cholesky().solve(problem).value
    diagonal = inverse_diagonal(problem)
    logistic = penalized(gram, Logistic(), True)
    optimum = Newton(1e-9).solve(logistic).primal
    monkeypatch.setattr(Gram, "dense", refused)
    monkeypatch.setattr(Gram, "rows", refused)
    monkeypatch.setattr("mercer.solvers.cholesky._own_dense", refused)
    found = AutoLinear(few=100).solve(problem).value
    assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())
    assert_allclose(AutoLinear(few=100).inverse_diagonal(problem), diagonal, rtol=1e-8)
    monkeypatch.setattr(Newton, "direct", 100)
    chosen = AutoPenalized(tol=1e-9).solve(logistic)
    assert_allclose(chosen.primal, optimum, rtol=1e-8)


MEMORY = """
import resource, sys
import numpy as np
from mercer import KernelLogisticRegression, KernelRidge
rng = np.random.default_rng(0)
X = rng.normal(size=(20_000, 20))
y = X[:, 0] + rng.normal(size=20_000)
KernelRidge(kernel="linear").fit(X[:200], y[:200])
KernelLogisticRegression(kernel="linear").fit(X[:200], y[:200] > 0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
machine = KernelRidge(kernel="linear").fit(X, y)
machine.loo_predictions_
KernelLogisticRegression(kernel="linear").fit(X, y > 0)
KernelLogisticRegression(kernel="linear").fit(X, np.digitize(y, [-1, 1]))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes there")
def test_memory_of_a_fit_on_features_is_linear_in_the_points():
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 20_000**2 / 4  # bytes; K has 8 for each entry
