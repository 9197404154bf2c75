"""Long calls that neither Ctrl-C nor the clock of a fit waits for.

Python handles Ctrl-C between two of its own steps. LAPACK, BLAS and the sorting of
numpy are one step each, however long they take. Such a call runs in a thread of its
own here, while the main thread waits where signals reach it. On an interrupt it
returns, and the call ends by itself: it may write only to arrays of its own. Until then
it has one thread of BLAS and a low priority, or it would take the cores from what comes
next; the end of the program, which frees all modules, is among that.
"""

from __future__ import annotations

import contextvars
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from mercer.native.clock import tick
from mercer.native.threads import one_blas_thread, threads

Result = TypeVar("Result")

LONG = 3e8  # multiplications, some 30 ms of one core: a thread costs 0.1 ms
SORTING = 3000  # multiplications in the time that sorting one number takes, and more
STRIP = 2**20  # numbers that are converted at a time
LEAST_PRIORITY = 19
STEP = 0.1  # seconds; some systems handle signals only when a wait has ended


def interruptible(
    call: Callable[..., Result], *args: Any, work: float, **options: Any
) -> Result:
    """call(*args, **options), which Ctrl-C interrupts at once.

    Parameters
    ----------
    work : about how many multiplications it takes; few are done in place
    """
    # Signals reach the main thread only: no other one is interrupted.
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
    thread = threading.Thread(target=run, name="mercer-call", daemon=True)
    try:
        thread.start()
        while not ended.wait(STEP):
            tick()  # which ends it where the time of a fit is up, as Ctrl-C does
    except BaseException:
        _abandon(thread, ended)
        raise
    if errors:
        raise errors.pop()
    return results.pop()


def _abandon(thread: threading.Thread, ended: threading.Event) -> None:
    """Leave a call to itself, where it is least in the way."""

    def hold() -> None:
        # An interrupt may have come before the thread was there.
        if not ended.wait(STEP / 10) and thread.is_alive():
            with one_blas_thread():
                ended.wait()

    threading.Thread(target=hold, name="mercer-abandoned", daemon=True).start()
    if sys.platform == "linux" and thread.native_id:  # elsewhere it is no process
        try:
            os.setpriority(os.PRIO_PROCESS, thread.native_id, LEAST_PRIORITY)
        except OSError:  # it has just ended, or may not
            pass


def multiply(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A @ B."""
    if not (isinstance(A, np.ndarray) and isinstance(B, np.ndarray)):
        return A @ B  # sparse matrices
    columns = B.shape[-1] if B.ndim > 1 else 1
    if A.ndim == 2 and A.dtype == np.float32 and B.dtype == np.float64:
        # numpy would convert all of A before it multiplies, into memory of its own.
        out = np.empty((len(A), *B.shape[1:]))
        step = min(max(64, STRIP // max(A.shape[1], 1)), max(1, len(A)))
        wide = np.empty((step, A.shape[1]))
        for begin in range(0, len(A), step):
            part = wide[: len(A) - begin]
            part[:] = A[begin : begin + step]
            work = float(part.size) * columns
            out[begin : begin + step] = interruptible(np.matmul, part, B, work=work)
        return out
    return interruptible(np.matmul, A, B, work=float(A.size) * columns)


def elementwise(call: Callable[..., Result], *arrays: np.ndarray) -> Result:
    """call(*arrays) of functions that take about 10 ns for each number."""
    return interruptible(call, *arrays, work=100.0 * sum(map(np.size, arrays)))


def summed(
    call: Callable[[Any], tuple[np.ndarray, ...]],
    blocks: Sequence[Any],
    stage: str = "",
    *,
    many: bool = True,
) -> list[np.ndarray]:
    """Σ call(block) over the blocks, of each of the arrays it returns, in float64.

    Every thread takes its share of the blocks and one thread of BLAS: what a call does
    in between is done at the same time too, and no thread waits for the others. Sums
    are made in a fixed order for a number of threads.

    Parameters
    ----------
    call : of one block, to be used by several threads
    blocks : at least one
    stage : what `tick` is told is being done
    many : whether there is memory for several threads, their blocks and their stacks
    """
    workers = min(threads(), len(blocks)) if many else 1
    if workers < 2 or threading.current_thread() is not threading.main_thread():
        return _sum(call, _ticking(blocks, stage))
    shares = [_Share(call, blocks[j::workers]) for j in range(workers)]
    with one_blas_thread():
        try:
            for share in shares:
                try:
                    share.thread.start()
                except RuntimeError:  # the system grants no more threads
                    share.run()
            for share in shares:
                while not share.ended.wait(STEP):
                    done = sum(share.done for share in shares)
                    tick(stage, done / len(blocks))
        except BaseException:
            for share in shares:
                share.stopped = True
            raise
    errors = [share.error for share in shares if share.error is not None]
    if errors:
        raise errors[0]
    first, *others = [share.sums for share in shares]
    return [sum(parts, start) for start, *parts in zip(first, *others, strict=True)]


class _Share:
    """The blocks that one thread sums over."""

    def __init__(self, call: Callable[[Any], Any], blocks: Sequence[Any]):
        self.call, self.blocks = call, blocks
        self.ended, self.done, self.stopped = threading.Event(), 0, False
        self.sums: list[np.ndarray] = []
        self.error: BaseException | None = None
        context = contextvars.copy_context()
        self.thread = threading.Thread(
            target=context.run, args=(self.run,), name="mercer-sum", daemon=True
        )

    def run(self) -> None:
        try:
            self.sums = _sum(self.call, self._taken())
        except BaseException as error:
            self.error = error
        finally:
            self.ended.set()

    def _taken(self) -> Iterator[Any]:
        for block in self.blocks:
            if self.stopped:
                return
            yield block
            self.done += 1


def _ticking(blocks: Sequence[Any], stage: str) -> Iterator[Any]:
    for i, block in enumerate(blocks):
        tick(stage, i / len(blocks))
        yield block


def _sum(
    call: Callable[[Any], tuple[np.ndarray, ...]], blocks: Iterable[Any]
) -> list[np.ndarray]:
    sums: list[np.ndarray] = []
    for block in blocks:
        found = call(block)
        if not sums:
            sums = [np.zeros(part.shape) for part in found]
        for total, part in zip(sums, found, strict=True):
            total += part
    return sums
