"""Plans: the road that fit takes, memory that suffices, ways out, and no trace left."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import check_is_fitted
from tests import catalog

from mercer import (
    RBF,
    SVC,
    SVR,
    FeatureMap,
    Gram,
    KernelKMeans,
    KernelLogisticRegression,
    KernelPCA,
    KernelRidge,
    Linear,
    Nystroem,
    Nystrom,
    OneClassSVM,
    ParzenDensity,
    Perceptron,
    Precomputed,
    Spectrum,
    SubsetTree,
    Tree,
    planning,
)
from mercer.machines.estimator import KernelEstimator
from mercer.machines.trials import _Planning
from mercer.native import memory
from mercer.planning import (
    Plan,
    Trial,
    WayOut,
    estimated,
    fewer_points,
    growth_of,
    memory_of,
)
from mercer.road_costs import Growth, Rates, rates, value_seconds
from mercer.solvers import (
    Cholesky,
    Components,
    ConjugateGradient,
    EvidenceAscent,
    LinearSystem,
    SemismoothNewton,
    svc,
)
from mercer.solvers.auto import AutoComponents, AutoLinear, AutoSMO, road_of_evidence
from mercer.solvers.roads import Road

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 4))
SIDE = np.where(X[:, 0] + 0.3 * RNG.normal(size=240) > 0, "yes", "no")
NUMBER = np.sin(X[:, 0])
MANY = RNG.normal(size=(4500, 5))
ROADS = {"rows", "matrix", "products", "features", "landmarks", "points"}
OTHERS = [ParzenDensity(), Perceptron(max_iter=5), FeatureMap(), Nystroem()]
EVERY = [
    *(param.values[0] for param in catalog.machines),
    *OTHERS,
]


def targets(machine):
    if is_classifier(machine):
        return SIDE
    return NUMBER if is_regressor(machine) else None


@pytest.mark.parametrize("machine", EVERY, ids=lambda machine: type(machine).__name__)
def test_every_machine_has_a_plan_and_stays_unfitted(machine):
    machine = clone(machine)
    before = dict(vars(machine))
    plan = machine.plan(X, targets(machine))
    assert isinstance(plan, Plan)
    assert plan.road in ROADS and plan.n == len(X) and plan.fits
    assert 0 < plan.seconds[0] <= plan.seconds[1] < np.inf
    assert 0 < plan.memory < 1e8 and plan.entries >= 0
    assert not plan.ways_out
    assert vars(machine) == before
    if machine.__sklearn_tags__().requires_fit:
        with pytest.raises(NotFittedError):
            check_is_fitted(machine)
    text, shown = str(plan), plan._repr_html_()
    assert type(machine).__name__ in text and plan.road in text and plan.road in shown


def test_plan_leaves_a_fitted_machine_as_it_was():
    machine = SVC().fit(X, SIDE)
    before = machine.decision_function(X)
    machine.plan(X[:100], SIDE[:100])
    assert_allclose(machine.decision_function(X), before, rtol=0)


# The road is the one that is taken


def solvers_called(monkeypatch, *kinds):
    """The kinds of solvers that are asked to solve something, from now on."""
    called = []
    for kind in kinds:

        def solve(self, *args, _kind=kind, _solve=kind.solve, **options):
            called.append(_kind)
            return _solve(self, *args, **options)

        monkeypatch.setattr(kind, "solve", solve)
    return called


@pytest.mark.parametrize(
    "kernel, n, expected",
    [
        (RBF(0.2), 300, Cholesky),
        (RBF(0.2), 3100, ConjugateGradient),
    ],
)
def test_ridge_is_solved_by_what_its_plan_names(monkeypatch, kernel, n, expected):
    machine, y = KernelRidge(kernel=kernel), np.sin(MANY[:n, 0])
    plan = machine.plan(MANY[:n], y)
    called = solvers_called(monkeypatch, Cholesky, ConjugateGradient)
    machine.fit(MANY[:n], y)
    assert called == [expected]
    assert plan.road == ("matrix" if expected is Cholesky else "products")
    assert expected.__name__ in plan.why


def test_linear_svc_of_many_points_is_solved_on_features_as_planned(monkeypatch):
    y, machine = MANY[:, 0] > 0.1 * MANY[:, 1], SVC(kernel="linear")
    assert machine.plan(MANY[:600], y[:600]).road == "rows"
    plan = machine.plan(MANY, y)
    called = solvers_called(monkeypatch, SemismoothNewton)
    machine.fit(MANY, y)
    assert called == [SemismoothNewton]
    assert plan.road == "features" and plan.entries == 0


def test_rows_of_a_plan_are_those_that_smo_computes():
    y = np.where(MANY[:, 0] * MANY[:, 1] > 0, 1, 0)
    machine = SVC(C=10.0)
    plan = machine.plan(MANY, y)
    machine.fit(MANY, y)
    assert plan.road == "rows"
    computed = machine.run_.rows * len(MANY)
    assert computed / 3 < plan.entries < 3 * computed


def test_components_take_the_road_of_their_solver():
    few = AutoComponents().road(Components(Gram(RBF(1), MANY[:500]), 3))
    many = AutoComponents().road(Components(Gram(RBF(1), MANY), 3))
    short = AutoComponents().road(Components(Gram(Linear(), MANY), 3))
    assert [few.name, many.name, short.name] == ["matrix", "products", "features"]


def test_road_of_a_solver_that_is_given_is_its_own():
    machine = KernelRidge(kernel=RBF(0.2), solver=ConjugateGradient())
    assert machine.plan(X, NUMBER).road == "products"


def test_road_asks_what_solve_asks():
    y = np.where(MANY[:, 0] > 0, 1.0, -1.0)
    problem = svc(Gram(Linear(), MANY), y, 1.0)
    auto = AutoSMO()
    assert type(auto.road([problem]).solver) is type(auto._chosen(problem))
    system = LinearSystem(Gram(Linear(), MANY), y, 1.0)
    assert AutoLinear().road(system).name == "features"


def test_landmarks_are_named_and_not_chosen_from_all_points(monkeypatch):
    seen, resolve = [], Nystrom.resolve

    def watched(self, X, weight=None):
        seen.extend([len(X)] if self.landmarks is None else [])
        return resolve(self, X, weight)

    monkeypatch.setattr(Nystrom, "resolve", watched)
    plan = SVC(kernel=Nystrom(RBF(0.2), 30)).plan(MANY, MANY[:, 0] > 0)
    assert plan.road == "landmarks" and plan.entries == 30 * len(MANY)
    assert 0 < max(seen) < len(MANY)


# Points of other kinds


def test_strings_trees_and_given_values_have_plans():
    texts = ["".join(RNG.choice(list("ab"), 8)) for _ in range(60)]
    trees = [Tree(("S", ("A", t[0]), t[1:3])) for t in texts]
    y = [text.count("ab") > 1 for text in texts]
    assert SVC(kernel=Spectrum(2)).plan(texts, y).road == "matrix"
    assert SVC(kernel=SubsetTree()).plan(trees, y).road == "matrix"
    K = RBF(0.5)(X)
    plan = SVC(kernel="precomputed").plan(K, SIDE)
    assert plan.road == "matrix" and plan.entries == 0
    assert KernelPCA(2, kernel=Precomputed()).plan(K).entries == 0


# What is refused by fit is refused by plan


@pytest.mark.parametrize(
    "machine, X, y, error",
    [
        (SVC(C=-1), X, SIDE, InvalidParameterError),
        (SVC(kernel="rbff"), X, SIDE, InvalidParameterError),
        (SVC(), np.full((3, 2), np.nan), [0, 1, 0], ValueError),
        (SVC(), X, SIDE[:10], ValueError),
        (SVC(), X, np.zeros(len(X)), ValueError),
        (KernelRidge(alpha=-1.0), X, NUMBER, ValueError),
        (KernelKMeans(500), X, None, ValueError),
        (SVC(kernel="precomputed"), X, SIDE, ValueError),
    ],
)
def test_plan_refuses_what_fit_refuses(machine, X, y, error):
    with pytest.raises(error) as planned:
        machine.plan(X, y)
    with pytest.raises(error) as fitted:
        machine.fit(X, y)
    assert str(planned.value) == str(fitted.value)


def test_without_targets_the_plan_says_that_it_is_wider():
    machine = SVC()
    with_y, without = machine.plan(X, SIDE), machine.plan(X)
    assert not with_y.notes and "y was not given" in str(without)
    assert without.road == with_y.road
    width = [plan.seconds[1] / plan.seconds[0] for plan in (with_y, without)]
    assert width[1] > 2 * width[0]
    assert not OneClassSVM().plan(X).notes  # which needs none


# Memory


PEAK = """
import numpy as np
from mercer import KernelPCA, KernelRidge, SVC, RBF

