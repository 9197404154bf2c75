"""The perceptron's rule, in the primal and with a kernel: every mistake is an update.

Rosenblatt, Psychological Review 65 (1958); with a kernel, averaged and voted: Freund
and Schapire, Machine Learning 37 (1999). A pass over the points is a pass over their
first half, the mistakes made there added to the scores of the second half in one block,
and a pass over the second half: the updates of one point after another, at the price of
blocks. Nothing n × n is stored, unless it is small and read many times.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import _core
from mercer.data.points import Points, count, take, vectors
from mercer.gram import Gram
from mercer.kernels.operators import without_constant
from mercer.native.rows import csr_parts
from mercer.native.vectors import Packed, native_recipe
from mercer.outcomes import Progress, Run, Status, Watch

SMALL_MATRIX = 64e6  # bytes; one up to this size is kept for several passes
WORDS = (
    ("round", "passes"),
    ("objective", "mistakes"),
)  # what the rule calls its numbers
LEAF = 64  # points whose kernel values among themselves are computed at once


@dataclass(frozen=True, eq=False)
class PerceptronProblem:
    """Find f with sign · f(x) > 0 at every point: the problem of q perceptrons.

    Parameters
    ----------
    gram : of n points
    sign : (n,) array of ±1, or (n, q) for q functions

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gram, Polynomial
    >>> from mercer.solvers import PerceptronProblem, PerceptronRule
    >>> gram = Gram(Polynomial(2), [[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> problem = PerceptronProblem(gram, np.array([-1, 1, 1, -1]))
    >>> PerceptronRule().solve(problem).status
    'optimal'
    """

    gram: Gram
    sign: np.ndarray


@dataclass(frozen=True, eq=False)
class PerceptronSolution:
    """What was missed, in order; f = Σ side · k(x_point, ·) over the mistakes.

    Attributes
    ----------
    point, column, side, time : (M,) arrays: which point, by which of the q functions,
        on which side it is, and how many points had been seen before it
    rounds : T, the points seen, in all passes
    n_outputs : q
    run : its status is "optimal" after a pass without a mistake, "max_iter" after the
        last pass, "stopped" where `watch` asked for it; its iterations are the passes
        begun

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import PerceptronProblem, PerceptronRule
    >>> problem = PerceptronProblem(Gram(Linear(), [[1.0], [3.0]]), np.array([1, -1]))
    >>> found = PerceptronRule(max_iter=2).solve(problem)
    >>> found.point.tolist(), found.curve()[:, 0].tolist(), found.status
    ([0, 1, 0], [1, 2, 3, 3], 'max_iter')
    """

    point: np.ndarray
    column: np.ndarray
    side: np.ndarray
    time: np.ndarray
    rounds: int
    n_outputs: int
    run: Run = field(default_factory=lambda: Run(Status.MAX_ITER))

    @property
    def status(self) -> Status:
        """How the passes ended."""
        return self.run.status

    def __len__(self) -> int:
        return len(self.point)

    @classmethod
    def none(cls, n_outputs: int) -> PerceptronSolution:
        """Those of functions that have not seen a point."""
        empty = np.empty(0, dtype=np.int64)
        return cls(empty, empty, np.empty(0, dtype=np.int8), empty, 0, n_outputs)

    def then(self, later: PerceptronSolution, offset: int) -> PerceptronSolution:
        """These, and after them those on points numbered from `offset`."""
        return replace(
            later,
            point=np.concatenate([self.point, later.point + offset]),
            column=np.concatenate([self.column, later.column]),
            side=np.concatenate([self.side, later.side]),
            time=np.concatenate([self.time, later.time + self.rounds]),
            rounds=self.rounds + later.rounds,
        )

    def coef(self, support: np.ndarray, averaged: bool = False) -> np.ndarray:
        """The (m, q) coefficients of f on the points `support`, ascending.

        Averaged over time, a mistake counts by the share of it that came after.
        """
        weight = self.side.astype(float)
        if averaged:
            weight *= (self.rounds - self.time) / max(1, self.rounds)
        return self._summed(support, weight)

    def times(self, support: np.ndarray) -> np.ndarray:
        """Σ side · (when it was missed) of each of the points, (m, q)."""
        return self._summed(support, self.side * self.time.astype(float))

    def counts(self, support: np.ndarray) -> np.ndarray:
        """α, how often each of q functions missed each of the points, (m, q)."""
        return self._summed(support, np.ones(len(self))).astype(np.int64)

    def _summed(self, support: np.ndarray, weight: np.ndarray) -> np.ndarray:
        sums = np.zeros((len(support), self.n_outputs))
        np.add.at(sums, (np.searchsorted(support, self.point), self.column), weight)
        return sums

    def curve(self) -> np.ndarray:
        """The (T, q) numbers of mistakes made until each point seen."""
        made = np.zeros((self.rounds, self.n_outputs), dtype=np.int64)
        made[self.time, self.column] = 1
        return np.cumsum(made, axis=0, out=made)


@dataclass(frozen=True)
class PerceptronRule:
    """f += sign · k(x, ·) where sign · f(x) ≤ 0, pass after pass: every mistake counts.

    Solves a `PerceptronProblem`.
    It ends after a pass without a mistake, or after max_iter passes.

    Parameters
    ----------
    shuffle : whether every pass takes the points in an order of its own
    seed : of these orders

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import PerceptronProblem, PerceptronRule
    >>> problem = PerceptronProblem(Gram(Linear(), [[1.0], [-2.0]]), np.array([1, -1]))
    >>> found = PerceptronRule().solve(problem)
    >>> len(found), found.run.iterations  # one mistake; the second pass makes none
    (1, 2)
    """

    max_iter: int = 100
    shuffle: bool = False
    seed: Any = None

    def __post_init__(self) -> None:
        if not self.max_iter >= 1:
            raise ValueError(
                f"PerceptronRule needs max_iter ≥ 1; got max_iter={self.max_iter!r}."
            )

    def solve(
        self,
        problem: PerceptronProblem,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> PerceptronSolution:
        """The mistakes on the way; f begins with the values `start` at the points."""
        sign = _columns(problem.sign)
        n, q = sign.shape
        scores = np.zeros((q, n))
        if start is not None:
            scores[:] = _columns(np.asarray(start, dtype=float)).T
        one_pass = _kernel_pass(problem.gram, self.max_iter > 1)

        def step(
            order: np.ndarray,
            side: np.ndarray,
            settle: bool,
            missed: np.ndarray,
            rounds: int,
            report: _Reporter | None,
        ) -> int:
            return one_pass(order, side, scores, settle, missed, report)

        return self._passes(step, sign, watch)

    def solve_primal(
        self,
        X: Points,
        sign: np.ndarray,
        weights: Weights,
        *,
        watch: Watch | None = None,
    ) -> tuple[Weights, PerceptronSolution]:
        """The same for f(x) = ⟨w, x⟩ on vectors, w += eta · sign · x; from `weights`.

        Parameters
        ----------
        X : (n, d) array or CSR
        """
        X, sign = vectors(X), _columns(sign)
        weights = replace(weights, w=weights.w.copy(), u=weights.u.copy())
        one_pass = _primal_pass(X, weights)
        found = self._passes(one_pass, sign, watch)
        return replace(weights, rounds=weights.rounds + found.rounds), found

    def _passes(
        self,
        one_pass: _Pass,
        sign: np.ndarray,
        watch: Watch | None,
    ) -> PerceptronSolution:
        n, q = sign.shape
        sign = np.require(sign, np.int8, ["C"])
        random = np.random.default_rng(self.seed)
        reporter = _Reporter(watch)
        status, parts = "max_iter", []
        for k in range(self.max_iter):
            order = random.permutation(n) if self.shuffle else np.arange(n)
            side, missed = sign[order], np.zeros((n, q), dtype=np.uint8)
            report = None if watch is None else reporter
            settle, rounds = bool(k + 1 < self.max_iter), reporter.rounds
            seen = one_pass(order, side, settle, missed, rounds, report)
            t, c = np.nonzero(missed)
            parts.append((order[t], c, side[t, c], t + rounds))
            if seen == n and not len(t):
                status = "optimal"
                reporter.rounds += seen
                break
            if reporter.after_pass(seen, len(t)):
                status = "stopped"
                break
        point, column, near, when = map(np.concatenate, zip(*parts, strict=True))
        return PerceptronSolution(
            point=point,
            column=column,
            side=near,
            time=when,
            rounds=reporter.rounds,
            n_outputs=q,
            run=Run(Status(status), len(parts), reporter.seconds, reporter.mistakes),
        )


class _Reporter:
    """Reports to `watch` how far the passes are; whether it wants them to end."""

    def __init__(self, watch: Watch | None):
        self.watch, self.begin = watch, time.perf_counter()
        self.passes = self.rounds = self.mistakes = 0
        self.stops = False

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.begin

    def __call__(self, seen: int, mistakes: int) -> bool:
        """Within a pass, after so many of its points."""
        return self._report(self.passes + 1, seen, mistakes)

    def after_pass(self, seen: int, mistakes: int) -> bool:
        self.passes += 1
        self.rounds += seen
        self.mistakes += mistakes
        return self.stops or self._report(self.passes, 0, 0)

    def _report(self, k: int, seen: int, mistakes: int) -> bool:
        if self.watch is not None:
            made = self.mistakes + mistakes
            progress = Progress(
                k,
                self.rounds + seen,
                made,
                self.seconds,
                support=made,
                objective=float(made),
                words=WORDS,
                unit="point",
            )
            self.stops |= bool(self.watch(progress))
        return self.stops


# What goes over the points once: (order, side, settle, missed, rounds, report), and how
# many points it saw; the other, that of kernels, keeps f at the points beside `side`.
_Pass = Callable[[np.ndarray, np.ndarray, bool, np.ndarray, int, _Reporter | None], int]
_ScorePass = Callable[
    [np.ndarray, np.ndarray, np.ndarray, bool, np.ndarray, _Reporter | None], int
]


@dataclass(frozen=True, eq=False)
class Weights:
    """w of q functions ⟨w, x⟩ + constant · bias, and what their averages need.

    Attributes
    ----------
    w : (q, d + 1) array, the bias last
    u : Σ t · (what time t added to w), as w
    rounds : T, the points seen
    eta : the learning rate
    constant : 1 for a bias, 0 for none
    """

    w: np.ndarray
    u: np.ndarray
    rounds: int = 0
    eta: float = 1.0
    constant: float = 1.0

    def averaged(self) -> np.ndarray:
        """(1/T) Σₜ wₜ, wₜ being w after t points."""
        return self.w - self.u / max(1, self.rounds)

    def widened(self, d: int) -> Weights:
        """The same with 0 for columns that are new, d in all."""
        new = np.zeros((len(self.w), d + 1 - self.w.shape[1]))
        if not new.size:
            return self
        w, u = (np.hstack([v[:, :-1], new, v[:, -1:]]) for v in (self.w, self.u))
        return replace(self, w=w, u=u)


def _columns(values: np.ndarray) -> np.ndarray:
    return values[:, None] if values.ndim == 1 else values


def _primal_pass(X: Points, weights: Weights) -> _Pass:
    """One pass that updates these weights in place."""
    if sp.issparse(X):
        rows: tuple[np.ndarray, ...] = csr_parts(X)
        call: Callable[..., int] = _core.perceptron_csr
    else:
        rows = (np.require(X, X.dtype, ["C", "A"]),)
        call = _core.perceptron_vectors
    w = weights

    def one_pass(
        order: np.ndarray,
        side: np.ndarray,
        settle: bool,
        missed: np.ndarray,
        rounds: int,
        report: _Reporter | None,
    ) -> int:
        now = w.rounds + rounds
        return call(
            *rows, order, side, w.w, w.u, w.eta, w.constant, now, missed, report
        )

    return one_pass


def _kernel_pass(gram: Gram, many: bool) -> _ScorePass:
    """One pass over the points of a Gram, or the first of many, the fastest way."""
    n = gram.shape[0]
    if many and 8 * n * n <= SMALL_MATRIX:
        return _matrix_pass(gram.dense())
    kernel, shift = without_constant(gram.kernel)
    recipe = kernel.native(gram.X)
    if recipe is None:
        return _Blocks(gram)
    packed = Packed(vectors(gram.X), only_core=True)._points

    def one_pass(
        order: np.ndarray,
        side: np.ndarray,
        scores: np.ndarray,
        settle: bool,
        missed: np.ndarray,
        report: _Reporter | None,
    ) -> int:
        some = order if (np.diff(order) < 0).any() else order[:0]
        ordered = np.ascontiguousarray(scores[:, order])
        task = (some, shift, side, ordered, settle, missed, report)
        seen = _core.perceptron(native_recipe(recipe), packed, *task)
        scores[:, order] = ordered
        return seen

    return one_pass


def _matrix_pass(K: np.ndarray) -> _ScorePass:
    K = np.require(K, K.dtype if K.dtype == np.float32 else np.float64, ["C", "A"])

    def one_pass(
        order: np.ndarray,
        side: np.ndarray,
        scores: np.ndarray,
        settle: bool,
        missed: np.ndarray,
        report: _Reporter | None,
    ) -> int:
        return _core.perceptron_dense(K, order, 0.0, side, scores, missed, report)

    return one_pass


class _Blocks:
    """Passes over points whose kernel is not compiled, by blocks of its values."""

    def __init__(self, gram: Gram):
        self.kernel, self.X = gram.kernel, gram.X

    def __call__(
        self,
        order: np.ndarray,
        side: np.ndarray,
        scores: np.ndarray,
        settle: bool,
        missed: np.ndarray,
        report: _Reporter | None,
    ) -> int:
        self.order, self.side, self.missed = order, side, missed
        self.settle, self.report = settle, report
        self.scores = np.ascontiguousarray(scores[:, order])
        self.seen, self.stopped = 0, False
        self._go(0, count(self.X))
        scores[:, order] = self.scores
        return self.seen

    def _go(self, first: int, last: int) -> None:
        if self.stopped:
            return
        if last - first <= LEAF:
            return self._leaf(first, last)
        middle = (first + last) // 2
        self._go(first, middle)
        self._spread(first, middle, middle, last)
        self._go(middle, last)
        if self.settle:
            self._spread(middle, last, first, middle)

    def _leaf(self, first: int, last: int) -> None:
        scores, side = self.scores[:, first:last].copy(), self.side[first:last]
        if not np.isfinite(scores).all():
            raise ValueError("The kernel has values that are not finite numbers.")
        if (scores.T * side <= 0).any():
            K = self.kernel(take(self.X, self.order[first:last]))
            own = np.arange(last - first)
            _matrix_pass(K)(own, side, scores, True, self.missed[first:last], None)
            self.scores[:, first:last] = scores
        self.seen = last
        if self.report is not None:
            self.stopped = self.report(last, int(self.missed[:last].sum()))

    def _spread(self, first: int, last: int, start: int, stop: int) -> None:
        """The mistakes of [first, last) into the scores of [start, stop)."""
        which = first + np.flatnonzero(self.missed[first:last].any(axis=1))
        if self.stopped or not len(which):
            return
        factor = self.missed[which] * self.side[which].astype(float)
        points = take(self.X, self.order[start:stop])
        wrong = take(self.X, self.order[which])
        self.scores[:, start:stop] += self.kernel.matmul(points, wrong, factor).T
