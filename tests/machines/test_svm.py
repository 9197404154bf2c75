"""The support vector machines: exact values, laws, certificates, and hard cases."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from naive_smo import NaiveSMO
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

from mercer.expansion import Expansion
from mercer.kernels.algebra import On
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.operators import Constant
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import BlockFunction, PairFunction, Precomputed
from mercer.machines.svm import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM
from mercer.native.threads import set_threads, threads
from mercer.solvers.smo import SMO

rng = np.random.default_rng(7)
X = rng.normal(size=(60, 3))
SIDE = np.where(
    X[:, 0] + X[:, 1] ** 2 - 0.7 + 0.4 * rng.normal(size=60) > 0, "in", "out"
)
THREE = np.digitize(X[:, 0] + 0.4 * rng.normal(size=60), [-0.5, 0.5])
TARGET = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=60)
NEW = rng.normal(size=(40, 3))
XOR = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])

MACHINES = [
    pytest.param(SVC(C=2.0), SIDE, id="SVC"),
    pytest.param(SVC(C=2.0), THREE, id="SVC, three classes"),
    pytest.param(SVC(C=2.0, multiclass="ovr"), THREE, id="SVC, one against the rest"),
    pytest.param(SVC(C=2.0, fit_intercept=False), SIDE, id="SVC without bias"),
    pytest.param(NuSVC(nu=0.3), SIDE, id="NuSVC"),
    pytest.param(NuSVC(nu=0.3), THREE, id="NuSVC, three classes"),
    pytest.param(SVR(C=2.0), TARGET, id="SVR"),
    pytest.param(SVR(C=2.0, fit_intercept=False), TARGET, id="SVR without bias"),
    pytest.param(NuSVR(C=2.0), TARGET, id="NuSVR"),
    pytest.param(OneClassSVM(nu=0.3), None, id="OneClassSVM"),
    pytest.param(SVDD(nu=0.3), None, id="SVDD"),
]


def values(machine, points=NEW):
    if hasattr(machine, "decision_function"):
        return machine.decision_function(points)
    return machine.predict(points)


def chosen(y, index):
    return None if y is None else y[index]


# Exact values


def test_xor_has_its_known_solution():
    machine = SVC(kernel=Polynomial(2), C=10.0).fit(XOR, [-1, 1, 1, -1])
    assert_allclose(machine.dual_coef_, [[-1 / 8, -1 / 8, 1 / 8, 1 / 8]], atol=1e-9)
    assert_allclose(machine.intercept_, 0, atol=1e-9)
    assert_allclose(machine.decision_function(NEW[:, :2]), -NEW[:, 0] * NEW[:, 1],
                    atol=1e-9)  # fmt: skip
    certificate = machine.certificate_
    assert_allclose([certificate.dual, certificate.primal], 0.25, atol=1e-9)
    assert_allclose(certificate.margin, np.sqrt(2), rtol=1e-9)


@looped("C", [0.8, 1.0, 100.0, np.inf])
def test_regression_through_two_points_has_its_known_slope(C):
    machine = SVR(kernel="linear", epsilon=0.1, C=C).fit([[0.0], [1.0]], [0.0, 1.0])
    assert_allclose(machine.coef_, [[0.8]], atol=1e-9)
    assert_allclose(machine.intercept_, [0.1], atol=1e-9)


def test_two_points_have_the_hyperplane_halfway():
    machine = SVC(kernel="linear", C=np.inf).fit([[0.0, 0.0], [2.0, 0.0]], [0, 1])
    assert_allclose(machine.coef_, [[1, 0]], atol=1e-9)
    assert_allclose(machine.intercept_, [-1], atol=1e-9)
    assert_allclose(machine.certificate_.margin, 1, rtol=1e-9)


# The certificate


@looped("machine, y", MACHINES)
@looped("weight", [None, rng.integers(0, 4, 60)], ids=["", "weighted"])
def test_certificate_is_confirmed_by_an_independent_computation(machine, y, weight):
    machine = clone(machine).fit(X, y, weight)
    first, again = machine.certificate_, machine.certify(X, y, weight)
    scale = max(1.0, abs(first.primal))
    assert_allclose(again.primal, first.primal, atol=1e-6 * scale)
    assert_allclose(again.dual, first.dual, atol=1e-6 * scale)
    assert_allclose(again.margin, first.margin, rtol=1e-5)
    assert -1e-9 * scale <= again.gap < 1e-6 * scale
    assert again.violation < 1e-6
    assert first.status == "optimal" and first.run.iterations > 0
    assert len(again.parts) == len(first.parts)


def test_certificate_of_a_looser_fit_has_a_larger_gap():
    loose = SVC(solver=SMO(tol=0.1)).fit(X, SIDE)
    tight = SVC(solver=SMO(tol=1e-8)).fit(X, SIDE)
    assert loose.certify(X, SIDE).violation <= 0.1
    assert tight.certify(X, SIDE).gap < 1e-6 < loose.certify(X, SIDE).gap


def test_certificate_counts_support_vectors():
    machine = SVC(C=0.5).fit(X, SIDE)
    size = np.abs(machine.dual_coef_)
    assert machine.certificate_.n_bound == (size == 0.5).sum()
    assert machine.certificate_.n_free == (size < 0.5).sum()
    assert "at bound" in repr(machine.certificate_)


# Laws


@looped("machine, y", MACHINES)
def test_weight_two_is_the_row_twice_and_weight_zero_no_row(machine, y):
    times = rng.integers(0, 4, 60)
    weighted = clone(machine).fit(X, y, times)
    repeated = clone(machine).fit(
        np.repeat(X, times, axis=0), chosen(y, np.repeat(np.arange(60), times))
    )
    assert_allclose(values(weighted), values(repeated), atol=1e-6)
    assert not np.isin(np.flatnonzero(times == 0), weighted.support_).any()


@looped("machine, y", MACHINES)
def test_order_of_points_does_not_matter(machine, y):
    order = rng.permutation(60)
    expected = values(clone(machine).fit(X, y))
    found = values(clone(machine).fit(X[order], chosen(y, order)))
    assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("machine, y", MACHINES)
def test_scale_of_points_is_the_inverse_of_gamma(machine, y):
    expected = values(clone(machine).set_params(gamma=0.3).fit(X, y))
    scaled = clone(machine).set_params(gamma=0.3 / 49).fit(7 * X, y)
    assert_allclose(values(scaled, 7 * NEW), expected, atol=1e-6)
    # And gamma="scale" sees to it by itself.
    expected = values(clone(machine).fit(X, y))
    assert_allclose(values(clone(machine).fit(7 * X, y), 7 * NEW), expected, atol=1e-6)


@looped("machine, y", MACHINES)
def test_constant_feature_does_not_matter(machine, y):
    def widened(points):
        return np.column_stack([points, np.full(len(points), 3.0)])

    machine = clone(machine).set_params(gamma=0.3)
    expected = values(clone(machine).fit(X, y))
    found = values(clone(machine).fit(widened(X), y), widened(NEW))
    assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("machine, y", MACHINES)
def test_dense_sparse_matrix_and_function_are_one(machine, y):
    if machine.__class__ is SVDD:
        matrix = Precomputed(rbf_kernel(np.vstack([X, NEW]), gamma=0.3))
        indices = np.arange(60), np.arange(60, 100)
    else:
        matrix = "precomputed"
        indices = rbf_kernel(X, gamma=0.3), rbf_kernel(NEW, X, gamma=0.3)
    expected = values(clone(machine).set_params(gamma=0.3).fit(X, y))
    ways = [
        (RBF(0.3), X, NEW),
        (RBF(0.3), sp.csr_array(X), sp.csr_array(NEW)),
        ("rbf", sp.csr_array(X), NEW),
        (matrix, *indices),
        (lambda A, B: rbf_kernel(A, B, gamma=0.3), X, NEW),
        (PairFunction(lambda a, b: np.exp(-0.3 * np.sum((a - b) ** 2))), X, NEW),
        (RBF(0.3), pd.DataFrame(X, columns=list("abc")),
         pd.DataFrame(NEW, columns=list("abc"))),
    ]  # fmt: skip
    for kernel, points, new in ways:
        # A kernel object has its own gamma, and a second one is warned of.
        gamma = 0.3 if isinstance(kernel, str) else "scale"
        found = clone(machine).set_params(kernel=kernel, gamma=gamma).fit(points, y)
        assert_allclose(values(found, new), expected, atol=1e-6)


@looped("machine, y", MACHINES)
def test_expansion_is_the_truth(machine, y):
    machine = clone(machine).fit(X, y)
    f = machine.expansion_
    assert isinstance(f, Expansion)
    assert f.kernel == RBF().resolve(X)
    assert np.array_equal(f.points, X[machine.support_])
    if not isinstance(machine, SVDD):
        assert np.array_equal(machine.intercept_, np.atleast_1d(f.bias))
    if isinstance(machine, SVR | NuSVR):
        assert np.array_equal(machine.predict(NEW), f(NEW))


def test_names_of_classes_do_not_matter():
    names = np.array([30, 10, 20])
    a, b = SVC().fit(X, THREE), SVC().fit(X, names[THREE])
    assert np.array_equal(names[a.predict(NEW)], b.predict(NEW))
    assert b.classes_.tolist() == [10, 20, 30]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 30.0]))
def test_optimality_conditions_hold_on_random_problems(seed, C):
    local = np.random.default_rng(seed)
    points, y = local.normal(size=(25, 2)), local.integers(0, 2, 25)
    if len(np.unique(y)) < 2:
        return
    machine = SVC(C=C, kernel=RBF(local.uniform(0.1, 3))).fit(points, y)
    alpha = np.zeros(25)
    alpha[machine.support_] = np.abs(machine.dual_coef_[0])
    margin = np.where(y == 1, 1, -1) * machine.decision_function(points)
    assert np.all(margin[alpha == 0] >= 1 - 1e-6)
    assert np.all(margin[alpha == C] <= 1 + 1e-6)
    free = (alpha > 0) & (alpha < C)
    assert_allclose(margin[free], 1, atol=1e-6)
    assert_allclose(machine.dual_coef_.sum(), 0, atol=1e-9)


def test_nu_bounds_the_errors_and_the_support_vectors():
    for nu in (0.2, 0.5):
        machine = NuSVC(nu=nu).fit(X, SIDE)
        side = np.where(SIDE == machine.classes_[1], 1, -1)
        inside = np.mean(side * machine.decision_function(X) < 1 - 1e-7)
        assert inside <= nu <= len(machine.support_) / 60
        machine = OneClassSVM(nu=nu).fit(X)
        assert np.mean(machine.predict(X) < 0) <= nu <= len(machine.support_) / 60


def test_nu_beyond_the_smaller_class_is_refused():
    y = np.arange(60) < 10
    with pytest.raises(ValueError, match=r"specified nu is infeasible.*nu ≤ 0.3333"):
        NuSVC(nu=0.5).fit(X, y)
    NuSVC(nu=0.5, class_weight="balanced").fit(X, y)


def test_nu_without_a_margin_is_said():
    points = np.array([[0.0], [1.0], [2.0], [3.0], [0.0], [1.0], [2.0], [3.0]])
    with pytest.warns(ConvergenceWarning, match="reduced hulls of two classes meet"):
        NuSVC(nu=0.5, kernel="linear").fit(points, [0] * 4 + [1] * 4)


# One class


def test_one_class_and_the_smallest_ball_are_one_for_a_constant_diagonal():
    one, ball = OneClassSVM(nu=0.3).fit(X), SVDD(nu=0.3).fit(X)
    assert np.array_equal(one.support_, ball.support_)
    total = 0.3 * 60
    assert_allclose(ball.dual_coef_ * total, one.dual_coef_, atol=1e-6)
    scaled = 2 / total * one.decision_function(NEW)
    assert_allclose(ball.decision_function(NEW), scaled, atol=1e-6)
    assert np.array_equal(ball.predict(NEW), one.predict(NEW))


def test_ball_holds_all_but_a_fraction_of_the_points():
    machine = SVDD(nu=0.2, kernel=Polynomial(2)).fit(X)
    distances = np.sqrt(-machine.score_samples(X))
    outside = distances > machine.radius_
    assert np.mean(outside) <= 0.2 <= len(machine.support_) / 60
    assert np.array_equal(machine.predict(X) == -1, outside)
    assert_allclose(machine.expansion_.coef.sum(), 1)


def test_smallest_ball_of_all_points_is_that_of_geometry():
    points = np.array([[0.0, 0.0], [4.0, 0.0], [2.0, 1.0], [2.0, -2.0]])
    machine = SVDD(nu=1e-3, kernel="linear").fit(points)
    assert_allclose(machine.expansion_.coef @ machine.support_vectors_, [2, 0],
                    atol=1e-7)  # fmt: skip
    assert_allclose(machine.radius_, 2, rtol=1e-7)


def test_ball_refuses_rows_of_kernel_values():
    with pytest.raises(ValueError, match=r"needs k\(x, x\) of new points"):
        SVDD(kernel="precomputed").fit(rbf_kernel(X))


# Hard margin


def test_hard_margin_is_the_limit_of_the_soft_one():
    y = X[:, 0] + X[:, 1] > 0.1
    hard = SVC(C=np.inf, kernel=RBF(1.0), tol=1e-6).fit(X, y)
    soft = SVC(C=1e7, kernel=RBF(1.0), tol=1e-6).fit(X, y)
    assert_allclose(values(hard), values(soft), atol=1e-3)
    assert hard.certificate_.n_bound == 0
    assert hard.certificate_.gap < 1e-3 * hard.certificate_.primal
    assert np.all(np.where(y, 1, -1) * hard.decision_function(X) >= 1 - 1e-5)
    assert_allclose(hard.certify(X, y).dual, hard.certificate_.dual, rtol=1e-6)


def test_hard_margin_of_three_classes_separates_them():
    points = np.repeat([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]], 10, axis=0)
    points += rng.uniform(-1, 1, size=points.shape)
    y = np.repeat([0, 1, 2], 10)
    machine = SVC(C=np.inf, kernel="linear").fit(points, y)
    assert machine.score(points, y) == 1


def test_classes_that_meet_are_refused_with_the_proof():
    points = np.vstack([XOR, [[0.1, 0.2]]])
    y = np.array([0, 1, 1, 0, 1])
    with pytest.raises(ValueError, match=r"hulls of these two meet.*C=1e6") as error:
        SVC(C=np.inf, kernel="linear").fit(points, y)
    weights = error.value.hull_weights
    assert_allclose(weights[y == 1].sum(), 1)
    assert_allclose(weights[y == 0].sum(), -1)
    assert_allclose(weights @ points, [0, 0], atol=1e-6)
    assert error.value.slack > 0.5


def test_equal_points_of_both_classes_are_refused_by_the_hard_margin():
    points = np.vstack([X, X[:1]])
    y = np.append(X[:, 0] > 0, not X[0, 0] > 0)
    with pytest.raises(ValueError, match="hulls of these two meet"):
        SVC(C=np.inf).fit(points, y)


# Without bias


@pytest.mark.parametrize("machine, y", [(SVC, SIDE), (SVR, TARGET)])
def test_bias_free_machine_is_the_one_with_a_fixed_bias(machine, y):
    found = machine(kernel=RBF(0.5), fit_intercept=False).fit(X, y)
    assert found.intercept_.tolist() == [0.0]
    # A large constant in the kernel is a bias that costs next to nothing.
    free = machine(kernel=RBF(0.5), C=1.0).fit(X, y)
    wide = machine(kernel=RBF(0.5) + Constant(1e4), fit_intercept=False, C=1.0).fit(
        X, y
    )
    assert_allclose(values(wide), values(free), atol=1e-2)


# Several outputs


@pytest.mark.parametrize("machine", [SVR(), NuSVR(), SVR(kernel="linear")], ids=str)
def test_several_targets_are_so_many_machines(machine):
    targets = np.column_stack([TARGET, X[:, 2] ** 2, -TARGET])
    weight = rng.uniform(0.5, 2, 60)
    many = clone(machine).fit(X, targets, weight)
    assert many.predict(NEW).shape == (40, 3)
    assert many.dual_coef_.shape == (3, len(many.support_))
    assert many.intercept_.shape == (3,)
    for j, column in enumerate(targets.T):
        one = clone(machine).fit(X, column, weight)
        assert_allclose(many.predict(NEW)[:, j], one.predict(NEW), atol=1e-9)
        if machine.kernel == "linear":
            assert_allclose(many.coef_[j], one.coef_[0], atol=1e-9)
    assert many.certify(X, targets, weight).violation < 1e-6


# Points of any kind

SENTENCES = ["aab", "abab", "bbaa", "aaaa", "ccd", "dcdc", "cddd", "dd"] * 3
TOPICS = (["left"] * 4 + ["right"] * 4) * 3


def common_letters(s, t):
    return float(sum(s.count(letter) * t.count(letter) for letter in set(s)))


def letter_block(S, T):
    return np.array([[common_letters(s, t) for t in T] for s in S])


@pytest.mark.parametrize(
    "kernel", [PairFunction(common_letters), BlockFunction(letter_block), letter_block]
)
def test_strings_pass_through_every_machine(kernel):
    lengths = np.array([len(s) for s in SENTENCES], dtype=float)
    machine = SVC(kernel=kernel, C=10.0).fit(SENTENCES, TOPICS)
    assert machine.predict(["ab", "cd"]).tolist() == ["left", "right"]
    assert all(isinstance(s, str) for s in machine.support_vectors_)
    assert machine.certify(SENTENCES, TOPICS).violation < 1e-6
    assert cross_val_score(machine, SENTENCES, TOPICS, cv=3).min() == 1
    fitted = SVR(kernel=kernel, epsilon=0.01, C=100.0).fit(SENTENCES, lengths)
    assert np.abs(fitted.predict(SENTENCES) - lengths).max() < 0.5
    assert OneClassSVM(kernel=kernel).fit(SENTENCES).predict(["ab"]).shape == (1,)
    assert SVDD(kernel=kernel).fit(SENTENCES).decision_function(["ab"]).shape == (1,)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_classes_share_the_kernel_values_of_points_that_are_no_vectors(scheme):
    asked = []

    def recorded(S, T):
        asked.append(len(S) * len(T))
        return letter_block(S, T)

    kinds = [str(i % 4) for i in range(len(SENTENCES))]
    SVC(kernel=BlockFunction(recorded), multiclass=scheme).fit(SENTENCES, kinds)
    assert sum(asked) == len(SENTENCES) ** 2


def test_records_of_mixed_kinds_are_points():
    kernel = On(0, PairFunction(common_letters)) + On(1, RBF(0.5))
    records = [(s, float(i % 8 < 4)) for i, s in enumerate(SENTENCES)]
    machine = SVC(kernel=kernel).fit(records, TOPICS)
    assert machine.score(records, TOPICS) == 1


def test_indices_of_a_matrix_are_points():
    K = rbf_kernel(X, gamma=0.3)
    machine = SVC(kernel=Precomputed(K)).fit(np.arange(40), SIDE[:40])
    expected = SVC(gamma=0.3).fit(X[:40], SIDE[:40]).decision_function(X[40:])
    assert_allclose(machine.decision_function(np.arange(40, 60)), expected, atol=1e-7)


def test_grid_search_reaches_the_parameters_of_the_kernel():
    search = GridSearchCV(SVC(kernel=RBF()), {"kernel__gamma": [1e-6, 0.5, 1e4]}, cv=3)
    search.fit(X, SIDE)
    assert search.best_params_ == {"kernel__gamma": 0.5}


# Several classes


def test_one_against_the_rest_follows_the_largest_function():
    machine = SVC(multiclass="ovr").fit(X, THREE)
    f = machine.decision_function(NEW)
    assert f.shape == (40, 3)
    assert np.array_equal(machine.predict(NEW), np.argmax(f, axis=1))
    for k in range(3):
        alone = SVC().fit(X, THREE == k).decision_function(NEW)
        assert_allclose(f[:, k], alone, atol=1e-6)
    assert machine.dual_coef_.shape == (3, len(machine.support_))


@pytest.mark.filterwarnings("ignore:specified nu is infeasible")
def test_a_nu_that_class_weight_makes_infeasible_is_met_pair_by_pair():
    rng = np.random.default_rng(3)
    y = np.arange(60) % 3
    X = 1.5 * np.eye(3)[y] + rng.normal(size=(60, 3))
    options = {"nu": 0.6, "kernel": RBF(0.3), "tol": 1e-6}
    machine = NuSVC(class_weight={0: 0.1}, decision_function_shape="ovo", **options)
    found = machine.fit(X, y).decision_function(X)
    for j, (first, second) in enumerate([(0, 1), (0, 2), (1, 2)]):
        places = np.flatnonzero((y == first) | (y == second))
        light = {0: 0.1} if first == 0 else None
        alone = NuSVC(class_weight=light, **options).fit(X[places], y[places])
        # Of two classes f > 0 speaks for the second, of a pair for the first.
        assert_allclose(-alone.decision_function(X), found[:, j], rtol=1e-3, atol=1e-3)


def test_one_against_one_is_every_pair_alone():
    machine = SVC(decision_function_shape="ovo", kernel=RBF(0.4)).fit(X, THREE)
    f = machine.decision_function(NEW)
    for j, (a, b) in enumerate([(0, 1), (0, 2), (1, 2)]):
        pair = np.isin(THREE, [a, b])
        alone = SVC(kernel=RBF(0.4)).fit(X[pair], THREE[pair]).decision_function(NEW)
        assert_allclose(f[:, j], -alone, atol=1e-6)


# Probabilities


@pytest.mark.parametrize(
    "machine",
    [SVC(), NuSVC(nu=0.3), SVC(multiclass="ovr"), SVC(break_ties=True)],
    ids=str,
)
@pytest.mark.parametrize("y", [SIDE, THREE], ids=["two classes", "three"])
def test_largest_probability_is_that_of_the_class_predicted(machine, y):
    machine = clone(machine).set_params(probability=True, random_state=0).fit(X, y)
    many = np.random.default_rng(3).normal(size=(400, 3)) * 2
    p = machine.predict_proba(many)
    assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    assert p.min() >= 0
    winners = machine.classes_[np.argmax(p, axis=1)]
    assert np.array_equal(winners, machine.predict(many))
    assert_allclose(machine.predict_log_proba(many), np.log(p))
    problems = machine.expansion_.n_outputs
    assert machine.probA_.shape == machine.probB_.shape == (problems,)


def test_probability_is_a_half_on_the_boundary_and_grows_with_f():
    machine = SVC(probability=True, random_state=0).fit(X, SIDE)
    f = machine.decision_function(NEW)
    p = machine.predict_proba(NEW)[:, 1]
    order = np.argsort(f)
    assert np.all(np.diff(p[order]) >= 0)
    assert np.array_equal(p > 0.5, f > 0)


def test_probabilities_repeat_by_their_seed_and_leave_global_state_alone():
    np.random.seed(5)
    before = np.random.get_state()[1].copy()
    first, second = (
        SVC(probability=True, random_state=1).fit(X, SIDE).predict_proba(NEW)
        for _ in range(2)
    )
    assert np.array_equal(first, second)
    assert np.array_equal(np.random.get_state()[1], before)


def test_probabilities_are_calibrated_out_of_fold():
    points, y = make_moons(600, noise=0.35, random_state=0)
    machine = SVC(probability=True, random_state=0, C=10.0, gamma=20.0)
    machine.fit(points[:300], y[:300])
    loss = log_loss(y[300:], machine.predict_proba(points[300:]))
    share = np.mean(y[:300])
    assert loss < 0.5 < log_loss(y[300:], np.full(300, share))


def test_rare_classes_have_probabilities_too():
    y = THREE.copy()
    y[0] = 7
    machine = SVC(probability=True, random_state=0).fit(X, y)
    assert machine.predict_proba(NEW).shape == (40, 4)


def test_probabilities_must_be_asked_for():
    machine = SVC().fit(X, SIDE)
    assert not hasattr(machine, "predict_proba")
    machine.set_params(probability=True)
    with pytest.raises(NotFittedError, match="fitted with probability=False"):
        machine.predict_proba(NEW)


# Warm starts


@pytest.mark.parametrize("machine, y", MACHINES)
def test_warm_start_ends_where_a_cold_one_does(machine, y):
    warm = clone(machine).set_params(warm_start=True, gamma=0.3)
    cold = clone(machine).set_params(gamma=0.3)
    for kept in (
        np.arange(40),
        np.arange(60),
        np.arange(10, 60),
        np.arange(59, -1, -1),
    ):
        warm.fit(X[kept], chosen(y, kept))
        expected = values(clone(cold).fit(X[kept], chosen(y, kept)))
        assert_allclose(values(warm), expected, atol=1e-6)


def test_warm_start_takes_fewer_steps():
    machine = SVC(C=1.0, warm_start=True, solver=SMO(tol=1e-3)).fit(X, SIDE)
    first = int(machine.n_iter_[0])
    machine.set_params(C=1.01).fit(X, SIDE)
    assert machine.n_iter_[0] < first / 2
    assert machine.fit(X, SIDE).n_iter_[0] == 0


def test_warm_start_of_other_classes_begins_afresh():
    machine = SVC(warm_start=True).fit(X, SIDE)
    expected = SVC().fit(X, THREE).decision_function(NEW)
    assert_allclose(machine.fit(X, THREE).decision_function(NEW), expected, atol=1e-6)


# Resuming


def wide_data(n):
    local = np.random.default_rng(n)
    points = local.normal(size=(n, 3))
    product = points[:, 0] * points[:, 1] + 0.3 * local.normal(size=n)
    return points, np.digitize(product, [-0.5, 0.5]), np.sin(2 * points[:, 0])


@pytest.mark.parametrize("n", [100, 600])
@pytest.mark.parametrize(
    "machine",
    [
        SVC(C=10.0),
        SVC(C=10.0, multiclass="ovr"),
        SVC(C=10.0, fit_intercept=False),
        SVC(C=10.0, kernel=PairFunction(lambda a, b: np.exp(-np.sum((a - b) ** 2)))),
        NuSVC(nu=0.2),
        SVR(C=10.0),
        NuSVR(C=1.0, nu=0.2),
        OneClassSVM(nu=0.3),
        SVDD(nu=0.3),
    ],
    ids=str,
)
def test_fit_that_was_stopped_goes_on_where_it_was(machine, n):
    points, y, target = wide_data(100 if callable(machine.kernel) else n)
    y = {"R": target, "C": y}.get(type(machine).__name__[-1])
    y = None if isinstance(machine, OneClassSVM | SVDD) else y
    whole = clone(machine).fit(points, y)
    steps = int(np.max(whole.n_iter_)) // 2
    part = clone(machine).set_params(warm_start=True, max_iter=steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        part.fit(points, y)
    first = np.sum(part.n_iter_)
    assert first < np.sum(whole.n_iter_)
    rest = part.set_params(max_iter=-1).fit(points, y)
    assert first + np.sum(rest.n_iter_) <= 1.2 * np.sum(whole.n_iter_)
    certificate = rest.certificate_
    assert certificate.status == "optimal"
    assert abs(certificate.dual - whole.certificate_.dual) <= max(
        whole.certificate_.gap, certificate.gap, 1e-9
    )


@pytest.mark.parametrize("how", ["max_iter", "time_limit", "stopped"])
def test_fit_that_was_stopped_goes_on_after_it_was_saved(how):
    points, y, _ = wide_data(1200)
    whole = SVC(C=10.0, solver=SMO(working_set=64)).fit(points, y)
    part = clone(whole).set_params(warm_start=True)
    if how == "stopped":
        part.set_params(callback=lambda progress: progress.round > 3)
    else:
        limit = {"max_iter": 500, "time_limit": 1e-6}[how]
        part.set_params(solver=replace(whole.solver, **{how: limit}))
    with pytest.warns(ConvergenceWarning, match=f"status {how!r}"):
        part.fit(points, y)
    part.set_params(callback=None, solver=whole.solver)
    rest = pickle.loads(pickle.dumps(part)).fit(points, y)
    # Of pairs whose turn it was not, all is left; of the others, what is left.
    assert np.sum(part.n_iter_) + np.sum(rest.n_iter_) <= 1.2 * np.sum(whole.n_iter_)
    assert rest.certificate_.status == "optimal"
    assert_allclose(
        rest.certificate_.dual, whole.certificate_.dual, atol=whole.certificate_.gap
    )


def test_hard_margin_that_was_stopped_goes_on_where_it_was():
    points = wide_data(600)[0]
    whole = SVC(C=np.inf, gamma=5.0).fit(points, points[:, 0] > 0)
    part = clone(whole).set_params(warm_start=True, max_iter=300)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        part.fit(points, points[:, 0] > 0)
    first = part.n_iter_[0]
    rest = part.set_params(max_iter=-1).fit(points, points[:, 0] > 0)
    assert first + rest.n_iter_[0] <= 1.2 * whole.n_iter_[0]
    assert_allclose(rest.certificate_.dual, whole.certificate_.dual, rtol=1e-3)


def test_equal_points_keep_their_own_coefficients_in_a_warm_start():
    points, y = np.repeat(X[:30], 2, axis=0), np.tile([0, 1, 1], 20)
    machine = SVC(C=3.0, warm_start=True, solver=SMO(tol=1e-8)).fit(points, y)
    first, coef = machine.n_iter_[0], np.zeros(60)
    coef[machine.support_] = machine.expansion_.coef
    machine.fit(points, y)
    again = np.zeros(60)
    again[machine.support_] = machine.expansion_.coef
    # The gradient is summed anew, and may be rounded to the other side of tol.
    assert machine.n_iter_[0] <= first / 20
    assert_allclose(again, coef, atol=1e-6)


def test_objects_without_a_value_of_their_own_are_known_again_after_pickling():
    boxes = [Box(row) for row in X]
    kernel = PairFunction(lambda a, b: float(np.exp(-np.sum((a.side - b.side) ** 2))))
    machine = SVC(kernel=kernel, warm_start=True, solver=SMO(tol=1e-8)).fit(boxes, SIDE)
    f = machine.expansion_
    first = machine.n_iter_[0]
    again = pickle.loads(pickle.dumps(list(f.points)))
    machine.expansion_ = Expansion(kernel, again, f.coef, f.bias)
    assert machine.fit(boxes, SIDE).n_iter_[0] <= first / 20


class Box:
    def __init__(self, side):
        self.side = side


# Hard cases


def test_unscaled_polynomial_data_end():
    points, y = load_breast_cancer(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine = SVC(kernel="poly", gamma=1.0, max_iter=100_000).fit(points, y)
    # k(x, x) is up to 1e22: what is left of the violation is less than rounding.
    certificate = machine.certificate_
    assert certificate.status in ("optimal", "max_iter", "stalled", "imprecise")
    assert certificate.violation < 1e-3
    assert 0 < machine.n_iter_[0] <= 100_000


def test_polynomials_of_degree_8_on_iris_end():
    points, y = load_iris(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine = SVC(kernel="poly", degree=8, gamma=1.0).fit(points, y)
    assert machine.score(points, y) > 0.9


def test_huge_price_ends():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine = SVC(C=1e8, kernel="linear", max_iter=200_000).fit(X, SIDE)
    assert 0 < machine.n_iter_[0] <= 200_000
    assert machine.fit_status_ == (machine.certificate_.status != "optimal")


def test_too_small_a_budget_is_said_with_the_gap():
    with pytest.warns(ConvergenceWarning, match=r"violation .* gap") as said:
        machine = SVC(max_iter=2).fit(X, SIDE)
    assert said[0].filename == __file__
    assert machine.fit_status_ == 1
    assert machine.certificate_.status == "max_iter"
    assert machine.certificate_.gap > 0


def test_equal_points_of_both_classes_are_at_their_bounds():
    points = np.repeat(X[:10], 2, axis=0)
    machine = SVC(C=3.0).fit(points, np.tile([0, 1], 10))
    assert_allclose(machine.decision_function(points), 0, atol=1e-6)
    assert_allclose(np.abs(machine.dual_coef_), 3, atol=1e-6)


def test_equal_points_leave_only_a_bias():
    same = np.ones((12, 2))
    machine = SVC().fit(same, [0] * 4 + [1] * 8)
    assert machine.predict(same[:1]) == 1
    assert_allclose(SVR().fit(same, np.full(12, 5.0)).predict(same), 5, atol=0.1)
    assert OneClassSVM().fit(same).predict(same).tolist() == [1] * 12


def test_regression_within_the_tube_has_no_support_vectors():
    machine = SVR(epsilon=1.0).fit(X, np.full(60, 2.0) + 0.1 * np.sign(TARGET))
    assert len(machine.support_) == 0
    assert machine.dual_coef_.shape == (1, 0)
    assert machine.support_vectors_.shape == (0, 3)
    assert_allclose(machine.predict(NEW), 2, atol=0.1)


def test_rank_one_matrix_is_solved():
    K = np.outer(X[:, 0], X[:, 0])
    machine = SVC(kernel="precomputed").fit(K, X[:, 0] > 0.2)
    assert machine.certificate_.gap < 1e-5
    assert machine.score(K, X[:, 0] > 0.2) > 0.9


@pytest.mark.parametrize("kernel", [Sigmoid(0.3, 0.1), "sigmoid"], ids=str)
@pytest.mark.parametrize(
    "machine, y",
    [
        *[entry for entry in MACHINES if not isinstance(entry.values[0], NuSVC)],
        pytest.param(NuSVC(nu=0.7), SIDE, id="NuSVC"),  # less has no margin here
    ],
)
def test_kernel_known_to_be_indefinite_gives_a_stationary_point_without_a_gap(
    machine, y, kernel
):
    machine = clone(machine).set_params(kernel=kernel).fit(X, y)
    again = machine.certify(X, y)
    for certificate in (machine.certificate_, again):
        assert certificate.status == "indefinite"
        assert np.isnan(certificate.primal) and np.isnan(certificate.gap)
        assert certificate.violation <= 1e-3
    assert_allclose(again.dual, machine.certificate_.dual, rtol=1e-6)
    assert machine.fit_status_ == 0


@pytest.mark.parametrize(
    "K",
    [
        X @ np.diag([1.0, 1.0, -3.0]) @ X.T,  # negative on its diagonal
        np.eye(60) - 1.5 * np.eye(60)[::-1],  # not on it, but in minors
    ],
    ids=["diagonal", "minors"],
)
def test_matrix_that_shows_itself_indefinite_gives_no_gap(K):
    y = np.arange(60) < 30
    for machine in (SVC(kernel="precomputed"), OneClassSVM(kernel="precomputed")):
        machine.fit(K, y)
        assert np.isnan(machine.certify(K, y).gap)
    machine = SVC(kernel="precomputed", max_iter=3)
    with pytest.warns(ConvergenceWarning, match=r"'max_iter'.*gap not known"):
        machine.fit(X @ np.diag([1.0, 1.0, -3.0]) @ X.T, y)


def test_matrix_of_unknown_kind_keeps_its_gap_while_nothing_refutes_it():
    K = rbf_kernel(X, gamma=0.3)
    machine = SVC(kernel="precomputed").fit(K, SIDE)
    assert machine.certificate_.status == "optimal"
    assert 0 <= machine.certify(K, SIDE).gap < 1e-6
    stated = SVC(kernel=Precomputed(K, psd=False)).fit(np.arange(60), SIDE)
    assert stated.certificate_.status == "indefinite"
    assert_array_equal(stated.dual_coef_, machine.dual_coef_)


def test_hard_margin_of_an_indefinite_kernel_claims_no_gap():
    y = X[:, 0] > 0
    machine = SVC(C=np.inf, kernel=Precomputed(rbf_kernel(X, gamma=9), psd=False))
    certificate = machine.fit(np.arange(60), y).certificate_
    assert certificate.status == "indefinite" and np.isnan(certificate.gap)
    assert certificate.violation <= 1e-3


@looped("bad", [np.nan, np.inf])
@looped("machine", [SVC(), SVR(), OneClassSVM()], ids=str)
def test_kernel_values_that_are_no_numbers_are_refused(machine, bad):
    def broken(A, B):
        K = A @ B.T
        K[0, -1] = bad
        K[-1, 0] = bad
        return K

    y = (X[:, 0] > 0).astype(float)
    with pytest.raises(ValueError, match="finite"):
        clone(machine).set_params(kernel=broken).fit(X, y)


def test_one_class_only_is_refused():
    with pytest.raises(ValueError, match="greater than one; got 1 class"):
        SVC().fit(X, np.zeros(60))


def test_failed_fit_leaves_the_last_one_intact():
    machine = SVC(kernel=RBF(0.5)).fit(X, SIDE)
    expected = machine.decision_function(NEW)

    class Interrupted:
        def solve(self, problem, *, start=None, watch=None):
            raise KeyboardInterrupt

    machine.set_params(solver=Interrupted())
    with pytest.raises(KeyboardInterrupt):
        machine.fit(X, THREE)
    assert np.array_equal(machine.decision_function(NEW), expected)
    assert machine.classes_.tolist() == ["in", "out"]


# Around


def test_solver_can_be_chosen():
    naive = SVC(solver=NaiveSMO(tol=1e-9)).fit(X, SIDE)
    assert_allclose(values(naive), values(SVC().fit(X, SIDE)), atol=1e-6)


@looped("machine, y", MACHINES)
def test_machines_survive_pickling(machine, y):
    machine = clone(machine).fit(X, y)
    again = pickle.loads(pickle.dumps(machine))
    assert np.array_equal(values(again), values(machine))


def test_single_precision_gives_the_same_function():
    expected = values(SVC(kernel=RBF(0.4)).fit(X, SIDE))
    machine = SVC(kernel=RBF(0.4)).fit(X.astype(np.float32), SIDE)
    assert machine.support_vectors_.dtype == np.float32
    assert_allclose(values(machine, NEW.astype(np.float32)), expected, atol=1e-4)


def test_cross_validation_takes_kernel_values():
    K = rbf_kernel(X, gamma=0.3)
    a = cross_val_predict(SVC(kernel="precomputed"), K, SIDE, cv=4)
    b = cross_val_predict(SVC(gamma=0.3), X, SIDE, cv=4)
    assert np.array_equal(a, b)


def test_kernel_of_the_machine_is_not_changed_by_fit():
    machine = SVC(kernel=RBF()).fit(X, SIDE)
    assert machine.kernel == RBF()
    assert machine.expansion_.kernel == RBF().resolve(X)
    assert SVC(kernel=Linear()).fit(X, SIDE).coef_.shape == (1, 3)


def test_the_hard_margin_with_one_support_vector_in_each_class():
    X, y = np.array([[0.0], [-1.0], [2.0], [5.0]]), [0, 0, 1, 1]
    machine = SVC(C=np.inf, kernel=Linear()).fit(X, y)
    assert_allclose(machine.decision_function(X), [-1, -2, 1, 4], atol=1e-6)
    assert machine.certificate_.status == "optimal"
    assert_allclose(machine.certificate_.margin, 1.0, rtol=1e-6)


def test_classes_solved_side_by_side_are_those_solved_in_turn():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(900, 4)), rng.integers(0, 5, size=900)
    before = threads()
    try:
        set_threads(1)
        in_turn = SVC(C=3).fit(X, y)
        set_threads(2)
        side_by_side = SVC(C=3).fit(X, y)
    finally:
        set_threads(before)
    assert_array_equal(in_turn.expansion_.coef, side_by_side.expansion_.coef)
    assert_array_equal(in_turn.intercept_, side_by_side.intercept_)


@pytest.mark.parametrize("machine", [SVC, NuSVC, SVR, OneClassSVM])
def test_a_width_for_each_column_is_one_width_on_scaled_columns(machine):
    rng = np.random.default_rng(0)
    X, widths = rng.normal(size=(300, 3)), np.array([0.2, 1.0, 3.0])
    y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.5, 1, -1)
    found = machine(kernel=RBF(widths.tolist()), tol=1e-8).fit(X, y)
    scaled = machine(kernel=RBF(1.0), tol=1e-8).fit(X * np.sqrt(widths), y)
    assert found.expansion_.kernel == RBF(widths.tolist())
    assert_allclose(found.support_vectors_, X[found.support_])
    f, g = found.expansion_(X), scaled.expansion_(X * np.sqrt(widths))
    assert_allclose(f, g, atol=1e-6)
    assert_allclose(found.certificate_.dual, scaled.certificate_.dual, rtol=1e-9)
    assert found.certificate_.run.rows == scaled.certificate_.run.rows
