"""Kernel SGD: the plain algorithm in other words, its bound, streams and budgets."""

import pickle
import signal
import threading
import time

import naive_sgd
import numpy as np
import pytest
import scipy.sparse as sp
from checks import machine_checks
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score

from mercer.kernels.operators import Constant
from mercer.kernels.radial import RBF
from mercer.kernels.substring import Spectrum
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import BlockFunction, PairFunction, Precomputed
from mercer.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    PerceptronLoss,
    Quantile,
    Squared,
    SquaredHinge,
)
from mercer.machines import progress
from mercer.machines.sgd import KernelSGDClassifier, KernelSGDRegressor, visits
from mercer.machines.svm import SVC
from mercer.native.threads import set_threads, threads
from mercer.solvers import budget as budgets
from mercer.solvers import sgd
from mercer.solvers.sgd import SGD

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2))
SIDE = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
THREE = np.array(["ant", "bee", "cow"])[np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])]
TARGET = np.sin(2 * X[:, 0]) + X[:, 1]
KERNEL = RBF(0.7)
K = KERNEL(X)
T = len(X)
ROOTS = np.sqrt(np.arange(1, T + 1))
PLAIN = {"kernel": KERNEL, "fit_intercept": False, "max_iter": 1, "shuffle": False}
NUMBER_LOSSES = [Squared(), EpsilonInsensitive(0.05), Huber(0.5), Quantile(0.8)]
SIDE_LOSSES = [Hinge(), PerceptronLoss(), SquaredHinge(), Logistic()]

every_loss = pytest.mark.parametrize(
    "loss", SIDE_LOSSES + NUMBER_LOSSES, ids=lambda loss: type(loss).__name__
)


def made(loss, **params):
    """A machine of one pass in the order given, and targets for it."""
    if loss.of_sides:
        return KernelSGDClassifier(loss, **PLAIN | params), SIDE
    return KernelSGDRegressor(loss, **PLAIN | params), TARGET


def full(expansion, n=T):
    """The coefficients of an expansion on points of X, one for every point of X."""
    coef = np.zeros(n)
    for point, c in zip(expansion.points, expansion.coef, strict=True):
        coef[np.flatnonzero((X == point).all(axis=1))[0]] += c
    return coef


@machine_checks(
    [
        KernelSGDClassifier(),
        KernelSGDClassifier("logistic", kernel=RBF(), average=False),
        KernelSGDClassifier(kernel="precomputed"),
        KernelSGDClassifier(budget=40, removal="merge"),
        KernelSGDRegressor(),
        KernelSGDRegressor("huber", kernel="precomputed"),
    ]
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


# The plain algorithm

RUNS = [
    ({"reg": 0, "learning_rate": "constant", "eta0": 0.3}, np.full(T, 0.3)),
    ({"reg": 0.02, "learning_rate": "constant", "eta0": 0.3}, np.full(T, 0.3)),
    ({"reg": 0, "learning_rate": "root", "eta0": 0.4, "norm": 1.2}, 0.4 / ROOTS),
    ({"reg": 0.1, "learning_rate": "pegasos"}, 5 / ROOTS**2),
    ({"reg": 0.1, "learning_rate": "pegasos", "norm": 0.8}, 5 / ROOTS**2),
]


@every_loss
@pytest.mark.parametrize("params, rates", RUNS, ids=lambda value: str(value)[:60])
def test_blocks_make_the_steps_of_the_plain_algorithm(loss, params, rates, monkeypatch):
    monkeypatch.setattr(sgd, "BLOCK", 17)
    last, y = made(loss, average=False, **params)
    last.fit(X, y)
    reg, norm = params["reg"], params.get("norm", np.inf)
    path, values = naive_sgd.walk(K, y, loss, rates, reg=reg, norm=norm)
    scale = np.abs(path).max()
    assert_allclose(full(last.expansion_), path[-1], atol=1e-9 * scale)
    mean = clone(last).set_params(average=True).fit(X, y)
    assert_allclose(full(mean.expansion_), path[:-1].mean(axis=0), atol=1e-9 * scale)
    assert_allclose(full(mean.last_), path[-1], atol=1e-9 * scale)
    assert_allclose(last.norm_**2, path[-1] @ K @ path[-1], rtol=1e-9, atol=1e-12)
    assert_allclose(last.loss_curve_, [loss.value(y, values).mean()], rtol=1e-9)


@every_loss
@pytest.mark.parametrize("params, rates", RUNS, ids=lambda value: str(value)[:60])
def test_loss_of_ones_own_makes_the_steps_the_core_makes(loss, params, rates):
    own = type("Own", (type(loss),), {})(**vars(loss))
    for average in (False, True):
        native, y = made(loss, average=average, **params)
        python, _ = made(own, average=average, **params)
        expected = native.fit(X, y).expansion_(X)
        assert_allclose(python.fit(X, y).expansion_(X), expected, rtol=1e-9, atol=1e-9)
        assert_allclose(python.norm_, native.norm_, rtol=1e-9)


def test_core_refuses_what_it_does_not_know():
    with pytest.raises(ValueError, match="does not know the loss cubic"):
        core_steps("cubic", b=3)
    with pytest.raises(ValueError, match=r"needs gram \(b, b\)"):
        core_steps("hinge", b=3, gram=np.eye(2))


def core_steps(word, b, gram=None):
    gram = np.eye(b) if gram is None else gram
    target, *rows = (np.zeros((1, b)) for _ in range(4))
    weight, rate = np.ones(b), np.ones(b)
    ends = (np.zeros(1) for _ in range(3))
    return sgd._core.sgd_steps(
        word, 0.0, gram, target, weight, rate, 0.0, 1.0, 0.0, *rows, *ends
    )


@pytest.mark.parametrize("loss", [Hinge(), Logistic(), Squared()])
def test_automatic_rate_is_stable_at_first_and_that_of_pegasos_in_the_end(loss):
    bend = {Hinge: 1.0, Logistic: 0.25, Squared: 2.0}[type(loss)]
    machine, y = made(loss, reg=0.05, average=False)
    rates = 1 / (0.1 * np.arange(1, T + 1) + bend)
    path, _ = naive_sgd.walk(K, y, loss, rates, reg=0.05)
    assert_allclose(full(machine.fit(X, y).expansion_), path[-1], atol=1e-10)


def test_several_passes_add_to_the_terms_there_are():
    order = np.tile(np.arange(T), 3)
    rates = 0.5 / np.sqrt(np.arange(1, 3 * T + 1))
    path, _ = naive_sgd.walk(K, SIDE, Hinge(), rates, order=order)
    machine, y = made(Hinge(), reg=0, eta0=0.5, learning_rate="root", max_iter=3)
    machine.fit(X, y)
    assert_allclose(full(machine.last_), path[-1], atol=1e-12)
    assert len(machine.last_.coef) == np.count_nonzero(path[-1])
    assert machine.t_ == 3 * T and machine.n_iter_ == 3


def test_perceptron_loss_without_reg_at_rate_1_is_the_perceptron():
    machine, y = made(PerceptronLoss(), reg=0, learning_rate="constant", eta0=1.0)
    machine.set_params(average=False, max_iter=5).fit(X, y)
    expected = naive_sgd.perceptron(K, SIDE, passes=5)
    assert_array_equal(full(machine.expansion_), expected)


@every_loss
def test_explicit_features_and_plain_steps_give_the_same_machine(loss):
    kernel = Polynomial(2)
    machine, y = made(loss, kernel=kernel, reg=0.01, norm=0.9, average=True)
    machine.set_params(learning_rate="root", eta0=0.05).fit(X, y)
    features = np.asarray(kernel.features(X))
    path = naive_sgd.features_walk(features, y, loss, 0.05 / ROOTS, 0.01, 0.9)
    assert_allclose(machine.expansion_(X), features @ path[:-1].mean(0), atol=1e-10)
    assert_allclose(machine.last_(X), features @ path[-1], atol=1e-10)
    assert_allclose(machine.norm_, np.linalg.norm(path[-1]), rtol=1e-10)


class OwnHuber(Huber):
    """A loss that the core does not know."""


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {"reg": 0.01},
        {"reg": 0.4, "learning_rate": "constant", "eta0": 1.0},  # 1 - 2 reg η = 0.2
        {"reg": 0.5, "learning_rate": "pegasos"},  # the first step forgets all
        {"reg": 0.0, "norm": 0.3, "learning_rate": "constant", "eta0": 0.2},
    ],
)
def test_steps_of_the_core_are_those_in_python(container, average, options):
    random = np.random.default_rng(8)
    points, y = np.round(random.normal(size=(150, 4)), 1), random.normal(size=(150, 3))
    points[random.uniform(size=points.shape) < 0.4] = 0
    options |= {"kernel": Linear(), "average": average, "shuffle": False}
    machines = []
    for loss in (Huber(), OwnHuber()):
        machine = KernelSGDRegressor(loss, **options)
        for part in (slice(0, 100), slice(100, 150)):
            machine.partial_fit(container(points[part]), y[part])
        machines.append(machine)
    core, python = machines
    assert core._state.primal is not None
    assert_allclose(core.predict(points), python.predict(points), atol=1e-12)
    assert_allclose(core.norm_, python.norm_, atol=1e-12)
    assert_allclose(core.loss_curve_, python.loss_curve_, atol=1e-12)
    # On the points f is the same again.
    for machine in machines:
        assert_allclose(machine.expansion_(points), core.predict(points), atol=1e-10)
        assert_allclose(machine.last_(points), core.last_(points), atol=1e-10)


