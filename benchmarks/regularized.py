"""Machines of a loss and a norm beside their peers, in one run.

    python benchmarks/regularized.py                # all rows
    python benchmarks/regularized.py ridge          # rows whose name has such a word
    python benchmarks/regularized.py --quick        # fewer points
    python benchmarks/regularized.py real           # figures on real data

Kernel ridge regression beside scikit-learn's, in float64 and float32. Kernel logistic
regression beside scikit-learn's Nystroem with LogisticRegression, which gets as many
components as it needs for our accuracy on the test points (or 2,000), and beside its
GaussianProcessClassifier. Times are seconds, the least of `--repeats` runs in turn.
Kernels with a small explicit map beside scikit-learn's linear models on the same
features, to the same objective; 100,000 points of a kernel without one. Of these the
seconds are of all cores together.
"""

import argparse
import os
import resource
import time
import warnings
from pathlib import Path

import numpy as np
from record import record
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF as ReferenceRBF
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge as ReferenceRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC as ReferenceSVC

from mercer import (
    RBF,
    SVC,
    KernelLogisticRegression,
    KernelQuantileRegression,
    KernelRidge,
    Linear,
    Polynomial,
    Spectrum,
)
from mercer.losses import Quantile

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)
COMPONENTS = (100, 200, 400, 800, 1400, 2000)


def timed(job, repeats, clock=time.perf_counter):
    """The result, and the least seconds of so many runs."""
    seconds = []
    for _ in range(repeats):
        time.sleep(0.1)  # the threads of a BLAS may spin for a while
        begin = clock()
        result = job()
        seconds.append(clock() - begin)
    return result, min(seconds)


def stored(name):
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def standardised(X, *others):
    mean, spread = X.mean(axis=0), X.std(axis=0)
    spread = np.where(spread > 0, spread, 1)
    return [(Z - mean) / spread for Z in (X, *others)]


def halves(X, y, share=0.8, seed=0):
    """Points to learn from and points to judge by, at random."""
    order = np.random.default_rng(seed).permutation(len(X))
    cut = int(share * len(X))
    learn, judge = order[:cut], order[cut:]
    X, X_test = standardised(X[learn].astype(float), X[judge].astype(float))
    return X, y[learn], X_test, y[judge]


def regression(n, d=10, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 3 + 0.1 * rng.normal(size=n)
    return X.astype(dtype), y.astype(dtype)


def like_satimage(n, seed=0):
    """satimage with noise: n points that fill its 36 dimensions."""
    data = stored("satimage")
    X = np.concatenate([data["X_train"], data["X_test"]]).astype(float)
    y = np.concatenate([data["y_train"], data["y_test"]])
    (X,) = standardised(X)
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(X), size=n + 2000)
    made = X[chosen] + 0.3 * rng.normal(size=(n + 2000, X.shape[1]))
    return made[:n], y[chosen[:n]], made[n:], y[chosen[n:]]


def magic():
    data = stored("magic_gamma")
    X, y = data["X"].astype(float), data["y"]
    (X,) = standardised(X)
    # All 19,020 to learn from, as named; the accuracy is that of a 4:1 split.
    return X, y


# Rows


def ridge_rows(options):
    print("\nKernelRidge, RBF(1/10) on n × 10, alpha = 1 (seconds)")
    print(f"{'n':>7} {'dtype':>8} {'mercer':>8} {'sklearn':>8} {'ratio':>6} "
          f"{'residual':>9} {'theirs':>9} {'apart':>9}")  # fmt: skip
    for n in (1000, 2000) if options.quick else (5000, 10_000, 20_000):
        for dtype in (np.float64, np.float32):
            X, y = regression(n, dtype=dtype)
            new, _ = regression(500, dtype=dtype, seed=1)
            ours, mine = timed(
                lambda X=X, y=y: KernelRidge(1.0, kernel=RBF(0.1)).fit(X, y),
                options.repeats,
            )
            theirs, their = timed(
                lambda X=X, y=y: ReferenceRidge(alpha=1.0, kernel="rbf", gamma=0.1).fit(
                    X, y
                ),
                options.repeats if n <= 5000 else 1,
            )
            wide = X.astype(float)
            left = (
                y - theirs.dual_coef_ - RBF(0.1).matmul(wide, None, theirs.dual_coef_)
            )
            apart = np.abs(ours.predict(new) - theirs.predict(new)).max()
            print(f"{n:>7} {np.dtype(dtype).name:>8} {mine:>8.2f} {their:>8.2f} "
                  f"{their / mine:>5.1f}x {ours.certificate_.violation:>9.1e} "
                  f"{np.linalg.norm(left) / np.linalg.norm(y):>9.1e} "
                  f"{apart:>9.1e}", flush=True)  # fmt: skip
            record(
                f"ridge {np.dtype(dtype).name}",
                n,
                {"mercer": mine, "sklearn": their},
                residual=f"{ours.certificate_.violation:.1e}",
                residual_of_theirs=f"{np.linalg.norm(left) / np.linalg.norm(y):.1e}",
                apart=f"{apart:.1e}",
            )


