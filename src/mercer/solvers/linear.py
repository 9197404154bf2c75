"""(K + diag(λ/w)) c = y: the system, its certificate, and what its solvers share.

With G = W^½ K W^½ and c = W^½ z the system reads (G + λI) z = W^½ y: symmetric for all
weights, and a point of weight 0 drops out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict

import numpy as np

from mercer.gram import Gram
from mercer.outcomes import Certificate, Solution, Status
from mercer.solvers.rounding import UNIT, SumRounding, of_sum

WORDS = (("violation", "relative residual"),)
DIGITS = 1e-4  # what a round in single precision takes off the residual


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

    Examples
    --------
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import Cholesky, LinearSystem
    >>> gram = Gram(Linear(), [[1.0], [2.0]])  # K = [[1, 2], [2, 4]]
    >>> problem = LinearSystem(gram, [1.0, 2.0], reg=1.0)
    >>> Cholesky().solve(problem).value.round(6).tolist()
    [0.166667, 0.333333]
    """

    gram: Gram
    target: Any
    reg: Any
    weight: Any = None

    def __post_init__(self) -> None:
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
    def _check_weight(weight: np.ndarray, n: int) -> None:
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


_BY_GRAVITY = (
    Status.SINGULAR,
    Status.INDEFINITE,
    Status.STOPPED,
    Status.MAX_ITER,
    Status.IMPRECISE,
)


def gravest(statuses: set[str]) -> Status:
    """The status to report of systems with several regs."""
    return next((one for one in _BY_GRAVITY if one in statuses), Status.OPTIMAL)


def certificate(problem: LinearSystem, solution: Solution) -> Certificate:
    """The certificate of a solution; its margin is that of the longest f."""
    coef = np.asarray(solution.value).reshape(len(solution.value), -1)
    weight = (
        np.ones(len(coef)) if problem.weight is None else np.asarray(problem.weight)
    )
    used = weight > 0
    # K c = y - (reg / weight) c, up to the residual.
    coef, weight = coef[used], weight[used, None]
    shrink = np.asarray(problem.reg, dtype=float) * coef / weight
    target = np.asarray(problem.target, dtype=float).reshape(len(used), -1)[used]
    values, root = target - shrink, np.sqrt(weight)
    residual = (solution.violation + solution.rounding) * norms(root * target)
    squares = np.sum(coef * values, axis=0) + residual * norms(coef / root)
    square = float(np.max(squares, initial=0.0)) + of_sum(coef * values)
    margin = square**-0.5 if square > 0 else float("inf")
    return Certificate.of(solution, int(np.sum(coef.any(axis=1))), 0, margin)


class _Numbers(TypedDict):
    """What a `Solution` has beside its value, by the names it has there."""

    primal: float
    dual: float
    violation: float
    rounding: float
    objective_rounding: float


class WeightedSystem:
    """W^½ y and the Gram on the points of positive weight; z to c and back."""

    def __init__(self, problem: LinearSystem):
        self.shape = np.shape(problem.target)
        target = np.asarray(problem.target, dtype=float).reshape(self.shape[0], -1)
        self.regs = np.broadcast_to(
            np.asarray(problem.reg, dtype=float), target.shape[1:]
        )
        self.gram = problem.gram
        self.root = np.broadcast_to(1.0, (self.shape[0], 1))
        self.present: Any = slice(None)
        self.weighted = problem.weight is not None
        if self.weighted:
            weight = np.asarray(problem.weight, dtype=float)
            if not weight.all():
                self.present = np.flatnonzero(weight)
                self.gram = self.gram.take(self.present)
            self.root = np.sqrt(weight[self.present])[:, None]
        target = self.root * target[self.present] if self.weighted else target
        self.target = np.asfortranarray(target)

    def times_root(self, V: np.ndarray) -> np.ndarray:
        """W^½ V; V itself without weights."""
        return self.root * V if self.weighted else V

    def scaled(self, c: np.ndarray) -> np.ndarray:
        """z = W^-½ c."""
        c = np.asarray(c, dtype=float).reshape(self.shape[0], -1)
        return c[self.present] / self.root

    @cached_property
    def rounding(self) -> SumRounding:
        """How far K c can be off."""
        return SumRounding(self.gram.double())

    def product_rounding(self, z: np.ndarray, tight: bool) -> np.ndarray:
        """The length of what G z can be off by, of each column."""
        return norms(self.times_root(self.rounding(self.times_root(z), tight)))

    def certified(
        self, z: np.ndarray, image: np.ndarray, tol: float
    ) -> tuple[_Numbers, float]:
        """Objectives, relative residual and their rounding; that of the residual alone.

        Parameters
        ----------
        image : G z, in double precision
        tol : of the residual; where rounding could pass it, it is bounded more tightly
        """
        numbers, residual_error = self._certified(z, image, False)
        violation = numbers["violation"]
        if self.rounding.bounded and violation <= tol < violation + residual_error:
            return self._certified(z, image, True)
        return numbers, residual_error

    def _certified(
        self, z: np.ndarray, image: np.ndarray, tight: bool
    ) -> tuple[_Numbers, float]:
        target, regs = self.target, self.regs
        off = target - image
        violation = norms(off - regs * z)
        energy = np.sum(z * image, axis=0)
        error = self.times_root(self.rounding(self.times_root(z), tight))
        for part in (target, image, regs * z):
            error += 4 * UNIT * np.abs(part)
        # Errors of different points are of either sign.
        of_energy = regs @ norms(z * error) + of_sum(regs * z * image)
        of_loss = np.linalg.norm((2 * np.abs(off) + error) * error) + of_sum(off**2)
        of_primal = float(of_energy + of_loss) / 2
        of_dual = float(of_energy + of_sum(regs * z * (2 * target - regs * z))) / 2
        linear = np.sum(z * (2 * target - regs * z), axis=0)
        size = norms(target)
        of_residual = float(np.max(_ratio(norms(error), size), initial=0.0))
        numbers: _Numbers = {
            "primal": float(regs @ energy + np.sum(off**2)) / 2 + of_primal,
            "dual": float(regs @ (linear - energy)) / 2 - of_dual,
            "violation": float(np.max(_ratio(violation, size), initial=0.0)),
            "rounding": max(2 * of_primal, 2 * of_dual, of_residual),
            "objective_rounding": 2 * (of_primal + of_dual),
        }
        return numbers, of_residual

    def unscaled(self, z: np.ndarray) -> np.ndarray:
        """c = W^½ z, and 0 for the points of weight 0, in the shape of the target."""
        if not self.weighted:
            return z.reshape(self.shape)
        c = np.zeros((self.shape[0], z.shape[1]))
        c[self.present] = self.root * z
        return c.reshape(self.shape)


def norms(columns: np.ndarray) -> np.ndarray:
    """The length of each column."""
    return np.linalg.norm(columns, axis=0)


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """above / below, and 0 for 0/0: a target of zeros is met exactly."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
