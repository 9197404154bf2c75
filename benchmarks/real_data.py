"""Every kernel at work on real data, for docs/coverage.md and docs/guide/kernels.md.

    python benchmarks/real_data.py            # all
    python benchmarks/real_data.py RBF Anova  # the rows whose kernel is named

One machine, `KernelRidge`, and one protocol: 2,000 training points (seeded), the ridge
chosen among 10^-6..10^1 by the exact leave-one-out error, judged on up to 2,000 others.
Regression gives R², classification by one-against-rest ±1 targets gives accuracy.
Seconds are those of the processor, for the choice, the fit and the judgement together.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

from mercer import (
    RBF,
    Anova,
    Bilinear,
    BlockFunction,
    Centered,
    ChiSquared,
    Conformal,
    DotProduct,
    Exp,
    Exponential,
    FeatureFunction,
    Intersection,
    KernelRidge,
    Laplacian,
    Linear,
    Matern,
    Normalized,
    On,
    PairFunction,
    Polynomial,
    PolynomialOf,
    PowerSeries,
    Pullback,
    Radial,
    RankOne,
    RationalQuadratic,
    Sigmoid,
    Spline,
)

DATA = Path(
    os.environ.get("MERCER_DATA", Path(__file__).parents[1] / ".." / "shared" / "data")
)
MEASURES = [1, 2, 3, 4, 5, 6, 7]  # of an abalone record, after its sex
RIDGES = [10.0**p for p in range(-6, 2)]


def same(x, y):
    return float(x == y)


def logarithms(X):
    return np.hstack([X, np.log1p(np.abs(X))])


def size(X):
    return np.linalg.norm(X, axis=1)


def damped(distance):
    return np.exp(-distance / 5) * (1 + distance / 5)


def eighth_cosh(t):
    return np.exp(t / 8) + np.cosh(t / 8)


def euclidean_gaussian(X, Y):
    return np.exp(-0.05 * ((X[:, None] - Y[None]) ** 2).sum(axis=2))


def cases():
    """(mission number, data set, scaling, kernel)."""
    yield "K1", "abalone", "standard", Linear() + 1
    yield "K2", "optdigits", "unit", Polynomial(3)
    yield "K2", "kin8nm", "standard", Polynomial(4, scale=1 / 8)
    yield "K3", "kin8nm", "standard", RBF(0.05)
    yield "K3", "optdigits", "unit", RBF(0.05)
    yield "K4", "kin8nm", "standard", Exponential(8.0)
    yield "K5", "kin8nm", "standard", Laplacian(0.05)
    yield "K5", "kin8nm", "standard", Matern(2.5, 5.0)
    yield "K5", "kin8nm", "standard", RationalQuadratic(1.0, 3.0)
    yield "K5", "kin8nm", "standard", Radial(damped, "euclidean")
    yield "K6", "kin8nm", "standard", PowerSeries([1, 1 / 8, 1 / 64, 1 / 512, 1 / 4096])
    yield "K6", "kin8nm", "standard", DotProduct(eighth_cosh)
    yield "K7", "abalone", "standard", Bilinear(np.diag(np.arange(1.0, 9))) + 1
    yield "K8", "abalone", "standard", FeatureFunction(logarithms) + 1
    yield "K8", "abalone", "standard", RankOne(size) + Linear() + 1
    yield "K9", "kin8nm", "standard", Anova(3, RBF(0.1), cumulative=True)
    yield "K9", "abalone", "standard", Anova(2, cumulative=True) + 1
    yield "K19", "optdigits", "counts", ChiSquared(0.02)
    yield "K19", "optdigits", "counts", Intersection()
    yield "K20", "abalone", "range", Spline()
    yield "K20", "abalone", "standard", Sigmoid(0.01, 0.0) + 1
    yield "K20", "abalone", "standard", BlockFunction(euclidean_gaussian)
    yield "A1-A3", "kin8nm", "standard", 2 * RBF(0.05) + Linear() * RBF(0.02)
    yield "A4", "kin8nm", "standard", Conformal(RBF(0.05), size)
    yield "A4", "optdigits", "counts", Normalized(Polynomial(3))
    yield "A5", "kin8nm", "standard", PolynomialOf(RBF(0.02), [0, 1, 1, 1])
    yield "A6", "kin8nm", "standard", Exp(0.1 * Linear())
    yield "A7", "abalone", "standard", Pullback(RBF(0.05), logarithms)
    yield "A8", "abalone", "records", On(0, PairFunction(same)) + On(MEASURES, RBF(0.1))
    yield "A9", "abalone", "records", On(0, PairFunction(same)) * On(MEASURES, RBF(0.1))
    yield "A10", "kin8nm", "standard", Centered(RBF(0.05))


def load(name: str, scaling: str):
    """Points, targets and whether they are classes; scaled as asked."""
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as file:
        X, y = file["X"].astype(float), file["y"]
    if scaling == "standard":
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    elif scaling == "range":
        X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    elif scaling == "unit":
        X = X / np.abs(X).max()
    elif scaling == "records":
        standard = (X - X.mean(axis=0)) / X.std(axis=0)
        X = [
            ("?MFI"[int(x[0])], *row[1:].tolist())
            for x, row in zip(X, standard, strict=True)
        ]
    return X, y, name in ("optdigits",)


def split(X, y, seed: int = 0):
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:2000], order[2000:4000]
    take = (lambda i: [X[j] for j in i]) if isinstance(X, list) else (lambda i: X[i])
    return take(train), y[train], take(test), y[test]


def judge(kernel, X, y, X_test, y_test, classes: bool):
    """The figure on the test points, and the ridge that leave-one-out chose."""
    target = np.where(y[:, None] == np.unique(y), 1.0, -1.0) if classes else y
    mean = target.mean(axis=0)
    kernel = kernel.resolve(X)
    K = kernel(X)
    errors = []
    for ridge in RIDGES:
        trial = KernelRidge(alpha=ridge, kernel="precomputed").fit(K, target - mean)
        errors.append(np.mean((trial.loo_predictions_ - (target - mean)) ** 2))
    best = RIDGES[int(np.argmin(errors))]
    machine = KernelRidge(alpha=best, kernel=kernel).fit(X, target - mean)
    prediction = machine.predict(X_test) + mean
    if classes:
        return np.mean(np.unique(y)[prediction.argmax(axis=1)] == y_test), best
    residual = np.mean((prediction - y_test) ** 2)
    return 1 - residual / np.var(y_test), best


def main(words: list[str]) -> None:
    if not DATA.is_dir():
        sys.exit(f"No data in {DATA}; set MERCER_DATA to the folder of the data sets.")
    print(
        f"{'number':7}{'data':11}{'metric':10}{'figure':>8}{'ridge':>9}{'CPU s':>7}"
        "  kernel"
    )
    for number, name, scaling, kernel in cases():
        if words and not any(word in repr(kernel) for word in words):
            continue
        X, y, classes = load(name, scaling)
        start = time.process_time()
        figure, ridge = judge(kernel, *split(X, y), classes)
        seconds = time.process_time() - start
        metric = "accuracy" if classes else "R²"
        print(
            f"{number:7}{name:11}{metric:10}{figure:8.4f}{ridge:9.0e}{seconds:7.1f}"
            f"  {kernel!r}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
