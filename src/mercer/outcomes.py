"""What a solver returns, and what it reports on the way: one type of each.

Status         how it ended, with what to do about it
Run            what it took: iterations, seconds, rows of the kernel matrix
Progress       how far it has come, for callbacks
Solution       the minimiser, its objectives and how sure they are
Certificate    the same numbers without the minimiser, for users
Certificates   those of many problems, kept as columns

A solver sets the status and never warns; a machine warns, with the status's advice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, SupportsInt, overload

import numpy as np

from mercer._html import table


class Status(StrEnum):
    """How a solver ended: a word, and advice where it did not reach its end.

    Examples
    --------
    >>> from mercer.solvers import Status
    >>> Status.MAX_ITER == "max_iter", Status.MAX_ITER.at_the_end
    (True, False)
    >>> Status.MAX_ITER.advice
    'Raise max_iter or tol, or scale the data.'
    """

    advice: str

    def __new__(cls, word: str, advice: str = "") -> Status:
        status = str.__new__(cls, word)
        status._value_ = word
        status.advice = advice
        return status

    OPTIMAL = "optimal"
    RECOMPUTED = "recomputed"
    INDEFINITE = (
        "indefinite",
        "On these points the kernel is not positive semidefinite: the solution is "
        "stationary, and no gap is claimed. Choose another kernel, or `repair` the "
        "Gram matrix.",
    )
    FLAT = "flat", "The classes are not told apart. Choose a richer kernel."
    PASSES = "passes"
    CONVERGED = "converged"
    GIVEN = "given"
    FEW = "few", "Fewer points differ than was asked for. Ask for less."
    MAX_ITER = "max_iter", "Raise max_iter or tol, or scale the data."
    TIME_LIMIT = "time_limit", "Raise the time limit or tol, or scale the data."
    STOPPED = "stopped", "A callback asked for it; what was learnt is kept."
    STALLED = (
        "stalled",
        "What is left is less than rounding lets it see. Scale the data, or raise tol.",
    )
    IMPRECISE = (
        "imprecise",
        "Rounding hides what is left. Scale the data, or raise tol.",
    )
    SINGULAR = "singular", "The system is singular. Regularise more."
    INFEASIBLE = "infeasible", "No function meets the conditions. Loosen them."
    UNBOUNDED = "unbounded", "The objective has no minimum. Bound the variables."

    def __repr__(self) -> str:
        return repr(str(self))

    @property
    def at_the_end(self) -> bool:
        """Whether the solver came to an end of its own, not to a limit."""
        return self not in _EARLY

    @property
    def gravity(self) -> int:
        """Of several problems the status with the largest number is reported."""
        return _MILD.index(self) if self in _MILD else len(_MILD)


_MILD = (Status.OPTIMAL, Status.RECOMPUTED, Status.INDEFINITE)
_EARLY = (
    *(Status.MAX_ITER, Status.TIME_LIMIT, Status.STOPPED),
    *(Status.STALLED, Status.IMPRECISE, Status.INFEASIBLE, Status.UNBOUNDED),
)


@dataclass(frozen=True)
class Run:
    """What a solve took.

    Attributes
    ----------
    status : how it ended
    iterations : steps, in the unit of the solver
    seconds : of wall time
    rows : rows of the kernel matrix that were computed
    reused : rows that were still in memory
    precision : of the kernel rows, "single" or "double"

    Examples
    --------
    >>> from mercer.solvers import Run
    >>> first, second = Run("max_iter", iterations=100), Run("optimal", iterations=20)
    >>> second.after(first).iterations, str(second.after(first).status)
    (120, 'optimal')
    """

    status: Status = Status.OPTIMAL
    iterations: int = 0
    seconds: float = 0.0
    rows: int = 0
    reused: int = 0
    precision: str = "double"

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", Status(self.status))

    def after(self, earlier: Run) -> Run:
        """This run with what another took before it."""
        return replace(
            self,
            iterations=earlier.iterations + self.iterations,
            seconds=earlier.seconds + self.seconds,
            rows=earlier.rows + self.rows,
            reused=earlier.reused + self.reused,
        )


def total(runs: Sequence[Run]) -> Run:
    """What several runs took together, with the gravest of their statuses."""
    return Run(
        status=max((run.status for run in runs), key=lambda status: status.gravity),
        iterations=sum(run.iterations for run in runs),
        seconds=sum(run.seconds for run in runs),
        rows=sum(run.rows for run in runs),
        reused=sum(run.reused for run in runs),
        precision="single" if any(r.precision == "single" for r in runs) else "double",
    )


class Progress(NamedTuple):
    """How far a solve has come; NaN where a number is none of the solver's.

    `words` says what the solver calls its numbers, in the order in which they are
    printed: (field, word) each.

    Examples
    --------
    >>> from mercer import Gram, RBF
    >>> from mercer.solvers import SMO, svc
    >>> seen = []
    >>> problem = svc(Gram(RBF(1), [[0.0], [1.0], [2.0]]), [1, -1, 1], upper=1.0)
    >>> solution = SMO().solve(problem, watch=lambda progress: seen.append(progress))
    >>> seen[-1].iterations > 0, bool(seen[-1].violation < 1e-3)
    (True, True)
    """

    round: int
    iterations: int
    rows: int  # of the kernel matrix, so far
    seconds: float
    support: int = 0  # coefficients that are not 0
    violation: float = math.nan  # how far from the end: what stops the solver
    objective: float = math.nan
    gap: float = math.nan  # NaN where the kernel is known to be indefinite
    norm: float = math.nan  # ‖f‖, where a solver keeps it
    problem: str = ""  # which one, where a machine has several
    words: tuple[tuple[str, str], ...] = (
        ("gap", "gap"),
        ("support", "support vectors"),
        ("violation", "violation"),
    )
    unit: str = "iteration"
    left: float = math.nan  # seconds, about, where a solver can tell
    stage: str = ""  # what it is at, between two iterations

    def line(self) -> str:
        """The progress as a printed line."""
        parts = [f"{self.unit} {self.iterations:>8}", *self.numbers()]
        text = "   ".join(parts) + f" {self.seconds:8.2f} s"
        text += "" if math.isnan(self.left) else f", about {self.left:.0f} s left"
        return f"{text} ({self.stage})" if self.stage else text

    def numbers(self) -> list[str]:
        """The numbers of `words`, each with its word."""
        found = []
        for name, word in self.words:
            value = getattr(self, name)
            whole = isinstance(value, int)
            found.append(f"{value:>7} {word}" if whole else f"{word} {value:<9.6g}")
        return found


Watch = Callable[[Progress], bool]  # sees how far a solver is; True stops it


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver found, with the numbers that certify it.

    Attributes
    ----------
    value : the variables of the problem
    bias : the constant of the expansion
    primal, dual : the two objectives; dual ≤ optimum ≤ primal for a convex problem,
        and their difference bounds how far from optimal the value is. Where the kernel
        is known to be indefinite, primal is NaN: the value is a stationary point
    violation : how far the optimality conditions are from holding
    run : how it ended, and what it took
    level : of a `BoxQP`, the common gradient on the free variables of each group
    function : f or F = Kβ at the points, as the problem has it
    rounding : how far `violation` can be off by rounding
    objective_rounding : the same of primal, dual and gap, which are bounds all the same
    path : (iterations + 1, n) array of the variables from the start on, where the
        solver was asked to record them; else None
    square : βᵀKβ as primal and dual have it, where it is still to be summed in double;
        else None
    weights : Φᵀ value of an explicit map Φ, K = ΦΦᵀ, where the solver has it; else None

    Examples
    --------
    >>> from mercer import Gram, RBF
    >>> from mercer.solvers import SMO, svc
    >>> gram = Gram(RBF(1), [[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> solution = SMO(tol=1e-9).solve(svc(gram, [-1, 1, 1, -1], upper=10.0))
    >>> solution.status, solution.value.round(3).tolist()
    ('optimal', [2.503, 2.503, 2.503, 2.503])
    >>> bool(solution.dual <= solution.primal), bool(solution.gap < 1e-6)
    (True, True)
    """

    value: np.ndarray
    bias: float | np.ndarray
    primal: float
    dual: float
    violation: float
    run: Run = field(default_factory=Run)
    level: tuple[float, ...] = ()
    function: Any = None
    path: Any = None
    rounding: float = 0.0
    objective_rounding: float = 0.0
    square: float | None = None
    weights: np.ndarray | None = None

    @property
    def gap(self) -> float:
        """primal - dual."""
        return self.primal - self.dual

    @property
    def status(self) -> Status:
        """How the solver ended."""
        return self.run.status

    def ended(self, status: Status) -> Solution:
        """The same with another status."""
        return replace(self, run=replace(self.run, status=status))


