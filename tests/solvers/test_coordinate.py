"""Coordinate ascent: it never descends, ends at the optimum, and tells its way."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from checks import variant_checks
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_smo import NaiveSMO
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mercer.gram import Gram
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.radial import RBF
from mercer.kernels.string import Subsequence
from mercer.kernels.vector import Linear
from mercer.kernels.ways import BlockFunction, Precomputed
from mercer.machines.svm import SVC, SVR
from mercer.solvers import coordinate
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.coordinate import CoordinateAscent
from mercer.solvers.programs import quadratic, svc, svr
from mercer.solvers.smo import SMO

ORDERS = coordinate.ORDERS
on_orders = pytest.mark.parametrize("order", ORDERS)


def data(n=150, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


def two_each(gram, lower, tube):
    n = gram.shape[0]
    return BoxQP(
        gram,
        linear=np.sin(np.arange(2 * n)),
        sign=np.repeat([1.0, -1.0], n),
        lower=lower,
        upper=2.0,
        total=None,
        index=np.tile(np.arange(n), 2),
        tube=tube,
    )


def family(gram, X, y):
    target = X[:, 0] ** 2 + np.sin(X[:, 1])
    n = len(y)
    return {
        "svc": svc(gram, y, 1.5, bias=False),
        "svc, a bound for each": svc(gram, y, np.linspace(0.1, 3, n), bias=False),
        "svr": svr(gram, target, 3.0, 0.1, bias=False),
        "svr, no tube": svr(gram, target, 3.0, 0.0, bias=False),
        "two for a point": two_each(gram, lower=0.1, tube=0.0),
        "two for a point, tube": two_each(gram, lower=-0.5, tube=0.2),
    }


NAMES = list(family(Gram(RBF(1.0), data()[0]), *data()))


def objective(problem, value):
    """½ αᵀQα + linearᵀα + Σ tube|α|, from the definition."""
    coef = problem.coef(value)
    tube = 0.0 if problem.tube is None else problem.tube
    square = coef @ problem.gram.dense() @ coef
    return square / 2 + problem.linear @ value + np.sum(tube * np.abs(value))


@on_orders
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kernel", [RBF(0.5), Linear()], ids=str)
def test_solution_is_optimal_and_that_of_smo(name, kernel, order):
    X, y = data(40)
    problem = family(Gram(kernel, X), X, y)[name]
    tol = 1e-5 if isinstance(kernel, RBF) else 1e-4
    found = CoordinateAscent(tol=tol, order=order).solve(problem)
    assert found.status == "optimal" and found.bias == 0
    assert (problem.lower <= found.value).all() and (found.value <= problem.upper).all()
    function = problem.gram.dense() @ problem.coef(found.value)
    assert problem.violation(found.value, function) < 2 * tol
    assert_allclose(found.function, function, atol=1e-9 * (1 + abs(function).max()))
    assert_allclose(-found.dual, objective(problem, found.value), rtol=1e-9, atol=1e-9)
    expected = SMO(tol=1e-9).solve(problem)
    assert_allclose(found.dual, expected.dual, rtol=1e-4, atol=1e-4)
    assert found.dual <= expected.dual + 1e-8 * (1 + abs(expected.dual))
    assert found.dual <= expected.dual <= found.primal + 1e-8 * (1 + found.primal)


@on_orders
@pytest.mark.parametrize("name", NAMES)
def test_no_step_raises_the_objective_and_each_moves_one_variable(name, order):
    X, y = data(16)
    problem = family(Gram(RBF(0.5), X).held(), X, y)[name]
    found = CoordinateAscent(tol=1e-4, order=order, record=True).solve(problem)
    assert found.path.shape == (found.run.iterations + 1, len(problem))
    assert (np.count_nonzero(np.diff(found.path, axis=0), axis=1) == 1).all()
    assert_array_equal(found.path[-1], found.value)
    way = np.array([objective(problem, value) for value in found.path])
    assert np.diff(way).max() <= 1e-13 * np.abs(way).max()


def test_a_step_goes_to_the_minimum_along_its_axis():
    X, _ = data(12)
    gram = Gram(RBF(0.5), X).held()
    problem = svr(gram, np.sin(X[:, 0]), 0.4, 0.2, bias=False)
    path = CoordinateAscent(tol=1e-6, record=True).solve(problem).path
    ticks = np.linspace(-0.4, 0.4, 201)
    for before, after in pairwise(path[:41]):
        t = int(np.flatnonzero(after != before)[0])
        others = np.tile(before, (len(ticks), 1))
        others[:, t] = ticks
        least = min(objective(problem, value) for value in others)
        assert objective(problem, after) <= least + 1e-12


def test_cyclic_steps_are_those_of_the_formula():
    X, y = data(7)
    problem = svc(Gram(RBF(0.5), X), y, 0.7, bias=False)
    Q = np.outer(y, y) * RBF(0.5)(X)
    alpha, path = np.zeros(7), [np.zeros(7)]
    for i in [*range(7), *range(7)]:
        step = np.clip(alpha[i] - (Q[i] @ alpha - 1) / Q[i, i], 0, 0.7)
        if step != alpha[i]:
            alpha[i] = step
            path.append(alpha.copy())
    found = CoordinateAscent(tol=1e-9, record=True).solve(problem)
    assert_allclose(found.path[: len(path)], path, atol=1e-12)


@on_orders
@pytest.mark.parametrize("name", NAMES)
def test_without_the_matrix_in_memory_the_steps_are_the_same(name, order, monkeypatch):
    X, y = data(50)
    problem = family(Gram(RBF(0.5), X), X, y)[name]
    solver = CoordinateAscent(tol=1e-4, order=order, max_iter=130)
    held = solver.solve(problem)
    # A byte less than the matrix takes.
    monkeypatch.setattr(
        "mercer.native.memory.room_to_keep", lambda cache_mb: 8 * 50**2 - 1
    )
    monkeypatch.setattr(Gram, "held", None)
    free = solver.solve(problem)
    assert free.run.iterations == held.run.iterations
    assert_allclose(free.value, held.value, atol=1e-9)
    assert 0 < free.run.rows <= free.run.iterations


def test_a_path_beyond_the_memory_is_refused(monkeypatch):
    X, y = data(30)
    problem = svc(Gram(RBF(0.5), X), y, 10.0, bias=False)
    monkeypatch.setattr("mercer.native.memory.available_memory", lambda: 10_000)
    with pytest.raises(MemoryError, match="record=False"):
        CoordinateAscent(tol=1e-9, record=True).solve(problem)
    assert CoordinateAscent(tol=1e-6).solve(problem).path is None


# Variables without curvature


@on_orders
def test_where_the_diagonal_is_zero_a_variable_goes_to_its_bound(order):
    K = np.diag([1.0, 0.0, 0.0, 0.0, 2.0])
    problem = quadratic(K, [-0.5, -1.0, 2.0, 0.0, 6.0], 1, -1, 3, None)
    found = CoordinateAscent(order=order, tol=1e-9).solve(problem)
    assert found.status == "optimal"
    assert_allclose(problem.variables(found.value), [0.5, 3, -1, 0, -1])


def test_inside_its_tube_a_variable_without_curvature_goes_to_zero():
    gram = Gram(Precomputed(np.zeros((3, 3)), psd=True), np.arange(3))
    problem = BoxQP(gram, [0.3, 2.0, -2.0], 1.0, -1, 1, None, tube=0.5)
    found = CoordinateAscent().solve(problem, start=[0.7, 0.7, 0.7])
    assert_allclose(found.value, [0, -1, 1])


@pytest.mark.parametrize("slope, way", [(1.0, -np.inf), (-1.0, np.inf)])
def test_a_problem_without_minimum_is_called_unbounded(slope, way):
    problem = quadratic(np.diag([1.0, 0.0]), [1.0, slope], 1, -np.inf, np.inf, None)
    found = CoordinateAscent().solve(problem)
    assert found.status == "unbounded"
    assert np.isfinite(found.value).all()
    below, above = problem.slopes(found.value, found.function)
    assert (below if way < 0 else -above)[1] == 1.0


def test_points_at_the_origin_of_feature_space_are_at_their_bound():
    X, y = data(20)
    X[3:6] = 0
    machine = SVC(C=2.0, kernel=Linear(), fit_intercept=False)
    machine.set_params(solver=CoordinateAscent(tol=1e-8)).fit(X, y)
    alpha = np.zeros(20)
    alpha[machine.support_] = np.abs(machine.expansion_.coef)
    assert_allclose(alpha[3:6], 2.0)
    assert machine.certificate_.status == "optimal"


@on_orders
def test_an_indefinite_kernel_ends_and_says_so(order):
    X, y = data(60)
    problem = svc(Gram(Sigmoid(2.0, -1.0), X), y, 5.0, bias=False)
    solver = CoordinateAscent(order=order, max_iter=100_000, record=True)
    found = solver.solve(problem)
    assert found.status in ("indefinite", "max_iter") and np.isnan(found.primal)
    way = [objective(problem, value) for value in found.path[:200]]
    assert (np.diff(way) <= 1e-9).all()


def test_a_kernel_that_gives_nan_is_named():
    X, y = data(50)

    def broken(A, B):
        return np.where(A[:, :1] > 1, np.nan, 1.0) * RBF(0.5)(A, B)

    with pytest.raises(ValueError, match="not finite"):
        CoordinateAscent().solve(
            svc(Gram(BlockFunction(broken), X), y, 1.0, bias=False)
        )


def test_a_tube_beside_bounds_that_leave_zero_out():
    X, _ = data(40)
    problem = two_each(Gram(RBF(0.5), X), lower=0.1, tube=0.2)
    found = CoordinateAscent(tol=1e-8).solve(problem)
    # Where every α > 0, the tube is a part of the linear term.
    smooth = replace(problem, linear=problem.linear + 0.2, tube=None)
    assert_allclose(found.dual, SMO(tol=1e-9).solve(smooth).dual, rtol=1e-8)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(ORDERS), st.integers(1, 6))
def test_small_quadratics_end_at_the_minimum_of_the_slow_twin(seed, order, n):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, n)) * (rng.random((n, 1)) < 0.8)  # some rows are 0
    p, lower = rng.normal(size=n), -rng.random(n)
    problem = quadratic(A @ A.T, p, 1, lower, lower + 2 * rng.random(n), None)
    found = CoordinateAscent(tol=1e-7, order=order).solve(problem)
    slow = NaiveSMO(tol=1e-9).solve(problem.padded())
    assert found.status == "optimal"
    assert_allclose(found.dual, slow.dual, rtol=1e-6, atol=1e-6)


# Options


def test_it_goes_on_from_where_it_was_stopped():
    X, y = data(100)
    problem = svc(Gram(RBF(0.5), X), y, 10.0, bias=False)
    part = CoordinateAscent(max_iter=37).solve(problem)
    assert part.status == "max_iter" and part.run.iterations == 37
    rest = CoordinateAscent(tol=1e-6).solve(problem, start=part.value)
    whole = CoordinateAscent(tol=1e-6).solve(problem)
    assert_allclose(rest.dual, whole.dual, rtol=1e-7)
    assert (
        CoordinateAscent(tol=1e-3).solve(problem, start=whole.value).run.iterations == 0
    )
    assert CoordinateAscent(max_iter=0).solve(problem).run.iterations == 0


def test_watching_sees_the_objective_fall_and_can_stop():
    X, y = data(200)
    problem = svc(Gram(RBF(0.5), X), y, 10.0, bias=False)
    seen = []
    found = CoordinateAscent().solve(problem, watch=seen.append)
    assert [progress.round for progress in seen] == list(range(len(seen)))
    assert (np.diff([progress.objective for progress in seen]) <= 1e-10).all()
    assert seen[0].violation > 1e-3 > seen[-1].violation
    assert_allclose(seen[-1].objective, -found.dual, rtol=1e-12)
    assert seen[-1].iterations == found.run.iterations
    stopped = CoordinateAscent().solve(problem, watch=lambda told: told.round > 1)
    assert stopped.status == "stopped" and stopped.violation > 1e-3


def test_random_orders_are_repeated_by_their_seed():
    X, y = data(80)
    problem = svc(Gram(RBF(0.5), X), y, 10.0, bias=False)
    once, again, other = (
        CoordinateAscent(order="random", seed=seed, record=True).solve(problem).path
        for seed in (1, 1, 2)
    )
    assert_array_equal(once, again)
    assert not np.array_equal(once[1], other[1])


def test_what_it_cannot_do_is_refused():
    X, y = data(10)
    with pytest.raises(ValueError, match="tol > 0; got tol=0"):
        CoordinateAscent(tol=0)
    with pytest.raises(ValueError, match="cyclic, random, greedy; got 'best'"):
        CoordinateAscent(order="best")
    with pytest.raises(ValueError, match=r"fit_intercept=False, total=None\), or use"):
        CoordinateAscent().solve(svc(Gram(RBF(0.5), X), y, 1.0))
    with pytest.raises(ValueError, match="fit_intercept=False"):
        SVC(solver=CoordinateAscent()).fit(X, y)


def test_one_point_and_equal_points_with_opposite_classes_end():
    one = svc(Gram(RBF(0.5), np.ones((1, 2))), [1.0], 5.0, bias=False)
    assert_allclose(CoordinateAscent().solve(one).value, [1.0])
    X, y = np.ones((60, 2)), np.tile([1.0, -1.0], 30)
    found = CoordinateAscent().solve(svc(Gram(RBF(1.0), X), y, 1.0, bias=False))
    assert found.status == "optimal"
    assert_allclose(found.dual, 60.0)


# In machines


@on_orders
@pytest.mark.parametrize(
    "machine", [SVC(C=2.0, fit_intercept=False), SVR(C=2.0, fit_intercept=False)]
)
def test_a_machine_without_bias_is_that_of_smo(machine, order):
    X, y = data(120)
    y = y if isinstance(machine, SVC) else np.sin(X[:, 0])
    expected = clone(machine).fit(X, y)
    machine = clone(machine).set_params(solver=CoordinateAscent(1e-7, order=order))
    machine.fit(X, y)
    assert machine.expansion_.bias == 0
    assert_allclose(machine.expansion_(X), expected.expansion_(X), atol=1e-5)
    assert machine.certificate_.status == "optimal"
    assert machine.certify(X, y).violation < 1e-6


def test_machines_take_it_for_several_classes_weights_and_strings():
    X, _ = data(60)
    three = np.arange(60) % 3
    weight = np.linspace(0, 2, 60)
    words = ["ab" * (k % 5) + "ba" * (k % 3) + "c" for k in range(30)]
    plain, other = (
        SVC(C=2.0, fit_intercept=False, solver=solver)
        for solver in (None, CoordinateAscent(1e-8))
    )
    for points, y, w in ((X, three, weight), (X, three, None), (words, None, None)):
        if y is None:
            y = [word.count("b") > 2 for word in words]
            plain.set_params(kernel=Subsequence(2, 0.5))
            other.set_params(kernel=Subsequence(2, 0.5))
        expected = plain.fit(points, y, w).decision_function(points)
        found = other.fit(points, y, w).decision_function(points)
        assert_allclose(found, expected, atol=1e-5)


def test_a_machine_reports_progress_and_an_early_end(capsys):
    X, y = data(100)
    machine = SVC(C=10.0, fit_intercept=False, solver=CoordinateAscent(max_iter=20))
    with pytest.warns(ConvergenceWarning, match="status 'max_iter'"):
        machine.set_params(verbose=True).fit(X, y)
    assert "[SVC] iteration       20" in capsys.readouterr().out
    assert machine.fit_status_ == 1
    told = []
    machine.set_params(solver=CoordinateAscent(), verbose=False, callback=told.append)
    machine.fit(X, y)
    assert len(told) > 2 and told[-1].violation < 1e-3


def test_ctrl_c_leaves_what_was_learnt_before():
    X, y = data(100)
    machine = SVC(fit_intercept=False, solver=CoordinateAscent()).fit(X, y)
    before = machine.expansion_

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        machine.set_params(callback=interrupt).fit(X, -y)
    assert machine.expansion_ is before


@variant_checks(
    [
        # The checks compare seven digits of two ways to the same optimum, which is
        # soon reached where most coefficients end at their bound.
        SVC(C=0.1, fit_intercept=False, solver=CoordinateAscent(1e-9)),
        SVR(fit_intercept=False, solver=CoordinateAscent(1e-9)),
    ]
)
def test_scikit_learn_accepts_machines_with_it(estimator, check):
    check(estimator)
