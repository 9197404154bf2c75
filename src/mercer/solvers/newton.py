"""Newton's method on a `Penalized` problem with a curved loss, of one or more columns.

With g = Kc, f = g + b, slopes u and curvatures H of the losses at f, and λ = 2 reg m
the optimum has F = λc + wu = 0, and a step solves (λI + HK) Δ = -F. With H = S Sᵀ

    Δ = -F/λ + S z,    (λI + SᵀKS) z = SᵀKF/λ

is symmetric, and divides by no curvature: 0 is allowed. For few points the system is
factored, for many it is solved by preconditioned conjugate gradients. With an explicit
map, K = ΦΦᵀ, it is solved for p numbers instead (`primal.py`),

    Δ = -F/λ + HΦv,    (λI + ΦᵀHΦ) v = ΦᵀF/λ

in time linear in n. A bias takes its best value after every step, which projects S; the
products K(wu) that the steps need also give the dual objective, so that every step
knows its duality gap.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError, lstsq
from scipy.optimize import brentq
from scipy.special import log_softmax, softmax, xlogy

from mercer.native import lapack
from mercer.native.interruptible import elementwise, interruptible, multiply
from mercer.native.threads import blas_for, one_blas_thread
from mercer.outcomes import Progress, Run, Solution, Status, Watch
from mercer.solvers.features import FeatureRows, features_of
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
from mercer.solvers.primal import (
    FeatureSums,
    NormalSystem,
    across,
    affordable,
    along,
    product,
    sample,
    weighted_normal,
)
from mercer.solvers.resume import begun

ROUGH = 20  # steps at most on the low-rank approximation
CLOSER = 1e-2  # of what a step leaves, in the coordinates of an explicit map
POLISH = 6  # further steps, where one costs next to nothing and digits are to be had


@dataclass(frozen=True)
class Softmax:
    """ℓ(y, f) = ln Σⱼ e^fⱼ - f_y for classes y = 0..k-1: f has a column for each.

    -ln of the probability e^f_y / Σⱼ e^fⱼ of y. Its slopes are u = p - e_y.
    """

    k: int

    of_sides: ClassVar[bool] = True
    curved: ClassVar[bool] = True
    steepest: ClassVar[float] = 0.5

    def value(self, target: np.ndarray, f: np.ndarray) -> np.ndarray:
        """ℓ(y, f), (n,); an f of one column stands for k equal ones."""
        if np.ndim(f) == 1:
            return np.full(len(target), np.log(self.k))
        return -np.take_along_axis(log_softmax(f, axis=1), target[:, None], 1)[:, 0]

    def slope(self, target: np.ndarray, f: np.ndarray) -> np.ndarray:
        """p - e_y, (n, k)."""
        u = softmax(f, axis=1)
        u[np.arange(len(target)), target] -= 1
        return u

    def conjugate(self, target: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Σⱼ pⱼ ln pⱼ with p = u + e_y, where p is a probability."""
        p = np.array(u)
        p[np.arange(len(target)), target] += 1
        # The slope of a sure point is a little off: 1 - 1 leaves a rounding error.
        return xlogy(np.maximum(p, 0), np.maximum(p, 0)).sum(axis=1)


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
            primal = _Primal(problem, self)
            with blas_for(primal.features.shape[1]):
                return _Run(self, problem, primal, begin, watch)(start)
        side = problem.gram.shape[0] * _columns(problem)
        if side <= self.direct:
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


