"""Windows of any shape: what they integrate to, by formula and by quadrature."""

import math
import pickle
import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import kstest
from sklearn.base import clone
from sklearn.neighbors import KernelDensity

from mercer.kernels.radial import Radial
from mercer.kernels.ways import PairFunction
from mercer.kernels.window import SHAPES, ProductWindow, RadialWindow
from mercer.machines.parzen import ParzenClassifier, ParzenDensity
from mercer.solvers.windows import window

rng = np.random.default_rng(0)
X = rng.normal(size=(50, 2))
NEW = rng.normal(size=(20, 2))
y = rng.integers(0, 2, 50)


def ring(r):
    """0 at its own place, a hill around it, with an end."""
    r = np.abs(r) - 1
    return np.where(np.abs(r) < 0.5, 2 * np.cos(np.pi * r) ** 2, 0)


def heavy(r):
    return 3 / (1 + np.abs(r)) ** 4


def narrow(r):
    return np.exp(-1e3 * np.abs(r))


def steps(r):
    return 2.0 * (np.abs(r) < 0.3) + 1.0 * (np.abs(r) < 0.7)


OWN = [ring, heavy, narrow, steps]
WINDOWS = [
    *(RadialWindow(word, 0.7) for word in SHAPES),
    *(ProductWindow(word, 0.7) for word in SHAPES),
    *(RadialWindow(K, 0.7) for K in OWN),
    *(ProductWindow(K, 0.7) for K in OWN),
]
each_window = looped("kernel", WINDOWS, ids=repr)


def breaks(K):
    return {ring: [0.5, 1.5], steps: [0.3, 0.7]}.get(K, [1.0])


# Integrals


@each_window
@looped("d", [1, 2, 3, 7])
def test_the_integral_is_that_of_the_definition(kernel, d):
    if kernel == RadialWindow(heavy, 0.7) and d >= 4:
        with pytest.raises(ValueError, match="no finite integral over 7"):
            kernel.integral(d)
        return
    K = kernel.heights
    edges = [0, *breaks(kernel.function), 40, np.inf]
    power = d - 1 if isinstance(kernel, RadialWindow) else 0

    def shell(r):
        return r**power * float(K(np.array([r]))[0])

    if kernel.function is narrow:
        edges = [0, 0.01, 0.1, np.inf]
    line = sum(
        quad(shell, a, b, limit=500, epsabs=1e-14)[0] for a, b in pairwise(edges)
    )
    if isinstance(kernel, RadialWindow):
        expected = line * 2 * math.pi ** (d / 2) / math.gamma(d / 2)
    else:
        expected = (2 * line) ** d
    found = kernel.integral(d)
    assert_allclose(found.value, expected, rtol=1e-6)
    assert_allclose(found.value, math.exp(found.log_value))
    named = isinstance(kernel.function, str)
    assert found.by == ("formula" if named else "quadrature")
    assert (found.relative_error == 0) == named and found.relative_error < 1e-8


@looped("word", SHAPES)
@looped("d", [1, 2, 5, 40])
def test_quadrature_gives_the_formula(word, d):
    K = SHAPES[word].function
    for kind in (RadialWindow, ProductWindow):
        known = kind(word).integral(d)
        found = kind(lambda r: K(np.abs(r))).integral(d)
        assert_allclose(found.log_value, known.log_value, atol=1e-9)
        error = abs(math.expm1(found.log_value - known.log_value))
        assert error <= 10 * found.relative_error


def test_a_density_says_what_its_window_integrates_to():
    machine = ParzenDensity(0.5, kernel=heavy).fit(X)
    area = quad(lambda r: 2 * np.pi * r * heavy(r), 0, np.inf)[0] * 0.25
    assert_allclose(machine.integral_.value, area, rtol=1e-8)
    assert machine.integral_.by == "quadrature"
    assert ParzenDensity(0.5).fit(X).integral_ == (math.log(np.pi / 2), 0.0, "formula")


@each_window
def test_a_density_of_any_window_integrates_to_1(kernel):
    if kernel.function is narrow:
        kernel = type(kernel)(narrow, 300.0)
    line = np.array([[-0.6], [0.0], [0.25]])
    machine = ParzenDensity(kernel=kernel).fit(line, sample_weight=[1, 2, 0.5])
    t = np.linspace(-80, 80, 400_001)
    p = np.exp(machine.score_samples(t[:, None]))
    assert_allclose(p.sum() * (t[1] - t[0]), 1, rtol=1e-3)


@looped(
    "kernel",
    [
        RadialWindow("box", 0.7),
        RadialWindow("epanechnikov", 0.7),
        RadialWindow("cosine", 0.7),
        ProductWindow("triangle", 0.7),
        RadialWindow(ring, 0.6),
        ProductWindow(steps, 0.6),
    ],
    ids=repr,
)
def test_a_density_of_any_window_in_the_plane_integrates_to_1(kernel):
    machine = ParzenDensity(kernel=kernel).fit(X[:5])
    side = np.linspace(-4.5, 4.5, 500)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    p = np.exp(machine.score_samples(grid))
    assert_allclose(p.sum() * (side[1] - side[0]) ** 2, 1, rtol=2e-2)


