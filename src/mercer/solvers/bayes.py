"""Sparse Bayesian expansions: what is to be found, the basis, and what is then known.

    f = Σᵢ wᵢ k(xᵢ, ·) + w₀,    wᵢ ~ N(0, 1/αᵢ),    target ~ f

The α are to make the target as likely as they can; most of them go to ∞, which leaves
wᵢ = 0. No Mercer condition: k(·, xᵢ) is a column like any other. Tipping, "Sparse
Bayesian learning and the relevance vector machine", JMLR 1 (2001).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.gram import Gram
from mercer.kernels.base import BLOCK_MB, row_blocks
from mercer.native import memory
from mercer.native.clock import OutOfTime, breakable
from mercer.outcomes import Run, Status
from mercer.solvers.features import features_of
from mercer.solvers.krylov import Pulse, whole_products
from mercer.solvers.primal import (
    has_small_map,
    product,
    quadratic,
    weighted_normal,
)

FEW = 3000  # points up to which K is held, whatever the kernel
MOST = 50_000  # points whose K is computed again and again, where it is not held
LIKELIHOODS = ("normal", "logistic")


@dataclass(frozen=True, eq=False)
class SparseBayes:
    """max over α (and β) of log ∫ Πᵢ p(targetᵢ | f(xᵢ))^weightᵢ N(w | 0, A⁻¹) dw.

    A weight of 2 is the point twice; points of weight 0 do not belong here.

    Parameters
    ----------
    gram : the Gram of n points
    target : n numbers; ±1 for "logistic"
    likelihood : "normal", target = f + noise of precision β; "logistic",
        p(target = 1) = 1 / (1 + exp(-f))
    bias : whether the constant 1 is a column too
    weight : n numbers > 0; None for ones
    noise : for "normal" the standard deviation of the noise, if it is known

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gram, RBF
    >>> from mercer.solvers import EvidenceAscent, SparseBayes
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> problem = SparseBayes(Gram(RBF(1), X), np.sin(X[:, 0]), noise=0.1)
    >>> len(EvidenceAscent().solve(problem).index) < 10
    True
    """

    gram: Gram
    target: Any
    likelihood: str = "normal"
    bias: bool = True
    weight: Any = None
    noise: float | None = None

    def __post_init__(self) -> None:
        n = self.gram.shape[0]
        target = np.asarray(self.target, dtype=float)
        weight = np.ones(n) if self.weight is None else np.asarray(self.weight, float)
        if self.likelihood not in LIKELIHOODS:
            raise ValueError(
                f"SparseBayes knows the likelihoods normal and logistic; got "
                f"{self.likelihood!r}."
            )
        for name, values in (("target", target), ("weight", weight)):
            if values.shape != (n,):
                raise ValueError(
                    f"SparseBayes needs one {name} per point, ({n},); got shape "
                    f"{values.shape}."
                )
        if self.likelihood == "logistic" and not np.all(np.abs(target) == 1):
            raise ValueError("SparseBayes needs targets +1 and -1 for logistic.")
        if not np.all((weight > 0) & (weight < np.inf)):
            raise ValueError(
                "SparseBayes needs finite weights > 0; leave out the rest."
            )
        if self.noise is not None and not 0 < self.noise < np.inf:
            raise ValueError(f"SparseBayes needs noise > 0; got noise={self.noise!r}.")
        rounding = float(np.finfo(float).eps * np.abs(target).max(initial=0.0))
        if self.noise is not None and self.noise < rounding:
            raise ValueError(
                f"noise={self.noise!r} is less than what targets of this size are "
                f"rounded by, {rounding:.2g}. Give a larger one, or None to estimate "
                "it."
            )
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "weight", weight)


@dataclass(frozen=True, eq=False)
class Posterior:
    """w ~ N(mean, covariance) given the target, at the α (and β) that were found.

    Attributes
    ----------
    index : the M points whose α is finite, in increasing order
    mean, bias : the means of their w, (M,), and of w₀
    alpha : (M + 1,) precisions before the target was seen, w₀ last; (M,) without bias.
        Where w₀ was left out its α is ∞
    covariance : of w in the same order
    beta : 1 / variance of the noise; NaN for "logistic"
    evidence : log p(target), for "logistic" by Laplace's approximation at the mode
    curve : the evidence after each step; it never falls
    violation : the most that one more step would add to the evidence; NaN where the
        search was stopped before it had looked at all columns
    run : the steps, how they ended, and how long they took

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gram, RBF
    >>> from mercer.solvers import EvidenceAscent, SparseBayes
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> problem = SparseBayes(Gram(RBF(1), X), np.sin(X[:, 0]), noise=0.1)
    >>> found = EvidenceAscent().solve(problem)
    >>> round(found.beta, 6), found.covariance.shape == (len(found.alpha),) * 2
    (100.0, True)
    >>> bool(np.all(np.diff(found.curve) >= -1e-9))
    True
    """

    index: np.ndarray
    mean: np.ndarray
    bias: float
    alpha: np.ndarray
    covariance: np.ndarray
    beta: float
    evidence: float
    curve: np.ndarray
    violation: float
    run: Run = field(default_factory=Run)

    @property
    def status(self) -> Status:
        """How the search ended."""
        return self.run.status

    def variance(self, columns: np.ndarray) -> np.ndarray:
        """The variance of f at m points, from their kernel values with the M points."""
        if len(self.alpha) > columns.shape[1]:
            columns = np.column_stack([columns, np.ones(len(columns))])
        # Rounding can leave -1e-17 where the target determines f.
        return np.maximum(np.sum((columns @ self.covariance) * columns, axis=1), 0)


def affordable(gram: Gram) -> bool:
    """Whether a quarter of the memory that is free has room for K."""
    return memory.keeps(8.0 * gram.shape[0] ** 2)


def _check_size(n: int) -> None:
    """Refuse a K that is neither in memory nor computed in a reasonable time."""
    if n > MOST:
        available = memory.available_memory()
        raise MemoryError(
            "A relevance vector machine looks at all kernel values of its points some "
            f"hundred times: {n:,} points have {8e-9 * n**2:.3g} GB of them, "
            f"{available / 1e9:.3g} GB are available, of which it keeps a quarter, and "
            "computing them anew each time would take hours. Take fewer points, or a "
            "kernel with few explicit features, as Nystrom(kernel, 500) is."
        )


class Basis:
    """The columns k(·, xⱼ), and 1 for the bias, each divided to have mean square 1.

    Dividing a column multiplies its α and changes nothing else: the numbers are then
    those of the data and not of the kernel's units. K is held where a quarter of the
    memory has room for it, and computed again and again where not; a small explicit
    map, K = ΦΦᵀ, stands in for it. What would take hours is refused.

    Parameters
    ----------
    pulse : is called with how much of a long product is done, and ends it by OutOfTime
    """

    def __init__(self, problem: SparseBayes, pulse: Pulse | None = None):
        gram = problem.gram.double()
        n = gram.shape[0]
        self.weight, self.total = problem.weight, float(problem.weight.sum())
        self.size, self.points = n + problem.bias, n
        self.pulse = Pulse() if pulse is None else pulse
        by_map = has_small_map(gram, FEW)
        self.features = features_of(gram).held() if by_map else None
        self.held = not by_map and affordable(gram)
        if not by_map and not self.held:
            _check_size(n)
        self.gram = gram
        if self.held:
            try:
                with breakable(0.5):
                    self.gram = gram.held()
            except OutOfTime:
                self.held = False
        self.whole = whole_products(self.gram, self.pulse, breaks=True)
        self.rows = 0 if by_map else n
        self.scale = np.ones(self.size)
        size = np.sqrt(self.squares(self.weight) / self.total)
        if not np.isfinite(size).all():
            j = int(np.argmin(np.isfinite(size)))
            raise ValueError(
                f"The kernel {gram.kernel} has values, or squares of them, that are "
                f"not finite, at point {j}. Scale the points, or normalise the kernel."
            )
        self.empty = size == 0  # a column of zeros says nothing, and is never used
        self.scale = np.where(self.empty, 1.0, size)

    def columns(self, index: np.ndarray) -> np.ndarray:
        """The (n, len(index)) array of some columns."""
        columns = np.ones((len(index), self.points))
        of_points = index < self.points
        if of_points.any() and self.features is not None:
            chosen = self.features.matrix[index[of_points]]
            values = self.features.matrix @ chosen.T
            values = values.toarray() if self.features.sparse else values
            columns[of_points] = values.T
        elif of_points.any():
            columns[of_points] = self.gram.rows(index[of_points])
            self.rows += int(of_points.sum())
        return columns.T / self.scale[index]

    def products(self, V: np.ndarray) -> np.ndarray:
        """⟨φⱼ, v⟩ of every column with every v in the columns of V."""
        products = np.empty((self.size, *V.shape[1:]))
        self._tick("products")
        if self.features is not None:
            products[: self.points] = product(self.features, V)
        elif V.ndim == 1:
            products[: self.points] = self.whole(V[:, None])[:, 0]
        else:
            products[: self.points] = self.whole(V)
        products[self.points :] = V.sum(axis=0)
        self.rows += 0 if self.held or self.features is not None else self.points
        return (products.T / self.scale).T

    def squares(self, b: np.ndarray) -> np.ndarray:
        """Σᵢ bᵢ φⱼ(xᵢ)² of every column."""
        squares = np.empty(self.size)
        squares[self.points :] = b.sum()
        self._tick("squares of kernel values")
        if self.features is not None:
            # Σᵢ bᵢ (φᵢᵀφⱼ)² = φⱼᵀ (ΦᵀBΦ) φⱼ
            squares[: self.points] = quadratic(
                self.features, weighted_normal(self.features, b)
            )
            return squares / self.scale**2
        for rows in row_blocks(self.points, self.points, BLOCK_MB):
            self._tick("squares of kernel values", rows.start / self.points)
            block = np.asarray(self.gram.rows(rows), dtype=float)
            squares[rows] = np.square(block) @ b
        return squares / self.scale**2

    def _tick(self, stage: str, share: float | None = None) -> None:
        self.pulse(stage, share)
        if self.pulse.stopped:
            raise OutOfTime(stage, share)


class SingleColumn:
    """One column alone, of which all is known without the others: 1, or k(·, x₀)."""

    def __init__(self, problem: SparseBayes):
        self.weight, self.total = problem.weight, float(problem.weight.sum())
        self.size, self.points = 1, 0 if problem.bias else 1
        self.rows = self.points
        n = problem.gram.shape[0]
        column = np.ones((n, 1))
        if self.points:
            column = np.asarray(problem.gram.double().rows(np.arange(1)), float).T
        size = float(np.sqrt(self.weight @ column[:, 0] ** 2 / self.total))
        self.empty = np.array([size == 0])
        self.scale = np.array([size or 1.0])
        self.column = column / self.scale

    def columns(self, index: np.ndarray) -> np.ndarray:
        return self.column[:, index]

    def products(self, V: np.ndarray) -> np.ndarray:
        return self.column.T @ V

    def squares(self, b: np.ndarray) -> np.ndarray:
        return np.square(self.column).T @ b
