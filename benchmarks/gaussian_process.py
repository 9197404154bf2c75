"""Time Gaussian processes beside scikit-learn's: the evidence, its slope, whole fits.

    python benchmarks/gaussian_process.py [--points N] [--fit N]

Same points, same kernel (constant · RBF + noise), same start and same L-BFGS. Times are
CPU seconds of the process, of one evaluation of the evidence with its slope, and of a
whole fit with the number of evaluations each took. Values and slopes are compared.
"""

import argparse
import time
import warnings
from dataclasses import replace

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor as Theirs
from sklearn.gaussian_process.kernels import RBF as TheirRBF
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel

from mercer import RBF, GaussianProcessRegressor
from mercer.solvers.ascent import FreeParameters
from mercer.solvers.gaussian import NormalEvidence


def friedman(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 5))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return X, (y + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=n)) / 5


def timed(function):
    begin = time.process_time()
    found = function()
    return time.process_time() - begin, found


def their_kernel():
    return ConstantKernel(1.0) * TheirRBF(1.0) + WhiteKernel(0.1)


def evaluation(n):
    X, y = friedman(n)
    free = FreeParameters(1.0 * RBF(0.5), None, {"noise": 0.1})
    problem = NormalEvidence(X, y[:, None], 1e-10, free)
    twin = Theirs(their_kernel(), optimizer=None).fit(X[:50], y[:50])
    twin.X_train_, twin.y_train_ = X, y
    theta = twin.kernel_.theta
    replace(problem, X=X[:50], target=y[:50, None]).objective(free.start)  # warm
    ours, (value, slope) = timed(lambda: problem.objective(free.start))
    theirs, (other, beside) = timed(
        lambda: twin.log_marginal_likelihood(theta, eval_gradient=True)
    )
    gap = abs(value - other) / abs(other)
    off = np.abs(slope * [1, -2, 1] - beside).max() / np.abs(beside).max()
    print(f"one evaluation, {n:,} points: {ours:.2f} s, scikit-learn {theirs:.2f} s, "
          f"{theirs / ours:.1f} ×; values differ by {gap:.1e}, slopes by {off:.1e}"
          )  # fmt: skip


def fit(n):
    X, y = friedman(n)
    machine = GaussianProcessRegressor(1.0 * RBF(0.5), noise=0.1)
    twin = Theirs(their_kernel())
    count = [0]
    whole = twin.log_marginal_likelihood

    def counted(*args, **options):
        count[0] += 1
        return whole(*args, **options)

    twin.log_marginal_likelihood = counted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, _ = timed(lambda: machine.fit(X, y))
        theirs, _ = timed(lambda: twin.fit(X, y))
    values = machine.log_marginal_likelihood_value_, twin.log_marginal_likelihood_value_
    print(f"fit, {n:,} points: {ours:.1f} s in {len(machine.curve_)} evaluations, "
          f"scikit-learn {theirs:.1f} s in {count[0]}, {theirs / ours:.1f} ×; "
          f"log evidence {values[0]:.4f} and {values[1]:.4f}")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=5000)
    parser.add_argument("--fit", type=int, default=2000)
    options = parser.parse_args()
    evaluation(options.points)
    fit(options.fit)