def test_an_average_that_rests_counts_no_step_of_that_time(monkeypatch):
    roads = []
    for chosen in (True, False):
        road = "mercer.machines.sgd.base.steps_on_features"
        monkeypatch.setattr(road, lambda kernel, X, passes, chosen=chosen: chosen)
        machine = KernelSGDRegressor(kernel=Linear(), reg=0.01)
        for i, average in enumerate([True, False, True]):
            part = slice(20 * i, 20 * i + 20)
            machine.set_params(average=average).partial_fit(X[part], SIDE[part])
        roads.append(machine)
    features, points = roads
    assert features._state.primal is not None and points._state.primal is None
    assert_allclose(features.predict(X), points.predict(X), atol=1e-12)


def test_pegasos_forgets_its_start_and_bounds_its_norm():
    # After step 1, w = y x / (2 reg); from then on ‖w‖ ≤ R / (2 reg).
    seen = []
    machine, y = made(Hinge(), kernel=Linear(), reg=0.5, learning_rate="pegasos")
    machine.set_params(average=False, callback=lambda p: seen.append(p.norm)).fit(X, y)
    path = naive_sgd.features_walk(X, SIDE, Hinge(), 1 / ROOTS**2, 0.5)
    assert_allclose(machine.expansion_(np.eye(2)), path[-1], atol=1e-12)
    assert max(seen) <= np.linalg.norm(X, axis=1).max()


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    reg=st.sampled_from([0.0, 1e-4, 0.1]),
    norm=st.sampled_from([None, 0.5, 3.0]),
    budget=st.sampled_from([None, 1, 7]),
    removal=st.sampled_from(["oldest", "smallest", "merge"]),
    intercept=st.booleans(),
)
def test_norm_kept_step_by_step_is_that_of_the_expansion(
    seed, reg, norm, budget, removal, intercept
):
    draw = np.random.default_rng(seed)
    points = draw.normal(size=(50, 2)).round(1)  # some of them twice
    machine = KernelSGDClassifier(
        kernel=KERNEL,
        reg=reg,
        norm=norm,
        budget=budget,
        removal=removal,
        fit_intercept=intercept,
        max_iter=3,
        random_state=seed % 1000,
    ).fit(points, draw.choice(["a", "b", "c"], size=50))
    found = machine.last_
    assert_allclose(machine.norm_, found.norm(), rtol=1e-8, atol=1e-10)
    assert budget is None or len(found.coef) <= budget
    assert norm is None or (found.norm() <= norm * (1 + 1e-9)).all()


def test_projection_never_enlarges():
    inside, y = made(Hinge(), reg=0.01, norm=1e6, learning_rate="root", eta0=0.3)
    free, _ = made(Hinge(), reg=0.01, learning_rate="root", eta0=0.3)
    assert_array_equal(inside.fit(X, y).expansion_.coef, free.fit(X, y).expansion_.coef)


