"""Coordinate descent: the compiled loops, optimality, and gaps that bound."""

from dataclasses import replace

import catalog
import naive_l1
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from mercer import _core
from mercer.gram import Gram
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.operators import Constant
from mercer.kernels.radial import RBF
from mercer.kernels.string import EditSimilarity
from mercer.kernels.vector import Linear
from mercer.kernels.ways import Precomputed
from mercer.losses import Hinge, Logistic, Squared
from mercer.solvers.l1 import CoordinateDescent
from mercer.solvers.lasso import L1Problem

rng = np.random.default_rng(5)
X = rng.normal(size=(90, 3))
TARGET = np.sin(2 * X[:, 0]) + X[:, 1]
SIDE = np.where(TARGET + 0.4 * rng.normal(size=90) > 0.3, 1.0, -1.0)
WEIGHT = rng.random(90) + 0.2
EXACT = CoordinateDescent(tol=1e-12)

both_losses = looped("loss", [Logistic(), Squared()], ids=repr)
with_and_without_bias = looped("bias", [True, False])


def problem(loss, reg=0.05, kernel=None, points=X, weight=WEIGHT, bias=True):
    """A penalty so many times the largest one that matters."""
    target = SIDE if loss.of_sides else TARGET
    gram = Gram(RBF(0.5) if kernel is None else kernel, points)
    n = gram.shape[0]
    made = L1Problem(gram, target[:n], loss, 1.0, weight[:n], bias)
    return replace(made, reg=reg * made.largest_reg())


def assert_optimal(problem, solution, tol=1e-6):
    """The conditions, from the dense matrix: -gradient is a slope of the penalty."""
    K = np.asarray(problem.gram.dense(), dtype=float)
    values = K @ solution.value + solution.bias
    slope = problem.weight * problem.loss.slope(problem.target, values)
    gradient, used = K @ slope, solution.value != 0
    assert np.abs(gradient).max() <= problem.reg * (1 + tol)
    assert_allclose(
        gradient[used], -problem.reg * np.sign(solution.value[used]), rtol=tol
    )
    if problem.bias:
        assert abs(slope.sum()) <= tol * np.abs(slope).sum()


# The compiled loops


def quadratic(seed, p, rank):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(rank, p))
    return A.T @ A, rng.normal(size=p) * 2, rng.normal(size=p).round()


quadratics = given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 7))
few = settings(max_examples=25)


@few
@quadratics
def test_sweeps_agree_with_their_slow_twin(seed, p, rank):
    H, linear, coef = quadratic(seed, p, rank)
    H[0], H[:, 0] = 0.0, 0.0  # one without curvature
    linear[0] = 0.1
    made = []
    for go in (_core.l1_sweeps, naive_l1.sweeps):
        c, gradient = coef.copy(), linear + H @ coef
        worst = go(H, gradient, c, 0.3, 1e-9, 7)
        made.append(np.array([worst, *c, *gradient]))
    assert_allclose(made[0], made[1], rtol=1e-9, atol=1e-11)
    assert made[0][1] == 0


@few
@quadratics
def test_faces_end_at_the_least_objective_of_all_patterns_of_signs(seed, p, rank):
    H, linear, coef = quadratic(seed, p, rank)
    linear = H @ linear  # within the range of H, where there is a minimum
    gradient = linear + H @ coef
    worst = _core.l1_faces(H, gradient, coef, 0.3, 1e-10, 500)
    assert worst <= 1e-10
    assert_allclose(gradient, linear + H @ coef, atol=1e-9)
    expected = naive_l1.least(H, linear, 0.3)
    assert_allclose(naive_l1.objective(H, linear, coef, 0.3), expected, atol=1e-8)


@few
@quadratics
def test_neither_sweeps_nor_faces_raise_the_objective(seed, p, rank):
    H, linear, coef = quadratic(seed, p, rank)
    linear, gradient = H @ linear, H @ linear + H @ coef
    before = naive_l1.objective(H, linear, coef, 0.3)
    for go in (_core.l1_faces, _core.l1_sweeps):
        for _ in range(4):
            go(H, gradient, coef, 0.3, 1e-12, 1)
            after = naive_l1.objective(H, linear, coef, 0.3)
            assert after <= before + 1e-9 * max(1, abs(before))
            before = after


