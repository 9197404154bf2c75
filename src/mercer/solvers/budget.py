"""Stochastic gradient steps with a budget: streams without end in bounded memory.

A budget of N terms keeps the kernel values between them, (N + 1)² numbers, so that ‖w‖²
is known after every step and every removal. The merging of two terms is that of Wang,
Crammer and Vucetic, JMLR 13 (2012). The steps are made in the core where it knows the
loss; those in Python are the same for a loss of one's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer import _core
from mercer.data.points import Points, take
from mercer.kernels.base import Kernel
from mercer.kernels.operators import Constant, Sum
from mercer.kernels.radial import RBF
from mercer.kernels.vector import has_widths
from mercer.native.memory import check_room
from mercer.solvers.sgd import (
    SGD,
    SGDSnapshot,
    SGDState,
    Visits,
    native_loss,
    projection,
    step,
)


class BudgetSGD(SGDState):
    """SGD with a budget of N terms: slots, their kernel values, and one to spare."""

    def __init__(self, options: SGD, state: SGDSnapshot, X: Points, target: np.ndarray):
        assert options.budget is not None
        _check_room(options.budget)
        if options.removal == "merge":
            _refuse_to_merge(state.kernel, X)
        super().__init__(options, state, X, target)
        N, q = options.budget, len(self.square)
        m = self.m = min(self.old, N)
        self.coef, self.total = np.zeros((N + 1, q)), np.zeros((N + 1, q))
        self.age = np.zeros(N + 1, dtype=np.int64)
        self.source = np.zeros(N + 1, dtype=np.int64)  # the place of a slot in points
        self.matrix = np.zeros((N + 1, N + 1))
        kept = np.arange(self.old)
        age = np.zeros(self.old) if state.age is None else state.age
        if self.old > N:  # learnt before there was a budget, or with a larger one
            kept = np.sort(np.argsort(age, kind="stable")[-N:])
        self.coef[:m], self.total[:m] = state.coef[kept], state.total[kept]
        self.age[:m], self.source[:m] = age[kept], kept
        if state.matrix is not None:
            self.matrix[:m, :m] = state.matrix[np.ix_(kept, kept)]
        elif m:
            self.matrix[:m, :m] = self.kernel(take(self.points, self.source[:m]))
        if self.old > N:
            held = self.coef[:m]
            self.square = np.sum(held * (self.matrix[:m, :m] @ held), axis=0)
        self.places: np.ndarray | None = None
        if options.removal == "merge":
            self.places = np.zeros((N + 1, self.points.shape[1]))
            self.places[:m] = _rows(self.points, self.source[:m])
        self.offset = 1.0 if isinstance(self.kernel, Sum) else 0.0

    @property
    def terms(self) -> int:
        return self.m

    def block(self, visits: Visits) -> np.ndarray:
        """f at the points visited, each before its step."""
        P = take(self.X, visits.place)
        b, m = len(visits.place), self.m
        S = np.ascontiguousarray(self.kernel(P), dtype=float)
        G = np.zeros((b, len(self.coef)))  # k between the block and the slots
        if m:
            G[:, :m] = self.kernel(P, self._slots())
        if native_loss(self.options.loss) is None:
            return self._in_python(visits, P, S, G)
        return self._in_core(visits, P, S, G)

    def _in_core(
        self, visits: Visits, P: Points, S: np.ndarray, G: np.ndarray
    ) -> np.ndarray:
        """The steps of a block; k between its points is S, with the slots G."""
        known, options = native_loss(self.options.loss), self.options
        assert known is not None
        values = np.empty((len(G), self.coef.shape[1]))
        none = np.empty((0, 0))
        gamma, points = 0.0, none
        if self.places is not None:
            gamma = float(_gaussian(self.kernel).gamma)
            points = np.require(P.toarray() if sp.issparse(P) else P, float, ["C", "A"])
        self.m, self.steps = _core.budget_steps(
            *known,
            S,
            G,
            np.require(visits.target, float, ["C", "A"]),
            np.require(visits.weight, float, ["C", "A"]),
            np.require(visits.rate, float, ["C", "A"]),
            np.require(visits.place + self.old, np.int64, ["C", "A"]),
            options.reg,
            options.norm,
            options.average,
            options.removal,
            self.coef,
            self.total,
            self.square,
            self.matrix,
            self.age,
            self.source,
            gamma,
            self.offset,
            points,
            none if self.places is None else self.places,
            values,
            self.m,
            self.steps,
        )
        if options.average:
            self.averaged += len(G)
        return values

    def _in_python(
        self, visits: Visits, P: Points, S: np.ndarray, G: np.ndarray
    ) -> np.ndarray:
        """The same for a loss of one's own."""
        b, m = len(G), self.m
        values = np.empty((b, self.coef.shape[1]))
        slot_of = {int(self.source[i]): i for i in range(m) if self.source[i] >= 0}
        for j in range(b):
            m = self.m
            f = values[j] = G[j, :m] @ self.coef[:m]
            if self.options.average:
                self.total[:m] += self.coef[:m]
                self.averaged += 1
            self.steps += 1
            shrink, d = step(self.options, f, visits, j, S[j, j], self.square)
            if shrink != 1:
                self.coef[:m] *= shrink
            if d.any():
                self._add(int(visits.place[j]) + self.old, d, G, S, j, slot_of)
                if self.m == len(self.coef):
                    self._make_room(G, P, slot_of)
            factor = projection(self.options, self.square)
            if (factor < 1).any():
                self.coef[: self.m] *= factor
        return values

    def _slots(self) -> Points:
        if self.places is not None:
            return self.places[: self.m]
        return take(self.points, self.source[: self.m])

    def _add(
        self,
        place: int,
        d: np.ndarray,
        G: np.ndarray,
        S: np.ndarray,
        j: int,
        slot_of: dict[int, int],
    ) -> None:
        """d φ(x) to the term of this point, or to a new one."""
        slot = slot_of.get(place)
        if slot is None:
            slot, m = self.m, self.m
            self.matrix[slot, :m] = self.matrix[:m, slot] = G[j, :m]
            self.matrix[slot, slot] = S[j, j]
            G[:, slot] = S[:, j]
            self.coef[slot] = self.total[slot] = 0.0
            self.source[slot], slot_of[place] = place, slot
            if self.places is not None:
                self.places[slot] = _rows(self.points, [place])[0]
            self.m += 1
        self.coef[slot] += d
        self.age[slot] = self.steps

    def _make_room(self, G: np.ndarray, P: Points, slot_of: dict[int, int]) -> None:
        """One term fewer; the newest stays."""
        candidates = np.flatnonzero(self.age[: self.m] < self.steps)
        if self.options.removal == "oldest":
            slot = candidates[np.argmin(self.age[candidates])]
        else:
            squares = self.coef[candidates] ** 2
            merges = self.options.removal == "merge"
            # Where a term is given up, the output that loses most counts.
            sizes = squares.sum(axis=1) if merges else squares.max(axis=1)
            sizes = sizes * self.matrix[candidates, candidates]
            # Many are alike, but for rounding; the oldest of them goes.
            least = np.flatnonzero(sizes <= (1 + 1e-9) * sizes.min())
            slot = candidates[least[np.argmin(self.age[candidates[least]])]]
        if self.options.removal == "merge":
            newest = int(np.argmax(self.age[: self.m]))
            cost, a, b = min(self._partner(int(slot)), self._partner(newest))
            if cost < np.inf:
                self._merge(a, b, G, P, slot_of)
                return
        self._remove(slot, G, slot_of)

    def _remove(self, slot: int, G: np.ndarray, slot_of: dict[int, int]) -> None:
        """w without a term; the last one takes its slot."""
        m, c = self.m, self.coef[slot]
        f = self.matrix[slot, :m] @ self.coef[:m]
        square = self.square - 2 * c * f + c * c * self.matrix[slot, slot]
        self.square = np.maximum(square, 0.0)
        self._drop(slot, G, slot_of)

    def _drop(self, slot: int, G: np.ndarray, slot_of: dict[int, int]) -> None:
        last = self.m - 1
        slot_of.pop(int(self.source[slot]), None)
        if slot != last:
            for array in (self.coef, self.total, self.age, self.source, self.places):
                if array is not None:
                    array[slot] = array[last]
            self.matrix[slot] = self.matrix[last]
            self.matrix[:, slot] = self.matrix[:, last]
            G[:, slot] = G[:, last]
            if self.source[slot] >= 0:
                slot_of[int(self.source[slot])] = slot
        self.m = last

    def _partner(self, slot: int) -> tuple[float, int, int]:
        """Where a merger costs least, among the terms of the same signs: (cost, a, b).

        Each merger is judged at the weighted mean of its two points.
        """
        c = self.coef[: self.m]
        same = np.all(c * c[slot] >= 0, axis=1) & np.any(c * c[slot] > 0, axis=1)
        same[slot] = False
        others = np.flatnonzero(same)
        if not len(others):
            return np.inf, slot, slot
        sizes, own = np.linalg.norm(c, axis=1), 1 + self.offset
        between = self.matrix[slot, others]
        products = sizes[slot] ** 2, c[others] @ c[slot], sizes[others] ** 2
        h = sizes[slot] / (sizes[slot] + sizes[others])
        gain = _gain(h, self._logarithm(between), products, self.offset, np.exp)
        pair = own * (products[0] + products[2]) + 2 * between * products[1]
        best = int(np.argmin(pair - gain))
        return float((pair - gain)[best]), slot, int(others[best])

    def _logarithm(self, values: np.ndarray) -> np.ndarray:
        """ln of the Gaussian kernel's values, at least -700."""
        return np.log(np.clip(values - self.offset, 1e-304, 1.0))

    def _merge(
        self, a: int, b: int, G: np.ndarray, P: Points, slot_of: dict[int, int]
    ) -> None:
        """Terms a and b become one at z = h a + (1 - h) b, as near as can be."""
        assert self.places is not None
        m, c, o = self.m, self.coef[: self.m], self.offset
        log = float(self._logarithm(self.matrix[a, b]))
        products = float(c[a] @ c[a]), float(c[a] @ c[b]), float(c[b] @ c[b])
        h = _best_share(log, products, o)
        z = (h * self.places[a] + (1 - h) * self.places[b])[None]
        row = np.asarray(self.kernel(z, self.places[:m])[0], dtype=float)
        own = 1 + o
        new = (row[a] * c[a] + row[b] * c[b]) / own
        average = (row[a] * self.total[a] + row[b] * self.total[b]) / own
        f = self.matrix[[a, b], :m] @ c
        # ‖w + u‖² with u = new φ(z) - c_a φ(a) - c_b φ(b), all from kernel values.
        inner = new * (row @ c) - c[a] * f[0] - c[b] * f[1]
        length = own * new**2 + own * (c[a] ** 2 + c[b] ** 2)
        length += 2 * self.matrix[a, b] * c[a] * c[b]
        length -= 2 * new * (row[a] * c[a] + row[b] * c[b])
        self.square = np.maximum(self.square + 2 * inner + length, 0.0)
        slot_of.pop(int(self.source[b]), None)
        self.coef[b], self.total[b] = new, average
        self.age[b] = max(self.age[a], self.age[b])
        self.source[b], self.places[b] = -1, z[0]
        self.matrix[b, :m] = self.matrix[:m, b] = row
        self.matrix[b, b] = own
        G[:, b] = self.kernel(P, z)[:, 0]
        self._drop(a, G, slot_of)

    def state(self) -> SGDSnapshot:
        m = self.m
        points = self._slots()
        return replace(
            self.begin,
            points=points.copy() if self.places is not None else points,
            coef=self.coef[:m].copy(),
            total=self.total[:m].copy(),
            square=self.square.copy(),
            steps=self.steps,
            averaged=self.averaged,
            age=self.age[:m].copy(),
            matrix=self.matrix[:m, :m].copy(),
        )


