"""Time support vector machines against scikit-learn, scikit-learn-intelex and LIBSVM.

    python benchmarks/svm.py [--quick] [--only WORD] [--repeats N] [--json FILE]
    python benchmarks/svm.py --memory       # peak memory of each fit instead of times
    python benchmarks/svm.py --growth       # how the cost grows with n, instead

See benchmarks/README.md for what is measured.
"""

import argparse
import importlib
import json
import os
import pickle
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from record import NAMES, record
from sklearn.datasets import load_iris, load_svmlight_file, make_friedman1

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)
CACHE_MB = 1000
TOL = 1e-3
LONGEST = 20.0  # seconds; a peer that took so long on a row is not run again


@dataclass
class Task:
    """Points, targets and the parameters of a machine with the Gaussian kernel.

    With `test` the fit is not timed, but the prediction of these points is.
    """

    X: Any
    y: np.ndarray
    C: float = 1.0
    gamma: float | None = None  # None: 1 / (d · var X)
    epsilon: float | None = None  # a number: regression
    test: Any = None
    loops: int = 1  # how often a short job is done in one measurement

    def __post_init__(self):
        if self.gamma is None:
            self.gamma = float(1 / (self.X.shape[1] * self.X.var(dtype=np.float64)))

    def first(self, n):
        return replace(self, X=self.X[:n], y=self.y[:n], test=None)


@dataclass
class Dual:
    """Coefficients in scikit-learn's layout: (k - 1, n_SV), a row for regression."""

    support: np.ndarray
    coef: np.ndarray
    classes: list


class Estimators:
    """A module with scikit-learn's interface."""

    def __init__(self, module):
        self.module = importlib.import_module(module)

    def prepared(self, task):
        return task

    def fit(self, task):
        common = {"C": task.C, "gamma": task.gamma, "tol": TOL, "cache_size": CACHE_MB}
        if task.epsilon is None:
            machine = self.module.SVC(**common)
        else:
            machine = self.module.SVR(**common, epsilon=task.epsilon)
        return machine.fit(task.X, task.y)

    def predict(self, machine, task):
        return machine.predict(task.test)

    def dual(self, machine):
        coef = machine.dual_coef_
        coef = coef.toarray() if sp.issparse(coef) else np.asarray(coef)
        support = np.asarray(machine.support_).astype(int)
        return Dual(support, coef.astype(float), list(getattr(machine, "classes_", [])))


class Libsvm:
    """LIBSVM by its own binding; bringing points to its format is not timed."""

    def __init__(self, module):
        self.svmutil = importlib.import_module(module)
        self.svm = importlib.import_module("libsvm.svm")

    def prepared(self, task):
        problem = self._problem(task.X, task.y)
        test = None
        if task.test is not None:
            test = self._problem(task.test, np.zeros(task.test.shape[0]))
        return replace(task, X=problem, test=test)

    def _problem(self, X, y):
        return self.svm.svm_problem(y.astype(float), sp.csr_matrix(X, dtype=float))

    def fit(self, task):
        kind = "-s 0" if task.epsilon is None else f"-s 3 -p {task.epsilon!r}"
        options = f"-t 2 -c {task.C!r} -g {task.gamma!r} -m {CACHE_MB} -e {TOL!r} -q"
        parameter = self.svm.svm_parameter(f"{kind} {options}")
        return self.svmutil.svm_train(task.X, parameter)

    def predict(self, machine, task):
        points, count = task.test.x, task.test.l
        ask = self.svm.libsvm.svm_predict
        return np.array([ask(machine, points[i]) for i in range(count)])

    def dual(self, machine):
        support = np.array(machine.get_sv_indices()) - 1
        return Dual(support, np.array(machine.get_sv_coef()).T, machine.get_labels())


# name: module, how to make it, the package to install
MACHINES: dict[str, tuple[str, Callable, str]] = {
    "mercer": ("mercer.machines.svm", Estimators, "mercer"),
    "sklearnex": ("sklearnex.svm", Estimators, "scikit-learn-intelex"),
    "sklearn": ("sklearn.svm", Estimators, "scikit-learn"),
    "libsvm": ("libsvm.svmutil", Libsvm, "libsvm-official"),
}


def machine_named(name):
    module, make, _ = MACHINES[name]
    return make(module)


def importable(names):
    """The machines that are installed; the others are named with the way to them."""
    found = {}
    for name in names:
        try:
            found[name] = machine_named(name)
        except ImportError as error:
            print(f"{name}: not here ({error}). pip install {MACHINES[name][2]}")
    return found


# The rows


class NoData(Exception):
    """A file that is not in MERCER_DATA."""


