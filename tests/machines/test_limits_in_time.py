"""A time limit ends every fit with what it has, and says how good that is."""

import itertools
import math
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import mercer
from mercer import (
    RBF,
    SVC,
    BlockFunction,
    Gram,
    Linear,
    Nystrom,
    PairFunction,
    losses,
    machines,
)
from mercer.native import clock
from mercer.solvers import (
    SMO,
    BlockKrylov,
    Cholesky,
    Components,
    EvidenceAscent,
    Newton,
    Penalized,
    SparseBayes,
    krylov,
    limits,
    newton,
)

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 3))
VALUES = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=len(X))
SIDES = (X[:, 0] * X[:, 1] > 0).astype(int)
CLASSES = np.digitize(VALUES, [-0.7, 0.0, 0.7])
BOTH = np.column_stack([VALUES, VALUES**2])

# Each with targets; what has several problems has them here.
LIMITED = [
    (mercer.SVC(C=10), CLASSES),
    (mercer.SVC(multiclass="ovr"), CLASSES),
    (mercer.SVC(kernel=Linear()), SIDES),
    (mercer.NuSVC(nu=0.2), CLASSES),
    (mercer.SVR(C=10), BOTH),
    (mercer.NuSVR(), VALUES),
    (mercer.OneClassSVM(nu=0.3), None),
    (mercer.SVDD(nu=0.3), None),
    (mercer.KernelLogisticRegression(), CLASSES),
    (mercer.RegularizedMachine(losses.Hinge()), CLASSES),
    (mercer.RegularizedMachine(losses.Squared(), norm=2.0), VALUES),
    (mercer.KernelQuantileRegression(), VALUES),
    (mercer.KernelHuberRegression(), VALUES),
    (mercer.SparseKernelClassifier(C=10), CLASSES),
    (mercer.SparseKernelRegressor(), BOTH),
    (mercer.RVR(), VALUES),
    (mercer.RVC(max_iter=40), CLASSES),
    (
        mercer.KernelPCA(3, kernel="rbf", eigen_solver="krylov", random_state=0),
        None,
    ),
    (mercer.KernelKMeans(4, random_state=0), None),
    (mercer.KernelPerceptron(random_state=0), CLASSES),
    (mercer.Perceptron(random_state=0), CLASSES),
    (mercer.KernelSGDClassifier(random_state=0), CLASSES),
    (mercer.KernelSGDRegressor(random_state=0), VALUES),
]
IDS = [f"{type(one).__name__}-{i}" for i, (one, _) in enumerate(LIMITED)]
# A fit stores the points, or draws numbers: there is nothing to limit.
AT_ONCE = {
    *("KernelKNNClassifier", "KernelKNNRegressor"),
    *("ParzenClassifier", "ParzenDensity", "ParzenWindowClassifier"),
    *("Nystroem", "RBFSampler", "PolynomialCountSketch"),
}


def fitted(machine, y, **parameters):
    """A copy of the machine that is fitted, and what it warned of."""
    machine = clone(machine).set_params(**parameters)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        machine.fit(X) if y is None else machine.fit(X, y)
    told = [one for one in heard if issubclass(one.category, ConvergenceWarning)]
    return machine, [str(one.message) for one in told]


@pytest.mark.parametrize("machine, y", LIMITED, ids=IDS)
def test_a_fit_ends_at_its_time_limit_with_a_true_certificate(machine, y):
    late, told = fitted(machine, y, time_limit=1e-6)
    assert late.run_.status == "time_limit"
    assert told and all("time_limit" in one for one in told)
    if hasattr(late, "predict"):
        assert np.all(np.isfinite(late.predict(X[:5])))
    if hasattr(late, "certify"):
        stated = late.certificate_
        found = late.certify(X) if y is None else late.certify(X, y)
        assert stated.dual <= stated.primal < math.inf
        assert found.violation == pytest.approx(stated.violation, rel=1e-5)
        slack = 1e-6 * abs(stated.primal) + 1e-9
        assert found.primal == pytest.approx(stated.primal, abs=slack)
        # Either dual is below the optimum, which is below either primal.
        assert found.dual <= stated.primal + slack
        assert stated.dual <= found.primal + slack
        if stated.parts:
            solved = sum(part.status == "optimal" for part in stated.parts)
            many = f"Of its {len(stated.parts)} problems {solved} were solved to tol."
            assert told[0].endswith(many)


