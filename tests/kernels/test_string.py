"""Kernels of two strings by an algorithm: against their definitions and each other."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from naive import gram
from naive_strings import (
    edit_distance as naive_edit_distance,
)
from naive_strings import (
    gap_weighted,
    subsequence,
    subsequence_features,
    weighted_degree,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from mercer import (
    SVC,
    EditSimilarity,
    KernelRidge,
    Mismatch,
    Normalized,
    Spectrum,
    Subsequence,
    WeightedDegree,
    WeightedSubstrings,
    check,
)
from mercer.kernels import edit_distance

tight = dict(rtol=1e-13, atol=0)
few = settings(max_examples=25, deadline=None)
decays = st.sampled_from([1.0, 0.9, 0.5, 1e-3, 1e-30])
SCIENCE = "science is organized knowledge", "wisdom is organized life"


# Gap-weighted subsequences


@few
@given(strategies.sequence_sets(), st.integers(1, 4), decays)
def test_subsequence_is_its_definition(X, length, decay):
    K = Subsequence(length, decay)(X)
    assert_allclose(K, gram(lambda s, t: subsequence(s, t, length, decay), X), **tight)


@few
@given(strategies.sequence_sets(), strategies.sequence_sets(), st.integers(1, 8))
def test_subsequence_of_two_sets_is_its_definition(X, Y, length):
    K = Subsequence(length, 0.7)(X, Y)
    expected = gram(lambda s, t: subsequence(s, t, length, 0.7), X, Y)
    assert_allclose(K, np.reshape(expected, (len(X), len(Y))), **tight)


@few
@given(strategies.sequence_sets(), st.integers(1, 4))
def test_weights_add_lengths(X, length):
    weights = [0.5, 0.0, 2.0, 3.0][:length]
    expected = sum(c * Subsequence(r, 0.6)(X) for r, c in enumerate(weights, 1) if c)
    assert_allclose(Subsequence(length, 0.6, weights)(X), expected, **tight)


@pytest.mark.parametrize("length", range(1, 12))
@pytest.mark.parametrize("decay", [Fraction(1), Fraction(1, 2), Fraction(9, 10)])
def test_all_lengths_agree_with_exact_fractions(rng, length, decay):
    # Lengths up to 6 and beyond take different loops.
    X = ["".join(rng.choice(list("acgt"), size=size)) for size in (1, 13, 17)]
    exact = gram(lambda s, t: float(gap_weighted(s, t, length, decay)), X)
    assert_allclose(Subsequence(length, float(decay))(X), exact, **tight)
    diagonal = Subsequence(length, float(decay)).diag(X)
    assert_allclose(diagonal, np.diagonal(exact), **tight)


@looped("decay", [1.0, 0.5, 0.25, 2.0**-60])
def test_the_worked_values_of_subsequences(decay):
    K = Subsequence(2, decay)(["cat", "car"])
    same = 2 * decay**4 + decay**6
    assert_allclose(K, [[same, decay**4], [decay**4, same]], **tight)


def test_normalised_subsequences_have_the_published_values():
    values = [Normalized(Subsequence(n, 0.5)).value(*SCIENCE) for n in (1, 2, 3, 4)]
    assert_allclose(values, [0.8487, 0.5798, 0.4785, 0.4389], rtol=0, atol=5e-5)


def test_features_of_subsequences_have_the_published_values():
    kernel, X = Subsequence(3, 0.5), ["Nasdaq", "lass das"]
    column = kernel.feature_names(X).index("subsequence 'asd'")
    values = kernel.features(X).toarray()[:, column]
    assert_array_equal(values, [0.5**3, 2 * 0.5**5])


def test_fast_food_holds_afd_at_2_6_9_and_asd_at_2_3_9():
    # The course prints (2, 3, 9) for afd; both span the 8 places from 2 to 9.
    food = "fast food"
    assert "".join(food[i - 1] for i in (2, 6, 9)) == "afd"
    assert "".join(food[i - 1] for i in (2, 3, 9)) == "asd"
    kernel = Subsequence(3, 0.5)
    names, values = kernel.feature_names([food]), kernel.features([food]).toarray()[0]
    for word in ("afd", "asd"):
        assert values[names.index(f"subsequence {word!r}")] == 0.5**8


@few
@given(strategies.sequence_sets(), st.integers(1, 3))
def test_subsequence_features_are_the_definition_and_give_the_kernel(X, length):
    kernel = Subsequence(length, 0.7, [2.0, 0.0, 3.0][-length:])
    features = kernel.features(X)
    assert_allclose((features @ features.T).toarray(), kernel(X), rtol=1e-12)
    found = features.toarray()[0]
    expected = [
        math.sqrt(c) * value
        for r, c in enumerate(kernel.weights, 1)
        for value in subsequence_features(X[0], r, 0.7).values()
        if c
    ]
    assert_allclose(sorted(found[found > 0]), sorted(expected), rtol=1e-12)


def test_features_that_explode_are_refused_with_their_number():
    # C(200, 5) for each of the two
    with pytest.raises(ValueError, match=r"write out 5,071,300,080 subsequences"):
        Subsequence(5).features(["a" * 200] * 2)


def test_subsequence_counts_pairs_of_gapped_matches_at_decay_one():
    # C(100000, 2) ways in one string of equal letters; all lengths are exact integers.
    X = ["a" * 3000]
    assert Subsequence(2, 1.0)(X)[0, 0] == math.comb(3000, 2) ** 2


def test_long_strings_are_compared_within_linear_memory():
    X = ["ab" * 5000, "ba" * 5000]
    kernel = Normalized(Subsequence(2, 0.5))
    # Far from the ends the same stretches are found in both; the ends are 1 in 5000.
    assert_allclose(kernel(X), [[1, 1], [1, 1]], rtol=0, atol=1e-3)


def test_normalised_values_are_right_where_the_kernel_overflows():
    # C(530, 265)² ways to find a²⁶⁵ twice; the others are too short.
    X, kernel = ["a" * 530, "b", ""], Subsequence(265, 1.0)
    with pytest.raises(OverflowError, match=r"points 0 and 0 .* beyond float64"):
        kernel(X[:1])
    expected = np.array([[1.0, 0, 0], [0, 1, 1], [0, 1, 1]])
    assert_allclose(Normalized(kernel)(X), expected, rtol=1e-12)
    same = Normalized(kernel)(["a" * 529, ""], X)
    assert_allclose(same, expected[[0, 2]], rtol=1e-12)
    assert_allclose(Normalized(kernel).diag(X), 1)
    V = np.arange(4.0).reshape(2, 2)
    product = Normalized(kernel).matmul(X[1:], None, V)
    assert_allclose(product, expected[1:, 1:] @ V, rtol=1e-12)


def test_overflowing_values_agree_with_exact_fractions(rng):
    X = ["".join(rng.choice(list("ab"), size=size)) for size in (90, 97)]
    length = 30
    tables = [[gap_weighted(s, t, length, 1) for t in X] for s in X]
    # Weights bring the sum beyond float64; the cosine does not see them.
    weights = [0.0] * (length - 1) + [1e300]
    cosine = math.sqrt(Fraction(tables[0][1] ** 2, tables[0][0] * tables[1][1]))
    kernel = Subsequence(length, 1.0, weights)
    with pytest.raises(OverflowError, match=r"Use Normalized\("):
        kernel(X)
    assert_allclose(Normalized(kernel)(X)[0, 1], cosine, rtol=1e-13)


def test_values_beyond_float64_agree_with_exact_integers():
    # At decay 1, aⁱbʲ is found C(p, i) C(q, j) times in aᵖbᵠ.
    n, sizes = 280, [(290, 270), (280, 285)]

    def exact(s, t):
        return sum(
            math.prod(map(math.comb, (*s, *t), (i, n - i, i, n - i)))
            for i in range(n + 1)
        )

    tables = [[exact(s, t) for t in sizes] for s in sizes]
    assert min(tables[0][0], tables[1][1]) > 2**1024
    cosine = math.sqrt(Fraction(tables[0][1] ** 2, tables[0][0] * tables[1][1]))
    kernel = Normalized(Subsequence(n, 1.0))
    assert 0.001 < cosine < 0.999
    assert_allclose(kernel.value(*("a" * p + "b" * q for p, q in sizes)), cosine)


@pytest.mark.parametrize("decay", [1e-12, 1e-200, 5e-324])
def test_tiny_decay_counts_contiguous_matches_once_normalised(decay):
    X = ["abcabd", "abd", "xyz", "abdabd"]
    near = Normalized(Subsequence(3, decay))(X)
    assert_allclose(near, Normalized(Spectrum(3))(X), rtol=1e-11)


def test_values_too_small_for_float64_are_zero_and_their_cosines_are_not():
    X = ["abcdefgh", "abcdefgx"]
    kernel = Subsequence(4, 1e-100)
    assert_array_equal(kernel(X), 0)
    assert_allclose(Normalized(kernel)(X), [[1, 0.8], [0.8, 1]], rtol=1e-12)


def test_empty_strings_are_alike_and_unlike_all_others():
    X = ["", "a", "abc"]
    assert_array_equal(Subsequence(2)(X)[0], 0)
    assert_array_equal(Normalized(Subsequence(2))(X)[0], [1, 1, 0])
    assert_array_equal(Normalized(Subsequence(1))(X)[0], [1, 0, 0])


# Positional


@few
@given(strategies.sequence_sets(), strategies.sequence_sets(), st.integers(1, 5))
def test_weighted_degree_is_its_definition(X, Y, degree):
    K = WeightedDegree(degree)(X, Y)
    expected = gram(lambda s, t: weighted_degree(s, t, degree), X, Y)
    assert_allclose(K, np.reshape(expected, (len(X), len(Y))), rtol=1e-13, atol=1e-14)


@few
@given(strategies.sequence_sets(), st.integers(1, 4))
def test_weighted_degree_features_give_the_kernel(X, degree):
    kernel = WeightedDegree(degree, [0.5, 0.0, 2.0, 1.0][:degree])
    features = kernel.features(X)
    assert_allclose((features @ features.T).toarray(), kernel(X), rtol=1e-13)
    names = kernel.feature_names(X)
    assert len(set(names)) == len(names) == features.shape[1]


def test_weighted_degree_features_name_the_place():
    kernel, X = WeightedDegree(2, [1.0, 1.0]), ["ATG", "CTG"]
    assert kernel.feature_names(X) == [
        "'A' at 0", "'T' at 1", "'G' at 2", "'C' at 0",
        "'AT' at 0", "'TG' at 1", "'CT' at 0",
    ]  # fmt: skip
    assert kernel.value(*X) == 3


# Edit distance


@few
@given(strategies.texts(12), strategies.texts(12))
def test_edit_distance_is_its_definition(s, t):
    assert edit_distance(s, t) == naive_edit_distance(s, t)


@pytest.mark.parametrize("sizes", [(63, 64), (64, 65), (128, 200), (1, 130), (0, 70)])
def test_edit_distance_of_strings_longer_than_a_word(rng, sizes):
    for _ in range(4):
        s, t = ("".join(rng.choice(list("abc"), size=n)) for n in sizes)
        assert edit_distance(s, t) == naive_edit_distance(s, t)
        assert edit_distance(t, s) == naive_edit_distance(s, t)


def test_edit_distance_takes_tokens_and_counts_each_edit_once():
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance(["to", "be"], ["not", "to", "be"]) == 1
    assert edit_distance("", "") == 0
    assert isinstance(edit_distance("a", "b"), int)


def test_edit_distance_of_many_different_tokens_goes_row_by_row(rng):
    # 30,000 different tokens in 469 blocks would take 14 million words of bits each.
    tokens = list(range(48_000))
    assert edit_distance(tokens, [*tokens[:300], -1]) == 47_700


def test_edit_similarity_is_the_exponential_of_the_distance():
    X = ["abc", "abd", ""]
    distances = [[0, 1, 3], [1, 0, 3], [3, 3, 0]]
    assert_allclose(EditSimilarity(0.5)(X), np.exp(-0.5 * np.array(distances)))


@pytest.mark.parametrize("gamma", [1e-9, 0.1, 0.5, 1.0, 1.5])
def test_edit_similarity_is_refuted_by_words_of_two_letters(gamma):
    kernel = EditSimilarity(gamma)
    assert kernel.psd is False
    words = [f"{i:b}"[1:] for i in range(1, 512)]
    K = kernel(words)
    v = np.linalg.eigh(K - K.mean(0) - K.mean(1)[:, None] + K.mean())[1][:, 0]
    # v sums to 0, so that K - 1 shows what rounding hides in K.
    distances = -np.log(K) / gamma
    assert v @ np.expm1(-gamma * np.rint(distances)) @ v < 0


def test_check_finds_edit_similarity_indefinite():
    words = [f"{i:b}"[1:] for i in range(1, 64)]
    assert not check(EditSimilarity(0.5)(words)).psd


def test_edit_similarity_with_a_large_gamma_is_left_undecided():
    assert EditSimilarity(5.0).psd is None
    assert "no counterexample" in EditSimilarity(5.0).proof()


# In machines


# A kernel sees no container, so that not each has to meet every kernel.
@pytest.mark.parametrize(
    "kernel, grid, container",
    [
        (Normalized(Subsequence(2)), {"kernel__kernel__decay": [0.2, 0.9]}, list),
        (Spectrum(2), {"kernel__k": [1, 2]}, list),
        (Spectrum(2), {"kernel__k": [1, 2]}, np.array),
        (Spectrum(2), {"kernel__k": [1, 2]}, pd.Series),
        (Mismatch(2, 1), {"kernel__m": [0, 1]}, np.array),
        (WeightedSubstrings(0.5), {"kernel__decay": [0.5, 1.0]}, pd.Series),
        (EditSimilarity(0.3), {"kernel__gamma": [0.1, 1.0]}, list),
    ],
)
def test_strings_pass_through_grid_searches_and_pipelines(kernel, grid, container, rng):
    # Whoever ends in ab is of the first kind.
    stems = ["".join(rng.choice(list("abc"), size=6)) for _ in range(30)]
    X = container([stem + "ab" * (i % 2) * 3 for i, stem in enumerate(stems)])
    y = np.arange(30) % 2
    search = GridSearchCV(SVC(kernel=kernel, C=10), grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.8
    names = {f"svc__{name}": values for name, values in grid.items()}
    chain = make_pipeline(FunctionTransformer(), SVC(kernel=kernel, C=10))
    assert GridSearchCV(chain, names, cv=3).fit(X, y).best_score_ == search.best_score_
    ridge = KernelRidge(alpha=0.1, kernel=kernel).fit(X, y)
    assert_allclose(ridge.predict(X), y, rtol=0, atol=0.5)


# Parameters


@looped(
    "make, words",
    [
        (lambda: Subsequence(0), "whole number length ≥ 1; got length=0"),
        (lambda: Subsequence(2, 0.0), "decay > 0; got decay=0.0"),
        (lambda: Subsequence(2, 1.5), "decay ≤ 1; got decay=1.5"),
        (lambda: Subsequence(2, 0.5, [1.0]), "2 weights, one for each length"),
        (lambda: Subsequence(2, 0.5, [1.0, -2.0]), "weight of length 2 is -2.0"),
        (lambda: Subsequence(2, 0.5, [0.0, 0]), "a weight > 0"),
        (lambda: WeightedDegree(2.5), "whole number degree ≥ 1; got degree=2.5"),
        (lambda: WeightedDegree(2, "ab"), "2 weights, one for each length"),
        (lambda: EditSimilarity(float("nan")), "gamma > 0; got gamma=nan"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("alphabet", [1, 2, 4, 21, 1000])
def test_weighted_degree_of_long_and_short_sequences_is_its_definition(alphabet):
    # Of several words of 64 places, of their ends, and of none.
    generator = np.random.default_rng(alphabet)
    sizes = [0, 1, 63, 64, 65, 127, 128, 129, 200]
    X = [tuple(generator.integers(0, alphabet, size).tolist()) for size in sizes]
    base = X[-1]
    X += [(*base[:100], alphabet, *base[101:]), base[:190], base[1:]]
    kernel = WeightedDegree(5)
    expected = gram(lambda s, t: weighted_degree(s, t, 5), X, X)
    assert_allclose(kernel(X), expected, rtol=1e-14, atol=0)
    assert_array_equal(kernel(X), kernel(X).T)
    assert_array_equal(kernel.diag(X), np.diagonal(kernel(X)))
    assert_allclose(kernel(X[:3], X), expected[:3], rtol=1e-14, atol=0)
