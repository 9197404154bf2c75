"""Quadratic programs over weights: the core against numpy, and against all faces."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer import _core
from mercer.solvers.weights import constrained_minimum, simplex_minimum


def constrained(matrix: np.ndarray, pull: np.ndarray, row: np.ndarray) -> np.ndarray:
    """x of min ½ xᵀAx - pullᵀx with rowᵀx = 0, A positive definite.

    On a basis of what rowᵀx = 0 allows: A alone may be singular but for its ridge,
    where few variables of a machine are free, and what a multiplier would cancel is
    then larger than x by nine digits.
    """
    basis = np.linalg.qr(row[:, None], mode="complete")[0][:, 1:]
    return basis @ np.linalg.solve(basis.T @ matrix @ basis, basis.T @ pull)


def by_active_sets(H: np.ndarray, slope: np.ndarray, start: np.ndarray) -> np.ndarray:
    """min ½ (x - start)ᵀH(x - start) + slopeᵀ(x - start), x ≥ 0, Σx = 1.

    By active sets, H positive definite: on the entries that are not held at 0 the
    minimum is a linear system; an entry that would become negative is held, one whose
    release lowers the value is released.
    """
    x = start.copy()
    held = x <= 0
    for _ in range(20 * len(x)):
        free = np.flatnonzero(~held)
        gradient = slope + H @ (x - start)
        block = H[np.ix_(free, free)]
        move = constrained(block, -gradient[free], np.ones(len(free)))
        after = x[free] + move
        if (after < 0).any():
            falling = after < 0
            ratio = np.where(falling, x[free] / np.where(falling, -move, 1.0), np.inf)
            first = int(np.argmin(ratio))
            x[free] = np.maximum(x[free] + ratio[first] * move, 0)
            x[free[first]], held[free[first]] = 0.0, True
            continue
        x[free] = after
        gradient = slope + H @ (x - start)
        level = float(gradient[free].mean())
        release = np.where(held, gradient - level, np.inf)
        first = int(np.argmin(release))
        if release[first] >= -1e-12 * max(1e-300, float(np.abs(gradient).max())):
            break
        held[first] = False
    return x / x.sum()


def programs(n, seed):
    """H, a slope and a start, some entries of which are 0; rank n, and rank 1."""
    random = np.random.default_rng(seed)
    for rank, ridge in ((n, 0.01), (1, 1e-9)):
        root = random.normal(size=(n, rank))
        H = root @ root.T + ridge * np.eye(n)
        start = random.dirichlet(np.ones(n)) * (random.random(n) < 0.7)
        start[0] += start.sum() == 0
        yield H, random.normal(size=n), start / start.sum()


@pytest.mark.parametrize("n", [1, 2, 3, 10, 70])
def test_a_minimum_with_one_sum_is_that_of_numpy(n):
    for seed in range(10):
        for A, pull, row in programs(n, seed):
            A = A + 1e-3 * np.eye(n)
            row = row + 0.01
            x = constrained_minimum(A, pull, row)
            assert abs(row @ x) <= 1e-10 * np.linalg.norm(row) * (np.linalg.norm(x) + 1)
            assert_allclose(x, constrained(A, pull, row), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 70])
def test_a_minimum_on_the_simplex_is_that_of_numpy(n):
    for seed in range(10):
        for H, slope, start in programs(n, seed):
            x, other = simplex_minimum(H, slope, start), by_active_sets(H, slope, start)
            assert np.all(x >= 0)
            assert_allclose(x.sum(), 1)

            def value(x, H=H, slope=slope, start=start):
                return (x - start) @ H @ (x - start) / 2 + slope @ (x - start)

            assert_allclose(value(x), value(other), rtol=1e-7, atol=1e-8)
            gradient = slope + H @ (x - start)
            assert gradient @ x <= gradient.min() + 1e-7  # no vertex is lower


def test_a_matrix_that_is_singular_gives_a_finite_step():
    x = constrained_minimum(np.zeros((3, 3)), np.zeros(3), np.ones(3))
    assert np.isfinite(x).all()
    x = simplex_minimum(np.ones((3, 3)), np.array([0.0, 1.0, 2.0]), np.ones(3) / 3)
    assert_allclose(x, [1, 0, 0], atol=1e-12)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="square"):
        simplex_minimum(np.eye(3), np.ones(2), np.ones(3))
    with pytest.raises(ValueError, match="room"):
        _core.constrained_minimum(np.eye(3), np.ones(3), np.ones(3), np.ones(2))
