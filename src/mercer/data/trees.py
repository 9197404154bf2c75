"""Points that are trees: a small immutable container and its text forms.

A tree is held in preorder, as the labels of its nodes and how many children each has.
Nothing here calls itself, so trees may be as deep as memory allows.
"""

from __future__ import annotations

import numbers
import re
from collections.abc import Hashable, Iterator, Sequence
from itertools import islice
from typing import Any, NoReturn

from mercer import _html
from mercer.data.checks import check_label, describe

MOST_NODES = 10_000_000  # of a tree that is read from nested tuples, lists or objects
MANY_NODES = 10_000  # nodes after which a tree is checked for containing itself
MOST_DRAWN = 200  # nodes of a tree that a notebook draws
_TOKEN = re.compile(r"[()]|(?:\\[()\\\s]|[^\s()])+")
_SPECIAL = re.compile(r"([()\\\s])")
_ESCAPED = re.compile(r"\\([()\\\s])")


class Tree:
    """An ordered tree with a label at every node: `Tree("(NP (D the) (N apple))")`.

    Parameters
    ----------
    tree : bracket text; or nested tuples or lists, as `("NP", ("D", "the"), "apple")`,
        a label and then the children, where anything else is the label of a leaf; or
        an object with `label()` that runs through its children, as the
        trees of nltk do; or a Tree

    Labels in text are words. A backslash before a bracket, a space or a backslash takes
    its meaning away; elsewhere labels may be any hashable objects.

    Attributes
    ----------
    labels : of the nodes in preorder, a tuple
    arity : how many children each of them has, a tuple

    Examples
    --------
    >>> from mercer import Tree
    >>> tree = Tree("(NP (D the) (N apple))")
    >>> tree.label, tree.size, tree.leaves
    ('NP', 5, ('the', 'apple'))
    >>> tree == Tree(("NP", ("D", "the"), ("N", "apple")))
    True
    """

    __slots__ = ("arity", "labels")

    labels: tuple[Hashable, ...]
    arity: tuple[int, ...]

    def __init__(self, tree: Any) -> None:
        if isinstance(tree, Tree):
            labels, arity = tree.labels, tree.arity
        elif isinstance(tree, str):
            labels, arity = _read_text(tree)
        else:
            labels, arity = _read_nested(tree)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "arity", arity)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"A Tree does not change; make another one to set {name}.")

    def __delattr__(self, name: str) -> NoReturn:
        self.__setattr__(name, None)

    @property
    def label(self) -> Hashable:
        """The label of the root."""
        return self.labels[0]

    @property
    def children(self) -> tuple[Tree, ...]:
        """The trees below the root, from left to right."""
        ends = subtree_ends(self.arity)
        start, found = 1, []
        for _ in range(self.arity[0]):
            part = slice(start, ends[start])
            found.append(_tree(self.labels[part], self.arity[part]))
            start = ends[start]
        return tuple(found)

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self.labels)

    @property
    def depth(self) -> int:
        """The number of nodes on the longest way down from the root."""
        return max(subtree_heights(self.arity))

    @property
    def leaves(self) -> tuple[Hashable, ...]:
        """The labels of the nodes without children, from left to right."""
        pairs = zip(self.labels, self.arity, strict=True)
        return tuple(label for label, children in pairs if not children)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        return self.arity == other.arity and self.labels == other.labels

    def __hash__(self) -> int:
        return hash((self.labels, self.arity))

    def __reduce__(self) -> tuple[Any, ...]:
        return _tree, (self.labels, self.arity)

    def __str__(self) -> str:
        return _written(self.labels, self.arity)

    def __repr__(self) -> str:
        if all(isinstance(label, str) for label in self.labels):
            return f"Tree({str(self)!r})"
        return f"Tree({_nested_text(self)})"

    def _repr_html_(self) -> str:
        if self.size > MOST_DRAWN:
            return f"<code>Tree of {self.size:,} nodes, {self.depth:,} deep</code>"
        return _drawn(self)


