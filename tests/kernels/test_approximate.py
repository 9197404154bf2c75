"""Approximations as kernels: Nystrom, RandomFourier, PolynomialSketch."""

import copy
import pickle
import threading
import warnings
from functools import partial

import catalog
import naive
import numpy as np
import pytest
import scipy.sparse as sp
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from mercer.data.blocks import as_blocks
from mercer.data.points import count, take
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.kernels import landmarks, nystrom
from mercer.kernels.algebra import Normalized, On
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.graph import WeisfeilerLehman
from mercer.kernels.nystrom import METHODS, Nystrom
from mercer.kernels.parse import parse
from mercer.kernels.radial import RBF, Laplacian, Matern
from mercer.kernels.random_features import PolynomialSketch, RandomFourier
from mercer.kernels.string import Subsequence
from mercer.kernels.substring import Spectrum
from mercer.kernels.tree import SubsetTree
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import BlockFunction, Precomputed
from mercer.machines.pca import KernelPCA
from mercer.machines.ridge import KernelRidge
from mercer.machines.svm import SVC, SVR
from mercer.native import memory

KERNELS = [
    (RBF(0.5), catalog.vectors),
    (Polynomial(2), catalog.vectors),
    (Normalized(Spectrum(2)) + 0.1, catalog.words),
    (Subsequence(2, 0.5), catalog.words),
    (SubsetTree(0.5), catalog.trees),
    (WeisfeilerLehman(2), catalog.graphs),
    (On("age", RBF(0.5)) + On("word", Spectrum(1)), catalog.pandas_frame),
    (On(0, RBF(0.5)) * On(1, Spectrum(1)), catalog.records),
    (Precomputed(catalog.GRAM, psd=True), catalog.indices),
]
on_kernels = pytest.mark.parametrize(
    "kernel, points", KERNELS, ids=[repr(kernel)[:40] for kernel, _ in KERNELS]
)
on_methods = pytest.mark.parametrize("method", METHODS)


