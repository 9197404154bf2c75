"""
What a machine saw
==================

Every machine here is one function, f(x) = Σᵢ coefᵢ k(xᵢ, x) + b. Where the kernel is an
inner product of features that can be named, that is a sum over features as well,

::

    f(x) = b + Σⱼ wⱼ φⱼ(x),    w = Σᵢ coefᵢ φ(xᵢ),

and ``explain`` writes out the summands of one point, with the places where they are in
it. They add up to f(x); nothing is estimated. ``top_features`` asks the same of the
whole machine: which features have the largest weights.

The data are splice_junction.tsv.gz, graphs_MUTAG.jsonl.gz and sst_trees_train.txt.gz in
the folder that the environment variable MERCER_DATA names, or in ../shared/data beside
this repository. Where a file is not there, points with the known signs planted in them
take their place.
"""

import gzip
import json
import os
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from mercer import (
    SVC,
    Graph,
    Normalized,
    Subsequence,
    SubsetTree,
    Subtree,
    Tree,
    WeightedDegree,
    WeisfeilerLehman,
    explain,
)
from mercer.plots import show_or_save

plt.style.use("mercer.plots.light")
folder = Path(os.environ.get("MERCER_DATA", "../shared/data"))
rng = np.random.default_rng(0)


def lines(name):
    """The lines of a file."""
    file = folder / name
    return gzip.decompress(file.read_bytes()).decode().splitlines()


# %%
# Letters
# -------
# Stretches of 60 letters of DNA. In the middle of some an intron begins (EI), in that
# of others one ends (IE): nearly every intron begins with GT and ends with AG.

try:
    rows = [line.split("\t") for line in lines("splice_junction.tsv.gz")]
    rows = [rows[i] for i in rng.permutation(len(rows))[:700]]
    X, y = [row[2].strip() for row in rows], np.array([row[0] for row in rows])
except FileNotFoundError:
    print("No splice_junction.tsv.gz: planting signs in random strings.")
    X = ["".join(rng.choice(list("ACGT"), size=60)) for _ in range(300)]
    y = np.array(["EI", "IE", "N"])[np.arange(300) % 3]
    X = [s[:30] + "GT" + s[32:] if kind == "EI" else s[:28] + "AG" + s[30:]
         if kind == "IE" else s for s, kind in zip(X, y, strict=True)]  # fmt: skip

machine = SVC(kernel=Normalized(WeightedDegree(3)), multiclass="ovr").fit(X, y)
top = machine.top_features(4)
print(top)
assert top.of("EI against the rest")[0].name == "'GT' at 30"
assert top.of("IE against the rest")[0].name == "'AG' at 28"

figure, axes = plt.subplots(2, 1, figsize=(13, 3), layout="constrained")
for ax, kind in zip(axes, ("EI", "IE"), strict=True):
    some = [x for x, known in zip(X, y, strict=True) if known == kind]
    found = explain(machine, some[:20], output=f"{kind} against the rest")
    best = max(found, key=lambda explanation: explanation.total)
    best.plot(ax)
print(best)

# %%
# Gaps
# ----
# The features of ``Subsequence`` are words with gaps, exponentially many. Those of one
# point are found along its own letters; those of the whole machine by bounds: of words
# that begin alike no weight is larger than what all strings with a positive, or all
# with a negative, coefficient can give together.

gaps = SVC(kernel=Normalized(Subsequence(3, 0.5)), multiclass="ovr").fit(X, y)
print(gaps.top_features(3))

# %%
# Atoms
# -----
# MUTAG: molecules that make bacteria mutate, or not. Each has a nitro group, an N with
# two O, and the mutagenic ones have more of them. The features are the atoms, and the
# patterns of their neighbours and bonds; C is chosen by ten folds. ``by="items"`` takes
# f(x) down to the atoms, the bias shared out as well: in nine of ten molecules that the
# machine rightly calls mutagenic, an oxygen of a nitro group adds the most.

BONDS = ["aromatic", "single", "double", "triple"]


def molecule(row):
    atoms = [("C", "N", "O", "F", "I", "Cl", "Br")[i] for i in row["node_labels"]]
    bonds = [BONDS[i] for i in row["edge_labels"]]
    return Graph(row["edges"], atoms, edge_labels=bonds)


