"""Several kernels at once: laws, optimality of the weights, and a general solver."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import mercer
from mercer import (
    RBF,
    SVC,
    SVDD,
    SVR,
    KernelPCA,
    KernelRidge,
    Linear,
    MultipleKernel,
    NuSVC,
    NuSVR,
    On,
    OneClassSVM,
    Polynomial,
    Precomputed,
    Sigmoid,
    Spectrum,
    parse,
)
from mercer.gram import Gram
from mercer.native import memory
from mercer.outcomes import Status
from mercer.solvers.multiple import (
    BoxFamily,
    OnSum,
    Piece,
    images,
    sizes_of,
    squares_rounding,
)
from mercer.solvers.multiple import squares as squares_of
from mercer.solvers.weights import dual_norm, simplex_minimum
from mercer.theory import align, alignment

KERNELS = [Linear(), RBF(1.0), RBF(0.1), Polynomial(2)]
NORMS = [1, 1.1, 2, 5, np.inf]


@pytest.fixture(scope="module")
def data():
    X, y = make_moons(60, noise=0.25, random_state=0)
    return X, y, np.sin(3 * X[:, 0]) + X[:, 1]


def machines(kernel, tol=1e-9):
    return [
        SVC(C=2.0, kernel=kernel, tol=tol),
        NuSVC(nu=0.4, kernel=kernel, tol=tol),
        SVR(C=2.0, kernel=kernel, tol=tol),
        OneClassSVM(nu=0.3, kernel=kernel, tol=tol),
        KernelRidge(alpha=0.5, kernel=kernel),
    ]


def fitted(machine, X, y, target):
    classes = isinstance(machine, SVC | NuSVC)
    return machine.fit(X, y if classes else target)


def squares(machine, X, kernels):
    """βᵀKₘβ of each kernel, β with the scale that the problem has."""
    f = machine.expansion_
    coef = f.coef.reshape(len(f.coef), -1)
    factor = np.sqrt(machine.alpha) if isinstance(machine, KernelRidge) else 1.0
    beta = factor * coef
    return np.array([np.sum(beta * (k(f.points) @ beta)) for k in kernels])


# Optimality


@pytest.mark.parametrize("norm", NORMS)
def test_gap_is_closed_and_recomputed_from_the_data(data, norm):
    X, y, target = data
    kernel = MultipleKernel(KERNELS, norm)
    for machine in machines(kernel):
        fitted(machine, X, y, target)
        found = machine.certificate_
        assert found.status == "optimal"
        assert 0 <= found.gap <= 2e-6 * abs(found.primal)
        if isinstance(machine, KernelRidge):
            continue
        again = machine.certify(X, y if "SVC" in type(machine).__name__ else target)
        assert again.dual <= found.primal and found.dual <= again.primal
        assert again.gap <= 1e-6 * abs(found.primal)


@pytest.mark.parametrize("norm", NORMS)
def test_weights_have_norm_one_and_meet_their_optimality_conditions(data, norm):
    X, y, target = data
    for machine in machines(MultipleKernel(KERNELS, norm)):
        d = fitted(machine, X, y, target).kernel_weights_
        S = squares(machine, X, KERNELS)
        assert np.all(d >= 0)
        assert_allclose(np.linalg.norm(d, norm), 1, rtol=1e-12)
        # dᵀS is the largest that any weights give, with these coefficients.
        assert_allclose(d @ S, dual_norm(S, norm), rtol=1e-5)
        if norm == 1:
            assert np.all(S[d > 1e-6] >= S.max() * (1 - 1e-4))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_squares_are_within_the_rounding_that_is_stated(share):
    random = np.random.default_rng(0)
    X, n = random.normal(size=(300, 4)), 300
    grams = [Gram(k, X) for k in (Linear(), RBF(0.1), Polynomial(3))]
    grams = [gram.holding(gram.dense()) for gram in grams]
    beta = np.where(random.random(n) < share, random.normal(size=n), 0.0)
    one = Piece(np.arange(n), beta, beta != 0, None)
    wide = beta.astype(np.longdouble)  # 64 bits where the processor has them
    exact = [float(wide @ (gram.dense().astype(wide.dtype) @ wide)) for gram in grams]
    error = np.abs(squares_of(grams, [one]) - np.array(exact)).sum()
    assert error <= squares_rounding(sizes_of(grams), [one])
    # It counts every kernel value as large as the largest, and is far below any tol.
    assert squares_rounding(sizes_of(grams), [one]) <= 1e-8 * np.sum(exact)
    chosen = beta != 0
    images_of = [gram.dense()[chosen] @ beta for gram in grams]
    assert_allclose(images(grams, one), images_of, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("norm", [1, 2])
def test_a_first_trial_that_is_rough_ends_no_search(norm):
    X, y = make_moons(400, noise=0.3, random_state=0)
    kernel = MultipleKernel([RBF(0.1), RBF(1.0), RBF(10.0)], norm)
    rough = SVC(C=10, kernel=kernel, tol=1e-2).fit(X, y).certificate_
    fine = SVC(C=10, kernel=kernel, tol=1e-8).fit(X, y).certificate_
    assert rough.gap <= 1.1e-2 * abs(rough.primal)
    assert fine.gap <= 1e-6 * abs(fine.primal)
    assert rough.dual <= fine.primal and fine.dual <= rough.primal


@pytest.mark.parametrize("norm", [1, 1.5, 3])
def test_objective_is_that_of_a_general_solver(norm):
    X, y = make_moons(16, noise=0.3, random_state=1)
    sign, target = np.where(y, 1.0, -1.0), X[:, 0] ** 2 - X[:, 1]
    kernels = [Linear(), RBF(1.0), Polynomial(2)]
    machine = SVC(C=1.5, kernel=MultipleKernel(kernels, norm), tol=1e-9).fit(X, y)
    found = machine.certificate_.dual
    assert_allclose(found, general_svc(kernels, X, sign, 1.5, norm), rtol=1e-6)
    machine = KernelRidge(alpha=0.3, kernel=MultipleKernel(kernels, norm))
    found = machine.fit(X, target).certificate_.primal
    assert_allclose(found, general_ridge(kernels, X, target, 0.3, norm), rtol=1e-6)


def general_svc(kernels, X, sign, C, norm):
    """max Σα - t/2, t ≥ ‖(βᵀKₘβ)ₘ‖_q, by sequential quadratic programming."""
    Ks, n = [k(X) for k in kernels], len(X)

    def S(v):
        return np.array([v[:n] @ (K @ v[:n]) for K in Ks])

    def bounds_of_t(v):  # for q = ∞ one condition for each kernel, which is smooth
        if norm == 1:
            return v[n] - S(v)
        return np.array([v[n] - dual_norm(S(v), norm)])

    start = np.append(
        0.1 * C * sign * np.where(sign > 0, 1, sum(sign > 0) / sum(sign < 0)), 0
    )
    start[n] = dual_norm(S(start), norm) + 1
    ends = [(0, C) if s > 0 else (-C, 0) for s in sign] + [(0, None)]
    result = minimize(
        lambda v: v[n] / 2 - sign @ v[:n],
        start,
        jac=lambda v: np.append(-sign, 0.5),
        bounds=ends,
        method="SLSQP",
        constraints=[
            {"type": "eq", "fun": lambda v: np.sum(v[:n])},
            {"type": "ineq", "fun": bounds_of_t},
        ],
        options={"maxiter": 2000, "ftol": 1e-14},
    )
    return -result.fun


def general_ridge(kernels, X, target, reg, norm):
    """min over d ≥ 0, ‖d‖ₚ ≤ 1 of ½ λ yᵀ(Σ dₘ Kₘ + λI)⁻¹y, u = dᵖ on the simplex."""
    Ks, eye = [k(X) for k in kernels], reg * np.eye(len(X))

    def value(u):
        d = np.maximum(u, 1e-300) ** (1 / norm)
        K = sum(w * K for w, K in zip(d, Ks, strict=True))
        return reg * target @ np.linalg.solve(K + eye, target) / 2

    best = np.inf
    for start in ([1 / 3] * 3, [0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]):
        result = minimize(
            value,
            start,
            bounds=[(1e-12, 1)] * 3,
            method="SLSQP",
            constraints=[{"type": "eq", "fun": lambda u: np.sum(u) - 1}],
            options={"maxiter": 1000, "ftol": 1e-15},
        )
        best = min(best, result.fun)
    return best


def test_minimum_on_the_simplex_is_the_best_of_all_faces():
    rng = np.random.default_rng(0)
    # Of one column: curvature in one direction alone, as of a machine with few free
    # variables; in all others it is that of a ridge.
    for rank, ridge in [(4, 0.01)] * 20 + [(1, 1e-9)] * 20:
        root = rng.normal(size=(4, rank))
        H, slope = root @ root.T + ridge * np.eye(4), rng.normal(size=4)
        start = rng.dirichlet(np.ones(4))
        x = simplex_minimum(H, slope, start)
        gradient = slope + H @ (x - start)
        assert np.all(x >= 0) and np.isclose(x.sum(), 1)
        assert gradient @ x <= gradient.min() + 1e-9  # no vertex is lower


# Special cases


def test_infinite_norm_is_the_plain_sum(data):
    X, y, target = data
    total = Linear() + RBF(1.0) + RBF(0.1) + Polynomial(2)
    several = machines(MultipleKernel(KERNELS, np.inf))
    for machine, plain in zip(several, machines(total), strict=True):
        fitted(machine, X, y, target), fitted(plain, X, y, target)
        assert machine.kernel_weights_.tolist() == [1.0] * 4
        assert machine.expansion_.kernel == total
        assert_allclose(machine.expansion_(X), plain.expansion_(X), atol=1e-6)


def test_one_kernel_is_that_kernel(data):
    X, y, target = data
    several = machines(MultipleKernel([RBF(1.0)], 1))
    for machine, plain in zip(several, machines(RBF(1.0)), strict=True):
        fitted(machine, X, y, target), fitted(plain, X, y, target)
        assert machine.expansion_.kernel == RBF(1.0)
        assert_allclose(machine.expansion_(X), plain.expansion_(X), atol=1e-6)
        assert_allclose(machine.certificate_.dual, plain.certificate_.dual, rtol=1e-7)


def test_equal_kernels_share_their_weight(data):
    X, y, _ = data
    for norm in (1, 1.5, 3):
        one = MultipleKernel([Linear(), RBF(1.0)], norm)
        two = MultipleKernel([Linear(), RBF(1.0), RBF(1.0)], norm)
        alone = SVC(kernel=one, tol=1e-9).fit(X, y)
        shared = SVC(kernel=two, tol=1e-9).fit(X, y)
        assert_allclose(*shared.kernel_weights_[1:], rtol=1e-4)
        if norm == 1:
            primal = alone.certificate_.primal
            assert_allclose(shared.certificate_.primal, primal, rtol=1e-7)


def test_a_scaled_kernel_scales_back(data):
    """c k in place of k: all of them by c, C by 1/c and weights stay."""
    X, y, _ = data
    scaled = [4.0 * k for k in KERNELS]
    a = SVC(C=2.0, kernel=MultipleKernel(KERNELS, 1.5), tol=1e-10).fit(X, y)
    b = SVC(C=0.5, kernel=MultipleKernel(scaled, 1.5), tol=1e-10).fit(X, y)
    assert_allclose(a.kernel_weights_, b.kernel_weights_, atol=1e-4)
    assert_allclose(a.expansion_(X), b.expansion_(X), atol=1e-4)


def test_order_of_kernels_does_not_matter(data):
    X, y, _ = data
    a = SVC(kernel=MultipleKernel(KERNELS, 2), tol=1e-10).fit(X, y)
    b = SVC(kernel=MultipleKernel(KERNELS[::-1], 2), tol=1e-10).fit(X, y)
    assert_allclose(a.kernel_weights_, b.kernel_weights_[::-1], atol=1e-4)


def test_a_kernel_that_tells_nothing_has_no_weight():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = X[:, 0] > 0
    kernel = MultipleKernel([On(0, Linear()), On(1, Linear())], 1)
    machine = SVC(C=10, kernel=kernel).fit(X.tolist(), y)
    assert machine.kernel_weights_[0] > 0.98
    assert machine.kernel_shares_.order[0] == 0


def test_weights_of_the_search_are_no_worse_than_any_others(data):
    X, y, _ = data
    machine = SVC(C=2.0, kernel=MultipleKernel(KERNELS, 2), tol=1e-8).fit(X, y)
    for seed in range(5):
        d = np.random.default_rng(seed).random(4)
        other = MultipleKernel(KERNELS, 2, weights=d / np.linalg.norm(d))
        primal = SVC(C=2.0, kernel=other, tol=1e-8).fit(X, y).certificate_.primal
        assert primal >= machine.certificate_.dual


# Rows of the sum that are made on demand


def whole_matrices(monkeypatch):
    """Every search makes all of Σₘ dₘ Kₘ, as those of several problems do."""
    monkeypatch.setattr(BoxFamily, "_prepared", lambda family: None)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("norm", NORMS)
def test_rows_on_demand_find_what_whole_matrices_find(norm, C, monkeypatch):
    X, y = make_moons(300, noise=0.3, random_state=0)
    target, places = np.sin(3 * X[:, 0]) + X[:, 1], np.arange(len(X))
    zero = np.zeros((len(X), len(X)))
    matrices = [*(k(X) for k in KERNELS), KERNELS[1](X), zero]  # one twice, one of 0
    kernel = MultipleKernel([Precomputed(K, psd=True) for K in matrices], norm)
    for machine, targets in (
        (SVC(C=C, kernel=kernel), y),
        (SVC(C=C, kernel=kernel, class_weight="balanced", tol=1e-5), y),
        (SVR(C=C, kernel=kernel), target),
        (OneClassSVM(nu=0.2, kernel=kernel), None),
    ):
        found = machine.fit(places, targets).certificate_
        weights, tol = machine.kernel_weights_, max(1e-3, machine.tol)
        with monkeypatch.context() as patched:
            whole_matrices(patched)
            other = clone(machine).fit(places, targets)
        best = other.certificate_
        assert found.status == best.status == "optimal"
        assert found.dual <= best.primal and best.dual <= found.primal
        assert found.gap <= tol * abs(found.primal) + 1e-9
        again = machine.certify(places, targets)
        assert again.dual <= found.primal and found.dual <= again.primal
        assert_allclose(np.linalg.norm(weights, norm), 1, rtol=1e-12)
        if norm > 1:
            assert_allclose(weights[1], weights[4], atol=1e-3)


@pytest.mark.parametrize("norm", [1, 1.5, 2])
@pytest.mark.parametrize("C", [0.05, 1.5, 200.0])
def test_objective_of_matrices_is_that_of_a_general_solver(norm, C):
    X, y = make_moons(14, noise=0.3, random_state=2)
    sign, kernels = np.where(y, 1.0, -1.0), [Linear(), RBF(1.0), Polynomial(2)]
    parts = [Precomputed(k(X)) for k in kernels]
    machine = SVC(C=C, kernel=MultipleKernel(parts, norm), tol=1e-9)
    found = machine.fit(np.arange(14), y).certificate_
    assert found.status == "optimal"
    best = general_svc(kernels, X, sign, C, norm)
    assert_allclose(found.dual, best, rtol=1e-5)


def test_a_problem_that_rounding_hides_is_solved_on_the_whole_matrix(monkeypatch, data):
    X, y, _ = data
    kernel, seen = MultipleKernel(KERNELS), []
    plain = SVC(kernel=kernel).fit(X, y)

    def imprecise(self, solver, near):
        seen.append(near)
        [(problem, solution)] = solve(self, solver, near)
        found = replace(solution, violation=1.0).ended(Status.IMPRECISE)
        return [(problem, found)]

    solve = OnSum.solve
    monkeypatch.setattr(OnSum, "solve", imprecise)
    machine = SVC(kernel=kernel).fit(X, y)
    assert len(seen) == 1 and machine.certificate_.status == "optimal"
    assert_allclose(machine.kernel_weights_, plain.kernel_weights_, atol=1e-3)


def test_probabilities_come_with_learnt_weights(data):
    X, y, _ = data
    matrices = [Precomputed(k(X), psd=True) for k in KERNELS]
    machine = SVC(kernel=MultipleKernel(matrices), probability=True, random_state=0)
    p = machine.fit(np.arange(len(X)), y).predict_proba(np.arange(len(X)))
    assert_allclose(p.sum(axis=1), 1)
    assert np.mean(machine.classes_[np.argmax(p, axis=1)] == y) > 0.8


def test_limits_of_time_and_steps_hold_with_matrices_in_memory(data):
    X, y, _ = data
    kernel = MultipleKernel([Precomputed(k(X)) for k in KERNELS])
    places = np.arange(len(X))
    with pytest.warns(ConvergenceWarning):
        few = SVC(kernel=kernel, max_iter=3).fit(places, y).certificate_
    assert few.status == "max_iter" and few.gap > 0
    timed = SVC(kernel=kernel, time_limit=60).fit(places, y).certificate_
    plain = SVC(kernel=kernel).fit(places, y).certificate_
    assert timed.status == "optimal"
    assert timed.dual <= plain.primal and plain.dual <= timed.primal


# Several problems share their weights


def test_classes_and_targets_share_weights():
    X, y = load_iris(return_X_y=True)
    X = X[::2] - X.mean(axis=0)
    y = y[::2]
    for norm in (1, 2):
        kernel = MultipleKernel([Linear(), RBF(0.5), RBF(5.0)], norm)
        for machine, targets in (
            (SVC(kernel=kernel, tol=1e-7), y),
            (SVC(kernel=kernel, tol=1e-7, multiclass="ovr"), y),
            (NuSVC(nu=0.3, kernel=kernel, tol=1e-7), y),
            (SVR(kernel=kernel, tol=1e-7), X[:, :2]),
            (KernelRidge(alpha=[0.1, 2.0], kernel=kernel), X[:, :2]),
        ):
            found = machine.fit(X, targets).certificate_
            assert found.status == "optimal"
            assert found.gap <= 1e-6 * abs(found.primal)
            assert_allclose(np.linalg.norm(machine.kernel_weights_, norm), 1)
            if hasattr(machine, "certify"):
                assert machine.certify(X, targets).gap <= 1e-5 * abs(found.primal)


def test_pairs_in_one_call_find_what_single_solves_find(data):
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    kernel = MultipleKernel([RBF(0.1), RBF(1.0)], 2)
    seen = []
    a = SVC(kernel=kernel, tol=1e-8).fit(X, y)
    b = SVC(kernel=kernel, tol=1e-8, callback=lambda p: seen.append(p)).fit(X, y)
    assert seen
    assert_allclose(a.kernel_weights_, b.kernel_weights_, atol=1e-4)


def test_weight_two_is_the_point_twice(data):
    X, y, target = data
    times = np.random.default_rng(0).integers(0, 3, len(X))
    twice = [np.repeat(part, times, axis=0) for part in (X, y, target)]
    for machine in machines(MultipleKernel(KERNELS, 1.5)):
        if isinstance(machine, OneClassSVM):
            continue
        other = clone(machine)
        classes = isinstance(machine, SVC | NuSVC)
        machine.fit(X, y if classes else target, sample_weight=times)
        fitted(other, *twice)
        assert_allclose(machine.kernel_weights_, other.kernel_weights_, atol=1e-4)


# The machine around it


def test_kernel_of_f_is_the_weighted_sum_and_is_saved_with_the_machine(data, tmp_path):
    X, y, target = data
    for machine in machines(MultipleKernel(KERNELS, 1.5), tol=1e-3):
        fitted(machine, X, y, target)
        weighted = MultipleKernel(KERNELS, 1.5, machine.kernel_weights_).total()
        assert machine.expansion_.kernel == weighted
        mercer.save(machine, tmp_path / "machine.mercer")
        again = mercer.load(tmp_path / "machine.mercer")
        assert_allclose(again.predict(X), machine.predict(X))
        assert_allclose(again.kernel_weights_, machine.kernel_weights_)
        assert repr(again.kernel_shares_) == repr(machine.kernel_shares_)


def test_shares_add_up_and_print_as_a_table(data):
    X, y, _ = data
    shares = SVC(kernel=MultipleKernel(KERNELS, 2)).fit(X, y).kernel_shares_
    assert_allclose([shares.of_trace.sum(), shares.of_norm.sum()], 1)
    lines = repr(shares).splitlines()
    assert lines[0].split() == "kernel weight of trace of norm".split()
    assert len(lines) == 5 and len(set(map(len, lines))) == 1
    assert "<table>" in shares._repr_html_() and "RBF" in shares._repr_html_()
    assert np.all(np.diff(shares.of_norm[shares.order]) <= 0)


def test_parts_of_mixed_records_are_weighed():
    rng = np.random.default_rng(0)
    words = np.where(rng.random(60) < 0.5, "abab", "cdcd")
    frame = pd.DataFrame({"text": words, "age": rng.normal(size=60)})
    y = words == "abab"
    kernel = MultipleKernel([On("text", Spectrum(2)), On("age", RBF(1.0))], 1)
    machine = SVC(kernel=kernel).fit(frame, y)
    assert machine.kernel_weights_[0] > 0.9
    assert machine.score(frame, y) == 1


def test_norm_is_searched_and_settings_are_kept(data):
    X, y, _ = data
    kernel = MultipleKernel(KERNELS)
    search = GridSearchCV(SVC(kernel=kernel), {"kernel__norm": [1, 2, np.inf]}, cv=2)
    search.fit(X, y)
    assert search.best_params_["kernel__norm"] in (1, 2, np.inf)
    assert kernel == MultipleKernel(KERNELS) and clone(SVC(kernel=kernel))


@pytest.mark.parametrize("norm", [1, 2.0, np.inf])
def test_text_and_kernel_are_one(norm):
    for weights in (None, [0.5, 0, 1, 2]):
        kernel = MultipleKernel(KERNELS, norm, weights)
        assert parse(repr(kernel)) == kernel


def test_a_second_fit_starts_from_the_weights_of_the_first(data):
    X, y, _ = data
    machine = SVC(kernel=MultipleKernel(KERNELS, 1.2), tol=1e-6, warm_start=True)
    first = machine.fit(X, y).kernel_weights_
    assert_allclose(machine.fit(X, y).kernel_weights_, first, atol=1e-3)
    machine.set_params(kernel=RBF(1.0)).fit(X, y)
    assert not hasattr(machine, "kernel_weights_")


def test_a_fit_that_is_stopped_says_so_and_bounds_hold(data):
    X, y, _ = data
    machine = SVC(kernel=MultipleKernel(KERNELS, 1), callback=lambda progress: True)
    with pytest.warns(ConvergenceWarning, match="stopped"):
        found = machine.fit(X, y).certificate_
    optimum = SVC(kernel=MultipleKernel(KERNELS, 1), tol=1e-8).fit(X, y).certificate_
    assert found.dual <= optimum.primal and optimum.dual <= found.primal


def test_single_precision_is_certified_in_double(data, monkeypatch):
    X, y, target = data
    plain = [
        fitted(m, X, y, target) for m in machines(MultipleKernel(KERNELS, 2), 1e-4)
    ]
    room = 8.0 * len(X) ** 2 * 7  # for float32 and no more
    monkeypatch.setattr(memory, "available_memory", lambda: room)
    rough = [
        fitted(m, X, y, target) for m in machines(MultipleKernel(KERNELS, 2), 1e-4)
    ]
    for a, b in zip(plain, rough, strict=True):
        assert_allclose(a.kernel_weights_, b.kernel_weights_, atol=2e-2)
        assert a.certificate_.dual <= b.certificate_.primal
        assert b.certificate_.dual <= a.certificate_.primal
        assert b.certificate_.gap <= 1e-3 * abs(b.certificate_.primal)


def test_no_room_for_the_matrices_is_refused(data, monkeypatch):
    X, y, _ = data
    monkeypatch.setattr(memory, "available_memory", lambda: 4.0 * len(X) ** 2)
    with pytest.raises(MemoryError, match=r"4 matrices .* on 60 points.*align"):
        SVC(kernel=MultipleKernel(KERNELS)).fit(X, y)


def test_plan_counts_all_matrices(data):
    X, y, target = data
    plan = SVC(kernel=MultipleKernel(KERNELS)).plan(X, y)
    assert "matrix" in repr(plan)
    assert "matrix" in repr(KernelRidge(kernel=MultipleKernel(KERNELS)).plan(X, target))


def test_nu_regression_weighs_kernels_too(data):
    X, _, target = data
    kernel = MultipleKernel([RBF(1.0), RBF(0.1)], 2)
    machine = NuSVR(C=2.0, kernel=kernel, tol=1e-6).fit(X, target)
    assert machine.certificate_.status == "optimal"
    assert machine.certificate_.gap <= 1e-3 * abs(machine.certificate_.primal)


# What is refused


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: MultipleKernel([]), "needs a list of kernels, one or more"),
        (lambda: MultipleKernel(RBF()), "needs a list of kernels"),
        (lambda: MultipleKernel([RBF(), "rbf"]), r"of kernels; .* such as RBF\(\)"),
        (lambda: MultipleKernel([RBF], 1), r"Write RBF\(\)"),
        (lambda: MultipleKernel([RBF()], 0.5), "norm ≥ 1"),
        (lambda: MultipleKernel([RBF()], np.nan), "norm ≥ 1"),
        (lambda: MultipleKernel([RBF()], "l1"), "norm ≥ 1"),
        (lambda: MultipleKernel([Sigmoid(1.0)]), "positive semidefinite"),
        (lambda: MultipleKernel([MultipleKernel([RBF()])]), "cannot hold another"),
        (lambda: MultipleKernel([MultipleKernel([RBF()]) + RBF()]), "another"),
        (lambda: MultipleKernel([RBF()], weights=[1, 2]), "as many weights"),
        (lambda: MultipleKernel([RBF()], weights=[-1]), "weights ≥ 0"),
        (lambda: MultipleKernel([RBF()], weights=[0]), "not all of them 0"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_machines_that_learn_no_weights_say_which_do(data):
    X, y, _ = data
    for machine in (
        KernelPCA(kernel=MultipleKernel(KERNELS)),
        SVDD(kernel=MultipleKernel(KERNELS)),
    ):
        with pytest.raises(ValueError, match=r"SVC, NuSVC, SVR.*KernelRidge.*align"):
            machine.fit(X)
    with pytest.raises(ValueError, match="SVC, NuSVC, SVR"):
        SVC(kernel=MultipleKernel(KERNELS) + Linear()).fit(X, y)
    fixed = MultipleKernel(KERNELS, weights=align(KERNELS, X, y))
    assert KernelPCA(2, kernel=fixed).fit_transform(X).shape == (60, 2)


def test_kernels_over_other_points_are_refused(data):
    _, y, _ = data
    words = ["ab" if one else "cd" for one in y]
    with pytest.raises((TypeError, ValueError), match=r"RBF.*compares vectors"):
        SVC(kernel=MultipleKernel([Spectrum(2), RBF()])).fit(words, y)


def test_ridge_without_regularisation_is_refused(data):
    X, _, target = data
    with pytest.raises(ValueError, match="needs alpha > 0"):
        KernelRidge(alpha=0, kernel=MultipleKernel(KERNELS)).fit(X, target)


def test_an_indefinite_matrix_claims_no_gap(data):
    X, y, _ = data
    K = RBF(1.0)(X) - 0.5 * np.eye(len(X))
    kernel = MultipleKernel([Precomputed(K), Precomputed(RBF(0.1)(X))], 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = SVC(kernel=kernel).fit(np.arange(len(X)), y).certificate_
    assert found.status == "indefinite" and np.isnan(found.gap)


# Alignment


def naive_alignment(A, B):
    n = len(A)
    H = np.eye(n) - 1 / n
    A, B = H @ A @ H, H @ B @ H
    return np.sum(A * B) / np.sqrt(np.sum(A * A) * np.sum(B * B))


def test_alignment_is_its_definition(data):
    X, y, target = data
    K, L = RBF(1.0)(X), Polynomial(2)(X)
    same = (y[:, None] == y).astype(float)
    assert_allclose(alignment(RBF(1.0), Polynomial(2), X), naive_alignment(K, L))
    assert_allclose(alignment(K, L), naive_alignment(K, L))
    assert_allclose(alignment(K, y), naive_alignment(K, same))
    assert_allclose(alignment(K, y), alignment(K, np.where(y, 1.5, -1.5)))
    assert_allclose(alignment(K, target), naive_alignment(K, np.outer(target, target)))
    assert_allclose(alignment(K, 3 * K + 5), 1)


def test_aligned_weights_are_the_best(data):
    X, y, _ = data
    d = align(KERNELS, X, y, norm=1)
    assert np.all(d >= 0) and np.isclose(d.sum(), 1)

    def of(weights):
        return alignment(
            sum(w * k(X) for w, k in zip(weights, KERNELS, strict=True)), y
        )

    for seed in range(20):
        other = np.random.default_rng(seed).dirichlet(np.ones(4))
        assert of(other) <= of(d) + 1e-12
        assert of(0.99 * d + 0.01 * other) <= of(d) + 1e-12
    assert_allclose(align([k(X) for k in KERNELS], None, y, norm=1), d)


def test_alignment_refuses_what_it_cannot_compare(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="needs the points X"):
        alignment(RBF(), y)
    with pytest.raises(ValueError, match="same points"):
        alignment(np.eye(3), np.eye(4))
    with pytest.raises(ValueError, match="square arrays"):
        alignment(np.ones((2, 3)), np.eye(2))
    with pytest.raises(ValueError, match="one or more"):
        align([], X, y)
    with pytest.raises(ValueError, match="no kernel that is aligned"):
        align([np.ones((60, 60))], None, y)
    with pytest.raises(ValueError, match="kernel 0 is on 3"):
        align([np.eye(3)], None, y)


# Its picture


def test_bars_are_the_shares(data):
    plots = pytest.importorskip("mercer.plots.weights", reason="needs matplotlib")
    X, y, _ = data
    machine = SVC(kernel=MultipleKernel(KERNELS, 1.5)).fit(X, y)
    shares = machine.kernel_shares_
    display = plots.plot_kernel_weights(machine)
    widths = [bar.get_width() for bar in display.artists_["of ‖f‖²"]]
    assert_allclose(widths, shares.of_norm[shares.order])
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names[0].startswith(f"{shares.kernels[shares.order[0]]}"[:20])
    with pytest.raises(ValueError, match="MultipleKernel"):
        plots.plot_kernel_weights(SVC(kernel=RBF(1.0)).fit(X, y))


def test_many_kernels_are_drawn_as_twenty_and_the_rest(data):
    plots = pytest.importorskip("mercer.plots.weights", reason="needs matplotlib")
    X, y, _ = data
    kernels = [RBF(0.01 * 1.3**i) for i in range(25)]
    display = plots.plot_kernel_weights(SVC(kernel=MultipleKernel(kernels)).fit(X, y))
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert len(names) == 21 and names[-1] == "5 others"
    assert_allclose(sum(bar.get_width() for bar in display.artists_["of ‖f‖²"]), 1)
