"""Losses in columns: slopes, curvatures and the best constant of f with k columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy  # of which a part is loaded when it is used
from scipy.linalg import lstsq
from scipy.special import log_softmax, softmax, xlogy

from mercer.solvers.penalized import Penalized

SHARP, ROUGH = 1e-13, 1e-7  # of the mass, that Σ wᵢ uᵢ may be
STEPS = 20  # of Newton's method for a constant, at most


@dataclass(frozen=True)
class Softmax:
    """ℓ(y, f) = ln Σⱼ e^fⱼ - f_y for classes y = 0..k-1: f has a column for each.

    -ln of the probability e^f_y / Σⱼ e^fⱼ of y. Its slopes are u = p - e_y.
    """

    k: int

    of_sides: ClassVar[bool] = True
    curved: ClassVar[bool] = True
    steepest: ClassVar[float] = 0.5

    def value(self, target: np.ndarray, f: np.ndarray) -> np.ndarray:
        """ℓ(y, f), (n,); an f of one column stands for k equal ones."""
        if np.ndim(f) == 1:
            return np.full(len(target), np.log(self.k))
        return -np.take_along_axis(log_softmax(f, axis=1), target[:, None], 1)[:, 0]

    def slope(self, target: np.ndarray, f: np.ndarray) -> np.ndarray:
        """p - e_y, (n, k)."""
        u = softmax(f, axis=1)
        u[np.arange(len(target)), target] -= 1
        return u

    def conjugate(self, target: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Σⱼ pⱼ ln pⱼ with p = u + e_y, where p is a probability."""
        p = np.array(u)
        p[np.arange(len(target)), target] += 1
        # The slope of a sure point is a little off: 1 - 1 leaves a rounding error.
        return xlogy(np.maximum(p, 0), np.maximum(p, 0)).sum(axis=1)


class LossColumns:
    """The loss of a `Penalized` problem at f of (n, k) values.

    Attributes
    ----------
    k : columns of f, more than one for `Softmax` alone
    w : the weights, (n, 1)
    """

    def __init__(self, problem: Penalized):
        self.problem, self.w = problem, problem.weights[:, None]
        self.k = getattr(problem.loss, "k", 1)
        self.single = not isinstance(problem.loss, Softmax)

    def shaped(self, values: np.ndarray) -> np.ndarray:
        """The values as the loss takes them: (n,) of one column."""
        return values[:, 0] if self.single else values

    def slope(self, f: np.ndarray) -> np.ndarray:
        """u, (n, k)."""
        u = self.problem.loss.slope(self.problem.target, self.shaped(f))
        return np.asarray(u, dtype=float).reshape(f.shape)

    def root(self, f: np.ndarray) -> CurvatureRoot:
        """S with S Sᵀ = H, the curvatures at f."""
        root_w = np.sqrt(self.w)
        if self.single:
            q = root_w * np.sqrt(self._curvature(f))[:, None]
            return CurvatureRoot(q, None, self.problem.bias)
        side = np.sqrt(softmax(f, axis=1))
        return CurvatureRoot(root_w * side, side, self.problem.bias)

    def _curvature(self, f: np.ndarray) -> np.ndarray:
        return np.asarray(self.problem.loss.curvature(self.problem.target, f[:, 0]))

    def best_bias(
        self, g: np.ndarray, b: np.ndarray, *, rough: bool = False
    ) -> np.ndarray:
        """The b, from a first guess, with Σ wᵢ uᵢ = 0 at g + b; 0 without a bias.

        Parameters
        ----------
        rough : whether g has no more digits than single precision
        """
        if not self.problem.bias:
            return b
        if not self.single:
            return self._best_columns(g, b, ROUGH if rough else SHARP)
        near = self._near_constant(g, float(b[0]))
        return self._best_constant(g, b) if near is None else np.array([near])

    def step_length(
        self, linear: float, square: float, f: np.ndarray, change: np.ndarray
    ) -> float:
        """t for which linear·t + square·t²/2 + loss(f + t·change) is about least.

        0 where it does not fall: on a line all is known but the losses.
        """

        def slope(t: float) -> float:
            u = self.slope(f + t * change)
            return float(linear + t * square + np.sum(self.w * u * change))

        first = slope(0.0)
        if not first < 0:
            return 0.0
        if abs(slope(1.0)) <= 0.3 * abs(first):
            return 1.0
        high = 1.0
        while slope(high) < 0 and high < 1e6:
            high *= 2
        if slope(high) < 0:
            return high
        return float(
            scipy.optimize.brentq(slope, 0.0, high, xtol=1e-6 * high, rtol=1e-3)
        )

    def _near_constant(self, g: np.ndarray, b: float) -> float | None:
        """The best b by Newton's method; None where its steps do not halve Σ wᵢ uᵢ."""
        before = np.inf
        for _ in range(STEPS):
            total = float(np.sum(self.w * self.slope(g + b)))
            if total == 0:
                return b
            curvature = float(np.sum(self.w[:, 0] * self._curvature(g + b)))
            if abs(total) > before / 2 or not curvature > 0:
                return None
            before, step = abs(total), -total / curvature
            b += step
            if abs(step) <= 1e-15 * max(1.0, abs(b)):
                return b
        return None

    def _best_constant(self, g: np.ndarray, b: np.ndarray) -> np.ndarray:
        def total(b: float) -> float:
            return float(np.sum(self.w * self.slope(g + b)))

        low = high = float(b[0])
        here = total(low)
        if here == 0:
            return b
        step = -np.sign(here) * max(1e-3, 1e-3 * abs(low))
        while total(high) * here > 0 and abs(high) < 1e12:
            low, high, step = high, high + step, 4 * step
        if total(high) * here > 0:
            return b  # no best value: the loss falls for ever
        return np.array(
            [scipy.optimize.brentq(total, low, high, xtol=1e-15, rtol=1e-15)]
        )

    def _best_columns(self, g: np.ndarray, b: np.ndarray, tol: float) -> np.ndarray:
        at = np.asarray(self.problem.target)[:, None]

        def looked(b: np.ndarray) -> tuple[float, np.ndarray]:
            """The mean loss, and the probabilities."""
            z = g + b
            z -= z.max(axis=1, keepdims=True)
            own = np.take_along_axis(z, at, 1)[:, 0]
            p = np.exp(z, out=z)
            total = p.sum(axis=1)
            p /= total[:, None]
            return self.problem.mean(np.log(total) - own), p

        wanted = np.bincount(at[:, 0], self.w[:, 0], self.k)
        loss, p = looked(b)
        for _ in range(100):
            weighted = self.w * p
            total = weighted.sum(axis=0)
            slope = total - wanted
            if np.abs(slope).max() <= tol * self.problem.mass:
                break
            hessian = np.diag(total) - p.T @ weighted
            step, t = -lstsq(hessian, slope, cond=1e-12)[0], 1.0
            while t > 1e-3:
                trial, q = looked(b + t * step)
                if trial < loss:
                    break
                t /= 2
            else:
                # Beyond rounding there is nothing to gain but digits of b itself.
                return b + step if np.abs(step).max() < 1e-6 else b
            b, loss, p = b + t * step, trial, q
        return b - b.mean()