def _columns(problem: Penalized) -> int:
    return getattr(problem.loss, "k", 1)


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
        method: _Factored | _Iterated | _Primal,
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
        self.kept = begun()
        self.first: tuple[float, float] | None = None  # seconds and gap, at first
        self.violation = self.primal = self.gap = np.nan
        self.k = _columns(problem)
        self.single = not isinstance(problem.loss, Softmax)
        self.w = problem.weights[:, None]
        self.refuted = problem.gram.kernel.psd is False
        self.products = 0

    def __call__(self, start: np.ndarray | None) -> Solution:
        at = self._from(start)
        if self.pulse.stopped:
            if not at.c.any():
                return self._untrained(at)
            self.method.sharper()  # there is time for one product, and that is true
        goal, polished, best = self.options.tol * self.problem.zero_loss, 0, np.inf
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
                return self._solution(at, status, round)
            if not self._advance(at):
                if not self.method.sharper():
                    return self._solution(at, self._stuck(at, goal), round)
                at.g = self.method.times(at.c)
        raise AssertionError("the last round has a status")

    def _untrained(self, at: _Point) -> Solution:
        """f = b, without a product: no loss is less than 0, which u = 0 says."""
        slope, f = self._slope(at.f), self._shaped(at.f)
        self.violation = float(np.max(np.abs(slope), initial=0.0))
        self.u = self.image = np.zeros_like(slope)
        self.rough, self.method.sharp = None, True
        self.primal = self.problem.primal(0.0, f)
        self.dual = self.problem.dual(self._shaped(self.u), 0.0)
        self.gap = self.primal - self.dual
        return self._solution(at, "stopped", 0)

    def _from(self, start: np.ndarray | None) -> _Point:
        """Where to begin: at the coefficients given, near a rough solution, or at 0."""
        n = self.problem.gram.shape[0]
        start = self.kept.get("coef") if start is None else start
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
        root = self._root(at.f)
        F = self.w * self._slope(at.f) - root.up(root.down(at.f))
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
        self.u = self._slope(f)
        wu = self.w * self.u
        self.rough = None
        if near is None:
            image = self.method.times(wu)
        else:
            assert image_of_near is not None and isinstance(self.method, _Iterated)
            self.rough = wu - near if self.method.fast.single else None
            image = image_of_near + self.method.roughly(wu - near)
        self.image = image
        self.primal = problem.primal(float(np.sum(at.c * at.g)), self._shaped(f))
        self.dual = problem.dual(self._shaped(self.u), float(np.sum(wu * image)))
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
            0 if self.options.features else self.method.products,
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
        root = self._root(at.f)
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
        if isinstance(self.method, _Primal):  # which may read its points from files
            self.kept["coef"] = at.c
        return True

    def _length(
        self, at: _Point, delta: np.ndarray, image: np.ndarray, change: np.ndarray
    ) -> float:
        """t for which c + tΔ is about best: on a line all is known but the losses."""
        lam, f = self.problem.strength, at.f
        linear, square = lam * np.sum(at.c * image), lam * np.sum(delta * image)

        def slope(t: float) -> float:
            u = self._slope(f + t * change)
            return float(linear + t * square + np.sum(self.w * u * change))

        first = slope(0.0)
        if self.method.refuted:
            return 1.0
        if not first < 0:
            return 0.0
        if abs(slope(1.0)) <= 0.3 * abs(first):
            return 1.0
        high = 1.0
        while slope(high) < 0 and high < 1e6:
            high *= 2
        if slope(high) < 0:
            return high
        return float(brentq(slope, 0.0, high, xtol=1e-6 * high, rtol=1e-3))

    # The loss, in columns

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        return values[:, 0] if self.single else values

    def _slope(self, f: np.ndarray) -> np.ndarray:
        u = self.problem.loss.slope(self.problem.target, self._shaped(f))
        return np.asarray(u, dtype=float).reshape(f.shape)

    def _root(self, f: np.ndarray) -> _Root:
        root_w = np.sqrt(self.w)
        if self.single:
            curvature = self.problem.loss.curvature(self.problem.target, f[:, 0])
            return _Root(root_w * np.sqrt(curvature)[:, None], None, self.problem.bias)
        side = np.sqrt(softmax(f, axis=1))
        return _Root(root_w * side, side, self.problem.bias)

    def _biased(self, at: _Point) -> _Point:
        """The same with the best b: Σ wᵢ uᵢ = 0."""
        if self.problem.bias:
            at.b = self._best_constant(at) if self.single else self._best_columns(at)
        return at

    def _best_constant(self, at: _Point) -> np.ndarray:
        def total(b: float) -> float:
            return float(np.sum(self.w * self._slope(at.g + b)))

        low = high = float(at.b[0])
        here = total(low)
        if here == 0:
            return at.b
        step = -np.sign(here) * max(1e-3, 1e-3 * abs(low))
        while total(high) * here > 0 and abs(high) < 1e12:
            low, high, step = high, high + step, 4 * step
        if total(high) * here > 0:
            return at.b  # no best value: the loss falls for ever
        return np.array([brentq(total, low, high, xtol=1e-15, rtol=1e-15)])

    def _best_columns(self, at: _Point) -> np.ndarray:
        b, problem = at.b, self.problem
        loss = problem.mean(problem.loss.value(problem.target, at.g + b))
        for _ in range(100):
            p = softmax(at.g + b, axis=1)
            slope = np.sum(self.w * self._slope(at.g + b), axis=0)
            if np.abs(slope).max() <= 1e-13 * problem.mass:
                break
            hessian = np.diag(np.sum(self.w * p, axis=0)) - p.T @ (self.w * p)
            step, t = -lstsq(hessian, slope, cond=1e-12)[0], 1.0
            while t > 1e-3:
                trial = problem.mean(
                    problem.loss.value(problem.target, at.g + b + t * step)
                )
                if trial < loss:
                    break
                t /= 2
            else:
                # Beyond rounding there is nothing to gain but digits of b itself.
                return b + step if np.abs(step).max() < 1e-6 else b
            b, loss = b + t * step, trial
        return b - b.mean()

    def _solution(self, at: _Point, status: str, n_iter: int) -> Solution:
        flat = self.single
        indefinite = self.refuted or self.method.refuted
        rounding = self._rounding(at, self.options.tol * self.problem.zero_loss)
        return Solution(
            value=self._shaped(at.c),
            bias=float(at.b[0]) if flat else at.b,
            primal=np.nan if indefinite else self.primal + rounding.primal,
            dual=self.dual - rounding.dual,
            violation=self.violation,
            run=Run(
                Status(status),
                n_iter,
                time.perf_counter() - self.begin,
                0 if self.options.features else self.method.products * len(at.c),
            ),
            function=self._shaped(at.f),
            rounding=rounding.most,
            objective_rounding=rounding.objectives,
        )


