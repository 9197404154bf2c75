"""Solvers on explicit features: the optimum of the Gram road, for every problem."""

import signal
import subprocess
import sys
from fractions import Fraction
from math import fsum

import naive_descent
import naive_strings
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from mercer import _core
from mercer.gram import Gram
from mercer.kernels.algebra import Normalized
from mercer.kernels.operators import Constant
from mercer.kernels.radial import RBF
from mercer.kernels.random_features import RandomFourier
from mercer.kernels.string import WeightedDegree
from mercer.kernels.substring import Spectrum
from mercer.kernels.vector import Linear, Polynomial
from mercer.machines.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from mercer.maps import explicit
from mercer.native.threads import set_threads, threads
from mercer.solvers.auto import AutoSMO, on_features
from mercer.solvers.box_certificate import certified
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.chunking import Chunking
from mercer.solvers.feature_descent import FeatureDescent
from mercer.solvers.feature_rows import (
    EXACT_RUN,
    FeatureRows,
    PackedRows,
    _leading,
    _pulled_exactly,
)
from mercer.solvers.features import features_of, rows_of, solution_on
from mercer.solvers.hull import HullDistance
from mercer.solvers.programs import hulls, nu_svc, nu_svr, one_class, svc, svdd, svr
from mercer.solvers.rounding import UNIT
from mercer.solvers.semismooth import SemismoothNewton
from mercer.solvers.smo import SMO

SOLVERS = [SemismoothNewton, FeatureDescent, Chunking]
on_solvers = pytest.mark.parametrize("solver", SOLVERS)


def data(kind="plain", n=240, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 0.5
    if kind == "copies":
        X = X[rng.integers(0, 30, n)]
    elif kind == "constant columns":
        X[:, 2], X[:, 1] = 3.0, X[:, 0]
    elif kind == "wide":
        X = rng.normal(size=(60, 150))
    elif kind == "zero rows":
        X[::3] = 0
    elif kind == "whole numbers":
        X = np.round(X)
    elif kind == "scales":
        X = X * 10.0 ** np.array([-3, -1, 1, 3])
    f = (X - X.mean(axis=0)) @ (1 / np.maximum(X.std(axis=0), 1e-9))
    f = f / f.std()
    y = np.where(f + 0.5 * rng.normal(size=len(f)) > 0, 1.0, -1.0)
    return X, y, f + 0.3 * rng.normal(size=len(f))


KINDS = ["plain", "copies", "constant columns", "wide", "zero rows", "whole numbers"]


def problems(X, y, target):
    gram, n = Gram(Linear(), X), len(X)
    weight = np.random.default_rng(1).uniform(0.1, 2, n)
    some = np.where(np.arange(n) % 7 == 0, 0.0, weight)
    return {
        "svc": svc(gram, y, 1.0),
        "svc with weights, some 0": svc(gram, y, some),
        "svc without bias": svc(gram, y, 1.0, bias=False),
        "svc of unlike classes": svc(gram, y, np.where(y > 0, 5.0, 0.1)),
        "nu_svc": nu_svc(gram, y, 0.6, weight),
        "svr": svr(gram, target, 1.0, 0.1),
        "svr without tube": svr(gram, target, some, 0.0),
        "svr without bias": svr(gram, target, 1.0, 0.1, bias=False),
        "nu_svr": nu_svr(gram, target, 1.0, 0.4),
        "one_class": one_class(gram, 0.2, some),
        "svdd": svdd(gram, 0.23, weight),
    }


NAMES = list(problems(*data()))
CASES = [(kind, name) for kind in KINDS for name in NAMES]


@pytest.mark.parametrize("kind, name", CASES)
@on_solvers
def test_the_optimum_is_that_of_smo(solver, kind, name):
    problem = problems(*data(kind))[name]
    found = solver(tol=1e-4).solve(problem)
    other = SMO(tol=1e-7, precision="double").solve(problem)
    assert found.status == "optimal"
    assert found.violation + found.rounding <= 1e-4
    assert_optimal(problem, found, 1e-4)
    # dual ≤ optimum ≤ primal, of both.
    slack = 1e-9 * max(1.0, abs(other.primal))
    assert found.dual <= other.primal + slack
    assert other.dual <= found.primal + slack
    width = float(np.sum(np.diff(problem.bounds, axis=0)))
    assert found.gap <= 2e-4 * width + found.objective_rounding
    if solver is SemismoothNewton:
        assert found.gap <= 1e-6 * max(abs(other.primal), 1e-3 * width)


def assert_optimal(problem, found, tol):
    low, high = problem.bounds
    beta = problem.sign * found.value
    assert np.all((low <= beta) & (beta <= high))
    for members, total in problem.groups():
        if total is not None:
            size = float(np.abs(beta[members]).sum())
            assert_allclose(beta[members].sum(), total, atol=1e-12 * size)
    K, coef = problem.gram.dense(), problem.coef(found.value)
    function, size = K @ coef, np.max(np.abs(K) @ np.abs(coef))
    assert_allclose(found.function, function, rtol=0, atol=1e-12 * size)
    assert problem.violation(found.value, function) <= tol
    again = certified(problem, found.value, function)
    assert again.violation <= tol
    assert again.dual <= found.primal and found.dual <= again.primal


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("nu_svr",)])
def test_newton_has_at_their_bounds_what_the_optimum_has(name):
    problem = problems(*data())[name]
    found = SemismoothNewton().solve(problem)
    other = SMO(tol=1e-9, precision="double").solve(problem)
    if name != "one_class":  # of which many β give the same f
        assert_array_equal(found.value != 0, other.value != 0)
        assert_allclose(found.value, other.value, atol=1e-5)
    assert_allclose(found.level, other.level, atol=1e-6 * np.abs(problem.upper).max())


