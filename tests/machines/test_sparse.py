"""L1 machines: scikit-learn's answers on the same matrix, and what they add to them."""

import os
import pickle
import re
import warnings
from pathlib import Path

import catalog
import numpy as np
import pytest
import scipy.sparse as sp
from checks import machine_checks
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.model_selection import GridSearchCV

from mercer.gram import Gram
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.radial import RBF, Laplacian
from mercer.kernels.string import EditSimilarity
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import PairFunction, Precomputed
from mercer.machines.sparse import SparseKernelClassifier, SparseKernelRegressor
from mercer.machines.svm import SVC
from mercer.solvers.l1 import CoordinateDescent

rng = np.random.default_rng(11)
X = rng.normal(size=(120, 3))
NEW = rng.normal(size=(40, 3))
TARGET = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=120)
TWO = np.where(TARGET + 0.5 * rng.normal(size=120) > 0.2, "yes", "no")
THREE = np.array(["a", "b", "c"])[np.digitize(TARGET, [-0.6, 0.6])]
KERNEL = RBF(0.4)
K, ROWS = KERNEL(X), KERNEL(NEW, X)

MACHINES = [
    pytest.param(SparseKernelClassifier(kernel=KERNEL), TWO, id="two classes"),
    pytest.param(SparseKernelClassifier(kernel=KERNEL), THREE, id="three classes"),
    pytest.param(SparseKernelRegressor(kernel=KERNEL), TARGET, id="one target"),
    pytest.param(
        SparseKernelRegressor(kernel=KERNEL),
        np.column_stack([TARGET, X[:, 0] ** 2]),
        id="two targets",
    ),
]
every_machine = pytest.mark.parametrize("machine, y", MACHINES)


def values(machine, points=NEW):
    return getattr(machine, "decision_function", machine.predict)(points)


@machine_checks(
    [
        SparseKernelClassifier(),
        SparseKernelRegressor(),
        SparseKernelClassifier(kernel="linear"),
        SparseKernelClassifier(kernel=RBF(), fit_intercept=False),
        SparseKernelRegressor(kernel="precomputed"),
        SparseKernelRegressor(kernel=RBF(), fit_intercept=False),
        SparseKernelClassifier(kernel="precomputed"),
    ]
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


# scikit-learn on the same matrix


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.1, 0.01, 0.003])
@pytest.mark.parametrize("weight", [None, rng.random(120) + 0.1], ids=["", "weighted"])
def test_regressor_is_the_lasso_on_the_columns_of_the_matrix(intercept, alpha, weight):
    theirs = Lasso(alpha, fit_intercept=intercept, tol=1e-10, max_iter=10**5)
    theirs.fit(K, TARGET, weight)
    ours = SparseKernelRegressor(alpha, kernel=KERNEL, fit_intercept=intercept)
    ours.fit(X, TARGET, weight)
    assert_allclose(ours.predict(NEW), theirs.predict(ROWS), atol=1e-5)
    assert_array_equal(ours.support_, np.flatnonzero(np.abs(theirs.coef_) > 1e-6))
    assert_allclose(ours.dual_coef_[0], theirs.coef_[ours.support_], atol=1e-4)
    assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)


@pytest.mark.parametrize("C", [0.2, 1.0])
def test_classifier_is_logistic_regression_on_the_columns_of_the_matrix(C):
    theirs = LogisticRegression(
        C=C, l1_ratio=1, solver="saga", tol=1e-7, max_iter=10**5, random_state=0
    ).fit(K[:60, :60], TWO[:60])
    ours = SparseKernelClassifier(C, kernel=KERNEL).fit(X[:60], TWO[:60])
    p = theirs.predict_proba(ROWS[:, :60])
    assert_allclose(ours.predict_proba(NEW), p, atol=1e-4)
    assert_array_equal(ours.support_, np.flatnonzero(np.abs(theirs.coef_[0]) > 1e-3))


def test_without_bias_liblinear_agrees():
    theirs = LogisticRegression(C=1.0, l1_ratio=1, solver="liblinear", tol=1e-10,
                                fit_intercept=False, max_iter=10**5)  # fmt: skip
    theirs.fit(K, TWO)
    ours = SparseKernelClassifier(kernel=KERNEL, fit_intercept=False).fit(X, TWO)
    assert_allclose(values(ours), theirs.decision_function(ROWS), atol=1e-5)


