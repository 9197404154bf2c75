import itertools

import naive_vectors as naive
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal

from mercer.native.threads import set_threads, threads
from mercer.native.vectors import Packed, Recipe, add_both_ways, block, diag, product

PARTS = ["product", "square", "absolute", "chi2", "minimum"]
RECIPES = [
    *[Recipe(part, "identity") for part in PARTS],
    *[Recipe(part, "power", scale=0.5, offset=1.0, degree=3) for part in PARTS],
    *[Recipe(part, "exp", scale=-0.25) for part in PARTS],
    *[Recipe("anova", "identity", degree=order) for order in (1, 2, 3, 5)],
    Recipe("anova", "identity", degree=3, cumulative=True),
    Recipe("anova", "identity", degree=4, cumulative=True),
    Recipe("anova", "exp", scale=0.1, degree=2),
]
PRODUCTS = [r for r in RECIPES if r.part in ("product", "anova")]
DTYPES = [np.float32, np.float64]
FORMS = {
    "dense": np.asarray,
    "csr": scipy.sparse.csr_array,
    "packed": Packed,
    "packed csr": lambda X: Packed(scipy.sparse.csr_array(X)),
}


def relative_tolerance(dtype):
    return 5e-6 if dtype == np.float32 else 1e-13


def points(n, d, dtype, density=0.6, seed=0):
    rng = np.random.default_rng((n, d, seed))
    X = rng.random((n, d)) * (rng.random((n, d)) < density)
    return X.astype(dtype)


def assert_near(K, expected, dtype):
    # Σ of d terms: the error is relative to the terms, all positive here.
    scale = np.abs(expected).max(initial=0)
    assert K.shape == expected.shape
    assert_allclose(K, expected, rtol=0, atol=relative_tolerance(dtype) * scale)


@looped("recipe", RECIPES, ids=str)
@looped("dtype", DTYPES)
def test_block_is_the_definition(recipe, dtype):
    X, Y = points(13, 7, dtype), points(9, 7, dtype, seed=1)
    expected = naive.block(recipe, X, Y)
    for form_X, form_Y in itertools.product(FORMS.values(), repeat=2):
        K = block(recipe, form_X(X), form_Y(Y))
        assert K.dtype == dtype
        assert_near(K, expected, dtype)


@looped("recipe", RECIPES[:15], ids=str)
@looped("dtype", DTYPES)
@looped("density", [0.05, 1.0])
@looped("d", [60, 1100])
def test_block_is_the_definition_for_long_points(recipe, dtype, density, d):
    X, Y = points(30, d, dtype, density), points(50, d, dtype, density, seed=1)
    recipe = Recipe(recipe.part, recipe.finish, recipe.scale / d, recipe.offset, 3)
    x, y = X[:, None].astype(float), Y[None].astype(float)
    with np.errstate(invalid="ignore"):
        terms = {
            "product": x * y,
            "square": (x - y) ** 2,
            "absolute": abs(x - y),
            "chi2": np.nan_to_num((x - y) ** 2 / (x + y)),
            "minimum": np.minimum(x, y),
        }[recipe.part]
    s = terms.sum(axis=-1)
    expected = {
        "identity": s,
        "power": (recipe.scale * s + recipe.offset) ** recipe.degree,
        "exp": np.exp(recipe.scale * s),
    }[recipe.finish]
    for form in FORMS.values():
        assert_near(block(recipe, form(X), form(Y)), expected, dtype)


sizes = st.integers(0, 130) | st.sampled_from([0, 1, 2])


