"""What machines report, against the same numbers in extended precision.

Every number may differ by the rounding that is stated with it, and no more; a dual is
not above the optimum; and what is called optimal is.
"""

import warnings

import numpy as np
import pytest

from mercer.data.points import double
from mercer.gram import Gram
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear, Polynomial
from mercer.losses import Hinge, Squared, SquaredHinge
from mercer.machines.kmeans import KernelKMeans
from mercer.machines.pca import KernelPCA
from mercer.machines.regularized import (
    KernelHuberRegression,
    KernelLogisticRegression,
    KernelQuantileRegression,
    RegularizedMachine,
)
from mercer.machines.ridge import KernelRidge
from mercer.machines.rvm import RVR
from mercer.machines.sparse import SparseKernelClassifier, SparseKernelRegressor
from mercer.machines.svm import SVC
from mercer.solvers.auto import BySize
from mercer.solvers.cholesky import Cholesky
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.coordinate import CoordinateAscent
from mercer.solvers.eigen import BlockKrylov
from mercer.solvers.linear import LinearSystem
from mercer.solvers.newton import Newton
from mercer.solvers.rounding import SumRounding

LONG = np.longdouble
N = 60


def points(kind):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N, 4))
    if kind == "near":  # pairs of points 3e-5 apart, on different sides
        X[1::2] = X[::2] + 3e-5 * rng.normal(size=X[::2].shape)
    if kind == "large":
        X *= 10
    return X


def sides(kind):
    rng = np.random.default_rng(3)
    if kind == "near":
        return np.tile([1.0, -1.0], N // 2)
    X = points(kind)
    return np.sign(X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=N))


def numbers(kind):
    X = points(kind)
    return np.sin(X[:, 0]) + X[:, 1] + 0.2 * sides(kind)


SETTINGS = [
    pytest.param("ordinary", RBF(0.3), 1e-3, id="ordinary"),
    pytest.param("near", RBF(0.2), 1e-6, id="near points, other sides"),
    pytest.param("large", Polynomial(3), 10.0, id="polynomial of large numbers"),
]
on_settings = pytest.mark.parametrize("kind, kernel, reg", SETTINGS)
on_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def matrix(kernel, X):
    """K in extended precision, from the formulas."""
    X = X.astype(LONG)
    if isinstance(kernel, RBF):
        squares = np.square(X[:, None] - X[None]).sum(axis=2)
        return np.exp(-LONG(kernel.gamma) * squares)
    inner = X @ X.T
    if isinstance(kernel, Linear):
        return inner
    return (LONG(kernel.scale) * inner + LONG(kernel.offset)) ** kernel.degree


