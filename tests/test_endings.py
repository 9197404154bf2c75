"""Calls that would last for ever end at once; long ones end when Ctrl-C says so.

The cases run in a process of their own, which is ended if it hangs.
"""

import os
import signal
import subprocess
import sys
import time

import pytest

BEGIN = """
import itertools, os, signal, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
import mercer
from mercer import *
from mercer.densities import *
rng = np.random.default_rng(0)
"""


def run(source, timeout=300):
    found = subprocess.run(
        [sys.executable, "-c", BEGIN + source],
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert (found.returncode, found.stderr) == (0, "")
    return found.stdout.splitlines()


# Endless targets and weights, counts beyond the data

REFUSED = """
X = rng.normal(size=(12, 2))
y = np.arange(12) % 2
words = [list("abab")] * 12
once, twice = [], []
once.append(once)
twice.extend([twice, twice])
wide = [0]
for _ in range(40):
    wide = [wide, wide]

class Counting:
    def __iter__(self):
        return itertools.count()

endless = {
    "once": lambda: once,
    "twice": lambda: twice,
    "each": lambda: [twice] * 12,
    "wide": lambda: wide,
    "count": itertools.count,
    "repeat": lambda: itertools.repeat(1),
    "map": lambda: map(int, itertools.count()),
    "generator": lambda: (1 for _ in itertools.count()),
    "own": Counting,
    "range": lambda: range(10**12),
}
machines = [
    SVC(), NuSVC(), SVR(), KernelRidge(), KernelLogisticRegression(), RVC(), RVR(),
    KernelHuberRegression(), KernelKNNClassifier(), KernelKNNRegressor(), Perceptron(),
    ParzenClassifier(), KernelPerceptron(), KernelSGDClassifier(), KernelSGDRegressor(),
    SparseKernelClassifier(), SparseKernelRegressor(),
]
weighted = [m for m in machines if "sample_weight" in m.fit.__code__.co_varnames]
weighted += [OneClassSVM(), KernelKMeans(2, kernel=RBF(1.0))]
densities = [(GaussianMixture(2), X), (Gaussian(), X), (HMM(2), [X] * 12),
             (MarkovChain(), words)]
calls = {}
for name, make in endless.items():
    for m in [*machines, OneClassSVM(), KernelPCA(2)] if name != "range" else []:
        calls[f"{m} X={name}"] = lambda m=m, make=make: m.fit(make(), y)
    for m in machines:
        calls[f"{m} y={name}"] = lambda m=m, make=make: m.fit(X, make())
    for m in weighted:
        calls[f"{m} sample_weight={name}"] = lambda m=m, make=make: m.fit(
            X, y, sample_weight=make())
    for d, points in densities:
        calls[f"{d} weight={name}"] = lambda d=d, points=points, make=make: d.fit(
            points, weight=make())
MANY = 10**9
calls |= {
    "mixture": lambda: GaussianMixture(MANY).fit(X),
    "one component too many": lambda: GaussianMixture(13).fit(X),
    "hidden states": lambda: HMM(MANY).fit([X]),
    "states of symbols": lambda: HMM(MANY, Categories()).fit(words),
    "clusters": lambda: KernelKMeans(MANY, kernel=RBF(1.0)).fit(X),
    "neighbours": lambda: KernelKNNClassifier(MANY).fit(X, y).predict(X),
    "neighbours' mean": lambda: KernelKNNRegressor(MANY).fit(X, y).predict(X),
}
assert KernelPCA(MANY, kernel="rbf").fit_transform(X).shape[1] <= len(X)
for name, call in calls.items():
    try:
        call()
        print(name, "was taken")
    except (TypeError, ValueError) as error:
        if not str(error) or len(str(error)) > 400:
            print(name, "says", str(error)[:400])
"""


def test_what_has_no_end_is_refused():
    assert run(REFUSED) == []


# Ctrl-C in calls that would take minutes: KeyboardInterrupt, and soon

PRESSED = """
class Pressed(BaseException):
    pass

def press(number, frame):
    raise Pressed

def text(n):
    return "".join(rng.choice(list("acgt"), n))

long = text(2_000_000) * 4
X = rng.normal(size=(3000, 5))
points = rng.normal(size=(60_000, 3))
targets = np.arange(60_000) % 2
calls = {
    "substrings": lambda: WeightedSubstrings(0.5)([long, long]),
    "counts": lambda: Spectrum(200)([long * 8]),
    "subsequences": lambda: Subsequence(5)([long[:200_000]] * 2),
    "edits": lambda: EditSimilarity()([long, long[::-1]]),
    "edges": lambda: WeisfeilerLehman(3)([Graph(
        [(i, i * 7 % 999_983) for i in range(4_000_000)])]),
    "verdict": lambda: check(RBF(0.1), X),
    "repair": lambda: repair(RBF(0.1)(X) - np.eye(len(X))),
    "all components": lambda: KernelPCA(kernel="rbf").fit(X),
    "mixture": lambda: GaussianMixture(50, max_iter=10**6, tol=0).fit(points),
    "states": lambda: HMM(10, max_iter=10**6, tol=0).fit([points]),
    "margin": lambda: SVC(C=1e6, gamma=10.0).fit(points, targets),
    "margin of a sum": lambda: SVC(kernel=RBF(1.0) + Linear()).fit(points, targets),
    "mistakes": lambda: KernelPerceptron(max_iter=10**6).fit(points, targets),
    "evidence": lambda: RVC(RBF(1.0)).fit(points[:4000], targets[:4000]),
    "windows": lambda: ParzenDensity("loo").fit(points),
}
signal.signal(signal.SIGALRM, press)
for name, call in calls.items():
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    begun = time.process_time()  # work, which a busy machine does not add to
    try:
        call()
        print(name, "was over before")
    except Pressed:
        late = time.process_time() - begun - 0.2
        if late > 3:  # it takes milliseconds of each thread
            print(name, late)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_a_signal_is_heard_in_long_calls():
    assert run(PRESSED) == []


ENDING = """
X = rng.normal(size=(4000, 5))
# A shell that runs the tests in the background has them ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("begun", flush=True)
KernelPCA(kernel="rbf").fit(X)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is another thing there")
def test_the_process_ends_while_lapack_still_works():
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + ENDING],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "2"},
    )
    with process:
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.8)
        process.send_signal(signal.SIGINT)
        # It ends with what is left of LAPACK abandoned, and without a crash.
        _, error = process.communicate(timeout=300)
    assert error.strip().endswith("KeyboardInterrupt")
    assert process.returncode == -signal.SIGINT


