"""PairKernel, FeatureKernel and the kernels made of a user's function or matrix."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal

from mercer.kernels.algebra import On
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear
from mercer.kernels.ways import (
    BlockFunction,
    FeatureFunction,
    PairFunction,
    Precomputed,
    RankOne,
)

WORDS = ["apple", "pear", "", "plum", "peach"]


def shared_letters(s, t):
    return len(set(s) & set(t))


def letters(words):
    return np.array([[word.count(c) for c in "aelp"] for word in words], dtype=float)


# Pairs


def test_pair_function_fills_the_matrix_pair_by_pair():
    k = PairFunction(shared_letters)
    expected = [[shared_letters(s, t) for t in WORDS] for s in WORDS]
    assert_array_equal(k(WORDS), expected)
    assert_array_equal(k(WORDS, WORDS[1:3]), np.array(expected)[:, 1:3])
    assert_array_equal(k.diag(WORDS), np.diag(expected))
    assert k.value("apple", "pear") == 3.0
    assert k(WORDS).dtype == np.float64


def test_pair_function_asks_for_each_pair_once():
    calls = []
    PairFunction(lambda s, t: calls.append((s, t)) or 1.0)(WORDS)
    assert len(calls) == 15


def test_pair_function_is_symmetric_bit_for_bit(rng):
    K = PairFunction(lambda x, y: float(x @ y * 0.1 + 0.3))(rng.normal(size=(9, 4)))
    assert_array_equal(K, K.T)


@pytest.mark.parametrize("Y", [None, [], WORDS])
def test_pair_function_without_points_is_an_empty_matrix(Y):
    assert PairFunction(shared_letters)([], Y).shape == (0, len(Y or []))
    assert PairFunction(shared_letters)(WORDS, []).shape == (5, 0)


@pytest.mark.parametrize("library", [pd, pl])
def test_pair_function_sees_the_rows_of_a_frame_as_dicts(library):
    frame = library.DataFrame({"size": [1.0, 2.0], "note": ["ab", "bc"]})
    k = PairFunction(lambda x, y: x["size"] * y["size"] + (x["note"] == y["note"]))
    assert_array_equal(k(frame), [[2, 2], [2, 5]])
    assert_array_equal(k(frame, frame), [[2, 2], [2, 5]])
    assert_array_equal(k.diag(frame), [2, 5])


def test_pair_function_on_one_column_of_a_frame():
    frame = pd.DataFrame({"size": [1.0, 2.0], "note": ["ab", "bc"]})
    assert_array_equal(
        On("note", PairFunction(shared_letters))(frame), [[2, 1], [1, 2]]
    )


def test_pair_function_on_sparse_points_sees_one_row_matrices(X):
    k = PairFunction(lambda x, y: (x @ y.T).sum())
    assert_allclose(k(sp.csr_array(X)), X @ X.T, rtol=1e-12)


@looped("value", [None, "x", np.ones(2), 1j])
def test_pair_function_that_returns_no_number_is_refused(value):
    with pytest.raises(TypeError, match="takes two points and must return a number"):
        PairFunction(lambda x, y: value)(["a"])


def test_an_error_inside_a_user_function_is_not_hidden():
    with pytest.raises(TypeError, match="has no len"):
        PairFunction(lambda x, y: len(x))([1.0])


# Features


def test_feature_function_is_the_inner_product_of_features():
    k = FeatureFunction(letters)
    phi = letters(WORDS)
    weights = np.arange(10.0).reshape(5, 2)
    assert_array_equal(k(WORDS), phi @ phi.T)
    assert_array_equal(k(WORDS, ["pea"]), phi @ letters(["pea"]).T)
    assert_array_equal(k.diag(WORDS), (phi**2).sum(axis=1))
    assert_allclose(k.matmul(WORDS, None, weights), phi @ phi.T @ weights, rtol=1e-14)
    assert_allclose(k.matmul(WORDS, WORDS[:2], [1, 2]), k(WORDS, WORDS[:2]) @ [1, 2])
    assert_array_equal(k.features(WORDS), phi)
    assert k.feature_names(WORDS) == ["φ0", "φ1", "φ2", "φ3"]
    assert k.psd is True


@looped("form", [sp.csr_array, sp.csr_matrix, sp.coo_array, sp.csc_matrix])
def test_feature_function_may_be_sparse(form):
    k, same = FeatureFunction(lambda X: form(letters(X))), FeatureFunction(letters)
    assert_array_equal(k(WORDS), same(WORDS))
    assert_array_equal(k(WORDS, WORDS[:2]), same(WORDS, WORDS[:2]))
    assert_array_equal(k.diag(WORDS), same.diag(WORDS))
    product = k.matmul(WORDS, None, np.ones((5, 2)))
    assert type(product) is np.ndarray
    assert_array_equal(product, same.matmul(WORDS, None, np.ones((5, 2))))


@looped("dtype", [bool, np.int8, np.uint8])
@looped("form", [np.array, sp.csr_array])
def test_features_of_small_types_do_not_overflow(dtype, form):
    k = FeatureFunction(lambda X: form(np.ones((len(X), 300), dtype=dtype)))
    assert_array_equal(k(["a", "b"]), np.full((2, 2), 300))
    assert_array_equal(k.diag(["a", "b"]), [300, 300])


@given(
    phi=st.lists(
        st.lists(st.floats(-10, 10), min_size=3, max_size=3), min_size=1, max_size=6
    ),
    sparse=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_feature_kernels_are_symmetric_bit_for_bit(phi, sparse):
    phi = np.array(phi)
    k = FeatureFunction(lambda X: sp.csr_array(phi[X]) if sparse else phi[X])
    K = k(np.arange(len(phi)))
    assert_array_equal(K, K.T)


def test_features_keep_single_precision():
    k = FeatureFunction(lambda X: letters(X).astype(np.float32))
    assert k(WORDS).dtype == k.diag(WORDS).dtype == np.float32
    assert k.matmul(WORDS, None, np.ones(5)).dtype == np.float64


def test_features_may_be_lists_or_frames():
    for wrap in (list, pd.DataFrame):
        k = FeatureFunction(lambda X, wrap=wrap: wrap(letters(X)))
        assert_array_equal(k(WORDS), FeatureFunction(letters)(WORDS))


def test_feature_function_for_one_point_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"\(5, p\); it returned shape \(4,\)"):
        FeatureFunction(lambda X: np.ones(4))(WORDS)
    with pytest.raises(TypeError, match="complex"):
        FeatureFunction(lambda X: np.ones((len(X), 1)) * 1j)(WORDS)


def test_rank_one_is_the_product_of_two_numbers():
    k = RankOne(lambda X: [len(x) for x in X])
    lengths = np.array([5, 4, 0, 4, 5])
    assert_array_equal(k(WORDS), np.outer(lengths, lengths))
    assert_array_equal(k.diag(WORDS), lengths**2)
    assert k.feature_names(WORDS) == ["f(x)"]
    assert k.psd is True
    with pytest.raises(ValueError, match=r"one number per point, \(5,\)"):
        RankOne(lambda X: 1.0)(WORDS)


# Blocks


def test_block_function_is_called_with_both_datasets(X):
    k = BlockFunction(lambda X, Y: X @ Y.T)
    assert_array_equal(k(X), X @ X.T)
    assert_array_equal(k(X, X[:2]), X @ X[:2].T)
    assert_allclose(k.diag(X), (X**2).sum(axis=1), rtol=1e-14)


@pytest.mark.parametrize("wrap", [sp.csr_array, list, lambda K: K.astype(int)])
def test_block_function_may_return_anything_with_numbers(X, wrap):
    X = np.rint(X)
    K = BlockFunction(lambda X, Y: wrap(X @ Y.T))(X)
    assert type(K) is np.ndarray
    assert K.dtype == np.float64
    assert_array_equal(K, X @ X.T)


def test_block_function_of_another_shape_is_refused(X):
    with pytest.raises(
        ValueError, match=r"shape \(12, 2\); it returned shape \(2, 12\)"
    ):
        BlockFunction(lambda X, Y: Y @ X.T)(X, X[:2])
    with pytest.raises(TypeError, match="complex"):
        BlockFunction(lambda X, Y: X @ Y.T * 1j)(X)


@looped("kind", [BlockFunction, PairFunction, FeatureFunction, RankOne])
def test_what_cannot_be_called_is_refused(kind):
    with pytest.raises(TypeError, match=f"{kind.__name__} needs a function"):
        kind("rbf")


@pytest.mark.parametrize("kind", [BlockFunction, PairFunction])
def test_validity_is_what_the_user_vouches_for(kind):
    assert kind(min).psd is None
    assert kind(min, psd=True).psd is True
    assert kind(min, psd=False).psd is False
    assert "pass psd=True if you can vouch" in kind(min).proof()
    with pytest.raises(TypeError, match="psd=True, False or None; got psd='yes'"):
        kind(min, psd="yes")


# Precomputed

MATRIX = np.array([[4.0, 1.0, 2.0], [1.0, 3.0, 0.5], [2.0, 0.5, 5.0]])


@looped(
    "matrix",
    [MATRIX, MATRIX.tolist(), sp.csr_array(MATRIX), sp.csr_matrix(MATRIX),
     pd.DataFrame(MATRIX)],
    ids=["array", "lists", "csr_array", "csr_matrix", "frame"],
)  # fmt: skip
@looped(
    "wrap",
    [list, np.array, pd.Series, lambda i: np.array(i)[:, None].astype(float)],
    ids=["list", "array", "series", "column"],
)
def test_precomputed_looks_up_indices(matrix, wrap):
    k = Precomputed(matrix)
    assert_array_equal(k(wrap([2, 0])), MATRIX[np.ix_([2, 0], [2, 0])])
    assert_array_equal(k(wrap([2, 0]), wrap([1])), MATRIX[[2, 0]][:, [1]])
    assert_array_equal(k.diag(wrap([2, 0])), [5, 4])
    assert_array_equal(k.matmul(wrap([0, 1]), wrap([2, 0]), [1, 2]), [10, 2.5])


def test_precomputed_value_is_an_entry():
    k = Precomputed(MATRIX)
    assert k.value(0, 2) == 2.0
    assert k.value(MATRIX[1], 2) == 0.5
    assert Precomputed().value(MATRIX[1], 2) == 0.5
    assert Precomputed([[7.0]]).value(0, 0) == 7.0


@pytest.mark.parametrize("matrix", [None, MATRIX])
def test_precomputed_rows_hold_their_own_values(matrix):
    k = Precomputed(matrix)
    new = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert_array_equal(k(new, [2, 0]), new[:, [2, 0]])
    assert_array_equal(k([2, 0], new), new[:, [2, 0]].T)
    assert_array_equal(k(MATRIX), MATRIX)
    assert_array_equal(k(new, MATRIX), new)
    assert_array_equal(k.diag(MATRIX), [4, 3, 5])
    assert_allclose(k.matmul(MATRIX, None, [1, 0, 1]), MATRIX @ [1, 0, 1])


def test_precomputed_values_are_floats():
    assert Precomputed(MATRIX.astype(int))([0, 1]).dtype == np.float64
    assert Precomputed(MATRIX.astype("f4"))([0, 1]).dtype == np.float32


def test_precomputed_on_a_column_beside_other_kernels(X):
    records = np.column_stack([[0, 1, 2, 1], X[:4]])
    k = On(0, Precomputed(MATRIX)) * On(slice(1, None), RBF(1.0))
    index = [0, 1, 2, 1]
    assert_allclose(
        k(records), MATRIX[np.ix_(index, index)] * RBF(1.0)(X[:4]), rtol=1e-14
    )


@looped(
    "points, error, message",
    [
        (
            [3],
            IndexError,
            "3 reference points, numbered 0 to 2; got an index from 3 to 3",
        ),
        ([-1], IndexError, "from -1 to -1"),
        ([0.5], TypeError, "float64"),
        (["a"], TypeError, "<U1"),
        ([True], TypeError, "bool"),
        (np.ones((2, 2)), ValueError, "3 reference points; .* got length 2"),
        ([[0.5]], ValueError, "got length 1"),
        (np.ones((2, 3)), ValueError, r"rows of length 3 .* got shape \(2, 3\)"),
        (np.ones((2, 2, 2)), TypeError, r"shape \(2, 2, 2\)"),
    ],
    ids=str,
)
def test_precomputed_refuses_other_points(points, error, message):
    with pytest.raises(error, match=message):
        Precomputed(MATRIX)(points)


def test_precomputed_without_a_matrix_cannot_compare_indices():
    for ask in (Precomputed(), Precomputed().diag):
        with pytest.raises(ValueError, match=r"make it Precomputed\(K\)"):
            ask([0, 1])


@pytest.mark.parametrize("matrix", [np.ones((2, 3)), np.ones(3), 2.0])
def test_precomputed_needs_a_square_matrix(matrix):
    with pytest.raises(ValueError, match="square matrix"):
        Precomputed(matrix)


def test_precomputed_validity_is_unknown_until_vouched_for():
    assert Precomputed(MATRIX).psd is None
    assert "`check` tests" in Precomputed(MATRIX).proof()
    assert Precomputed(MATRIX, psd=True).psd is True
    assert "numbers from elsewhere, a kernel" in Precomputed(MATRIX, psd=True).proof()


def test_kernels_without_points_give_empty_matrices():
    nothing = np.empty((0, 3))
    for k in (Linear(), BlockFunction(lambda X, Y: X @ Y.T), Precomputed(MATRIX)):
        points = np.array([], dtype=int) if isinstance(k, Precomputed) else nothing
        assert k(points).shape == (0, 0)
        assert k.diag(points).shape == (0,)
        assert k.matmul(points, None, np.empty(0)).shape == (0,)


def test_columns_that_are_not_asked_for_do_not_count_in_products():
    rows = np.arange(8.0).reshape(2, 4)
    rows[0, 3] = np.nan
    places, V = np.array([0, 2, 2]), np.array([1.0, 2.0, 3.0])
    assert_allclose(Precomputed().matmul(rows, places, V), rows[:, places] @ V)
