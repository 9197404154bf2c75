"""Explicit feature maps: their coordinates, and that they give the kernel."""

import math
import tracemalloc

import catalog
import naive
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose

from mercer.kernels.explicit import GaussianSeries
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear, Polynomial
from mercer.native import memory

few = settings(max_examples=25, deadline=None)

degrees = st.integers(0, 4)
scales = st.sampled_from([0.25, 1, 2.0])
offsets = st.sampled_from([0, 0.5, 1, 3.0])


@given(degrees, scales, offsets, strategies.matrix_pairs(exponents=(-1, 0)))
@few
def test_polynomial_features_give_the_kernel(degree, scale, offset, pair):
    X, Y = pair
    kernel = Polynomial(degree, scale, offset)
    for features in (kernel.features, kernel.ordered_features):
        K = features(X) @ features(Y).T
        size = np.sqrt(np.multiply.outer(kernel.diag(X), kernel.diag(Y))).max(initial=1)
        assert_allclose(K, kernel(X, Y), rtol=1e-12, atol=1e-13 * size)


@looped("offset", [0, 1])
@looped("degree", [1, 2, 3, 5])
@looped("d", [1, 2, 4])
def test_there_are_as_many_features_as_monomials(d, degree, offset):
    X = catalog.vectors(0, 2)[:, [0, 1, 2, 0][:d]]
    kernel = Polynomial(degree, offset=offset)
    count = (
        math.comb(d + degree, degree) if offset else math.comb(d + degree - 1, degree)
    )
    assert kernel.features(X).shape == (2, count)
    assert len(set(kernel.feature_names(X))) == count
    if not offset:
        assert kernel.ordered_features(X).shape == (2, d**degree)


def test_the_quadratic_map_of_the_plane():
    kernel = Polynomial(2)
    X = np.array([[2.0, 3.0]])
    assert kernel.feature_names(X) == ["1", "x0", "x1", "x0^2", "x0*x1", "x1^2"]
    root = math.sqrt(2)
    expected = [[1, 2 * root, 3 * root, 4, 6 * root, 9]]
    assert_allclose(kernel.features(X), expected, rtol=1e-15)


def test_the_ordered_quadratic_map_of_space_has_13_coordinates():
    c, x = 0.7, np.array([[2.0, 3.0, 5.0]])
    kernel = Polynomial(2, offset=c)
    expected = [
        c,
        *(math.sqrt(2 * c) * x[0]),
        *(a * b for a in x[0] for b in x[0]),
    ]
    assert_allclose(kernel.ordered_features(x), [expected], rtol=1e-15)
    names = kernel.ordered_feature_names(x)
    assert len(names) == 13
    assert names[:6] == ["1", "x0", "x1", "x2", "x0*x0", "x0*x1"]
    assert {"x0*x1", "x1*x0"} < set(names)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_features_are_named_after_columns(make):
    frame = make({"age": [1.0, 2.0], "height": [3.0, 4.0]})
    names = Polynomial(2, offset=0).feature_names(frame)
    assert names == ["age^2", "age*height", "height^2"]
    assert Linear().feature_names(frame) == ["age", "height"]
    assert RBF(1.0).series(1).feature_names(frame) == ["1", "age", "height"]


def test_names_and_columns_correspond():
    X = catalog.vectors(0)
    kernel = Polynomial(3, 0.5, 2.0)
    Phi, names = kernel.features(X), kernel.feature_names(X)
    values = {f"x{j}": X[:, j] for j in range(3)}
    for column, name in zip(Phi.T, names, strict=True):
        monomial = eval(name.replace("^", "**"), values) * np.ones(len(X))
        ratio = column / monomial
        assert_allclose(ratio, ratio[0], rtol=1e-10)


def test_linear_features_are_the_points():
    X = catalog.vectors(0)
    assert Linear().features(X) is X


@looped(
    "features", [Polynomial(3).features, Polynomial(2).ordered_features,
                 GaussianSeries(0.5, 3).features, Linear().features]
)  # fmt: skip
@looped("dtype", [np.float32, np.float64])
def test_features_of_sparse_points_are_sparse_and_keep_their_type(features, dtype):
    X = catalog.vectors(0).astype(dtype)
    X[np.abs(X) < 0.7] = 0
    X[2] = 0
    Phi = features(sp.csr_array(X))
    assert sp.issparse(Phi) and Phi.format == "csr"
    assert Phi.dtype == dtype
    assert features(X).dtype == dtype
    assert_allclose(Phi.toarray(), features(X), rtol=1e-6)


def test_too_many_features_are_refused_with_their_number():
    X = np.ones((2, 100))
    columns = f"{math.comb(110, 10):,} columns"
    with pytest.raises(ValueError, match=columns):
        Polynomial(10).features(X)
    with pytest.raises(ValueError, match=columns):
        Polynomial(10).feature_names(X)
    with pytest.raises(ValueError, match=f"{100**10:,} columns"):
        Polynomial(10, offset=0).ordered_features(X)
    with pytest.raises(ValueError, match=r"GaussianSeries.* columns"):
        GaussianSeries(1.0, 10).features(X)
    with pytest.raises(ValueError, match=r"5,151 columns .* each of 1,000,000 points"):
        Polynomial(2).features(np.broadcast_to(1.0, (1_000_000, 100)))


