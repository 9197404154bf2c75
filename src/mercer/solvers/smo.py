"""Sequential minimal optimisation of a `BoxQP`: options, and the call into the core.

Rows come from the compiled kernel where there is one, from the matrix where it fits the
cache, else from `gram.rows`, hundreds at a time. They are single precision for many
points; gradients and variables are always double.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from mercer import _core
from mercer.gram import Gram, available_memory
from mercer.points import take, vectors
from mercer.solvers.problems import BoxQP, Solution
from mercer.vectors import Packed, native_recipe

SMALL = 1000  # up to so many points double precision costs nothing to speak of
SAMPLE = 256  # points at which single precision is checked against double
SMALLEST_MATRIX = 64e6  # bytes; one up to this size is kept whole, whatever the cache
BUDGET = 10_000_000  # steps, where no other number is asked for


class Progress(NamedTuple):
    """How far a solve has come."""

    round: int
    iterations: int
    rows: int
    support: int  # variables that are not 0
    violation: float
    objective: float
    gap: float  # NaN where the kernel is known to be indefinite
    seconds: float
    problem: str = ""  # which one, where a machine has several


@dataclass(frozen=True)
class SMO:
    """Minimise a `BoxQP` two variables at a time, until violation < tol.

    Parameters
    ----------
    cache_mb : memory for kernel rows; None for a quarter of what is free, at most 1 GB
    max_iter : pair steps at most; -1 for 10 million, or 100 per variable if more
    time_limit : seconds; None for no limit. A solve that it, max_iter or `watch` ended
        goes on from `start=solution.value`
    precision : of the kernel rows. "auto" is single where it is enough: for more than a
        thousand points, as long as 2⁻²⁴‖β‖ max k(x, x) ≤ tol/10, and if at the solution
        the function agrees with double precision to tol/4 on a sample of points (or
        2⁻²⁴ Σ|β| max k(x, x) ≤ tol/10, so that it must); otherwise the solve goes on
        in double
    working_set : variables solved for at once; None for the default
    """

    tol: float = 1e-3
    cache_mb: float | None = None
    max_iter: int = -1
    time_limit: float | None = None
    precision: str = "auto"
    working_set: int | None = None

    def __post_init__(self):
        if not self.tol > 0:
            raise ValueError(f"SMO needs tol > 0; got tol={self.tol!r}.")
        if self.precision not in ("auto", "single", "double"):
            raise ValueError(
                f"SMO knows precision auto, single and double; got {self.precision!r}."
            )

    def solve(
        self,
        problem: BoxQP,
        *,
        start: np.ndarray | None = None,
        watch: Callable[[Progress], bool] | None = None,
    ) -> Solution:
        """The minimiser, from a feasible `start`; `watch` returns True to stop."""
        begin = time.perf_counter()
        value = problem.start() if start is None else np.asarray(start, dtype=float)
        run = _Run(self, problem, watch, begin)
        single = self.precision == "single" or (
            self.precision == "auto" and problem.gram.shape[0] > SMALL
        )
        found = run(problem.sign * value, np.float32 if single else np.float64)
        if single and self.precision == "auto" and not run.trusts(found):
            found = run(found.beta, np.float64)
        return run.solution(found)


class _Found(NamedTuple):
    """What one call into the core gave."""

    beta: np.ndarray
    function: np.ndarray
    dtype: type
    status: str
    indefinite: bool
    violation: float


class _Run:
    """One solve: perhaps first in single precision, then in double."""

    def __init__(self, options: SMO, problem: BoxQP, watch, begin: float):
        self.options, self.problem, self.begin = options, problem, begin
        self.watch = watch
        self.refuted = problem.gram.kernel.psd is False
        self.iterations = self.rows = self.hits = 0

    def __call__(self, beta: np.ndarray, dtype) -> _Found:
        problem, options = self.problem, self.options
        lower, upper = problem.bounds
        nothing = np.empty(0)
        task = _core.Task(
            np.ascontiguousarray(problem.target),
            np.ascontiguousarray(lower),
            np.ascontiguousarray(upper),
            nothing if problem.tube is None else np.ascontiguousarray(problem.tube),
            np.ascontiguousarray(_or_nothing(problem.index), dtype=np.int32),
            np.ascontiguousarray(_or_nothing(problem.group), dtype=np.uint8),
            tol=options.tol,
            cache_bytes=_cache_bytes(options.cache_mb),
            max_iter=self._budget(),
            time_limit=self._time_left(),
            working_set=options.working_set or 0,
            demanding=options.precision == "auto" and dtype is np.float32,
            watch=self.watch and self._watched,
        )
        value = np.array(beta, dtype=float)
        function = np.empty(problem.gram.shape[0])
        solve = _rows(problem.gram, dtype, _cache_bytes(options.cache_mb))
        status, indefinite, violation, _, iterations, rows, hits = solve(
            task, value, function
        )
        self.iterations += iterations
        self.rows += rows
        self.hits += hits
        return _Found(value, function, dtype, status, indefinite, violation)

    def _budget(self) -> int:
        most = self.options.max_iter
        if most < 0:
            most = max(BUDGET, 100 * len(self.problem))
        return most - self.iterations

    def _time_left(self) -> float:
        if self.options.time_limit is None:
            return 0.0
        left = self.options.time_limit - (time.perf_counter() - self.begin)
        return max(left, 1e-9)  # 0 stands for no limit

    def _watched(self, round, iterations, rows, support, violation, *rest) -> bool:
        objective, gap, _ = rest
        progress = Progress(
            round,
            self.iterations + iterations,
            self.rows + rows,
            support,
            violation,
            objective,
            np.nan if self.refuted else gap,
            time.perf_counter() - self.begin,
        )
        return bool(self.watch(progress))

    def trusts(self, found: _Found) -> bool:
        """Whether single precision was enough: F agrees with double on a sample."""
        if found.status in ("stalled", "imprecise"):
            return False
        if found.status != "optimal":
            return True  # it ended for another reason; double would end no better
        gram, coef = (
            self.problem.gram,
            self.problem.coef(self.problem.sign * found.beta),
        )
        n = gram.shape[0]
        sample = np.random.default_rng(n).choice(n, min(n, SAMPLE), replace=False)
        support = np.flatnonzero(coef)
        exact = gram.kernel.matmul(
            _widened(take(gram.X, sample)),
            _widened(take(gram.X, support)),
            coef[support],
        )
        error = np.abs(exact - found.function[sample]).max(initial=0.0)
        return bool(error <= self.options.tol / 4)

    def solution(self, found: _Found) -> Solution:
        problem = self.problem
        # One that rounding keeps off its bound would pass for free, and set the level.
        value = problem.snapped(problem.sign * found.beta, hair=1e-13)
        level = problem.level(value, found.function)
        primal, dual = problem.objectives(value, found.function, level)
        indefinite = found.indefinite or problem.refuted(value, found.function)
        ended = found.status in ("optimal", "stalled")
        return Solution(
            value=value,
            bias=-float(np.mean(level)),
            primal=np.nan if indefinite else primal,
            dual=dual,
            violation=found.violation,
            n_iter=self.iterations,
            status="indefinite" if indefinite and ended else found.status,
            level=level,
            function=found.function,
            seconds=time.perf_counter() - self.begin,
            rows_computed=self.rows,
            cache_hits=self.hits,
            precision="single" if found.dtype is np.float32 else "double",
        )


def _rows(gram: Gram, dtype, cache_bytes: float) -> Callable:
    """The call into the core with the rows of this Gram: (task, value, function)."""
    recipe = gram.kernel.native(gram.X)
    if recipe is not None:
        points = Packed(_centered(vectors(gram.X), recipe.part).astype(dtype))
        return lambda *rest: _core.smo(native_recipe(recipe), points._points, *rest)
    n = gram.shape[0]
    if n * n * np.dtype(dtype).itemsize <= max(cache_bytes, SMALLEST_MATRIX):
        matrix = np.ascontiguousarray(gram.dense(), dtype=dtype)
        return lambda *rest: _core.smo_dense(matrix, *rest)

    def fill(rows, columns, out):
        out[:] = gram.rows(rows) if columns is None else gram.take(rows).dense()

    diagonal = np.ascontiguousarray(gram.diag(), dtype=dtype)
    return lambda *rest: _core.smo_callback(diagonal, fill, *rest)


def _centered(X, part: str):
    """X, moved to the middle where the kernel does not see it and single precision does.

    A common offset takes digits away from the differences. Sparse points keep zeros.
    """
    if sp.issparse(X) or part not in ("square", "absolute") or not len(X):
        return X
    some = X[:: max(1, len(X) // SAMPLE)]  # any point near the middle will do
    mean = some.mean(axis=0, dtype=float)
    if np.abs(mean).max(initial=0.0) <= 8 * some.std(dtype=float):
        return X
    return X - mean


def _widened(X):
    return X.astype(np.float64) if getattr(X, "dtype", None) == np.float32 else X


def _or_nothing(values) -> np.ndarray:
    return np.empty(0) if values is None else np.asarray(values)


def _cache_bytes(cache_mb: float | None) -> float:
    if cache_mb is None:
        return min(available_memory() / 4, 2**30)
    return cache_mb * 2**20
