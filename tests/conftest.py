"""Fixtures of many tests: seeded randomness, and a small dataset of vectors."""

import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(20240229)


@pytest.fixture
def X(rng):
    return rng.normal(size=(12, 3))
