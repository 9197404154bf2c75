"""Many classes: as exact as few, by pairs kept in little memory, or refused at once."""

import pickle
import warnings
from itertools import combinations

import catalog
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm as reference
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from mercer import calibration, multiclass
from mercer.kernels.radial import RBF
from mercer.losses import Logistic
from mercer.machines import labels, svm
from mercer.machines.neighbors import KernelKNNClassifier
from mercer.machines.parzen import ParzenClassifier
from mercer.machines.regularized import RegularizedMachine
from mercer.machines.svm import SVC, NuSVC
from mercer.native import memory
from mercer.outcomes import Certificate, together

K = multiclass.MANY + 1


def blobs(k=K, per=2, d=4, seed=0):
    rng = np.random.default_rng(seed)
    centres = 2 * rng.normal(size=(k, d))
    y = np.repeat(np.arange(k), per)
    order = rng.permutation(len(y))
    return (centres[y] + rng.normal(size=(len(y), d)))[order], y[order]


X, Y = blobs()
NEW = np.random.default_rng(1).normal(size=(50, 4)) * 2


def by_columns(machine, X):
    """The values of all pairs by the expansion that has a column for each."""
    return machine.expansion_(X)


def never(progress):
    """A callback that stops nothing."""
    return False


MACHINES = [
    SVC(gamma=0.2),
    SVC(kernel="linear", C=0.5),
    SVC(kernel=RBF(0.3), callback=never),  # one after another
    NuSVC(nu=0.5, gamma=0.2),
    SVC(gamma=0.2, break_ties=True),
]


@pytest.mark.parametrize("machine", MACHINES, ids=range(len(MACHINES)))
def test_pairs_kept_by_rival_say_what_their_columns_say(machine):
    machine = clone(machine).fit(X, Y)
    values = by_columns(machine, NEW)
    assert values.shape == (50, K * (K - 1) // 2)
    machine.decision_function_shape = "ovo"
    size = np.abs(values).max()
    assert_allclose(machine.decision_function(NEW), values, atol=1e-9 * size)
    machine.decision_function_shape = "ovr"
    clear = (np.abs(values) > 1e-9).all(axis=1)
    scores = multiclass.scores(values, K)[clear]
    assert clear.any()
    assert_allclose(machine.decision_function(NEW)[clear], scores, atol=1e-7)
    tally = scores if machine.break_ties else multiclass.votes(values, K)[clear]
    assert_array_equal(machine.predict(NEW)[clear], np.argmax(tally, axis=1))


def test_votes_are_counted_pair_by_pair():
    machine = SVC(gamma=0.2).fit(X, Y)
    f = machine._pair_function
    K_new, first = RBF(0.2)(NEW[:7], f.points), np.searchsorted(f.label, np.arange(K))
    assert first[0] == 0
    values = f(NEW[:7])
    won, column = np.zeros((7, K)), 0
    for i, j in combinations(range(K), 2):
        sums = np.full(7, f.bias[column])
        for p in np.flatnonzero(f.label == i):
            sums += f.coef[p, j - 1] * K_new[:, p]
        for p in np.flatnonzero(f.label == j):
            sums += f.coef[p, i] * K_new[:, p]
        assert_allclose(values[:, column], sums, atol=1e-12)
        won[np.arange(7), np.where(values[:, column] > 0, i, j)] += 1
        column += 1
    assert_array_equal(f.votes(NEW[:7]), won)


def test_many_classes_agree_with_scikit_learn():
    ours = SVC(gamma=0.2, tol=1e-6).fit(X, Y)
    theirs = reference.SVC(gamma=0.2, tol=1e-6).fit(X, Y)
    assert_array_equal(ours.support_, theirs.support_)
    assert_array_equal(ours.n_support_, theirs.n_support_)
    assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-4)
    assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    assert_array_equal(ours.support_vectors_, theirs.support_vectors_)
    assert ours.n_iter_.shape == theirs.n_iter_.shape
    linear = [
        m.SVC(kernel="linear", tol=1e-6).fit(X, Y).coef_ for m in (reference, svm)
    ]
    assert_allclose(linear[1], linear[0], atol=1e-3)


