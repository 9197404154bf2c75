"""KernelSearchCV: what GridSearchCV gives, with shared work."""

import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.datasets import (
    load_iris,
    make_blobs,
    make_classification,
    make_friedman1,
)
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from mercer import (
    RBF,
    SVC,
    SVR,
    Graph,
    KernelKNNClassifier,
    KernelLogisticRegression,
    KernelRidge,
    KernelSearchCV,
    Linear,
    Matern,
    Normalized,
    NuSVC,
    Nystrom,
    On,
    OneClassSVM,
    PairFunction,
    PairKernel,
    Polynomial,
    Spectrum,
    Subsequence,
    SubsetTree,
    Tree,
    WeisfeilerLehman,
    gram_cache,
    set_gram_cache,
)
from mercer.search.spaces import kernels_for, middle_width
from mercer.solvers.held_rows import HeldRows

X, y = make_classification(120, 6, random_state=0)
iris = load_iris(return_X_y=True)
numbers = make_friedman1(80, random_state=0)
_random = np.random.default_rng(0)
texts = [
    "".join(_random.choice(list("abc"[: 2 + i % 2]), 4 + i % 5)) for i in range(50)
]
kinds = np.arange(50) % 2


def ring(n, label):
    edges = [(i, (i + 1) % n) for i in range(n)]
    return Graph(edges, [label if i % 3 else "C" for i in range(n)])


graphs = [ring(4 + i % 5, "N" if i % 2 else "O") for i in range(40)]

CASES = {
    "two classes": (SVC(), {"C": [0.1, 1, 100], "gamma": [0.01, 1]}, X, y),
    "learnt widths": (SVC(), {"C": [0.1, 10], "kernel": ["rbf", "poly"]}, X, y),
    "inner parameters": (
        SVC(kernel=RBF()),
        {"C": [0.1, 10], "kernel__gamma": [None, 0.1]},
        X,
        y,
    ),
    "classes": (SVC(), {"C": [1, 10], "kernel": [RBF(0.1), Matern(1.5)]}, *iris),
    "weights of classes": (
        SVC(class_weight="balanced"),
        {"C": [1, 10], "multiclass": ["ovo", "ovr"]},
        *iris,
    ),
    "nu": (NuSVC(), {"nu": [0.1, 0.3], "kernel": [RBF(0.1), Matern(1.5)]}, X, y),
    "numbers": (SVR(), {"C": [1, 10], "gamma": [0.1, "scale"]}, *numbers),
    "slow numbers": (
        SVR(kernel=Matern(2.5)),
        {"C": [1, 10], "epsilon": [0.1, 1]},
        *numbers,
    ),
    "ridge": (
        KernelRidge(),
        {"alpha": [0.1, 1], "kernel": ["rbf", Matern(1.5), Polynomial(2)]},
        *numbers,
    ),
    "ridge of learnt width": (KernelRidge(kernel=RBF()), {"alpha": [1, 2]}, *numbers),
    "logistic": (
        KernelLogisticRegression(),
        {"C": [0.1, 1], "kernel": [RBF(0.1), RBF(), Matern(1.5)]},
        X,
        y,
    ),
    "neighbours": (
        KernelKNNClassifier(),
        {"n_neighbors": [1, 4], "kernel": [RBF(1), Matern(1.5)]},
        X,
        y,
    ),
    "neighbours of strings": (
        KernelKNNClassifier(),
        {"n_neighbors": [1, 4], "kernel": [Normalized(Spectrum(2)), Subsequence(2)]},
        texts,
        kinds,
    ),
    "strings": (
        SVC(),
        {"C": [1, 10], "kernel": [Normalized(Spectrum(2)), Subsequence(2)]},
        texts,
        kinds,
    ),
    "graphs": (
        SVC(),
        {"C": [1, 10], "kernel": [WeisfeilerLehman(1), WeisfeilerLehman(2)]},
        graphs,
        np.arange(40) % 2,
    ),
    "kernel values": (
        SVC(kernel="precomputed"),
        {"C": [0.1, 1, 10]},
        RBF(0.1)(X),
        y,
    ),
    "landmarks": (
        KernelRidge(kernel=Nystrom(RBF(0.1), 10, seed=0)),
        {"alpha": [0.1, 1]},
        *numbers,
    ),
    "a pipeline": (
        make_pipeline(StandardScaler(), SVC()),
        {"svc__C": [0.1, 10], "svc__gamma": [0.1, 1]},
        X,
        y,
    ),
}


