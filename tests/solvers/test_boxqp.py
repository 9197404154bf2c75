"""BoxQP: its optimum against an independent solver, its certificate, its family."""

from dataclasses import replace
from math import fsum

import naive_smo
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from looped import looped
from naive_smo import NaiveSMO
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from mercer import _core
from mercer.gram import Gram
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import Precomputed
from mercer.outcomes import Run, together
from mercer.solvers.box_certificate import certificate, certified
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.hull import HullDistance, squared_width
from mercer.solvers.programs import (
    hulls,
    nu_svc,
    nu_svr,
    one_class,
    quadratic,
    svc,
    svdd,
    svr,
)
from mercer.solvers.smo import SMO

SOLVERS = [
    pytest.param(SMO(tol=1e-9), id="SMO"),
    pytest.param(NaiveSMO(1e-9), id="naive"),
]
FAMILY = ["svc", "svc no bias", "hulls", "nu_svc", "svr", "nu_svr", "one_class", "svdd"]
XOR = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
XOR_SIGN = np.array([-1.0, 1.0, 1.0, -1.0])


def made(kind, seed=0, n=10):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    sign = np.where(np.arange(n) % 2, 1.0, -1.0)
    X[sign > 0] += 2.5 if kind == "hulls" else 0.7
    weight = rng.uniform(0.5, 2.0, n)
    gram = Gram(RBF(0.4) + 0.1 * Linear(), X)
    target = 2 * np.sin(X[:, 0]) + X[:, 1]
    return {
        "svc": lambda: svc(gram, sign, 1.3 * weight),
        "svc no bias": lambda: svc(gram, sign, 1.3 * weight, bias=False),
        "hulls": lambda: hulls(gram, sign),
        "nu_svc": lambda: nu_svc(gram, sign, 0.4, weight),
        "svr": lambda: svr(gram, target, 1.5 * weight, 0.2),
        "nu_svr": lambda: nu_svr(gram, target, 1.5 * weight, 0.5),
        "one_class": lambda: one_class(gram, 0.4, weight),
        "svdd": lambda: svdd(gram, 0.4, weight),
    }[kind]()


