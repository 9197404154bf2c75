"""The figures of benchmarks as JSON, and those that the site draws its charts from.

    python benchmarks/run.py out/bench --full    # writes NAME.jsonl beside NAME.txt
    python benchmarks/record.py out/bench        # takes them into docs/_data
    python benchmarks/record.py out/bench svm pca    # these charts alone

What `run.py` does not run goes there too, if its file is named:

    MERCER_BENCH_RECORD=out/bench/growth.jsonl python benchmarks/svm.py --growth

A chart is replaced as a whole, so that its rows are of one run; charts that were not
measured stay as they are. The rows of the chart "speed", which stands in the README,
are taken from other charts, as they say in "from"; `tools/pictures.py` draws it anew.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

CHARTS = Path(__file__).resolve().parent.parent / "docs" / "_data" / "benchmarks.json"
MACHINE = "machine.json"  # beside the tables: what they were measured on, and how
FILE = "MERCER_BENCH_RECORD"  # the variable that names the file for the rows
NAMES = {
    "sklearn": "scikit-learn",
    "sklearn randomized": "scikit-learn, randomized",
    "sklearn auto": "scikit-learn, auto",
    "sklearnex": "scikit-learn-intelex",
    "libsvm": "LIBSVM",
    "liblinear": "LIBLINEAR",
}
PACKAGES = ("numpy", "scipy", "scikit-learn", "scikit-learn-intelex", "grakel",
            "tslearn", "hmmlearn", "libsvm-official")  # fmt: skip


def record(chart: str, task: object, figures: dict, unit: str = "s", **notes) -> None:
    """Keep a row of a chart: {who: figure}, and what else its table is to say.

    Nothing happens where no file is named, that is, outside of `run.py`.
    """
    if not os.environ.get(FILE):
        return
    shown = {NAMES.get(who, who): _short(one) for who, one in figures.items() if one}
    said = {key.replace("_", " "): str(value) for key, value in notes.items()}
    name = " ".join(str(task).split()).replace(" x ", " × ")
    row: dict[str, Any] = {"task": name, "figures": shown}
    row |= {"notes": said} if said else {}
    with open(os.environ[FILE], "a", encoding="utf-8") as file:
        about = {"chart": chart, "unit": unit, "command": _command()}
        print(json.dumps(about | row), file=file)


def _command() -> str:
    script, *options = sys.argv
    return " ".join(["python", f"benchmarks/{Path(script).name}", *options])


def _short(figure: float) -> float:
    return float(f"{figure:.4g}")


def describe(full: bool) -> dict[str, Any]:
    """The machine and the day, for the file `MACHINE` of a run."""
    from mercer.native.threads import instruction_set, threads

    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    python = ".".join(map(str, sys.version_info[:2]))
    text = f"{threads()} threads, {instruction_set()}, Python {python}, "
    today = datetime.date.today().isoformat()
    return {"date": today, "machine": text + ", ".join(found), "full": full}


def taken(charts: dict[str, Any], folder: Path, only: list[str]) -> list[str]:
    """Replace the charts that were measured in the folder; their names."""
    about = json.loads((folder / MACHINE).read_text(encoding="utf-8"))
    if not about.pop("full"):
        raise SystemExit(
            f"The figures in {folder} are of quick sizes. Measure with "
            "benchmarks/run.py --full."
        )
    new: dict[str, Any] = {}
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            name = row.pop("chart")
            if only and name not in only:
                continue
            how = {key: row.pop(key) for key in ("command", "unit")}
            chart = new.setdefault(name, about | how)
            chart.setdefault("rows", []).append(row)
    charts.update(new)
    refresh_speed(charts, new)
    return list(new)


def refresh_speed(charts: dict[str, Any], new: dict[str, Any]) -> None:
    """Take the rows of the chart "speed" from where they come from, if that is new."""
    for row in charts.get("speed", {}).get("rows", []):
        chart, task, peer = row["from"]
        for one in new.get(chart, {"rows": []})["rows"]:
            if one["task"] == task and {"mercer", peer} <= one["figures"].keys():
                row["figures"] = {who: one["figures"][who] for who in ("mercer", peer)}
                row["date"] = new[chart]["date"]
                row.pop("ratios", None)


def written(charts: dict[str, Any]) -> str:
    """The charts as JSON, a row on a line."""
    parts = []
    for name, chart in charts.items():
        rows = [json.dumps(row, ensure_ascii=False) for row in chart["rows"]]
        about = {key: value for key, value in chart.items() if key != "rows"}
        opening = json.dumps(about, ensure_ascii=False)[:-1]
        lines = ",\n   ".join(rows)
        parts.append(f' {json.dumps(name)}: {opening}, "rows": [\n   {lines}]}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="what benchmarks/run.py wrote")
    parser.add_argument("charts", nargs="*", help="these alone")
    options = parser.parse_args()
    charts = json.loads(CHARTS.read_text(encoding="utf-8"))
    names = taken(charts, options.folder, options.charts)
    CHARTS.write_text(written(charts), encoding="utf-8")
    print(f"{CHARTS}: {', '.join(names) or 'nothing new'}")


def memory_is_known(gigabytes: int = 3) -> None:
    """Have another process write to some memory, before something is timed.

    In a virtual machine, whoever comes first to a page waits until there is one: two
    seconds for a gigabyte, where it takes a quarter of one otherwise.
    """
    written = f"import numpy; numpy.ones({gigabytes * 2**27})"
    subprocess.run([sys.executable, "-c", written], check=True)


if __name__ == "__main__":
    main()
