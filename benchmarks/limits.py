"""How long after its `time_limit` a fit ends, and how long `verbose` is silent.

    python benchmarks/limits.py                    # all machines, 2 s each
    python benchmarks/limits.py rvc sparse         # the rows whose name has such a word
    python benchmarks/limits.py --limit 5 kmeans
    python benchmarks/limits.py --verbose          # silences instead, in fits of 8 s
    python benchmarks/limits.py --cpu ridge pca    # by the clock of the processor

Points and sizes are such that a fit without a limit takes ten seconds and more. Over is
what a fit took beyond its limit; silence the longest time between two lines, the
beginning and the end among them. With --cpu the limit is in time of the processor, so
that what else runs matters less; the limit of SMO, in the core, is not.
"""

import argparse
import io
import os
import sys
import time
import warnings

if "--cpu" in sys.argv:  # before anything reads the clock, or starts threads
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MERCER_THREADS"):
        os.environ[name] = "1"
    time.perf_counter = time.process_time

import numpy as np

from mercer import (
    RBF,
    RVC,
    RVR,
    SVC,
    SVDD,
    SVR,
    FeatureMap,
    KernelHuberRegression,
    KernelKMeans,
    KernelLogisticRegression,
    KernelPCA,
    KernelPerceptron,
    KernelQuantileRegression,
    KernelRidge,
    KernelSGDClassifier,
    KernelSGDRegressor,
    Linear,
    NuSVC,
    NuSVR,
    Nystrom,
    OneClassSVM,
    Perceptron,
    RegularizedMachine,
    SparseKernelClassifier,
    SparseKernelRegressor,
    losses,
)

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(200_000, 10))
VALUES = np.sin(2 * POINTS[:, 0]) + POINTS[:, 1] * POINTS[:, 2]
VALUES = VALUES + 0.5 * RNG.normal(size=len(POINTS))
SIDES = (VALUES > 0).astype(int)
CLASSES = np.digitize(VALUES, [-1.0, 0.0, 1.0])


def many(q):
    """Targets of q columns, each of its own."""
    return np.column_stack([np.roll(VALUES, j) for j in range(q)])


