"""Problems on Σₘ dₘ Kₘ for one d after another, with matrices Kₘ in memory.

A solver reads the rows of the points whose coefficients it moves: few, where it starts
near its end. Only these rows of the sum are made, and of every Kₘ only these are read
to bring Kₘβ up to date. With Kₘβ at hand, (Σₘ dₘ Kₘ)β is known for any d.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer import _core
from mercer.native import memory
from mercer.solvers.boxqp import ENTRY_ERROR
from mercer.solvers.rounding import UNIT
from mercer.solvers.smo import FULL, Source

MOST = 2  # for each point: of more additions F is summed afresh
DENSE = 0.45  # of the points: to make so many rows takes longer than one half of all


class MatrixSum:
    """Σₘ dₘ Kₘ, and Kₘβ of the last solution on it.

    Parameters
    ----------
    matrices : symmetric (n, n) arrays of doubles, C-contiguous, n ≤ `FULL`
    """

    def __init__(self, matrices: Sequence[np.ndarray]):
        self.matrices = list(matrices)
        self.weights = np.zeros(len(self.matrices))
        self.diagonals = np.array([K.diagonal() for K in self.matrices])
        self.sizes = np.abs(self.diagonals).max(axis=1, initial=0.0)
        self._sum = _core.MatrixSum(self.matrices, memory.cache_bytes(None))

    @staticmethod
    def suits(matrices: Sequence[Any]) -> bool:
        """Whether these are such matrices."""
        return all(
            isinstance(K, np.ndarray)
            and K.dtype == np.float64
            and K.flags.c_contiguous
            and len(K) <= FULL
            for K in matrices
        )

    def weigh(self, weights: np.ndarray, expected: int = 0) -> None:
        """Other weights, for a solve that is expected to read so many rows."""
        same = weights is self.weights or np.array_equal(weights, self.weights)
        if not same:
            self.weights = weights
            n = self.diagonals.shape[1]
            self._sum.weigh(np.ascontiguousarray(weights), expected > DENSE * n)

    def diag(self) -> np.ndarray:
        """Σₘ dₘ kₘ(x, x) at the points."""
        return self.weights @ self.diagonals

    @property
    def source(self) -> Source:
        """The rows of the sum for SMO, which starts from Kₘβ as far as it is known."""
        return Source(
            self._solve,
            float(self.weights @ self.sizes),
            self._entry_error,
            moved=self._sum.moved,
            times=self._times,
            least=float(np.min(self.diag(), initial=0.0)),
        )

    def _solve(
        self, program: _core.Program, value: np.ndarray, function: np.ndarray
    ) -> _core.SolverResult:
        result = self._sum.solve(program, value, function)
        if result.additions > MOST * len(function):
            function[:] = self._times(value)
        return result

    @property
    def _entry_error(self) -> float:
        """Of a value of the sum, in units, and of as many as are added up of them."""
        sums = MOST * self.diagonals.shape[1] + self._sum.additions
        return ENTRY_ERROR + len(self.matrices) + 4 + sums

    def _times(self, beta: np.ndarray) -> np.ndarray:
        some = np.flatnonzero(beta)
        found = np.zeros(len(beta))
        for weight, K in zip(self.weights, self.matrices, strict=True):
            found += weight * (K[:, some] @ beta[some])
        return found

    def images(self, beta: np.ndarray) -> np.ndarray:
        """Kₘβ at all points, a row for each m."""
        found = np.empty(self.diagonals.shape)
        self._sum.move(beta)
        self._sum.images(found)
        return found

    def squares_rounding(self, beta: np.ndarray) -> float:
        """How far all βᵀKₘβ together can be off, by `images` of this β."""
        terms = int(np.count_nonzero(beta)) + 2 * len(self.matrices) + 8
        mass = float(np.abs(beta).sum())
        moved = max(mass, self._sum.moved)
        units = self._entry_error + terms
        return 2 * UNIT * units * float(self.sizes.sum()) * mass * moved

    def block(self, points: np.ndarray) -> np.ndarray:
        """Σₘ dₘ Kₘ among some points."""
        out = np.empty((len(points), len(points)))
        self._sum.among(np.ascontiguousarray(points, dtype=np.int64), out)
        return out
