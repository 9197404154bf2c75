import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal

from mercer import (
    RBF,
    BlockFunction,
    Expansion,
    FeatureFunction,
    Linear,
    PairFunction,
    Polynomial,
)

KERNEL = RBF(0.5)


def points(n, seed, d=2):
    return np.random.default_rng(seed).normal(size=(n, d))


def expansion(n, seed, outputs=None, bias=0.0, kernel=KERNEL):
    shape = n if outputs is None else (n, outputs)
    coef = np.random.default_rng(seed + 100).normal(size=shape)
    return Expansion(kernel, points(n, seed), coef, bias)


def test_values_are_the_sum_over_points_plus_bias():
    f, X = expansion(5, 0, bias=0.25), points(4, 9)
    slow = [
        sum(c * KERNEL.value(p, x) for c, p in zip(f.coef, f.points, strict=True))
        + 0.25
        for x in X
    ]
    assert f(X).shape == (4,)
    assert_allclose(f(X), slow, rtol=1e-12)


def test_several_outputs_are_columns_on_shared_points():
    f, X = expansion(5, 0, outputs=3, bias=[1.0, 2.0, 3.0]), points(4, 9)
    assert f(X).shape == (4, 3)
    assert f.n_outputs == 3
    assert_allclose(f(X), KERNEL(X, f.points) @ f.coef + [1, 2, 3], rtol=1e-12)
    for j, column in enumerate(f):
        assert column.n_outputs == 1
        assert_allclose(column(X), f(X)[:, j], rtol=1e-12)
    assert_allclose(f[-1](X), f[2](X), rtol=0)


def test_one_number_is_the_bias_of_every_output():
    f = expansion(5, 0, outputs=3, bias=2.0)
    assert_array_equal(f.bias, [2.0, 2.0, 2.0])


def test_a_column_that_does_not_exist_is_an_index_error():
    with pytest.raises(IndexError, match="Output 3 of an expansion with 3"):
        expansion(5, 0, outputs=3)[3]
    with pytest.raises(IndexError):
        expansion(5, 0)[1]
    assert expansion(5, 0)[0].coef.shape == (5,)


def test_inner_product_reproduces_values():
    f, x = expansion(6, 0, bias=7.0), points(1, 3)
    at_x = Expansion(KERNEL, x, [1.0])
    assert_allclose(f.inner(at_x), f(x)[0] - 7.0, rtol=1e-12)


def test_geometry_is_that_of_the_explicit_features():
    phi = FeatureFunction(lambda X: np.column_stack([X, X[:, 0] * X[:, 1]]))
    f, g = (expansion(n, seed, kernel=phi) for n, seed in ((6, 0), (4, 1)))
    u = f.coef @ phi.features(f.points)
    v = g.coef @ phi.features(g.points)
    lengths = np.linalg.norm(u) * np.linalg.norm(v)
    assert_allclose(f.inner(g), u @ v, rtol=1e-12)
    assert_allclose(f.norm(), np.linalg.norm(u), rtol=1e-12)
    assert_allclose(f.distance(g), np.linalg.norm(u - v), rtol=1e-12)
    assert_allclose(f.cosine(g), u @ v / lengths, rtol=1e-12)
    assert_allclose(f.angle(g), np.arccos(u @ v / lengths), rtol=1e-10)


@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_cauchy_schwarz_and_the_triangle_inequality_hold(seed, n, m):
    f, g, h = expansion(n, seed), expansion(m, seed + 1), expansion(3, seed + 2)
    assert abs(f.inner(g)) <= f.norm() * g.norm() * (1 + 1e-12)
    assert f.distance(h) <= f.distance(g) + g.distance(h) + 1e-12
    assert_allclose(f.inner(g), g.inner(f), rtol=1e-10, atol=1e-12)


@given(st.integers(0, 1000), st.floats(-5, 5), st.floats(-5, 5))
@settings(max_examples=25, deadline=None)
def test_operators_act_on_values(seed, a, b):
    f, g = expansion(4, seed, bias=0.5), expansion(3, seed + 1, bias=-2.0)
    X = points(5, seed + 2)
    assert_allclose((a * f + b * g)(X), a * f(X) + b * g(X), atol=1e-12)
    assert_allclose((f - g)(X), f(X) - g(X), atol=1e-12)
    assert_allclose((f + a)(X), f(X) + a, atol=1e-12)
    assert_allclose((a - f)(X), a - f(X), atol=1e-12)
    assert_allclose((-f / 4)(X), -f(X) / 4, atol=1e-12)
    assert_allclose((np.float64(a) * f - np.float32(2))(X), a * f(X) - 2, atol=1e-12)
    assert_allclose(sum([f, g])(X), f(X) + g(X), atol=1e-12)


