"""Run every benchmark of this folder, one after the other, and keep their tables.

    python benchmarks/run.py                 # quick sizes, into out/bench
    python benchmarks/run.py out/today       # into another folder
    python benchmarks/run.py --full          # each with its own defaults: an hour
    python benchmarks/run.py --only svm      # scripts whose name has this word

A table is shown while it grows, and written to FOLDER/NAME.txt; its figures go to
FOLDER/NAME.jsonl too, from where `record.py` takes them into the charts of the site.
Run nothing else meanwhile. Scripts whose data or peers are missing say so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from record import FILE, MACHINE, describe

HERE = Path(__file__).resolve().parent

# What makes a script quick; those not named have nothing to shorten.
QUICK = {
    "approximate": ["4000", "--size", "200"],
    "coordinate": ["1000"],
    "gram": ["--quick", "--repeats", "3"],
    "kmeans": ["--points", "1000"],
    "linear_svm": ["--quick"],
    "multiple_kernels": ["breast", "--splits", "2", "--repeats", "3"],
    "neighbors": ["--quick"],
    "pca": ["2000", "--repeats", "1"],
    "plan": ["--repeat", "1", "letter", "spectrum", "3,000", "5,000"],
    "regularized": ["--quick", "--repeats", "1"],
    "rvm": ["--repeats", "1"],
    "scale": ["20000", "--size", "200"],
    "search": ["--quick"],
    "sgd": ["times"],
    "sparse": ["--quick", "--repeats", "1"],
    "structured_generative": ["--repeats", "1"],
    "structured_graphs": ["--only", "MUTAG", "--repeats", "1"],
    "structured_strings": ["--points", "300", "--peer-points", "30", "--repeats", "1"],
    "structured_trees": ["--trees", "300", "--repeats", "3"],
    "svm": ["--quick", "--repeats", "1"],
}


def scripts(word: str) -> list[Path]:
    tools = ("run", "record")
    found = [path for path in sorted(HERE.glob("*.py")) if path.stem not in tools]
    return [path for path in found if word in path.stem]


def run(script: Path, options: list[str], target: Path) -> int:
    """The exit code; the output is shown and written."""
    command = [sys.executable, "-u", str(script), *options]
    print(f"== {script.stem} {' '.join(options)}", flush=True)
    rows = target.with_suffix(".jsonl")
    rows.unlink(missing_ok=True)
    with (
        target.open("w", encoding="utf-8") as file,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {FILE: str(rows.resolve())},
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            print(line, end="", flush=True)
    return process.returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("out/bench"))
    parser.add_argument("--full", action="store_true", help="each with its defaults")
    parser.add_argument("--only", default="", help="scripts with this word")
    options = parser.parse_args()
    chosen = scripts(options.only)
    if not chosen:
        parser.error(f"no benchmark has {options.only!r} in its name")
    options.folder.mkdir(parents=True, exist_ok=True)
    about = json.dumps(describe(options.full), indent=1)
    (options.folder / MACHINE).write_text(about + "\n", encoding="utf-8")
    failed = []
    for script in chosen:
        begin = time.monotonic()
        quick = [] if options.full else QUICK.get(script.stem, [])
        if run(script, quick, options.folder / f"{script.stem}.txt"):
            failed.append(script.stem)
        print(f"-- {time.monotonic() - begin:.0f} s\n", flush=True)
    print(f"The tables are in {options.folder.resolve()}.")
    if failed:
        print("Not all of it ran:", ", ".join(failed))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
