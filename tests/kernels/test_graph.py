"""Graphs, and the kernels that compare a graph with a graph."""

import copy
import gzip
import json
import os
import pickle
from pathlib import Path

import naive_graphs as naive
import numpy as np
import pandas as pd
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from naive import gram, normalized
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV

from mercer import (
    SVC,
    Graph,
    Normalized,
    On,
    RandomWalk,
    ShortestPath,
    WeisfeilerLehman,
)
from mercer.kernels import graph as paths
from mercer.kernels.counts import label_ids
from mercer.native.threads import set_threads, threads

few = settings(max_examples=25, deadline=None)
TRIANGLE = Graph([(0, 1), (1, 2), (2, 0)])
PATH = Graph([(0, 1), (1, 2)])


class Networkx:
    """As much of networkx's Graph as is read."""

    def __init__(self, nodes, edges, directed=False, multi=False):
        self._nodes, self._edges = nodes, edges
        self.is_directed, self.is_multigraph = lambda: directed, lambda: multi

    def nodes(self, data=False):
        return list(self._nodes.items()) if data else list(self._nodes)

    def edges(self, data=False, default=None):
        if not data:
            return [(u, v) for u, v, _ in self._edges]
        return [(u, v, d.get(data, default)) for u, v, d in self._edges]


# The container


def test_nodes_come_from_labels_or_edges_or_are_given():
    assert Graph([("x", 2), (2, (3, 4))]).nodes == ("x", 2, (3, 4))
    assert list(Graph([(0, 2)], "abc").nodes) == [0, 1, 2]
    assert Graph([], {"u": 1, "v": 2}).labels == (1, 2)
    assert Graph([(1, 2)], nodes=[3, 2, 1]).nodes == (3, 2, 1)
    assert Graph([("b", "a")], ["B", "A"], nodes="ba").labels == ("B", "A")


def test_an_edge_given_twice_is_one_edge():
    graph = Graph([(0, 1), (1, 0), (1, 1), (0, 1)], nodes=range(3))
    assert_array_equal(graph.ends, [[0, 1], [1, 1]])
    assert_array_equal(graph.adjacency().toarray(), [[0, 1, 0], [1, 1, 0], [0, 0, 0]])
    with pytest.raises(ValueError, match=r"between 1 and 0 .* weights 1 and 2"):
        Graph([(0, 1), (1, 0, 2.0)])


def test_the_laplacian_is_the_sum_of_squared_differences():
    graph = Graph([(0, 1, 2.0), (1, 2, 0.5), (2, 2, 9.0)])
    w = np.array([1.0, -2.0, 4.0])
    assert w @ graph.laplacian() @ w == 2.0 * 3**2 + 0.5 * 6**2


def test_graphs_are_values():
    one = Graph([("a", "b"), ("b", "c", 2)], {"a": 1, "b": 2, "c": 1})
    other = Graph([("c", "b", 2.0), ("b", "a")], {"c": 1, "b": 2, "a": 1})
    assert one == other and hash(one) == hash(other)
    assert one != Graph([("a", "b"), ("b", "c")], {"a": 1, "b": 2, "c": 1})
    assert one != Graph([("a", "b"), ("b", "c", 2)])
    assert one != Graph([("a", "b"), ("b", "c", 2)], {"a": 1, "b": 2, "c": 2})
    assert copy.deepcopy(one) is one and pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(ValueError, match="read-only"):
        one.weights[0] = 3
    assert repr(one) == "<Graph of 3 nodes and 2 edges, labelled>"


def test_networkx_graphs_are_read():
    given = Networkx(
        {"a": {"label": "C"}, "b": {"label": "O"}, "c": {"label": "C"}},
        [("a", "b", {"weight": 2.0}), ("b", "c", {})],
    )
    expected = Graph([("a", "b", 2.0), ("b", "c")], {"a": "C", "b": "O", "c": "C"})
    assert Graph.of(given) == expected
    unweighted = Graph.from_networkx(given, label="none", weight=None)
    assert unweighted == Graph([("a", "b"), ("b", "c")])


def test_networkx_itself_is_read():
    networkx = pytest.importorskip("networkx")
    assert Graph.of(networkx.karate_club_graph()).weights.sum() == 231
    with pytest.raises(ValueError, match="directed"):
        Graph.of(networkx.DiGraph([(0, 1)]))


