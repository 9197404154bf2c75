"""Newton's method on a `Penalized` problem in the coordinates of an explicit map.

With K = ΦΦᵀ, f = Φv + b, slopes u and curvatures H of the losses at f, r = Φᵀ(wu) and
λ = 2 reg m, the objective and its dual bound take one product with Φ and one with Φᵀ:

    P = reg ‖v‖² + mean ℓ(y, f),    D = -mean ℓ*(y, u) - reg ‖r/λ‖²

A step solves (λI + ΦᵀHΦ) s = -(λv + r) by conjugate gradients, preconditioned by the
matrix of some of the points. It starts at the solution for a few of the points, found
from that for fewer. All this may be in single precision (`single_rows.py`); P and D of
all points are in double.

The solution of the problem has a number for each point. A last step makes it,

    c = -(wu + HΦs)/λ,    Φᵀc = v + s - ρ/λ,

ρ being what is left of the system. What is stated is about c: Φᵀc, Kc and Φᵀ(wu) there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg.blas import dtrmv, strmv

from mercer.kernels.nystrom import Nystrom
from mercer.native import lapack, memory
from mercer.native.tall import sizes
from mercer.outcomes import Progress, Run, Solution, Status, Watch
from mercer.solvers.columns import CurvatureRoot, LossColumns
from mercer.solvers.computed_rows import ComputedRows
from mercer.solvers.feature_rows import FeatureRows
from mercer.solvers.features import features_of, is_computed
from mercer.solvers.krylov import Pulse, conjugate_gradient
from mercer.solvers.limits import TimeLimit
from mercer.solvers.penalized import Penalized, Reading, RoundingErrors, rounding_of
from mercer.solvers.primal import (
    ONCE,
    FeatureSums,
    across,
    affordable,
    along,
    blas_beside,
    factored,
    weighted_normal,
)
from mercer.solvers.resume import begun
from mercer.solvers.single_rows import MOST_GROWTH, WIDE, in_single

FEWER = 5  # times as few points, for a solution to start from
LEAST, MOST = 4, 50  # points for each column of these
FIRST_TOL = 1e-2  # of the gap on some of the points
REST = 0.1  # of the goal, that the rest of the last system may add to the gap
FORCING = 0.1  # of the gradient, that other systems leave
AT_ONCE = 45.0  # multiplications of ΦᵀHΦ in the time of one of a product with Φ
MORE = 1 / 8  # of the time of a product, that one more column takes
STALLS = 2  # last steps that may leave more than a half of the gap
WORDS = (("gap", "gap"), ("violation", "gradient"))


@dataclass
class _At:
    """Where a run is: f = Φv + b with all that was computed of it.

    Attributes
    ----------
    exact : whether it was computed in double precision
    c : the coefficients with Φᵀc = v, where they are known
    rounding : how far all this can be off, once it was asked for
    """

    v: np.ndarray
    b: np.ndarray
    f: np.ndarray
    u: np.ndarray
    r: np.ndarray
    primal: float
    dual: float
    exact: bool
    c: np.ndarray | None = None
    rounding: RoundingErrors | None = None

    @property
    def gap(self) -> float:
        return self.primal - self.dual


class _Inverse:
    """(λI + ΦᵀHΦ)⁻¹ of each column of f alone, from the matrices of some points.

    What several columns have in common does not change the probabilities: H takes it
    to 0, and its inverse is 1/λ. The columns alone do not know of that.

    Parameters
    ----------
    rows, weights : Φ of these points, and the curvatures there, (s, k)
    reg : λ, in the proportion of the weights
    bias : whether a constant takes the mean of Φ away
    """

    def __init__(self, rows: FeatureRows, weights: np.ndarray, reg: float, bias: bool):
        p, k = rows.shape[1], weights.shape[1]
        self.mass = reg
        # c with w = Aᵀc, where AΦᵀHΦAᵀ takes less work.
        self.turned = rows if isinstance(rows, ComputedRows) and rows.is_near else None
        self.R: list[np.ndarray] = []
        if affordable(p, ONCE) and memory.keeps(24.0 * k * p * p):
            self.R = self._factors(rows, weights, bias)
        self.scale = rows.squares(weights) + reg if not self.R else None
        self.products = 0  # since it was made

    def _factors(
        self, rows: FeatureRows, weights: np.ndarray, bias: bool
    ) -> list[np.ndarray]:
        """The factors for every column; none where one of them is not definite."""
        mass = None if self.turned is None else self.mass * rows.metric()
        found: list[np.ndarray] = []
        matrix, before = np.empty(0), weights[:, 0]
        for j, h in enumerate(weights.T):
            share = _multiple(h, before) if j else None
            if share is None:
                matrix, before, share = self._matrix(rows, h, bias), h, 1.0
            whole = share * matrix if mass is None else share * matrix + mass
            R = factored(whole, self.mass if mass is None else 0.0)
            if R is None:
                return []
            # What was summed in single precision has no more digits.
            found.append(R if rows.exact else R.astype(np.float32, order="F"))
        return found

    def _matrix(self, rows: FeatureRows, h: np.ndarray, bias: bool) -> np.ndarray:
        if self.turned is None:
            return _curved_matrix(rows, h, bias)
        return self.turned.sums_of_squares(h, around_mean=bias)

    def __call__(self, r: np.ndarray) -> np.ndarray:
        common = _common(r)
        return _apart(self._of_columns(r - common)) + common / self.mass

    def _of_columns(self, r: np.ndarray) -> np.ndarray:
        if self.scale is not None:
            return r / self.scale
        r = r if self.turned is None else self.turned.slope_of(r)
        found = self._by_column(lapack.solve, r)
        return found if self.turned is None else self.turned.weights_of(found)

    def applied(self, r: np.ndarray) -> np.ndarray:
        """(λI + ΦᵀHΦ) r, about."""
        if self.scale is not None:
            return self.scale * r
        r = r if self.turned is None else self.turned.coefficients_of(r)
        found = self._by_column(_squared, r)
        return found if self.turned is None else self.turned.slope_from(found)

    def _by_column(
        self, call: Callable[[np.ndarray, np.ndarray], np.ndarray], r: np.ndarray
    ) -> np.ndarray:
        """call(R, r) of the factors and of r for each column."""
        size = sizes(r)  # single precision has a small range
        scaled = (r / size).astype(self.R[0].dtype)
        columns = [call(R, scaled[:, j].copy()) for j, R in enumerate(self.R)]
        return np.column_stack(columns).astype(float) * size


def _squared(R: np.ndarray, x: np.ndarray) -> np.ndarray:
    """RᵀR x of an upper triangle."""
    trmv = strmv if R.dtype == np.float32 else dtrmv
    return trmv(R, trmv(R, x), trans=1)


def _multiple(h: np.ndarray, other: np.ndarray) -> float | None:
    """c with h = c other, to single precision; None where there is none.

    So are the curvatures of all classes at the start, where f is a constant.
    """
    if not (other > 0).all():
        return None
    share = h / other
    least, most = float(share.min()), float(share.max())
    return most if most - least <= 1e-6 * most else None


def _common(r: np.ndarray) -> np.ndarray | float:
    """What the columns have in common; 0 of a single one."""
    return r.mean(axis=1, keepdims=True) if r.shape[1] > 1 else 0.0


def _apart(r: np.ndarray) -> np.ndarray:
    """The columns less what they have in common."""
    return r - _common(r)


def _curved_matrix(rows: FeatureRows, h: np.ndarray, bias: bool) -> np.ndarray:
    """ΦᵀHΦ for one column of f, less what a constant takes away."""
    total = float(h.sum())
    if not bias or not total > 0:
        return weighted_normal(rows, h)
    mean = across(rows, h[:, None])[:, 0] / total
    if rows.sparse:
        return weighted_normal(rows, h) - total * np.multiply.outer(mean, mean)
    # Subtracted before it is multiplied: digits would cancel below.
    return weighted_normal(rows, h, mean)


class _Level:
    """The problem on all points or on some of them.

    Parameters
    ----------
    fine, rough : Φ, by which f is judged and by which steps are found
    near : Φ of those points that precondition, and which they are; None for all
    """

    def __init__(
        self,
        problem: Penalized,
        fine: FeatureRows,
        rough: FeatureRows,
        max_products: int,
        pulse: Pulse,
        near: tuple[FeatureRows, np.ndarray] | None = None,
    ):
        self.problem, self.fine, self.rough, self.near = problem, fine, rough, near
        self.columns, self.reg = LossColumns(problem), problem.strength
        self.max_products, self.pulse = max_products, pulse
        self.inverse: _Inverse | None = None
        self.products = 0

    def zero(self) -> tuple[np.ndarray, np.ndarray]:
        """v = 0 and b = 0."""
        return np.zeros((self.fine.shape[1], self.columns.k)), np.zeros(self.columns.k)

    def look(self, v: np.ndarray, b: np.ndarray, c: np.ndarray | None = None) -> _At:
        """All that is known of f = Φv + b, with the best b; of f = Kc in double."""
        rows, begin = self.rough if c is None else self.fine, time.perf_counter()
        return self._read(rows, v, b, c, begin)

    def exactly(self, at: _At) -> _At:
        """The same in double precision."""
        if at.exact:
            return at
        return self._read(self.fine, at.v, at.b, at.c, time.perf_counter())

    def _read(
        self,
        rows: FeatureRows,
        v: np.ndarray,
        b: np.ndarray,
        c: np.ndarray | None,
        begin: float,
    ) -> _At:
        g = along(rows, v) if v.any() else np.zeros((rows.shape[0], len(b)))
        b = self.columns.best_bias(g, b, rough=not rows.exact)
        f = g + b
        u = self.columns.slope(f)
        r = across(rows, self.columns.w * u)
        square = float(np.sum(v * v) if c is None else np.sum(c * g))
        primal = self.problem.primal(square, self.columns.shaped(f))
        dual = self.problem.dual(self.columns.shaped(u), float(np.sum(r * r)))
        seconds = (time.perf_counter() - begin) / 2
        self.pulse.longest = max(self.pulse.longest, seconds)
        return _At(v, b, f, u, r, primal, dual, rows.exact, c)

    def at_coefficients(self, c: np.ndarray, b: np.ndarray) -> _At:
        """All that is known of f = Kc + b."""
        return self.look(across(self.fine, c), b, c)

    def sharpen(self) -> bool:
        """From now on steps are found in double precision; False if they were."""
        if self.rough is self.fine:
            return False
        self.rough, self.near, self.inverse = self.fine, None, None
        return True

    def advanced(self, at: _At) -> _At | None:
        """One step on; None where none leads down."""
        root, gradient = self.columns.root(at.f), self.reg * at.v + at.r
        share = at.gap / max(self.problem.zero_loss, 1e-300)
        forcing = min(FORCING, np.sqrt(max(share, 0.0)))
        goal = max(forcing, 1e-6) * float(np.linalg.norm(gradient))
        s = self._step(at, root, lambda rest: float(np.linalg.norm(rest)) <= goal)
        image = along(self.rough, s)
        constant = root.constant(image)
        linear, square = self.reg * np.sum(at.v * s), self.reg * np.sum(s * s)
        t = self.columns.step_length(
            float(linear), float(square), at.f, image - constant
        )
        return None if t == 0 else self.look(at.v + t * s, at.b - t * constant)

    def settled(self, at: _At, goal: float) -> _At:
        """The coefficients that a step leads to.

        Where it was asked to stop it is a rough one.
        """
        root = self.columns.root(at.f)
        # e = ρ/λ in v adds eᵀAe/2m to the primal objective, A = λI + ΦᵀHΦ, and to the
        # dual, whose slopes are those of this f, no more than ‖Ae‖²/2mλ.
        least = REST * goal * 2 * self.problem.mass * self.reg**3

        def done(rest: np.ndarray) -> bool:
            assert self.inverse is not None
            if self.reg**2 * float(np.sum(rest**2)) > least:  # A is at least λ
                return False
            image = self.inverse.applied(rest) * (self.reg / self.inverse.mass)
            return float(np.sum(image**2)) <= least

        s = self._step(at, root, done)
        bent = root.bent(along(self.rough, s))
        c = -(self.columns.w * at.u + bent) / self.reg
        return self.at_coefficients(c, at.b)

    def _step(
        self, at: _At, root: CurvatureRoot, done: Callable[[np.ndarray], bool]
    ) -> np.ndarray:
        self._refresh(root)
        inverse = self.inverse
        assert inverse is not None

        def apply(V: np.ndarray) -> np.ndarray:
            self.pulse("step")
            bent = root.bent(along(self.rough, V))
            return across(self.rough, bent) + self.reg * V

        rhs = -(self.reg * at.v + at.r)
        if self.pulse.stopped:
            return inverse(rhs) * (inverse.mass / self.reg)
        found = conjugate_gradient(
            apply,
            rhs,
            inverse,
            done,
            self.max_products,
            together=True,
            watch=lambda n_iter, rest: self.pulse.stopped,
        )
        inverse.products += found.n_iter
        self.products += found.n_iter
        return found.x

    def _refresh(self, root: CurvatureRoot) -> None:
        """A new preconditioner where the old one has cost more than a new one does."""
        rows, index = (self.rough, None) if self.near is None else self.near
        n, (some, p) = self.rough.shape[0], rows.shape
        k = self.columns.k
        cost = k * p * (some + p) / (AT_ONCE * n * (1 + MORE * (k - 1)))
        if self.inverse is not None and self.inverse.products < max(1.0, cost):
            return
        weights = root.q**2
        if root.side is not None:
            weights = weights * (1 - root.side**2)
        reg = self.reg
        if index is not None:
            weights, reg = weights[index], self.reg * some / n
        self.pulse("preconditioner")
        self.inverse = _Inverse(rows, weights, reg, root.bias)


class FeatureNewton:
    """One solve of `Newton(features=True)`.

    Parameters
    ----------
    options : the `Newton`
    begin : when the solve began
    """

    def __init__(
        self,
        options: Any,
        problem: Penalized,
        begin: float,
        watch: Watch | None,
        limit: TimeLimit | None,
    ):
        self.options, self.problem = options, problem
        self.begin, self.watch, self.round = begin, watch, 0
        self.pulse = Pulse(None if watch is None else self._report)
        if limit is not None:
            limit.pulse = self.pulse
        self.at: _At | None = None
        self.kept = begun()
        self.first: tuple[float, float] | None = None  # seconds and gap, at first
        self.goal = options.tol * problem.zero_loss
        kernel = problem.gram.kernel
        quick = isinstance(kernel, Nystrom) and kernel.growth <= MOST_GROWTH
        self._read(features_of(problem.gram, once=quick))

    def solve(self, start: np.ndarray | None) -> Solution:
        """The solution, from the coefficients `start` or from those of few points."""
        found = self._solve(start)
        if found.status == Status.STALLED and self._has_finer():
            found = self._solve(np.asarray(found.value))
        self.at = None  # reports refer to this run, and it to them: it may live on
        return found

    def _has_finer(self) -> bool:
        """Whether Φ finds room, where sums of kernel values stood in for it.

        Their rounding grows by κ; that of Φ itself does not.
        """
        gram, p = self.problem.gram, self.fine.shape[1]
        summed = isinstance(self.fine, ComputedRows) and self.fine.landmarks is not None
        if not summed or is_computed(gram.kernel, gram.X, p):
            return False
        gram._features = None
        self._read(features_of(gram))
        return True

    def _read(self, fine: FeatureRows) -> None:
        self.fine, self.rough = fine, in_single(fine)
        self.sums = FeatureSums(fine)

    def _solve(self, start: np.ndarray | None) -> Solution:
        with blas_beside(self.fine):
            n, k = self.problem.gram.shape[0], LossColumns(self.problem).k
            if start is not None and np.any(start):
                level = self._level(self.problem, self.fine, self.rough)
                c = np.array(start, dtype=float).reshape(n, k)
                at = level.at_coefficients(c, np.zeros(k))
            elif "v" in self.kept:  # where an earlier run came to all points
                level = self._level(self.problem, self.fine, self.rough)
                at = level.look(*self.kept["v"])
            else:
                level, at = self._from_few()
            return self._run(level, at)

    def _level(
        self,
        problem: Penalized,
        fine: FeatureRows,
        rough: FeatureRows,
        near: tuple[FeatureRows, np.ndarray] | None = None,
    ) -> _Level:
        most = self.options.max_products
        return _Level(problem, fine, rough, most, self.pulse, near)

    def _from_few(self) -> tuple[_Level, _At]:
        """All points, at the solution for some, found from that for fewer of them."""
        problem, n = self.problem, self.problem.gram.shape[0]
        order = np.random.default_rng(self.options.seed).permutation(n)
        state, near, inverse = None, None, None
        for size in _sizes(n, self.fine.shape[1]):
            index = np.sort(order[:size])
            part = replace(
                problem,
                gram=problem.gram.take(index),
                target=np.asarray(problem.target)[index],
                weight=problem.weights[index],
            )
            rows = self.rough.some(index)
            level, near = self._level(part, rows, rows), (rows, index)
            level.inverse = inverse
            state = self._on_some(level, state)
            inverse = level.inverse
        level = self._level(problem, self.fine, self.rough, near)
        level.inverse = inverse
        return level, level.look(*(level.zero() if state is None else state))

    def _on_some(
        self, level: _Level, state: tuple[np.ndarray, np.ndarray] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """v and b of about the least objective on some of the points."""
        self.pulse(f"{level.fine.shape[0]:,} of the points")
        at = level.look(*(level.zero() if state is None else state))
        tol = max(FIRST_TOL, self.options.tol) * level.problem.zero_loss
        for _ in range(self.options.max_iter):
            if at.gap <= tol or self.pulse.stopped:
                break
            self.pulse(f"{level.fine.shape[0]:,} of the points")
            found = level.advanced(at)
            if found is None or found.primal >= at.primal:
                break
            at = found
        return at.v, at.b

    def _run(self, level: _Level, at: _At) -> Solution:
        """Steps on all points until the gap of coefficients is below the goal."""
        best: _At | None = None
        stalls = 0
        for steps in range(self.options.max_iter + 1):
            self.round, self.at, self.kept["v"] = steps, at, (at.v, at.b)
            if at.c is not None:
                if best is not None and at.gap > best.gap / 2:
                    stalls = 0 if level.sharpen() else stalls + 1
                best = at if best is None or at.gap < best.gap else best
                if self._sure(best):
                    return self._solution(best, Status.OPTIMAL)
                if best.gap <= self.goal:
                    stalls = STALLS  # what is missing is lost to rounding
            stopped = self._asked_to_stop()
            if stopped or self.round == self.options.max_iter or stalls >= STALLS:
                return self._ended(level, at, best, stopped, stalls >= STALLS)
            # A step leaves about the square of a small gap.
            far = at.gap**2 > self.goal * self.problem.zero_loss
            found = level.advanced(at) if far else None
            if found is not None and found.primal >= at.primal:
                found = None  # rounding is in the way
            if found is None:
                found = level.settled(level.exactly(at), self.goal)
            at = found
        raise AssertionError("the last round ends it")

    def _ended(
        self, level: _Level, at: _At, best: _At | None, stopped: bool, stalled: bool
    ) -> Solution:
        """What there is before the goal was reached."""
        if best is None:
            level.pulse.stopped = True  # a step that costs little
            best = level.settled(level.exactly(at), self.goal)
            zero = np.zeros_like(best.f)
            if best.primal > self.problem.zero_loss:
                best = level.at_coefficients(zero, at.b)
        if self._sure(best):
            return self._solution(best, Status.OPTIMAL)
        status = Status.STALLED if stalled else Status.MAX_ITER
        return self._solution(best, Status.STOPPED if stopped else status)

    def _sure(self, at: _At) -> bool:
        """Whether the gap is below the goal, rounding included."""
        if at.gap > self.goal:
            return False
        return at.gap + self._rounding(at).gap <= self.goal

    def _rounding(self, at: _At) -> RoundingErrors:
        """What rounding leaves of the objectives; read closely where that decides."""
        if at.rounding is not None:
            return at.rounding
        assert at.c is not None and self.problem.reg is not None
        lam = self.problem.strength
        image = -lam * (at.f - at.b)
        left = at.r + lam * at.v
        if left.any():
            image = image + along(self.rough, left)
        reading = Reading(at.c, at.f, at.b, at.u, image, self.problem.reg)
        found = rounding_of(self.problem, reading, sums=self.sums)
        if at.gap <= self.goal < at.gap + found.gap:
            found = rounding_of(self.problem, reading, tight=True, sums=self.sums)
        at.rounding = found
        return found

    def _solution(self, at: _At, status: Status) -> Solution:
        assert at.c is not None
        rounding, columns = self._rounding(at), LossColumns(self.problem)
        left = self.problem.strength * at.c / columns.w + at.u
        return Solution(
            value=columns.shaped(at.c),
            bias=float(at.b[0]) if columns.single else at.b,
            primal=at.primal + rounding.primal,
            dual=at.dual - rounding.dual,
            violation=float(np.max(np.abs(left), initial=0.0)),
            run=Run(status, self.round, time.perf_counter() - self.begin),
            function=columns.shaped(at.f),
            rounding=rounding.most,
            objective_rounding=rounding.objectives,
            weights=columns.shaped(at.v),
        )

    # Reports

    def _asked_to_stop(self) -> bool:
        """Report a step; whether to stop."""
        assert self.at is not None
        if self.watch is None:
            return False
        if self.first is None:
            self.first = time.perf_counter(), self.at.gap
        self.pulse.reported()
        self.pulse.stopped |= self._report("")
        return self.pulse.stopped

    def _report(self, stage: str) -> bool:
        assert self.watch is not None
        gap = primal = gradient = np.nan
        if self.at is not None:
            gap, primal = self.at.gap, self.at.primal
            lam, size = self.problem.strength, np.linalg.norm(self.at.r)
            left = np.linalg.norm(lam * self.at.v + self.at.r)
            gradient = float(left / size) if size else 0.0
        progress = Progress(
            self.round,
            self.round,
            0,
            time.perf_counter() - self.begin,
            support=self.problem.gram.shape[0],
            violation=gradient,
            objective=primal,
            gap=gap,
            words=WORDS,
            left=self._left(),
            stage=stage,
        )
        return bool(self.watch(progress))

    def _left(self) -> float:
        """Seconds to the goal, if the gap falls as it has fallen so far."""
        if self.first is None or self.at is None:
            return float("nan")
        if not 0 < self.at.gap < self.first[1]:
            return float("nan")
        fallen = np.log(self.first[1] / self.at.gap)
        missing = max(0.0, np.log(self.at.gap / max(self.goal, 1e-300)))
        return float((time.perf_counter() - self.first[0]) * missing / fallen)


def _sizes(n: int, p: int) -> list[int]:
    """How many points to start from, fewest first; none where a step costs little."""
    found, size = [], n // FEWER
    while p >= WIDE and size >= LEAST * p:
        found.append(size)
        size //= FEWER
    return [size for size in reversed(found) if size <= MOST * p]