def test_inner_product_is_bilinear():
    f, g, h = expansion(4, 0), expansion(5, 1), expansion(3, 2)
    left = (2 * f - 3 * g).inner(h)
    assert_allclose(left, 2 * f.inner(h) - 3 * g.inner(h), rtol=1e-12)


def test_several_outputs_are_measured_column_by_column():
    f, g = expansion(5, 0, outputs=3, bias=1.0), expansion(4, 1, outputs=3)
    columns = range(3)
    assert_allclose(f.inner(g), [f[j].inner(g[j]) for j in columns], rtol=1e-12)
    assert_allclose(f.norm(), [f[j].norm() for j in columns], rtol=1e-12)
    assert_allclose(f.distance(g), [f[j].distance(g[j]) for j in columns], rtol=1e-12)
    assert_allclose(f.angle(g), [f[j].angle(g[j]) for j in columns], rtol=1e-12)
    one = expansion(6, 2)
    assert_allclose(one.inner(g), [one.inner(g[j]) for j in columns], rtol=1e-12)
    assert_allclose(g.inner(one), one.inner(g), rtol=1e-12)


def test_gram_holds_every_pair_of_outputs():
    f, g = expansion(5, 0, outputs=3), expansion(4, 1, outputs=2)
    pairs = [[f[a].inner(g[b]) for b in range(2)] for a in range(3)]
    assert_allclose(f.gram(g), pairs, rtol=1e-12)
    assert_allclose(np.diag(f.gram()), f.norm() ** 2, rtol=1e-12)
    assert f[0].gram().shape == (1, 1)
    with pytest.raises(ValueError, match=r"3 and 2 outputs.*f\.gram\(g\)"):
        f.inner(g)


def test_expansions_on_the_same_points_object_share_it():
    X = points(5, 0)
    f, g = Expansion(KERNEL, X, np.arange(5.0)), Expansion(KERNEL, X, np.ones(5))
    assert (f + g).points is X
    assert_array_equal((f + g).coef, np.arange(5.0) + 1)
    assert f.distance(f) == 0
    assert f.cosine(f) == pytest.approx(1, abs=1e-15)


def test_two_kernels_do_not_mix_and_the_error_shows_both():
    f, g = expansion(4, 0), expansion(4, 1, kernel=Polynomial(2))
    for mixed in (lambda: f + g, lambda: f.inner(g), lambda: f.gram(g)):
        with pytest.raises(ValueError, match=r"RBF.*Polynomial"):
            mixed()
    equal = expansion(4, 1, kernel=RBF(0.5))
    assert (f + equal).coef.shape == (8,)


def test_different_numbers_of_outputs_do_not_add():
    with pytest.raises(ValueError, match=r"\(4, 2\) and \(4, 3\)"):
        expansion(4, 0, outputs=2) + expansion(4, 1, outputs=3)


def test_operators_refuse_what_is_no_number():
    f = expansion(4, 0)
    for wrong in (lambda: f * f, lambda: f + "1", lambda: f - [1], lambda: f / f):
        with pytest.raises(TypeError):
            wrong()


def test_pruned_drops_points_without_weight_and_keeps_the_function():
    X = points(6, 0)
    f = Expansion(KERNEL, X, [0.0, 1.0, 0.0, -2.0, 1e-9, 0.0], bias=3.0)
    assert_array_equal(f.pruned().points, X[[1, 3, 4]])
    assert_allclose(f.pruned()(X), f(X), rtol=1e-14)
    assert_array_equal(f.pruned(1e-8).coef, [1.0, -2.0])
    assert f.pruned().pruned().coef.shape == (3,)


def test_pruned_keeps_a_point_that_any_output_uses():
    f = Expansion(KERNEL, points(3, 0), [[0, 0], [0, 1], [0, 0]])
    assert f.pruned().coef.shape == (1, 2)


@pytest.mark.parametrize("shape", [(3,), (3, 2)])
def test_a_function_without_points_is_its_bias(shape):
    X, letters = points(4, 0), PairFunction(lambda s, t: len(set(s) & set(t)))
    for kernel, some, new in ((KERNEL, points(3, 1), X), (letters, ["a", "b", "c"], X)):
        f = Expansion(kernel, some, np.zeros(shape), bias=1.5).pruned()
        assert len(f.coef) == 0
        assert_array_equal(f(new), np.full((4, *shape[1:]), 1.5))
        assert_array_equal(f.norm(), np.zeros(shape[1:]))
        g = Expansion(kernel, some, np.ones(shape))
        assert_array_equal((f + g)(some), (g + f)(some))
        assert_array_equal(f.inner(g), np.zeros(shape[1:]))
        assert type((f + g).points) is type(g.points)


