"""Kernels that count substrings: against their definitions, and kernlab's numbers."""

import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from naive import gram
from naive_strings import mismatch, spectrum, substrings
from numpy.testing import assert_allclose, assert_array_equal

from mercer import Mismatch, Normalized, Spectrum, Subsequence, WeightedSubstrings
from mercer.kernels.base import Kernel

tight = dict(rtol=1e-13, atol=1e-14)
few = settings(max_examples=25, deadline=None)
SENTENCES = [
    "science is organized knowledge",
    "wisdom is organized life",
    "statistics",
    "computation",
    "aaabaab",
]


def of_sets(k, X, Y):
    return np.reshape(gram(k, X, Y), (len(X), len(Y)))


@few
@given(strategies.sequence_sets(9), strategies.sequence_sets(9), st.integers(1, 5))
def test_spectrum_is_its_definition(X, Y, k):
    expected = of_sets(lambda s, t: spectrum(s, t, k), X, Y)
    assert_array_equal(Spectrum(k)(X, Y), expected)


@few
@given(strategies.sequence_sets(9), st.sampled_from([0.3, 1.0]))
def test_weighted_substrings_are_their_definition(X, decay):
    expected = gram(lambda s, t: substrings(s, t, lambda r: decay**r), X)
    assert_allclose(WeightedSubstrings(decay)(X), expected, **tight)
    diagonal = WeightedSubstrings(decay).diag(X)
    assert_allclose(diagonal, np.diagonal(expected), **tight)


@few
@given(strategies.sequence_sets(9), strategies.sequence_sets(9))
def test_weights_by_length_are_their_definition(X, Y):
    weights = [0.5, 0.0, 3.0]
    weight = dict(enumerate(weights, 1))
    expected = of_sets(lambda s, t: substrings(s, t, lambda r: weight.get(r, 0)), X, Y)
    assert_allclose(WeightedSubstrings(weights=weights)(X, Y), expected, **tight)
    assert_allclose(Spectrum(3, weights)(X, Y), expected, **tight)


@few
@given(
    st.lists(strategies.texts(6, "abx"), max_size=4),
    st.integers(1, 3),
    st.integers(0, 3),
)
def test_mismatch_is_its_definition(X, k, m):
    # x is not in the alphabet: it differs from every letter of every word.
    expected = of_sets(lambda s, t: mismatch(s, t, k, m, "abc"), X, X)
    assert_array_equal(Mismatch(k, m, "abc")(X), expected)


@few
@given(strategies.sequence_sets(6), st.integers(1, 4))
def test_mismatch_without_mismatches_is_the_spectrum(X, k):
    kernel = Mismatch(k, 0).resolve(X)
    assert_array_equal(kernel(X), Spectrum(k)(X))


@pytest.mark.parametrize("decay", [1e-3, 1e-30, 1e-300])
def test_tiny_decay_leaves_the_single_letters(decay):
    near = Normalized(WeightedSubstrings(decay))(SENTENCES)
    assert_allclose(near, Normalized(Spectrum(1))(SENTENCES), rtol=2 * decay + 1e-13)


def test_the_worked_value_of_the_spectrum():
    assert Spectrum(3).value("statistics", "computation") == 2


# kernlab 0.9-31, stringdot(..., normalized = FALSE). Its substring kernels compare the
# newline that it adds to each string, so here it is added too.
KERNLAB_SPECTRUM = [
    [29, 12, 0, 0, 0],
    [12, 23, 0, 0, 0],
    [0, 0, 9, 2, 0],
    [0, 0, 2, 10, 0],
    [0, 0, 0, 0, 8],
]
KERNLAB_UP_TO_3 = [
    [140, 82, 17, 14, 6],
    [82, 100, 18, 13, 6],
    [17, 18, 48, 17, 6],
    [14, 13, 17, 37, 6],
    [6, 6, 6, 6, 53],
]
KERNLAB_ALL = [
    [546, 148, 17, 14, 6],
    [148, 353, 18, 13, 6],
    [17, 18, 84, 18, 6],
    [14, 13, 18, 82, 6],
    [6, 6, 6, 6, 68],
]
# length = 3, lambda = 0.5, the row of each string up to the diagonal
KERNLAB_SEQUENCE = [
    [0.820179002770552001],
    [0.345198525160452796, 0.634669180366465469],
    [0.002075552940368652, 0.001292571425437927, 0.31508636474609375],
    [0.000763628049753606, 0.000960439443588257, 0.0483398437500, 0.260287523269653320],
    [0, 0, 0, 0, 0.58575439453125],
]


