"""Kernels of two strings, or two sequences of tokens, by an algorithm on the pair.

Subsequence      Lodhi et al., JMLR 2 (2002), section 3
WeightedDegree   Rätsch and Sonnenburg, Kernel Methods in Comp. Biology (2004), 277
EditSimilarity   on Levenshtein's distance; no kernel
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.points import Points
from mercer.data.sequences import (
    Sequences,
    can_be_placed,
    count_substrings,
    edit_distances,
    encode,
    matching_stretches,
    placed_stretches,
    placed_tries,
    subsequences,
)
from mercer.kernels.base import Kernel, Rule
from mercer.kernels.candidates import Subsequences
from mercer.kernels.checks import Range, check_positive, check_weights, check_whole
from mercer.kernels.occurrences import Place, spelled, subsequence_places
from mercer.native.interruptible import elementwise

Word = tuple[Any, ...]  # the tokens of a subsequence

MOST_SUBSEQUENCES = 10_000_000


@dataclass
class Subsequence(Kernel):
    """k(s, t) = Σ_u Σ_{i: s(i)=u} Σ_{j: t(j)=u} decay^(l(i) + l(j)), |u| = length.

    s(i) picks the tokens i₁ < ... < iₙ of s, neighbours or not, and l(i) = iₙ - i₁ + 1
    is the stretch they span. φ_u(s) = Σ decay^l(i) over the ways to find u in s.

    Parameters
    ----------
    decay : 0 < decay ≤ 1, the factor for every token spanned
    weights : c₁..cₙ ≥ 0, n = length, for Σᵣ cᵣkᵣ over the lengths r; None for kₙ alone

    Examples
    --------
    >>> from mercer import Subsequence
    >>> Subsequence(2, decay=0.5).value("cat", "cart")
    0.1015625
    """

    smooth = Range.share("decay") | Range.not_negative("weights", optional=True)

    length: int
    decay: float = 0.5
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        check_whole(self, "length", self.length, least=1)
        check_positive(self, "decay", self.decay)
        if self.decay > 1:
            raise ValueError(f"Subsequence needs decay ≤ 1; got decay={self.decay!r}.")
        if self.weights is not None:
            check_weights(self, self.weights, self.length)

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return self._in_range(*self._wide(X, Y))

    def diag(self, X: Points) -> np.ndarray:
        return self._in_range(*self._wide(X, diagonal=True))

    def log(self, X: Points, Y: Points | None = None) -> np.ndarray | None:
        return _logarithm(*self._wide(X, Y))

    def log_diag(self, X: Points) -> np.ndarray | None:
        return _logarithm(*self._wide(X, diagonal=True))

    def _coefficients(self, longest: int) -> list[float]:
        """c₁, c₂, ... of the lengths up to `longest` that there are; none beyond."""
        if self.weights is not None:
            return list(self.weights[:longest])
        return [0.0] * (self.length - 1) + [1.0] if self.length <= longest else []

    def _wide(
        self, X: Points, Y: Points | None = None, diagonal: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        X, Y = encode("Subsequence", X, Y)
        longest = X.longest if Y is None else min(X.longest, Y.longest)
        # No sequence has a subsequence that is longer: time follows the data.
        weights = self._coefficients(longest) or [0.0]
        return subsequences(X, Y, self.decay, weights, diagonal)

    def _in_range(self, values: np.ndarray, power: np.ndarray) -> np.ndarray:
        block = _scaled(values, power)
        if np.isinf(block).any():
            place = tuple(map(int, np.argwhere(np.isinf(block))[0]))
            i, j = place[0], place[-1]
            raise OverflowError(
                f"{self} of points {i} and {j} is about 2**{power[place]}, beyond "
                f"float64. Use Normalized({self}), which stays in range."
            )
        return block

    def features(self, X: Points) -> sp.csr_array:
        """Φ, (n, p): a column √cᵣ φ_u for every subsequence u that occurs in X."""
        return self._table(X)[0]

    def feature_names(self, X: Points) -> list[str]:
        """The subsequence of each column, such as "subsequence 'asd'"."""
        X, _ = encode("Subsequence", X)
        text = all(isinstance(x, str) for x in X.points)
        found = self._table(X.points)[1]
        return [f"subsequence {(''.join(u) if text else u)!r}" for u in found]

    def _table(self, X: Points) -> tuple[sp.csr_array, list[Word]]:
        X, _ = encode("Subsequence", X)
        self._check_count(X.sizes)
        column: dict[Word, int] = {}
        rows, columns, values = [], [], []
        for i, x in enumerate(X.points):
            for u, value in self._weighted(x):
                rows.append(i)
                columns.append(column.setdefault(u, len(column)))
                values.append(value)
        entries = (np.array(values, dtype=float), (rows, columns))
        return sp.csr_array(entries, shape=(len(X), len(column))), list(column)

    def _check_count(self, sizes: np.ndarray) -> None:
        weights = self._coefficients(int(sizes.max(initial=0)))
        lengths = [r for r, c in enumerate(weights, 1) if c]
        found = sum(math.comb(size, r) for size in sizes.tolist() for r in lengths)
        if found > MOST_SUBSEQUENCES:
            raise ValueError(
                f"{self} would write out {found:,} subsequences; at most "
                f"{MOST_SUBSEQUENCES:,} are. Use the kernel, which never forms them."
            )

    def _weighted(self, x: Sequence[Hashable]) -> Iterator[tuple[Word, float]]:
        """(u, √cᵣ φ_u(x)) for the subsequences u of one point."""
        # begun[r][u]: Σ decay^(span up to here) over the ways to have found u so far
        weights = self._coefficients(len(x))
        most = len(weights)
        begun: list[dict[Word, float]] = [{} for _ in range(most)]
        found: list[dict[Word, float]] = [{} for _ in range(most)]
        for token in x:
            for r in range(most - 1, -1, -1):
                for u in begun[r]:
                    begun[r][u] *= self.decay
                shorter = begun[r - 1].items() if r else [((), 1.0)]
                for u, value in list(shorter):
                    longer = (*u, token)
                    # What is begun up to the token before spans one token more here.
                    span = value * self.decay
                    found[r][longer] = found[r].get(longer, 0.0) + span
                    begun[r][longer] = begun[r].get(longer, 0.0) + span
        for c, table in zip(weights, found, strict=True):
            for u, value in table.items() if c else ():
                yield u, math.sqrt(c) * value

    def candidates(self, X: Points, V: np.ndarray) -> Subsequences:
        """Beginnings of subsequences u, which know their sums Vᵀφ_u and bounds."""
        X, _ = encode("Subsequence", X)
        return Subsequences(X, float(self.decay), self._coefficients(X.longest), V)

    def candidate_name(self, key: Word, text: bool) -> str:
        """What `feature_names` calls it; `text` where the points are strings."""
        return f"subsequence {spelled(key, text)!r}"

    def candidate_places(self, x: Any, key: Word, most: int) -> list[Place]:
        """Where a point has a subsequence, and what each place counts."""
        return subsequence_places(x, key, float(self.decay), most)

    def rule(self) -> Rule:
        return Rule(
            True, "an inner product: φ_u(s) = Σ decay^l(i) over all i, s(i) = u"
        )


def _logarithm(values: np.ndarray, power: np.ndarray) -> np.ndarray:
    """ln(values · 2^power), -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(values) + math.log(2) * power


