"""Products of many numbers that are held with few columns."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer import _core
from mercer.native import tall
from mercer.native.threads import set_threads, threads

RNG = np.random.default_rng(0)
SHAPES = [(0, 3), (1, 1), (7, 5), (5000, 300)]  # the last is shared by threads


@pytest.fixture(params=[1, 2])
def workers(request):
    before = threads()
    set_threads(request.param)
    yield request.param
    set_threads(before)


def tolerance(M, *factors):
    """What rounding of the sums of all terms may be."""
    unit = 2.0**-22 if M.dtype == np.float32 else 2.0**-50
    return unit * sum(
        float(np.abs(factor).sum(axis=0).max(initial=0)) for factor in factors
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [(), (1,), (4,), (10,), (33,)], ids=str)
def test_products_are_those_of_the_whole(dtype, columns, workers):
    for n, p in SHAPES:
        M = RNG.normal(size=(n, p)).astype(dtype)
        W, V = RNG.normal(size=(p, *columns)), RNG.normal(size=(n, *columns))
        wide = M.astype(float)
        assert_allclose(tall.times(M, W), wide @ W, atol=10 * tolerance(M, W))
        assert_allclose(tall.pull(M, V), wide.T @ V, atol=10 * tolerance(M, V))
        assert tall.times(M, W).dtype == tall.pull(M, V).dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_round_trip_reads_every_row_once(dtype, workers):
    for n, p in SHAPES:
        M = RNG.normal(size=(n, p)).astype(dtype)
        W, scale = RNG.normal(size=(p, 3)), RNG.normal(size=(n, 1))
        seen = np.zeros(n, dtype=int)

        def between(f, rows, scale=scale, seen=seen):
            seen[rows] += 1
            return scale[rows] * f

        V, back = tall.round_trip(M, W, between)
        wide = M.astype(float)
        expected = scale * (wide @ W)
        assert (seen == 1).all()
        assert_allclose(V, expected, atol=40 * tolerance(M, W))
        assert_allclose(back, wide.T @ V, atol=10 * tolerance(M, V))


def test_single_precision_takes_columns_of_any_size():
    M = RNG.normal(size=(300, 20)).astype(np.float32)
    sizes = np.array([1e-300, 1e-60, 1.0, 1e60, 1e300])
    W, V = RNG.normal(size=(20, 5)) * sizes, RNG.normal(size=(300, 5)) * sizes
    wide = M.astype(float)
    assert_allclose(tall.times(M, W) / sizes, wide @ (W / sizes), atol=1e-4)
    assert_allclose(tall.pull(M, V) / sizes, wide.T @ (V / sizes), atol=1e-3)
    zero = tall.times(M, np.zeros((20, 2)))
    assert not zero.any() and not tall.pull(M, np.zeros((300, 2))).any()


def test_blocks_are_even_and_cover_all_rows(workers):
    for n in (0, 1, 5, 17, 1000):
        blocks = tall.even_blocks(n, 7)
        covered = np.concatenate([np.arange(n)[rows] for rows in blocks] or [[]])
        assert covered.tolist() == list(range(n))
        lengths = [rows.stop - rows.start for rows in blocks]
        assert max(lengths, default=0) <= 7


def test_only_tall_matrices_in_order_gain():
    M = np.zeros((3000, 400))
    assert tall.suits(M, 1) and tall.suits(M, tall.MOST)
    assert not tall.suits(M, tall.MOST + 1)
    assert not tall.suits(M[:10], 1) and not tall.suits(np.asfortranarray(M), 1)


@pytest.fixture(params=[True, False], ids=["core", "BLAS"])
def road(request, monkeypatch):
    monkeypatch.setattr(tall, "core_squares", lambda: request.param)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_squares_are_sums_over_rows(dtype, road):
    # One row, one column, parts of panels and several pieces of rows.
    for n, p in [(0, 3), (1, 1), (7, 5), (300, 33), (1000, 97), (90, 400)]:
        M = RNG.normal(size=(n, p)).astype(dtype)
        wide = M.astype(float)
        signs = RNG.normal(size=n)
        for h in (None, np.abs(signs), signs):
            factor = np.ones(n) if h is None else h.astype(dtype).astype(float)
            expected = np.zeros((p, p))
            for one, row in zip(factor, wide, strict=True):
                expected += one * np.outer(row, row)
            narrow = None if h is None else h.astype(dtype)
            found = tall.squares(M, narrow)
            unit = 2.0**-21 if dtype == np.float32 else 2.0**-49
            scale = np.abs(wide).T @ (np.abs(factor)[:, None] * np.abs(wide))
            assert found.shape == (p, p)
            assert (np.abs(found - expected) <= unit * np.sqrt(n) * scale).all()
            assert (np.abs(found - found.T) <= unit * np.sqrt(n) * scale).all()
            sums = np.full((p, p), 2.0)
            tall.add_squares(np.asfortranarray(M), narrow, sums)
            added = np.tril(sums - 2)
            assert_allclose(
                added, np.tril(found), rtol=1e-5, atol=1e-4 * scale.max(initial=0)
            )


def test_squares_leave_their_matrix_alone_unless_it_is_spare(road):
    M, h = RNG.normal(size=(50, 20)), RNG.random(50)
    before = M.copy()
    first = tall.squares(M, h)
    assert (M == before).all()
    assert_allclose(tall.squares(M, h, spare=True), first, rtol=1e-12, atol=1e-12)


def test_squares_of_the_core_check_what_they_are_given():
    M, sums = np.ones((4, 3)), np.zeros((3, 3))
    for h, out in [(np.ones(3), sums), (None, np.zeros((3, 4)))]:
        with pytest.raises(ValueError, match="tall_squares needs"):
            _core.tall_squares(M, h, out)
