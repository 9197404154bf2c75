"""add and remove: the machine is that of a fit on the points that are there."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, make_moons

from mercer import (
    RBF,
    SVC,
    SVDD,
    SVR,
    KernelRidge,
    Linear,
    MultipleKernel,
    NuSVC,
    NuSVR,
    Nystrom,
    OneClassSVM,
    Spectrum,
    load,
    save,
)
from mercer.gram import Gram
from mercer.solvers.update import RowStore

N = 120
LEFT = [3, 50, 99, 17, 119, 4]
X, LABEL = make_moons(N, noise=0.3, random_state=0)
NUMBER = X[:, 0] ** 2 + 0.1 * np.random.default_rng(0).normal(size=N)
PAIR = np.column_stack([NUMBER, np.abs(X[:, 1])])
IRIS, KIND = load_iris(return_X_y=True)
_ORDER = np.random.default_rng(0).permutation(len(KIND))[:N]
IRIS, KIND = IRIS[_ORDER], KIND[_ORDER]

CASES = {
    "two classes": (SVC(), X, LABEL),
    "no bias": (SVC(fit_intercept=False), X, LABEL),
    "weights of classes": (SVC(class_weight={0: 1.0, 1: 4.0}), X, LABEL),
    "pairs of classes": (SVC(decision_function_shape="ovo"), IRIS, KIND),
    "one against the rest": (SVC(multiclass="ovr"), IRIS, KIND),
    "regression": (SVR(C=5.0, epsilon=0.05), X, NUMBER),
    "two targets": (SVR(epsilon=0.05), X, PAIR),
    "one class": (OneClassSVM(nu=0.3), X, None),
    "share of errors": (NuSVC(nu=0.4), X, LABEL),
    "share outside the tube": (NuSVR(nu=0.4), X, NUMBER),
    "ridge": (KernelRidge(0.1), X, NUMBER),
    "ridge of two targets": (KernelRidge([0.1, 2.0]), X, PAIR),
}


def machine_of(name, tol=1e-9, **options):
    machine = CASES[name][0]
    known = machine.get_params() | {"kernel": RBF(0.7)} | options
    if "tol" in known:
        known["tol"] = tol
    return type(machine)(**known)


def taken(y, index):
    return None if y is None else y[index]


def values(machine, points):
    name = "decision_function" if hasattr(machine, "decision_function") else "predict"
    return getattr(machine, name)(points)


def fitted(name, index, first):
    """A fit on these points; ν asks for as much as it did of the first."""
    machine, points, y = machine_of(name), CASES[name][1], CASES[name][2]
    if hasattr(machine, "nu"):
        machine.nu = machine.nu * first / len(index)
    return machine.fit(points[index], taken(y, index))


@pytest.mark.parametrize("name", CASES)
def test_machines_that_grow_and_shrink_are_those_of_fits(name):
    _, points, y = CASES[name]
    everything = np.arange(N)
    machine = machine_of(name).add(points[:90], taken(y, slice(90)))
    assert_allclose(
        values(machine, points),
        values(fitted(name, everything[:90], 90), points),
        atol=1e-7,
    )
    machine.add(points[90:91], taken(y, slice(90, 91)))
    machine.add(points[91:], taken(y, slice(91, N)))
    whole = fitted(name, everything, 90)
    assert_allclose(values(machine, points), values(whole, points), atol=1e-7)
    rest = np.delete(everything, LEFT)
    machine.remove(LEFT)
    fewer = fitted(name, rest, 90)
    assert_allclose(values(machine, points), values(fewer, points), atol=1e-7)
    found, known = machine.certificate_, fewer.certificate_
    assert found.status == "optimal"
    assert_allclose(found.dual, known.dual, rtol=1e-7)
    if hasattr(machine, "support_"):
        assert_allclose(
            machine.dual_coef_ @ points[rest][machine.support_],
            fewer.dual_coef_ @ points[rest][fewer.support_],
            atol=1e-6,
        )


@pytest.mark.parametrize("name", CASES)
def test_tol_is_kept_from_change_to_change(name):
    _, points, y = CASES[name]
    machine = machine_of(name, tol=1e-3).add(points[:100], taken(y, slice(100)))
    for i in range(100, 110):
        machine.add(points[i : i + 1], taken(y, slice(i, i + 1)))
        machine.remove(0)
        assert machine.certificate_.status == "optimal"
    if hasattr(machine, "certify") and not hasattr(machine, "nu"):
        again = machine.certify(points[10:110], taken(y, slice(10, 110)))
        assert again.violation < 2e-3


def test_only_rows_of_what_moves_are_computed():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(3001, 4))
    y = (points[:, 0] + 0.5 * rng.normal(size=3001) > 0).astype(int)
    machine = SVC().add(points[:-1], y[:-1])
    rows = SVC().fit(points, y).run_.rows
    machine.add(points[-1:], 1 - y[-1:])  # on the wrong side
    assert machine.run_.rows <= 0.05 * rows


@pytest.mark.parametrize(
    "name", ["two classes", "pairs of classes", "one against the rest", "regression"]
)
def test_leave_one_out_is_that_of_fits(name):
    _, points, y = CASES[name]
    points, y = points[:40], taken(y, slice(40))
    machine = machine_of(name).add(points, y)
    before = values(machine, points)
    found = machine.leave_one_out()
    expected = [
        machine_of(name)
        .fit(np.delete(points, i, axis=0), np.delete(y, i))
        .predict(points[i : i + 1])[0]
        for i in range(40)
    ]
    if name == "regression":
        assert_allclose(found, expected, atol=1e-7)
    else:
        assert found.tolist() == expected
    assert_allclose(values(machine, points), before)


def test_a_class_of_one_point_is_missed_when_it_is_left_out():
    points = np.array([[0.0], [0.1], [0.2], [3.0]])
    machine = SVC(kernel=RBF(1.0)).add(points, ["a", "a", "a", "b"])
    assert machine.leave_one_out().tolist() == ["a", "a", "a", "a"]


def test_strings_come_and_go():
    words = ["abab", "baba", "abba", "ccdc", "dcdc", "cdda", "abcd"]
    y = [0, 0, 0, 1, 1, 1, 0]
    machine = SVC(kernel=Spectrum(2), tol=1e-9).add(words[:5], y[:5])
    machine.add(words[5:], y[5:]).remove(1)
    rest, left = words[:1] + words[2:], y[:1] + y[2:]
    expected = SVC(kernel=Spectrum(2), tol=1e-9).fit(rest, left)
    assert_allclose(
        machine.decision_function(words), expected.decision_function(words), atol=1e-8
    )


@pytest.mark.parametrize("name", ["two classes", "ridge"])
def test_weights_come_with_points(name):
    _, points, y = CASES[name]
    weight = np.random.default_rng(1).uniform(0.5, 2, N)
    machine = machine_of(name).add(points[:80], y[:80], weight[:80])
    machine.add(points[80:], y[80:], weight[80:])
    expected = machine_of(name).fit(points, y, weight)
    assert_allclose(values(machine, points), values(expected, points), atol=1e-7)


@pytest.mark.parametrize("name", ["pairs of classes", "ridge"])
def test_machines_go_on_after_pickling(name):
    _, points, y = CASES[name]
    machine = machine_of(name).add(points[:100], y[:100])
    machine.add(points[100:101], y[100:101])
    again = pickle.loads(pickle.dumps(machine)).add(points[101:], y[101:])
    machine.add(points[101:], y[101:])
    assert_allclose(values(again, points), values(machine, points), atol=1e-8)


@pytest.mark.parametrize("name", ["two classes", "ridge"])
def test_model_files_hold_what_predictions_need(name, tmp_path):
    _, points, y = CASES[name]
    machine = machine_of(name).add(points[:100], y[:100]).add(points[100:], y[100:])
    save(machine, tmp_path / "machine.mercer")
    again = load(tmp_path / "machine.mercer")
    assert_allclose(values(again, points), values(machine, points), rtol=1e-12)


@pytest.mark.parametrize("name", ["two classes", "ridge"])
def test_an_interrupted_add_leaves_the_machine_as_it_was(name, monkeypatch):
    _, points, y = CASES[name]
    machine = machine_of(name).add(points[:100], y[:100])
    before = values(machine, points)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(machine), "_learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            machine.add(points[100:], y[100:])
        with pytest.raises(KeyboardInterrupt):
            machine.remove(0)
    assert_allclose(values(machine, points), before, rtol=0)
    machine.add(points[100:], y[100:])
    expected = machine_of(name).fit(points, y)
    assert_allclose(values(machine, points), values(expected, points), atol=1e-7)


@pytest.mark.parametrize("name", ["two classes", "regression", "one class", "ridge"])
def test_points_that_are_not_there_cannot_leave(name):
    _, points, y = CASES[name]
    machine = machine_of(name).add(points[:20], taken(y, slice(20)))
    with pytest.raises(IndexError, match="there is no point 20"):
        machine.remove(20)
    with pytest.raises(TypeError, match="the number of a point"):
        machine.remove(1.5)
    with pytest.raises(ValueError, match=r"twice: \[1, 1\]. Name each once"):
        machine.remove([1, 1])
    with pytest.raises(ValueError, match="no point"):
        machine.remove(np.arange(20))


def test_what_cannot_be_added_is_named():
    machine = SVC(kernel=RBF(1.0)).add(X[:20], LABEL[:20])
    with pytest.raises(ValueError, match="knows the classes"):
        machine.add(X[:1], [7])
    with pytest.raises(ValueError, match="2 features"):
        machine.add(np.ones((1, 3)), [0])
    with pytest.raises(TypeError, match=r"of the type that the machine has.*Bring"):
        machine.add(["abc"], [0])
    with pytest.raises(ValueError, match="weights > 0"):
        machine.add(X[:2], [0, 1], [1.0, 0.0])
    words = SVC(kernel=Spectrum(2)).add(["ab", "cd"], [0, 1])
    with pytest.raises((ValueError, TypeError)):
        words.add(np.ones((1, 2)), [0])
    with pytest.raises(ValueError, match="last point of class 1"):
        words.remove(1)
    assert words.predict(["ab"]).tolist() == [0]


def test_fits_without_points_say_how_to_begin():
    machine = SVC().fit(X, LABEL)
    for change in (lambda: machine.add(X, LABEL), lambda: machine.remove(0)):
        with pytest.raises(ValueError, match="Begin with"):
            change()
    with pytest.raises(ValueError, match="precomputed"):
        SVC(kernel="precomputed").add(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="finite C"):
        SVC(C=np.inf).add(X, LABEL)
    with pytest.raises(ValueError, match="probability"):
        SVC(probability=True).add(X, LABEL)
    with pytest.raises(ValueError, match="SVDD"):
        SVDD().add(X)
    several = MultipleKernel([RBF(1.0), Linear()])
    with pytest.raises(ValueError, match="weights=fitted"):
        SVC(kernel=several).add(X, LABEL)
    fitted = SVC(kernel=several).fit(X, LABEL)
    fixed = MultipleKernel([RBF(1.0), Linear()], weights=fitted.kernel_weights_)
    assert SVC(kernel=fixed).add(X, LABEL).add(X[:1], LABEL[:1]).run_.rows > 0
    ridge = KernelRidge(kernel=Nystrom(RBF(1.0), 5)).fit(X, NUMBER)
    with pytest.raises(ValueError, match="Nystrom"):
        ridge.add(X[:1], NUMBER[:1])


def test_nu_that_asks_too_much_of_the_points_that_are_left_is_refused():
    machine = NuSVC(nu=0.9, kernel=RBF(1.0)).add(X[:20], LABEL[:20])
    before = machine.decision_function(X)
    with pytest.raises(ValueError, match="cannot bear"):
        machine.remove(np.flatnonzero(LABEL[:20] == 1)[:-1])
    assert_allclose(machine.decision_function(X), before, rtol=0)


def test_squares_of_rows_are_kernel_values_whatever_was_asked_before():
    random, kernel = np.random.default_rng(0), RBF(0.7)
    store, K = RowStore(Gram(kernel, X)), kernel(X)
    store.hold(np.arange(0, N, 2))
    for size in (20, 50, 50, 5, 80):
        points = np.sort(random.choice(N, size, replace=False))
        square = store.square(points)
        assert_allclose(square, K[np.ix_(points, points)], rtol=1e-12)
        assert np.array_equal(square, square.T)
