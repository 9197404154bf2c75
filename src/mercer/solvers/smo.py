"""Sequential minimal optimisation of a `BoxQP`: options, and the call into the core.

Rows come from the compiled kernel where there is one, from the matrix where it fits the
cache, else from `gram.rows`, hundreds at a time. They are single precision for many
points; gradients and variables are always double.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mercer import _core
from mercer.gram import Gram, available_memory
from mercer.points import take, vectors
from mercer.solvers.problems import BoxQP, Certificate, Progress, Solution
from mercer.vectors import Packed, centered, native_recipe

SMALL = 1000  # up to so many points double precision costs nothing to speak of
SAMPLE = 64  # points at which single precision is checked against double
SMALLEST_MATRIX = 64e6  # bytes; one up to this size is kept whole, whatever the cache
BUDGET = 10_000_000  # steps, where no other number is asked for


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

    def duels(
        self,
        gram: Gram,
        members: Sequence[np.ndarray],
        upper: np.ndarray,
        pairs: np.ndarray,
    ) -> list[Duel]:
        """The `svc` problems of pairs of classes, all in one call into the core.

        The kernel has to be compiled and semidefinite. Points are packed once for all
        pairs; small problems are solved side by side, large ones with all threads.

        Parameters
        ----------
        members : for each class, which points are its
        upper : (n,) array, the bound of each point's coefficient
        pairs : (m, 2) array of two different classes; the first one is positive
        """
        sizes = np.array([len(places) for places in members])[pairs].sum(axis=1)
        single = np.full(len(pairs), self.precision == "single")
        if self.precision == "auto":
            single = sizes > SMALL
        found: list = [None] * len(pairs)
        for dtype, chosen in ((np.float32, single), (np.float64, ~single)):
            if chosen.any():
                solved = self._duels(gram, members, upper, pairs[chosen], dtype)
                for place, duel in zip(np.flatnonzero(chosen), solved, strict=True):
                    found[place] = duel
        return found

    def _duels(self, gram: Gram, members, upper, pairs, dtype) -> list[Duel]:
        recipe = gram.kernel.native(gram.X)
        X = centered(vectors(gram.X), recipe.part, dtype)
        present, pairs = np.unique(pairs, return_inverse=True)
        members, pairs = [members[c] for c in present], pairs.reshape(-1, 2)
        sizes = np.array([len(places) for places in members])
        ends = np.cumsum(sizes[pairs].sum(axis=1))
        value, function = np.empty((2, ends[-1]))
        about = np.empty((len(pairs), len(_About._fields)))
        packed = [
            Packed(X[places].astype(dtype, copy=False), only_core=True)._points
            for places in members
        ]
        demanding = self.precision == "auto" and dtype is np.float32
        _core.duels(
            native_recipe(recipe),
            packed[0],
            packed,
            np.ascontiguousarray(pairs, dtype=np.int64),
            np.concatenate([upper[places] for places in members]),
            self.tol,
            _cache_bytes(self.cache_mb),
            self._budget(int(sizes[pairs].sum(axis=1).max())),
            demanding,
            value,
            function,
            about,
        )
        word = "single" if dtype is np.float32 else "double"
        duels = [
            _About(*row).duel(beta, f, word)
            for row, beta, f in zip(
                about.tolist(),
                np.split(value, ends[:-1]),
                np.split(function, ends[:-1]),
                strict=True,
            )
        ]
        if demanding and not _core.direct(native_recipe(recipe), packed[0], packed[0]):
            self._doubt(gram, members, pairs, duels)
        return duels

    def _doubt(self, gram: Gram, members, pairs, duels: list[Duel]) -> None:
        """Take back what differs from double precision at a few points."""
        n = gram.shape[0]
        coef = np.zeros((n, len(pairs)))
        function = np.full((n, len(pairs)), np.nan)  # off its points f is not known
        for j, (pair, duel) in enumerate(zip(pairs, duels, strict=True)):
            places = np.concatenate([members[c] for c in pair])
            coef[places, j], function[places, j] = duel.beta, duel.function
        sample, support = _sample(n), np.flatnonzero(coef.any(axis=1))
        exact = gram.kernel.matmul(
            _widened(take(gram.X, sample)),
            _widened(take(gram.X, support)),
            coef[support],
        )
        error = np.nan_to_num(np.abs(exact - function[sample])).max(axis=0)
        for wrong in np.flatnonzero(error > self.tol / 4).tolist():
            duels[wrong] = duels[wrong]._replace(trusted=False)

    def _budget(self, n: int) -> int:
        """Pair steps for n variables."""
        return self.max_iter if self.max_iter >= 0 else max(BUDGET, 100 * n)


class Duel(NamedTuple):
    """One class against another: β and F at the points of both, and how it ended."""

    beta: np.ndarray
    function: np.ndarray
    bias: float
    trusted: bool  # computed precisely enough
    certificate: Certificate


class _About(NamedTuple):
    """What the core says of a duel."""

    indefinite: float
    violation: float
    iterations: float
    rows: float
    hits: float
    level: float
    primal: float
    dual: float
    square: float
    n_free: float
    n_bound: float
    seconds: float

    def duel(self, beta: np.ndarray, function: np.ndarray, precision: str) -> Duel:
        found = Certificate(
            primal=self.primal,
            dual=self.dual,
            violation=self.violation,
            n_free=int(self.n_free),
            n_bound=int(self.n_bound),
            margin=self.square**-0.5 if self.square > 0 else float("inf"),
            n_iter=int(self.iterations),
            seconds=self.seconds,
            rows_computed=int(self.rows),
            cache_hits=int(self.hits),
            status="optimal",
            precision=precision,
        )
        return Duel(beta, function, -self.level, not self.indefinite, found)


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
        variables = [problem.target, *problem.bounds, _or_nothing(problem.tube)]
        index = _or_nothing(problem.index)
        value = np.array(beta, dtype=float)
        if problem.total is None:
            # A variable of no point takes up what the others sum to, at no cost.
            n, room = problem.gram.shape[0], float(np.sum(np.abs(problem.bounds)))
            ends = (0.0, -room, room, 0.0)
            variables = [
                np.append(numbers, end) if len(numbers) else numbers
                for numbers, end in zip(variables, ends, strict=True)
            ]
            index = np.append(np.arange(n) if problem.index is None else index, n)
            value = np.append(value, -value.sum())
        target, lower, upper, tube = map(np.ascontiguousarray, variables)
        task = _core.Task(
            target,
            lower,
            upper,
            tube,
            np.ascontiguousarray(index, dtype=np.int32),
            np.ascontiguousarray(_or_nothing(problem.group), dtype=np.uint8),
            tol=options.tol,
            cache_bytes=_cache_bytes(options.cache_mb),
            max_iter=options._budget(len(problem)) - self.iterations,
            time_limit=self._time_left(),
            working_set=options.working_set or 0,
            demanding=options.precision == "auto" and dtype is np.float32,
            watch=self.watch and self._watched,
        )
        function = np.empty(problem.gram.shape[0])
        solve = _rows(problem.gram, dtype, _cache_bytes(options.cache_mb))
        status, indefinite, violation, _, iterations, rows, hits = solve(
            task, value, function
        )
        self.iterations += iterations
        self.rows += rows
        self.hits += hits
        value = value[: len(problem)]
        return _Found(value, function, dtype, status, indefinite, violation)

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
        sample, support = _sample(gram.shape[0]), np.flatnonzero(coef)
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
        X = centered(vectors(gram.X), recipe.part, dtype)
        points = Packed(X.astype(dtype, copy=False), only_core=True)._points
        return lambda *rest: _core.smo(native_recipe(recipe), points, *rest)
    n = gram.shape[0]
    if n * n * np.dtype(dtype).itemsize <= max(cache_bytes, SMALLEST_MATRIX):
        matrix = np.ascontiguousarray(gram.dense(), dtype=dtype)
        return lambda *rest: _core.smo_dense(matrix, *rest)

    def fill(rows, columns, out):
        out[:] = gram.rows(rows) if columns is None else gram.take(rows).dense()

    diagonal = np.ascontiguousarray(gram.diag(), dtype=dtype)
    return lambda *rest: _core.smo_callback(diagonal, fill, *rest)


def _sample(n: int) -> np.ndarray:
    """A few of n points, the same ones whenever there are n."""
    return np.random.default_rng(n).choice(n, min(n, SAMPLE), replace=False)


def _widened(X):
    return X.astype(np.float64) if getattr(X, "dtype", None) == np.float32 else X


def _or_nothing(values) -> np.ndarray:
    return np.empty(0) if values is None else np.asarray(values)


def matrix_bytes(cache_mb: float | None) -> float:
    """The largest matrix that is kept whole."""
    return max(_cache_bytes(cache_mb), SMALLEST_MATRIX)


def _cache_bytes(cache_mb: float | None) -> float:
    if cache_mb is None:
        return min(available_memory() / 4, 2**30)
    return cache_mb * 2**20
