"""Two workers of one thread each beside one process of two threads, on the same points.

    python benchmarks/cluster.py            smaller problems, a minute or two
    python benchmarks/cluster.py --full     MNIST, skin_nonskin, 2,000,000 points

Points are in the memory of the workers beforehand. Seconds are those of one fit, by the
wall clock and then by the processors of all processes; bytes are those of the loopback
device while it lasted, in which everything travels that goes from one process to
another.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from mercer import RBF, SVC, KernelRidge, Nystrom
from mercer.native.threads import set_threads

# sparse.py beside this file is not the package that Dask looks for.
sys.path = [p for p in sys.path if p != str(Path(__file__).resolve().parent)]

import dask.array as da  # noqa: E402
from distributed import Client, LocalCluster, wait  # noqa: E402

DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[2] / "shared" / "data"
)


class Row(NamedTuple):
    """A problem: its name, the machine, the points and their targets."""

    name: str
    machine: Any
    X: np.ndarray
    y: np.ndarray


def synthetic(n: int, d: int = 20, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points of two classes that overlap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    f = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 2 + X[:, 3] / 2
    return X, np.where(f + 0.5 * rng.normal(size=n) > 0, 1, -1)


def quick() -> Iterator[Row]:
    X, y = synthetic(20_000)
    yield Row("exact, 20,000 × 20", SVC(kernel=RBF(0.05)), X, y)
    X, y = synthetic(200_000)
    yield Row("SVC, 500 landmarks", SVC(kernel=Nystrom(RBF(0.05), 500)), X, y)
    ridge = KernelRidge(kernel=Nystrom(RBF(0.05), 500))
    yield Row("ridge, 500 landmarks", ridge, X, y.astype(float))


def full() -> Iterator[Row]:
    known = np.load(DATA / "mnist.npz")
    X, y = known["X_train"].reshape(60_000, -1) / 255.0, known["y_train"] % 2
    yield Row("MNIST, even or odd, exact", SVC(kernel=RBF(0.02), C=10), X, y)
    known = np.load(DATA / "skin_nonskin.npz")
    X = known["X"].astype(float) / 255.0
    yield Row("skin_nonskin, exact", SVC(kernel=RBF(10.0)), X, known["y"])
    X, y = synthetic(2_000_000)
    yield Row("2,000,000 × 20", SVC(kernel=Nystrom(RBF(0.05), 2000)), X, y)


def travelled() -> int:
    """Bytes that the loopback device has received."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[0])
    return 0


class Spent(NamedTuple):
    """Seconds by the clock, those of all processors, and what came of it."""

    wall: float
    processors: float
    found: Any


def timed(call: Callable[[], Any], client: Client) -> Spent:
    def processors() -> float:
        return time.process_time() + sum(client.run(time.process_time).values())

    begin, before = time.perf_counter(), processors()
    found = call()
    return Spent(time.perf_counter() - begin, processors() - before, found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", default="", help="problems with this in their name")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    head = "problem", "here", "cluster", "ratio", "CPU", "CPU", "MB sent", "difference"
    print("{:<28}{:>9}{:>9}{:>7}{:>9}{:>9}{:>10}{:>12}".format(*head))
    with (
        LocalCluster(
            n_workers=options.workers,
            threads_per_worker=1,
            dashboard_address=":0",
        ) as cluster,
        Client(cluster) as client,
    ):
        for row in full() if options.full else quick():
            if options.only in row.name:
                report(client, row, options.workers)


def report(client: Client, row: Row, workers: int) -> None:
    set_threads(2)
    here = timed(lambda: clone(row.machine).fit(row.X, row.y), client)
    chunk = -(-len(row.X) // (2 * workers))
    dX = client.persist(da.from_array(row.X, chunks=(chunk, row.X.shape[1])))
    wait(dX)
    some = dX[:: len(row.X) // 400]  # of all workers, which load their modules
    SVC(kernel=RBF(0.1)).fit(some, np.arange(len(some)) % 2)
    before = travelled()
    there = timed(lambda: clone(row.machine).fit(dX, row.y), client)
    sent = (travelled() - before) / 1e6
    a, b = here.found.certificate_.dual, there.found.certificate_.dual
    print(
        f"{row.name:<28}{here.wall:>9.2f}{there.wall:>9.2f}"
        f"{there.wall / here.wall:>7.2f}{here.processors:>9.2f}"
        f"{there.processors:>9.2f}{sent:>10.1f}{abs(a - b) / abs(a):>12.1e}",
        flush=True,
    )


if __name__ == "__main__":
    main()
