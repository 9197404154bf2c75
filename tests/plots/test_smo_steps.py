"""Steps of SMO are drawn as they are made, and end where the solver ends."""

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from looped import looped

from mercer import RBF, Gram, Linear, plots
from mercer.plots.smo import smo_path
from mercer.solvers import SMO
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.programs import one_class, quadratic, svc, svr

rng = np.random.default_rng(0)
SIDE = np.repeat([-1.0, 1.0], 12)
X = rng.normal(size=(24, 2)) + 0.7 * SIDE[:, None]
PROBLEM = svc(Gram(RBF(0.5), X), SIDE, 1.0)
PROBLEMS = [PROBLEM, one_class(Gram(RBF(0.5), X), 0.3), svc(Gram(Linear(), X), SIDE, 5)]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def place(display, name):
    [found] = display.artists_[name].get_xydata()
    return found


def in_two(problem, value, i, j):
    """The problem in the variables i and j, the others fixed."""
    rest = value.copy()
    rest[[i, j]] = 0
    K, sign = problem.gram.dense(), problem.sign
    linear = problem.linear + sign * (K @ (sign * rest))
    two = sign[[i, j]]
    return BoxQP(
        Gram(problem.gram.kernel, X[[i, j]]),
        linear=linear[[i, j]],
        sign=two,
        lower=problem.lower[[i, j]],
        upper=problem.upper[[i, j]],
        total=two @ value[[i, j]],
    )


@looped("which", range(len(PROBLEMS)))
def test_a_step_ends_at_the_least_value_on_its_line(which):
    problem = PROBLEMS[which]
    path = smo_path(problem, 1e-3)
    for k in (0, len(path) // 2, len(path) - 2):
        i, j = np.flatnonzero(path[k + 1] != path[k])
        display = plots.plot_smo_step(problem, path[k], i, j)
        solved = SMO(tol=1e-12).solve(in_two(problem, path[k], i, j)).value
        assert_allclose(place(display, "before"), path[k][[i, j]])
        assert_allclose(place(display, "after"), solved, atol=1e-7)
        part = display.artists_["part"].get_xydata()
        inside = (part >= problem.lower[[i, j]] - 1e-9) & (
            part <= problem.upper[[i, j]] + 1e-9
        )
        assert inside.all()
        assert_allclose(part @ problem.sign[[i, j]], path[k][[i, j]] @ problem.sign[
            [i, j]], atol=1e-9)  # fmt: skip
        plt.close("all")


def test_a_step_that_would_leave_the_square_ends_at_its_wall():
    far = svc(Gram(Linear(), [[0.0], [0.1]]), [-1, 1], 1.0)
    display = plots.plot_smo_step(far, [0.0, 0.0], 0, 1)
    assert_allclose(place(display, "minimum on the line"), [200, 200])
    assert_allclose(place(display, "after"), [1, 1])
    low, high = display.ax_.get_xlim()
    assert low < 0 and 1 < high < 5  # not so far that nothing is seen


def test_points_that_are_alike_go_to_the_end_to_which_the_objective_falls():
    same = svc(Gram(Linear(), [[1.0], [1.0]]), [-1, 1], 1.0)
    assert_allclose(place(plots.plot_smo_step(same, [0, 0], 0, 1), "after"), [1, 1])


@looped("which", range(len(PROBLEMS)))
def test_pairs_of_the_largest_violation_end_where_smo_does(which):
    problem = PROBLEMS[which]
    path = smo_path(problem, 1e-6)
    Q = problem.gram.dense() * np.outer(problem.sign, problem.sign)
    objective = [0.5 * a @ Q @ a + problem.linear @ a for a in path]
    assert (np.diff(objective) <= 1e-10).all()
    assert ((np.diff(path, axis=0) != 0).sum(axis=1) == 2).all()
    best = -SMO(tol=1e-9).solve(problem).dual
    assert_allclose(objective[-1], best, rtol=1e-6)


def test_every_variable_has_a_line_in_the_colour_of_its_sign():
    path = smo_path(PROBLEM, 1e-3)
    display = plots.plot_smo_path(PROBLEM, path)
    for t, line in enumerate(display.artists_["lines"]):
        assert_allclose(line.get_ydata(), path[:, t])
        assert line.get_color() == plots.COLOURS[int(SIDE[t] > 0)]
    drawn = sum(len(dots.get_xdata()) for dots in display.artists_["dots"])
    assert drawn == 2 * (len(path) - 1)


def test_a_path_is_animated_step_by_step_to_gif_and_html(tmp_path):
    display = plots.plot_smo_path(svc(Gram(Linear(), [[0.0], [2.0], [3.0]]),
                                      [-1, 1, 1], 1.0))  # fmt: skip
    display.draw_frame_(0)
    assert all(len(line.get_xdata()) == 1 for line in display.artists_["lines"])
    animation = display.animate(seconds=0.1)
    animation.save(tmp_path / "path.gif")
    assert (tmp_path / "path.gif").read_bytes().startswith(b"GIF8")
    assert display.frames_ == 2
    assert "<img" in animation.to_jshtml()
    assert len(display.artists_["lines"][0].get_xdata()) == display.frames_


def test_a_picture_that_stands_is_not_animated():
    with pytest.raises(ValueError, match="does not move"):
        plots.plot_gram(np.eye(2)).animate()


def test_what_has_no_such_steps_is_refused():
    with pytest.raises(ValueError, match="got 1 twice"):
        plots.plot_smo_step(PROBLEM, np.zeros(24), 1, 1)
    with pytest.raises(ValueError, match=r"24 variables; got values of shape \(3,\)"):
        plots.plot_smo_step(PROBLEM, np.zeros(3), 0, 1)
    free = quadratic(np.eye(2), 0, 1, 0, 1, None)
    for problem in (free, svr(Gram(RBF(1.0), X), X[:, 0], 1.0, 0.1)):
        with pytest.raises(ValueError, match="one total and no tube"):
            plots.plot_smo_step(problem, np.zeros(len(problem)), 0, 1)
    with pytest.raises(ValueError, match="needs a path of shape"):
        plots.plot_smo_path(PROBLEM, np.zeros(24))
    many = svc(Gram(Linear(), np.ones((300, 1))), np.repeat([-1, 1], 150), 1.0)
    with pytest.raises(ValueError, match="at most 200 variables"):
        plots.plot_smo_path(many, np.zeros((1, 300)))
