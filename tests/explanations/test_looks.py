"""Tables and pictures of explanations."""

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt

from mercer import (
    RBF,
    SVC,
    Graph,
    KernelRidge,
    On,
    Polynomial,
    Spectrum,
    Subsequence,
    SubsetTree,
    WeisfeilerLehman,
    explain,
)
from mercer.plots import plot_explanation

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def explained(kernel, X, new, **options):
    machine = KernelRidge(kernel=kernel).fit(X, np.arange(len(X)) - 1.0)
    return explain(machine, [new], **options)[0]


WORDS = ["abab", "bbaa", "abba"]
TREES = ["(S (A a) (B b))", "(S (A b) (B b))", "(S (A a))"]
GRAPHS = [Graph([(0, 1), (1, 2)], "CNO"), Graph([(0, 1)], "CC"), Graph([(0, 1)], "CO")]


def test_a_table_has_the_total_the_parts_their_places_and_the_bias():
    machine = SVC(kernel=Spectrum(1), C=10).fit(["aabc", "abac", "bba"], [0, 0, 1])
    [explanation] = explain(machine, ["bbaabc"], n=2)
    text = str(explanation)
    assert text == repr(explanation)
    title, *rows = text.splitlines()
    assert title.startswith(f"f(x) = {explanation.total:.4g} for 1 against 0, ")
    assert title.endswith("by features")
    assert len(rows) == 4 and "at " in rows[0]
    assert "rest" in rows[2] and "bias" in rows[3]
    page = explanation._repr_html_()
    assert page.count("<tr>") == 4 and "1 against 0" in page


def test_html_is_escaped():
    explanation = explained(Spectrum(1), ["<b>", "ab", "cc"], "<b>")
    assert "substring &#x27;&lt;&#x27;" in explanation._repr_html_()


def test_places_are_written_as_stretches_or_as_lists():
    explanation = explained(Subsequence(2, 0.5), ["ab", "cab", "ba"], "acb")
    places = {name: text for _, name, text in explanation.rows()}
    assert places["subsequence 'ab'"] == "at 0 2"
    assert places["subsequence 'cb'" if "subsequence 'cb'" in places else "bias"] in (
        "at 1-2",
        "",
    )


def test_letters_are_coloured_by_what_they_add():
    explanation = explained(Spectrum(2), WORDS, "abbb")
    display = explanation.plot()
    tokens = display.artists_["tokens"]
    assert [token.get_text() for token in tokens] == list("abbb")
    weights = display.artists_["colours"].get_array()
    expected = [explanation.items.get(i, 0.0) for i in range(4)]
    np.testing.assert_allclose(np.ravel(weights), expected)
    assert display.ax_.get_title() == explanation.heading()


@pytest.mark.parametrize(
    "kernel, X, artist",
    [
        (SubsetTree(0.5), TREES, "labels"),
        (WeisfeilerLehman(1), GRAPHS, "nodes"),
        (Polynomial(2), np.eye(3), "bars"),
        (RBF(0.5), np.eye(3), "bars"),
        (On(0, Spectrum(1)), [("ab", 1.0), ("b", 2.0), ("a", 3.0)], "bars"),
    ],
)
def test_each_kind_of_point_has_its_picture(kernel, X, artist):
    figure, ax = plt.subplots()
    display = plot_explanation(explained(kernel, X, X[0]), ax)
    assert display.ax_ is ax and artist in display.artists_
    figure.canvas.draw()


def test_bars_are_the_parts_and_the_bias():
    explanation = explained(RBF(0.5), np.eye(3), np.zeros(3))
    display = explanation.plot()
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names == [*(part.name for part in explanation.parts), "bias"]
    widths = [bar.get_width() for bar in display.artists_["bars"]]
    values = [part.value for part in explanation.parts]
    np.testing.assert_allclose(widths, [*values, explanation.bias])


def test_a_long_string_has_bars():
    explanation = explained(Spectrum(1), WORDS, "ab" * 100)
    assert "bars" in explanation.plot().artists_


def test_points_that_f_stands_on_have_bars():
    explanation = explained(Spectrum(1), WORDS, "ab", by="points")
    assert "bars" in explanation.plot().artists_
