"""Vector kernels against their definitions, and what is true of each alone."""

import math
import re
from ast import literal_eval

import catalog
import mpmath
import naive
import numpy as np
import pytest
import scipy.sparse as sp
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise

from mercer.kernels.algebra import Centered, Normalized
from mercer.kernels.checks import unchecked
from mercer.kernels.coordinate import Anova, ChiSquared, Intersection, Spline
from mercer.kernels.dotproduct import DotProduct, Sigmoid
from mercer.kernels.operators import Constant
from mercer.kernels.radial import RBF, Laplacian, Matern, Radial, RationalQuadratic
from mercer.kernels.vector import (
    Bilinear,
    Exponential,
    Linear,
    Polynomial,
    PowerSeries,
    variance,
)

few = settings(max_examples=25, deadline=None)

OF_PRODUCTS = [
    (Linear(), naive.linear()),
    (Polynomial(3), naive.polynomial(3)),
    (Polynomial(2, 0.5, 0), naive.polynomial(2, 0.5, 0.0)),
    (Polynomial(4, 2, 3), naive.polynomial(4, 2.0, 3.0)),
    (Exponential(2.0), naive.exponential(2.0)),
    (PowerSeries([1.0, 0, 2.0, 0]), naive.power_series([1.0, 0, 2.0])),
    (DotProduct(np.exp), naive.dot_product(naive.exp)),
    (Sigmoid(0.5, -0.25), naive.sigmoid(0.5, -0.25)),
]
OF_DISTANCES = [
    (RBF(0.5), naive.rbf(0.5)),
    (Laplacian(0.25), naive.laplacian(0.25)),
    (Matern(0.5, 2.0), naive.matern_half_integer(0, 2.0)),
    (Matern(1.5, 2.0), naive.matern_half_integer(1, 2.0)),
    (Matern(2.5, 0.5), naive.matern_half_integer(2, 0.5)),
    (Matern(3.5, 2.0), naive.matern_half_integer(3, 2.0)),
    (Matern(8.5), naive.matern_half_integer(8)),
    (RationalQuadratic(1.5, 2.0), naive.rational_quadratic(1.5, 2.0)),
    (
        Anova(2, Laplacian(0.5), cumulative=True),
        naive.anova(2, lambda a, b: naive.exp(-0.5 * abs(a - b)), cumulative=True),
    ),
]
OF_MANY_PRODUCTS = [
    (Anova(1), naive.anova(1)),
    (Anova(2, cumulative=True), naive.anova(2, cumulative=True)),
    (Anova(3, cumulative=True), naive.anova(3, cumulative=True)),
    (Spline(), naive.spline()),
]
OF_HISTOGRAMS = [
    (ChiSquared(0.5), naive.chi_squared(0.5)),
    (Intersection(), naive.intersection()),
]
EVERY = OF_PRODUCTS + OF_DISTANCES + OF_MANY_PRODUCTS + OF_HISTOGRAMS


def named(pairs):
    return [pytest.param(kernel, k, id=repr(kernel)) for kernel, k in pairs]


def expected_matrix(k, X, Y):
    matrix = naive.gram(k, X.tolist(), Y.tolist())
    return np.array(matrix, dtype=float).reshape(len(X), len(Y))


def agrees(kernel, k, X, Y, as_given=lambda Z: Z):
    X_given, Y_given = as_given(X), as_given(Y)
    with np.errstate(all="ignore"):  # overflow is part of the question
        expected = expected_matrix(k, X, Y)
        with unchecked():
            actual = kernel(X_given, Y_given)
    assert_allclose(actual, expected, rtol=1e-11, atol=1e-300, err_msg=repr(kernel))
    if np.isfinite(actual).all():
        assert_array_equal(kernel(X_given, Y_given), actual)
    else:
        with pytest.raises(ValueError, match=r"finite numbers"):
            kernel(X_given, Y_given)


TINY, USUAL = strategies.TINY, strategies.USUAL


@pytest.mark.parametrize("kernel, k", named(OF_DISTANCES))
@given(pair=strategies.matrix_pairs())
@few
def test_kernels_of_distances_equal_their_definition(kernel, k, pair):
    agrees(kernel, k, *pair)


