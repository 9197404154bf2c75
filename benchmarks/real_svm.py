"""Support vector machines on real data, beside figures from the literature.

    python benchmarks/real_svm.py              # all
    python benchmarks/real_svm.py letter dna   # the rows whose name has such a word
    python benchmarks/real_svm.py "p(y|x)"     # probabilities, beside scikit-learn's

Parameters are those of the publications where they are known; nothing is tuned on test
data. Published figures marked with * are of LIBSVM on the very same split and scaling.
"""

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, load_svmlight_file
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.svm import SVC as ReferenceSVC

from mercer import SVC, SVDD, SVR, OneClassSVM

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)
CACHE_MB = 1000


@dataclass
class Split:
    """Training and test points with their targets."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def ranged(self):
        """Every feature brought to [-1, 1] by its range on the training points."""
        low, high = self.X.min(axis=0), self.X.max(axis=0)
        width = np.where(high > low, high - low, 1)

        def scale(X):
            return 2 * (X - low) / width - 1

        return Split(scale(self.X), self.y, scale(self.X_test), self.y_test)

    def standardised(self):
        """Every feature to mean 0 and variance 1 on the training points."""
        mean, spread = self.X.mean(axis=0), self.X.std(axis=0)
        X, X_test = (self.X - mean) / spread, (self.X_test - mean) / spread
        return Split(X, self.y, X_test, self.y_test)


def arrays(name):
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def given(name):
    """The split that comes with the data, as float64."""
    file = arrays(name)
    return Split(
        file["X_train"].astype(float),
        file["y_train"],
        file["X_test"].astype(float),
        file["y_test"],
    )


def images(name, rows=None):
    """Grey values in [0, 1] as float32, of so many training images."""
    file = arrays(name)
    grey = np.float32(255)
    X, X_test = file["X_train"][:rows] / grey, file["X_test"] / grey
    return Split(X, file["y_train"][:rows], X_test, file["y_test"])


def letters(rows=15000):
    """So many of the first 15,000 against the last 5,000."""
    file = arrays("letter")
    X, y = file["X"].astype(float), file["y"]
    return Split(X[:rows], y[:rows], X[15000:], y[15000:]).ranged()


def digits():
    """scikit-learn's own digits, grey values in [0, 1]: the first 1,200, the rest."""
    X, y = load_digits(return_X_y=True)
    return Split(X[:1200] / 16, y[:1200], X[1200:] / 16, y[1200:])


def adults():
    """Sparse, the official test part."""
    X, y = load_svmlight_file(str(DATA / "a9a.svm.bz2"), n_features=123)
    X_test, y_test = load_svmlight_file(str(DATA / "a9a.t.svm.bz2"), n_features=123)
    return Split(X, y, X_test, y_test)


def shuffled(name, share=0.8, logarithmic=False):
    """A seeded split of a regression set, standardised."""
    file = arrays(name)
    X, y = file["X"].astype(float), file["y"].astype(float)
    if logarithmic:
        X = np.where(X > 0, np.log1p(np.maximum(X, 0)), X)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = np.split(order, [int(share * len(y))])
    return Split(X[train], y[train], X[test], y[test]).standardised()


def usual_flights():
    """Shuttle: training points of the most frequent class, test points of all.

    The target is +1 for that class and -1 for the six rare ones.
    """
    split = given("shuttle").ranged()
    values, counts = np.unique(split.y, return_counts=True)
    usual = values[np.argmax(counts)]
    chosen = np.flatnonzero(split.y == usual)
    chosen = np.random.default_rng(0).permutation(chosen)[:10000]
    y_test = np.where(split.y_test == usual, 1, -1)
    return Split(split.X[chosen], split.y[chosen], split.X_test, y_test)


# Figures


def accuracy(machine, split):
    return f"{100 * machine.score(split.X_test, split.y_test):.3f} %"


def regression(unit, machine, split):
    """R² and the root of the mean squared error, in the unit of the target."""
    error = machine.predict(split.X_test) - split.y_test
    r2 = 1 - np.mean(error**2) / np.var(split.y_test)
    return f"R² {r2:.4f}, RMSE {np.sqrt(np.mean(error**2)):.4g} {unit}"


def detection(machine, split):
    """The area under the curve, and both shares at the machine's own threshold."""
    area = roc_auc_score(split.y_test, machine.decision_function(split.X_test))
    outside = machine.predict(split.X_test) < 0
    found, false = (outside[split.y_test == side].mean() for side in (-1, 1))
    return f"AUC {area:.4f}, {100 * found:.1f} % rare found, {100 * false:.1f} % false"


def probabilities(machine, split):
    """The mean of -log p of the true class, and how often the likeliest is true."""
    p = machine.predict_proba(split.X_test)
    likeliest = machine.classes_[np.argmax(p, axis=1)]
    loss = log_loss(split.y_test, p, labels=machine.classes_)
    return f"log-loss {loss:.4f}, {100 * accuracy_score(split.y_test, likeliest):.2f} %"