def kilobytes(name):
    with open("/proc/self/status") as file:
        [line] = [line for line in file if line.startswith(name)]
    return int(line.split()[1])

rng = np.random.default_rng(0)
X = rng.normal(size=({n}, 10))
y = X[:, 0] + 0.1 * rng.normal(size={n}) > 0
machine = {machine}
machine.fit(X[:300], y[:300])
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak begins anew
before = kilobytes("VmRSS")
machine.fit(X, y)
print(1024 * (kilobytes("VmHWM") - before), machine.plan(X, y).memory)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
@pytest.mark.parametrize(
    "machine, n",
    [
        ("KernelRidge(0.1, kernel=RBF(0.05))", 1800),
        ("KernelPCA(5, kernel=RBF(0.1), eigen_solver='dense')", 1400),
        ("SVC(C=10.0)", 4000),
    ],
)
def test_memory_is_at_least_what_a_fit_takes_and_no_multiple_of_it(machine, n):
    source = PEAK.format(machine=machine, n=n)
    ran = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    )
    measured, planned = map(float, ran.stdout.split())
    assert measured <= planned <= 4 * measured


@pytest.fixture
def little_memory(monkeypatch):
    """A machine with 75 MB."""
    monkeypatch.setattr(memory, "available_memory", lambda root=None: 7.5e7)


