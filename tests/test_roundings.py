"""What must not hang on rounding: ties of neighbours, symmetry, points far away.

`make test-roundings` runs this file and the laws with other instruction sets, BLAS
cores and numbers of threads.
"""

import json
import os
import subprocess
import sys

import catalog
import numpy as np
import pytest
import scipy.sparse as sp
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal

from mercer import KernelKNNClassifier, KernelKNNRegressor, KernelPCA
from mercer.data.points import take
from mercer.kernels.algebra import Normalized
from mercer.kernels.coordinate import ChiSquared
from mercer.kernels.radial import RBF, Laplacian, Matern, RationalQuadratic
from mercer.kernels.vector import Bilinear, Linear
from mercer.kernels.ways import FeatureFunction, mirrored
from mercer.native import threads, vectors
from mercer.native.vectors import Recipe
from mercer.solvers import nearest as search
from mercer.solvers.nearest import nearest
from mercer.theory import feature_distances

RANKED = {
    "linear": Recipe("product", "identity"),
    "cubic": Recipe("product", "power", 0.5, 1.0, 3),
    "odd": Recipe("product", "power", 1.0, -0.5, 3),
    "exponential": Recipe("product", "exp", 0.05),
    "gaussian": Recipe("square", "exp", -0.3),
    "laplacian": Recipe("absolute", "exp", -0.3),
}
FORMS = {"dense": np.asarray, "csr": sp.csr_array}
each_recipe = pytest.mark.parametrize("recipe", RANKED.values(), ids=list(RANKED))


def grid(seed, n, d, dtype=np.float64):
    """Whole numbers, of which many pairs are equally far apart; many are 0."""
    rng = np.random.default_rng(seed)
    return rng.integers(-1, 2, (n, d)).astype(dtype)


def tenths(seed, n, d, dtype=np.float64):
    """Tenths: pairs that ought to be equally far apart, but for rounding."""
    return (grid(seed, n, d) * 0.1 + 0.3).astype(dtype)


def all_keys(recipe, A, B):
    """The keys of all pairs, one by one."""
    every = np.tile(np.arange(B.shape[0]), (A.shape[0], 1))
    if recipe.part != "product" or recipe.finish == "identity":
        part = "square" if recipe.part == "product" else recipe.part
        return vectors.pair_sums(part, A, B, every)
    m = B.shape[0]
    found, index = vectors.nearest(recipe, A, B, m)
    keys = np.empty((A.shape[0], m))
    np.put_along_axis(keys, index, found, axis=1)
    return keys


# Ties of neighbours


@each_recipe
@pytest.mark.parametrize("make", [grid, tenths])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("d", [3, 20, 70])
def test_neighbours_are_the_least_keys_and_ties_go_by_number(
    recipe, make, dtype, form, d
):
    A, B = (FORMS[form](make(seed, n, d, dtype)) for seed, n in ((0, 40), (1, 300)))
    keys = all_keys(recipe, A, B)
    expected = np.argsort(keys, axis=1, kind="stable")
    for k in (1, 7, 299):
        found, index = vectors.nearest(recipe, A, B, k)
        assert_array_equal(index, expected[:, :k])
        assert_array_equal(found, np.take_along_axis(keys, expected[:, :k], axis=1))


@looped("part", ["product", "square", "absolute"])
@looped("d", [1, 8, 30, 500])
def test_sums_of_pairs_are_the_same_for_sparse_and_for_single_points(part, d):
    rng = np.random.default_rng(d)
    A, B = (
        np.where(rng.random((n, d)) < 0.4, rng.normal(size=(n, d)), 0).astype("f")
        for n in (20, 30)
    )
    index = rng.integers(0, 30, (20, 5))
    expected = vectors.pair_sums(part, A.astype(float), B.astype(float), index)
    for left in (A, A.astype(float), sp.csr_array(A), sp.csc_matrix(A.astype(float))):
        for right in (B, sp.csr_array(B), sp.coo_array(B)):
            assert_array_equal(vectors.pair_sums(part, left, right, index), expected)


def test_the_order_of_a_sum_is_the_one_that_is_written_down():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 19))
    parts = [0.0] * 8
    for t in range(19):
        parts[t % 8] += (x[t] - y[t]) * (x[t] - y[t])
    a, b, c, d, e, f, g, h = parts
    expected = ((a + e) + (c + g)) + ((b + f) + (d + h))
    found = vectors.pair_sums("square", x[None], y[None], np.zeros((1, 1), int))
    assert found[0, 0] == expected


