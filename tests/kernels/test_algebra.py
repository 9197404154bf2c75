"""The closure rules: every node against its definition, on random data."""

import copy
import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from mercer.kernels.algebra import (
    Centered,
    Conformal,
    Exp,
    Normalized,
    On,
    PolynomialOf,
    Pullback,
)
from mercer.kernels.checks import unchecked
from mercer.kernels.operators import Constant
from mercer.kernels.radial import RBF, Laplacian
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import BlockFunction, FeatureFunction, PairFunction


def dot(X, Y):
    return X @ Y.T


def first(X):
    return X[:, 0]


def squares(X):
    return X**2


def letters(words):
    return np.array([[word.count(c) for c in "abc"] for word in words], dtype=float)


REFERENCE = np.random.default_rng(5).normal(size=(6, 3))
NODES = [
    Exp(0.3 * Linear()),
    PolynomialOf(Linear(), [1, 0, 2.5]),
    Conformal(RBF(0.2), first),
    Normalized(Polynomial(2)),
    Pullback(RBF(0.2), squares),
    On([0, 2], RBF(0.2)),
    On(1, Linear()) * On(slice(0, 2), RBF(0.5)),
    Centered(RBF(0.2), REFERENCE),
    Normalized(Centered(Conformal(Linear() + 1, first), REFERENCE)),
    Exp(Normalized(On([0, 1], Linear() ** 2) + 2 * Pullback(RBF(1.0), squares))),
    Centered(Centered(RBF(0.2), REFERENCE), REFERENCE[:4]),
]
EVERY_NODE = looped("k", NODES, ids=repr)


# The definitions


def test_exp_is_the_exponential_of_the_values(X):
    k = 0.3 * Linear()
    assert_allclose(Exp(k)(X), np.exp(0.3 * X @ X.T), rtol=1e-12)
    assert_allclose(Exp(k).diag(X), np.exp(0.3 * (X**2).sum(axis=1)), rtol=1e-12)


def test_exp_is_the_limit_of_its_polynomials(X):
    k = 0.3 * Linear()
    coefficients = [1 / math.factorial(n) for n in range(40)]
    assert_allclose(PolynomialOf(k, coefficients)(X), Exp(k)(X), rtol=1e-12)


