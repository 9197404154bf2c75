"""Sums over points in partitions, and the working set: against matrices in double."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from mercer import RBF, ChiSquared, Laplacian, Linear, Polynomial, Spectrum
from mercer.data.partitions import Once, Partitions, Remote
from mercer.gram import Gram
from mercer.native.vectors import Packed
from mercer.solvers import decomposition, partitioned_values
from mercer.solvers.decomposition import Decomposition, _WorkingSet
from mercer.solvers.partitioned_values import PartitionedValues, _PackedPart
from mercer.solvers.programs import svc

N, D = 300, 120
CUTS = [0, 70, 71, 200, N]


class Here(Remote):
    """Partitions of this process; what stays with them was pickled once."""

    def __init__(self, objects, bounds, room=1e9):
        self.objects, self.bounds, self._room = objects, bounds, room

    def each(self, call, arguments=None, shared=(), beside=()):
        arguments = arguments or [()] * len(self.objects)
        shared = [one.value if isinstance(one, Once) else one for one in shared]
        every = zip(*(one.objects for one in (self, *beside)), strict=True)
        return [
            None if sent is None else call(*objects, *sent, *shared)
            for objects, sent in zip(every, arguments, strict=True)
        ]

    def derived(self, call, arguments=None, shared=(), sizes=None):
        made = self.each(call, arguments, shared)
        return Here(pickle.loads(pickle.dumps(made)), self.bounds, self._room)

    def room(self):
        return self._room

    def total(self, *_):
        raise NotImplementedError

    zipped = crossed = total


def in_partitions(X, room=1e9):
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    bounds = [min(cut, n) for cut in CUTS[:-1]] + [n]
    parts = [X[i:j] for i, j in pairwise(bounds)]
    shape = X.shape if hasattr(X, "shape") else (n,)
    dtype = X.dtype if hasattr(X, "shape") else np.dtype(object)
    names = [f"Partition {number}" for number in range(len(parts))]
    return Partitions(Here(parts, bounds, room), shape, dtype, names, sp.issparse(X))


def images(rng):
    """Points of which most numbers are 0."""
    return np.where(rng.random((N, D)) < 0.2, rng.random((N, D)), 0.0)


def letters(rng):
    return ["".join(rng.choice(list("abc"), 12)) for _ in range(N)]


CASES = {
    "many zeros": (RBF(0.1), images),
    "far from the origin": (RBF(0.01), lambda rng: 1e4 + rng.normal(size=(N, D))),
    "differences": (Laplacian(0.01), lambda rng: 50 + rng.normal(size=(N, D))),
    "products": (Polynomial(2, 0.1), lambda rng: rng.normal(size=(N, D))),
    "CSR": (RBF(0.1), lambda rng: sp.csr_array(images(rng))),
    "float32": (RBF(0.1), lambda rng: images(rng).astype(np.float32)),
    "short points": (RBF(0.1), lambda rng: rng.normal(size=(N, 3))),
    "linear": (Linear(), lambda rng: rng.normal(size=(N, D))),
    "not compiled": (RBF(0.1) + Linear(), images),
    "strings": (Spectrum(2), letters),
}


def exact(kernel, X):
    """K in double."""
    X = X.astype(float) if hasattr(X, "astype") else X
    return np.asarray(kernel(X, X), dtype=float)


@pytest.mark.parametrize("room", [1e9, 1e5, 0.0], ids=["kept", "some", "none"])
@pytest.mark.parametrize("name", CASES)
def test_sums_are_those_of_the_matrix(rng, name, room):
    kernel, make = CASES[name]
    X = make(rng)
    K, places = exact(kernel, X), np.arange(N)
    sums = PartitionedValues(kernel, in_partitions(X, room))
    total, beta = np.zeros(N), np.zeros(N)
    for _ in range(3):
        index = rng.choice(places, 40, replace=False)
        change = rng.normal(size=40)
        total += sums.added(index, change, sums.X.fetched)
        beta[index] += change
    expected = K @ beta
    some, at = np.flatnonzero(beta), np.sort(rng.choice(places, 50, replace=False))
    scale = np.abs(K).max() * np.abs(beta).sum()
    found = sums.exactly(sums.X.fetched(some), beta[some])
    assert_allclose(found, expected, rtol=0, atol=1e-12 * scale)
    found = sums.exactly(sums.X.fetched(some), beta[some], at)
    assert_allclose(found, expected[at], rtol=0, atol=1e-12 * scale)
    assert_allclose(total, expected, rtol=0, atol=2e-5 * scale)
    error = sums.error(beta)
    kept = room == 1e9 and name not in ("short points", "linear")
    assert (error is not None) == kept
    if kept:
        assert np.abs(total - expected).max() <= decomposition.SAFE * error


def test_zeros_are_kept_unless_points_are_far_from_the_origin(rng):
    for name, moves in (("many zeros", False), ("far from the origin", True)):
        kernel, make = CASES[name]
        sums = PartitionedValues(kernel, in_partitions(make(rng)))
        assert (sums._narrow.origin is not None) == moves


def test_points_are_packed_once_and_travel_as_they_are(rng, monkeypatch):
    kernel, make = CASES["many zeros"]
    packed = []
    monkeypatch.setattr(
        partitioned_values._Narrowing,
        "packed",
        lambda self, X: packed.append(len(X)) or Packed(self(X), only_core=True),
    )
    sums = PartitionedValues(kernel, in_partitions(make(rng)))
    made = len(packed)
    for index in (np.arange(40), np.arange(20, 90)):
        sums.added(index, np.ones(len(index)), sums.X.fetched)
    assert len(packed) == made
    part = sums._packed.objects[0]
    other = pickle.loads(pickle.dumps(part))
    assert isinstance(other, _PackedPart)
    assert_array_equal(other.part, part.part)
    assert part.__sizeof__() > part.points.nbytes


def test_points_that_are_none_of_the_kernel_are_refused_wherever_they_are(rng):
    X = rng.random((1000, D))
    X[999, 5] = -1.0  # no sample has the last point
    with pytest.raises(ValueError, match="negative"):
        PartitionedValues(ChiSquared(0.1), in_partitions(X))


def test_values_that_single_precision_has_no_room_for(rng):
    X = 1e9 * rng.random((N, D))
    sums = PartitionedValues(Polynomial(4), in_partitions(X))
    assert not sums.single and np.isfinite(sums.size)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["many zeros", "not compiled", "strings"])
def test_the_matrix_is_that_of_the_set_whoever_joins_and_leaves(rng, name, dtype):
    kernel, make = CASES[name]
    X = make(rng)
    K, tol = exact(kernel, X), 1e-5 if dtype is np.float32 else 1e-13
    chosen = _WorkingSet(PartitionedValues(kernel, in_partitions(X)), np.dtype(dtype))
    nobody = np.zeros(N, dtype=bool)
    for more, fewer in ((60, 0), (50, 30), (5, 0), (10, 60), (90, 1)):
        outside = np.flatnonzero(~chosen.known)
        chosen.join(rng.choice(outside, more, replace=False), nobody)
        stay = rng.choice(len(chosen), len(chosen) - fewer, replace=False)
        chosen._keep(np.sort(stay))
        index = chosen.index
        assert_array_equal(np.flatnonzero(chosen.known), np.sort(index))
        assert chosen.matrix().flags.c_contiguous
        expected = K[np.ix_(index, index)]
        assert_allclose(chosen.matrix(), expected, atol=tol * np.abs(K).max())


def test_errors_of_single_precision_do_not_reach_the_certificate(rng, monkeypatch):
    """F is off by more than tol, as by rounding: the optimum is found all the same.

    The error of a value is the same each time, as that of kept ones is.
    """
    n, tol = 1200, 1e-3
    X = np.where(rng.random((n, D)) < 0.2, rng.random((n, D)), 0.0)
    y = np.where(X[:, :40].sum(axis=1) + 0.3 * rng.normal(size=n) > 4, 1.0, -1.0)
    kernel = RBF(0.05)
    K, off = kernel(X), 3e-4 * rng.normal(size=(n, n))
    true, summed = PartitionedValues.added, []
    exactly = PartitionedValues.exactly

    def added(self, index, V, points):
        return true(self, index, V, points) + off[:, index] @ V

    def counted(self, Y, V, at=None):
        summed.append(n if at is None else len(at))
        return exactly(self, Y, V, at)

    monkeypatch.setattr(PartitionedValues, "added", added)
    monkeypatch.setattr(PartitionedValues, "exactly", counted)
    monkeypatch.setattr(decomposition, "FIRST", 200)
    monkeypatch.setattr(decomposition, "JOIN", 200)
    problem = svc(Gram(kernel, in_partitions(X)), y, upper=1.0)
    found = Decomposition(tol=tol).solve(problem)
    beta = problem.coef(found.value)
    assert np.abs(off @ beta).max() > tol
    expected = problem.violation(found.value, K @ beta)
    assert found.status == "optimal"
    assert expected <= tol
    assert found.violation == pytest.approx(expected, abs=found.rounding + 1e-12)
    assert summed


def test_double_precision_is_for_the_points_that_decide(rng, monkeypatch):
    n = 2000
    X = np.where(rng.random((n, D)) < 0.2, rng.random((n, D)), 0.0)
    side = np.where(np.arange(n) % 2, 1.0, -1.0)
    X[:, 0] = side * rng.exponential(1.0, n)  # many are far from the margin
    kernel, summed = RBF(0.02), []
    exactly = PartitionedValues.exactly

    def counted(self, Y, V, at=None):
        summed.append(n if at is None else len(at))
        return exactly(self, Y, V, at)

    monkeypatch.setattr(PartitionedValues, "exactly", counted)
    monkeypatch.setattr(decomposition, "FIRST", 200)
    problem = svc(Gram(kernel, in_partitions(X)), side, upper=10.0)
    found = Decomposition().solve(problem)
    support = np.count_nonzero(found.value)
    assert found.status == "optimal" and found.run.precision == "single"
    assert support <= sum(summed) < n
    K = kernel(X)
    assert_allclose(found.function, K @ problem.coef(found.value), atol=1e-4)
    expected = problem.violation(found.value, K @ problem.coef(found.value))
    assert found.violation == pytest.approx(expected, abs=found.rounding + 1e-12)
