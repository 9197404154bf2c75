"""Pre-images: the y whose φ(y) is nearest to a target Σᵢ γᵢ φ(xᵢ) in feature space.

The target rarely is the φ of any point, so a pre-image is an approximation, and
`distances` says how good it is. Fixed points for the Gaussian kernel: Mika, Schölkopf,
Smola, Müller, Scholz and Rätsch, Kernel PCA and de-noising in feature spaces, NIPS 11
(1999), section 3. The coordinates of an exact pre-image, where k is an invertible
function of ⟨x, y⟩: Schölkopf et al., Input space versus feature space in kernel-based
methods, IEEE Transactions on Neural Networks 10 (1999), section IV.
"""

from __future__ import annotations

import numpy as np

from mercer.data.points import Points
from mercer.kernels.base import Kernel
from mercer.kernels.checks import unchecked
from mercer.kernels.radial import RBF
from mercer.kernels.slopes import is_analytic, slopes, slopes_of_square
from mercer.kernels.vector import Linear, Polynomial

MEMORY = 8  # steps that a direction remembers
FIRST, BEST = 15, 2  # steps that all starts are given, and how many then go on
HALVINGS = 15  # of a step that does not lead down, before it counts as none
ENOUGH = 1e-4  # of the descent that the slope promises
ROUNDING = 1e-13  # relative; a value that falls by less has come to its end
HUGE = 1e300  # stands for values that are not numbers


def fixed_points(
    kernel: RBF,
    X: np.ndarray,
    weight: np.ndarray,
    start: np.ndarray,
    *,
    tol: float = 1e-8,
    max_iter: int = 200,
) -> np.ndarray:
    """y = Σᵢ γᵢ k(xᵢ, y) xᵢ / Σᵢ γᵢ k(xᵢ, y), iterated; of all y met the best, (m, d).

    ‖φ(y) - Σᵢ γᵢ φ(xᵢ)‖² is least where g(y) = Σᵢ γᵢ k(xᵢ, y) is largest, as k(y, y) is
    1. With negative γ an iteration may fail: the largest g met counts, and that of the
    start counts too.

    Parameters
    ----------
    X : (n, d) points
    weight : (m, n), the γ of each of m pre-images
    start : (m, r) numbers of the points to begin at
    tol : a step of this share of the spread of X is the last
    """
    m, r = start.shape
    X = np.asarray(X, dtype=float)
    gamma = np.repeat(weight, r, axis=0)
    Y = X[start.ravel()]
    best, largest = Y.copy(), np.full(len(Y), -np.inf)
    least_step = tol * np.sqrt(np.var(X, axis=0).sum())
    active = np.arange(len(Y))
    for _ in range(max_iter):
        P = gamma[active] * kernel(Y[active], X)
        g = P.sum(axis=1)
        better = g > largest[active]
        best[active[better]], largest[active[better]] = Y[active[better]], g[better]
        # Where g is 0 to rounding, the quotient is noise.
        sound = g > 1e-12 * np.abs(P).sum(axis=1)
        new = (P[sound] @ X) / g[sound, None]
        steps = np.linalg.norm(new - Y[active[sound]], axis=1)
        active = active[sound]
        Y[active] = new
        active = active[steps > least_step]
        if not len(active):
            break
    chosen = largest.reshape(m, r).argmax(axis=1)
    return best.reshape(m, r, -1)[np.arange(m), chosen]


def linear_points(X: Points, weight: np.ndarray) -> np.ndarray:
    """Σᵢ γᵢ xᵢ, (m, d): the pre-images of the linear kernel, exact but for rounding."""
    return np.asarray((X.T @ weight.T).T, dtype=float)


