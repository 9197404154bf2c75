"""Words for kernels: scikit-learn's meaning in its drop-ins, their own elsewhere."""

import catalog
import numpy as np
import pytest
from looped import looped
from numpy.testing import assert_allclose
from sklearn.base import clone

from mercer import (
    RBF,
    SVC,
    SVDD,
    SVR,
    ChiSquared,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelPCA,
    KernelRidge,
    Laplacian,
    Linear,
    NuSVC,
    NuSVR,
    OneClassSVM,
    Polynomial,
)
from mercer.kernels.ways import BlockFunction

DROP_INS = (SVC, NuSVC, SVR, NuSVR, OneClassSVM, SVDD, KernelRidge, KernelPCA)
DROP_INS += (GaussianProcessClassifier, GaussianProcessRegressor)
X = np.abs(np.random.default_rng(0).normal(size=(40, 3))) + 0.1
Y = np.arange(40) % 2
OTHERS = [
    entry for entry in catalog.machines if not isinstance(entry.values[0], DROP_INS)
]
MEANT = {
    "rbf": RBF(),
    "linear": Linear(),
    "poly": Polynomial(3),
    "laplacian": Laplacian(),
    "chi2": ChiSquared(),
}


def block(A, B):
    return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(-1))


def said(machine, kernel):
    """What a machine with this kernel says of its points, as numbers."""
    machine = clone(machine).set_params(kernel=kernel)
    if "random_state" in machine.get_params():
        machine.set_params(random_state=0)
    machine.fit(X, Y)
    for name in ("decision_function", "transform", "predict_proba", "predict"):
        if hasattr(machine, name):
            return np.asarray(getattr(machine, name)(X), dtype=float)
    raise AssertionError("a machine that says nothing")


@pytest.mark.filterwarnings("ignore")
@looped("word", MEANT)
@looped("machine", OTHERS)
def test_a_word_is_the_kernel_of_that_name_with_its_defaults(machine, word):
    assert_allclose(said(machine, word), said(machine, MEANT[word]), rtol=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("machine", OTHERS)
def test_no_kernel_is_the_gaussian(machine):
    assert_allclose(said(machine, None), said(machine, "rbf"), rtol=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("machine", OTHERS)
def test_a_function_gives_the_matrix_of_two_sets_of_points(machine):
    assert_allclose(said(machine, block), said(machine, BlockFunction(block)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("machine", [KernelRidge(), KernelPCA(2)], ids=repr)
def test_ridge_and_components_call_a_function_on_pairs(machine):
    def pair(a, b):
        return float(np.exp(-0.5 * ((a - b) ** 2).sum()))

    found, expected = said(machine, pair), said(machine, RBF(0.5))
    assert_allclose(np.abs(found), np.abs(expected), rtol=1e-7, atol=1e-9)


def test_the_scale_of_a_word_is_that_of_scikit_learn_in_drop_ins():
    svc = SVC(kernel="rbf").fit(X, Y).expansion_.kernel
    assert_allclose(svc.gamma, 1 / (3 * X.var()))
    ridge = KernelRidge(kernel="rbf").fit(X, Y).expansion_.kernel
    assert_allclose(ridge.gamma, 1 / 3)
