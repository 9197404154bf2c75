"""Losses ℓ(y, f): the cost of predicting f where y is true; value, slope, conjugate.

of a class y = ±1   ZeroOne, PerceptronLoss, Hinge, SquaredHinge, Logistic
of a number y       Squared, EpsilonInsensitive, Huber, Quantile

All but ZeroOne are convex in f. The conjugate ℓ*(y, u) = sup_f (u f - ℓ(y, f)) makes
the dual: by Fenchel and Young ℓ(y, f) + ℓ*(y, u) ≥ u f, equal where u is a slope at f.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit, xlog1py, xlogy


@dataclass(frozen=True)
class Loss(ABC):
    """ℓ(y, f), elementwise on arrays of targets y and of values f.

    Attributes
    ----------
    of_sides : whether the targets are classes y = ±1 rather than numbers
    curved : whether it has a second derivative almost everywhere that is not all 0

    Examples
    --------
    >>> from mercer.losses import Hinge, Loss
    >>> loss = Hinge()
    >>> isinstance(loss, Loss), loss.of_sides, loss.curved
    (True, True, False)
    >>> loss.value([1, -1], [0.5, 0.5]).tolist()
    [0.5, 1.5]
    """

    of_sides: ClassVar[bool] = False
    curved: ClassVar[bool] = False

    @abstractmethod
    def value(self, target: npt.ArrayLike, f: npt.ArrayLike) -> np.ndarray:
        """ℓ(y, f)."""

    @abstractmethod
    def slope(self, target: npt.ArrayLike, f: npt.ArrayLike) -> np.ndarray:
        """∂ℓ(y, f)/∂f; at a corner one of its slopes."""

    @abstractmethod
    def conjugate(self, target: npt.ArrayLike, u: npt.ArrayLike) -> np.ndarray:
        """ℓ*(y, u) = sup_f (u f - ℓ(y, f)), ∞ outside of `slopes`."""

    @abstractmethod
    def slopes(self, target: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest slope: where the conjugate is finite."""

    def curvature(self, target: npt.ArrayLike, f: npt.ArrayLike) -> np.ndarray:
        """∂²ℓ(y, f)/∂f²; 0 for pieces of straight lines."""
        return np.zeros(np.broadcast(target, f).shape)

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """The largest |slope|; ∞ where there is none."""


