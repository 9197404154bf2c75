"""The error of a machine along its path: constant between the signs that f changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mercer.native.sorting import distinct
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.path import Trace, Tracer


@dataclass(frozen=True, eq=False)
class ErrorCurve:
    """The error as a function of the parameter: constant between two edges.

    Attributes
    ----------
    edges : (m + 1,) array, ascending; the last may be infinite
    errors : (m,) array, the share of points that are missed
    """

    edges: np.ndarray
    errors: np.ndarray

    def __call__(self, value: float) -> float:
        """The error at a value of the parameter."""
        if not self.edges[0] <= value <= self.edges[-1]:
            raise ValueError(
                f"This curve goes from {self.edges[0]:.6g} to {self.edges[-1]:.6g}; "
                f"got {value!r}."
            )
        place = int(np.searchsorted(self.edges, value, side="right")) - 1
        return float(self.errors[min(place, len(self.errors) - 1)])

    @property
    def best(self) -> tuple[float, float]:
        """A value with the least error, well inside the widest such range, and that."""
        least = float(self.errors.min())
        good = np.concatenate([[False], self.errors == least, [False]])
        begins = np.flatnonzero(good[1:-1] & ~good[:-2])
        stops = np.flatnonzero(good[1:-1] & ~good[2:]) + 1
        low, high = self.edges[begins], self.edges[stops]
        # From 0 or to infinity is far enough by a factor of ten.
        low = np.where(low > 0, low, high / 10)
        high = np.where(np.isfinite(high), high, 10 * low)
        widest = int(np.argmax(np.log(high) - np.log(low)))
        return float(np.sqrt(low[widest] * high[widest])), least


def part_of(problem: BoxQP, index: np.ndarray) -> BoxQP:
    """The same problem on some of its points."""
    group = None if problem.group is None else np.asarray(problem.group)[index]
    names = ("linear", "sign", "lower", "upper")
    numbers = {name: getattr(problem, name)[index] for name in names}
    return replace(problem, gram=problem.gram.take(index), group=group, **numbers)


@dataclass(frozen=True, eq=False)
class _LinearPiece:
    """β + (θ - low) rate from low to high, with a level of the same kind."""

    low: float
    high: float
    beta: np.ndarray
    rate: np.ndarray
    level: float
    level_rate: float


def linear_pieces(
    tracer: Tracer, trace: Trace, k: int, stop: float
) -> list[_LinearPiece]:
    """Piece k as pieces on which the bias is linear too.

    Where no variable is free the level is in the middle of an interval, whose ends are
    broken lines.
    """
    piece, state = trace.pieces[k], trace.state(k)
    low, high = sorted((piece.theta, stop))
    if not high > low:
        return []
    beta = trace.beta(piece.theta, k)
    rate = trace.corners.rate[np.arange(len(state)), state // 2].copy()
    rate[piece.free] = piece.rate
    beta = beta + (low - piece.theta) * rate
    inner = low + 1.0 if high == np.inf else (low + high) / 2
    at, corners = beta + (inner - low) * rate, trace.corners(inner)
    slack = 1e-12 * np.abs(corners).max(axis=1)
    bottom, top = at <= corners[:, 0] + slack, at >= corners[:, -1] - slack
    if not (bottom | top).all():
        level = piece.level[0] + (low - piece.theta) * piece.level_rate[0]
        lines = [(low, high, float(level), float(piece.level_rate[0]))]
    else:
        F, slope = tracer.K @ beta - tracer.target.start, tracer.K @ rate
        lines = _middle(F, slope, bottom, low, high)
    return [
        _LinearPiece(a, b, beta + (a - low) * rate, rate, level, slope)
        for a, b, level, slope in lines
    ]


def _middle(
    F: np.ndarray, slope: np.ndarray, bottom: np.ndarray, low: float, high: float
) -> list[tuple[float, float, float, float]]:
    """(from, to, level, its rate) where all variables are at bounds.

    The level is in the middle between the least gradient of those that can rise and the
    largest of those that can fall.
    """
    ends = [
        (side, _least(side * F[some], side * slope[some], low, high))
        for side, some in ((1.0, bottom), (-1.0, ~bottom))
        if some.any()
    ]
    cuts = distinct([cut[0] for _, lines in ends for cut in lines])
    found = []
    for a, b in zip(cuts, [*cuts[1:], high], strict=True):
        level = rate = 0.0
        for side, lines in ends:
            start, value, slope_of = max(line for line in lines if line[0] <= a)
            level += side * (value + (a - start) * slope_of) / len(ends)
            rate += side * slope_of / len(ends)
        found.append((float(a), float(b), level, rate))
    return found


def _least(
    values: np.ndarray, slopes: np.ndarray, low: float, high: float
) -> list[tuple[float, float, float]]:
    """(from, value, slope) of the least of some lines, values being those at low."""
    at, found = low, []
    active = int(np.lexsort((slopes, values))[0])
    while True:
        now = values + (at - low) * slopes
        found.append((at, float(now[active]), float(slopes[active])))
        falling = np.flatnonzero(slopes < slopes[active])
        if not len(falling):
            return found
        gaps = np.maximum(now[falling] - now[active], 0.0)
        steps = gaps / (slopes[active] - slopes[falling])
        best = int(np.lexsort((slopes[falling], steps))[0])
        at, active = at + float(steps[best]), int(falling[best])
        if not at < high:
            return found


def errors_along(
    pieces: list[_LinearPiece], rows: np.ndarray, sign: np.ndarray
) -> ErrorCurve:
    """The error of f = rows β - level, of which the signs are to be those given."""
    edges, errors = [], []
    for piece in pieces:
        value = sign * (rows @ piece.beta - piece.level)
        slope = sign * (rows @ piece.rate - piece.level_rate)
        with np.errstate(divide="ignore", invalid="ignore"):
            root = piece.low - value / slope
        inside = (root > piece.low) & (root < piece.high)
        order = np.argsort(root[inside], kind="stable")
        turns = np.where(slope[inside] > 0, -1, 1)[order]
        first = np.sum((value < 0) | ((value == 0) & (slope < 0)))
        edges += [piece.low, *root[inside][order].tolist()]
        errors += (first + np.cumsum([0, *turns])).tolist()
    return ErrorCurve(np.array([*edges, pieces[-1].high]), np.array(errors) / len(sign))


def together(curves: list[tuple[int, ErrorCurve]]) -> ErrorCurve:
    """The error over several folds of these sizes, as far as all of them go."""
    end = min(curve.edges[-1] for _, curve in curves)
    edges = distinct(np.concatenate([curve.edges for _, curve in curves]))
    edges = np.append(edges[edges < end], end)
    total, size = np.zeros(len(edges) - 1), sum(n for n, _ in curves)
    for n, curve in curves:
        places = np.searchsorted(curve.edges, edges[:-1], side="right") - 1
        total += n * curve.errors[places]
    return ErrorCurve(edges, np.round(total) / size)
