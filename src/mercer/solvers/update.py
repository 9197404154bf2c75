"""A `BoxQP` that is nearly solved, with F = Kβ known: only what moves is computed.

Where a point comes or goes, or a bound moves, most variables stay where they are. Small
working sets are solved one after another, and F takes up the kernel rows of what moved,
and no others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg.blas import daxpy

from mercer.data.points import take
from mercer.data.points import vectors as vectors_of
from mercer.gram import Gram
from mercer.kernels.ways import Precomputed
from mercer.native import memory, vectors
from mercer.native.sorting import distinct
from mercer.outcomes import Run, Solution
from mercer.solvers.box_certificate import solution_of
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.rounding import UNIT

FIRST, LARGEST = 64, 2048  # variables of a working set, doubled from round to round
BLOCK = 512  # rows that are computed at a time
ROUNDS = 1000
ROOM = 64  # points that may come before rows of K are copied


class RowStore:
    """Rows of K in float64, as many of them kept as there is room for.

    Parameters
    ----------
    kept : rows that are known, by the number of their point; they may go on after the
        n numbers that count, see `with_room`

    Attributes
    ----------
    computed, reused : how many rows were asked for
    """

    def __init__(
        self,
        gram: Gram,
        cache_mb: float | None = None,
        kept: dict[int, np.ndarray] | None = None,
    ):
        self.gram, self.n = gram.double(), gram.shape[0]
        self.most = max(1, int(memory.cache_bytes(cache_mb) / (8.0 * self.n)))
        self.kept = {} if kept is None else dict(kept)
        self.computed = self.reused = 0
        # Working sets have most of their variables in common with the one before.
        self._last = np.zeros(0, dtype=int), np.zeros((0, 0))

    def hold(self, points: np.ndarray) -> None:
        """Compute the rows of these points, and keep them."""
        self.add_to(np.empty(0), points, np.empty(0))

    def add_to(self, out: np.ndarray, points: np.ndarray, factor: np.ndarray) -> None:
        """out += Σ factorᵢ K[pointsᵢ]; an empty `out` for the rows alone."""
        numbers = np.asarray(points).tolist()
        missing = [t for t, i in enumerate(numbers) if i not in self.kept]
        self.reused += len(numbers) - len(missing)
        self.computed += len(missing)
        if len(out):
            for t, i in enumerate(numbers):
                if i in self.kept:
                    daxpy(self.kept[i], out, n=self.n, a=factor[t])
        for begin in range(0, len(missing), BLOCK):
            some = missing[begin : begin + BLOCK]
            block = self._rows(points[some])
            if len(out):
                out += factor[some] @ block
            for t, row in zip(some, block, strict=True):
                while len(self.kept) >= self.most:
                    del self.kept[next(iter(self.kept))]
                self.kept[numbers[t]] = with_room(row)

    def square(self, points: np.ndarray) -> np.ndarray:
        """K between these points, by the rows that are kept as far as they are.

        Parameters
        ----------
        points : ascending numbers, each once
        """
        numbers = np.asarray(points).tolist()
        missing = [t for t, i in enumerate(numbers) if i not in self.kept]
        if self.gram.is_held or len(missing) == len(numbers):
            return np.asarray(self.gram.take(points).dense(), dtype=float)
        K = np.empty((len(numbers), len(numbers)))
        there, before = self._in_last(points)
        K[np.ix_(there, there)] = self._last[1][np.ix_(before, before)]
        fresh = np.delete(np.arange(len(numbers)), there)
        for t in fresh.tolist():
            if numbers[t] in self.kept:
                # Rows are longer than the caches: what is read is all that it takes.
                np.take(self.kept[numbers[t]], points, out=K[t], mode="clip")
        if missing:
            X = take(self.gram.X, points)
            K[missing] = self.gram.kernel(take(X, np.array(missing)), X)
            fresh = distinct(np.concatenate([fresh, missing]))
        K[:, fresh] = K[fresh].T
        self._last = np.asarray(points), K
        return K

    def _in_last(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which points the last square had, and their places there; both ascend."""
        last = self._last[0]
        place = np.searchsorted(last, points)
        place[place == len(last)] = 0
        there = np.flatnonzero(last[place] == points) if len(last) else place[:0]
        return there, place[there]

    def _rows(self, points: np.ndarray) -> np.ndarray:
        recipe = None if self.gram.is_held else self.gram.kernel.native(self.gram.X)
        if recipe is None:
            return np.asarray(self.gram.rows(points), dtype=float)
        return vectors.block(recipe, take(self.gram.X, points), self._packed)

    @cached_property
    def _packed(self) -> vectors.Packed:
        """All points, for further rows too."""
        return vectors.Packed(vectors_of(self.gram.X, ""), only_core=True)


def with_room(row: np.ndarray) -> np.ndarray:
    """A copy of a row of K with room for points that come, at its end."""
    longer = np.empty(len(row) + ROOM)
    longer[: len(row)] = row
    return longer


