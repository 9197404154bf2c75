"""Explicit maps: inner products of rows are kernel values, columns are known again."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from mercer.gram import Gram
from mercer.kernels.algebra import (
    Centered,
    Conformal,
    Normalized,
    On,
    PolynomialOf,
    Pullback,
)
from mercer.kernels.nystrom import Nystrom
from mercer.kernels.operators import Constant
from mercer.kernels.radial import RBF
from mercer.kernels.random_features import RandomFourier
from mercer.kernels.string import Subsequence
from mercer.kernels.substring import Spectrum
from mercer.kernels.vector import Linear, Polynomial, PowerSeries
from mercer.kernels.ways import FeatureFunction
from mercer.machines.maps import FeatureMap
from mercer.maps import (
    FeatureExpansion,
    dense_columns,
    entries_estimate,
    explicit,
    has_quick_map,
)
from mercer.solvers.auto import on_features
from mercer.solvers.primal import has_small_map

rng = np.random.default_rng(0)
X = rng.normal(size=(14, 4))
NEW = rng.normal(size=(6, 4))
SPARSE = sp.csr_array(np.where(rng.random((14, 6)) < 0.4, 1 + rng.random((14, 6)), 0))
WORDS = ["abab", "ba", "", "abcabc", "cab", "bbb", "b"]
RECORDS = [(word, i % 3 - 1.0) for i, word in enumerate(WORDS)]
PAIRS = Spectrum(2)


def first(points):
    return np.asarray(points)[:, 0]


def second(records):
    return [record[1] for record in records]


KERNELS = [
    (Linear() * Linear(), X),
    (Linear() * (Polynomial(2) + 1), X),
    (Linear() ** 3, X),
    ((Linear() + 1) ** 2, X),
    (PolynomialOf(Linear(), [2, 0, 1, 0.5]), X),
    (PolynomialOf(Linear() * Constant(0.5), [0, 0, 0]), X),
    (PowerSeries([1, 2, 0, 3]), X),
    (On([0, 1], Polynomial(2)) * On([2, 3], Linear()), X),
    (Conformal(Linear() ** 2, first), X),
    (Normalized(Linear() * Polynomial(2)), X),
    (2 * (RandomFourier(RBF(0.5), 6) * Linear()), X),
    (Nystrom(RBF(0.5), 5) ** 2, X),
    (Pullback(Linear() * Linear(), np.tanh), X),
    (FeatureFunction(lambda A: A**2) * Linear(), X),
    (Centered(Polynomial(2)), X),
    (Linear() * Linear(), SPARSE),
    (Linear() ** 4, SPARSE),
    (Linear() * (Linear() + 2), SPARSE),
    (PolynomialOf(Linear(), [1, 1, 1]), SPARSE),
    (PAIRS * Spectrum(1), WORDS),
    (PAIRS**2, WORDS),
    (PAIRS**3 + PAIRS, WORDS),
    (PolynomialOf(Normalized(PAIRS), [1, 0, 2]), WORDS),
    (Subsequence(2, 0.5) * Spectrum(1), WORDS),
    (On(0, PAIRS) * Conformal(Constant(1.0), second), RECORDS),
]
on_kernels = pytest.mark.parametrize(
    "kernel, points", KERNELS, ids=[f"{i}-{k}"[:50] for i, (k, _) in enumerate(KERNELS)]
)


@on_kernels
def test_inner_products_of_the_map_are_kernel_values(kernel, points):
    kernel = kernel.resolve(points)
    found = explicit(kernel, points)
    K = found.matrix @ found.matrix.T
    K = K.toarray() if sp.issparse(K) else K
    assert_allclose(K, kernel(points), rtol=1e-10, atol=1e-10)
    p = found.matrix.shape[1]
    assert len(found.names()) == len(set(found.keys)) == p
    columns = dense_columns(kernel, points)
    assert columns is None or columns == p


@on_kernels
def test_columns_are_known_again_at_other_points(kernel, points):
    kernel = kernel.resolve(points)
    order = np.arange(len(WORDS) if isinstance(points, list) else len(X))[::-1]
    one = [points[i] for i in order[:4]] if isinstance(points, list) else points[:4]
    other = [points[i] for i in order] if isinstance(points, list) else points[order]
    found = explicit(kernel, one)
    for i in range(4):
        row = found.matrix[[i]]
        w = (row.toarray() if sp.issparse(row) else row)[0]
        f = FeatureExpansion(kernel, found.keys, found.names(), w)
        expected = kernel(one, other)[i]
        assert_allclose(f(other), expected, rtol=1e-10, atol=1e-10)


def test_products_of_columns_have_the_names_of_their_factors():
    one = (Linear() + 1) * Polynomial(2, offset=0)
    assert explicit(one, X[:, :2]).names() == [
        "x0*x0^2", "x0*x0*x1", "x0*x1^2", "x1*x0^2", "x1*x0*x1", "x1*x1^2",
        "x0^2", "x0*x1", "x1^2",
    ]  # fmt: skip
    names = explicit(PolynomialOf(Spectrum(1), [1, 0, 1]), ["ab"]).names()
    a, b = "substring 'a'", "substring 'b'"
    assert names == ["1", f"{a}^2", f"{a}*{b}", f"{b}^2"]
    machine = FeatureMap(On(["u"], Linear()) * On(["v"], Linear()))
    frame = pytest.importorskip("pandas").DataFrame(X[:, :2], columns=["u", "v"])
    assert machine.fit(frame).get_feature_names_out().tolist() == ["u*v"]
    assert_allclose(machine.transform(frame)[:, 0], X[:, 0] * X[:, 1])


def test_a_map_of_products_keeps_the_columns_of_its_fit():
    machine = FeatureMap(PAIRS * Spectrum(1)).fit(WORDS[:4])
    new = ["abz", "zz", "cabab"]
    assert_allclose(
        machine.transform(new).toarray() @ machine.transform(WORDS[:4]).toarray().T,
        (PAIRS * Spectrum(1))(new, WORDS[:4]),
    )


def test_maps_that_are_too_large_are_refused_with_their_size():
    points = np.ones((3, 1000))
    with pytest.raises(ValueError, match=r"1,000,000,000,000 columns.*Nystrom"):
        explicit((Linear() * Linear()) * (Linear() * Linear()), points)
    with pytest.raises(ValueError, match=r"167,167,000 columns.*PolynomialSketch"):
        explicit(Linear() ** 3, points)
    wide = sp.csr_array(np.ones((1000, 3000)))
    with pytest.raises(MemoryError, match=r"numbers; .* GB.*Nystrom"):
        explicit((Linear() * Linear()) * Linear(), wide)
    with pytest.raises(TypeError, match="less its mean"):
        explicit(Centered(Linear()).resolve(SPARSE), SPARSE)


def test_the_entries_of_a_map_are_known_before_it_is_made():
    kernel = Linear() * Linear()
    assert entries_estimate(kernel, X) == 14 * 16
    assert entries_estimate(PAIRS, WORDS) is None  # that map is made at once
    full = explicit(kernel, SPARSE).matrix
    mean = SPARSE.nnz / 14
    assert entries_estimate(kernel, SPARSE) == pytest.approx(14 * mean**2)
    assert 0.4 * full.nnz < entries_estimate(kernel, SPARSE) < 2.5 * full.nnz
    assert has_quick_map(kernel**2) and not has_quick_map(kernel * RBF(1.0))


@pytest.mark.parametrize(
    "points", [np.ones((5000, 300)), sp.csr_array(np.ones((5000, 300)))]
)
def test_large_products_are_left_to_the_kernel(points):
    gram = Gram((Linear() * Linear()) * Linear(), points)
    assert on_features(gram) is None and not has_small_map(gram, 100)
    assert gram._features is None  # and not even made
