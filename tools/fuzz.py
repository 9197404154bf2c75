"""Feed parsers with damaged files, on the core built with ASan and UBSan.

python tools/fuzz.py                    for a minute
python tools/fuzz.py --runs 10000000    so many files in all
python tools/fuzz.py --first 1234 --runs 1    one of them again

File number i is the same in every run. What a parser refuses with ValueError is well;
any other exception, a crash, or numbers that differ from those of the slow twin in
tests/ is a finding: the file is kept in out/fuzz, and its number is printed.
Needs what tools/sanitize.py needs.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import sanitize

ROOT = Path(__file__).resolve().parent.parent
BATCH = 1000  # files between two notes of how far it has come

TEXT = b"""\
+1 1:0.5 3:2e-1 7:12345678901234567890
-1 2:.25 # a comment
3,4.5,-6 qid:12 1:-7. 2:1E2 3:+4e-310
0 9007199254740992:1
  2:3 4:5\r
1e308 1:1.7976931348623157e308 2:5e-324\f3:0x1
"""
MODEL = b"""\
svm_type c_svc
kernel_type polynomial
degree 3
gamma 0.5
coef0 1
nr_class 3
total_sv 3
rho 0.1 0.2 0.3
label 1 2 -3
probA -1 -2 -3
probB 0 0.1 -0.1
nr_sv 1 1 1
SV
1 0.5 1:0.5 3:1
-1 0.25 2:1
-0.5 -0.25 1:2
"""
PIECES = (
    b":|,| |\n|\r|\t|#|-|+|.|e|E|0|1|9|99999999999999999999|1e400|1e-400|nan|inf|qid:|"
    b"SV\n|0:|1:1|\x00|\xff|total_sv|nr_class 1|one_class|precomputed|sigmoid"
).split(b"|")


def damaged(number: int, seed: bytes) -> bytes:
    """The file of this number: some bytes of a good one cut, copied or replaced."""
    draw = random.Random(number)
    text = bytearray(seed)
    for _ in range(draw.choice((1, 1, 2, 3, 8))):
        at, length = draw.randrange(len(text) + 1), draw.choice((0, 0, 1, 2, 5, 40))
        kind = draw.randrange(4)
        if kind == 0:
            text[at : at + length] = draw.choice(PIECES)
        elif kind == 1:
            text[at:at] = text[at : at + length] * draw.choice((1, 2, 30))
        elif kind == 2 and text:
            text[at % len(text)] = draw.randrange(256)
        else:
            del text[at : at + length]
    return bytes(text) * (4000 if draw.randrange(20000) == 0 else 1)


def targets() -> dict[str, tuple[bytes, Callable[[bytes, int], None]]]:
    """What is fed, and with what; imported where the sanitized core is."""
    sys.path.insert(0, str(ROOT / "tests"))
    import naive_svmlight
    import numpy as np

    from mercer.io.libsvm import _Reader
    from mercer.io.svmlight import Dialect, gathered

    def svmlight(text: bytes, number: int) -> None:
        options = {"multilabel": bool(number & 1), "blank": bool(number & 2)}
        parsed = Dialect(**options).parsed(text)
        if len(text) > 10_000:
            return
        try:
            rows = naive_svmlight.parsed(text, **options)
        except naive_svmlight.Malformed as error:
            assert parsed.error[0] == error.args[0]
            return
        assert parsed.error[0] == 0
        entries = [entry for row in rows for entry in row[2]]
        labels = [label for row in rows for label in row[0]]
        found = np.empty(parsed.n_labels)
        parsed.labels(found)
        assert found.tobytes() == np.array(labels, dtype=float).tobytes()
        try:
            data = gathered([parsed], "file", multilabel=options["multilabel"])
        except ValueError:
            assert 0 < sum(row[1] is not None for row in rows) < len(rows)
            return
        assert data.X.indices.tolist() == [index for index, _ in entries]
        values = np.array([value for _, value in entries], dtype=float)
        assert data.X.data.tobytes() == values.tobytes()

    def model(text: bytes, number: int) -> None:
        try:
            found = _Reader(text, "file").model()
        except ValueError:
            return
        with np.errstate(all="ignore"):
            if found.vectors.shape[1] < 10_000 and found.serial.max(initial=0) < 10_000:
                found.values(np.ones((2, 4)))

    return {"svmlight": (TEXT, svmlight), "model": (MODEL, model)}


def feed(first: int, runs: int, seconds: float, notes: Path) -> int:
    """Run in the process that has the sanitized core; returns how many are findings."""
    found, begun, number = 0, time.monotonic(), first
    fed = targets()
    while number < first + runs and time.monotonic() - begun < seconds:
        if (number - first) % BATCH == 0:
            notes.write_text(str(number))
        for name, (seed, target) in fed.items():
            text = damaged(number, seed)
            if runs <= BATCH:  # looking for what crashed: keep each before it is fed
                (notes.parent / f"last-{name}").write_bytes(text)
            try:
                target(text, number)
            except Exception as error:
                found += 1
                path = notes.parent / f"{name}-{number}"
                path.write_bytes(text)
                print(f"{path}: {type(error).__name__}: {error}", flush=True)
        number += 1
    print(f"{(number - first) * len(fed):,} files, {found} findings", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    given = parser.parse_args()
    seconds = given.seconds or (float("inf") if given.runs else 60.0)
    runs = given.runs or 2**62
    folder = ROOT / "out" / "fuzz"
    folder.mkdir(parents=True, exist_ok=True)
    notes = folder / "number"
    if os.environ.get("MERCER_FUZZ"):
        return min(1, feed(given.first, runs, seconds, notes))
    package = sanitize.build("address")
    environment = {**sanitize.environment("address", package), "MERCER_FUZZ": "1"}
    command = [sys.executable, __file__, "--first", str(given.first)]
    command += ["--runs", str(runs), "--seconds", str(seconds)]
    code = subprocess.run(command, env=environment).returncode
    if code not in (0, 1):
        first = notes.read_text()
        print(f"It crashed at file {first} or up to {BATCH} later; once more:")
        again = [sys.executable, __file__, "--first", first, "--runs", str(BATCH)]
        subprocess.run(again, env=environment)
        print(f"What was fed last is in {folder}.")
    return code


if __name__ == "__main__":
    sys.exit(main())
