"""(K + diag(λ/w)) c = y by conjugate gradients, in single precision where it can be."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from mercer.native.sorting import distinct
from mercer.native.threads import one_blas_thread
from mercer.outcomes import Progress, Run, Solution, Status, Watch
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
from mercer.solvers.linear import (
    DIGITS,
    WORDS,
    LinearSystem,
    WeightedSystem,
    gravest,
    norms,
)


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
        status = gravest(statuses)
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
        tol, size = self.options.tol, np.maximum(norms(target), 1e-300)
        image = self.system.exact(z)
        residual = target - image - self.reg * z
        status, before = "optimal", np.inf
        goal_of_all = tol - self._residual_rounding(z, size)
        while (worst := float(np.max(norms(residual) / size))) > goal_of_all:
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
        self.worst = float(np.max(norms(r) / size))
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
    return bool(np.all(norms(r) <= goal))


class _Lazy(WeightedSystem):
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
