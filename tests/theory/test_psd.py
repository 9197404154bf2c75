import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal

import mercer.gram
from mercer import (
    RBF,
    BlockFunction,
    Exponential,
    Gram,
    Linear,
    PairFunction,
    Polynomial,
    Precomputed,
    check,
    repair,
)
from mercer.native import memory
from mercer.theory import empirical_features

EPS = np.finfo(float).eps
ONE_AND_MINUS_ONE = np.array([[1.0], [-1.0]])
NEGATIVE_EXPONENTIAL = BlockFunction(lambda X, Y: np.exp(-X @ Y.T))


def points(n, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def symmetric(n, seed):
    A = np.random.default_rng(seed).normal(size=(n, n))
    return A + A.T


def test_exp_of_minus_the_inner_product_is_refuted_with_its_witness():
    verdict = check(NEGATIVE_EXPONENTIAL, ONE_AND_MINUS_ONE)
    assert not verdict
    assert verdict.psd is False
    assert_allclose(verdict.smallest, np.exp(-1) - np.e, rtol=1e-14)
    assert_allclose(verdict.largest, np.exp(-1) + np.e, rtol=1e-14)
    assert_allclose(verdict.tolerance, 2 * EPS * (np.exp(-1) + np.e), rtol=1e-14)
    c = verdict.witness
    assert_allclose(c, [np.sqrt(0.5), -np.sqrt(0.5)], rtol=1e-14)
    assert_allclose(c @ NEGATIVE_EXPONENTIAL(ONE_AND_MINUS_ONE) @ c, -2.3504, atol=1e-4)
    assert repr(verdict) == (
        "Not positive semidefinite: on these 2 points the smallest eigenvalue is "
        "-2.35, below -1.37e-15; c = (0.71, -0.71) gives cᵀKc = -2.35."
    )


@looped("kernel", [RBF(0.5), Linear(), Polynomial(3), Exponential(2.0)], ids=repr)
@looped("dtype", [np.float64, np.float32])
def test_kernels_pass(kernel, dtype):
    X = points(30).astype(dtype)
    verdict = check(kernel, X)
    assert verdict
    assert verdict.witness is None
    assert verdict.n == 30
    eigenvalues = np.linalg.eigvalsh(kernel(X).astype(float))
    scale = eigenvalues.max()
    assert_allclose(verdict.smallest, eigenvalues.min(), atol=1e-12 * scale)
    assert_allclose(verdict.tolerance, 30 * np.finfo(dtype).eps * scale, rtol=1e-9)


def test_a_pass_is_called_evidence_and_points_to_the_proof():
    assert "on these 30 points" in repr(check(RBF(0.5), points(30)))
    for verdict in (check(RBF(0.5), points(30)), check(np.eye(3))):
        assert "This is evidence, not a proof; " in repr(verdict)
        assert "k.proof()" in repr(verdict)
    unknown = BlockFunction(lambda X, Y: X @ Y.T)
    assert check(unknown, points(5))
    assert unknown.psd is None
    assert "what is known" in repr(check(unknown, points(5)))


@given(st.integers(0, 10_000), st.integers(1, 8))
@settings(max_examples=25, deadline=None)
def test_every_refusal_has_a_witness_and_every_pass_has_none(seed, n):
    K = symmetric(n, seed) + np.diag(np.random.default_rng(seed).uniform(0, 4, n))
    verdict = check(K)
    assert verdict.psd == (np.linalg.eigvalsh(K).min() >= -verdict.tolerance)
    if verdict:
        assert verdict.witness is None
    else:
        c = verdict.witness
        assert_allclose(np.linalg.norm(c), 1, rtol=1e-12)
        assert c @ K @ c < 0
        assert_allclose(c @ K @ c, verdict.smallest, atol=1e-12 * verdict.largest)


def test_an_asymmetric_matrix_fails_and_says_where():
    K = np.eye(4)
    K[3, 1] = 0.25
    verdict = check(K)
    assert not verdict
    assert verdict.witness is None
    assert verdict.asymmetry == 0.25
    assert verdict.where == (1, 3)
    assert "K[1, 3] and K[3, 1] differ by 0.25" in repr(verdict)


def test_rounding_is_not_asymmetry():
    K = RBF(0.5)(points(20))
    K[3, 1] *= 1 + EPS
    assert check(K)


def test_both_faults_are_told():
    verdict = check(np.array([[-1.0, 3.0], [0.0, -1.0]]))
    assert "not symmetric" in repr(verdict)
    assert "smallest eigenvalue is -2.5" in repr(verdict)


def test_an_asymmetric_function_of_pairs_does_not_hide_behind_its_mirror():
    lopsided = PairFunction(lambda x, y: float(x @ y + x[0]))
    assert_array_equal(lopsided(points(4)), lopsided(points(4)).T)
    assert "not symmetric" in repr(check(lopsided, points(4)))
    assert not check(Gram(lopsided, points(4)))


def test_a_gram_a_sparse_matrix_and_integers_are_checked_alike():
    X = points(6)
    assert check(Gram(Linear(), X)).smallest == check(Linear(), X).smallest
    assert check(Gram(NEGATIVE_EXPONENTIAL, ONE_AND_MINUS_ONE)).witness is not None
    assert check(sp.eye_array(3))
    assert check(np.array([[2, 1], [1, 2]])).smallest == pytest.approx(1)
    assert check(Precomputed(np.eye(3)), [0, 1, 2])
    assert check([[0.0]])


def test_a_large_witness_is_not_spelled_out():
    assert "`witness`" in repr(check(-np.eye(50)))


@pytest.mark.parametrize("function", [check, repair, empirical_features])
def test_what_is_no_gram_matrix_is_refused(function):
    with pytest.raises(ValueError, match=r"square.*\(2, 3\)"):
        function(np.ones((2, 3)))
    with pytest.raises(ValueError, match="n ≥ 1"):
        function(np.ones((0, 0)))
    with pytest.raises(ValueError, match=r"K\[0, 1\] is nan"):
        function(np.array([[1.0, np.nan], [0.0, 1.0]]))
    with pytest.raises(ValueError, match=r"K\[1, 1\] is inf"):
        function(np.array([[1.0, 0.0], [0.0, np.inf]]))
    with pytest.raises(TypeError, match="real numbers"):
        function(np.eye(2) * 1j)


def test_check_takes_a_kernel_with_points_or_a_matrix_alone():
    with pytest.raises(TypeError, match=r"check\(kernel, points\)"):
        check(RBF(0.5))
    with pytest.raises(TypeError, match="a matrix alone"):
        check(np.eye(2), points(2))


@pytest.mark.parametrize("kernel", [RBF(0.5), NEGATIVE_EXPONENTIAL], ids=repr)
def test_a_matrix_that_does_not_fit_is_refused_before_it_is_made(kernel, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1000.0)
    monkeypatch.setattr(mercer.gram, "SMALL_BYTES", 0.0)
    with pytest.raises(MemoryError, match="GB"):
        check(kernel, points(30))


@pytest.mark.parametrize("how", ["clip", "flip", "shift"])
@given(seed=st.integers(0, 10_000), n=st.integers(1, 7))
@settings(max_examples=25, deadline=None)
def test_a_repaired_matrix_passes_and_names_what_was_done(how, seed, n):
    K = symmetric(n, seed)
    K[0, 0] = -abs(K[0, 0])
    mended = repair(K, how)
    assert check(mended.matrix)
    assert mended.how == how
    assert mended.needed
    assert f"Repaired by {how}" in repr(mended)
    assert_allclose(mended.smallest_before, np.linalg.eigvalsh(K)[0], rtol=1e-9)
    assert_allclose(mended.change, np.linalg.norm(mended.matrix - K), rtol=1e-12)
    again = repair(mended, how)
    assert_array_equal(again, mended.matrix)
    assert not again.needed


def test_repairs_have_their_closed_forms():
    # Eigenvalues 3 and -1, on (1, 1) and (1, -1).
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    assert_allclose(repair(K, "clip"), [[1.5, 1.5], [1.5, 1.5]], rtol=1e-14)
    assert_allclose(repair(K, "flip"), [[2.0, 1.0], [1.0, 2.0]], rtol=1e-14)
    assert_allclose(repair(K, "shift"), [[2.0, 2.0], [2.0, 2.0]], rtol=1e-14)
    assert_allclose(repair(K, "clip").change, 1, rtol=1e-14)
    assert_allclose(repair(K, "flip").change, 2, rtol=1e-14)
    assert_allclose(repair(K, "shift").change, np.sqrt(2), rtol=1e-14)


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_clip_is_the_nearest_of_positive_semidefinite_matrices(seed):
    K, B = symmetric(4, seed), symmetric(4, seed + 1)
    nearest = repair(K, "clip").change
    for other in (repair(K, "flip").matrix, repair(K, "shift").matrix, B @ B):
        assert nearest <= np.linalg.norm(other - K) * (1 + 1e-12)


def test_shift_keeps_what_is_off_the_diagonal():
    K = symmetric(5, 0)
    difference = repair(K, "shift").matrix - K
    assert_allclose(difference, difference[0, 0] * np.eye(5), atol=1e-14)


def test_an_asymmetric_matrix_is_symmetrised_first_and_it_says_so():
    K = np.array([[1.0, 4.0], [0.0, 1.0]])
    mended = repair(K, "clip")
    assert_allclose(mended, [[1.5, 1.5], [1.5, 1.5]], rtol=1e-14)
    assert mended.asymmetry == 4
    assert "asymmetric by 4 and was symmetrised first" in repr(mended)
    assert_allclose(mended.change, np.linalg.norm(mended.matrix - K), rtol=1e-14)


def test_nothing_is_changed_where_nothing_is_wrong():
    K = RBF(0.5)(points(20))
    mended = repair(K)
    assert_array_equal(mended.matrix, K)
    assert mended.change == 0
    assert not mended.needed
    assert "Nothing to repair" in repr(mended)


def test_an_unknown_repair_is_refused():
    with pytest.raises(ValueError, match='"clip", "flip" or "shift"; got \'mend\''):
        repair(np.eye(2), "mend")


@pytest.mark.parametrize("kernel", [RBF(0.5), Linear(), Polynomial(2)], ids=repr)
def test_empirical_features_reproduce_the_matrix(kernel):
    X = points(25)
    K = kernel(X)
    found = empirical_features(K)
    scale = np.linalg.norm(K, 2)
    assert_allclose(found.features @ found.features.T, K, atol=25 * EPS * scale)
    assert (np.diff(found.eigenvalues) <= 0).all()
    # Columns are orthogonal, with the eigenvalues as their squares.
    assert_allclose(
        found.features.T @ found.features,
        np.diag(found.eigenvalues),
        atol=25 * EPS * scale,
    )
    assert_allclose(found.transform(K), found.features, atol=np.sqrt(EPS * scale))


def test_features_have_as_many_columns_as_the_matrix_has_rank():
    X = points(25)
    assert empirical_features(Linear()(X)).features.shape == (25, 3)
    # 1, x, and the six products of two out of three coordinates.
    assert empirical_features(Polynomial(2)(X)).features.shape == (25, 10)
    assert empirical_features(np.zeros((3, 3))).features.shape == (3, 0)
    assert empirical_features(np.eye(3), tolerance=2).features.shape == (3, 0)


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2)], ids=repr)
def test_new_points_get_features_of_the_same_space(kernel):
    X, new = points(25), points(8, seed=1)
    found = empirical_features(Gram(kernel, X))
    mapped = found.transform(kernel(new, X))
    scale = np.abs(kernel(X)).max()
    assert_allclose(mapped @ found.features.T, kernel(new, X), atol=1e-12 * scale)
    # These kernels have finite dimension, spanned by X, so new pairs come out too.
    assert_allclose(mapped @ mapped.T, kernel(new), atol=1e-10 * scale)


