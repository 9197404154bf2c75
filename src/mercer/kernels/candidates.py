"""Features of which there are too many to write out, grown one token or node at a time.

A candidate is a beginning: of a subsequence, of a substring, of a fragment of a tree.
It knows the sums Σᵢ Vᵢ φ_u(xᵢ) of its own feature, and how large the sums over i with
Vᵢ > 0, and those with Vᵢ < 0, can be for whatever it grows into. Who looks for the
heaviest features follows the candidates with the highest bounds and leaves the others.

Every feature is grown in one way only: sequences from left to right, fragments of trees
in preorder.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.data.sequences import Sequences
from mercer.data.trees import Tree, child_places

MOST_STEPS = 2e9  # n · longest² up to which bounds of subsequences are the sharp ones

Fragment = tuple[Hashable, tuple[Any, ...]]  # a label and its parts, each such a pair


@dataclass(frozen=True, eq=False)
class Candidate:
    """A beginning u, and the features that begin with it.

    Parameters
    ----------
    key : u: tokens, or a `Fragment`
    weight : (q,) array, Vᵀφ_u; None where u itself is no feature
    upper, lower : (q,) arrays ≥ 0: Σ max(±V, 0)ᵢ φ_v(xᵢ) is no larger for u and all
        that it grows into
    """

    key: Any
    weight: np.ndarray | None
    upper: np.ndarray
    lower: np.ndarray
    grown: Callable[[], Iterator[Candidate]]

    @property
    def sums(self) -> np.ndarray:
        """The weight of a candidate that is a feature."""
        assert self.weight is not None
        return self.weight


def none_grown() -> Iterator[Candidate]:
    """Of a candidate that cannot grow."""
    return iter(())


class Signed:
    """Columns V with their positive and negative parts: sums over some rows of each."""

    def __init__(self, V: np.ndarray) -> None:
        self.q = V.shape[1]
        self.both = np.hstack([np.maximum(V, 0), np.maximum(-V, 0)])

    def grouped(
        self, group: np.ndarray, size: int, rows: np.ndarray, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Σ values · max(±V, 0)[rows] over each of the groups, two (size, q) arrays."""
        out = np.empty((size, 2 * self.q))
        for j in range(2 * self.q):
            out[:, j] = np.bincount(
                group, weights=values * self.both[rows, j], minlength=size
            )
        return out[:, : self.q], out[:, self.q :]


class _Alphabet:
    """The tokens that the numbers of encoded sequences stand for."""

    def __init__(self, X: Sequences) -> None:
        found, first = np.unique(X.token, return_index=True)
        pieces: list[Any] = X.windows(first, 1)
        self._token = dict(zip(found.tolist(), (p[0] for p in pieces), strict=True))

    def word(self, numbers: tuple[int, ...]) -> tuple[Hashable, ...]:
        return tuple(self._token[number] for number in numbers)


# Subsequences