def test_a_variable_that_rounding_keeps_off_its_bound_is_put_there():
    X, y, _ = data()
    problem = svc(Gram(Linear(), X), y, 1.0)
    solution = SemismoothNewton().solve(problem)
    rows, value = features_of(problem.gram), solution.value.copy()
    bound = np.flatnonzero(value == 1)[:2]
    value[bound] -= 2.0**-53
    again = solution_on(rows, problem, problem.sign * value, solution.run, 1e-3)
    assert_array_equal(again.value == 1, solution.value == 1)
    assert_allclose(again.level, solution.level, atol=1e-9)


def test_features_less_their_mean_keep_the_digits_of_points_far_away():
    X, y, target = data()
    near, far = Gram(Linear(), X), Gram(Linear(), X + 2.0**20)
    for make in (
        lambda gram: svc(gram, y, 1.0),
        lambda gram: svr(gram, target, 1, 0.1),
    ):
        there, here = (SemismoothNewton().solve(make(gram)) for gram in (far, near))
        assert there.status == "optimal"
        # X + 2²⁰ is rounded to 1e-10.
        assert_allclose(there.value, here.value, atol=1e-6)


def test_what_rounding_hides_is_not_claimed():
    X, y, _ = data()
    far = svc(Gram(Linear(), X + 1e6), y, 1.0, bias=False)
    found = SemismoothNewton().solve(far)
    assert found.status in ("stalled", "imprecise")
    assert found.violation + found.rounding > 1e-3


@on_solvers
def test_scales_of_columns_may_differ(solver):
    X, y, _ = data("scales")
    problem = svc(Gram(Linear(), X), y, 1e-3)
    found = solver().solve(problem)
    assert found.status == "optimal"
    assert_optimal(problem, found, 1e-3)


@on_solvers
def test_one_class_alone_is_a_constant(solver):
    X, _, _ = data()
    problem = svc(Gram(Linear(), X), np.ones(len(X)), 1.0)
    found = solver().solve(problem)
    assert not found.value.any() and found.status == "optimal"


@on_solvers
def test_a_sparse_matrix_gives_what_the_dense_one_gives(solver):
    X, y, target = data()
    X[np.abs(X) < 0.5] = 0
    for make in (
        lambda gram: svc(gram, y, 1.0),
        lambda gram: svr(gram, target, 1, 0.1),
    ):
        dense = solver(tol=1e-6).solve(make(Gram(Linear(), X)))
        sparse = solver(tol=1e-6).solve(make(Gram(Linear(), sp.csr_array(X))))
        assert_allclose(dense.dual, sparse.dual, rtol=1e-7)


@on_solvers
def test_other_maps(solver):
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("ACGT"), 30)) for _ in range(80)]
    y = np.where([x.count("AC") > 1 for x in X], 1.0, -1.0)
    for kernel in (Spectrum(2), Spectrum(3) + Constant(2.0)):
        problem = svc(Gram(kernel, X), y, 1.0)
        found = solver(tol=1e-5).solve(problem)
        other = SMO(tol=1e-8).solve(problem)
        assert_allclose(found.dual, other.dual, rtol=1e-4)
    points, labels, _ = data()
    problem = svc(Gram(Polynomial(2, 0.3), points), labels, 1.0)
    assert_allclose(
        solver(tol=1e-6).solve(problem).dual,
        SMO(tol=1e-8).solve(problem).dual,
        rtol=1e-6,
    )


def test_samples_of_many_points_lead_to_the_same_optimum(monkeypatch):
    X, y, target = data(n=4000, d=3)
    for problem in (
        svc(Gram(Linear(), X), y, 1.0),
        svr(Gram(Linear(), X), target, 1.0, 0.1),
        nu_svr(Gram(Linear(), X), target, 1.0, 0.3),
    ):
        alone = SemismoothNewton().solve(problem)
        monkeypatch.setattr("mercer.solvers.semismooth.SAMPLE", 2)
        sampled = SemismoothNewton().solve(problem)
        assert_allclose(sampled.dual, alone.dual, rtol=1e-9)
        assert_array_equal(sampled.value != 0, alone.value != 0)


def test_large_systems_are_solved_by_conjugate_gradients(monkeypatch):
    problem = problems(*data("wide"))["svc"]
    exact = SemismoothNewton().solve(problem)
    for name in ("semismooth", "newton_steps"):
        monkeypatch.setattr(f"mercer.solvers.{name}.DIRECT", 2)
    found = SemismoothNewton().solve(problem)
    assert found.status == "optimal"
    assert_allclose(found.dual, exact.dual, rtol=1e-5)
    plain = problems(*data())["svc"]
    found = SemismoothNewton().solve(plain)
    assert found.status == "optimal"
    monkeypatch.undo()
    assert_allclose(found.dual, SemismoothNewton().solve(plain).dual, rtol=1e-5)