def tag(tree: Any, sort: bool = False) -> str:
    """The tag of a tree, every node in brackets: (A (B (C) (D)) (E)).

    The part of it from a bracket to the one that closes it is the tag of a complete
    subtree.

    Parameters
    ----------
    tree : a Tree, or what makes one
    sort : children in an order that depends only on what is below them, so that trees
        that differ in the order of children have one tag; log-linear in the size

    Examples
    --------
    >>> from mercer.data import tag
    >>> tag("(A (B C D) E)")
    '(A (B (C) (D)) (E))'
    >>> tag("(A z b)", sort=True)
    '(A (b) (z))'
    """
    tree = ordered(Tree(tree)) if sort else Tree(tree)
    return _written(tree.labels, tree.arity, all_brackets=True)


def tag_tokens(tree: Tree) -> tuple[Hashable, ...]:
    """The tag in tokens, two for each node: '(A', '(B', '(C', ')', '(D', ')', ...

    A label that is no word makes the token ('(', label).
    """
    tokens: list[Hashable] = []
    for label, closing in _walk(tree.labels, tree.arity):
        tokens.append(f"({label}" if isinstance(label, str) else ("(", label))
        tokens.extend(")" * closing)
    return tuple(tokens)


def ordered(tree: Tree) -> Tree:
    """The tree with the children of every node sorted, by what is below them only."""
    places = sorted_places(tree)
    return _tree(
        tuple(tree.labels[node] for node in places),
        tuple(tree.arity[node] for node in places),
    )


def sorted_places(tree: Tree) -> list[int]:
    """Where the nodes of `ordered(tree)`, in preorder, are in the tree."""
    labels, arity = tree.labels, tree.arity
    children = child_places(arity)
    levels: dict[int, list[int]] = {}
    for node, height in enumerate(subtree_heights(arity)):
        levels.setdefault(height, []).append(node)
    # Ranks rise with (height, label, ranks of the sorted children): an order of trees
    # that does not depend on the tree they are found in.
    rank = [0] * len(labels)
    last = 0
    for height in sorted(levels):
        keys = {}
        for node in levels[height]:
            children[node].sort(key=rank.__getitem__)
            below = tuple(rank[child] for child in children[node])
            keys[node] = (_sortable(labels[node]), below)
        different = {key: last + i for i, key in enumerate(sorted(set(keys.values())))}
        last += len(different)
        for node, key in keys.items():
            rank[node] = different[key]
    places, pending = [], [0]
    while pending:
        node = pending.pop()
        places.append(node)
        pending.extend(reversed(children[node]))
    return places


def _sortable(label: Any) -> tuple[str, Any]:
    if isinstance(label, str):
        return "a word", str(label)
    if isinstance(label, numbers.Real):
        return "a number", label
    return type(label).__name__, repr(label)


# Numbers of each node, in preorder


def subtree_ends(arity: Sequence[int]) -> list[int]:
    """Where the subtree of each node ends: the place of the next node outside it."""
    ends = [0] * len(arity)
    open_nodes: list[int] = []  # those whose parent is still to come
    for node in range(len(arity) - 1, -1, -1):
        count = arity[node]
        # The first child is on top, the last one count places below.
        ends[node] = ends[open_nodes[-count]] if count else node + 1
        if count:
            del open_nodes[-count:]
        open_nodes.append(node)
    return ends


def subtree_heights(arity: Sequence[int]) -> list[int]:
    """How many nodes the longest way down from each node has."""
    heights = [1] * len(arity)
    open_nodes: list[int] = []
    for node in range(len(arity) - 1, -1, -1):
        if count := arity[node]:
            heights[node] = 1 + max(heights[child] for child in open_nodes[-count:])
            del open_nodes[-count:]
        open_nodes.append(node)
    return heights


def child_places(arity: Sequence[int]) -> list[list[int]]:
    """The children of each node, from left to right."""
    children: list[list[int]] = [[]] * len(arity)
    open_nodes: list[int] = []
    for node in range(len(arity) - 1, -1, -1):
        count = arity[node]
        children[node] = open_nodes[: -count - 1 : -1] if count else []
        if count:
            del open_nodes[-count:]
        open_nodes.append(node)
    return children


