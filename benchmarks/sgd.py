"""Kernel SGD against a numpy version, beside river, and on real data.

    python benchmarks/sgd.py             # the table of times, then the real data
    python benchmarks/sgd.py linear      # Linear() beside scikit-learn's SGDClassifier
    python benchmarks/sgd.py times       # only the times
    python benchmarks/sgd.py a9a         # beside SVC, same kernel and regularisation
    python benchmarks/sgd.py covtype     # a stream with a budget, progressive accuracy
    python benchmarks/sgd.py budget      # 100,000 points with one, beside what has none

The numpy version makes one step at a time: a row of kernel values against the terms so
far, and their product with the coefficients. Its f must be ours. river 0.26 has no
machine on kernels; the nearest, random Fourier features with logistic regression, is
timed where it is installed, on a stream of dicts as it wants them. With a budget the
peers are SVC on all points, and scikit-learn's Nystroem with its SGDClassifier; cpu is
processor time, of all threads.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np
from record import record
from sklearn.datasets import load_svmlight_file
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline

from mercer import RBF, SVC, KernelSGDClassifier, Linear

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)


def adults(part="a9a.svm.bz2"):
    return load_svmlight_file(str(DATA / part), n_features=123)


def by_numpy(X, y, gamma, reg):
    """f after one pass of the hinge loss in the order given, a step at a time."""
    squares = np.einsum("ij,ij->i", X, X)
    terms, lengths = np.empty_like(X), np.empty(len(X))
    coef, m = np.empty(len(X)), 0
    for t, x in enumerate(X):
        row = np.exp(-gamma * (lengths[:m] + squares[t] - 2 * (terms[:m] @ x)))
        f = row @ coef[:m]
        eta = 1 / (2 * reg * (t + 1) + 1)
        coef[:m] *= 1 - 2 * reg * eta
        if y[t] * f < 1:
            terms[m], lengths[m], coef[m] = x, squares[t], eta * y[t]
            m += 1
    return terms[:m], coef[:m]


def ours(X, y, gamma, reg):
    return KernelSGDClassifier(
        kernel=RBF(gamma),
        reg=reg,
        fit_intercept=False,
        average=False,
        shuffle=False,
        max_iter=1,
    ).fit(X, y)


def by_river(X, y, gamma, components=200):
    """Seconds of random features with logistic regression; None without river."""
    try:
        from river import feature_extraction, linear_model
    except ImportError:
        return None
    sampler = feature_extraction.RBFSampler(gamma=gamma, n_components=components)
    machine = sampler | linear_model.LogisticRegression()
    stream = [dict(enumerate(x)) for x in X.tolist()]
    start = time.perf_counter()
    for x, label in zip(stream, (y > 0).tolist(), strict=True):
        machine.learn_one(x, label)
    return time.perf_counter() - start


def seconds(job, repeats=3):
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = job()
        found.append(time.perf_counter() - start)
    return float(np.median(found)), result


def made(n, d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.sign(np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n))


def times():
    cases = {
        f"random {n:,} × {d}": (*made(n, d), 1 / (2 * d))
        for n, d in ((5_000, 5), (20_000, 10), (5_000, 100))
    }
    if (DATA / "a9a.svm.bz2").exists():
        X, y = adults()
        cases["a9a, first 10,000"] = (X[:10_000].toarray(), y[:10_000], 0.05)
    else:
        print(f"no a9a.svm.bz2 in {DATA}: its row is left out")
    print(f"{'one pass':<22}{'terms':>7}{'mercer s':>10}{'numpy s':>10}{'river s':>10}")
    for name, (X, y, gamma) in cases.items():
        reg = 1 / (2 * len(y))
        repeats = 3 if len(y) <= 5000 else 1
        own, machine = seconds(lambda X=X, y=y, g=gamma, r=reg: ours(X, y, g, r))
        other, (terms, coef) = seconds(
            lambda X=X, y=y, g=gamma, r=reg: by_numpy(X, y, g, r), repeats
        )
        expected = RBF(gamma)(X[:200], terms) @ coef
        assert np.abs(machine.decision_function(X[:200]) - expected).max() < 1e-6
        river = by_river(X[:1000], y[:1000], gamma)
        shown = "-" if river is None else f"{river * len(y) / 1000:.2f}*"
        print(
            f"{name:<22}{len(coef):>7}{own:>10.3f}{other:>10.3f}{shown:>10}"
            f"   numpy / mercer = {other / own:.1f}"
        )
        record("sgd", name, {"mercer": own, "numpy": other}, terms=len(coef))
    print(
        "* 200 random features, from its first 1,000 points; a machine of another kind"
    )


def a9a():
    X, y = adults()
    X_test, y_test = adults("a9a.t.svm.bz2")
    gamma, C = 1 / 123, 1.0
    reg = 1 / (2 * C * len(y))
    for name, machine in (
        ("SVC", SVC(C=C, gamma=gamma)),
        *(
            (
                f"KernelSGD, {passes} passes",
                KernelSGDClassifier(
                    kernel=RBF(gamma), reg=reg, max_iter=passes, random_state=0
                ),
            )
            for passes in (1, 2, 5)
        ),
    ):
        took, machine = seconds(lambda m=machine: m.fit(X, y), 1)
        right = 100 * machine.score(X_test, y_test)
        terms = len(machine.expansion_.coef)
        print(f"a9a  {name:<22}{right:8.3f} %{terms:>8} terms{took:8.2f} s")


def covtype(batch=250):
    with np.load(DATA / "covtype_first20k.npz") as file:
        X, y = file["X"].astype(float), file["y"]
    order = np.random.default_rng(0).permutation(len(y))  # the file is sorted by area
    X, y = X[order], y[order]
    X = X / np.maximum(np.abs(X[:batch]).max(axis=0), 1)
    classes = np.unique(y)
    print(f"covtype, {len(y):,} points in batches of {batch}, each judged, then learnt")
    for params in (
        {"budget": None},
        {"budget": 500, "removal": "merge"},
        {"budget": 1000, "removal": "merge"},
        {"budget": 1000, "removal": "oldest"},
        {"budget": 1000, "removal": "smallest"},
    ):
        machine = KernelSGDClassifier(
            kernel=RBF(4.0), reg=1e-6, average=False, **params
        )
        start, worked, right = time.perf_counter(), time.process_time(), []
        for i in range(0, len(y), batch):
            part = slice(i, i + batch)
            if i:
                right.append(machine.score(X[part], y[part]))
            machine.partial_fit(X[part], y[part], classes=classes)
        took, worked = time.perf_counter() - start, time.process_time() - worked
        print(
            f"  {params!s:<42} all {100 * np.mean(right):6.2f} %   last 5,000 "
            f"{100 * np.mean(right[-20:]):6.2f} %  {len(machine.expansion_.coef):>6} "
            f"terms {took:7.1f} s {worked:7.1f} cpu"
        )


def budget(n=100_000, d=20):
    """A budget of terms beside machines without one: accuracy on 10,000 others."""
    X, y = made(n + 10_000, d)
    X, y, X_test, y_test = X[:n], y[:n], X[n:], y[n:]
    gamma, reg = 1 / (2 * d), 1 / (2 * n)
    machines = {
        f"budget {terms}, {passes} passes": KernelSGDClassifier(
            kernel=RBF(gamma),
            reg=reg,
            budget=terms,
            removal="merge",
            max_iter=passes,
            tol=None,
            random_state=0,
        )
        for terms in (200, 500, 1000)
        for passes in (1, 2)
    }
    for terms in (200, 500):
        machines[f"sklearn: Nystroem {terms}, SGDClassifier"] = make_pipeline(
            Nystroem(gamma=gamma, n_components=terms, random_state=0),
            SGDClassifier(alpha=2 * reg, random_state=0),
        )
    machines["SVC, all points"] = SVC(C=1.0, gamma=gamma)
    print(f"{n:,} × {d}, {gamma=}, {reg=}")
    for name, machine in machines.items():
        worked = time.process_time()
        took, _ = seconds(lambda m=machine: m.fit(X, y), 1)
        worked = time.process_time() - worked
        right = 100 * machine.score(X_test, y_test)
        print(f"  {name:<40}{right:7.2f} %{took:8.1f} s{worked:8.2f} cpu", flush=True)


def linear(passes=5):
    """Linear() on w beside scikit-learn's SGDClassifier, both averaged."""
    cases = {f"random {n:,} × 20": made_linear(n) for n in (100_000, 1_000_000)}
    if (DATA / "a9a.svm.bz2").exists():
        X, y = adults()
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        cases["a9a, sparse"] = X, y
    reg = 1e-4
    print(f"{passes} passes: processor seconds, median of 7; accuracy on these points")
    for name, (X, y) in cases.items():
        machines = (
            KernelSGDClassifier(
                kernel=Linear(), reg=reg, max_iter=passes, random_state=0
            ),
            SGDClassifier(
                alpha=2 * reg, max_iter=passes, tol=None, average=True, random_state=0
            ),
        )
        spent = [[], []]
        for _ in range(7):  # in turn
            for machine, times in zip(machines, spent, strict=True):
                begin = time.process_time()
                machine.fit(X, y)
                times.append(time.process_time() - begin)
        row = []
        for machine, times in zip(machines, spent, strict=True):
            row += [float(np.median(times)), 100 * machine.score(X, y)]
        print(
            f"  {name:<22} mercer {row[0]:6.2f} s {row[1]:6.2f} %   scikit-learn "
            f"{row[2]:6.2f} s {row[3]:6.2f} %   {row[2] / row[0]:.2f} x",
            flush=True,
        )


def made_linear(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 20))
    return X, np.sign(X[:, 0] + 0.5 * X[:, 1] + 0.5 * rng.normal(size=n))


if __name__ == "__main__":
    parts = {
        "linear": linear,
        "times": times,
        "a9a": a9a,
        "covtype": covtype,
        "budget": budget,
    }
    for name in sys.argv[1:] or parts:
        parts[name]()
