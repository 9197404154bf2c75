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
import numpy.typing as npt

from mercer.data.points import take
from mercer.gram import Gram
from mercer.kernels.checks import is_finite
from mercer.outcomes import Certificate, Run, Solution, Status
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.primal import FeatureSums
from mercer.solvers.rounding import LAST, SINGLE, UNIT, SumRounding, of_sum
from mercer.solvers.variables import PART

STEEPEST = 2.0  # no loss has a larger second derivative


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

    Examples
    --------
    >>> from mercer import Gram, RBF
    >>> from mercer.losses import Logistic
    >>> from mercer.solvers import Newton, Penalized
    >>> gram = Gram(RBF(1), [[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> problem = Penalized(gram, [-1, 1, 1, -1], Logistic(), reg=0.01)
    >>> solution = Newton(tol=1e-9).solve(problem)
    >>> solution.status, bool(solution.gap < 1e-8)
    ('optimal', True)
    """

    gram: Gram
    target: Any
    loss: Any
    reg: float | None = None
    norm: float | None = None
    weight: Any = None
    bias: bool = False

    def __post_init__(self) -> None:
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
        if not (size > 0 and is_finite(size)):
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
    def zero_loss(self) -> float:
        """The mean loss of f = 0, or of a good constant: the unit of tolerances."""
        constants = [0.0]
        if self.bias and not getattr(self.loss, "of_sides", True):
            constants += np.quantile(self.target, [0.1, 0.25, 0.5, 0.75, 0.9]).tolist()
        n = self.gram.shape[0]
        return min(
            self.mean(self.loss.value(self.target, np.full(n, c))) for c in constants
        )

    @cached_property
    def wide(self) -> Gram:
        """The Gram in double precision, for the numbers that are reported."""
        return self.gram.double()

    @cached_property
    def sums(self) -> SumRounding | FeatureSums:
        """How far K c in double precision can be off."""
        rows = self.gram._features
        if rows is not None and rows.computed:
            return FeatureSums(rows)
        # Where Φ is there, k(x, x) is not computed anew from new features.
        diagonal = None if rows is None else rows.lengths()
        return SumRounding(self.wide, diagonal=diagonal)

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
        return BoxQP(self.wide, -a, 1.0, -size * high, -size * low, total, tube=e)

    def _rate(self, end: np.ndarray) -> np.ndarray:
        """ℓ*(end) / end, and 0 where the end is 0."""
        values = self.loss.conjugate(self.target, end)
        return np.divide(values, end, out=np.zeros_like(end), where=end != 0)


@dataclass(frozen=True, eq=False)
class Reading:
    """What was computed of a candidate in double precision: all arrays are (n, k).

    Attributes
    ----------
    coef, values : c, and f = Kc + b at the points
    bias : b, (k,)
    slopes, image : u, and K(wu)
    reg : that c belongs to
    rough : what of wu was multiplied in single precision; None for nothing
    """

    coef: np.ndarray
    values: np.ndarray
    bias: np.ndarray
    slopes: np.ndarray
    image: np.ndarray
    reg: float
    rough: np.ndarray | None = None


@dataclass(frozen=True)
class RoundingErrors:
    """How far each number of a `Reading` can be off by rounding.

    Attributes
    ----------
    dual : as a bound of the optimum, at the slopes that were taken
    slopes : how much more the dual changes with the slopes, where they are computed
        anew from the coefficients
    """

    primal: float
    dual: float
    slopes: float
    violation: float

    @property
    def gap(self) -> float:
        return self.primal + self.dual

    @property
    def objectives(self) -> float:
        """Of primal, dual and gap, which are reported outwards by their rounding."""
        return 2 * self.gap + self.slopes

    @property
    def most(self) -> float:
        return max(2 * self.primal, 2 * self.dual + self.slopes, self.violation)


def rounding_of(
    problem: Penalized, at: Reading, tight: bool = False, sums: Any = None
) -> RoundingErrors:
    """By how much rounding can have changed the objectives and the violation.

    Parameters
    ----------
    tight : whether to read the kernel values that were added, which costs a product,
        where they are otherwise bounded by √(k(x, x) k(y, y))
    sums : how far products with K can be off, where they are not those of the Gram
    """
    sums = problem.sums if sums is None else sums
    w, m, lam = problem.weights[:, None], problem.mass, 2 * at.reg * problem.mass
    wu = w * at.slopes
    of_g, of_image = np.split(
        sums(np.hstack([at.coef, wu]), tight), [at.coef.shape[1]], axis=1
    )
    if at.rough is not None:
        of_image = of_image + SINGLE / UNIT * sums(at.rough)
    of_f = of_g + 4 * UNIT * np.abs(at.values)
    u = np.abs(at.slopes)
    # Losses and conjugates are computed to a few units of what they are made of.
    shaped = [v[:, 0] if v.shape[1] == 1 else v for v in (at.values, at.slopes)]
    loss, target = problem.loss, problem.target
    terms = loss.value(target, shaped[0]) + np.abs(loss.conjugate(target, shaped[1]))
    terms = np.where(np.isfinite(terms), terms, 0.0)[:, None] + np.abs(at.values) * u
    # And m is a sum of weights, by which all is divided.
    shares = of_sum(problem.weights) / m + LAST * UNIT
    of_terms = of_sum(w * terms) + shares * float(np.sum(w * np.abs(terms)))
    # Errors of different points are of either sign.
    square = _length(at.coef * of_g) + of_sum(at.coef * at.values)
    steepest = getattr(loss, "steepest", STEEPEST) if loss.curved else 0.0
    of_loss = _length(w * (u + steepest * of_f) * of_f)
    of_primal = (of_loss + of_terms) / m + at.reg * square
    of_u = steepest * of_f
    off = np.abs(at.values - at.bias + at.image / lam)
    of_square = (_length(wu * of_image) + of_sum(wu * at.image)) / (m * lam)
    unbalanced = 0.0
    if problem.bias:
        left = np.abs(np.sum(wu, axis=0)) + of_sum(wu)
        unbalanced = float(left @ (np.abs(at.bias) + np.abs(at.values).max(axis=0)))
    of_dual = (of_terms + unbalanced) / m + of_square
    of_slope = float(np.max(of_u + 4 * UNIT * (u + np.abs(lam * at.coef / w))))
    # Slopes other by this much change the dual in the first and in the second order.
    size = sums.length @ (w * of_u)
    of_slopes = _length(w * of_u * off) / m + float(np.sum(size**2)) / (m * lam)
    return RoundingErrors(of_primal, of_dual, of_slopes, of_slope)


def _length(errors: np.ndarray) -> float:
    return float(np.linalg.norm(errors))


def unboxed(problem: Penalized, solution: Solution) -> Solution:
    """The solution of `problem.boxed()` in the words of the problem itself.

    f = Kc is computed anew in double precision, by the coefficients that are not 0:
    the solver's own has grown step by step, and may be in single precision.
    """
    assert problem.reg is not None
    box = problem.boxed()
    coef = box.coef(solution.value)
    function = _product(problem.wide, coef)
    found = _straight(problem, coef, function, float(solution.bias), problem.reg)
    return replace(
        solution,
        value=coef,
        primal=np.nan if np.isnan(solution.primal) else found.primal,
        dual=found.dual,
        violation=found.violation,
        function=function + solution.bias,
        rounding=found.rounding,
        objective_rounding=found.objective_rounding,
    )


def _product(gram: Gram, coef: np.ndarray) -> np.ndarray:
    """K c, by the points whose c is not 0."""
    used = np.flatnonzero(coef)
    if gram.is_held or 2 * len(used) > len(coef):
        return gram @ coef
    if not len(used):
        return np.zeros(len(coef))
    return gram.kernel.matmul(gram.X, take(gram.X, used), coef[used])


def _straight(
    problem: Penalized, coef: np.ndarray, function: np.ndarray, bias: float, reg: float
) -> Solution:
    """Objectives and rounding of the coefficients of a loss of straight pieces."""
    at = problem if problem.reg == reg else problem.at(reg)
    u, image, left_out = slopes_of(at, coef, function)
    values, wu = function + bias, problem.weights * u
    reading = Reading(
        coef=coef[:, None],
        values=values[:, None],
        bias=np.array([bias]),
        slopes=u[:, None],
        image=image[:, None],
        reg=reg,
    )
    rounding = rounding_of(problem, reading)
    rounding = replace(rounding, dual=rounding.dual + left_out)
    box = at.boxed()
    value, _ = box.inverse(coef, bias)
    primal = problem.primal(float(coef @ function), values)
    dual = problem.dual(u, float(wu @ image))
    return Solution(
        value=coef,
        bias=bias,
        primal=primal + rounding.primal,
        dual=dual - rounding.dual,
        violation=box.violation(value, function),
        run=Run(Status.RECOMPUTED),
        function=values,
        rounding=max(rounding.most, box.violation_rounding(box.rounding(value))),
        objective_rounding=rounding.objectives,
    )


def slopes_of(
    problem: Penalized, coef: np.ndarray, function: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """The slopes u = -λc/w, K(wu), and how much its last digits change the dual.

    Rounding may take u beyond the least or the largest slope; it is put back. Where
    that is less than a digit of K(wu), no product is spent on it.

    Parameters
    ----------
    function : Kc
    """
    lam, w = problem.strength, problem.weights
    slopes = -lam * coef / w
    u = np.clip(slopes, *problem.loss.slopes(problem.target))
    changed, image = w * (u - slopes), -lam * function
    if np.any(np.abs(changed) > 1e-15 * np.abs(w * u).max(initial=0.0)):
        return u, image + _product(problem.wide, changed), 0.0
    length = problem.sums.length
    left_out = float(length @ np.abs(changed)) * float(length @ np.abs(w * u))
    return u, image, left_out / (problem.mass * lam)


def certificate(problem: Penalized, solution: Solution) -> Certificate:
    """The certificate of a solution whose `function` is f at the points, bias included.

    Points whose slope is the least or the largest there is count as at their bound.
    """
    coef = np.asarray(solution.value)
    values = np.asarray(solution.function) - solution.bias
    square = float(np.sum(coef * values)) + square_rounding(problem, coef, values)
    del values
    used = np.asarray(coef.reshape(len(coef), -1).any(axis=1))
    bound = np.zeros(len(coef), dtype=bool)
    if coef.ndim == 1 and problem.reg is not None:
        for begin in range(0, len(coef), PART):
            part = slice(begin, begin + PART)
            size = problem.weights[part] / problem.strength
            low, high = problem.loss.slopes(np.asarray(problem.target)[part])
            at_end = (coef[part] == -size * low) | (coef[part] == -size * high)
            bound[part] = used[part] & at_end
    margin = square**-0.5 * (1 - 4 * UNIT) if square > 0 else float("inf")
    free = int(np.sum(used & ~bound))
    return Certificate.of(solution, free, int(np.sum(bound)), margin)


def square_rounding(problem: Penalized, coef: np.ndarray, values: np.ndarray) -> float:
    """How far Σ cᵢ (Kc)ᵢ can be off."""
    sums = problem.sums
    # Of an indefinite kernel there is no norm, and nothing to read K for.
    of_values = sums(coef) if sums.bounded else UNIT * np.abs(values)
    of_values *= coef
    # Products by an explicit map add up twice, by at most as many numbers.
    found = 2 * _length(of_values)
    return found + of_sum(np.multiply(coef, values, out=of_values))


def certified(
    problem: Penalized, coef: npt.ArrayLike, bias: np.ndarray, reg: float
) -> Certificate:
    """The certificate of coefficients and a bias, computed here from the definitions.

    Parameters
    ----------
    coef, bias : (n, k) and (k,) arrays, k columns of f
    reg : that the coefficients belong to; for a problem with norm, found by its search
    """
    coef = np.asarray(coef, dtype=float)
    f = problem.wide @ coef
    single = coef.shape[1] == 1
    indefinite = problem.gram.kernel.psd is False
    if problem.loss.curved:
        found = _curved(problem, coef, f, np.asarray(bias, dtype=float), reg)
    else:
        found = _straight(problem, coef[:, 0], f[:, 0], float(bias[0]), reg)
    found = replace(
        found,
        value=coef[:, 0] if single else coef,
        bias=float(bias[0]) if single else bias,
        primal=np.nan if indefinite else found.primal,
        run=Run(Status.INDEFINITE if indefinite else Status.RECOMPUTED),
    )
    return certificate(problem, found)


def _curved(
    problem: Penalized, coef: np.ndarray, f: np.ndarray, bias: np.ndarray, reg: float
) -> Solution:
    """Objectives, gradient and rounding of the coefficients of a curved loss."""
    w, lam = problem.weights[:, None], problem.at(reg).strength
    values = f + bias
    shaped = values[:, 0] if values.shape[1] == 1 else values
    slopes = problem.loss.slope(problem.target, shaped)
    u = np.asarray(slopes, dtype=float).reshape(values.shape)
    image = problem.wide @ (w * u)
    rounding = rounding_of(problem, Reading(coef, values, bias, u, image, reg))
    square = float(np.sum(w * u * image))
    return Solution(
        value=coef,
        bias=bias,
        primal=problem.primal(float(np.sum(coef * f)), shaped) + rounding.primal,
        dual=problem.dual(slopes, square) - rounding.dual,
        violation=float(np.max(np.abs(lam * coef / w + u))),
        run=Run(Status.RECOMPUTED),
        function=shaped,
        rounding=rounding.most,
        objective_rounding=rounding.objectives,
    )
