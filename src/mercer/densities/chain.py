"""MarkovChain, a density of sequences of symbols of any length.

The length itself is taken as given: p(x) is the probability of the symbols, once their
number is known. Only where the chain makes sequences of its own (`sample`, and the
information under the model) do lengths matter; they are those of the points of `fit`,
or given.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.data.points import Points, as_points, objects
from mercer.densities.base import (
    Density,
    check_coordinates,
    check_options,
    check_possible,
    checked_weight,
    free_cells,
    from_log_odds,
    log_odds,
    log_odds_information,
    log_odds_score,
    logarithms,
    shares,
)
from mercer.densities.categories import alphabet, check_symbols, coded, written
from mercer.densities.passes import (
    Length,
    check_length,
    check_moves,
    drawn_lengths,
    known_lengths,
    length_shares,
    walk,
)
from mercer.native.interruptible import elementwise, interruptible


@dataclass(frozen=True, eq=False, repr=False)
class MarkovChain(Density):
    """p(x₁..x_T) = start[x₁] · Π transition[xₜ₋₁, xₜ], on sequences of symbols.

    θ: the log-odds of the start and of each row of transitions, without cells that are
    0. The information has a closed form.

    Parameters
    ----------
    symbols : the alphabet, hashable things; None for those of the points of `fit`
    start : one probability for each symbol, or None before a fit
    transition : (symbols, symbols) array whose rows sum to 1, or None
    smoothing : added to every count of a fit, so that nothing is impossible
    length : of the sequences the chain makes: a number, or shares of several; None for
        those of the points of `fit`

    Examples
    --------
    >>> from mercer.densities import MarkovChain
    >>> model = MarkovChain(smoothing=0.5).fit(["aab", "abb"])
    >>> model.transition.round(4).tolist()
    [[0.375, 0.625], [0.25, 0.75]]
    >>> model.log_likelihood(["ab"]).round(4).tolist()
    [-0.6523]
    """

    symbols: Sequence[Hashable] | None = None
    start: Any = None
    transition: Any = None
    smoothing: float = 1.0
    length: Length = None

    def __post_init__(self) -> None:
        check_symbols("MarkovChain", self.symbols)
        check_options("MarkovChain", self.smoothing, 0, 0)
        check_length("MarkovChain", self.length)
        if self.start is None and self.transition is None:
            return
        if self.symbols is None:
            raise ValueError("MarkovChain with probabilities needs their symbols.")
        check_moves("MarkovChain", self.start, self.transition, len(self.symbols))

    @property
    def fitted(self) -> bool:
        return self.start is not None and self.transition is not None

    def _tables(self) -> list[np.ndarray]:
        """The start and the transitions as arrays, each with rows."""
        self._check_fitted()
        start, transition = np.asarray(self.start), np.asarray(self.transition)
        return [start.astype(float)[None], transition.astype(float)]

    def _counts(self, X: Points) -> list[np.ndarray]:
        """How each sequence starts, (n, 1, S), and how it moves, (n, S, S)."""
        assert self.symbols is not None
        codes, S = coded(objects(as_points(X)), self.symbols, "MarkovChain"), self._size
        starts, moves = np.zeros((len(codes), 1, S)), np.zeros((len(codes), S, S))
        for i, code in enumerate(codes):
            if len(code):
                starts[i, 0, code[0]] = 1
                work = 100.0 * (S * S + len(code))
                moves[i] = interruptible(_moves, code, S, work=work)
        return [starts, moves]

    @property
    def _size(self) -> int:
        assert self.symbols is not None
        return len(self.symbols)

    def fit(self, X: Points, weight: npt.ArrayLike | None = None) -> MarkovChain:
        weights = checked_weight(X, weight, "MarkovChain")
        points = objects(as_points(X))
        symbols = self.symbols
        if symbols is None:
            symbols = alphabet(points, "MarkovChain")
        S = len(symbols)
        known = replace(self, symbols=symbols)
        old = [np.full((1, S), 1 / S), np.full((S, S), 1 / S)]
        counts = [
            elementwise(lambda c: np.tensordot(weights, c, 1), c)
            for c in known._counts(points)
        ]
        start, transition = (
            shares(c, o, self.smoothing) for c, o in zip(counts, old, strict=True)
        )
        lengths = np.array([len(x) for x in points])
        length = length_shares(lengths, weights) if self.length is None else self.length
        return replace(known, start=start[0], transition=transition, length=length)

    def log_likelihood(self, X: Points) -> np.ndarray:
        return self._likelihood(self._tables(), self._counts(X))

    def _likelihood(
        self, tables: list[np.ndarray], counts: list[np.ndarray]
    ) -> np.ndarray:
        out = np.zeros(len(counts[0]))
        for table, count in zip(tables, counts, strict=True):
            # 0 · ln 0 = 0: a move that is not made may be impossible.
            out += np.tensordot(count, np.where(table > 0, logarithms(table), 0.0), 2)
            out[((count > 0) & (table == 0)).any(axis=(1, 2))] = -np.inf
        return out

    def score(self, X: Points) -> np.ndarray:
        tables, counts = self._tables(), self._counts(X)
        check_possible("MarkovChain", self._likelihood(tables, counts))
        parts = zip(counts, tables, strict=True)
        return np.hstack([log_odds_score(count, table) for count, table in parts])

    def information(self) -> np.ndarray:
        start, transition = self._tables()
        lengths, parts = known_lengths("MarkovChain", self.length)
        visits, state = np.zeros(self._size), start[0]
        for t in range(int(lengths.max()) - 1):
            visits += parts[lengths > t + 1].sum() * state
            state = state @ transition
        first = log_odds_information(np.array([parts[lengths > 0].sum()]), start)
        rows = log_odds_information(visits, transition)
        out = np.zeros((len(first) + len(rows),) * 2)
        out[: len(first), : len(first)] = first
        out[len(first) :, len(first) :] = rows
        return out

    def sample(self, n: int, seed: int = 0) -> list[str | list[Hashable]]:
        """n sequences drawn from the chain; strings where symbols are characters."""
        start, transition = self._tables()
        rng = np.random.default_rng(seed)
        lengths = drawn_lengths("MarkovChain", self.length, n, rng)
        states = walk(start[0], transition, lengths, rng)
        assert self.symbols is not None
        return [written(row[:T], self.symbols)
                for row, T in zip(states, lengths, strict=True)]  # fmt: skip

    @property
    def theta(self) -> np.ndarray:
        return np.concatenate([log_odds(table) for table in self._tables()])

    def at(self, theta: npt.ArrayLike) -> MarkovChain:
        values = check_coordinates("MarkovChain", theta, len(self.theta))
        start, transition = self._tables()
        split = len(log_odds(start))
        return replace(
            self,
            start=from_log_odds(values[:split], start)[0],
            transition=from_log_odds(values[split:], transition),
        )

    def names(self) -> list[str]:
        assert self.symbols is not None
        starts, moves = map(free_cells, self._tables())
        name = [repr(symbol) for symbol in self.symbols]
        named = [f"log odds of {name[j]} at the start" for _, j in np.argwhere(starts)]
        return named + [
            f"log odds of {name[i]} → {name[j]}" for i, j in np.argwhere(moves)
        ]


def _moves(code: np.ndarray, S: int) -> np.ndarray:
    """How often each of S symbols follows each, (S, S)."""
    return np.bincount(code[:-1] * S + code[1:], minlength=S * S).reshape(S, S)
