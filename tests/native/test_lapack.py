"""Factors that lose a row and its column."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer.native import lapack

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("known", [True, False])
def test_a_factor_without_a_row_is_that_of_the_rest(known, monkeypatch):
    if not known:  # a scipy with routines of another kind
        monkeypatch.setattr(lapack, "_routine", lambda name: None)
    for n in (1, 2, 5, 70):
        A = RNG.normal(size=(n, n))
        A = A @ A.T + np.eye(n)
        R = np.asfortranarray(np.linalg.cholesky(A).T)
        for place in {0, n // 2, n - 1}:
            found = lapack.dropped(R, place)
            rest = np.delete(np.delete(A, place, axis=0), place, axis=1)
            assert_allclose(found.T @ found, rest, atol=1e-12 * n)
            assert (
                np.array_equal(found, np.triu(found)) and (found.diagonal() > 0).all()
            )
