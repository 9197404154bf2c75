"""Approximations are kernels: explicit maps with few columns that stand in for k.

Nystrom(k, m)            the part of φ along the φ of m landmarks, of any kernel
RandomFourier(k, m)      waves of random frequencies, of RBF, Matern and Laplacian
PolynomialSketch(k, m)   a random sketch of all products of coordinates, of Polynomial

What they share is here; the first is in `nystrom`, the others in `random_features`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from mercer.data.partitions import Partitions
from mercer.data.points import Points, as_points, count, double, precision, take
from mercer.kernels import latex
from mercer.kernels.base import BLOCK_MB, Kernel, as_factor, row_blocks
from mercer.kernels.checks import check_whole
from mercer.kernels.ways import FeatureKernel
from mercer.native import memory
from mercer.native.interruptible import multiply


def _weights_of(part: Points, V: np.ndarray, kernel: Approximation) -> np.ndarray:
    return kernel.feature_weights(part, V)


class EntryError(NamedTuple):
    """|k(x, y) - k̃(x, y)| on all pairs of some points.

    Examples
    --------
    >>> from mercer import Linear, Nystrom
    >>> k = Nystrom(Linear(), landmarks=[[1.0, 0.0]])
    >>> error = k.entry_error([[1.0, 0.0], [0.0, 2.0]])
    >>> error.root_mean_square, error.largest, error.points
    (2.0, 4.0, 2)
    """

    root_mean_square: float
    largest: float
    points: int


class Approximation(FeatureKernel):
    """k̃(x, y) = ⟨φ(x), φ(y)⟩ ≈ k(x, y): fill in `_mapped` and `_width`.

    The features are computed in double precision and have that of the points.
    """

    kernel: Kernel

    @abstractmethod
    def _width(self) -> int:
        """The number of columns of φ."""

    @abstractmethod
    def _mapped(self, X: Points) -> np.ndarray:
        """φ of some points, (n, p), in float64."""

    @property
    def n_columns(self) -> int:
        """p, the number of columns of φ."""
        return self._width()

    def features(self, X: Points) -> np.ndarray:
        """Φ, (n, p), a block of points at a time."""
        X, width = as_points(X), self._width()
        out: np.ndarray = np.empty((count(X), width), dtype=precision(X))
        for rows in self._runs(X, BLOCK_MB):
            out[rows] = self._mapped(take(X, rows))
        return out

    def matmul(
        self,
        X: Points,
        Y: Points | None,
        V: npt.ArrayLike,
        *,
        block_mb: float = BLOCK_MB,
    ) -> np.ndarray:
        weights = self.feature_weights(X if Y is None else Y, V, block_mb)
        return Approximation.evaluate(self, X, weights, block_mb)

    def feature_weights(
        self, Y: Points, V: npt.ArrayLike, block_mb: float = BLOCK_MB
    ) -> np.ndarray:
        Y, width = as_points(Y), self._width()
        V = as_factor(V, count(Y))
        if isinstance(Y, Partitions):
            return Y.total(_weights_of, V, shared=(self,))
        out = np.zeros((width, *V.shape[1:]))
        for rows in self._runs(Y, block_mb):
            out += multiply(self._mapped(take(Y, rows)).T, V[rows])
        return out

    def evaluate(
        self, X: Points, weights: np.ndarray, block_mb: float = BLOCK_MB
    ) -> np.ndarray:
        X = as_points(X)
        out = np.empty((count(X), *weights.shape[1:]))
        for rows in self._runs(X, block_mb):
            out[rows] = multiply(self._mapped(take(X, rows)), weights)
        return out

    def _runs(self, X: Points, block_mb: float) -> Iterator[slice]:
        """Runs of points that are mapped at a time: they may have to be read, too."""
        wide = max([self._width(), *getattr(X, "shape", (0, 0))[1:]])
        return row_blocks(count(X), wide, memory.block_mb(block_mb))

    def entry_error(self, X: Points, sample: int = 500, seed: int = 0) -> EntryError:
        """An estimate of |k(x, y) - k̃(x, y)| on points drawn from X.

        All pairs of at most `sample` different points are compared; other points may
        be further off. Of no more points than that it is exact, but for rounding.
        """
        check_whole(self, "sample", sample, least=1)
        X = as_points(X)
        if count(X) == 0:
            raise ValueError(f"{type(self).__name__}.entry_error needs points; got 0.")
        if count(X) > sample:
            rng = np.random.default_rng(seed)
            X = take(X, np.sort(rng.choice(count(X), int(sample), replace=False)))
        X = double(X)
        gap = np.abs(self(X) - self.kernel(X))
        square = float(np.sqrt(np.mean(np.square(gap))))
        return EntryError(square, float(gap.max()), count(X))

    def _unresolved(self, what: str, way_out: str) -> ValueError:
        name = type(self).__name__
        return ValueError(
            f"{name} learns {what} from data: call {name}(...).resolve(X) first, or "
            f"pass {way_out}."
        )

    def _formula(self, x: str, y: str) -> latex.Formula:
        return latex.applied(type(self).__name__, self.kernel._formula(x, y))

    # A pipeline would call these

    def fit(self, X: Points, y: Any = None) -> NoReturn:
        """Not here: an approximation is a kernel; `FeatureMap` makes it a transformer.

        Raises a TypeError that says so.
        """
        raise self._no_transformer()

    def fit_transform(self, X: Points, y: Any = None) -> NoReturn:
        """Not here, as `fit`."""
        raise self._no_transformer()

    def transform(self, X: Points) -> NoReturn:
        """Not here, as `fit`; `features(X)` is the map."""
        raise self._no_transformer()

    def _no_transformer(self) -> TypeError:
        name = type(self).__name__
        return TypeError(
            f"{name} is a kernel, for machines; a pipeline needs a transformer. Use "
            f"FeatureMap({name}(...)), or {_TRANSFORMERS[name]}, scikit-learn's."
        )


_TRANSFORMERS = {
    "Nystrom": "Nystroem",
    "RandomFourier": "RBFSampler",
    "PolynomialSketch": "PolynomialCountSketch",
}
