"""Rows of landmarks by their kernel values: the same Φ, the same optimum."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from mercer.gram import Gram
from mercer.kernels.nystrom import Nystrom
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear, Polynomial
from mercer.native import memory
from mercer.solvers import computed_rows, newton_steps, semismooth, single_rows
from mercer.solvers.computed_rows import ComputedRows
from mercer.solvers.feature_rows import FeatureRows
from mercer.solvers.features import features_of
from mercer.solvers.landmark_rows import (
    ValueRows,
    rows_for,
    rows_of_values,
    some_of,
)
from mercer.solvers.newton_steps import Hessian
from mercer.solvers.programs import nu_svc, one_class, svc, svr
from mercer.solvers.semismooth import SemismoothNewton
from mercer.solvers.smo import SMO
from mercer.solvers.smoothed import Terms

rng = np.random.default_rng(0)
X = rng.normal(size=(700, 3))
TARGET = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=700)
SIDES = np.where(TARGET > 0, 1.0, -1.0)
KERNEL = Nystrom(RBF(0.5), 40).resolve(X)
PHI = FeatureRows(KERNEL.features(X))
INDEX = rng.choice(700, 90, replace=False)


@pytest.fixture(params=["values", "computed", "some"])
def rows(request):
    """k(X, L) in memory, computed, and in memory for some of the points."""
    if request.param == "values":
        return rows_of_values(ComputedRows(KERNEL, X), np.arange(700)), PHI
    computed = ComputedRows(KERNEL, X)
    if request.param == "computed":
        return computed, PHI
    return some_of(computed, np.arange(0, 700, 3)), PHI.take(np.arange(0, 700, 3))


def test_products_with_kernel_values_are_those_with_features(rows):
    rows, phi = rows
    n, p = phi.shape
    index = INDEX[INDEX < n]
    w, v = rng.normal(size=p), rng.normal(size=n)
    assert rows.shape == phi.shape
    assert_allclose(rows.times(w), phi.times(w), atol=1e-11)
    assert_allclose(rows.pull(v), phi.pull(v), atol=1e-10)
    assert_allclose(rows.pull_some(index, v[index]), phi.matrix[index].T @ v[index])
    assert_allclose(rows.take(index).matrix, phi.matrix[index], atol=1e-11)
    assert_allclose(some_of(rows, index).times(w), phi.take(index).times(w), atol=1e-11)
    assert np.all(rows.lengths() >= phi.lengths() - 1e-12)
    assert_allclose(rows.held().matrix, phi.matrix, atol=1e-11)


OFFSET = np.linspace(-1, 1, 40)


@pytest.mark.parametrize(
    ("made", "center"),
    [(made, None) for made in ("held", "computed", "values", "sparse")]
    + [(made, OFFSET) for made in ("held", "computed")],
)
def test_a_round_trip_is_a_product_with_features_and_one_back(
    made, center, monkeypatch
):
    monkeypatch.setattr(
        computed_rows, "TRIP_MB", 40 * 100 / 2**17
    )  # blocks of 100 rows
    phi = PHI.matrix if center is None else PHI.matrix - center
    rows = {
        "held": lambda: FeatureRows(PHI.matrix, center),
        "computed": lambda: ComputedRows(KERNEL, X, center),
        "values": lambda: rows_of_values(ComputedRows(KERNEL, X), np.arange(700)),
        "sparse": lambda: FeatureRows(sp.csr_array(PHI.matrix)),
    }[made]()
    W, scale = rng.normal(size=(40, 2)), rng.random((700, 1))
    V, back = rows.round_trip(W, lambda f, part: np.tanh(f) * scale[part])
    assert_allclose(V, np.tanh(phi @ W) * scale, atol=1e-11)
    assert_allclose(back, phi.T @ V, atol=1e-9)


def test_squares_in_the_coordinates_of_kernel_values_are_those_of_features(rows):
    rows, phi = rows
    n, p = phi.shape
    index = INDEX[INDEX < n]
    weight, border = rng.uniform(1, 2, len(index)), -np.ones((len(index), 1))
    expected = phi.weighted(index, weight, border)
    assert_allclose(rows.weighted(index, weight, border), expected, atol=1e-9)
    # (AAᵀ + AΦᵀDΦAᵀ) c = A slope has the solution w = Aᵀc of (I + ΦᵀDΦ) w = slope.
    slope = rng.normal(size=p)
    H = rows.metric() + rows.added(index, weight, border)[:p, :p]
    w = rows.weights_of(np.linalg.solve(H, rows.slope_of(slope)))
    assert_allclose((np.eye(p) + expected[:p, :p]) @ w, slope, atol=1e-8)


@pytest.mark.parametrize("make", [svc, svr, nu_svc, one_class])
@pytest.mark.parametrize("room", ["short", "long", "ill-conditioned", "no room"])
def test_the_optimum_on_kernel_values_is_that_on_features(make, room, monkeypatch):
    arguments = {
        svc: (SIDES, 1.0),
        svr: (TARGET, 1.0, 0.1),
        nu_svc: (SIDES, 0.5),
        one_class: (0.3,),
    }[make]
    if room == "no room":
        monkeypatch.setattr(memory, "room_to_keep", lambda cache_mb=None: 0.0)
    if room == "long":  # points, whose kernel values take time
        monkeypatch.setattr(computed_rows, "SHORT", 0)
    if room == "ill-conditioned":  # too much so for single precision
        monkeypatch.setattr(single_rows, "MOST_GROWTH", 0.0)
    problem = make(Gram(KERNEL, X), *arguments)
    found = SemismoothNewton().solve(problem)
    known = ValueRows if room in ("long", "ill-conditioned") else ComputedRows
    assert type(problem.gram._features) is known
    other = SMO(1e-8, precision="double").solve(make(Gram(KERNEL, X), *arguments))
    assert found.status == "optimal"
    slack = found.objective_rounding + 1e-6 * abs(other.primal)
    assert abs(found.primal - other.primal) <= slack
    K = PHI.matrix @ PHI.matrix.T
    function = K @ problem.coef(found.value)
    assert np.max(np.abs(found.function - function)) <= found.rounding + 1e-12
    if make is svc:
        assert_array_equal(found.value == 0, other.value == 0)
        assert_array_equal(found.value == 1, other.value == 1)


def test_a_tol_below_the_rounding_of_kernel_values_takes_features():
    problem = svc(Gram(KERNEL, X), SIDES, 1.0)
    assert type(rows_for(problem, 1e-14)) is FeatureRows
    rows = rows_for(svc(Gram(KERNEL, X), SIDES, 1.0), 1e-3)
    assert type(rows) is ComputedRows and rows.landmarks is not None
    # What is stated holds for either.
    for tol in (1e-9, 1e-3):
        found = SemismoothNewton(tol).solve(svc(Gram(KERNEL, X), SIDES, 1.0))
        assert found.status == "optimal" and found.violation + found.rounding <= tol


def test_landmarks_far_from_0_are_centred_on_features():
    far = Nystrom(Polynomial(1, offset=1e4), 4).resolve(X)
    problem = svc(Gram(far, X), SIDES, 1.0)
    rows = rows_for(problem, 1e-3)
    assert type(rows) is FeatureRows and rows.center is not None
    found = SemismoothNewton().solve(problem)
    other = SMO(1e-6, precision="double").solve(svc(Gram(far, X), SIDES, 1.0))
    assert found.status == "optimal"
    assert_allclose(found.primal, other.primal, rtol=1e-4)


def test_a_matrix_by_the_variables_that_changed_is_that_made_anew():
    problem = svc(Gram(Linear(), X), SIDES, 1.0)
    rows = features_of(problem.gram)
    totals, offset = np.zeros(1), np.zeros(3)
    low, high = problem.bounds
    terms = Terms(rows, None, SIDES, low, high, None, None, totals, offset)
    hessian = Hessian(terms, rng.uniform(1, 2, 700))
    inside = rng.random(700) < 0.5
    for share in (0.0, 0.02, 0.1, 1.0):
        inside = inside ^ (rng.random(700) < share)
        expected = Hessian(terms, hessian.D).at(inside)
        assert_allclose(hessian.at(inside), expected, rtol=1e-12, atol=1e-10)


def test_points_that_come_near_a_kink_from_afar_are_not_missed(monkeypatch):
    # With next to no reach every narrower band leaves out points that come into it.
    problem = svc(Gram(Linear(), X), SIDES, 1.0)
    other = SMO(1e-9, precision="double").solve(problem)
    for reach in (1e-3, 1.0, 4.0):
        monkeypatch.setattr(semismooth, "REACH", reach)
        found = SemismoothNewton().solve(problem)
        assert found.status == "optimal"
        assert_allclose(found.value, other.value, atol=1e-6)


@pytest.mark.parametrize("least", [1.0, 1e-3, 1e-9])
def test_factors_in_single_precision_give_a_few_digits(least, monkeypatch):
    monkeypatch.setattr(newton_steps, "NARROW", 1)
    n = 60
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    A = (
        (Q * np.geomspace(least, 1, n))
        @ Q.T
        * np.multiply.outer(*[np.arange(1, n + 1)] * 2)
    )
    x = rng.normal(size=n)
    b = A @ x
    found = newton_steps._solve(A, b, single=True)
    # Beyond its digits what is left of b is still small, which is all a step needs.
    assert np.linalg.norm(A @ found - b) <= 1e-3 * np.linalg.norm(b)
    if least >= 1e-3:
        assert_allclose(found, x, rtol=0, atol=1e-4 * np.abs(x).max())