# Scikit-learn's


@looped(
    "word", ["tophat", "epanechnikov", "exponential", "linear", "cosine", "gaussian"]
)
@looped("d", [1, 2, 3])
@looped("weight", [None, rng.uniform(0.1, 2, 50)])
def test_the_windows_of_scikit_learn_are_ours(word, d, weight):
    A, B = rng.normal(size=(50, d)), rng.normal(size=(30, d))
    ours = ParzenDensity(0.8, kernel=word).fit(A, sample_weight=weight)
    theirs = KernelDensity(bandwidth=0.8, kernel=word, rtol=1e-12)
    expected = theirs.fit(A, sample_weight=weight).score_samples(B)
    if word == "cosine" and d == 2:
        # Its constant is 2/π for ∫ r cos(πr/2) dr: its density integrates to 0.363.
        expected += math.log(2 / np.pi) - math.log(2 / np.pi - 4 / np.pi**2)
    assert_allclose(ours.score_samples(B), expected, rtol=1e-7, atol=1e-7)


# One by one


@each_window
def test_a_window_is_a_function_of_each_pair(kernel):
    for dtype, tol in ((np.float64, 1e-9), (np.float32, 2e-4)):
        A, B = X[:6].astype(dtype), NEW[:5].astype(dtype)
        h = kernel.bandwidth
        if isinstance(kernel, RadialWindow):
            r = [[math.dist(a, b) / h for b in B] for a in A]
            expected = kernel.heights(np.array(r))
        else:
            expected = np.array(
                [[math.prod(kernel.heights(np.abs(a - b) / h)) for b in B] for a in A]
            )
        found = kernel(A, B)
        assert found.dtype == dtype
        top = max(1.0, float(expected.max()))
        assert_allclose(found, expected, rtol=100 * tol, atol=tol * top)
        sparse = kernel(sp.csr_array(A), sp.csr_array(B))
        assert_allclose(sparse, expected, rtol=100 * tol, atol=tol * top)


def test_the_density_is_the_mean_of_the_windows():
    for kernel in (RadialWindow(ring, 0.9), ProductWindow(heavy, 0.9)):
        machine = ParzenDensity(kernel=kernel).fit(X)
        c = kernel.integral(2).value * 0.9**2
        expected = kernel(NEW, X).mean(axis=1) / c
        with np.errstate(divide="ignore"):
            logs = np.log(expected)
        assert_allclose(machine.score_samples(NEW), logs, rtol=1e-9)
        assert_allclose(machine.expansion_(NEW), expected, rtol=1e-9, atol=1e-15)
        single = ParzenDensity(kernel=kernel).fit(X.astype(np.float32))
        assert_allclose(np.exp(single.score_samples(NEW)), expected, atol=1e-5)
        sparse = ParzenDensity(kernel=kernel).fit(sp.csr_array(X))
        found = sparse.score_samples(sp.csr_array(NEW))
        assert_allclose(np.exp(found), expected, atol=1e-8)


def test_a_function_and_a_radial_kernel_are_radial_windows():
    own = ParzenDensity(0.4, kernel=heavy).fit(X)
    same = ParzenDensity(0.4, kernel=Radial(heavy)).fit(X)
    assert own.kernel_ == RadialWindow(heavy, 0.4) == same.kernel_
    assert ParzenDensity(kernel=Radial(heavy)).fit(X).bandwidth_ == 1.0


@looped(
    "kernel",
    [*(RadialWindow(w, 0.8) for w in SHAPES), RadialWindow(ring, 0.8),
     ProductWindow(steps, 0.8), ProductWindow("cosine", 0.8)],
    ids=repr,
)  # fmt: skip
def test_random_points_have_the_density(kernel):
    machine = ParzenDensity(kernel=kernel).fit([[0.0, 0.0]])
    points = machine.sample(2000, random_state=0)
    assert np.isfinite(machine.score_samples(points)).all()
    side = np.linspace(-8, 8, 801)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    p = np.exp(machine.score_samples(grid)).reshape(801, 801).sum(axis=0)
    law = np.cumsum(p) / p.sum()
    assert kstest(points[:, 0], lambda x: np.interp(x, side, law)).pvalue > 1e-3


def test_a_window_is_copied_and_pickled():
    machine = ParzenDensity("loo", kernel=ProductWindow(heavy)).fit(X)
    again = pickle.loads(pickle.dumps(machine))
    assert_array_equal(again.score_samples(NEW), machine.score_samples(NEW))
    assert clone(machine).kernel == ProductWindow(heavy)
    assert machine.kernel.bandwidth is None


# Leaving out