class Subsequences:
    """All subsequences of some sequences, φ_u = √cᵣ Σ decay^span over their places.

    Parameters
    ----------
    coefficients : c₁, c₂, ... of the lengths
    V : (n, q) array
    """

    def __init__(
        self,
        X: Sequences,
        decay: float,
        coefficients: Sequence[float],
        V: np.ndarray,
    ) -> None:
        self.decay, self.signed = decay, Signed(V)
        self.roots = np.sqrt(np.asarray(coefficients, dtype=float))
        n, longest = len(X), X.longest
        # Time first: a step along all sequences is one operation on a row.
        self.token = np.full((longest, n), -1, dtype=np.int64)
        place = np.arange(len(X.token)) - np.repeat(X.start[:-1], X.sizes)
        self.token[place, np.repeat(np.arange(n), X.sizes)] = X.token
        self.alphabet = _Alphabet(X)
        self.ahead = self._ahead()

    def __iter__(self) -> Iterator[Candidate]:
        if not len(self.roots):
            return none_grown()
        return self._next((), np.where(self.token >= 0, self.decay, 0.0))

    def _ahead(self) -> list[np.ndarray]:
        """For m = 0, 1, ...: bounds of what m more tokens after each place add."""
        longest, n = self.token.shape
        ahead = [(self.token >= 0).astype(float)]
        sharp = float(n) * longest**2 * len(self.roots) <= MOST_STEPS
        local = _local_numbers(self.token) if sharp else np.zeros_like(self.token)
        width = int(local.max(initial=0)) + 1
        rows = np.arange(n)
        for _ in range(1, len(self.roots)):
            last, sums = ahead[-1], np.zeros((n, width))
            out = np.zeros_like(last)
            for t in range(longest - 2, -1, -1):
                sums[rows, local[t + 1]] += last[t + 1]
                sums *= self.decay
                # Of all features only one goes on: the token that gives the most.
                out[t] = sums.max(axis=1)
            ahead.append(np.where(self.token >= 0, out, 0.0))
        return ahead

    def _next(self, u: tuple[int, ...], reach: np.ndarray) -> Iterator[Candidate]:
        """u with one more token; reach[t, i] is what a place of it there counts."""
        r = len(u) + 1
        t, row = np.nonzero(reach)
        if not len(t):
            return
        found, group = np.unique(self.token[t, row], return_inverse=True)
        value, size = reach[t, row], len(found)
        plus, minus = self.signed.grouped(group, size, row, value)
        upper, lower = np.zeros_like(plus), np.zeros_like(minus)
        for length in range(r, len(self.roots) + 1):
            if self.roots[length - 1]:
                ahead = self.roots[length - 1] * value * self.ahead[length - r][t, row]
                more = self.signed.grouped(group, size, row, ahead)
                upper, lower = np.maximum(upper, more[0]), np.maximum(lower, more[1])
        own = self.roots[r - 1]
        for g, token in enumerate(found.tolist()):
            if not (upper[g].any() or lower[g].any()):
                continue
            yield Candidate(
                self.alphabet.word((*u, token)),
                own * (plus[g] - minus[g]) if own else None,
                upper[g],
                lower[g],
                self._grown((*u, token), reach, token),
            )

    def _grown(
        self, u: tuple[int, ...], reach: np.ndarray, token: int
    ) -> Callable[[], Iterator[Candidate]]:
        if len(u) == len(self.roots):
            return none_grown

        def grown() -> Iterator[Candidate]:
            ends = np.where(self.token == token, reach, 0.0)
            further = np.zeros_like(ends)
            for t in range(1, len(ends)):
                further[t] = self.decay * (further[t - 1] + ends[t - 1])
            further[self.token < 0] = 0.0
            return self._next(u, further)

        return grown


def _local_numbers(token: np.ndarray) -> np.ndarray:
    """The tokens of each column numbered for themselves, so that there are few."""
    local = np.empty_like(token)
    for i in range(token.shape[1]):
        local[:, i] = np.unique(token[:, i], return_inverse=True)[1]
    return local


# Substrings


class Substrings:
    """All substrings of some sequences, φ_u = √w(|u|) · how often u occurs.

    Parameters
    ----------
    weights : w(1), w(2), ...
    V : (n, q) array
    """

    def __init__(self, X: Sequences, weights: np.ndarray, V: np.ndarray) -> None:
        self.token, self.signed = X.token.astype(np.int64), Signed(V)
        self.row = np.repeat(np.arange(len(X)), X.sizes)
        self.end = X.start[1:][self.row]
        self.alphabet = _Alphabet(X)
        self.roots = np.sqrt(np.asarray(weights, dtype=float))
        # The highest root from each length on.
        self.ahead = np.maximum.accumulate(self.roots[::-1])[::-1]

    def __iter__(self) -> Iterator[Candidate]:
        return self._next((), np.arange(len(self.token)))

    def _next(self, u: tuple[int, ...], at: np.ndarray) -> Iterator[Candidate]:
        """u with one more token, which may be at these places."""
        r = len(u) + 1
        if not len(at) or r > len(self.roots) or not self.ahead[r - 1]:
            return
        at = at[np.argsort(self.token[at], kind="stable")]
        found, first = np.unique(self.token[at], return_index=True)
        ends = np.append(first[1:], len(at))
        group = np.repeat(np.arange(len(found)), ends - first)
        ones = np.ones(len(at))
        plus, minus = self.signed.grouped(group, len(found), self.row[at], ones)
        own, ahead = self.roots[r - 1], self.ahead[r - 1]
        for g, token in enumerate(found.tolist()):
            yield Candidate(
                self.alphabet.word((*u, token)),
                own * (plus[g] - minus[g]) if own else None,
                ahead * plus[g],
                ahead * minus[g],
                self._grown((*u, token), at[first[g] : ends[g]]),
            )

    def _grown(
        self, u: tuple[int, ...], at: np.ndarray
    ) -> Callable[[], Iterator[Candidate]]:
        def grown() -> Iterator[Candidate]:
            return self._next(u, at[at + 1 < self.end[at]] + 1)

        return grown


# Fragments of trees