_Number = TypeVar("_Number", float, np.ndarray)


def _gain(
    h: _Number,
    log: _Number,
    products: tuple[_Number, _Number, _Number],
    offset: float,
    exp: Callable[[_Number], _Number],
) -> _Number:
    """‖c_a φ(a) + c_b φ(b), projected on φ(z)‖² for z = h a + (1 - h) b.

    For a Gaussian kernel k(a, z) = k(a, b)^((1-h)²) and k(b, z) = k(a, b)^(h²); `log`
    is ln k(a, b), and `products` are c_a·c_a, c_a·c_b and c_b·c_b.
    """
    to_a, to_b = exp(log * (1 - h) ** 2) + offset, exp(log * h**2) + offset
    both = 2 * to_a * to_b * products[1]
    return (to_a**2 * products[0] + both + to_b**2 * products[2]) / (1 + offset)


Products = tuple[float, float, float]  # c_a·c_a, c_a·c_b and c_b·c_b


def _grows(h: float, log: float, products: Products, offset: float) -> bool:
    """Whether the gain grows with h."""
    near_a, near_b = math.exp(log * (1 - h) ** 2), math.exp(log * h**2)
    to_a, to_b = near_a + offset, near_b + offset
    aa, ab, bb = products
    slope = -(1 - h) * log * near_a * (to_a * aa + to_b * ab)
    return slope + h * log * near_b * (to_a * ab + to_b * bb) > 0


