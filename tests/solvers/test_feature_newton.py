"""Newton's method in the coordinates of a map: same optima, from few points or none."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer import RBF, Gram, Nystrom
from mercer.losses import Huber, Logistic, SquaredHinge
from mercer.solvers import feature_newton, single_rows
from mercer.solvers.columns import LossColumns, Softmax
from mercer.solvers.computed_rows import ComputedRows
from mercer.solvers.features import features_of
from mercer.solvers.newton import Newton
from mercer.solvers.penalized import Penalized, certified

RNG = np.random.default_rng(0)
N = 1200
X = RNG.normal(size=(N, 4))
NUMBERS = X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=N)
KERNEL = Nystrom(RBF(0.3), 20).resolve(X)
WEIGHT = RNG.uniform(0.3, 3.0, size=N)
LOSSES = [Logistic(), SquaredHinge(), Huber(0.3), Softmax(3)]


def penalized(loss, bias=True, kernel=KERNEL, reg=1e-3, weight=WEIGHT):
    target = np.where(NUMBERS > 0, 1.0, -1.0) if loss.of_sides else NUMBERS
    if isinstance(loss, Softmax):
        target = np.digitize(NUMBERS, [-0.4, 0.4])
    return Penalized(Gram(kernel, X), target, loss, reg, weight=weight, bias=bias)


@pytest.fixture
def levels(monkeypatch):
    """How many points were solved for, one after another."""
    sizes, build = [], feature_newton._Level.__init__

    def counted(self, problem, *args):
        sizes.append(problem.gram.shape[0])
        build(self, problem, *args)

    monkeypatch.setattr(feature_newton, "WIDE", 10)
    monkeypatch.setattr(feature_newton._Level, "__init__", counted)
    return sizes


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_the_optimum_is_that_of_the_gram_matrix(loss, bias, levels):
    problem = penalized(loss, bias)
    direct = Newton(1e-10).solve(problem)
    found = Newton(1e-8, features=True).solve(problem)
    assert levels == [240, N]
    assert isinstance(features_of(problem.gram), ComputedRows)
    assert found.status == "optimal" and found.gap <= 1e-8 * problem.zero_loss
    assert_allclose(found.primal, direct.primal, rtol=1e-7)
    assert found.dual <= direct.primal and direct.dual <= found.primal
    assert_allclose(found.function, direct.function, atol=1e-3)


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=["one", "three"])
def test_what_is_stated_is_about_the_coefficients(loss, levels):
    problem = penalized(loss)
    found = Newton(1e-4, features=True).solve(problem)
    features = KERNEL.features(X)
    expected = features.T @ found.value
    assert_allclose(found.weights, expected, atol=1e-9 * np.abs(expected).max())
    values = features @ expected + found.bias
    assert_allclose(found.function, values, atol=1e-9 * np.abs(values).max())
    columns = found.value.reshape(N, -1)
    again = certified(problem, columns, np.atleast_1d(found.bias), problem.reg)
    error = found.objective_rounding + again.objective_rounding
    assert abs(found.primal - again.primal) <= error
    assert abs(found.dual - again.dual) <= error
    assert abs(found.violation - again.violation) <= found.rounding + again.rounding


def test_an_early_end_has_a_true_gap():
    problem = penalized(Logistic())
    optimum = Newton(1e-10).solve(problem)
    for options, watch in (
        ({}, lambda progress: True),
        ({"max_iter": 0}, None),
        ({"max_iter": 1}, None),
    ):
        solver = Newton(1e-9, features=True, **options)
        found = solver.solve(problem, watch=watch)
        assert found.status in ("stopped", "max_iter")
        assert found.dual <= optimum.primal and optimum.dual <= found.primal
        assert found.primal <= 1.01 * problem.zero_loss


def test_a_solution_is_found_again_without_a_step():
    problem, solver = penalized(Logistic()), Newton(1e-5, features=True)
    found = solver.solve(problem)
    again = solver.solve(problem, start=found.value)
    assert again.run.iterations == 0 and again.status == "optimal"
    assert_allclose(again.value, found.value, rtol=0)


@pytest.mark.parametrize("reg", [1e-6, 1e-8])
def test_steps_go_on_in_double_where_single_precision_fails(reg, monkeypatch):
    monkeypatch.setattr(single_rows, "MOST_GROWTH", np.inf)
    monkeypatch.setattr(feature_newton, "MOST_GROWTH", np.inf)
    kernel = Nystrom(RBF(0.01), 30).resolve(X)
    problem = penalized(Logistic(), kernel=kernel, reg=reg)
    found = Newton(1e-7, features=True).solve(problem)
    assert found.status == "optimal"
    # For the smaller one, rounding of sums of kernel values leaves too few digits.
    assert features_of(problem.gram).computed == (reg == 1e-6)
    direct = Newton(1e-8).solve(problem)
    assert found.dual <= direct.primal and direct.dual <= found.primal


def test_reports_have_a_gap_and_fall():
    seen = []
    Newton(1e-8, features=True).solve(
        penalized(Logistic()), watch=lambda progress: seen.append(progress) or False
    )
    gaps = [progress.gap for progress in seen if not progress.stage]
    assert len(gaps) > 1 and gaps[-1] < gaps[0]
    assert "gap" in seen[-1].line() and "gradient" in seen[-1].line()


@pytest.mark.parametrize("loss", LOSSES[:3], ids=lambda loss: type(loss).__name__)
def test_the_best_constant_balances_the_slopes(loss):
    columns = LossColumns(penalized(loss))
    g = 3 * RNG.normal(size=(N, 1))
    for first in (0.0, 50.0):
        b = columns.best_bias(g, np.array([first]))
        left = np.sum(columns.w * columns.slope(g + b))
        assert abs(left) <= 1e-10 * columns.problem.mass


def test_sizes_of_samples_are_a_fifth_of_each_other():
    assert feature_newton._sizes(100_000, 1000) == [4000, 20_000]
    assert feature_newton._sizes(2_000_000, 2000) == [16_000, 80_000]
    assert feature_newton._sizes(10_000, 1000) == []  # a fifth is too few
    assert feature_newton._sizes(100_000, 20) == []  # steps cost little


def test_what_all_columns_have_in_common_is_solved_at_once():
    problem = penalized(Softmax(3))
    level = feature_newton._Level(
        problem, *[features_of(problem.gram)] * 2, 1000, feature_newton.Pulse(None)
    )
    at = level.look(*level.zero())
    root = level.columns.root(at.f)
    level._refresh(root)
    common = np.repeat(np.random.default_rng(1).normal(size=(20, 1)), 3, axis=1)
    found = level.inverse(problem.strength * common)
    # H is 0 there, so that the system is λ s = r.
    assert_allclose(found, common, rtol=1e-10)
    apart = common * [1.0, -2.0, 1.0]
    assert_allclose(level.inverse(apart).sum(axis=1), 0.0, atol=1e-12)


@pytest.mark.parametrize("single", [False, True], ids=["double", "single"])
@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
def test_preconditioners_are_inverses_of_each_column(bias, single):
    weights = RNG.uniform(0.1, 1, size=(N, 3))
    weights[:, 1] = 2 * weights[:, 0]  # whose matrix is a multiple
    fine = ComputedRows(KERNEL, X)
    rows = single_rows.in_single(fine) if single else fine
    made = feature_newton._Inverse(rows, weights, 0.5, bias)
    features, r = KERNEL.features(X), RNG.normal(size=(20, 3))
    eps = 1e-4 if single else 1e-9
    for j, h in enumerate(weights.T):
        mean = h @ features / h.sum() if bias else np.zeros(20)
        moved = features - mean
        A = (moved.T * h) @ moved + 0.5 * np.eye(20)
        column = made._of_columns(r)[:, j]
        assert_allclose(A @ column, r[:, j], atol=eps * np.linalg.cond(A))
        assert_allclose(made.applied(r)[:, j], A @ r[:, j], rtol=eps, atol=eps * N)
    # What all columns have in common is divided by λ.
    common = np.tile(r[:, :1], 3)
    assert_allclose(made(common), common / 0.5, rtol=1e-6)


def test_multiples_are_found_only_where_they_are():
    h = RNG.uniform(0.1, 1, size=50)
    assert_allclose(feature_newton._multiple(3 * h, h), 3.0)
    other = h.copy()
    other[7] *= 1.001
    assert feature_newton._multiple(other, h) is None
    h[3] = 0
    assert feature_newton._multiple(2 * h, h) is None
