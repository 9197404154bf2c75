"""Several kernels at once: the problems of a machine on Σₘ dₘ Kₘ, and what d means.

`held_grams` holds the Kₘ in memory, `BoxFamily` and `LinearFamily` are what
`WeightSearch` looks for weights in, and a `Mixture` is what it found: the weights, the
Gram of the weighted sum, and the certificate of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy.linalg.blas import daxpy, dsymv, saxpy
from scipy.linalg.lapack import dpotrf, dpotrs

from mercer._html import table
from mercer.data.points import Points, count, double
from mercer.gram import Gram
from mercer.kernels.algebra import On
from mercer.kernels.base import Kernel
from mercer.kernels.multiple import MultipleKernel
from mercer.kernels.ways import Precomputed
from mercer.native import memory
from mercer.native.clock import seconds_left
from mercer.native.interruptible import interruptible
from mercer.native.sorting import distinct
from mercer.native.threads import blas_for, one_blas_thread
from mercer.outcomes import Certificate, Solution, Status, together
from mercer.solvers.box_certificate import certificate
from mercer.solvers.boxqp import ENTRY_ERROR, BoxQP
from mercer.solvers.class_pairs import PairProblems, PairSolutions
from mercer.solvers.matrix_sum import MatrixSum
from mercer.solvers.roads import Road
from mercer.solvers.rounding import UNIT
from mercer.solvers.weights import (
    Evaluation,
    Found,
    WeightSearch,
    dual_norm,
    excess,
    is_interrupted,
)

FINEST = 1e-12  # the tolerance below which a solver is not asked to go
NOTHING = 1e-6  # of the largest square of a distance, which is as good as 0
STEPS = 100_000  # and some for each variable, to a tolerance that nobody asked for
TAKING = 8  # a number taken out of a matrix costs as much as so many of a product
PIECE = 2**17  # numbers of a sum of matrices that are added up while they are cached
ONE_TRIANGLE = 2  # a product with a symmetric matrix takes so many times less
SPARE = 3  # matrices that a search needs beside the Kₘ
_ROUGH = (Status.IMPRECISE, Status.STALLED)
Solved = PairSolutions | Sequence[tuple[BoxQP, Solution]]


def to_be_weighed(kernel: Kernel) -> MultipleKernel | None:
    """Several kernels whose weights are to be learnt; None for any other kernel."""
    if type(kernel) is not MultipleKernel or kernel.weights is not None:
        return None
    return kernel


def held_grams(kernel: MultipleKernel, gram: Gram) -> list[Gram]:
    """The Grams of the kernels with their matrices in memory.

    In float64 where that leaves half of the memory, else in float32; refused where
    there is no room for these either.
    """
    n, m = gram.shape[0], len(kernel.kernels)
    parts, X = kernel.kernels, gram.X
    places = isinstance(X, np.ndarray) and np.array_equal(X, np.arange(n))
    size = float(m + SPARE) * n**2
    if 8 * size <= memory.available_memory() / 2:
        return [_holding(part, X, places, float) for part in parts]
    memory.check_room(
        4 * size,
        f"MultipleKernel holds the {m} matrices of its kernels on {n} points, which "
        "takes",
        "Take fewer kernels or points; or find the weights on some of the points: "
        "MultipleKernel(kernels, weights=mercer.theory.align(kernels, X_some, y_some)) "
        "is learnt from all of them with no matrix in memory.",
    )
    return [_holding(part, X, places, np.float32) for part in parts]


def _holding(kernel: Kernel, X: Points, places: bool, dtype: Any) -> Gram:
    """A Gram with K in memory, for which there is room.

    With looks at the clock where time is limited.

    Parameters
    ----------
    places : whether X is 0, 1, ..., n - 1, of which a `Precomputed` has the matrix
    """
    K = kernel.matrix if places and isinstance(kernel, Precomputed) else None
    if not isinstance(K, np.ndarray) or len(K) != count(X):
        wide = double(X) if dtype is float else X
        limited = seconds_left() is not None
        K = Gram(kernel, wide).dense() if limited else kernel(wide)
    return Gram.of_matrix(kernel, X, K.astype(dtype, order="C", copy=False))


def weighted_road(kernel: MultipleKernel, road: Road) -> Road:
    """That of a fit which learns weights, from that on one weighted sum."""
    kept = 8.0 * len(kernel.kernels) * road.n**2
    return replace(road, name="matrix", solver=WeightSearch(kernel.norm), kept=kept)


class Piece(NamedTuple):
    """One problem solved: β, the points of its variables, and which are free.

    `group` tells variables apart whose β sum to a number each; None for no such sum.
    """

    points: np.ndarray
    beta: np.ndarray
    free: np.ndarray
    group: np.ndarray | None

    @property
    def used(self) -> tuple[np.ndarray, np.ndarray]:
        """The points with β ≠ 0, and their β."""
        chosen = self.beta != 0
        return self.points[chosen], self.beta[chosen]


def piece(problem: BoxQP, value: np.ndarray, places: np.ndarray | None = None) -> Piece:
    """That of a problem; `places` are the points of its Gram in a larger one."""
    n = len(problem)
    points = np.arange(n) if problem.index is None else np.asarray(problem.index)
    points = points if places is None else places[points]
    beta, (low, high) = problem.sign * value, problem.bounds
    free = (beta > low) & (beta < high)
    if problem.tube is not None:
        free &= (beta != 0) | (problem.tube == 0)
    group = None
    if problem.total is not None:
        group = np.zeros(n, int) if problem.group is None else np.asarray(problem.group)
    return Piece(points, beta, free, group)


def pieces(problems: Sequence[BoxQP], solved: Solved) -> Iterator[Piece]:
    """Those of all problems, their points those of the whole Gram."""
    pairs = problems if isinstance(problems, PairProblems) else None
    if not isinstance(solved, PairSolutions):
        for j, (problem, solution) in enumerate(solved):
            places = None if pairs is None else pairs.joint.index[pairs.part(j)]
            yield piece(problem, solution.value, places)
        return
    problems = solved.problems
    low, high = problems.bounds
    free = (solved.beta > low) & (solved.beta < high)
    for j in range(len(problems)):
        part, group = problems.part(j), None
        if problems.bias:
            first = problems.sizes[j][0] if problems.grouped else 0
            group = (np.arange(part.stop - part.start) < first).astype(int)
        points = problems.joint.index[part]
        yield Piece(points, solved.beta[part], free[part], group)


def squares(grams: Sequence[Gram], solved: Sequence[Piece]) -> np.ndarray:
    """Sₘ = βᵀKₘβ, summed over the problems, for each of the Grams."""
    total = np.zeros(len(grams))
    for one in solved:
        total += images(grams, one) @ one.used[1]
    return total


def images(grams: Sequence[Gram], one: Piece) -> np.ndarray:
    """Kₘβ at the points with β ≠ 0, a row for each of the Grams."""
    points, beta = one.used
    if not len(points):
        return np.zeros((len(grams), 0))
    n, taken = grams[0].shape[0], float(TAKING * len(points) ** 2)
    whole = [gram.rows(slice(None)) if gram.is_held else None for gram in grams]
    if ONE_TRIANGLE * taken > n**2 and all(_is_plain(K) for K in whole):
        coef = np.bincount(points, beta, n)
        with one_blas_thread():  # the memory is what it waits for
            return np.array([_times(K, coef)[points] for K in whole])
    if taken > n**2:
        coef = np.bincount(points, beta, n)
        return np.array([np.asarray(gram @ coef)[points] for gram in grams], float)
    return np.array([_block(gram, points) @ beta for gram in grams], float)


def _is_plain(K: np.ndarray | None) -> bool:
    """Whether BLAS reads K where it is."""
    return K is not None and K.dtype == np.float64 and K.flags.c_contiguous


def _times(K: Any, coef: np.ndarray) -> np.ndarray:
    """K coef of a symmetric matrix, from its upper triangle."""
    work = float(len(K)) ** 2
    return interruptible(dsymv, 1.0, K.T, coef, lower=1, work=work)


def _block(gram: Gram, points: np.ndarray) -> np.ndarray:
    """K of some of the points."""
    if not gram.is_held:
        return gram.take(points).dense()
    return gram.rows(slice(None)).take(points, axis=0).take(points, axis=1)


def squares_rounding(sizes: np.ndarray, solved: Sequence[Piece]) -> float:
    """How far all Sₘ together, and sums with weights, can be off in double.

    Parameters
    ----------
    sizes : max k(x, x) of each kernel
    """
    total = 0.0
    for one in solved:
        terms, mass = int(np.count_nonzero(one.beta)), float(np.abs(one.beta).sum())
        # BLAS may add all terms of a product one after another.
        units = ENTRY_ERROR + terms + 2 * len(sizes) + 8
        total += 2 * UNIT * units * mass**2
    return float(sizes.sum()) * total


def sizes_of(grams: Sequence[Gram]) -> np.ndarray:
    """max |k(x, x)| of each kernel."""
    return np.array([np.max(np.abs(gram.diag()), initial=0.0) for gram in grams], float)


def _weighted(grams: Sequence[Gram], weights: np.ndarray) -> Gram:
    """Σₘ dₘ Kₘ as a matrix whose points are places in it."""
    parts = [gram.rows(slice(None)) for gram in grams]
    total = np.zeros(parts[0].shape, parts[0].dtype)
    add = saxpy if total.dtype == np.float32 else daxpy
    flat = [part.reshape(-1) for part in parts]
    with one_blas_thread():  # thousands of short calls
        for begin in range(0, total.size, PIECE):
            piece = slice(begin, begin + PIECE)
            for part, weight in zip(flat, weights, strict=True):
                if weight:
                    add(part[piece], total.reshape(-1)[piece], a=weight)
    places = np.arange(len(total))
    return Gram(Precomputed(total, _verdict(grams)), places).holding(total)


class Slopes(NamedTuple):
    """Sₘ = βᵀKₘβ, how far they can be off together, and what gives the curvature."""

    squares: np.ndarray
    rounding: float
    curvature: Callable[[], np.ndarray]


class OnGrams:
    """The problems of a machine on Σₘ dₘ Kₘ, that sum as a matrix."""

    def __init__(
        self,
        weights: np.ndarray,
        grams: Sequence[Gram],
        state: Callable[[Gram], Sequence[BoxQP]],
        watching: Any,
    ):
        self.grams, self.watching = grams, watching
        self.gram = _weighted(grams, weights)
        problems = state(self.gram)
        if len(problems) == 1 and not isinstance(problems, PairProblems):
            problems = [problems[0]]  # made once
        self.problems = problems

    def diag(self) -> np.ndarray:
        """k(x, x) of the sum."""
        return self.gram.diag()

    def solve(self, solver: Any, near: Any) -> Solved:
        """The solutions, from others near them."""
        start = None
        # All pairs of classes in one call are quicker than each from a start.
        if near is not None and len(self.problems) == 1:
            start = partial(_coefficients, near)
        found = solver.solve_many(self.problems, near=start, watching=self.watching)
        return found if isinstance(found, PairSolutions) else list(found)

    def slopes(self, solved: Solved) -> Slopes:
        """How the optimum changes with d."""
        parts = list(pieces(self.problems, solved))
        found = [images(self.grams, one) for one in parts]
        own = [G @ one.used[1] for G, one in zip(found, parts, strict=True)]
        off = squares_rounding(sizes_of(self.grams), parts)
        return Slopes(np.sum(own, axis=0), off, partial(self._curvature, parts, found))

    def _curvature(
        self, parts: Sequence[Piece], found: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Σ GᵀPG, G = (K₁β, ..., K_Mβ) and P = K⁻¹ on the free variables.

        P keeps the sums that are fixed.
        """
        total = np.zeros((len(self.grams),) * 2)
        for one, rows in zip(parts, found, strict=True):
            used = one.beta != 0
            free = one.free[used]
            if not free.any():
                continue
            K = np.asarray(_block(self.gram, one.points[used][free]), dtype=float)
            group = None if one.group is None else one.group[used][free]
            total += _projected(K, rows[:, free].T, group)
        return (total + total.T) / 2


