"""All pairs of classes in one call into the core: the same as every pair by itself."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from mercer.gram import Gram
from mercer.kernels.radial import RBF
from mercer.machines.svm import SVC
from mercer.solvers.problems import certificate, svc
from mercer.solvers.smo import SMO
from mercer.vectors import set_threads, threads

TOL = 1e-3


def blobs(n, d, n_classes=4, dtype=np.float64, seed=0):
    """Overlapping classes of different sizes, in no order."""
    rng = np.random.default_rng(seed)
    share = np.arange(1, n_classes + 1) / np.sum(np.arange(1, n_classes + 1))
    y = rng.choice(n_classes, size=n, p=share)
    centre = rng.normal(size=(n_classes, d))
    return (centre[y] + rng.normal(size=(n, d))).astype(dtype), y


def images(n, seed=0):
    """Points of 100 coordinates that are mostly zero, in much the same places."""
    X, y = blobs(n, 100, seed=seed)
    shown = np.random.default_rng(seed).random((4, 100)) < 0.2
    return np.where(shown[y], X, 0.0), y


def one_by_one(machine):
    """The same machine with a solver of its own, which takes each pair alone."""
    parameters = machine.get_params(deep=False) | {"solver": SMO(tol=TOL)}
    return SVC(**parameters)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        pytest.param(*blobs(120, 3), id="few"),
        pytest.param(*blobs(900, 3), id="some"),
        pytest.param(*blobs(3000, 3), id="many"),
        pytest.param(*blobs(3000, 3, dtype=np.float32), id="single"),
        pytest.param(*blobs(3000, 80), id="long"),
        pytest.param(*images(3000), id="zeros"),
        pytest.param(sp.csr_array(images(2500)[0]), images(2500)[1], id="sparse"),
        pytest.param(*blobs(700, 3, n_classes=12), id="twelve classes"),
    ],
)
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_duels_are_the_pairs_one_by_one(X, y, kernel):
    machine = SVC(kernel=kernel, degree=2, C=0.5, tol=TOL).fit(X, y)
    alone = one_by_one(machine).fit(X, y)
    f = machine.set_params(decision_function_shape="ovo").decision_function(X)
    g = alone.set_params(decision_function_shape="ovo").decision_function(X)
    assert_allclose(f, g, rtol=10 * TOL, atol=20 * TOL)  # off its points too
    assert_allclose(machine.certificate_.dual, alone.certificate_.dual, rtol=1e-5)
    again = machine.certify(X, y)
    assert again.violation <= 1.5 * TOL
    assert_allclose(machine.certificate_.gap, again.gap, atol=1e-4 * again.primal)


def test_weights_of_points_and_classes_are_bounds_of_duels():
    X, y = blobs(400, 3)
    weight = np.random.default_rng(1).uniform(0, 2, size=400)
    weight[:40] = 0
    machine = SVC(class_weight={0: 3.0, 2: 0.5}, tol=TOL).fit(X, y, weight)
    alone = one_by_one(machine).fit(X, y, weight)
    assert_array_equal(machine.predict(X), alone.predict(X))
    assert_allclose(machine.decision_function(X), alone.decision_function(X), atol=0.05)


@pytest.mark.parametrize("n", [150, 800])
def test_numbers_of_a_duel_are_those_of_its_problem(n):
    X, y = blobs(n, 3, n_classes=3)
    gram = Gram(RBF(0.3), X)
    members = [np.flatnonzero(y == c) for c in range(3)]
    upper = np.random.default_rng(0).uniform(0.5, 2, size=n)
    pairs = np.array([[0, 1], [2, 0], [1, 2]])
    for duel, (a, b) in zip(
        SMO(tol=1e-6).duels(gram, members, upper, pairs), pairs, strict=True
    ):
        places = np.concatenate([members[a], members[b]])
        side = np.repeat([1.0, -1.0], [len(members[a]), len(members[b])])
        problem = svc(gram.take(places), side, upper[places])
        solution = SMO(tol=1e-6).solve(problem)
        expected = certificate(problem, solution)
        found = duel.certificate
        assert_allclose(duel.beta, problem.coef(solution.value), atol=1e-4)
        assert_allclose(duel.bias, problem.decision(solution)[1], atol=1e-5)
        assert_allclose(
            [found.primal, found.dual, found.margin],
            [expected.primal, expected.dual, expected.margin],
            rtol=1e-5,
        )
        # By the slow twin, from what the duel itself says.
        value, _ = problem.inverse(duel.beta, duel.bias)
        level = problem.level(value, duel.function)
        primal, dual = problem.objectives(value, duel.function, level)
        assert_allclose(
            [-duel.bias, found.primal, found.dual, found.violation],
            [*level, primal, dual, problem.violation(value, duel.function)],
            rtol=1e-9,
            atol=1e-9,
        )
        bound = np.isclose(np.abs(duel.beta), upper[places], rtol=1e-12)
        assert found.n_bound == np.sum(bound)
        assert found.n_free == np.sum((duel.beta != 0) & ~bound)


def test_the_number_of_threads_does_not_change_a_bit_of_a_duel():
    X, y = images(1500)
    before, found = threads(), []
    try:
        for count in (1, 2, 3):
            set_threads(count)
            found.append(SVC().fit(X, y).dual_coef_)
    finally:
        set_threads(before)
    assert_array_equal(found[0], found[1])
    assert_array_equal(found[0], found[2])


def test_duels_that_take_too_many_steps_are_said():
    X, y = blobs(900, 3)
    with pytest.warns(ConvergenceWarning, match="status 'max_iter'"):
        machine = SVC(max_iter=7).fit(X, y)
    assert machine.certificate_.status == "max_iter"
    assert machine.fit_status_ == 1


def test_duels_that_single_precision_cannot_tell_are_solved_in_double():
    X, y = blobs(2500, 3)
    machine = SVC(C=20.0, tol=1e-6).fit(X, y)
    assert machine.certify(X, y).violation <= 1.5e-6
    assert {part.precision for part in machine.certificate_.parts} == {"double"}


def test_a_kernel_that_gives_nan_in_a_duel_is_named():
    X, y = blobs(300, 3)
    X[7] = 1e200
    with pytest.raises(ValueError, match="not finite"):
        SVC(kernel="poly", gamma=1.0, degree=5).fit(X, y)
