"""Classes as machines are given them, their weights, and the words of refusals."""

import warnings

import catalog
import numpy as np
import pytest
import sklearn.svm as reference
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from mercer.kernels.radial import RBF
from mercer.losses import Logistic
from mercer.machines.kmeans import KernelKMeans
from mercer.machines.parzen import ParzenClassifier
from mercer.machines.regularized import KernelLogisticRegression, RegularizedMachine
from mercer.machines.sgd import KernelSGDClassifier
from mercer.machines.sparse import SparseKernelClassifier
from mercer.machines.svm import SVC, SVR, NuSVC, NuSVR
from mercer.solvers.smo import SMO

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
CLASSES = np.arange(30) % 3
CLASSIFIERS = [
    entry
    for entry in [*catalog.machines, catalog.machine(RegularizedMachine(Logistic()))]
    if is_classifier(entry.values[0])
]
WEIGHTED = [SVC(), NuSVC(nu=0.1), KernelLogisticRegression(), SparseKernelClassifier()]


def with_one(value):
    y = CLASSES.astype(str).astype(object)
    y[3] = value
    return y


@looped("machine", CLASSIFIERS)
@looped("value", [None, np.nan, 1, b"a", (1, 2)], ids=repr)
def test_classes_of_two_kinds_are_refused_by_their_place(machine, value):
    said = "all numbers or all strings; point 3 has|contains NaN|y.3. is missing"
    with pytest.raises(ValueError, match=said):
        clone(machine).fit(X, with_one(value))


@looped("machine", CLASSIFIERS)
def test_measurements_are_no_classes(machine):
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        clone(machine).fit(X, X[:, 0])


@pytest.mark.parametrize("machine", CLASSIFIERS)
@pytest.mark.parametrize("names", [list("abc"), [2.0, 5.0, 7.0], [False, True]])
def test_classes_may_have_any_names(machine, names):
    label = CLASSES % len(names)
    y = np.array(names)[label]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        objects = y.astype(object) if y.dtype.kind == "U" else y
        named, plain = clone(machine).fit(X, objects), clone(machine).fit(X, label)
    assert_array_equal(named.predict(X), np.array(names)[plain.predict(X)])


@looped("machine", CLASSIFIERS)
def test_numbers_that_are_objects_are_refused_with_the_way_out(machine):
    with pytest.raises(ValueError, match=r"Unknown label type.*pass y.astype\(int\)"):
        clone(machine).fit(X, CLASSES.astype(object))


@looped("machine", WEIGHTED, ids=lambda m: type(m).__name__)
@looped("factor", [np.inf, np.nan, -1.0, "a", None], ids=repr)
def test_class_weights_are_numbers_from_zero(machine, factor):
    machine = clone(machine).set_params(class_weight={0: 1.0, 1: factor})
    with pytest.raises(ValueError, match=r"finite numbers ≥ 0. Got .* for the class 1"):
        machine.fit(X, CLASSES)


@looped("machine", WEIGHTED, ids=lambda m: type(m).__name__)
def test_class_weights_of_other_classes_are_refused(machine):
    machine = clone(machine).set_params(class_weight={"0": 1.0, 1: 2.0})
    with pytest.raises(ValueError, match=r"\['0'\], of class_weight are not in y"):
        machine.fit(X, CLASSES)
    machine.set_params(class_weight={0: 1.0, 1: 2.0, 2: 1.0, 3: 5.0})
    machine.fit(X, CLASSES)  # 3 may be the class of another fold


@looped(
    "machine, weight",
    [
        (SVC(C=1e300, class_weight={0: 1e10, 1: 1e10}), None),
        (SVC(C=1e300), np.full(30, 1e90)),
        (SVR(C=1e300), np.full(30, 1e90)),
        (NuSVR(C=1e300), np.full(30, 1e90)),
    ],
    ids=lambda m: type(m).__name__,
)
def test_prices_beyond_the_largest_number_are_refused(machine, weight):
    with pytest.raises(ValueError, match="beyond the largest number"):
        machine.fit(X, CLASSES % 2, weight)


def test_balanced_counts_rows_as_scikit_learn_does():
    y = np.repeat([0, 1, 2], [5, 10, 15])
    weight = RNG.integers(0, 3, size=30).astype(float)
    ours = SVC(class_weight="balanced").fit(X, y, weight)
    theirs = reference.SVC(class_weight="balanced").fit(X, y, weight)
    assert_allclose(ours.class_weight_, theirs.class_weight_)
    gamma = SVC(gamma=0.3, class_weight="balanced", tol=1e-6).fit(X, y, weight)
    other = reference.SVC(gamma=0.3, class_weight="balanced", tol=1e-6)
    values = other.fit(X, y, weight).decision_function(X)
    assert_allclose(gamma.decision_function(X), values, atol=1e-4)


# NuSVC


def feasible(machine, X, y, weight):
    try:
        machine.fit(X, y, weight)
    except ValueError as error:
        assert "specified nu is infeasible" in str(error)
        return False
    return True