def clusters(seed=0, n=600):
    """Many points in one place and a few in many others."""
    rng = np.random.default_rng(seed)
    few = rng.normal(size=(n // 10, 3)) * 6
    return np.vstack([rng.normal(size=(n - len(few), 3)) * 0.1, few])


def trace_error(k, X):
    """trace(K - K̃) / trace K from the matrices."""
    K = k.kernel(X)
    return np.trace(K - k(X)) / np.trace(K)


# Nystrom


def test_nystrom_is_its_formula():
    X, Y, L = (catalog.vectors(seed, n) for seed, n in ((0, 4), (1, 3), (2, 5)))
    k = Nystrom(RBF(0.5), landmarks=L)
    slow = naive.nystrom(lambda x, y: naive.exp(-0.5 * naive.square_distance(x, y)),
                         L.tolist())  # fmt: skip
    assert_allclose(k(X, Y), naive.gram(slow, X.tolist(), Y.tolist()), rtol=1e-10)


@on_methods
@on_kernels
def test_with_all_points_nystrom_is_exact(kernel, points, method):
    X = points(3, 12)
    k = Nystrom(kernel, 12, method=method).resolve(X)
    K = kernel(X)
    assert_allclose(k(X), K, rtol=0, atol=1e-9 * np.abs(K).max())
    assert k.trace_error_on(X) < 1e-9


@on_kernels
def test_trace_error_is_that_of_the_matrices_and_never_below(kernel, points):
    X = points(3, 30)
    for size in (1, 3, 8, 30):
        k = Nystrom(kernel, size, seed=size).resolve(X)
        exact = trace_error(k, X)
        assert exact <= k.trace_error <= exact + 1e-8
        assert k.trace_error >= 0
        assert_allclose(k.trace_error_on(X), exact, atol=1e-11)


@pytest.mark.parametrize("n, size", [(300, 280), (300, 100), (40, 40)])
@pytest.mark.parametrize("gamma", [1e-3, 0.1, 2.0])
def test_trace_error_holds_where_rounding_is_all_that_is_left(n, size, gamma):
    X = np.random.default_rng(n + size).normal(size=(n, 2)) * 2
    k = Nystrom(RBF(gamma), size).resolve(X)
    exact = trace_error(k, X)
    assert max(exact, 0) <= k.trace_error <= exact + 1e-6
    assert np.abs(k(X) - RBF(gamma)(X)).max() <= n * k.trace_error


@pytest.mark.parametrize("seed", range(6))
def test_kernels_of_points_of_all_sizes_are_not_refused_for_their_rounding(seed):
    # k(x, x) from 1 to 1e20: along large points little is left of small ones.
    X = np.random.default_rng(seed).normal(size=(150, 1)) * 100
    k = Nystrom(Polynomial(5), 100, seed=seed).resolve(X)
    assert max(trace_error(k, X), 0) <= k.trace_error < 1e-9
    K = Polynomial(5)(X)
    assert_allclose(k(X), K, rtol=0, atol=1e-9 * K.max())


@pytest.mark.parametrize("error", [0.5, 0.1, 0.01, 1e-4])
def test_error_is_reached_with_no_landmark_more(error):
    X = np.random.default_rng(0).normal(size=(400, 3))
    k = Nystrom(RBF(0.2), error=error).resolve(X)
    assert 0 <= trace_error(k, X) <= k.trace_error <= error
    # The order of the landmarks is that of their choice: one less is not enough.
    fewer = Nystrom(RBF(0.2), landmarks=k.landmarks[:-1])
    assert fewer.trace_error_on(X) > error


def test_a_size_that_misses_the_error_is_said():
    X = np.random.default_rng(0).normal(size=(200, 5))
    with pytest.warns(UserWarning, match="took 7 landmarks .* than error=0.01"):
        k = Nystrom(RBF(), 7, error=0.01).resolve(X)
    assert len(k.landmarks) == 7 and k.trace_error > 0.01
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(Nystrom(RBF(), 200, error=0.3).resolve(X).landmarks) < 100


def test_pivoting_is_better_than_uniform_where_few_points_are_far_out():
    X = clusters()
    mean = {
        method: np.mean(
            [
                Nystrom(RBF(0.05), 40, method=method, seed=s).resolve(X)
                .trace_error_on(X)
                for s in range(5)
            ]
        )
        for method in METHODS
    }  # fmt: skip
    assert mean["pivoted"] < 0.5 * mean["uniform"]
    assert mean["kmeans++"] < 0.5 * mean["uniform"]


def test_pivots_come_with_the_probability_of_what_is_left():
    # k(x, x) is 1, 2 and 4 on three orthogonal points: the first pivot by these shares.
    K = np.diag([1.0, 2.0, 4.0])
    first = np.zeros(3)
    second = np.zeros(3)
    for seed in range(1000):
        k = Nystrom(Precomputed(K, psd=True), 2, seed=seed).resolve(np.arange(3))
        first[k.landmarks[0]] += 1
        second[k.landmarks[1]] += 1
    assert_allclose(first / 1000, [1 / 7, 2 / 7, 4 / 7], atol=0.06)
    expected = [2 / 7 / 5 + 4 / 7 / 3, 1 / 7 / 3 + 4 / 7 * 2 / 3, 4 / 42 + 8 / 35]
    assert_allclose(second / 1000, expected, atol=0.06)


def test_blocks_of_proposals_choose_as_one_at_a_time(monkeypatch):
    X = clusters(n=300)

    def errors():
        return [
            Nystrom(RBF(0.05), 25, seed=s).resolve(X).trace_error for s in range(40)
        ]

    together = errors()
    monkeypatch.setattr(landmarks, "PROPOSALS", 1)
    alone = errors()
    spread = np.std(alone) / np.sqrt(len(alone))
    assert abs(np.mean(together) - np.mean(alone)) < 4 * np.hypot(spread, spread)


@on_methods
@on_kernels
def test_equal_seeds_give_equal_landmarks_and_others_do_not(kernel, points, method):
    X = points(3, 30)
    one, same = (Nystrom(kernel, 4, method=method).resolve(X) for _ in range(2))
    assert one == same
    others = [Nystrom(kernel, 4, method=method, seed=s).resolve(X) for s in range(1, 9)]
    assert any(other(X).tolist() != one(X).tolist() for other in others)


@on_methods
def test_points_of_weight_0_are_not_there(method):
    X = np.random.default_rng(0).normal(size=(60, 3))
    weight = np.arange(60) % 3 / 2
    k = Nystrom(RBF(), 20, method=method).resolve(X, weight)
    there = X[weight > 0]
    some = Nystrom(RBF(), 20, method=method).resolve(there, weight[weight > 0])
    assert k == some
    assert k.trace_error == some.trace_error


def test_weight_2_is_the_point_twice():
    X = np.random.default_rng(0).normal(size=(50, 3))
    weight = np.random.default_rng(1).integers(0, 4, size=50)
    k = Nystrom(RBF(), 10).resolve(X, weight.astype(float))
    twice = Nystrom(RBF(), 10).resolve(np.repeat(X, weight, axis=0))
    assert_array_equal(k.landmarks, twice.landmarks)
    assert_allclose(k.trace_error, twice.trace_error, rtol=1e-9)


@on_methods
def test_duplicates_and_more_landmarks_than_the_rank(method):
    X = np.tile(np.random.default_rng(0).normal(size=(10, 2)), (4, 1))
    k = Nystrom(Polynomial(2), 40, method=method).resolve(X)  # of rank 6
    assert k.features(X).shape == (40, 6)
    assert len(k.feature_names()) == 6
    assert_allclose(k(X), Polynomial(2)(X), rtol=1e-9)
    if method == "pivoted":
        assert len(k.landmarks) == 6


def test_the_same_landmark_twice_has_one_feature():
    k = Nystrom(RBF(0.5), landmarks=[[0.0], [1.0], [0.0]])
    assert k.feature_names() == ["landmark 0", "landmark 1"]
    once = Nystrom(RBF(0.5), landmarks=[[0.0], [1.0]])
    assert_array_equal(k([[2.0], [3.0]]), once([[2.0], [3.0]]))


def test_points_without_features_have_none():
    k = Nystrom(Spectrum(3), 2).resolve(["a", "b", "cd"])  # too short for any
    assert k.trace_error == 0
    assert_array_equal(k(["abcd", "ab"]), np.zeros((2, 2)))


def test_float32_points_have_float32_features_of_double_precision():
    X = np.random.default_rng(0).normal(size=(80, 3)).astype(np.float32)
    single, wide = (Nystrom(RBF(0.5), 40).resolve(A) for A in (X, X.astype(float)))
    assert single.landmarks.dtype == np.float32
    assert single.features(X).dtype == np.float32
    assert single.trace_error == wide.trace_error
    assert_allclose(single.features(X), wide.features(X.astype(float)), atol=1e-6)


def test_trace_error_is_not_of_another_kernel():
    X = catalog.vectors(0, 20)
    k = Nystrom(RBF(0.5), 5).resolve(X)
    for twin in (copy.copy(k), copy.deepcopy(k), pickle.loads(pickle.dumps(k))):
        assert twin == k and twin.trace_error == k.trace_error
    assert clone(k) == k and clone(k).trace_error is None
    changed = copy.deepcopy(k).set_params(kernel__gamma=2.0)
    assert changed.trace_error is None
    assert_allclose(changed(X), Nystrom(RBF(2.0), landmarks=k.landmarks)(X))
    k.kernel.set_params(gamma=2.0)
    assert k.trace_error is None
    assert_allclose(k(X), changed(X))
    assert Nystrom(RBF(), 5, method="uniform").resolve(X).trace_error is None


def test_products_hold_no_matrix_of_all_features(monkeypatch):
    X, V = catalog.vectors(0, 50), np.random.default_rng(0).normal(size=(50, 2))
    k = Nystrom(RBF(0.5), 8).resolve(X)
    seen = []
    mapped = Nystrom._mapped
    monkeypatch.setattr(
        Nystrom, "_mapped", lambda self, X: seen.append(count(X)) or mapped(self, X)
    )
    product = Gram(k, X, block_mb=8 * 8 * 10 / 2**20) @ V
    assert max(seen) == 10
    assert_allclose(product, k(X) @ V, rtol=1e-10)
    for wrong in (V[:49], np.vstack([V, V])):
        with pytest.raises(ValueError, match="each of the 50 points"):
            k.matmul(X, None, wrong)


def test_landmarks_are_chosen_by_blocks_of_the_matrix(monkeypatch):
    X, largest = np.random.default_rng(0).normal(size=(500, 2)), []

    def block(A, B):
        largest.append(len(A) * len(B))
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2))

    Nystrom(BlockFunction(block, psd=True), 30).resolve(X)
    assert max(largest) <= 500 * 30
    assert sum(largest) < 500 * 60


