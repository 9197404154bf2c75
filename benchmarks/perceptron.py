"""A pass of the kernel perceptron over MNIST, odd against even, beside numpy.

    python benchmarks/perceptron.py            # the pass, and the primal
    python benchmarks/perceptron.py primal     # on w, beside scikit-learn's Perceptron
    python benchmarks/perceptron.py errors     # averaged machines on USPS and MNIST

The loops in numpy see one point after another, as the textbook does. The plain one
makes the whole row K[i] and sums K[i] @ coef, coef being 0 where no mistake was made;
it gets the first 600 steps, which all cost the same, and its time is scaled. The other
keeps the mistakes together and computes no more than their kernel values. Both make the
same mistakes as ours, or say how many points they decide otherwise.
"""

import os
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from record import record
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Perceptron as ReferencePerceptron
from sklearn.model_selection import train_test_split

from mercer import RBF, Gram, KernelPerceptron, Linear, Perceptron, Polynomial
from mercer.solvers import PerceptronProblem, PerceptronRule

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)


def loop(X, sign, values):
    """Which points are missed; values(S, squares, x, square) are k(S, x)."""
    n, d = X.shape
    missed = np.empty((n, d), X.dtype)
    coef, squares = np.empty(n, X.dtype), np.empty(n, X.dtype)
    index = []
    own = np.einsum("ij,ij->i", X, X)
    for i, x in enumerate(X):
        m = len(index)
        f = values(missed[:m], squares[:m], x, own[i]) @ coef[:m] if m else 0.0
        if sign[i] * f <= 0:
            missed[m], squares[m], coef[m] = x, own[i], sign[i]
            index.append(i)
    return index


STEPS = 600


def rows(X, sign, values):
    """Seconds of all steps f = K[i] @ coef over all points, from the first ones."""
    own, coef = np.einsum("ij,ij->i", X, X), np.zeros(len(X), X.dtype)
    begin = time.perf_counter()
    for i in range(STEPS):
        f = values(X, own, X[i], own[i]) @ coef
        if sign[i] * f <= 0:
            coef[i] += sign[i]
    return (time.perf_counter() - begin) * len(X) / STEPS, np.flatnonzero(coef)


def gaussian(gamma):
    """The Gaussian kernel by ‖x‖² + ‖y‖² - 2⟨x, y⟩."""

    def values(S, squares, x, square):
        gamma_ = S.dtype.type(gamma)
        return np.exp(-gamma_ * (squares + square - 2 * (S @ x)))

    return values


def gaussian_by_differences(gamma):
    """The Gaussian kernel as it is written."""

    def values(S, squares, x, square):
        return np.exp(-S.dtype.type(gamma) * np.square(S - x).sum(axis=1))

    return values


def polynomial(degree, scale):
    def values(S, squares, x, square):
        return (S.dtype.type(scale) * (S @ x) + S.dtype.type(1)) ** degree

    return values


def timed(function, repeats=1):
    best = np.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - begin)
    return best, result


def row(name, seconds, index, reference):
    other = len(set(index) ^ set(reference))
    print(f"  {name:<44} {seconds:8.2f} s   {len(index):5d} mistakes   {other} other")


def passes():
    X, y, _, _ = digits("mnist")
    sign = np.where(y % 2, 1, -1)
    kernels = {
        "RBF(0.02)": (RBF(0.02), gaussian(0.02)),
        "(⟨x, y⟩/50 + 1)⁴": (Polynomial(4, 1 / 50, 1.0), polynomial(4, 1 / 50)),
    }
    for title, (kernel, values) in kernels.items():
        print(f"{title}, {len(X)} points, odd against even")
        for dtype in (np.float32, np.float64):
            points = X.astype(dtype)

            def ours(points=points, kernel=kernel):
                return (
                    PerceptronRule(1)
                    .solve(PerceptronProblem(Gram(kernel, points), sign))
                    .point
                )

            seconds, found = timed(ours, repeats=3)
            row(f"mercer, {dtype.__name__}", seconds, found, found)
            slow, other = rows(points, sign, values)
            name = f"numpy, K[i] @ coef, {dtype.__name__}: {slow / seconds:.0f} ×"
            row(name, slow, other, found[found < STEPS])
            whole = slow
            slow, other = timed(lambda p=points, v=values: loop(p, sign, v))
            loops = {"numpy, K[i] @ coef": whole, "numpy, mistakes only": slow}
            record("perceptron", f"{title}, {dtype.__name__}",
                   {"mercer": seconds} | loops, mistakes=len(found))  # fmt: skip
            name = f"numpy, mistakes only, {dtype.__name__}: {slow / seconds:.1f} ×"
            row(name, slow, other, found)
    part = X[:10000]
    kernel, sides = RBF(0.02), sign[:10000]
    seconds, found = timed(
        lambda: (
            PerceptronRule(1).solve(PerceptronProblem(Gram(kernel, part), sides)).point
        ),
        repeats=3,
    )
    print("RBF(0.02), 10000 points")
    row("mercer, float32", seconds, found, found)
    slow, other = timed(lambda: loop(part, sides, gaussian_by_differences(0.02)))
    row(f"numpy, float32, Σ(x - y)²: {slow / seconds:.1f} ×", slow, other, found)


