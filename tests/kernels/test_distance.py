"""The kernel of a distance."""

import math
import pickle

import naive_distances as naive
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from naive import gram
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from mercer import (
    RBF,
    SVC,
    Centered,
    FromDistance,
    Graph,
    KernelKNNClassifier,
    KernelPCA,
    KernelRidge,
    Linear,
    Normalized,
    On,
    WeisfeilerLehman,
    check,
    parse,
)
from mercer.kernels import distance as module
from mercer.kernels import edit_distance
from mercer.theory import feature_distances

few = settings(max_examples=25, deadline=None)
TWINS = {
    "euclidean": naive.euclidean,
    "manhattan": naive.manhattan,
    "chebyshev": naive.chebyshev,
}
WORDS = ["sad", "bad", "bat", "cat", "cart", "carts", "", "scratch", "catcher"]
numbers = st.floats(-3, 3, allow_subnormal=False)
word_lists = st.lists(st.text("abc", max_size=6), min_size=1, max_size=5)


def vectors(seed=0, n=12, d=3):
    return np.random.default_rng(seed).normal(size=(n, d))


# Against the definition


@few
@given(st.data(), st.sampled_from(sorted(TWINS)), st.sampled_from([1.0, 0.5, 0.2]))
def test_it_is_the_formula_on_vectors(data, word, power):
    rows = st.lists(numbers, min_size=3, max_size=3)
    X = data.draw(st.lists(rows, min_size=1, max_size=5))
    kernel = FromDistance(word, data.draw(rows), power)
    expected = gram(naive.from_distance(TWINS[word], kernel.origin, power), X)
    K = kernel(np.array(X))
    assert_allclose(K, expected, rtol=1e-9, atol=1e-9)
    assert_allclose(kernel.diag(np.array(X)), np.diagonal(K), rtol=1e-12, atol=1e-12)
    by_function = FromDistance(TWINS[word], kernel.origin, power)
    assert_allclose(by_function(np.array(X)), expected, rtol=1e-12, atol=1e-12)


@few
@given(word_lists, st.text("abc", max_size=6))
def test_it_is_the_formula_on_words(words, origin):
    expected = gram(naive.from_distance(naive.edit, origin), words)
    assert_array_equal(FromDistance("edit", origin)(words), expected)
    assert_array_equal(FromDistance(edit_distance, origin)(words), expected)


@few
@given(word_lists, st.data())
def test_the_origin_is_the_medoid(words, data):
    n = len(words)
    count = st.lists(st.integers(0, 2), min_size=n, max_size=n)
    weight = data.draw(count.filter(any))
    kernel = FromDistance("edit").resolve(words, np.array(weight, dtype=float))
    assert kernel.origin == naive.medoid(naive.edit, words, weight)
    repeated = [w for w, times in zip(words, weight, strict=True) for _ in range(times)]
    assert FromDistance("edit").resolve(repeated) == kernel


def test_the_medoid_of_vectors_is_that_of_the_distance():
    X = vectors(n=30)
    for word, twin in TWINS.items():
        expected = naive.medoid(twin, X.tolist())
        assert_array_equal(FromDistance(word).resolve(X).origin, expected)
        sparse = FromDistance(word).resolve(sp.csr_array(X))
        assert_array_equal(sparse.origin.toarray()[0], expected)


def test_of_many_points_some_are_candidates(monkeypatch):
    monkeypatch.setattr(module, "MOST_CANDIDATES", 4)
    X = vectors(n=30)
    for word, twin in TWINS.items():
        spread = [sum(twin(x, y) ** 2 for y in X) for x in X[::8]]
        origin = FromDistance(word).resolve(X).origin
        assert_array_equal(origin, X[::8][int(np.argmin(spread))])


# What it is for


@looped("word", sorted(TWINS))
@looped("power", [1.0, 0.5])
def test_it_is_the_inverse_of_the_distances_in_feature_space(word, power):
    X, Y = vectors(0), vectors(1, 5)
    kernel = FromDistance(word, power=power).resolve(X)
    expected = [[TWINS[word](x, y) ** power for y in Y] for x in X]
    assert_allclose(np.sqrt(kernel.sqdist(X, Y)), expected, rtol=1e-12)
    if kernel.psd:
        assert_allclose(feature_distances(kernel, X, Y), expected, rtol=1e-12)


def test_of_the_distance_of_a_kernel_it_is_that_kernel_seen_from_the_origin():
    X, inner = vectors(), RBF(0.5)
    kernel = FromDistance(
        lambda x, y: math.sqrt(max(inner.sqdist(x[None], y[None])[0, 0], 0)), X[3]
    )
    assert_allclose(kernel(X), Centered(inner, X[3:4])(X), atol=1e-12)


