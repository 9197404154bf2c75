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
}
"""

ENDLESS = """
def work(call, begun):
    while True:
        begun.set()
        call()

for name in {names!r}:
    begun = threading.Event()
    thread = threading.Thread(target=work, args=(calls[name], begun), daemon=True)
    thread.start()
    begun.wait()
time.sleep({seconds})
sys.exit(7)
"""

NAMES = (
    "pairs smo callback clusters subsequences edits substrings trees neighbours "
    "perceptron steps sparse product block lapack"
).split()


@pytest.mark.parametrize("seconds, names", [(0.3, NAMES), (0.1, NAMES[4:6])])
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