@looped(
    "kernel, numbers",
    [
        (Spectrum(3), KERNLAB_SPECTRUM),
        (Spectrum(3, [1, 1, 1]), KERNLAB_UP_TO_3),
        (WeightedSubstrings(weights=[1, 1, 1]), KERNLAB_UP_TO_3),
        (WeightedSubstrings(1.0), KERNLAB_ALL),
    ],
)
def test_substring_kernels_agree_with_kernlab(kernel, numbers):
    assert_array_equal(kernel([s + "\n" for s in SENTENCES]), numbers)


def test_subsequences_agree_with_kernlab():
    K = Subsequence(3, 0.5)(SENTENCES)
    for i, row in enumerate(KERNLAB_SEQUENCE):
        assert_allclose(K[i, : i + 1], row, rtol=1e-14)


# Long, short and large


@pytest.mark.parametrize("k", [1, 20, 21, 62, 63, 64, 130])
def test_windows_too_long_for_one_number_are_told_apart(rng, k):
    X = ["".join(rng.choice(list("ab"), size=200)) for _ in range(3)]
    X.append(X[0][:150] + X[1][:50])
    X.append("a" * 200)
    expected = gram(lambda s, t: spectrum(s, t, k), X)
    assert_array_equal(Spectrum(k)(X), expected)


def test_many_different_tokens_are_told_apart(rng):
    X = [rng.integers(10**6, size=500).tolist() for _ in range(3)]
    X.append(X[0][:300] + X[1][200:])
    for k in (1, 3, 4, 9):
        expected = gram(lambda s, t, k=k: spectrum(s, t, k), X)
        assert_array_equal(Spectrum(k)(X), expected)


def test_strings_of_100_000_characters_are_compared_in_linear_time():
    X = ["a" * 100_000, "ab" * 50_000]
    n = 100_000
    # aʳ occurs n - r + 1 times in aⁿ, and only a itself in abab...
    all_of_one = sum((n - r + 1) ** 2 for r in range(1, n + 1))
    K = WeightedSubstrings(1.0)(X)
    assert_allclose(K[0], [all_of_one, n * n / 2], rtol=1e-13)
    assert Spectrum(1000)(X)[0, 0] == (n - 999) ** 2
    assert_array_equal(Spectrum(1000)(X)[1], [0, 49_501**2 + 49_500**2])