def logistic_rows(options):
    print("\nKernelLogisticRegression beside Nystroem + LogisticRegression")
    tasks = []
    if (DATA / "satimage.npz").exists():
        n = 1500 if options.quick else 10_000
        tasks.append((f"satimage-like {n} x 36", like_satimage(n), 1 / 36))
    if (DATA / "magic_gamma.npz").exists():
        data = stored("magic_gamma")
        X, y, X_test, y_test = halves(data["X"], data["y"])
        if options.quick:
            X, y = X[:1500], y[:1500]
        tasks.append((f"magic_gamma {len(X)} x 10", (X, y, X_test, y_test), 1 / 10))
        if not options.quick:
            X, y = magic()
            tasks.append(("magic_gamma 19020 x 10", (X, y, X, y), 1 / 10))
    for name, (X, y, X_test, y_test), gamma in tasks:
        X, X_test = X.astype(np.float32), X_test.astype(np.float32)
        ours, mine = timed(
            lambda X=X, y=y, gamma=gamma: KernelLogisticRegression(
                10.0, kernel=RBF(gamma)
            ).fit(X, y),
            options.repeats,
        )
        accuracy = np.mean(ours.predict(X_test) == y_test)
        loss = log_loss(y_test, ours.predict_proba(X_test))
        print(f"{name}: mercer {mine:.2f} s, accuracy {accuracy:.4f}, log-loss "
              f"{loss:.4f}, gap {ours.certificate_.gap:.1e}", flush=True)  # fmt: skip
        for m in COMPONENTS:
            peer = make_pipeline(
                Nystroem(gamma=gamma, n_components=m, random_state=0),
                LogisticRegression(C=10.0, max_iter=1000),
            )
            _, their = timed(lambda X=X, y=y, peer=peer: peer.fit(X, y), 1)
            theirs = np.mean(peer.predict(X_test) == y_test)
            their_loss = log_loss(y_test, peer.predict_proba(X_test))
            print(f"    {m:>5} components {their:>7.2f} s ({their / mine:.1f}x), "
                  f"accuracy {theirs:.4f}, log-loss {their_loss:.4f}",
                  flush=True)  # fmt: skip
            if theirs >= accuracy - 0.0005 and their_loss <= loss + 0.001:
                break


