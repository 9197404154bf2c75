"""Windows: kernels of a distance as probability densities around a point.

k(x, y) / c is a density in x where c = ∫ k(x, y) dx is finite. All windows here have a
bandwidth h, the unit of the distance: k(x, y) = f((x - y) / h). Those of the kernels of
a distance are mixtures of Gaussians (Matérn: variances from a Gamma distribution;
rational quadratic: the multivariate t), which is how their volumes and random draws are
found; `RadialWindow` and `ProductWindow` are of any shape.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, kve

from mercer.data.points import Points, take
from mercer.kernels.base import BLOCK_MB, Kernel, row_blocks
from mercer.kernels.operators import Scaled
from mercer.kernels.radial import (
    LARGE_ORDER,
    RBF,
    Laplacian,
    Matern,
    Radial,
    RationalQuadratic,
)
from mercer.kernels.vector import has_widths, one_width
from mercer.kernels.window import ProductWindow, RadialWindow, WindowIntegral, radii
from mercer.native import vectors
from mercer.native.vectors import Recipe

# Below this a sum of exponentials may have lost terms that count.
UNDERFLOW = 1e-280
# Others that weigh less than this beside the point itself are summed without it.
BESIDE_ITSELF = 1e-6
LARGE_ARGUMENT = 1e8  # of Kν: from here on its first two terms are all its digits


@dataclass(frozen=True)
class Window(ABC):
    """k(x, y) / c, c = ∫ k(x, y) dx: what `window` makes of a kernel."""

    part: ClassVar[str] = "square"

    kernel: Any

    @property
    def underflows(self) -> bool:
        """Whether ln k is a number where k is 0 to rounding."""
        return True

    def peak(self, d: int) -> float:
        """k(x, x)."""
        return 1.0

    def integral(self, d: int) -> WindowIntegral:
        """c in d dimensions, and how well it is known."""
        return WindowIntegral(self.log_volume(d), 0.0, "formula")

    @property
    @abstractmethod
    def bandwidth(self) -> Any:
        """h; None where the kernel has yet to learn it."""

    @abstractmethod
    def at(self, bandwidth: float) -> Window:
        """The same window with another bandwidth."""

    @abstractmethod
    def log_volume(self, d: int) -> float:
        """ln c in d dimensions."""

    @abstractmethod
    def log_of(self, sums: np.ndarray) -> np.ndarray:
        """ln k from the sums over coordinates, Σ(x - y)² or Σ|x - y|."""

    @abstractmethod
    def log_at(self, distance: np.ndarray) -> np.ndarray:
        """ln k at a distance, √Σ(x - y)² or Σ|x - y|, also where the sums overflow."""

    @abstractmethod
    def draw(self, rng: np.random.RandomState, n: int, d: int) -> np.ndarray:
        """n random vectors with the density k(x, 0) / c."""

    def check(self, d: int) -> None:
        """Refuse a dimension in which c is infinite or unknown."""
        assert d > 0

    def log(self, X: Points, Y: Points) -> np.ndarray:
        """ln k(X, Y), also where k itself would be 0."""
        recipe = Recipe(self.part, "identity")
        with np.errstate(over="ignore", invalid="ignore"):
            sums = vectors.block(recipe, X, Y)
            logs = self.log_of(sums)
            far = np.flatnonzero(~np.isfinite(sums).all(axis=1))
            if len(far):
                # Σ(x - y)² overflows from 1e154 on. In a unit of their size it does not
                unit = 2.0 ** (_exponent(X, Y) - 1)
                scaled = vectors.block(recipe, take(X, far) / unit, Y / unit)
                root = np.sqrt(scaled) if self.part == "square" else scaled
                logs[far] = self.log_at(root * unit)
        # ∞ - ∞, where a distance itself overflows
        logs[np.isnan(logs)] = -np.inf
        return logs

    def log_sums(
        self, X: Points, Y: Points | None, weight: np.ndarray, whole: bool = True
    ) -> np.ndarray:
        """ln Σⱼ weightⱼ k(xᵢ, yⱼ), in blocks; Y None for the other points of X.

        Sums that underflow, or that vanish beside k(x, x), are taken in logarithms.
        Where a window without an end is so far that even these leave the range of
        numbers, that is refused; with Y None it is -∞.

        Parameters
        ----------
        whole : False where Y is a part of all points, whose sums may be -∞
        """
        own = Y is None
        itself = self.peak(X.shape[1]) * weight if own else 0.0
        sums = self.kernel.matmul(X, Y, weight) - itself
        lost = sums <= UNDERFLOW if own or self.underflows else sums < 0
        if own:
            lost |= sums <= BESIDE_ITSELF * itself
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(sums)
        again = np.flatnonzero(lost)
        right = X if Y is None else Y
        for rows in row_blocks(len(again), right.shape[0], BLOCK_MB):
            some = again[rows]
            values = self.log(take(X, some), right)
            if own:
                values[np.arange(len(some)), some] = -np.inf
            logs[some] = _log_sum(values, weight)
        if not own and whole:
            self.refuse_beyond(logs)
        return logs

    def refuse_beyond(self, logs: np.ndarray) -> None:
        """Refuse logarithms of sums that left the range of numbers."""
        beyond = ~np.isfinite(logs)
        if self.underflows and beyond.any():
            raise ValueError(
                f"Point {int(np.argmax(beyond))} is so far from the others that the "
                f"logarithm of its density is not finite in float64, in units of the "
                f"bandwidth {self.bandwidth:.4g} of {self.kernel}. Scale the points, "
                "leave it out, or choose a wider window."
            )


def _log_sum(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """ln Σⱼ weightⱼ exp(valuesⱼ) of each row; overwrites the values."""
    largest = values.max(axis=1)
    values -= np.where(np.isfinite(largest), largest, 0)[:, None]
    np.exp(values, out=values)
    with np.errstate(divide="ignore"):
        return largest + np.log(values @ weight)


def _exponent(*parts: Points) -> int:
    """e of the largest number m · 2ᵉ, ½ ≤ m < 1, in some arrays."""
    entries = (part.data if sp.issparse(part) else part for part in parts)
    largest = max(float(np.abs(part).max(initial=0.0)) for part in entries)
    return int(np.frexp(largest)[1])


def window(kernel: Kernel) -> Window:
    """The window of a kernel; its factor, which the volume takes away, is left out."""
    while isinstance(kernel, Scaled):
        kernel = kernel.kernel
    if isinstance(kernel, Radial) and kernel.metric == "euclidean":
        kernel = RadialWindow(kernel.function, 1.0)
    if type(kernel) not in _WINDOWS:
        names = ", ".join(kind.__name__ for kind in _WINDOWS)
        raise ValueError(
            f"A density needs a kernel whose integral is known: {names}. Got "
            f"{kernel}. Choose one of these, of which RadialWindow(K) and "
            "ProductWindow(K) take any function; or ParzenClassifier(method='mean'), "
            "which takes any kernel."
        )
    for name in ("gamma", "length"):
        if has_widths(getattr(kernel, name, None)):
            one_width(kernel, name, "A density")  # says what to do
    return _WINDOWS[type(kernel)](kernel)


class _Gaussian(Window):
    """exp(-‖x - y‖² / 2h²), c = (2πh²)^{d/2}."""

    @property
    def bandwidth(self) -> Any:
        gamma = self.kernel.gamma
        return None if gamma is None else math.sqrt(0.5 / gamma)

    def at(self, bandwidth: float) -> Window:
        return _Gaussian(RBF.from_sigma(bandwidth))

    def log_volume(self, d: int) -> float:
        return 0.5 * d * math.log(math.pi / self.kernel.gamma)

    def log_of(self, sums: np.ndarray) -> np.ndarray:
        return -self.kernel.gamma * sums

    def log_at(self, distance: np.ndarray) -> np.ndarray:
        return -((math.sqrt(self.kernel.gamma) * distance) ** 2)

    def draw(self, rng: np.random.RandomState, n: int, d: int) -> np.ndarray:
        return self.bandwidth * rng.standard_normal((n, d))


class _Laplacian(Window):
    """exp(-Σ|xᵢ - yᵢ| / h), c = (2h)^d."""

    part = "absolute"

    @property
    def bandwidth(self) -> Any:
        gamma = self.kernel.gamma
        return None if gamma is None else 1 / gamma

    def at(self, bandwidth: float) -> Window:
        return _Laplacian(Laplacian(float(1 / bandwidth)))

    def log_volume(self, d: int) -> float:
        return d * math.log(2 / self.kernel.gamma)

    def log_of(self, sums: np.ndarray) -> np.ndarray:
        return -self.kernel.gamma * sums

    def log_at(self, distance: np.ndarray) -> np.ndarray:
        return self.log_of(distance)

    def draw(self, rng: np.random.RandomState, n: int, d: int) -> np.ndarray:
        return rng.laplace(scale=self.bandwidth, size=(n, d))


class _Lengthy(Window):
    """A kernel whose bandwidth is its `length`."""

    @property
    def bandwidth(self) -> float:
        return self.kernel.length

    def at(self, bandwidth: float) -> Window:
        return type(self)(replace(self.kernel, length=float(bandwidth)))


class _Matern(_Lengthy):
    """2^{1-ν}/Γ(ν) zᵛ Kν(z), z = √(2ν) r/h; c = (2πh²/ν)^{d/2} Γ(ν + d/2) / Γ(ν)."""

    def check(self, d: int) -> None:
        if LARGE_ORDER < self.kernel.nu < np.inf:
            raise ValueError(
                f"A density takes Matern kernels with nu ≤ {LARGE_ORDER:g}; got "
                f"nu={self.kernel.nu!r}. Use nu=np.inf, from which it hardly differs."
            )

    def log_volume(self, d: int) -> float:
        nu, length = self.kernel.nu, self.kernel.length
        if nu == np.inf:
            return 0.5 * d * math.log(2 * math.pi * length**2)
        ratio = gammaln(nu + d / 2) - gammaln(nu)
        return 0.5 * d * math.log(2 * math.pi * length**2 / nu) + float(ratio)

    def log_of(self, sums: np.ndarray) -> np.ndarray:
        if self.kernel.nu == np.inf:
            return -0.5 * sums / self.kernel.length**2
        return self.log_at(np.sqrt(sums))

    def log_at(self, distance: np.ndarray) -> np.ndarray:
        nu, length = self.kernel.nu, self.kernel.length
        if nu == np.inf:
            return -0.5 * (distance / length) ** 2
        z = distance * (math.sqrt(2 * nu) / length)
        if nu == 0.5:
            return -z
        if nu == 1.5:
            return np.log1p(z) - z
        if nu == 2.5:
            # z² overflows; where 1 and z count for nothing beside it, they are left out
            large = np.minimum(z, 1e100)
            logs = np.log1p(large + large * large / 3)
            return logs + 2 * np.log(np.maximum(z / 1e100, 1)) - z
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            logs = (1 - nu) * math.log(2) - gammaln(nu) + nu * np.log(z) - z
            logs += np.where(z < LARGE_ARGUMENT, np.log(kve(nu, z)), 0)
            far = 0.5 * np.log(0.5 * math.pi / z) + np.log1p((4 * nu**2 - 1) / (8 * z))
            logs += np.where(z < LARGE_ARGUMENT, 0, far)
        # Where Kν overflows z is so small that k is 1.
        return np.where((z > 1) | np.isfinite(logs), np.minimum(logs, 0), 0)

    def draw(self, rng: np.random.RandomState, n: int, d: int) -> np.ndarray:
        nu, length = self.kernel.nu, self.kernel.length
        steps = rng.standard_normal((n, d))
        if nu == np.inf:
            return length * steps
        variance = rng.gamma(nu + d / 2, length**2 / nu, size=(n, 1))
        return np.sqrt(variance) * steps


class _RationalQuadratic(_Lengthy):
    """(1 + r²/2αh²)^-α; c = (2παh²)^{d/2} Γ(α - d/2) / Γ(α), finite where α > d/2."""

    def check(self, d: int) -> None:
        if not self.kernel.alpha > d / 2:
            raise ValueError(
                f"RationalQuadratic with alpha={self.kernel.alpha!r} has an infinite "
                f"integral over {d} dimensions, and is no density there. Choose alpha "
                f"> {d / 2:g}, or RBF."
            )

    def log_volume(self, d: int) -> float:
        alpha, length = self.kernel.alpha, self.kernel.length
        ratio = gammaln(alpha - d / 2) - gammaln(alpha)
        return 0.5 * d * math.log(2 * math.pi * alpha * length**2) + float(ratio)

    def log_of(self, sums: np.ndarray) -> np.ndarray:
        alpha, length = self.kernel.alpha, self.kernel.length
        return -alpha * np.log1p(sums / (2 * alpha * length**2))

    def log_at(self, distance: np.ndarray) -> np.ndarray:
        alpha, length = self.kernel.alpha, self.kernel.length
        logs = 2 * np.log(distance) - math.log(2 * alpha) - 2 * math.log(length)
        return -alpha * np.logaddexp(0.0, logs)

    def draw(self, rng: np.random.RandomState, n: int, d: int) -> np.ndarray:
        alpha, length = self.kernel.alpha, self.kernel.length
        scale = length * math.sqrt(2 * alpha)
        freedom = rng.chisquare(2 * alpha - d, size=(n, 1))
        return scale * rng.standard_normal((n, d)) / np.sqrt(freedom)


@dataclass(frozen=True)
class _Shaped(Window):
    """A `RadialWindow`; its integral at bandwidth 1 is found once for a dimension."""

    known: dict[int, WindowIntegral] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def underflows(self) -> bool:
        shape = self.kernel.shape
        return shape is not None and shape.log is not None

    def peak(self, d: int) -> float:
        return float(self.kernel.heights(np.zeros(1))[0])

    @property
    def bandwidth(self) -> Any:
        return self.kernel.bandwidth

    def at(self, bandwidth: float) -> Window:
        kernel = replace(self.kernel, bandwidth=float(bandwidth))
        return type(self)(kernel, self.known)

    def check(self, d: int) -> None:
        self._unit(d)

    def _unit(self, d: int) -> WindowIntegral:
        if d not in self.known:
            self.known[d] = self.kernel.integral(d)
        return self.known[d]

    def integral(self, d: int) -> WindowIntegral:
        return self._unit(d).times(1.0, d * math.log(self.bandwidth))

    def log_volume(self, d: int) -> float:
        return self.integral(d).log_value

    def log_of(self, sums: np.ndarray) -> np.ndarray:
        return self.log_at(np.sqrt(sums))

    def log_at(self, distance: np.ndarray) -> np.ndarray:
        return self.kernel.log_heights(distance / self.bandwidth)

    def draw(self, rng: np.random.RandomState, n: int, d: int) -> np.ndarray:
        steps = rng.standard_normal((n, d))
        steps /= np.linalg.norm(steps, axis=1, keepdims=True)
        return self.bandwidth * radii(self.kernel, d, rng, n)[:, None] * steps


class _Product(_Shaped):
    """A `ProductWindow`."""

    def peak(self, d: int) -> float:
        return super().peak(d) ** d

    def log(self, X: Points, Y: Points) -> np.ndarray:
        return self.kernel.log_block(X, Y)

    def draw(self, rng: np.random.RandomState, n: int, d: int) -> np.ndarray:
        sides = rng.choice([-1.0, 1.0], size=(n, d))
        lengths = radii(self.kernel, 1, rng, n * d).reshape(n, d)
        return self.bandwidth * sides * lengths


_WINDOWS: dict[type[Kernel], type[Window]] = {
    RBF: _Gaussian,
    Laplacian: _Laplacian,
    Matern: _Matern,
    RationalQuadratic: _RationalQuadratic,
    RadialWindow: _Shaped,
    ProductWindow: _Product,
}


def distinct(X: Points, weight: np.ndarray) -> tuple[Points, np.ndarray]:
    """The points of X without repetition, in order, and what each of them weighs."""
    if sp.issparse(X):
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
        rows = (
            (X.indices[a:b].tobytes(), X.data[a:b].tobytes())
            for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
        )
        places: dict[tuple[bytes, bytes], int] = {}
        place = np.array([places.setdefault(row, len(places)) for row in rows])
        first = np.unique(place, return_index=True)[1]
    else:
        _, first, place = np.unique(
            X + 0.0, axis=0, return_index=True, return_inverse=True
        )  # -0.0 + 0.0 is 0.0: one point, not two
        order = np.argsort(first)
        first = first[order]
        place = np.argsort(order)[place.ravel()]
    if len(first) == X.shape[0]:
        return X, weight
    return X[first], np.bincount(place, weight)