class _Nodes:
    """The nodes of some trees side by side."""

    def __init__(self, trees: Sequence[Tree]) -> None:
        self.label: list[Hashable] = []
        self.below: list[list[int]] = []  # the children of each node
        for tree in trees:
            start = len(self.label)
            self.label += tree.labels
            self.below += [
                [start + child for child in children]
                for children in child_places(tree.arity)
            ]
        self.row = np.repeat(np.arange(len(trees)), [tree.size for tree in trees])
        numbers: dict[Hashable, int] = {}
        self.number = np.array(
            [numbers.setdefault(label, len(numbers)) for label in self.label],
            dtype=np.int64,
        )


class SubsetFragments:
    """Fragments with all children of a node or none, φ = √λ^(nodes with children).

    Parameters
    ----------
    factor : √λ
    leaves : whether a leaf by itself is a fragment
    V : (n, q) array
    """

    def __init__(
        self, trees: Sequence[Tree], factor: float, leaves: bool, V: np.ndarray
    ) -> None:
        self.nodes, self.factor, self.leaves = _Nodes(trees), factor, leaves
        self.signed = Signed(V)
        rules: dict[Hashable, int] = {}
        self.rule = np.full(len(self.nodes.label), -1, dtype=np.int64)
        for v, below in enumerate(self.nodes.below):
            if below:
                rule = self.nodes.label[v], tuple(self.nodes.label[c] for c in below)
                self.rule[v] = rules.setdefault(rule, len(rules))
        self.rules: list[Any] = list(rules)

    def __iter__(self) -> Iterator[Candidate]:
        every = np.arange(len(self.rule))
        yield from self._opened((), every, every, [], 1)
        leaf = np.flatnonzero(self.rule < 0)
        if not (self.leaves and len(leaf)):
            return
        numbers = self.nodes.number[leaf]
        _, first, group = np.unique(numbers, return_index=True, return_inverse=True)
        each = np.full(len(leaf), self.factor)
        rows = self.nodes.row[leaf]
        plus, minus = self.signed.grouped(group, len(first), rows, each)
        for g, v in enumerate(leaf[first].tolist()):
            key = self.nodes.label[v], ()
            yield Candidate(key, plus[g] - minus[g], plus[g], minus[g], none_grown)

    def _opened(
        self,
        decisions: tuple[int, ...],
        roots: np.ndarray,
        chosen: np.ndarray,
        rest: list[np.ndarray],
        size: int,
    ) -> Iterator[Candidate]:
        """Fragments at these roots with one more node opened, the chosen one of each.

        Parameters
        ----------
        decisions : in preorder, the rule of each node; -1 for none
        rest : the nodes after the chosen one that may still be opened
        size : nodes with children, the chosen one included
        """
        rule = self.rule[chosen]
        some = np.flatnonzero(rule >= 0)
        if not len(some):
            return
        some = some[np.argsort(rule[some], kind="stable")]
        found, first = np.unique(rule[some], return_index=True)
        ends = np.append(first[1:], len(some))
        group = np.repeat(np.arange(len(found)), ends - first)
        each = np.full(len(some), self.factor**size)
        rows = self.nodes.row[roots[some]]
        plus, minus = self.signed.grouped(group, len(found), rows, each)
        for g, opened in enumerate(found.tolist()):
            made = (*decisions, opened)
            of = some[first[g] : ends[g]]
            later = [part[of] for part in rest]
            yield Candidate(
                self._fragment(made),
                plus[g] - minus[g],
                plus[g],
                minus[g],
                self._grown(made, roots[of], chosen[of], later, size),
            )

    def _grown(
        self,
        decisions: tuple[int, ...],
        roots: np.ndarray,
        opened: np.ndarray,
        rest: list[np.ndarray],
        size: int,
    ) -> Callable[[], Iterator[Candidate]]:
        def grown() -> Iterator[Candidate]:
            below = np.array([self.nodes.below[v] for v in opened.tolist()])
            frontier = [*below.T, *rest]
            for j, chosen in enumerate(frontier):
                skipped = (*decisions, *[-1] * j)
                yield from self._opened(
                    skipped, roots, chosen, frontier[j + 1 :], size + 1
                )

        return grown

    def _fragment(self, decisions: tuple[int, ...]) -> Fragment:
        following = iter(decisions)

        def made(rule: int) -> Fragment:
            label, below = self.rules[rule]
            parts = []
            for name in below:
                inner = next(following, -1)
                parts.append((name, ()) if inner < 0 else made(inner))
            return label, tuple(parts)

        return made(next(following))


