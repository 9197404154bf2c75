"""The lines, slacks and distances of a margin are those of the machine."""

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from mercer import RBF, SVC, plots

rng = np.random.default_rng(0)
SIDE = np.repeat([-1, 1], 20)
X = rng.normal(size=(40, 2)) + 0.7 * SIDE[:, None]
MACHINE = SVC(C=1.0, kernel="linear").fit(X, SIDE)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_lines_lie_where_f_is_0_and_1_and_reach_beyond_the_frame():
    display = plots.plot_margin(MACHINE, X, SIDE)
    for line, level in zip(display.artists_["lines"], (-1, 0, 1), strict=True):
        ends = line.get_xydata()
        assert_allclose(MACHINE.decision_function(ends), level, atol=1e-9)
        low, high = np.transpose([display.ax_.get_xlim(), display.ax_.get_ylim()])
        assert ((ends < low) | (ends > high)).any(axis=1).all()
    assert display.ax_.get_aspect() == 1


def test_a_slack_runs_from_its_point_to_the_margin_of_its_class():
    display = plots.plot_margin(MACHINE, X, SIDE, slacks=True)
    xi = np.maximum(0, 1 - SIDE * MACHINE.decision_function(X))
    places = np.flatnonzero(xi > MACHINE.tol)
    drawn = display.artists_["slacks"]
    assert 2 < len(drawn) == len(places)
    length = np.linalg.norm(MACHINE.coef_)
    for i, line in zip(places, drawn, strict=True):
        start, home = line.get_xydata()
        assert_allclose(start, X[i])
        assert_allclose(MACHINE.decision_function(home[None]), SIDE[i], atol=1e-9)
        assert_allclose(np.linalg.norm(home - start), xi[i] / length)
    shown = {text.get_text() for text in display.ax_.texts}
    assert {f"{xi[i]:.2f}" for i in places} <= shown


def test_misplaced_points_have_another_colour():
    drawn = plots.plot_margin(MACHINE, X, SIDE, slacks=True).artists_["slacks"]
    xi = np.maximum(0, 1 - SIDE * MACHINE.decision_function(X))
    xi = xi[xi > MACHINE.tol]
    colours = np.array([line.get_color() for line in drawn])
    assert 0 < (xi > 1).sum() < len(xi)
    assert len(set(colours[xi > 1])) == len(set(colours[xi <= 1])) == 1
    assert len(set(colours)) == 2


def test_distances_are_measured_from_the_origin_and_across_the_margin():
    display = plots.plot_margin(MACHINE, X, SIDE, distances=True, legend=False)
    length, b = np.linalg.norm(MACHINE.coef_), abs(MACHINE.intercept_[0])
    names = [text.get_text() for text in display.artists_["distances"]]
    assert names[:2] == [f"|b|/‖w‖ = {b / length:.2f}", f"1/‖w‖ = {1 / length:.2f}"]
    beyond = -np.sign(MACHINE.intercept_[0])  # where the origin is not
    largest = (beyond * MACHINE.decision_function(X)).max()
    assert names[2] == f"|f(x)|/‖w‖ = {largest / length:.2f}"
    arrows = [t for t in display.ax_.texts if getattr(t, "arrow_patch", None)]
    for arrow, level in zip(arrows[:3], (0, 1, 0), strict=True):
        end = np.array(arrow.xy)
        assert_allclose(MACHINE.decision_function(end[None]), level, atol=1e-9)
    turned = np.subtract(arrows[3].xy, arrows[3].get_position())
    assert abs(turned @ [-MACHINE.coef_[0, 1], MACHINE.coef_[0, 0]]) < 1e-9
    assert display.ax_.get_legend() is None


def test_what_has_no_line_is_refused():
    with pytest.raises(ValueError, match="use plot_regions"):
        plots.plot_margin(SVC(kernel=RBF(1.0)).fit(X, SIDE), X, SIDE)
    three = SVC(kernel="linear").fit(X, np.arange(40) % 3)
    with pytest.raises(ValueError, match="between two classes"):
        plots.plot_margin(three, X, SIDE)
    with pytest.raises(ValueError, match=r"got shape \(40, 1\)"):
        plots.plot_margin(SVC(kernel="linear").fit(X[:, :1], SIDE), X[:, :1], SIDE)
