"""One thread of BLAS within, as many as before afterwards."""

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  (its BLAS is one of those that are looked for)

threadpoolctl = pytest.importorskip("threadpoolctl")

from mercer.kernels.radial import RBF  # noqa: E402
from mercer.machines.ridge import KernelRidge  # noqa: E402
from mercer.native.threads import one_blas_thread  # noqa: E402
from mercer.solvers.conjugate_gradient import ConjugateGradient  # noqa: E402


def counts():
    found = threadpoolctl.threadpool_info()
    return [pool["num_threads"] for pool in found if pool["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def two_threads():
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        if set(counts()) != {2}:
            pytest.skip("this BLAS does not take the number of its threads")
        yield


def test_one_thread_within_and_as_many_as_before_afterwards():
    with one_blas_thread():
        assert set(counts()) == {1}
    assert set(counts()) == {2}


def test_an_error_within_restores_the_threads():
    with pytest.raises(RuntimeError), one_blas_thread():
        raise RuntimeError
    assert set(counts()) == {2}


def test_the_last_to_leave_restores_the_threads():
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(counts()) == {1}
    second.__exit__(None, None, None)
    assert set(counts()) == {2}


def test_a_fit_that_is_interrupted_restores_the_threads():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))

    class Interrupted(RBF):
        def matmul(self, X, Y, V, *, block_mb=0.0):
            assert set(counts()) == {1}
            raise KeyboardInterrupt

    machine = KernelRidge(kernel=Interrupted(1.0), solver=ConjugateGradient())
    with pytest.raises(KeyboardInterrupt):
        machine.fit(X, X[:, 0])
    assert set(counts()) == {2}
