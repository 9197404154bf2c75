"""Kernels between the nodes of a graph and the rows of a matrix: e^{βH}."""

import pickle
import tracemalloc

import naive_graphs as naive
import numpy as np
import pytest
import scipy.sparse as sp
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import expm
from sklearn.base import clone

from mercer import Diffusion, Gram, Graph, KernelRidge, MatrixExponential, On
from mercer.kernels import node

few = settings(max_examples=25, deadline=None)
PATH = Graph([("a", "b"), ("b", "c")])


@pytest.fixture
def series(monkeypatch):
    """Small matrices are treated as large ones."""
    monkeypatch.setattr(node, "DECOMPOSED", 0)


def ring_with_chords(n, seed=0):
    rng = np.random.default_rng(seed)
    ring = [(i, (i + 1) % n) for i in range(n)]
    chords = [(int(u), int(v)) for u, v in rng.integers(n, size=(n // 2, 2))]
    return Graph(ring + chords, nodes=range(n))


# Known values


def test_the_triangle_has_the_known_values():
    K = Diffusion(Graph([(0, 1), (1, 2), (2, 0)]), 0.5)([0, 1, 2])
    expected = np.where(np.eye(3), 0.4820867734, 0.2589566133)
    assert_allclose(K, expected, atol=1e-10)
    # (1 + 2e^{-3β})/3 and (1 - e^{-3β})/3
    assert_allclose(K[0], [(1 + 2 * np.exp(-1.5)) / 3, *[(1 - np.exp(-1.5)) / 3] * 2])


def test_the_path_of_three_has_the_known_values():
    K = Diffusion(PATH, 1.0)(["a", "b", "c"])
    ends, middle = [0.5255709, 0.3167376, 0.1576915], 0.3665247
    expected = [ends, [ends[1], middle, ends[1]], ends[::-1]]
    assert_allclose(K, expected, atol=1e-7)


def test_a_complete_graph_has_a_closed_form():
    n, beta = 7, 0.3
    graph = Graph([(i, j) for i in range(n) for j in range(i)])
    away = (1 - np.exp(-n * beta)) / n
    expected = away + np.exp(-n * beta) * np.eye(n)
    assert_allclose(Diffusion(graph, beta)(list(graph.nodes))
                    [np.ix_(*[np.argsort(graph.nodes)] * 2)], expected)  # fmt: skip


# Laws


@few
@given(strategies.graphs(weights=(1, 0.5, 3)), st.sampled_from([0.01, 0.7, 5.0]))
def test_diffusion_is_the_series_of_the_laplacian(graph, beta):
    graph = Graph(*graph)
    nodes = list(graph.nodes)
    H = -graph.laplacian().toarray()
    expected = np.reshape(naive.exponential(H.tolist(), beta), H.shape)
    kernel = Diffusion(graph, beta)
    with pytest.MonkeyPatch.context() as patch:
        for largest_decomposed in (400, 0):
            patch.setattr(node, "DECOMPOSED", largest_decomposed)
            kernel = clone(kernel)
            assert_allclose(kernel(nodes), expected, atol=1e-13)
            assert_allclose(kernel(nodes[:2], nodes), expected[:2], atol=1e-13)
            assert_allclose(kernel.diag(nodes), np.diagonal(expected), atol=1e-13)
            assert_allclose(kernel(nodes).sum(axis=1), 1, atol=1e-13)


@pytest.mark.parametrize("n", [30, 600])
@pytest.mark.parametrize("beta", [1e-3, 1.0, 40.0])
def test_diffusion_is_scipys_exponential(n, beta):
    graph = ring_with_chords(n)
    kernel, nodes = Diffusion(graph, beta), np.arange(n)
    expected = expm(-beta * graph.laplacian().toarray())
    assert_allclose(kernel(nodes), expected, atol=1e-12)
    assert_allclose(kernel.diag(nodes[5:9]), np.diagonal(expected)[5:9], atol=1e-12)
    V = np.random.default_rng(1).normal(size=(n, 2))
    assert_allclose(kernel.matmul(nodes, None, V), expected @ V, atol=1e-11)


def test_the_derivative_is_the_matrix_times_the_kernel():
    graph, step = ring_with_chords(20), 1e-4
    nodes = list(graph.nodes)
    H = -graph.laplacian().toarray()
    later, now, before = (Diffusion(graph, 0.5 + t)(nodes) for t in (step, 0, -step))
    assert_allclose((later - before) / (2 * step), H @ now, atol=1e-6)


def test_heat_does_not_reach_another_component():
    kernel = Diffusion(Graph([("a", "b"), ("c", "d")], nodes="abcde"), 3.0)
    assert_allclose(kernel(["a"], ["c", "e"]), 0, atol=1e-15)
    assert kernel.value("e", "e") == pytest.approx(1)


def test_long_times_spread_the_heat_evenly(series):
    graph = ring_with_chords(50)
    assert_allclose(Diffusion(graph, 1e4)(list(graph.nodes)), 1 / 50, atol=1e-11)


@few
@given(strategies.whole_matrices(4, 4), st.sampled_from([0.05, 0.4]))
def test_the_matrix_exponential_is_its_series(A, beta):
    H = A + A.T
    expected = np.array(naive.exponential(H.tolist(), beta))
    for form in (H, H.tolist(), sp.csr_array(H), sp.coo_matrix(H)):
        K = MatrixExponential(form, beta)(np.arange(4))
        assert_allclose(K, expected, rtol=1e-10, atol=1e-12 * expected.max())


def test_large_sparse_matrices_are_exact_beside_their_size():
    A = ring_with_chords(500).adjacency()
    expected = expm(2.0 * A.toarray())
    K = MatrixExponential(A, 2.0)(np.arange(500))
    assert_allclose(K, expected, atol=1e-11 * expected.max())
    # A hub: Gershgorin's bound of its eigenvalues, 2000, would overflow.
    star = Graph([(0, i) for i in range(1, 2001)]).adjacency()
    value = MatrixExponential(star, 1.0).value(0, 0)
    assert_allclose(value, np.cosh(np.sqrt(2000)), rtol=1e-9)


def test_diffusion_is_the_exponential_of_minus_the_laplacian():
    graph = ring_with_chords(12)
    twin = MatrixExponential(-graph.laplacian(), 0.8)
    assert_allclose(Diffusion(graph, 0.8)(list(graph.nodes)), twin(np.arange(12)),
                    atol=1e-14)  # fmt: skip


# Points


def test_nodes_may_be_named_by_anything_hashable():
    graph = Graph([((0, 0), (0, 1)), ((0, 1), "end"), ("end", 7)])
    kernel = Diffusion(graph, 1.0)
    assert kernel.value((0, 0), "end") == kernel([(0, 0)], ["end"])[0, 0]
    assert kernel.value(7, "end") == kernel([7], ["end"])[0, 0]
    named = kernel([(0, 0), (0, 1)])
    assert_allclose(kernel(np.array([[0, 0], [0, 1]])), named, rtol=1e-13)


def test_nodes_may_be_a_column_or_a_field():
    graph = ring_with_chords(6)
    K = Diffusion(graph)([4, 0, 3])
    assert_allclose(Diffusion(graph)(np.array([4, 0, 3])), K, rtol=1e-13)
    assert_allclose(Diffusion(graph)(np.array([[4.0], [0.0], [3.0]])), K, rtol=1e-13)
    records = [("x", 4), ("y", 0), ("z", 3)]
    assert_allclose(On(1, Diffusion(graph))(records), K, rtol=1e-13)


def test_a_node_may_be_given_many_times():
    K = Diffusion(PATH)(["a", "b", "a"])
    assert_allclose(K[0], K[2], rtol=1e-13)
    gram = Gram(Diffusion(PATH), ["a", "b", "a"])
    assert_allclose(gram @ np.array([1.0, 2.0, 3.0]), K @ [1, 2, 3])


def test_what_is_no_node_is_refused():
    with pytest.raises(ValueError, match=r"point 1 is a str \('z'\), .* its 3 nodes"):
        Diffusion(PATH)(["a", "z"])
    with pytest.raises(ValueError, match="none of its 3 nodes"):
        Diffusion(PATH)([["a"]])
    with pytest.raises(IndexError, match="3 rows, numbered 0 to 2"):
        MatrixExponential(np.eye(3))([0, 3])
    with pytest.raises(TypeError, match="whole numbers"):
        MatrixExponential(np.eye(3))([0.5])
    with pytest.raises(TypeError, match="whole numbers"):
        MatrixExponential(np.eye(3))(["a"])
    with pytest.raises(ValueError, match="one row of V for each of the 2 points"):
        Diffusion(PATH).matmul(["a", "b"], None, np.ones(3))


@looped(
    "make, error, message",
    [
        (lambda: Diffusion(PATH, 0), ValueError, "beta > 0; got beta=0"),
        (lambda: Diffusion("ab"), TypeError, "Diffusion needs graphs; the graph is"),
        (lambda: MatrixExponential(np.ones((2, 3))), ValueError, r"shape \(2, 3\)"),
        (lambda: MatrixExponential([[0, 1], [2, 0]]), ValueError, "differ by up to 1"),
        (lambda: MatrixExponential([[np.inf]]), ValueError, "finite"),
        (lambda: MatrixExponential(np.eye(2), 1e3)([0]), ValueError, "beta < 710"),
    ],
)
def test_what_makes_no_sense_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_overflow_is_refused_for_sparse_matrices_too():
    A = ring_with_chords(500).adjacency()
    with pytest.raises(ValueError, match="beyond floating-point numbers"):
        MatrixExponential(A, 1e3)([0])


# Kernels are values


def test_set_params_starts_afresh():
    kernel = Diffusion(PATH, 1.0)
    kernel(["a"])
    kernel.set_params(beta=2.0)
    assert_allclose(kernel(["a"]), Diffusion(PATH, 2.0)(["a"]), rtol=1e-13)


def test_what_was_computed_is_not_pickled():
    kernel = Diffusion(ring_with_chords(300))
    before = len(pickle.dumps(kernel))
    kernel([0])
    assert len(pickle.dumps(kernel)) == before


def test_pairs_of_edges_and_labels_will_do_for_a_graph():
    kernel = Diffusion(([(0, 1), (1, 2)], None))
    assert_allclose(kernel([0, 1, 2]), Diffusion(PATH)(["a", "b", "c"]))
    assert clone(kernel) == kernel


# Large graphs


def test_products_on_a_hundred_thousand_nodes_form_no_matrix():
    n = 100_000
    graph = ring_with_chords(n)
    nodes = np.arange(n)
    tracemalloc.start()
    product = Gram(Diffusion(graph), nodes) @ np.ones(n)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert_allclose(product, 1, rtol=1e-13)
    assert peak < 2e8  # a matrix would take 8e10


def test_rows_of_a_large_graph_are_those_of_the_ball_around_the_node():
    # After a short time the heat has not come further than some steps.
    n, reach = 3000, 30
    line = Graph([(i, i + 1) for i in range(n - 1)])
    around = list(range(1000 - reach, 1000 + reach + 1))
    near = Graph([(i, i + 1) for i in around[:-1]])
    rows = Diffusion(line, 0.5)([1000], around)
    assert_allclose(rows, Diffusion(near, 0.5)([1000], around), atol=1e-13)


def test_a_machine_labels_nodes():
    halves = [(i, j) for part in (0, 10) for i in range(part, part + 10)
              for j in range(part, i)]  # fmt: skip
    graph = Graph([*halves, (9, 10)])
    machine = KernelRidge(alpha=0.1, kernel=Diffusion(graph, 0.2)).fit([0, 19], [-1, 1])
    assert_array_equal(np.sign(machine.predict(np.arange(20))), np.repeat([-1, 1], 10))
