"""Laws of every kernel with every machine: any data type, through any machine."""

import copy
import pickle
import warnings

import catalog
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, PositiveSpectrumWarning
from sklearn.model_selection import cross_val_predict

import mercer
from mercer.data.points import take
from mercer.kernels.ways import Precomputed
from mercer.machines.base import Machine

on_machines = pytest.mark.parametrize("machine", catalog.machines)
on_valid = pytest.mark.parametrize("kernel, points", catalog.psd_kernels)
on_invalid = pytest.mark.parametrize("kernel, points", catalog.other_kernels)
N, NEW = 14, 6


def test_every_machine_is_in_the_catalogue():
    public = {getattr(mercer, name) for name in dir(mercer)}
    made = {
        kind
        for kind in public
        if isinstance(kind, type)
        and issubclass(kind, Machine)
        and "kernel" in kind._get_param_names()
    }
    entries = catalog.machines + catalog.window_machines
    assert made == {type(entry.values[0]) for entry in entries}


def targets(machine):
    if is_classifier(machine):
        return np.array(["bird", "cat", "dog"])[np.arange(N) * 7 % 3]
    return np.sin(np.arange(N))


def fitted(machine, kernel, X):
    """The machine with this kernel, which may find that there is no margin."""
    machine = clone(machine).set_params(kernel=kernel)
    # The values of the pairs themselves: votes may tie.
    if "decision_function_shape" in machine.get_params():
        machine.set_params(decision_function_shape="ovo")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", PositiveSpectrumWarning)
        return machine.fit(X, targets(machine))


def values(machine, X):
    if hasattr(machine, "eigenvalues_"):
        # Where two entries of a component are equally large, rounding gives the sign.
        return np.abs(machine.transform(X))
    for method in ("decision_function", "predict_proba", "predict"):
        if hasattr(machine, method):
            return getattr(machine, method)(X)


@on_machines
@on_valid
def test_points_of_any_kind_give_what_their_kernel_values_give(machine, kernel, points):
    X = points(3, N + NEW)
    K = np.asarray(kernel(X), dtype=float)
    learnt = fitted(machine, kernel, take(X, slice(0, N)))
    known = fitted(machine, Precomputed(K, psd=True), np.arange(N))
    expected = values(known, np.arange(N, N + NEW))
    found = values(learnt, take(X, slice(N, None)))
    assert np.isfinite(found).all()
    sure, rows = certain(known, expected), without_ties(known, K)
    assert_allclose(
        found[rows][..., sure],
        expected[rows][..., sure],
        atol=1e-5 * max(1, np.abs(expected).max()),
    )


def without_ties(machine, K):
    """The new points whose nearest neighbours do not hang on rounding."""
    k = getattr(machine, "n_neighbors", None)
    if k is None:
        return slice(None)
    own = np.diagonal(K)
    squares = np.sort(own[N:, None] + own[:N] - 2 * K[N:, :N], axis=1)
    return np.diff(squares)[:, k - 1] > 1e-9 * own.max()


def certain(machine, values):
    """Which functions are the only solution: those with free support vectors.

    Without them the bias is anywhere between two bounds, and where there is no margin
    what is left of f is rounding. Components need an eigenvalue of their own.
    """
    if hasattr(machine, "eigenvalues_"):
        return _apart(machine.eigenvalues_)
    certificate = getattr(machine, "certificate_", None)
    if certificate is None or not certificate.parts:
        return certificate is None or _unique(certificate)
    return [_unique(part) for part in certificate.parts]


def _apart(eigenvalues):
    """Which of the largest eigenvalues but the last are unlike their neighbours."""
    gaps = -np.diff(eigenvalues, prepend=np.inf)
    least = 1e-3 * max(eigenvalues[0], 1e-9)
    return np.flatnonzero((gaps[:-1] > least) & (gaps[1:] > least))


def _unique(certificate):
    return certificate.status == "optimal" and certificate.n_free > 1


@on_machines
@on_valid
def test_a_machine_is_copied_and_pickled_with_its_points(machine, kernel, points):
    X = points(4, N)
    learnt = fitted(machine, kernel, X)
    found = values(learnt, X)
    for other in (copy.deepcopy(learnt), pickle.loads(pickle.dumps(learnt))):
        if hasattr(learnt, "expansion_"):
            assert_array_equal(other.expansion_.coef, learnt.expansion_.coef)
            assert_array_equal(other.expansion_.bias, learnt.expansion_.bias)
        # Kernel values of points at another address may be rounded differently.
        size = max(1, np.abs(found).max())
        assert_allclose(values(other, X), found, rtol=0, atol=1e-8 * size)


@on_machines
@on_invalid
def test_what_is_no_kernel_works_where_a_machine_allows_it(machine, kernel, points):
    X = points(3, N + NEW)
    learnt = fitted(machine, kernel, take(X, slice(0, N)))
    assert np.isfinite(values(learnt, take(X, slice(N, None)))).all()


@on_valid
def test_cross_validation_splits_points_of_any_kind(kernel, points):
    machine = mercer.KernelRidge(alpha=0.5, kernel=kernel)
    y = targets(machine)
    found = cross_val_predict(machine, points(5, N), y, cv=3)
    assert found.shape == y.shape and np.isfinite(found).all()
