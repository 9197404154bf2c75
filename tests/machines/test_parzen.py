"""Parzen windows: densities that integrate to 1, scikit-learn's where it has them."""

import pickle

import naive_neighbors
import numpy as np
import pytest
import scipy.sparse as sp
from checks import machine_checks
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.polynomial.legendre import leggauss
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import kstest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity, NearestCentroid

from mercer.kernels.operators import Scaled
from mercer.kernels.radial import RBF, Laplacian, Matern, RationalQuadratic
from mercer.kernels.substring import Spectrum
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import Precomputed
from mercer.kernels.window import SHAPES, ProductWindow, RadialWindow
from mercer.machines.parzen import ParzenClassifier, ParzenDensity
from mercer.solvers.windows import distinct, window

rng = np.random.default_rng(0)
X = rng.normal(size=(80, 2))
NEW = rng.normal(size=(30, 2)) * 2
y = np.array(["a", "b", "c"])[rng.integers(0, 3, 80)]
WINDOWS = [
    RBF(0.8),
    Laplacian(1.5),
    Matern(0.5, 0.4),
    Matern(1.5, 0.4),
    Matern(2.5, 0.4),
    Matern(0.8, 0.4),
    Matern(7.3, 0.4),
    Matern(np.inf, 0.4),
    RationalQuadratic(1.8, 0.4),
    RationalQuadratic(6.0, 0.4),
    3.0 * RBF(0.8),
]
each_window = looped("kernel", WINDOWS, ids=repr)