def test_bad_parameters_are_refused():
    with pytest.raises(ValueError, match=r"size, the number of landmarks; or error"):
        Nystrom(RBF())
    for size in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="whole number size ≥ 1"):
            Nystrom(RBF(), size)
    for error in (0, 1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match="0 < error < 1"):
            Nystrom(RBF(), error=error)
    with pytest.raises(ValueError, match="pivoted, uniform, kmeans"):
        Nystrom(RBF(), 3, method="best")
    with pytest.raises(ValueError, match="method='pivoted' only"):
        Nystrom(RBF(), error=0.1, method="uniform")
    with pytest.raises(ValueError, match="at least one landmark"):
        Nystrom(RBF(), landmarks=np.empty((0, 2)))
    with pytest.raises(ValueError, match="positive semidefinite kernel; Sigmoid"):
        Nystrom(Sigmoid(1.0), 3)
    with pytest.raises(TypeError, match="made of kernels; got 'rbf'"):
        Nystrom("rbf", 3)


def test_more_landmarks_than_points_are_refused_by_number():
    X = catalog.vectors(0)
    with pytest.raises(ValueError, match=r"size=20\).* got 7 points.* size ≤ 7"):
        Nystrom(RBF(), 20).resolve(X)
    with pytest.raises(ValueError, match="got 3 points"):
        Nystrom(RBF(1.0), 5).resolve(X, np.array([1, 1, 1, 0, 0, 0, 0.0]))
    with pytest.raises(ValueError, match="got 0 points"):
        Nystrom(RBF(1.0), error=0.1).resolve(X[:0])