@dataclass(frozen=True)
class Certificate:
    """How good a solution is: dual ≤ optimum ≤ primal, and what it took.

    The bounds are those of a convex problem. Where the kernel is known to be indefinite
    (its `psd` is False, or the matrix showed it: k(x, x) < 0, a pair of points along
    which the problem is not convex, βᵀKβ < 0) none is claimed: primal and gap are NaN,
    and the status is "indefinite" at a stationary point. Where `psd` is None and none
    of this was met, they hold if the matrix is semidefinite, which was not checked;
    `mercer.check` does.

    For machines made of several problems the objectives, counts and seconds are sums,
    the violation is the largest and the margin the smallest; `parts` has one each.

    Attributes
    ----------
    violation : how far the optimality conditions are from holding
    rounding : how far the violation can be from what it is in exact arithmetic; as long
        as that fits below tol, it holds for primal, dual and gap too
    objective_rounding : how far primal, dual and gap can be. They are moved outwards
        by a part of it: dual ≤ optimum ≤ primal with the rounding included
    n_free, n_bound : points with a coefficient inside its bounds, and at one of them
    margin : 1/‖f‖, the distance of f = ±1 from f = 0 in feature space, or less: a lower
        bound, with the rounding of ‖f‖² included
    run : how the solver ended ("optimal", "indefinite", or what kept it from that), and
        what it took
    square : βᵀKβ as primal and dual have it, where it is still to be summed in double
        (`completed`); else NaN

    Examples
    --------
    >>> from mercer import SVC
    >>> X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0]
    >>> machine = SVC(C=10, gamma=1).fit(X, y)
    >>> found = machine.certificate_
    >>> found.status, found.n_free, found.n_bound, bool(found.gap < 1e-6)
    ('optimal', 4, 0, True)
    >>> machine.certify(X, y).status  # from the data and f alone
    'recomputed'
    """

    primal: float
    dual: float
    violation: float
    n_free: int
    n_bound: int
    margin: float
    run: Run = field(default_factory=lambda: Run(Status.RECOMPUTED))
    parts: Sequence[Certificate] = ()
    rounding: float = 0.0
    objective_rounding: float = 0.0
    square: float = math.nan

    @classmethod
    def of(
        cls,
        solution: Solution,
        n_free: SupportsInt,
        n_bound: SupportsInt,
        margin: float,
    ) -> Certificate:
        """That of a solution, from the numbers the solver reports."""
        return cls(
            primal=solution.primal,
            dual=solution.dual,
            violation=solution.violation,
            n_free=int(n_free),
            n_bound=int(n_bound),
            margin=float(margin),
            run=solution.run,
            rounding=solution.rounding,
            objective_rounding=solution.objective_rounding,
            square=math.nan if solution.square is None else solution.square,
        )

    @property
    def gap(self) -> float:
        """primal - dual, how far from optimal the solution can be at most."""
        return self.primal - self.dual

    @property
    def status(self) -> Status:
        """How the solver ended."""
        return self.run.status

    def loosened(self, error: float, tol: float) -> Certificate:
        """The certificate of f whose primal is up to `error` away, its level moved."""
        off = self.objective_rounding + 2 * error
        fits = self.rounding < off <= tol - self.violation
        return replace(
            self,
            primal=self.primal + error,
            rounding=off if fits else self.rounding,
            objective_rounding=off,
        )

    def completed(self, square: float) -> Certificate:
        """The certificate with βᵀKβ = square, where its own is of single precision.

        Both are linear in F at a point that is at its bound for sure: primal and dual
        move by half the difference of the squares, and their gap stays.

        Parameters
        ----------
        square : βᵀKβ, summed in double over all support vectors
        """
        shift = (self.square - square) / 2
        # With the rounding that this margin allows for.
        bound = self.margin**-2 - 2 * shift
        margin = bound**-0.5 if bound > 0 else math.inf
        return replace(
            self,
            primal=self.primal + shift,
            dual=self.dual + shift,
            margin=margin,
            square=math.nan,
        )

    def _rows(self) -> dict[str, str]:
        """What people read of it, by name."""
        run = self.run
        lines = {
            "status": str(run.status),
            "primal": f"{self.primal:.9g}",
            "dual": f"{self.dual:.9g}",
            "gap": f"{self.gap:.3g}",
            "violation": f"{self.violation:.3g}",
            "rounding": f"{self.rounding:.2g}, of objectives "
            f"{self.objective_rounding:.2g}",
            "support vectors": f"{self.n_free} free, {self.n_bound} at bound",
            "margin": f"{self.margin:.6g}",
            "iterations": f"{run.iterations} in {run.seconds:.3g} s",
            "kernel rows": f"{run.rows} computed, {run.reused} reused",
            "precision": run.precision,
        }
        if self.parts:
            lines["problems"] = str(len(self.parts))
        return lines

    def __repr__(self) -> str:
        return "\n".join(f"{name:<16} {text}" for name, text in self._rows().items())

    def _repr_html_(self) -> str:
        return table(self._rows().items())