@settings(max_examples=60, deadline=None)
@given(
    n=sizes,
    m=sizes,
    d=st.integers(0, 40),
    recipe=st.sampled_from(RECIPES),
    dtype=st.sampled_from(DTYPES),
    form=st.sampled_from(list(FORMS)),
    density=st.sampled_from([0.1, 0.6, 1.0]),
)
def test_every_shape_agrees_with_pairs_of_points(n, m, d, recipe, dtype, form, density):
    X, Y = points(n, d, dtype, density), points(m, d, dtype, density, seed=1)
    K = block(recipe, FORMS[form](X), FORMS[form](Y))
    assert K.shape == (n, m)
    rng = np.random.default_rng(n + m)
    for _ in range(3 if n and m else 0):
        i, j = rng.integers(n), rng.integers(m)
        few = min(d, 12)
        if recipe.part == "anova" and d > few:
            continue
        expected = naive.block(recipe, X[i : i + 1], Y[j : j + 1])
        assert_near(K[i : i + 1, j : j + 1], expected, dtype)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(0, 400),
    d=st.sampled_from([0, 1, 3, 30, 200]),
    recipe=st.sampled_from(RECIPES),
    dtype=st.sampled_from(DTYPES),
    form=st.sampled_from(list(FORMS)),
)
def test_gram_is_symmetric_with_its_diagonal_bit_for_bit(n, d, recipe, dtype, form):
    X = FORMS[form](points(n, d, dtype))
    K = block(recipe, X)
    assert_array_equal(K, K.T)
    assert_array_equal(np.diag(K), diag(recipe, X))
    assert_array_equal(K, block(recipe, X, X))


@looped("recipe", RECIPES, ids=str)
@looped("form", FORMS)
def test_rows_of_a_block_are_rows_of_the_whole(recipe, form):
    X, Y = points(150, 30, np.float32), points(170, 30, np.float32, seed=1)
    form = FORMS[form]
    whole = block(recipe, form(X), form(Y))
    for rows in (slice(0, 1), slice(37, 38), slice(5, 60), slice(100, 150)):
        assert_array_equal(block(recipe, form(X[rows]), form(Y)), whole[rows])
        assert_array_equal(block(recipe, form(X), form(Y[rows])), whole[:, rows])


@looped("recipe", PRODUCTS, ids=str)
@looped("dtype", DTYPES)
@looped("density", [0.05, 0.2, 0.5])
@looped("d", [10, 100, 1500])
def test_sparse_products_are_dense_products_bit_for_bit(recipe, dtype, density, d):
    X, Y = points(70, d, dtype, density), points(90, d, dtype, density, seed=1)
    X[0, 0] = Y[0, 0] = 1.0
    dense = block(recipe, Packed(X), Packed(Y))
    sparse = scipy.sparse.csr_array
    assert_array_equal(block(recipe, sparse(X), sparse(Y)), dense)
    assert_array_equal(block(recipe, sparse(X), Y), dense)
    assert_array_equal(block(recipe, X, sparse(Y)), dense)


@looped("dtype", [np.float32, np.float64])
@looped(
    ("n", "m", "d"),
    [(1, 30, 60), (5, 1, 200), (97, 130, 200), (700, 60, 64), (6, 70, 3000)],
)
def test_rows_that_are_zero_in_the_same_columns_give_the_same_products(n, m, d, dtype):
    rng = np.random.default_rng(d)
    shown = rng.random((3, d)) < 0.2  # three patterns of zeros

    def points(count):
        X = np.where(shown[rng.integers(3, size=count)], rng.normal(size=(count, d)), 0)
        X[rng.integers(count)] = 0
        return X.astype(dtype)

    X, Y = points(n), points(m)
    recipe = Recipe("product", "identity")
    eps = np.finfo(dtype).eps
    assert_allclose(block(recipe, X, Y), X @ Y.T, atol=100 * eps * np.sqrt(d))
    Z = np.concatenate([X, Y])
    assert_array_equal(block(recipe, Z)[:n, n:], block(recipe, X, Y))
    v = rng.normal(size=(m, 2))
    assert_allclose(product(recipe, X, Y, v), (X @ Y.T) @ v, atol=300 * eps * d)


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_results_do_not_depend_on_the_number_of_threads(recipe, form):
    X = FORMS[form](points(500, 40, np.float32, density=0.2))
    Y = FORMS[form](points(2000, 40, np.float32, density=0.2, seed=1))
    V = np.random.default_rng(0).standard_normal((2000, 2))
    before, results = threads(), []
    try:
        for count in (1, 2, 5):
            set_threads(count)
            results.append((block(recipe, X, Y), block(recipe, X)))
            results[-1] += (product(recipe, X, Y, V),)
    finally:
        set_threads(before)
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            assert_array_equal(one, two)


