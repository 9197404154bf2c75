"""What a fit would do on these points, before it does it: road, memory, time, ways out.

A `Road` says how the problems of a machine would be solved; here is what that costs.

memory   what the road holds, and the arrays that its solver works with
seconds  t(n) = t(m) W(n)/W(m) (n/m)ᵍ, with t(m) measured in fits on m of the points, W
         the work that is known beforehand (kernel values, multiplications, bytes) at
         the rates of this machine, and g the growth, in these fits, of what is not
         known beforehand: steps until the end. Of SMO, W counts steps and rows

All are estimates. W is in `road_costs`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from mercer import _html
from mercer.data.partitions import Partitions
from mercer.data.points import count
from mercer.gram import Gram
from mercer.kernels.base import BLOCK_MB, Kernel
from mercer.kernels.nystrom import POOL, Nystrom
from mercer.kernels.ways import Precomputed
from mercer.maps import has_quick_map
from mercer.native import memory
from mercer.outcomes import Run
from mercer.road_costs import (
    Costs,
    Growth,
    model_of,
    native_recipe_of,
    preconditioner_of,
    rates,
    value_seconds,
)
from mercer.solvers.cholesky import Cholesky
from mercer.solvers.clusters import KernelLloyd
from mercer.solvers.computed_rows import NORMAL_MB, SHORT
from mercer.solvers.eigen import Lapack
from mercer.solvers.evidence import EvidenceAscent
from mercer.solvers.krylov import preconditioner_rank
from mercer.solvers.landmark_rows import SINGLE_MB
from mercer.solvers.newton import Newton
from mercer.solvers.normal_equations import NormalEquations
from mercer.solvers.roads import Road
from mercer.solvers.semismooth import SemismoothNewton
from mercer.solvers.single_rows import MOST_GROWTH
from mercer.solvers.smo import SINGLE_FROM, SMO

WORDS = {
    "rows": "kernel rows on demand",
    "matrix": "K in memory",
    "products": "products with K, which is never stored whole",
    "features": "on the explicit map Φ",
    "landmarks": "on the map of an approximation",
    "points": "the points alone, without kernel values",
}
LONG = 600.0  # seconds beyond which a plan looks for ways out
TRIALS = 1.0  # seconds for fits on some of the points
FIRST, LEAST = 500, 20  # points of the first of them; and at least, of few points
LANDMARKS = (2000, 500, 125)  # of the ways out
SMALLEST, SLACK = 2.4e7, 1.3  # bytes of any fit, and a factor for what is not counted
VECTORS = 400.0  # bytes of a solver's arrays, for each point
BLOCKS = 2 * BLOCK_MB * 2.0**20  # bytes of blocks of kernel values


@dataclass(frozen=True)
class WayOut:
    """A change to a machine under which its fit costs less.

    Attributes
    ----------
    change : what to write, as "kernel=Nystrom(RBF(0.1), 2000)"
    seconds : (low, high), an estimate
    memory : bytes, an estimate
    loss : of the score on points left out, estimated by a pilot; None without one
    parameters : the change, for `machine.set_params`; empty where it is one of the data

    Examples
    --------
    >>> from mercer.planning import WayOut
    >>> print(WayOut("kernel=Nystrom(RBF(0.1), 2000)", (30.0, 50.0), 0.6e9))
    kernel=Nystrom(RBF(0.1), 2000): 30 to 50 s, 0.6 GB
    """

    change: str
    seconds: tuple[float, float]
    memory: float
    loss: float | None = None
    parameters: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        text = f"{self.change}: {_span(self.seconds)}, {_bytes(self.memory)}"
        if self.loss is None:
            return text
        return f"{text}; its score is lower by about {self.loss:.3g} (an estimate)"


@dataclass(frozen=True)
class Plan:
    """What a fit would do: the road it takes, why, and what that costs.

    Attributes
    ----------
    machine, n : its class, and the number of points
    road : rows, matrix, products, features, landmarks or points
    why : the numbers that decided
    entries : kernel values to compute
    memory, available : bytes it takes beside the points, and that there are
    seconds : (low, high)
    ways_out : what would cost less, where memory is missing or time is long
    notes : what makes the estimate wider
    holds, travels : of points in partitions, what workers hold and what they are sent
        and send back; "" for points that are here

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, KernelRidge
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> plan = KernelRidge(kernel=RBF(0.1)).plan(X, X[:, 0])
    >>> plan.road, plan.fits, plan.entries
    ('matrix', True, 90000.0)
    """

    machine: str
    n: int
    road: str
    why: str
    entries: float
    memory: float
    available: float
    seconds: tuple[float, float]
    ways_out: tuple[WayOut, ...] = ()
    notes: tuple[str, ...] = ()
    holds: str = ""
    travels: str = ""

    @property
    def fits(self) -> bool:
        """Whether there is as much memory as it takes."""
        return self.memory <= self.available

    def summary(self) -> str:
        """All of it in a line."""
        return (
            f"{self.machine} on {self.n:,} points: {self.road}, about "
            f"{_span(self.seconds)}, {_bytes(self.memory)}"
        )

    def _lines(self) -> list[tuple[str, str]]:
        short = "" if self.fits else ": too little"
        lines = [
            ("road", f"{self.road}: {WORDS.get(self.road, '')}"),
            ("why", self.why),
            ("computes", f"about {self.entries:,.3g} kernel values"),
            (
                "memory",
                f"about {_bytes(self.memory)}; {_bytes(self.available)} are "
                f"available{short}",
            ),
            ("time", f"about {_span(self.seconds)}"),
        ]
        elsewhere = ("workers", self.holds), ("travels", self.travels)
        lines += [(name, text) for name, text in elsewhere if text]
        ways = enumerate(self.ways_out, start=1)
        lines += [(f"way out {i}", str(way)) for i, way in ways]
        return lines

    def __str__(self) -> str:
        lines = [f"  {name:<10} {text}" for name, text in self._lines()]
        notes = [f"  ({note})" for note in self.notes]
        return "\n".join([f"{self.machine} on {self.n:,} points", *lines, *notes])

    def _repr_html_(self) -> str:
        heading = (self.machine, f"{self.n:,} points")
        return _html.table([heading, *self._lines()], self.notes)


def _span(seconds: tuple[float, float]) -> str:
    """A range of seconds, in a unit that suits it."""
    low, high = seconds
    size, unit = next((s, u) for s, u in _UNITS if high >= 2 * s or s <= 1e-3)
    shown = [f"{value / size:.2g}" for value in (low, high)]
    shown = [f"{float(text):,.0f}" if "e" in text else text for text in shown]
    return f"{' to '.join(dict.fromkeys(shown))} {unit}"


_UNITS = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))


def _bytes(size: float) -> str:
    if not math.isfinite(size):
        return "unlimited GB"
    if size >= 1e8:
        return f"{size / 1e9:,.2g} GB" if size < 1e11 else f"{size / 1e9:,.0f} GB"
    return f"{size / 1e6:.2g} MB"


# What a fit takes


class Trial(NamedTuple):
    """A fit on some of the points."""

    n: int
    seconds: float
    iterations: int = 0
    rows: int = 0


_STEPS, _ROWS = Growth(0.3, 1.0, 1.2), Growth(0.4, 0.9, 1.3)
_SCANS = Growth(0.0, 0.8, 1.3)
_COUNTED = Growth(-0.5, 0.0, 0.2)  # of what the counts leave open
_BY_SCAN = Growth(-0.3, 0.1, 0.6)  # the same, where columns are scanned


def growth_of(sizes: Sequence[float], values: Sequence[float], known: Growth) -> float:
    """The exponent of a power law through these, near the one that is expected."""
    many = len(sizes)
    if many < 2 or min(values) <= 0:
        return known.guess
    slope = float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
    # What is expected counts as much as one more fit would.
    mixed = ((many - 1) * slope + known.guess) / many
    return float(np.clip(mixed, known.least, known.most))


class Estimate(NamedTuple):
    """What fits on some of the points say of one on n."""

    seconds: float
    spread: float  # a factor either way
    rows: float  # of K to compute


def estimated(road: Road, found: Sequence[Trial], n: int | None = None) -> Estimate:
    """The seconds of a fit on n of the points, or on all."""
    n = road.n if n is None else n
    costs = Costs(road, value_seconds(road.gram, road.single), rates())
    model, rows = model_of(road), 0.5 * n
    if not found:
        return Estimate(model.work(costs, n), 4.0, rows)
    base = 0.0
    if found[0].n <= LEAST and len(found) > 1:
        # What a fit takes however few points there are.
        least = min(trial.seconds for trial in found[1:])
        base, found = min(found[0].seconds, 0.9 * least), found[1:]
        found = [trial._replace(seconds=trial.seconds - base) for trial in found]
    last, sizes = found[-1], [trial.n for trial in found]
    ratio = n / last.n
    spread = 1.3 * ratio**0.15 if ratio > 1 else 1.3
    steps = [trial.iterations for trial in found]
    if road.name == "rows" and last.rows and last.iterations:
        counts = [trial.rows for trial in found]
        more = ratio ** growth_of(sizes, steps, _STEPS)
        rows = last.rows * ratio ** growth_of(sizes, counts, _ROWS)
        work = costs.rows(n, last.iterations * more, rows)
        works = [costs.rows(t.n, t.iterations, t.rows) for t in found]
        seconds = _scaled(found, works, work, n, _COUNTED)
        if road.n_problems > 1 and 0 < road.largest < road.n:
            # What many small problems take beside their kernel values grows less.
            share = min(1.0, works[-1] / last.seconds)
            seconds = share * seconds + (1 - share) * last.seconds * ratio**0.5
        return Estimate(base + seconds, spread, rows)
    if road.name == "matrix" and isinstance(road.solver, EvidenceAscent):
        more = ratio ** growth_of(sizes, steps, _SCANS)
        counts = [trial.rows for trial in found]
        columns = last.rows * ratio ** growth_of(sizes, counts, _ROWS)
        work = costs.evidence(n, last.iterations * more, columns)
        works = [costs.evidence(t.n, t.iterations, t.rows) for t in found]
        seconds = base + _scaled(found, works, work, n, _BY_SCAN)
        return Estimate(seconds, 2.0 * spread, rows)
    works = [model.work(costs, trial.n) for trial in found]
    if isinstance(road.gram.kernel, Nystrom):
        seconds = _of_landmarks(last, works, model.work(costs, n))
        return Estimate(base + seconds, spread, rows)
    seconds = _scaled(found, works, model.work(costs, n), n, model.growth)
    return Estimate(base + seconds, spread, rows)


def _scaled(
    found: Sequence[Trial],
    works: Sequence[float],
    work: float,
    n: int,
    known: Growth,
) -> float:
    """t(m) W(n)/W(m) (n/m)ᵍ, from the last of some fits."""
    last, sizes = found[-1], [trial.n for trial in found]
    rest = [trial.seconds / done for trial, done in zip(found, works, strict=True)]
    growth = growth_of(sizes, rest, known)
    return last.seconds * work / works[-1] * (n / last.n) ** growth


def _of_landmarks(last: Trial, works: Sequence[float], work: float) -> float:
    """W(n) (t(m)/W(m))^½: of few points more is done for each than of many."""
    return work * math.sqrt(last.seconds / works[-1])


def trials(road: Road, fit: Callable[[int], Trial | None]) -> list[Trial]:
    """Fits on growing numbers of points, for about a second; none where they fail."""
    n, spent = road.n, 0.0
    found: list[Trial] = []
    linear = road.name in ("features", "landmarks", "points")
    size, step = min(FIRST, max(LEAST, n // 4)), 4 if linear else 2
    if isinstance(road.solver, EvidenceAscent):
        size //= 2  # steps are hard to foresee: one fit more shows how they grow
    if road.single and n > 1.6 * SINGLE_FROM:
        size = SINGLE_FROM + 100  # below, kernel values are in double precision
    if road.name == "landmarks":
        size = max(size, 2 * road.columns)
    if size > LEAST and (trial := fit(LEAST)) is not None:
        found.append(trial)
    while size <= max(0.7 * n, LEAST) and size < n:
        begin = time.perf_counter()
        trial = fit(size)
        if trial is None:
            break
        spent += time.perf_counter() - begin
        found.append(trial)
        if trial.seconds * step ** (1 if linear else 2) > TRIALS - spent / 2:
            break
        size *= step
    return found


def trial_of(n: int, seconds: float, run: Run | None) -> Trial:
    """A fit on n points, with what its run counted."""
    return Trial(n, seconds, *(() if run is None else (run.iterations, run.rows)))


# Memory


def _points_bytes(gram: Gram, itemsize: float) -> float:
    """A copy of the points, as the core packs them."""
    X = gram.X
    if sp.issparse(X):
        return X.nnz * (itemsize + 4.0)
    shape = getattr(X, "shape", (count(X),))
    packed = native_recipe_of(gram) is not None
    return itemsize * float(np.prod(shape)) if packed else 0.0


def memory_of(road: Road, rows: float | None = None) -> float:
    """Bytes that a fit takes beside its points, at most: an estimate.

    Parameters
    ----------
    rows : of K that are computed, where that is known; None for all
    """
    return SMALLEST + SLACK * _memory(road, rows)


def _memory(road: Road, rows: float | None) -> float:
    n, available = float(road.n), memory.available_memory()
    around = VECTORS * n * min(road.n_problems, 8)
    if native_recipe_of(road.gram) is None and road.name != "features":
        around += min(BLOCKS, 8.0 * n * (road.columns or n))  # computed at a time
    points = _points_bytes(road.gram, road.itemsize)
    if road.name == "rows":
        kept = road.kept
        if rows is not None and road.n_problems == 1:
            kept = min(kept, rows * n * road.itemsize)
        return kept + points + around
    if road.name == "matrix":
        return _matrix_bytes(road, n, available) + around
    if road.name == "products":
        rank = preconditioner_rank(road.n, max(100, int(preconditioner_of(road, n))))
        return road.kept + 16 * n * rank + points + around
    if isinstance(road.gram.kernel, Nystrom):
        return _landmark_bytes(road) + 24.0 * min(road.columns, 4000) ** 2 + around
    if road.name in ("features", "landmarks"):
        copies = 3.0 if road.name == "landmarks" else 1.5
        return copies * road.kept + 24.0 * min(road.columns, 4000) ** 2 + around
    return points + VECTORS * n


def _landmark_bytes(road: Road) -> float:
    """k(X, L) as far as it is held, or what landmarks are chosen by."""
    n, p, kernel = float(road.n), road.columns, road.gram.kernel
    assert isinstance(kernel, Nystrom)
    chosen = 8.0 * min(n, POOL * p) * p
    points = kernel.base_points()
    short = max(getattr(points, "shape", ())[1:], default=SHORT + 1) <= SHORT
    compiled = kernel.kernel.native(points) is not None
    if not (short and compiled and kernel.growth <= MOST_GROWTH):
        return max(chosen, 1.5 * road.kept)
    values = min(4.0 * n * p, road.kept)
    if isinstance(road.solver, SemismoothNewton):
        values = min(values, SINGLE_MB * 2.0**20)
    elif isinstance(road.solver, NormalEquations):
        values = min(values, NORMAL_MB * 2.0**20)
    return max(chosen, values + min(values, NORMAL_MB * 2.0**20))


def _matrix_bytes(road: Road, n: float, available: float) -> float:
    one = 8.0 * n**2
    if isinstance(road.solver, Cholesky):
        return 2 * one if 2 * one <= available else one
    if isinstance(road.solver, Lapack | Newton):
        return 3 * one
    if isinstance(road.solver, EvidenceAscent):
        return 2 * one
    held = max(road.kept, 0.5 * one if road.single else one)
    return held if isinstance(road.solver, SMO | KernelLloyd) else 1.5 * held


def least_memory(road: Road) -> float:
    """Bytes without which a fit cannot succeed: K where it is factored, at least."""
    if not isinstance(road.solver, Cholesky | Lapack):
        return 0.0
    copies = 2.0 if isinstance(road.solver, Lapack) else 1.0
    return copies * 8.0 * road.n**2 if road.name == "matrix" else 0.0


# From a road to a plan


def entries_of(road: Road, rows: float) -> float:
    """Kernel values that are computed."""
    n, there = float(road.n), isinstance(road.gram.kernel, Precomputed)
    if there or road.gram.is_held or road.name in ("features", "points"):
        return 0.0
    if road.name == "rows":
        return rows * n
    if road.name == "landmarks":
        return n * road.columns
    if road.name == "products":
        return n**2 / 2 if road.kept else 30 * n**2 / 2
    return n**2


def why_of(road: Road) -> str:
    """The numbers that decided."""
    gram, n = road.gram, road.n
    shape: tuple[int, ...] = getattr(gram.X, "shape", ())
    columns = f" of {shape[1]:,} columns" if len(shape) == 2 else ""
    whole = _bytes(8.0 * n**2)
    solver = "" if road.solver is None else f" by {type(road.solver).__name__}"
    there = gram.is_held or isinstance(gram.kernel, Precomputed)
    if there and road.name == "matrix":
        return f"{n:,} points, whose kernel values are given{solver}"
    head = f"{n:,} points{columns}"
    tail = {
        "rows": f"; K has {whole}, rows are kept in {_bytes(road.kept)}",
        "matrix": f"; K has {whole}, which is held",
        "products": f"; K has {whole}, "
        + ("of which a half in single precision is kept" if road.kept else "not kept"),
        "features": f"; Φ has {road.columns:,} columns, {_bytes(road.kept)}",
        "landmarks": f"; the map has {road.columns:,} columns, {_bytes(road.kept)}",
        "points": "; kernel values are computed when new points are judged",
    }[road.name]
    return f"{head}{tail}{solver}"


def held_elsewhere(X: Partitions) -> str:
    """Who holds the points."""
    wide = 8.0 * max([1, *X.shape[1:]])
    sizes: dict[str, float] = {}
    for holder, (begin, end) in zip(
        X.remote.holders(), pairwise(X.remote.bounds), strict=True
    ):
        sizes[holder] = sizes.get(holder, 0.0) + wide * (end - begin)
    low, high = min(sizes.values()), max(sizes.values())
    each = _bytes(high) if low == high else f"{_bytes(low)} to {_bytes(high)}"
    what = "points" if X.ndim == 2 else "points, 8 bytes counted for each"
    return f"{len(sizes)} hold {len(X.names)} partitions: {each} of {what} each"


def travelling(road: Road) -> str:
    """What is sent between the driver and those who hold the points of a road."""
    X, n = road.gram.X, float(road.n)
    if not isinstance(X, Partitions):
        return f"{road.n:,} points come here"
    vectors = f"{_bytes(8 * n)} (a number for each point) in a product"
    if road.name == "rows":
        wide = 8.0 * max([1, *X.shape[1:]])
        return (
            f"{vectors} and at most {_bytes(wide)} for each point that moves, and once "
            "more for each support vector, to every worker; points of the working set "
            "come here"
        )
    if road.name == "points":
        return (
            f"nothing in the fit but {_bytes(8 * n)} (a number for each point) to be "
            "kept here; new points go to every partition"
        )
    if road.name in ("products", "matrix"):
        return (
            f"{vectors}, for which each partition goes to every other; points that f "
            "is a sum over come here in the end"
        )
    square = 8.0 * road.columns**2
    return (
        f"{vectors}, {_bytes(square)} ({road.columns}² numbers) up the tree in a step"
    )


def made(
    machine: str,
    road: Road,
    found: Sequence[Trial] = (),
    notes: Sequence[str] = (),
) -> Plan:
    """The plan of a road, with what fits on some of the points have shown."""
    guess = estimated(road, found)
    seconds = guess.seconds / guess.spread, guess.seconds * guess.spread
    return Plan(
        machine,
        road.n,
        road.name,
        why_of(road),
        entries_of(road, guess.rows),
        memory_of(road, guess.rows if found else None),
        memory.available_memory(),
        seconds,
        notes=tuple(notes),
    )


def needs_way_out(plan: Plan) -> bool:
    """Whether it takes more memory than there is, or more than ten minutes."""
    return not plan.fits or plan.seconds[1] > LONG


def approximations(kernel: Kernel, n: int) -> list[Nystrom]:
    """Kernels near this one with a small map, for n points; from the best one on."""
    known = has_quick_map(kernel) or isinstance(kernel, Precomputed)
    if known or kernel.psd is False:
        return []
    most = min(n // 4, memory.available_memory() / (24.0 * n))
    return [Nystrom(kernel, size) for size in LANDMARKS if size <= most]


def fewer_points(road: Road, found: Sequence[Trial]) -> WayOut | None:
    """The largest share of the points, a half or a quarter and so on, that is quick."""
    n, available = road.n // 2, memory.available_memory()
    while n > max(LEAST, *(trial.n for trial in found), 1):
        kept = road.kept * n / road.n
        if road.name not in ("features", "landmarks"):
            kept = min(memory.room_to_keep(), float(road.itemsize) * n**2)
        size = memory_of(replace(road, gram=road.gram.take(slice(n)), kept=kept))
        guess = estimated(road, found, n)
        if size <= available and guess.seconds * guess.spread <= LONG:
            seconds = guess.seconds / guess.spread, guess.seconds * guess.spread
            return WayOut(f"{n:,} of the points, drawn at random", seconds, size)
        n //= 2
    return None
