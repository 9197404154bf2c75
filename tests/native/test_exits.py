"""The end of the interpreter, a fork, a second import: threads do not disturb them."""

import subprocess
import sys
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "src" / "core"


def run(source, timeout=300):
    return subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=timeout
    )


BEGIN = """
import os, signal, sys, threading, time, warnings
import numpy as np
warnings.simplefilter("ignore")
import mercer
from mercer import RBF
rng = np.random.default_rng(0)
X = rng.normal(size=(700, 5))
y = np.sign(X[:, 0] + rng.normal(size=700))
words = ["".join(rng.choice(list("acgt"), 100)) for _ in range(40)]
trees = ["(S (NP (D the) (N cat)) (VP (V sat) (NP (D a) (N mat))))"] * 100
graphs = [([(i, i * 7 % 40) for i in range(40)], "CNO" * 14) for _ in range(40)]

def function(A, B):
    return np.exp(-((A[:, None] - B[None]) ** 2).sum(-1))

calls = {
    "pairs": lambda: mercer.SVC(C=100).fit(X, np.arange(700) % 4),
    "smo": lambda: mercer.SVR(C=100).fit(X, y),
    "callback": lambda: mercer.SVC(kernel=function).fit(X[:200], y[:200]),
    "clusters": lambda: mercer.KernelKMeans(5).fit(X),
    "subsequences": lambda: mercer.Subsequence(4)(words),
    "edits": lambda: mercer.EditSimilarity()(words),
    "substrings": lambda: mercer.WeightedSubstrings(0.5)(words),
    "trees": lambda: mercer.SubsetTree()(trees),
    "neighbours": lambda: mercer.KernelKNNClassifier(5).fit(X, y).predict(X),
    "perceptron": lambda: mercer.KernelPerceptron().fit(X, y),
    "steps": lambda: mercer.KernelSGDClassifier().fit(X, y),
    "sparse": lambda: mercer.SparseKernelClassifier().fit(X[:300], y[:300]),
    "product": lambda: RBF(0.1).matmul(X, X, np.ones((700, 1))),
    "block": lambda: RBF(0.1)(X),
    "lapack": lambda: mercer.KernelPCA(5, eigen_solver="dense").fit(X),
    "krylov": lambda: mercer.KernelPCA(5, eigen_solver="krylov").fit(X),
    "one class": lambda: mercer.SVDD().fit(X),
    "components": lambda: mercer.NuSVR(C=100).fit(X, y),
    "mismatches": lambda: mercer.Mismatch(3, 1, "acgt")(words),
    "degrees": lambda: mercer.WeightedDegree(5)(words),
    "partial trees": lambda: mercer.PartialTree()(trees),
    "tagged trees": lambda: mercer.TaggedTree(mercer.Spectrum(3))(trees),
    "colours": lambda: mercer.WeisfeilerLehman(3)(graphs),
    "paths": lambda: mercer.ShortestPath()(graphs),
    "walks": lambda: mercer.RandomWalk(0.001)(graphs),
    "diffusion": lambda: mercer.Diffusion(graphs[0], 0.5)(np.arange(40)),
    "windows": lambda: mercer.ParzenDensity("loo").fit(X).score_samples(X),
    "primal": lambda: mercer.Perceptron().fit(X, y),
    "budget": lambda: mercer.KernelSGDClassifier(budget=20).fit(X, y),
    "features": lambda: mercer.SparseKernelRegressor(on="features",
        kernel=mercer.Polynomial(3)).fit(X, y),
    "evidence": lambda: mercer.RVC(RBF(1.0)).fit(X[:200], y[:200]),
    "newton": lambda: mercer.KernelLogisticRegression().fit(X, y),
    "ridge": lambda: mercer.KernelRidge().fit(X, y),
    "quantile": lambda: mercer.KernelQuantileRegression().fit(X[:200], y[:200]),
}
"""

ENDLESS = """
def work(call, begun):
    while True:
        begun.set()
        call()

for name in {names!r} or calls:
    begun = threading.Event()
    thread = threading.Thread(target=work, args=(calls[name], begun), daemon=True)
    thread.start()
    begun.wait()
time.sleep({seconds})
sys.exit(7)
"""


@pytest.mark.parametrize(
    "seconds, names",
    [
        (0.3, []),
        (0.1, ["subsequences", "edits"]),
        (0.2, ["colours", "walks", "windows"]),
    ],
)
def test_daemon_threads_in_the_core_do_not_disturb_the_end(seconds, names):
    found = run(BEGIN + ENDLESS.format(names=names, seconds=seconds))
    assert (found.returncode, found.stderr) == (7, "")


def test_the_lock_is_taken_in_one_place_only():
    # Elsewhere a thread that the interpreter ends would take the process along.
    sources = list(CORE.glob("*.?pp"))
    assert sources
    for path in sources:
        assert "gil_scoped" not in path.read_text(), path.name


FORK = """
for name in ("pairs", "subsequences", "block", "lapack"):
    calls[name]()
K = RBF(0.1)(X)
child = os.fork()
if not child:
    signal.alarm(120)  # a deadlock ends here, by a signal
    for name in ("pairs", "subsequences", "block", "lapack"):
        calls[name]()
    os._exit(0 if np.array_equal(RBF(0.1)(X), K) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(sys, "getdlopenflags"), reason="no fork here")
def test_a_forked_child_has_threads_of_its_own():
    found = run(BEGIN + FORK)
    assert (found.returncode, found.stderr) == (0, "")


AGAIN = """
warnings.simplefilter("error")
machine, K = mercer.SVC().fit(X, y), RBF(0.1)(X)
for kept in (lambda n: n != "mercer", lambda n: n == "mercer._core", lambda n: False):
    for name in list(sys.modules):
        ours = name == "mercer" or name.startswith("mercer.")
        if ours and not kept(name):
            del sys.modules[name]
    import mercer as again
    assert again is not mercer
    assert np.array_equal(again.RBF(0.1)(X), K) and np.array_equal(RBF(0.1)(X), K)
    assert (again.SVC().fit(X, y).predict(X) == machine.predict(X)).all()
    assert again.Subsequence(2)(words).shape == (40, 40)
    assert again.SubsetTree()(trees).shape == (100, 100)
"""


@pytest.mark.slow
def test_the_package_can_be_deleted_and_imported_again():
    found = run(BEGIN + AGAIN)
    assert (found.returncode, found.stderr) == (0, "")
