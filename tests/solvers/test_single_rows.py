"""Rows to single precision: near those in double, and never what is stated."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from mercer import RBF, Gram, KernelRidge, Laplacian, Nystrom, Polynomial
from mercer.data import blocks
from mercer.data.blocks import as_blocks
from mercer.kernels.algebra import Exp
from mercer.kernels.nystrom import WELL_CONDITIONED
from mercer.kernels.vector import Linear
from mercer.native import memory
from mercer.solvers import computed_rows, single_rows
from mercer.solvers.cholesky import Cholesky
from mercer.solvers.computed_rows import ComputedRows
from mercer.solvers.feature_rows import FeatureRows
from mercer.solvers.features import features_of
from mercer.solvers.linear import LinearSystem
from mercer.solvers.normal_equations import NormalEquations
from mercer.solvers.primal import weighted_normal
from mercer.solvers.single_rows import NarrowRows, SingleRows, in_single

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 4))
WEIGHT = RNG.uniform(0.1, 2.0, size=400)


def rows_of(kernel, points=X):
    return ComputedRows(Nystrom(kernel, 30).resolve(points), points)


@pytest.fixture(params=["held", "computed"])
def room(request, monkeypatch):
    kept = request.param == "held"
    monkeypatch.setattr(memory, "keeps", lambda size, cache_mb=None: kept)


CASES = [
    pytest.param(RBF(0.3), X, id="RBF"),
    pytest.param(RBF(0.3), X + 1e4, id="offset"),
    pytest.param(RBF(0.3), sp.csr_array(np.where(X > 0, X, 0.0)), id="CSR"),
    pytest.param(Laplacian(0.3), X, id="Laplacian"),
    pytest.param(Polynomial(2, offset=1.0), X, id="polynomial"),
]


@pytest.mark.parametrize("kernel, points", CASES)
def test_products_agree_to_single_precision(kernel, points, room):
    fine = ComputedRows(Nystrom(kernel, 12).resolve(points), points)
    rough = in_single(fine)
    assert isinstance(rough, SingleRows) and in_single(fine) is rough
    rng = np.random.default_rng(1)
    v, w = rng.normal(size=(400, 2)), rng.normal(size=(12, 2))
    some, shift = np.arange(0, 400, 3), fine.mean()
    pairs = [
        (rough.times(w), fine.times(w)),
        (rough.times(w[:, 0]), fine.times(w[:, 0])),
        (rough.pull(v), fine.pull(v)),
        (rough.pull(1e-60 * v[:, 1]), fine.pull(1e-60 * v[:, 1])),
        (rough.normal(WEIGHT, None), fine.normal(WEIGHT, None)),
        (rough.normal(np.ones(400), shift), fine.normal(np.ones(400), shift)),
        (rough.normal(v[:, 0], None), fine.normal(v[:, 0], None)),
        (rough.some(some).times(w), fine.take(some).times(w)),
        (rough.take(some).times(w), fine.take(some).times(w)),
        (rough.pull_some(some, v[some, 0]), fine.pull_some(some, v[some, 0])),
        (
            rough.weighted(some, WEIGHT[some], v[some]),
            fine.weighted(some, WEIGHT[some], v[some]),
        ),
    ]
    for found, expected in pairs:
        assert found.dtype == np.float64
        size = np.abs(expected).max()
        assert_allclose(found, expected, rtol=0, atol=1e-5 * fine.kernel.growth * size)


def test_rows_that_single_precision_cannot_tell_stay_as_they_are():
    ill = rows_of(RBF(1e-3))
    assert ill.kernel.growth > single_rows.MOST_GROWTH and in_single(ill) is ill
    slow = rows_of(Exp(Linear()) + RBF(0.3))
    assert slow.kernel.kernel.native(X) is None and in_single(slow) is slow
    large = rows_of(Linear(), 1e9 * X)
    assert in_single(large) is large
    few = FeatureRows(X)
    assert in_single(few) is few


def test_features_in_memory_are_multiplied_in_single_precision():
    wide = FeatureRows(RNG.normal(size=(300, single_rows.WIDE)))
    rough = in_single(wide)
    assert isinstance(rough, NarrowRows) and rough.exact
    w = WEIGHT[:300]
    found, expected = (weighted_normal(rows, w) for rows in (rough, wide))
    assert 0 < np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()
    some = np.arange(0, 300, 2)
    assert isinstance(rough.some(some), NarrowRows)
    assert_allclose(rough.take(some).matrix, wide.matrix[some], rtol=0)


def test_kernel_values_of_long_points_are_held(monkeypatch):
    monkeypatch.setattr(computed_rows, "SHORT", 3)
    held = rows_of(RBF(0.3))
    monkeypatch.setattr(computed_rows, "SHORT", 4)
    computed = rows_of(RBF(0.3))
    single = in_single(held)
    assert held.holds and not computed.holds and single.holds and not single.exact
    v, w = RNG.normal(size=400), RNG.normal(size=30)
    for rows, eps in ((held, 1e-13), (single, 1e-6)):
        size = held.kernel.growth * eps
        assert_allclose(rows.times(w), computed.times(w), atol=100 * size)
        assert_allclose(rows.pull(v), computed.pull(v), atol=1000 * size)
    assert held.values.shape == single.values.shape == (400, 30)
    assert single.values.dtype == np.float32
    held.forget()
    assert held._values is None and held.narrow is None


def test_without_room_for_a_copy_single_rows_read_those_in_double(monkeypatch):
    monkeypatch.setattr(computed_rows, "SHORT", 3)
    held = rows_of(RBF(0.3))
    monkeypatch.setattr(single_rows.memory, "keeps", lambda size: False)
    single = in_single(held)
    assert single.exact and not single.holds
    v, w = RNG.normal(size=(400, 2)), RNG.normal(size=(30, 2))
    assert_allclose(single.times(w), held.times(w), rtol=0)
    assert_allclose(single.pull(v), held.pull(v), rtol=0)
    there, back = single.round_trip(w, lambda f, rows: f * v[rows])
    assert_allclose(back, held.pull(v * held.times(w)), rtol=1e-10)
    assert_allclose(there, v * held.times(w), rtol=1e-10)


def test_rounding_of_held_values_is_within_what_is_stated(monkeypatch):
    monkeypatch.setattr(computed_rows, "SHORT", 3)
    rows = rows_of(RBF(0.3))
    v = RNG.normal(size=400)
    w = rows.pull(v)
    wide = rows.kernel.features(X).astype(np.longdouble)
    off = np.abs(rows.times(w) - wide @ (wide.T @ v)).max()
    assert float(off) <= rows.rounding(v, w)


def test_ridge_goes_on_in_double_where_single_precision_fails(monkeypatch):
    kernel = Nystrom(RBF(0.01), 30).resolve(X)
    assert single_rows.MOST_GROWTH < kernel.growth < WELL_CONDITIONED
    monkeypatch.setattr(single_rows, "MOST_GROWTH", np.inf)
    normals = []
    of_double = ComputedRows.normal

    def counted(self, *args):
        normals.append(type(self))
        return of_double(self, *args)

    monkeypatch.setattr(ComputedRows, "normal", counted)
    problem = LinearSystem(Gram(kernel, X), np.sin(X[:, 0]), 1e-2)
    found = NormalEquations(1e-9, trust=1e-5).solve(problem)
    assert normals == [SingleRows, ComputedRows]
    assert found.status == "optimal"
    expected = Cholesky().solve(LinearSystem(Gram(kernel, X), np.sin(X[:, 0]), 1e-2))
    assert_allclose(found.primal, expected.primal, rtol=1e-5)


def test_ridge_in_single_precision_reaches_the_residual_it_states():
    rng = np.random.default_rng(2)
    many = rng.normal(size=(5000, 4))
    y = np.column_stack([np.sin(many[:, 0]), many[:, 1]])
    machine = KernelRidge([0.1, 2.0], kernel=Nystrom(RBF(0.3), 40)).fit(many, y)
    kernel, c = machine.approximation_, machine._of_points.coef
    features = kernel.features(many)
    left = y - features @ (features.T @ c) - machine.alpha * c
    worst = np.max(np.linalg.norm(left, axis=0) / np.linalg.norm(y, axis=0))
    said = machine.certificate_
    assert said.status == "optimal" and said.violation <= 1e-8
    assert abs(worst - said.violation) <= said.rounding
    weights = kernel.weights_of(machine.expansion_.coef)
    assert_allclose(weights, features.T @ c, atol=1e-9 * np.abs(weights).max())
    assert isinstance(features_of(machine._problem.gram), ComputedRows)


@pytest.mark.parametrize("single", [True, False])
def test_one_reading_gives_what_two_do(single, room):
    long = RNG.normal(size=(3000, 80)) / 9  # whose kernel values are held
    for points in (X, long):
        kernel = Nystrom(RBF(0.3), 20).resolve(points)
        weight = RNG.uniform(0.5, 1.0, size=len(points))
        V = RNG.normal(size=(len(points), 3))
        rows, others = (ComputedRows(kernel, points) for _ in range(2))
        made = in_single(rows) if single else rows
        assert single == isinstance(made, SingleRows)
        normal, pulled = made.normal_and_pull(weight, V, {})
        digits = 2e-4 if single else 1e-10
        expected = others.normal(weight, None)
        assert_allclose(normal, expected, atol=digits * np.abs(expected).max())
        if pulled is None:  # values in float32 alone do not tell it in double
            assert single and not rows.holds
        else:
            assert_allclose(pulled, others.pull(V), rtol=1e-9, atol=1e-9)
        assert rows.is_filled == rows.holds
        if rows.is_filled:
            assert_allclose(rows.values, others.landmarks.base_products(points))


def test_values_that_an_error_left_incomplete_are_not_kept(monkeypatch):
    points = RNG.normal(size=(3000, 80)) / 9
    rows = ComputedRows(Nystrom(RBF(0.3), 20).resolve(points), points)
    made = in_single(rows)

    def failing(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Nystrom, "fill_products", failing)
    with pytest.raises(KeyboardInterrupt):
        made.normal_and_pull(np.ones(3000), np.ones((3000, 1)), {})
    monkeypatch.undo()
    assert not rows.is_filled
    assert_allclose(rows.pull(np.ones(3000)), rows.landmarks.features(points).sum(0))


def test_many_points_in_files_stay_there_when_some_are_taken(tmp_path, monkeypatch):
    np.save(tmp_path / "X.npy", X)
    fine = ComputedRows(Nystrom(RBF(0.3), 12).resolve(X), as_blocks(tmp_path / "X.npy"))
    index, w = np.arange(0, 400, 3), RNG.normal(size=12)
    expected = fine.times(w)[index]
    monkeypatch.setattr(blocks, "TAKEN_MB", 1e-3)
    some = SingleRows(fine).some(index)
    assert isinstance(some.X, blocks.Blocks)
    assert_allclose(some.times(w), expected, atol=1e-5 * np.abs(expected).max())
