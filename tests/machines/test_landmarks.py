"""Machines on Nystrom end on its landmarks, with the dual of all points at hand."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from mercer import (
    RBF,
    SVC,
    SVDD,
    SVR,
    Expansion,
    KernelLogisticRegression,
    KernelPCA,
    KernelPerceptron,
    KernelRidge,
    KernelSGDClassifier,
    KernelSGDRegressor,
    NuSVC,
    Nystrom,
    OneClassSVM,
    bounds,
)
from mercer.native import memory
from mercer.solvers import computed_rows
from mercer.solvers.computed_rows import ComputedRows
from mercer.solvers.feature_rows import FeatureRows

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
CLASSES = np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3])
NUMBERS = np.sin(X[:, 0])
KERNEL = Nystrom(RBF(0.3), 20)
MACHINES = [
    (SVC(kernel=KERNEL), CLASSES),
    (SVC(kernel=KERNEL, multiclass="ovr"), CLASSES),
    (NuSVC(kernel=KERNEL, nu=0.1), CLASSES > 0),
    (SVR(kernel=KERNEL), np.column_stack([NUMBERS, -NUMBERS])),
    (OneClassSVM(kernel=KERNEL), None),
    (SVDD(kernel=KERNEL, nu=0.1), None),
    (KernelPCA(3, kernel=KERNEL), None),
    (KernelRidge(kernel=KERNEL), NUMBERS),
    (KernelLogisticRegression(kernel=KERNEL), CLASSES),
]


@pytest.mark.parametrize("machine, y", MACHINES, ids=lambda value: type(value).__name__)
def test_f_is_an_expansion_of_the_base_kernel_on_the_landmarks(machine, y):
    machine.fit(X, y)
    f, kernel = machine.expansion_, machine.approximation_
    assert f.kernel == RBF(0.3) and kernel.kernel == RBF(0.3)
    assert len(f.points) == len(kernel.landmarks) == 20
    used = getattr(machine, "support_", slice(None))
    coef = machine._of_points.coef
    # Σ coefᵢ k̃(xᵢ, x), from the matrix of k̃ itself.
    expected = kernel(X, X[used]) @ coef + f.bias
    assert_allclose(f(X), expected, atol=1e-9 * np.abs(expected).max())
    assert_allclose(f.norm(), Expansion(kernel, X[used], coef).norm(), rtol=1e-8)


@pytest.mark.parametrize(
    "machine, y",
    [case for case in MACHINES if hasattr(case[0], "certify")],
    ids=lambda value: type(value).__name__,
)
def test_its_certificate_is_recomputed_from_the_dual(machine, y):
    machine.fit(X, y)
    said, again = machine.certificate_, machine.certify(X, y)
    error = said.objective_rounding + again.objective_rounding
    assert abs(said.primal - again.primal) <= error + 1e-12 * abs(said.primal)
    assert said.status == "optimal"


def test_components_on_landmarks_are_those_of_the_explicit_map():
    machine = KernelPCA(3, kernel=KERNEL).fit(X)
    centred = machine.approximation_.features(X)
    centred = centred - centred.mean(axis=0)
    *_, axes = np.linalg.svd(centred, full_matrices=False)
    along = centred @ axes[:3].T
    assert_allclose(np.abs(machine.transform(X)), np.abs(along), atol=1e-9)
    left = np.sum((centred - along @ axes[:3]) ** 2, axis=1)
    assert_allclose(machine.reconstruction_error(X), left, atol=1e-9)
    Z = machine.transform(X[:4])
    distance = machine.preimage(Z, return_distance=True)[1]
    assert np.all(distance <= machine.preimage_distance(Z, X[:4]) + 1e-6)


def test_the_ball_on_landmarks_is_that_of_the_explicit_map():
    machine = SVDD(kernel=KERNEL, nu=0.1, tol=1e-8).fit(X)
    features = machine.approximation_.features(X)
    linear = SVDD(kernel="linear", nu=0.1, tol=1e-8).fit(features)
    assert_allclose(machine.radius_, linear.radius_, rtol=1e-6)
    assert_allclose(
        machine.decision_function(X), linear.decision_function(features), atol=1e-6
    )


def test_a_machine_on_landmarks_is_saved_without_its_points():
    many = np.random.default_rng(1).normal(size=(5000, 4))
    machine = KernelRidge(kernel=KERNEL).fit(many, many[:, 0])
    text = pickle.dumps(machine)
    assert len(text) < many.nbytes / 4
    again = pickle.loads(text)
    assert_allclose(again.predict(X), machine.predict(X), rtol=0)
    with pytest.raises(AttributeError, match="Read it before"):
        again.loo_predictions_  # noqa: B018
    svc = SVC(kernel=KERNEL).fit(X, CLASSES)
    with pytest.raises(AttributeError, match=r"X\[support_\]"):
        svc.support_vectors_  # noqa: B018
    assert svc.coef_.shape == (3, 20) and len(svc.feature_names_) == 20


def test_a_warm_start_finds_its_points_again():
    machine = SVC(kernel=Nystrom(RBF(0.3), landmarks=X[:20]), warm_start=True)
    machine.fit(X, CLASSES > 0)
    assert machine.fit(X, CLASSES > 0).n_iter_.max() <= 2
    assert len(machine.support_vectors_) == len(machine.support_)


def test_bounds_are_about_the_kernel_of_the_fit():
    machine = SVC(kernel=KERNEL).fit(X, CLASSES > 0)
    text = str(bounds(machine, X, CLASSES > 0))
    assert "margin bound" in text and "Rademacher" in text


def test_leave_one_out_of_ridge_on_landmarks_is_that_of_refits():
    kernel = KERNEL.resolve(X)
    machine = KernelRidge(0.1, kernel=kernel).fit(X, NUMBERS)
    for i in (0, 7):
        rest = np.delete(np.arange(len(X)), i)
        other = KernelRidge(0.1, kernel=kernel).fit(X[rest], NUMBERS[rest])
        assert_allclose(machine.loo_predictions_[i], other.predict(X[[i]])[0], 1e-7)


# Features that find no room


@pytest.fixture
def no_room(monkeypatch):
    """Room for small matrices, and not for Φ."""
    monkeypatch.setattr(memory, "keeps", lambda size, cache_mb=None: size < 1e5)
    monkeypatch.setattr(computed_rows, "FEW_MB", 0.02)
    monkeypatch.setattr(computed_rows, "COMPUTED_MB", 0.03)


@pytest.mark.parametrize("low", [False, True], ids=["well", "ill"])
def test_computed_rows_are_the_rows(low):
    kernel = Nystrom(RBF(1e-3 if low else 0.3), 20).resolve(X)
    assert kernel.is_well_conditioned is not low
    held = FeatureRows(kernel.features(X))
    rows = ComputedRows(kernel, X)
    rng = np.random.default_rng(2)
    v, w = rng.normal(size=300), rng.normal(size=20)
    some, weight = np.arange(0, 300, 3), rng.uniform(size=300)
    border = -np.ones((100, 1))
    pairs = [
        (rows.times(w), held.times(w)),
        (rows.pull(v), held.pull(v)),
        (rows.times(np.outer(w, [1, 2])), held.times(np.outer(w, [1, 2]))),
        (rows.against(np.outer(v, [1, 2])), held.against(np.outer(v, [1, 2]))),
        (rows.mean(), held.mean()),
        (rows.squares(weight), held.squares(weight)),
        (rows.take(some).times(w), held.take(some).times(w)),
        (rows.held().matrix, held.matrix),
        (
            rows.weighted(some, weight[some], border),
            held.weighted(some, weight[some], border),
        ),
    ]
    for found, expected in pairs:
        size = np.abs(expected).max()
        assert_allclose(found, expected, atol=1e-9 * size, rtol=1e-7)
    assert np.all(rows.lengths() >= held.lengths() - 1e-12)


def long_values(A, B, gamma):
    """The Gaussian kernel in extended precision."""
    A, B = (np.asarray(Z, dtype=np.longdouble) for Z in (A, B))
    return np.exp(-np.longdouble(gamma) * ((A[:, None] - B) ** 2).sum(axis=2))


def long_solve(A, b):
    """A⁻¹b of a positive definite A, by Gaussian elimination in extended precision."""
    A, b = A.copy(), b.copy()
    for i in range(len(A)):
        factor = A[i + 1 :, i] / A[i, i]
        A[i + 1 :] -= np.multiply.outer(factor, A[i])
        b[i + 1 :] -= factor * b[i]
    for i in reversed(range(len(A))):
        b[i] = (b[i] - A[i, i + 1 :] @ b[i + 1 :]) / A[i, i]
    return b


@pytest.mark.parametrize("gamma", [0.3, 0.05])
def test_sums_of_kernel_values_are_off_by_no_more_than_they_say(gamma):
    kernel = Nystrom(RBF(gamma), 20).resolve(X)
    rows, v = ComputedRows(kernel, X), np.random.default_rng(4).normal(size=300)
    assert rows.landmarks is not None
    across = long_values(X, kernel.landmarks, gamma)
    among = long_values(kernel.landmarks, kernel.landmarks, gamma)
    exact = across @ long_solve(among, across.T @ v)
    w = rows.pull(v)
    off = float(np.abs(rows.times(w) - exact).max())
    assert 0 < off <= rows.rounding(v, w)


@pytest.mark.parametrize("kind", ["ridge", "logistic", "softmax", "svc", "svr"])
def test_machines_are_the_same_where_features_find_no_room(kind, no_room, monkeypatch):
    rng = np.random.default_rng(3)
    many = rng.normal(size=(5000, 4))
    side = many[:, 0] * many[:, 1] + 0.3 * rng.normal(size=5000) > 0
    machine, y = {
        "ridge": (KernelRidge(0.1), np.sin(many[:, 0])),
        "logistic": (KernelLogisticRegression(), side),
        "softmax": (KernelLogisticRegression(), np.digitize(many[:, 0], [-1, 1])),
        "svc": (SVC(), side),
        "svr": (SVR(), np.sin(many[:, 0])),
    }[kind]
    machine.set_params(kernel=Nystrom(RBF(0.3), 30, method="uniform"))
    made = []
    build = ComputedRows.__init__

    def counted(self, *args):
        made.append(1)
        build(self, *args)

    monkeypatch.setattr(ComputedRows, "__init__", counted)
    found = machine.fit(many, y).expansion_(X)
    assert made and machine.certificate_.status == "optimal"
    monkeypatch.undo()
    expected = machine.fit(many, y).expansion_(X)
    assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max())


STEPS = [
    (KernelSGDClassifier(kernel=KERNEL, random_state=0), CLASSES),
    (KernelSGDClassifier(kernel=KERNEL, average=False, random_state=0), CLASSES > 0),
    (KernelSGDRegressor(kernel=KERNEL, fit_intercept=False, random_state=0), NUMBERS),
    (KernelSGDClassifier(kernel=KERNEL, budget=30, random_state=0), CLASSES > 0),
    (KernelPerceptron(KERNEL, fit_intercept=True, max_iter=5), CLASSES > 0),
    (KernelPerceptron(KERNEL, variant="averaged", max_iter=5), CLASSES),
    (KernelPerceptron(KERNEL, variant="voted", max_iter=5), CLASSES > 0),
]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("machine, y", STEPS, ids=lambda value: type(value).__name__)
@pytest.mark.filterwarnings("ignore:.*stopped after")
def test_steps_point_by_point_end_on_the_landmarks(machine, y, streamed):
    machine = clone(machine)
    if streamed:  # w is kept on features then
        kernel = KERNEL.resolve(X)
        machine.set_params(kernel=kernel)
        classes = {} if y is NUMBERS else {"classes": np.unique(y)}
        for part in (slice(0, 100), slice(100, 300)):
            machine.partial_fit(X[part], y[part], **classes)
    else:
        machine.fit(X, y)
    f = machine.expansion_
    assert f.kernel == RBF(0.3) and len(f.points) == 20
    new = RNG.normal(size=(50, 4))
    values = f(new)
    if getattr(machine, "variant", "") != "voted":
        found = machine._values(new)
        assert_allclose(values, found, atol=1e-9 * np.abs(found).max())
    again = pickle.loads(pickle.dumps(machine))
    assert_allclose(again.expansion_(new), values, rtol=1e-12)
    assert_allclose(again.predict(new), machine.predict(new))


def test_streams_on_landmarks_keep_no_points():
    machine = KernelSGDClassifier(kernel=KERNEL.resolve(X))
    machine.partial_fit(X, CLASSES, classes=np.unique(CLASSES))
    assert not machine._state.primal.terms.parts
    assert len(machine._state.points) == 0
    machine.set_params(budget=10)
    with pytest.raises(ValueError, match="keeps none"):
        machine.partial_fit(X, CLASSES)
    perceptron = KernelPerceptron(KERNEL.resolve(X)).partial_fit(X, CLASSES > 0, [0, 1])
    assert len(perceptron._supports.whole().points) == 0 < len(perceptron.support_)
    perceptron.set_params(variant="voted")
    with pytest.raises(ValueError, match="every f on the way"):
        perceptron.predict(X)


def test_perceptrons_on_landmarks_have_the_f_of_their_mistakes():
    machine = KernelPerceptron(KERNEL.resolve(X), fit_intercept=True)
    machine.partial_fit(X, CLASSES > 0, [0, 1])
    coef = machine._mistakes.coef(machine.support_)[:, 0]
    expected = machine.kernel_(X, X[machine.support_]) @ coef
    assert_allclose(machine.expansion_(X), expected, atol=1e-9 * np.abs(expected).max())
