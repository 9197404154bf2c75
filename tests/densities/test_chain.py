"""MarkovChain and HMM: likelihood over all paths, score, fit, lengths."""

import copy
import pickle
from itertools import product

import naive_densities as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal

from mercer.densities.categories import Categories
from mercer.densities.chain import MarkovChain
from mercer.densities.gaussian import Gaussian
from mercer.densities.hmm import HMM
from mercer.densities.normals import FORMS, Normals

START = [0.2, 0.5, 0.3]
MOVES = [[0.1, 0.6, 0.3], [0.5, 0.25, 0.25], [0.3, 0.3, 0.4]]
CHAIN = MarkovChain("abc", START, MOVES, length=4)
TABLE = [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]
HIDDEN = HMM(
    2, Categories("abc", TABLE), [0.6, 0.4], [[0.9, 0.1], [0.3, 0.7]], length=4
)

strings = st.text("abc", max_size=5)
few = settings(max_examples=20, deadline=None)


def all_strings(length):
    return ["".join(s) for s in product("abc", repeat=length)]


def codes(s):
    return ["abc".index(c) for c in s]


def gaussian_hmm(form, d=2):
    covariances = {
        "full": [[[2.0, 0.5], [0.5, 1.0]], [[1.0, -0.3], [-0.3, 0.5]]],
        "tied": [[2.0, 0.5], [0.5, 1.0]],
        "diag": [[2.0, 1.0], [0.5, 1.5]],
        "spherical": [2.0, 0.5],
    }
    emission = Normals(form, [[0.0, 1.0], [1.5, -1.0]], covariances[form])
    return HMM(
        2, emission, [0.6, 0.4], [[0.9, 0.1], [0.3, 0.7]], length={2: 0.5, 5: 0.5}
    )


def series(rng, lengths=(3, 1, 0, 4)):
    return [rng.normal(size=(T, 2)) for T in lengths]


# Chains of symbols


@few
@given(strings)
def test_log_likelihood_of_a_chain_is_the_product_along_it(s):
    exact = naive.value(naive.chain(codes(s), 3), CHAIN.theta)
    assert_allclose(CHAIN.log_likelihood([s]), [exact], rtol=1e-13, atol=1e-15)