# One step, against its definition


@pytest.mark.parametrize("name", NAMES)
def test_a_step_of_descent_is_the_best_for_its_variable(name):
    problem = problems(*data(n=40))[name]
    rng = np.random.default_rng(2)
    low, high = problem.bounds
    index = np.arange(40) if problem.index is None else problem.index
    Phi = explicit(Linear(), problem.gram.X).matrix[index]
    totals = np.empty(0)
    if problem.total is not None:
        totals = np.atleast_1d(np.asarray(problem.total, dtype=float))
    rho, sigma = rng.normal(size=len(totals)), 0.7
    group = np.empty(0) if problem.group is None else problem.group
    tube = np.empty(0) if problem.tube is None else problem.tube
    for t in range(len(problem)):
        beta = rng.uniform(low, high)
        start = beta.copy()
        w = Phi.T @ beta
        only = np.zeros_like(Phi)
        only[t] = Phi[t]
        # All others are fixed by their bounds.
        least, most = beta.copy(), beta.copy()
        least[t], most[t] = low[t], high[t]
        _packed(sp.csr_array(Phi)).descend(
            np.empty(0, np.int32),
            problem.target,
            least,
            most,
            tube,
            group.astype(np.uint8),
            totals,
            np.einsum("ij,ij->i", Phi, Phi),
            sigma,
            beta,
            w,
            rho.copy(),
            _core.DescentState(len(problem)),
            1e-300,
            1,
        )
        expected = naive_descent.best(problem, t, start, rho, sigma, Phi)
        assert_allclose(beta[t], expected, atol=1e-9 * max(1.0, abs(expected)))
        assert_array_equal(np.delete(beta, t), np.delete(start, t))
        assert_allclose(w, Phi.T @ beta, atol=1e-9)


def _packed(matrix):
    begin, column = (a.astype(np.int32) for a in (matrix.indptr, matrix.indices))
    return _core.SparseRows(begin, column, matrix.data, matrix.shape[1])


@pytest.mark.parametrize("columns", [50, 70_000])
@pytest.mark.parametrize("values", [2, 3, 1000])
def test_rows_in_few_bytes_are_the_rows(columns, values):
    rng = np.random.default_rng(0)
    dense = np.zeros((40, columns))
    dense[:, -50:] = rng.normal(size=values)[rng.integers(0, values, (40, 50))]
    dense[:, -50:] *= rng.random((40, 50)) < 0.4
    dense[7] = 0
    packed = _packed(sp.csr_array(dense))
    index = np.array([7, 39, 0, 3, 3, 12], np.int32)
    w, v = rng.normal(size=columns), rng.normal(size=len(index))
    for magnitudes in (False, True):
        exact = np.abs(dense[index]) if magnitudes else dense[index]
        F, pulled = np.empty(len(index)), np.ones(columns)
        packed.times(index, w, F, magnitudes)
        packed.pull(index, v, pulled, magnitudes)
        assert_allclose(F, exact @ w, rtol=0, atol=1e-13)
        assert_allclose(pulled, 1 + exact.T @ v, rtol=0, atol=1e-13)
    if columns == 50:
        products = np.ones((50, 50))
        packed.weighted(index, v, products)
        exact = 1 + dense[index].T @ (v[:, None] * dense[index])
        assert_allclose(products, exact, rtol=0, atol=1e-12)
    square = np.empty(40)
    packed.squares(square)
    assert_allclose(square, np.square(dense).sum(axis=1), rtol=1e-13)


@pytest.mark.parametrize("columns", [50, 70_000])
@pytest.mark.parametrize("values", [1, 1000])
def test_descent_on_rows_in_few_bytes_ends_at_the_optimum(columns, values):
    rng = np.random.default_rng(0)
    some = rng.normal(size=values)[rng.integers(0, values, (60, 50))]
    some *= rng.random((60, 50)) < 0.4
    row, column = some.nonzero()
    place = row, column + columns - 50
    X = sp.csr_array((some[row, column], place), shape=(60, columns))
    problem = svc(Gram(Linear(), X), rng.choice([-1.0, 1.0], 60), upper=1.0)
    assert features_of(problem.gram).shape == (60, columns)
    found = FeatureDescent(tol=1e-8).solve(problem)
    exact = SMO(tol=1e-9, precision="double").solve(problem)
    assert found.status == "optimal"
    # Σ upper · violation bounds what is left: 60 · 1e-8, of about 10.
    assert_allclose(found.dual, exact.dual, rtol=1e-7)
    assert_allclose(found.function, problem.gram @ problem.coef(found.value), atol=1e-9)


ALIGNED = ["ACGTACGTAC", "ACGTTCGTAC", "ACGTACGTAC", "TTGTACGAAC", "GCGTACCTAC"]
OF_ANY_LENGTH = ["ACGT", "", "ACG", "ACGT", "TCGTACG", "A", "ACGA", "", "TCGTA"]
OF_TOKENS = [tuple(range(k, k + 6)) for k in (0, 1, 0, 3)] + [(0, 1, 7, 3, 9, 5)]