@each_recipe
def test_single_precision_and_zeros_left_out_change_no_neighbour(recipe):
    A, B = tenths(0, 60, 30, np.float32), tenths(1, 400, 30, np.float32)
    A[A < 0.25], B[B < 0.25] = 0, 0
    expected = vectors.nearest(recipe, A.astype(float), B.astype(float), 9)
    for left, right in (
        (A, B),
        (sp.csr_array(A), sp.csr_array(B)),
        (A, sp.csr_array(B)),
    ):
        found = vectors.nearest(recipe, left, right, 9)
        assert_array_equal(found[0], expected[0])
        assert_array_equal(found[1], expected[1])


@looped("scale", [1e-30, 1e-20, 1e18, 1e25])
@looped("recipe", ["linear", "gaussian", "laplacian"])
def test_numbers_that_leave_single_precision_are_ranked(scale, recipe):
    A = (np.random.default_rng(0).normal(size=(200, 4)) * scale).astype(np.float32)
    keys = all_keys(RANKED[recipe], A, A)
    _, index = vectors.nearest(RANKED[recipe], A, A, 5)
    assert_array_equal(index, np.argsort(keys, axis=1, kind="stable")[:, :5])


def test_what_is_not_finite_is_infinitely_far():
    A = np.random.default_rng(0).normal(size=(30, 3))
    A[2], A[11] = np.nan, np.inf
    squares, index = nearest(Linear(), A[:1], A, 30)
    assert_array_equal(np.sort(index[0, -2:]), [2, 11])
    assert np.isinf(squares[0, -2:]).all()


@looped("kernel, points", catalog.psd_kernels)
def test_neighbours_do_not_hang_on_the_points_beside(kernel, points):
    A = points(3, 18)
    old, new = take(A, slice(0, 11)), take(A, slice(11, None))
    _, whole = nearest(kernel, new, old, 4)
    for rows in ([0], [3, 1], [6, 5, 4, 3, 2]):
        _, part = nearest(kernel, take(new, rows), old, 4)
        assert_array_equal(part, whole[rows])


@looped("kernel, points", catalog.psd_kernels)
def test_equal_points_are_at_distance_0_before_all_others(kernel, points):
    n = 5
    A = points(3, n)
    twice = take(A, np.tile(np.arange(n), 2))
    squares, index = nearest(kernel, A, twice, 2 * n)
    # Other points may be at distance 0 too; then all of them are in order.
    for i, (row, order) in enumerate(zip(squares, index, strict=True)):
        assert_array_equal(row[np.isin(order, [i, i + n])], 0)
        assert order[row == 0].tolist().index(i) < order[row == 0].tolist().index(i + n)
    # A word with the same letters is as near as the word itself, but for rounding.
    squares, index = nearest(kernel, twice, None, 1)
    assert_allclose(squares, 0, atol=1e-12 * np.abs(kernel.diag(A)).max())


KERNELS = {
    "sum": RBF(0.2) + Linear(),
    "product": RBF(0.2) * Linear(),
    "bilinear": Bilinear(np.array([[2.0, 0.5, 0], [0.5, 1, 0], [0, 0, 3]])),
    "matern": Matern(1.5),
    "rational": RationalQuadratic(),
    "scaled": 3.0 * RBF(0.1),
    "features": FeatureFunction(lambda X: np.hstack([X, X**2])),
    "normalized": Normalized(FeatureFunction(lambda X: X)),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))
def test_tiles_and_threads_change_no_neighbour(kernel, monkeypatch):
    A, B = tenths(0, 40, 3), tenths(1, 90, 3)
    expected = nearest(kernel, A, B, 6), nearest(kernel, B, None, 6)
    before = threads.threads()
    monkeypatch.setattr(search, "BLOCK_MB", 8 * 17**2 / 2**20)
    try:
        threads.set_threads(3)
        found = nearest(kernel, A, B, 6), nearest(kernel, B, None, 6)
    finally:
        threads.set_threads(before)
    for one, other in zip(found, expected, strict=True):
        assert_array_equal(one[1], other[1])
        assert_allclose(one[0], other[0], rtol=1e-9, atol=1e-12)


def test_very_many_candidates_are_thinned_out_on_the_way(monkeypatch):
    kernel, A = KERNELS["sum"], np.ones((300, 3))
    monkeypatch.setattr(search, "MANY_CANDIDATES", 1000)
    monkeypatch.setattr(search, "MANY_PAIRS", 100)
    monkeypatch.setattr(search, "BLOCK_MB", 8 * 50**2 / 2**20)
    squares, index = nearest(kernel, A, A, 4)
    assert_array_equal(squares, 0)
    assert_array_equal(index, np.tile(np.arange(4), (300, 1)))