def invented(nitro):
    """A chain of carbon with a nitro group or without."""
    n = int(rng.integers(5, 10))
    edges = [*((i, i + 1) for i in range(n)), (n, n + 1), (n, n + 2)]
    kinds = [
        *["single"] * (n + 1),
        *(["single", "double"] if nitro else ["single"] * 2),
    ]
    atoms = ["C"] * n + list("NOO" if nitro else "CCC")
    return Graph(edges, atoms, edge_labels=kinds[: len(edges)])


try:
    rows = [json.loads(line) for line in lines("graphs_MUTAG.jsonl.gz")]
    graphs, mutagenic = [molecule(row) for row in rows], [row["y"] for row in rows]
except FileNotFoundError:
    print("No graphs_MUTAG.jsonl.gz: making up molecules instead.")
    mutagenic = np.arange(60) % 2
    graphs = [invented(nitro) for nitro in mutagenic]

kernel, mutagenic = Normalized(WeisfeilerLehman(1)), np.array(mutagenic)
folds = StratifiedKFold(10, shuffle=True, random_state=0)
search = GridSearchCV(SVC(kernel="precomputed"), {"C": [1, 10, 100, 1000]}, cv=folds)
search.fit(kernel(graphs), mutagenic)
print(f"{search.best_score_:.1%} right with {search.best_params_}")
molecules = SVC(kernel=kernel, **search.best_params_).fit(graphs, mutagenic)
explanations = explain(molecules, graphs, by="items", n=5)
pairs = zip(explanations, mutagenic, strict=True)
right = [one for one, known in pairs if known and one.total > 0]
first = [one.parts[0].name.partition(" at ")[0] for one in right]
kinds, often = np.unique(first, return_counts=True)
print(
    "\n".join(
        f"{n:5}  {kind}" for n, kind in sorted(zip(often, kinds, strict=True))[::-1]
    )
)
assert kinds[np.argmax(often)] in ("O(N)", "N(C, O, O)")
kept = [one for one in right if len(one.point.nodes) < 22]
kept = sorted(kept, key=lambda one: -sum(atom == "O" for atom in one.point.labels))
figure, axes = plt.subplots(1, 3, figsize=(13, 4.5), layout="constrained")
for ax, explanation in zip(axes, kept[:3], strict=True):
    explanation.plot(ax)
    ax.set_title(f"f = {explanation.total:.2f}")
print(kept[0])

# %%
# Words in trees
# --------------
# Sentences of film reviews as trees, without the labels of the phrases. The fragments
# of a tree are its features; a word is the smallest.

try:
    trees = [line for line in lines("sst_trees_train.txt.gz")
             if line[1] != "2" and line.count("(") < 40]  # fmt: skip
    trees = [trees[i] for i in rng.permutation(len(trees))[:1000]]
    praise = np.array([int(line[1]) > 2 for line in trees])
    sentences = [Tree(re.sub(r"\(\d ", "(· ", line)) for line in trees]
except FileNotFoundError:
    print("No sst_trees_train.txt.gz: making up reviews instead.")
    praise = np.arange(100) % 2 == 1
    sentences = [
        Tree(f"(· (· {rng.choice(['a', 'this'])}) (· (· {word}) (· movie)))")
        for word in rng.choice(["best", "love", "fun"], size=100)
    ]
    sentences = [
        tree if good else Tree(str(tree).replace(str(tree.leaves[1]), "bad"))
        for tree, good in zip(sentences, praise, strict=True)
    ]

reviews = SVC(kernel=Normalized(Subtree(0.4)), C=3.0).fit(sentences, praise)
words = reviews.top_features(12)
print(words)
fragments = SVC(kernel=Normalized(SubsetTree(0.1)), C=3.0).fit(sentences, praise)
print(fragments.top_features(6))

figure, axes = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
short = [tree for tree in sentences if 3 <= len(tree.leaves) <= 9][:200]
found = sorted(explain(reviews, short), key=lambda explanation: explanation.total)
for ax, explanation in zip(axes, (found[0], found[-1]), strict=True):
    explanation.plot(ax)
    ax.set_title(f"f = {explanation.total:.2f}")

# %%
# Columns
# -------
# The Gaussian kernel has no features to list, but it is a product over the columns. The
# Shapley value of a column, what it adds on average over all orders in which columns
# can join, is then exact, and found in polynomial time.

iris = load_iris(as_frame=True)
flowers = SVC(multiclass="ovr").fit(iris.data, iris.target_names[iris.target])
[one] = explain(flowers, iris.data[70:71], output="versicolor against the rest")
print(one)
one.plot()
assert np.isclose(one.bias + sum(part.value for part in one.parts), one.total)
show_or_save()
