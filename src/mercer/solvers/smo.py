"""Sequential minimal optimisation of a `BoxQP`: options, and the call into the core.

Rows come from the compiled kernel where there is one, from the matrix where it fits the
cache, else from `gram.rows`, hundreds at a time. They are single precision for many
points; gradients and variables are always double.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mercer import _core
from mercer.data.points import Points, double, take, vectors
from mercer.gram import Gram
from mercer.kernels.base import Kernel, row_blocks
from mercer.native import memory
from mercer.native.clock import OutOfTime, breakable
from mercer.native.threads import blas_for, threads
from mercer.native.vectors import Packed, Recipe, centered, native_recipe, originals
from mercer.outcomes import Progress, Run, Solution, Status, Watch
from mercer.solvers.box_certificate import solution_by, solution_of
from mercer.solvers.boxqp import ENTRY_ERROR, BoxQP
from mercer.solvers.class_pairs import (
    PairProblems,
    PairReport,
    PairSolutions,
    Precision,
    concluded,
)
from mercer.solvers.held_rows import Left, Offer, offered
from mercer.solvers.limits import TimeLimit, check_time_limit
from mercer.solvers.polish import Polish, between

SINGLE_FROM = 1000  # up to so many points double precision costs next to nothing
TINY = 64  # points of a pair of classes, of which so many may be there
LARGEST = 1e30  # of k(x, x) in single precision, whose numbers end at 3e38
SMALLEST_MATRIX = 64e6  # bytes; one up to this size is kept whole, whatever the cache
# What the core has: points up to which all variables are in the working set, and how
# many are in those of more points, as a share of these: where many variables are free
# or take many steps, and elsewhere.
FULL = 2048
WORKING_SETS = 512, 2048
MANY_FREE, FEW_FREE = 5, 12
BUDGET = 10_000_000  # steps, where no other number is asked for


@dataclass(frozen=True)
class SMO:
    """Minimise a `BoxQP` two variables at a time, until violation < tol.

    Parameters
    ----------
    cache_mb : memory for kernel rows; None for a quarter of what is free, at most 1 GB.
        As much may be kept for the next solve; see `mercer.native.memory`
    max_iter : pair steps at most, or what takes as long; -1 for 10 million, or 100 per
        variable if more
    time_limit : seconds, of all pairs of classes together; None for no limit. A solve
        that it, max_iter or `watch` ended goes on from `start=solution.value`
    precision : of the kernel rows. "auto" is single for more than a thousand points of
        a compiled kernel, as long as 2⁻²⁴‖β‖ max k(x, x) ≤ tol/10. Beyond that rows
        are single up to a violation of 10 tol, and the very optimum is found in double
        among the variables near it, where these are no more than some thousands; else
        the solve goes on in double. The function at the solution is in either case
        summed afresh, in double, over all support vectors and at every point that
        decides: n_SV²/2 kernel values and a few more. Where that shows a violation, the
        solve goes on
    working_set : variables solved for at once; None for the default
    objectives : False leaves primal and dual to `Certificate.completed`, where the
        points that decide about the violation are few, and known for sure: a sum in
        double at these suffices for "optimal", and the gap is right all the same
    free_steps : whether the active-set method has its turns in the working sets of many
        points too, where pairs take long; of up to 512 points, or 2048 whose kernel is
        quick, it has them anyway

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from mercer import Gram, RBF
    >>> from mercer.solvers import SMO, svc
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> solution = SMO(tol=1e-4).solve(svc(Gram(RBF(1), X), 2 * y - 1, upper=1.0))
    >>> solution.status, bool(solution.violation < 1e-4)
    ('optimal', True)
    >>> SMO(max_iter=3).solve(svc(Gram(RBF(1), X), 2 * y - 1, upper=1.0)).status
    'max_iter'
    """

    tol: float = 1e-3
    cache_mb: float | None = None
    max_iter: int = -1
    time_limit: float | None = None
    precision: str = "auto"
    working_set: int | None = None
    objectives: bool = True
    free_steps: bool = False

    def __post_init__(self) -> None:
        check_time_limit(self)
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
        watch: Watch | None = None,
    ) -> Solution:
        """The minimiser, from a feasible `start`; `watch` returns True to stop."""
        begin = time.perf_counter()
        value = problem.start() if start is None else np.asarray(start, dtype=float)
        run = _Run(self, problem, watch, begin, near=start is not None)
        single = self.precision == "single" or (
            self.precision == "auto"
            and problem.gram.shape[0] > SINGLE_FROM
            and problem.gram.kernel.native(problem.gram.X) is not None
        )
        found = run(problem.sign * value, np.float32 if single else np.float64)
        if single and self.precision == "auto" and found.status in _UNFIT:
            found = run.beyond_single(found)
        return run.solution(found)

    def solve_on(self, source: Source, problem: BoxQP, start: np.ndarray) -> Solution:
        """The minimiser from a feasible start, with rows in double from this source."""
        run = _Run(self, problem, None, time.perf_counter(), near=False)
        return run.solution(run.on(source, problem.sign * start, np.float64))

    def solve_many(
        self, problems: Sequence[BoxQP], *, start: np.ndarray | None = None
    ) -> Sequence[Solution]:
        """The minimisers of many problems, in their order.

        Of `PairProblems` the points are packed once for all pairs; small problems are
        solved side by side, large ones with all threads. Where the kernel is not
        compiled, the matrix of all points is held.

        Parameters
        ----------
        start : a feasible β of all pairs, as `PairProblems.start` finds it
        """
        if not isinstance(problems, PairProblems):
            return [self.solve(problem) for problem in problems]
        gram, sizes = problems.gram, problems.lengths
        limit = TimeLimit(None, self.time_limit)
        if gram.kernel.native(gram.X) is None:
            return self._pairs_of_matrix(problems, limit, start)
        single = np.full(len(problems), self.precision == "single")
        if self.precision == "auto":
            single = sizes > SINGLE_FROM
        # Of very small problems all kernel values are computed at once.
        n, room = sum(map(len, problems.members)), memory.cache_bytes(self.cache_mb) / 2
        if sizes.max() <= TINY and 8.0 * n**2 <= room and not single.any():
            return self._pairs_of_matrix(problems, limit, start)
        if single.all() or not single.any():
            dtype = np.float32 if single.any() else np.float64
            return self._pairs_of_points(problems, dtype, limit, start)
        solutions = PairSolutions.empty(problems)
        squares = np.square(sizes, dtype=float)
        share = TimeLimit(None, limit.share(squares[single].sum() / squares.sum()))
        for dtype, chosen, part in (
            (np.float32, single, share),
            (np.float64, ~single, limit),
        ):
            own = None if start is None else start[problems.variables_of(chosen)]
            some = self._pairs_of_points(problems.take(chosen), dtype, part, own)
            solutions.put_all(chosen, some)
        return solutions

    def _pairs_of_points(
        self,
        problems: PairProblems,
        dtype: type[np.floating],
        limit: TimeLimit,
        start: np.ndarray | None,
    ) -> PairSolutions:
        gram = problems.gram
        recipe = gram.kernel.native(gram.X)
        X = centered(vectors(gram.X), recipe.part, dtype)
        present = np.flatnonzero(np.bincount(problems.pairs.ravel()))
        pairs = np.searchsorted(present, problems.pairs)
        members = [problems.members[c] for c in present.tolist()]
        packed = [
            Packed(X[places].astype(dtype, copy=False), only_core=True)._points
            for places in members
        ]
        native = native_recipe(recipe)
        size = _largest(native, packed, dtype)
        if dtype is np.float32 and not size < LARGEST:
            return self._pairs_of_points(problems, np.float64, limit, start)
        _refuse_unless_finite(gram, size)
        value, function = _room(problems, start)
        outcomes = _core.solve_pairs(
            native,
            packed[0],
            packed,
            originals(vectors(gram.X)),
            np.concatenate(members).astype(np.int64, copy=False),
            self._pair_program(problems, pairs, dtype, limit, start is not None),
            value,
            function,
        )
        word = "single" if dtype is np.float32 else "double"
        error = size * max(_core.entry_error(native, points) for points in packed)
        precision = Precision(word, size, error)
        return self._concluded(problems, value, function, outcomes, precision, limit)

    def _pairs_of_matrix(
        self, problems: PairProblems, limit: TimeLimit, start: np.ndarray | None
    ) -> PairSolutions:
        with breakable():
            K = problems.gram.double().values()
        matrix = np.ascontiguousarray(K, dtype=float)
        size = float(np.max(np.abs(np.diagonal(matrix)), initial=0.0))
        _refuse_unless_finite(problems.gram, size)
        members = [np.asarray(places, dtype=np.int64) for places in problems.members]
        value, function = _room(problems, start)
        near = start is not None
        outcomes = _core.solve_pairs_of_matrix(
            matrix,
            np.array([len(places) for places in members], dtype=np.int64),
            np.concatenate(members),
            self._pair_program(problems, problems.pairs, np.float64, limit, near),
            value,
            function,
        )
        recipe, error = problems.gram.kernel.native(problems.gram.X), ENTRY_ERROR
        if recipe is not None:
            points = Packed(vectors(problems.gram.X), only_core=True)._points
            error = _core.entry_error(native_recipe(recipe), points)
        precision = Precision("double", size, error * size)
        return self._concluded(problems, value, function, outcomes, precision, limit)

    def _concluded(
        self,
        problems: PairProblems,
        value: np.ndarray,
        function: np.ndarray,
        outcomes: _core.PairOutcomes,
        precision: Precision,
        limit: TimeLimit,
    ) -> PairSolutions:
        """The solutions; those that need more digits than they were given go on."""
        report = PairReport(*(getattr(outcomes, name) for name in PairReport._fields))
        found = concluded(problems, value, function, report, precision, self.tol)
        again = report.indefinite & (problems.gram.kernel.psd is True)
        if precision.word == "single":
            again |= report.unfit | report.limited
        for j in np.flatnonzero(again).tolist():
            first, problem = found[j], problems[j]
            left = self.max_iter
            if left >= 0:
                left = max(0, left - first.run.iterations)
            word = self.precision
            if word == "auto" and not report.unfit[j]:
                word = "double"
            solver = replace(self, precision=word, max_iter=left, time_limit=limit.left)
            rest = solver.solve(problem, start=problem.start(first.value))
            found.put(j, replace(rest, run=rest.run.after(first.run)))
        return found

    def _pair_program(
        self,
        problems: PairProblems,
        pairs: np.ndarray,
        dtype: type[np.floating],
        limit: TimeLimit,
        near: bool,
    ) -> _core.PairProgram:
        return _core.PairProgram(
            np.ascontiguousarray(pairs, dtype=np.int64),
            problems.target,
            *problems.bounds,
            np.ascontiguousarray(problems.totals).ravel(),
            grouped=problems.grouped,
            bias=problems.bias,
            tol=self._target(),
            cache_bytes=memory.cache_bytes(self.cache_mb),
            max_iter=self._budget(int(problems.lengths.max())),
            time_limit=limit.left or 0.0,
            demanding=self.precision == "auto" and dtype is np.float32,
            free_steps=self.free_steps,
            near=near,
        )

    def _target(self) -> float:
        """The violation to reach: there has to be room for rounding below tol."""
        return self.tol * (1 - 1e-3)

    def _budget(self, n: int) -> int:
        """Pair steps for n variables."""
        most = self.max_iter if self.max_iter >= 0 else max(BUDGET, 100 * n)
        return min(most, 2**62)  # the core counts with 64 bits


def _room(
    problems: PairProblems, start: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Arrays for β, with its start, and F."""
    value, function = np.empty((2, len(problems.target)))
    if start is not None:
        value[:] = start
    return value, function


