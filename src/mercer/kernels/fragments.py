"""The fragments of trees written out: the coordinates of φ for the tree kernels.

A shape is a complete subtree, met once however often it occurs; the fragments rooted at
a node depend on its shape only. Both are kept as (label, parts), parts before wholes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.trees import Tree, escaped

MOST_FRAGMENTS = 1_000_000  # that are written out
MOST_CHARACTERS = 100_000_000  # of all their names

# A label and parts: numbers of keys before, or (label,).
Key = tuple[Hashable, tuple[Any, ...]]


class _Numbers(dict[Any, int]):
    """The number of every key, in the order of first use."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


def numbered(keys: Iterable[Hashable]) -> np.ndarray:
    """The keys as numbers: 0 for the first, the same for equal ones."""
    return np.fromiter(map(_Numbers().__getitem__, keys), dtype=np.int32)


class Shapes:
    """The different complete subtrees of some trees, and where they are.

    Attributes
    ----------
    keys : (label, numbers of the children's shapes) of each shape
    sizes : how many nodes of each shape have children
    found : the shape of every node, tree by tree, from the last node to the first
    """

    def __init__(self, trees: Sequence[Tree]) -> None:
        known = _Numbers()
        self.found: list[int] = []
        for tree in trees:
            open_shapes: list[int] = []  # those whose parent is still to come
            nodes = zip(reversed(tree.labels), reversed(tree.arity), strict=True)
            for label, count in nodes:
                parts: tuple[int, ...] = ()
                if count:
                    parts = tuple(open_shapes[: -count - 1 : -1])
                    del open_shapes[-count:]
                shape = known[label, parts]
                open_shapes.append(shape)
                self.found.append(shape)
        self._rows = np.repeat(np.arange(len(trees)), [tree.size for tree in trees])
        self._trees = len(trees)
        self.keys: list[Key] = list(known)
        self.sizes = np.zeros(len(self.keys), dtype=np.int64)
        for shape, (_, parts) in enumerate(self.keys):
            if parts:
                self.sizes[shape] = 1 + sum(self.sizes[part] for part in parts)

    def counts(self) -> sp.csr_array:
        """How often each shape is in each tree."""
        entries = np.ones(len(self.found)), (self._rows, self.found)
        return sp.csr_array(entries, shape=(self._trees, len(self.keys)))


@dataclass
class Fragments:
    """The fragments rooted at each shape.

    Attributes
    ----------
    keys : of every fragment
    weights : for each shape, how much each of its fragments counts
    """

    keys: list[Key]
    weights: list[dict[int, float]]

    @classmethod
    def subset(cls, shapes: Shapes, factor: float, leaves: bool) -> Fragments:
        """Of every node all children or none; `factor` for every node that has them."""
        _check_count(shapes, of_leaf=0)
        known = _Numbers()
        weights: list[dict[int, float]] = []
        for label, parts in shapes.keys:
            rooted: dict[int, float] = {}
            if parts:
                choices = []
                for part in parts:
                    name, below = shapes.keys[part]
                    alone = [((name,), 1.0)]
                    choices.append([*alone, *weights[part].items()] if below else alone)
                for chosen in product(*choices):
                    key = label, tuple(fragment for fragment, _ in chosen)
                    weight = factor
                    for _, part_weight in chosen:
                        weight *= part_weight
                    rooted[known[key]] = weight
            elif leaves:
                rooted[known[label, ()]] = factor
            weights.append(rooted)
        return cls(list(known), weights)

    @classmethod
    def partial(cls, shapes: Shapes, factor: float, gap: float) -> Fragments:
        """Of every node any children; `factor` for every node, gap^span for those."""
        _check_count(shapes, of_leaf=1)
        known = _Numbers()
        weights: list[dict[int, float]] = []
        for label, parts in shapes.keys:
            rooted: dict[int, float] = {known[label, ()]: factor * gap}
            choices = [[None, *weights[part].items()] for part in parts]
            for chosen in product(*choices):
                places = [k for k, choice in enumerate(chosen) if choice]
                if not places:
                    continue
                weight = factor * gap ** (places[-1] - places[0] + 1)
                picked = [choice for choice in chosen if choice]
                for _, part_weight in picked:
                    weight *= part_weight
                number = known[label, tuple(fragment for fragment, _ in picked)]
                rooted[number] = rooted.get(number, 0.0) + weight
            weights.append(rooted)
        return cls(list(known), weights)

    def matrix(self) -> sp.csr_array:
        """(shapes, fragments): how much each fragment counts at each shape."""
        start = np.cumsum([0, *map(len, self.weights)])
        columns = np.fromiter((f for row in self.weights for f in row), dtype=np.int64)
        entries = np.fromiter((w for row in self.weights for w in row.values()), float)
        shape = len(self.weights), len(self.keys)
        return sp.csr_array((entries, columns, start), shape=shape)


def _check_count(shapes: Shapes, of_leaf: int) -> None:
    """Refuse trees with too many fragments, before any is made."""
    counts: list[float] = []
    for _, parts in shapes.keys:
        count = 1.0 if parts else float(of_leaf)
        for part in parts:
            count *= 1 + counts[part]
        counts.append(count)
    if (total := sum(counts)) > MOST_FRAGMENTS:
        raise ValueError(
            f"The trees have about {total:.3g} fragments; at most {MOST_FRAGMENTS:,} "
            "are written out as features. Use the kernel, which never forms them, or "
            "Subtree, which has one for each node at most."
        )


def names(keys: Sequence[Key], chosen: Iterable[int] | None = None) -> list[str]:
    """The keys in bracket text, or some of them; refused where that is too long."""
    chosen = range(len(keys)) if chosen is None else chosen
    lengths: list[int] = []
    for label, parts in keys:
        inside = sum(1 + _length(part, lengths) for part in parts)
        lengths.append(len(_word(label)) + 2 + inside)
    if (total := sum(lengths)) > MOST_CHARACTERS:
        raise ValueError(
            f"The names of these {len(lengths):,} fragments have {total:,} characters "
            f"together; at most {MOST_CHARACTERS:,} are written. The features can be "
            "used without their names."
        )
    texts: list[str] = []
    for label, parts in keys:
        words = [escaped(label), *_words(parts, texts)]
        texts.append(f"({' '.join(words)})" if parts else _word(label))
    return [texts[k] for k in chosen]


def _word(label: Hashable) -> str:
    """A label that stands alone."""
    return escaped(label) or "()"


def _length(part: Any, lengths: list[int]) -> int:
    return lengths[part] if isinstance(part, int) else len(_word(part[0]))


def _words(parts: tuple[Any, ...], texts: list[str]) -> Iterator[str]:
    for part in parts:
        yield texts[part] if isinstance(part, int) else _word(part[0])
