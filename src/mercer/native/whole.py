"""Points whose coordinates are whole numbers times one step, multiplied as such.

Pixels, counts and grades are such points. Their inner products and squared distances
are sums of whole numbers of 16 bits, or 8, which nothing rounds and which take a
quarter of the time of sums in double precision, or less.
"""

from __future__ import annotations

import numpy as np

from mercer import _core
from mercer.native.sorting import distinct

DENSE = 0.1  # of coordinates that are not 0: products of fewer leave out the others
SAMPLE = 16  # points that the step is found from
MOST = 2.0**13  # steps, that a step is looked for in
NEAR = 1e-9  # of a remainder, in steps, that counts as none


class WholePoints:
    """Points y that are whole numbers of steps, up to a few units in the last place.

    Made by `whole_points`.
    """

    __slots__ = ("_points",)

    def __init__(self, points: _core.WholePoints):
        self._points = points

    def block(self, recipe: _core.Recipe, X: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Write k(x, y) to the rows of `out` of points x that are such, too.

        Returns which rows are not: what is in them is of no use. Every row is judged
        by itself, so that its values are the same whatever is beside it. Done by the
        thread that calls it; others may be beside.

        Parameters
        ----------
        recipe : of a kernel of products, or of an exponential of squared distances
        X : (n, d) array of float64
        out : (n, m) array of float64
        """
        done = np.empty(len(X), dtype=bool)
        _core.whole_block(recipe, np.ascontiguousarray(X), self._points, out, done)
        return np.flatnonzero(~done)


def whole_points(Y: np.ndarray) -> WholePoints | None:
    """(m, d) numbers in whole steps; None where they are not such, or are mostly 0."""
    if Y.dtype != np.float64 or not Y.size:
        return None
    step = step_of(Y[:: -(-len(Y) // SAMPLE)])
    points = None
    if step is not None:
        points = _core.whole_points(np.ascontiguousarray(Y), step)
    return None if points is None else WholePoints(points)


def step_of(Y: np.ndarray) -> float | None:
    """The largest s > 0 of which all numbers are multiples, or None.

    By Euclid's algorithm, up to rounding. None, too, where most of them are 0, or one
    is more than 2¹³ steps.
    """
    sizes = distinct(np.abs(Y))
    if not np.isfinite(sizes[-1]) or np.count_nonzero(Y) < DENSE * Y.size:
        return None
    sizes = sizes[sizes > 0]
    step, largest = float(sizes[0]), float(sizes[-1])
    while largest <= MOST * step:
        times = sizes / step
        rest = np.abs(times - np.rint(times))
        rest = rest[rest > NEAR * times]
        if not len(rest):
            return largest / round(largest / step)
        step *= float(rest.min())
    return None
