"""The active-set method: the very optimum, soon, where pairs of variables take long."""

import numpy as np
import pytest
from naive_active_set import minimiser
from numpy.testing import assert_allclose

from mercer.gram import Gram
from mercer.kernels.radial import RBF
from mercer.kernels.ways import Precomputed
from mercer.solvers.class_pairs import svc_pairs
from mercer.solvers.programs import nu_svc, one_class, svc, svr
from mercer.solvers.smo import SMO


def hard(n, rank, seed=0):
    """K of this rank with a wide spectrum, vectors behind it, and two classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) * np.geomspace(1, 0.1, rank)
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y, Gram(Precomputed(X @ X.T), np.arange(n))


def problems_of(n, rank, C=1e3):
    X, y, gram = hard(n, rank)
    noisy = X[:, 0] + np.random.default_rng(1).normal(size=n)
    return {
        "svc": svc(gram, y, C),
        "svr": svr(gram, noisy, C, 0.1),
        "one_class": one_class(gram, 0.3),
        "a bound for each": svc(gram, y, C * np.geomspace(1e-3, 10, n)),
    }


NAMES = ["svc", "svr", "one_class", "a bound for each"]


@pytest.mark.parametrize("rank", [3, 24])
@pytest.mark.parametrize("name", ["svc", "one_class", "a bound for each"])
def test_the_optimum_is_that_of_the_slow_twin(name, rank):
    problem = problems_of(24, rank, C=10.0)[name]
    slow, fast = minimiser(problem), SMO(tol=1e-9).solve(problem)
    K = problem.gram.dense()
    # f is one and the same; where rows are dependent, its coefficients are many.
    assert_allclose(K @ (problem.sign * fast.value), K @ slow, atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rank", [4, 200], ids=["dependent", "independent"])
def test_hard_problems_come_to_their_very_optimum(name, rank):
    # At tol = 1e-3, and far sooner than pairs of variables come to tol.
    problem = problems_of(200, rank)[name]
    found = SMO().solve(problem)
    assert found.status == "optimal"
    beta, (low, high) = problem.sign * found.value, problem.bounds
    assert (beta >= low).all() and (beta <= high).all()
    assert_allclose(beta.sum(), problem.total, atol=1e-9)
    function = problem.gram @ problem.coef(found.value)
    violation = problem.violation(found.value, function)
    assert found.run.iterations < 200 * len(problem)
    many = rank == 4 and found.run.iterations > 4 * len(problem)
    assert violation < (1e-7 if many else 1e-3)
    assert found.dual <= found.primal


def test_the_optimum_at_another_c_is_near():
    _, y, gram = hard(400, 20)
    value, before = None, 1.0
    for C in (1.0, 10.0, 100.0, 1000.0):
        problem = svc(gram, y, C)
        alone = SMO().solve(problem)
        assert alone.status == "optimal"
        if value is not None:
            near = SMO().solve(problem, start=problem.start(value * C / before))
            assert near.status == "optimal"
            assert near.run.iterations < alone.run.iterations
            assert_allclose(near.dual, alone.dual, rtol=1e-9)
            assert_allclose(near.function, alone.function, atol=1e-6)
        value, before = alone.value, C


@pytest.mark.parametrize("bias", [True, False])
def test_pairs_of_classes_have_their_starts_in_one_call(bias):
    X, _, gram = hard(240, 12)
    label = np.digitize(
        X[:, 0] + 0.3 * np.random.default_rng(2).normal(size=240), [0, 1]
    )
    members = [np.flatnonzero(label == c) for c in range(3)]
    pairs = np.array([[0, 1], [0, 2], [1, 2]])

    def stated(C):
        return svc_pairs(gram, members, pairs, np.full(240, C), bias=bias)

    first, problems = SMO().solve_many(stated(100.0)), stated(500.0)
    start = problems.start(5 * first.beta)
    low, high = problems.bounds
    assert (start >= low).all() and (start <= high).all()
    if bias:
        sums = np.add.reduceat(start, problems.ends - problems.lengths)
        assert_allclose(sums, 0.0, atol=1e-9)
    near, alone = SMO().solve_many(problems, start=start), SMO().solve_many(problems)
    about, others = near.certificates.columns, alone.certificates.columns
    assert (about["status"] == "optimal").all()
    assert_allclose(about["dual"], others["dual"], rtol=1e-4)
    if bias:
        assert_allclose(near.function, alone.function, atol=1e-6)
        assert about["iterations"].sum() < others["iterations"].sum()


@pytest.mark.parametrize("name", NAMES)
def test_it_keeps_to_the_steps_there_are_and_goes_on_from_there(name):
    problem = problems_of(150, 10)[name]
    whole = SMO().solve(problem)
    best = -np.inf
    for steps in (1, 10, 100, 700, 1000, 2000, 5000):
        found = SMO(max_iter=steps).solve(problem)
        assert found.run.iterations <= steps
        assert found.status in ("optimal", "max_iter")
        assert (found.status == "optimal") == (found.violation + found.rounding <= 1e-3)
        # What is the objective less its rounding grows with the steps.
        assert found.dual >= best - 1e-9 * (1 + abs(best))
        best = max(best, found.dual)
        rest = SMO().solve(problem, start=found.value)
        assert rest.status == "optimal"
        assert_allclose(rest.dual, whole.dual, rtol=1e-5, atol=1e-6)


def test_an_indefinite_matrix_is_left_to_pairs():
    rng = np.random.default_rng(3)
    half = rng.normal(size=(80, 80))
    K = half + half.T
    np.fill_diagonal(K, 8.0)
    y = np.where(rng.normal(size=80) > 0, 1.0, -1.0)
    problem = svc(Gram(Precomputed(K), np.arange(80)), y, 100.0)
    found = SMO(tol=1e-6).solve(problem)
    assert found.status == "indefinite"
    assert problem.violation(found.value, K @ problem.coef(found.value)) <= 1e-6


@pytest.mark.parametrize("precision", ["single", "double"])
def test_gaussians_at_a_large_c_take_few_steps(precision):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=900) > 0, 1.0, -1.0)
    found = SMO(tol=1e-4, precision=precision).solve(svc(Gram(RBF(0.5), X), y, 1e3))
    assert found.status == "optimal"
    assert found.run.iterations < 100_000  # by pairs alone some 200,000


def test_two_sums_are_left_to_pairs():
    _, y, gram = hard(120, 8)
    found = SMO().solve(nu_svc(gram, y, 0.3))
    assert found.status in ("optimal", "flat")
