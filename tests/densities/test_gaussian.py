"""Gaussian and GaussianMixture: likelihood, score, fit, missing values."""

import copy
import pickle

import naive_densities as naive
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.mixture import GaussianMixture as SklearnMixture

from mercer.densities.gaussian import Gaussian, GaussianMixture
from mercer.densities.normals import FORMS, Normals

each_form = looped("form", FORMS)
each_single_form = looped("form", ["full", "diag", "spherical"])


def clusters(rng, n=60, d=2):
    centres = rng.choice([-3.0, 0.0, 3.0], size=(n, 1))
    return centres + rng.normal(size=(n, d)) @ rng.normal(size=(d, d))


def with_gaps(rng, X, share=0.3):
    return np.where(rng.random(X.shape) < share, np.nan, X)


def hand_made(form):
    """A mixture of two whose every parameter matters."""
    covariances = {
        "full": [[[2.0, 0.5], [0.5, 1.0]], [[1.0, -0.3], [-0.3, 0.5]]],
        "tied": [[2.0, 0.5], [0.5, 1.0]],
        "diag": [[2.0, 1.0], [0.5, 1.5]],
        "spherical": [2.0, 0.5],
    }
    means = [[0.0, 1.0], [1.5, -1.0]]
    return GaussianMixture(2, form, [0.3, 0.7], means, covariances[form])


POINTS = np.array([[0.5, 1.0], [-2.0, 3.0], [np.nan, 0.3], [1.0, np.nan],
                   [np.nan, np.nan]])  # fmt: skip


# Likelihood and score


@each_form
def test_log_likelihood_is_the_logarithm_of_the_sum_of_densities(form):
    model = hand_made(form)
    exact = [naive.value(naive.mixture(x, 2, 2, form), model.theta) for x in POINTS]
    assert_allclose(model.log_likelihood(POINTS), exact, rtol=1e-13, atol=1e-15)


@each_form
def test_score_is_the_gradient_of_the_log_likelihood(form):
    model = hand_made(form)
    exact = [naive.gradient(naive.mixture(x, 2, 2, form), model.theta) for x in POINTS]
    assert_allclose(model.score(POINTS), exact, rtol=1e-11, atol=1e-14)


def test_score_of_a_mixture_of_three_with_a_gap_is_its_gradient(rng):
    model = GaussianMixture(3).fit(clusters(rng, d=3))
    x = np.array([0.4, np.nan, -1.0])
    exact = naive.gradient(naive.mixture(x, 3, 3, "full"), model.theta)
    assert_allclose(model.score(x[None])[0], exact, rtol=1e-9, atol=1e-12)


@each_form
def test_log_likelihood_is_that_of_scikit_learn(rng, form):
    X = clusters(rng)
    peer = SklearnMixture(3, covariance_type=form, random_state=0).fit(X)
    ours = GaussianMixture.from_sklearn(peer)
    assert_allclose(ours.log_likelihood(X), peer.score_samples(X), rtol=1e-9)


@each_form
def test_a_point_with_nothing_observed_says_nothing(form):
    model = hand_made(form)
    nothing = np.full((1, 2), np.nan)
    assert_allclose(model.log_likelihood(nothing), 0, atol=1e-15)
    assert_allclose(model.score(nothing), 0, atol=1e-15)


def test_a_missing_coordinate_is_integrated_out():
    model = hand_made("full")
    marginal = GaussianMixture(
        2, "full", [0.3, 0.7], [[1.0], [-1.0]], [[[1.0]], [[0.5]]]
    )
    x = np.array([[np.nan, 0.3]])
    assert_allclose(
        model.log_likelihood(x), marginal.log_likelihood(x[:, 1:]), rtol=1e-14
    )


def test_far_points_keep_their_likelihood_and_score():
    model = hand_made("diag")
    far = np.array([[1e3, -1e3]])
    assert_allclose(
        model.log_likelihood(far),
        naive.value(naive.mixture(far[0], 2, 2, "diag"), model.theta), rtol=1e-12,
    )  # fmt: skip
    assert np.isfinite(model.score(far)).all()


