"""Normals: densities and their moments in the core, by BLAS, and a number at a time."""

from itertools import pairwise

import naive_densities as naive
import numpy as np
import pytest
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal

from mercer.densities import base, normals
from mercer.densities.gaussian import GaussianMixture
from mercer.densities.normals import FORMS, Normals, posteriors
from mercer.native.threads import set_threads, threads

each_form = pytest.mark.parametrize("form", FORMS)
# Around the sixteen rows whose sums are in registers, and the 128 that are turned.
SIZES = [1, 2, 15, 17, 31, 32, 127, 128, 129, 300]


def some_normals(form, k=3, d=4, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(k, d, d))
    covariances = {
        "full": A @ A.swapaxes(1, 2) + np.eye(d),
        "tied": A[0] @ A[0].T + np.eye(d),
        "diag": rng.uniform(0.1, 3, (k, d)),
        "spherical": rng.uniform(0.1, 3, k),
    }
    return Normals(form, rng.normal(size=(k, d)), covariances[form])


def rows_and_answers(n, k=3, d=4, seed=1, share=0.0):
    rng = np.random.default_rng(seed)
    rows = np.where(rng.random((n, d)) < share, np.nan, 2 * rng.normal(size=(n, d)))
    return rows, rng.dirichlet(np.ones(k), n)


@pytest.fixture(params=["core", "BLAS"])
def way(request, monkeypatch):
    """Full covariances in the core, or by products of matrices in small tiles."""
    if request.param == "BLAS":
        monkeypatch.setattr(normals, "NARROW", 0)
        monkeypatch.setattr(normals, "TILE", 100)
    return request.param


# The definitions


@looped("n", SIZES)
@looped("share", [0.0, 0.3])
@looped("form", ["diag", "spherical"])
def test_diagonal_densities_and_moments_are_their_definitions(n, share, form):
    model, (rows, answers) = some_normals(form), rows_and_answers(n, share=share)
    deviations = model._scales()
    exact = [[naive.diagonal_logs(x, m, s)
              for m, s in zip(model.means, deviations, strict=True)]
             for x in rows]  # fmt: skip
    assert_allclose(model.log_densities(rows), exact, rtol=1e-13, atol=1e-14)
    zeroth, first, second = model.sums(rows, answers)
    assert_allclose(zeroth, answers.sum(axis=0), rtol=1e-13)
    for a, (mean, deviation) in enumerate(zip(model.means, deviations, strict=True)):
        z, squares = naive.diagonal_moments(rows, answers[:, a], mean, deviation)
        assert_allclose(first[a], z * deviation, rtol=1e-12, atol=1e-13)
        assert_allclose(second[a], squares * deviation**2, rtol=1e-12)


@looped("n", SIZES)
@looped("d", [1, 2, 3, 5, 8])
def test_full_densities_and_moments_are_their_definitions(n, d, way):
    model, (rows, answers) = some_normals("full", d=d), rows_and_answers(n, d=d)
    inverses, dets = np.linalg.inv(model.covariances), np.linalg.det(model.covariances)
    e = rows[:, None] - model.means
    squares = np.einsum("nki,kij,nkj->nk", e, inverses, e)
    exact = -0.5 * (squares + np.log(dets) + d * np.log(2 * np.pi))
    assert_allclose(model.log_densities(rows), exact, rtol=1e-11, atol=1e-12)
    zeroth, first, second = model.sums(rows, answers)
    assert_allclose(zeroth, answers.sum(axis=0), rtol=1e-13)
    for a, mean in enumerate(model.means):
        sums, products = naive.full_moments(rows, answers[:, a], mean)
        assert_allclose(first[a], sums, rtol=1e-12, atol=1e-13)
        assert_allclose(second[a], products, rtol=1e-12, atol=1e-12)


@each_form
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_statistics_of_runs_are_those_of_each_alone(form, share, way):
    model, (rows, answers) = some_normals(form), rows_and_answers(200, share=share)
    offsets = np.array([0, 0, 1, 1, 40, 57, 200, 200])
    together = model.statistics(rows, answers, offsets)
    for r, (begin, end) in enumerate(pairwise(offsets)):
        part = rows[begin:end], answers[begin:end]
        alone = model.statistics(*part, np.array([0, end - begin]))
        single = model.statistics(*part, np.arange(end - begin + 1))
        for whole, one, each in zip(together, alone, single, strict=True):
            assert_allclose(whole[r], one[0], rtol=1e-12, atol=1e-13)
            assert_allclose(whole[r], each.sum(axis=0), rtol=1e-12, atol=1e-13)


