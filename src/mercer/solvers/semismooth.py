"""`BoxQP`s on explicit features: Newton's method on smoothed losses, in linear time.

With K = ΦΦᵀ, w = Φᵀβ and levels ρ the problem is, in its primal form,

    min ½‖w‖² + Σₜ ℓₜ(sₜ) - Σ ρ total,    s = target - Φw + ρ,
    ℓₜ(s) = max { s b - tubeₜ|b| : lowₜ ≤ b ≤ highₜ },

p + 1 unknowns and a loss of straight pieces for each point. Within a band of width η
around its kinks the loss is replaced by a parabola, which is what a term
-(b - anchorₜ)² η / (2 widthₜ) in the maximum does. Of the smoothed function Newton's
method needs ΦᵀDΦ over the points inside the band only, and these are the fewer the
smaller η. The maximisers b are the dual variables; with the last b for anchors the
minima converge to that of the problem itself: the proximal method of multipliers.

1. A sample of the points, then all of them, η going down from the scale of the data.
2. Points near a kink as a problem of their own, the others staying at their bounds,
   until all slopes agree; points that then violate join in.

Li, Sun and Toh, "A highly efficient semismooth Newton augmented Lagrangian method",
SIAM Journal on Optimization 28 (2018); Chapelle, "Training a support vector machine in
the primal", Neural Computation 19 (2007).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from mercer.native.threads import blas_for, one_blas_thread
from mercer.outcomes import Progress, Run, Solution, Status, Watch
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.features import (
    FeatureRows,
    check_bounds,
    features_of,
    rows_for,
    solution_on,
    totals_of,
)
from mercer.solvers.resume import begun
from mercer.solvers.rounding import UNIT

STEPS = 1000  # Newton steps, where no other number is asked for
FINER = 1 / 8  # of the band, from one minimum to the next
SHARP = 1e-10  # violation to reach, relative to the scale of s
SHARP_ENOUGH = 1e-6  # the same, where systems are too large to be factored
LEAST = 1e-7  # band, relative to that; multipliers do the rest
WARM = 0.1  # violation, relative to that, up to which a start is near the end
DIRECT = 2500  # the side of the largest system that is factored
SHARE = 1e-3  # of band · width, to be gained by a step
SAMPLE = 8  # points that one stands for, and again


class _Point(NamedTuple):
    """Where Newton's method has come to, for some band."""

    w: np.ndarray
    rho: np.ndarray
    s: np.ndarray
    b: np.ndarray


class _Ended(Exception):
    """A limit or a callback; its argument is the status."""


