"""Pictures show the numbers they are given, in the order asked for."""

import builtins
import importlib
import sys

import matplotlib
import numpy as np
import pytest
from looped import looped
from numpy.testing import assert_allclose

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
import polars as pl
from matplotlib.colors import to_rgb
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import KernelPerceptron, plots
from mercer.gram import Gram
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear
from mercer.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    PerceptronLoss,
    Quantile,
    Squared,
    SquaredHinge,
    ZeroOne,
)
from mercer.machines.kmeans import KernelKMeans
from mercer.machines.neighbors import KernelKNNClassifier
from mercer.machines.parzen import ParzenClassifier, ParzenDensity
from mercer.machines.pca import KernelPCA
from mercer.machines.ridge import KernelRidge
from mercer.machines.rvm import RVC, RVR
from mercer.machines.sgd import KernelSGDClassifier
from mercer.machines.svm import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM
from mercer.outcomes import Progress
from mercer.solvers.coordinate import CoordinateAscent
from mercer.solvers.programs import quadratic, svc
from mercer.solvers.smo import SMO
from mercer.theory import mistake_bound

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
    assert_allclose(shown(plots.plot_gram(K).ax_), K, rtol=0)
    assert_allclose(shown(plots.plot_gram(RBF(0.5), X).ax_), K, rtol=0)
    assert_allclose(shown(plots.plot_gram(Gram(RBF(0.5), X)).ax_), K, rtol=0)


def test_heat_map_of_a_kernel_resolves_it_on_the_points():
    assert_allclose(shown(plots.plot_gram(RBF(), X).ax_), RBF().resolve(X)(X), rtol=0)


def test_heat_map_groups_points_by_label():
    ax = plots.plot_gram(RBF(0.5), X, order=LABELS).ax_
    place = np.argsort(LABELS, kind="stable")
    assert_allclose(shown(ax), RBF(0.5)(X[place]), rtol=1e-12)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["a", "b", "c"]
    assert_allclose(ax.get_xticks(), [1, 4, 7])


def test_colours_are_symmetric_about_zero_where_values_are_negative():
    low, high = plots.plot_gram(Linear(), X).ax_.images[0].get_clim()
    assert low == -high
    assert plots.plot_gram(RBF(1.0), X).ax_.images[0].get_clim()[0] == 0


def test_spectrum_shows_the_eigenvalues_from_the_largest():
    K = RBF(0.5)(X)
    points = plots.plot_spectrum(K).ax_.lines[0]
    assert_allclose(points.get_ydata(), np.linalg.eigvalsh(K)[::-1], rtol=1e-9)


def test_spectrum_draws_negative_eigenvalues_apart():
    ax = plots.plot_spectrum(np.diag([3.0, -2.0, 1.0])).ax_
    lines = {line.get_label(): line for line in ax.lines}
    assert_allclose(lines["positive"].get_xydata(), [[1, 3], [3, 1]])
    assert_allclose(lines["negative"].get_xydata(), [[2, 2]])


