"""Many sequences at once: padded blocks, lengths, and forward-backward on them.

Forward-backward (Rabiner, Proceedings of the IEEE 77, 1989) works in logarithms, so
that no sequence is too long and no density too small.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mercer.densities.base import check_distributions, draw, logarithms

Length = int | Mapping[int, float] | None

BLOCK = 2**21  # numbers in one array of a block of sequences


class Passes(NamedTuple):
    """ln p(x), (n,); P(state k at t | x), (n, T, k); expected moves, (n, k, k)."""

    log_likelihood: np.ndarray
    answers: np.ndarray
    moves: np.ndarray


def padded_blocks(
    sequences: Sequence[np.ndarray], width: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(index, rows (n, T, ...), lengths) of sequences of about equal length.

    `width` numbers are needed for each observation.
    """
    lengths = np.array([len(x) for x in sequences], dtype=np.intp)
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (
            (stop + 1 - start) * max(lengths[order[stop]], 1) * width <= BLOCK
        ):
            stop += 1
        index = order[start:stop]
        T = max(int(lengths[index].max()), 1)
        rows = np.zeros((len(index), T, *sequences[0].shape[1:]), sequences[0].dtype)
        for row, i in zip(rows, index, strict=True):
            row[: lengths[i]] = sequences[i]
        yield index, rows, lengths[index]
        start = stop


def forward(
    logs: np.ndarray, lengths: np.ndarray, start: np.ndarray, transition: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """ln P(state k at t | x₁..xₜ), (n, T, k), and ln p(x), (n,).

    Each step is brought to sum 1, so that rounding does not grow with the length.
    """
    moves = logarithms(transition)
    alpha = np.empty_like(logs)
    likelihood = np.zeros(len(logs))
    ahead = logarithms(start)
    for t in range(logs.shape[1]):
        joint = ahead + logs[:, t]
        share = log_sum(joint, axis=1)
        inside = t < lengths
        likelihood += np.where(inside, share, 0.0)
        alpha[:, t] = joint - np.where(np.isneginf(share), 0.0, share)[:, None]
        ahead = log_sum(alpha[:, t, :, None] + moves, axis=1)
    return alpha, likelihood


def forward_backward(
    logs: np.ndarray, lengths: np.ndarray, start: np.ndarray, transition: np.ndarray
) -> Passes:
    """What the states were, given the log densities (n, T, k) of the observations.

    Of the states of an impossible sequence nothing is expected.
    """
    moves = logarithms(transition)
    alpha, likelihood = forward(logs, lengths, start, transition)
    n, T, k = logs.shape
    answers = np.zeros_like(logs)
    expected = np.zeros((n, k, k))
    beta = np.zeros((n, k))
    for t in range(T - 1, -1, -1):
        inside = (t < lengths) & ~np.isneginf(likelihood)
        answers[:, t] = _shares(alpha[:, t] + beta, inside)
        if t == 0:
            break
        ahead = moves + (logs[:, t] + beta)[:, None, :]
        expected += _shares(alpha[:, t - 1, :, None] + ahead, inside)
        beta = log_sum(ahead, axis=2)
        beta = np.where(inside[:, None], beta - _top(beta, 1), 0.0)
    return Passes(likelihood, answers, expected)


def _shares(logs: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """e^logs for each sequence, with sum 1; 0 where it is not inside."""
    flat = logs.reshape(len(logs), -1)
    powers = np.exp(flat - _top(flat, 1))
    powers /= np.maximum(powers.sum(axis=1, keepdims=True), 1e-300)
    return np.where(inside[:, None], powers, 0.0).reshape(logs.shape)


def _top(values: np.ndarray, axis: int) -> np.ndarray:
    """The largest along an axis; 0 where all are -inf."""
    top = values.max(axis=axis, keepdims=True)
    return np.where(np.isneginf(top), 0.0, top)


def log_sum(values: np.ndarray, axis: int) -> np.ndarray:
    """ln Σ e^values along an axis; -inf where all are."""
    top = _top(values, axis)
    return logarithms(np.exp(values - top).sum(axis=axis)) + np.squeeze(top, axis)


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
