"""Convolution: the double sum over decompositions, and what it has as special cases."""

from collections import Counter

import catalog
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from mercer.data.trees import Tree
from mercer.kernels import convolution
from mercer.kernels.algebra import Normalized, Pullback
from mercer.kernels.convolution import Convolution
from mercer.kernels.operators import Constant
from mercer.kernels.radial import RBF
from mercer.kernels.tree import SubsetTree, Subtree
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import PairFunction

few = settings(max_examples=25, deadline=None)
WORDS = ["statistics", "computation", "", "a", "ab"]


def same(s, t):
    return float(s == t)


def shared(s, t):
    return float(len(set(s) & set(t)))


equal = PairFunction(same, psd=True)
alike = PairFunction(shared, psd=True)


def splits(word):
    return [(word[:i], word[i:]) for i in range(len(word) + 1)]


def substrings(k):
    return lambda word: [word[i : i + k] for i in range(len(word) - k + 1)]


@given(st.lists(st.text("ab", max_size=4), max_size=4),
       st.lists(st.text("ab", max_size=4), min_size=1, max_size=3))  # fmt: skip
@few
def test_it_is_the_double_sum_over_decompositions(X, Y):
    kernel = Convolution(splits, [alike, equal])
    expected = np.array(
        [
            [
                sum(
                    shared(a, c) * same(b, d)
                    for a, b in splits(x)
                    for c, d in splits(y)
                )
                for y in Y
            ]
            for x in X
        ]
    ).reshape(len(X), len(Y))
    assert_array_equal(kernel(X, Y), expected)


def test_blocks_do_not_show(monkeypatch):
    kernel = Convolution(splits, [alike, equal])
    whole = kernel(WORDS)
    assert_array_equal(whole, whole.T)
    monkeypatch.setattr(convolution, "BLOCK_MB", 1e-5)
    assert_array_equal(kernel(WORDS), whole)
    assert_array_equal(kernel(WORDS, WORDS[1:]), whole[:, 1:])


def test_the_set_kernel_counts_what_two_sets_share():
    kernel = Convolution(set, equal)
    X = [{1, 2, 3}, {2, 3, 5}, set(), {"a", 2}]
    assert_array_equal(kernel(X), [[len(x & y) for y in X] for x in X])


def test_the_spectrum_kernel_counts_what_two_strings_share():
    kernel = Convolution(substrings(3), equal)
    assert kernel.value("statistics", "computation") == 2
    counts = [Counter(substrings(3)(word)) for word in WORDS]
    expected = [[sum(s[u] * t[u] for u in s) for t in counts] for s in counts]
    assert_array_equal(kernel(WORDS), expected)


def test_subtrees_are_a_convolution():
    def subtrees(tree):
        found, pending = [], [Tree(tree)]
        while pending:
            node = pending.pop()
            pending.extend(node.children)
            if node.children:
                found.append(node)
        return found

    trees = ["(NP (D the) (N apple))", "(NP (D the) (N pear))", "(S (D the) (D the))"]
    assert_array_equal(Convolution(subtrees, equal)(trees), Subtree(1.0)(trees))


def test_numbers_and_vectors_are_parts_too(rng):
    bags = [rng.normal(size=(size, 2)) for size in (3, 1, 0, 4)]
    kernel = Convolution(list, RBF(0.5))
    for i, x in enumerate(bags):
        for j, y in enumerate(bags):
            total = RBF(0.5)(x, y).sum()
            assert_allclose(kernel(bags)[i, j], total, rtol=1e-12)
    numbers = Convolution(list, Polynomial(2))
    assert_allclose(numbers.value([1.0, 2.0], [3.0]), (1 + 3) ** 2 + (1 + 6) ** 2)
    pairs = Convolution(lambda x: [(x, len(x))], [equal, Linear()])
    assert pairs.value("abc", "abc") == 9


def test_a_point_without_parts_is_like_another_and_like_no_other():
    kernel = Convolution(list, equal)
    assert_array_equal(kernel(["", "ab"]), [[0, 0], [0, 2]])
    assert_array_equal(kernel([""], ["ab"]), [[0]])
    assert_array_equal(kernel([""]), [[0]])
    assert_array_equal(Normalized(kernel)(["", "ab", ""]),
                       [[1, 0, 1], [0, 1, 0], [1, 0, 1]])  # fmt: skip


def test_kernels_of_parts_are_learnt_from_the_parts():
    kernel = Convolution(lambda x: [(w, len(w)) for w in x.split()], [equal, RBF()])
    X = ["a bb ccc", "dd e"]
    lengths = np.array([[1.0], [2], [3], [2], [1]])
    resolved = kernel.resolve(X)
    assert resolved.kernels[1].gamma == RBF().resolve(lengths).gamma
    doubled = kernel.resolve(X, np.array([2.0, 1.0]))
    twice = RBF().resolve(np.vstack([lengths[:3], lengths]))
    assert_allclose(doubled.kernels[1].gamma, twice.gamma)
    with pytest.raises(ValueError, match="none for any of them"):
        Convolution(list, RBF()).resolve(["", ""])


def test_it_is_as_valid_as_its_parts():
    assert Convolution(splits, [alike, equal]).psd is True
    assert Convolution(splits, [alike, PairFunction(same)]).psd is None


def test_parts_are_checked():
    with pytest.raises(ValueError, match=r"2 kernels.* tuples of 2; for point 1 .*'b'"):
        Convolution(lambda x: [(x, x)] if x == "a" else [x], [equal, equal])(["a", "b"])
    with pytest.raises(TypeError, match=r"for point 0 it returned an int \(1\)"):
        Convolution(len, equal)(["a"])
    with pytest.raises(TypeError, match="needs a function parts; got a str"):
        Convolution("splits", equal)
    for kernels in ([], [equal, 2], SubsetTree):
        with pytest.raises(TypeError, match="made of kernels"):
            Convolution(splits, kernels)


@pytest.mark.parametrize("parts, d", [(list, 1), (catalog.splits, 2)])
def test_equal_words_among_the_parts_are_compared_once(parts, d):
    calls = []

    def alike(a, b):
        calls.append((a, b))
        return 1.0 + len(set(a) & set(b))

    kernel = PairFunction(alike)
    X, Y = ["abab" * 5, "", "ba" * 4, "abab" * 5], ["aab" * 6, "bbb"]
    inner = kernel if d == 1 else [kernel, Constant(2.0)]
    K = Convolution(parts, inner)(X, Y)
    assert len(calls) == len({p for x in X for p in parts(x)}) * len(
        {p for y in Y for p in parts(y)}
    )
    first = (lambda p: p) if d == 1 else (lambda p: p[0])
    expected = [
        [
            sum(d * alike(first(p), first(q)) for p in parts(x) for q in parts(y))
            for y in Y
        ]
        for x in X
    ]
    assert_allclose(K, expected, rtol=1e-12)


def test_parts_of_different_types_are_not_taken_for_each_other():
    kinds = PairFunction(lambda a, b: float(type(a) is type(b)))
    K = Convolution(lambda x: x, kinds)([[1, True, 1.0, "1"]])
    assert_allclose(K, [[4.0]])


def test_a_kernel_learns_from_parts_as_often_as_they_occur():
    words = ["aab", "b", "aab"]
    learnt = Convolution(list, Pullback(RBF(), codes)).resolve(words)
    letters = np.array([ord(c) for word in words for c in word], dtype=float)
    gamma = learnt.kernels.kernel.gamma
    assert_allclose(gamma, RBF().resolve(letters[:, None]).gamma, rtol=1e-12)


def codes(letters):
    return np.array([[float(ord(letter))] for letter in letters])
