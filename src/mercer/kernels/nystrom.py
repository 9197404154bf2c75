"""Nystrom: the part of φ along the φ of some landmarks, of any kernel.

Williams and Seeger, Using the Nyström method (2001), with landmarks as in
`landmarks.py`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer.data.checks import brief, check_finite
from mercer.data.copies import owned
from mercer.data.partitions import Partitions
from mercer.data.points import (
    Points,
    as_points,
    count,
    double,
    precision,
    take,
    vectors,
)
from mercer.kernels.approximate import Approximation
from mercer.kernels.base import (
    BLOCK_MB,
    Kernel,
    Rule,
    as_factor,
    check_kernels,
    row_blocks,
)
from mercer.kernels.checks import check_whole, finite, is_finite
from mercer.kernels.landmarks import (
    PartitionedPivoting,
    Pivoting,
    cholesky,
    far_apart,
    own_values,
    uniform,
    values,
)
from mercer.native import memory
from mercer.native.clock import tick
from mercer.native.interruptible import summed
from mercer.native.lapack import eigh, factor, half
from mercer.native.tall import even_blocks, squares
from mercer.native.threads import one_blas_thread
from mercer.native.vectors import SHORT, Packed, Recipe, block, native_recipe
from mercer.native.whole import WholePoints, whole_points

METHODS = ("pivoted", "uniform", "kmeans++")
WELL_CONDITIONED = 1e4  # growth of rounding up to which φ is summed before it is turned
FEW_LANDMARKS = 3000  # whose eigenvalues take a second or two
# Points for each landmark, where not all are looked at: FEW of them, unless half of the
# landmarks leave no more than QUICK of the trace. Then what is left is at rare points.
FEW, POOL, QUICK = 4, 8, 0.01
LONG = 2e10  # multiplications of pivoting among all points, a second or two
NEAR_MB = 4.0  # of rows of features that are computed at a time
MANY_SUMS = 256  # columns that threads share
INVERSE_STEPS = 8  # that find the least eigenvalue to a few percent
SURE = 0.8  # of what they found, that is tried as a bound
PIECE_MB = 8.0  # of the points that are read at a time, beside their k(x, L)


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
        numbers find no room, or n · size · (size + d) is above 2e10 with d coordinates
        of vectors, landmarks are pivoted among 4 · size points drawn from all, 8 · size
        where they leave little, and `trace_error` is not known
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
        if self._is_too_many(X):
            return self._of_sample(kernel, X, weight, rng)
        among = PartitionedPivoting if isinstance(X, Partitions) else Pivoting
        search = among(kernel, X, weight, self.size or count(X), self.error, rng)
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

    def _is_too_many(self, X: Points) -> bool:
        """Whether n × size numbers, which pivoting holds, find no room or take long.

        With `error` it is not known how many those are: then as many as fit are taken.
        """
        n = count(X)
        if self.size is None or self.error is not None or n <= POOL * self.size:
            return False
        long = max(getattr(X, "shape", ())[1:], default=0)
        room = memory.keeps(8.0 * n * self.size)
        return not room or float(n) * self.size * (self.size + long) > LONG

    def _of_sample(
        self,
        kernel: Kernel,
        X: Points,
        weight: np.ndarray | None,
        rng: np.random.Generator,
    ) -> Nystrom:
        """The kernel with landmarks pivoted among some of the points."""
        assert self.size is not None
        drawn = uniform(count(X), weight, POOL * self.size, rng)
        for number in (FEW, POOL):
            some = np.sort(drawn[: number * self.size])
            own = None  # points are drawn by their weights already
            search = Pivoting(kernel, take(X, some), own, self.size, None, rng)
            search.run(self.size // 2)
            if search.remaining() > QUICK * search.total:
                break
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

    def features(self, X: Points) -> np.ndarray:
        """Φ, (n, p), of compiled kernels by all threads."""
        X = as_points(X)
        if precision(X) == np.float32 or not self._is_compiled_on(X):
            return super().features(X)
        return self._mapped(X)

    def _mapped(self, X: Points) -> np.ndarray:
        points, lower = self._kept()
        self._check_points(X)
        if not len(lower):
            return np.zeros((count(X), 0))
        if not self._is_compiled_on(X):
            return half(lower, values(self.kernel, X, points).T).T
        out = np.empty((count(X), len(lower)))

        def fill(rows: slice) -> tuple[()]:
            self.fill_products(take(X, rows), out[rows])
            out[rows] = half(lower, out[rows].T).T
            return ()

        # Blocks stay near the processor, and threads share the time in which the
        # system finds new memory. Points that are packed for it take as much room.
        wide = X.shape[1] if isinstance(X, np.ndarray) else 0
        most = memory.block_mb(NEAR_MB)
        blocks = [*row_blocks(count(X), max(len(lower), wide), most)]
        if blocks:
            summed(fill, blocks, "features")
        return out

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
        Y = as_points(Y)
        if not len(lower) or not self.is_well_conditioned or isinstance(Y, Partitions):
            return super().feature_weights(Y, V, block_mb)
        wide = double(points)
        V = as_factor(V, count(Y))
        sums = np.zeros((len(lower), *V.shape[1:]))
        for rows, part in self._pieces(Y):
            sums += self.kernel.matmul(wide, part, V[rows], block_mb=block_mb)
        return self.turned(sums)

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
        return half(self._kept()[1], np.asfortranarray(weights), transposed=True)

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
        if self._is_compiled_on(X) and self._whole_landmarks() is not None:
            out = np.empty((count(X), self._width()))
            self.fill_products(X, out)
            return out
        return values(self.kernel, X, self._kept()[0])

    def fill_products(self, X: Points, out: np.ndarray) -> None:
        """Write k(X, L), as of `base_products`, to an array that is there."""
        packed = self._packed_landmarks()
        if packed is None or not self._is_compiled_on(X):
            out[:] = values(self.kernel, X, self._kept()[0])
            return
        X = double(vectors(X))
        self._check_points(X)
        whole = self._whole_landmarks() if isinstance(X, np.ndarray) else None
        if whole is None:
            block(packed[0], X, packed[1], out=out)
        else:
            left = whole.block(native_recipe(packed[0]), X, out)
            if len(left):
                out[left] = block(packed[0], X[left], packed[1])
        finite(out, self.kernel, X, self._kept()[0])

    def _is_compiled_on(self, X: Points) -> bool:
        """Whether the core computes k(X, L) of these points as they are."""
        packed = self._packed_landmarks()
        dense = isinstance(X, np.ndarray) and X.dtype in (np.float32, np.float64)
        if packed is None or not (dense or sp.issparse(X)):
            return False
        return X.ndim == 2 and X.shape[1] == packed[1].shape[1]

    def _packed_landmarks(self) -> tuple[Recipe, Packed] | None:
        """How the core computes k, and its landmarks as it reads them, made once."""
        points, lower = self._kept()
        known = self.__dict__.get("_packed")
        if known is None or known[0] is not lower:
            recipe = self.kernel.native(points)
            made = None
            if recipe is not None:
                made = recipe, Packed(double(points), only_core=True)
            known = self.__dict__["_packed"] = lower, made
        return known[1]

    def _whole_landmarks(self) -> WholePoints | None:
        """Landmarks that the core multiplies as whole numbers, if they are; made once.

        Short points it multiplies as quickly as they are.
        """
        packed = self._packed_landmarks()
        known = self.__dict__.get("_whole")
        if known is None or known[0] is not packed:
            points, made = double(self._kept()[0]), None
            if packed is not None and isinstance(points, np.ndarray):
                kind = packed[0].part, packed[0].finish
                known_kind = kind == ("square", "exp") or kind[0] == "product"
                if known_kind and points.shape[1] > SHORT:
                    made = whole_points(points)
            known = self.__dict__["_whole"] = packed, made
        return known[1]

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        own = ("_packed", "_whole")  # of this process
        return {key: part for key, part in state.items() if key not in own}

    def turned(self, sums: np.ndarray) -> np.ndarray:
        """F⁻¹ sums: what sums of k(L, x) over points are in the coordinates of φ."""
        lower = self._kept()[1]
        if sums.ndim < 2 or sums.shape[1] < MANY_SUMS:
            return half(lower, np.asfortranarray(sums))
        out = np.empty(sums.shape, order="F")

        def fill(columns: slice) -> tuple[()]:
            out[:, columns] = half(lower, np.asfortranarray(sums[:, columns]))
            return ()

        # A thread each: those of a BLAS may have been told to leave the cores.
        summed(fill, even_blocks(sums.shape[1], MANY_SUMS))
        return out

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
    if 0 < m <= FEW_LANDMARKS:
        with one_blas_thread():  # many short products: threads would wait
            least = _least_eigenvalue(lower)
        if least > 0:
            return 1 / math.sqrt(least)
    inverse = half(lower, np.eye(m, order="F"))
    sizes = (float(np.linalg.norm(inverse, order)) for order in (1, np.inf))
    return min(float(np.linalg.norm(inverse)), math.sqrt(math.prod(sizes)))


def _least_eigenvalue(lower: np.ndarray) -> float:
    """The least eigenvalue of FFᵀ, or somewhat less; rounding is taken away.

    Steps of inverse iteration find about that, from above. That FFᵀ less a part of it
    has a Cholesky factor proves it a bound; all eigenvalues, three times as long to
    compute, are asked where it has none.
    """
    m = len(lower)
    K = np.asfortranarray(squares(lower.T))
    # |·| sums to no less than the largest eigenvalue, of which rounding is a part.
    rounding = 8 * m * np.finfo(float).eps * float(np.abs(K).sum(axis=0).max())
    z = np.random.default_rng(0).normal(size=m)
    length = 0.0
    for _ in range(INVERSE_STEPS):
        z = half(lower, half(lower, z / np.linalg.norm(z)), transposed=True)
        length = float(np.linalg.norm(z))
    shift = SURE / length if math.isfinite(length) else 0.0
    if shift > rounding:
        shifted = K.copy(order="F")
        shifted.flat[:: m + 1] -= shift
        if factor(shifted):
            return shift - rounding
    return float(eigh(K, eigvals_only=True)[0]) - rounding