@pytest.mark.parametrize("seed", range(5))
def test_nu_is_refused_where_libsvm_refuses_it(seed):
    rng = np.random.default_rng(seed)
    points, y = rng.normal(size=(40, 2)), rng.integers(0, 3, size=40)
    weight = rng.uniform(0.1, 3, size=40)
    for nu in (0.2, 0.4, 0.6, 0.8, 1.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for given in (None, weight):
                ours = feasible(NuSVC(nu=nu), points, y, given)
                theirs = feasible(reference.NuSVC(nu=nu), points, y, given)
                assert ours == theirs


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_the_largest_nu_named_is_feasible_and_more_is_not(scheme):
    y = np.repeat([0, 1, 2], [5, 10, 15])
    with pytest.raises(ValueError, match="needs nu ≤ ") as refused:
        NuSVC(nu=1.0, multiclass=scheme).fit(X, y)
    most = float(str(refused.value).split("nu ≤ ")[1].split(",")[0])
    assert most == (0.5 if scheme == "ovo" else pytest.approx(0.3333))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        NuSVC(nu=most, multiclass=scheme).fit(X, y)
        NuSVC(nu=1.0, class_weight="balanced").fit(X, y)
    with pytest.raises(ValueError, match="specified nu is infeasible"):
        NuSVC(nu=most * 1.001, multiclass=scheme).fit(X, y)


def test_class_weights_that_make_nu_infeasible_are_said():
    machine = NuSVC(nu=0.5, class_weight={0: 0.1})
    with pytest.warns(UserWarning, match="nu ≤ 0.1818.*This comes of class_weight"):
        machine.fit(X, CLASSES)
    inside = machine.decision_function(X[CLASSES == 0])
    assert len(machine.support_) >= np.sum(CLASSES == 0) and np.isfinite(inside).all()


@pytest.mark.parametrize("machine", [SVC(), SVC(multiclass="ovr"), NuSVC()], ids=repr)
def test_one_class_left_by_the_weights_is_refused(machine):
    reason = "infeasible" if isinstance(machine, NuSVC) else "Invalid input - all"
    with pytest.raises(ValueError, match=reason):
        machine.fit(X, CLASSES, CLASSES == 1)
    with pytest.raises(ValueError, match=reason):
        clone(machine).set_params(class_weight={0: 0, 1: 1, 2: 0}).fit(X, CLASSES)


# Words


def test_probabilities_that_were_not_asked_for_say_how():
    machine = SVC().fit(X, CLASSES)
    with pytest.raises(AttributeError, match="Set probability=True before fit"):
        machine.predict_proba(X)
    with pytest.raises(AttributeError, match="Set probability=True before fit"):
        machine.predict_log_proba(X)
    assert not hasattr(machine, "predict_proba")
    machine.probability = True
    with pytest.raises(NotFittedError, match="fit again"):
        machine.predict_proba(X)
    p = machine.fit(X, CLASSES).predict_proba(X)
    assert_allclose(SVC.predict_proba(machine, X), p)


@looped(
    "machine, method, reason",
    [
        (KernelSGDClassifier("hinge"), "predict_proba", "logistic loss"),
        (KernelSGDClassifier(kernel="precomputed"), "partial_fit", "needs points"),
        (ParzenClassifier(method="mean"), "predict_proba", "method='density'"),
        (RegularizedMachine(), "decision_function", "predict gives f"),
        (KernelKMeans(kernel="precomputed"), "transform", "k\\(x, x\\)"),
    ],
    ids=lambda m: type(m).__name__,
)
def test_a_method_that_is_missing_says_why(machine, method, reason):
    with pytest.raises(AttributeError, match=f"no attribute '{method}': .*{reason}"):
        getattr(machine, method)


HARD = RNG.normal(size=(200, 2)), np.arange(200) % 2


def told(machine, X, y):
    with pytest.warns(ConvergenceWarning) as caught:
        machine.fit(X, y)
    return str(caught[0].message)


def test_only_max_iter_speaks_of_max_iter():
    ended = told(SVC(max_iter=3), *HARD)
    assert "Solver terminated early (max_iter=3)." in ended
    assert "(max_iter=3)" in told(SVC(solver=SMO(max_iter=3)), *HARD)
    stopped = told(SVC(callback=lambda progress: True), *HARD)
    assert "callback" in stopped and "max_iter" not in stopped
    late = told(SVC(C=1e6, solver=SMO(time_limit=1e-9)), *HARD)
    assert "time_limit" in late and "max_iter" not in late


@pytest.mark.parametrize("machine", [SVC(), SVR(), NuSVC()], ids=repr)
def test_a_stall_is_called_one(machine):
    class Stalled:
        """SMO that ends in a stall."""

        tol = 1e-3

        def solve(self, problem, **rest):
            found = SMO(max_iter=2).solve(problem, **rest)
            return found.ended("stalled")

    said = told(clone(machine).set_params(solver=Stalled()), *HARD)
    assert "rounding" in said and "max_iter" not in said and "violation" in said


def test_an_infinite_price_is_refused_where_it_fixes_nothing():
    with pytest.raises(ValueError, match=r"finite C.*SVR\(C=inf"):
        NuSVR(C=np.inf).fit(X, X[:, 0])
    said = told(SVR(C=np.inf, kernel="linear", epsilon=0.0, max_iter=999), *HARD)
    assert "with a finite C always" in said


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_points_near_the_largest_number_are_refused_in_scikit_learn_s_words():
    far = np.finfo(float).max * RNG.uniform(size=(10, 2))
    for machine in (SVC(), reference.SVC()):
        with pytest.raises(ValueError, match="intercepts are not finite"):
            machine.fit(far, np.arange(10) % 2)


def test_words_of_choices_are_named():
    for name in ("decision_function_shape", "multiclass"):
        with pytest.raises(ValueError, match=f"'{name}' parameter of SVC must be.*'ov"):
            SVC(kernel=RBF(), **{name: "one"}).fit(X, CLASSES)
