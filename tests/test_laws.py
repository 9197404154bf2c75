"""Laws that every kernel of the catalogue obeys."""

import copy
import importlib
import inspect
import numbers
import pickle
import pkgutil

import catalog
import numpy as np
import pytest
import scipy.sparse as sp
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import mercer.kernels
from mercer.data.copies import same_value
from mercer.data.points import count, take
from mercer.kernels.base import Kernel
from mercer.kernels.operators import Power, Product, Scaled, Sum
from mercer.kernels.parse import parse

on_all = looped("kernel, points", catalog.all_kernels)
on_psd = looped("kernel, points", catalog.psd_kernels)
on_other = looped("kernel, points", catalog.other_kernels)
on_vectors = looped("kernel, points", catalog.vector_kernels)
on_learning = looped("kernel, points", catalog.learning_kernels)

on_explicit = looped(
    "kernel, points",
    [entry for entry in catalog.psd_kernels if hasattr(entry.values[0], "features")],
)

OF_VECTORS = {
    f"mercer.kernels.{name}"
    for name in (
        "vector dotproduct radial coordinate explicit window approximate".split()
    )
}


def nodes(kernel):
    """The kernel and all kernels inside it."""
    return [kernel, *(node for child in kernel.children() for node in nodes(child))]


def plain(value):
    """Whether a parameter is made of numbers, strings and kernels."""
    if isinstance(value, Kernel):
        return all(map(plain, value.get_params(deep=False).values()))
    if isinstance(value, list | tuple):
        return all(map(plain, value))
    return value is None or isinstance(value, numbers.Real | str)


def without_functions_and_arrays():
    both = catalog.all_kernels + catalog.learning_kernels
    return [entry for entry in both if plain(entry.values[0])]


def of_vectors_alone():
    """Entries whose kernel is made of kernels of vectors only."""
    return [
        entry
        for entry in catalog.vector_kernels
        if all(type(node).__module__ in OF_VECTORS for node in nodes(entry.values[0]))
    ]


def final_kernels():
    """Every class of kernel in `mercer.kernels` that can be made."""
    for module in pkgutil.iter_modules(mercer.kernels.__path__, "mercer.kernels."):
        home = importlib.import_module(module.name)
        for kind in vars(home).values():
            if (
                inspect.isclass(kind)
                and issubclass(kind, Kernel)
                and not inspect.isabstract(kind)
                and kind.__module__ == module.name
            ):
                yield kind


def test_the_catalogue_holds_every_kernel():
    entries = catalog.all_kernels + catalog.learning_kernels
    shown = {type(node) for entry in entries for node in nodes(entry.values[0])}
    assert {kind.__name__ for kind in set(final_kernels()) - shown} == set()


@on_psd
def test_kernels_listed_as_valid_are_proved(kernel, points):
    assert kernel.psd is True


@on_other
def test_kernels_listed_apart_are_not_proved(kernel, points):
    assert kernel.psd is not True


# The matrix


@on_all
def test_gram_is_symmetric_bit_for_bit(kernel, points):
    K = kernel(points(0))
    assert K.shape == (7, 7)
    assert_array_equal(K, K.T)


@on_psd
def test_gram_is_positive_semidefinite(kernel, points):
    K = kernel(points(0, n=12))
    assert np.linalg.eigvalsh(K).min() >= -1e-10 * np.trace(K)


@on_all
def test_diag_is_the_diagonal(kernel, points):
    X = points(0)
    assert_allclose(kernel.diag(X), np.diagonal(kernel(X)), rtol=1e-12, atol=1e-13)


@on_all
def test_a_copy_of_the_points_gives_the_same_matrix(kernel, points):
    assert_allclose(kernel(points(0), points(0)), kernel(points(0)),
                    rtol=1e-11, atol=1e-12)  # fmt: skip


@on_all
def test_passing_the_points_twice_is_passing_them_once(kernel, points):
    X = points(0)
    assert_allclose(kernel(X, X), kernel(X), rtol=1e-11, atol=1e-12)


@on_all
def test_swapping_the_points_transposes_the_matrix(kernel, points):
    X, Y = points(0), points(1, n=5)
    assert kernel(X, Y).shape == (7, 5)
    assert_allclose(kernel(X, Y), kernel(Y, X).T, rtol=1e-11, atol=1e-12)


@on_all
def test_blocks_agree_with_the_whole(kernel, points):
    X, Y = points(0), points(1, n=5)
    rows, columns = np.array([5, 1, 2]), np.array([4, 0])
    block = kernel(take(X, rows), take(Y, columns))
    whole = kernel(X, Y)[np.ix_(rows, columns)]
    assert_allclose(block, whole, rtol=1e-11, atol=1e-12)


@looped(
    "kernel, points",
    # A row of a data frame is no point by itself.
    [e for e in catalog.all_kernels if not hasattr(e.values[1](0), "columns")],
)
def test_value_is_one_entry(kernel, points):
    X, Y = points(0), points(1, n=5)
    number = kernel.value(X[3], Y[2])
    assert isinstance(number, float)
    assert_allclose(number, kernel(X, Y)[3, 2], rtol=1e-11, atol=1e-12)


