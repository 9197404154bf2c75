"""The optimum of a box-constrained quadratic from near it: an active-set method.

    min ½ βᵀKβ - targetᵀβ,  low ≤ β ≤ high,  Σβ as it is

Between their bounds variables solve a system of equations, K d + ν = -gradient with
Σd = 0. Near the optimum few of them come to a bound or leave one, and each of these is
a row and a column at the border of the first system, whose factor is computed once
(Nocedal and Wright, Numerical Optimization (2006), section 16.5; Stellato et al., OSQP,
Math. Prog. Comp. 12 (2020), section 5.2, on polishing).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mercer.native import lapack
from mercer.solvers.rounding import UNIT

MOST_CHANGES = 200  # of variables that come to a bound or leave one


@dataclass
class Polish:
    """Variables whose optimum is near, as the steps to it leave them.

    Those between their bounds come first.

    Parameters
    ----------
    K : (m, m) array between the variables
    gradient, beta, low, high : (m,) arrays; the first two are changed
    tol : how far slopes may be from optimal in the end
    """

    K: np.ndarray
    gradient: np.ndarray
    beta: np.ndarray
    low: np.ndarray
    high: np.ndarray
    tol: float
    changes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        inside = (self.beta > self.low) & (self.beta < self.high)
        self.free = int(np.count_nonzero(inside))
        assert inside[: self.free].all()
        self.largest = float(np.abs(self.K.diagonal()).max(initial=0.0))
        self.fixed: list[int] = []  # variables that were free at first and are not now
        self.entered: list[int] = []  # those that are free now alone
        self.columns: dict[int, np.ndarray] = {}  # A⁻¹ times the border of each

    def run(self) -> bool:
        """Whether it came to the optimum; β has moved towards it in any case."""
        if not self.free:
            return False
        # No step of sum 0 sees the constant, which makes more matrices definite.
        own = self.K[: self.free, : self.free] + self.largest
        self.factor = own.T  # column-major, and the same
        if not lapack.factor(self.factor):
            return False
        self.ones = lapack.solve(self.factor, np.ones(self.free))
        while self.changes <= MOST_CHANGES:
            step = self._step()
            if step is None:
                return False
            if not self._go(step):
                continue
            worst = self._violating()
            if worst is None:
                return True
            if self._is_free(worst):  # as equal as rounding allows
                return False
            self._enter(worst)
        return False

    def _is_free(self, t: int) -> bool:
        return t not in self.fixed if t < self.free else t in self.entered

    def _step(self) -> np.ndarray | None:
        """Newton's step of the free variables, of sum 0; None where it is not known."""
        free, fixed, entered = self.free, self.fixed, self.entered
        own = lapack.solve(self.factor, -self.gradient[:free])
        size, e = 1 + len(entered) + len(fixed), len(entered)
        V = np.column_stack(
            [self.ones, *(self.columns[t] for t in [*entered, *fixed])]
        )
        # The border: a column of ones for the sum, kernel values, units for the fixed.
        across = np.vstack([np.ones(free), self.K[entered, :free] + self.largest])
        S, right = np.zeros((size, size)), np.zeros(size)
        S[0, 1 : e + 1] = S[1 : e + 1, 0] = 1.0
        S[1 : e + 1, 1 : e + 1] = self.K[np.ix_(entered, entered)] + self.largest
        right[1 : e + 1] = -self.gradient[entered]
        S[: e + 1] -= across @ V
        S[e + 1 :] -= V[fixed]
        right[: e + 1] -= across @ own
        right[e + 1 :] -= own[fixed]
        try:
            border = np.linalg.solve(S, right)
        except np.linalg.LinAlgError:
            return None
        step = np.zeros(len(self.beta))
        step[:free] = own - V @ border
        step[fixed] = 0.0
        step[entered] = border[1 : e + 1]
        return step if np.isfinite(step).all() else None

    def _go(self, step: np.ndarray) -> bool:
        """Take a step as far as the first bound; whether it was taken whole."""
        moving = np.flatnonzero(step)
        by = step[moving]
        ends = np.where(by > 0, self.high[moving], self.low[moving])
        room = (ends - self.beta[moving]) / by
        part = max(0.0, min(1.0, float(room.min(initial=1.0))))
        meets = room <= part
        moved = np.where(meets, ends, self.beta[moving] + part * by)
        step[moving] = moved - self.beta[moving]
        self.beta[moving] = moved
        self.gradient += self.K @ step
        for t in moving[meets].tolist():
            self._leave(t)
        return not meets.any()

    def _leave(self, t: int) -> None:
        """A variable came to its bound."""
        self.changes += 1
        if t in self.entered:
            self.entered.remove(t)
            del self.columns[t]
            return
        unit = np.zeros(self.free)
        unit[t] = 1.0
        self.columns[t] = lapack.solve(self.factor, unit)
        self.fixed.append(t)

    def _enter(self, t: int) -> None:
        """A variable at its bound becomes free."""
        self.changes += 1
        if t in self.fixed:
            self.fixed.remove(t)
            del self.columns[t]
            return
        across = self.K[t, : self.free] + self.largest
        self.columns[t] = lapack.solve(self.factor, across)
        self.entered.append(t)

    def _violating(self) -> int | None:
        """The variable that violates its condition most; None where none does."""
        up = np.where(self.beta < self.high, self.gradient, np.inf)
        down = np.where(self.beta > self.low, self.gradient, -np.inf)
        inside = np.isfinite(up) & np.isfinite(down)
        noise = 16 * UNIT * (float(np.abs(self.beta).sum()) * self.largest + 1)
        lifted, lowered = int(up.argmin()), int(down.argmax())
        if down[lowered] - up[lifted] <= max(self.tol, noise) or not inside.any():
            return None
        level = float(self.gradient[inside].mean())
        return lifted if level - up[lifted] > down[lowered] - level else lowered
