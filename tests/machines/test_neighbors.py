"""Kernel k-NN: scikit-learn's answers where it has them, the definition everywhere."""

import pickle

import catalog
import naive
import naive_neighbors
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from checks import machine_checks
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from mercer.data.graphs import Graph
from mercer.data.points import take
from mercer.kernels.algebra import Normalized
from mercer.kernels.graph import WeisfeilerLehman
from mercer.kernels.radial import RBF, Laplacian, Matern
from mercer.kernels.substring import Spectrum
from mercer.kernels.tree import SubsetTree
from mercer.kernels.vector import Exponential, Linear, Polynomial
from mercer.kernels.ways import PairFunction, Precomputed
from mercer.machines.neighbors import KernelKNNClassifier, KernelKNNRegressor
from mercer.native import threads, vectors
from mercer.native.vectors import Recipe
from mercer.solvers import nearest as search
from mercer.solvers.nearest import nearest

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 4))
y = rng.integers(0, 3, 120)
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]])
NEW = rng.normal(size=(40, 4))
WEIGHTS = ["uniform", "distance", lambda distance: np.exp(-distance)]
COMPILED = [Linear(), Polynomial(3), RBF(0.3), Laplacian(0.4), Exponential(5.0)]


@machine_checks(
    [
        KernelKNNClassifier(),
        KernelKNNClassifier(kernel="linear", weights="distance"),
        KernelKNNClassifier(kernel="precomputed"),
        KernelKNNRegressor(),
        KernelKNNRegressor(kernel=Laplacian(), weights="distance"),
        KernelKNNRegressor(kernel="precomputed"),
    ]
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


# scikit-learn's machines


@pytest.mark.parametrize("weights", WEIGHTS, ids=["uniform", "distance", "function"])
@pytest.mark.parametrize("k", [1, 2, 7])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_linear_kernel_gives_scikit_learns_neighbours(weights, k, dtype):
    A, B = X.astype(dtype), NEW.astype(dtype)
    ours = KernelKNNClassifier(k, weights=weights, kernel=Linear()).fit(A, y)
    reference = KNeighborsClassifier(k, weights=weights, algorithm="kd_tree").fit(A, y)
    for points in (B, None):
        distance, index = ours.kneighbors(points)
        expected, number = reference.kneighbors(points)
        assert_array_equal(index, number)
        assert_allclose(distance, expected, rtol=1e-5 if dtype == np.float32 else 1e-12)
    # Weights come from distances, which round differently in the last place.
    tolerance = 0 if weights == "uniform" else 1e-6
    p, expected = ours.predict_proba(B), reference.predict_proba(B)
    assert_allclose(p, expected, atol=tolerance, rtol=tolerance)
    assert_array_equal(ours.predict(B), reference.predict(B))
    assert ours.score(B, y[:40]) == reference.score(B, y[:40])


@looped("weights", WEIGHTS, ids=["uniform", "distance", "function"])
@looped("target", [Y[:, 0], Y])
def test_a_linear_kernel_gives_scikit_learns_regression(weights, target):
    ours = KernelKNNRegressor(4, weights=weights, kernel=Linear()).fit(X, target)
    reference = KNeighborsRegressor(4, weights=weights).fit(X, target)
    assert_allclose(ours.predict(NEW), reference.predict(NEW), rtol=1e-9, atol=1e-12)


def test_a_polynomial_kernel_gives_neighbours_in_its_explicit_features():
    kernel = Polynomial(2, offset=0.5)
    ours = KernelKNNClassifier(5, kernel=kernel).fit(X, y)
    reference = KNeighborsClassifier(5).fit(kernel.features(X), y)
    distance, index = ours.kneighbors(NEW)
    expected, number = reference.kneighbors(kernel.features(NEW))
    assert_array_equal(index, number)
    assert_allclose(distance, expected, rtol=1e-6)
    p = reference.predict_proba(kernel.features(NEW))
    assert_array_equal(ours.predict_proba(NEW), p)


def test_the_gaussian_kernel_ranks_as_euclid_does():
    index = KernelKNNClassifier(kernel=RBF(0.1)).fit(X, y).kneighbors(NEW)[1]
    assert_array_equal(index, KNeighborsClassifier().fit(X, y).kneighbors(NEW)[1])


def test_far_points_are_ranked_where_their_distances_round_to_the_same_number():
    far = NEW + 40
    distance, index = KernelKNNClassifier(kernel=RBF(0.05)).fit(X, y).kneighbors(far)
    assert_allclose(distance, np.sqrt(2), rtol=1e-12)
    expected = KNeighborsClassifier().fit(X, y).kneighbors(far)[1]
    assert_array_equal(index, expected)


def test_each_training_point_is_judged_by_the_others():
    machine = KernelKNNClassifier(3, kernel=Linear()).fit(X, y)
    reference = KNeighborsClassifier(3, algorithm="brute").fit(X, y)
    assert_array_equal(machine.predict_proba(None), reference.predict_proba(None))
    assert_array_equal(machine.predict(None), reference.predict(None))


# Ties, duplicates, rounding


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "kernel", [*COMPILED, Matern(1.5), RBF(0.2) + Linear()], ids=repr
)
def test_equal_points_are_at_distance_0_in_the_order_of_their_numbers(kernel, dtype):
    A = 100 * rng.normal(size=(60, 5)) if isinstance(kernel, Linear) else X[:60] / 3
    A = np.repeat(A.astype(dtype), 3, axis=0)
    machine = KernelKNNClassifier(3, kernel=kernel).fit(A, np.arange(180) % 2)
    distance, index = machine.kneighbors(A)
    assert_array_equal(distance, 0)
    assert_array_equal(index, np.arange(180)[:, None] // 3 * 3 + np.arange(3))
    distance, index = machine.kneighbors(n_neighbors=2)
    assert_array_equal(distance, 0)
    others = [
        [j for j in range(i // 3 * 3, i // 3 * 3 + 3) if j != i] for i in range(180)
    ]
    assert_array_equal(index, others)


@looped("kernel", [*COMPILED, Matern(0.5), Spectrum(2)], ids=repr)
def test_points_all_alike_are_taken_in_order(kernel):
    A = ["acca"] * 50 if isinstance(kernel, Spectrum) else np.full((50, 3), 0.7)
    machine = KernelKNNRegressor(7, kernel=kernel).fit(A, np.arange(50.0))
    distance, index = machine.kneighbors(take(A, slice(0, 4)))
    assert_array_equal(distance, 0)
    assert_array_equal(index, np.tile(np.arange(7), (4, 1)))
    assert_array_equal(machine.predict(take(A, slice(0, 4))), 3)


@settings(max_examples=25)
@given(st.data())
def test_whole_numbers_are_ranked_by_distance_then_number(data):
    size = st.integers(2, 30)
    n, m, seed = data.draw(size), data.draw(size), data.draw(st.integers(0, 99))
    draw = np.random.default_rng(seed)
    A, B = draw.integers(0, 3, (n, 3)), draw.integers(0, 3, (m, 3))
    k = data.draw(st.integers(1, m))
    squares, index = nearest(Linear(), A, B, k)
    D = ((A[:, None] - B) ** 2).sum(axis=2)
    expected = np.argsort(D, axis=1, kind="stable")[:, :k]
    assert_array_equal(index, expected)
    assert_array_equal(squares, np.take_along_axis(D, expected, axis=1))


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_float32_points_far_from_the_origin_keep_their_neighbours(offset):
    A, B = (Z.astype(np.float32) + np.float32(offset) for Z in (X, NEW))
    distance, index = KernelKNNClassifier(kernel=Linear()).fit(A, y).kneighbors(B)
    D = np.linalg.norm(B.astype(float)[:, None] - A.astype(float), axis=2)
    assert_allclose(distance, np.sort(D, axis=1)[:, :5], rtol=1e-9)
    assert_allclose(np.take_along_axis(D, index, 1), distance, rtol=1e-9)


def test_distances_are_never_negative_or_nan():
    A = X + 1e-9 * rng.normal(size=X.shape)
    for kernel in [*COMPILED, Matern(2.5), 3.0 * RBF(0.1)]:
        distance, _ = KernelKNNClassifier(20, kernel=kernel).fit(X, y).kneighbors(A)
        assert (distance >= 0).all()
        assert (np.diff(distance, axis=1) >= 0).all()


def test_a_weight_of_distance_0_is_all_the_weight():
    machine = KernelKNNRegressor(3, weights="distance").fit(X, Y)
    assert_array_equal(machine.predict(X), Y)


# Any points


@looped("kernel, points", catalog.psd_kernels)
def test_neighbours_are_those_of_the_matrix_of_distances(kernel, points):
    A = points(3, 20)
    old, new = take(A, slice(0, 14)), take(A, slice(14, None))
    K = np.asarray(kernel(A), dtype=float)
    D = np.diag(K)[:, None] + np.diag(K) - 2 * K
    squares, index = nearest(kernel, new, old, 5)
    scale = 1e-9 * np.abs(np.diag(K)).max()
    assert (squares >= 0).all()
    assert_allclose(squares, np.sort(D[14:, :14])[:, :5], atol=scale)
    assert_allclose(np.take_along_axis(D[14:, :14], index, 1), squares, atol=scale)
    squares, index = nearest(kernel, old, None, 5)
    D = D[:14, :14] + np.diag(np.full(14, np.inf))
    assert_allclose(squares, np.sort(D)[:, :5], atol=scale)
    assert (index != np.arange(14)[:, None]).all()


def test_tiles_of_any_size_find_the_same_neighbours(monkeypatch):
    kernel = Matern(1.5)
    whole = nearest(kernel, NEW, X, 6), nearest(kernel, X, None, 6)
    monkeypatch.setattr(search, "BLOCK_MB", 8 * 13**2 / 2**20)
    tiles = nearest(kernel, NEW, X, 6), nearest(kernel, X, None, 6)
    for one, other in zip(whole, tiles, strict=True):
        assert_array_equal(one[1], other[1])
        assert_allclose(one[0], other[0], rtol=1e-12)


def test_strings_trees_and_graphs_have_neighbours():
    words = ["banana", "bandana", "canal", "queue", "queued", "quest"]
    machine = KernelKNNClassifier(2, kernel=Spectrum(2)).fit(words, list("aaabbb"))
    assert_array_equal(machine.predict(["cabana", "request"]), ["a", "b"])
    trees = ["(S (A a) (B b))", "(S (A a) (B c))", "(T (C d) (D e))", "(T (C d) (D f))"]
    machine = KernelKNNRegressor(1, kernel=SubsetTree(0.5)).fit(trees, [1.0, 1, 2, 2])
    assert_array_equal(machine.predict(["(T (C g) (D e))"]), [2])
    ring = Graph([(0, 1), (1, 2), (2, 3), (3, 0)], labels="cccc")
    star = Graph([(0, 1), (0, 2), (0, 3)], labels="nccc")
    machine = KernelKNNClassifier(1, kernel=WeisfeilerLehman(2)).fit(
        [ring, star], [0, 1]
    )
    larger = Graph([(0, 1), (0, 2), (0, 3), (0, 4)], labels="ncccc")
    assert_array_equal(machine.predict([larger, ring]), [1, 0])


@pytest.mark.parametrize("kernel", [*COMPILED, Matern(1.5)], ids=repr)
def test_sparse_points_have_the_neighbours_of_dense_ones(kernel):
    A, B = np.where(abs(X) > 0.7, X, 0), np.where(abs(NEW) > 0.7, NEW, 0)
    dense = KernelKNNClassifier(4, kernel=kernel).fit(A, y).kneighbors(B)
    for container in (sp.csr_array, sp.csc_matrix):
        machine = KernelKNNClassifier(4, kernel=kernel).fit(container(A), y)
        distance, index = machine.kneighbors(container(B))
        assert_allclose(distance, dense[0], rtol=1e-9, atol=1e-9)
        assert_array_equal(index, dense[1])


def test_kernel_values_rank_like_their_kernel():
    kernel = Polynomial(2)
    K, across = kernel(X), kernel(NEW, X)
    known = KernelKNNClassifier(kernel=kernel).fit(X, y)
    for word in ("precomputed", Precomputed()):
        machine = KernelKNNClassifier(kernel=word).fit(K, y)
        index = machine.kneighbors(across, return_distance=False)
        assert_array_equal(index, known.kneighbors(NEW, return_distance=False))
        assert_array_equal(machine.predict_proba(across), known.predict_proba(NEW))
        assert_allclose(machine.kneighbors()[0], known.kneighbors()[0], rtol=1e-7)
        with pytest.raises(ValueError, match=r"need k\(x, x\)"):
            machine.kneighbors(across)


def test_data_frames_have_their_columns_named():
    frame = pd.DataFrame(X, columns=list("abcd"))
    machine = KernelKNNClassifier(kernel=Linear()).fit(frame, y)
    assert list(machine.feature_names_in_) == list("abcd")
    found = machine.predict(pd.DataFrame(NEW, columns=list("abcd")))
    assert_array_equal(found, KNeighborsClassifier().fit(X, y).predict(NEW))


def test_an_indefinite_kernel_ranks_but_has_no_distances():
    kernel = PairFunction(lambda a, b: float(abs(a[0] - b[0])), psd=False)
    machine = KernelKNNClassifier(2, kernel=kernel).fit(
        [(1.0,), (2.0,), (5.0,)], [0, 0, 1]
    )
    assert_array_equal(machine.predict([(1.0,)]), [0])
    with pytest.raises(ValueError, match="indefinite on these points"):
        machine.kneighbors([(1.0,)])


# The compiled search


RECIPES = [
    (Recipe("product", "identity"), naive.linear()),
    (Recipe("product", "power", 0.5, 1.0, 3), naive.polynomial(3, 0.5, 1.0)),
    (Recipe("square", "exp", -0.3), naive.rbf(0.3)),
    (Recipe("absolute", "exp", -0.3), naive.laplacian(0.3)),
]


@looped("recipe, k", RECIPES)
@looped("n, m, count", [(1, 1, 1), (3, 50, 4), (30, 17, 17), (5, 900, 3)])
def test_the_core_finds_the_same_points_as_loops(recipe, k, n, m, count):
    A, B = rng.normal(size=(n, 3)), rng.normal(size=(m, 3))
    expected = naive_neighbors.nearest(k, A.tolist(), B.tolist(), count)
    part = "square" if recipe.finish == "identity" else recipe.part
    for left, right in ((A, B), (sp.csr_array(A), sp.csr_array(B))):
        key, index = vectors.nearest(recipe, left, right, count)
        assert_array_equal(index, [[j for _, j in row] for row in expected])
        if part == "product":
            scores = np.array([[s for s, _ in row] for row in expected])
            across = np.array([k(a, a) for a in A.tolist()])[:, None]
            assert_allclose(key, across + 2 * scores, rtol=1e-9, atol=1e-9)
        else:
            assert_array_equal(key, vectors.pair_sums(part, left, right, index))


def test_the_core_leaves_a_point_itself_out():
    recipe = Recipe("product", "identity")
    expected = naive_neighbors.nearest(naive.linear(), X.tolist(), X.tolist(), 3, True)
    _, index = vectors.nearest(recipe, X, X, 3, np.arange(120))
    assert_array_equal(index, [[j for _, j in row] for row in expected])
    some = np.array([7, 3, 90])
    _, chosen = vectors.nearest(recipe, X[some], X, 3, some)
    assert_array_equal(chosen, index[some])


@looped("part", ["product", "square", "absolute"])
@looped("d", [1, 7, 8, 19])
@looped("dtype", [np.float32, np.float64])
def test_sums_of_pairs_agree_with_loops(part, d, dtype):
    A, B = (rng.normal(size=(n, d)).astype(dtype) for n in (5, 9))
    index = rng.integers(0, 9, (5, 4))
    expected = [
        [naive_neighbors.pair_sum(part, A[i].tolist(), B[j].tolist()) for j in row]
        for i, row in enumerate(index)
    ]
    for left, right in ((A, B), (sp.csr_array(A), sp.csr_array(B))):
        found = vectors.pair_sums(part, left, right, index)
        assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_the_core_refuses_what_does_not_fit():
    recipe = Recipe("product", "identity")
    with pytest.raises(ValueError, match="nearest needs"):
        vectors.nearest(recipe, X, X, 121)
    with pytest.raises(ValueError, match="0 <= index"):
        vectors.pair_sums("square", X, X, np.full((120, 1), 120))


# The k-d tree


def in_few_dimensions(kind, d, n=1500, m=600):
    """m points to search for and n points of few dimensions, many of them tied."""
    draw = np.random.default_rng(d)
    A, B = draw.normal(size=(m, d)), draw.normal(size=(n, d))
    if kind == "lattice":
        return np.round(A), np.round(B)
    if kind == "copies":
        B = B[draw.integers(0, 10, n)]
        return np.concatenate([A[: m // 2], B[: m // 2]]), B
    if kind == "offset":
        return A + 1e6, B + 1e6
    if kind == "float32":
        return A.astype(np.float32), B.astype(np.float32)
    if kind == "mixed":
        return A.astype(np.float32), B
    if kind == "huge":
        return 1e200 * A, 1e200 * B
    return A, B


@pytest.fixture
def always_by_tree(monkeypatch):
    """Trees that are used wherever there can be one."""
    monkeypatch.setattr(search.SearchTree, "_pays", lambda *_: True)


def without_tree(kernel, A, B, k):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "FEW_DIMENSIONS", 0)
        return nearest(kernel, A, B, k)


@pytest.mark.parametrize(
    "kind, d",
    [
        *((kind, d) for kind in ("random", "lattice") for d in (1, 3, 8, 16)),
        *((kind, 3) for kind in ("copies", "offset", "float32", "mixed", "huge")),
    ],
)
def test_the_tree_finds_what_the_search_of_all_points_finds(always_by_tree, kind, d):
    A, B = in_few_dimensions(kind, d)
    for kernel in (Linear(), RBF(0.1), Laplacian(0.1), 2 * Matern(1.5)):
        for points, k in ((A, 1), (A, 40), (None, 7)):
            tree = search.SearchTree()
            given = (B, None) if points is None else (points, B)
            squares, index = nearest(kernel, *given, k, tree=tree)
            assert tree._tree is not None
            expected = without_tree(kernel, *given, k)
            assert_array_equal(index, expected[1])
            assert_array_equal(squares, expected[0])


def test_the_tree_finds_the_same_points_as_loops(always_by_tree):
    A, B = in_few_dimensions("lattice", 3, n=1000, m=3)
    tree = search.SearchTree()
    for part in ("square", "absolute"):
        tree._searches = search.MANY_SEARCHES
        key, index = tree.nearest(part, A, B, 9, None)
        for i, x in enumerate(A.tolist()):
            sums = [
                (naive_neighbors.pair_sum(part, x, y), j)
                for j, y in enumerate(B.tolist())
            ]
            expected = sorted(sums)[:9]
            assert_array_equal(index[i], [j for _, j in expected])
            assert_array_equal(key[i], [s for s, _ in expected])


def test_neither_threads_nor_other_points_change_what_the_tree_finds(always_by_tree):
    A, B = in_few_dimensions("lattice", 4, n=5000, m=2000)
    before, found = threads.threads(), []
    try:
        for number in (1, 2, 3):
            threads.set_threads(number)
            found.append(nearest(RBF(0.1), A, B, 6))
    finally:
        threads.set_threads(before)
    part = nearest(RBF(0.1), A[700:1300], B, 6)
    for squares, index in found:
        assert_array_equal(squares, found[0][0])
        assert_array_equal(index, found[0][1])
        assert_array_equal(part[0], squares[700:1300])
        assert_array_equal(part[1], index[700:1300])


def test_a_tree_looks_at_few_of_many_equal_points(always_by_tree):
    B = np.zeros((20_000, 2))
    B[::2] = 1.0
    A = np.repeat([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5]], 200, axis=0)
    tree = search.SearchTree()
    squares, index = nearest(Linear(), A, B, 3, tree=tree)
    assert_array_equal(index[:200], np.tile([1, 3, 5], (200, 1)))
    assert_array_equal(index[200:400], np.tile([0, 2, 4], (200, 1)))
    assert_array_equal(index[400:], np.tile([0, 1, 2], (200, 1)))
    assert_array_equal(squares[400:], 0.5)
    *_, work = tree._tree.nearest("square", A, 3)
    assert work < 100 * len(A)


def test_a_tree_is_made_when_it_pays_and_not_before():
    A, B = in_few_dimensions("random", 2, n=5000)
    machine = KernelKNNRegressor(3, kernel=Linear()).fit(B, B[:, 0])
    for begin in range(0, 480, 48):
        machine.predict(A[begin : begin + 48])
        assert machine._tree._tree is None
    machine.predict(A[480:])
    made = machine._tree._tree
    assert made is not None
    machine.predict(A[:2])
    assert machine._tree._tree is made
    assert_array_equal(
        pickle.loads(pickle.dumps(machine)).predict(A), machine.predict(A)
    )
    assert machine.fit(B[:2000], B[:2000, 0])._tree._tree is None


def test_a_tree_that_does_not_pay_is_given_up():
    A, B = in_few_dimensions("random", 16, n=2000)
    tree = search.SearchTree()
    nearest(Linear(), A, B, 5, tree=tree)
    assert tree._tree is None
    assert tree.nearest("square", A, B, 6, None) is None


def test_what_is_not_finite_or_of_other_columns_is_not_for_a_tree(always_by_tree):
    A, B = in_few_dimensions("random", 3)
    B[7, 1] = np.inf
    assert search.SearchTree().nearest("square", A, B, 2, None) is None
    with pytest.raises(ValueError, match="columns"):
        nearest(Linear(), A[:, :2], np.abs(B[:5]), 2)
    with pytest.raises(ValueError, match="nearest needs"):
        vectors.KdTree(A).nearest("square", A, len(A) + 1)


# The machine


def test_one_point_is_everybodys_neighbour():
    machine = KernelKNNRegressor(1).fit([[1.0, 2.0]], [5.0])
    assert_array_equal(machine.predict(NEW[:, :2]), 5)
    with pytest.raises(ValueError, match="0 other points"):
        machine.kneighbors()


def test_more_neighbours_than_points_are_refused():
    machine = KernelKNNClassifier(200).fit(X, y)
    with pytest.raises(ValueError, match=r"n_neighbors=200 .* 120 points"):
        machine.predict(X)
    for wrong in (0, 2.5):
        with pytest.raises(ValueError, match="whole number n_neighbors"):
            machine.kneighbors(X, wrong)


def test_votes_that_tie_go_to_the_first_class():
    machine = KernelKNNClassifier(2, kernel=Linear()).fit([[0.0], [2.0]], ["b", "a"])
    assert_array_equal(machine.predict([[1.0]]), ["a"])
    assert_array_equal(machine.predict_proba([[1.0]]), [[0.5, 0.5]])


def test_a_function_of_weights_must_return_one_for_each():
    machine = KernelKNNClassifier(weights=lambda distance: distance[:, :1]).fit(X, y)
    with pytest.raises(ValueError, match=r"shape \(120, 5\)"):
        machine.predict(X)


def test_parameters_of_the_kernel_are_searched_and_learnt():
    machine = KernelKNNClassifier(kernel=RBF())
    assert machine.fit(X, y).kernel_ == RBF().resolve(X)
    assert machine.kernel.gamma is None
    search = GridSearchCV(machine, {"kernel__gamma": [0.1, 1], "n_neighbors": [1, 5]})
    assert search.fit(X, y).best_score_ > 0
    assert clone(machine).kernel == RBF()


def test_there_is_no_expansion():
    assert not hasattr(KernelKNNClassifier().fit(X, y), "expansion_")
    with pytest.raises(NotFittedError):
        KernelKNNClassifier().predict(X)


def test_a_hundred_thousand_points_need_no_matrix():
    A = rng.normal(size=(100_000, 3)).astype(np.float32)
    machine = KernelKNNRegressor(3, kernel=Linear()).fit(A, A[:, 0])
    distance, index = machine.kneighbors(A[:50])
    assert_array_equal(index[:, 0], np.arange(50))
    assert_array_equal(distance[:, 0], 0)
    assert_allclose(machine.predict(A[:50]), A[:50, 0], atol=0.3)


def test_neighbours_of_normalised_counts_do_not_depend_on_points_beside():
    rng = np.random.default_rng(1)
    words = ["".join(rng.choice(list("ACGT"), rng.integers(5, 12))) for _ in range(300)]
    machine = KernelKNNClassifier(7, kernel=Normalized(Spectrum(2)))
    machine.fit(words, rng.integers(2, size=300))
    whole = machine.kneighbors(words)
    # Parts occur in another order in the second half, and so do their columns.
    for part in (slice(120, 121), slice(121, 271), slice(271, 300)):
        for known, found in zip(whole, machine.kneighbors(words[part]), strict=True):
            np.testing.assert_array_equal(found, known[part])
