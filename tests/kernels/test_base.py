"""Kernel and what its operators build: values, parameters, proofs."""

import copy
import pickle
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from mercer.data.copies import same_value
from mercer.kernels.algebra import Centered, Exp, Normalized, On
from mercer.kernels.base import Kernel, Rule, row_blocks
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.operators import Constant, Product, Scaled, Sum
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import BlockFunction, PairFunction


def dot(X, Y):
    return X @ Y.T


def minimum(x, y):
    return np.minimum(x, y).sum()


@dataclass
class Bump(Kernel):
    """A user's kernel with one method only: k(x, y) = max(0, 1 - |x₀ - y₀| / width)."""

    width: float = 1.0

    def __call__(self, X, Y=None):
        Y = X if Y is None else Y
        return np.maximum(0, 1 - np.abs(X[:, None, 0] - Y[None, :, 0]) / self.width)


# The operators against their definitions


def test_sum_adds_values(X):
    a, b = Linear(), RBF(0.3)
    assert_array_equal((a + b)(X), a(X) + b(X))
    assert a + b == Sum(a, b)


def test_product_multiplies_values(X):
    a, b = Linear(), RBF(0.3)
    assert_array_equal((a * b)(X), a(X) * b(X))
    assert a * b == Product(a, b)


@looped("factor", [3, 0.25, np.float64(2), np.int32(2), Fraction(1, 2)])
def test_a_factor_scales_values_from_either_side(X, factor):
    k = RBF(0.3)
    assert_allclose((factor * k)(X), float(factor) * k(X), rtol=1e-15)
    assert factor * k == k * factor == Scaled(factor, k)
    weights = np.arange(12.0)
    assert (factor * k).matmul(X, None, weights).dtype == np.float64


@looped("number", [0, 2, 0.5, np.float32(1.5)])
def test_a_number_is_added_as_a_constant_on_its_side(X, number):
    k = RBF(0.3)
    assert_allclose((k + number)(X), k(X) + float(number), rtol=1e-15)
    assert k + number == Sum(k, Constant(number))
    assert number + k == Sum(Constant(number), k)


@looped("exponent", [1, 2, 3, 7, np.int64(2)])
def test_a_power_is_a_repeated_product(X, exponent):
    k = Linear()
    expected = np.prod([k(X)] * int(exponent), axis=0)
    assert_allclose((k**exponent)(X), expected, rtol=1e-13)


def test_sums_and_products_are_not_flattened(X):
    a, b, c = RBF(0.1), RBF(0.2), RBF(0.3)
    assert a + b + c == Sum(Sum(a, b), c)
    assert a + (b + c) == Sum(a, Sum(b, c))
    assert a + b * c == Sum(a, Product(b, c))
    assert 2 * a * b == Product(Scaled(2, a), b)
    assert 2 * (3 * a) == Scaled(2, Scaled(3, a))
    assert_allclose((a + b * c)(X), a(X) + b(X) * c(X), rtol=1e-15)


def test_sum_of_a_list_of_kernels_is_a_kernel(X):
    kernels = [RBF(0.1), RBF(0.2)]
    assert_allclose(sum(kernels)(X), kernels[0](X) + kernels[1](X), rtol=1e-15)


@looped("factor", [0, -1, -0.5, np.inf, np.nan, 10**400])
def test_a_factor_that_is_not_positive_is_refused(factor):
    for scaled in (lambda: factor * RBF(), lambda: RBF() * factor):
        with pytest.raises(ValueError, match="positive number only; got factor="):
            scaled()


@pytest.mark.parametrize("number", [-1, np.inf, np.nan])
def test_a_constant_that_is_negative_or_infinite_is_refused(number):
    with pytest.raises(ValueError, match="finite c ≥ 0"):
        RBF() + number


@looped(
    "other",
    [True, np.True_, "2", None, 1j, [1], RBF, pytest.param(np.ones(2), id="array")],
)
@looped("join", ["__add__", "__radd__", "__mul__", "__rmul__"])
def test_operators_refuse_what_is_neither_kernel_nor_number(join, other):
    assert getattr(RBF(), join)(other) is NotImplemented


def test_an_array_beside_a_kernel_is_refused():
    with pytest.raises(TypeError, match="unsupported operand"):
        np.ones(2) * RBF()


@looped("exponent", [0, -1, 1.5, 2.0, True, "2", None])
def test_an_exponent_that_is_not_a_positive_whole_number_is_refused(exponent):
    with pytest.raises(ValueError, match="Power needs a whole number exponent ≥ 1"):
        RBF() ** exponent


