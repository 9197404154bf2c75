"""Many points without K in memory: products anew, reports, limits, refusals."""

import itertools
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from mercer.gram import Gram
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear, Polynomial
from mercer.losses import Logistic
from mercer.machines.regularized import KernelLogisticRegression
from mercer.machines.ridge import KernelRidge
from mercer.machines.rvm import RVC, RVR
from mercer.native import memory
from mercer.solvers import bayes, krylov
from mercer.solvers.bayes import Basis, SparseBayes
from mercer.solvers.cholesky import Cholesky
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.evidence import EvidenceAscent
from mercer.solvers.krylov import LowRank, Products, Pulse, factor
from mercer.solvers.linear import LinearSystem
from mercer.solvers.newton import Newton
from mercer.solvers.penalized import Penalized

N = 1000
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3))
NUMBERS = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=N)
SIDES = np.where(NUMBERS > 0, 1.0, -1.0)
WEIGHT = rng.uniform(0.3, 3.0, size=N)
GRAM = Gram(RBF(0.3), X)


@pytest.fixture
def no_room(monkeypatch):
    """Nothing is kept in memory, however small."""
    monkeypatch.setattr(memory, "room_to_keep", lambda cache_mb=None: 0.0)


@pytest.fixture
def no_pause(monkeypatch):
    """Every piece of work is reported."""
    monkeypatch.setattr(krylov, "PAUSE", 0.0)


@pytest.mark.parametrize("dtype, digits", [(np.float32, 1e-5), (np.float64, 1e-12)])
def test_products_without_a_matrix_are_those_with_it(dtype, digits, no_room):
    V = rng.normal(size=(N, 3))
    products = Products(GRAM, dtype)
    assert products.tiles is not None and not products.tiles.kept
    assert products.single == (dtype == np.float32)
    assert_allclose(products(V), GRAM.dense() @ V, atol=digits * N)
    assert not products.tiles.kept


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weights"])
def test_ridge_without_a_matrix_solves_the_system(weight, no_room):
    target = np.column_stack([NUMBERS, X[:, 2]])
    problem = LinearSystem(GRAM, target, [0.5, 2.0], weight)
    found = ConjugateGradient(1e-8, trust=1e-6).solve(problem)
    direct = Cholesky().solve(problem)
    assert found.status == "optimal"
    assert_allclose(found.value, direct.value, atol=1e-6)
    assert found.dual <= direct.primal and direct.dual <= found.primal


def test_preconditioner_in_single_precision_is_the_inverse_of_what_it_stands_for():
    scale = np.sqrt(WEIGHT)[:, None]
    L = factor(GRAM, 200, dtype=np.float32)
    V = rng.normal(size=(N, 2))
    wide = L.astype(float)
    left = LowRank(L, scale, 1e-3, wide=True)(V)
    A = 1e-3 * np.eye(N) + (scale * wide) @ (scale * wide).T
    assert_allclose(A @ left, V, atol=1e-7)


def test_factor_in_single_precision_explains_as_much():
    K = GRAM.dense()
    single, double = (factor(GRAM, 150, dtype=dtype) for dtype in (np.float32, float))
    errors = [np.trace(K) - np.sum(L.astype(float) ** 2) for L in (single, double)]
    assert single.dtype == np.float32
    assert abs(errors[0] - errors[1]) < 1e-5 * np.trace(K)


@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
def test_newton_without_a_matrix_reaches_the_optimum(bias, no_room):
    problem = Penalized(GRAM, SIDES, Logistic(), 1e-3, weight=WEIGHT, bias=bias)
    found = Newton(1e-7, direct=10).solve(problem)
    direct = Newton(1e-9, direct=10**4).solve(problem)
    assert found.status == "optimal"
    assert_allclose(found.primal, direct.primal, rtol=1e-6)
    assert found.dual <= direct.primal


# Reports


