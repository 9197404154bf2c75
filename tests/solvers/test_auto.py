"""What chooses a solver is a solver: same optimum, small problems to rounding."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mercer import SVC, Linear, Nystrom
from mercer.gram import Gram
from mercer.kernels.radial import RBF
from mercer.kernels.substring import Spectrum
from mercer.kernels.ways import BlockFunction, Precomputed
from mercer.losses import EpsilonInsensitive, Hinge, Logistic, Quantile, Squared
from mercer.native import memory
from mercer.solvers import (
    SMO,
    CoordinateDescent,
    L1Problem,
    Newton,
    Penalized,
    SemismoothNewton,
    one_class,
    svc,
)
from mercer.solvers.auto import (
    AutoL1,
    AutoPenalized,
    held_for_many,
    held_for_passes,
    support,
)
from mercer.solvers.auto.costs import by_rows_of_map
from mercer.solvers.auto.support import support_share

rng = np.random.default_rng(5)
X = rng.normal(size=(300, 2))
SIDES = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
NUMBERS = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=300)
FEW = 60
LOSSES = [Hinge(), Logistic(), Squared(), EpsilonInsensitive(0.1), Quantile(0.3)]
on_losses = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def gram(n=300, kernel=None):
    return Gram(RBF(0.5) if kernel is None else kernel, X[:n])


def penalized(loss, n=300, **options):
    target = SIDES if loss.of_sides else NUMBERS
    return Penalized(gram(n), target[:n], loss, **({"reg": 0.01} | options))


def l1(n=300, reg=0.5):
    return L1Problem(gram(n), SIDES[:n], Logistic(), reg)


# Penalties on the norm


@on_losses
@pytest.mark.parametrize("n", [FEW, 300])
def test_the_gap_is_below_tol(loss, n):
    problem = penalized(loss, n)
    found = AutoPenalized(1e-5).solve(problem)
    assert found.status == "optimal"
    assert 0 <= found.gap + found.objective_rounding <= 1e-5 * problem.zero_loss


@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.1)], ids=repr)
def test_small_problems_of_straight_pieces_are_solved_to_rounding(loss, monkeypatch):
    problem = penalized(loss, FEW)
    found = AutoPenalized(1e-2).solve(problem)
    assert found.gap <= 1e-9 * problem.zero_loss and found.run.precision == "double"
    monkeypatch.setattr("mercer.solvers.auto.penalized.SMALL", FEW - 1)
    assert AutoPenalized(1e-2).solve(problem).gap > found.gap


def test_a_small_problem_with_a_limit_keeps_to_it():
    found = AutoPenalized(1e-4, max_iter=3).solve(penalized(Hinge(), FEW))
    assert found.status == "max_iter" and found.run.iterations == 3


@on_losses
def test_a_ball_gives_the_reg_of_its_solution(loss):
    whole = AutoPenalized(1e-8).solve(penalized(loss, FEW))
    size = np.sqrt(whole.value @ (np.asarray(whole.function) - whole.bias))
    ball = penalized(loss, FEW, reg=None, norm=float(size) / 2)
    found = AutoPenalized(1e-6).solve(ball)
    again = AutoPenalized(1e-8).solve(penalized(loss, FEW, reg=found.reg))
    inner = again.value @ (np.asarray(again.function) - again.bias)
    assert found.reg > 0.01
    assert_allclose(np.sqrt(inner), size / 2, rtol=1e-2)


@pytest.mark.parametrize(
    "loss, solver",
    [(Hinge(), SMO(max_iter=1)), (Logistic(), Newton(1e-9, max_iter=1))],
    ids=repr,
)
def test_a_solver_of_ones_own_takes_the_place_of_what_is_chosen(loss, solver):
    found = AutoPenalized(1e-9, solver=solver).solve(penalized(loss, FEW))
    assert found.status == "max_iter" and found.run.iterations == 1


# Penalties on the coefficients


@pytest.mark.parametrize("n", [FEW, 300])
def test_the_gap_of_an_l1_problem_is_below_tol(n):
    problem = l1(n)
    found = AutoL1(1e-3).solve(problem)
    goal = 1e-3 * problem.of_constant()
    assert found.status == "optimal" and found.gap + found.rounding <= goal
    small = found.gap <= 1e-10 * problem.of_constant()
    assert small == (n == FEW)


def test_l1_problems_on_the_same_points_read_k_once():
    asked = []

    def values(A, B):
        asked.append(len(A) * len(B))
        return RBF(0.5)(A, B)

    shared = gram(kernel=BlockFunction(values))
    solver, problem = AutoL1(1e-3), L1Problem(shared, SIDES, Logistic(), 0.5)
    first = solver.solve(problem)
    once = sum(asked)
    second = solver.solve(replace(problem, reg=0.25), start=first.value)
    assert second.status == "optimal"
    # What it still computes are products with K for the certificate.
    again = sum(asked) - once
    asked.clear()
    AutoL1(1e-3).solve(replace(problem, reg=0.25), start=first.value)
    assert again == sum(asked) - 300 * 300
    other = L1Problem(gram(FEW), SIDES[:FEW], Logistic(), 0.5)
    assert_array_equal(solver.solve(other).value, AutoL1(1e-3).solve(other).value)


def test_a_limit_at_the_goal_is_no_early_end():
    problem = l1(FEW)
    found = AutoL1(0.9, max_iter=1).solve(problem)  # to rounding would take more
    assert found.status == "optimal" and found.run.iterations == 1
    early = AutoL1(1e-9, max_iter=1).solve(problem)
    assert early.status == "max_iter"
    own = AutoL1(1e-9, solver=CoordinateDescent(0.9, max_iter=1)).solve(problem)
    assert own.status == "optimal"


# K in memory


def test_k_is_held_for_many_problems_where_it_fits(monkeypatch):
    lazy = Gram(RBF(0.5), X.astype(np.float32))
    held = held_for_many(lazy)
    assert held.is_held and held.X.dtype == np.float32
    assert held.dense().dtype == np.float64
    assert_array_equal(held.dense(), RBF(0.5)(X.astype(np.float32).astype(float)))
    assert held_for_many(held) is held
    matrix = Gram(Precomputed(held.dense()), np.arange(300))
    assert held_for_many(matrix) is matrix
    monkeypatch.setattr(memory, "available_memory", lambda: 8.0 * 300**2)
    assert held_for_many(lazy) is lazy


def test_k_is_held_for_many_passes_where_it_is_slow(monkeypatch):
    words = ["ab", "ba", "abab", "bbb"]
    slow, compiled = Gram(Spectrum(2) + 1, words), Gram(RBF(0.5) + 1, X)
    held = held_for_passes(slow)
    assert_array_equal(held.X, np.arange(4))
    assert_array_equal(held.dense(), slow.dense())
    assert held_for_passes(compiled) is compiled
    assert held_for_passes(held) is held
    monkeypatch.setattr(memory, "available_memory", lambda: 0.0)
    assert held_for_passes(slow) is slow


# Rows of a map by SMO, where few points will have a coefficient


def classes_apart(n, kinds, seed=0, noise=0.0):
    """Points in clouds far apart, 60 columns; some of them change their class."""
    draw = np.random.default_rng(seed)
    centers = 4 * draw.normal(size=(kinds, 60)) / np.sqrt(60)
    y = draw.integers(kinds, size=n)
    points = centers[y] + 0.3 * draw.normal(size=(n, 60))
    changed = draw.random(n) < noise
    return points, np.where(changed, draw.integers(kinds, size=n), y)


@pytest.mark.parametrize("kinds", [2, 3])
def test_few_support_vectors_of_landmarks_are_found_by_rows_of_the_map(kinds):
    points, y = classes_apart(5000 * kinds // 2, kinds)
    kernel = Nystrom(RBF(0.02), 400)
    by_rows = SVC(C=10, kernel=kernel, tol=1e-5).fit(points, y)
    assert by_rows.certificate_.run.rows > 0
    on_map = SVC(C=10, kernel=kernel, solver=SemismoothNewton()).fit(points, y)
    assert on_map.certificate_.run.rows == 0
    assert by_rows.certificate_.status == on_map.certificate_.status == "optimal"
    assert_allclose(by_rows.certificate_.primal, on_map.certificate_.primal, rtol=1e-4)
    assert by_rows.certificate_.dual <= on_map.certificate_.primal
    f, g = (one.decision_function(points[:500]) for one in (by_rows, on_map))
    assert_allclose(f, g, atol=0.02)
    assert len(by_rows.expansion_.points) == 400  # its landmarks


def test_many_support_vectors_of_landmarks_are_found_on_the_map():
    points, y = classes_apart(6000, 2, noise=0.4)
    found = SVC(C=10, kernel=Nystrom(RBF(0.02), 400)).fit(points, y)
    assert found.certificate_.run.rows == 0


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_the_share_of_support_vectors_is_foreseen_within_a_factor(noise):
    points, y = classes_apart(4000, 2, noise=noise)
    sides = np.where(y == 1, 1.0, -1.0)
    problem = svc(Gram(RBF(0.02), points), sides, upper=10.0)
    found = SMO().solve(problem)
    true = np.count_nonzero(problem.coef(found.value)) / len(points)
    assert true / 3 <= support_share(problem) <= 3 * true


def test_samples_that_are_hard_for_smo_leave_points_to_the_map(monkeypatch):
    points, y = classes_apart(5000, 2)
    monkeypatch.setattr(support, "BUDGET", 0.001)  # one step of SMO
    found = SVC(C=10, kernel=Nystrom(RBF(0.02), 400)).fit(points, y)
    assert found.certificate_.run.rows == 0
    assert found.certificate_.status == "optimal"


def test_samples_of_one_class_have_some_support_vectors():
    points, _ = classes_apart(4000, 2)
    sides = np.ones(len(points))
    sides[:3] = -1.0
    problem = svc(Gram(RBF(0.02), points), sides, upper=10.0)
    assert 0 < support_share(problem) < 0.1


def test_the_share_of_support_vectors_follows_from_a_fixed_sum():
    problem = one_class(Gram(RBF(0.5), X), 0.3)
    found = SMO().solve(problem)
    true = np.count_nonzero(found.value) / len(X)
    assert true / 1.3 <= support_share(problem) <= 1.3 * true


def test_rows_of_a_map_have_the_values_of_its_kernel():
    kernel = Nystrom(RBF(0.5), 50).resolve(X)
    mapped = by_rows_of_map(Gram(kernel, X))
    assert mapped.kernel == Linear()
    assert_allclose(mapped.dense(), kernel(X), atol=1e-12)
    known = gram()
    assert by_rows_of_map(known) is known  # the core computes these itself
