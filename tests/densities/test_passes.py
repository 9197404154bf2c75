"""Forward and backward passes: the core against logarithms, a number at a time."""

from itertools import pairwise

import naive_densities as naive
import numpy as np
import pytest
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal

from mercer.densities.passes import (
    Runs,
    forward_backward,
    joined,
    likelihood,
    run_blocks,
)
from mercer.native.threads import set_threads, threads

LENGTHS = [3, 0, 1, 40, 2, 0, 7]


def chain(rng, k, zeros=False):
    start, moves = rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k), k)
    if zeros:  # only ahead, and not from the second state
        start[1:2] = 0
        moves = np.triu(moves)
    return start / start.sum(), moves / moves.sum(axis=1, keepdims=True)


def agree(logs, offsets, start, moves, rtol):
    found = forward_backward(logs, offsets, start, moves)
    for r, (begin, end) in enumerate(pairwise(offsets)):
        total, answers, expected = naive.passes(logs[begin:end].tolist(), start, moves)
        assert_allclose(found.log_likelihood[r], total, rtol=rtol, atol=rtol)
        shape = (end - begin, len(start))
        assert_allclose(found.answers[begin:end], np.reshape(answers, shape),
                        rtol=1e3 * rtol, atol=rtol)  # fmt: skip
        assert_allclose(found.moves[r], expected, rtol=1e3 * rtol, atol=rtol)
    assert_array_equal(likelihood(logs, offsets, start, moves), found.log_likelihood)
    return found


@looped("k", [1, 2, 5])
@looped("zeros", [False, True])
@looped("spread", [1.0, 30.0, 150.0, 500.0])
def test_passes_agree_with_logarithms(rng, k, zeros, spread):
    # From 200 on logarithms are added in the core too; below, and where all states
    # are near each other, numbers are.
    start, moves = chain(rng, k, zeros)
    offsets = np.r_[0, np.cumsum(LENGTHS)]
    logs = rng.normal(-1000, spread, size=(offsets[-1], k))
    found = agree(logs, offsets, start, moves, rtol=1e-12)
    assert_allclose(found.answers.sum(axis=1), 1, rtol=1e-12)
    steps = np.maximum(np.array(LENGTHS) - 1, 0)
    assert_allclose(found.moves.sum(axis=(1, 2)), steps, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("tiny", [1e-50, 1e-120, 1e-300])
def test_moves_of_tiny_probability_are_not_lost(tiny):
    # The only way that the densities leave open takes the tiny move, again and again.
    start, moves = np.array([1.0, 0.0]), np.array([[1 - tiny, tiny], [1.0, 0.0]])
    logs = np.array([[0.0, -np.inf], [-np.inf, -700.0]] * 4)
    found = agree(logs, np.array([0, 8]), start, moves, rtol=1e-13)
    assert_allclose(found.log_likelihood, 4 * (np.log(tiny) - 700.0), rtol=1e-14)
    assert_allclose(found.moves[0], [[0, 4], [3, 0]], atol=1e-13)


def test_a_state_far_behind_can_come_back():
    # e^-5000 times less likely for a while, and the only one that is left in the end.
    logs = np.array([[0.0, -5000.0]] + [[-1.0, -1.0]] * 5 + [[-np.inf, 0.0]])
    found = agree(logs, np.array([0, 7]), np.full(2, 0.5), np.eye(2), rtol=1e-13)
    assert_allclose(found.log_likelihood, np.log(0.5) - 5005, rtol=1e-14)
    assert_allclose(found.answers, [[0, 1]] * 7, atol=1e-15)


def test_nothing_is_expected_of_an_impossible_sequence():
    logs = np.array([[0.0, -1.0], [-np.inf, -np.inf], [0.0, 0.0], [0.0, -np.inf]])
    found = agree(logs, np.array([0, 3, 4]), np.full(2, 0.5), np.full((2, 2), 0.5),
                  rtol=1e-13)  # fmt: skip
    assert_array_equal(found.log_likelihood[:1], [-np.inf])
    assert not found.answers[:3].any() and not found.moves[0].any()
    assert found.answers[3].tolist() == [1, 0]


def test_a_long_sequence_is_its_first_and_its_last_part():
    # The state is known in the middle, which cuts the sequence: ln p is a sum.
    rng = np.random.default_rng(3)
    start, moves = chain(rng, 3)
    logs = rng.normal(-5, 3, size=(40_001, 3))
    logs[20_000] = [-np.inf, 0.0, -np.inf]
    [whole] = likelihood(logs, np.array([0, 40_001]), start, moves)
    first = likelihood(logs[:20_001], np.array([0, 20_001]), start, moves)[0]
    last = likelihood(logs[20_001:], np.array([0, 20_000]), moves[1], moves)[0]
    assert_allclose(whole, first + last, rtol=1e-12)


def test_passes_do_not_depend_on_the_number_of_threads(rng):
    start, moves = chain(rng, 4)
    offsets = np.r_[0, np.cumsum(rng.integers(0, 40, size=2000))]
    logs, before, found = rng.normal(0, 9, size=(offsets[-1], 4)), threads(), []
    try:
        for count in (1, 3):
            set_threads(count)
            found.append(forward_backward(logs, offsets, start, moves))
    finally:
        set_threads(before)
    for one, three in zip(*found, strict=True):
        assert_array_equal(one, three)


def test_blocks_are_all_sequences_in_order(rng, monkeypatch):
    monkeypatch.setattr("mercer.densities.passes.BLOCK", 60)
    sequences = [rng.normal(size=(T, 2)) for T in LENGTHS]
    blocks = list(run_blocks(joined(sequences), 3))
    assert [b.start for b, _ in blocks[1:]] == [b.stop for b, _ in blocks[:-1]]
    assert blocks[0][0].start == 0 and blocks[-1][0].stop == len(sequences)
    for block, runs in blocks:
        whole = joined(sequences[block])
        assert_array_equal(runs.rows, whole.rows)
        assert_array_equal(runs.offsets, whole.offsets)
        assert block.stop - block.start == 1 or 3 * len(runs.rows) <= 60
    assert list(run_blocks(Runs(np.empty((0, 2)), np.array([0])), 3)) == []