@looped(
    "kernel, points",
    # An empty list of records does not say of which dimension its numbers are.
    [e for e in catalog.all_kernels if e.values[1] is not catalog.records],
)
def test_no_points_give_an_empty_matrix(kernel, points):
    X, none = points(0), take(points(0), slice(0, 0))
    assert kernel(none, X).shape == (0, 7)
    assert kernel(X, none).shape == (7, 0)
    assert kernel(none).shape == (0, 0)
    assert kernel.diag(none).shape == (0,)


@on_psd
def test_sqdist_is_the_distance_in_feature_space(kernel, points):
    X, Y = points(0), points(1, n=5)
    D = kernel.sqdist(X, Y)
    across, down = kernel.diag(X), kernel.diag(Y)
    expected = across[:, None] - 2 * kernel(X, Y) + down
    assert (D >= 0).all()
    scale = across.max() + down.max()
    assert_allclose(D, expected, rtol=1e-9, atol=1e-12 * scale)


@on_psd
def test_sqdist_of_a_point_to_itself_is_zero(kernel, points):
    D = kernel.sqdist(points(0))
    assert_array_equal(np.diagonal(D), 0)
    assert_array_equal(D, D.T)


@on_all
def test_matmul_is_the_matrix_times_a_matrix(kernel, points):
    X, Y = points(0), points(1, n=5)
    K = kernel(X, Y)
    for shape in ((5,), (5, 1), (5, 3)):
        V = np.random.default_rng(2).normal(size=shape)
        found, size = kernel.matmul(X, Y, V), np.abs(K).max()
        assert_allclose(found, K @ V, rtol=1e-10, atol=1e-11 * size, err_msg=str(shape))


@on_all
def test_matmul_without_second_points_uses_the_first(kernel, points):
    X = points(0)
    V = np.random.default_rng(2).normal(size=(count(X), 2))
    K = kernel(X)
    # A block of a single row at a time
    for block_mb in (1e-6, 64.0):
        assert_allclose(kernel.matmul(X, None, V, block_mb=block_mb), K @ V,
                        rtol=1e-10, atol=1e-11 * np.abs(K).max())  # fmt: skip


# The same points in another form


@on_vectors
def test_sparse_points_give_the_dense_matrix(kernel, points):
    X, Y = points(0), points(1, n=5)
    X[np.abs(X) < 0.5] = 0
    A, B = sp.csr_array(X), sp.csr_matrix(Y)
    tight = dict(rtol=1e-11, atol=1e-12)
    assert_allclose(kernel(A, B), kernel(X, Y), **tight)
    assert_allclose(kernel(A), kernel(X), **tight)
    assert_allclose(kernel(A, Y), kernel(X, Y), **tight)
    assert_allclose(kernel.diag(A), kernel.diag(X), **tight)
    V = np.random.default_rng(2).normal(size=(5, 2))
    assert_allclose(kernel.matmul(A, B, V), kernel.matmul(X, Y, V), **tight)


@on_vectors
def test_single_precision_is_near_double(kernel, points):
    X, Y = points(0).astype(np.float32), points(1, n=5).astype(np.float32)
    near = dict(rtol=2e-4, atol=2e-5)
    assert_allclose(kernel(X, Y), kernel(X.astype(float), Y.astype(float)), **near)
    assert_allclose(kernel.diag(X), kernel.diag(X.astype(float)), **near)


@looped("kernel, points", of_vectors_alone())
def test_vector_kernels_keep_single_precision(kernel, points):
    X = points(0).astype(np.float32)
    assert kernel(X).dtype == np.float32
    assert kernel(X, X[:3]).dtype == np.float32
    assert kernel.diag(X).dtype == np.float32
    assert kernel(sp.csr_array(X)).dtype == np.float32
    assert kernel(X, X.astype(float)).dtype == np.float64


# Kernels are values


def is_same(one, other, points):
    assert one == other and other == one
    # Two sets of points at two addresses: a BLAS may round them differently.
    K = one(points(0))
    assert_allclose(other(points(0)), K, rtol=1e-12, atol=1e-13 * np.abs(K).max())


@on_all
def test_kernels_can_be_cloned(kernel, points):
    is_same(clone(kernel), kernel, points)


@on_all
def test_kernels_can_be_copied(kernel, points):
    is_same(copy.copy(kernel), kernel, points)
    is_same(copy.deepcopy(kernel), kernel, points)


@on_all
def test_kernels_can_be_pickled(kernel, points):
    is_same(pickle.loads(pickle.dumps(kernel)), kernel, points)


@looped("kernel, points", without_functions_and_arrays())
def test_repr_is_parsed_back(kernel, points):
    assert parse(repr(kernel)) == kernel


