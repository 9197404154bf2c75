"""Strings, trees and graphs are drawn where they should be, in colours of weights."""

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from looped import looped
from matplotlib.colors import LogNorm, to_rgb

from mercer import Graph, plots

RING = Graph([(i, (i + 1) % 6) for i in range(6)], labels="CNOCNO")
TREE = "(S (NP (D the) (N cat)) (VP sleeps))"


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def face(text):
    return to_rgb(text.get_bbox_patch().get_facecolor())


def test_a_string_has_a_box_for_each_token_in_the_colour_of_its_weight():
    display = plots.plot_string("a b", [1.0, 0.0, -1.0])
    first, gap, last = display.artists_["tokens"]
    assert [t.get_text() for t in (first, gap, last)] == ["a", "␣", "b"]
    assert_allclose(face(first), to_rgb(plots.COLOURS[1]), atol=0.01)
    assert_allclose(face(last), to_rgb(plots.COLOURS[0]), atol=0.01)
    assert face(gap) == (1, 1, 1)


def test_rows_of_a_string_have_names_and_lines_over_what_they_span():
    rows = [[0, 1, 0, 1], [1, 1, 0, 0]]
    display = plots.plot_string(["who", "is", "the", "king"], rows, names=["x", "y"])
    ends = [line.get_xdata().tolist() for line in display.ax_.lines]
    assert ends == [[2, 4], [1, 2]]
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == ["x", "y"]


def test_parents_stand_in_the_middle_above_their_children():
    display = plots.plot_tree(TREE)
    labels = [text.get_text() for text in display.artists_["labels"]]
    assert labels == ["S", "NP", "D", "the", "N", "cat", "VP", "sleeps"]
    x, y = display.artists_["places"].T
    assert_allclose(y, [0, -1, -2, -3, -2, -3, -1, -2])
    assert x[[3, 5, 7]].tolist() == [0, 1, 2]
    assert x[1] == 0.5 and x[0] == (x[1] + x[6]) / 2
    assert len(display.ax_.lines) == 7


def test_nodes_of_a_tree_have_the_colours_of_their_weights():
    texts = plots.plot_tree("(A b c)", [0.0, 1.0, 2.0], bar=True).artists_["labels"]
    red = [face(text)[2] for text in texts]
    assert red[0] > red[1] > red[2]
    assert texts[2].get_color() == "white" and texts[0].get_color() == "black"


@looped(
    "graph",
    [
        RING,
        Graph([(i, i + 1) for i in range(20)]),
        Graph([(0, i) for i in range(1, 15)]),
        Graph([(0, 1), (2, 3)], nodes=range(5)),
        Graph([(i, j) for i in range(9) for j in range(i)]),
        Graph([], nodes=["alone"]),
    ],
)
def test_nodes_of_a_graph_do_not_overlap(graph):
    display = plots.plot_graph(graph)
    places = display.artists_["places"]
    [diameter] = set(display.artists_["nodes"]._widths.ravel() * 2)
    gaps = np.linalg.norm(places[:, None] - places, axis=2)
    gaps += 10 * np.eye(len(places))
    assert gaps.min() > diameter
    assert np.array_equal(places, plots.plot_graph(graph).artists_["places"])
    low, high = np.transpose([display.ax_.get_xlim(), display.ax_.get_ylim()])
    assert (places - diameter / 2 > low).all() and (places + diameter / 2 < high).all()


def test_distances_on_a_path_are_the_numbers_of_steps():
    path = Graph([(i, i + 1) for i in range(7)])
    places = plots.plot_graph(path).artists_["places"]
    order = [path.index[i] for i in range(8)]
    gaps = np.linalg.norm(places[:, None] - places, axis=2)[np.ix_(order, order)]
    assert_allclose(gaps, abs(np.subtract.outer(range(8), range(8))), atol=0.05)


def test_weights_of_nodes_are_given_in_order_or_by_name():
    values = np.array([1.0, -1, 0.5, 0, -0.5, 1])
    by_name = dict(zip(RING.nodes, values, strict=True))
    drawn = [plots.plot_graph(RING, w).artists_["nodes"] for w in (values, by_name)]
    assert_allclose(*(nodes.get_facecolor() for nodes in drawn))
    assert_allclose(drawn[0].get_facecolor()[0][:3], to_rgb(plots.COLOURS[1]))
    assert_allclose(drawn[0].get_facecolor()[1][:3], to_rgb(plots.COLOURS[0]))
    scaled = plots.plot_graph(RING, values + 2, norm=LogNorm(1, 3)).artists_["colours"]
    assert scaled.norm.vmax == 3


def test_bonds_have_as_many_lines_as_asked():
    edges = plots.plot_graph(RING, strokes=[1, 2, 3, 1.5, 1, 1]).artists_["edges"]
    assert [len(lines) for lines in edges] == [1, 2, 3, 2, 1, 1]
    assert [line.get_linestyle() for line in edges[3]] == ["-", "--"]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"each of the 3 tokens; got shape \(2,\)"):
        plots.plot_string("abc", [1, 2])
    with pytest.raises(ValueError, match="names needs 1"):
        plots.plot_string("abc", names=["a", "b"])
    with pytest.raises(ValueError, match="plot_tree needs 8 weights"):
        plots.plot_tree(TREE, [1.0])
    with pytest.raises(ValueError, match="plot_graph needs 6 weights"):
        plots.plot_graph(RING, [1.0])
    with pytest.raises(ValueError, match=r"places needs shape \(6, 2\)"):
        plots.plot_graph(RING, places=[[0, 0]])
    with pytest.raises(ValueError, match="strokes needs 6 numbers"):
        plots.plot_graph(RING, strokes=[1])
    with pytest.raises(TypeError, match="plot_graph needs graphs"):
        plots.plot_graph("CNO")