class _Terms:
    """Variables of a `BoxQP` with their rows of features, the others being fixed."""

    def __init__(
        self,
        rows: FeatureRows,
        place: np.ndarray | None,
        target: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        tube: np.ndarray | None,
        member: np.ndarray | None,
        totals: np.ndarray,
        offset: np.ndarray,
    ):
        self.rows = rows
        self.place = place  # the row of each variable; None for its own
        self.target, self.low, self.high, self.tube = target, low, high, tube
        self.width = high - low
        self.member = member  # the group of each variable; None for one group
        self.totals = totals  # what is left for these variables, () without levels
        self.offset = offset  # Φᵀβ of the variables that are fixed

    def __len__(self) -> int:
        return len(self.target)

    def take(
        self,
        chosen: np.ndarray,
        offset: np.ndarray | None = None,
        totals: np.ndarray | None = None,
    ) -> _Terms:
        rows = chosen if self.place is None else self.place[chosen]
        return _Terms(
            self.rows.take(rows),
            None,
            self.target[chosen],
            self.low[chosen],
            self.high[chosen],
            None if self.tube is None else self.tube[chosen],
            None if self.member is None else self.member[chosen],
            self.totals if totals is None else totals,
            self.offset if offset is None else offset,
        )

    def sample(self, chosen: np.ndarray) -> _Terms:
        """Some of the variables, each standing for many."""
        part, ratio = self.take(chosen), len(self) / len(chosen)
        part.low, part.high = ratio * part.low, ratio * part.high
        part.width = part.high - part.low
        return part

    @property
    def feasible(self) -> bool:
        """Whether the totals are between what the bounds sum to."""
        lowest, highest = self.sums(self.low), self.sums(self.high)
        return bool(np.all((lowest < self.totals) & (self.totals < highest)))

    def times(self, w: np.ndarray) -> np.ndarray:
        values = self.rows.times(w)
        return values if self.place is None else values[self.place]

    def pull(self, b: np.ndarray) -> np.ndarray:
        if self.place is not None:
            b = np.bincount(self.place, weights=b, minlength=self.rows.shape[0])
        return self.rows.pull(b)

    def spread(self, rho: np.ndarray) -> Any:
        """ρ at each variable."""
        if not len(self.totals):
            return 0.0
        return rho[0] if self.member is None else rho[self.member]

    def sums(self, b: np.ndarray) -> np.ndarray:
        """Σb of each group."""
        if not len(self.totals):
            return np.empty(0)
        if self.member is None:
            return np.array([b.sum()])
        return np.bincount(self.member, weights=b, minlength=len(self.totals))

    def border(self, chosen: np.ndarray) -> np.ndarray:
        """What the levels add to features of these variables: -1 for their group."""
        out = np.zeros((len(chosen), len(self.totals)))
        if self.member is None:
            out[:] = -1.0
        else:
            out[np.arange(len(chosen)), self.member[chosen]] = -1.0
        return out

    def middle(self) -> np.ndarray:
        return (self.low + self.high) / 2

    def maximiser(self, anchor: np.ndarray, D: np.ndarray, s: np.ndarray) -> np.ndarray:
        """b of the smoothed loss: its slope in s."""
        return _maximiser(anchor, D, s, self.low, self.high, self.tube)

    def is_inside(self, b: np.ndarray) -> np.ndarray:
        """Which b move with s."""
        moves = (b > self.low) & (b < self.high)
        if self.tube is not None:
            moves &= (b != 0) | (self.tube == 0)
        return moves

    def same_pieces(self, b: np.ndarray, other: np.ndarray) -> bool:
        """Whether all variables are on the same piece of their loss."""
        inside = self.is_inside(b)
        if not np.array_equal(inside, self.is_inside(other)):
            return False
        return np.array_equal(b[~inside], other[~inside])

    def distance(self, s: np.ndarray) -> np.ndarray:
        """How far s is from the nearest kink of its loss."""
        if self.tube is None:
            return np.abs(s)
        return np.abs(np.abs(s) - self.tube)

    def levelled(self, anchor: np.ndarray, D: np.ndarray, s: np.ndarray) -> np.ndarray:
        """ρ with Σb = total in each group, by bisection: s is without ρ."""
        rho = np.zeros(len(self.totals))
        for g, total in enumerate(self.totals):
            own = slice(None) if self.member is None else self.member == g
            base, d = s[own], D[own]
            if not len(base):
                continue
            tube = None if self.tube is None else self.tube[own]
            reach = float(np.ptp(base)) + 1.0
            if tube is not None:
                reach += float(tube.max())
            width = np.divide(self.width[own], d, where=d > 0, out=0 * d)
            reach += float(np.max(width))
            low, high = -float(base.max()) - reach, -float(base.min()) + reach
            for _ in range(60):
                middle = (low + high) / 2
                b = _maximiser(
                    anchor[own], d, base + middle, self.low[own], self.high[own], tube
                )
                if b.sum() < total:
                    low = middle
                else:
                    high = middle
            rho[g] = (low + high) / 2
        return rho


def _maximiser(
    anchor: np.ndarray,
    D: np.ndarray,
    s: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    tube: np.ndarray | None,
) -> np.ndarray:
    """b where b s - tube|b| - (b - anchor)² / 2D is largest, low ≤ b ≤ high."""
    b = D * s
    b += anchor
    if tube is not None:
        b = np.sign(b) * np.maximum(np.abs(b) - D * tube, 0.0)
    return np.clip(b, low, high, out=b)