@looped(
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


# Where

PAIR = quadratic([[1, 0.5], [0.5, 1]], 0, 1, -9.0, 9.0, None)
PLACES = np.linspace(0, 3, 8)[:, None]
WAVE = np.sin(PLACES[:, 0])
TWO = np.array([0, 1, 0, 1, 0, 1, 0, 1, 1])


def history_of(machine):
    history = []
    machine.set_params(callback=history.append).fit(X, TWO)
    return history


ON_AXES = {
    "plot_alpha_path": lambda ax: plots.plot_alpha_path(
        mercer.paths.svm_path(RBF(0.5), X, TWO), ax
    ),
    "plot_ascent": lambda ax: plots.plot_ascent(
        mercer.GaussianProcessRegressor(RBF(1.0)).fit(PLACES, WAVE).curve_, ax
    ),
    "plot_explanation": lambda ax: plots.plot_explanation(
        mercer.explain(SVC(kernel=Linear()).fit(X, TWO), X[:1])[0], ax
    ),
    "plot_kernel_weights": lambda ax: plots.plot_kernel_weights(
        SVC(kernel=mercer.MultipleKernel([Linear(), RBF(1.0)])).fit(X, TWO), ax
    ),
    "plot_search": lambda ax: plots.plot_search(
        mercer.KernelSearchCV(SVC(), {"C": [1, 10]}, cv=2).fit(X, TWO), ax=ax
    ),
    "plot_band": lambda ax: plots.plot_band(RVR().fit(PLACES, WAVE), PLACES, WAVE, ax),
    "plot_clusters": lambda ax: plots.plot_clusters(
        KernelKMeans(2, kernel=RBF(1.0), random_state=0).fit(X), X, ax=ax
    ),
    "plot_component": lambda ax: plots.plot_component(
        KernelPCA(1, kernel=RBF(0.5)).fit(X), X, ax=ax
    ),
    "plot_convergence": lambda ax: plots.plot_convergence(
        history_of(SVC(kernel=RBF(0.5), solver=SMO())), ax
    ),
    "plot_density": lambda ax: plots.plot_density(ParzenDensity(0.5).fit(X), X, ax),
    "plot_feature_map": lambda ax: plots.plot_feature_map(
        lambda points: points**2, X, TWO, ax
    ),
    "plot_gram": lambda ax: plots.plot_gram(np.eye(3), ax=ax),
    "plot_graph": lambda ax: plots.plot_graph([(0, 1), (1, 2)], ax=ax),
    "plot_losses": lambda ax: plots.plot_losses([Hinge()], ax),
    "plot_margin": lambda ax: plots.plot_margin(
        SVC(kernel=Linear()).fit(X, TWO), X, TWO, ax
    ),
    "plot_mistakes": lambda ax: plots.plot_mistakes(
        KernelPerceptron(RBF(1.0)).fit(X, TWO), ax=ax
    ),
    "plot_path": lambda ax: plots.plot_path(PAIR, np.array([[0, 0], [0.5, 0]]), ax),
    "plot_probabilities": lambda ax: plots.plot_probabilities(
        RVC(kernel=RBF(0.5)).fit(X, TWO), X, TWO, ax
    ),
    "plot_regions": lambda ax: plots.plot_regions(SVC().fit(X, TWO), X, TWO, ax),
    "plot_sgd_bound": lambda ax: plots.plot_sgd_bound(
        [KernelSGDClassifier(reg=0, norm=2.0, learning_rate="theory").fit(X, TWO)],
        X,
        TWO,
        0.0,
        ax,
    ),
    "plot_smo_path": lambda ax: plots.plot_smo_path(
        svc(Gram(RBF(0.5), X), np.where(TWO, 1, -1), 1.0), ax=ax
    ),
    "plot_smo_step": lambda ax: plots.plot_smo_step(
        svc(Gram(RBF(0.5), X), np.where(TWO, 1, -1), 1.0), np.zeros(9), 0, 1, ax
    ),
    "plot_spectrum": lambda ax: plots.plot_spectrum(np.eye(3), ax=ax),
    "plot_string": lambda ax: plots.plot_string("abc", [1.0, 0.0, 2.0], ax),
    "plot_tree": lambda ax: plots.plot_tree("(A (B) (C))", ax=ax),
    "plot_tube": lambda ax: plots.plot_tube(SVR().fit(PLACES, WAVE), PLACES, WAVE, ax),
}


def test_every_picture_is_asked_where_it_is_drawn():
    assert ON_AXES.keys() == {name for name in plots.__all__ if "plot_" in name}


@pytest.mark.parametrize("name", ON_AXES)
def test_a_picture_is_drawn_where_asked_and_gives_its_display(name):
    plt.close("all")  # what other tests have left
    figure, ax = plt.subplots()
    display = ON_AXES[name](ax)
    assert isinstance(display, plots.Display)
    assert display.ax_ is ax and display.figure_ is figure
    assert ax.has_data() or ax.texts
    assert plt.get_fignums() == [figure.number]


# Regions

CLOUD = np.random.default_rng(1).normal(size=(60, 2))
SIDES = np.repeat([-1, 1], 30)
CLOUD = CLOUD + 0.8 * SIDES[:, None]
THIRDS = np.repeat(["a", "b", "c"], 20)


def lines_at(ax, level):
    """The points of all contours drawn at a level, (n, 2)."""
    return np.concatenate(
        [
            path.vertices
            for drawn in ax.collections
            if hasattr(drawn, "levels") and not drawn.filled
            for value, path in zip(drawn.levels, drawn.get_paths(), strict=True)
            if value == level
        ]
    )


def drawn_at(ax, filled):
    """Where support vectors with a black edge are drawn, and their areas."""
    places, areas = [np.zeros((0, 2))], [np.zeros(0)]
    for drawn in ax.collections:
        edge = drawn.get_edgecolor()
        is_point = hasattr(drawn, "get_sizes") and len(drawn.get_offsets())
        if is_point and len(edge) and tuple(edge[0]) == (0, 0, 0, 1):
            if bool(len(drawn.get_facecolor())) == filled:
                places.append(np.asarray(drawn.get_offsets()))
                sizes = drawn.get_sizes()
                areas.append(np.broadcast_to(sizes, len(drawn.get_offsets())))
    return np.concatenate(places), np.concatenate(areas)


def as_set(points):
    return {tuple(point) for point in np.round(points, 9)}


def test_boundary_and_margins_lie_where_f_is_0_and_1():
    machine = SVC(kernel=RBF(0.5), C=2).fit(CLOUD, SIDES)
    ax = plots.plot_regions(machine, CLOUD, SIDES).ax_
    for level in (-1, 0, 1):
        places = lines_at(ax, level)
        assert len(places) > 10
        # Contours are straight between grid points.
        assert_allclose(machine.decision_function(places), level, atol=2e-3)


@pytest.mark.parametrize("weight", [None, np.linspace(0.2, 3, 60)])
def test_free_support_vectors_are_filled_and_bound_ones_ringed(weight):
    machine = SVC(kernel=RBF(0.5), C=2)
    machine.fit(CLOUD, SIDES, sample_weight=weight)
    ax = plots.plot_regions(machine, CLOUD, SIDES).ax_
    most = np.full(60, 2.0) if weight is None else 2 * weight
    at_bound = abs(machine.dual_coef_[0]) >= most[machine.support_] * (1 - 1e-12)
    vectors = machine.support_vectors_
    assert 0 < at_bound.sum() < len(vectors)
    assert as_set(drawn_at(ax, filled=True)[0]) == as_set(vectors[~at_bound])
    assert as_set(drawn_at(ax, filled=False)[0]) == as_set(vectors[at_bound])


def test_the_area_of_a_support_vector_grows_with_its_weight():
    machine = SVC(kernel=RBF(0.5), C=np.inf).fit(CLOUD, SIDES)
    places, areas = drawn_at(plots.plot_regions(machine, CLOUD, SIDES).ax_, filled=True)
    weight = {
        tuple(np.round(x, 9)): abs(a)
        for x, a in zip(machine.support_vectors_, machine.dual_coef_[0], strict=True)
    }
    found = np.array([weight[tuple(x)] for x in np.round(places, 9)])
    assert len(found) == len(machine.support_)
    slope, offset = np.polyfit(found, areas, 1)
    assert slope > 0
    assert_allclose(areas, slope * found + offset, rtol=1e-9)


@pytest.mark.parametrize("Machine", [OneClassSVM, SVDD])
def test_one_class_has_a_boundary_and_no_margins(Machine):
    machine = Machine(kernel=RBF(0.5), nu=0.2).fit(CLOUD)
    ax = plots.plot_regions(machine, CLOUD).ax_
    assert_allclose(machine.decision_function(lines_at(ax, 0)), 0, atol=1e-2)
    levels = {
        level
        for drawn in ax.collections
        if hasattr(drawn, "levels") and not drawn.filled
        for level in drawn.levels
    }
    assert levels == {0}
    outside = as_set(drawn_at(ax, filled=False)[0])
    assert outside == as_set(CLOUD[machine.decision_function(CLOUD) < -1e-6])
    assert len(drawn_at(ax, filled=True)[0]) == machine.certificate_.n_free


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
def test_several_classes_have_a_region_and_a_colour_each(multiclass):
    machine = SVC(C=2, multiclass=multiclass).fit(CLOUD, THIRDS)
    ax = plots.plot_regions(machine, CLOUD, THIRDS).ax_
    assert set(np.unique(shown(ax))) == {0, 1, 2}
    places = np.concatenate([drawn_at(ax, filled)[0] for filled in (True, False)])
    assert as_set(places) == as_set(machine.support_vectors_)
    names = ax.get_legend_handles_labels()[1]
    assert names[:3] == ["a", "b", "c"]


@pytest.mark.parametrize("kernel", [Linear(), RBF(0.1)])
def test_the_margin_of_a_class_is_where_it_wins_all_of_its_pairs_by_one(kernel):
    far = np.repeat(np.arange(3), 20)[:, None] * [6.0, 0.0]
    points = np.random.default_rng(0).normal(size=(60, 2)) + far
    machine = SVC(kernel=kernel, decision_function_shape="ovo").fit(points, THIRDS)
    ax = plots.plot_regions(machine, points, THIRDS).ax_
    ab, ac, bc = machine.decision_function(lines_at(ax, 1)).T
    least = np.minimum([ab, -ab, -ac], [ac, bc, -bc]).max(axis=0)
    # Where two pairs cross, contours cut the corner within a cell of the grid.
    assert_allclose(least, 1, atol=0.05)


@pytest.mark.parametrize("kernel", [Linear(), RBF(0.1)])
def test_the_margins_of_several_classes_end_at_the_frame_or_nowhere(kernel):
    far = np.repeat(np.arange(3), 20)[:, None] * [6.0, 0.0]
    points = np.random.default_rng(0).normal(size=(60, 2)) + far
    machine = SVC(kernel=kernel).fit(points, THIRDS)
    low, high = plots.base.frame_of(points)
    margins = plots.plot_regions(machine, points, THIRDS).artists_["margins"]
    pieces = [
        line
        for drawn in margins
        for path in drawn.get_paths()
        for line in path.to_polygons(closed_only=False)
    ]
    assert len(pieces) >= 3
    for line in pieces:
        closed = np.allclose(line[0], line[-1])
        ends = np.minimum(abs(line[[0, -1]] - low), abs(line[[0, -1]] - high))
        assert closed or (ends.min(axis=1) < 1e-9).all()


def test_nu_machines_are_drawn_like_the_others():
    machine = NuSVC(kernel=RBF(0.5), nu=0.4).fit(CLOUD, SIDES)
    ax = plots.plot_regions(machine, CLOUD, SIDES).ax_
    assert len(drawn_at(ax, filled=True)[0]) == machine.certificate_.n_free
    assert len(drawn_at(ax, filled=False)[0]) == machine.certificate_.n_bound


@pytest.mark.parametrize("frame", [np.asarray, pd.DataFrame, pl.DataFrame])
def test_a_pipeline_is_drawn_in_the_units_of_its_points(frame):
    points = CLOUD * [1000.0, 0.1]
    if frame is not np.asarray:
        points = frame({"length": points[:, 0], "width": points[:, 1]})
    machine = make_pipeline(StandardScaler(), SVC(kernel=RBF(0.5)))
    machine.fit(points, SIDES)
    ax = plots.plot_regions(machine, points, SIDES).ax_
    places = np.concatenate([drawn_at(ax, filled)[0] for filled in (True, False)])
    assert as_set(places) == as_set(np.asarray(points)[machine[-1].support_])
    if frame is not np.asarray:
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("length", "width")


def test_a_legend_is_drawn_unless_refused():
    machine = SVC().fit(CLOUD, SIDES)
    assert plots.plot_regions(machine, CLOUD, SIDES).ax_.get_legend()
    bare = plots.plot_regions(machine, CLOUD, SIDES, legend=False).ax_
    assert bare.get_legend() is None
    assert "free support vector" in bare.get_legend_handles_labels()[1]


def test_what_is_no_picture_of_regions_is_refused():
    machine = SVC().fit(CLOUD, SIDES)
    piped = make_pipeline(StandardScaler(), SVC()).fit(CLOUD, SIDES)
    with pytest.raises(NotFittedError):
        plots.plot_regions(SVC(), CLOUD)
    with pytest.raises(ValueError, match="Use plot_tube"):
        plots.plot_regions(SVR().fit(CLOUD, SIDES), CLOUD)
    with pytest.raises(ValueError, match=r"got shape \(60, 1\)"):
        plots.plot_regions(machine, CLOUD[:, :1])
    with pytest.raises(ValueError, match="y needs 60 values"):
        plots.plot_regions(machine, CLOUD, SIDES[:3])
    with pytest.raises(ValueError, match="60 points of `fit`; got 5 points"):
        plots.plot_regions(piped, CLOUD[:5])


# Tubes

LINE = np.linspace(-3, 3, 40)[:, None]
HEIGHT = np.sinc(LINE[:, 0]) + np.random.default_rng(2).normal(scale=0.15, size=40)


def test_the_tube_is_epsilon_wide_around_the_curve():
    machine = SVR(kernel=RBF(1.0), epsilon=0.2).fit(LINE, HEIGHT)
    ax = plots.plot_tube(machine, LINE, HEIGHT).ax_
    low, high, curve = (line.get_xydata() for line in ax.lines)
    assert_allclose(curve[:, 1], machine.predict(curve[:, :1]), rtol=1e-12)
    assert_allclose(low[:, 1], curve[:, 1] - 0.2, rtol=1e-12)
    assert_allclose(high[:, 1], curve[:, 1] + 0.2, rtol=1e-12)


@pytest.mark.parametrize(
    "machine", [SVR(kernel=RBF(1.0), epsilon=0.1), NuSVR(kernel=RBF(1.0), nu=0.4)]
)
def test_support_vectors_on_the_rim_are_filled_those_outside_ringed(machine):
    machine.fit(LINE, HEIGHT)
    ax = plots.plot_tube(machine, LINE, HEIGHT).ax_
    targets = np.column_stack([LINE, HEIGHT])[machine.support_]
    at_bound = abs(machine.dual_coef_[0]) == machine.C
    assert 0 < at_bound.sum() < len(targets)
    assert as_set(drawn_at(ax, filled=True)[0]) == as_set(targets[~at_bound])
    assert as_set(drawn_at(ax, filled=False)[0]) == as_set(targets[at_bound])


def test_the_tube_of_nu_is_the_one_it_found():
    machine = NuSVR(kernel=RBF(1.0), nu=0.4).fit(LINE, HEIGHT)
    low, _, curve = (
        line.get_ydata() for line in plots.plot_tube(machine, LINE, HEIGHT).ax_.lines
    )
    epsilon = curve[0] - low[0]
    same = SVR(kernel=RBF(1.0), epsilon=epsilon).fit(LINE, HEIGHT)
    assert_allclose(same.predict(LINE), machine.predict(LINE), atol=1e-6)


def test_a_tube_reads_its_axis_from_a_data_frame():
    frame = pd.DataFrame({"dose": LINE[:, 0]})
    machine = make_pipeline(StandardScaler(), SVR()).fit(frame, HEIGHT)
    ax = plots.plot_tube(machine, frame, HEIGHT, legend=False).ax_
    assert ax.get_xlabel() == "dose"
    assert ax.get_legend() is None


def test_what_is_no_picture_of_a_tube_is_refused():
    machine = SVR().fit(LINE, HEIGHT)
    for other in (KernelRidge().fit(LINE, HEIGHT), SVC().fit(LINE, HEIGHT > 0)):
        with pytest.raises(ValueError, match="draws a support vector regression"):
            plots.plot_tube(other, LINE, HEIGHT)
    with pytest.raises(ValueError, match=r"got shape \(60, 2\)"):
        plots.plot_tube(machine, CLOUD, SIDES)
    with pytest.raises(ValueError, match="Pass those of `fit`"):
        plots.plot_tube(machine, LINE[:7], HEIGHT[:7])


# Convergence


def test_convergence_shows_the_violation_and_what_the_objective_lacks():
    history = []
    problem = svc(Gram(RBF(0.5), CLOUD), SIDES, 2.0)
    solution = SMO(tol=1e-6, working_set=8).solve(problem, watch=history.append)
    ax = plots.plot_convergence(history, optimum=-solution.dual - 1e-3, tol=1e-6).ax_
    violation, excess, tol = (line.get_xydata() for line in ax.lines)
    shown = [(step.iterations, step.violation) for step in history]
    assert_allclose(violation, [pair for pair in shown if pair[1] > 1e-14], rtol=1e-12)
    assert_allclose(
        excess[:, 1], [step.objective + solution.dual + 1e-3 for step in history]
    )
    assert (tol[:, 1] == 1e-6).all()
    assert ax.get_yscale() == "log"


def test_convergence_is_told_in_iterations_or_in_seconds():
    history = [
        Progress(k, 10 * k, 0, 0.5 * k, violation=0.1**k, objective=-k)
        for k in range(4)
    ]
    steps = plots.plot_convergence(history).ax_.lines[0].get_xdata()
    assert_allclose(steps, [0, 10, 20, 30])
    seconds = (
        plots.plot_convergence(history, against="seconds").ax_.lines[0].get_xdata()
    )
    assert_allclose(seconds, [0, 0.5, 1, 1.5])


def test_the_last_objective_is_the_optimum_unless_another_is_known():
    history = [
        Progress(k, k, 0, 0.0, violation=0.1**k, objective=3.0 - k) for k in range(4)
    ]
    excess = plots.plot_convergence(history).ax_.lines[1].get_xydata()
    assert_allclose(excess, [[0, 3], [1, 2], [2, 1]])  # 0 has no logarithm


def test_no_history_and_no_such_axis_are_refused():
    with pytest.raises(ValueError, match=r"watch=history\.append"):
        plots.plot_convergence([])
    with pytest.raises(ValueError, match="against='rounds'"):
        start = Progress(0, 0, rows=0, seconds=0.0, violation=1.0, objective=0.0)
        plots.plot_convergence([start], against="rounds")


# Losses

SIDE_LOSSES = [ZeroOne(), PerceptronLoss(), Hinge(), SquaredHinge(), Logistic()]
NUMBER_LOSSES = [Squared(), EpsilonInsensitive(0.5), Huber(), Quantile(0.9)]


@pytest.mark.parametrize("loss", SIDE_LOSSES[1:])
def test_a_loss_of_a_side_is_drawn_against_its_margin(loss):
    ax = plots.plot_losses([loss], reach=2).ax_
    z, values = ax.lines[0].get_data()
    assert (z.min(), z.max()) == (-2, 2) and 0 in z and 1 in z
    for y in (1.0, -1.0):
        assert_allclose(values, loss.value(y, y * z), rtol=1e-12)
    assert ax.get_xlabel() == "y f"


@pytest.mark.parametrize("loss", NUMBER_LOSSES)
def test_a_loss_of_a_number_is_drawn_against_the_residual(loss):
    ax = plots.plot_losses([loss]).ax_
    r, values = ax.lines[0].get_data()
    assert_allclose(values, loss.value(r + 7.0, 7.0), rtol=1e-9, atol=1e-9)
    assert ax.get_xlabel() == "y − f"


def test_the_jump_of_the_0_1_loss_is_no_line_and_its_value_there_a_dot():
    ax = plots.plot_losses([ZeroOne()]).ax_
    left, right, dot = (line.get_xydata() for line in ax.lines)
    assert (left[:, 1] == 1).all() and left[:, 0].max() <= 0
    assert (right[:, 1] == 0).all() and right[:, 0].min() > 0
    assert dot.tolist() == [[0, 1]]


def test_losses_have_a_colour_and_a_name_each():
    ax = plots.plot_losses(SIDE_LOSSES).ax_
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == [repr(loss) for loss in SIDE_LOSSES]
    handles = ax.get_legend_handles_labels()[0]
    assert len({line.get_color() for line in handles}) == len(SIDE_LOSSES)


@pytest.mark.parametrize(
    "losses", [SIDE_LOSSES, NUMBER_LOSSES], ids=["sides", "numbers"]
)
def test_conjugates_are_drawn_where_they_are_finite(losses):
    ax = plots.plot_losses(losses, conjugate=True, reach=1.5).ax_
    curves, losses = ax.lines[::2], [loss for loss in losses if loss != ZeroOne()]
    y = 1.0 if losses[0].of_sides else 0.0
    for line, dots, loss in zip(curves, ax.lines[1::2], losses, strict=True):
        u, values = line.get_data()
        assert np.isfinite(values).all()
        assert_allclose(values, loss.conjugate(y, u), rtol=1e-12)
        inside = [end for end in loss.slopes(np.array(y)) if abs(end) <= 1.5]
        assert_allclose(dots.get_xdata(), inside)


def test_losses_of_two_kinds_have_no_common_axis():
    for losses in ([Hinge(), Squared()], []):
        with pytest.raises(ValueError, match="losses of one kind"):
            plots.plot_losses(losses)


# The way of a solver

HILL = quadratic([[1.0, 0.75], [0.75, 1.0]], [0.5, 0.0], 1, -np.inf, np.inf, None)


def test_the_path_goes_uphill_along_the_axes_of_the_picture():
    found = CoordinateAscent(record=True).solve(HILL, start=[2, -2])
    ax = plots.plot_path(HILL, found.path).ax_
    way = ax.lines[0].get_xydata()
    assert_allclose(way, found.path)
    assert (np.count_nonzero(np.diff(way, axis=0), axis=1) == 1).all()
    assert tuple(way[0]) == (2, -2)
    low, high = np.transpose([ax.get_xlim(), ax.get_ylim()])
    assert (way > low).all() and (way < high).all()


def test_contours_are_those_of_what_the_solver_maximises():
    found = CoordinateAscent(record=True).solve(HILL, start=[2, -2])
    [contours] = plots.plot_path(HILL, found.path, levels=5).ax_.collections
    assert len(contours.levels) == 5
    for level, path in zip(contours.levels, contours.get_paths(), strict=True):
        a, b = path.vertices.T
        height = -(a**2 + b**2) / 2 - 0.75 * a * b - 0.5 * a
        assert_allclose(height, level, atol=0.01)


def test_variables_and_bounds_are_those_of_the_user():
    box = quadratic(
        [[2.0, 0.0], [0.0, 1.0]], [1.0, -3.0], [2.0, -1.0], -2, [5, 1], None
    )
    found = CoordinateAscent(record=True).solve(
        box, start=box.start(np.array([4.0, 1]))
    )
    ax = plots.plot_path(box, found.path).ax_
    assert_allclose(ax.lines[0].get_xydata()[-1], [-0.5, 1.0])
    walls = ax.lines[-1].get_xydata()
    assert_allclose(walls[:, 1].max(), 1.0)
    assert "bounds" in ax.get_legend_handles_labels()[1]
    without = plots.plot_path(HILL, [[2, -2], [1, 0]]).ax_
    assert "bounds" not in without.get_legend_handles_labels()[1]


def test_a_path_in_other_than_two_variables_is_refused():
    with pytest.raises(ValueError, match=r"two variables.*\(3, 4\)"):
        plots.plot_path(HILL, np.zeros((3, 4)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("classes", [2, 3])
def test_mistakes_are_drawn_below_their_bounds(classes):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), rng.integers(0, classes, 40)
    machine = KernelPerceptron(RBF(0.5), max_iter=3, random_state=0).fit(X, y)
    bounds = {f"C = {C}": mistake_bound(machine, X, y, C=C) for C in (0.1, 1.0)}
    ax = plots.plot_mistakes(machine, bounds).ax_
    functions = 1 if classes == 2 else classes
    curves = [line.get_ydata() for line in ax.lines]
    assert len(curves) == 3 * functions
    for c in range(functions):
        made, *limits = curves[c::functions]
        assert made[0] == 0 and len(made) == 3 * 40 + 1
        assert made[-1] == np.atleast_1d(machine.n_mistakes_)[c]
        for limit, bound in zip(limits, bounds.values(), strict=True):
            assert (made <= limit + 1e-9).all()
            assert_allclose(limit[-1], np.atleast_1d(bound.bound)[c])
    assert (
        len(plots.plot_mistakes(machine, bounds["C = 0.1"]).ax_.lines) == 2 * functions
    )
    assert len(plots.plot_mistakes(machine).ax_.lines) == functions


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_bound_of_another_fit_is_refused():
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    machine = KernelPerceptron(RBF(0.5), max_iter=2, random_state=0).fit(X, y)
    bound = mistake_bound(machine, X, y)
    machine.set_params(max_iter=4).fit(X, y)
    with pytest.raises(ValueError, match="after the last fit"):
        plots.plot_mistakes(machine, bound)


# Bounds


def test_bound_is_drawn_beside_what_the_loss_lacks():
    machines = [
        KernelSGDClassifier(
            kernel=RBF(0.5), reg=0, norm=2.0, learning_rate="theory", max_iter=passes
        ).fit(CLOUD, SIDES)
        for passes in (1, 1, 3)
    ]
    ax = plots.plot_sgd_bound(machines, CLOUD, SIDES, best=0.1).ax_
    draws, mean, bound = (line.get_xydata() for line in ax.lines)
    n = len(CLOUD)
    assert_allclose(draws[:, 0], [n, n, 3 * n])
    losses = [
        np.maximum(0, 1 - SIDES * machine.decision_function(CLOUD)).mean()
        for machine in machines
    ]
    assert_allclose(draws[:, 1], np.array(losses) - 0.1)
    assert_allclose(mean[:, 1], [np.mean(losses[:2]) - 0.1, losses[2] - 0.1])
    assert_allclose(bound[:, 1], 2.0 * np.sqrt(2) / np.sqrt([n, 3 * n]))
    with pytest.raises(ValueError, match="got none"):
        plots.plot_sgd_bound([], CLOUD, SIDES, best=0.0)


def test_missing_matplotlib_is_named_with_the_way_out(monkeypatch):
    imported = builtins.__import__

    def without(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return imported(name, *rest)

    for name in [name for name in sys.modules if name.startswith("mercer.plots")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    without_it = importlib.import_module("mercer.plots")
    for name in without_it.__all__:
        with pytest.raises(ImportError, match=r"mercer\[plot\]"):
            getattr(without_it, name)


# Clusters


@pytest.mark.parametrize("frame", [None, pd.DataFrame, pl.DataFrame])
def test_clusters_have_the_colour_of_their_points_and_classes_a_marker(frame):
    points = np.random.default_rng(1).normal(size=(30, 2))
    points[:15, 0] += 8
    points = points if frame is None else frame({"a": points[:, 0], "b": points[:, 1]})
    machine = KernelKMeans(2, kernel=Linear(), random_state=0).fit(points)
    ax = plots.plot_clusters(machine, points, np.arange(30) % 2).ax_
    drawn = [c for c in ax.collections if len(c.get_offsets()) > 1]
    assert sum(len(c.get_offsets()) for c in drawn) == 30
    assert len(drawn) == 4  # two clusters by two classes
    for part in drawn:
        place = part.get_offsets().data
        place = place if frame is None else frame({"a": place[:, 0], "b": place[:, 1]})
        [label] = np.unique(machine.predict(place))
        colour = matplotlib.colors.to_rgba(plots.base.COLOURS[label])
        assert_allclose(part.get_facecolor()[0], colour)


def test_walls_between_clusters_are_where_the_nearest_centroid_changes():
    points = np.array([[-1.0, 0.0], [-1.0, 1.0], [3.0, 0.0], [3.0, 1.0]])
    machine = KernelKMeans(2, kernel=Linear(), random_state=0).fit(points)
    lines = plots.plot_clusters(machine, points).artists_["lines"]
    walls = np.concatenate([p.vertices for c in lines for p in c.get_paths()])
    assert_allclose(walls[:, 0], 1.0, atol=0.01)


def test_clusters_are_drawn_in_the_plane():
    machine = KernelKMeans(2, random_state=0).fit(np.eye(3))
    with pytest.raises(ValueError, match=r"plane, \(n, 2\); got shape \(3, 3\)"):
        plots.plot_clusters(machine, np.eye(3))


# Machines without support vectors


@pytest.mark.parametrize("n_classes", [2, 3])
def test_neighbours_have_regions_and_lines_but_no_margins(n_classes):
    cloud = np.random.default_rng(1).normal(size=(40, 2))
    label = np.arange(40) % n_classes
    machine = KernelKNNClassifier(3).fit(cloud, label)
    ax = plots.plot_regions(machine, cloud, label).ax_
    dashed = [c for c in ax.collections if c.get_linestyle()[0][1] is not None]
    assert ax.collections and not dashed
    colours = ax.images[0].to_rgba(np.arange(n_classes))[:, :3]
    assert_allclose(colours, [to_rgb(c) for c in plots.COLOURS[:n_classes]], atol=0.01)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == [str(k) for k in range(n_classes)]


def test_densities_of_classes_have_a_boundary_without_margins():
    cloud = np.random.default_rng(1).normal(size=(40, 2))
    machine = ParzenClassifier().fit(cloud, cloud[:, 0] > 0)
    ax = plots.plot_regions(machine, cloud, cloud[:, 0] > 0).ax_
    levels = [c.levels for c in ax.collections if hasattr(c, "levels")]
    assert any(np.array_equal(level, [0.0]) for level in levels)
    assert not any(np.array_equal(level, [-1.0, 0.0, 1.0]) for level in levels)


def test_contours_of_a_density_surround_the_shares_of_the_points():
    cloud = np.random.default_rng(1).normal(size=(200, 2))
    machine = ParzenDensity(0.4).fit(cloud)
    ax = plots.plot_density(machine, cloud, shares=(0.3, 0.9)).ax_
    lines = [c.levels for c in ax.collections if hasattr(c, "levels")][-1]
    logs = machine.score_samples(cloud)
    assert_allclose([np.mean(logs >= level) for level in lines], [0.9, 0.3], atol=0.01)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["point", "90% of the points", "30% of the points"]


def test_a_density_names_the_columns_of_a_frame():
    frame = pd.DataFrame(X, columns=["width", "height"])
    ax = plots.plot_density(ParzenDensity(1.0).fit(frame), frame, legend=False).ax_
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("width", "height")
    assert ax.get_legend() is None


def test_a_density_is_drawn_in_the_plane_with_shares_that_grow():
    machine = ParzenDensity(1.0).fit(X)
    with pytest.raises(ValueError, match="increasing shares"):
        plots.plot_density(machine, X, shares=(0.9, 0.5))
    with pytest.raises(ValueError, match="points of the plane"):
        plots.plot_density(ParzenDensity(1.0).fit(X[:, :1]), X[:, :1])
    with pytest.raises(NotFittedError):
        plots.plot_density(ParzenDensity(), X)


# Components


def test_component_has_its_contours_and_its_eigenvalue():
    machine = KernelPCA(2, kernel=RBF(0.5)).fit(CLOUD)
    display = plots.plot_component(machine, CLOUD, 1)
    ax = display.ax_
    assert display.artists_["bar"].ax.get_ylabel().startswith("f₂")
    assert ax.get_title() == f"λ₂ = {machine.eigenvalues_[1]:.2f}"
    zero = display.artists_["zero"].get_paths()[0].vertices
    size = np.abs(machine.transform(CLOUD)[:, 1]).max()
    assert np.abs(machine.transform(zero)[:, 1]).max() < 0.01 * size


def test_component_of_a_frame_names_its_columns():
    frame = pd.DataFrame(CLOUD, columns=["length", "width"])
    ax = plots.plot_component(KernelPCA(1, kernel="rbf").fit(frame), frame).ax_
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("length", "width")


def test_component_that_cannot_be_drawn_is_refused():
    machine = KernelPCA(2, kernel="rbf").fit(CLOUD)
    with pytest.raises(ValueError, match="one of 2 components"):
        plots.plot_component(machine, CLOUD, 2)
    with pytest.raises(ValueError, match="points of the plane"):
        plots.plot_component(machine, CLOUD[:, :1])


def test_a_band_is_two_deviations_wide_and_rings_its_vectors():
    x = np.linspace(-4, 4, 40)[:, None]
    y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
    machine = RVR(RBF(0.5)).fit(x, y)
    ax = plots.plot_band(machine, x, y).ax_
    line, mean = ax.lines[0].get_data()
    expected, deviation = machine.predict(line[:, None], return_std=True)
    assert_allclose(mean, expected)
    edge = ax.collections[0].get_paths()[0].vertices
    assert_allclose(edge[:, 1].max(), (expected + 2 * deviation).max())
    rings = ax.collections[-1].get_offsets()
    places = machine.relevance_
    assert_allclose(rings, np.column_stack([x[places, 0], y[places]]))


def test_probabilities_of_two_classes_ring_the_relevance_vectors():
    points = np.random.default_rng(1).normal(size=(60, 2))
    machine = RVC(RBF(0.5)).fit(points, points[:, 0] * points[:, 1] > 0)
    ax = plots.plot_probabilities(machine, points, points[:, 0] * points[:, 1] > 0).ax_
    rings = ax.collections[-1].get_offsets()
    assert_allclose(rings, machine.relevance_vectors_)


def test_what_is_no_picture_of_a_band_or_of_probabilities_is_refused():
    three = RVC(RBF(0.5)).fit(X, LABELS)
    with pytest.raises(ValueError, match="3 classes"):
        plots.plot_probabilities(three, X, LABELS)
    with pytest.raises(ValueError, match=r"\(n, 1\); got shape \(9, 2\)"):
        plots.plot_band(RVR().fit(X, X[:, 0]), X, X[:, 0])
    assert len(plots.plot_regions(three, X, LABELS).ax_.collections) > 3


@looped(
    "name", "KernelPerceptron KernelLogisticRegression RVC KernelSGDClassifier".split()
)
def test_machines_without_support_vectors_have_regions(name):
    X = np.random.default_rng(0).normal(size=(30, 2))
    machine = getattr(mercer, name)(kernel=RBF(1.0)).fit(X, X[:, 0] > 0)
    assert plots.plot_regions(machine, X, X[:, 0] > 0).ax_.collections