def test_ways_out_are_named_where_memory_is_too_small(little_memory):
    machine = KernelPCA(kernel=RBF(0.1))  # all components: by LAPACK
    plan = machine.plan(MANY)
    assert plan.road == "matrix" and not plan.fits and "too little" in str(plan)
    way, *_, last = plan.ways_out
    assert way.change == "kernel=Nystrom(RBF(gamma=0.1), 125)"
    assert way.change in str(plan)
    assert way.memory < plan.available and last.memory < plan.available
    assert "of the points" in last.change
    changed = clone(machine).set_params(**way.parameters)
    assert changed.plan(MANY).fits
    assert changed.fit(MANY).eigenvalues_.size <= 125


def test_a_fit_without_room_is_refused_with_its_plan(little_memory):
    machine = KernelPCA(kernel=RBF(0.1))
    with pytest.raises(MemoryError, match=r"way out 1 +kernel=Nystrom") as refused:
        machine.fit(MANY)
    assert "no room for K" in str(refused.value)
    with pytest.raises(MemoryError, match="too little"):
        KernelRidge(0, kernel=RBF(0.1)).fit(MANY, MANY[:, 0])  # by its factors
    with pytest.raises(NotFittedError):
        check_is_fitted(machine)


def test_a_pilot_estimates_what_a_way_out_loses():
    planning = _Planning(KernelRidge(kernel=RBF(0.5)), X, NUMBER)
    near, far = Nystrom(RBF(0.5), 150), Nystrom(RBF(0.5), 2)
    ways = [WayOut(str(k), (1, 2), 1e6, parameters={"kernel": k}) for k in (near, far)]
    good, bad = planning._judged(ways)
    assert abs(good.loss) < 0.05 < bad.loss
    assert "(an estimate)" in str(bad)