def assert_same(ours, theirs):
    mine, others = ours.cv_results_, theirs.cv_results_
    assert list(mine) == list(others)
    for name in mine:
        if "time" in name or name.startswith("param"):
            continue
        assert_allclose(mine[name], others[name], rtol=1e-8, atol=1e-9, err_msg=name)
    assert mine["params"] == others["params"]
    assert ours.best_index_ == theirs.best_index_
    assert ours.best_params_ == theirs.best_params_
    assert ours.n_splits_ == theirs.n_splits_


@pytest.mark.parametrize("case", CASES)
def test_a_search_gives_what_grid_search_gives(case):
    # Several fits at once where several kernels are there for them.
    n_jobs = 2 if case in ("classes", "strings", "ridge", "a pipeline") else None
    machine, grid, points, target = CASES[case]
    options = {"cv": 3, "return_train_score": True}
    theirs = GridSearchCV(machine, grid, **options).fit(points, target)
    ours = KernelSearchCV(machine, grid, n_jobs=n_jobs, **options).fit(points, target)
    assert_same(ours, theirs)
    assert_allclose(
        ours.best_estimator_.score(points, target),
        theirs.best_estimator_.score(points, target),
        rtol=1e-9,
    )


def test_points_of_one_class_are_judged_by_a_scorer():
    grid = {"nu": [0.1, 0.3], "kernel": [RBF(0.1), Matern(1.5)]}
    target = np.where(y == 0, -1, 1)
    options = {"cv": 3, "scoring": "accuracy"}
    theirs = GridSearchCV(OneClassSVM(), grid, **options).fit(X, target)
    assert_same(KernelSearchCV(OneClassSVM(), grid, **options).fit(X, target), theirs)


@pytest.mark.parametrize("kernel", [RBF(0.1), Matern(1.5), "rbf"])
def test_weights_are_divided_among_folds(kernel):
    weight = np.linspace(0.1, 2, len(y))
    grid, options = {"C": [0.1, 1], "kernel": [kernel]}, {"cv": 3}
    theirs = GridSearchCV(SVC(), grid, **options).fit(X, y, sample_weight=weight)
    ours = KernelSearchCV(SVC(), grid, **options).fit(X, y, sample_weight=weight)
    assert_same(ours, theirs)


def test_several_scores_and_groups_are_as_scikit_learns():
    options = {"scoring": ["accuracy", "f1"], "refit": "f1", "cv": 3}
    grid = {"C": [0.1, 1], "kernel": [Matern(1.5)]}
    ours = KernelSearchCV(SVC(), grid, **options).fit(X, y)
    assert_same(ours, GridSearchCV(SVC(), grid, **options).fit(X, y))
    assert sorted(ours.scorer_) == ["accuracy", "f1"]


def test_distributions_are_drawn_as_scikit_learn_draws_them():
    space = {"C": loguniform(0.1, 100), "kernel": [RBF(0.1), Matern(1.5)]}
    options = {"n_iter": 5, "random_state": 3, "cv": 3}
    ours = KernelSearchCV(SVC(), space, **options).fit(X, y)
    assert_same(ours, RandomizedSearchCV(SVC(), space, **options).fit(X, y))


def test_candidates_may_come_twice_and_lack_c():
    grid = [{"nu": [0.3], "kernel": [Matern(1.5)]}, {"kernel": [Matern(1.5)]}] * 2
    theirs = GridSearchCV(NuSVC(nu=0.2), grid, cv=2).fit(X, y)
    assert_same(KernelSearchCV(NuSVC(nu=0.2), grid, cv=2).fit(X, y), theirs)


def test_a_data_frame_is_searched_as_its_points():
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abcdef"))
    grid = {"C": [1, 10], "kernel": [Matern(1.5), On("a", RBF(1)) + On("b", RBF(1))]}
    theirs = GridSearchCV(SVC(), grid, cv=2).fit(frame, y)
    ours = KernelSearchCV(SVC(), grid, cv=2).fit(frame, y)
    assert_same(ours, theirs)
    assert ours.feature_names_in_.tolist() == list("abcdef")


