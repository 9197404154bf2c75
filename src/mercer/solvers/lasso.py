"""The L1-penalised problem, its dual, and what they say of a candidate.

min over coef and bias    Σᵢ weightᵢ ℓ(yᵢ, f(xᵢ)) + reg ‖coef‖₁
max over slopes u       - Σᵢ weightᵢ ℓ*(yᵢ, uᵢ)
                          with |Σᵢ weightᵢ uᵢ k(xⱼ, xᵢ)| ≤ reg and Σᵢ weightᵢ uᵢ = 0

f(x) = Σⱼ coefⱼ k(xⱼ, x) + bias. Convex whatever the matrix K is, so that any similarity
of two points will do, and the gap of the two objectives is a bound without conditions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.gram import Gram
from mercer.losses import Logistic, Loss, Squared
from mercer.outcomes import Certificate, Run, Solution, Status
from mercer.solvers.rounding import UNIT, SumRounding, of_sum

# The largest second derivative of each loss that the solver knows.
STEEPEST: dict[type[Loss], float] = {Logistic: 0.25, Squared: 2.0}


@dataclass(frozen=True, eq=False)
class L1Problem:
    """min Σᵢ weightᵢ ℓ(targetᵢ, f(xᵢ)) + reg ‖coef‖₁,  f = Σⱼ coefⱼ k(xⱼ, ·) + bias.

    Parameters
    ----------
    gram : the Gram of n points; symmetric, of any signature
    target : (n,) array; ±1 for `Logistic`, numbers for `Squared`
    loss : `Logistic()` or `Squared()`
    reg : > 0
    weight : (n,) array of numbers > 0; None for ones
    bias : whether f has a constant, which is not penalised

    Examples
    --------
    >>> from mercer import Gram, RBF
    >>> from mercer.losses import Squared
    >>> from mercer.solvers import CoordinateDescent, L1Problem
    >>> gram = Gram(RBF(1), [[0.0], [0.1], [2.0], [2.1]])
    >>> problem = L1Problem(gram, [0.0, 0.0, 1.0, 1.0], Squared(), reg=0.1)
    >>> solution = CoordinateDescent().solve(problem)
    >>> int((solution.value != 0).sum()) < 4, bool(solution.gap < 1e-3)
    (True, True)
    """

    gram: Gram
    target: Any
    loss: Loss
    reg: float
    weight: Any = None
    bias: bool = True

    def __post_init__(self) -> None:
        n, m = self.gram.shape
        if n != m:
            raise ValueError(
                f"L1Problem needs the square Gram of one set of points; got {n} × {m}. "
                "Make it with Gram(kernel, X)."
            )
        if type(self.loss) not in STEEPEST:
            raise ValueError(
                "L1Problem needs a loss that is curved everywhere, Logistic() or "
                f"Squared(); got {self.loss!r}."
            )
        if not 0 < self.reg < np.inf:
            raise ValueError(f"L1Problem needs reg > 0; got reg={self.reg!r}.")
        weight = np.ones(n) if self.weight is None else self.weight
        for name, values in (("target", self.target), ("weight", weight)):
            values = np.asarray(values, dtype=float)
            if values.shape != (n,) or not np.isfinite(values).all():
                raise ValueError(
                    f"L1Problem needs one finite {name} per point, ({n},); got shape "
                    f"{values.shape}."
                )
            object.__setattr__(self, name, values)
        if not np.all(self.weight > 0):
            raise ValueError(
                f"L1Problem needs weights > 0; point {int(np.argmin(self.weight))} has "
                f"{self.weight.min():g}. Leave out the points that do not count."
            )
        if self.loss.of_sides:
            self._check_sides()

    def _check_sides(self) -> None:
        if not np.all(np.abs(self.target) == 1):
            raise ValueError(f"{self.loss!r} is of targets +1 and -1.")
        if self.bias and abs(self.target.sum()) == len(self.target):
            raise ValueError(
                "L1Problem needs points of both classes where f has a bias: with one "
                "class it grows without end."
            )

    @property
    def steepest(self) -> float:
        """The largest second derivative of the loss."""
        return STEEPEST[type(self.loss)]

    @cached_property
    def wide(self) -> Gram:
        """The Gram in double precision, for the numbers that are reported."""
        return self.gram.double()

    @cached_property
    def sums(self) -> SumRounding:
        """How far K coef in double precision can be off."""
        return SumRounding(self.wide)

    # One candidate

    def constant(self, function: np.ndarray) -> float:
        """The bias that is best beside F = K coef; 0 where there is none."""
        if not self.bias:
            return 0.0
        if isinstance(self.loss, Squared):
            return float(np.average(self.target - function, weights=self.weight))
        up = self.weight[self.target > 0].sum()
        level = float(np.log(up / (self.weight.sum() - up)))
        # Between these the derivative changes sign; Newton, halving where it leaves.
        low, high = level - np.max(function), level - np.min(function)
        b = level - float(np.average(function, weights=self.weight))
        for _ in range(100):
            slope = self.weight @ self.loss.slope(self.target, function + b)
            low, high = (low, b) if slope > 0 else (b, high)
            curve = self.weight @ self.loss.curvature(self.target, function + b)
            new = b - slope / curve if curve > 0 else np.nan
            new = new if low < new < high else (low + high) / 2
            if abs(new - b) <= 1e-15 * max(1.0, abs(b)):
                break
            b = float(new)
        return b

    def primal(self, coef: np.ndarray, values: np.ndarray) -> float:
        """The objective of coef, f having these values at the points."""
        loss = float(self.weight @ self.loss.value(self.target, values))
        return loss + self.reg * float(np.abs(coef).sum())

    def of_constant(self) -> float:
        """The objective of the best constant, coef = 0: a measure for gaps."""
        zero = np.zeros(len(self.target))
        return self.primal(zero, zero + self.constant(zero))

    def forces(self, values: np.ndarray) -> np.ndarray:
        """weightᵢ uᵢ, u the slopes of the loss, with sum 0 where f has a bias.

        K times them is the gradient. What rounding, or a bias not yet right, leaves of
        their sum is taken off the heavier side, which keeps u where ℓ* is finite.
        """
        r = self.weight * self.loss.slope(self.target, values)
        if not self.bias:
            return r
        up, down = r[r > 0].sum(), -r[r < 0].sum()
        if up > down:
            r[r > 0] *= down / up
        elif down > up:
            r[r < 0] *= up / down
        return r

    def dual(self, forces: np.ndarray, largest: float) -> tuple[float, float]:
        """The dual objective of the forces shrunk until feasible, and by what factor.

        Parameters
        ----------
        largest : of the |Σᵢ forceᵢ k(xⱼ, xᵢ)|
        """
        shrink = min(1.0, self.reg / largest) if largest > 0 else 1.0
        u = shrink * forces / self.weight
        return -float(self.weight @ self.loss.conjugate(self.target, u)), shrink

    def violations(self, coef: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """How far each -gradientⱼ is from the slopes of reg |coefⱼ|."""
        off = np.abs(gradient + self.reg * np.sign(coef))
        return np.where(coef == 0, np.maximum(np.abs(gradient) - self.reg, 0), off)

    def largest_reg(self) -> float:
        """The least reg at which coef = 0: max over j of |Σᵢ weightᵢ uᵢ k(xⱼ, xᵢ)|.

        u are the slopes of the loss at the best constant, so it depends on neither reg
        nor coef.
        """
        zero = np.zeros(len(self.target))
        pull = self.wide @ self.forces(zero + self.constant(zero))
        return float(np.max(np.abs(pull), initial=0.0))

    def certified(
        self, coef: npt.ArrayLike, bias: float, function: np.ndarray | None = None
    ) -> Certificate:
        """The certificate of a candidate, from the definitions and all of K.

        Parameters
        ----------
        function : K coef; None to compute it here
        """
        coef = np.asarray(coef, dtype=float)
        function = self.wide @ coef if function is None else function
        found = self.reading(coef, function, bias)
        return certificate(self, found)

    def reading(self, coef: np.ndarray, function: np.ndarray, bias: float) -> Solution:
        """Objectives, violation and rounding of a candidate.

        Two products with K. The slopes are shrunk as far as rounding could make them
        infeasible; then the dual is lowered, and the primal raised, by what rounding
        leaves of them: they are bounds. That other slopes would come of f computed
        anew is in `rounding`.
        """
        values = function + bias
        slopes, forces = self.loss.slope(self.target, values), self.forces(values)
        both = np.column_stack([self.weight * slopes, forces])
        gradient, pull = (self.wide @ both).T
        of_f = self.sums(coef) + 4 * UNIT * np.abs(values)
        of_pull = self.sums(both)
        largest = float(np.max(np.abs(pull), initial=0.0))
        of_largest = float(np.max(of_pull[:, 1], initial=0.0))
        plain, _ = self.dual(forces, largest)
        dual, shrink = self.dual(forces, largest + of_largest)
        terms = self.weight * self.loss.value(self.target, values)
        conjugates = self.loss.conjugate(self.target, shrink * forces / self.weight)
        of_loss = of_sum(terms) + of_sum(self.weight * conjugates)
        of_loss += of_sum(forces * values)
        if self.bias:
            size = abs(bias) + float(np.abs(values).max(initial=0.0))
            of_loss += (abs(float(forces.sum())) + of_sum(forces)) * size
        # A smooth loss changes in the first and in the second order of f.
        steep = np.abs(slopes) + self.steepest * of_f
        of_primal = float(np.linalg.norm(self.weight * steep * of_f)) + of_loss
        of_primal += self.reg * of_sum(coef)
        # Forces that f of these coefficients has, beside those that were computed.
        of_force = self.weight * self.steepest * of_f
        more = float(np.linalg.norm(of_force)) * self._reach
        share = (more + 2 * of_largest) / max(largest, self.reg)
        moved = np.linalg.norm(of_force * values) + share * np.linalg.norm(
            forces * values
        )
        of_dual = 2 * of_loss + float(moved) + (plain - dual)
        most = [2 * of_primal, of_dual]
        most.append(float(np.max(of_pull[:, 0], initial=0.0)) + more)
        return Solution(
            value=coef,
            bias=bias,
            primal=self.primal(coef, values) + of_primal,
            dual=dual - of_loss,
            violation=float(np.max(self.violations(coef, gradient), initial=0.0)),
            run=Run(Status.RECOMPUTED),
            function=function,
            rounding=max(most),
            objective_rounding=2 * of_primal + of_dual,
        )

    @cached_property
    def _reach(self) -> float:
        """The most that a change of forces of length 1 adds to a gradient."""
        return float(np.max(self.sums.length, initial=0.0)) * float(
            np.linalg.norm(self.sums.length)
        )


def certificate(problem: L1Problem, solution: Solution) -> Certificate:
    """The certificate of a solution, from the numbers the solver reports."""
    n_free = int(np.count_nonzero(solution.value))
    return Certificate.of(solution, n_free, 0, _margin(problem, solution))


def _margin(problem: L1Problem, solution: Solution) -> float:
    """At most 1/‖f‖; ∞ where f = 0, or an indefinite similarity gives it no norm."""
    coef, function = solution.value, solution.function
    square = float(coef @ function)
    if not square > 0:
        return float("inf")
    sums = problem.sums
    # Of an indefinite kernel there is no norm, and nothing to read K for.
    of_f = sums(coef) if sums.bounded else UNIT * np.abs(function)
    square += float(np.linalg.norm(coef * of_f)) + of_sum(coef * function)
    return float(1 / np.sqrt(square)) * (1 - 4 * UNIT)