def test_unresolved_kernels_say_what_to_call():
    X = catalog.vectors(0)
    for k in (
        Nystrom(RBF(1.0), 3),
        RandomFourier(RBF(1.0), 4),
        PolynomialSketch(Polynomial(2), 4),
    ):
        for ask in (k, k.diag, k.features, k.feature_names, k.entry_error):
            with pytest.raises(ValueError, match=r"call .*resolve\(X\) first"):
                ask(X)


def test_missing_and_infinite_numbers_are_refused():
    X = catalog.vectors(0, 20)
    bad = X.copy()
    for k in (Nystrom(RBF(1.0), 4), RandomFourier(RBF(1.0), 4)):
        k = k.resolve(X)
        for number in (np.nan, np.inf):
            bad[3, 1] = number
            with pytest.raises(ValueError, match=r"point 3|finite"):
                k(bad)
    with pytest.raises(ValueError, match=r"missing|finite"):
        Nystrom(RBF(1.0), 4).resolve(bad)


def test_what_is_no_kernel_is_refused_where_it_shows():
    X = np.random.default_rng(0).normal(size=(40, 2))
    K = X @ np.diag([1.0, -1.0]) @ X.T
    with pytest.raises(ValueError, match=r"k\(x, x\) = -"):
        Nystrom(Precomputed(K), 10).resolve(np.arange(40))
    K = K + 4 * np.eye(40) + np.diag(X[:, 1] ** 2)
    K[0, 1] = K[1, 0] = 50.0
    with pytest.raises(ValueError, match="is not on these points"):
        Nystrom(Precomputed(K), 40).resolve(np.arange(40))
    with pytest.raises(ValueError, match="on its landmarks"):
        Nystrom(Precomputed(K), landmarks=np.arange(40))([0, 1])


