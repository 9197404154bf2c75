"""Callbacks of a fit: what they are given, and how they stop it."""

import re
import threading
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from mercer.kernels.dotproduct import Sigmoid
from mercer.machines import progress
from mercer.machines.svm import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM
from mercer.outcomes import Progress
from mercer.solvers.smo import SMO

rng = np.random.default_rng(3)
X = rng.normal(size=(400, 3))
THREE = np.array(["a", "b", "c"])[np.digitize(X[:, 0] * X[:, 1], [-0.4, 0.4])]
TARGET = np.sin(2 * X[:, 0]) + X[:, 1]
ROUNDS = SMO(working_set=16)  # small sets make many rounds

MACHINES = [
    pytest.param(SVC(), THREE == "b", id="SVC"),
    pytest.param(NuSVC(nu=0.3), THREE == "b", id="NuSVC"),
    pytest.param(SVR(), TARGET, id="SVR"),
    pytest.param(NuSVR(nu=0.2), TARGET, id="NuSVR"),
    pytest.param(OneClassSVM(nu=0.2), None, id="OneClassSVM"),
    pytest.param(SVDD(nu=0.2), None, id="SVDD"),
]


class Recorder:
    """A callback of scikit-learn's that keeps what it is given."""

    def __init__(self, stop_at=None):
        self.stop_at, self.seen = stop_at, []

    def setup(self, estimator, context):
        self.seen.append(("setup", "", None))

    def on_fit_task_begin(self, estimator, context, *, metadata=None):
        self.seen.append(("begin", context.task_name, metadata))

    def on_fit_task_end(self, estimator, context, *, metadata=None):
        self.seen.append(("end", context.task_name, metadata))
        return context.task_name == self.stop_at

    def teardown(self, estimator, context):
        self.seen.append(("teardown", "", None))

    def names(self, event):
        return [name for what, name, _ in self.seen if what == event]


class Propagated(Recorder):
    max_propagation_depth = None


# Lines


def lines(capsys):
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("machine, y", MACHINES)
def test_last_line_says_how_the_fit_ended(machine, y, capsys):
    machine = clone(machine).set_params(verbose=True).fit(X, y)
    last = lines(capsys)[-1]
    assert last.startswith(f"[{type(machine).__name__}] iteration")
    found = re.search(
        r"iteration +(\d+) +gap (\S+) +(\d+) support vectors +violation (\S+) +\S+ s$",
        last,
    )
    assert int(found[1]) == machine.n_iter_
    assert_allclose(float(found[2]), machine.certificate_.gap, rtol=0.1, atol=1e-4)
    assert_allclose(float(found[4]), machine.certificate_.violation, rtol=0.01)


def test_every_problem_has_its_last_line_however_quick(capsys, monkeypatch):
    monkeypatch.setattr(progress, "PAUSE", 1e9)
    SVC(verbose=True).fit(X, THREE)
    starts = [line.split("]")[0] for line in lines(capsys)]
    names = [f"[SVC {pair}" for pair in ("a against b", "a against c", "b against c")]
    assert starts == [names[0], *names]


def test_problems_of_other_kinds_are_named_too(capsys, monkeypatch):
    monkeypatch.setattr(progress, "PAUSE", 1e9)
    SVC(verbose=True, multiclass="ovr").fit(X, THREE)
    SVR(verbose=True).fit(X, np.column_stack([TARGET, X[:, 2]]))
    SVC(verbose=True, probability=True, random_state=0).fit(X, THREE == "a")
    text = "\n".join(lines(capsys))
    for name in ("SVC c against the rest", "SVR output 1", "SVC fold 5"):
        assert f"[{name}] " in text


def test_lines_are_about_ten_a_second(capsys, monkeypatch):
    rounds = []
    # A clock that a round takes 0.03 s of: every fourth has a line, and the last one.
    clock = SimpleNamespace(monotonic=lambda: 100 + 0.03 * len(rounds))
    monkeypatch.setattr(progress, "time", clock)
    machine = SVC(C=100, verbose=True, solver=SMO(tol=1e-4, working_set=4))
    machine.set_params(callback=rounds.append).fit(X, THREE == "b")
    assert len(rounds) > 20
    last = len(rounds) - 1
    printed = sorted({*range(0, last, 4), last})
    assert lines(capsys) == [f"[SVC] {rounds[number].line()}" for number in printed]


