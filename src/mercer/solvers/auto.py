"""The one place that chooses how a problem is solved: by what, how exactly, K held.

Each class here is itself a solver. A machine states a problem, hands it to one of them
and reads the solution; a solver of the user's own takes the place of what is chosen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.blocks import Blocks
from mercer.data.points import Points, as_points, count, take, vectors
from mercer.gram import Gram
from mercer.kernels.base import Constant, Kernel, Sum
from mercer.kernels.vector import is_vectors
from mercer.kernels.ways import FeatureKernel, Precomputed
from mercer.maps import dense_columns, entries_estimate, explicit, has_quick_map
from mercer.native import memory
from mercer.native.clock import OutOfTime, breakable
from mercer.native.threads import threads
from mercer.outcomes import Progress, Solution, Status, Watch
from mercer.solvers.ball import within_ball
from mercer.solvers.bayes import FEW as FEW_BASES
from mercer.solvers.bayes import affordable as room_for_matrix
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.class_pairs import PairProblems, PairSolutions
from mercer.solvers.components import Components, Eigenpairs
from mercer.solvers.coordinate import CoordinateAscent
from mercer.solvers.eigen import (
    DOUBLE,
    ROUGH,
    WIDEST,
    Arpack,
    BlockKrylov,
    Covariance,
    Lapack,
)
from mercer.solvers.feature_descent import FeatureDescent
from mercer.solvers.features import features_of, packed_entries, rows_of
from mercer.solvers.hull import HullDistance
from mercer.solvers.krylov import kept_by_products
from mercer.solvers.l1 import Columns, CoordinateDescent
from mercer.solvers.lasso import L1Problem
from mercer.solvers.lasso_features import Design
from mercer.solvers.limits import Shares, TimeLimit, check_time_limit, solve_within
from mercer.solvers.linear import (
    BySize,
    Cholesky,
    ConjugateGradient,
    LinearSystem,
    NormalEquations,
    inverse_diagonal,
    inverse_diagonal_by_map,
)
from mercer.solvers.newton import Newton
from mercer.solvers.penalized import Penalized, unboxed
from mercer.solvers.primal import affordable, has_small_map
from mercer.solvers.roads import Road, by_matrix, on_map
from mercer.solvers.semismooth import SemismoothNewton
from mercer.solvers.smo import SINGLE_FROM, SMO, matrix_bytes

# Problems this small are solved to rounding, at next to no cost: then it does not show
# in what order the points came, or whether one counted twice or came twice.
SMALL = 256
ROUNDING = 1e-11
STEPS = 200  # for each variable; a small problem that takes more is solved to tol
ROUNDING_GAP = 1e-12  # of an L1 problem, relative to the objective of the best constant
MANY = 496  # pairs of 32 classes; of more, small ones are not solved to rounding
# LAPACK is the quicker one up to so many points, and where more than this share of all
# components is sought, with kernel values in double or in single precision.
DENSE = 800
DENSE_SHARE = {"double": 1 / 30, "single": 1 / 16}

# How a solve to rounding ends where it does not come to rounding.
_SHORT = ("max_iter", "stalled", "imprecise", "indefinite")

# Solvers that need no sum to be fixed; None stands for SMO.
_WITHOUT_TOTAL = SMO | CoordinateAscent | SemismoothNewton | FeatureDescent | None
Watching = Callable[[int], AbstractContextManager[Watch | None]]
Task = tuple[BoxQP, np.ndarray | None]  # a problem, and where to start it

RESERVE = 4  # times the points that are few: factors are tried where a map failed
# Problems of fewer points are solved by kernel values, whatever the kernel.
MANY_POINTS = 4000
FEW_COLUMNS = 1000  # of a sparse map, up to which Newton's systems are small
MANY_TO_CLUSTER = 1000  # of fewer points, K takes no time
STEPS_OF_LLOYD = 30
MANY_TO_STEP = 500  # points from which on steps are made on features
WIDEST_STEP = 2**14  # features of a point of a stream


def on_features(gram: Gram, n: int | None = None) -> type | None:
    """What solves n of its points, or all, on features at less cost than SMO on K.

    All costs are in multiplications, and rough: from fits of 5,000 to 1,000,000 points
    of 20 and of 200 columns, of a9a, of w8a and of the 6-mers of DNA. Newton's
    method reads Φ some 60 times, multiplies ΦᵀDΦ out once for all points (the samples
    and bands it is used for are much smaller) and factors it 30 times. Descent reads
    some 1500 times as many entries as Φ has, most of them of free variables. SMO
    computes half of K, and an entry takes as long as 20 multiplications and one for
    each column.
    """
    n = gram.shape[0] if n is None else n
    if isinstance(gram.X, Blocks):
        return SemismoothNewton  # there is no other way
    if n < MANY_POINTS or gram.is_held or not has_quick_map(gram.kernel):
        return None
    p = dense_columns(gram.kernel, gram.X)
    if p is None:
        most = packed_entries(gram.kernel, gram.X)
        if most is not None and not memory.keeps(8.0 * most):
            return None
        entries = entries_estimate(gram.kernel, gram.X)
        if entries is not None and not _is_worth_making(gram, entries):
            return None
        rows = rows_of(gram)
        p, wide = rows.shape[1], rows.entries / max(1, rows.shape[0])
        columns = wide
    else:
        wide = columns = float(p)
        if not isinstance(gram.kernel, FeatureKernel):
            columns = float(getattr(gram.X, "shape", (n, p))[1])
    smo = n**2 * (columns + 20.0) / 2
    newton = 60.0 * n * wide + n * wide**2 + 30.0 * p**3
    if p <= FEW_COLUMNS or wide == p:
        return SemismoothNewton if newton < smo else None
    return FeatureDescent if 1500.0 * n * wide < smo else None


def _is_worth_making(gram: Gram, entries: float) -> bool:
    """Whether Φ fits into memory, and is smaller than K."""
    return 2 * entries < gram.shape[0] ** 2 and memory.keeps(16.0 * entries)


def clusters_on_features(gram: Gram, n_clusters: int) -> bool:
    """Whether Lloyd's steps on Φ cost less than on K.

    In multiplications, and rough: `STEPS_OF_LLOYD` of them read Φ k times each, at the
    speed of a matrix product, or that of sparse rows. K is computed once, an entry at
    the cost of 20 multiplications and one for each column, and a tenth of it is read in
    a step; where it does not fit it is computed anew.
    """
    n, kernel = gram.shape[0], gram.kernel
    if n < MANY_TO_CLUSTER or gram.is_held or not has_quick_map(kernel):
        return False
    entries = entries_estimate(kernel, gram.X)
    if entries is not None and not memory.keeps(16.0 * entries):
        return False
    sparse = entries is None or dense_columns(kernel, gram.X) is None
    if entries is None or sparse:
        if entries is not None and not _is_worth_making(gram, entries):
            return False
        rows = features_of(gram)
        entries, sparse = float(rows.entries), rows.sparse
        if not memory.keeps(32.0 * n_clusters * rows.shape[1]):
            return False
    by_features = STEPS_OF_LLOYD * entries * n_clusters * (8 if sparse else 1)
    wide = entries / n
    columns = min(wide, float(getattr(gram.X, "shape", (n, wide))[-1]))
    of_matrix = n**2 * (columns + 20.0) / 2
    fits = memory.keeps(4.0 * n**2)
    by_kernel = of_matrix + STEPS_OF_LLOYD * (n**2 / 10 if fits else of_matrix / 4)
    return by_features < by_kernel


def steps_on_features(kernel: Kernel, X: Points, passes: int | None) -> bool:
    """Whether steps point by point cost less with w on Φ than with w on the points.

    In multiplications, and rough, from fits of 5,000 to 20,000 points of 20 columns: a
    step on points computes kernel values with those it has a coefficient for, a fifth
    of all; one on features, whose products are not blocked, takes as long as 200
    multiplications for each, and making them as long as 1000. A stream has any number
    of points to come.

    Parameters
    ----------
    passes : over these points; None for a stream, of which they are the first
    """
    n = count(as_points(X))
    many = passes is None or n >= MANY_TO_STEP
    if not (many and n and has_quick_map(kernel)):
        return False
    entries = entries_estimate(kernel, X, always=True)
    assert entries is not None
    wide = entries / n
    if loses_ties(kernel, X):
        return False
    if passes is None:
        return wide <= WIDEST_STEP
    columns = min(wide, float(getattr(X, "shape", (n, wide))[-1]))
    few = min(passes, STEPS_OF_LLOYD)
    by_points = few * n * (n / 5) * (columns + 20.0)
    by_features = (1000.0 + 200.0 * few) * entries
    return memory.keeps(16.0 * entries) and by_features < by_points


def loses_ties(kernel: Kernel, X: Points) -> bool:
    """Whether kernel values are whole numbers, as the points are, and features not.

    Sums of whole numbers are exact, and often 0 or 1; those of their roots come near.
    """
    X = as_points(X)
    if not is_vectors(X):
        return False
    some = take(X, slice(0, SMALL))
    return _whole(vectors(some)) and not _whole(explicit(kernel, some).matrix)


def _whole(matrix: Any) -> bool:
    """Whether all entries are whole numbers."""
    entries = matrix.data if sp.issparse(matrix) else matrix
    return bool(np.array_equal(entries, np.rint(entries)))


def held_for_rows(gram: Gram, n_problems: int, cache_mb: float | None) -> Gram:
    """The same, K in memory where several problems would compute its rows anew."""
    holds = _holds_for_rows(gram, n_problems, cache_mb)
    return _held_in_time(gram) if holds else gram


def _holds_for_rows(gram: Gram, n_problems: int, cache_mb: float | None) -> bool:
    if n_problems == 1 or isinstance(gram.X, Blocks):
        return False
    if gram.kernel.native(gram.X) is not None:
        return False
    if on_features(gram) or isinstance(gram.kernel, Precomputed):
        return False
    return 8.0 * gram.shape[0] ** 2 <= matrix_bytes(cache_mb)


def _held_in_time(gram: Gram, double: bool = False) -> Gram:
    """The same with K in memory, or without where that takes half of the time."""
    try:
        with breakable(0.5):
            return gram.held_in_double() if double else gram.held()
    except OutOfTime:
        return gram


def held_for_many(gram: Gram, by_map: bool = False) -> Gram:
    """The same Gram with K in memory, where several problems would each compute it.

    Parameters
    ----------
    by_map : whether an explicit map, where it is small, stands in for K
    """
    holds = holds_for_many(gram, by_map)
    return _held_in_time(gram, double=True) if holds else gram


def holds_for_many(gram: Gram, by_map: bool = False) -> bool:
    """Whether `held_for_many` holds K."""
    if isinstance(gram.kernel, Precomputed) or gram.is_held:
        return False
    if isinstance(gram.X, Blocks):
        return False
    if by_map and has_small_map(gram, Newton.direct):
        return False
    return memory.keeps(8.0 * gram.shape[0] ** 2)


def held_for_passes(gram: Gram) -> Gram:
    """K as a matrix that its points are places in, where it is slow, for many passes.

    Where the core computes kernel values itself, or K does not fit, the same Gram.
    """
    if not _holds_for_passes(gram):
        return gram
    held, n = _held_in_time(gram), gram.shape[0]
    return Gram(Precomputed(held.dense()), np.arange(n)) if held.is_held else gram


def _holds_for_passes(gram: Gram) -> bool:
    kernel = gram.kernel
    if isinstance(kernel, Sum) and isinstance(kernel.right, Constant):
        kernel = kernel.left  # k + 1 is as slow as k
    slow = kernel.native(gram.X) is None and not isinstance(kernel, Precomputed)
    return slow and memory.keeps(8.0 * gram.shape[0] ** 2)


def road_of_passes(gram: Gram, solver: Any, many: bool = True) -> Road:
    """That of a machine which visits its points one after another.

    Parameters
    ----------
    many : whether it does so more than once, and holds a slow K
    """
    held = many and _holds_for_passes(gram)
    return by_matrix(gram, solver) if held else Road("rows", gram, solver)


def road_of_evidence(gram: Gram, solver: Any) -> Road:
    """That of `EvidenceAscent`, which looks at all kernel values again and again."""
    gram = gram.double()
    if has_small_map(gram, FEW_BASES):
        return on_map(gram, solver)
    if room_for_matrix(gram):
        return by_matrix(gram, solver)
    return Road("products", gram, solver)


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
      that is the cheaper way.
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
        alone = near is None and watching is None and self.solver is None
        if alone and self._in_one_call(problems):
            assert isinstance(problems, PairProblems)
            try:
                return self._solve_pairs(problems)
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
        if isinstance(base, SemismoothNewton | FeatureDescent):
            return on_map(gram, chosen, n_problems=many, parameters={"solver": base})
        held = self.solver is None and _holds_for_rows(gram, many, self.cache_mb)
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
        on_rows = on_features(problems.gram, size) if finite else None
        solver: Any = self.solver or self._smo(joint, 1)
        if on_rows is not None and self.solver is None:
            solver = on_rows(self.tol, self.max_iter)
        return size, problems.gram, solver

    # One problem

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
            total = 0.0 if problem.total is None else problem.total
            size = max(1.0, np.abs(problem.linear).max(), np.abs(total).max())
            fine = self._to_rounding(solver, size)
            first = fine.solve(problem, start=start, watch=watch)
            solution = self._completed(problem, first, watch)
        else:
            solution = solver.solve(problem, start=start, watch=watch)
        on_rows = isinstance(solver, SemismoothNewton | FeatureDescent)
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
            linear = on_features(problem.gram)
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
        gram = problems.gram
        if on_features(gram, int(problems.lengths.max())):
            return False
        if gram.kernel.native(gram.X) is not None:
            return True
        there = gram.is_held or isinstance(gram.kernel, Precomputed)
        room = memory.room_to_keep() if there else matrix_bytes(self.cache_mb)
        return 8.0 * gram.shape[0] ** 2 <= room

    def _solve_pairs(self, problems: PairProblems) -> PairSolutions:
        """Those of all pairs; small ones to rounding, unless they are very many."""
        limit = TimeLimit(None, self.time_limit)
        solver = SMO(self.tol, self.cache_mb, self.max_iter, self.time_limit)
        small = problems.lengths <= SMALL
        small &= len(problems) <= MANY
        size = float(np.abs(problems.totals[small]).max(initial=1.0))
        fine = self._to_rounding(solver, size)
        if small.all() or not small.any():
            found = (fine if small.any() else solver).solve_many(problems)
            assert isinstance(found, PairSolutions)
            solutions = found
        else:
            solutions = PairSolutions.empty(problems)
            squares = np.square(problems.lengths, dtype=float)
            large = float(squares[~small].sum() / squares.sum())
            for chosen, solve, part in ((~small, solver, large), (small, fine, 1.0)):
                solve = replace(solve, time_limit=limit.share(part))
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


@dataclass
class AutoL1:
    """Minimise a `L1Problem` until gap ≤ tol · (the objective of the best constant).

    By `CoordinateDescent`, small problems to rounding. Problems on the same Gram that
    are solved one after another share what was read of K.

    Parameters
    ----------
    max_iter, cache_mb : those of `CoordinateDescent`
    solver : what solves the problem in its place; its own tol counts, where it has one
    time_limit : seconds of a solve; None for no limit
    """

    tol: float = 1e-4
    max_iter: int = 1000
    cache_mb: float | None = None
    solver: Any = None
    time_limit: float | None = None
    _last: tuple[Any, Columns | Design] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def solve(
        self,
        problem: L1Problem,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        """The minimiser, from `start` or from 0; `watch` returns True to stop."""
        limit = TimeLimit(watch, self.time_limit)
        watch = watch if self.time_limit is None else limit
        solution = self._solving(problem)(problem, start=start, watch=watch)
        solution = limit.ended(solution)
        goal = getattr(self.solver, "tol", self.tol) * problem.of_constant()
        early = solution.status in ("stalled", "max_iter", "stopped", "time_limit")
        if early and solution.gap + solution.rounding <= goal:
            return solution.ended(Status.OPTIMAL)
        return solution

    def road(self, problem: L1Problem, gram: Gram, n_problems: int = 1) -> Road:
        """How it would be solved, and as many more on the same points.

        Parameters
        ----------
        gram : of the points, of which the problem may know the features alone
        """
        solver = self.solver or CoordinateDescent(
            self.tol, self.max_iter, self.cache_mb
        )
        if isinstance(problem.gram, Design):
            return on_map(gram, solver, n_problems=n_problems)
        n = gram.shape[0]
        if 8.0 * n * n <= memory.cache_bytes(self.cache_mb):
            return by_matrix(gram, solver, n_problems=n_problems)
        return Road("rows", gram, solver, n_problems, memory.cache_bytes(self.cache_mb))

    def _solving(self, problem: L1Problem) -> Callable[..., Solution]:
        if self.solver is not None:
            return self.solver.solve
        small = problem.gram.shape[0] <= SMALL
        tol = min(self.tol, ROUNDING_GAP) if small else self.tol
        solver = CoordinateDescent(tol, self.max_iter, self.cache_mb)
        if self._last is None or self._last[0] is not problem.gram:
            self._last = problem.gram, solver.columns(problem.gram)
        return partial(solver.solve, columns=self._last[1])


@dataclass(frozen=True)
class AutoLinear:
    """Solve a `LinearSystem` by what is quickest.

    `NormalEquations` where the kernel has a small explicit map, else `BySize`, which is
    also asked where rounding leaves the first too large a residual.

    Parameters
    ----------
    few : points up to which the matrix is factored
    time_limit : seconds; None for no limit. Factors for which there is no time give way
        to what conjugate gradients find
    """

    few: int = 3000
    tol: float = 1e-8
    time_limit: float | None = None

    def solve(
        self,
        problem: LinearSystem,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        """The solution; `watch` returns True to stop."""
        limit = TimeLimit(None, self.time_limit)
        if self._by_map(problem):
            solver = NormalEquations(self.tol, trust=Cholesky.tol)
            found = solve_within(solver, problem, limit.left, start=start, watch=watch)
            # Beyond, K has no digits that Φ has not, and is too large to be factored.
            few = problem.gram.shape[0] <= RESERVE * self.few
            if found.status in ("optimal", "stopped", "time_limit") or not few:
                return found
        by_size = BySize(self.few, self.tol, limit.left)
        return by_size.solve(problem, start=start, watch=watch)

    def road(self, problem: LinearSystem) -> Road:
        """How it would be solved."""
        if self._by_map(problem):
            solver: Any = NormalEquations(self.tol, trust=Cholesky.tol)
            return on_map(problem.gram, solver, parameters={"solver": solver})
        solver = BySize(self.few, self.tol).chosen(problem)
        return linear_road(problem.gram, solver)

    def inverse_diagonal(self, problem: LinearSystem) -> np.ndarray:
        """The diagonal of (K + diag(reg/weight))⁻¹, a column per target."""
        if self._by_map(problem) and affordable(features_of(problem.gram).shape[1]):
            return inverse_diagonal_by_map(problem)
        return inverse_diagonal(problem)

    def _by_map(self, problem: LinearSystem) -> bool:
        positive = bool(np.all(np.asarray(problem.reg, dtype=float) > 0))
        return positive and has_small_map(problem.gram, self.few)


def linear_road(gram: Gram, solver: Any) -> Road:
    """That of a solver of a `LinearSystem`."""
    if isinstance(solver, NormalEquations):
        return on_map(gram, solver, parameters={"solver": solver})
    if isinstance(solver, ConjugateGradient):
        kept = kept_by_products(gram)
        options: dict[str, Any] = {"single": True, "parameters": {"solver": solver}}
        return Road("products", gram, solver, kept=kept, **options)
    return by_matrix(gram, solver)


@dataclass(frozen=True)
class AutoPenalized:
    """Minimise a `Penalized` until gap ≤ tol · (the loss of f = 0).

    Curved losses by `Newton`, in the coordinates of an explicit map where the kernel
    has a small one; those of straight pieces in their dual by `SMO`, small ones to
    rounding, others in single precision first where that is enough; the loss alone in a
    ball, ‖f‖ ≤ norm, by a search for the reg that goes with it.

    Parameters
    ----------
    max_iter : steps of the solver; -1 for its own limit
    solver : a `Newton`, or for straight pieces an `SMO`, in place of what is chosen
    seed : of the columns that precondition `Newton`
    time_limit : seconds; None for no limit
    """

    tol: float = 1e-4
    max_iter: int = -1
    solver: Any = None
    seed: int = 0
    time_limit: float | None = None

    def solve(
        self,
        problem: Penalized,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        """The minimiser, from `start` or from 0; `watch` returns True to stop.

        Of a problem with norm it has the reg that gave it, a `BallSolution`.
        """
        solve = self._newton if problem.loss.curved else self._box
        limit = TimeLimit(watch, self.time_limit)
        if problem.norm is None:
            return solve(problem, start, limit, self.tol)
        # The gap of the ball is made of that of the problem and of the norm.
        return within_ball(
            problem,
            lambda part, near: solve(part, near, limit, self.tol / 4),
            self.tol,
            start,
        )

    def road(self, problems: Sequence[Penalized]) -> Road:
        """How these would be solved, all of the same points."""
        problem, many = problems[0], len(problems)
        gram = problem.gram
        if not problem.loss.curved:
            held = many > 1 and holds_for_many(gram)
            solver = self.solver
            if solver is None and on_features(gram) is None:
                solver = SMO(self.tol, None, self.max_iter)
            road = AutoSMO(self.tol, solver=solver).road([problem.boxed()], many)
            if not held or road.name != "rows":
                return road
            return by_matrix(gram, solver, n_problems=many)
        solver = self._chosen_newton(problem, self.tol)
        if solver.features:
            return on_map(gram, solver, n_problems=many, parameters={"solver": solver})
        held = many > 1 and holds_for_many(gram, self.solver is None)
        n, k = gram.shape[0], getattr(problem.loss, "k", 1)
        if held or n * k <= solver.direct:
            return by_matrix(gram, solver, n_problems=many)
        never = replace(solver, direct=0)
        return Road(
            "products",
            gram,
            solver,
            many,
            kept_by_products(gram),
            single=True,
            parameters={"solver": never},
        )

    def _chosen_newton(self, problem: Penalized, tol: float) -> Any:
        if self.solver is not None:
            return self.solver
        most = 100 if self.max_iter < 0 else self.max_iter
        by_map = has_small_map(problem.gram, Newton.direct)
        return Newton(tol, most, seed=self.seed, features=by_map)

    def _newton(
        self,
        problem: Penalized,
        start: np.ndarray | None,
        limit: TimeLimit,
        tol: float,
    ) -> Solution:
        solver = self._chosen_newton(problem, tol)
        seconds, watch = limit.left, limit.watch
        return solve_within(solver, problem, seconds, start=start, watch=watch)

    def _box(
        self,
        problem: Penalized,
        start: np.ndarray | None,
        limit: TimeLimit,
        tol: float,
    ) -> Solution:
        """The dual of straight pieces by SMO, until the gap is small enough.

        Or on features, where that costs less, or is the only way.
        """
        box = problem.boxed()
        near = None if start is None else box.start(start)
        if self.solver is not None:
            seconds, watch = limit.left, limit.watch
            found = solve_within(self.solver, box, seconds, start=near, watch=watch)
            return unboxed(problem, found)
        low, high = problem.loss.slopes(problem.target)
        goal = tol * problem.zero_loss
        # gap ≤ violation · (largest - least slope), up to rounding.
        close = max(goal, 1e-300) / float(np.max(high - low))
        on_rows = on_features(problem.gram)
        if on_rows is not None:
            solver = on_rows(close, self.max_iter)
            found = _reached(_unboxed_in_time(problem, solver, box, near, limit), goal)
            alone = isinstance(problem.gram.X, Blocks)
            if alone or found.status not in ("optimal", "stalled", "imprecise"):
                return found
            if found.status == "optimal" and _near(found, goal):
                return found
            near = found.value
        if len(box) <= SMALL:
            found = self._to_rounding(problem, box, near, limit, close)
            found = _reached(found, goal)
            done = found.status == "optimal" and _near(found, goal)
            if done or self.max_iter >= 0 or found.status == "time_limit":
                return found
            near = found.value
        solver = SMO(close, None, self.max_iter)
        found = _unboxed_in_time(problem, solver, box, near, limit)
        if found.status == "imprecise":
            found = _reached(found, goal)
        for _ in range(3):
            if found.status != "optimal" or _near(found, goal):
                return found
            solver = replace(solver, tol=solver.tol / 10, precision="double")
            found = _unboxed_in_time(problem, solver, box, found.value, limit)
        if found.status == "optimal" and not _near(found, goal):
            return found.ended(Status.IMPRECISE)
        return found

    def _to_rounding(
        self,
        problem: Penalized,
        box: BoxQP,
        near: np.ndarray | None,
        limit: TimeLimit,
        close: float,
    ) -> Solution:
        size = max(1.0, np.abs(box.linear).max())
        budget = STEPS * SMALL if self.max_iter < 0 else self.max_iter
        fine = SMO(min(close, ROUNDING * size), None, budget, precision="double")
        return _unboxed_in_time(problem, fine, box, near, limit)


@dataclass(frozen=True)
class AutoComponents:
    """Find `Components` by what is quickest.

    `Covariance` where there are few explicit features, `Lapack` for few points and for
    many of the components, else `BlockKrylov`.

    Parameters
    ----------
    krylov : the `BlockKrylov` of that case
    time_limit : seconds; None for no limit. It takes the place of `Lapack` where there
        is no time for that, unless all components are sought
    """

    krylov: BlockKrylov = field(default_factory=BlockKrylov)
    time_limit: float | None = None

    def solve(
        self,
        problem: Components,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Eigenpairs:
        """The components; `watch` returns True to stop."""
        limit = TimeLimit(None, self.time_limit)
        solver = self.chosen(problem)
        direct = breakable() if isinstance(solver, Lapack) else nullcontext()
        try:
            with direct:
                return solve_within(
                    solver, problem, limit.left, start=start, watch=watch
                )
        except OutOfTime:
            if problem.count > problem.gram.shape[0] // 2:
                raise  # no method has some of so many before it has all
        return solve_within(self.krylov, problem, limit.left, start=start, watch=watch)

    def road(self, problem: Components) -> Road:
        """How they would be found."""
        return components_road(problem, self.chosen(problem))

    def chosen(self, problem: Components) -> Any:
        n, features = problem.gram.shape[0], problem.features
        if features is not None and features.shape[1] <= WIDEST:
            return Covariance()
        share = DENSE_SHARE["double" if n <= DOUBLE else "single"]
        dense = n <= DENSE or problem.count > share * n
        return Lapack() if dense else self.krylov


def _unboxed_in_time(
    problem: Penalized,
    solver: Any,
    box: BoxQP,
    near: np.ndarray | None,
    limit: TimeLimit,
) -> Solution:
    seconds, watch = limit.left, limit.watch
    found = solve_within(solver, box, seconds, start=near, watch=watch)
    return unboxed(problem, found)


def components_road(problem: Components, solver: Any) -> Road:
    """That of a solver of `Components`."""
    gram, n = problem.gram, problem.gram.shape[0]
    parameters = {"eigen_solver": solver}
    if isinstance(solver, Covariance):
        return on_map(gram, solver, parameters=parameters)
    if not isinstance(solver, BlockKrylov | Arpack):
        return by_matrix(gram, solver, parameters=parameters)
    single = False
    if n > DOUBLE and isinstance(solver, BlockKrylov):
        single, rough = True, solver.tol or ROUGH
        parameters = {"eigen_solver": replace(solver, tol=rough, precision="single")}
    kept = (4.0 if single else 8.0) * n * (n + 512) / 2
    room = memory.room_to_keep(getattr(solver, "cache_mb", None))
    options: dict[str, Any] = {"single": single, "parameters": parameters}
    return Road("products", gram, solver, kept=min(kept, room), **options)


def _near(found: Solution, goal: float) -> bool:
    return found.gap + found.objective_rounding <= goal


def _reached(found: Solution, goal: float) -> Solution:
    """The solution, optimal where a limit or rounding ended it below the goal."""
    early = found.status in ("max_iter", "time_limit", "stalled", "imprecise")
    return found.ended(Status.OPTIMAL) if early and _near(found, goal) else found
