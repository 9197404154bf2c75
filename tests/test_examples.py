"""Every example runs without a warning and draws what can be looked at."""

import ast
import os
import re
import runpy
import sys
import warnings
from bisect import bisect
from pathlib import Path

import numpy as np
import pytest
from looped import looped
from threadpoolctl import threadpool_limits

matplotlib = pytest.importorskip(
    "matplotlib", reason="the examples draw with matplotlib: pip install mercer[plot]"
)
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

FOLDER = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(FOLDER.glob("plot_*.py"))
DRAWN_ON = re.compile(r"\.(subplots|subfigures|figure|add_subplot)\(")
each_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)


def run(script, monkeypatch, *arguments):
    """Run a script as from the command line, every warning an error."""
    if "import dask" in script.read_text(encoding="utf-8"):
        pytest.importorskip("distributed", reason="the extra dask is not installed")
    monkeypatch.setattr(sys, "argv", [str(script), *map(str, arguments)])
    # Where other processes keep the cores busy, BLAS threads spend their time waiting
    # for each other; one thread does this little work in a few seconds anywhere.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(script), run_name="__main__")


def saved(file):
    """The pixels of a picture, (h, w, 3) whole numbers."""
    return (plt.imread(file)[..., :3] * 255).astype(np.int16)


def shows_something(pixels):
    """Whether 0.1 % of an (h, w, 3) picture is coloured: empty axes are grey."""
    return np.mean(np.ptp(pixels, axis=2) > 40) > 0.001


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """An empty working directory; no figures and no settings left behind."""
    monkeypatch.chdir(tmp_path)
    beside = FOLDER.parent.parent / "shared" / "data"
    monkeypatch.setenv("MERCER_DATA", os.environ.get("MERCER_DATA", str(beside)))
    plt.close("all")
    with plt.rc_context():
        yield
    plt.close("all")


def test_there_are_examples():
    assert SCRIPTS


@pytest.mark.gallery
@each_script
def test_an_example_runs_and_its_figures_are_complete(
    script, tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "pictures"
    run(script, monkeypatch, "--save", folder)
    assert plt.get_fignums(), "an example draws at least one figure"
    name = script.stem.removeprefix("plot_")
    files = [folder / f"{name}_{k + 1}.png" for k in range(len(plt.get_fignums()))]
    assert sorted(folder.iterdir()) == sorted(files)
    assert list(tmp_path.iterdir()) == [folder], "it writes nothing else"
    said = capsys.readouterr().out.splitlines()[-len(files) :]
    assert said == [f"wrote {file}" for file in files]
    # A glyph that the font lacks, or a layout without room, was a warning by now.
    for number, file in zip(plt.get_fignums(), files, strict=True):
        figure = plt.figure(number)
        box, size = figure.get_tightbbox(), figure.get_size_inches()
        assert (box.min >= -0.02).all() and (box.max <= size + 0.02).all(), "clipped"
        assert all(ax.has_data() for ax in figure.axes)
        assert shows_something(saved(file))


@looped("script", SCRIPTS)
def test_an_example_opens_with_a_title_and_has_cells(script):
    text = script.read_text(encoding="utf-8")
    title, rule, *explanation = ast.get_docstring(ast.parse(text)).splitlines()
    assert rule == "=" * len(title)
    assert any(line.strip() for line in explanation)
    assert "\n# %%\n" in text


@looped("script", SCRIPTS)
def test_an_example_has_the_style_and_ends_by_showing_or_saving(script):
    lines = script.read_text(encoding="utf-8").splitlines()
    assert lines.count('plt.style.use("mercer.plots.light")') == 1
    assert lines[-1] == "show_or_save()"
    assert not any("plt.show" in line or "savefig" in line for line in lines)


@looped("script", SCRIPTS)
def test_a_figure_is_complete_in_its_cell(script):
    """The gallery and notebooks show the figures of a cell when it ends."""
    text = script.read_text(encoding="utf-8")
    starts = [i for i, line in enumerate(text.splitlines(), 1) if line == "# %%"]
    made_in = {}  # names of figures and axes, with the cell that made them
    for statement in ast.parse(text).body:
        cell = bisect(starts, statement.lineno)
        if isinstance(statement, ast.FunctionDef):
            continue
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        for node in names:
            if node.id not in stored:
                assert made_in.get(node.id, cell) == cell, f"{node.id}: {node.lineno}"
        made_in = {name: made_in[name] for name in made_in.keys() - stored}
        if DRAWN_ON.search(ast.unparse(statement)):
            made_in |= dict.fromkeys(stored, cell)


@looped("script", SCRIPTS)
def test_an_example_runs_as_a_notebook_too(script):
    assert "__file__" not in script.read_text(encoding="utf-8")


@looped("script", SCRIPTS)
def test_an_example_takes_its_colours_from_the_palette(script):
    text = script.read_text(encoding="utf-8")
    # Other reds and greens are not told apart by all, or from those of classes.
    for colour in ("tab:", "crimson", "RdBu", "coolwarm", "tab10", '"red"', '"green"'):
        assert colour not in text


@pytest.mark.slow
def test_the_demo_runs_and_draws_its_picture(tmp_path, monkeypatch):
    run(FOLDER / "demo.py", monkeypatch, "--save", tmp_path / "pictures")
    picture = tmp_path / "pictures" / "demo.png"
    assert shows_something(saved(picture))