@pytest.mark.parametrize("kernel, k", named(OF_PRODUCTS))
@given(pair=strategies.matrix_pairs(exponents=(*TINY, *USUAL, 500)))
@few
def test_kernels_of_products_equal_their_definition(kernel, k, pair):
    agrees(kernel, k, *pair)


@pytest.mark.parametrize("kernel, k", named(OF_MANY_PRODUCTS))
@given(pair=strategies.matrix_pairs(exponents=(*TINY, *USUAL, 100)))
@few
def test_kernels_of_many_products_equal_their_definition(kernel, k, pair):
    agrees(kernel, k, *pair)


@pytest.mark.parametrize("kernel, k", named(OF_HISTOGRAMS + OF_PRODUCTS))
@given(pair=strategies.matrix_pairs(least=0))
@few
def test_kernels_of_histograms_equal_their_definition(kernel, k, pair):
    agrees(kernel, k, *pair)


@pytest.mark.parametrize("kernel, k", named(OF_PRODUCTS + OF_DISTANCES + OF_HISTOGRAMS))
@given(pair=strategies.matrix_pairs(least=0))
@few
def test_sparse_matrices_equal_the_definition(kernel, k, pair):
    agrees(kernel, k, *pair, as_given=sp.csr_array)


@pytest.mark.parametrize("kernel, k", named(OF_MANY_PRODUCTS))
@given(pair=strategies.matrix_pairs(exponents=(*TINY, *USUAL, 100)))
@few
def test_many_products_of_sparse_matrices_equal_the_definition(kernel, k, pair):
    agrees(kernel, k, *pair, as_given=sp.csr_array)


@pytest.mark.parametrize("kernel, k", named(OF_PRODUCTS + OF_DISTANCES))
@given(pair=strategies.spoilt_pairs())
@few
def test_nan_and_infinity_propagate_and_are_refused_at_the_end(kernel, k, pair):
    agrees(kernel, k, *pair)


@pytest.mark.parametrize("layout", strategies.LAYOUTS)
def test_layout_and_type_of_the_array_do_not_matter(layout):
    rng = np.random.default_rng(0)
    X, Y = (rng.integers(0, 4, size=(n, 3)).astype(float) for n in (4, 5))
    for kernel, k in EVERY:
        agrees(kernel, k, X, Y, as_given=strategies.LAYOUTS[layout])


def test_spline_overflows_to_infinity():
    with np.errstate(over="ignore"), unchecked():
        assert Spline().value(1e150, 1e150) == np.inf
    with pytest.raises(ValueError, match=r"Spline\(\) has values .* not finite"):
        Spline().value(1e150, 1e150)


@looped("value", [1j, "a", None, np.datetime64("2020-01-01")])
@looped("kernel", [Linear(), Matern(1.5), Anova(2), Spline()])
def test_what_is_not_a_number_is_refused(kernel, value):
    with pytest.raises(TypeError, match=type(kernel).__name__):
        kernel(np.array([[value, value]]))


@looped("kernel, k", named(EVERY))
def test_points_of_two_dimensions_are_refused(kernel, k):
    with pytest.raises(ValueError, match="X has 3 columns and Y has 5"):
        kernel(np.ones((2, 3)), np.ones((2, 5)))


@looped("kernel, k", named(EVERY))
def test_one_number_after_the_other_is_not_a_dataset(kernel, k):
    with pytest.raises(ValueError, match=r"\(n, d\) array; got an array of shape"):
        kernel(np.ones(3))


@looped("kernel", [Linear(), RBF(1.0), Laplacian(1.0), Anova(2)])
def test_kernels_of_the_core_offer_their_recipe_for_vectors(kernel):
    X = catalog.vectors(0)
    recipe = kernel.native(X)
    assert recipe is not None
    assert recipe == kernel.native(sp.csr_array(X)) == kernel.native(X.astype(int))
    assert kernel.native(["a", "b"]) is None
    assert kernel.native(X[0]) is None