@dataclass
class Nearly:
    """A problem with α and F = Kβ of a solution that is nearly one.

    Parameters
    ----------
    moved : Σ|Δβ| over all that was ever added to F, and
    added : how many rows were
    """

    problem: BoxQP
    value: np.ndarray
    function: np.ndarray
    rows: RowStore
    moved: float
    added: int = 0
    recent: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))

    def move(self, variables: np.ndarray, value: np.ndarray) -> None:
        """Set some of the variables; F follows."""
        problem = self.problem
        change = problem.sign[variables] * (value - self.value[variables])
        points = variables if problem.index is None else problem.index[variables]
        changed = np.flatnonzero(change)
        self.value[variables] = value
        if not len(changed):
            return
        which, place = _distinct(points[changed])
        factor = np.bincount(place, change[changed])
        self.rows.add_to(self.function, which, factor)
        self.moved += float(np.abs(change).sum())
        self.added += len(which)

    def balance(self) -> None:
        """Make Σβ what it has to be, by the variables that gain most or lose least."""
        problem = self.problem
        beta, (low, high) = problem.sign * self.value, problem.bounds
        for members, total in problem.groups():
            if total is None:
                continue
            own = np.arange(len(problem))[members]
            missing = total - float(np.sum(beta[own]))
            size = max(abs(total), float(np.abs(beta[own]).sum()))
            if abs(missing) <= 1e-14 * size:
                continue
            down, up = problem.slopes(self.value, self.function)
            rising = missing > 0
            order = own[np.argsort(up[own] if rising else -down[own], kind="stable")]
            room = (high - beta if rising else beta - low)[order]
            before = np.cumsum(room) - room
            step = np.clip(abs(missing) - before, 0, room)
            if step.sum() < abs(missing) * (1 - 1e-12):
                raise ValueError(
                    "The points that are left cannot bear what the machine asks of "
                    f"them: their coefficients sum to {beta[own].sum() + step.sum():g} "
                    f"at most, not to {total:g}. Fit again, with a smaller nu."
                )
            some = step > 0
            full = step >= room * (1 - 1e-12)
            ends = (high if rising else low)[order]
            moved = np.where(full, ends, beta[order] + np.sign(missing) * step)
            self.move(order[some], (problem.sign[order] * moved)[some])

    def refined(self, tol: float, solver: Callable[[float], Any]) -> Solution:
        """Until violation < tol, by small problems that `solver` of a tol solves."""
        begin = time.perf_counter()
        steps = 0
        for number in range(ROUNDS):
            size = min(FIRST * 2**number, LARGEST)
            chosen, violation = self._chosen(size)
            if violation < tol * (1 - 1e-3):
                break
            # No closer than it has to be: in a flat problem that would move the many
            # variables that are at rest.
            found = self._solved(chosen, max(violation / 8, 0.75 * tol), solver)
            steps += found.run.iterations
            self.move(chosen, found.value)
            self.recent = chosen[: size // 2]
        spent = Run(
            iterations=steps,
            seconds=time.perf_counter() - begin,
            rows=self.rows.computed,
            reused=self.rows.reused,
        )
        problem = self.problem
        rounding = problem.rounding(self.value, moved=self.moved)
        rounding += UNIT * self.added * float(np.abs(self.function).max(initial=0.0))
        return solution_of(problem, self.value, self.function, rounding, tol, spent)

    def _chosen(self, size: int) -> tuple[np.ndarray, float]:
        """The variables that gain most by a move, and how far the worst is off."""
        problem = self.problem
        down, up = problem.slopes(self.value, self.function)
        worst, chosen = 0.0, [self.recent]
        for members, total in problem.groups():
            own = np.arange(len(problem))[members]
            most, least = float(np.max(down[own])), float(np.min(up[own]))
            if total is None:  # each variable by itself
                most, least = max(most, 0.0), min(least, 0.0)
            worst = max(worst, most - least if total is not None else max(most, -least))
            limits = (most, least) if total is not None else (0.0, 0.0)
            rising, falling = own[up[own] < limits[0]], own[down[own] > limits[1]]
            rising = rising[np.argsort(up[rising], kind="stable")]
            falling = falling[np.argsort(-down[falling], kind="stable")]
            chosen += [rising[: size // 2], falling[: size // 2]]
        # What is new first, each once.
        both = np.concatenate(chosen[::-1])
        return both[np.sort(np.unique(both, return_index=True)[1])], worst

    def free(self) -> np.ndarray:
        """The points of variables that are between their bounds."""
        problem = self.problem
        inside = (self.value > problem.lower) & (self.value < problem.upper)
        inside &= self.value != 0
        points = np.arange(len(self.value)) if problem.index is None else problem.index
        return distinct(points[inside])

    def _solved(
        self, chosen: np.ndarray, tol: float, solver: Callable[[float], Any]
    ) -> Solution:
        """The problem in these variables, the others as they are."""
        problem = self.problem
        points = chosen if problem.index is None else problem.index[chosen]
        which, place = _distinct(points)
        K = self.rows.square(which)
        sign = problem.sign[chosen]
        beta = sign * self.value[chosen]
        # A row for each variable, of one point perhaps two.
        K = K.take(place, axis=0).take(place, axis=1)
        target = problem.target[chosen] - self.function[points] + K @ beta
        total: Any = None if problem.total is None else float(beta.sum())
        group = None if problem.group is None else np.asarray(problem.group)[chosen]
        if group is not None and len(distinct(group)) == 2:
            total = tuple(float(beta[group == g].sum()) for g in (0, 1))
        else:
            group = None
        psd = problem.gram.kernel.psd
        part = BoxQP(
            Gram(Precomputed(K, psd), np.arange(len(chosen))).holding(K),
            linear=-sign * target,
            sign=sign,
            lower=problem.lower[chosen],
            upper=problem.upper[chosen],
            total=total,
            tube=None if problem.tube is None else problem.tube[chosen],
            group=group,
        )
        return solver(tol).solve(part, start=self.value[chosen])


def _distinct(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different numbers, and the place of each number among them."""
    which, place = np.unique(points, return_inverse=True)
    return which, place.ravel()