def _best_share(log: float, products: Products, offset: float) -> float:
    """Where on [0, 1] the gain is largest.

    Golden sections find the hill, its slope the top.
    """

    def gain(h: float) -> float:
        return _gain(h, log, products, offset, math.exp)

    ratio = (math.sqrt(5) - 1) / 2
    low, high = 0.0, 1.0
    x, y = high - ratio * (high - low), low + ratio * (high - low)
    at_x, at_y = gain(x), gain(y)
    for _ in range(12):
        # Equal terms are as well off on both sides: rounding must not choose.
        if at_x > (1 + 1e-12) * at_y:
            high, y, at_y = y, x, at_x
            x = high - ratio * (high - low)
            at_x = gain(x)
        else:
            low, x, at_x = x, y, at_y
            y = low + ratio * (high - low)
            at_y = gain(y)
    low, high = max(0.0, low - 1e-4), min(1.0, high + 1e-4)
    for _ in range(44):
        middle = (low + high) / 2
        if _grows(middle, log, products, offset):
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _rows(X: Points, index: npt.ArrayLike) -> np.ndarray:
    rows = take(X, index)
    return rows.toarray() if sp.issparse(rows) else rows


def _gaussian(kernel: Kernel) -> Any:
    """The kernel without the constant that stands for a bias."""
    if isinstance(kernel, Sum) and kernel.right == Constant(1.0):
        return kernel.left
    return kernel


def _refuse_to_merge(kernel: Kernel, X: Any) -> None:
    base = _gaussian(kernel)
    array = sp.issparse(X) or isinstance(X, np.ndarray)
    plain = isinstance(base, RBF) and not has_widths(base.gamma)
    if not (plain and array and X.ndim == 2):
        kind = f"a {type(X).__name__}" if not array else "vectors"
        raise ValueError(
            'removal="merge" puts one point between two, which needs the kernel RBF on '
            f'vectors; got {base!r} on {kind}. Choose "oldest" or "smallest".'
        )


def _check_room(budget: int) -> None:
    check_room(
        3 * 8.0 * (budget + 1) ** 2,
        f"budget={budget} keeps the kernel values between its terms,",
        "Lower the budget, or leave it out: without one no matrix is kept.",
    )
