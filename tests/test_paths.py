"""Exact paths: equal to fits at every value, whatever ties and copies there are."""

import itertools
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import scale

from mercer import (
    RBF,
    SVC,
    SVR,
    KernelRidge,
    Linear,
    NuSVC,
    OneClassSVM,
    Precomputed,
    Sigmoid,
    Spectrum,
)
from mercer.paths import nu_path, ridge_path, svm_path, svr_path

DATA = Path(os.environ.get("MERCER_DATA") or Path(__file__).parents[2] / "shared/data")


def grid(side):
    return np.array(list(itertools.product(range(side), repeat=2)), dtype=float)


def cases():
    X, y = make_moons(80, noise=0.25, random_state=0)
    unequal = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:13]]
    G = grid(6)
    iris = load_iris()
    cancer = load_breast_cancer()
    rng = np.random.default_rng(0)
    some = rng.permutation(len(cancer.data))[:150]
    yield "moons", RBF(1.0), X, y
    yield "unequal", RBF(1.0), X[unequal], y[unequal]
    yield "one against many", RBF(1.0), X[:20], np.r_[1, np.zeros(19, dtype=int)]
    yield "xor", RBF(1.0), grid(2), np.array([0, 1, 1, 0])
    yield "two points", Linear(), np.array([[0.0], [2.0]]), np.array([0, 1])
    yield "chessboard", RBF(0.5), G, G.sum(axis=1).astype(int) % 2
    yield "grid", Linear(), G, ((G[:, 0] > 2) ^ (G[:, 1] == 2)).astype(int)
    yield "copies", RBF(1.0), np.repeat(X[:20], 4, axis=0), np.repeat(y[:20], 4)
    clash = np.r_[y[:20], 1 - y[:20], y[:20]]
    yield "copies that clash", RBF(1.0), np.tile(X[:20], (3, 1)), clash
    yield "all alike", RBF(1.0), np.ones((10, 2)), np.arange(10) % 2
    yield "all alike, unequal", RBF(1.0), np.ones((10, 2)), np.arange(10) % 5 // 4
    yield "zeros", Linear(), np.zeros((6, 2)), np.array([0, 1, 1, 1, 0, 1])
    yield "iris", Linear(), iris.data[50:], iris.target[50:]
    yield "cancer", RBF(), scale(cancer.data[some]), cancer.target[some]


CASES = {name: rest for name, *rest in cases()}


def values(path, number, seed=0, least=1e-3, most=1e3):
    rng = np.random.default_rng(seed)
    return np.exp(rng.uniform(np.log(least), np.log(most), number)).tolist()


def gap_of(path, C):
    """How far from optimal the coefficients of the path are, by the definitions."""
    sign = path.signs
    coef, K = path.coef(C), path.kernel(path._gram.X)
    F = K @ coef
    assert np.all(sign * coef >= 0) and np.all(np.abs(coef) <= C)
    assert abs(coef.sum()) <= 1e-12 * np.abs(coef).sum()
    up = np.where(coef < np.maximum(0, C * sign), F - sign, np.inf)
    down = np.where(coef > np.minimum(0, C * sign), F - sign, -np.inf)
    return down.max() - up.min()


def dual_of(machine):
    """Σα - ½ βᵀKβ, without the rounding that a certificate takes off."""
    f = machine.expansion_
    return np.abs(f.coef).sum() - f.coef @ f.kernel(f.points) @ f.coef / 2


def fit_to_rounding(C, kernel, X, y):
    with warnings.catch_warnings():  # rounding may be more than tol
        warnings.simplefilter("ignore", ConvergenceWarning)
        return SVC(C=C, kernel=kernel, tol=1e-9).fit(X, y)


