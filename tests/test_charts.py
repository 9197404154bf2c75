"""The charts of the site: their file, how it takes new figures, what is drawn of it."""

import json
import re
import sys
from copy import deepcopy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CHARTS = json.loads((ROOT / "docs" / "_data" / "benchmarks.json").read_text("utf-8"))
PAGE = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^```\{benchmark\} (.+)$", PAGE, flags=re.MULTILINE)


@pytest.fixture
def record(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import record

    yield record
    del sys.modules["record"]


@pytest.fixture
def drawing(monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pytest.importorskip("sphinx", reason="the charts are a directive of Sphinx")
    pyplot.switch_backend("Agg")
    monkeypatch.syspath_prepend(ROOT / "docs" / "extensions")
    import charts

    yield charts
    del sys.modules["charts"]
    pyplot.close("all")


@pytest.fixture
def measured(tmp_path, record, monkeypatch):
    """A folder as `run.py` leaves it, with rows of two charts."""
    monkeypatch.setenv(record.FILE, str(tmp_path / "any.jsonl"))
    monkeypatch.setattr(sys, "argv", ["/x/benchmarks/svm.py", "--repeats", "9"])
    row = {"mercer": 2.0, "sklearn": 5.00004, "libsvm": None}
    record.record("svm", "MNIST  odd/even 30k C=1", row, SVs=7)
    record.record("new", "1 x 2", {"mercer": 1.0, "numpy": 3.0}, "ms")
    about = {"date": "2030-01-02", "machine": "a machine", "full": True}
    (tmp_path / record.MACHINE).write_text(json.dumps(about))
    return tmp_path


def test_every_chart_of_the_file_is_on_the_page():
    assert sorted(SHOWN) == sorted(CHARTS)


@pytest.mark.parametrize("name", CHARTS)
def test_every_row_has_our_figure_and_all_are_positive(name):
    for row in CHARTS[name]["rows"]:
        assert "mercer" in row["figures"]
        assert min(row["figures"].values()) > 0
        assert set(row.get("ratios", ())) <= set(row["figures"])


@pytest.mark.parametrize("row", CHARTS["speed"]["rows"], ids=lambda row: row["task"])
def test_a_row_of_the_readme_says_which_row_it_comes_from(row):
    chart, task, peer = row["from"]
    (found,) = (one for one in CHARTS[chart]["rows"] if one["task"] == task)
    assert peer in found["figures"] and peer in row["figures"]


def test_a_measured_chart_is_replaced_as_a_whole(record, measured):
    charts = deepcopy(CHARTS)
    assert record.taken(charts, measured, []) == ["svm", "new"]
    (row,) = charts["svm"]["rows"]
    assert row["figures"] == {"mercer": 2.0, "scikit-learn": 5.0}
    assert row["notes"] == {"SVs": "7"}
    assert charts["svm"]["command"] == "python benchmarks/svm.py --repeats 9"
    assert charts["svm"]["date"] == "2030-01-02"
    assert charts["new"]["rows"][0]["task"] == "1 × 2"
    assert charts["gram"] == CHARTS["gram"]


def test_the_chart_of_the_readme_follows_what_was_measured(record, measured):
    charts = deepcopy(CHARTS)
    record.taken(charts, measured, [])
    before, after = CHARTS["speed"]["rows"], charts["speed"]["rows"]
    assert after[0]["figures"] == {"mercer": 2.0, "scikit-learn": 5.0}
    assert after[1:] == before[1:]


def test_only_the_charts_asked_for_are_taken(record, measured):
    charts = deepcopy(CHARTS)
    assert record.taken(charts, measured, ["new"]) == ["new"]
    assert charts["svm"] == CHARTS["svm"]


def test_figures_of_quick_sizes_are_refused(record, measured):
    about = json.loads((measured / record.MACHINE).read_text())
    (measured / record.MACHINE).write_text(json.dumps(about | {"full": False}))
    with pytest.raises(SystemExit, match="quick sizes"):
        record.taken({}, measured, [])


def test_what_is_written_is_read_back(record):
    assert json.loads(record.written(CHARTS)) == CHARTS


def test_nothing_is_recorded_where_no_file_is_named(record, monkeypatch, tmp_path):
    monkeypatch.delenv(record.FILE, raising=False)
    monkeypatch.chdir(tmp_path)
    record.record("svm", "a task", {"mercer": 1.0})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", CHARTS)
def test_the_table_of_a_chart_has_every_figure(drawing, name):
    table = "\n".join(drawing.table(CHARTS[name]))
    assert table.count("\n") == len(CHARTS[name]["rows"]) + 1
    for row in CHARTS[name]["rows"]:
        for figure in row["figures"].values():
            assert f"{figure:.4g}" in table


def test_a_bar_ends_at_the_ratio(drawing):
    ax = drawing.bars("svm growth")
    ends = [bar.get_x() + bar.get_width() for bar in ax.patches if bar.get_width()]
    expected = [
        figure / row["figures"]["mercer"]
        for row in CHARTS["svm growth"]["rows"]
        for who, figure in row["figures"].items()
        if who != "mercer"
    ]
    assert ends == pytest.approx(expected)


def test_a_line_has_every_size(drawing):
    ax = drawing.lines("svm growth")
    sizes = [int(row["task"]) for row in CHARTS["svm growth"]["rows"]]
    assert all(list(line.get_xdata()) == sizes for line in ax.lines)
    assert len(ax.lines) == 3


def test_the_exponent_of_a_power_is_found(drawing):
    assert drawing.exponent([(n, 5 * n**1.5) for n in (10, 40, 70)]) == pytest.approx(
        1.5
    )
