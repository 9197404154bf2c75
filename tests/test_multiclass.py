"""Several classes from two-class problems, and probabilities from the values of f."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize, minimize_scalar
from sklearn.utils.multiclass import _ovr_decision_function

from mercer import calibration, multiclass
from mercer.kernels.vector import Linear

LABEL = np.array([0, 2, 1, 1, 0, 2, 2, 3])


# Two-class problems


def test_two_classes_are_one_problem_with_the_second_positive():
    [part] = multiclass.parts(np.array([1, 0, 1]), 2)
    assert np.arange(3)[part.index].tolist() == [0, 1, 2]
    assert part.sign.tolist() == [1, -1, 1]


def test_one_against_one_has_a_problem_for_every_pair():
    found = multiclass.parts(LABEL, 4)
    assert len(found) == 6
    for part, (i, j) in zip(found, combinations(range(4), 2), strict=True):
        assert set(LABEL[part.index[part.sign > 0]]) == {i}
        assert set(LABEL[part.index[part.sign < 0]]) == {j}
        assert len(part.index) == np.isin(LABEL, [i, j]).sum()


def test_one_against_the_rest_has_a_problem_for_every_class():
    for k, part in enumerate(multiclass.parts(LABEL, 4, "ovr")):
        assert np.array_equal(part.sign > 0, LABEL == k)
        assert np.array_equal(np.arange(8)[part.index], np.arange(8))


def test_scores_are_those_of_scikit_learn():
    values = np.random.default_rng(0).normal(size=(50, 10))
    values[:3] = 0
    expected = _ovr_decision_function(values < 0, -values, 5)
    assert_allclose(multiclass.scores(values, 5), expected, atol=1e-14)


def test_votes_count_the_pairs_won():
    values = np.array([[1.0, -2.0, 3.0], [-1.0, -1.0, 0.0]])
    assert multiclass.votes(values, 3).tolist() == [[1, 1, 1], [0, 1, 2]]


def test_a_tie_is_the_same_where_coefficients_are_by_rival():
    points, label = np.ones((8, 2)), np.sort(LABEL)
    bias = np.array([0.0, 1.0, 0.0, -1.0, 0.0, 0.0])
    pairs = multiclass.PairExpansion(Linear(), points, label, np.zeros((8, 3)), bias)
    values = pairs(points[:3])
    assert values.tolist() == [bias.tolist()] * 3
    assert pairs.votes(points[:3]).tolist() == multiclass.votes(values, 4).tolist()
    assert pairs.scores(points[:3]).tolist() == multiclass.scores(values, 4).tolist()


def test_the_largest_probability_is_that_of_the_winner_where_all_round_to_0_or_1():
    classes = multiclass.Classes(np.array(["bird", "cat", "dog"]), "ovr")
    odds = np.array([[40.0, 50.0, 60.0], [-900.0, -800.0, -850.0], [0.5, -1.0, 2.0]])
    p = classes.probabilities(odds)
    assert np.argmax(p, axis=1).tolist() == classes.winners(odds).tolist() == [2, 1, 2]
    assert (p > 0).all()
    assert_allclose(p.sum(axis=1), 1, rtol=1e-14)


def test_coefficients_by_rival_say_what_those_by_pair_say():
    rng = np.random.default_rng(1)
    coef = np.zeros((8, 6))
    for j, part in enumerate(multiclass.parts(LABEL, 4)):
        coef[part.index, j] = rng.normal(size=len(part.index))
    rows = multiclass.by_rival(coef, LABEL, 4)
    assert rows.shape == (3, 8)
    for j, (a, b) in enumerate(combinations(range(4), 2)):
        assert np.array_equal(rows[b - 1, LABEL == a], coef[LABEL == a, j])
        assert np.array_equal(rows[a, LABEL == b], coef[LABEL == b, j])


# Probabilities


def test_sigmoid_is_the_most_likely_one():
    rng = np.random.default_rng(2)
    values = rng.normal(size=300)
    sign = np.where(rng.random(300) < 1 / (1 + np.exp(-2 * values)), 1.0, -1.0)
    A, B = calibration.sigmoid(values, sign)
    above = values > 0
    hits, misses = (sign[above] > 0).sum(), (sign[above] < 0).sum()
    target = np.where(sign[above] > 0, (hits + 1) / (hits + 2), 1 / (misses + 2))

    def loss(slope):
        p = 1 / (1 + np.exp(-slope * values[above]))
        return -np.sum(target * np.log(p) + (1 - target) * np.log(1 - p))

    best = minimize_scalar(loss, bounds=(1e-6, 8), method="bounded").x
    assert_allclose(-(A + B), best, rtol=1e-3)


def test_sigmoid_counts_weights_as_repetition():
    rng = np.random.default_rng(3)
    values, sign = rng.normal(size=40), np.sign(rng.normal(size=40))
    times = rng.integers(0, 4, 40)
    expected = calibration.sigmoid(np.repeat(values, times), np.repeat(sign, times))
    kept = times > 0
    found = calibration.sigmoid(values[kept], sign[kept], times[kept].astype(float))
    assert_allclose(found, expected, rtol=1e-9)


def test_probability_is_a_half_at_0_and_grows_with_f():
    rng = np.random.default_rng(4)
    for sign in (np.ones(30), -np.ones(30), np.sign(rng.normal(size=30))):
        A, B = calibration.sigmoid(rng.normal(size=30), sign)
        grid = np.linspace(-3, 3, 101)
        p = calibration.probability(grid, A, B)
        assert p[50] == 0.5
        assert np.all(np.diff(p) > 0)


def test_coupled_probabilities_minimise_what_they_should():
    rng = np.random.default_rng(5)
    pairs = rng.uniform(0.05, 0.95, size=(6, 6))
    found = calibration.coupled(pairs, 4)
    assert_allclose(found.sum(axis=1), 1)
    for row, p in zip(pairs, found, strict=True):
        r = np.zeros((4, 4))
        for value, (i, j) in zip(row, combinations(range(4), 2), strict=True):
            r[i, j], r[j, i] = value, 1 - value

        def loss(p, r=r):
            return np.sum((r.T * p[:, None] - r * p[None]) ** 2)

        best = minimize(
            loss,
            np.full(4, 0.25),
            bounds=[(0, 1)] * 4,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        assert_allclose(p, best.x, atol=1e-5)


def test_coupling_recovers_probabilities_from_consistent_pairs():
    p = np.array([[0.5, 0.2, 0.2, 0.1], [0.97, 0.01, 0.01, 0.01]])
    pairs = np.column_stack(
        [p[:, i] / (p[:, i] + p[:, j]) for i, j in combinations(range(4), 2)]
    )
    assert_allclose(calibration.coupled(pairs, 4), p, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_agreeing_probabilities_are_the_nearest_that_agree(seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(4), size=5)
    predicted = rng.integers(0, 4, 5)
    found = calibration.agreeing(p, predicted)
    assert_allclose(found.sum(axis=1), 1, atol=1e-12)
    assert np.array_equal(np.argmax(found, axis=1), predicted)
    same = np.argmax(p, axis=1) == predicted
    assert np.array_equal(found[same], p[same])
    # No other distribution that agrees is nearer: try mixtures with random ones.
    for row, near, winner in zip(p, found, predicted, strict=True):
        for other in rng.dirichlet(np.ones(4), size=20):
            other[[winner, np.argmax(other)]] = other[[np.argmax(other), winner]]
            step = near + 0.1 * (other - near)
            assert np.sum((step - row) ** 2) >= np.sum((near - row) ** 2) - 1e-12


def test_even_probabilities_are_tipped_by_the_prediction():
    p = np.array([[0.5, 0.5], [0.5, 0.5]])
    found = calibration.agreeing(p, np.array([0, 1]))
    assert np.argmax(found, axis=1).tolist() == [0, 1]
    assert_allclose(found, 0.5, atol=1e-14)


@pytest.mark.parametrize("values", [np.zeros(0), np.zeros(4)])
def test_sigmoid_of_values_that_say_nothing_is_plain(values):
    A, B = calibration.sigmoid(values, np.ones(len(values)))
    assert (A, B) == (-1.0, 0.0)


def test_at_f_0_the_second_of_two_classes_wins():
    # As scikit-learn's SVC has it.
    classes = multiclass.Classes(np.array(["a", "b"]))
    assert classes.winners(np.array([0.0, -0.0, -1e-300, 1.0])).tolist() == [1, 1, 0, 1]