def least(problem):
    """The minimum by scipy, α split into its positive and its negative part."""
    K = problem.gram.dense()
    index = np.arange(len(K)) if problem.index is None else problem.index
    Q = problem.sign[:, None] * problem.sign * K[np.ix_(index, index)]
    m = len(problem)
    tube = np.zeros(m) if problem.tube is None else problem.tube

    def objective(x):
        a = x[:m] - x[m:]
        smooth = Q @ a + problem.linear
        value = a @ Q @ a / 2 + problem.linear @ a + tube @ (x[:m] + x[m:])
        return value, np.concatenate([smooth + tube, tube - smooth])

    constraints = [
        {
            "type": "eq",
            "fun": lambda x, s=sign, t=total: s @ (x[:m] - x[m:]) - t,
            "jac": lambda x, s=sign: np.concatenate([s, -s]),
        }
        for sign, total in conditions(problem)
    ]
    ends = [(0, max(0, u)) for u in problem.upper]
    ends += [(0, max(0, -low)) for low in problem.lower]
    start = problem.start()
    x = np.concatenate([np.maximum(start, 0), np.maximum(-start, 0)])
    found = minimize(
        objective,
        x,
        jac=True,
        bounds=ends,
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    return found.fun


def conditions(problem):
    for members, total in problem.groups():
        if total is not None:
            sign = np.zeros(len(problem))
            sign[members] = problem.sign[members]
            yield sign, total


def solved(problem, solver=SMO(tol=1e-9)):  # noqa: B008  a value
    if problem.total is not None:
        return solver.solve(problem)
    return solver.solve(problem.padded())


# The optimum


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", FAMILY)
@pytest.mark.parametrize("seed", range(2))
def test_minimum_is_that_of_an_independent_solver(kind, seed, solver):
    problem = made(kind, seed)
    found = solved(problem, solver)
    assert found.status == "optimal"
    assert_allclose(-found.dual, least(problem), rtol=1e-7, atol=1e-8)


@looped("kind", [kind for kind in FAMILY if kind != "svc no bias"])
@looped("seed", range(3))
def test_solution_is_feasible_and_its_gap_closed(kind, seed):
    problem = made(kind, seed, n=40)
    found = solved(problem)
    value = found.value
    assert np.all((problem.lower <= value) & (value <= problem.upper))
    for sign, total in conditions(problem):
        assert_allclose(sign @ value, total, atol=1e-10)
    assert found.violation < 1e-8
    assert 0 <= found.gap + 1e-10 < 1e-6 * max(1, abs(found.dual))
    F = problem.gram @ problem.coef(value)
    assert_allclose(found.function, F, atol=1e-10)
    assert_allclose(problem.violation(value, F), found.violation, atol=1e-10)


@pytest.mark.parametrize("kind", [kind for kind in FAMILY if kind != "svc no bias"])
def test_native_solver_agrees_with_its_slow_twin(kind):
    problem = made(kind, 5, n=30)
    fast, slow = solved(problem), NaiveSMO(1e-9).solve(problem)
    assert_allclose(fast.dual, slow.dual, rtol=1e-9, atol=1e-10)
    assert_allclose(fast.function, slow.function, atol=1e-5)
    assert_allclose(fast.level, slow.level, atol=1e-6)


@looped("kind", [kind for kind in FAMILY if kind != "svc no bias"])
def test_any_feasible_point_has_a_gap_that_bounds_its_error(kind):
    problem = made(kind, 1, n=30)
    best = -solved(problem).dual
    rough = NaiveSMO(1e-9, max_iter=7).solve(problem)
    assert rough.status == "max_iter"
    assert -rough.dual >= best - 1e-10
    assert -rough.dual - best <= rough.gap + 1e-10


# What f is on the free points


def test_free_points_of_svc_are_on_the_margin():
    problem = made("svc", n=40)
    found = solved(problem)
    coef, bias = problem.decision(found)
    f = problem.gram @ coef + bias
    free = (found.value > 1e-6) & (found.value < problem.upper - 1e-6)
    assert free.any()
    assert_allclose(f[free], problem.sign[free], atol=1e-7)


@pytest.mark.parametrize("kind", ["nu_svc", "hulls"])
def test_free_points_of_scaled_hulls_are_on_the_margin(kind):
    problem = made(kind, n=40)
    found = solved(problem)
    coef, bias = problem.decision(found)
    f = problem.gram @ coef + bias
    free = (found.value > 1e-6) & (found.value < problem.upper - 1e-6)
    assert free.any()
    assert_allclose(f[free], problem.sign[free], atol=1e-5)


def test_free_points_of_svr_are_on_the_tube():
    problem = made("svr", n=40)
    found = solved(problem)
    coef, bias = problem.decision(found)
    free = (np.abs(coef) > 1e-6) & (np.abs(coef) < problem.upper - 1e-6)
    assert free.any()
    residual = -problem.linear - (problem.gram @ coef + bias)
    assert_allclose(residual[free], 0.2 * np.sign(coef[free]), atol=1e-7)


def test_nu_svr_is_svr_with_the_tube_it_finds():
    problem = made("nu_svr", n=40)
    found = solved(problem)
    epsilon = (found.level[1] - found.level[0]) / 2
    n = problem.gram.shape[0]
    same = svr(problem.gram, -problem.linear[:n], problem.upper[:n], epsilon)
    expected = same.decision(solved(same))
    coef, bias = problem.decision(found)
    assert_allclose(coef, expected[0], atol=1e-5)
    assert_allclose(bias, expected[1], atol=1e-5)


def test_nu_svc_is_svc_with_the_price_it_finds():
    problem = made("nu_svc", n=40)
    found = solved(problem)
    half = (found.level[0] - found.level[1]) / 2
    same = svc(problem.gram, problem.sign, problem.upper / half)
    expected = same.decision(solved(same))[0]
    assert_allclose(problem.decision(found)[0], expected, rtol=1e-5, atol=1e-3)


def test_free_points_of_one_class_are_at_the_level():
    problem = made("one_class", n=40)
    found = solved(problem)
    coef, bias = problem.decision(found)
    free = (found.value > 1e-6) & (found.value < problem.upper - 1e-6)
    assert free.any()
    assert_allclose((problem.gram @ coef + bias)[free], 0, atol=1e-7)


def test_svdd_is_one_class_where_the_diagonal_is_constant():
    X = np.random.default_rng(0).normal(size=(30, 2))
    gram = Gram(RBF(0.5), X)
    a, b = solved(svdd(gram, 0.3)), solved(one_class(gram, 0.3))
    assert_allclose(a.value, b.value, atol=1e-6)


# Exact values


@pytest.mark.parametrize("solver", SOLVERS)
def test_xor_has_its_known_solution(solver):
    problem = svc(Gram(Polynomial(2), XOR), XOR_SIGN, 10.0)
    found = solver.solve(problem)
    assert_allclose(found.value, 1 / 8, atol=1e-9)
    assert_allclose([found.dual, found.primal, found.bias], [0.25, 0.25, 0], atol=1e-9)
    assert_allclose(certificate(problem, found).margin, np.sqrt(2), rtol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_largest_product_of_two_numbers_with_sum_4_is_4(solver):
    problem = quadratic([[0, -1], [-1, 0]], 0, [1, 1], 0, 4, 4)
    found = solver.solve(problem)
    assert_allclose(problem.variables(found.value), [2, 2], atol=1e-9)
    assert_allclose(-found.dual, -4, atol=1e-9)


def test_general_quadratic_takes_any_gamma():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(6, 6))
    Q, p = A @ A.T + np.eye(6), rng.normal(size=6)
    gamma = np.array([1.0, -2.0, 0.5, 3.0, -1.0, -0.1])
    problem = quadratic(Q, p, gamma, -1.0, 2.0, 0.7)
    a = problem.variables(solved(problem).value)
    assert_allclose(gamma @ a, 0.7, atol=1e-10)
    found = minimize(
        lambda x: (x @ Q @ x / 2 + p @ x, Q @ x + p),
        np.zeros(6),
        jac=True,
        bounds=[(-1, 2)] * 6,
        constraints={"type": "eq", "fun": lambda x: gamma @ x - 0.7},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert_allclose(a, found.x, atol=1e-5)
    assert_allclose(a @ Q @ a / 2 + p @ a, found.fun, rtol=1e-8)


# Bias with no free variable


def test_bias_without_free_points_is_the_midpoint():
    X = np.array([[0.0], [1.0]])
    found = solved(svc(Gram(Linear(), X), [-1.0, 1.0], 0.1))
    # w = 0.1; the interval of b is [1 - 0.1, ...] from above and -1 from below.
    assert_allclose(found.value, 0.1)
    assert_allclose(found.bias, ((1 - 0.1) + -1) / 2, atol=1e-12)


def test_level_of_a_group_at_its_bound_is_the_open_end_and_the_surplus():
    X = np.array([[0.0], [1.0], [3.0]])
    problem = nu_svc(Gram(Linear(), X), [1.0, -1.0, -1.0], 0.6, [1.0, 2.0, 2.0])
    assert_allclose(problem.surplus, 0.5)
    found = solved(problem)
    assert_allclose(found.value[0], problem.upper[0])
    F = found.function
    end, other = F[0], F[1]
    assert_allclose(found.level[1], other, atol=1e-9)
    assert_allclose(found.level[0], end + 0.5 * (end - other), atol=1e-9)


# Starts


@looped("kind", FAMILY)
def test_start_is_feasible_and_near(kind):
    problem = made(kind, n=20)
    rng = np.random.default_rng(1)
    for near in (None, rng.uniform(-1, 3, len(problem))):
        start = problem.start(near)
        assert np.all((problem.lower <= start) & (start <= problem.upper))
        for sign, total in conditions(problem):
            assert_allclose(sign @ start, total, atol=1e-9)
    feasible = problem.start(rng.uniform(0, 1, len(problem)))
    assert_allclose(problem.start(feasible), feasible, atol=1e-12)


def test_decision_has_an_inverse():
    for kind in FAMILY:
        if kind == "svc no bias":
            continue
        problem = made(kind, n=30)
        found = solved(problem)
        value, level = problem.inverse(*problem.decision(found))
        assert_allclose(problem.coef(value), problem.coef(found.value), atol=1e-9)
        assert_allclose(problem.start(value), value, atol=1e-9)
        if kind != "nu_svr":
            assert_allclose(level, found.level, atol=1e-9)


def test_impossible_total_is_refused():
    problem = BoxQP(Gram(Linear(), XOR), 0.0, 1.0, 0.0, 1.0, total=5.0)
    with pytest.raises(ValueError, match=r"between 0 and 4, not to 5"):
        problem.start()


@looped(
    "change, message",
    [
        ({"sign": [1, -1, 0, 1]}, "signs"),
        ({"lower": 2.0}, "lower ≤ upper; variable 0"),
        ({"tube": -1.0}, "tube ≥ 0"),
        ({"upper": [1.0, 2.0]}, "one upper, or one for each of its 4"),
        ({"linear": [0, 0, np.nan, 0]}, "linear has NaN"),
        ({"index": [0, 1, 2, 4]}, "index goes beyond"),
        ({"total": (1.0, 2.0)}, "one total, or a pair"),
    ],
)
def test_bad_parts_are_refused(change, message):
    parts = {"linear": 0.0, "sign": 1.0, "lower": 0.0, "upper": 1.0} | change
    with pytest.raises(ValueError, match=message):
        BoxQP(Gram(Linear(), XOR), **parts)


def test_general_refuses_what_it_cannot_rescale():
    with pytest.raises(ValueError, match="entry 1 is 0"):
        quadratic(np.eye(2), 0, [1, 0], 0, 1, 1)
    with pytest.raises(ValueError, match="symmetric"):
        quadratic([[1, 2], [0, 1]], 0, 1, 0, 1, 1)


# Without bias


def test_problem_without_total_is_solved_with_a_variable_more():
    problem = made("svc no bias", 2, n=30)
    found = solved(problem)
    value, F = found.value[:-1], found.function[:-1]
    assert_allclose(F, problem.gram @ problem.coef(value), atol=1e-9)
    assert problem.violation(value, F) < 1e-8
    primal, dual = problem.objectives(value, F, (0.0,))
    assert abs(primal - dual) < 1e-6
    margins = problem.sign * F
    assert np.all(margins[value == 0] >= 1 - 1e-7)


# Hulls


def test_distance_of_two_hulls_is_the_hard_margin():
    X = np.array([[0.0, 0.0], [0.0, 2.0], [3.0, 1.0], [5.0, 5.0]])
    problem = svc(Gram(Linear(), X), [-1.0, -1.0, 1.0, 1.0], np.inf)
    found = HullDistance(SMO(tol=1e-9)).solve(problem)
    assert found.status == "optimal"
    coef, bias = problem.decision(found)
    assert_allclose(coef @ X, [2 / 3, 0], atol=1e-8)
    assert_allclose(bias, -1, atol=1e-8)
    assert_allclose([found.primal, found.dual], 2 / 9, rtol=1e-7)
    assert_allclose(certificate(problem, found).margin, 1.5, rtol=1e-8)


def test_hulls_that_meet_are_reported_with_their_common_point():
    X = np.array([[0.0, 0.0], [2.0, 2.0], [0.0, 2.0], [2.0, 0.0]])
    sign = np.array([1.0, 1.0, -1.0, -1.0])
    found = HullDistance(SMO()).solve(svc(Gram(Linear(), X), sign, np.inf))
    assert found.status == "infeasible"
    weights = sign * found.value
    for side in (sign > 0, sign < 0):
        assert_allclose(np.abs(weights[side]).sum(), 1)
        assert_allclose(np.abs(weights[side]) @ X[side], [1, 1], atol=1e-6)


def test_width_is_the_largest_distance_from_the_first_point():
    X = np.random.default_rng(0).normal(size=(9, 3))
    expected = np.max(((X - X[0]) ** 2).sum(axis=1))
    assert_allclose(squared_width(Gram(Linear(), X)), expected)


# Certificates


def test_certificate_is_recomputed_from_the_definitions():
    for kind in ("svc", "nu_svc", "svr", "nu_svr", "one_class", "svdd"):
        problem = made(kind, n=30)
        found = solved(problem)
        first = certificate(problem, found)
        again = certified(
            problem, found.value, problem.gram @ problem.coef(found.value)
        )
        for name in ("primal", "dual", "margin", "n_free", "n_bound"):
            assert_allclose(getattr(first, name), getattr(again, name), rtol=1e-7)
        assert_allclose(first.violation, again.violation, atol=1e-10)


def test_primal_of_svc_is_its_definition():
    problem = made("svc", n=30)
    found = solved(problem)
    coef, bias = problem.decision(found)
    f = problem.gram @ coef + bias
    hinge = np.maximum(0, 1 - problem.sign * f)
    expected = coef @ (problem.gram @ coef) / 2 + problem.upper @ hinge
    assert_allclose(found.primal, expected, rtol=1e-10)


def test_primal_of_svr_is_its_definition():
    problem = made("svr", n=30)
    found = solved(problem)
    coef, bias = problem.decision(found)
    f = problem.gram @ coef + bias
    loss = np.maximum(0, np.abs(-problem.linear - f) - 0.2)
    expected = coef @ (problem.gram @ coef) / 2 + problem.upper @ loss
    assert_allclose(found.primal, expected, rtol=1e-10)


def test_certificates_add_up():
    parts = [
        certificate(problem, solved(problem))
        for problem in (made("svc", 1), made("svc", 2))
    ]
    both = together(parts)
    assert_allclose(both.primal, parts[0].primal + parts[1].primal)
    assert both.margin == min(part.margin for part in parts)
    assert both.parts == tuple(parts)
    assert together(parts[:1]) is parts[0]
    text = repr(both)
    for word in ("optimal", "gap", "at bound", "problems"):
        assert word in text


def test_status_of_several_problems_is_the_gravest():
    problem = made("svc", 1)
    part = certificate(problem, SMO().solve(problem))
    assert part.status == "optimal"

    def of(*statuses):
        return together([replace(part, run=Run(status)) for status in statuses]).status

    assert of("optimal", "indefinite") == "indefinite"
    assert of("indefinite", "optimal", "max_iter") == "max_iter"
    assert of("recomputed", "indefinite") == "indefinite"
    assert of("optimal", "optimal") == "optimal"


@looped(
    "K, psd, known",
    [
        ([[1.0, 0.5], [0.5, 1.0]], None, False),
        ([[1.0, 0.5], [0.5, 1.0]], False, True),
        ([[1.0, 0.5], [0.5, -1e-3]], None, True),  # k(x, x) < 0
        ([[1.0, 2.0], [2.0, 1.0]], None, True),  # βᵀKβ < 0 for β = (1, -1)
        ([[1.0, 2.0], [2.0, 1.0]], True, False),  # vouched for
    ],
)
def test_matrix_is_refuted_by_a_word_its_diagonal_or_a_square(K, psd, known):
    problem = svc(Gram(Precomputed(np.array(K), psd), np.arange(2)), [1.0, -1.0], 1.0)
    value = np.ones(2)
    function = problem.gram @ problem.coef(value)
    assert problem.refuted(value, function) is known
    assert np.isnan(certified(problem, value, function).gap) == known
    assert problem.padded().gram.kernel.psd is psd


def test_rounding_is_put_back_on_the_bounds_and_nothing_else():
    problem = svc(Gram(Linear(), np.ones((4, 1))), np.array([1.0, 1, -1, -1]), 2.0)
    near = np.array([2 - 1e-15, 1e-16, 1.0, 2 - 1e-6])
    assert problem.snapped(near, 1e-13).tolist() == [2.0, 0.0, 1.0, 2 - 1e-6]
    tiny = np.array([1e-15, 0.0, 5e-16, 5e-16])
    assert problem.snapped(tiny, 1e-13).tolist() == tiny.tolist()


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, -1.0, -1e-3, -3.5, -np.inf]),
            st.sampled_from([0.0, 1.0, 1e-3, 2.5, 1 / 3, np.inf]),
            st.sampled_from([0, 1, 2, 3]),
            st.floats(-2, 2),
        ),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([1e-13, 1e-9]),
)
def test_bounds_and_sums_are_those_of_the_slow_twin(variables, slack):
    lower, upper, place, number = (
        np.array(part) for part in zip(*variables, strict=True)
    )
    # At a bound, near it, or anywhere.
    near = np.choose(place, [lower, upper, upper * (1 - slack / 3), number])
    value = np.clip(np.where(np.isfinite(near), near, number), lower, upper)
    n = len(value)
    problem = BoxQP(Gram(Linear(), np.ones((n, 1))), 0.0, 1.0, lower, upper)
    found = problem.snapped(value, slack)
    assert_array_equal(found, naive_smo.snapped(value, lower, upper, slack))
    for total in (0.0, float(np.sum(value)), 0.7):
        made = replace(problem, total=total).balanced(found)
        expected = naive_smo.balanced(found, lower, upper, total)
        # Half way between two numbers either may be taken: both miss as much.
        missed, least = (abs(fsum([*v.tolist(), -total])) for v in (made, expected))
        assert missed <= least * (1 + 1e-9)
        assert_allclose(made, expected, rtol=4e-16, atol=1e-300)


