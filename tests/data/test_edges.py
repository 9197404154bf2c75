"""Labels of edges, named attributes, and what graphs may be given as."""

import copy
import pickle
import subprocess
import sys

import naive_graphs as naive
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from naive import gram
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.neighbors import kneighbors_graph

from mercer import (
    SVC,
    Diffusion,
    Graph,
    KernelRidge,
    MatrixExponential,
    RandomWalk,
    ShortestPath,
    WeisfeilerLehman,
)
from mercer.kernels import graph as paths
from mercer.kernels import routes

few = settings(max_examples=25, deadline=None)
KERNELS = [WeisfeilerLehman(3), ShortestPath(), RandomWalk(0.02)]
on_kernels = pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
labelled_graphs = st.lists(
    strategies.graphs(most=5, edge_labels=["-", "=", 2]), min_size=1, max_size=4
)

# C-C=O and C=C-O, as they are drawn
KETONE = Graph([(0, 1), (1, 2)], "CCO", edge_labels="-=")
ENOL = Graph([(0, 1), (1, 2)], "CCO", edge_labels="=-")


def matrix(k, graphs):
    return np.reshape(gram(k, graphs), (len(graphs), len(graphs)))


# Against the definitions


@few
@given(labelled_graphs, st.integers(0, 3))
def test_patterns_have_the_labels_of_edges(graphs, iterations):
    kernel = WeisfeilerLehman(iterations)
    expected = matrix(naive.weisfeiler_lehman(iterations), graphs)
    assert_array_equal(kernel(graphs), expected)
    assert_array_equal(kernel(graphs[:2], graphs[1:]), expected[:2, 1:])


