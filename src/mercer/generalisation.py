"""How far the error on new points can be from that on the points learnt: the formulas.

Margin and complexity   Bartlett and Mendelson, JMLR 3 (2002); Koltchinskii and
                        Panchenko, Annals of Statistics 30 (2002)
leaving one point out   Jaakkola and Haussler, AISTATS 1999; Joachims, ICML 2000;
                        Vapnik and Chapelle, Neural Computation 12 (2000)

`mercer.bounds` puts them into a table for a fitted machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mercer.gram import Gram
from mercer.interruptible import interruptible, multiply
from mercer.kernels.base import row_blocks
from mercer.points import take

RIDGE = 1e-10  # relative; keeps the matrix of dependent support vectors invertible
STEPS = 64  # the grid of norms goes from 2⁻⁶⁴ to 2⁶⁴


class Rademacher(NamedTuple):
    """The complexity of a ball of functions, by draws of signs and at most."""

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
    """
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


def margin_bound(reached, norm: float, radius: float, delta: float) -> MarginBound:
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
    reached, norm: float, radius: float, delta: float
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


# Leaving one point out


def xi_alpha(alpha, reached, curvature, tol: float = 0.0) -> np.ndarray:
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


def spans(gram: Gram, free, others, bias: bool) -> tuple[np.ndarray, np.ndarray]:
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
    """

    name: str
    value: float
    kind: str
    formula: str
    assumptions: str
    error: float | None = None
    parts: tuple[float, ...] = ()


@dataclass(frozen=True, repr=False)
class Bounds:
    """The rows, by place or by name, and what could not be said: (name, reason)."""

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

    @staticmethod
    def _is_empty(row: Bound) -> bool:
        return row.kind.startswith("bound") and row.value >= 1

    def __repr__(self) -> str:
        lines = [f"{self.machine} on {self.n} points, δ = {self.delta:g}"]
        for row in self.rows:
            value = f"{row.value:.4f}"
            value += "" if row.error is None else f" ± {row.error:.1g}"
            empty = ", ≥ 1: says nothing" if self._is_empty(row) else ""
            kind = row.kind + empty
            lines.append(f"  {row.name:<18} {value:<16} {kind:<26} {row.formula}")
        lines += [f"  {name:<18} absent: {reason}" for name, reason in self.absent]
        return "\n".join(lines)