@looped(
    "make, message",
    [
        (lambda: Graph.of(Networkx({}, [], directed=True)), r"to_undirected\(\)"),
        (lambda: Graph.of(Networkx({}, [], multi=True)), "multigraph"),
        (lambda: Graph.of(Networkx({1: {"label": 2}, 3: {}}, [])), "node 3 has no"),
        (lambda: Graph([(0, 5)], "ab"), "Edge 0 ends in 5, .* none of the 2 nodes"),
        (lambda: Graph([(0, 1, -1.0)]), r"Edge 0 is \(0, 1, -1.0\)"),
        (lambda: Graph([(0, 1, float("nan"))]), "finite number > 0"),
        (lambda: Graph([(0, 1, 1, 1)]), "an edge is"),
        (lambda: Graph([(0, 1, "heavy")]), "finite number > 0"),
        (lambda: Graph([], {"a": 1}, nodes=["a", "b"]), "'b' is among the nodes only"),
        (lambda: Graph([], {"a": 1, "c": 1}, nodes="a"), "'c' is among the labels"),
    ],
)
def test_a_graph_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@looped(
    "make, message",
    [
        (lambda: Graph([3]), r"An edge is a pair .* got an int \(3\)"),
        (lambda: Graph(7), "needs a list of edges"),
        (lambda: Graph([([1], 2)]), "must be hashable"),
        (lambda: Graph([(0, 1)], [[1], [2]]), "labels of a graph must be hashable"),
        (lambda: Graph.of("ab"), "Pass a Graph, a tuple"),
    ],
)
def test_what_is_no_graph_is_refused(make, message):
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize("kernel", [WeisfeilerLehman(), ShortestPath(), RandomWalk()])
def test_the_error_names_the_point(kernel):
    with pytest.raises(TypeError, match=r"point 1 is a float \(1.5\)"):
        kernel([TRIANGLE, 1.5])
    with pytest.raises(ValueError) as caught:
        kernel([TRIANGLE, ([(0, 9)], "ab")])
    assert caught.value.__notes__ == ["This is point 1."]


# Against the definitions


@few
@given(st.lists(strategies.graphs(), max_size=4), st.integers(0, 4))
def test_weisfeiler_lehman_counts_equal_patterns(graphs, iterations):
    kernel = WeisfeilerLehman(iterations)
    expected = np.reshape(
        gram(naive.weisfeiler_lehman(iterations), graphs), (len(graphs),) * 2
    )
    assert_array_equal(kernel(graphs), expected)
    assert_array_equal(kernel(graphs[:2], graphs[1:]), expected[:2, 1:])
    assert_array_equal(kernel.diag(graphs), np.diagonal(expected))


@few
@given(st.lists(strategies.graphs(weights=(1, 1, 2, 0.3, 0.1)), max_size=4))
def test_shortest_path_counts_equal_paths(graphs):
    rounded = [([(i, j, 10 * w) for i, j, w in edges], ls) for edges, ls in graphs]
    expected = np.reshape(gram(naive.shortest_path(), rounded), (len(graphs),) * 2)
    assert_array_equal(ShortestPath()(graphs), expected)
    assert_array_equal(ShortestPath()(graphs[:2], graphs[1:]), expected[:2, 1:])


@few
@given(st.lists(strategies.graphs(most=7), min_size=1, max_size=4))
def test_paths_of_large_graphs_and_of_small_ones_are_found_alike(graphs):
    small = ShortestPath().features(graphs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "MOST_TOGETHER", 0)
        patch.setattr(paths, "CHUNK", 10)
        assert_array_equal(ShortestPath().features(graphs).toarray(), small.toarray())


@few
@given(st.lists(strategies.graphs(most=4, weights=(1, 0.5, 2)), max_size=3))
def test_random_walk_sums_the_geometric_series(graphs):
    kernel = RandomWalk(min(0.05, 0.5 * RandomWalk().bound(graphs)))
    expected = gram(naive.random_walk(kernel.decay), graphs)
    assert_allclose(
        kernel(graphs), np.reshape(expected, (len(graphs),) * 2), rtol=1e-11
    )
    assert_allclose(kernel.diag(graphs), np.diagonal(kernel(graphs)), rtol=1e-12)


def test_random_walk_on_a_triangle_is_a_geometric_series():
    # Every node of the product of two triangles has 4 neighbours.
    assert_allclose(RandomWalk(0.1).value(TRIANGLE, TRIANGLE), 9 / (1 - 0.4))


def test_random_walk_is_summed_in_parts_alike(monkeypatch):
    rng = np.random.default_rng(0)
    graphs = [(rng.integers(6, size=(8, 2)).tolist(), "CCNOOO") for _ in range(5)]
    whole = RandomWalk(0.01)(graphs)
    monkeypatch.setattr("mercer.kernels.walk.MOST_ENTRIES", 0)
    monkeypatch.setattr("mercer.kernels.walk.DENSE", 3)
    assert_allclose(RandomWalk(0.01)(graphs), whole, rtol=1e-12)