def test_start_near_a_feasible_point_is_that_point():
    problem = svc(Gram(Linear(), np.ones((4, 1))), np.array([1.0, 1, -1, -1]), 2.0)
    feasible = np.array([0.0, 0.3, 0.1, 0.1 + 0.1 + 1e-17])
    assert problem.start(feasible).tolist() == feasible.tolist()


def test_indefinite_kernel_claims_no_gap():
    K = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    problem = svc(Gram(Precomputed(K), np.arange(3)), [1.0, -1.0, -1.0], 1.0)
    for solver in (SMO(), NaiveSMO()):
        found = solver.solve(problem)
        assert found.status == "indefinite"
        assert np.isnan(certificate(problem, found).gap)


@pytest.mark.parametrize("side", [-1, 1])
def test_a_loss_that_rounding_hides_is_in_the_primal(side):
    apart, rounding = made("hulls"), 1e-3
    problem = svc(apart.gram, apart.sign, np.where(apart.sign == side, 1e6, 10.0))
    value = SMO(tol=1e-9).solve(problem).value
    function = problem.gram @ problem.coef(value)
    level = problem.level(value, function)
    # f(x) of one class beside its margin: on the wrong side in truth, on the right one
    # as computed.
    shift = 0.49 * rounding * np.where(problem.sign == side, side, 0.0)
    primal, _ = problem.objectives(value, function - shift, level, 0.0)
    said, _ = problem.objectives(value, function + shift, level, rounding)
    assert said >= primal > 100