def test_ridge_reports_within_products_and_how_long_it_will_take(no_room, no_pause):
    seen = []
    problem = LinearSystem(GRAM, NUMBERS, 1e-3)
    solver = ConjugateGradient(1e-8, rank=20)
    found = solver.solve(problem, watch=lambda progress: seen.append(progress))
    stages = {progress.stage.split(",")[0] for progress in seen}
    assert {"preconditioner", "product", ""} <= stages
    after = [progress for progress in seen if not progress.stage]
    assert [p.iterations for p in after] == list(range(1, len(after) + 1))
    assert len(after) == found.run.iterations
    left = [p.left for p in after[1:] if np.isfinite(p.left)]
    assert left and min(left) >= 0
    assert "s left" in after[len(after) // 2].line()
    seconds = [progress.seconds for progress in seen]
    assert all(a <= b for a, b in itertools.pairwise(seconds))


def test_newton_reports_within_products(no_room, no_pause):
    seen = []
    problem = Penalized(GRAM, SIDES, Logistic(), 1e-4)
    solver = Newton(1e-6, direct=10)
    solver.solve(problem, watch=lambda progress: seen.append(progress))
    stages = {progress.stage.split(",")[0] for progress in seen}
    assert {"preconditioner", "product", ""} <= stages


def test_machine_prints_and_stops(capsys):
    seen = []

    def callback(progress):
        seen.append(progress)
        return len(seen) >= 4

    machine = KernelRidge(
        1e-3, kernel=RBF(0.3), solver=ConjugateGradient(1e-10, rank=10)
    )
    machine.set_params(verbose=True, callback=callback)
    with pytest.warns(ConvergenceWarning, match="status 'stopped'"):
        machine.fit(X, NUMBERS)
    assert machine.run_.status == "stopped" and len(seen) <= 5
    assert "relative residual" in capsys.readouterr().out
    assert machine.certificate_.dual <= machine.certificate_.primal


def test_a_stop_in_single_precision_states_what_is_true_in_double(no_room):
    problem = Penalized(GRAM, SIDES, Logistic(), 1e-5)
    solver = Newton(1e-10, direct=10, rank=20)
    found = solver.solve(problem, watch=lambda progress: progress.iterations >= 1)
    assert found.status == "stopped"
    optimum = Newton(1e-10, direct=10**4).solve(problem).primal
    assert found.dual <= optimum <= found.primal
    K = GRAM.dense()
    f = K @ found.value
    exact = problem.reg * found.value @ f + np.mean(np.logaddexp(0, -SIDES * f))
    assert abs(found.primal - exact) <= found.objective_rounding + 1e-14


# Time limits


def test_time_limits_end_with_what_was_found(monkeypatch):
    ridge = LinearSystem(GRAM, NUMBERS, 1e-6)
    found = ConjugateGradient(1e-12, rank=5, time_limit=1e-9).solve(ridge)
    assert found.status == "time_limit" and found.violation > 1e-12
    logistic = Penalized(GRAM, SIDES, Logistic(), 1e-6)
    for solver in (
        Newton(1e-12, direct=10, rank=5, time_limit=1e-9),
        Newton(1e-12, time_limit=1e-9),
    ):
        found = solver.solve(logistic)
        assert found.status == "time_limit" and found.dual <= found.primal
    some = SparseBayes(GRAM.take(np.arange(200)), NUMBERS[:200])
    assert EvidenceAscent(time_limit=1e-9).solve(some).status == "time_limit"
    assert EvidenceAscent(time_limit=1e9).solve(some).status == "optimal"


@pytest.mark.parametrize("solver", [ConjugateGradient, Newton, EvidenceAscent])
def test_time_limit_is_a_positive_number(solver):
    with pytest.raises(ValueError, match="time_limit > 0"):
        solver(time_limit=0.0)


def test_machine_says_that_its_time_was_over():
    machine = KernelLogisticRegression(
        1e6, kernel=RBF(1.0), solver=Newton(1e-12, time_limit=1e-9)
    )
    with pytest.warns(ConvergenceWarning, match="status 'time_limit'.*gap"):
        machine.fit(X, SIDES)


INTERRUPTED = """
import signal
import time
import numpy as np
from mercer import KernelRidge, RBF
from mercer.native import memory
memory.room_to_keep = lambda cache_mb=None: 2e8
# Who runs the tests in the background may have had it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
X = np.random.default_rng(0).normal(size=(60_000, 20))
began = []

def callback(progress):
    if not began:
        print("started", flush=True)
        began.append(progress)

try:
    KernelRidge(kernel=RBF(0.05), callback=callback).fit(X, X[:, 0])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are another thing there")
def test_fit_of_many_points_is_interrupted():
    command, pipe = [sys.executable, "-c", INTERRUPTED], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as child:
        assert child.stdout.readline() == "started\n"
        time.sleep(1.0)
        child.send_signal(signal.SIGINT)
        said = child.stdout.readline()
        child.kill()
        assert said == "interrupted\n", child.stderr.read()


# Relevance vectors


def test_relevance_vector_machines_refuse_what_cannot_end(monkeypatch):
    many = np.zeros((60_000, 1))
    monkeypatch.setattr(memory, "available_memory", lambda: 4e9)
    for machine, target in ((RVR(RBF(1.0)), many[:, 0]), (RVC(RBF(1.0)), None)):
        target = np.arange(60_000) % 2 if target is None else target
        with pytest.raises(MemoryError, match=r"60,000 points have 28.8 GB .* fewer"):
            machine.fit(many, target)


@pytest.mark.parametrize("kernel", [Polynomial(2, offset=1.0), Linear()], ids=repr)
def test_basis_of_a_small_map_is_that_of_the_matrix(kernel, monkeypatch):
    problem = SparseBayes(Gram(kernel, X), NUMBERS, weight=WEIGHT)
    whole = Basis(problem)
    monkeypatch.setattr(bayes, "FEW", 10)
    by_map = Basis(problem)
    assert whole.features is None and by_map.features is not None
    assert by_map.rows == 0 and not by_map.held
    V, index = rng.normal(size=(N, 2)), np.array([3, N, 7])
    assert_allclose(by_map.scale, whole.scale, rtol=1e-12)
    assert_allclose(by_map.columns(index), whole.columns(index), atol=1e-12)
    assert_allclose(by_map.products(V), whole.products(V), atol=1e-9)
    assert_allclose(by_map.products(V[:, 0]), whole.products(V[:, 0]), atol=1e-9)
    assert_allclose(by_map.squares(WEIGHT), whole.squares(WEIGHT), rtol=1e-10)


def test_relevance_vectors_by_a_small_map_are_those_of_the_matrix(monkeypatch):
    kernel = Polynomial(2, offset=1.0)
    whole = RVC(kernel).fit(X, SIDES)
    monkeypatch.setattr(bayes, "FEW", 10)
    by_map = RVC(kernel).fit(X, SIDES)
    assert_allclose(by_map.evidence_, whole.evidence_, rtol=1e-6)
    assert_allclose(by_map.decision_function(X), whole.decision_function(X), atol=1e-2)


def test_relevance_vector_machines_report_between_scans(no_pause):
    seen = []
    RVR(RBF(1.0), callback=lambda progress: seen.append(progress)).fit(
        X[:300], NUMBERS[:300]
    )
    assert "steps" in {progress.stage for progress in seen}


def test_pulse_is_quiet_for_a_while():
    heard = []
    pulse = Pulse(lambda stage: heard.append(stage) or False)
    for _ in range(100):
        pulse("work", 0.5)
    assert not heard
    pulse.last -= 2 * krylov.PAUSE
    pulse("work", 0.5)
    assert heard == ["work, 50%"] and not pulse.stopped
