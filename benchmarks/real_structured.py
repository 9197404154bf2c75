"""Every kernel on strings, trees, graphs and densities at work on real data.

    python benchmarks/real_structured.py               # all, some minutes
    python benchmarks/real_structured.py splice MUTAG  # the rows of these sets

One machine, `SVC` with C = 10 and the kernel normalised unless its row says otherwise;
parameters are the first ones that come to mind, not searched for. Accuracy on points
held out; seconds are those of the processor, for learning and judging together. The
figures stand in docs/coverage.md and docs/guide/kernels.md; examples/ has tuned ones.
"""

import gzip
import json
import os
import re
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split
from sklearn.neighbors import kneighbors_graph

from mercer import (
    RBF,
    SVC,
    Convolution,
    Diffusion,
    EditSimilarity,
    Fisher,
    Graph,
    Linear,
    MatrixExponential,
    Mismatch,
    Natural,
    Normalized,
    PartialTree,
    Pullback,
    RandomWalk,
    ShortestPath,
    Spectrum,
    Subsequence,
    SubsetTree,
    Subtree,
    TaggedTree,
    Tree,
    WeightedDegree,
    WeightedSubstrings,
    WeisfeilerLehman,
)
from mercer.densities import HMM, Gaussian, GaussianMixture, MarkovChain

DATA = Path(
    os.environ.get("MERCER_DATA", Path(__file__).parents[1] / ".." / "shared" / "data")
)


def lines(name):
    with gzip.open(DATA / name, "rt", encoding="latin-1") as file:
        return file.read().splitlines()


def splice():
    """Windows of 20 letters around a place in DNA: donor, acceptor or neither."""
    y, _, X = zip(*(line.split("\t") for line in lines("splice_junction.tsv.gz")))  # noqa: B905
    X = [x[20:40] for x in X]
    return train_test_split(X, np.array(y), train_size=2000, stratify=y, random_state=0)


def some_splice():
    """A quarter of them, for kernels that take their time."""
    X, Z, y, u = splice()
    return X[:600], Z[:600], y[:600], u[:600]


def messages():
    """Text messages, wanted or not: the first 30 % learnt, as in examples/."""
    kinds, texts = zip(
        *(line.split("\t", 1) for line in lines("sms_spam.tsv.gz")), strict=True
    )
    n = int(0.3 * len(texts))
    y = np.array(kinds)
    return list(texts[:n]), list(texts[n:]), y[:n], y[n:]


def messages_in_words():
    """The same as sequences of words, digits and signs."""
    X, Z, y, u = messages()
    cut = re.compile(r"[a-z]+|\d|[^\w\s]")
    return *([cut.findall(x.lower()) for x in part] for part in (X, Z)), y, u


def questions():
    """Questions as chains of words, and what they ask for."""

    def read(name):
        words = [line.lower().split() for line in lines(name)]
        kinds = [line[0].partition(":")[0] for line in words]
        return [chain(line[1:]) for line in words], np.array(kinds)

    (X, y), (Z, u) = read("trec_qc_train.txt.gz"), read("trec_qc_test.txt.gz")
    return X[:2000], Z, y[:2000], u


def chain(words):
    tree = "END"
    for word in reversed(words):
        tree = ("S", (word,), tree)
    return Tree(tree)


def reviews():
    """Sentences as trees of phrases, for or against a film; opinions taken out."""

    def read(name):
        given = [Tree(line) for line in lines(name)]
        clear = [tree for tree in given if tree.labels[0] != "2"]
        y = np.array(["for" if tree.labels[0] > "2" else "against" for tree in clear])
        return [phrases(tree) for tree in clear], y

    (X, y), (Z, u) = read("sst_trees_train.txt.gz"), read("sst_trees_test.txt.gz")
    some = np.random.default_rng(0).permutation(len(X))[:3000]
    return [X[i] for i in some], Z, y[some], u


def phrases(tree):
    """The tree with P for every inner label, and words in small letters."""
    text = re.sub(r"\(\d ", "(P ", str(tree))
    return Tree(text.lower().replace("(p ", "(P "))


def molecules():
    rows = [json.loads(line) for line in lines("graphs_MUTAG.jsonl.gz")]
    X = [Graph(list(map(tuple, row["edges"])), row["node_labels"]) for row in rows]
    return X, np.array([row["y"] for row in rows])


def digits(n=2000):
    """Images as the nodes of the graph of their ten nearest ones; few are labelled."""
    held = np.load(DATA / "optdigits.npz")
    order = np.random.default_rng(0).permutation(len(held["y"]))[:n]
    X, y = held["X"][order].astype(float), held["y"][order]
    near = kneighbors_graph(X, 10)
    edges = np.argwhere((near + near.T).toarray() > 0)
    graph = Graph([tuple(edge) for edge in edges.tolist() if edge[0] < edge[1]],
                  nodes=range(n))  # fmt: skip
    known = np.concatenate([np.flatnonzero(y == c)[:10] for c in range(10)])
    rest = np.setdiff1d(np.arange(n), known)
    return graph, (known.tolist(), rest.tolist(), y[known], y[rest])