@few
@given(st.lists(strategies.graphs(most=7, weights=(1, 0.5, 2)), max_size=4))
def test_random_walk_is_summed_by_spectra_and_by_gradients_alike(graphs):
    graphs = [Graph(edges, nodes=range(len(labels))) for edges, labels in graphs]
    for share in (0.1, 0.99):
        kernel = RandomWalk(min(0.05, share * RandomWalk().bound(graphs)))
        spectral = kernel(graphs)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mercer.kernels.walk.DENSE", -1)
            assert_allclose(kernel(graphs), spectral, rtol=1e-11)
            assert_allclose(kernel.diag(graphs), np.diagonal(spectral), rtol=1e-11)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mercer.kernels.walk.CHUNK", 3)
            assert_allclose(kernel(graphs), spectral, rtol=1e-13)


def test_random_walk_does_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(0)
    graphs = [(rng.integers(9, size=(14, 2)).tolist(), "CCCNNOOOO") for _ in range(40)]
    before, made = threads(), []
    try:
        for count in (1, 3):
            set_threads(count)
            made.append(RandomWalk(0.01)(graphs))
    finally:
        set_threads(before)
    assert_array_equal(*made)


def test_random_walk_leaves_out_no_more_than_it_says(monkeypatch):
    rng = np.random.default_rng(1)
    graphs = [(rng.integers(9, size=(14, 2)).tolist(), "CCCNNOOOO") for _ in range(8)]
    kernel = RandomWalk(0.9 * RandomWalk().bound(graphs))
    exact = kernel(graphs)
    for tolerance in (1e-2, 1e-5, 1e-8):
        monkeypatch.setattr("mercer.kernels.walk.TOLERANCE", tolerance)
        error = exact - kernel(graphs)
        assert error.min() >= -1e-12 * exact.max()  # what is left out is positive
        assert (error <= 1.01 * tolerance * exact).all() and error.max() > 0


# The bound of the random walk


def test_random_walk_refuses_a_decay_past_its_bound_and_names_it():
    assert_allclose(RandomWalk().bound([PATH, TRIANGLE]), 1 / 4)
    RandomWalk(0.24999)([TRIANGLE])
    with pytest.raises(ValueError, match=r"decay < 0.25, the bound of point 1; got"):
        RandomWalk(0.25)([PATH, TRIANGLE])
    with pytest.raises(ValueError, match=r"decay < 0.5, the bound of point 0"):
        RandomWalk(0.5).diag([PATH])


def test_a_sum_that_does_not_settle_is_refused(monkeypatch):
    monkeypatch.setattr("mercer.kernels.walk.MOST_ROUNDS", 1)
    labelled = Graph(PATH.ends, "abb")
    for call in (RandomWalk(0.4), RandomWalk(0.4).diag):
        with pytest.raises(ValueError, match="too near to its bound"):
            call([labelled])


@pytest.mark.parametrize("labels", ["abab", "aaaa"])
def test_random_walk_is_exact_near_to_its_bound(labels):
    ring = Graph([(0, 1), (1, 2), (2, 3), (3, 0)], labels)
    # Every node of the product of the ring with itself has 4 neighbours, 2 for each
    # way round where the labels take turns.
    pairs, degree = (16, 4) if labels == "aaaa" else (8, 4)
    for gap in (1e-3, 1e-6, 1e-9):
        decay = (1 - gap) / degree
        assert_allclose(
            RandomWalk(decay)([ring])[0, 0], pairs / (1 - decay * degree), rtol=1e-6
        )


def test_labels_raise_the_bound_of_the_random_walk():
    # The pairs with equal labels in the triangle C C O, (0, 0), (0, 1), (1, 0), (1, 1)
    # and (2, 2), are joined where both of their nodes are.
    graph = ([(0, 1), (1, 2), (2, 0)], "CCO")
    product = [[0, 0, 0, 1, 1], [0, 0, 1, 0, 1], [0, 1, 0, 0, 1], [1, 0, 0, 0, 1],
               [1, 1, 1, 1, 0]]  # fmt: skip
    highest = np.linalg.eigvalsh(product).max()
    assert_allclose([highest, RandomWalk().bound([graph])], [(1 + 17**0.5) / 2,
                    2 / (1 + 17**0.5)])  # fmt: skip
    assert RandomWalk(0.39)([graph])[0, 0] > 100
    with pytest.raises(ValueError, match=r"decay < 0.390388"):
        RandomWalk(0.3904)([graph])


