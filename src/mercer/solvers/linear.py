"""(K + diag(λ/w)) c = y by a dense factorisation, or by conjugate gradients.

With G = W^½ K W^½ and c = W^½ z the system reads (G + λI) z = W^½ y: symmetric for all
weights, and a point of weight 0 drops out. G lives in one n × n array: the lower
triangle and a copy of the diagonal keep it, the upper triangle takes the factors.
With an explicit map, K = ΦΦᵀ, the normal equations of p unknowns give c too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypedDict

import numpy as np

from mercer.data.points import precision, take
from mercer.gram import Gram
from mercer.kernels.base import BLOCK_MB, row_blocks
from mercer.native import lapack
from mercer.native.clock import OutOfTime, breakable
from mercer.native.interruptible import elementwise, multiply
from mercer.native.memory import check_room, fits
from mercer.native.sorting import distinct
from mercer.native.threads import blas_for, one_blas_thread
from mercer.outcomes import Certificate, Progress, Run, Solution, Status, Watch
from mercer.solvers.features import FeatureRows, features_of
from mercer.solvers.krylov import (
    WIDE_FACTOR,
    LowRank,
    Products,
    Pulse,
    conjugate_gradient,
    factor,
    preconditioner_rank,
    whole_products,
)
from mercer.solvers.limits import TimeLimit, check_time_limit
from mercer.solvers.primal import (
    ONCE,
    FeatureSums,
    NormalSystem,
    across,
    affordable,
    along,
    not_hat,
    weighted_normal,
)
from mercer.solvers.resume import begun
from mercer.solvers.rounding import UNIT, SumRounding, of_sum
from mercer.solvers.single_rows import in_single

EPS = np.finfo(float).eps
WORDS = (("violation", "relative residual"),)
MOST_FACTORED = 30_000  # points in reserve for Cholesky, which says nothing on its way
FAILURES = 2  # rounds that may leave more than a half of the residual
LEAST = 1e-14  # of a relative residual: what is left is rounding
BESIDE = 3000  # columns whose matrix one thread factors in a fraction of a second
DIGITS = 1e-4  # what a round in single precision takes off the residual


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """(K + diag(reg/weight)) c = target, the optimum of regularised least squares:

        min over f in the RKHS   ½ reg ‖f‖² + ½ Σᵢ weightᵢ (targetᵢ - f(xᵢ))²

    is attained by f = Σᵢ cᵢ k(xᵢ, ·). A point of weight 0 is absent: its cᵢ is 0.

    Parameters
    ----------
    target : (n,) array, or (n, q) for q targets
    reg : a number ≥ 0, or q of them, one per target
    weight : (n,) array of numbers ≥ 0, not all 0; None for ones

    Examples
    --------
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import Cholesky, LinearSystem
    >>> gram = Gram(Linear(), [[1.0], [2.0]])  # K = [[1, 2], [2, 4]]
    >>> problem = LinearSystem(gram, [1.0, 2.0], reg=1.0)
    >>> Cholesky().solve(problem).value.round(6).tolist()
    [0.166667, 0.333333]
    """

    gram: Gram
    target: Any
    reg: Any
    weight: Any = None

    def __post_init__(self) -> None:
        n, m = self.gram.shape
        if n != m:
            raise ValueError(
                f"LinearSystem needs the square Gram of one set of points; got {n} × "
                f"{m}. Make it with Gram(kernel, X)."
            )
        shape = np.shape(self.target)
        if len(shape) not in (1, 2) or shape[0] != n:
            raise ValueError(
                f"LinearSystem needs one target per point, ({n},) or ({n}, q); "
                f"got shape {shape}."
            )
        reg = np.asarray(self.reg, dtype=float)
        targets = shape[1] if len(shape) == 2 else 1
        if reg.ndim > 1 or reg.size not in (1, targets):
            raise ValueError(
                f"LinearSystem needs one reg, or one per target ({targets}); "
                f"got shape {reg.shape}."
            )
        if not np.all((reg >= 0) & (reg < np.inf)):
            raise ValueError(f"LinearSystem needs reg ≥ 0; got reg={self.reg!r}.")
        if self.weight is not None:
            self._check_weight(np.asarray(self.weight, dtype=float), n)

    @staticmethod
    def _check_weight(weight: np.ndarray, n: int) -> None:
        if weight.shape != (n,):
            raise ValueError(
                f"LinearSystem needs one weight per point, ({n},); got shape "
                f"{weight.shape}."
            )
        if not np.all((weight >= 0) & (weight < np.inf)):
            i = int(np.argmin((weight >= 0) & (weight < np.inf)))
            raise ValueError(
                f"LinearSystem needs finite weights ≥ 0; point {i} has {weight[i]}."
            )
        if not weight.any():
            raise ValueError(
                "LinearSystem needs a point with weight > 0; all weights are 0."
            )

    def coef(self, value: np.ndarray) -> np.ndarray:
        """The coefficients of the expansion: the solution itself."""
        return value


@dataclass(frozen=True)
class Cholesky:
    """Solve a `LinearSystem` by K + diag(reg/weight) = RᵀR, in float64.

    A direct method: `start` and `watch` have nothing to act on. The status is

    - "optimal" when the relative residual (in the norm weighted by `weight`, of the
      worst target) is at most tol,
    - "indefinite" when the matrix is invertible but has a negative eigenvalue: the
      system is solved, but its solution is no minimum,
    - "singular" when the matrix is singular to rounding: the least-squares solution of
      least norm stands in,
    - "imprecise" when rounding left a larger residual, or may have: also where a
      kernel that is proved has a negative eigenvalue, as only rounding can give it.

    Objectives and residual are computed in float64, and `rounding` bounds how far they
    are off; the primal is raised and the dual lowered by as much, so that the optimum
    is between them.
    Residuals are mostly far below tol: it leaves room for the bound of their rounding.

    Examples
    --------
    >>> from mercer import Gram, RBF
    >>> from mercer.solvers import Cholesky, LinearSystem
    >>> gram = Gram(RBF(1), [[0.0], [1.0], [2.0]])
    >>> solution = Cholesky().solve(LinearSystem(gram, [0.0, 1.0, 0.0], reg=0.1))
    >>> solution.status, bool(solution.violation < 1e-12)
    ('optimal', True)
    """

    tol: float = 1e-4

    def solve(
        self,
        problem: LinearSystem,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        with blas_for(problem.gram.shape[0]):
            return self._solve(problem)

    def _solve(self, problem: LinearSystem) -> Solution:
        begin = time.perf_counter()
        system = _Scaled(problem)
        target = system.target
        z, image = np.empty_like(target), np.empty_like(target)
        regs, statuses = system.regs, set()
        for reg in distinct(regs):
            columns = np.flatnonzero(regs == reg)
            z[:, columns], status = system.solve(reg, target[:, columns])
            image[:, columns] = system.times(z[:, columns])
            statuses.add(status)
        numbers, residual_error = system.certified(z, image, self.tol)
        if numbers["violation"] + residual_error > self.tol:
            statuses.add("imprecise")
        return Solution(
            value=system.unscaled(z),
            bias=0.0,
            **numbers,
            run=Run(
                _gravest(statuses), len(distinct(regs)), time.perf_counter() - begin
            ),
        )


_BY_GRAVITY = (
    Status.SINGULAR,
    Status.INDEFINITE,
    Status.STOPPED,
    Status.MAX_ITER,
    Status.IMPRECISE,
)


def _gravest(statuses: set[str]) -> Status:
    """The status to report of systems with several regs."""
    return next((one for one in _BY_GRAVITY if one in statuses), Status.OPTIMAL)


@dataclass(frozen=True)
class ConjugateGradient:
    """Solve a `LinearSystem` until the relative residual is at most tol.

    Inside, products with K are single precision, by a K in memory where it fits and by
    kernel values computed anew elsewhere; every few digits the residual is computed in
    double and the search goes on from it, with products in double where single
    precision gets no further. The residual bounds the error of f at the points:
    ‖f - f*‖ ≤ ‖residual‖, whatever the condition of the system, since
    K (K + λI)⁻¹ ≤ I. Needs reg > 0.

    Parameters
    ----------
    tol : for the worst target, in the norm weighted by `weight`
    max_iter : products with K, of one reg
    rank : of the preconditioner, K ≈ L Lᵀ on some columns; None for one by size
    seed : of the choice of those columns
    precision : "single" to end where single precision gets no further; or "auto"
    trust : "optimal" is what has a relative residual of at most this, rounding
        included; None for tol
    time_limit : seconds; None for no limit. What was found by then is returned, with
        the status "time_limit" and its residual

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gram, RBF
    >>> from mercer.solvers import Cholesky, ConjugateGradient, LinearSystem
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> problem = LinearSystem(Gram(RBF(1), X), np.sin(X[:, 0]), reg=0.1)
    >>> c, direct = (s.solve(problem).value for s in (ConjugateGradient(), Cholesky()))
    >>> bool(np.allclose(c, direct, atol=1e-5))
    True
    """

    tol: float = 1e-8
    max_iter: int = 1000
    rank: int | None = None
    seed: int = 0
    precision: str = "auto"
    trust: float | None = None
    time_limit: float | None = None

    def __post_init__(self) -> None:
        check_time_limit(self)

    @property
    def _trusted(self) -> float:
        return self.tol if self.trust is None else self.trust

    def solve(
        self,
        problem: LinearSystem,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        """The solution; `watch`, called with a `Progress`, returns True to stop."""
        with one_blas_thread():
            return self._solve(problem, start, watch)

    def _solve(
        self,
        problem: LinearSystem,
        start: np.ndarray | None,
        watch: Watch | None,
    ) -> Solution:
        begin = time.perf_counter()
        limit = None
        if self.time_limit is not None:
            watch = limit = TimeLimit(watch, self.time_limit)
        pace = _Pace(watch, begin, problem.gram.shape[0])
        if limit is not None:
            limit.pulse = pace.pulse
        system = _Lazy(problem, pace.pulse)
        n = system.gram.shape[0]
        regs, target = system.regs, system.target
        if not np.all(regs > 0):
            raise ValueError(
                f"ConjugateGradient needs reg > 0; got reg={problem.reg!r}. Cholesky "
                "takes 0."
            )
        rank = self.rank or preconditioner_rank(n, max(100, int(2 * n**0.65)))
        dtype = float if 8.0 * n * rank <= WIDE_FACTOR else np.float32
        if not pace.stopped:
            L = factor(system.wide, rank, self.seed, dtype, pace.pulse)
        z, statuses, products = np.zeros_like(target), set(), 0
        if start is not None:
            z += system.scaled(start)
        image = np.empty_like(target)
        for reg in distinct(regs):
            columns = np.flatnonzero(regs == reg)
            inverse = None
            if not pace.stopped:
                inverse = LowRank(L, system.root, reg, wide=True)
            run = _Descent(self, system, reg, inverse, pace)
            found = run(z[:, columns], target[:, columns])
            z[:, columns], image[:, columns], status = found
            products += run.products
            statuses.add(status)
        numbers, residual_error = system.certified(z, image, self._trusted)
        if numbers["violation"] + residual_error > self._trusted:
            statuses.add("imprecise")
        status = _gravest(statuses)
        if status == "stopped" and limit is not None and limit.expired:
            status = Status.TIME_LIMIT
        seconds = time.perf_counter() - begin
        return Solution(
            value=system.unscaled(z),
            bias=0.0,
            **numbers,
            run=Run(status, products, seconds, products * n),
        )


class _Descent:
    """Conjugate gradients for one reg: rounds of a few digits each."""

    def __init__(
        self,
        options: ConjugateGradient,
        system: _Lazy,
        reg: float,
        inverse: LowRank | None,
        pace: _Pace,
    ):
        self.options, self.system, self.reg = options, system, reg
        self.inverse, self.pace, self.products = inverse, pace, 0

    def __call__(
        self, z: np.ndarray, target: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, str]:
        """z, Gz and the status."""
        tol, size = self.options.tol, np.maximum(_norms(target), 1e-300)
        image = self.system.exact(z)
        residual = target - image - self.reg * z
        status, before = "optimal", np.inf
        goal_of_all = tol - self._residual_rounding(z, size)
        while (worst := float(np.max(_norms(residual) / size))) > goal_of_all:
            left = self.options.max_iter - self.products
            stopped = self.pace.stopped
            if stopped or left <= 0 or worst > before / 2:
                if not stopped and left > 0 and self._sharpened():
                    before = np.inf
                    continue
                status = "imprecise" if left > 0 else "max_iter"
                status = "stopped" if stopped else status
                break
            assert self.inverse is not None
            self.pace.goal = max(goal_of_all, 1e-300)
            before, goal = worst, np.maximum(goal_of_all / 2, DIGITS * worst) * size

            found = conjugate_gradient(
                lambda V: self.system.fast(V) + self.reg * V,
                residual,
                self.inverse,
                partial(_below, goal),
                left,
                watch=partial(self.pace.after_product, size),
            )
            self.products += found.n_iter
            if not found.convex:
                if self._sharpened():
                    before = np.inf
                    continue
                # What is negative in a kernel that is proved is rounding.
                proved = self.system.gram.kernel.psd is True
                status = "imprecise" if proved else "indefinite"
                break
            z = z + found.x
            image = self.system.exact(z)
            residual = target - image - self.reg * z
            goal_of_all = tol - self._residual_rounding(z, size)
        return z, image, status

    def _residual_rounding(self, z: np.ndarray, size: np.ndarray) -> float:
        """How much of the relative residual may be rounding; 0 where that is no matter.

        The goal leaves room for it, but does not go below a half.
        """
        tol = self.options.tol
        if self.options.trust is not None or not z.any():
            return 0.0
        residual_error = self.system.product_rounding(z, tight=False) / size
        if residual_error.max() > tol / 10:
            residual_error = self.system.product_rounding(z, tight=True) / size
        return min(float(residual_error.max()), tol / 2)

    def _sharpened(self) -> bool:
        """Go on in double precision; False where that was so, or is not asked for."""
        return self.options.precision == "auto" and self.system.sharpen()


class _Pace:
    """Reports of conjugate gradients: after each product, and within long ones."""

    def __init__(self, watch: Watch | None, begin: float, n: int):
        self.watch, self.begin, self.n = watch, begin, n
        self.pulse = Pulse(None if watch is None else self._report)
        self.done, self.worst, self.goal = 0, 1.0, 1e-300
        self.first: tuple[float, float] | None = None  # seconds and residual, at first

    @property
    def stopped(self) -> bool:
        return self.pulse.stopped

    def after_product(self, size: np.ndarray, n_iter: int, r: np.ndarray) -> bool:
        self.done += 1
        if self.watch is None:
            return False
        self.worst = float(np.max(_norms(r) / size))
        if self.first is None:
            self.first = time.perf_counter(), self.worst
        self.pulse.reported()
        self.pulse.stopped |= self._report("")
        return self.stopped

    def _report(self, stage: str) -> bool:
        seconds = time.perf_counter() - self.begin
        progress = Progress(
            self.done,
            self.done,
            self.done * self.n,
            seconds,
            support=self.n,
            violation=self.worst,
            words=WORDS,
            left=self._left(),
            stage=stage,
        )
        return self.watch is not None and bool(self.watch(progress))

    def _left(self) -> float:
        """Seconds to the goal, if the residual falls as it has fallen so far."""
        if self.first is None or not 0 < self.worst < self.first[1]:
            return float("nan")
        fallen = np.log(self.first[1] / self.worst)
        missing = max(0.0, np.log(self.worst / self.goal))
        return float((time.perf_counter() - self.first[0]) * missing / fallen)


def _below(goal: np.ndarray, r: np.ndarray) -> bool:
    return bool(np.all(_norms(r) <= goal))


@dataclass(frozen=True)
class NormalEquations:
    """Solve a `LinearSystem` by (ΦᵀWΦ + λI) v = ΦᵀWy, c = W(y - Φv)/λ, K = ΦΦᵀ.

    Φ is the explicit map of the kernel, of p columns: the time is linear in the points,
    and nothing n × n is computed. The matrix is factored, or for many columns the
    system solved by conjugate gradients; either way from its own residual anew, until
    the relative residual of the system of c is at most tol. Needs reg > 0.

    Parameters
    ----------
    tol : for the worst target, in the norm weighted by `weight`
    max_iter : products with Φ and Φᵀ, of one reg
    trust : "optimal" is what has a relative residual of at most this, rounding
        included; None for tol

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import Cholesky, LinearSystem, NormalEquations
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> problem = LinearSystem(Gram(Linear(), X), X @ [1.0, 2.0, 3.0] + 1, reg=0.1)
    >>> c, direct = (s.solve(problem).value for s in (NormalEquations(), Cholesky()))
    >>> bool(np.allclose(c, direct))
    True
    """

    tol: float = 1e-8
    max_iter: int = 5000
    trust: float | None = None

    def solve(
        self,
        problem: LinearSystem,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        """The solution; `watch`, called with a `Progress`, returns True to stop."""
        begin = time.perf_counter()
        kept = begun()
        system = _Explicit(problem, kept)
        if not np.all(system.regs > 0):
            raise ValueError(
                f"NormalEquations needs reg > 0; got reg={problem.reg!r}. Cholesky "
                "takes 0."
            )
        target, trusted = system.target, self.tol if self.trust is None else self.trust
        z, image = kept.get("z", np.zeros_like(target)).copy(), np.empty_like(target)
        weights = np.empty((system.features.shape[1], target.shape[1]))
        if start is not None:
            z += system.scaled(start)
        statuses, products = set(), 0
        with self._blas(system.features):
            for reg in distinct(system.regs):
                columns = np.flatnonzero(system.regs == reg)
                run = _NormalRounds(self, system, reg, target[:, columns], begin, watch)
                at, status = run(z[:, columns])
                z[:, columns], image[:, columns] = at.z, at.image
                weights[:, columns] = at.w
                kept["z"] = z
                products += run.products
                statuses.add(status)
        system.features.forget()  # a machine keeps the Gram, for leave-one-out
        numbers, residual_error = system.certified(z, image, trusted)
        if numbers["violation"] + residual_error > trusted:
            statuses.add("imprecise")
        seconds = time.perf_counter() - begin
        return Solution(
            value=system.unscaled(z),
            bias=0.0,
            **numbers,
            run=Run(_gravest(statuses), products, seconds),
            weights=weights.reshape(len(weights), *system.shape[1:]),
        )

    @staticmethod
    def _blas(features: FeatureRows) -> AbstractContextManager[None]:
        # Rows are computed by our own threads, beside which those of BLAS would wait.
        side, most = features.shape[1], BESIDE if features.computed else 0
        return one_blas_thread() if side <= most else blas_for(side)


class _Candidate(NamedTuple):
    """z with w = ΦᵀW^½z, Gz and its residual, whose length is relative to y."""

    worst: float
    z: np.ndarray
    w: np.ndarray
    image: np.ndarray
    residual: np.ndarray


class _NormalRounds:
    """The normal equations for one reg: solved, and again from what is left."""

    def __init__(
        self,
        options: NormalEquations,
        system: _Explicit,
        reg: float,
        target: np.ndarray,
        begin: float,
        watch: Watch | None,
    ):
        self.options, self.system, self.reg, self.target = options, system, reg, target
        self.begin, self.products, self.stopped = begin, 0, False
        self.size = np.maximum(_norms(target), 1e-300)
        self.scale: np.ndarray | float = 1.0
        self.reported = None if watch is None else partial(self._reported, watch)
        self.digits = DIGITS

    def __call__(self, z: np.ndarray) -> tuple[_Candidate, str]:
        """What was found, and the status."""
        system, failures = self.system, 0
        best = at = self._candidate(z, system.gathered(z))
        if best.worst <= self.options.tol:
            return best, "optimal"
        self.normal = self._factors()
        if self.normal.R is not None and system.features.computed:
            at = self._from_few_readings(at)
            best = min(best, at, key=lambda one: one.worst)
        while True:
            status = self._status(best.worst, failures, self.normal.R is not None)
            if status:
                return best, status
            v = self._solved(system.gathered(at.residual), at.worst)
            z, w = system.round_trip(v, at.residual, self.reg, at.z)
            at = self._candidate(z, w)
            if self.reported is not None and self.normal.R is not None:
                self.scale = 1 / self.size
                self.reported(0, at.residual)
            if at.worst > best.worst / 2:
                # What is left of v counts in c by as much as Φ is long.
                failures, self.digits = failures + 1, DIGITS * self.digits
            best = min(best, at, key=lambda one: one.worst)

    def _from_few_readings(self, at: _Candidate) -> _Candidate:
        """Rounds that read Φ once each, until the residual seems small enough.

        Of z = (W^½y - W^½Φv)/λ the residual is W^½Φ(v - w), w = ΦᵀW^½z, and that of the
        normal equations λ(w - v). Rounding of Φv grows by 1/λ in z: the last digits, of
        a small λ, are left to rounds that read more.
        """
        system, before = self.system, np.inf
        v = at.w + self._solved(system.gathered(at.residual), at.worst)
        while True:
            z, w = system.round_trip(v, self.target, self.reg)
            guess = self._guess(w - v)
            if guess > before / 2 and system.sharpen():
                self.normal, before = self._factors(), np.inf
            elif self.options.tol < guess <= before / 2 and not self.stopped:
                before = guess
            else:
                return self._candidate(z, w)
            v = v + self._solved(self.reg * (w - v), guess)

    def _candidate(self, z: np.ndarray, w: np.ndarray) -> _Candidate:
        image = self.system.spread(w)
        residual = self.target - image - self.reg * z
        worst = float(np.max(_norms(residual) / self.size))
        return _Candidate(worst, z, w, image, residual)

    def _guess(self, left: np.ndarray) -> float:
        """About the relative residual, the length of W^½Φ left, by ΦᵀWΦ."""
        squares = np.sum(left * (self.system.matrix() @ left), axis=0)
        worst = np.sqrt(np.maximum(squares, 0.0)) / self.size
        if self.reported is not None:
            self.scale = 1 / self.size
            self.reported(0, (worst * self.size)[None])
        return float(np.max(worst))

    def _factors(self) -> NormalSystem:
        system = self.system
        made = NormalSystem(
            system.curved,
            system.matrix if system.factored else None,
            lambda: system.features.squares(system.root**2),
            self.reg,
            self.options.max_iter,
        )
        # Rounding of single precision may leave no definite matrix.
        lacking = system.factored and made.R is None
        return self._factors() if lacking and system.sharpen() else made

    def _solved(self, rhs: np.ndarray, worst: float) -> np.ndarray:
        """The solution of the normal equations, to some digits."""
        lengths = np.maximum(_norms(rhs), 1e-300)
        self.scale = worst / lengths  # a residual of v, as one of the system of c
        v = self.normal.solve(rhs, self.digits * lengths, self.reported)
        self.products += max(1, self.normal.products)
        self.normal.products = 0
        return v

    def _status(self, worst: float, failures: int, factored: bool) -> str:
        """How it ended, or nothing."""
        options = self.options
        # With factors and Φ at hand digits cost next to nothing, as long as there are.
        cheap = factored and not self.system.features.computed
        if worst <= options.tol and (not cheap or failures or worst <= LEAST):
            return "optimal"
        if self.stopped:
            return "stopped"
        if failures > FAILURES:
            return "optimal" if worst <= (options.trust or 0.0) else "imprecise"
        return "max_iter" if self.products >= options.max_iter else ""

    def _reported(self, watch: Watch, n_iter: int, r: np.ndarray) -> bool:
        done, n = self.products + n_iter, self.system.shape[0]
        worst = float(np.max(_norms(r) * self.scale))
        seconds = time.perf_counter() - self.begin
        progress = Progress(
            done, done, 0, seconds, support=n, violation=worst, words=WORDS
        )
        self.stopped = bool(watch(progress))
        return self.stopped


@dataclass(frozen=True)
class BySize:
    """Cholesky for few points, conjugate gradients for many, Cholesky if those fail.

    Parameters
    ----------
    few : points up to which the matrix is factored at once
    time_limit : seconds; None for no limit. Factors for which there is no time give way
        to what conjugate gradients find
    """

    few: int = 3000
    tol: float = 1e-8
    time_limit: float | None = None

    def solve(
        self,
        problem: LinearSystem,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        limit = TimeLimit(None, self.time_limit)
        if isinstance(self.chosen(problem), Cholesky):
            try:
                with breakable():
                    return Cholesky().solve(problem)
            except OutOfTime:
                if not self._is_definite(problem):
                    raise  # nothing else solves such a system
        solver = replace(self._gradients(problem), time_limit=limit.left)
        found = solver.solve(problem, start=start, watch=watch)
        ended = found.status in ("optimal", "stopped", "time_limit")
        if ended or not self._factors_fit(problem):
            return found
        try:
            with breakable():
                return Cholesky().solve(problem)
        except OutOfTime:
            return found.ended(Status.TIME_LIMIT)

    def chosen(self, problem: LinearSystem) -> Cholesky | ConjugateGradient:
        """What is tried first."""
        if problem.gram.shape[0] <= self.few or not self._is_definite(problem):
            return Cholesky()
        return self._gradients(problem)

    def _gradients(self, problem: LinearSystem) -> ConjugateGradient:
        single = precision(problem.gram.X) == np.float32
        return ConjugateGradient(
            1e-6 if single else self.tol,
            # So many products cost about as much as the factors.
            max(30, problem.gram.shape[0] // 60),
            precision="single" if self._factors_fit(problem) else "auto",
            trust=Cholesky.tol,
        )

    @staticmethod
    def _is_definite(problem: LinearSystem) -> bool:
        """Whether K + λI is known to be, as far as its kernel is."""
        regs = np.asarray(problem.reg, dtype=float)
        return problem.gram.kernel.psd is not False and bool(np.all(regs > 0))

    @staticmethod
    def _factors_fit(problem: LinearSystem) -> bool:
        n = problem.gram.shape[0]
        return n <= MOST_FACTORED and fits(8.0 * n * n)


def certificate(problem: LinearSystem, solution: Solution) -> Certificate:
    """The certificate of a solution; its margin is that of the longest f."""
    coef = np.asarray(solution.value).reshape(len(solution.value), -1)
    weight = (
        np.ones(len(coef)) if problem.weight is None else np.asarray(problem.weight)
    )
    used = weight > 0
    # K c = y - (reg / weight) c, up to the residual.
    coef, weight = coef[used], weight[used, None]
    shrink = np.asarray(problem.reg, dtype=float) * coef / weight
    target = np.asarray(problem.target, dtype=float).reshape(len(used), -1)[used]
    values, root = target - shrink, np.sqrt(weight)
    residual = (solution.violation + solution.rounding) * _norms(root * target)
    squares = np.sum(coef * values, axis=0) + residual * _norms(coef / root)
    square = float(np.max(squares, initial=0.0)) + of_sum(coef * values)
    margin = square**-0.5 if square > 0 else float("inf")
    return Certificate.of(solution, int(np.sum(coef.any(axis=1))), 0, margin)


def inverse_diagonal(problem: LinearSystem) -> np.ndarray:
    """The diagonal of (K + diag(reg/weight))⁻¹, a column per target as in the target.

    Points of weight 0 get 0. A singular matrix is refused.
    """
    with blas_for(problem.gram.shape[0]):
        system = _Scaled(problem)
        columns = {reg: system.inverse_diagonal(reg) for reg in distinct(system.regs)}
    # W^½ once here and once in `unscaled`: the diagonal of W^½ (G + λI)⁻¹ W^½.
    return system.unscaled(
        system.root * np.column_stack([columns[reg] for reg in system.regs])
    )


def inverse_diagonal_by_map(problem: LinearSystem) -> np.ndarray:
    """`inverse_diagonal` by the hat matrix of an explicit map; needs reg > 0."""
    system = _Explicit(problem)
    weights = system.root[:, 0] ** 2
    columns = {
        reg: weights * not_hat(system.features, weights, reg) / reg
        for reg in distinct(system.regs)
    }
    found = np.column_stack([columns[reg] for reg in system.regs])
    return system.unscaled(found / system.root)


class _Numbers(TypedDict):
    """What a `Solution` has beside its value, by the names it has there."""

    primal: float
    dual: float
    violation: float
    rounding: float
    objective_rounding: float


class _Weighted:
    """W^½ y and the Gram on the points of positive weight; z to c and back."""

    def __init__(self, problem: LinearSystem):
        self.shape = np.shape(problem.target)
        target = np.asarray(problem.target, dtype=float).reshape(self.shape[0], -1)
        self.regs = np.broadcast_to(
            np.asarray(problem.reg, dtype=float), target.shape[1:]
        )
        self.gram = problem.gram
        self.root = np.ones((self.shape[0], 1))
        self.present: Any = slice(None)
        self.weighted = problem.weight is not None
        if self.weighted:
            weight = np.asarray(problem.weight, dtype=float)
            if not weight.all():
                self.present = np.flatnonzero(weight)
                self.gram = self.gram.take(self.present)
            self.root = np.sqrt(weight[self.present])[:, None]
        self.target = np.asfortranarray(self.root * target[self.present])

    def scaled(self, c: np.ndarray) -> np.ndarray:
        """z = W^-½ c."""
        c = np.asarray(c, dtype=float).reshape(self.shape[0], -1)
        return c[self.present] / self.root

    @cached_property
    def rounding(self) -> SumRounding:
        """How far K c can be off."""
        return SumRounding(self.gram.double())

    def product_rounding(self, z: np.ndarray, tight: bool) -> np.ndarray:
        """The length of what G z can be off by, of each column."""
        return _norms(self.root * self.rounding(self.root * z, tight))

    def certified(
        self, z: np.ndarray, image: np.ndarray, tol: float
    ) -> tuple[_Numbers, float]:
        """Objectives, relative residual and their rounding; that of the residual alone.

        Parameters
        ----------
        image : G z, in double precision
        tol : of the residual; where rounding could pass it, it is bounded more tightly
        """
        numbers, residual_error = self._certified(z, image, False)
        violation = numbers["violation"]
        if self.rounding.bounded and violation <= tol < violation + residual_error:
            return self._certified(z, image, True)
        return numbers, residual_error

    def _certified(
        self, z: np.ndarray, image: np.ndarray, tight: bool
    ) -> tuple[_Numbers, float]:
        target, regs = self.target, self.regs
        residual, off = target - image - regs * z, target - image
        energy = np.sum(z * image, axis=0)
        error = self.root * self.rounding(self.root * z, tight)
        error += 4 * UNIT * (np.abs(target) + np.abs(image) + np.abs(regs * z))
        # Errors of different points are of either sign.
        of_energy = regs @ _norms(z * error) + of_sum(regs * z * image)
        of_loss = np.linalg.norm((2 * np.abs(off) + error) * error) + of_sum(off**2)
        of_primal = float(of_energy + of_loss) / 2
        of_dual = float(of_energy + of_sum(regs * z * (2 * target - regs * z))) / 2
        linear = np.sum(z * (2 * target - regs * z), axis=0)
        size = _norms(target)
        of_residual = float(np.max(_ratio(_norms(error), size), initial=0.0))
        numbers: _Numbers = {
            "primal": float(regs @ energy + np.sum(off**2)) / 2 + of_primal,
            "dual": float(regs @ (linear - energy)) / 2 - of_dual,
            "violation": float(np.max(_ratio(_norms(residual), size), initial=0.0)),
            "rounding": max(2 * of_primal, 2 * of_dual, of_residual),
            "objective_rounding": 2 * (of_primal + of_dual),
        }
        return numbers, of_residual

    def unscaled(self, z: np.ndarray) -> np.ndarray:
        """c = W^½ z, and 0 for the points of weight 0, in the shape of the target."""
        c = np.zeros((self.shape[0], z.shape[1]))
        c[self.present] = self.root * z
        return c.reshape(self.shape)


class _Lazy(_Weighted):
    """G V without G in memory, or in single precision."""

    def __init__(self, problem: LinearSystem, pulse: Pulse):
        super().__init__(problem)
        self.pulse = pulse
        self.products = Products(self.gram, pulse=pulse)
        # In single precision K z would be known to fewer digits than are asked for.
        self.wide = self.gram.double()

    def fast(self, V: np.ndarray) -> np.ndarray:
        return self.root * self.products(self.root * V)

    def sharpen(self) -> bool:
        """From now on `fast` is double precision; False if it was."""
        before = self.products.single
        if before:
            self.products = Products(self.wide, dtype=np.float64, pulse=self.pulse)
        return before

    @cached_property
    def _whole(self) -> Callable[[np.ndarray], np.ndarray]:
        return whole_products(self.wide, self.pulse)

    def exact(self, V: np.ndarray) -> np.ndarray:
        if not V.any():
            return np.zeros_like(V)
        return self.root * self._whole(self.root * V)


class _Explicit(_Weighted):
    """G = W^½ ΦΦᵀ W^½ by the explicit map of the kernel."""

    def __init__(self, problem: LinearSystem, kept: dict[str, Any] | None = None):
        super().__init__(problem)
        self.kept = {} if kept is None else kept
        self.features = features_of(self.gram, once=True)
        self.factored = affordable(self.features.shape[1], ONCE)
        self.rough = in_single(self.features)  # whose ΦᵀWΦ is factored
        self._normal: np.ndarray | None = None

    @cached_property
    def rounding(self) -> FeatureSums:  # type: ignore[override]
        return FeatureSums(self.features)

    def gathered(self, V: np.ndarray) -> np.ndarray:
        """ΦᵀW^½ V."""
        if not V.any():
            return np.zeros((self.features.shape[1], V.shape[1]))
        return across(self.features, self.root * V)

    def spread(self, v: np.ndarray) -> np.ndarray:
        """W^½Φ v."""
        if not v.any():
            return np.zeros((len(self.root), v.shape[1]))
        return self.root * along(self.features, v)

    def round_trip(
        self, v: np.ndarray, target: np.ndarray, reg: float, z: np.ndarray | float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """z + (target - W^½Φv) / reg, and ΦᵀW^½ of that."""
        out = np.zeros_like(target) + z

        def between(f: np.ndarray, rows: slice) -> np.ndarray:
            out[rows] += (target[rows] - self.root[rows] * f) / reg
            return self.root[rows] * out[rows]

        return out, self.features.round_trip(v, between)[1]

    def curved(self, v: np.ndarray) -> np.ndarray:
        """ΦᵀWΦ v."""
        if not v.any():
            return np.zeros_like(v)
        return self.features.round_trip(v, lambda f, rows: self.root[rows] ** 2 * f)[1]

    def matrix(self) -> np.ndarray:
        """ΦᵀWΦ, to single precision unless `sharpen` was asked for."""
        if self._normal is None:
            # Sums in single precision do not go on in double.
            word = "double" if self.rough is self.features else "single"
            kept = self.kept.setdefault(word, {})
            self._normal = weighted_normal(self.rough, self.root[:, 0] ** 2, kept=kept)
        return self._normal

    def sharpen(self) -> bool:
        """From now on `matrix` is in double precision; False if it was."""
        if self.rough is self.features:
            return False
        self.rough, self._normal = self.features, None
        return True


class _Scaled(_Weighted):
    """(G + λI) z = W^½ y with G in memory, for one λ after another."""

    def __init__(self, problem: LinearSystem):
        super().__init__(problem)
        self.matrix = _own_dense(self.gram)
        if self.weighted:
            self.matrix *= self.root
            self.matrix *= self.root.T
        self.diagonal = self.matrix.diagonal().copy()
        # Of a kernel that is proved, what is negative is rounding.
        self.proved = problem.gram.kernel.psd is True

    @cached_property
    def rounding(self) -> SumRounding:
        diagonal = self.diagonal / self.root[:, 0] ** 2
        wide = self.gram.double()
        return SumRounding(wide, diagonal=diagonal, magnitudes=self._magnitudes)

    def _magnitudes(self, V: np.ndarray) -> np.ndarray:
        """|K| V from the lower triangle of G and the diagonal."""
        n, W = len(V), V / self.root
        out = np.abs(self.diagonal)[:, None] * W
        for i in range(0, n, 512):
            j = min(i + 512, n)
            strip = np.abs(np.tril(self.matrix[i:j, :j], i - 1))
            out[i:j] += strip @ W[:j]
            out[:j] += strip.T @ W[i:j]
        return out / self.root

    def solve(self, reg: float, target: np.ndarray) -> tuple[np.ndarray, str]:
        """z of (G + reg I) z = target, and the status."""
        if self._factor(reg):
            return lapack.solve(self.matrix, target), "optimal"
        inverse, vectors, status = self._spectral_inverse(reg)
        return multiply(vectors, inverse[:, None] * (vectors.T @ target)), status

    def inverse_diagonal(self, reg: float) -> np.ndarray:
        if self._factor(reg):
            # (RᵀR)⁻¹ = R⁻¹R⁻ᵀ: the squared lengths of the rows of R⁻¹.
            lapack.invert(self.matrix)
            return _upper_row_squares(self.matrix)
        inverse, vectors, status = self._spectral_inverse(reg)
        if status == "singular":
            raise np.linalg.LinAlgError(
                f"K + λI is singular at λ={reg}, so it has no inverse. Raise λ."
            )
        return elementwise(np.square, vectors) @ inverse

    def times(self, z: np.ndarray) -> np.ndarray:
        """G z, from the lower triangle and the diagonal."""
        off = self.diagonal - self.matrix.diagonal()
        return lapack.symmetric_product(self.matrix, z) + off[:, None] * z

    def _factor(self, reg: float) -> bool:
        """G + reg I = RᵀR, R in the upper triangle; False if that is not possible."""
        self._restore(reg)
        norm = _one_norm(self.matrix)
        if not lapack.factor(self.matrix):
            return False
        # Rounding can let a singular matrix pass; its condition number tells.
        return bool(lapack.condition(self.matrix, norm) > EPS)

    def _restore(self, reg: float) -> None:
        """G + reg I in both triangles."""
        A, n, size = self.matrix, len(self.diagonal), 512
        for i in range(0, n, size):
            j = min(i + size, n)
            A[i:j, j:] = A[j:, i:j].T
            A[i:j, i:j] = np.tril(A[i:j, i:j]) + np.tril(A[i:j, i:j], -1).T
        np.fill_diagonal(A, self.diagonal + reg)

    def _spectral_inverse(self, reg: float) -> tuple[np.ndarray, np.ndarray, str]:
        """1/eᵢ (0 for eᵢ = 0 to rounding), the eigenvectors, and the status."""
        self._restore(reg)
        values, vectors = lapack.eigh(self.matrix)
        vanishing = np.abs(values) <= len(values) * EPS * np.abs(values).max()
        inverse = np.divide(1, values, out=np.zeros_like(values), where=~vanishing)
        if vanishing.any():
            return inverse, vectors, "singular"
        if values[0] > 0:
            return inverse, vectors, "optimal"
        if self.proved and reg > 0:
            return 1 / np.maximum(values, reg), vectors, "imprecise"
        return inverse, vectors, "imprecise" if self.proved else "indefinite"


def _one_norm(A: np.ndarray, size: int = 512) -> float:
    """The largest Σᵢ |Aᵢⱼ| of a column."""
    parts = (A[:, j : j + size] for j in range(0, len(A), size))
    return max(float(np.abs(part).sum(axis=0).max()) for part in parts)


def _own_dense(gram: Gram) -> np.ndarray:
    """K in a float64 array that may be overwritten, column-major as LAPACK wants it.

    Where there is no room for K twice only the lower triangle is filled, in blocks.
    """
    gram = gram.double()
    n = gram.shape[0]
    if fits(16.0 * n * n):
        return elementwise(partial(np.array, dtype=float, order="C"), gram.dense()).T
    check_room(
        8.0 * n * n,
        f"Cholesky factors the {gram!r} as an array of",
        "Take fewer points.",
    )
    matrix = np.empty((n, n), order="F")
    for rows in row_blocks(n, n, BLOCK_MB):
        points = take(gram.X, rows)
        matrix[rows, rows] = gram.kernel(points)
        if rows.stop < n:
            below = take(gram.X, slice(rows.stop, n))
            matrix[rows.stop :, rows] = gram.kernel(points, below).T
    return matrix


def _upper_row_squares(A: np.ndarray, size: int = 512) -> np.ndarray:
    """Σⱼ Aᵢⱼ² over j ≥ i, for every row of the upper triangle."""
    squares = np.empty(len(A))
    for i in range(0, len(A), size):
        strip = np.triu(A[i : i + size, i:])
        squares[i : i + size] = np.einsum("ij,ij->i", strip, strip)
    return squares


def _norms(columns: np.ndarray) -> np.ndarray:
    return np.linalg.norm(columns, axis=0)


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """above / below, and 0 for 0/0: a target of zeros is met exactly."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
