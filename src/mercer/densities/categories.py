"""Categories, a stack of k distributions over one alphabet, for hidden chains.

It has the methods of `Normals`; its rows are codes (N,), numbers of symbols.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.data.checks import check_label, describe
from mercer.densities.base import (
    Value,
    check_distributions,
    draw,
    free_cells,
    from_log_odds,
    log_odds,
    log_odds_score,
    log_prior,
    logarithms,
    shares,
)


@dataclass(frozen=True, eq=False, repr=False)
class Categories(Value):
    """P(symbol | k), k distributions over one alphabet.

    Parameters
    ----------
    symbols : the alphabet, hashable things; None for those of the training points
    probabilities : (k, number of symbols) array, or None before a fit

    Examples
    --------
    >>> from mercer.densities import HMM, Categories
    >>> coins = Categories("HT", [[0.5, 0.5], [0.9, 0.1]])
    >>> model = HMM(2, coins, start=[1.0, 0.0], transition=[[0.0, 1.0], [0.0, 1.0]])
    >>> round(float(model.log_likelihood(["HH"])[0]), 4)  # ln (0.5 · 0.9)
    -0.7985
    """

    symbols: Sequence[Hashable] | None = None
    probabilities: Any = None

    def __post_init__(self) -> None:
        check_symbols("Categories", self.symbols)
        check_distributions("Categories", "probabilities", self.probabilities)
        if self.probabilities is not None and (
            self.symbols is None
            or np.ndim(self.probabilities) != 2
            or np.shape(self.probabilities)[1] != len(self.symbols)
        ):
            raise ValueError(
                "Categories needs (k, number of symbols) probabilities and their "
                f"symbols; got shape {np.shape(self.probabilities)} and "
                f"symbols={self.symbols!r}."
            )

    @property
    def fitted(self) -> bool:
        return self.probabilities is not None

    @property
    def size(self) -> int:
        """k."""
        return len(self.probabilities)

    @property
    def _table(self) -> np.ndarray:
        return np.asarray(self.probabilities, dtype=float)

    def log_densities(self, rows: np.ndarray) -> np.ndarray:
        """ln P(symbol | k) of the codes (N,), (N, k)."""
        return logarithms(self._table).T[rows]

    def statistics(
        self, rows: np.ndarray, answers: np.ndarray, offsets: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """How often each density answers for each symbol in each run, (n, k, symbols).

        Run r is rows[offsets[r] : offsets[r + 1]].
        """
        n, S = len(offsets) - 1, self._table.shape[1]
        cells = np.repeat(np.arange(n) * S, np.diff(offsets)) + rows
        counts = [
            np.bincount(cells, answers[:, k], minlength=n * S) for k in range(self.size)
        ]
        return (np.stack(counts, 1).reshape(n, S, -1).swapaxes(1, 2),)

    def sums(self, rows: np.ndarray, answers: np.ndarray) -> tuple[np.ndarray, ...]:
        """How often each density answers for each symbol, (k, symbols)."""
        [counts] = self.statistics(rows, answers, np.array([0, len(rows)]))
        return (counts[0],)

    @property
    def theta(self) -> np.ndarray:
        return log_odds(self._table)

    def at(self, theta: np.ndarray) -> Categories:
        return replace(self, probabilities=from_log_odds(theta, self._table))

    def names(self) -> list[str]:
        assert self.symbols is not None
        return [
            f"log odds of {self.symbols[j]!r} in {k}"
            for k, j in np.argwhere(free_cells(self._table))
        ]

    def score(self, statistics: Sequence[np.ndarray]) -> np.ndarray:
        """The gradient of Σₜ Σₖ answers · ln P(symbol | k) in log-odds, (n, p)."""
        return log_odds_score(statistics[0], self._table)

    def maximised(
        self, totals: Sequence[np.ndarray], smoothing: float, spread: None = None
    ) -> Categories:
        """The likeliest distributions, `smoothing` added to every count."""
        return replace(self, probabilities=shares(totals[0], self._table, smoothing))

    def log_prior(self, smoothing: float, spread: None = None) -> float:
        return log_prior(self._table, smoothing)

    def sample(self, which: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A code from distribution which[i], for each i."""
        return draw(self._table[which], rng)


def check_symbols(who: str, symbols: Any) -> None:
    """Refuse an alphabet with a symbol twice."""
    if symbols is None:
        return
    if not isinstance(symbols, str | list | tuple) or len(set(symbols)) < len(symbols):
        raise ValueError(
            f"{who} needs symbols as a list without repetition; got "
            f"{describe(symbols)}."
        )


def coded(X: Sequence[Any], symbols: Sequence[Hashable], who: str) -> list[np.ndarray]:
    """Sequences of symbols as arrays of their numbers in the alphabet."""
    number = {symbol: code for code, symbol in enumerate(symbols)}
    codes = []
    for i, x in enumerate(X):
        try:
            codes.append(np.array([number[s] for s in items(x, i, who)], dtype=np.intp))
        except KeyError as error:
            raise ValueError(
                f"{who} knows the symbols {_few(symbols)}; point {i} has "
                f"{error.args[0]!r}. Fit on points that have it, or pass symbols=[...]."
            ) from None
    return codes


def alphabet(X: Sequence[Any], who: str) -> list[Hashable]:
    """The symbols of all sequences, sorted where they can be."""
    seen = dict.fromkeys(s for i, x in enumerate(X) for s in items(x, i, who))
    if not seen:
        raise ValueError(
            f"{who} learns its alphabet from the points; all of them are empty. Pass "
            "symbols=[...]."
        )
    try:
        return sorted(seen)  # type: ignore[type-var]
    except TypeError:  # of kinds that have no order
        return list(seen)


def items(x: Any, i: int, who: str) -> Sequence[Hashable]:
    """The symbols of one sequence, point i."""
    if isinstance(x, np.ndarray) and x.ndim == 1:
        x = x.tolist()
    if not hasattr(x, "__len__") or not hasattr(x, "__iter__"):
        raise TypeError(
            f"{who} compares sequences of symbols; point {i} is {describe(x)}. Pass a "
            "list of strings, or of lists."
        )
    for symbol in x:
        if type(symbol) is tuple:  # with shared parts its hash could take very long
            check_label(symbol, f"The symbols of {who} are; one of point {i}")
        if not isinstance(symbol, Hashable):
            raise TypeError(
                f"{who} compares sequences of hashable symbols; point {i} holds "
                f"{describe(symbol)}."
            )
    return x


def written(codes: np.ndarray, symbols: Sequence[Hashable]) -> str | list[Hashable]:
    """A sequence of symbols from their numbers; a str where all are characters."""
    spelt = [symbols[code] for code in codes]
    characters = all(isinstance(s, str) and len(s) == 1 for s in symbols)
    return "".join(spelt) if characters else spelt


def _few(symbols: Sequence[Hashable]) -> str:
    shown = ", ".join(repr(s) for s in symbols[:8])
    return shown if len(symbols) <= 8 else f"{shown}, ... ({len(symbols)} of them)"