def test_far_from_the_origin_distances_stay_exact():
    X = catalog.vectors(0, 30) + 1e7
    D = cdist(X, X)
    assert_allclose(RBF(0.5)(X), np.exp(-0.5 * D**2), rtol=1e-9, atol=1e-300)
    assert_allclose(Matern(0.5)(X, X.copy()), np.exp(-D), rtol=1e-9)


# Polynomials and power series


def test_special_polynomials_coincide():
    X, Y = catalog.vectors(0), catalog.vectors(1, 5)
    tight = dict(rtol=1e-12, atol=1e-13)
    assert_allclose(Polynomial(1, offset=0)(X, Y), Linear()(X, Y), **tight)
    assert_allclose(Polynomial(2)(X, Y), PowerSeries([1, 2, 1])(X, Y), **tight)
    assert_allclose(Anova(1)(X, Y), Linear()(X, Y), **tight)
    assert_allclose(Bilinear(np.eye(3))(X, Y), Linear()(X, Y), **tight)
    assert_allclose(Exponential(2.0)(X, Y), DotProduct(np.exp)(X / 2, Y), **tight)


def test_normalised_exponential_is_gaussian():
    X, Y = catalog.vectors(0), catalog.vectors(1, 5)
    gaussian = RBF(1 / (2 * 3.0))(X, Y)
    assert_allclose(Normalized(Exponential(3.0))(X, Y), gaussian, rtol=1e-12)


def test_polynomial_kernels_are_invariant_under_rotation():
    X, Y = catalog.vectors(0), catalog.vectors(1, 5)
    Q, _ = np.linalg.qr(catalog.vectors(2, 3))
    assert_allclose(Polynomial(3)(X @ Q, Y @ Q), Polynomial(3)(X, Y), rtol=1e-10)


def test_gaussian_kernels_are_invariant_under_translation():
    X, Y = catalog.vectors(0), catalog.vectors(1, 5)
    shift = np.array([10.0, -5.0, 3.0])
    assert_allclose(RBF(0.3)(X + shift, Y + shift), RBF(0.3)(X, Y), rtol=1e-12)


