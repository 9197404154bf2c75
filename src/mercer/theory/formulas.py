"""How far the error on new points can be from that on the points learnt: the formulas.

Margin and complexity   Bartlett and Mendelson, JMLR 3 (2002); Koltchinskii and
                        Panchenko, Annals of Statistics 30 (2002)
any Lipschitz loss      Ledoux and Talagrand, Probability in Banach Spaces (1991),
                        theorem 4.12, for the step from f to its loss
leaving one point out   Jaakkola and Haussler, AISTATS 1999; Joachims, ICML 2000;
                        Vapnik and Chapelle, Neural Computation 12 (2000)

`mercer.bounds` puts them into a table for a fitted machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mercer._html import table
from mercer.data.checks import describe
from mercer.data.points import take
from mercer.gram import Gram
from mercer.kernels.base import row_blocks
from mercer.native.interruptible import interruptible, multiply

RIDGE = 1e-10  # relative; keeps the matrix of dependent support vectors invertible
STEPS = 64  # the grid of norms goes from 2⁻⁶⁴ to 2⁶⁴


class Rademacher(NamedTuple):
    """The complexity of a ball of functions: its mean over draws of signs, and a bound.

    Examples
    --------
    >>> from mercer import Gram, Linear
    >>> from mercer.theory import rademacher
    >>> found = rademacher(Gram(Linear(), [[3.0, 0.0], [0.0, 4.0]]))
    >>> round(found.value, 4), round(found.error, 4), round(found.bound, 4)
    (2.5, 0.0, 2.5)
    """

    value: float
    error: float  # one standard error of the value
    bound: float


def rademacher(
    gram: Gram,
    norm: float = 1.0,
    *,
    constant: float = 0.0,
    samples: int = 100,
    seed: int = 0,
) -> Rademacher:
    """(1/m) E sup { Σᵢ σᵢ f(xᵢ) : ‖f‖ ≤ B } = (B/m) E √(σᵀKσ) ≤ (B/m) √(Σᵢ k(xᵢ, xᵢ)).

    The empirical Rademacher complexity of a ball in the RKHS: how well its functions
    follow m signs σᵢ = ±1 tossed with a fair coin. The mean is taken over random σ; the
    bound is attained where the φ(xᵢ) are orthogonal.

    Parameters
    ----------
    gram : of the m points, positive semidefinite
    norm : B
    constant : what is added to the kernel, c of k + c
    samples : how many σ are drawn; two at least

    Examples
    --------
    >>> from mercer import Gram, RBF
    >>> from mercer.theory import rademacher
    >>> found = rademacher(Gram(RBF(gamma=1.0), [[0.0], [1.0], [2.0], [3.0]]))
    >>> round(found.bound, 4), found.value <= found.bound
    (0.5, True)
    """
    if not isinstance(gram, Gram):
        raise TypeError(
            f"rademacher needs the Gram of the points; got {describe(gram)}. Pass "
            "Gram(kernel, X), of a matrix K Gram(Precomputed(K), range(len(K)))."
        )
    m = gram.shape[0]
    if not samples >= 2:
        raise ValueError(f"rademacher needs samples ≥ 2; got samples={samples!r}.")
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(m, samples))
    squares = np.sum(signs * (gram @ signs), axis=0)
    squares += constant * signs.sum(axis=0) ** 2
    # Rounding can leave -1e-17 of a square that is 0.
    draws = norm / m * np.sqrt(np.maximum(squares, 0))
    trace = float(np.sum(gram.diag(), dtype=float)) + m * constant
    return Rademacher(
        value=float(draws.mean()),
        error=float(draws.std(ddof=1) / np.sqrt(samples)),
        bound=norm / m * float(np.sqrt(max(trace, 0.0))),
    )


class MarginBound(NamedTuple):
    """loss + complexity + confidence, and the norm B at which they were taken."""

    loss: float
    complexity: float
    confidence: float
    norm: float

    @property
    def value(self) -> float:
        """The sum of the three."""
        return self.loss + self.complexity + self.confidence


def margin_bound(
    reached: np.ndarray, norm: float, radius: float, delta: float
) -> MarginBound:
    """error ≤ (1/m) Σᵢ min(1, ξᵢ) + 2BR/√m + 3 √(ln(2/δ) / 2m), with probability 1 - δ.

    Over m independent draws of points, for all f of ‖f‖ ≤ B at once; ξᵢ = max(0,
    1 - yᵢ f(xᵢ)), R² = max k(xᵢ, xᵢ). B and k are fixed before the points are seen, and
    f has no bias.

    Parameters
    ----------
    reached : the m numbers yᵢ f(xᵢ)
    norm, radius : B and R
    """
    m = len(reached)
    ramp = np.clip(1 - np.asarray(reached, dtype=float), 0, 1)
    confidence = 3 * float(np.sqrt(np.log(2 / delta) / (2 * m)))
    complexity = 2 * norm * radius / float(np.sqrt(m))
    return MarginBound(float(ramp.mean()), complexity, confidence, norm)


def fitted_margin_bound(
    reached: npt.ArrayLike, norm: float, radius: float, delta: float
) -> MarginBound:
    """`margin_bound` for a norm that was fitted: the best B of a doubling grid.

    The bound holds at once for B = 1, 2, ½, 4, ¼, ..., the k-th of them with
    δ / k(k + 1), which sum to δ (union bound). As no sign changes when f is multiplied,
    f is brought to the norm B at each B.

    Parameters
    ----------
    norm : ‖f‖
    """
    reached = np.asarray(reached, dtype=float)
    powers = [0, *(sign * j for j in range(1, STEPS + 1) for sign in (1, -1))]
    found = []
    for k, power in enumerate(powers, start=1):
        B = 2.0**power
        scaled = reached * (B / norm if norm > 0 else 1.0)
        found.append(margin_bound(scaled, B, radius, delta / (k * (k + 1))))
    return min(found, key=lambda bound: bound.value)


# Any Lipschitz loss


class LossBound(NamedTuple):
    """loss + complexity + confidence, and the numbers they were taken with."""

    loss: float
    complexity: float
    confidence: float
    norm: float  # B
    ceiling: float  # c
    steepness: float  # L

    @property
    def value(self) -> float:
        """The sum of the three."""
        return self.loss + self.complexity + self.confidence


def loss_bound(
    loss: Any,
    target: np.ndarray,
    values: np.ndarray,
    norm: float,
    radius: float,
    delta: float,
    *,
    clip: float,
    largest: float = 0.0,
    rounding: float = 0.0,
) -> LossBound:
    """risk ≤ (1/m) Σᵢ ℓ(yᵢ, f(xᵢ)) + 2LBR/√m + 3c √(ln(2/δ) / 2m), probability 1 - δ.

    Over m independent draws of points with their targets, for all f of ‖f‖ ≤ B at once;
    the risk is the mean of ℓ over new points. ℓ has values in [0, c] and no slope
    beyond L. B, c and k are fixed before the points are seen, and f has no bias.

    Few losses end at some c. With clip=c the loss is min(c, ℓ), and L its steepest
    slope: that of ℓ, or where ℓ has none, as the squared one, that of ℓ where it
    reaches c, 2√c. With clip=inf it is ℓ itself, and c and L are its largest value and
    slope over |f| ≤ BR and |y| ≤ largest: then k(x, x) ≤ R² at new points too.

    Parameters
    ----------
    loss : a convex loss of `mercer.losses`
    target, values : (m,) arrays yᵢ and f(xᵢ)
    norm, radius : B and R
    largest : what |y| is at most, for a loss of numbers and clip=inf
    rounding : what the values may be off by
    """
    if np.isinf(clip):
        steepness, ceiling = extremes(loss, norm * radius, largest)
    else:
        steepness, ceiling = clipped_steepness(loss, clip), float(clip)
    m = len(values)
    losses = np.minimum(loss.value(target, values) + steepness * rounding, ceiling)
    # The mean of m numbers is off by less than m roundings.
    mean = float(losses.mean() * (1 + m * np.finfo(float).eps))
    complexity = 2 * steepness * norm * radius / float(np.sqrt(m))
    confidence = 3 * ceiling * float(np.sqrt(np.log(2 / delta) / (2 * m)))
    return LossBound(mean, complexity, confidence, norm, ceiling, steepness)


def fitted_loss_bound(
    loss: Any,
    target: np.ndarray,
    values: np.ndarray,
    norm: float,
    radius: float,
    delta: float,
    **options: float,
) -> LossBound:
    """`loss_bound` for a norm that was fitted: the best B ≥ ‖f‖ of a doubling grid.

    The bound holds at once for B = 1, 2, ½, 4, ¼, ..., the k-th of them with
    δ / k(k + 1), which sum to δ (union bound).

    Parameters
    ----------
    norm : ‖f‖
    """
    least = power_above(norm)
    return min(
        (
            loss_bound(
                loss, target, values, 2.0**power, radius, share(power, delta), **options
            )
            for power in range(least, max(least, 0) + 1)
        ),
        key=lambda bound: bound.value,
    )


def power_above(number: float) -> int:
    """The least p with 2ᵖ ≥ the number, from -64 on."""
    if not number > 2.0**-STEPS:
        return -STEPS
    fraction, exponent = np.frexp(number)
    return int(exponent) - int(fraction == 0.5)


def share(power: int, delta: float) -> float:
    """δ / k(k + 1) for the k-th power of two in the order 1, 2, ½, 4, ¼, ..."""
    k = 2 * power if power > 0 else 1 - 2 * power
    return delta / (k * (k + 1))


def extremes(loss: Any, reach: float, largest: float) -> tuple[float, float]:
    """The steepest slope and the largest value of a loss over |f| ≤ reach, |y| ≤ Y."""
    f = np.array([-reach, reach])
    y = np.array([1.0, 1.0]) if loss.of_sides else np.array([largest, -largest])
    # A convex function of f is largest, and steepest, at the ends.
    slope = float(np.abs(loss.slope(y, f)).max())
    return min(slope, float(loss.lipschitz)), float(loss.value(y, f).max())


def clipped_steepness(loss: Any, ceiling: float) -> float:
    """The steepest slope of min(c, ℓ): that of ℓ, or the one where ℓ reaches c."""
    if np.isfinite(loss.lipschitz):
        return float(loss.lipschitz)
    # A loss of sides grows as y f falls, one of numbers as f leaves y on either side.
    y = 1.0 if loss.of_sides else 0.0
    return max(
        _slope_at(loss, y, direction, ceiling)
        for direction in ((-1.0,) if loss.of_sides else (-1.0, 1.0))
    )


def _slope_at(loss: Any, y: float, direction: float, ceiling: float) -> float:
    """|slope| of the loss where it reaches the ceiling, going in one direction."""
    low, high = (-1.0 if loss.of_sides else 0.0), 1.0
    while loss.value(y, direction * high) < ceiling and high < 1e150:
        high *= 2
    while loss.value(y, direction * low) >= ceiling and -1e150 < low < 0:
        low *= 2
    for _ in range(200):
        middle = (low + high) / 2
        inside = loss.value(y, direction * middle) < ceiling
        low, high = (middle, high) if inside else (low, middle)
    return float(np.abs(loss.slope(y, direction * high)))


# Leaving one point out


def xi_alpha(
    alpha: np.ndarray,
    reached: np.ndarray,
    curvature: float | np.ndarray,
    tol: float = 0.0,
) -> np.ndarray:
    """Which points can be mistakes when left out: αᵢ > 0 and αᵢ cᵢ + ξᵢ ≥ 1.

    Without bias cᵢ = k(xᵢ, xᵢ): the rest gives yᵢ f₋ᵢ(xᵢ) ≥ yᵢ f(xᵢ) - αᵢ k(xᵢ, xᵢ)
    (Jaakkola and Haussler). With bias cᵢ = 2 (max k - min k), where some support vector
    is free (Joachims).

    Parameters
    ----------
    alpha, reached : (m,) arrays αᵢ and yᵢ f(xᵢ), at the optimum to within tol
    """
    slack = np.maximum(0, 1 - reached)
    return (alpha > 0) & (alpha * curvature + slack >= 1 - tol)


def spans(
    gram: Gram, free: np.ndarray, others: np.ndarray, bias: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Sᵢ², how far φ(xᵢ) is from the span of the (other) free support vectors, squared.

    With a bias the span is affine: its coefficients sum to 1. As long as no other point
    becomes free, bound or unused by it, leaving xᵢ out takes αᵢ Sᵢ² from yᵢ f(xᵢ).

    Parameters
    ----------
    free, others : indices of the free support vectors, and of those at their bound

    Returns
    -------
    (a,) array for the free ones, (b,) for the others; ∞ where nothing is left to span
    """
    diagonal = np.asarray(gram.diag(), dtype=float)
    if not len(free):
        return np.zeros(0), np.full(len(others), np.inf) if bias else diagonal[others]
    M = _bordered(np.asarray(gram.take(free).dense(), dtype=float), bias)
    inverse = interruptible(np.linalg.inv, M, work=1.0 * len(M) ** 3)
    height = np.diagonal(inverse)[: len(free)]
    with np.errstate(divide="ignore"):
        own = 1 / np.maximum(height, 0)
    rest = np.empty(len(others))
    for rows in row_blocks(len(others), len(free), 16.0):
        left, right = (take(gram.X, index) for index in (others[rows], free))
        v = np.asarray(gram.kernel(left, right), dtype=float)
        v = np.column_stack([v, np.ones(len(v))]) if bias else v
        rest[rows] = diagonal[others[rows]] - np.sum(multiply(v, inverse) * v, axis=1)
    return own, np.maximum(rest, 0)


