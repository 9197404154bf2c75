"""Gaussian processes: how likely targets are under one, and the slope of that.

Rasmussen and Williams, Gaussian Processes for Machine Learning (2006): algorithm 2.1
for normal noise, 3.1 and 5.1 (Laplace's approximation) for two classes. The slopes of
both are Σᵢⱼ Wᵢⱼ ∂k(xᵢ, xⱼ)/∂θ for one matrix W, and nothing n × n is kept for each
parameter: A = K + noise is factored once, A⁻¹ comes of its factors in place, and W
takes its room.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erf, expit

from mercer.data.points import Points, count, take
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.native import lapack
from mercer.native.interruptible import multiply
from mercer.native.memory import check_room
from mercer.native.threads import blas_for
from mercer.solvers.ascent import FreeParameters
from mercer.solvers.laplace import SETTLED, near_mode, probability, scale_both_ways

STRIP = 512  # columns of a matrix that are written at a time
WHOLE = 1500  # points up to which slopes are summed over all pairs at once
MANY = 500  # points from which on steps of Newton's method are in single precision
STILL = 1e-9  # a step of Newton's method, relative to f, that ends it


class Factor(NamedTuple):
    """A = RᵀR in the upper triangle of `matrix`, and A⁻¹ target."""

    matrix: np.ndarray
    coef: np.ndarray
    evidence: float


@dataclass(frozen=True, eq=False)
class NormalEvidence:
    """ln p(target | θ) of target = f(x) + noise, f a process with the kernel as prior.

        -½ Σ yᵀA⁻¹y - q/2 ln |A| - nq/2 ln 2π,    A = K + diag(alpha) + noise I

    Parameters
    ----------
    X : n points
    target : (n, q) array, q functions of one prior
    alpha : a number ≥ 0, or n of them
    free : the parameters of the kernel; `noise` among its extras is learnt too
    profiled : whether A is known up to a factor only, the likeliest of which is taken
    noise : the name of the noise
    """

    X: Points
    target: np.ndarray
    alpha: Any
    free: FreeParameters
    profiled: bool = False
    noise: str = "noise"

    def factored(self, kernel: Kernel, noise: float = 0.0) -> Factor | None:
        """The factors of A; None where it is not positive definite."""
        n, q = self.target.shape
        with blas_for(n):
            A = _triangle(kernel, self.X)
            np.fill_diagonal(A, A.diagonal() + self.alpha + noise)
            if not lapack.factor(A):
                return None
            coef = lapack.solve(A, self.target)
        fit = float(np.einsum("ij,ij->", self.target, coef))
        logarithm = float(np.log(A.diagonal()).sum())
        value = -fit / 2 - q * (logarithm + n / 2 * math.log(2 * math.pi))
        if self.profiled:
            share = max(fit / (n * q), np.finfo(float).tiny)
            value = -q * (logarithm + n / 2 * (1 + math.log(2 * math.pi * share)))
        return Factor(A, coef, value)

    def value(self, theta: np.ndarray) -> float:
        """The evidence alone; -∞ where A is not positive definite."""
        kernel, extra = self.free.at(theta)
        found = self.factored(kernel, extra.get(self.noise, 0.0))
        return -math.inf if found is None else found.evidence

    def objective(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The evidence and its slope by θ: W = ½ (Σ A⁻¹y yᵀA⁻¹ - q A⁻¹)."""
        kernel, extra = self.free.at(theta)
        found = self.factored(kernel, extra.get(self.noise, 0.0))
        if found is None:
            return -math.inf, np.zeros(len(theta))
        A, coef = found.matrix, found.coef
        q = coef.shape[1]
        if self.profiled:
            fit = float(np.einsum("ij,ij->", self.target, coef))
            coef = coef * math.sqrt(coef.size / max(fit, np.finfo(float).tiny))
        with blas_for(len(A)):
            lapack.invert_positive(A)
            for columns in _strips(len(A)):
                strip = A[: columns.stop, columns]
                strip *= -q
                strip += coef[: columns.stop] @ coef[columns].T
        W = _lower(A)
        slopes = weighted_slopes(kernel, self.X, W, self.free)
        slopes[self.noise] = float(W.trace())
        return found.evidence, self.free.gradient(theta, slopes)


