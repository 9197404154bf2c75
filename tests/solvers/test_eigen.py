"""Components of a centred Gram: every solver finds what LAPACK finds on H K H."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal

from mercer import gram as gram_module
from mercer.gram import Gram
from mercer.kernels.operators import Constant
from mercer.kernels.radial import RBF, Matern
from mercer.kernels.string import EditSimilarity
from mercer.kernels.substring import Spectrum
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import FeatureFunction, PairFunction, Precomputed
from mercer.solvers import eigen, products
from mercer.solvers.components import Components
from mercer.solvers.eigen import Arpack, BlockKrylov, Covariance, Lapack
from mercer.solvers.products import Features, Tiles

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 5))
SOLVERS = [Lapack(), Arpack(), BlockKrylov(), BlockKrylov(cache_mb=1e-3)]
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=repr)


def centered(K):
    """H K H by its definition."""
    n = len(K)
    H = np.eye(n) - np.full((n, n), 1 / n)
    return H @ np.asarray(K, dtype=float) @ H


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(products, "SIDE", 64)


@each_solver
@pytest.mark.parametrize(
    "kernel", [RBF(0.3), Polynomial(3), Matern(1.5), Linear()], ids=repr
)
def test_solver_finds_the_components_of_h_k_h(solver, kernel, small_tiles):
    gram = Gram(kernel.resolve(X), X)
    found = solver.solve(Components(gram, 4))
    K = centered(gram.dense())
    expected = np.linalg.eigvalsh(K)[::-1][:4]
    assert found.status == "optimal"
    assert_allclose(found.values, expected, rtol=1e-10)
    assert_allclose(found.vectors.T @ found.vectors, np.eye(4), atol=1e-9)
    residual = K @ found.vectors - found.vectors * found.values
    assert_allclose(residual, 0, atol=1e-9 * found.values[0])
    assert_allclose(found.means, gram.dense().mean(axis=0), rtol=1e-12)


@each_solver
def test_reported_residuals_are_the_residuals(solver, small_tiles):
    gram = Gram(RBF(0.3), X)
    found = solver.solve(Components(gram, 5))
    K = centered(gram.dense())
    residual = np.linalg.norm(K @ found.vectors - found.vectors * found.values, axis=0)
    assert_allclose(found.residuals, residual, atol=1e-12 * found.values[0])
    assert found.violation == found.residuals.max() / found.values[0]


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-8])
def test_krylov_ends_below_its_tol(tol, small_tiles):
    gram = Gram(RBF(2.0), X)  # a spectrum that falls slowly
    found = BlockKrylov(tol=tol, extra=5).solve(Components(gram, 6))
    K = centered(gram.dense())
    residual = np.linalg.norm(K @ found.vectors - found.vectors * found.values, axis=0)
    assert found.status == "optimal"
    assert residual.max() <= 1.001 * tol * found.values[0]


def test_single_precision_ends_below_its_tol(small_tiles):
    found = BlockKrylov(tol=1e-5, precision="single").solve(
        Components(Gram(RBF(0.3), X), 6)
    )
    K = centered(RBF(0.3)(X))
    residual = np.linalg.norm(K @ found.vectors - found.vectors * found.values, axis=0)
    assert found.run.precision == "single"
    assert residual.max() <= 1.2e-5 * found.values[0]


def test_single_precision_is_given_up_where_it_misleads(monkeypatch, small_tiles):
    monkeypatch.setattr(eigen, "DOUBLE", 100)
    points = X.copy()
    points[:, 0] *= 1e-3
    points[:, 1:] = 1e6  # in float32 the differences of the first column remain, or not
    points[:, 2] += X[:, 2]
    gram = Gram(RBF(0.3), points)
    found = BlockKrylov(tol=1e-5).solve(Components(gram, 3))
    expected = np.linalg.eigvalsh(centered(gram.dense()))[::-1][:3]
    assert_allclose(found.values, expected, rtol=1e-4)
    rough = Gram(Polynomial(2, offset=0.0), 1e3 + X)
    found = BlockKrylov(tol=1e-6).solve(Components(rough, 3))
    assert found.run.precision == "double"
    expected = np.linalg.eigvalsh(centered(rough.dense()))[::-1][:3]
    assert_allclose(found.values, expected, rtol=1e-6)


def test_krylov_goes_on_after_leaving_all_but_the_best_vectors(monkeypatch):
    kept = eigen._Search.__init__

    def few(self, *args):
        kept(self, *args)
        self.most = 3 * self.width

    monkeypatch.setattr(eigen._Search, "__init__", few)
    gram = Gram(RBF(2.0), X)
    found = BlockKrylov(extra=4).solve(Components(gram, 6))
    expected = np.linalg.eigvalsh(centered(gram.dense()))[::-1][:6]
    assert found.status == "optimal" and found.run.iterations > 6
    assert_allclose(found.values, expected, rtol=1e-10)


@given(st.integers(2, 70), st.integers(1, 5), st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_solvers_agree_on_random_matrices(n, rank, seed):
    random = np.random.default_rng(seed)
    A = random.normal(size=(n, rank))
    gram = Gram(Precomputed(A @ A.T, psd=True), np.arange(n))
    c = min(n - 1, 3)
    exact, found = (s.solve(Components(gram, c)) for s in (Lapack(), BlockKrylov()))
    scale = max(1.0, exact.values[0])
    assert_allclose(found.values, exact.values, atol=1e-10 * scale)
    assert found.violation <= 1e-10


def test_components_beyond_the_rank_have_the_eigenvalue_0(small_tiles):
    A = rng.normal(size=(300, 2))
    gram = Gram(Precomputed(A @ A.T, psd=True), np.arange(300))
    found = BlockKrylov(extra=2).solve(Components(gram, 6))
    assert found.values.shape == (6,) and found.vectors.shape == (300, 6)
    assert_allclose(found.values[2:], 0, atol=1e-10)
    assert_allclose(found.vectors.T @ found.vectors, np.eye(6), atol=1e-9)


@pytest.mark.parametrize("solver", [Lapack(), BlockKrylov()], ids=repr)
def test_equal_points_have_no_components(solver):
    found = solver.solve(Components(Gram(Constant(2.0), X[:100]), 3))
    assert_allclose(found.values, 0, atol=1e-12)
    assert_allclose(found.residuals, 0, atol=1e-12)
    assert found.status == "optimal"


def test_one_point_has_the_eigenvalue_0():
    found = Lapack().solve(Components(Gram(RBF(1.0), X[:1])))
    assert_allclose(found.values, [0], atol=1e-15)


def test_largest_entry_of_a_vector_is_positive():
    for solver in SOLVERS:
        vectors = solver.solve(Components(Gram(RBF(0.3), X), 8)).vectors
        largest = np.abs(vectors).argmax(axis=0)
        assert (vectors[largest, np.arange(8)] > 0).all()


def test_sign_does_not_depend_on_rounding_where_entries_are_equal():
    K = np.array([[2.0, -1.0], [-1.0, 2.0]])
    noise = 1e-15 * np.array([[0.0, 1.0], [-1.0, 0.0]])
    for matrix in (K, K + noise, K - noise):
        found = Lapack().solve(Components(Gram(Precomputed(matrix), np.arange(2)), 1))
        assert_allclose(found.vectors[:, 0], np.array([1, -1]) / np.sqrt(2), atol=1e-12)


# Products


@looped("dtype, rtol", [(np.float64, 1e-12), (np.float32, 2e-5)])
@looped("cache_mb", [None, 0.05, 1e-6])
@looped("width", [3, products.NARROW + 1])
def test_tiles_multiply_as_the_matrix_does(dtype, rtol, cache_mb, width, small_tiles):
    order = rng.permutation(len(X))
    V = rng.normal(size=(len(X), width))
    K = RBF(0.3)(X[order])
    tiles = Tiles(Gram(RBF(0.3), X), order, dtype, cache_mb)
    for _ in range(2):
        assert_allclose(
            tiles.times(V), K @ V, rtol=rtol, atol=rtol * np.abs(K @ V).max()
        )
    kept = sum(tile.nbytes for tile in tiles.kept.values())
    assert kept <= (np.inf if cache_mb is None else cache_mb * 2**20)
    total = sum(
        len(range(*rows.indices(len(X)))) * columns.stop
        for rows, columns in zip(tiles.chunks, tiles.chunks, strict=True)
    )
    if cache_mb is None:  # the half below the diagonal, and the diagonal's tiles
        assert kept == total * np.dtype(dtype).itemsize


def test_tiles_of_objects_multiply_as_the_matrix_does(small_tiles):
    words = ["".join(rng.choice(list("abc"), 5)) for _ in range(150)]
    kernel = EditSimilarity(0.5)
    order = rng.permutation(150)
    V = rng.normal(size=(150, 2))
    expected = kernel([words[i] for i in order]) @ V
    tiles = Tiles(Gram(kernel, words), order, np.float64)
    assert_allclose(tiles.times(V), expected, rtol=1e-10)


def test_tiles_of_a_held_matrix_are_cut_from_it(small_tiles):
    K = np.array(RBF(0.3)(X))
    gram = Gram(PairFunction(lambda x, y: 1 / 0, psd=True), X)
    gram._matrix = K
    order, V = rng.permutation(len(X)), rng.normal(size=(len(X), 2))
    tiles = Tiles(gram, order, np.float64)
    assert_allclose(tiles.times(V), K[np.ix_(order, order)] @ V, rtol=1e-10)


def test_filled_tiles_compute_no_more(small_tiles):
    asked = []
    kernel = PairFunction(lambda x, y: asked.append(1) or float(min(x, y)), psd=True)
    tiles = Tiles(Gram(kernel, list(range(1, 131))), None, np.float32).filled()
    done = len(asked)
    K = np.minimum.outer(np.arange(1.0, 131), np.arange(1.0, 131))
    assert_allclose(tiles.times(np.ones(130)), K.sum(axis=1), rtol=1e-5)
    assert len(asked) == done


def test_a_kernel_with_a_product_of_its_own_uses_it_where_tiles_do_not_fit():
    class WeightedGram(PairFunction):
        calls = 0

        def matmul(self, X, Y, V, *, block_mb=0):
            type(self).calls += 1
            return super().matmul(X, Y, V, block_mb=1.0)

    kernel = WeightedGram(lambda x, y: float(min(x, y)), psd=True)
    gram = Gram(kernel, list(range(1, 41)))
    found = BlockKrylov(cache_mb=1e-6).solve(Components(gram, 3))
    assert WeightedGram.calls == found.run.iterations
    expected = np.linalg.eigvalsh(centered(gram.dense()))[::-1][:3]
    assert_allclose(found.values, expected, rtol=1e-10)


def test_krylov_stores_no_square_where_it_does_not_fit(monkeypatch, small_tiles):
    def refuse(self):
        raise AssertionError("the whole matrix was asked for")

    monkeypatch.setattr(gram_module.Gram, "dense", refuse)
    gram = Gram(RBF(0.3), X)
    found = BlockKrylov(cache_mb=0.1).solve(Components(gram, 3))
    assert found.status == "optimal"


def test_a_smooth_kernel_takes_few_products(monkeypatch):
    monkeypatch.setattr(products, "SIDE", 200)
    problem = Components(Gram(RBF(0.05), X), 10)
    found = BlockKrylov(tol=1e-5).solve(problem)
    wide = BlockKrylov(tol=1e-5, cache_mb=1e-3).solve(problem)
    assert wide.run.iterations <= found.run.iterations <= 4


# Explicit features


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_features_give_what_their_gram_gives(kind):
    points = np.where(rng.random(X.shape) < 0.5, X, 0)
    gram = Gram(Linear(), kind(points))
    expected = Lapack().solve(Components(gram, 4))
    for solver in (Covariance(), BlockKrylov()):
        found = solver.solve(Components(gram, 4))
        assert_allclose(found.values, expected.values, rtol=1e-10)
        assert_allclose(found.vectors, expected.vectors, atol=1e-8)
        assert_allclose(found.means, expected.means, atol=1e-10)
        assert found.violation <= 1e-10


def test_strings_have_their_components_in_feature_space():
    words = ["".join(rng.choice(list("ab"), 8)) for _ in range(60)]
    gram = Gram(Spectrum(2), words)
    found = Covariance().solve(Components(gram))
    expected = np.linalg.eigvalsh(centered(gram.dense()))[::-1]
    assert len(found.values) <= 4
    assert_allclose(found.values, expected[: len(found.values)], rtol=1e-10)
    assert_allclose(expected[len(found.values) :], 0, atol=1e-10)


def test_features_are_multiplied_as_their_gram_is():
    V = rng.normal(size=(len(X), 3))
    for features in (X + 5, sp.csr_array(X + 5)):
        assert_allclose(Features(features).times(V), (X + 5) @ ((X + 5).T @ V))


def test_covariance_refuses_a_kernel_without_features():
    with pytest.raises(ValueError, match=r"explicit features.*RBF"):
        Covariance().solve(Components(Gram(RBF(1.0), X), 2))
    wide = FeatureFunction(lambda points: np.tile(points, (1, 60)))
    with pytest.raises(ValueError, match="Use BlockKrylov or Lapack"):
        Covariance().solve(Components(Gram(wide, X), 2))


# How it ends


def test_watch_sees_every_product_and_may_stop():
    seen = []
    problem = Components(Gram(RBF(2.0), X), 6)
    found = BlockKrylov().solve(problem, watch=seen.append)
    assert [p.iterations for p in seen] == list(range(1, found.run.iterations + 1))
    assert seen[-1].support == 6 and seen[-1].violation <= 1e-10
    assert "6 components" in seen[-1].line()
    stopped = BlockKrylov().solve(problem, watch=lambda p: p.iterations == 2)
    assert stopped.status == "stopped" and stopped.run.iterations == 2
    goes_on = BlockKrylov().solve(problem, start=stopped.vectors)
    assert goes_on.status == "optimal"
    assert_allclose(goes_on.values, found.values, rtol=1e-10)


def test_max_iter_ends_with_the_residual_reached():
    found = BlockKrylov(max_iter=2).solve(Components(Gram(RBF(2.0), X), 6))
    assert (found.status, found.run.iterations) == ("max_iter", 2)
    assert found.violation > 1e-10


@each_solver
def test_least_eigenvalue_of_an_indefinite_matrix_is_met(solver, small_tiles):
    A = rng.normal(size=(300, 300))
    Q, _ = np.linalg.qr(A)
    values = np.concatenate([np.linspace(5, 0, 299), [-2.0]])
    gram = Gram(Precomputed(Q * values @ Q.T), np.arange(300))
    found = solver.solve(Components(gram, 3))
    assert found.least < -1


@each_solver
def test_equal_seeds_give_equal_bits(solver):
    problem = Components(Gram(RBF(0.3), X), 3)
    first, second = solver.solve(problem), solver.solve(problem)
    assert_array_equal(first.vectors, second.vectors)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="square Gram"):
        Components(Gram(RBF(1.0), X, X[:3]), 2)
    with pytest.raises(ValueError, match="from 1 to n = 400"):
        Components(Gram(RBF(1.0), X), 401)
    with pytest.raises(ValueError, match="fewer components than there are points"):
        Arpack().solve(Components(Gram(RBF(1.0), X[:3]), 3))
    with pytest.raises(ValueError, match="precision auto, single and double"):
        BlockKrylov(precision="half")
    with pytest.raises(ValueError, match="tol ≥ 0"):
        BlockKrylov(tol=-1.0)