# Reading


def _tree(labels: tuple[Hashable, ...], arity: tuple[int, ...]) -> Tree:
    """The tree with these nodes, which are known to make one."""
    tree = object.__new__(Tree)
    object.__setattr__(tree, "labels", labels)
    object.__setattr__(tree, "arity", arity)
    return tree


def _read_text(text: str) -> tuple[tuple[Hashable, ...], tuple[int, ...]]:
    labels: list[str] = []
    arity: list[int] = []
    opened: list[tuple[int, int]] = []  # nodes not yet closed, and where they begin
    unnamed = False  # whether a word now would be the label of the last node
    for match in _TOKEN.finditer(text):
        token, place = match.group(), match.start()
        if token == ")":
            if not opened:
                raise _error(text, place, "A bracket closes that was not opened")
            opened.pop()
            unnamed = False
        elif token != "(" and unnamed:
            labels[-1] = _ESCAPED.sub(r"\1", token)
            unnamed = False
        else:
            if opened:
                arity[opened[-1][0]] += 1
            elif labels:
                raise _error(text, place, "The tree ended before this")
            unnamed = token == "("
            if unnamed:
                opened.append((len(labels), place))
            labels.append("" if unnamed else _ESCAPED.sub(r"\1", token))
            arity.append(0)
    if opened:
        raise _error(text, opened[-1][1], "The bracket here is never closed")
    if not labels:
        raise ValueError("The text of a tree is empty; write (A) for a single node.")
    return tuple(labels), tuple(arity)


def _error(text: str, place: int, what: str) -> ValueError:
    """The error, with the piece of the text around it and a caret below."""
    first = max(0, place - 40)
    piece = "".join(c if c.isprintable() else " " for c in text[first : place + 30])
    return ValueError(
        f"{what}, at position {place} of the text of a tree; write (NP (D the) (N "
        f"apple)).\n    {piece}\n    {' ' * (place - first)}^"
    )


def _read_nested(tree: Any) -> tuple[tuple[Hashable, ...], tuple[int, ...]]:
    if not _is_branch(tree):
        raise TypeError(
            "A tree is bracket text, nested tuples such as ('NP', ('D', 'the')), or a "
            f"Tree; got {describe(tree)}."
        )
    labels: list[Hashable] = []
    arity: list[int] = []
    pending, limit = [tree], MANY_NODES
    while pending:
        node = pending.pop()
        if isinstance(node, Tree):
            labels.extend(node.labels)
            arity.extend(node.arity)
        else:
            label, children = _opened(node) if _is_branch(node) else (node, [])
            check_label(label, f"The labels of a tree are; node {len(labels)}")
            labels.append(label)
            arity.append(len(children))
            pending.extend(reversed(children))
        if len(labels) > limit:
            _check_end(tree)
            if limit == MOST_NODES:  # the children are new objects at each access
                raise _too_large()
            limit = MOST_NODES
    return tuple(labels), tuple(arity)


def _check_end(tree: Any) -> None:
    """Refuse a tree that contains itself, or has more nodes than are written out.

    A part that is shared is looked at once, so that this takes no longer than the
    objects there are.
    """
    sizes: dict[int, int] = {}
    kept = []  # an id is that of one object only while the object lives
    above: set[int] = set()  # the nodes between the root and this one
    pending: list[tuple[Any, list[Any] | None]] = [(tree, None)]
    while pending:
        node, children = pending.pop()
        if isinstance(node, Tree):
            sizes[id(node)] = node.size
        elif not _is_branch(node):
            sizes[id(node)] = 1
        elif children is None:
            if id(node) in sizes:
                continue
            if id(node) in above:
                raise ValueError(
                    "A tree has an end; this one contains itself, at a node "
                    f"{len(above)} below its root."
                )
            above.add(id(node))
            kept.append(node)
            children = _opened(node)[1]
            pending.append((node, children))
            pending.extend((child, None) for child in children)
            if len(kept) > MOST_NODES:
                raise _too_large()
        else:
            above.remove(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(child)] for child in children)
            kept.append(children)
    if sizes[id(tree)] > MOST_NODES:
        raise _too_large()