@pytest.mark.parametrize("kind", FAMILY)
def test_slopes_of_points_that_are_not_near_do_not_decide(rng, kind):
    """Whatever F is within half the reach, the violation is that of the near points."""
    n, reach = 40, 0.02
    problem = made(kind, n=n)
    value = SMO(tol=1e-9).solve(problem).value
    function = problem.gram @ problem.coef(value)
    near = problem.near(value, function, reach)
    assert near.any() and not near.all()
    for _ in range(50):
        first, second = function + reach / 2 * rng.uniform(-1, 1, (2, n))
        mixed = np.where(near, first, second)
        expected = problem.violation(value, first)
        assert expected > 0
        assert problem.violation(value, mixed) == expected


# Sums over plain problems, by the core


def plain_problems():
    """Problems whose variables are points, with finite bounds and one group."""
    random = np.random.default_rng(0)
    for n in (1, 5, 300):
        gram = Gram(RBF(0.5), random.normal(size=(n, 2)))
        sign = np.where(np.arange(n) % 3, 1.0, -1.0)
        target = random.normal(size=n)
        yield svc(gram, sign, 2.0)
        yield svc(gram, sign, random.uniform(0.1, 5, n), bias=False)
        yield svr(gram, target, 1.5, 0.2)
        yield one_class(gram, 0.4)
        lower, upper = random.uniform(-2, 1, n), random.uniform(1, 3, n)
        yield BoxQP(gram, target, sign, lower, upper, float(sign @ upper) / 2)