class OnSum:
    """One problem of a machine on Σₘ dₘ Kₘ, by the rows of the sum that it reads.

    Parameters
    ----------
    sum : of the Kₘ; it is that of the last weights it was given
    problem : whose Gram has no values
    """

    gram = None  # there is no matrix

    def __init__(self, weights: np.ndarray, sum: MatrixSum, problem: BoxQP):
        self.weights, self.sum, self.problems = weights, sum, [problem]

    def diag(self) -> np.ndarray:
        """k(x, x) of the sum."""
        return self.weights @ self.sum.diagonals

    def solve(self, solver: Any, near: Any) -> Solved:
        """The solution, from another one near it."""
        [problem], free = self.problems, 0
        if near is None:
            start = problem.start()
        else:  # the bounds and the sum do not hang on the weights
            [(_, before)] = near
            start = before.value
            free = int(np.sum((start > problem.lower) & (start < problem.upper)))
        self.sum.weigh(self.weights, free)
        return [(problem, solver.solve_on(self.sum.source, problem, start))]

    def slopes(self, solved: Any) -> Slopes:
        """How the optimum changes with d."""
        [(problem, solution)] = solved
        beta = problem.sign * solution.value
        G, off = self.sum.images(beta), self.sum.squares_rounding(beta)
        return Slopes(G @ beta, off, partial(self._curvature, beta, G))

    def _curvature(self, beta: np.ndarray, images: np.ndarray) -> np.ndarray:
        """GᵀPG as of `OnGrams`."""
        [problem] = self.problems
        low, high = problem.bounds
        free = np.flatnonzero((beta > low) & (beta < high) & (beta != 0))
        if not len(free):
            return np.zeros((len(images),) * 2)
        self.sum.weigh(self.weights)
        H = _projected(
            self.sum.block(free), images[:, free].T, np.zeros(len(free), int)
        )
        return (H + H.T) / 2


