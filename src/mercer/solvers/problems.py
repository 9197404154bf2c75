"""What is to be solved, as data, and what a solver gives back.

LinearSystem   (K + diag(λ/w)) c = y      ridge regression, several targets at once
Solution       the minimiser with its certificate
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.gram import Gram


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """(K + diag(reg/weight)) c = target, the optimum of regularised least squares:

        min over f in the RKHS   ½ reg ‖f‖² + ½ Σᵢ weightᵢ (targetᵢ - f(xᵢ))²

    is attained by f = Σᵢ cᵢ k(xᵢ, ·). A point of weight 0 is absent: its cᵢ is 0.

    Parameters
    ----------
    target : (n,) array, or (n, q) for q targets
    reg : a number ≥ 0, or q of them, one per target
    weight : (n,) array of numbers ≥ 0, not all 0; None for ones
    """

    gram: Gram
    target: Any
    reg: Any
    weight: Any = None

    def __post_init__(self):
        n, m = self.gram.shape
        if n != m:
            raise ValueError(
                f"LinearSystem needs the square Gram of one set of points; got {n} × "
                f"{m}. Make it with Gram(kernel, X)."
            )
        shape = np.shape(self.target)
        if len(shape) not in (1, 2) or shape[0] != n:
            raise ValueError(
                f"LinearSystem needs one target per point, ({n},) or ({n}, q); "
                f"got shape {shape}."
            )
        reg = np.asarray(self.reg, dtype=float)
        targets = shape[1] if len(shape) == 2 else 1
        if reg.ndim > 1 or reg.size not in (1, targets):
            raise ValueError(
                f"LinearSystem needs one reg, or one per target ({targets}); "
                f"got shape {reg.shape}."
            )
        if not np.all((reg >= 0) & (reg < np.inf)):
            raise ValueError(f"LinearSystem needs reg ≥ 0; got reg={self.reg!r}.")
        if self.weight is not None:
            self._check_weight(np.asarray(self.weight, dtype=float), n)

    @staticmethod
    def _check_weight(weight, n):
        if weight.shape != (n,):
            raise ValueError(
                f"LinearSystem needs one weight per point, ({n},); got shape "
                f"{weight.shape}."
            )
        if not np.all((weight >= 0) & (weight < np.inf)):
            i = int(np.argmin((weight >= 0) & (weight < np.inf)))
            raise ValueError(
                f"LinearSystem needs finite weights ≥ 0; point {i} has {weight[i]}."
            )
        if not weight.any():
            raise ValueError(
                "LinearSystem needs a point with weight > 0; all weights are 0."
            )

    def coef(self, value: np.ndarray) -> np.ndarray:
        """The coefficients of the expansion: the solution itself."""
        return value


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver found, with the numbers that certify it.

    Attributes
    ----------
    value : the variables of the problem
    bias : the constant of the expansion
    primal, dual : the two objectives; dual ≤ optimum ≤ primal for a convex problem,
        and their difference bounds how far from optimal the value is
    violation : how far the optimality conditions are from holding
    n_iter : how many steps the solver took
    status : "optimal", or what kept the solver from it
    """

    value: np.ndarray
    bias: float | np.ndarray
    primal: float
    dual: float
    violation: float
    n_iter: int
    status: str

    @property
    def gap(self) -> float:
        """primal - dual."""
        return self.primal - self.dual
