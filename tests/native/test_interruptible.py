"""Ctrl-C is heard during long calls; what they were about to change stays as it was."""

import os
import signal
import threading
from contextlib import contextmanager

import catalog
import numpy as np
import pytest
import scipy.linalg
from looped import looped
from sklearn.base import clone, is_regressor

from mercer.data import edges
from mercer.data.graphs import Graph
from mercer.densities import chain, normals
from mercer.densities.chain import MarkovChain
from mercer.densities.gaussian import Gaussian
from mercer.kernels import base, counts, explicit, node, ways
from mercer.kernels.graph import WeisfeilerLehman
from mercer.kernels.node import Diffusion
from mercer.kernels.operators import Constant
from mercer.kernels.radial import RBF, Matern, Radial
from mercer.kernels.vector import Bilinear, Polynomial
from mercer.machines import labels
from mercer.machines.labels import classes_of
from mercer.machines.pca import KernelPCA
from mercer.machines.regularized import KernelLogisticRegression
from mercer.machines.ridge import KernelRidge
from mercer.machines.rvm import RVC
from mercer.native import interruptible as module
from mercer.native import lapack
from mercer.native.interruptible import interruptible, multiply
from mercer.solvers import eigen, evidence, krylov, newton, posterior
from mercer.theory import feature_angles, mercer_expansion
from mercer.theory.condition import check, empirical_features, repair

# The modules whose long calls go through `interruptible`.
LEAVING = [module, lapack, counts, node, eigen, evidence, krylov, newton, posterior]
LEAVING += [base, chain, edges, explicit, labels, ways, normals]

# Where the fits of machines come by when they have read their points.
LAST = [(RBF, "resolve"), (RBF, "__call__"), (RBF, "matmul")]

pytestmark = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(),
    reason="signals are heard by the main thread",
)


class Stuck:
    """A call that does not come back before it is allowed to."""

    def __init__(self):
        self.begun, self.allowed, self.ended = (threading.Event() for _ in range(3))

    def __call__(self, *args, **options):
        self.begun.set()
        self.allowed.wait(60)
        self.ended.set()


@contextmanager
def interrupted_once_in(call):
    """Ctrl-C when the call has begun; KeyboardInterrupt comes while it still runs."""

    def press():
        call.begun.wait(60)
        if not over:
            os.kill(os.getpid(), signal.SIGINT)

    over: list[bool] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    finger = threading.Thread(target=press)
    finger.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
        assert call.begun.is_set() and not call.ended.is_set()
    finally:
        over.append(True)
        call.begun.set()
        call.allowed.set()
        finger.join()
        signal.signal(signal.SIGINT, before)
        # What waits for the end of the call is not to meet the next test.
        for thread in threading.enumerate():
            if thread.name == "mercer-abandoned":
                thread.join(60)


@pytest.fixture
def all_long(monkeypatch):
    """Every call is taken for a long one."""
    monkeypatch.setattr(module, "LONG", 0)
    monkeypatch.setattr(lapack, "LONG", 0)


def test_an_interrupt_leaves_a_call_that_still_runs():
    call = Stuck()
    with interrupted_once_in(call):
        interruptible(call, work=1e12)


def test_a_short_call_runs_where_it_is():
    assert interruptible(threading.current_thread, work=1) is threading.main_thread()


def test_a_long_call_runs_in_a_thread_that_no_exit_waits_for():
    thread = interruptible(threading.current_thread, work=1e12)
    assert thread is not threading.main_thread() and thread.daemon


def test_other_threads_have_nothing_to_leave_for():
    found = []

    def run():
        found.append(interruptible(threading.current_thread, work=1e12))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [thread]


def test_errors_come_back_and_options_go_along():
    with pytest.raises(ZeroDivisionError, match="division"):
        interruptible(lambda: 1 / 0, work=1e12)
    assert interruptible(sorted, [1, 2, 3], reverse=True, work=1e12) == [3, 2, 1]


def test_numpy_reports_what_it_was_told_to_report():
    huge = np.full((2, 2), 1e308)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        interruptible(np.multiply, huge, huge, work=1e12)
    with np.errstate(all="ignore"):
        assert np.isinf(interruptible(np.multiply, huge, huge, work=1e12)).all()


def test_a_call_that_was_left_has_one_thread_of_blas_until_it_ends(monkeypatch):
    entered, left = threading.Event(), threading.Event()

    @contextmanager
    def one_blas_thread():
        entered.set()
        yield
        left.set()

    monkeypatch.setattr(module, "one_blas_thread", one_blas_thread)
    call = Stuck()
    with interrupted_once_in(call):
        try:
            interruptible(call, work=1e12)
        finally:
            assert entered.wait(60) and not left.is_set()
    assert left.wait(60)


# LAPACK without the lock


@pytest.fixture
def definite():
    A = np.random.default_rng(0).normal(size=(40, 40))
    return A @ A.T + np.eye(40)