class BoxFamily:
    """The problems of a support vector machine on Σₘ dₘ Kₘ.

    Parameters
    ----------
    grams : the Kₘ, in memory
    state : gives the problems on a Gram, of which they use its values alone
    solver : gives what solves them to a tolerance, an `AutoSMO`
    tol : where to begin; it is lowered where the gap of a machine is too large
    watching : as of `AutoSMO.solve_many`
    """

    def __init__(
        self,
        grams: Sequence[Gram],
        state: Callable[[Gram], Sequence[BoxQP]],
        solver: Callable[[float], Any],
        tol: float,
        watching: Any = None,
    ):
        self.grams, self.state, self.solver = grams, state, solver
        self.asked = self.tol = tol
        self.finest = FINEST
        self.gap_per_tol = 0.0  # the relative gap of a machine, in tolerances
        self.watching = watching
        self._on_sum = self._prepared()

    def _prepared(self) -> Callable[[np.ndarray], OnSum] | None:
        """What makes one problem on a sum of matrices; None where there are others."""
        if self.watching is not None or not all(gram.is_held for gram in self.grams):
            return None
        matrices = [gram.rows(slice(None)) for gram in self.grams]
        if not MatrixSum.suits(matrices):
            return None
        places = Gram(
            Precomputed(psd=_verdict(self.grams)), np.arange(len(matrices[0]))
        )
        problems = self.state(places)
        if len(problems) > 1 or isinstance(problems, PairProblems):
            return None
        problem = problems[0]
        if not self.solver(self.tol).takes_rows(problem):
            return None
        return partial(OnSum, sum=MatrixSum(matrices), problem=problem)

    def evaluate(
        self, weights: np.ndarray, near: Evaluation | None, tol: float
    ) -> Evaluation:
        if self._on_sum is not None:
            found = self._evaluated(self._on_sum(weights), weights, near, tol)
            if found.status not in _ROUGH:
                return found
            self._on_sum = None  # what rounding hides is for the whole matrix to show
        stated = OnGrams(weights, self.grams, self.state, self.watching)
        return self._evaluated(stated, weights, near, tol)

    def _evaluated(
        self,
        stated: OnGrams | OnSum,
        weights: np.ndarray,
        near: Evaluation | None,
        tol: float,
    ) -> Evaluation:
        """The machine on these weights, its problems stated."""
        least = _nothing(stated)
        last, start = self.tol, None if near is None else near.answer
        if 2 * self.gap_per_tol * last > tol:  # as the last trial has shown
            self._lower(tol / (2 * self.gap_per_tol * last))
        solved = self._solved(stated, start)
        whole = _together(solved)
        if self.tol < last and whole.status == Status.MAX_ITER:
            self.tol = self.finest = last
            solved = self._solved(stated, start)
            whole = _together(solved)
        rounding = whole.objective_rounding
        while not is_interrupted(whole.status):
            size = max(abs(whole.primal), abs(whole.dual), least)
            gap, enough = whole.primal - whole.dual - rounding, tol * size
            if not np.isfinite(gap):
                break
            self.gap_per_tol = max(gap, 0.0) / size / self.tol if size else 0.0
            if not gap > enough:
                break
            if self.tol <= self.finest:
                rounding = whole.primal - whole.dual
                break
            last = self.tol
            self._lower(enough / gap / 2)
            finer = self._solved(stated, solved)
            if _together(finer).status == Status.MAX_ITER:
                self.tol = self.finest = last
            else:
                solved, whole = finer, _together(finer)
                rounding = whole.objective_rounding
        return self._evaluation(weights, stated, solved, whole, rounding, least)

    def _lower(self, factor: float) -> None:
        """Ask for this share of the tolerance, a hundredth at least."""
        self.tol = max(self.finest, self.tol * max(0.01, factor))

    def _solved(self, stated: OnGrams | OnSum, near: Any) -> Solved:
        """The problems solved to the tolerance at hand, from a solution near theirs."""
        solver = self.solver(self.tol)
        if self.tol < self.asked and solver.max_iter < 0:
            solver = replace(solver, max_iter=STEPS + 200 * len(stated.problems[0]))
        return self._settled(stated.solve(solver, near))

    def _evaluation(
        self,
        weights: np.ndarray,
        stated: OnGrams | OnSum,
        solved: Solved,
        whole: Certificate | Solution,
        rounding: float,
        least: float,
    ) -> Evaluation:
        squares, off, curvature = stated.slopes(solved)
        return Evaluation(
            weights,
            whole.primal,
            whole.dual,
            squares,
            curvature,
            whole.status,
            solved,
            rounding,
            least,
            off,
            stated.gram,
        )

    def _settled(self, solved: Solved) -> Solved:
        """The same, optimal where it is to the tolerance that was asked for.

        A finer one may be beyond rounding; it is then not asked for again.
        """
        if isinstance(solved, PairSolutions):
            about = solved.certificates.columns
            rough = np.isin(about["status"], _ROUGH)
            near = about["violation"] + about["rounding"] <= self.asked
            about["status"][rough & near] = Status.OPTIMAL
            if rough.any():
                self.finest = max(self.finest, self.tol)
            return solved
        settled = []
        for problem, solution in solved:
            if solution.status in _ROUGH:
                self.finest = max(self.finest, self.tol)
                if solution.violation + solution.rounding <= self.asked:
                    solution = solution.ended(Status.OPTIMAL)
            settled.append((problem, solution))
        return settled


