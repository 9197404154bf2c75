"""Machines on landmarks at size: seconds, memory and error, beside pipelines of peers.

    python benchmarks/scale.py                  # 100,000 points, 1,000 landmarks
    python benchmarks/scale.py 2000000 --size 2000 --peers none   # ours alone
    python benchmarks/scale.py 20000 --size 200                   # quick
    python benchmarks/scale.py --real           # colours, proteins, images
    python benchmarks/scale.py --real mnist     # sets whose name has this word

Points are random in 20 dimensions, made by a function of a seed; the target is
sin(2x₁) + x₂x₃ with noise, or its sign. Each row is a process of its own, so that its
peak of memory, the points included, is that of the row. Before each fit another process
writes to some memory: in a virtual machine, whoever comes first would else wait for it.
Landmarks of scikit-learn's `Nystroem` and of Falkon are drawn uniformly; ours are
pivoted, and rows with a share, as 1/3, have that many of them: where their error is no
larger, it is they that compare. Rows that say "same" have the very landmarks that
scikit-learn draws, and so its errors. Errors are on 20,000 other points without noise:
the mean square for numbers, the share of wrong signs for classes. Falkon (ridge alone)
is a row where it is installed.

Real sets are looked for in the folder that MERCER_DATA names; those that are not there
are named and left out. A fifth of the colours and of the proteins are held out, images
have test sets of their own. Ridge learns a column of ±1 for each class.
"""

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from record import memory_is_known

D = 20
ALPHA = 1.0  # of ridge; 1/C of the SVMs and of logistic regression
DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)
# Files, γ and α; columns of colours and proteins are standardised, pixels / 255.
REAL = {
    "skin": ("skin_nonskin.npz", 1.0, 0.1),
    "casp": ("casp_protein.npz", 0.5, 0.1),
    "mnist": ("mnist.npz", 0.02, 0.1),
    "fashion": ("fashion_mnist.npz", 0.02, 0.1),
}


@dataclass
class Data:
    """Points to learn from and to be tested on, with numbers, classes or both."""

    X: np.ndarray
    new: np.ndarray
    gamma: float
    alpha: float
    numbers: tuple[np.ndarray, np.ndarray] | None = None
    classes: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def kinds(self) -> list[str]:
        return ["ridge"] if self.classes is None else ["ridge", "logistic", "svc"]


def values(X):
    return np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]


