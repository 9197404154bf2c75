"""Labels by what a solve left are those of `predict`."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

from mercer import SVC, NuSVC
from mercer.search.answers import SAMPLE, answering, leaves_open
from mercer.solvers.held_rows import HeldRows, Offer, searching

X, y = make_classification(1800, 8, flip_y=0.1, class_sep=0.3, random_state=3)
TRAIN, TEST = np.arange(1200), np.arange(1200, 1800)


def fitted(machine):
    kernel = machine._resolved(X, None)
    rows = HeldRows(kernel, X, np.empty((len(X), len(X)), np.float32))
    offer = Offer(rows, TRAIN)
    with searching(offer):
        machine.fit(X[TRAIN], y[TRAIN])
    return machine, offer


@pytest.fixture
def summed(monkeypatch):
    """How many points f was summed at in double."""
    counts = []
    plain = SVC._values

    def counting(self, X):
        counts.append(len(X))
        return plain(self, X)

    monkeypatch.setattr(SVC, "_values", counting)
    return counts


@pytest.mark.parametrize("C, gamma", [(1e-3, 1e-3), (1, 0.1), (1e3, 0.1), (10, 3.0)])
def test_labels_by_the_rows_of_a_solve_are_those_of_predict(C, gamma, summed):
    machine, offer = fitted(SVC(C=C, gamma=gamma))
    test = X[TEST]
    able = answering(machine, offer, TEST, test)
    assert able is not machine
    assert SAMPLE <= sum(summed) < len(TEST) / 2
    summed.clear()
    assert able.score(test, y[TEST]) == machine.score(test, y[TEST])
    assert summed == [len(TEST)]  # by the machine itself
    np.testing.assert_array_equal(able.predict(test), machine.predict(test))
    np.testing.assert_array_equal(able.predict(X[:7]), machine.predict(X[:7]))


def test_values_that_are_off_by_much_are_found_out():
    machine, offer = fitted(SVC(C=10, gamma=0.1))
    f = machine.decision_function(X[TEST])
    noise = np.random.default_rng(0).normal(size=len(X))
    offer.left.function[:] += 0.2 * np.median(np.abs(f)) * noise
    test = X[TEST]
    wrong = machine.classes_[(offer.left.function[TEST] + machine.intercept_ > 0) * 1]
    assert (wrong != machine.predict(test)).any()
    able = answering(machine, offer, TEST, test)
    np.testing.assert_array_equal(able.predict(test), machine.predict(test))


def test_what_is_of_another_fit_is_not_asked():
    machine, offer = fitted(SVC(C=10, gamma=0.1))
    test = X[TEST]
    machine.set_params(C=1).fit(X[TRAIN], y[TRAIN])
    assert answering(machine, offer, TEST, test) is machine
    assert answering(machine, None, TEST, test) is machine
    scaled, offer = fitted(NuSVC(nu=0.5, gamma=0.1))
    assert answering(scaled, offer, TEST, test) is scaled


def test_decision_values_are_summed_in_double():
    machine, offer = fitted(SVC(C=10, gamma=0.1))
    test = X[TEST]
    able = answering(machine, offer, TEST, test)
    np.testing.assert_array_equal(
        able.decision_function(test), machine.decision_function(test)
    )


def test_a_label_is_open_where_f_is_within_tol():
    machine, offer = fitted(SVC(C=10, gamma=0.1))
    size = np.abs(machine.decision_function(X[TEST]))
    machine.set_params(tol=1e-2)
    assert leaves_open(machine, offer, TEST[size <= 9e-3])
    assert not leaves_open(machine, offer, TEST[size > 1.1e-2])
    assert leaves_open(machine, None, TEST)