def _bordered(K: np.ndarray, bias: bool) -> np.ndarray:
    """K, or with a bias [[K, 1], [1ᵀ, 0]]."""
    n = len(K)
    M = np.zeros((n + bias, n + bias))
    M[:n, :n] = K
    M[np.diag_indices(n)] += RIDGE * max(np.trace(K) / n, np.finfo(float).tiny)
    M[n:, :n] = M[:n, n:] = 1
    return M


def spread(gram: Gram) -> float:
    """max k - min k over all pairs of the points."""
    n, (low, high) = gram.shape[0], (np.inf, -np.inf)
    for rows in row_blocks(n, n, 16.0):
        block = gram.rows(rows)
        low, high = min(low, float(block.min())), max(high, float(block.max()))
    return high - low


# The table


@dataclass(frozen=True)
class Bound:
    """A row of the table.

    Attributes
    ----------
    name : by which `Bounds` finds it
    value : the number
    kind : "measured"; "exact"; "bound, probability 1 - δ"; "bound, leave-one-out";
        "estimate"
    formula, assumptions : what was computed, and what must hold for it to mean that
    error : one standard error, of a value found by random draws
    parts : the terms of the formula, where there are several
    most : what is bounded is never more than this: a bound beyond it says nothing

    Examples
    --------
    >>> from mercer import KernelRidge, Linear, bounds
    >>> X, y = [[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]
    >>> row = bounds(KernelRidge(kernel=Linear()).fit(X, y), X, y)["leave-one-out"]
    >>> row.kind, round(row.value, 4)
    ('exact', 0.3467)
    """

    name: str
    value: float
    kind: str
    formula: str
    assumptions: str
    error: float | None = None
    parts: tuple[float, ...] = ()
    most: float = 1.0


