"""`mercer bench`: this library against its installed peers, on this computer.

Processor time of a fit and of predictions, the middle one of several, all on the same
data with the same parameters; and whether they say the same.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn import kernel_ridge, svm
from sklearn.base import is_classifier
from sklearn.datasets import load_digits, make_classification

from mercer.cli.live import Console, table
from mercer.cli.settings import dataset_of, machine_of, needs_target
from mercer.data.points import count
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear, has_widths
from mercer.machines.ridge import KernelRidge
from mercer.machines.svm import SVC, SVR

TIMES = 3  # fits, of which the middle one counts
_SIZES = (500, 1000, 2000, 4000, 8000)  # points of what is made up


class Job(NamedTuple):
    """One comparison: what it is called, our machine, its peers by name, and data."""

    name: str
    ours: Any
    peers: dict[str, Any]
    X: Any
    y: np.ndarray


class Row(NamedTuple):
    """What came out of a comparison with one peer."""

    job: str
    points: int
    peer: str
    ours: float  # seconds
    theirs: float
    agreement: float


def run(options: argparse.Namespace) -> int:
    """Compare, for about as long as was asked for."""
    console = Console(options)
    console.rows([("comparing", "processor seconds of fit and predict")])
    end = time.monotonic() + options.time
    rows: list[Row] = []
    longest = 0.0
    for job in _own(options) if options.data else _jobs():
        if rows and time.monotonic() + longest > end:
            break
        begin = time.monotonic()
        found = list(_compared(job))
        longest = max(longest, 2 * (time.monotonic() - begin))
        rows += found
        for row in found:
            console.rows([(row.job, _text(row))])
    lines = table(
        [
            ["", "points", "peer", "ours s", "peer s", "ratio", "agree"],
            *([r.job, f"{r.points:,}", r.peer, f"{r.ours:.3f}", f"{r.theirs:.3f}",
               f"{r.theirs / r.ours:.2f}", f"{r.agreement:.4f}"] for r in rows),
        ],
        (1, 3, 4, 5, 6),
    )  # fmt: skip
    console.line()
    for line in lines:
        console.line(line)
    console.tell(rows=[r._asdict() | {"ratio": r.theirs / r.ours} for r in rows])
    console.end()
    return 0


def _text(row: Row) -> str:
    return (
        f"{row.points:,} points: {row.ours:.3g} s, {row.peer} {row.theirs:.3g} s "
        f"({row.theirs / row.ours:.2f} times ours)"
    )


def _jobs() -> Iterator[Job]:
    X, y = load_digits(return_X_y=True)
    X = X / 16
    gamma = 0.02
    yield Job(
        "digits SVC",
        SVC(kernel=RBF(gamma), C=10),
        {"scikit-learn": svm.SVC(gamma=gamma, C=10)},
        X,
        y,
    )
    yield Job(
        "digits ridge",
        KernelRidge(kernel=RBF(gamma), alpha=0.1),
        {
            "scikit-learn": kernel_ridge.KernelRidge(
                kernel="rbf", gamma=gamma, alpha=0.1
            )
        },
        X,
        y.astype(float),
    )
    for n in _SIZES:
        X, y = make_classification(n, 20, n_informative=10, random_state=0)
        g = 0.05
        yield Job("SVC", SVC(kernel=RBF(g)), {"scikit-learn": svm.SVC(gamma=g)}, X, y)
        yield Job(
            "SVR",
            SVR(kernel=RBF(g)),
            {"scikit-learn": svm.SVR(gamma=g)},
            X,
            X[:, 0] * X[:, 1],
        )
        yield Job(
            "linear SVC",
            SVC(kernel=Linear()),
            {"scikit-learn": svm.SVC(kernel="linear")},
            X,
            y,
        )


def _own(options: argparse.Namespace) -> Iterator[Job]:
    """The machine of the command line against scikit-learn's of the same name."""
    data = dataset_of(options.data, options)
    y = needs_target(data, options.data)
    ours = machine_of(options, data)
    theirs = {**vars(svm), **vars(kernel_ridge)}.get(type(ours).__name__)
    if theirs is None or data.kind != "numbers":
        raise ValueError(
            f"No peer is installed that compares with {type(ours).__name__} on "
            f"{data.kind}. SVC, NuSVC, SVR, NuSVR and KernelRidge on numbers have one."
        )
    X = np.asarray(data.points, dtype=float)
    kernel = ours.kernel
    if isinstance(kernel, str):
        raise ValueError("Name the kernel as an object, as --kernel 'RBF(0.1)'.")
    kernel = kernel.resolve(X)
    ours = ours.set_params(kernel=kernel)
    peer = theirs()
    known = peer.get_params(deep=False)
    same = {k: v for k, v in ours.get_params(deep=False).items() if k in known}
    same.pop("kernel")
    peer.set_params(**{k: v for k, v in same.items() if k != "cache_size"})
    peer.set_params(kernel=lambda a, b: kernel(np.atleast_2d(a), np.atleast_2d(b)))
    if isinstance(kernel, RBF) and not has_widths(kernel.gamma):
        peer.set_params(kernel="rbf", gamma=kernel.gamma)
    elif isinstance(kernel, Linear):
        peer.set_params(kernel="linear")
    elif isinstance(ours, KernelRidge):
        raise ValueError("KernelRidge has a peer with the kernels RBF and Linear.")
    yield Job(type(ours).__name__, ours, {"scikit-learn": peer}, X, y)


def _compared(job: Job) -> Iterator[Row]:
    ours, said = _timed(job.ours, job)
    for name, peer in job.peers.items():
        theirs, other = _timed(peer, job)
        if is_classifier(job.ours):
            agreement = float(np.mean(said == other))
        else:
            agreement = float(np.corrcoef(said, other)[0, 1])
        yield Row(job.name, count(job.X), name, ours, theirs, agreement)


def _timed(machine: Any, job: Job) -> tuple[float, np.ndarray]:
    """The middle time of fit and predict, and what was predicted."""

    def once() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return machine.fit(job.X, job.y).predict(job.X)

    return statistics.median(_seconds(once) for _ in range(TIMES)), once()


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.process_time()
    call()
    return max(time.process_time() - begin, 1e-9)
