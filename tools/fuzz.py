"""Feed parsers with damaged files, on the core built with ASan and UBSan.

python tools/fuzz.py                    for a minute
python tools/fuzz.py --runs 10000000    so many files in all
python tools/fuzz.py --runs 10000000 --jobs 2    by two processes
python tools/fuzz.py --first 1234 --runs 1    one of them again
python tools/fuzz.py --only csv         one parser alone

File number i is the same in every run; tools/fuzz_targets.py says which parser gets it,
and how many of a thousand each gets. What a parser refuses with ValueError is well; any
other exception, a crash, or numbers that differ from those of the slow twin in tests/
is a finding: the file is kept in out/fuzz, and its number is printed. Needs what
tools/sanitize.py needs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import sanitize

ROOT = Path(__file__).resolve().parent.parent
BATCH = 10_000  # files between two notes of how far it has come
WATCHED = 20_000  # files, up to which each is kept before it is fed
SHOWN = 50  # batches between two lines of text


def feed(given: argparse.Namespace, notes: Path) -> int:
    """Run in the process that has the sanitized core; returns how many are findings."""
    import fuzz_targets

    with tempfile.TemporaryDirectory(dir=fuzz_targets.memory_folder()) as folder:
        fed = fuzz_targets.targets(Path(folder))
        names = [name for name, (share, _) in fed.items() for _ in range(share)]
        if given.only:
            names = [given.only] * 1000
        return _feed(given, notes, names, fed, fuzz_targets)


def _feed(given, notes, names, fed, made) -> int:  # type: ignore[no-untyped-def]
    found, seen, begun = 0, Counter(), time.monotonic()  # type: ignore[var-annotated]
    for number in range(given.first, given.first + given.runs):
        if (number - given.first) % BATCH == 0:
            notes.write_text(str(number))
            if time.monotonic() - begun > given.seconds:
                break
            if (number - given.first) % (SHOWN * BATCH) == 0:
                print(f"from file {number:,} on, {time.monotonic() - begun:.0f} s",
                      flush=True)  # fmt: skip
        name = names[number % 1000]
        seeds, target, damage = fed[name][1]
        text = damage(seeds[made.seed_of(number, seeds)], made.Draws(number))
        if given.runs <= WATCHED:
            (notes.parent / f"last-{name}").write_bytes(text)
        try:
            target(text, number)
        except Exception as error:
            found += 1
            path = notes.parent / f"{name}-{number}"
            path.write_bytes(text)
            print(f"{path}: {type(error).__name__}: {error}", flush=True)
        seen[name] += 1
    shares = ", ".join(f"{name} {count:,}" for name, count in seen.items())
    print(f"{seen.total():,} files, {found} findings in "
          f"{time.process_time():.0f} CPU s: {shares}", flush=True)  # fmt: skip
    return found


def _started(
    given: argparse.Namespace, job: int, notes: Path, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """The process for a part of the numbers."""
    runs = given.runs // given.jobs + (job < given.runs % given.jobs)
    before = given.runs // given.jobs * job + min(job, given.runs % given.jobs)
    command = [sys.executable, __file__, "--first", str(given.first + before)]
    command += ["--runs", str(runs), "--seconds", str(given.seconds)]
    command += ["--only", given.only, "--notes", str(notes)]
    return subprocess.Popen(command, env=environment)


def _again(given: argparse.Namespace, notes: Path, environment: dict[str, str]) -> None:
    """Feed those that a crash is among once more, each kept before it is fed."""
    first = notes.read_text()
    print(f"It crashed at file {first} or up to {BATCH} later; once more:", flush=True)
    again = [sys.executable, __file__, "--first", first, "--runs", str(BATCH)]
    again += ["--only", given.only, "--notes", str(notes)]
    subprocess.run(again, env=environment)
    print(f"What was fed last is in {notes.parent}.", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--notes", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.seconds = given.seconds or (float("inf") if given.runs else 60.0)
    given.runs = given.runs or 2**62
    if given.notes:
        return min(1, feed(given, Path(given.notes)))
    folder = ROOT / "out" / "fuzz"
    folder.mkdir(parents=True, exist_ok=True)
    environment = sanitize.environment("address", sanitize.build("address"))
    environment["PYTHONPATH"] += os.pathsep + str(ROOT / "tests")
    notes = [folder / f"number-{job}" for job in range(given.jobs)]
    jobs = [_started(given, j, note, environment) for j, note in enumerate(notes)]
    codes = [job.wait() for job in jobs]
    for code, note in zip(codes, notes, strict=True):
        if code not in (0, 1):
            _again(given, note, environment)
    return max(codes, key=abs)


if __name__ == "__main__":
    sys.exit(main())
