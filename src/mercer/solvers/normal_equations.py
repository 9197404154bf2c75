"""(K + diag(λ/w)) c = y by an explicit map, K = ΦΦᵀ: a system of p unknowns gives c."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from mercer.native.sorting import distinct
from mercer.outcomes import Progress, Run, Solution, Watch
from mercer.solvers.computed_rows import ComputedRows
from mercer.solvers.features import features_of
from mercer.solvers.linear import (
    DIGITS,
    WORDS,
    LinearSystem,
    WeightedSystem,
    gravest,
    norms,
)
from mercer.solvers.primal import (
    ONCE,
    FeatureSums,
    NormalSystem,
    across,
    affordable,
    along,
    blas_beside,
    not_hat,
    weighted_normal,
)
from mercer.solvers.resume import begun
from mercer.solvers.single_rows import in_single

FAILURES = 2  # rounds that may leave more than a half of the residual
LEAST = 1e-14  # of a relative residual: what is left is rounding
CHEAP = 2.0**24  # numbers of Φ that are read in next to no time


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
        z = kept["z"].copy() if "z" in kept else np.zeros_like(target)
        weights = np.empty((system.features.shape[1], target.shape[1]))
        if start is not None:
            z += system.scaled(start)
        statuses, products, regs = set(), 0, distinct(system.regs)
        image = target if len(regs) == 1 else np.empty_like(target)
        with blas_beside(system.features):
            for reg in regs:
                columns: Any = slice(None)  # all: a copy of none
                if len(regs) > 1:
                    columns = np.flatnonzero(system.regs == reg)
                run = _NormalRounds(self, system, reg, target[:, columns], begin, watch)
                at, status = run(z[:, columns])
                if len(regs) == 1:
                    z, image = at.z, at.image
                else:
                    z[:, columns], image[:, columns] = at.z, at.image
                weights[:, columns] = at.w
                kept["z"] = z
                products += run.products
                statuses.add(status)
                del at, run
        system.features.forget()  # a machine keeps the Gram, for leave-one-out
        numbers, residual_error = system.certified(z, image, trusted)
        if numbers["violation"] + residual_error > trusted:
            statuses.add("imprecise")
        seconds = time.perf_counter() - begin
        return Solution(
            value=system.unscaled(z),
            bias=0.0,
            **numbers,
            run=Run(gravest(statuses), products, seconds),
            weights=weights.reshape(len(weights), *system.shape[1:]),
        )


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
        self.size = np.maximum(norms(target), 1e-300)
        self.scale: np.ndarray | float = 1.0
        self.reported = None if watch is None else partial(self._reported, watch)
        self.digits = DIGITS

    def __call__(self, z: np.ndarray) -> tuple[_Candidate, str]:
        """What was found, and the status."""
        system, failures = self.system, 0
        best = at = self._candidate(z, system.gathered(z))
        if best.worst <= self.options.tol:
            return best, "optimal"
        self.normal = self._factors(at.residual)
        if self.normal.R is not None and not system.is_read_cheaply:
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
        residual = self.target - image
        residual -= self.reg * z
        worst = float(np.max(norms(residual) / self.size))
        return _Candidate(worst, z, w, image, residual)

    def _guess(self, left: np.ndarray) -> float:
        """About the relative residual, the length of W^½Φ left, by ΦᵀWΦ."""
        squares = np.sum(left * (self.system.matrix() @ left), axis=0)
        worst = np.sqrt(np.maximum(squares, 0.0)) / self.size
        if self.reported is not None:
            self.scale = 1 / self.size
            self.reported(0, (worst * self.size)[None])
        return float(np.max(worst))

    def _factors(self, residual: np.ndarray | None = None) -> NormalSystem:
        """The normal equations; `residual` is what `gathered` is asked for next."""
        system = self.system
        made = NormalSystem(
            system.curved,
            partial(system.matrix, residual) if system.factored else None,
            lambda: system.features.squares(system.root**2),
            self.reg,
            self.options.max_iter,
        )
        # Rounding of single precision may leave no definite matrix.
        lacking = system.factored and made.R is None
        return self._factors() if lacking and system.sharpen() else made

    def _solved(self, rhs: np.ndarray, worst: float) -> np.ndarray:
        """The solution of the normal equations, to some digits."""
        lengths = np.maximum(norms(rhs), 1e-300)
        self.scale = worst / lengths  # a residual of v, as one of the system of c
        v = self.normal.solve(rhs, self.digits * lengths, self.reported)
        self.products += max(1, self.normal.products)
        self.normal.products = 0
        return v

    def _status(self, worst: float, failures: int, factored: bool) -> str:
        """How it ended, or nothing."""
        options = self.options
        # With factors and Φ at hand digits cost next to nothing, as long as there are.
        cheap = factored and self.system.is_read_cheaply
        if worst <= options.tol and (not cheap or failures or worst <= LEAST):
            return "optimal"
        if self.stopped:
            return "stopped"
        if failures > FAILURES:
            return "optimal" if worst <= (options.trust or 0.0) else "imprecise"
        return "max_iter" if self.products >= options.max_iter else ""

    def _reported(self, watch: Watch, n_iter: int, r: np.ndarray) -> bool:
        done, n = self.products + n_iter, self.system.shape[0]
        worst = float(np.max(norms(r) * self.scale))
        seconds = time.perf_counter() - self.begin
        progress = Progress(
            done, done, 0, seconds, support=n, violation=worst, words=WORDS
        )
        self.stopped = bool(watch(progress))
        return self.stopped


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


class _Explicit(WeightedSystem):
    """G = W^½ ΦΦᵀ W^½ by the explicit map of the kernel."""

    def __init__(self, problem: LinearSystem, kept: dict[str, Any] | None = None):
        super().__init__(problem)
        self.kept = {} if kept is None else kept
        self.features = features_of(self.gram, once=True)
        self.factored = affordable(self.features.shape[1], ONCE)
        self.rough = in_single(self.features)  # whose ΦᵀWΦ is factored
        self._normal: np.ndarray | None = None
        self._gathered: tuple[np.ndarray, np.ndarray] | None = None  # V and ΦᵀW^½ V

    @property
    def is_read_cheaply(self) -> bool:
        """Whether Φ is at hand, and small."""
        features = self.features
        return not features.computed and features.entries <= CHEAP

    @cached_property
    def rounding(self) -> FeatureSums:  # type: ignore[override]
        return FeatureSums(self.features)

    def gathered(self, V: np.ndarray) -> np.ndarray:
        """ΦᵀW^½ V."""
        known, self._gathered = self._gathered, None
        if known is not None and known[0] is V:
            return known[1]
        if not V.any():
            return np.zeros((self.features.shape[1], V.shape[1]))
        return across(self.features, self.times_root(V))

    def spread(self, v: np.ndarray) -> np.ndarray:
        """W^½Φ v."""
        if not v.any():
            return np.zeros((len(self.root), v.shape[1]))
        return self.times_root(along(self.features, v))

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

    def matrix(self, V: np.ndarray | None = None) -> np.ndarray:
        """ΦᵀWΦ, to single precision unless `sharpen` was asked for.

        Parameters
        ----------
        V : what `gathered` is asked for next, perhaps from the same reading of Φ
        """
        if self._normal is None:
            weights = self.root[:, 0] ** 2
            # Sums in single precision do not go on in double.
            word = "double" if self.rough is self.features else "single"
            kept = self.kept.setdefault(word, {})
            if V is not None and isinstance(self.rough, ComputedRows):
                scaled = self.times_root(V)
                self._normal, pulled = self.rough.normal_and_pull(weights, scaled, kept)
                self._gathered = None if pulled is None else (V, pulled)
            else:
                self._normal = weighted_normal(self.rough, weights, kept=kept)
        return self._normal

    def sharpen(self) -> bool:
        """From now on `matrix` is in double precision; False if it was."""
        if self.rough is self.features:
            return False
        self.rough, self._normal = self.features, None
        return True
