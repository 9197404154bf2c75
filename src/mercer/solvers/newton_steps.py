"""Newton's steps on smoothed losses: H⁻¹ slope, H = I + ΦᵀDΦ inside a band."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from mercer.native.threads import one_blas_thread
from mercer.solvers.smoothed import Terms

NARROW = 300  # the side from which on factors in single precision save time
DIRECT = 2500  # the side of the largest system that is factored


class Hessian:
    """I + ΦᵀDΦ over the variables inside a band, made anew or by those that changed.

    In the coordinates c of `FeatureRows.added`.

    Parameters
    ----------
    metric : that of the rows; None to ask them for it
    anew : whether it is made anew in any case: what left takes some digits with it
    """

    def __init__(
        self,
        terms: Terms,
        D: np.ndarray,
        metric: np.ndarray | None = None,
        anew: bool = False,
    ):
        self.terms, self.D, self.anew = terms, D, anew
        self._metric = metric
        self.inside = np.zeros(len(terms), dtype=bool)
        self.matrix: np.ndarray | None = None

    def at(self, inside: np.ndarray) -> np.ndarray:
        """That of the variables inside, bordered by the levels; not to be changed."""
        entered = np.flatnonzero(inside & ~self.inside)
        left = np.flatnonzero(self.inside & ~inside)
        many = len(entered) + len(left) > np.count_nonzero(inside)
        if self.matrix is None or many or self.anew:
            self.matrix, p = self._added(np.flatnonzero(inside)), len(self.metric)
            self.matrix[:p, :p] += self.metric
        else:
            self.matrix += self._added(entered)
            self.matrix -= self._added(left)
        self.inside = inside
        return self.matrix

    @property
    def metric(self) -> np.ndarray:
        if self._metric is None:
            self._metric = self.terms.rows.metric()
        return self._metric

    def _added(self, some: np.ndarray) -> np.ndarray:
        terms = self.terms
        place = some if terms.place is None else terms.place[some]
        return terms.rows.added(place, self.D[some], terms.border(some))


def direction(
    hessian: Hessian,
    moves: np.ndarray,
    slope_w: np.ndarray,
    slope_rho: np.ndarray,
    exact: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Newton's: -H⁻¹ slope, H = I + ΦᵀDΦ over the variables inside the band.

    Large systems are solved by conjugate gradients.
    """
    terms, inside, p = hessian.terms, np.flatnonzero(moves), len(slope_w)
    border = terms.border(inside)
    # A group with none inside moves as if there were one.
    alone = (border != 0).sum(axis=0) == 0
    least = np.where(alone, float(np.max(hessian.D, initial=0.0)) or 1.0, 0.0)
    # A system of as many unknowns as variables, where their products are at hand.
    few = p if terms.products is None else min(1.5 * p, DIRECT)
    if len(inside) > few and p <= DIRECT:
        H = hessian.at(moves)
        if alone.any():
            H = H + np.diag(np.concatenate([np.zeros(p), least]))
        right = np.concatenate([terms.rows.slope_of(slope_w), slope_rho])
        step = -_solve(H, right, single=not exact)
        return terms.rows.weights_of(step[:p]), step[p:]
    place = inside if terms.place is None else terms.place[inside]
    weight, close = hessian.D[inside], 1e-8 if exact else 0.01
    if len(inside) <= few:
        among = _Among(terms, place, weight, close)
        return among.direction(border, least, slope_w, slope_rho)
    U = terms.rows.take(place)

    def times_H(z: np.ndarray) -> np.ndarray:
        v = weight * (U.times(z[:p]) + border @ z[p:])
        upper = z[:p] + U.pull(v)
        return np.concatenate([upper, border.T @ v + least * z[p:]])

    diagonal = np.concatenate(
        [1 + U.squares(weight), np.abs(border).T @ weight + least]
    )
    right = np.concatenate([slope_w, slope_rho])
    step = -_conjugate_gradients(times_H, right, diagonal, close)
    return step[:p], step[p:]


