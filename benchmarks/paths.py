"""Exact paths beside grids of fits, and points that come beside fits anew.

python benchmarks/paths.py [n]      CPU seconds of one process, medians of three
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from mercer import RBF, SVC, KernelRidge
from mercer.paths import svm_path


def seconds(work) -> float:
    """The median CPU time of three calls."""
    found = []
    for _ in range(3):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return sorted(found)[1]


def grid(X, y, values, tol: float) -> None:
    """Fits along C, each from the last."""
    machine = SVC(kernel=RBF(0.05), tol=tol, warm_start=True)
    for C in values:
        machine.set_params(C=C).fit(X, y)


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    X, y = make_classification(n + 10, 10, flip_y=0.1, random_state=0)
    first = X[:n], y[:n]
    path = svm_path(RBF(0.05), *first, C_max=100)
    values = np.geomspace(0.01, 100, 50)
    follow = seconds(lambda: svm_path(RBF(0.05), *first, C_max=100))
    print(f"{n} points, RBF, C to 100: {len(path.breakpoints)} breakpoints")
    print(f"path                                {follow:8.3f} s")
    for tol in (1e-3, 1e-9):
        took = seconds(lambda tol=tol: grid(*first, values, tol))
        print(f"50 warm-started fits, tol={tol:<8g}   {took:8.3f} s")
    machine = SVC(kernel=RBF(0.05)).add(*first)
    begin, rows = time.process_time(), []
    for i in range(n, n + 10):
        machine.add(X[i : i + 1], y[i : i + 1])
        rows.append(machine.run_.rows)
    took = (time.process_time() - begin) / 10
    fitted = SVC(kernel=RBF(0.05))
    whole = seconds(lambda: fitted.fit(X, y))
    print(f"add one point                       {took:8.4f} s, rows {rows}")
    print(
        f"fit of all                          {whole:8.4f} s, rows {fitted.run_.rows}"
    )
    ridge = KernelRidge(0.1, kernel=RBF(0.05)).fit(*first)
    ridge.add(X[n : n + 1], y[n : n + 1])
    one = seconds(lambda: ridge.add(X[n : n + 1], y[n : n + 1]))
    anew = seconds(lambda: KernelRidge(0.1, kernel=RBF(0.05)).fit(*first))
    print(f"ridge: add {one:.4f} s, fit {anew:.4f} s")


if __name__ == "__main__":
    main()
