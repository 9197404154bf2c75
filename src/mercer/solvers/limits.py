"""Limits in time: a solve that ends with what it has, and many that share one limit."""

from __future__ import annotations

import time
from collections.abc import Callable, MutableSequence
from dataclasses import is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mercer.outcomes import Status, Watch

CLOSING = 4.0  # products in single precision in the time of what ends a solve
GRACE, LATER = 1.0, 0.1  # seconds, or a share of the limit: the end may take so much
PASSES = 2  # over what was cut short, as long as there is time

Found = TypeVar("Found", bound=Any)


class TimeLimit:
    """A `watch` that stops a solve so early that it ends within its seconds.

    Parameters
    ----------
    watch : is asked too; None for nobody
    seconds : from now on; None for no limit
    """

    def __init__(self, watch: Watch | None, seconds: float | None):
        self.watch = watch
        self.end = np.inf if seconds is None else time.perf_counter() + seconds
        self.grace = GRACE if seconds is None else max(GRACE, LATER * seconds)
        self.expired = False
        self.pulse: Any = None  # the `Pulse` of the solve, which knows its products

    def __call__(self, progress: Any) -> bool:
        # What was found is read once more in double precision, product by product.
        pulse = self.pulse
        needed = 0.0 if pulse is None else pulse.needed
        asked = self.watch is not None and bool(self.watch(progress))
        if not asked:
            self.expired |= time.perf_counter() + needed >= self.end
        return self.expired or asked

    def is_over(self) -> bool:
        """Whether there is no time at all: what has not begun is stopped by that."""
        self.expired |= time.perf_counter() >= self.end
        return self.expired

    def is_late(self) -> bool:
        """Whether it is so late that even what ends a solve is left undone."""
        return time.perf_counter() >= self.end + self.grace

    @property
    def left(self) -> float | None:
        """Seconds, more than 0 in any case; None without a limit."""
        if self.end == np.inf:
            return None
        return max(self.end - time.perf_counter(), 1e-9)

    def share(self, part: float) -> float | None:
        """A part of the seconds that are left."""
        left = self.left
        return None if left is None else max(part * left, 1e-9)

    def ended(self, found: Found) -> Found:
        """What a solver found, with the status "time_limit" where that stopped it."""
        run = found.run
        if not (self.expired and run.status == Status.STOPPED):
            return found
        return replace(found, run=replace(run, status=Status.TIME_LIMIT))


def check_time_limit(solver: Any) -> None:
    """Refuse a time limit that is no positive number."""
    limit = solver.time_limit
    if limit is not None and not limit > 0:
        raise ValueError(
            f"{type(solver).__name__} needs time_limit > 0 seconds, or None for no "
            f"limit; got time_limit={limit!r}."
        )


def solve_within(
    solver: Any,
    problem: Any,
    seconds: float | None,
    *,
    watch: Watch | None = None,
    **options: Any,
) -> Any:
    """solver.solve(problem), which ends with the status "time_limit" after the seconds.

    By a time limit of the solver's own, where it has one, else by what watches it.

    Parameters
    ----------
    seconds : None for no limit but the solver's own
    options : of `solve`, as `start`
    """
    if watch is not None:
        options["watch"] = watch
    if seconds is None:
        return solver.solve(problem, **options)
    if is_dataclass(solver) and hasattr(solver, "time_limit"):
        own: Any = solver.time_limit
        shorter = seconds if own is None else min(own, seconds)
        limited: Any = replace(solver, time_limit=shorter)  # type: ignore[type-var]
        return limited.solve(problem, **options)
    limit = TimeLimit(watch, seconds)
    return limit.ended(solver.solve(problem, **options | {"watch": limit}))


class Shares:
    """One limit for many problems, divided among them by their sizes.

    What one does not need is for those after it; those that were cut short go on with
    what is left at the end (`finish`). So all of them are solved to some extent, and
    none is cut short before all the time is spent.

    Parameters
    ----------
    seconds : for all problems together; None for no limit
    sizes : a number for each, in proportion to the time that it takes
    at_once : how many are solved at the same time
    """

    def __init__(self, seconds: float | None, sizes: npt.ArrayLike, at_once: int = 1):
        self.limit = TimeLimit(None, seconds)
        self.sizes, self.at_once = np.asarray(sizes, dtype=float), at_once
        self.rest = np.cumsum(self.sizes[::-1])[::-1]

    def of(self, j: int) -> float | None:
        """The seconds of problem j, which begins now, after all those before it."""
        part = self.at_once * float(self.sizes[j] / self.rest[j])
        return self.limit.share(min(1.0, part))

    def solve(self, solve: Callable[[int, float | None, Any], Found]) -> list[Found]:
        """What `solve` finds of each problem.

        Parameters
        ----------
        solve : of the number of a problem, its seconds, and what was found of it before
            (None the first time)
        """
        found = [solve(j, self.of(j), None) for j in range(len(self.sizes))]
        self.finish(found, solve)
        return found

    def finish(
        self,
        found: MutableSequence[Found],
        solve: Callable[[int, float | None, Any], Found],
    ) -> None:
        """Go on with those that were cut short, as long as there is time."""
        for _ in range(PASSES if self.limit.end < np.inf else 0):
            late = [one.run.status == Status.TIME_LIMIT for one in found]
            cut = np.flatnonzero(late)
            share = Shares(self.limit.left, self.sizes[cut])
            for at, j in enumerate(cut.tolist()):
                if time.perf_counter() >= self.limit.end:
                    return
                found[j] = solve(j, share.of(at), found[j])
