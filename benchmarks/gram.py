"""Time blocks of Gram matrices against scikit-learn, numpy and the bare matrix product.

    python benchmarks/gram.py [--quick] [--only WORD] [--repeats N] [--json FILE]

See benchmarks/README.md for what is measured.
"""

import argparse
import json
import os
import platform
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import scipy
import sklearn
from record import record
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import pairwise

from mercer.native.threads import instruction_set, threads
from mercer.native.vectors import Recipe, block, product

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)


@dataclass
class Case:
    """One row of the table: what we do, and what each peer does instead."""

    name: str
    entries: int
    ours: dict = field(default_factory=dict)
    peers: dict = field(default_factory=dict)
    tolerance: float = 1e-4

    def run(self, repeats):
        """Seconds of everything, run in turn so that a busy moment hits all alike."""
        jobs = {**self.ours, **self.peers}
        results = {name: np.array(job()) for name, job in jobs.items()}
        if "sklearn" in results:
            truth = results["sklearn"]
            error = np.abs(results["mercer"] - truth).max() / np.abs(truth).max()
            assert error < self.tolerance, f"{self.name}: off by {error:.1e}"
        del results
        seconds = {name: [] for name in jobs}
        for _ in range(repeats):
            for name, job in jobs.items():
                # The threads of a BLAS spin for a while after its last call.
                time.sleep(0.1)
                start = time.perf_counter()
                job()
                seconds[name].append(time.perf_counter() - start)
        return seconds


def gaussian_by_hand(X, Y, gamma):
    K = X @ Y.T
    K *= -2
    K += (X * X).sum(axis=1)[:, None]
    K += (Y * Y).sum(axis=1)
    K *= -gamma
    return np.exp(K, out=K)


def dense_gaussian(X, Y, label):
    """k(X, Y), k(X) and k(X, Y) v of the Gaussian kernel on dense points."""
    n, m, d, dtype = len(X), len(Y), X.shape[1], X.dtype
    gamma = 0.5 / (d * float(X.var()))
    recipe = Recipe("square", "exp", scale=-gamma)
    out, square = np.zeros((n, m), dtype), np.zeros((n, n), dtype)
    bare = np.zeros((n, m), dtype)
    twin = X.copy()  # numpy would see that X @ X.T is symmetric and not use gemm
    v = np.random.default_rng(2).standard_normal(m)
    yield Case(
        f"gaussian k(X, Y)   {label}",
        n * m,
        {
            "mercer": lambda: block(recipe, X, Y, out=out),
            "mercer, new": lambda: block(recipe, X, Y),
        },
        {
            "sklearn": lambda: pairwise.rbf_kernel(X, Y, gamma=gamma),
            "numpy": lambda: gaussian_by_hand(X, Y, gamma),
            "gemm": lambda: np.matmul(X, Y.T, out=bare),
        },
    )
    yield Case(
        f"gaussian k(X)      {label}",
        n * n,
        {
            "mercer": lambda: block(recipe, X, out=square),
            "mercer, new": lambda: block(recipe, X),
        },
        {
            "sklearn": lambda: pairwise.rbf_kernel(X, gamma=gamma),
            "numpy": lambda: gaussian_by_hand(X, X, gamma),
            "gemm": lambda: np.matmul(X, twin.T, out=square),
        },
        tolerance=1e-3,
    )
    yield Case(
        f"gaussian k(X, Y) v {label}",
        n * m,
        {"mercer": lambda: product(recipe, X, Y, v)},
        {
            "sklearn": lambda: pairwise.rbf_kernel(X, Y, gamma=gamma) @ v,
            "numpy": lambda: gaussian_by_hand(X, Y, gamma) @ v,
            "gemm": lambda: np.matmul(X, Y.T, out=bare),
        },
        tolerance=1e-3,
    )