@few
@given(strings)
def test_score_of_a_chain_is_the_gradient_of_its_likelihood(s):
    exact = naive.gradient(naive.chain(codes(s), 3), CHAIN.theta)
    assert_allclose(CHAIN.score([s])[0], exact, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("model", [CHAIN, HIDDEN], ids=["chain", "hidden"])
def test_all_sequences_of_a_length_have_probability_one_and_mean_score_zero(model):
    X = all_strings(4)
    p = np.exp(model.log_likelihood(X))
    assert_allclose(p.sum(), 1, rtol=1e-13)
    assert_allclose(p @ model.score(X), 0, atol=1e-13)


@pytest.mark.parametrize("length", [1, 4, {0: 0.25, 2: 0.5, 3: 0.25}])
def test_information_of_a_chain_is_the_mean_over_all_sequences(length):
    model = MarkovChain("abc", START, MOVES, length=length)
    expected = 0.0
    for T, share in (length if isinstance(length, dict) else {length: 1.0}).items():
        X = all_strings(T)
        V = model.score(X)
        expected += share * (V.T * np.exp(model.log_likelihood(X))) @ V
    assert_allclose(model.information(), expected, rtol=1e-12, atol=1e-14)


def test_a_chain_is_fitted_by_counting():
    fitted = MarkovChain(smoothing=0).fit(["aab", "ba", "", "b"])
    assert fitted.symbols == ["a", "b"]
    assert_allclose(fitted.start, [1 / 3, 2 / 3])
    assert_allclose(fitted.transition, [[1 / 2, 1 / 2], [1, 0]])
    assert fitted.length == {0: 0.25, 1: 0.25, 2: 0.25, 3: 0.25}
    smooth = MarkovChain(smoothing=1).fit(["aab", "ba", "", "b"])
    assert_allclose(smooth.transition, [[2 / 4, 2 / 4], [2 / 3, 1 / 3]])


def test_a_chain_counts_weights():
    weighted = MarkovChain().fit(["aab", "ba", "b"], [2, 0, 1])
    assert weighted == MarkovChain().fit(["aab", "aab", "b"])


def test_moves_that_cannot_happen_have_no_coordinates():
    model = MarkovChain("ab", [1.0, 0.0], [[0.5, 0.5], [1.0, 0.0]], length=3)
    assert model.names() == ["log odds of 'a' → 'a'"]
    assert_array_equal(
        model.log_likelihood(["ab", "abb", "ba"]) > -np.inf, [True, False, False]
    )
    assert model.score(["aab"]).shape == (1, 1)
    with pytest.raises(ValueError, match="gives point 1 the probability 0"):
        model.score(["ab", "abb"])


@looped(
    "X",
    [
        ["🦋a🦋", "a", "é🦋"],
        [(1, 2), ["x", None, (3, 4)], []],
        np.array([[0, 1, 2], [2, 2, 1]]),
        [np.array([0.5, 1.5]), np.array([0.5])],
    ],
    ids=["beyond the basic plane", "mixed symbols", "an array", "arrays"],
)
@looped("model", [MarkovChain(), HMM(2, Categories())],
                         ids=["chain", "hidden"])  # fmt: skip
def test_symbols_are_anything_hashable(model, X):
    fitted = model.fit(X)
    assert np.isfinite(fitted.log_likelihood(X)).all()
    assert np.isfinite(fitted.score(X)).all()


def test_samples_of_a_chain_are_its_sequences():
    drawn = CHAIN.sample(4000, seed=1)
    assert drawn == CHAIN.sample(4000, seed=1) != CHAIN.sample(4000, seed=2)
    assert {len(s) for s in drawn} == {4}
    again = MarkovChain("abc", smoothing=0).fit(drawn)
    assert_allclose(again.transition, MOVES, atol=0.03)
    tokens = MarkovChain(["x", "yy"], [0.5, 0.5], [[0.5, 0.5]] * 2, length=2).sample(1)
    assert isinstance(tokens[0], list) and len(tokens[0]) == 2


# Hidden chains


@few
@given(strings)
def test_likelihood_of_a_hidden_chain_is_the_sum_over_all_paths(s):
    exact = naive.hidden_chain(codes(s), 2, naive.symbols(2, 3))
    assert_allclose(HIDDEN.log_likelihood([s]), [naive.value(exact, HIDDEN.theta)],
                    rtol=1e-13, atol=1e-15)  # fmt: skip


@few
@given(strings)
def test_score_of_a_hidden_chain_is_the_gradient_of_its_likelihood(s):
    exact = naive.hidden_chain(codes(s), 2, naive.symbols(2, 3))
    assert_allclose(HIDDEN.score([s])[0], naive.gradient(exact, HIDDEN.theta),
                    rtol=1e-11, atol=1e-13)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_hidden_chains_of_vectors_agree_with_the_sum_over_paths(rng, form):
    model, X = gaussian_hmm(form), series(rng)
    X[0][1, 0] = X[3][2] = np.nan  # a coordinate, and a whole observation
    exact = [naive.hidden_chain(x, 2, naive.vectors(2, 2, form)) for x in X]
    values = [naive.value(f, model.theta) for f in exact]
    assert_allclose(model.log_likelihood(X), values, rtol=1e-12, atol=1e-15)
    gradients = [naive.gradient(f, model.theta) for f in exact]
    assert_allclose(model.score(X), gradients, rtol=1e-10, atol=1e-12)


def test_sequences_of_numbers_are_vectors_of_one_coordinate(rng):
    model = HMM(2, Normals("diag")).fit([rng.normal(size=5), rng.normal(size=8)])
    x = rng.normal(size=4)
    assert_array_equal(model.score([x]), model.score([x[:, None]]))
    assert_array_equal(model.score([x.tolist()]), model.score([x]))


def test_sequences_together_are_scored_as_each_alone(rng, monkeypatch):
    model, X = gaussian_hmm("full"), series(rng, (7, 2, 0, 5, 5, 1))
    alone = np.vstack([model.score([x]) for x in X])
    assert_allclose(model.score(X), alone, rtol=1e-11, atol=1e-13)
    monkeypatch.setattr("mercer.densities.passes.BLOCK", 40)
    assert_allclose(model.score(X), alone, rtol=1e-11, atol=1e-13)
    assert_allclose(model.log_likelihood(X), [model.log_likelihood([x])[0] for x in X],
                    rtol=1e-12)  # fmt: skip


def test_states_with_a_symbol_each_are_a_markov_chain():
    model = HMM(3, Categories("abc", np.eye(3)), START, MOVES)
    X = ["abca", "", "c", "bbbbbb"]
    assert_allclose(model.log_likelihood(X), CHAIN.log_likelihood(X), rtol=1e-13)
    assert_allclose(model.score(X), CHAIN.score(X), rtol=1e-12, atol=1e-14)


def test_one_state_is_a_product_of_its_emissions(rng):
    model = HMM(
        1, Normals("full", [[0.0, 1.0]], [[[2.0, 0.5], [0.5, 1.0]]]), [1.0], [[1.0]]
    )
    single = Gaussian([0.0, 1.0], [[2.0, 0.5], [0.5, 1.0]])
    x = rng.normal(size=(6, 2))
    assert_allclose(
        model.log_likelihood([x]), single.log_likelihood(x).sum(), rtol=1e-13
    )
    assert_allclose(model.score([x])[0], single.score(x).sum(axis=0), rtol=1e-12)


def test_long_sequences_and_unlikely_values_do_not_underflow(rng):
    long = "".join(rng.choice(list("abc"), size=10_000))
    [value] = HIDDEN.log_likelihood([long])
    assert -15_000 < value < -7_500
    assert np.isfinite(HIDDEN.score([long])).all()
    far = [np.array([[1e4, 1e4], [-1e4, 0.0], [0.0, 0.0]])]
    exact = naive.hidden_chain(far[0], 2, naive.vectors(2, 2, "diag"))
    model = gaussian_hmm("diag")
    assert_allclose(
        model.log_likelihood(far), naive.value(exact, model.theta), rtol=1e-13
    )
    assert_allclose(model.score(far)[0], naive.gradient(exact, model.theta),
                    rtol=1e-9, atol=1e-9)  # fmt: skip


def test_a_path_that_only_a_tiny_density_leaves_open_is_found():
    # From state 0 only to 1; the first value is 1e3 deviations from state 0.
    model = HMM(2, Normals("spherical", [[0.0], [2000.0]], [1.0, 1.0]),
                [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]])  # fmt: skip
    [value] = model.log_likelihood([[1000.0, 0.0]])
    exact = np.log(0.5) - 2 * 0.5 * np.log(2 * np.pi) - 0.5 * 1000.0**2
    assert_allclose(value, exact, rtol=1e-13)