@pytest.mark.parametrize("points", [ALIGNED, OF_ANY_LENGTH, OF_TOKENS, ["", ""], ["A"]])
@pytest.mark.parametrize(
    "kernel",
    [
        WeightedDegree(1),
        WeightedDegree(4),
        WeightedDegree(12),
        WeightedDegree(3, weights=[0.0, 2.0, 0.5]),
        WeightedDegree(2, weights=[1.0, 0.0]),
    ],
)
def test_stretches_that_the_core_packs_are_the_kernel(kernel, points):
    n = len(points)
    factor = np.linspace(0.5, 2.0, n)
    packed = kernel.packed(points, factor)
    if packed is None:
        assert not any(points)
        return
    exact = np.array(
        [
            [naive_strings.weighted_degree(s, t, kernel.degree, kernel.weights)
             for t in points] for s in points
        ]
    )  # fmt: skip
    exact *= np.multiply.outer(factor, factor)
    index, found = np.arange(n, dtype=np.int32), np.empty((n, n))
    for i in range(n):
        w = np.zeros(packed.width)
        packed.pull(np.array([i], np.int32), np.ones(1), w)
        packed.times(index, w, found[i])
    assert_allclose(found, exact, rtol=0, atol=1e-12 * exact.max(initial=1.0))
    square = np.empty(n)
    packed.squares(square)
    assert_allclose(square, np.diag(exact), rtol=1e-12)
    # A column of its own at most, and no others that one point has alone.
    listed = kernel.features(points)
    shared = np.count_nonzero(listed.count_nonzero(axis=0) > 1)
    assert packed.width <= shared + n
    assert packed.entries <= listed.nnz + n


def test_stretches_that_do_not_fit_are_left_to_the_explicit_map():
    assert WeightedDegree(23).packed(["ACGT" * 8] * 2) is None
    many = [tuple(range(k, k + 9)) for k in range(0, 900, 9)]  # of ten bits each
    assert WeightedDegree(6).packed(many) is not None
    assert WeightedDegree(7).packed(many) is None
    gram = Gram(Normalized(WeightedDegree(2)), ["", "AC", "AG"])
    assert not isinstance(rows_of(gram), PackedRows)  # points without any part


def strings(n=400, length=30, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.3, 1.0, -1.0)
    letters = rng.integers(0, 4, (n, length))
    letters[y > 0, 10:13] = np.where(rng.random((np.sum(y > 0), 3)) < 0.8, 2, 0)
    return ["".join("ACGT"[k] for k in row) for row in letters], y


@pytest.mark.parametrize(
    "kernel",
    [
        WeightedDegree(5),
        Normalized(WeightedDegree(5)),
        0.3 * Normalized(2.0 * WeightedDegree(3)),
    ],
)
def test_descent_on_packed_stretches_ends_where_smo_does(kernel):
    X, y = strings()
    gram = Gram(kernel, X)
    problem = svc(gram, y, upper=2.0)
    assert isinstance(rows_of(gram), PackedRows)
    found = FeatureDescent(tol=1e-7).solve(problem)
    exact = SMO(tol=1e-9, precision="double").solve(problem)
    assert found.status == "optimal"
    assert_allclose(found.dual, exact.dual, rtol=1e-9)
    assert_allclose(found.function, gram @ problem.coef(found.value), atol=1e-9)
    assert found.gap <= 1e-4 * found.primal


def test_stretches_and_descent_do_not_depend_on_the_number_of_threads():
    X, y = strings(n=5000, length=60)
    before, found = threads(), []
    try:
        for number in (1, 3):
            set_threads(number)
            problem = svc(Gram(WeightedDegree(4), X), y, upper=1.0)
            found.append(FeatureDescent(tol=1e-2).solve(problem))
    finally:
        set_threads(before)
    assert_array_equal(found[0].value, found[1].value)
    assert_array_equal(found[0].function, found[1].function)


@pytest.mark.parametrize("warm", [False, True])
def test_many_variables_that_leave_and_join_end_at_the_optimum(warm):
    rng = np.random.default_rng(0)
    n, p = 20_000, 1200
    X = sp.random_array((n, p), density=4 / p, rng=rng, format="csr")
    y = np.where(X @ rng.normal(size=p) + 0.3 * rng.normal(size=n) > 0.4, 1.0, -1.0)
    problem = svc(Gram(Linear(), X), y, upper=1.0)
    start = problem.start(rng.random(n)) if warm else None
    found = FeatureDescent(tol=1e-3).solve(problem, start=start)
    assert found.status == "optimal" and found.violation <= 1e-3
    assert found.gap <= 1e-3 * found.primal
    value, bounds = found.value, (problem.lower, problem.upper)
    assert np.all((value >= bounds[0]) & (value <= bounds[1]))
    assert abs(problem.sign @ value) <= 1e-9 * value.sum()


