"""Evidence maximisation: the definition, the steps, and the maximum they end in."""

import naive_bayes as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose
from sklearn.linear_model import BayesianRidge

from mercer.gram import Gram
from mercer.kernels.coordinate import Spline
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear
from mercer.kernels.ways import Precomputed
from mercer.solvers import evidence
from mercer.solvers.bayes import Basis, SparseBayes
from mercer.solvers.evidence import EvidenceAscent, gains
from mercer.solvers.posterior import Logistic, Normal

rng = np.random.default_rng(5)
X = rng.uniform(-3, 3, size=(40, 1))
TARGET = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=40)
SIGN = np.where(TARGET + 0.5 * rng.normal(size=40) > 0, 1.0, -1.0)
KERNEL = RBF(0.8)
K = KERNEL(X)


def normal(kernel=KERNEL, points=X, target=TARGET, **options):
    return SparseBayes(Gram(kernel, points), target, **options)


def logistic(kernel=KERNEL, points=X, sign=SIGN, **options):
    return SparseBayes(Gram(kernel, points), sign, "logistic", **options)


def everything(n, found):
    """α of all n columns and of the bias, ∞ where a column was left out."""
    alpha = np.full(n + 1, np.inf)
    alpha[found.index], alpha[n] = found.alpha[:-1], found.alpha[-1]
    return alpha


def used(found, K):
    """The columns of the posterior, the bias last, and which have a finite α."""
    return naive.columns(K[:, found.index]), np.isfinite(found.alpha)


# At given α


def at(problem, alpha, beta=None):
    """The posterior at α of all columns, in the units of the problem."""
    basis = Basis(problem)
    index, scaled = np.arange(basis.size), alpha / basis.scale**2
    if problem.likelihood == "logistic":
        model = Logistic(basis, problem)
        return model.posterior(model.at(index, scaled))
    model = Normal(basis, problem)
    state = model.at(index, scaled * model.unit**2, beta * model.unit**2, index[:0])
    return model.posterior(state)


FIXED = np.exp(rng.normal(size=41))


def test_posterior_at_given_precisions_is_that_of_bayesian_ridge():
    found, Phi = at(normal(), FIXED, 20.0), naive.columns(K)
    mean, covariance = naive.posterior(Phi, TARGET, FIXED, 20.0)
    assert_allclose(np.append(found.mean, found.bias), mean, rtol=1e-6, atol=1e-8)
    assert_allclose(found.covariance, covariance, rtol=1e-6, atol=1e-9)
    assert_allclose(found.alpha, FIXED, rtol=1e-12)
    assert_allclose(found.beta, 20.0, rtol=1e-12)
    expected = naive.evidence(Phi, TARGET, FIXED, 20.0)
    assert_allclose(found.evidence, expected, rtol=1e-9)


def test_posterior_with_equal_precisions_is_that_of_scikit_learn():
    ridge = BayesianRidge(fit_intercept=False).fit(K, TARGET)
    problem, alpha = normal(bias=False), np.full(40, ridge.lambda_)
    found = at(problem, alpha, ridge.alpha_)
    assert_allclose(found.mean, ridge.coef_, rtol=1e-6, atol=1e-8)
    # scikit-learn's own covariance is that of the α and λ one step before the last.
    covariance = naive.posterior(K, TARGET, alpha, ridge.alpha_)[1]
    assert_allclose(found.covariance, covariance, rtol=1e-6, atol=1e-9)


def test_laplace_at_given_precisions_is_that_of_a_general_optimiser():
    chosen = np.arange(0, 40, 5)
    points, sign, alpha = X[chosen], SIGN[chosen], FIXED[: len(chosen) + 1]
    found = at(logistic(points=points, sign=sign), alpha)
    mode, covariance, value = naive.laplace(naive.columns(KERNEL(points)), sign, alpha)
    assert_allclose(np.append(found.mean, found.bias), mode, atol=1e-5)
    assert_allclose(found.covariance, covariance, rtol=1e-4, atol=1e-6)
    assert_allclose(found.evidence, value, rtol=1e-7)


def test_variance_of_f_is_that_of_its_columns():
    found = EvidenceAscent().solve(normal())
    Phi, _ = used(found, K)
    expected = np.diag(Phi @ found.covariance @ Phi.T)
    assert_allclose(found.variance(K[:, found.index]), expected, rtol=1e-9)


