"""f without its bias, as a sum over points or over features of one kernel.

An algebra of kernels is taken apart from the outside in; what f becomes for the kernel
inside is a model again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.data.points import Points, concatenate
from mercer.kernels.base import Kernel
from mercer.maps import explicit


@dataclass(frozen=True, eq=False)
class OnPoints:
    """Σᵢ coefᵢ k(xᵢ, ·) = ⟨Σᵢ coefᵢ φ(xᵢ), φ(·)⟩.

    Parameters
    ----------
    coef : (n, c) array
    """

    points: Points
    coef: np.ndarray

    def moved(self, function: Callable[[Points], Points]) -> OnPoints:
        """For k(function(x), function(y))."""
        return OnPoints(function(self.points), self.coef)

    def times(self, factors: np.ndarray) -> OnPoints:
        """For a kernel with √factor φ, or with a factor of each point."""
        return OnPoints(self.points, self.coef * factors)

    def scaled(self, factor: float) -> OnPoints:
        """For the kernel inside of factor · kernel."""
        return self.times(np.array(factor))

    def term(self, side: int) -> OnPoints:
        """For one side of a sum."""
        return self

    def extended(self, points: Points, coef: np.ndarray) -> OnPoints:
        return OnPoints(
            concatenate(self.points, points), np.concatenate([self.coef, coef])
        )

    def weights(self, kernel: Kernel) -> Callable[[Any], np.ndarray]:
        """A function of the keys of columns of `explicit` that gives their weights."""
        found = explicit(kernel, self.points)
        weights = np.asarray(found.matrix.T @ self.coef)
        if isinstance(found.keys, range):
            return lambda keys: weights[np.fromiter(keys, dtype=np.intp)]
        return _lookup(dict(zip(found.keys, weights, strict=True)), self.coef.shape[1])


@dataclass(frozen=True, eq=False)
class OnFeatures:
    """Σⱼ wⱼ φⱼ with weights of some columns of an explicit map, by their keys."""

    known: Mapping[Hashable, np.ndarray]
    outputs: int

    def moved(self, function: Callable[[Points], Points]) -> OnFeatures:
        return self

    def times(self, factors: np.ndarray) -> OnFeatures:
        return self  # features of points count, and these have the factor

    def scaled(self, factor: float) -> OnFeatures:
        root = math.sqrt(factor)
        return OnFeatures({k: root * w for k, w in self.known.items()}, self.outputs)

    def term(self, side: int) -> OnFeatures:
        some = {
            key[1]: weight
            for key, weight in self.known.items()
            if isinstance(key, tuple) and key[0] == side
        }
        return OnFeatures(some, self.outputs)

    def weights(self, kernel: Kernel) -> Callable[[Any], np.ndarray]:
        return _lookup(self.known, self.outputs)


def _lookup(
    known: Mapping[Hashable, np.ndarray], outputs: int
) -> Callable[[Any], np.ndarray]:
    none = np.zeros(outputs)

    def weights(keys: Any) -> np.ndarray:
        found = [known.get(key, none) for key in keys]
        return np.array(found).reshape(len(found), outputs)

    return weights


Model = OnPoints | OnFeatures