def primal():
    X, y, X_test, y_test = digits("mnist")
    print("MNIST, ten digits, ten passes: processor seconds, test error")
    beside_the_reference(X, y, X_test, y_test, 10)
    for n in (100_000, 1_000_000):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n, 20))
        y = np.sign(X[:, 0] + 0.5 * X[:, 1] + 0.5 * rng.normal(size=n))
        print(f"random {n:,} × 20, five passes: processor seconds, error on them")
        beside_the_reference(X, y, X, y, 5)


def beside_the_reference(X, y, X_test, y_test, n_passes):
    for name, machine in (
        ("mercer.Perceptron", Perceptron(max_iter=n_passes, random_state=0)),
        (
            "mercer.Perceptron, averaged",
            Perceptron(variant="averaged", max_iter=n_passes, random_state=0),
        ),
        (
            "mercer.KernelPerceptron(Linear())",
            KernelPerceptron(Linear(), max_iter=n_passes, random_state=0),
        ),
        (
            "scikit-learn's Perceptron",
            ReferencePerceptron(max_iter=n_passes, tol=None, random_state=0),
        ),
    ):
        begin = time.process_time()
        machine.fit(X, y)
        seconds = time.process_time() - begin
        error = 1 - machine.score(X_test, y_test)
        print(f"  {name:<44} {seconds:8.2f} s   {error:.2%}", flush=True)


def digits(name):
    """Training and test images: USPS in [-1, 1], MNIST in [0, 1], as float32."""
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as file:
        X, X_test = file["X_train"], file["X_test"]
        y, y_test = file["y_train"], file["y_test"]
    if name == "usps":
        return 2 * X - 1, y, 2 * X_test - 1, y_test
    return X / np.float32(255), y, X_test / np.float32(255), y_test


def errors():
    """Averaged machines, kernel and passes chosen on a fifth of the training images."""
    candidates = {
        "usps": [
            *(RBF(gamma) for gamma in (0.005, 0.01, 0.02)),
            *(Polynomial(degree, 1 / 256, 1.0) for degree in (3, 5, 7)),
        ],
        "mnist": [RBF(0.02), RBF(0.03), RBF(0.05), Polynomial(4, 1 / 50, 1.0)],
    }
    for name, kernels in candidates.items():
        X, y, X_test, y_test = digits(name)
        inner, outer, y_inner, y_outer = train_test_split(
            X, y, test_size=0.2, random_state=0, stratify=y
        )
        inner, y_inner = inner[:12000], y_inner[:12000]
        held_out = {}
        for kernel in kernels:
            for n_passes in (2, 5, 10):
                machine = KernelPerceptron(
                    kernel, variant="averaged", max_iter=n_passes, random_state=0
                ).fit(inner, y_inner)
                held_out[repr(kernel), n_passes] = 1 - machine.score(outer, y_outer)
        text, n_passes = min(held_out, key=held_out.get)
        kernel = next(k for k in kernels if repr(k) == text)
        print(
            f"{name}: {text}, {n_passes} passes, chosen on a split of the training set"
        )
        for variant in ("averaged", "plain"):
            machine = KernelPerceptron(
                kernel, variant=variant, max_iter=n_passes, random_state=0
            )
            seconds, _ = timed(partial(machine.fit, X, y))
            error = 1 - machine.score(X_test, y_test)
            print(
                f"  {variant:<10} {error:7.2%} misread   {seconds:6.1f} s   "
                f"{len(machine.support_)} points, {machine.n_mistakes_.sum()} mistakes"
            )


def main():
    warnings.simplefilter("ignore", ConvergenceWarning)
    if "errors" in sys.argv[1:]:
        errors()
    elif "primal" in sys.argv[1:]:
        primal()
    else:
        passes()
        primal()


if __name__ == "__main__":
    main()
