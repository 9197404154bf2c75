"""Σₘ dₘ Kₘ with rows made on demand: against numpy, and SMO on it against a matrix."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mercer import _core
from mercer.gram import Gram
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import Precomputed
from mercer.solvers.auto import AutoSMO
from mercer.solvers.matrix_sum import MatrixSum
from mercer.solvers.programs import nu_svc, nu_svr, one_class, svc, svr
from mercer.solvers.smo import SMO

WEIGHTS = [[0.5, 0.0, 2.0, 0.1], [0.0, 0.0, 1.0, 0.0], [0.3, 0.3, 0.3, 0.3]]


def points(n, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    return X, np.where(X[:, 0] + 0.7 * random.normal(size=n) > 0, 1.0, -1.0)


def matrices(X):
    kernels = [Linear(), RBF(0.5), RBF(0.05), Polynomial(2)]
    return [np.ascontiguousarray(k(X)) for k in kernels]


def weighted(Ks, d):
    return sum(w * K for w, K in zip(d, Ks, strict=True))


def problems(gram, sign, target):
    return [
        svc(gram, sign, upper=1.5),
        svc(gram, sign, upper=np.linspace(0.1, 30, len(sign))),
        svr(gram, target, upper=2.0, epsilon=0.1),
        one_class(gram, nu=0.3),
    ]


@pytest.mark.parametrize("n", [1, 7, 8, 50])
@pytest.mark.parametrize("at_once", [False, True])
def test_rows_and_images_are_those_of_numpy(n, at_once):
    X, _ = points(n)
    Ks, random = matrices(X), np.random.default_rng(1)
    summed = _core.MatrixSum(Ks, 1e8)
    beta, images = np.zeros(n), np.empty((4, n))
    for d in WEIGHTS:
        summed.weigh(np.array(d), at_once)
        assert summed.made == (n if at_once else 0)
        some = random.permutation(n)[: (n + 1) // 2]
        block = np.empty((len(some),) * 2)
        summed.among(some, block)
        assert summed.made == (n if at_once else len(some))
        assert_allclose(block, weighted(Ks, d)[np.ix_(some, some)], rtol=1e-13)
        beta[some] = random.normal(size=len(some))
        summed.move(beta.copy())
        summed.images(images)
        assert_allclose(images, [K @ beta for K in Ks], rtol=1e-11, atol=1e-12)


def test_what_does_not_fit_is_refused():
    K = np.eye(3)
    with pytest.raises(ValueError, match="square"):
        _core.MatrixSum([K, np.eye(2)], 1e8)
    with pytest.raises(ValueError, match="needs one"):
        _core.MatrixSum([], 1e8)
    summed = _core.MatrixSum([K, K], 1e8)
    with pytest.raises(ValueError, match="weight for each"):
        summed.weigh(np.ones(3), False)
    with pytest.raises(ValueError, match="no such point"):
        summed.among(np.array([3]), np.empty((1, 1)))
    with pytest.raises(ValueError, match="number for each"):
        summed.move(np.ones(2))


@pytest.mark.parametrize("n", [40, 300, 600])
def test_a_solve_on_the_sum_is_one_on_its_matrix(n):
    X, sign = points(n)
    Ks = matrices(X)
    target = np.sin(2 * X[:, 0])
    places = Gram(Precomputed(psd=True), np.arange(n))
    for problem, whole in zip(problems(places, sign, target), range(4), strict=True):
        summed, value = MatrixSum(Ks), problem.start()
        for d in WEIGHTS:
            d = np.array(d)
            K = weighted(Ks, d)
            gram = Gram(Precomputed(K, psd=True), np.arange(n))
            same = problems(gram, sign, target)[whole]
            summed.weigh(d)
            found = SMO(1e-6).solve_on(summed.source, problem, value)
            best = SMO(1e-6).solve(same)
            assert found.status == best.status == "optimal"
            assert same.violation(found.value, K @ same.coef(found.value)) <= 1e-6
            assert found.dual <= best.primal and best.dual <= found.primal
            # F is as near to Kβ as is stated.
            wide = K.astype(np.longdouble) @ same.coef(found.value)
            error = np.abs(found.function - wide).max()
            assert error <= same.rounding(found.value, 2000.0, summed._sum.moved + 1e3)
            value = found.value
            beta = problem.sign * value
            S = summed.images(beta) @ beta
            exact = [beta @ (L.astype(np.longdouble) @ beta) for L in Ks]
            off = np.abs(S - np.array(exact, dtype=float)).sum()
            assert off <= summed.squares_rounding(beta)


def test_rows_are_made_for_what_moves_alone():
    X, sign = points(600)
    Ks = matrices(X)
    problem = svc(Gram(Precomputed(psd=True), np.arange(600)), sign, upper=0.5)
    summed = MatrixSum(Ks)
    summed.weigh(np.array(WEIGHTS[2]))
    first = SMO(1e-3).solve_on(summed.source, problem, problem.start())
    summed.images(problem.sign * first.value)
    support = np.count_nonzero(first.value)
    assert support <= summed._sum.made < 600
    summed.weigh(np.array(WEIGHTS[2]) * 1.001)
    again = SMO(1e-3).solve_on(summed.source, problem, first.value)
    changed = np.count_nonzero(again.value != first.value)
    assert changed <= summed._sum.made < support


def test_only_what_the_core_reads_as_it_stands_is_suited():
    K = np.eye(4)
    assert MatrixSum.suits([K, K])
    assert not MatrixSum.suits([K, K.astype(np.float32)])
    assert not MatrixSum.suits([K, np.asfortranarray(np.ones((4, 4)))])
    assert not MatrixSum.suits([K, None])


def test_takes_rows_of_points_that_are_variables():
    gram, sign = Gram(Linear(), np.eye(4)), np.array([1.0, -1.0, 1.0, -1.0])
    auto = AutoSMO()
    assert auto.takes_rows(svc(gram, sign, 1.0))
    assert auto.takes_rows(svr(gram, sign, 1.0, 0.1))
    assert not auto.takes_rows(svc(gram, sign, np.inf))
    assert not auto.takes_rows(svc(gram, sign, 1.0, bias=False))
    assert not auto.takes_rows(nu_svc(gram, sign, 0.5))
    assert not auto.takes_rows(nu_svr(gram, sign, 1.0, 0.5))
    limited = AutoSMO(time_limit=1.0), AutoSMO(max_iter=5), AutoSMO(solver=SMO())
    assert not any(one.takes_rows(svc(gram, sign, 1.0)) for one in limited)


def test_a_value_that_is_not_finite_is_refused():
    X, sign = points(30)
    Ks = matrices(X)
    others = np.arange(30) != 3
    Ks[1][3, others] = Ks[1][others, 3] = np.nan
    problem = svc(Gram(Precomputed(psd=True), np.arange(30)), sign, upper=100.0)
    summed = MatrixSum(Ks)
    summed.weigh(np.ones(4))
    with pytest.raises(ValueError, match="not finite"):
        SMO(1e-9).solve_on(summed.source, problem, problem.start())


def test_weights_given_twice_keep_the_rows():
    X, _ = points(20)
    summed = MatrixSum(matrices(X))
    summed.weigh(np.array(WEIGHTS[0]))
    block = summed.block(np.arange(5))
    summed.weigh(np.array(WEIGHTS[0]))
    assert summed._sum.made == 5
    assert_array_equal(summed.block(np.arange(5)), block)