def descents(
    kernel: Kernel,
    X: np.ndarray,
    weight: np.ndarray,
    start: np.ndarray,
    *,
    tol: float = 1e-7,
    max_iter: int = 100,
) -> np.ndarray:
    """The y where ‖φ(y) - Σᵢ γᵢ φ(xᵢ)‖² no longer falls, of several the best, (m, d).

    By the method of Broyden, Fletcher, Goldfarb and Shanno with limited memory, from
    all starts at once; never further away than any start. Besides those given, it
    begins at Σᵢ γᵢ xᵢ and, for polynomials of odd degree, where an exact pre-image
    would be. The derivatives are those of the kernel, or differences where it has none.

    Parameters
    ----------
    X : (n, d) points
    weight : (m, n), the γ of each of m pre-images
    start : (m, r) numbers of the points to begin at
    tol : of the slope, relative to the largest k(x, x) over the spread of X
    """
    X = np.asarray(X, dtype=float)
    starts = [*X[start.T], linear_points(X, weight)]
    if isinstance(kernel, Polynomial) and kernel.degree % 2:
        starts.append(_odd_polynomial(kernel, X, weight))
    # Kernels of histograms refuse negative coordinates.
    positive = not is_analytic(kernel) and X.min(initial=0.0) >= 0
    task = _Distance(kernel, X, 0.0 if positive else -np.inf)
    # All of them go a little way, the best of them to the end.
    ends, values = task.descend(np.array(starts), weight, tol, FIRST)
    best = np.argsort(values, axis=0, kind="stable")[:BEST, :, None]
    ends = np.take_along_axis(ends, best, axis=0)
    ends, values = task.descend(ends, weight, tol, max_iter)
    return ends[values.argmin(axis=0), np.arange(len(weight))]


def distances(
    kernel: Kernel, X: Points, weight: np.ndarray, Y: np.ndarray
) -> np.ndarray:
    """‖φ(yₘ) - Σᵢ γₘᵢ φ(xᵢ)‖, (m,), from all of K in double precision.

    The square is a difference; what rounding may have taken from it is added, so that
    it is never 0, but about 1e-7 of the lengths where nothing is left.
    """
    if isinstance(kernel, Linear):  # no difference of squares
        return np.linalg.norm(Y - linear_points(X, weight), axis=1)
    own = np.asarray(kernel.diag(Y), dtype=float)
    inner = weight * np.asarray(kernel(Y, X), dtype=float)
    target = weight * kernel.matmul(X, None, weight.T).T
    squares = own - 2 * inner.sum(axis=1) + target.sum(axis=1)
    size = own + 2 * np.abs(inner).sum(axis=1) + np.abs(target).sum(axis=1)
    return np.sqrt(np.maximum(squares, 0.0) + 16 * np.finfo(float).eps * size)


