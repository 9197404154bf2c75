"""Trees and their kernels from the definitions, by recursion: too slow to be wrong.

A tree here is (label, children), children a tuple of trees.
"""

from collections import defaultdict
from itertools import combinations, product

from mercer.data.trees import Tree


def plain(tree):
    """A point as (label, children)."""
    tree = Tree(tree)
    return tree.label, tuple(plain(child) for child in tree.children)


def nodes(tree):
    return [tree, *(node for child in tree[1] for node in nodes(child))]


def written(tree):
    label, children = tree
    inside = "".join(f" {written(child)}" for child in children)
    return f"({label}{inside})"


def inner(left, right):
    return sum(weight * right.get(fragment, 0) for fragment, weight in left.items())


def by_fragments(features):
    """k(x, y) = Σ over fragments of their weights in x and in y."""

    def k(x, y):
        return inner(features(plain(x)), features(plain(y)))

    return k


# Every fragment written out


def subtree_features(decay, leaves=False):
    def features(tree):
        found = defaultdict(float)
        for node in nodes(tree):
            size = sum(bool(children) for _, children in nodes(node))
            if size or leaves:
                found[node] += decay ** (max(size, 1) / 2)
        return found

    return features


def subset_features(decay, leaves=False):
    def rooted(node):
        """Fragments that keep all children of this node, and how many nodes do."""
        label, children = node
        choices = [[(child[0], 0), *rooted(child)] for child in children]
        if not children:
            return []
        return [
            ((label, tuple(part for part, _ in chosen)), 1 + sum(n for _, n in chosen))
            for chosen in product(*choices)
        ]

    def features(tree):
        found = defaultdict(float)
        for node in nodes(tree):
            for fragment, size in rooted(node):
                found[fragment] += decay ** (size / 2)
            if leaves and not node[1]:
                found[node[0]] += decay**0.5
        return found

    return features


def partial_features(decay, gap):
    def rooted(node):
        """Fragments with this node at the top, and their weights, place by place."""
        label, children = node
        found = [((label, ()), decay**0.5 * gap)]
        for r in range(1, len(children) + 1):
            for places in combinations(range(len(children)), r):
                span = places[-1] - places[0] + 1
                for chosen in product(*(rooted(children[p]) for p in places)):
                    weight = decay**0.5 * gap**span
                    for _, part in chosen:
                        weight *= part
                    found.append(((label, tuple(f for f, _ in chosen)), weight))
        return found

    def features(tree):
        found = defaultdict(float)
        for node in nodes(tree):
            for fragment, weight in rooted(node):
                found[fragment] += weight
        return found

    return features


# The recursions over pairs of nodes: twins of the native core


def over_pairs(common):
    """k(x, y) = Σ common(v, w) over all nodes v of x and w of y."""

    def k(x, y):
        x, y = nodes(plain(x)), nodes(plain(y))
        return sum(common(v, w) for v in x for w in y)

    return k


def subset_tree(decay):
    def common(v, w):
        def production(node):
            return node[0], [label for label, _ in node[1]]

        if not v[1] or not w[1] or production(v) != production(w):
            return 0
        result = decay
        for below_v, below_w in zip(v[1], w[1], strict=True):
            result *= 1 + common(below_v, below_w)
        return result

    return over_pairs(common)


def partial_tree(decay, gap):
    def common(v, w):
        if v[0] != w[0]:
            return 0
        total = gap**2
        for r in range(1, min(len(v[1]), len(w[1])) + 1):
            for I in combinations(range(len(v[1])), r):
                for J in combinations(range(len(w[1])), r):
                    term = gap ** (I[-1] - I[0] + 1 + J[-1] - J[0] + 1)
                    for i, j in zip(I, J, strict=True):
                        term *= common(v[1][i], w[1][j])
                    total += term
        return decay * total

    return over_pairs(common)


# The tag


def sorted_tree(tree):
    """Children by height, then label, then the same of theirs: as trees compare."""
    label, children = tree
    below = sorted((sorted_tree(child) for child in children), key=order)
    return label, tuple(below)


def order(tree):
    label, children = tree
    return height(tree), label, [order(child) for child in children]


def height(tree):
    return 1 + max((height(child) for child in tree[1]), default=0)
