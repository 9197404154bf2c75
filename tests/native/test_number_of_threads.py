"""The number of threads changes no value: of strings, and of neighbours.

In a file that loads no library with an allocator of its own, which TSan cannot watch.
"""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mercer import RBF, EditSimilarity, Subsequence, WeightedDegree, WeightedSubstrings
from mercer.native import threads
from mercer.solvers.nearest import nearest

KERNELS = [
    Subsequence(3, 0.8, [1.0, 1.0, 1.0]),
    WeightedSubstrings(0.7),
    WeightedDegree(4),
    EditSimilarity(0.2),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_values_do_not_depend_on_the_number_of_threads(kernel, rng):
    sizes = rng.integers(0, 40, size=70)
    X = ["".join(rng.choice(list("acgt"), size=size)) for size in sizes]
    before = threads.threads()
    try:
        threads.set_threads(1)
        alone = kernel(X), kernel(X[:9], X), kernel.diag(X)
        threads.set_threads(4)
        together = kernel(X), kernel(X[:9], X), kernel.diag(X)
    finally:
        threads.set_threads(before)
    for one, other in zip(alone, together, strict=True):
        assert_array_equal(one, other)


def test_the_number_of_threads_does_not_change_the_neighbours():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(700, 20)), rng.normal(size=(900, 20))
    before, found = threads.threads(), []
    try:
        for number in (1, 2, 3):
            threads.set_threads(number)
            found.append(nearest(RBF(0.01), A, B, 4))
    finally:
        threads.set_threads(before)
    for squares, index in found[1:]:
        assert_array_equal(squares, found[0][0])
        assert_array_equal(index, found[0][1])
