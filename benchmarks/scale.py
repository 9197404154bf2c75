"""Machines on landmarks at size: seconds, memory and error, beside pipelines of peers.

    python benchmarks/scale.py                  # 100,000 points, 1,000 landmarks
    python benchmarks/scale.py 2000000 --size 2000 --peers none   # ours alone
    python benchmarks/scale.py 20000 --size 200                   # quick

Points are random in 20 dimensions, made by a function of a seed; the target is
sin(2x₁) + x₂x₃ with noise, or its sign. Each row is a process of its own, so that its
peak of memory, the points included, is that of the row. Landmarks of scikit-learn's
`Nystroem` are drawn uniformly; ours are pivoted. Errors are on 20,000 other points
without noise: the mean square for numbers, the share of wrong signs for classes.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings

import numpy as np

D = 20
GAMMA = 0.05
ALPHA = 1.0  # of ridge; 1/C of the SVMs and of logistic regression


def values(X):
    return np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]


def points(n, seed=0):
    """X, the numbers and the classes to learn."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    f = values(X)
    numbers = f + 0.1 * rng.normal(size=n)
    return X, numbers, f + 0.3 * rng.normal(size=n) > 0


def machine(name, m, n):
    """What is fitted in a row, and whether it learns numbers."""
    if name.startswith("mercer"):
        from mercer import RBF, SVC, KernelLogisticRegression, KernelRidge, Nystrom

        kernel = Nystrom(RBF(GAMMA), m)
        made = {
            "ridge": KernelRidge(ALPHA, kernel=kernel),
            "logistic": KernelLogisticRegression(1 / ALPHA, kernel=kernel),
            "svc": SVC(C=1 / ALPHA, kernel=kernel),
        }
    else:
        from sklearn.kernel_approximation import Nystroem
        from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.svm import LinearSVC

        last = {
            "ridge": Ridge(ALPHA, fit_intercept=False),
            "logistic": LogisticRegression(C=1 / ALPHA),
            "svc": LinearSVC(C=1 / ALPHA, loss="hinge"),
            "sgd": SGDClassifier(alpha=ALPHA / n, random_state=0),
        }
        first = Nystroem(gamma=GAMMA, n_components=m, random_state=0)
        made = {kind: make_pipeline(first, one) for kind, one in last.items()}
    kind = name.split()[1]
    return made[kind], kind == "ridge"


def row(name, n, m):
    """One fit, in a process of its own."""
    X, numbers, classes = points(n)
    fitted, regression = machine(name, m, n)
    begin, used = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fitted.fit(X, numbers if regression else classes)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    new = np.random.default_rng(1).normal(size=(20_000, D))
    found, f = fitted.predict(new), values(new)
    error = np.mean((found - f) ** 2) if regression else np.mean(found != (f > 0))
    ended = any("onverge" in str(one.message) for one in said)
    return {
        "seconds": seconds,
        "cpu": cpu,
        "peak": peak,
        "error": float(error),
        "note": "not converged" if ended else "",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("points", nargs="?", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--peers", choices=["sklearn", "none"], default="sklearn")
    parser.add_argument("--only", default="", help="rows whose name has this word")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    n, m = options.points, options.size
    if options.row:
        print(json.dumps(row(options.row, n, m)))
        return
    names = []
    for kind in ("ridge", "logistic", "svc"):
        names += [f"mercer {kind}"]
        names += [f"sklearn {kind}"] if options.peers == "sklearn" else []
    names += ["sklearn sgd"] if options.peers == "sklearn" else []
    print(f"{n:,} x {D}, {m:,} landmarks")
    print(f"{'':<18}{'wall s':>9}{'cpu s':>9}{'peak GB':>9}{'error':>9}")
    for name in names:
        if options.only not in name:
            continue
        command = [sys.executable, __file__, str(n), "--size", str(m), "--row", name]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"{name:<18} {done.stderr.strip().splitlines()[-1][:60]}")
            continue
        found = json.loads(done.stdout.strip().splitlines()[-1])
        print(
            f"{name:<18}{found['seconds']:>9.1f}{found['cpu']:>9.1f}"
            f"{found['peak']:>9.2f}{found['error']:>9.4f}  {found['note']}",
            flush=True,
        )


if __name__ == "__main__":
    main()