def test_sparse_points_and_matrices_have_many_classes_too():
    dense = SVC(gamma=0.2, tol=1e-9).fit(X, Y)
    sparse = SVC(gamma=0.2, tol=1e-9).fit(sp.csr_array(X), Y)
    matrix = SVC(kernel="precomputed").fit(RBF(0.2)(X), Y)
    for machine, points in ((sparse, sp.csr_array(NEW)), (matrix, RBF(0.2)(NEW, X))):
        assert_array_equal(machine.predict(points), dense.predict(NEW))
    assert_allclose(
        SVC(kernel="linear", tol=1e-9).fit(sp.csr_array(X), Y).coef_.toarray(),
        SVC(kernel="linear", tol=1e-9).fit(X, Y).coef_,
        atol=1e-6,
    )


def test_certificate_of_many_pairs_is_the_sum_of_its_parts():
    machine = SVC(gamma=0.2).fit(X, Y)
    whole, parts = machine.certificate_, machine.certificate_.parts
    assert len(parts) == K * (K - 1) // 2
    assert isinstance(parts[0], Certificate) and parts[-1].status == "optimal"
    again = together(tuple(parts))
    for name in ("primal", "dual", "violation", "margin"):
        assert_allclose(getattr(whole, name), getattr(again, name), rtol=1e-12)
    assert_allclose(whole.run.seconds, again.run.seconds, rtol=1e-12)
    assert (whole.n_free, whole.run.iterations) == (again.n_free, again.run.iterations)
    assert_allclose(machine.certify(X, Y).dual, whole.dual, rtol=1e-9)
    with pytest.raises(IndexError):
        parts[len(parts)]


def test_machine_of_many_classes_is_saved_and_warm_started():
    machine = SVC(gamma=0.2, tol=1e-9, warm_start=True).fit(X, Y)
    copy = pickle.loads(pickle.dumps(machine))
    assert_array_equal(copy.decision_function(NEW), machine.decision_function(NEW))
    again = copy.fit(X, Y)
    assert again.n_iter_.sum() <= 0.3 * machine.n_iter_.sum()
    assert_allclose(again.dual_coef_, machine.dual_coef_, atol=1e-6)


def test_kernel_changed_after_fit_leaves_f_alone():
    machine = SVC(kernel=RBF(0.2)).fit(X, Y)
    before = machine.predict(NEW)
    machine.set_params(kernel__gamma=9.0)
    assert_array_equal(machine.predict(NEW), before)


def test_probabilities_of_many_classes_are_those_of_each_pair(monkeypatch):
    monkeypatch.setattr(multiclass, "MANY", 8)  # of more, coefficients are by rival
    points, y = blobs(k=9, per=6)
    machine = SVC(gamma=0.2, tol=1e-9, probability=True, random_state=0)
    machine.fit(points, y)
    p = machine.predict_proba(NEW)
    assert p.shape == (50, 9)
    assert_allclose(p.sum(axis=1), 1)
    assert_array_equal(machine.classes_[p.argmax(axis=1)], machine.predict(NEW))
    # Pairs one after another, as they are solved with a callback
    slow = clone(machine).set_params(callback=lambda progress: False)
    assert_allclose(slow.fit(points, y).probA_, machine.probA_, rtol=1e-3)


def test_sigmoids_of_many_problems_are_those_of_each():
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 9, size=40)
    values = rng.normal(size=sizes.sum())
    sign = rng.choice([-1.0, 1.0], size=len(values))
    weight = rng.uniform(0.5, 2, size=len(values))
    found = calibration.sigmoids(values, sign, weight, sizes)
    ends = np.cumsum(sizes)
    for j, (end, size) in enumerate(zip(ends, sizes, strict=True)):
        own = slice(end - size, end)
        one = calibration.sigmoid(values[own], sign[own], weight[own])
        assert_allclose(found[:, j], one, rtol=1e-9)