# Kernels made of kernels, many times over

DOUBLED = """
mercer.kernels.base.MOST_NODES = 500  # as with 10,000, in less time
X, y = rng.normal(size=(12, 2)), np.arange(12) % 2
grow = {
    "sum": lambda k: k + k,
    "product": lambda k: k * k,
    "sum of products": lambda k: k * k + 2 * k,
    "Anova": lambda k: Anova(1, [k, k]),
    "Convolution": lambda k: Convolution(list, [k, k]),
    "Centered": lambda k: Centered(k, X),
    "multiple": lambda k: 2.0 * k,
    "sum with another": lambda k: k + RBF(1.0),
    "Exp": lambda k: Exp(0.1 * k),
    "Normalized": Normalized,
    "PolynomialOf": lambda k: PolynomialOf(k, [0.0, 1.0]),
    "Conformal": lambda k: Conformal(k, lambda X: np.ones(len(X))),
    "Pullback": lambda k: Pullback(k, abs),
    "On": lambda k: On([0], k),
}
for name, step in grow.items():
    for start in (RBF(0.5), Sigmoid(1.0)):
        kernel = start
        try:
            for _ in range(40):
                kernel = step(kernel)
        except ValueError as error:
            assert "counted in each" in str(error), error
            print(name)
        if name in ("Anova", "Convolution"):
            kernel.psd, repr(kernel), kernel.proof()
            continue
        kernel(X), kernel.diag(X), kernel.sqdist(X), kernel.matmul(X, None, y)
        kernel.psd, repr(kernel), kernel.proof(), kernel == kernel.copied()
        kernel.resolve(X), KernelRidge(kernel=kernel).fit(X, y).predict(X)
"""


@pytest.mark.slow
def test_a_kernel_that_doubles_is_refused_and_one_that_grows_is_not():
    refused = run(DOUBLED)
    doubling = ("sum", "product", "sum of products", "Anova", "Convolution", "Centered")
    assert refused == [name for name in doubling for _ in range(2)]


def test_a_kernel_is_no_part_of_itself():
    refused = run("""
k = RBF(0.5) + RBF(1.0)
for part in (k, k * 2.0, Anova(1, [Linear(), Exp(k)])):
    try:
        k.set_params(left=part)
    except ValueError as error:
        print(error)
print(k)
""")
    assert len(set(refused[:3])) == 1 and "part of itself" in refused[0]
    assert refused[3] == "RBF(gamma=0.5) + RBF(gamma=1.0)"
