"""KernelRidge: scikit-learn's answers where it has them, the definition everywhere."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from checks import machine_checks
from looped import looped
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process.kernels import ExpSineSquared
from sklearn.kernel_ridge import KernelRidge as Reference
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

from mercer.gram import Gram
from mercer.kernels.algebra import On
from mercer.kernels.radial import RBF
from mercer.kernels.substring import Spectrum
from mercer.kernels.vector import Polynomial
from mercer.kernels.ways import PairFunction, Precomputed
from mercer.machines.ridge import KernelRidge
from mercer.outcomes import Run, Solution
from mercer.solvers.cholesky import Cholesky
from mercer.solvers.conjugate_gradient import ConjugateGradient

rng = np.random.default_rng(0)
X = rng.random((60, 4))
Y = np.column_stack([np.sin(4 * X[:, 0]), X[:, 1] * X[:, 2], rng.normal(size=60)])
y = Y[:, 0]
NEW = rng.random((25, 4))
WEIGHT = rng.random(60) * 3
WORDS = [
    "linear",
    "rbf",
    "poly",
    "polynomial",
    "sigmoid",
    "laplacian",
    "chi2",
    "additive_chi2",
    "cosine",
]


def both(*data, points=NEW, **params):
    """Predictions of our machine and of scikit-learn's, fitted alike."""
    with warnings.catch_warnings():
        # Indefinite kernels: both machines say so in their own words.
        warnings.simplefilter("ignore", UserWarning)
        ours = KernelRidge(**params).fit(*data)
        reference = Reference(**params).fit(*data)
    assert ours.dual_coef_.shape == reference.dual_coef_.shape
    return ours.predict(points), reference.predict(points)


