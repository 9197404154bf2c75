"""(K + diag(λ/w)) c = y by a dense factorisation.

G = W^½ K W^½ lives in one n × n array: the lower triangle and a copy of the diagonal
keep it, the upper triangle takes the factors.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from mercer.data.points import take
from mercer.gram import Gram
from mercer.kernels.base import BLOCK_MB, row_blocks
from mercer.native import lapack
from mercer.native.interruptible import elementwise, multiply
from mercer.native.memory import check_room, fits
from mercer.native.sorting import distinct
from mercer.native.threads import blas_for
from mercer.outcomes import Run, Solution, Watch
from mercer.solvers.linear import LinearSystem, WeightedSystem, gravest
from mercer.solvers.rounding import SumRounding

EPS = np.finfo(float).eps


@dataclass(frozen=True)
class Cholesky:
    """Solve a `LinearSystem` by K + diag(reg/weight) = RᵀR, in float64.

    A direct method: `start` and `watch` have nothing to act on. The status is

    - "optimal" when the relative residual (in the norm weighted by `weight`, of the
      worst target) is at most tol,
    - "indefinite" when the matrix is invertible but has a negative eigenvalue: the
      system is solved, but its solution is no minimum,
    - "singular" when the matrix is singular to rounding: the least-squares solution of
      least norm stands in,
    - "imprecise" when rounding left a larger residual, or may have: also where a
      kernel that is proved has a negative eigenvalue, as only rounding can give it.

    Objectives and residual are computed in float64, and `rounding` bounds how far they
    are off; the primal is raised and the dual lowered by as much, so that the optimum
    is between them.
    Residuals are mostly far below tol: it leaves room for the bound of their rounding.

    Examples
    --------
    >>> from mercer import Gram, RBF
    >>> from mercer.solvers import Cholesky, LinearSystem
    >>> gram = Gram(RBF(1), [[0.0], [1.0], [2.0]])
    >>> solution = Cholesky().solve(LinearSystem(gram, [0.0, 1.0, 0.0], reg=0.1))
    >>> solution.status, bool(solution.violation < 1e-12)
    ('optimal', True)
    """

    tol: float = 1e-4

    def solve(
        self,
        problem: LinearSystem,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        with blas_for(problem.gram.shape[0]):
            return self._solve(problem)

    def _solve(self, problem: LinearSystem) -> Solution:
        begin = time.perf_counter()
        system = _Scaled(problem)
        target = system.target
        z, image = np.empty_like(target), np.empty_like(target)
        regs, statuses = system.regs, set()
        for reg in distinct(regs):
            columns = np.flatnonzero(regs == reg)
            z[:, columns], status = system.solve(reg, target[:, columns])
            image[:, columns] = system.times(z[:, columns])
            statuses.add(status)
        numbers, residual_error = system.certified(z, image, self.tol)
        if numbers["violation"] + residual_error > self.tol:
            statuses.add("imprecise")
        return Solution(
            value=system.unscaled(z),
            bias=0.0,
            **numbers,
            run=Run(
                gravest(statuses), len(distinct(regs)), time.perf_counter() - begin
            ),
        )


def inverse_diagonal(problem: LinearSystem) -> np.ndarray:
    """The diagonal of (K + diag(reg/weight))⁻¹, a column per target as in the target.

    Points of weight 0 get 0. A singular matrix is refused.
    """
    with blas_for(problem.gram.shape[0]):
        system = _Scaled(problem)
        columns = {reg: system.inverse_diagonal(reg) for reg in distinct(system.regs)}
    # W^½ once here and once in `unscaled`: the diagonal of W^½ (G + λI)⁻¹ W^½.
    return system.unscaled(
        system.root * np.column_stack([columns[reg] for reg in system.regs])
    )


class _Scaled(WeightedSystem):
    """(G + λI) z = W^½ y with G in memory, for one λ after another."""

    def __init__(self, problem: LinearSystem):
        super().__init__(problem)
        self.matrix = _own_dense(self.gram)
        if self.weighted:
            self.matrix *= self.root
            self.matrix *= self.root.T
        self.diagonal = self.matrix.diagonal().copy()
        # Of a kernel that is proved, what is negative is rounding.
        self.proved = problem.gram.kernel.psd is True

    @cached_property
    def rounding(self) -> SumRounding:
        diagonal = self.diagonal / self.root[:, 0] ** 2
        wide = self.gram.double()
        return SumRounding(wide, diagonal=diagonal, magnitudes=self._magnitudes)

    def _magnitudes(self, V: np.ndarray) -> np.ndarray:
        """|K| V from the lower triangle of G and the diagonal."""
        n, W = len(V), V / self.root
        out = np.abs(self.diagonal)[:, None] * W
        for i in range(0, n, 512):
            j = min(i + 512, n)
            strip = np.abs(np.tril(self.matrix[i:j, :j], i - 1))
            out[i:j] += strip @ W[:j]
            out[:j] += strip.T @ W[i:j]
        return out / self.root

    def solve(self, reg: float, target: np.ndarray) -> tuple[np.ndarray, str]:
        """z of (G + reg I) z = target, and the status."""
        if self._factor(reg):
            return lapack.solve(self.matrix, target), "optimal"
        inverse, vectors, status = self._spectral_inverse(reg)
        return multiply(vectors, inverse[:, None] * (vectors.T @ target)), status

    def inverse_diagonal(self, reg: float) -> np.ndarray:
        if self._factor(reg):
            # (RᵀR)⁻¹ = R⁻¹R⁻ᵀ: the squared lengths of the rows of R⁻¹.
            lapack.invert(self.matrix)
            return _upper_row_squares(self.matrix)
        inverse, vectors, status = self._spectral_inverse(reg)
        if status == "singular":
            raise np.linalg.LinAlgError(
                f"K + λI is singular at λ={reg}, so it has no inverse. Raise λ."
            )
        return elementwise(np.square, vectors) @ inverse

    def times(self, z: np.ndarray) -> np.ndarray:
        """G z, from the lower triangle and the diagonal."""
        off = self.diagonal - self.matrix.diagonal()
        return lapack.symmetric_product(self.matrix, z) + off[:, None] * z

    def _factor(self, reg: float) -> bool:
        """G + reg I = RᵀR, R in the upper triangle; False if that is not possible."""
        self._restore(reg)
        norm = _one_norm(self.matrix)
        if not lapack.factor(self.matrix):
            return False
        # Rounding can let a singular matrix pass; its condition number tells.
        return bool(lapack.condition(self.matrix, norm) > EPS)

    def _restore(self, reg: float) -> None:
        """G + reg I in both triangles."""
        A, n, size = self.matrix, len(self.diagonal), 512
        for i in range(0, n, size):
            j = min(i + size, n)
            A[i:j, j:] = A[j:, i:j].T
            A[i:j, i:j] = np.tril(A[i:j, i:j]) + np.tril(A[i:j, i:j], -1).T
        np.fill_diagonal(A, self.diagonal + reg)

    def _spectral_inverse(self, reg: float) -> tuple[np.ndarray, np.ndarray, str]:
        """1/eᵢ (0 for eᵢ = 0 to rounding), the eigenvectors, and the status."""
        self._restore(reg)
        values, vectors = lapack.eigh(self.matrix)
        vanishing = np.abs(values) <= len(values) * EPS * np.abs(values).max()
        inverse = np.divide(1, values, out=np.zeros_like(values), where=~vanishing)
        if vanishing.any():
            return inverse, vectors, "singular"
        if values[0] > 0:
            return inverse, vectors, "optimal"
        if self.proved and reg > 0:
            return 1 / np.maximum(values, reg), vectors, "imprecise"
        return inverse, vectors, "imprecise" if self.proved else "indefinite"


def _one_norm(A: np.ndarray, size: int = 512) -> float:
    """The largest Σᵢ |Aᵢⱼ| of a column."""
    parts = (A[:, j : j + size] for j in range(0, len(A), size))
    return max(float(np.abs(part).sum(axis=0).max()) for part in parts)


def _own_dense(gram: Gram) -> np.ndarray:
    """K in a float64 array that may be overwritten, column-major as LAPACK wants it.

    Where there is no room for K twice only the lower triangle is filled, in blocks.
    """
    gram = gram.double()
    n = gram.shape[0]
    if fits(16.0 * n * n):
        return elementwise(partial(np.array, dtype=float, order="C"), gram.dense()).T
    check_room(
        8.0 * n * n,
        f"Cholesky factors the {gram!r} as an array of",
        "Take fewer points.",
    )
    matrix = np.empty((n, n), order="F")
    for rows in row_blocks(n, n, BLOCK_MB):
        points = take(gram.X, rows)
        matrix[rows, rows] = gram.kernel(points)
        if rows.stop < n:
            below = take(gram.X, slice(rows.stop, n))
            matrix[rows.stop :, rows] = gram.kernel(points, below).T
    return matrix


def _upper_row_squares(A: np.ndarray, size: int = 512) -> np.ndarray:
    """Σⱼ Aᵢⱼ² over j ≥ i, for every row of the upper triangle."""
    squares = np.empty(len(A))
    for i in range(0, len(A), size):
        strip = np.triu(A[i : i + size, i:])
        squares[i : i + size] = np.einsum("ij,ij->i", strip, strip)
    return squares
