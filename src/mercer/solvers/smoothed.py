"""Smoothed losses of a `BoxQP` on features: parabolas within a band around each kink.

    ½‖w‖² - Σ ρ total + Σₜ max { sₜb - tubeₜ|b| - (b - anchorₜ)²/2Dₜ : b in bounds },

s = target - Φw + ρ: what `SemismoothNewton` minimises.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mercer.solvers.feature_rows import FeatureRows
from mercer.solvers.landmark_rows import some_of
from mercer.solvers.variables import PART

SOME = 8  # variables of which no more than one is read apart from the others
MANY_PRODUCTS = 4  # times as many variables as columns, whose ΦΦᵀ takes less than steps
MOST_PRODUCTS = 5000  # variables whose ΦΦᵀ is small beside other things
HELD_MB = 512.0  # of φ near a kink
SAME = 1e-12  # of the largest target: those that differ by no more are the same


class Point(NamedTuple):
    """Where Newton's method has come to, for some band."""

    w: np.ndarray
    rho: np.ndarray
    s: np.ndarray
    b: np.ndarray


class Terms:
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
        self.width = _stored(high - low)
        self.member = member  # the group of each variable; None for one group
        self.totals = totals  # what is left for these variables, () without levels
        self.offset = offset  # Φᵀβ of the variables that are fixed

    def __len__(self) -> int:
        return len(self.target)

    @cached_property
    def products(self) -> np.ndarray | None:
        """ΦΦᵀ of few variables, whose rows are dense and in memory."""
        n, p = self.rows.shape
        if self.place is not None or self.rows.sparse or self.rows.computed:
            return None
        if n > min(MANY_PRODUCTS * p, MOST_PRODUCTS):
            return None
        matrix = self.rows.matrix
        return matrix @ matrix.T

    def on(self, rows: FeatureRows) -> Terms:
        """The same with other rows of features."""
        other = copy.copy(self)
        other.rows = rows
        return other

    def held(self) -> Terms:
        """The same with φ in memory, where there is room for it."""
        if self.rows.computed and 8.0 * self.rows.entries <= HELD_MB * 2**20:
            self.rows = self.rows.held()
        return self

    def take(
        self,
        chosen: np.ndarray,
        offset: np.ndarray | None = None,
        totals: np.ndarray | None = None,
    ) -> Terms:
        rows = chosen if self.place is None else self.place[chosen]
        return Terms(
            some_of(self.rows, rows),
            None,
            self.target[chosen],
            self.low[chosen],
            self.high[chosen],
            None if self.tube is None else self.tube[chosen],
            None if self.member is None else self.member[chosen],
            self.totals if totals is None else totals,
            self.offset if offset is None else offset,
        )

    def sample(self, chosen: np.ndarray) -> Terms:
        """Some of the variables, each standing for many."""
        part, ratio = self.take(chosen), len(self) / len(chosen)
        part.low, part.high = ratio * part.low, ratio * part.high
        part.width = _stored(part.high - part.low)
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

    def pulled(
        self, b: np.ndarray, last: np.ndarray, before: np.ndarray | None
    ) -> np.ndarray:
        """Φᵀb, where that of b before is known from the variables that changed."""
        if before is None or self.place is not None:
            return self.pull(b)
        changed = np.flatnonzero(b != last)
        if SOME * len(changed) > len(b):
            return self.pull(b)
        return before + self.rows.pull_some(changed, b[changed] - last[changed])

    def spread(self, rho: np.ndarray) -> Any:
        """ρ at each variable."""
        if not len(self.totals):
            return 0.0
        return rho[0] if self.member is None else rho[self.member]

    def raise_by(self, rho: np.ndarray, s: np.ndarray) -> None:
        """Add ρ of its group to s of each variable, in place."""
        if self.member is None:
            s += self.spread(rho)
            return
        for begin in range(0, len(s), PART):
            part = slice(begin, begin + PART)
            s[part] += rho[self.member[part]]

    def sums(self, b: np.ndarray) -> np.ndarray:
        """Σb of each group."""
        found = np.zeros(len(self.totals))
        if self.member is None:
            return found + b.sum()
        for begin in range(0, len(b), PART):
            part = slice(begin, begin + PART)
            found += np.bincount(self.member[part], b[part], len(found))
        return found

    def border(self, chosen: np.ndarray) -> np.ndarray:
        """What the levels add to features of these variables: -1 for their group."""
        out = np.zeros((len(chosen), len(self.totals)))
        if self.member is None:
            out[:] = -1.0
        else:
            out[np.arange(len(chosen)), self.member[chosen]] = -1.0
        return out

    def even(self) -> np.ndarray:
        """b with the totals of which all variables of a group have the same share."""
        room, lowest = self.sums(self.width), self.sums(self.low)
        if not len(self.totals):
            return self.middle()
        share = np.divide(self.totals - lowest, room, where=room > 0, out=0 * room)
        return self.low + self.width * self.spread(share)

    def middle(self) -> np.ndarray:
        middle = self.low + self.high
        middle /= 2
        return _stored(middle)

    def curvature(self, band: float) -> np.ndarray:
        """D, by which b changes with s inside a band."""
        if self.width.strides == (0,) and len(self.width):
            return np.broadcast_to(self.width[0] / band, self.width.shape)
        return self.width / band

    def maximiser(
        self, anchor: np.ndarray, D: Any, s: np.ndarray, out: np.ndarray | None = None
    ) -> np.ndarray:
        """b of the smoothed loss: its slope in s."""
        return _maximiser(anchor, D, s, self.low, self.high, self.tube, out)

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
    out: np.ndarray | None = None,
) -> np.ndarray:
    """b where b s - tube|b| - (b - anchor)² / 2D is largest, low ≤ b ≤ high."""
    out = np.empty(len(s)) if out is None else out
    for begin in range(0, len(s), PART):
        part = slice(begin, begin + PART)
        b = np.multiply(D[part], s[part], out=out[part])
        b += anchor[part]
        if tube is not None:
            # b ∓ D tube, or 0 where that would change its sign.
            reach = D[part] * tube[part]
            b -= np.clip(b, -reach, reach)
        np.clip(b, low[part], high[part], out=b)
    return out


