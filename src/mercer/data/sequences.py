"""Strings and other sequences for the native core: encoded once, compared by the block.

A sequence is a str, or a list, tuple or array of hashable tokens; what counts is that
tokens are equal. A character of a str is a token, whatever its code point.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer import _core
from mercer.data.checks import check_label, describe
from mercer.data.points import Points, as_points, objects


@dataclass(frozen=True)
class Sequences:
    """n sequences as numbers: xᵢ is token[start[i] : start[i + 1]].

    Parameters
    ----------
    points : the sequences as they were given
    alphabet : how many different tokens there may be
    """

    points: Sequence[Any]
    token: np.ndarray
    start: np.ndarray
    alphabet: int
    native: _core.Sequences

    def __len__(self) -> int:
        return len(self.points)

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.start)

    @property
    def longest(self) -> int:
        return int(self.sizes.max(initial=0))

    def windows(self, first: np.ndarray, length: int) -> list[Hashable]:
        """The substrings of one length that begin at the given tokens."""
        owner = np.searchsorted(self.start, first, side="right") - 1
        offsets = first - self.start[owner]
        pieces = zip(owner.tolist(), offsets.tolist(), strict=True)
        return [_piece(self.points[i][o : o + length]) for i, o in pieces]


def _piece(part: Any) -> Hashable:
    return part if isinstance(part, str) else tuple(_tokens(part))


def encode(
    who: str, X: Points, Y: Points | None = None
) -> tuple[Sequences, Sequences | None]:
    """X and Y as numbers in one alphabet; `who` needs them, for the error."""
    if Y is not None:
        return encode_pair(who, X, Y)
    points = _checked(who, X)
    return _encoded(who, points)(0, len(points)), None


def encode_pair(who: str, X: Points, Y: Points) -> tuple[Sequences, Sequences]:
    """The same where both are there."""
    X, Y = _checked(who, X), _checked(who, Y)
    part = _encoded(who, [*X, *Y])
    return part(0, len(X)), part(len(X), len(X) + len(Y))


def _encoded(who: str, points: list[Any]) -> Callable[[int, int], Sequences]:
    """All points as numbers: a function that gives those from begin to end."""
    if all(type(x) is str for x in points):
        token, alphabet = _characters(points)
    else:
        token, alphabet = _numbered(who, points)
    sizes = np.fromiter(map(len, points), dtype=np.int64, count=len(points))
    start = np.concatenate([[0], np.cumsum(sizes)])

    def part(begin: int, end: int) -> Sequences:
        tokens = token[start[begin] : start[end]]
        bounds = start[begin : end + 1] - start[begin]
        native = _core.Sequences(tokens, bounds, alphabet)
        return Sequences(points[begin:end], tokens, bounds, alphabet, native)

    return part


def _checked(who: str, X: Points) -> list[Any]:
    points = list(objects(as_points(X)))
    for i, x in enumerate(points):
        if type(x) is str or isinstance(x, str | list | tuple | bytes):
            continue
        if not (isinstance(x, Sequence) or (type(x) is np.ndarray and x.ndim == 1)):
            raise TypeError(
                f"{who} compares strings; point {i} is {describe(x)}. Pass a list of "
                "str, or of sequences of hashable tokens."
            )
        if type(x) is np.ndarray and x.dtype.kind == "f" and (x % 1 != 0).any():
            raise TypeError(
                f"{who} compares strings, or sequences of tokens; point {i} is a "
                f"vector of measured numbers, such as {x[x % 1 != 0][0]:g}. Choose a "
                "kernel of vectors, such as RBF(), or pass tokens."
            )
    return points


def _characters(points: list[str]) -> tuple[np.ndarray, int]:
    """The characters of all strings, numbered in the order of their code points."""
    text = "".join(points)
    if text.isascii():
        codes = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    else:
        # Lone surrogates are no text, but they are characters of a str.
        wide = text.encode("utf-32-le", "surrogatepass")
        codes = np.frombuffer(wide, dtype=np.uint32)
    present = np.zeros(int(codes.max(initial=0)) + 1, dtype=bool)
    present[codes] = True
    number = (np.cumsum(present) - 1).astype(np.int32)
    return number[codes], int(present.sum())


def _numbered(who: str, points: list[Any]) -> tuple[np.ndarray, int]:
    """The tokens of all sequences, numbered as they come."""
    numbers: dict[Any, int] = {}
    stream = map(_small, chain.from_iterable(map(_tokens, points)))
    try:
        token = np.fromiter(
            (numbers.setdefault(token, len(numbers)) for token in stream), np.int32
        )
    except TypeError as error:
        raise TypeError(
            f"{who} compares sequences of hashable tokens; {error}. Turn lists inside "
            "of a sequence into tuples."
        ) from error
    return token, len(numbers)


def _small(token: Any) -> Any:
    if type(token) is tuple:  # with shared parts its hash could take exponential time
        check_label(token, "Tokens are; one of them")
    return token


def _tokens(x: Any) -> Iterable[Any]:
    return x.tolist() if isinstance(x, np.ndarray) else x


Block = Callable[[_core.Sequences, _core.Sequences | None, bool, np.ndarray], None]


def block(
    fill: Block, X: Sequences, Y: Sequences | None, diagonal: bool = False
) -> np.ndarray:
    """The (n, m) array that `fill` writes, or the (n,) array of the diagonal."""
    shape = (len(X),) if diagonal else (len(X), len(X if Y is None else Y))
    out = np.empty(shape)
    fill(X.native, None if Y is None else Y.native, diagonal, out.reshape(-1))
    return out


def subsequences(
    X: Sequences,
    Y: Sequences | None,
    decay: float,
    weights: npt.ArrayLike,
    diagonal: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Σᵣ weights[r-1] kᵣ as mantissa · 2^exponent, kᵣ the gap-weighted kernels."""
    weights = np.array(weights, dtype=float)
    shape = (len(X),) if diagonal else (len(X), len(X if Y is None else Y))
    exponent = np.empty(shape, dtype=np.int64)

    def fill(
        X: _core.Sequences, Y: _core.Sequences | None, diagonal: bool, out: np.ndarray
    ) -> None:
        _core.subsequences(
            X, Y, diagonal, float(decay), weights, out, exponent.reshape(-1)
        )

    return block(fill, X, Y, diagonal), exponent


