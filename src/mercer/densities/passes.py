"""Many sequences at once: blocks of them, lengths, and forward-backward on them.

Forward-backward (Rabiner, Proceedings of the IEEE 77, 1989) keeps logarithms, so that
no sequence is too long and no density too small; `hidden.cpp` in the core does it.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mercer import _core
from mercer.densities.base import check_distributions, draw

Length = int | Mapping[int, float] | None

BLOCK = 2**21  # numbers in one array of a block of sequences


class Runs(NamedTuple):
    """Sequences one after another: run r is rows[offsets[r] : offsets[r + 1]]."""

    rows: np.ndarray
    offsets: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)


class Passes(NamedTuple):
    """ln p(x), (n,); P(state k at t | x), (N, k); expected moves, (n, k, k)."""

    log_likelihood: np.ndarray
    answers: np.ndarray
    moves: np.ndarray


def joined(sequences: Sequence[np.ndarray]) -> Runs:
    """Sequences of the same kind of observations as one array."""
    lengths = np.array([len(x) for x in sequences], dtype=np.int64)
    rows = np.concatenate(sequences) if len(sequences) else np.empty((0, 1))
    return Runs(np.ascontiguousarray(rows), np.r_[0, np.cumsum(lengths)])


def run_blocks(runs: Runs, width: int) -> Iterator[tuple[slice, Runs]]:
    """(which sequences, these), as many as have room together.

    `width` numbers are needed for each observation, and for each sequence.
    """
    offsets, start = runs.offsets, 0
    needed = (offsets + np.arange(len(offsets))) * width
    while start < len(offsets) - 1:
        stop = int(np.searchsorted(needed, needed[start] + BLOCK, side="right")) - 1
        stop = max(stop, start + 1)
        rows = runs.rows[offsets[start] : offsets[stop]]
        yield slice(start, stop), Runs(rows, offsets[start : stop + 1] - offsets[start])
        start = stop


def likelihood(
    logs: np.ndarray, offsets: np.ndarray, start: np.ndarray, transition: np.ndarray
) -> np.ndarray:
    """ln p(x) of each run, (n,), by the log densities of the observations, (N, k)."""
    out = np.empty(len(offsets) - 1)
    tables = np.ascontiguousarray(start), np.ascontiguousarray(transition)
    _core.likelihood(*tables, np.ascontiguousarray(logs), offsets, out)
    return out


def forward_backward(
    logs: np.ndarray, offsets: np.ndarray, start: np.ndarray, transition: np.ndarray
) -> Passes:
    """What the states were, given the log densities of the observations, (N, k).

    Of the states of an impossible sequence nothing is expected.
    """
    n, k = len(offsets) - 1, logs.shape[1]
    out = Passes(np.empty(n), np.empty(logs.shape), np.empty((n, k, k)))
    tables = np.ascontiguousarray(start), np.ascontiguousarray(transition)
    _core.forward_backward(*tables, np.ascontiguousarray(logs), offsets, *out)
    return out


def length_shares(lengths: np.ndarray, weight: np.ndarray) -> dict[int, float]:
    """How often each length occurs, as shares of 1."""
    found, which = np.unique(lengths, return_inverse=True)
    totals = np.bincount(which, weight) / weight.sum()
    pairs = zip(found, totals, strict=True)
    return {int(length): float(share) for length, share in pairs if share > 0}


def check_length(who: str, length: Any) -> None:
    """Refuse what is neither a length nor a distribution of lengths."""
    known = length if isinstance(length, Mapping) else {length: 1.0}
    if length is not None and not (
        known
        and all(isinstance(n, numbers.Integral) and int(n) >= 0 for n in known)
        and all(share >= 0 for share in known.values())
        and abs(sum(known.values()) - 1) < 1e-8
    ):
        raise ValueError(
            f"{who} needs a length that is a whole number ≥ 0, or shares such as "
            f"{{10: 0.5, 20: 0.5}}; got length={length!r}."
        )


def known_lengths(who: str, length: Length) -> tuple[np.ndarray, np.ndarray]:
    """The lengths of sequences and their shares."""
    if length is None:
        raise ValueError(
            f"{who} makes sequences of its own only if it knows how long: pass length, "
            "a number or shares such as {10: 0.5, 20: 0.5}; fit learns it."
        )
    known = length if isinstance(length, Mapping) else {length: 1.0}
    return np.array(list(known), dtype=np.intp), np.array(list(known.values()))


def drawn_lengths(
    who: str, length: Length, n: int, rng: np.random.Generator
) -> np.ndarray:
    """n lengths by their shares."""
    lengths, parts = known_lengths(who, length)
    return rng.choice(lengths, size=n, p=parts / parts.sum())


def walk(
    start: np.ndarray,
    transition: np.ndarray,
    lengths: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """The states of n random walks, (n, longest)."""
    states = np.zeros((len(lengths), max(lengths, default=0)), dtype=np.intp)
    probabilities = np.tile(start, (len(lengths), 1))
    for t in range(states.shape[1]):
        states[:, t] = draw(probabilities, rng)
        probabilities = transition[states[:, t]]
    return states


def check_moves(
    who: str, start: npt.ArrayLike | None, transition: npt.ArrayLike | None, k: int
) -> None:
    """Refuse a start and transitions that are not those of k states."""
    check_distributions(who, "start", start)
    check_distributions(who, "transition", transition)
    for name, table, shape in (
        ("start", start, (k,)),
        ("transition", transition, (k, k)),
    ):
        if table is not None and np.shape(table) != shape:
            raise ValueError(
                f"{who} of {k} states needs {name} of shape {shape}; got shape "
                f"{np.shape(table)}."
            )
