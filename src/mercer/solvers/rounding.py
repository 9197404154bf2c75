"""How far sums of kernel values in double precision can be from their exact values.

Rounding errors are of either sign. Those of adding n numbers have together a standard
deviation of at most √(n/3) · 2⁻⁵³/√3 times the largest partial sum, a fifth of √n units
where it grows evenly; those of the kernel values themselves go by the root of the sum
of their squares (Higham and Mary, SIAM Journal on Scientific Computing 41, 2019). What
is stated here is √n and a few units: several standard deviations, not the worst case,
which is √n times as large and never met. The numbers added are bounded by
|k(x, y)| ≤ √(k(x, x) k(y, y)), or read where K is indefinite or in memory.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from mercer.data.partitions import Partitions
from mercer.data.points import Points, vectors
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.vector import is_vectors
from mercer.kernels.ways import Precomputed
from mercer.native.vectors import SHORT

UNIT = float(np.finfo(float).eps) / 2
SINGLE = float(np.finfo(np.float32).eps) / 2
LAST = 8.0  # units of a function such as exp, with what is around it


class SumRounding:
    """Bounds of the rounding errors of f = K c, computed in double precision.

    Parameters
    ----------
    gram : of one set of points
    unit : half a unit in the last place of what is added, 2⁻⁵³ or 2⁻²⁴
    diagonal : k(xᵢ, xᵢ), where it is known
    magnitudes : the function |K| V, where K is in memory
    """

    def __init__(
        self,
        gram: Gram,
        unit: float = UNIT,
        *,
        diagonal: np.ndarray | None = None,
        magnitudes: Callable[[np.ndarray], np.ndarray] | None = None,
    ):
        self.gram = gram
        diagonal = gram.diag() if diagonal is None else diagonal
        self.length = np.sqrt(np.abs(np.asarray(diagonal, dtype=float)))
        n, psd = gram.shape[0], gram.kernel.psd
        units = _of_values(gram, float(self.length.max(initial=0.0)) ** 2)
        self.of_sums, self.of_values = unit * np.sqrt(n), unit * (LAST + units)
        self.magnitudes = magnitudes or gram.magnitudes
        at_hand = magnitudes or gram.is_held or isinstance(gram.kernel, Precomputed)
        self.bounded = psd is True or (psd is None and not at_hand)

    def __call__(self, coef: np.ndarray, tight: bool = False) -> np.ndarray:
        """How far each f(xᵢ) can be off, in the shape of coef.

        Parameters
        ----------
        tight : whether to read what is added in any case, at the cost of a product
        """
        size = np.abs(coef)
        if tight or not self.bounded:
            # The root of a sum of squares is at most the sum.
            added = self.magnitudes(size)
            return (self.of_sums + self.of_values) * added
        scaled = np.multiply(size.T, self.length, out=size.T).T
        squares = np.einsum("i...,i...->...", scaled, scaled)
        each = self.of_sums * scaled.sum(axis=0) + self.of_values * np.sqrt(squares)
        del size, scaled
        return np.multiply.outer(self.length, each)


def of_sum(terms: np.ndarray) -> float:
    """How far Σ terms can be off where each is known to a few units."""
    size = np.abs(terms).ravel()
    length = np.sqrt(np.einsum("i,i->", size, size))  # a BLAS would wake threads for it
    return UNIT * float(np.sqrt(size.size) * size.sum() + LAST * length)


def _of_partition(part: Points, kernel: Kernel, largest: float) -> float:
    return _of_values(Gram(kernel, part), largest)


def _of_values(gram: Gram, largest: float) -> float:
    """Units in the last place of a kernel value, by which it may be off."""
    magnitude = abs(float(np.log(largest))) if largest > 0 else 0.0
    if not is_vectors(gram.X):
        return magnitude
    if isinstance(gram.X, Partitions):
        return max(gram.X.each(_of_partition, shared=(gram.kernel, largest)))
    d = gram.X.shape[1]
    recipe = gram.kernel.native(gram.X)
    if recipe is None:
        return np.sqrt(d) + magnitude
    terms = np.sqrt(d) * max(1, recipe.degree) + magnitude
    if recipe.part != "square" or d <= SHORT:
        return terms
    # ‖x - y‖² = ‖x‖² - 2⟨x, y⟩ + ‖y‖² cancels.
    X = vectors(gram.X)
    squares = X.multiply(X) if sp.issparse(X) else np.square(X)
    most = float(np.max(np.asarray(squares.sum(axis=1)), initial=0.0))
    return terms + 4 * abs(recipe.scale) * most