# One check shifts a matrix of kernel values, which makes it indefinite.
@pytest.mark.filterwarnings("ignore:KernelRidge .* .indefinite.")
@machine_checks(
    [
        KernelRidge(),
        KernelRidge(kernel="rbf"),
        KernelRidge(kernel="cosine"),
        KernelRidge(kernel="precomputed"),
        KernelRidge(kernel=RBF()),
    ]
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


# Drop-in


@looped("word", WORDS)
def test_words_agree_with_scikit_learn(word):
    ours, reference = both(X, Y, alpha=0.1, kernel=word, gamma=0.7, degree=2, coef0=0.5)
    assert_allclose(ours, reference, rtol=1e-8, atol=1e-10)


@looped("word", [word for word in WORDS if word != "chi2"])
def test_default_parameters_agree_with_scikit_learn(word):
    ours, reference = both(X, y, kernel=word)
    assert_allclose(ours, reference, rtol=1e-8, atol=1e-10)


def test_default_gamma_of_chi2_is_1():
    # scikit-learn documents this default, and fails on it.
    assert KernelRidge(kernel="chi2").fit(X, y).expansion_.kernel.gamma == 1


@looped(
    "params",
    [
        {"kernel": "rbf", "gamma": 0},
        {"kernel": "sigmoid", "gamma": 0},
        {"kernel": "poly", "gamma": 0},
        {"kernel": "poly", "degree": 2.5},
        {"kernel": "poly", "degree": 0},
        {"kernel": "poly", "coef0": -0.5, "degree": 3},
    ],
    ids=str,
)
def test_parameters_outside_the_kernels_agree_with_scikit_learn(params):
    assert_allclose(*both(X, y, **params), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("word", ["linear", "rbf", "poly", "cosine", "laplacian"])
@pytest.mark.parametrize("container", [sp.csr_array, sp.csc_matrix])
def test_sparse_points_agree_with_scikit_learn(word, container):
    thinned = np.where(X > 0.6, X, 0)
    ours, reference = both(container(thinned), y, kernel=word, points=container(NEW))
    assert_allclose(ours, reference, rtol=1e-8, atol=1e-10)
    assert_allclose(ours, both(thinned, y, kernel=word)[0], rtol=1e-10)


def test_zero_vectors_agree_with_scikit_learn_under_cosine():
    zeroed = X.copy()
    zeroed[::5] = 0
    new = np.vstack([NEW, np.zeros(4)])
    assert_allclose(
        *both(zeroed, y, kernel="cosine", points=new), rtol=1e-8, atol=1e-12
    )


@looped("word", ["linear", "rbf", "poly", "laplacian"])
def test_float32_points_agree_with_scikit_learn(word):
    data = (X.astype(np.float32), y)
    ours, reference = both(*data, kernel=word, points=NEW.astype(np.float32))
    assert_allclose(ours, reference, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int32])
def test_whole_numbers_agree_with_scikit_learn(dtype):
    data = (20 * X).astype(dtype)
    ours, reference = both(data, y, kernel="rbf", gamma=0.01, points=data)
    assert_allclose(ours, reference, rtol=1e-8)


@looped("weight", [WEIGHT, 2.5, 3, None], ids=["array", "2.5", "3", ""])
@looped("alpha", [0.3, [0.3], [0.1, 5.0, 0.1]], ids=str)
def test_weights_and_penalties_agree_with_scikit_learn(weight, alpha):
    ours, reference = both(X, Y, weight, alpha=alpha, kernel="rbf")
    assert_allclose(ours, reference, rtol=1e-8, atol=1e-12)


def test_kernel_values_agree_with_scikit_learn():
    K = pairwise_kernels(X, metric="rbf")
    rows = pairwise_kernels(NEW, X, metric="rbf")
    before = K.copy()
    ours, reference = both(K, Y, WEIGHT, kernel="precomputed", points=rows)
    assert_allclose(ours, reference, rtol=1e-8)
    assert np.array_equal(K, before)
    assert_allclose(
        ours, KernelRidge(kernel="rbf").fit(X, Y, WEIGHT).predict(NEW), rtol=1e-8
    )


def scaled_product(x, y, scale=1.0):
    return scale * float(x @ y) + 1


def test_functions_agree_with_scikit_learn():
    params = {"kernel": scaled_product, "kernel_params": {"scale": 0.3}}
    assert_allclose(*both(X, y, **params), rtol=1e-8)
    assert_allclose(*both(X, y, kernel=ExpSineSquared(0.8, 2.0)), rtol=1e-8)


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_data_frames_agree_with_scikit_learn(library):
    frame, new = (
        library.DataFrame(dict(zip("abcd", A.T, strict=True))) for A in (X, NEW)
    )
    machine = KernelRidge(kernel=RBF(0.5)).fit(frame, y)
    expected = Reference(kernel="rbf", gamma=0.5).fit(X, y).predict(NEW)
    assert_allclose(machine.predict(new), expected, rtol=1e-8)
    assert list(machine.feature_names_in_) == list("abcd")


@looped(
    "params, message",
    [
        ({"alpha": -1}, "'alpha' parameter of KernelRidge must be"),
        ({"kernel": "gauss"}, "'kernel' parameter of KernelRidge must be"),
        ({"gamma": -0.1}, "'gamma' parameter of KernelRidge must be"),
        ({"solver": "cholesky"}, "'solver' parameter of KernelRidge must be"),
        ({"alpha": [1.0, 2.0]}, "one alpha, or one for each of the 3 targets"),
        ({"alpha": [1.0, -2.0, 1.0]}, "KernelRidge needs alpha ≥ 0"),
    ],
)
def test_bad_parameters_are_refused_in_scikit_learn_s_words(params, message):
    with pytest.raises(ValueError, match=message):
        KernelRidge(**params).fit(X, Y)


def test_signature_is_scikit_learn_s_a_solver_and_reports():
    ours, reference = KernelRidge().get_params(), Reference().get_params()
    assert ours.pop("solver") is ours.pop("time_limit") is None
    assert ours.pop("warm_start") is False
    assert (ours.pop("verbose"), ours.pop("callback")) == (False, None)
    assert ours == reference
    assert KernelRidge().__sklearn_tags__() == Reference().__sklearn_tags__()
    pairwise = KernelRidge(kernel="precomputed").__sklearn_tags__()
    assert pairwise.input_tags.pairwise
    assert KernelRidge(kernel=Precomputed()).__sklearn_tags__().input_tags.pairwise


# The definition


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0])
def test_predictions_follow_the_definition(alpha):
    K, k = (np.exp(-0.5 * ((A[:, None] - X[None]) ** 2).sum(-1)) for A in (X, NEW))
    expected = k @ np.linalg.solve(K + alpha * np.diag(1 / WEIGHT), Y)
    machine = KernelRidge(alpha, kernel=RBF(0.5)).fit(X, Y, WEIGHT)
    assert_allclose(machine.predict(NEW), expected, rtol=1e-7, atol=1e-10)