def stored(name):
    path = DATA / name
    if not path.exists():
        raise NoData(f"{name} is not in MERCER_DATA ({DATA})")
    return path


def arrays(name, *keys):
    with np.load(stored(f"{name}.npz"), allow_pickle=False) as file:
        return [file[key] for key in keys]


@cache
def images(name, n, part="train"):
    X, y = arrays(name, f"X_{part}", f"y_{part}")
    return X[:n].astype(np.float32) / np.float32(255), y[:n].astype(int)


@cache
def rotated_images(n):
    """MNIST times a fixed random orthogonal matrix: no entry is zero any more."""
    normal = np.random.default_rng(0).standard_normal((784, 784))
    return images("mnist", n)[0] @ np.linalg.qr(normal)[0].astype(np.float32)


def standardised(X):
    X = X.astype(np.float64)
    spread = X.std(axis=0)
    return ((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)).astype(np.float32)


def odd_even(n, C, dtype=np.float32):
    X, y = images("mnist", n)
    return Task(X.astype(dtype, copy=False), y % 2, C=C)


def odd_even_rotated(n, C):
    return Task(rotated_images(n), images("mnist", n)[1] % 2, C=C)


def ten_classes(name, n, C):
    return Task(*images(name, n), C=C)


def letter(n):
    X, y = arrays("letter", "X", "y")
    return Task(X[:n] / np.float32(15), y[:n], C=10.0, gamma=16.0)