def reference_probabilities(C, gamma, split):
    """The same of scikit-learn's SVC, which warns that its way is to be removed."""
    machine = ReferenceSVC(
        C=C, gamma=gamma, probability=True, random_state=0, cache_size=CACHE_MB
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        start = time.perf_counter()
        machine.fit(split.X, split.y)
    seconds = time.perf_counter() - start
    return f"{probabilities(machine, split)} in {seconds:.1f} s"


class OnScale:
    """SVR on a target brought to variance 1, whose predictions are scaled back."""

    def __init__(self, **parameters):
        self.machine = SVR(**parameters, cache_size=CACHE_MB)

    def fit(self, X, y):
        self.mean, self.spread = y.mean(), y.std()
        self.machine.fit(X, (y - self.mean) / self.spread)
        return self

    def predict(self, X):
        return self.machine.predict(X) * self.spread + self.mean

    @property
    def support_(self):
        return self.machine.support_


@dataclass
class Row:
    name: str
    data: Callable[[], Split]
    machine: object
    figure: Callable
    published: str | Callable[[Split], str]  # or a peer's, computed here


def rows() -> Iterator[Row]:
    def svc(C, gamma):
        return SVC(C=C, gamma=gamma, cache_size=CACHE_MB)

    yield Row(
        "USPS C=10 γ=0.02 on [0, 1]",
        partial(given, "usps"),
        svc(10, 0.02),
        accuracy,
        "94.92 % *; 95.6-96.0 % (Schölkopf, Vapnik)",
    )
    yield Row(
        "letter C=16 γ=4, 15000/5000",
        letters,
        svc(16, 4.0),
        accuracy,
        "97.72 % *; 97.98 % (Hsu, Lin 2002)",
    )
    yield Row(
        "satimage C=16 γ=1",
        lambda: given("satimage").ranged(),
        svc(16, 1.0),
        accuracy,
        "91.300 % * (Hsu, Lin 2002)",
    )
    yield Row(
        "shuttle C=2048 γ=8",
        lambda: given("shuttle").ranged(),
        svc(2048, 8.0),
        accuracy,
        "99.924 % * (Hsu, Lin 2002)",
    )
    yield Row(
        "dna C=8 γ=1/64",
        partial(given, "dna"),
        svc(8, 2.0**-6),
        accuracy,
        "95.447 % * (Hsu, Lin 2002)",
    )
    yield Row("a9a C=1 γ=1/123", adults, svc(1, 1 / 123), accuracy, "84.817 % *")
    yield Row(
        "svmguide1 unscaled, C=1 γ=1/4",
        partial(given, "svmguide1"),
        svc(1, 0.25),
        accuracy,
        "66.925 % * (LIBSVM guide)",
    )
    yield Row(
        "svmguide1 scaled, C=1 γ=1/4",
        lambda: given("svmguide1").ranged(),
        svc(1, 0.25),
        accuracy,
        "96.15 % * (LIBSVM guide)",
    )
    yield Row(
        "svmguide1 scaled, C=2 γ=2",
        lambda: given("svmguide1").ranged(),
        svc(2, 2.0),
        accuracy,
        "96.875 % * (LIBSVM guide)",
    )
    yield Row(
        "fashion C=10 γ=0.02, first 10000",
        partial(images, "fashion_mnist", 10000),
        svc(10, 0.02),
        accuracy,
        "86.98 % *",
    )
    yield Row(
        "fashion C=10 γ=scale, all 60000",
        partial(images, "fashion_mnist"),
        svc(10, "scale"),
        accuracy,
        "89.7 % (its authors' benchmark)",
    )
    yield Row(
        "california housing, 4/5 of it",
        partial(shuffled, "california_housing", logarithmic=True),
        OnScale(C=10, gamma=0.5, epsilon=0.1),
        partial(regression, "dollars"),
        "none certain",
    )
    yield Row(
        "cpusmall, 4/5 of it",
        partial(shuffled, "cpusmall", logarithmic=True),
        OnScale(C=10, gamma=0.1, epsilon=0.05),
        partial(regression, "points"),
        "none certain",
    )
    yield Row(
        "shuttle's rare classes, one-class",
        usual_flights,
        OneClassSVM(nu=0.01, gamma=8.0, cache_size=CACHE_MB),
        detection,
        "none certain",
    )
    yield Row(
        "shuttle's rare classes, SVDD",
        usual_flights,
        SVDD(nu=0.01, gamma=8.0, cache_size=CACHE_MB),
        detection,
        "none certain",
    )

    def calibrated(name, data, C, gamma):
        return Row(
            f"p(y|x) {name}",
            data,
            SVC(
                C=C, gamma=gamma, probability=True, random_state=0, cache_size=CACHE_MB
            ),
            probabilities,
            partial(reference_probabilities, C, gamma),
        )

    yield calibrated("satimage C=16 γ=1", lambda: given("satimage").ranged(), 16, 1.0)
    yield calibrated("dna C=8 γ=1/64", partial(given, "dna"), 8, 2.0**-6)
    yield calibrated("letter C=16 γ=4, 4000", partial(letters, 4000), 16, 4.0)
    yield calibrated("svmguide1 C=2 γ=2", lambda: given("svmguide1").ranged(), 2, 2.0)
    yield calibrated("digits C=10 γ=scale", digits, 10, "scale")


def main(words: list[str]) -> None:
    if not DATA.is_dir():
        sys.exit(f"No data in {DATA}; set MERCER_DATA to the folder of the data sets.")
    print(f"{'data':34}{'SVs':>7}{'fit s':>8}{'test s':>8}  {'published':44}{'mercer'}")
    for row in rows():
        if words and not any(word in row.name for word in words):
            continue
        try:
            split = row.data()
        except FileNotFoundError as missing:
            name = Path(missing.filename).name
            print(f"{row.name}: left out, {name} is not in MERCER_DATA")
            continue
        start = time.perf_counter()
        row.machine.fit(split.X, split.y)
        fitted = time.perf_counter()
        figure = row.figure(row.machine, split)
        judged = time.perf_counter()
        peer = row.published
        published = peer if isinstance(peer, str) else peer(split)
        print(
            f"{row.name:34}{len(row.machine.support_):7}{fitted - start:8.2f}"
            f"{judged - fitted:8.2f}  {published:44}{figure}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
