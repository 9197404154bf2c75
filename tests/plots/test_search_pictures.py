"""Pictures of searches."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV

from mercer import RBF, SVC, KernelSearchCV, Normalized, Spectrum
from mercer.plots import plot_search
from mercer.plots.search import _text

X, y = make_moons(60, noise=0.2, random_state=0)
GRID = {"C": [0.1, 1.0, 10.0], "gamma": [0.1, 1.0], "tol": [1e-3, 1e-4]}


@pytest.fixture(autouse=True)
def no_figures_stay():
    yield
    plt.close("all")


def test_cells_have_the_best_scores_and_the_best_is_framed():
    search = KernelSearchCV(SVC(), GRID, cv=2).fit(X, y)
    display = search.plot()
    scores = display.artists_["image"].get_array()
    results = search.cv_results_
    for i, gamma in enumerate(GRID["gamma"]):
        for j, C in enumerate(GRID["C"]):
            there = [
                score
                for params, score in zip(
                    results["params"], results["mean_test_score"], strict=True
                )
                if (params["C"], params["gamma"]) == (C, gamma)
            ]
            assert scores[i, j] == max(there)
    column, row = (int(0.5 + part) for part in display.artists_["best"].get_xy())
    assert scores[row, column] == search.best_score_
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("C", "gamma")


def test_axes_can_be_chosen_and_searches_be_scikit_learns():
    search = GridSearchCV(SVC(), GRID, cv=2).fit(X, y)
    display = plot_search(search, x="gamma", y="tol")
    assert display.artists_["image"].get_array().shape == (2, 2)
    with pytest.raises(ValueError, match="did not vary 'degree'"):
        plot_search(search, x="degree")


def test_one_parameter_is_a_line():
    search = KernelSearchCV(SVC(), {"C": [0.1, 1.0, 10.0, 100.0]}, cv=2).fit(X, y)
    display = search.plot()
    assert display.ax_.get_xscale() == "log"
    assert display.artists_["best"].get_ydata() == [search.best_score_]
    kernels = KernelSearchCV(SVC(), [RBF(0.1), RBF(1.0)], cv=2).fit(X, y).plot()
    shown = [label.get_text() for label in kernels.ax_.get_xticklabels()]
    assert shown == ["RBF(0.1)", "RBF(1.0)"]


def test_kernels_are_written_briefly():
    assert _text(Normalized(Spectrum(2))) == "Normalized(Spectrum(2))"
    assert _text(None) == "None" and _text(0.12345) == "0.123"
    assert len(_text(RBF(0.1) + RBF(0.2) + RBF(0.3) + RBF(0.4))) == 32


def test_several_scores_need_a_name():
    options = {"scoring": ["accuracy", "f1"], "refit": False}
    search = KernelSearchCV(SVC(), {"C": [1, 10]}, cv=2, **options).fit(X, y)
    with pytest.raises(ValueError, match="which one"):
        search.plot()


def test_halving_shows_the_last_rung():
    X, y = make_moons(300, noise=0.2, random_state=0)
    grid = {"C": np.logspace(-2, 2, 5), "gamma": [0.1, 1.0, 10.0]}
    search = KernelSearchCV(SVC(), grid, cv=2, halving=True, random_state=0).fit(X, y)
    scores = search.plot().artists_["image"].get_array()
    last = search.cv_results_["iter"] == search.cv_results_["iter"].max()
    assert np.isfinite(scores).sum() <= last.sum()
