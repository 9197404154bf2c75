"""Stochastic gradient steps with w on the columns of an explicit map.

The steps are those of `sgd.py`, block by block; f at a block is Φw instead of a product
with all points there were, so that a step takes time in its features and no more.
Shrinking w multiplies one number, w = scale · raw; and the sum of all w so far is

    w₁ + ... + w_T = fixed + past · raw - late,    past = scale₁ + ... + scale_T,

late being past, as it was, times what was added to raw then: no step touches more than
the columns of its point (Xu, arXiv:1107.2490, section 5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.parts import Parts
from mercer.data.points import Points, concatenate, count, take
from mercer.kernels.base import Kernel, without_constant
from mercer.maps import ColumnIndex, explicit
from mercer.native.interruptible import multiply
from mercer.solvers.sgd import SGD, SGDSnapshot, SGDState, Steps, Visits

SMALLEST = 1e-3  # a scale below this is multiplied out


class Sums:
    """Rows of w = scale · raw, and of the sum of all w before: fixed + past·raw - late.

    Parameters
    ----------
    raw, late, fixed : (m, q) arrays
    """

    def __init__(self, raw: np.ndarray, late: np.ndarray, fixed: np.ndarray):
        self.raw, self.late, self.fixed = raw, late, fixed

    @classmethod
    def zeros(cls, m: int, q: int) -> Sums:
        return cls(*np.zeros((3, m, q)))

    def __len__(self) -> int:
        return len(self.raw)

    def copied(self, m: int | None = None) -> Sums:
        """The same in arrays of their own, with rows of 0 up to m of them."""
        more = 0 if m is None else m - len(self)
        parts = (self.raw, self.late, self.fixed)
        return Sums(*(np.pad(part, ((0, more), (0, 0))) for part in parts))

    def then(self, later: Sums) -> Sums:
        """These rows, and those after them."""
        mine = self.raw, self.late, self.fixed
        theirs = later.raw, later.late, later.fixed
        return Sums(*map(np.concatenate, zip(mine, theirs, strict=True)))

    def take(self, index: np.ndarray) -> Sums:
        return Sums(self.raw[index], self.late[index], self.fixed[index])

    def used(self) -> np.ndarray:
        """Which rows have anything that is not 0."""
        any_of = self.raw.any(axis=1) | self.late.any(axis=1) | self.fixed.any(axis=1)
        return np.flatnonzero(any_of)

    def total(self, past: np.ndarray) -> np.ndarray:
        """The sum of all w, these rows of it."""
        return self.fixed + (past * self.raw - self.late)

    def flushed(self, scale: np.ndarray, past: np.ndarray) -> Sums:
        """The same with scale 1 and past 0."""
        return Sums(scale * self.raw, np.zeros_like(self.late), self.total(past))


@dataclass(frozen=True, eq=False)
class Terms:
    """Points with a coefficient, and their rows."""

    points: Points
    sums: Sums

    def __len__(self) -> int:
        return len(self.sums)

    def then(self, later: Terms) -> Terms:
        """These points, and those after them."""
        if not len(self):
            return later
        if not len(later):
            return self
        points = concatenate(self.points, later.points)
        return Terms(points, self.sums.then(later.sums))


@dataclass(frozen=True, eq=False)
class Primal:
    """w on the columns of a map, beside its coefficients on points.

    Parameters
    ----------
    kernel : without its constant
    constant : c of the kernel k + c
    columns : of w, those of the map
    w, bias : the rows of the columns, and that of the constant
    terms : those of the points, joined when they are asked for
    scale, past : (q,) each
    """

    kernel: Kernel
    constant: float
    columns: ColumnIndex
    w: Sums
    bias: Sums
    terms: Parts[Terms]
    scale: np.ndarray
    past: np.ndarray

    @classmethod
    def begun(cls, state: SGDSnapshot) -> SGDSnapshot:
        """The state with w on features, and its points there too."""
        none, empty = np.zeros((0, len(state.square))), take(state.points, slice(0, 0))
        primal = cls._of(state)
        return replace(state, points=empty, coef=none, total=none, primal=primal)

    @classmethod
    def _of(cls, state: SGDSnapshot) -> Primal:
        kernel, constant = without_constant(state.kernel)
        columns, q = ColumnIndex(), len(state.square)
        w, bias = Sums.zeros(0, q), Sums.zeros(1, q)
        late = np.zeros_like(state.coef)
        if len(state.coef):
            features = columns.extended(explicit(kernel, state.points))
            raw, fixed = (
                np.asarray(multiply(features.T, coef))
                for coef in (state.coef, state.total)
            )
            w = Sums(raw, np.zeros_like(raw), fixed)
            root = np.sqrt(constant)
            raw, fixed = (root * v.sum(axis=0)[None] for v in (state.coef, state.total))
            bias = Sums(raw, np.zeros_like(raw), fixed)
        terms = Terms(state.points, Sums(state.coef, late, state.total))
        parts = Parts(Terms.then, (terms,))
        one, none = np.ones(q), np.zeros(q)
        return cls(kernel, constant, columns, w, bias, parts, one, none)

    def values(self, X: Points, averaged: int | None = None) -> np.ndarray:
        """⟨w, φ(x)⟩ at m points, (m, q); of the mean of w over so many steps."""
        features = self.columns.known(explicit(self.kernel, X))
        w = self.w.copied(len(self.columns))
        root = np.sqrt(self.constant)
        if averaged is None:
            w_now, bias = self.scale * w.raw, self.scale * self.bias.raw
        else:
            w_now = w.total(self.past) / max(averaged, 1)
            bias = self.bias.total(self.past) / max(averaged, 1)
        return np.asarray(multiply(features, w_now)) + root * bias

    def on_points(self, state: SGDSnapshot) -> SGDSnapshot:
        """The state with coefficients of points, and without features."""
        terms = self.terms.whole()
        coef, total = self.scale * terms.sums.raw, terms.sums.total(self.past)
        kept = np.flatnonzero(coef.any(axis=1) | total.any(axis=1))
        points = terms.points if len(kept) == len(coef) else take(terms.points, kept)
        return replace(
            state, points=points, coef=coef[kept], total=total[kept], primal=None
        )


class FeatureSGD(SGDState):
    """SGD without a budget, by an explicit map: w on its columns.

    Parameters
    ----------
    state : with a `Primal`
    own : makes points to keep of some of X
    """

    def __init__(
        self,
        options: SGD,
        state: SGDSnapshot,
        X: Points,
        target: np.ndarray,
        own: Callable[[Points], Points] = lambda points: points,
    ):
        primal = state.primal
        assert primal is not None
        self.primal, self.own = primal, own
        features = primal.columns.extended(explicit(primal.kernel, X))
        self.features: Any = features
        super().__init__(options, state, X, target)
        self.w = primal.w.copied(features.shape[1])
        self.bias, self.former = primal.bias.copied(), primal.terms
        self.coef = np.empty((0, len(self.square)))
        self.mine = Sums.zeros(count(X), len(self.square))
        self.scale, self.past = primal.scale.copy(), primal.past.copy()

    def _diagonal(self, kernel: Kernel) -> np.ndarray:
        """k(x, x) of the points."""
        squares = self.features * self.features
        if sp.issparse(self.features):
            squares = self.features.multiply(self.features)
        return np.asarray(squares.sum(axis=1)).ravel() + self.primal.constant

    @property
    def terms(self) -> int:
        there = sum(map(len, self.former.parts))
        return there + int(self.mine.raw.any(axis=1).sum())

    def block(self, visits: Visits) -> np.ndarray:
        rows, columns = self._rows(visits.place)
        constant, root = self.primal.constant, np.sqrt(self.primal.constant)
        K = rows @ rows.T
        K = (K.toarray() if sp.issparse(K) else K) + constant
        before = np.asarray(rows @ self.w.raw[columns]) + root * self.bias.raw
        steps = Steps.of(self.scale * before)
        gram = np.ascontiguousarray(K, dtype=float)
        done = steps.make(self.options, gram, visits, self.square)
        rows, place = rows[:done], visits.place[:done]
        added = steps.added[:, :done].T
        if self.options.average:
            scales = steps.scales[:, :done].T
            # From the end: added_j may be huge where the scales after it are tiny.
            rest = np.cumsum(scales[::-1], axis=0)[::-1]
            self.past += self.scale * rest[0]
            now = np.zeros_like(added)
            now[:-1] = rest[1:] * added[:-1]
            self._add("fixed", rows, columns, place, now)
        vanished = (self.scale * steps.scale < SMALLEST).any()
        if vanished:
            # What was there shrinks with all; what is added is multiplied out.
            self._flush()
            for sums in (self.w, self.bias, self.mine):
                sums.raw *= steps.scale
            self._shrink_former(steps.scale)
            self._add("raw", rows, columns, place, steps.scale * added)
        else:
            self._add("raw", rows, columns, place, added / self.scale)
            if self.options.average:
                late = self.past * (added / self.scale)
                self._add("late", rows, columns, place, late)
            self.scale = self.scale * steps.scale
        if steps.last.any():
            last = np.zeros_like(added)
            last[-1] = steps.last
            self._add("raw", rows, columns, place, last)
        self.steps += done
        self.averaged += done if self.options.average else 0
        return steps.values[:, :done].T

    def _rows(self, place: np.ndarray) -> tuple[Any, Any]:
        """Φ of some points in the columns they have, and which these are."""
        rows = self.features[place]
        if not sp.issparse(rows):
            return rows, slice(None)
        columns, index = np.unique(rows.indices, return_inverse=True)
        parts = rows.data, index.ravel(), rows.indptr
        return sp.csr_array(parts, shape=(len(place), len(columns))), columns

    def _add(
        self,
        name: str,
        rows: Any,
        columns: Any,
        place: np.ndarray,
        added: np.ndarray,
    ) -> None:
        """Add multiples of these points to w, and to their own rows."""
        getattr(self.w, name)[columns] += rows.T @ added
        root = np.sqrt(self.primal.constant)
        getattr(self.bias, name)[0] += root * added.sum(axis=0)
        np.add.at(getattr(self.mine, name), place, added)

    def _flush(self) -> None:
        """Multiply the scale out, of all rows."""
        self.w, self.bias, self.mine = (
            sums.flushed(self.scale, self.past)
            for sums in (self.w, self.bias, self.mine)
        )
        if self.former.parts:
            terms = self.former.whole()
            sums = terms.sums.flushed(self.scale, self.past)
            self.former = Parts(Terms.then, (replace(terms, sums=sums),))
        self.scale = np.ones_like(self.scale)
        self.past = np.zeros_like(self.past)

    def _shrink_former(self, scale: np.ndarray) -> None:
        if self.former.parts:
            terms = self.former.whole()
            sums = terms.sums
            sums = Sums(scale * sums.raw, sums.late, sums.fixed)
            self.former = Parts(Terms.then, (replace(terms, sums=sums),))

    def state(self) -> SGDSnapshot:
        kept = self.mine.used()
        terms = Terms(self.own(take(self.X, kept)), self.mine.take(kept))
        primal = replace(
            self.primal,
            w=self.w,
            bias=self.bias,
            terms=self.former.with_more(terms),
            scale=self.scale,
            past=self.past,
        )
        return replace(
            self.begin,
            primal=primal,
            square=self.square.copy(),
            steps=self.steps,
            averaged=self.averaged,
            age=None,
            matrix=None,
        )
