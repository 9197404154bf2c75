"""Coordinate ascent beside SMO, and beside LIBLINEAR's on a linear kernel; bounds.

    python benchmarks/coordinate.py
    python benchmarks/coordinate.py 2000     # up to so many points

All machines are without bias and solve the same problem, each to the violation 1e-3.
LIBLINEAR keeps w itself, which only a linear kernel allows. The last lines are the
seconds that the table of bounds takes, without and with a fit for every point left out.
"""

import sys
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from mercer import RBF, SVC, Gram, Linear, bounds
from mercer.solvers import SMO, CoordinateAscent, svc

SIZES = (500, 1000, 2000, 4000)


def data(n, d=10):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.2 * rng.normal(size=n) > 0.1, 1.0, -1.0)
    return X, y


def solvers():
    yield "SMO", SMO()
    for order in ("cyclic", "random", "greedy"):
        yield f"CoordinateAscent, {order}", CoordinateAscent(order=order)


def best_of(runs, solve):
    """The fastest of some runs: its seconds, and what it returned."""
    timed = []
    for _ in range(runs):
        begin = time.perf_counter()
        found = solve()
        timed.append((time.perf_counter() - begin, found))
    return min(timed, key=lambda pair: pair[0])


def liblinear(X, y, C):
    """The dual objective that LIBLINEAR's coordinate descent reaches, and seconds."""
    machine = LinearSVC(
        C=C, loss="hinge", dual=True, fit_intercept=False, tol=1e-3, max_iter=100_000
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        seconds, _ = best_of(3, lambda: machine.fit(X, y))
    w = machine.coef_[0]
    primal = w @ w / 2 + C * np.maximum(0, 1 - y * (X @ w)).sum()
    return seconds, primal, machine.n_iter_


def compare(n, kernel, C):
    X, y = data(n)
    problem = svc(Gram(kernel, X), y, C, bias=False)
    for name, solver in solvers():
        seconds, found = best_of(2, lambda solver=solver: solver.solve(problem))
        row(n, kernel, name, seconds, found.run.iterations, found.primal)
    if isinstance(kernel, Linear):
        row(n, kernel, "LIBLINEAR", *(liblinear(X, y, C)[k] for k in (0, 2, 1)))


def row(n, kernel, name, seconds, steps, primal):
    print(f"{n:6d}  {kernel!r:<16}{name:<26}{seconds:9.3f} s{steps:10d}{primal:14.4f}")


def main():
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else max(SIZES)
    print(f"{'points':>6}  {'kernel':<16}{'solver':<26}{'time':>11}{'steps':>10}"
          f"{'primal':>14}")  # fmt: skip
    for n in (size for size in SIZES if size <= largest):
        for kernel, C in ((RBF(1.0), 1.0), (Linear(), 1.0)):
            compare(n, kernel, C)
    for n in (size for size in SIZES if size <= min(largest, 1000)):
        X, y = data(n)
        machine = SVC(kernel=RBF(1.0), fit_intercept=False).fit(X, y)
        for refit in (False, True):
            seconds, _ = best_of(1, lambda r=refit: bounds(machine, X, y, refit=r))  # noqa: B023
            print(f"{n:6d}  bounds(refit={refit}) {seconds:9.3f} s")


if __name__ == "__main__":
    main()