def feature_rows(options):
    print("\nExplicit maps beside scikit-learn on the same features (CPU seconds)")
    print(f"{'':>34} {'mercer':>8} {'sklearn':>8} {'ratio':>6} {'above ours':>10}")
    n = 5000 if options.quick else 100_000
    rng = np.random.default_rng(0)
    X, values = regression(n, 20)
    labels = values + 0.3 * rng.normal(size=n) > 0
    letters = rng.choice(list("ACGT"), (n // 5, 60))
    strings = ["".join(row) for row in letters]
    motif = np.array(["ACGT" in string for string in strings])
    for name, kernel, points, y in (
        (f"ridge, Linear, {n} x 20", Linear(), X, values),
        (f"ridge, Polynomial(2), {n} x 20", Polynomial(2, offset=1.0), X, values),
        (f"logistic, Linear, {n} x 20", Linear(), X, labels),
        (f"logistic, Polynomial(2), {n} x 20", Polynomial(2, offset=1.0), X, labels),
        (f"logistic, Spectrum(4), {n // 5} strings", Spectrum(4), strings, motif),
    ):
        features, regress = kernel.features(points), y.dtype == float
        if regress:
            machine = KernelRidge(1.0, kernel=kernel)
            peer = Ridge(1.0, fit_intercept=False)
        else:
            machine = KernelLogisticRegression(1.0, kernel=kernel, tol=1e-7)
            peer = LogisticRegression(C=1.0, tol=1e-7, max_iter=10_000)
        ours, mine = timed(
            lambda m=machine, X=points, y=y: m.fit(X, y),
            options.repeats,
            time.process_time,
        )
        theirs, their = timed(
            lambda p=peer, X=features, y=y: p.fit(X, y),
            options.repeats,
            time.process_time,
        )
        w = theirs.coef_.ravel()
        f = features @ w + theirs.intercept_
        if regress:
            objective = (w @ w + np.sum((y - f) ** 2)) / 2
        else:
            losses = np.logaddexp(0, np.where(y, -f, f))
            objective = (w @ w / 2 + losses.sum()) / len(losses)
        above = objective / ours.certificate_.primal - 1
        print(f"{name:>34} {mine:>8.2f} {their:>8.2f} {their / mine:>5.1f}x "
              f"{above:>10.1e}", flush=True)  # fmt: skip
        figures = {"mercer": mine, "sklearn": their}
        record("explicit maps", name, figures, above_ours=f"{above:.1e}")


def large_rows(options):
    n = 5000 if options.quick else 100_000
    X, y = regression(n, 20)
    machine = KernelRidge(1.0, kernel=RBF(0.05))
    begin = time.perf_counter()
    machine, seconds = timed(lambda: machine.fit(X, y), 1, time.process_time)
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"\nKernelRidge, RBF(1/20) on {n} x 20, alpha = 1: {seconds:.0f} s of all "
          f"cores together, {time.perf_counter() - begin:.0f} s of the clock; residual "
          f"{machine.certificate_.violation:.1e} after {machine.run_.iterations} "
          f"products; largest size of the process "
          f"{size:.2f} GB")  # fmt: skip


def process_rows(options):
    n = 500 if options.quick else 2000
    print(f"\nKernelLogisticRegression beside GaussianProcessClassifier, n = {n}")
    X, values = regression(n)
    X_test, values_test = regression(2000, seed=1)
    for name, labels, labels_test in (
        ("two classes", values > 0, values_test > 0),
        (
            "four classes",
            *(np.digitize(v, [-0.7, 0, 0.7]) for v in (values, values_test)),
        ),
    ):
        ours, mine = timed(
            lambda labels=labels: KernelLogisticRegression(kernel=RBF(0.05)).fit(
                X, labels
            ),
            options.repeats,
        )
        # exp(-‖x - y‖² / 2ℓ²), its parameters fixed as ours are.
        process = GaussianProcessClassifier(
            ReferenceRBF(np.sqrt(10.0)), optimizer=None, random_state=0
        )
        theirs, their = timed(lambda labels=labels, p=process: p.fit(X, labels), 1)
        print(f"{name:>13}: mercer {mine:.2f} s, scikit-learn {their:.2f} s "
              f"({their / mine:.1f}x), accuracy {ours.score(X_test, labels_test):.4f} "
              f"and {theirs.score(X_test, labels_test):.4f}", flush=True)  # fmt: skip
        record("logistic", name, {"mercer": mine, "GaussianProcessClassifier": their})


def real_rows(options):
    print("\nReal data: C and gamma by 3-fold cross-validation on 1,500 of the points")
    for name in ("satimage", "magic_gamma"):
        if not (DATA / f"{name}.npz").exists():
            print(f"{name}: no data")
            continue
        data = stored(name)
        if "X_train" in data:
            X, X_test = standardised(
                data["X_train"].astype(float), data["X_test"].astype(float)
            )
            y, y_test = data["y_train"], data["y_test"]
        else:
            X, y, X_test, y_test = halves(data["X"], data["y"])
        gamma, C = chosen(KernelLogisticRegression(), X, y)
        begin = time.perf_counter()
        ours = KernelLogisticRegression(C, kernel=RBF(gamma)).fit(X, y)
        seconds = time.perf_counter() - begin
        loss = log_loss(y_test, ours.predict_proba(X_test))
        print(f"{name}: KernelLogisticRegression(C={C:g}, gamma={gamma:g}) accuracy "
              f"{ours.score(X_test, y_test):.4f}, log-loss {loss:.4f}, "
              f"{seconds:.1f} s")  # fmt: skip
        gamma, C = chosen(SVC(), X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            machine = SVC(C=C, kernel=RBF(gamma), probability=True, random_state=0)
            machine.fit(X, y)
        loss = log_loss(y_test, machine.predict_proba(X_test))
        theirs = ReferenceSVC(C=C, gamma=gamma).fit(X, y).score(X_test, y_test)
        print(f"{name}: SVC(C={C:g}, gamma={gamma:g}) accuracy "
              f"{machine.score(X_test, y_test):.4f} (scikit-learn {theirs:.4f}), "
              f"log-loss {loss:.4f}", flush=True)  # fmt: skip
    band(options)


def chosen(machine, X, y, n=1500):
    """gamma and C with the best accuracy (least log-loss) on folds of a few points."""
    order = np.random.default_rng(0).permutation(len(X))[:n]
    X, y = X[order], y[order]
    fold, best = np.arange(len(X)) % 3, (-np.inf, 0.0, 0.0)
    for gamma in np.array([0.5, 1.5, 4.5]) / X.shape[1]:
        for C in (1.0, 5.0, 25.0):
            machine.set_params(kernel=RBF(float(gamma)), C=C)
            scores = []
            for k in range(3):
                fitted = machine.fit(X[fold != k], y[fold != k])
                points, labels = X[fold == k], y[fold == k]
                if isinstance(machine, SVC):
                    scores.append(fitted.score(points, labels))
                else:
                    scores.append(-log_loss(labels, fitted.predict_proba(points)))
            best = max(best, (float(np.mean(scores)), float(gamma), C))
    return best[1:]


def band(options):
    """The band of the quantiles 0.1 and 0.9 on house prices."""
    if not (DATA / "california_housing.npz").exists():
        print("california_housing: no data")
        return
    data = stored("california_housing")
    X, y, X_test, y_test = halves(data["X"], data["y"].astype(float) / 1e5)
    if options.quick:
        X, y = X[:2000], y[:2000]
    reg, gamma = chosen_band(X, y)
    begin, ends, gap = time.perf_counter(), [], 0.0
    for q in (0.1, 0.5, 0.9):
        machine = KernelQuantileRegression(q, reg=reg, kernel=RBF(gamma), tol=1e-3)
        machine.fit(X, y)
        ends.append(machine.predict(X_test))
        gap = max(gap, machine.certificate_.gap)
    inside = np.mean((y_test >= ends[0]) & (y_test <= ends[2]))
    below = [float(np.mean(y_test < end)) for end in ends]
    print(f"california_housing, {len(X)} points, reg={reg:g}, gamma={gamma:g}: "
          f"{inside:.1%} of the test targets in "
          f"the band 0.1 to 0.9, shares below {below[0]:.3f}, {below[1]:.3f}, "
          f"{below[2]:.3f}; mean absolute error of the median "
          f"{np.abs(y_test - ends[1]).mean():.3f}, mean width "
          f"{np.mean(ends[2] - ends[0]):.3f} (in 100,000 dollars), largest gap "
          f"{gap:.1e}, {time.perf_counter() - begin:.1f} s")  # fmt: skip


def chosen_band(X, y):
    """reg and gamma with the least loss of both quantiles on a fifth of the points."""
    cut = 4 * len(X) // 5
    best = (np.inf, 0.0, 0.0)
    for gamma in (0.1, 0.3, 1.0):
        for reg in (1e-6, 1e-5, 1e-4):
            loss = 0.0
            for q in (0.1, 0.9):
                machine = KernelQuantileRegression(
                    q, reg=reg, kernel=RBF(gamma), tol=1e-3
                )
                machine.fit(X[:cut], y[:cut])
                values = Quantile(q).value(y[cut:], machine.predict(X[cut:]))
                loss += float(np.mean(values))
            best = min(best, (loss, reg, gamma))
    return best[1:]


ROWS = {
    "ridge": ridge_rows,
    "logistic": logistic_rows,
    "features": feature_rows,
    "large": large_rows,
    "process": process_rows,
    "real": real_rows,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="rows whose name has such a word")
    parser.add_argument("--quick", action="store_true", help="fewer points")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # peers' too
    for name, rows in ROWS.items():
        if not options.words or any(word in name for word in options.words):
            rows(options)


if __name__ == "__main__":
    main()