def test_different_kernels_are_not_equal():
    entries = catalog.all_kernels + catalog.learning_kernels
    kernels = [entry.values[0] for entry in entries]
    for i, one in enumerate(kernels):
        assert [j for j, other in enumerate(kernels) if one == other] == [i]


@on_explicit
def test_the_explicit_map_gives_the_kernel_and_names_its_columns(kernel, points):
    X = points(2)
    features = kernel.features(X)
    found = features @ features.T
    found = found.toarray() if sp.issparse(found) else found
    K = kernel(X)
    assert_allclose(found, K, rtol=1e-9, atol=1e-9 * np.abs(K).max())
    names = kernel.feature_names(X)
    assert len(set(names)) == len(names) == features.shape[1]


@on_all
def test_calling_a_kernel_changes_nothing(kernel, points):
    X, before = points(0), copy.deepcopy(kernel)
    first = kernel(X)
    assert_array_equal(kernel(X), first)
    assert kernel == before
    assert_same_points(X, points(0))


def assert_same_points(X, Y):
    assert same_value(X, Y)


@on_all
def test_set_params_takes_back_what_get_params_gives(kernel, points):
    changed = clone(kernel).set_params(**kernel.get_params())
    is_same(changed, kernel, points)


@on_all
def test_a_refused_parameter_leaves_the_kernel_unchanged(kernel, points):
    attempt = copy.deepcopy(kernel)
    with pytest.raises(ValueError, match="no parameter 'nonsense'"):
        attempt.set_params(**kernel.get_params(), nonsense=1)
    for name, value in kernel.get_params().items():
        # The numbers that may be negative: a column, the offset inside of tanh
        free = name.endswith("field") or (
            "Sigmoid" in repr(kernel) and name.endswith("offset")
        )
        if isinstance(value, int | float) and not isinstance(value, bool) and not free:
            with pytest.raises(ValueError, match=r"-1"):
                attempt.set_params(**{name: -1})
    is_same(attempt, kernel, points)


# What is learnt from data


@on_learning
def test_resolve_fixes_everything_and_once(kernel, points):
    X, before = points(0), copy.deepcopy(kernel)
    with pytest.raises(ValueError, match=r"call .*resolve\(X\) first"):
        kernel(X)
    resolved = kernel.resolve(X)
    assert kernel == before
    assert resolved.resolve(points(1)) is resolved
    assert np.isfinite(resolved(X)).all()
    assert resolved == kernel.resolve(X)


@on_all
def test_resolve_keeps_kernels_that_learn_nothing(kernel, points):
    assert kernel.resolve(points(0)) is kernel


# The algebra


def test_nested_algebra_is_never_flattened():
    a, b, c = (entry.values[0] for entry in catalog.psd_kernels[:3])
    assert type((a + b) + c) is Sum and type(((a + b) + c).left) is Sum
    assert type(a + (b + c)) is Sum and type((a + (b + c)).right) is Sum
    assert (a + b) + c != a + (b + c)
    assert type(a + b * c) is Sum and type((a + b) * c) is Product
    assert 2 * (3 * a) == Scaled(2, Scaled(3, a))
    assert (a**2) ** 3 == Power(Power(a, 2), 3)
    assert parse(repr(a + (b + c))) == a + (b + c)
    assert parse(repr((a + b) * c)) == (a + b) * c
    assert parse(repr((2 * a) ** 3)) == (2 * a) ** 3


@on_all
def test_operators_mean_what_they_say(kernel, points):
    X = points(0)
    K = kernel(X)
    assert_allclose((kernel + 2.0)(X), K + 2, rtol=1e-12)
    assert_allclose((0.5 * kernel)(X), K / 2, rtol=1e-12)
    assert_allclose((kernel + kernel * kernel)(X), K + K * K, rtol=1e-12)
    assert_allclose((kernel**3)(X), K * K * K, rtol=1e-12, atol=1e-14)


# Proofs


@looped("kernel, points", catalog.all_kernels + catalog.learning_kernels)
def test_the_proof_names_every_leaf_and_every_kind_of_node(kernel, points):
    proof = kernel.proof()
    for node in nodes(kernel):
        if not node.children():
            assert repr(node) in proof
        assert type(node).__name__ in proof
        assert node.rule().reason in proof


@on_other
def test_a_proof_says_where_validity_is_lost(kernel, points):
    culprits = [n for n in nodes(kernel) if not n.children() and n.psd is not True]
    assert culprits
    assert all(f"at {culprit!r}." in kernel.proof() for culprit in culprits)


def known_to_be_invalid():
    """Kernels with a part that is no kernel, of which nobody but mercer says so."""

    def shows(node):
        vouched = "psd" in node.get_params(deep=False)
        return node.psd is False and not node.children() and not vouched

    return [e for e in catalog.other_kernels if any(map(shows, nodes(e.values[0])))]


@looped("kernel, points", known_to_be_invalid())
def test_an_invalid_kernel_shows_its_counterexample(kernel, points):
    assert "eigenvalue -" in kernel.proof()
    assert "the points [" in kernel.proof()
