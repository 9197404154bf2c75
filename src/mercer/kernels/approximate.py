"""Approximations are kernels: explicit maps with few columns that stand in for k.

Nystrom(k, m)            the part of φ along the φ of m landmarks, of any kernel
RandomFourier(k, m)      waves of random frequencies, of RBF, Matern and Laplacian
PolynomialSketch(k, m)   a random sketch of all products of coordinates, of Polynomial

Williams and Seeger, Using the Nyström method (2001), for the first, with landmarks as
in `landmarks.py`. Rahimi and Recht, Random features for large-scale kernel machines
(2007), with frequencies that are orthogonal within a block: Yu et al., Orthogonal
random features (2016). Pham and Pagh, Fast and scalable polynomial kernels via explicit
feature maps (2013).
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.fft import irfft, rfft
from scipy.linalg import solve_triangular

from mercer.data.copies import owned
from mercer.data.points import (
    Points,
    as_points,
    brief,
    check_finite,
    count,
    describe,
    double,
    precision,
    take,
    vectors,
)
from mercer.kernels import latex
from mercer.kernels.base import (
    BLOCK_MB,
    Kernel,
    Rule,
    as_factor,
    check_kernels,
    row_blocks,
)
from mercer.kernels.checks import check_whole, is_finite
from mercer.kernels.explicit import check_degree
from mercer.kernels.landmarks import (
    Pivoting,
    cholesky,
    far_apart,
    own_values,
    uniform,
    values,
)
from mercer.kernels.radial import RBF, Laplacian, Matern
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import FeatureKernel
from mercer.native import memory
from mercer.native.clock import tick
from mercer.native.interruptible import multiply
from mercer.native.lapack import eigh, half
from mercer.native.sparsity import Vectors
from mercer.native.threads import one_blas_thread

METHODS = ("pivoted", "uniform", "kmeans++")
WELL_CONDITIONED = 1e4  # growth of rounding up to which φ is summed before it is turned
FEW_LANDMARKS = 3000  # whose eigenvalues take a second or two
POOL = 8  # points for each landmark, where not all are looked at
LONG = 2e10  # multiplications of pivoting among all points, a second or two
PIECE_MB = 8.0  # of the points that are read at a time, beside their k(x, L)


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


@dataclass
class Nystrom(Approximation):
    """k̃(x, y) = k(x, L) K_LL⁺ k(L, y), k along the span of φ(l), l in landmarks L.

    For any kernel on points of any kind. Landmarks are chosen by `resolve`; with all
    points as landmarks k̃ = k on them. Landmarks that others span (to 1e-10 of their
    k(l, l): duplicates, or more of them than the rank of K) have no feature.

    Parameters
    ----------
    kernel : k, positive semidefinite
    size : how many landmarks; with `error`, how many at most. Fewer where they span all
        points
    landmarks : points L to use; None to choose them from data. The parameters below
        say how, and have no effect on given ones
    method : "pivoted" for randomly pivoted Cholesky, which takes a point with a
        probability proportional to k(x, x) - k̃(x, x); "uniform"; "kmeans++", by the
        squared distance in feature space from the landmarks before it. Where n · size
        numbers find no room, or n · size² is above 2e10, landmarks are pivoted among
        8 · size points drawn from all, and `trace_error` is not known
    error : choose as many as trace(K - K̃) ≤ error · trace K takes; for "pivoted"
    seed : of what is random

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Nystrom, RBF
    >>> X = np.linspace(0, 3, 200)[:, None]
    >>> k = Nystrom(RBF(gamma=0.5), size=8).resolve(X)
    >>> k.features(X).shape, k.trace_error < 1e-4
    ((200, 8), True)
    >>> len(Nystrom(RBF(gamma=0.5), error=0.01).resolve(X).landmarks)
    4
    """

    kernel: Kernel
    size: int | None = None
    landmarks: Any = None
    method: str = "pivoted"
    error: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_kernels(self, self.kernel)
        if self.kernel.psd is False:
            raise ValueError(
                f"Nystrom needs a positive semidefinite kernel; {self.kernel} is not."
            )
        if self.size is not None:
            check_whole(self, "size", self.size, least=1)
        check_whole(self, "seed", self.seed, least=0)
        if not (isinstance(self.method, str) and self.method in METHODS):
            raise ValueError(
                f"Nystrom needs a method of {', '.join(METHODS)}; got "
                f"method={brief(self.method)}."
            )
        if self.error is not None:
            if not (is_finite(self.error) and 0 < self.error < 1):
                raise ValueError(
                    f"Nystrom needs 0 < error < 1; got error={brief(self.error)}."
                )
            if self.method != "pivoted":
                raise ValueError(
                    f"Nystrom knows its error while it chooses landmarks by "
                    f"method='pivoted' only; got method={self.method!r}. Pass size."
                )
        if self.landmarks is not None:
            if count(as_points(self.landmarks)) == 0:
                raise ValueError("Nystrom needs at least one landmark; got none.")
        elif self.size is None and self.error is None:
            raise ValueError(
                "Nystrom needs size, the number of landmarks; or error, and finds the "
                "number; or the landmarks themselves."
            )

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> Nystrom:
        X = as_points(X)
        if weight is not None:
            weight = np.asarray(weight, dtype=float)
            some = np.flatnonzero(weight > 0)
            if len(some) < count(X):
                X, weight = take(X, some), weight[some]
        kernel = self.kernel.resolve(X, weight)
        if self.landmarks is not None:
            return self if kernel is self.kernel else self._changed(kernel=kernel)
        self._check_count(count(X))
        rng = np.random.default_rng(self.seed)
        if self.method != "pivoted":
            assert self.size is not None  # error= is for "pivoted"
            index = (
                uniform(count(X), weight, self.size, rng)
                if self.method == "uniform"
                else far_apart(kernel, X, weight, self.size, rng)
            )
            return self._changed(kernel=kernel, landmarks=owned(take(X, index)))
        if self._is_too_many(count(X)):
            return self._of_sample(kernel, X, weight, rng)
        search = Pivoting(kernel, X, weight, self.size or count(X), self.error, rng)
        reached, index = search.run(), search.chosen
        # Where φ is 0 at all points there is nothing to choose.
        chosen = index if len(index) else np.zeros(1, dtype=np.intp)
        found = self._changed(kernel=kernel, landmarks=owned(take(X, chosen)))
        found.__dict__["_measured"] = kernel.copied(), search.trace_error()
        found.__dict__["_factor"] = kernel.copied(), np.arange(len(index)), search.lower
        if not reached:
            warnings.warn(
                f"Nystrom took {len(index)} landmarks with the relative trace error "
                f"{found.trace_error:.3g}, more than error={self.error!r}. Raise size, "
                "or error.",
                UserWarning,
                stacklevel=2,
            )
        return found

    def _is_too_many(self, n: int) -> bool:
        """Whether n × size numbers, which pivoting holds, find no room or take long.

        With `error` it is not known how many those are: then as many as fit are taken.
        """
        if self.size is None or self.error is not None or n <= POOL * self.size:
            return False
        room = memory.keeps(8.0 * n * self.size)
        return not room or float(n) * self.size**2 > LONG

    def _of_sample(
        self,
        kernel: Kernel,
        X: Points,
        weight: np.ndarray | None,
        rng: np.random.Generator,
    ) -> Nystrom:
        """The kernel with landmarks pivoted among some of the points."""
        assert self.size is not None
        some = np.sort(uniform(count(X), weight, POOL * self.size, rng))
        own = None  # points are drawn by their weights already
        search = Pivoting(kernel, take(X, some), own, self.size, None, rng)
        search.run()
        chosen = search.chosen if len(search.chosen) else np.zeros(1, dtype=np.intp)
        found = self._changed(kernel=kernel, landmarks=owned(take(X, some[chosen])))
        index = np.arange(len(search.chosen))
        found.__dict__["_factor"] = kernel.copied(), index, search.lower
        return found

    def _changed(self, **parameters: Any) -> Nystrom:
        return Nystrom(**(self._parameters() | parameters))

    def _check_count(self, n: int) -> None:
        if n == 0:
            raise ValueError("Nystrom chooses landmarks from data; got 0 points.")
        if self.size is not None and self.size > n:
            raise ValueError(
                f"Nystrom(size={self.size}) chooses as many different points; got {n} "
                f"points (of weight > 0). Pass size ≤ {n}, or error=0.01 for as many "
                "as that takes."
            )

    @property
    def trace_error(self) -> float | None:
        """trace(K - K̃) / trace K on the points it was resolved on, rounding included.

        A bound in double precision, and equal to the error but for its rounding. None
        where the landmarks were not chosen by "pivoted", or k was changed since.
        """
        kernel, error = self.__dict__.get("_measured", (None, None))
        return error if kernel == self.kernel else None

    def trace_error_on(self, X: Points, weight: np.ndarray | None = None) -> float:
        """trace(K - K̃) / trace K on any points, up to rounding; 0 where trace K is."""
        X = as_points(X)
        share = np.ones(count(X)) if weight is None else np.asarray(weight, dtype=float)
        own, left = own_values(self.kernel, X), 0.0
        for rows in row_blocks(count(X), self._width(), BLOCK_MB):
            features = self._mapped(take(X, rows))
            squares = np.einsum("ij,ij->i", features, features)
            left += float(share[rows] @ np.maximum(own[rows] - squares, 0))
        total = float(share @ own)
        return left / total if total else 0.0

    def _kept(self) -> tuple[Any, np.ndarray]:
        """The landmarks that have a feature, and the triangle F, K_LL = FFᵀ."""
        if self.landmarks is None:
            raise self._unresolved("landmarks", "landmarks")
        kernel, index, lower = self.__dict__.get("_factor", (None, None, None))
        if kernel is None or kernel != self.kernel:
            K = values(self.kernel, as_points(self.landmarks))
            index, lower = cholesky(self.kernel, K)
            self.__dict__["_factor"] = self.kernel.copied(), index, lower
        points = as_points(self.landmarks)
        every = len(index) == count(points)
        return points if every else take(points, index), lower

    def _width(self) -> int:
        return len(self._kept()[1])

    def _mapped(self, X: Points) -> np.ndarray:
        points, lower = self._kept()
        self._check_points(X)
        if not len(lower):
            return np.zeros((count(X), 0))
        return half(lower, values(self.kernel, X, points).T).T

    def slim(self) -> Nystrom:
        """The same without the m² numbers that its m landmarks give again."""
        other = self._changed()
        if "_measured" in self.__dict__:
            other.__dict__["_measured"] = self.__dict__["_measured"]
        return other

    @property
    def growth(self) -> float:
        """κ ≥ ‖F⁻¹‖ √(trace K_LL), K_LL = FFᵀ: what rounding of k(x, L) grows by in φ.

        φ(x) = F⁻¹k(L, x), so that an error ε √(k(l, l)) in each k(x, l) is one of at
        most κε in φ(x).
        """
        lower = self._kept()[1]
        known = self.__dict__.get("_growth")
        if known is None or known[0] is not lower:
            trace = float(np.einsum("ij,ij->", lower, lower))
            length = math.sqrt(trace) * _inverse_length(lower)
            known = self.__dict__["_growth"] = lower, length
        return float(known[1])

    @property
    def is_well_conditioned(self) -> bool:
        """Whether k(L, x) may be summed over points before F⁻¹ is applied.

        Φᵀv = F⁻¹(k(L, X) v) then takes a kernel value for each landmark and point,
        and no multiplication for each two landmarks.
        """
        return self.growth <= WELL_CONDITIONED

    def feature_weights(
        self, Y: Points, V: npt.ArrayLike, block_mb: float = BLOCK_MB
    ) -> np.ndarray:
        points, lower = self._kept()
        if not len(lower) or not self.is_well_conditioned:
            return super().feature_weights(Y, V, block_mb)
        Y, wide = as_points(Y), double(points)
        V = as_factor(V, count(Y))
        sums = np.zeros((len(lower), *V.shape[1:]))
        for rows, part in self._pieces(Y):
            sums += self.kernel.matmul(wide, part, V[rows], block_mb=block_mb)
        return solve_triangular(lower, sums, lower=True)

    def evaluate(
        self, X: Points, weights: np.ndarray, block_mb: float = BLOCK_MB
    ) -> np.ndarray:
        points, lower = self._kept()
        X = as_points(X)
        out = np.zeros((count(X), *weights.shape[1:]))
        if not len(lower):
            return out
        coef, wide = self.base_coefficients(weights), double(points)
        for rows, part in self._pieces(X):
            out[rows] = self.kernel.matmul(part, wide, coef, block_mb=block_mb)
        return out

    def base_coefficients(self, weights: np.ndarray) -> np.ndarray:
        """c of f(x) = ⟨weights, φ(x)⟩ = Σᵢ cᵢ k(lᵢ, x), l the landmarks of `features`.

        f is in the RKHS of k, and has the same norm there: cᵀK_LL c = ‖weights‖².
        """
        return solve_triangular(self._kept()[1], weights, trans=1, lower=True)

    def weights_of(self, coef: np.ndarray) -> np.ndarray:
        """The weights that `base_coefficients` makes coef of."""
        return self._kept()[1].T @ coef

    def base_points(self) -> Points:
        """The landmarks that have a feature, those of `base_coefficients`."""
        return self._kept()[0]

    def reduced(self, points: Points, coef: np.ndarray) -> tuple[Points, np.ndarray]:
        """(l, c) with Σᵢ coefᵢ k̃(xᵢ, ·) = Σⱼ cⱼ k(lⱼ, ·): the landmarks suffice.

        k̃(l, ·) = k(l, ·) at a landmark, so f is an expansion of k itself on them.
        """
        weights = self.feature_weights(points, coef)
        return self.base_points(), self.base_coefficients(weights)

    def triangle(self) -> np.ndarray:
        """F, K_LL = FFᵀ of the landmarks that have a feature."""
        return self._kept()[1]

    def base_products(self, X: Points) -> np.ndarray:
        """k(X, L) of the landmarks that have a feature, in float64."""
        X = as_points(X)
        self._check_points(X)
        return values(self.kernel, X, self._kept()[0])

    def turned(self, sums: np.ndarray) -> np.ndarray:
        """F⁻¹ sums: what sums of k(L, x) over points are in the coordinates of φ."""
        return half(self._kept()[1], np.asfortranarray(sums))

    def _pieces(self, X: Points) -> Iterator[tuple[slice, Points]]:
        """The points in double precision, some of them at a time."""
        n, wide = count(X), max([1, *getattr(X, "shape", (0,))[1:]])
        room = int(memory.block_mb(PIECE_MB) * 2**17)  # float64 numbers
        step = max(64, room // wide)
        for begin in range(0, n, step):
            tick("products with kernel values", begin / n)
            rows = slice(begin, min(begin + step, n))
            part = double(take(X, rows))
            self._check_points(part)
            yield rows, part

    def _check_points(self, X: Points) -> None:
        if not self.kernel.missing:  # k(∞, l) may be 0, and φ(∞) would be too
            check_finite(X, f"Nystrom({type(self.kernel).__name__})")

    def feature_names(self, X: Points | None = None) -> list[str]:
        """The landmark whose part, beyond those before it, is in each column."""
        self._kept()
        return [f"landmark {i}" for i in self.__dict__["_factor"][1]]

    def rule(self) -> Rule:
        return Rule(
            True,
            "an inner product by construction: of the parts of φ(x) and φ(y) along "
            "the landmarks",
        )


def _inverse_length(lower: np.ndarray) -> float:
    """‖F⁻¹‖ of a triangle F, or more."""
    m = len(lower)
    if m <= FEW_LANDMARKS:
        with one_blas_thread():  # many short products: threads would wait
            found = eigh(np.asfortranarray(lower @ lower.T), eigvals_only=True)
        # What rounding may have added to the least eigenvalue of FFᵀ.
        least = found[0] - 8 * m * np.finfo(float).eps * found[-1] if m else 1.0
        if least > 0:
            return 1 / math.sqrt(least)
    inverse = half(lower, np.eye(m, order="F"))
    sizes = (float(np.linalg.norm(inverse, order)) for order in (1, np.inf))
    return min(float(np.linalg.norm(inverse)), math.sqrt(math.prod(sizes)))


# Random Fourier features


@dataclass
class RandomFourier(Approximation):
    """k̃(x, y) = 1/p Σⱼ cos⟨ωⱼ, x - y⟩, j = 1..p, size = 2p, ωⱼ random frequencies.

    φ(x) holds cos⟨ωⱼ, x⟩/√p and sin⟨ωⱼ, x⟩/√p, and so has length 1. By Bochner's
    theorem the mean of k̃ is k for ω from the Fourier transform of k: a normal
    distribution for RBF, Student's t with 2ν degrees of freedom for Matern, Cauchy's in
    every coordinate for Laplacian. `resolve` draws them.

    Parameters
    ----------
    kernel : RBF, Matern or Laplacian
    size : the number of columns, even: a cosine and a sine of each frequency
    seed : of the frequencies
    orthogonal : whether blocks of d frequencies are orthogonal to each other, which
        lowers the error of RBF and Matern. It does not apply to Laplacian, whose
        frequencies are independent in every coordinate
    frequencies : (d, size / 2) array, of the kernel of scale 1: RBF(0.5), Laplacian(1),
        Matern(nu, 1); None to draw them for the dimension of the data

    Examples
    --------
    >>> from mercer import RandomFourier, RBF
    >>> k = RandomFourier(RBF(gamma=0.5), size=2000).resolve([[0.0, 0.0]])
    >>> abs(k.value([0, 0], [1, 1]) - RBF(gamma=0.5).value([0, 0], [1, 1])) < 0.05
    True
    """

    kernel: Kernel
    size: int
    seed: int = 0
    orthogonal: bool = True
    frequencies: Any = None

    def __post_init__(self) -> None:
        check_kernels(self, self.kernel)
        if type(self.kernel) not in (RBF, Matern, Laplacian):
            raise TypeError(
                "RandomFourier knows the Fourier transforms of RBF, Matern and "
                f"Laplacian; got {self.kernel}. Sums and products of such kernels are "
                "written outside, as 2 * RandomFourier(...); Nystrom takes any kernel."
            )
        check_whole(self, "size", self.size, least=2)
        if self.size % 2:
            raise ValueError(
                f"RandomFourier needs an even size, a cosine and a sine for each "
                f"frequency; got size={self.size}."
            )
        check_whole(self, "seed", self.seed, least=0)
        if not isinstance(self.orthogonal, bool | np.bool_):
            raise TypeError(
                f"RandomFourier needs orthogonal=True or False; got "
                f"{describe(self.orthogonal)}."
            )
        if self.frequencies is not None:
            W = np.asarray(self.frequencies)
            if W.ndim != 2 or W.shape[1] != self.size // 2 or W.dtype.kind not in "iuf":
                raise ValueError(
                    f"RandomFourier(size={self.size}) needs a (d, {self.size // 2}) "
                    f"array of frequencies; got shape {W.shape}. Pass None to draw "
                    "them anew."
                )
            if not np.isfinite(W).all():
                raise ValueError("RandomFourier needs finite frequencies.")

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> RandomFourier:
        kernel = self.kernel.resolve(X, weight)
        drawn = self.frequencies
        if drawn is None:
            drawn = self._drawn(kernel, vectors(X, "RandomFourier").shape[1])
        elif kernel is self.kernel:
            return self
        return RandomFourier(kernel, self.size, self.seed, self.orthogonal, drawn)

    def _drawn(self, kernel: Kernel, d: int) -> np.ndarray:
        rng, p = np.random.default_rng(self.seed), self.size // 2
        if isinstance(kernel, Laplacian):
            return rng.standard_cauchy((d, p))
        W = _orthogonal(rng, d, p) if self.orthogonal else rng.normal(size=(d, p))
        if isinstance(kernel, Matern) and kernel.nu != math.inf:
            W = W / np.sqrt(rng.gamma(kernel.nu, size=p) / kernel.nu)
        return W

    def _scale(self) -> float:
        if isinstance(self.kernel, RBF):
            return math.sqrt(2 * self.kernel._resolved("gamma"))
        if isinstance(self.kernel, Laplacian):
            return float(self.kernel._resolved("gamma"))
        assert isinstance(self.kernel, Matern)
        return float(1 / self.kernel.length)

    def _width(self) -> int:
        if self.frequencies is None:
            raise self._unresolved("the dimension of the frequencies", "frequencies")
        return int(self.size)

    def _mapped(self, X: Points) -> np.ndarray:
        X = double(vectors(X, "RandomFourier"))
        W = np.asarray(self.frequencies, dtype=float)
        _check_dimension(self, X, len(W))
        angles = multiply(X, W * self._scale())
        waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        return waves / math.sqrt(self.size // 2)

    def feature_names(self, X: Points | None = None) -> list[str]:
        """cos or sin, and the number of the frequency."""
        self._width()
        return [f"{f}{j}" for f in ("cos", "sin") for j in range(self.size // 2)]

    def rule(self) -> Rule:
        note = (
            "; orthogonal does not apply to Laplacian, whose coordinates are "
            "independent"
            if self.orthogonal and isinstance(self.kernel, Laplacian)
            else ""
        )
        return Rule(
            True,
            "an inner product by construction: cos⟨ω, x - y⟩ is that of (cos, sin) of "
            f"⟨ω, x⟩ and of ⟨ω, y⟩{note}",
        )


def _orthogonal(rng: np.random.Generator, d: int, p: int) -> np.ndarray:
    """(d, p) normal vectors, those within a block of d at right angles."""
    blocks = []
    while p > 0 and d > 0:
        width = min(d, p)
        Q, R = np.linalg.qr(rng.normal(size=(d, width)))
        # With these signs every rotation is as likely as every other.
        Q = Q * np.where(R.diagonal() < 0, -1.0, 1.0)
        blocks.append(Q * np.sqrt(rng.chisquare(d, size=width)))
        p -= width
    return np.hstack(blocks) if blocks else np.zeros((d, p))


# Sketches of products of coordinates


@dataclass
class PolynomialSketch(Approximation):
    """k̃(x, y) = ⟨φ(x), φ(y)⟩, φ a count sketch of all products of `degree` coordinates.

    Every product lands in one of `size` columns with a random sign. The sketch is the
    cyclic convolution of `degree` sketches of (√scale x, √offset), computed by fast
    Fourier transforms without the products. The mean of k̃ over the seeds is k.

    Parameters
    ----------
    kernel : Polynomial or Linear
    size : the number of columns
    seed : of the columns and signs
    hashes : (degree, d + 1) whole numbers, the column h of each coordinate and of the
        offset, or -1 - h where its sign is -; None to draw them for the dimension of
        the data

    Examples
    --------
    >>> from mercer import Polynomial, PolynomialSketch
    >>> k = PolynomialSketch(Polynomial(2), size=1000).resolve([[1.0, 2.0]])
    >>> k.features([[1.0, 2.0]]).shape, round(k.value([1.0, 2.0], [3.0, 1.0]))
    ((1, 1000), 36)
    """

    kernel: Kernel
    size: int
    seed: int = 0
    hashes: Any = None

    def __post_init__(self) -> None:
        check_kernels(self, self.kernel)
        if type(self.kernel) not in (Polynomial, Linear):
            raise TypeError(
                f"PolynomialSketch approximates Polynomial and Linear; got "
                f"{self.kernel}. Nystrom takes any kernel."
            )
        check_whole(self, "size", self.size, least=1)
        check_whole(self, "seed", self.seed, least=0)
        check_degree("PolynomialSketch", self._degree)
        if self.hashes is not None:
            H = np.asarray(self.hashes)
            if H.ndim != 2 or len(H) != self._degree or H.dtype.kind not in "iu":
                raise ValueError(
                    f"PolynomialSketch needs hashes of shape ({self._degree}, d + 1), "
                    f"whole numbers, one row for each factor of {self.kernel}; got "
                    f"shape {H.shape}. Pass None to draw them anew."
                )
            if H.size and not -self.size <= H.min() <= H.max() < self.size:
                raise ValueError(
                    f"PolynomialSketch(size={self.size}) needs hashes from "
                    f"{-self.size} to {self.size - 1}; got {H.min()} to {H.max()}."
                )

    @property
    def _degree(self) -> int:
        return int(self.kernel.degree) if isinstance(self.kernel, Polynomial) else 1

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> PolynomialSketch:
        kernel = self.kernel.resolve(X, weight)
        hashes = self.hashes
        if hashes is None:
            shape = self._degree, vectors(X, "PolynomialSketch").shape[1] + 1
            rng = np.random.default_rng(self.seed)
            hashes = rng.integers(-int(self.size), int(self.size), size=shape)
        elif kernel is self.kernel:
            return self
        return PolynomialSketch(kernel, self.size, self.seed, hashes)

    def _width(self) -> int:
        if self.hashes is None:
            raise self._unresolved("the dimension of the hashes", "hashes")
        return int(self.size)

    def _mapped(self, X: Points) -> np.ndarray:
        X = double(vectors(X, "PolynomialSketch"))
        H = np.asarray(self.hashes, dtype=np.int64)
        _check_dimension(self, X, H.shape[1] - 1)
        scale, offset = 1.0, 0.0
        if isinstance(self.kernel, Polynomial):
            scale = float(self.kernel._resolved("scale"))
            offset = float(self.kernel.offset)
        X = X * math.sqrt(scale)
        return tensor_sketch(
            X, np.where(H < 0, ~H, H), np.where(H < 0, -1.0, 1.0), self.size, offset
        )

    def feature_names(self, X: Points | None = None) -> list[str]:
        """The number of the column."""
        return [f"sketch{j}" for j in range(self._width())]

    def rule(self) -> Rule:
        return Rule(
            True, "an inner product by construction: of sketches of all products"
        )


def tensor_sketch(
    X: Vectors, columns: np.ndarray, signs: np.ndarray, size: int, offset: float
) -> np.ndarray:
    """The (n, size) sketches of the products of (x, √offset), a factor for each hash.

    Parameters
    ----------
    X : (n, d) array or CSR
    columns, signs : (factors, d + 1), where each coordinate goes and its sign; with
        offset 0 their last column is not read
    """
    n, d = X.shape
    transformed = np.ones((n, size // 2 + 1), dtype=complex)
    for column, sign in zip(columns, signs, strict=True):
        spread = sp.csr_array((sign[:d], (np.arange(d), column[:d])), shape=(d, size))
        sketch = X @ spread
        sketch = sketch.toarray() if sp.issparse(sketch) else np.asarray(sketch)
        if offset:
            sketch[:, column[d]] += sign[d] * math.sqrt(offset)
        transformed *= rfft(sketch, axis=1)
    return irfft(transformed, size, axis=1)


def _check_dimension(kernel: Kernel, X: Vectors, d: int) -> None:
    if X.shape[1] != d:
        raise ValueError(
            f"{type(kernel).__name__} was resolved on points with {d} columns; these "
            f"have {X.shape[1]}."
        )
