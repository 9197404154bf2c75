"""The optimum of a box-constrained quadratic from near it: an active-set method.

    min ½ βᵀKβ - targetᵀβ + Σₜ tubeₜ|βₜ|,  low ≤ β ≤ high,  Σβ as it is

Between their bounds, of which 0 is one where there is a tube, variables solve a system
of equations, K d + ν = -slopes with Σd = 0. Near the optimum few of them come to a
bound or leave one, and each of these is a row and a column at the border of the first
system, whose factor is computed once (Nocedal and Wright, Numerical Optimization
(2006), section 16.5; Stellato et al., OSQP, Math. Prog. Comp. 12 (2020), section 5.2,
on polishing).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mercer.native import lapack
from mercer.solvers.rounding import UNIT

MOST_CHANGES = 200  # of variables that come to a bound or leave one
REFINEMENTS = 3  # of a step that rounding has left short of equal slopes


@dataclass
class Polish:
    """Variables whose optimum is near, as the steps to it leave them.

    Those between their bounds come first.

    Parameters
    ----------
    K : (m, m) array between the variables
    gradient, beta, low, high : (m,) arrays; all are changed
    tube : a number ≥ 0 for each
    tol : how far slopes may be from optimal in the end
    """

    K: np.ndarray
    gradient: np.ndarray
    beta: np.ndarray
    low: np.ndarray
    high: np.ndarray
    tube: np.ndarray
    tol: float
    changes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.box = self.low.copy(), self.high.copy()
        above, below = ((self.tube > 0) & (side * self.beta > 0) for side in (1, -1))
        # From here on low and high are those of the side of its kink that β is on.
        self.low[above] = np.maximum(self.low[above], 0.0)
        self.high[below] = np.minimum(self.high[below], 0.0)
        self.offset = self.tube * np.sign(self.beta)  # what the tube adds to a slope
        inside = between(self.beta, *self.box, self.tube)
        self.free = int(np.count_nonzero(inside))
        assert inside[: self.free].all()
        self.is_free = inside
        self.largest = float(np.abs(self.K.diagonal()).max(initial=0.0))
        self.fixed: list[int] = []  # variables that were free at first and are not now
        self.entered: list[int] = []  # those that are free now alone
        self.columns: dict[int, np.ndarray] = {}  # A⁻¹ times the border of each

    def run(self) -> bool:
        """Whether it came to the optimum; if not, β may be anywhere in its bounds."""
        if not self.free:
            return False
        # No step of sum 0 sees the constant, which makes more matrices definite.
        own = self.K[: self.free, : self.free] + self.largest
        self.factor = own.T  # column-major, and the same
        if not lapack.factor(self.factor):
            return False
        self.ones = lapack.solve(self.factor, np.ones(self.free))
        refined = 0
        while self.changes <= MOST_CHANGES:
            step = self._step()
            if step is None:
                return False
            if not self._go(step):
                continue
            worst, upwards = self._violating()
            if worst is None:
                return True
            if not self.is_free[worst]:
                self._enter(worst, upwards)
                refined = 0
            elif refined == REFINEMENTS:  # as equal as rounding allows
                return False
            refined += 1
        return False

    def _step(self) -> np.ndarray | None:
        """Newton's step of the free variables, of sum 0; None where it is not known."""
        free, fixed, entered = self.free, self.fixed, self.entered
        slope = self.gradient + self.offset
        own = lapack.solve(self.factor, -slope[:free])
        size, e = 1 + len(entered) + len(fixed), len(entered)
        border = [self.columns[t] for t in [*entered, *fixed]]
        V = np.column_stack([self.ones, *border])
        # The border: a column of ones for the sum, kernel values, units for the fixed.
        across = np.vstack([np.ones(free), self.K[entered, :free] + self.largest])
        S, right = np.zeros((size, size)), np.zeros(size)
        S[0, 1 : e + 1] = S[1 : e + 1, 0] = 1.0
        S[1 : e + 1, 1 : e + 1] = self.K[np.ix_(entered, entered)] + self.largest
        right[1 : e + 1] = -slope[entered]
        S[: e + 1] -= across @ V
        S[e + 1 :] -= V[fixed]
        right[: e + 1] -= across @ own
        right[e + 1 :] -= own[fixed]
        try:
            weights = np.linalg.solve(S, right)
        except np.linalg.LinAlgError:
            return None
        step = np.zeros(len(self.beta))
        step[:free] = own - V @ weights
        step[fixed] = 0.0
        step[entered] = weights[1 : e + 1]
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
        self.is_free[t] = False
        if t in self.entered:
            self.entered.remove(t)
            del self.columns[t]
            return
        unit = np.zeros(self.free)
        unit[t] = 1.0
        self.columns[t] = lapack.solve(self.factor, unit)
        self.fixed.append(t)

    def _enter(self, t: int, upwards: bool) -> None:
        """A variable at its bound, or at its kink, becomes free."""
        self.changes += 1
        self.is_free[t] = True
        if self.tube[t] > 0 and self.beta[t] == 0:
            lowest, highest = (ends[t] for ends in self.box)
            self.low[t], self.high[t] = (0.0, highest) if upwards else (lowest, 0.0)
            self.offset[t] = self.tube[t] if upwards else -self.tube[t]
        if t in self.fixed:
            self.fixed.remove(t)
            del self.columns[t]
            return
        across = self.K[t, : self.free] + self.largest
        self.columns[t] = lapack.solve(self.factor, across)
        self.entered.append(t)

    def _violating(self) -> tuple[int | None, bool]:
        """The variable that violates its condition most, and whether it is to rise.

        None where none does.
        """
        beta, (low, high) = self.beta, self.box
        rise = self.gradient + np.where(beta >= 0, self.tube, -self.tube)
        fall = self.gradient + np.where(beta > 0, self.tube, -self.tube)
        up, down = (
            np.where(beta < high, rise, np.inf),
            np.where(beta > low, fall, -np.inf),
        )
        noise = 16 * UNIT * (float(np.abs(self.beta).sum()) * self.largest + 1)
        lifted, lowered = int(up.argmin()), int(down.argmax())
        settled = down[lowered] - up[lifted] <= max(self.tol, noise)
        if settled or not self.is_free.any():
            return None, False
        level = float(rise[self.is_free].mean())
        upwards = bool(level - up[lifted] > down[lowered] - level)
        return (lifted, True) if upwards else (lowered, False)


def between(
    beta: np.ndarray, low: np.ndarray, high: np.ndarray, tube: np.ndarray
) -> np.ndarray:
    """Which variables are strictly between their bounds, and off their kink."""
    return (beta > low) & (beta < high) & ((beta != 0) | (tube == 0))