# One step


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(0, 12), st.booleans())
def test_gain_is_the_difference_of_evidence(seed, column, active):
    random = np.random.default_rng(seed)
    Phi, t = random.normal(size=(12, 13)), random.normal(size=12)
    alpha = np.where(random.random(13) < 0.5, np.inf, np.exp(random.normal(size=13)))
    alpha[column] = np.exp(random.normal()) if active else np.inf
    inverse = np.linalg.inv(np.eye(12) / 3 + (Phi / alpha) @ Phi.T)
    S, Q = np.einsum("ij,ik,kj->j", Phi, inverse, Phi), Phi.T @ inverse @ t
    gain, best = gains(S, Q, alpha)
    before = naive.evidence(Phi, t, alpha, 3.0)

    def after(a):
        return naive.evidence(Phi, t, np.where(np.arange(13) == column, a, alpha), 3.0)

    assert_allclose(after(best[column]) - before, gain[column], atol=1e-7)
    others = [after(a) for a in [*np.exp(np.linspace(-8, 8, 33)), np.inf]]
    assert max(others) <= after(best[column]) + 1e-8


@looped("new", [0.3, 50.0, np.inf])
@looped("place", [0, 3, 8])
def test_a_step_agrees_with_starting_anew(place, new):
    problem = normal()
    model = Normal(Basis(problem), problem)
    active, pool = np.array([3, 11, 25, 40]), np.array([0, 7, 19, 30, 38])
    state = model.at(active, np.array([1.0, 2.0, 0.5, 4.0]), 30.0, pool)
    moved = model.moved(state, place, new)
    anew = model.changed(state, moved.alpha)
    assert_allclose(moved.evidence, anew.evidence, rtol=1e-10)
    assert_allclose(moved.S, anew.S, rtol=1e-6)
    assert_allclose(moved.Q, anew.Q, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("problem", [normal(), logistic()], ids=["normal", "logistic"])
def test_a_scan_sees_what_the_columns_in_view_show(problem):
    kind = Normal if problem.likelihood == "normal" else Logistic
    model = kind(Basis(problem), problem)
    state = model.focus(model.start(), np.arange(41))
    S, Q = model.scan(state)
    assert_allclose(S[state.which], state.S, rtol=1e-8, atol=1e-8)
    assert_allclose(Q[state.which], state.Q, rtol=1e-8, atol=1e-8)


def test_best_noise_is_that_of_a_grid():
    problem = normal()
    model = Normal(Basis(problem), problem)
    state = model.at(
        np.array([3, 11, 25]), np.array([1.0, 2.0, 0.5]), 30.0, np.array([0])
    )
    found = model.quieted(state)
    assert found.beta != state.beta
    Phi = model.basis.columns(state.which)
    shift = 40 * np.log(model.unit)
    values = [
        naive.evidence(Phi, model.target, state.alpha, found.beta * factor) - shift
        for factor in (0.9, 0.99, 1.0, 1.01, 1.1)
    ]
    assert_allclose(found.evidence, values[2], rtol=1e-9)
    assert np.argmax(values) == 2


# The end


@pytest.mark.parametrize("kernel", [KERNEL, Spline(), Sigmoid(0.5), Linear()], ids=repr)
def test_at_the_end_no_single_step_adds_more_than_tol(kernel):
    problem = normal(kernel)
    found = EvidenceAscent(tol=1e-6).solve(problem)
    assert found.status == "optimal"
    Phi = naive.columns(kernel(X))
    alpha = everything(40, found)
    best = naive.evidence(Phi, TARGET, alpha, found.beta)
    assert_allclose(best, found.evidence, rtol=1e-8)
    scale = np.mean(Phi**2, axis=0)
    for j in range(41):
        for new in [*scale[j] * np.exp(np.linspace(-10, 10, 11)), np.inf]:
            other = np.where(np.arange(41) == j, new, alpha)
            if np.isfinite(other).any():
                assert naive.evidence(Phi, TARGET, other, found.beta) < best + 1e-5
    for factor in (0.95, 1.05):
        assert naive.evidence(Phi, TARGET, alpha, factor * found.beta) < best


@pytest.mark.parametrize("seed", range(4))
def test_a_general_optimiser_finds_nothing_higher_nearby(seed):
    random = np.random.default_rng(seed)
    points = np.sort(random.uniform(-3, 3, 10))[:, None]
    t = np.sin(points[:, 0]) + 0.2 * random.normal(size=10)
    found = EvidenceAscent(tol=1e-8).solve(normal(RBF(0.5), points, t))
    Phi = naive.columns(RBF(0.5)(points))
    start = np.append(np.log(everything(10, found)), np.log(found.beta))
    assert naive.highest(Phi, t, [start]) <= found.evidence + 1e-3
    # Other starts end in other maxima; none is much better.
    others = random.normal(size=(2, 12))
    assert naive.highest(Phi, t, others) <= found.evidence + 1.0


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 12), st.booleans(), st.booleans())
def test_evidence_never_falls(seed, n, classes, bias):
    """Few points on a grid: duplicates, equal columns, targets all the same."""
    random = np.random.default_rng(seed)
    points = random.integers(-2, 3, size=(n, 2)).astype(float)
    t = random.choice([-1.0, 1.0], n) if classes else random.integers(-1, 2, n) * 1.0
    kernel = [RBF(0.5), Linear(), Sigmoid(1.0)][seed % 3]
    likelihood = "logistic" if classes else "normal"
    problem = SparseBayes(Gram(kernel, points), t, likelihood, bias)
    found = EvidenceAscent().solve(problem)
    assert found.status == "optimal"
    assert (np.diff(found.curve) >= 0).all()
    assert_allclose(found.curve[-1], found.evidence, rtol=1e-5, atol=1e-5)
    assert np.isfinite(found.alpha).any()
    assert np.isfinite(found.mean).all() and np.isfinite(found.covariance).all()
    distinct = np.unique(points[found.index], axis=0)
    assert len(distinct) == len(found.index)


