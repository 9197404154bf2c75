"""Chunking against SMO on all of K, and the tries that its products are made of."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mercer import SVC, Gram, Linear, Normalized, WeightedDegree
from mercer.data.sequences import MOST_DEGREES
from mercer.native.threads import set_threads, threads
from mercer.solvers import (
    SMO,
    AutoSMO,
    Chunking,
    FeatureDescent,
    chunking,
    nu_svc,
    nu_svr,
    one_class,
    svc,
    svr,
)
from mercer.solvers.auto.costs import on_features
from mercer.solvers.feature_rows import PackedRows, PlacedRows
from mercer.solvers.features import placed_of, rows_of

KERNELS = [
    WeightedDegree(5),
    WeightedDegree(3, weights=[1.0, 0.0, 2.0]),
    Normalized(WeightedDegree(4)),
    0.3 * Normalized(2.0 * WeightedDegree(3)),
]


def strings(n=300, length=30, seed=0, shortest=None):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.3, 1.0, -1.0)
    letters = rng.integers(0, 4, (n, length))
    letters[y > 0, 10:13] = np.where(rng.random((np.sum(y > 0), 3)) < 0.8, 2, 0)
    words = ["".join("ACGT"[k] for k in row) for row in letters]
    if shortest is not None:
        words = [word[: rng.integers(shortest, length + 1)] for word in words]
    return words, y


def problems(X, y):
    gram, n = Gram(WeightedDegree(4), X), len(X)
    target = np.random.default_rng(1).normal(size=n) + y
    weight = np.random.default_rng(2).uniform(0.1, 2, n)
    return {
        "svc": svc(gram, y, 1.0),
        "svc with weights": svc(gram, y, weight),
        "svc without bias": svc(gram, y, 0.1, bias=False),
        "nu_svc": nu_svc(gram, y, 0.4, weight),
        "svr": svr(gram, target, 0.5, 0.1),
        "nu_svr": nu_svr(gram, target, 0.5, 0.4),
        "one_class": one_class(gram, 0.2),
    }


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks that begin small and grow slowly."""
    monkeypatch.setattr(chunking, "FIRST", 24)
    monkeypatch.setattr(chunking, "JOIN", 11)


@pytest.mark.parametrize("name", list(problems(*strings(20))))
def test_small_chunks_grow_to_the_optimum(small_chunks, name):
    problem = problems(*strings())[name]
    found = Chunking(tol=1e-4).solve(problem)
    exact = SMO(tol=1e-8, precision="double").solve(problem)
    assert found.status == "optimal"
    assert found.violation + found.rounding <= 1e-4
    slack = 1e-9 * max(1.0, abs(exact.primal))
    assert found.dual <= exact.primal + slack
    assert exact.dual <= found.primal + slack
    width = float(np.sum(np.diff(problem.bounds, axis=0)))
    assert found.gap <= 2e-4 * width + found.objective_rounding
    assert_allclose(found.function, problem.gram @ problem.coef(found.value), atol=1e-9)


def test_few_rows_are_computed_where_few_variables_are_free(small_chunks):
    X, y = strings(n=1500)
    hard = [
        word[:10] + ("GGG" if one > 0 else "TTT") + word[13:]
        for word, one in zip(X, y, strict=True)
    ]
    problem = svc(Gram(WeightedDegree(2, weights=[0.1, 1.0]), hard), y, upper=1.0)
    found = Chunking(tol=1e-3).solve(problem)
    assert found.status == "optimal"
    assert found.run.rows < len(X) / 2


def test_a_solve_goes_on_from_where_a_limit_ended_it(small_chunks):
    X, y = strings()
    problem = svc(Gram(WeightedDegree(4), X), y, upper=1.0)
    seen = []

    def third(progress):
        seen.append(progress)
        return len(seen) == 3

    stopped = Chunking(tol=1e-5).solve(problem, watch=third)
    assert stopped.status == "stopped"
    short = Chunking(tol=1e-5, max_iter=40).solve(problem, start=stopped.value)
    assert short.status == "max_iter"
    late = Chunking(tol=1e-5, time_limit=1e-9).solve(problem, start=short.value)
    assert late.status == "time_limit"
    rest = Chunking(tol=1e-5).solve(problem, start=late.value)
    exact = SMO(tol=1e-8, precision="double").solve(problem)
    assert rest.status == "optimal"
    assert_allclose(rest.dual, exact.dual, rtol=1e-6)