def test_many_classes_are_searched():
    found = GridSearchCV(SVC(), {"C": [0.1, 10.0]}, cv=2).fit(X, Y)
    assert found.best_score_ > 0.1


def test_pairs_are_made_when_asked_for():
    label = Y[np.argsort(X[:, 0])]
    pairs = multiclass.Pairs(label, K)
    rows, columns = pairs.places(np.arange(len(pairs)))
    places = iter(np.split(np.column_stack([rows, columns]), np.cumsum(pairs.totals)))
    for number, (i, j) in enumerate(combinations(range(K), 2)):
        part, place = pairs[number], next(places)
        assert_array_equal(part.index, place[:, 0])
        assert_array_equal(pairs.column(number), place[:, 1])
        assert set(label[part.index[part.sign > 0]]) == {i}
        assert set(label[part.index[part.sign < 0]]) == {j}
        assert_array_equal(place[:, 1], np.where(part.sign > 0, j - 1, i))


# Too many


CLASSIFIERS = [
    entry.values[0]
    for entry in [*catalog.machines, catalog.machine(RegularizedMachine(Logistic()))]
    if is_classifier(entry.values[0])
] + [SVC(multiclass="ovr"), NuSVC(nu=1e-9, multiclass="ovr"), ParzenClassifier()]


@pytest.mark.parametrize("machine", CLASSIFIERS, ids=repr)
def test_a_class_for_every_one_of_47000_points_is_refused_at_once(machine):
    points, y = np.zeros((47_000, 2)), np.arange(47_000)
    points[:, 0] = y
    if isinstance(machine, KernelKNNClassifier):
        assert_array_equal(machine.set_params(n_neighbors=1).fit(points, y)
                           .predict(points[:99]), y[:99])  # fmt: skip
        return
    number = "1104476500 pairs of 47000 classes|each of 47000 classes"
    with pytest.raises(ValueError, match=f"{number}.*KernelKNNClassifier takes any"):
        clone(machine).fit(points, y)


def test_values_of_all_pairs_that_do_not_fit_are_refused(monkeypatch):
    machine = SVC(decision_function_shape="ovo").fit(X, Y)
    monkeypatch.setattr(memory, "available_memory", lambda: 1e5)
    with pytest.raises(MemoryError, match='decision_function_shape="ovr"'):
        machine.decision_function(NEW)
    with pytest.raises(MemoryError, match="dual_coef_"):
        machine.expansion_  # noqa: B018
    machine.predict(NEW)


def test_shares_of_neighbours_that_do_not_fit_are_refused(monkeypatch):
    machine = KernelKNNClassifier(3).fit(X, Y)
    expected = machine.predict(NEW)
    monkeypatch.setattr(labels, "LITTLE", 0.0)
    with monkeypatch.context() as little:
        little.setattr(memory, "available_memory", lambda: 1e3)
        with pytest.raises(MemoryError, match="fewer points at a time"):
            machine.predict_proba(NEW)
    monkeypatch.setattr("mercer.machines.neighbors.BLOCK_MB", 1e-3)
    assert_array_equal(machine.predict(NEW), expected)


@pytest.mark.parametrize("k", [3, K])
def test_few_and_many_classes_warn_alike(k):
    points, y = blobs(k, per=6)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SVC(max_iter=1, gamma=0.2).fit(points, y)
    assert [w.category for w in caught] == [ConvergenceWarning]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_class_of_zeros_meets_a_full_one(kernel, dtype):
    # Rows alone and panels alone, in the core; in the folds they are the only pair.
    points = np.array([[0, 0, 0], [1, 1, 1], [2, 1, 3], [3, 1, 2], [3, 3, 3]], dtype)
    y = np.array([1, 2, 2, 2, 3])
    dense, sparse = (
        SVC(kernel=kernel, gamma=1.0, probability=True, random_state=0).fit(X, y)
        for X in (points, sp.csr_array(points))
    )
    assert_allclose(sparse.dual_coef_.toarray(), dense.dual_coef_, atol=1e-6)
    assert_allclose(
        sparse.predict_proba(points), dense.predict_proba(points), atol=1e-4
    )