def test_differences_are_refused_with_the_reason():
    for difference in (lambda: RBF() - RBF(), lambda: 1 - RBF(), lambda: RBF() - 1):
        with pytest.raises(TypeError, match="need not be a kernel"):
            difference()
    with pytest.raises(TypeError, match="would be negative"):
        -RBF()


@looped("node", [Sum, Product, Exp, Normalized])
def test_a_class_in_place_of_a_kernel_is_refused_with_the_way_out(node):
    parts = (RBF(), RBF) if node in (Sum, Product) else (RBF,)
    with pytest.raises(TypeError, match=r"made of kernels; .* Write RBF\(\)"):
        node(*parts)


@looped("make", [Constant, lambda c: Scaled(c, RBF())])
@looped("value", [True, "1", None, 1j])
def test_parameters_that_are_not_numbers_are_refused(make, value):
    with pytest.raises(ValueError, match="got "):
        make(value)


def test_constant_is_the_same_everywhere():
    k = Constant(3)
    assert_array_equal(k(["a", "b"], ["c"]), [[3], [3]])
    assert_array_equal(k.diag(["a", "b"]), [3, 3])
    assert_array_equal(k.matmul(["a", "b"], ["c", "d"], [1, 2]), [9, 9])
    assert_array_equal(k.matmul(["a"], None, [[1, 2]]), [[3, 6]])
    assert Constant().psd


# What Kernel gives to every kernel


def test_a_kernel_with_one_method_has_all_the_others(X):
    k = Bump(2.0)
    K = k(X)
    V = np.arange(24.0).reshape(12, 2)
    assert k.value(X[0], X[1]) == K[0, 1]
    assert_array_equal(k.diag(X), np.diag(K))
    assert_allclose(k.matmul(X, X[:5], V[:5]), k(X, X[:5]) @ V[:5], rtol=1e-14)
    assert k.resolve(X) is k
    assert k.native(X) is None
    assert k.psd is None
    assert repr(k) == "Bump(width=2.0)"
    assert (2 * k + k).get_params()["right__width"] == 2.0
    assert "a formula of the user's" in k.proof()


@pytest.mark.parametrize("block_mb", [1e-9, 1e-4, 64.0])
def test_products_do_not_depend_on_the_block(X, block_mb):
    k = BlockFunction(dot)
    weights = np.linspace(-1, 1, 12)
    product = k.matmul(X, None, weights, block_mb=block_mb)
    assert_allclose(product, k(X) @ weights, rtol=1e-13)


@looped("k", [BlockFunction(dot), Constant(2), 2 * RBF(1.0) + 1])
@looped("shape", [(), (11,), (1, 12), (12, 1, 1)])
def test_products_refuse_weights_that_do_not_fit(X, k, shape):
    with pytest.raises((ValueError, TypeError)):
        k.matmul(X, None, np.ones(shape))


def test_row_blocks_cover_every_row_once():
    blocks = list(row_blocks(10, 1000, 0.02))
    assert sorted(i for block in blocks for i in range(10)[block]) == list(range(10))
    assert all(b.stop - b.start <= 0.02 * 2**20 / 8000 for b in blocks)
    assert list(row_blocks(0, 5, 1.0)) == []


def test_squared_distances_are_those_of_the_feature_vectors(X):
    expected = ((X[:, None] - X[None, :5]) ** 2).sum(axis=2)
    assert_allclose(Linear().sqdist(X, X[:5]), expected, rtol=1e-10, atol=1e-12)


def test_squared_distances_of_equal_points_are_zero(rng):
    X = 1e6 + rng.normal(size=(5, 3))
    distances = BlockFunction(dot).sqdist(X)
    assert (np.diag(distances) == 0).all()
    assert (BlockFunction(dot).sqdist(X, X) >= 0).all()


def test_squared_distances_of_an_indefinite_kernel_are_told_as_they_are():
    saddle = BlockFunction(lambda X, Y: X @ np.diag([1.0, -1.0]) @ Y.T)
    points = np.array([[0.0, 0.0], [0.0, 1.0]])
    assert_array_equal(saddle.sqdist(points), [[0, -1], [-1, 0]])


def test_squared_distances_keep_float32(X):
    assert RBF(1.0).sqdist(X.astype(np.float32)).dtype == np.float32


def test_a_parameter_still_to_be_learnt_is_named(X):
    with pytest.raises(ValueError, match=r"RBF\(gamma=None\) learns gamma from data"):
        (RBF() + Linear())(X)


def test_resolve_fixes_the_kernels_inside(X):
    resolved = (2 * RBF() + Linear() ** 2).resolve(X)
    gamma = 1 / (3 * X.var())
    assert_allclose(resolved.left.kernel.gamma, gamma, rtol=1e-12)
    assert resolved.right == Linear() ** 2


