"""Laws of every machine on any data: a machine knows points by their kernel values.

What a machine makes of points depends on the kernel by its values alone, so that not
every machine has to meet every kernel: each meets every data type in every way that a
kernel has of computing (`WAYS`), and each kernel meets two machines.
"""

import copy
import functools
import inspect
import pickle
import warnings

import catalog
import numpy as np
import pytest
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import decomposition, gaussian_process, kernel_ridge, svm
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, PositiveSpectrumWarning
from sklearn.model_selection import cross_val_predict

import mercer
from mercer.data.points import take
from mercer.kernels.base import Kernel
from mercer.kernels.vector import VectorKernel
from mercer.kernels.ways import FeatureKernel, PairKernel, Precomputed
from mercer.machines.base import Machine
from mercer.machines.ridge import KernelRidge

WAYS = (FeatureKernel, PairKernel, VectorKernel, Kernel)  # the first that it is
N, NEW = 14, 6


def data_and_way(kernel, points):
    """What a machine may treat differently: the points, and how values are computed."""
    return points, next(way for way in WAYS if isinstance(kernel, way))


def way(kernel, points):
    return data_and_way(kernel, points)[1]


def covering(kernels, group, least=2):
    """Pairs of a machine and a kernel, by turns: every machine with a kernel of every
    group, and every kernel with `least` machines."""
    groups = {}
    for kernel in kernels:
        groups.setdefault(group(*kernel.values), []).append(kernel)
    pairs = []
    for members in groups.values():
        rounds = max(len(catalog.machines), least * len(members))
        turns = range(-(-rounds // len(members)) * len(members))
        # A machine more each time round, so that a kernel meets another one.
        used = {
            ((t + t // len(members)) % len(catalog.machines), t % len(members))
            for t in turns
        }
        missing = set(range(len(catalog.machines))) - {m for m, _ in used}
        used |= {(m, m % len(members)) for m in missing}
        pairs += [(catalog.machines[m], members[k]) for m, k in sorted(used)]
    return pairs


def on_pairs(pairs):
    """A test for each machine, which goes through its kernels."""
    kernels = {}
    for machine, kernel in pairs:
        kernels.setdefault(machine.id, []).append(kernel)

    def decorate(test):
        @functools.wraps(test)
        def of_machine(machine, name):
            of_kernel = functools.partial(test, machine)
            looped("kernel, points", kernels[name])(of_kernel)()

        del of_machine.__wrapped__
        every = [
            pytest.param(*entry.values, entry.id, id=entry.id)
            for entry in catalog.machines
            if entry.id in kernels
        ]
        return pytest.mark.parametrize("machine, name", every)(of_machine)

    return decorate


@pytest.mark.parametrize("group", [data_and_way, way])
def test_the_pairs_cover_machines_kernels_and_ways(group):
    kernels = catalog.psd_kernels
    pairs = [
        (machine.id, kernel.id, group(*kernel.values))
        for machine, kernel in covering(kernels, group)
    ]
    names = {machine.id for machine in catalog.machines}
    groups = {group(*kernel.values) for kernel in kernels}
    assert {(m, g) for m, _, g in pairs} == {(m, g) for m in names for g in groups}
    for kernel in kernels:
        assert len({m for m, k, _ in pairs if k == kernel.id}) >= 2
    assert len(pairs) == len(set(pairs))


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


def public_machines():
    public = {name: getattr(mercer, name) for name in dir(mercer)}
    return {
        name: kind
        for name, kind in public.items()
        if isinstance(kind, type) and issubclass(kind, Machine)
    }


def parameters(kind):
    """The parameters by place, and those by name alone."""
    known = inspect.signature(kind).parameters.values()
    by_name = [p.name for p in known if p.kind is p.KEYWORD_ONLY]
    return [p.name for p in known if p.name not in by_name], by_name


# scikit-learn's, whose constructors ours follow
DROP_INS = {
    "SVC": svm.SVC,
    "NuSVC": svm.NuSVC,
    "SVR": svm.SVR,
    "NuSVR": svm.NuSVR,
    "OneClassSVM": svm.OneClassSVM,
    "SVDD": svm.OneClassSVM,
    "KernelRidge": kernel_ridge.KernelRidge,
    "KernelPCA": decomposition.KernelPCA,
    "GaussianProcessRegressor": gaussian_process.GaussianProcessRegressor,
    "GaussianProcessClassifier": gaussian_process.GaussianProcessClassifier,
}
ALPHA = {"KernelRidge", "KernelPCA", "SparseKernelRegressor"} | {
    "GaussianProcessRegressor"
}  # as theirs and Lasso's


@looped("name", public_machines())
def test_main_parameter_is_by_place_then_kernel_and_all_else_by_name(name):
    by_place, by_name = parameters(public_machines()[name])
    assert ("alpha" in by_place + by_name) == (name in ALPHA)
    if name in DROP_INS:
        theirs = parameters(DROP_INS[name])
        assert by_place == theirs[0] and set(theirs[1]) <= set(by_name)
    elif name == "Perceptron":  # on vectors, without a kernel
        assert not by_place
    else:
        assert len(by_place) == 1
        assert by_place == ["kernel"] or by_name[0] == "kernel"
    assert not {"C", "reg", "alpha"} & set(by_place[1:])


def targets_of_every_width(machine):
    yield targets(machine)
    if is_classifier(machine):
        yield targets(machine) == "cat"
    elif machine.__sklearn_tags__().target_tags.multi_output:
        yield np.column_stack([np.sin(np.arange(N)), np.arange(N) % 3])


# KernelPCA's are of its inverse transform, as in scikit-learn.
WITH_DUAL_COEF = [
    entry
    for entry in catalog.machines
    if hasattr(type(entry.values[0]), "dual_coef_") and entry.id != "KernelPCA"
]


@pytest.mark.parametrize("machine", WITH_DUAL_COEF)
def test_dual_coef_has_a_row_for_each_function(machine):
    X = catalog.vectors(1, N)
    for y in targets_of_every_width(machine):
        found = clone(machine).fit(X, y)
        f, twin = found.expansion_, DROP_INS.get(type(machine).__name__)
        if isinstance(found, KernelRidge):
            assert found.dual_coef_ is f.coef  # as scikit-learn's
            continue
        pairs = twin is svm.SVC or twin is svm.NuSVC
        rows = len(found.classes_) - 1 if pairs else f.n_outputs
        assert found.dual_coef_.shape == (rows, len(f.coef))
        if hasattr(found, "intercept_"):
            assert found.intercept_.shape == (f.n_outputs,)
        if not pairs:
            assert_array_equal(found.dual_coef_, np.atleast_2d(f.coef.T))


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


@on_pairs(covering(catalog.psd_kernels, data_and_way))
def test_points_of_any_kind_give_what_their_kernel_values_give(machine, kernel, points):
    X = points(3, N + NEW)
    K = np.asarray(kernel(X), dtype=float)
    learnt = fitted(machine, kernel, take(X, slice(0, N)))
    known = fitted(machine, Precomputed(K, psd=True), np.arange(N))
    new, new_numbers = take(X, slice(N, None)), np.arange(N, N + NEW)
    expected, found = values(known, new_numbers), values(learnt, new)
    assert np.isfinite(found).all()
    sure, rows = certain(known, expected), without_ties(known, K)
    assert_allclose(
        found[rows][..., sure],
        expected[rows][..., sure],
        atol=1e-5 * max(1, np.abs(expected).max()),
    )
    numbers = [unique_numbers(m, x) for m, x in ((learnt, new), (known, new_numbers))]
    assert_allclose(*numbers, rtol=1e-5, atol=1e-5 * max(1, np.abs(K).max()))
    assert found[rows][..., sure].size + np.isfinite(numbers[0]).sum() > 0


def unique_numbers(machine, X):
    """What all solutions share: optima, eigenvalues, distances of the neighbours."""
    if hasattr(machine, "eigenvalues_"):
        return machine.eigenvalues_
    if hasattr(machine, "kneighbors"):
        return machine.kneighbors(X)[0] ** 2
    certificate = getattr(machine, "certificate_", None)
    if certificate is None:
        return np.array([])
    # Of a part that is "flat", whose classes are not told apart, the optimum is 0.
    return np.array(
        [
            [part.primal, part.dual]
            for part in certificate.parts or [certificate]
            if part.status in ("optimal", "flat")
        ]
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


@on_pairs(covering(catalog.psd_kernels, way))
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


@on_pairs(covering(catalog.other_kernels, data_and_way))
def test_what_is_no_kernel_works_where_a_machine_allows_it(machine, kernel, points):
    X = points(3, N + NEW)
    try:
        learnt = fitted(machine, kernel, take(X, slice(0, N)))
    except np.linalg.LinAlgError as error:  # there is no process of this covariance
        assert machine.__module__.startswith("mercer.machines.gp")
        assert "positive semidefinite" in str(error)
        return
    assert np.isfinite(values(learnt, take(X, slice(N, None)))).all()


@looped("kernel, points", catalog.psd_kernels)
def test_cross_validation_splits_points_of_any_kind(kernel, points):
    machine = mercer.KernelRidge(alpha=0.5, kernel=kernel)
    y = targets(machine)
    found = cross_val_predict(machine, points(5, N), y, cv=3)
    assert found.shape == y.shape and np.isfinite(found).all()


def test_targets_that_are_strings_are_named_whatever_the_points():
    for X, kernel in (
        (["ab", "ba", "bb"], mercer.Spectrum(1)),
        (np.eye(3), mercer.RBF(1.0)),
    ):
        for machine in (KernelRidge(kernel=kernel), mercer.SVR(kernel=kernel)):
            with pytest.raises(ValueError, match=r"needs y as .* numbers; 'u', of poi"):
                machine.fit(X, np.array(["u", "v", "v"]))