def _together(solved: Solved) -> Certificate | Solution:
    """One certificate for all problems; of a single one, what its solver reports."""
    if isinstance(solved, PairSolutions):
        return together(solved.certificates)
    if len(solved) == 1:
        return solved[0][1]
    return together([certificate(*one) for one in solved])


def _verdict(grams: Sequence[Gram]) -> bool | None:
    """Whether sums of them are known to be positive semidefinite."""
    return True if all(gram.kernel.psd for gram in grams) else None


def _nothing(stated: OnGrams | OnSum) -> float:
    """What is as good as 0 of a distance of hulls: a share of that from the origin."""
    problems = stated.problems
    # One of many pairs would copy its part of K.
    pairs = problems if isinstance(problems, PairProblems) else None
    first = problems[0] if pairs is None else pairs.joint
    if first.linear.any():
        return 0.0
    fixed = 0.0 if first.total is None else first.total
    totals = np.atleast_2d(fixed) if pairs is None else pairs.totals
    mass = float(np.max(np.sum(np.abs(totals), axis=1)))
    return NOTHING * mass**2 * float(np.max(np.abs(stated.diag()), initial=0.0))


def _coefficients(solved: Sequence[tuple[BoxQP, Solution]], j: int) -> np.ndarray:
    problem, solution = solved[j]
    return problem.coef(solution.value)


