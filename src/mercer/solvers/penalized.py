"""Penalized: a loss and a norm, the problem of the representer theorem.

    min over f   reg ‖f‖² + mean of ℓ(yᵢ, f(xᵢ))      or the mean alone with ‖f‖ ≤ B

Its minimiser is f = Σᵢ cᵢ k(xᵢ, ·). The dual has a slope uᵢ of the loss for each point,
and c = -u / (2 reg m); by Fenchel and Young any u bounds the optimum from below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mercer.gram import Gram
from mercer.solvers.problems import BoxQP, Certificate, Solution


@dataclass(frozen=True, eq=False)
class Penalized:
    """min reg ‖f‖² + (1/m) Σᵢ wᵢ ℓ(yᵢ, f(xᵢ) + b),  m = Σᵢ wᵢ, or only the second

    term, subject to ‖f‖ ≤ norm. The bias b is not penalised; without `bias` it is 0.

    Parameters
    ----------
    target : n numbers, sides ±1, or what the loss compares
    loss : with value, slope, conjugate, slopes and curvature
    reg : a number > 0
    norm : the radius B > 0 of the ball, in place of reg
    weight : n numbers > 0; None for ones. Weight 2 is the point twice
    bias : whether f has a constant
    """

    gram: Gram
    target: Any
    loss: Any
    reg: float | None = None
    norm: float | None = None
    weight: Any = None
    bias: bool = False

    def __post_init__(self):
        n, m = self.gram.shape
        if n != m or np.shape(self.target) != (n,):
            raise ValueError(
                "Penalized needs the square Gram of one set of points and a target for "
                f"each; got {n} × {m} and targets of shape {np.shape(self.target)}."
            )
        if (self.reg is None) == (self.norm is None):
            raise ValueError(
                f"Penalized needs reg or norm, one of them; got reg={self.reg!r} and "
                f"norm={self.norm!r}."
            )
        size: Any = self.norm if self.reg is None else self.reg
        if not (size > 0 and np.isfinite(size)):
            name = "norm" if self.reg is None else "reg"
            raise ValueError(f"Penalized needs a finite {name} > 0; got {size!r}.")
        if not (np.all(self.weights > 0) and np.isfinite(self.mass)):
            raise ValueError(
                "Penalized needs finite weights > 0, one for each point; leave out the "
                "points of weight 0."
            )

    @cached_property
    def weights(self) -> np.ndarray:
        """w, (n,): ones where no weights were given."""
        n = self.gram.shape[0]
        given = 1.0 if self.weight is None else self.weight
        return np.broadcast_to(np.asarray(given, dtype=float), (n,))

    @cached_property
    def mass(self) -> float:
        """m = Σᵢ wᵢ."""
        return float(self.weights.sum())

    @property
    def strength(self) -> float:
        """λ = 2 reg m: at the optimum λ cᵢ = -wᵢ uᵢ."""
        assert self.reg is not None
        return 2 * float(self.reg) * self.mass

    @cached_property
    def worth(self) -> float:
        """The mean loss of f = 0, or of a good constant: what gaps are measured by."""
        constants = [0.0]
        if self.bias and not getattr(self.loss, "of_sides", True):
            constants += np.quantile(self.target, [0.1, 0.25, 0.5, 0.75, 0.9]).tolist()
        n = self.gram.shape[0]
        return min(
            self.mean(self.loss.value(self.target, np.full(n, c))) for c in constants
        )

    def mean(self, values: np.ndarray) -> float:
        """(1/m) Σᵢ wᵢ valuesᵢ."""
        return float(self.weights @ values) / self.mass

    def at(self, reg: float) -> Penalized:
        """The problem with this reg, and no ball."""
        return replace(self, reg=reg, norm=None)

    def coef(self, value: np.ndarray) -> np.ndarray:
        """The coefficients of the expansion: the solution itself."""
        return value

    def primal(self, square: float, f: np.ndarray) -> float:
        """The objective of a function with ‖f‖² = square and these values."""
        loss = self.mean(self.loss.value(self.target, f))
        return loss if self.reg is None else self.reg * square + loss

    def dual(self, u: np.ndarray, square: float) -> float:
        """-(1/m) Σ wᵢ ℓ*(uᵢ) less reg‖f_u‖², or less B ‖(1/m) Σ wᵢ uᵢ φ(xᵢ)‖.

        A lower bound of the optimum (with a bias where Σ wᵢ uᵢ = 0).

        Parameters
        ----------
        u : n slopes
        square : ‖Σ wᵢ uᵢ φ(xᵢ)‖²
        """
        conjugate = self.mean(self.loss.conjugate(self.target, u))
        size = np.sqrt(max(square, 0.0)) / self.mass
        if self.reg is None:
            return -conjugate - float(self.norm or 0) * size
        return -conjugate - size**2 / (4 * self.reg)

    def boxed(self) -> BoxQP:
        """The dual of a loss of straight pieces: a `BoxQP` whose variables are the c.

        Its objectives are those here divided by 2 reg. The conjugate of such a loss is
        a u + e|u| between the least and the largest slope, so its ends tell a and e.
        """
        low, high = self.loss.slopes(self.target)
        down, up = (self._rate(end) for end in (low, high))
        a = np.where(low == 0, up, np.where(high == 0, down, (up + down) / 2))
        e = np.where((low == 0) | (high == 0), 0.0, (up - down) / 2)
        # a u + e|u| is convex; what is below 0 or next to it is rounding.
        e = np.where(e <= 1e-12 * (np.abs(up) + np.abs(down)), 0.0, e)
        size = self.weights / self.strength
        total = 0.0 if self.bias else None
        return BoxQP(self.gram, -a, 1.0, -size * high, -size * low, total, tube=e)

    def _rate(self, end: np.ndarray) -> np.ndarray:
        """ℓ*(end) / end, and 0 where the end is 0."""
        values = self.loss.conjugate(self.target, end)
        return np.divide(values, end, out=np.zeros_like(end), where=end != 0)


def unboxed(problem: Penalized, solution: Solution) -> Solution:
    """The solution of `problem.boxed()` in the words of the problem itself."""
    assert problem.reg is not None
    return replace(
        solution,
        value=problem.boxed().coef(solution.value),
        primal=2 * problem.reg * solution.primal,
        dual=2 * problem.reg * solution.dual,
        function=np.asarray(solution.function) + solution.bias,
    )


def certificate(problem: Penalized, solution: Solution) -> Certificate:
    """The certificate of a solution whose `function` is f at the points, bias included.

    Points whose slope is the least or the largest there is count as at their bound.
    """
    coef = np.asarray(solution.value)
    values = np.asarray(solution.function) - solution.bias
    square = float(np.sum(coef * values))
    used = coef.reshape(len(coef), -1).any(axis=1)
    bound = np.zeros(len(coef), dtype=bool)
    if coef.ndim == 1 and problem.reg is not None:
        size = problem.weights / problem.strength
        ends = [-size * end for end in problem.loss.slopes(problem.target)]
        bound = used & ((coef == ends[0]) | (coef == ends[1]))
    return Certificate(
        primal=solution.primal,
        dual=solution.dual,
        violation=solution.violation,
        n_free=int(np.sum(used & ~bound)),
        n_bound=int(np.sum(bound)),
        margin=square**-0.5 if square > 0 else float("inf"),
        n_iter=int(solution.n_iter),
        seconds=solution.seconds,
        rows_computed=int(solution.rows_computed),
        cache_hits=int(solution.cache_hits),
        status=solution.status,
        precision=solution.precision,
    )


def certified(problem: Penalized, coef, bias, reg: float) -> Certificate:
    """The certificate of coefficients and a bias, computed here from the definitions.

    Parameters
    ----------
    coef, bias : (n, k) and (k,) arrays, k columns of f
    reg : that the coefficients belong to; for a problem with norm, found by its search
    """
    coef = np.asarray(coef, dtype=float)
    f = problem.gram @ coef
    square = float(np.sum(coef * f))
    single = coef.shape[1] == 1
    values = (f + bias)[:, 0] if single else f + bias
    if problem.loss.curved:
        u = problem.loss.slope(problem.target, values)
        gradient = problem.at(reg).strength * coef + problem.weights[:, None] * (
            u[:, None] if single else u
        )
    else:
        slopes = -problem.at(reg).strength * coef[:, 0] / problem.weights
        u = np.clip(slopes, *problem.loss.slopes(problem.target))
        gradient = None
    wu = problem.weights[:, None] * (u[:, None] if single else u)
    primal = problem.primal(square, values)
    dual = problem.dual(u, float(np.sum(wu * (problem.gram @ wu))))
    violation = primal - dual
    if gradient is not None:
        violation = float(np.max(np.abs(gradient / problem.weights[:, None])))
    indefinite = problem.gram.kernel.psd is False
    found = Solution(
        value=coef[:, 0] if single else coef,
        bias=float(bias[0]) if single else bias,
        primal=np.nan if indefinite else primal,
        dual=dual,
        violation=violation,
        n_iter=0,
        status="indefinite" if indefinite else "recomputed",
        function=values,
    )
    return certificate(problem, found)