def test_the_bound_is_infinite_without_edges():
    assert RandomWalk().bound([([], "ab"), ([], "")]) == np.inf
    assert RandomWalk(1e6).value(([], "ab"), ([], "aa")) == 2


def test_the_bound_of_a_large_graph_is_that_of_its_largest_eigenvalue():
    ring = Graph([(i, (i + 1) % 1000) for i in range(1000)])
    assert_allclose(RandomWalk().bound([ring]), 1 / 4, rtol=1e-9)


# Features and their names


@few
@given(st.lists(strategies.graphs(), min_size=1, max_size=3))
def test_every_feature_has_a_name_of_its_own(graphs):
    for kernel in (WeisfeilerLehman(3), ShortestPath()):
        features, names = kernel.features(graphs), kernel.feature_names(graphs)
        assert len(set(names)) == len(names) == features.shape[1]
        assert_array_equal((features @ features.T).toarray(), kernel(graphs))


def test_names_say_what_is_counted():
    water = ([(0, 1), (0, 2)], "OHH")
    found = dict(
        zip(
            WeisfeilerLehman(2).feature_names([water]),
            WeisfeilerLehman(2).features([water]).toarray()[0],
            strict=True,
        )
    )
    assert found == {
        "depth 0: O": 1,
        "depth 0: H": 2,
        "depth 1: O(H, H)": 1,
        "depth 1: H(O)": 2,
        "depth 2: O(H(O), H(O))": 1,
        "depth 2: H(O(H, H))": 2,
    }
    paths_of_water = zip(
        ShortestPath().feature_names([water]),
        ShortestPath().features([water]).toarray()[0],
        strict=True,
    )
    assert dict(paths_of_water) == {
        "O to H in 1": 2,
        "H to O in 1": 2,
        "H to H in 2": 2,
    }


def test_names_of_large_patterns_are_short():
    star = Graph([(0, i) for i in range(1, 200)])
    names = WeisfeilerLehman(4).feature_names([star])
    assert max(map(len, names)) < 140 and len(set(names)) == len(names)
    assert any("•(199 neighbours, #" in name for name in names)


def test_labels_of_any_kind_keep_their_ids():
    labels = ["C", "1", 1, 2, -1, -2, 0.5, None, b"C", ("C", 1), ("C1",), (), "", "😀"]
    labels += [2**61 - 1, 0, 1e300, float("inf"), frozenset("ab"), "\ud800", 1j]
    ids = label_ids(labels)
    assert len(set(ids.tolist())) == len(labels)
    assert label_ids(["C"])[0] == 0xC73C4029FFEAE5AC
    assert_array_equal(label_ids([1, 0.5]), label_ids([np.float64(1), np.float32(0.5)]))


def test_labels_that_only_their_hash_tells_apart_are_refused():
    class Same:
        def __hash__(self):
            return 1

    with pytest.raises(ValueError, match="have the same hash"):
        WeisfeilerLehman(0)([([], [Same(), Same()])])


# Special cases


def test_no_labels_are_one_label():
    for kernel in (WeisfeilerLehman(3), ShortestPath(), RandomWalk(0.05)):
        labelled = [Graph(g.ends, ["x"] * 3) for g in (TRIANGLE, PATH)]
        assert_array_equal(kernel([TRIANGLE, PATH]), kernel(labelled))


def test_renaming_and_reordering_nodes_changes_nothing():
    rng = np.random.default_rng(0)
    edges, labels = rng.integers(9, size=(14, 2)), list("CCCNNOOOO")
    order = rng.permutation(9)
    names = {int(i): f"node {i}" for i in order}
    other = Graph(
        [(names[u], names[v]) for u, v in edges[::-1].tolist()],
        {names[int(i)]: labels[i] for i in order},
    )
    for kernel in (WeisfeilerLehman(3), ShortestPath(), RandomWalk(0.01)):
        K = kernel([(edges, labels), other])
        assert_allclose(K, K[0, 0], rtol=1e-13)


def test_the_empty_graph_is_like_itself_alone():
    empty, point = ([], []), ([], ["C"])
    for kernel in (WeisfeilerLehman(2), RandomWalk(0.1)):
        assert_array_equal(Normalized(kernel)([empty, point]), np.eye(2))
    # A single node has no path either.
    assert_array_equal(Normalized(ShortestPath())([empty, point]), np.ones((2, 2)))
    assert normalized(naive.shortest_path())(empty, point) == 1


