"""How many threads work: our own, and those of BLAS beside them, by threadpoolctl.

numpy and scipy each bring a BLAS with a pool of threads of its own. A thread of such a
pool keeps its core busy for some milliseconds after it has worked, waiting for more: a
loop that goes from one BLAS to the other, or to our own threads, then spends most of
its time waiting for cores where nothing is done. Small matrices gain nothing from
threads in the first place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from threading import Lock
from typing import Any

from mercer import _core

SMALL = 600  # the side of a matrix that one thread factors in milliseconds

try:
    import threadpoolctl
except ImportError:  # it comes with scikit-learn
    threadpoolctl = None


if threadpoolctl is not None:

    class _Ours(threadpoolctl.LibController):
        """Lets `threadpoolctl.threadpool_limits` set our threads too."""

        user_api = "mercer"
        internal_api = "mercer"
        filename_prefixes = ("_core",)
        # Other packages have a file of this name, but not these functions.
        check_symbols = ("mercer_get_num_threads", "mercer_set_num_threads")

        def get_num_threads(self) -> int:
            return self.dynlib.mercer_get_num_threads()

        def set_num_threads(self, num_threads: int) -> None:
            self.dynlib.mercer_set_num_threads(num_threads)

        def get_version(self) -> None:
            return None

    threadpoolctl.register(_Ours)


class _OneThread:
    """How many callers want one thread, and the limits before the first of them."""

    lock = Lock()
    users = 0
    before: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within, every BLAS works in the thread that calls it.

    The number of threads is the whole process's: it is restored when the last
    caller leaves.
    """
    if threadpoolctl is None:
        yield
        return
    with _OneThread.lock:
        if not _OneThread.users:
            _OneThread.before = _pools().limit(limits=1, user_api="blas")
        _OneThread.users += 1
    try:
        yield
    finally:
        with _OneThread.lock:
            _OneThread.users -= 1
            if not _OneThread.users:
                _OneThread.before.restore_original_limits()


def blas_for(n: int) -> AbstractContextManager[None]:
    """One thread for each BLAS while matrices of side n are worked on, if n is small.

    Beside a core that is busy, threads that wait for each other in every small product
    take ten times as long as one thread that does it all.
    """
    return one_blas_thread() if n <= SMALL else nullcontext()


@lru_cache(maxsize=1)
def _pools() -> Any:
    """The pools there are; looking for them takes some milliseconds."""
    return threadpoolctl.ThreadpoolController()


def threads() -> int:
    """How many threads a computation may use."""
    return _core.threads()


def set_threads(n: int) -> None:
    """Let computations use n threads."""
    if n < 1:
        raise ValueError(f"set_threads needs n >= 1; got n={n!r}.")
    _core.set_threads(n)


@contextmanager
def at_most(n: int) -> Iterator[None]:
    """Within, computations that this thread asks for use no more than n threads.

    With n = 0 as many as there are.
    """
    before = _core.limit_threads(n)
    try:
        yield
    finally:
        _core.limit_threads(before)


def instruction_set() -> str:
    """The instruction set in use: "baseline", "avx2" or "avx512"."""
    return _core.instruction_set()