@pytest.mark.parametrize("machine, y", LIMITED, ids=IDS)
def test_a_time_limit_that_is_not_reached_changes_nothing(machine, y):
    free, told = fitted(machine, y)
    limited, told_too = fitted(machine, y, time_limit=1e6)
    assert limited.run_.status == free.run_.status != "time_limit"
    assert len(told) == len(told_too)
    f, g = free.expansion_, limited.expansion_
    np.testing.assert_allclose(g.coef, f.coef, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(g.bias, f.bias, rtol=1e-9, atol=1e-12)


def test_every_machine_has_a_time_limit_or_nothing_to_limit():
    known = {type(machine).__name__ for machine, _ in LIMITED}
    known |= {"KernelRidge", "FeatureMap"}
    for name in machines.__all__:
        found = getattr(machines, name)
        if isinstance(found, type) and hasattr(found, "get_params"):
            has = "time_limit" in found().get_params()
            assert has == (name in known), name
            assert has or name in AT_ONCE or not hasattr(found, "fit"), name


@pytest.mark.parametrize("wrong", [0, -1.0, math.nan, "soon"])
@pytest.mark.parametrize("machine", [mercer.SVC(), mercer.KernelPCA()])
def test_a_time_limit_is_a_number_above_0(machine, wrong):
    machine = clone(machine).set_params(time_limit=wrong)
    with pytest.raises(ValueError, match="'time_limit' parameter"):
        machine.fit(X, SIDES)
    assert not hasattr(machine, "expansion_")


# Fits whose clock is a count of how often it was looked at


class Steps:
    """A clock that goes on by one second each time it is read."""

    def __init__(self):
        self.count = itertools.count()

    def perf_counter(self):
        return float(next(self.count))

    monotonic = perf_counter


@pytest.fixture
def by_count(monkeypatch):
    for module in (clock, limits):
        monkeypatch.setattr(module, "time", Steps())


def test_all_problems_get_a_share_of_the_time(by_count):
    # Each is watched round by round, and so by reading the clock.
    machine = SVC(C=1e3, multiclass="ovr", solver=SMO(working_set=8))
    late, _ = fitted(machine, CLASSES, time_limit=60)
    assert late.run_.status == "time_limit"
    assert all(part.run.iterations > 0 for part in late.certificate_.parts)


def test_what_was_cut_short_goes_on_with_the_time_that_others_left(by_count):
    # Two of the problems are hard, four take next to no time.
    far = np.repeat(np.arange(1, 5), 10)
    points = np.vstack([X[:200], X[200:240] + 20.0 * far[:, None]])
    y = np.concatenate([SIDES[:200], 1 + far])
    rounds = []
    machine = SVC(C=100, gamma=0.3, multiclass="ovr", solver=SMO(working_set=4))
    machine.set_params(callback=lambda progress: rounds.append(progress.problem))
    free = clone(machine).fit(points, y)
    assert free.run_.status == "optimal"
    looks = int(1.5 * len(rounds))  # at the clock, of which each round takes one
    assert rounds.count("0 against the rest") > 1.5 * looks / 6  # and one share is this
    rounds.clear()
    done = clone(machine).set_params(time_limit=looks).fit(points, y)
    assert done.run_.status == "optimal"
    names = [name for name, _ in itertools.groupby(rounds)]
    assert names.count("0 against the rest") > 1
    f, g = free.decision_function(points), done.decision_function(points)
    np.testing.assert_allclose(f, g, atol=0.01)


def test_folds_share_the_time_and_rough_probabilities_are_named():
    late, told = fitted(SVC(probability=True), CLASSES, time_limit=1e-6)
    assert "of the 30 fits that the probabilities come from" in told[0]
    p = late.predict_proba(X[:5])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def slow(x, y):
    slow.calls += 1
    return math.exp(-float((x - y) @ (x - y)))


def test_f_is_0_where_there_is_no_time_for_a_slow_kernel():
    kernel = PairFunction(slow, psd=True)
    for y in (SIDES, CLASSES):
        slow.calls = 0
        late, _ = fitted(SVC(kernel=kernel), y, time_limit=1e-6)
        assert late.certificate_.dual <= 0 < late.certificate_.primal
        # A few rows, and the diagonals: not all of K.
        assert slow.calls < len(X) ** 2 / 8


@pytest.mark.parametrize(
    "machine, stage",
    [
        (mercer.SVC(kernel=Nystrom(RBF(1.0), 50)), "landmarks"),
        (mercer.FeatureMap(Nystrom(RBF(1.0), 50)), "landmarks"),
        (mercer.NuSVC(nu=0.2, kernel=PairFunction(slow, psd=True)), "kernel values"),
        (
            mercer.KernelRidge(kernel=PairFunction(slow, psd=True), solver=Cholesky()),
            "kernel values",
        ),
    ],
    ids=["landmarks", "map", "start", "factors"],
)
def test_a_time_too_short_for_any_answer_is_said_to_be(machine, stage):
    slow.calls = 0
    machine = clone(machine).set_params(time_limit=1e-6)
    with pytest.raises(TimeoutError, match=f"(?s)nothing to.*{stage}.*Raise time_lim"):
        machine.fit(X, SIDES)
    assert not hasattr(machine, "n_features_in_") or not hasattr(machine, "kernel_")
    assert slow.calls < len(X) ** 2 / 8


def test_ridge_without_time_for_its_factors_has_what_gradients_found(monkeypatch):
    machine = mercer.KernelRidge(1e-3, kernel=PairFunction(slow, psd=True))
    slow.calls = 0
    late, told = fitted(machine, VALUES, time_limit=1e-6)
    assert late.run_.status == "time_limit" and "residual" in told[0]
    # The first step of gradients can lead further off than f = 0 is.
    assert 0 < late.certificate_.violation < np.inf


def test_the_shorter_of_two_limits_counts():
    machine = SVC(C=1e6, solver=SMO(time_limit=1e-9))
    late, told = fitted(machine, SIDES, time_limit=1e6)
    assert late.run_.status == "time_limit" and told


def test_a_fit_inside_a_callback_has_a_time_of_its_own():
    inner = []

    def fit_another(progress):
        inner.append(fitted(SVC(), SIDES)[0].run_.status)
        return True

    fitted(SVC(C=1e3), SIDES, time_limit=1e-6, callback=fit_another)
    assert inner == ["optimal"]


# Reports


def test_loops_before_the_solver_report_how_far_they_are(by_count, capsys):
    slow.calls = 0
    machine = SVC(kernel=PairFunction(slow, psd=True), verbose=True)
    machine.fit(X[:80], SIDES[:80])
    lines = capsys.readouterr().out.splitlines()
    seen = [line for line in lines if line.startswith("[SVC] kernel values")]
    assert len(seen) > 10
    assert "%" in seen[3] and "s left of it" in seen[3]


def test_a_silent_fit_is_said_to_go_on(monkeypatch):
    said = []

    class Ended:
        def __init__(self):
            self.waits = 0

        def wait(self, seconds):
            self.waits += 1
            return self.waits > 3

    monkeypatch.setattr(clock, "SILENCE", 0.0)
    watched = clock.Clock(report=said.append)
    watched.at("eigenvalues")
    watched.watch_silence(Ended())
    assert len(said) == 3 and all("eigenvalues" in text for text in said)


def test_the_clock_of_a_fit_ends_with_it():
    with pytest.raises(TimeoutError):
        SVC(kernel=Nystrom(RBF(1.0), 50), time_limit=1e-6).fit(X, SIDES)
    assert clock.current() is None and clock.seconds_left() is None
    clock.tick("nothing to hear it")


def test_ctrl_c_ends_a_limited_fit_as_any_other():
    def interrupt(progress):
        raise KeyboardInterrupt

    machine = SVC(C=1e3, time_limit=1e6, callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        machine.fit(X, SIDES)
    assert not hasattr(machine, "support_") and clock.current() is None


def test_a_limit_is_divided_by_sizes_and_what_is_left_goes_to_the_rest(monkeypatch):
    now = [0.0]

    class Time:
        @staticmethod
        def perf_counter():
            return now[0]

    monkeypatch.setattr(limits, "time", Time)
    shares = limits.Shares(12.0, [1.0, 2.0, 3.0])
    assert shares.of(0) == pytest.approx(2.0)
    now[0] = 2.0
    assert shares.of(1) == pytest.approx(4.0)
    now[0] = 3.0  # it needed one second only
    assert shares.of(2) == pytest.approx(9.0)
    assert limits.Shares(None, [1.0]).of(0) is None


def test_a_matrix_by_strips_is_the_matrix(monkeypatch):
    kernel = mercer.Laplacian(0.3) + BlockFunction(lambda A, B: A @ B.T, psd=True)
    gram, read = Gram(kernel, X[:100]), []
    whole = gram.dense()
    monkeypatch.setattr(
        "mercer.gram.tick", lambda stage, share: read.append((stage, share))
    )
    with clock.running(clock.Clock(1e6)):
        K = gram.dense()
    assert len(read) == 24 and read[0] == ("kernel values", 0.0)
    np.testing.assert_allclose(K, whole, rtol=1e-12, atol=1e-12)
    assert np.array_equal(K, K.T)


# Paths


@pytest.mark.parametrize(
    "machine, y",
    [
        (mercer.SparseKernelRegressor(), VALUES),
        (mercer.SparseKernelClassifier(), SIDES),
    ],
    ids=["regressor", "classifier"],
)
def test_a_path_ends_where_the_time_is_up(machine, y):
    whole = clone(machine).path(X, y, n_steps=5)
    with pytest.warns(ConvergenceWarning, match="after 1 of 5 steps"):
        late = clone(machine).set_params(time_limit=1e-6).path(X, y, n_steps=5)
    assert len(whole) == 5 and len(late) == len(late.certificates) == 1
    assert late.parameter[0] == whole.parameter[0]
    limited = clone(machine).set_params(time_limit=1e6).path(X, y, n_steps=5)
    np.testing.assert_allclose(limited.expansion(X[:9]), whole.expansion(X[:9]))


def test_fits_of_a_regularization_path_share_one_limit():
    values = [0.1, 1.0, 10.0]
    machine = mercer.KernelLogisticRegression(time_limit=1e-6)
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        late = machines.regularization_path(machine, X, CLASSES, values)
    assert [one.run_.status for one in late] == ["time_limit"] * 3
    for one in late:
        assert one.certificate_.dual <= one.certificate_.primal
    machine.set_params(time_limit=1e6)
    done = machines.regularization_path(machine, X, CLASSES, values)
    assert [one.run_.status for one in done] == ["optimal"] * 3


# What ends a fit


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("likelihood", ["normal", "logistic"])
def test_evidence_without_time_for_a_look_at_all_columns(bias, likelihood):
    target = VALUES if likelihood == "normal" else 2 * SIDES - 1
    problem = SparseBayes(Gram(RBF(1.0), X), target, likelihood, bias)
    late = EvidenceAscent(time_limit=1e-9).solve(problem)
    assert late.status == "time_limit" and math.isnan(late.violation)
    # One column, whose evidence is that of the same column alone in a search.
    assert len(late.index) == (0 if bias else 1)
    assert len(late.alpha) == 1 and np.isfinite(late.covariance).all()
    free = EvidenceAscent().solve(problem)
    assert late.evidence < free.evidence
    if likelihood == "normal" and bias:
        assert abs(late.bias - VALUES.mean()) < 0.1


def test_components_that_no_time_is_left_to_confirm_have_no_residuals(monkeypatch):
    monkeypatch.setattr(limits, "GRACE", 0.0)
    many = rng.normal(size=(4500, 3))
    problem = Components(Gram(RBF(0.5), many), 3)
    whole = BlockKrylov(tol=1e-6).solve(problem)
    rounds = []

    class OverAfterOne(limits.TimeLimit):
        """A limit that is over when the first product is done."""

        def __call__(self, progress):
            rounds.append(progress)
            self.expired = self.expired or progress.rows > 0
            return self.expired

        def is_late(self):
            return self.expired

    limit = OverAfterOne(None, 1e6)
    found = limit.ended(BlockKrylov(tol=1e-6).solve(problem, watch=limit))
    assert found.status == "time_limit" and rounds
    assert np.isnan(found.residuals).all() and math.isnan(found.violation)
    np.testing.assert_allclose(found.values, whole.values, rtol=0.2)


def test_newton_stopped_before_its_first_product_has_a_true_gap():
    many = rng.normal(size=(1800, 3))
    side = np.where(many[:, 0] * many[:, 1] > 0, 1.0, -1.0)
    problem = Penalized(Gram(RBF(0.5), many), side, losses.Logistic(), reg=1e-3)
    method = newton._Iterated(problem, Newton(), krylov.Pulse())
    pulse = krylov.Pulse(lambda stage: True)
    pulse.stopped = True
    run = newton._Run(Newton(), problem, method, 0.0, lambda progress: True, pulse)
    found, best = run(None), Newton(tol=1e-8).solve(problem)
    assert not found.value.any() and found.dual <= best.primal <= found.primal
    assert method.products == 0