def test_landmarks_that_take_too_much_memory_are_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1e4)
    X = np.random.default_rng(0).normal(size=(500, 2))
    with pytest.raises(MemoryError, match=r"500 points.* method='uniform'"):
        Nystrom(RBF(1.0), 100).resolve(X)
    Nystrom(RBF(1.0), 100, method="uniform").resolve(X)


def test_points_of_another_dimension_are_refused():
    X = catalog.vectors(0)
    for k in (
        Nystrom(RBF(1.0), 4),
        RandomFourier(RBF(1.0), 4),
        PolynomialSketch(Polynomial(2), 4),
    ):
        with pytest.raises(ValueError, match=r"3 columns|columns"):
            k.resolve(X)(X[:, :2])


# Random Fourier features


@looped("orthogonal", [True, False])
@looped(
    "kernel, scale",
    [
        (RBF(0.5), 1.0),
        (RBF(2.0), 2.0),
        (Matern(1.5, 2.0), 0.5),
        (Matern(float("inf"), 2.0), 0.5),
        (Laplacian(0.3), 0.3),
    ],
    ids=repr,
)
def test_random_fourier_is_the_mean_of_waves(kernel, scale, orthogonal):
    X, Y = catalog.vectors(0, 4), catalog.vectors(1, 3)
    k = RandomFourier(kernel, 10, orthogonal=orthogonal).resolve(X)
    assert k.frequencies.shape == (3, 5)
    slow = naive.random_fourier((scale * k.frequencies.T).tolist())
    assert_allclose(k(X, Y), naive.gram(slow, X.tolist(), Y.tolist()), atol=1e-13)
    assert_allclose(k.diag(X), 1, rtol=1e-14)


FOURIER = [RBF(0.3), Laplacian(0.2), Matern(0.5, 2.0), Matern(1.5), Matern(2.5, 0.7)]


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("kernel", FOURIER, ids=repr)
def test_random_fourier_falls_like_one_over_the_root_of_its_size(kernel, orthogonal):
    X = np.random.default_rng(0).normal(size=(60, 4))

    def error(size):
        made = (RandomFourier(kernel, size, s, orthogonal) for s in range(8))
        gaps = [k.resolve(X)(X) - kernel(X) for k in made]
        return np.sqrt(np.mean(np.square(gaps)))

    small, large = error(64), error(64 * 64)
    assert 4 < small / large < 16  # about 8
    # A wave has variance (1 + k(2x, 2y)) / 2 - k² ≤ ½ or so; p of them 1/p of it.
    assert small < 1 / np.sqrt(32)


@pytest.mark.parametrize("kernel", FOURIER, ids=repr)
def test_random_fourier_has_the_mean_of_its_kernel(kernel):
    X = np.random.default_rng(0).normal(size=(6, 3))
    made = [RandomFourier(kernel, 2000, s).resolve(X)(X) for s in range(40)]
    assert_allclose(np.mean(made, axis=0), kernel(X), atol=0.02)


def test_orthogonal_frequencies_are_so_within_blocks_and_better():
    X = np.random.default_rng(0).normal(size=(50, 8)) * 0.5
    k = RandomFourier(RBF(0.5), 40).resolve(X)
    for start, stop in ((0, 8), (8, 16), (16, 20)):
        W = k.frequencies[:, start:stop]
        cosines = W.T @ W / np.outer(*2 * [np.linalg.norm(W, axis=0)])
        assert_allclose(cosines, np.eye(stop - start), atol=1e-12)

    def error(orthogonal):
        made = [RandomFourier(RBF(0.5), 64, s, orthogonal) for s in range(30)]
        return np.mean([k.resolve(X).entry_error(X).root_mean_square for k in made])

    assert error(True) < 0.9 * error(False)


def test_laplacian_says_that_orthogonal_does_not_apply():
    X = catalog.vectors(0)
    one, other = (RandomFourier(Laplacian(1.0), 8, 0, how) for how in (True, False))
    assert_array_equal(one.resolve(X).frequencies, other.resolve(X).frequencies)
    assert "orthogonal does not apply" in one.proof()
    assert "orthogonal" not in other.rule().reason