def test_empty_and_short_strings_have_no_long_substrings():
    X = ["", "a", "ab"]
    for kernel in (
        Spectrum(2),
        Mismatch(2, 1, "ab"),
        WeightedSubstrings(weights=[0, 1]),
    ):
        assert_array_equal(kernel(X)[:2], 0)
        assert_array_equal(Normalized(kernel)(X), [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    assert Spectrum(5)([""]).shape == (1, 1)


# Features


@pytest.mark.parametrize(
    "kernel",
    [
        Spectrum(2),
        Spectrum(3, [1.0, 0.0, 0.5]),
        Mismatch(2, 1, "abc"),
        Mismatch(2, 1, ["a", "b", "c"]),
        WeightedSubstrings(0.5),
        WeightedSubstrings(weights=[0.0, 2.0]),
    ],
)
@few
@given(X=st.lists(strategies.texts(6, "abc"), min_size=1, max_size=4))
def test_features_give_the_kernel_and_have_a_name_each(kernel, X):
    features, names = kernel.features(X), kernel.feature_names(X)
    assert_allclose((features @ features.T).toarray(), kernel(X), **tight)
    assert len(set(names)) == len(names) == features.shape[1]


def test_features_are_named_after_their_substrings_as_they_first_occur():
    assert Spectrum(2).feature_names(["ATAT", "GAT"]) == [
        "substring 'AT'",
        "substring 'TA'",
        "substring 'GA'",
    ]
    assert_array_equal(
        Spectrum(2).features(["ATAT", "GAT"]).toarray(), [[2, 1, 0], [1, 0, 1]]
    )
    assert Spectrum(2).feature_names([("to", "be")]) == ["substring ('to', 'be')"]
    names = Mismatch(2, 1, "AT").feature_names(["AA"])
    assert names == [f"substrings within 1 of {word!r}" for word in ("AA", "AT", "TA")]


def test_columns_of_two_sets_mean_the_same():
    # Each set alone has one column; together they must have two.
    assert Spectrum(1).value("a", "b") == 0
    assert_array_equal(Spectrum(1).matmul(["a", "b"], ["b"], [1.0]), [0, 1])


def test_features_that_explode_are_refused_with_their_number():
    with pytest.raises(ValueError, match=r"write out 5,000,050,000 substrings"):
        WeightedSubstrings(1.0).features(["a" * 100_000])
    acids = "ACDEFGHIKLMNPQRSTVWY"
    with pytest.raises(ValueError, match=r"write out 9,516,835 words near each of 10"):
        Mismatch(8, 4, acids)(["ACDEFGHIKLMNPQRST"])


def test_dense_and_sparse_products_agree(rng):
    # Few words are dense, many are sparse.
    X = ["".join(rng.choice(list("acgt"), size=60)) for _ in range(40)]
    for k in (1, 2, 6):
        expected = gram(lambda s, t, k=k: spectrum(s, t, k), X)
        assert_array_equal(Spectrum(k)(X), expected)


# Parameters


def test_resolve_takes_the_tokens_that_occur():
    assert Mismatch(3, 1).resolve(["GAT", "TA"]) == Mismatch(3, 1, "AGT")
    tokens = Mismatch(3, 1).resolve([(1, 2), (2, "x")]).alphabet
    assert tokens == [1, 2, "x"]


@looped(
    "make, words",
    [
        (lambda: Spectrum(0), "whole number k ≥ 1; got k=0"),
        (lambda: Spectrum(2, [1.0]), "2 weights, one for each length"),
        (lambda: Mismatch(2, -1), "whole number m ≥ 0; got m=-1"),
        (lambda: Mismatch(2, 1, "aba"), "different tokens; got alphabet='aba'"),
        (lambda: Mismatch(70, 1, "ab"), r"at most 2\*\*63"),
        (lambda: WeightedSubstrings(), "either decay or weights; got decay=None"),
        (lambda: WeightedSubstrings(0.5, [1.0]), "either decay or weights"),
        (lambda: WeightedSubstrings(2.0), "decay ≤ 1; got decay=2.0"),
        (lambda: WeightedSubstrings(weights=[]), "a list of weights"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_an_alphabet_is_a_str_or_a_list():
    with pytest.raises(TypeError, match=r"str or a list of tokens; got alphabet=3"):
        Mismatch(2, 1, 3)


@pytest.mark.parametrize(
    "kernel", [Spectrum(2), WeightedSubstrings(0.5), Subsequence(2)]
)
def test_points_that_are_no_strings_are_refused(kernel: Kernel):
    name = type(kernel).__name__
    with pytest.raises(
        TypeError, match=rf"{name} compares strings; point 1 is a float"
    ):
        kernel(["a", 1.5])
    with pytest.raises(TypeError, match=r"hashable tokens; .*unhashable.*tuples"):
        kernel([["a"], [["b"]]])
