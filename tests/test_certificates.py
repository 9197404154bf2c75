"""A certificate is never better than the truth: double precision, all points."""

import pickle
import warnings
from math import fsum

import numpy as np
import pytest
import scipy.sparse as sp
from looped import looped
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mercer import (
    RBF,
    SVC,
    SVDD,
    SVR,
    Laplacian,
    Linear,
    NuSVC,
    NuSVR,
    OneClassSVM,
    Polynomial,
)
from mercer.gram import Gram
from mercer.native import threads
from mercer.native import vectors as native
from mercer.solvers.auto import AutoSMO
from mercer.solvers.programs import svc
from mercer.solvers.smo import SMO


def labelled(n=1500, d=20, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d)).astype(dtype)
    return X, np.where(X[:, 0] + 0.3 * rng.standard_normal(n) > 0.5, 1, -1)


def near_opposites(n=1500, apart=3e-5, seed=0, pairs=1):
    X, y = labelled(n, seed=seed)
    for i in range(pairs):
        X[2 * i + 1] = X[2 * i]
        X[2 * i + 1, 0] += apart
        y[2 * i], y[2 * i + 1] = 1, -1
    return X, y


def far_away(n=1500):
    X, y = labelled(n)
    return X + 1e3, y


CASES = {
    "ordinary": (labelled, SVC(kernel=RBF(1.0))),
    "float32": (lambda: labelled(dtype=np.float32), SVC(kernel=RBF(1.0), C=10)),
    "two near points": (near_opposites, SVC(kernel=RBF(5.0), C=1e6)),
    "many near points": (
        lambda: near_opposites(pairs=20, apart=1e-4),
        SVC(kernel=RBF(5.0), C=1e4),
    ),
    "an offset": (far_away, SVC(kernel=RBF(1.0), C=10)),
    "laplacian": (labelled, SVC(kernel=Laplacian(0.5), C=100)),
    "polynomial": (labelled, SVC(kernel=Polynomial(3), C=0.1)),
    "linear": (labelled, SVC(kernel=Linear(), C=1.0)),
    "nu": (labelled, NuSVC(kernel=RBF(1.0), nu=0.3)),
    "one class": (labelled, OneClassSVM(kernel=RBF(1.0), nu=0.2)),
    "regression": (
        lambda: (labelled()[0], 10 * np.sin(6 * labelled()[0][:, 0])),
        SVR(kernel=RBF(1.0), C=100),
    ),
    "stopped": (labelled, SVC(kernel=RBF(5.0), C=1e3, max_iter=50)),
    "three classes": (
        lambda: (labelled(2400)[0], np.digitize(labelled(2400)[0][:, 0], [0.3, 0.6])),
        SVC(kernel=RBF(1.0), C=10),
    ),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("case", CASES)
def test_every_number_is_its_float64_value_within_the_rounding_it_states(case):
    make, machine = CASES[case]
    X, y = make()
    machine.fit(X, y)
    said = machine.certificate_
    found = machine.certify(X, y)
    slack = found.rounding + 1e-12
    assert abs(said.violation - found.violation) <= said.rounding + slack
    error = said.objective_rounding + found.objective_rounding
    assert abs(said.primal - found.primal) <= error
    assert abs(said.dual - found.dual) <= error
    assert abs(said.gap - found.gap) <= error
    assert_allclose(said.margin, found.margin, rtol=1e-6)
    if said.status == "optimal":
        for part in said.parts or (said,):
            assert part.violation + part.rounding <= machine.tol


def noisy(n=2500, d=6, seed=0, dtype=np.float64):
    """Nearly all points end at their bound."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(dtype)
    return X, rng.standard_normal(n) + X[:, 0]


AT_THE_BOUND = {
    "classes": (SVC(), lambda X, y: (X, np.where(y > 0, "a", "b"))),
    "sparse": (SVC(), lambda X, y: (sp.csr_matrix(X * (X > 0)), y > 0)),
    "tube": (SVR(epsilon=0.01), lambda X, y: (X, y)),
    "nu tube": (NuSVR(nu=0.9), lambda X, y: (X, y)),
    "one class": (OneClassSVM(nu=0.8), lambda X, y: (X, None)),
    "no bias": (SVC(fit_intercept=False), lambda X, y: (X, y > 0)),
    "linear": (SVC(kernel="linear"), lambda X, y: (X, y > 0)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", AT_THE_BOUND)
def test_objectives_that_wait_are_completed_when_they_are_read(case, dtype):
    machine, form = AT_THE_BOUND[case]
    X, y = form(*noisy(dtype=dtype))
    machine = clone(machine).fit(X, y)
    waiting, stored = machine._certificate, pickle.dumps(machine)
    found = machine.certify(X, y)
    X *= 0  # what fit has learnt is its own
    assert np.isfinite(waiting.square)
    assert waiting.status == "optimal"
    assert waiting.violation + waiting.rounding <= machine.tol
    assert abs(waiting.violation - found.violation) <= waiting.rounding + found.rounding
    for said in (machine.certificate_, pickle.loads(stored).certificate_):
        assert np.isnan(said.square)
        error = said.objective_rounding + found.objective_rounding
        assert abs(said.primal - found.primal) <= error
        assert abs(said.dual - found.dual) <= error
        assert abs(said.gap - found.gap) <= error
        assert abs(said.margin**-2 - found.margin**-2) <= error
    assert machine.certificate_ is machine.certificate_


@pytest.mark.parametrize("seed", range(4))
def test_points_at_their_bound_are_there_for_sure(seed):
    """Heavy tails and near opposites: the few points that are summed decide rightly."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(2, size=(3000, 4))
    X[1::2] = X[::2] + 1e-4 * rng.standard_normal((1500, 4))
    y = np.where(rng.random(3000) < 0.5, 1, -1)
    machine = SVC(kernel=RBF(0.3), C=5.0).fit(X, y)
    waiting = machine._certificate
    assert np.isfinite(waiting.square)
    found = machine.certify(X, y)
    assert abs(waiting.violation - found.violation) <= waiting.rounding + found.rounding
    best = SMO(tol=1e-6, precision="double").solve(svc(Gram(RBF(0.3), X), y, 5.0))
    assert machine.certificate_.dual <= best.primal
    assert best.dual <= machine.certificate_.primal


def test_a_solver_that_is_asked_for_objectives_has_them():
    X, y = noisy()
    problem = svc(Gram(RBF(0.1), X), np.where(y > 0, 1, -1), 1.0)
    whole = SMO().solve(problem)
    assert whole.square is None
    part = SMO(objectives=False).solve(problem)
    assert part.square == pytest.approx(problem.coef(part.value) @ part.function)
    square = problem.coef(part.value) @ (problem.gram @ problem.coef(part.value))
    shift = (part.square - square) / 2
    error = whole.objective_rounding + part.objective_rounding
    assert abs(part.dual + shift - whole.dual) <= error
    assert abs(part.primal + shift - whole.primal) <= error


@pytest.mark.parametrize("apart, C", [(3e-5, 1e6), (1e-3, 1e5), (1e-6, 1e4)])
def test_the_dual_is_below_the_optimum(apart, C):
    X, y = near_opposites(apart=apart)
    said = SVC(kernel=RBF(5.0), C=C).fit(X, y).certificate_
    problem = svc(Gram(RBF(5.0), X), y, C)
    best = SMO(tol=1e-7, precision="double").solve(problem)
    assert said.dual <= best.primal
    assert best.dual <= said.primal


def test_signed_coefficients_sum_to_zero_without_an_error():
    X, y = labelled()
    for machine in (SVC(C=7.3), SVR(C=3.1)):
        coef = machine.fit(X, y).dual_coef_
        assert fsum(coef.ravel().tolist()) == 0
    three = np.digitize(X[:, 0], [0.3, 0.6])
    columns = SVC(C=0.7).fit(X, three).expansion_.coef
    assert [fsum(column.tolist()) for column in columns.T] == [0, 0, 0]


@looped("spread", [0.01, 1.0, 6.0])
@looped("n_classes", [2, 3])
@looped("machine", [SVC(C=7.3), SVR(C=3.1)])
def test_sums_are_missed_by_less_than_the_last_digit_of_a_free_coefficient(
    machine, n_classes, spread
):
    """Weights of different sizes have digits that no free coefficient may have."""
    X, _ = labelled(200)
    weight = 10.0 ** np.random.default_rng(1).uniform(-spread, spread, len(X))
    y = np.digitize(X[:, 0], np.linspace(0, 1, n_classes + 1)[1:-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine = clone(machine).fit(X, y, sample_weight=weight)
    for beta in np.atleast_2d(machine.expansion_.coef.T):
        beta, own = beta[beta != 0], weight[machine.support_][beta != 0]
        bound = np.abs(beta) == machine.C * own
        finest = np.spacing(np.abs(beta[~bound]).min())
        assert abs(fsum(beta.tolist())) <= finest / 2


@pytest.mark.parametrize("n", [150, 1500])
@pytest.mark.parametrize("kernel", [Linear(), RBF(1.0)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_hard_margins_are_bracketed(n, kernel, bias):
    """f misses a hard margin by some tol, and its norm is no bound; that of f/s is."""
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 3))
    y = np.where(X[:, 0] > 0, 1, -1)
    X[:, 0] += 0.4 * y
    machine = SVC(C=np.inf, kernel=kernel, fit_intercept=bias).fit(X, y)
    fine = clone(machine).set_params(tol=1e-8).fit(X, y).certificate_
    for said in (machine.certificate_, machine.certify(X, y)):
        assert said.dual <= fine.primal
        assert fine.dual <= said.primal
        assert 0 <= said.gap <= 0.01 * said.primal
    assert 0 <= fine.gap <= 1e-6 * fine.primal
    values = machine.decision_function(X)
    reached = np.min(y * values)
    square = machine.expansion_.norm() ** 2
    assert_allclose(
        machine.certificate_.primal, square / 2 / min(reached, 1) ** 2, rtol=1e-7
    )


def test_a_hard_tube_that_is_missed_has_no_finite_primal():
    X, _ = noisy(200, 2)
    y = np.sin(X[:, 0])
    machine = SVR(C=np.inf, kernel=RBF(1.0), epsilon=0.1).fit(X, y)
    said = machine.certificate_
    assert said.status == "optimal"
    assert said.primal == np.inf
    assert said.dual <= SVR(C=1e4, kernel=RBF(1.0)).fit(X, y).certificate_.primal


@looped("machine", [SVC(), SVR(), OneClassSVM()])
@looped("n", [60, 1200])
def test_a_kernel_that_overflows_is_an_error(machine, n):
    X, y = labelled(n, d=40)
    machine.set_params(kernel=Polynomial(300))
    with pytest.raises(ValueError, match="not finite"):
        machine.fit(1e3 * X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("machine", [SVC(), SVR(), OneClassSVM()])
def test_single_precision_that_would_overflow_is_not_used(machine):
    X, y = labelled(1200, d=40, dtype=np.float32)
    machine.set_params(kernel=Polynomial(30))
    machine.fit(100 * X, y)
    assert np.isfinite(machine.certificate_.dual)
    assert machine.certificate_.run.precision == "double"


@looped("dtype", [np.float32, np.float64])
@looped("n, d", [(1, 3), (37, 9), (500, 100), (700, 5)])
@looped("zeros", [0.0, 0.9])
def test_a_symmetric_product_is_the_product(n, d, zeros, dtype):
    rng = np.random.default_rng(n + d)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) >= zeros)
    X, v = X.astype(dtype), rng.standard_normal(n)
    recipe = RBF(0.5 / d).native(X)
    expected = RBF(0.5 / d)(X.astype(float)) @ v
    found = native.symmetric_product(recipe, X, v)
    tolerance = 1e-12 if dtype is np.float64 else 1e-4
    assert_allclose(found, expected, atol=tolerance * n)


def test_a_symmetric_product_does_not_depend_on_the_threads():
    X = np.random.default_rng(0).standard_normal((900, 30))
    v, before = np.linspace(-1, 1, 900), threads.threads()
    recipe, found = RBF(0.1).native(X), []
    try:
        for count in (1, 2, 3):
            threads.set_threads(count)
            found.append(native.symmetric_product(recipe, X, v))
    finally:
        threads.set_threads(before)
    assert (found[0] == found[1]).all() and (found[0] == found[2]).all()


# Against extended precision: small problems with large prices

LONG = np.longdouble


def hostile(kind, n=60):
    """Points, two classes, targets and weights of very different sizes."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, 3))
    side = np.where(X[:, 0] + 0.3 * rng.standard_normal(n) > 0, 1, -1)
    if kind == "near":
        X[n // 2 :] = X[: n // 2] + 1e-6 * rng.standard_normal((n // 2, 3))
        side[n // 2 :] = -side[: n // 2]
    if kind == "far":
        X = X + 1e4
    target = np.sin(3 * rng.standard_normal(n)) + 0.1 * side
    return X, side, target, 10.0 ** rng.uniform(-6, 6, n)


# Where this many steps are not enough, the certificate of what was found is judged.
STEPS = 20_000
HOSTILE = {
    "SVC": (SVC(C=10.0, max_iter=STEPS), "side"),
    "SVC, large C": (SVC(C=1e6, max_iter=STEPS), "side"),
    "SVC without bias": (SVC(C=10.0, fit_intercept=False, max_iter=STEPS), "side"),
    "NuSVC": (NuSVC(nu=0.1), "side"),
    "SVR": (SVR(C=10.0, epsilon=0.01, max_iter=STEPS), "target"),
    "NuSVR": (NuSVR(C=10.0, nu=0.3, max_iter=STEPS), "target"),
    "OneClassSVM": (OneClassSVM(nu=0.3), None),
    "SVDD": (SVDD(nu=0.3), None),
}


def long_values(kernel, X):
    """Linear() or RBF(γ) of the points, in extended precision."""
    points = X.astype(LONG)
    if isinstance(kernel, Linear):
        return points @ points.T
    squares = np.square(points[:, None] - points[None]).sum(axis=2)
    return np.exp(-LONG(kernel.gamma) * squares)


def exact(problem, value, level, K):
    """Primal, dual, violation and βᵀKβ from their definitions."""
    beta = problem.sign.astype(LONG) * value
    coef = np.zeros(len(K), LONG)
    index = np.arange(len(K)) if problem.index is None else problem.index
    np.add.at(coef, index, beta)
    F = (K @ coef)[index]
    low, high = problem.bounds
    tube = np.zeros(len(beta)) if problem.tube is None else problem.tube
    square = beta @ F
    dual = problem.target @ beta - square / 2 - tube @ np.abs(beta)
    surplus, primal, violation = problem.target - F, square / 2, LONG(0)
    below = np.where(beta > low, -surplus + np.where(beta > 0, tube, -tube), -np.inf)
    above = np.where(beta < high, -surplus + np.where(beta < 0, -tube, tube), np.inf)
    for (members, total), rho in zip(problem.groups(), level, strict=True):
        surplus[members] += LONG(rho)
        primal -= LONG(rho) * (total or 0.0)
        down, up = below[members].max(), above[members].min()
        gain = max(down, -up) if total is None else down - up
        violation = max(violation, gain)
    losses = [surplus * b - tube * np.abs(b) for b in (low, high)]
    primal += np.maximum(np.maximum(*losses), 0).sum()
    return primal, dual, violation, square


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["ordinary", "near", "far"])
@pytest.mark.parametrize("kernel", [Linear(), RBF(0.5)], ids=str)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_certificate_is_not_better_than_extended_precision(
    name, kernel, kind, weighted, dtype, monkeypatch
):
    solved = []
    solve = AutoSMO._solve

    def kept(self, problem, *rest, **options):
        solved.append((problem, solve(self, problem, *rest, **options)))
        return solved[-1][1]

    monkeypatch.setattr(AutoSMO, "_solve", kept)
    machine, which = HOSTILE[name]
    X, side, target, weight = hostile(kind)
    X, y = X.astype(dtype), {"side": side, "target": target}.get(which)
    weight = weight if weighted else None
    machine = clone(machine).set_params(kernel=kernel).fit(X, y, sample_weight=weight)
    said, ((problem, solution),) = machine.certificate_, solved
    found = exact(problem, solution.value, solution.level, long_values(kernel, X))
    primal, dual, violation, square = found
    assert 0 <= said.primal - primal <= said.objective_rounding
    assert 0 <= dual - said.dual <= said.objective_rounding
    assert abs(said.violation - violation) <= said.rounding
    if said.status == "optimal":
        assert violation <= machine.tol
    distance = np.ptp(solution.level) / 2 if problem.unit_margin else 1.0
    if said.status != "flat":
        assert square <= (distance / said.margin) ** 2
        assert (distance / said.margin) ** 2 <= square + said.objective_rounding
    again = machine.certify(X, y, sample_weight=weight)
    error = said.objective_rounding + again.objective_rounding
    assert abs(said.primal - again.primal) <= error
    assert abs(said.dual - again.dual) <= error
    assert abs(said.violation - again.violation) <= said.rounding + again.rounding


@looped("kind", ["ordinary", "near", "far"])
@looped("kernel", [Linear(), RBF(0.5)], ids=str)
def test_no_pair_of_classes_is_better_than_extended_precision(kernel, kind):
    X, _, target, weight = hostile(kind, n=90)
    y = np.digitize(target, [-0.4, 0.4])
    machine = SVC(C=10.0, kernel=kernel, multiclass="ovo", max_iter=STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(X, y, sample_weight=weight)
    coef = np.zeros((len(X), 3))
    coef[machine.support_] = machine.expansion_.coef
    K = long_values(kernel, X)
    for j, (first, second) in enumerate([(0, 1), (0, 2), (1, 2)]):
        said = machine.certificate_.parts[j]
        places = np.flatnonzero((y == first) | (y == second))
        side = np.where(y[places] == first, 1, -1)
        problem = svc(Gram(kernel, X[places]), side, 10.0 * weight[places])
        value, level = side * coef[places, j], (-machine.expansion_.bias[j],)
        primal, dual, violation, _ = exact(
            problem, value, level, K[np.ix_(places, places)]
        )
        assert 0 <= said.primal - primal <= said.objective_rounding
        assert 0 <= dual - said.dual <= said.objective_rounding
        assert abs(said.violation - violation) <= said.rounding