@looped("recipe", RECIPES[::2], ids=str)
@looped("dtype", DTYPES)
@looped("form", FORMS)
def test_product_is_the_block_times_the_vectors(recipe, dtype, form):
    X, Y = points(60, 30, dtype), points(700, 30, dtype, seed=1)
    form = FORMS[form]
    K = block(recipe, form(X), form(Y)).astype(float)
    for shape in (700, (700, 1), (700, 3), (700, 5), (700, 40)):
        V = np.random.default_rng(0).standard_normal(shape)
        P = product(recipe, form(X), form(Y), V)
        assert P.dtype == np.float64
        size = np.abs(K) @ np.abs(V)
        assert_allclose(P, K @ V, rtol=0, atol=relative_tolerance(dtype) * size.max())


@pytest.mark.parametrize("columns", [1, 4])
def test_terms_of_one_sign_after_those_of_the_other_leave_no_error_of_their_sum(
    columns,
):
    # As support vectors do, class by class; their numbers have exact float32 values.
    X, Y = points(40, 30, np.float32), points(4000, 30, np.float32, seed=1)
    recipe = Recipe("square", "exp", scale=-0.01)
    V = np.repeat([[1.0], [-1.0]], 2000, axis=0) * np.ones(columns)
    P = product(recipe, X, Y, V)
    K = block(recipe, X, Y).astype(float)
    sums, eps = np.abs(K).sum(axis=1, keepdims=True), np.finfo(np.float32).eps
    expected = np.sqrt((K**2).sum(axis=1, keepdims=True)) * eps
    assert (np.abs(P - K @ V) <= 4 * expected).all()
    assert (4 * expected < 0.1 * eps * sums).all()  # far less than a sum in float32