class CurvatureRoot:
    """S with S Sᵀ = H, the curvatures of the losses; with a bias those of its best b.

    S z = q∘Pz. P takes the component along √p out of the columns of a point (softmax),
    then with a bias those along Sᵀ1, one for each column: of c of these, q∘c within.

    Parameters
    ----------
    q : √(w ℓ''), (n, k); of softmax √(w p)
    side : √p of softmax, None of one column
    """

    def __init__(self, q: np.ndarray, side: np.ndarray | None, bias: bool):
        self.q, self.side, self.bias = q, side, bias
        if bias:
            values, vectors = np.linalg.eigh(self._of_constants())
            kept = values > 1e-12 * max(values.max(), 1e-300)
            self._half = vectors[:, kept] / np.sqrt(values[kept])
            self._inverse = self._half @ self._half.T

    def _of_constants(self) -> np.ndarray:
        """1ᵀH1 of each two columns, without a bias."""
        if self.side is None:
            return self.q.T @ self.q
        weighted = self.q * self.side
        # Σ w (diag p - ppᵀ), whose rows sum to 0: nothing cancels.
        matrix = -(weighted.T @ weighted)
        np.fill_diagonal(matrix, 0.0)
        np.fill_diagonal(matrix, -matrix.sum(axis=1))
        return matrix

    def within(self, z: np.ndarray) -> np.ndarray:
        """z less its component along √p at every point."""
        if self.side is None:
            return z
        return z - self.side * np.einsum("ij,ij->i", self.side, z)[:, None]

    def projected(self, z: np.ndarray) -> np.ndarray:
        """P z."""
        z = self.within(z)
        if not self.bias:
            return z
        return self.within(z - self.q * self._of_within(z))

    @property
    def basis(self) -> np.ndarray | None:
        """What P takes out for the bias, (nk, ·), orthonormal; None without one."""
        if not self.bias:
            return None
        constants = np.eye(self.q.shape[1])
        columns = [self.within(self.q * row).ravel() for row in constants]
        return np.column_stack(columns) @ self._half

    def up(self, z: np.ndarray) -> np.ndarray:
        """S z."""
        return self.q * self.projected(z)

    def down(self, v: np.ndarray) -> np.ndarray:
        """Sᵀ v."""
        return self.projected(self.q * v)

    def bent(self, v: np.ndarray) -> np.ndarray:
        """H v."""
        return self.q * self.projected(self.q * v)

    def constant(self, change: np.ndarray) -> np.ndarray:
        """How much of a change of g its best b takes back."""
        if not self.bias:
            return np.zeros(change.shape[1])
        return self._of_within(self.within(self.q * change))

    def _of_within(self, z: np.ndarray) -> np.ndarray:
        """The constants whose part of z, where that has none along √p, is taken out."""
        return self._inverse @ np.einsum("ij,ij->j", self.q, z)