def test_rows_and_descent_refuse_arrays_that_do_not_fit():
    one, none = np.ones(1), np.empty(0)

    def rows(begin=(0, 1), column=(0,), width=1):
        begin, column = np.array(begin, np.int32), np.array(column, np.int32)
        return _core.SparseRows(begin, column, np.ones(len(column)), width)

    def call(place=(), total=none, rho=none, variables=1, square=one, w=one):
        rows().descend(
            np.array(place, np.int32),
            one,
            -one,
            one,
            none,
            np.empty(0, np.uint8),
            np.array(total),
            square,
            1.0,
            one.copy(),
            w.copy(),
            np.array(rho, dtype=float),
            _core.DescentState(variables),
            1e-3,
            10,
        )

    call()
    for wrong in (
        {"begin": (0, 2)},
        {"begin": (1, 0)},
        {"begin": ()},
        {"begin": (0, 1, 0)},
        {"column": (1,)},
        {"column": (-1,)},
    ):
        with pytest.raises(ValueError, match="SparseRows needs"):
            rows(**wrong)
    for wrong in (
        {"place": (1,)},
        {"place": (0, 0)},
        {"total": (1.0,)},
        {"variables": 2},
        {"square": np.ones(2)},
        {"w": np.ones(2)},
        {"total": (1.0, 2.0), "rho": (0.0, 0.0)},
    ):
        with pytest.raises(ValueError, match="needs"):
            call(**wrong)
    with pytest.raises(ValueError, match="product needs"):
        rows().times(np.zeros(2, np.int32), one, one.copy())
    with pytest.raises(ValueError, match="product needs"):
        rows().pull(np.zeros(1, np.int32), one, np.ones(2))
    with pytest.raises(ValueError, match="product needs"):
        rows().weighted(np.zeros(1, np.int32), one, np.ones((1, 2)))


# Ends


@on_solvers
def test_a_start_near_the_end_saves_steps(solver):
    problem = problems(*data())["svc"]
    first = solver(tol=1e-6).solve(problem)
    again = solver(tol=1e-6).solve(problem, start=first.value)
    assert again.status == "optimal"
    assert again.run.iterations < first.run.iterations
    assert_allclose(again.dual, first.dual, rtol=1e-8)


@on_solvers
def test_limits_and_callbacks_end_a_solve_at_a_feasible_point(solver, monkeypatch):
    monkeypatch.setattr("mercer.solvers.feature_descent.WORK", 1.0)
    seen = []
    for name in ("svc", "nu_svc", "svr"):
        problem = problems(*data())[name]
        stopped = solver(tol=1e-9).solve(problem, watch=lambda p: bool(seen.append(p)))
        assert stopped.status in ("optimal", "imprecise")
        stopped = solver(tol=1e-9).solve(problem, watch=lambda progress: True)
        limited = solver(tol=1e-9, max_iter=2).solve(problem)
        late = solver(tol=1e-9, time_limit=1e-9).solve(problem)
        for found, status in (
            (stopped, "stopped"),
            (limited, "max_iter"),
            (late, "time_limit"),
        ):
            assert found.status == status
            assert_optimal(problem, found, np.inf)
    assert seen[-1].iterations > 0 and "step" in seen[0].line() + "step"


@on_solvers
def test_bad_options_are_refused(solver):
    name = solver.__name__
    with pytest.raises(ValueError, match=f"{name} needs tol > 0; got tol=0"):
        solver(tol=0)
    X, y, _ = data()
    with pytest.raises(ValueError, match=f"{name} needs finite bounds"):
        solver().solve(svc(Gram(Linear(), X), y, np.inf))
    with pytest.raises(TypeError, match="no explicit map"):
        solver().solve(svc(Gram(RBF(1.0), X), y, 1.0))
    with pytest.raises(ValueError, match="infeasible"):
        solver().solve(BoxQP(Gram(Linear(), X), -1.0, y, 0.0, 1.0, total=1e9))


def test_a_hard_margin_is_the_distance_of_hulls():
    X = np.array([[0.0, 0.0], [0.0, 1.0], [2.0, 0.0], [3.0, 1.0]])
    problem = svc(Gram(Linear(), X), [-1.0, -1.0, 1.0, 1.0], np.inf)
    found = HullDistance(SemismoothNewton(tol=1e-6)).solve(problem)
    coef, bias = problem.decision(found)
    assert_allclose(X @ (X.T @ coef) + bias, [-1, -1, 1, 2], atol=1e-6)


def test_hulls_that_meet_have_no_distance():
    X, y, _ = data()
    problem = hulls(Gram(Linear(), X), y)
    found = SemismoothNewton().solve(problem)
    assert found.status == "optimal"
    assert problem.coef(found.value) @ found.function < 1e-12


def test_results_do_not_depend_on_the_number_of_threads():
    problem = problems(*data(n=3000, d=8))["svc"]
    before = threads()
    try:
        found = []
        for number in (1, 2):
            set_threads(number)
            found.append([solver().solve(problem).value for solver in SOLVERS])
    finally:
        set_threads(before)
    for one, two in zip(*found, strict=True):
        assert_array_equal(one, two)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