def test_lines_of_an_indefinite_kernel_claim_no_gap(capsys):
    SVC(kernel=Sigmoid(0.1, 0.0), verbose=True).fit(X, THREE == "b")
    said = lines(capsys)
    assert said and all("gap nan" in line for line in said)


# A function


@pytest.mark.parametrize("machine, y", MACHINES)
def test_function_sees_every_round_and_changes_nothing(machine, y):
    seen = []
    alone = clone(machine).set_params(solver=ROUNDS).fit(X, y)
    watched = clone(alone).set_params(callback=seen.append).fit(X, y)
    assert all(isinstance(progress, Progress) for progress in seen)
    assert [progress.round for progress in seen] == list(range(len(seen)))
    assert len(seen) > 2
    assert all(a.iterations < b.iterations for a, b in pairwise(seen))
    assert all(a.objective >= b.objective - 1e-9 for a, b in pairwise(seen))
    assert seen[-1].iterations == watched.n_iter_
    assert seen[-1].violation < ROUNDS.tol < seen[0].violation
    assert seen[-1].gap < seen[0].gap
    assert_array_equal(watched.expansion_.coef, alone.expansion_.coef)


@looped("machine, y", MACHINES[:1])
def test_code_without_a_name_is_warned(machine, y):
    machine = clone(machine).set_params(solver=SMO(max_iter=1))
    with pytest.warns(ConvergenceWarning) as said:
        exec(
            compile("machine.fit(X, y)", "<page>", "exec"),
            dict(machine=machine, X=X, y=y),
        )
    assert said[0].filename == "<page>"


@looped("machine, y", MACHINES)
def test_function_that_returns_true_stops_the_fit(machine, y):
    machine = clone(machine).set_params(
        solver=ROUNDS, callback=lambda progress: progress.round == 1
    )
    with pytest.warns(ConvergenceWarning, match=r"'stopped'.*gap \d") as said:
        machine.fit(X, y)
    assert said[0].filename == __file__
    assert machine.certificate_.status == "stopped"
    assert machine.certificate_.gap > 0
    assert machine.fit_status_ == 1
    certificate = machine.certify(X, *([] if y is None else [y]))
    assert_allclose(certificate.dual, machine.certificate_.dual, rtol=1e-5)


def test_function_that_stops_at_the_solution_leaves_nothing_to_warn_of():
    def enough(progress):
        return progress.violation < 1e-3

    machine = SVC(callback=enough, solver=ROUNDS).fit(X, THREE == "b")
    assert machine.certificate_.status == "optimal"
    machine = SVC(callback=enough).fit(X[:100], THREE[:100] == "b")
    assert machine.certificate_.status == "optimal"


def test_problems_after_a_stop_are_not_begun():
    def stops(progress):
        return progress.problem == "a against c"

    with pytest.warns(ConvergenceWarning, match="'stopped'"):
        machine = SVC(callback=stops).fit(X, THREE)
    first, *others = machine.certificate_.parts
    assert first.status == "optimal"
    assert [part.status for part in others] == ["stopped", "stopped"]
    assert [part.run.iterations for part in others] == [0, 0]


def test_counts_go_on_where_a_problem_takes_several_calls_of_the_solver():
    seen = []
    hard = SVC(C=np.inf, gamma=5.0, callback=seen.append).fit(X, X[:, 0] > 0)
    iterations = [progress.iterations for progress in seen]
    assert iterations == sorted(iterations)
    assert iterations[-1] == hard.n_iter_[0]
    assert [progress.round for progress in seen].count(0) > 1


def test_problems_under_watch_are_solved_in_turn_by_the_thread_that_fits():
    seen, here = [], threading.get_ident()
    watch = lambda progress: seen.append((progress.problem, threading.get_ident()))  # noqa: E731
    SVC(callback=watch).fit(X, THREE)
    assert {thread for _, thread in seen} == {here}
    names = [name for name, _ in seen]
    assert names == sorted(names) and len(set(names)) == 3


def test_function_is_a_parameter_like_others():
    machine = SVC(callback=print)
    assert clone(machine).get_params()["callback"] is print
    assert "callback" not in repr(SVC())
    with pytest.raises(ValueError, match="'callback' parameter of SVC must be"):
        SVC(callback=3).fit(X, THREE)