@looped(
    "make, words",
    [
        (lambda: Polynomial(-1), "degree ≥ 0; got degree=-1"),
        (lambda: Polynomial(1.5), "whole number degree"),
        (lambda: Polynomial(2, scale=0), "scale > 0"),
        (lambda: Polynomial(2, offset=-1), "offset ≥ 0"),
        (lambda: RBF(0), "gamma > 0; got gamma=0"),
        (lambda: RBF(math.nan), "gamma > 0"),
        (lambda: RBF.from_sigma(-1), "sigma > 0"),
        (lambda: RBF.from_width(0), "width > 0"),
        (lambda: Exponential(-1), "scale > 0"),
        (lambda: Exponential(5e-324), "1 / scale"),
        (lambda: Laplacian("big"), "gamma > 0; got gamma='big'"),
        (lambda: Matern(0), "nu > 0"),
        (lambda: Matern(1.5, -1), "length > 0"),
        (lambda: RationalQuadratic(alpha=0), "alpha > 0"),
        (lambda: PowerSeries([1, -2]), "the coefficient of power 1 is -2"),
        (lambda: PowerSeries([]), "list of coefficients"),
        (lambda: Anova(0), "order ≥ 1"),
        (lambda: Anova(1, []), "kernel for each coordinate"),
        (lambda: Sigmoid(1.0, math.inf), "finite offset"),
        (lambda: ChiSquared(-1), "gamma > 0"),
        (lambda: DotProduct(np.exp, 0), "t_max > 0"),
        (lambda: Radial(np.exp, "mahalanobis"), "got metric='mahalanobis'"),
    ],
)
def test_bad_parameters_are_refused_in_words(make, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        make()


@pytest.mark.parametrize("make", [lambda: DotProduct(2), lambda: Radial("exp")])
def test_a_function_is_a_function(make):
    with pytest.raises(TypeError, match="needs a function"):
        make()


def test_base_kernels_of_anova_are_kernels():
    with pytest.raises(TypeError, match=r"Write Linear\(\)"):
        Anova(2, Linear)


# Gaussian and other radial kernels


def test_three_ways_to_write_a_gaussian_agree():
    assert RBF.from_sigma(2.0) == RBF(1 / 8)
    assert RBF.from_width(0.1) == RBF(10.0)


@looped("make", [np.asarray, sp.csr_array, sp.csr_matrix])
@looped("dtype", [np.float64, np.float32, int])
def test_the_scale_is_learnt_from_the_variance(make, dtype):
    X = (10 * catalog.vectors(0)).round().astype(dtype)
    X[X < 0] = 0
    expected = 1 / (3 * X.astype(float).var())
    assert_allclose(RBF().resolve(make(X)).gamma, expected, rtol=1e-12)
    assert_allclose(Sigmoid().resolve(make(X)).gamma, expected, rtol=1e-12)
    assert_allclose(Polynomial(2, None).resolve(make(X)).scale, expected, rtol=1e-12)
    std = X.astype(float).std()
    assert_allclose(Laplacian().resolve(make(X)).gamma, 1 / (3 * std), rtol=1e-12)
    assert isinstance(RBF().resolve(make(X)).gamma, float)


def test_repeated_entries_of_a_sparse_matrix_count_once():
    X = sp.csr_array(([1.0, 2.0, 5.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    assert_allclose(variance(X), X.toarray().var(), rtol=1e-14)
    assert_allclose(Intersection()(X), Intersection()(X.toarray()), rtol=1e-14)


@pytest.mark.parametrize("X", [np.full((3, 2), 7.0), sp.csr_array((3, 2))])
def test_points_without_spread_get_the_scale_one(X):
    assert RBF().resolve(X).gamma == 1.0


@looped("entry", [1e200, 1e-161, math.nan, math.inf])
def test_a_scale_out_of_range_is_refused(entry):
    with pytest.raises(ValueError, match=r"RBF\(gamma=None\) learns gamma"):
        RBF().resolve(np.array([[entry], [0.0]]))


@pytest.mark.parametrize("shape", [(0, 2), (2, 0)])
def test_a_scale_cannot_be_learnt_from_nothing(shape):
    with pytest.raises(ValueError, match=r"RBF\(gamma=None\) learns gamma"):
        RBF().resolve(np.empty(shape))


@pytest.mark.parametrize("nu", [0.01, 0.3, 0.5, 0.7, 1, 1.5, 2.2, 2.5, 10, 59, 61, 500])
def test_matern_equals_its_bessel_function(nu):
    distances = np.array([1e-100, 1e-8, 1e-3, 0.05, 0.3, 1, 2.2, 5, 12])
    with mpmath.workdps(30):
        z = [mpmath.sqrt(2 * mpmath.mpf(nu)) * mpmath.mpf(float(r)) for r in distances]
        exact = [
            float(2 ** (1 - mpmath.mpf(nu)) / mpmath.gamma(nu) * t**nu
                  * mpmath.besselk(nu, t)) for t in z
        ]  # fmt: skip
    X = np.append(0, distances)[:, None]
    assert_allclose(Matern(nu)(X)[0], [1, *exact], rtol=1e-10, atol=1e-300)


def test_matern_of_high_order_is_right_where_its_bessel_function_overflows():
    nu, distances = 50.3, np.array([1e-7, 5e-7, 1e-6, 2e-6])
    with mpmath.workdps(60):
        z = [mpmath.sqrt(2 * mpmath.mpf(nu)) * mpmath.mpf(float(r)) for r in distances]
        dropped = [
            float(1 - 2 ** (1 - nu) / mpmath.gamma(nu) * t**nu * mpmath.besselk(nu, t))
            for t in z
        ]
    values = Matern(nu)([[0.0]], distances[:, None])[0]
    assert_allclose(1 - values, dropped, atol=3e-16)
    assert dropped[-1] > 1e-12  # enough to be seen


@looped("nu", [0.5, 1.3, 1.5, 2.5, 80.0, math.inf])
def test_matern_is_one_at_distance_zero_and_zero_at_infinity(nu):
    X = np.array([[0.0], [1e200]])
    assert_array_equal(Matern(nu)(X), np.eye(2))


def test_matern_tends_to_the_gaussian():
    X = catalog.vectors(0)
    assert_allclose(Matern(math.inf, 2.0)(X), RBF.from_sigma(2.0)(X), rtol=1e-12)
    assert_allclose(Matern(1e7)(X), RBF(0.5)(X), atol=1e-6)
    assert_allclose(RationalQuadratic(1e9)(X), RBF(0.5)(X), atol=1e-7)


@pytest.mark.parametrize(
    "metric, word",
    [(naive.absolute_distance, "cityblock"), (naive.square_distance, "sqeuclidean")],
)
def test_radial_takes_words_and_functions_for_its_metric(metric, word):
    X, Y = catalog.vectors(0), catalog.vectors(1, 5)
    expected = naive.gram(naive.radial(naive.exp, metric), X.tolist(), Y.tolist())
    for given_metric in (metric, word):
        kernel = Radial(np.exp, given_metric)
        assert_allclose(kernel(X, Y), expected, rtol=1e-12)
        assert_allclose(kernel(sp.csr_array(X), sp.csr_array(Y)), expected, rtol=1e-12)
    assert_allclose(Radial(np.exp)(X, Y), np.exp(cdist(X, Y)), rtol=1e-12)


def test_radial_says_when_its_function_is_not_elementwise():
    with pytest.raises(ValueError, match=r"number for each, shape \(7, 7\); .* \(\)"):
        Radial(np.sum)(catalog.vectors(0))
    with pytest.raises(ValueError, match=r"shape \(7, 7\); it returned shape \(\)"):
        DotProduct(np.sum)(catalog.vectors(0))


def test_nan_has_no_distance_even_from_itself():
    X = np.array([[np.nan, 1.0], [2.0, 3.0]])
    for word in ("euclidean", "chebyshev"):
        with unchecked():
            assert_array_equal(np.isnan(Radial(np.exp, word)(X)), [[1, 1], [1, 0]])
        with pytest.raises(ValueError, match=r"at point 0 one is missing"):
            Radial(np.exp, word)(X)


def test_tiles_make_up_the_whole(monkeypatch):
    X, Y = catalog.vectors(0), catalog.vectors(1, 5)
    kernels = (Spline(), Anova(2, RBF(0.3)), Radial(np.exp, "chebyshev"))
    whole = [(k(X), k(X, Y)) for k in kernels]
    monkeypatch.setattr("mercer.kernels.vector.TILE_MB", 6 * 8 / 2**20)
    for kernel, (square, oblong) in zip(kernels, whole, strict=True):
        assert_allclose(kernel(sp.csr_array(X)), square, rtol=1e-13)
        assert_allclose(kernel(X, Y), oblong, rtol=1e-13)


# ANOVA


@looped("order, exact", [*enumerate([10, 35, 50, 24], 1)])
def test_anova_sums_products_of_different_coordinates(order, exact):
    assert Anova(order).value(np.array([1.0, 2, 3, 4]), np.ones(4)) == exact
    assert naive.anova(order)([1.0, 2, 3, 4], [1.0] * 4) == exact


@pytest.mark.parametrize("order, exact", [*enumerate([32, 292, 720], 1)])
def test_anova_of_the_worked_example(order, exact):
    x, y = np.array([1.0, 2, 3]), np.array([4.0, 5, 6])
    assert Anova(order).value(x, y) == exact
    # The same by the recursion in numpy
    assert Anova(order, [Linear(), Linear(), Linear()]).value(x, y) == exact


@looped(
    "order, cumulative",
    [(1, False), (2, False), (3, False), (1, True), (2, True), (3, True), (7, True)],
)
def test_anova_with_a_kernel_for_each_coordinate_equals_its_definition(
    order, cumulative
):
    X, Y = catalog.vectors(0), catalog.vectors(1, 5)
    kernels = [RBF(0.3), Constant(2.0), Polynomial(2)]
    bases = [
        lambda a, b: math.exp(-0.3 * (a - b) ** 2),
        lambda a, b: 2.0,
        lambda a, b: (a * b + 1) ** 2,
    ]
    expected = naive.gram(naive.anova(order, bases, cumulative), X.tolist(), Y.tolist())
    kernel = Anova(order, kernels, cumulative)
    assert_allclose(kernel(X, Y), expected, rtol=1e-12)
    assert kernel.native(X) is None


def test_anova_of_infinite_products_is_their_limit():
    x, ones = np.array([np.inf, 5.0]), np.ones(2)
    with unchecked():
        assert Anova(2).value(x, ones) == np.inf
        assert Anova(5, cumulative=True).value(x, ones) == np.inf
    with pytest.raises(ValueError, match=r"Anova .* at point 0 one is inf"):
        Anova(2).value(x, ones)


def test_anova_learns_a_scale_for_each_coordinate():
    X = catalog.vectors(0) * [1, 10, 100]
    resolved = Anova(2, RBF()).resolve(X)
    expected = [RBF(1 / X[:, i].var()) for i in range(3)]
    assert_allclose([k.gamma for k in resolved.base], [k.gamma for k in expected])
    assert_allclose(resolved(X), Anova(2, expected)(X), rtol=1e-12)


def test_anova_needs_as_many_kernels_as_coordinates():
    with pytest.raises(ValueError, match=r"kernels for 2 coordinates; .* have 3"):
        Anova(2, [RBF(1.0), Linear()])(catalog.vectors(0))


# Histograms


@looped("make", [np.asarray, sp.csr_array])
@looped("kernel", [ChiSquared(), Intersection()])
def test_negative_histograms_are_refused(kernel, make):
    X = catalog.histograms(0, 9)
    X[7, 3] = -0.5
    words = (
        f"{type(kernel).__name__} compares histograms; point 7 has the negative entry "
        "-0.5 in column 3. Pass counts or shares."
    )
    for call in (kernel, kernel.diag, kernel.native, lambda Z: kernel(make(abs(X)), Z)):
        with pytest.raises(ValueError, match=re.escape(words)):
            call(make(X))
    with pytest.raises(ValueError, match=re.escape(words)):
        kernel.matmul(make(X), None, np.ones(9))


def test_chi_squared_agrees_with_scikit_learn():
    X, Y = catalog.histograms(0), catalog.histograms(1, 5)
    expected = pairwise.chi2_kernel(X, Y, gamma=0.3)
    assert_allclose(ChiSquared(0.3)(X, Y), expected, rtol=1e-12)


@looped(
    "ours, theirs, parameters",
    [
        (RBF(0.3), pairwise.rbf_kernel, {"gamma": 0.3}),
        (Laplacian(0.3), pairwise.laplacian_kernel, {"gamma": 0.3}),
        (Sigmoid(0.3, 1.0), pairwise.sigmoid_kernel, {"gamma": 0.3, "coef0": 1.0}),
        (Polynomial(3, 0.3, 2.0), pairwise.polynomial_kernel,
         {"degree": 3, "gamma": 0.3, "coef0": 2.0}),
    ],
)  # fmt: skip
def test_kernels_agree_with_scikit_learn(ours, theirs, parameters):
    X, Y = catalog.vectors(0), catalog.vectors(1, 5)
    assert_allclose(ours(X, Y), theirs(X, Y, **parameters), rtol=1e-11)


# Bilinear


def test_bilinear_equals_its_definition():
    X, Y = catalog.vectors(0), catalog.vectors(1, 5)
    A = catalog.METRIC
    expected = naive.gram(naive.bilinear(A.tolist()), X.tolist(), Y.tolist())
    assert_allclose(Bilinear(A)(X, Y), expected, rtol=1e-11)
    assert_allclose(Bilinear(A.tolist())(X, Y), expected, rtol=1e-11)


@looped(
    "A, words",
    [
        ([[1.0, 2.0], [2.0, 1.0]], "its smallest eigenvalue is -1"),
        ([[1.0, 2.0], [0.0, 1.0]], r"symmetric A; A\[0, 1\] = 2 and A\[1, 0\] = 0"),
        (np.ones((2, 3)), r"square matrix of numbers A; got shape \(2, 3\)"),
        ([[np.nan]], "finite matrix"),
    ],
)
def test_bilinear_refuses_what_is_no_inner_product(A, words):
    with pytest.raises(ValueError, match=words):
        Bilinear(A)


def test_bilinear_names_the_dimension_it_needs():
    with pytest.raises(ValueError, match="points with 3 columns; X has 2"):
        Bilinear(catalog.METRIC)(np.ones((4, 2)))


# Counterexamples


def shown_points(kernel):
    """The points of the counterexample in a kernel's proof."""
    return np.array(literal_eval(re.search(r"points (\[\[.*?\]\])", kernel.proof())[1]))


@looped("gamma", [1e-6, 0.3, 1.0, 50.0])
@looped("offset", [-2.0, -1e-3, 0.0, 1e-3, 0.5, 3.0, 40.0])
def test_sigmoid_is_indefinite_on_the_points_it_shows(gamma, offset):
    kernel = Sigmoid(gamma, offset)
    assert kernel.psd is False
    K = kernel(shown_points(kernel))
    assert np.linalg.eigvalsh(K)[0] < -1e-4 * np.abs(K).max()


def test_sigmoid_needs_no_scale_to_be_indefinite():
    assert Sigmoid().psd is False
    assert np.linalg.eigvalsh(Sigmoid(1.0)(shown_points(Sigmoid())))[0] < -0.1


@looped(
    "function", [catalog.falling_exponential, np.cos, np.sin, catalog.absolute_cube,
                 lambda t: t - 0.5, lambda t: np.minimum(t, 0.25)]
)  # fmt: skip
def test_functions_of_products_are_indefinite_on_the_points_they_show(function):
    kernel = DotProduct(function)
    assert kernel.psd is False
    points = shown_points(kernel)
    assert (np.linalg.norm(points, axis=1) <= 1).all()
    assert np.linalg.eigvalsh(kernel(points))[0] < 0


@looped("function", [np.exp, np.square, np.cosh, lambda t: 1 + t**3])
def test_valid_functions_of_products_stay_unproved(function):
    kernel = DotProduct(function, t_max=2.0)
    assert kernel.psd is None
    assert (
        "f ≥ 0, f′ ≥ 0 and f′ + t f″ ≥ 0 hold on a grid of [0, 2.0]" in kernel.proof()
    )
    assert "necessary, not sufficient" in kernel.proof()


def test_the_printed_exponential_has_the_printed_eigenvalue():
    K = DotProduct(catalog.falling_exponential)(np.array([[1.0], [-1.0]]))
    assert_allclose(np.linalg.eigvalsh(K)[0], -2.350402, atol=1e-6)


def test_spline_is_a_kernel_only_on_non_negative_points():
    assert Spline().psd is None
    assert "k(-4, -4) = -4.333 < 0" in Spline().proof()
    assert_allclose(Spline().value(-4.0, -4.0), -13 / 3, rtol=1e-14)
    K = Spline()(np.abs(catalog.vectors(0, 20)))
    assert np.linalg.eigvalsh(K)[0] > -1e-10 * np.trace(K)


# Closure rules


def test_closure_rules_equal_their_definitions():
    X, Y = catalog.vectors(0), catalog.vectors(1, 5)
    reference = catalog.vectors(2, 4)
    oracles = {
        Normalized: naive.normalized(naive.polynomial(2)),
        Centered: naive.centered(naive.polynomial(2), reference.tolist()),
    }
    ours = {
        Normalized: Normalized(Polynomial(2)),
        Centered: Centered(Polynomial(2), reference),
    }
    for rule, k in oracles.items():
        expected = naive.gram(k, X.tolist(), Y.tolist())
        assert_allclose(ours[rule](X, Y), expected, rtol=1e-11, atol=1e-12)


def test_alike_empty_points_are_alike_when_normalised():
    X = np.array([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]])
    assert_allclose(Normalized(Linear())(X), [[1, 0, 1], [0, 1, 0], [1, 0, 1]])
    expected = naive.gram(naive.normalized(naive.linear()), X.tolist())
    assert_allclose(Normalized(Linear())(X), expected)


@given(st.sampled_from([1, 2, 3]), strategies.whole_matrices(3, 2))
@few
def test_powers_of_linear_are_homogeneous_polynomials(p, X):
    assert_allclose((Linear() ** p)(X), Polynomial(p, offset=0)(X), rtol=1e-12)
