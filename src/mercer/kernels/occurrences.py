"""What grown features are called, and where a point has them.

A place is the tokens or nodes of a feature there, and what it counts: φ of the feature
is proportional to the sum over its places.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from mercer.data.trees import Tree, child_places, escaped
from mercer.kernels.candidates import Fragment

Place = tuple[tuple[int, ...], float]


def spelled(key: tuple[Any, ...], text: bool) -> Any:
    """Tokens as the points have them: letters of a text, or a tuple."""
    return "".join(key) if text else key


def fragment_text(fragment: Fragment) -> str:
    """A fragment as bracket text, such as (NP (D the) N)."""
    label, parts = fragment
    if not parts:
        return escaped(label) or "()"
    return f"({' '.join([escaped(label), *map(fragment_text, parts)])})"


def substring_places(x: Sequence[Hashable], u: Sequence[Hashable]) -> list[Place]:
    """The places of a substring."""
    tokens, word, r = list(x), list(u), len(u)
    starts = range(len(tokens) - r + 1)
    return [(tuple(range(i, i + r)), 1.0) for i in starts if tokens[i : i + r] == word]


def subsequence_places(
    x: Sequence[Hashable], u: Sequence[Hashable], decay: float, most: int
) -> list[Place]:
    """The places i₁ < ... < iᵣ of a subsequence, and decay^span; at most so many."""
    tokens = list(x)
    out: list[Place] = []

    def extend(chosen: tuple[int, ...], begin: int) -> None:
        if len(chosen) == len(u):
            out.append((chosen, decay ** (chosen[-1] - chosen[0] + 1)))
            return
        for i in range(begin, len(tokens)):
            if len(out) >= most:
                return
            if tokens[i] == u[len(chosen)]:
                extend((*chosen, i), i + 1)

    extend((), 0)
    return out


def subset_places(tree: Tree, fragment: Fragment) -> list[Place]:
    """The nodes of each place of a fragment with all children of a node or none."""
    below = child_places(tree.arity)

    def match(v: int, fragment: Fragment, root: bool) -> list[int] | None:
        label, parts = fragment
        if tree.labels[v] != label or (root and not parts and below[v]):
            return None
        found = [v]
        if not parts:
            return found
        if len(parts) != len(below[v]):
            return None
        for child, part in zip(below[v], parts, strict=True):
            inner = match(child, part, False)
            if inner is None:
                return None
            found += inner
        return found

    places = (match(v, fragment, True) for v in range(tree.size))
    return [(tuple(place), 1.0) for place in places if place is not None]


def partial_places(
    tree: Tree, fragment: Fragment, gap: float, most: int
) -> list[Place]:
    """The nodes of each place of a fragment of any nodes, and what each counts by gaps.

    At most so many places.
    """
    below = child_places(tree.arity)

    def rooted(v: int, fragment: Fragment) -> Iterator[Place]:
        label, parts = fragment
        if tree.labels[v] == label:
            for nodes, share in chosen(v, parts, -1):
                yield (v, *nodes), share

    def chosen(v: int, parts: tuple[Any, ...], last: int) -> Iterator[Place]:
        if not parts:
            yield (), 1.0
            return
        for k in range(last + 1, len(below[v])):
            factor = gap ** (k - last) if last >= 0 else 1.0
            for nodes, share in rooted(below[v][k], parts[0]):
                for more, rest in chosen(v, parts[1:], k):
                    yield nodes + more, factor * share * rest

    out: list[Place] = []
    for v in range(tree.size):
        for place in rooted(v, fragment):
            out.append(place)
            if len(out) >= most:
                return out
    return out
