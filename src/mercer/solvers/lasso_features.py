"""The L1-penalised problem on the coordinates of an explicit map.

min over coef and bias    Σᵢ weightᵢ ℓ(yᵢ, f(xᵢ)) + reg ‖coef‖₁
max over slopes u       - Σᵢ weightᵢ ℓ*(yᵢ, uᵢ)
                          with |Σᵢ weightᵢ uᵢ φⱼ(xᵢ)| ≤ reg and Σᵢ weightᵢ uᵢ = 0

f(x) = Σⱼ coefⱼ φⱼ(x) + bias: as in `lasso.py`, the matrix Φ in place of K.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.operators import Constant
from mercer.maps import Features
from mercer.native.memory import check_room
from mercer.outcomes import Certificate, Solution
from mercer.solvers.lasso import L1Problem
from mercer.solvers.rounding import LAST, UNIT


class Design:
    """Φ, (n, p), by its columns: what a solver of L1 problems reads of it.

    A sparse Φ stays so; the columns that a solver works on are dense, a few at a time.

    Parameters
    ----------
    kernel : whose map Φ is
    features : Φ with the keys and names of its columns
    """

    matrix = None  # not held as rows of a square matrix

    def __init__(self, kernel: Kernel, features: Features):
        self.kernel, self.features = kernel, features
        self.rows = features.matrix
        sparse = sp.issparse(self.rows)
        self.columns = sp.csc_array(self.rows) if sparse else self.rows
        self.computed = self.hits = 0
        self._measured: tuple[np.ndarray, bool, np.ndarray] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.shape

    @property
    def width(self) -> int:
        return self.rows.shape[1]

    @property
    def keys(self) -> Sequence[Hashable]:
        return self.features.keys

    def __matmul__(self, coef: np.ndarray) -> np.ndarray:
        """Φ coef, f at the points."""
        return np.asarray(self.rows @ coef)

    def pull(self, forces: np.ndarray) -> np.ndarray:
        """Φᵀ forces, a number for each column."""
        return np.asarray(self.columns.T @ forces)

    def at(self, index: np.ndarray) -> np.ndarray:
        """Some columns as the rows of a dense array, (len(index), n)."""
        n = self.shape[0]
        check_room(
            16.0 * n * len(index),  # twice: they are gathered and then scaled
            f"{len(index)} columns of the explicit map of {self.kernel} take, copied "
            "once,",
            "Penalise more, so that fewer are needed, or take fewer points.",
        )
        self.computed += len(index)
        some = self.columns[:, index]
        some = some.toarray() if sp.issparse(some) else some
        return np.ascontiguousarray(some.T)

    def times(self, v: np.ndarray, alive: np.ndarray) -> np.ndarray:
        """(Φᵀv)[alive], a number for each column still asked."""
        return self.pull(v)[alive]

    def sizes(self, weight: np.ndarray, centered: bool) -> np.ndarray:
        """√Σᵢ weightᵢ (Φᵢⱼ - meanⱼ)² of every column, computed once for a weight."""
        last = self._measured
        if last and last[1] == centered and np.array_equal(last[0], weight):
            return last[2]
        sparse = sp.issparse(self.columns)
        square = self.columns.power(2) if sparse else self.columns**2
        whole = np.asarray(square.T @ weight)
        squares = whole - self.pull(weight) ** 2 / weight.sum() if centered else whole
        # Too small a size, by rounding of the difference, would screen too much out.
        sizes = np.sqrt(np.maximum(squares, 0.0)) + 1e-7 * np.sqrt(whole)
        self._measured = weight, centered, sizes
        return sizes


@dataclass(frozen=True, eq=False)
class FeatureProblem(L1Problem):
    """min Σᵢ weightᵢ ℓ(targetᵢ, f(xᵢ)) + reg ‖coef‖₁,  f = Σⱼ coefⱼ φⱼ + bias.

    Parameters
    ----------
    gram : the `Design` of n points and p columns
    target, loss, reg, weight, bias : as in `L1Problem`
    """

    def __post_init__(self) -> None:
        n = self.gram.shape[0]
        square = Gram(Constant(), np.empty((n, 0)))
        rest = (self.target, self.loss, self.reg, self.weight, self.bias)
        checked = L1Problem(square, *rest)
        object.__setattr__(self, "target", checked.target)
        object.__setattr__(self, "weight", checked.weight)

    @cached_property
    def wide(self) -> Any:
        """Φᵀ, which is in double precision, for the numbers that are reported."""
        return _Pull(self.gram)

    @cached_property
    def sums(self) -> Any:
        """How far Φ coef and Φᵀ forces can be off."""
        return _DesignRounding(self.gram)

    @cached_property
    def _reach(self) -> float:
        """The most that a change of forces of length 1 adds to a gradient."""
        lengths = self.gram.sizes(np.ones(self.gram.shape[0]), False)
        return float(np.max(lengths, initial=0.0))

    def certified(
        self, coef: npt.ArrayLike, bias: float, function: np.ndarray | None = None
    ) -> Certificate:
        """The certificate of a candidate, from the definitions and all of Φ."""
        coef = np.asarray(coef, dtype=float)
        function = self.gram @ coef if function is None else function
        found = self.reading(coef, function, bias)
        return feature_certificate(found)


class _Pull:
    """Φᵀ as an operator on forces."""

    def __init__(self, design: Design):
        self.design = design

    def __matmul__(self, forces: np.ndarray) -> np.ndarray:
        return self.design.pull(forces)


class _DesignRounding:
    """Bounds of the rounding errors of Φ coef, (n,), and of Φᵀ forces, (p, q)."""

    def __init__(self, design: Design):
        rows, columns = abs(design.rows), abs(design.columns)
        self.rows, self.columns, self.n = rows, columns, design.shape[0]

    def __call__(self, values: np.ndarray) -> np.ndarray:
        size = np.abs(values)
        if size.ndim == 1:
            terms = np.count_nonzero(size)
            return UNIT * (LAST + np.sqrt(terms)) * np.asarray(self.rows @ size)
        return UNIT * (LAST + np.sqrt(self.n)) * np.asarray(self.columns.T @ size)


def feature_certificate(solution: Solution) -> Certificate:
    """The certificate of a solution, from the numbers the solver reports."""
    n_free = int(np.count_nonzero(solution.value))
    return Certificate.of(solution, n_free, 0, _margin(solution.value))


def _margin(coef: np.ndarray) -> float:
    """1/‖w‖ or a little less; ∞ where w = 0."""
    length = float(np.linalg.norm(coef)) * (1 + (len(coef) + 4) * UNIT)
    return 1 / length if length > 0 else float("inf")
