"""Problems of two classes each, for many pairs of classes at once.

`PairProblems` is a sequence of ordinary `BoxQP`s, each made when it is asked for: their
variables stand one pair after another in a few long arrays, and within a pair those of
the second class after those of the first. `PairSolutions` is the sequence of their
solutions, whose certificates are sums over parts of these arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mercer.gram import Gram
from mercer.outcomes import Certificates, Solution
from mercer.solvers.box_certificate import certificate
from mercer.solvers.boxqp import RUN, BoxQP
from mercer.solvers.programs import reduced_hulls, svc
from mercer.solvers.rounding import UNIT
from mercer.solvers.variables import mended


@dataclass(frozen=True, eq=False)
class PairProblems(Sequence[BoxQP]):
    """min ½ βᵀKβ - targetᵀβ,  lower ≤ β ≤ upper,  Σβ = total: one for each pair.

    Parameters
    ----------
    joint : the variables of all of them, and what is fixed of none
    members : for each class, which points are its; none of a pair is empty
    pairs : (m, 2) array of two different classes; the first one is positive
    totals : (m, 2) array, what β sums to: in either class, if `grouped`; else over
        both, the second number being 0
    bias : without one there is no total
    surplus : (m,) array, as of `BoxQP`
    """

    joint: BoxQP
    members: Sequence[np.ndarray]
    pairs: np.ndarray
    totals: np.ndarray
    grouped: bool = False
    bias: bool = True
    surplus: Any = 0.0

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, number: int) -> BoxQP:  # type: ignore[override]  # no slices
        part = self.part(number)
        points = self.joint.index[part]
        total: Any = self.totals[number, 0] if self.bias else None
        group, surplus = None, 0.0
        if self.grouped:
            group = np.repeat([0, 1], self.sizes[number])
            total = tuple(self.totals[number].tolist())
            surplus = float(np.broadcast_to(self.surplus, (len(self),))[number])
        return BoxQP(
            self.gram.take(points),
            self.joint.linear[part],
            self.joint.sign[part],
            self.joint.lower[part],
            self.joint.upper[part],
            total,
            group=group,
            unit_margin=self.grouped,
            surplus=surplus,
        )

    @property
    def gram(self) -> Gram:
        """Of all points."""
        return self.joint.gram

    @cached_property
    def sizes(self) -> np.ndarray:
        """The number of variables of either class of a pair, (m, 2)."""
        return np.array([len(places) for places in self.members])[self.pairs]

    @cached_property
    def lengths(self) -> np.ndarray:
        """The number of variables of a pair, (m,)."""
        return self.sizes.sum(axis=1)

    @cached_property
    def ends(self) -> np.ndarray:
        """Where the variables of each pair end, (m,)."""
        return np.cumsum(self.lengths)

    def part(self, number: int) -> slice:
        """The variables of one pair."""
        number = range(len(self))[number]
        return slice(
            int(self.ends[number - 1]) if number else 0, int(self.ends[number])
        )

    @property
    def target(self) -> np.ndarray:
        """That of every variable."""
        return self.joint.target

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The lower and the upper bound of β of every variable."""
        return self.joint.bounds

    def start(self, near: np.ndarray) -> np.ndarray:
        """A feasible β close to `near`, one pair after another; not `grouped`."""
        low, high = self.bounds
        beta = self.joint.sign * self.joint.snapped(self.joint.sign * near, 1e-13)
        beta = np.clip(beta, low, high)
        for j, total in enumerate(self.totals[:, 0].tolist() if self.bias else ()):
            part = self.part(j)
            beta[part] = mended(beta[part], total, low[part], high[part])
        return beta

    def variables_of(self, chosen: np.ndarray) -> np.ndarray:
        """Which variables are of the pairs that a (m,) array of booleans chooses."""
        return np.repeat(chosen, self.lengths)

    def take(self, chosen: np.ndarray) -> PairProblems:
        """Those of the pairs that a (m,) array of booleans chooses."""
        if chosen.all():
            return self
        own, joint = self.variables_of(chosen), self.joint
        return replace(
            self,
            joint=BoxQP(
                joint.gram,
                joint.linear[own],
                joint.sign[own],
                joint.lower[own],
                joint.upper[own],
                total=None,
                index=joint.index[own],
            ),
            pairs=self.pairs[chosen],
            totals=self.totals[chosen],
            surplus=np.broadcast_to(self.surplus, (len(self),))[chosen],
        )