@dataclass(frozen=True)
class SemismoothNewton:
    """Minimise a `BoxQP` on explicit features Φ, K = ΦΦᵀ, until violation < tol.

    Takes time linear in the entries of Φ, and no kernel values. For kernels with a
    finite explicit map (`mercer.maps.explicit`) and finite bounds. Problems are solved
    to rounding where they can be: variables that the optimum has at a bound are at it.

    Parameters
    ----------
    max_iter : Newton steps at most; -1 for 1000
    time_limit : seconds; None for no limit. A solve that it, max_iter or `watch` ended
        goes on from `start=solution.value`

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import SemismoothNewton, svc
    >>> X = np.random.default_rng(0).normal(size=(5000, 3))
    >>> y = np.sign(X[:, 0] + 0.1)
    >>> solution = SemismoothNewton().solve(svc(Gram(Linear(), X), y, upper=1.0))
    >>> solution.status, bool(solution.gap < 1e-6 * solution.primal)
    ('optimal', True)
    """

    tol: float = 1e-3
    max_iter: int = -1
    time_limit: float | None = None

    def __post_init__(self) -> None:
        if not self.tol > 0:
            raise ValueError(f"SemismoothNewton needs tol > 0; got tol={self.tol!r}.")

    def solve(
        self,
        problem: BoxQP,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        """The minimiser, from a feasible `start`; `watch` returns True to stop."""
        check_bounds(self, problem)
        with blas_for(features_of(problem.gram).shape[1]):
            return _Run(self, problem, watch)(start)


class _Run:
    """One solve."""

    def __init__(self, options: SemismoothNewton, problem: BoxQP, watch: Watch | None):
        self.options, self.problem, self.watch = options, problem, watch
        self.begin = time.perf_counter()
        self.steps = self.rounds = 0
        self.violation, self.kept = np.nan, begun()
        self.budget = STEPS if options.max_iter < 0 else options.max_iter
        rows, totals = rows_for(problem), totals_of(problem)
        tube = problem.tube
        self.terms = _Terms(
            rows,
            problem.index,
            problem.target,
            *problem.bounds,
            None if tube is None or not tube.any() else tube,
            problem.group,
            totals,
            np.zeros(rows.shape[1]),
        )
        self.scale = _scale(self.terms)
        sharp = SHARP_ENOUGH if rows.shape[1] > DIRECT else SHARP
        self.goal = min(options.tol / 8, sharp * self.scale)
        # What rounding does to s comes back in b by the width over the band, and in F
        # by K: together that has to be less than it was.
        size = float(np.max(rows.lengths(), initial=0.0)) * (1 + min(rows.shape))
        widest = float(np.max(self.terms.width, initial=0.0))
        self.least = max(LEAST * self.scale, UNIT * size * widest)

    def __call__(self, start: np.ndarray | None) -> Solution:
        start = self.kept.get("value") if start is None else start
        beta = self.problem.sign * self.problem.start(start)  # feasible, or an error
        status = Status.OPTIMAL
        self.best = np.inf, beta
        try:
            self._look(beta, self.terms.pull(beta))
            if self.violation <= self.goal:
                pass
            elif self.violation > WARM * self.scale:
                point, band = self._from_afar()
                self.best = np.inf, self._mended(point.b)
                near = self.terms.distance(point.s) <= 2 * band
                self._polish(point.b, point.w, point.rho, near, band)
            else:
                rho, moves = self._violators(beta)
                band = max(self.violation, self.least)
                self._polish(beta, self.terms.pull(beta), rho, moves, band)
        except _Ended as ended:
            (status,) = ended.args
        run = Run(status, self.steps, time.perf_counter() - self.begin)
        tol = self.options.tol
        return solution_on(self.terms.rows, self.problem, self.best[1], run, tol)

    # The way down

    def _from_afar(self) -> tuple[_Point, float]:
        """The minimum for a band that few variables are in, and that band."""
        terms, n = self.terms, len(self.terms)
        p = terms.rows.shape[1] + len(terms.totals)
        sizes = [n]
        while sizes[-1] > SAMPLE * max(1000, 10 * p):
            sizes.append(sizes[-1] // SAMPLE)
        order = np.random.default_rng(0).permutation(n)
        band, point, last = self.scale, None, n
        if "band" in self.kept:  # where an earlier run came to all points
            sizes, (w, rho, band) = [n], self.kept["band"]
            point = self._at(terms, w, rho, terms.middle(), band)
        for size in reversed(sizes):
            part = terms if size == n else terms.sample(np.sort(order[:size]))
            if not part.feasible and size < n:
                continue
            if point is None:
                point = self._at_origin(part, band)
            elif size != last:
                # The minimum of a sample is that far from the one of all.
                band = max(band, self.scale * np.sqrt(p / last) / 4)
                point = self._at(part, point.w, point.rho, part.middle(), band)
            last = size
            while True:
                point = self._minimised(part, point, part.middle(), band, 0.1 * band)
                near = np.count_nonzero(part.distance(point.s) <= 2 * band)
                if near <= max(size / 10, 4 * p) or band <= self.least:
                    break
                band *= FINER
                point = self._at(part, point.w, point.rho, part.middle(), band)
        assert point is not None
        return point, band

    def _at_origin(self, terms: _Terms, band: float) -> _Point:
        w = np.zeros(terms.rows.shape[1])
        anchor, D = terms.middle(), terms.width / band
        rho = terms.levelled(anchor, D, terms.target)
        return self._at(terms, w, rho, anchor, band)

    def _at(
        self,
        terms: _Terms,
        w: np.ndarray,
        rho: np.ndarray,
        anchor: np.ndarray,
        band: float,
    ) -> _Point:
        s = terms.target - terms.times(w) + terms.spread(rho)
        return _Point(w, rho, s, terms.maximiser(anchor, terms.width / band, s))

    # The end of the way

    def _polish(
        self,
        beta: np.ndarray,
        w: np.ndarray,
        rho: np.ndarray,
        chosen: np.ndarray,
        band: float,
    ) -> None:
        """Solve for the chosen variables; those that then violate join them."""
        terms = self.terms
        goal = self.goal
        idle = 0
        while idle < 2:
            chosen |= terms.is_inside(beta)
            inner, outer = np.flatnonzero(chosen), beta.copy()
            outer[inner] = 0
            left = terms.totals - terms.sums(outer)
            part = terms.take(inner, terms.pull(outer), left)
            outer[inner] = self._multiplied(part, w, rho, beta[inner], band, goal)
            beta, before = outer, self.best[0]
            w = terms.pull(beta)
            self._look(beta, w)
            if self.best[0] <= goal:
                return
            # What rounding leaves is not taken for more work.
            idle = 0 if self.best[0] <= before / 2 else idle + 1
            rho, moves = self._violators(beta)
            chosen |= moves
            band = max(band * FINER, self.least)

    def _look(self, beta: np.ndarray, w: np.ndarray) -> None:
        """Keep β if none before had less of a violation."""
        self.rounds += 1
        excess = np.abs(self.terms.sums(beta) - self.terms.totals)
        if np.any(excess > 1e-10 * self.terms.sums(np.abs(beta))):
            beta = self._mended(beta)
            w = self.terms.pull(beta)
        self.function = self.terms.rows.times(w)
        value = self.problem.sign * beta
        self.violation = self.problem.violation(value, self.function)
        if self.violation < self.best[0]:
            self.best = self.violation, beta
            self.kept["value"] = value

    def _mended(self, beta: np.ndarray) -> np.ndarray:
        """β with the sums that are asked for."""
        return self.problem.sign * self.problem.start(self.problem.sign * beta)

    def _violators(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Levels for β, and which variables their slopes ask to move."""
        terms, F = self.terms, self.function
        rho = np.array(self.problem.level(self.problem.sign * beta, F), dtype=float)
        rho = rho[: len(terms.totals)]
        s = terms.target - (F if terms.place is None else F[terms.place])
        s += terms.spread(rho)
        D = terms.width / max(self.violation, np.finfo(float).tiny)
        moves = np.abs(terms.maximiser(beta, D, s) - beta) > 0.01 * terms.width
        return rho, moves

    def _multiplied(
        self,
        part: _Terms,
        w: np.ndarray,
        rho: np.ndarray,
        anchor: np.ndarray,
        band: float,
        goal: float,
    ) -> np.ndarray:
        """b of the variables of a part, by the method of multipliers."""
        for _ in range(40):
            point = self._at(part, w, rho, anchor, band)
            enough = min(goal, 0.01 * band)
            point = self._minimised(part, point, anchor, band, enough, exact=True)
            moved = np.abs(point.b - anchor) * band
            moved = np.divide(moved, part.width, where=part.width > 0, out=moved)
            anchor, w, rho = point.b, point.w, point.rho
            if np.max(moved, initial=0.0) <= goal / 4:
                break
            band = max(band * FINER, self.least)
        return anchor

    # One minimum

    def _minimised(
        self,
        terms: _Terms,
        point: _Point,
        anchor: np.ndarray,
        band: float,
        enough: float,
        exact: bool = False,
    ) -> _Point:
        """The minimum for a band, until a step changes no s by more than `enough`.

        Where it is to be exact, until a step of Newton's leaves the same variables
        inside the band: the function is a quadratic there.
        """
        D = terms.width / band
        w, rho, s, b = point
        for _ in range(60):
            self._count()
            if terms is self.terms:
                self.kept["band"] = w, rho, band
            slope_w = w - terms.offset - terms.pull(b)
            slope_rho = terms.sums(b) - terms.totals
            dw, drho = self._direction(terms, D, b, slope_w, slope_rho, exact)
            ds = terms.spread(drho) - terms.times(dw)
            # The derivative along the direction: line(t) and that of the losses.
            first = float((w - terms.offset) @ dw - terms.totals @ drho)
            second = float(dw @ dw)

            slope = partial(_slope, terms, anchor, D, s, ds, first, second)

            at_0 = first + float(b @ ds)
            if not at_0 < 0:
                break
            # A small share of what smoothing has changed is not worth a step.
            if not exact and -at_0 <= SHARE * band * float(
                np.sum(terms.width[terms.is_inside(b)])
            ):
                break
            last, (t, b) = b, _line_search(slope, at_0)
            w, rho, s = w + t * dw, rho + t * drho, s + t * ds
            most = t * max(float(np.max(ds)), -float(np.min(ds)))
            if most <= enough and (not exact or terms.same_pieces(last, b)):
                break
            if most <= 4 * UNIT * float(np.max(np.abs(s))):
                break
        return _Point(w, rho, s, b)

    def _direction(
        self,
        terms: _Terms,
        D: np.ndarray,
        b: np.ndarray,
        slope_w: np.ndarray,
        slope_rho: np.ndarray,
        exact: bool,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Newton's: -H⁻¹ slope, H = I + ΦᵀDΦ over the variables inside the band.

        Where fewer are inside than Φ has columns, from the changes of their b:
        (D⁻¹ + ΦΦᵀ) Δb = Φ slope + Δρ, ΣΔb = -slope of ρ. Large systems are solved by
        conjugate gradients.
        """
        inside = np.flatnonzero(terms.is_inside(b))
        weight, levels, p = D[inside], len(slope_rho), len(slope_w)
        place = inside if terms.place is None else terms.place[inside]
        border = terms.border(inside)
        # A group with none inside moves as if there were one.
        alone = (border != 0).sum(axis=0) == 0
        least = np.where(alone, float(np.max(D, initial=0.0)) or 1.0, 0.0)
        close = 1e-8 if exact else 0.01
        if len(inside) > p and p <= DIRECT:
            H = terms.rows.weighted(place, weight, border)
            H[np.arange(p), np.arange(p)] += 1.0
            H[np.arange(p, p + levels), np.arange(p, p + levels)] += least
            step = -_solve(H, np.concatenate([slope_w, slope_rho]))
            return step[:p], step[p:]
        U = terms.rows.take(place)
        if len(inside) > p:

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
        right = np.column_stack([U.times(slope_w), -border])
        if len(inside) <= DIRECT:
            M = U.matrix @ U.matrix.T
            M = M.toarray() if U.sparse else M
            M[np.diag_indices_from(M)] += 1 / weight
            solved = _solve(M, right) if len(inside) else right
        else:
            diagonal = 1 / weight + U.lengths()
            solved = np.column_stack(
                [
                    _conjugate_gradients(
                        lambda v: v / weight + U.times(U.pull(v)), one, diagonal, close
                    )
                    for one in right.T
                ]
            )
        drho = np.zeros(levels)
        if levels:
            S = -border.T @ solved[:, 1:] + np.diag(least)
            drho = np.linalg.solve(S, border.T @ solved[:, 0] - slope_rho)
        db = solved[:, 0] + solved[:, 1:] @ drho
        return U.pull(db) - slope_w, drho

    def _count(self) -> None:
        """Before each step: whether there is to be another one."""
        if self.steps >= self.budget:
            raise _Ended(Status.MAX_ITER)
        self.steps += 1
        seconds = time.perf_counter() - self.begin
        limit = self.options.time_limit
        if limit is not None and seconds >= limit:
            raise _Ended(Status.TIME_LIMIT)
        if self.watch is None:
            return
        progress = Progress(
            self.rounds,
            self.steps,
            0,
            seconds,
            support=int(np.count_nonzero(self.best[1])),
            violation=self.violation,
            words=(("support", "support vectors"), ("violation", "violation")),
            unit="step",
        )
        if self.watch(progress):
            raise _Ended(Status.STOPPED)


def _scale(terms: _Terms) -> float:
    """A typical size of s: of the targets, or of F where these do not differ."""
    if not len(terms):
        return 1.0
    largest = float(np.max(np.abs(terms.target)))
    size = float(np.ptp(terms.target)) if len(terms.totals) == 1 else largest
    if size == 0:
        share = terms.low + terms.width * _share(terms)
        size = float(np.ptp(terms.times(terms.pull(share))))
    return size or largest or 1.0


def _share(terms: _Terms) -> np.ndarray:
    """How much of its width each variable has where all of a group have the same."""
    room, lowest = terms.sums(terms.width), terms.sums(terms.low)
    if not len(terms.totals):
        return np.full(len(terms), 0.5)
    share = np.divide(terms.totals - lowest, room, where=room > 0, out=0 * room)
    return np.broadcast_to(terms.spread(share), len(terms))


def _slope(
    terms: _Terms,
    anchor: np.ndarray,
    D: np.ndarray,
    s: np.ndarray,
    ds: np.ndarray,
    first: float,
    second: float,
    t: float,
) -> tuple[float, np.ndarray]:
    """The derivative at t along a direction, and b there."""
    b = terms.maximiser(anchor, D, s + t * ds)
    return first + t * second + float(b @ ds), b


def _line_search(
    slope: Callable[[float], tuple[float, np.ndarray]], at_0: float
) -> tuple[float, np.ndarray]:
    """t > 0 where the derivative is small next to that at 0, and b there."""
    low, at_low, high, at_high = 0.0, at_0, np.inf, np.nan
    t = 1.0
    for _ in range(30):
        at_t, b = slope(t)
        if abs(at_t) <= 0.1 * abs(at_0):
            break
        if at_t < 0:
            low, at_low = t, at_t
        else:
            high, at_high = t, at_t
        if high == np.inf:
            t *= 4
        else:
            t = low + (high - low) * min(max(at_low / (at_low - at_high), 0.1), 0.9)
    return t, b


def _solve(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A⁻¹b of a positive definite A."""
    scale = 1 / np.sqrt(np.diag(A))
    A = A * scale * scale[:, None]
    ridge = 1e-14
    while True:
        try:
            # Threads of BLAS that wait for each other on a busy machine take a hundred
            # times as long for systems of this size.
            with one_blas_thread():
                factor = cho_factor(A, lower=True, check_finite=False)
            break
        except LinAlgError:  # singular up to rounding
            if ridge > 1e-2:  # or not of finite numbers
                raise _Ended(Status.STALLED) from None
            A[np.diag_indices_from(A)] += ridge
            ridge *= 100
    right = (b.T * scale).T
    return (cho_solve(factor, right, check_finite=False).T * scale).T


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