SCRIPT = """
import hashlib, json, sys
import numpy as np, scipy.sparse as sp
from mercer.densities.chain import MarkovChain
from mercer.kernels.algebra import Normalized
from mercer.kernels.generative import Fisher, Natural
from mercer.kernels.graph import WeisfeilerLehman
from mercer.kernels.radial import RBF, Laplacian, Matern
from mercer.kernels.substring import Spectrum
from mercer.kernels.vector import Exponential, Linear, Polynomial
from mercer.solvers.nearest import nearest

rng = np.random.default_rng(0)
X = rng.integers(-1, 2, (400, 40)) * 0.1 + 0.3
few = rng.integers(-1, 2, (300, 4)) * 0.1
words = ["".join(rng.choice(list("ab"), rng.integers(3, 9))) for _ in range(150)]
chain = MarkovChain("ab").fit(words)
out = {}
for kernel in (Linear(), RBF(0.3), Laplacian(0.2), Matern(1.5), Polynomial(3),
               Exponential(9.0)):
    for name, Z in (("double", X), ("single", X.astype("f")), ("few", few),
                    ("sparse", sp.csr_array(np.where(X < 0.25, 0, X)))):
        for k, found in ((9, nearest(kernel, Z[:50], Z, 9)[1]),
                         (4, nearest(kernel, Z, None, 4)[1])):
            digest = hashlib.sha256(found.tobytes()).hexdigest()
            out[f"{kernel!r} {name} {k}"] = digest
for kernel in (Spectrum(2), Normalized(Spectrum(2)), Fisher(chain), Natural(chain)):
    found = nearest(kernel, words[:40], words, 7)[1]
    out[repr(kernel)[:20]] = hashlib.sha256(found.tobytes()).hexdigest()
print(json.dumps(out))
"""

VARIANTS = [
    {"MERCER_ISA": "baseline", "OPENBLAS_CORETYPE": "Nehalem"},
    {"MERCER_ISA": "baseline", "MERCER_NUM_THREADS": "1"},
    {"MERCER_ISA": "avx2", "OPENBLAS_CORETYPE": "Prescott"},
    {"MERCER_ISA": "avx512"},
    {"NPY_DISABLE_CPU_FEATURES": "widest"},
]


def run(**environment):
    """What the script prints with these settings, beside those of this process."""
    if environment.get("NPY_DISABLE_CPU_FEATURES") == "widest":
        environment["NPY_DISABLE_CPU_FEATURES"] = widest_features()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    if "cannot run here" in done.stderr:
        pytest.skip(f"this machine has no {environment['MERCER_ISA']}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def widest_features():
    """Numpy's own names of what it may use of this processor beyond its baseline."""
    core = pytest.importorskip("numpy._core._multiarray_umath")
    had = [name for name in core.__cpu_dispatch__ if core.__cpu_features__.get(name)]
    if not had:
        pytest.skip("numpy uses no more than its baseline here")
    return " ".join(had)


@pytest.fixture(scope="module")
def here():
    return run()


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: " ".join(v.values()))
def test_every_processor_finds_the_same_neighbours(variant, here):
    assert run(**variant) == here


def test_points_of_two_dimensions_are_refused_and_no_points_have_no_neighbours():
    with pytest.raises(ValueError, match="equally many columns"):
        vectors.nearest(RANKED["linear"], grid(0, 3, 2), grid(0, 3, 4), 1)
    for kernel in (Linear(), RBF(0.2) + Linear(), FeatureFunction(lambda X: X)):
        squares, index = nearest(kernel, grid(0, 0, 3), grid(0, 5, 3), 2)
        assert squares.shape == index.shape == (0, 2)


# Symmetry


def test_a_matrix_is_mirrored_from_above_its_diagonal():
    K = np.random.default_rng(0).normal(size=(1100, 1100))
    found = mirrored(K.copy())
    assert_array_equal(found, found.T)
    assert_array_equal(np.triu(found), np.triu(K))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 30, 2100])
def test_long_products_are_symmetric_with_their_diagonal(n, dtype):
    X = np.random.default_rng(n).normal(size=(n, 300)).astype(dtype)
    K = Linear()(X)
    assert_array_equal(K, K.T)
    assert_array_equal(np.diagonal(K), Linear().diag(X))
    assert_allclose(K, X @ X.T, rtol=1e-4, atol=300 * np.finfo(dtype).eps)


# Points far from the origin


OFFSETS = [2.0**20, 2.0**26, 2.0**30, 2.0**40]