def test_laplace_evidence_is_that_of_the_definition():
    found = EvidenceAscent().solve(logistic())
    Phi, there = used(found, K)
    mode, covariance, value = naive.laplace(Phi[:, there], SIGN, found.alpha[there])
    assert_allclose(np.append(found.mean, found.bias)[there], mode, atol=1e-4)
    assert_allclose(found.covariance[np.ix_(there, there)], covariance, rtol=1e-3)
    assert_allclose(found.evidence, value, rtol=1e-6)
    assert found.status == "optimal" and np.isnan(found.beta)


# What does not matter


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_units_of_the_target_do_not_matter(factor):
    one, other = (
        EvidenceAscent().solve(normal(target=c * TARGET)) for c in (1, factor)
    )
    assert (one.index == other.index).all()
    assert_allclose(other.mean, factor * one.mean, rtol=1e-4)
    assert_allclose(other.beta, one.beta / factor**2, rtol=1e-4)
    assert_allclose(other.evidence, one.evidence - 40 * np.log(factor), rtol=1e-6)


@pytest.mark.parametrize("problem", [normal, logistic])
def test_units_of_the_kernel_do_not_matter(problem):
    one, other = (EvidenceAscent().solve(problem(c * KERNEL)) for c in (1.0, 1e5))
    assert (one.index == other.index).all()
    assert_allclose(other.mean, one.mean / 1e5, rtol=1e-4)
    assert_allclose(other.evidence, one.evidence, rtol=1e-7)


@pytest.mark.parametrize("problem, target", [(normal, TARGET), (logistic, SIGN)])
def test_weight_2_is_the_row_twice(problem, target):
    weight = np.where(np.arange(40) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(40), weight.astype(int))
    weighted = EvidenceAscent(tol=1e-8).solve(problem(weight=weight))
    repeated = EvidenceAscent(tol=1e-8).solve(problem(KERNEL, X[twice], target[twice]))
    # Laplace's evidence is approached from below, step by step: not to the last digit.
    assert_allclose(weighted.evidence, repeated.evidence, rtol=1e-5)
    f = K[:, weighted.index] @ weighted.mean + weighted.bias
    g = K[:, twice][:, repeated.index] @ repeated.mean + repeated.bias
    assert_allclose(f, g, atol=1e-2)