def test_a_long_fit_has_a_way_out_with_fewer_points(monkeypatch):
    monkeypatch.setattr("mercer.planning.LONG", 0.02)
    road = AutoLinear().road(LinearSystem(Gram(RBF(0.1), MANY), MANY[:, 0], 1.0))
    found = [Trial(200, 1e-4), Trial(400, 4e-4)]
    way = fewer_points(road, found)
    assert way is not None and way.seconds[1] <= 0.02
    assert int(way.change.split()[0].replace(",", "")) in (2250, 1125, 562)
    monkeypatch.setattr("mercer.planning.LONG", 1e-9)
    assert fewer_points(road, found) is None


def test_a_long_fit_is_announced_with_verbose(monkeypatch, capsys):
    machine = KernelRidge(kernel=RBF(0.1), verbose=True)
    some, y = MANY[:2100], MANY[:2100, 0]
    monkeypatch.setattr("mercer.machines.estimator.ANNOUNCED", 1e9)
    machine.fit(some, y)
    assert "matrix, about" not in capsys.readouterr().out
    monkeypatch.setattr("mercer.machines.estimator.ANNOUNCED", 0.0)
    machine.fit(some, y)
    assert (
        "[KernelRidge] KernelRidge on 2,100 points: matrix" in capsys.readouterr().out
    )


# How seconds are extrapolated


def test_a_power_law_is_found_again():
    sizes, known = [100, 200, 400], Growth(0.0, 1.5, 3.0)
    law = [2e-6 * n**1.5 for n in sizes]
    assert_allclose(growth_of(sizes, law, known), 1.5, rtol=1e-12)
    assert growth_of(sizes, [1.0, 1e4, 1e9], known) == 3.0
    assert growth_of(sizes[:1], law[:1], known) == 1.5


def test_seconds_grow_with_the_work_that_is_known():
    gram = Gram(RBF(1), MANY[:2000])
    road = AutoLinear().road(LinearSystem(gram, MANY[:2000, 0], 1.0))
    found = [Trial(500, 0.01), Trial(1000, 0.05)]
    half, whole = estimated(road, found, 1000), estimated(road, found, 2000)
    assert_allclose(half.seconds, 0.05, rtol=1e-9)
    assert 4 * half.seconds < whole.seconds < 10 * half.seconds
    assert whole.spread > half.spread


