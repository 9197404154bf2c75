"""Build the core with sanitizers and run tests under them.

python tools/sanitize.py              both
python tools/sanitize.py address      ASan and UBSan: the core and its bindings
python tools/sanitize.py thread       TSan: what the core does by several threads

Needs GCC or Clang with the sanitizers' libraries, cmake, ninja, nanobind and the test
extra in this Python. Builds in build/sanitize-*, beside a copy of the package.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILER = os.environ.get("CXX", "c++")

FLAGS = {
    "address": "-fsanitize=address,undefined -fno-sanitize-recover=undefined",
    "thread": "-fsanitize=thread",
}
LIBRARY = {"address": "libasan.so", "thread": "libtsan.so"}
TESTS = {
    "address": """
        native/test_core native/test_tall native/test_vectors native/test_whole
        native/test_memory native/test_threads
        solvers/test_smo solvers/test_class_pairs solvers/test_boxqp solvers/test_l1
        solvers/test_active_set solvers/test_matrix_sum solvers/test_polish
        solvers/test_weights search/test_answers
        machines/test_many_classes machines/test_neighbors machines/test_perceptron
        data/test_sequences kernels/test_string kernels/test_substring kernels/test_tree
        kernels/test_graph densities/test_normals densities/test_passes
        solvers/test_features machines/test_sgd machines/test_kmeans io/test_svmlight
        io/test_libsvm_models io/test_tables solvers/test_chunking kernels/test_vector
        test_multiclass
    """,
    "thread": """
        solvers/test_smo solvers/test_class_pairs native/test_threads
        densities/test_normals densities/test_passes test_multiclass
        native/test_vectors native/test_number_of_threads solvers/test_features
        kernels/test_tree kernels/test_graph machines/test_kmeans machines/test_sgd
        machines/test_perceptron solvers/test_chunking
    """,
}
# By -k of pytest, which reads the names of tests and of their files.
CHOSEN = {
    # ASan reserves terabytes of addresses, so none are left below a limit on them; and
    # what a fit takes beside its points is told of the core as users have it. A child
    # of a fork can find the locks of ASan's allocator taken, by threads it has not.
    "address": "not address_space and not memory_that_is_not_there "
    "and not memory_of_fits and not takes_few_numbers and not forked_child",
    # Whole files, and of the others the tests that change the number of threads.
    "thread": "threads or test_smo or test_class_pairs or test_normals or test_passes "
    "or test_multiclass",
}
OPTIONS = {
    "address": {
        # Python leaves most of its objects to the end of the process.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    },
    "thread": {
        # Python, numpy and OpenBLAS are not compiled with TSan, which sees no lock of
        # theirs and would take each of their accesses for a race.
        "TSAN_OPTIONS": "ignore_noninstrumented_modules=1:exitcode=66",
    },
}


def build(kind: str) -> Path:
    """Compile the core; returns the folder to put on PYTHONPATH."""
    folder = ROOT / "build" / f"sanitize-{kind}"
    configure = [
        *["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja"],
        "-DCMAKE_BUILD_TYPE=Debug",
        f"-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1 -fno-omit-frame-pointer {FLAGS[kind]}",
        f"-DPython_EXECUTABLE={sys.executable}",
        "-DSKBUILD_SABI_COMPONENT=",
        f"-DSKBUILD_SOABI={sysconfig.get_config_var('SOABI')}",
    ]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder], check=True)
    package = folder / "package" / "mercer"
    shutil.rmtree(package, ignore_errors=True)
    compiled = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "src" / "mercer", package, ignore=compiled)
    for module in folder.glob("_core*.so"):
        shutil.copy(module, package)
    return package.parent


def library(name: str) -> str:
    """Where the compiler has a library."""
    asked = [COMPILER, f"-print-file-name={name}"]
    return subprocess.run(
        asked, check=True, capture_output=True, text=True
    ).stdout.strip()


def environment(kind: str, package: Path) -> dict[str, str]:
    """That of a process which loads the core of this package."""
    return {
        **os.environ,
        **OPTIONS[kind],
        "PYTHONPATH": str(package),
        "MERCER_NUM_THREADS": "2",
        "OPENBLAS_NUM_THREADS": "1",
        # Python itself is not linked with the sanitizer, which must come first, and
        # finds the functions that throw exceptions only where they are loaded already.
        "LD_PRELOAD": f"{library(LIBRARY[kind])} {library('libstdc++.so.6')}",
    }


def run(kind: str) -> int:
    package = build(kind)
    tests = [f"tests/{name}.py" for name in TESTS[kind].split()]
    command = [
        # TSan wants its memory where addresses that are chosen at random may be.
        *["setarch", platform.machine(), "-R"],
        *[sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2"],
        *["-k", CHOSEN[kind], *tests],
    ]
    return subprocess.run(command, cwd=ROOT, env=environment(kind, package)).returncode


def main() -> int:
    kinds = sys.argv[1:] or list(FLAGS)
    if any(kind not in FLAGS for kind in kinds):
        print(__doc__)
        return 2
    return max([run(kind) for kind in kinds])


if __name__ == "__main__":
    sys.exit(main())
