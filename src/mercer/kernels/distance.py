"""A kernel from a distance: the inner product about an origin that induces it.

Where d is the distance of φ(x) and φ(y) in a Hilbert space, the formula of
`FromDistance` is ⟨φ(x) - φ(o), φ(y) - φ(o)⟩; and it is a kernel only there, that is
where d² is of negative type: Σᵢⱼ cᵢcⱼ d(xᵢ, xⱼ)² ≤ 0 for all c with Σᵢ cᵢ = 0
(Schoenberg, Transactions of the AMS 44, 1938).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # of which a part is loaded when it is used
import scipy.sparse as sp

from mercer.data import points
from mercer.data.checks import describe
from mercer.data.points import Points, as_points, count, each, one, take
from mercer.data.sequences import edit_distances, encode
from mercer.kernels.base import Kernel, Rule, row_blocks
from mercer.kernels.checks import Range, is_finite
from mercer.kernels.vector import by_tiles
from mercer.native import vectors
from mercer.native.interruptible import elementwise
from mercer.native.sparsity import Vectors
from mercer.native.vectors import Recipe

WORDS = ("euclidean", "manhattan", "chebyshev", "edit")
AGREE = 1e-9  # of d(x, y) and d(y, x), and of d(x, x) beside the largest distance
ALL_PAIRS = 200  # points up to which d(x, y) and d(y, x) are compared in all pairs
MOST_CANDIDATES = 2000  # points of which the medoid is taken
BLOCK_MB = 16.0


@dataclass
class FromDistance(Kernel):
    """k(x, y) = ½ (d(x, o)² + d(y, o)² - d(x, y)²), d a distance and o an origin.

    Then ‖φ(x) - φ(y)‖ = d(x, y): the inverse of `feature_distances`. Another origin
    shifts φ, and no distance changes; with a Euclidean distance and the mean of X as o
    it is `Centered(Linear(), X)`. It is a kernel only if d is a distance in some
    Hilbert space; for others, such as the edit distance, `check` decides on the data.

    Parameters
    ----------
    distance : "euclidean", "manhattan" (Σ|xᵢ - yᵢ|) or "chebyshev" (max |xᵢ - yᵢ|) of
        vectors, "edit" of strings or sequences of tokens; or a function of two points
        of any kind that returns a number d(x, y) = d(y, x) ≥ 0, d(x, x) = 0
    origin : o, a point; None for the medoid of X, fixed by `resolve`: the point with
        the least sum of squared distances to all others (of X larger than 2,000, the
        best of 2,000 points evenly taken from it)
    power : d^power takes the place of d, 0 < power ≤ 1; ½ for √d

    Examples
    --------
    >>> from mercer import FromDistance
    >>> k = FromDistance("edit", origin="")
    >>> k.value("cat", "cart")  # ½ (3² + 4² - 1²)
    12.0
    """

    smooth = Range.share("power", learnt=False)

    distance: str | Callable[[Any, Any], float]
    origin: Any = None
    power: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.distance, Kernel):
            raise TypeError(
                f"FromDistance needs a distance; {self.distance!r} is a kernel already."
            )
        word = isinstance(self.distance, str) and self.distance in WORDS
        if not (word or callable(self.distance)):
            near = difflib.get_close_matches(str(self.distance), WORDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"FromDistance needs a function of two points as distance, or one of "
                f"{', '.join(WORDS)}; got distance={self.distance!r}.{hint}"
            )
        if not (is_finite(self.power) and 0 < self.power <= 1):
            raise ValueError(
                f"FromDistance needs 0 < power ≤ 1; got power={self.power!r}."
            )

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        if self._is_linear:
            X, Y = self._around_origin(X), None if Y is None else self._around_origin(Y)
            return self._finite(vectors.block(Recipe("product", "identity"), X, Y))
        left = self.diag(X)
        right = left if Y is None else self.diag(Y)
        return elementwise(
            lambda squares: (np.add.outer(left, right) - squares) / 2,
            self.sqdist(X, Y),
        )

    def diag(self, X: Points) -> np.ndarray:
        if self._is_linear:
            X = self._around_origin(X)
            return self._finite(vectors.diag(Recipe("product", "identity"), X))
        origin = one(self._origin()) if self._on_vectors else [self._origin()]
        there = self._between(X, origin)
        squares = self._squared(there, "the origin")[:, 0]
        if callable(self.distance):
            self._check_agreement(there[:, 0], self._between(origin, X)[0])
        return squares

    def sqdist(self, X: Points, Y: Points | None = None) -> np.ndarray:
        """d(xᵢ, yⱼ)^(2 power), as it is given."""
        squares = self._squared(self._between(X, Y))
        if Y is None:
            np.fill_diagonal(squares, 0)
        return squares

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> FromDistance:
        if self.origin is not None:
            return self
        return FromDistance(self.distance, self._medoid(X, weight), self.power)

    def rule(self) -> Rule:
        given = self.distance
        if given == "euclidean":
            if self.power == 1:
                return Rule(True, "⟨x - o, y - o⟩, an inner product of shifted vectors")
            return Rule(
                True,
                "‖x - y‖² is of negative type, its powers from 0 to 1 are too, and so "
                "the formula is a kernel (Schoenberg)",
            )
        if given == "manhattan" and self.power <= 0.5:
            return Rule(
                True,
                "|x - y| = ∫ ([x > t] - [y > t])² dt, so that Σ|xᵢ - yᵢ| and its "
                "powers from 0 to 1 are of negative type, and the formula is a kernel "
                "(Schoenberg)",
            )
        name = "a user's distance" if callable(given) else f"the {given} distance"
        return Rule(
            None,
            f"a kernel exactly where the square of d is of negative type, which {name} "
            f"{'' if self.power == 1 else f'to the power {self.power:g} '}need not be; "
            "`check` decides on the data",
        )

    # The Euclidean distance needs none: ⟨x - o, y - o⟩ does not cancel

    @property
    def _is_linear(self) -> bool:
        return isinstance(self.distance, str) and (
            self.distance == "euclidean" and self.power == 1
        )

    def _around_origin(self, X: Points) -> Vectors:
        """X - o in float64; sparse where both are."""
        X = points.vectors(X, "FromDistance")
        origin = points.vectors(one(self._origin()), "FromDistance")
        self._check_dimension(X, origin)
        if sp.issparse(X) and sp.issparse(origin):
            ones = sp.csr_array(np.ones((X.shape[0], 1)))
            return sp.csr_array(X.astype(float) - ones @ origin.astype(float))
        dense = [A.toarray() if sp.issparse(A) else A for A in (X, origin)]
        return np.subtract(*dense, dtype=float)

    def _check_dimension(self, X: Points, origin: Vectors) -> None:
        if X.shape[1] != origin.shape[1]:
            raise ValueError(
                f"FromDistance compares vectors with its origin, which has "
                f"{origin.shape[1]} numbers; the points have {X.shape[1]} columns."
            )

    def _finite(self, values: np.ndarray) -> np.ndarray:
        if not np.isfinite(values).all():
            place = ", ".join(map(str, np.argwhere(~np.isfinite(values))[0]))
            raise ValueError(
                f"FromDistance is not finite at point {place}: a coordinate is missing "
                "or infinite, or a square is beyond float64. Scale the data."
            )
        return values

    # Distances

    def _between(self, X: Points, Y: Points | None) -> np.ndarray:
        """The (n, m) distances; where Y is None symmetric bit for bit."""
        if callable(self.distance):
            return self._by_function(X, Y)
        if self.distance == "edit":
            return edit_distances(*encode("FromDistance", X, Y))
        X, Y = points.pair(X, Y, "FromDistance")
        X, Y = (Z if Z is None else Z.astype(float) for Z in (X, Y))
        if self.distance == "euclidean":
            squares = vectors.block(Recipe("square", "identity"), X, Y)
            return elementwise(np.sqrt, squares)
        if self.distance == "manhattan":
            return vectors.block(Recipe("absolute", "identity"), X, Y)
        return by_tiles(_chebyshev, X, Y)

    def _by_function(self, X: Points, Y: Points | None) -> np.ndarray:
        X = each(as_points(X))
        if Y is not None:
            Y = each(as_points(Y))
            rows = [[self._number(x, y) for y in Y] for x in X]
            return np.array(rows, dtype=float).reshape(len(X), len(Y))
        D = np.empty((len(X), len(X)))
        for i, x in enumerate(X):
            D[i, i:] = D[i:, i] = [self._number(x, y) for y in X[i:]]
        self._squared(D)  # refuses what is no distance
        self._check_itself(D)
        self._check_symmetry(X, D)
        return D

    def _number(self, x: Any, y: Any) -> float:
        value = self.distance(x, y)  # type: ignore[operator]
        try:
            # An array of one number is accepted: (n, 1) points give such.
            return float(value.item() if hasattr(value, "item") else value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                "The distance of FromDistance takes two points and must return a "
                f"number; it returned {describe(value)}."
            ) from error

    def _squared(self, D: np.ndarray, other: str | None = None) -> np.ndarray:
        """D^(2 power), checked; `other` is what the points were paired with."""
        right = np.isfinite(D) & (D >= 0)
        if not right.all():
            i, j = map(int, np.argwhere(~right)[0])
            raise ValueError(
                f"FromDistance needs distances that are finite and ≥ 0; that of point "
                f"{i} and {other or f'point {j}'} is {float(D[i, j])!r}."
            )
        with np.errstate(over="ignore"):
            return self._finite(D ** (2 * float(self.power)))

    def _check_itself(self, D: np.ndarray) -> None:
        own = np.abs(np.diagonal(D))
        if (own > AGREE * np.abs(D).max(initial=0)).any():
            i = int(np.argmax(own))
            raise ValueError(
                f"FromDistance needs d(x, x) = 0; the distance of point {i} to itself "
                f"is {float(D[i, i])!r}. A similarity is no distance; PairFunction "
                "makes a kernel of one."
            )

    def _check_symmetry(self, X: Sequence[Any], D: np.ndarray) -> None:
        """Compare d(x, y) with d(y, x), for many points with some others of each."""
        step = -(-len(X) // ALL_PAIRS)
        for i in range(len(X)):
            others = range(i % step, i, step)
            back = np.array([self._number(X[i], X[j]) for j in others])
            self._check_agreement(D[i, others], back, i, others)

    def _check_agreement(
        self,
        there: np.ndarray,
        back: np.ndarray,
        first: int | None = None,
        others: Sequence[int] | None = None,
    ) -> None:
        """Refuse d(x, y) ≠ d(y, x), for one point x and some others."""
        differ = np.abs(there - back) > AGREE * np.maximum(there, back)
        if not np.any(differ):
            return
        at = int(np.argmax(differ))
        two = (
            f"point {at} and the origin"
            if others is None
            else f"point {others[at]} and point {first}"
        )
        raise ValueError(
            f"FromDistance needs d(x, y) = d(y, x); between {two} it is "
            f"{float(there[at])!r} one way and {float(back[at])!r} the other. Pass a "
            "symmetric function, such as the mean of the two."
        )

    # The origin

    def _origin(self) -> Any:
        if self.origin is None:
            raise ValueError(
                f"{self} learns its origin from data: call resolve(X) first, or pass "
                "a point as origin."
            )
        return self.origin

    def _medoid(self, X: Points, weight: np.ndarray | None) -> Any:
        """A copy of the point with the least Σ wⱼ d(x, xⱼ)^(2 power)."""
        X = as_points(X)
        if self._on_vectors:
            X = points.vectors(X, "FromDistance")
        n = count(X)
        if n == 0:
            raise ValueError(
                "FromDistance(origin=None) learns its origin from data; got no points."
            )
        weight = np.ones(n) if weight is None else np.asarray(weight, dtype=float)
        some = np.flatnonzero(weight > 0) if (weight > 0).any() else np.arange(n)
        step = -(-len(some) // MOST_CANDIDATES)
        some = some[::step]
        best = some[int(np.argmin(self._spread(take(X, some), X, weight, some)))]
        point = each(take(X, slice(best, best + 1)))[0]
        return point.copy() if isinstance(point, np.ndarray) else point

    def _spread(
        self, candidates: Points, X: Points, weight: np.ndarray, index: np.ndarray
    ) -> np.ndarray:
        """Σ wⱼ d(x, xⱼ)^(2 power) for each candidate x."""
        if self._is_linear:
            # Σ wⱼ ‖x - xⱼ‖² is Σ wⱼ times ‖x - mean‖², up to a constant.
            mean = FromDistance("euclidean", weight / weight.sum() @ X)
            return mean.diag(candidates)
        if len(index) == count(X):  # all: half the work, and symmetry is checked
            return self.sqdist(X) @ weight
        spread = np.empty(len(index))
        for rows in row_blocks(len(index), count(X), BLOCK_MB):
            spread[rows] = self.sqdist(take(candidates, rows), X) @ weight
        return spread

    @property
    def _on_vectors(self) -> bool:
        return isinstance(self.distance, str) and self.distance != "edit"


def _chebyshev(A: np.ndarray, B: np.ndarray | None) -> np.ndarray:
    B = A if B is None else B
    tile = scipy.spatial.distance.cdist(A, B, "chebyshev")
    # The largest of numbers passes over NaN, and so over ∞ - ∞.
    tile[~np.isfinite(A).all(axis=1)] = np.nan
    tile[:, ~np.isfinite(B).all(axis=1)] = np.nan
    return tile