def _projected(K: np.ndarray, G: np.ndarray, group: np.ndarray | None) -> np.ndarray:
    """GᵀPG with P = K⁻¹ - K⁻¹E(EᵀK⁻¹E)⁻¹EᵀK⁻¹, a column of E for each group.

    K is a copy of its own, and written over.
    """
    diagonal = K.reshape(-1)[:: len(K) + 1]
    diagonal += 1e-10 * max(float(diagonal.mean()), 1e-300)
    m, E = G.shape[1], None if group is None else _members(group)
    both = np.empty((len(K), m + (0 if E is None else E.shape[1])), order="F")
    both[:, :m] = G
    with blas_for(len(K)):
        # By columns, as LAPACK has it.
        factor, failed = dpotrf(K.T, lower=1, clean=0, overwrite_a=1)
        if failed:  # rounding: no curvature is claimed
            return np.zeros((m, m))
        if E is not None:
            both[:, m:] = E
        H = both.T @ dpotrs(factor, both, lower=1)[0]
    cross = H[m:, :m]
    if len(cross) == 1:
        return H[:m, :m] - cross.T * (cross / H[m, m])
    return H[:m, :m] - cross.T @ np.linalg.solve(H[m:, m:], cross)


def _members(group: np.ndarray) -> np.ndarray:
    """A column for each group, 1 at its members and 0 elsewhere."""
    if not group.any():
        return np.ones((len(group), 1))
    return (group[:, None] == distinct(group)).astype(float)