@each_form
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_sums_are_statistics_that_are_not_whitened(form, share, way):
    model, (rows, answers) = some_normals(form), rows_and_answers(150, share=share)
    zeroth, first, second = model.sums(rows, answers)
    whitened = model.statistics(rows, answers, np.array([0, len(rows)]))
    L = model._scales()
    assert_allclose(zeroth, whitened[0][0], rtol=1e-13)
    if form in ("diag", "spherical"):
        assert_allclose(first, L * whitened[1][0], rtol=1e-12, atol=1e-12)
        assert_allclose(second, L**2 * whitened[2][0], rtol=1e-12)
        return
    assert_allclose(first, np.einsum("kij,kj->ki", L, whitened[1][0]),
                    rtol=1e-11, atol=1e-11)  # fmt: skip
    assert_allclose(second, L @ whitened[2][0] @ L.swapaxes(1, 2),
                    rtol=1e-11, atol=1e-11)  # fmt: skip


def test_posteriors_are_shares_and_their_sum(rng):
    logs = np.vstack([rng.normal(0, 400, size=(50, 4)), [-1e5, -2e5, -1e5, -np.inf]])
    totals, shares = posteriors(logs.copy())
    assert_allclose(totals, [naive.log_sum(row) for row in logs], rtol=1e-14)
    assert_allclose(np.log(np.maximum(shares, 1e-300)),
                    np.maximum(logs - totals[:, None], np.log(1e-300)),
                    rtol=1e-12, atol=1e-12)  # fmt: skip
    assert_allclose(shares.sum(axis=1), 1, rtol=1e-14)
    nothing, undefined = posteriors(np.full((1, 2), -np.inf))
    assert np.isneginf(nothing).all() and np.isnan(undefined).all()


# Laws


@each_form
def test_where_the_points_are_does_not_matter(form, way):
    # Numbers on a grid of 2⁻²⁰ and a shift of 2²⁰: every difference x - μ is exact.
    model, (rows, answers) = some_normals(form), rows_and_answers(150)
    means, rows = (np.round(2**20 * a) / 2**20 for a in (model.means, rows))
    near = Normals(form, means, model.covariances)
    far = Normals(form, means + 2.0**20, model.covariances)
    assert_array_equal(far.log_densities(rows + 2**20), near.log_densities(rows))
    for there, here in zip(far.sums(rows + 2**20, answers),
                           near.sums(rows, answers), strict=True):  # fmt: skip
        assert_array_equal(there, here)


@each_form
def test_a_fit_to_shifted_points_is_shifted(rng, form):
    X = np.round(
        2**10 * rng.normal(size=(300, 3)) + 2**12 * rng.integers(0, 3, (300, 1))
    )
    model = GaussianMixture(3, form, tol=1e-9)
    here, there = model.fit(X / 2**10), model.fit(X / 2**10 + 2**30)
    assert_allclose(there.report.path, here.report.path, rtol=1e-6)
    assert_allclose(np.asarray(there.means) - 2**30, here.means, atol=1e-5)
    assert_allclose(there.covariances, here.covariances, rtol=1e-5, atol=1e-5)


@each_form
def test_results_do_not_depend_on_the_number_of_threads(form):
    rows, _ = rows_and_answers(9000)
    before, fitted = threads(), []
    try:
        for count in (1, 3):
            set_threads(count)
            model = GaussianMixture(3, form, max_iter=5).fit(rows)
            fitted.append((model, model.log_likelihood(rows), model.score(rows[:500])))
    finally:
        set_threads(before)
    assert fitted[0][0] == fitted[1][0]
    assert fitted[0][0].report == fitted[1][0].report
    assert_array_equal(fitted[0][1], fitted[1][1])
    assert_array_equal(fitted[0][2], fitted[1][2])


@each_form
def test_a_fit_is_the_same_in_blocks_and_by_another_way(form, way, monkeypatch):
    rows, _ = rows_and_answers(700, share=0.02)
    start = GaussianMixture(3, form, max_iter=0).fit(rows)
    known = start.weights, start.means, start.covariances
    model = GaussianMixture(3, form, *known, tol=0, max_iter=8)
    whole = model.fit(rows)
    monkeypatch.setattr("mercer.densities.gaussian.BLOCK", 300)
    monkeypatch.setattr(normals, "NARROW", 64)
    parts = model.fit(rows)
    assert_allclose(parts.report.path, whole.report.path, rtol=1e-11)
    assert_allclose(parts.theta, whole.theta, rtol=1e-8, atol=1e-9)


# Where EM begins


@pytest.mark.parametrize("weighted", [False, True])
def test_the_first_centres_are_spread_out(rng, weighted, monkeypatch):
    rows = rng.normal(size=(40, 2))
    weight = rng.uniform(0.1, 2, 40) if weighted else np.ones(40)
    scaled = rows / np.sqrt(np.average(rows**2, axis=0, weights=weight))
    draws = np.random.default_rng(5)
    exact = naive.spread_out(scaled.tolist(), 6, weight.tolist(),
                             lambda w: base._drawn(np.asarray(w), draws))  # fmt: skip
    found, drawn = [], base._drawn

    def drawn_and_kept(weight, rng):
        found.append(drawn(weight, rng))
        return found[-1]

    monkeypatch.setattr(base, "_drawn", drawn_and_kept)
    base.first_labels(rows, 6, np.random.default_rng(5), weight)
    assert found == exact and len(set(found)) == 6