class Line:
    """The smoothed function along a direction from a point.

    Attributes
    ----------
    at_0 : its derivative at the point
    """

    def __init__(
        self,
        terms: Terms,
        anchor: np.ndarray,
        D: np.ndarray,
        point: Point,
        dw: np.ndarray,
        drho: np.ndarray,
        ds: np.ndarray,
    ):
        self.terms, self.anchor, self.D, self.point = terms, anchor, D, point
        self.dw, self.drho, self.ds = dw, drho, ds
        self.first = float((point.w - terms.offset) @ dw - terms.totals @ drho)
        self.second = float(dw @ dw)
        self.at_0 = self.first + float(point.b @ ds)

    def searched(self, room: np.ndarray) -> tuple[float, Point]:
        """t > 0 where the derivative is small next to that at 0, and what is there.

        Its b is written to `room`, its s to that of the point.
        """
        low, at_low, high, at_high = 0.0, self.at_0, np.inf, np.nan
        t, b = 1.0, room
        for _ in range(30):
            self._maximiser(t, b)
            at_t = self.first + t * self.second + float(b @ self.ds)
            if abs(at_t) <= 0.1 * abs(self.at_0):
                break
            if at_t < 0:
                low, at_low = t, at_t
            else:
                high, at_high = t, at_t
            if high == np.inf:
                t *= 4
            else:
                share = min(max(at_low / (at_low - at_high), 0.1), 0.9)
                t = low + (high - low) * share
        w, rho = self.point.w + t * self.dw, self.point.rho + t * self.drho
        for _, s, ds in self._parts():
            s += t * ds
        return t, Point(w, rho, self.point.s, b)

    def _maximiser(self, t: float, b: np.ndarray) -> None:
        """b at s + t ds."""
        terms = self.terms
        for part, s, ds in self._parts():
            tube = None if terms.tube is None else terms.tube[part]
            bounds = terms.low[part], terms.high[part]
            anchor, D = self.anchor[part], self.D[part]
            _maximiser(anchor, D, s + t * ds, *bounds, tube, b[part])

    def _parts(self) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        for begin in range(0, len(self.ds), PART):
            part = slice(begin, begin + PART)
            yield part, self.point.s[part], self.ds[part]


def _stored(values: np.ndarray) -> np.ndarray:
    """The same, as one number where all are equal: vectors of it take no memory."""
    if len(values) and np.min(values) == np.max(values):
        return np.broadcast_to(values[0].copy(), values.shape)
    return values


def scale_of(terms: Terms) -> float:
    """A typical size of s: of the targets, or of F where these do not differ."""
    if not len(terms):
        return 1.0
    largest = float(np.max(np.abs(terms.target)))
    size = float(np.ptp(terms.target)) if len(terms.totals) == 1 else largest
    if size <= SAME * largest:
        size = float(np.ptp(terms.times(terms.pull(terms.even()))))
    return size or largest or 1.0
