"""Losses against their definitions: suprema on a grid, differences, corners."""

import math

import numpy as np
import pytest
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal

from mercer.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    PerceptronLoss,
    Quantile,
    Squared,
    SquaredHinge,
    ZeroOne,
)


def definitions(y, f):
    """Each loss as it is written on paper, of two numbers."""
    r = y - f
    return {
        PerceptronLoss(): max(0, -y * f),
        Hinge(): max(0, 1 - y * f),
        SquaredHinge(): max(0, 1 - y * f) ** 2,
        Logistic(): math.log(1 + math.exp(-y * f)),
        Squared(): r**2,
        EpsilonInsensitive(0.3): max(0, abs(r) - 0.3),
        EpsilonInsensitive(0.0): abs(r),
        Huber(0.7): r**2 / 2 if abs(r) <= 0.7 else 0.7 * (abs(r) - 0.35),
        Quantile(0.2): 0.2 * r if r > 0 else -0.8 * r,
    }


LOSSES = list(definitions(1, 0))
on_losses = looped("loss", LOSSES, ids=repr)
GRID = np.linspace(-40, 40, 160_001)


def targets(loss):
    return [-1.0, 1.0] if loss.of_sides else [-1.3, 0.0, 0.8]


@on_losses
def test_a_loss_is_what_its_definition_says(loss):
    for y in targets(loss):
        for f in [-3.0, -1.0, -0.2, 0.0, 0.5, 1.0, 2.7]:
            assert_allclose(loss.value(y, f), definitions(y, f)[loss], atol=1e-15)


@on_losses
def test_the_slope_is_the_difference_quotient_off_the_corners(loss):
    f = np.linspace(-2.05, 2.05, 30)
    h = 1e-6
    for y in targets(loss):
        quotient = (loss.value(y, f + h) - loss.value(y, f - h)) / (2 * h)
        assert_allclose(loss.slope(y, f), quotient, atol=1e-6)


@on_losses
def test_the_curvature_is_the_slope_of_the_slope(loss):
    f = np.linspace(-2.05, 2.05, 30)
    h = 1e-6
    for y in targets(loss):
        quotient = (loss.slope(y, f + h) - loss.slope(y, f - h)) / (2 * h)
        assert_allclose(loss.curvature(y, f), quotient, atol=1e-6)
    assert loss.curved == bool(np.any(loss.curvature(y, f)))


@on_losses
def test_the_conjugate_is_the_supremum(loss):
    for y in targets(loss):
        low, high = (float(end) for end in loss.slopes(y))
        for u in np.linspace(max(low, -2), min(high, 2), 9):
            supremum = np.max(u * GRID - loss.value(y, GRID))
            assert_allclose(loss.conjugate(y, u), supremum, atol=1e-6)


@on_losses
def test_the_conjugate_is_infinite_beyond_the_slopes(loss):
    for y in targets(loss):
        for end, way in zip(loss.slopes(y), (-1, 1), strict=True):
            if np.isfinite(end):
                assert np.isfinite(loss.conjugate(y, end))
                assert loss.conjugate(y, end + way * 1e-9) == np.inf
            else:
                assert np.isfinite(loss.conjugate(y, way * 1e3))


@on_losses
def test_fenchel_and_young_hold_and_are_equal_at_a_slope(loss):
    f, u = np.meshgrid(np.linspace(-3, 3, 25), np.linspace(-1.5, 1.5, 25))
    for y in targets(loss):
        assert np.all(loss.value(y, f) + loss.conjugate(y, u) >= u * f - 1e-12)
        slope = loss.slope(y, f)
        both = loss.value(y, f) + loss.conjugate(y, slope)
        assert_allclose(both, slope * f, atol=1e-12)


@on_losses
def test_no_slope_exceeds_the_lipschitz_constant(loss):
    for y in targets(loss):
        steepest = np.abs(loss.slope(y, GRID)).max()
        if np.isfinite(loss.lipschitz):
            assert steepest <= loss.lipschitz
        else:
            assert steepest > 50


@on_losses
def test_arrays_of_targets_and_values_go_together(loss):
    y = np.array(targets(loss))
    f = np.linspace(-1, 2, len(y))
    for method in (loss.value, loss.slope, loss.curvature, loss.conjugate):
        assert_array_equal(
            method(y, f), [method(a, b) for a, b in zip(y, f, strict=True)]
        )
    assert [end.shape for end in loss.slopes(y)] == [y.shape] * 2


def test_a_score_of_zero_is_a_mistake():
    assert_array_equal(ZeroOne().value([1, -1, 1], [0.0, 0.0, 1e-9]), [1, 1, 0])
    assert PerceptronLoss().slope(1.0, 0.0) == -1


def test_the_convex_losses_of_sides_bound_mistakes():
    f = np.linspace(-3, 3, 61)
    mistakes = ZeroOne().value(1, f)
    for loss in (Hinge(), SquaredHinge()):
        assert np.all(loss.value(1, f) >= mistakes)
    assert np.all(Logistic().value(1, f) / math.log(2) >= mistakes)


def test_logistic_is_exact_far_out():
    assert_allclose(Logistic().value(1, [-1000.0, 1000.0]), [1000.0, 0.0], atol=1e-300)
    assert_allclose(Logistic().slope(1, [-1000.0, 1000.0]), [-1.0, 0.0], atol=1e-300)


@looped(
    "made, words",
    [
        (lambda: EpsilonInsensitive(-0.1), "epsilon ≥ 0; got epsilon=-0.1"),
        (lambda: Huber(0.0), "delta > 0; got delta=0.0"),
        (lambda: Quantile(1.0), "0 < q < 1; got q=1.0"),
        (lambda: Quantile(float("nan")), "got q=nan"),
    ],
)
def test_parameters_out_of_range_are_refused(made, words):
    with pytest.raises(ValueError, match=words):
        made()