def test_counted_rows_and_steps_of_smo_give_its_seconds():
    y = np.where(MANY[:, 0] > 0, 1.0, -1.0)
    road = AutoSMO().road([svc(Gram(RBF(1), MANY), y, 1.0)])
    found = [Trial(n, 1e-8 * n**2, iterations=n, rows=n // 2) for n in (500, 1000)]
    guess = estimated(road, found)
    assert_allclose(guess.rows, len(MANY) / 2, rtol=0.1)
    assert_allclose(guess.seconds, 1e-8 * len(MANY) ** 2, rtol=0.15)


def test_trials_have_room_for_what_does_not_grow_with_the_points(monkeypatch):
    y, kernel = MANY[:, 0], Nystrom(RBF(1), 100)
    held = _Planning(KernelRidge(kernel=kernel), MANY, y)
    assert held.road.name == "landmarks" and held._share(500) == 1.0
    monkeypatch.setattr(memory, "room_to_keep", lambda limit=None: 1e7)
    # As where Φ is computed whenever it is read: less is kept than all of it.
    held.__dict__["road"] = replace(held.road, kept=1e5)
    assert 8 * 100**2 / 1e7 < held._share(500) < held._share(4000) < 1.0
    rows = _Planning(SVC(), MANY, y > 0)
    assert_allclose(rows._share(500), (500 / len(MANY)) ** 2)


@pytest.fixture
def known_machine(monkeypatch):
    """Rates that do not depend on what else the machine is doing."""
    monkeypatch.setattr(planning, "rates", lambda: Rates(2e10, 1e10, 1e10))
    monkeypatch.setattr(planning, "value_seconds", lambda gram, single: 2e-9)


def test_problems_on_all_points_take_time_as_one_of_them_does(known_machine):
    y = np.where(MANY[:, 0] > 0, 1.0, -1.0)
    problems = [svc(Gram(RBF(1), MANY), y, 1.0)]
    # The folds of probabilities: of their rows nothing is counted.
    found = [Trial(n, 6e-8 * n**2, iterations=n, rows=n // 2) for n in (500, 1000)]
    one, six = (estimated(AutoSMO().road(problems, k), found) for k in (1, 6))
    assert_allclose(six.seconds, one.seconds, rtol=0.3)


def test_steps_to_more_evidence_are_taken_to_grow_with_the_points(known_machine):
    road = road_of_evidence(Gram(RBF(1), MANY[:2000]), EvidenceAscent())
    found = [Trial(n, 1e-4 * n, iterations=n, rows=n) for n in (250, 500)]
    guess = estimated(road, found)
    low, high = guess.seconds / guess.spread, guess.seconds * guess.spread
    assert low < 0.2 < high and guess.spread > 2


def test_rates_are_those_of_a_machine_that_computes():
    assert all(1e6 < rate < 1e15 for rate in rates())
    assert rates() is rates()  # measured once
    assert 0 < value_seconds(Gram(RBF(1), X)) < np.inf


def test_a_share_of_the_memory_is_kept_by_a_share_of_the_points():
    whole = memory.room_to_keep(10.0), memory.cache_bytes(10.0)
    with memory.sharing(0.25):
        assert (memory.room_to_keep(10.0), memory.cache_bytes(10.0)) == (
            whole[0] / 4,
            whole[1] / 4,
        )
    assert memory.room_to_keep(10.0) == whole[0]


def test_memory_of_a_matrix_grows_with_its_square():
    def of(n):
        problem = LinearSystem(Gram(RBF(1), np.zeros((n, 1))), np.zeros(n), 1.0)
        return memory_of(AutoLinear(few=10**6).road(problem))

    assert_allclose((of(4000) - of(2000)) / (of(2000) - of(1000)), 4, rtol=0.2)


def test_texts_are_readable():
    way = WayOut("kernel=Nystrom(RBF(0.1), 2000)", (38.0, 45.0), 0.61e9, 0.002)
    plan = Plan("SVC", 10**6, "rows", "why", 1e12, 9e9, 8e9, (7200, 9000), (way,))
    assert not plan.fits
    for part in ("1,000,000 points", "2 to 2.5 h", "9 GB", "38 to 45 s", "0.61 GB"):
        assert part in str(plan)
    assert plan.summary().count("\n") == 0
    assert (
        "&lt;" in Plan("SVC", 1, "rows", "<b>", 0, 0, 1, (0.001, 0.002))._repr_html_()
    )


def test_roads_of_the_problem_of_several_targets_count_them():
    y = np.column_stack([NUMBER, X[:, 1], X[:, 2]])
    problem_road = SVR().__sklearn_clone__()._road(X, y)
    assert isinstance(problem_road, Road) and problem_road.n_problems == 3
    machine = KernelLogisticRegression(kernel=RBF(0.2))
    assert machine.plan(X, np.arange(240) % 3).road == "matrix"


def test_a_machine_of_ones_own_without_a_road_says_so():
    class Own(KernelRidge):
        _road = KernelEstimator._road

    with pytest.raises(NotImplementedError, match="Own does not say how it is fitted"):
        Own().plan(np.eye(3), np.ones(3))
