"""Time Gaussian processes beside scikit-learn's: the evidence, its slope, whole fits.

    OPENBLAS_NUM_THREADS=1 python benchmarks/gaussian_process.py
    OPENBLAS_NUM_THREADS=2 python benchmarks/gaussian_process.py --wall

The second on a machine where nothing else runs.

Same points, same kernel (constant · RBF, one width or one for each coordinate, with
noise for numbers), same start and same L-BFGS without restarts. Times are CPU seconds
of the process, or with --wall those of the clock. Values, slopes, parameters reached,
predictions and deviations are compared; of the lengths ℓ = 1 / √(2γ).
"""

import argparse
import time
import warnings
from dataclasses import replace

import numpy as np
from sklearn import gaussian_process as theirs
from sklearn.gaussian_process.kernels import RBF as TheirRBF
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel

from mercer import RBF, GaussianProcessClassifier, GaussianProcessRegressor
from mercer.solvers.ascent import FreeParameters
from mercer.solvers.gaussian import NormalEvidence

clock = time.process_time


def friedman(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 5))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return X, (y + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=n)) / 5


def timed(function):
    begin = clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = function()
    return clock() - begin, found


def kernels(wide):
    """Ours and theirs, of one width or of five."""
    theirs = ConstantKernel(1.0) * TheirRBF(np.ones(5) if wide else 1.0)
    return 1.0 * RBF([0.5] * 5 if wide else 0.5), theirs


def evaluation(n, wide):
    X, y = friedman(n)
    kernel, other = kernels(wide)
    free = FreeParameters(kernel, None, {"noise": 0.1})
    problem = NormalEvidence(X, y[:, None], 1e-10, free)
    twin = theirs.GaussianProcessRegressor(other + WhiteKernel(0.1), optimizer=None)
    twin.fit(X[:50], y[:50])
    twin.X_train_, twin.y_train_ = X, y
    theta = twin.kernel_.theta
    replace(problem, X=X[:50], target=y[:50, None]).objective(free.start)  # warm
    ours, (value, slope) = timed(lambda: problem.objective(free.start))
    beside, (known, right) = timed(
        lambda: twin.log_marginal_likelihood(theta, eval_gradient=True)
    )
    gap = abs(value - known) / abs(known)
    factors = [1, *[-2] * (len(slope) - 2), 1]  # γ = 1 / 2ℓ²
    off = np.abs(slope * factors - right).max() / np.abs(right).max()
    print(f"one evaluation, {n:,} points, {len(slope) - 2} widths: {ours:.2f} s, "
          f"scikit-learn {beside:.2f} s, {beside / ours:.1f} ×; values differ by "
          f"{gap:.1e}, slopes by {off:.1e}")  # fmt: skip


def counted(machine):
    """How often theirs asks for its evidence, in a list of one number."""
    count, whole = [0], machine.log_marginal_likelihood

    def log_marginal_likelihood(*args, **options):
        count[0] += 1
        return whole(*args, **options)

    machine.log_marginal_likelihood = log_marginal_likelihood
    return count


def said(what, ours, beside, evaluations, machine, twin):
    values = machine.log_marginal_likelihood_value_, twin.log_marginal_likelihood_value_
    gap = abs(values[0] - values[1]) / abs(values[1])
    print(f"{what}: {ours:.1f} s in {evaluations[0]} evaluations, scikit-learn "
          f"{beside:.1f} s in {evaluations[1]}, {beside / ours:.1f} ×; evidence "
          f"{values[0]:.6f}, differs by {gap:.1e}")  # fmt: skip


def regression(n, wide):
    X, y = friedman(n)
    kernel, other = kernels(wide)
    machine = GaussianProcessRegressor(kernel, noise=0.1)
    twin = theirs.GaussianProcessRegressor(other + WhiteKernel(0.1))
    count = counted(twin)
    ours, _ = timed(lambda: machine.fit(X, y))
    beside, _ = timed(lambda: twin.fit(X, y))
    lengths = 1 / np.sqrt(2 * np.atleast_1d(machine.kernel_.kernel.gamma))
    reached = [machine.kernel_.factor, *lengths, machine.noise_]
    off = np.abs(np.log(reached) - twin.kernel_.theta).max()
    name = f"fit, {n:,} points, {len(lengths)} widths"
    said(name, ours, beside, (len(machine.curve_), count[0]), machine, twin)
    new = np.random.default_rng(1).uniform(size=(500, 5))
    both = [m.predict(new, return_std=True) for m in (machine, twin)]
    gaps = [np.abs(a - b).max() for a, b in zip(*both, strict=True)]
    print(f"    logarithms of parameters differ by {off:.1e}, predictions by "
          f"{gaps[0]:.1e}, deviations by {gaps[1]:.1e}")  # fmt: skip


def classes(n, k):
    X, y = friedman(n)
    y = np.digitize(y, np.quantile(y, np.arange(1, k) / k))
    kernel, other = kernels(False)
    machine = GaussianProcessClassifier(kernel)
    twin = theirs.GaussianProcessClassifier(other)
    ours, _ = timed(lambda: machine.fit(X, y))
    beside, _ = timed(lambda: twin.fit(X, y))
    parts = getattr(machine.base_estimator_, "estimators_", [machine.base_estimator_])
    evaluations = sum(len(part.curve) for part in parts)
    said(f"{k} classes, {n:,} points", ours, beside, (evaluations, "-"), machine, twin)
    new = np.random.default_rng(1).uniform(size=(2000, 5))
    alike = np.mean(machine.predict(new) == twin.predict(new))
    off = np.abs(machine.predict_proba(new) - twin.predict_proba(new)).max()
    print(f"    {alike:.2%} of predictions alike, probabilities differ by {off:.1e}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=5000, help="of one evaluation")
    parser.add_argument("--fit", type=int, default=5000, help="of a regression")
    parser.add_argument("--classes", type=int, default=2000, help="of two and three")
    parser.add_argument("--wall", action="store_true", help="seconds of the clock")
    options = parser.parse_args()
    clock = time.perf_counter if options.wall else clock
    for wide in (False, True):
        if options.points:
            evaluation(options.points, wide)
        if options.fit:
            regression(options.fit, wide)
    for k in (2, 3) if options.classes else ():
        classes(options.classes, k)
