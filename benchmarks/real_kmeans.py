"""Kernel k-means on real data: how far its clusters agree with the classes.

    python benchmarks/real_kmeans.py              # all
    python benchmarks/real_kmeans.py MUTAG SMS    # the rows whose name has such a word

The adjusted Rand index, 1 for the classes and 0 for chance, of the start with the least
objective. The classes are not used but for the last column; kernels are the usual ones
for such data, beside k-means on the same points where they are vectors.
"""

import gzip
import json
import os
import re
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from mercer import (
    RBF,
    Graph,
    KernelKMeans,
    Linear,
    Normalized,
    Polynomial,
    Spectrum,
    Subsequence,
    WeisfeilerLehman,
)

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)
STARTS = 20


def optdigits():
    """5,620 digits of 8 × 8 pixels from 0 to 16, here from 0 to 1."""
    with np.load(DATA / "optdigits.npz", allow_pickle=False) as file:
        parts = [file[key] for key in file.files if key.startswith("X")]
        digits = [file[key] for key in file.files if key.startswith("y")]
    return np.concatenate(parts).astype(float) / 16, np.concatenate(digits)


def molecules():
    """MUTAG: 188 graphs with atoms for labels."""
    with gzip.open(DATA / "graphs_MUTAG.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    graphs = [Graph(row["edges"], row["node_labels"]) for row in rows]
    return graphs, np.array([row["y"] for row in rows])


def messages(n=2000):
    """The first n text messages as words, and whether they are spam."""
    text = gzip.decompress((DATA / "sms_spam.tsv.gz").read_bytes()).decode()
    rows = [line.split("\t", 1) for line in text.splitlines()[:n]]
    words = [tuple(re.findall(r"[a-z]+|\d|[^\w\s]", row[1].lower())) for row in rows]
    return words, np.array([row[0] == "spam" for row in rows])


def letters(n=2000):
    """The first n text messages as they are."""
    text = gzip.decompress((DATA / "sms_spam.tsv.gz").read_bytes()).decode()
    rows = [line.split("\t", 1) for line in text.splitlines()[:n]]
    return [row[1].lower() for row in rows], np.array([r[0] == "spam" for r in rows])


def machine(k, kernel, **options):
    return KernelKMeans(k, kernel=kernel, n_init=STARTS, random_state=0, **options)


ATOMS = Normalized(WeisfeilerLehman(3))
PAIRS = Normalized(Subsequence(2, 0.5))
RUNS = Normalized(Spectrum(4))
ROWS = {
    "optdigits, k-means": (optdigits, KMeans(10, n_init=STARTS, random_state=0)),
    "optdigits, Linear()": (optdigits, machine(10, Linear())),
    "optdigits, RBF(0.1)": (optdigits, machine(10, RBF(0.1))),
    "optdigits, RBF(0.1), hartigan": (
        optdigits,
        machine(10, RBF(0.1), algorithm="hartigan"),
    ),
    "optdigits, normalised cubic": (optdigits, machine(10, Normalized(Polynomial(3)))),
    "optdigits, RBF(0.5), cut": (
        optdigits,
        machine(10, RBF(0.5), normalized_cut=True),
    ),
    "MUTAG, WeisfeilerLehman(3)": (molecules, machine(2, ATOMS)),
    "MUTAG, the same, hartigan": (molecules, machine(2, ATOMS, algorithm="hartigan")),
    "MUTAG, the same, cut": (molecules, machine(2, ATOMS, normalized_cut=True)),
    "SMS, pairs of words": (messages, machine(2, PAIRS)),
    "SMS, pairs of words, hartigan": (
        messages,
        machine(2, PAIRS, algorithm="hartigan"),
    ),
    "SMS, pairs of words, cut": (messages, machine(2, PAIRS, normalized_cut=True)),
    "SMS, runs of 4 letters": (letters, machine(2, RUNS)),
    "SMS, runs of 4 letters, cut": (letters, machine(2, RUNS, normalized_cut=True)),
}


def main():
    wanted = sys.argv[1:]
    for name, (load, clusters) in ROWS.items():
        if wanted and not any(word in name for word in wanted):
            continue
        try:
            points, classes = load()
        except FileNotFoundError as error:
            print(f"{name:<32} left out: no {error.filename}")
            continue
        begin = time.perf_counter()
        clusters.fit(points)
        spent = time.perf_counter() - begin
        rand = adjusted_rand_score(classes, clusters.labels_)
        sizes = np.bincount(clusters.labels_)
        print(
            f"{name:<32} n = {len(classes):>5}  Rand {rand:6.3f}   inertia "
            f"{clusters.inertia_:10.2f} {spent:7.1f} s   sizes {sizes.tolist()}",
            flush=True,
        )


if __name__ == "__main__":
    main()