def test_a_slow_matrix_is_broken_off_when_the_time_is_up():
    def slow(s, t):
        time.sleep(0.002)
        return float(len(s) == len(t))

    search = KernelSearchCV(
        SVC(), [PairFunction(slow, psd=True)], cv=2, time_limit=0.2, refit=False
    )
    with pytest.raises(TimeoutError, match="before a single candidate"):
        search.fit([*texts, *texts, *texts], [*kinds, *kinds, *kinds])


def test_a_list_of_kernels_is_a_space():
    search = KernelSearchCV(SVC(), [RBF(0.1), "linear", Matern(1.5)], cv=3).fit(X, y)
    assert [one["kernel"] for one in search.cv_results_["params"]] == [
        RBF(0.1),
        "linear",
        Matern(1.5),
    ]


# What is shared


@dataclass
class Counting(PairKernel):
    """k(x, y) = 1 / (1 + ‖x - y‖₁ / width), counting its values."""

    width: float = 1.0
    values: ClassVar[list[int]] = [0]

    def pair(self, x, y):
        self.values[0] += 1
        return 1 / (1 + np.abs(np.asarray(x) - y).sum() / self.width)


@pytest.fixture
def counted():
    Counting.values[0] = 0
    return Counting.values


def test_kernel_values_are_computed_once_for_all_folds_and_values_of_c(counted):
    grid = {"C": [0.1, 1, 10], "kernel": [Counting(1.0), Counting(2.0)]}
    search = KernelSearchCV(SVC(), grid, refit=False).fit(X, y)
    n = len(X)
    # Two kernels, the pairs of all points; three values at most see whether it serves.
    assert n * (n + 1) / 2 <= counted[0] / 2 <= n * (n + 1) / 2 + 3
    assert search.sharing_ == "2 kernels: one kernel matrix for all folds"


def test_a_pipeline_says_that_it_shares_nothing():
    machine = make_pipeline(StandardScaler(), SVC())
    search = KernelSearchCV(machine, {"svc__C": [0.1, 1]}, cv=3).fit(X, y)
    assert search.sharing_ == "1 kernel: nothing"


def test_without_room_nothing_is_held(counted, monkeypatch):
    grid = {"C": [0.1, 1], "kernel": [Counting(1.0)]}
    shared = KernelSearchCV(SVC(), grid, cv=3, refit=False).fit(X, y)
    before = counted[0]
    monkeypatch.setattr("mercer.native.memory.available_memory", lambda: 4e5)
    alone = KernelSearchCV(SVC(), grid, cv=3, refit=False).fit(X, y)
    assert alone.sharing_ == "1 kernel: nothing"
    assert counted[0] - before > 2 * before
    assert_same(alone, shared)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_fits_of_all_folds_read_the_rows_of_one_matrix(n_jobs, monkeypatch):
    some, target = make_classification(2300, 20, random_state=4)
    grid = {"C": [0.01, 0.1, 1, 10, 100], "gamma": [0.01, 0.1]}
    made = []

    class Counted(HeldRows):
        def __init__(self, kernel, X, out):
            made.append(kernel)
            super().__init__(kernel, X, out)

    monkeypatch.setattr("mercer.search.sharing.HeldRows", Counted)
    ours = KernelSearchCV(SVC(), grid, cv=2, refit=False, n_jobs=n_jobs)
    ours.fit(some, target)
    word = "kernel rows in single precision for all folds"
    assert ours.sharing_ == f"2 kernels: {word}"
    assert sorted(kernel.gamma for kernel in made) == [0.01, 0.1]
    theirs = GridSearchCV(SVC(), grid, cv=2, refit=False).fit(some, target)
    assert ours.best_params_ == theirs.best_params_
    for name in ("split0_test_score", "split1_test_score"):
        # A point whose f is 0 to tol may be on either side.
        assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], atol=1 / 1000)