def test_points_come_as_arrays_frames_lists_and_sparse_matrices(rng):
    model, X = hand_made("full"), rng.normal(size=(5, 2))
    expected = model.score(X)
    for form in (X.tolist(), pd.DataFrame(X, columns=["a", "b"]), sp.csr_array(X)):
        assert_array_equal(model.score(form), expected)
    assert model.score(X[:0]).shape == (0, len(model.theta))
    assert model.log_likelihood(X[:0]).shape == (0,)


def test_many_points_are_scored_in_blocks(rng, monkeypatch):
    model, X = hand_made("full"), rng.normal(size=(20, 2))
    whole = model.score(X), model.log_likelihood(X)
    monkeypatch.setattr("mercer.densities.gaussian.BLOCK", 30)
    assert_allclose(model.score(X), whole[0], rtol=1e-13, atol=1e-15)
    assert_allclose(model.log_likelihood(X), whole[1], rtol=1e-13)


# Coordinates


@each_form
def test_coordinates_lead_back_to_the_density(form):
    model = hand_made(form)
    again = model.at(model.theta)
    assert_allclose(again.theta, model.theta, rtol=1e-14, atol=1e-15)
    assert_allclose(again.covariances, model.covariances, rtol=1e-14)
    assert_allclose(again.weights, model.weights, rtol=1e-14)
    assert len(set(model.names())) == len(model.theta)


def test_a_component_of_weight_zero_has_no_odds():
    model = GaussianMixture(
        3, "spherical", [0.5, 0, 0.5], [[0.0], [1.0], [2.0]], [1.0] * 3
    )
    assert len(model.theta) == 1 + 3 + 3
    assert_allclose(model.at(model.theta).weights, [0.5, 0, 0.5])


# Information


@each_single_form
def test_information_is_the_mean_of_squared_scores(form):
    covariance = {
        "full": [[2.0, 0.7], [0.7, 0.5]],
        "diag": [2.0, 0.3],
        "spherical": 0.4,
    }
    model = Gaussian([1.0, -2.0], covariance[form], form)
    V = model.score(model.sample(40_000, seed=1))
    drawn = V.T @ V / len(V)
    error = np.sqrt(((V**2).T @ V**2 / len(V) - drawn**2) / len(V))
    assert (np.abs(model.information() - drawn) <= 5 * error + 1e-12).all()


def test_information_of_a_standard_normal_is_that_of_the_books():
    assert_allclose(Gaussian([0.0], [[4.0]]).information(), [[0.25, 0], [0, 2]])


def test_a_mixture_has_no_closed_form():
    assert hand_made("full").information() is None


@each_form
def test_the_mean_score_of_drawn_points_is_zero(form):
    model = hand_made(form)
    V = model.score(model.sample(20_000, seed=2))
    assert (np.abs(V.mean(axis=0)) <= 5 * V.std(axis=0) / np.sqrt(len(V))).all()


# Fit


def test_a_gaussian_is_fitted_by_the_mean_and_covariance(rng):
    X = clusters(rng, d=3)
    fitted = Gaussian().fit(X)
    assert_allclose(fitted.mean, X.mean(axis=0), rtol=1e-12, atol=1e-12)
    assert_allclose(fitted.covariance, np.cov(X.T, bias=True), rtol=1e-12)
    assert fitted.report.converged and fitted.report.n_iter <= 2
    diagonal = Gaussian(form="diag").fit(X)
    assert_allclose(diagonal.covariance, X.var(axis=0), rtol=1e-12)
    spherical = Gaussian(form="spherical").fit(X)
    assert_allclose(spherical.covariance, X.var(axis=0).mean(), rtol=1e-12)


def test_points_far_from_zero_lose_no_digits(rng):
    X = rng.normal(size=(50, 2))
    fitted = Gaussian().fit(X + 1e8)
    assert_allclose(fitted.covariance, np.cov(X.T, bias=True), rtol=1e-6)