def test_intercept_is_the_kernel_plus_1():
    ours = KernelSGDClassifier(kernel=KERNEL, random_state=1).fit(X, SIDE)
    theirs = KernelSGDClassifier(
        kernel=KERNEL + 1, fit_intercept=False, random_state=1
    ).fit(X, SIDE)
    assert ours.expansion_.kernel == KERNEL + 1
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), rtol=1e-9)


def test_machine_comes_near_the_svm_without_bias():
    reg = 1 / (2 * 2.0 * T)
    svm = SVC(C=2.0, kernel=KERNEL, fit_intercept=False).fit(X, SIDE)
    machine = KernelSGDClassifier(
        kernel=KERNEL, reg=reg, fit_intercept=False, max_iter=300, random_state=0
    ).fit(X, SIDE)

    def objective(f):
        return reg * f.norm() ** 2 + Hinge().value(SIDE, f(X)).mean()

    least = objective(svm.expansion_)
    assert least <= objective(machine.expansion_) <= 1.05 * least


# Several outputs


def test_classes_are_learnt_one_against_the_rest_in_one_pass():
    machine = KernelSGDClassifier(**PLAIN).fit(X, THREE)
    assert machine.expansion_.coef.shape[1] == 3
    for k, name in enumerate(["ant", "bee", "cow"]):
        alone = KernelSGDClassifier(**PLAIN).fit(X, THREE == name)
        assert_allclose(
            machine.decision_function(X)[:, k], alone.decision_function(X), atol=1e-12
        )
        assert_allclose(machine.norm_[k], alone.norm_, rtol=1e-12)


def test_targets_are_learnt_side_by_side():
    both = KernelSGDRegressor(**PLAIN).fit(X, np.column_stack([TARGET, X[:, 0]]))
    for j, y in enumerate([TARGET, X[:, 0]]):
        alone = KernelSGDRegressor(**PLAIN).fit(X, y)
        assert_allclose(both.predict(X)[:, j], alone.predict(X), atol=1e-12)


# The bound


@every_loss
@pytest.mark.parametrize("seed", range(3))
def test_regret_is_within_its_bound_for_every_sequence(loss, seed):
    draw = np.random.default_rng(seed)
    n, norm = 80, 2.0
    points = draw.normal(size=(n, 2)) * draw.choice([0.1, 1, 3])
    y = draw.choice([-1.0, 1.0], n) if loss.of_sides else draw.normal(size=n)
    machine, _ = made(loss, reg=0, norm=norm, learning_rate="theory", kernel=Linear())
    machine.fit(points, y)
    suffered = machine.loss_curve_[0] * n
    angles = np.linspace(0, 2 * np.pi, 100)
    circle = np.array([np.cos(angles), np.sin(angles)])
    for length in np.linspace(0, norm, 9):  # among all w of the disc, the best
        losses = loss.value(y[:, None], points @ (length * circle)).sum(axis=0)
        assert suffered - losses.min() <= machine.regret_bound()
    assert_allclose(machine.bound_, machine.regret_bound() / n)


def test_bound_is_L_B_R_over_root_T():
    machine, y = made(Hinge(), reg=0, norm=3.0, learning_rate="theory", max_iter=4)
    machine.fit(X, y)
    assert_allclose(machine.bound_, 3.0 / np.sqrt(4 * T))
    assert_allclose(machine.regret_bound(), 3.0 * np.sqrt(4 * T))
    squared, y = made(Squared(), reg=0, norm=3.0, learning_rate="theory")
    squared.fit(X, y)
    steepest = 2 * (3.0 + np.abs(TARGET).max())  # of r² where |f| ≤ B R
    assert_allclose(squared.bound_, steepest * 3.0 / np.sqrt(T))


def test_excess_of_independent_draws_is_within_the_bound_on_average():
    """Fails with probability ≤ 1e-6 if the promise holds: Hoeffding, 30 draws.

    The loss on the circle lies in [0, 1 + B], so the mean of 30 independent risks is
    within (1 + B) √(ln(1e6) / 60) of its expectation with that probability.
    """
    draws, n, norm = 30, 400, 2.0
    slack = (1 + norm) * np.sqrt(np.log(1e6) / (2 * draws))

    def sample(seed, n):
        draw = np.random.default_rng(seed)
        angle = draw.uniform(0, 2 * np.pi, n)
        noisy = np.where(draw.random(n) < 0.1, -1, 1)
        return np.column_stack([np.cos(angle), np.sin(angle)]), noisy * np.sign(
            np.cos(angle) + 1e-300
        )

    points, y = sample(1000, 4000)
    risks = []
    for seed in range(draws):
        machine = KernelSGDClassifier(
            **PLAIN | {"kernel": Linear()}, reg=0, norm=norm, learning_rate="theory"
        ).fit(*sample(seed, n))
        risks.append(Hinge().value(y, machine.decision_function(points)).mean())
    best = Hinge().value(y, points @ [norm, 0.0]).mean()
    assert np.mean(risks) <= best + machine.bound_ + slack
    assert machine.bound_ == pytest.approx(norm / np.sqrt(n))


@pytest.mark.parametrize(
    "params",
    [
        {"learning_rate": "root", "norm": 2.0, "reg": 0},
        {"learning_rate": "theory", "norm": 2.0, "reg": 0.1},
        {"learning_rate": "theory", "norm": 2.0, "reg": 0, "budget": 9},
    ],
    ids=str,
)
def test_bound_is_not_claimed_where_it_does_not_hold(params):
    machine, y = made(Hinge(), **params)
    machine.fit(X, y)
    with pytest.raises(ValueError, match="that of a projected run"):
        machine.regret_bound()