def test_with_the_mean_as_origin_it_is_centring():
    X, Y = vectors(), vectors(1, 4)
    kernel = FromDistance("euclidean", X.mean(axis=0))
    assert_allclose(kernel(X, Y), Centered(Linear(), X)(X, Y), atol=1e-12)


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_nothing_cancels_far_from_zero(power):
    X = vectors(n=8)
    X = np.round(X * 2**20) / 2**20  # so that adding 2²⁹ rounds nothing
    near = FromDistance("euclidean", X[0], power)(X)
    far = FromDistance("euclidean", X[0] + 2.0**29, power)(X + 2.0**29)
    assert_allclose(far, near, rtol=1e-11, atol=1e-13)
    sparse = sp.csr_array(X + 2.0**29)
    origin = sp.csr_array(X[:1] + 2.0**29)
    assert_allclose(FromDistance("euclidean", origin, power)(sparse), near,
                    rtol=1e-11, atol=1e-13)  # fmt: skip


def test_single_precision_is_taken_as_it_is():
    X = (vectors(n=9) + 1e4).astype(np.float32)
    for word in TWINS:
        kernel = FromDistance(word, X[0])
        assert_allclose(kernel(X), kernel(X.astype(float)), rtol=1e-12, atol=1e-15)


def test_sparse_points_stay_sparse():
    X = sp.random_array((30, 100_000), density=1e-4, rng=0, format="csr")
    kernel = FromDistance("euclidean").resolve(X)
    assert sp.issparse(kernel.origin) and sp.issparse(kernel._around_origin(X))
    dense = FromDistance("euclidean", kernel.origin.toarray()[0])
    assert_allclose(kernel(X), dense(X.toarray()), rtol=1e-12, atol=1e-14)


# Validity


def test_distances_of_a_hilbert_space_are_proved():
    for kernel in (
        FromDistance("euclidean"),
        FromDistance("euclidean", power=0.5),
        FromDistance("manhattan", power=0.5),
        FromDistance("manhattan", power=0.1),
    ):
        assert kernel.psd is True
        X = vectors(n=40)
        assert check(kernel.resolve(X), X).psd
    for kernel in (
        FromDistance("manhattan"),
        FromDistance("manhattan", power=0.51),
        FromDistance("chebyshev", power=0.1),
        FromDistance("edit"),
        FromDistance("edit", power=0.5),
        FromDistance(naive.euclidean),
    ):
        assert kernel.psd is None and "check" in kernel.proof()


def test_a_star_of_manhattan_distances_is_in_no_hilbert_space():
    # The four points are 2 apart from each other, and 1 from the fifth.
    star = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1], [0, 0]])
    assert not check(FromDistance("manhattan").resolve(star), star).psd
    root = FromDistance("manhattan", power=0.5).resolve(star)
    assert check(root, star).psd


def test_check_decides_about_edit_distances():
    assert not check(FromDistance("edit", "cat"), WORDS).psd
    assert check(FromDistance("edit", "ab"), ["a", "ab", "abc"]).psd


# Machines, algebra, text


def test_machines_learn_by_a_distance():
    rng = np.random.default_rng(0)
    words = ["".join(rng.permutation(list(w))) for w in ["aaab", "aaaab"] * 10]
    words += ["".join(rng.permutation(list(w))) for w in ["bbba", "bbbba"] * 10]
    target = np.repeat([0, 1], 20)
    kernel = FromDistance("edit", power=0.5)
    for machine in (SVC(kernel=kernel), KernelKNNClassifier(3, kernel=kernel)):
        assert machine.fit(words[::2], target[::2]).score(words, target) > 0.9
    small = FromDistance("edit", power=0.2)
    ridge = KernelRidge(kernel=small + 1.0, alpha=0.1).fit(words, target)
    assert ridge.score(words, target) > 0.5
    assert KernelPCA(2, kernel=small).fit_transform(words).shape == (40, 2)
    search = GridSearchCV(SVC(kernel=kernel), {"kernel__power": [0.1, 0.5]}, cv=3)
    assert search.fit(words, target).best_score_ > 0.8


def test_any_points_have_distances():
    graphs = [Graph([(i, i + 1) for i in range(n)]) for n in range(1, 5)]

    def by_size(g, h):
        return abs(len(g.nodes) - len(h.nodes))

    K = FromDistance(by_size).resolve(graphs)(graphs)
    sizes = np.array([2.0, 3, 4, 5])
    assert_array_equal(K, np.outer(sizes - 3, sizes - 3))
    apart = FromDistance(lambda x, y: abs(x - y)).resolve([1.0, 5.0, 2.0])
    assert apart.origin == 2.0 and apart.value(5.0, 1.0) == -3.0
    records = [(1.0, "cat"), (2.0, "bat"), (2.5, "cart")]
    mixed = On(0, FromDistance("euclidean")) + On(1, FromDistance("edit", power=0.5))
    assert Normalized(mixed.resolve(records))(records).shape == (3, 3)
    kernel = FromDistance(by_size, graphs[0]) * WeisfeilerLehman(1)
    assert kernel(graphs, graphs[:2]).shape == (4, 2)


