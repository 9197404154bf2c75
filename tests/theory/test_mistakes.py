"""The least mistake bound along the path of SVMs holds, and is the least."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear, Polynomial
from mercer.machines.perceptron import KernelPerceptron, Perceptron
from mercer.theory import mistake_bound

XOR = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
SIDES = np.array([-1, 1, 1, -1])


def data(seed, n=25, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + noise * rng.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    return X, y


def test_xor_has_its_margin_by_default_and_a_lower_bound_at_best():
    found = mistake_bound(Polynomial(2), XOR, SIDES)
    assert (found.mistakes, found.C) == (4, 1.0)
    assert_allclose(found.bound, 4.5, rtol=1e-6)
    best = mistake_bound(Polynomial(2), XOR, SIDES, best=True)
    # w = t w*: 4.5 t² + 8 (1 - t), least at t = 8/9, where α = C = 1/9.
    assert_allclose(best.bound, 40 / 9, rtol=1e-9)
    assert_allclose(best.C, 1 / 9, rtol=1e-3)


CASES = [
    (0, Linear(), 1, 0.5),
    (1, RBF(0.5), 5, 0.5),
    (2, Polynomial(2), 50, 0.1),
    (3, RBF(20.0), 3, 2.0),
    (4, Linear(), 30, 2.0),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed, kernel, passes, noise", CASES)
def test_best_is_the_least_bound_of_a_fine_grid_of_C(seed, kernel, passes, noise):
    X, y = data(seed, noise=noise)
    machine = KernelPerceptron(kernel, max_iter=passes, random_state=0).fit(X, y)
    best = mistake_bound(machine, X, y, best=True)
    grid = [mistake_bound(machine, X, y, C=C).bound for C in np.geomspace(1e-5, 10, 60)]
    least = min(*grid, 2.0 * machine.n_mistakes_)  # w = 0 is C = 0
    assert machine.n_mistakes_ <= best.bound <= least * (1 + 1e-6)
    assert best.bound >= least * 0.98
    assert best.bound <= mistake_bound(machine, X, y).bound
    again = mistake_bound(machine, X, y, comparator=best.comparator)
    assert_allclose(again.bound, best.bound, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_point_missed_twice_counts_twice():
    X, y = data(5, noise=2.0)
    machine = KernelPerceptron(Linear(), max_iter=6, shuffle=False).fit(X, y)
    assert len(np.unique(machine.mistakes_)) < machine.n_mistakes_
    best = mistake_bound(machine, X, y, best=True)
    slack = np.maximum(0, 1 - y * best.comparator(X).ravel())
    assert_allclose(best.slack, slack[machine.mistakes_].sum(), rtol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_each_class_has_its_own_best():
    X, _ = data(6, 30)
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    machine = Perceptron(max_iter=3, shuffle=False).fit(X, y)
    best, default = (mistake_bound(machine, X, y, best=b) for b in (True, False))
    assert best.C.shape == best.bound.shape == (3,)
    assert (machine.n_mistakes_ <= best.bound).all()
    assert (best.bound <= default.bound).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("bias", [False, True])
def test_kernel_values_give_what_the_points_give(bias):
    X, y = data(7)
    K = RBF(0.5)(X)
    options = {"fit_intercept": bias, "max_iter": 2, "shuffle": False}
    points = KernelPerceptron(RBF(0.5), **options).fit(X, y)
    values = KernelPerceptron("precomputed", **options).fit(K, y)
    for best in (False, True):
        one = mistake_bound(points, X, y, best=best)
        other = mistake_bound(values, K, y, best=best)
        assert_allclose(one.bound, other.bound, rtol=1e-6)
    given = mistake_bound(values, K, y, comparator=values)
    expected = mistake_bound(points, X, y, comparator=points)
    assert_allclose(given.bound, expected.bound, rtol=1e-9)


def test_points_without_features_and_two_answers_at_once():
    X, y = np.zeros((6, 2)), np.array([1, -1, 1, -1, 1, -1])
    best = mistake_bound(Linear(), X, y, max_iter=2, best=True)
    assert best.mistakes == 12 and best.bound == 24
    with pytest.raises(ValueError, match="pass one of them"):
        mistake_bound(Linear(), XOR, SIDES, comparator=best.comparator, best=True)