def test_fits_of_narrow_kernels_start_from_the_one_at_a_smaller_C(monkeypatch):
    some, target = make_classification(2400, 20, random_state=4)
    grid = {"C": [0.01, 0.1, 1, 10, 100], "gamma": [3.0]}
    starts = []
    plain = SVC._coefficients_before

    def noting(self, *args):
        found = plain(self, *args)
        starts.append(found is not None)
        return found

    monkeypatch.setattr(SVC, "_coefficients_before", noting)
    ours = KernelSearchCV(SVC(), grid, cv=2, refit=False).fit(some, target)
    # At C = 100 no coefficient is at its bound, as at 10: there is nothing to fit.
    assert starts == 2 * [False, True, True, True]
    theirs = GridSearchCV(SVC(), grid, cv=2, refit=False).fit(some, target)
    assert_same(ours, theirs)


def test_a_learnt_width_shares_squared_distances(monkeypatch):
    calls = []
    plain = Linear.sqdist

    def counting(self, *args):
        calls.append(1)
        return plain(self, *args)

    monkeypatch.setattr(Linear, "sqdist", counting)
    grid = {"alpha": [0.1, 1, 10]}
    search = KernelSearchCV(KernelRidge(kernel=RBF()), grid, refit=False).fit(*numbers)
    assert len(calls) == 1
    assert "squared distances" in search.sharing_


def test_features_are_computed_once(monkeypatch):
    monkeypatch.setattr("mercer.solvers.auto.costs.MANY_POINTS", 20)
    many = ["ab" * 3 + "c" * (i % 4) + "ba" * (i % 3) for i in range(300)]
    target = np.arange(300) % 3 > 0
    grid = {"C": [0.1, 1], "kernel": [Spectrum(2)]}
    ours = KernelSearchCV(SVC(), grid, cv=3).fit(many, target)
    assert ours.sharing_ == "1 kernel: the features of all points for all folds"
    theirs = GridSearchCV(SVC(), grid, cv=3).fit(many, target)
    assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
    )


def test_fits_start_from_the_one_at_a_smaller_c():
    some, target = make_classification(900, 20, flip_y=0.1, random_state=1)
    grid = {"C": [1000.0, 1.0, 10.0, 100.0], "gamma": [0.05]}
    steps: dict[bool, list[int]] = {True: [], False: []}
    for warm in steps:

        def score(machine, X, y, warm=warm):
            steps[warm].append(machine.run_.iterations)
            return machine.score(X, y)

        KernelSearchCV(
            SVC(tol=1e-4), grid, cv=3, scoring=score, refit=False, warm_start=warm
        ).fit(some, target)
    # By growing C in each fold; the first of them has no start.
    assert steps[True][::4] != [] and sum(steps[True]) < sum(steps[False])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_hard_fits_start_near_and_have_the_scores_of_fits_on_their_own(n_classes):
    # Few subsequences, many points: at a large C pairs of variables take long.
    rng = np.random.default_rng(n_classes)
    some = ["".join(rng.choice(list("acgt"), 12)) for _ in range(240)]
    count = np.array([one.count("ac") + one.count("g") for one in some])
    target = np.digitize(count + rng.normal(size=240), [3, 5][: n_classes - 1])
    kernels = [Normalized(Subsequence(2, decay)) for decay in (0.4, 0.8)]
    grid = {"C": np.logspace(-1, 4, 6), "kernel": kernels}
    began = []

    def score(machine, X, y):
        began.append(machine.warm_start)
        assert machine.run_.status == "optimal"
        return machine.score(X, y)

    options = {"cv": 3, "refit": False}
    ours = KernelSearchCV(SVC(), grid, n_jobs=2, scoring=score, **options)
    ours.fit(some, target)
    assert any(began)
    theirs = GridSearchCV(SVC(), grid, **options).fit(some, target)
    for k in range(3):
        name = f"split{k}_test_score"
        assert_allclose(ours.cv_results_[name], theirs.cv_results_[name])


