"""The compiled SMO: optimal by the conditions, equal to its slow twin, and obedient."""

import itertools
import os
import signal
import threading
import time

import numpy as np
import pytest
from naive_smo import NaiveSMO
from numpy.testing import assert_allclose, assert_array_equal

from mercer.gram import Gram
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import BlockFunction, Precomputed
from mercer.native.threads import set_threads, threads
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.held_rows import HeldRows, Offer, offered, searching
from mercer.solvers.programs import nu_svc, nu_svr, one_class, quadratic, svc, svdd, svr
from mercer.solvers.smo import SMO, _Run


def data(n=150, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


def family(gram, X, y):
    target = X[:, 0] ** 2 + np.sin(X[:, 1])
    return {
        "svc": svc(gram, y, 1.5),
        "svc, a bound for each": svc(gram, y, np.linspace(0.1, 3, len(y))),
        "svr": svr(gram, target, 3.0, 0.1),
        "svr, no tube": svr(gram, target, 3.0, 0.0),
        "nu_svc": nu_svc(gram, y, 0.3),
        "nu_svr": nu_svr(gram, target, 3.0, 0.4),
        "one_class": one_class(gram, 0.2),
        "svdd": svdd(gram, 0.2),
    }


NAMES = list(family(Gram(RBF(1.0), data()[0]), *data()))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kernel", [RBF(0.5), Linear(), Polynomial(2, 0.3)], ids=str)
def test_solution_is_optimal_and_equals_the_slow_twin(name, kernel):
    X, y = data(30)
    problem = family(Gram(kernel, X), X, y)[name]
    fast = SMO(tol=1e-6).solve(problem)
    slow = NaiveSMO(tol=1e-6, max_iter=200_000).solve(problem)
    assert fast.status == "optimal"
    beta, (low, high) = problem.sign * fast.value, problem.bounds
    assert (beta >= low).all() and (beta <= high).all()
    for members, total in problem.groups():
        assert_allclose(beta[members].sum(), total, atol=1e-9)
    function = problem.gram @ problem.coef(fast.value)
    scale = 1 + np.abs(function).max()
    assert problem.violation(fast.value, function) < 2e-6 * scale
    assert_allclose(fast.function, function, atol=1e-9 * scale)
    assert_allclose(fast.dual, slow.dual, rtol=1e-6, atol=1e-6)
    assert abs(fast.gap) < 1e-3 * (1 + abs(fast.dual))


@pytest.mark.parametrize("name", ["svc", "svr", "one_class", "nu_svc"])
def test_pairs_are_chosen_by_what_a_step_along_them_gains(name):
    # The slow twin chooses them so; by the slope alone it takes far more steps. With a
    # working set, the active-set method has no turn.
    X, y = data(40)
    problem = family(Gram(RBF(0.5), X), X, y)[name]
    fast = SMO(tol=1e-5, working_set=40).solve(problem).run.iterations
    slow = NaiveSMO(tol=5e-6).solve(problem).run.iterations  # as the core ends
    assert 0.7 * slow <= fast <= 1.3 * slow


@pytest.mark.parametrize("name", NAMES)
def test_rows_may_come_from_the_core_a_matrix_or_a_function(name, monkeypatch):
    X, y = data(120)

    def blocks(A, B):
        return RBF(0.5)(A, B)

    compiled = SMO(tol=1e-5).solve(family(Gram(RBF(0.5), X), X, y)[name])
    gram = Gram(Precomputed(RBF(0.5)(X)), np.arange(len(X)))
    matrix = SMO(tol=1e-5).solve(family(gram, X, y)[name])
    gram = Gram(BlockFunction(blocks), X)
    problem = family(gram, X, y)[name]
    monkeypatch.setattr("mercer.solvers.smo.SMALLEST_MATRIX", 0)
    called = SMO(tol=1e-5, cache_mb=1e-3).solve(problem)
    assert_allclose(matrix.dual, compiled.dual, rtol=1e-8, atol=1e-8)
    assert_allclose(called.dual, compiled.dual, rtol=1e-8, atol=1e-8)


def offer_of(kernel, X, places):
    room = np.empty((len(X), len(X)), np.float32)
    return Offer(HeldRows(kernel, X, room), places)


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_some_points_may_come_from_a_matrix_of_all(name):
    X, y = data(260)
    kernel, places = RBF(0.5), np.sort(np.random.default_rng(1).permutation(260)[:120])
    offer = offer_of(kernel, X, places)
    assert_allclose(offer.rows.matrix, kernel(X), atol=1e-6)
    gram = Gram(kernel, X[places])
    problem = family(gram, X[places], y[places])[name]
    with searching(offer):
        assert offered(gram) is offer
        assert offered(Gram(RBF(0.4), X[places])) is None
        assert offered(Gram(kernel, X[places[::-1]])) is None
        held = SMO(tol=1e-4, precision="single").solve(problem)
    assert offered(gram) is None
    alone = SMO(tol=1e-4, precision="double").solve(problem)
    assert held.status == "optimal" and held.run.precision == "single"
    function = gram @ problem.coef(held.value)
    assert problem.violation(held.value, function) <= 1e-4
    assert_allclose(held.dual, alone.dual, rtol=1e-4, atol=1e-4)


def test_held_rows_in_single_precision_serve_at_any_bound():
    # F is summed anew in double and goes on from it.
    X, y = data(1400)
    places = np.arange(0, 1400)[np.arange(1400) % 7 > 0]
    gram = Gram(RBF(0.5), X[places])
    problem = svc(gram, y[places], 1e4)
    alone = SMO().solve(problem)
    with searching(offer_of(gram.kernel, X, places)):
        held = SMO().solve(problem)
    assert (alone.run.precision, held.run.precision) == ("double", "double")
    assert held.status == "optimal"
    function = gram @ problem.coef(held.value)
    assert problem.violation(held.value, function) <= 1e-6
    assert_allclose(held.dual, alone.dual, rtol=1e-9)


@pytest.mark.parametrize("gamma, C", [(1e-3, 0.1), (0.1, 1), (3, 10), (30, 10)])
def test_a_sample_of_sums_in_double_says_how_far_the_others_are_off(gamma, C):
    X, y = data(1500)
    places = np.arange(1500)[np.arange(1500) % 5 > 0]
    gram = Gram(RBF(gamma), X[places])
    problem = svc(gram, y[places], C)
    with searching(offer_of(gram.kernel, X, places)):
        held = SMO(objectives=False, working_set=300).solve(problem)
    assert held.status == "optimal" and held.run.precision == "single"
    function = gram @ problem.coef(held.value)
    assert np.abs(held.function - function).max() <= held.rounding
    assert problem.violation(held.value, function) <= held.violation + held.rounding
    assert held.violation + held.rounding <= 1e-3


@pytest.mark.parametrize("gamma, C", [(1e-3, 0.1), (0.1, 0.1), (3, 1), (30, 1)])
def test_a_solve_goes_on_from_what_the_last_one_left(gamma, C):
    X, y = data(1500)
    solver = SMO(objectives=False, working_set=300)
    places = np.arange(1500)[np.arange(1500) % 5 > 0]
    gram = Gram(RBF(gamma), X[places])
    offer = offer_of(gram.kernel, X, places)
    before, problem = svc(gram, y[places], C), svc(gram, y[places], 10 * C)
    with searching(offer):
        first = solver.solve(before)
        assert_allclose(offer.left.coef, before.coef(first.value), atol=1e-9 * C)
        F = gram.kernel(X, X[places]) @ before.coef(first.value)
        assert_allclose(offer.left.function, F, atol=1e-4)
        # All of β grown by 10: none of its rows is read to begin with.
        grown = problem.start(10 * first.value)
        found = solver.solve(problem, start=grown)
    with searching(offer_of(gram.kernel, X, places)):
        alone = solver.solve(problem)
    assert found.status == "optimal"
    function = gram @ problem.coef(found.value)
    assert problem.violation(found.value, function) <= 1e-3
    assert_allclose(found.dual, alone.dual, rtol=1e-3)
    assert found.run.rows < alone.run.rows


def test_variables_that_violate_are_counted_at_the_best_level():
    X, y = data(40)
    problem = svc(Gram(RBF(0.5), X), y, 1.0)
    rng = np.random.default_rng(2)
    value = problem.start(np.clip(rng.normal(0.5, 1, 40), 0, 1))
    F, tol = rng.normal(size=40), 0.1
    down, up = problem.slopes(value, F)
    levels = np.concatenate([down, up, down - tol, up + tol])
    levels = np.concatenate([levels, levels - 1e-9, levels + 1e-9])
    counts = [
        np.sum((down - tol > level) | (up + tol < level))
        for level in levels[np.isfinite(levels)]
    ]
    run = _Run(SMO(tol=tol), problem, None, 0.0, near=True)
    assert run._violating(problem.sign * value, F) == min(counts)


@pytest.mark.parametrize("name", ["svc", "svr", "one_class", "a bound for each"])
def test_working_sets_may_be_left_to_the_active_set_method(name):
    # Far too few steps for pairs alone.
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 4)) * np.geomspace(1, 0.1, 4)
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=200) > 0, 1.0, -1.0)
    gram = Gram(Precomputed(), X @ X.T)
    problem = {
        "svc": svc(gram, y, 1e3),
        "svr": svr(gram, X[:, 0] + rng.normal(size=200), 1e3, 0.1),
        "one_class": one_class(gram, 0.3),
        "a bound for each": svc(gram, y, np.geomspace(1, 1e4, 200)),
    }[name]
    found = SMO(tol=1e-4, working_set=120, free_steps=True).solve(problem)
    beta, (low, high) = problem.sign * found.value, problem.bounds
    assert (beta >= low).all() and (beta <= high).all()
    assert_allclose(beta.sum(), problem.total or 0.0, atol=1e-7)
    F = X @ (X.T @ problem.coef(found.value))
    assert problem.violation(found.value, F) < 1.5e-4
    assert found.run.iterations < 20_000


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_reaches_the_same_objective(name):
    X, y = data(400)
    problem = family(Gram(RBF(0.5), X), X, y)[name]
    single = SMO(tol=1e-3, precision="single").solve(problem)
    double = SMO(tol=1e-3, precision="double").solve(problem)
    assert (single.run.precision, double.run.precision) == ("single", "double")
    assert_allclose(single.dual, double.dual, rtol=1e-4, atol=1e-3)