# What is fitted, on how many points, and to what.
ROWS = {
    "SVC": (SVC(C=100, gamma=0.1), 30_000, SIDES),
    "SVC four classes": (SVC(C=100, gamma=0.1), 30_000, CLASSES),
    "SVC ovr": (SVC(C=100, gamma=0.1, multiclass="ovr"), 20_000, CLASSES),
    "SVC probability": (SVC(C=10, gamma=0.1, probability=True), 15_000, SIDES),
    "SVC Linear": (SVC(kernel=Linear(), C=10), 200_000, SIDES),
    "SVC Nystrom": (SVC(kernel=Nystrom(RBF(0.1), 1000), C=10), 100_000, SIDES),
    "NuSVC": (NuSVC(nu=0.3, gamma=0.1), 30_000, SIDES),
    "SVR": (SVR(C=10), 20_000, VALUES),
    "SVR four targets": (SVR(C=10), 15_000, many(4)),
    "NuSVR": (NuSVR(C=10), 20_000, VALUES),
    "OneClassSVM": (OneClassSVM(nu=0.3, gamma=1.0), 60_000, None),
    "SVDD": (SVDD(nu=0.3, kernel=RBF(0.3)), 60_000, None),
    "KernelLogisticRegression": (
        KernelLogisticRegression(kernel=RBF(0.1), C=10),
        30_000,
        SIDES,
    ),
    "KernelLogisticRegression four classes": (
        KernelLogisticRegression(kernel=RBF(0.1), C=10),
        20_000,
        CLASSES,
    ),
    "KernelLogisticRegression Nystrom": (
        KernelLogisticRegression(kernel=Nystrom(RBF(0.1), 2000)),
        100_000,
        SIDES,
    ),
    "RegularizedMachine hinge": (
        RegularizedMachine(losses.Hinge(), kernel=RBF(0.1), reg=1e-5),
        20_000,
        CLASSES,
    ),
    "RegularizedMachine norm": (
        RegularizedMachine(losses.Squared(), kernel=RBF(0.1), norm=20.0),
        20_000,
        VALUES,
    ),
    "KernelQuantileRegression": (
        KernelQuantileRegression(kernel=RBF(0.1)),
        20_000,
        VALUES,
    ),
    "KernelHuberRegression": (
        KernelHuberRegression(kernel=RBF(0.1), reg=1e-6),
        30_000,
        VALUES,
    ),
    "SparseKernelClassifier": (SparseKernelClassifier(C=10), 10_000, SIDES),
    "SparseKernelClassifier four classes": (
        SparseKernelClassifier(C=10),
        10_000,
        CLASSES,
    ),
    "SparseKernelRegressor": (SparseKernelRegressor(alpha=1e-4), 20_000, VALUES),
    "RVR": (RVR(RBF(0.1)), 15_000, VALUES),
    "RVC": (RVC(RBF(0.1)), 10_000, SIDES),
    "RVC four classes": (RVC(RBF(0.1)), 10_000, CLASSES),
    "RVC Nystrom": (RVC(Nystrom(RBF(0.1), 500)), 50_000, CLASSES),
    "KernelPCA": (KernelPCA(10, kernel="rbf"), 30_000, None),
    "KernelPCA dense": (
        KernelPCA(10, kernel="rbf", eigen_solver="dense"),
        7000,
        None,
    ),
    "KernelPCA Nystrom": (
        KernelPCA(10, kernel=Nystrom(RBF(0.1), 2000)),
        100_000,
        None,
    ),
    "KernelKMeans": (KernelKMeans(20, kernel="rbf", random_state=0), 30_000, None),
    "KernelKMeans Nystrom": (
        KernelKMeans(50, kernel=Nystrom(RBF(0.1), 500), n_init=5, random_state=0),
        100_000,
        None,
    ),
    "KernelPerceptron": (
        KernelPerceptron(kernel=RBF(0.1), max_iter=50, random_state=0),
        30_000,
        CLASSES,
    ),
    "Perceptron": (Perceptron(max_iter=100_000, random_state=0), 200_000, CLASSES),
    "KernelSGDClassifier": (
        KernelSGDClassifier(kernel=RBF(0.1), random_state=0),
        40_000,
        CLASSES,
    ),
    "KernelSGDRegressor": (
        KernelSGDRegressor(kernel=RBF(0.1), random_state=0),
        40_000,
        VALUES,
    ),
    "KernelRidge": (KernelRidge(0.01, kernel=RBF(0.1)), 12_000, VALUES),
    "KernelRidge products": (KernelRidge(0.01, kernel=RBF(0.1)), 50_000, VALUES),
    "KernelRidge Nystrom": (
        KernelRidge(0.01, kernel=Nystrom(RBF(0.1), 2000)),
        200_000,
        VALUES,
    ),
    "FeatureMap Nystrom": (FeatureMap(Nystrom(RBF(0.1), 3000)), 100_000, None),
}


class Heard(io.TextIOBase):
    """Standard output that notes when lines come."""

    def __init__(self):
        self.times, self.lines = [time.perf_counter()], ["(begin)"]

    def write(self, text):
        if text.strip():
            self.times.append(time.perf_counter())
            self.lines.append(text.strip())
        return len(text)


def measured(machine, X, y):
    """Seconds, of the processor too, how it ended, and what was printed when."""
    heard = Heard()
    sys.stdout = heard
    begin, cpu = time.perf_counter(), time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine.fit(X) if y is None else machine.fit(X, y)
        end = str(machine.run_.status)
    except TimeoutError as error:
        end = "TimeoutError: " + str(error).split("return.")[1].split("Raise")[0]
    finally:
        sys.stdout = sys.__stdout__
    heard.times.append(time.perf_counter())
    heard.lines.append("(end)")
    return time.perf_counter() - begin, time.process_time() - cpu, end.strip(), heard


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--limit", type=float)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    limit = options.limit or (8.0 if options.verbose else 2.0)
    head = "silence  after" if options.verbose else "over"
    print(f"{'':40}{'wall':>7}{'cpu':>7}  {head}")
    for name, (machine, n, y) in ROWS.items():
        words = [word.lower() for word in options.words]
        if words and not any(word in name.lower() for word in words):
            continue
        machine.set_params(time_limit=limit)
        if "verbose" in machine.get_params():
            machine.set_params(verbose=options.verbose)
        target = None if y is None else y[:n]
        wall, cpu, end, heard = measured(machine, POINTS[:n], target)
        line = f"{name:40}{wall:7.1f}{cpu:7.1f}"
        if options.verbose:
            silence = np.diff(heard.times)
            at = int(np.argmax(silence))
            print(f"{line}{silence[at]:8.2f}   {heard.lines[at][:60]}", flush=True)
        else:
            print(f"{line}{wall - limit:8.2f}  {end}", flush=True)


if __name__ == "__main__":
    main()