def test_points_may_be_strings():
    letters = PairFunction(lambda s, t: len(set(s) & set(t)))
    f = Expansion(letters, ["gram", "ridge"], [1.0, 10.0])
    assert_array_equal(f(["arm", "id", "z"]), [3 + 10, 20, 0])
    g = f + Expansion(letters, ["zoo"], [100.0])
    assert g.points == ["gram", "ridge", "zoo"]
    assert_array_equal(g(["z"]), [100.0])


def test_values_at_no_points_are_none():
    assert expansion(4, 0)(np.empty((0, 2))).shape == (0,)
    assert expansion(4, 0, outputs=3)(np.empty((0, 2))).shape == (0, 3)


def test_norm_of_rounding_is_zero():
    # φ(x) + φ(x) - 2 φ(x) = 0, in three points that are equal but not the same.
    X = np.repeat(points(1, 0), 3, axis=0)
    for kernel in (Linear(), KERNEL, Polynomial(3)):
        for single in (X, X.astype(np.float32)):
            f = Expansion(kernel, single, [0.1, 0.2, -0.3])
            assert f.norm() == pytest.approx(0, abs=1e-3)


def test_an_indefinite_kernel_has_no_norm_where_the_square_is_negative():
    wrong = BlockFunction(lambda X, Y: np.exp(-X @ Y.T), psd=False)
    f = Expansion(wrong, np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]))
    with pytest.raises(ValueError, match=r"-4\.7008.*indefinite"):
        f.norm()
    good = Expansion(wrong, f.points, [1.0, 1.0])
    assert_allclose(good.norm() ** 2, 2 * (np.exp(-1) + np.e), rtol=1e-12)


def test_the_angle_with_zero_is_refused():
    f = expansion(4, 0)
    with pytest.raises(ValueError, match="neither is zero"):
        f.angle(0 * f)


def test_an_expansion_does_not_change():
    coef = np.ones(3)
    f = Expansion(KERNEL, points(3, 0), coef)
    coef[:] = 5
    assert_array_equal(f.coef, np.ones(3))
    with pytest.raises(ValueError, match="read-only"):
        f.coef[0] = 2
    with pytest.raises(AttributeError):
        f.bias = 2.0


def test_new_parameters_of_its_kernel_do_not_reach_an_expansion():
    kernel, X = RBF(0.5) + Linear(), points(3, 0)
    f = Expansion(kernel, X, np.ones(3))
    before = f(X)
    kernel.set_params(left__gamma=50.0)
    assert_array_equal(f(X), before)
    assert f.kernel == RBF(0.5) + Linear()


def test_an_expansion_survives_copy_and_pickle():
    f, X = expansion(4, 0, outputs=2, bias=1.0), points(3, 5)
    for twin in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f)):
        assert_allclose(twin(X), f(X), rtol=1e-12)


@looped(
    "coef, bias, message",
    [
        (np.ones(3), 0.0, r"\(4,\) or \(4, c\); got \(3,\)"),
        (np.ones((4, 1, 1)), 0.0, r"got \(4, 1, 1\)"),
        (np.ones(4), [1.0, 2.0], r"got shape \(2,\)"),
        (np.ones((4, 3)), [1.0, 2.0], r"shape \(3,\); got shape \(2,\)"),
        ([0, 1, np.nan, 2], 0.0, r"coef\[2\] is nan"),
        (np.ones(4), np.inf, "bias is inf"),
    ],
)
def test_coefficients_that_do_not_fit_are_refused(coef, bias, message):
    with pytest.raises(ValueError, match=message):
        Expansion(KERNEL, points(4, 0), coef, bias)


def test_a_kernel_is_needed():
    with pytest.raises(TypeError, match="needs a kernel"):
        Expansion(np.dot, points(4, 0), np.ones(4))
    with pytest.raises(ValueError, match="tolerance ≥ 0"):
        expansion(4, 0).pruned(-1)


def test_repr_names_kernel_size_and_bias():
    assert repr(expansion(4, 0, bias=0.5)) == (
        "Expansion of RBF(gamma=0.5) on 4 points, bias 0.5"
    )
    assert repr(expansion(1, 0, outputs=2)) == (
        "Expansion of RBF(gamma=0.5) on 1 point, 2 outputs, bias 0, 0"
    )