def test_equal_columns_share_a_face():
    H, coef = np.ones((3, 3)), np.array([1.0, -2.0, 0.5])
    gradient = -2 * np.ones(3) + H @ coef
    assert _core.l1_faces(H, gradient, coef, 0.5, 1e-12, 100) <= 1e-12
    assert_allclose(coef.sum(), 1.5)
    assert np.count_nonzero(coef) == 1


def test_quadratics_of_wrong_shapes_are_refused():
    for go in (_core.l1_sweeps, _core.l1_faces):
        with pytest.raises(ValueError, match=r"needs H \(p, p\)"):
            go(np.eye(3), np.zeros(2), np.zeros(2), 1.0, 1e-3, 1)


# Optimality


@both_losses
@with_and_without_bias
@looped("reg", [0.5, 0.05, 1e-3])
def test_optimality_conditions_hold(loss, bias, reg):
    made = problem(loss, reg, bias=bias)
    solution = EXACT.solve(made)
    assert solution.status == "optimal"
    assert_optimal(made, solution)
    assert 0 < np.count_nonzero(solution.value) < 90
    assert bias or solution.bias == 0


@both_losses
@looped(
    "kernel, points",
    [
        pytest.param(Sigmoid(1.0, -0.5), X, id="Sigmoid"),
        pytest.param(Linear(), X, id="rank 3"),
        pytest.param(EditSimilarity(0.1), catalog.words(1, 40), id="EditSimilarity"),
        pytest.param(RBF(0.5), np.repeat(X[:20], 3, axis=0), id="points three times"),
        pytest.param(RBF(1e-4), X, id="columns almost equal"),
        pytest.param(RBF(100.0), X, id="identity"),
        pytest.param(RBF(0.5), X.astype(np.float32), id="float32"),
    ],
)
def test_optimality_conditions_hold_for_any_similarity(loss, kernel, points):
    made = problem(loss, 0.02, kernel, points)
    solution = CoordinateDescent(tol=1e-10).solve(made)
    assert solution.status == "optimal"
    assert_optimal(made, solution, 1e-5)


def test_a_matrix_that_is_no_kernel_has_a_certificate_too():
    made = problem(Logistic(), 0.05, EditSimilarity(0.1), catalog.words(1, 40))
    assert np.linalg.eigvalsh(made.gram.dense()).min() < -1e-3
    solution = EXACT.solve(made)
    assert abs(solution.gap) <= 1e-10 * solution.primal


@both_losses
@with_and_without_bias
def test_objective_is_that_of_a_general_minimiser(loss, bias):
    n = 12
    made = problem(loss, 0.1, points=X[:n], bias=bias)
    K = made.gram.dense()

    def smooth(z):  # coef = z[:n] - z[n : 2 n], both ≥ 0, and the bias
        values = K @ (z[:n] - z[n:-1]) + z[-1]
        slope = made.weight * loss.slope(made.target, values)
        g = K @ slope
        total = made.weight @ loss.value(made.target, values) + made.reg * z[:-1].sum()
        return total, np.concatenate([made.reg + g, made.reg - g, [slope.sum()]])

    bounds = [(0, None)] * (2 * n) + [(None, None) if bias else (0, 0)]
    found = minimize(
        smooth,
        np.zeros(2 * n + 1),
        jac=True,
        bounds=bounds,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-11, "maxiter": 20000},
    )
    assert_allclose(EXACT.solve(made).primal, found.fun, rtol=1e-8)


@both_losses
@with_and_without_bias
@given(st.integers(0, 10**6))
@settings(max_examples=10)
def test_the_gap_bounds_how_far_any_candidate_is_from_optimal(loss, bias, seed):
    made = problem(loss, 0.05, bias=bias)
    best = EXACT.solve(made).primal
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=90) * (rng.random(90) < 0.1)
    found = made.certified(coef, rng.normal() if bias else 0.0)
    assert found.dual <= best + 1e-9
    assert found.primal >= best - 1e-9


