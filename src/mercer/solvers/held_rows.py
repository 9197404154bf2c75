"""Kernel rows that several solves read from one matrix in single precision.

A search solves problems on parts of the same points again and again. While `offering`
is in force, `SMO` reads the rows of such a part from the matrix of all points, where it
would compute them in single precision; what it states is still summed in double, from
the points themselves. Solvers and machines are given their points as ever: rows are
taken where kernel and points are equal to those on offer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.native.vectors import Packed, block, centered, native_recipe, originals


class HeldRows:
    """k of all points with each other, in float32.

    Parameters
    ----------
    kernel : compiled, with no parameter left to learn
    X : (n, d) array of float64
    out : (n, n) array of float32 to write into
    """

    def __init__(self, kernel: Kernel, X: np.ndarray, out: np.ndarray):
        self.kernel, self.X, self.matrix = kernel, X, out
        recipe = kernel.native(X)
        self.recipe = native_recipe(recipe)
        packed = Packed(
            centered(X, recipe.part, np.float32).astype(np.float32, copy=False),
            only_core=True,
        )
        block(recipe, packed, out=out)
        self.points, self.originals = packed._points, originals(X)


@dataclass(frozen=True, eq=False)
class Left:
    """What a solve left: f = Σᵢ coefᵢ k(xᵢ, ·) at all points that there are rows of.

    Its values are sums of float32 numbers, but for those of the solve's own points that
    it summed in double.

    Attributes
    ----------
    coef : of the points of the solve
    function : (n,) array of f, without a bias, at all points
    moved : Σ|Δcoef| over all that it was added up of
    """

    coef: np.ndarray
    function: np.ndarray
    moved: float


@dataclass(eq=False)
class Offer:
    """The rows of some points: which of `rows` they are.

    Attributes
    ----------
    left : by the last solve that read them; None before
    """

    rows: HeldRows
    places: np.ndarray
    left: Left | None = None

    def serves(self, gram: Gram) -> bool:
        """Whether the Gram is that of these points."""
        X: Any = gram.X
        return (
            gram.kernel == self.rows.kernel
            and isinstance(X, np.ndarray)
            and X.shape == (len(self.places), self.rows.X.shape[1])
            and np.array_equal(X, self.rows.X[self.places])
        )


_offers: ContextVar[tuple[Offer | None, ...]] = ContextVar("held_rows", default=())


@contextmanager
def searching(offer: Offer | None) -> Iterator[None]:
    """Within, solves are those of a search; on the points of the offer they read it."""
    token = _offers.set((offer,))
    try:
        yield
    finally:
        _offers.reset(token)


def offered(gram: Gram) -> Offer | None:
    """The rows of this Gram, where they are on offer."""
    for offer in _offers.get():
        if offer is not None and offer.serves(gram):
            return offer
    return None