@pytest.mark.parametrize("n_classes, weighted", [(2, False), (3, False), (2, True)])
def test_a_solution_within_its_bounds_serves_every_larger_c(n_classes, weighted):
    some, target = make_blobs(90, 2, centers=n_classes, random_state=3)
    grid = {"C": [1e5, 1e-3, 1e4, 1e6], "gamma": [0.5]}
    runs = []

    def score(machine, X, y):
        runs.append((machine.C, machine.run_))
        return machine.score(X, y)

    machine = SVC(class_weight="balanced") if weighted else SVC()
    ours = KernelSearchCV(machine, grid, cv=3, scoring=score, refit=False)
    ours.fit(some, target)
    assert [C for C, _ in runs] == [1e-3, 1e4, 1e5, 1e6] * 3
    # At 1e-3 coefficients are at their bound, at 1e4 none is; weights move bounds.
    fits = {id(run) for _, run in runs}
    assert len(fits) == (12 if weighted else 6)
    theirs = GridSearchCV(machine, grid, cv=3, refit=False).fit(some, target)
    assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
    )


# Sensible spaces

TREES = [Tree(("S", ("A", "x" if i % 2 else "y"), "z")) for i in range(30)]
RECORDS = [
    {"age": float(i), "town": "ab"[i % 2], "note": f"note {i} of many {i * 7}"}
    for i in range(40)
]
SPACES: dict[str, Any] = {
    "vectors": (X, {"Linear", "Polynomial", "RBF", "Matern"}),
    "strings": (texts, {"Spectrum", "Subsequence"}),
    "equal strings": (["abcabcabcabc", "bbbbcccaaaaa"] * 15, {"WeightedDegree"}),
    "trees": (TREES, {"Subtree", "SubsetTree"}),
    "graphs": (graphs, {"WeisfeilerLehman", "ShortestPath"}),
    "records": (RECORDS, {"On"}),
}


@pytest.mark.parametrize("kind", SPACES)
def test_a_search_without_a_space_knows_kernels_for_the_points(kind):
    points, names = SPACES[kind]
    target = np.arange(len(points)) % 2
    found = repr(kernels_for(points))
    assert all(f"{name}(" in found for name in names)
    search = KernelSearchCV(
        SVC(), cv=2, n_iter=4, random_state=0, error_score="raise"
    ).fit(points, target)
    assert set(search.best_params_) == {"C", "kernel"}


def test_a_kernel_that_is_given_stays():
    search = KernelSearchCV(SVC(kernel=RBF(0.3)), cv=2).fit(X, y)
    assert set(search.best_params_) == {"C"}
    assert search.best_estimator_.kernel == RBF(0.3)


def test_widths_follow_the_scale_of_the_points():
    assert_allclose(middle_width(10 * X), middle_width(X) / 100)
    assert middle_width(np.ones((5, 2))) == 1.0


# Halving, time, files


def test_halving_judges_a_third_on_three_times_as_many_points():
    some, target = make_classification(600, 6, random_state=0)
    grid = {"C": np.logspace(-3, 3, 9), "kernel": [Matern(1.5)]}
    search = KernelSearchCV(SVC(), grid, halving=True, cv=3, random_state=0)
    results = search.fit(some, target).cv_results_
    counts = [int(np.sum(results["iter"] == rung)) for rung in range(3)]
    assert counts == [9, 3, 1]
    assert sorted(set(results["n_resources"])) == [66, 200, 600]
    assert results["iter"][search.best_index_] == 2
    whole = GridSearchCV(SVC(), grid, cv=3).fit(some, target)
    at = next(
        i
        for i, one in enumerate(whole.cv_results_["params"])
        if one == search.best_params_
    )
    assert_allclose(search.best_score_, whole.cv_results_["mean_test_score"][at])


@pytest.fixture
def clock(monkeypatch):
    """A clock of the search that only its fits move, by a second each."""
    now = [0.0]

    class Fake:
        time = staticmethod(lambda: now[0])
        perf_counter = staticmethod(lambda: now[0])

    for name in ("cv", "run", "table"):
        monkeypatch.setattr(f"mercer.search.{name}.time", Fake)
    monkeypatch.setattr("mercer.search.judging.time", Fake)
    return now


def one_second(now):
    def score(machine, X, y):
        now[0] += 1.0
        return machine.score(X, y)

    return score