@both_losses
def test_duals_are_below_and_primals_above_in_every_round(loss):
    made = problem(loss, 0.01)
    best, seen = EXACT.solve(made).primal, []
    CoordinateDescent().solve(made, watch=lambda p: seen.append(p) or False)
    assert len(seen) > 2
    objectives = [p.objective for p in seen]
    assert objectives == sorted(objectives, reverse=True)
    for p in seen:
        assert p.objective - p.gap <= best * (1 + 1e-12) <= p.objective * (1 + 2e-12)


@both_losses
def test_solution_and_its_certificate_agree(loss):
    made = problem(loss, 0.02)
    solution = CoordinateDescent().solve(made)
    found = made.certified(solution.value, solution.bias)
    assert_allclose(found.primal, solution.primal, rtol=1e-12)
    assert found.gap <= 1e-4 * made.of_constant() * (1 + 1e-6)
    assert_allclose(solution.function, made.gram @ solution.value, atol=1e-10)


# The largest penalty


@both_losses
@with_and_without_bias
def test_from_the_largest_penalty_on_no_point_is_left(loss, bias):
    made = problem(loss, 1.0, bias=bias)
    assert not EXACT.solve(made).value.any()
    assert EXACT.solve(replace(made, reg=0.999 * made.reg)).value.any()


def test_without_points_the_bias_is_the_best_constant():
    found = EXACT.solve(problem(Squared(), 2.0))
    assert_allclose(found.bias, np.average(TARGET, weights=WEIGHT), rtol=1e-12)
    found = EXACT.solve(problem(Logistic(), 2.0))
    up = WEIGHT[SIDE > 0].sum()
    assert_allclose(found.bias, np.log(up / (WEIGHT.sum() - up)), rtol=1e-12)


@given(st.integers(0, 10**6), st.sampled_from([0.1, 3.0, 1e3]))
@settings(max_examples=25)
def test_best_constant_beside_a_function_has_slope_0(seed, size):
    F = np.random.default_rng(seed).normal(size=90) * size
    for loss in (Logistic(), Squared()):
        made = problem(loss)
        slope = made.weight * loss.slope(made.target, F + made.constant(F))
        assert abs(slope.sum()) <= 1e-9 * np.abs(slope).sum() + 1e-12


# Ways to the same solution


@both_losses
def test_columns_on_demand_give_what_the_matrix_gives(loss, monkeypatch):
    made = problem(loss, 0.01)
    whole = EXACT.solve(made)
    with monkeypatch.context() as patched:
        patched.setattr(Gram, "dense", None)
        lazy = replace(EXACT, cache_mb=1e-6).solve(made)
    assert_allclose(lazy.value, whole.value, atol=1e-8 * np.abs(whole.value).max())
    assert 0 < lazy.run.rows < 90
    assert lazy.run.reused > 0


@both_losses
@looped("cache_mb", [None, 1e-6])
def test_screening_leaves_out_only_points_that_end_at_0(loss, cache_mb):
    made = problem(loss, 0.01)
    with_it = replace(EXACT, cache_mb=cache_mb).solve(made)
    without = replace(EXACT, cache_mb=cache_mb, screening=False).solve(made)
    size = np.abs(without.value).max()
    assert_allclose(with_it.value, without.value, atol=1e-8 * size)


def test_screened_points_are_not_multiplied_again(monkeypatch):
    made, asked = problem(Logistic(), 0.3), []
    times = RBF.matmul

    def counted(self, A, B, V, **options):
        asked.append(len(A))
        return times(self, A, B, V, **options)

    monkeypatch.setattr(RBF, "matmul", counted)
    replace(EXACT, cache_mb=1e-6).solve(made)
    # The end is looked at with all points again.
    assert asked[0] == 90 and min(asked) < 90


@both_losses
def test_path_is_made_of_the_single_solutions(loss):
    made = problem(loss)
    regs = made.largest_reg() * np.geomspace(1, 1e-2, 6)
    for reg, solution in zip(regs, EXACT.path(made, regs), strict=True):
        alone = EXACT.solve(replace(made, reg=reg))
        assert_allclose(solution.value, alone.value, atol=1e-7)
        assert solution.status == "optimal"


