"""Time KernelSearchCV against GridSearchCV over the same machines, grids and folds.

    python benchmarks/search.py              # all, some minutes
    python benchmarks/search.py --quick      # a tenth of the points
    python benchmarks/search.py trees        # the row of that name, or else those whose
                                             # name has such a word
    python benchmarks/search.py --jobs 1     # both with one fit at a time

Both have n_jobs=2: GridSearchCV in processes, which are started before, KernelSearchCV
in threads. Before each, another process writes to some memory: what nobody has written
to yet takes long on a virtual machine. Seconds are those of the clock on the wall and,
in brackets, of all processors together. Neither fits the best machine in the end. The
last columns are how many scores of a fold differ, by how much at the most, and whether
the best parameters are equal.
"""

import argparse
import gzip
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from record import memory_is_known, record
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV

from mercer import (
    SVC,
    KernelSearchCV,
    Normalized,
    Subsequence,
    SubsetTree,
    Tree,
    WeightedDegree,
)

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)


def lines(name):
    with gzip.open(DATA / name, "rt", encoding="latin-1") as file:
        return file.read().splitlines()


def vectors(share):
    """10,000 points of 20 columns, a 6 × 6 grid of C and gamma."""
    X, y = make_classification(int(10_000 * share), 20, random_state=0)
    grid = {"C": np.logspace(-2, 3, 6), "gamma": np.logspace(-4, 1, 6)}
    return (X - X.mean(axis=0)) / X.std(axis=0), y, grid


def hard_vectors(share):
    """As many that overlap, with noise: fits at a large C take many steps."""
    X, y = make_classification(
        int(10_000 * share),
        20,
        n_informative=10,
        n_clusters_per_class=4,
        flip_y=0.02,
        random_state=0,
    )
    grid = {"C": np.logspace(-2, 3, 6), "gamma": np.logspace(-4, 1, 6)}
    return (X - X.mean(axis=0)) / X.std(axis=0), y, grid


def messages(share):
    """Text messages, wanted or not, by gap-weighted subsequences."""
    rows = [line.split("\t", 1) for line in lines("sms_spam.tsv.gz")]
    order = np.random.default_rng(0).permutation(len(rows))[: int(1000 * share)]
    X, y = [rows[i][1] for i in order], np.array([rows[i][0] for i in order])
    kernels = [
        Normalized(Subsequence(k, decay)) for k in (3, 4) for decay in (0.5, 0.8)
    ]
    return X, y, {"C": np.logspace(-1, 3, 6), "kernel": kernels}


def windows(share):
    """Windows of DNA, three kinds, by gap-weighted subsequences."""
    rows = [line.split("\t") for line in lines("splice_junction.tsv.gz")]
    order = np.random.default_rng(0).permutation(len(rows))[: int(1000 * share)]
    X, y = [rows[i][2][20:40] for i in order], np.array([rows[i][0] for i in order])
    kernels = [
        Normalized(Subsequence(k, decay)) for k in (2, 3) for decay in (0.3, 0.6, 0.9)
    ]
    return X, y, {"C": np.logspace(-1, 3, 6), "kernel": kernels}


def places(share):
    """The same by substrings at equal places."""
    X, y, grid = windows(share)
    return X, y, grid | {"kernel": [Normalized(WeightedDegree(k)) for k in (2, 4, 6)]}


def trees(share):
    """Sentences as trees of phrases, for or against a film."""
    given = [Tree(line) for line in lines("sst_trees_train.txt.gz")[:3000]]
    clear = [tree for tree in given if tree.labels[0] != "2"][: int(1000 * share)]
    y = np.array([tree.labels[0] > "2" for tree in clear])
    kernels = [Normalized(SubsetTree(decay)) for decay in (0.1, 0.3, 0.5)]
    return clear, y, {"C": np.logspace(-1, 3, 6), "kernel": kernels}


TASKS = {
    "vectors": vectors,
    "hard vectors": hard_vectors,
    "messages, subsequences": messages,
    "DNA, subsequences": windows,
    "DNA, places": places,
    "trees": trees,
}


def measured(search, X, y, jobs):
    """The search fitted, its seconds, and those of all processors."""
    if jobs != 1 and isinstance(search, GridSearchCV):
        Parallel(jobs)(delayed(abs)(i) for i in range(jobs))  # processes are there
    memory_is_known()
    before, begin = processor(), time.perf_counter()
    search.fit(X, y)
    seconds = time.perf_counter() - begin
    get_reusable_executor().shutdown(wait=True)  # then what they took is counted
    return search, seconds, processor() - before


def processor():
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(
            resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*", help="rows whose name has one of these")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    print(f"{'':24}{'points':>7}{'fits':>6}  grid search      ours          times")
    some = [name for name in TASKS if name in options.words] or [
        name
        for name in TASKS
        if not options.words or any(word in name for word in options.words)
    ]
    for name in some:
        make = TASKS[name]
        try:
            X, y, grid = make(0.1 if options.quick else 1.0)
        except FileNotFoundError as error:
            print(f"{name:24} {error.filename} is missing")
            continue
        found = {
            kind: measured(
                kind(SVC(), grid, cv=5, refit=False, n_jobs=options.jobs),
                X,
                y,
                options.jobs,
            )
            for kind in (GridSearchCV, KernelSearchCV)
        }
        (theirs, slow, slow_cpu), (ours, quick, quick_cpu) = found.values()
        splits = [f"split{k}_test_score" for k in range(5)]
        off = np.abs([theirs.cv_results_[k] - ours.cv_results_[k] for k in splits])
        same = theirs.best_params_ == ours.best_params_
        fits = 5 * len(theirs.cv_results_["params"])
        print(
            f"{name:24}{len(y):>7}{fits:>6}{slow:>8.2f} ({slow_cpu:6.2f})"
            f"{quick:>8.2f} ({quick_cpu:6.2f})  {slow / quick:5.1f} "
            f"({slow_cpu / quick_cpu:5.1f})  {np.count_nonzero(off):>3} "
            f"{off.max():.1e}  {same}",
            flush=True,
        )
        figures = {"mercer": quick, "GridSearchCV": slow}
        record("search", name, figures, points=len(y), fits=fits)
    return 0


if __name__ == "__main__":
    sys.exit(main())