def test_bound_of_a_stream_needs_its_length_and_one_rate():
    params = {"reg": 0, "norm": 2.0, "learning_rate": "theory"}
    machine, y = made(Hinge(), **params)
    with pytest.raises(ValueError, match="needs horizon"):
        machine.partial_fit(X, y, classes=[-1, 1])
    whole, _ = made(Hinge(), **params)
    machine.set_params(horizon=T)
    for i in range(0, T, 20):
        machine.partial_fit(X[i : i + 20], y[i : i + 20], classes=[-1, 1])
    assert_allclose(machine.bound_, whole.fit(X, y).bound_)
    machine.partial_fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="holds for one rate"):
        machine.regret_bound()
    growing, _ = made(Hinge(), kernel=Linear(), horizon=4, **params)
    for x in ([[1.0, 0.0]], [[9.0, 0.0]], [[9.0, 0.0]], [[9.0, 0.0]]):
        growing.partial_fit(x, [1], classes=[-1, 1])
    with pytest.raises(ValueError, match="R or L grew"):
        growing.regret_bound()


# Weights and orders


def test_weight_2_is_the_row_twice_and_weight_0_no_row():
    often = np.arange(T) % 4
    repeated = np.repeat(np.arange(T), often)
    for params in ({}, {"shuffle": True, "random_state": 3, "max_iter": 3}):
        weighted, y = made(Hinge(), **params)
        weighted.fit(X, y, sample_weight=often)
        plain = clone(weighted).fit(X[repeated], y[repeated])
        assert weighted.t_ == plain.t_
        assert_allclose(
            weighted.decision_function(X), plain.decision_function(X), atol=1e-10
        )


def test_broken_weight_ends_with_a_step_of_the_rest():
    machine, y = made(Logistic(), reg=0, learning_rate="constant", eta0=0.5)
    machine.set_params(average=False)
    weight = np.where(np.arange(T) < 5, 2.25, 1.0)
    machine.fit(X, y, sample_weight=weight)
    order = np.repeat(np.arange(T), np.where(np.arange(T) < 5, 3, 1))
    share = np.array([1, 1, 0.25] * 5 + [1] * (T - 5))
    path, values = naive_sgd.walk(
        K, y, Logistic(), np.full(len(order), 0.5), order=order, weight=share
    )
    assert_allclose(full(machine.expansion_), path[-1], atol=1e-12)
    losses = Logistic().value(y[order], values)
    assert_allclose(machine.loss_curve_, [share @ losses / share.sum()], rtol=1e-10)


def test_shuffled_fit_does_not_depend_on_how_points_are_listed():
    order = rng.permutation(T)
    machine = KernelSGDClassifier(kernel=KERNEL, random_state=5)
    expected = clone(machine).fit(X, THREE).decision_function(X)
    for points, y in ((X[order], THREE[order]), (sp.csr_array(X), THREE)):
        found = clone(machine).fit(points, y).decision_function(X)
        assert_allclose(found, expected, atol=1e-8)
    other = clone(machine).set_params(random_state=6).fit(X, THREE)
    assert np.abs(other.decision_function(X) - expected).max() > 1e-3


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("d", [0, 1, 7, 8, 40])
def test_keys_of_points_are_sums_over_their_entries(container, d):
    random = np.random.default_rng(8)
    points, target = random.normal(size=(30, d)), random.normal(size=(30, 2))
    points[random.uniform(size=points.shape) < 0.3] = 0
    points[::2] *= -1  # zeros of either sign
    target[::3] = -0.0
    found = visits.keys_of(container(points), target, np.arange(30))
    none = np.zeros(2, dtype=np.uint64)
    for key, x, y in zip(found, points, target, strict=True):
        columns = np.flatnonzero(x)
        places = np.append(columns + 1, [-1, -2]).astype(np.uint64)
        entries = np.append(x[columns], y + 0.0).view(np.uint64)
        words = entries + places * np.uint64(0x9E3779B97F4A7C15)
        total = visits.mixed(words, none).sum(keepdims=True)
        assert key == visits.mixed(total, none)[0]


def test_keys_tell_alike_points_apart():
    small = np.stack(np.meshgrid(*[np.arange(8.0)] * 5), axis=-1).reshape(-1, 5)
    scaled = np.concatenate([small, -small[1:], 2.0**-40 * small[1:]])
    target = np.zeros((len(scaled), 1))
    keys = visits.keys_of(scaled, target, np.arange(len(scaled)))
    assert len(np.unique(keys)) == len(np.unique(scaled, axis=0))
    halves = np.bincount((keys >> np.uint64(63)).astype(int))
    assert abs(np.diff(halves)) < 6 * np.sqrt(len(keys))


def test_keys_do_not_depend_on_the_number_of_threads():
    random = np.random.default_rng(8)
    points, target = random.normal(size=(5000, 3)), random.normal(size=(5000, 1))
    before, found = threads(), []
    try:
        for number in (1, 3):
            set_threads(number)
            found.append(visits.keys_of(points, target, np.arange(5000)))
    finally:
        set_threads(before)
    assert_array_equal(*found)


def test_keys_are_sorted_as_a_stable_sort_does():
    random = np.random.default_rng(8)
    alike = random.integers(0, 5, 1000, dtype=np.uint64)
    for keys in (
        alike,
        alike << np.uint64(50),
        visits.mixed(alike, alike[:2]),
        alike[:0],
    ):
        assert_array_equal(visits.ascending(keys), np.argsort(keys, kind="stable"))
    keys = random.integers(0, 2**64, 20000, dtype=np.uint64)
    assert_array_equal(visits.ascending(keys), np.argsort(keys))


