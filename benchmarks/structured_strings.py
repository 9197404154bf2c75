"""Gram matrices of string kernels beside kernlab's, and spectra of many windows.

    python benchmarks/structured_strings.py
    python benchmarks/structured_strings.py --points 300 --repeats 3

Splice junctions (60 letters each), 2,000 text messages, 100,000 windows of C. elegans.
The peer is kernlab's stringdot, run by Rscript where R and kernlab are installed. Its
gap-weighted kernel takes minutes, so it gets --peer-points of the strings and its time
is scaled by the number of pairs; its other kernels get them all. The package strkernels
is another peer, where it is installed; its spectrum takes minutes and is left out.
Values are compared.
"""

import argparse
import gzip
import lzma
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from record import record

try:
    import strkernels
except ImportError:
    strkernels = None

from mercer import (
    EditSimilarity,
    Mismatch,
    Spectrum,
    Subsequence,
    WeightedDegree,
    WeightedSubstrings,
)

DATA = Path(
    os.environ.get("MERCER_DATA", Path(__file__).parents[1] / ".." / "shared" / "data")
)
# How kernlab says it, and what it adds to every string before it compares them.
PEERS = {
    "Subsequence": ('type="sequence", length={k}, lambda=0.5', ""),
    "Spectrum": ('type="spectrum", length={k}', "\n"),
    "WeightedSubstrings": ('type="constant"', "\n"),
}
SCRIPT = """
suppressMessages(library(kernlab))
x <- as.list(readLines("{points}"))
k <- stringdot({kernel}, normalized=FALSE)
t <- system.time(K <- kernelMatrix(k, x))
cat(t[["elapsed"]], "\\n")
write.table(K@.Data[1:5, 1:5], col.names=FALSE, row.names=FALSE)
"""


def timed(job, repeats):
    """The median of the seconds, and the last result."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = job()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), result


def kernlab(kernel, X):
    """Seconds of kernlab's kernelMatrix on X and a corner of it; None without it."""
    name = type(kernel).__name__
    if name not in PEERS or not shutil.which("Rscript"):
        return None
    text, end = PEERS[name]
    k = getattr(kernel, "k", getattr(kernel, "length", 0))
    with tempfile.TemporaryDirectory() as folder:
        points = Path(folder) / "points.txt"
        points.write_text("\n".join(X) + "\n")
        code = SCRIPT.format(points=points, kernel=text.format(k=k))
        run = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True)
    if run.returncode:
        return None
    first, *rows = run.stdout.splitlines()
    corner = np.array([[float(v) for v in row.split()] for row in rows])
    ours = kernel([x + end for x in X[:5]])
    assert np.allclose(ours, corner, rtol=1e-12), f"{kernel!r} differs from kernlab"
    return float(first)


def strkernels_of(kernel, X):
    """Seconds of strkernels' kernel on X; None without it, or where it has none.

    It has the sum over all lengths, which takes as long, and another scale.
    """
    if strkernels is None:
        return None
    if isinstance(kernel, Subsequence):
        n = kernel.length
        peer = strkernels.SubsequenceStringKernel(
            normalizer=None, maxlen=n, ssk_lambda=kernel.decay
        )
        twin, scale = Subsequence(n, kernel.decay, [1.0] * n), 1
    elif isinstance(kernel, WeightedDegree):
        d = kernel.degree
        peer = strkernels.WeightedDegreeStringKernel(normalizer=None, degree=d)
        twin, scale = kernel, d * (d + 1) / 2
    else:
        return None
    points = np.array(X)
    assert np.allclose(peer(points[:5], points[:5]), scale * twin(X[:5]), rtol=1e-9)
    return timed(lambda: peer(points, points), 1)[0]


def against_kernlab(X, points, peer_points, repeats):
    print(f"Gram matrices of {points} splice windows of 60 letters, seconds\n")
    print(f"{'':<46}{'mercer':>9}{'kernlab':>10}{'':>9}{'strkernels':>13}")
    kernels = [
        Subsequence(3, 0.5),
        Subsequence(4, 0.5),
        Subsequence(5, 0.5),
        Spectrum(3),
        Spectrum(5),
        WeightedSubstrings(1.0),
        Mismatch(5, 1, "ACGT"),
        WeightedDegree(5),
        EditSimilarity(0.1),
    ]
    for kernel in kernels:
        ours, _ = timed(lambda kernel=kernel: kernel(X[:points]), repeats)
        some = min(points, peer_points) if isinstance(kernel, Subsequence) else points
        theirs = kernlab(kernel, X[:some])
        line = f"{kernel!r:<46}{ours:9.3f}"
        if theirs is not None:
            whole = theirs * (points * (points + 1)) / (some * (some + 1))
            mark = "*" if some < points else " "
            line += f"{whole:9.1f}{mark}{whole / ours:8.0f}x"
        other = strkernels_of(kernel, X[:points])
        if other is not None:
            line += f"{other:{13 if theirs is not None else 32}.3f}{other / ours:6.1f}x"
        print(line, flush=True)
        peers = {"kernlab": whole if theirs is not None else None, "strkernels": other}
        record("strings", kernel, {"mercer": ours} | peers)
    print(f"\n* from the time of {min(points, peer_points)} strings\n")


def messages(texts, repeats):
    print(f"Gram matrices of {len(texts)} text messages, seconds\n")
    words = [tuple(text.split()) for text in texts]
    for name, kernel, X in (
        ("letters", Subsequence(3, 0.5), texts),
        ("words", Subsequence(2, 0.5), words),
        ("letters", Spectrum(4), texts),
        ("letters", WeightedSubstrings(0.5), texts),
    ):
        seconds, _ = timed(lambda kernel=kernel, X=X: kernel(X), repeats)
        print(f"{name + ' ' + repr(kernel):<60}{seconds:9.3f}", flush=True)


def many_windows(X, repeats):
    print(f"\nFeatures of {len(X):,} windows of {len(X[0])} letters, seconds\n")
    for k in (4, 6, 8, 10):
        job = Spectrum(k).features
        seconds, features = timed(lambda job=job: job(X), repeats)
        print(f"{Spectrum(k)!r:<44}{seconds:9.2f}   {features.shape[1]:,} columns, "
              f"{features.nnz:,} entries", flush=True)  # fmt: skip


def columns(name, column, opener=gzip.open):
    with opener(DATA / name, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t")[column] for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--peer-points", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if not (DATA / "splice_junction.tsv.gz").exists():
        raise SystemExit(f"No data in {DATA}; name their folder in MERCER_DATA.")
    splice = columns("splice_junction.tsv.gz", 2)
    against_kernlab(splice, options.points, options.peer_points, options.repeats)
    messages(columns("sms_spam.tsv.gz", 1)[: 2 * options.points], options.repeats)
    windows = columns("c_elegans_acceptor.tsv.xz", 4, lzma.open)
    many_windows(windows, min(options.repeats, 2))


if __name__ == "__main__":
    main()
