"""HMM, a density of sequences of values or symbols that hidden states emit.

The length is taken as given, as in `MarkovChain`. EM by forward-backward: Rabiner,
Proceedings of the IEEE 77 (1989).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.data.checks import check_nesting, describe
from mercer.data.points import Points, as_points, each
from mercer.densities.base import (
    Density,
    Fit,
    added,
    check_coordinates,
    check_count,
    check_enough,
    check_options,
    check_possible,
    checked_weight,
    expectation_maximisation,
    first_labels,
    free_cells,
    from_log_odds,
    log_odds,
    log_odds_score,
    log_prior,
    shares,
)
from mercer.densities.categories import Categories, alphabet, coded, written
from mercer.densities.normals import Normals, centred, dense_rows, variances
from mercer.densities.passes import (
    Length,
    Passes,
    Runs,
    check_length,
    check_moves,
    drawn_lengths,
    forward_backward,
    joined,
    length_shares,
    likelihood,
    run_blocks,
    walk,
)
from mercer.native.interruptible import interruptible

Spread = Any  # the variances of all values; None where states emit symbols


@dataclass(frozen=True, eq=False, repr=False)
class HMM(Density):
    """p(x₁..x_T) = Σ over paths of start[s₁] · Π transition[sₜ₋₁, sₜ] · Π p(xₜ | sₜ).

    θ: the log-odds of the start and of each row of transitions, without cells that are
    0, then the coordinates of the emissions.

    Parameters
    ----------
    states : how many
    emission : what a state emits: `Normals(form)` for values and vectors, NaN where
        some are missing, or `Categories()` for symbols
    start : one probability for each state, or None before a fit
    transition : (states, states) array whose rows sum to 1, or None. A fit starts from
        what is given, and what is 0 stays 0: [[.9, .1], [0, 1]] only moves ahead
    smoothing : added to every count of a fit; and imagined observations of each state,
        with the variance of all
    tol : a fit ends when a step gains less than this in ln p per sequence
    max_iter : ... or after so many steps; `report` says which
    seed : of the first states
    length : of the sequences the model makes: a number, or shares of several; None for
        those of the points of `fit`
    report : how the fit went, a `Fit`

    Examples
    --------
    >>> from mercer.densities import HMM, Categories
    >>> coins = Categories("HT", [[0.5, 0.5], [0.9, 0.1]])
    >>> model = HMM(2, coins, start=[0.5, 0.5], transition=[[0.9, 0.1], [0.1, 0.9]])
    >>> model.log_likelihood(["HH"]).round(4).tolist()
    [-0.6501]
    """

    states: int = 2
    emission: Normals | Categories = field(default_factory=lambda: Normals("diag"))
    start: Any = None
    transition: Any = None
    smoothing: float = 1.0
    tol: float = 1e-4
    max_iter: int = 500
    seed: int = 0
    length: Length = None
    report: Fit | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_count("HMM", "states", self.states, 1)
        check_options("HMM", self.smoothing, self.tol, self.max_iter, self.seed)
        check_length("HMM", self.length)
        if not isinstance(self.emission, Normals | Categories):
            raise TypeError(
                "HMM needs an emission, Normals(...) or Categories(...); got "
                f"{describe(self.emission)}."
            )
        check_moves("HMM", self.start, self.transition, self.states)
        if self.emission.fitted and self.emission.size != self.states:
            raise ValueError(
                f"HMM of {self.states} states needs as many emissions; got "
                f"{self.emission.size}."
            )

    @property
    def fitted(self) -> bool:
        known = self.start is not None and self.transition is not None
        return known and self.emission.fitted

    def _tables(self) -> list[np.ndarray]:
        self._check_fitted()
        start, transition = np.asarray(self.start), np.asarray(self.transition)
        return [start.astype(float)[None], transition.astype(float)]

    def _runs(self, X: Points) -> Runs:
        """All observations, (N, d) values or (N,) codes, cut into sequences."""
        points = each(as_points(X))
        if isinstance(self.emission, Categories):
            assert self.emission.symbols is not None
            return joined(coded(points, self.emission.symbols, "HMM"))
        d = np.shape(self.emission.means)[1] if self.emission.fitted else None
        return joined(value_rows(points, d))

    def _passes(self, runs: Runs) -> Passes:
        start, transition = self._tables()
        logs = self.emission.log_densities(runs.rows)
        return forward_backward(logs, runs.offsets, start[0], transition)

    def log_likelihood(self, X: Points) -> np.ndarray:
        start, transition = self._tables()
        runs = self._runs(X)
        out = np.empty(len(runs.offsets) - 1)
        for block, part in run_blocks(runs, self.states):
            logs = self.emission.log_densities(part.rows)
            out[block] = likelihood(logs, part.offsets, start[0], transition)
        return out

    def score(self, X: Points) -> np.ndarray:
        start, transition = self._tables()
        runs = self._runs(X)
        out = np.empty((len(runs.offsets) - 1, len(self.theta)))
        likelihoods = np.zeros(len(out))
        for block, part in run_blocks(runs, out.shape[1]):
            found = self._passes(part)
            likelihoods[block] = found.log_likelihood
            statistics = self.emission.statistics(
                part.rows, found.answers, part.offsets
            )
            out[block] = np.hstack(
                [
                    log_odds_score(_first(found.answers, part)[:, None], start),
                    log_odds_score(found.moves, transition),
                    self.emission.score(statistics),
                ]
            )
        check_possible("HMM", likelihoods)
        return out

    def sample(self, n: int, seed: int = 0) -> list[Any]:
        """n sequences drawn from the model: (T, d) arrays, or sequences of symbols."""
        start, transition = self._tables()
        rng = np.random.default_rng(seed)
        lengths = drawn_lengths("HMM", self.length, n, rng)
        states = walk(start[0], transition, lengths, rng)
        inside = np.arange(states.shape[1]) < lengths[:, None]
        chosen = states[inside]
        emitted = interruptible(
            self.emission.sample, chosen, rng, work=1000.0 * len(chosen)
        )
        parts = np.split(emitted, np.cumsum(lengths)[:-1]) if n else []
        if isinstance(self.emission, Normals):
            return parts
        symbols = self.emission.symbols
        assert symbols is not None
        return [written(part, symbols) for part in parts]

    @property
    def theta(self) -> np.ndarray:
        odds = [log_odds(table) for table in self._tables()]
        return np.concatenate([*odds, self.emission.theta])

    def at(self, theta: npt.ArrayLike) -> HMM:
        values = check_coordinates("HMM", theta, len(self.theta))
        start, transition = self._tables()
        a = len(log_odds(start))
        b = a + len(log_odds(transition))
        return replace(
            self,
            start=from_log_odds(values[:a], start)[0],
            transition=from_log_odds(values[a:b], transition),
            emission=self.emission.at(values[b:]),
        )

    def names(self) -> list[str]:
        starts, moves = map(free_cells, self._tables())
        named = [f"log odds of {j} at the start" for _, j in np.argwhere(starts)]
        named += [f"log odds of {i} → {j}" for i, j in np.argwhere(moves)]
        return named + self.emission.names()

    # EM

    def fit(self, X: Points, weight: npt.ArrayLike | None = None) -> HMM:
        weights = checked_weight(X, weight, "HMM")
        points = each(as_points(X))
        known = self._with_alphabet(points)
        runs = known._runs(points)
        lengths = runs.lengths
        if not lengths.any():
            raise ValueError("HMM.fit needs a sequence that is not empty; got none.")
        spread = known._spread(runs, np.repeat(weights, lengths))
        first = known._start(runs, weights, spread)

        def expect(model: HMM) -> tuple[float, list[np.ndarray]]:
            return model._expect(runs, weights, spread)

        def maximise(model: HMM, sums: list[np.ndarray]) -> HMM:
            starts, moves, *emitted = sums
            start, transition = model._tables()
            return replace(
                model,
                start=shares(starts, start[0], model.smoothing),
                transition=shares(moves, transition, model.smoothing),
                emission=model.emission.maximised(emitted, model.smoothing, spread),
            )

        best, report = expectation_maximisation(
            first, expect, maximise, weights.sum(), self.tol, self.max_iter
        )
        length = length_shares(lengths, weights) if self.length is None else self.length
        return replace(best, report=report, length=length)

    def _expect(
        self, runs: Runs, weight: np.ndarray, spread: Spread
    ) -> tuple[float, list[np.ndarray]]:
        """The objective of a fit, and the statistics summed over all sequences."""
        objective, sums = 0.0, None
        for block, part in run_blocks(runs, self.states):
            found, w = self._passes(part), weight[block]
            check_possible("HMM", np.where(w > 0, found.log_likelihood, 0.0))
            objective += float(w @ np.where(w > 0, found.log_likelihood, 0.0))
            moves = [w @ _first(found.answers, part), np.tensordot(w, found.moves, 1)]
            answers = found.answers * np.repeat(w, part.lengths)[:, None]
            sums = added(sums, [*moves, *self.emission.sums(part.rows, answers)])
        for table in self._tables():
            objective += log_prior(table, self.smoothing)
        assert sums is not None  # of one sequence at least
        return objective + self.emission.log_prior(self.smoothing, spread), sums

    def _with_alphabet(self, points: Sequence[Any]) -> HMM:
        if isinstance(self.emission, Normals) or self.emission.symbols is not None:
            return self
        symbols = alphabet(points, "HMM")
        return replace(self, emission=replace(self.emission, symbols=symbols))

    def _spread(self, runs: Runs, weight: np.ndarray) -> Spread:
        if isinstance(self.emission, Categories):
            return None
        return variances(runs.rows, weight)

    def _start(self, runs: Runs, weight: np.ndarray, spread: Spread) -> HMM:
        """Where EM begins: what is given, and states by clusters or by time."""
        rng, k = np.random.default_rng(self.seed), self.states
        if self.transition is None and not self.emission.fitted:
            check_enough("HMM", "states", k, len(runs.rows))
        start, transition, emission = self.start, self.transition, self.emission
        ahead = transition is not None and not np.tril(transition, -1).any()
        if start is None:
            start = np.eye(k)[0] if ahead else np.full(k, 1 / k)
        if transition is None:
            transition = np.eye(k) + rng.uniform(0.5, 1.5, (k, k))
            transition /= transition.sum(axis=1, keepdims=True)
        if not emission.fitted:
            emission = self._first_emission(runs, weight, spread, ahead, rng)
        return replace(self, start=start, transition=transition, emission=emission)

    def _first_emission(
        self,
        runs: Runs,
        weight: np.ndarray,
        spread: Spread,
        ahead: bool,
        rng: np.random.Generator,
    ) -> Normals | Categories:
        k, rows = self.states, runs.rows
        weights = np.repeat(weight, runs.lengths)
        if isinstance(self.emission, Categories):
            assert self.emission.symbols is not None
            S = len(self.emission.symbols)
            usual = np.bincount(rows, weights, minlength=S) + self.smoothing + 1e-3
            table = usual * rng.exponential(size=(k, S))
            table /= table.sum(axis=1, keepdims=True)
            return replace(self.emission, probabilities=table)
        if ahead:
            labels = np.concatenate(
                [np.arange(T) * k // max(T, 1) for T in runs.lengths]
            )
        else:
            labels = first_labels(centred(rows, weights), k, rng, weights)
        return self.emission.started(rows, labels, k, weights, spread)


def _first(answers: np.ndarray, runs: Runs) -> np.ndarray:
    """P(state k at the first observation | x), (n, k); 0 where there is none."""
    out = np.zeros((len(runs.lengths), answers.shape[1]))
    filled = runs.lengths > 0
    out[filled] = answers[runs.offsets[:-1][filled]]
    return out


def value_rows(points: Sequence[Any], d: int | None) -> list[np.ndarray]:
    """Sequences of numbers or of vectors as (T, d) arrays."""
    rows = []
    for i, x in enumerate(points):
        check_nesting(x)
        try:
            values = np.asarray(x, dtype=float)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"HMM with Normals compares sequences of numbers or vectors; point {i} "
                f"is {describe(x)}. For symbols use HMM(states, Categories())."
            ) from error
        if values.ndim not in (1, 2):
            raise TypeError(
                f"HMM compares sequences; point {i} has shape {values.shape}, not "
                "(T,) or (T, d)."
            )
        rows.append(values[:, None] if values.ndim == 1 else values)
    if d is None:
        d = next((len(row[0]) for row in rows if len(row)), 1)
    for i, row in enumerate(rows):
        if len(row) == 0:
            rows[i] = np.empty((0, d))
        elif row.shape[1] != d:
            raise ValueError(
                f"HMM compares sequences of vectors of dimension {d}; those of point "
                f"{i} have {row.shape[1]}."
            )
    if not all(np.isfinite(row.sum()) for row in rows):
        for row in rows:
            dense_rows(row, "HMM")
    return rows