def test_frequencies_follow_the_scale_of_the_kernel():
    X = catalog.vectors(0)
    k = RandomFourier(RBF(0.5), 8).resolve(X)
    wide = copy.deepcopy(k).set_params(kernel__gamma=2.0)
    assert_allclose(wide(X), RandomFourier(RBF(2.0), 8).resolve(X)(X), rtol=1e-12)
    assert_allclose(wide(X), k(2 * X), rtol=1e-12)


def test_random_fourier_refuses_what_it_does_not_know():
    for kernel in (Linear(), 2 * RBF(1.0), Spectrum(2)):
        with pytest.raises(TypeError, match="RBF, Matern and Laplacian; got"):
            RandomFourier(kernel, 4)
    with pytest.raises(ValueError, match=r"even size.*size=5"):
        RandomFourier(RBF(), 5)
    with pytest.raises(TypeError, match="orthogonal=True or False"):
        RandomFourier(RBF(), 4, orthogonal="yes")
    with pytest.raises(ValueError, match=r"\(d, 2\) array of frequencies"):
        RandomFourier(RBF(), 4, frequencies=np.ones((3, 3)))
    with pytest.raises(ValueError, match="finite frequencies"):
        RandomFourier(RBF(), 4, frequencies=np.full((3, 2), np.inf))


# Polynomial sketches


@looped("form", [np.asarray, sp.csr_array])
@looped(
    "kernel",
    [Linear(), Polynomial(2), Polynomial(3, 0.5, 0), Polynomial(3, 2.0, 0.7)],
    ids=repr,
)
@looped("size", [1, 5, 8])
def test_sketch_adds_up_all_products(kernel, size, form):
    X = catalog.vectors(0, 4)
    k = PolynomialSketch(kernel, size).resolve(X)
    H = k.hashes
    scale, offset = getattr(kernel, "scale", 1.0), getattr(kernel, "offset", 0.0)
    columns = np.where(H < 0, -1 - H, H).tolist()
    signs = np.where(H < 0, -1.0, 1.0).tolist()
    expected = [
        naive.tensor_sketch([*(np.sqrt(scale) * x), np.sqrt(offset)], columns, signs,
                            size)
        for x in X
    ]  # fmt: skip
    assert_allclose(k.features(form(X)), expected, atol=1e-12)


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2), Polynomial(3, 0.5, 0.3)])
def test_sketch_is_unbiased(kernel):
    X = np.random.default_rng(0).normal(size=(5, 3)) * 0.6
    made = [PolynomialSketch(kernel, 20, s).resolve(X)(X) for s in range(400)]
    error = np.std(made, axis=0) / np.sqrt(len(made))
    assert (np.abs(np.mean(made, axis=0) - kernel(X)) < 4.5 * error + 1e-12).all()


def test_sketch_of_degree_0_is_the_constant():
    k = PolynomialSketch(Polynomial(0), 6).resolve(catalog.vectors(0))
    assert_allclose(k(catalog.vectors(0)), 1, rtol=1e-12)


def test_sketch_refuses_what_it_does_not_know():
    with pytest.raises(TypeError, match="Polynomial and Linear; got RBF"):
        PolynomialSketch(RBF(), 4)
    with pytest.raises(ValueError, match="products of 20,000"):
        PolynomialSketch(Polynomial(20_000), 4)
    with pytest.raises(ValueError, match=r"shape \(2, d \+ 1\)"):
        PolynomialSketch(Polynomial(2), 4, hashes=np.zeros((3, 4), dtype=int))
    with pytest.raises(ValueError, match="hashes from -4 to 3; got 0 to 9"):
        PolynomialSketch(Polynomial(2), 4, hashes=np.full((2, 4), 9) * [0, 1, 1, 1])


# All of them


APPROXIMATE = [
    Nystrom(RBF(), 12),
    Nystrom(RBF(), error=0.2, seed=3),
    RandomFourier(RBF(), 40),
    PolynomialSketch(Polynomial(2, None), 30),
    2 * Normalized(Nystrom(RBF(), 5)) + Linear(),
    On([0, 1], Nystrom(Laplacian(), 5)) * RandomFourier(Matern(1.5), 6),
]


