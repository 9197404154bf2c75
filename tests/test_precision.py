"""float32 points give what float64 points give; what overflows is refused."""

import warnings

import catalog
import numpy as np
import pytest
import scipy.sparse as sp
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_blobs

import mercer.expansion
from mercer.data.points import double
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.radial import RBF, Laplacian
from mercer.kernels.vector import Linear, Polynomial
from mercer.machines.parzen import ParzenClassifier
from mercer.machines.pca import KernelPCA
from mercer.machines.regularized import KernelLogisticRegression
from mercer.machines.ridge import KernelRidge
from mercer.solvers.cholesky import Cholesky
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.eigen import Lapack
from mercer.solvers.l1 import CoordinateDescent
from mercer.solvers.newton import Newton

# Their fits are those of a compiled solver with a precision of its own.
COMPILED = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "SVDD")
MACHINES = [
    pytest.param(entry.values[0], id=entry.id)
    for entry in catalog.machines
    if entry.id not in COMPILED
]


def data(scale=10.0, offset=0.0, n=40):
    rng = np.random.default_rng(11)
    # Numbers that float32 holds exactly: both types are of the same points.
    X = np.round(rng.normal(size=(n, 4)) * scale * 16) / 16 + offset
    return X, (X[:, 0] > X[:, 1]).astype(int)