# The series of the Gaussian


@given(st.integers(0, 8), st.sampled_from([0.1, 0.5, 2.0]), strategies.matrix_pairs())
@few
def test_the_series_is_within_its_error_bound(degree, gamma, pair):
    X, Y = pair
    kernel = RBF(gamma)
    series = kernel.series(degree)
    with np.errstate(over="ignore"):
        error = np.abs(series(X, Y) - kernel(X, Y))
        bound = series.error_bound(X, Y)
    assert (error <= bound * (1 + 1e-9) + 1e-12).all()


def test_the_error_bound_is_attained_up_to_a_factor_on_a_line():
    X = np.array([[0.3]])
    for degree in range(5):
        series = RBF(0.5).series(degree)
        error = RBF(0.5)(X) - series(X)
        assert 0.8 * series.error_bound(X) < error < series.error_bound(X)


@pytest.mark.parametrize("degree", [0, 1, 3])
def test_the_series_equals_its_definition(degree):
    X, Y = catalog.vectors(0), catalog.vectors(1, 5)
    k = naive.gaussian_series(0.4, degree)
    expected = naive.gram(k, X.tolist(), Y.tolist())
    assert_allclose(GaussianSeries(0.4, degree)(X, Y), expected, rtol=1e-10, atol=1e-15)


def test_the_series_of_numbers_has_the_printed_features():
    sigma, x = 1.3, np.array([[-0.7], [0.0], [2.1]])
    expected = [
        [
            math.exp(-(t**2) / (2 * sigma**2)) * t**k
            / (sigma**k * math.sqrt(math.factorial(k)))
            for k in range(7)
        ]
        for t in x[:, 0]
    ]  # fmt: skip
    features = RBF.from_sigma(sigma).series(6).features(x)
    assert_allclose(features, expected, rtol=1e-12)


def test_a_long_series_is_the_gaussian():
    X, Y = catalog.vectors(0), catalog.vectors(1, 5)
    series = RBF(0.2).series(25)
    assert series.error_bound(X, Y).max() < 1e-9
    assert_allclose(series(X, Y), RBF(0.2)(X, Y), atol=1e-9)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_distant_points_have_small_features_not_nan(make):
    X = make(np.array([[1e200, 1.0], [0.0, 0.0], [3.0, 4.0]]))
    features = RBF(0.5).series(3).features(X)
    features = features.toarray() if sp.issparse(features) else features
    assert np.isfinite(features).all()
    assert_allclose(features[0], 0)
    assert_allclose(features[1], [1, *[0] * (features.shape[1] - 1)])


def test_the_series_needs_a_scale():
    with pytest.raises(ValueError, match="resolve"):
        RBF().series(3)
    with pytest.raises(ValueError, match="degree ≥ 0"):
        RBF(1.0).series(-1)


# Large degrees: time and memory follow the number of features


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("d, degree", [(1, 3000), (2, 200), (3, 100)])
def test_a_series_of_large_degree_is_the_gaussian(make, d, degree):
    X = 2 * np.random.default_rng(0).normal(size=(5, d))
    series = GaussianSeries(0.5, degree)
    Phi = series.features(make(X))
    assert Phi.shape[1] == len(series.feature_names(X)) == math.comb(d + degree, d)
    K = Phi @ Phi.T
    assert_allclose(K.toarray() if sp.issparse(K) else K, RBF(0.5)(X), atol=1e-11)


@pytest.mark.parametrize("d, degree", [(1, 3000), (2, 250), (3, 60)])
@pytest.mark.parametrize("offset", [0.0, 0.25])
def test_a_polynomial_of_large_degree_has_its_features(d, degree, offset):
    X = np.random.default_rng(0).normal(size=(5, d))
    X *= np.sqrt(1 - offset) / np.linalg.norm(X, axis=1, keepdims=True)
    kernel = Polynomial(degree, 1.0, offset)  # 1 on the diagonal
    Phi = kernel.features(X)
    assert Phi.shape[1] == len(kernel.feature_names(X))
    assert_allclose(Phi @ Phi.T, kernel(X), atol=1e-10)


def test_an_ordered_map_of_large_degree_on_a_line():
    x = np.array([[0.5], [-0.25]])
    kernel = Polynomial(2000, 1.0, 0.5)
    Phi = kernel.ordered_features(x)
    assert_allclose(Phi @ Phi.T, kernel(x), rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("kernel", [GaussianSeries(0.5, 150), Polynomial(150)])
def test_the_memory_of_a_map_follows_its_columns_not_its_degree(kernel):
    X = np.full((2, 3), 0.3)
    tracemalloc.start()
    size = kernel.features(X).nbytes
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * size  # lists of 150 factors for each column would take 75


def test_sparse_points_with_too_many_products_are_refused():
    X = sp.csr_array(np.ones((1500, 1200)))
    with pytest.raises(ValueError, match=r"1,500 points, 1,082,701,500 numbers"):
        Polynomial(2).features(X)


def test_a_map_larger_than_the_memory_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1e6)
    with pytest.raises(MemoryError, match="Pass fewer points at a time"):
        Polynomial(3).features(np.ones((1000, 10)))
