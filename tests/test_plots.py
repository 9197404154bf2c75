"""Pictures show the numbers they are given, in the order asked for."""

import builtins
import importlib
import sys

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from mercer import plots
from mercer.gram import Gram
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear

X = np.random.default_rng(0).normal(size=(9, 2))
LABELS = np.array(["b", "a", "c"] * 3)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def shown(ax):
    return np.asarray(ax.images[0].get_array())


def test_heat_map_shows_the_matrix():
    K = RBF(0.5)(X)
    assert_allclose(shown(plots.plot_gram(K)), K, rtol=0)
    assert_allclose(shown(plots.plot_gram(RBF(0.5), X)), K, rtol=0)
    assert_allclose(shown(plots.plot_gram(Gram(RBF(0.5), X))), K, rtol=0)


def test_heat_map_of_a_kernel_resolves_it_on_the_points():
    assert_allclose(shown(plots.plot_gram(RBF(), X)), RBF().resolve(X)(X), rtol=0)


def test_heat_map_groups_points_by_label():
    ax = plots.plot_gram(RBF(0.5), X, order=LABELS)
    place = np.argsort(LABELS, kind="stable")
    assert_allclose(shown(ax), RBF(0.5)(X[place]), rtol=1e-12)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["a", "b", "c"]
    assert_allclose(ax.get_xticks(), [1, 4, 7])


def test_colours_are_symmetric_about_zero_where_values_are_negative():
    low, high = plots.plot_gram(Linear(), X).images[0].get_clim()
    assert low == -high
    assert plots.plot_gram(RBF(1.0), X).images[0].get_clim()[0] == 0


def test_spectrum_shows_the_eigenvalues_from_the_largest():
    K = RBF(0.5)(X)
    points = plots.plot_spectrum(K).lines[0]
    assert_allclose(points.get_ydata(), np.linalg.eigvalsh(K)[::-1], rtol=1e-9)


def test_spectrum_draws_negative_eigenvalues_apart():
    ax = plots.plot_spectrum(np.diag([3.0, -2.0, 1.0]))
    lines = {line.get_label(): line for line in ax.lines}
    assert_allclose(lines["positive"].get_xydata(), [[1, 3], [3, 1]])
    assert_allclose(lines["negative"].get_xydata(), [[2, 2]])


def test_pictures_are_drawn_where_asked():
    _, (left, right) = plt.subplots(1, 2)
    assert plots.plot_gram(np.eye(3), ax=left) is left
    assert plots.plot_spectrum(np.eye(3), ax=right) is right


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((RBF(1.0),), "needs points"),
        ((np.eye(3), X), "Pass one of the two"),
        ((np.ones((2, 3)),), r"square; got shape \(2, 3\)"),
        ((np.eye(3), None, ["a"]), "order needs 3 labels"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        plots.plot_gram(*arguments)


def test_missing_matplotlib_is_named_with_the_way_out(monkeypatch):
    imported = builtins.__import__

    def without(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.delitem(sys.modules, "mercer.plots")
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"mercer\[plot\]"):
        importlib.import_module("mercer.plots")