def test_single_precision_is_left_where_it_is_not_enough():
    X, y = data(1100)
    enough = SMO().solve(svc(Gram(RBF(0.5), X), y, 1.0))
    assert (enough.run.precision, enough.status) == ("single", "optimal")
    solution = SMO(tol=1e-6).solve(svc(Gram(RBF(0.5), X), y, 1e3))
    assert (solution.run.precision, solution.status) == ("double", "optimal")


def test_a_common_offset_does_not_take_digits_away():
    X, y = data(1500)
    near = SMO().solve(svc(Gram(RBF(0.5), X), y, 1.0))
    far = SMO().solve(svc(Gram(RBF(0.5), X + 1e5), y, 1.0))
    assert far.status == "optimal"
    assert_allclose(far.dual, near.dual, rtol=1e-4)


@pytest.mark.parametrize(
    "options",
    [{"working_set": 2}, {"working_set": 64}, {"cache_mb": 1e-3}, {"cache_mb": 100}],
    ids=str,
)
@pytest.mark.parametrize("name", ["svc", "svr", "nu_svc", "nu_svr", "one_class"])
def test_sizes_do_not_change_the_objective(name, options):
    X, y = data(200)
    problem = family(Gram(RBF(0.5), X), X, y)[name]
    usual = SMO(tol=1e-5).solve(problem)
    found = SMO(tol=1e-5, **options).solve(problem)
    assert found.status == "optimal"
    function = problem.gram @ problem.coef(found.value)
    assert problem.violation(found.value, function) < 1.01e-5
    assert_allclose(found.dual, usual.dual, rtol=1e-6)