@pytest.mark.parametrize("kernel", APPROXIMATE, ids=lambda k: repr(k)[:50])
def test_machines_take_them_as_the_matrix_of_their_features(kernel):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(60, 3)), rng.normal(size=(9, 3))
    y = np.sin(X[:, 0])
    resolved = kernel.resolve(X)
    for machine, target in ((KernelRidge(0.1), y), (SVR(), y), (SVC(), y > 0)):
        fitted = clone(machine).set_params(kernel=kernel).fit(X, target)
        matrix = clone(machine).set_params(kernel="precomputed")
        matrix.fit(resolved(X), target)
        used = getattr(fitted, "approximation_", fitted.expansion_.kernel)
        assert used == resolved
        found, expected = fitted.predict(new), matrix.predict(resolved(new, X))
        assert_allclose(found, expected, atol=1e-4)


def test_components_of_nystrom_are_those_of_its_features():
    X = np.random.default_rng(0).normal(size=(50, 3))
    machine = KernelPCA(3, kernel=Nystrom(RBF(), 10)).fit(X)
    features = Nystrom(RBF(), 10).resolve(X).features(X)
    centred = features - features.mean(axis=0)
    values = np.linalg.eigvalsh(centred.T @ centred)[::-1]
    assert_allclose(machine.eigenvalues_, values[:3], rtol=1e-9)


def test_strings_and_graphs_are_classified_through_landmarks():
    words = catalog.words(0, 60)
    y = np.array([word.count("a") > 0 for word in words])
    machine = SVC(C=10.0, kernel=Nystrom(Spectrum(1), error=1e-3)).fit(words, y)
    assert machine.score(words, y) > 0.95
    graphs = catalog.graphs(0, 40)
    y = np.arange(40) % 2
    machine = SVC(kernel=Nystrom(WeisfeilerLehman(1), 15)).fit(graphs, y)
    assert machine.predict(take(graphs, slice(0, 3))).shape == (3,)


def test_entry_error_is_exact_on_few_points_and_seeded_on_many():
    X = np.random.default_rng(0).normal(size=(300, 3))
    k = Nystrom(RBF(0.5), 10).resolve(X)
    gap = np.abs(k(X) - RBF(0.5)(X))
    whole = k.entry_error(X)
    assert_allclose(whole, (np.sqrt(np.mean(gap**2)), gap.max(), 300))
    some = k.entry_error(X, sample=50)
    assert some == k.entry_error(X, sample=50) and some.points == 50
    assert some != k.entry_error(X, sample=50, seed=1)
    assert some.largest <= whole.largest
    assert "estimate" in Nystrom.entry_error.__doc__
    with pytest.raises(ValueError, match="sample ≥ 1"):
        k.entry_error(X, sample=0)


def test_a_pipeline_with_an_approximation_is_told_the_transformer():
    X, y = catalog.vectors(0, 20), np.arange(20) % 2
    cases = {
        Nystrom: (Nystrom(RBF(), 5), "Nystroem"),
        RandomFourier: (RandomFourier(RBF(), 4), "RBFSampler"),
        PolynomialSketch: (PolynomialSketch(Polynomial(2), 4), "PolynomialCountSketch"),
    }
    for kind, (kernel, other) in cases.items():
        message = f"FeatureMap\\({kind.__name__}.* {other}"
        with pytest.raises(TypeError, match=message):
            make_pipeline(kernel, SVC(kernel="linear")).fit(X, y)
        for method in (kernel.fit, kernel.transform, kernel.fit_transform):
            with pytest.raises(TypeError, match=message):
                method(X)


def test_text_is_parsed_before_and_with_lists_after_resolve():
    for text in (
        "Nystrom(RBF(), 20, error=0.1)",
        "Nystrom(Spectrum(2), landmarks=['ab', 'bc'])",
        "RandomFourier(Matern(1.5), 10) + 2 * PolynomialSketch(Polynomial(2), 5)",
    ):
        kernel = parse(text)
        assert parse(repr(kernel)) == kernel
        assert kernel.psd is True


