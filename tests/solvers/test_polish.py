"""A polish from near the optimum ends at the optimum, and machines end there by it."""

import numpy as np
import pytest
from naive_active_set import minimiser
from numpy.testing import assert_allclose

from mercer import SVC, KernelSearchCV
from mercer.gram import Gram
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear
from mercer.solvers.held_rows import HeldRows, Offer, searching
from mercer.solvers.polish import Polish, between
from mercer.solvers.programs import one_class, svc, svr
from mercer.solvers.smo import SMO, can_polish


def classes(n, d=8, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    f = X[:, 0] + 0.5 * X[:, 1] * X[:, 2]
    return X, np.where(f + noise * rng.normal(size=n) > 0, 1.0, -1.0)


def polish_of(problem, beta, tol=1e-9):
    """All variables of a problem, those that are free first, and their numbers."""
    low, high = problem.bounds
    tube = np.zeros(len(beta)) if problem.tube is None else np.asarray(problem.tube)
    order = np.argsort(~between(beta, low, high, tube), kind="stable")
    K = problem.gram.dense()
    given = (K @ beta - problem.target, beta, low, high, tube)
    gradient, *rest = (np.array(one[order], dtype=float) for one in given)
    return Polish(K[np.ix_(order, order)], gradient, *rest, tol), order


@pytest.mark.parametrize("C", [1.0, 100.0])
@pytest.mark.parametrize("off", [0.01, 0.2])
def test_the_optimum_is_that_of_the_slow_twin(C, off):
    X, y = classes(30, 3)
    problem = svc(Gram(RBF(0.3), X), y, C)
    slow = minimiser(problem)
    noise = off * C * np.random.default_rng(1).normal(size=30)
    near = problem.start(np.clip(problem.sign * slow + noise, 0, C))
    polish, order = polish_of(problem, problem.sign * near)
    assert polish.run() and polish.changes > 0
    beta = np.empty(30)
    beta[order] = polish.beta
    assert_allclose(problem.gram @ beta, problem.gram @ slow, atol=1e-7 * C)
    assert_allclose(beta.sum(), 0, atol=1e-9 * C)


def test_variables_come_to_their_bounds_and_leave_them():
    # From far off, many do both; the objective never grows.
    X, y = classes(80, 4)
    problem = svc(Gram(RBF(0.2), X), y, 5.0)
    half = np.arange(80) % 2 == 0
    beta = problem.sign * problem.start(np.where(half, 2.0, 0.0))
    polish, order = polish_of(problem, beta)
    before = set(np.flatnonzero(np.isin(polish.beta, [*polish.low, *polish.high])))
    assert polish.run() and polish.changes > 10
    after = set(np.flatnonzero(np.isin(polish.beta, [*polish.low, *polish.high])))
    assert before - after and after - before
    K, moved = problem.gram.dense(), np.empty(80)
    moved[order] = polish.beta

    def objective(beta):
        return 0.5 * beta @ K @ beta - problem.target @ beta

    assert objective(moved) < objective(beta)
    best = SMO(tol=1e-9).solve(problem)
    assert_allclose(-objective(moved), best.dual, rtol=1e-9)


def test_a_tube_has_a_kink_that_variables_come_to_and_pass():
    X, y = classes(80, 4)
    problem = svr(Gram(RBF(0.2), X), y * X[:, 1], 5.0, 0.3)
    beta = np.random.default_rng(0).uniform(-4, 4, 80)
    polish, order = polish_of(problem, beta - beta.mean())
    before = np.sign(beta - beta.mean())[order]
    assert polish.run() and polish.changes > 10
    after = np.sign(polish.beta)
    assert (after == 0).any() and (before * after < 0).any()
    moved = np.empty(80)
    moved[order] = polish.beta
    best = SMO(tol=1e-9).solve(problem)
    assert_allclose(problem.gram @ moved, problem.gram @ best.value, atol=1e-6)


def test_rows_that_depend_on_each_other_are_no_way_to_an_optimum():
    # Each point twice: what two of a kind share is left open.
    X, y = classes(20, 3)
    X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    problem = svc(Gram(Linear(), X), y, 1.0)
    beta = np.where(problem.sign > 0, 0.5, -0.5) * (np.arange(40) < 38)
    beta -= beta.mean()
    polish, _ = polish_of(problem, np.clip(beta, *problem.bounds))
    assert not polish.run()


@pytest.mark.parametrize("form", ["svc", "svr", "one class"])
def test_fits_that_single_precision_does_not_serve_end_at_the_very_optimum(form):
    X, y = classes(1500)
    gram = Gram(RBF(0.05), X)
    problem = {
        "svc": svc(gram, y, 1e3),
        "svr": svr(gram, y + X[:, 1], 1e3, 0.2),
        "one class": one_class(gram, 0.2),
    }[form]
    found = SMO(tol=1e-6 if form == "one class" else 1e-3).solve(problem)
    assert can_polish(problem)
    assert (found.status, found.run.precision) == ("optimal", "double")
    function = gram @ problem.coef(found.value)
    assert problem.violation(found.value, function) < 1e-8
    best = SMO(tol=1e-7, precision="double").solve(problem)
    assert_allclose(found.dual, best.dual, rtol=1e-9)
    assert found.dual <= found.primal
    assert found.primal - found.dual <= 1e-6 * abs(found.dual)


def test_who_stops_a_fit_beyond_single_precision_is_not_asked_again():
    X, y = classes(1500)
    problem = svc(Gram(RBF(0.05), X), y, 1e3)
    whole = SMO().solve(problem).run.iterations
    asked = []

    def watch(progress):
        asked.append(progress.iterations > whole / 2)
        return asked[-1]

    found = SMO().solve(problem, watch=watch)
    assert found.status == "stopped" and asked.count(True) == 1
    assert found.dual <= SMO().solve(problem).dual <= found.primal
    rest = SMO().solve(problem, start=found.value)
    assert rest.status == "optimal"
    few = SMO(max_iter=whole // 2).solve(problem)
    assert few.status == "max_iter" and few.run.iterations <= whole // 2


def test_what_does_not_have_the_form_goes_on_in_double():
    X, y = classes(1200)
    problem = svc(Gram(RBF(0.05), X), y, 1e3, bias=False)
    assert not can_polish(problem)
    found = SMO().solve(problem)
    assert (found.status, found.run.precision) == ("optimal", "double")


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_solve_knows_f_at_points_it_was_not_given(shuffled):
    # In one range these are added at the end; spread over all, with the others.
    X, y = classes(2600)
    places = np.arange(2600)
    if shuffled:
        places = np.random.default_rng(0).permutation(places)
    places = np.sort(places[600:])
    rows = HeldRows(RBF(0.05), X, np.empty((2600, 2600), np.float32))
    gram = Gram(RBF(0.05), X[places])
    for C in (1.0, 1e3):
        offer = Offer(rows, places)
        problem = svc(gram, y[places], C)
        with searching(offer):
            first = SMO(objectives=False).solve(problem)
            SMO(objectives=False).solve(problem, start=first.value)
        f = Gram(RBF(0.05), X, X[places]) @ offer.left.coef
        assert_allclose(offer.left.function, f, atol=2e-5 * C)


@pytest.mark.slow
def test_scores_of_a_search_are_those_of_fits_on_their_own():
    from sklearn.model_selection import GridSearchCV

    X, y = classes(2500, noise=1.0)
    grid = {"C": [0.1, 10.0, 100.0, 1000.0], "gamma": [1e-3, 0.01, 0.1]}
    theirs, ours = (
        search(SVC(), grid, cv=3, refit=False).fit(X, y)
        for search in (GridSearchCV, KernelSearchCV)
    )
    for k in range(3):
        name = f"split{k}_test_score"
        assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], atol=1e-12)