def test_a_time_limit_leaves_the_best_so_far(clock):
    grid = {"n_neighbors": [1, 2, 3, 4], "kernel": [RBF(0.1), RBF(1)]}
    search = KernelSearchCV(
        KernelKNNClassifier(),
        grid,
        cv=2,
        time_limit=9.5,
        scoring=one_second(clock),
        random_state=0,
    ).fit(X, y)
    judged = len(search.cv_results_["params"])
    assert 0 < judged < 8 and judged + search.n_skipped_ == 8
    assert clock[0] <= 10.0
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])


def test_a_time_limit_too_short_for_one_fit_is_an_error(clock):
    search = KernelSearchCV(
        SVC(), {"C": [1, 10]}, cv=3, time_limit=1.5, scoring=one_second(clock)
    )
    with pytest.raises(TimeoutError, match=r"before a single .* pass halving=True\."):
        search.fit(X, y)
    with pytest.raises(TimeoutError, match=r"time_limit, or take fewer .* folds\."):
        search.set_params(halving=True).fit(X, y)


@pytest.mark.filterwarnings("ignore:One or more of the test scores")
def test_a_value_that_is_no_number_fails_its_own_fits_alone():
    search = KernelSearchCV(SVC(), {"C": [1.0, "one"]}, cv=2)
    with pytest.warns(FitFailedWarning, match="'C' parameter of SVC must be a float"):
        search.fit(X, y)
    assert search.best_params_ == {"C": 1.0}


def test_a_search_goes_on_from_its_journal(tmp_path, counted):
    path = tmp_path / "search.journal"
    grid = {"C": [0.1, 1], "kernel": [Counting(1.0), Counting(3.0)]}
    options = {"cv": 3, "refit": False}
    whole = KernelSearchCV(SVC(), grid, resume=path, **options).fit(X, y)
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 1 + 12
    # As a kill leaves it: half of a line at the end.
    path.write_bytes(b"".join(lines[:8]) + lines[8][:20])
    again = KernelSearchCV(SVC(), grid, resume=path, **options).fit(X, y)
    assert_same(again, whole)
    assert len(path.read_bytes().splitlines()) == 1 + 12
    before = counted[0]
    KernelSearchCV(SVC(), grid, resume=path, **options).fit(X, y)
    assert counted[0] - before <= 6  # only whether the kernels serve


def flipped(data, at):
    """The same with one bit changed."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    "damage, words",
    [
        (lambda data: b"PK\x03\x04 something else\n", "is no journal"),
        (lambda data: b"no line at all", "is no journal"),
        (lambda data: b'{"a": 1}\n', "is no journal"),
        (lambda data: flipped(data, 700), "is no journal|is damaged"),
        (lambda data: flipped(data, len(data) - 40), "is damaged in line"),
    ],
)
def test_a_foreign_or_damaged_journal_is_refused(tmp_path, damage, words):
    path = tmp_path / "search.journal"
    search = KernelSearchCV(SVC(), {"C": [0.1, 1]}, cv=2, resume=path)
    search.fit(X, y)
    path.write_bytes(damage(path.read_bytes()))
    kept = path.read_bytes()
    with pytest.raises(ValueError, match=words):
        search.fit(X, y)
    assert path.read_bytes() == kept


@pytest.mark.parametrize(
    "change, words",
    [
        ({"X": X + 1}, "points"),
        ({"y": 1 - y}, "targets"),
        ({"cv": 4}, "folds"),
        ({"machine": SVC(tol=1e-5)}, "machine"),
        ({"space": {"C": [0.1, 2]}}, "candidates"),
        ({"scoring": "f1"}, "scoring"),
    ],
)
def test_the_journal_of_another_search_is_refused(tmp_path, change, words):
    path = tmp_path / "search.journal"
    given = {"machine": SVC(), "space": {"C": [0.1, 1]}, "cv": 3, "scoring": None}
    KernelSearchCV(**given, resume=path).fit(X, y)
    points, target = change.pop("X", X), change.pop("y", y)
    with pytest.raises(ValueError, match=f"another search, with other {words}"):
        KernelSearchCV(**(given | change), resume=path).fit(points, target)


KILLED = """
import sys, time
import numpy as np
from sklearn.datasets import make_blobs, make_classification
from mercer import RBF, SVC, KernelSearchCV

X, y = make_classification(120, 6, random_state=0)