@on_solvers
def test_an_interrupt_ends_a_solve(solver):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200_000, 30))
    y = np.where(X[:, 0] + 2 * rng.normal(size=len(X)) > 0, 1.0, -1.0)
    problem = svc(Gram(Linear(), X), y, 1.0)

    class Interrupted(Exception):
        pass

    def interrupt(*_):
        raise Interrupted

    features_of(problem.gram)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Interrupted):
            for _ in range(1000):
                solver(tol=1e-12).solve(problem)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# Φ by its rows


def test_products_of_rows_and_their_rounding():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 7)) + np.array([0, 1e5, 0, 0, -1e7, 0, 3])
    X[:, 5] = 2.0
    w, v = rng.normal(size=7), rng.normal(size=3000)
    for rows in (
        FeatureRows(X),
        FeatureRows(np.asfortranarray(X)),
        FeatureRows(sp.csr_array(X)),
        FeatureRows(X).centered(),
    ):
        center = np.zeros(7) if rows.center is None else rows.center
        exact = X - center
        assert_allclose(rows.times(w), exact @ w, rtol=1e-9, atol=1e-6)
        assert_allclose(rows.pull(v), exact.T @ v, rtol=1e-9, atol=1e-4)
        assert_allclose(rows.lengths(), np.square(exact).sum(axis=1), rtol=1e-9)
        index = np.array([5, 2, 2999])
        assert_allclose(dense(rows.take(index).matrix), exact[index])
        border = -np.ones((3, 1))
        U = np.hstack([exact[index], border])
        weight = np.array([1.0, 0.5, 2.0])
        assert_allclose(
            rows.weighted(index, weight, border), U.T @ (weight[:, None] * U), rtol=1e-9
        )
        coef = rng.normal(size=3000)
        long = exact.astype(np.longdouble)
        F = long @ (long.T @ coef)
        off = np.abs(rows.times(rows.pull(coef)) - F).max()
        assert off <= rows.rounding(coef, rows.pull(coef))
    assert FeatureRows(X).centered().center is not None
    assert FeatureRows(rng.normal(size=(50, 2))).centered().center is None


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else matrix


def test_features_are_made_once_and_taken_with_the_points(monkeypatch):
    made = []
    monkeypatch.setattr(
        "mercer.solvers.features.explicit",
        lambda *given: made.append(1) or explicit(*given),
    )
    gram = Gram(Spectrum(2), ["ACGT", "GGCA", "TTTT", "ACAC"])
    rows = features_of(gram)
    assert features_of(gram) is rows and len(made) == 1
    taken = features_of(gram.take([3, 1]))
    assert len(made) == 1
    assert_array_equal(dense(taken.matrix), dense(rows.matrix)[[3, 1]])


# The choice


@pytest.fixture
def few_are_many(monkeypatch):
    monkeypatch.setattr("mercer.solvers.auto.costs.MANY_POINTS", 100)


def test_the_choice_goes_by_the_kernel_and_the_number_of_points(few_are_many):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    assert on_features(Gram(Linear(), X)) is SemismoothNewton
    assert on_features(Gram(Linear(), X), 99) is None
    assert on_features(Gram(RBF(1.0), X)) is None
    assert on_features(Gram(Linear(), X).held()) is None
    wide = sp.random_array((2000, 3000), density=0.002, random_state=0, format="csr")
    assert on_features(Gram(Linear(), wide)) is FeatureDescent
    assert on_features(Gram(Linear(), rng.normal(size=(200, 400)))) is None


@pytest.mark.parametrize(
    "machine",
    [
        SVC(kernel="linear"),
        SVC(kernel="poly", degree=2, gamma=0.2, coef0=1.0, C=0.5),
        SVC(kernel="linear", class_weight="balanced"),
        NuSVC(kernel="linear", nu=0.7),
        SVR(kernel="linear"),
        NuSVR(kernel="linear"),
        OneClassSVM(kernel="poly", degree=2, gamma=0.2, coef0=1.0),
    ],
)
def test_machines_learn_the_same_on_either_road(machine, few_are_many):
    X, _, target = data(n=900)
    y = np.searchsorted(np.quantile(target, [1 / 3, 2 / 3]), target)
    goal = target if "SVR" in type(machine).__name__ else y
    quick = machine.fit(X, goal)
    assert quick.certificate_.run.rows == 0  # no kernel values
    learnt = {
        name: np.array(getattr(quick, name))
        for name in ("support_", "dual_coef_", "intercept_")
    }
    f = np.asarray(getattr(quick, "decision_function", quick.predict)(X))
    certificate = quick.certificate_
    again = quick.certify(X, None if "One" in type(machine).__name__ else goal)
    assert again.violation <= 1e-3
    slow = type(machine)(**(machine.get_params() | {"solver": SMO(tol=1e-8)}))
    slow.fit(X, goal)
    assert slow.certificate_.run.rows + slow.certificate_.run.reused > 0
    assert_allclose(certificate.primal, slow.certificate_.primal, rtol=1e-6)
    assert_array_equal(learnt["support_"], slow.support_)
    assert_allclose(learnt["dual_coef_"], slow.dual_coef_, atol=1e-5)
    assert_allclose(learnt["intercept_"], slow.intercept_, atol=1e-5)
    other = getattr(slow, "decision_function", slow.predict)(X)
    assert_allclose(f, other, atol=1e-5)


