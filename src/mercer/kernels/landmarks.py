"""Landmarks: a few points whose φ span nearly what all of them do.

Randomly pivoted Cholesky takes the next landmark with a probability proportional to
what is left of k(x, x) (Chen, Epperly, Tropp and Webber, Communications on Pure and
Applied Mathematics 78, 2025). Proposing a block of them and rejecting some chooses with
the same probabilities, by products of matrices instead of vectors (Epperly, Tropp and
Webber, Embrace rejection, 2024, algorithm 3.1).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np

from mercer.data.blocks import Blocks
from mercer.data.partitions import Partitions, taken
from mercer.data.points import Points, as_points, count, double, take
from mercer.kernels.base import BLOCK_MB, Kernel, row_blocks
from mercer.kernels.checks import finite
from mercer.native.clock import tick
from mercer.native.interruptible import multiply, summed
from mercer.native.lapack import factor, half
from mercer.native.memory import block_mb, check_room
from mercer.native.threads import one_blas_thread
from mercer.native.vectors import Packed, block

# A point is spanned by others where less than this share of its k(x, x) is left: what
# is dropped changes k by no more, and what is kept is not yet made of rounding.
CUTOFF = 1e-10
# Of a kernel nothing below 0 is left: what is, measures rounding, and no pivot is taken
# that is not clearly above it. Beyond NEGATIVE it is no rounding where k is not proved.
CLEAR, NEGATIVE = 10.0, 1e-6
PROPOSALS = 128  # at a time
PACKED_MB = 256.0  # of points that are packed once
PIECE_MB = 1.0  # of compiled kernel values that a thread computes at a time
FIRST = 256  # columns that are there from the start, where the number is not known
EPS = float(np.finfo(float).eps)


def values(kernel: Kernel, X: Points, Y: Points | None = None) -> np.ndarray:
    """k(X, Y) in float64, also of float32 points."""
    Y = None if Y is None else double(Y)
    return np.asarray(kernel(double(X), Y), dtype=float)


def own_values(kernel: Kernel, X: Points) -> np.ndarray:
    """k(x, x) in float64, refused where it is negative."""
    if isinstance(X, Blocks):
        found = X.each(_own_values, shared=(kernel,))
        own = np.concatenate(found).astype(float, copy=False)
    else:
        own = np.asarray(kernel.diag(double(X)), dtype=float)
    if (own < 0).any():
        i = int(np.argmax(own < 0))
        raise ValueError(
            f"Nystrom needs a positive semidefinite kernel; {kernel} has k(x, x) = "
            f"{own[i]:.6g} at point {i}."
        )
    return own


def _own_values(points: Points, kernel: Kernel) -> np.ndarray:
    return kernel.diag(double(points))


class Pivoting:
    """A Cholesky factor F of K, K ≈ FFᵀ, that grows by random pivots.

    Attributes
    ----------
    chosen : the pivots, landmarks in the order they were taken
    left : k(x, x) - ‖F(x)‖² of every point
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Points,
        weight: np.ndarray | None,
        most: int,
        goal: float | None,
        rng: np.random.Generator,
    ):
        self.kernel, self.X, self.rng = kernel, as_points(X), rng
        self.own = own_values(kernel, self.X)
        self.compiled = kernel.native(take(self.X, slice(0, 1))) is not None
        self.left = self.own.copy()
        n = len(self.own)
        self.share = np.ones(n) if weight is None else weight
        self.total = float(self.share @ self.own)
        self.most, self.cutoff = most, CUTOFF
        self._begin(most if goal is None else min(most, FIRST))
        self.chosen = np.empty(0, dtype=np.intp)
        self.goal = goal
        self._packed: dict[int, Packed] = {}  # rows of X, by where they begin

    def _begin(self, columns: int) -> None:
        """Make room for so many columns of F."""
        self._F = self._room(columns)

    def _rows(self, index: np.ndarray) -> np.ndarray:
        """Some rows of F."""
        return self._F[index, : len(self.chosen)]

    @property
    def lower(self) -> np.ndarray:
        """The rows of F at the landmarks: a lower triangle, K_LL = lower lowerᵀ."""
        return np.asfortranarray(self._rows(self.chosen))

    def run(self, most: int | None = None) -> bool:
        """Choose landmarks up to `most` or the goal; whether a goal was reached.

        It ends before, too, where those there are span all points.

        Parameters
        ----------
        most : fewer for now; None for the `most` there is room for
        """
        most = self.most if most is None else most
        # Many small products, beside which threads of BLAS would wait.
        with one_blas_thread() if self.compiled else nullcontext():
            return self._run(most)

    def _run(self, most: int) -> bool:
        slack = 0.0
        while True:
            tick("landmarks", len(self.chosen) / self.most)
            if self.goal is not None and self.remaining() <= self.goal * self.total:
                slack = self.rounding() / self.total if self.total else 0.0
                if self.remaining() <= self._target(slack):
                    return True
            left = most - len(self.chosen)
            if not left or not self._extend(left, self._target(slack)):
                return self.goal is None or self.trace_error() <= self.goal

    def _target(self, slack: float) -> float:
        return -np.inf if self.goal is None else (self.goal - slack) * self.total

    def remaining(self) -> float:
        """trace(K - FFᵀ), weighted."""
        return float(self.share @ np.maximum(self.left, 0))

    def _extend(self, most: int, target: float) -> bool:
        """One block of pivots more, or as many of it as reach the target trace."""
        open_share = self.share * np.where(
            self.left > self.cutoff * self.own, self.left, 0.0
        )
        cumulative = np.cumsum(open_share)
        if not cumulative[-1] > 0:
            return False
        draws = self.rng.random(min(PROPOSALS, most)) * cumulative[-1]
        last = np.flatnonzero(open_share)[-1]  # rounding may put a draw beyond it
        proposed = np.minimum(np.searchsorted(cumulative, draws, "right"), last)
        F = self._rows(proposed)
        among = values(self.kernel, take(self.X, proposed)) - F @ F.T
        # What was found to be spanned is not proposed again.
        self.left[proposed] = np.minimum(self.left[proposed], among.diagonal())
        kept, lower = _accepted(among, self.cutoff * self.own[proposed], self.rng)
        if len(kept):
            self._append(proposed[kept], lower, target)
        return True

    def _append(self, pivots: np.ndarray, lower: np.ndarray, target: float) -> None:
        """The columns of F that belong to new pivots."""
        self._add_columns(pivots, lower)
        t = len(pivots)
        if target > -np.inf:
            after = self.remaining() - np.cumsum(self._squares(t))
            t = min(t, int(np.searchsorted(-after, -target)) + 1)
        self.left -= self._lengths(t)
        self.left[pivots[:t]] = 0.0
        self.chosen = np.concatenate([self.chosen, pivots[:t]])
        self._measure_rounding()

    def _add_columns(self, pivots: np.ndarray, lower: np.ndarray) -> None:
        m, t = len(self.chosen), len(pivots)
        if m + t > self._F.shape[1]:
            grown = self._room(min(self.most, 2 * (m + t)))
            grown[:, :m] = self._F[:, :m]
            self._F = grown
        points, old = take(self.X, pivots), self._rows(pivots).T
        new = self._F[:, m : m + t]
        values_of = self._values_with(points)

        def fill(rows: slice) -> tuple[()]:
            new[rows] = _columns(values_of(rows), self._F[rows, :m], old, lower)
            return ()

        width = max([PROPOSALS, *getattr(self.X, "shape", (0, 0))[1:]])
        # Compiled kernel values are as quick in small blocks, one for each thread.
        size = block_mb(PIECE_MB if self.compiled else BLOCK_MB)
        blocks = [*row_blocks(len(self.own), width, size)]
        if self.compiled:
            # Points in files are read in order, by one thread.
            summed(fill, blocks, many=not isinstance(self.X, Blocks))
        else:
            for rows in blocks:
                fill(rows)
        new[pivots] = lower

    def _values_with(self, points: Points) -> Callable[[slice], np.ndarray]:
        """k(x, points) of some rows; what is compiled reads its points packed once."""
        recipe = self.kernel.native(points) if self.compiled else None
        if recipe is None or isinstance(self.X, Blocks):
            return lambda rows: values(self.kernel, take(self.X, rows), points)
        pivots = Packed(double(points), only_core=True)

        def found(rows: slice) -> np.ndarray:
            part = self._packed.get(rows.start)
            if part is None:
                part = Packed(double(take(self.X, rows)), only_core=True)
                if self._is_small:
                    self._packed[rows.start] = part
            return finite(block(recipe, part, pivots), self.kernel, self.X)

        return found

    @property
    def _is_small(self) -> bool:
        """Whether a copy of the points takes little room."""
        shape = getattr(self.X, "shape", (0,))
        return 8.0 * float(np.prod(shape)) <= block_mb(PACKED_MB) * 2**20

    def _lengths(self, t: int) -> np.ndarray:
        """‖·‖² of the rows of the t newest columns."""
        m = len(self.chosen)
        new = self._F[:, m : m + t]
        return np.einsum("ij,ij->i", new, new)

    def _squares(self, t: int | None = None) -> np.ndarray:
        """‖·‖² of columns, weighted: of the t newest, or of all that were chosen."""
        m = len(self.chosen)
        columns = self._F[:, :m] if t is None else self._F[:, m : m + t]
        return np.einsum("i,ij,ij->j", self.share, columns, columns)

    def _measure_rounding(self) -> None:
        """Raise the cut-off to what rounding has left below 0; refuse what is more."""
        below = np.divide(
            -self.left, self.own, out=np.zeros(len(self.own)), where=self.own > 0
        )
        i = int(np.argmax(below))
        self.cutoff = max(self.cutoff, CLEAR * float(below[i]))
        if below[i] > NEGATIVE and self.kernel.psd is not True:
            raise ValueError(
                f"Nystrom needs a positive semidefinite kernel, which {self.kernel} is "
                f"not on these points: at point {i} k(x, x) = {self.own[i]:.6g} is "
                f"less than its part along the landmarks, by {-self.left[i]:.3g}. "
                "`check` tests a kernel, `repair` mends its matrix."
            )

    def _room(self, columns: int) -> np.ndarray:
        n = len(self.own)
        check_room(
            8.0 * n * columns,
            f"Nystrom(method='pivoted') holds {columns:,} numbers for each of {n:,} "
            "points,",
            "Choose fewer landmarks, resolve it on some of the points, or use "
            "method='uniform'.",
        )
        return np.empty((n, columns))

    def trace_error(self) -> float:
        """trace(K - K̃) / trace K on these points, no less: rounding is added."""
        if not self.total:
            return 0.0
        return (self.remaining() + self.rounding()) / self.total

    def rounding(self) -> float:
        """How far trace K̃, computed anew from k(X, L) by `lower`, may be from here.

        Both solve φ lowerᵀ = k(x, L) up to residuals of (m + 8) eps √(k(x, x) k(l, l)),
        so that they differ by no more than |lower⁻¹| times these.
        """
        m = len(self.chosen)
        summed = (m + 64) * EPS * self.total
        if m == 0:
            return summed
        inverse = half(self.lower, np.eye(m, order="F"))
        reach = np.abs(inverse) @ np.sqrt(self.own[self.chosen])
        step = 2 * (m + 8) * EPS
        lengths = np.sqrt(self._squares() * self.total)
        return float(
            2 * step * (reach @ lengths) + step**2 * self.total * (reach @ reach)
        ) + float(summed)


