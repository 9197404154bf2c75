"""
What a question asks for, by tree kernels
=========================================

*Who wrote Hamlet?* asks for a person, *Where is Troy?* for a place. The questions of
the TREC competition, 5452 to learn from and 500 to be judged, ask for one of six kinds
of things. A tree kernel counts the fragments that two questions share:

::

    k(x, y) = Σ C(v, w) over the nodes of both,    C = λ Π (1 + C of their children)

where two nodes only match if their children have the same labels. No parser is needed
for a tree: here the words hang on a chain, ``(S who (S wrote (S hamlet END)))``, of
which the fragments are all runs of words. Published accuracies are 85.8 % for bags of
words, 87.4 % for runs of words and 90.0 % for a tree kernel on parsed questions (Zhang
and Lee 2003, all with support vector machines).

The data are read from trec_qc_train.txt.gz and trec_qc_test.txt.gz in the folder that
the environment variable MERCER_DATA names, or in ../shared/data beside this repository;
without them, questions are made from a few patterns. To be quick this script learns
from up to 1000 questions, and from all with
``python examples/plot_question_trees.py all``.
"""

import gzip
import os
import sys
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import SVC, Normalized, SubsetTree, Subtree, Tree
from mercer.plots import plot_tree, show_or_save

plt.style.use("mercer.plots.light")

KINDS = {
    "ABBR": "abbreviation", "DESC": "description", "ENTY": "thing",
    "HUM": "person", "LOC": "place", "NUM": "number",
}  # fmt: skip
folder = Path(os.environ.get("MERCER_DATA", "../shared/data"))


def read(name):
    """Questions as lists of words, and what they ask for."""
    with gzip.open(folder / name, "rt", encoding="latin-1") as file:
        lines = [line.lower().split() for line in file]
    kinds = [line[0].partition(":")[0].upper() for line in lines]
    return [line[1:] for line in lines], np.array(kinds)


def made_up():
    """Questions from a few patterns."""
    patterns = {
        "ABBR": "what does {} stand for ?|what is the full form of {} ?",
        "DESC": "what is {} ?|why is {} so famous ?|how does {} work ?",
        "ENTY": "what animal likes {} ?|what book is about {} ?",
        "HUM": "who invented {} ?|who is the king of {} ?",
        "LOC": "where is {} ?|what country has {} ?",
        "NUM": "how many people know {} ?|when did {} begin ?",
    }
    things = "nato troy radar jazz chess opera laser paper silk tea".split()
    pairs = [(k, p) for k, some in patterns.items() for p in some.split("|")]
    rows = [(p.format(t).split(), k) for t, (k, p) in product(things, pairs)]
    questions, kinds = zip(*rows, strict=True)
    return list(questions), np.array(kinds)


published = (folder / "trec_qc_train.txt.gz").exists()
if published:
    (words, y), (words_test, y_test) = map(
        read, ("trec_qc_train.txt.gz", "trec_qc_test.txt.gz")
    )
else:
    print(f"No trec_qc_train.txt.gz in {folder}: questions are made from patterns.")
    words, y = made_up()
    words, y, words_test, y_test = words[:78], y[:78], words[78:], y[78:]


# %%
# Words on a chain
# ----------------
# Two trees of the same words: with all of them below the root only words are shared; on
# the chain runs of words are too, each worth λ for every word in it. λ = 0.3 and C = 10
# are what five-fold cross-validation on the 5452 questions chooses.


def chain(words):
    tree = "END"
    for word in reversed(words):
        tree = ("S", word, tree)
    return Tree(tree)


def flat(words):
    return Tree(("S", *words))


figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
for ax, tree, title in zip(
    axes, (flat, chain), ("words", "runs of words"), strict=True
):
    drawn = tree("who wrote hamlet".split())
    is_word = [label not in ("S", "END") for label in drawn.labels]
    plot_tree(drawn, is_word, ax)
    ax.set_title(title)

ways = {
    "words: (S who wrote hamlet)": (flat, Normalized(Subtree(1.0, leaves=True))),
    "runs of words: (S who (S wrote (S hamlet END)))": (
        chain, Normalized(SubsetTree(0.3)),
    ),
}  # fmt: skip
sizes = [100, 250, 500, 1000, 2000, len(y)] if published else [20, 40, len(y)]
if published and "all" not in sys.argv[1:]:
    sizes = sizes[:-2]
order = np.random.default_rng(0).permutation(len(y))[: sizes[-1]]
accuracies, machines = {}, {}
for name, (tree, kernel) in ways.items():
    X = [tree(words[i]) for i in order]
    K = kernel(X)  # once, for all the machines
    K_test = kernel([tree(question) for question in words_test], X)
    accuracies[name] = []
    for n in sizes:
        machine = SVC(C=10, kernel="precomputed", multiclass="ovr")
        machine.fit(K[:n, :n], y[order[:n]])
        accuracies[name].append(100 * machine.score(K_test[:, :n], y_test))
        print(f"{n:5d} questions, {name:<50}{accuracies[name][-1]:6.1f} %")
    machines[name] = machine
one, other = accuracies.values()
assert other[-1] >= one[-1]

figure, ax = plt.subplots(figsize=(8, 4.8), layout="constrained")
for (name, values), colour in zip(accuracies.items(), ("C0", "C1"), strict=True):
    label = f"{name}, {values[-1]:.1f} %"
    ax.plot(sizes, values, "o-", color=colour, label=label)
if published:
    for value, what, style in (
        (85.8, "words", ":"), (87.4, "runs of words", "--"), (90.0, "parses", "-"),
    ):  # fmt: skip
        ax.axhline(value, color="C2", lw=1, ls=style,
                   label=f"published after all 5452: {what} {value} %")  # fmt: skip
ax.set(title=f"{len(y_test)} questions judged after others were learnt", xscale="log",
       xlabel="questions to learn from", ylabel="right (%)")  # fmt: skip
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.margins(x=0.08)
ax.legend(loc="lower right", fontsize=9)

# %%
# What the machine looks for
# --------------------------
# The function that was learnt is a sum over fragments, and `features` writes it out: a
# column for each fragment, with its name.

name, (tree, normalized) = list(ways.items())[1]
machine, kernel = machines[name], normalized.kernel
points = [tree(words[order[i]]) for i in machine.support_]
lengths = np.sqrt(kernel.diag(points))
weight = kernel.features(points).T @ (machine.expansion_.coef / lengths[:, None])
names = np.array(kernel.feature_names(points))


def run(name):
    """(S who (S wrote S)) as who wrote ..."""
    kept = name.replace("(", " ").replace(")", " ").split()
    text = " ".join(word for word in kept if word not in ("S", "END"))
    return f"{text} ◂" if "END" in kept else f"{text} ..."


print(f"{len(names)} fragments, such as {names[np.argmax(weight[:, 3])]}")
figure, axes = plt.subplots(2, 3, figsize=(10, 5.6), layout="constrained")
figure.suptitle("The heaviest fragments for what is asked (◂: the question ends)")
for ax, kind, column in zip(axes.flat, machine.classes_, weight.T, strict=True):
    top = np.argsort(-column, kind="stable")[:7][::-1]
    ax.barh([run(name) for name in names[top]], column[top], color="C1")
    ax.set_title(KINDS[kind])
    ax.spines[["top", "right"]].set_visible(False)
show_or_save()
