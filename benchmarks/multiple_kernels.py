"""Several kernels at once beside MKLpy's EasyMKL, on its own example and on more.

    export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1   # or waiting threads are counted
    python benchmarks/multiple_kernels.py             # all rows
    python benchmarks/multiple_kernels.py breast      # rows whose name has such a word
    python benchmarks/multiple_kernels.py --accuracies --splits 20    # by norm

Homogeneous polynomials of degree 1 to 10 on points scaled to [0, 1] and then to length
1, as in the examples of MKLpy; half of the points learn, the others judge. Both get the
ten matrices in memory: the seconds are of `fit` alone, of all threads together, the
median of `--repeats` runs in turn. Accuracies are means over `--splits` splits, with
their standard errors; C and norm of ours, lambda and the learner of EasyMKL are chosen
among eight settings each, by five folds of the points that learn. Where MKLpy is not
installed (it needs torch and cvxopt), its columns are empty.

`--accuracies` compares accuracies alone, of each as it comes (ours with C=1) and with
C, or lambda and the learner, chosen; also on the two examples of MKLpy with their own
shares of test points and degrees from 0, where "as it comes" is as they have it.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from record import record
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    train_test_split,
)
from sklearn.preprocessing import MinMaxScaler, normalize
from sklearn.svm import SVC as ReferenceSVC

from mercer import SVC, Constant, MultipleKernel, Polynomial, Precomputed

try:
    from MKLpy.algorithms import EasyMKL
except ImportError:
    EasyMKL = None

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)
DEGREES = range(1, 11)
MOST = 2000  # points, half of them to learn from


def stored(name):
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as file:
        if "X" in file.files:
            return file["X"], file["y"]
        return file["X_train"], file["y_train"]


def some_digits():
    """Threes and eights."""
    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, [3, 8])
    return X[chosen], y[chosen]


def some_wine():
    """Two of its three kinds."""
    X, y = load_wine(return_X_y=True)
    return X[y < 2], y[y < 2]


TASKS = {
    "wine": some_wine,
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits 3 and 8": some_digits,
    "spambase": lambda: stored("spambase"),
    "magic_gamma": lambda: stored("magic_gamma"),
}


def prepared(task):
    X, y = TASKS[task]()
    chosen = np.random.default_rng(0).permutation(len(X))[:MOST]
    classes = np.unique(y)
    X = normalize(MinMaxScaler().fit_transform(np.asarray(X, dtype=float)[chosen]))
    return X, np.where(y[chosen] == classes[-1], 1, 0)


def kernels_of(X):
    return [Polynomial(d, 1.0, 0.0)(X) for d in DEGREES]


def ours(matrices, **options):
    norm = options.pop("norm", 2)
    parts = [Precomputed(K, psd=True) for K in matrices]
    return SVC(kernel=MultipleKernel(parts, norm), **options)


def timed(jobs, repeats):
    """The median seconds of each job, run in turn."""
    seconds = [[] for _ in jobs]
    for _ in range(repeats):
        for job, taken in zip(jobs, seconds, strict=True):
            begin = time.process_time()
            job()
            taken.append(time.process_time() - begin)
    return [float(np.median(taken)) for taken in seconds]


def accuracies(X, y, seed):
    """Of ours and of theirs, each chosen by folds."""
    split = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
    X_train, X_test, y_train, y_test = split
    kernel = MultipleKernel([Polynomial(d, 1.0, 0.0) for d in DEGREES])
    grid = {"C": [1, 10, 100, 1000], "kernel__norm": [1, 2]}
    search = GridSearchCV(SVC(kernel=kernel), grid, cv=5).fit(X_train, y_train)
    own = search.score(X_test, y_test)
    if EasyMKL is None:
        return own, np.nan
    train = kernels_of(X_train)
    test = [Polynomial(d, 1.0, 0.0)(X_test, X_train) for d in DEGREES]
    best = chosen_by_folds(train, y_train, learners())
    return own, judged(EasyMKL(**best), train, y_train, test, y_test)


def judged(machine, train, y_train, test, y_test):
    machine.fit(train, y_train)
    return np.mean(np.asarray(machine.predict(test)) == y_test)


def chosen_by_folds(train, y_train, settings):
    """The setting of EasyMKL with the best accuracy on five folds."""
    folds = list(StratifiedKFold(5).split(train[0], y_train))

    def of_folds(setting):
        return np.mean(
            [
                judged(
                    EasyMKL(**setting),
                    [K[np.ix_(a, a)] for K in train],
                    y_train[a],
                    [K[np.ix_(b, a)] for K in train],
                    y_train[b],
                )
                for a, b in folds
            ]
        )

    return max(settings, key=of_folds)


def by_norm(X, y, share, degrees, settings, seed, stratified):
    """Accuracies: EasyMKL as it comes and chosen; ours the same, for norms 1 and 2."""
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=share, random_state=seed, stratify=y if stratified else None
    )
    kernels = [Polynomial(d, 1.0, 0.0) if d else Constant(1.0) for d in degrees]
    found = [np.nan, np.nan]
    if EasyMKL is not None:
        train = [kernel(X_train) for kernel in kernels]
        test = [kernel(X_test, X_train) for kernel in kernels]
        best = chosen_by_folds(train, y_train, settings)
        given = train, y_train, test, y_test
        found = [judged(EasyMKL(**options), *given) for options in (settings[0], best)]
    for norm in (1, 2):
        machine = SVC(kernel=MultipleKernel(kernels, norm))
        search = GridSearchCV(machine, {"C": [1, 10, 100, 1000]}, cv=5)
        for one in (machine, search):
            found.append(one.fit(X_train, y_train).score(X_test, y_test))
    return found


def learners(**options):
    some = ({}, {"learner": ReferenceSVC(C=100, kernel="precomputed")})
    return [
        {"lam": lam, **options, **one} for lam in (0.1, 0.0, 0.5, 0.9) for one in some
    ]


def of_example(load, share, settings):
    X, y = load(return_X_y=True)
    return normalize(MinMaxScaler().fit_transform(X)), y, share, range(11), settings


def accuracy_table(words, splits):
    """Means over splits and their standard errors, in percent."""
    soft = {"lam": 0.1, "multiclass_strategy": "ova", "learner": ReferenceSVC(C=0.1)}
    ova = [soft, *learners(multiclass_strategy="ova")]
    tasks = {
        "breast cancer, ex_training": lambda: of_example(
            load_breast_cancer, 0.25, learners()
        ),
        "iris, ex_multiclass": lambda: of_example(load_iris, 0.3, ova),
    }
    for task in TASKS:
        tasks[task] = lambda task=task: (*prepared(task), 0.5, DEGREES, learners())
    names = ("EasyMKL", "chosen", "p=1, C=1", "chosen", "p=2, C=1", "chosen")
    print(f"{'':<27}" + "".join(f"{name:>14}" for name in names))
    for task, made in tasks.items():
        if words and not any(word in task for word in words):
            continue
        try:
            given = made()
        except FileNotFoundError:
            print(f"{task:<27} no data: set MERCER_DATA")
            continue
        rows = [
            by_norm(*given, seed, stratified=task in TASKS) for seed in range(splits)
        ]
        means = 100 * np.mean(rows, axis=0)
        errors = 100 * np.std(rows, axis=0, ddof=1) / np.sqrt(splits)
        cells = zip(means, errors, strict=True)
        print(f"{task:<27}" + "".join(f"{a:>7.1f} ± {b:.1f} " for a, b in cells))


def compare(task, repeats, splits):
    X, y = prepared(task)
    half, _, labels, _ = train_test_split(X, y, test_size=0.5, random_state=0)
    matrices, places = kernels_of(half), np.arange(len(half))
    jobs = [lambda: ours(matrices, C=10).fit(places, labels)]
    if EasyMKL is not None:
        jobs.append(lambda: EasyMKL(lam=0.1).fit(matrices, labels))
    for job in jobs:
        job()
    seconds = [*timed(jobs, repeats), np.nan][:2]
    every = np.array([accuracies(X, y, seed) for seed in range(splits)])
    scores, errors = every.mean(axis=0), every.std(axis=0) / np.sqrt(splits - 1)
    found = ours(matrices, C=10).fit(places, labels).certificate_
    gap = found.gap / abs(found.primal)
    print(
        f"{task:<15}{len(half):>6}{seconds[0]:>9.4f}{seconds[1]:>10.4f}"
        f"{seconds[1] / seconds[0]:>8.1f}{scores[0]:>9.2%} ± {errors[0]:.2%}"
        f"{scores[1]:>9.2%} ± {errors[1]:.2%}"
        f"{gap:>10.1e}",
        flush=True,
    )
    record(
        "several kernels",
        f"{task}, {len(half)} points, 10 kernels",
        {"mercer": seconds[0], "MKLpy EasyMKL": np.nan_to_num(seconds[1])},
        accuracy=f"{scores[0]:.2%}, EasyMKL {scores[1]:.2%}",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="rows whose name has such a word")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--accuracies", action="store_true", help="these alone")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="MKLpy")
    if options.accuracies:
        return accuracy_table(options.words, options.splits)
    print(f"{'':<15}{'points':>6}{'ours s':>9}{'EasyMKL s':>10}{'ratio':>8}"
          f"{'ours':>17}{'EasyMKL':>17}{'our gap':>10}")  # fmt: skip
    for task in TASKS:
        if options.words and not any(word in task for word in options.words):
            continue
        try:
            compare(task, options.repeats, options.splits)
        except FileNotFoundError:
            print(f"{task:<15} no data: set MERCER_DATA")


if __name__ == "__main__":
    main()
