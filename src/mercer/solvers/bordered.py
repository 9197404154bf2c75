"""(K + diag(λ/w)) c = y by a factor that takes in and lets go of points.

A row and column more or less changes RᵀR in time n² instead of n³.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from mercer.native import lapack
from mercer.native.sorting import distinct
from mercer.outcomes import Run, Solution, Status
from mercer.solvers.linear import LinearSystem, WeightedSystem

TOL = 1e-4  # of the relative residual, as of `Cholesky`


@dataclass(frozen=True, eq=False)
class BorderedCholesky:
    """K of the points, and R of RᵀR = K + diag(λ/w) for each λ.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.bordered import BorderedCholesky
    >>> K = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> one = BorderedCholesky.empty([1.0]).extended(K[:0, :1], K[:1, :1], np.ones(1))
    >>> both = one.extended(K[:1, 1:], K[1:, 1:], np.ones(1))
    >>> np.allclose(both.factors[1.0].T @ both.factors[1.0], K + np.eye(2))
    True
    >>> np.allclose(both.without(0).factors[1.0], 2.0)  # of 3 + 1
    True
    """

    K: np.ndarray
    weight: np.ndarray
    factors: dict[float, np.ndarray]

    @classmethod
    def empty(cls, regs: np.ndarray) -> BorderedCholesky:
        """That of no points, for these λ."""
        nothing = np.zeros((0, 0), order="F")
        found = {float(reg): nothing for reg in distinct(np.asarray(regs, dtype=float))}
        return cls(nothing, np.zeros(0), found)

    def extended(
        self, B: np.ndarray, D: np.ndarray, weight: np.ndarray
    ) -> BorderedCholesky:
        """With more points: B = k(old, new), D = k(new, new), and their weights."""
        n, m = B.shape
        K = np.empty((n + m, n + m), order="F")
        K[:n, :n], K[:n, n:], K[n:, :n], K[n:, n:] = self.K, B, B.T, D
        factors = {}
        for reg, R in self.factors.items():
            found = lapack.bordered(R, B, D + np.diag(reg / weight))
            if found is None:
                raise ValueError(
                    f"K + λ/w is not positive definite at λ={reg:g}: a point can be "
                    "added where it is. Raise alpha, or use a positive semidefinite "
                    "kernel."
                )
            factors[reg] = found
        return replace(
            self, K=K, weight=np.concatenate([self.weight, weight]), factors=factors
        )

    def without(self, place: int) -> BorderedCholesky:
        """Without one of the points."""
        K = np.delete(np.delete(self.K, place, axis=0), place, axis=1)
        factors = {reg: lapack.dropped(R, place) for reg, R in self.factors.items()}
        return replace(self, K=K, weight=np.delete(self.weight, place), factors=factors)

    def solve(self, problem: LinearSystem, rows: int = 0) -> Solution:
        """The solution of the system on these points, with its residual."""
        begin = time.perf_counter()
        system = WeightedSystem(problem)
        target = np.asarray(problem.target, dtype=float)
        columns = target.reshape(len(target), -1)
        c = np.empty_like(columns)
        for reg, R in self.factors.items():
            own = system.regs == reg
            c[:, own] = lapack.solve(R, np.asfortranarray(columns[:, own]))
        image = system.root * (self.K @ c)
        numbers, error = system.certified(system.scaled(c), image, TOL)
        good = numbers["violation"] + error <= TOL
        run = Run(
            Status.OPTIMAL if good else Status.IMPRECISE,
            len(self.factors),
            time.perf_counter() - begin,
            rows,
        )
        return Solution(value=c.reshape(target.shape), bias=0.0, **numbers, run=run)
