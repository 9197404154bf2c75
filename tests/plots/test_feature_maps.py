"""Points are drawn where a feature map puts them, with the plane between them."""

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from looped import looped

from mercer import RBF, Polynomial, Spectrum, plots
from mercer.plots.maps import _section

X = np.random.default_rng(0).normal(size=(30, 2))
INSIDE = np.where((X**2).sum(axis=1) < 1, "in", "out")


def phi(X):
    return np.column_stack([X[:, 0] ** 2, X[:, 1] ** 2, 2**0.5 * X[:, 0] * X[:, 1]])


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_two_coordinates_of_a_kernel_have_their_names():
    display = plots.plot_feature_map(Polynomial(2), X, columns=[1, 4])
    kernel = Polynomial(2)
    assert_allclose(display.artists_["places"], kernel.features(X)[:, [1, 4]])
    names = kernel.feature_names(X)
    ax = display.ax_
    assert [ax.get_xlabel(), ax.get_ylabel()] == [names[1], names[4]]


def test_sparse_features_of_strings_are_drawn_too():
    words = ["aab", "abb", "bbb"]
    places = plots.plot_feature_map(Spectrum(1), words).artists_["places"]
    assert_allclose(places, Spectrum(1).features(words).toarray())


def test_a_line_lies_where_its_equation_says():
    display = plots.plot_feature_map(lambda X: X, X, plane=([1.0, -2.0], 0.5))
    line = display.artists_["plane"].get_paths()[0].vertices
    assert_allclose(line @ [1.0, -2.0] + 0.5, 0, atol=1e-9)


def test_points_behind_a_plane_are_drawn_before_it():
    display = plots.plot_feature_map(phi, X, INSIDE, plane=([1, 1, 0], -1))
    ax, plane = display.ax_, display.artists_["plane"]
    tilt, turn = np.radians([ax.elev, ax.azim])
    view = np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)
    toward = np.sign(np.dot([1, 1, 0], view))
    seen = 0
    for points in display.artists_["points"]:
        for z in np.transpose(points._offsets3d):
            before = points.get_zorder() < plane.get_zorder()
            assert before == ((z[0] + z[1] - 1) * toward < 0)
            seen += 1
    assert seen == len(X)
    assert not ax.computed_zorder


@looped("w", [[1, 1, 0], [0, 0, 1], [1, 2, -1], [1, 0, 0]])
def test_a_plane_is_not_seen_edge_on(w):
    ax = plots.plot_feature_map(phi, X, INSIDE, plane=(w, -0.1)).ax_
    tilt, turn = np.radians([ax.elev, ax.azim])
    view = np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)
    assert abs(np.dot(w, view)) / np.linalg.norm(w) > 0.2


def test_the_section_of_a_box_is_in_the_plane_and_on_its_edges():
    frame = np.array([[0.0, 0, 0], [1, 2, 3]])
    w, b = np.array([1.0, 1.0, 1.0]), -2.0
    places = _section(w, b, frame)
    assert_allclose(places @ w + b, 0, atol=1e-9)
    on_edge = (np.isclose(places, frame[0]) | np.isclose(places, frame[1])).sum(axis=1)
    assert (on_edge >= 2).all() and len(places) == 4
    assert _section(w, 9.0, frame).shape == (0, 3)


def test_the_image_of_the_plane_of_the_points_is_a_net():
    display = plots.plot_feature_map(phi, X, surface=True)
    net = display.artists_["surface"]
    z1, z2, z3 = np.concatenate([np.array(line) for line in net._segments3d]).T
    known = np.isfinite(z1)
    assert known.any()
    assert_allclose(2 * z1[known] * z2[known], z3[known] ** 2, atol=1e-9)


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="got 6 of the 6"):
        plots.plot_feature_map(Polynomial(2), X)
    with pytest.raises(ValueError, match="needs an explicit map; RBF"):
        plots.plot_feature_map(RBF(1.0), X)
    with pytest.raises(ValueError, match="a w of 3 numbers; got 2"):
        plots.plot_feature_map(phi, X, plane=([1, 1], 0))
    with pytest.raises(ValueError, match='projection="3d"'):
        plots.plot_feature_map(phi, X, ax=plt.figure().gca())
    with pytest.raises(ValueError, match="y needs 30 values"):
        plots.plot_feature_map(phi, X, INSIDE[:3])