@pytest.mark.parametrize("compiled", [True, False])
def test_rows_that_were_given_up_are_computed_again(compiled, monkeypatch):
    X, y = data(300)
    usual = SMO(tol=1e-5).solve(svc(Gram(RBF(0.5), X), y, 10.0))
    monkeypatch.setattr("mercer.solvers.smo.SMALLEST_MATRIX", 0)
    kernel = RBF(0.5) if compiled else BlockFunction(lambda A, B: RBF(0.5)(A, B))
    # A cache of twenty rows, where three hundred are wanted.
    solver = SMO(tol=1e-5, working_set=8, cache_mb=0.05)
    found = solver.solve(svc(Gram(kernel, X), y, 10.0))
    assert found.run.rows > 300 and found.run.reused > 300
    assert found.status == "optimal"
    assert_allclose(found.dual, usual.dual, rtol=1e-6)


def test_the_number_of_threads_does_not_change_a_bit():
    X, y = data(2000)
    problem, before = svc(Gram(RBF(0.5), X), y, 1.0), threads()
    try:
        set_threads(1)
        alone = SMO().solve(problem)
        set_threads(2)
        shared = SMO().solve(problem)
    finally:
        set_threads(before)
    assert_array_equal(alone.value, shared.value)
    assert alone.bias == shared.bias