def answers(machine, X, y, new):
    """What a machine says of new points, as numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine.fit(X, y)
    for name in ("decision_function", "transform", "predict"):
        if hasattr(machine, name):
            return np.asarray(getattr(machine, name)(new), dtype=float)
    raise AssertionError


KERNELS = [
    pytest.param(Polynomial(3), 10.0, 0.0, id="Polynomial(3)"),
    pytest.param(Polynomial(5), 10.0, 0.0, id="Polynomial(5)"),
    pytest.param(Linear(), 1.0, 1e4, id="Linear, offset 1e4"),
    pytest.param(RBF(0.1), 1.0, 0.0, id="RBF"),
    pytest.param(RBF(0.1) * Polynomial(2) + Linear(), 3.0, 0.0, id="composed"),
]


@looped("machine", MACHINES)
@looped("kernel, scale, offset", KERNELS)
def test_float32_points_give_what_float64_points_give(machine, kernel, scale, offset):
    X, y = data(scale, offset)
    new = X[::2] + scale / 4
    machine = clone(machine)
    if isinstance(kernel, Polynomial) and "reg" in machine.get_params():
        machine.set_params(reg=1e-4 * float(kernel.diag(X).mean()))
    wide, narrow = (
        answers(clone(machine).set_params(kernel=kernel), X.astype(t), y, new.astype(t))
        for t in (np.float64, np.float32)
    )
    # Coordinates come back in the type of the points.
    atol = 1e-6 if type(machine) is KernelPCA else 1e-9
    assert_allclose(narrow, wide, atol=atol * np.abs(wide).max(), rtol=atol)


@pytest.mark.parametrize(
    "machine",
    [m for m in catalog.machines if m.id in ("SVC", "OneClassSVM", "SVDD")],
)
@pytest.mark.parametrize(
    "kernel, offset",
    [(Linear(), 0.0), (Linear(), 100.0), (Linear(), 1e4), (Polynomial(2), 0.0),
     (RBF(0.5), 0.0), (RBF(0.5), 100.0)],
    ids=str,
)  # fmt: skip
def test_float32_points_on_the_boundary_get_the_labels_of_float64_points(
    machine, kernel, offset
):
    X, y = data(1.0, offset, n=300)
    wide, narrow = (
        clone(machine).set_params(kernel=kernel).fit(X.astype(t), y)
        for t in (np.float64, np.float32)
    )
    f = wide.decision_function(X)
    decided = np.abs(f) > 1e-12 * kernel.diag(X).max()
    assert decided.mean() > 0.9
    labels = narrow.predict(X.astype(np.float32))
    assert_array_equal(labels[decided], wide.predict(X)[decided])


@pytest.mark.parametrize("kind", ["sparse", "frame", "list"])
@pytest.mark.parametrize(
    "machine",
    [KernelRidge(1e-3), KernelLogisticRegression(), ParzenClassifier(method="mean")],
    ids=lambda m: type(m).__name__,
)
def test_points_of_other_kinds_give_it_too(machine, kind):
    pandas = pytest.importorskip("pandas")
    of = {"sparse": sp.csr_array, "frame": pandas.DataFrame, "list": list}[kind]
    X, y = data()
    machine = clone(machine).set_params(kernel=Polynomial(3))
    wide = answers(clone(machine), X, y, X)
    narrow = answers(machine, of(X.astype(np.float32)), y, of(X.astype(np.float32)))
    assert_allclose(narrow, wide, rtol=1e-6, atol=1e-7 * np.abs(wide).max())


def test_ordinary_numbers_and_a_polynomial_are_learnt_without_a_warning():
    rng = np.random.default_rng(0)
    X = (10 * rng.normal(size=(300, 5))).astype(np.float32)
    sides = X[:, 0] * X[:, 1] + 10 * X[:, 2] > 0
    machine = KernelLogisticRegression(kernel=Polynomial(3)).fit(X, sides)
    assert machine.score(X, sides) == 1.0
    target = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    ridge = KernelRidge(kernel=Polynomial(3)).fit(X, target)
    other = KernelRidge(kernel=Polynomial(3)).fit(X.astype(float), target)
    assert_allclose(ridge.predict(X), other.predict(X.astype(float)), rtol=1e-6)


def test_double_widens_what_is_single_and_nothing_else():
    pandas = pytest.importorskip("pandas")
    X = np.ones((3, 2), dtype=np.float32)
    assert double(X).dtype == double(sp.csr_array(X)).dtype == np.float64
    frame = double(pandas.DataFrame({"a": X[:, 0], "b": ["x", "y", "z"]}))
    assert frame["a"].dtype == np.float64 and list(frame["b"]) == ["x", "y", "z"]
    assert double([X[0], X[1]])[1].dtype == np.float64
    assert double([(X[0], "x")])[0][0].dtype == np.float64
    for kept in (X.astype(float), ["ab", "c"], [1, 2], pandas.DataFrame({"a": [1]})):
        assert double(kept) is kept


def test_a_gram_in_double_keeps_a_matrix_that_is_given():
    X = np.ones((3, 2), dtype=np.float32) / 3
    held = Gram(Linear(), X).held().double()
    # What was held in single precision is computed anew.
    assert_array_equal((held @ np.eye(3)), Linear()(X.astype(float)))


# f at new points


def test_f_is_in_double_precision_where_single_would_change_it(monkeypatch):
    monkeypatch.setattr(mercer.expansion, "FEW", 0)
    rng = np.random.default_rng(1)
    X, new = (rng.normal(size=(n, 3)).astype(np.float32) for n in (200, 300))
    coef = rng.normal(size=200)
    smooth = Expansion(RBF(0.5), X, coef)
    assert smooth._single_suffices(new)
    exact = Expansion(RBF(0.5), X.astype(float), coef)(new)
    assert_allclose(smooth(new), exact, atol=1e-5 * np.abs(exact).max())
    # Large coefficients that cancel.
    cancelling = Expansion(RBF(1e-4), X, np.r_[1e6 * coef[:100], -1e6 * coef[:100]])
    assert not cancelling._single_suffices(new)
    # One point among many whose kernel values float32 cannot hold.
    new[17] *= 1e12
    steep = Expansion(Polynomial(4), X, coef)
    with pytest.raises(ValueError, match="float64 points have a wider range"):
        steep._single_suffices(new)
    wide = Expansion(Polynomial(4), X.astype(float), coef)
    assert_array_equal(steep(new), wide(new.astype(float)))


# Overflow

BLOBS, LABELS = make_blobs(40, 380, centers=2, random_state=0)
TALL = np.random.default_rng(0).normal(size=(40, 4))
OVERFLOW = [
    pytest.param(Polynomial(200), BLOBS, id="degree 200"),
    pytest.param(Linear(), 1e200 * TALL, id="linear 1e200"),
    pytest.param(Linear(), 1.2e154 * TALL, id="linear, near the largest"),
    pytest.param(Polynomial(30) + RBF(0.1), 1e20 * TALL, id="composed"),
]
REFUSED = "not finite"


@looped("kernel, X", OVERFLOW)
@looped("machine", MACHINES)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_a_fit_refuses_kernel_values_that_overflow(machine, kernel, X):
    machine = clone(machine).set_params(kernel=kernel)
    with pytest.raises(ValueError, match=REFUSED):
        machine.fit(X, LABELS)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_only_single_precision_cannot_hold_is_learnt(machine):
    X = (30 * TALL).astype(np.float32)
    machine = clone(machine).set_params(kernel=Polynomial(14))
    assert Polynomial(14).diag(X.astype(float)).max() > 1e39
    assert np.isfinite(answers(machine, X, LABELS, X)).all()


@looped("entry", catalog.machines)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_new_points_whose_kernel_values_overflow_are_refused(entry):
    machine = clone(entry).set_params(kernel=Polynomial(3)).fit(TALL, LABELS)
    for name in ("predict", "transform", "decision_function", "predict_proba"):
        if hasattr(machine, name):
            with pytest.raises(ValueError, match=REFUSED):
                getattr(machine, name)(1e150 * TALL)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_lengths_that_overflow_are_refused():
    from mercer.machines.kmeans import KernelKMeans

    clusters = KernelKMeans(2, kernel=Linear(), random_state=0).fit(TALL)
    components = KernelPCA(2).fit(TALL)
    for method in (clusters.transform, clusters.score, components.reconstruction_error):
        with pytest.raises(ValueError, match=REFUSED):
            method(1e200 * TALL)


def test_coordinates_beyond_single_precision_are_double():
    X = (30 * TALL).astype(np.float32)
    machine = KernelPCA(2, kernel=Polynomial(40)).fit(X)
    for values in (machine.transform(X), machine.fit_transform(X)):
        assert values.dtype == np.float64 and np.isfinite(values).all()


# Components of eigenvalue 0


@pytest.mark.parametrize(
    "kernel, rank",
    [(Linear(), 4), (Polynomial(2), 14), (RBF(1e-4), None), (Polynomial(3), 34)],
    ids=str,
)
def test_as_many_components_in_single_as_in_double(kernel, rank):
    X = 3 * np.random.default_rng(2).normal(size=(80, 4))
    counts = [
        len(KernelPCA(kernel=kernel).fit(points).eigenvalues_)
        for points in (X, X.astype(np.float32), X.astype(np.float32).astype(float))
    ]
    assert len(set(counts)) == 1
    assert rank is None or counts[0] == rank


def test_points_on_a_line_have_one_component():
    line = np.outer(np.random.default_rng(0).normal(size=50), np.arange(1.0, 31.0))
    for points in (line, line.astype(np.float32)):
        assert len(KernelPCA(eigen_solver="dense").fit(points).eigenvalues_) == 1


# Learnt scales

EXTREME = [1e-300, 1e-200, 1e-160, 1e160, 1e200, 1e300]


@looped("factor", EXTREME)
@looped("kind", [np.asarray, sp.csr_array])
@looped("weight", [None, np.arange(1.0, 41.0)], ids=["", "weighted"])
def test_scales_of_extreme_points_are_learnt_or_refused(factor, kind, weight):
    X = kind(factor * TALL)
    for kernel in (RBF(), Polynomial(2, None), Sigmoid()):
        with pytest.raises(ValueError, match=r"1 / \(d · var X\).*Scale the data"):
            kernel.resolve(X, weight)
    expected = Laplacian().resolve(TALL, weight).gamma / factor
    assert_allclose(Laplacian().resolve(X, weight).gamma, expected, rtol=1e-12)


def test_columns_of_extreme_and_other_sizes_are_refused():
    X = TALL * [1e-200, 1e200, 1.0, 1.0]
    with pytest.raises(ValueError, match="var X is about 1e"):
        RBF().resolve(X)
    tiny = np.full((40, 4), 5e-324)
    tiny[::2] *= 3
    for kernel in (RBF(), Laplacian()):
        with pytest.raises(ValueError, match="Scale the data"):
            kernel.resolve(tiny)


def test_equal_entries_have_no_scale_whatever_they_are():
    for number in (0.0, 0.1, 1e-200, 1e200):
        assert RBF().resolve(np.full((7, 3), number)).gamma == 1.0
        assert Laplacian().resolve(np.full((7, 4), number)).gamma == 0.5


# Threads


@pytest.mark.parametrize(
    "module, name",
    [
        ("cholesky", Cholesky),
        ("newton", Newton),
        ("eigen", Lapack),
        ("l1", CoordinateDescent),
    ],
)
def test_small_problems_take_one_thread_of_a_blas(module, name, monkeypatch):
    from mercer.native import threads as pools

    asked = []

    def counted(n):
        asked.append(n)
        return blas_for(n)

    blas_for = pools.blas_for
    monkeypatch.setattr(f"mercer.solvers.{module}.blas_for", counted)
    machine = {
        Cholesky: KernelRidge(),
        Newton: KernelLogisticRegression(),
        Lapack: KernelPCA(2, eigen_solver="dense"),
        CoordinateDescent: catalog.SparseKernelClassifier(),
    }[name]
    machine.fit(TALL, LABELS)
    assert asked and max(asked) <= pools.SMALL


def test_conjugate_gradients_go_on_in_double_where_single_misleads():
    rng = np.random.default_rng(0)
    X = 10 * rng.normal(size=(200, 3))
    y = rng.normal(size=200)
    for kind in (np.float32, np.float64):
        machine = KernelRidge(1.0, kernel=Polynomial(3), solver=ConjugateGradient(1e-3))
        machine.fit(X.astype(kind), y)
        assert machine.certificate_.status == "optimal"