class PartialFragments:
    """Fragments of any nodes that hang together; φ sums over their places.

    A fragment grows by a last child of one of the nodes on its rightmost path. Where it
    is in a tree follows from the node that its last one is at, so its places are kept
    as numbers at nodes.

    Parameters
    ----------
    factor, gap : √μ for every node, and λ^span of its children; λ of no children
    V : (n, q) array
    """

    def __init__(
        self, trees: Sequence[Tree], factor: float, gap: float, V: np.ndarray
    ) -> None:
        self.nodes, self.signed = _Nodes(trees), Signed(V)
        self.each, self.gap = factor * gap, gap
        self.parent = np.full(len(self.nodes.label), -1, dtype=np.int64)
        for v, below in enumerate(self.nodes.below):
            self.parent[below] = v
        self._bound()

    def _bound(self) -> None:
        """What growing below a node, and beside it, multiplies φ with at most."""
        size, number = len(self.parent), self.nodes.number.tolist()
        self.deeper, self.beside = np.ones(size), np.ones(size)
        for v in range(size - 1, -1, -1):
            first: dict[int, float] = {}
            later: dict[int, float] = {}
            # One feature goes on with one label: the largest sum over its places.
            for child in reversed(self.nodes.below[v]):
                self.beside[child] = max([1.0, *later.values()])
                gain = self.each * self.deeper[child] * self.beside[child]
                label = number[child]
                first[label] = first.get(label, 0.0) + gain
                later[label] = later.get(label, 0.0) + gain
                later = {key: self.gap * value for key, value in later.items()}
            self.deeper[v] = max([1.0, *first.values()])

    def __iter__(self) -> Iterator[Candidate]:
        every = np.arange(len(self.parent))
        return self._labelled((), every, np.full(len(every), self.each), 0)

    def _labelled(
        self,
        preorder: tuple[tuple[int, int], ...],
        at: np.ndarray,
        value: np.ndarray,
        depth: int,
    ) -> Iterator[Candidate]:
        """Fragments whose last node, in this depth, is at these nodes, by its label.

        Parameters
        ----------
        preorder : (depth, a node with the label) of each node before it
        value : what all places of the fragment that end at a node count together
        """
        if not len(at):
            return
        ahead, node = value * self.deeper[at], at
        for _ in range(depth):
            ahead = ahead * self.beside[node]
            node = self.parent[node]
        found, group = np.unique(self.nodes.number[at], return_inverse=True)
        rows = self.nodes.row[at]
        plus, minus = self.signed.grouped(group, len(found), rows, value)
        upper, lower = self.signed.grouped(group, len(found), rows, ahead)
        for g in range(len(found)):
            of = group == g
            made = (*preorder, (depth, int(at[of][0])))
            yield Candidate(
                self._fragment(made),
                plus[g] - minus[g],
                upper[g],
                lower[g],
                self._grown(made, at[of], value[of], depth),
            )

    def _grown(
        self,
        preorder: tuple[tuple[int, int], ...],
        at: np.ndarray,
        value: np.ndarray,
        depth: int,
    ) -> Callable[[], Iterator[Candidate]]:
        def grown() -> Iterator[Candidate]:
            yield from self._labelled(preorder, *self._children(at, value), depth + 1)
            node = at
            for height in range(depth):
                later = self._later(node, value)
                yield from self._labelled(preorder, *later, depth - height)
                node = self.parent[node]

        return grown

    def _children(
        self, at: np.ndarray, value: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        sums: dict[int, float] = {}
        for v, number in zip(at.tolist(), value.tolist(), strict=True):
            for child in self.nodes.below[v]:
                sums[child] = sums.get(child, 0.0) + number * self.each
        return _arrays(sums)

    def _later(
        self, node: np.ndarray, value: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The siblings after each node, further away by the gap between them."""
        sums: dict[int, float] = {}
        for v, number in zip(node.tolist(), value.tolist(), strict=True):
            siblings = self.nodes.below[self.parent[v]]
            factor = number * self.each
            for sibling in siblings[siblings.index(v) + 1 :]:
                factor *= self.gap
                sums[sibling] = sums.get(sibling, 0.0) + factor
        return _arrays(sums)

    def _fragment(self, preorder: tuple[tuple[int, int], ...]) -> Fragment:
        """The fragment of nodes with these depths in preorder."""
        position = 0

        def made(depth: int) -> Fragment:
            nonlocal position
            label = self.nodes.label[preorder[position][1]]
            position += 1
            parts = []
            while position < len(preorder) and preorder[position][0] == depth + 1:
                parts.append(made(depth + 1))
            return label, tuple(parts)

        return made(0)


def _arrays(sums: dict[int, float]) -> tuple[np.ndarray, np.ndarray]:
    at = np.fromiter(sums, dtype=np.int64, count=len(sums))
    return at, np.fromiter(sums.values(), dtype=float, count=len(sums))
