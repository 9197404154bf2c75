"""Sequences, strings, trees, graphs and molecules: read, and refused with the place."""

import io
import os
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest
from looped import looped

from mercer import Diffusion, Graph, Tree
from mercer.io import (
    from_networkx,
    from_smiles,
    read,
    read_edges,
    read_fasta,
    read_fastq,
    read_smiles,
    read_strings,
    read_trees,
    read_tu,
)

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2].parent / "shared" / "data"
)


@pytest.fixture
def written(tmp_path):
    """Writes a file, and returns its path."""

    def write(text, name="data.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def data_file(name):
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not in MERCER_DATA")
    return DATA / name


# Sequences


def test_fasta_labels_come_from_headers_or_a_table(written, tmp_path):
    path = written(">a|x c=1\nAC\nGT\n\n>b|y c=0\nac-*\n", "s.fa")
    table = written("a|x\tfirst\nb|y\tsecond\n", "labels.tsv")
    by_header, by_table = read(path, r"c=(\d)"), read(path, str(table))
    assert by_header.points == by_table.points == ["ACGT", "ac-*"]
    assert by_header.target.tolist() == [1, 0]
    assert by_table.target.tolist() == ["first", "second"]
    assert by_table.names == ("a|x", "b|y") and by_table.kind == "sequences"


def test_fastq_is_read_in_one_line_or_several(written):
    data = read(written("@r1 x\nACGT\n+\n@+II\n@r2\nAC\nGT\n+r2\nII\nII\n", "r.fq"))
    assert data.points == ["ACGT", "ACGT"] and data.names == ("r1", "r2")


@looped(
    "reader, text, reason",
    [
        (read_fasta, "ACGT\n", "line 1, column 1: a sequence before its header"),
        (read_fasta, ">a\nAC1T\n", "line 2, column 3: '1' is no letter"),
        (read_fasta, ">a\n>b\nAC\n", "line 1: a header without a sequence"),
        (read_fasta, ">a\nAC\n>b\n", "line 3: a header without a sequence"),
        (read_fasta, "", "has no sequences"),
        (read_fastq, "r1\nAC\n+\nII\n", "line 1, column 1: 'r1' where a header"),
        (read_fastq, "@r1\nAC\n", "line 1: the file ends before"),
        (read_fastq, "@r1\nAC\n+\nI\n", "line 4: 1 qualities for 2 letters"),
        (read_fastq, "@r1\nAC\n+\nIII\n", "line 4: 3 qualities for 2 letters"),
        (read_fastq, "@r1\nAC\n+\nI\u00e9\n", "line 4, column 2: .* is no quality"),
        (read_fastq, "@r1\nA?\n+\nII\n", "line 2, column 2: '[?]' is no letter"),
    ],
)
def test_malformed_sequences_are_refused_with_their_place(
    written, reader, text, reason
):
    path = written(text)
    with pytest.raises(ValueError, match=reason) as caught:
        reader(path)
    assert str(caught.value).startswith(str(path))


def test_labels_that_are_not_there_are_named(written):
    path = written(">a c=1\nAC\n>b\nAC\n")
    with pytest.raises(ValueError, match="line 3: 'b' has no match"):
        read_fasta(path, r"c=(\d)")
    with pytest.raises(ValueError, match="line 3: the labels have none for 'b'"):
        read_fasta(path, labels={"a": "x"})
    for pattern in ("c=", "c=(", "(c)(=)"):
        with pytest.raises(ValueError, match=r"group|regular expression"):
            read_fasta(path, pattern)


def test_strings_have_labels_by_column_or_by_pattern(written):
    path = written("yes\tgood one\nno\tbad\tone\n".replace("bad\t", "bad "))
    assert read_strings(path).points[0] == "yes\tgood one"
    data = read_strings(path, 0)
    assert data.points == ["good one", "bad one"]
    assert data.target.tolist() == ["yes", "no"]
    assert read_strings(path, r"(\w)\w*\t").target.tolist() == ["y", "n"]
    with pytest.raises(ValueError, match=r"line 2: .* does not begin"):
        read_strings(path, "(yes)")
    with pytest.raises(ValueError, match="line 2: 3 cells"):
        read_strings(written("a\tb\na\tb\tc\n"), 0)
    with pytest.raises(ValueError, match="line 2: the line is empty"):
        read_strings(written("a\n\nb\n"))


# Trees


def test_trees_run_over_lines_and_lose_the_label_that_is_the_target(written):
    path = written("(1 (2 a)\n  (3 b))\n\n(0 (x \\( ))\n")
    assert read(path).points == [Tree("(1 (2 a) (3 b))"), Tree("(0 (x \\())")]
    data = read(path, "root")
    assert data.target.tolist() == [1, 0] and data.points[0].label == "ROOT"
    assert data.points[0].labels[1:] == ("2", "a", "3", "b")
    labelled = read_trees(written("yes\t(a b)\nno\t(c)\n"), 0)
    assert labelled.target.tolist() == ["yes", "no"]


@looped(
    "text, target, reason",
    [
        ("(a b\n(c d)\n", None, "line 1: 1 brackets are never closed"),
        ("(a b)\n(c d))\n", None, "line 2: A bracket closes that was not opened"),
        ("(a b) c\n", None, "line 1: The tree ended before this"),
        ("(a b)\nword\n", None, "line 2: 'word' is no tree"),
        ("(a b)\n", 0, "line 1: no tab after a label"),
        ("\n\n", None, "has no trees"),
    ],
)
def test_malformed_trees_are_refused_with_their_line(written, text, target, reason):
    with pytest.raises(ValueError, match=reason):
        read_trees(written(text), target)


# Graphs


TU = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "1\n-1\n",
    "node_labels": "0\n1\n0\n2\n2\n",
    "edge_labels": "7\n7\n8\n8\n7\n7\n",
}