class _Root:
    """S with S Sᵀ = H, the curvatures of the losses; with a bias those of its best b.

    S z = q∘Pz. P takes the component along √p out of the columns of a point (softmax),
    then with a bias those along Sᵀ1, one for each column.
    """

    def __init__(self, q: np.ndarray, side: np.ndarray | None, bias: bool):
        self.q, self.side, self.basis = q, side, None
        if bias:
            k = q.shape[1]
            columns = [
                self.down(np.tile(row, (len(q), 1))).ravel() for row in np.eye(k)
            ]
            V = np.column_stack(columns)
            values, vectors = np.linalg.eigh(V.T @ V)
            kept = values > 1e-12 * max(values.max(), 1e-300)
            self._inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
            self._bare = V
            self.basis = V @ (vectors[:, kept] / np.sqrt(values[kept]))

    def within(self, z: np.ndarray) -> np.ndarray:
        """z less its component along √p at every point."""
        if self.side is None:
            return z
        return z - self.side * np.sum(self.side * z, axis=1, keepdims=True)

    def projected(self, z: np.ndarray) -> np.ndarray:
        z = self.within(z)
        if self.basis is not None:
            flat = z.ravel()
            z = (flat - self.basis @ (self.basis.T @ flat)).reshape(z.shape)
        return z

    def up(self, z: np.ndarray) -> np.ndarray:
        """S z."""
        return self.q * self.projected(z)

    def down(self, v: np.ndarray) -> np.ndarray:
        """Sᵀ v."""
        return self.projected(self.q * v)

    def constant(self, change: np.ndarray) -> np.ndarray:
        """How much of a change of g its best b takes back."""
        if self.basis is None:
            return np.zeros(change.shape[1])
        z = self.within(self.q * change)
        return self._inverse @ (self._bare.T @ z.ravel())


