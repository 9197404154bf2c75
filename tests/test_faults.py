"""Clusters that lose workers: the fit ends with the optimum, or with a clear error."""

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from sklearn.base import clone

from mercer import RBF, SVC, KernelLogisticRegression, KernelRidge, Nystrom

dask = pytest.importorskip("dask", reason="the extra dask is not installed")
pytest.importorskip("distributed", reason="the extra dask is not installed")
da = pytest.importorskip("dask.array")

from clusters import Cluster, workers_of  # noqa: E402
from distributed import Client  # noqa: E402

from mercer import distributed  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("default"),  # what Dask warns of is not ours
    pytest.mark.skipif(os.name != "posix", reason="processes are ended by signals"),
]

LONGEST = 60.0  # seconds until an error has to come
MACHINES = {
    "svc": (SVC(kernel=RBF(0.2)), "side"),
    "svc of landmarks": (SVC(kernel=Nystrom(RBF(0.2), 60)), "side"),
    "ridge": (KernelRidge(kernel=Nystrom(RBF(0.2), 60)), "target"),
    "logistic": (KernelLogisticRegression(kernel=Nystrom(RBF(0.2), 60)), "side"),
}


def points(n=6000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    return X, {"side": np.where(f > 0, 1, -1), "target": f}


@pytest.fixture(scope="module")
def optima():
    X, y = points()
    return {
        name: clone(machine).fit(X, y[what]).certificate_.dual
        for name, (machine, what) in MACHINES.items()
    }


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    """A cluster of many tests, whose nannies start workers again."""
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    with Client(made.address(), timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
        yield made, client
    made.close()


def fit(client, name, X, y):
    machine, what = MACHINES[name]
    with client.as_current():
        return clone(machine).fit(X, y[what])


def end_at_wait(monkeypatch, number, action):
    """Do something while the results of this number are waited for."""
    waits = iter(range(10**9))
    watch = distributed._Watch.__call__

    def watched(self, tasks):
        if next(waits) == number:
            action()
        watch(self, tasks)

    monkeypatch.setattr(distributed._Watch, "__call__", watched)


def killed(pids, which):
    pid = sorted(pids)[which % len(pids)]
    return lambda: os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("number, name", list(enumerate(MACHINES)))
def test_a_worker_that_is_killed_costs_time_and_not_the_result(
    lasting, monkeypatch, optima, number, name
):
    _, client = lasting
    X, y = points()
    dX = client.persist(da.from_array(X, chunks=(1700, 5)))
    client.wait_for_workers(2, timeout=60)
    action = killed(workers_of(client), number)
    end_at_wait(monkeypatch, random.Random(number).randrange(2, 12), action)
    machine = fit(client, name, dX, y)
    assert machine.run_.status == "optimal"
    assert machine.certificate_.dual == pytest.approx(optima[name], rel=1e-6)


@pytest.mark.parametrize("number", [3, 7])
def test_kernel_values_that_are_lost_are_computed_anew(lasting, monkeypatch, number):
    _, client = lasting
    rng = np.random.default_rng(0)
    X = np.where(rng.random((6000, 100)) < 0.2, rng.random((6000, 100)), 0.0)
    y = np.where(X[:, :30].sum(axis=1) + 0.3 * rng.normal(size=6000) > 3, 1, -1)
    here = SVC(kernel=RBF(0.1)).fit(X, y).certificate_
    dX = client.persist(da.from_array(X, chunks=(1700, 100)))
    client.wait_for_workers(2, timeout=60)
    end_at_wait(monkeypatch, number, killed(workers_of(client), number))
    with client.as_current():
        there = SVC(kernel=RBF(0.1)).fit(dX, y).certificate_
    assert there.run.status == "optimal"
    assert there.dual <= here.primal and here.dual <= there.primal


def test_a_worker_that_is_killed_does_not_change_predictions(lasting):
    _, client = lasting
    X, y = points()
    machine = SVC(kernel=RBF(0.2)).fit(X, y["side"])
    dX = client.persist(da.from_array(X, chunks=(600, 5)))
    client.wait_for_workers(2, timeout=60)
    future = client.compute(machine.predict(dX))
    killed(workers_of(client), 0)()
    np.testing.assert_array_equal(future.result(timeout=120), machine.predict(X))


# The rest: make test-cluster


@pytest.mark.cluster
def test_without_workers_there_is_an_error_and_not_a_hang(cluster, monkeypatch):
    monkeypatch.setattr(distributed, "PATIENCE", 2.0)
    monkeypatch.setattr(distributed, "ASK", 0.5)
    X, y = points(600)
    with Client(cluster.address(), timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
        dX = client.persist(da.from_array(X, chunks=(300, 5)))

        def leave():
            for process in cluster.processes[1:]:
                os.killpg(process.pid, signal.SIGKILL)

        end_at_wait(monkeypatch, 4, leave)
        with pytest.raises(distributed.ClusterError, match="no worker"):
            fit(client, "svc", dX, y)


@pytest.mark.cluster
def test_points_that_were_scattered_are_lost_with_an_error(cluster):
    X, y = points(600)
    with Client(cluster.address(), timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
        futures = client.scatter([X[:300], X[300:]])
        parts = [da.from_delayed(f, (300, 5), float) for f in futures]
        dX = da.concatenate(parts)
        for pid in workers_of(client):
            os.kill(pid, signal.SIGKILL)
        begin = time.monotonic()
        with pytest.raises(distributed.ClusterError, match="scattered"):
            fit(client, "svc", dX, y)
        assert time.monotonic() - begin < 2 * LONGEST


@pytest.mark.cluster
@pytest.mark.parametrize("number", range(50))
def test_workers_may_be_killed_at_any_moment(lasting, optima, number):
    _, client = lasting
    draw = random.Random(1000 + number)
    name = list(MACHINES)[number % len(MACHINES)]
    X, y = points()
    client.wait_for_workers(2, timeout=60)
    dX = client.persist(da.from_array(X, chunks=(draw.choice([900, 2500, 6000]), 5)))
    moments = sorted(draw.uniform(0, 4) for _ in range(draw.choice([1, 1, 2])))

    def kill():
        begin = time.monotonic()
        for moment in moments:
            time.sleep(max(0.0, begin + moment - time.monotonic()))
            try:
                killed(workers_of(client), draw.randrange(2))()
            except (OSError, ProcessLookupError, IndexError, ZeroDivisionError):
                pass  # it has just ended

    thread = threading.Thread(target=kill)
    begin = time.monotonic()
    thread.start()
    try:
        machine = fit(client, name, dX, y)
        assert machine.certificate_.dual == pytest.approx(optima[name], rel=1e-6)
    except distributed.ClusterError:
        assert time.monotonic() - begin < LONGEST
    finally:
        thread.join()


@pytest.mark.cluster
@pytest.mark.parametrize("name", MACHINES)
def test_a_scheduler_that_pauses_is_waited_for(lasting, monkeypatch, optima, name):
    cluster, client = lasting
    X, y = points()
    client.wait_for_workers(2, timeout=60)
    dX = client.persist(da.from_array(X, chunks=(1700, 5)))
    pause = threading.Thread(target=cluster.pause, args=(10.0,))
    end_at_wait(monkeypatch, 5, pause.start)
    machine = fit(client, name, dX, y)
    pause.join()
    assert machine.certificate_.dual == pytest.approx(optima[name], rel=1e-6)


@pytest.mark.cluster
def test_a_worker_that_joins_is_used(cluster, monkeypatch, optima):
    X, y = points()
    with Client(cluster.address(), timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
        dX = client.persist(da.from_array(X, chunks=(500, 5)))
        end_at_wait(monkeypatch, 3, cluster.add)
        machine = fit(client, "svc", dX, y)
        client.wait_for_workers(3, timeout=60)
    assert machine.certificate_.dual == pytest.approx(optima["svc"], rel=1e-6)


@pytest.mark.cluster
def test_a_scheduler_that_is_gone_is_an_error(cluster, monkeypatch):
    X, y = points(600)
    with Client(cluster.address(), timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
        dX = client.persist(da.from_array(X, chunks=(300, 5)))
        end_at_wait(monkeypatch, 4, cluster.scheduler.kill)
        begin = time.monotonic()
        with pytest.raises((distributed.ClusterError, OSError)):
            fit(client, "svc", dX, y)
        assert time.monotonic() - begin < LONGEST


# A driver that says when its fit is under way, how it ended, and what it left behind.
DRIVER = """
import gc, sys, time
import dask.array as da
import numpy as np
from distributed import Client
from mercer import RBF, SVC, Nystrom

def ours(dask_scheduler):
    return [str(key) for key in dask_scheduler.tasks if "mercer" in str(key)]

kernel = {"any kernel": RBF(0.5), "landmarks": Nystrom(RBF(0.5), 200)}[sys.argv[2]]
rng = np.random.default_rng(0)
X, y = rng.normal(size=(10000, 8)), rng.choice([-1, 1], size=10000)
with Client(sys.argv[1], timeout=60) as client:
    dX = client.persist(da.from_array(X, chunks=(3000, 8)))
    said = []

    def report(progress):
        if not said:
            said.append(print("under way", flush=True))

    try:
        SVC(kernel=kernel, tol=1e-9, callback=report).fit(dX, y)
        print("no interrupt")
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    for _ in range(100):
        gc.collect()
        left = client.run_on_scheduler(ours)
        if not left:
            break
        time.sleep(0.1)
    print("left", left, flush=True)
"""


@pytest.mark.cluster
@pytest.mark.parametrize("kernel", ["any kernel", "landmarks"])
def test_an_interrupt_of_the_driver_ends_the_fit_and_leaves_no_task(lasting, kernel):
    cluster, client = lasting
    client.wait_for_workers(2, timeout=60)
    gc.collect()  # what fits of this process left is none of the driver's
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, cluster.address(), kernel],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    with driver:
        assert driver.stdout.readline() == "under way\n"
        driver.send_signal(signal.SIGINT)
        begin = time.monotonic()
        assert driver.stdout.readline() == "interrupted\n"
        assert time.monotonic() - begin < LONGEST
        assert driver.stdout.readline() == "left []\n"


def _filled(part):
    """Points of a partition that has no room on its worker."""
    held = [np.ones(2**25) for _ in range(16)]  # 4 GB
    return part + held[0][0] * 0


@pytest.mark.cluster
def test_a_worker_without_memory_is_an_error(tmp_path):
    cluster = Cluster(tmp_path, memory="600MB")
    try:
        X, y = points(600)
        with Client(cluster.address(), timeout=60) as client:
            client.wait_for_workers(2, timeout=60)
            dX = da.from_array(X, chunks=(300, 5)).map_blocks(_filled, dtype=float)
            begin = time.monotonic()
            with pytest.raises(distributed.ClusterError, match="memory"):
                fit(client, "svc", dX, y)
            assert time.monotonic() - begin < LONGEST
    finally:
        cluster.close()
