"""The queue: newer requests end older ones, every job ends, few run at a time."""

import threading
import time

import numpy as np
import pytest
from labclient import frames, make_client

from mercer.laboratory import fits, jobs
from mercer.laboratory.fields import Fields
from mercer.laboratory.frames import Answer
from mercer.laboratory.jobs import Desk, Job
from mercer.laboratory.offers import OFFERS
from mercer.laboratory.refusals import Refusal
from mercer.laboratory.state import REQUEST, read_state
from mercer.native.clock import tick

PATIENCE = 30  # seconds, in which what was begun must have ended


class Probe:
    """A job that runs until it is told to end, and says when it began and ended."""

    def __init__(self, key=None, seconds=PATIENCE, heavy=False, number=None):
        self.begun, self.ended = threading.Event(), threading.Event()
        self.free = threading.Event()
        options = {"heavy": heavy, "seconds": seconds, "number": number}
        self.job = Job(self._run, self.ended.set, key, **options)

    def _run(self, job):
        self.begun.set()
        while not self.free.wait(0.005):
            tick("waiting")
        return Answer({"done": True}, {})


@pytest.fixture
def desk():
    one = Desk(workers=2, waiting=3)
    yield one
    one.close()


def test_a_newer_request_ends_the_older_one(desk):
    older, newer = Probe(("page", "fit")), Probe(("page", "fit"))
    other = Probe(("page", "gram"))
    desk.submit(older.job)
    desk.submit(other.job)
    assert older.begun.wait(PATIENCE) and other.begun.wait(PATIENCE)
    desk.submit(newer.job)
    assert older.ended.wait(PATIENCE) and newer.begun.wait(PATIENCE)
    assert older.job.body is None and older.job.refusal is None
    assert not other.job.aborted
    newer.free.set()
    assert newer.ended.wait(PATIENCE) and newer.job.body is not None


def test_an_older_request_that_comes_later_is_refused(desk):
    newer, older = Probe(("page", "fit"), number=2), Probe(("page", "fit"), number=1)
    desk.submit(newer.job)
    assert newer.begun.wait(PATIENCE)
    for _ in range(2):  # also when the newer one has ended
        with pytest.raises(Refusal) as error:
            desk.submit(older.job)
        assert error.value.status == 409 and not newer.job.aborted
        newer.free.set()
        assert newer.ended.wait(PATIENCE)
    assert newer.job.body is not None


def test_a_waiting_request_that_was_replaced_never_begins(desk):
    running = [Probe(), Probe()]
    for one in running:
        desk.submit(one.job)
        assert one.begun.wait(PATIENCE)
    older, newer = Probe(("page", "fit")), Probe(("page", "fit"))
    desk.submit(older.job)
    desk.submit(newer.job)
    assert older.ended.wait(PATIENCE) and not older.begun.is_set()
    assert desk.ahead(newer.job) == 0


def test_a_full_queue_says_so(desk):
    probes = [Probe() for _ in range(6)]
    for one in probes[:2]:
        desk.submit(one.job)
        assert one.begun.wait(PATIENCE)
    for one in probes[2:5]:
        desk.submit(one.job)
    with pytest.raises(Refusal) as error:
        desk.submit(probes[5].job)
    assert (error.value.status, error.value.code) == (429, "busy")


def test_time_is_limited(desk):
    slow = Probe(seconds=0.05)
    desk.submit(slow.job)
    assert slow.ended.wait(PATIENCE)
    assert (slow.job.refusal.status, slow.job.refusal.code) == (408, "time")


def test_heavy_jobs_run_one_at_a_time(desk):
    first, second, light = Probe(heavy=True), Probe(heavy=True), Probe()
    for one in (first, second, light):
        desk.submit(one.job)
    assert first.begun.wait(PATIENCE) and light.begun.wait(PATIENCE)
    assert not second.begun.is_set()
    first.free.set()
    assert second.begun.wait(PATIENCE)


