"""Kernels that count substrings of strings, or of sequences of tokens.

Spectrum             Leslie, Eskin and Noble, Pacific Symposium on Biocomputing 7 (2002)
Mismatch             Leslie et al., Bioinformatics 20 (2004)
WeightedSubstrings   Vishwanathan and Smola, NIPS 15 (2003)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.checks import brief
from mercer.data.points import Points
from mercer.data.sequences import (
    Sequences,
    count_substrings,
    encode,
    encode_pair,
    substrings,
)
from mercer.kernels.base import Kernel, Rule
from mercer.kernels.candidates import Substrings
from mercer.kernels.checks import Range, check_positive, check_weights, check_whole
from mercer.kernels.counts import Columns, VocabularyKernel
from mercer.kernels.occurrences import Place, spelled, substring_places

MOST_ENTRIES = 2**27  # of a sparse matrix of features that is written out
MOST_NEAR = 2**25  # words that are near others


@dataclass
class Spectrum(VocabularyKernel):
    """k(s, t) = Σ_u #u(s) #u(t) over the substrings u of length k; # counts them.

    Parameters
    ----------
    k : the length
    weights : c₁..c_k ≥ 0 for the sum of the spectra of length r, each times cᵣ; None
        for length k alone

    Examples
    --------
    >>> from mercer import Spectrum
    >>> Spectrum(3).value("statistics", "computation")
    2.0
    >>> Spectrum(1)(["ab", "abb"]).tolist()
    [[2.0, 3.0], [3.0, 5.0]]
    """

    smooth = Range.not_negative("weights", optional=True)

    k: int
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        check_whole(self, "k", self.k, least=1)
        if self.weights is not None:
            check_weights(self, self.weights, self.k)

    def columns(self, X: Points) -> Columns:
        weights = {self.k: 1.0}
        if self.weights is not None:
            weights = dict(enumerate(self.weights, 1))
        return _counted(encode("Spectrum", X)[0], weights)

    def rule(self) -> Rule:
        return Rule(True, "an inner product: one feature for each substring, its count")


def _counted(X: Sequences, weights: Mapping[int, float]) -> Columns:
    """√w(|u|) #u(x) for every substring u with a weight, the shortest first."""
    # No point has longer ones, so that time and memory follow the points.
    lengths = [r for r, weight in weights.items() if weight and r <= X.longest]
    tables = [count_substrings(X, r) for r in lengths]
    blocks = [
        matrix if weights[r] == 1 else math.sqrt(weights[r]) * matrix
        for r, (matrix, _) in zip(lengths, tables, strict=True)
    ]

    def names() -> list[str]:
        return [
            f"substring {piece!r}"
            for r, (_, first) in zip(lengths, tables, strict=True)
            for piece in X.windows(first, r)
        ]

    return Columns(_beside(blocks, len(X)), names)


def _beside(blocks: list[sp.csr_array], n: int) -> sp.csr_array:
    if len(blocks) == 1:
        return blocks[0]
    if not blocks:
        return sp.csr_array((n, 0))
    return sp.csr_array(sp.hstack(blocks, format="csr"))


@dataclass
class Mismatch(VocabularyKernel):
    """k(s, t) = Σ_u φ_u(s) φ_u(t), φ_u(s) the number of k-substrings of s near u.

    u runs through all words of length k over the alphabet; near means that at most m
    tokens differ. Tokens of s that are not in the alphabet differ from all.

    Parameters
    ----------
    alphabet : the different tokens, a str or a list; None for those that occur, fixed
        by `resolve`

    Examples
    --------
    >>> from mercer import Mismatch
    >>> Mismatch(3, m=1, alphabet="ACGT").value("ACG", "ACT")
    4.0
    """

    k: int
    m: int = 1
    alphabet: Any = None

    def __post_init__(self) -> None:
        check_whole(self, "k", self.k, least=1)
        check_whole(self, "m", self.m, least=0)
        if self.alphabet is None:
            return
        if not isinstance(self.alphabet, str | list | tuple) or not self.alphabet:
            raise TypeError(
                "Mismatch needs its alphabet as a str or a list of tokens; got "
                f"alphabet={brief(self.alphabet)}."
            )
        letters = len(self.alphabet)
        if len(set(self.alphabet)) < letters:
            raise ValueError(
                "Mismatch needs an alphabet of different tokens; got "
                f"alphabet={brief(self.alphabet)}."
            )
        # 2**63 is too many already; a much larger power would take long to compute.
        if letters > 1 and (self.k >= 63 or letters**self.k >= 2**63):
            raise ValueError(
                f"Mismatch counts words of length {self.k} over {letters} tokens, "
                f"{letters}**{self.k} of them; at most 2**63 can be told apart. "
                "Lower k, or name a smaller alphabet."
            )

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> Mismatch:
        if self.alphabet is not None:
            return self
        points = encode("Mismatch", X)[0].points
        tokens = dict.fromkeys(token for point in points for token in point)
        if all(isinstance(token, str) and len(token) == 1 for token in tokens):
            return Mismatch(self.k, self.m, "".join(sorted(tokens)) or " ")
        return Mismatch(self.k, self.m, list(tokens))

    def columns(self, X: Points) -> Columns:
        alphabet = self._resolved("alphabet")
        X, letters = encode_pair("Mismatch", X, [list(alphabet)])
        if self.k > X.longest:  # no substring is so long, whatever the number of words
            return Columns(sp.csr_array((len(X), 0)), list)
        counts, first = count_substrings(X, self.k)
        place = np.full(X.alphabet, -1)
        place[letters.token] = np.arange(len(alphabet))
        words = place[X.token[first[:, None] + np.arange(self.k)]]
        row, code = self._near(words, len(alphabet))
        codes, column = np.unique(code, return_inverse=True)
        shape = (len(words), len(codes))
        nearby = sp.csr_array((np.ones(len(row)), (row, column)), shape=shape)

        def names() -> list[str]:
            text = isinstance(alphabet, str)
            digits = codes[:, None] // len(alphabet) ** np.arange(self.k)[::-1]
            spelt = ([alphabet[d] for d in word] for word in digits % len(alphabet))
            pieces = ("".join(word) if text else tuple(word) for word in spelt)
            return [f"substrings within {self.m} of {piece!r}" for piece in pieces]

        return Columns(sp.csr_array(counts @ nearby), names)

    def _near(self, words: np.ndarray, letters: int) -> tuple[np.ndarray, np.ndarray]:
        """All words near each of some: (which of them, the word as a number)."""
        most = min(self.m, self.k)
        each_word = sum(
            math.comb(self.k, j) * (letters - 1) ** j for j in range(most + 1)
        )
        if each_word * len(words) > MOST_NEAR:
            raise ValueError(
                f"{self} would write out {each_word:,} words near each of "
                f"{len(words):,}; at most {MOST_NEAR:,} in all are. Lower k or m, "
                "or pass fewer points at a time."
            )
        row = np.arange(len(words))
        code = np.zeros(len(words), dtype=np.int64)
        differ = np.zeros(len(words), dtype=np.int64)
        # Token by token, every beginning that is near enough goes on in all ways.
        for tokens in words.T:
            parts = []
            for letter in range(letters):
                now = differ + (tokens[row] != letter)
                keep = now <= most
                parts.append((row[keep], code[keep] * letters + letter, now[keep]))
            row, code, differ = map(np.concatenate, zip(*parts, strict=True))
        return row, code

    def rule(self) -> Rule:
        return Rule(
            True, "an inner product: one feature for each word, how many are near it"
        )