def _columns(
    rest: np.ndarray, before: np.ndarray, old: np.ndarray, lower: np.ndarray
) -> np.ndarray:
    """The columns of F that belong to new pivots, at some points.

    Parameters
    ----------
    rest : k(x, pivots), overwritten
    before : the columns of these points so far
    old, lower : the rows of F at the pivots, transposed, and their new triangle
    """
    rest -= multiply(before, old)
    return half(lower, rest.T).T


class PartitionedPivoting(Pivoting):
    """The same on points in partitions, with whom the rows of F stay."""

    X: Partitions

    def _begin(self, columns: int) -> None:
        self._remote = self.X.remote.derived(_no_columns)

    def _rows(self, index: np.ndarray) -> np.ndarray:
        m = len(self.chosen)
        if not len(index):
            return np.empty((0, m))
        split = self._remote.split(index)
        parts = [one for one in self._remote.each(taken, split) if one is not None]
        owner = np.searchsorted(self._remote.bounds, index, "right") - 1
        back = np.argsort(np.argsort(owner, kind="stable"), kind="stable")
        return np.concatenate(parts)[back, :m]

    def _add_columns(self, pivots: np.ndarray, lower: np.ndarray) -> None:
        sent = take(self.X, pivots), self._rows(pivots).T, lower
        split = self._remote.split(pivots, lower)
        none = np.empty(0, dtype=np.intp), lower[:0]
        arguments = [(*sent, *(one or none)) for one in split]
        columns = self.X.remote.zipped(
            self._remote, _with_columns, arguments, (self.kernel,)
        )
        self._remote = columns

    def _lengths(self, t: int) -> np.ndarray:
        m = len(self.chosen)
        arguments = [(m, m + t)] * len(self.X.names)
        return np.concatenate(self._remote.each(_lengths, arguments))

    def _squares(self, t: int | None = None) -> np.ndarray:
        m = len(self.chosen)
        ends = (0, m) if t is None else (m, m + t)
        arguments = [(*one, *ends) for one in self._remote.slices(self.share)]
        return self._remote.total(_squares, arguments)