@dataclass(frozen=True, eq=False)
class Mode:
    """Laplace's approximation: f at the mode, and what predictions need of it."""

    f: np.ndarray
    shares: np.ndarray  # π = p(target = 1 | f)
    root: np.ndarray  # √(π (1 - π))
    matrix: np.ndarray  # R of B = RᵀR = I + root K root
    coef: np.ndarray  # of f = K coef
    evidence: float

    def variance(self, across: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Of f at new points: from their k(x, X), (m, n), and k(x, x)."""
        scaled = np.asfortranarray((across * self.root).T)
        V = lapack.half(self.matrix.T, scaled)
        return np.maximum(own - np.einsum("ij,ij->j", V, V), 0.0)


@dataclass(frozen=True, eq=False)
class LogisticEvidence:
    """ln p(target | θ) of p(target = 1) = 1 / (1 + e^-f), by Laplace's approximation.

    Parameters
    ----------
    X : n points
    target : n numbers, 0 or 1
    free : the parameters of the kernel
    max_iter : steps of Newton's method
    start : where it begins, n numbers, changed to where it ended; None for 0. The mode
        is the same from everywhere; of a kernel that changes little it is near
    """

    X: Points
    target: np.ndarray
    free: FreeParameters
    max_iter: int = 100
    start: np.ndarray | None = None

    def mode(self, kernel: Kernel) -> Mode:
        """f of the highest p(target | f) p(f), by Newton's method."""
        with blas_for(len(self.target)):
            return self._mode(_matrix(kernel, self.X))

    def _mode(self, K: np.ndarray) -> Mode:
        zero = np.zeros(len(K))
        starts = [zero] if self.start is None else [self.start, zero]
        ways = (self._ascended(K, f, f is zero) for f in starts)
        found = next(way for way in ways if way is not None)
        if self.start is not None:
            self.start[:] = found.f
        return found

    def _ascended(self, K: np.ndarray, f: np.ndarray, at_last: bool) -> Mode | None:
        """The mode from f on; None where a step led downhill, unless `at_last`.

        Steps are not shortened, as in algorithm 3.1: from far away they may overshoot.
        """
        near: tuple[np.ndarray, int] | None = (f, 0)
        if len(K) >= MANY:
            near = near_mode(K, self.target, f, self.max_iter - 1)
        if near is None and not at_last:
            return None
        f, steps = near or (f, 0)
        y, before, B = self.target, -math.inf, np.empty_like(K)
        for _ in range(self.max_iter - steps):
            shares = expit(f)
            root = np.sqrt(shares * (1 - shares))
            scale_both_ways(K, root, B)
            if not lapack.factor(B):
                raise np.linalg.LinAlgError(
                    "I + √W K √W is not positive definite: the kernel is not positive "
                    "semidefinite on these points. Choose another kernel, or add a "
                    "constant to its diagonal by alpha of GaussianProcessRegressor."
                )
            b = root**2 * f + (y - shares)
            inner = lapack.solve(B, (root * multiply(K, b))[:, None])[:, 0]
            coef = b - root * inner
            last, f = f, multiply(K, coef)
            value = probability(coef, f, y) - float(np.log(B.diagonal()).sum())
            if value < before - SETTLED and not at_last:
                return None
            still = np.abs(f - last).max() <= STILL * (1 + np.abs(f).max())
            if value - before < SETTLED or still:
                break
            before = value
        return Mode(f, shares, root, B, y - shares, value)

    def value(self, theta: np.ndarray) -> float:
        """The evidence alone."""
        return self.mode(self.free.at(theta)[0]).evidence

    def objective(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The evidence and its slope by θ.

        With g = y - π, R = √W B⁻¹ √W and s = -½ (1 - diag B⁻¹)(1 - 2π), the third
        derivative times the variances at the mode, the weights are
        ½ ggᵀ - ½ R + (s - R K s) gᵀ.
        """
        kernel, _ = self.free.at(theta)
        n = len(self.target)
        with blas_for(n):
            K = _matrix(kernel, self.X)
            mode = self._mode(K)
            R, root, g = mode.matrix, mode.root, mode.coef
            lapack.invert_positive(R)
            change = -0.5 * (1 - R.diagonal()) * (1 - 2 * mode.shares)
            _mirror(R)
            turned = change - root * multiply(R, root * multiply(K, change))
            for columns in _strips(n):
                strip, rows = R[: columns.stop, columns], slice(columns.stop)
                strip *= -root[rows, None] * root[columns]
                strip += np.multiply.outer(g[rows] + turned[rows], g[columns])
                strip += np.multiply.outer(g[rows], turned[columns])
        slopes = weighted_slopes(kernel, self.X, _lower(R), self.free)
        return mode.evidence, self.free.gradient(theta, slopes)


def _triangle(kernel: Kernel, X: Points) -> np.ndarray:
    """K in the upper triangle of a column-major array, with anything below it."""
    n = count(X)
    check_room(16.0 * n * n, f"A Gaussian process on {n} points takes", "Take fewer.")
    return Gram(kernel, X).lower().T


def _matrix(kernel: Kernel, X: Points) -> np.ndarray:
    """K in a column-major float64 array of its own."""
    K = _triangle(kernel, X)
    _mirror(K)
    return K


def _strips(n: int) -> list[slice]:
    return [slice(i, min(i + STRIP, n)) for i in range(0, n, STRIP)]


def _mirror(A: np.ndarray) -> None:
    """Copy the upper triangle of A to the lower one."""
    for part in _strips(len(A)):
        A[part.stop :, part] = A[part, part.stop :].T
        square = A[part, part]
        square[:] = np.triu(square) + np.triu(square, 1).T


def _lower(A: np.ndarray) -> np.ndarray:
    """The sum of Wᵢⱼ Dᵢⱼ over all pairs, W = A/2, in the pairs i ≥ j of a symmetric D.

    From the upper triangle of A, in its own room: a row-major array with 0 above its
    diagonal.
    """
    W = A.T
    for rows in _strips(len(W)):
        W[rows, rows.stop :] = 0.0
        square = W[rows, rows]
        square[:] = np.tril(square)
    np.fill_diagonal(W, W.diagonal() / 2)
    return W


def lower_weights(W: np.ndarray) -> np.ndarray:
    """The lower triangle with the same Σᵢⱼ Wᵢⱼ Dᵢⱼ for every symmetric D."""
    lower = np.tril(W + W.T)
    np.fill_diagonal(lower, W.diagonal())
    return lower


def weighted_slopes(
    kernel: Kernel, X: Points, W: np.ndarray, free: FreeParameters
) -> dict[str, Any]:
    """Σᵢⱼ Wᵢⱼ ∂k(xᵢ, xⱼ)/∂θ of a lower triangle W, for many points in rows."""
    names = [name for name in free.names if name not in free.extra]
    if not names:
        return {}
    n = count(X)
    if n <= WHOLE or hasattr(kernel, "own_gradient"):
        return kernel.parameter_gradient(X, weight=W, names=names)
    total: dict[str, Any] = dict.fromkeys(names, 0.0)
    for rows in _strips(n):
        part = kernel.parameter_gradient(
            take(X, rows),
            take(X, slice(0, rows.stop)),
            weight=W[rows, : rows.stop],
            names=names,
        )
        for name in names:
            total[name] = total[name] + part[name]
    return total


# The mean of 1 / (1 + e^-f) where f is normal

_STEEP = 0.6  # of the error function that takes most of it
_GRID = np.arange(-40.0, 40.25, 0.25)
_NODES = np.arange(-9.0, 9.25, 0.25)


def mean_logistic(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """E 1 / (1 + e^-f) for f ~ N(mean, variance), to rounding.

    Φ(κ f) has its mean in closed form; what is left over is smooth and vanishes far
    out, so that the trapezoid rule is exact, on a grid of f or of the normal variable.
    """
    deviation = np.sqrt(np.maximum(variance, 0.0))
    known = _normal(_STEEP * mean / np.sqrt(1 + _STEEP**2 * deviation**2))
    wide = deviation >= 1
    out = np.empty_like(known)
    m, s = mean[wide, None], deviation[wide, None]
    heights = np.exp(-0.5 * ((_GRID - m) / s) ** 2) / (s * math.sqrt(2 * math.pi))
    out[wide] = 0.25 * heights @ _rest(_GRID)
    m, s = mean[~wide, None], deviation[~wide, None]
    heights = np.exp(-0.5 * _NODES**2) / math.sqrt(2 * math.pi)
    out[~wide] = 0.25 * _rest(m + s * _NODES) @ heights
    return np.clip(known + out, 0.0, 1.0)


def _normal(z: np.ndarray) -> np.ndarray:
    return (1 + erf(z / math.sqrt(2))) / 2


def _rest(f: np.ndarray) -> np.ndarray:
    return expit(f) - _normal(_STEEP * f)