# Fit


@pytest.mark.parametrize("smoothing", [0.3, 2.0])
@pytest.mark.parametrize("form", FORMS)
def test_no_step_of_a_fit_to_vectors_goes_down(rng, form, smoothing):
    X = series(rng, (5, 8, 3, 0, 9, 6))
    X[0][1, 0] = X[1][2, 1] = np.nan
    fitted = HMM(3, Normals(form), smoothing=smoothing, tol=1e-8).fit(X)
    path = np.array(fitted.report.path)
    assert len(path) > 2
    assert (np.diff(path) >= -1e-9 * np.abs(path[1:])).all()


def test_no_step_of_a_fit_to_symbols_goes_down():
    fitted = HMM(2, Categories(), tol=1e-9).fit(HIDDEN.sample(40, seed=1))
    assert (np.diff(fitted.report.path) >= -1e-9).all()
    assert fitted.report.n_iter > 2


def test_the_scores_of_the_fitted_sequences_add_up_to_zero():
    model = gaussian_hmm("diag")
    X = model.sample(150, seed=5)
    start = [[-0.5, 1.0], [1.0, -0.5]], [[1.0, 1.0], [1.0, 1.0]]
    fitted = HMM(2, Normals("diag", *start), smoothing=0, tol=1e-13, max_iter=5000).fit(
        X
    )
    V = fitted.score(X)
    assert fitted.report.converged
    assert_allclose(V.sum(axis=0) / np.sqrt((V**2).sum(axis=0)), 0, atol=1e-3)


def test_a_fit_finds_the_model_that_made_the_sequences():
    emission = Normals("diag", [[-2.0], [2.0]], [[1.0], [0.5]])
    model = HMM(2, emission, [0.8, 0.2], [[0.9, 0.1], [0.3, 0.7]], length=30)
    fitted = HMM(2, Normals("diag"), seed=1).fit(model.sample(100, seed=1))
    order = np.argsort(np.asarray(fitted.emission.means)[:, 0])
    moves = np.asarray(fitted.transition)[np.ix_(order, order)]
    assert_allclose(np.asarray(fitted.emission.means)[order], [[-2], [2]], atol=0.1)
    assert_allclose(moves, model.transition, atol=0.05)