def test_resolve_returns_the_kernel_itself_where_nothing_is_to_be_learnt(X):
    for k in (RBF(1.0), RBF(1.0) + Linear(), Exp(2 * Linear()) * Constant()):
        assert k.resolve(X) is k


def test_resolve_leaves_the_kernel_unchanged(X):
    k = RBF() * Linear()
    k.resolve(X)
    assert k == RBF(None) * Linear()


@dataclass
class Many(Kernel):
    """A kernel made of a list of kernels."""

    parts: list

    def __call__(self, X, Y=None):
        return sum(part(X, Y) for part in self.parts)


@pytest.mark.parametrize("container", [list, tuple])
def test_resolve_reaches_kernels_in_lists(X, container):
    k = Many(container([Linear(), RBF()]))
    resolved = k.resolve(X)
    assert isinstance(resolved.parts, container)
    assert resolved.parts[1] == RBF().resolve(X)
    assert resolved.parts[0] is k.parts[0]
    assert k.children() == [Linear(), RBF()]


# float32


@looped(
    "k",
    [
        RBF(0.5) + Linear(),
        RBF(0.5) * Linear(),
        np.float64(2) * Linear(),
        Linear() ** np.int64(3),
        RBF(0.5) + 1,
        3 + 2 * RBF(0.5) ** 2,
    ],
    ids=repr,
)
def test_single_precision_stays_single(X, k):
    single = X.astype(np.float32)
    assert k(single).dtype == k(single, single[:2]).dtype == np.float32
    assert k.diag(single).dtype == np.float32
    assert k(X).dtype == np.float64
    assert_allclose(k(single), k(X), rtol=1e-4, atol=1e-4)
    assert k.matmul(single, None, np.ones(12)).dtype == np.float64


# Parameters


def test_parameters_are_reached_by_nested_names():
    k = 2 * RBF(0.5) + Linear() ** 2
    params = k.get_params()
    assert params["left__factor"] == 2
    assert params["left__kernel__gamma"] == 0.5
    assert params["right__exponent"] == 2
    assert set(k.get_params(deep=False)) == {"left", "right"}


def test_set_params_changes_in_place_and_returns_the_kernel():
    k = 2 * RBF(0.5) + Linear() ** 2
    same = k.set_params(left__factor=3, left__kernel__gamma=4.0, right__exponent=1)
    assert same is k
    assert k == 3 * RBF(4.0) + Linear() ** 1


def test_set_params_replaces_a_part_before_it_reaches_inside():
    k = RBF() + Linear()
    k.set_params(right=RBF(1.0), right__gamma=7.0)
    assert k == RBF() + RBF(7.0)


def test_set_params_does_not_reach_into_another_kernel():
    shared = RBF(1.0)
    k = shared + shared
    k.set_params(left__gamma=2.0)
    assert k == RBF(2.0) + RBF(1.0)
    assert shared == RBF(1.0)


@looped(
    "params",
    [
        {"left__factor": -1},
        {"left__factor": 5, "left__kernel__gamma": -1.0},
        {"right__exponent": 3, "nonsense": 1},
        {"right__exponent": 3, "left__kernel__sigma": 1},
        {"right__exponent": 3, "left__factor__deep": 1},
        {"left": "rbf"},
    ],
    ids=str,
)
def test_a_refused_value_leaves_everything_unchanged(params):
    k = 2 * RBF(0.5) + Linear() ** 2
    with pytest.raises((ValueError, TypeError)):
        k.set_params(**params)
    assert k == 2 * RBF(0.5) + Linear() ** 2


def test_an_unknown_parameter_is_refused_with_those_that_exist():
    with pytest.raises(ValueError, match="Scaled has no parameter 'c'; it has factor,"):
        (2 * RBF()).set_params(c=1)
    with pytest.raises(ValueError, match="Linear has no parameter 'c'; it has none"):
        Linear().set_params(c=1)
    with pytest.raises(ValueError, match="factor__c: factor is not a kernel but 2"):
        (2 * RBF()).set_params(factor__c=1)


def test_a_kernel_that_is_no_dataclass_is_told_to_become_one():
    class Forgotten(Kernel):
        def __call__(self, X, Y=None):
            return np.ones((1, 1))

    with pytest.raises(TypeError, match="write @dataclass above class Forgotten"):
        Forgotten().get_params()


