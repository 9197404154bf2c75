import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal

from mercer import (
    RBF,
    BlockFunction,
    Centered,
    Expansion,
    FeatureFunction,
    Linear,
    PairFunction,
    Polynomial,
)
from mercer.theory import (
    feature_angles,
    feature_cosines,
    feature_distances,
    feature_norms,
    mercer_expansion,
)

KERNELS = [RBF(0.5), Linear(), Polynomial(3), 2 * RBF(0.1) + Linear() ** 2]
MINIMUM = BlockFunction(lambda X, Y: np.minimum(X, Y.T), psd=True)


def points(n, seed=0, d=2):
    return np.random.default_rng(seed).normal(size=(n, d))


def square_map(X):
    """The features of (1 + ⟨x, y⟩)² in the plane."""
    x, y = X.T
    r = np.sqrt(2)
    return np.column_stack([np.ones(len(X)), r * x, r * y, x**2, y**2, r * x * y])


def test_geometry_is_that_of_the_explicit_features():
    X, Y = points(8), points(5, seed=1)
    U, V = square_map(X), square_map(Y)
    lengths = np.linalg.norm(U, axis=1)
    distances = np.linalg.norm(U[:, None] - V, axis=2)
    cosines = U @ V.T / np.outer(lengths, np.linalg.norm(V, axis=1))
    for kernel in (Polynomial(2), FeatureFunction(square_map)):
        assert_allclose(feature_norms(kernel, X), lengths, rtol=1e-12)
        assert_allclose(feature_distances(kernel, X, Y), distances, rtol=1e-10)
        assert_allclose(feature_cosines(kernel, X, Y), cosines, atol=1e-14)
        assert_allclose(feature_angles(kernel, X, Y), np.arccos(cosines), rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_cauchy_schwarz_and_the_triangle_inequality_hold(kernel, seed):
    X = points(6, seed)
    norms, D = feature_norms(kernel, X), feature_distances(kernel, X)
    slack = 1e-10 * norms.max()
    assert (np.abs(kernel(X)) <= np.outer(norms, norms) * (1 + 1e-12)).all()
    assert (D[:, None, :] <= D[:, :, None] + D[None, :, :] + slack).all()
    # The law of cosines ties all four together.
    law = (
        norms[:, None] ** 2
        + norms**2
        - 2 * np.outer(norms, norms) * (feature_cosines(kernel, X))
    )
    assert_allclose(D**2, law, atol=1e-10 * norms.max() ** 2)


@looped("kernel", KERNELS, ids=repr)
def test_a_point_is_at_distance_and_angle_zero_from_itself(kernel):
    X = points(6)
    assert_array_equal(np.diag(feature_distances(kernel, X)), np.zeros(6))
    assert_array_equal(np.diag(feature_angles(kernel, X)), np.zeros(6))
    twins = feature_angles(kernel, X, X.copy())
    assert_allclose(np.diag(twins), np.zeros(6), atol=1e-7)


def test_angles_reach_from_zero_to_pi():
    X = np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0], [0.1, 0.1]])
    expected = np.array([0, np.pi / 2, np.pi, np.pi / 4])
    assert_allclose(feature_angles(Linear(), X)[0], expected, atol=1e-7)


@given(st.integers(0, 10_000), st.floats(0, 2 * np.pi))
@settings(max_examples=20, deadline=None)
def test_polynomial_kernels_do_not_see_orthogonal_maps(seed, turn):
    X = points(6, seed)
    c, s = np.cos(turn), np.sin(turn)
    for Q in (np.array([[c, -s], [s, c]]), np.array([[c, s], [s, -c]])):
        for kernel in (Linear(), Polynomial(2), Polynomial(3, offset=0)):
            scale = feature_norms(kernel, X).max()
            assert_allclose(
                feature_norms(kernel, X @ Q), feature_norms(kernel, X), rtol=1e-9
            )
            assert_allclose(
                feature_distances(kernel, X @ Q) ** 2,
                feature_distances(kernel, X) ** 2,
                atol=1e-12 * scale**2,
            )
            assert_allclose(
                feature_cosines(kernel, X @ Q), feature_cosines(kernel, X), atol=1e-11
            )


@given(st.integers(0, 10_000), st.floats(-10, 10))
@settings(max_examples=20, deadline=None)
def test_the_gaussian_does_not_see_translations_and_keeps_angles_acute(seed, step):
    X, kernel = points(6, seed), RBF(0.5)
    assert_allclose(
        feature_distances(kernel, X + step) ** 2,
        feature_distances(kernel, X) ** 2,
        atol=1e-11,
    )
    angles = feature_angles(kernel, 3 * X)
    assert (angles >= 0).all()
    assert (angles <= np.pi / 2).all()
    assert_array_equal(feature_norms(kernel, X), np.ones(6))


