"""What plans say beside what fits take.

    python benchmarks/plan.py                 # all
    python benchmarks/plan.py mnist ridge     # the rows whose name has such a word
    python benchmarks/plan.py --repeat 5 rvm

Each row is planned and fitted several times, in turn: the middle of the planned range
against the quickest fit. Planned seconds should be within a factor of 2, 3 at worst.
"""

import argparse
import bz2
import time
import warnings

import numpy as np
from real_svm import DATA, arrays, images, letters
from sklearn.datasets import load_svmlight_file

from mercer import (
    RBF,
    RVR,
    SVC,
    SVR,
    KernelKMeans,
    KernelLogisticRegression,
    KernelPCA,
    KernelPerceptron,
    KernelRidge,
    KernelSGDRegressor,
    Nystrom,
    OneClassSVM,
    SparseKernelRegressor,
    Spectrum,
    Subsequence,
)

RNG = np.random.default_rng(0)


def normal(n, d=10):
    """Normal points, and a smooth function of them with noise."""
    X = RNG.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=n)


def sides(n, d=10):
    X, y = normal(n, d)
    return X, y > 0


def odd_even(n):
    split = images("mnist", n)
    return split.X, split.y % 2


def covertype():
    file = arrays("covtype_first20k")
    X = file["X"].astype(float)
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1), file["y"]


def a9a():
    with bz2.open(DATA / "a9a.svm.bz2") as file:
        return load_svmlight_file(file)


def letter():
    split = letters()
    return split.X, split.y


def linear(n, d):
    X = RNG.normal(size=(n, d))
    return X, X @ RNG.normal(size=d) + RNG.normal(size=n) > 0


def strings(n, length=60):
    texts = ["".join(RNG.choice(list("ACGT"), length)) for _ in range(n)]
    return texts, np.array([text.count("AC") > 3 for text in texts])


def sinc(n):
    X = RNG.uniform(-5, 5, size=(n, 1))
    return X, np.sinc(X[:, 0]) + 0.1 * RNG.normal(size=n)


def alone(n):
    return normal(n)[0], None


ROWS = {
    "SVC mnist odd-even 10,000": (
        SVC(C=10, gamma=0.02, cache_size=1000),
        lambda: odd_even(10_000),
    ),
    "SVC mnist odd-even 30,000": (
        SVC(C=10, gamma=0.02, cache_size=1000),
        lambda: odd_even(30_000),
    ),
    "SVC letter": (SVC(C=10, gamma=1.0), letter),
    "SVC covtype_first20k": (SVC(C=10), covertype),
    "SVC a9a": (SVC(gamma=0.05), a9a),
    "SVC linear 100,000 x 20": (SVC(kernel="linear"), lambda: linear(100_000, 20)),
    "SVC Spectrum 5,000": (SVC(kernel=Spectrum(4)), lambda: strings(5000)),
    "SVC Subsequence 600": (SVC(kernel=Subsequence(3)), lambda: strings(600)),
    "SVC Nystrom 300 40,000": (
        SVC(kernel=Nystrom(RBF(0.1), 300)),
        lambda: sides(40_000),
    ),
    "SVR 8,000": (SVR(C=10), lambda: normal(8000)),
    "OneClassSVM 20,000": (OneClassSVM(nu=0.1), lambda: alone(20_000)),
    **{
        f"KernelRidge {n:,}": (
            KernelRidge(0.1, kernel=RBF(0.05)),
            lambda n=n: normal(n),
        )
        for n in (3000, 10_000, 20_000, 50_000)
    },
    **{
        f"KernelPCA {n:,}": (KernelPCA(10, kernel="rbf"), lambda n=n: alone(n))
        for n in (700, 2000, 10_000, 20_000)
    },
    **{
        f"KernelLogisticRegression {n:,}": (
            KernelLogisticRegression(kernel=RBF(0.1)),
            lambda n=n: sides(n),
        )
        for n in (1000, 5000, 15_000)
    },
    **{f"RVR {n:,} (rvm)": (RVR(RBF(0.3)), lambda n=n: sinc(n)) for n in (1000, 3000)},
    **{
        f"KernelKMeans {n:,}": (
            KernelKMeans(5, kernel="rbf", random_state=0),
            lambda n=n: alone(n),
        )
        for n in (3000, 12_000)
    },
    "SparseKernelRegressor 4,000": (
        SparseKernelRegressor(alpha=0.001),
        lambda: normal(4000),
    ),
    "KernelSGDRegressor 10,000": (KernelSGDRegressor(), lambda: normal(10_000)),
    "KernelPerceptron 10,000": (KernelPerceptron(max_iter=10), lambda: sides(10_000)),
}


def seconds(call, *given):
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = call(*given)
    return time.perf_counter() - begin, value


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(f"{'':32}{'road':>10}{'planned':>18}{'fit':>9}{'ratio':>7}{'planning':>10}")
    for name, (machine, data) in ROWS.items():
        words = [word.lower() for word in options.words]
        if words and not any(word in name.lower() for word in words):
            continue
        X, y = data()
        given = (X,) if y is None else (X, y)
        plans, fits = [], []
        for _ in range(options.repeat):
            plans.append(seconds(machine.plan, *given))
            fits.append(seconds(machine.fit, *given)[0])
            if sum(fits) > 60:
                break
        plan = sorted((plan for _, plan in plans), key=lambda plan: plan.seconds)
        plan = plan[len(plan) // 2]
        low, high = plan.seconds
        took = min(fits)
        print(
            f"{name:32}{plan.road:>10}{low:9.3g} -{high:7.3g}{took:9.3g}"
            f"{np.sqrt(low * high) / took:7.2f}{min(t for t, _ in plans):10.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