def _scaled(values: np.ndarray, power: np.ndarray) -> np.ndarray:
    """values · 2^power, inf or 0 where float64 ends."""
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(values, np.clip(power, -4000, 4000).astype(np.intc))


@dataclass
class WeightedDegree(Kernel):
    """k(s, t) = Σᵣ wᵣ Σᵢ [s and t have the same r tokens from place i on], r ≤ degree.

    For sequences that are aligned, such as windows around a site. Where one is shorter,
    the places that both have are compared.

    Parameters
    ----------
    degree : d, the longest stretch that counts
    weights : w₁..w_d ≥ 0; None for wᵣ = 2 (d - r + 1) / (d (d + 1))

    Examples
    --------
    >>> from mercer import WeightedDegree
    >>> round(WeightedDegree(2).value("GATTACA", "GACTATA"), 4)
    4.0
    """

    smooth = Range.not_negative("weights", optional=True)

    degree: int
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        check_whole(self, "degree", self.degree, least=1)
        if self.weights is not None:
            check_weights(self, self.weights, self.degree)

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        X, Y = encode("WeightedDegree", X, Y)
        return matching_stretches(X, Y, self._coefficients(X.longest))

    def diag(self, X: Points) -> np.ndarray:
        X, _ = encode("WeightedDegree", X)
        return matching_stretches(X, None, self._coefficients(X.longest), diagonal=True)

    def _coefficients(self, longest: int) -> np.ndarray:
        """w₁, w₂, ... of the lengths up to `longest` that there are."""
        if self.weights is not None:
            return np.asarray(self.weights[:longest], dtype=float)
        # In Python's integers, which do not overflow.
        d = int(self.degree)
        lengths = range(1, min(d, longest) + 1)
        return np.array([2 * (d - r + 1) / (d * (d + 1)) for r in lengths])

    def features(self, X: Points) -> sp.csr_array:
        """Φ, (n, p): √wᵣ for every stretch of r ≤ degree tokens at its place."""
        X, _ = encode("WeightedDegree", X)
        blocks = [part for part, _, _ in self._blocks(X)]
        if not blocks:
            return sp.csr_array((len(X), 0))
        return sp.csr_array(sp.hstack(blocks, format="csr"))

    def packed(self, X: Points, factor: np.ndarray | None = None) -> Any:
        """Φ for solvers, in other columns than `features` and much less room.

        Each row times its factor. None where there is no such form of it.
        """
        X, _ = encode("WeightedDegree", X)
        return placed_stretches(X, self._coefficients(X.longest), factor)

    def can_be_placed(self, X: Points) -> bool:
        """Whether there is what `packed` and `placed` return."""
        X, _ = encode("WeightedDegree", X)
        return can_be_placed(X, min(int(self.degree), X.longest))

    def placed(self, X: Points, factor: np.ndarray | None = None) -> Any:
        """The same Φ for products with vectors alone, in less room."""
        X, _ = encode("WeightedDegree", X)
        return placed_tries(X, self._coefficients(X.longest), factor)

    def most_entries(self, X: Points) -> float:
        """How many entries `features` has at most."""
        X, _ = encode("WeightedDegree", X)
        return float(X.sizes.sum()) * min(int(self.degree), X.longest)

    def feature_names(self, X: Points) -> list[str]:
        """The stretch of each column and its place, such as "'ATG' at 12"."""
        X, _ = encode("WeightedDegree", X)
        names = []
        for _, first, r in self._blocks(X):
            place = first - X.start[np.searchsorted(X.start, first, side="right") - 1]
            pieces = zip(X.windows(first, r), place.tolist(), strict=True)
            names += [f"{piece!r} at {at}" for piece, at in pieces]
        return names

    def _blocks(self, X: Sequences) -> list[tuple[Any, np.ndarray, int]]:
        blocks = []
        for r, weight in enumerate(self._coefficients(X.longest).tolist(), 1):
            if weight:
                counts, first = count_substrings(X, r, placed=True)
                blocks.append((math.sqrt(weight) * counts, first, r))
        return blocks

    def rule(self) -> Rule:
        return Rule(
            True, "an inner product: one feature for each stretch of tokens at a place"
        )