@given(
    coefficients=st.lists(st.floats(0, 10), min_size=1, max_size=6),
    kind=st.sampled_from([list, tuple, np.array]),
)
@settings(max_examples=25, deadline=None)
def test_polynomial_of_a_kernel_is_the_sum_of_its_powers(coefficients, kind):
    X = REFERENCE
    expected = sum(c * (X @ X.T) ** n for n, c in enumerate(coefficients))
    k = PolynomialOf(Linear(), kind(coefficients))
    assert_allclose(k(X), expected, rtol=1e-10, atol=1e-10)
    assert_allclose(k.diag(X), np.diag(expected), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("p", [1, 2, 5])
def test_a_single_power_as_a_polynomial_is_the_power(X, p):
    assert_allclose(
        PolynomialOf(Linear(), [0] * p + [1])(X), (Linear() ** p)(X), rtol=1e-12
    )


@looped(
    "coefficients, message",
    [
        ([1, -2], "coefficient of power 1 is -2"),
        ([np.nan], "coefficient of power 0 is nan"),
        ([1, np.inf], "coefficient of power 1 is inf"),
        (["1"], "coefficient of power 0 is '1'"),
        ([True], "coefficient of power 0 is True"),
        ([], "needs a list of coefficients"),
        ([[1]], "needs a list of coefficients"),
        (3, "needs a list of coefficients"),
        ("12", "needs a list of coefficients"),
    ],
)
def test_coefficients_that_lose_validity_are_refused(coefficients, message):
    with pytest.raises(ValueError, match=f"PolynomialOf .*{message}"):
        PolynomialOf(Linear(), coefficients)


def test_conformal_multiplies_by_the_function_on_both_sides(X):
    k = Conformal(RBF(0.2), first)
    K = RBF(0.2)(X, X[:5])
    assert_allclose(k(X, X[:5]), X[:, :1] * K * X[:5, 0], rtol=1e-14)
    assert_allclose(k.diag(X), X[:, 0] ** 2, rtol=1e-14)
    with pytest.raises(ValueError, match=r"f of Conformal .* one number per point"):
        Conformal(RBF(0.2), squares)(X)


def test_normalized_is_the_cosine(X):
    lengths = np.linalg.norm(X, axis=1)
    k = Normalized(Linear())
    assert_allclose(k(X), X @ X.T / np.outer(lengths, lengths), rtol=1e-12)
    assert_array_equal(np.diag(k(X)), 1)
    assert_array_equal(k.diag(X), 1)
    assert_allclose(k(X, X[:3]), k(X)[:, :3], rtol=1e-12)


def test_normalizing_twice_changes_nothing(X):
    k = Normalized(Polynomial(2))
    assert_allclose(Normalized(k)(X), k(X), rtol=1e-12)


def test_normalized_does_not_see_a_conformal_factor(X):
    k = RBF(0.2) + Linear()
    positive = Conformal(k, lambda X: 1 + X[:, 0] ** 2)
    assert_allclose(Normalized(positive)(X), Normalized(k)(X), rtol=1e-12)


EMPTY = ["ab", "", "bbc", "", "xyz"]  # the last has no letter that counts either


def test_points_of_length_zero_are_alike_and_unlike_all_others():
    k = Normalized(FeatureFunction(letters))
    K = k(EMPTY)
    none = [1, 3, 4]
    assert_array_equal(K[np.ix_(none, none)], 1)
    assert_array_equal(K[np.ix_(none, [0, 2])], 0)
    assert_allclose(k(EMPTY, EMPTY), K, rtol=1e-15)
    assert_array_equal(k.diag(EMPTY), 1)
    assert k.value("", "") == 1
    weights = np.arange(10.0).reshape(5, 2)
    assert_allclose(k.matmul(EMPTY, None, weights), K @ weights, rtol=1e-14)
    assert_allclose(k.matmul(EMPTY, ["", "a"], [2, 3]), k(EMPTY, ["", "a"]) @ [2, 3])


@given(
    words=st.lists(st.text("abcx", max_size=4), min_size=1, max_size=8),
)
@settings(max_examples=25, deadline=None)
def test_normalized_with_points_of_length_zero_is_semidefinite(words):
    K = Normalized(FeatureFunction(letters))(words)
    assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-12 * len(words)
    assert np.abs(K).max() <= 1 + 1e-12


@looped("scale", [1e-150, 1e-100, 1e100, 1e150])
def test_normalized_bears_very_small_and_large_values(X, scale):
    k = Normalized(BlockFunction(dot))
    assert_allclose(k(scale * X), k(X), rtol=1e-11)


@pytest.mark.parametrize("scale", [1e-18, 1e18])
def test_normalized_bears_small_and_large_values_in_single_precision(X, scale):
    single = (scale * X).astype(np.float32)
    assert_allclose(Normalized(Linear())(single), Normalized(Linear())(X), atol=1e-5)


def test_normalized_passes_on_what_is_not_a_number(X):
    X[2, 1] = np.nan
    k = Normalized(BlockFunction(dot))
    with unchecked():
        K = k(X)
        assert np.isnan(k.diag(X)[2])
    assert np.isnan(K[2]).all()
    with pytest.raises(ValueError, match=r"at point 2 one is missing"):
        k(X)
    assert np.isfinite(np.delete(np.delete(K, 2, 0), 2, 1)).all()


def test_normalized_gives_an_infinite_length_no_direction():
    k = Normalized(PairFunction(lambda x, y: np.inf if x == y == "∞" else 1.0))
    expected = [[1, np.nan], [np.nan, np.nan]]
    with unchecked():
        assert_array_equal(k(["a", "∞"]), expected)
        assert_array_equal(k.diag(["a", "∞"]), np.diag(expected))
    with pytest.raises(ValueError, match=r"not finite numbers on these points"):
        k(["a", "∞"])


def test_normalized_refuses_a_negative_square():
    saddle = BlockFunction(lambda X, Y: X @ np.diag([1.0, -1.0]) @ Y.T)
    with pytest.raises(ValueError, match=r"k\(x, x\) ≥ 0; .* gives -4 at point 1"):
        Normalized(saddle)(np.array([[1.0, 0.0], [0.0, 2.0]]))


def test_pullback_compares_the_images(X):
    k = Pullback(RBF(0.2), squares)
    assert_array_equal(k(X), RBF(0.2)(X**2))
    assert_array_equal(k(X, X[:4]), RBF(0.2)(X**2, X[:4] ** 2))
    assert_array_equal(k.diag(X), 1)


def test_pullback_takes_points_of_any_kind_to_vectors():
    k = Pullback(Linear(), letters)
    assert_array_equal(k(EMPTY), letters(EMPTY) @ letters(EMPTY).T)
    assert k.value("ab", "bb") == 2


def test_pullback_resolves_on_the_images(X):
    k = Pullback(RBF(), squares).resolve(X)
    assert k.kernel == RBF().resolve(X**2)
    assert k.resolve(X) is k


def test_pullback_refuses_a_map_that_loses_points(X):
    with pytest.raises(ValueError, match="it made 3 of 12"):
        Pullback(RBF(1.0), lambda X: X[:3])(X)


# On: direct sums and products


@looped(
    "left, right",
    [(0, 1), (0, 0), ([0, 1], [1, 2]), (slice(0, 2), -1), ([2, 0], slice(None))],
    ids=str,
)
@looped("wrap", [np.array, sp.csr_array], ids=["dense", "sparse"])
def test_direct_sum_and_product_read_their_columns(X, left, right, wrap):
    def part(columns):
        return X[:, [columns] if isinstance(columns, int) else columns]

    a, b = RBF(0.7)(part(left)), part(right) @ part(right).T
    points = wrap(X)
    k, m = On(left, RBF(0.7)), On(right, Linear())
    assert_allclose((k + m)(points), a + b, rtol=1e-12)
    assert_allclose((k * m)(points), a * b, rtol=1e-12, atol=1e-14)
    assert_allclose((k + m).diag(points), np.diag(a + b), rtol=1e-12)
    assert_allclose((k + m)(points, points[:5]), (a + b)[:, :5], rtol=1e-12)


@pytest.mark.parametrize("library", [pd, pl])
def test_records_of_mixed_data_are_read_by_field(library):
    notes = ["ab", "", "bc"]
    frame = library.DataFrame({"note": notes, "size": [1.0, 2.0, 4.0], "n": [1, 0, 1]})
    tuples = list(zip(notes, [1.0, 2.0, 4.0], [1, 0, 1], strict=True))
    same = PairFunction(lambda s, t: len(set(s) & set(t)))
    by_name = On("note", same) * On(["size", "n"], RBF(0.1)) + On("n", Linear())
    by_number = On(0, same) * On([1, 2], RBF(0.1)) + On(2, Linear())
    V = np.array([[1.0, 1.0], [2.0, 0.0], [4.0, 1.0]])
    expected = same(notes) * RBF(0.1)(V) + np.outer(V[:, 1], V[:, 1])
    assert_allclose(by_name(frame), expected, rtol=1e-14)
    assert_allclose(by_number(frame), expected, rtol=1e-14)
    assert_allclose(by_number(tuples), expected, rtol=1e-14)
    assert_allclose(by_name(frame, frame[:1]), expected[:, :1], rtol=1e-14)
    assert_allclose(by_name.matmul(frame, None, [1, 2, 3]), expected @ [1, 2, 3])
    assert_allclose(by_name.diag(frame), np.diag(expected), rtol=1e-14)


def test_on_resolves_on_its_part(X):
    k = (On(0, RBF()) + On([1, 2], RBF())).resolve(X)
    assert k.left.kernel == RBF().resolve(X[:, :1])
    assert k.right.kernel == RBF().resolve(X[:, 1:])
    assert k.resolve(X) is k


def test_on_may_be_nested(X):
    assert_allclose(On([2, 0], On(1, Linear()))(X), np.outer(X[:, 0], X[:, 0]))


def test_on_a_text_column_tells_a_vector_kernel_what_it_got():
    frame = pd.DataFrame({"note": ["x", "y"]})
    with pytest.raises(TypeError, match=r"compares vectors; point 0 is the string 'x'"):
        On("note", RBF(1.0))(frame)


@looped("field", [True, [True, False], 1.5, None, (0, 1), [], [[0]]])
def test_on_refuses_what_names_no_field(field):
    with pytest.raises(TypeError, match="On needs a column name or number"):
        On(field, RBF())


# Centered


def centring(n):
    return np.eye(n) - np.full((n, n), 1 / n)


def test_centered_on_its_reference_is_h_k_h(X):
    H = centring(12)
    for k in (Linear(), RBF(0.2), Polynomial(3)):
        assert_allclose(Centered(k, X)(X), H @ k(X) @ H, rtol=1e-9, atol=1e-10)


def test_centered_linear_kernel_is_that_of_the_shifted_points(X):
    shifted = X - REFERENCE.mean(axis=0)
    k = Centered(Linear(), REFERENCE)
    assert_allclose(k(X), shifted @ shifted.T, rtol=1e-10, atol=1e-12)
    assert_allclose(k(X, X[:5]), shifted @ shifted[:5].T, rtol=1e-10, atol=1e-12)
    assert_allclose(k.diag(X), (shifted**2).sum(axis=1), rtol=1e-10, atol=1e-12)


def test_centered_new_points_use_the_means_of_the_reference(X):
    k, R = RBF(0.2), REFERENCE
    expected = (
        k(X)
        - k(X, R).mean(axis=1)[:, None]
        - k(X, R).mean(axis=1)[None, :]
        + k(R).mean()
    )
    assert_allclose(Centered(k, R)(X), expected, rtol=1e-12, atol=1e-14)


def test_centered_values_sum_to_zero_over_the_reference(X):
    k = Centered(RBF(0.2), REFERENCE)
    assert_allclose(k(X, REFERENCE).sum(axis=1), 0, atol=1e-13)


def test_centering_twice_on_one_reference_changes_nothing(X):
    once = Centered(RBF(0.2), REFERENCE)
    assert_allclose(Centered(once, REFERENCE)(X), once(X), rtol=1e-12, atol=1e-14)


def test_centering_on_two_references_is_centering_on_the_last(X):
    twice = Centered(Centered(RBF(0.2), REFERENCE), X)
    assert_allclose(twice(X), Centered(RBF(0.2), X)(X), rtol=1e-10, atol=1e-13)


def test_distances_do_not_see_the_centre(X):
    k = RBF(0.2)
    assert_allclose(Centered(k, REFERENCE).sqdist(X), k.sqdist(X), atol=1e-13)


@looped(
    "wrap",
    [sp.csr_array, pd.DataFrame, pl.DataFrame, list, np.ndarray.tolist],
)
def test_the_reference_may_be_any_dataset(X, wrap):
    expected = Centered(Linear(), REFERENCE)(X)
    assert_allclose(Centered(Linear(), wrap(REFERENCE))(X), expected, atol=1e-12)


def test_centered_learns_its_reference(X):
    k = Centered(RBF())
    resolved = k.resolve(X)
    assert_array_equal(resolved.reference, X)
    assert not np.shares_memory(resolved.reference, X)
    assert resolved.kernel == RBF().resolve(X)
    assert resolved.resolve(REFERENCE) is resolved
    assert k == Centered(RBF(), None)
    with pytest.raises(ValueError, match="learns reference from data"):
        Centered(RBF(1.0))(X)


def test_centered_resolves_inside_and_keeps_a_given_reference(X):
    resolved = Centered(RBF(), REFERENCE).resolve(X)
    assert resolved.reference is REFERENCE
    assert resolved.kernel == RBF().resolve(X)


def test_centered_refuses_an_empty_reference():
    with pytest.raises(ValueError, match="at least one reference point"):
        Centered(RBF(), [])


def test_centered_notices_when_the_kernel_inside_changes(X):
    inner = RBF(0.2)
    for k in (Centered(inner, REFERENCE), Centered(Exp(2 * inner), REFERENCE)):
        inner.set_params(gamma=0.2)
        k(X)
        inner.set_params(gamma=2.0)
        assert_allclose(k(X), copy.deepcopy(clone(k))(X), rtol=1e-12, atol=1e-14)
        k.set_params(reference=X)
        assert_allclose(k(X).mean(), 0, atol=1e-14)


def test_centered_kernels_with_equal_references_are_equal(X):
    for wrap in (np.array, sp.csr_array, pd.DataFrame, pl.DataFrame, list):
        k, same = Centered(RBF(1.0), wrap(X)), Centered(RBF(1.0), wrap(X.copy()))
        k(X)
        assert k == same
        assert k != Centered(RBF(1.0), wrap(X + 1))
        assert pickle.loads(pickle.dumps(k)) == k


# Laws of every node


@EVERY_NODE
def test_nodes_are_symmetric_bit_for_bit(X, k):
    K = k(X)
    assert_array_equal(K, K.T)


@EVERY_NODE
def test_nodes_are_semidefinite(X, k):
    K = k(X)
    assert np.linalg.eigvalsh(K).min() > -1e-12 * np.trace(K)
    assert k.psd is True


@EVERY_NODE
def test_the_diagonal_is_that_of_the_matrix(X, k):
    assert_allclose(k.diag(X), np.diag(k(X)), rtol=1e-11, atol=1e-13)
    assert k.value(X[3], X[3]) == pytest.approx(k.diag(X)[3], rel=1e-11)


@EVERY_NODE
def test_blocks_agree_with_the_whole(X, k):
    assert_allclose(k(X, X), k(X), rtol=1e-10, atol=1e-12)
    assert_allclose(k(X[2:5], X[7:]), k(X)[2:5, 7:], rtol=1e-10, atol=1e-12)
    assert k(X[:0]).shape == (0, 0)
    assert k(X, X[:0]).shape == (12, 0)


@EVERY_NODE
@looped("shape", [(5,), (5, 2)])
def test_products_are_those_of_the_matrix(X, k, shape):
    V = np.linspace(-1, 2, math.prod(shape)).reshape(shape)
    expected = k(X, X[:5]) @ V
    assert_allclose(k.matmul(X, X[:5], V), expected, rtol=1e-10, atol=1e-11)
    assert_allclose(k.matmul(X, X[:5], V, block_mb=1e-5), expected, atol=1e-10)
    square = k(X[:5]) @ V
    assert_allclose(k.matmul(X[:5], None, V), square, rtol=1e-10, atol=1e-11)


@EVERY_NODE
def test_nodes_keep_single_precision(X, k):
    single = X.astype(np.float32)
    assert k(single).dtype == k(single, single[:3]).dtype == np.float32
    assert k.diag(single).dtype == np.float32
    assert k(X).dtype == k.diag(X).dtype == np.float64
    assert k.matmul(single, None, np.ones(12)).dtype == np.float64


@EVERY_NODE
def test_nodes_are_values(X, k):
    for copied in (copy.deepcopy(k), clone(k), pickle.loads(pickle.dumps(k))):
        assert copied == k
        assert_allclose(copied(X), k(X), rtol=1e-12, atol=1e-14)


@EVERY_NODE
def test_nodes_leave_the_points_alone(X, k):
    before = X.copy()
    X.flags.writeable = False
    k(X), k.diag(X), k.matmul(X, None, np.ones(12)), k.sqdist(X)
    assert_array_equal(X, before)


@given(
    points=st.lists(
        st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=2, max_size=6
    ),
    pick=st.integers(0, 4),
)
@settings(max_examples=25, deadline=None)
def test_nested_rules_keep_semidefiniteness(points, pick):
    X = np.array(points)
    inner = On(0, RBF(0.5)) * Linear() + 0.5 * On(1, Linear()) ** 2
    k = [
        Normalized(inner),
        Conformal(Exp(0.1 * inner), first),
        Centered(inner, X[:1]),
        PolynomialOf(Normalized(inner), [0.5, 1, 0, 2]),
        Pullback(Normalized(inner + 1), squares),
    ][pick]
    K = k(X)
    assert np.linalg.eigvalsh(K).min() > -1e-10 * max(np.trace(K), 1)


# Validity and parameters through the nodes

UNKNOWN = BlockFunction(dot)
INVALID = BlockFunction(dot, psd=False)
WRAPPERS = [
    Exp,
    lambda k: PolynomialOf(k, [1, 1]),
    lambda k: Conformal(k, first),
    Normalized,
    lambda k: Pullback(k, squares),
    lambda k: On(0, k),
    lambda k: Centered(k, REFERENCE),
]


@looped("wrap", WRAPPERS)
def test_nodes_keep_validity_and_promise_nothing_else(wrap):
    assert wrap(RBF(1.0)).psd is True
    assert wrap(UNKNOWN).psd is None
    assert wrap(INVALID).psd is None
    lost = wrap(wrap(INVALID) + RBF(1.0)).proof()
    assert lost.splitlines()[-1] == f"Validity is lost at {INVALID!r}."
    assert "but not every part is known to be a kernel" in lost


@looped("wrap", WRAPPERS)
def test_nodes_refuse_what_is_no_kernel(wrap):
    with pytest.raises(TypeError, match="made of kernels; got"):
        wrap("rbf")


def test_proof_shows_the_parameters_of_a_node():
    proof = (On("note", Constant()) + PolynomialOf(RBF(1.0), [1, 2])).proof()
    assert "✓ On(field='note'): " in proof
    assert "✓ PolynomialOf(coefficients=[1, 2]): " in proof


def test_parameters_inside_nodes_are_reached():
    k = Normalized(Exp(2 * On("a", RBF(1.0))))
    name = "kernel__kernel__kernel__kernel__gamma"
    assert k.get_params()[name] == 1.0
    k.set_params(**{name: 3.0}, kernel__kernel__kernel__field="b")
    assert k == Normalized(Exp(2 * On("b", RBF(3.0))))


@pytest.mark.parametrize(
    "make",
    [lambda: Conformal(RBF(), 3), lambda: Pullback(RBF(), "x")],
    ids=["Conformal", "Pullback"],
)
def test_what_is_no_function_is_refused(make):
    with pytest.raises(TypeError, match="needs a function"):
        make()


WEIGHT = np.array([0, 1, 2, 3, 1, 0, 2])


@pytest.mark.parametrize("as_given", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_resolve_counts_a_point_as_often_as_its_weight(as_given, rng):
    X = rng.normal(size=(7, 3)) * (rng.random((7, 3)) < 0.6)
    k = Centered(RBF()) + On([0, 1], Laplacian()) * Polynomial(2, scale=None)
    weighted = k.resolve(as_given(X), WEIGHT)
    repeated = k.resolve(as_given(np.repeat(X, WEIGHT, axis=0)))
    assert_allclose(weighted(as_given(X)), repeated(as_given(X)), rtol=1e-12)


def test_fractional_weights_scale_freely(rng):
    X = rng.normal(size=(7, 3))
    thirds = RBF().resolve(X, WEIGHT / 3)
    assert_allclose(thirds.gamma, RBF().resolve(X, WEIGHT).gamma, rtol=1e-13)


@looped("weight", [[1.0], [0.0, 0.0], [1.0, -1.0], [1.0, np.nan]])
def test_centered_refuses_weights_that_have_no_mean(weight):
    with pytest.raises(ValueError, match="one weight ≥ 0"):
        Centered(Linear(), np.eye(2), weight)
