"""Time support vector machines on explicit features against LIBLINEAR.

    python benchmarks/linear_svm.py [--quick] [--only WORD] [--gram] [--tight]

Each row fits `SVC` or `SVR` and scikit-learn's `LinearSVC` or `LinearSVR` (hinge and
epsilon-insensitive loss, C = 1) in turn. "obj" is ½‖w‖² + C Σ loss of what was found,
relative to the best; LIBLINEAR also penalises the bias, which is left out of it. With
--gram the fit by kernel values (`SMO`) is timed too, where there are few points. Both
times include that of the features. Where these have more entries than the peer can take
in (stretches of DNA at their places), it is left out, and the gap of the fit, relative
to its objective, stands for "obj". With --tight each row is our fit at the default tol
and at tol=1e-8, with the duality gaps that are stated, relative to the objective,
rounding included.
"""

import argparse
import bz2
import gzip
import json
import lzma
import os
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from record import record
from sklearn.datasets import load_svmlight_file
from sklearn.svm import LinearSVC, LinearSVR

from mercer import (
    SVC,
    SVR,
    Graph,
    Linear,
    Normalized,
    Spectrum,
    WeightedDegree,
    WeisfeilerLehman,
)
from mercer.maps import entries_estimate, explicit
from mercer.solvers import SMO

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)
FEW = 25_000  # points that --gram takes
MOST = 1e8  # entries of the features that the peer takes
EPSILON = 0.1