@pytest.mark.filterwarnings("ignore:The bandwidth")
@looped(
    "kernel",
    [RadialWindow("epanechnikov"), RadialWindow("box"), ProductWindow(heavy)],
    ids=repr,
)
def test_the_bandwidth_has_the_greatest_leave_one_out_likelihood(kernel):
    machine = ParzenDensity("loo", kernel=kernel).fit(X)

    def score(h):
        K = window(kernel).at(h).kernel(X)
        np.fill_diagonal(K, 0)
        with np.errstate(divide="ignore"):
            logs = np.log(K.sum(axis=1) / 49)
        return logs.mean() - window(kernel).at(h).log_volume(2)

    best = machine.bandwidth_
    assert_allclose(max(t.score for t in machine.trials_), score(best), rtol=1e-9)
    assert score(best) >= max(score(best * f) for f in (0.3, 0.7, 1.5, 3))


def test_an_isolated_point_that_decides_the_bandwidth_is_told():
    A = np.append(rng.normal(size=40), 30.0)[:, None]
    with pytest.warns(UserWarning, match="isolated point"):
        machine = ParzenDensity(kernel="epanechnikov").fit(A)
    assert 26 < machine.bandwidth_ < 33
    assert np.isneginf([trial.score for trial in machine.trials_]).any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ParzenDensity(kernel="gaussian").fit(A)
        ParzenDensity(0.5, kernel="epanechnikov").fit(A)


def test_far_away_there_is_no_density_and_priors_decide():
    density = ParzenDensity(0.5, kernel="box").fit(X)
    assert density.score_samples([[99.0, 99.0]])[0] == -np.inf
    for classes in (y, rng.integers(0, 3, 50)):
        machine = ParzenClassifier(bandwidth=0.5, kernel="box").fit(X, classes)
        far = [[99.0, 99.0]]
        assert_allclose(machine.predict_proba(far)[0], machine.priors_)
        assert machine.predict(far)[0] == np.argmax(machine.priors_)
        assert not np.isnan(machine.decision_function(np.vstack([NEW, far]))).any()
        assert_allclose(machine.predict_proba(NEW).sum(axis=1), 1)


@looped(
    "K, line",
    [
        (lambda r: r**20 * np.exp(-r), math.gamma(21)),
        (lambda r: 1 / np.cosh(r), math.pi / 2),
        (lambda r: np.exp(-(r**9)), math.gamma(1 + 1 / 9)),
        (lambda r: 1e-30 * np.exp(-1e6 * r), 1e-36),
        (lambda r: (r < 1) & (r >= 0), 1.0),
        (lambda r: np.exp(-r).astype(np.float32), 1.0),
        (lambda r: np.exp(-r) * (1 + 1e-9 * np.sin(1e9 * r)), 1.0),
        (lambda r: 1 / (1 + r) ** 1.5, 2.0),
    ],
)
def test_functions_of_all_kinds_are_integrated_without_a_warning(K, line):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = RadialWindow(K).integral(1)
    assert_allclose(found.value, 2 * line, rtol=1e-6)
    assert abs(found.value - 2 * line) <= 10 * found.relative_error * 2 * line + 1e-45


# What is no window


@looped(
    "K, message",
    [
        (lambda r: np.cos(r), "never negative"),
        (lambda r: 1 / r, "finite and never negative"),
        (lambda r: np.full_like(r, np.nan), "finite and never negative"),
        (lambda r: 1 / (1 + r), "no finite integral over 2"),
        (lambda r: 1 / (1 + r * r), "no finite integral over 2"),
        (lambda r: np.ones_like(r), "no finite integral"),
        (lambda r: np.zeros_like(r), "is 0 wherever"),
        (lambda r: np.ones(3), "a number for each"),
    ],
)
def test_what_has_no_integral_is_refused(K, message):
    with pytest.raises(ValueError, match=message), np.errstate(all="ignore"):
        ParzenDensity(1.0, kernel=K).fit(X)


def test_what_is_no_window_is_refused():
    with pytest.raises(ValueError, match="knows the windows box"):
        RadialWindow("parabola")
    with pytest.raises(TypeError, match="needs a function"):
        ProductWindow(3)
    with pytest.raises(ValueError, match="bandwidth > 0"):
        RadialWindow("box", -1.0)
    with pytest.raises(ValueError, match="even function"):
        ProductWindow(lambda u: np.exp(-np.abs(u) + 0.1 * np.tanh(u))).integral(1)
    with pytest.raises((TypeError, ValueError), match="Use numpy's functions"):
        ParzenDensity(1.0, kernel=lambda r: math.exp(-r)).fit(X)
    with pytest.raises(TypeError, match="Use numpy's functions"):
        ParzenDensity(1.0, kernel=lambda x, y: x - y).fit(X)
    with pytest.raises(ValueError, match="RadialWindow"):
        ParzenDensity(kernel=PairFunction(max)).fit(X)
    with pytest.raises(ValueError, match="between them at every width"):
        hollow = RadialWindow(lambda r: 1.0 * (r > 1) * (r < 1.2))
        ParzenDensity(kernel=hollow).fit([[0.0], [1.0], [5.0]])
