"""Real data: parts add up, and what experts know of three sets comes out on top."""

import gzip
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from mercer import (
    RBF,
    SVC,
    Centered,
    GaussianProcessClassifier,
    Graph,
    KernelLogisticRegression,
    KernelPCA,
    KernelRidge,
    Mismatch,
    Normalized,
    Nystrom,
    On,
    OneClassSVM,
    PartialTree,
    Polynomial,
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
    explain,
)
from mercer.contributions.features import has_features
from mercer.contributions.shapley import has_coordinates
from mercer.explanations.explanation import parts_of
from mercer.explanations.items import has_items

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).parents[2].parent / "shared" / "data"
)


def path_of(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"needs {name} in the folder MERCER_DATA names")
    return path


def lines(name):
    return gzip.decompress(path_of(name).read_bytes()).decode().splitlines()


@pytest.fixture(scope="module")
def splice():
    rows = [line.split("\t") for line in lines("splice_junction.tsv.gz")]
    chosen = np.random.default_rng(0).permutation(len(rows))[:600]
    X = [rows[i][2].strip() for i in chosen]
    return X, np.array([rows[i][0] for i in chosen])


def test_introns_begin_with_gt_and_end_with_ag(splice):
    X, y = splice
    machine = SVC(kernel=Normalized(WeightedDegree(3)), multiclass="ovr").fit(X, y)
    top = machine.top_features(1)
    [donor], [acceptor] = (top.of(f"{kind} against the rest") for kind in ("EI", "IE"))
    # The junction is between the letters 29 and 30.
    assert donor.name == "'GT' at 30" and donor.weight > 0
    assert acceptor.name == "'AG' at 28" and acceptor.weight > 0


def test_the_letters_at_the_junction_add_the_most(splice):
    X, y = splice
    machine = SVC(kernel=WeightedDegree(3), multiclass="ovr").fit(X, y)
    for kind, letters in (("EI", {30, 31}), ("IE", {28, 29})):
        some = [x for x, known in zip(X, y, strict=True) if known == kind][:40]
        found = explain(machine, some, output=f"{kind} against the rest")
        items = [max(one.items, key=one.items.get) for one in found if one.total > 0.5]
        assert len(items) > 30
        assert np.mean([item in letters for item in items]) > 0.9


@pytest.fixture(scope="module")
def molecules():
    rows = [json.loads(line) for line in lines("graphs_MUTAG.jsonl.gz")]
    atoms = ["C", "N", "O", "F", "I", "Cl", "Br"]
    bonds = ["aromatic", "single", "double", "triple"]
    X = [
        Graph(
            row["edges"],
            [atoms[i] for i in row["node_labels"]],
            edge_labels=[bonds[i] for i in row["edge_labels"]],
        )
        for row in rows
    ]
    return X, np.array([row["y"] for row in rows])


def nitro_groups(graph):
    """The atoms N and O of all groups -NO2."""
    beside = [set() for _ in graph.nodes]
    for u, v in graph.ends.tolist():
        beside[u].add(v)
        beside[v].add(u)
    group = set()
    for v, atom in enumerate(graph.labels):
        ends = {u for u in beside[v] if graph.labels[u] == "O" and len(beside[u]) == 1}
        group |= {v, *ends} if atom == "N" and len(ends) == 2 else set()
    return group


def test_the_atoms_of_nitro_groups_add_the_most(molecules):
    X, y = molecules
    machine = SVC(kernel=WeisfeilerLehman(1)).fit(X, y)
    of_group, of_others = [], []
    for explanation, graph in zip(explain(machine, X, n=1000), X, strict=True):
        # Every one of these molecules has such a group, the mutagenic ones more.
        group = nitro_groups(graph)
        others = set(range(len(graph.nodes))) - group
        of_group.append(np.mean([explanation.items.get(v, 0.0) for v in group]))
        of_others.append(np.mean([explanation.items.get(v, 0.0) for v in others]))
    assert np.mean(of_group) > 2 * np.mean(of_others) > 0
    assert np.mean(np.array(of_group) > np.array(of_others)) > 0.8


def test_what_makes_a_molecule_mutagenic_is_an_atom_of_its_nitro_group(molecules):
    X, y = molecules
    kernel = Normalized(WeisfeilerLehman(1))
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    search = GridSearchCV(
        SVC(kernel="precomputed"), {"C": [1, 10, 100, 1000]}, cv=folds
    )
    C = search.fit(kernel(X), y).best_params_["C"]
    machine = SVC(kernel=kernel, C=C).fit(X, y)
    some = [i for i in np.flatnonzero(y) if machine.decision_function([X[i]])[0] > 0]
    assert len(some) > 100
    found = explain(machine, [X[i] for i in some], by="items", n=3)
    first = [one.parts[0] for one in found]
    groups = [nitro_groups(X[i]) for i in some]
    hits = [
        part.places[0].items[0] in group
        for part, group in zip(first, groups, strict=True)
    ]
    assert np.mean(hits) > 0.85
    assert np.mean([part.value > 0 for part in first]) > 0.95
    assert all(abs(one.bias) < 1e-12 for one in found)  # f(x) is shared out whole