KERNELS = [
    2 * RBF(0.5) + Linear() ** 2,
    BlockFunction(dot, psd=True),
    Centered(RBF(1.0), np.arange(6.0).reshape(3, 2)),
    On(["a", "b"], Normalized(Polynomial(2))),
    Many([RBF(), Linear()]),
]


@looped("k", KERNELS, ids=repr)
@looped(
    "copied",
    [copy.copy, copy.deepcopy, clone, lambda k: pickle.loads(pickle.dumps(k))],
    ids=["copy", "deepcopy", "clone", "pickle"],
)
def test_copies_are_equal_and_independent(k, copied):
    other = copied(k)
    assert other is not k
    assert other == k
    assert repr(other) == repr(k)


@given(
    gammas=st.lists(st.floats(0.01, 10), min_size=2, max_size=2),
    factor=st.floats(0.01, 10),
)
@settings(max_examples=20, deadline=None)
def test_set_params_of_get_params_is_the_same_kernel(gammas, factor):
    k = factor * RBF(gammas[0]) + RBF(gammas[1])
    other = 1 * RBF(1.0) + RBF(1.0)
    assert other.set_params(**k.get_params()) == k


# Kernels are values


def test_equal_kernels_have_equal_types_and_parameters():
    assert RBF(1) == RBF(1.0) == RBF(np.float64(1))
    assert RBF(1) != RBF(2)
    assert RBF(1) != Linear()
    assert Linear() + RBF() != RBF() + Linear()
    assert BlockFunction(dot) == BlockFunction(dot)
    assert BlockFunction(dot) != BlockFunction(lambda X, Y: X @ Y.T)
    assert RBF(1) != "RBF(gamma=1)"


def test_kernels_are_not_hashable():
    with pytest.raises(TypeError, match="unhashable"):
        hash(RBF())


A = np.array([[1.0, np.nan]])
EQUAL = [
    (A, A.copy()),
    (float("nan"), float("nan")),
    (sp.csr_array(A), sp.csr_array(A)),
    (sp.csr_array(A), sp.coo_matrix(A)),
    (pd.DataFrame(A), pd.DataFrame(A)),
    (pl.DataFrame(A), pl.DataFrame(A)),
    ([A, "x"], [A.copy(), "x"]),
    (np.array(["a", None], dtype=object), np.array(["a", None], dtype=object)),
    (np.array(["a", "b"]), np.array(["a", "b"])),
    (slice(0, 2), slice(0, 2)),
]
UNEQUAL = [
    (A, A + 1),
    (A, A.astype(np.float32)),
    (A, A.tolist()),
    (A, A[0]),
    (sp.csr_array(A), sp.csr_array(A + 1)),
    (sp.csr_array(A), sp.csr_array((2, 2))),
    (sp.csr_array(A), A),
    (pd.DataFrame(A), pd.DataFrame(A + 1)),
    (pd.DataFrame(A), pl.DataFrame(A)),
    (pd.DataFrame(A), 3.0),
    (3.0, pd.DataFrame(A)),
    ([1, 2], (1, 2)),
    ([1, 2], [1, 2, 3]),
    (1.0, None),
]


@looped("a, b", EQUAL)
def test_parameters_are_compared_by_value(a, b):
    assert same_value(a, b)
    assert same_value(b, a)


@looped("a, b", UNEQUAL)
def test_different_parameters_differ(a, b):
    assert not same_value(a, b)
    assert not same_value(b, a)


# repr


@looped(
    "k, text",
    [
        (RBF(0.5), "RBF(gamma=0.5)"),
        (RBF(np.float64(0.5)), "RBF(gamma=0.5)"),
        (Linear() + RBF() * Linear(), "Linear() + RBF(gamma=None) * Linear()"),
        ((Linear() + RBF()) * Linear(), "(Linear() + RBF(gamma=None)) * Linear()"),
        (2 * (3 * Linear()), "2 * (3 * Linear())"),
        (2 * Linear() * Linear(), "2 * Linear() * Linear()"),
        (2 * (Linear() * Linear()), "2 * (Linear() * Linear())"),
        (2 * Linear() ** 2, "2 * Linear() ** 2"),
        ((2 * Linear()) ** 2, "(2 * Linear()) ** 2"),
        ((Linear() ** 2) ** 3, "(Linear() ** 2) ** 3"),
        (Linear() + (Linear() + Linear()), "Linear() + (Linear() + Linear())"),
        (Linear() + 1, "Linear() + Constant(c=1)"),
        (On("a  b", Linear()), "On(field='a  b', kernel=Linear())"),
        (On([np.int64(1)], Linear()), "On(field=[1], kernel=Linear())"),
        (Many((Linear(),)), "Many(parts=(Linear(),))"),
        (BlockFunction(dot), "BlockFunction(function=dot, psd=None)"),
        (
            Centered(Linear(), np.zeros((20, 2))),
            "Centered(kernel=Linear(), reference=<20 × 2 float64>, weight=None)",
        ),
        (
            Centered(Linear(), sp.csr_array((20, 2))),
            "Centered(kernel=Linear(), reference=<20 × 2 float64>, weight=None)",
        ),
        (
            Centered(Linear(), pd.DataFrame(np.zeros((20, 2)))),
            "Centered(kernel=Linear(), reference=<20 × 2 DataFrame>, weight=None)",
        ),
        (
            Centered(Constant(), ["a long text"] * 1000),
            "Centered(kernel=Constant(c=1.0), reference=<list of 1000>, weight=None)",
        ),
    ],
    ids=str,
)
def test_repr_is_the_expression(k, text):
    assert repr(k) == text


