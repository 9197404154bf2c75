"""Fixtures of many tests: seeded randomness, and a small dataset of vectors."""

import os

import numpy as np
import pytest
from hypothesis import settings

# The same examples in every run; MERCER_HYPOTHESIS=default looks for new ones.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("MERCER_HYPOTHESIS", "fixed"))


@pytest.fixture
def rng():
    return np.random.default_rng(20240229)


@pytest.fixture
def X(rng):
    return rng.normal(size=(12, 3))