def substrings(
    X: Sequences, Y: Sequences | None, total: np.ndarray, diagonal: bool = False
) -> np.ndarray:
    """Σ_u w(|u|) #u(x) #u(y) over all substrings, total[L] = w(1) + ... + w(L)."""

    def fill(
        X: _core.Sequences, Y: _core.Sequences | None, diagonal: bool, out: np.ndarray
    ) -> None:
        _core.substrings(X, Y, diagonal, np.array(total, dtype=float), out)

    return block(fill, X, Y, diagonal)


def matching_stretches(
    X: Sequences, Y: Sequences | None, weights: np.ndarray, diagonal: bool = False
) -> np.ndarray:
    """Σᵣ weights[r - 1] #(places from which on the same r tokens follow)."""

    def fill(
        X: _core.Sequences, Y: _core.Sequences | None, diagonal: bool, out: np.ndarray
    ) -> None:
        _core.matching_stretches(X, Y, diagonal, np.array(weights, dtype=float), out)

    return block(fill, X, Y, diagonal)


def edit_distances(X: Sequences, Y: Sequences | None) -> np.ndarray:
    """The (n, m) array of Levenshtein's distances."""

    def fill(
        X: _core.Sequences, Y: _core.Sequences | None, diagonal: bool, out: np.ndarray
    ) -> None:
        _core.edit_distances(X, Y, out)

    return block(fill, X, Y)


def count_substrings(
    X: Sequences, length: int, placed: bool = False
) -> tuple[sp.csr_array, np.ndarray]:
    """(n, p) counts of the substrings of one length, and where each first begins.

    Parameters
    ----------
    placed : count the same substring at different places apart
    """
    start, column, counts, first = _core.count_substrings(X.native, length, placed)
    if len(counts) <= np.iinfo(np.int32).max:
        start = start.astype(np.int32)
    matrix = sp.csr_array((counts, column, start), shape=(len(X), len(first)))
    return matrix, first


MOST_DEGREES = 22  # of `placed_stretches`


def placed_stretches(
    X: Sequences, weights: np.ndarray, factor: np.ndarray | None = None
) -> _core.SparseRows | None:
    """Φ with ΦΦᵀ = Σᵣ weights[r-1] · #(places where r tokens from there on are equal).

    Stretches that the same points have are one column. None where the stretches are too
    long to be packed.

    Parameters
    ----------
    factor : > 0, what each row is multiplied by; None for 1
    """
    if not can_be_placed(X, len(weights)):
        return None
    return _core.placed_stretches(X.native, weights, _or_none(factor))


def placed_tries(
    X: Sequences, weights: np.ndarray, factor: np.ndarray | None = None
) -> _core.PlacedTries | None:
    """The same Φ by the tries of the stretches at each place, for products alone."""
    if not can_be_placed(X, len(weights)):
        return None
    return _core.PlacedTries(X.native, weights, _or_none(factor))


def can_be_placed(X: Sequences, degree: int) -> bool:
    """Whether stretches of so many tokens fit into 64 bits."""
    largest = max(1, X.alphabet - (len(set(X.sizes.tolist())) <= 1))
    return 0 < degree <= MOST_DEGREES and degree * largest.bit_length() <= 64


def _or_none(factor: np.ndarray | None) -> np.ndarray:
    return np.empty(0) if factor is None else factor