@dataclass
class WeightedSubstrings(Kernel):
    """k(s, t) = Σ_u w(|u|) #u(s) #u(t) over all substrings u; # counts them.

    Linear in |s| + |t| for each pair, by a suffix automaton. Give one of the two:

    Parameters
    ----------
    decay : 0 < decay ≤ 1 for w(r) = decay^r
    weights : w(1), w(2), ... ≥ 0, and 0 for longer substrings

    Examples
    --------
    >>> from mercer import WeightedSubstrings
    >>> WeightedSubstrings(decay=0.5).value("abc", "abd")
    1.25
    """

    smooth = Range.share("decay", optional=True) | Range.not_negative(
        "weights", optional=True
    )

    decay: float | None = None
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if (self.decay is None) == (self.weights is None):
            raise ValueError(
                "WeightedSubstrings needs either decay or weights; got "
                f"decay={brief(self.decay)} and weights={brief(self.weights)}."
            )
        check_positive(self, "decay", self.decay, optional=True)
        if self.decay is not None and self.decay > 1:
            raise ValueError(
                f"WeightedSubstrings needs decay ≤ 1; got decay={self.decay!r}."
            )
        if self.weights is not None:
            check_weights(self, self.weights)

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        X, Y = encode("WeightedSubstrings", X, Y)
        return substrings(X, Y, self._totals(X.longest))

    def diag(self, X: Points) -> np.ndarray:
        X, _ = encode("WeightedSubstrings", X)
        return substrings(X, None, self._totals(X.longest), diagonal=True)

    def _of_lengths(self, longest: int) -> np.ndarray:
        """w(1), ..., w(longest)."""
        if self.weights is not None:
            return np.asarray(self.weights, dtype=float)[:longest]
        return np.power(float(self._resolved("decay")), np.arange(1, longest + 1))

    def _totals(self, longest: int) -> np.ndarray:
        return np.concatenate([[0.0], np.cumsum(self._of_lengths(longest))])

    def features(self, X: Points) -> sp.csr_array:
        """Φ, (n, p): a column √w(|u|) #u for every substring u that occurs in X."""
        return self._columns(X).matrix

    def feature_names(self, X: Points) -> list[str]:
        """The substring of each column, such as "substring 'ATG'"."""
        return self._columns(X).names()

    def _columns(self, X: Points) -> Columns:
        X, _ = encode("WeightedSubstrings", X)
        weights = self._of_lengths(X.longest).tolist()
        lengths = np.array([r for r, weight in enumerate(weights, 1) if weight])
        entries = sum(int(np.maximum(X.sizes - r + 1, 0).sum()) for r in lengths)
        if entries > MOST_ENTRIES:
            raise ValueError(
                f"{self} would write out {entries:,} substrings; at most "
                f"{MOST_ENTRIES:,} are. Use the kernel, which never forms them, or "
                "weights for the short ones only."
            )
        return _counted(X, dict(enumerate(weights, 1)))

    def candidates(self, X: Points, V: np.ndarray) -> Substrings:
        """Beginnings of substrings u, which know their sums Vᵀφ_u and bounds."""
        X, _ = encode("WeightedSubstrings", X)
        return Substrings(X, self._of_lengths(X.longest), V)

    def candidate_name(self, key: tuple[Any, ...], text: bool) -> str:
        """What `feature_names` calls it; `text` where the points are strings."""
        return f"substring {spelled(key, text)!r}"

    def candidate_places(self, x: Any, key: tuple[Any, ...], most: int) -> list[Place]:
        """Where a point has a substring; each place counts alike."""
        return substring_places(x, key)[:most]

    def rule(self) -> Rule:
        return Rule(
            True, "an inner product: one feature for each substring, its count times √w"
        )