@machine_checks(
    [
        ParzenDensity(),
        ParzenDensity(0.5, kernel=Laplacian()),
        ParzenClassifier(),
        ParzenClassifier(bandwidth=0.7, kernel=Matern(1.5)),
        ParzenClassifier(method="mean"),
        ParzenClassifier(method="mean", kernel="precomputed"),
    ]
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


# The density


@each_window
def test_a_density_on_the_line_integrates_to_1(kernel):
    line = np.array([[-1.0], [0.0], [0.3]])
    machine = ParzenDensity(kernel=kernel).fit(line, sample_weight=[1, 2, 0.5])

    def p(x):
        return np.exp(machine.score_samples([[x]])[0])

    inside = quad(p, -3, 3, points=[-1, 0, 0.3], limit=200)[0]
    tails = quad(p, 3, np.inf)[0] + quad(p, -np.inf, -3)[0]
    assert_allclose(inside + tails, 1, rtol=1e-6)


@looped(
    "kernel",
    [RBF(1.5), Laplacian(2.0), Matern(1.5, 0.5), RationalQuadratic(6.0, 0.4)],
    ids=repr,
)
def test_a_density_in_the_plane_integrates_to_1(kernel):
    machine = ParzenDensity(kernel=kernel).fit([[0.0, 0.0]])

    # One of four equal quarters around the only point, out to 60; r = 60 t³.
    t, share = (0.5 * values for values in leggauss(200))
    side, step = 60 * (t + 0.5) ** 3, 180 * (t + 0.5) ** 2 * share
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    p = np.exp(machine.score_samples(grid)).reshape(200, 200)
    assert_allclose(4 * step @ p @ step, 1, rtol=1e-6)


@looped(
    "kernel, d",
    [
        (kernel, d)
        for kernel in WINDOWS
        for d in (1, 2, 3)
        # Otherwise infinite in this dimension
        if not isinstance(kernel, RationalQuadratic) or kernel.alpha > d / 2
    ],
    ids=repr,
)
def test_volumes_are_integrals_of_the_kernel(kernel, d):
    found = window(kernel)
    if isinstance(kernel, Laplacian):
        expected = quad(lambda t: np.exp(-1.5 * abs(t)), -np.inf, np.inf)[0] ** d
    else:
        sphere = {1: 2, 2: 2 * np.pi, 3: 4 * np.pi}[d]  # of radius 1

        def shell(r):
            return sphere * r ** (d - 1) * np.exp(found.log_of(np.array([r * r])))[0]

        expected = quad(shell, 0, 1)[0] + quad(shell, 1, np.inf, limit=200)[0]
    assert_allclose(np.exp(found.log_volume(d)), expected, rtol=1e-6)


@each_window
def test_the_logarithm_of_a_window_is_that_of_its_kernel(kernel):
    found = window(kernel)
    assert_allclose(found.log(X, NEW), np.log(found.kernel(X, NEW)), atol=1e-10)
    assert_allclose(found.log(X, X).diagonal(), 0, atol=1e-15)
    again = found.at(found.bandwidth)
    assert_allclose(again.log(X, NEW), found.log(X, NEW), rtol=1e-12)


@each_window
def test_a_bandwidth_is_the_unit_of_distance(kernel):
    found = window(kernel)
    assert_allclose(found.at(3.0).log(3 * X, 3 * NEW), found.at(1.0).log(X, NEW))
    difference = found.at(3.0).log_volume(2) - found.at(1.0).log_volume(2)
    assert_allclose(difference, 2 * np.log(3))


@looped("h", [0.05, 0.5, 3.0])
@looped("weight", [None, rng.uniform(0.1, 2, 80)])
def test_the_gaussian_window_is_scikit_learns(h, weight):
    ours = ParzenDensity(h).fit(X, sample_weight=weight)
    reference = KernelDensity(bandwidth=h, rtol=1e-12).fit(X, sample_weight=weight)
    assert_allclose(ours.score_samples(NEW), reference.score_samples(NEW), rtol=1e-7)
    assert_allclose(ours.score(NEW), reference.score(NEW), rtol=1e-7)


def test_the_exponential_window_is_scikit_learns():
    ours = ParzenDensity(0.5, kernel=Matern(0.5)).fit(X)
    reference = KernelDensity(bandwidth=0.5, kernel="exponential", rtol=1e-12).fit(X)
    assert_allclose(ours.score_samples(NEW), reference.score_samples(NEW), rtol=1e-7)


@each_window
def test_logarithms_do_not_underflow(kernel):
    machine = ParzenDensity(kernel=kernel).fit(X)
    far = np.array([[1e3, -2e3], [1e6, 1e6]])
    logs = machine.score_samples(far)
    assert np.isfinite(logs).all()
    found = window(kernel)
    values = found.log(far, X)
    largest = values.max(axis=1, keepdims=True)
    sums = largest[:, 0] + np.log(np.exp(values - largest).mean(axis=1))
    assert_allclose(logs, sums - found.log_volume(2), rtol=1e-10)


def far_log(kernel, r):
    """ln k at a distance r beyond 1e10, in extended precision and range."""
    r = np.longdouble(r)
    if isinstance(kernel, Scaled):
        return far_log(kernel.kernel, r)  # its factor is no part of a window
    if isinstance(kernel, RBF):
        return -np.longdouble(kernel.gamma) * r * r
    if isinstance(kernel, Laplacian):
        return -np.longdouble(kernel.gamma) * r
    r = r / np.longdouble(kernel.length)
    if isinstance(kernel, RationalQuadratic):
        return -kernel.alpha * np.log1p(r * r / (2 * np.longdouble(kernel.alpha)))
    if kernel.nu == np.inf:
        return -r * r / 2
    nu = np.longdouble(kernel.nu)
    z = np.sqrt(2 * nu) * r
    first = (1 - nu) * np.log(np.longdouble(2)) - gammaln(kernel.nu)
    return first + (nu - 0.5) * np.log(z) + 0.5 * np.log(np.longdouble(np.pi) / 2) - z


@looped("sparse", [False, True])
@looped("size", [1e12, 1e100, 1e153, 1e155, 1e160, 1e250, 1e300, 1.5e308])
@each_window
def test_logarithms_of_far_points_are_numbers_or_refused(kernel, size, sparse):
    form = sp.csr_array if sparse else np.array
    machine = ParzenDensity(kernel=kernel).fit(form(np.zeros((1, 2))))
    new = form([[0.1, 0.0], [0.0, -size]])
    expected = far_log(kernel, size) - np.longdouble(machine.integral_.log_value)
    if np.isfinite(float(expected)):
        found = machine.score_samples(new)
        assert_allclose(found[1], float(expected), rtol=1e-13)
        assert_allclose(found[0], machine.score_samples(new[[0]])[0], rtol=1e-13)
    else:
        with pytest.raises(ValueError, match=r"Point 1 is so far .*not finite"):
            machine.score_samples(new)


@looped("size", [1e12, 1e160, 1.5e308])
@each_window
def test_classes_far_away_are_decided_or_refused(kernel, size):
    machine = ParzenClassifier(method="density", kernel=kernel).fit(X, y)
    new = np.array([[size, -size]])
    for ask in (machine.decision_function, machine.predict_proba):
        try:
            assert np.isfinite(ask(new)).all()
        except ValueError as error:
            assert "is so far from the others" in str(error)


@looped("size", [10.0, 1e160, 1.5e308])
@looped("word", [w for w in SHAPES if w not in ("gaussian", "exponential")])
@looped("kind", [RadialWindow, ProductWindow])
def test_windows_that_end_have_no_density_beyond(kind, word, size):
    machine = ParzenDensity(kernel=kind(word, 1.0)).fit(X)
    found = machine.score_samples([[size, size], [0.0, 0.0], [-size, size]])
    assert_array_equal(np.isneginf(found), [True, False, True])


@each_window
def test_the_expansion_is_the_density(kernel):
    machine = ParzenDensity(kernel=kernel).fit(X)
    p = machine.expansion_(NEW)
    assert_allclose(np.log(p), machine.score_samples(NEW), rtol=1e-9, atol=1e-12)


def test_there_is_no_expansion_where_its_numbers_overflow():
    machine = ParzenDensity(1e-3).fit(rng.normal(size=(5, 400)))
    assert np.isfinite(machine.score_samples(np.zeros((1, 400)))).all()
    with pytest.raises(AttributeError, match="leave the range of numbers"):
        _ = machine.expansion_


@each_window
def test_random_points_have_the_density(kernel):
    line = np.array([[-1.0], [0.5]])
    machine = ParzenDensity(kernel=kernel).fit(line, sample_weight=[1, 3])
    points = machine.sample(1500, random_state=0)
    assert points.shape == (1500, 1)
    grid = np.linspace(-12, 12, 40001)
    p = np.exp(machine.score_samples(grid[:, None]))
    cumulative = np.cumsum(p) * (grid[1] - grid[0])
    outside = (1 - cumulative[-1]) / 2
    law = kstest(points[:, 0], lambda x: outside + np.interp(x, grid, cumulative))
    assert law.pvalue > 1e-3
    assert_array_equal(points, machine.sample(1500, random_state=0))


@looped("kernel", [RBF(0.8), Matern(1.5, 0.4)], ids=repr)
def test_random_vectors_spread_as_their_window_does(kernel):
    machine = ParzenDensity(kernel=kernel).fit(sp.csr_array(np.zeros((1, 3))))
    lengths = np.linalg.norm(machine.sample(3000, random_state=1), axis=1)
    found = window(kernel)

    def moment(power):
        def shell(r):
            return r ** (2 + power) * np.exp(found.log_of(np.array([r * r])))[0]

        return quad(shell, 0, np.inf)[0]

    mean = moment(1) / moment(0)
    assert_allclose(lengths.mean(), mean, rtol=0.05)


def test_weight_2_is_the_row_twice_and_weight_0_no_row():
    weight = rng.integers(0, 3, 80)
    repeated = np.repeat(X, weight, axis=0)
    for machine in (ParzenDensity(), ParzenDensity(0.3, kernel=Laplacian())):
        one = clone(machine).fit(X, sample_weight=weight)
        other = clone(machine).fit(repeated)
        assert_allclose(one.bandwidth_, other.bandwidth_, rtol=1e-9)
        assert_allclose(one.score_samples(NEW), other.score_samples(NEW), rtol=1e-9)


def test_sparse_points_have_the_same_density():
    A = np.where(abs(X) > 0.5, X, 0)
    dense, sparse = ParzenDensity().fit(A), ParzenDensity().fit(sp.csr_matrix(A))
    assert_allclose(sparse.bandwidth_, dense.bandwidth_, rtol=1e-6)
    found = sparse.score_samples(sp.csr_array(NEW))
    assert_allclose(found, dense.score_samples(NEW), rtol=1e-5)


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_different_points_carry_the_weight_of_their_copies(seed):
    draw = np.random.default_rng(seed)
    A, weight = draw.integers(-1, 2, (12, 2)).astype(float), draw.uniform(size=12)
    for Z in (A, sp.csr_array(A)):
        points, total = distinct(Z, weight)
        points = points.toarray() if sp.issparse(points) else points
        expected: dict = {}
        for row, w in zip(A.tolist(), weight, strict=True):
            expected[tuple(row)] = expected.get(tuple(row), 0) + w
        assert [tuple(row) for row in points.tolist()] == list(expected)
        assert_allclose(total, list(expected.values()))


# The bandwidth


@pytest.mark.parametrize("kernel", [RBF(), Laplacian(), Matern(1.5)], ids=repr)
def test_the_bandwidth_has_the_greatest_leave_one_out_likelihood(kernel):
    A = np.vstack([X[:25], X[:5]])  # some points twice
    machine = ParzenDensity("loo", kernel=kernel).fit(A)

    def score(h):
        found = window(kernel).at(h)

        def density(x, y):
            value = found.log(np.array([x]), np.array([y]))[0, 0]
            return np.exp(value - found.log_volume(2))

        return naive_neighbors.left_out(density, A.tolist())

    best = machine.bandwidth_
    told = {trial.bandwidth: trial.score for trial in machine.trials_}
    assert_allclose(told[best], score(best), rtol=1e-9)
    assert score(best) >= max(score(best * f) for f in (0.5, 0.9, 0.99, 1.01, 1.1, 2))
    assert machine.run_.status == "optimal"


def test_an_isolated_point_is_left_out_without_cancellation():
    A = np.array([[0.0], [0.1], [50.0]])
    found = window(RBF()).at(1.0)
    logs = found.log_sums(A, None, np.ones(3))
    assert_allclose(logs[2], np.logaddexp(-(50**2) / 2, -(49.9**2) / 2), rtol=1e-12)
    medium = found.log_sums(np.array([[0.0], [7.0]]), None, np.ones(2))
    assert_allclose(medium, -(7**2) / 2, rtol=1e-12)


def test_the_scale_of_the_points_is_the_scale_of_the_bandwidth():
    small, large = ParzenDensity().fit(X), ParzenDensity().fit(1e4 * X)
    assert_allclose(large.bandwidth_, 1e4 * small.bandwidth_, rtol=5e-3)


def test_a_kernel_with_a_scale_keeps_it_unless_told():
    assert ParzenDensity(kernel=RBF(2.0)).fit(X).bandwidth_ == 0.5
    assert ParzenDensity(0.25, kernel=RBF(2.0)).fit(X).bandwidth_ == 0.25
    machine = ParzenDensity("loo", kernel=RBF(2.0)).fit(X)
    assert machine.bandwidth_ == ParzenDensity().fit(X).bandwidth_
    assert machine.kernel == RBF(2.0)


def test_a_search_is_watched_and_stopped(capsys):
    seen = []
    machine = ParzenDensity(verbose=True, callback=seen.append).fit(X)
    assert seen == machine.trials_
    assert capsys.readouterr().out.count("[ParzenDensity] trial") == len(seen)
    stopped = ParzenDensity(callback=lambda trial: trial.trial == 3).fit(X)
    assert len(stopped.trials_) == 3 and stopped.run_.status == "stopped"
    best = max(stopped.trials_, key=lambda trial: trial.score)
    assert stopped.bandwidth_ == best.bandwidth


def test_an_interrupted_fit_leaves_what_was_learnt_before():
    def interrupt(trial):
        raise KeyboardInterrupt

    machine = ParzenDensity().fit(X)
    before = machine.score_samples(NEW)
    machine.set_params(callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        machine.fit(3 * X)
    assert_array_equal(machine.score_samples(NEW), before)


def test_one_place_has_no_leave_one_out_bandwidth():
    with pytest.raises(ValueError, match="two different ones"):
        ParzenDensity().fit(np.ones((4, 2)))
    assert ParzenDensity(1.0).fit(np.ones((4, 2))).score_samples([[1.0, 1.0]]) < 0


def test_bandwidths_are_searched_by_held_out_likelihood():
    search = GridSearchCV(ParzenDensity(), {"bandwidth": [0.01, 0.4, 20]}).fit(X)
    assert search.best_params_ == {"bandwidth": 0.4}


# What is no density


@looped(
    "kernel, message",
    [
        (Linear(), "integral is known"),
        (RBF(0.5) + Linear(), "integral is known"),
        (RationalQuadratic(1.0), "alpha > 1"),
        (Matern(100.0), "nu=np.inf"),
        ("precomputed", "integral is known"),
    ],
)
def test_a_kernel_without_a_known_integral_is_refused(kernel, message):
    with pytest.raises(ValueError, match=message):
        ParzenDensity(kernel=kernel).fit(np.vstack([X, X[:1]])[:2])


def test_points_that_are_no_vectors_are_refused():
    with pytest.raises(TypeError, match="density compares vectors"):
        ParzenDensity().fit(["one", "two"])
    with pytest.raises(NotFittedError):
        ParzenDensity().score_samples(X)
    with pytest.raises(ValueError, match="n_samples"):
        ParzenDensity().fit(X).sample(0)


# Classes


def densities(machine):
    return [
        ParzenDensity(machine.bandwidth_, kernel=machine.kernel).fit(X[y == name])
        for name in machine.classes_
    ]


@looped("priors", [None, [0.2, 0.5, 0.3], [0.0, 0.5, 0.5]])
def test_probabilities_are_by_bayes_rule(priors):
    machine = ParzenClassifier(kernel=Laplacian(), priors=priors).fit(X, y)
    share = np.unique(y, return_counts=True)[1] / 80 if priors is None else priors
    p = np.column_stack([np.exp(d.score_samples(NEW)) for d in densities(machine)])
    expected = p * share / (p * share).sum(axis=1, keepdims=True)
    assert_allclose(machine.predict_proba(NEW), expected, atol=1e-10)
    assert_array_equal(machine.predict(NEW), machine.classes_[expected.argmax(axis=1)])
    with np.errstate(divide="ignore"):
        logs = np.log(expected)
    assert_allclose(machine.predict_log_proba(NEW), logs, atol=1e-8)


def test_probabilities_far_away_are_no_0_through_0():
    machine = ParzenClassifier(bandwidth=0.1).fit(X, y)
    p = machine.predict_proba([[1e4, 3.0]])
    assert_allclose(p.sum(), 1)
    assert machine.predict([[1e4, 3.0]])[0] == y[np.argmax(X[:, 0])]


def test_the_bandwidth_of_classes_is_by_leaving_out_within_them():
    machine = ParzenClassifier().fit(X, y)

    def score(h):
        found = window(RBF()).at(h)
        total = 0.0
        for name in machine.classes_:
            own = X[y == name]
            logs = found.log_sums(own, None, np.ones(len(own)))
            total += logs.sum() - len(own) * (
                np.log(len(own) - 1) + found.log_volume(2)
            )
        return total / 80

    best = max(machine.trials_, key=lambda trial: trial.score)
    assert_allclose(best.score, score(best.bandwidth), rtol=1e-9)
    assert best.bandwidth == machine.bandwidth_
    assert best.score >= max(score(best.bandwidth * f) for f in (0.9, 1.1))


def test_classes_of_one_point_each_share_a_window():
    machine = ParzenClassifier().fit([[0.0], [1.0], [3.0]], [0, 1, 2])
    assert_array_equal(machine.predict([[0.2], [1.2], [9.0]]), [0, 1, 2])


@looped("classes", [2, 3])
def test_the_nearest_mean_is_that_of_explicit_features(classes):
    kernel, chosen = Polynomial(2, offset=0), y != ("c" if classes == 2 else "")
    machine = ParzenClassifier(method="mean", kernel=kernel).fit(X[chosen], y[chosen])
    reference = NearestCentroid().fit(kernel.features(X[chosen]), y[chosen])
    assert_array_equal(machine.predict(NEW), reference.predict(kernel.features(NEW)))
    values = machine.decision_function(NEW)
    gap = kernel.features(NEW)[:, None] - reference.centroids_
    squares = (gap**2).sum(axis=2)
    if classes == 2:
        assert_allclose(values, (squares[:, 0] - squares[:, 1]) / 2, rtol=1e-8)
    else:
        found = values[:, :1] - values
        assert_allclose(found, (squares - squares[:, :1]) / 2, atol=1e-9)
    assert_allclose(values, machine.expansion_(NEW))


def test_both_methods_agree_where_the_means_are_equally_long():
    A = np.vstack([X, -X])  # a mirror keeps all distances within a class
    label = np.repeat([0, 1], 80)
    mean = ParzenClassifier(method="mean", kernel=RBF(0.7)).fit(A, label)
    assert_allclose(mean.expansion_.bias, 0, atol=1e-14)
    density = ParzenClassifier(kernel=RBF(0.7)).fit(A, label)
    assert_array_equal(mean.predict(NEW), density.predict(NEW))


def test_strings_have_means_too():
    words = ["banana", "bandana", "canal", "queue", "queued", "quest"]
    machine = ParzenClassifier(method="mean", kernel=Spectrum(2)).fit(
        words, list("aaabbb")
    )
    assert_array_equal(machine.predict(["cabana", "request"]), ["a", "b"])
    assert not hasattr(machine, "predict_proba")


def test_weights_count_as_repeated_rows_in_both_methods():
    weight = rng.integers(0, 3, 80)
    A, label = np.repeat(X, weight, axis=0), np.repeat(y, weight)
    for method in ("density", "mean"):
        one = ParzenClassifier(method=method).fit(X, y, sample_weight=weight)
        other = ParzenClassifier(method=method).fit(A, label)
        found, expected = one.decision_function(NEW), other.decision_function(NEW)
        assert_allclose(found, expected, rtol=1e-7, atol=1e-10)


def test_kernel_values_have_the_means_of_their_kernel():
    kernel, weight = RBF(0.4), rng.integers(0, 3, 80)
    known = ParzenClassifier(method="mean", kernel=kernel).fit(X, y, weight)
    for word in ("precomputed", Precomputed()):
        machine = ParzenClassifier(method="mean", kernel=word).fit(kernel(X), y, weight)
        found = machine.decision_function(kernel(NEW, X))
        assert_allclose(found, known.decision_function(NEW), rtol=1e-10)


def test_priors_and_bandwidths_are_checked():
    with pytest.raises(ValueError, match="3 classes"):
        ParzenClassifier(priors=[0.5, 0.5]).fit(X, y)
    with pytest.raises(ValueError, match="sum to 1"):
        ParzenClassifier(priors=[0.5, 0.5, 0.5]).fit(X, y)
    with pytest.raises(ValueError, match="has no bandwidth"):
        ParzenClassifier(method="mean", bandwidth=2.0).fit(X, y)
    with pytest.raises(ValueError, match="at least one non-zero"):
        ParzenClassifier().fit(X, y, sample_weight=np.zeros(80))


def test_a_second_fit_forgets_the_other_method():
    machine = ParzenClassifier(method="mean").fit(X, y)
    machine.set_params(method="density").fit(X, y)
    assert not hasattr(machine, "expansion_")
    machine.set_params(method="mean").fit(X, y)
    assert not hasattr(machine, "bandwidth_") and not hasattr(machine, "priors_")


@looped(
    "machine", [ParzenDensity(0.5), ParzenClassifier()], ids=["density", "classifier"]
)
def test_a_machine_is_pickled_with_its_points(machine):
    machine = clone(machine).fit(X, y)
    decide = getattr(machine, "decision_function", None) or machine.score_samples
    again = pickle.loads(pickle.dumps(machine))
    decide_again = getattr(again, decide.__name__)
    assert_array_equal(decide_again(NEW), decide(NEW))