@pytest.mark.parametrize("name", CASES)
def test_conditions_hold_all_along_the_path(name):
    kernel, X, y = CASES[name]
    path = svm_path(kernel, X, y, C_max=1e4)
    assert path.complete and path.domain == (0, 1e4)
    turns = path.breakpoints
    assert np.all(np.diff(turns) >= 0)
    chosen = values(path, 12) + turns[:: max(1, len(turns) // 8)].tolist()
    for C in chosen:
        assert gap_of(path, C) < 1e-8


@pytest.mark.parametrize("name", CASES)
def test_machines_are_those_of_fits(name):
    kernel, X, y = CASES[name]
    path = svm_path(kernel, X, y, C_max=1e4)
    for C in values(path, 5, seed=1):
        machine = path(C)
        fitted = fit_to_rounding(C, path.kernel, X, y)
        assert machine.C == C and machine.solver is None
        assert_allclose(dual_of(machine), dual_of(fitted), rtol=1e-9, atol=1e-12)
        assert machine.certificate_.violation < 1e-8
        assert_allclose(
            machine.decision_function(X), fitted.decision_function(X), atol=1e-6
        )


def test_coefficients_are_linear_between_breakpoints():
    kernel, X, y = CASES["moons"]
    path = svm_path(kernel, X, y)
    turns = path.breakpoints
    for a, b in itertools.pairwise(turns[:: max(1, len(turns) // 20)]):
        after = turns[np.searchsorted(turns, a, side="right")]
        b = min(b, after)
        if b - a < 1e-6 * a:
            continue
        third = a + (b - a) / 3
        expected = path.coef(a) + (path.coef(b) - path.coef(a)) / 3
        assert_allclose(path.coef(third), expected, atol=1e-9 * b)


def test_a_path_ends_where_nothing_changes():
    kernel, X, y = CASES["xor"]
    path = svm_path(kernel, X, y)
    assert path.domain == (0, np.inf)
    last = path.breakpoints[-1]
    assert_allclose(
        path.alpha([2 * last, 1e6 * last]), np.tile(path.alpha(last), (2, 1))
    )


def test_weights_are_bounds():
    kernel, X, y = CASES["moons"]
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    options = {"class_weight": {0: 1.0, 1: 3.0}}
    path = svm_path(kernel, X, y, sample_weight=weight, C_max=100, **options)
    for C in (0.01, 1.0, 30.0):
        fitted = SVC(C=C, kernel=kernel, tol=1e-9, **options).fit(X, y, weight)
        assert_allclose(
            path(C).decision_function(X), fitted.decision_function(X), atol=1e-6
        )


def test_strings_and_matrices_have_paths():
    words = ["abab", "baba", "abba", "ccdc", "dcdc", "cdda"]
    y = [0, 0, 0, 1, 1, 1]
    path = svm_path(Spectrum(2), words, y)
    K = np.asarray(path.kernel(words), dtype=float)
    given = svm_path("precomputed", K, y)
    by_index = svm_path(Precomputed(K), np.arange(6), y)
    for C in (0.01, 0.1, 1.0):
        expected = path(C).decision_function(words)
        assert_allclose(given(C).decision_function(K), expected, atol=1e-9)
        assert_allclose(by_index.coef(C), path.coef(C), atol=1e-9)


@pytest.mark.parametrize("name", ["moons", "unequal"])
def test_the_cross_validated_error_is_that_of_fits(name):
    kernel, X, y = CASES[name]
    curve = svm_path(kernel, X, y, C_max=1e3).cross_validated(4)
    folds = list(StratifiedKFold(4).split(X, y))
    for C in values(None, 8, seed=2, least=1e-3, most=900):
        missed = 0
        for inside, outside in folds:
            machine = SVC(C=C, kernel=kernel, tol=1e-9).fit(X[inside], y[inside])
            missed += np.sum(machine.predict(X[outside]) != y[outside])
        assert curve(C) == missed / len(y)
    C, error = curve.best
    assert curve(C) == error == curve.errors.min()


def test_a_path_is_drawn_with_its_error():
    pytest.importorskip("matplotlib").use("Agg")
    kernel, X, y = CASES["unequal"]
    path = svm_path(kernel, X, y, C_max=10)
    display = path.plot(curve=path.cross_validated(3))
    assert len(display.artists_["lines"]) == len(y)
    line = display.artists_["lines"][0]
    C = float(line.get_xdata()[100])
    assert_allclose(line.get_ydata()[100], path.alpha(C)[0] / C)
    assert display.ax_.get_xlabel() == "C" and "error" in display.artists_


def test_too_many_breakpoints_end_a_path_and_are_said():
    kernel, X, y = CASES["moons"]
    for none in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="max_breakpoints ≥ 1"):
            svm_path(kernel, X, y, max_breakpoints=none)
    with pytest.warns(ConvergenceWarning, match="max_breakpoints"):
        path = svm_path(kernel, X, y, max_breakpoints=10)
    assert not path.complete and path.status == "max_iter"
    end = path.domain[1]
    assert gap_of(path, 0.99 * end) < 1e-8
    with pytest.raises(ValueError, match="This path knows C"):
        path(2 * end)


def test_a_path_goes_on_from_a_solve_where_rounding_led_it_astray(monkeypatch):
    from mercer.solvers import path as solvers

    kernel, X, y = CASES["moons"]
    expected = svm_path(kernel, X, y, C_max=100)
    monkeypatch.setattr(solvers.Tracer, "_refreshed", lambda self: False)
    found = svm_path(kernel, X, y, C_max=100)
    assert found.resolved > 0
    for C in (0.1, 1.0, 50.0):
        assert_allclose(found.coef(C), expected.coef(C), atol=1e-6)


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("parameter", ["C", "epsilon"])
def test_machines_of_regressions_are_those_of_fits(parameter, rounded):
    X = make_moons(60, noise=0.2, random_state=1)[0]
    y = X[:, 0] ** 2 + X[:, 1]
    y = np.round(2 * y) / 2 if rounded else y  # ties
    options = {"epsilon": 0.25} if parameter == "C" else {"C": 3.0}
    known = options if parameter == "C" else {"epsilon": None, **options}
    path = svr_path(RBF(1.0), X, y, **known)
    assert path.complete and path.parameter == parameter
    for value in (1e-4, 1e-2, 0.1, 0.25, 1.0, 20.0):
        machine = path(value)
        chosen = {parameter: value, **options}
        fitted = SVR(kernel=RBF(1.0), tol=1e-9, **chosen).fit(X, y)
        assert machine.certificate_.violation < 1e-9
        assert_allclose(machine.predict(X), fitted.predict(X), atol=1e-6)


def test_machines_of_one_class_are_those_of_fits():
    X = np.vstack([make_moons(50, noise=0.2, random_state=1)[0], grid(4)])
    path = nu_path(RBF(1.0), X)
    assert path.complete and path.domain == (0, 1)
    for nu in (1e-3, 0.03, 0.2, 0.5, 0.9):
        fitted = OneClassSVM(nu=nu, kernel=RBF(1.0), tol=1e-9).fit(X)
        expected = fitted.decision_function(X)
        assert_allclose(path(nu).decision_function(X), expected, atol=1e-6)


def test_machines_of_a_share_of_errors_are_those_of_fits():
    kernel, X, y = CASES["unequal"]
    path = nu_path(kernel, X, y)
    assert path.complete
    assert_allclose(path.domain, (0, 2 * np.bincount(y).min() / len(y)))
    for nu in (0.15, 0.2, 0.3, path.domain[1]):
        fitted = NuSVC(nu=nu, kernel=kernel, tol=1e-9).fit(X, y)
        machine = path(nu)
        assert machine.certificate_.violation < 1e-9
        expected = fitted.decision_function(X)
        assert_allclose(machine.decision_function(X), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("targets", [1, 2])
def test_ridge_for_every_reg_is_that_of_fits(targets, weighted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    y = X[:, 0] ** 2 + 0.3 * rng.normal(size=50)
    y = y if targets == 1 else np.column_stack([y, -X[:, 1]])
    weight = rng.uniform(0.5, 2, 50) if weighted else None
    path = ridge_path(RBF(0.5), X, y, sample_weight=weight)
    for reg in (1e-6, 1e-2, 0.5, 30.0):
        fitted = KernelRidge(reg, kernel=RBF(0.5)).fit(X, y, weight)
        machine = path(reg)
        assert machine.alpha == reg and machine.solver is None
        assert machine.certificate_.status == "optimal"
        assert_allclose(machine.predict(X), fitted.predict(X), atol=1e-8)
        expected = fitted.loo_predictions_
        assert_allclose(path.loo_predictions(reg), expected, rtol=1e-6, atol=1e-8)
    reg, error = path.best
    nearby = path.loo_errors(reg * np.geomspace(0.1, 10, 41))
    assert error <= nearby.min() * (1 + 1e-6)


def test_ridge_paths_refuse_what_they_cannot_follow():
    path = ridge_path("linear", [[1.0], [2.0], [3.0]], [1.0, 2.0, 2.5])
    for bad in (0, -1.0, np.inf, np.nan, None, "1"):
        with pytest.raises(ValueError, match="0 < λ"):
            path(bad)
    with pytest.raises(ValueError, match="positive semidefinite"):
        ridge_path(Sigmoid(), [[1.0], [2.0]], [0.0, 1.0])
    with pytest.raises(ValueError, match="weights > 0"):
        ridge_path(RBF(), [[1.0], [2.0]], [0.0, 1.0], sample_weight=[1.0, 0.0])


@pytest.mark.parametrize("options", [{"epsilon": None}, {"C": 1.0}])
def test_a_path_of_regressions_is_in_one_parameter(options):
    with pytest.raises(ValueError, match="epsilon=None"):
        svr_path(RBF(1.0), [[0.0], [1.0]], [0.0, 1.0], **options)


@pytest.mark.parametrize(
    ("kernel", "X", "y", "options", "message"),
    [
        (RBF(1.0), [[0.0], [1.0]], [1, 1], {}, "classes"),
        (RBF(1.0), [[0.0], [1.0], [2.0]], [0, 1, 2], {}, "two classes; got 3"),
        (
            RBF(1.0),
            [[0.0], [1.0], [2.0]],
            [0, 1, 1],
            {"sample_weight": [1, 1, 0]},
            "> 0",
        ),
        (RBF(1.0), [[0.0], [1.0]], [0, 1], {"C_max": 0}, "C_max > 0, inf for"),
        (RBF(1.0), [[0.0], [1.0]], [0, 1], {"C_max": np.nan}, "got C_max=nan"),
        (RBF(1.0), [[0.0], [1.0]], [0, 1], {"C_max": "1"}, "got C_max='1'"),
        (RBF(1.0), [[0.0], [1.0]], [0, 1], {"C_max": None}, "got C_max=None"),
        (Sigmoid(), [[0.0], [1.0]], [0, 1], {}, "positive semidefinite"),
        (
            Precomputed(np.array([[0.0, 1], [1, 0]])),
            [0, 1],
            [0, 1],
            {},
            "positive semidefinite",
        ),
    ],
)
def test_bad_input_is_refused(kernel, X, y, options, message):
    with pytest.raises(ValueError, match=message):
        svm_path(kernel, X, y, **options)


def test_a_path_has_machines_for_numbers_on_it():
    path = svm_path(RBF(1.0), [[0.0], [1.0]], [0, 1], C_max=10.0)
    for bad in (-1.0, 0.0, np.nan, np.inf, 20.0, None, "1", [1.0, 2.0]):
        with pytest.raises(ValueError, match="knows C from 0 to 10"):
            path(bad)
    assert path(np.array(1.0)).C == 1.0


def real_sets():
    """Ten real sets in two classes, of up to MERCER_PATH_POINTS points, or 400."""
    from sklearn.datasets import load_svmlight_file

    rng = np.random.default_rng(0)
    n = int(os.environ.get("MERCER_PATH_POINTS", 400))

    def some(X, y):
        chosen = rng.permutation(len(y))[:n]
        return np.asarray(X[chosen], dtype=float), y[chosen]

    for name in ("ripley", "svmguide1", "spambase", "magic_gamma", "credit_default"):
        with np.load(DATA / f"{name}.npz") as file:
            part = "" if "X" in file else "_train"
            X, y = some(file[f"X{part}"], file[f"y{part}"])
        yield name, scale(X), y
    for name in ("heart_scale", "a9a", "w8a"):
        X, y = load_svmlight_file(str(DATA / f"{name}.svm.bz2"))
        yield name, *some(X.toarray(), y)
    with np.load(DATA / "dna.npz") as file:
        X, y = some(file["X_train"], (file["y_train"] == 0).astype(int))
        yield "dna", X, y
    cancer = load_breast_cancer()
    yield "cancer", scale(cancer.data), cancer.target


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="the shared data sets are not here")
def test_paths_of_real_sets_are_those_of_fits():
    for name, X, y in real_sets():
        path = svm_path(RBF(), X, y, C_max=10)
        for C in values(path, 50, least=1e-3, most=10):
            machine = path(C)
            fitted = fit_to_rounding(C, path.kernel, X, y)
            duals = dual_of(machine), dual_of(fitted)
            assert_allclose(*duals, rtol=1e-9, err_msg=name)
            far = machine.decision_function(X) - fitted.decision_function(X)
            assert np.abs(far).max() < 1e-6, name
