"""Fisher and Natural: exact values, any coordinates, any model, missing values."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.mixture import GaussianMixture as SklearnMixture
from sklearn.model_selection import GridSearchCV, cross_val_score

from mercer.densities.categories import Categories
from mercer.densities.chain import MarkovChain
from mercer.densities.gaussian import Gaussian, GaussianMixture
from mercer.densities.hmm import HMM
from mercer.densities.normals import FORMS
from mercer.kernels.algebra import Normalized
from mercer.kernels.generative import Fisher, Natural, drawn_information, score
from mercer.kernels.radial import RBF
from mercer.machines.ridge import KernelRidge
from mercer.machines.svm import SVC

STANDARD = Gaussian([0.0], [[1.0]])
numbers = st.floats(-4, 4)


def models(rng):
    """A fitted density of each kind, with points of its own."""
    mixture = GaussianMixture(2, "diag").fit(rng.normal(size=(40, 2)))
    chain = MarkovChain("ab", [0.3, 0.7], [[0.6, 0.4], [0.2, 0.8]], length=5)
    hidden = HMM(2, Categories("ab", [[0.9, 0.1], [0.3, 0.7]]), [0.5, 0.5],
                 [[0.8, 0.2], [0.4, 0.6]], length=6)  # fmt: skip
    plain = Gaussian([1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]])
    return [
        (model, model.sample(6, seed=7)) for model in (plain, mixture, chain, hidden)
    ]


@dataclass
class Turned:
    """A density in the coordinates η with θ = A η."""

    density: object
    A: np.ndarray

    def log_likelihood(self, X):
        return self.density.log_likelihood(X)

    def score(self, X):
        return self.density.score(X) @ self.A

    def sample(self, n, seed):
        return self.density.sample(n, seed)


@dataclass
class WithVariance:
    """N(mean, variance) by its likelihood alone, θ = (mean, variance)."""

    mean: float
    variance: float

    @property
    def theta(self):
        return np.array([self.mean, self.variance])

    def at(self, theta):
        return WithVariance(*theta)

    def log_likelihood(self, X):
        X = np.asarray(X, dtype=float)[:, 0]
        return -((X - self.mean) ** 2 / self.variance + np.log(self.variance)) / 2

    def information(self):
        return np.diag([1 / self.variance, 1 / (2 * self.variance**2)])

    def sample(self, n, seed):
        noise = np.random.default_rng(seed).normal(size=(n, 1))
        return self.mean + np.sqrt(self.variance) * noise


# Exact values


def test_values_of_the_standard_normal():
    kernel = Fisher(STANDARD)
    assert kernel.value(1, 2) == pytest.approx(2, rel=1e-14)
    assert kernel.value(2, 3) == pytest.approx(18, rel=1e-14)


@settings(max_examples=25, deadline=None)
@given(numbers, numbers)
def test_kernel_of_the_standard_normal_is_a_polynomial(x, y):
    expected = x * y + (x**2 - 1) * (y**2 - 1) / 2
    assert_allclose(Fisher(STANDARD).value(x, y), expected, rtol=1e-12, atol=1e-12)


def test_kernel_of_a_gaussian_is_a_polynomial_of_whitened_points(rng):
    A = rng.normal(size=(3, 3))
    covariance, mean, X = A @ A.T, rng.normal(size=3), rng.normal(size=(6, 3))
    Z = np.linalg.solve(np.linalg.cholesky(covariance), (X - mean).T).T
    inner, squares = Z @ Z.T, (Z**2).sum(axis=1)
    expected = inner + (inner**2 - squares[:, None] - squares + 3) / 2
    K = Fisher(Gaussian(mean, covariance))(X)
    assert_allclose(K, expected, rtol=1e-9, atol=1e-10)


def test_kernel_of_a_chain_of_one_symbol_is_that_of_shares():
    model = MarkovChain("abc", [0.2, 0.5, 0.3], np.full((3, 3), 1 / 3), length=1)
    # Of length 1 the moves say nothing: singular.
    with pytest.raises(ValueError, match="Nothing is known of log odds of 'a' → 'a'"):
        Fisher(model)(["a"])
    longer = MarkovChain("abc", [0.2, 0.5, 0.3], np.full((3, 3), 1 / 3), length=2)
    K = Fisher(longer)(["a", "b", "c"])
    assert_allclose(K, np.diag([1 / 0.2, 1 / 0.5, 1 / 0.3]) - 1, rtol=1e-12, atol=1e-12)


# Coordinates


def test_turning_the_coordinates_changes_nothing(rng):
    for model, X in models(rng):
        A = rng.normal(size=(len(model.theta),) * 2) + 2 * np.eye(len(model.theta))
        drawn = drawn_information(model, 500, seed=0).matrix
        plain = Fisher(model, drawn)(X)
        turned = Fisher(Turned(model, A), samples=500)(X)
        assert_allclose(turned, plain, rtol=1e-6, atol=1e-7 * np.abs(plain).max())


@pytest.mark.parametrize("mean, variance", [(0.0, 1.0), (3.0, 0.25), (-1.0, 9.0)])
def test_variance_or_logarithm_of_deviation_is_the_same(rng, mean, variance):
    X = mean + rng.normal(size=(6, 1))
    ours = Fisher(Gaussian([mean], [[variance]]))(X)
    assert_allclose(Fisher(WithVariance(mean, variance))(X), ours, rtol=1e-8, atol=1e-9)


def test_numerical_scores_are_near_the_exact_ones(rng):
    for model, X in models(rng):
        bare = Bare(model)
        assert_allclose(score(bare, X), model.score(X), rtol=1e-7, atol=1e-8)
        K = Natural(model)(X)
        assert_allclose(Natural(bare)(X), K, rtol=1e-6, atol=1e-7)


class Bare:
    """Only the likelihood of a density, and its parameters."""

    def __init__(self, density):
        self.density, self.theta = density, density.theta

    def at(self, theta):
        return Bare(self.density.at(theta))

    def log_likelihood(self, X):
        return self.density.log_likelihood(X)


# Information


def test_drawn_information_is_within_its_error_of_the_closed_form():
    plain = Gaussian([1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]])
    chain = MarkovChain("ab", [0.3, 0.7], [[0.6, 0.4], [0.2, 0.8]], length=5)
    for model in (plain, chain):
        found = drawn_information(model, 20_000, seed=1)
        assert found.samples == 20_000
        off = np.abs(found.matrix - model.information())
        assert (off <= 5 * found.standard_error + 1e-12).all()
        assert found.standard_error.max() < 0.05 * found.matrix.max()


def test_the_error_of_drawn_information_is_its_spread_over_seeds():
    model = GaussianMixture(2, "diag", [0.4, 0.6], [[0.0], [3.0]], [[1.0], [2.0]])
    found = [drawn_information(model, 400, seed) for seed in range(60)]
    spread = np.std([one.matrix for one in found], axis=0, ddof=1)
    stated = np.mean([one.standard_error for one in found], axis=0)
    assert_allclose(stated, spread, rtol=0.4)


def test_information_used_says_what_it_is():
    exact = Fisher(STANDARD).information_used()
    assert exact.samples == 0 and not exact.standard_error.any()
    assert_allclose(exact.matrix, [[1, 0], [0, 2]])
    mixture = GaussianMixture(2, "diag", [0.4, 0.6], [[0.0], [3.0]], [[1.0], [2.0]])
    drawn = Fisher(mixture, samples=300, seed=4).information_used()
    assert drawn.samples == 300 and drawn.standard_error.shape == (5, 5)
    assert_array_equal(drawn.matrix, Fisher(mixture, samples=300, seed=4)._metric())
    given_one = Fisher(STANDARD, np.diag([2.0, 3.0])).information_used()
    assert_array_equal(given_one.matrix, np.diag([2.0, 3.0]))


def test_features_of_drawn_points_are_white(rng):
    for model, _ in models(rng):
        X = model.sample(10_000, seed=11)
        features = Fisher(model, samples=20_000).features(X)
        squares = features.T @ features / len(features)
        assert_allclose(squares, np.eye(len(squares)), atol=0.35)
        assert np.abs(features.mean(axis=0)).max() < 0.06


def test_empirical_features_of_the_points_are_white(rng):
    X = rng.normal(size=(50, 2))
    kernel = Fisher(Gaussian(), "empirical").resolve(X)
    features = kernel.features(X)
    assert_allclose(features.T @ features / 50, np.eye(5), atol=1e-10)
    weight = rng.integers(0, 3, 50)
    weighted = Fisher(Gaussian(), "empirical").resolve(X, weight)
    repeated = Fisher(Gaussian(), "empirical").resolve(np.repeat(X, weight, axis=0))
    assert_allclose(weighted(X), repeated(X), rtol=1e-7, atol=1e-8)


def test_a_matrix_of_information_is_used_as_it_is(rng):
    X = rng.normal(size=(5, 1))
    V, matrix = STANDARD.score(X), np.array([[2.0, 0.5], [0.5, 1.0]])
    expected = V @ np.linalg.inv(matrix) @ V.T
    assert_allclose(Fisher(STANDARD, matrix)(X), expected, rtol=1e-10, atol=1e-12)


# Natural


def test_natural_with_the_information_is_fisher(rng):
    for model, X in models(rng)[::2]:
        assert_allclose(Natural(model, model.information())(X), Fisher(model)(X),
                        rtol=1e-10, atol=1e-11)  # fmt: skip


def test_natural_of_one_is_the_product_of_scores(rng):
    for model, X in models(rng):
        V = model.score(X)
        assert_allclose(Natural(model)(X), V @ V.T, rtol=1e-11, atol=1e-12)
        assert_allclose(Natural(model, 4.0)(X), V @ V.T / 4, rtol=1e-11, atol=1e-12)


# Features


def test_features_have_the_names_of_the_parameters(rng):
    chain = MarkovChain("ab", [0.3, 0.7], [[0.6, 0.4], [0.2, 0.8]], length=5)
    assert Fisher(chain).feature_names(["ab"]) == [
        "log odds of 'a' at the start", "log odds of 'a' → 'a'", "log odds of 'b' → 'a'"
    ]  # fmt: skip
    assert Fisher(WithVariance(0.0, 1.0)).feature_names() == ["θ0", "θ1"]
    for model, X in models(rng):
        kernel = Natural(model)
        assert len(kernel.feature_names(X)) == kernel.features(X).shape[1]


# Models of other kinds


@pytest.mark.parametrize("form", FORMS)
def test_scikit_learns_mixture_is_ours(rng, form):
    X = rng.normal(size=(60, 2))
    peer = SklearnMixture(2, covariance_type=form, random_state=0).fit(X)
    ours = Fisher(GaussianMixture.from_sklearn(peer), samples=500)
    for handed in (peer, FrozenEstimator(peer)):
        assert_allclose(Fisher(handed, samples=500)(X[:5]), ours(X[:5]), rtol=1e-10)


def test_scikit_learns_mixture_stays_fitted_in_clones(rng):
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    kernel = Fisher(SklearnMixture(2, random_state=0).fit(X), samples=500)
    assert_allclose(clone(kernel)(X[:4]), kernel(X[:4]), rtol=1e-10)
    assert cross_val_score(SVC(kernel=kernel), X, y, cv=2).shape == (2,)


def test_scikit_learns_mixture_is_fitted_by_resolve(rng):
    X = rng.normal(size=(60, 2))
    kernel = Fisher(SklearnMixture(2, random_state=0), samples=500)
    with pytest.raises(ValueError, match=r"resolve\(X\) first"):
        kernel(X)
    resolved = kernel.resolve(X)
    expected = SklearnMixture(2, random_state=0).fit(X)
    assert_allclose(resolved.model.means_, expected.means_)
    assert not hasattr(kernel.model, "means_")
    with pytest.raises(ValueError, match="cannot be fitted with weights"):
        kernel.resolve(X, np.ones(60))


def test_a_model_that_only_has_a_likelihood_is_enough(rng):
    kernel = Fisher(WithVariance(0.5, 2.0), "empirical").resolve(
        rng.normal(size=(30, 1))
    )
    assert kernel.psd and kernel(rng.normal(size=(4, 1))).shape == (4, 4)


# In machines


def letters(rng, n, moves):
    model = MarkovChain("ab", [0.5, 0.5], moves, length={10: 0.5, 15: 0.5})
    return model.sample(n, seed=int(rng.integers(1000)))


def test_strings_are_told_apart_by_their_moves(rng):
    often, seldom = [[0.2, 0.8], [0.8, 0.2]], [[0.8, 0.2], [0.2, 0.8]]
    X = letters(rng, 40, often) + letters(rng, 40, seldom)
    y = np.repeat([0, 1], 40)
    search = GridSearchCV(
        SVC(kernel=Normalized(Fisher(MarkovChain()))),
        {"kernel__kernel__model": [MarkovChain(smoothing=0.1), MarkovChain()]},
        cv=4,
    ).fit(X, y)
    assert search.best_score_ > 0.9
    assert search.best_estimator_.expansion_.kernel.kernel.model.fitted


def test_missing_values_reach_machines_whose_kernel_allows_them(rng):
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    X[rng.random(X.shape) < 0.1] = np.nan
    kernel = Fisher(Gaussian())
    assert kernel.missing and Normalized(kernel).missing and (kernel + kernel).missing
    assert not (kernel + RBF()).missing and not Fisher(MarkovChain()).missing
    for machine in (SVC(kernel=kernel), SVC(kernel=Normalized(kernel))):
        assert machine.fit(X, y).score(X, y) > 0.8
        assert machine.__sklearn_tags__().input_tags.allow_nan
    assert np.isfinite(KernelRidge(kernel=kernel).fit(X, y).predict(X)).all()
    with pytest.raises(ValueError, match="NaN"):
        SVC(kernel=kernel + RBF()).fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        SVC().fit(X, y)


def test_weights_of_points_reach_the_density(rng):
    X, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    weight = rng.integers(1, 3, 40)
    weighted = KernelRidge(kernel=Fisher(Gaussian())).fit(X, y, sample_weight=weight)
    repeated = KernelRidge(kernel=Fisher(Gaussian())).fit(
        np.repeat(X, weight, axis=0), np.repeat(y, weight)
    )
    assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6, atol=1e-6)


# Errors


@looped(
    "make, kind, message",
    [
        (lambda: Fisher(Gaussian), TypeError, r"Write Gaussian\(...\)"),
        (lambda: Fisher(3.0), TypeError, "needs a model with log_likelihood"),
        (lambda: Fisher(STANDARD, "exact"), ValueError, "got information='exact'"),
        (lambda: Fisher(STANDARD, [[1.0, 2.0], [2.0, 1.0]]), ValueError, "eigenvalue"),
        (lambda: Fisher(STANDARD, [[1.0, 2.0], [1.0, 5.0]]), ValueError, "symmetric"),
        (lambda: Fisher(STANDARD, [1.0, 2.0]), ValueError, "got shape"),
        (lambda: Fisher(STANDARD, 3), ValueError, "got shape"),
        (lambda: Fisher(STANDARD, None), TypeError, "positive definite matrix"),
        (lambda: Fisher(STANDARD, samples=1), ValueError, "samples=1"),
        (lambda: Natural(STANDARD, 0.0), ValueError, "metric > 0; got metric=0.0"),
        (lambda: Fisher(STANDARD, np.eye(3))([[1.0]]), ValueError, "for 3 parameters"),
        (lambda: Fisher(Bare(STANDARD))([[1.0]]), ValueError, "has neither"),
        (lambda: Fisher(STANDARD, "empirical")([[1.0]]), ValueError, "resolve"),
        (
            lambda: Fisher(Gaussian(smoothing=1.0), "empirical").resolve(np.eye(3)),
            ValueError,
            "more points than parameters",
        ),
    ],
)
def test_what_is_wrong_is_said(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


class Broken:
    """A score of the wrong shape, or not finite."""

    def __init__(self, scores):
        self.scores = scores

    def log_likelihood(self, X):
        return np.zeros(len(X))

    def score(self, X):
        return self.scores


def test_a_score_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"one row per point, \(2, p\)"):
        score(Broken(np.zeros(2)), [[1.0], [2.0]])
    with pytest.raises(ValueError, match="no finite ∇ ln p at point 1"):
        score(Broken(np.array([[1.0], [np.nan]])), [[1.0], [2.0]])
