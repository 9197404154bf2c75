"""Stochastic gradient steps with w on the columns of an explicit map.

The steps are those of `sgd.py`, made one after another in the core; f is ⟨w, φ(x)⟩
instead of a product with all points there were, so that a step takes time in its
features and no more.
Shrinking w multiplies one number, w = scale · raw; and the sum of all w so far is

    w₁ + ... + w_T = fixed + past · raw - late,    past = scale₁ + ... + scale_T,

late being past, as it was, times what was added to raw then: no step touches more than
the columns of its point (Xu, arXiv:1107.2490, section 5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.parts import Parts
from mercer.data.points import Points, concatenate, count, take
from mercer.kernels.base import Kernel
from mercer.kernels.nystrom import Nystrom
from mercer.kernels.operators import without_constant
from mercer.maps import ColumnIndex, explicit
from mercer.native.interruptible import multiply
from mercer.native.rows import explicit_rows
from mercer.solvers.sgd import (
    BLOCK,
    SGD,
    TINY,
    SGDSnapshot,
    SGDState,
    Visits,
    native_loss,
    projection,
    step,
)

SMALLEST = 1e-3  # a scale below this is multiplied out, where sums are kept
AT_ONCE = 2**19  # multiplications or so between two looks at the clock


class Sums:
    """Rows of w = scale · raw, and of the sum of all w before: fixed + past·raw - late.

    Parameters
    ----------
    rows : (3, m, q) array of raw, late and fixed
    """

    def __init__(self, rows: np.ndarray):
        self.rows = rows

    @classmethod
    def of(cls, raw: np.ndarray, late: np.ndarray, fixed: np.ndarray) -> Sums:
        return cls(np.stack([raw, late, fixed]))

    @classmethod
    def zeros(cls, m: int, q: int) -> Sums:
        return cls(np.zeros((3, m, q)))

    @classmethod
    def of_points(cls, n: int, q: int) -> Sums:
        """0 for each point, with what belongs to one point together in memory."""
        return cls(np.zeros((n, 3, q)).transpose(1, 0, 2))

    @property
    def raw(self) -> np.ndarray:
        return self.rows[0]

    @property
    def late(self) -> np.ndarray:
        return self.rows[1]

    @property
    def fixed(self) -> np.ndarray:
        return self.rows[2]

    def __len__(self) -> int:
        return self.rows.shape[1]

    def copied(self, m: int | None = None) -> Sums:
        """The same in an array of their own, with rows of 0 up to m of them."""
        more = 0 if m is None else m - len(self)
        return Sums(np.pad(self.rows, ((0, 0), (0, more), (0, 0))))

    def then(self, later: Sums) -> Sums:
        """These rows, and those after them."""
        return Sums(np.concatenate([self.rows, later.rows], axis=1))

    def take(self, index: np.ndarray) -> Sums:
        return Sums(self.rows[:, index])

    def used(self) -> np.ndarray:
        """Which rows have anything that is not 0."""
        return np.flatnonzero(self.rows.any(axis=(0, 2)))

    def total(self, past: np.ndarray) -> np.ndarray:
        """The sum of all w, these rows of it."""
        return self.fixed + (past * self.raw - self.late)

    def flushed(self, scale: np.ndarray, past: np.ndarray, which: Any) -> Sums:
        """The same with scale 1 and past 0, of the outputs `which`."""
        rows = self.rows.copy()
        rows[2, :, which] = self.total(past)[:, which].T
        rows[1, :, which] = 0.0
        rows[0, :, which] = (scale * self.raw)[:, which].T
        return Sums(rows)


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
            w = Sums.of(raw, np.zeros_like(raw), fixed)
            root = np.sqrt(constant)
            raw, fixed = (root * v.sum(axis=0)[None] for v in (state.coef, state.total))
            bias = Sums.of(raw, np.zeros_like(raw), fixed)
        terms = Terms(state.points, Sums.of(state.coef, late, state.total))
        one, none = np.ones(q), np.zeros(q)
        primal = cls(kernel, constant, columns, w, bias, Parts(Terms.then), one, none)
        if primal.keeps_points:
            primal = replace(primal, terms=Parts(Terms.then, (terms,)))
        return primal

    def values(self, X: Points, averaged: int | None = None) -> np.ndarray:
        """⟨w, φ(x)⟩ at m points, (m, q); of the mean of w over so many steps."""
        features = self.columns.known(explicit(self.kernel, X))
        w, bias = self.weights(averaged)
        return np.asarray(multiply(features, w)) + bias

    def weights(self, averaged: int | None) -> tuple[np.ndarray, np.ndarray]:
        """w, (p, q), and what the constant adds to f, (q,)."""
        w, root = self.w.copied(len(self.columns)), np.sqrt(self.constant)
        if averaged is None:
            return self.scale * w.raw, root * (self.scale * self.bias.raw)[0]
        steps = max(averaged, 1)
        bias = self.bias.total(self.past)[0]
        return w.total(self.past) / steps, root * bias / steps

    @property
    def keeps_points(self) -> bool:
        """Whether f ends on its points; that of Nystrom ends on the landmarks."""
        return not isinstance(self.kernel, Nystrom)

    def on_points(self, state: SGDSnapshot) -> SGDSnapshot:
        """The state with coefficients of points, and without features."""
        if not self.keeps_points:
            raise ValueError(
                "A budget is one of points, and w on the features of Nystrom keeps "
                "none. Give the budget before the first batch, or fit anew."
            )
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
        self.mine = Sums.of_points(count(X), len(self.square))
        self.scale, self.past = primal.scale.copy(), primal.past.copy()

    def _diagonal(self, kernel: Kernel) -> np.ndarray:
        """k(x, x) of the points."""
        self.diagonal = _squares(self.features) + self.primal.constant
        return self.diagonal

    @property
    def terms(self) -> int:
        there = sum(map(len, self.former.parts))
        return there + int(self.mine.raw.any(axis=1).sum())

    @property
    def together(self) -> int:
        n, p = self.features.shape
        wide = self.features.nnz / max(1, n) if sp.issparse(self.features) else p
        return int(np.clip(AT_ONCE / (wide * len(self.square) + 16), BLOCK, AT_ONCE))

    def block(self, visits: Visits) -> np.ndarray:
        q, options = len(self.square), self.options
        values = np.empty((len(visits.place), q))
        shrunk, summed = np.ones(q), np.zeros(q)
        known = native_loss(options.loss)
        if known is None:
            self._in_python(visits, values, shrunk, summed)
        else:
            self._rows.sgd_steps(
                *known,
                np.ascontiguousarray(visits.place, dtype=np.int64),
                np.ascontiguousarray(visits.target, dtype=float),
                np.ascontiguousarray(visits.weight, dtype=float),
                visits.rate,
                self.diagonal,
                options.reg,
                options.norm,
                np.sqrt(self.primal.constant),
                options.average,
                self._smallest,
                self.w.rows,
                self.bias.rows,
                self.mine.rows.transpose(1, 0, 2),
                self.scale,
                self.past,
                self.square,
                values,
                shrunk,
                summed,
            )
        self._shrink_former(shrunk, summed)
        self.steps += len(values)
        self.averaged += len(values) if options.average else 0
        return values

    @cached_property
    def _rows(self) -> Any:
        return explicit_rows(self.features)

    @property
    def _smallest(self) -> float:
        """The scale below which it is multiplied out: sums lose the digits it lost."""
        return SMALLEST if self.options.average or self.past.any() else TINY

    def _in_python(
        self,
        visits: Visits,
        values: np.ndarray,
        shrunk: np.ndarray,
        summed: np.ndarray,
    ) -> None:
        """The steps of the core for a loss of one's own."""
        root, smallest = np.sqrt(self.primal.constant), self._smallest
        for t, i in enumerate(visits.place):
            x, columns = self._row(i)
            f = self.scale * (x @ self.w.raw[columns] + root * self.bias.raw[0])
            values[t] = f
            kxx = self.diagonal[i]
            shrink, d = step(self.options, f, visits, t, kxx, self.square)
            factor = projection(self.options, self.square)
            if self.options.average:
                self.past += self.scale
            following = self.scale * shrink * factor
            flushed = following < smallest
            added = d / np.where(flushed, 1.0, self.scale * shrink)
            if flushed.any():
                self._multiply_out(flushed, shrink * factor, shrunk, summed)
                added[flushed] = (factor * d)[flushed]
            self.scale = np.where(flushed, 1.0, following)
            late = self.past * added
            for rows, much in ((0, added), (1, late)):
                self.w.rows[rows, columns] += np.outer(x, much)
                self.bias.rows[rows, 0] += root * much
                self.mine.rows[rows, i] += much

    def _row(self, i: int) -> tuple[np.ndarray, Any]:
        """φ of a point in the columns it has, and which these are."""
        if not sp.issparse(self.features):
            return self.features[i], slice(None)
        part = slice(*self.features.indptr[i : i + 2])
        return self.features.data[part], self.features.indices[part]

    def _multiply_out(
        self,
        which: np.ndarray,
        factor: np.ndarray,
        shrunk: np.ndarray,
        summed: np.ndarray,
    ) -> None:
        """Scale 1 and past 0 of some outputs, what was there shrunk besides."""
        scale = self.scale * factor
        self.w, self.bias, self.mine = (
            sums.flushed(scale, self.past, which)
            for sums in (self.w, self.bias, self.mine)
        )
        summed[which] += (shrunk * self.past)[which]
        shrunk[which] *= scale[which]
        self.past = np.where(which, 0.0, self.past)

    def _shrink_former(self, shrunk: np.ndarray, summed: np.ndarray) -> None:
        """The rows of points that were there before X, where scales went into them."""
        which = shrunk != 1
        if which.any() and self.former.parts:
            terms = self.former.whole()
            sums = terms.sums.flushed(shrunk, summed, which)
            self.former = Parts(Terms.then, (replace(terms, sums=sums),))

    def state(self) -> SGDSnapshot:
        terms = self.former
        if self.primal.keeps_points:
            kept = self.mine.used()
            points = self.own(take(self.X, kept))
            terms = terms.with_more(Terms(points, self.mine.take(kept)))
        primal = replace(
            self.primal,
            w=self.w,
            bias=self.bias,
            terms=terms,
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


def _squares(features: Any) -> np.ndarray:
    """‖φ(x)‖² of each row."""
    if sp.issparse(features):
        return np.asarray(features.multiply(features).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", features, features)