@pytest.mark.parametrize(
    "kernel",
    [
        Nystrom(RBF(0.5), 12),
        RandomFourier(RBF(0.5), 40),
        PolynomialSketch(Polynomial(2), 30),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_an_expansion_is_evaluated_by_the_weights_of_its_features(kernel):
    rng = np.random.default_rng(5)
    A, B = rng.normal(size=(60, 3)), rng.normal(size=(20, 3))
    kernel = kernel.resolve(A)
    for shape in (60, (60, 2)):
        f = Expansion(kernel, A, rng.normal(size=shape), bias=1.0)
        expected = kernel(B, A) @ f.coef + 1.0
        assert_allclose(f(B), expected, atol=1e-9 * np.abs(expected).max())
        assert_allclose(f(B), f(B.astype(np.float32)), atol=1e-5)
        assert_allclose(pickle.loads(pickle.dumps(f))(B), f(B), rtol=0)


def test_new_points_meet_the_landmarks_alone():
    seen = []

    def gaussian(X, Y):
        seen.append(X.shape[0] * Y.shape[0])
        return RBF(0.5)(X, Y)

    A = np.random.default_rng(6).normal(size=(200, 3))
    f = SVC(kernel=Nystrom(BlockFunction(gaussian, psd=True), 10)).fit(A, A[:, 0] > 0)
    f.predict(A)
    seen.clear()
    f.predict(A[:7])
    assert sum(seen) == 7 * 10


@pytest.mark.parametrize(
    "make", [partial(RandomFourier, RBF(1.0)), partial(PolynomialSketch, Polynomial(2))]
)
def test_a_map_too_wide_to_write_out_is_refused_with_its_columns(make):
    with pytest.raises(ValueError, match=r"1,000,000,000,000 columns.*itself"):
        make(10**12)


def test_landmarks_of_a_stream_are_sought_by_one_thread():
    X = np.random.default_rng(0).normal(size=(60_000, 20))
    readers = set()

    class Stream:
        def blocks(self):
            for begin in range(0, len(X), 10_000):
                readers.add(threading.get_ident())
                yield X[begin : begin + 10_000]

    kernel = Nystrom(RBF(0.05), 20)
    found = kernel.resolve(as_blocks(Stream()))
    assert len(readers) == 1
    assert_array_equal(found.landmarks, kernel.resolve(X).landmarks)


def test_long_points_are_pivoted_among_some_of_them_sooner(monkeypatch):
    monkeypatch.setattr("mercer.kernels.nystrom.LONG", 200 * 10 * (10 + 2))
    for d in (2, 50):
        points = np.random.default_rng(0).normal(size=(200, d))
        k = Nystrom(RBF(0.1), 10).resolve(points)
        assert len(k.landmarks) == 10 and (k.trace_error is None) == (d == 50)


def test_features_of_compiled_kernels_are_those_of_any(monkeypatch):
    points = np.random.default_rng(0).normal(size=(3000, 3))
    k = Nystrom(RBF(0.5), 40).resolve(points)
    for X in (points, sp.csr_array(points), points[:0], points.astype(np.float32)):
        found = k.features(X)
        monkeypatch.setattr(Nystrom, "_is_compiled_on", lambda self, X: False)
        expected = k.features(X)
        monkeypatch.undo()
        assert found.dtype == expected.dtype and found.shape == expected.shape
        assert_allclose(found, expected, atol=1e-6 if X.dtype == np.float32 else 1e-12)


def test_blocks_of_long_points_with_few_landmarks_are_bounded(monkeypatch):
    points = np.random.default_rng(0).normal(size=(300, 500))
    kernel = Nystrom(RBF(0.001), 5).resolve(points)
    expected = kernel.features(points)
    monkeypatch.setattr(nystrom, "NEAR_MB", 0.2)  # 52 points
    sizes, fill = [], Nystrom.fill_products

    def counted(self, X, out):
        sizes.append(len(X))
        fill(self, X, out)

    monkeypatch.setattr(Nystrom, "fill_products", counted)
    assert_allclose(kernel.features(points), expected, rtol=1e-12)
    assert sum(sizes) == 300 and max(sizes) <= 53