def _too_large() -> ValueError:
    return ValueError(
        f"A tree has at most {MOST_NODES:,} nodes; this one has more, perhaps because "
        "it contains the same parts over and over. Cut it into smaller ones."
    )


def _is_branch(node: Any) -> bool:
    return isinstance(node, tuple | list | Tree) or callable(
        getattr(node, "label", None)
    )


def _opened(node: Any) -> tuple[Any, list[Any]]:
    """The label and the children of a nested tuple or of a foreign tree."""
    if callable(getattr(node, "label", None)):
        return node.label(), list(islice(node, MOST_NODES + 1))
    if not node:
        raise ValueError(
            "A nested tuple begins with the label of its node; got an empty one."
        )
    return node[0], list(node[1:])


# Writing


def _walk(
    labels: Sequence[Hashable], arity: Sequence[int]
) -> Iterator[tuple[Hashable, int]]:
    """Each node's label, and how many nodes end with it: itself, its parent, ..."""
    left: list[int] = []  # children still to come, of the nodes that are open
    for label, count in zip(labels, arity, strict=True):
        closing = 0
        if count:
            left.append(count)
        else:
            closing = 1
            while left and left[-1] == 1:
                left.pop()
                closing += 1
            if left:
                left[-1] -= 1
        yield label, closing


def _written(
    labels: Sequence[Hashable], arity: Sequence[int], all_brackets: bool = False
) -> str:
    parts: list[str] = []
    for (label, closing), count in zip(_walk(labels, arity), arity, strict=True):
        word = escaped(label)
        # A leaf needs brackets where it could not be seen, or be taken for the label
        # of its parent.
        hidden = not word or len(labels) == 1 or parts[-1:] == ["("]
        bracket = all_brackets or count or hidden
        closed = closing if bracket else closing - 1
        parts.append(f"{'(' if bracket else ''}{word}{')' * closed}")
    return " ".join(parts)


def escaped(label: Any) -> str:
    """A label as it stands in bracket text."""
    return _SPECIAL.sub(r"\\\1", str(label))


def _nested_text(tree: Tree) -> str:
    """The nested tuples that make the tree, as text."""
    parts = []
    nodes = zip(_walk(tree.labels, tree.arity), tree.arity, strict=True)
    for (label, closing), count in nodes:
        if count:
            parts.append(f"({label!r}, ")
            continue
        leaf = f"({label!r},)" if tree.size == 1 else f"{label!r}"
        ends = ")" * (closing - 1)
        parts.append(leaf + ends + ", ")
    return "".join(parts).removesuffix(", ")


# Drawing


def _drawn(tree: Tree, level: float = 44, gap: float = 12) -> str:
    """An SVG: every node above the middle of what is below it, nothing overlapping."""
    children = child_places(tree.arity)
    own = [_html.LETTER * len(_html.shortened(label)) + gap for label in tree.labels]
    below = [0.0] * tree.size  # the widths of the children of each node, added up
    width = list(own)
    for node in range(tree.size - 1, -1, -1):
        below[node] = sum(width[child] for child in children[node])
        width[node] = max(own[node], below[node])
    x, depth = [width[0] / 2] * tree.size, [0] * tree.size
    for node in range(tree.size):
        left = x[node] - below[node] / 2
        for child in children[node]:
            x[child], depth[child] = left + width[child] / 2, depth[node] + 1
            left += width[child]
    y = [level * d + level / 2 for d in depth]
    lines = [
        _html.line(x[node], y[node] + 10, x[child], y[child] - 10)
        for node in range(tree.size)
        for child in children[node]
    ]
    words = [_html.label(*place) for place in zip(x, y, tree.labels, strict=True)]
    return _html.drawing(width[0], level * (max(depth) + 1), lines + words)
