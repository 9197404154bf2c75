"""Windows of any shape: K(‖x - y‖ / h), and Π K((xⱼ - yⱼ) / h) over the coordinates.

A window is never negative and has a finite integral, so that it is a density up to a
factor; it need not be positive semidefinite. The named shapes have their integral in
closed form, by Beta and Gamma functions; that of any other function is found by
quadrature, with an estimate of its error.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import betaln, gammaln

from mercer.data import points
from mercer.data.checks import describe
from mercer.data.points import Points
from mercer.kernels.base import Kernel, Rule
from mercer.kernels.checks import Range, check_positive, is_finite
from mercer.kernels.vector import TransformedKernel, by_tiles, inverse_variance
from mercer.kernels.ways import dense

# |ln r| up to which a window is looked at; larger r only while there is something left,
# since a function may overflow there.
FAR, FARTHEST = 16.0, 60.0
CELL = 0.25  # of ln r, before it is halved
HALVINGS = 60
MOST_CELLS = 2000  # that are halved at a time
FINE = 1e-12  # the relative error that is aimed at
LARGEST_ERROR = 1e-3  # relative; beyond it the integral counts as unknown
DIVERGES = 0.98  # share of the shell before; above it the integral counts as infinite
NODES, SHARES = leggauss(10)


class WindowIntegral(NamedTuple):
    """∫ K of a window over all of space: its logarithm, and how well that is known.

    `relative_error` is 0 for a formula ("formula") and an estimate for "quadrature".
    """

    log_value: float
    relative_error: float
    by: str

    @property
    def value(self) -> float:
        """The integral itself; ∞ or 0 where it leaves the range of numbers."""
        return float(np.exp(min(self.log_value, 710.0)))

    def times(self, factor: float, log_factor: float) -> WindowIntegral:
        """The integral to a power, times a number given by its logarithm."""
        return WindowIntegral(
            factor * self.log_value + log_factor, factor * self.relative_error, self.by
        )


class Shape(NamedTuple):
    """A window of r ≥ 0 whose integral is known."""

    function: Callable[[np.ndarray], np.ndarray]  # K(r)
    slope: Callable[[np.ndarray], np.ndarray]  # K′(r), 0 where there is none
    log_shells: Callable[[int], float]  # ln ∫ r^(d-1) K(r) dr
    # n random r with the density r^(d-1) K(r): (rng, d, n)
    radius: Callable[[np.random.RandomState, int, int], np.ndarray] | None
    # ln K(r), where K(r) may underflow
    log: Callable[[np.ndarray], np.ndarray] | None = None


def _ball(power: int) -> Shape:
    """(1 - r²)^power inside the ball."""
    return Shape(
        lambda r: np.maximum(1 - r * r, 0) ** power,
        lambda r: np.where(r < 1, -2 * power * r * (1 - r * r) ** (power - 1), 0.0),
        lambda d: betaln(d / 2, power + 1) - math.log(2),
        lambda rng, d, n: np.sqrt(rng.beta(d / 2, power + 1, n)),
    )


def _cosine_shells(d: int) -> float:
    """∫₀¹ r^(d-1) cos(πr/2) dr, by the series of the cosine."""
    k = np.arange(25)
    terms = (math.pi / 2) ** (2 * k) / np.exp(gammaln(2 * k + 1)) / (d + 2 * k)
    return math.log(float(np.sum((-1.0) ** k * terms)))


SHAPES: dict[str, Shape] = {
    "box": Shape(
        lambda r: (r < 1).astype(r.dtype),
        np.zeros_like,
        lambda d: -math.log(d),
        lambda rng, d, n: rng.beta(d, 1, n),
    ),
    "epanechnikov": _ball(1),
    "biweight": _ball(2),
    "triweight": _ball(3),
    "triangle": Shape(
        lambda r: np.maximum(1 - r, 0),
        lambda r: np.where(r < 1, -1.0, 0.0),
        lambda d: betaln(d, 2),
        lambda rng, d, n: rng.beta(d, 2, n),
    ),
    "tricube": Shape(
        lambda r: np.maximum(1 - r * r * r, 0) ** 3,
        lambda r: np.where(r < 1, -9 * r * r * (1 - r * r * r) ** 2, 0.0),
        lambda d: betaln(d / 3, 4) - math.log(3),
        lambda rng, d, n: np.cbrt(rng.beta(d / 3, 4, n)),
    ),
    "cosine": Shape(
        lambda r: np.where(r < 1, np.cos(0.5 * math.pi * np.minimum(r, 1)), 0),
        lambda r: np.where(r < 1, -0.5 * math.pi * np.sin(0.5 * math.pi * r), 0.0),
        _cosine_shells,
        None,
    ),
    "exponential": Shape(
        lambda r: np.exp(-r),
        lambda r: -np.exp(-r),
        lambda d: gammaln(d),
        lambda rng, d, n: rng.gamma(d, 1.0, n),
        lambda r: -r,
    ),
    "gaussian": Shape(
        lambda r: np.exp(-0.5 * r * r),
        lambda r: -r * np.exp(-0.5 * r * r),
        lambda d: gammaln(d / 2) + (d / 2 - 1) * math.log(2),
        lambda rng, d, n: np.sqrt(rng.chisquare(d, n)),
        lambda r: -0.5 * r * r,
    ),
}


class WindowKernel(Kernel):
    """What both kinds of windows share: the function K, and the unit of distance."""

    smooth = Range.positive("bandwidth")

    function: Any
    bandwidth: Any

    def __post_init__(self) -> None:
        name = type(self).__name__
        if isinstance(self.function, str):
            if self.function not in SHAPES:
                raise ValueError(
                    f"{name} knows the windows {', '.join(SHAPES)}; got function="
                    f"{self.function!r}. Any other window is a function."
                )
        elif not callable(self.function) or isinstance(self.function, Kernel | type):
            raise TypeError(
                f"{name} needs a function of an array of numbers, or one of the words "
                f"{', '.join(SHAPES)}; got {describe(self.function)}."
            )
        check_positive(self, "bandwidth", self.bandwidth, optional=True)

    @property
    def shape(self) -> Shape | None:
        """The named window that this is, if it is one."""
        return SHAPES[self.function] if isinstance(self.function, str) else None

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> WindowKernel:
        if self.bandwidth is not None:
            return self
        scale = inverse_variance(self, "bandwidth", X, weight)
        return replace(self, bandwidth=1 / math.sqrt(scale))  # type: ignore[type-var]

    def heights(self, r: np.ndarray) -> np.ndarray:
        """K(r), checked to be numbers ≥ 0."""
        if self.shape is not None:
            return self.shape.function(r)
        with np.errstate(over="ignore", under="ignore"):
            image = dense(self._called(r))
        if image.shape != r.shape:
            raise ValueError(
                f"The function of {type(self).__name__} takes an array and must return "
                f"a number for each entry, shape {r.shape}; it returned shape "
                f"{image.shape}. Use numpy's functions, or np.vectorize."
            )
        bad = ~((image >= 0) & (image < np.inf))
        if bad.any():
            where = np.argmax(bad)
            raise ValueError(
                f"A window is finite and never negative; the function of "
                f"{type(self).__name__} is {image.flat[where]:.6g} at "
                f"{r.flat[where]:.6g}."
            )
        return image.astype(r.dtype, copy=False)

    def _called(self, r: np.ndarray) -> Any:
        try:
            return self.function(r)
        except TypeError as error:
            raise TypeError(
                f"The function of {type(self).__name__} takes an array of numbers and "
                f"returns one for each; called so it says: {error}. Use numpy's "
                "functions, or np.vectorize."
            ) from error

    def log_heights(self, r: np.ndarray) -> np.ndarray:
        """ln K(r), -∞ where K is 0."""
        if self.shape is not None and self.shape.log is not None:
            return self.shape.log(r)
        with np.errstate(divide="ignore"):
            return np.log(self.heights(r))

    @abstractmethod
    def integral(self, d: int) -> WindowIntegral:
        """∫ K over d dimensions, at bandwidth 1."""

    def rule(self) -> Rule:
        return Rule(
            None,
            "a window, which is ≥ 0 and has an integral; it is a kernel if its Fourier "
            "transform is never negative, which is not looked at",
        )


@dataclass
class RadialWindow(WindowKernel, TransformedKernel):
    """k(x, y) = K(‖x - y‖ / bandwidth), a window that is the same in all directions.

    Parameters
    ----------
    function : "box" (r < 1), "epanechnikov" 1 - r², "biweight" (1 - r²)², "triweight"
        (1 - r²)³, "triangle" 1 - r, "tricube" (1 - r³)³, "cosine" cos(πr/2), all 0 for
        r ≥ 1, "exponential" e^-r, "gaussian" e^(-r²/2); or K itself, which takes an
        array of numbers r ≥ 0 and returns a number ≥ 0 for each
    bandwidth : > 0, the unit of r; None for √(d · var X), fixed by `resolve`

    Examples
    --------
    >>> from mercer import RadialWindow
    >>> k = RadialWindow("epanechnikov", bandwidth=2)
    >>> k([[0.0]], [[0.0], [1.0], [3.0]]).tolist()
    [[1.0, 0.75, 0.0]]
    """

    part: ClassVar[str] = "square"

    function: Any
    bandwidth: float | None = None

    def transform(self, sums: np.ndarray) -> np.ndarray:
        return self.heights(
            np.sqrt(sums) / sums.dtype.type(self._resolved("bandwidth"))
        )

    def integral(self, d: int) -> WindowIntegral:
        """2π^{d/2} / Γ(d/2), the area of the sphere, times ∫ r^(d-1) K(r) dr."""
        area = math.log(2) + d / 2 * math.log(math.pi) - float(gammaln(d / 2))
        if self.shape is not None:
            return WindowIntegral(
                float(self.shape.log_shells(d)) + area, 0.0, "formula"
            )
        return Shells(self, d).integral().times(1.0, area)


@dataclass
class ProductWindow(WindowKernel):
    """k(x, y) = Πⱼ K((xⱼ - yⱼ) / bandwidth), a window for each coordinate.

    Parameters
    ----------
    function : as for `RadialWindow`, of r = |xⱼ - yⱼ| / bandwidth; or K itself, which
        takes an array of numbers of both signs and is even, K(-u) = K(u)
    bandwidth : > 0, the unit of distance; None for √(d · var X), fixed by `resolve`

    Examples
    --------
    >>> from mercer import ProductWindow
    >>> k = ProductWindow("triangle", bandwidth=2)
    >>> k.value([0, 0], [1, 1])
    0.25
    """

    function: Any
    bandwidth: float | None = None

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return self._block(X, Y, self.heights, np.multiply, 1.0)

    def log_block(self, X: Points, Y: Points | None = None) -> np.ndarray:
        """ln k(X, Y), also where k underflows."""
        return self._block(X, Y, self.log_heights, np.add, 0.0)

    def _block(
        self,
        X: Points,
        Y: Points | None,
        function: Callable[[np.ndarray], np.ndarray],
        join: np.ufunc,
        begin: float,
    ) -> np.ndarray:
        X, Y = points.pair(X, Y, "ProductWindow")
        h = X.dtype.type(self._resolved("bandwidth"))

        def tile(A: np.ndarray, B: np.ndarray | None) -> np.ndarray:
            B = A if B is None else B
            out = np.full((len(A), len(B)), begin, dtype=np.result_type(A, B))
            for a, b in zip(A.T, B.T, strict=True):
                join(out, function(np.abs(a[:, None] - b) / h), out=out)
            return out

        return by_tiles(tile, X, Y, depth=4)

    def diag(self, X: Points) -> np.ndarray:
        X = points.vectors(X, "ProductWindow")
        top = self.heights(np.zeros(1, dtype=X.dtype))[0] ** X.shape[1]
        distance = np.abs(X - X).sum(axis=1)  # NaN where the point has one
        return np.asarray(distance, dtype=X.dtype).ravel() + top

    def integral(self, d: int) -> WindowIntegral:
        """(∫ K(u) du)^d."""
        twice = math.log(2)
        if self.shape is not None:
            one = WindowIntegral(
                float(self.shape.log_shells(1)) + twice, 0.0, "formula"
            )
        else:
            self._check_even()
            one = Shells(self, 1).integral().times(1.0, twice)
        return one.times(float(d), 0.0)

    def _check_even(self) -> None:
        u = np.exp(np.linspace(-8, 8, 257))
        up, down = self.heights(u), self.heights(-u)
        uneven = np.abs(up - down) > 1e-9 * np.maximum(up, down).max()
        if uneven.any():
            i = int(np.argmax(uneven))
            raise ValueError(
                "ProductWindow needs an even function, K(-u) = K(u); it is "
                f"{up[i]:.6g} at {u[i]:.4g} and {down[i]:.6g} at {-u[i]:.4g}. Use "
                "(K(u) + K(-u)) / 2."
            )


class Shells:
    """∫₀^∞ r^(d-1) K(r) dr, in cells of t = ln r that are halved until they agree.

    A cell is known by Gauss's rule on it and on its two halves; their difference is
    the estimate of its error. All in units of the largest r^d K(r) met at first.
    """

    def __init__(self, window: WindowKernel, d: int) -> None:
        self.window, self.d = window, d
        window.heights(np.zeros(1))  # refuses what is not finite there
        for self.end in (FAR, FARTHEST):
            edges = np.arange(-FARTHEST, self.end + CELL / 2, CELL)
            a, b = edges[:-1], edges[1:]
            self.unit = float(np.max(self._logs(_places(a, b)[0])))
            if not is_finite(self.unit):
                raise ValueError(
                    f"{window!r} is 0 wherever it was looked at, r from 1e-26 to 9e6; "
                    "a window needs an integral > 0."
                )
            self._divide(a, b)
            if self.mass[-1] <= 1e-16 * self.mass.sum():
                break
        self._check_end()

    def _logs(self, t: np.ndarray) -> np.ndarray:
        """ln r^d K(r) at t = ln r."""
        return self.d * t + self.window.log_heights(np.exp(t))

    def _masses(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """∫ over each cell, and the largest value met in it."""
        t, share = _places(a, b)
        values = np.exp(self._logs(t) - self.unit)
        return np.sum(values * share, axis=1), values.max(axis=1)

    def _divide(self, a: np.ndarray, b: np.ndarray) -> None:
        done: list[tuple[np.ndarray, ...]] = []
        whole, _ = self._masses(a, b)
        for step in range(HALVINGS + 1):
            middle = (a + b) / 2
            (left, high), (right, top) = (
                self._masses(a, middle),
                self._masses(middle, b),
            )
            both = left + right
            error = np.abs(whole - both)
            total = sum(float(part[2].sum()) for part in done) + float(both.sum())
            bad = (error > 1e-3 * FINE * total) & (b - a > 1e-14)
            # Where rounding is larger than that, halving cells does not help.
            if step == HALVINGS or np.count_nonzero(bad) > MOST_CELLS:
                bad[:] = False
            done.append(
                tuple(part[~bad] for part in (a, b, both, error, np.maximum(high, top)))
            )
            if not bad.any():
                break
            a, b = (
                np.concatenate(pair)
                for pair in ((a[bad], middle[bad]), (middle[bad], b[bad]))
            )
            whole = np.concatenate([left[bad], right[bad]])
        columns = [np.concatenate(column) for column in zip(*done, strict=True)]
        order = np.argsort(columns[0])
        self.a, self.b, self.mass, self.error, self.top = (c[order] for c in columns)
        self.tail = 0.0

    def _check_end(self) -> None:
        """Refuse what does not fall towards ∞; what may be left beyond is estimated."""
        total = float(self.mass.sum())
        last, before = (
            float(self.mass[(self.a >= start - 1e-9) & (self.b <= end + 1e-9)].sum())
            for start, end in (
                (self.end - 5.0, self.end),
                (self.end - 10.0, self.end - 5.0),
            )
        )
        if last > 0:
            ratio = last / before if before > 0 else math.inf
            if ratio >= DIVERGES:
                raise ValueError(
                    f"{self.window!r} has no finite integral over {self.d} dimensions: "
                    "r^(d-1) K(r) does not fall fast enough towards infinity. Choose a "
                    "window that does."
                )
            self.tail = last * ratio / (1 - ratio)
        error = (float(self.error.sum()) + self.tail) / total
        if not error < LARGEST_ERROR:
            raise ValueError(
                f"The integral of {self.window!r} over {self.d} dimensions is known to "
                f"a relative error of {error:.2g} only. Choose a window that falls "
                "faster, or that jumps less."
            )
        self.relative_error = error + 1e-14

    def integral(self) -> WindowIntegral:
        total = float(self.mass.sum()) + self.tail
        return WindowIntegral(
            math.log(total) + self.unit, self.relative_error, "quadrature"
        )

    def draw(self, rng: np.random.RandomState, n: int) -> np.ndarray:
        """n random r with the density r^(d-1) K(r), by rejection within the cells."""
        # 1.02: the largest value found in a cell need not be the largest there is.
        room = 1.02 * self.top * (self.b - self.a)
        share = np.cumsum(room) / room.sum()
        found: list[np.ndarray] = []
        while sum(map(len, found)) < n:
            cell = np.searchsorted(share[:-1], rng.uniform(size=2 * n), side="right")
            t = self.a[cell] + rng.uniform(size=2 * n) * (self.b - self.a)[cell]
            value = np.exp(self._logs(t) - self.unit)
            kept = rng.uniform(size=2 * n) * 1.02 * self.top[cell] < value
            found.append(np.exp(t[kept]))
        return np.concatenate(found)[:n]


def _places(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nodes of Gauss's rule in each cell, (cells, nodes), and their weights."""
    half = (b - a)[:, None] / 2
    return (a + b)[:, None] / 2 + half * NODES, half * SHARES


def radii(
    window: WindowKernel, d: int, rng: np.random.RandomState, n: int
) -> np.ndarray:
    """n random r with the density r^(d-1) K(r)."""
    if window.shape is not None and window.shape.radius is not None:
        return window.shape.radius(rng, d, n)
    return Shells(window, d).draw(rng, n)