class LinearFamily:
    """(Σₘ dₘ Kₘ + diag(reg/weight)) c = y, for each column of y with its reg.

    Parameters
    ----------
    grams : the Kₘ, in memory
    target : (n, q) array
    reg : (q,) array of numbers > 0
    weight : (n,) array of numbers > 0
    """

    def __init__(
        self,
        grams: Sequence[Gram],
        target: np.ndarray,
        reg: np.ndarray,
        weight: np.ndarray,
    ):
        self.grams, self.target, self.reg, self.weight = grams, target, reg, weight

    def evaluate(
        self, weights: np.ndarray, near: Evaluation | None, tol: float
    ) -> Evaluation:
        gram = _weighted(self.grams, weights)
        K = np.asarray(gram.rows(slice(None)), dtype=float)
        coef, factors = np.empty(self.target.shape), {}
        with blas_for(len(K)):
            for reg in distinct(self.reg):
                A = K + np.diag(reg / self.weight)
                factors[reg] = scipy.linalg.cho_factor(A, check_finite=False)
                own = self.reg == reg
                coef[:, own] = scipy.linalg.cho_solve(factors[reg], self.target[:, own])
            images = np.stack([gram @ coef for gram in self.grams])
        value = float(self.reg @ np.sum(coef * self.target, axis=0)) / 2
        found = np.einsum("mij,ij,j->m", images, coef, self.reg)
        curvature = partial(self._curvature, factors, images)
        return Evaluation(
            weights, value, value, found, curvature, answer=coef, gram=gram
        )

    def _curvature(self, factors: dict[float, Any], images: np.ndarray) -> np.ndarray:
        total = np.zeros((len(images),) * 2)
        with blas_for(images.shape[1]):
            for j, reg in enumerate(self.reg):
                G = np.ascontiguousarray(images[:, :, j].T)
                total += reg * (G.T @ scipy.linalg.cho_solve(factors[reg], G))
        return (total + total.T) / 2


@dataclass(frozen=True, eq=False)
class KernelShares:
    """How much each of several kernels matters in a machine that weighs them.

    Attributes
    ----------
    kernels : with all they learnt
    weight : d, which Σₘ dₘ kₘ has
    of_trace : dₘ tr Kₘ, a share of the whole: the weight of a kernel whatever its size
    of_norm : ‖fₘ‖²/dₘ, a share of ‖f‖²: how much of f is the part of this kernel

    Examples
    --------
    >>> from mercer import RBF, SVC, Linear, MultipleKernel
    >>> X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0]
    >>> machine = SVC(C=10, kernel=MultipleKernel([Linear(), RBF(1.0)], norm=1))
    >>> machine.fit(X, y).kernel_shares_
    kernel          weight  of trace  of norm
    RBF(gamma=1.0)       1     1.000    1.000
    Linear()             0     0.000    0.000
    """

    kernels: Sequence[Kernel]
    weight: np.ndarray
    of_trace: np.ndarray
    of_norm: np.ndarray

    @cached_property
    def order(self) -> np.ndarray:
        """The kernels from the largest share of f to the least."""
        return np.lexsort((np.arange(len(self.weight)), -self.weight, -self.of_norm))

    def names(self) -> list[str]:
        """What to call the kernels: those on a part of a record by that part."""
        named = (
            (f"{k.field}: {k.kernel}" if isinstance(k, On) else f"{k}")
            for k in self.kernels
        )
        return list(named)

    def rows(self) -> list[tuple[str, ...]]:
        """A heading, then a row for each kernel, that with most of f first."""
        head = ("kernel", "weight", "of trace", "of norm")
        return [head, *(self._row(i) for i in self.order)]

    def _row(self, i: int) -> tuple[str, ...]:
        shares = (f"{share[i]:.3f}" for share in (self.of_trace, self.of_norm))
        return (self.names()[i], f"{self.weight[i]:.4g}", *shares)

    def __repr__(self) -> str:
        rows = self.rows()
        wide = [max(len(row[c]) for row in rows) for c in range(4)]
        return "\n".join(
            "  ".join(
                [row[0].ljust(wide[0])] + [row[c].rjust(wide[c]) for c in (1, 2, 3)]
            )
            for row in rows
        )

    def _repr_html_(self) -> str:
        return table(self.rows())


