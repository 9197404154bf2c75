"""Perceptrons: mistakes exactly as the textbook makes them, and the bound on them."""

import copy
import os
import pickle
import signal
import threading
import time
import warnings
from pathlib import Path

import naive_perceptron as naive
import numpy as np
import pytest
import scipy.sparse as sp
from checks import machine_checks
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import Perceptron as ReferencePerceptron
from sklearn.model_selection import GridSearchCV

import mercer.solvers.perceptron as solvers
from mercer import SVC, KernelPerceptron, Perceptron
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.kernels.algebra import On
from mercer.kernels.radial import RBF
from mercer.kernels.substring import Spectrum
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import BlockFunction, Precomputed
from mercer.native import threads
from mercer.solvers.auto import steps_on_features
from mercer.solvers.perceptron import PerceptronProblem, PerceptronRule
from mercer.theory import mistake_bound

XOR = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
XOR_SIDES = np.array([-1, 1, 1, -1])
SQUARED = Polynomial(2, scale=1.0, offset=1.0)

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def whole_numbers(seed, n, d=6, zeros=0.0, dtype=np.float64):
    random = np.random.default_rng(seed)
    X = random.integers(-2, 3, (n, d)).astype(dtype)
    X[random.random(X.shape) < zeros] = 0
    return X


def sides(seed, n, q=1):
    return np.random.default_rng(seed).choice([-1.0, 1.0], (n, q))


def listed(found):
    return list(
        zip(
            found.point.tolist(),
            found.column.tolist(),
            found.time.tolist(),
            strict=True,
        )
    )


def blobs(seed, n=80, gap=1.5):
    random = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1, -1)
    return random.normal(size=(n, 2)) + gap * y[:, None], y


# scikit-learn


