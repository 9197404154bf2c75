"""`BoxQP`s whose kernel values are quick, and whose Φw is quicker: chunking.

Few variables are free at the optimum, as a rule, and the others at their bounds. Those
of some points are solved for by kernel values among these points alone, the others
staying where they are; then F = Φ(Φᵀβ) at all points, in time linear in them, tells
which others are to join. Each round solves a larger part of the problem, until no
variable outside would move.

Vapnik, "Estimation of Dependences Based on Empirical Data" (1982), the addendum; Osuna,
Freund and Girosi, "An improved training algorithm for support vector machines" (1997).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from mercer.data.points import take
from mercer.gram import Gram
from mercer.native import memory
from mercer.native.clock import breakable, tick
from mercer.native.sorting import distinct
from mercer.outcomes import Progress, Run, Solution, Status, Watch
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.feature_descent import FeatureDescent
from mercer.solvers.features import check_bounds, placed_of, solution_on
from mercer.solvers.smo import SMO

FIRST = 5000  # points of the first chunk
JOIN = 3000  # points that join at most, or a quarter of what there is
ROUNDS = 40  # after which descent goes on
SHARE = 0.05  # of the violation, that a chunk is solved to
CLOSE = 0.4  # of tol, that the last chunk is solved to
FEWER = 0.8  # of the points, that are worth a smaller matrix


@dataclass(frozen=True)
class Chunking:
    """Minimise a `BoxQP` on features Φ, K = ΦΦᵀ, until violation < tol.

    Holds kernel values among the points whose variables are free or have been near it,
    in single precision; what is stated of the solution is from Φ(Φᵀβ) in double. Where
    these points become too many for the memory there is, `FeatureDescent` goes on. For
    kernels with a sparse explicit map (`mercer.maps.explicit`) and finite bounds.

    Parameters
    ----------
    max_iter : steps of SMO at most, of all chunks; -1 for as many as it takes
    time_limit : seconds; None for no limit. A solve that it, max_iter or `watch` ended
        goes on from `start=solution.value`

    Examples
    --------
    >>> from mercer import Gram, WeightedDegree
    >>> from mercer.solvers import Chunking, svc
    >>> X = ["ACGTACGT", "ACGTTCGT", "GGGGCCCC", "GGCGCCCC"]
    >>> problem = svc(Gram(WeightedDegree(2), X), [1, 1, -1, -1], upper=1.0)
    >>> solution = Chunking(tol=1e-6).solve(problem)
    >>> solution.status, bool(solution.gap < 1e-5)
    ('optimal', True)
    """

    tol: float = 1e-3
    max_iter: int = -1
    time_limit: float | None = None

    def __post_init__(self) -> None:
        if not self.tol > 0:
            raise ValueError(f"Chunking needs tol > 0; got tol={self.tol!r}.")

    def solve(
        self,
        problem: BoxQP,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        """The minimiser, from a feasible `start`; `watch` returns True to stop."""
        check_bounds(self, problem)
        return _Run(self, problem, watch)(start)


class _Run:
    """One solve."""

    def __init__(self, options: Chunking, problem: BoxQP, watch: Watch | None):
        self.options, self.problem, self.watch = options, problem, watch
        self.begin = time.perf_counter()
        self.rows = placed_of(problem.gram)
        n = problem.gram.shape[0]
        self.place = np.arange(n) if problem.index is None else problem.index
        self.chunk = _Chunk(problem.gram)
        self.iterations = self.rounds = 0
        self.violation = np.inf

    def __call__(self, start: np.ndarray | None) -> Solution:
        problem, tol = self.problem, self.options.tol
        value = problem.start(start)
        goal = CLOSE * tol
        if problem.tube_is_found:
            return self._by_descent(value)  # what is fixed would move its two levels
        for _ in range(4):
            status = self._grown(value, goal)
            if status is None:
                return self._by_descent(value)
            found = solution_on(
                self.rows, problem, problem.sign * value, self._run(status), tol
            )
            if found.status != Status.STALLED:
                return found
            goal /= 4  # levels of a chunk and of all variables are not quite the same
        return self._by_descent(value)

    def _run(self, status: Status) -> Run:
        seconds = time.perf_counter() - self.begin
        return Run(status, self.iterations, seconds, self.chunk.computed)

    def _grown(self, value: np.ndarray, goal: float) -> Status | None:
        """Move α until no slope is off by more than the goal; None to go on elsewhere.

        α is written to.
        """
        problem, rounds = self.problem, 0
        function = self._function(value)
        self.violation = problem.violation(value, function)
        joining = self._first(value) if not len(self.chunk) else np.empty(0, int)
        while self.violation > goal:
            rounds += 1
            if rounds > ROUNDS or not self.chunk.fits(len(joining)):
                return None
            if not self.chunk.join(joining, self._left()):
                return Status.TIME_LIMIT
            part, inner = self._solved(value, goal)
            value[part] = inner.value
            function = self._function(value)
            self.violation = problem.violation(value, function)
            ended = self._ended(inner.status)
            if ended is not None:
                return ended
            self.chunk.forget(self._idle(value))
            joining = self._joining(value, function, inner.level, goal)
            if not len(joining) and inner.violation <= goal < self.violation:
                return None  # rounding is all there is
        return Status.OPTIMAL

    def _function(self, value: np.ndarray) -> np.ndarray:
        coef = self.problem.coef(value)
        return self.rows.times(self.rows.pull(coef)) if coef.any() else 0 * coef

    def _first(self, value: np.ndarray) -> np.ndarray:
        """Points to begin with: those of free variables, and some of either sign."""
        problem, draw = self.problem, np.random.default_rng(0)
        free = (value > problem.lower) & (value < problem.upper)
        some = [self.place[free]]
        for one in (problem.sign > 0, problem.sign < 0):
            of_sign = distinct(self.place[one])
            some.append(draw.permutation(of_sign)[: FIRST // 2])
        chosen = distinct(np.concatenate(some))
        rest = np.delete(np.arange(len(self.chunk.known)), chosen)
        missing = max(0, FIRST - len(chosen))
        return np.concatenate([chosen, draw.permutation(rest)[:missing]])

    def _solved(self, value: np.ndarray, goal: float) -> tuple[np.ndarray, Solution]:
        """The variables of the chunk, and what they are solved to."""
        problem, chunk = self.problem, self.chunk
        part, inside = chunk.points, None
        if problem.index is not None:
            number = chunk.numbers()[self.place]
            part = np.flatnonzero(number >= 0)
            inside = number[part]
        linear, total = problem.linear[part], problem.total
        # What the others add to F and to the sums stays as it is.
        beta = problem.sign * value
        beta[part] = 0
        if beta.any():
            fixed = self._function(problem.sign * beta)
            linear = linear + problem.sign[part] * fixed[self.place[part]]
        if total is not None:
            sums = [float(np.sum(beta[members])) for members, _ in problem.groups()]
            left = np.atleast_1d(np.asarray(total, dtype=float)) - sums
            total = float(left[0]) if problem.group is None else tuple(left)
        inner = BoxQP(
            chunk.gram(),
            linear=linear,
            sign=problem.sign[part],
            lower=problem.lower[part],
            upper=problem.upper[part],
            total=total,
            index=inside,
            tube=None if problem.tube is None else problem.tube[part],
            group=None if problem.group is None else np.asarray(problem.group)[part],
        )
        most = self.options.max_iter
        solver = SMO(
            max(goal, SHARE * self.violation),
            cache_mb=8.0 * len(chunk) ** 2 / 2**20 + 1,
            max_iter=-1 if most < 0 else max(most - self.iterations, 1),
            time_limit=self._left(),
            precision="single",
            objectives=False,
        )
        start = inner.start(value[part])
        found = solver.solve(inner, start=start, watch=self.watch and self._watched)
        self.iterations += found.run.iterations
        self.rounds += 1
        return part, found

    def _watched(self, progress: Progress) -> bool:
        assert self.watch is not None
        progress = progress._replace(
            round=self.rounds,
            iterations=self.iterations + progress.iterations,
            rows=self.chunk.computed,
            seconds=time.perf_counter() - self.begin,
            objective=np.nan,  # that of the chunk
            gap=np.nan,
            words=(("support", "support vectors"), ("violation", "violation")),
        )
        return bool(self.watch(progress))

    def _ended(self, inner: Status) -> Status | None:
        """How the solve ends, where a chunk was not solved to its end."""
        if inner in (Status.TIME_LIMIT, Status.STOPPED):
            return inner
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
        most = max(JOIN, len(self.chunk) // 4)
        known = self.chunk.known
        return self.problem.joining(value, function, level, known, goal, most)

    def _idle(self, value: np.ndarray) -> np.ndarray:
        """Whether all variables of each point are at their bounds."""
        problem = self.problem
        free = (value > problem.lower) & (value < problem.upper)
        idle = np.ones(len(self.chunk.known), dtype=bool)
        idle[self.place[free]] = False
        return idle

    def _by_descent(self, value: np.ndarray) -> Solution:
        """What `FeatureDescent` makes of it."""
        before, options = self._run(Status.STALLED), self.options
        self.chunk.clear()
        rest = FeatureDescent(options.tol, time_limit=self._left())
        found = rest.solve(self.problem, start=value, watch=self.watch)
        return replace(found, run=found.run.after(before))

    def _left(self) -> float | None:
        limit = self.options.time_limit
        if limit is None:
            return None
        return max(limit - (time.perf_counter() - self.begin), 1e-9)


class _Chunk:
    """Some points and their kernel values, to which others are added."""

    def __init__(self, gram: Gram):
        self.whole = gram
        self.points = np.empty(0, dtype=np.intp)
        self.known = np.zeros(gram.shape[0], dtype=bool)
        self.computed = 0  # rows
        self._room = np.empty((0, 0), dtype=np.float32)
        self._idle = self.known.copy()

    def __len__(self) -> int:
        return len(self.points)

    def gram(self) -> Gram:
        """That of these points, held."""
        X = take(self.whole.X, self.points)
        return Gram(self.whole.kernel, X).holding(self._matrix())

    def _matrix(self) -> np.ndarray:
        return self._room[: len(self), : len(self)]

    def numbers(self) -> np.ndarray:
        """The place of each point in the chunk; -1 outside."""
        number = np.full(len(self.known), -1)
        number[self.points] = np.arange(len(self))
        return number

    def fits(self, more: int) -> bool:
        """Whether there is room for the values of so many more points.

        Of the matrix, of the one that it grows from or a copy that SMO has, and of what
        others may need.
        """
        side = len(self) + more
        return side <= len(self._room) or memory.fits(24.0 * side**2)

    def join(self, more: np.ndarray, seconds: float | None) -> bool:
        """Add points; False where the time is not enough."""
        if not len(more):
            return True
        begin, old = time.perf_counter(), len(self)
        side = old + len(more)
        if side > len(self._room):
            room = np.empty((side + side // 4,) * 2, dtype=np.float32)
            room[:old, :old] = self._matrix()
            self._room = room
        X, kernel = self.whole.X, self.whole.kernel
        step = max(1, 2**24 // side)
        with breakable():
            for first in range(0, len(more), step):
                tick("kernel values", first / len(more))
                if seconds is not None and time.perf_counter() - begin >= seconds:
                    return False
                some = more[first : first + step]
                self._add(
                    some, kernel(take(X, some), take(X, np.append(self.points, some)))
                )
        return True

    def _add(self, some: np.ndarray, values: np.ndarray) -> None:
        old, side = len(self), len(self) + len(some)
        self._room[old:side, :side] = values
        self._room[:old, old:side] = values[:, :old].T
        self.points = np.append(self.points, some)
        self.known[some] = True
        self.computed += len(some)

    def forget(self, idle: np.ndarray) -> None:
        """Drop points that were idle the last time and are now, where they are many."""
        keep = ~(idle & self._idle)[self.points]
        self._idle = idle & self.known
        if np.count_nonzero(keep) > FEWER * len(self):
            return
        stay = np.flatnonzero(keep)
        smaller = self._matrix()[np.ix_(stay, stay)]
        self._room[: len(stay), : len(stay)] = smaller
        self.known[self.points[~keep]] = False
        self.points = self.points[stay]

    def clear(self) -> None:
        """Give the memory back."""
        self._room, self.points = self._room[:0, :0].copy(), self.points[:0]
        self.known[:] = False