class SideLoss(Loss):
    """ℓ(y, f) = g(y f) for classes y = ±1: fill in g as `of_margin`, and so on.

    Examples
    --------
    >>> from mercer.losses import Logistic, SideLoss, Squared
    >>> isinstance(Logistic(), SideLoss), isinstance(Squared(), SideLoss)
    (True, False)
    """

    of_sides: ClassVar[bool] = True

    @abstractmethod
    def of_margin(self, z: np.ndarray) -> np.ndarray:
        """g(z)."""

    @abstractmethod
    def margin_slope(self, z: np.ndarray) -> np.ndarray:
        """g′(z), at most 0."""

    @abstractmethod
    def margin_conjugate(self, t: np.ndarray) -> np.ndarray:
        """g*(t) for -lipschitz ≤ t ≤ 0."""

    def margin_curvature(self, z: np.ndarray) -> np.ndarray:
        """g″(z)."""
        return np.zeros_like(z)

    def value(self, target: npt.ArrayLike, f: npt.ArrayLike) -> np.ndarray:
        return self.of_margin(np.multiply(target, f))

    def slope(self, target: npt.ArrayLike, f: npt.ArrayLike) -> np.ndarray:
        return np.multiply(target, self.margin_slope(np.multiply(target, f)))

    def curvature(self, target: npt.ArrayLike, f: npt.ArrayLike) -> np.ndarray:
        return self.margin_curvature(np.multiply(target, f))

    def conjugate(self, target: npt.ArrayLike, u: npt.ArrayLike) -> np.ndarray:
        t = np.multiply(target, u)
        inside = (t <= 0) & (t >= -self.lipschitz)
        return np.where(inside, self.margin_conjugate(np.where(inside, t, 0)), np.inf)

    def slopes(self, target: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        target = np.asarray(target, dtype=float)
        steepest = np.full_like(target, self.lipschitz)
        return np.where(target > 0, -steepest, 0.0), np.where(target > 0, 0.0, steepest)


@dataclass(frozen=True)
class ZeroOne:
    """ℓ(y, f) = [y f ≤ 0]: a mistake or none; f = 0 is one. Value only, not convex.

    Examples
    --------
    >>> from mercer.losses import ZeroOne
    >>> ZeroOne().value([1, 1, -1], [2.0, -1.0, 0.0]).round(4).tolist()
    [0.0, 1.0, 1.0]
    """

    of_sides: ClassVar[bool] = True

    def value(self, target: npt.ArrayLike, f: npt.ArrayLike) -> np.ndarray:
        """1 for a mistake, 0 for none."""
        return (np.multiply(target, f) <= 0).astype(float)


@dataclass(frozen=True)
class PerceptronLoss(SideLoss):
    """ℓ(y, f) = max(0, -y f). At y f = 0 the slope is that of a mistake.

    Examples
    --------
    >>> from mercer.losses import PerceptronLoss
    >>> PerceptronLoss().value([1, 1], [2.0, -1.0]).round(4).tolist()
    [0.0, 1.0]
    """

    lipschitz: ClassVar[float] = 1.0

    def of_margin(self, z: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, -z)

    def margin_slope(self, z: np.ndarray) -> np.ndarray:
        return np.where(z <= 0, -1.0, 0.0)

    def margin_conjugate(self, t: np.ndarray) -> np.ndarray:
        return np.zeros_like(t)


@dataclass(frozen=True)
class Hinge(SideLoss):
    """ℓ(y, f) = max(0, 1 - y f), that of support vector machines.

    Examples
    --------
    >>> from mercer.losses import Hinge
    >>> Hinge().value([1, 1, -1], [2.0, 0.5, 1.0]).round(4).tolist()
    [0.0, 0.5, 2.0]
    """

    lipschitz: ClassVar[float] = 1.0

    def of_margin(self, z: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1 - z)

    def margin_slope(self, z: np.ndarray) -> np.ndarray:
        return np.where(z < 1, -1.0, 0.0)

    def margin_conjugate(self, t: np.ndarray) -> np.ndarray:
        return t


@dataclass(frozen=True)
class SquaredHinge(SideLoss):
    """ℓ(y, f) = max(0, 1 - y f)².

    Examples
    --------
    >>> from mercer.losses import SquaredHinge
    >>> SquaredHinge().value([1, 1, -1], [2.0, 0.5, 1.0]).round(4).tolist()
    [0.0, 0.25, 4.0]
    """

    lipschitz: ClassVar[float] = np.inf
    curved: ClassVar[bool] = True

    def of_margin(self, z: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1 - z) ** 2

    def margin_slope(self, z: np.ndarray) -> np.ndarray:
        return -2 * np.maximum(0.0, 1 - z)

    def margin_curvature(self, z: np.ndarray) -> np.ndarray:
        return np.where(z < 1, 2.0, 0.0)

    def margin_conjugate(self, t: np.ndarray) -> np.ndarray:
        return t + t**2 / 4


@dataclass(frozen=True)
class Logistic(SideLoss):
    """ℓ(y, f) = ln(1 + e^(-y f)), -ln of the probability 1 / (1 + e^(-y f)) of y.

    Examples
    --------
    >>> from mercer.losses import Logistic
    >>> Logistic().value([1, 1], [0.0, 2.0]).round(4).tolist()
    [0.6931, 0.1269]
    """

    lipschitz: ClassVar[float] = 1.0
    curved: ClassVar[bool] = True
    steepest: ClassVar[float] = 0.25

    def of_margin(self, z: np.ndarray) -> np.ndarray:
        return np.logaddexp(0.0, -z)

    def margin_slope(self, z: np.ndarray) -> np.ndarray:
        return -expit(-z)

    def margin_curvature(self, z: np.ndarray) -> np.ndarray:
        return expit(z) * expit(-z)

    def margin_conjugate(self, t: np.ndarray) -> np.ndarray:
        return xlogy(-t, -t) + xlog1py(1 + t, t)


class NumberLoss(Loss):
    """ℓ(y, f) = g(f - y) for numbers y: fill in g as `of_residual`, and so on.

    Examples
    --------
    >>> from mercer.losses import Huber, Logistic, NumberLoss
    >>> isinstance(Huber(), NumberLoss), isinstance(Logistic(), NumberLoss)
    (True, False)
    """

    @abstractmethod
    def of_residual(self, r: np.ndarray) -> np.ndarray:
        """g(r)."""

    @abstractmethod
    def residual_slope(self, r: np.ndarray) -> np.ndarray:
        """g′(r)."""

    @abstractmethod
    def residual_conjugate(self, u: np.ndarray) -> np.ndarray:
        """g*(u) for u within `ends`."""

    def residual_curvature(self, r: np.ndarray) -> np.ndarray:
        """g″(r)."""
        return np.zeros_like(r)

    @property
    @abstractmethod
    def ends(self) -> tuple[float, float]:
        """The least and the largest slope of g."""

    @property
    def lipschitz(self) -> float:
        return max(map(abs, self.ends))

    def value(self, target: npt.ArrayLike, f: npt.ArrayLike) -> np.ndarray:
        return self.of_residual(np.subtract(f, target))

    def slope(self, target: npt.ArrayLike, f: npt.ArrayLike) -> np.ndarray:
        return self.residual_slope(np.subtract(f, target))

    def curvature(self, target: npt.ArrayLike, f: npt.ArrayLike) -> np.ndarray:
        return self.residual_curvature(np.subtract(f, target))

    def conjugate(self, target: npt.ArrayLike, u: npt.ArrayLike) -> np.ndarray:
        low, high = self.ends
        u = np.asarray(u, dtype=float)
        inside = (u >= low) & (u <= high)
        finite = np.where(inside, u, 0.0)
        linear = np.multiply(finite, target)
        return np.where(inside, linear + self.residual_conjugate(finite), np.inf)

    def slopes(self, target: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        low, high = self.ends
        shape = np.shape(target)
        return np.full(shape, low), np.full(shape, high)


@dataclass(frozen=True)
class Squared(NumberLoss):
    """ℓ(y, f) = (y - f)².

    Examples
    --------
    >>> from mercer.losses import Squared
    >>> Squared().value([1.0, 2.0], [1.5, 4.0]).round(4).tolist()
    [0.25, 4.0]
    """

    curved: ClassVar[bool] = True
    ends: ClassVar[tuple[float, float]] = (-np.inf, np.inf)

    def of_residual(self, r: np.ndarray) -> np.ndarray:
        return r**2

    def residual_slope(self, r: np.ndarray) -> np.ndarray:
        return 2.0 * r

    def residual_curvature(self, r: np.ndarray) -> np.ndarray:
        return np.full_like(r, 2.0, dtype=float)

    def residual_conjugate(self, u: np.ndarray) -> np.ndarray:
        return u**2 / 4


@dataclass(frozen=True)
class EpsilonInsensitive(NumberLoss):
    """ℓ(y, f) = max(0, |y - f| - epsilon), that of support vector regression.

    Examples
    --------
    >>> from mercer.losses import EpsilonInsensitive
    >>> EpsilonInsensitive(epsilon=0.1).value([1.0, 2.0], [1.05, 3.0]).round(4).tolist()
    [0.0, 0.9]
    """

    epsilon: float = 0.1

    ends: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and np.isfinite(self.epsilon)):
            raise ValueError(
                f"EpsilonInsensitive needs epsilon ≥ 0; got epsilon={self.epsilon!r}."
            )

    def of_residual(self, r: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, np.abs(r) - self.epsilon)

    def residual_slope(self, r: np.ndarray) -> np.ndarray:
        return np.where(np.abs(r) > self.epsilon, np.sign(r), 0.0)

    def residual_conjugate(self, u: np.ndarray) -> np.ndarray:
        return self.epsilon * np.abs(u)


@dataclass(frozen=True)
class Huber(NumberLoss):
    """ℓ(y, f) = r²/2 for |r| ≤ delta, delta (|r| - delta/2) beyond, r = y - f.

    Examples
    --------
    >>> from mercer.losses import Huber
    >>> Huber(delta=1.0).value([0.0, 0.0], [0.5, 3.0]).round(4).tolist()
    [0.125, 2.5]
    """

    delta: float = 1.0

    curved: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (self.delta > 0 and np.isfinite(self.delta)):
            raise ValueError(f"Huber needs delta > 0; got delta={self.delta!r}.")

    @property
    def ends(self) -> tuple[float, float]:
        return -self.delta, self.delta

    def of_residual(self, r: np.ndarray) -> np.ndarray:
        bent = np.minimum(np.abs(r), self.delta)
        return bent * (np.abs(r) - bent / 2)

    def residual_slope(self, r: np.ndarray) -> np.ndarray:
        return np.clip(r, -self.delta, self.delta)

    def residual_curvature(self, r: np.ndarray) -> np.ndarray:
        return np.where(np.abs(r) <= self.delta, 1.0, 0.0)

    def residual_conjugate(self, u: np.ndarray) -> np.ndarray:
        return u**2 / 2


@dataclass(frozen=True)
class Quantile(NumberLoss):
    """ℓ(y, f) = q (y - f) for f ≤ y, (1 - q) (f - y) beyond: least at a q-quantile.

    Examples
    --------
    >>> from mercer.losses import Quantile
    >>> Quantile(q=0.9).value([1.0, 1.0], [0.0, 2.0]).round(4).tolist()
    [0.9, 0.1]
    """

    q: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.q < 1:
            raise ValueError(f"Quantile needs 0 < q < 1; got q={self.q!r}.")

    @property
    def ends(self) -> tuple[float, float]:
        return -self.q, 1 - self.q

    def of_residual(self, r: np.ndarray) -> np.ndarray:
        return np.maximum(-self.q * r, (1 - self.q) * r)

    def residual_slope(self, r: np.ndarray) -> np.ndarray:
        low, high = self.ends
        return np.where(r < 0, low, np.where(r > 0, high, 0.0))

    def residual_conjugate(self, u: np.ndarray) -> np.ndarray:
        return np.zeros_like(u)
