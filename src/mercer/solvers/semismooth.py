"""`BoxQP`s on explicit features: Newton's method on smoothed losses, in linear time.

With K = ΦΦᵀ, w = Φᵀβ and levels ρ the problem is, in its primal form,

    min ½‖w‖² + Σₜ ℓₜ(sₜ) - Σ ρ total,    s = target - Φw + ρ,
    ℓₜ(s) = max { s b - tubeₜ|b| : lowₜ ≤ b ≤ highₜ },

p + 1 unknowns and a loss of straight pieces for each point. Within a band of width η
around its kinks the loss is replaced by a parabola, which is what a term
-(b - anchorₜ)² η / (2 widthₜ) in the maximum does. Of the smoothed function Newton's
method needs ΦᵀDΦ over the points inside the band only, and these are the fewer the
smaller η. The maximisers b are the dual variables; with the last b for anchors the
minima converge to that of the problem itself: the proximal method of multipliers.

1. A sample of the points, then all of them, η going down from the scale of the data.
2. Points near a kink as a problem of their own, the others staying at their bounds,
   until all slopes agree; points that then violate join in.

Li, Sun and Toh, "A highly efficient semismooth Newton augmented Lagrangian method",
SIAM Journal on Optimization 28 (2018); Chapelle, "Training a support vector machine in
the primal", Neural Computation 19 (2007).
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from mercer.native.threads import blas_for, one_blas_thread
from mercer.outcomes import Progress, Run, Solution, Status, Watch
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.computed_rows import ComputedRows
from mercer.solvers.feature_rows import FeatureRows
from mercer.solvers.features import (
    Evaluated,
    check_bounds,
    settled,
    solution_on,
    totals_of,
)
from mercer.solvers.landmark_rows import rows_for
from mercer.solvers.newton_steps import DIRECT, Hessian, direction
from mercer.solvers.resume import begun
from mercer.solvers.rounding import UNIT
from mercer.solvers.single_rows import in_single
from mercer.solvers.smoothed import SOME, Line, Point, Terms, scale_of

STEPS = 1000  # Newton steps, where no other number is asked for
FINER = 1 / 8  # of the band, from one minimum to the next
SHARP = 1e-10  # violation to reach, relative to the scale of s
SHARP_ENOUGH = 1e-6  # the same, where systems are too large to be factored
LEAST = 1e-7  # band, relative to that; multipliers do the rest
WARM = 0.1  # violation, relative to that, up to which a start is near the end
NEAR = 2.0**25  # entries of Φ near a kink, for the last steps
SHARE = 1e-3  # of band · width, to be gained by a step
ROUGH = 1e-2  # the same, of a sample
IDLE = 6  # steps of the multipliers that do not halve what is left, and end them
SAMPLE = 8  # points that one stands for, and again
REACH = 4  # bands from its kink, up to which a variable may come to it
FEW = 0.02  # of the variables inside a band, that may have come from further away


class _Ended(Exception):
    """A limit or a callback; its argument is the status."""


@dataclass(frozen=True)
class SemismoothNewton:
    """Minimise a `BoxQP` on explicit features Φ, K = ΦΦᵀ, until violation < tol.

    Takes time linear in the entries of Φ, and no kernel values. For kernels with a
    finite explicit map (`mercer.maps.explicit`) and finite bounds. Problems are solved
    to rounding where they can be: variables that the optimum has at a bound are at it.

    Parameters
    ----------
    max_iter : Newton steps at most; -1 for 1000
    time_limit : seconds; None for no limit. A solve that it, max_iter or `watch` ended
        goes on from `start=solution.value`

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import SemismoothNewton, svc
    >>> X = np.random.default_rng(0).normal(size=(5000, 3))
    >>> y = np.sign(X[:, 0] + 0.1)
    >>> solution = SemismoothNewton().solve(svc(Gram(Linear(), X), y, upper=1.0))
    >>> solution.status, bool(solution.gap < 1e-6 * solution.primal)
    ('optimal', True)
    """

    tol: float = 1e-3
    max_iter: int = -1
    time_limit: float | None = None

    def __post_init__(self) -> None:
        if not self.tol > 0:
            raise ValueError(f"SemismoothNewton needs tol > 0; got tol={self.tol!r}.")

    def solve(
        self,
        problem: BoxQP,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        """The minimiser, from a feasible `start`; `watch` returns True to stop."""
        check_bounds(self, problem)
        begin = time.perf_counter()
        rows = rows_for(problem, self.tol)
        with blas_for(rows.shape[1]):
            return _Run(self, problem, rows, watch, begin)(start)


class _Run:
    """One solve."""

    def __init__(
        self,
        options: SemismoothNewton,
        problem: BoxQP,
        rows: FeatureRows,
        watch: Watch | None,
        begin: float,
    ):
        self.options, self.problem, self.watch = options, problem, watch
        self.begin = begin
        self.steps = self.rounds = 0
        self.metric: np.ndarray | None = None
        self.known: Evaluated | None = None
        self.best: tuple[float, np.ndarray | None] = np.inf, None  # its violation, β
        self.violation, self.kept = np.nan, begun()
        self.budget = STEPS if options.max_iter < 0 else options.max_iter
        totals = totals_of(problem)
        tube = problem.tube
        self.terms = Terms(
            rows,
            problem.index,
            problem.target,
            *problem.bounds,
            None if tube is None or not tube.any() else tube,
            problem.group,
            totals,
            np.zeros(rows.shape[1]),
        )
        self.rough = self.terms
        computed = isinstance(rows, ComputedRows) and not rows.holds
        narrow = in_single(rows) if computed else None
        if isinstance(narrow, ComputedRows) and not narrow.exact:
            narrow.holds = False  # few readings of all points, of which some suffice
            self.rough = self.terms.on(narrow)
        self.scale = scale_of(self.terms)
        sharp = SHARP_ENOUGH if rows.shape[1] > DIRECT else SHARP
        self.goal = min(options.tol / 8, sharp * self.scale)
        # What rounding does to s comes back in b by the width over the band, and in F
        # by K: together that has to be less than it was.
        size = float(np.max(rows.lengths(), initial=0.0)) * (1 + min(rows.shape))
        widest = float(np.max(self.terms.width, initial=0.0))
        self.least = max(LEAST * self.scale, UNIT * size * widest)

    def __call__(self, start: np.ndarray | None) -> Solution:
        status = Status.OPTIMAL
        try:
            self._solve(start)
        except _Ended as ended:
            (status,) = ended.args
        except LinAlgError:
            status = Status.STALLED
        run = Run(status, self.steps, time.perf_counter() - self.begin)
        known, self.known, self.function = self.known, None, np.empty(0)
        tol, rows, beta = self.options.tol, self.terms.rows, self.best[1]
        if beta is None:
            beta = self.problem.sign * self.problem.start()
        elif self.best[0] == np.inf:
            beta = self._mended(beta)
        return solution_on(rows, self.problem, beta, run, tol, known)

    def _solve(self, start: np.ndarray | None) -> None:
        terms = self.terms
        if start is None and "beta" in self.kept:
            start = self.problem.sign * self.kept["beta"]
        beta = self.problem.sign * self.problem.start(start)  # feasible, or an error
        self.best = np.inf, beta
        w = terms.pull(beta) if beta.any() else np.zeros(terms.rows.shape[1])
        self._look(beta, w)
        if self.violation <= self.goal:
            return
        if self.violation <= WARM * self.scale:
            rho, moves = self._violators(beta)
            band = max(self.violation, self.least)
            return self._polish(beta, w, rho, moves, band)
        if start is None:  # it is made anew where nothing better is found
            self.best, beta = (np.inf, None), np.empty(0)
        self.function = np.empty(0)
        with one_blas_thread() if self.rough is not terms else nullcontext():
            (w, rho, s, beta), band = self._from_afar()
        near = terms.distance(s) <= 2 * band
        del s
        self.best = np.inf, beta
        self._polish(beta, w, rho, near, band)

    # The way down

    def _from_afar(self) -> tuple[Point, float]:
        """The minimum for a band that few variables are in, and that band.

        In single precision, where that is quicker: `_polish` is not.
        """
        terms, n = self.rough, len(self.terms)
        p = terms.rows.shape[1] + len(terms.totals)
        sizes = [n]
        while sizes[-1] > SAMPLE * max(1000, 10 * p):
            sizes.append(sizes[-1] // SAMPLE)
        order = np.random.default_rng(0).permutation(n)[: sizes[min(1, len(sizes) - 1)]]
        order = order.copy()  # and not all of it
        band, point, noise = self.scale, None, 0.0
        if "band" in self.kept:  # where an earlier run came to all points
            sizes, (w, rho, noise) = [n], self.kept["band"]
            point = Point(w, rho, np.empty(0), np.empty(0))
        for size in reversed(sizes):
            part = terms if size == n else terms.sample(np.sort(order[:size]))
            if not part.feasible and size < n:
                continue
            if point is None:
                point = self._at_origin(part, band)
            else:
                band = noise
                point = self._at(part, point.w, point.rho, part.middle(), band)
            # The minimum of a sample is that far from the one of all.
            noise = max(self.least, self.scale * np.sqrt(p / size) / 4)
            share, few = SHARE if size == n else ROUGH, min(size / 10, NEAR / p)
            point = self._minimised(part, point, part.middle(), band, 0.1 * band, share)
            while size == n or band * FINER > noise:
                near = np.count_nonzero(part.distance(point.s) <= 2 * band)
                if near <= max(few, 4 * p) or band <= self.least:
                    break
                band *= FINER
                point = self._narrowed(part, point, band)
        assert point is not None
        return point, band

    def _narrowed(self, terms: Terms, point: Point, band: float) -> Point:
        """The minimum for a band, from that of a wider one.

        What is far from a kink stays there, as a rule: variables near one are solved
        for alone. Where others then come near, all are.
        """
        anchor, D = terms.middle(), terms.curvature(band)
        w, rho, s, _ = point
        b = terms.maximiser(anchor, D, s, out=point.b)
        point = Point(w, rho, s, b)
        near = terms.distance(s) <= REACH * band
        inner = np.flatnonzero(near)
        enough = 0.1 * band
        if not 0 < SOME * len(inner) <= len(terms):
            return self._minimised(terms, point, anchor, band, enough, SHARE)
        part = self._part(terms, b, inner)
        if not part.feasible:
            return self._minimised(terms, point, anchor, band, enough, SHARE)
        start = Point(w, rho, s[inner], b[inner])
        found = self._minimised(part, start, part.middle(), band, enough, SHARE)
        moved = self._at(terms, found.w, found.rho, anchor, band)
        joined = np.count_nonzero(~near & (moved.b != b))
        if joined <= FEW * np.count_nonzero(terms.is_inside(moved.b)):
            return moved
        line = Line(terms, anchor, D, point, moved.w - w, moved.rho - rho, moved.s - s)
        if line.at_0 < 0:
            point = line.searched(moved.b)[1]
        return self._minimised(terms, point, anchor, band, enough, SHARE)

    def _part(self, terms: Terms, beta: np.ndarray, inner: np.ndarray) -> Terms:
        """The variables of an index, the others staying at what they are."""
        outer = beta.copy()
        outer[inner] = 0
        left = terms.totals - terms.sums(outer)
        return terms.take(inner, terms.offset + terms.pull(outer), left)

    def _at_origin(self, terms: Terms, band: float) -> Point:
        w = np.zeros(terms.rows.shape[1])
        anchor, D = terms.middle(), terms.curvature(band)
        rho = terms.levelled(anchor, D, terms.target)
        return self._at(terms, w, rho, anchor, band)

    def _at(
        self,
        terms: Terms,
        w: np.ndarray,
        rho: np.ndarray,
        anchor: np.ndarray,
        band: float,
    ) -> Point:
        s = terms.times(w)
        np.subtract(terms.target, s, out=s)
        terms.raise_by(rho, s)
        return Point(w, rho, s, terms.maximiser(anchor, terms.curvature(band), s))

    # The end of the way

    def _polish(
        self,
        beta: np.ndarray,
        w: np.ndarray,
        rho: np.ndarray,
        chosen: np.ndarray,
        band: float,
    ) -> None:
        """Solve for the chosen variables; those that then violate join them."""
        terms = self.terms
        goal = self.goal
        idle = 0
        while idle < 2:
            chosen |= terms.is_inside(beta)
            inner = np.flatnonzero(chosen)
            part = self._part(terms, beta, inner).held()
            outer, beta = beta, beta.copy()
            beta[inner] = self._multiplied(part, w, rho, beta[inner], band, goal)
            beta = settled(self.problem, beta)
            before, w = self.best[0], part.offset + part.pull(beta[inner])
            if not np.array_equal(beta[~chosen], outer[~chosen]):
                w = terms.pull(beta)
            self._look(beta, w)
            if self.best[0] <= goal:
                return
            # What rounding leaves is not taken for more work.
            idle = 0 if self.best[0] <= before / 2 else idle + 1
            rho, moves = self._violators(beta)
            chosen |= moves
            band = max(band * FINER, self.least)

    def _look(self, beta: np.ndarray, w: np.ndarray) -> None:
        """Keep β if none before had less of a violation."""
        self.rounds += 1
        excess = np.abs(self.terms.sums(beta) - self.terms.totals)
        if np.any(excess > 1e-10 * self.terms.sums(np.abs(beta))):
            beta = self._mended(beta)
            w = self.terms.pull(beta)
        rows = self.terms.rows
        self.function = rows.times(w) if w.any() else np.zeros(rows.shape[0])
        value = self.problem.sign * beta
        self.violation = self.problem.violation(value, self.function)
        if self.violation < self.best[0]:
            self.best = self.violation, beta
            if self.steps:  # more than a start has
                self.kept["beta"] = beta
            if rows.computed and w.any():
                self.known = Evaluated(beta, w, self.function)

    def _mended(self, beta: np.ndarray) -> np.ndarray:
        """β with the sums that are asked for."""
        return self.problem.sign * self.problem.start(self.problem.sign * beta)

    def _violators(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Levels for β, and which variables their slopes ask to move."""
        terms, F = self.terms, self.function
        rho = np.array(self.problem.level(self.problem.sign * beta, F), dtype=float)
        rho = rho[: len(terms.totals)]
        s = terms.target - (F if terms.place is None else F[terms.place])
        terms.raise_by(rho, s)
        D = terms.curvature(max(self.violation, np.finfo(float).tiny))
        moves = np.abs(terms.maximiser(beta, D, s) - beta) > 0.01 * terms.width
        return rho, moves

    def _multiplied(
        self,
        part: Terms,
        w: np.ndarray,
        rho: np.ndarray,
        anchor: np.ndarray,
        band: float,
        goal: float,
    ) -> np.ndarray:
        """b of the variables of a part, by the method of multipliers."""
        best, idle = np.inf, 0
        while idle < IDLE and len(part):
            point = self._predicted(part, w, rho, anchor, band)
            enough = min(goal, 0.01 * band)
            point = self._minimised(part, point, anchor, band, enough)
            moved = np.abs(point.b - anchor) * band
            moved = np.divide(moved, part.width, where=part.width > 0, out=moved)
            anchor, w, rho = point.b, point.w, point.rho
            most = float(np.max(moved, initial=0.0))
            if most <= goal / 4:
                break
            # What rounding leaves is not taken for more work.
            idle = 0 if most <= best / 2 else idle + 1
            best = min(best, most)
            band = max(band * FINER, self.least)
        return anchor

    def _predicted(
        self,
        part: Terms,
        w: np.ndarray,
        rho: np.ndarray,
        anchor: np.ndarray,
        band: float,
    ) -> Point:
        """Where the minimum is if the same variables stay inside the band.

        At w itself nearly all of them would be at a bound, as the band is narrower than
        the one that w is the minimum for.
        """
        inside, D = part.is_inside(anchor), part.curvature(band)
        point = self._at(part, w, rho, anchor, band)
        b = anchor.copy()
        b[inside] += D[inside] * point.s[inside]
        if part.tube is not None:
            b[inside] -= np.sign(anchor[inside]) * D[inside] * part.tube[inside]
        slope_w, slope_rho = w - part.offset - part.pull(b), part.sums(b) - part.totals
        hessian = self._hessian(part, D)
        dw, drho = direction(hessian, inside, slope_w, slope_rho, True)
        return self._at(part, w + dw, rho + drho, anchor, band)

    # One minimum

    def _minimised(
        self,
        terms: Terms,
        point: Point,
        anchor: np.ndarray,
        band: float,
        enough: float,
        share: float = 0.0,
    ) -> Point:
        """The minimum for a band, until a step changes no s by more than `enough`.

        Where it is to be exact, until a step of Newton's leaves the same variables
        inside the band: the function is a quadratic there.

        Parameters
        ----------
        point : where to start; its arrays are written to
        share : of band · width, that a step has to gain; 0 where it is to be exact
        """
        exact = not share
        D = terms.curvature(band)
        hessian = self._hessian(terms, D, anew=exact)
        pulled, room = terms.pull(point.b), np.empty(len(terms))
        for _ in range(60):
            self._count()
            if terms is self.rough:
                self.kept["band"] = point.w, point.rho, band
            inside = terms.is_inside(point.b)
            slope_w = point.w - terms.offset - pulled
            slope_rho = terms.sums(point.b) - terms.totals
            dw, drho = direction(hessian, inside, slope_w, slope_rho, exact)
            ds = terms.times(dw)
            np.negative(ds, out=ds)
            terms.raise_by(drho, ds)
            line = Line(terms, anchor, D, point, dw, drho, ds)
            if not line.at_0 < 0:
                break
            # A small share of what smoothing has changed is not worth a step.
            worth = share * band * float(np.sum(terms.width[inside]))
            if not exact and -line.at_0 <= worth:
                break
            last, room, (t, point) = point.b, point.b, line.searched(room)
            most = t * max(float(np.max(ds)), -float(np.min(ds)))
            if most <= enough and (not exact or terms.same_pieces(last, point.b)):
                break
            size = max(float(np.max(point.s)), -float(np.min(point.s)))
            if most <= 4 * UNIT * size:
                break
            pulled = terms.pulled(point.b, last, None if exact else pulled)
        return point

    def _hessian(self, terms: Terms, D: np.ndarray, anew: bool = False) -> Hessian:
        rows = terms.rows
        if not rows.adds_values:
            return Hessian(terms, D, anew=anew)
        if self.metric is None:
            self.metric = rows.metric()  # that of the landmarks, whichever the points
        return Hessian(terms, D, self.metric, anew)

    def _count(self) -> None:
        """Before each step: whether there is to be another one."""
        if self.steps >= self.budget:
            raise _Ended(Status.MAX_ITER)
        self.steps += 1
        seconds = time.perf_counter() - self.begin
        limit = self.options.time_limit
        if limit is not None and seconds >= limit:
            raise _Ended(Status.TIME_LIMIT)
        if self.watch is None:
            return
        progress = Progress(
            self.rounds,
            self.steps,
            0,
            seconds,
            support=0 if self.best[1] is None else int(np.count_nonzero(self.best[1])),
            violation=self.violation,
            words=(("support", "support vectors"), ("violation", "violation")),
            unit="step",
        )
        if self.watch(progress):
            raise _Ended(Status.STOPPED)
