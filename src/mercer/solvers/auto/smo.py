"""AutoSMO: how `BoxQP`s are solved, one or many."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from typing import Any

import numpy as np

from mercer.data.blocks import Blocks
from mercer.gram import Gram
from mercer.kernels.ways import Precomputed
from mercer.native import memory
from mercer.native.clock import OutOfTime
from mercer.native.threads import threads
from mercer.outcomes import Progress, Solution, Status, Watch
from mercer.solvers.auto.costs import (
    OnFeatures,
    by_rows_of_map,
    has_rows_of_map,
    on_features,
)
from mercer.solvers.auto.holding import holds_for_rows
from mercer.solvers.auto.small import ROUNDING, SMALL, STEPS
from mercer.solvers.auto.support import support_share
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.chunking import Chunking
from mercer.solvers.class_pairs import PairProblems, PairSolutions
from mercer.solvers.coordinate import CoordinateAscent
from mercer.solvers.decomposition import Decomposition
from mercer.solvers.hull import HullDistance
from mercer.solvers.limits import Shares, TimeLimit, check_time_limit
from mercer.solvers.roads import Road, by_matrix, on_map
from mercer.solvers.smo import (
    SINGLE_FROM,
    SMALLEST_MATRIX,
    SMO,
    Source,
    matrix_bytes,
)

MANY = 496  # pairs of 32 classes; of more, small ones are not solved to rounding

# How a solve to rounding ends where it does not come to rounding.
_SHORT = ("max_iter", "stalled", "imprecise", "indefinite")

# Solvers that need no sum to be fixed; None stands for SMO.
_WITHOUT_TOTAL = SMO | CoordinateAscent | OnFeatures | None
Watching = Callable[[int], AbstractContextManager[Watch | None]]
Task = tuple[BoxQP, np.ndarray | None]  # a problem, and where to start it


@dataclass(frozen=True)
class AutoSMO:
    """Minimise `BoxQP`s, each in the way that suits it, until violation < tol.

    - Small ones are solved to rounding, as long as that takes few steps.
    - A hard margin is the distance of two hulls; the status is "infeasible" where they
      meet.
    - All pairs of classes go to the core in one call, where the kernel is compiled or
      its matrix fits into memory; other problems of a compiled kernel are solved side
      by side, by one thread each, which share the memory for rows.
    - Many points of a kernel with explicit features go to `SemismoothNewton` or, with
      many sparse features, to `FeatureDescent`, in time linear in the points, where
      that is the cheaper way; those of `WeightedDegree` go to `Chunking`. Where samples
      show that few points will have a coefficient, rows of ΦΦᵀ go to SMO.
    - Where two reduced hulls meet, the status is "flat".

    Parameters
    ----------
    tol, cache_mb, max_iter, objectives : as of `SMO`
    solver : what is asked for in place of SMO; problems are then solved one by one
    time_limit : seconds, of all problems of a call together; None for no limit. Each
        has a share of it by its size; what one does not need is for the others

    Examples
    --------
    >>> from mercer import Gram, RBF
    >>> from mercer.solvers import AutoSMO, svc
    >>> gram = Gram(RBF(1), [[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> solution = AutoSMO().solve(svc(gram, [-1, 1, 1, -1], upper=10.0))
    >>> solution.status, bool(solution.violation < 1e-10)
    ('optimal', True)
    """

    tol: float = 1e-3
    cache_mb: float | None = None
    max_iter: int = -1
    objectives: bool = True
    solver: Any = None
    time_limit: float | None = None

    def __post_init__(self) -> None:
        check_time_limit(self)

    def solve(
        self,
        problem: BoxQP,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        """The minimiser, from a feasible `start`; `watch` returns True to stop."""
        return self._solve_within(self.time_limit, problem, start, watch)

    def solve_many(
        self,
        problems: Sequence[BoxQP],
        *,
        near: Callable[[int], np.ndarray] | None = None,
        watching: Watching | None = None,
    ) -> PairSolutions | Iterator[tuple[BoxQP, Solution]]:
        """The minimisers: of one call as `PairSolutions`, else each with its problem.

        Parameters
        ----------
        problems : made when they are asked for, as they may hold their points
        near : the coefficients to start problem j from, or near them
        watching : what watches problem j, while it is solved; they are then solved one
            after another
        """
        alone = watching is None and self.solver is None
        if alone and near is not None:  # where coefficients are the variables
            alone = isinstance(problems, PairProblems) and not problems.grouped
        if alone and self._in_one_call(problems):
            assert isinstance(problems, PairProblems)
            start = None
            if near is not None:
                coef = [near(j) for j in range(len(problems))]
                start = problems.start(np.concatenate(coef))
            try:
                joint = replace(
                    problems.joint, gram=by_rows_of_map(problems.joint.gram)
                )
                found = self._solve_pairs(replace(problems, joint=joint), start)
                return replace(found, problems=problems)
            except OutOfTime:
                pass  # there is no K; each has its start
        workers = 1 if watching is not None else self._workers(problems)
        if self.time_limit is not None:
            return self._in_time(problems, near, watching, workers)
        tasks = self._tasks(problems, near)
        if workers == 1:
            return self._in_turn(tasks, watching)
        return self._side_by_side(tasks, workers)

    def road(self, problems: Sequence[BoxQP], n_problems: int | None = None) -> Road:
        """How these would be solved, and as many more of them on the same points.

        The road is that of the largest: pairs of small classes may take another.
        """
        first, gram, chosen = self._largest(problems)
        n, many = gram.shape[0], n_problems or len(problems)
        base = chosen.solver if isinstance(chosen, HullDistance) else chosen
        if isinstance(base, Decomposition):
            kept = 4.0 * (n / 4) ** 2  # a quarter of the points in the working set
            return Road("rows", gram, chosen, many, kept, single=True, largest=first)
        if isinstance(base, OnFeatures):
            placed, found = isinstance(base, Chunking), {"solver": base}
            return on_map(gram, chosen, placed, n_problems=many, parameters=found)
        if self.solver is None and isinstance(base, SMO) and has_rows_of_map(gram):
            return on_map(gram, chosen, n_problems=many, largest=first)
        held = self.solver is None and holds_for_rows(gram, many, self.cache_mb)
        cache, native = matrix_bytes(self.cache_mb), gram.kernel.native(gram.X)
        single = native is not None and first > SINGLE_FROM and isinstance(base, SMO)
        there = gram.is_held or isinstance(gram.kernel, Precomputed)
        if held or there or (native is None and 8.0 * n**2 <= cache):
            return by_matrix(gram, chosen, n_problems=many)
        kept = min(memory.cache_bytes(self.cache_mb), (4.0 if single else 8.0) * n**2)
        return Road("rows", gram, chosen, many, kept, single=single, largest=first)

    def _largest(self, problems: Sequence[BoxQP]) -> tuple[int, Gram, Any]:
        """The points of the largest of them, the Gram of all, and what solves it."""
        if not isinstance(problems, PairProblems) or len(problems) == 1:
            problem = problems[0]
            return problem.gram.shape[0], problem.gram, self._chosen(problem)
        joint, size = problems.joint, int(problems.lengths.max())
        finite = bool(np.isfinite(joint.upper).all())
        on_rows = None
        if finite:
            share = partial(support_share, problems)
            on_rows = on_features(problems.gram, size, support=share)
        solver: Any = self.solver or self._smo(joint, 1)
        if on_rows is not None and self.solver is None:
            solver = on_rows(self.tol, self.max_iter)
        return size, problems.gram, solver

    # One problem

    def takes_rows(self, problem: BoxQP) -> bool:
        """Whether `solve_on` serves: by SMO, as long as it takes, variables as points.

        Parameters
        ----------
        problem : of a kernel without an explicit map
        """
        limited = self.time_limit is not None or self.max_iter >= 0
        plain = problem.index is None and problem.group is None
        as_it_is = plain and problem.total is not None and problem.has_finite_bounds
        return self.solver is None and not limited and as_it_is

    def solve_on(self, source: Source, problem: BoxQP, start: np.ndarray) -> Solution:
        """The minimiser, with rows from this source in place of the Gram of it."""
        solver = self._smo(problem, 1)
        if len(problem) <= SMALL:
            solver = self._to_rounding(solver, _size(problem))
        solution = solver.solve_on(source, problem, start)
        if solution.status in _SHORT and self._is_reached(solution):
            solution = _at_tol(solution)
        return solution

    def _solve_within(
        self,
        seconds: float | None,
        problem: BoxQP,
        start: np.ndarray | None,
        watch: Watch | None,
        sharing: int = 1,
    ) -> Solution:
        """The minimiser, or what is found of it in this time."""
        if seconds is None:
            return self._solve(problem, start, watch, sharing)
        limit = TimeLimit(watch, seconds)
        return limit.ended(self._solve(problem, start, limit, sharing))

    def _solve(
        self,
        problem: BoxQP,
        start: np.ndarray | None,
        watch: Watch | None,
        sharing: int,
    ) -> Solution:
        """The minimiser, beside so many others that are being solved."""
        if problem.total is None and not isinstance(self.solver, _WITHOUT_TOTAL):
            return self._solve_without_total(problem, start, watch)
        solver = self._chosen(problem, sharing)
        if self.solver is None and isinstance(solver, SMO) and len(problem) <= SMALL:
            fine = self._to_rounding(solver, _size(problem))
            first = fine.solve(problem, start=start, watch=watch)
            solution = self._completed(problem, first, watch)
        else:
            given = problem
            if self.solver is None and isinstance(solver, SMO):
                given = replace(problem, gram=by_rows_of_map(problem.gram))
            solution = solver.solve(given, start=start, watch=watch)
        on_rows = isinstance(solver, OnFeatures)
        on_rows = on_rows and not isinstance(problem.gram.X, Blocks)
        if on_rows and self.solver is None and solution.status == "stalled":
            # Where rounding is all there is of Φᵀβ, kernel values lose less.
            rest = self._smo(problem, sharing).solve(problem, watch=watch)
            if rest.violation < solution.violation:
                solution = replace(rest, run=rest.run.after(solution.run))
        if solution.status == "stopped" and self._is_reached(solution):
            solution = _at_tol(solution)  # in the very round in which it was stopped
        return _judged(problem, solution)

    def _chosen(self, problem: BoxQP, sharing: int = 1) -> Any:
        solver, finite = self.solver, problem.has_finite_bounds
        linear = None
        if solver is None and finite:
            linear = on_features(
                problem.gram,
                tube_is_found=problem.tube_is_found,
                support=partial(support_share, problem),
            )
        if linear is not None:
            solver = linear(self.tol, self.max_iter)
        elif solver is None:
            solver = self._smo(problem, sharing)
        hard = problem.tube is None and np.isinf(problem.upper).all()
        hulls = hard and problem.total is not None and not problem.lower.any()
        return HullDistance(solver) if hulls else solver

    def _smo(self, problem: BoxQP, sharing: int) -> SMO:
        return SMO(
            self.tol,
            None if self.cache_mb is None else self.cache_mb / sharing,
            self.max_iter,
            # With a unit margin f is not Σβk(x, ·).
            objectives=self.objectives or problem.unit_margin,
        )

    def _to_rounding(self, solver: SMO, size: float) -> SMO:
        """The solver to the last digits of numbers of this size, within limits."""
        budget = STEPS * SMALL if self.max_iter < 0 else self.max_iter
        return replace(solver, tol=min(self.tol, ROUNDING * size), max_iter=budget)

    def _completed(
        self, problem: BoxQP, first: Solution, watch: Watch | None
    ) -> Solution:
        """What was solved to rounding; to tol, where that takes too long."""
        if first.status not in _SHORT:
            return first
        if self._is_reached(first):
            return _at_tol(first)
        if self.max_iter >= 0:
            return first
        solver = replace(self._chosen(problem), precision="double")
        rest = solver.solve(problem, start=first.value, watch=watch)
        return replace(rest, run=rest.run.after(first.run))

    def _is_reached(self, solution: Solution) -> bool:
        tol = getattr(self.solver, "tol", self.tol)
        return solution.violation + solution.rounding <= tol

    def _solve_without_total(
        self, problem: BoxQP, start: np.ndarray | None, watch: Watch | None
    ) -> Solution:
        """The solution of a problem without bias, by one that every solver knows."""
        padded = problem.padded()
        if start is not None:
            start = padded.start(np.append(start, -problem.sign @ start))
        solution = self._solve(padded, start, watch, sharing=1)
        assert solution.function is not None
        value, function = solution.value[:-1], solution.function[:-1]
        primal, dual = problem.objectives(value, function, (0.0,))
        return replace(
            solution,
            value=value,
            bias=0.0,
            primal=np.nan if np.isnan(solution.primal) else primal,
            dual=dual,
            violation=problem.violation(value, function),
            level=(0.0,),
            function=function,
        )

    # Many problems

    def _in_one_call(self, problems: Sequence[BoxQP]) -> bool:
        """Whether they are pairs of classes that the core can take on all at once."""
        if not isinstance(problems, PairProblems):
            return False
        if np.isinf(problems.joint.upper).all():
            return False  # hard margins have a solver of their own
        gram, size = problems.gram, int(problems.lengths.max())
        if on_features(gram, size, support=partial(support_share, problems)):
            return False
        if has_rows_of_map(gram) or gram.kernel.native(gram.X) is not None:
            return True
        size = 8.0 * gram.shape[0] ** 2
        if size <= SMALLEST_MATRIX:
            return True
        there = gram.is_held or isinstance(gram.kernel, Precomputed)
        room = memory.room_to_keep() if there else matrix_bytes(self.cache_mb)
        return size <= room

    def _solve_pairs(
        self, problems: PairProblems, start: np.ndarray | None = None
    ) -> PairSolutions:
        """Those of all pairs; small ones to rounding, unless they are very many."""
        limit = TimeLimit(None, self.time_limit)
        solver = SMO(self.tol, self.cache_mb, self.max_iter, self.time_limit)
        small = problems.lengths <= SMALL
        small &= len(problems) <= MANY
        size = float(np.abs(problems.totals[small]).max(initial=1.0))
        fine = self._to_rounding(solver, size)
        if small.all() or not small.any():
            found = (fine if small.any() else solver).solve_many(problems, start=start)
            assert isinstance(found, PairSolutions)
            solutions = found
        else:
            solutions = PairSolutions.empty(problems)
            squares = np.square(problems.lengths, dtype=float)
            large = float(squares[~small].sum() / squares.sum())
            for chosen, solve, part in ((~small, solver, large), (small, fine, 1.0)):
                solve = replace(solve, time_limit=limit.share(part))
                own = None if start is None else start[problems.variables_of(chosen)]
                some = solve.solve_many(problems.take(chosen), start=own)
                assert isinstance(some, PairSolutions)
                solutions.put_all(chosen, some)
        about = solutions.certificates.columns
        status, reached = (
            about["status"],
            about["violation"] + about["rounding"] <= self.tol,
        )
        ended = reached & (status != "optimal") & (status != "flat")
        status[ended] = np.where(
            np.isnan(about["primal"][ended]), "indefinite", "optimal"
        )
        if self.max_iter < 0:
            for j in np.flatnonzero(~reached).tolist():
                problem, first = problems[j], solutions[j]
                if first.status == Status.TIME_LIMIT:
                    continue
                watch = None if self.time_limit is None else limit
                solution = limit.ended(self._completed(problem, first, watch))
                solutions.put(j, _judged(problem, solution))
        self._finish_pairs(problems, solutions, limit)
        return solutions

    def _finish_pairs(
        self, problems: PairProblems, solutions: PairSolutions, limit: TimeLimit
    ) -> None:
        """Go on with the pairs that were cut short, as long as there is time."""
        late = solutions.certificates.columns["status"] == Status.TIME_LIMIT
        cut = np.flatnonzero(late).tolist()
        if not cut or limit.left is None:
            return
        sizes = np.square(problems.lengths, dtype=float)[cut]

        def go_on(at: int, seconds: float | None, before: Solution) -> Solution:
            problem = problems[cut[at]]
            start = problem.start(before.value)
            found = self._solve_within(seconds, problem, start, None)
            found = replace(found, run=found.run.after(before.run))
            solutions.put(cut[at], found)
            return found

        Shares(limit.left, sizes).finish([solutions[j] for j in cut], go_on)

    def _in_time(
        self,
        problems: Sequence[BoxQP],
        near: Callable[[int], np.ndarray] | None,
        watching: Watching | None,
        workers: int,
    ) -> Iterator[tuple[BoxQP, Solution]]:
        """Each in its share of the time."""
        sizes = np.ones(len(problems))
        if isinstance(problems, PairProblems):
            sizes = np.square(problems.lengths, dtype=float)
        shares = Shares(self.time_limit, sizes, workers)

        def solve(j: int, seconds: float | None, before: Solution | None) -> Solution:
            problem = problems[j]
            if before is None:
                start = self._start(problem, near, j)
            else:
                start = problem.start(before.value)
            reporting = nullcontext() if watching is None else watching(j)
            with reporting as watch:
                found = self._solve_within(seconds, problem, start, watch)
            if before is None:
                return found
            return replace(found, run=found.run.after(before.run))

        if workers == 1:
            found = shares.solve(solve)
        else:
            tasks = self._tasks(problems, near)
            found = [one for _, one in self._side_by_side(tasks, workers, shares)]
            shares.finish(found, solve)
        for j, solution in enumerate(found):
            yield problems[j], solution

    @staticmethod
    def _start(
        problem: BoxQP, near: Callable[[int], np.ndarray] | None, j: int
    ) -> np.ndarray | None:
        if near is None:
            return None
        return problem.start(problem.inverse(near(j), 0.0)[0])

    def _tasks(
        self, problems: Sequence[BoxQP], near: Callable[[int], np.ndarray] | None
    ) -> Iterator[Task]:
        for j, problem in enumerate(problems):
            yield problem, self._start(problem, near, j)

    def _workers(self, problems: Sequence[BoxQP]) -> int:
        """How many problems to solve at once: several, where the core does the work."""
        if self.solver is not None or len(problems) == 1:
            return 1
        gram = problems.gram if isinstance(problems, PairProblems) else problems[0].gram
        if on_features(gram):
            return 1
        if gram.shape[0] <= SMALL or gram.kernel.native(gram.X) is None:
            return 1
        return min(threads(), len(problems))

    def _in_turn(
        self, tasks: Iterable[Task], watching: Watching | None
    ) -> Iterator[tuple[BoxQP, Solution]]:
        for j, (problem, start) in enumerate(tasks):
            reporting = nullcontext() if watching is None else watching(j)
            with reporting as watch:
                solution = self.solve(problem, start=start, watch=watch)
            yield problem, solution

    def _side_by_side(
        self, tasks: Iterable[Task], workers: int, shares: Shares | None = None
    ) -> Iterator[tuple[BoxQP, Solution]]:
        """Each by one thread; few wait, as they hold their points."""
        stop = Event()
        waiting: deque[tuple[BoxQP, Future[Solution]]] = deque()

        def stopped(progress: Progress) -> bool:
            return stop.is_set()

        def solve(j: int, problem: BoxQP, start: np.ndarray | None) -> Solution:
            seconds = None if shares is None else shares.of(j)
            return self._solve_within(seconds, problem, start, stopped, workers)

        with ThreadPoolExecutor(workers) as pool:
            try:
                for j, (problem, start) in enumerate(tasks):
                    future = pool.submit(solve, j, problem, start)
                    waiting.append((problem, future))
                    if len(waiting) > 2 * workers:
                        problem, future = waiting.popleft()
                        yield problem, future.result()
                for problem, future in waiting:
                    yield problem, future.result()
            except BaseException:
                stop.set()
                pool.shutdown(cancel_futures=True)
                raise


class Problems(Sequence[BoxQP]):
    """make(0), ..., make(n - 1), each made when it is asked for."""

    def __init__(self, n: int, make: Callable[[int], BoxQP]):
        self.n, self.make = n, make

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, number: int) -> BoxQP:  # type: ignore[override]  # no slices
        return self.make(range(self.n)[number])


def _size(problem: BoxQP) -> float:
    """How large the numbers of a problem are."""
    total = 0.0 if problem.total is None else problem.total
    return float(max(1.0, np.abs(problem.linear).max(), np.abs(total).max()))


def _at_tol(solution: Solution) -> Solution:
    """The solution with the status of one whose violation is below tol.

    Without a primal, a stationary point is all that is claimed.
    """
    convex = not np.isnan(solution.primal)
    return solution.ended(Status.OPTIMAL if convex else Status.INDEFINITE)


def _judged(problem: BoxQP, solution: Solution) -> Solution:
    """The solution; "flat" where it came to an end without a margin between hulls."""
    ended = solution.status.at_the_end and problem.unit_margin
    flat = ended and problem.is_flat(solution.level)
    return solution.ended(Status.FLAT) if flat else solution