@dataclass
class EditSimilarity(Kernel):
    """k(s, t) = exp(-gamma · distance), with Levenshtein's edit distance; no kernel.

    Examples
    --------
    >>> from mercer import EditSimilarity
    >>> k = EditSimilarity(gamma=0.5)
    >>> round(k.value("kitten", "sitting"), 4), k.psd
    (0.2231, False)
    """

    smooth = Range.positive("gamma")

    gamma: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self, "gamma", self.gamma)

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        X, Y = encode("EditSimilarity", X, Y)
        distances = edit_distances(X, Y)
        return elementwise(lambda distances: np.exp(-self.gamma * distances), distances)

    def diag(self, X: Points) -> np.ndarray:
        return np.ones(len(encode("EditSimilarity", X)[0]))

    def rule(self) -> Rule:
        for words in _counterexamples():
            least = _least_eigenvalue(self.gamma, words)
            if least < 0:
                more = ", ..." if len(words) > 10 else ""
                return Rule(
                    False,
                    f"the points [{', '.join(map(repr, words[:10]))}{more}], "
                    f"{len(words)} words, give a centred Gram matrix with the "
                    f"eigenvalue {least:.3g}",
                )
        return Rule(
            None,
            "exp(-gamma · d) need not be a kernel where d is no squared distance; for "
            f"gamma={self.gamma!r} no counterexample is known",
        )


@lru_cache(maxsize=1)
def _counterexamples() -> list[tuple[str, ...]]:
    """Words that refute ever larger gamma: a few, then all of ≤ 5 and ≤ 8 letters."""
    few = ["aabab abaab abbab baaba babba", "ab ba aaa aab aba baa bab abab baba aabab"]
    return [tuple(words.split()) for words in few] + [
        tuple("".join(w) for n in range(most + 1) for w in product("ab", repeat=n))
        for most in (5, 8)
    ]


@lru_cache(maxsize=256)
def _least_eigenvalue(gamma: float, words: tuple[str, ...]) -> float:
    """The least eigenvalue of HKH on the words, or 0 if none is clearly below 0."""
    X, _ = encode("EditSimilarity", list(words))
    # H(K - 1)H = HKH for H = I - 11ᵀ/n, and K - 1 keeps its digits for tiny gamma.
    change = np.expm1(-gamma * edit_distances(X, None))
    centred = change - change.mean(axis=0)
    centred -= centred.mean(axis=1, keepdims=True)
    least = float(np.linalg.eigvalsh(centred)[0])
    return least if least < -1e-9 * np.abs(change).max() else 0.0


def edit_distance(s: Sequence[Hashable], t: Sequence[Hashable]) -> int:
    """The least number of insertions, deletions and substitutions that turn s into t.

    Parameters
    ----------
    s, t : str, or sequences of hashable tokens

    Examples
    --------
    >>> from mercer.kernels import edit_distance
    >>> edit_distance("kitten", "sitting")
    3
    """
    left, right = encode("edit_distance", [s], [t])
    return int(edit_distances(left, right)[0, 0])