def score(machine, X, y):
    if sys.argv[2] == "slow":
        print("judged", flush=True)
        time.sleep(0.3)
    return machine.score(X, y)

grid = {"C": [0.1, 1.0, 10.0], "kernel": [RBF(0.1), RBF(1.0)]}
search = KernelSearchCV(SVC(), grid, cv=3, scoring=score, resume=sys.argv[1])
search.fit(X, y)
print(search.best_params_, repr(float(search.best_score_)))
"""


def test_a_search_survives_kill_9(tmp_path):
    path = tmp_path / "search.journal"
    script = tmp_path / "search.py"
    script.write_text(KILLED)
    command = [sys.executable, str(script), str(path)]
    slow = subprocess.Popen([*command, "slow"], stdout=subprocess.PIPE, text=True)
    for _ in range(4):
        assert slow.stdout is not None
        slow.stdout.readline()
    slow.send_signal(signal.SIGKILL)
    slow.wait()
    slow.stdout.close()
    judged = len(path.read_bytes().splitlines()) - 1
    assert 1 <= judged < 18
    first = subprocess.run(
        [*command, "quick"], capture_output=True, text=True, check=True
    )
    fresh = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "other"), "quick"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert first.stdout == fresh.stdout
    assert len(path.read_bytes().splitlines()) == 1 + 18


# scikit-learn's conventions


def test_scikit_learns_checks_pass_as_for_grid_search():
    grid = {"C": [0.1, 1.0]}
    failed = {
        kind.__name__: {
            one["check_name"]
            for one in check_estimator(
                kind(SVC(), grid, cv=2), on_fail=None, on_skip=None
            )
            if one["status"] == "failed"
        }
        for kind in (GridSearchCV, KernelSearchCV)
    }
    assert failed["KernelSearchCV"] <= failed["GridSearchCV"]


def test_a_search_is_cloned_and_nested():
    search = KernelSearchCV(SVC(), {"C": [0.1, 1]}, cv=2)
    assert clone(search).get_params()["space"] == {"C": [0.1, 1]}
    outer = cross_val_score(make_pipeline(StandardScaler(), search), X, y, cv=2)
    inner = cross_val_score(
        make_pipeline(StandardScaler(), GridSearchCV(SVC(), {"C": [0.1, 1]}, cv=2)),
        X,
        y,
        cv=2,
    )
    assert_allclose(outer, inner)


def test_methods_of_the_best_machine_are_those_of_the_search():
    search = KernelSearchCV(SVC(), {"C": [0.1, 1]}, cv=2)
    with pytest.raises(NotFittedError):
        search.predict(X)
    search.fit(X, y)
    best = search.best_estimator_
    assert_allclose(search.decision_function(X), best.decision_function(X))
    assert (search.predict(X) == best.predict(X)).all()
    assert search.score(X, y) == best.score(X, y)
    assert search.classes_.tolist() == [0, 1]
    assert search.n_features_in_ == 6
    assert search.refit_time_ >= 0


def test_a_failing_fit_has_the_error_score():
    grid = {"nu": [0.1, 0.99]}
    target = np.arange(len(X)) < 20
    with (
        pytest.warns(FitFailedWarning, match="3 fits failed"),
        pytest.warns(UserWarning, match="non-finite"),
    ):
        search = KernelSearchCV(NuSVC(kernel=Matern(1.5)), grid, cv=3).fit(X, target)
    assert np.isnan(search.cv_results_["mean_test_score"][1])
    assert search.best_params_ == {"nu": 0.1}
    with pytest.raises(ValueError, match="infeasible"):
        KernelSearchCV(NuSVC(), grid, cv=3, error_score="raise").fit(X, target)


def test_the_command_repeats_the_search():
    grid = {"C": np.array([0.1, 1.0]), "kernel": [RBF(0.1), Matern(1.5)]}
    search = KernelSearchCV(SVC(tol=1e-4), grid, cv=2, n_jobs=2).fit(X, y)
    names = {"KernelSearchCV": KernelSearchCV, "SVC": SVC, "RBF": RBF, "Matern": Matern}
    again = eval(search.command_, names | {"X": X, "y": y})
    assert_same(again, search)


def test_verbose_prints_how_far_it_is_and_the_best(capsys):
    KernelSearchCV(SVC(), {"C": [0.1, 1]}, cv=2, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("2 candidates, 2 folds of 120 points: 4 fits")
    assert any("4/4" in line and "best" in line for line in lines)
    assert "rank" in lines[-4] and "shared" in lines[-1]


# Bad input

BAD = {
    "an empty space": ({}, ValueError, "something to try"),
    "an empty list": ([], ValueError, "something to try"),
    "no values": ({"C": []}, ValueError, "at least one value of 'C'"),
    "a bare value": ({"C": 1.0}, TypeError, "as a list"),
    "a bare kernel": (RBF(), TypeError, "a list of kernels"),
    "a number in the list": ([RBF(), 3], TypeError, "got 3"),
    "an unknown name": ({"c": [1]}, ValueError, "Did you mean 'C'"),
    "an unknown part": ({"kernel__gamma": [1]}, ValueError, "no parameter"),
    "a distribution": ({"C": loguniform(1, 2)}, ValueError, "n_iter"),
    "a kernel of trees": ([RBF(0.1), SubsetTree()], TypeError, "SubsetTree"),
    "no kernel": (
        {"kernel": [RBF(0.1), 1]},
        TypeError,
        r"such as RBF\(\), .* kernel=1",
    ),
    "no such column": (
        [On(7, RBF(0.1))],
        IndexError,
        "cannot try kernel=On.*from 0 to",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_spaces_are_refused(case):
    space, kind, words = BAD[case]
    with pytest.raises(kind, match=words):
        KernelSearchCV(SVC(), space, cv=2).fit(X, y)


def test_a_kernel_of_vectors_is_refused_on_strings():
    with pytest.raises((TypeError, ValueError), match="cannot try kernel=RBF"):
        KernelSearchCV(SVC(), [Spectrum(2), RBF(0.1)], cv=2).fit(texts, kinds)


def test_a_journal_needs_a_folder(tmp_path):
    search = KernelSearchCV(SVC(), {"C": [1]}, cv=2, resume=tmp_path / "no" / "file")
    with pytest.raises(ValueError, match="no folder"):
        search.fit(X, y)


# The cache of plain searches


def test_a_cache_shares_kernel_values_in_a_plain_grid_search(counted):
    grid = {"C": [0.1, 1, 10], "kernel": [Counting(1.0), Counting(2.0)]}
    plain = GridSearchCV(SVC(), grid, cv=4).fit(X, y)
    before = counted[0]
    with gram_cache(100) as cache:
        shared = GridSearchCV(SVC(), grid, cv=4).fit(X, y)
        assert cache.computed <= 2 * len(X) ** 2
    assert counted[0] - before <= 2 * len(X) ** 2 < before / 2
    for name in plain.cv_results_:
        if name.endswith("test_score"):
            assert_allclose(plain.cv_results_[name], shared.cv_results_[name])


def test_a_cache_keeps_to_its_limit(counted):
    limit = 8.0 * 100**2 / 2**20
    with gram_cache(limit) as cache:
        k = Counting(1.0)
        assert_allclose(k(X[:60]), Counting(1.0)(X[:60]))
        assert cache.found == 3600 and cache.bytes <= 8 * 100**2
        Counting(2.0)(X[:90])  # the other kernel gives way
        assert cache.bytes <= 8 * 100**2
        before = cache.computed
        Counting(2.0)(X)  # too many points: computed, and not kept
        assert cache.computed == before and cache.bytes <= 8 * 100**2
    before = counted[0]
    Counting(2.0)(X[:10])
    assert counted[0] > before  # it has ended


def test_cached_values_are_those_of_any_blocks(counted):
    k, rng = Counting(1.0), np.random.default_rng(1)
    plain = k(X)
    with gram_cache(100):
        for _ in range(10):
            i, j = rng.choice(len(X), (2, 30))
            assert_allclose(k(X[i], X[j]), plain[np.ix_(i, j)], rtol=0, atol=0)
        assert_allclose(k(X), plain, rtol=0, atol=0)


def test_a_cache_needs_room():
    with pytest.raises(ValueError, match="mb > 0"):
        set_gram_cache(0)
