"""docs/departures.md: what differs from scikit-learn does so as the page says."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm as reference
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import (
    ConvergenceWarning,
    NotFittedError,
    PositiveSpectrumWarning,
)

from mercer import KernelPCA, KernelRidge
from mercer.kernels.radial import RBF
from mercer.machines import svm
from mercer.machines.svm import SVC, SVR, NuSVC, OneClassSVM
from mercer.solvers.smo import SMO

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.arange(40) % 2
WEIGHT = RNG.uniform(0.1, 3, size=40)


def values(module, X, y, weight=None, name="SVC", **parameters):
    machine = getattr(module, name)(tol=1e-6, **parameters)
    return machine.fit(X, y, weight).decision_function(X)


def test_scale_of_gamma_is_weighted_and_a_number_gives_scikit_learn_s():
    share = WEIGHT[:, None] / WEIGHT.sum() / 3
    variance = np.sum(share * X**2) - np.sum(share * X) ** 2
    ours = values(svm, X, Y, WEIGHT)
    assert_allclose(ours, values(svm, X, Y, WEIGHT, gamma=1 / (3 * variance)))
    theirs = values(reference, X, Y, WEIGHT)
    assert not np.allclose(ours, theirs, atol=1e-3)
    assert_allclose(
        values(svm, X, Y, WEIGHT, gamma=1 / (3 * X.var())), theirs, atol=1e-4
    )


def test_class_weight_of_nu_svc_counts():
    ours, theirs = (
        [
            values(module, X, Y, name="NuSVC", nu=0.3, class_weight=factors)
            for factors in (None, {0: 3.0})
        ]
        for module in (svm, reference)
    )
    assert_allclose(theirs[0], theirs[1])
    assert not np.allclose(ours[0], ours[1], atol=1e-2)
    weight = np.where(Y == 0, 3.0, 1.0)
    gamma = 1 / (3 * X.var())
    assert_allclose(
        ours[1], values(svm, X, Y, weight, "NuSVC", nu=0.3, gamma=gamma), atol=1e-9
    )


def test_class_without_weight_is_absent():
    y = np.arange(40) % 3
    for machine in (SVC(), NuSVC(nu=0.3)):
        assert machine.fit(X, y, y > 0).classes_.tolist() == [1, 2]


def test_sparse_points_are_taken_where_scikit_learn_refuses_them():
    K = RBF(0.5)(X)
    matrix = SVC(kernel="precomputed").fit(sp.csr_array(K), Y)
    dense = SVC(gamma=0.5).fit(X, Y)
    assert_allclose(matrix.decision_function(K), dense.decision_function(X), atol=1e-9)
    assert_array_equal(dense.predict(sp.csr_array(X)), dense.predict(X))


def test_function_is_asked_for_support_vectors_alone():
    asked = []

    def kernel(A, B):
        asked.append((len(A), len(B)))
        return A @ B.T

    machine = SVC(kernel=kernel).fit(X, Y)
    asked.clear()
    machine.predict(X[:5])
    assert asked == [(5, len(machine.support_))]
    assert len(machine.support_) < 40


def test_nothing_is_deprecated_and_private_attributes_are_absent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        machine = SVC(probability=True).fit(X, Y)
        assert len(machine.probA_) == len(machine.probB_) == 1
    for name in ("_dual_coef_", "_gamma", "_n_support", "_probA", "_intercept_"):
        assert not hasattr(machine, name)
    with pytest.raises(AttributeError, match=r"setter|can't set"):
        machine.dual_coef_ = 1


def test_probabilities_agree_with_predict():
    machine = SVC(probability=True, random_state=0).fit(X, Y)
    winners = machine.predict_proba(X).argmax(axis=1)
    assert_array_equal(machine.classes_[winners], machine.predict(X))


def test_points_on_the_boundary_are_inside():
    machine = OneClassSVM(nu=0.3).fit(X)
    assert np.mean(machine.predict(X) < 0) <= 0.3


def test_a_singular_ridge_is_the_least_squares_of_the_weights():
    with pytest.warns(ConvergenceWarning, match="Singular matrix"):
        machine = KernelRidge(alpha=0, kernel="linear").fit(X, Y)
    w = np.linalg.lstsq(X, Y.astype(float), rcond=None)[0]
    assert_allclose(machine.predict(X), X @ w, atol=1e-6)


def test_ridge_and_components_take_sparse_matrices_and_keep_points_of_their_own():
    K = RBF(0.5)(X)
    for machine in (KernelRidge(kernel="precomputed"),
                    KernelPCA(2, kernel="precomputed")):  # fmt: skip
        assert machine.fit(sp.csr_array(K), Y).X_fit_.shape == (40, 40)
    assert not np.shares_memory(KernelRidge(kernel="rbf").fit(X, Y).X_fit_, X)
    with pytest.raises(ValueError, match="Negative values"):
        KernelRidge().fit(X, Y, -WEIGHT)


def test_components_of_an_indefinite_matrix_are_given_with_a_warning():
    spectrum = np.r_[5.0, 4.0, np.full(37, 0.1), -1.0]
    basis = np.linalg.qr(RNG.normal(size=(40, 40)))[0]
    with pytest.warns(PositiveSpectrumWarning, match="no kernel on these points"):
        KernelPCA(2, kernel="precomputed").fit(basis * spectrum @ basis.T)


def test_coordinates_have_a_preimage_without_a_regression():
    machine = KernelPCA(2, kernel=RBF(0.5)).fit(X)
    assert machine.inverse_transform(machine.transform(X[:2])).shape == (2, 3)
    with pytest.raises(NotFittedError):
        KernelPCA(2, kernel="rbf").fit(X).inverse_transform(np.zeros((1, 2)))


def test_a_machine_has_no_parameters_of_other_machines():
    for machine, name in ((SVC(), "nu"), (NuSVC(), "C"), (SVR(), "class_weight")):
        assert not hasattr(machine, name)


def test_further_departures():
    single = X.astype(np.float32)
    assert SVC().fit(single, Y).support_vectors_.dtype == np.float32
    assert SVR().fit(X, X[:, :2]).predict(X).shape == (40, 2)
    assert SVC(kernel="laplacian").fit(X, Y).fit_status_ == 0
    fine = SVC(tol=0.1).fit(X, Y).certificate_.violation
    assert fine < 1e-9 < SVC(solver=SMO(tol=0.1)).fit(X, Y).certificate_.violation
