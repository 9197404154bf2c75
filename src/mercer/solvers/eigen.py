"""The top components of a centred Gram matrix: K̃ v = λ v, K̃ = H K H, H = I - 11ᵀ/n.

Lapack         all of K in memory, exact
Arpack         one vector at a time
Covariance     the p × p matrix of explicit features, where that is the smaller one
BlockKrylov    a few products with a block of vectors; K in memory, in part, or not

Musco and Musco, Randomized block Krylov methods for stronger and faster approximate
singular value decomposition, NIPS (2015); the start is Nyström's, from a sample.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from mercer.data.partitions import Partitions
from mercer.data.points import double, take
from mercer.gram import Gram
from mercer.kernels.checks import finite
from mercer.native.clock import OutOfTime
from mercer.native.interruptible import interruptible, multiply
from mercer.native.lapack import eigh
from mercer.native.threads import blas_for, one_blas_thread
from mercer.outcomes import Progress, Run, Status, Watch
from mercer.solvers.components import Components, Eigenpairs, eigenpairs
from mercer.solvers.computed_rows import ComputedRows
from mercer.solvers.krylov import DOUBLE as CONFIRMING
from mercer.solvers.krylov import Pulse
from mercer.solvers.limits import TimeLimit
from mercer.solvers.products import (
    NARROW,
    Centered,
    Features,
    GramProducts,
    RowFeatures,
    Tiles,
    centered_matrix,
)

# What the search calls its numbers.
WORDS = (("support", "components"), ("violation", "residual"))
EXACT = 1e-10  # the residual asked for where kernel values are in double precision
ROUGH = 1e-6  # and where they are in single precision
DOUBLE = 4000  # up to so many points double precision is asked for
SAMPLE = 256  # points on which single precision is compared with double
WIDEST = 3000  # features whose covariance is decomposed as a whole


@dataclass(frozen=True)
class Lapack:
    """Solve `Components` with all of K in memory, to rounding.

    A direct method: `start` and `watch` have nothing to act on.

    Examples
    --------
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import Components, Lapack
    >>> gram = Gram(Linear(), [[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> Lapack().solve(Components(gram, 2)).values.round(6).tolist()
    [8.0, 2.0]
    """

    def solve(
        self,
        problem: Components,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Eigenpairs:
        with blas_for(problem.gram.shape[0]):
            return self._solve(problem)

    def _solve(self, problem: Components) -> Eigenpairs:
        begin = time.perf_counter()
        K, means = centered_matrix(problem.gram)
        n, c = len(K), problem.count
        values, vectors = eigh(K, subset_by_index=(n - c, n - 1))
        least = float(values[0])
        if c < n and problem.gram.kernel.psd is not True:
            least = min(least, _least(K))
        chosen = slice(-1, -c - 1, -1)
        return eigenpairs(
            problem.gram,
            values[chosen],
            vectors[:, chosen],
            multiply(K, vectors[:, chosen]),
            means,
            least=least,
            run=Run(iterations=1, seconds=time.perf_counter() - begin),
        )


def _least(K: np.ndarray | LinearOperator) -> float:
    """A number near the least eigenvalue, and not below it."""
    n = K.shape[0]
    if n <= 600:
        K = K if isinstance(K, np.ndarray) else K @ np.eye(n)
        return float(eigh(K, eigvals_only=True, subset_by_index=(0, 0))[0])
    start = np.random.default_rng(0).normal(size=n)
    first = float(eigsh(K, 1, which="LM", tol=1e-3, v0=start)[0][0])
    # An accuracy relative to the largest, as the least may be 0.
    size = 1.01 * abs(first)
    across = LinearOperator((n, n), matvec=lambda v: size * v - K @ v, dtype=float)
    try:
        return size - float(eigsh(across, 1, which="LA", tol=1e-7, v0=start)[0][0])
    except ArpackNoConvergence as ended:
        return size - float(np.max(ended.eigenvalues, initial=0.0))


@dataclass(frozen=True)
class Arpack:
    """Solve `Components` by ARPACK's restarted Lanczos method, in double precision.

    Parameters
    ----------
    tol : of ARPACK, the accuracy of the eigenvalues; 0 for that of the machine
    max_iter : of ARPACK; None for 10 n
    seed : of the first vector

    Examples
    --------
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import Arpack, Components
    >>> gram = Gram(Linear(), [[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> Arpack().solve(Components(gram, 2)).values.round(6).tolist()
    [8.0, 2.0]
    """

    tol: float = 0.0
    max_iter: int | None = None
    seed: int = 0

    def solve(
        self,
        problem: Components,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Eigenpairs:
        begin = time.perf_counter()
        n, c = problem.gram.shape[0], problem.count
        if c >= n:
            raise ValueError(
                f"Arpack finds fewer components than there are points; got "
                f"n_components={c} for {n} points. Use Lapack (eigen_solver='dense')."
            )
        there = isinstance(problem.gram.X, Partitions)
        product = Centered(
            GramProducts(problem.gram)
            if there
            else Tiles(problem.gram, np.arange(n), np.float64)
        )
        operator = LinearOperator((n, n), matvec=product, matmat=product, dtype=float)
        first = np.random.default_rng(self.seed).uniform(-1, 1, n)
        values, vectors = eigsh(
            operator, c, which="LA", tol=self.tol, maxiter=self.max_iter, v0=first
        )
        images, least = product(vectors), float(values[0])
        if problem.gram.kernel.psd is not True:
            least = min(least, _least(operator))
        return eigenpairs(
            problem.gram,
            values[::-1],
            vectors[:, ::-1],
            images[:, ::-1],
            product.means,
            least=least,
            run=Run(iterations=product.count, seconds=time.perf_counter() - begin),
        )


@dataclass(frozen=True)
class Covariance:
    """Solve `Components` in feature space: Φ̃ᵀΦ̃ u = λ u gives v = Φ̃u/√λ.

    For kernels with explicit features, p of them for n points, p < n/2; a direct method
    as `Lapack` is.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import Components, Covariance
    >>> X = np.repeat([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]], 5, axis=0)
    >>> Covariance().solve(Components(Gram(Linear(), X), 2)).values.round(6).tolist()
    [40.0, 10.0]
    """

    def solve(
        self,
        problem: Components,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Eigenpairs:
        begin = time.perf_counter()
        features = problem.features
        if features is None:
            raise ValueError(
                "Covariance needs a kernel with explicit features, fewer than half the "
                f"points and no fewer than the components; got the {problem.gram!r} "
                f"and n_components={problem.n_components!r}. Use BlockKrylov or Lapack."
            )
        product = _products_of(features)
        C = finite(product.covariance(), problem.gram.kernel)
        p = len(C)
        c = min(problem.count, p)
        values, directions = eigh(C, subset_by_index=(p - c, p - 1))
        values, directions = values[::-1], directions[:, ::-1]
        if problem.n_components is None:  # the others are 0 and have no direction
            kept = values > p * np.finfo(float).eps * max(values[0], 0.0)
            values, directions = values[kept], directions[:, kept]
        vectors = _unit(product.project(directions))
        images = product.project(product.gather(vectors))
        return eigenpairs(
            problem.gram,
            values,
            vectors,
            images,
            product.means(),
            least=0.0,
            run=Run(iterations=1, seconds=time.perf_counter() - begin),
        )


def _products_of(features: Any) -> Features:
    """Products with Φ, in memory or computed when they are read."""
    computed = isinstance(features, ComputedRows)
    return RowFeatures(features) if computed else Features(features)


@dataclass(frozen=True)
class BlockKrylov:
    """Solve `Components` in a space that grows by K̃ times the residuals of its best.

    It begins with a block of vectors, the components of a random sample of the points,
    and ends when ‖K̃vⱼ - λⱼvⱼ‖ ≤ tol·λ₁ for every component, or where rounding hides
    what is left.

    Parameters
    ----------
    tol : 0 for 1e-10, and beyond 4,000 points 1e-6
    max_iter : products with K at most
    extra : how many more vectors than components the first block has; None for 20 or
        more, and for up to 100 where each product computes K anew
    cache_mb : memory for kernel values; what does not fit is computed in each product.
        None for a quarter of what is free
    precision : of the kernel values. "auto" is single for more than 4,000 points where
        tol ≥ 1e-6, if on a sample of them it is within tol/2 of double
    seed : of the sample

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gram, RBF
    >>> from mercer.solvers import BlockKrylov, Components, Lapack
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> problem = Components(Gram(RBF(0.1), X), 2)
    >>> found, exact = BlockKrylov().solve(problem), Lapack().solve(problem)
    >>> bool(np.allclose(found.values, exact.values, rtol=1e-8)), found.status
    (True, 'optimal')
    """

    tol: float = 0.0
    max_iter: int = 100
    extra: int | None = None
    cache_mb: float | None = None
    precision: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.precision not in ("auto", "single", "double"):
            raise ValueError(
                "BlockKrylov knows precision auto, single and double; got "
                f"{self.precision!r}."
            )
        if not self.tol >= 0 or not self.max_iter >= 1:
            raise ValueError(
                f"BlockKrylov needs tol ≥ 0 and max_iter ≥ 1; got tol={self.tol!r} and "
                f"max_iter={self.max_iter!r}."
            )

    def solve(
        self,
        problem: Components,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Eigenpairs:
        begin = time.perf_counter()
        n = problem.gram.shape[0]
        tol = self.tol or (EXACT if n <= DOUBLE else ROUGH)
        ticking = _Ticking(watch, begin)
        features = problem.features
        if features is not None:
            product = _products_of(features)
            search = _Search(self, problem, product, None, tol, ticking)
            return search.run(search.random if start is None else start, watch)
        if isinstance(problem.gram.X, Partitions):
            by_partitions = GramProducts(problem.gram)
            search = _Search(self, problem, by_partitions, None, tol, ticking)
            if search.n <= search.width:
                return Lapack().solve(problem)
            return search.run(search.random if start is None else start, watch)
        order = np.random.default_rng(self.seed).permutation(n)
        single = self.precision == "single" or (
            self.precision == "auto"
            and n > DOUBLE
            and tol >= 1e-6
            and _agrees(problem.gram, order, tol)
        )
        wide = replace(problem, gram=problem.gram.double())
        if not single:
            return self._search(wide, order, tol, start, watch, ticking)
        found = self._search(problem, order, tol, start, watch, ticking, np.float32)
        found = _confirmed(wide, order, found, ticking)
        if found.status != "optimal" or found.within(tol):
            return found
        # Single precision came no nearer.
        more = self._search(wide, order, tol, found.vectors, watch, ticking)
        return replace(more, run=more.run.after(found.run))

    def _search(
        self,
        problem: Components,
        order: np.ndarray,
        tol: float,
        start: np.ndarray | None,
        watch: Watch | None,
        ticking: _Ticking,
        dtype: npt.DTypeLike = float,
    ) -> Eigenpairs:
        """The components of a problem, with kernel values of this type."""
        tiles = Tiles(problem.gram, order, dtype, self.cache_mb)
        search = _Search(self, problem, tiles, order, tol, ticking)
        if search.n <= search.width:
            return Lapack().solve(problem)  # the first block would span everything
        # A narrow block is our threads' work, which those of BLAS would disturb.
        with one_blas_thread() if search.width <= NARROW else nullcontext():
            return search.run(_begun(start, search, tiles), watch)


class _Ticking:
    """What a product with K tells of its share that is done: a report, or OutOfTime.

    Only a limit in time ends a product; others who stop a search wait for it.
    """

    def __init__(self, watch: Watch | None, begin: float):
        self.watch, self.begin, self.count, self.since = watch, begin, 0, begin
        self.pulse = Pulse(None if watch is None else self._report, CONFIRMING)
        if isinstance(watch, TimeLimit):
            watch.pulse = self.pulse

    def __call__(self, share: float) -> None:
        if share == 0:
            self.since = time.perf_counter()
        self.pulse.took(self.since, share)
        self.pulse("product", share)
        if share < 1 and isinstance(self.watch, TimeLimit) and self.watch.is_late():
            raise OutOfTime("product", share)

    def _report(self, stage: str) -> bool:
        assert self.watch is not None
        seconds = time.perf_counter() - self.begin
        progress = Progress(self.count, self.count, 0, seconds, words=WORDS)
        return bool(self.watch(progress._replace(unit="product", stage=stage)))


class _Search:
    """One block Krylov method. Points are in the given order, or in their own."""

    def __init__(
        self,
        options: BlockKrylov,
        problem: Components,
        product: Tiles | Features | GramProducts,
        order: np.ndarray | None,
        tol: float,
        ticking: _Ticking,
    ):
        self.options, self.tol, self.begin = options, tol, ticking.begin
        self.product, self.order = product, order
        self.times = Centered(product, ticking)
        self.gram = problem.gram
        self.n, self.c = problem.gram.shape[0], problem.count
        extra = options.extra
        if extra is None:
            # A wide block saves products, where they are what takes the time.
            extra = min(max(20, self.c // 5 if product.fits else 7 * self.c), 100)
        self.width = self.c + extra
        # Beyond so many vectors only the best are kept.
        self.most = max(300, 4 * self.width)
        self.unproved = problem.gram.kernel.psd is not True
        rng = np.random.default_rng(options.seed)
        self.random = rng.normal(size=(self.n, self.width))

    def run(self, first: np.ndarray, watch: Watch | None) -> Eigenpairs:
        Q = _orthonormal(first - first.mean(axis=0))
        if Q.shape[1] < self.c:  # the sample has fewer components than that
            rest = self.random - self.random.mean(axis=0)
            Q = np.hstack([Q, _orthonormal(rest, Q)])
        Z, least, status = self.times(Q), np.inf, "max_iter"
        while True:
            values, S = _descending(multiply(Q.T, Z))
            least = min(least, float(values[-1]))
            if Q.shape[1] > self.most:
                best = S[:, : 2 * self.width]
                Q, Z = multiply(Q, best), multiply(Z, best)
                S = np.eye(Q.shape[1])
            # A few more than are sought: what comes next is what slows them down.
            S, values = S[:, : self.c + 5], values[: self.c + 5]
            residual = multiply(Z, S) - multiply(Q, S) * values
            sizes = np.linalg.norm(residual, axis=0)
            small = sizes[: self.c] <= max(self.tol * abs(values[0]), self._rounding())
            if small.all():
                status = "optimal"
                break
            if watch is not None and watch(self._progress(sizes, values, small)):
                status = "stopped"
                break
            large = sizes > max(self.tol / 3 * abs(values[0]), self._rounding())
            block = _orthonormal(residual[:, large], Q)
            if not block.shape[1]:
                status = "optimal"  # nothing is left outside: the span is invariant
                break
            if self.times.count >= self.options.max_iter:
                break
            try:
                image = self.times(block)
            except OutOfTime:
                status = "stopped"
                break
            Q, Z = np.hstack([Q, block]), np.hstack([Z, image])
        if watch is not None and status == "optimal":
            watch(self._progress(sizes, values, small))
        S = S[:, : self.c]
        back = self._unsorted
        found = eigenpairs(
            self.gram,
            values[: self.c],
            back(multiply(Q, S)),
            back(multiply(Z, S)),
            back(self.times.means),
            least=least,
            run=Run(Status(status), self.times.count, time.perf_counter() - self.begin),
        )
        # Asked for by number, tol is to hold; the default is what can be had.
        single = getattr(self.product, "dtype", None) == np.float32
        if status == "optimal" and self.options.tol and not single:
            if not found.within(self.tol):
                return replace(found, run=replace(found.run, status=Status.IMPRECISE))
        return found

    def _rounding(self) -> float:
        """The residual below which there is nothing but rounding of K."""
        eps = np.finfo(getattr(self.product, "dtype", float)).eps
        return self.n * eps * float(np.abs(self.times.means).max())

    def _unsorted(self, values: np.ndarray) -> np.ndarray:
        if self.order is None:
            return values
        out = np.empty_like(values)
        out[self.order] = values
        return out

    def _progress(
        self, sizes: np.ndarray, values: np.ndarray, small: np.ndarray
    ) -> Progress:
        first = abs(float(values[0])) or 1.0
        return Progress(
            self.times.count,
            self.times.count,
            self.product.rows,
            time.perf_counter() - self.begin,
            support=int(small.sum()),
            violation=float(sizes[: self.c].max()) / first,
            words=WORDS,
            unit="product",
        )


def _begun(start: np.ndarray | None, search: _Search, tiles: Tiles) -> np.ndarray:
    """The vectors to begin with: those given, or a sample's components, on all points.

    The sample is random, as the points are in random order.
    """
    random = search.random
    if start is not None:
        return np.asarray(start, dtype=float)[search.order]
    sample = tiles.sample()
    if sample is None or len(sample) < 4 * search.c:
        return random
    V = random[: len(sample), : len(sample) // 4]
    for _ in range(4):
        V = V - V.mean(axis=0)
        V = _orthonormal((sample @ V.astype(sample.dtype)).astype(float))
    first = tiles.from_sample(V - V.mean(axis=0))
    if search.unproved:  # what is negative need not show in the sample
        first = np.hstack([first, random[:, :2] * np.abs(first).max()])
    return first


def _confirmed(
    problem: Components, order: np.ndarray, found: Eigenpairs, ticking: _Ticking
) -> Eigenpairs:
    """The same vectors with values, residuals and means in double precision.

    One product with each pair of points compared once. Where there is no time for it
    the residuals are not known.
    """
    vectors = found.vectors
    product = Centered(Tiles(problem.gram, order, np.float64, 0.0), ticking)
    images = np.empty_like(vectors)
    try:
        images[order] = product(vectors[order])
    except OutOfTime:
        unknown = np.full(len(found.values), np.nan)
        run = replace(found.run, precision="single")
        return replace(found, residuals=unknown, rounding=np.nan, run=run)
    means = np.empty(len(vectors))
    means[order] = product.means
    values = np.einsum("ij,ij->j", vectors, images)
    by_size = np.argsort(-values, kind="stable")
    run = replace(found.run, iterations=found.run.iterations + 1, precision="single")
    chosen = (values[by_size], vectors[:, by_size], images[:, by_size])
    return eigenpairs(problem.gram, *chosen, means, least=found.least, run=run)


def _agrees(gram: Gram, order: np.ndarray, tol: float) -> bool:
    """Whether single precision changes K̃, on a sample of points, by less than tol/2.

    By so much it would change the residuals; both relative to the largest eigenvalue.
    """
    few = order[:SAMPLE]
    rough = Tiles(gram, few, np.float32, side=SAMPLE).compute(0, 0).astype(float)
    if not np.isfinite(rough).all():
        return False
    exact = gram.kernel(double(take(gram.X, few)))
    H = np.eye(len(few)) - 1 / len(few)
    with blas_for(len(few)):
        sizes = [
            np.abs(np.linalg.eigvalsh(H @ K @ H)).max() for K in (rough - exact, exact)
        ]
    return bool(sizes[0] <= tol / 2 * sizes[1])


def _descending(T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, S = _eigh((T + T.T) / 2)
    return values[::-1], S[:, ::-1]


def _orthonormal(V: np.ndarray, Q: np.ndarray | None = None) -> np.ndarray:
    """An orthonormal basis of what the columns of V span, outside the span of Q."""
    for _ in range(3):
        V = _unit(V)
        if Q is not None:
            V = V - multiply(Q, multiply(Q.T, V))
        squares, S = _eigh(multiply(V.T, V))
        kept = squares > 1e-10
        V = multiply(V, S[:, kept] / np.sqrt(squares[kept]))
    return V


def _eigh(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # Of numpy, as the products around it: going to and fro between two BLAS is slow.
    with blas_for(len(A)):
        return interruptible(np.linalg.eigh, A, work=4.0 * len(A) ** 3)


def _unit(V: np.ndarray) -> np.ndarray:
    """The columns of V at length 1; those of length 0 as they are."""
    norms = np.linalg.norm(V, axis=0)
    return V / np.where(norms > 0, norms, 1.0)