class _Factored:
    """Steps by a factor of λI + SᵀKS, for few points."""

    polish = POLISH
    roughs = False
    sharp = True

    def sharper(self) -> bool:
        return False

    def __init__(self, problem: Penalized):
        self.sums = problem.sums
        self.reg, self.products, self.refuted = problem.strength, 0, False
        self.proved = problem.gram.kernel.psd is True
        self.K = np.asarray(problem.wide.dense(), dtype=float)

    def times(self, V: np.ndarray) -> np.ndarray:
        self.products += 1
        return multiply(self.K, V)

    def step(
        self, root: _Root, F: np.ndarray, KF: np.ndarray, forcing: float
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

    def _matrix(self, root: _Root) -> np.ndarray:
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
        if root.basis is not None:
            A -= root.basis @ (root.basis.T @ A)
            A -= (A @ root.basis) @ root.basis.T
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

    def _sharpened(self) -> bool:
        """Whether steps were in single precision, and are not from now on."""
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
        self, root: _Root, F: np.ndarray, KF: np.ndarray, forcing: float
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
        if not found.convex and self._sharpened():
            found = search()
        # What is negative in a kernel that is proved is rounding.
        self.refuted |= not found.convex and not self.proved
        delta = root.up(found.x) - F / self.reg
        if not np.isfinite(delta).all():  # λ is nothing beside K in these digits
            return np.zeros_like(F), np.zeros_like(F)
        return delta, self.times(delta)


class _Primal:
    """Steps in the coordinates of an explicit map, K = ΦΦᵀ: nothing is n × n."""

    roughs = False
    sharp = True

    def sharper(self) -> bool:
        return False

    def __init__(self, problem: Penalized, options: Newton):
        self.features = features_of(problem.gram)
        self.reg, self.products, self.refuted = problem.strength, 0, False
        self.options = options
        self.sums = FeatureSums(self.features)
        n, p = self.features.shape
        columns = p * _columns(problem)
        self.some = sample(n, columns, options.seed)
        self.factored = self.some is None and affordable(columns)
        self.polish = int(self.factored)  # one more step doubles the digits

    @cached_property
    def _some_features(self) -> FeatureRows:
        assert self.some is not None
        return self.features.take(self.some)

    def times(self, V: np.ndarray) -> np.ndarray:
        self.products += 1
        return product(self.features, V)

    def step(
        self, root: _Root, F: np.ndarray, KF: np.ndarray, forcing: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Δ and KΔ."""
        rhs = across(self.features, F) / self.reg

        def curved(v: np.ndarray) -> np.ndarray:
            self.products += 1
            return across(self.features, root.up(root.down(along(self.features, v))))

        system = NormalSystem(
            curved,
            (lambda: self._matrix(root, self.features)) if self.factored else None,
            lambda: self.features.squares(self._weights(root)),
            self.reg,
            self.options.max_products,
            together=True,
            near=None if self.some is None else partial(self._near, root),
        )
        # What is left of it counts in c by as much as Φ is long.
        v = system.solve(rhs, CLOSER * forcing * float(np.linalg.norm(rhs)))
        delta = root.up(root.down(along(self.features, v))) - F / self.reg
        return delta, self.times(delta)

    @staticmethod
    def _weights(root: _Root) -> np.ndarray:
        """The diagonal of H at each point, (n, k)."""
        square = root.q**2
        return square if root.side is None else square * (1 - root.side**2)

    def _near(self, root: _Root) -> np.ndarray:
        """ΦᵀHΦ of some of the points, each standing for many."""
        assert self.some is not None
        q = root.q[self.some] * np.sqrt(len(root.q) / len(self.some))
        side = None if root.side is None else root.side[self.some]
        part = _Root(q, side, root.basis is not None)
        return self._matrix(part, self._some_features)

    @staticmethod
    def _matrix(root: _Root, features: FeatureRows) -> np.ndarray:
        """ΦᵀHΦ, (pk, pk)."""
        p, k = features.shape[1], root.q.shape[1]
        shift = None
        if root.basis is not None and not features.sparse:
            # A bias takes any shift of Φ back; without it digits would cancel below.
            shift = features.mean()
        out = np.empty((k * p, k * p), order="F")
        for a in range(k):
            for b in range(a + 1):
                weights = root.q[:, a] * root.q[:, b]
                if root.side is not None:
                    weights = weights * ((a == b) - root.side[:, a] * root.side[:, b])
                part = weighted_normal(features, weights, shift)
                out[a * p : (a + 1) * p, b * p : (b + 1) * p] = part
                out[b * p : (b + 1) * p, a * p : (a + 1) * p] = part.T
        if root.basis is not None and root.basis.shape[1]:
            n, rank = len(root.q), root.basis.shape[1]
            images = [
                root.q * root.within(root.basis[:, j].reshape(n, k))
                for j in range(rank)
            ]
            rows = [across(features, image) for image in images]
            if shift is not None:
                rows = [
                    row - np.multiply.outer(shift, image.sum(axis=0))
                    for row, image in zip(rows, images, strict=True)
                ]
            U = np.stack([row.T.ravel() for row in rows])
            out -= U.T @ U
        return out
