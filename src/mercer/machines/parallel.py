"""Parts of one fit that are learnt at the same time, by threads."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, TypeVar

from sklearn import config_context, get_config

from mercer.native import memory
from mercer.native.threads import one_blas_thread
from mercer.outcomes import Progress, Watch

Result = TypeVar("Result")


def side_by_side(
    calls: Sequence[Callable[[Watch], Result]], workers: int
) -> list[Result]:
    """What the calls return, in their order; so many are made at a time.

    Each is given a watch, which ends what it solves where another call has failed or
    Ctrl-C was pressed. BLAS has one thread for each.
    """
    stop, config = Event(), get_config()

    def stopped(progress: Progress) -> bool:
        return stop.is_set()

    def inside(call: Callable[[Watch], Result]) -> Result:
        with config_context(**config), memory.sharing(1 / workers):
            return call(stopped)

    with one_blas_thread(), ThreadPoolExecutor(workers, "mercer-part") as pool:
        # A copy of the context for each: the clock of the fit is in it.
        futures: list[Any] = [
            pool.submit(contextvars.copy_context().run, inside, call) for call in calls
        ]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