@few
@given(
    st.lists(
        strategies.graphs(most=6, weights=(1, 2), edge_labels="ab"),
        min_size=1,
        max_size=4,
    )
)
def test_paths_are_told_apart_by_the_labels_of_their_edges(graphs):
    expected = matrix(naive.shortest_path(), graphs)
    assert_array_equal(ShortestPath()(graphs), expected)
    assert_array_equal(ShortestPath()(graphs[:2], graphs[1:]), expected[:2, 1:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routes, "CHUNK", 8)
        patch.setattr(paths, "CHUNK", 8)
        assert_array_equal(ShortestPath()(graphs), expected)


@few
@given(labelled_graphs)
def test_walks_take_edges_with_equal_labels(graphs):
    kernel = RandomWalk(min(0.05, 0.5 * RandomWalk().bound(graphs)))
    expected = matrix(naive.random_walk(kernel.decay), graphs)
    assert_allclose(kernel(graphs), expected, rtol=1e-11)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mercer.kernels.walk.MOST_ENTRIES", 0)
        assert_allclose(kernel(graphs), expected, rtol=1e-11)


def test_labels_of_edges_raise_the_bound_of_the_random_walk():
    ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert_allclose(RandomWalk().bound([Graph(ring)]), 1 / 4)
    # Along labels that take turns there is one way on for each step of the other.
    turns = Graph(ring, edge_labels="abab")
    assert_allclose(RandomWalk().bound([turns]), 1 / 2)
    RandomWalk(0.49)([turns])
    with pytest.raises(ValueError, match=r"decay < 0.5, the bound of point 0"):
        RandomWalk(0.5)([turns])


# Laws


@on_kernels
def test_edge_labels_are_not_ignored(kernel):
    K = kernel([KETONE, ENOL])
    assert K[0, 1] < K[0, 0]


@on_kernels
@few
@given(st.lists(strategies.graphs(most=6), min_size=1, max_size=4))
def test_one_label_for_all_edges_is_no_label(kernel, graphs):
    decay = min(0.02, 0.5 * RandomWalk().bound(graphs))
    kernel = RandomWalk(decay) if isinstance(kernel, RandomWalk) else kernel
    labelled = [(*graph, ["-"] * len(graph[0])) for graph in graphs]
    assert_allclose(kernel(labelled), kernel(graphs), rtol=1e-12)


@on_kernels
@few
@given(strategies.graphs(most=6, edge_labels="ab"), st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_edges_does_not_matter(kernel, graph, random):
    decay = min(0.02, 0.5 * RandomWalk().bound([graph]))
    kernel = RandomWalk(decay) if isinstance(kernel, RandomWalk) else kernel
    edges, labels, *more = graph
    order = list(range(len(labels)))
    random.shuffle(order)
    rows = list(range(len(edges)))
    random.shuffle(rows)
    other = Graph(
        [(order[edges[r][1]], order[edges[r][0]]) for r in rows],
        {order[i]: label for i, label in enumerate(labels)},
        edge_labels=[more[0][r] for r in rows] if more else None,
    )
    K = kernel([graph, other])
    assert_allclose(K, np.full((2, 2), K[0, 0]), rtol=1e-12)


@on_kernels
def test_a_machine_learns_what_only_edges_tell(kernel):
    rng = np.random.default_rng(0)
    graphs = []
    for i in range(40):
        edges = [(j, j + 1) for j in range(int(rng.integers(3, 7)))]
        word = "".join(rng.permutation(list("=" * (1 + i % 2) + "-" * len(edges))))
        graphs.append((edges, "C" * (len(edges) + 1), word[: len(edges)]))
    target = [sum(c == "=" for c in graph[2]) > 1 for graph in graphs]
    machine = SVC(kernel=kernel, C=100).fit(graphs[:30], target[:30])
    assert machine.score(graphs[30:], target[30:]) >= 0.9


# Graphs are values


def test_edge_labels_belong_to_the_value_of_a_graph():
    assert KETONE != ENOL and KETONE != Graph([(0, 1), (1, 2)], "CCO")
    again = Graph([(2, 1), (1, 0)], "CCO", edge_labels={(2, 1): "=", (0, 1): "-"})
    assert again == KETONE and hash(again) == hash(KETONE)
    assert pickle.loads(pickle.dumps(KETONE)) == KETONE == copy.deepcopy(KETONE)
    assert KETONE.edge_labels == ("-", "=")
    assert repr(KETONE) == "<Graph of 3 nodes and 2 edges, labelled, edges labelled>"


def test_every_path_has_a_name_of_its_own():
    names = ShortestPath().feature_names([KETONE, ENOL, Graph([(0, 1)], "CO")])
    features = ShortestPath().features([KETONE, ENOL, Graph([(0, 1)], "CO")])
    assert len(set(names)) == len(names) == features.shape[1]
    found = dict(zip(names, features.toarray()[0].tolist(), strict=True))
    assert {name for name in found if found[name]} == {
        "C to C in 1: -",
        "C to O in 1: =",
        "O to C in 1: =",
        "C to O in 2: - =",
        "O to C in 2: = -",
    }
    assert found["C to C in 1: -"] == 2 and "C to O in 1" in names
    patterns = WeisfeilerLehman(1).feature_names([KETONE])
    assert "depth 1: C(-:C, =:O)" in patterns


def test_paths_without_number_are_refused(monkeypatch):
    monkeypatch.setattr(routes, "MOST_ROUTES", 50)
    grid = nx.grid_2d_graph(6, 6)
    for i, (u, v) in enumerate(grid.edges()):
        grid.edges[u, v]["label"] = i
    with pytest.raises(ValueError, match="more than 50 such sequences"):
        ShortestPath()([grid])


# Named attributes


def molecule(symbol="symbol", bond="bond"):
    graph = nx.Graph()
    graph.add_nodes_from([(0, {symbol: "C"}), (1, {symbol: "C"}), (2, {symbol: "O"})])
    graph.add_edges_from([(0, 1, {bond: "-"}), (1, 2, {bond: "="})])
    return graph


@on_kernels
def test_labels_are_read_from_named_attributes(kernel):
    named = copy.copy(kernel).set_params(label="symbol", edge_label="bond")
    expected = kernel.value(KETONE, KETONE)
    assert_allclose(named.value(molecule(), KETONE), expected, rtol=1e-13)
    assert_allclose(kernel.value(molecule("label", "label"), KETONE), expected)
    read = Graph.from_networkx(molecule(), label="symbol", edge_label="bond")
    assert read == KETONE
    assert Graph.of(molecule()) == Graph(KETONE.ends)


@on_kernels
def test_an_attribute_that_is_not_there_is_refused(kernel):
    for name, message in (
        ("label", "the nodes of this graph have only 'symbol'"),
        ("edge_label", "the edges of this graph have only 'bond'"),
    ):
        named = copy.copy(kernel).set_params(**{name: "element"})
        with pytest.raises(ValueError, match=message) as caught:
            named([KETONE, molecule()])
        assert caught.value.__notes__ == ["This is point 1."]
        with pytest.raises(ValueError, match=f"{name}=3"):
            copy.copy(kernel).set_params(**{name: 3})


# Matrices and lists


def test_a_matrix_is_a_graph():
    A = np.array([[0, 2.0, 0], [2.0, 1.0, 0.5], [0, 0.5, 0]])
    expected = Graph([(0, 1, 2.0), (1, 1), (1, 2, 0.5)])
    forms = [A, sp.csr_array(A), sp.csc_matrix(A), sp.coo_array(A), sp.lil_array(A)]
    forms += [sp.dok_array(A), sp.dia_array(A), sp.bsr_array(A), A.astype(np.float32)]
    forms += [[(0, 1, 2.0), (1, 1), (1, 2, 0.5)], np.asfortranarray(A)]
    for form in forms:
        assert Graph.of(form) == expected
    assert Graph.of(A != 0) == Graph([(0, 1), (1, 1), (1, 2)])
    named = Graph.from_adjacency(A, "xyz", nodes="abc", edge_labels={
        ("a", "b"): 1, ("b", "b"): 2, ("c", "b"): 3})  # fmt: skip
    assert named.nodes == ("a", "b", "c") and named.edge_labels == (1, 2, 3)
    assert Graph.of((sp.csr_array(A), "xyz")).labels == ("x", "y", "z")
    four = np.roll(np.eye(4), 1, axis=0)
    assert Graph.of((four + four.T, "abcd")) == Graph(
        [(0, 1), (1, 2), (2, 3), (3, 0)], "abcd"
    )


def test_matrices_without_nodes_or_edges_are_graphs():
    assert len(Graph.of(np.zeros((0, 0))).nodes) == 0
    assert Graph.of(sp.csr_array((3, 3))) == Graph([], nodes=range(3))
    assert Graph.of([]) == Graph([])


def test_stored_zeros_are_no_edges_and_duplicates_add_up():
    entries = ([1.0, 0.0, 1.0, 2.0], ([0, 1, 0, 1], [1, 2, 1, 0]))
    assert Graph.of(sp.coo_array(entries, shape=(3, 3))) == Graph(
        [(0, 1, 2.0)], nodes=range(3)
    )


@pytest.mark.parametrize("mode", ["connectivity", "distance"])
def test_what_kneighbors_graph_returns_is_a_graph(mode):
    X = np.random.default_rng(0).normal(size=(40, 2))
    A = kneighbors_graph(X, 3, mode=mode)
    expected = A.maximum(A.T)
    graph = Graph.of(A)
    assert_allclose(graph.adjacency().toarray(), expected.toarray(), rtol=1e-9)
    nodes = np.arange(40)
    assert_array_equal(Diffusion(A)(nodes), Diffusion(expected)(nodes))
    machine = KernelRidge(kernel=Diffusion(A)).fit(nodes[:30], X[:30, 0])
    assert np.isfinite(machine.predict(nodes)).all()


@on_kernels
def test_lists_of_matrices_and_of_edges_are_graphs(kernel):
    lists = [[(0, 1), (1, 2)], [(0, 1), (1, 2), (2, 0)], [(0, 1)], []]
    matrices = [Graph(edges).adjacency() for edges in lists]
    expected = kernel([Graph(edges) for edges in lists])
    for points in (lists, matrices, [A.toarray() for A in matrices]):
        assert_array_equal(kernel(points), expected)
    stack = np.stack([np.ones((3, 3)) - np.eye(3), np.eye(3)])
    assert_array_equal(kernel(stack), kernel(list(map(Graph.of, stack))))
    machine = SVC(kernel=kernel).fit(matrices, [0, 1, 0, 1])
    assert_array_equal(machine.predict(lists), machine.predict(matrices))


@looped("kind", [Diffusion, MatrixExponential])
@looped("form", [sp.csr_array, np.array])
def test_a_kernel_on_nodes_owns_its_graph(kind, form):
    A = form(np.ones((4, 4)) - np.eye(4))
    kernel, expected = kind(A), kind(A.copy())([0, 1])
    A *= 5
    for own in (kernel, copy.copy(kernel), pickle.loads(pickle.dumps(kernel))):
        assert_array_equal(own([0, 1]), expected)


BAD = [
    (np.ones((2, 4)), ValueError, r"square .* shape \(2, 4\).*\[A\]"),
    (np.ones((5, 2), dtype=int), ValueError, r"shape \(5, 2\).*edges.tolist\(\)"),
    (sp.csr_array((1, 5)), ValueError, r"square .* shape \(1, 5\)"),
    (np.full((2, 2), np.nan), ValueError, r"entry \(0, 0\) is nan"),
    (np.array([[0, np.inf], [np.inf, 0]]), ValueError, r"\(0, 1\) is inf"),
    (np.array([[0, -1.0], [-1.0, 0]]), ValueError, r"entry \(0, 1\) is -1.0"),
    (np.array([[0, 1], [2, 0]]), ValueError, "weights 1 and 2 between the nodes 0"),
    (np.ones((2, 2), dtype=complex), TypeError, "dtype complex128"),
    (np.array([["a", "b"], ["b", "a"]]), TypeError, "real numbers"),
    (np.ma.masked_equal(np.eye(4), 1), ValueError, "some are masked"),
    (np.ones(3), TypeError, r"point 0 is an array of shape \(3,\)"),
    (["ab", "bc"], TypeError, "point 0 is a list"),
    ([1, 2], TypeError, r"An edge is a pair .* got an int \(1\)"),
    ([(0, 1, float("nan"))], ValueError, "finite number > 0"),
    ((np.ones((3, 3)), "abc"), ValueError, "may be 3 edges or the weights"),
    (([(0, 1)], "ab", []), ValueError, "got 0 labels for 1 edges"),
    (([(0, 1)], "ab", {(0, 0): 1}), ValueError, "between 0 and 0, which the graph"),
    (([(0, 1)], "ab", {(0, 7): 1}), ValueError, "between 0 and 7, which the graph"),
    (([(0, 1)], "ab", {}), ValueError, "the edge between 0 and 1 has none"),
    (([(0, 1)], "ab", [None]), ValueError, "the edge between 0 and 1 has none"),
    (([(0, 1), (1, 0)], "ab", "xy"), ValueError, "twice, with the labels 'x' and 'y'"),
    (([(0, 1)], "ab", [[1]]), TypeError, "edge labels of a graph must be hashable"),
    ((sp.eye_array(4), "abcd", "wxyz"), TypeError, "have no order"),
    ((sp.eye_array(4), "abc"), ValueError, "got 3 labels for 4 nodes"),
]


@looped("bad, kind, message", BAD)
def test_bad_graphs_are_refused_in_our_words(bad, kind, message):
    for kernel in KERNELS:
        with pytest.raises(kind, match=message):
            kernel([bad])
    with pytest.raises(kind, match=message.replace("point 0", "the graph")):
        Diffusion(bad)


DAMAGED = """
import numpy as np, scipy.sparse as sp, mercer
A = sp.csr_array(np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0))
B = sp.bsr_array(np.eye(4), blocksize=(2, 2))
kernels = [mercer.WeisfeilerLehman(2), mercer.ShortestPath(), mercer.RandomWalk()]
calls = [lambda A, k=k: k([A]) for k in kernels]
calls += [mercer.Diffusion, mercer.MatrixExponential, mercer.Graph.from_adjacency]
bad = []
for name in ("indptr", "indices"):
    for at, number in ((1, 10**8), (-1, 10**7), (0, 7), (0, -3), (2, 10**6)):
        for form in (A, A.tocsc(), B):
            damaged = form.copy()
            getattr(damaged, name)[at if form is not B else at % 2] = number
            bad.append(damaged)
short = A.copy(); short.indices = short.indices[:3]; bad.append(short)
thin = A.copy(); thin.data = thin.data[:3]; bad.append(thin)
for row in (0, 1):
    damaged = A.tocoo(); damaged.coords[row][0] = 10**6; bad.append(damaged)
for matrix in bad:
    for call in calls:
        try:
            call(matrix)
        except ValueError as error:
            assert "damaged" in str(error), error
        else:
            raise SystemExit(f"passed unseen: {matrix.format} {matrix.indices}")
print(len(bad))
"""


def test_damaged_matrices_are_refused_before_they_are_touched():
    run = subprocess.run(
        [sys.executable, "-c", DAMAGED], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert int(run.stdout) >= 30


def test_what_is_no_matrix_is_refused():
    for bad in (Graph([(0, 1)]), [(0, 1)], nx.path_graph(3), "ab", None):
        with pytest.raises(TypeError, match=r"graph.adjacency\(\), or use Diffusion"):
            MatrixExponential(bad)
    with pytest.raises(TypeError, match=r"Graph.from_adjacency reads"):
        Graph(sp.eye_array(3))
    with pytest.raises(TypeError, match=r"Graph.from_adjacency reads"):
        Graph(np.eye(4))
    with pytest.raises(TypeError, match=r"Lists of edges are for Graph\(edges\)"):
        Graph.from_adjacency([(0, 1)])
    with pytest.raises(ValueError, match="has 3 nodes; got 2 names"):
        Graph.from_adjacency(np.eye(3), nodes="ab")
