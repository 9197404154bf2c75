"""Φ with K = ΦΦᵀ, where a kernel has a finite explicit map: products in linear time.

features_of(gram)    Φ of a Gram, made once and kept with it
FeatureRows          Φ by its rows, less a common offset
solution_on(...)     the solution of a `BoxQP` whose β was found on features
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import _core
from mercer.gram import Gram
from mercer.maps import explicit
from mercer.native.interruptible import interruptible, multiply
from mercer.outcomes import Run, Solution, Status
from mercer.solvers.boxqp import BoxQP, covering
from mercer.solvers.rounding import LAST, UNIT

DescentState = _core.DescentState  # what passes over rows keep from call to call
BLOCK = 2**18  # numbers of a block of rows, which stays in the caches
RUN = 1024  # rows whose terms are added one after another; then the sums of these
FAR = 1e3  # a mean so many standard deviations from 0 takes digits away


class FeatureRows:
    """Φ - 1cᵀ, (n, p), by its rows: products in float64, and how far they can be off.

    Parameters
    ----------
    matrix : Φ, float64 array or CSR
    center : c, which is subtracted where it is read; None for 0
    """

    def __init__(self, matrix: Any, center: np.ndarray | None = None):
        self.sparse = sp.issparse(matrix)
        if self.sparse and max(matrix.nnz, *matrix.shape) < 2**31:
            # Half the memory to read in every product.
            parts = (
                matrix.data,
                matrix.indices.astype(np.int32, copy=False),
                matrix.indptr.astype(np.int32, copy=False),
            )
            matrix = sp.csr_array(parts, shape=matrix.shape)
        self.matrix, self.center = matrix, center
        self._packed: _core.SparseRows | None = None
        self._across: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def entries(self) -> int:
        """How many numbers a product reads."""
        return int(self.matrix.nnz) if self.sparse else int(self.matrix.size)

    @property
    def packed(self) -> _core.SparseRows:
        """The rows of CSR in as few bytes as they can be, made once."""
        if self._packed is None:
            matrix = self.matrix
            self._packed = _core.SparseRows(
                matrix.indptr, matrix.indices, matrix.data, matrix.shape[1]
            )
        return self._packed

    @property
    def across(self) -> Any:
        """Φᵀ; that of CSR is kept, as its products with matrices take half the time."""
        if not self.sparse:
            return self.matrix.T
        if self._across is None:
            self._across = sp.csr_array(self.matrix.T)
        return self._across

    def centered(self) -> FeatureRows:
        """The same less the mean of its rows, where that is far from 0.

        Of sparse rows nothing is subtracted: they would not be sparse any more.
        """
        if self.sparse or not len(self.matrix):
            return self
        mean, square = np.zeros((2, self.shape[1]))
        first = self.matrix[0].copy()
        for rows in self._blocks():
            part = self.matrix[rows] - first
            mean += part.sum(axis=0)
            square += np.einsum("ij,ij->j", part, part)
        n = len(self.matrix)
        spread = np.sqrt(np.maximum(square / n - (mean / n) ** 2, 0.0))
        mean = first + mean / n
        far = np.abs(mean) > FAR * spread
        # A column that is constant is 0 then, and no part of the problem.
        return FeatureRows(self.matrix, np.where(far, mean, 0.0)) if far.any() else self

    def compressed(self) -> FeatureRows:
        """The same with a sparse matrix."""
        if self.sparse:
            return self
        return FeatureRows(sp.csr_array(self.matrix))

    def times(self, w: np.ndarray) -> np.ndarray:
        """(Φ - 1cᵀ) w."""
        if self.sparse:
            return self._times(w)
        if self.center is None:
            return np.asarray(multiply(self.matrix, w))
        out = np.empty(len(self.matrix))
        for rows in self._blocks():
            out[rows] = (self.matrix[rows] - self.center) @ w
        return out

    def pull(self, v: np.ndarray) -> np.ndarray:
        """(Φ - 1cᵀ)ᵀ v."""
        if self.sparse:
            return self._pull(v)
        n, p = self.shape
        if self.center is None and self.matrix.flags.c_contiguous:
            whole = n - n % RUN
            runs = (n // RUN, RUN)
            part = self.matrix[:whole].reshape(*runs, p)
            sums = interruptible(
                np.matmul, v[:whole].reshape(runs[0], 1, RUN), part, work=float(n) * p
            )
            return sums[:, 0].sum(axis=0) + v[whole:] @ self.matrix[whole:]
        total = np.zeros(p)
        for begin in range(0, n, RUN):
            rows = slice(begin, begin + RUN)
            part = self.matrix[rows]
            total += v[rows] @ (part if self.center is None else part - self.center)
        return total

    def _times(
        self, w: np.ndarray, index: np.ndarray | None = None, magnitudes: bool = False
    ) -> np.ndarray:
        """Φ w, or |Φ| w, of the rows of an index, Φ being sparse."""
        if index is None:
            index = np.arange(self.shape[0], dtype=np.int32)
        out = np.empty(len(index))
        self.packed.times(index, np.ascontiguousarray(w), out, magnitudes)
        return out

    def _pull(
        self, v: np.ndarray, index: np.ndarray | None = None, magnitudes: bool = False
    ) -> np.ndarray:
        """Φᵀ v, or |Φ|ᵀ v, of the rows of an index, Φ being sparse."""
        if index is None:
            index = np.arange(self.shape[0], dtype=np.int32)
        out = np.zeros(self.shape[1])
        self.packed.pull(index, np.ascontiguousarray(v), out, magnitudes)
        return out

    def take(self, index: np.ndarray) -> FeatureRows:
        """Some of the rows, copied."""
        some = self.matrix[index]
        return FeatureRows(some if self.center is None else some - self.center)

    def squares(self, weight: np.ndarray) -> np.ndarray:
        """Σᵢ weightᵢ Φᵢⱼ² of every column."""
        if self.sparse:
            return np.asarray(self.matrix.power(2).T @ weight)
        return np.einsum("ij,ij,i->j", self.matrix, self.matrix, weight)

    def lengths(self) -> np.ndarray:
        """‖φᵢ - c‖² of every row."""
        out = np.empty(self.shape[0])
        if self.sparse:
            self.packed.squares(out)
            return out
        for rows, part in self._magnitudes():
            out[rows] = np.einsum("ij,ij->i", part, part)
        return out

    def weighted(
        self, index: np.ndarray, weight: np.ndarray, border: np.ndarray
    ) -> np.ndarray:
        """UᵀDU of the rows U = [Φ, border] of this index, a block of them at a time."""
        p = self.shape[1]
        out = np.zeros((p + border.shape[1],) * 2)
        if self.sparse:
            place, square = index.astype(np.int32), np.zeros((p, p))
            self.packed.weighted(place, weight, square)
            out[:p, :p] = square
            for g, column in enumerate(border.T):
                out[:p, p + g] = out[p + g, :p] = self._pull(weight * column, place)
            out[p:, p:] = (border.T * weight) @ border
            return out
        step = max(64, BLOCK // max(p, 1))
        for begin in range(0, len(index), step):
            part = slice(begin, begin + step)
            U = np.hstack([self.take(index[part]).matrix, border[part]])
            U *= np.sqrt(weight[part])[:, None]
            out += U.T @ U
        return out

    def rounding(self, coef: np.ndarray, w: np.ndarray) -> float:
        """How far F = Φ(Φᵀcoef) can be off at a point, w = Φᵀcoef.

        |Φ|(|Φ|ᵀ|coef|) with what adding n and p numbers does (`rounding.py`).
        """
        size, p = np.abs(coef), self.shape[1]
        terms = int(np.count_nonzero(coef))
        of_sums = np.sqrt(terms)
        if self.sparse:
            pulled = self._pull(size, magnitudes=True)
            off = (of_sums + LAST) * pulled + (np.sqrt(p) + LAST) * np.abs(w)
            return UNIT * float(np.max(self._times(off, magnitudes=True), initial=0.0))
        of_sums = np.sqrt(min(terms, RUN)) + np.sqrt(terms / RUN)
        pulled = np.zeros(p)
        for rows, part in self._magnitudes():
            pulled += part.T @ size[rows]
        off = (of_sums + LAST) * pulled + (np.sqrt(p) + LAST) * np.abs(w)
        most = 0.0
        for _, part in self._magnitudes():
            most = max(most, float(np.max(part @ off, initial=0.0)))
        return UNIT * most

    def _magnitudes(self) -> Iterator[tuple[slice, Any]]:
        """|Φ - 1cᵀ| of a dense Φ, a block of rows at a time."""
        for rows in self._blocks():
            part = self.matrix[rows]
            if self.center is not None:
                part = part - self.center
            yield rows, abs(part)

    def _blocks(self) -> Iterator[slice]:
        n, p = self.shape
        step = max(64, BLOCK // max(p, 1))
        for begin in range(0, n, step):
            yield slice(begin, min(begin + step, n))


def features_of(gram: Gram) -> FeatureRows:
    """Φ of the points of a Gram, made when it is first asked for and kept with it."""
    if gram._features is None:
        rows = _of_origin(gram)
        if rows is None:
            rows = FeatureRows(explicit(gram.kernel, gram.X).matrix)
        gram._features = rows
    return gram._features


def _of_origin(gram: Gram) -> FeatureRows | None:
    """Rows of Φ of the Gram whose points these were taken from, where it has them."""
    if gram._origin is None:
        return None
    origin, index = gram._origin
    rows = origin._features
    # Where Φ are the points themselves, they have been taken already.
    return None if rows is None or rows.matrix is origin.X else rows.take(index)


# Problems on features


def check_bounds(solver: object, problem: BoxQP) -> None:
    """Refuse bounds that a solver on features cannot work with."""
    if not np.isfinite(problem.bounds).all():
        raise ValueError(
            f"{type(solver).__name__} needs finite bounds; this BoxQP has infinite "
            "ones. Choose a finite C, or let AutoSMO choose the solver."
        )


def totals_of(problem: BoxQP) -> np.ndarray:
    """What β sums to in each group; empty where nothing is fixed."""
    if problem.total is None:
        return np.empty(0)
    return np.atleast_1d(np.asarray(problem.total, dtype=float))


def rows_for(problem: BoxQP) -> FeatureRows:
    """Φ; where all β sum to 0, less what all φ(x) have in common: it does not count."""
    rows, totals = features_of(problem.gram), totals_of(problem)
    return rows.centered() if len(totals) and totals.sum() == 0 else rows


def solution_on(
    rows: FeatureRows, problem: BoxQP, beta: np.ndarray, run: Run, tol: float
) -> Solution:
    """The solution with these β, F = Φ(Φᵀβ) summed afresh, and its certificate.

    Parameters
    ----------
    run : with the status "optimal" where the solver came to its end; what is stated
        follows from the violation
    """
    value = problem.balanced(problem.sign * beta)
    if problem.tube_is_found:
        # As `certify` does it, from coef and the bias alone.
        coef = problem.coef(value)
        function = rows.times(rows.pull(coef))
        rho = float(np.mean(problem.level(value, function)))
        value = problem.balanced(problem.split(coef, function, rho))
    coef = problem.coef(value)
    w = rows.pull(coef)
    function = rows.times(w)
    rounding = rows.rounding(coef, w)
    if rows.center is not None:
        # What all φ(x) have in common adds the same to F at all points.
        common = float(rows.center @ w)
        function += common
        rounding += UNIT * (abs(common) + float(np.abs(rows.center) @ np.abs(w)))
    rounding += 2 * UNIT * float(np.max(np.abs(problem.target), initial=0.0))
    level = problem.level(value, function)
    primal, dual, error = problem.bracket(value, function, level, rounding)
    violation = problem.violation(value, function)
    off, status = problem.violation_rounding(rounding), run.status
    if status == Status.OPTIMAL and violation + off > tol:
        status = Status.IMPRECISE if violation <= tol else Status.STALLED
    return Solution(
        value=value,
        bias=-float(np.mean(level)),
        primal=primal,
        dual=dual,
        violation=violation,
        run=replace(run, status=status),
        level=level,
        function=function,
        rounding=covering(off, error, tol - violation),
        objective_rounding=error,
    )