WIDTH = 100  # of the printed table


@dataclass(frozen=True, repr=False)
class Bounds:
    """The rows, by place or by name, and those that are absent: (name, reason).

    Printed, it is a table of names, values, kinds and formulas; then the rows that do
    not apply to the machine, with the reason.

    Examples
    --------
    >>> from mercer import Linear, SVC, bounds
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], [-1, -1, 1, 1]
    >>> table = bounds(SVC(kernel=Linear()).fit(X, y), X, y)
    >>> [row.name for row in table][:3], "leave-one-out" in table
    (['training error', 'margin bound', 'loss bound'], False)
    >>> dict(table.absent)["leave-one-out"]
    'it takes a fit for each point that matters; pass refit=True'
    """

    rows: tuple[Bound, ...]
    absent: tuple[tuple[str, str], ...]
    machine: str
    n: int
    delta: float

    def __iter__(self) -> Iterator[Bound]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, name: object) -> bool:
        return any(row.name == name for row in self.rows)

    def __getitem__(self, name: str) -> Bound:
        for row in self.rows:
            if row.name == name:
                return row
        for missing, reason in self.absent:
            if missing == name:
                raise KeyError(f"{name} is absent: {reason}.")
        known = ", ".join(row.name for row in self.rows)
        raise KeyError(f"No row {name!r}; the rows are {known}.")

    def __repr__(self) -> str:
        lines = [self._title(), *_aligned([_cells(row) for row in self.rows])]
        lines += [f"  {note}" for note in self._vacuous()]
        lines += [
            fill(
                note,
                WIDTH,
                initial_indent="  ",
                subsequent_indent="      ",
                break_on_hyphens=False,
            )
            for note in self._reasons()
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        notes = [self._title(), *self._vacuous(), *self._reasons()]
        return table(map(_cells, self.rows), notes)

    def _title(self) -> str:
        return f"{self.machine} on {self.n} points, δ = {self.delta:g}"

    def _vacuous(self) -> list[str]:
        """A line for each bound that is no less than what always holds."""
        return [
            f"* {row.name} ≥ {row.most:g}: says nothing"
            for row in filter(_says_nothing, self.rows)
        ]

    def _reasons(self) -> list[str]:
        """A line for each reason why rows are absent."""
        return [
            f"absent: {', '.join(name for name, _ in rows)}: {reason}."
            for reason, rows in groupby(self.absent, key=lambda pair: pair[1])
        ]


def _says_nothing(row: Bound) -> bool:
    return row.kind.startswith("bound") and bool(row.value >= row.most)


def _cells(row: Bound) -> tuple[str, ...]:
    value = f"{row.value:.4g}" if row.value >= 1e4 else f"{row.value:.4f}"
    error = "*" * _says_nothing(row) if row.error is None else f"± {row.error:.1g}"
    return row.name, value, error, row.kind, row.formula


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Lines of a table, its second column to the right."""
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        f"  {name:<{wide[0]}}  {value:>{wide[1]}} {error:<{wide[2]}}  "
        f"{kind:<{wide[3]}}  {formula}"
        for name, value, error, kind, formula in rows
    ]
