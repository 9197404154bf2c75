"""The evidence of a `SparseBayes`, raised by one α at a time.

Of all columns the one is taken whose α, put where the evidence is largest, raises it
most: α from ∞ adds the column, α to ∞ deletes it, the rest are re-estimates. Tipping
and Faul, "Fast marginal likelihood maximisation for sparse Bayesian models" (2003),
whose letters are kept: with C the covariance of the target,

    S = φᵀC⁻¹φ,  Q = φᵀC⁻¹t,  and s, q the same with φ left out of C.

Looking at all columns is the costly part. It is done now and then (a scan); between
scans the search stays with the active columns and the best of the others (the pool),
as long as these promise more than the best column left outside did.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np

from mercer.native.clock import OutOfTime
from mercer.native.interruptible import interruptible
from mercer.native.threads import one_blas_thread
from mercer.outcomes import Progress, Run, Status, Watch
from mercer.solvers.bayes import Basis, Posterior, SingleColumn, SparseBayes
from mercer.solvers.krylov import Pulse
from mercer.solvers.limits import TimeLimit, check_time_limit
from mercer.solvers.posterior import LEAST, SPANNED, Logistic, Normal, State

POOL = 96  # columns beside the active ones that are looked at between two scans
LARGEST = 1e12  # an α beyond it is ∞, where columns and target have mean square 1
TIE = 1e-9  # relative; of gains this near to each other the first is taken
SHARE = 8  # of the active columns; so many single steps cost what one of all α does
FARTHEST = 3.0  # what log α may change by when all do
BUDGET = 100  # steps for each column, where no other number is asked for


# What the search calls its numbers.
WORDS = (
    ("objective", "log evidence"),
    ("support", "relevance vectors"),
    ("violation", "gain"),
)


@dataclass(frozen=True)
class EvidenceAscent:
    """Maximise the evidence of a `SparseBayes`, until no step adds more than tol.

    The status is "optimal" when every single α (and β) is where the evidence, as the
    approximation at hand has it, is within tol of its largest; a local maximum, as
    there may be several.

    Parameters
    ----------
    tol : in units of log p(target)
    max_iter : steps at most; -1 for 100 for each column
    alpha_max : an α beyond it is ∞, for columns and targets of mean square 1
    time_limit : seconds; None for no limit. What was found by then is returned, with
        the status "time_limit"

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gram, RBF
    >>> from mercer.solvers import EvidenceAscent, SparseBayes
    >>> X = np.linspace(-2, 2, 40)[:, None]
    >>> side = np.where(np.abs(X[:, 0]) < 1, 1, -1)
    >>> found = EvidenceAscent().solve(SparseBayes(Gram(RBF(1), X), side, "logistic"))
    >>> found.status, bool(found.violation < 1e-5), len(found.index) < 10
    ('optimal', True, True)
    """

    tol: float = 1e-5
    max_iter: int = -1
    alpha_max: float = LARGEST
    time_limit: float | None = None

    def __post_init__(self) -> None:
        check_time_limit(self)
        if not self.tol > 0:
            raise ValueError(f"EvidenceAscent needs tol > 0; got tol={self.tol!r}.")
        if not self.alpha_max > LEAST:
            raise ValueError(
                f"EvidenceAscent needs alpha_max > {LEAST:g}; got {self.alpha_max!r}."
            )

    def solve(
        self,
        problem: SparseBayes,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Posterior:
        """The posterior at the best α found; `watch` returns True to stop.

        There is nothing for `start` to say: the search begins with a single column.
        """
        limit = None
        if self.time_limit is not None:
            watch = limit = TimeLimit(watch, self.time_limit)
        with one_blas_thread():
            found = _Search(self, problem, watch).run()
        return found if limit is None else limit.ended(found)


def gains(
    S: np.ndarray, Q: np.ndarray, alpha: np.ndarray, alpha_max: float = LARGEST
) -> tuple[np.ndarray, np.ndarray]:
    """What the best α of each column would add to the evidence, and that α.

    The evidence depends on one α, all others being fixed, as
    l(α) = ½ (q² / (α + s) - log(1 + s/α)), 0 at ∞, with its largest value at
    s² / (q² - s), or at ∞ where q² ≤ s.
    """
    rest = 1 - S / alpha
    known = (S > 0) & (rest > SPANNED)
    rest = np.where(known, rest, 1.0)
    s, q = np.where(known, S, 1.0) / rest, np.where(known, Q, 0.0) / rest
    room = q * q - s
    best = np.full(len(s), np.inf)
    np.divide(s * s, room, out=best, where=room > 0)
    best = np.maximum(best, LEAST)
    best[best > alpha_max] = np.inf

    def evidence(a: np.ndarray) -> np.ndarray:
        return (q * q / (a + s) - np.log1p(s / a)) / 2

    gain = np.where(known, evidence(best) - evidence(alpha), 0.0)
    return gain, np.where(known, best, alpha)


class _Search:
    """One search: scans of all columns, and the steps between them."""

    def __init__(
        self,
        options: EvidenceAscent,
        problem: SparseBayes,
        watch: Watch | None,
    ):
        self.options, self.watch = options, watch
        self.begin = time.perf_counter()
        self.pulse = Pulse(None if watch is None else self._working)
        self.round, self.gain = 0, float("nan")
        self.state: Any = None  # a State, from the first column on
        self.pulse.stopped = isinstance(watch, TimeLimit) and watch.is_over()
        kind: Any = Normal if problem.likelihood == "normal" else Logistic
        self.basis: Any
        try:
            self.basis = Basis(problem, self.pulse)
            self.model = kind(self.basis, problem)
            first: State = self.model.start()
        except OutOfTime:
            # Without a look at all columns one is as good as another.
            self.basis = SingleColumn(problem)
            self.model = kind(self.basis, problem)
            first = self.model.start()
        self.curve = [first.evidence]
        self.state = first
        # Columns that are not to be tried: of zeros, or tried without a gain.
        self.refused = self.basis.empty.copy()
        self.settled = False  # whether the noise was tried without a gain
        self.cleared = self.state.evidence  # the evidence when `refused` was last reset
        budget = options.max_iter
        self.left = BUDGET * self.basis.size if budget < 0 else budget

    def run(self) -> Posterior:
        for round in count():
            try:
                gain, order = self._scan()
            except OutOfTime:
                gain, order = np.full(1, np.nan), np.zeros(1, dtype=int)
            best = float(gain[order[0]])
            status = self._status(best, self._reported(round, best))
            if status:
                break
            outside = gain[order[POOL]] if len(order) > POOL else 0.0
            self.state = self.model.focus(self.state, np.sort(order[:POOL]))
            if not self.pulse.stopped:
                self._steps(max(self.options.tol, float(outside)))
        state = self.state
        if not self.pulse.stopped:
            state = self.model.focus(state, np.empty(0, dtype=int))
        every = isinstance(self.basis, Basis)
        return replace(
            self.model.posterior(state),
            curve=np.array(self.curve),
            violation=best if every else np.nan,
            run=Run(
                Status(status),
                len(self.curve),
                time.perf_counter() - self.begin,
                self.basis.rows,
            ),
        )

    def _status(self, gain: float, stopped: bool) -> str:
        """How the search ends here; "" if it goes on."""
        if gain < self.options.tol and isinstance(self.basis, Basis):
            return "optimal"
        if stopped:
            return "stopped"
        return "max_iter" if self.left <= 0 else ""

    def _reported(self, round: int, gain: float) -> bool:
        if self.watch is None:
            return False
        self.round, self.gain = round, gain
        self.pulse.reported()
        return self.pulse.stopped or self._working("")

    def _working(self, stage: str) -> bool:
        """Tell `watch` where the search is, and what it is at; whether to stop."""
        assert self.watch is not None
        round, gain, seconds = self.round, self.gain, time.perf_counter() - self.begin
        if self.state is None:  # before its first column
            return bool(
                self.watch(Progress(0, 0, 0, seconds, words=WORDS, stage=stage))
            )
        active = int(np.isfinite(self.state.alpha).sum())
        evidence = self.state.evidence
        steps, rows = len(self.curve), self.basis.rows
        progress = Progress(
            round,
            steps,
            rows,
            seconds,
            support=active,
            violation=gain,
            objective=evidence,
            words=WORDS,
            stage=stage,
        )
        return bool(self.watch(progress))

    def _scan(self) -> tuple[np.ndarray, np.ndarray]:
        """What each column would add, and the columns from the largest gain on."""
        if self.state.evidence - self.cleared >= self.options.tol:
            self.refused = self.basis.empty.copy()
            self.settled = False
            self.cleared = self.state.evidence
        alpha = np.full(self.basis.size, np.inf)
        alpha[self.state.which] = self.state.alpha
        S, Q = self.model.scan(self.state)
        gain, _ = self._gains(S, Q, alpha)
        gain[self.refused] = 0.0
        noise, _ = self._noise_gain()
        order = np.argsort(-gain, kind="stable")
        if noise > gain[order[0]]:
            gain[order[0]] = noise  # the search goes on for its sake
        return gain, order

    def _gains(
        self, S: np.ndarray, Q: np.ndarray, alpha: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        gain, best = gains(S, Q, alpha, self.options.alpha_max)
        active = np.isfinite(alpha)
        if active.sum() == 1:
            gain[active & np.isinf(best)] = 0.0  # the last one stays
        return gain, best

    def _noise_gain(self) -> tuple[float, bool]:
        return (0.0, False) if self.settled else self.model.noise_gain(self.state)

    def _steps(self, least: float) -> None:
        """Steps among the columns in view, as long as one adds at least so much."""
        singles = 0  # since the last step of all α together
        while self.left > 0 and not self.pulse.stopped:
            self.pulse("steps")
            state = self.state
            gain, best = self._gains(state.S, state.Q, state.alpha)
            gain[self.refused[state.which]] = 0.0
            largest = float(gain.max())
            if largest < least:
                # A column that does not help is deleted however little that adds.
                idle = np.isfinite(state.alpha) & np.isinf(best) & (gain > 0)
                if idle.any():
                    place = int(np.argmax(np.where(idle, gain, 0.0)))
                    moved = self.model.moved(state, place, np.inf)
                    self._take(moved, state.which[place])
                elif not self._quieted(least):
                    return
                continue
            near = gain >= (1 - TIE) * largest
            active = np.isfinite(state.alpha)
            place = int(np.argmax(near & active if (near & active).any() else near))
            together = active[place] and np.isfinite(best[place])
            if together and singles >= active.sum() // SHARE and self._joint():
                singles = 0
                continue
            singles += 1
            self._take(self.model.moved(state, place, best[place]), state.which[place])

    def _quieted(self, least: float) -> bool:
        """Another β, if that adds enough; less noise at once, more at the very end.

        Columns that are still missing look like noise, and are never found once they
        pass for it: the noise is raised when there is nothing else to do.
        """
        noise, rising = self._noise_gain()
        if noise < least or (rising and least > self.options.tol):
            return False
        self._take(self.model.quieted(self.state), None)
        return True

    def _joint(self) -> bool:
        """All active α at once by Newton's method; whether that added anything.

        With v = 1/α the slope is ½ (Q² - S) and the Hessian ½ T∘T - QQᵀ∘T; both are
        brought to log v.
        """
        state = self.state
        active = np.isfinite(state.alpha)
        v, Q, T = 1 / state.alpha[active], state.Q[active], state.inner()
        slope = v * (Q * Q - T.diagonal()) / 2
        hessian = v[:, None] * v * (T * T / 2 - Q[:, None] * Q * T) + np.diag(slope)
        work = 4.0 * len(hessian) ** 3
        values, vectors = interruptible(np.linalg.eigh, -hessian, work=work)
        # Away from a maximum, uphill all the same, and never far.
        values = np.maximum(np.abs(values), 1e-6 * np.abs(values).max() + 1e-12)
        step = vectors @ ((vectors.T @ slope) / values)
        step *= min(1.0, FARTHEST / np.abs(step).max(initial=1e-300))
        for size in (1.0, 0.25):
            alpha = state.alpha.copy()
            alpha[active] = np.clip(
                alpha[active] * np.exp(-size * step), LEAST, self.options.alpha_max
            )
            found = self.model.changed(state, alpha)
            if found.evidence - state.evidence >= self.options.tol / 10:
                self._take(found, None)
                return True
        return False

    def _take(self, state: State, column: int | None) -> None:
        """Go there if the evidence does not fall, and not again if it hardly rises."""
        self.left -= 1
        rise = state.evidence - self.state.evidence
        if rise < self.options.tol / 10:
            if column is None:
                self.settled = True
            else:
                self.refused[column] = True
        if rise >= 0:
            self.state = state
            # By its rises: a scan computes the evidence anew, to other last digits.
            self.curve.append(self.curve[-1] + rise)
