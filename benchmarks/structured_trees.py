"""Gram matrices of trees: SubsetTree and others against a plain Python recursion.

    python benchmarks/structured_trees.py                # 1,000 sentiment trees
    python benchmarks/structured_trees.py --trees 8544   # all of them
    python benchmarks/structured_trees.py --repeats 7

The trees are those of the Stanford Sentiment Treebank (sst_trees_train.txt.gz, in the
folder that MERCER_DATA names, by default ../shared/data beside the repository). The
peer is Collins and Duffy's recursion as one would write it: nodes grouped by production
in a dictionary, values remembered. It gets a part of the pairs and its time is scaled
to all of them; its numbers are compared with ours.
"""

import argparse
import gzip
import os
import statistics
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from record import record

from mercer import Normalized, PartialTree, SubsetTree, Subtree, Tree
from mercer.native import threads

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)
DECAY = 0.4


class Node:
    """A node with its children, and its production where it has some."""

    def __init__(self, tree):
        self.children = [Node(child) for child in tree.children]
        labels = [child.label for child in tree.children]
        self.production = (tree.label, *labels) if labels else None

    def all(self):
        return [self, *(node for child in self.children for node in child.all())]


def grouped(tree):
    """The nodes of a tree by production."""
    groups = defaultdict(list)
    for node in Node(tree).all():
        if node.production:
            groups[node.production].append(node)
    return groups


def subset_tree(left, right):
    """k of two trees, given as groups of nodes."""
    known = {}

    def common(v, w):
        if v.production is None or v.production != w.production:
            return 0.0
        key = id(v), id(w)
        if key not in known:
            value = DECAY
            for a, b in zip(v.children, w.children, strict=True):
                value *= 1 + common(a, b)
            known[key] = value
        return known[key]

    shared = left.keys() & right.keys()
    return sum(common(v, w) for p in shared for v in left[p] for w in right[p])


def timed(run, repeats):
    """The median of the seconds that run() takes, and what it returns."""
    seconds = []
    for _ in range(repeats):
        time.sleep(0.1)
        begin = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), result


def matching_pairs(groups):
    """The mean number of matching node pairs of two trees, over all of them."""
    totals = defaultdict(int)
    for group in groups:
        for production, nodes in group.items():
            totals[production] += len(nodes)
    return sum(count**2 for count in totals.values()) / len(groups) ** 2


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--trees", type=int, default=1000)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--peer", type=int, default=80, help="trees for the peer")
    chosen = options.parse_args()
    file = DATA / "sst_trees_train.txt.gz"
    if not file.exists():
        raise SystemExit(f"No {file.name} in {file.parent}: set MERCER_DATA.")
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        texts = [line for line, _ in zip(lines, range(chosen.trees), strict=False)]
    reading, X = timed(lambda: [Tree(text) for text in texts], chosen.repeats)
    few = [grouped(tree) for tree in X[: chosen.peer]]
    pairs = len(X) * (len(X) + 1) / 2
    print(
        f"{len(X)} trees of {np.mean([tree.size for tree in X]):.1f} nodes, "
        f"{pairs:,.0f} pairs with {matching_pairs(few):.0f} matching pairs of nodes "
        f"each; {threads.threads()} threads; medians of {chosen.repeats} runs"
    )
    print(f"{'reading the bracket text':<44}{reading:9.3f} s")

    begin = time.perf_counter()
    expected = [[subset_tree(x, y) for y in few[i:]] for i, x in enumerate(few)]
    spent = time.perf_counter() - begin
    peer = spent * pairs / (len(few) * (len(few) + 1) / 2)
    K = SubsetTree(DECAY)(X[: len(few)])
    for i, row in enumerate(expected):
        np.testing.assert_allclose(K[i, i:], row, rtol=1e-12)
    print(f"{'Collins and Duffy in Python (scaled up)':<44}{peer:9.3f} s")
    for kernel in (
        SubsetTree(DECAY),
        Normalized(SubsetTree(DECAY)),
        SubsetTree(DECAY, leaves=True),
        Subtree(DECAY),
        PartialTree(DECAY, DECAY),
    ):
        seconds, _ = timed(lambda k=kernel: k(X), chosen.repeats)
        per_pair = 1e9 * seconds / pairs
        ratio = f"{peer / seconds:8.0f} ×" if type(kernel) is SubsetTree else ""
        theirs = {"Python": peer} if type(kernel) is SubsetTree else {}
        record("trees", kernel, {"mercer": seconds} | theirs)
        print(f"{kernel!r:<58}"[:58] + f"{seconds:9.3f} s{per_pair:8.0f} ns{ratio}")


if __name__ == "__main__":
    main()