def test_exception_of_a_function_comes_through_and_leaves_the_last_fit():
    machine = SVC().fit(X, THREE)
    before = machine.decision_function(X)

    def fails(progress):
        raise RuntimeError("seen enough")

    with pytest.raises(RuntimeError, match="seen enough"):
        machine.set_params(callback=fails).fit(X, THREE == "a")
    assert_array_equal(machine.decision_function(X), before)
    machine.set_params(callback=None).fit(X, THREE)


# scikit-learn's callbacks


@looped("machine, y", MACHINES)
def test_callbacks_see_the_fit_its_problem_and_its_rounds(machine, y):
    recorder = Recorder()
    machine = clone(machine).set_params(solver=ROUNDS)
    assert machine.set_callbacks(recorder) is machine
    machine.fit(X, y)
    assert recorder.seen[0][0] == "setup" and recorder.seen[-1][0] == "teardown"
    begun = recorder.names("begin")
    assert begun[:2] == ["fit", "solve"]
    assert set(begun[2:]) == {"round"} and len(begun) > 4
    assert recorder.names("end") == [*begun[2:], "solve", "fit"]
    rounds = [shown for what, name, shown in recorder.seen if name == "round"]
    assert all(set(shown) == set(Progress._fields) for shown in rounds)
    assert rounds[-1]["iterations"] == machine.n_iter_
    assert_allclose(rounds[-1]["violation"], machine.certificate_.violation)


def test_callbacks_see_the_problems_by_name_and_those_of_the_folds():
    recorder = Recorder()
    machine = SVC(probability=True, random_state=0).set_callbacks(recorder)
    machine.fit(X, THREE)
    solves = [name for name in recorder.names("end") if name.startswith("solve")]
    assert solves[:3] == [f"solve {pair}" for pair in
                          ("a against b", "a against c", "b against c")]  # fmt: skip
    assert solves[-1] == "solve b against c, fold 5"
    assert len(solves) == 18


def test_end_of_a_round_stops_that_problem_only():
    machine = SVC(solver=ROUNDS).set_callbacks(Recorder(stop_at="round"))
    with pytest.warns(ConvergenceWarning, match="'stopped'"):
        machine.fit(X, THREE)
    assert [part.status for part in machine.certificate_.parts] == ["stopped"] * 3
    assert all(machine.n_iter_ > 0)


def test_end_of_a_problem_stops_those_after_it():
    machine = SVC().set_callbacks(Recorder(stop_at="solve a against b"))
    with pytest.warns(ConvergenceWarning, match="'stopped'"):
        machine.fit(X, THREE)
    statuses = [part.status for part in machine.certificate_.parts]
    assert statuses == ["optimal", "stopped", "stopped"]


def test_callbacks_of_a_search_reach_its_machines():
    recorder = Propagated()
    search = GridSearchCV(SVC(), {"C": [1.0, 2.0]}, cv=2).set_callbacks(recorder)
    search.fit(X, THREE == "b")
    assert recorder.names("end").count("solve") == 5
    assert recorder.names("setup") == recorder.names("teardown") == [""]
    search.best_estimator_.fit(X, THREE == "b")
    assert recorder.names("end").count("solve") == 5


def test_progress_bars_are_drawn(capsys):
    SVC().set_callbacks(ProgressBar()).fit(X, THREE)
    text = capsys.readouterr().out
    assert "SVC - fit" in text and "solve b against c" in text and "100%" in text


@pytest.mark.parametrize("weight", [None, np.linspace(0.1, 2, 400)], ids=["", "weight"])
def test_scores_of_the_whole_fit_are_monitored(weight):
    monitor = ScoringMonitor(scoring="accuracy")
    machine = SVC().set_callbacks(monitor).fit(X, THREE, weight)
    log = monitor.get_logs()
    text = str(log.data if hasattr(log, "data") else log)
    assert f"{machine.score(X, THREE, weight):.6f}"[:6] in text


def test_machine_without_anybody_looking_on_keeps_nothing_of_it():
    machine = SVC().set_callbacks(Recorder()).fit(X, THREE)
    assert not {"_watcher", "_callback_fit_ctx"} & vars(machine).keys()
    machine.set_callbacks()
    assert "_skl_callbacks" not in vars(machine)
