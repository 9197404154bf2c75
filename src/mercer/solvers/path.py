"""The solutions of a `BoxQP` that is linear in a number θ: linear in θ, piece by piece.

Between two breakpoints the free variables follow a linear system, the others their
bounds. At a breakpoint a free variable comes to a bound (or to 0, with a tube) or the
gradient lets a variable go. Hastie, Rosset, Tibshirani, Zhu, JMLR 5 (2004) for machines
of two classes; Best, An Algorithm for the Solution of the Parametric Quadratic
Programming Problem (1996) for free variables that depend on each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg.lapack import dtrtrs

from mercer.native import lapack
from mercer.outcomes import Run, Solution, Status
from mercer.solvers.box_certificate import solution_of
from mercer.solvers.boxqp import BoxQP

RANK = 1e-12  # of k(x, x): what a free variable adds to the rank, at least
INDEFINITE = 1e-7  # of k(x, x): a pivot so far below 0 is no rounding
RATE = 1e-13  # of the terms of a rate: what is less is rounding
REST = 1e-11  # of the largest rate of a variable: one that is at rest, but for rounding
SAME = 1e-12  # of θ: events that are so near to each other are one
ON_CORNER = 1e-13  # of the terms of a variable: so near to a corner, it is there
REFRESH = 64  # steps after which F is summed afresh
DRIFT = 1e-9  # of the gradient's size: how far the conditions may be off before a solve
IDLE = 4  # times the number of variables: steps without progress
EXACT = 1e-10  # tol of a solve that the path goes on from, relative to the targets
UNIT = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class ParametricQP:
    """A `BoxQP` for each θ: its linear terms, bounds and totals are linear in θ.

    Variable i is at a *corner* (a bound; 0 too, with a tube) or on an *edge* between
    two of them. With r = target - F + level, optimality is r = slope on an edge, and
    slope before ≤ r ≤ slope after at a corner.

    Parameters
    ----------
    at : the problem of a number θ ≥ 0; variable t is point t
    """

    at: Callable[[float], BoxQP]
    ends: tuple[BoxQP, BoxQP] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ends", (self.at(0.0), self.at(1.0)))

    def line(self, of: Callable[[BoxQP], np.ndarray]) -> Line:
        """A number of the problem as a line in θ."""
        first, second = (np.array(of(problem), dtype=float) for problem in self.ends)
        return Line(first, second - first)


@dataclass(frozen=True, eq=False)
class Line:
    """start + θ rate."""

    start: np.ndarray
    rate: np.ndarray

    def __call__(self, theta: float) -> np.ndarray:
        return self.start + theta * self.rate


def _corners(problem: BoxQP) -> np.ndarray:
    """(n, 2) bounds of β, or (n, 3) with the kink of the tube between them."""
    low, high = problem.bounds
    if problem.tube is None:
        return np.column_stack([low, high])
    return np.column_stack([low, np.zeros(len(low)), high])


def _slopes(problem: BoxQP) -> np.ndarray:
    """The slope of the tube on each edge."""
    if problem.tube is None:
        return np.zeros((len(problem), 1))
    return np.column_stack([-problem.tube, problem.tube])


class Factor:
    """RᵀR = (K + c GGᵀ) of the free variables, kept while these come and go.

    On Σβ = const of each group, GGᵀ changes nothing but the levels; with it the matrix
    is definite whenever the solution is unique.
    """

    def __init__(self, K: np.ndarray, group: np.ndarray):
        self.K, self.group = K, group
        diagonal = np.abs(K.diagonal())
        self.shift = float(diagonal.mean()) or 1.0
        self.index: list[int] = []
        self._R = np.zeros((64, 64), order="F")
        self._rows = np.zeros((64, len(K)))
        self._packed: np.ndarray | None = None
        self._free: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.index)

    @property
    def free(self) -> np.ndarray:
        """The free variables, as an array."""
        if self._free is None:
            self._free = np.array(self.index, dtype=int)
        return self._free

    @property
    def R(self) -> np.ndarray:
        m = len(self.index)
        return self._R[:m, :m]

    @property
    def rows(self) -> np.ndarray:
        """K of the free variables with all points."""
        return self._rows[: len(self.index)]

    def column(self, i: int) -> np.ndarray:
        """K + c GGᵀ between the free variables and variable i."""
        free = self.free
        return self.K[i, free] + self.shift * (self.group[free] == self.group[i])

    def solve(self, B: np.ndarray) -> np.ndarray:
        return self._back(self._back(B, transposed=True))

    def _back(self, B: np.ndarray, transposed: bool = False) -> np.ndarray:
        """R⁻¹ B or R⁻ᵀ B.

        LAPACK itself, on a copy of R without the room that it has to grow: scipy's
        wrapper makes one for each system, and takes longer than these.
        """
        if self._packed is None:
            self._packed = np.asfortranarray(self.R)
        return dtrtrs(self._packed, B, trans=int(transposed))[0]

    def append(self, i: int) -> bool:
        """Take a variable in; False, and nothing done, where it adds nothing."""
        m, own = len(self.index), float(self.K[i, i]) + self.shift
        half = np.zeros(0)
        if m:
            half = self._back(self.column(i), transposed=True)
        pivot = own - float(half @ half)
        if pivot < -INDEFINITE * max(own, self.shift):
            raise ValueError(
                "A path needs a positive semidefinite kernel, whose problems are "
                "convex; on these points this one is none. Choose another, or "
                "`mercer.repair` its matrix."
            )
        if not pivot > RANK * max(own, self.shift):
            return False
        if m == len(self._R):
            self._grow(2 * m)
        self._R[:m, m], self._R[m, m] = half, np.sqrt(pivot)
        self._rows[m] = self.K[i]
        self.index.append(i)
        self._packed = self._free = None
        return True

    def _grow(self, size: int) -> None:
        m = len(self._R)
        R, rows = np.zeros((size, size), order="F"), np.zeros((size, len(self.K)))
        R[:m, :m], rows[:m] = self._R, self._rows
        self._R, self._rows = R, rows

    def remove(self, place: int) -> None:
        m = len(self.index)
        tail = lapack.dropped(self.R[place:, place:], 0)
        self._R[:place, place : m - 1] = self._R[:place, place + 1 : m].copy()
        self._R[place : m - 1, place : m - 1] = tail
        self._rows[place : m - 1] = self._rows[place + 1 : m].copy()
        del self.index[place]
        self._packed = self._free = None


@dataclass(frozen=True, eq=False)
class Piece:
    """Where the path is linear: from θ on, its free variables and how they move."""

    theta: float
    free: np.ndarray
    beta: np.ndarray
    rate: np.ndarray  # per unit of θ
    level: np.ndarray
    level_rate: np.ndarray
    changes: int  # of states, until here


class Tracer:
    """Follows the solution from one θ to another, upwards or downwards.

    Parameters
    ----------
    K : (n, n) array of float64
    solver : what solves a `BoxQP` in double precision, of a tol

    Attributes
    ----------
    pieces : the linear pieces that were found, in their order
    status : "optimal" at the end of the path; "max_iter" after so many pieces as were
        asked for; "imprecise" where rounding hides how it goes on
    resolved : how often rounding had to be met by a solve
    """

    def __init__(
        self, problem: ParametricQP, K: np.ndarray, solver: Callable[[float], Any]
    ):
        self.problem, self.K, self.solver = problem, K, solver
        first = problem.ends[0]
        n = len(first)
        group = np.zeros(n) if first.group is None else first.group
        self.group = np.asarray(group, dtype=int)
        self.members = np.array([self.group == g for g in range(np.size(first.total))])
        self.target = problem.line(lambda one: one.target)
        self.corners = problem.line(_corners)
        self.slopes = problem.line(_slopes)
        self.total = problem.line(lambda one: np.atleast_1d(one.total))
        self.last = 2 * self.corners.start.shape[1] - 2  # the state at the upper bound
        self.largest = float(np.max(np.abs(K.diagonal()), initial=0.0)) or 1.0
        self.pieces: list[Piece] = []
        self.changes: list[tuple[int, int]] = []
        self.resolved = self.steps = 0
        self.side = 1.0  # -1 on the way down
        self.status = Status.OPTIMAL

    # A solution to go on from

    def begin(self, theta: float, beta: np.ndarray) -> None:
        """Take over the states of a solution at θ; free variables that depend on each
        other are moved until all others of them are at corners.
        """
        self.theta = float(theta)
        problem, corners = self.problem.at(theta), self.corners(theta)
        value = problem.snapped(problem.sign * beta, slack=1e-12)
        self.beta = np.clip(problem.sign * value, corners[:, 0], corners[:, -1])
        above = self.beta[:, None] > corners
        state = 2 * above.sum(axis=1) - 1
        reached = np.take_along_axis(corners, (state[:, None] + 1) // 2, axis=1)[:, 0]
        self.state = np.where(self.beta == reached, state + 1, state)
        self.factor = Factor(self.K, self.group)
        self.pace, self.drift = np.zeros((2, len(beta)))
        for i in np.flatnonzero(self.state % 2).tolist():
            if not self.factor.append(i):
                sides = [self._blocking(i, side) for side in (1, -1)]
                self._shift(i, *min(sides, key=lambda found: found[0]))
        if self.pieces:
            self.changes += list(enumerate(self.state.tolist()))
        else:
            self.first_state, self.changes = self.state.copy(), []
        self.F = self.K @ self.beta
        found = problem.level(problem.sign * self.beta, self.F)
        self.level = np.array(found, dtype=float)
        self.pace = self._corner_rates()
        self.drift = self.K @ self.pace
        self._correct()

    def _corner_rates(self) -> np.ndarray:
        """How the variables at corners move with θ; 0 for the others."""
        rates = self.corners.rate[np.arange(len(self.state)), self.state // 2]
        return np.where(self.state % 2, 0.0, rates)

    def _resolve(self) -> bool:
        """Solve at this θ and go on from there; False where rounding hides too much."""
        self.resolved += 1
        problem = self.problem.at(self.theta)
        size = self._size()
        start = problem.start(problem.sign * self.beta)
        found = self.solver(EXACT * size).solve(problem, start=start)
        self.begin(self.theta, problem.sign * found.value)
        return self.violation() <= DRIFT * size

    def _size(self) -> float:
        """The size of gradients."""
        both = self.target(self.theta), self.F
        return max(float(np.abs(values).max()) for values in both) or 1.0

    # Moves that leave F as it is

    def _blocking(self, i: int, side: float) -> tuple[float, float, int]:
        """How far variable i can go to one side while the free ones make up for it, so
        that F stays: the step, the side and the variable that ends it.
        """
        z = self.factor.solve(self.factor.column(i))
        variables, rate = np.array([*self.factor.index, i]), np.append(-side * z, side)
        edge = self.state[variables]
        edge[-1] += 0 if edge[-1] % 2 else int(side)
        upper = (edge + np.where(rate > 0, 1, -1)) // 2
        goal = self.corners(self.theta)[variables, upper]
        tiny = UNIT * np.abs(rate).max()
        moving = np.abs(rate) > tiny
        steps = np.full(len(rate), np.inf)
        gaps = (goal - self.beta[variables])[moving] / rate[moving]
        steps[moving] = np.maximum(gaps, 0.0)
        step = float(steps.min())
        tied = variables[steps <= step * (1 + SAME)]
        return step, side, int(tied.min())

    def _shift(self, i: int, step: float, side: float, blocked: int) -> None:
        """Move variable i, and the free ones against it, until one is at a corner.

        That one is free no longer, and i is, unless it is i itself.
        """
        free = self.factor.index
        z = self.factor.solve(self.factor.column(i))
        self.beta[free] -= side * step * z
        self.beta[i] += side * step
        edge = int(self.state[i])
        edge += 0 if edge % 2 else int(side)
        if blocked == i:
            self._put(i, edge + int(side))
            return
        place = free.index(blocked)
        towards = 1 if -side * z[place] > 0 else -1
        self.factor.remove(place)
        self._put(blocked, int(self.state[blocked]) + towards)
        self._put(i, edge)
        if not self.factor.append(i):  # by rounding; where it is, it stays
            near = np.abs(self.corners(self.theta)[i] - self.beta[i]).argmin()
            self._put(i, 2 * int(near))

    def _put(self, i: int, state: int) -> None:
        """A new state; at a corner, the variable is brought there exactly."""
        self.state[i] = state
        corner = state % 2 == 0
        if corner:
            self.beta[i] = self.corners(self.theta)[i, state // 2]
        self.changes.append((i, state))
        rate = self.corners.rate[i, state // 2] if corner else 0.0
        if rate != self.pace[i]:
            self.drift += (rate - self.pace[i]) * self.K[i]
            self.pace[i] = rate

    # Directions

    def _direction(
        self, b: np.ndarray, need: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """x and ρ of K x = b + Gρ on the free variables, Gᵀx = need.

        Groups without a free variable have ρ = 0.
        """
        free = self.factor.free
        if not len(free):
            return np.zeros(0), np.zeros(len(need))
        G = self.members[:, free].T.astype(float)
        there = G.any(axis=0)
        G = G[:, there]
        both = self.factor.solve(np.column_stack([b, G]))
        lack = need[there] - G.T @ both[:, 0]
        shifted = np.linalg.solve(G.T @ both[:, 1:], lack)
        rho = np.zeros(len(need))
        rho[there] = shifted - self.factor.shift * need[there]
        return both[:, 0] + both[:, 1:] @ shifted, rho

    def _limits(self, theta: float) -> tuple[np.ndarray, np.ndarray]:
        """What r = target - F + level has to stay within, for each variable."""
        padded = np.full((len(self.state), self.last // 2 + 2), np.inf)
        padded[:, 0] = -np.inf
        padded[:, 1:-1] = self.slopes(theta)
        every = np.arange(len(self.state))
        return padded[every, (self.state + 1) // 2], padded[every, self.state // 2 + 1]

    def _residual(self) -> np.ndarray:
        return self.target(self.theta) - self.F + self.level[self.group]

    def violation(self) -> float:
        """How far the conditions are from holding, rounding included."""
        low, high = self._limits(self.theta)
        r = self._residual()
        return float(np.max(np.maximum(low - r, r - high), initial=0.0))

    def _correct(self) -> None:
        """Take off what rounding has added up to on the free variables."""
        free = self.factor.free
        if not len(free):
            return
        low, _ = self._limits(self.theta)
        missing = self.total(self.theta) - self.members @ self.beta
        x, rho = self._direction((self._residual() - low)[free], missing)
        steps, _ = self._room(x, np.zeros_like(self.corners.rate))
        share = min(1.0, float(steps.min(initial=1.0)))
        self.beta[free] += share * x
        self.F += share * (x @ self.factor.rows)
        self.level += share * rho

    def _room(
        self, rate: np.ndarray, pace: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """How far each free variable is from a corner, and on which side that is.

        Parameters
        ----------
        rate, pace : how the free variables move, and how all corners do
        """
        free, line = self.factor.free, self.corners
        corners = line.start[free] + self.theta * line.rate[free]
        state, pace = self.state[free], pace[free]
        steps, kind = np.full(len(free), np.inf), np.ones(len(free), dtype=int)
        scale = np.abs(rate).max(initial=0.0) + np.abs(pace).max(initial=0.0)
        tiny = REST * scale
        every = np.arange(len(free))
        for side in (1, -1):
            corner = (state + side) // 2
            away = side * (rate - pace[every, corner])
            gap = side * (corners[every, corner] - self.beta[free])
            found = np.maximum(gap, 0.0) / np.where(away > tiny, away, np.nan)
            nearer = found < steps
            steps[nearer], kind[nearer] = found[nearer], side
        return steps, kind

    def _occupy(self) -> bool:
        """Give each group a free variable, its level moved to where one is let go.

        False where no variable can move the way that the total does.
        """
        need = self.side * (self.total.rate - self.members @ self.pace)
        counts = self.members[:, self.factor.free].sum(axis=1)
        scale = np.abs(self.total.rate) + self.members @ np.abs(self.pace)
        for g in np.flatnonzero(counts == 0).tolist():
            own = np.flatnonzero(self.members[g])
            low, high = (ends[own] for ends in self._limits(self.theta))
            r = self._residual()[own]
            gaps = {1: np.maximum(high - r, 0.0), -1: np.maximum(r - low, 0.0)}
            idle = abs(need[g]) <= 1e-14 * scale[g]
            sides = [1, -1] if idle else [1 if need[g] > 0 else -1]
            side = min(sides, key=lambda side: float(gaps[side].min()))
            gap = float(gaps[side].min())
            if gap == np.inf:
                return False
            i = int(own[np.argmin(gaps[side])])
            self.level[g] += side * gap
            self.factor.append(i)
            self._put(i, int(self.state[i]) + side)
        return True

    # Steps

    def follow(self, end: float, max_pieces: int) -> None:
        """On to θ = end, or until nothing changes any more."""
        self.side = 1.0 if end > self.theta else -1.0
        idle, failed = 0, False
        while self.theta != end:
            if len(self.pieces) >= max_pieces:
                self.status = Status.MAX_ITER
                return
            length = self._step(end)
            if length is None:
                return
            idle = 0 if length > SAME * max(self.theta, 1e-300) else idle + 1
            self.steps += 1
            stuck = idle > IDLE * len(self.state) + 100
            if stuck or self.steps % REFRESH == 0:
                good = not stuck and self._refreshed()
                if not good and not self._resolve():
                    self.status = Status.IMPRECISE
                    return
                if stuck and failed:
                    self.status = Status.IMPRECISE
                    return
                failed = stuck
                idle = 0

    def _refreshed(self) -> bool:
        """Sum F afresh; whether the conditions hold."""
        self.F = self.K @ self.beta
        self.drift = self.K @ self.pace
        self._correct()
        return self.violation() <= DRIFT * self._size()

    def _step(self, end: float) -> float | None:
        """On to the next event; None where there is none, else how far it was."""
        if not self._occupy():
            return None
        free, side = self.factor.free, self.side
        edge = self.slopes.rate[free, (self.state[free] - 1) // 2]
        b = side * (self.target.rate[free] - edge - self.drift[free])
        need = side * (self.total.rate - self.members @ self.pace)
        x, rho = self._direction(b, need)
        dF = x @ self.factor.rows + side * self.drift
        steps, kind = self._events(x, dF, rho)
        step = float(steps.min(initial=np.inf))
        left = abs(end - self.theta)
        if step == np.inf and left == np.inf:
            self._record(x, rho)
            return None
        # At θ = 0 everything meets, up to rounding.
        reached = step >= left * (1 - 1e-9)
        step = left if reached else step
        if step > SAME * self.theta:
            self._record(x, rho)
        tied = steps <= step + SAME * abs(self.theta)
        self.theta = end if reached else self.theta + side * step
        self.beta += step * side * self.pace
        self.beta[free] += step * x
        self.F += step * dF
        self.level += step * rho
        if not reached:
            chosen = int(np.flatnonzero(tied)[0])
            self._flip(chosen, int(kind[chosen]))
        return step

    def _record(self, x: np.ndarray, rho: np.ndarray) -> None:
        free = self.factor.free.astype(np.int32)
        start = self.theta, free, self.beta[free], self.side * x
        level = self.level.copy(), self.side * rho
        self.pieces.append(Piece(*start, *level, len(self.changes)))

    def _events(
        self, x: np.ndarray, dF: np.ndarray, rho: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """How far each variable is from its next state, and on which side that is."""
        free, side = self.factor.free, self.side
        n = len(self.state)
        steps, kind = np.full(n, np.inf), np.zeros(n, dtype=int)
        r = self._residual()
        dr = side * self.target.rate - dF + rho[self.group]
        low, high = self._limits(self.theta)
        slope_rate = np.zeros((n, self.last // 2 + 2))
        slope_rate[:, 1:-1] = side * self.slopes.rate
        every = np.arange(n)
        terms = np.abs(x).sum() + np.abs(self.pace).sum()
        tiny = RATE * (self.largest * terms + np.abs(rho).max())
        corner = self.state % 2 == 0
        for up in (0, 1):
            rate = dr - slope_rate[every, self.state // 2 + up]
            gap = high - r if up else low - r
            there = (
                corner & np.isfinite(gap) & ((rate > tiny) if up else (rate < -tiny))
            )
            found = np.maximum(gap[there] / rate[there], 0.0)
            nearer = found < steps[there]
            at = np.flatnonzero(there)[nearer]
            steps[at], kind[at] = found[nearer], 2 * up - 1
        steps[free], kind[free] = self._room(x, side * self.corners.rate)
        return steps, kind

    def _flip(self, i: int, towards: int) -> None:
        """Variable i leaves its corner or comes to one."""
        if self.state[i] % 2:
            self.factor.remove(self.factor.index.index(i))
            self._put(i, int(self.state[i]) + towards)
        elif self.factor.append(i):
            self._put(i, int(self.state[i]) + towards)
        else:
            self._shift(i, *self._blocking(i, towards))


@dataclass(frozen=True, eq=False)
class Trace:
    """The solution β as a function of θ, piece by piece, as a `Tracer` found it.

    Attributes
    ----------
    starts : where the pieces begin, in the order in which they were found
    end : where the last of them ends
    """

    corners: Line
    first_state: np.ndarray
    variables: np.ndarray
    states: np.ndarray
    pieces: tuple[Piece, ...]
    side: float
    end: float
    starts: np.ndarray

    @classmethod
    def of(cls, tracer: Tracer) -> Trace:
        changes = np.array(tracer.changes, dtype=np.int64).reshape(-1, 2)
        return cls(
            tracer.corners,
            tracer.first_state,
            changes[:, 0],
            changes[:, 1],
            tuple(tracer.pieces),
            tracer.side,
            tracer.theta,
            np.array([piece.theta for piece in tracer.pieces]),
        )

    def number(self, theta: float) -> int:
        """The piece that θ is in."""
        found = np.searchsorted(self.side * self.starts, self.side * theta, "right")
        return max(int(found) - 1, 0)

    def state(self, k: int) -> np.ndarray:
        """The states of all variables on piece k."""
        state, changes = self.first_state.copy(), self.pieces[k].changes
        # Of several changes of a variable, the last one is in force.
        state[self.variables[:changes]] = self.states[:changes]
        return state

    def beta(self, theta: float, k: int | None = None) -> np.ndarray:
        """The signed variables at θ, by piece k; None for the piece that θ is in."""
        k = self.number(theta) if k is None else k
        piece, state, corners = self.pieces[k], self.state(k), self.corners(theta)
        beta = corners[np.arange(len(state)), state // 2]
        beta[piece.free] = self._on_piece(piece, theta, corners[piece.free])
        # Rounding can lead beyond a bound.
        return np.clip(beta, corners[:, 0], corners[:, -1])

    def _on_piece(self, piece: Piece, theta: float, corners: np.ndarray) -> np.ndarray:
        """The free variables at θ; those that rounding keeps from a corner are there.

        One may move along a corner on the whole piece: free by its state alone.
        """
        moved = (theta - piece.theta) * piece.rate
        beta, size = piece.beta + moved, np.abs(piece.beta) + np.abs(moved)
        nearest = np.abs(corners - beta[:, None]).argmin(axis=1)
        corner = corners[np.arange(len(beta)), nearest]
        return np.where(np.abs(beta - corner) <= ON_CORNER * size, corner, beta)


def traced(
    problem: ParametricQP,
    theta: float,
    ends: tuple[float, float],
    max_pieces: int,
    solver: Callable[[float], Any],
) -> tuple[Tracer, Tracer]:
    """The path from a solve at θ: down to the one end, and up to the other."""
    K = np.asarray(problem.ends[0].gram.double().dense(), dtype=float)
    start = problem.at(theta)
    size = float(np.abs(start.target).max()) or 1.0
    beta = start.sign * solver(EXACT * size).solve(start).value
    below, above = (Tracer(problem, K, solver) for _ in ends)
    for tracer, end in zip((below, above), ends, strict=True):
        tracer.begin(theta, beta)
        tracer.follow(end, max_pieces)
    return below, above


def solution_at(problem: BoxQP, value: np.ndarray, tol: float) -> Solution:
    """The certified solution with this α: "optimal" where that is so to tol."""
    begin = time.perf_counter()
    value = problem.balanced(problem.snapped(value, slack=1e-13))
    function, rounding = problem.gram @ problem.coef(value), problem.rounding(value)
    run = Run(seconds=time.perf_counter() - begin)
    return solution_of(problem, value, function, rounding, tol, run)