def test_copies_of_a_point_are_spread_over_the_pass():
    corners = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    points, places = np.repeat(corners, 250, axis=0), np.arange(1000)
    keys = visits.keys_of(points, np.zeros((1000, 1)), places)
    random = np.random.RandomState(0)
    [(order, _)] = visits.orders(keys, np.ones(1000), 1, random)
    assert sorted(order) == list(range(1000))
    changes = np.count_nonzero(np.diff(order // 250))
    # 999 independent chances of 3/4, up to a probability of 1e-9.
    assert abs(changes - 749.25) < 6 * np.sqrt(999 * 3 / 16)


def test_every_pass_is_shuffled_anew_and_visits_every_point_once():
    random = np.random.RandomState(0)
    passes = visits.orders(np.arange(40), np.ones(40), 3, random)
    orders = [order for order, _ in passes]
    assert all(sorted(order) == list(range(40)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3


# Streams


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"average": True, "norm": 1.0},
        {"budget": 9},
        {"budget": 9, "removal": "smallest", "average": True},
        {"budget": 9, "removal": "merge", "norm": 2.0},
        {"learning_rate": "pegasos", "reg": 0.1},
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [1, 7, 60])
def test_batches_give_what_one_pass_over_all_gives(params, size):
    whole, y = made(Logistic(), **params)
    expected = whole.fit(X, y).decision_function(X)
    machine = clone(whole)
    for i in range(0, T, size):
        batch = slice(i, i + size)
        machine.partial_fit(X[batch], y[batch], classes=[-1, 1])
    assert_allclose(machine.decision_function(X), expected, atol=1e-9)
    assert_allclose(machine.norm_, whole.norm_, rtol=1e-9)
    assert machine.t_ == T and machine.n_iter_ == -(-T // size)


def test_partial_fit_goes_on_where_fit_ended():
    machine, y = made(Squared(), average=False)
    machine.fit(X[:30], y[:30]).partial_fit(X[30:], y[30:])
    whole, _ = made(Squared(), average=False)
    assert_allclose(machine.predict(X), whole.fit(X, y).predict(X), atol=1e-10)


def kept(machine):
    return machine.t_, machine.norm_, machine.decision_function(X), machine.loss_curve_


@pytest.mark.parametrize("params", [{}, {"budget": 9}, {"budget": 9, "average": True}])
def test_batch_that_is_refused_leaves_everything_as_it_was(params):
    machine = KernelSGDClassifier(**PLAIN | params)
    machine.partial_fit(X, THREE, classes=["ant", "bee", "cow"])
    before = kept(machine)
    broken = X[:3].copy()
    broken[2, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        machine.partial_fit(broken, THREE[:3])
    with pytest.raises(ValueError, match=r"dog.* not among the classes"):
        machine.partial_fit(X[:3], ["ant", "dog", "bee"])
    with pytest.raises(ValueError, match="features"):
        machine.partial_fit(X[:3, :1], THREE[:3])
    with pytest.raises(ValueError, match="not the same as on last call"):
        machine.partial_fit(X[:3], THREE[:3], classes=["ant", "bee"])
    for now, then in zip(kept(machine), before, strict=True):
        assert_array_equal(now, then)
    machine.partial_fit(X[:3], THREE[:3])
    assert machine.t_ == T + 3


def letters_or_nan(s, t):
    return np.nan if "?" in s + t else float(len(set(s) & set(t)))


def test_kernel_value_that_is_no_number_leaves_everything_as_it_was():
    words, y = ["ab", "bc", "xy", "yz"], [0, 0, 1, 1]
    for budget in (None, 2):
        machine = KernelSGDClassifier(
            kernel=PairFunction(letters_or_nan), budget=budget
        )
        machine.partial_fit(words, y, classes=[0, 1])
        before = machine.decision_function(words)
        with pytest.raises(ValueError, match="not finite numbers on these points"):
            machine.partial_fit(["ab", "?"], [0, 1])
        assert_array_equal(machine.decision_function(words), before)


def test_classes_are_named_in_the_first_call():
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        KernelSGDClassifier().partial_fit(X, THREE)
    with pytest.raises(ValueError, match="got 1 class"):
        KernelSGDClassifier().partial_fit(X, THREE, classes=["ant"])
    machine = KernelSGDClassifier().partial_fit(X[:1], ["bee"], classes=["ant", "bee"])
    assert_array_equal(machine.classes_, ["ant", "bee"])


def test_strings_are_learnt_from_a_stream():
    words = ["abab", "baba", "abba", "cdcd", "dccd", "ddcc"] * 5
    y = np.array(["left"] * 3 + ["right"] * 3 * 1)[np.arange(30) % 6]
    machine = KernelSGDClassifier(kernel=Spectrum(2), budget=6)
    for i in range(0, 30, 4):
        machine.partial_fit(words[i : i + 4], y[i : i + 4], classes=["left", "right"])
    assert_array_equal(machine.predict(["ab", "dc"]), ["left", "right"])
    assert len(machine.expansion_.coef) <= 6


# On features

ROAD = "mercer.machines.sgd.base.steps_on_features"
DNA = ["".join(np.random.default_rng(i).choice(list("acgt"), 9)) for i in range(60)]
SOME = np.random.default_rng(1).normal(size=(60, 7))
SOME = sp.csr_array(np.where(SOME > 0.2, SOME, 0))
FEATURES = [
    (Linear(), X),
    (Polynomial(2) + 0.5, X),
    (Linear() * Linear(), SOME),
    (Spectrum(2), DNA),
]
STEPS = [
    {"learning_rate": "pegasos", "reg": 0.05},
    {"learning_rate": "constant", "eta0": 0.45, "reg": 1.0},  # w shrinks by 0.1 a step
    {"norm": 0.3, "learning_rate": "root", "reg": 0.0},
    {"average": False, "fit_intercept": False},
]


@pytest.mark.parametrize("kernel, points", FEATURES)
@pytest.mark.parametrize("options", STEPS)
@pytest.mark.parametrize("many", [False, True])
def test_steps_on_features_are_those_on_points(
    kernel, points, options, many, monkeypatch
):
    monkeypatch.setattr(sgd, "BLOCK", 16)
    y = THREE if many else SIDE
    weight = np.where(np.arange(60) % 5 == 0, 1.5, 1.0)
    roads = []
    # The last begins on points, and goes on on features.
    for choices in ([False] * 4, [True] * 4, [False, True]):
        left = iter(choices)
        monkeypatch.setattr(ROAD, lambda kernel, X, passes, left=left: next(left))
        machine = KernelSGDClassifier(
            kernel=kernel, max_iter=2, random_state=0, **options
        )
        machine.fit(points[:40], y[:40], sample_weight=weight[:40])
        assert (machine._state.primal is not None) == choices[0]
        for part in (slice(40, 43), slice(43, 60)):
            machine.partial_fit(points[part], y[part])
        assert (machine._state.primal is not None) == choices[1]
        roads.append(machine)
    expected = roads[0]
    near = dict(rtol=1e-7, atol=1e-9)
    for machine in roads[1:]:
        assert_allclose(machine.loss_curve_, expected.loss_curve_, **near)
        assert_allclose(machine.norm_, expected.norm_, **near)
        assert machine.t_ == expected.t_
        for f, g in (
            (machine.expansion_, expected.expansion_),
            (machine.last_, expected.last_),
        ):
            assert f.kernel == g.kernel
            assert_allclose(f(points), g(points), **near)
            assert_allclose(f.coef, g.coef, **near)
        values = machine.decision_function(points)
        assert_allclose(values, machine.expansion_(points), **near)
        again = pickle.loads(pickle.dumps(machine))
        assert_array_equal(again.decision_function(points), values)


def test_a_stream_may_bring_columns_that_were_not_there_before():
    machine = KernelSGDRegressor(kernel=Spectrum(2), reg=0.01)
    words = ["aaaa", "bbb", "abab", "ccc", "", "xyxyx", "aaab", "zz"]
    target = np.arange(8.0) / 8
    for word, y in zip(words, target, strict=True):
        machine.partial_fit([word], [y])
    assert machine._state.primal is not None
    # In one run the rate would know the largest k(x, x) from the beginning.
    slow = KernelSGDRegressor(kernel=PairFunction(Spectrum(2).value, True), reg=0.01)
    for word, y in zip(words, target, strict=True):
        slow.partial_fit([word], [y])
    assert slow._state.primal is None
    new = ["aab", "zzz", "unseen", ""]
    assert_allclose(machine.predict(new), slow.predict(new), rtol=1e-10)
    assert_allclose(machine.dual_coef_, slow.dual_coef_, rtol=1e-10)


@pytest.mark.parametrize("loss", [Hinge(), PerceptronLoss()])
def test_equal_steps_of_several_classes_leave_in_their_order(loss):
    # All coefficients are ±η: of terms that are alike, the oldest is the smallest.
    options = {"reg": 0.0, "learning_rate": "constant", "eta0": 0.5, "budget": 12}
    options |= {"kernel": KERNEL, "max_iter": 1, "shuffle": False}
    smallest, oldest = (
        KernelSGDClassifier(loss, removal=removal, **options).fit(X[:40], THREE[:40])
        for removal in ("smallest", "oldest")
    )
    assert len(smallest.expansion_.coef) == 12
    assert_allclose(smallest.decision_function(X), oldest.decision_function(X))


def test_the_term_that_leaves_is_that_of_the_least_loss_in_any_output():
    class OwnSquared(Squared):
        """A loss that the core does not know."""

    y = np.column_stack([SIDE, np.roll(SIDE, 7), 0.5 * SIDE])
    options = {"kernel": KERNEL, "budget": 8, "removal": "smallest", "max_iter": 2}
    core, python = (
        KernelSGDRegressor(loss, shuffle=False, **options).fit(X, y)
        for loss in (Squared(), OwnSquared())
    )
    assert_allclose(core.predict(X), python.predict(X), atol=1e-10)


def test_a_budget_may_come_after_features():
    machine = KernelSGDClassifier(kernel=Linear(), average=False)
    other = KernelSGDClassifier(kernel=BlockFunction(_products, True), average=False)
    for one in (machine, other):
        one.partial_fit(X[:30], SIDE[:30], classes=[-1, 1])
        one.set_params(budget=10).partial_fit(X[30:], SIDE[30:])
        assert one.dual_coef_.shape == (1, 10) and one._state.primal is None
    assert_allclose(machine.dual_coef_, other.dual_coef_, rtol=1e-9)


def _products(A, B):
    return A @ B.T


def test_precomputed_values_have_no_stream():
    machine = KernelSGDClassifier(kernel="precomputed")
    assert not hasattr(machine, "partial_fit")
    indexed = KernelSGDClassifier(kernel=Precomputed(K, psd=True))
    indexed.partial_fit(np.arange(T), SIDE, classes=[-1, 1])
    assert indexed.t_ == T


# Budgets


@pytest.mark.parametrize("removal", ["oldest", "smallest"])
@pytest.mark.parametrize("norm", [None, 1.0])
def test_removals_are_those_of_the_plain_algorithm(removal, norm, monkeypatch):
    monkeypatch.setattr(sgd, "BLOCK", 17)
    machine, y = made(Logistic(), reg=0.01, learning_rate="root", eta0=0.9, norm=norm)
    machine.set_params(budget=8, removal=removal).fit(X, y)
    terms = naive_sgd.walk_with_budget(
        K, y, Logistic(), 0.9 / ROOTS, 8, removal, 0.01, norm or np.inf
    )
    expected = np.zeros(T)
    expected[list(terms)] = list(terms.values())
    assert_allclose(full(machine.expansion_), expected, atol=1e-12)


@pytest.mark.parametrize("budget", [2, 6, 20])
def test_mergers_are_those_of_the_plain_algorithm(budget):
    # Rates that differ, or equal terms could be merged with either of two others.
    machine, y = made(Logistic(), reg=0.01, learning_rate="root", eta0=0.9)
    machine.set_params(budget=budget, removal="merge", average=False).fit(X, y)
    terms = naive_sgd.walk_with_merging(
        X, y, Logistic(), 0.9 / ROOTS, budget, KERNEL.gamma, 0.01
    )
    points, coef = (np.array(part) for part in zip(*terms, strict=True))
    expected = KERNEL(X, points) @ coef
    assert len(machine.expansion_.coef) == len(coef)
    assert_allclose(machine.decision_function(X), expected, atol=1e-6)


@every_loss
@pytest.mark.parametrize(
    "removal, average",
    [("oldest", False), ("smallest", True), ("merge", False), ("merge", True)],
)
def test_the_core_makes_the_steps_of_python(loss, removal, average, monkeypatch):
    monkeypatch.setattr(sgd, "BLOCK", 17)
    targets = [SIDE, THREE] if loss.of_sides else [TARGET, np.c_[TARGET, X[:, 1]]]
    cases = zip(targets, (X, sp.csr_array(X)), (None, 1.5), strict=True)
    for target, points, norm in cases:
        machine, _ = made(loss, budget=7, removal=removal, average=average)
        machine.set_params(reg=0.01, norm=norm, fit_intercept=True, max_iter=2)
        found = clone(machine).fit(points, target)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(budgets, "native_loss", lambda _: None)
            expected = clone(machine).fit(points, target)
        for name in ("coef", "total", "square", "age", "matrix"):
            values = getattr(expected._state, name)
            assert_allclose(getattr(found._state, name), values, rtol=1e-8, atol=1e-9)
        assert found._state.steps == expected._state.steps
        assert found._state.averaged == expected._state.averaged
        f = found.decision_function if loss.of_sides else found.predict
        g = expected.decision_function if loss.of_sides else expected.predict
        assert_allclose(f(points), g(points), rtol=1e-8, atol=1e-9)


def test_newest_term_stays():
    machine, y = made(Hinge(), budget=1, removal="smallest", reg=0, eta0=1.0)
    machine.set_params(learning_rate="root").fit(X, y)
    later = clone(machine).fit(X[: T // 2], y[: T // 2])
    assert not np.array_equal(machine.expansion_.points, later.expansion_.points)


def test_merging_equal_points_of_one_side_loses_nothing():
    corners = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    order = rng.integers(4, size=80)
    points, y = corners[order], np.prod(corners, axis=1)[order]
    free = KernelSGDClassifier(**PLAIN | {"average": True}).fit(points, y)
    merging = clone(free).set_params(budget=4, removal="merge").fit(points, y)
    assert len(merging.last_.coef) <= 4
    assert_allclose(
        merging.decision_function(X), free.decision_function(X), rtol=1e-8, atol=1e-10
    )


@pytest.mark.parametrize("intercept", [False, True])
def test_merged_point_is_nearest_to_the_two(intercept):
    """The merger of two terms against all points of the segment between them."""
    points = np.array([[0.0, 0.0], [1.0, 0.5]])
    params = {"fit_intercept": intercept, "reg": 0, "learning_rate": "constant"}
    machine = KernelSGDRegressor(Squared(), **PLAIN | params, eta0=0.2, average=False)
    two = clone(machine).fit(points, [1.0, 2.0]).expansion_
    one = machine.set_params(budget=1, removal="merge").fit(points, [1.0, 2.0])
    assert len(one.expansion_.coef) == 1
    kernel = two.kernel
    distances = []
    for h in np.linspace(0, 1, 201):
        z = (h * points[0] + (1 - h) * points[1])[None]
        c = two(z)[0] / kernel.diag(z)[0]
        distances.append(two.norm() ** 2 - c**2 * kernel.diag(z)[0])
    assert two.distance(one.expansion_) ** 2 == pytest.approx(min(distances), rel=1e-3)


def test_merging_needs_gaussians_between_vectors():
    machine = KernelSGDClassifier(budget=2, removal="merge")
    for kernel, points in ((Polynomial(2), X), (Spectrum(2), ["ab", "cd"] * 30)):
        with pytest.raises(ValueError, match=r"needs the kernel RBF on vectors; got"):
            clone(machine).set_params(kernel=kernel).fit(points, SIDE)


def test_endless_stream_stays_within_its_budget():
    machine = KernelSGDClassifier(kernel=KERNEL, budget=10, removal="merge")
    sizes = set()
    for i in range(20):
        batch = np.random.default_rng(i).normal(size=(40, 2))
        machine.partial_fit(batch, batch[:, 0] > batch[:, 1], classes=[False, True])
        state = machine._state
        arrays = (state.points, state.coef, state.total, state.matrix, state.age)
        sizes.add(sum(array.nbytes for array in arrays))
    assert max(sizes) == 10 * 8 * (2 + 1 + 1 + 10 + 1)
    assert machine.score(X, X[:, 0] > X[:, 1]) > 0.9


def test_budget_can_come_later_and_shrink():
    machine, y = made(Hinge(), average=False)
    machine.fit(X, y).set_params(budget=12).partial_fit(X, y)
    assert len(machine.expansion_.coef) <= 12
    machine.set_params(budget=5).partial_fit(X, y)
    assert len(machine.expansion_.coef) <= 5
    assert_allclose(machine.norm_, machine.expansion_.norm(), rtol=1e-9)


def test_budget_beyond_the_memory_is_refused():
    with pytest.raises(MemoryError, match="Lower the budget"):
        KernelSGDClassifier(budget=10**8).fit(X, SIDE)


# How fits end


def test_fit_ends_when_passes_no_longer_help():
    machine = KernelSGDRegressor(kernel=KERNEL, tol=1e-3, max_iter=200, random_state=0)
    machine.fit(X, TARGET)
    assert machine.run_.status == "converged" and machine.n_iter_ < 200
    best = np.minimum.accumulate(machine.loss_curve_)
    assert (best[-3] - machine.loss_curve_[-2]) <= 1e-3
    assert len(machine.loss_curve_) == machine.n_iter_


def test_fit_that_would_have_gone_on_says_so():
    machine = KernelSGDRegressor(kernel=KERNEL, tol=1e-9, max_iter=2, random_state=0)
    with pytest.warns(
        ConvergenceWarning, match=r"after 2 .*violation \d.* Raise max_iter"
    ):
        machine.fit(X, TARGET)
    assert machine.run_.status == "max_iter"


def test_function_stops_a_fit_and_what_was_learnt_is_kept(monkeypatch):
    monkeypatch.setattr(sgd, "BLOCK", 10)
    seen = []

    def third(progress):
        seen.append(progress)
        return len(seen) == 3

    machine = KernelSGDClassifier(**PLAIN | {"callback": third, "average": False})
    with pytest.warns(ConvergenceWarning, match="after 1 .*'stopped'"):
        machine.fit(X, SIDE)
    part, _ = made(Hinge(), average=False)
    assert machine.run_.status == "stopped" and machine.t_ == 30
    assert_array_equal(
        machine.expansion_.coef, part.fit(X[:30], SIDE[:30]).expansion_.coef
    )
    assert [p.iterations for p in seen] == [10, 20, 30]
    assert seen[-1].support == len(machine.expansion_.coef)
    assert_allclose(seen[-1].norm, machine.norm_)
    assert_allclose(seen[-1].objective, machine.loss_curve_[-1])


def test_verbose_fit_has_a_line_for_every_pass(capsys, monkeypatch):
    monkeypatch.setattr(progress, "PAUSE", 1e9)
    KernelSGDClassifier(verbose=True, max_iter=2, random_state=0).fit(X, SIDE)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("[KernelSGDClassifier pass 2] step      120   loss")
    assert lines[-1].endswith(" s") and "terms" in lines[-1]


class Recorder:
    """A callback of scikit-learn's that keeps the names of the tasks it saw end."""

    def __init__(self):
        self.seen = []

    def setup(self, estimator, context): ...
    def teardown(self, estimator, context): ...
    def on_fit_task_begin(self, estimator, context, *, metadata=None): ...
    def on_fit_task_end(self, estimator, context, *, metadata=None):
        self.seen.append(context.task_name)


def test_callbacks_of_scikit_learn_see_the_passes():
    recorder = Recorder()
    KernelSGDRegressor(max_iter=2).set_callbacks(recorder).fit(X, TARGET)
    passes = [name for name in recorder.seen if name.startswith("solve")]
    assert passes == ["solve pass 1", "solve pass 2"]
    assert "round" in recorder.seen


def test_ctrl_c_leaves_what_was_learnt_before(monkeypatch):
    # In a background job of a shell the signal is ignored unless somebody handles it.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        machine = KernelSGDClassifier(kernel=KERNEL, random_state=0).fit(X, SIDE)
        before = kept(machine)
        machine.set_params(max_iter=10**6)
        main = threading.main_thread().ident
        timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
        timer.start()
        begin = time.process_time()
        with pytest.raises(KeyboardInterrupt):
            machine.fit(X, -SIDE)
        # Of work, where all of it takes hours
        assert time.process_time() - begin < 10
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, handler)
    for now, then in zip(kept(machine), before, strict=True):
        assert_array_equal(now, then)


# What is refused


@looped(
    "params, message",
    [
        ({"learning_rate": "theory"}, "needs a norm and the number of steps"),
        ({"learning_rate": "pegasos", "reg": 0}, "needs reg > 0"),
        ({"learning_rate": "constant", "reg": 1, "eta0": 2}, r"η ≤ 1 / \(2 reg\)"),
        ({"loss": "squared"}, "loss"),
        ({"removal": "newest"}, "removal"),
        ({"norm": -1.0}, "norm"),
    ],
    ids=str,
)
def test_parameters_that_make_no_sense_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        KernelSGDClassifier(**params).fit(X, SIDE)


def test_solver_refuses_words_it_does_not_know():
    with pytest.raises(ValueError, match="knows the rates auto"):
        SGD(Hinge(), rate="fast")
    with pytest.raises(ValueError, match="removes oldest, smallest, merge"):
        SGD(Hinge(), removal="newest")


def test_regressor_refuses_a_loss_of_sides():
    with pytest.raises(ValueError, match=r"of sides ±1\. Use KernelSGDClassifier"):
        KernelSGDRegressor(Hinge()).fit(X, TARGET)


def test_steps_that_explode_are_reported_and_nothing_is_kept():
    machine = KernelSGDRegressor(learning_rate="constant", eta0=1e6, reg=0)
    with pytest.raises(ValueError, match=r"not a finite number after .* Lower eta0"):
        machine.fit(X, TARGET)
    assert not hasattr(machine, "expansion_")


def test_weights_of_0_leave_nothing_to_learn():
    with pytest.raises(ValueError, match="weight"):
        KernelSGDRegressor().fit(X, TARGET, sample_weight=np.zeros(T))


def test_probabilities_come_with_the_logistic_loss():
    assert not hasattr(KernelSGDClassifier(), "predict_proba")
    for y in (SIDE, THREE):
        machine = KernelSGDClassifier("log_loss", random_state=0).fit(X, y)
        p = machine.predict_proba(X)
        assert_allclose(p.sum(axis=1), 1)
        assert_array_equal(machine.classes_[p.argmax(axis=1)], machine.predict(X))
        assert_allclose(machine.predict_log_proba(X), np.log(p))
    p = KernelSGDClassifier("logistic", random_state=0).fit(X, SIDE).predict_proba(X)
    assert Logistic().value(1, np.log(p[:, 1] / p[:, 0])) == pytest.approx(
        -np.log(p[:, 1])
    )


def test_mean_loss_is_that_of_the_machine_s_own_loss():
    machine = KernelSGDRegressor(Quantile(0.8), random_state=0).fit(X, TARGET)
    expected = Quantile(0.8).value(TARGET, machine.predict(X)).mean()
    assert_allclose(machine.mean_loss(X, TARGET), expected)
    several = KernelSGDClassifier(random_state=0).fit(X, THREE)
    sides = np.where(THREE[:, None] == several.classes_, 1, -1)
    losses = Hinge().value(sides, several.decision_function(X)).sum(axis=1)
    assert_allclose(several.mean_loss(X, THREE), losses.mean())
    with pytest.raises(ValueError, match="not among the classes"):
        several.mean_loss(X[:1], ["dog"])
    with pytest.raises(ValueError, match="a target for each point"):
        machine.mean_loss(X, TARGET[:-1])


# Few points


@pytest.mark.parametrize("params", [{}, {"budget": 1}, {"kernel": Constant(2.0)}])
def test_one_point_is_learnt(params):
    machine = KernelSGDRegressor(max_iter=200, average=False, **params)
    machine.fit([[1.0, 2.0]], [3.0])
    assert_allclose(machine.predict([[1.0, 2.0]]), [3.0], rtol=0.01)


def test_same_point_in_two_classes_is_no_trouble():
    machine = KernelSGDClassifier(kernel=KERNEL, random_state=0)
    machine.fit([[0.0, 1.0]] * 6, [0, 1, 0, 1, 0, 1])
    assert np.isfinite(machine.decision_function(X)).all()


def test_f_is_0_where_the_kernel_is():
    machine = KernelSGDClassifier(kernel=Constant(0.0), fit_intercept=False)
    machine.fit(X, SIDE)
    assert_array_equal(machine.decision_function(X), np.zeros(T))


def test_parameters_of_the_kernel_are_searched():
    machine = KernelSGDClassifier(kernel=RBF(1.0), random_state=0)
    search = GridSearchCV(machine, {"kernel__gamma": [1e-9, 1.0]}, cv=3).fit(X, SIDE)
    assert search.best_params_ == {"kernel__gamma": 1.0}
    assert cross_val_score(machine, X, SIDE, cv=3).mean() > 0.8