def test_the_gaussian_has_full_rank_on_distinct_points():
    X = np.array([[0.0], [0.5], [1.0], [2.0], [-3.0], [10.0]])
    assert np.linalg.matrix_rank(RBF(1.0)(X)) == 6
    assert np.linalg.matrix_rank(RBF(1.0)(X[[0, 1, 1, 2]])) == 3


def test_points_and_the_expansions_they_are_have_the_same_geometry():
    X, kernel = points(4), Polynomial(2)
    at = [Expansion(kernel, X[[i]], [1.0]) for i in range(4)]
    for i in range(4):
        assert_allclose(feature_norms(kernel, X)[i], at[i].norm(), rtol=1e-12)
        for j in set(range(4)) - {i}:
            assert_allclose(
                feature_distances(kernel, X)[i, j], at[i].distance(at[j]), rtol=1e-9
            )
            assert_allclose(
                feature_angles(kernel, X)[i, j], at[i].angle(at[j]), rtol=1e-9
            )


def test_a_point_mapped_to_zero_is_alike_to_its_kind_only():
    X = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 2.0]])
    assert_array_equal(feature_cosines(Linear(), X), [[1, 1, 0], [1, 1, 0], [0, 0, 1]])


def test_strings_have_a_geometry_too():
    letters = PairFunction(lambda s, t: len(set(s) & set(t)), psd=True)
    words = ["gram", "gap"]
    assert_allclose(feature_norms(letters, words), np.sqrt([4, 3]), rtol=1e-15)
    assert_allclose(feature_distances(letters, words)[0, 1], np.sqrt(3), rtol=1e-15)
    assert_allclose(feature_cosines(letters, words)[0, 1], 2 / np.sqrt(12), rtol=1e-15)


def test_norms_of_centred_points_survive_rounding():
    kernel = Centered(RBF(0.5), np.ones((3, 2)) / 3)
    norms = feature_norms(kernel, np.ones((3, 2)) / 3)
    assert_allclose(norms, np.zeros(3), atol=1e-7)


def test_an_indefinite_function_has_no_geometry():
    negative = BlockFunction(lambda X, Y: -X @ Y.T)
    wrong = BlockFunction(lambda X, Y: np.exp(-X @ Y.T))
    X = np.array([[1.0], [-1.0]])
    with pytest.raises(ValueError, match=r"k\(x, x\) is -1 at point 0"):
        feature_norms(negative, X)
    for function in (feature_cosines, feature_angles, feature_distances):
        with pytest.raises(ValueError, match="Cauchy and Schwarz"):
            function(wrong, X)


# Mercer's expansion


@pytest.fixture(scope="module")
def brownian():
    """min(x, z) on [0, 1]; the kink costs accuracy, 800 nodes give 1e-4."""
    return mercer_expansion(MINIMUM, n_components=8, n_nodes=800)


def test_minimum_has_the_eigenvalues_of_the_vibrating_string(brownian):
    j = np.arange(1, 6)
    exact = 1 / ((j - 0.5) * np.pi) ** 2
    assert_allclose(brownian.eigenvalues[:5], exact, rtol=1e-4)
    assert (np.diff(brownian.eigenvalues) < 0).all()


def test_minimum_has_the_eigenfunctions_of_the_vibrating_string(brownian):
    x, j = np.linspace(0, 1, 200), np.arange(1, 6)
    exact = np.sqrt(2) * np.sin((j - 0.5) * np.pi * x[:, None])
    # Signs agree: every sine starts out positive.
    assert_allclose(brownian.eigenfunctions(x)[:, :5], exact, atol=5e-4)
    assert_array_equal(brownian.eigenfunctions(x[:, None]), brownian.eigenfunctions(x))


def test_eigenfunctions_are_orthonormal_on_the_nodes(brownian):
    values = brownian.eigenfunctions(brownian.nodes)
    products = values.T @ (brownian.weights[:, None] * values)
    assert_allclose(products, np.eye(8), atol=1e-9)


def test_eigenfunctions_are_orthonormal_under_another_quadrature():
    expansion = mercer_expansion(RBF(2.0), -1, 2, n_components=6, n_nodes=60)
    x, w = np.polynomial.legendre.leggauss(90)
    values = expansion.eigenfunctions(0.5 + 1.5 * x)
    assert_allclose(values.T @ (1.5 * w[:, None] * values), np.eye(6), atol=1e-10)


def test_eigenfunctions_solve_the_integral_equation():
    expansion = mercer_expansion(RBF(2.0), -1, 2, n_components=6, n_nodes=60)
    x, w = np.polynomial.legendre.leggauss(90)
    z, at = (0.5 + 1.5 * x)[:, None], np.linspace(-1, 2, 7)[:, None]
    image = RBF(2.0)(at, z) @ (1.5 * w[:, None] * expansion.eigenfunctions(z))
    exact = expansion.eigenfunctions(at) * expansion.eigenvalues
    assert_allclose(image, exact, atol=1e-12)


