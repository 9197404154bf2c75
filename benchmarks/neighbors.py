"""Neighbours and densities beside scikit-learn's, in turn and in one process.

    python benchmarks/neighbors.py               # all rows, a few minutes
    python benchmarks/neighbors.py --quick       # a quarter of the points
    python benchmarks/neighbors.py --only knn    # rows whose name has this word
    python benchmarks/neighbors.py --real        # accuracies on real data instead

The peer of k-NN is scikit-learn's KNeighborsClassifier as it comes, which takes a k-d
tree in up to 15 dimensions and brute force in more, and in one row its brute force; of
the density its KernelDensity with its default tree. With a Gaussian kernel the peer
ranks distances, which have the same neighbours. Each row checks that both answer alike.
"""

import argparse
import gzip
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from record import record
from sklearn.neighbors import KernelDensity, KNeighborsClassifier

from mercer import (
    RBF,
    KernelKNNClassifier,
    Laplacian,
    Linear,
    Normalized,
    ParzenClassifier,
    ParzenDensity,
    Polynomial,
    Spectrum,
    WeightedDegree,
)

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)


def arrays(name):
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def digits(n):
    """MNIST: n images to learn, n to judge, float32 in [0, 1]."""
    file, grey = arrays("mnist"), np.float32(255)
    return file["X_train"][:n] / grey, file["y_train"][:n], file["X_test"][:n] / grey


def colours(n, m):
    """skin_nonskin: n colours, and m others, in units of 255."""
    X = arrays("skin_nonskin")["X"] / 255
    order = np.random.default_rng(0).permutation(len(X))
    return X[order[:n]], X[order[n : n + m]]


def showers(n, m):
    """magic_gamma, standardised: n events to learn, m others."""
    X = arrays("magic_gamma")["X"].astype(float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order[:n]], X[order[n : n + m]]


def normal(n, m, d=8):
    """n + m points of a normal distribution, the hardest for a tree."""
    X = np.random.default_rng(0).normal(size=(n + m, d))
    return X[:n], X[n:]


def halves(X, new):
    """Two classes, by the first coordinate."""
    return X, X[:, 0] > np.median(X[:, 0]), new


def houses(n, m):
    """California housing, standardised: n to learn, m others."""
    X = arrays("california_housing")["X"].astype(float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order[:n]], X[order[n : n + m]]


@dataclass
class Row:
    """What ours and the peer do on the same data, and whether they agree."""

    name: str
    data: Callable
    ours: Callable
    peer: Callable
    agree: Callable


def knn(kernel, k=5):
    def run(X, y, new):
        return KernelKNNClassifier(k, kernel=kernel).fit(X, y).predict_proba(new)

    return run


def sklearn_knn(k=5, algorithm="auto"):
    def run(X, y, new):
        machine = KNeighborsClassifier(k, algorithm=algorithm).fit(X, y)
        return machine.predict_proba(new)

    return run


def same_votes(ours, peer):
    return f"{np.mean((ours == peer).all(axis=1)):.2%} equal"


def density(h, kernel=None):
    return lambda X, new: ParzenDensity(h, kernel=kernel).fit(X).score_samples(new)


def reference(h, **options):
    def run(X, new):
        return KernelDensity(bandwidth=h, **options).fit(X).score_samples(new)

    return run


def same_logs(ours, peer):
    return f"largest difference {np.abs(ours - peer).max():.1e}"


def rows(part):
    def n(count):
        return int(count * part)

    for name, kernel in (("linear", Linear()), ("RBF(0.02)", RBF(0.02))):
        yield Row(
            f"knn {name}, MNIST float32 {n(10000)}/{n(10000)}",
            lambda: digits(n(10000)),
            knn(kernel),
            sklearn_knn(),
            same_votes,
        )
    yield Row(
        f"knn linear, MNIST float64 {n(5000)}/{n(5000)}",
        lambda: tuple(np.asarray(Z, float) for Z in digits(n(5000))),
        knn(Linear()),
        sklearn_knn(),
        same_votes,
    )
    yield Row(
        f"knn linear, colours d=3 {n(50000)}/{n(5000)}, brute",
        lambda: halves(*colours(n(50000), n(5000))),
        knn(Linear()),
        sklearn_knn(algorithm="brute"),
        same_votes,
    )
    for name, kernel in (("linear", Linear()), ("RBF(1.0)", RBF(1.0))):
        yield Row(
            f"knn {name}, colours d=3 {n(200000)}/{n(45000)}",
            lambda: halves(*colours(n(200000), n(45000))),
            knn(kernel),
            sklearn_knn(),
            same_votes,
        )
    yield Row(
        f"knn linear, magic_gamma d=10 {n(14000)}/{n(5000)}",
        lambda: halves(*showers(n(14000), n(5000))),
        knn(Linear()),
        sklearn_knn(),
        same_votes,
    )
    yield Row(
        f"knn linear, normal d=8 {n(100000)}/{n(10000)}",
        lambda: halves(*normal(n(100000), n(10000))),
        knn(Linear()),
        sklearn_knn(),
        same_votes,
    )
    for h in (0.02, 0.1):
        yield Row(
            f"density h={h}, colours d=3 {n(100000)}/{n(5000)}",
            lambda: colours(n(100000), n(5000)),
            density(h),
            reference(h),
            same_logs,
        )
    yield Row(
        f"density h=0.3, california d=8 {n(15000)}/{n(5000)}",
        lambda: houses(n(15000), n(5000)),
        density(0.3),
        reference(0.3),
        same_logs,
    )


