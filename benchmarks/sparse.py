"""Time the L1 machines against scikit-learn's L1 solvers on the same kernel matrix.

    python benchmarks/sparse.py [--quick] [--only WORD] [--repeats N]

All get the matrix, computed before; "from points" is ours from the points instead, the
matrix included. Logistic regression is without intercept, which liblinear would
penalise. Every solver has its own default stopping rule (ours: a gap of 1e-4 of the
objective of the best constant), so the gap that each one ends with is measured here, by
one yardstick, relative to its objective.
"""

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from record import record
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, LogisticRegression

from mercer import RBF, Gram, Precomputed, SparseKernelClassifier, SparseKernelRegressor
from mercer.losses import Logistic, Squared
from mercer.solvers import L1Problem

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)
LONGEST = 30.0  # seconds; a peer that took so long is not run again


@dataclass
class Task:
    """Points, targets, their matrix, and the problem that all are to solve."""

    X: np.ndarray
    y: np.ndarray
    strength: float  # of the penalty, as a share of the largest that leaves a point

    def __post_init__(self):
        self.kernel = RBF().resolve(self.X)
        self.K = self.kernel(self.X)
        n = len(self.y)
        gram = Gram(Precomputed(self.K), np.arange(n))
        if self.y.dtype == bool:
            made = [gram, np.where(self.y, 1.0, -1.0), Logistic(), 1.0, None, False]
        else:
            made = [gram, self.y, Squared(), 1.0, np.full(n, 0.5 / n), True]
        made[3] = self.strength * L1Problem(*made).largest_reg()
        self.problem = L1Problem(*made)
        self.reg = self.problem.reg

    def gap(self, coef, bias) -> float:
        found = self.problem.certified(np.ravel(coef), float(np.ravel(bias)[0]))
        return found.gap / found.primal


def ours(task: Task, from_points: bool = False):
    kernel, data = ("precomputed", task.K)
    if from_points:
        kernel, data = task.kernel, task.X
    if task.y.dtype == bool:
        machine = SparseKernelClassifier(
            1 / task.reg, kernel=kernel, fit_intercept=False
        )
    else:
        machine = SparseKernelRegressor(task.reg, kernel=kernel)
    machine.fit(data, task.y)
    coef = np.zeros(len(task.y))
    coef[machine.support_] = machine.dual_coef_[0]
    return coef, machine.intercept_


def logistic(solver: str, task: Task):
    machine = LogisticRegression(
        C=1 / task.reg, l1_ratio=1, solver=solver, fit_intercept=False, random_state=0
    ).fit(task.K, task.y)
    return machine.coef_[0], machine.intercept_


def lasso(task: Task):
    machine = Lasso(task.reg).fit(task.K, task.y)
    return machine.coef_, machine.intercept_


def points(name: str, n: int):
    """The first n of the points in a random order, every column standardised."""
    with np.load(DATA / f"{name}.npz") as file:
        chosen = np.random.default_rng(0).permutation(len(file["y"]))[:n]
        X, y = file["X"][chosen].astype(float), file["y"][chosen]
    X = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-12)
    classes = np.unique(y)
    if len(classes) == 2:
        return X, y == classes[1]
    return X, (y - y.mean()) / y.std()


def timed(run: Callable, task: Task, repeats: int):
    """Median seconds, the gap, and how many points are used."""
    seconds = []
    for _ in range(repeats):
        time.sleep(0.1)
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            coef, bias = run(task)
        seconds.append(time.perf_counter() - begin)
        if seconds[-1] > LONGEST:
            break
    return statistics.median(seconds), task.gap(coef, bias), np.count_nonzero(coef)


PEERS: dict[bool, dict[str, Callable]] = {
    True: {
        "liblinear": lambda task: logistic("liblinear", task),
        "saga": lambda task: logistic("saga", task),
    },
    False: {"Lasso": lasso},
}
ROWS = [
    (name, n, strength)
    for name in ("spambase", "magic_gamma", "california_housing")
    for n in (1000, 2000, 5000)
    for strength in (0.05, 0.005)
    if not (name == "spambase" and n == 5000)
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a thousand points only")
    parser.add_argument("--only", default="", help="rows whose name has this word")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(
        f"{'data':<20}{'n':>6}{'penalty':>9}  {'solver':<12}{'seconds':>9}"
        f"{'times ours':>12}{'gap':>10}{'points':>8}"
    )
    for name, n, strength in ROWS:
        if options.only not in name or (options.quick and n > 1000):
            continue
        task = Task(*points(name, n), strength)
        runs = {
            "mercer": ours,
            "from points": lambda task: ours(task, from_points=True),
            **PEERS[task.y.dtype == bool],
        }
        base, spent, gaps = 0.0, {}, {}
        for solver, run in runs.items():
            seconds, gap, used = timed(run, task, options.repeats)
            base = base or seconds
            spent[solver], gaps[f"gap, {solver}"] = seconds, f"{gap:.1e}"
            print(
                f"{name:<20}{n:>6}{strength:>9g}  {solver:<12}{seconds:>9.3f}"
                f"{seconds / base:>12.1f}{gap:>10.1e}{used:>8}",
                flush=True,
            )
        record("sparse", f"{name} {n}, penalty {strength:g}", spent, **gaps)


if __name__ == "__main__":
    main()