def test_it_is_a_value():
    kernel = FromDistance("edit", "cat", 0.5)
    assert parse(repr(kernel)) == kernel == clone(kernel)
    assert parse("FromDistance('manhattan', power=0.5)").power == 0.5
    resolved = FromDistance("euclidean").resolve(vectors())
    assert pickle.loads(pickle.dumps(resolved)) == resolved == clone(resolved)
    assert resolved.resolve(vectors(1)) is resolved


def test_the_origin_is_a_copy():
    X = vectors()
    machine = SVC(kernel=FromDistance("manhattan")).fit(X, np.arange(12) % 2)
    before = machine.decision_function(vectors(1))
    X[:] = 0
    assert_array_equal(machine.decision_function(vectors(1)), before)


# What is refused


@looped(
    "distance, message",
    [
        (lambda x, y: -abs(x - y), r"finite and ≥ 0; that of point 0 and .* is -1.0"),
        (lambda x, y: math.nan, "finite and ≥ 0; that of point 0 .* is nan"),
        (lambda x, y: 0 if x == y else math.inf, "that of point 0 and .* is inf"),
        (lambda x, y: 0 if x == y else 1e200, "not finite at point"),
        (lambda x, y: 1.0, r"d\(x, x\) = 0; the distance of point 0 to itself is 1.0"),
        (lambda x, y: abs(x - y) * (1 + (x < y)), r"d\(x, y\) = d\(y, x\); between"),
    ],
)
def test_what_is_no_distance_is_refused(distance, message):
    for call in (
        lambda: FromDistance(distance).resolve([1.0, 2.0, 4.0]),
        lambda: FromDistance(distance, 2.0)([1.0, 2.0, 4.0]),
        lambda: FromDistance(distance, 2.0).sqdist([1.0, 2.0, 4.0]),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_the_error_names_the_pair():
    def lopsided(x, y):
        return abs(x - y) + (0.5 if (x, y) == (3, 7) else 0)

    with pytest.raises(ValueError, match=r"between point 3 and point 7 it is 4\.5 one"):
        FromDistance(lopsided).resolve(list(range(10)))
    with pytest.raises(ValueError, match="between point 3 and the origin"):
        FromDistance(lopsided, 7).diag(list(range(10)))


def test_symmetry_is_looked_for_among_many_points(monkeypatch):
    monkeypatch.setattr(module, "ALL_PAIRS", 5)
    asked = []

    def apart(x, y):
        asked.append((x, y))
        return abs(x - y)

    FromDistance(apart, 0)._between(list(range(30)), None)
    assert len(asked) < 0.65 * 30**2
    with pytest.raises(ValueError, match=r"d\(x, y\) = d\(y, x\)"):
        FromDistance(lambda x, y: abs(x - y) * (1 + (x < y))).resolve(list(range(30)))


@looped(
    "make, kind, message",
    [
        (lambda: FromDistance("euclidian"), ValueError, "Did you mean 'euclidean'"),
        (lambda: FromDistance(3), ValueError, "got distance=3"),
        (lambda: FromDistance(RBF(1.0)), TypeError, "is a kernel already"),
        (lambda: FromDistance("edit", power=0), ValueError, "power=0"),
        (lambda: FromDistance("edit", power=1.5), ValueError, "power=1.5"),
        (lambda: FromDistance("edit")(WORDS), ValueError, r"call resolve\(X\) first"),
        (lambda: FromDistance("edit").resolve([]), ValueError, "got no points"),
        (lambda: FromDistance("edit", "a")([3]), TypeError, "compares strings"),
        (
            lambda: FromDistance("euclidean", [0.0])(WORDS),
            TypeError,
            "point 0 is the string",
        ),
        (lambda: FromDistance("euclidean", [0.0])(vectors()), ValueError, "1 numbers"),
        (lambda: FromDistance("manhattan", [0.0])(vectors()), ValueError, "dimension"),
        (lambda: FromDistance(lambda x, y: "far", 1)([1]), TypeError, "returned a str"),
        (
            lambda: FromDistance("euclidean", [0.0])([[np.nan]]),
            ValueError,
            "missing or infinite",
        ),
        (lambda: FromDistance("manhattan", [0.0])([[np.nan]]), ValueError, "is nan"),
        (lambda: FromDistance("euclidean", [0.0])([[1e200]]), ValueError, "Scale the"),
    ],
)
def test_bad_parameters_and_points_are_refused(make, kind, message):
    with pytest.raises(kind, match=message):
        make()