def test_a_gaussian_with_a_column_half_missing_is_fitted_by_regression(rng):
    X = rng.normal(size=(200, 2)) @ [[1.0, 0.8], [0.0, 0.6]] + [1, 2]
    complete = np.arange(200) < 120
    a, b = X[complete, 0], X[complete, 1]
    slope = np.cov(a, b, bias=True)[0, 1] / a.var()
    mean = b.mean() + slope * (X[:, 0].mean() - a.mean())
    rest = np.mean((b - b.mean() - slope * (a - a.mean())) ** 2)
    gappy = X.copy()
    gappy[~complete, 1] = np.nan
    fitted = Gaussian(tol=1e-14, max_iter=2000).fit(gappy)
    assert fitted.report.converged
    assert_allclose(fitted.mean, [X[:, 0].mean(), mean], rtol=1e-6)
    v = X[:, 0].var()
    expected = [[v, slope * v], [slope * v, rest + slope**2 * v]]
    assert_allclose(fitted.covariance, expected, rtol=1e-6)


@each_form
@looped("share", [0.0, 0.4])
@looped("smoothing", [0.5, 3.0])
def test_no_step_of_a_fit_goes_down(rng, form, share, smoothing):
    X = with_gaps(rng, clusters(rng), share)
    fitted = GaussianMixture(3, form, smoothing=smoothing, tol=1e-8).fit(X)
    path = np.array(fitted.report.path)
    assert len(path) > 2 and fitted.report.n_iter == len(path) - 1
    assert (np.diff(path) >= -1e-9 * np.abs(path[1:])).all()


@each_form
@looped("share", [0.0, 0.3])
def test_the_scores_of_the_fitted_points_add_up_to_zero(rng, form, share):
    X = with_gaps(rng, clusters(rng, n=150), share)
    fitted = GaussianMixture(2, form, smoothing=0, tol=1e-13, max_iter=20_000).fit(X)
    V = fitted.score(X)
    assert fitted.report.converged
    assert_allclose(V.sum(axis=0) / np.sqrt((V**2).sum(axis=0)), 0, atol=1e-4)


@each_form
def test_scikit_learns_optimum_is_ours(rng, form):
    X = clusters(rng)
    peer = SklearnMixture(
        3, covariance_type=form, reg_covar=0, tol=1e-9, max_iter=5000, random_state=0
    ).fit(X)
    started = GaussianMixture.from_sklearn(peer)
    fitted = GaussianMixture(
        3, form, started.weights, started.means, started.covariances, 0.0, 1e-9
    ).fit(X)
    assert_allclose(fitted.theta, started.theta, rtol=1e-3, atol=1e-3)


def test_three_clusters_are_found(rng):
    centres = np.array([[-10.0, 0.0], [0.0, 10.0], [10.0, 0.0]])
    X = np.repeat(centres, 30, axis=0) + rng.normal(size=(90, 2))
    fitted = GaussianMixture(3).fit(X)
    order = np.argsort(np.asarray(fitted.means)[:, 0])
    assert_allclose(np.asarray(fitted.means)[order], centres, atol=0.6)
    assert_allclose(fitted.weights, 1 / 3, atol=1e-3)


@each_form
def test_a_weight_of_two_is_the_point_twice_and_zero_is_its_absence(rng, form):
    X = with_gaps(rng, clusters(rng, n=30), 0.1)
    weight = rng.integers(0, 3, 30)
    weighted = GaussianMixture(2, form).fit(X, weight)
    repeated = GaussianMixture(2, form).fit(np.repeat(X, weight, axis=0))
    assert_allclose(weighted.theta, repeated.theta, rtol=1e-7, atol=1e-7)


def test_a_fit_is_repeatable_and_leaves_the_model_alone(rng):
    X, model = clusters(rng), GaussianMixture(3, seed=4)
    assert model.fit(X) == model.fit(X)
    assert not model.fitted and model == GaussianMixture(3, seed=4)
    assert model != GaussianMixture(3, seed=5)