@looped(
    "options",
    [
        {},
        {"eigvals_only": True},
        {"subset_by_index": (37, 39)},
        {"subset_by_index": (0, 0), "eigvals_only": True},
    ],
)
def test_eigenpairs_are_those_of_scipy(definite, all_long, options):
    ours, theirs = (e.eigh(definite, **options) for e in (lapack, scipy.linalg))
    if "eigvals_only" in options:
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        return
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-12)
    overlap = np.abs(np.sum(ours[1] * theirs[1], axis=0))
    np.testing.assert_allclose(overlap, 1, atol=1e-10)


@looped("n", [1, 2, 31, 32, 33, 64, 70])
@looped("scale", [1.0, 1e-150, 1e150, 0.0])
def test_eigenpairs_of_any_size_and_scale(all_long, n, scale):
    A = np.random.default_rng(n).normal(size=(n, n))
    A = scale * (A + A.T)
    values, V = lapack.eigh(A)
    np.testing.assert_allclose(V.T @ V, np.eye(n), atol=1e-12)
    np.testing.assert_allclose(A @ V, V * values, atol=1e-12 * n * scale)
    assert (np.diff(values) >= 0).all()
    np.testing.assert_allclose(lapack.eigvalsh(A), values, atol=1e-12 * n * scale)


@pytest.mark.parametrize("low", [0, 30, 88])
def test_some_of_many_equal_eigenvalues_have_orthogonal_vectors(all_long, low):
    # Of rank 6, of two values: what a kernel with few features gives.
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.normal(size=(90, 6)))[0]
    A = U * [1, 1, 1, 5, 5, 5] @ U.T
    values, V = lapack.eigh(A, subset_by_index=(low, 89))
    assert V.shape == (90, 90 - low)
    np.testing.assert_allclose(values[-2:], [5.0] * 2, rtol=1e-12)
    np.testing.assert_allclose(V.T @ V, np.eye(90 - low), atol=1e-12)
    np.testing.assert_allclose(A @ V, V * values, atol=1e-12)


def test_eigenpairs_do_without_the_robust_representations(
    definite, all_long, monkeypatch
):
    expected = lapack.eigh(definite, subset_by_index=(30, 39))
    routine = lapack._routine

    def failing(name):
        def fail(*args):
            args[-1].value = 1  # info

        return fail if name == "dstemr" else routine(name)

    for other in (failing, lambda name: None if name == "dstemr" else routine(name)):
        monkeypatch.setattr(lapack, "_routine", other)
        values, V = lapack.eigh(definite, subset_by_index=(30, 39))
        np.testing.assert_allclose(values, expected[0], rtol=1e-12)
        np.testing.assert_allclose(definite @ V, V * values, atol=1e-10)


def test_eigenpairs_are_found_in_pieces(definite, all_long, monkeypatch):
    called = []
    monkeypatch.setattr(lapack, "PANEL", 8)
    monkeypatch.setattr(lapack, "COLUMNS", 10)

    def counted(call, *args, work, **options):
        called.append(work)
        return call(*args, **options)

    monkeypatch.setattr(lapack, "interruptible", counted)
    values, V = lapack.eigh(definite)
    np.testing.assert_allclose(definite @ V, V * values, atol=1e-10)
    assert len(called) == 2 * 4 + 1 + 4  # panels with updates, T, columns of V


def test_eigenpairs_of_what_is_not_finite_are_refused(definite, all_long):
    definite[3, 2] = np.nan
    with pytest.raises(ValueError, match="infs or NaNs"):
        lapack.eigh(definite)


@pytest.mark.parametrize("columns", [(), (3,)])
def test_factors_solve_and_invert(definite, all_long, columns):
    B = np.random.default_rng(1).normal(size=(40, *columns))
    R = np.asfortranarray(definite)
    norm = np.abs(definite).sum(axis=0).max()
    assert lapack.factor(R)
    upper = np.triu(R)
    np.testing.assert_allclose(upper.T @ upper, definite, atol=1e-10)
    np.testing.assert_allclose(definite @ lapack.solve(R, B), B, atol=1e-8)
    exact = 1 / np.linalg.cond(definite, 1)
    assert 0.99 * exact <= lapack.condition(R, norm) <= 10 * exact
    L = np.asfortranarray(upper.T)
    np.testing.assert_allclose(L @ lapack.half(L, B), B, atol=1e-8)
    np.testing.assert_allclose(L.T @ lapack.half(L, B, transposed=True), B, atol=1e-8)
    lapack.invert(R)
    np.testing.assert_allclose(np.triu(R) @ upper, np.eye(40), atol=1e-10)


def test_products_read_the_lower_triangle(definite, all_long):
    B = np.random.default_rng(1).normal(size=(40, 3))
    lower = np.asfortranarray(np.tril(definite))
    product = lapack.symmetric_product(lower, B)
    np.testing.assert_allclose(product, definite @ B, atol=1e-10)
    np.testing.assert_array_equal(multiply(definite, B), definite @ B)


def test_an_indefinite_matrix_has_no_factors(definite, all_long):
    definite[0, 0] = -1
    assert not lapack.factor(np.asfortranarray(definite))