def test_kernel_values_take_over_where_rounding_is_all_there_is(few_are_many):
    X, y, _ = data(n=300)
    problem = svc(Gram(Linear(), X + 1e6), y, 1.0, bias=False)
    assert on_features(problem.gram) is SemismoothNewton
    alone = SemismoothNewton().solve(problem)
    found = AutoSMO(max_iter=100_000).solve(problem)
    assert alone.status == "stalled"
    assert found.violation < alone.violation


@on_solvers
def test_a_solver_on_features_can_be_asked_for(solver):
    X, y, _ = data(n=150)
    machine = SVC(kernel="linear", solver=solver(tol=1e-6)).fit(X, y)
    assert machine.certificate_.status == "optimal"
    assert (machine.certificate_.run.rows == 0) == (solver is not Chunking)
    plain = SVC(kernel="linear").fit(X, y)
    assert_allclose(machine.decision_function(X), plain.decision_function(X), atol=1e-4)
    without = svc(Gram(Linear(), X), y, 1.0, bias=False)
    found = AutoSMO(solver=solver(tol=1e-6)).solve(without)
    assert found.bias == 0 and found.status == "optimal"


def test_targets_that_differ_by_rounding_alone_are_the_same():
    X = data()[0]
    kernel = RandomFourier(RBF(0.3), 20).resolve(X)  # cos² + sin² is about 1
    problem = svdd(Gram(kernel, X), 0.2, np.ones(len(X)))
    assert 0 < np.ptp(problem.linear) < 1e-10
    found, exact = SemismoothNewton(1e-6).solve(problem), SMO(1e-6).solve(problem)
    assert found.status == "optimal"
    assert found.dual == pytest.approx(exact.dual, rel=1e-9)


def test_a_linear_kernel_is_multiplied_through_its_weights():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(4000, 5)), rng.normal(size=(3000, 5))
    for V in (rng.normal(size=3000), rng.normal(size=(3000, 2))):
        for left, right in ((X, Y), (sp.csr_array(X), sp.csr_array(Y))):
            assert_allclose(
                Linear().matmul(left, right, V), (X @ Y.T) @ V, rtol=1e-9, atol=1e-9
            )
        single = Linear().matmul(X.astype(np.float32), Y.astype(np.float32), V)
        wide = X.astype(np.float32).astype(float) @ (
            Y.astype(np.float32).astype(float).T @ V
        )
        assert single.dtype == np.float64
        assert_allclose(single, wide, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="V"):
        Linear().matmul(X, Y, np.ones(7))
    with pytest.raises(ValueError, match="finite"):
        Linear()(np.full((2, 2), 1e300))


def test_weights_of_the_columns_of_a_map_have_names():
    X, y, _ = data(n=150)
    machine = SVC(kernel=Polynomial(2, 0.2)).fit(X, y)
    f = explicit(Polynomial(2, 0.2), X).matrix @ machine.coef_[0] + machine.intercept_
    assert_allclose(f, machine.decision_function(X), atol=1e-9)
    assert machine.feature_names_[:2] == ["1", "x0"]
    assert machine.coef_.shape == (1, len(machine.feature_names_))
    texts = ["ACGT", "GGCA", "TTTT", "ACAC", "CAAC", "GTGT"]
    machine = SVC(kernel=Spectrum(1)).fit(texts, [0, 1, 2, 0, 0, 1])
    assert machine.coef_.shape == (3, len(machine.feature_names_))
    linear = SVC(kernel="linear").fit(X, y)
    assert linear.feature_names_ == ["x0", "x1", "x2", "x3"]
    for kernel in ("poly", "rbf", RBF(1.0)):
        other = SVC(kernel=kernel).fit(X, y)
        assert not hasattr(other, "coef_") and not hasattr(other, "feature_names_")