def test_linear_kernel_is_ridge_regression_without_intercept():
    ridge = Ridge(0.7, fit_intercept=False).fit(X, Y, WEIGHT)
    machine = KernelRidge(0.7).fit(X, Y, WEIGHT)
    assert_allclose(machine.predict(NEW), ridge.predict(NEW), rtol=1e-9)


def test_small_alpha_interpolates():
    machine = KernelRidge(1e-12, kernel=RBF(20.0)).fit(X, Y)
    assert_allclose(machine.predict(X), Y, atol=1e-8)


def test_large_alpha_predicts_nothing():
    assert np.abs(KernelRidge(1e12, kernel="rbf").fit(X, y).predict(X)).max() < 1e-9


def test_expansion_is_the_truth():
    machine = KernelRidge(kernel=RBF()).fit(X, Y)
    f = machine.expansion_
    assert np.array_equal(machine.predict(NEW), f(NEW))
    assert machine.dual_coef_ is f.coef
    assert f.kernel == RBF().resolve(X)
    assert machine.kernel == RBF()


def test_weight_two_is_the_row_twice_and_weight_zero_no_row():
    times = rng.integers(0, 4, 60)
    for kernel in ("rbf", RBF()):
        weighted = KernelRidge(kernel=kernel).fit(X, Y, times)
        repeated = KernelRidge(kernel=kernel).fit(
            np.repeat(X, times, axis=0), np.repeat(Y, times, axis=0)
        )
        assert_allclose(weighted.predict(NEW), repeated.predict(NEW), rtol=1e-9)
        assert not weighted.dual_coef_[times == 0].any()


def test_certificate_holds():
    machine = KernelRidge(0.5, kernel=RBF(1.0)).fit(X, y)
    solution, f = machine.certificate_, machine.expansion_
    primal = (0.5 * f.norm() ** 2 + np.sum((y - f(X)) ** 2)) / 2
    assert_allclose(solution.primal, primal, rtol=1e-10)
    assert_allclose(solution.dual, primal, rtol=1e-10)
    assert solution.status == "optimal" and solution.violation < 1e-12


def test_solver_can_be_chosen():
    with pytest.warns(ConvergenceWarning, match="ill-conditioned"):
        KernelRidge(solver=Cholesky(tol=0)).fit(X, y)


class Impatient:
    """A solver that gives up."""

    def solve(self, problem):
        zero = np.zeros(len(problem.target))
        return Solution(zero, 0.0, 1.0, 0.0, 0.5, Run("stopped", 7))


def test_solver_that_gives_up_is_said():
    with pytest.warns(ConvergenceWarning, match="7 iterations with status 'stopped'"):
        machine = KernelRidge(solver=Impatient()).fit(X, y)
    assert not machine.predict(NEW).any()


# Leave one out


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
@pytest.mark.parametrize("targets", [y, Y], ids=["one target", "three"])
@pytest.mark.parametrize("alpha", [0.05, [0.05, 1.0, 0.3]], ids=str)
def test_leave_one_out_predictions_are_those_of_the_refits(weight, targets, alpha):
    if targets is y:
        alpha = np.ravel(alpha)[:1]
    machine = KernelRidge(alpha, kernel="laplacian", gamma=0.8)
    points, targets = X[:25], targets[:25]
    weight = None if weight is None else weight[:25]
    predictions = machine.fit(points, targets, weight).loo_predictions_
    refits = [
        clone(machine)
        .fit(points[kept], targets[kept], None if weight is None else weight[kept])
        .predict(points[i : i + 1])[0]
        for i, kept in enumerate(~np.eye(25, dtype=bool))
    ]
    assert_allclose(predictions, refits, rtol=1e-8, atol=1e-10)


def test_leave_one_out_prediction_of_an_absent_point_is_the_prediction():
    weight = WEIGHT.copy()
    weight[:7] = 0
    for kernel, data in [
        ("rbf", X),
        ("precomputed", pairwise_kernels(X, metric="rbf")),
    ]:
        machine = KernelRidge(kernel=kernel).fit(data, Y, weight)
        expected = machine.predict(data)[:7]
        assert_allclose(machine.loo_predictions_[:7], expected, rtol=1e-9)