def some_values(problem, random):
    """Values within the bounds, some of them at a bound or 0."""
    for _ in range(4):
        share = np.clip(random.uniform(-0.5, 1.5, len(problem)), 0, 1)
        value = problem.lower + share * (problem.upper - problem.lower)
        inside = (problem.lower <= 0) & (problem.upper >= 0)
        yield np.where(inside & (random.random(len(problem)) < 0.3), 0.0, value)


def test_sums_of_the_core_are_those_of_the_definition():
    random = np.random.default_rng(1)
    for problem in plain_problems():
        n = len(problem)
        slow = replace(problem, index=np.arange(n))  # which the core does not sum over
        assert problem.plain is not None and slow.plain is None
        for value in some_values(problem, random):
            F = problem.gram @ problem.coef(value) + 0.01 * random.normal(size=n)
            level = problem.level(value, F)
            assert_allclose(level, slow.level(value, F), rtol=1e-12, atol=1e-13)
            found = problem.violation(value, F)
            assert_allclose(found, slow.violation(value, F), rtol=1e-12, atol=1e-13)
            for rounding in (0.0, 1e-12, 0.1):
                bracket = problem.bracket(value, F, level, rounding)
                other = slow.bracket(value, F, level, rounding)
                assert_allclose(bracket, other, rtol=1e-10, atol=1e-11)


