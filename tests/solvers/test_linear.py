"""(K + diag(λ/w)) c = y: the solver against the equations themselves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose

from mercer.gram import Gram
from mercer.kernels.ways import BlockFunction, Precomputed
from mercer.native import memory
from mercer.outcomes import Solution
from mercer.solvers.cholesky import Cholesky, inverse_diagonal
from mercer.solvers.linear import LinearSystem


def random_system(n=30, q=None, reg=0.5, weighted=False, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, n))
    gram = Gram(Precomputed(A @ A.T), np.arange(n))
    target = rng.normal(size=n if q is None else (n, q))
    weight = rng.integers(1, 4, n) * rng.random(n) if weighted else None
    return LinearSystem(gram, target, reg, weight)


def matrices(problem):
    """K + diag(reg/weight), one for each target."""
    K = problem.gram.dense()
    weight = np.ones(len(K)) if problem.weight is None else problem.weight
    targets = problem.target.reshape(len(K), -1).shape[1]
    return [K + np.diag(r / weight) for r in np.broadcast_to(problem.reg, targets)]


systems = looped(
    "problem",
    [
        random_system(),
        random_system(reg=0.0),
        random_system(q=3),
        random_system(q=1),
        random_system(weighted=True),
        random_system(q=4, reg=np.array([0.1, 2.0, 0.1, 7.0])),
        random_system(q=2, reg=np.array([1.0, 3.0]), weighted=True),
        random_system(n=700, q=2, reg=1.0),
        random_system(n=1),
    ],
    ids=lambda problem: f"{np.shape(problem.target)} reg={problem.reg}",
)


@systems
def test_solution_solves_the_system(problem):
    solution = Cholesky().solve(problem)
    assert solution.value.shape == problem.target.shape
    columns = zip(
        matrices(problem),
        solution.value.reshape(len(solution.value), -1).T,
        problem.target.reshape(len(solution.value), -1).T,
        strict=True,
    )
    for A, c, y in columns:
        assert_allclose(c, np.linalg.solve(A, y), rtol=1e-7, atol=1e-9)
    assert solution.status == "optimal"
    assert solution.violation < 1e-10


@systems
def test_inverse_diagonal_is_the_diagonal_of_the_inverse(problem):
    diagonal = inverse_diagonal(problem)
    assert diagonal.shape == problem.target.shape
    expected = [np.linalg.inv(A).diagonal() for A in matrices(problem)]
    assert_allclose(diagonal.reshape(len(diagonal), -1).T, expected, rtol=1e-7)


@systems
def test_primal_and_dual_meet_at_the_optimum(problem):
    solution = Cholesky().solve(problem)
    K = problem.gram.dense()
    n = len(K)
    c, y = solution.value.reshape(n, -1), problem.target.reshape(n, -1)
    weight = (np.ones(n) if problem.weight is None else problem.weight)[:, None]
    reg = np.broadcast_to(problem.reg, c.shape[1:])
    primal = (np.sum(reg * c * (K @ c)) + np.sum(weight * (y - K @ c) ** 2)) / 2
    assert_allclose(solution.primal, primal, rtol=1e-8, atol=1e-12)
    assert abs(solution.gap) <= 1e-8 * (1 + solution.primal)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.floats(1e-3, 1e3))
def test_no_other_function_has_a_smaller_primal_objective(seed, reg):
    problem = random_system(n=8, reg=reg, weighted=True, seed=seed)
    K, y, weight = problem.gram.dense(), problem.target, problem.weight
    solution = Cholesky().solve(problem)

    def primal(c):
        return (reg * c @ K @ c + np.sum(weight * (y - K @ c) ** 2)) / 2

    shifted = solution.value + np.random.default_rng(seed).normal(size=8)
    assert primal(shifted) >= solution.primal * (1 - 1e-9)
    assert solution.dual <= primal(shifted) * (1 + 1e-9)


def test_weight_zero_is_absence():
    problem = random_system(q=2, weighted=True)
    problem.weight[::3] = 0
    kept = np.flatnonzero(problem.weight)
    part = LinearSystem(
        problem.gram.take(kept), problem.target[kept], 0.5, problem.weight[kept]
    )
    solution, alone = Cholesky().solve(problem), Cholesky().solve(part)
    assert_allclose(solution.value[kept], alone.value, rtol=1e-12)
    assert not solution.value[::3].any()
    assert_allclose(solution.primal, alone.primal, rtol=1e-12)
    assert_allclose(inverse_diagonal(problem)[kept], inverse_diagonal(part), rtol=1e-9)


def test_singular_matrix_gets_the_least_squares_solution_of_least_norm():
    B = np.random.default_rng(1).normal(size=(40, 5))
    K, y = B @ B.T, np.arange(40.0)
    problem = LinearSystem(Gram(Precomputed(K), np.arange(40)), y, 0.0)
    solution = Cholesky().solve(problem)
    assert solution.status == "singular"
    assert_allclose(solution.value, np.linalg.pinv(K, hermitian=True) @ y, atol=1e-9)
    residual = np.linalg.norm(K @ solution.value - y) / np.linalg.norm(y)
    assert_allclose(solution.violation, residual, rtol=1e-6)
    with pytest.raises(np.linalg.LinAlgError, match="singular at λ=0"):
        inverse_diagonal(problem)


def test_singular_matrix_is_noticed_though_rounding_lets_the_factorisation_pass():
    # Two equal points: the last pivot is 0 up to rounding, of either sign.
    for seed in range(20):
        B = np.random.default_rng(seed).normal(size=(12, 12))
        B[5] = B[2]
        gram = Gram(Precomputed(B @ B.T), np.arange(12))
        solution = Cholesky().solve(LinearSystem(gram, np.arange(12.0), 0.0))
        assert solution.status == "singular"
        assert np.abs(solution.value).max() < 1e6


def test_indefinite_matrix_is_solved_and_named():
    K = np.diag([3.0, -2.0, 1.0]) + 0.1
    problem = LinearSystem(Gram(Precomputed(K), np.arange(3)), np.ones(3), 0.5)
    solution = Cholesky().solve(problem)
    assert solution.status == "indefinite"
    A = K + 0.5 * np.eye(3)
    assert_allclose(A @ solution.value, np.ones(3), rtol=1e-12)
    assert_allclose(inverse_diagonal(problem), np.linalg.inv(A).diagonal(), rtol=1e-12)


def test_inaccurate_solution_is_named():
    problem = random_system()
    assert Cholesky(tol=0.0).solve(problem).status == "imprecise"


def test_the_kernel_values_are_not_overwritten():
    K = np.eye(5) + 1
    kernel = BlockFunction(lambda X, Y: K)
    before = K.copy()
    problem = LinearSystem(Gram(kernel, np.zeros((5, 2))), np.arange(5.0), 1.0)
    Cholesky().solve(problem)
    inverse_diagonal(problem)
    assert np.array_equal(K, before)


def test_target_of_zeros_has_the_zero_solution():
    problem = random_system()
    zero = LinearSystem(problem.gram, np.zeros(30), 0.5)
    solution = Cholesky().solve(zero)
    assert not solution.value.any()
    assert solution.violation == 0 and solution.status == "optimal"


def test_matrix_filled_in_blocks_gives_the_same_solution(monkeypatch):
    problem = random_system(n=50, q=2, weighted=True)
    expected = Cholesky().solve(problem)
    monkeypatch.setattr(memory, "available_memory", lambda: 12 * 50 * 50)
    monkeypatch.setattr("mercer.solvers.cholesky.BLOCK_MB", 50 * 7 * 8 / 2**20)
    assert_allclose(Cholesky().solve(problem).value, expected.value, rtol=1e-10)


def test_matrix_beyond_the_memory_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1e3)
    with pytest.raises(MemoryError, match="Take fewer points"):
        Cholesky().solve(random_system())


@looped(
    "changes, message",
    [
        ({"gram": Gram(Precomputed(), np.ones((3, 2)), [0, 1])}, "square Gram"),
        ({"target": np.ones(4)}, r"one target per point, \(30,\)"),
        ({"reg": -1.0}, "reg ≥ 0; got reg=-1.0"),
        ({"reg": np.nan}, "reg ≥ 0"),
        ({"reg": [1.0, 2.0]}, r"one per target \(1\)"),
        ({"weight": np.ones(3)}, "one weight per point"),
        ({"weight": -np.ones(30)}, "point 0 has -1.0"),
        ({"weight": np.zeros(30)}, "all weights are 0"),
    ],
)
def test_bad_systems_are_refused(changes, message):
    problem = random_system()
    settings = {"gram": problem.gram, "target": problem.target, "reg": 1.0}
    with pytest.raises(ValueError, match=message):
        LinearSystem(**(settings | changes))


def test_solution_shows_its_gap():
    assert Solution(np.ones(1), 0.0, 3.0, 2.5, 0.0).gap == 0.5
