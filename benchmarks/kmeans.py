"""Kernel k-means on MNIST beside tslearn's, and alone on 50,000 images.

    pip install tslearn
    python benchmarks/kmeans.py                # n = 1,000, 2,000, 5,000
    python benchmarks/kmeans.py --large        # n = 50,000: seconds and peak memory
    python benchmarks/kmeans.py --points 5000 --repeats 5
    python benchmarks/kmeans.py --features     # explicit maps, beside scikit-learn's

All start from the same random labels, as tslearn does, with one Gaussian kernel, ten
clusters and at most 50 steps. tslearn takes ‖μ‖ = 1 for the centroids, so it minimises
something else and ends elsewhere; its inertia is computed here by the definition, from
its labels. The adjusted Rand index compares clusters with the digits. Times are medians
of runs in turn. With --features points of Gaussian clouds and MNIST are clustered on
explicit features, and by scikit-learn's KMeans on the same features from the same
points in as many steps; times are of the processor, the map counted for both. Images
are float32 for the first column of ours, float64 for the other.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from record import record
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from mercer import RBF, FeatureMap, Gram, KernelKMeans, Linear, Nystrom, Polynomial
from mercer.solvers.clusters import KernelLloyd
from mercer.solvers.partition import Partition

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tslearn.clustering import KernelKMeans as Peer
except ImportError:
    Peer = None

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)
K, GAMMA, STEPS = 10, 0.02, 50


def images(n):
    """n of MNIST's training images as float32 in [0, 1], and their digits."""
    with np.load(DATA / "mnist.npz", allow_pickle=False) as file:
        return file["X_train"][:n] / np.float32(255), file["y_train"][:n]


def labels(n):
    """What tslearn starts from with random_state=0."""
    return np.random.RandomState(0).randint(K, size=n)


def ours(X, init, **options):
    machine = KernelKMeans(
        K, kernel=RBF(GAMMA), init=init, max_iter=STEPS, random_state=0, **options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return machine.fit(X)


def peer(X):
    machine = Peer(
        K, kernel="rbf", kernel_params={"gamma": GAMMA}, max_iter=STEPS, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return machine.fit(X[:, :, None])


def seconds(run, *arguments):
    time.sleep(0.1)
    begin = time.perf_counter()
    machine = run(*arguments)
    return time.perf_counter() - begin, machine


def row(n, repeats):
    """One line of the table: every machine in turn, `repeats` times."""
    X, digits = images(n)
    X64, start = X.astype(float), labels(n)
    cases = {
        "mercer": (ours, X, start),
        "double": (ours, X64, start),
        "k-means++": (ours, X, "k-means++"),
    }
    if Peer is not None:
        cases["tslearn"] = (peer, X64)
    times: dict[str, list[float]] = {name: [] for name in cases}
    machines = {}
    for _ in range(repeats):
        for name, (run, *arguments) in cases.items():
            spent, machines[name] = seconds(run, *arguments)
            times[name].append(spent)
    ours_ = statistics.median(times["mercer"])
    shown = [name for name in ("mercer", "tslearn") if name in times]
    record("clusters", n, {name: statistics.median(times[name]) for name in shown})
    problem = Partition(Gram(RBF(GAMMA), X64).held(), K, np.ones(n))
    for name, machine in machines.items():
        spent = statistics.median(times[name])
        inertia = KernelLloyd(1).solve(problem, start=machine.labels_).inertia
        rand = adjusted_rand_score(digits, machine.labels_)
        print(
            f"{n:>7} {name:<10} {spent:9.3f} s {spent / ours_:7.1f} x "
            f"{machine.n_iter_:>5} steps   inertia {inertia:10.2f}   Rand {rand:.3f}"
        )


def large(n):
    """Seconds and peak memory of a fit that never holds K."""
    X, digits = images(n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    spent, machine = seconds(ours, X, "k-means++")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    rand = adjusted_rand_score(digits, machine.labels_)
    print(
        f"{n:>7} k-means++  {spent:9.1f} s, {machine.n_iter_} steps "
        f"({machine.run_.status}), peak {peak:.2f} GB ({before:.2f} GB with the images "
        f"alone), Rand {rand:.3f}"
    )


def clouds(n, k):
    """n points of 20 columns from k Gaussian clouds."""
    rng = np.random.default_rng(0)
    middle = 1.5 * rng.normal(size=(k, 20))
    return middle[rng.integers(0, k, n)] + rng.normal(size=(n, 20))


def on_features(name, kernel, X, k, steps=20):
    """Ours and scikit-learn's on the same features, from the same start."""
    kernel = kernel.resolve(X)
    machine = KernelKMeans(k, kernel=kernel, init=X[:k], max_iter=steps + 1)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(X)
    spent = time.process_time() - begin
    begin = time.process_time()
    plain = isinstance(kernel, Linear)  # whose features are the points as they are
    features = X if plain else FeatureMap(kernel).fit_transform(X)
    theirs = KMeans(k, init=features[:k], n_init=1, max_iter=steps, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs.fit(features)
    other = time.process_time() - begin
    same = np.mean(theirs.labels_ == machine.labels_)
    print(
        f"{len(X):>9} {name:<18} k={k:<3} mercer {spent:6.2f} s, scikit-learn "
        f"{other:6.2f} s, {other / spent:5.2f} x; {machine.n_iter_ - 1} and "
        f"{theirs.n_iter_} steps; inertia {machine.inertia_:.7g} and "
        f"{theirs.inertia_:.7g}, {same:.2%} the same",
        flush=True,
    )


def features():
    for k in (8, 20):
        on_features("Linear", Linear(), clouds(1_000_000, k), k)
    on_features("Nystrom(RBF, 300)", Nystrom(RBF(GAMMA), 300), clouds(200_000, K), K)
    on_features("Polynomial(2)", Polynomial(2), clouds(100_000, K), K)
    if (DATA / "mnist.npz").exists():
        on_features("Linear, MNIST", Linear(), images(60_000)[0], K)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, nargs="*", default=[1000, 2000, 5000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--features", action="store_true")
    parser.add_argument("--alone", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        return large(options.alone)
    if options.features:
        return features()
    if options.large:  # a process of its own has a peak of its own
        command = [sys.executable, __file__, "--alone", "50000"]
        return subprocess.run(command, check=True)
    if Peer is None:
        print("tslearn is not there: ours alone.")
    for n in options.points:
        row(n, options.repeats)


if __name__ == "__main__":
    main()
