"""Transformers: explicit maps, and scikit-learn's approximate ones."""

import copy
import pickle

import catalog
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from checks import machine_checks
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import kernel_approximation as reference
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gaussian_process
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from mercer.data.points import take
from mercer.kernels.algebra import Normalized, On
from mercer.kernels.graph import WeisfeilerLehman
from mercer.kernels.nystrom import Nystrom
from mercer.kernels.radial import RBF, Laplacian
from mercer.kernels.random_features import RandomFourier
from mercer.kernels.substring import Spectrum
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import Precomputed
from mercer.machines import maps
from mercer.machines.kmeans import KernelKMeans
from mercer.machines.maps import (
    FeatureMap,
    Nystroem,
    PolynomialCountSketch,
    RBFSampler,
)
from mercer.machines.pca import KernelPCA
from mercer.machines.svm import SVC, SVR

NAMES = ["Nystroem", "RBFSampler", "PolynomialCountSketch"]
rng = np.random.default_rng(0)
X = rng.random((90, 4)) + 0.1
NEW = rng.random((25, 4))


@pytest.mark.filterwarnings("ignore:n_components > n_samples")
@machine_checks(
    [
        FeatureMap(),
        FeatureMap(Linear()),
        FeatureMap(Nystrom(RBF(), error=0.1)),
        Nystroem(),
        Nystroem(RBF(), n_components=5),
        RBFSampler(),
        PolynomialCountSketch(),
    ]
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


# scikit-learn's own tests


def test_scikit_learn_s_own_tests_pass(monkeypatch):
    theirs = pytest.importorskip("sklearn.tests.test_kernel_approximation")
    for name in NAMES:
        monkeypatch.setattr(theirs, name, getattr(maps, name))
    for degree, gamma, coef0 in ((1, 0.1, 0), (2, 1, 2.5), (3, 2.5, 1)):
        theirs.test_polynomial_count_sketch(gamma, degree, coef0, 500)
        theirs.test_polynomial_count_sketch_dense_sparse(
            gamma, degree, coef0, sp.csr_array
        )
    theirs.test_rbf_sampler()
    for dtype in (np.float32, np.float64):
        theirs.test_rbf_sampler_fitted_attributes_dtype(dtype)
    theirs.test_rbf_sampler_dtype_equivalence()
    theirs.test_rbf_sampler_gamma_scale()
    theirs.test_input_validation(sp.csr_array)
    theirs.test_nystroem_approximation()
    theirs.test_nystroem_default_parameters()
    theirs.test_nystroem_singular_kernel()
    theirs.test_nystroem_poly_kernel_params()
    theirs.test_nystroem_callable()
    theirs.test_nystroem_precomputed_kernel()
    theirs.test_nystroem_component_indices()
    for name in NAMES:
        theirs.test_get_feature_names_out(getattr(maps, name))


# The same numbers


def both(name, points=X, **parameters):
    """Ours and theirs, fitted."""
    return [
        getattr(module, name)(random_state=3, **parameters).fit(points)
        for module in (maps, reference)
    ]


@looped("name", NAMES)
def test_parameters_and_defaults_are_scikit_learn_s(name):
    ours, theirs = getattr(maps, name)(), getattr(reference, name)()
    assert ours.get_params() == theirs.get_params()
    assert list(ours.get_params()) == list(theirs.get_params())


CASES = [
    ("Nystroem", {"n_components": 20}),
    ("Nystroem", {"n_components": 90, "gamma": 2.0}),
    ("Nystroem", {"n_components": 12, "kernel": "poly", "degree": 2, "coef0": 0.5}),
    ("Nystroem", {"n_components": 20, "kernel": "laplacian"}),
    ("Nystroem", {"n_components": 20, "kernel": "chi2"}),
    ("Nystroem", {"n_components": 3, "kernel": "linear"}),
    ("Nystroem", {"n_components": 4, "kernel": "cosine", "gamma": 5.0}),
    ("Nystroem", {"n_components": 20, "kernel": "rbf", "kernel_params": {"gamma": 2}}),
    ("Nystroem", {"n_components": 9, "kernel": gaussian_process.RBF(2.0)}),
    ("RBFSampler", {}),
    ("RBFSampler", {"gamma": "scale", "n_components": 7}),
    ("RBFSampler", {"gamma": 0.0}),
    ("PolynomialCountSketch", {}),
    ("PolynomialCountSketch", {"degree": 3, "coef0": 1.5, "gamma": 0.3}),
    ("PolynomialCountSketch", {"degree": 1, "n_components": 5, "coef0": 2}),
    ("PolynomialCountSketch", {"gamma": 0.0, "coef0": 1.0}),
]
on_cases = looped("name, parameters", CASES, ids=[f"{n}-{p}" for n, p in CASES])


@on_cases
@looped("dtype", [np.float64, np.float32, int])
def test_numbers_are_scikit_learn_s_for_a_random_state(name, parameters, dtype):
    points, new = (10 * X).astype(dtype), (10 * NEW).astype(dtype)
    if dtype is not int:
        points, new = points / dtype(10), new / dtype(10)
    ours, theirs = both(name, points, **parameters)
    expected = theirs.transform(new)
    single = dtype == np.float32
    tight = dict(rtol=1e-3, atol=2e-3) if single else dict(rtol=1e-7, atol=1e-8)
    assert_allclose(ours.transform(new), expected, **tight)
    # scikit-learn's Laplacian is in double precision, whatever the points are in.
    kept = dtype if parameters.get("kernel") == "laplacian" else expected.dtype
    assert ours.transform(new).dtype == (float if dtype is int else kept)
    assert_array_equal(ours.get_feature_names_out(), theirs.get_feature_names_out())
    fitted = [n for n in vars(theirs) if n.endswith("_") and not n.startswith("_")]
    for attribute in fitted:
        found, wanted = getattr(ours, attribute), getattr(theirs, attribute)
        if attribute == "normalization_":
            found, wanted = (
                np.linalg.norm(A) if single else A for A in (found, wanted)
            )
        assert_allclose(found, wanted, rtol=1e-2 if single else 1e-6, atol=1e-7)


@on_cases
def test_sparse_points_give_the_numbers_of_dense_ones(name, parameters):
    if callable(parameters.get("kernel")):
        return
    dense = np.where(X < 0.4, 0.0, X)
    ours = getattr(maps, name)(random_state=0, **parameters)
    expected = clone(ours).fit_transform(dense)
    found = ours.fit_transform(sp.csr_array(dense))
    assert isinstance(found, np.ndarray)
    assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


# Nystroem


def test_a_fit_changes_no_parameter():
    given = {"degree": 2}
    machine = Nystroem("poly", gamma=0.5, kernel_params=given, n_components=5).fit(X)
    assert given == {"degree": 2}
    assert machine.kernel_ == Polynomial(2, 0.5, 1.0)


def test_a_function_is_called_on_pairs_and_its_parameters_are_shared():
    def product(a, b, log):
        log.append(1)
        return float(a @ b)

    log = []
    ours = Nystroem(product, kernel_params={"log": log}, n_components=4, random_state=0)
    theirs = Nystroem("linear", n_components=4, random_state=0)
    assert_allclose(ours.fit_transform(X), theirs.fit_transform(X), atol=1e-8)
    assert len(log) == 4 * 5 / 2 + 90 * 4


def test_a_kernel_object_learns_from_all_points():
    machine = Nystroem(RBF(), n_components=10, random_state=0).fit(X)
    assert_allclose(machine.kernel_.gamma, 1 / (4 * X.var()))
    named = Nystroem("rbf", gamma=machine.kernel_.gamma, n_components=10,
                     random_state=0).fit(X)  # fmt: skip
    assert_allclose(machine.transform(NEW), named.transform(NEW))
    with pytest.raises(ValueError, match=r"Don't pass gamma.*got gamma"):
        Nystroem(RBF(1.0), gamma=1.0, n_components=5).fit(X)


def test_kernel_values_need_not_be_of_all_points():
    K, across = rbf_kernel(X, gamma=0.7), rbf_kernel(NEW, X, gamma=0.7)
    machine = Nystroem("precomputed", n_components=8, random_state=0).fit(K)
    points = Nystroem(gamma=0.7, n_components=8, random_state=0).fit(X)
    assert_allclose(machine.transform(across), points.transform(NEW), atol=1e-8)
    again = Nystroem(Precomputed(), n_components=8, random_state=0).fit(K)
    assert_allclose(again.transform(across), points.transform(NEW), atol=1e-8)
    assert_array_equal(machine.components_, K[machine.component_indices_])
    with pytest.raises(ValueError, match="requires shape"):
        Nystroem("precomputed").fit(across)


@looped(
    "kernel, points",
    [
        (Spectrum(2), catalog.words),
        (Normalized(WeisfeilerLehman(2)), catalog.graphs),
        (On("age", RBF()) + On("word", Spectrum(1)), catalog.pandas_frame),
    ],
    ids=["words", "graphs", "records"],
)
def test_points_of_any_kind_have_coordinates(kernel, points):
    A = points(0, 15)
    machine = Nystroem(kernel, n_components=15, random_state=0).fit(A)
    K = kernel.resolve(A)(A)
    found = machine.transform(A)
    assert_allclose(found @ found.T, K, atol=1e-4 * np.abs(K).max())
    assert machine.transform(take(A, slice(0, 4))).shape == (4, 15)


def test_more_components_than_points_are_all_of_them_with_a_warning():
    with pytest.warns(UserWarning, match="n_components=100 and 25 samples"):
        machine = Nystroem(random_state=0).fit(NEW)
    assert machine.transform(NEW).shape == (25, 25)


def test_machines_own_what_they_learnt():
    points = X.copy()
    machine = Nystroem(n_components=10, random_state=0).fit(points)
    before = machine.transform(NEW)
    points[:] = 7
    assert_array_equal(machine.transform(NEW), before)
    assert_array_equal(pickle.loads(pickle.dumps(machine)).transform(NEW), before)


def test_a_fit_that_fails_leaves_the_machine_as_it_was():
    machine = Nystroem(n_components=5, random_state=0).fit(X)
    before = machine.transform(NEW)
    with pytest.raises(ValueError, match="NaN"):
        machine.fit(np.where(X > 1, np.nan, X))
    assert_array_equal(machine.transform(NEW), before)


@looped("machine", [SVC(), SVR(), KernelPCA(2), KernelKMeans(2)])
def test_a_transformer_is_no_kernel_and_the_kernel_is_named(machine):
    for given, named in (
        (Nystroem(), r"Nystrom\(kernel, size\)"),
        (reference.Nystroem(), r"Nystrom\(kernel, size\)"),
        (RBFSampler(), "RandomFourier"),
        (PolynomialCountSketch(), "PolynomialSketch"),
        (FeatureMap(Spectrum(2)), "make_pipeline"),
    ):
        with pytest.raises(ValueError, match=f"Got the transformer .*{named}"):
            clone(machine).set_params(kernel=given).fit(X, np.arange(90) % 2)


def test_sketch_refuses_a_negative_constant():
    with pytest.raises(ValueError, match=r"coef0 ≥ 0.*got coef0=-1"):
        PolynomialCountSketch(coef0=-1.0).fit(X)


# Explicit maps


@looped(
    "kernel, points",
    [e for e in catalog.psd_kernels if hasattr(e.values[0], "features")]
    + [e for e in catalog.learning_kernels if hasattr(e.values[0], "features")],
)
def test_the_columns_of_fit_give_the_kernel(kernel, points):
    A = points(2, 12)
    machine = FeatureMap(kernel)
    features = machine.fit_transform(A)
    K = machine.kernel_(A)
    product = features @ features.T
    product = product.toarray() if sp.issparse(product) else product
    assert_allclose(product, K, rtol=1e-9, atol=1e-9 * np.abs(K).max())
    names = machine.get_feature_names_out()
    assert len(names) == features.shape[1]
    # Some of the points have fewer parts, and the columns are the same.
    part = machine.transform(take(A, slice(3, 6)))
    assert type(part) is type(features)
    assert sp.issparse(part) is sp.issparse(features)
    whole = features[3:6]
    if sp.issparse(part):
        part, whole = part.toarray(), whole.toarray()
    assert_allclose(part, whole, rtol=1e-9, atol=1e-12)
    assert_array_equal(
        machine.get_feature_names_out(), copy.deepcopy(machine).get_feature_names_out()
    )


def test_a_map_that_fails_leaves_the_machine_as_it_was():
    machine = FeatureMap(Polynomial(2))
    machine.fit_transform(X)
    before = machine.transform(NEW)
    for fit in (machine.fit, machine.fit_transform):
        with pytest.raises(ValueError, match="NaN"):
            fit(np.where(X[:, :3] > 1, np.nan, X[:, :3]))
    assert_array_equal(machine.transform(NEW), before)
    assert machine.run_.seconds > 0


def test_unknown_columns_are_dropped_and_absent_ones_are_zero():
    machine = FeatureMap(Spectrum(2)).fit(["abc", "bcd"])
    names = [f"substring '{part}'" for part in ("ab", "bc", "cd")]
    order = np.argsort(machine.get_feature_names_out())
    assert machine.get_feature_names_out()[order].tolist() == names
    found = machine.transform(["zabz", "cdcd", ""])
    assert isinstance(found, sp.csr_array)
    assert found.toarray()[:, order].tolist() == [[1, 0, 0], [0, 0, 2], [0, 0, 0]]


def test_column_names_are_those_of_the_frame():
    frame = pd.DataFrame(X[:, :2], columns=["age", "height"])
    machine = FeatureMap(Polynomial(2)).fit(frame)
    names = ["1", "age", "height", "age^2", "age*height", "height^2"]
    assert machine.get_feature_names_out().tolist() == names
    assert machine.set_output(transform="pandas").transform(frame).columns.tolist() == (
        names
    )
    with pytest.raises(ValueError, match="feature_names_in_"):
        machine.get_feature_names_out(["a", "b"])


def test_a_map_is_part_of_a_pipeline_and_a_search():
    words = catalog.words(0, 60)
    y = np.array([word.count("a") > 0 for word in words])
    line = make_pipeline(FeatureMap(Spectrum(1)), SVC(kernel="linear", C=10.0))
    search = GridSearchCV(line, {"featuremap__kernel__k": [1, 2]}, cv=3).fit(words, y)
    assert search.best_params_ == {"featuremap__kernel__k": 1}
    assert search.score(words, y) > 0.95


def test_approximations_are_transformers_by_a_map():
    machine = FeatureMap(Nystrom(RBF(), 10)).fit(X)
    assert machine.kernel_.trace_error > 0
    assert_array_equal(machine.transform(NEW), machine.kernel_.features(NEW))
    machine = FeatureMap(RandomFourier(Laplacian(), 6)).fit(X)
    names = ["cos0", "cos1", "cos2", "sin0", "sin1", "sin2"]
    assert machine.get_feature_names_out().tolist() == names


def test_more_columns_than_names_find_room_for_are_refused():
    X = sp.csr_array(([1.0, 2.0], ([0, 1], [0, 10**12 - 1])), shape=(2, 10**12))
    with pytest.raises(MemoryError, match=r"names of 1,000,000,000,000 columns"):
        FeatureMap(Linear()).fit(X)


def test_a_kernel_without_a_map_is_refused_and_the_way_out_named():
    with pytest.raises(TypeError, match=r"no explicit map.*Nystrom\(kernel, size\)"):
        FeatureMap(RBF()).fit(X)
    with pytest.raises(ValueError, match="kernel object"):
        FeatureMap(3).fit(X)