def test_eigenvalues_sum_to_the_trace(brownian):
    assert_allclose(brownian.trace, 0.5, rtol=1e-12)
    assert brownian.eigenvalues.sum() < brownian.trace
    everything = mercer_expansion(MINIMUM, n_components=100, n_nodes=100)
    assert_allclose(everything.eigenvalues.sum(), everything.trace, rtol=1e-12)


def test_the_error_falls_with_every_term_kept():
    errors = [
        mercer_expansion(MINIMUM, n_components=p).sup_error(101) for p in (1, 2, 4, 8)
    ]
    assert (np.diff(errors) < 0).all()
    # What is left out is at most Σ λⱼ max φⱼ² = 2 (trace - Σ λⱼ), over the first eight.
    left_out = 0.5 - (1 / (np.pi * (np.arange(8) + 0.5)) ** 2).sum()
    assert errors[-1] < 2 * left_out * 1.01


def test_the_error_is_that_of_the_reconstruction(brownian):
    x = np.linspace(0, 1, 31)[:, None]
    by_hand = np.abs(MINIMUM(x) - brownian.reconstruct(x)).max()
    assert_allclose(brownian.sup_error(31), by_hand, rtol=1e-12)
    assert brownian.reconstruct(x, x[:4]).shape == (31, 4)
    assert_allclose(
        brownian.reconstruct(x, x[:4]), brownian.reconstruct(x)[:, :4], atol=1e-14
    )


def test_a_smooth_kernel_is_reached_to_ten_digits():
    expansion = mercer_expansion(RBF(1.0), -1, 1, n_components=13, n_nodes=40)
    assert expansion.sup_error(201) < 1e-10


def test_a_kernel_of_finite_rank_has_no_more_terms_than_that():
    expansion = mercer_expansion(Polynomial(2), n_components=10, n_nodes=20)
    assert len(expansion.eigenvalues) == 3
    assert expansion.sup_error(51) < 1e-12
    assert_allclose(expansion.eigenvalues.sum(), expansion.trace, rtol=1e-12)
    # ∫ (1 + x²)² dx over [0, 1]
    assert_allclose(expansion.trace, 1 + 2 / 3 + 1 / 5, rtol=1e-12)


def test_a_product_kernel_on_a_box_has_products_for_eigenvalues():
    line = mercer_expansion(RBF(1.0), 0, 1, n_components=6, n_nodes=16)
    plane = mercer_expansion(RBF(1.0), [0, 0], [1, 1], n_components=4, n_nodes=16)
    products = np.sort(np.outer(line.eigenvalues, line.eigenvalues).ravel())[::-1]
    assert_allclose(plane.eigenvalues, products[:4], rtol=1e-10)
    assert plane.eigenfunctions(np.random.default_rng(0).random((5, 2))).shape == (5, 4)
    more = mercer_expansion(RBF(1.0), [0, 0], 1, n_components=40, n_nodes=16)
    assert more.sup_error(20) < 1e-7


def test_signs_do_not_depend_on_the_nodes():
    x = np.linspace(0, 1, 50)
    coarse, fine = (
        mercer_expansion(RBF(2.0), n_components=6, n_nodes=n).eigenfunctions(x)
        for n in (30, 47)
    )
    assert_allclose(coarse, fine, atol=1e-8)


def test_an_indefinite_kernel_has_no_mercer_expansion():
    wrong = BlockFunction(lambda X, Y: np.exp(-X @ Y.T))
    with pytest.raises(ValueError, match="Mercer's theorem needs"):
        mercer_expansion(wrong, -1, 1, n_nodes=20)


@looped(
    "options, message",
    [
        (dict(low=[0, 0], high=1), r"40,000 nodes.*n_nodes=63 or fewer"),
        (dict(low=1, high=1), "low < high"),
        (dict(low=0, high=np.inf), "finite"),
        (dict(n_components=0), "1 ≤ n_components"),
        (dict(n_components=30, n_nodes=20), "≤ 20"),
        (dict(n_nodes=0), "n_nodes ≥ 1"),
    ],
)
def test_boxes_and_grids_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        mercer_expansion(RBF(1.0), **options)


def test_points_of_another_dimension_are_refused(brownian):
    with pytest.raises(ValueError, match=r"\(n, 1\) array. Got shape \(4, 2\)"):
        brownian.eigenfunctions(np.ones((4, 2)))


def test_repr_names_kernel_box_and_share():
    text = repr(mercer_expansion(Polynomial(1), [0, -1], [1, 1], n_nodes=5))
    assert "on [0, 1] × [-1, 1]: 3 eigenvalues, 100.0000% of the trace" in text