def tu_folder(tmp_path, **changes):
    folder = tmp_path / "TOY"
    folder.mkdir(exist_ok=True)
    for name, text in {**TU, **changes}.items():
        (folder / f"TOY_{name}.txt").write_text(text)
    return folder


def test_a_tu_folder_and_its_zip_give_the_same_graphs(tmp_path):
    folder = tu_folder(tmp_path)
    with zipfile.ZipFile(tmp_path / "TOY.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"TOY/{path.name}")
    expected = [
        Graph([(0, 1), (1, 2)], [0, 1, 0], edge_labels=[7, 8]),
        Graph([(0, 1)], [2, 2], edge_labels=[7]),
    ]
    for path in (folder, tmp_path / "TOY.zip"):
        data = read(path)
        assert data.points == expected and data.target.tolist() == [1, -1]


@looped(
    "changes, reason",
    [
        ({"A": "1, 2\n2; 1\n"}, "TOY_A.txt, line 2: '2; 1' is no edge"),
        ({"A": "1, 9\n"}, "TOY_A.txt, line 1: node 9 is not in 1..5"),
        ({"A": "3, 4\n"}, "line 1: nodes 3 and 4 are of two graphs"),
        ({"graph_indicator": "1\n1\n2\n1\n2\n"}, "indicator.txt, line 4: graphs are"),
        ({"graph_indicator": "1\nx\n1\n2\n2\n"}, "indicator.txt, line 2: 'x' is no"),
        ({"graph_indicator": ""}, "graph_labels.txt: 2 lines for 0 graphs"),
        ({"graph_indicator": f"{10**17}\n"}, f"2 lines for {10**17} graphs"),
        ({"graph_labels": "1\n"}, "graph_labels.txt: 1 lines for 2 graphs"),
        ({"node_labels": "1\n"}, "node_labels.txt: 1 lines for 5 nodes"),
        ({"edge_labels": "7\n8\n8\n8\n7\n7\n"}, "graph 1: The edge between"),
    ],
)
def test_a_malformed_tu_folder_is_refused_with_its_place(tmp_path, changes, reason):
    with pytest.raises(ValueError, match=reason):
        read_tu(tu_folder(tmp_path, **changes))


ATTRIBUTES = {"node_attributes": "1, 2\n" * 5, "edge_attributes": "0.5\n" * 6}


def test_attributes_of_a_tu_folder_are_named_or_part_of_the_labels(tmp_path):
    folder = tu_folder(tmp_path, **ATTRIBUTES)
    with pytest.warns(UserWarning, match="is not used") as warned:
        data = read_tu(folder)
    names = ["TOY_node_attributes.txt", "TOY_edge_attributes.txt"]
    assert [str(w.message).split()[0] for w in warned] == names
    assert list(data.notes) == [f"{name} was not used" for name in names]
    expected = Graph([(0, 1)], [(2, 1.0, 2.0)] * 2, edge_labels=[(7, 0.5)])
    read_with = read_tu(folder, attributes=True)
    assert read_with.points[1] == expected and not read_with.notes
    for name in ("node_labels", "edge_labels"):
        (folder / f"TOY_{name}.txt").unlink()
    bare = Graph([(0, 1)], [(1.0, 2.0)] * 2, edge_labels=[(0.5,)])
    assert read_tu(folder, attributes=True).points[1] == bare


@looped(
    "ending, text, reason",
    [
        ("node", "1, 2\n" * 4, "node_attributes.txt: 4 lines for 5 nodes"),
        ("node", "1, 2\n" * 3 + "1, x\n1, 2\n", "line 4, column 2: 'x' is no finite"),
        ("node", "1, 2\n" * 4 + "1\n", "line 5: 1 numbers, where line 1 has 2"),
        ("edge", "nan\n" * 6, "edge_attributes.txt, line 1, column 1: 'nan' is no"),
    ],
)
def test_malformed_attributes_are_refused_with_their_place(
    tmp_path, ending, text, reason
):
    folder = tu_folder(tmp_path, **{**ATTRIBUTES, f"{ending}_attributes": text})
    with pytest.raises(ValueError, match=reason):
        read_tu(folder, attributes=True)


def test_a_damaged_zip_of_graphs_is_refused_by_name(tmp_path):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for path in tu_folder(tmp_path).iterdir():
            archive.write(path, f"TOY/{path.name}")
    good, rng = bytearray(whole.getvalue()), random.Random(0)
    for number in range(120):
        bad = bytearray(good)
        for _ in range(1 + number % 4):
            bad[-rng.randrange(1, 500)] = rng.randrange(256)  # where its index is
        (tmp_path / "bad.zip").write_bytes(bad)
        try:
            read_tu(tmp_path / "bad.zip")
        except ValueError as error:
            assert "bad.zip" in str(error)


def test_the_molecules_of_mutag_are_read_from_their_zip():
    data = read(data_file("MUTAG_tu.zip"))
    assert len(data) == 188 and np.sum(data.target == 1) == 125
    sizes = [len(graph.nodes) for graph in data.points]
    np.testing.assert_allclose(np.mean(sizes), 17.93, atol=0.005)


def test_nodes_of_an_edge_list_are_points_with_a_kernel(written):
    path = written("# friends\na b\nb,c,2.5\n", "f.edges")
    data = read(path, str(written("a,x\nc,y\n", "l.csv")))
    assert data.points == ["a", "c"] and data.target.tolist() == ["x", "y"]
    assert data.kernel == Diffusion(Graph([("a", "b"), ("b", "c", 2.5)]))
    assert read_edges(path).points == ["a", "b", "c"]


@looped(
    "text, reason",
    [
        ("a b\na\n", "line 2: 'a' is no edge"),
        ("a b -1\n", "line 1, column 3: the weight '-1' is no number > 0"),
        ("a b nan\n", "line 1, column 3"),
        ("a b 1\nb a 2\n", "given twice"),
        ("# nothing\n", "has no edges"),
    ],
)
def test_malformed_edges_are_refused(written, text, reason):
    with pytest.raises(ValueError, match=reason):
        read_edges(written(text))


def test_graphs_of_networkx_are_points():
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    ring = networkx.cycle_graph(4)
    ring.graph["kind"] = "ring"
    data = from_networkx([ring], "kind")
    assert data.target.tolist() == ["ring"]
    assert data.points == [Graph([(0, 1), (1, 2), (2, 3), (3, 0)])]
    with pytest.raises(ValueError, match="Graph 0 has no attribute 'other'"):
        from_networkx([ring], "other")


def test_smiles_are_labelled_graphs(written):
    pytest.importorskip("rdkit", reason="rdkit is not installed")
    [ethanol] = from_smiles(["CCO"])
    kinds = ["single", "single"]
    assert ethanol == Graph([(0, 1), (1, 2)], ["C", "C", "O"], edge_labels=kinds)
    assert len(from_smiles(["C"], hydrogens=True)[0].nodes) == 5
    path = written("CCO\tyes\nC(C\tno\n", "m.smi")
    with pytest.raises(ValueError, match=r"line 2: RDKit does not read 'C.C'"):
        read(path, 1)
    data = read_smiles(path, 1, invalid="drop")
    assert len(data) == 1 and "1 lines" in data.notes[0]


# Which format


@looped(
    "text, kind",
    [
        (">a\nAC\n", "sequences"),
        ("@a\nAC\n+\nII\n", "sequences"),
        ("(a b)\n", "trees"),
        ("a b\n1 2\n", "numbers"),
        ("+1 1:0.5 7:2 # first\n-1\n-1 2:1\n", "numbers"),
        ("1,2\n", "numbers"),
    ],
)
def test_the_format_is_told_by_the_first_lines(written, text, kind):
    assert read(written(text, "unnamed")).kind == kind


def test_an_unknown_kind_and_a_missing_file_are_refused(written, tmp_path):
    with pytest.raises(ValueError, match="kind is one of"):
        read(written("1,2\n"), kind="excel")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nothing.csv")
    with pytest.raises(ValueError, match="is empty"):
        read(written("\n", "unnamed"))


def test_damaged_structures_are_errors_with_the_file_or_points(written, tmp_path):
    rng = random.Random(1)
    cases = [
        (read_fasta, ">a c=1\nACGT\nAC\n>b c=2\nGGT\n"),
        (read_fastq, "@r1\nACGT\n+\nIIII\n@r2\nAC\n+\nII\n"),
        (read_trees, "(S (NP (D a)) (VP b))\n(S c)\n"),
        (read_edges, "a b 2\nb c 3\nc d\n"),
    ]
    letters = [*"()>@+ \n\t\0\\12aé", "\r\n"]
    for _ in range(100):
        for reader, good in cases:
            text = list(good)
            for _ in range(rng.randrange(1, 4)):
                at = rng.randrange(len(text))
                text[at : at + rng.randrange(2)] = rng.choice(letters)
            path = written("".join(text))
            try:
                data = reader(path)
            except ValueError as error:
                assert str(error).startswith(str(path)), error
            else:
                assert len(data) > 0
