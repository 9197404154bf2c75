"""Sequences as numbers, and what the native core makes of them."""

import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from mercer import Spectrum, Subsequence, WeightedSubstrings, _core
from mercer.data.sequences import encode
from mercer.kernels.string import EditSimilarity

WORDS = ["statistics", "computation", "", "ab𝔸b"]


@pytest.mark.parametrize(
    "X",
    [
        tuple(WORDS),
        np.array(WORDS),
        np.array(WORDS, dtype=object),
        pd.Series(WORDS),
        pd.Series(WORDS, dtype="string"),
        pl.Series(WORDS),
        [list(word) for word in WORDS],
        [tuple(word) for word in WORDS],
        [np.array(list(word), dtype=object) for word in WORDS],
        [WORDS[0], *map(list, WORDS[1:])],
    ],
    ids=lambda X: type(X).__name__,
)
def test_strings_in_any_container_are_the_same_points(X):
    for kernel in (Spectrum(2), Subsequence(2), WeightedSubstrings(0.5)):
        assert_array_equal(kernel(X), kernel(WORDS))
        assert_array_equal(kernel(X, WORDS), kernel(WORDS, WORDS))


def test_rows_of_an_array_of_numbers_are_sequences():
    X = np.array([[1, 2, 1], [2, 1, 2]])
    assert_array_equal(Spectrum(2)(X), Spectrum(2)(["aba", "bab"]))


def test_vectors_of_measured_numbers_are_no_sequences():
    vectors = np.array([[1.0, 2.0], [0.25, 1.0]])
    with pytest.raises(TypeError, match=r"point 1 is a vector .* 0.25.*RBF"):
        Spectrum(2)(vectors)
    assert Spectrum(1)(vectors[:1]).tolist() == [[2.0]]


def test_lone_surrogates_and_zeros_are_characters():
    assert Spectrum(1).value("\ud800\0", "\0\ud800") == 2


def test_encoding_keeps_equal_tokens_equal_across_both_sets():
    X, Y = encode("test", ["ba"], ["cab"])
    assert X.alphabet == Y.alphabet == 3
    assert_array_equal(X.token, [1, 0])
    assert_array_equal(Y.token, [2, 0, 1])
    assert_array_equal(Y.start, [0, 3])


def test_a_single_string_is_not_a_dataset():
    with pytest.raises(TypeError, match=r"Wrap a single point in a list"):
        Spectrum(2)("statistics")


@pytest.mark.parametrize(
    "token, start", [([0, 5], [0, 2]), ([0, 1], [0, 3]), ([0], [])]
)
def test_the_core_refuses_malformed_sequences(token, start):
    with pytest.raises(ValueError, match="Sequences need"):
        _core.Sequences(np.array(token, np.int32), np.array(start, np.int64), 2)


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_every_instruction_set_gives_the_same_values(isa):
    code = (
        "import numpy as np\n"
        "from mercer import Subsequence\n"
        "rng = np.random.default_rng(0)\n"
        "X = [''.join(rng.choice(list('acgt'), size=n)) for n in range(23)]\n"
        "for n in (1, 2, 4, 6, 7, 9):\n"
        "    K = Subsequence(n, 0.5)(X)\n"
        "    print(*(float(v).hex() for v in K.ravel()))\n"
    )

    def output(**environment):
        result = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )
        if "cannot run here" in result.stderr:
            pytest.skip(f"this machine has no {isa}")
        assert result.returncode == 0, result.stderr
        return np.array([float.fromhex(v) for v in result.stdout.split()])

    # decay = 1/2 and whole numbers: nothing is rounded, whatever is fused.
    assert_array_equal(output(MERCER_ISA=isa), output())


@pytest.mark.parametrize(
    "kernel, size",
    [(Subsequence(4, 0.5), 60_000), (EditSimilarity(0.1), 2_000_000)],
    ids=repr,
)
def test_a_signal_ends_the_comparison_of_two_long_strings(kernel, size):
    def interrupt(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        # Minutes, if it were to end by itself.
        with pytest.raises(TimeoutError):
            kernel(["ab" * (size // 2)], ["ba" * (size // 2)])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
