"""Maps with few columns: seconds, and the error they leave, beside scikit-learn's.

    python benchmarks/approximate.py                      # 20,000 points, 1,000 columns
    python benchmarks/approximate.py 100000 --size 2000   # other numbers
    python benchmarks/approximate.py 4000 --size 200      # quick

A row is a map of the Gaussian kernel, its scale chosen by the points: seconds to choose
it (`fit` or `resolve`) and to write out all points, and the relative trace error
trace(K - K̃) / trace K, or for random frequencies the root mean square of k - k̃ alone.
Points are random in 20 dimensions, and the sensors of shuttle where these are found.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
from sklearn import kernel_approximation as peer

from mercer import RBF, Nystroem, Nystrom, RandomFourier, RBFSampler

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)


def datasets(n):
    rng = np.random.default_rng(0)
    yield "random", rng.normal(size=(n, 20))
    if (DATA / "shuttle.npz").exists():
        with np.load(DATA / "shuttle.npz") as parts:
            X = parts["X_train"].astype(float)
        X = X[rng.permutation(len(X))[:n]]
        yield "shuttle", (X - X.mean(axis=0)) / X.std(axis=0)
    else:
        print(f"no shuttle.npz in {DATA}")


def kernel_row(k, X):
    """Seconds of `resolve` and of `features`, and Φ."""
    begin = time.perf_counter()
    k = k.resolve(X)
    chosen = time.perf_counter()
    features = k.features(X)
    return chosen - begin, time.perf_counter() - chosen, features


def transformer_row(machine, X):
    begin = time.perf_counter()
    machine.fit(X)
    chosen = time.perf_counter()
    features = machine.transform(X)
    return chosen - begin, time.perf_counter() - chosen, features


def errors(kernel, X, features):
    """The relative trace error, and the root mean square on some pairs."""
    some = np.random.default_rng(1).permutation(len(X))[:1000]
    gap = kernel(X[some]) - features[some] @ features[some].T
    left = 1 - np.einsum("ij,ij->i", features, features).mean()
    return left, np.sqrt(np.mean(gap**2))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("points", nargs="?", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=1000)
    options = parser.parse_args()
    m = options.size
    print(f"{'':<40}{'choose s':>9} {'map s':>8} {'trace':>9} {'entries':>9}")
    for name, X in datasets(options.points):
        kernel = RBF().resolve(X)
        same = {"n_components": m, "random_state": 0, "gamma": kernel.gamma}
        rows = {
            "Nystrom pivoted": (kernel_row, Nystrom(kernel, m)),
            "Nystrom uniform": (kernel_row, Nystrom(kernel, m, method="uniform")),
            "Nystroem": (transformer_row, Nystroem(**same)),
            "sklearn Nystroem": (transformer_row, peer.Nystroem(**same)),
            "RandomFourier": (kernel_row, RandomFourier(kernel, m)),
            "RBFSampler": (transformer_row, RBFSampler(**same)),
            "sklearn RBFSampler": (transformer_row, peer.RBFSampler(**same)),
        }
        for title, (row, made) in rows.items():
            time.sleep(0.1)
            choose, write, features = row(made, X)
            trace, entries = errors(kernel, X, features)
            shown = "" if "Fourier" in title or "Sampler" in title else f"{trace:.6f}"
            label = f"{title}, {name} {len(X)}/{m}"
            print(f"{label:<40}{choose:9.3f} {write:8.3f} {shown:>9} {entries:9.6f}")


if __name__ == "__main__":
    main()