def svc_pairs(
    gram: Gram,
    members: Sequence[np.ndarray],
    pairs: np.ndarray,
    upper: np.ndarray,
    *,
    bias: bool = True,
) -> PairProblems:
    """`svc` of each pair: min ½‖f‖² + Σᵢ upperᵢ max(0, 1 - yᵢ f(xᵢ)).

    Parameters
    ----------
    members, pairs, bias : as of `PairProblems`
    upper : (n,) array, C of each point
    """
    sign, points = _variables(members, pairs)
    joint = svc(gram, sign, upper[points], bias=False, index=points)
    totals = np.zeros((len(pairs), 2))
    return PairProblems(joint, members, pairs, totals, bias=bias)


def nu_svc_pairs(
    gram: Gram,
    members: Sequence[np.ndarray],
    pairs: np.ndarray,
    nu: float,
    weight: np.ndarray,
) -> PairProblems:
    """`nu_svc` of each pair: min ½‖f‖² - νρ + mean of max(0, ρ - yᵢ f(xᵢ)), then f/ρ.

    Parameters
    ----------
    members, pairs : as of `PairProblems`
    weight : (n,) array, how often each point counts
    """
    sign, points = _variables(members, pairs)
    mass = np.array([weight[places].sum() for places in members])[pairs]
    asked, growth = reduced_hulls(nu, mass)
    lengths = np.array([len(places) for places in members])[pairs].sum(axis=1)
    upper = weight[points] * np.repeat(growth, lengths)
    return PairProblems(
        BoxQP(gram, 0.0, sign, 0.0, upper, total=None, index=points),
        members,
        pairs,
        totals=np.column_stack([asked, -asked]),
        grouped=True,
        surplus=growth - 1,
    )


