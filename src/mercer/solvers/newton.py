"""Newton's method on a `Penalized` problem with a curved loss, of one or more columns.

With g = Kc, f = g + b, slopes u and curvatures H of the losses at f, and λ = 2 reg m
the optimum has F = λc + wu = 0, and a step solves (λI + HK) Δ = -F. With H = S Sᵀ

    Δ = -F/λ + S z,    (λI + SᵀKS) z = SᵀKF/λ

is symmetric, and divides by no curvature: 0 is allowed. For few points the system is
factored, for many it is solved by preconditioned conjugate gradients. With an explicit
map it is solved for p numbers instead (`feature_newton.py`). A bias takes its best
value after every step, which projects S; the products K(wu) that the steps need also
give the dual objective, so that every step knows its duality gap.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import LinAlgError

from mercer.data.partitions import Partitions
from mercer.native import lapack
from mercer.native.interruptible import elementwise, interruptible, multiply
from mercer.native.threads import blas_for, one_blas_thread
from mercer.outcomes import Progress, Run, Solution, Status, Watch
from mercer.solvers.columns import CurvatureRoot, LossColumns, Softmax
from mercer.solvers.feature_newton import FeatureNewton
from mercer.solvers.krylov import (
    WIDE_FACTOR,
    Krylov,
    LowRank,
    Products,
    Pulse,
    conjugate_gradient,
    factor,
    preconditioner_rank,
    whole_products,
)
from mercer.solvers.limits import TimeLimit, check_time_limit
from mercer.solvers.penalized import Penalized, Reading, RoundingErrors, rounding_of

__all__ = ["Newton", "Softmax"]

ROUGH = 20  # steps at most on the low-rank approximation
POLISH = 6  # further steps, where one costs next to nothing and digits are to be had


@dataclass(frozen=True)
class Newton:
    """Minimise a `Penalized` with a curved loss, until gap ≤ tol · (loss of f = 0).

    Parameters
    ----------
    max_iter : steps at most
    direct : points (times columns) up to which a step is solved by Cholesky's factors
    rank : of the preconditioner of conjugate gradients; None for 3√n
    max_products : of one step by conjugate gradients
    seed : of the columns that make the preconditioner
    features : whether steps are taken in the coordinates of the kernel's explicit map,
        in time linear in the points; the problem and its solution are the same
    time_limit : seconds; None for no limit. What was found by then is returned, with
        the status "time_limit" and its gap

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gram, RBF
    >>> from mercer.losses import Huber
    >>> from mercer.solvers import Newton, Penalized
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> problem = Penalized(Gram(RBF(1), X), np.sin(X[:, 0]), Huber(), reg=1e-3)
    >>> solution = Newton(tol=1e-6).solve(problem)
    >>> bool(solution.gap <= 1e-6 * problem.zero_loss)
    True
    """

    tol: float = 1e-4
    max_iter: int = 100
    direct: int = 1500
    rank: int | None = None
    max_products: int = 200
    seed: int = 0
    features: bool = False
    time_limit: float | None = None

    def __post_init__(self) -> None:
        check_time_limit(self)
        if not self.tol > 0:
            raise ValueError(f"Newton needs tol > 0; got tol={self.tol!r}.")

    def solve(
        self,
        problem: Penalized,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        """The minimiser, from the coefficients `start`; `watch` returns True to stop.

        The status is "optimal", "max_iter", "stopped", "stalled" (rounding is in the
        way) or "indefinite" (K is; then c is a stationary point at best).
        """
        if problem.reg is None:
            raise ValueError("Newton needs reg; `within_ball` finds it for a norm.")
        if self.time_limit is None:
            return self._solve(problem, start, watch, None)
        limit = TimeLimit(watch, self.time_limit)
        found = self._solve(problem, start, limit, limit)
        return limit.ended(found)

    def _solve(
        self,
        problem: Penalized,
        start: np.ndarray | None,
        watch: Watch | None,
        limit: TimeLimit | None,
    ) -> Solution:
        begin = time.perf_counter()
        if self.features:
            return FeatureNewton(self, problem, begin, watch, limit).solve(start)
        side = problem.gram.shape[0] * LossColumns(problem).k
        if side <= self.direct and not isinstance(problem.gram.X, Partitions):
            with blas_for(side):
                return _Run(self, problem, _Factored(problem), begin, watch)(start)
        pulse = Pulse(None if watch is None else partial(_preparing, watch, begin))
        if limit is not None:
            limit.pulse = pulse
        with one_blas_thread():
            method = _Iterated(problem, self, pulse)
            return _Run(self, problem, method, begin, watch, pulse)(start)


def _preparing(watch: Watch, begin: float, stage: str) -> bool:
    """Report what goes on before the first step."""
    return bool(watch(Progress(0, 0, 0, time.perf_counter() - begin, stage=stage)))


@dataclass
class _Point:
    """Where a run is: c, g = Kc and b; f = g + b."""

    c: np.ndarray
    g: np.ndarray
    b: np.ndarray

    @property
    def f(self) -> np.ndarray:
        return self.g + self.b


class _Run:
    """One solve, all arrays of k columns."""

    def __init__(
        self,
        options: Newton,
        problem: Penalized,
        method: _Factored | _Iterated,
        begin: float,
        watch: Watch | None,
        pulse: Pulse | None = None,
    ):
        self.options, self.problem, self.method = options, problem, method
        self.begin, self.watch = begin, watch
        self.pulse = Pulse() if pulse is None else pulse
        if watch is not None:
            self.pulse.report = self._report
        self.round, self.support = 0, 0
        self.first: tuple[float, float] | None = None  # seconds and gap, at first
        self.violation = self.primal = self.gap = np.nan
        self.columns = LossColumns(problem)
        self.k, self.w = self.columns.k, self.columns.w
        self.refuted = problem.gram.kernel.psd is False
        self.products = 0

    def __call__(self, start: np.ndarray | None) -> Solution:
        at = self._from(start)
        if self.pulse.stopped:
            if not at.c.any():
                return self._untrained(at)
            self.method.sharper()  # there is time for one product, and that is true
        goal, polished, best = self.options.tol * self.problem.zero_loss, 0, np.inf
        steps = 0
        for round in range(self.options.max_iter + 1):
            self._look(at)
            status = self._status(at, goal, round)
            if status and status != "indefinite" and self.method.sharper():
                # What is stated is true in double precision.
                self._look(at, *self._sharpened(at))
                early = status in ("stopped", "max_iter")
                status = status if early else self._status(at, goal, round)
                if early and self.gap <= goal and self._sure(at, goal):
                    status = "optimal"
            more = round < self.options.max_iter
            if status == "optimal" and more and polished < self.method.polish:
                # Digits are doubled by every step, until rounding ends it.
                polished, status = polished + 1, ""
                if self.violation > best / 2 or self.violation <= 1e-15:
                    status = "optimal"
            best = min(best, self.violation)
            if status:
                return self._solution(at, status, steps)
            if self._advance(at):
                steps += 1
            elif self.method.sharper():
                at.g = self.method.times(at.c)
                self._biased(at)  # a step takes b for the best one
            else:
                status = self._stuck(at, goal)
                if status != "stalled" or not self.method.finer():
                    return self._solution(at, status, steps)
        raise AssertionError("the last round has a status")

    def _untrained(self, at: _Point) -> Solution:
        """f = b, without a product: no loss is less than 0, which u = 0 says."""
        slope, f = self.columns.slope(at.f), self.columns.shaped(at.f)
        self.violation = float(np.max(np.abs(slope), initial=0.0))
        self.u = self.image = np.zeros_like(slope)
        self.rough, self.method.sharp = None, True
        self.primal = self.problem.primal(0.0, f)
        self.dual = self.problem.dual(self.columns.shaped(self.u), 0.0)
        self.gap = self.primal - self.dual
        return self._solution(at, "stopped", 0)

    def _from(self, start: np.ndarray | None) -> _Point:
        """Where to begin: at the coefficients given, near a rough solution, or at 0."""
        n = self.problem.gram.shape[0]
        c = np.zeros((n, self.k)) if start is None else np.array(start, dtype=float)
        c = c.reshape(n, self.k)
        if c.any():
            return self._biased(_Point(c, self.method.times(c), np.zeros(self.k)))
        at = self._biased(_Point(c, np.zeros((n, self.k)), np.zeros(self.k)))
        if not self.method.roughs or self.refuted or self.pulse.stopped:
            return at
        zero = _Point(at.c, at.g, at.b)
        near = self._rough(at)
        # Coefficients of a step that was cut short may be worse than none.
        return zero if self.pulse.stopped else near

    def _rough(self, at: _Point) -> _Point:
        """The solution for L Lᵀ in place of K, which costs little, and a step from it.

        The step starts from its values f, which are near, not from its coefficients,
        which give another function with K: λc + wu + H (Kc - f) = 0.
        """
        assert isinstance(self.method, _Iterated)
        self.method.coarse = True
        for _ in range(ROUGH):
            self._look(at)
            if self.gap <= 0.02 * self.problem.zero_loss or not self._advance(at):
                break
        self.method.coarse = False
        if self.pulse.stopped:
            return at
        root = self.columns.root(at.f)
        F = self.w * self.columns.slope(at.f) - root.bent(at.f)
        step = self.method.step(root, F, self.method.times(F), 0.05)
        return self._biased(_Point(step[0], step[1], at.b))

    def _sharpened(self, at: _Point) -> tuple[np.ndarray, np.ndarray]:
        """wu and K(wu) before g and b became precise; the slopes are near to them."""
        wu = self.w * self.u
        both = self.method.times(np.hstack([at.c, wu]))
        at.g, image = both[:, : self.k], both[:, self.k :]
        self._biased(at)
        return wu, image

    def _rounding(self, at: _Point, goal: float) -> RoundingErrors:
        """What rounding leaves of the objectives; read closely where that decides."""
        assert self.problem.reg is not None
        reading = Reading(
            at.c, at.f, at.b, self.u, self.image, self.problem.reg, self.rough
        )
        sums = self.method.sums
        found = rounding_of(self.problem, reading, sums=sums)
        if sums.bounded and self.gap <= goal < self.gap + found.gap:
            found = rounding_of(self.problem, reading, tight=True, sums=sums)
        return found

    def _look(
        self,
        at: _Point,
        near: np.ndarray | None = None,
        image_of_near: np.ndarray | None = None,
    ) -> None:
        """Slopes, objectives and gradient where the run is.

        Where K times a vector near to wu is known, what it lacks is a small product, to
        which single precision adds no error.
        """
        problem, lam = self.problem, self.problem.strength
        f = at.f
        self.u = self.columns.slope(f)
        wu = self.w * self.u
        self.rough = None
        if near is None:
            image = self.method.times(wu)
        else:
            assert image_of_near is not None and isinstance(self.method, _Iterated)
            self.rough = wu - near if self.method.fast.single else None
            image = image_of_near + self.method.roughly(wu - near)
        self.image = image
        self.primal = problem.primal(float(np.sum(at.c * at.g)), self.columns.shaped(f))
        self.dual = problem.dual(self.columns.shaped(self.u), float(np.sum(wu * image)))
        self.F, self.KF = lam * at.c + wu, lam * at.g + image
        self.violation = float(np.max(np.abs(self.F / self.w), initial=0.0))
        self.gap = self.primal - self.dual

    def _status(self, at: _Point, goal: float, round: int) -> str:
        self.round = round
        if self.watch is not None:
            self.support = int(np.count_nonzero(at.c.any(axis=1)))
            if self.first is None:
                self.first = time.perf_counter(), self.gap
            self.pulse.reported()
            if self.pulse.stopped or self._report(""):
                near = self.gap <= goal and self._sure(at, goal)
                return "optimal" if near else "stopped"
        size = self.problem.weights.max() / self.problem.weights.min()
        near = self.violation <= 1e-9 * size * np.abs(self.u).max(initial=1.0)
        if self.refuted or self.method.refuted:
            return "indefinite" if near or round == self.options.max_iter else ""
        if self.gap <= goal and self._sure(at, goal):
            return "optimal"
        return "max_iter" if round == self.options.max_iter else ""

    def _report(self, stage: str) -> bool:
        """Tell `watch` where the run is; whether to stop."""
        assert self.watch is not None
        progress = Progress(
            self.round,
            self.round,
            self.method.products,
            time.perf_counter() - self.begin,
            support=self.support,
            violation=self.violation,
            objective=self.primal,
            gap=np.nan if self.refuted else self.gap,
            left=self._left(),
            stage=stage,
        )
        return bool(self.watch(progress))

    def _left(self) -> float:
        """Seconds to the goal, if the gap falls as it has fallen so far."""
        if self.first is None or not 0 < self.gap < self.first[1]:
            return float("nan")
        goal = max(self.options.tol * self.problem.zero_loss, 1e-300)
        fallen = np.log(self.first[1] / self.gap)
        missing = max(0.0, np.log(self.gap / goal))
        return float((time.perf_counter() - self.first[0]) * missing / fallen)

    def _sure(self, at: _Point, goal: float) -> bool:
        """Whether the gap is below the goal, rounding included."""
        if not self.method.sharp:
            return True  # a first guess: what is sharper decides
        return self.gap + self._rounding(at, goal).gap <= goal

    def _stuck(self, at: _Point, goal: float) -> str:
        if self.refuted or self.method.refuted:
            return "indefinite"
        return "optimal" if self.gap <= goal and self._sure(at, goal) else "stalled"

    def _advance(self, at: _Point) -> bool:
        """One step; False where none leads down."""
        root = self.columns.root(at.f)
        # Ever more precise, as Newton's own error falls, but not beyond the goal.
        gap, zero_loss = max(self.gap, 1e-300), max(self.problem.zero_loss, 1e-300)
        needed = 0.1 * min(1.0, np.sqrt(self.options.tol * zero_loss / gap))
        forcing = max(min(0.1, np.sqrt(gap / zero_loss)), needed, 1e-6)
        delta, image = self.method.step(root, self.F, self.KF, forcing)
        t = self._length(at, delta, image, image - root.constant(image))
        if t == 0:
            return False
        at.c, at.g = at.c + t * delta, at.g + t * image
        self._biased(at)
        return True

    def _length(
        self, at: _Point, delta: np.ndarray, image: np.ndarray, change: np.ndarray
    ) -> float:
        """t for which c + tΔ is about best."""
        if self.method.refuted:
            return 1.0
        lam = self.problem.strength
        linear, square = lam * np.sum(at.c * image), lam * np.sum(delta * image)
        return self.columns.step_length(float(linear), float(square), at.f, change)

    def _biased(self, at: _Point) -> _Point:
        """The same with the best b: Σ wᵢ uᵢ = 0."""
        at.b = self.columns.best_bias(at.g, at.b)
        return at

    def _solution(self, at: _Point, status: str, n_iter: int) -> Solution:
        flat = self.columns.single
        indefinite = self.refuted or self.method.refuted
        rounding = self._rounding(at, self.options.tol * self.problem.zero_loss)
        return Solution(
            value=self.columns.shaped(at.c),
            bias=float(at.b[0]) if flat else at.b,
            primal=np.nan if indefinite else self.primal + rounding.primal,
            dual=self.dual - rounding.dual,
            violation=self.violation,
            run=Run(
                Status(status),
                n_iter,
                time.perf_counter() - self.begin,
                self.method.products * len(at.c),
            ),
            function=self.columns.shaped(at.f),
            rounding=rounding.most,
            objective_rounding=rounding.objectives,
        )


class _Factored:
    """Steps by a factor of λI + SᵀKS, for few points."""

    polish = POLISH
    roughs = False
    sharp = True

    def sharper(self) -> bool:
        return False

    finer = sharper

    def __init__(self, problem: Penalized):
        self.sums = problem.sums
        self.reg, self.products, self.refuted = problem.strength, 0, False
        self.proved = problem.gram.kernel.psd is True
        self.K = np.asarray(problem.wide.dense(), dtype=float)

    def times(self, V: np.ndarray) -> np.ndarray:
        self.products += 1
        return multiply(self.K, V)

    def step(
        self, root: CurvatureRoot, F: np.ndarray, KF: np.ndarray, forcing: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Δ and KΔ."""
        A = self._matrix(root)
        A[np.diag_indices_from(A)] += self.reg
        rhs = root.down(KF / self.reg)
        try:
            z = _solved(A, rhs.ravel())
        except LinAlgError:
            z = self._despite(A, rhs.ravel())
        delta = root.up(z.reshape(rhs.shape)) - F / self.reg
        return delta, self.times(delta)

    def _despite(self, A: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """A⁻¹ rhs of a matrix with an eigenvalue that is not above 0.

        Of a kernel that is proved none is below λ: what is, is rounding.
        """
        if self.proved:
            work = 10.0 * len(A) ** 3
            values, vectors = interruptible(np.linalg.eigh, A, work=work)
            return vectors @ ((vectors.T @ rhs) / np.maximum(values, self.reg))
        self.refuted = True
        return interruptible(np.linalg.lstsq, A, rhs, work=10.0 * len(A) ** 3)[0]

    def _matrix(self, root: CurvatureRoot) -> np.ndarray:
        """SᵀKS, (nk, nk)."""
        n, k = root.q.shape
        if k == 1:
            A = elementwise(lambda K: root.q * K * root.q.T, self.K)
        else:
            assert root.side is not None
            # Sᵢ, a k × k matrix for each point.
            S = root.q[:, :, None] * (
                np.eye(k) - root.side[:, :, None] * root.side[:, None, :]
            )
            A = interruptible(
                partial(np.einsum, "ica,ij,jcb->iajb", optimize=True),
                S, self.K, S, work=10.0 * (n * k) ** 2 * k,
            )  # fmt: skip
            A = A.reshape(n * k, n * k)
        basis = root.basis
        if basis is not None:
            A -= basis @ (basis.T @ A)
            A -= (A @ basis) @ basis.T
        return A


def _solved(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A⁻¹ b of a positive definite A."""
    R = np.array(A, order="F")
    if not lapack.factor(R):
        raise LinAlgError("The matrix is not positive definite.")
    return lapack.solve(R, b)


class _Iterated:
    """Steps by conjugate gradients, preconditioned by K ≈ L Lᵀ, for many points."""

    polish = 0
    roughs = True

    def __init__(self, problem: Penalized, options: Newton, pulse: Pulse):
        self.sums, self.pulse = problem.sums, pulse
        self.problem, self.reg, self.options = problem, problem.strength, options
        self.gram, self.products, self.refuted = problem.wide, 0, False
        self.proved = problem.gram.kernel.psd is True
        self.fast = Products(problem.gram, pulse=pulse)
        n = self.gram.shape[0]
        rank = options.rank or preconditioner_rank(n, int(3 * n**0.5))
        dtype = float if 8.0 * n * rank <= WIDE_FACTOR else np.float32
        # Without time for a step there is nothing to precondition.
        L = np.zeros((n, 1))
        if not pulse.stopped:
            L = factor(self.gram, rank, options.seed, dtype, pulse)
        self.L = L.astype(np.float32, order="F", copy=False)
        self.whole = whole_products(self.gram, pulse)
        self.sharp = not self.fast.single
        self.coarse = False  # whether L Lᵀ stands in for K

    def sharper(self) -> bool:
        """From now on products are double precision; False if they were."""
        before, self.sharp = self.sharp, True
        return not before

    def finer(self) -> bool:
        """From now on steps are in double precision, too; False if they were."""
        if not self.fast.single:
            return False
        self.fast = Products(self.gram, dtype=np.float64, pulse=self.pulse)
        self.sharp = True
        return True

    def times(self, V: np.ndarray) -> np.ndarray:
        if self.coarse:
            return (self.L @ (self.L.T @ V.astype(np.float32))).astype(float)
        self.products += 1
        return self.whole(V) if self.sharp else self.fast(V)

    def roughly(self, V: np.ndarray) -> np.ndarray:
        """K V in single precision where there is such a K."""
        self.products += 1
        return self.fast(V)

    def step(
        self, root: CurvatureRoot, F: np.ndarray, KF: np.ndarray, forcing: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Δ and KΔ, with λΔ + HKΔ + F ≤ forcing · F in length."""
        rhs, goal = root.down(KF / self.reg), forcing * np.linalg.norm(F)
        inverses = [LowRank(self.L, root.q[:, [j]], self.reg) for j in range(len(F[0]))]

        def apply(z: np.ndarray) -> np.ndarray:
            v = root.up(z)
            image = self.times(v) if self.coarse else self.roughly(v)
            return self.reg * z + root.down(image)

        def precondition(r: np.ndarray) -> np.ndarray:
            parts = [inverse(r[:, [j]]) for j, inverse in enumerate(inverses)]
            return root.projected(np.hstack(parts))

        def search() -> Krylov:
            return conjugate_gradient(
                apply,
                rhs,
                precondition,
                lambda r: np.linalg.norm(root.up(r)) <= goal,
                self.options.max_products,
                together=True,
                watch=lambda n_iter, r: self.pulse.stopped,
            )

        found = search()
        if not found.convex and self.finer():
            found = search()
        # What is negative in a kernel that is proved is rounding.
        self.refuted |= not found.convex and not self.proved
        delta = root.up(found.x) - F / self.reg
        if not np.isfinite(delta).all():  # λ is nothing beside K in these digits
            return np.zeros_like(F), np.zeros_like(F)
        return delta, self.times(delta)