def two_gaussians(n):
    """N(±0.76 e₁, I) in 20 dimensions: 57 % of the points are support vectors."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    X = rng.standard_normal((n, 20))
    X[:, 0] += 1.52 * (y - 0.5)
    return Task(X.astype(np.float32), y, gamma=1 / 20)


def a9a(n):
    path = str(stored("a9a.svm.bz2"))
    X, y = load_svmlight_file(path, n_features=123, dtype=np.float32)
    return Task(sp.csr_matrix(X[:n]), y[:n].astype(int), gamma=0.0081)


def friedman(n):
    X, y = make_friedman1(n, n_features=10, noise=1.0, random_state=0)
    return Task(X.astype(np.float32), y, C=10.0, gamma=1.0, epsilon=0.1)


def covertype(n):
    X, y = arrays("covtype_first20k", "X", "y")
    # The first rows are sorted by class: a part must be a sample of all.
    chosen = np.random.default_rng(0).permutation(len(y))[:n]
    return Task(standardised(X[chosen]), y[chosen].astype(int), C=10.0)


def protein(n):
    X, y = arrays("casp_protein", "X", "y")
    chosen = np.random.default_rng(0).permutation(len(y))[:n]
    return Task(standardised(X[chosen]), y[chosen].astype(float), C=10.0, epsilon=0.1)


def iris(n):
    X, y = load_iris(return_X_y=True)
    return Task(X.astype(np.float32), y, loops=50)


def with_test(task, test):
    return replace(task, test=test)


def predicted_images(n, classes):
    X, y = images("mnist", n)
    return with_test(
        Task(X, y if classes == 10 else y % 2), images("mnist", n, "test")[0]
    )


def predicted_rotated(n):
    # One rotation for both: the test points follow those that are fitted.
    task = odd_even_rotated(2 * n, 1.0)
    X = task.X
    return with_test(replace(task, X=X[:n], y=task.y[:n]), X[n:])


def predicted_letter(n):
    X, y = arrays("letter", "X", "y")
    X = X / np.float32(15)
    task = Task(X[:n], y[:n], C=10.0, gamma=16.0)
    return with_test(task, X[16000 : 16000 + n // 4])


@dataclass
class Row:
    """One row of the table: its name, how many points, and how to make the task.

    The slow machines (a minute and more) are left out unless all are asked for; a row
    that is rare is itself left out unless all are asked for.
    """

    name: str
    n: int
    make: Callable[[int], Task]
    slow: tuple[str, ...] = ()
    rare: bool = False
    predicts: bool = False


SLOW = ("sklearn", "libsvm")


def rows():
    yield Row("iris", 150, iris)
    yield Row("MNIST odd/even 10k C=1", 10_000, lambda n: odd_even(n, 1.0))
    yield Row("MNIST odd/even 30k C=1", 30_000, lambda n: odd_even(n, 1.0), ("libsvm",))
    yield Row(
        "MNIST odd/even 30k C=10", 30_000, lambda n: odd_even(n, 10.0), ("libsvm",)
    )
    yield Row(
        "MNIST odd/even 10k C=1 float64",
        10_000,
        lambda n: odd_even(n, 1.0, np.float64),
    )
    yield Row("rotated odd/even 10k C=1", 10_000, lambda n: odd_even_rotated(n, 1.0))
    yield Row(
        "rotated odd/even 30k C=1",
        30_000,
        lambda n: odd_even_rotated(n, 1.0),
        ("libsvm",),
    )
    yield Row(
        "rotated odd/even 30k C=10",
        30_000,
        lambda n: odd_even_rotated(n, 10.0),
        ("libsvm",),
    )
    yield Row("MNIST ten classes 10k", 10_000, lambda n: ten_classes("mnist", n, 1.0))
    yield Row(
        "MNIST ten classes 60k",
        60_000,
        lambda n: ten_classes("mnist", n, 1.0),
        SLOW,
        rare=True,
    )
    yield Row(
        "fashion ten classes 20k",
        20_000,
        lambda n: ten_classes("fashion_mnist", n, 10.0),
        ("libsvm",),
    )
    yield Row("letter 26 classes 16k", 16_000, letter)
    yield Row("covtype 7 classes 20k", 20_000, covertype)
    yield Row("two Gaussians 20k", 20_000, two_gaussians)
    yield Row("a9a sparse 32.6k", 32_561, a9a)
    yield Row("SVR friedman1 10k", 10_000, friedman)
    yield Row("SVR casp 20k", 20_000, protein)
    yield Row(
        "predict MNIST odd/even 10k",
        10_000,
        lambda n: predicted_images(n, 2),
        predicts=True,
    )
    yield Row("predict rotated odd/even 10k", 10_000, predicted_rotated, predicts=True)
    yield Row(
        "predict MNIST ten classes 10k",
        10_000,
        lambda n: predicted_images(n, 10),
        predicts=True,
    )
    yield Row("predict letter 4k", 16_000, predicted_letter, predicts=True)


# What is measured


def timed(job, loops=1):
    # The threads of a BLAS spin for a while after its last call.
    time.sleep(0.1)
    start = time.perf_counter()
    for _ in range(loops):
        result = job()
    return (time.perf_counter() - start) / loops, result


def job_of(machine, task, fitted):
    """What is timed: to predict with what was fitted, or to fit."""
    if task.test is not None:
        return lambda: machine.predict(fitted, task)
    return lambda: machine.fit(task)


def measured(machines, task, repeats):
    """Seconds of everyone, in turn so that a busy moment hits all alike; the fits."""
    seconds = {name: [] for name in machines}
    fitted, jobs = {}, {}
    for name, machine in machines.items():
        # Threads are started and libraries loaded before the clock runs.
        machine.fit(machine.prepared(warm_up(task)))
        given = machine.prepared(task)
        if task.test is not None:
            fitted[name] = machine.fit(given)
        jobs[name] = job_of(machine, given, fitted.get(name))
    for _ in range(repeats):
        for name, job in jobs.items():
            if sum(seconds[name]) < LONGEST or name == "mercer":
                taken, result = timed(job, task.loops)
                seconds[name].append(taken)
                if task.test is None:
                    fitted[name] = result
    return seconds, fitted


def warm_up(task):
    """A few of the points, of two classes where there are classes."""
    if task.epsilon is not None:
        return task.first(200)
    few = np.concatenate([np.flatnonzero(task.y == c)[:50] for c in np.unique(task.y)])
    return replace(task, X=task.X[few], y=task.y[few], test=None)


def objective(task, dual):
    """(the dual objective in float64, how far the coefficients are from feasible).

    Σ|β| - ½ βᵀKβ summed over the pairs of classes; Σ yβ - εΣ|β| - ½ βᵀKβ for
    regression. Infeasible is the largest |Σβ| or |β| - C, relative to C.
    """
    from mercer import RBF

    kernel, coef = RBF(task.gamma), dual.coef
    X = task.X[dual.support].astype(np.float64)
    y = task.y[dual.support]
    excess = np.abs(coef).max() / task.C - 1
    if task.epsilon is not None:
        beta = coef[0]
        square = beta @ kernel.matmul(X, X, beta)
        value = y @ beta - task.epsilon * np.abs(beta).sum() - square / 2
        return value, max(excess, abs(beta.sum()) / task.C)
    members = [np.flatnonzero(y == label) for label in dual.classes]
    points = [X[at] for at in members]
    within = []  # per class, βᵀKβ of its part of every pair it is in
    for at, own in zip(members, points, strict=True):
        beta = coef[:, at].T
        within.append((beta * kernel.matmul(own, own, beta)).sum(axis=0))
    value = 0.0
    for i in range(len(members)):
        for j in range(i + 1, len(members)):
            a, b = coef[j - 1, members[i]], coef[i, members[j]]
            across = a @ kernel.matmul(points[i], points[j], b)
            square = within[i][j - 1] + within[j][i] + 2 * across
            value += np.abs(a).sum() + np.abs(b).sum() - square / 2
            excess = max(excess, abs(a.sum() + b.sum()) / task.C)
    return value, excess


@cache
def sgemm_rate(d, m=4000):
    """Entries per second of the product of (m, d) by (d, m) in float32."""
    rng = np.random.default_rng(0)
    A, B = rng.random((2, m, d), dtype=np.float32)
    out = np.zeros((m, m), np.float32)
    np.matmul(A, B.T, out=out)
    return m * m / min(timed(lambda: np.matmul(A, B.T, out=out))[0] for _ in range(5))


def report(row, task, machines, options):
    """The figures of one row, as they go to the file."""
    seconds, fitted = measured(machines, task, options.repeats)
    figures = {"name": row.name, "shape": task.X.shape, "machines": {}}
    for name, machine in machines.items():
        dual = machine.dual(fitted[name])
        one = {
            "seconds": seconds[name],
            "median": statistics.median(seconds[name]),
            "n_support": len(dual.support),
        }
        if not (options.no_objective or row.predicts):
            one["objective"], one["infeasible"] = objective(task, dual)
        figures["machines"][name] = one
    against = (task.X if task.test is None else task.test).shape[0]
    entries = figures["machines"]["mercer"]["n_support"] * against
    figures["least"] = entries / sgemm_rate(task.X.shape[1])
    return figures


def compared(figures, name):
    """Seconds of a peer, times ours, and how far its dual objective is below ours."""
    ours, peer = figures["machines"]["mercer"], figures["machines"].get(name)
    if peer is None:
        return f" {'-':>9} {'':7} {'':8}"
    text = f" {peer['median']:9.4g} {peer['median'] / ours['median']:6.1f}x"
    if "objective" not in peer:
        return text + " " * 9
    behind = ours["objective"] / peer["objective"] - 1
    # What is not feasible may well lie above the optimum.
    mark = "!" if peer["infeasible"] > 1e-4 else " "
    return text + f" {behind:+7.0e}{mark}"


def line(figures, peers):
    n, d = figures["shape"]
    ours = figures["machines"]["mercer"]
    mark = "!" if ours.get("infeasible", 0) > 1e-4 else " "
    text = f"{figures['name']:30} {n:6}x{d:<4} {ours['n_support']:6}{mark}"
    text += f" {ours['seconds'][0]:8.4g} {ours['median']:8.4g} {figures['least']:8.3g}"
    return text + "".join(compared(figures, name) for name in peers)


# Memory


def peak_mb():
    """Megabytes this process has held at most."""
    # After exec, ru_maxrss still knows how large the parent was; VmHWM does not.
    with suppress(OSError):
        for entry in Path("/proc/self/status").read_text().splitlines():
            if entry.startswith("VmHWM"):
                return int(entry.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def peak_of_fit(name, path):
    """In a process of its own: megabytes at the peak of a fit, and what it added."""
    machine = machine_named(name)
    with open(path, "rb") as file:
        task = pickle.load(file)
    machine.fit(machine.prepared(warm_up(task)))
    given = machine.prepared(task)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts anew
    before = peak_mb()
    machine.fit(given)
    print(json.dumps({"peak_mb": peak_mb(), "added_mb": peak_mb() - before}))


def peak_memory(name, task):
    with tempfile.NamedTemporaryFile(suffix=".task") as file:
        pickle.dump(task, file)
        file.flush()
        command = [sys.executable, __file__, "--peak", name, file.name]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(found.stdout.splitlines()[-1])


def memory(chosen, machines):
    """Peak memory of the fits, a process each; yields the figures of every row."""
    print(f"{'megabytes, peak (added by fit)':42}", end="")
    print("".join(f"{name:>18}" for name in machines))
    for row, n in chosen:
        if row.predicts:
            continue
        task = task_of(row, n)
        if task is None:
            continue
        found = {}
        print(f"{row.name:30} {task.X.shape[0]:6}x{task.X.shape[1]:<4}", end="")
        for name in machines:
            if name in row.slow:
                print(f"{'-':>18}", end="")
                continue
            found[name] = one = peak_memory(name, task)
            figure = f"{one['peak_mb']:.0f} ({one['added_mb']:.0f})"
            print(f"{figure:>18}", end="", flush=True)
        print()
        peaks = {name: one["peak_mb"] for name, one in found.items()}
        added = {
            f"added, {name}": f"{one['added_mb']:.0f}" for name, one in found.items()
        }
        record("svm memory", row.name, peaks, "MB", **added)
        yield {"name": row.name, "shape": task.X.shape, "memory": found}


# Growth


def growth(machines, repeats, quick):
    """Seconds on MNIST odd/even as n doubles, and the exponent p of seconds ~ nᵖ."""
    sizes = [2500, 5000, 10_000, 20_000]
    if quick:
        sizes = [n // 4 for n in sizes]
    seconds = {name: [] for name in machines}
    print(f"{'seconds, MNIST odd/even C=1':30}" + "".join(f"{n:9}" for n in sizes))
    for n in sizes:
        times, _ = measured(machines, odd_even(n, 1.0), repeats)
        for name in machines:
            seconds[name].append(statistics.median(times[name]))
        record("svm growth", n, {name: seconds[name][-1] for name in machines})
    figures = []
    for name in machines:
        exponent = float(np.polyfit(np.log(sizes), np.log(seconds[name]), 1)[0])
        print(f"{name:30}" + "".join(f"{s:9.3g}" for s in seconds[name]), end="")
        print(f"   ~ n^{exponent:.2f}")
        figures.append(
            {
                "name": "growth",
                "machine": name,
                "n": sizes,
                "seconds": seconds[name],
                "exponent": exponent,
            }
        )
    return figures


def task_of(row, n):
    """The task of a row, or None, said, if its data are not there."""
    try:
        return row.make(n)
    except NoData as missing:
        print(f"{row.name}: not measured, {missing}")
        return None


def times(chosen, machines, options):
    """Times of every row; yields its figures."""
    peers = [name for name in machines if name != "mercer"]
    print(
        f"{'seconds, medians':30} {'points':11} {'SVs':>6}  "
        f"{'first':>8} {'mercer':>8} {'least':>8}"
        + "".join(f" {name:>9} {'':7} {'dual':8}" for name in peers)
    )
    for row, n in chosen:
        task = task_of(row, n)
        if task is None:
            continue
        fast = {name: m for name, m in machines.items() if name not in row.slow}
        figures = report(row, task, fast, options)
        print(line(figures, peers), flush=True)
        keep(figures)
        yield figures


def keep(figures):
    """The row for the chart of the site."""
    found = figures["machines"]
    ours = found["mercer"]
    duals = {
        f"dual,_{NAMES[who]}": f"{ours['objective'] / one['objective'] - 1:+.0e}"
        for who, one in found.items()
        if who != "mercer" and "objective" in one
    }
    medians = {who: one["median"] for who, one in found.items()}
    record(
        "svm",
        figures["name"],
        medians,
        points="{} × {}".format(*figures["shape"]),
        SVs=ours["n_support"],
        first=f"{ours['seconds'][0]:.4g}",
        least=f"{figures['least']:.3g}",
        **duals,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a quarter of the points")
    parser.add_argument("--only", default="", help="rows whose name has this word")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peers", default="sklearnex,sklearn,libsvm")
    parser.add_argument("--all", action="store_true", help="slow peers, rare rows too")
    parser.add_argument("--no-objective", action="store_true")
    parser.add_argument("--memory", action="store_true", help="peak memory instead")
    parser.add_argument("--growth", action="store_true", help="growth with n instead")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        peak_of_fit(*options.peak)
        return
    peers = [name for name in options.peers.split(",") if name]
    unknown = set(peers) - set(MACHINES)
    if unknown:
        parser.error(f"--peers are among {', '.join(MACHINES)}; got {unknown}.")
    machines = importable(["mercer", *peers])
    setup = describe(machines)
    print(", ".join(f"{key} {value}" for key, value in setup.items()))
    chosen = []
    for row in rows():
        if options.only in row.name and (options.all or not row.rare):
            if options.all or options.quick:
                row = replace(row, slow=())
            small = options.quick and row.n > 1000
            chosen.append((row, row.n // 4 if small else row.n))
    if options.growth:
        figures = growth(machines, options.repeats, options.quick)
    elif options.memory:
        figures = list(memory(chosen, machines))
    else:
        figures = list(times(chosen, machines, options))
    if options.json:
        text = json.dumps({"machine": setup, "rows": figures}, indent=1)
        options.json.write_text(text)


def describe(machines):
    from mercer.native.threads import instruction_set, threads

    found = {
        "processor": platform.machine(),
        "instruction_set": instruction_set(),
        "threads": threads(),
        "cache_mb": CACHE_MB,
        "tol": TOL,
        "numpy": np.__version__,
    }
    for name in machines:
        if name != "mercer":
            found[name] = version(MACHINES[name][2])
    return found


if __name__ == "__main__":
    main()