def test_product_of_few_rows_with_many_columns_agrees():
    X, Y = points(3, 5, np.float64), points(30_000, 5, np.float64, seed=1)
    V = np.random.default_rng(0).standard_normal(30_000)
    recipe = Recipe("square", "exp", scale=-1.0)
    expected = block(recipe, X, Y) @ V
    assert_allclose(product(recipe, X, Y, V), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("magnitude", [1e-60, 1e60])
def test_product_takes_vectors_beyond_the_range_of_float32(magnitude):
    X = points(20, 3, np.float32)
    V = magnitude * np.random.default_rng(0).standard_normal((20, 2))
    recipe = Recipe("square", "exp", scale=-1.0)
    expected = block(recipe, X).astype(float) @ V
    assert_allclose(product(recipe, X, X, V), expected, rtol=0, atol=1e-5 * magnitude)


def test_product_of_nothing_is_zero():
    X, Y = np.ones((3, 2)), np.ones((0, 2))
    recipe = Recipe("product", "identity")
    assert_array_equal(product(recipe, X, Y, np.ones((0, 4))), np.zeros((3, 4)))
    assert product(recipe, Y, X, np.ones(3)).shape == (0,)


def test_precisions_mix_in_float64():
    X, Y = points(5, 4, np.float32), points(6, 4, np.float64)
    recipe = Recipe("product", "identity")
    for form in FORMS.values():
        K = block(recipe, form(X), form(Y))
        assert K.dtype == np.float64
        assert_near(K, naive.block(recipe, X, Y), np.float64)


@looped("dtype", [bool, np.int8, np.uint64, np.float16, ">f4", ">f8"])
def test_other_numbers_are_converted(dtype):
    X = (points(6, 5, np.float64) * 3).astype(dtype)
    K = block(Recipe("square", "identity"), X)
    assert K.dtype == (np.float32 if dtype == ">f4" else np.float64)
    exact = X.astype(np.float64)
    assert_near(K, naive.block(Recipe("square", "identity"), exact, exact), K.dtype)


def test_complex_points_are_refused():
    with pytest.raises(TypeError, match="complex"):
        block(Recipe("product", "identity"), np.ones((2, 2), complex))


def test_layout_of_the_input_does_not_matter():
    X = points(40, 6, np.float64)
    recipe = Recipe("absolute", "exp", scale=-1.0)
    expected = block(recipe, X)
    frozen = X.copy()
    frozen.flags.writeable = False
    wide = np.zeros((80, 12))
    wide[::2, ::2] = X
    for same in (np.asfortranarray(X), frozen, wide[::2, ::2], X[::-1][::-1]):
        assert_array_equal(block(recipe, same), expected)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_csr_may_be_unsorted_and_repeat_entries_and_stays_as_it_was(index):
    data = np.array([1.0, 2.0, 3.0, 4.0, 0.0])
    indices = np.array([5, 1, 5, 0, 2], index)
    indptr = np.array([0, 3, 3, 5], index)
    X = scipy.sparse.csr_array((data, indices, indptr), shape=(3, 6))
    dense = np.array([[0, 2, 0, 0, 0, 4], [0] * 6, [4, 0, 0, 0, 0, 0]], float)
    for part in PARTS:
        recipe = Recipe(part, "identity")
        assert_array_equal(block(recipe, X), naive.block(recipe, dense, dense))
    assert_array_equal(X.indices, [5, 1, 5, 0, 2])
    assert_array_equal(X.data, data)


def test_a_million_columns_need_little_memory():
    rng = np.random.default_rng(0)
    row = np.repeat(np.arange(250), 20)
    column = rng.integers(0, 1_000_000, 5000)
    column[::3] = rng.integers(0, 50, 1667)
    Z = scipy.sparse.csr_array((rng.random(5000), (row, column)), (250, 1_000_000))
    X, Y = Z[:200], Z[100:]
    K = block(Recipe("product", "identity"), X, Y)
    assert_allclose(K, (X @ Y.T).toarray(), rtol=1e-13, atol=1e-14)
    L = block(Recipe("absolute", "identity"), X, Y)
    assert_allclose(L[3, 149], abs(X[[3]] - Y[[149]]).sum(), rtol=1e-13)
    assert L[107, 7] == 0


@looped("recipe", RECIPES, ids=str)
@looped("dtype", DTYPES)
def test_columns_without_entries_take_neither_time_nor_memory(recipe, dtype):
    rng = np.random.default_rng(0)
    few = scipy.sparse.csr_array(points(11, 30, dtype, density=0.3))
    place = np.sort(rng.choice(2_000_000_000, size=30, replace=False))
    far = (few.data, place[few.indices].astype(np.int32), few.indptr)
    Z = scipy.sparse.csr_array(far, shape=(11, 2_000_000_000))
    near, K = block(recipe, few[:7], few[4:]), block(recipe, Z[:7], Z[4:])
    assert_near(K, near, dtype)
    assert_array_equal(K[4:, :3], K[4:, :3].T)
    V = rng.random((7, 2))
    assert_near(
        product(recipe, Z[4:], Z[:7], V), product(recipe, few[4:], few[:7], V), dtype
    )


def test_malformed_csr_is_refused():
    X = scipy.sparse.csr_array(np.eye(3))
    X.indices[1] = 7
    with pytest.raises(ValueError, match=r"indices\[1\] is 7"):
        block(Recipe("product", "identity"), X)


@looped("recipe", RECIPES[:15], ids=str)
@looped("bad", [np.nan, np.inf])
@looped("d", [6, 60])
def test_nan_and_infinity_go_where_the_definition_takes_them(recipe, bad, d):
    X, Y = points(15, d, np.float64), points(29, d, np.float64, seed=1)
    X[4, 2], Y[7, 3], X[5] = bad, bad, 0
    expected = naive.block(recipe, X, Y)
    for form in FORMS.values():
        K = block(recipe, form(X), form(Y))
        assert_allclose(K, expected, rtol=1e-12, atol=1e-14)
        P = product(recipe, form(X), form(Y), np.ones(29))
        assert_array_equal(np.isfinite(P), np.isfinite(expected).all(axis=1))


@looped("recipe", [r for r in RECIPES if r.part == "anova"], ids=str)
def test_anova_keeps_nan_in_the_row_it_came_from(recipe):
    X, Y = points(15, 6, np.float64), points(29, 6, np.float64, seed=1)
    expected = naive.block(recipe, X, Y)
    X[4, 2] = np.nan
    for form in FORMS.values():
        K = block(recipe, form(X), form(Y))
        assert np.isnan(K[4]).all()
        others = np.arange(15) != 4
        assert_allclose(K[others], expected[others], rtol=1e-12)


def test_large_offsets_do_not_cancel():
    X = 1000 + points(40, 60, np.float32, density=1.0)
    for recipe in (Recipe("square", "identity"), Recipe("square", "exp", scale=-0.1)):
        assert_near(block(recipe, X), naive.block(recipe, X, X), np.float32)


def test_gaussian_of_equal_points_is_one_off_the_diagonal_too():
    X = points(50, 200, np.float32, density=1.0)
    K = block(Recipe("square", "exp", scale=-0.01), np.vstack([X, X]))
    assert_array_equal(K[np.arange(50), np.arange(50, 100)], np.ones(50))
    assert K.max() == 1


@pytest.mark.parametrize("n, m", [(0, 0), (0, 3), (3, 0)])
def test_no_points_give_an_empty_block(n, m):
    recipe = Recipe("product", "identity")
    assert block(recipe, np.ones((n, 2)), np.ones((m, 2))).shape == (n, m)
    assert block(recipe, np.ones((0, 2))).shape == (0, 0)
    assert diag(recipe, np.ones((0, 2))).shape == (0,)


def test_no_coordinates_give_the_finish_of_zero():
    X = np.ones((30, 0))
    assert_array_equal(block(Recipe("square", "exp"), X), np.ones((30, 30)))
    power = Recipe("product", "power", offset=2.0, degree=3)
    assert_array_equal(block(power, X, X), np.full((30, 30), 8.0))
    assert_array_equal(block(Recipe("anova", "identity", degree=2), X), 0 * X @ X.T)


def test_out_is_written_and_returned():
    X = points(30, 4, np.float32)
    recipe = Recipe("product", "identity")
    out = np.empty((30, 30), np.float32)
    assert block(recipe, X, out=out) is out
    assert_array_equal(out, block(recipe, X))


@looped(
    "out",
    [
        np.empty((3, 4)),
        np.empty((3, 3), np.float32),
        np.empty((3, 3)).T[::-1],
        np.empty((6, 3))[::2],
        [[0.0] * 3] * 3,
    ],
)
def test_out_of_another_kind_is_refused(out):
    with pytest.raises(ValueError, match="out must be"):
        block(Recipe("product", "identity"), np.ones((3, 2)), out=out)


def test_shapes_that_do_not_fit_are_named():
    recipe = Recipe("product", "identity")
    with pytest.raises(ValueError, match=r"\(3, 2\).*\(4, 5\)"):
        block(recipe, np.ones((3, 2)), np.ones((4, 5)))
    with pytest.raises(ValueError, match=r"\(7,\)"):
        block(recipe, np.ones(7))
    with pytest.raises(ValueError, match=r"4.*\(3,\)"):
        product(recipe, np.ones((3, 2)), np.ones((4, 2)), np.ones(3))


@looped(
    "arguments, word",
    [
        (("cube", "identity"), "cube"),
        (("product", "log"), "log"),
        (("product", "power", 1.0, 0.0, -1), "-1"),
        (("anova", "power"), "anova"),
    ],
)
def test_recipes_without_sense_are_refused(arguments, word):
    with pytest.raises(ValueError, match=word):
        Recipe(*arguments)


def test_packed_points_know_their_shape():
    X = points(5, 3, np.float32)
    packed = Packed(X)
    assert (packed.shape, packed.dtype, packed.sparse) == ((5, 3), np.float32, False)
    assert Packed(scipy.sparse.csr_array(X)).sparse
    assert packed.nbytes >= X.nbytes
    X[:] = 0
    assert block(Recipe("product", "identity"), packed).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_dense_products_by_a_blas_are_products(dtype):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 300)).astype(dtype)
    Y = rng.normal(size=(41, 300)).astype(dtype)
    recipe = Recipe("product", "identity")
    exact = X.astype(float) @ Y.astype(float).T
    assert_allclose(block(recipe, X, Y), exact, atol=300 * np.finfo(dtype).eps)
    K = block(recipe, X)
    assert_array_equal(K, K.T)
    assert_array_equal(K.diagonal(), diag(recipe, X))
    packed = block(recipe, Packed(X), Packed(Y))
    assert_allclose(block(recipe, X, Y), packed, atol=300 * np.finfo(dtype).eps)
    out = np.empty((60, 41), dtype)
    assert block(recipe, X, Y, out=out) is out
    with pytest.raises(ValueError, match="out must be"):
        block(recipe, X, Y, out=np.empty((41, 60), dtype))


