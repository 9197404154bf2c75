"""Newton's method, the ball, conjugate gradients: scipy's optima, gaps, exact cases."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose
from scipy.linalg import block_diag
from scipy.optimize import minimize

from mercer.gram import Gram
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear
from mercer.kernels.ways import Precomputed
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
from mercer.solvers.auto import BySize
from mercer.solvers.ball import within_ball
from mercer.solvers.cholesky import Cholesky
from mercer.solvers.columns import CurvatureRoot
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.krylov import LowRank, Products, conjugate_gradient, factor
from mercer.solvers.linear import LinearSystem
from mercer.solvers.newton import Newton, Softmax
from mercer.solvers.penalized import Penalized, certificate, certified, unboxed
from mercer.solvers.smo import SMO

CURVED = [Squared(), Huber(0.3), SquaredHinge(), Logistic()]
STRAIGHT = [Hinge(), PerceptronLoss(), EpsilonInsensitive(0.1), Quantile(0.3)]
LOSSES = CURVED + STRAIGHT

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 2))
NUMBERS = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=40)
SIDES = np.where(X[:, 0] + 0.5 * rng.normal(size=40) > 0, 1.0, -1.0)
WEIGHT = rng.uniform(0.3, 3, size=40)
GRAM = Gram(RBF(0.7), X)


def problem(loss, reg=1e-2, gram=GRAM, **options):
    target = SIDES if loss.of_sides else NUMBERS
    return Penalized(gram, target[: gram.shape[0]], loss, reg, **options)


def solve(problem, start=None, tol=1e-10):
    if problem.loss.curved:
        return Newton(tol).solve(problem, start=start)
    box = problem.boxed()
    start = None if start is None else box.start(start)
    return unboxed(problem, SMO(tol, precision="double").solve(box, start=start))


def ids(loss):
    return repr(loss)


on_losses = looped("loss", LOSSES, ids=ids)
on_curved = looped("loss", CURVED, ids=ids)
with_bias = looped("bias", [False, True], ids=["", "bias"])


def objective(problem, root, bias):
    """What the theorem minimises, of coordinates w in an orthonormal basis of the span:

    f = root @ w with root rootᵀ = K and ‖f‖ = ‖w‖.
    """

    def value(w):
        f = root @ w[: root.shape[1]] + (w[-1] if bias else 0.0)
        losses = problem.loss.value(problem.target, f)
        mean = problem.weights @ losses / problem.weights.sum()
        return problem.reg * w[: root.shape[1]] @ w[: root.shape[1]] + mean

    return value


@on_losses
@with_bias
def test_no_function_of_scipy_s_is_better(loss, bias):
    made = problem(loss, weight=WEIGHT, bias=bias)
    found = solve(made)
    values, vectors = np.linalg.eigh(GRAM.dense())
    kept = values > 1e-10
    root = vectors[:, kept] * np.sqrt(values[kept])
    value = objective(made, root, bias)
    # The coordinates of our f, moved a little, are where scipy starts.
    w = (root.T / values[kept][:, None]) @ (np.asarray(found.function) - found.bias)
    w = np.append(w, found.bias) if bias else w
    assert_allclose(value(w), found.primal, rtol=1e-6, atol=1e-9)
    best = minimize(value, w + 0.01 * rng.normal(size=len(w)), method="Powell")
    assert found.primal <= best.fun + 1e-9
    assert found.dual <= best.fun + 1e-9


@on_losses
@with_bias
def test_gap_is_small_and_not_negative(loss, bias):
    found = solve(problem(loss, weight=WEIGHT, bias=bias))
    assert found.status == "optimal"
    assert -1e-13 <= found.gap <= 1e-9


@on_losses
@with_bias
def test_gap_follows_the_conjugates(loss, bias):
    # gap = mean of ℓ(f) + ℓ*(u) - u f with c = -w u / (2 reg m), f with its bias.
    made = problem(loss, weight=WEIGHT, bias=bias)
    found = solve(made)
    u = -2 * made.reg * WEIGHT.sum() * found.value / WEIGHT
    low, high = loss.slopes(made.target)
    assert np.all((u >= low - 1e-9) & (u <= high + 1e-9))
    u = np.clip(u, low, high)
    f = np.asarray(found.function)
    each = loss.value(made.target, f) + loss.conjugate(made.target, u) - u * f
    assert np.all(each >= -1e-12)
    assert WEIGHT @ each / WEIGHT.sum() <= 1e-8


@on_losses
def test_any_slopes_bound_the_optimum_from_below(loss):
    made = problem(loss)
    best = solve(made).primal
    low, high = loss.slopes(made.target)
    low, high = np.maximum(low, -3), np.minimum(high, 3)
    for _ in range(10):
        u = rng.uniform(low, high)
        square = float(u @ (GRAM @ u))
        assert made.dual(u, square) <= best + 1e-10


@on_curved
@with_bias
@looped("reg", [1.0, 1e-2, 1e-5])
def test_conjugate_gradients_and_factors_agree(loss, bias, reg):
    made = problem(loss, reg, weight=WEIGHT, bias=bias)
    expected = Newton(1e-12).solve(made)
    found = Newton(1e-10, direct=0).solve(made)
    assert found.status == "optimal"
    assert_allclose(found.function, expected.function, atol=1e-3)
    assert_allclose(found.primal, expected.primal, atol=1e-9)


@on_curved
@with_bias
def test_gradient_vanishes_to_rounding(loss, bias):
    made = problem(loss, weight=WEIGHT, bias=bias)
    found = Newton().solve(made)
    f = GRAM.dense() @ found.value + found.bias
    slope = WEIGHT * loss.slope(made.target, f)
    assert_allclose(made.strength * found.value + slope, 0, atol=1e-10)
    if bias:
        assert abs(found.value.sum()) < 1e-9


def test_squared_loss_is_one_linear_system():
    reg = 0.02
    made = problem(Squared(), reg, weight=WEIGHT)
    c = Cholesky().solve(LinearSystem(GRAM, NUMBERS, reg * WEIGHT.sum(), WEIGHT)).value
    assert_allclose(Newton().solve(made).value, c, rtol=1e-9)


@on_curved
def test_steps_are_few_and_a_start_at_the_optimum_takes_none(loss):
    made = problem(loss, 1e-4)
    found = Newton(1e-8, direct=0).solve(made)
    assert found.run.iterations <= 25
    again = Newton(1e-6, direct=0).solve(made, start=found.value)
    assert again.run.iterations == 0


def test_steps_of_conjugate_gradients_reach_what_double_precision_can():
    # Where steps in single precision no longer lead down, b is set anew for products in
    # double, and steps in double follow.
    for gamma in (0.7, 5.0):
        gram = Gram(RBF(gamma), X)
        for loss, bias, reg in product(CURVED, (False, True), (1e-4, 1e-5, 1e-6)):
            made = problem(loss, reg, gram, weight=WEIGHT, bias=bias)
            assert Newton(1e-8, direct=0).solve(made).status == "optimal"


def test_two_columns_of_softmax_are_the_logistic_loss():
    # f₁ = -f₀ = f/2: ‖f₀‖² + ‖f₁‖² = ‖f‖²/2.
    two = Penalized(GRAM, (SIDES > 0).astype(int), Softmax(2), 2e-2, bias=True)
    one = problem(Logistic(), 1e-2, bias=True)
    found, expected = Newton(1e-12).solve(two), Newton(1e-12).solve(one)
    assert_allclose(np.diff(np.asarray(found.function))[:, 0], expected.function,
                    atol=1e-8)  # fmt: skip
    assert_allclose(found.primal, expected.primal, rtol=1e-9)


@looped("direct", [1500, 0], ids=["factored", "iterated"])
@with_bias
def test_softmax_is_at_its_optimum(direct, bias):
    target = np.digitize(NUMBERS, [-0.5, 0.3])
    made = Penalized(GRAM, target, Softmax(3), 1e-2, weight=WEIGHT, bias=bias)
    found = Newton(1e-10, direct=direct).solve(made)
    assert found.status == "optimal" and -1e-13 <= found.gap <= 2e-10
    slope = Softmax(3).slope(target, found.function)
    residual = made.strength * found.value + WEIGHT[:, None] * slope
    assert np.abs(residual).max() < 1e-3
    fresh = certified(made, found.value, np.broadcast_to(found.bias, 3), 1e-2)
    assert_allclose([fresh.primal, fresh.dual], [found.primal, found.dual], atol=1e-9)


def test_softmax_slopes_and_conjugate_follow_the_definition():
    loss, target = Softmax(3), np.array([0, 2, 1, 1])
    f = rng.normal(size=(4, 3))
    u = loss.slope(target, f)
    for i, y in enumerate(target):
        e = np.exp(f[i])
        assert_allclose(loss.value(target, f)[i], -np.log(e[y] / e.sum()))
        assert_allclose(u[i], e / e.sum() - (np.arange(3) == y))
    equality = np.sum(u * f, axis=1)
    assert_allclose(loss.value(target, f) + loss.conjugate(target, u), equality)
    other = loss.slope(target, rng.normal(size=(4, 3)))
    slack = loss.value(target, f) + loss.conjugate(target, other)
    assert np.all(slack >= np.sum(other * f, axis=1) - 1e-12)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(CURVED), st.booleans())
def test_newton_reaches_any_optimum(seed, loss, bias):
    random = np.random.default_rng(seed)
    n = int(random.integers(1, 12))
    points = random.normal(size=(n, 2)) * random.choice([0.1, 1, 10])
    points[random.random(n) < 0.3] = points[0]  # duplicates
    target = np.sign(random.normal(size=n)) if loss.of_sides else random.normal(size=n)
    if bias and loss.of_sides and len(set(target)) < 2:
        target[0] = -target[0]
    bias = bias and (n > 1 or not loss.of_sides)
    reg = 10.0 ** random.integers(-5, 2)
    found = Newton(1e-8).solve(
        Penalized(Gram(RBF(0.5), points), target, loss, reg, bias=bias)
    )
    assert found.status == "optimal"
    assert found.gap <= 1e-7 * max(1, found.primal)


def test_one_point_has_its_closed_form():
    # min reg c² k + (y - c k)² at k = 1: c = y / (1 + reg).
    made = Penalized(Gram(RBF(1.0), [[0.0]]), np.array([2.0]), Squared(), 0.25)
    assert_allclose(Newton().solve(made).value, [1.6])


def test_targets_of_zero_have_the_function_zero():
    made = Penalized(GRAM, np.zeros(40), Squared(), 0.1)
    found = Newton().solve(made)
    assert not found.value.any() and found.status == "optimal" and found.gap == 0


def test_watch_sees_the_gap_fall_and_may_stop():
    seen = []

    def watch(progress):
        seen.append(progress)
        return len(seen) == 2

    found = Newton(1e-12).solve(problem(Logistic(), 1e-4), watch=watch)
    assert found.status == "stopped" and found.run.iterations == 1
    assert seen[1].gap < seen[0].gap and seen[1].objective < seen[0].objective


def test_few_steps_are_said():
    found = Newton(1e-12, max_iter=1).solve(problem(Logistic(), 1e-4))
    assert found.status == "max_iter" and found.gap > 1e-12


@looped("direct", [1500, 0], ids=["factored", "iterated"])
def test_an_indefinite_kernel_is_said(direct):
    gram = Gram(Sigmoid(2.0, -1.0), X)
    found = Newton(direct=direct).solve(problem(Logistic(), 1e-4, gram=gram))
    assert found.status == "indefinite" and np.isnan(found.primal)
    assert np.isfinite(found.value).all()


def test_a_matrix_found_indefinite_is_said():
    matrix = -GRAM.dense()
    gram = Gram(Precomputed(matrix), np.arange(40))
    found = Newton().solve(problem(Squared(), 1e-3, gram=gram))
    assert found.status == "indefinite"


@looped(
    "options, message",
    [
        ({"reg": None}, "reg or norm"),
        ({"norm": 1.0}, "reg or norm"),
        ({"reg": 0.0}, "finite reg > 0"),
        ({"reg": None, "norm": np.inf}, "finite norm > 0"),
        ({"weight": np.zeros(40)}, "weights > 0"),
    ],
    ids=str,
)
def test_problems_without_sense_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        problem(Squared(), **options)
    with pytest.raises(ValueError, match="tol > 0"):
        Newton(0)
    with pytest.raises(ValueError, match="target for each"):
        Penalized(GRAM, NUMBERS[:3], Squared(), 1.0)


# The ball


@on_losses
@with_bias
def test_norm_form_and_penalty_form_agree_at_matching_norm(loss, bias):
    reg = 1e-2
    expected = solve(problem(loss, reg, bias=bias))
    values = np.asarray(expected.function) - expected.bias
    B = float(np.sqrt(expected.value @ values))
    if B < 1e-9:  # the perceptron loss is 0 at f = 0
        assert isinstance(loss, PerceptronLoss)
        B = 1.0
    made = problem(loss, None, norm=B, bias=bias)
    solution = within_ball(made, solve, 1e-8)
    assert solution.status == "optimal" and -1e-12 <= solution.gap <= 1e-7
    inner = np.asarray(solution.function) - solution.bias
    assert np.sqrt(max(solution.value @ inner, 0)) <= B * (1 + 1e-9)
    assert_allclose(solution.function, expected.function, atol=2e-3)
    if loss.curved:
        assert_allclose(solution.reg, reg, rtol=1e-2)


def test_ball_that_holds_the_best_function_is_not_felt():
    # y is f at the points for an f of norm 2: a ball of radius 5 loses nothing.
    c = rng.normal(size=40)
    c *= 2 / np.sqrt(c @ (GRAM @ c))
    made = Penalized(GRAM, GRAM @ c, Squared(), norm=5.0)
    solution = within_ball(made, solve, 1e-7)
    assert solution.status == "optimal" and solution.primal < 1e-6
    assert np.sqrt(solution.value @ solution.function) < 3


def test_loss_falls_and_norm_grows_with_the_ball():
    radii, losses = [0.1, 1.0, 3.0, 10.0], []
    for B in radii:
        made = problem(Logistic(), None, norm=B)
        solution = within_ball(made, solve, 1e-7)
        losses.append(solution.primal)
        assert np.sqrt(solution.value @ solution.function) <= B * (1 + 1e-9)
    assert np.all(np.diff(losses) < 0)


def test_ball_of_an_indefinite_kernel_is_refused():
    gram = Gram(Sigmoid(2.0, -1.0), X)
    with pytest.raises(ValueError, match="f has no norm"):
        within_ball(problem(Squared(), None, norm=1.0, gram=gram), solve, 1e-4)


# Certificates


@on_losses
@with_bias
def test_certificate_is_found_again_from_the_coefficients(loss, bias):
    made = problem(loss, weight=WEIGHT, bias=bias)
    found = solve(made)
    expected = certificate(made, found)
    again = certified(made, found.value[:, None], np.array([found.bias]), made.reg)
    assert_allclose(again.primal, expected.primal, rtol=1e-9, atol=1e-12)
    assert_allclose(again.dual, expected.dual, atol=1e-8)
    assert (again.n_free, again.n_bound) == (expected.n_free, expected.n_bound)


# Conjugate gradients


def test_factor_of_full_rank_is_exact():
    K = GRAM.dense()
    L = factor(GRAM, 40)
    assert_allclose(L @ L.T, K, atol=1e-10)


def test_factor_ends_at_the_rank_of_the_matrix():
    L = factor(Gram(Linear(), X), 30)
    assert L.shape == (40, 2)
    assert_allclose(L @ L.T, X @ X.T, atol=1e-10)


def test_factor_leaves_a_semidefinite_rest():
    K = GRAM.dense()
    for rank in (1, 5, 15):
        L = factor(GRAM, rank)
        assert L.shape[1] == rank
        assert np.linalg.eigvalsh(K - L @ L.T).min() > -1e-10


def test_low_rank_inverse_is_the_inverse():
    L, scale = rng.normal(size=(20, 4)), rng.random((20, 1))
    V = rng.normal(size=(20, 3))
    left = scale * L
    expected = np.linalg.solve(0.3 * np.eye(20) + left @ left.T, V)
    assert_allclose(LowRank(L, scale, 0.3)(V), expected, rtol=1e-10)


def test_products_in_single_precision_agree_with_double(monkeypatch):
    V = rng.normal(size=(40, 3)) * [1e-30, 1.0, 1e30]
    for share in (1.0, 0.0):
        monkeypatch.setattr("mercer.native.memory.KEPT_SHARE", share)
        error = np.abs(Products(GRAM)(V) - GRAM @ V).max(axis=0)
        assert np.all(error <= 1e-5 * np.abs(V).max(axis=0))


def test_conjugate_gradients_say_that_a_matrix_is_not_convex():
    found = conjugate_gradient(
        lambda V: np.array([[1.0], [-1.0]]) * V,
        np.ones((2, 1)) * [[0.5], [1.0]],
        lambda r: r,
        lambda r: np.linalg.norm(r) < 1e-9,
        10,
    )
    assert not found.convex


@looped("dtype", [np.float64, np.float32])
@looped("reg", [1.0, 1e-3, [0.5, 1e-2, 0.5]], ids=str)
@looped("weighted", [False, True])
def test_conjugate_gradients_solve_the_system_to_their_residual(dtype, reg, weighted):
    points = rng.normal(size=(300, 3)).astype(dtype)
    targets = rng.normal(size=(300, 3))
    weight = None
    if weighted:
        weight = rng.uniform(0.2, 3, size=300)
        weight[:10] = 0
    system = LinearSystem(Gram(RBF(0.3), points), targets, reg, weight)
    found = ConjugateGradient(1e-9).solve(system)
    assert found.status == "optimal" and found.violation <= 1e-9
    wide = Gram(RBF(0.3), points.astype(float))
    expected = Cholesky().solve(LinearSystem(wide, targets, reg, weight))
    K = wide.dense()
    # The residual bounds the error of f at the points, by K (K + λI)⁻¹ ≤ I.
    root = 1.0 if weight is None else np.sqrt(weight)[:, None]
    error = np.linalg.norm(root * (K @ (found.value - expected.value)), axis=0)
    assert np.all(error <= 2e-9 * np.linalg.norm(root * targets, axis=0) + 1e-12)
    assert_allclose(found.primal, expected.primal, rtol=1e-7)
    assert_allclose(found.dual, expected.dual, rtol=1e-7)


def test_conjugate_gradients_of_one_target_keep_its_shape_and_start():
    system = LinearSystem(GRAM, NUMBERS, 0.1)
    found = ConjugateGradient(1e-10).solve(system)
    assert found.value.shape == (40,)
    again = ConjugateGradient(1e-9).solve(system, start=found.value)
    assert again.run.iterations == 0


def test_conjugate_gradients_say_what_kept_them():
    system = LinearSystem(GRAM, NUMBERS, 1e-6)
    assert ConjugateGradient(1e-9, 2, rank=1).solve(system).status == "max_iter"
    stopped = ConjugateGradient(1e-9, rank=1).solve(system, watch=lambda seen: True)
    assert stopped.status == "stopped" and stopped.run.iterations == 1
    minus = LinearSystem(Gram(Precomputed(-GRAM.dense()), np.arange(40)), NUMBERS, 0.1)
    assert ConjugateGradient().solve(minus).status == "indefinite"
    with pytest.raises(ValueError, match="needs reg > 0"):
        ConjugateGradient().solve(LinearSystem(GRAM, NUMBERS, 0.0))


def test_linear_solver_by_size_is_exact_where_gradients_give_up():
    for reg in (1.0, 1e-10, 0.0):
        system = LinearSystem(GRAM, NUMBERS, reg)
        found = BySize(few=10).solve(system)
        assert found.violation <= 1e-8 or found.status in ("singular", "imprecise")
        assert_allclose(
            GRAM @ found.value, GRAM @ Cholesky().solve(system).value, atol=1e-6
        )


def test_curvatures_of_softmax_are_those_of_the_dense_matrix():
    rng = np.random.default_rng(0)
    n, k = 12, 3
    f, w = rng.normal(size=(n, k)), rng.uniform(0.5, 2, size=(n, 1))
    p = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
    blocks = [w[i, 0] * (np.diag(p[i]) - np.outer(p[i], p[i])) for i in range(n)]
    H = block_diag(*blocks)
    ones = np.tile(np.eye(k), (n, 1))  # a constant for each column
    less = H - H @ ones @ np.linalg.pinv(ones.T @ H @ ones) @ ones.T @ H
    v = rng.normal(size=(n, k))
    for bias, matrix in ((False, H), (True, less)):
        root = CurvatureRoot(np.sqrt(w * p), np.sqrt(p), bias)
        expected = (matrix @ v.ravel()).reshape(n, k)
        assert_allclose(root.bent(v), expected, atol=1e-12)
        assert_allclose(root.up(root.down(v)), expected, atol=1e-12)
        if bias:
            basis = root.basis
            assert_allclose(basis.T @ basis, np.eye(k - 1), atol=1e-12)
            assert_allclose(root.down(np.ones((n, k)) * [1, 2, 3]), 0, atol=1e-12)
