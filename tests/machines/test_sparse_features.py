"""Few features are enough: the L1 penalty on the coordinates of an explicit map."""

import pickle
from dataclasses import replace

import catalog
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from checks import machine_checks
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Lasso, LogisticRegression

from mercer.kernels.algebra import Normalized, On, Pullback
from mercer.kernels.graph import WeisfeilerLehman
from mercer.kernels.radial import RBF
from mercer.kernels.string import Subsequence, WeightedDegree
from mercer.kernels.substring import Mismatch, Spectrum, WeightedSubstrings
from mercer.kernels.tree import SubsetTree, TaggedTree
from mercer.kernels.vector import Linear, Polynomial
from mercer.losses import Logistic, Squared
from mercer.machines.sparse import SparseKernelClassifier, SparseKernelRegressor
from mercer.maps import explicit
from mercer.solvers.l1 import CoordinateDescent
from mercer.solvers.lasso_features import Design, FeatureProblem

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 6))
NEW = rng.normal(size=(15, 6))
target = X[:, 0] * X[:, 1] - 2 * X[:, 3] + 0.1 * rng.normal(size=60)
side = np.where(target + 0.5 * rng.normal(size=60) > 0, "up", "down")
kinds = rng.integers(0, 3, 60)
letters = np.array(list("acgt"))
WORDS = ["".join(rng.choice(letters, size=12)) for _ in range(50)]
WORDS[::2] = [word[:4] + "ttga" + word[8:] for word in WORDS[::2]]
STRANGE = ["ttga", "zzzz", "", "acgtttgaxx"]
planted = np.arange(50) % 2 == 0