def random_data(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    f = values(X)
    numbers = f + 0.1 * rng.normal(size=n)
    classes = f + 0.3 * rng.normal(size=n) > 0
    new = np.random.default_rng(1).normal(size=(20_000, D))
    f = values(new)
    return Data(X, new, 0.05, ALPHA, (numbers, f), (classes, f > 0))


def real_data(name):
    file, gamma, alpha = REAL[name]
    found = np.load(DATA / file)
    if "X_train" in found:
        X, new = (found[key].reshape(len(found[key]), -1) / 255.0
                  for key in ("X_train", "X_test"))  # fmt: skip
        return Data(X, new, gamma, alpha, classes=(found["y_train"], found["y_test"]))
    X, y = found["X"].astype(float), found["y"]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    order = np.random.default_rng(0).permutation(len(X))
    test, train = np.split(order, [len(X) // 5])
    targets = y[train], y[test]
    if y.dtype.kind == "f":
        return Data(X[train], X[test], gamma, alpha, numbers=targets)
    return Data(X[train], X[test], gamma, alpha, classes=targets)


def same_landmarks(X, m, seed=0):
    """Those that scikit-learn's Nystroem(random_state=seed) chooses."""
    return X[np.random.RandomState(seed).permutation(len(X))[:m]]


def machine(name, m, data):
    """What is fitted in a row."""
    n, gamma, alpha = len(data.X), data.gamma, data.alpha
    peer, kind, *which = name.split()
    m = m if which in ([], ["same"]) else int(m * Fraction(*which))
    if peer == "falkon":
        return Falkon(m, gamma, alpha / n)
    if peer == "mercer":
        from mercer import RBF, SVC, KernelLogisticRegression, KernelRidge, Nystrom

        landmarks = same_landmarks(data.X, m) if which == ["same"] else None
        kernel = Nystrom(RBF(gamma), m, landmarks=landmarks)
        made = {
            "ridge": KernelRidge(alpha, kernel=kernel),
            "logistic": KernelLogisticRegression(1 / alpha, kernel=kernel),
            "svc": SVC(C=1 / alpha, kernel=kernel),
        }
        return made[kind]
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    last = {
        "ridge": Ridge(alpha, fit_intercept=False),
        "logistic": LogisticRegression(C=1 / alpha),
        "svc": LinearSVC(C=1 / alpha, loss="hinge"),
        "sgd": SGDClassifier(alpha=alpha / n, random_state=0),
    }
    first = Nystroem(gamma=gamma, n_components=m, random_state=0)
    return make_pipeline(first, last[kind])


class Falkon:
    """Falkon's estimator on the processor, with arrays for tensors."""

    def __init__(self, m, gamma, penalty):
        import falkon
        import torch

        self.tensor = torch.from_numpy
        kernel = falkon.kernels.GaussianKernel(sigma=(2 * gamma) ** -0.5)
        options = falkon.FalkonOptions(use_cpu=True)
        self.made = falkon.Falkon(
            kernel=kernel, penalty=penalty, M=m, seed=0, options=options
        )

    def fit(self, X, y):
        self.made.fit(self.tensor(X), self.tensor(y.reshape(len(y), -1)))
        return self

    def predict(self, X):
        found = self.made.predict(self.tensor(X)).numpy()
        return found[:, 0] if found.shape[1] == 1 else found


def targets_of(data, kind):
    """What a machine learns, and the error of what it predicts on new points."""
    if kind == "ridge" and data.numbers is not None:
        learnt, true = data.numbers
        return learnt, lambda found: np.mean((found - true) ** 2)
    learnt, true = data.classes
    if kind != "ridge":
        return learnt, lambda found: np.mean(found != true)
    classes = np.unique(learnt)
    columns = np.where(learnt[:, None] == classes, 1.0, -1.0)
    return columns, lambda found: np.mean(classes[found.argmax(axis=1)] != true)


def row(name, data, m):
    """One fit, in a process of its own."""
    learnt, error = targets_of(data, name.split()[1])
    fitted = machine(name, m, data)
    memory_is_known()
    begin, used = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fitted.fit(data.X, learnt)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    ended = any("onverge" in str(one.message) for one in said)
    return {
        "seconds": seconds,
        "cpu": cpu,
        "peak": peak,
        "error": float(error(fitted.predict(data.new))),
        "note": "not converged" if ended else "",
    }


def rows_of(kinds, peers, shares=("1/2", "1/3")):
    names = []
    for kind in kinds:
        names += [f"mercer {kind}", *(f"mercer {kind} {share}" for share in shares)]
        names += [f"sklearn {kind}"] if peers == "sklearn" else []
        falkon = kind == "ridge" and importlib.util.find_spec("falkon")
        names += ["falkon ridge"] if falkon and peers != "none" else []
    sgd = peers == "sklearn" and "svc" in kinds
    return names + (["sklearn sgd"] if sgd else [])


def table(head, names, options):
    """A row for each machine, each in a process of its own."""
    print(f"{head}, {options.size:,} landmarks")
    print(f"{'':<20}{'wall s':>9}{'cpu s':>9}{'peak GB':>9}{'error':>9}")
    for name in names:
        if options.only not in name:
            continue
        command = [sys.executable, __file__, str(options.points)]
        command += ["--size", str(options.size), "--row", name]
        command += [] if options.set is None else ["--set", options.set]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"{name:<20} {done.stderr.strip().splitlines()[-1][:60]}")
            continue
        found = json.loads(done.stdout.strip().splitlines()[-1])
        print(
            f"{name:<20}{found['seconds']:>9.2f}{found['cpu']:>9.2f}"
            f"{found['peak']:>9.2f}{found['error']:>9.4f}  {found['note']}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("points", nargs="?", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument(
        "--peers", choices=["sklearn", "falkon", "none"], default="sklearn"
    )
    parser.add_argument("--only", default="", help="rows whose name has this word")
    parser.add_argument("--real", nargs="?", const="", help="real sets, by their names")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--set", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        own = options.set is None
        data = random_data(options.points) if own else real_data(options.set)
        print(json.dumps(row(options.row, data, options.size)))
        return
    if options.real is None:
        names = rows_of(["ridge", "logistic", "svc"], options.peers)
        table(f"{options.points:,} x {D}", names, options)
        return
    for name in REAL:
        if options.real not in name:
            continue
        if not (DATA / REAL[name][0]).exists():
            print(f"{name}: no {REAL[name][0]} in {DATA}")
            continue
        data, options.set = real_data(name), name
        n, d = data.X.shape
        # Of proteins and images more are needed.
        shares = {"casp": ("9/10", "1/2"), "skin": ("1/2", "1/3")}.get(name, ("same",))
        names = rows_of(data.kinds, options.peers, shares)
        table(f"{name}, {n:,} x {d}", names, options)


if __name__ == "__main__":
    main()