def quiet(fit):
    """The machine, whatever it warns of: how it ended is looked at here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit()


# Ridge regression


@on_types
@on_settings
@pytest.mark.parametrize(
    "solver",
    [Cholesky(), ConjugateGradient(1e-6), BySize(few=10)],
    ids=lambda s: type(s).__name__,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_is_what_it_says(kind, kernel, reg, dtype, solver, weighted):
    X, y = points(kind).astype(dtype), numbers(kind)
    weight = np.random.default_rng(0).uniform(0.1, 1e4, N) if weighted else np.ones(N)
    found = solver.solve(LinearSystem(Gram(kernel, X), y, reg, weight))
    K, c = matrix(kernel, X), found.value.astype(LONG)
    f, root = K @ c, np.sqrt(weight.astype(LONG))
    residual = np.linalg.norm((root * (y - f) - reg * c / root).astype(float))
    violation = residual / np.linalg.norm(root.astype(float) * y)
    primal = (reg * (c @ f) + np.sum(weight * (y - f) ** 2)) / 2
    dual = reg * (2 * (c @ y) - reg * np.sum(c**2 / weight) - c @ f) / 2
    assert abs(violation - found.violation) <= found.rounding
    assert abs(primal - found.primal) <= found.rounding
    assert abs(dual - found.dual) <= found.rounding
    if found.status == "optimal":
        assert violation <= 1e-4
    best = np.linalg.solve((K + reg * np.diag(1 / weight)).astype(float), y)
    best = best.astype(LONG)
    value = (reg * (best @ K @ best) + np.sum(weight * (y - K @ best) ** 2)) / 2
    assert found.dual <= value


def test_ridge_of_a_proved_kernel_is_never_called_indefinite():
    X = (30 * points("large")).astype(np.float32)
    for solver in (Cholesky(), ConjugateGradient(1e-8), BySize(few=10)):
        system = LinearSystem(Gram(Polynomial(5), X), numbers("large"), 1e-6)
        status = solver.solve(system).status
        assert status in ("optimal", "imprecise", "singular")


# A loss and a norm


def curved(loss):
    return lambda reg: RegularizedMachine(loss, reg=reg, fit_intercept=True)


FAMILY = {
    "logistic": (lambda reg: KernelLogisticRegression(1 / (2 * N * reg)), sides),
    "three": (
        lambda reg: KernelLogisticRegression(1 / (2 * N * reg)),
        lambda kind: np.argsort(numbers(kind)) % 3,
    ),
    "huber": (lambda reg: KernelHuberRegression(0.5, reg=reg), numbers),
    "squared": (curved(Squared()), numbers),
    "squared hinge": (curved(SquaredHinge()), sides),
    "quantile": (lambda reg: KernelQuantileRegression(0.3, reg=reg), numbers),
    "hinge": (lambda reg: RegularizedMachine(Hinge(), reg=reg), sides),
}


def recomputed(problem, coef, bias, reg, K):
    """Primal, dual and violation from the definitions, K in extended precision."""
    single = coef.shape[1] == 1
    shape = (lambda v: v[:, 0]) if single else (lambda v: v)
    f = K @ coef.astype(LONG)
    values = (f + bias).astype(float)
    w, m, lam = problem.weights[:, None], problem.mass, 2 * reg * problem.mass
    if problem.loss.curved:
        u = problem.loss.slope(problem.target, shape(values)).reshape(values.shape)
        violation = float(np.abs(lam * coef / w + u).max())
    else:
        slopes = -lam * shape(coef) / problem.weights
        u = np.clip(slopes, *problem.loss.slopes(problem.target))[:, None]
        violation = None
    square = float(np.sum(coef * f))
    primal = problem.primal(square, shape(values))
    wu = (w * u).astype(LONG)
    dual = problem.dual(shape(u), float(np.sum(wu * (K @ wu))))
    return primal, dual, violation, m


@on_types
@on_settings
@pytest.mark.parametrize("solver", ["few", "many"])
@pytest.mark.parametrize("name", FAMILY)
def test_losses_are_what_they_say(kind, kernel, reg, dtype, solver, name, monkeypatch):
    make, target = FAMILY[name]
    if kind == "large" and name in ("three", "quantile", "hinge"):
        reg *= 1e3  # they would take their time
    X, y = points(kind).astype(dtype), target(kind)
    machine = make(reg).set_params(kernel=kernel)
    if solver == "many":  # single precision within, as for thousands of points
        monkeypatch.setattr(Newton, "direct", 0)
        monkeypatch.setattr("mercer.solvers.auto.penalized.SMALL", 0)
        machine.solver = Newton(direct=0) if "hinge" != name != "quantile" else None
    quiet(lambda: machine.fit(X, y))
    claimed = machine.certificate_
    data = machine._prepared(X, y, None)
    (problem,) = machine._problems(data)
    coef = np.zeros((N, machine.expansion_.n_outputs))
    coef[machine.support_] = machine.expansion_.coef.reshape(-1, coef.shape[1])
    K, bias = matrix(kernel, X), np.atleast_1d(machine.expansion_.bias)
    primal, dual, violation, _ = recomputed(problem, coef, bias, machine.reg_, K)
    assert abs(claimed.primal - primal) <= claimed.rounding
    assert abs(claimed.dual - dual) <= claimed.rounding
    assert violation is None or abs(claimed.violation - violation) <= claimed.rounding
    goal = 1e-4 * problem.zero_loss
    if claimed.status == "optimal":
        assert primal - dual <= goal
    again = machine.certify(X, y)
    assert abs(again.primal - primal) <= again.rounding
    assert abs(again.dual - dual) <= again.rounding
    if solver == "many":
        return
    # A bound of the optimum: of the objective of a better solution too.
    fine = make(reg).set_params(kernel=kernel, tol=1e-9)
    quiet(lambda: fine.fit(X.astype(float), y))
    assert claimed.dual <= fine.certificate_.primal + fine.certificate_.rounding


@on_types
def test_a_ball_is_what_it_says(dtype):
    X, y = points("ordinary").astype(dtype), sides("ordinary")
    machine = RegularizedMachine(SquaredHinge(), norm=3.0, kernel=RBF(0.3)).fit(X, y)
    claimed, f = machine.certificate_, machine.expansion_
    (problem,) = machine._problems(machine._prepared(X, y, None))
    coef = np.zeros(N)
    coef[machine.support_] = f.coef
    values = matrix(RBF(0.3), X) @ coef.astype(LONG)
    primal = problem.primal(0.0, values.astype(float))
    assert abs(primal - claimed.primal) <= claimed.rounding
    assert coef @ values <= 9.0 + 1e-9
    assert claimed.gap + claimed.rounding <= 1e-4 * problem.zero_loss


# L1


@on_types
@on_settings
@pytest.mark.parametrize("made", ["classifier", "regressor"])
@pytest.mark.parametrize("cache", [None, 1e-6], ids=["held", "computed"])
def test_l1_is_what_it_says(kind, kernel, reg, dtype, made, cache):
    X = points(kind).astype(dtype)
    machine, y = SparseKernelRegressor(1e-3, cache_size=cache), numbers(kind)
    if made == "classifier":
        machine, y = SparseKernelClassifier(10.0, cache_size=cache), sides(kind)
    quiet(lambda: machine.set_params(kernel=kernel).fit(X, y))
    claimed, K = machine.certificate_, matrix(kernel, X)
    data = machine._prepared(X, y, None)
    (problem,) = machine._problems(machine._terms(data), data, machine._reg)
    coef = np.zeros(N)
    coef[machine.support_] = machine.dual_coef_[0]
    values = (K @ coef.astype(LONG) + machine.intercept_[0]).astype(float)
    primal = problem.primal(coef, values)
    forces = problem.forces(values)
    dual, _ = problem.dual(forces, float(np.abs(K @ forces.astype(LONG)).max()))
    pull = problem.weight * problem.loss.slope(problem.target, values)
    gradient = (K @ pull.astype(LONG)).astype(float)
    violation = problem.violations(coef, gradient).max()
    assert abs(claimed.primal - primal) <= claimed.rounding
    assert abs(claimed.dual - dual) <= claimed.rounding
    assert abs(claimed.violation - violation) <= claimed.rounding
    if claimed.status == "optimal":
        assert primal - dual <= machine.tol * problem.of_constant() * (1 + 1e-9)


# Components, clusters, evidence


@on_types
@on_settings
@pytest.mark.parametrize("solver", ["dense", "krylov", "arpack", "single"])
def test_components_are_what_they_say(kind, kernel, reg, dtype, solver):
    X = points(kind).astype(dtype)
    chosen = BlockKrylov(1e-6, precision="single") if solver == "single" else solver
    machine = quiet(lambda: KernelPCA(3, kernel=kernel, eigen_solver=chosen).fit(X))
    H = np.eye(N, dtype=LONG) - LONG(1) / N
    K = H @ matrix(kernel, X) @ H
    V, values = machine.eigenvectors_.astype(LONG), machine.eigenvalues_
    residuals = np.linalg.norm((K @ V - V * values).astype(float), axis=0)
    # Vectors whose eigenvalue was set to 0 have none.
    assert np.all(np.abs(residuals - machine.residuals_) <= machine.rounding_)
    if machine.run_.status == "optimal" and solver == "single":
        assert residuals.max() <= 1e-6 * values[0]


@on_types
@on_settings
@pytest.mark.parametrize("many", [False, True])
def test_clusters_are_what_they_say(kind, kernel, reg, dtype, many, monkeypatch):
    if many:
        monkeypatch.setattr("mercer.machines.kmeans.DOUBLE", 0)
    X = points(kind).astype(dtype)
    weight = np.random.default_rng(1).uniform(0.5, 20, N)
    machine = KernelKMeans(4, kernel=kernel, random_state=0)
    quiet(lambda: machine.fit(X, sample_weight=weight))
    K, inertia = matrix(kernel, X), LONG(0)
    for c in range(4):
        w = np.where(machine.labels_ == c, weight, 0.0).astype(LONG)
        inertia += w @ np.diagonal(K) - w @ K @ w / w.sum()
    assert abs(machine.inertia_ - inertia) <= machine.rounding_
    assert machine.rounding_ <= 1e-9 * float(weight @ np.diagonal(K))


@pytest.mark.parametrize("many", [False, True])
def test_clusters_of_kernel_values_are_what_they_say(many, monkeypatch):
    if many:
        monkeypatch.setattr("mercer.machines.kmeans.DOUBLE", 0)
    K = RBF(0.3)(points("ordinary")).astype(np.float32)
    machine = KernelKMeans(4, kernel="precomputed", random_state=0).fit(K)
    inertia = LONG(0)
    for c in range(4):
        own = machine.labels_ == c
        inertia += (
            own @ np.diagonal(K).astype(LONG) - own @ K.astype(LONG) @ own / own.sum()
        )
    assert abs(machine.inertia_ - inertia) <= machine.rounding_ <= 1e-12


@on_types
def test_evidence_is_that_of_the_posterior(dtype):
    X, y = points("ordinary").astype(dtype), numbers("ordinary")
    machine = RVR(RBF(0.3)).fit(X, y)
    found = machine.posterior_
    columns = matrix(RBF(0.3), X)[:, machine.relevance_]
    columns = np.column_stack([columns, np.ones(N)])[:, np.isfinite(found.alpha)]
    alpha = found.alpha[np.isfinite(found.alpha)]
    C = (np.eye(N) / found.beta + columns / alpha @ columns.T).astype(float)
    size = np.linalg.slogdet(C)[1]
    expected = -0.5 * (N * np.log(2 * np.pi) + size + y @ np.linalg.solve(C, y))
    assert found.evidence == pytest.approx(expected, abs=1e-6)


# Bounds, with their rounding: dual ≤ optimum ≤ primal, not by one digit otherwise

FINE = 1e-14  # a tolerance that leaves gaps of rounding


def objective(problem, coef, bias, reg, K):
    """The primal objective in extended precision."""
    f = K @ coef.astype(LONG)
    values = f + bias.astype(LONG)
    values = values[:, 0] if coef.shape[1] == 1 else values
    target = problem.target
    target = target.astype(LONG) if coef.shape[1] == 1 else target
    w = problem.weights.astype(LONG)
    loss = w @ problem.loss.value(target, values) / w.sum()
    return loss if problem.reg is None else LONG(reg) * np.sum(coef * f) + loss


def coefficients(machine):
    coef = np.zeros((N, machine.expansion_.n_outputs))
    coef[machine.support_] = machine.expansion_.coef.reshape(-1, coef.shape[1])
    return coef, np.atleast_1d(machine.expansion_.bias)


def is_bracketed(claims, own, best):
    """Whether each claim has its own objective below, and the best above its dual."""
    for claimed in claims:
        assert claimed.dual <= claimed.primal
        assert own <= claimed.primal
        assert claimed.dual <= best


@on_settings
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", FAMILY)
def test_losses_are_bracketed_to_the_last_digit(kind, kernel, reg, name, seed):
    make, target = FAMILY[name]
    if kind == "large":
        reg *= 1e3  # they would take their time
    rng = np.random.default_rng(seed)
    X, y = points(kind), target(kind)
    weight = 10.0 ** rng.uniform(-2, 2, N) if seed else np.ones(N)
    own = make(reg).set_params(kernel=kernel, tol=rng.choice([1e-2, 1e-6]))
    fine = make(reg).set_params(kernel=kernel, tol=FINE, max_iter=20_000)
    values = []
    for machine in (own, fine):
        quiet(lambda m=machine: m.fit(X, y, sample_weight=weight))
        (problem,) = machine._problems(machine._prepared(X, y, weight))
        args = (*coefficients(machine), machine.reg_, matrix(kernel, X))
        values.append(objective(problem, *args))
    best = min(values)
    for machine, value in zip((own, fine), values, strict=True):
        again = machine.certify(X, y, sample_weight=weight)
        is_bracketed((machine.certificate_, again), value, best)
        square = np.sum(coefficients(machine)[0] * (args[3] @ coefficients(machine)[0]))
        assert machine.certificate_.margin**-2 >= square * (1 - 1e-18)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("loss", [SquaredHinge(), Hinge()])
@pytest.mark.parametrize("norm", [0.3, 3.0, 30.0])
def test_balls_are_bracketed_to_the_last_digit(loss, norm, seed):
    rng = np.random.default_rng(seed)
    X, y, kernel = rng.normal(size=(N, 3)), rng.choice([-1.0, 1.0], N), RBF(0.3)
    K, values, machines = matrix(kernel, X), [], []
    for tol in (1e-3, 1e-11):
        machine = RegularizedMachine(loss, norm=norm, kernel=kernel, tol=tol)
        machines.append(quiet(lambda m=machine: m.fit(X, y)))
        (problem,) = machine._problems(machine._fit_data(X, y, None))
        coef, bias = coefficients(machine)
        assert np.sum(coef * (K @ coef.astype(LONG))) <= LONG(norm) ** 2
        values.append(objective(problem, coef, bias, None, K))
    for machine, value in zip(machines, values, strict=True):
        is_bracketed((machine.certificate_,), value, min(values))


@on_settings
@pytest.mark.parametrize(
    "solver",
    [Cholesky(), ConjugateGradient(1e-3), ConjugateGradient(1e-10), BySize(few=10)],
    ids=repr,
)
@pytest.mark.parametrize("seed", range(3))
def test_ridge_is_bracketed_to_the_last_digit(kind, kernel, reg, solver, seed):
    rng = np.random.default_rng(seed)
    X, y = points(kind), np.column_stack([numbers(kind), rng.normal(size=N)])
    weight = 10.0 ** rng.uniform(-2, 2, N)
    K, W, values = matrix(kernel, X), weight.astype(LONG)[:, None], []

    def of(c):
        c = c.astype(LONG)
        return np.sum(LONG(reg) * c * (K @ c) + W * (y - K @ c) ** 2) / 2

    system = LinearSystem(Gram(kernel, X), y, reg, weight)
    claims = [solver.solve(system), Cholesky().solve(system)]
    values = [of(found.value) for found in claims]
    refined = claims[1].value.astype(LONG)
    A = K + np.diag(LONG(reg) / W[:, 0])
    for _ in range(3):  # towards the solution in extended precision
        step = np.linalg.solve(A.astype(float), (y - A @ refined).astype(float))
        refined = refined + step
    best = min(*values, of(refined))
    for claimed, value in zip(claims, values, strict=True):
        is_bracketed((claimed,), value, best)
    machine = KernelRidge(reg, kernel=kernel).fit(X, y, sample_weight=weight)
    c = machine.dual_coef_.astype(LONG)
    longest = np.sum(c * (K @ c), axis=0).max()
    assert machine.certificate_.margin**-2 >= longest * (1 - 1e-18)


@on_settings
@pytest.mark.parametrize("made", ["classifier", "regressor"])
@pytest.mark.parametrize("seed", range(3))
def test_l1_is_bracketed_to_the_last_digit(kind, kernel, reg, made, seed):
    rng = np.random.default_rng(seed)
    X, K = points(kind), matrix(kernel, points(kind))
    weight = 10.0 ** rng.uniform(-2, 2, N)
    values, claims = [], []
    for tol in (1e-3, FINE):
        machine, y = SparseKernelRegressor(1e-2, tol=tol), numbers(kind)
        if made == "classifier":
            machine, y = SparseKernelClassifier(10.0, tol=tol), sides(kind)
        machine.set_params(kernel=kernel)
        quiet(lambda m=machine, y=y: m.fit(X, y, sample_weight=weight))
        data = machine._prepared(X, y, weight)
        (problem,) = machine._problems(machine._terms(data), data, machine._reg)
        coef = np.zeros(N, LONG)
        coef[machine.support_] = machine.dual_coef_[0]
        f = K @ coef + LONG(machine.intercept_[0])
        losses = problem.loss.value(problem.target.astype(LONG), f)
        penalty = LONG(problem.reg) * np.abs(coef).sum()
        values.append(problem.weight.astype(LONG) @ losses + penalty)
        again = machine.certify(X, y, sample_weight=weight)
        claims.append((machine.certificate_, again))
        square = coef @ (K @ coef)
        assert machine.certificate_.margin**-2 >= square * (1 - 1e-18)
    for pair, value in zip(claims, values, strict=True):
        is_bracketed(pair, value, min(values))


@pytest.mark.parametrize("order", ["cyclic", "greedy"])
@pytest.mark.parametrize("max_iter", [-1, 10, 300])
@pytest.mark.parametrize("kernel", [RBF(0.3), Linear(), Polynomial(3)], ids=str)
def test_coordinate_ascent_is_bracketed_to_the_last_digit(kernel, max_iter, order):
    X, y = points("ordinary"), sides("ordinary")
    K, C = matrix(kernel, X), LONG(10.0)
    values, claims = [], []
    for tol in (1e-3, 1e-9):
        solver = CoordinateAscent(tol, max_iter, order)
        machine = SVC(C=10.0, kernel=kernel, fit_intercept=False, solver=solver)
        quiet(lambda m=machine: m.fit(X, y))
        coef = coefficients(machine)[0][:, 0].astype(LONG)
        f = K @ coef
        values.append(coef @ f / 2 + C * np.maximum(1 - y * f, 0).sum())
        claims.append((machine.certificate_, machine.certify(X, y)))
        # A machine of few steps is told from the solution by its own numbers alone.
        dual = y @ coef - coef @ f / 2
        for claimed in claims[-1]:
            assert claimed.dual <= dual
            assert abs(claimed.dual - dual) <= claimed.objective_rounding
            assert abs(claimed.primal - values[-1]) <= claimed.objective_rounding
    for pair, value in zip(claims, values, strict=True):
        is_bracketed(pair, value, min(values))


# The bound itself


@on_types
@on_settings
def test_rounding_of_sums_is_bounded_but_not_by_much(kind, kernel, reg, dtype):
    X = points(kind).astype(dtype)
    gram = Gram(kernel, double(X))
    coef = np.random.default_rng(5).normal(size=(N, 3)) * [1.0, 1e6, 1e-9]
    error = np.abs(gram @ coef - matrix(kernel, X) @ coef.astype(LONG))
    bound = SumRounding(gram)(coef)
    assert np.all(error <= bound)
    assert np.all(SumRounding(gram)(coef, tight=True) >= error)
    assert np.all(bound <= 1e-12 * gram.diag().max() * np.abs(coef).sum(axis=0))