def test_new_points_outside_the_span_are_projected():
    X, new = points(10), points(5, seed=1)
    found = empirical_features(RBF(0.5)(X))
    mapped = found.transform(RBF(0.5)(new, X))
    assert_allclose(mapped @ found.features.T, RBF(0.5)(new, X), atol=1e-12)
    assert (np.sum(mapped**2, axis=1) <= 1 + 1e-12).all()


def test_features_of_an_indefinite_matrix_are_refused_with_a_way_out():
    K = NEGATIVE_EXPONENTIAL(ONE_AND_MINUS_ONE)
    with pytest.raises(ValueError, match=r"eigenvalue is -2\.35.*repair"):
        empirical_features(K)
    assert empirical_features(repair(K)).features.shape == (2, 1)
    with pytest.raises(ValueError, match=r"not symmetric.*repair"):
        empirical_features(np.array([[1.0, 0.5], [0.0, 1.0]]))
    with pytest.raises(ValueError, match="tolerance ≥ 0"):
        empirical_features(np.eye(2), tolerance=-1)


def test_transform_says_which_block_it_needs():
    found = empirical_features(np.eye(4))
    with pytest.raises(ValueError, match=r"\(m, 4\) array.*\(4, 3\)"):
        found.transform(np.ones((4, 3)))


def test_results_are_arrays_where_arrays_are_wanted():
    K = symmetric(4, 0)
    assert_array_equal(np.asarray(repair(K)), repair(K).matrix)
    assert np.asarray(repair(K), dtype=np.float32).dtype == np.float32
    found = empirical_features(np.eye(4))
    assert_array_equal(np.asarray(found), found.features)
    assert repr(found) == "EmpiricalFeatures of 4 points in 4 dimensions"
