"""Run the tests that rounding could break, with other roundings on this machine.

    python tools/roundings.py             every variant, the tests listed below
    python tools/roundings.py --all       every variant, the whole suite
    python tools/roundings.py -k baseline a variant whose name has this word
    python tools/roundings.py -- -x       what follows -- goes to pytest

A variant is an instruction set of our own (MERCER_ISA), a core whose routines OpenBLAS
takes (OPENBLAS_CORETYPE; it is checked that it did), a number of threads, or numpy
without the widest features of the processor. A line for each says how it ended.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent

# Files that compare floating-point results with each other, bit for bit or by rank, or
# with what other libraries compute. Left out are those where rounding decides nothing
# (messages, parsing, plots, trees and sequences as data, layers, progress), and those
# that are slow and only bound errors by far more than rounding.
FILES = """
    explanations/test_sums kernels/test_algebra kernels/test_generative
    kernels/test_gradients kernels/test_node kernels/test_vector kernels/test_ways
    machines/test_gp machines/test_kmeans machines/test_landmarks machines/test_multiple
    machines/test_neighbors machines/test_parzen machines/test_pca
    machines/test_perceptron machines/test_points_come_and_go machines/test_sgd
    machines/test_svm native/test_core native/test_tall native/test_vectors
    native/test_whole
    search/test_search solvers/test_active_set solvers/test_auto
    solvers/test_class_pairs solvers/test_eigen solvers/test_feature_newton
    solvers/test_features solvers/test_landmark_rows solvers/test_matrix_sum
    solvers/test_overlap solvers/test_partitioned_values solvers/test_single_rows
    solvers/test_polish solvers/test_smo solvers/test_weights theory/test_psd
    theory/test_theory
    test_certificates test_expansion test_explicit_maps test_gram test_laws
    test_optimization test_paths test_precision test_roundings test_truth
""".split()
# Of the laws of machines, on all kernels, the two that compare two computations.
SOME = {
    "machines/test_machines": "copied_and_pickled or kernel_values_give",
}
# scikit-learn's own checks compare nothing of ours with itself, and take long.
LEFT_OUT = "not sklearn and not scikit and not checks"

# What OpenBLAS calls a core where its build has no routines of its own for it.
ALIASES = {"Prescott": {"Prescott", "Katmai"}, "Zen": {"Zen", "Haswell"}}

CHECK = """
import numpy, scipy.linalg
from mercer.native import threads, vectors
from threadpoolctl import threadpool_info
from numpy._core import _multiarray_umath as core
blas = [pool for pool in threadpool_info() if pool["internal_api"] == "openblas"]
print(threads.instruction_set())
print(" ".join(sorted({pool["architecture"] for pool in blas})))
print(" ".join(name for name in core.__cpu_dispatch__ if core.__cpu_features__[name]))
"""


def variants() -> dict[str, dict[str, str]]:
    """The environment of each variant, by its name."""
    widest = looked_at({})[2].split()
    found = {
        "as it is, 2 threads": {"threads": "2"},
        "baseline Prescott": {
            "MERCER_ISA": "baseline",
            "OPENBLAS_CORETYPE": "Prescott",
        },
        "baseline Nehalem, 2 threads": {
            "MERCER_ISA": "baseline",
            "OPENBLAS_CORETYPE": "Nehalem",
            "threads": "2",
        },
        "avx2 Haswell": {"MERCER_ISA": "avx2", "OPENBLAS_CORETYPE": "Haswell"},
        "avx2 Zen, 2 threads": {
            "MERCER_ISA": "avx2",
            "OPENBLAS_CORETYPE": "Zen",
            "threads": "2",
        },
        "avx512 SkylakeX": {"MERCER_ISA": "avx512", "OPENBLAS_CORETYPE": "SkylakeX"},
    }
    if widest:
        found[f"numpy without {' '.join(widest)}"] = {
            "NPY_DISABLE_CPU_FEATURES": " ".join(widest)
        }
    return found


def environment(settings: dict[str, str]) -> dict[str, str]:
    """This process's environment with the settings of a variant, one thread if none."""
    settings = dict(settings)
    threads = settings.pop("threads", "1")
    return {
        **os.environ,
        "OPENBLAS_NUM_THREADS": threads,
        "MERCER_NUM_THREADS": threads,
        **settings,
    }


def looked_at(settings: dict[str, str]) -> list[str]:
    """Our instruction set, the cores of OpenBLAS and numpy's features beyond its own.

    Raises RuntimeError where this machine cannot run the variant.
    """
    done = subprocess.run(
        [sys.executable, "-c", CHECK],
        env=environment(settings),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout.splitlines()


def refusal(settings: dict[str, str]) -> str:
    """Why the variant is not what it says; empty where it is."""
    isa, cores, features = looked_at(settings)
    core = settings.get("OPENBLAS_CORETYPE")
    if settings.get("MERCER_ISA", isa) != isa:
        return f"the instruction set is {isa}"
    if core and not set(cores.split()) <= ALIASES.get(core, {core}):
        return f"OpenBLAS took {cores or 'no core at all'}"
    if "NPY_DISABLE_CPU_FEATURES" in settings and features:
        return f"numpy kept {features}"
    return ""


def pytest(settings: dict[str, str], arguments: list[str]) -> tuple[int, str]:
    """The exit code of pytest and its last lines that say what failed."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        env=environment(settings),
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    lines = done.stdout.splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return done.returncode, "\n".join([*failed, *lines[-1:]])


def runs(everything: bool) -> list[list[str]]:
    """The arguments of each run of pytest."""
    if everything:
        return [["tests"]]
    files = [f"tests/{name}.py" for name in FILES]
    some = [[f"tests/{name}.py", "-k", word] for name, word in SOME.items()]
    return [[*files, "-k", LEFT_OUT], *some]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="the whole suite")
    parser.add_argument("-k", default="", help="variants with this word in their name")
    parser.add_argument("rest", nargs="*", help="for pytest, after --")
    options = parser.parse_args()
    worst = 0
    for name, settings in variants().items():
        if options.k not in name:
            continue
        begin = time.monotonic()
        try:
            why = refusal(settings)
        except RuntimeError as error:
            if "cannot run here" not in str(error):
                raise
            print(f"{name:32} left out: {error}", flush=True)
            continue
        if why:
            print(f"{name:32} FAILED: {why}", flush=True)
            worst = 1
            continue
        ends = [pytest(settings, [*run, *options.rest]) for run in runs(options.all)]
        bad = any(code for code, _ in ends)
        worst = max(worst, int(bad))
        seconds = time.monotonic() - begin
        told = "; ".join(text.splitlines()[-1].strip("= ") for _, text in ends if text)
        print(f"{name:32} {'FAILED' if bad else 'passed'} in {seconds:.0f} s: {told}")
        for code, text in ends:
            if code:
                print(text)
        sys.stdout.flush()
    return worst


if __name__ == "__main__":
    sys.exit(main())