def whole_numbers(n=40, d=4):
    return np.random.default_rng(5).integers(-30, 31, (n, d)).astype(float)


@looped("offset", OFFSETS)
@looped(
    "kernel",
    [
        Linear(),
        2.0 * Linear(),
        RBF(0.001),
        Laplacian(0.01),
        Matern(1.5, 20.0),
        RBF(0.001) + Linear(),
    ],
    ids=repr,
)
def test_distances_do_not_see_a_common_offset(kernel, offset):
    X, Y = whole_numbers(), whole_numbers(9) + 1
    near = feature_distances(kernel, X), feature_distances(kernel, X, Y)
    X, Y = X + offset, Y + offset
    far = feature_distances(kernel, X), feature_distances(kernel, X, Y)
    for one, other in zip(far, near, strict=True):
        assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    if kernel == Linear():
        D = np.linalg.norm(X[:, None] - Y, axis=2)
        assert_allclose(far[1], D, rtol=1e-14)


@pytest.mark.parametrize("columns", ["all", "one"])
def test_float32_distances_do_not_see_a_common_offset(columns):
    X = whole_numbers().astype(np.float32)
    shift = np.full(4, 2.0**17, np.float32)
    if columns == "one":
        shift[1:] = 0
    near, far = (feature_distances(Linear(), Z) for Z in (X, X + shift))
    assert_allclose(far, near, rtol=1e-6)
    near, far = (nearest(Linear(), Z, None, 5) for Z in (X, X + shift))
    assert_array_equal(far[1], near[1])
    assert_array_equal(far[0], near[0])


def test_points_near_each_other_keep_the_digits_of_their_distance():
    x = np.array([[0.3, 0.7, 0.1]])
    y = x + 1e-9
    distance = np.linalg.norm(x - y)
    assert_allclose(feature_distances(Linear(), x, y), distance, rtol=1e-12)
    assert_allclose(feature_distances(RBF(0.5), x, y), distance, rtol=1e-12)
    counts = ChiSquared(0.5).sqdist(x, y)
    assert_allclose(counts, ((x - y) ** 2 / (x + y)).sum(), rtol=1e-6)


@looped("offset", OFFSETS)
@looped("form", FORMS)
@looped("kernel", [Linear(), RBF(0.001), Laplacian(0.01), Matern(0.5)])
def test_neighbours_do_not_see_a_common_offset(kernel, form, offset):
    X, new, form = whole_numbers(), whole_numbers(15)[::-1] + 0.25, FORMS[form]
    machine = KernelKNNClassifier(5, kernel=kernel)
    y = np.arange(40) % 3
    near = machine.fit(form(X), y).kneighbors(form(new))
    far = machine.fit(form(X + offset), y).kneighbors(form(new + offset))
    assert_array_equal(far[1], near[1])
    assert_array_equal(far[0], near[0])


def test_two_clusters_far_apart_keep_their_neighbours():
    X = whole_numbers(60)
    X[::2] += 2.0**30
    y = np.arange(60.0)
    machine = KernelKNNRegressor(3, kernel=Linear()).fit(X, y)
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    expected = np.argsort(D, axis=1, kind="stable")[:, :3]
    assert_array_equal(machine.kneighbors(X)[1], expected)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("solver", ["auto", "dense", "krylov"])
@pytest.mark.parametrize("form", FORMS)
def test_linear_components_do_not_see_a_common_offset(offset, solver, form):
    X, new, form = whole_numbers(60), whole_numbers(7) + 0.5, FORMS[form]
    one, other = (
        KernelPCA(3, eigen_solver=solver, random_state=0).fit(Z)
        for Z in (X, form(X + offset))
    )
    assert_allclose(other.eigenvalues_, one.eigenvalues_, rtol=1e-9)
    found = other.transform(form(new + offset))
    assert_allclose(np.abs(found), np.abs(one.transform(new)), rtol=1e-7, atol=1e-7)
    assert_allclose(other.expansion_(new + offset), found, rtol=1e-12)


def test_float32_linear_components_do_not_see_a_common_offset():
    X = whole_numbers(60).astype(np.float32)
    one, other = (KernelPCA(3).fit(Z) for Z in (X, X + np.float32(2**17)))
    assert_allclose(other.eigenvalues_, one.eigenvalues_, rtol=1e-5)
    shifted = other.transform(X + np.float32(2**17))
    assert_allclose(np.abs(shifted), np.abs(one.transform(X)), atol=1e-2)


def test_points_near_the_origin_keep_the_linear_kernel():
    assert KernelPCA(2).fit(whole_numbers()).expansion_.kernel == Linear()