def test_a_solution_is_a_good_start():
    made = problem(Logistic(), 0.01)
    first = CoordinateDescent().solve(made)
    again = CoordinateDescent().solve(made, start=first.value)
    assert again.run.iterations <= 1 < first.run.iterations


def test_two_solves_are_equal_bit_for_bit():
    made = problem(Logistic(), 0.01)
    first, second = (CoordinateDescent().solve(made) for _ in range(2))
    assert_array_equal(first.value, second.value)


# Limits


def test_solver_stops_when_it_is_told_and_goes_on_from_there():
    made = problem(Logistic(), 0.01)
    stopped = EXACT.solve(made, watch=lambda progress: progress.round == 3)
    assert stopped.status == "stopped"
    assert stopped.gap > 1e-12 * made.of_constant()
    assert_optimal(made, EXACT.solve(made, start=stopped.value))


def test_limit_on_steps_is_kept():
    made = problem(Logistic(), 0.01)
    found = CoordinateDescent(1e-12, max_iter=3).solve(made)
    assert found.status == "max_iter" and found.run.iterations == 3
    assert found.primal - EXACT.solve(made).primal <= found.gap


def test_what_rounding_hides_is_said():
    found = CoordinateDescent(tol=1e-18).solve(problem(Logistic(), 0.01))
    assert found.status == "stalled"
    assert found.gap <= 1e-12 * found.primal


@both_losses
def test_a_constant_similarity_leaves_it_to_the_bias(loss):
    found = EXACT.solve(L1Problem(Gram(Constant(2.0), X), SIDE, loss, 1e-3, WEIGHT))
    assert not found.value.any() and found.status == "optimal"


def test_one_point_is_its_own_constant():
    found = EXACT.solve(L1Problem(Gram(RBF(1.0), X[:1]), [3.0], Squared(), 0.1))
    assert found.bias == 3.0 and not found.value.any()
    alone = L1Problem(Gram(RBF(1.0), X[:1]), [3.0], Squared(), 0.5, bias=False)
    assert_allclose(EXACT.solve(alone).value, [2.75])  # 2(c - 3) + ½ = 0


def test_too_many_columns_for_the_memory_are_refused(monkeypatch):
    monkeypatch.setattr("mercer.native.memory.available_memory", lambda: 90 * 8 * 20.0)
    with pytest.raises(MemoryError, match="Penalise more"):
        replace(EXACT, cache_mb=1e-6).solve(problem(Squared(), 0.01))


@looped(
    "changes, message",
    [
        ({"reg": 0.0}, "reg > 0"),
        ({"reg": float("nan")}, "reg > 0"),
        ({"loss": Hinge()}, "Logistic\\(\\) or Squared"),
        ({"target": SIDE[:5]}, "one finite target per point"),
        ({"target": 2 * SIDE}, "targets \\+1 and -1"),
        ({"target": np.ones(90)}, "both classes"),
        ({"weight": np.arange(90.0)}, "weights > 0; point 0 has 0"),
        ({"gram": Gram(RBF(1.0), X, X[:4])}, "square Gram"),
    ],
)
def test_what_is_no_problem_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(problem(Logistic()), **changes)


@looped("value", [np.nan, np.inf])
def test_kernel_values_that_are_not_finite_are_refused(value):
    K = problem(Squared()).gram.dense()
    K[3, 5] = K[5, 3] = value
    made = replace(problem(Squared()), gram=Gram(Precomputed(K), np.arange(90)))
    with pytest.raises(ValueError, match="not finite"):
        EXACT.solve(made)


def test_tolerance_is_positive():
    with pytest.raises(ValueError, match="tol > 0"):
        CoordinateDescent(tol=0)


def test_kernel_values_from_elsewhere_serve():
    made = problem(Squared(), 0.05)
    K = Gram(Precomputed(made.gram.dense()), np.arange(90))
    found = EXACT.solve(replace(made, gram=K))
    assert_allclose(found.value, EXACT.solve(made).value, atol=1e-9)