@pytest.mark.parametrize("problem", [normal, logistic])
def test_a_matrix_that_is_not_held_gives_the_same(problem, monkeypatch):
    held = EvidenceAscent().solve(problem())
    monkeypatch.setattr("mercer.native.memory.available_memory", lambda: 0)
    again = EvidenceAscent().solve(problem())
    assert (held.index == again.index).all()
    assert_allclose(again.mean, held.mean, rtol=1e-5)


@pytest.mark.parametrize("problem", [normal, logistic])
def test_a_small_pool_ends_in_a_maximum_too(problem, monkeypatch):
    held = EvidenceAscent().solve(problem())
    monkeypatch.setattr(evidence, "POOL", 2)
    again = EvidenceAscent().solve(problem())
    assert again.status == "optimal"
    assert_allclose(again.evidence, held.evidence, atol=1.0)


# Edges


def test_known_noise_stays():
    found = EvidenceAscent().solve(normal(noise=0.5))
    assert_allclose(found.beta, 4.0, rtol=1e-12)


def test_a_constant_target_is_the_bias_alone():
    found = EvidenceAscent().solve(normal(target=np.full(40, 3.0)))
    assert_allclose(K[:, found.index] @ found.mean + found.bias, 3.0, rtol=1e-6)
    assert len(found.index) == 0 and found.status == "optimal"


@pytest.mark.parametrize("bias", [True, False])
def test_a_target_of_zeros_leaves_one_column_with_weight_0(bias):
    found = EvidenceAscent().solve(normal(target=np.zeros(40), bias=bias))
    assert np.isfinite(found.alpha).sum() == 1
    assert_allclose(found.mean, 0) and found.bias == 0


def test_columns_of_zeros_are_never_used():
    matrix = np.diag([1.0, 0.0, 2.0, 0.0])
    problem = SparseBayes(Gram(Precomputed(matrix), np.arange(4)), [1.0, 2.0, 3.0, 4.0])
    assert not set(EvidenceAscent().solve(problem).index) & {1, 3}


def test_noise_free_targets_end_in_little_noise():
    found = EvidenceAscent().solve(normal(target=np.sin(X[:, 0])))
    assert found.status == "optimal" and found.beta > 1e3
    f = K[:, found.index] @ found.mean + found.bias
    assert_allclose(f, np.sin(X[:, 0]), atol=5e-2)


def test_separable_classes_end_in_finite_weights():
    sign = np.where(X[:, 0] > 0, 1.0, -1.0)
    found = EvidenceAscent().solve(logistic(Linear(), sign=sign))
    assert found.status == "optimal" and np.isfinite(found.mean).all()
    assert (sign * (X @ X[found.index].T @ found.mean + found.bias) > 0).all()


def test_max_iter_ends_the_search():
    found = EvidenceAscent(max_iter=3).solve(normal())
    assert found.status == "max_iter" and found.run.iterations <= 4
    assert found.violation > 1e-5


def test_watch_sees_the_evidence_rise_and_can_stop():
    seen = []
    EvidenceAscent().solve(normal(), watch=seen.append)
    assert [p.round for p in seen] == list(range(len(seen)))
    assert (np.diff([p.objective for p in seen]) > 0).all()
    assert seen[-1].violation < 1e-5 and "log evidence" in seen[-1].line()
    found = EvidenceAscent().solve(normal(), watch=lambda progress: progress.round == 0)
    assert found.status == "stopped" and found.run.iterations == 1


@looped(
    "make, message",
    [
        (lambda: normal(target=TARGET[:5]), "one target per point"),
        (lambda: normal(weight=[1.0]), "one weight per point"),
        (lambda: normal(weight=np.zeros(40)), "weights > 0"),
        (lambda: normal(noise=-1.0), "noise > 0"),
        (lambda: logistic(sign=TARGET), "targets \\+1 and -1"),
        (lambda: normal(likelihood="poisson"), "got 'poisson'"),
        (lambda: EvidenceAscent(tol=0), "tol > 0"),
        (lambda: EvidenceAscent(alpha_max=0), "alpha_max > 1e-12"),
    ],
)
def test_what_cannot_be_solved_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_kernel_values_whose_squares_overflow_are_refused():
    problem = normal(Linear(), 1e200 * X)
    with pytest.raises(ValueError, match="not finite numbers on these points"):
        EvidenceAscent().solve(problem)
