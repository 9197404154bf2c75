"""A model of fits on a cluster: what a round costs, checked on 1 to 8 workers.

    python benchmarks/cluster_model.py
    python benchmarks/cluster_model.py --points 1e9 --machines 200 --landmarks 4000

A round of a fit on landmarks sends a slice of a vector to each partition, computes
there, and adds up p × p numbers in a tree or returns a number for each point. Measured
here, on this machine: seconds for a kernel value and for a multiplication of ΦᵀDΦ on
one core; seconds of a round without work, a + b · partitions; bytes in a second, sent
by Dask through the scheduler. The model is

    round = a + b · partitions + bytes / rate + work / workers

and is set beside rounds on 1, 2, 4 and 8 workers whose work is a delay, added by hand,
as this machine has not as many cores. Then it says what more points on more machines
would take. That is an extrapolation: nobody has run it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mercer import RBF
from mercer.native.threads import set_threads

# sparse.py beside this file is not the package that Dask looks for.
sys.path = [p for p in sys.path if p != str(Path(__file__).resolve().parent)]

import dask.array as da  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402

from mercer.distributed import partitions  # noqa: E402

# Of a fit of SVC on landmarks, per point: docs/scaling.md.
VALUES_SINGLE, VALUES_DOUBLE = 10.0, 3.0  # kernel values of all points, n · m each
ROUNDS = 60  # products and sums of all points, as in fits of 6,000 points
NEAR = 30.0  # points near a kink for each landmark, whose ΦᵀDΦ is computed
FACTORS = 30  # systems of m unknowns that the driver solves


class Rates(NamedTuple):
    """What was measured on this machine."""

    value: float  # seconds for a kernel value, d = 20, one core
    multiplication: float  # seconds, of a product of matrices, one core
    start: float  # a: seconds of a round
    partition: float  # b: seconds of a round for each partition
    byte: float  # seconds for a byte to or from the driver


def best(call: Callable[[], Any], times: int = 5) -> float:
    """The least seconds of several calls, as other processes make them more."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return min(found)


def nothing(part: Any) -> int:
    return len(part)


def delayed(part: Any, seconds: float, n: int) -> np.ndarray:
    """n numbers, after a while: work of which this machine has no core to do it."""
    time.sleep(seconds)
    return np.zeros(n)


def compute_rates() -> tuple[float, float]:
    set_threads(1)
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(4000, 20)), rng.normal(size=(1000, 20))
    value = best(lambda: RBF(0.05)(X, Y)) / (4000 * 1000)
    U = rng.normal(size=(4000, 500))
    return value, best(lambda: U.T @ U) / (4000 * 500**2 / 2)


def round_of(client: Client, parts: int, rows: int = 1) -> Any:
    X = da.ones((rows * parts, 1), chunks=(rows, 1))
    return partitions(X, client).remote


def measured(client: Client) -> Rates:
    value, multiplication = compute_rates()
    few, many = round_of(client, 2), round_of(client, 32)
    short, long = (best(lambda r=r: r.each(nothing), 60) for r in (few, many))
    partition = max(long - short, 0.0) / 30
    size = 2**21  # numbers
    there = best(lambda: few.each(delayed, [(0.0, size)] * 2), 3)
    byte = max(there - short, 0.0) / (2 * 8 * size)
    return Rates(value, multiplication, short - 2 * partition, partition, byte)


def predicted(
    rates: Rates, parts: int, workers: int, work: float, sent: float
) -> float:
    """Seconds of a round; the work is that of one core, in as many parts."""
    waves = -(-parts // workers)
    own = rates.start + rates.partition * parts + sent * rates.byte
    return own + work * waves / parts


def checked(rates: Rates) -> None:
    """The model beside rounds on 1, 2, 4 and 8 workers, whose work is a delay."""
    print("workers  partitions  predicted  measured  (seconds of a round)")
    for workers in (1, 2, 4, 8):
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=":0"
            ) as made,
            Client(made) as client,
        ):
            parts, n, work = 2 * workers, 100_000, 4.0
            remote = round_of(client, parts)
            remote.each(nothing)
            arguments = [(work / parts, n)] * parts
            took = best(lambda r=remote, a=arguments: r.each(delayed, a), 3)
            guess = predicted(rates, parts, workers, work, 8.0 * n * parts)
            print(f"{workers:>7}{parts:>12}{guess:>11.3f}{took:>10.3f}", flush=True)


def extrapolated(
    rates: Rates, n: float, machines: int, cores: int, m: int, network: float
) -> None:
    """Seconds of a fit of SVC on m landmarks, n points of 20 numbers."""
    workers = machines * cores
    values = n * m * (VALUES_SINGLE / 2 + VALUES_DOUBLE) * rates.value / workers
    near = NEAR * m * m**2 / 2 * FACTORS * rates.multiplication / workers
    driver = FACTORS * m**3 / 3 * rates.multiplication
    vectors = ROUNDS * 8 * n / network
    sums = FACTORS * 8 * m**2 * np.log2(machines) / network
    rounds = ROUNDS * (rates.start + rates.partition * workers)
    print(f"{n:.3g} points, {m:,} landmarks, {machines} machines of {cores} cores:")
    for name, seconds in [
        ("kernel values", values),
        ("products of features near a kink", near),
        ("systems, on the driver", driver),
        ("vectors to and from the driver", vectors),
        ("sums up the tree", sums),
        ("rounds", rounds),
    ]:
        print(f"  {name:<34}{seconds:>10.1f} s")
    total = values + near + driver + vectors + sums + rounds
    print(f"  {'all of it':<34}{total:>10.1f} s")
    print(f"  a machine holds {n / machines * 160 / 1e9:.3g} GB of points; the driver")
    print(f"  has {15 * 8 * n / 1e9:.3g} GB of vectors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=float, default=1e8)
    parser.add_argument("--machines", type=int, default=100)
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--landmarks", type=int, default=2000)
    parser.add_argument("--network", type=float, default=1.25e9, help="bytes a second")
    options = parser.parse_args()
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as made,
        Client(made) as client,
    ):
        rates = measured(client)
    print(f"a kernel value       {1e9 * rates.value:.2f} ns (20 coordinates, one core)")
    print(f"a multiplication     {1e9 * rates.multiplication:.3f} ns")
    print(f"a round              {1e3 * rates.start:.1f} ms")
    print(f"and a partition      {1e3 * rates.partition:.2f} ms")
    print(f"to or from workers   {1e-6 / max(rates.byte, 1e-15):.0f} MB/s")
    checked(rates)
    extrapolated(
        rates,
        options.points,
        options.machines,
        options.cores,
        options.landmarks,
        options.network,
    )


if __name__ == "__main__":
    main()
