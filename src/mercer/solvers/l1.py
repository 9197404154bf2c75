"""Coordinate descent for L1-penalised expansions, on few points at a time.

The penalty leaves most coefficients at 0, so the solver works on those that are not and
on the points that violate the optimality conditions most: on this working set it takes
Newton steps, whose quadratic models it minimises one coordinate at a time. One product
with K then finds the points to add, and how far from optimal all of it is at most;
points that provably end at 0 are left out. Working sets: Massias et al., JMLR 21
(2020); screening: Ndiaye et al., JMLR 18 (2017); Newton steps: Yuan et al., JMLR 13
(2012).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from mercer import _core
from mercer.data.points import take
from mercer.gram import Gram
from mercer.kernels.base import row_blocks
from mercer.losses import Squared
from mercer.native import memory
from mercer.native.clock import OutOfTime, breakable
from mercer.native.threads import blas_for
from mercer.outcomes import Progress, Run, Solution, Status, Watch
from mercer.solvers.krylov import Pulse
from mercer.solvers.lasso import L1Problem
from mercer.solvers.lasso_features import Design
from mercer.solvers.limits import TimeLimit

CLOSING = 3.0  # products in the time of what ends a solve
FIRST = 32  # points that may join a working set, at least
SHARE = 200  # ... or one of so many: the more points, the more a product with K costs
SWEEPS = 20  # of coordinate descent, before the last few change one by one
ATTEMPTS = 10
HALVINGS = 40  # of a step that is too long, before it counts as none
ROUNDING = 1e-15  # relative, of an objective
FLAT = 1e-13  # relative; a column that the bias leaves so little of is constant


@dataclass(frozen=True)
class CoordinateDescent:
    """Minimise a `L1Problem` until gap ≤ tol · (the objective of the best constant).

    Parameters
    ----------
    max_iter : Newton steps at most, over all working sets
    cache_mb : memory for the matrix K; None for a quarter of what is free, at most
        1 GB. A larger one is not stored: products with it are computed in blocks, and
        only the columns of the working set are kept
    screening : whether points that provably end at 0 are left out of further products
        with a matrix that is not stored

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gram, RBF
    >>> from mercer.losses import Squared
    >>> from mercer.solvers import CoordinateDescent, L1Problem
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> problem = L1Problem(Gram(RBF(1), X), np.sin(X[:, 0]), Squared(), reg=0.1)
    >>> path = list(CoordinateDescent().path(problem, [10.0, 0.1]))
    >>> [int((solution.value != 0).sum()) < 15 for solution in path]
    [True, True]
    """

    tol: float = 1e-4
    max_iter: int = 1000
    cache_mb: float | None = None
    screening: bool = True

    def __post_init__(self) -> None:
        if not self.tol > 0:
            raise ValueError(f"CoordinateDescent needs tol > 0; got tol={self.tol!r}.")

    def solve(
        self,
        problem: L1Problem,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
        columns: Columns | Design | None = None,
    ) -> Solution:
        """The minimiser, from `start` or from 0; `watch` returns True to stop.

        Parameters
        ----------
        start : (n,) array of coefficients
        columns : what was already read of K, from `self.columns(gram)`, for those who
            solve several problems on the same points
        """
        with blas_for(problem.gram.shape[0]):
            columns = self.columns(problem.gram) if columns is None else columns
            return _Run(self, problem, watch, columns).solution(start)

    def path(self, problem: L1Problem, regs: Iterable[float]) -> Iterator[Solution]:
        """The solutions for one reg after another, each from the one before.

        Parameters
        ----------
        regs : penalties, best from `problem.largest_reg()` down; that of the problem
            is not used
        """
        columns, value = self.columns(problem.gram), None
        for reg in regs:
            solution = self.solve(
                replace(problem, reg=float(reg)), start=value, columns=columns
            )
            value = solution.value
            yield solution

    def columns(self, gram: Gram | Design) -> Columns | Design:
        """What this solver reads of K, kept for the problems on these points."""
        if isinstance(gram, Design):
            return gram  # Φ is in memory already
        return Columns(gram, memory.cache_bytes(self.cache_mb))


class Columns:
    """The columns of K, whole where they fit, else computed when they are asked for."""

    def __init__(self, gram: Gram, limit: float):
        self.gram = gram = gram.double()
        n = gram.shape[0]
        self.matrix = None
        if 8.0 * n * n <= limit:
            try:
                with breakable(0.5):
                    self.matrix = np.ascontiguousarray(gram.dense(), dtype=float)
            except OutOfTime:
                pass  # a product in blocks is all that a gap needs
        self.index = np.empty(0, dtype=np.intp)  # the columns kept last
        self.kept = np.empty((0, n))
        self.computed = n if self.matrix is not None else 0
        self.hits = 0
        self.measured: tuple[np.ndarray, bool, np.ndarray] | None = None

    @property
    def width(self) -> int:
        return self.gram.shape[0]

    def at(self, index: np.ndarray) -> np.ndarray:
        """K[index], as float64; those asked for last time are not computed again."""
        if self.matrix is not None:
            self.hits += len(index)
            return self.matrix[index]
        n = self.gram.shape[0]
        memory.check_room(
            16.0 * n * len(index),  # twice: they are gathered and then scaled
            f"{len(index)} columns of the {self.gram!r} take, copied once,",
            "Penalise more, so that fewer points are needed, or take fewer points.",
        )
        rows, known = np.empty((len(index), n)), np.zeros(len(index), dtype=bool)
        _, old, new = np.intersect1d(
            self.index, index, assume_unique=True, return_indices=True
        )
        rows[new], known[new] = self.kept[old], True
        fresh = np.flatnonzero(~known)
        for part in row_blocks(len(fresh), n, self.gram.block_mb):
            rows[fresh[part]] = self.gram.rows(index[fresh[part]])
        self.computed += len(fresh)
        self.hits += len(new)
        self.index, self.kept = index, rows
        return rows

    def times(self, v: np.ndarray, alive: np.ndarray) -> np.ndarray:
        """(K v)[alive], a number for each point still asked."""
        if self.matrix is not None:
            return (self.matrix @ v)[alive]
        gram = self.gram
        if len(alive) == gram.shape[0]:
            return gram @ v
        chosen = take(gram.X, alive)
        return gram.kernel.matmul(chosen, gram.X, v, block_mb=gram.block_mb)

    def sizes(self, weight: np.ndarray, centered: bool) -> np.ndarray:
        """√Σᵢ weightᵢ (Kᵢⱼ - meanⱼ)² of every column, computed once for a weight."""
        last = self.measured
        if last and last[1] == centered and np.array_equal(last[0], weight):
            return last[2]
        sizes = np.empty(len(weight))
        for rows in row_blocks(len(weight), len(weight), self.gram.block_mb):
            block = np.asarray(self.gram.rows(rows), dtype=float)
            sizes[rows] = _sizes(block, weight, centered)
        self.measured = weight, centered, sizes
        return sizes


def _sizes(rows: np.ndarray, weight: np.ndarray, centered: bool) -> np.ndarray:
    if centered:
        rows = rows - (rows @ weight / weight.sum())[:, None]
    return np.sqrt(np.einsum("ij,ij,j->i", rows, rows, weight))


class _Run:
    """One solve. β, b and F = Kβ are what it has; r are the forces, g = Kr."""

    def __init__(
        self,
        options: CoordinateDescent,
        problem: L1Problem,
        watch: Watch | None,
        columns: Columns | Design,
    ):
        self.options, self.problem, self.watch = options, problem, watch
        self.columns, self.begin = columns, time.perf_counter()
        self.pulse = Pulse(closing=CLOSING)
        if isinstance(watch, TimeLimit):
            watch.pulse = self.pulse
        self.rows_before, self.hits_before = columns.computed, columns.hits
        self.n = len(problem.target)
        self.alive = np.arange(columns.width)
        self.steps = self.rounds = 0
        self.bound = -np.inf  # the best dual objective so far
        self.smallest = np.inf  # of the sizes of the columns worked on last
        # Of targets that are one constant, rounding is all there is to explain.
        size = float(problem.weight @ np.square(np.asarray(problem.target, float)))
        left, rounding = problem.of_constant(), 2.0**-40 * size
        self.target = rounding if left <= rounding else options.tol * left

    def solution(self, start: np.ndarray | None) -> Solution:
        self._begin(start)
        status, before, primal = "", np.inf, np.inf
        while not status:
            self._scan()
            gap, violation = self.gap, float(np.max(self.violations, initial=0.0))
            self.rounds += 1
            stop = self.watch is not None and self.watch(self._progress(violation))
            if gap <= self.target:
                status = "optimal"
            elif stop:
                status = "stopped"
            elif self.steps >= self.options.max_iter:
                status = "max_iter"
            elif not self.improved or gap >= before:
                status = "stalled"  # all that is left is rounding
            else:
                before = gap if self.primal >= primal else np.inf
                primal, chosen = self.primal, self._chosen()
                if len(chosen):
                    self._work_on(chosen, gap)
                else:  # no point violates anything: the gap is rounding
                    status = "optimal"
        found, status = self._certified(status)
        return Solution(
            value=self.beta,
            bias=self.b,
            primal=found.primal,
            dual=found.dual,
            violation=found.violation,
            run=Run(
                Status(status),
                self.steps,
                time.perf_counter() - self.begin,
                self.columns.computed - self.rows_before,
                self.columns.hits - self.hits_before,
            ),
            function=found.function,
            rounding=found.rounding,
        )

    def _certified(self, status: str) -> tuple[Solution, str]:
        """The numbers of the end, from the coefficients and all points; the status.

        F has grown step by step, and points were left out: one product more, and that
        of the coefficients that are not 0.
        """
        support, F = np.flatnonzero(self.beta), np.zeros(self.n)
        if len(support):
            F = self.beta[support] @ self.columns.at(support)
        found = self.problem.reading(self.beta, F, self.b)
        if status == "optimal" and found.gap > self.target:
            # The best bound so far is one, though of other forces than the last.
            found = replace(found, dual=max(found.dual, self.bound - found.rounding))
            status = status if found.gap <= self.target else "stalled"
        return found, status

    def _begin(self, start: np.ndarray | None) -> None:
        self.beta, self.F = np.zeros(self.columns.width), np.zeros(self.n)
        self.improved = True
        if start is not None:
            self.beta[:] = start
            support = np.flatnonzero(self.beta)
            if len(support):
                self.F = self.beta[support] @ self.columns.at(support)
        self.b = self.problem.constant(self.F)
        self.primal = self.problem.primal(self.beta, self.F + self.b)

    def _scan(self) -> None:
        """All of the gradient: violations, the gap, and the points to screen out."""
        problem, alive = self.problem, self.alive
        forces = problem.forces(self.F + self.b)
        begin = time.perf_counter()
        gradient = self.columns.times(forces, alive)
        self.pulse.took(begin)
        largest = float(np.max(np.abs(gradient), initial=0.0))
        if not np.isfinite(largest):
            raise ValueError(
                f"The kernel {problem.gram.kernel!r} has values that are not finite "
                "numbers on these points. Scale the points, or choose another kernel."
            )
        dual, shrink = problem.dual(forces, largest)
        self.bound = max(self.bound, dual)
        self.gap = self.primal - self.bound
        self.violations = problem.violations(self.beta[alive], gradient)
        # A product with a stored matrix costs no less for some of its rows.
        lazy = self.columns.matrix is None
        if not (lazy and self.options.screening and self.gap > self.target):
            return
        # The best slopes lie in a ball around these, as ℓ* is strongly convex.
        radius = np.sqrt(2 * problem.steepest * max(self.primal - dual, 0.0))
        if self.smallest * radius < problem.reg:  # else it is too early for any
            sizes = self.columns.sizes(problem.weight, problem.bias)[alive]
            kept = np.abs(shrink * gradient) + sizes * radius >= problem.reg
            kept |= self.beta[alive] != 0
            self.alive = alive[kept]
            self.violations = self.violations[kept]

    def _chosen(self) -> np.ndarray:
        """The working set: all that are not 0, and as many again that violate most."""
        support = self.beta[self.alive] != 0
        already = int(support.sum())
        size = already + max(FIRST, self.n // SHARE, already)
        rank = np.where(support, np.inf, self.violations)
        wanted = np.flatnonzero(rank > 0)
        if len(wanted) > size:
            # By index among equals, so that the choice is the same everywhere.
            wanted = wanted[np.argsort(-rank[wanted], kind="stable")[:size]]
        return self.alive[np.sort(wanted)]

    def _work_on(self, index: np.ndarray, gap: float) -> None:
        """Newton steps on these points until their own gap is a fraction of the gap."""
        problem, R = self.problem, self.columns.at(index)
        self.smallest = _sizes(R[:FIRST], problem.weight, problem.bias).min()
        goal = max(0.3 * self.target, 0.03 * gap)
        quadratic = isinstance(problem.loss, Squared)  # H is the same everywhere
        self.improved = False
        beta, H, last = self.beta[index], None, np.inf
        while self.steps < self.options.max_iter:
            values = self.F + self.b
            forces = problem.forces(values)
            dual, _ = problem.dual(forces, float(np.max(np.abs(R @ forces))))
            own = self.primal - dual
            if own <= goal or own >= last:
                break
            model = _Model(problem, R, values, H if quadratic else None)
            H = model.H
            # A violation v costs about v ‖β‖₁, and ‖β‖₁ ≤ primal / reg.
            tol = max(0.1 * goal, 0.01 * own) * problem.reg / self.primal
            new = _minimised(H, model.g, beta, problem.reg, tol)
            self.steps += 1
            before = self.primal
            if not self._step(index, beta, new, model, R):
                break
            # Where the objective cannot fall by more than rounding, the gap still can.
            last = own if self.primal >= before else np.inf
            beta = self.beta[index]
            self.improved = True

    def _step(
        self,
        index: np.ndarray,
        beta: np.ndarray,
        new: np.ndarray,
        model: _Model,
        R: np.ndarray,
    ) -> bool:
        """Go towards the minimiser of the model as far as the objective falls."""
        problem = self.problem
        move = new - beta
        dF, db = move @ R, model.constant(move)
        coef = self.beta.copy()
        for k in range(HALVINGS):
            t = 0.5**k
            coef[index] = new if k == 0 else beta + t * move
            F, b = self.F + t * dF, self.b + t * db
            primal = problem.primal(coef, F + b)
            if primal < self.primal + (ROUNDING * self.primal if k == 0 else 0.0):
                self.beta, self.F, self.b, self.primal = coef, F, b, primal
                return True
        return False

    def _progress(self, violation: float) -> Progress:
        return Progress(
            self.rounds,
            self.steps,
            self.columns.computed - self.rows_before,
            time.perf_counter() - self.begin,
            support=int(np.count_nonzero(self.beta)),
            violation=violation,
            objective=self.primal,
            gap=self.gap,
        )


class _Model:
    """½ mᵀHm + gᵀm, the loss around f to second order, at its best bias.

    m is the move of the coefficients of the working set, R its rows of K.
    """

    def __init__(
        self,
        problem: L1Problem,
        R: np.ndarray,
        values: np.ndarray,
        H: np.ndarray | None = None,
    ):
        slope = problem.weight * problem.loss.slope(problem.target, values)
        curve = problem.weight * problem.loss.curvature(problem.target, values)
        # Where the loss is all but straight a little curvature keeps the step finite.
        curve = np.maximum(curve, 1e-10 * problem.steepest * problem.weight)
        self.bias, self.total = problem.bias, curve.sum()
        self.slope, self.column = slope.sum(), R @ curve
        self.g = R @ slope
        if self.bias:
            self.g -= self.column * (self.slope / self.total)
        self.H = self._curvature(R, curve) if H is None else H

    def _curvature(self, R: np.ndarray, curve: np.ndarray) -> np.ndarray:
        root = np.sqrt(curve)
        scaled = R * root
        if self.bias:
            # Centred before they are multiplied: nothing cancels in H.
            scaled -= np.outer(self.column / self.total, root)
        H = scaled @ scaled.T
        whole = (R * R) @ curve if self.bias else H.diagonal()
        flat = H.diagonal() <= FLAT * whole
        H[flat], H[:, flat] = 0.0, 0.0
        return H

    def constant(self, move: np.ndarray) -> float:
        """How the bias moves with the coefficients."""
        if not self.bias:
            return 0.0
        return -float(self.slope + self.column @ move) / self.total


def _minimised(
    H: np.ndarray, g: np.ndarray, beta: np.ndarray, reg: float, tol: float
) -> np.ndarray:
    """argmin over c of ½ mᵀHm + gᵀm + reg ‖c‖₁, m = c - beta, to violation ≤ tol.

    Sweeps of coordinate descent find most of those that are 0 and the signs of the
    others; with these held the minimum is a linear system, and the last few change.
    """
    coef, gradient = beta.copy(), np.array(g)
    for _ in range(ATTEMPTS):
        if _core.l1_sweeps(H, gradient, coef, reg, tol, SWEEPS) <= tol:
            break
        if _core.l1_faces(H, gradient, coef, reg, tol, 4 * len(g) + 100) <= tol:
            break
        # What many small changes left in the gradient is rounding; begin again.
        gradient = g + H @ (coef - beta)
    return coef