def _no_columns(points: Points) -> np.ndarray:
    return np.empty((count(points), 0))


def _with_columns(
    points: Points,
    before: np.ndarray,
    pivots: Points,
    old: np.ndarray,
    lower: np.ndarray,
    places: np.ndarray,
    rows: np.ndarray,
    kernel: Kernel,
) -> np.ndarray:
    """The rows of F of a partition with more columns; rows at its own pivots."""
    m, t = len(old), len(lower)
    out = np.empty((len(before), m + t))
    out[:, :m] = before[:, :m]
    for some in row_blocks(
        len(out), max([t, *getattr(points, "shape", (0, 0))[1:]]), BLOCK_MB
    ):
        part = take(points, some)
        rest = values(kernel, part, pivots)
        out[some, m:] = _columns(rest, out[some, :m], old, lower)
    out[places, m:] = rows
    return out


def _lengths(F: np.ndarray, begin: int, end: int) -> np.ndarray:
    return np.einsum("ij,ij->i", F[:, begin:end], F[:, begin:end])


def _squares(F: np.ndarray, share: np.ndarray, begin: int, end: int) -> np.ndarray:
    return np.einsum("i,ij,ij->j", share, F[:, begin:end], F[:, begin:end])


def _accepted(
    among: np.ndarray, least: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The proposals that stay and the Cholesky factor among them.

    More than `least` is left of them. Each was proposed with a probability
    proportional to what was left of it; it stays with the share of that which is left
    after those before it.
    """
    b = len(among)
    F = np.zeros((b, b))
    kept: list[int] = []
    for i, draw in enumerate(rng.random(b)):
        r = len(kept)
        left = among[i, i] - F[i, :r] @ F[i, :r]
        if left > least[i] and draw * among[i, i] < left:
            F[:, r] = (among[:, i] - F[:, :r] @ F[i, :r]) / np.sqrt(left)
            kept.append(i)
    lower = np.tril(F[kept, : len(kept)])
    return np.array(kept, dtype=np.intp), np.asfortranarray(lower)


def uniform(
    n: int, weight: np.ndarray | None, size: int, rng: np.random.Generator
) -> np.ndarray:
    """Different points, each as likely as its weight."""
    p = None if weight is None else weight / weight.sum()
    return rng.choice(n, size, replace=False, p=p)


def far_apart(
    kernel: Kernel,
    X: Points,
    weight: np.ndarray | None,
    size: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Points drawn by the square of their distance from the nearest one before them.

    The start of k-means++ (Arthur and Vassilvitskii, 2007), in feature space. Fewer
    than `size` where there are no more points at a distance.
    """
    X = double(as_points(X))
    own = own_values(kernel, X)
    share = np.ones(len(own)) if weight is None else weight
    likely, nearest = share, np.full(len(own), np.inf)
    chosen: list[int] = []
    while len(chosen) < size and likely.any():
        cumulative = np.cumsum(likely)
        place = np.searchsorted(cumulative, rng.random() * cumulative[-1], "right")
        i = min(int(place), int(np.flatnonzero(likely)[-1]))
        chosen.append(i)
        squares = np.asarray(kernel.sqdist(X, take(X, [i])), dtype=float)[:, 0]
        nearest = np.minimum(nearest, squares)
        nearest[i] = 0.0
        likely = share * np.where(nearest > CUTOFF * (own + own[i]), nearest, 0.0)
    return np.array(chosen, dtype=np.intp)


def cholesky(kernel: Kernel, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points of K that span all of them, and the lower triangle of their Cholesky.

    In the order they have: a point is left out where those before it span it.
    """
    n, own = len(K), K.diagonal()
    whole = np.array(K, order="F")
    if n and factor(whole):
        # What is well above the cut-off is so in any order of the sums.
        if np.all(whole.diagonal() ** 2 > 2 * CUTOFF * own):
            return np.arange(n), np.asfortranarray(np.triu(whole).T)
    scale = np.abs(own).max(initial=0.0)
    F = np.zeros((n, n), order="F")
    kept: list[int] = []
    for i in range(n):
        r = len(kept)
        column = K[i:, i] - F[i:, :r] @ F[i, :r]
        if column[0] < -NEGATIVE * scale and kernel.psd is not True:
            raise ValueError(
                f"Nystrom needs a positive semidefinite kernel, which {kernel} is not "
                f"on its landmarks: number {i} is {-column[0]:.3g} shorter than its "
                "part along those before it. `check` tests a kernel."
            )
        if column[0] > CUTOFF * own[i]:
            F[i:, r] = column / np.sqrt(column[0])
            kept.append(i)
    return np.array(kept, dtype=np.intp), np.asfortranarray(F[kept, : len(kept)])