class Certificates(Sequence[Certificate]):
    """The certificates of many problems: columns of numbers, rows made on demand.

    Parameters
    ----------
    columns : an array for each field of `Certificate` but `parts` and `run`, and for
        each of `Run`
    """

    _of_run: ClassVar[tuple[str, ...]] = tuple(one.name for one in fields(Run))
    _own: ClassVar[tuple[str, ...]] = tuple(
        one.name for one in fields(Certificate) if one.name not in ("parts", "run")
    )
    _types: ClassVar[dict[str, type]] = {
        one.name: {"float": float, "int": np.int64}.get(str(one.type), object)
        for one in (*fields(Certificate), *fields(Run))
        if one.name not in ("parts", "run")
    }

    def __init__(self, columns: dict[str, np.ndarray]) -> None:
        self.columns = columns

    @classmethod
    def empty(cls, n: int) -> Certificates:
        """Room for n certificates."""
        return cls({name: np.zeros(n, dtype) for name, dtype in cls._types.items()})

    def __len__(self) -> int:
        return len(self.columns["primal"])

    @overload
    def __getitem__(self, number: int) -> Certificate: ...

    @overload
    def __getitem__(self, number: slice) -> tuple[Certificate, ...]: ...

    def __getitem__(self, number: int | slice) -> Certificate | tuple[Certificate, ...]:
        if isinstance(number, slice):
            return tuple(self[j] for j in range(*number.indices(len(self))))
        place = range(len(self))[number]  # a negative one too, an IndexError beyond

        def at(names: Sequence[str]) -> dict[str, Any]:
            columns = ((name, self.columns[name]) for name in names)
            return {name: some[place : place + 1].tolist()[0] for name, some in columns}

        return Certificate(**at(self._own), run=Run(**at(self._of_run)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def put(
        self, places: np.ndarray | slice | int, found: Certificates | Certificate
    ) -> None:
        """Set the certificates at these places."""
        for name, column in self.columns.items():
            if isinstance(found, Certificates):
                column[places] = found.columns[name]
            else:
                owner = found.run if name in self._of_run else found
                column[places] = getattr(owner, name)


def _column(parts: Sequence[Certificate], name: str) -> list[Any] | np.ndarray:
    """One of the numbers of all certificates."""
    if isinstance(parts, Certificates):
        column = parts.columns[name]
        return column if column.dtype != object else list(dict.fromkeys(column))
    of_run = name in Certificates._of_run
    return [getattr(part.run if of_run else part, name) for part in parts]


def iterations(parts: Sequence[Certificate]) -> np.ndarray:
    """The iterations of each."""
    return np.array(_column(parts, "iterations"), dtype=np.int32)


def together(parts: Sequence[Certificate]) -> Certificate:
    """One certificate for several problems; of a single one, itself."""
    if len(parts) == 1:
        return parts[0]
    single = "single" in _column(parts, "precision")
    # Where one number stands for the objectives too, it adds up as they do.
    worst = np.max if np.any(_column(parts, "objective_rounding")) else np.sum

    def summed(name: str) -> Any:
        return np.asarray(_column(parts, name)).sum().item()

    statuses = [Status(status) for status in _column(parts, "status")]
    return Certificate(
        primal=summed("primal"),
        dual=summed("dual"),
        violation=float(np.max(_column(parts, "violation"))),
        n_free=summed("n_free"),
        n_bound=summed("n_bound"),
        margin=float(np.min(_column(parts, "margin"))),
        run=Run(
            status=max(statuses, key=lambda status: status.gravity),
            iterations=summed("iterations"),
            seconds=summed("seconds"),
            rows=summed("rows"),
            reused=summed("reused"),
            precision="single" if single else "double",
        ),
        parts=parts if isinstance(parts, Certificates) else tuple(parts),
        rounding=float(worst(_column(parts, "rounding"))),
        objective_rounding=summed("objective_rounding"),
    )