@machine_checks(
    [
        SparseKernelClassifier(kernel="linear", on="features"),
        SparseKernelRegressor(kernel=Polynomial(2), on="features"),
    ]
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


# Scikit-learn's


@looped("kernel", [Linear(), Polynomial(2), Polynomial(3, 0.5, 0.0)])
@looped("intercept", [True, False])
@looped("weight", [None, rng.uniform(0.2, 2, 60)])
def test_regressor_is_the_lasso_on_the_features(kernel, intercept, weight):
    alpha, features = 0.05, kernel.features(X)
    machine = SparseKernelRegressor(
        alpha, kernel=kernel, on="features", fit_intercept=intercept
    ).fit(X, target, sample_weight=weight)
    theirs = Lasso(alpha, fit_intercept=intercept, tol=1e-10, max_iter=200_000)
    theirs.fit(features, target, sample_weight=weight)
    assert_allclose(machine.coef_[0], theirs.coef_, atol=1e-5)
    assert_allclose(machine.intercept_, theirs.intercept_, atol=1e-5)
    expected = theirs.predict(kernel.features(NEW))
    assert_allclose(machine.predict(NEW), expected, atol=1e-4)


@pytest.mark.parametrize("C", [0.1, 1.0])
def test_classifier_is_logistic_regression_on_the_features(C):
    kernel = Polynomial(2)
    features = kernel.features(X)
    machine = SparseKernelClassifier(C, kernel=kernel, on="features").fit(X, side)
    theirs = LogisticRegression(
        C=C, l1_ratio=1, solver="saga", tol=1e-8, max_iter=100_000
    ).fit(features, side)

    def objective(w, b):
        f = np.where(side == "up", 1, -1) * (features @ w + b)
        return np.abs(w).sum() / C + np.logaddexp(0, -f).sum()

    ours = objective(machine.coef_[0], machine.intercept_[0])
    other = objective(theirs.coef_[0], theirs.intercept_[0])
    assert_allclose(ours, machine.certificate_.primal, rtol=1e-9)
    assert ours <= other + 1e-9 * other
    assert_allclose(machine.coef_, theirs.coef_, atol=1e-3)


def test_without_bias_liblinear_agrees_on_strings():
    kernel, y = Spectrum(3), np.where(planted, 1, -1)
    theirs = LogisticRegression(
        C=0.5, l1_ratio=1, solver="liblinear", fit_intercept=False, tol=1e-8
    ).fit(kernel.features(WORDS), y)
    machine = SparseKernelClassifier(
        0.5, kernel=kernel, on="features", fit_intercept=False
    ).fit(WORDS, y)
    found = machine.decision_function(WORDS)
    expected = theirs.decision_function(kernel.features(WORDS))
    assert_allclose(found, expected, atol=1e-3)


# Optimality


MACHINES = [
    (SparseKernelRegressor(0.02, on="features"), "numbers"),
    (SparseKernelClassifier(0.5, on="features"), "sides"),
    (SparseKernelClassifier(0.5, on="features", class_weight="balanced"), "kinds"),
]
TARGETS = {"numbers": target[:50], "sides": planted, "kinds": kinds[:50]}
KERNELS = [
    (Linear(), X[:50]),
    (Polynomial(2), sp.csr_array(X[:50] * (X[:50] > 0))),
    (Spectrum(3), WORDS),
    (Normalized(Mismatch(3, 1, "acgt")), WORDS),
    (WeightedDegree(3), WORDS),
    (2.0 * Spectrum(2) + WeightedSubstrings(weights=[1.0, 0.5]), WORDS),
]
each_machine = pytest.mark.parametrize(
    "machine, which", MACHINES, ids=[which for _, which in MACHINES]
)
each_kernel = pytest.mark.parametrize(
    "kernel, points", KERNELS, ids=[repr(kernel) for kernel, _ in KERNELS]
)


@each_machine
@each_kernel
def test_the_optimality_conditions_hold(machine, which, kernel, points):
    y = TARGETS[which]
    machine = clone(machine).set_params(kernel=kernel).fit(points, y)
    found = explicit(kernel, points)
    w, values = machine.coef_.T, found.matrix @ machine.coef_.T + machine.intercept_
    if which == "numbers":
        reg, slopes = machine.alpha, (values - y[:, None]) / len(y)
    else:
        reg = 1 / machine.C
        sides = np.where(y[:, None] == machine.classes_, 1.0, -1.0)
        sides = sides[:, 1:] if len(machine.classes_) == 2 else sides
        label = np.searchsorted(machine.classes_, y)
        factor = machine.class_weight_[label][:, None]
        slopes = -factor * sides / (1 + np.exp(sides * values))
    pull = found.matrix.T @ slopes
    zero = w == 0
    tol = 1e-4 * reg
    assert (np.abs(pull[zero]) <= reg + tol).all()
    assert_allclose(pull[~zero], -reg * np.sign(w[~zero]), atol=tol)
    assert_allclose(slopes.sum(axis=0), 0, atol=1e-6 * np.abs(slopes).sum())
    certificate = machine.certificate_
    assert certificate.status == "optimal"
    again = machine.certify(points, y)
    assert_allclose(again.primal, certificate.primal, rtol=1e-9)
    assert again.gap <= 1e-6 * again.primal
    assert_allclose(certificate.dual, again.dual, rtol=1e-6)


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=repr)
def test_sparse_columns_give_what_dense_ones_give(loss):
    y = np.where(planted, 1.0, -1.0)
    found = explicit(Spectrum(3), WORDS)
    dense = Design(Spectrum(3), replace(found, matrix=found.matrix.toarray()))
    sparse = Design(Spectrum(3), found)
    one, other = (
        CoordinateDescent(1e-10).solve(FeatureProblem(design, y, loss, 0.7))
        for design in (dense, sparse)
    )
    assert_allclose(one.primal, other.primal, rtol=1e-9)
    assert_allclose(one.value, other.value, atol=1e-5)
    v, weight = rng.normal(size=50), rng.uniform(size=50)
    assert_allclose(dense.pull(v), sparse.pull(v))
    assert_allclose(dense @ one.value, sparse @ one.value)
    index = np.array([3, 1])
    assert_allclose(dense.at(index), sparse.at(index))
    for centered in (False, True):
        sizes = dense.sizes(weight, centered)
        mean = dense.pull(weight) / weight.sum() if centered else 0.0
        exact = np.sqrt(weight @ (found.matrix.toarray() - mean) ** 2)
        assert_allclose(sizes, exact, atol=1e-6)
        assert (sizes >= exact - 1e-12).all()
        assert_allclose(sizes, sparse.sizes(weight, centered))


def test_100_000_columns_are_no_trouble():
    n, p = 2000, 100_000
    ones = sp.csr_array((np.ones(n), np.arange(n) % 9, np.arange(n + 1)), shape=(n, p))
    Phi = sp.csr_array(sp.random_array((n, p), density=1e-3, rng=rng) + ones)
    w = np.zeros(p)
    w[:2] = 3.0
    y = Phi @ w + 0.01 * rng.normal(size=n)
    machine = SparseKernelRegressor(0.02, kernel="linear", on="features").fit(Phi, y)
    chosen = [name for name, _ in machine.selected_features()]
    assert set(chosen[:2]) == {"x0", "x1"}
    assert machine.certificate_.status == "optimal"
    again = machine.certify(Phi, y)
    assert_allclose(again.primal, machine.certificate_.primal, rtol=1e-9)
    assert again.dual <= again.primal and again.gap <= 2e-4 * np.var(y)


# Names, and new points