def test_leave_one_out_predictions_of_an_indefinite_kernel_are_those_of_the_refits():
    machine = KernelRidge(0.1, kernel="sigmoid", gamma=3.0, coef0=-1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        predictions = machine.fit(X, y).loo_predictions_
        assert machine.certificate_.status == "indefinite"
        kept = np.arange(60) != 11
        refit = clone(machine).fit(X[kept], y[kept]).predict(X[11:12])
    assert_allclose(predictions[11], refit[0], rtol=1e-7)


def test_leave_one_out_predictions_belong_to_the_last_fit():
    machine = KernelRidge(kernel="rbf").fit(X, y)
    first = machine.loo_predictions_
    assert machine.loo_predictions_ is first
    machine.set_params(alpha=1e-3)
    assert machine.loo_predictions_ is first
    machine.fit(X, y)
    assert np.abs(machine.loo_predictions_ - first).max() > 1e-3


def test_leave_one_out_predictions_need_a_fit_and_a_regular_matrix():
    with pytest.raises(NotFittedError):
        _ = KernelRidge().loo_predictions_
    with pytest.warns(ConvergenceWarning):
        machine = KernelRidge(0).fit(X, y)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        _ = machine.loo_predictions_


def test_showing_a_machine_does_not_compute_leave_one_out_predictions():
    machine = KernelRidge().fit(X, y)
    assert "expansion_" in machine._repr_html_()
    assert "loo_predictions_" not in vars(machine)
    assert "loo_predictions_" not in dir(machine)
    assert machine.loo_predictions_ is not None
    assert "loo_predictions_" in dir(machine)


def test_no_matrix_of_kernel_values_is_kept():
    machine = KernelRidge(kernel="rbf").fit(np.tile(X, (5, 1)), np.tile(y, 5))
    assert machine.loo_predictions_.shape == (300,)
    assert len(pickle.dumps(machine)) < 300 * 300 * 8 / 4


# Singular and indefinite


def test_singular_matrix_is_said_and_solved_in_the_least_squares_sense():
    with pytest.warns(ConvergenceWarning, match="Using least-squares solution instead"):
        machine = KernelRidge(0).fit(X, Y)
    expected = Ridge(0, fit_intercept=False, solver="svd").fit(X, Y).predict(NEW)
    assert_allclose(machine.predict(NEW), expected, rtol=1e-7, atol=1e-9)


def test_indefinite_kernel_is_said_and_solved():
    kernel = PairFunction(lambda a, b: -float(a @ b), psd=False)
    with pytest.warns(ConvergenceWarning, match="stationary") as said:
        machine = KernelRidge(0.1, kernel=kernel).fit(X, y)
    assert said[0].filename == __file__
    solved = (-X @ X.T + 0.1 * np.eye(60)) @ machine.dual_coef_
    assert_allclose(solved, y, atol=1e-9)


# Points of any kind

WORDS_OF_TEXT = ["kernel", "ridge", "gram", "point", "machine", "spline", "tree"] * 4
LENGTHS = np.array([float(len(word)) for word in WORDS_OF_TEXT])


def common_letters(s, t):
    return sum(s.count(letter) * t.count(letter) for letter in set(s))


def test_strings_pass_through_fit_predict_and_cross_validation():
    machine = KernelRidge(1e-6, kernel=PairFunction(common_letters))
    machine.fit(WORDS_OF_TEXT, LENGTHS)
    # Letters are counted, so of joined words the answers are added.
    assert_allclose(machine.predict(["kernel tree", "grampoint"]), [10, 9], atol=1e-4)
    scores = cross_val_score(machine, WORDS_OF_TEXT, LENGTHS, cv=4)
    assert scores.min() > 0.99
    assert not hasattr(machine, "n_features_in_")
    left_out = cross_val_predict(machine, WORDS_OF_TEXT, LENGTHS, cv=len(LENGTHS))
    assert_allclose(machine.loo_predictions_, left_out, atol=1e-6)


@looped(
    "words",
    [
        np.array(WORDS_OF_TEXT),
        np.array(WORDS_OF_TEXT, dtype=object),
        tuple(WORDS_OF_TEXT),
        pd.Series(WORDS_OF_TEXT),
    ],
    ids=lambda words: type(words).__name__,
)
def test_strings_come_in_any_container(words):
    kernel = PairFunction(common_letters)
    expected = KernelRidge(kernel=kernel).fit(WORDS_OF_TEXT, LENGTHS).dual_coef_
    found = KernelRidge(kernel=common_letters).fit(words, LENGTHS).dual_coef_
    assert_allclose(found, expected, rtol=1e-12)


def test_records_of_mixed_kinds_are_points():
    kernel = On(0, PairFunction(common_letters)) + On(1, RBF(0.5))
    records = list(zip(WORDS_OF_TEXT, LENGTHS, strict=True))
    expected = KernelRidge(kernel=kernel).fit(records, LENGTHS)
    frame = pd.DataFrame({"word": WORDS_OF_TEXT, "length": LENGTHS})
    named = On("word", PairFunction(common_letters)) + On("length", RBF(0.5))
    machine = KernelRidge(kernel=named).fit(frame, LENGTHS)
    assert_allclose(machine.predict(frame), expected.predict(records), rtol=1e-10)
    assert list(machine.feature_names_in_) == ["word", "length"]
    with pytest.raises(ValueError, match="feature names"):
        machine.predict(frame.rename(columns={"word": "text"}))


def test_indices_of_a_matrix_are_points():
    K = pairwise_kernels(X, metric="rbf")
    train, test = np.arange(40), np.arange(40, 60)
    machine = KernelRidge(kernel=Precomputed(K)).fit(train, y[:40])
    expected = KernelRidge(kernel="rbf").fit(X[:40], y[:40]).predict(X[40:])
    assert_allclose(machine.predict(test), expected, rtol=1e-9)
    rows = KernelRidge(kernel=Precomputed()).fit(K[:40, :40], y[:40])
    assert_allclose(rows.predict(K[40:, :40]), expected, rtol=1e-9)


def test_sequences_of_different_lengths_are_points():
    def overlap(s, t):
        return float(len(set(s) & set(t)))

    sets = [[1, 2, 3], [1], [2, 5, 7, 9], [3, 9]]
    machine = KernelRidge(1e-9, kernel=PairFunction(overlap)).fit(sets, [3, 1, 4, 2])
    assert_allclose(machine.predict([*sets, [1, 3, 9]]), [3, 1, 4, 2, 3], atol=1e-6)


@pytest.mark.parametrize(
    "points, targets, message",
    [
        (["a", "b"], [1.0], "inconsistent numbers of samples"),
        ([], [1.0], "at least one point"),
        (["a", "b"], [np.nan, 1.0], "contains NaN"),
    ],
)
def test_bad_data_of_other_kinds_is_refused(points, targets, message):
    with pytest.raises(ValueError, match=message):
        KernelRidge(kernel=PairFunction(common_letters)).fit(points, targets)


def test_strings_are_refused_by_vector_kernels():
    with pytest.raises(ValueError):
        KernelRidge(kernel="rbf").fit(WORDS_OF_TEXT, LENGTHS)
    with pytest.raises(TypeError, match="RBF compares vectors; point 0 is the string"):
        KernelRidge(kernel=RBF(1.0)).fit(WORDS_OF_TEXT, LENGTHS)


def test_grid_search_reaches_the_parameters_of_the_kernel():
    search = GridSearchCV(
        KernelRidge(1e-3, kernel=RBF()), {"kernel__gamma": [1e-4, 1.0, 1e4]}, cv=3
    ).fit(X, y)
    assert search.best_params_ == {"kernel__gamma": 1.0}
    assert search.best_estimator_.expansion_.kernel == RBF(1.0)


def test_refit_on_points_of_another_kind_forgets_the_columns():
    machine = KernelRidge(kernel=RBF(1.0)).fit(pd.DataFrame(X, columns=list("abcd")), y)
    machine.set_params(kernel=PairFunction(common_letters))
    machine.fit(WORDS_OF_TEXT, LENGTHS)
    assert not hasattr(machine, "n_features_in_")
    assert not hasattr(machine, "feature_names_in_")


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csr_array])
def test_sparse_matrices_of_many_columns_are_solved_by_conjugate_gradients(form):
    points = sp.random(200, 80, 0.1, "csr", random_state=0)
    target, solver = points.toarray()[:, 0], ConjugateGradient()
    found = KernelRidge(kernel=RBF(0.5), solver=solver).fit(form(points), target)
    exact = KernelRidge(kernel=RBF(0.5)).fit(points.toarray(), target)
    assert_allclose(found.predict(form(points)), exact.predict(points), atol=1e-4)


