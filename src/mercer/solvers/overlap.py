"""`BoxQP`s of classes that overlap: of all minimisers, the one nearest to equal shares.

Where a constant f is nearly the best, w = Φᵀβ is nearly 0 at the minimum, and many β
have it: descent wanders among them. With β₀, of which all variables have the same share
of their widths,

    min ½‖Φᵀβ‖² - targetᵀβ + η/2 Σₜ (βₜ - β₀ₜ)² / widthₜ,   low ≤ β ≤ high, Σβ = total

has one minimiser. No slope of it is off by more than η, and Newton's method comes to
it in some ten steps, as most variables stay inside their bounds. The systems of these
steps are solved by conjugate gradients; what preconditions them is a factor of the
matrix that a sample of the variables gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from mercer.solvers.boxqp import BoxQP
from mercer.solvers.feature_rows import FeatureRows
from mercer.solvers.features import totals_of
from mercer.solvers.smoothed import Line, Point, Terms

WIDEST = 5000  # columns, of which matrices are factored in a second
MANY = 8  # times as many points as columns: of fewer, a class seldom surrounds another
SAMPLE = 4  # times as many variables as columns, whose matrix is factored
CLOSE = 0.01  # residual of a system, relative to what it was
OFTEN = 24  # products of a system, after which the next has a factor of its own
MOST = 60  # products of a system
STEPS = 30
SLOW = 0.5  # of the slope left after two steps, where classes do not overlap
BAND = 0.5  # of tol, for η

Ended = Callable[[], bool]


def may_overlap(problem: BoxQP, rows: FeatureRows) -> bool:
    """Whether it is of a kind, and of a size, that this is worth a trial."""
    n, p = rows.shape
    kind = problem.tube is None and len(totals_of(problem)) == 1
    return kind and rows.sparse and 0 < p <= WIDEST and n >= MANY * p


def overlapped(
    problem: BoxQP, rows: FeatureRows, tol: float, ended: Ended
) -> np.ndarray | None:
    """β with slopes that are off by less than tol, or None if steps come to no such.

    Parameters
    ----------
    ended : whether there is no time for another step
    """
    try:
        return _Steps(problem, rows, tol)(ended)
    except LinAlgError:
        return None


class _Steps:
    """Newton's, from w = 0."""

    def __init__(self, problem: BoxQP, rows: FeatureRows, tol: float):
        self.terms = terms = Terms(
            rows,
            problem.index,
            problem.target,
            *problem.bounds,
            None,
            problem.group,
            totals_of(problem),
            np.zeros(rows.shape[1]),
        )
        self.longest = float(np.sqrt(np.max(rows.lengths(), initial=0.0)))
        self.tol = tol
        self.anchor, self.D = terms.even(), terms.curvature(BAND * tol)
        self.systems = _Systems(terms, self.D)

    def __call__(self, ended: Ended) -> np.ndarray | None:
        terms, D = self.terms, self.D
        rho = terms.levelled(self.anchor, D, terms.target)
        s = np.array(terms.target)
        terms.raise_by(rho, s)
        w = np.zeros(terms.rows.shape[1])
        point = Point(w, rho, s, terms.maximiser(self.anchor, D, s))
        left = [np.inf, np.inf]
        for _ in range(STEPS):
            slope_w = point.w - terms.pull(point.b)
            slope_rho = terms.sums(point.b) - terms.totals
            left.append(self.longest * float(np.linalg.norm(slope_w)))
            if left[-1] <= self.tol / 8:
                return point.b
            if left[-1] > SLOW * left[-3] or ended():
                return None
            inside = np.flatnonzero(terms.is_inside(point.b))
            dw, drho = self.systems.direction(inside, slope_w, slope_rho)
            ds = terms.times(dw)
            np.negative(ds, out=ds)
            terms.raise_by(drho, ds)
            line = Line(terms, self.anchor, D, point, dw, drho, ds)
            if not line.at_0 < 0:
                return None
            _, point = line.searched(np.empty(len(terms)))
        return None


class _Factor(NamedTuple):
    """The factor of H scaled to a diagonal of 1, in single precision."""

    scale: np.ndarray
    factor: tuple[np.ndarray, bool]

    def solve(self, right: np.ndarray) -> np.ndarray:
        narrow = (self.scale * right).astype(np.float32)
        return self.scale * cho_solve(self.factor, narrow, check_finite=False)


class _Systems:
    """Newton's systems, I + ΦᵀDΦ over the variables inside their bounds."""

    def __init__(self, terms: Terms, D: np.ndarray):
        self.terms, self.D = terms, D
        self.factor: _Factor | None = None
        self.products = 0  # of the last system

    def direction(
        self, inside: np.ndarray, slope_w: np.ndarray, slope_rho: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """-H⁻¹ slope, nearly."""
        terms, p = self.terms, len(slope_w)
        if not len(inside):
            raise LinAlgError("No variable is inside its bounds.")
        place = inside if terms.place is None else terms.place[inside]
        weight, border = self.D[inside], terms.border(inside)
        if self.factor is None or self.products > OFTEN:
            self.factor = self._factored(inside)

        def times(z: np.ndarray) -> np.ndarray:
            v = weight * (terms.rows.times_some(place, z[:p]) + border @ z[p:])
            upper = z[:p] + terms.rows.pull_some(place, v)
            return np.concatenate([upper, border.T @ v])

        right = np.concatenate([slope_w, slope_rho])
        step, self.products = _conjugate_gradients(times, right, self.factor)
        return -step[:p], -step[p:]

    def _factored(self, inside: np.ndarray) -> _Factor:
        terms, p = self.terms, self.terms.rows.shape[1]
        some, ratio = inside, 1.0
        if len(inside) > SAMPLE * p:
            random = np.random.default_rng(0)
            some = np.sort(random.choice(inside, SAMPLE * p, replace=False))
            ratio = len(inside) / len(some)
        place = some if terms.place is None else terms.place[some]
        H = terms.rows.weighted(place, ratio * self.D[some], terms.border(some))
        diagonal = np.diag_indices_from(H)
        H[diagonal] += np.arange(len(H)) < p
        scale = 1 / np.sqrt(H[diagonal])
        narrow = np.multiply(H, scale, dtype=np.float32, casting="same_kind")
        narrow *= scale.astype(np.float32)[:, None]
        # Columns that a sample does not tell apart.
        narrow[diagonal] += np.float32(1e-6)
        # Symmetric: the transposed array is the same matrix, as LAPACK wants it.
        factor = cho_factor(narrow.T, True, overwrite_a=True, check_finite=False)
        return _Factor(scale, factor)


def _conjugate_gradients(
    times: Callable[[np.ndarray], np.ndarray], right: np.ndarray, by: _Factor
) -> tuple[np.ndarray, int]:
    """A⁻¹ right until the residual is `CLOSE` times what it was, and the products."""
    x, r = np.zeros_like(right), right.copy()
    z = by.solve(r)
    d, rz = z, float(r @ z)
    enough = CLOSE**2 * rz
    for products in range(MOST):
        if not rz > enough:
            return x, products
        Ad = times(d)
        t = rz / float(d @ Ad)
        x, r = x + t * d, r - t * Ad
        z = by.solve(r)
        last, rz = rz, float(r @ z)
        d = z + (rz / last) * d
    return x, MOST
