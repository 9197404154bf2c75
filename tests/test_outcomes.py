"""What every machine says in the end: a class where f = 0, its run, its certificate."""

import copy
import warnings

import catalog
import numpy as np
import pytest
from looped import looped
from numpy.testing import assert_array_equal
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning

from mercer.expansion import Expansion
from mercer.multiclass import Classes
from mercer.outcomes import Certificate, Run, Status

EVERY = catalog.machines + catalog.window_machines
CLASSIFIERS = [
    entry
    for entry in catalog.machines
    if is_classifier(entry.values[0]) and hasattr(entry.values[0], "decision_function")
]
# Machines whose fit is a convex problem: an optimum can be certified.
CONVEX = {
    "KernelRidge", "SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "SVDD",
    "KernelLogisticRegression", "RegularizedMachine", "KernelQuantileRegression",
    "KernelHuberRegression", "SparseKernelClassifier", "SparseKernelRegressor",
}  # fmt: skip

rng = np.random.default_rng(5)
X = rng.normal(size=(30, 2))
THREE = np.array(["bird", "cat", "dog"])[np.arange(30) % 3]


def fitted(machine, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(machine).fit(X, y)


def targets(machine):
    return X[:, 0] if is_regressor(machine) else X[:, 0] + X[:, 1] > 0


@looped("machine", CLASSIFIERS)
def test_where_f_is_0_the_second_of_two_classes_is_predicted(machine):
    machine = fitted(machine, THREE != "dog")
    f = machine.expansion_
    for bias, expected in ((0.0, True), (-1e-300, False), (1e-300, True)):
        machine.expansion_ = Expansion(f.kernel, f.points, np.zeros(len(f.coef)), bias)
        signs = np.sign(machine.decision_function(X))  # RVC's f is moderated
        assert_array_equal(signs, np.full(30, np.sign(bias)))
        assert_array_equal(machine.predict(X), np.full(30, expected))


def outside(machine):
    """Values of f for each pair of classes, or for each class against the rest."""
    scheme = getattr(machine, "multiclass", "ovr")
    if scheme == "ovo":
        machine = copy.copy(machine).set_params(decision_function_shape="ovo")
    return scheme, machine.decision_function(X)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize("machine", CLASSIFIERS)
def test_the_winner_of_several_classes_is_that_of_one_rule(machine, scheme):
    machine = clone(machine)
    if hasattr(machine, "multiclass"):
        machine.set_params(multiclass=scheme)
    machine = fitted(machine, THREE)
    scheme, values = outside(machine)
    expected = Classes(machine.classes_, scheme).chosen(values)
    assert_array_equal(machine.predict(X), expected)


def test_of_equal_votes_and_scores_the_first_class_wins():
    names = np.array(["a", "b", "c"])
    # a beats b, b beats c, c beats a; then f = 0 throughout: the second of each pair.
    pairs = np.array([[1.0, -1.0, 1.0], [0.0, 0.0, 0.0]])
    assert Classes(names, "ovo").chosen(pairs).tolist() == ["a", "c"]
    assert Classes(names).chosen(np.array([[0.0, 2, 2], [0, 0, 0]])).tolist() == [
        "b",
        "a",
    ]


@looped("machine", EVERY)
def test_every_machine_has_a_run_with_a_status(machine):
    machine = fitted(machine, targets(machine))
    assert isinstance(machine.run_, Run)
    assert isinstance(machine.run_.status, Status)
    assert machine.run_.seconds >= 0


@looped("machine", EVERY)
def test_a_convex_problem_has_a_certificate_of_the_same_run(machine):
    machine = fitted(machine, targets(machine))
    assert hasattr(machine, "certificate_") == (type(machine).__name__ in CONVEX)
    if type(machine).__name__ in CONVEX:
        assert isinstance(machine.certificate_, Certificate)
        assert machine.certificate_.run == machine.run_
        assert machine.certificate_.status == machine.run_.status == "optimal"
        assert machine.certificate_.dual <= machine.certificate_.primal
