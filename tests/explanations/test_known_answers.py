"""What experts know of three sets of data comes out on top."""

import gzip
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from mercer import (
    SVC,
    Graph,
    Normalized,
    SubsetTree,
    Subtree,
    Tree,
    WeightedDegree,
    WeisfeilerLehman,
    explain,
)

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).parents[2].parent / "shared" / "data"
)


def lines(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"needs {name} in the folder MERCER_DATA names")
    return gzip.decompress(path.read_bytes()).decode().splitlines()


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


def test_the_atoms_of_nitro_groups_add_the_most():
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
    y = np.array([row["y"] for row in rows])
    machine = SVC(kernel=WeisfeilerLehman(1)).fit(X, y)
    nitro = "depth 1: N(double:O, single:C, single:O)"
    of_group, of_others = [], []
    for explanation, graph in zip(explain(machine, X, n=1000), X, strict=True):
        # Every one of these molecules has such a group, the mutagenic ones more.
        [part] = [part for part in explanation.parts if part.name == nitro]
        carbon = {v for v, atom in enumerate(graph.labels) if atom == "C"}
        group = {v for place in part.places for v in place.items} - carbon
        others = set(range(len(graph.nodes))) - group
        of_group.append(np.mean([explanation.items.get(v, 0.0) for v in group]))
        of_others.append(np.mean([explanation.items.get(v, 0.0) for v in others]))
    assert np.mean(of_group) > 2 * np.mean(of_others) > 0
    assert np.mean(np.array(of_group) > np.array(of_others)) > 0.8


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