@quiet
@machine_checks(
    [
        KernelPerceptron(),
        KernelPerceptron(variant="averaged", fit_intercept=True),
        KernelPerceptron(variant="voted", max_iter=20),
        KernelPerceptron(Linear(), fit_intercept=True),
        KernelPerceptron("precomputed"),
        Perceptron(),
        Perceptron(variant="averaged", fit_intercept=False, eta0=0.3),
    ]
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


# The solver against the textbook's loop


def routes(gram, sign, passes, monkeypatch, **options):
    """The mistakes by the matrix, by the compiled blocks, and by blocks in Python."""
    solver, problem = PerceptronRule(passes, **options), PerceptronProblem(gram, sign)
    with monkeypatch.context() as patch:
        patch.setattr(solvers, "SMALL_MATRIX", 1e12)
        yield solver.solve(problem)
        patch.setattr(solvers, "SMALL_MATRIX", 0)
        yield solver.solve(problem)
        patch.setattr(solvers, "_kernel_pass", lambda gram, many: solvers._Blocks(gram))
        yield solver.solve(problem)


@pytest.mark.parametrize("zeros", [0.0, 0.8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("passes, q", [(1, 1), (3, 1), (2, 3)])
@pytest.mark.parametrize("kernel", [Linear() + 2.0, SQUARED, SQUARED + 1.0 + 0.5])
def test_every_route_makes_the_mistakes_of_the_loop(
    kernel, passes, q, dtype, zeros, monkeypatch
):
    X, sign = whole_numbers(0, 450, 5, zeros, dtype), sides(1, 450, q)
    gram = Gram(kernel, X)
    expected = naive.kernel_mistakes(
        np.asarray(gram.dense(), dtype=float), sign, [np.arange(450)] * passes
    )
    for found in routes(gram, sign, passes, monkeypatch):
        assert listed(found) == expected
        assert found.run.iterations == passes and found.status == "max_iter"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d, zeros", [(40, 0.9), (3000, 0.995)])
def test_sparse_points_make_the_mistakes_of_dense_ones(d, zeros, dtype, monkeypatch):
    X, sign = whole_numbers(2, 700, d, zeros, dtype), sides(3, 700)
    expected = listed(
        PerceptronRule(2).solve(PerceptronProblem(Gram(SQUARED, X), sign))
    )
    for found in routes(Gram(SQUARED, sp.csr_array(X)), sign, 2, monkeypatch):
        assert listed(found) == expected


def test_the_number_of_threads_changes_no_mistake(monkeypatch):
    random = np.random.default_rng(1)
    X = random.normal(size=(3000, 80)).astype(np.float32)
    problem = PerceptronProblem(Gram(RBF(0.005), X), sides(2, 3000, 2))
    monkeypatch.setattr(solvers, "SMALL_MATRIX", 0)
    before, found = threads.threads(), []
    try:
        for number in (1, 2, 3):
            threads.set_threads(number)
            found.append(listed(PerceptronRule(2).solve(problem)))
    finally:
        threads.set_threads(before)
    assert found[0] == found[1] == found[2]


def test_shuffled_passes_follow_the_orders_of_their_seed(monkeypatch):
    X, sign = whole_numbers(4, 300), sides(5, 300)
    gram = Gram(Linear() + 1.0, X)
    random = np.random.default_rng(7)
    orders = [random.permutation(300) for _ in range(3)]
    expected = naive.kernel_mistakes(gram.dense(), sign, orders)
    for found in routes(gram, sign, 3, monkeypatch, shuffle=True, seed=7):
        assert listed(found) == expected


@pytest.mark.parametrize("q", [1, 2])
def test_a_single_pass_may_be_shuffled(q, monkeypatch):
    X, sign = whole_numbers(21, 200), sides(22, 200, q)
    gram = Gram(SQUARED, X)
    order = np.random.default_rng(1).permutation(200)
    expected = naive.kernel_mistakes(gram.dense(), sign, [order])
    for found in routes(gram, sign, np.int64(1), monkeypatch, shuffle=True, seed=1):
        assert listed(found) == expected


def test_many_classes_on_real_numbers_agree_on_every_route(monkeypatch):
    random = np.random.default_rng(0)
    X, sign = random.normal(size=(600, 70)), sides(1, 600, 4)
    gram = Gram(RBF(0.005), X)
    expected = naive.kernel_mistakes(gram.dense(), sign, [np.arange(600)] * 2)
    for found in routes(gram, sign, 2, monkeypatch):
        assert listed(found) == expected


def test_a_start_is_where_the_scores_begin(monkeypatch):
    X, sign = whole_numbers(6, 300), sides(7, 300)
    gram, start = Gram(SQUARED, X), np.arange(300.0)[:, None] - 150
    expected = naive.kernel_mistakes(gram.dense(), sign, [np.arange(300)], start)
    found = PerceptronRule(1).solve(PerceptronProblem(gram, sign), start=start)
    assert listed(found) == expected


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 4))
def test_the_primal_on_the_explicit_map_is_the_kernel_machine(seed, n, passes):
    X, sign = whole_numbers(seed, n, 3), sides(seed, n)
    # ⟨x, y⟩ + 1 with the map (x, 1); ⟨x, y⟩² with all products.
    ones = np.ones((n, 1))
    for kernel, features in (
        (Linear() + 1.0, np.hstack([X, ones])),
        (Linear() ** 2, np.einsum("ni,nj->nij", X, X).reshape(n, -1)),
    ):
        orders = [np.arange(n)] * passes
        path, expected = naive.primal(features, sign[:, 0], orders)
        found = PerceptronRule(passes).solve(PerceptronProblem(Gram(kernel, X), sign))
        assert found.point.tolist() == expected
        assert found.rounds == len(path) - 1
        support = np.unique(found.point)
        w = features[support].T @ found.coef(support)[:, 0]
        assert_array_equal(w, path[-1])


def test_one_point_is_missed_once():
    found = PerceptronRule(5).solve(
        PerceptronProblem(Gram(RBF(1.0), np.zeros((1, 2))), np.ones(1))
    )
    assert listed(found) == [(0, 0, 0)]
    assert found.status == "optimal" and found.run.iterations == 2


def test_a_solver_without_a_pass_is_refused():
    with pytest.raises(ValueError, match="max_iter ≥ 1"):
        PerceptronRule(0)


def test_a_kernel_that_is_not_finite_is_refused(monkeypatch):
    X = np.array([[1.0], [1e200], [2.0], [3.0]])
    gram = Gram(BlockFunction(products), X)
    with np.errstate(over="ignore", invalid="ignore"):
        for passes in (1, 2):
            with pytest.raises(ValueError, match="not finite"):
                PerceptronRule(passes).solve(
                    PerceptronProblem(gram, np.array([1, -1, 1, -1]))
                )


# The exact values of XOR


@looped("seed", range(6))
def test_xor_takes_exactly_four_mistakes_in_any_order(seed):
    order = np.random.default_rng(seed).permutation(4)
    machine = KernelPerceptron(SQUARED, shuffle=False).fit(XOR[order], XOR_SIDES[order])
    assert machine.n_mistakes_ == 4 and machine.run_.status == "optimal"
    assert_array_equal(machine.counts_, [1, 1, 1, 1])
    assert_array_equal(machine.expansion_(XOR), 8 * XOR_SIDES)


def test_the_bound_on_xor_is_nine_halves():
    machine = KernelPerceptron(SQUARED).fit(XOR, XOR_SIDES)
    for learner in (machine, SQUARED):
        bound = mistake_bound(learner, XOR, XOR_SIDES)
        assert bound.mistakes == 4
        assert_allclose([bound.bound, bound.sharp], 4.5, rtol=1e-9)
        assert_allclose([bound.radius**2, bound.margin, bound.slack], [9, 2**0.5, 0])
        assert "4.5" in repr(bound)


# The machine and its mistakes


def test_attributes_tell_the_same_story():
    X, y = blobs(0, gap=0.3)
    with pytest.warns(ConvergenceWarning):
        machine = KernelPerceptron(max_iter=3, random_state=0).fit(X, y)
    missed = machine.mistakes_
    assert len(missed) == machine.n_mistakes_ == machine.counts_.sum()
    assert_array_equal(machine.support_, np.unique(missed))
    assert_array_equal(machine.counts_, np.unique(missed, return_counts=True)[1])
    assert_array_equal(machine.expansion_.points, X[machine.support_])
    assert_array_equal(machine.expansion_.coef, y[machine.support_] * machine.counts_)
    curve = machine.mistake_curve_
    assert len(curve) == 3 * len(X) and curve[-1] == machine.n_mistakes_
    assert set(np.diff(curve)) <= {0, 1} and curve[0] == 1


def test_several_classes_are_so_many_perceptrons_in_one():
    X, y = load_iris(return_X_y=True)
    options = {"kernel": RBF(0.5), "shuffle": False, "max_iter": 4}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine = KernelPerceptron(**options).fit(X, y)
        for c in range(3):
            # The passes of all go on as long as one of them makes mistakes.
            alone = KernelPerceptron(**options).fit(X, np.where(y == c, "yes", "no"))
            assert_array_equal(machine.mistakes_[c], alone.mistakes_)
            values = machine.decision_function(X)[:, c]
            assert_allclose(values, alone.decision_function(X), atol=1e-12)
    assert_array_equal(machine.n_mistakes_, [len(part) for part in machine.mistakes_])
    assert machine.mistake_curve_.shape == (4 * 150, 3)
    assert machine.counts_.shape == (len(machine.support_), 3)


def test_inseparable_points_never_count_as_converged():
    X, y = np.zeros((4, 1)), np.array([0, 1, 0, 1])
    for machine in (KernelPerceptron(max_iter=7), Perceptron(max_iter=7)):
        with pytest.warns(
            ConvergenceWarning, match="after 7 .* Every pass made mistakes"
        ):
            machine.fit(X, y)
        assert not machine.run_.status == "optimal" and machine.n_iter_ == 7


def test_separable_points_end_with_a_pass_without_a_mistake():
    X, y = blobs(1, gap=4)
    for machine in (KernelPerceptron(Linear()), Perceptron()):
        machine.fit(X, y)
        assert machine.run_.status == "optimal" and machine.n_iter_ < 10
        assert machine.score(X, y) == 1
        assert np.diff(machine.mistake_curve_)[-len(X) + 1 :].sum() == 0


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_averaged_machine_is_the_mean_of_all_that_served(fit_intercept):
    X, sign = whole_numbers(8, 60, 3), sides(9, 60)[:, 0]
    features = np.hstack([X, np.ones((60, 1))]) if fit_intercept else X
    path, _ = naive.primal(features, sign, [np.arange(60)] * 3)
    options = {"fit_intercept": fit_intercept, "shuffle": False, "max_iter": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        dual = KernelPerceptron(Linear(), variant="averaged", **options).fit(X, sign)
        primal = Perceptron(variant="averaged", **options).fit(X, sign)
    expected = features @ path[1:].mean(axis=0)
    assert_allclose(dual.decision_function(X), expected, atol=1e-12)
    assert_allclose(primal.decision_function(X), expected, atol=1e-12)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_voted_machine_is_the_vote_of_all_that_served(fit_intercept):
    X, sign = whole_numbers(10, 50, 3), sides(11, 50)[:, 0]
    features = np.hstack([X, np.ones((50, 1))]) if fit_intercept else X
    path, _ = naive.primal(features, sign, [np.arange(50)] * 2)
    machine = KernelPerceptron(
        Linear(),
        variant="voted",
        fit_intercept=fit_intercept,
        shuffle=False,
        max_iter=2,
    )
    with pytest.warns(ConvergenceWarning):
        machine.fit(X, sign)
    assert_allclose(machine.decision_function(X), naive.vote(path, features))
    assert_array_equal(machine.predict(X) > 0, naive.vote(path, features) > 0)


def test_a_constant_is_a_kernel_with_one_more():
    X, y = blobs(2, gap=0.8)
    options = {"random_state": 0, "max_iter": 5}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with_constant = KernelPerceptron(RBF(1.0), fit_intercept=True, **options)
        written = KernelPerceptron(RBF(1.0) + 1, **options)
        assert_array_equal(
            with_constant.fit(X, y).mistakes_, written.fit(X, y).mistakes_
        )
    assert with_constant.kernel_ == written.kernel_


def test_learnt_parameters_of_the_kernel_are_shown():
    X, y = blobs(3, gap=4)
    machine = KernelPerceptron().fit(X, y)
    assert machine.kernel_ == RBF().resolve(X)


def test_kernel_values_give_what_their_points_give():
    X, y = blobs(4, gap=0.5)
    K = RBF(0.5)(X)
    options = {"random_state": 1, "max_iter": 3, "fit_intercept": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for variant in ("plain", "averaged", "voted"):
            known = KernelPerceptron("precomputed", variant=variant, **options)
            learnt = KernelPerceptron(RBF(0.5), variant=variant, **options)
            values = known.fit(K, y).decision_function(K)
            assert_allclose(values, learnt.fit(X, y).decision_function(X), atol=1e-9)
            assert_array_equal(known.mistakes_, learnt.mistakes_)


@quiet
def test_strings_and_records_are_points():
    words = ["abba", "baba", "abab", "cdcd", "dccd", "cddc"] * 3
    y = np.array([0, 0, 0, 1, 1, 1] * 3)
    records = [{"word": word, "length": len(word)} for word in words]
    for kernel, X in (
        (Spectrum(2), words),
        (On("word", Spectrum(2)) * On("length", RBF(1.0)), records),
    ):
        machine = KernelPerceptron(kernel, random_state=0).fit(X, y)
        assert machine.run_.status == "optimal" and machine.score(X, y) == 1


def test_a_search_reaches_into_the_kernel():
    X, y = blobs(5, gap=2)
    search = GridSearchCV(
        KernelPerceptron(RBF(), variant="averaged", max_iter=5, random_state=0),
        {"kernel__gamma": [0.01, 0.5]},
        cv=3,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(X, y)
    assert search.best_estimator_.kernel_.gamma == search.best_params_["kernel__gamma"]


def test_copies_answer_alike():
    X, y = blobs(6, gap=3)
    machine = KernelPerceptron(variant="voted", random_state=0).fit(X, y)
    expected = machine.decision_function(X)
    for twin in (copy.deepcopy(machine), pickle.loads(pickle.dumps(machine))):
        assert_allclose(twin.decision_function(X), expected, rtol=1e-9, atol=1e-12)
        assert_array_equal(twin.mistakes_, machine.mistakes_)


def test_it_has_to_be_fitted_first():
    for machine in (KernelPerceptron(variant="voted"), KernelPerceptron()):
        with pytest.raises(NotFittedError):
            machine.predict(XOR)


# Streams


@pytest.mark.parametrize("variant", ["plain", "averaged", "voted"])
@pytest.mark.parametrize("q", [2, 3])
def test_batches_are_one_pass_in_pieces(variant, q):
    X = whole_numbers(12, 90)
    y = np.random.default_rng(13).integers(0, q, 90)
    options = {"variant": variant, "fit_intercept": True}
    whole = KernelPerceptron(SQUARED, shuffle=False, max_iter=1, **options)
    with pytest.warns(ConvergenceWarning):
        whole.fit(X, y)
    pieces = KernelPerceptron(SQUARED, **options)
    for rows in (slice(0, 1), slice(1, 40), slice(40, 41), slice(41, 90)):
        pieces.partial_fit(X[rows], y[rows], classes=np.arange(q))
    assert_allclose(pieces.decision_function(X), whole.decision_function(X), atol=1e-9)
    assert_array_equal(pieces.mistake_curve_, whole.mistake_curve_)
    assert_array_equal(np.hstack(pieces.mistakes_), np.hstack(whole.mistakes_))
    assert_array_equal(pieces.support_, whole.support_)
    assert_array_equal(pieces.counts_, whole.counts_)
    bound = mistake_bound(pieces, X, y)
    assert np.all(bound.mistakes <= bound.bound)


@pytest.mark.parametrize("variant", ["plain", "averaged"])
def test_batches_are_one_pass_in_pieces_in_the_primal_too(variant):
    X, y = whole_numbers(14, 70), np.random.default_rng(15).integers(0, 3, 70)
    whole = Perceptron(variant=variant, shuffle=False, max_iter=1, eta0=0.5)
    with pytest.warns(ConvergenceWarning):
        whole.fit(X, y)
    pieces = Perceptron(variant=variant, eta0=0.5)
    for rows in (slice(0, 33), slice(33, 70)):
        pieces.partial_fit(sp.csr_array(X[rows]), y[rows], classes=[0, 1, 2])
    assert_allclose(pieces.coef_, whole.coef_, atol=1e-12)
    assert_allclose(pieces.intercept_, whole.intercept_, atol=1e-12)
    assert_array_equal(pieces.mistake_curve_, whole.mistake_curve_)


ROAD = "mercer.machines.perceptron.steps_on_features"
DNA = ["".join(np.random.default_rng(i).choice(list("acgt"), 12)) for i in range(40)]
REAL = np.random.default_rng(3).normal(size=(60, 3))
ON_FEATURES = [
    (Linear(), whole_numbers(0, 60), {}),
    (Linear(), REAL, {"fit_intercept": True, "variant": "averaged"}),
    (Polynomial(2), REAL, {"fit_intercept": True}),
    (Linear() * Linear() + 4, sp.csr_array(whole_numbers(1, 60, zeros=0.6)), {}),
    (Spectrum(2), DNA, {"variant": "averaged"}),
    (Spectrum(2) * Spectrum(1), DNA, {"fit_intercept": True, "variant": "voted"}),
]


@quiet
@pytest.mark.parametrize("kernel, points, options", ON_FEATURES)
@pytest.mark.parametrize("q", [2, 3])
def test_on_features_it_makes_the_mistakes_it_makes_on_points(
    kernel, points, options, q, monkeypatch
):
    n = points.shape[0] if hasattr(points, "shape") else len(points)
    y = np.random.default_rng(7).integers(0, q, n)
    half = n // 2
    roads = []
    # The last begins on points, and goes on on features.
    for choices in ([False] * 3, [True] * 3, [False, True, True]):
        left = iter(choices)
        monkeypatch.setattr(ROAD, lambda kernel, X, passes, left=left: next(left))
        machine = KernelPerceptron(kernel, max_iter=4, random_state=0, **options)
        machine.fit(points[:half], y[:half])
        assert (machine._primal is not None) == choices[0]
        for part in (slice(half, half + 3), slice(half + 3, n)):
            machine.partial_fit(points[part], y[part])
        assert (machine._primal is not None) == choices[1]
        roads.append(machine)
    expected = roads[0]
    values = expected.decision_function(points)
    for machine in roads[1:]:
        assert listed(machine._mistakes) == listed(expected._mistakes)
        assert_array_equal(machine.counts_, expected.counts_)
        assert_array_equal(machine.expansion_.coef, expected.expansion_.coef)
        found = machine.decision_function(points)
        assert_allclose(found, values, rtol=1e-9, atol=1e-9)
        assert_array_equal(
            pickle.loads(pickle.dumps(machine)).decision_function(points), found
        )
        assert machine.kernel_ == expected.kernel_


def test_a_stream_may_bring_columns_that_were_not_there_before():
    machine = KernelPerceptron(Spectrum(3))
    words = ["aaaa", "bbbb", "abab", "ccc", "zzzz", "xyxyx", "aaab", ""]
    y = np.array([0, 1, 0, 1, 1, 0, 0, 1])
    for i, word in enumerate(words):
        machine.partial_fit([word], y[i : i + 1], classes=[0, 1])
    assert machine._primal is not None
    K = Spectrum(3)(words)
    sign = np.where(y == 1, 1, -1)[:, None]
    missed = naive.kernel_mistakes(K, sign, [range(len(words))])
    assert_array_equal(machine.mistakes_, [point for point, *_ in missed])
    new = ["aab", "bbbzzz", "unseen", "q"]
    assert_allclose(machine.decision_function(new), machine.expansion_(new))


def test_the_choice_of_features_keeps_ties():
    whole = whole_numbers(0, 3000)
    many = np.random.default_rng(0).normal(size=(3000, 4))
    assert steps_on_features(Linear(), whole, 10)
    assert steps_on_features(Polynomial(2), many, 10)
    # (⟨x, y⟩ + 1)² of whole numbers is exact, its features are not.
    assert not steps_on_features(Polynomial(2), whole, 10)
    assert not steps_on_features(Linear(), whole[:100], 10)
    assert steps_on_features(Linear(), whole[:1], None)  # a stream
    assert not steps_on_features(RBF(1.0), many, 10)
    assert not steps_on_features(Linear() ** 9, np.tile(many, 5), 10)
    # √2 is the feature of a constant 2.
    assert not steps_on_features(Linear() + 2, whole, 10)


def test_a_stream_of_strings_is_learnt():
    words, y = ["abab", "cdcd", "abba", "dccd", "baba", "cddc"], [0, 1, 0, 1, 0, 1]
    machine = KernelPerceptron(Spectrum(2))
    for word, side in zip(words, y, strict=True):
        machine.partial_fit([word], [side], classes=[0, 1])
    assert_array_equal(machine.predict(["ababab", "cdccd"]), [0, 1])
    assert machine.mistakes_.tolist()[:2] == [0, 1]
    assert machine.expansion_.points[0] == "abab"


def products(A, B):
    return A @ B.T


def state(machine):
    return pickle.dumps({k: v for k, v in vars(machine).items() if k.endswith("_")})


@pytest.mark.parametrize("machine", [KernelPerceptron(RBF(1.0)), Perceptron()])
def test_a_batch_with_nan_leaves_the_machine_as_it_was(machine):
    X, y = blobs(7)
    bad = X[:5].copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        machine.partial_fit(bad, y[:5], classes=[-1, 1])
    machine.partial_fit(X, y, classes=[-1, 1])
    before = state(machine)
    with pytest.raises(ValueError, match="NaN"):
        machine.partial_fit(bad, y[:5])
    with pytest.raises(ValueError, match="features"):
        machine.partial_fit(np.ones((2, 3)), y[:2])
    assert state(machine) == before
    machine.partial_fit(X[:3], y[:3])


def test_records_with_nan_leave_the_machine_as_it_was():
    records = [{"x": float(i), "word": "a"} for i in range(6)]
    y = np.array([0, 0, 0, 1, 1, 1])
    kernel = On("x", BlockFunction(products))
    machine = KernelPerceptron(kernel).partial_fit(records, y, classes=[0, 1])
    before = state(machine)
    with pytest.raises(ValueError, match="missing"):
        machine.partial_fit([{"x": float("nan"), "word": "b"}], [1])
    assert state(machine) == before


def test_classes_are_named_first_and_kept():
    X, y = blobs(8)
    with pytest.raises(ValueError, match="first call"):
        KernelPerceptron().partial_fit(X, y)
    machine = KernelPerceptron().partial_fit(X, y, classes=[-1, 1])
    with pytest.raises(ValueError, match=r"\[7\].*not among the classes"):
        machine.partial_fit(X, np.full(len(X), 7))
    with pytest.raises(ValueError, match="not the same as on last call"):
        machine.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="greater than one"):
        KernelPerceptron().fit(X, np.ones(len(X)))


def test_a_warm_start_goes_on_where_it_was():
    X, y = whole_numbers(16, 60), sides(17, 60)[:, 0]
    options = {"kernel": SQUARED, "shuffle": False}
    together = KernelPerceptron(max_iter=4, **options)
    apart = KernelPerceptron(max_iter=2, warm_start=True, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        together.fit(X, y)
        apart.fit(X, y).fit(X, y)
        afresh = KernelPerceptron(max_iter=2, **options).fit(X, y).fit(X, y)
    assert_array_equal(apart.mistakes_ % 60, together.mistakes_)
    assert_allclose(apart.decision_function(X), together.decision_function(X))
    assert_array_equal(apart.mistake_curve_, together.mistake_curve_)
    assert len(afresh.mistakes_) < len(together.mistakes_)


def test_a_warm_start_refuses_points_of_another_kind_and_may_change_its_variant():
    X, y = blobs(14, gap=4)
    for kind in (KernelPerceptron, Perceptron):
        # By chance another order of the points may give the very same average.
        machine = kind(warm_start=True, random_state=0).fit(X, y)
        with pytest.raises(ValueError, match="features"):
            machine.fit(np.ones((2, 3)), y[:2])
        machine.set_params(variant="averaged").fit(X, y)
        averaged = clone(machine).set_params(warm_start=False, shuffle=False)
        assert machine.score(X, y) == averaged.fit(X, y).score(X, y) == 1
        assert (machine.decision_function(X) != averaged.decision_function(X)).any()


def test_kernel_values_cannot_go_on():
    X, y = blobs(9, gap=4)
    machine = KernelPerceptron("precomputed").fit(Linear()(X), y)
    assert not hasattr(machine, "partial_fit")
    with pytest.raises(ValueError, match=r"Precomputed\(matrix\)"):
        machine.set_params(warm_start=True).fit(Linear()(X), y)
    indexed = KernelPerceptron(Precomputed(Linear()(X)))
    indexed.partial_fit(np.arange(40), y[:40], classes=[-1, 1])
    indexed.partial_fit(np.arange(40, 80), y[40:])
    assert (indexed.predict(np.arange(80)) == y).mean() > 0.95


# The primal


@looped("form", [np.asarray, sp.csr_array, np.float32])
@looped("fit_intercept", [False, True])
def test_the_primal_makes_the_mistakes_of_the_loop(form, fit_intercept):
    X, sign = whole_numbers(18, 200, 12), sides(19, 200)[:, 0]
    features = np.hstack([X, np.ones((200, 1))]) if fit_intercept else X
    path, expected = naive.primal(features, sign, [np.arange(200)] * 3, eta=0.25)
    machine = Perceptron(
        eta0=0.25, fit_intercept=fit_intercept, shuffle=False, max_iter=3
    )
    with pytest.warns(ConvergenceWarning):
        machine.fit(form(X), sign)
    assert machine.mistakes_.tolist() == expected
    assert_array_equal(machine.coef_[0], path[-1][:12])
    assert machine.intercept_[0] == (path[-1][12] if fit_intercept else 0)
    assert_allclose(machine.decision_function(X), features @ path[-1])


def test_the_learning_rate_scales_w_and_changes_no_mistake():
    X, y = blobs(10, gap=0.7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one = Perceptron(max_iter=5, random_state=0).fit(X, y)
        small = Perceptron(max_iter=5, random_state=0, eta0=0.125).fit(X, y)
    assert_array_equal(one.mistakes_, small.mistakes_)
    assert_array_equal(0.125 * one.coef_, small.coef_)


@quiet
def test_the_primal_is_the_kernel_machine_with_the_linear_kernel():
    X, y = load_iris(return_X_y=True)
    X = np.round(10 * X)
    options = {"fit_intercept": True, "random_state": 3, "max_iter": 6}
    primal = Perceptron(**options).fit(X, y)
    dual = KernelPerceptron(Linear(), **options).fit(X, y)
    for one, other in zip(primal.mistakes_, dual.mistakes_, strict=True):
        assert_array_equal(one, other)
    assert_array_equal(primal.decision_function(X), dual.decision_function(X))
    assert primal.kernel_ == dual.kernel_


def test_scikit_learns_perceptron_ends_with_the_same_w():
    # Whole numbers, so that both see a score of 0 where there is one; both count it.
    X, sign = whole_numbers(20, 120, 5), None
    w = np.array([2, -1, 1, 0, 1])
    X = X[np.abs(X @ w) > 0]
    sign = np.sign(X @ w)
    ours = Perceptron(fit_intercept=False, shuffle=False).fit(X, sign)
    theirs = ReferencePerceptron(
        fit_intercept=False, shuffle=False, tol=None, max_iter=ours.n_iter_
    ).fit(X, sign)
    assert ours.run_.status == "optimal"
    assert_array_equal(ours.coef_, theirs.coef_)


# The bound


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(2, 30),
    st.floats(0.01, 100),
    st.sampled_from([Linear(), SQUARED, RBF(0.5), RBF(0.1) + 1.0]),
    st.integers(1, 5),
)
def test_the_bound_always_holds(seed, n, C, kernel, passes):
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(n, 2)), random.permutation(np.arange(n) % 2)
    machine = KernelPerceptron(kernel, max_iter=passes, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(X, y)
    bound = mistake_bound(machine, X, y, C=C)
    assert bound.mistakes == machine.n_mistakes_
    assert bound.mistakes <= bound.sharp * (1 + 1e-9) <= bound.bound * (1 + 2e-9)
    # Any w is a comparator, a bad one too.
    w = Expansion(kernel, X, random.normal(size=n))
    assert bound.mistakes <= mistake_bound(machine, X, y, w).bound * (1 + 1e-9)


@quiet
def test_the_bound_holds_for_the_primal_and_for_each_class():
    X, y = load_iris(return_X_y=True)
    for machine in (
        Perceptron(max_iter=5, random_state=0),
        Perceptron(max_iter=5, fit_intercept=False, random_state=0, eta0=7.0),
        KernelPerceptron(max_iter=5, fit_intercept=True, random_state=0),
    ):
        bound = mistake_bound(machine.fit(X, y), X, y)
        assert bound.mistakes.shape == bound.bound.shape == (3,)
        assert (bound.mistakes <= bound.bound).all()


def test_the_comparator_is_the_bias_free_machine():
    X, y = blobs(11, gap=0.6)
    machine = KernelPerceptron(RBF(0.5), max_iter=2, random_state=0)
    with pytest.warns(ConvergenceWarning):
        machine.fit(X, y)
    svm = SVC(C=3.0, kernel=RBF(0.5), fit_intercept=False, tol=1e-6).fit(X, y)
    assert_allclose(
        mistake_bound(machine, X, y, svm).bound,
        mistake_bound(machine, X, y, C=3.0).bound,
        rtol=1e-2,
    )


def test_a_comparator_of_another_space_is_refused():
    X, y = blobs(12, gap=4)
    machine = KernelPerceptron(RBF(0.5)).fit(X, y)
    with pytest.raises(ValueError, match="without bias"):
        mistake_bound(machine, X, y, Expansion(RBF(0.5), X, np.ones(80), 1.0))
    with pytest.raises(ValueError, match="space of the perceptron"):
        mistake_bound(machine, X, y, Expansion(RBF(0.6), X, np.ones(80)))
    with pytest.raises(TypeError, match="Expansion"):
        mistake_bound(machine, X, y, 3)
    with pytest.raises(ValueError, match="all the points"):
        mistake_bound(machine, X[:0], y[:0])
    with pytest.raises(ValueError, match="two classes"):
        mistake_bound(RBF(0.5), X, np.ones(80))


# Looking on


def hard(n=3000):
    random = np.random.default_rng(0)
    return random.normal(size=(n, 30)), random.integers(0, 2, n)


def test_a_callback_sees_the_passes_and_can_stop_them():
    X, y = hard(500)
    seen = []

    def callback(progress):
        seen.append(progress)
        return progress.round == 2

    machine = KernelPerceptron(RBF(0.01), random_state=0, callback=callback)
    with pytest.warns(ConvergenceWarning, match="after 2 .*'stopped'"):
        machine.fit(X, y)
    assert machine.n_iter_ == 2 and not machine.run_.status == "optimal"
    assert [p.round for p in seen] == sorted(p.round for p in seen)
    assert seen[-1].objective == machine.n_mistakes_
    assert seen[-1].iterations == len(machine.mistake_curve_)
    machine.predict(X[:2])


def test_verbose_says_how_far_it_is(capsys):
    X, y = blobs(13, gap=4)
    KernelPerceptron(verbose=True, random_state=0).fit(X, y)
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith("[KernelPerceptron] point ")
    assert "passes" in line and "mistakes" in line


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_leaves_what_was_learnt_before():
    X, y = hard()
    machine = KernelPerceptron(RBF(0.01), max_iter=100_000, random_state=0)
    machine.partial_fit(X[:100], y[:100], classes=[0, 1])
    before = state(machine)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    begin = time.process_time()
    try:
        with pytest.raises(KeyboardInterrupt):
            machine.fit(X, y)
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, previous)
    assert time.process_time() - begin < 5  # of work, where all of it takes minutes
    assert state(machine) == before


# Real data

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[3] / "shared" / "data"
)


@quiet
def test_usps_digits_are_read_by_the_averaged_machine():
    path = DATA / "usps.npz"
    if not path.exists():
        pytest.skip(f"needs {path.name} in the folder MERCER_DATA names")
    with np.load(path, allow_pickle=False) as file:
        X, y = 2 * file["X_train"].astype(np.float32) - 1, file["y_train"]
        X_test, y_test = 2 * file["X_test"].astype(np.float32) - 1, file["y_test"]
    machine = KernelPerceptron(
        Polynomial(4, scale=1 / 256, offset=0.0),
        variant="averaged",
        max_iter=2,
        random_state=0,
    )
    error = 1 - machine.fit(X, y).score(X_test, y_test)
    assert error < 0.065
