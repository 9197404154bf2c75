"""`BoxQP`s on any kernel whose points are in partitions: decomposition.

α, F = Kβ and a working set of points are here. A round solves for the variables of the
working set by `SMO`, sends the points whose coefficients moved to all partitions, and
adds what these return, K(partition, moved) Δβ, to F, which then tells which points are
to join the set. Where the kernel has an explicit map, points are its rows. What
partitions keep beside their points are kernel values: these, and results that are lost,
are computed from their arguments again. At the end F is summed in double from α alone,
at the points that decide.

Osuna, Freund and Girosi, "An improved training algorithm for support vector machines"
(1997); Joachims, "Making large-scale SVM learning practical" (1999).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.data.partitions import Partitions, joined, taken
from mercer.data.points import Points, double
from mercer.gram import Gram
from mercer.kernels.vector import Linear
from mercer.kernels.ways import Precomputed
from mercer.native import memory
from mercer.native.clock import tick
from mercer.native.interruptible import multiply
from mercer.native.sorting import distinct
from mercer.outcomes import Progress, Run, Solution, Status, Watch
from mercer.solvers.box_certificate import solution_of
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.features import check_bounds
from mercer.solvers.partitioned_rows import MappedRows
from mercer.solvers.partitioned_values import PartitionedValues
from mercer.solvers.resume import begun
from mercer.solvers.smo import SMO

FIRST = 2000  # points of the first working set
JOIN = 3000  # points that join at most, or half of what there is
ROUNDS = 500  # rounds at most, where no other number is asked for
SHARE = 0.02  # of the violation, that a working set is solved to
ENOUGH = 0.8  # of tol: rounds end there, as F is summed afresh with other digits
CLOSE = 0.25  # of that, to which the last working set is solved
FEWER = 0.8  # of the points, that are worth a smaller matrix
IDLE = 3  # rounds without a smaller violation, after which more digits are needed
SAFE = 8.0  # times an error that is expected or was seen, for those that were not
STEPS = 100  # of SMO for each point of a working set, at most in a round


@dataclass(frozen=True)
class Decomposition:
    """Minimise a `BoxQP` on points in partitions, of any kernel, until violation < tol.

    Holds kernel values among the points of the working set, unless the core computes
    them; in single precision as long as that suffices. What is stated of the solution
    is from Kβ in double, summed afresh at the points that decide, as in `SMO`, where
    values were kept, else at all.

    Parameters
    ----------
    max_iter : steps of SMO at most, of all rounds; -1 for as many as it takes
    time_limit : seconds; None for no limit. A solve that it, max_iter or `watch` ended
        goes on from `start=solution.value`
    """

    tol: float = 1e-3
    max_iter: int = -1
    time_limit: float | None = None

    def __post_init__(self) -> None:
        if not self.tol > 0:
            raise ValueError(f"Decomposition needs tol > 0; got tol={self.tol!r}.")

    def solve(
        self,
        problem: BoxQP,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        """The minimiser, from a feasible `start`; `watch` returns True to stop."""
        check_bounds(self, problem)
        if problem.tube_is_found:
            raise ValueError(
                "Points in partitions are solved a working set at a time, which the "
                "tube of nu-regression is not found by. Use SVR with epsilon, or "
                "NuSVR(kernel=Nystrom(kernel, size))."
            )
        return _Run(self, problem, watch)(start)


class _Run:
    """One solve."""

    def __init__(self, options: Decomposition, problem: BoxQP, watch: Watch | None):
        self.options, self.problem, self.watch = options, problem, watch
        self.begin = time.perf_counter()
        kernel, X = problem.gram.kernel, problem.gram.X
        if isinstance(problem.gram._features, MappedRows):
            kernel, X = Linear(), problem.gram._features.X
        assert isinstance(X, Partitions)
        self.products = PartitionedValues(kernel, X)
        self.place = np.arange(len(X)) if problem.index is None else problem.index
        single = self.products.single
        self.set = _WorkingSet(self.products, np.dtype("f4" if single else "f8"))
        self.iterations = self.rounds = self.rows = 0
        self.violation, self.kept = np.inf, begun()
        self.error = 0.0  # the largest that was found in F

    def __call__(self, start: np.ndarray | None) -> Solution:
        problem, tol = self.problem, self.options.tol
        if start is None and "value" in self.kept:
            start = self.kept["value"]
        value = problem.start(start)
        goal, status = ENOUGH * tol, Status.OPTIMAL
        function, refined = self._function(value), False
        for _ in range(5):
            status = self._moved(value, function, goal)
            last, value = value, problem.balanced(problem.snapped(value, slack=1e-13))
            function = self._checked(last, value, function)
            rounding = problem.rounding(
                value, self.products.entry_error, size=self.products.size
            )
            found = solution_of(problem, value, function, rounding, tol, self._run())
            stalled = found.status == Status.STALLED and status == Status.OPTIMAL
            if not stalled:
                break
            if self.set.is_double:
                goal /= 4
            elif refined:
                self.set = self.set.in_double()
                function = self._function(value)
            refined = True
        if status != Status.OPTIMAL and found.status == Status.STALLED:
            found = replace(found, run=replace(found.run, status=status))
        return found

    def _run(self) -> Run:
        seconds = time.perf_counter() - self.begin
        precision = "double" if self.set.is_double else "single"
        return Run(
            Status.OPTIMAL, self.iterations, seconds, self.rows, precision=precision
        )

    def _function(self, value: np.ndarray) -> np.ndarray:
        """F = Kβ from β alone, as precise as what will be added to it."""
        coef = self.problem.coef(value)
        some = np.flatnonzero(coef)
        return self._added(some, coef[some])

    def _added(self, some: np.ndarray, change: np.ndarray) -> np.ndarray:
        """K Δβ at all points."""
        self.rows += len(some)
        if not self.set.is_double:
            return self.products.added(some, change, self.set.points_of)
        return self.products.exactly(self.set.points_of(some), change)

    def _checked(
        self, last: np.ndarray, value: np.ndarray, function: np.ndarray
    ) -> np.ndarray:
        """F = Kβ in double from β alone, at the points that decide; or at all.

        These are, as in `SMO`, the points with a coefficient and those so near to the
        extreme slopes that the error of F might hide a violation: `SAFE` times what is
        expected, and as many times the largest error that is found.

        Parameters
        ----------
        last : α whose F is given
        """
        problem, tol = self.problem, self.options.tol
        coef = problem.coef(value)
        some = np.flatnonzero(coef)
        self.rows += len(some)
        sent = self.set.points_of(some), coef[some]
        error = None if self.set.is_double else self.products.error(coef)
        if error is None:
            return self.products.exactly(*sent)
        moved = float(np.abs(coef - problem.coef(last)).sum()) * self.products.size
        found, done = function.copy(), np.zeros(len(function), dtype=bool)
        wanted = self._free(value)
        wanted[some] = True
        while True:
            # Each of the two slopes that are compared can be off.
            reach = 2 * (SAFE * max(error, self.error) + moved) + tol
            wanted |= problem.near(value, function, reach)
            at = np.flatnonzero(wanted & ~done)
            if not len(at):
                return found
            found[at] = self.products.exactly(*sent, at)
            done[at] = True
            self.error = max(self.error, float(np.abs(found - function).max()))

    def _moved(self, value: np.ndarray, function: np.ndarray, goal: float) -> Status:
        """Move α until no slope is off by more than the goal; both are written to."""
        problem = self.problem
        best, idle = np.inf, 0
        self.violation = problem.violation(value, function)
        joining = self._first(value) if not len(self.set) else np.empty(0, int)
        while self.violation > goal:
            self.rounds += 1
            if self.rounds > ROUNDS or idle >= IDLE:
                return Status.OPTIMAL  # what it came to is seen from F
            self.set.join(joining, self._free(value))
            part, inner = self._solved(value, function, goal)
            before = problem.coef(value)
            value[part] = inner.value
            self.kept["value"] = value.copy()
            change = problem.coef(value) - before
            some = np.flatnonzero(change)
            function += self._added(some, change[some])
            self.violation = problem.violation(value, function)
            idle = 0 if self.violation < best else idle + 1
            best = min(best, self.violation)
            ended = self._ended(inner.status)
            if ended is not None:
                return ended
            self.set.forget(~self._free(value))
            joining = self._joining(value, function, inner.level, goal)
        return Status.OPTIMAL

    def _free(self, value: np.ndarray) -> np.ndarray:
        """Whether a variable of each point is between its bounds."""
        problem = self.problem
        free = np.zeros(problem.gram.shape[0], dtype=bool)
        between = (value > problem.lower) & (value < problem.upper)
        free[self.place[between]] = True
        return free

    def _first(self, value: np.ndarray) -> np.ndarray:
        """Points to begin with: those of free variables, and some of either sign."""
        problem, draw = self.problem, np.random.default_rng(0)
        some = [np.flatnonzero(self._free(value))]
        for one in (problem.sign > 0, problem.sign < 0):
            of_sign = distinct(self.place[one])
            some.append(draw.permutation(of_sign)[: FIRST // 2])
        return distinct(np.concatenate(some))

    def _solved(
        self, value: np.ndarray, function: np.ndarray, goal: float
    ) -> tuple[np.ndarray, Solution]:
        """The variables of the working set, and what they are solved to."""
        problem, chosen = self.problem, self.set
        part, number = chosen.index, np.arange(len(chosen))
        if problem.index is not None:
            number = chosen.numbers()[self.place]
            part = np.flatnonzero(number >= 0)
            number = number[part]
        beta = problem.sign * value
        inside = np.bincount(number, beta[part], len(chosen))
        # What the others add to F and to the sums stays as it is.
        fixed = function[chosen.index] - chosen.times(inside)
        linear = problem.linear[part] + problem.sign[part] * fixed[number]
        total = problem.total
        if total is not None:
            others = beta.copy()
            others[part] = 0
            sums = [float(np.sum(others[members])) for members, _ in problem.groups()]
            left = np.atleast_1d(np.asarray(total, dtype=float)) - sums
            total = float(left[0]) if problem.group is None else tuple(left)
        inner = BoxQP(
            chosen.gram(),
            linear=linear,
            sign=problem.sign[part],
            lower=problem.lower[part],
            upper=problem.upper[part],
            total=total,
            index=None if problem.index is None else number,
            tube=None if problem.tube is None else problem.tube[part],
            group=None if problem.group is None else np.asarray(problem.group)[part],
        )
        most, budget = self.options.max_iter, STEPS * len(chosen) + 10_000
        solver = SMO(
            max(CLOSE * goal, SHARE * self.violation),
            cache_mb=chosen.cache_mb,
            max_iter=budget
            if most < 0
            else max(min(most - self.iterations, budget), 1),
            time_limit=self._left(),
            precision="double" if chosen.is_double else "single",
            objectives=False,
        )
        start = inner.start(value[part])
        found = solver.solve(inner, start=start, watch=self.watch and self._watched)
        self.iterations += found.run.iterations
        return part, found

    def _watched(self, progress: Progress) -> bool:
        assert self.watch is not None
        progress = progress._replace(
            round=self.rounds,
            iterations=self.iterations + progress.iterations,
            rows=self.rows,
            seconds=time.perf_counter() - self.begin,
            objective=np.nan,  # that of the working set
            gap=np.nan,
            words=(("support", "support vectors"), ("violation", "violation")),
        )
        return bool(self.watch(progress))

    def _ended(self, inner: Status) -> Status | None:
        """How the solve ends, where a working set was not solved to its end."""
        if inner in (Status.TIME_LIMIT, Status.STOPPED):
            return inner
        left = self._left()
        if left is not None and left <= 1e-9:
            return Status.TIME_LIMIT
        most = self.options.max_iter
        return Status.MAX_ITER if 0 <= most <= self.iterations else None

    def _joining(
        self,
        value: np.ndarray,
        function: np.ndarray,
        level: tuple[float, ...],
        goal: float,
    ) -> np.ndarray:
        """The points outside whose slopes ask the most to move."""
        most = max(JOIN, len(self.set) // 2)
        known = self.set.known
        return self.problem.joining(value, function, level, known, goal, most)

    def _left(self) -> float | None:
        limit = self.options.time_limit
        if limit is None:
            return None
        return max(limit - (time.perf_counter() - self.begin), 1e-9)


class _WorkingSet:
    """Some points, brought here, and their kernel values."""

    def __init__(self, products: PartitionedValues, dtype: np.dtype[Any]):
        self.products, self.dtype = products, dtype
        self.kernel, self.X = products.kernel, products.X
        self.compiled = products.quick
        self.index = np.empty(0, dtype=np.intp)
        self.known = np.zeros(len(self.X), dtype=bool)
        self._store: Any = None  # points that were ever here
        self._where = np.full(len(self.X), -1)  # their places there
        self._stored = 0
        self._room = np.empty(0, dtype=dtype)  # the rows of the matrix, and more
        self._idle = self.known.copy()

    def __len__(self) -> int:
        return len(self.index)

    @property
    def is_double(self) -> bool:
        return self.dtype == np.float64

    def in_double(self) -> _WorkingSet:
        """The same points, whose kernel values are computed anew."""
        other = _WorkingSet(self.products, np.dtype(np.float64))
        other._store, other._where, other._stored = (
            self._store,
            self._where,
            self._stored,
        )
        self._room = np.empty(0, self.dtype)
        other.join(self.index, np.ones(len(self.known), dtype=bool))
        return other

    def points_of(self, index: np.ndarray) -> Points:
        """Points of these places, in memory."""
        missing = index[self._where[index] < 0]
        if len(missing):
            found = self.X.fetched(missing)
            self._store = found if self._store is None else joined([self._store, found])
            self._where[missing] = self._stored + np.arange(len(missing))
            self._stored += len(missing)
        return self.X.fetched(index) if not len(index) else self._stored_points(index)

    def _stored_points(self, index: np.ndarray) -> Points:
        return taken(self._store, self._where[index])

    @property
    def cache_mb(self) -> float | None:
        """For rows, where values are held; None for what there is."""
        return None if self.compiled else 8.0 * len(self) ** 2 / 2**20 + 1

    def times(self, v: np.ndarray) -> np.ndarray:
        """K v among these points."""
        if not self.compiled:
            return multiply(self.matrix(), v)
        some, single = np.flatnonzero(v), not self.is_double
        if not len(some):
            return np.zeros(len(self))
        every = self.points_of(self.index)
        if not single:
            return self.kernel.matmul(
                double(every), double(taken(every, some)), v[some]
            )
        return self.products.multiplied(every, some, v[some])

    def gram(self) -> Gram:
        """That of these points; its values are held where they take long."""
        if self.compiled:
            return Gram(self.kernel, self.points_of(self.index))
        K = self.matrix()
        return Gram(Precomputed(K), np.arange(len(self))).holding(K)

    def matrix(self) -> np.ndarray:
        """K among these points."""
        n = len(self)
        return self._room[: n * n].reshape(n, n)

    def numbers(self) -> np.ndarray:
        """The place of each point in the set; -1 outside."""
        number = np.full(len(self.known), -1)
        number[self.index] = np.arange(len(self))
        return number

    def join(self, more: np.ndarray, free: np.ndarray) -> None:
        """Add points; where there is no room for all, others leave for the first."""
        if self.compiled:
            self.index = np.append(self.index, more)
            self.known[more] = True
            return
        side = len(self) + len(more)
        if side**2 > len(self._room) and not memory.fits(24.0 * side**2):
            room = int(np.sqrt(memory.available_memory() / 24))
            most = max(int(np.sqrt(len(self._room))), min(room, side), 2)
            more = more[: max(1, most // 2)]
            stay = np.argsort(~free[self.index], kind="stable")[: most - len(more)]
            self._keep(np.sort(stay))
            side = len(self) + len(more)
        if not len(more):
            return
        old, K = len(self), self._widened(side)
        new = self.points_of(more)
        every: Any = self.points_of(np.append(self.index, more))
        if not self.is_double:
            every = self.products.packed(every)
        step = max(1, 2**22 // side)
        for first in range(0, len(more), step):
            tick("kernel values", first / len(more))
            some = np.arange(first, min(first + step, len(more)))
            rows = slice(old + some[0], old + some[-1] + 1)
            if self.is_double:
                K[rows] = self.kernel(double(taken(new, some)), double(every))
            else:
                self.products.values(taken(new, some), every, K[rows])
            K[:old, rows] = K[rows, :old].T
        self.index = np.append(self.index, more)
        self.known[more] = True

    def _widened(self, side: int) -> np.ndarray:
        """A matrix of this side whose first corner is what there is."""
        old, K = len(self), self.matrix()
        if side**2 > len(self._room):
            self._room = np.empty((side + side // 16) ** 2, dtype=self.dtype)
            wide = self._room[: side**2].reshape(side, side)
            wide[:old, :old] = K
            return wide
        for i in range(old - 1, 0, -1):  # each moves up, into what was read before
            self._room[i * side : i * side + old] = self._room[i * old : (i + 1) * old]
        return self._room[: side**2].reshape(side, side)

    def forget(self, idle: np.ndarray) -> None:
        """Drop points that were idle the last time and are now, where they are many."""
        keep = ~(idle & self._idle)[self.index]
        self._idle = idle & self.known
        if np.count_nonzero(keep) <= FEWER * len(self):
            self._keep(np.flatnonzero(keep))

    def _keep(self, stay: np.ndarray) -> None:
        if not self.compiled:
            K, n = self.matrix(), len(stay)
            for i, own in enumerate(stay.tolist()):  # each moves down
                self._room[i * n : (i + 1) * n] = K[own, stay]
        self.known[self.index] = False
        self.index = self.index[stay]
        self.known[self.index] = True