# Classes and targets


def test_each_class_is_told_from_the_rest():
    machine = SparseKernelClassifier(kernel=KERNEL).fit(X, THREE)
    for j, name in enumerate("abc"):
        alone = SparseKernelClassifier(kernel=KERNEL).fit(X, THREE == name)
        assert_allclose(values(machine)[:, j], values(alone), atol=1e-7)
    assert_array_equal(machine.predict(NEW), np.array(list("abc"))[
        values(machine).argmax(axis=1)])  # fmt: skip
    assert machine.expansion_.n_outputs == 3
    assert len(machine.certificate_.parts) == 3
    assert machine.n_support_.sum() == len(machine.support_)


def test_each_target_has_its_own_column():
    Y = np.column_stack([TARGET, X[:, 0] ** 2])
    machine = SparseKernelRegressor(kernel=KERNEL).fit(X, Y)
    for j in range(2):
        alone = SparseKernelRegressor(kernel=KERNEL).fit(X, Y[:, j])
        assert_allclose(machine.predict(NEW)[:, j], alone.predict(NEW), atol=1e-7)


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_probabilities_sum_to_1_and_are_largest_for_the_class_predicted(y):
    machine = SparseKernelClassifier(100.0, kernel=KERNEL).fit(X, y)
    p = machine.predict_proba(NEW)
    assert_allclose(p.sum(axis=1), 1)
    assert_array_equal(machine.classes_[p.argmax(axis=1)], machine.predict(NEW))
    assert_allclose(machine.predict_log_proba(NEW), np.log(p))


def test_class_weights_are_weights_of_the_points():
    factors = np.where(TWO == "yes", 3.0, 0.5)
    by_class = SparseKernelClassifier(kernel=KERNEL, class_weight={"yes": 3, "no": 0.5})
    by_point = SparseKernelClassifier(kernel=KERNEL)
    by_class.fit(X, TWO)
    by_point.fit(X, TWO, factors)
    assert_allclose(values(by_class), values(by_point), atol=1e-9)
    balanced = SparseKernelClassifier(kernel=KERNEL, class_weight="balanced")
    shares = 60 / np.array([(TWO == "no").sum(), (TWO == "yes").sum()])
    assert_allclose(balanced.fit(X, TWO).class_weight_, shares)


@every_machine
def test_weight_two_is_the_row_twice_and_weight_zero_no_row(machine, y):
    times = rng.integers(0, 3, 120)
    weighted = clone(machine).fit(X, y, times)
    repeated = clone(machine).fit(
        np.repeat(X, times, axis=0), np.repeat(y, times, axis=0)
    )
    assert_allclose(values(weighted), values(repeated), atol=1e-6)
    assert not np.isin(np.flatnonzero(times == 0), weighted.support_).any()


def test_points_of_one_class_are_refused():
    with pytest.raises(ValueError, match=r"got 1 class, .*yes.*two"):
        SparseKernelClassifier().fit(X, np.full(120, "yes"))
    with pytest.raises(ValueError, match=r"got 1 class, .*yes.*two"):
        SparseKernelClassifier().fit(X, TWO, TWO == "yes")


# Any similarity


@every_machine
def test_matrix_of_kernel_values_gives_the_same(machine, y):
    known = clone(machine).set_params(kernel="precomputed").fit(K, y)
    learnt = clone(machine).fit(X, y)
    assert_allclose(values(known, ROWS), values(learnt), atol=1e-8)
    assert known.kernel == "precomputed"


def test_a_matrix_that_is_not_square_is_refused():
    with pytest.raises(ValueError, match="square"):
        SparseKernelClassifier(kernel="precomputed").fit(K[:, :5], TWO)


def test_a_matrix_that_is_not_symmetric_is_refused():
    with pytest.raises(ValueError, match="symmetric"):
        SparseKernelRegressor(kernel="precomputed").fit(np.triu(K), TARGET)