def waves():
    held = np.load(DATA / "waveform.npz")
    X, y = held["X"][:, :21].astype(float), held["y"]
    return train_test_split(X, y, train_size=1000, stratify=y, random_state=0)


def gappy_waves():
    """The same with a fifth of all values missing."""
    X, Z, y, u = waves()
    rng = np.random.default_rng(0)
    for points in (X, Z):
        points[rng.random(points.shape) < 0.2] = np.nan
    return X, Z, y, u


def vowels():
    rows = [json.loads(line) for line in lines("ts_japanese_vowels.jsonl.gz")]
    X = [np.array(row["x"]).T for row in rows]
    y = np.array([row["y"] for row in rows])
    train = np.array([row["split"] == "train" for row in rows])
    take = [[x for x, chosen in zip(X, side, strict=True) if chosen]
            for side in (train, ~train)]  # fmt: skip
    return *take, y[train], y[~train]


# A convolution: words of two letters, each at its place


def placed_words(x):
    return [(i, x[i : i + 2]) for i in range(len(x) - 1)]


def spelled(words):
    """One column for each word of two letters of ACGT."""
    out = np.zeros((len(words), 25))
    place = [5 * "ACGT".find(w[0]) + "ACGT".find(w[1]) + 6 for w in words]
    out[np.arange(len(words)), place] = 1
    return out


def place(numbers):
    return np.asarray(numbers, dtype=float).reshape(-1, 1)


OLIGO = Convolution(
    placed_words, [Pullback(RBF(0.5), place), Pullback(Linear(), spelled)]
)


def split_rows():
    """(data, kernel): learnt on one part, judged on the other."""
    ones = [1.0] * 5
    for kernel in (
        Subsequence(3, 0.5, ones[:3]),
        Spectrum(5, ones),
        Mismatch(5, 1, "ACGTDNSR"),
        WeightedSubstrings(0.5),
        WeightedDegree(4),
        Fisher(MarkovChain()),
    ):
        yield splice, Normalized(kernel)
    yield splice, EditSimilarity(0.3)
    yield some_splice, Normalized(OLIGO)
    yield messages_in_words, Normalized(Spectrum(1))
    for kernel in (Spectrum(4), Subsequence(3, 0.5)):
        yield messages, Normalized(kernel)
    for kernel in (
        SubsetTree(0.3),
        PartialTree(0.4, 0.4),
        TaggedTree(Spectrum(4, ones[:4])),
    ):
        yield questions, Normalized(kernel)
    for kernel in (Subtree(0.5, leaves=True), SubsetTree(0.3, leaves=True)):
        yield reviews, Normalized(kernel)
    yield waves, Normalized(Fisher(Gaussian()))
    yield waves, Normalized(Fisher(GaussianMixture(3, "diag")))
    yield waves, Normalized(Natural(GaussianMixture(3, "diag")))
    yield gappy_waves, Normalized(Fisher(GaussianMixture(3, "diag")))
    yield vowels, Normalized(Fisher(HMM(2)))
    yield vowels, Normalized(Natural(HMM(2)))


def node_rows():
    graph, split = digits()
    L = graph.laplacian()
    scale = 1 / np.sqrt(L.diagonal())
    H = -(L.multiply(scale[:, None]).multiply(scale)).tocsr()  # the normalised one
    for name, kernel in (
        ("Diffusion(graph, 0.5)", Diffusion(graph, 0.5)),
        ("MatrixExponential(H, 5.0)", MatrixExponential(H, 5.0)),
    ):
        yield name, kernel, split


def judged(data, kernel, name=None):
    X, Z, y, u = data
    start = time.process_time()
    machine = SVC(kernel=kernel, C=10.0).fit(X, y)
    right = 100 * np.mean(machine.predict(Z) == u)
    seconds = time.process_time() - start
    print(f"  {name or repr(kernel):<70}{right:6.2f} %{seconds:7.2f} s", flush=True)


def main(words):
    def wanted(name):
        return not words or any(word in name for word in words)

    if not DATA.is_dir():
        sys.exit(f"No data in {DATA}; set MERCER_DATA to the folder of the data sets.")
    last = None
    for read, kernel in split_rows():
        if wanted(read.__name__):
            if read is not last:
                data, last = read(), read
                print(f"{read.__name__}: {len(data[0])} learnt, {len(data[1])} judged")
            judged(data, kernel)
    if wanted("digits"):
        print("digits: 100 of 2,000 nodes known, the others judged")
        for name, kernel, split in node_rows():
            judged(split, kernel, name)
    if wanted("MUTAG"):
        X, y = molecules()
        print(f"MUTAG: {len(X)} molecules, mean and spread of ten folds")
        folds = StratifiedKFold(10, shuffle=True, random_state=0)
        for kernel in (WeisfeilerLehman(3), ShortestPath(), RandomWalk(0.01)):
            kernel = Normalized(kernel)
            start = time.process_time()
            score = 100 * cross_val_score(SVC(kernel=kernel, C=10.0), X, y, cv=folds)
            seconds = time.process_time() - start
            print(f"  {kernel!r:<70}{score.mean():6.2f} % ± {score.std():.2f}"
                  f"{seconds:7.2f} s")  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