def test_closing_ends_all(desk):
    probes = [Probe() for _ in range(3)]
    for one in probes:
        desk.submit(one.job)
    assert probes[0].begun.wait(PATIENCE)
    desk.close()
    assert all(one.ended.wait(PATIENCE) for one in probes)
    assert not probes[2].begun.is_set()


@pytest.mark.parametrize(
    "error, status",
    [
        (ValueError("Points are bad."), 400),
        (np.linalg.LinAlgError("Singular."), 400),
        (MemoryError("K takes 9 GB."), 400),
        (TimeoutError("Late."), 408),
        (KeyError("a bug"), 500),
    ],
)
def test_errors_become_refusals(error, status, capsys):
    def fail(job):
        raise error

    job = Job(fail, lambda: None)
    job.run()
    assert job.refusal.status == status
    assert ("KeyError" in capsys.readouterr().err) == (status == 500)
    assert "bug" not in job.refusal.message


def test_warnings_of_a_job_are_told_to_it():
    def warn(job):
        jobs.warnings.warn("It is late.", stacklevel=1)
        return Answer({"warnings": job.warnings}, {})

    job = Job(warn, lambda: None)
    with jobs.warnings_to_jobs():
        job.run()
    assert b"It is late." in job.body


class Replaced(Job):
    """A job that a newer request replaces when its solver reports the second time."""

    def watch(self, progress):
        if self.reports == 1:
            self.abort()
        return super().watch(progress)


def fit_of(machine, kind=Job, **options):
    random = np.random.default_rng(0)
    points = [[x, y, i % 2] for i, (x, y) in enumerate(random.normal(size=(300, 2)))]
    asked = {"task": OFFERS[machine].tasks[0], "points": points, "grid": [4, 4]}
    asked |= {"machine": {"name": machine}, "kernel": "RBF(1)"}
    state = read_state(Fields(asked, REQUEST))
    job = kind(lambda job: fits.fit(state, job), lambda: None, **options)
    job.run()
    return job


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "machine", ["SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "SVDD", "KernelKMeans"]
)
def test_a_replaced_fit_ends_at_the_next_report_of_its_solver(machine):
    job = fit_of(machine, Replaced)
    assert job.reports == 2 and job.body is None and job.refusal is None


@pytest.mark.filterwarnings("ignore")
def test_a_fit_out_of_time_is_refused():
    job = fit_of("SVC", seconds=1e-9)
    assert job.body is None and job.refusal.status == 408


def slow_state(C):
    random = np.random.default_rng(0)
    points = [[x, y, i % 2] for i, (x, y) in enumerate(random.normal(size=(1500, 2)))]
    machine = {"name": "SVC", "params": {"C": C}}
    return {
        "task": "classify", "points": points, "machine": machine,
        "kernel": "RBF(1) + Polynomial(9)", "client": "page", "grid": [4, 4],
    }  # fmt: skip


def test_a_fit_under_way_reports_and_is_replaced(client, laboratory):
    seen = []

    def ask():
        with make_client(laboratory[0]) as one:
            asked = one.stream("POST", "/api/fit", json=slow_state(1e6))
            with asked as response:
                content = b"".join(response.iter_bytes())
                seen.append((response.status_code, content))

    thread = threading.Thread(target=ask)
    thread.start()
    desk = laboratory[1].config.app.state.desk
    end = time.monotonic() + PATIENCE
    while not desk.running and time.monotonic() < end:
        time.sleep(0.005)
    newer = slow_state(1.0) | {"points": [[0, 0, 0], [1, 1, 1]], "kernel": "RBF(1)"}
    found = client.post("/api/fit", json=newer)
    assert found.status_code == 200
    thread.join(PATIENCE)
    status, content = seen[0]
    if status == 200:  # it had begun to answer
        events = [head["event"] for head, _ in frames(content)]
        assert events[-1] == "aborted" and set(events[:-1]) == {"progress"}
    else:
        assert status == 409