def test_a_fit_that_is_cut_short_says_so_and_can_go_on(rng):
    X = clusters(rng)
    short = GaussianMixture(3, max_iter=2).fit(X)
    assert not short.report.converged and short.report.n_iter == 2
    longer = GaussianMixture(3, "full", short.weights, short.means, short.covariances)
    assert longer.fit(X).report.path[0] == pytest.approx(short.report.path[-1])


def test_smoothing_rescues_constant_columns_and_few_points(rng):
    X = np.column_stack([rng.normal(size=5), np.ones(5), rng.normal(size=5)])
    assert np.isfinite(Gaussian(smoothing=1.0).fit(X).log_likelihood(X)).all()
    with pytest.raises(ValueError, match="raise smoothing"):
        Gaussian().fit(X)


def test_one_point_is_enough_with_smoothing():
    fitted = GaussianMixture(2).fit(np.array([[1.0, 2.0]]))
    assert_allclose(fitted.means, [[1.0, 2.0]] * 2, rtol=1e-12)


# Densities are values


def test_densities_are_values(rng):
    fitted = GaussianMixture(2).fit(clusters(rng))
    for twin in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        assert twin == fitted and twin.report == fitted.report
    assert fitted != GaussianMixture(2) and fitted != "a mixture"
    assert repr(Gaussian([0.0], [[1.0]])) == "Gaussian(mean=[0.0], covariance=[[1.0]])"
    assert repr(GaussianMixture(3)) == "GaussianMixture(components=3)"
    assert "<2 × 10 float64>" in repr(
        GaussianMixture(2, "diag").fit(rng.normal(size=(9, 10)))
    )


def test_samples_are_those_of_the_seed_and_of_the_density():
    model = hand_made("full")
    X = model.sample(20_000, seed=3)
    assert_array_equal(X, model.sample(20_000, seed=3))
    assert_allclose(X.mean(axis=0), 0.3 * np.array([0, 1]) + 0.7 * np.array([1.5, -1]),
                    atol=0.05)  # fmt: skip


# Errors


@looped(
    "make, message",
    [
        (lambda: Gaussian([0.0]), "mean and its covariance, or neither"),
        (lambda: Gaussian([0.0], [[-1.0]]), "positive definite"),
        (lambda: Gaussian([0.0, 1.0], [[1.0]]), r"covariances of shape \(1, 2, 2\)"),
        (lambda: Gaussian(form="tied"), "form among full, diag, spherical; got 'tied'"),
        (lambda: Gaussian([0.0, 0.0], [[1.0, 0.5], [0.1, 1.0]]), "symmetric"),
        (lambda: Gaussian(smoothing=-1), "smoothing ≥ 0; got smoothing=-1"),
        (lambda: GaussianMixture(0), "components ≥ 1; got components=0"),
        (lambda: GaussianMixture(2, max_iter=1.5), "whole number max_iter"),
        (lambda: GaussianMixture(1, "diag", [0.5], [[0.0]], [[1.0]]), "sum to 1"),
        (lambda: GaussianMixture(2, "diag", [1.0], [[0.0]], [[1.0]]), "as many means"),
        (lambda: GaussianMixture(2, means=[[0.0], [1.0]]), "or neither"),
        (lambda: Normals("round"), "form among full, tied, diag, spherical"),
        (lambda: Normals("diag", [0.0], [1.0]), r"\(k, d\) means"),
        (lambda: Gaussian().log_likelihood([[1.0]]), "has no parameters yet"),
        (lambda: Gaussian().fit(np.empty((0, 2))), "at least one point"),
        (lambda: Gaussian().fit([[1.0], [np.inf]]), "point 1 has inf in column 0"),
        (lambda: Gaussian().fit([[1.0, np.nan], [2.0, np.nan]]), "Column 1"),
        (lambda: Gaussian().fit([[1.0], [2.0]], [1.0, -1.0]), "one weight ≥ 0"),
        (lambda: hand_made("full").score([[1.0]]), "dimension 2; the points have 1"),
        (lambda: hand_made("full").at([1.0]), "11 free coordinates; got shape"),
    ],
)
def test_what_is_wrong_is_said(make, message):
    with pytest.raises(ValueError, match=message):
        make()