# Machines and functions: LAPACK or BLAS does not come back, and Ctrl-C is heard


X = np.random.default_rng(0).normal(size=(60, 3))
y = np.where(X[:, 0] > 0, 1, -1)
K = RBF(0.5)(X)
RING = ([(i, (i + 1) % 60) for i in range(60)], None)

CALLS = {
    "KernelPCA": lambda: KernelPCA(5, kernel="rbf", eigen_solver="dense").fit(X),
    "KernelPCA, many": lambda: KernelPCA(50, kernel="rbf").fit(X),
    "KernelRidge": lambda: KernelRidge(kernel=RBF(0.5)).fit(X, X[:, 0]),
    "logistic": lambda: KernelLogisticRegression(kernel=RBF(0.5)).fit(X, y),
    "RVC": lambda: RVC(kernel=RBF(0.5)).fit(X, y),
    "check": lambda: check(K),
    "repair": lambda: repair(K - np.eye(60)),
    "features": lambda: empirical_features(K),
    "expansion": lambda: mercer_expansion(RBF(1.0), -1.0, 1.0, n_nodes=60),
    "diffusion": lambda: Diffusion(RING, 0.5)(list(range(60))),
    "edges": lambda: Graph([(i, (i + 1) % 60) for i in range(60)]),
    "classes": lambda: classes_of(y),
    "features of a map": lambda: Polynomial(2).features(X),
    "a sum": lambda: (RBF(0.5) + Matern(1.5))(X),
    "a constant": lambda: Constant(2.0)(X),
    "angles": lambda: feature_angles(RBF(0.5), X),
    "a bilinear form": lambda: Bilinear(np.eye(3))(X),
    "distances": lambda: Radial(np.exp)(X),
    "precomputed": lambda: KernelPCA(2, kernel="precomputed").fit(K),
    "covariances": lambda: Gaussian().fit(X),
    "moves": lambda: MarkovChain().fit([list("abab")] * 3),
    "patterns": lambda: WeisfeilerLehman(2)([RING, RING]),
}


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_is_heard_while_a_library_works(name, monkeypatch):
    stuck = Stuck()

    def never(call, *args, work, **options):
        return interruptible(stuck, work=1e12)

    for part in LEAVING:
        if hasattr(part, "interruptible"):
            monkeypatch.setattr(part, "interruptible", never)
    monkeypatch.setattr(lapack, "LONG", 0)
    with interrupted_once_in(stuck):
        CALLS[name]()


def fitted(machine):
    return {key: value for key, value in vars(machine).items() if key[-1] == "_"}


@pytest.mark.parametrize("machine", catalog.machines + catalog.window_machines)
def test_an_interrupted_fit_leaves_the_one_before(machine, monkeypatch):
    whole = is_regressor(machine)
    machine = clone(machine)
    if machine.kernel == "linear":
        machine.set_params(kernel="rbf")
    machine.fit(X, X[:, 0] if whole else y)
    before = fitted(machine)

    def press(*args, **options):
        raise KeyboardInterrupt

    # Whatever a fit calls first and last in the lower layers.
    for where, name in LAST:
        monkeypatch.setattr(where, name, press)
    other = X[:50, :2] + 1
    labels = other[:, 1] if whole else np.where(other[:, 1] > 1, 5, 7)
    with pytest.raises(KeyboardInterrupt):
        machine.fit(other, labels)
    after = fitted(machine)
    assert after.keys() == before.keys()
    assert all(after[key] is before[key] for key in before)


# Sums over blocks


def test_sums_over_blocks_are_those_of_one_thread(monkeypatch):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(1000, 7))
    blocks = [slice(i, i + 90) for i in range(0, 1000, 90)]

    def call(rows):
        part = A[rows].astype(np.float32)
        return part.T @ part, part.sum(axis=0)

    for many in (1, 2, 3):
        monkeypatch.setattr(module, "threads", lambda many=many: many)
        square, total = module.summed(call, blocks)
        again, _ = module.summed(call, blocks)
        assert square.dtype == total.dtype == np.float64
        assert np.array_equal(square, again)
        np.testing.assert_allclose(square, A.T @ A, atol=1e-3)
        np.testing.assert_allclose(total, A.sum(axis=0), atol=1e-3)


def test_an_error_in_a_block_ends_the_sum(monkeypatch):
    monkeypatch.setattr(module, "threads", lambda: 2)
    seen = []

    def call(i):
        seen.append(i)
        if i == 1:
            raise ZeroDivisionError("block 1")
        return (np.ones(2),)

    with pytest.raises(ZeroDivisionError, match="block 1"):
        module.summed(call, range(10))
    assert 3 not in seen  # the thread of block 1 took no other


def test_sums_do_without_threads_that_are_not_granted(monkeypatch):
    def refused(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module, "threads", lambda: 2)
    monkeypatch.setattr(threading.Thread, "start", refused)
    (total,) = module.summed(lambda i: (np.full(2, float(i)),), range(10))
    assert total.tolist() == [45.0, 45.0]