@looped("dtype", [np.float32, np.float64])
@looped("q", [1, 3, 5, 40])
def test_columns_of_zeros_are_skipped_in_products_but_not_nan(dtype, q):
    X, Y = points(50, 6, dtype), points(700, 6, dtype, seed=1)
    V = np.random.default_rng(2).normal(size=(700, q))
    V[:350, ::2] = 0
    V[:, -1] = 0
    recipe = Recipe("square", "exp", scale=-0.1)
    expected = block(recipe, X, Y).astype(float) @ V
    assert_allclose(
        product(recipe, X, Y, V), expected, atol=1e-3 if dtype is np.float32 else 1e-11
    )
    X[3, 2] = np.nan
    assert np.isnan(product(recipe, X, Y, V)[3]).all()


SHAPES = [(1, 1), (5, 7), (33, 1), (1, 33), (600, 300), (513, 2100)]


@looped("dtype", DTYPES)
@looped("n, m", SHAPES)
@looped("q", [1, 3, 4, 9, 17, 33])
def test_both_ways_are_two_products(dtype, n, m, q):
    rng = np.random.default_rng((n, m, q))
    tile = rng.normal(size=(n, m + 3)).astype(dtype)[:, 1 : m + 1]
    v_rows, v_columns = (rng.normal(size=(k, q)).astype(dtype) for k in (n, m))
    wide = [array.astype(float) for array in (tile, v_rows, v_columns)]
    expected = [1 + wide[0] @ wide[2], 2 + wide[0].T @ wide[1]]
    bound = [np.abs(wide[0]) @ np.abs(wide[2]), np.abs(wide[0]).T @ np.abs(wide[1])]
    found = []
    before = threads()
    try:
        for count in (1, 2):
            set_threads(count)
            of_rows, of_columns = np.ones((n, q)), np.full((m, q), 2.0)
            add_both_ways(tile, v_rows, v_columns, of_rows, of_columns)
            found.append((of_rows, of_columns))
    finally:
        set_threads(before)
    for k in range(2):
        error = np.abs(found[0][k] - expected[k])
        assert np.all(error <= 60 * np.finfo(dtype).eps * (1 + bound[k]))
        assert_array_equal(found[0][k], found[1][k])
    alone = np.ones((n, q))
    add_both_ways(tile, v_rows, v_columns, alone, None)
    assert_array_equal(alone, found[0][0])


def test_both_ways_refuse_shapes_that_do_not_fit():
    tile, v, out = np.ones((3, 2)), np.ones((3, 1)), np.ones((3, 1))
    with pytest.raises(ValueError, match="both_ways needs"):
        add_both_ways(tile, v, v, out, None)
    with pytest.raises(ValueError, match="contiguous rows"):
        add_both_ways(np.ones((3, 4))[:, ::2], v, v[:2], out, None)
