"""What a road costs: the work that is known beforehand, at the rates of this machine.

Kernel values, multiplications and bytes, in seconds. The rates are measured once in a
process, in a fifth of a second.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from mercer.data.blocks import Blocks
from mercer.data.points import take
from mercer.gram import Gram
from mercer.kernels.nystrom import FEW, Nystrom
from mercer.kernels.ways import Precomputed
from mercer.native import lapack
from mercer.solvers.cholesky import Cholesky
from mercer.solvers.chunking import FIRST as FIRST_CHUNK
from mercer.solvers.chunking import Chunking
from mercer.solvers.clusters import KernelLloyd
from mercer.solvers.computed_rows import SHORT
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.eigen import Lapack
from mercer.solvers.feature_descent import FeatureDescent
from mercer.solvers.feature_newton import FeatureNewton
from mercer.solvers.l1 import CoordinateDescent
from mercer.solvers.newton import Newton
from mercer.solvers.normal_equations import NormalEquations
from mercer.solvers.roads import Road
from mercer.solvers.semismooth import SemismoothNewton
from mercer.solvers.smo import SMO

SAMPLE = 0.1  # seconds for kernel values that are timed
# Of landmarks, how long a solver computes k(x, L), in units of a block of them that is
# written to new memory, and how often it multiplies them with each other, of n p².
LANDMARK_WORK: dict[type, tuple[float, float]] = {
    NormalEquations: (3.0, 0.25),
    FeatureNewton: (5.0, 0.15),
    SemismoothNewton: (5.0, 0.15),
}
IN_VIEW = 1.6e6  # bytes that a step to more evidence reads of the columns in view


class Rates(NamedTuple):
    """Multiplications with additions in a second, and bytes."""

    product: float
    factor: float
    bytes: float


@cache
def rates() -> Rates:
    """Those of this machine, measured when they are first asked for."""
    side, rng = 700, np.random.default_rng(0)
    A = rng.normal(size=(side, side))
    product = side**3 / _quickest(lambda: A @ A)
    K = A @ A.T + side * np.eye(side)
    factor = side**3 / 6 / _quickest(lambda: lapack.factor(np.array(K, order="F")))
    v = np.ones(2**21)
    return Rates(product, factor, v.nbytes / _quickest(lambda: v @ v))


def _quickest(call: Callable[[], Any], times: int = 3) -> float:
    best = math.inf
    for _ in range(times):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return max(best, 1e-9)


def native_recipe_of(gram: Gram) -> Any:
    """The recipe of a compiled kernel; None of others."""
    X = gram.X
    return gram.kernel.native(X[:1] if isinstance(X, Blocks) else X)


def value_seconds(gram: Gram, single: bool = False) -> float:
    """Seconds for a kernel value of these points, by some of them.

    Of landmarks, for one of the kernel that they approximate.
    """
    n, size = gram.shape[0], 4
    if isinstance(gram.kernel, Nystrom):
        gram = Gram(gram.kernel.kernel, gram.X)
    if gram.is_held or isinstance(gram.kernel, Precomputed):
        return 8.0 / rates().bytes
    native = native_recipe_of(gram) is not None
    order = np.random.default_rng(0).permutation(n)
    spent = 0.0
    while True:
        size = min(size, n)
        X = take(gram.X, np.sort(order[:size]))
        Y = take(gram.X, np.sort(order[-size:]))
        if single and native:
            X, Y = X.astype(np.float32), Y.astype(np.float32)
        # Other processes can make one of them long, hardly several.
        took = math.inf
        for _ in range(3):
            begin = time.perf_counter()
            gram.kernel(X, Y)
            took = min(took, time.perf_counter() - begin)
            # A block that is twice as large takes four times as long.
            if took < SAMPLE / 16:
                break
        spent += took
        if size == n or size >= 2048 or spent + 4 * took > SAMPLE:
            return max(took, 1e-9) / size**2
        size *= 2


class Costs(NamedTuple):
    """What a road costs in seconds, at the rates of this machine."""

    road: Road
    value: float  # of a kernel value
    rates: Rates

    def matrix(self, n: float, reads: float = 0.0) -> float:
        """K computed, and read so many times."""
        return self.value * n**2 + reads * 8 * n**2 / self.rates.bytes

    def factored(self, n: float) -> float:
        times = 8.0 if isinstance(self.road.solver, Newton) else 1.0
        return self.matrix(n, 4 * times) + times * n**3 / 6 / self.rates.factor

    def eigen(self, n: float) -> float:
        # A half of the reduction to a tridiagonal matrix multiplies by vectors.
        return self.matrix(n, 4) + n**3 * (4 / self.rates.product)

    def products(self, n: float) -> float:
        times, road = 30.0 * road_width(self.road), self.road
        rank = preconditioner_of(road, n)
        once = self.value * n**2 / 2
        if road.kept:
            once += times * road.itemsize * n**2 / 2 / self.rates.bytes
        else:
            once *= times
        return once + n * rank**2 / self.rates.product

    def clusters(self, n: float) -> float:
        reads = 20.0 * road_width(self.road)
        # What single precision found is confirmed in double, without K in memory.
        again = 4.0 * self.value * n**2 if self.road.single else 0.0
        return self.matrix(n, reads) + again

    def on_landmarks(self, n: float) -> float:
        """Landmarks chosen, then k(X, L) computed and multiplied with itself.

        As often as the solver does it, of all points; most of it in single precision.
        """
        road, p = self.road, float(self.road.columns)
        readings, squares = LANDMARK_WORK.get(type(road.solver), (5.0, 0.25))
        wide = max(getattr(road.gram.X, "shape", ())[1:], default=0)
        if wide > SHORT and isinstance(road.solver, NormalEquations):
            readings = 1.0  # values that take long are held, and quickly read again
        chosen = self._chosen(n)
        multiplied = chosen + squares * n * p**2
        kernel = road.gram.kernel
        if isinstance(kernel, Nystrom) and not kernel.is_well_conditioned:
            multiplied += n * p**2 / 2  # Φ in double precision, which is made there
        values = readings * self.value * n * p
        return (multiplied / self.rates.product + values) * road.n_problems

    def _chosen(self, n: float) -> float:
        """Pivoting, in multiplications at the speed of a matrix product."""
        p = float(self.road.columns)
        return 2.5 * min(n, FEW * p) * p**2 + 4 * p**3

    def rows_of_map(self, n: float) -> float:
        """Φ made, then rows of ΦΦᵀ by SMO: those of points with a coefficient.

        From fits of pairs of images: 1 to 30 % of 12,000 points, and fewer of more.
        """
        road, p = self.road, float(self.road.columns)
        own = n * (road.largest / road.n if road.largest else 1.0)
        chosen = self._chosen(n)
        rows = 0.06 * own * min(1.0, (12_000 / own) ** 0.3) * road.n_problems
        multiplied = chosen + n * p**2 / 2 + rows * own * p / 2
        return multiplied / self.rates.product + self.value * n * p

    def on_map(self, n: float) -> float:
        if isinstance(self.road.gram.kernel, Nystrom):
            return self.on_landmarks(n)
        road, p = self.road, float(self.road.columns)
        reads = 1500.0 if isinstance(road.solver, FeatureDescent) else 100.0
        work = reads * 8 * n * road.wide / self.rates.bytes
        if p <= 4000:
            work += (n * road.wide * p + 10 * p**3 / 6) / self.rates.product
        if road.name == "landmarks":
            work += self.value * n * p + 2 * n * p**2 / self.rates.product
        return work * road.n_problems

    def chunks(self, n: float) -> float:
        """Values among the points that are free or near it, and a dozen times Φ(Φᵀβ).

        From fits of windows of DNA: some 14 n^0.6 points.
        """
        m = min(n, max(FIRST_CHUNK, 14 * n**0.6))
        once = self.value * m**2 + 40 * 4 * m**2 / self.rates.bytes
        tries = (20 * 8.0 * self.road.columns + 200 * self.road.kept) / self.rates.bytes
        return (once + tries * n / self.road.n) * self.road.n_problems

    def rows(self, n: float, iterations: float, rows: float) -> float:
        """Rows computed, and steps that change F at all points of a problem."""
        n *= self.road.largest / self.road.n if self.road.largest else 1.0
        return self.value * rows * n + iterations * 24 * n / self.rates.bytes

    def evidence(self, n: float, iterations: float, columns: float) -> float:
        """K computed, steps, and products of K with the columns that became active.

        A step reads the columns in view, and what all n have of them.
        """
        steps = iterations * (IN_VIEW + 1500 * n) / self.rates.bytes
        return self.matrix(n, 2.0) + steps + columns / 4 * n**2 / self.rates.product

    def alone(self, n: float) -> float:
        return 1e-8 * n


def preconditioner_of(road: Road, n: float) -> float:
    """The rank of what a solver by products factors beforehand."""
    if isinstance(road.solver, Newton):
        return 3 * n**0.5
    return min(n, 2 * n**0.65) if isinstance(road.solver, ConjugateGradient) else 0.0


def road_width(road: Road) -> float:
    """Passes over K that several problems share or not."""
    return float(max(1, road.n_problems))


class Growth(NamedTuple):
    """An exponent: what is expected, and between what it is believed."""

    least: float
    guess: float
    most: float


class Model(NamedTuple):
    """What is known of the seconds of a fit: work, and how the rest may grow."""

    work: Callable[[Costs, float], float]
    growth: Growth


def _held(reads: float) -> Callable[[Costs, float], float]:
    def work(costs: Costs, n: float) -> float:
        return costs.matrix(n, reads * road_width(costs.road))

    return work


_BY_ROAD = {
    "rows": Model(lambda costs, n: costs.rows(n, 2 * n, 0.5 * n), Growth(-0.5, 0, 0.5)),
    "matrix": Model(_held(50.0), Growth(-0.3, 0.1, 0.8)),
    "products": Model(Costs.products, Growth(-0.5, -0.3, 0.3)),
    "features": Model(Costs.on_map, Growth(-0.2, 0.0, 0.4)),
    "landmarks": Model(Costs.on_map, Growth(-0.2, 0.0, 0.3)),
    "points": Model(Costs.alone, Growth(0.0, 0.0, 0.2)),
}
_BY_SOLVER: dict[tuple[str, type], Model] = {
    ("landmarks", SMO): Model(Costs.rows_of_map, Growth(-0.2, 0.0, 0.3)),
    ("features", SMO): Model(Costs.rows_of_map, Growth(-0.2, 0.0, 0.3)),
    ("features", Chunking): Model(Costs.chunks, Growth(-0.3, 0.0, 0.6)),
    ("matrix", Cholesky): Model(Costs.factored, Growth(-0.1, 0.0, 0.1)),
    ("matrix", Newton): Model(Costs.factored, Growth(-0.2, 0.0, 0.2)),
    ("matrix", Lapack): Model(Costs.eigen, Growth(-0.1, 0.0, 0.2)),
    ("matrix", KernelLloyd): Model(Costs.clusters, Growth(-0.2, 0.1, 0.5)),
    ("matrix", CoordinateDescent): Model(_held(50.0), Growth(-0.3, 0.2, 0.8)),
}


def model_of(road: Road) -> Model:
    """That of the solver of a road, or of all solvers on it."""
    return _BY_SOLVER.get((road.name, type(road.solver)), _BY_ROAD[road.name])