def test_what_is_zero_stays_zero(rng):
    moves = [[0.8, 0.2, 0.0], [0.0, 0.8, 0.2], [0.0, 0.0, 1.0]]
    X = [np.r_[np.zeros(4), np.full(4, 5.0), np.full(4, 9.0)] + rng.normal(size=12)
         for _ in range(10)]  # fmt: skip
    fitted = HMM(3, transition=moves).fit(X)
    assert_array_equal(np.asarray(fitted.transition) == 0, np.array(moves) == 0)
    assert_array_equal(fitted.start, [1, 0, 0])
    assert_allclose(np.ravel(fitted.emission.means), [0, 5, 9], atol=0.7)
    assert len(fitted.theta) == 0 + 2 + 3 + 3
    assert np.isfinite(fitted.score(X)).all()


def test_a_weight_of_two_is_the_sequence_twice(rng):
    X = series(rng, (4, 6, 5, 3))
    weighted = HMM(2).fit(X, [2, 1, 0, 1])
    repeated = HMM(2).fit([X[0], X[0], X[1], X[3]])
    assert_allclose(weighted.theta, repeated.theta, rtol=1e-8, atol=1e-8)
    assert weighted.length == {3: 0.25, 4: 0.5, 6: 0.25} == repeated.length


def test_a_hidden_chain_is_a_value(rng):
    X = series(rng, (4, 6, 5, 3))
    fitted = HMM(2, seed=2).fit(X)
    assert fitted == HMM(2, seed=2).fit(X)
    for twin in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        assert twin == fitted
    assert_allclose(fitted.at(fitted.theta).theta, fitted.theta, rtol=1e-12)
    assert len(set(fitted.names())) == len(fitted.theta)
    assert HMM(2) != fitted and not HMM(2).fitted


def test_samples_of_a_hidden_chain_have_the_lengths_of_the_fit(rng):
    fitted = HMM(2).fit(series(rng, (3, 7, 7)))
    drawn = fitted.sample(300, seed=1)
    lengths = np.array([len(x) for x in drawn])
    assert set(lengths) == {3, 7} and 0.55 < np.mean(lengths == 7) < 0.78
    assert all(x.shape == (len(x), 2) for x in drawn)
    assert fitted.sample(0) == []


# Errors


@looped(
    "make, message",
    [
        (lambda: MarkovChain("aa"), "symbols as a list without repetition"),
        (lambda: MarkovChain(None, [1.0], [[1.0]]), "needs their symbols"),
        (lambda: MarkovChain("ab", [1.0], [[1.0]]), r"start of shape \(2,\)"),
        (lambda: MarkovChain("ab", [0.5, 0.6], np.eye(2)), "sum to 1"),
        (lambda: MarkovChain(length=-1), "length=-1"),
        (lambda: MarkovChain(length={3: 0.5}), "length=.3: 0.5."),
        (lambda: MarkovChain().score(["a"]), "has no parameters yet"),
        (lambda: MarkovChain().fit(["", ""]), "all of them are empty"),
        (lambda: CHAIN.score(["abd"]), "point 0 has 'd'"),
        (lambda: MarkovChain("ab", [1.0, 0.0], np.eye(2)).sample(1), "pass length"),
        (lambda: HMM(0), "states ≥ 1; got states=0"),
        (lambda: HMM(2, transition=np.eye(3)), r"transition of shape \(2, 2\)"),
        (lambda: HMM(3, Categories("abc", TABLE)), "as many emissions; got 2"),
        (lambda: Categories("ab", TABLE), "number of symbols"),
        (lambda: HMM(2).fit([[], []]), "not empty"),
        (
            lambda: gaussian_hmm("diag").score([[[1.0]]]),
            "dimension 2; those of point 0",
        ),
        (lambda: HMM(2).fit([[1.0, np.inf]]), "point 1 has inf"),
        (lambda: HMM(2).fit([[1.0]], [0.0]), "one weight ≥ 0"),
    ],
)
def test_what_is_wrong_is_said(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@looped(
    "make, message",
    [
        (lambda: HMM(2, "gaussian"), r"Normals\(...\) or Categories\(...\)"),
        (lambda: HMM(2).fit(["abc"]), "For symbols use HMM"),
        (lambda: HMM(2).fit([np.zeros((2, 2, 2))]), r"shape \(2, 2, 2\)"),
        (lambda: CHAIN.score(["a", 1.5]), r"point 1 is a float \(1.5\)"),
        (lambda: CHAIN.score([["a", ["b"]]]), "hashable"),
        (lambda: CHAIN.score("abc"), "Wrap a single point"),
    ],
)
def test_points_of_the_wrong_kind_are_refused(make, message):
    with pytest.raises(TypeError, match=message):
        make()