class _Among:
    """Newton's step from the changes of b, where few variables are inside a band.

    (D⁻¹ + ΦΦᵀ) Δb = Φ slope + Δρ, ΣΔb = -slope of ρ, over these variables.
    """

    def __init__(
        self, terms: Terms, place: np.ndarray, weight: np.ndarray, close: float
    ):
        self.weight, self.close = weight, close
        self.products = terms.products if len(place) <= DIRECT else None
        # All rows of few variables, or those inside the band alone.
        self.place = None if self.products is None else place
        self.rows = terms.rows if self.products is not None else terms.rows.take(place)

    def direction(
        self,
        border: np.ndarray,
        least: np.ndarray,
        slope_w: np.ndarray,
        slope_rho: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """(Δw, Δρ); `least` is added to the curvature in ρ."""
        times = self.rows.times(slope_w)
        times = times if self.place is None else times[self.place]
        solved = self._solved(np.column_stack([times, -border]))
        drho = np.zeros(len(slope_rho))
        if len(drho):
            S = -border.T @ solved[:, 1:] + np.diag(least)
            drho = np.linalg.solve(S, border.T @ solved[:, 0] - slope_rho)
        db = solved[:, 0] + solved[:, 1:] @ drho
        if self.place is None:
            return self.rows.pull(db) - slope_w, drho
        return self.rows.pull_some(self.place, db) - slope_w, drho

    def _solved(self, right: np.ndarray) -> np.ndarray:
        """(D⁻¹ + ΦΦᵀ)⁻¹ right."""
        if not len(right):
            return right
        if len(right) <= DIRECT:
            if self.products is not None and self.place is not None:
                M = self.products[np.ix_(self.place, self.place)]
            else:
                M = self.rows.matrix @ self.rows.matrix.T
                M = M.toarray() if self.rows.sparse else M
            M[np.diag_indices_from(M)] += 1 / self.weight
            return _solve(M, right)
        rows, weight = self.rows, self.weight
        diagonal = 1 / weight + rows.lengths()

        def times(v: np.ndarray) -> np.ndarray:
            return v / weight + rows.times(rows.pull(v))

        columns = [
            _conjugate_gradients(times, one, diagonal, self.close) for one in right.T
        ]
        return np.column_stack(columns)


def _solve(A: np.ndarray, b: np.ndarray, single: bool = False) -> np.ndarray:
    """A⁻¹b of a positive definite A; LinAlgError where it is far from being one.

    Parameters
    ----------
    single : whether a few digits are enough, as many as single precision gives
    """
    scale = 1 / np.sqrt(np.diag(A))
    # Threads of BLAS that wait for each other on a busy machine take a hundred times as
    # long for systems of this size.
    with one_blas_thread():
        single = single and len(A) >= NARROW
        found = _solved_in_single(A, b, scale) if single else None
        return _solved_in_double(A, b, scale) if found is None else found


def _solved_in_double(A: np.ndarray, b: np.ndarray, scale: np.ndarray) -> np.ndarray:
    A = A * scale
    A *= scale[:, None]
    ridge = 1e-14
    while True:
        try:
            factor = cho_factor(A, lower=True, check_finite=False)
            break
        except LinAlgError:  # singular up to rounding
            if ridge > 1e-2:  # or not of finite numbers
                raise
            A[np.diag_indices_from(A)] += ridge
            ridge *= 100
    right = (b.T * scale).T
    return (cho_solve(factor, right, check_finite=False).T * scale).T


def _solved_in_single(
    A: np.ndarray, b: np.ndarray, scale: np.ndarray
) -> np.ndarray | None:
    """A⁻¹b by factors in single precision; None where they do not exist."""
    narrow = np.multiply(A, scale, dtype=np.float32, casting="same_kind")
    narrow *= scale.astype(np.float32)[:, None]
    try:
        # Symmetric: the transposed array is the same matrix, as LAPACK wants it.
        factor = cho_factor(narrow.T, True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    x, left = np.zeros_like(b), b
    for _ in range(2):
        right = (left * scale).astype(np.float32)
        x += scale * cho_solve(factor, right, check_finite=False)
        left = b - A @ x
    return x


def _conjugate_gradients(
    times: Callable[[np.ndarray], np.ndarray],
    right: np.ndarray,
    diagonal: np.ndarray,
    close: float,
) -> np.ndarray:
    """A⁻¹ right until the residual is `close` times what it was, scaled by a diagonal.

    Stopped early it still is a direction of descent.
    """
    x, r = np.zeros_like(right), right.copy()
    z = r / diagonal
    d, rz = z, float(r @ z)
    enough = close**2 * rz
    for _ in range(500):
        if not rz > enough:
            break
        Ad = times(d)
        t = rz / float(d @ Ad)
        x, r = x + t * d, r - t * Ad
        z = r / diagonal
        last, rz = rz, float(r @ z)
        d = z + (rz / last) * d
    return x