def test_strings_are_told_apart_by_a_similarity_that_is_no_kernel():
    words = catalog.words(2, 60)
    y = np.array([word.count("a") > 0 for word in words])
    machine = SparseKernelClassifier(10.0, kernel=EditSimilarity(0.1)).fit(words, y)
    assert np.linalg.eigvalsh(EditSimilarity(0.1)(words)).min() < -0.01
    assert machine.certificate_.status == "optimal"
    assert machine.certificate_.gap <= 1e-9 * machine.certificate_.primal
    assert machine.score(words, y) > 0.9
    assert set(machine.support_vectors_) <= set(words)


def common_letters(s, t):
    return len(set(s) & set(t))


def test_numbers_are_learnt_from_strings():
    words = catalog.words(2, 40)
    y = np.array([len(set(word)) for word in words], dtype=float)
    kernel = PairFunction(common_letters, psd=True)
    assert (
        SparseKernelRegressor(1e-3, kernel=kernel).fit(words, y).score(words, y) > 0.9
    )


@looped(
    "word, kernel",
    [
        ("rbf", RBF()),
        ("linear", Linear()),
        ("poly", Polynomial(3)),
        ("sigmoid", Sigmoid()),
        ("laplacian", Laplacian()),
    ],
)
def test_words_mean_the_kernel_of_that_name(word, kernel):
    ours = SparseKernelClassifier(kernel=word).fit(X, TWO)
    assert ours.expansion_.kernel == kernel.resolve(X)


def test_no_kernel_is_the_gaussian_with_a_learnt_scale():
    machine = SparseKernelRegressor().fit(X, TARGET)
    assert machine.expansion_.kernel == RBF().resolve(X)


@every_machine
def test_sparse_points_give_what_dense_ones_give(machine, y):
    thin = np.where(np.abs(X) > 0.5, X, 0)
    dense, sparse = (
        clone(machine).fit(thin, y),
        clone(machine).fit(sp.csr_array(thin), y),
    )
    assert_allclose(values(sparse, sp.csr_array(NEW)), values(dense), atol=1e-6)


# What is kept


@every_machine
def test_expansion_is_the_truth_and_holds_no_point_without_need(machine, y):
    machine = clone(machine).fit(X, y)
    f = machine.expansion_
    assert_array_equal(values(machine), f(NEW))
    assert 0 < len(f.coef) == len(machine.support_) < 120
    assert f.coef.reshape(len(f.coef), -1).any(axis=1).all()
    assert_array_equal(f.points, X[machine.support_])
    assert_array_equal(machine.support_vectors_, f.points)
    assert_array_equal(np.atleast_1d(f.bias), machine.intercept_)


@every_machine
def test_certificate_is_that_of_the_training_data(machine, y):
    machine = clone(machine).set_params(
        solver=CoordinateDescent(tol=1e-5)
    )  # not to rounding
    machine.fit(X, y)
    again = machine.certify(X, y)
    found = machine.certificate_
    assert_allclose(again.primal, found.primal, rtol=1e-9)
    assert again.n_free == found.n_free
    # The one kept has the best dual of all rounds; a candidate alone knows its own.
    assert again.dual <= found.dual + 1e-9 * abs(found.dual)
    assert 0 <= found.gap <= again.gap + 1e-12 < 1e-2 * found.primal


@every_machine
def test_machine_is_pickled_without_its_matrix(machine, y):
    machine = clone(machine).fit(X, y)
    text = pickle.dumps(machine)
    assert len(text) < 120 * 120 * 8 / 2
    assert_allclose(values(pickle.loads(text)), values(machine), rtol=1e-9, atol=1e-12)


@every_machine
def test_order_of_the_points_does_not_matter(machine, y):
    order = rng.permutation(120)
    there, back = clone(machine).fit(X, y), clone(machine).fit(X[order], y[order])
    assert_allclose(values(there), values(back), atol=1e-7)


@every_machine
def test_nothing_of_the_size_of_the_matrix_is_stored_beyond_the_cache(
    machine, y, monkeypatch
):
    expected = values(clone(machine).fit(X, y))
    monkeypatch.setattr(Gram, "dense", None)
    found = values(clone(machine).set_params(cache_size=1e-6).fit(X, y))
    assert_allclose(found, expected, atol=1e-7)