# Many points of a kernel with a small explicit map

MANY = 3100
many_rng = np.random.default_rng(1)
POINTS = many_rng.normal(size=(MANY, 4))
TARGETS = POINTS[:, :2] @ [[1.0, -1.0], [2.0, 0.5]] + many_rng.normal(size=(MANY, 2))
SOME_WEIGHT = np.where(np.arange(MANY) % 50 == 7, 0.0, many_rng.uniform(0.5, 2, MANY))
TEXTS = ["".join(many_rng.choice(list("abc"), 12)) for _ in range(MANY)]


def many_points():
    sparse = sp.csr_array(POINTS * (many_rng.random(POINTS.shape) < 0.5))
    return [
        pytest.param("linear", POINTS, id="dense"),
        pytest.param("linear", sparse, id="CSR"),
        pytest.param(Polynomial(2, offset=1.0), POINTS, id="polynomial"),
        pytest.param(Spectrum(2), TEXTS, id="strings"),
    ]


@pytest.fixture
def no_kernel_matrix(monkeypatch):
    def refused(*args, **options):
        raise AssertionError("a matrix of kernel values was computed")

    monkeypatch.setattr(Gram, "dense", refused)
    monkeypatch.setattr("mercer.solvers.conjugate_gradient.Products", refused)


@pytest.mark.parametrize("kernel, points", many_points())
def test_a_small_map_gives_the_machine_of_the_kernel_matrix(kernel, points):
    alpha = [0.5, 2.0]
    weight = None if isinstance(kernel, Polynomial) else SOME_WEIGHT
    quick = KernelRidge(alpha, kernel=kernel).fit(points, TARGETS, weight)
    direct = KernelRidge(alpha, kernel=kernel, solver=Cholesky())
    direct.fit(points, TARGETS, weight)
    assert quick.run_.status == "optimal" and quick.run_.rows == 0
    size = np.abs(direct.dual_coef_).max()
    assert_allclose(quick.dual_coef_, direct.dual_coef_, rtol=0, atol=1e-8 * size)
    assert_allclose(quick.predict(points[:50]), direct.predict(points[:50]), atol=1e-8)
    ours, theirs = quick.certificate_, direct.certificate_
    assert_allclose(ours.primal, theirs.primal, rtol=1e-8)
    assert ours.dual <= theirs.primal and theirs.dual <= ours.primal
    assert 0.5 < ours.margin * max(quick.expansion_.norm()) <= 1
    assert (ours.n_free, ours.n_bound) == (theirs.n_free, theirs.n_bound)