def test_where_a_chunk_has_no_room_descent_goes_on(small_chunks, monkeypatch):
    X, y = strings()
    problem = svc(Gram(WeightedDegree(4), X), y, upper=1.0)
    monkeypatch.setattr(
        chunking._Chunk, "fits", lambda self, more: len(self) + more <= 60
    )
    found = Chunking(tol=1e-5).solve(problem)
    assert found.status == "optimal"
    exact = SMO(tol=1e-8, precision="double").solve(problem)
    assert_allclose(found.dual, exact.dual, rtol=1e-6)


def test_a_solver_by_chunks_refuses_what_it_cannot_solve():
    with pytest.raises(ValueError, match="tol > 0"):
        Chunking(tol=0)
    hard = svc(Gram(Linear(), [[0.0], [1.0]]), [-1, 1], upper=np.inf)
    with pytest.raises(ValueError, match="finite bounds"):
        Chunking().solve(hard)


# Tries


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shortest", [None, 3])
def test_products_of_tries_are_those_of_kernel_values(kernel, shortest):
    X, _ = strings(n=200, shortest=shortest)
    gram = Gram(kernel, X)
    rows, rng = placed_of(gram), np.random.default_rng(0)
    assert isinstance(rows, PlacedRows)
    assert isinstance(rows_of(gram), PackedRows)
    for coef in (rng.normal(size=200), np.eye(200)[3], np.zeros(200)):
        w = rows.pull(coef)
        assert_allclose(rows.times(w), gram @ coef, rtol=0, atol=1e-11)
        assert_allclose(w @ w, coef @ (gram @ coef), rtol=1e-11)
    packed = rows_of(gram)
    assert rows.entries >= packed.entries  # which leaves out columns of weight 0
    assert rows.shape[1] >= packed.shape[1]
    assert 0 < rows.tries.bytes < 100 * rows.entries


def test_neither_tries_nor_their_products_depend_on_the_number_of_threads():
    X, _ = strings(n=2000, length=70)
    before, coef, found = threads(), np.random.default_rng(0).normal(size=2000), []
    try:
        for number in (1, 3):
            set_threads(number)
            rows = placed_of(Gram(WeightedDegree(6), X))
            w = rows.pull(coef)
            found.append((w, rows.times(w)))
    finally:
        set_threads(before)
    for one, other in zip(*found, strict=True):
        assert_array_equal(one, other)


def test_tries_of_odd_points():
    gram = Gram(WeightedDegree(3), ["", "A", "", "AC"])
    rows = placed_of(gram)
    assert_allclose(rows.times(rows.pull(np.ones(4))), gram @ np.ones(4))
    long = Gram(WeightedDegree(MOST_DEGREES + 1), ["ACGT" * 8, "ACGA" * 8])
    assert not isinstance(placed_of(long), PlacedRows)
    assert on_features(Gram(WeightedDegree(3), ["ACGT"] * 5000)) is Chunking


def test_tries_refuse_arrays_that_do_not_fit():
    rows = placed_of(Gram(WeightedDegree(3), ["ACGT", "ACCT"]))
    w, none = np.zeros(rows.shape[1]), np.empty(0)
    with pytest.raises(ValueError, match="every column"):
        rows.tries.times(none, np.empty(2))
    with pytest.raises(ValueError, match="every row"):
        rows.tries.pull(np.zeros(1, np.int32), none, w)
    with pytest.raises(ValueError, match="rows that there are"):
        rows.tries.pull(np.full(1, 2, np.int32), np.ones(1), w)


def test_machines_take_this_road_and_plan_it():
    X, y = strings(n=4100, length=20)
    machine = SVC(kernel=WeightedDegree(3), C=1.0)
    plan = machine.plan(X, y)
    assert plan.road == "features"
    machine.fit(X, y)
    assert machine.certificate_.status == "optimal"
    problem = svc(Gram(WeightedDegree(3), X), y, upper=1.0)
    assert isinstance(AutoSMO()._chosen(problem), Chunking)
    assert not isinstance(AutoSMO(solver=FeatureDescent())._chosen(problem), Chunking)
