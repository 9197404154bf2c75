"""What plans say beside what fits take.

    python benchmarks/plan.py                 # all
    python benchmarks/plan.py mnist ridge     # the rows whose name has such a word
    python benchmarks/plan.py --repeat 5 rvm
    python benchmarks/plan.py --others        # real sets that no constant was fitted to
    python benchmarks/plan.py --others --cpu  # by the processor's clock, on one thread

Each row is planned and fitted several times, in turn: the middle of the planned range
against the quickest fit. Planned seconds should be within a factor of 2, 3 at worst.
With --cpu all seconds are those of the processor, so that what else runs matters less.
The last lines have the median of the ratios, the shares of rows within a factor of 2
and of 3, and of rows whose range holds what the fit took.
"""

import argparse
import bz2
import json
import os
import sys
import time
import warnings

if "--cpu" in sys.argv:  # before anything reads the clock, or starts threads
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MERCER_THREADS"):
        os.environ[name] = "1"
    time.perf_counter = time.process_time

import numpy as np
from real_structured import lines
from real_svm import DATA, arrays, images, letters
from sklearn.datasets import load_svmlight_file

from mercer import (
    RBF,
    RVC,
    RVR,
    SVC,
    SVDD,
    SVR,
    Graph,
    KernelHuberRegression,
    KernelKMeans,
    KernelKNNClassifier,
    KernelLogisticRegression,
    KernelPCA,
    KernelPerceptron,
    KernelQuantileRegression,
    KernelRidge,
    KernelSGDClassifier,
    KernelSGDRegressor,
    NuSVC,
    NuSVR,
    Nystrom,
    OneClassSVM,
    ParzenClassifier,
    Perceptron,
    Polynomial,
    RegularizedMachine,
    SparseKernelClassifier,
    SparseKernelRegressor,
    Spectrum,
    Subsequence,
    SubsetTree,
    Tree,
    WeightedDegree,
    WeisfeilerLehman,
    losses,
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


# Real sets that no constant of the plans was fitted to


def scaled(name, n):
    """So many points in a random order, every column to mean 0 and variance 1."""
    file = arrays(name)
    X, y = (file.get(key, file.get(f"{key}_train")) for key in "Xy")
    chosen = np.random.default_rng(1).permutation(len(X))[:n]
    X, y = X[chosen].astype(float), y[chosen]
    deviation = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    if y.dtype.kind == "f":
        y = (y - y.mean()) / y.std()
    return X, y


def sparse(name, n):
    with bz2.open(DATA / f"{name}.svm.bz2") as file:
        X, y = load_svmlight_file(file)
    chosen = np.random.default_rng(1).permutation(X.shape[0])[:n]
    return X[chosen], y[chosen]


def points(name, n):
    return scaled(name, n)[0], None


def texts(name, place, n):
    """Strings of a file of lines, which has their classes in its first column."""
    rows = [line.split("\t") for line in lines(name)]
    order = np.random.default_rng(1).permutation(len(rows))[:n]
    return [rows[i][place] for i in order], np.array([rows[i][0] for i in order])


def molecules(n):
    rows = [json.loads(line) for line in lines("graphs_NCI1.jsonl.gz")]
    order = np.random.default_rng(1).permutation(len(rows))[:n]
    rows = [rows[i] for i in order]
    X = [Graph(list(map(tuple, row["edges"])), row["node_labels"]) for row in rows]
    return X, np.array([row["y"] for row in rows])


def sentences(n):
    rows = lines("sst_trees_train.txt.gz")[: 3 * n]
    found = [(row[1] > "2", Tree(row)) for row in rows if row[1] != "2"][:n]
    return [tree for _, tree in found], np.array([y for y, _ in found])


def row(machine, data, *given):
    return machine, lambda: data(*given)


OTHERS = {
    "SVC magic 5,000": row(SVC(C=10), scaled, "magic_gamma", 5000),
    "SVC magic": row(SVC(C=10), scaled, "magic_gamma", 19_020),
    "SVC credit": row(SVC(), scaled, "credit_default", 30_000),
    "SVC shuttle": row(SVC(C=100), scaled, "shuttle", 43_500),
    "SVC skin 60,000": row(SVC(C=10), scaled, "skin_nonskin", 60_000),
    "SVC letter 20,000": row(SVC(C=100, gamma=0.1), scaled, "letter", 20_000),
    "SVC usps": row(SVC(C=10, gamma=0.004), scaled, "usps", 7291),
    "SVC spambase": row(SVC(C=10), scaled, "spambase", 4601),
    "SVC optdigits poly": row(SVC(kernel="poly"), scaled, "optdigits", 5620),
    "SVC w8a": row(SVC(C=10, gamma=0.05), sparse, "w8a", 49_749),
    "SVC w8a linear": row(SVC(kernel="linear"), sparse, "w8a", 49_749),
    "SVC credit linear": row(SVC(kernel="linear"), scaled, "credit_default", 30_000),
    "SVC a9a 10,000 probability": row(
        SVC(gamma=0.01, probability=True), sparse, "a9a", 10_000
    ),
    "SVC waveform ovr": row(SVC(multiclass="ovr"), scaled, "waveform", 5000),
    "SVC magic Nystrom 500": row(
        SVC(C=10, kernel=Nystrom(RBF(0.1), 500)), scaled, "magic_gamma", 19_020
    ),
    "NuSVC spambase": row(NuSVC(nu=0.2), scaled, "spambase", 4601),
    "NuSVC magic": row(NuSVC(nu=0.4), scaled, "magic_gamma", 19_020),
    "SVR cpusmall": row(SVR(C=100), scaled, "cpusmall", 8192),
    "SVR kin8nm": row(SVR(C=10), scaled, "kin8nm", 8192),
    "SVR california": row(SVR(C=10), scaled, "california_housing", 20_640),
    "SVR abalone 1,000": row(SVR(), scaled, "abalone", 1000),
    "NuSVR kin8nm": row(NuSVR(C=10), scaled, "kin8nm", 8192),
    "OneClassSVM shuttle": row(OneClassSVM(nu=0.05), points, "shuttle", 43_500),
    "OneClassSVM satimage": row(OneClassSVM(nu=0.2), points, "satimage", 4435),
    "SVDD magic": row(SVDD(nu=0.1), points, "magic_gamma", 19_020),
    "KernelRidge abalone": row(
        KernelRidge(0.1, kernel=RBF(0.1)), scaled, "abalone", 4177
    ),
    "KernelRidge cpusmall": row(
        KernelRidge(0.1, kernel=RBF(0.1)), scaled, "cpusmall", 8192
    ),
    "KernelRidge casp": row(
        KernelRidge(1.0, kernel=RBF(0.1)), scaled, "casp_protein", 20_000
    ),
    "KernelRidge casp Nystrom": row(
        KernelRidge(0.1, kernel=Nystrom(RBF(0.1), 1000)), scaled, "casp_protein", 45_730
    ),
    "KernelLogistic spambase": row(
        KernelLogisticRegression(kernel=RBF(0.02)), scaled, "spambase", 4601
    ),
    "KernelLogistic magic": row(
        KernelLogisticRegression(kernel=RBF(0.1)), scaled, "magic_gamma", 12_000
    ),
    "KernelLogistic waveform": row(
        KernelLogisticRegression(kernel=RBF(0.02)), scaled, "waveform", 5000
    ),
    "KernelLogistic a9a linear": row(
        KernelLogisticRegression(kernel="linear"), sparse, "a9a", 32_561
    ),
    "Huber california": row(
        KernelHuberRegression(kernel=RBF(0.1)), scaled, "california_housing", 10_000
    ),
    "Quantile kin8nm": row(
        KernelQuantileRegression(kernel=RBF(0.1)), scaled, "kin8nm", 5000
    ),
    "Regularized hinge magic": row(
        RegularizedMachine(losses.Hinge(), kernel=RBF(0.1)),
        scaled,
        "magic_gamma",
        6000,
    ),
    "SparseClassifier spambase": row(
        SparseKernelClassifier(C=1), scaled, "spambase", 4601
    ),
    "SparseRegressor kin8nm": row(
        SparseKernelRegressor(alpha=0.001), scaled, "kin8nm", 8192
    ),
    "RVR kin8nm 2,000": row(RVR(RBF(0.1)), scaled, "kin8nm", 2000),
    "RVR cpusmall": row(RVR(RBF(0.1)), scaled, "cpusmall", 6000),
    "RVR california": row(RVR(RBF(0.1)), scaled, "california_housing", 8000),
    "RVC magic": row(RVC(RBF(0.1)), scaled, "magic_gamma", 4000),
    "RVC waveform": row(RVC(RBF(0.02)), scaled, "waveform", 3000),
    "KernelPCA magic": row(KernelPCA(10, kernel="rbf"), points, "magic_gamma", 19_020),
    "KernelPCA optdigits": row(KernelPCA(20, kernel="rbf"), points, "optdigits", 5620),
    "KernelPCA abalone 1,000": row(KernelPCA(5, kernel="rbf"), points, "abalone", 1000),
    "KMeans satimage": row(
        KernelKMeans(6, kernel="rbf", random_state=0), points, "satimage", 4435
    ),
    "KMeans letter": row(
        KernelKMeans(26, kernel="rbf", random_state=0), points, "letter", 10_000
    ),
    "KMeans shuttle linear": row(
        KernelKMeans(7, kernel="linear", random_state=0), points, "shuttle", 43_500
    ),
    "KernelPerceptron letter": row(
        KernelPerceptron(kernel=RBF(0.1), max_iter=5), scaled, "letter", 10_000
    ),
    "KernelPerceptron magic": row(
        KernelPerceptron(kernel=RBF(0.1), max_iter=10), scaled, "magic_gamma", 10_000
    ),
    "Perceptron w8a": row(Perceptron(max_iter=100), sparse, "w8a", 49_749),
    "SGDClassifier magic": row(
        KernelSGDClassifier(kernel=RBF(0.1)), scaled, "magic_gamma", 10_000
    ),
    "SGDRegressor kin8nm": row(
        KernelSGDRegressor(kernel=RBF(0.1)), scaled, "kin8nm", 8192
    ),
    "KNN letter": row(KernelKNNClassifier(), scaled, "letter", 20_000),
    "Parzen letter": row(ParzenClassifier(), scaled, "letter", 20_000),
    "SVC splice Spectrum": row(
        SVC(kernel=Spectrum(4)), texts, "splice_junction.tsv.gz", 2, 3190
    ),
    "SVC splice WeightedDegree": row(
        SVC(kernel=WeightedDegree(5)), texts, "splice_junction.tsv.gz", 2, 3190
    ),
    "SVC splice Subsequence": row(
        SVC(kernel=Subsequence(3)), texts, "splice_junction.tsv.gz", 2, 1000
    ),
    "SVC amp Spectrum": row(
        SVC(kernel=Spectrum(3)), texts, "amp_vs_uniprot.tsv.gz", 1, 5000
    ),
    "SVC sms Spectrum": row(SVC(kernel=Spectrum(4)), texts, "sms_spam.tsv.gz", 1, 5574),
    "SVC NCI1 WeisfeilerLehman": row(SVC(kernel=WeisfeilerLehman(3)), molecules, 4110),
    "KernelRidge NCI1": row(
        KernelLogisticRegression(kernel=WeisfeilerLehman(2)), molecules, 1500
    ),
    "SVC sst SubsetTree": row(SVC(kernel=SubsetTree()), sentences, 1000),
    "SVC usps Polynomial": row(SVC(kernel=Polynomial(2)), scaled, "usps", 3000),
}


def seconds(call, *given):
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = call(*given)
    return time.perf_counter() - begin, value


def measured(machine, given, repeat):
    """The middle one of several plans, and the quickest of all plans and fits."""
    plans, fits = [], []
    for _ in range(repeat):
        plans.append(seconds(machine.plan, *given))
        fits.append(seconds(machine.fit, *given)[0])
        if sum(fits) > 60 / repeat:
            break
    plan = sorted((plan for _, plan in plans), key=lambda plan: plan.seconds)
    return plan[len(plan) // 2], min(took for took, _ in plans), min(fits)


def summary(ratios, held):
    off = np.exp(np.abs(np.log(ratios)))
    print(
        f"{len(ratios)} rows: median {np.median(ratios):.2f}, within a factor of 2 "
        f"{np.mean(off <= 2):.0%}, of 3 {np.mean(off <= 3):.0%}; the range holds what "
        f"the fit took in {np.mean(held):.0%}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    print(f"{'':32}{'road':>10}{'planned':>18}{'fit':>9}{'ratio':>7}{'planning':>10}")
    ratios, held = [], []
    for name, (machine, data) in (OTHERS if options.others else ROWS).items():
        words = [word.lower() for word in options.words]
        if words and not any(word in name.lower() for word in words):
            continue
        X, y = data()
        given = (X,) if y is None else (X, y)
        plan, planning, took = measured(machine, given, options.repeat)
        low, high = plan.seconds
        ratios.append(np.sqrt(low * high) / took)
        held.append(low <= took <= high)
        print(
            f"{name:32}{plan.road:>10}{low:9.3g} -{high:7.3g}{took:9.3g}"
            f"{ratios[-1]:7.2f}{planning:10.2f}",
            flush=True,
        )
    summary(np.array(ratios), held)


if __name__ == "__main__":
    main()