def test_the_core_judges_as_the_definitions_do():
    random = np.random.default_rng(2)
    for problem in plain_problems():
        slow = replace(problem, index=np.arange(len(problem)))
        for value in some_values(problem, random):
            beta = problem.sign * problem.start(value)
            beta *= 1 + 1e-15 * random.normal(size=len(beta))
            F = problem.gram @ beta
            total = np.nan if problem.total is None else problem.total
            errors = 8.0, 1.0, 3.0
            kept = beta.copy()
            settled, level, violation, primal, dual, error, rounding = _core.judge_box(
                kept, F, *problem.plain, total, *errors
            )
            value = slow.balanced(slow.snapped(slow.sign * beta, slack=1e-13))
            assert_array_equal(slow.sign * value, kept)
            off = float(np.abs(kept - beta).sum())
            plain = slow.rounding(value, 8.0, 3.0, 1.0)
            assert settled == (off <= plain / 8)
            assert_allclose(rounding, plain + off, rtol=1e-12)
            assert_allclose(level, slow.level(value, F)[0], rtol=1e-12, atol=1e-13)
            found = slow.violation(value, F)
            assert_allclose(violation, found, rtol=1e-12, atol=1e-13)
            other = slow.bracket(value, F, (level,), rounding)
            assert_allclose((primal, dual, error), other, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_a_solution_is_the_same_with_and_without_the_core(tol):
    for problem in plain_problems():
        slow = replace(problem, index=np.arange(len(problem)))
        found, other = SMO(tol).solve(problem), SMO(tol).solve(slow)
        assert found.status == other.status
        assert found.dual <= other.primal and other.dual <= found.primal
        gap = found.primal - found.dual
        assert_allclose(gap, other.primal - other.dual, rtol=0.5, atol=1e-7 + 30 * tol)
        assert found.violation + found.rounding <= tol


def test_the_excess_of_a_sum_has_one_rounding():
    random = np.random.default_rng(3)
    values = random.normal(size=1000) * 10.0 ** random.integers(-12, 12, 1000)
    for total in (0.0, 1e9, float(values.sum())):
        found = _core.exact_excess(values, total)
        assert_allclose(found, fsum([*values.tolist(), -total]), rtol=1e-15)
    assert _core.exact_excess(np.array([1e30, 1.0, -1e30]), 1.0) == 0