# Validity

UNKNOWN = BlockFunction(dot)
INVALID = BlockFunction(dot, psd=False)


@looped("k", [Linear(), RBF(), Constant(), BlockFunction(dot, True)])
def test_operators_keep_validity(k):
    for node in (k + RBF(), RBF() + k, k * RBF(), 2 * k, k**2, k + 1):
        assert node.psd is True


@pytest.mark.parametrize("k", [UNKNOWN, INVALID], ids=["unknown", "invalid"])
def test_operators_promise_nothing_about_what_is_not_proved(k):
    for node in (k + RBF(), RBF() + k, k * RBF(), k**2, k + 1, k + k):
        assert node.psd is None


def test_a_factor_keeps_a_counterexample():
    assert (2 * INVALID).psd is False
    assert (2 * (3 * INVALID)).psd is False
    assert (2 * UNKNOWN).psd is None
    proof = (2 * Sigmoid(1.0)).proof()
    assert "a positive factor keeps the counterexample below" in proof
    assert Sigmoid(1.0).rule().reason in proof


def test_proof_names_the_rule_of_every_node():
    proof = (2 * RBF(0.5) + Linear() ** 2).proof()
    lines = str(proof).splitlines()
    assert lines[0] == (
        "2 * RBF(gamma=0.5) + Linear() ** 2 is a kernel: every Gram matrix is "
        "positive semidefinite."
    )
    starts = [
        "✓ Sum: ",
        "├─ ✓ Scaled(factor=2): ",
        "│  └─ ✓ RBF(gamma=0.5): ",
        "└─ ✓ Power(exponent=2): ",
        "   └─ ✓ Linear(): ",
    ]
    assert len(lines) == 6
    for line, start in zip(lines[1:], starts, strict=True):
        assert line.startswith(start)
        assert len(line) > len(start) + 10


def test_proof_says_where_validity_is_lost():
    lost = Sigmoid(1.0)
    proof = (RBF(1.0) + 2 * (Exp(lost) * Linear())).proof()
    assert proof.splitlines()[0].startswith("Whether ")
    assert proof.splitlines()[-1] == f"Validity is lost at {lost!r}."
    assert proof.count("Validity is") == 1


def test_proof_says_where_validity_is_unknown():
    proof = (UNKNOWN + INVALID).proof()
    assert proof.splitlines()[-2:] == [
        "Validity is unknown at BlockFunction(function=dot, psd=None).",
        "Validity is lost at BlockFunction(function=dot, psd=False).",
    ]


def test_proof_names_a_culprit_once():
    assert (INVALID + 2 * INVALID).proof().count("Validity is lost") == 1


def test_proof_of_an_invalid_kernel_says_so():
    assert "is not a kernel: some Gram matrix is indefinite." in INVALID.proof()


def test_proof_shows_what_was_vouched_for():
    proof = (PairFunction(minimum, psd=True) + RBF(1.0)).proof()
    assert "a kernel as stated by the user (psd=True)" in proof
    assert "Validity is" not in proof


def test_proof_is_shown_as_it_reads():
    assert repr(Linear().proof()) == str(Linear().proof())


@dataclass
class Difference(Kernel):
    """A node that is at fault itself, though its parts are kernels."""

    left: Kernel
    right: Kernel

    def __call__(self, X, Y=None):
        return self.left(X, Y) - self.right(X, Y)

    def rule(self):
        return Rule(False, "left = 0 gives a negative diagonal")


def test_proof_blames_the_node_whose_parts_are_kernels():
    proof = (RBF(1.0) + Difference(RBF(1.0), Linear())).proof()
    assert proof.splitlines()[-1] == (
        "Validity is lost at Difference(left=RBF(gamma=1.0), right=Linear())."
    )
