"""One palette, one style, and one way to show or save the figures of a script."""

import sys
from itertools import combinations

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from looped import looped
from matplotlib.colors import to_rgb, to_rgba

from mercer import SVC, plots

LIGHT = "mercer.plots.light"
DARK = [LIGHT, "mercer.plots.dark"]

# How colours are seen without cones of one kind (Machado, Oliveira and Fernandes 2009).
VISION = {
    "all cones": np.eye(3),
    "no red cones": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no green cones": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no blue cones": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


@pytest.fixture(autouse=True)
def fresh():
    plt.close("all")
    with plt.rc_context():
        yield
    plt.close("all")


def seen(colour, cones):
    """CIE L*a*b* of a colour, in which distances are those that the eye sees."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(np.array(cones) @ linear, 0, 1)
    xyz = TO_XYZ @ linear / [0.95047, 1.0, 1.08883]
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@looped("vision", list(VISION))
def test_colours_of_eight_classes_are_told_apart(vision):
    places = [seen(colour, VISION[vision]) for colour in plots.COLOURS[:8]]
    apart = [np.linalg.norm(a - b) for a, b in combinations(places, 2)]
    assert min(apart) > 15
    assert apart[0] > 80  # the first two, of most pictures


def test_red_and_green_would_not_be():
    cones = VISION["no green cones"]
    red, green = (seen(colour, cones) for colour in ("tab:red", "tab:green"))
    assert np.linalg.norm(red - green) < 40


def test_ten_classes_have_a_colour_and_a_marker_each():
    assert len(set(plots.COLOURS)) == len(set(plots.MARKERS)) == 10


def test_the_style_has_the_colours_of_the_classes():
    plt.style.use(LIGHT)
    assert [to_rgb(f"C{k}") for k in range(10)] == list(map(to_rgb, plots.COLOURS))


@looped("style, dark", [(LIGHT, False), (DARK, True)])
def test_lines_stand_out_on_light_and_on_dark_pages(style, dark):
    X, y = np.array([[0.0, 0], [1, 1], [3, 3], [4, 5]]), [0, 0, 1, 1]
    with plt.rc_context():
        plt.style.use(style)
        display = plots.plot_regions(SVC(kernel="linear").fit(X, y), X, y)
        lines = display.artists_["lines"].get_edgecolor()
        page = np.mean(to_rgba(display.figure_.get_facecolor())[:3])
    assert (page < 0.2) == dark
    assert (abs(np.mean(lines[:, :3], axis=1) - page) > 0.8).all()


def test_a_display_knows_its_axes_and_figure():
    figure, ax = plt.subplots()
    display = plots.plot_gram(np.eye(2), ax=ax)
    assert display.ax_ is ax and display.figure_ is figure


def test_figures_are_shown_once_without_a_folder(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(plt, "show", lambda: calls.append(plt.get_fignums()))
    monkeypatch.setattr(sys, "argv", ["plot_x.py"])
    monkeypatch.chdir(tmp_path)
    plt.figure()
    assert plots.show_or_save() == []
    assert calls == [[1]] and not list(tmp_path.iterdir())


def test_figures_are_written_where_asked_and_said_where(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(plt, "show", lambda: pytest.fail("a window was opened"))
    folder = tmp_path / "new" / "pictures"
    arguments = ["examples/plot_x.py", "all", "--save", str(folder)]
    monkeypatch.setattr(sys, "argv", arguments)
    for height in (1, 2):
        plt.figure(figsize=(2, height))
    files = plots.show_or_save()
    assert files == [folder / "x_1.png", folder / "x_2.png"]
    shapes = [plt.imread(file).shape for file in files]
    assert shapes[1][0] == 2 * shapes[0][0]
    assert capsys.readouterr().out == "".join(f"wrote {file}\n" for file in files)


def test_a_folder_that_is_not_named_is_asked_for(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["plot_x.py", "--save"])
    with pytest.raises(ValueError, match="--save DIR"):
        plots.show_or_save()