@pytest.mark.parametrize("kernel, points", many_points())
def test_leave_one_out_by_a_small_map_is_that_of_refits(
    kernel, points, no_kernel_matrix
):
    machine = KernelRidge(0.5, kernel=kernel)
    machine.fit(points, TARGETS, SOME_WEIGHT)
    predictions = machine.loo_predictions_
    assert SOME_WEIGHT[7] == 0
    for i in (0, 7, 1234):
        weight = SOME_WEIGHT.copy()
        weight[i] = 0
        refit = KernelRidge(0.5, kernel=kernel).fit(points, TARGETS, weight)
        expected = refit.predict(points[i : i + 1])[0]
        assert_allclose(predictions[i], expected, atol=1e-8)


def test_offset_points_of_a_small_map_are_warned_of():
    with pytest.warns(ConvergenceWarning, match=r"violation \d"):
        KernelRidge(1e-3, kernel="linear").fit(
            np.tile(POINTS, (5, 1)) + 1e7, np.tile(TARGETS, (5, 1))
        )


def test_a_warm_start_goes_on_from_what_was_found():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.column_stack([np.sin(X[:, 0]), X[:, 1]])
    solver = ConjugateGradient(tol=1e-10)
    whole = KernelRidge(alpha=1e-2, kernel=RBF(0.5), solver=solver).fit(X, y)
    stops = iter([False] * 5 + [True])
    warm = KernelRidge(alpha=1e-2, kernel=RBF(0.5), solver=solver, warm_start=True)
    warm.set_params(callback=lambda progress: next(stops))
    with pytest.warns(ConvergenceWarning, match="stopped"):
        warm.fit(X, y)
    half = warm.certificate_.violation
    assert half > 1e-10
    warm.set_params(callback=None).fit(X, y)
    assert_allclose(warm.predict(X), whole.predict(X), atol=1e-8)
    assert warm.fit(X, y).run_.iterations == 0  # it is there
    # New points start from 0, those that are known from where they were.
    other = np.concatenate([X[50:], rng.normal(size=(20, 3))])
    target = np.concatenate([y[50:], np.zeros((20, 2))])
    cold = KernelRidge(alpha=1e-2, kernel=RBF(0.5), solver=solver).fit(other, target)
    assert_allclose(warm.fit(other, target).predict(X), cold.predict(X), atol=1e-8)
