"""Long calls that Ctrl-C does not wait for.

Python hears of Ctrl-C between two of its own steps. LAPACK, BLAS and the sorting of
numpy are one step each, however long they take. Such a call runs in a thread of its
own here, while the main thread waits where it hears signals. On an interrupt it leaves,
and the call ends by itself: it may write only to arrays that nobody else will see.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

Result = TypeVar("Result")

LONG = 3e8  # multiplications, some 30 ms of one core: a thread costs 0.1 ms
STEP = 0.1  # seconds; some systems hear signals only when a wait has ended


def interruptible(
    call: Callable[..., Result], *args: Any, work: float, **options: Any
) -> Result:
    """call(*args, **options), which Ctrl-C leaves at once.

    Parameters
    ----------
    work : about how many multiplications it takes; few are done in place
    """
    # Signals are heard by the main thread only: others have nothing to leave for.
    if work < LONG or threading.current_thread() is not threading.main_thread():
        return call(*args, **options)
    ended = threading.Event()
    results: list[Result] = []
    errors: list[BaseException] = []
    context = contextvars.copy_context()  # np.errstate, among others

    def run() -> None:
        try:
            results.append(context.run(call, *args, **options))
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    # A daemon, so that the end of the program does not wait for it either.
    threading.Thread(target=run, name="mercer-call", daemon=True).start()
    while not ended.wait(STEP):
        pass
    if errors:
        raise errors.pop()
    return results.pop()


def multiply(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A @ B."""
    if not (isinstance(A, np.ndarray) and isinstance(B, np.ndarray)):
        return A @ B  # sparse matrices
    columns = B.shape[-1] if B.ndim > 1 else 1
    return interruptible(np.matmul, A, B, work=float(A.size) * columns)


def elementwise(call: Callable[..., Result], *arrays: np.ndarray) -> Result:
    """call(*arrays) of functions that take about 10 ns for each number."""
    return interruptible(call, *arrays, work=100.0 * sum(map(np.size, arrays)))