def dense_others(X, Y, label):
    """Linear and polynomial kernels as large as the Gaussian, slow peers smaller."""
    n, m, d, dtype = len(X), len(Y), X.shape[1], X.dtype
    out, bare = np.zeros((n, m), dtype), np.zeros((n, m), dtype)
    linear = Recipe("product", "identity")
    cubic = Recipe("product", "power", scale=1 / d, offset=1.0, degree=3)
    gemm = {"gemm": lambda: np.matmul(X, Y.T, out=bare)}
    yield Case(
        f"linear k(X, Y)     {label}",
        n * m,
        {"mercer": lambda: block(linear, X, Y, out=out)},
        {"sklearn": lambda: pairwise.linear_kernel(X, Y), **gemm},
    )
    yield Case(
        f"cubic k(X, Y)      {label}",
        n * m,
        {"mercer": lambda: block(cubic, X, Y, out=out)},
        {"sklearn": lambda: pairwise.polynomial_kernel(X, Y, degree=3), **gemm},
    )
    a, b = np.abs(X[: n // 8]), np.abs(Y[: m // 8])
    laplacian = Recipe("absolute", "exp", scale=-1 / d)
    chi2 = Recipe("chi2", "exp", scale=-1 / d)
    yield Case(
        f"laplacian k(X, Y)  {label}",
        len(a) * len(b),
        {"mercer": lambda: block(laplacian, a, b)},
        {"sklearn": lambda: pairwise.laplacian_kernel(a, b, gamma=1 / d)},
    )
    yield Case(
        f"chi2 k(X, Y)       {label}",
        len(a) * len(b),
        {"mercer": lambda: block(chi2, a, b)},
        {"sklearn": lambda: pairwise.chi2_kernel(a, b, gamma=1 / d)},
    )


def sparse(X, Y, label):
    """The kernels on CSR points."""
    n, m, d, dtype = X.shape[0], Y.shape[0], X.shape[1], X.dtype
    gamma = 1 / d
    recipe = Recipe("square", "exp", scale=-gamma)
    linear = Recipe("product", "identity")
    out, square = np.zeros((n, m), dtype), np.zeros((n, n), dtype)
    v = np.random.default_rng(2).standard_normal(m)
    dense_X, dense_Y = X.toarray(), Y.toarray()
    gemm = {"gemm": lambda: np.matmul(dense_X, dense_Y.T, out=out)}
    yield Case(
        f"gaussian k(X, Y)   {label}",
        n * m,
        {
            "mercer": lambda: block(recipe, X, Y, out=out),
            "mercer, new": lambda: block(recipe, X, Y),
        },
        {"sklearn": lambda: pairwise.rbf_kernel(X, Y, gamma=gamma), **gemm},
    )
    yield Case(
        f"gaussian k(X)      {label}",
        n * n,
        {"mercer": lambda: block(recipe, X, out=square)},
        {"sklearn": lambda: pairwise.rbf_kernel(X, gamma=gamma)},
    )
    yield Case(
        f"gaussian k(X, Y) v {label}",
        n * m,
        {"mercer": lambda: product(recipe, X, Y, v)},
        {"sklearn": lambda: pairwise.rbf_kernel(X, Y, gamma=gamma) @ v},
        tolerance=1e-3,
    )
    yield Case(
        f"linear k(X, Y)     {label}",
        n * m,
        {"mercer": lambda: block(linear, X, Y, out=out)},
        {"sklearn": lambda: pairwise.linear_kernel(X, Y, dense_output=True)},
    )
    a, b = X[: n // 8], Y[: m // 8]
    laplacian = Recipe("absolute", "exp", scale=-1 / d)
    yield Case(
        f"laplacian k(X, Y)  {label}",
        a.shape[0] * b.shape[0],
        {"mercer": lambda: block(laplacian, a, b)},
        {"sklearn": lambda: pairwise.laplacian_kernel(a, b, gamma=1 / d)},
    )


def cases(quick):
    """All rows; data sets that are not there are named and left out."""
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        for d in (4, 20, 123, 784):
            n = (4000 if d > 500 else 6000) // (2 if quick else 1)
            X = rng.standard_normal((n, d)).astype(dtype)
            Y = rng.standard_normal((n - 100, d)).astype(dtype)
            label = f"d={d} {np.dtype(dtype).name}"
            yield from dense_gaussian(X, Y, label)
            yield from dense_others(X, Y, label)
    n = 3000 if quick else 6000
    for name, d in (("a9a", 123), ("w8a", 300)):
        path = DATA / f"{name}.svm.bz2"
        if not path.exists():
            print(f"{name}: not measured, {path.name} is not in MERCER_DATA")
            continue
        for dtype in (np.float32, np.float64):
            X, _ = load_svmlight_file(str(path), n_features=d, dtype=dtype)
            label = f"{name} {np.dtype(dtype).name}"
            yield from sparse(X[:n], X[n : 2 * n], label)
    path = DATA / "mnist.npz"
    if not path.exists():
        print(f"mnist: not measured, {path.name} is not in MERCER_DATA")
        return
    with np.load(path) as file:
        X = file["X_train"][: 2 * n].reshape(2 * n, -1).astype(np.float32) / 255
    yield from dense_gaussian(X[:n], X[n:], "mnist float32")


def line(case, seconds):
    ours = seconds["mercer"]
    text = f"{case.name:36} {1e3 * ours:9.1f}"
    new = seconds.get("mercer, new")
    text += f" {1e3 * new:9.1f}" if new else " " * 10
    for peer in ("sklearn", "numpy"):
        if peer in seconds:
            text += f" {1e3 * seconds[peer]:9.1f} {seconds[peer] / ours:6.1f}x"
        else:
            text += " " * 18
    if "gemm" in seconds:
        text += f" {1e3 * seconds['gemm']:9.1f} {100 * seconds['gemm'] / ours:6.0f}%"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="half as many points")
    parser.add_argument("--only", default="", help="rows whose name has this word")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--best", action="store_true", help="minima, not medians")
    parser.add_argument("--json", type=Path, help="write all times to this file")
    options = parser.parse_args()
    machine = {
        "processor": platform.machine(),
        "instruction_set": instruction_set(),
        "threads": threads(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "sklearn": sklearn.__version__,
    }
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print(
        f"{'milliseconds':36} {'mercer':>9} {'new out':>9} "
        f"{'sklearn':>9} {'':7} {'numpy':>9} {'':7} {'gemm':>9}  share"
    )
    summary = min if options.best else statistics.median
    rows = []
    for case in cases(options.quick):
        if options.only not in case.name:
            continue
        seconds = case.run(options.repeats)
        rows.append({"name": case.name, "entries": case.entries, "seconds": seconds})
        typical = {name: summary(times) for name, times in seconds.items()}
        print(line(case, typical), flush=True)
        figures = {who: 1e3 * one for who, one in typical.items()}
        record("gram", case.name, figures, "ms")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(
            json.dumps({"machine": machine, "rows": rows}, indent=1)
        )


if __name__ == "__main__":
    main()