def test_a_long_path_has_as_many_distances_as_nodes():
    n = 3000
    line = Graph([(i, i + 1) for i in range(n - 1)])
    features = ShortestPath().features([line])
    assert_array_equal(np.sort(features.data), 2.0 * np.arange(1, n))


def test_counts_are_multiplied_in_pieces_alike(monkeypatch):
    rng = np.random.default_rng(0)
    graphs = [(rng.integers(9, size=(14, 2)).tolist(), "CCCNNOOOO") for _ in range(9)]
    kernels = (WeisfeilerLehman(2), ShortestPath())
    whole = [kernel(graphs) for kernel in kernels]
    monkeypatch.setattr("mercer.kernels.ways.PIECE_MB", 1e-5)
    for kernel, expected in zip(kernels, whole, strict=True):
        assert_array_equal(kernel(graphs), expected)


def test_a_machine_learns_from_graphs():
    rng = np.random.default_rng(0)
    graphs = np.empty(40, dtype=object)
    for i in range(40):
        n = int(rng.integers(4, 9))
        ring = [(j, (j + 1) % n) for j in range(n - i % 2)]
        graphs[i] = Graph(ring, nodes=range(n))
    target = np.arange(40) % 2
    machine = SVC(C=100, kernel=WeisfeilerLehman(1)).fit(graphs[:20], target[:20])
    assert machine.score(graphs[20:], target[20:]) == 1


def test_graphs_pass_through_a_search_and_data_frames():
    rings = [([(j, (j + 1) % n) for j in range(n)], "C" * n) for n in range(3, 15)]
    chains = [(edges[:-1], labels) for edges, labels in rings]
    graphs, target = rings + chains, np.repeat([0, 1], 12)
    search = GridSearchCV(
        SVC(C=100, kernel=WeisfeilerLehman()), {"kernel__iterations": [0, 1]}, cv=3
    ).fit(graphs, target)
    assert search.best_params_ == {"kernel__iterations": 1}
    assert search.score(graphs, target) == 1
    frame = pd.DataFrame({"graph": [Graph(*g) for g in graphs], "size": target})
    K = WeisfeilerLehman(1)(graphs)
    assert_array_equal(WeisfeilerLehman(1)(frame["graph"]), K)
    assert_array_equal(On("graph", WeisfeilerLehman(1))(frame), K)


# Other people's numbers


def molecules(name):
    folder = Path(__file__).resolve().parents[3] / "shared" / "data"
    file = Path(os.environ.get("MERCER_DATA") or folder) / f"graphs_{name}.jsonl.gz"
    if not file.exists():
        pytest.skip(f"no {file.name} in the folder that MERCER_DATA names")
    with gzip.open(file, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return [(row["edges"], row["node_labels"]) for row in rows]


def checksum(K):
    """A number that every entry of a matrix of whole numbers enters."""
    n = len(K)
    weights = np.add.outer(7 * np.arange(n), 11 * np.arange(n)) % 97
    return int((K * weights).sum())


@pytest.mark.parametrize(
    "iterations, total, trace, row",
    [
        (0, 297984278, 37225, [201, 132, 132, 229]),
        (1, 417918723, 54454, [304, 188, 188, 340]),
        (2, 460577573, 63383, [349, 206, 202, 385]),
        (5, 487368362, 80148, [412, 210, 206, 399]),
    ],
)
def test_weisfeiler_lehman_agrees_with_grakel_on_mutag(iterations, total, trace, row):
    K = WeisfeilerLehman(iterations)(molecules("MUTAG"))
    assert checksum(K) == total and np.trace(K) == trace
    assert_array_equal(K[0, :4], row)


@pytest.mark.parametrize(
    "labelled, total, trace, row",
    [
        (True, 9695856442, 1555976, [6660, 2950, 2950, 8746]),
        (False, 25201767936, 3483452, [11168, 7220, 7220, 14676]),
    ],
)
def test_shortest_path_agrees_with_grakel_on_mutag(labelled, total, trace, row):
    graphs = molecules("MUTAG")
    if not labelled:
        graphs = [Graph(edges) for edges, _ in graphs]
    K = ShortestPath()(graphs)
    assert checksum(K) == total and np.trace(K) == trace
    assert_array_equal(K[0, :4], row)


def test_random_walk_agrees_with_grakel_on_mutag():
    graphs = [Graph(edges) for edges, _ in molecules("MUTAG")[:6]]
    expected = [390.96133954353104, 295.34903436429886, 295.34903436429886,
                442.94410809060594, 245.21209206240098, 645.9448827203948]  # fmt: skip
    assert_allclose(RandomWalk(0.05)(graphs)[0], expected, rtol=1e-12)