def _variables(
    members: Sequence[np.ndarray], pairs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The sign of each variable, and its point."""
    lengths = np.array([len(places) for places in members])
    classes, sizes = np.ravel(pairs), lengths[np.ravel(pairs)]
    ends = np.cumsum(sizes)
    within = np.arange(sizes.sum()) - np.repeat(ends - sizes, sizes)
    starts = np.cumsum(lengths) - lengths
    points = np.concatenate(members)[np.repeat(starts[classes], sizes) + within]
    return np.repeat(np.tile([1.0, -1.0], len(pairs)), sizes), points


@dataclass(frozen=True, eq=False)
class PairSolutions(Sequence[Solution]):
    """The solutions of `PairProblems`, each made when it is asked for.

    Parameters
    ----------
    beta, function : β and F = Kβ of all pairs, one after another
    level : (m, 1) or (m, 2) array, of each group
    certificates : of every pair
    """

    problems: PairProblems
    beta: np.ndarray
    function: np.ndarray
    level: np.ndarray
    certificates: Certificates

    @classmethod
    def empty(cls, problems: PairProblems) -> PairSolutions:
        """Room for those of these problems."""
        n, m = len(problems.target), len(problems)
        level = np.zeros((m, 2 if problems.grouped else 1))
        beta, function = np.zeros((2, n))
        return cls(problems, beta, function, level, Certificates.empty(m))

    def __len__(self) -> int:
        return len(self.problems)

    def __getitem__(self, number: int) -> Solution:  # type: ignore[override]  # no slices
        part, found = self.problems.part(number), self.certificates[number]
        level = self.level[number]
        return Solution(
            value=self.problems.joint.sign[part] * self.beta[part],
            bias=-float(level.mean()),
            primal=found.primal,
            dual=found.dual,
            violation=found.violation,
            run=found.run,
            level=tuple(level.tolist()),
            function=self.function[part],
            rounding=found.rounding,
            objective_rounding=found.objective_rounding,
        )

    def put(self, number: int, solution: Solution) -> None:
        """Set that of one pair."""
        part = self.problems.part(number)
        self.beta[part] = self.problems.joint.sign[part] * solution.value
        self.function[part] = solution.function
        self.level[number] = solution.level
        found = certificate(self.problems[number], solution)
        self.certificates.put(number, found)

    def put_all(self, chosen: np.ndarray, solutions: PairSolutions) -> None:
        """Set those of the pairs that a (m,) array of booleans chooses."""
        own = np.repeat(chosen, self.problems.lengths)
        self.beta[own], self.function[own] = solutions.beta, solutions.function
        self.level[chosen] = solutions.level
        self.certificates.put(chosen, solutions.certificates)

    def decisions(self) -> tuple[np.ndarray, np.ndarray]:
        """coef of one pair after another, and the bias of each, as of `BoxQP`."""
        factor = np.ones(len(self))
        if self.problems.grouped:
            distance = (self.level[:, 0] - self.level[:, 1]) / 2
            factor[distance > 0] = 1 / distance[distance > 0]
        bias = -factor * self.level.mean(axis=1)
        if not self.problems.grouped:
            return self.beta, bias
        return self.beta * np.repeat(factor, self.problems.lengths), bias


class PairReport(NamedTuple):
    """What the core reports of each pair, a number each."""

    indefinite: np.ndarray
    unfit: np.ndarray  # whether single precision was not precise enough
    limited: np.ndarray  # whether it took all the steps there were
    late: np.ndarray  # whether it took all the time there was
    iterations: np.ndarray
    rows: np.ndarray
    hits: np.ndarray
    seconds: np.ndarray
    moved: np.ndarray  # Σ|Δβ| over all that was added to F; 0 if summed afresh
    tidied: np.ndarray  # Σ|Δβ| of β put back to its bound, which F does not know of
    missed: np.ndarray  # |Σβ - total|, where doubles are too coarse for it


class Precision(NamedTuple):
    """How well kernel values are known."""

    word: str  # "single" or "double", of the rows
    size: float  # max |k(x, x)|
    error: float  # of a value in double, in units of 2⁻⁵³


def concluded(
    problems: PairProblems,
    beta: np.ndarray,
    function: np.ndarray,
    report: PairReport,
    precision: Precision,
    tol: float,
) -> PairSolutions:
    """The solution of each pair, with its certificate, from β and F = Kβ."""
    sums = _Sums(problems, beta, function)
    level, violation = sums.levels()
    free, bound = sums.counts()
    squares = beta * function
    square, product = sums.total(squares), sums.total(np.abs(squares))
    linear = sums.total(problems.target * beta)
    of_totals = problems.totals[:, : level.shape[1]]
    surplus = sums.surplus(level)
    loss = sums.losses(surplus)
    primal = square / 2 + sums.total(loss) - (level * of_totals).sum(axis=1)
    mass = sums.total(np.abs(beta))
    terms = free + bound
    error = precision.error + precision.size * (np.minimum(terms, RUN) + terms / RUN)
    # Of F at a point, and of the violation, the difference of two of them.
    rounding = UNIT * (error * np.maximum(mass, report.moved) + 2)
    rounding += precision.size * report.tidied
    # Where there is a loss, or would be one if F were off by that much.
    weight = mass + sums.total(sums.widths(surplus, rounding))
    violation_error = 2 * rounding if problems.bias else rounding
    height = np.maximum(1.0, np.abs(level).max(axis=1))
    size = weight * height + product + np.abs(primal)
    digits = UNIT * (2 * RUN) * size
    off, below = weight * rounding + digits, mass * rounding + digits
    # As `BoxQP.bracket` allows for it, with the steepest slope there is.
    imbalance = 2 * report.missed * sums.steepest()
    off, below = off + imbalance, below + imbalance
    fits = (4 * off <= tol - violation) & (4 * off > violation_error)
    indefinite = _indefinite(problems, square, product, mass * rounding)
    indefinite |= (report.indefinite > 0) & (problems.gram.kernel.psd is not True)
    optimal = violation + violation_error <= tol
    status = np.full(len(problems), "optimal", dtype=object)
    if not optimal.all():
        reached = np.where(violation <= tol, "imprecise", "stalled")
        status[~optimal] = reached[~optimal]
    status[indefinite] = "indefinite"
    distance = np.ones(len(problems))
    if problems.grouped:
        distance = (level[:, 0] - level[:, 1]) / 2
        flat = 2 * distance <= 1e-9 * of_totals[:, 0] * precision.size
        status[flat & optimal] = "flat"
    optimal = status == "optimal"
    status[(report.limited > 0) & ~optimal] = "max_iter"
    status[(report.late > 0) & ~optimal] = "time_limit"
    most = square + mass * rounding + UNIT * (2 * RUN) * product
    length = np.sqrt(np.maximum(most, np.finfo(float).tiny))
    margin = np.where((most > 0) & (mass > 0), distance / length, np.inf)
    found = Certificates.empty(len(problems))
    columns = {
        "primal": np.where(indefinite, np.nan, primal + off),
        "dual": linear - square / 2 - below,
        "violation": violation,
        "n_free": free,
        "n_bound": bound,
        "margin": margin,
        "iterations": report.iterations,
        "seconds": report.seconds,
        "rows": report.rows,
        "reused": report.hits,
        "status": status,
        "precision": precision.word,
        "rounding": np.where(fits, 4 * off, violation_error),
        "objective_rounding": 4 * off,
        "square": np.nan,
    }
    for name, column in columns.items():
        found.columns[name][:] = column
    return PairSolutions(problems, beta, function, level, found)


def _indefinite(
    problems: PairProblems, square: np.ndarray, size: np.ndarray, error: np.ndarray
) -> np.ndarray:
    """Where K is known to be: by its rule, or as `BoxQP.refuted` has it."""
    verdict = problems.gram.kernel.psd
    if verdict is not None:
        return np.full(len(problems), not verdict)
    diagonal = problems.gram.diag()
    least = np.array([diagonal[places].min(initial=0) for places in problems.members])
    negative = least[problems.pairs].min(axis=1) < 0
    # Beyond what rounding leaves of a square that is 0, in single precision and double.
    return (square < -np.maximum(1e-6 * size, error)) | negative


class _Sums:
    """Sums over the variables of each pair, and of each group of a pair."""

    def __init__(self, problems: PairProblems, beta: np.ndarray, function: np.ndarray):
        self.problems, self.beta = problems, beta
        self.gradient = function - problems.target
        self.sizes = problems.lengths
        self.starts = self.groups = problems.ends - self.sizes
        self.of_group = self.sizes
        if problems.grouped:
            self.of_group = problems.sizes.ravel()
            self.groups = np.cumsum(self.of_group) - self.of_group
        low, high = problems.bounds
        self.falls, self.rises = beta > low, beta < high
        self.free = self.falls & self.rises

    def total(self, values: np.ndarray) -> np.ndarray:
        """The sum over each pair, (m,)."""
        return np.add.reduceat(values, self.starts)

    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """How many variables are free, and how many at a bound but 0."""
        used = self.total((self.beta != 0).astype(np.int64))
        free = self.total(((self.beta != 0) & self.free).astype(np.int64))
        return free, used - free

    def levels(self) -> tuple[np.ndarray, np.ndarray]:
        """The level of each group, (m, 1) or (m, 2), and the violation, (m,).

        As `BoxQP.level` and `BoxQP.violation` have them.
        """
        problems, m = self.problems, len(self.problems)
        gradient = self.gradient
        down = np.where(self.falls, gradient, -np.inf)
        up = np.where(self.rises, gradient, np.inf)
        down = np.maximum.reduceat(down, self.groups).reshape(m, -1)
        up = np.minimum.reduceat(up, self.groups).reshape(m, -1)
        if not problems.bias:
            worst = np.maximum(down, -up).max(axis=1)
            return np.zeros(down.shape), np.maximum(worst, 0.0)
        free = self.free.astype(float)
        n_free = np.add.reduceat(free, self.groups).reshape(m, -1)
        total = np.add.reduceat(free * gradient, self.groups).reshape(m, -1)
        ends = np.where(np.isinf(down), up, np.where(np.isinf(up), down, down + up))
        both = np.isfinite(down) & np.isfinite(up)
        level = np.where(n_free > 0, total / np.maximum(n_free, 1), ends)
        level[both & (n_free == 0)] /= 2
        if problems.grouped:
            opened = ~both & (n_free == 0)
            alone = opened & ~opened[:, ::-1]
            surplus = np.broadcast_to(problems.surplus, (m,))[:, None]
            level += np.where(alone, surplus * (level - level[:, ::-1]), 0.0)
        return level, np.maximum((down - up).max(axis=1), 0.0)

    def steepest(self) -> np.ndarray:
        """max |F - target| over each pair, (m,)."""
        return np.maximum.reduceat(np.abs(self.gradient), self.starts)

    def surplus(self, level: np.ndarray) -> np.ndarray:
        """s = target - F + level of each variable."""
        return np.repeat(level.ravel(), self.of_group) - self.gradient

    def losses(self, surplus: np.ndarray) -> np.ndarray:
        """max { s b : b in its bounds } of each variable."""
        low, high = self.problems.bounds
        most = np.maximum(surplus * low, surplus * high)
        return np.maximum(most, 0.0)

    def widths(self, surplus: np.ndarray, rounding: np.ndarray) -> np.ndarray:
        """How fast the loss of each variable grows within `rounding` of its s."""
        low, high = self.problems.bounds
        error = np.repeat(rounding, self.sizes)
        return np.where(surplus + error > 0, high, 0.0) - np.where(
            surplus - error < 0, low, 0.0
        )
