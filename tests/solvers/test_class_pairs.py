"""All pairs of classes in one call into the core: the same as every pair by itself."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from mercer import multiclass
from mercer.gram import Gram
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear
from mercer.machines.svm import SVC, NuSVC
from mercer.native.threads import set_threads, threads
from mercer.solvers.box_certificate import certificate, certified
from mercer.solvers.class_pairs import nu_svc_pairs, svc_pairs
from mercer.solvers.programs import nu_svc, svc
from mercer.solvers.smo import SMO

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
def test_all_pairs_at_once_are_the_pairs_one_by_one(X, y, kernel):
    machine = SVC(kernel=kernel, degree=2, C=0.5, tol=TOL).fit(X, y)
    alone = one_by_one(machine).fit(X, y)
    f = machine.set_params(decision_function_shape="ovo").decision_function(X)
    g = alone.set_params(decision_function_shape="ovo").decision_function(X)
    assert_allclose(f, g, rtol=10 * TOL, atol=20 * TOL)  # off its points too
    assert_allclose(machine.certificate_.dual, alone.certificate_.dual, rtol=1e-5)
    again = machine.certify(X, y)
    assert again.violation <= 1.5 * TOL
    assert_allclose(machine.certificate_.gap, again.gap, atol=1e-4 * again.primal)


def test_weights_of_points_and_classes_are_bounds_of_pairs():
    X, y = blobs(400, 3)
    weight = np.random.default_rng(1).uniform(0, 2, size=400)
    weight[:40] = 0
    machine = SVC(class_weight={0: 3.0, 2: 0.5}, tol=TOL).fit(X, y, weight)
    alone = one_by_one(machine).fit(X, y, weight)
    assert_array_equal(machine.predict(X), alone.predict(X))
    assert_allclose(machine.decision_function(X), alone.decision_function(X), atol=0.05)


def pair_problems(form, gram, members, weight, pairs):
    """The problems of all pairs, and a function of places and sides that makes one."""
    if form == "nu":
        return nu_svc_pairs(
            gram, members, pairs, 0.6, weight
        ), lambda places, side: nu_svc(gram.take(places), side, 0.6, weight[places])
    bias = form == "bias"
    return svc_pairs(gram, members, pairs, weight, bias=bias), lambda places, side: svc(
        gram.take(places), side, weight[places], bias=bias
    )


def assert_same_problem(found, expected):
    """That two problems are the same in every number."""
    for name in ("linear", "sign", "lower", "upper", "group"):
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert_allclose(one, other, rtol=1e-14)
    assert (found.total is None) == (expected.total is None)
    if found.total is not None:
        assert_allclose(found.total, expected.total, rtol=1e-14)
    assert found.unit_margin == expected.unit_margin
    assert_allclose(found.surplus, expected.surplus, atol=1e-14)
    assert_array_equal(found.gram.dense(), expected.gram.dense())


@pytest.mark.parametrize("n", [60, 150, 800])
@pytest.mark.parametrize("form", ["bias", "no bias", "nu"])
@pytest.mark.parametrize("compiled", [True, False])
def test_numbers_of_a_pair_are_those_of_its_problem(n, form, compiled):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3  # classes of one size bear any nu
    X = 1.5 * np.eye(3)[y] + rng.normal(size=(n, 3))
    kernel = RBF(0.3) if compiled else 0.5 * RBF(0.3) + 0.5 * RBF(0.3)
    gram = Gram(kernel, X)
    members = [np.flatnonzero(y == c) for c in range(3)]
    weight = rng.uniform(0.5, 2, size=n)
    pairs = np.array([[0, 1], [2, 0], [1, 2]])
    problems, problem_of = pair_problems(form, gram, members, weight, pairs)
    solved = SMO(tol=1e-6).solve_many(problems)
    assert len(solved) == len(problems) == 3
    coefs, biases = solved.decisions()
    for j, (a, b) in enumerate(pairs):
        places = np.concatenate([members[a], members[b]])
        side = np.repeat([1.0, -1.0], [len(members[a]), len(members[b])])
        problem = problem_of(places, side)
        solution = SMO(tol=1e-6).solve(problem)
        expected, found = certificate(problem, solution), solved.certificates[j]
        coef, bias = problem.decision(solution)
        own = coefs[problems.part(j)]
        assert_allclose(own, coef, rtol=2e-3, atol=1e-4)
        assert_allclose(biases[j], bias, rtol=1e-3, atol=1e-3)
        # As a sequence of ordinary problems and solutions it says the same.
        assert_same_problem(problems[j], problem)
        itself = problems[j].decision(solved[j])
        assert_allclose(itself[0], own, rtol=1e-14)
        assert_allclose(itself[1], biases[j], rtol=1e-14, atol=1e-14)
        assert_allclose(
            [found.primal, found.dual, found.margin],
            [expected.primal, expected.dual, expected.margin],
            rtol=1e-4,
        )
        # By the slow twin, from what is said of the pair itself.
        value, _ = problem.inverse(own, biases[j])
        function = problem.gram @ problem.coef(value)
        twin = certified(problem, value, function, problem.level(value, function))
        assert_allclose(
            [found.primal, found.dual, found.violation, found.margin],
            [twin.primal, twin.dual, twin.violation, twin.margin],
            rtol=1e-8,
            atol=1e-8,
        )
        assert (found.n_free, found.n_bound) == (twin.n_free, twin.n_bound)
        assert found.status == "optimal"
        assert found.violation + found.rounding <= 1e-6


@pytest.mark.parametrize(
    "machine",
    [
        NuSVC(nu=0.5),
        NuSVC(nu=0.5, kernel=RBF(0.1) + Linear()),
        SVC(kernel="sigmoid", gamma=0.01),
        SVC(kernel=RBF(0.1) + Linear()),
        SVC(kernel=rbf_kernel),
        SVC(fit_intercept=False),
        SVC(kernel="linear", fit_intercept=False, C=0.1),
    ],
    ids=["nu", "nu sum", "sigmoid", "sum", "function", "no bias", "linear, no bias"],
)
@pytest.mark.parametrize("by_rival", [False, True], ids=["by pair", "by rival"])
def test_machines_of_any_kernel_are_their_pairs_one_by_one(
    machine, by_rival, monkeypatch
):
    n_classes = 7 if by_rival else 3
    monkeypatch.setattr(multiclass, "MANY", 5)  # of more, coefficients are by rival
    X, y = blobs(8 * n_classes, 4, n_classes=n_classes)
    y[: 2 * n_classes] = np.tile(np.arange(n_classes), 2)  # none without a point
    if isinstance(machine, NuSVC):  # classes of one size, at some distance
        y = np.arange(len(y)) % n_classes
        X = X + 3 * np.random.default_rng(1).normal(size=(n_classes, 4))[y]
    machine = clone(machine).set_params(tol=1e-6).fit(X, y)
    alone = clone(machine).set_params(solver=SMO(tol=1e-6)).fit(X, y)
    f = machine.set_params(decision_function_shape="ovo").decision_function(X)
    g = alone.set_params(decision_function_shape="ovo").decision_function(X)
    if machine.certificate_.status == "optimal":
        assert_allclose(f, g, rtol=0.01, atol=1e-3)
        assert_allclose(machine.certificate_.dual, alone.certificate_.dual, rtol=1e-5)
    else:
        # Of an indefinite kernel either is a stationary point, and no gap is claimed.
        assert machine.certificate_.status == alone.certificate_.status == "indefinite"
        assert np.isnan(machine.certificate_.gap)
    assert machine.certificate_.violation <= machine.tol


def test_a_matrix_of_kernel_values_gives_what_the_kernel_gives():
    X, y = blobs(200, 4, n_classes=35)
    machine, values = SVC(kernel=RBF(0.2)).fit(X, y), SVC(kernel="precomputed")
    values.fit(RBF(0.2)(X), y)
    assert_allclose(values.dual_coef_, machine.dual_coef_, atol=5e-3)
    assert_array_equal(values.predict(RBF(0.2)(X)), machine.predict(X))


def test_the_number_of_threads_does_not_change_a_bit_of_a_pair():
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


def test_pairs_that_take_too_many_steps_are_said():
    X, y = blobs(900, 3)
    with pytest.warns(ConvergenceWarning, match="status 'max_iter'"):
        machine = SVC(max_iter=7).fit(X, y)
    assert machine.certificate_.status == "max_iter"
    assert machine.fit_status_ == 1


def test_pairs_that_single_precision_cannot_tell_are_solved_in_double():
    X, y = blobs(2500, 3)
    machine = SVC(C=20.0, tol=1e-6).fit(X, y)
    assert machine.certify(X, y).violation <= 1.5e-6
    assert {part.run.precision for part in machine.certificate_.parts} == {"double"}


def test_a_kernel_that_gives_nan_in_a_pair_is_named():
    X, y = blobs(300, 3)
    X[7] = 1e200
    with pytest.raises(ValueError, match="not finite"):
        SVC(kernel="poly", gamma=1.0, degree=5).fit(X, y)