def test_so_strong_a_penalty_leaves_the_mean():
    machine = SparseKernelRegressor(1e3, kernel=KERNEL).fit(X, TARGET)
    assert_allclose(machine.predict(NEW), np.full(40, TARGET.mean()))
    assert len(machine.support_) == 0 and machine.n_support_[0] == 0
    assert machine.dual_coef_.shape == (1, 0)


# Paths


@every_machine
def test_path_begins_without_points_and_is_made_of_the_single_fits(machine, y):
    path = machine.path(X, y, n_steps=6)
    assert path.n_support[0] == 0 < path.n_support[-1]
    name = "C" if hasattr(machine, "C") else "alpha"
    answers = path.values(NEW)
    for step in (0, 3, 5):
        alone = clone(machine).set_params(**{name: path.parameter[step]}).fit(X, y)
        assert_allclose(answers[step], values(alone), atol=1e-6)
        assert_allclose(path[step](NEW), answers[step], atol=1e-12)
        if name == "C":
            assert_array_equal(path.predict(NEW)[step], alone.predict(NEW))
        assert len(path[step].coef) == path.n_support[step]
    assert len(path) == 6 == len(path.certificates)
    assert path[-1].n_outputs == path[0].n_outputs
    assert not hasattr(machine, "expansion_")


def test_path_begins_where_the_closed_form_says():
    path = SparseKernelRegressor(kernel=KERNEL).path(X, TARGET, n_steps=3)
    largest = np.abs(K @ (TARGET - TARGET.mean())).max() / 120
    assert_allclose(path.parameter, largest * np.array([1, 0.1, 0.01]))
    share = np.mean(TWO == "yes")
    path = SparseKernelClassifier(kernel=KERNEL).path(X, TWO, n_steps=2)
    least = 1 / np.abs(K @ (share - (TWO == "yes"))).max()
    assert_allclose(path.parameter, least * np.array([1, 100]))


def test_path_takes_the_penalties_it_is_given():
    path = SparseKernelClassifier(kernel=KERNEL).path(X, TWO, Cs=[0.5, 2.0])
    assert_allclose(path.parameter, [0.5, 2.0])
    path = SparseKernelRegressor(kernel="precomputed").path(K, TARGET, alphas=[0.1])
    alone = SparseKernelRegressor(0.1, kernel=KERNEL).fit(X, TARGET)
    assert_allclose(path.predict(ROWS)[0], alone.predict(NEW), atol=1e-9)


def test_path_needs_penalties_above_0():
    machine = SparseKernelRegressor(kernel=KERNEL)
    with pytest.raises(ValueError, match="alphas > 0"):
        machine.path(X, TARGET, alphas=[1.0, -1.0])
    with pytest.raises(ValueError, match="0 < ratio < 1"):
        machine.path(X, TARGET, ratio=2.0)
    with pytest.raises(ValueError, match="cannot be improved"):
        machine.path(X, np.ones(120))


def test_path_leaves_a_fitted_machine_alone():
    machine = SparseKernelClassifier(kernel=KERNEL).fit(X, TWO)
    before = values(machine)
    machine.path(np.hstack([X, X]), TWO, n_steps=2)
    assert_array_equal(values(machine), before)


# Callbacks


@every_machine
def test_lines_tell_how_the_fit_goes(machine, y, capsys):
    machine = clone(machine).set_params(verbose=True).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    found = re.search(r"iteration +(\d+) +gap (\S+) +(\d+) support", lines[-1])
    assert int(found[1]) == np.ravel(machine.n_iter_)[-1]
    assert lines[-1].startswith(f"[{type(machine).__name__}")


@every_machine
def test_callback_stops_the_fit_which_a_warm_start_finishes(machine, y):
    whole, seen = clone(machine).fit(X, y), []

    def stop(progress):
        seen.append(progress)
        return progress.round == 2

    machine = clone(machine).set_params(callback=stop, warm_start=True)
    with pytest.warns(ConvergenceWarning, match="status 'stopped'"):
        machine.fit(X, y)
    assert machine.certificate_.status == machine.run_.status == "stopped"
    assert {p.round for p in seen} <= {1, 2}
    machine.set_params(callback=None).fit(X, y)
    assert_allclose(values(machine), values(whole), atol=1e-7)