@pytest.mark.parametrize(
    "kernel",
    [
        Spectrum(4),
        Mismatch(4, 1, "acgt"),
        WeightedSubstrings(decay=0.5),
        WeightedDegree(4),
        Normalized(Spectrum(4)),
        3.0 * Spectrum(4) + Spectrum(1),
        Subsequence(2, 0.5),
    ],
    ids=repr,
)
def test_strings_never_seen_are_told_by_the_parts_that_were(kernel):
    machine = SparseKernelClassifier(5.0, kernel=kernel, on="features")
    machine.fit(WORDS, planted)
    alone = machine.decision_function(STRANGE)
    together = machine.decision_function(WORDS + STRANGE)
    assert_allclose(together[50:], alone, rtol=1e-9, atol=1e-12)
    found = explicit(kernel, WORDS)
    expected = found.matrix @ machine.coef_[0] + machine.intercept_[0]
    assert_allclose(together[:50], expected, rtol=1e-9, atol=1e-9)
    assert len(machine.feature_names_) == found.matrix.shape[1]
    weights = dict(zip(machine.feature_names_, machine.coef_[0], strict=True))
    for name, weight in machine.selected_features():
        assert weights[name] == weight != 0
    assert np.count_nonzero(machine.coef_) == len(machine.selected_features())


def test_the_planted_word_is_found():
    machine = SparseKernelClassifier(1.0, kernel=Spectrum(4), on="features")
    machine.fit(WORDS, planted)
    assert machine.selected_features()[0][0] == "substring 'ttga'"
    assert machine.selected_features()[0][1] > 0
    placed = SparseKernelClassifier(1.0, kernel=WeightedDegree(4), on="features")
    places = [name for name, _ in placed.fit(WORDS, planted).selected_features()]
    assert any("at 4" in name or "at 5" in name for name in places[:3])


def test_fragments_of_trees_and_patterns_of_graphs_are_named():
    trees = ["(S (NP a) (VP b))", "(S (NP c) (VP b))", "(S (NP a) (VP d))", "(S (X e))"]
    y = np.array([1.0, -1.0, 1.0, -1.0])
    for kernel in (SubsetTree(), TaggedTree(Spectrum(2))):
        machine = SparseKernelRegressor(0.01, kernel=kernel, on="features")
        machine.fit(trees, y)
        assert_allclose(machine.predict(trees), y, atol=0.3)
        assert machine.predict(["(S (NP a) (VP zzz))"])[0] > 0
        assert any("a" in name for name, _ in machine.selected_features())
    graphs = [([(0, 1), (1, 2)], list("COC")), ([(0, 1)], list("CN"))] * 3
    y = np.array([1.0, -1.0] * 3)
    machine = SparseKernelRegressor(0.01, kernel=WeisfeilerLehman(2), on="features")
    machine.fit(graphs, y)
    fresh = [([(0, 1), (1, 2), (2, 3)], list("COCX")), ([(0, 1)], list("NC"))]
    assert machine.predict(fresh)[1] < 0
    assert all(name.startswith("depth") for name, _ in machine.selected_features())


def test_columns_of_data_frames_give_their_names():
    frame = pd.DataFrame(X[:, :3], columns=["age", "height", "weight"])
    machine = SparseKernelRegressor(0.05, kernel=Polynomial(2), on="features")
    machine.fit(frame, X[:, 0] * X[:, 1])
    assert machine.selected_features()[0][0] == "age*height"
    on = On([0, 1], Polynomial(2)) + On(2, Linear())
    machine.set_params(kernel=on).fit(frame, X[:, 0] * X[:, 1] + 2 * X[:, 2])
    assert {name for name, _ in machine.selected_features()[:2]} == {
        "age*height",
        "weight",
    }


def test_records_of_words_and_numbers_have_the_features_of_both():
    records = pd.DataFrame({"word": WORDS, "size": np.arange(50.0) % 3})
    kernel = On("word", Spectrum(4)) + On("size", Linear())
    machine = SparseKernelClassifier(2.0, kernel=kernel, on="features")
    machine.fit(records, planted)
    assert machine.selected_features()[0][0] == "substring 'ttga' of word"
    assert machine.score(records, planted) > 0.8


def test_a_pullback_has_the_features_of_its_images():
    kernel = Pullback(Polynomial(2), np.tanh)
    machine = SparseKernelRegressor(0.02, kernel=kernel, on="features").fit(X, target)
    same = SparseKernelRegressor(0.02, kernel=Polynomial(2), on="features")
    same.fit(np.tanh(X), target)
    assert_allclose(machine.predict(NEW), same.predict(np.tanh(NEW)), atol=1e-9)


