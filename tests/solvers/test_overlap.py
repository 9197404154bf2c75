"""Classes that overlap: w near 0 at the minimum, and many β that have it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from mercer import Gram, Linear
from mercer.native.threads import set_threads, threads
from mercer.solvers import SMO, FeatureDescent, svc
from mercer.solvers import overlap as module
from mercer.solvers.features import features_of
from mercer.solvers.overlap import may_overlap, overlapped


def rare_class(n=3000, p=40, apart=0.0, seed=0):
    """One point in thirty is of a class that lies among the others, or apart."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.5, size=(n, p)).astype(float)
    y = np.where(np.arange(n) % 30 == 0, 1.0, -1.0)
    X[y > 0, : p // 4] += apart
    return sp.csr_array(X), y


def found_by(problem, tol=1e-3, ended=lambda: False):
    return overlapped(problem, features_of(problem.gram), tol, ended)


@pytest.mark.parametrize("upper", [0.01, 1.0, 100.0])
def test_the_minimum_is_that_of_smo(upper):
    X, y = rare_class()
    problem = svc(Gram(Linear(), X), y, upper=upper)
    beta = found_by(problem, 1e-4)
    assert beta is not None
    found = FeatureDescent(tol=1e-4).solve(problem)
    assert found.status == "optimal" and found.violation <= 1e-4
    # Half of the rare class at most is told apart: a constant is nearly the best.
    assert found.primal > 1.9 * upper * np.sum(y > 0)
    exact = SMO(tol=1e-5, precision="double").solve(problem)
    assert_allclose(found.dual, exact.dual, rtol=1e-5)
    assert found.dual <= exact.primal * (1 + 1e-12)
    assert found.primal >= exact.dual * (1 - 1e-12)
    assert abs(problem.sign @ found.value) <= 1e-9 * found.value.sum()


def test_equal_shares_sum_to_what_is_asked_for():
    X, y = rare_class(900)
    problem = svc(Gram(Linear(), X), y, upper=np.linspace(1, 2, 900))
    steps = module._Steps(problem, features_of(problem.gram), 1e-3)
    low, high = problem.bounds
    assert_allclose(steps.anchor.sum(), 0, atol=1e-9)
    share = (steps.anchor - low) / (high - low)
    assert_allclose(share, share[0])


def test_classes_apart_are_left_to_descent():
    X, y = rare_class(apart=3.0)
    problem = svc(Gram(Linear(), X), y, upper=1.0)
    assert may_overlap(problem, features_of(problem.gram))
    assert found_by(problem) is None
    found = FeatureDescent().solve(problem)
    exact = SMO(tol=1e-5, precision="double").solve(problem)
    assert found.status == "optimal"
    assert_allclose(found.dual, exact.dual, rtol=1e-3)


def test_few_points_and_dense_rows_are_not_tried():
    X, y = rare_class(300)
    for points in (X, rare_class()[0].toarray()):
        some = y if len(y) == points.shape[0] else rare_class()[1]
        problem = svc(Gram(Linear(), points), some, upper=1.0)
        assert not may_overlap(problem, features_of(problem.gram))


def test_a_trial_ends_when_it_is_asked_to():
    X, y = rare_class()
    problem = svc(Gram(Linear(), X), y, upper=1.0)
    asked = []

    def ended():
        asked.append(1)
        return len(asked) == 3

    assert found_by(problem, ended=ended) is None
    assert len(asked) == 3


def test_a_callback_that_asks_to_stop_is_asked_once():
    X, y = rare_class(3000, 300)  # too many columns for one round of descent
    problem = svc(Gram(Linear(), X), y, upper=1.0)
    assert may_overlap(problem, features_of(problem.gram))
    asked = []
    solution = FeatureDescent(tol=1e-9).solve(
        problem, watch=lambda progress: not asked.append(progress)
    )
    assert solution.status == "stopped" and len(asked) == 1
    assert abs(problem.sign @ solution.value) <= 1e-9 * solution.value.sum()


def test_the_solution_does_not_depend_on_the_number_of_threads():
    X, y = rare_class()
    before, found = threads(), []
    try:
        for number in (1, 2):
            set_threads(number)
            found.append(found_by(svc(Gram(Linear(), X), y, upper=1.0)))
    finally:
        set_threads(before)
    assert_array_equal(*found)
