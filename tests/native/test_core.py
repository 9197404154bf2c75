"""The native core as a library: its exponential, threads, processes, environment."""

import os
import signal
import subprocess
import sys
import threading
import time

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mercer.native import vectors
from mercer.native.threads import set_threads, threads
from mercer.native.vectors import Recipe, block, exp

GAUSSIAN = Recipe("square", "exp", scale=-0.5)


def run(code, **environment):
    """The output of a fresh Python that runs code."""
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if result.returncode:
        raise RuntimeError(result.stderr)
    return result.stdout


def arguments(dtype):
    """Numbers in every binade for which eˣ is neither 1 nor 0 nor infinite."""
    info = np.finfo(dtype)
    lowest = np.log(float(info.smallest_subnormal))
    rng = np.random.default_rng(0)
    small = np.ldexp(rng.uniform(1, 2, 300), rng.integers(-60, 6, 300))
    wide = rng.uniform(lowest, np.log(float(info.max)), 1500)
    return np.concatenate([small, -small, wide]).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exp_is_within_two_ulp(dtype):
    x = arguments(dtype)
    with mpmath.workdps(40):
        for argument, value in zip(x.tolist(), exp(x), strict=True):
            truth = mpmath.exp(mpmath.mpf(argument))
            ulp = float(np.spacing(np.asarray(float(truth)).astype(dtype)))
            assert abs(mpmath.mpf(float(value)) - truth) <= 2 * ulp, argument


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exp_of_special_numbers(dtype):
    x = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e4, -1e4], dtype)
    expected = np.array([1, 1, np.nan, np.inf, 0, np.inf, 0], dtype)
    assert_array_equal(exp(x), expected)
    for k in range(len(x)):  # alone among plain numbers, in every lane
        for lane in range(20):
            plain = np.full(20, 0.5, dtype)
            plain[lane] = x[k]
            others = np.arange(20) != lane
            assert_array_equal(exp(plain)[lane], expected[k])
            assert_array_equal(exp(plain)[others], exp(np.full(19, 0.5, dtype)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exp_passes_through_the_subnormal_numbers(dtype):
    info = np.finfo(dtype)
    x = np.linspace(np.log(float(info.smallest_subnormal)) - 1, -80, 4001).astype(dtype)
    y = exp(x)
    assert (np.diff(y) >= 0).all() and y[0] == 0
    assert ((y > 0) & (y < info.tiny)).sum() > 100 or dtype == np.float64
    assert exp(np.array([np.log(float(info.smallest_subnormal))], dtype))[0] > 0


def test_exp_keeps_shape_and_takes_any_layout():
    x = np.arange(24.0).reshape(4, 6)[:, ::2]
    assert_array_equal(exp(x), exp(x.copy()))
    assert exp(np.float64(0)).shape == ()


INSTRUCTION_SETS = """
import numpy as np
from mercer.native.threads import *
from mercer.native.vectors import *
rng = np.random.default_rng(0)
total = 0
for dtype in (np.float32, np.float64):
    for d in (3, 50, 500):
        X, Y = rng.random((61, d)).astype(dtype), rng.random((87, d)).astype(dtype)
        X[rng.random(X.shape) < 0.4] = 0
        x, y = X[:, None].astype(float), Y[None].astype(float)
        sums = {
            "product": (x * y).sum(-1),
            "square": ((x - y) ** 2).sum(-1),
            "absolute": abs(x - y).sum(-1),
            "chi2": np.nan_to_num((x - y) ** 2 / (x + y)).sum(-1),
            "minimum": np.minimum(x, y).sum(-1),
        }
        eps = 5e-6 if dtype == np.float32 else 1e-13
        for part, s in sums.items():
            for finish, K in (("identity", s), ("exp", np.exp(-s / d))):
                recipe = Recipe(part, finish, scale=-1.0 / d)
                assert abs(block(recipe, X, Y) - K).max() <= eps * abs(K).max()
                gram = block(recipe, X)
                assert (gram == gram.T).all()
                assert (np.diag(gram) == diag(recipe, X)).all()
                v = rng.standard_normal((87, 9))
                error = abs(product(recipe, X, Y, v) - K @ v).max()
                assert error <= 10 * eps * (abs(K) @ abs(v)).max()
                total += 1
print(instruction_set(), total)
"""


@pytest.mark.parametrize(
    "name, multiplier",
    [
        *((name, "own") for name in ("baseline", "avx2", "avx512")),
        *(("baseline", multiplier) for multiplier in ("blas", "auto")),
    ],
)
def test_every_instruction_set_and_product_agrees(name, multiplier):
    try:
        out = run(INSTRUCTION_SETS, MERCER_ISA=name, MERCER_PRODUCT=multiplier)
    except RuntimeError as error:
        if "cannot run here" in str(error):
            pytest.skip(f"this machine has no {name}")
        raise
    assert out.split() == [name, "60"]


def test_exp_of_the_baseline_is_within_two_ulp():
    code = (
        "import numpy as np; from mercer.native.vectors import exp\n"
        "x = np.linspace(-86, 87, 200_001, dtype=np.float32)\n"
        "truth = np.exp(x.astype(float))\n"
        "print((abs(exp(x) - truth) / np.spacing(truth.astype('f'))).max())"
    )
    assert float(run(code, MERCER_ISA="baseline")) <= 2


def test_unknown_words_in_the_environment_are_refused():
    with pytest.raises(RuntimeError, match="MERCER_ISA=mmx cannot run here"):
        run("import mercer.native.vectors", MERCER_ISA="mmx")
    with pytest.raises(RuntimeError, match="MERCER_PRODUCT is own, blas or auto"):
        run("import mercer.native.vectors", MERCER_PRODUCT="mine")


def test_environment_limits_the_threads():
    code = "import mercer.native.threads as v; print(v.threads())"
    assert run(code, MERCER_NUM_THREADS="1").strip() == "1"
    assert run(code, MERCER_NUM_THREADS="", OMP_NUM_THREADS="1").strip() == "1"
    assert int(run(code, MERCER_NUM_THREADS="1000000")) <= os.cpu_count()


def test_set_threads_is_read_back_and_checked():
    before = threads()
    try:
        set_threads(3)
        assert threads() == 3
    finally:
        set_threads(before)
    with pytest.raises(ValueError, match="n=0"):
        set_threads(0)


def test_threadpoolctl_limits_the_threads():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    before = threads()
    try:
        set_threads(2)
        with threadpoolctl.threadpool_limits(1):
            assert threads() == 1
        assert threads() == 2
    finally:
        set_threads(before)


def test_importing_scipy_linalg_is_left_to_the_blas():
    code = (
        "import sys, numpy as np; from mercer.native.vectors import *\n"
        "block(Recipe('product', 'identity'), np.ones((50, 40)))\n"
        "print('scipy.linalg.cython_blas' in sys.modules)"
    )
    assert run(code, MERCER_PRODUCT="own").strip() == "False"
    assert run(code, MERCER_PRODUCT="blas").strip() == "True"


FORK = """
import os, threading
import numpy as np
from mercer.native.threads import *
from mercer.native.vectors import *
set_threads(2)
X = np.random.default_rng(0).random((1500, 20))
recipe = Recipe("square", "exp", scale=-1.0)
expected = block(recipe, X)
busy = {busy}
stop = False
def work():
    while not stop:
        block(recipe, X)
thread = threading.Thread(target=work)
if busy:
    thread.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        same = all((block(recipe, X) == expected).all() for _ in range(2))
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
stop = True
if busy:
    thread.join()
assert (block(recipe, X) == expected).all()
print("fine")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("busy", [False, True])
def test_a_forked_child_computes_too(busy):
    assert run(FORK.format(busy=busy)).strip() == "fine"


def test_two_python_threads_compute_at_once():
    X = np.random.default_rng(0).random((700, 30))
    expected = block(GAUSSIAN, X)
    results = [None] * 4

    def work(k):
        results[k] = [block(GAUSSIAN, X) for _ in range(3)]

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for result in results:
        for K in result:
            assert_array_equal(K, expected)


def test_the_interpreter_runs_while_the_core_computes():
    X = np.random.default_rng(0).random((1200, 300))
    ticks, done = 0, threading.Event()

    def work():
        for _ in range(3):
            block(Recipe("chi2", "identity"), X)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.wait(0.005):
        ticks += 1
    thread.join()
    assert ticks > 3


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer here")
@pytest.mark.parametrize("count", [1, 2])
def test_an_interrupt_ends_a_long_block_soon(count):
    X = np.random.default_rng(0).random((12_000, 60)).astype(np.float32)
    packed = vectors.Packed(X)
    V = np.ones((12_000, 2))

    def interrupt(*_):
        raise KeyboardInterrupt

    old, before = signal.signal(signal.SIGALRM, interrupt), threads()
    set_threads(count)
    expected = block(GAUSSIAN, X[:50])
    try:
        start = time.process_time()
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            vectors.product(Recipe("chi2", "identity"), packed, packed, V)
        # 0.1 s until the signal and 0.2 s to hear it, of each thread's work.
        assert time.process_time() - start < count
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        set_threads(before)
    assert_array_equal(block(GAUSSIAN, X[:50]), expected)


def test_memory_that_is_not_there_is_a_memory_error():
    if sys.platform != "linux":
        pytest.skip("limits of memory are Linux's")
    code = (
        "import resource, numpy as np; from mercer.native.vectors import *\n"
        "X = np.zeros((40_000_000, 1), np.float32)\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 10**8, used + 10**8))\n"
        "try:\n    Packed(X)\nexcept MemoryError:\n    print('said')"
    )
    assert run(code).strip() == "said"


def test_rows_asked_for_by_native_code_are_rows_of_the_block():
    X = np.random.default_rng(0).random((90, 12)).astype(np.float32)
    which = np.array([3, 88, 3, 0, 41])
    packed, out = vectors.Packed(X), np.empty((5, 90), np.float32)
    for recipe in (GAUSSIAN, Recipe("minimum", "identity")):
        vectors._core.rows(vectors.native_recipe(recipe), packed._points, which, out)
        assert_array_equal(out, block(recipe, X)[which])