def test_words_of_praise_and_blame_are_the_heaviest_subtrees():
    trees = [
        line
        for line in lines("sst_trees_train.txt.gz")
        if line[1] != "2" and len(re.findall(r"[^()\s]\)", line)) <= 20
    ]
    chosen = np.random.default_rng(0).permutation(len(trees))[:1500]
    y = np.array([int(trees[i][1]) > 2 for i in chosen])
    # The labels of phrases are what is to be learnt: all the same, they tell nothing.
    X = [Tree(re.sub(r"\(\d ", "(X ", trees[i])) for i in chosen]
    machine = SVC(kernel=Normalized(Subtree(0.4)), C=3.0).fit(X, y)
    top = machine.top_features(40)
    good = {row.name for row in top if row.weight > 0}
    bad = {row.name for row in top if row.weight < 0}
    assert good >= {"(X best)", "(X love)", "(X funny)"}
    assert bad >= {"(X bad)", "(X worst)", "(X n't)"}
    fragments = SVC(kernel=Normalized(SubsetTree(0.1)), C=3.0).fit(X, y)
    [explanation] = explain(fragments, ["(X (X a) (X (X bad) (X movie)))"])
    assert explanation.items[6] < 0  # bad


# Parts add up


def machines(kernel):
    return [
        SVC(kernel=kernel, C=10),
        KernelRidge(alpha=0.1, kernel=kernel),
        GaussianProcessClassifier(1.0 * kernel, optimizer=None),
        KernelLogisticRegression(kernel=kernel),
        OneClassSVM(kernel=kernel, nu=0.3),
        KernelPCA(2, kernel=kernel),
    ]


def assert_add_up(kernel, X, y, new):
    """To 1e-9 of the size of the parts, for every machine and in every way."""
    for machine in machines(kernel):
        machine.fit(X, y)
        f = machine.expansion_
        values = np.ravel(f(new))
        known = f.kernel
        ways = ["features"] * has_features(known) + ["terms", "points"]
        ways += ["items"] * (has_features(known) and has_items(known))
        ways += ["coordinates"] * has_coordinates(known)
        for by in (None, *ways):
            found = parts_of(explain(machine, new, by=by, n=7))
            for one, value in zip(found, values, strict=True):
                parts = [part.value for part in one.parts]
                off = 1e-9 * (1 + np.abs(parts).sum())
                assert_allclose(one.bias + sum(parts), value, rtol=0, atol=off)
                assert_allclose(one.total, value, rtol=0, atol=off)


@pytest.mark.parametrize(
    "kernel",
    [
        Spectrum(3),
        Mismatch(3, 1, "ACGTNDRS"),
        Normalized(Subsequence(3, 0.5)),
        WeightedDegree(4) + Normalized(WeightedSubstrings(0.5)),
        Spectrum(2) * WeightedDegree(1),
        Centered(Spectrum(2)),
    ],
    ids=repr,
)
def test_parts_of_dna_add_up(splice, kernel):
    X, y = splice
    codes = np.unique(y, return_inverse=True)[1]
    assert_add_up(kernel, X[:120], codes[:120], X[200:202])


@pytest.mark.parametrize(
    "kernel",
    [
        WeisfeilerLehman(3),
        Normalized(ShortestPath()),
        0.5 * Normalized(WeisfeilerLehman(1)) + ShortestPath(),
    ],
    ids=repr,
)
def test_parts_of_molecules_add_up(molecules, kernel):
    X, y = molecules
    assert_add_up(kernel, X[:120], y[:120], X[150:152])


@pytest.mark.parametrize(
    "kernel",
    [
        SubsetTree(0.5),
        Normalized(SubsetTree(1.0, leaves=True)),
        Normalized(Subtree(0.5)) + TaggedTree(Spectrum(2)),
        Normalized(PartialTree(0.4, 0.4)),
    ],
    ids=repr,
)
def test_parts_of_sentences_add_up(kernel):
    some = [line for line in lines("sst_trees_dev.txt.gz") if len(line) < 120]
    y = np.array([int(line[1]) > 2 for line in some])
    X = [Tree(re.sub(r"\(\d ", "(X ", line)) for line in some[:62]]
    assert_add_up(kernel, X[:60], y[:60], X[60:])


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(0.1),
        Polynomial(3),
        RBF(0.1) * RBF(0.01) + 0.5 * Polynomial(2),
        On([0, 1, 2], RBF(5.0)) + On([3, 4], Polynomial(2)),
        Nystrom(RBF(0.1), 30, seed=0),
    ],
    ids=repr,
)
def test_parts_of_measures_add_up(kernel):
    with np.load(path_of("abalone.npz")) as found:
        X, y = found["X"][:202].astype(float), found["y"][:202]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    assert_add_up(kernel, X[:200], np.digitize(y[:200], [8, 11]), X[200:])