def test_callbacks_of_scikit_learn_look_on():
    machine = SparseKernelClassifier(kernel=KERNEL)
    assert machine.set_callbacks(ProgressBar()).fit(X, TWO).expansion_ is not None


@every_machine
def test_an_interrupted_fit_leaves_what_was_learnt_before(machine, y):
    machine = clone(machine).fit(X, y)
    before = values(machine)

    def interrupt(progress):
        raise KeyboardInterrupt

    machine.set_params(callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        machine.fit(X[:50], y[:50])
    assert_array_equal(values(machine), before)
    machine.set_params(callback=None).fit(X[:50], y[:50])


def test_warm_start_takes_few_steps_where_little_changed():
    machine = SparseKernelClassifier(2.0, kernel=KERNEL, warm_start=True).fit(X, TWO)
    first = machine.n_iter_[0]
    assert machine.fit(X, TWO).n_iter_[0] <= 1
    machine.set_params(C=2.1).fit(X, TWO)
    assert machine.n_iter_[0] < first
    alone = SparseKernelClassifier(2.1, kernel=KERNEL).fit(X, TWO)
    assert_allclose(values(machine), values(alone), atol=1e-7)


def test_too_few_steps_are_said_with_the_gap():
    machine = SparseKernelClassifier(100.0, kernel=KERNEL, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="after 1 iterations .*gap"):
        machine.fit(X, TWO)
    with pytest.warns(ConvergenceWarning, match="status .*gap"):
        machine.path(X, TWO, n_steps=3)


def test_grid_search_reaches_the_kernel():
    search = GridSearchCV(
        SparseKernelClassifier(kernel=RBF(1.0)),
        {"C": [0.5, 2.0], "kernel__gamma": [0.1, 1.0]},
        cv=3,
    )
    assert search.fit(X, TWO).best_score_ > 0.7


def test_unfitted_machines_say_so():
    with pytest.raises(NotFittedError):
        SparseKernelClassifier().predict(X)
    with pytest.raises(NotFittedError):
        SparseKernelRegressor().certify(X, TARGET)


@pytest.mark.parametrize("params", [{"C": 0}, {"tol": 0}, {"max_iter": 0}], ids=str)
def test_bad_parameters_are_refused(params):
    with pytest.raises(ValueError, match=f"The '{next(iter(params))}' parameter"):
        SparseKernelClassifier(**params).fit(X, TWO)
    with pytest.raises(ValueError, match=f"The '{next(iter(params))}' parameter"):
        SparseKernelClassifier(**params).path(X, TWO)


def test_linear_kernel_has_weights():
    machine = SparseKernelClassifier(kernel=Linear()).fit(X, TWO)
    f = NEW @ machine.coef_[0] + machine.intercept_
    assert_allclose(values(machine), f, atol=1e-10)


def test_kernel_object_for_values_from_elsewhere_serves():
    machine = SparseKernelRegressor(kernel=Precomputed(K)).fit(np.arange(120), TARGET)
    learnt = SparseKernelRegressor(kernel=KERNEL).fit(X, TARGET)
    assert_allclose(machine.predict(np.arange(120)), learnt.predict(X), atol=1e-8)


# Real data

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[3] / "shared" / "data"
)


@pytest.mark.skipif(
    not (DATA / "spambase.npz").exists(),
    reason="needs spambase.npz: set MERCER_DATA to the folder of the data",
)
def test_a_twentieth_of_the_messages_tells_spam_as_well_as_svc_with_a_third():
    with np.load(DATA / "spambase.npz") as file:
        order = np.random.default_rng(0).permutation(len(file["y"]))[:2000]
        points, y = np.log1p(file["X"][order].astype(float)), file["y"][order]
    X, y, X_new, y_new = points[:1500], y[:1500], points[1500:], y[1500:]
    mean, spread = X.mean(axis=0), X.std(axis=0) + 1e-12
    X, X_new = (X - mean) / spread, (X_new - mean) / spread
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        machine = SparseKernelClassifier(1.0).fit(X, y)
        svc = SVC().fit(X, y)
    assert machine.score(X_new, y_new) > svc.score(X_new, y_new) - 0.02
    assert len(machine.support_) < 75 < 450 < len(svc.support_)
