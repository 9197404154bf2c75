"""One point that comes or goes beside a fit of all: kernel rows and seconds.

    python benchmarks/points.py            # all rows of the table
    python benchmarks/points.py letter     # those whose data set is named

10,000 points, standardised but for a9a, RBF. The rows and seconds of `fit` are those
of all points, seconds the median of three; those of `add` and `remove` are medians
and largest of 20 single points, of `remove` support vectors drawn at random. The last
column is the largest difference of f from that of a fit of the same points in the end.
"""

import statistics
import sys
import time

import numpy as np
from real_data import DATA
from sklearn.base import clone
from sklearn.datasets import load_svmlight_file

from mercer import RBF, SVC, SVR, NuSVC, NuSVR, OneClassSVM

N, TIMES = 10_000, 20


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def letter():
    with np.load(DATA / "letter.npz") as found:
        return standardised(found["X"].astype(float)), (found["y"] < 13).astype(int)


def a9a():
    X, y = load_svmlight_file(str(DATA / "a9a.svm.bz2"), n_features=123)
    return X.toarray(), y


def casp():
    with np.load(DATA / "casp_protein.npz") as found:
        y = found["y"].astype(float)
        return standardised(found["X"].astype(float)), standardised(y)


ROWS = [
    (letter, SVC(kernel=RBF(0.1))),
    (letter, SVC(kernel=RBF(0.1), C=100)),
    (letter, NuSVC(kernel=RBF(0.1), nu=0.2)),
    (letter, OneClassSVM(kernel=RBF(0.1), nu=0.1)),
    (a9a, SVC(kernel=RBF(1 / 123))),
    (a9a, SVC(kernel=RBF(1 / 123), C=10)),
    (a9a, NuSVC(kernel=RBF(1 / 123), nu=0.2)),
    (casp, SVR(kernel=RBF(0.3))),
    (casp, SVR(kernel=RBF(0.3), C=10)),
    (casp, NuSVR(kernel=RBF(0.3), nu=0.3)),
    (casp, OneClassSVM(kernel=RBF(0.3), nu=0.1)),
]


def timed(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def spread(rows, whole):
    return f"{statistics.median(rows):5g} {max(rows):5d} {max(rows) / whole:7.2%}"


def measured(data, machine):
    X, y = data()
    order = np.random.default_rng(0).permutation(len(X))[: N + TIMES]
    X, y = X[order], y[order]
    some = [timed(lambda: machine.fit(X[:N], y[:N])) for _ in range(3)]
    fit, whole = statistics.median(some), machine.run_.rows
    grown = clone(machine).add(X[:N], y[:N])
    took, rows = [], []
    for i in range(N, N + TIMES):
        took.append(timed(lambda i=i: grown.add(X[i : i + 1], y[i : i + 1])))
        rows.append(grown.run_.rows)
    print(f"{whole:6d} {fit:6.2f}   {spread(rows, whole)}", end="")
    print(f" {statistics.median(took):6.3f} {max(took):6.3f}", end="")
    random, took, rows, left = np.random.default_rng(1), [], [], np.arange(len(X))
    for _ in range(TIMES):
        i = int(random.choice(grown.support_))
        left = np.delete(left, i)
        took.append(timed(lambda i=i: grown.remove(i)))
        rows.append(grown.run_.rows)
    print(f"   {spread(rows, whole)}", end="")
    print(f" {statistics.median(took):6.3f} {max(took):6.3f}", end="")
    assert grown.certificate_.status == "optimal"
    if isinstance(machine, NuSVC | NuSVR | OneClassSVM):  # ν is of the first points
        print("       -")
        return
    machine.fit(X[left], y[left])
    print(f"   {np.abs(machine.expansion_(X) - grown.expansion_(X)).max():.1e}")


def main():
    print(f"{'':34}     fit        add: rows, most, of fit, seconds   remove: the same")
    for data, machine in ROWS:
        if sys.argv[1:] and data.__name__ not in sys.argv[1:]:
            continue
        given = machine.get_params()
        kind = type(machine).__name__
        words = f"nu={given['nu']:g}" if "Nu" in kind or "One" in kind else ""
        words = words or f"C={given['C']:g}"
        print(f"{data.__name__:7} {f'{kind}({words})':24}", end=" ", flush=True)
        try:
            measured(data, machine)
        except FileNotFoundError as error:
            print(f"no {error.filename}")


if __name__ == "__main__":
    main()