def gaussian(n, d, regression=False):
    """Two noisy classes, or a noisy linear target."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    f = X @ rng.normal(size=d) / np.sqrt(d)
    if regression:
        return Linear(), X, 3 * f + rng.normal(size=n)
    return Linear(), X, np.where(f + 0.7 * rng.normal(size=n) > 0, 1, -1)


def svmlight(name):
    with bz2.open(DATA / f"{name}.svm.bz2") as file:
        X, y = load_svmlight_file(file)
    return Linear(), sp.csr_array(X), np.where(y > 0, 1, -1)


def windows(n, length=100):
    """Stretches of two Markov chains over ACGT, by their 6-mers."""
    rng = np.random.default_rng(0)
    turn = np.eye(4) - np.roll(np.eye(4), 1, axis=1)
    texts = []
    for sign in (1, -1):
        steps = np.cumsum(0.25 + 0.03 * sign * turn, axis=1)
        state = rng.integers(0, 4, n // 2)
        letters = [state]
        for _ in range(length - 1):
            state = (rng.random(n // 2)[:, None] > steps[state]).sum(axis=1).clip(0, 3)
            letters.append(state)
        codes = np.frombuffer(b"ACGT", np.uint8)[np.array(letters).T]
        texts += [row.tobytes().decode() for row in codes]
    return Spectrum(6), texts, np.repeat([1, -1], n // 2)


def splice_sites(kernel, n):
    """Windows of 398 letters around acceptor sites of C. elegans, and around others."""
    with lzma.open(DATA / "c_elegans_acceptor.tsv.xz", "rt") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    rows = rows[:: -(-len(rows) // n)]
    return kernel, [row[4] for row in rows], np.array([int(row[0]) for row in rows])


def molecules(kernel):
    """NCI1: graphs of molecules, active or not."""
    with gzip.open(DATA / "graphs_NCI1.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    X = [Graph(list(map(tuple, row["edges"])), row["node_labels"]) for row in rows]
    return kernel, X, np.where([row["y"] for row in rows], 1, -1)


ROWS = {
    "svc 100,000 x 20": lambda quick: gaussian(100_000 // (10 if quick else 1), 20),
    "svc 1,000,000 x 20": lambda quick: gaussian(10**6 // (10 if quick else 1), 20),
    "svc 100,000 x 200": lambda quick: gaussian(100_000 // (10 if quick else 1), 200),
    "svr 100,000 x 20": lambda quick: gaussian(
        100_000 // (10 if quick else 1), 20, True
    ),
    "svr 1,000,000 x 20": lambda quick: gaussian(
        10**6 // (10 if quick else 1), 20, True
    ),
    "svc a9a": lambda quick: svmlight("a9a"),
    "svc w8a": lambda quick: svmlight("w8a"),
    "svc 20,000 DNA windows": lambda quick: windows(5000 if quick else 20_000),
    "svc 100,000 DNA windows": lambda quick: windows(5000 if quick else 100_000),
    "svc splice Spectrum": lambda quick: splice_sites(Spectrum(6), sites(quick)),
    "svc splice Spectrum, norm.": lambda quick: splice_sites(
        Normalized(Spectrum(6)), sites(quick)
    ),
    "svc splice Degree": lambda quick: splice_sites(WeightedDegree(10), sites(quick)),
    "svc splice Degree, norm.": lambda quick: splice_sites(
        Normalized(WeightedDegree(10)), sites(quick)
    ),
    "svc NCI1": lambda quick: molecules(WeisfeilerLehman(5)),
    "svc NCI1, norm.": lambda quick: molecules(Normalized(WeisfeilerLehman(5))),
}


def sites(quick):
    return 5000 if quick else 100_000


def objective(features, y, w, bias, regression):
    f = features @ w + bias
    losses = np.abs(y - f) - EPSILON if regression else 1 - y * f
    return float(w @ w / 2 + np.maximum(losses, 0).sum())


def timed(call, *given):
    """Seconds of wall time, and of all processors."""
    wall, busy = time.perf_counter(), time.process_time()
    call(*given)
    return time.perf_counter() - wall, time.process_time() - busy


def fit_on_features(machine, kernel, X, y):
    machine.fit(int32(explicit(kernel, X).matrix), y)


def int32(matrix):
    """LIBLINEAR takes no other indices."""
    if not sp.issparse(matrix):
        return matrix
    parts = (
        matrix.data,
        *(a.astype(np.int32) for a in (matrix.indices, matrix.indptr)),
    )
    return sp.csr_array(parts, shape=matrix.shape)


def tight(name, machine, X, y):
    """One row of --tight: seconds at either tol, and the gaps."""
    found = []
    for tol in (1e-3, 1e-8):
        fitted = machine.set_params(tol=tol)
        wall, busy = timed(fitted.fit, X, y)
        about = fitted.certificate_
        found.append((wall, busy, about.gap / about.primal, about.status))
    (wall, busy, gap, _), (other, more, less, status) = found
    print(
        f"{name:24} {wall:7.2f} ({busy:6.2f}) s {gap:8.1e} "
        f"{other:7.2f} ({more:6.2f}) s {less:8.1e} {more / busy:6.2f}x  {status}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer points")
    parser.add_argument("--only", default="", help="rows whose name has this word")
    parser.add_argument("--gram", action="store_true", help="time kernel values too")
    parser.add_argument("--tight", action="store_true", help="compare tol with 1e-8")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # LIBLINEAR stops after 1000 passes, and says so
    if options.tight:
        print(f"{'':26} {'tol=1e-3':>17} {'gap':>8} {'tol=1e-8':>17} {'gap':>8}")
    else:
        print(
            f"{'':26} {'mercer':>17} {'LIBLINEAR':>17} {'':>7}  obj mercer, LIBLINEAR"
        )
    for name, make in ROWS.items():
        if options.only not in name:
            continue
        try:
            kernel, X, y = make(options.quick)
        except FileNotFoundError as error:
            print(f"{name:26} left out: {error}")
            continue
        regression = name.startswith("svr")
        ours = SVR(kernel=kernel, epsilon=EPSILON) if regression else SVC(kernel=kernel)
        if options.tight:
            tight(name, ours, X, y)
            continue
        wall, busy = timed(ours.fit, X, y)
        if entries_estimate(kernel, X, always=True) > MOST:
            found = ours.certificate_
            print(
                f"{name:26} {wall:7.2f} ({busy:6.2f}) s {'':>17} {'':>7}  "
                f"{found.gap / found.primal:.1e}",
                flush=True,
            )
            continue
        theirs = (
            LinearSVR(epsilon=EPSILON, random_state=0)
            if regression
            else LinearSVC(loss="hinge", random_state=0)
        )
        peer_wall, peer_busy = timed(fit_on_features, theirs, kernel, X, y)
        features = explicit(kernel, X).matrix
        coef = np.zeros(len(y))
        coef[ours.support_] = np.ravel(ours.expansion_.coef)
        w = features.T @ coef
        found = objective(features, y, w, float(ours.intercept_[0]), regression)
        b = float(np.ravel(theirs.intercept_)[0])
        other = objective(features, y, np.ravel(theirs.coef_), b, regression)
        best = min(found, other)
        print(
            f"{name:26} {wall:7.2f} ({busy:6.2f}) s "
            f"{peer_wall:7.2f} ({peer_busy:6.2f}) s {peer_busy / busy:6.1f}x  "
            f"{found / best - 1:.1e} {other / best - 1:.1e}",
            flush=True,
        )
        apart = f"{other / found - 1:.0e}"
        clock = {"seconds_of_the_clock,_mercer": f"{wall:.2f}",
                 "seconds_of_the_clock,_LIBLINEAR": f"{peer_wall:.2f}"}  # fmt: skip
        record("linear svm", name, {"mercer": busy, "LIBLINEAR": peer_busy}, "s",
               **clock, objective_of_LIBLINEAR_above=apart)  # fmt: skip
        if options.gram and len(y) <= FEW:
            slow = type(ours)(**(ours.get_params(deep=False) | {"solver": SMO()}))
            wall, slow_busy = timed(slow.fit, X, y)
            print(
                f"{'  by kernel values':26} {wall:7.2f} ({slow_busy:6.2f}) s "
                f"{slow_busy / busy:.1f}x",
                flush=True,
            )
    print("seconds of wall time (of all processors); the ratio is of the latter")


if __name__ == "__main__":
    main()