def test_a_quadratic_of_ones_own():
    problem = quadratic([[0, -1], [-1, 0]], 0, [1, 1], -10, 10, 4)
    solution = SMO(tol=1e-9).solve(problem)
    assert_allclose(problem.variables(solution.value), [2, 2], atol=1e-8)
    assert_allclose(-solution.dual, -4, atol=1e-8)


def test_a_quadratic_with_any_multipliers_meets_its_condition():
    rng = np.random.default_rng(3)
    A, gamma = rng.normal(size=(6, 6)), np.array([1.0, -2, 0.5, 3, -1, 4])
    problem = quadratic(A @ A.T, rng.normal(size=6), gamma, -1, 2, 1.5)
    solution = SMO(tol=1e-9).solve(problem)
    a = problem.variables(solution.value)
    assert_allclose(gamma @ a, 1.5, atol=1e-9)
    assert ((a >= -1 - 1e-12) & (a <= 2 + 1e-12)).all()


def test_it_goes_on_from_where_it_was_stopped():
    X, y = data(500)
    problem = svc(Gram(RBF(0.5), X), y, 10.0)
    part = SMO(max_iter=50, working_set=16).solve(problem)
    assert part.status == "max_iter" and part.run.iterations == 50
    rest = SMO(tol=1e-6).solve(problem, start=part.value)
    whole = SMO(tol=1e-6).solve(problem)
    assert_allclose(rest.dual, whole.dual, rtol=1e-8)
    again = SMO(tol=1e-3).solve(problem, start=whole.value)
    assert again.run.iterations == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_solve_in_parts_takes_the_steps_of_one(name):
    X, y = data(700)
    problem = family(Gram(RBF(0.5), X), X, y)[name]
    whole = SMO(working_set=64).solve(problem)
    part = SMO(working_set=64, max_iter=whole.run.iterations // 2).solve(problem)
    assert part.status == "max_iter"
    rest = SMO(working_set=64).solve(problem, start=part.value)
    assert part.run.iterations + rest.run.iterations <= 1.2 * whole.run.iterations
    assert abs(rest.dual - whole.dual) <= max(whole.gap, rest.gap)


@pytest.mark.parametrize("seed, side", [(6, 1), (13, 0)])
def test_rounding_at_a_bound_does_not_set_the_level(seed, side):
    # Twelve points fill the sum of a class: none is free, and its level an interval.
    local = np.random.default_rng(seed)
    y = np.repeat([1.0, -1.0], [21, 27])
    X = np.maximum(local.normal(size=(48, 4)) + np.where(y > 0, 0.5, 1.5)[:, None], 0)
    problem = nu_svc(Gram(Linear(), X), y, 0.5)
    solution = SMO(tol=1e-11).solve(problem)
    members, _ = list(problem.groups())[side]
    assert np.isin(solution.value[members], [0.0, 1.0]).all()
    below, above = problem.slopes(solution.value, solution.function)
    middle = (below[members].max() + above[members].min()) / 2
    assert_allclose(solution.level[side], middle, rtol=1e-12)


def test_watching_sees_the_violation_fall_and_can_stop():
    X, y = data(1200)
    problem = svc(Gram(RBF(0.5), X), y, 10.0)
    seen = []
    SMO(working_set=64).solve(problem, watch=lambda progress: seen.append(progress))
    assert len(seen) > 3
    assert seen[-1].violation < 1e-3 < seen[0].violation
    objectives = [progress.objective for progress in seen]
    # The last one is in double, those before it are from rows in single precision.
    for sooner, later in itertools.pairwise(objectives):
        assert later <= sooner + 1e-6 * abs(sooner)
    stopped = SMO(working_set=64).solve(
        problem, watch=lambda progress: progress.round > 1
    )
    assert stopped.status == "stopped" and stopped.violation > 1e-3


def test_a_time_limit_ends_it():
    X, y = data(3000, d=20)
    problem = svc(Gram(RBF(0.05), X), y, 100.0)
    solution = SMO(time_limit=1e-6, working_set=8).solve(problem)
    assert solution.status == "time_limit"


def test_an_exception_in_the_watcher_comes_through():
    X, y = data(100)

    def fails(progress):
        raise RuntimeError("seen enough")

    with pytest.raises(RuntimeError, match="seen enough"):
        SMO().solve(svc(Gram(RBF(0.5), X), y, 1.0), watch=fails)


def test_a_kernel_that_gives_nan_is_named():
    X, y = data(50)

    def broken(A, B):
        return np.where(A[:, :1] > 1, np.nan, 1.0) * RBF(0.5)(A, B)

    with pytest.raises(ValueError, match="not finite"):
        SMO().solve(svc(Gram(BlockFunction(broken), X), y, 1.0))


def test_an_indefinite_kernel_ends_and_says_so():
    X, y = data(150)
    solution = SMO(max_iter=200_000).solve(svc(Gram(Sigmoid(2.0, -1.0), X), y, 5.0))
    assert solution.status in ("indefinite", "max_iter")


def test_opposite_labels_on_equal_points_end():
    X, y = np.ones((60, 2)), np.tile([1.0, -1.0], 30)
    solution = SMO().solve(svc(Gram(RBF(1.0), X), y, 1.0))
    assert solution.status == "optimal"
    assert_allclose(solution.dual, 60.0)


@pytest.mark.parametrize("low, high", [(0.1, 2.0), (-2.0, -0.1), (-1.0, 2.0)])
def test_a_tube_leaves_bounds_alone_that_leave_zero_out(low, high):
    X = np.random.default_rng(0).normal(size=(40, 3))
    total = 20 * np.mean([low, high])
    problem = BoxQP(
        Gram(RBF(0.5), X), np.sin(np.arange(40)), 1.0, low, high, total, tube=0.2
    )
    solution = SMO(tol=1e-6).solve(problem, start=np.full(40, total / 40))
    assert solution.status == "optimal" and solution.violation < 1e-6
    assert np.all((solution.value >= low) & (solution.value <= high))
    assert -1e-9 <= solution.gap < 1e-3


@pytest.mark.skipif(os.name != "posix", reason="sends itself a signal")
def test_ctrl_c_is_answered_at_once():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20_000, 30)), np.where(rng.random(20_000) < 0.5, 1.0, -1.0)
    problem = svc(Gram(RBF(0.1), X), y, 1e4)
    sent = []

    def interrupt():
        sent.append(time.process_time())
        signal.raise_signal(signal.SIGINT)

    # A shell starts jobs in the background with Ctrl-C ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, interrupt)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            SMO(tol=1e-9).solve(problem)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.process_time() - sent[0] < 2  # of work: 0.2 s of each thread