@looped(
    "kernel, points",
    [e for e in catalog.psd_kernels if hasattr(e.values[0], "features")],
)
def test_explicit_columns_give_the_kernel(kernel, points):
    data = points(0)
    try:
        found = explicit(kernel, data)
    except TypeError as error:
        assert "has the features of its string kernel" in str(error)
        return
    product = found.matrix @ found.matrix.T
    product = product.toarray() if sp.issparse(product) else product
    K = kernel(data)
    assert_allclose(product, K, rtol=1e-6, atol=1e-6 * np.abs(K).max())
    assert len(found.names()) == len(found.keys) == found.matrix.shape[1]


# The path


@each_machine
def test_the_path_is_made_of_the_single_fits(machine, which):
    y = TARGETS[which]
    machine = clone(machine).set_params(kernel=Spectrum(3))
    path = machine.path(WORDS, y, n_steps=6, ratio=0.1)
    assert len(path) == 6 and path.n_support[0] == 0
    assert (np.diff(path.n_support) >= -3).all()
    name = "alpha" if which == "numbers" else "C"
    single = clone(machine).set_params(**{name: path.parameter[4]}).fit(WORDS, y)
    values = path.values(STRANGE)[4]
    assert_allclose(values, single._values(STRANGE), atol=1e-4)
    assert_allclose(path[4](STRANGE), values)
    if which != "numbers":
        assert_array_equal(path.predict(WORDS)[4], single.predict(WORDS))
    names = {name for name, _ in path[4].selected()}
    assert names == {name for name, _ in single.selected_features()}
    assert not hasattr(machine, "expansion_")


# Around


@each_machine
def test_a_machine_is_copied_and_pickled(machine, which):
    machine = clone(machine).set_params(kernel=Spectrum(3)).fit(WORDS, TARGETS[which])
    again = pickle.loads(pickle.dumps(machine))
    assert_array_equal(again.predict(STRANGE), machine.predict(STRANGE))
    assert again.selected_features()[0][0] == machine.selected_features()[0][0]


def test_a_warm_start_takes_few_steps_where_little_changed():
    machine = SparseKernelRegressor(
        0.02, kernel=Polynomial(3), on="features", warm_start=True
    ).fit(X, target)
    first = machine.n_iter_
    machine.fit(X, target)
    assert machine.n_iter_ <= first and machine.n_iter_ <= 2
    machine.set_params(on="points").fit(X, target)
    assert not hasattr(machine, "feature_names_")
    machine.set_params(on="features").fit(X, target)
    assert not hasattr(machine, "support_")


def test_single_precision_gives_what_double_gives():
    machine = SparseKernelRegressor(0.02, kernel=Polynomial(2), on="features")
    one = clone(machine).fit(X.astype(np.float32), target)
    assert_allclose(one.coef_, machine.fit(X, target).coef_, atol=1e-4)


def test_weight_2_is_the_row_twice_and_weight_0_no_row():
    weight = rng.integers(0, 3, 50)
    twice = [word for word, w in zip(WORDS, weight, strict=True) for _ in range(w)]
    machine = SparseKernelClassifier(2.0, kernel=Spectrum(2), on="features")
    one = clone(machine).fit(WORDS, planted, sample_weight=weight)
    other = clone(machine).fit(twice, np.repeat(planted, weight))
    found, expected = (m.decision_function(WORDS) for m in (one, other))
    assert_allclose(found, expected, atol=1e-5)


def test_nothing_in_common_leaves_the_constant():
    words, y = ["a", "b", "c"], np.array([1.0, 2.0, 6.0])
    machine = SparseKernelRegressor(kernel=Spectrum(5), on="features").fit(words, y)
    assert_allclose(machine.predict(["a", "hello world"]), 3.0)
    assert machine.selected_features() == []


@looped("kernel", [None, RBF(0.5), "rbf", RBF(0.5) + Linear()])
def test_a_kernel_without_a_map_is_refused(kernel):
    machine = SparseKernelClassifier(kernel=kernel, on="features")
    with pytest.raises(TypeError, match=r"has no explicit map.*Polynomial.*Spectrum"):
        machine.fit(X, side)


def test_what_does_not_belong_is_refused():
    with pytest.raises(ValueError, match="kernel='linear'"):
        SparseKernelClassifier(kernel="precomputed", on="features").fit(X @ X.T, side)
    with pytest.raises(ValueError, match="'on' parameter"):
        SparseKernelClassifier(on="pixels").fit(X, side)
    points = SparseKernelClassifier(kernel="linear").fit(X, side)
    with pytest.raises(AttributeError, match="on='features'"):
        points.selected_features()
    with pytest.raises(NotFittedError):
        SparseKernelClassifier(on="features").selected_features()
    features = SparseKernelClassifier(kernel="linear", on="features").fit(X, side)
    for name in ("support_", "support_vectors_", "dual_coef_", "n_support_"):
        assert not hasattr(features, name)
    assert_allclose(features.expansion_.norm(), np.linalg.norm(features.coef_))