@dataclass(frozen=True, eq=False)
class Mixture:
    """What a search for weights found.

    Attributes
    ----------
    kernel : the several kernels, with all they learnt
    grams : of each of them, in memory
    found : the weights, and how they were found
    bounded : whether the dual of the search is a bound, rounding included
    squares, rounding : Sₘ of the machine on these weights, where it is known, and how
        far they can be off together
    """

    kernel: MultipleKernel
    grams: Sequence[Gram]
    found: Found
    bounded: bool = True
    squares: np.ndarray | None = None
    rounding: float = 0.0

    @property
    def weights(self) -> np.ndarray:
        return self.found.best.weights

    @cached_property
    def single(self) -> bool:
        """Whether kernel values were in single precision."""
        return any(gram.rows(slice(0, 1)).dtype == np.float32 for gram in self.grams)

    @cached_property
    def gram(self) -> Gram:
        """That of the weighted sum; its matrix in memory, unless it is too rough."""
        gram = Gram(self.kernel.total(self.weights), self.grams[0].X)
        if self.single:
            return gram
        weighted = self.found.best.gram
        if weighted is None:
            return gram
        if weighted.shape != gram.shape:  # some points have the weight 0
            weighted = _weighted(self.grams, self.weights)
        return gram.holding(weighted.rows(slice(None)))

    @property
    def solved(self) -> Any:
        """The machine on these weights; None where it is too rough."""
        return None if self.single else self.found.best.answer

    def of(self, solved: Sequence[Piece] | None) -> Mixture:
        """The same, with what is to be known of the machine on these weights.

        Parameters
        ----------
        solved : where it was solved for once more; None for the Sₘ of the search
        """
        grams, best = self.grams, self.found.best
        if self.single:
            grams = [Gram(gram.kernel, gram.X).double() for gram in grams]
        if solved is None:
            return replace(self, squares=best.squares, rounding=best.squares_rounding)
        found, off = squares(grams, solved), squares_rounding(sizes_of(grams), solved)
        return replace(self, squares=found, rounding=off)

    def shares(self) -> KernelShares:
        """How much each kernel matters."""
        assert self.squares is not None
        d, S = self.weights, np.maximum(self.squares, 0)
        traces = np.array([float(gram.diag().sum()) for gram in self.grams])
        return KernelShares(
            list(self.kernel.kernels), d, _shares(d * traces), _shares(d * S)
        )

    def certificate(self, machine: Certificate) -> Certificate:
        """That of weights and machine together, from that of the machine alone."""
        assert self.squares is not None
        found = over_weights(
            machine, self.weights, self.squares, self.kernel.norm, self.rounding
        )
        if self.bounded and not self.single:  # another β may have given a better one
            found = replace(found, dual=max(found.dual, self.found.dual))
        ended, run = self.found.status, found.run
        worse = ended if ended.gravity > run.status.gravity else run.status
        return replace(
            found, run=replace(run, status=worse, seconds=self.found.seconds)
        )


def over_weights(
    machine: Certificate,
    weights: np.ndarray,
    squares: np.ndarray,
    norm: float,
    rounding: float,
) -> Certificate:
    """dual ≤ optimum ≤ primal over all weights, from a certificate at these weights."""
    size = dual_norm(squares, norm)
    error = rounding + (len(weights) + 8) * UNIT * size
    return replace(
        machine,
        primal=machine.primal + error,
        dual=machine.dual - max(0.0, excess(weights, squares, norm)) - error,
        objective_rounding=machine.objective_rounding + 2 * error,
    )


def _shares(parts: np.ndarray) -> np.ndarray:
    total = float(parts.sum())
    return parts / total if total > 0 else np.zeros(len(parts))