def _odd_polynomial(
    kernel: Polynomial, X: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """yⱼ with k(eⱼ, y) = ⟨φ(eⱼ), Σᵢ γᵢ φ(xᵢ)⟩ for every unit vector eⱼ."""
    scale, offset = float(kernel.scale or 1.0), float(kernel.offset)
    powers = weight @ (scale * X + offset) ** kernel.degree
    return (np.sign(powers) * np.abs(powers) ** (1 / kernel.degree) - offset) / scale


class _Distance:
    """k(y, y) - 2 Σᵢ γᵢ k(xᵢ, y), the distance up to a constant, and its slope."""

    def __init__(self, kernel: Kernel, X: np.ndarray, least: float):
        self.kernel, self.X, self.least = kernel, X, least
        # Slopes are in units of k over the spread of the points.
        self.spread = float(np.sqrt(np.var(X, axis=0).sum())) or 1.0
        self.unit = float(np.abs(kernel.diag(X)).max(initial=0.0)) or 1.0

    def value(self, Y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"), unchecked():
            inner = np.sum(weight * self.kernel(Y, self.X), axis=1)
            values = (self.kernel.diag(Y) - 2 * inner) / self.unit
        return np.where(np.isfinite(values), values, HUGE)

    def slope(self, Y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        with unchecked():
            pull = slopes(self.kernel, Y, self.X, -2 * weight)
            return (slopes_of_square(self.kernel, Y) + pull) / self.unit

    def descend(
        self, starts: np.ndarray, weight: np.ndarray, tol: float, max_iter: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where the descents from the (r, m, d) starts end, and the values there."""
        r, m, d = starts.shape
        Y = np.maximum(starts.reshape(r * m, d), self.least)
        weight = np.tile(weight, (r, 1))
        value, slope = self.value(Y, weight), self.slope(Y, weight)
        shape = (len(Y), MEMORY, Y.shape[1])
        moves, turns = np.zeros(shape), np.zeros(shape)  # the newest last
        active = np.flatnonzero(value < HUGE)
        for _ in range(max_iter):
            free = self._free(Y[active], slope[active])
            steep = np.abs(free).max(axis=1, initial=0.0) * self.spread > tol
            active = active[steep]
            if not len(active):
                break
            way = -_turned(free[steep], moves[active], turns[active], self.spread**2)
            uphill = np.sum(way * free[steep], axis=1) >= 0
            way[uphill] = -(self.spread**2) * free[steep][uphill]
            # No step is longer than the points are wide.
            length = np.linalg.norm(way, axis=1)
            step = np.minimum(1.0, self.spread / np.maximum(length, 1e-300))
            new, lower = self._searched(
                Y[active], way, step, value[active], slope[active], weight[active]
            )
            went = lower < value[active]
            active, new, lower = active[went], new[went], lower[went]
            if not len(active):
                break
            fresh = self.slope(new, weight[active])
            for past, change in (
                (moves, new - Y[active]),
                (turns, fresh - slope[active]),
            ):
                past[active] = np.roll(past[active], -1, axis=1)
                past[active, -1] = change
            small = value[active] - lower <= ROUNDING * np.abs(lower)
            Y[active], value[active], slope[active] = new, lower, fresh
            active = active[~small]
        return Y.reshape(r, m, d), value.reshape(r, m)

    def _free(self, Y: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """The slope without what would lead out of the domain."""
        return np.where((Y <= self.least) & (slope > 0), 0.0, slope)

    def _searched(
        self,
        Y: np.ndarray,
        way: np.ndarray,
        step: np.ndarray,
        value: np.ndarray,
        slope: np.ndarray,
        weight: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The first of ever shorter steps that goes down as the slope promises."""
        new, lower = Y.copy(), value.copy()
        left = np.arange(len(Y))
        for _ in range(HALVINGS):
            trial = np.maximum(Y[left] + step[left, None] * way[left], self.least)
            found = self.value(trial, weight[left])
            promise = np.sum(slope[left] * (trial - Y[left]), axis=1)
            good = found <= value[left] + ENOUGH * promise
            new[left[good]], lower[left[good]] = trial[good], found[good]
            left = left[~good]
            if not len(left):
                break
            step[left] /= 2
        return new, lower


def _turned(
    slope: np.ndarray, moves: np.ndarray, turns: np.ndarray, first: float
) -> np.ndarray:
    """H · slope, H the inverse second derivative that the last moves tell of.

    Before there are any, H is `first` times the identity.
    """
    products = np.einsum("mkd,mkd->mk", moves, turns)
    known = products > 1e-300
    rho = np.divide(1.0, products, out=np.zeros_like(products), where=known)
    q, alpha = slope.copy(), np.zeros_like(rho)
    for k in reversed(range(MEMORY)):
        alpha[:, k] = rho[:, k] * np.einsum("md,md->m", moves[:, k], q)
        q -= alpha[:, k, None] * turns[:, k]
    squares = np.einsum("md,md->m", turns[:, -1], turns[:, -1])
    scale = np.full(len(q), first)
    np.divide(products[:, -1], squares, out=scale, where=known[:, -1] & (squares > 0))
    q *= scale[:, None]
    for k in range(MEMORY):
        beta = rho[:, k] * np.einsum("md,md->m", turns[:, k], q)
        q += (alpha[:, k] - beta)[:, None] * moves[:, k]
    return q
