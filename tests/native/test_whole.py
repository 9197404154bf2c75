"""Products of whole numbers are exact, and every row is judged by itself."""

from fractions import Fraction

import numpy as np
import pytest
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal

from mercer import RBF, KernelRidge, Nystrom, Polynomial
from mercer.native.vectors import Packed, Recipe, block, native_recipe
from mercer.native.whole import step_of, whole_points

RNG = np.random.default_rng(0)
PRODUCT = native_recipe(Recipe("product", "identity"))


def pixels(n, d=100, most=255, least=0):
    return RNG.integers(least, most + 1, size=(n, d))


@looped(
    "d, least, most",
    [(65, 0, 255), (100, -3, 3), (784, 0, 255), (70, -2000, 2000), (68, 0, 256)],
)
def test_products_are_those_of_whole_numbers(d, least, most):
    # 40 and 200 points are no whole numbers of tiles.
    X, Y = pixels(200, d, most, least), pixels(40, d, most, least)
    out = np.empty((len(X), len(Y)))
    left = whole_points(Y.astype(float)).block(PRODUCT, X.astype(float), out)
    assert not len(left)
    assert_array_equal(out, X @ Y.T)


def test_of_parts_of_one_only_the_step_is_rounded():
    X, Y = pixels(30), pixels(9)
    out = np.empty((30, 9))
    assert not len(whole_points(Y / 255).block(PRODUCT, X / 255, out))
    exact = [[float(Fraction(int(v), 255**2)) for v in row] for row in X @ Y.T]
    assert_allclose(out, exact, rtol=1e-15)


def test_distances_have_all_their_digits():
    X = pixels(20, 300)
    Y = X.copy()
    Y[:, 0] = (Y[:, 0] + 1) % 256  # near their x, and far from 0
    kernel = RBF(0.01).native(X / 255)
    out = np.empty((20, 20))
    assert not len(whole_points(Y / 255).block(native_recipe(kernel), X / 255, out))
    squares = ((X[:, None] - Y[None]) ** 2).sum(axis=2) / 255**2
    assert_allclose(out, np.exp(-0.01 * squares), rtol=4e-15)


def test_rows_that_are_not_whole_are_named():
    Y, X = pixels(12) / 255, pixels(200) / 255
    bad = [0, 63, 64, 130, 199]
    X[0, 3], X[63, 99], X[64, 0] = 0.1234, np.nan, np.inf
    X[130, 5] += 1e-9
    X[199, 7] = 1e9 / 255
    out = np.empty((200, 12))
    points = whole_points(Y)
    assert_array_equal(points.block(PRODUCT, X, out), bad)
    # The others are what they are alone.
    alone = np.empty((1, 12))
    for i in (1, 62, 65, 131):
        assert not len(points.block(PRODUCT, X[i : i + 1], alone))
        assert_array_equal(alone[0], out[i])


def test_rows_so_long_that_rounding_would_show_are_left_to_differences():
    X = pixels(10, 100).astype(float)  # |x|² of some 10⁶, and γ = 1
    points, recipe = whole_points(X), native_recipe(RBF(1.0).native(X))
    assert_array_equal(points.block(recipe, X, np.empty((10, 10))), np.arange(10))


@looped(
    "numbers, step",
    [
        ([0.0, 1.0, 5.0], 1.0),
        ([2.0, -4.0, 6.0], 2.0),
        ([6.0, 10.0, 15.0], 1.0),
        (np.arange(256) / 255, 1 / 255),
        (np.arange(17) / 16, 1 / 16),
        ([0.1, 0.25, 0.7], 0.05),
        ([1.0, np.pi], None),
        ([1.0, 1e5 + 0.5], None),
        ([1.0, np.nan], None),
        ([1.0, np.inf], None),
        ([0.0, 0.0], None),
        ([1.0] + [0.0] * 30, None),
    ],
)
def test_the_step_is_the_largest_common_divisor(numbers, step):
    found = step_of(np.array(numbers, dtype=float)[None])
    if step is None:
        assert found is None
    else:
        assert found == pytest.approx(step, rel=1e-15)


def test_points_without_a_step_are_none():
    assert whole_points(RNG.normal(size=(5, 80))) is None
    assert whole_points(pixels(5).astype(np.float32)) is None
    assert whole_points(np.empty((0, 80))) is None
    mixed = pixels(40).astype(float)
    mixed[1, 0] = 0.5  # not among those that the step is found from
    assert whole_points(mixed) is None
    assert whole_points(pixels(5, 100, 10**6, 9 * 10**5).astype(float)) is None


@pytest.mark.parametrize("kernel", [RBF(0.02), Polynomial(2, offset=1.0)], ids=str)
def test_landmarks_of_pixels_have_the_kernel_values_of_any_points(kernel):
    X = pixels(300) / 255
    X[17, 4] = 0.3
    near = Nystrom(kernel, 50, method="uniform").resolve(X)
    L = near.base_points()
    out = np.empty((300, len(L)))
    near.fill_products(X, out)
    expected = block(kernel.native(L), X, Packed(L))
    assert_allclose(out, expected, rtol=1e-12)
    assert_array_equal(near.base_products(X), out)
    assert_array_equal(near.base_products(X[10:20]), out[10:20])


def test_a_machine_on_pixels_learns_what_one_on_other_numbers_does():
    X = pixels(3000) / 255
    y = np.column_stack([X[:, 0] - X[:, 1], X[:, 2]])
    kernel = Nystrom(RBF(0.02), 250, method="uniform")
    one = KernelRidge(0.1, kernel=kernel).fit(X, y)
    # The same points, moved by a shift that leaves no step.
    other = KernelRidge(0.1, kernel=kernel).fit(X + np.pi, y)
    assert one.certificate_.status == other.certificate_.status == "optimal"
    assert_allclose(one.predict(X[:50]), other.predict(X[:50] + np.pi), atol=1e-7)