def timed(run, data):
    time.sleep(0.1)
    start = time.perf_counter()
    result = run(*data)
    return time.perf_counter() - start, result


def compare(options):
    print(f"{'':48}{'mercer s':>10}{'sklearn s':>11}{'times':>8}")
    for row in rows(0.25 if options.quick else 1):
        if not any(word in row.name for word in options.only or [""]):
            continue
        try:
            data = row.data()
        except FileNotFoundError as missing:
            print(f"{row.name}: left out, {missing.filename} is not there")
            continue
        ours, peer = [], []
        for _ in range(options.repeats):
            seconds, found = timed(row.ours, data)
            ours.append(seconds)
            seconds, expected = timed(row.peer, data)
            peer.append(seconds)
        a, b = median(ours), median(peer)
        agreed = row.agree(found, expected)
        print(f"{row.name:48}{a:10.3f}{b:11.3f}{b / a:8.1f}  {agreed}", flush=True)
        few = row.name.startswith("knn") and "d=" in row.name
        chart = "neighbours in few dimensions" if few else "neighbours"
        record(chart, row.name, {"mercer": a, "sklearn": b}, agreed=agreed)


# Real data: what is chosen is chosen by leaving out, on the training points alone


def shuffled(count, seed=0):
    return np.random.default_rng(seed).permutation(count)


def splice():
    """2,000 windows of 60 letters to learn, 1,190 to judge."""
    with gzip.open(DATA / "splice_junction.tsv.gz", "rt", encoding="utf-8") as file:
        lines = [line.split() for line in file if line.strip()]
    order = shuffled(len(lines))
    words, names = ([lines[i][c] for i in order] for c in (-1, 0))
    return words[:2000], names[:2000], words[2000:], names[2000:]


def judged(machines, X, y, X_test, y_test):
    """Of machines by name the best leave-one-out accuracy, then that on the test."""
    scores = {}
    for name, machine in machines.items():
        scores[name] = np.mean(machine.fit(X, y).predict(None) == np.asarray(y))
    best = max(scores, key=scores.__getitem__)
    found = machines[best].score(X_test, y_test)
    print(f"  {best}: left out {scores[best]:.4f}, test {found:.4f}", flush=True)


def real():
    print("splice, strings, 2000/1190: k-NN")
    kernels = {
        "WeightedDegree(4)": WeightedDegree(4),
        "Spectrum(4)": Normalized(Spectrum(4)),
    }
    for name, kernel in kernels.items():
        ks = {
            f"{name}, k={k}": KernelKNNClassifier(k, kernel=kernel) for k in (1, 9, 31)
        }
        judged(ks, *splice())
    print("optdigits, 3823/1797: k-NN (UCI's note: 98.00 % by 1-NN)")
    file = arrays("optdigits")
    X, y = file["X"].astype(float), file["y"]
    split = X[:3823], y[:3823], X[3823:], y[3823:]
    for kernel in (Linear(), Laplacian(0.01), Polynomial(3)):
        ks = {
            f"{kernel!r}, k={k}": KernelKNNClassifier(k, kernel=kernel)
            for k in (1, 3, 5)
        }
        judged(ks, *split)
    print("ripley, 250/1000 (Bayes' error about 8 %): Parzen")
    file = arrays("ripley")
    X, y, X_test, y_test = (
        file[key] for key in ("X_train", "y_train", "X_test", "y_test")
    )
    for machine in (
        ParzenClassifier(),
        ParzenClassifier(method="mean", kernel=RBF(2.0)),
    ):
        error = 1 - machine.fit(X, y).score(X_test, y_test)
        print(f"  {machine}: {error:.1%} wrong", flush=True)
    print("skin_nonskin, 20000/20000 of 245,057: Parzen")
    file = arrays("skin_nonskin")
    order = shuffled(len(file["y"]))
    X, y = file["X"][order] / 255, file["y"][order]
    for machine in (ParzenClassifier(), ParzenClassifier(method="mean")):
        start = time.perf_counter()
        share = machine.fit(X[:20000], y[:20000]).score(X[20000:40000], y[20000:40000])
        h = getattr(machine, "bandwidth_", float("nan"))
        seconds = time.perf_counter() - start
        print(f"  {machine}: {share:.4f}, h={h:.3g}, {seconds:.1f} s", flush=True)
    density = ParzenDensity().fit(X[:20000][y[:20000] == 1])
    new = X[20000:40000][y[20000:40000] == 1]
    print(f"  density of skin: h={density.bandwidth_:.3g}, mean ln p of new points "
          f"{density.score(new) / len(new):.3f}")  # fmt: skip


def main(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a quarter of the points")
    parser.add_argument("--only", nargs="*", help="rows whose name has such a word")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--real", action="store_true", help="figures on real data")
    options = parser.parse_args(words)
    if not DATA.is_dir():
        sys.exit(f"No data in {DATA}; set MERCER_DATA to the folder of the data sets.")
    real() if options.real else compare(options)


if __name__ == "__main__":
    main(sys.argv[1:])
