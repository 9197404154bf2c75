"""The one place that chooses how a problem is solved: by what, and in which digits.

Machines state problems and read solutions; what suits a problem is decided here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from threading import Event
from typing import Any

import numpy as np

from mercer.gram import Gram
from mercer.kernels.ways import Precomputed
from mercer.native import memory
from mercer.native.threads import threads
from mercer.outcomes import Progress, Solution, Status
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.class_pairs import PairProblems, PairSolutions
from mercer.solvers.coordinate import CoordinateAscent
from mercer.solvers.hull import HullDistance
from mercer.solvers.smo import SMO, matrix_bytes

# Problems this small are solved to rounding, at next to no cost: then it does not show
# in what order the points came, or whether one counted twice or came twice.
SMALL = 256
ROUNDING = 1e-11
STEPS = 200  # for each variable; a small problem that takes more is solved to tol
MANY = 496  # pairs of 32 classes; of more, small ones are not solved to rounding

# How a solve to rounding ends where it does not come to rounding.
_SHORT = ("max_iter", "stalled", "imprecise", "indefinite")

# Solvers that need no sum to be fixed; None stands for SMO.
_WITHOUT_TOTAL = SMO | CoordinateAscent | None

Watch = Callable[[Progress], bool]


@dataclass(frozen=True)
class AutoSMO:
    """Minimise `BoxQP`s, each in the way that suits it, until violation < tol.

    - Small ones are solved to rounding, as long as that takes few steps.
    - A hard margin is the distance of two hulls; the status is "infeasible" where they
      meet.
    - All pairs of classes go to the core in one call, where the kernel is compiled or
      its matrix fits into memory; other problems of a compiled kernel are solved side
      by side, by one thread each, which share the memory for rows.
    - Where two reduced hulls meet, the status is "flat".

    Parameters
    ----------
    tol, cache_mb, max_iter, objectives : as of `SMO`
    solver : what is asked for in place of SMO; problems are then solved one by one

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

    def solve(
        self,
        problem: BoxQP,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        """The minimiser, from a feasible `start`; `watch` returns True to stop."""
        return self._solve(problem, start, watch, sharing=1)

    def solve_many(
        self,
        problems: Sequence[BoxQP],
        *,
        near: Callable[[int], np.ndarray] | None = None,
        watching: Callable[[int], AbstractContextManager[Watch]] | None = None,
    ) -> PairSolutions | Iterator[tuple[BoxQP, Solution]]:
        """The minimisers: of one call as `PairSolutions`, else each with its problem.

        Parameters
        ----------
        problems : made when they are asked for, as they may hold their points
        near : the coefficients to start problem j from, or near them
        watching : what watches problem j, while it is solved; they are then solved one
            after another
        """
        alone = near is None and watching is None and self.solver is None
        if alone and self._in_one_call(problems):
            assert isinstance(problems, PairProblems)
            return self._solve_pairs(problems)
        workers = 1 if watching is not None else self._workers(problems)
        tasks = self._tasks(problems, near)
        if workers == 1:
            return self._in_turn(tasks, watching)
        return self._side_by_side(tasks, workers)

    # One problem

    def _solve(self, problem: BoxQP, start, watch, sharing: int) -> Solution:
        """The minimiser, beside so many others that are being solved."""
        if problem.total is None and not isinstance(self.solver, _WITHOUT_TOTAL):
            return self._solve_without_total(problem, start, watch)
        solver = self._chosen(problem, sharing)
        if self.solver is None and isinstance(solver, SMO) and len(problem) <= SMALL:
            total = 0.0 if problem.total is None else problem.total
            size = max(1.0, np.abs(problem.linear).max(), np.abs(total).max())
            fine = self._to_rounding(solver, size)
            first = fine.solve(problem, start=start, watch=watch)
            solution = self._completed(problem, first, watch)
        else:
            solution = solver.solve(problem, start=start, watch=watch)
        if solution.status == "stopped" and self._is_reached(solution):
            solution = _reached(solution)  # in the very round in which it was stopped
        return _judged(problem, solution)

    def _chosen(self, problem: BoxQP, sharing: int = 1) -> Any:
        solver = self.solver
        if solver is None:
            solver = SMO(
                self.tol,
                None if self.cache_mb is None else self.cache_mb / sharing,
                self.max_iter,
                # With a unit margin f is not Σβk(x, ·).
                objectives=self.objectives or problem.unit_margin,
            )
        hard = problem.tube is None and np.isinf(problem.upper).all()
        hulls = hard and problem.total is not None and not problem.lower.any()
        return HullDistance(solver) if hulls else solver

    def _to_rounding(self, solver: SMO, size: float) -> SMO:
        """The solver to the last digits of numbers of this size, within limits."""
        budget = STEPS * SMALL if self.max_iter < 0 else self.max_iter
        return replace(solver, tol=min(self.tol, ROUNDING * size), max_iter=budget)

    def _completed(self, problem: BoxQP, first: Solution, watch) -> Solution:
        """What was solved to rounding; to tol, where that takes too long."""
        if first.status not in _SHORT:
            return first
        if self._is_reached(first):
            return _reached(first)
        if self.max_iter >= 0:
            return first
        solver = replace(self._chosen(problem), precision="double")
        rest = solver.solve(problem, start=first.value, watch=watch)
        return replace(rest, run=rest.run.after(first.run))

    def _is_reached(self, solution: Solution) -> bool:
        tol = getattr(self.solver, "tol", self.tol)
        return solution.violation + solution.rounding <= tol

    def _solve_without_total(self, problem: BoxQP, start, watch) -> Solution:
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
        gram = problems.gram
        if gram.kernel.native(gram.X) is not None:
            return True
        there = gram.is_held or isinstance(gram.kernel, Precomputed)
        room = memory.room_to_keep() if there else matrix_bytes(self.cache_mb)
        return 8.0 * gram.shape[0] ** 2 <= room

    def _solve_pairs(self, problems: PairProblems) -> PairSolutions:
        """Those of all pairs; small ones to rounding, unless they are very many."""
        solver = SMO(self.tol, self.cache_mb, self.max_iter)
        small = problems.sizes.sum(axis=1) <= SMALL
        small &= len(problems) <= MANY
        size = float(np.abs(problems.totals[small]).max(initial=1.0))
        fine = self._to_rounding(solver, size)
        if small.all() or not small.any():
            found = (fine if small.any() else solver).solve_many(problems)
            assert isinstance(found, PairSolutions)
            solutions = found
        else:
            solutions = PairSolutions.empty(problems)
            for chosen, solve in ((~small, solver), (small, fine)):
                some = solve.solve_many(problems.take(chosen))
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
                problem = problems[j]
                solution = self._completed(problem, solutions[j], None)
                solutions.put(j, _judged(problem, solution))
        return solutions

    def _tasks(self, problems, near) -> Iterator[tuple[BoxQP, np.ndarray | None]]:
        for j, problem in enumerate(problems):
            start = None
            if near is not None:
                start = problem.start(problem.inverse(near(j), 0.0)[0])
            yield problem, start

    def _workers(self, problems: Sequence[BoxQP]) -> int:
        """How many problems to solve at once: several, where the core does the work."""
        if self.solver is not None or len(problems) == 1:
            return 1
        gram = problems.gram if isinstance(problems, PairProblems) else problems[0].gram
        if gram.shape[0] <= SMALL or gram.kernel.native(gram.X) is None:
            return 1
        return min(threads(), len(problems))

    def _in_turn(self, tasks: Iterable, watching) -> Iterator[tuple[BoxQP, Solution]]:
        for j, (problem, start) in enumerate(tasks):
            reporting = nullcontext() if watching is None else watching(j)
            with reporting as watch:
                solution = self.solve(problem, start=start, watch=watch)
            yield problem, solution

    def _side_by_side(
        self, tasks: Iterable, workers: int
    ) -> Iterator[tuple[BoxQP, Solution]]:
        """Each by one thread; few wait, as they hold their points."""
        stop = Event()
        waiting: deque = deque()

        def stopped(progress):
            return stop.is_set()

        with ThreadPoolExecutor(workers) as pool:
            try:
                for problem, start in tasks:
                    future = pool.submit(self._solve, problem, start, stopped, workers)
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


class Problems(Sequence):
    """make(0), ..., make(n - 1), each made when it is asked for."""

    def __init__(self, n: int, make: Callable[[int], BoxQP]):
        self.n, self.make = n, make

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, number) -> BoxQP:  # type: ignore[override]
        return self.make(range(self.n)[number])


def held(gram: Gram, n_problems: int, cache_mb: float | None) -> Gram:
    """The same, K in memory where several problems would each compute it anew."""
    if n_problems == 1 or gram.kernel.native(gram.X) is not None:
        return gram
    if isinstance(gram.kernel, Precomputed):
        return gram
    fits = 8.0 * gram.shape[0] ** 2 <= matrix_bytes(cache_mb)
    return gram.held() if fits else gram


def _reached(solution: Solution) -> Solution:
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