@pytest.mark.parametrize("n", [1, 700, 20_000])
def test_sums_of_products_are_right_to_the_digit_they_state(n):
    rng = np.random.default_rng(n)
    matrix = rng.normal(size=(n, 3)) * [1e-5, 1.0, 1e4]
    v = rng.normal(size=n) * 10.0 ** rng.integers(-6, 3, n)
    v[: n // 2] = -v[n - n // 2 :]  # what is added cancels
    matrix[: n // 2] = matrix[n - n // 2 :] * (1 + 1e-9 * rng.normal(size=(n // 2, 1)))
    w, off, largest = _pulled_exactly(matrix, v)
    exact = [
        sum(
            (Fraction(a) * Fraction(b) for a, b in zip(column, v, strict=True)),
            Fraction(0),
        )
        for column in matrix.T
    ]
    assert all(
        abs(Fraction(float(w[j])) - exact[j]) <= Fraction(float(off[j]))
        for j in range(3)
    )
    assert_array_equal(largest, np.abs(matrix).max(axis=0))
    even = np.where(v > 0, 1.0, -1.0)
    w, off, _ = _pulled_exactly(matrix, even)
    added = np.abs(matrix).sum(axis=0)
    assert np.all(off <= 4 * UNIT * np.abs(w) + 1e-2 * UNIT * added)


def test_leading_bits_are_added_without_an_error_in_any_order():
    rng = np.random.default_rng(0)
    v = rng.normal(size=EXACT_RUN)
    matrix = rng.normal(size=(EXACT_RUN, 2))
    lead, of_v = (_leading(some, np.abs(some).max(axis=0)) for some in (matrix, v))
    assert np.all(np.abs(matrix - lead) <= 2.0**-19 * np.abs(matrix).max(axis=0))
    exact = [fsum((of_v * column).tolist()) for column in lead.T]
    for _ in range(3):
        order = rng.permutation(EXACT_RUN)
        assert_array_equal(of_v[order] @ lead[order], exact)


@pytest.mark.parametrize("make", [svc, svr])
def test_the_stated_gap_is_far_below_1e_8_of_the_objective(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 6))
    f = X @ rng.normal(size=6) + rng.normal(size=40_000)
    gram = Gram(Linear(), X)
    problem = svc(gram, np.sign(f), 1.0) if make is svc else svr(gram, f, 1.0, 0.1)
    found = SemismoothNewton().solve(problem)
    assert found.status == "optimal"
    assert 0 <= found.gap <= 1e-10 * found.primal
    # It holds for numbers that are summed anew, with ten times the digits.
    coef = problem.coef(found.value)
    w = np.array([fsum((coef * column).tolist()) for column in X.T])
    function = X @ w
    assert np.max(np.abs(function - found.function)) <= found.rounding
    s = problem.target - function - found.bias
    reach = 0.1 if make is svr else 0.0
    losses = np.maximum((np.abs(s) if make is svr else f / np.abs(f) * s) - reach, 0)
    primal = fsum([float(w @ w) / 2, *losses.tolist()])
    assert found.dual <= primal <= found.primal + 1e-12 * primal


MEMORY = """
import tracemalloc
import numpy as np
from mercer import SVC, SVR, Gram, Linear
from mercer.solvers import SemismoothNewton, svc, svr

n = 300_000
rng = np.random.default_rng(0)
X = rng.normal(size=(n, 2))
f = X @ [1.0, -2.0] + rng.normal(size=n)
y = np.where(f > 0, 1, -1)
machines = [SVC(kernel=Linear()), SVR(kernel=Linear(), epsilon=0.1)]
gram = Gram(Linear(), X)
for machine, target in zip(machines, (y, f), strict=True):
    machine.fit(X[:5000], target[:5000])  # what is loaded once is not counted
tracemalloc.start()
for make in (lambda: svc(gram, y, 1.0), lambda: svr(gram, f, 1.0, 0.1)):
    tracemalloc.reset_peak()
    assert SemismoothNewton().solve(make()).status == "optimal"
    print(tracemalloc.get_traced_memory()[1] / 8 / n)
for machine, target in zip(machines, (y, f), strict=True):
    tracemalloc.reset_peak()
    machine.fit(X, target)
    kept = machine.expansion_.points.nbytes
    print((tracemalloc.get_traced_memory()[1] - kept) / 8 / n)
"""


def test_a_fit_on_dense_features_takes_few_numbers_for_each_point():
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True
    )
    of_solves, of_fits = np.array(done.stdout.split(), dtype=float).reshape(2, 2)
    # The problem's own vectors, and what is known of them, included.
    assert np.all(of_solves <= 12), of_solves
    # And labels, places and coefficients of a machine.
    assert np.all(of_fits <= 12), of_fits


FITS = """
import tracemalloc
import numpy as np
from mercer import KernelLogisticRegression, KernelRidge, Linear, NuSVC, OneClassSVM
from mercer import SVC, SVR
rng = np.random.default_rng(0)
n = 200_000
X = rng.normal(size=(n, 10)) + 1.0
f = X @ rng.normal(size=10) + rng.normal(size=n)
y = np.sign(f - np.median(f))
for machine, target in (
    (SVC(kernel=Linear()), y),
    (SVR(kernel=Linear(), epsilon=0.1), f),
    (OneClassSVM(kernel=Linear(), nu=0.2), None),
    (KernelRidge(kernel=Linear()), f),
    (KernelLogisticRegression(kernel=Linear()), y),
    (NuSVC(kernel=Linear(), nu=0.4), y),
):
    machine.fit(X[:5000], None if target is None else target[:5000])
    tracemalloc.start()
    machine.fit(X, target)
    peak = tracemalloc.get_traced_memory()[1]
    kept = machine.expansion_.points.nbytes
    tracemalloc.stop()
    print(peak / 8 / n, kept / 8 / n)
"""


def test_memory_of_fits_on_dense_features():
    done = subprocess.run(
        [sys.executable, "-c", FITS], capture_output=True, text=True, check=True
    )
    peak, kept = np.array(done.stdout.split(), dtype=float).reshape(-1, 2).T
    # Ridge and logistic regression keep all points from the beginning.
    peak[3:5] -= kept[3:5]
    peak[1] -= kept[1]  # of SVR, most of them, in the end
    # Of NuSVC two are blocks of rows, of the same size for any number of points.
    assert np.all(peak <= [12, 12, 12, 12, 15, 14]), peak