class _Found(NamedTuple):
    """What one call into the core gave."""

    beta: np.ndarray
    function: np.ndarray
    dtype: type[np.floating]
    status: str
    indefinite: bool
    checked: bool  # F was summed afresh from β, in double
    complete: bool  # and at all support vectors
    sampled_error: float  # of F, where it was so at the extremes and a sample alone
    moved: float  # Σ|Δβ| over all that was added to F
    rows: Source


# How single precision ends where it does not serve.
_UNFIT = ("stalled", "imprecise")

# From which violation a polish goes on, in units of tol; to which; and how far from the
# extreme slopes those of points are, in the same unit, that take no part in it.
COARSE, EXACT, REACH = 10.0, 1e-6, 50.0
MOST_FREE = 4096  # variables between their bounds


def can_polish(problem: BoxQP) -> bool:
    """Whether the problem is of the form that `Polish` solves."""
    one_sum = problem.group is None and problem.total is not None
    return one_sum and problem.index is None and problem.gram.kernel.psd is True


class _Run:
    """One solve: perhaps first in single precision, then in double."""

    def __init__(
        self,
        options: SMO,
        problem: BoxQP,
        watch: Watch | None,
        begin: float,
        near: bool,
    ):
        self.options, self.problem, self.begin = options, problem, begin
        self.near = near
        self.watch = watch
        self.refuted = problem.gram.kernel.psd is False
        self.iterations = self.rows = self.hits = 0

    def __call__(
        self, beta: np.ndarray, dtype: type[np.floating], refined: float | None = None
    ) -> _Found:
        problem, options = self.problem, self.options
        try:
            cache_bytes = memory.cache_bytes(options.cache_mb)
            source = _source(problem.gram, dtype, cache_bytes)
        except OutOfTime:
            if beta.any():
                raise
            # Of f = 0 all is known without a single kernel value.
            how = "time_limit", False, True, True, 0.0, 0.0
            zeros = np.zeros(problem.gram.shape[0])
            return _Found(beta, zeros, dtype, *how, Source(_nothing, 0.0, 0.0))
        return self.on(source, beta, dtype, cache_bytes, refined)

    def beyond_single(self, found: _Found) -> _Found:
        """The optimum where rows in single precision do not serve, from this β.

        They do for a larger tol, with F summed anew in double now and then. The optimum
        is then near, and found in double among the variables that are about to move.
        Where that is no way, all goes on in double; a search, which has the rows in
        single precision, goes on with sums of F alone.
        """
        self.near = True
        if can_polish(self.problem):
            found = self(found.beta, np.float32, COARSE)
            if found.status not in ("optimal", *_UNFIT):
                return found  # there is no time, or no step, left
            if found.status == "optimal":
                polished = self._polished(found)
                if polished is not None:
                    found = self(polished, np.float32, 1.0)
                    if found.status not in _UNFIT:
                        return found._replace(dtype=np.float64)
        if found.rows.offer is not None:
            found = self(found.beta, np.float32, 1.0)
            if found.status not in _UNFIT:
                return found
        return self(found.beta, np.float64)

    def on(
        self,
        source: Source,
        beta: np.ndarray,
        dtype: type[np.floating],
        cache_bytes: float = 0.0,
        refined: float | None = None,
    ) -> _Found:
        """What the core finds from this β, with rows from a source.

        Parameters
        ----------
        refined : F is summed in double where the rows do not serve, up to a violation
            of so many tol; None where the core is to end there
        """
        problem, options = self.problem, self.options
        if dtype is np.float32 and not source.largest < LARGEST:
            nothing = np.zeros(problem.gram.shape[0])
            how = "imprecise", False, False, True, 0.0, 0.0
            return _Found(beta, nothing, dtype, *how, source)
        _refuse_unless_finite(problem.gram, source.largest)
        variables: Sequence[np.ndarray] | None = problem.plain
        if variables is None:
            numbers = [problem.target, *problem.bounds, _or_nothing(problem.tube)]
            variables = [np.ascontiguousarray(some) for some in numbers]
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
        target, lower, upper, tube = variables
        function = np.empty(source.size or problem.gram.shape[0])
        known: tuple[Any, ...] = ()
        if source.offer is not None:
            begun = self._begun(source.offer, value)
            before, moved = np.empty(0), 0.0
            if begun is not None:
                value, before, function, moved = begun
            known = before, moved
        index = source.numbered(index, problem.gram.shape[0])
        program = _core.Program(
            target,
            lower,
            upper,
            tube,
            np.ascontiguousarray(index, dtype=np.int32),
            np.ascontiguousarray(_or_nothing(problem.group), dtype=np.uint8),
            tol=options._target() * (1.0 if refined is None else refined),
            cache_bytes=cache_bytes,
            max_iter=options._budget(len(problem)) - self.iterations,
            time_limit=self._time_left(),
            working_set=options.working_set or self._working_set(source, refined),
            demanding=options.precision == "auto" and dtype is np.float32,
            refines=refined is not None,
            objectives=options.objectives,
            free_steps=options.free_steps,
            near=self.near,
            watch=self.watch and self._watched,
        )
        result = source.solve(program, value, function, *known)
        if source.offer is not None:
            coef = problem.coef(problem.sign * value[: len(problem)])
            source.offer.left = Left(coef, function, result.moved)
            function = function[source.offer.places]
        self.iterations += result.iterations
        self.rows += result.rows
        self.hits += result.hits
        return _Found(
            value[: len(problem)],
            function,
            dtype,
            result.status,
            result.indefinite,
            result.checked,
            result.complete,
            result.sampled_error,
            result.moved + source.moved,
            source,
        )

    def _polished(self, found: _Found) -> np.ndarray | None:
        """β at the optimum, of which this is near; None where it is too far or costly.

        F is known in double at the support vectors and near the margin.
        """
        problem, beta, F = self.problem, found.beta, found.function
        left = self._time_left()
        if 0 < left < time.perf_counter() - self.begin:  # it may take as long
            return None
        low, high = problem.bounds
        tube = np.zeros(len(beta)) if problem.tube is None else np.asarray(problem.tube)
        inside = between(beta, low, high, tube)
        free = int(np.count_nonzero(inside))
        # Multiplications, of pairs so far; those of a factor take half as long.
        size = float(np.clip(len(beta) // MANY_FREE, *WORKING_SETS))
        dear = free**3 / 6 > 4 * size * self.iterations
        # In a search a start may have spared the pairs that a fit on its own takes.
        if not 0 < free <= MOST_FREE or (dear and found.rows.offer is None):
            return None
        reach = REACH * self.options.tol
        others = ~inside & problem.near(problem.sign * beta, F, reach)
        which = np.concatenate([np.flatnonzero(inside), np.flatnonzero(others)])
        if len(which) > 2 * MOST_FREE or not memory.fits(24.0 * len(which) ** 2):
            return None
        gram = problem.gram.double()
        with breakable(), blas_for(free if threads() > 1 else 0):
            known = F[which]
            if not found.complete:
                support = np.flatnonzero(beta)
                near, theirs = take(gram.X, which), take(gram.X, support)
                known = gram.kernel(near, theirs) @ beta[support]
            polish = Polish(
                gram.take(which).dense(),
                known - problem.target[which],
                beta[which],
                low[which],
                high[which],
                tube[which],
                EXACT * self.options.tol,
            )
            settled = polish.run()
        self.iterations += polish.changes
        if not settled:
            return None
        beta = beta.copy()
        beta[which] = polish.beta
        return beta

    def _begun(
        self, offer: Offer, start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, float] | None:
        """A start whose Kβ is known for the most part; None without one.

        It is known of every multiple of β that the last solve left. Where the start is
        one, β having grown with its bounds, those from 1 on are as feasible, and the
        one with the fewest variables to move is taken.

        Returns β, a β that F is of, F, and Σ|Δβ| over all that F was added up of.
        """
        problem, left = self.problem, offer.left
        if not self.near or left is None or problem.index is not None:
            return None
        if problem.group is not None or len(left.coef) != len(start):
            return None
        F = left.function[offer.places]
        size = float(np.abs(left.coef).max(initial=0.0))
        grown = float(np.abs(start).max(initial=0.0)) / size if size else 0.0
        rounding, scale, value = 1e-12 * grown * size, 1.0, start
        if grown > 1 and np.abs(start - grown * left.coef).max() <= rounding:
            least = self._violating(start, grown * F)
            scale = grown
            # ½s²βᵀKβ - s target·β is least at this s.
            square = float(left.coef @ F)
            best = float(problem.target @ left.coef) / square if square > 0 else grown
            best = max(1.0, best)
            if best < grown:
                near = problem.sign * (best * left.coef)
                other = problem.sign * problem.start(near)
                if self._violating(other, best * F) < least:
                    scale, value = best, other
        before = scale * left.coef
        same = np.abs(value - before) <= rounding
        before[same] = value[same]
        return value, before, scale * left.function, scale * left.moved

    def _violating(self, beta: np.ndarray, function: np.ndarray) -> int:
        """How many variables violate their condition by tol, at the best level."""
        down, up = self.problem.slopes(self.problem.sign * beta, function)
        # A level on its way up passes the slopes that it has to be above, or below.
        ends = np.concatenate([down - self.options.tol, up + self.options.tol])
        passed = np.repeat([-1, 1], len(down))[np.argsort(ends, kind="stable")]
        return len(down) + int(np.cumsum(passed).min())

    def _working_set(self, source: Source, refined: float | None) -> int:
        """As many variables as the core takes that sees these points alone.

        0 where it sees no others: it then chooses itself.
        """
        if source.offer is None or source.size <= FULL:
            return 0
        many = self.problem.tube is not None or refined is not None
        share = len(source.offer.places) // (MANY_FREE if many else FEW_FREE)
        return int(np.clip(share, *WORKING_SETS))

    def _time_left(self) -> float:
        if self.options.time_limit is None:
            return 0.0
        left = self.options.time_limit - (time.perf_counter() - self.begin)
        return max(left, 1e-9)  # 0 stands for no limit

    def _watched(self, seen: _core.SolverProgress) -> bool:
        assert self.watch is not None
        progress = Progress(
            seen.round,
            self.iterations + seen.iterations,
            self.rows + seen.rows,
            time.perf_counter() - self.begin,
            support=seen.support,
            violation=seen.violation,
            objective=seen.objective,
            gap=np.nan if self.refuted else seen.gap,
        )
        return bool(self.watch(progress))

    def solution(self, found: _Found) -> Solution:
        double = found.checked or found.dtype is np.float64
        if self.problem.plain is not None and double and found.complete:
            solution = self._judged(found)
            if solution is not None:
                return solution
        return self._put_right(found)

    def _judged(self, found: _Found) -> Solution | None:
        """The solution by sums of the core; None where F has to follow β first."""
        problem, source = self.problem, found.rows
        F = np.ascontiguousarray(found.function)
        moved = 0.0 if found.checked else found.moved
        judged = problem.judged(
            found.beta, F, source.entry_error, moved, source.largest
        )
        if judged is None:
            return None
        value, numbers = judged
        refuted = found.indefinite or problem.refuted(value, F, source.least)
        options = self._conclusion(found)
        return solution_by(
            problem, value, F, numbers, refuted, self.options.tol, **options
        )

    def _conclusion(self, found: _Found) -> dict[str, Any]:
        """How the solve ended, for `solution_by`."""
        status = Status(found.status)
        run = Run(
            Status.OPTIMAL if status == Status.STALLED else status,
            self.iterations,
            time.perf_counter() - self.begin,
            self.rows,
            self.hits,
            "single" if found.dtype is np.float32 else "double",
        )
        otherwise = Status.IMPRECISE if status == Status.OPTIMAL else status
        return {"run": run, "otherwise": otherwise}

    def _put_right(self, found: _Found) -> Solution:
        """The solution by the definitions, F with what rounding moves of β."""
        problem, tol = self.problem, self.options.tol
        # One that rounding keeps off its bound would pass for free, and set the level.
        value = problem.snapped(problem.sign * found.beta, slack=1e-13)
        value = problem.balanced(value)
        coef, function = problem.coef(value), found.function
        moves = coef - problem.coef(problem.sign * found.beta)
        if not found.checked and found.dtype is np.float32:
            function, moves = problem.gram @ coef, np.zeros(0)
            found = found._replace(checked=True, complete=True)
        moved = 0.0 if found.checked else found.moved
        source = found.rows
        rounding = problem.rounding(value, source.entry_error, moved, source.largest)
        rounding += found.sampled_error
        # A small share of a large bound can be more than what rounding does to F.
        off = source.largest * float(np.abs(moves).sum())
        if off > rounding / 8:
            function = function + (source.times or partial(_product, problem.gram))(
                moves
            )
        else:
            rounding += off
        level = problem.level(value, function)
        if problem.tube_is_found:
            # As `certify` does it, from coef and the bias alone.
            value = problem.split(coef, function, float(np.mean(level)))
            value = problem.balanced(value)
            changed = np.abs(problem.coef(value) - coef)
            rounding += source.largest * float(changed.sum())
            coef = problem.coef(value)
        return solution_of(
            problem,
            value,
            function,
            rounding,
            tol,
            level=level,
            refuted=found.indefinite or problem.refuted(value, function, source.least),
            square=None if found.complete else float(coef @ function),
            **self._conclusion(found),
        )


def _product(gram: Gram, moves: np.ndarray) -> np.ndarray:
    """K moves, where few of the moves are not 0."""
    changed, found = np.flatnonzero(moves), np.zeros(len(moves))
    for part in row_blocks(len(changed), len(moves), gram.block_mb):
        rows = changed[part]
        found += moves[rows] @ np.asarray(gram.rows(rows), dtype=float)
    return found


class Source(NamedTuple):
    """Where rows come from: the call into the core, and what their values are like."""

    # of a program, the value to begin with and the array for F; of rows on offer also
    # the value that F is of, empty for none, and Σ|Δβ| of what F was added up of
    solve: Callable[..., _core.SolverResult]
    largest: float  # max |k(x, x)|
    entry_error: float  # of a value in double, in units of 2⁻⁵³ times the largest
    size: int = 0  # of a matrix that has the rows of more points
    offer: Offer | None = None  # whose matrix that is
    moved: float = 0.0  # Σ|Δβ| over all that F at the start was added up of
    times: Callable[[np.ndarray], np.ndarray] | None = None  # Kβ; None to ask the Gram
    least: float | None = None  # min k(x, x); None to ask the Gram

    def numbered(self, index: np.ndarray, n: int) -> np.ndarray:
        """The points of variables as the rows number them; n stands for none."""
        if self.offer is None:
            return index
        places = np.append(self.offer.places, self.size)
        return places[index if len(index) else np.arange(n)]


def _nothing(*_: Any) -> _core.SolverResult:
    raise AssertionError("there are no rows to solve with")


def _source(gram: Gram, dtype: type[np.floating], cache_bytes: float) -> Source:
    recipe = gram.kernel.native(gram.X)
    if recipe is not None:
        offer = offered(gram) if dtype is np.float32 else None
        if offer is not None:
            return _held_source(offer)
        native, given = native_recipe(recipe), vectors(gram.X)
        X = centered(given, recipe.part, dtype)
        with np.errstate(over="ignore"):  # infinite in single precision: not its task
            points = Packed(X.astype(dtype, copy=False), only_core=True)._points
        exact = originals(given)
        return Source(
            lambda *rest: _core.smo(native, points, exact, *rest),
            _largest(native, [points], dtype),
            _core.entry_error(native, points),
        )
    diagonal = np.ascontiguousarray(gram.diag(), dtype=dtype)
    largest = float(np.max(np.abs(diagonal), initial=0.0))
    n = gram.shape[0]
    if n * n * np.dtype(dtype).itemsize <= max(cache_bytes, SMALLEST_MATRIX):
        with breakable():
            values = gram.values()
            matrix = np.ascontiguousarray(values, dtype=dtype)
        return Source(
            lambda *rest: _core.smo_dense(matrix, *rest), largest, ENTRY_ERROR
        )

    def fill(rows: np.ndarray, columns: np.ndarray | None, out: np.ndarray) -> None:
        out[:] = gram.rows(rows) if columns is None else gram.take(rows).dense()

    return Source(
        lambda *rest: _core.smo_callback(diagonal, fill, *rest), largest, ENTRY_ERROR
    )


def _held_source(offer: Offer) -> Source:
    rows = offer.rows
    return Source(
        lambda *rest: _core.smo_held(
            rows.matrix, rows.recipe, rows.points, rows.originals, *rest
        ),
        _largest(rows.recipe, [rows.points], np.float32),
        _core.entry_error(rows.recipe, rows.points),
        len(rows.X),
        offer,
    )


class ValueErrors(NamedTuple):
    """What kernel values of some points are like in double precision.

    Attributes
    ----------
    largest : max |k(x, x)|
    entry_error : of a value, in units of 2⁻⁵³ times the largest
    compiled : whether the core computes them
    """

    largest: float
    entry_error: float
    compiled: bool


def value_errors(kernel: Kernel, X: Points) -> ValueErrors:
    """What is known of kernel values of these points with each other."""
    X = double(X)
    recipe = kernel.native(X)
    if recipe is None:
        largest = float(np.max(np.abs(kernel.diag(X)), initial=0.0))
        return ValueErrors(largest, ENTRY_ERROR, False)
    return packed_errors(recipe, Packed(vectors(X), only_core=True))


def packed_errors(recipe: Recipe, X: Packed) -> ValueErrors:
    """The same of points that are packed, in whatever precision."""
    native, points = native_recipe(recipe), X._points
    largest = _largest(native, [points], X.dtype.type)
    return ValueErrors(largest, _core.entry_error(native, points), True)


def _largest(
    recipe: _core.Recipe, packed: Sequence[Any], dtype: type[np.floating]
) -> float:
    """max |k(x, x)| over points that are packed; NaN where there is one."""
    most = 0.0
    for points in packed:
        diagonal = np.empty(points.shape[0], dtype)
        _core.diag(recipe, points, diagonal)
        most = float(np.maximum(most, np.max(np.abs(diagonal), initial=0.0)))
    return most


def _refuse_unless_finite(gram: Gram, largest: float) -> None:
    if not largest < np.inf:
        raise ValueError(
            f"{gram.kernel} is not finite on these points: the largest k(x, x) is "
            f"{largest}. Scale the data, or choose a kernel that grows less."
        )


def _or_nothing(values: npt.ArrayLike | None) -> np.ndarray:
    return np.empty(0) if values is None else np.asarray(values)


def matrix_bytes(cache_mb: float | None) -> float:
    """The largest matrix that is kept whole."""
    return max(memory.cache_bytes(cache_mb), SMALLEST_MATRIX)
