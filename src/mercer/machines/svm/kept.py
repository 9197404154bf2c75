"""Points that come and go: what a machine keeps of a fit, and how it goes on from it.

Cauwenberghs and Poggio, NIPS 13 (2001), for the idea; here the kept gradient is the
start of a solve that computes only the kernel rows of the variables that it moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mercer import multiclass
from mercer.data.blocks import Blocks
from mercer.data.copies import owned
from mercer.data.points import Points, concatenate, count, double, take
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.machines.base import WeightedGram
from mercer.machines.checks import check_kind, index_of
from mercer.outcomes import Run
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.multiple import to_be_weighed
from mercer.solvers.smo import SMO
from mercer.solvers.update import Nearly, RowStore, with_room


@dataclass(frozen=True, eq=False)
class Kept:
    """The points of a machine with their coefficients and gradients.

    Attributes
    ----------
    points, target, weight : all points, with y (None for one class) and their weights
    kernel : with what it learnt from the first points
    coef, function : β and Kβ, a cell for each point and problem it is in; see
        `multiclass.cells`
    totals : what Σβ is in each problem, as first resolved
    moved, added : of each problem, what was added to Kβ so far; see `Nearly`
    rows : of each problem, kernel rows of points that may move, with the points of the
        problem; by the number of the point in it. They are not written to files
    """

    points: Points
    target: Any
    weight: np.ndarray
    kernel: Kernel
    coef: np.ndarray
    function: np.ndarray
    totals: Sequence[Any]
    moved: np.ndarray
    added: np.ndarray
    rows: dict[int, dict[int, np.ndarray]] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"rows": {}}

    def __len__(self) -> int:
        return count(self.points)


def tight(tol: float) -> SMO:
    """What solves small problems, whose objectives nobody asks for."""
    return SMO(tol, cache_mb=64.0, precision="double", objectives=False)


def add(machine: Any, X: Points, y: Any, sample_weight: Any) -> None:
    """Learn from more points; the first ones of a machine are fitted, and kept."""
    held: Kept | None = machine.__dict__.get("_held")
    if held is None:
        _begin(machine, X, y, sample_weight)
        return
    X, y = machine._new_points(X, y, False)
    check_kind(machine, held.points, X)
    m = count(X)
    weight = _checked_weight(machine, sample_weight, X)
    target = None if y is None else np.concatenate([held.target, y])
    new = replace(
        held,
        points=concatenate(held.points, owned(X)),
        target=target,
        weight=np.concatenate([held.weight, weight]),
        coef=_extended(held.coef, m),
        function=_extended(held.function, m),
        rows=dict(held.rows),
    )
    n = len(held)
    counted, problems, parts = _stated(machine, new)
    before = machine._stated_parts(held.target, len(held))
    has_coef = np.asarray(held.coef.any(axis=1))
    used = np.flatnonzero(has_coef)
    block = new.kernel(double(take(new.points, used)), double(X))
    known = np.zeros((n, m))
    known[used] = np.asarray(block, dtype=float)
    nearly = {}
    for j, problem in enumerate(problems):
        members, cells = _cells(parts, j, len(new))
        fresh = members >= n
        if not fresh.any():
            continue
        old, columns = members[~fresh], members[fresh] - n
        beta = new.coef[_cells_of(cells, ~fresh)]
        new.function[_cells_of(cells, fresh)] = beta @ known[old][:, columns]
        first = _cells(before, j, n)[0]
        # Of points without a coefficient, new kernel values are not known.
        known_on = has_coef[first].tolist()
        used_rows = {i: row for i, row in held.rows.get(j, {}).items() if known_on[i]}
        new.rows[j] = _longer(used_rows, first, members, known[first][:, columns])
        nearly[j] = _near(machine, new, j, problem, cells)
    _settle(machine, new, counted, problems, parts, nearly, rows=m)


def remove(machine: Any, index: Any) -> None:
    """Forget points: f is then that of a fit on the others."""
    held = _held(machine, "remove")
    leaving = np.sort(index_of(index, len(held), type(machine).__name__))
    stay = np.delete(np.arange(len(held)), leaving)
    target = None if held.target is None else held.target[stay]
    machine._check_stay(target)
    new = replace(
        held,
        points=take(held.points, stay),
        target=target,
        weight=held.weight[stay],
        coef=held.coef[stay],
        function=held.function[stay],
        rows={},
    )
    old_parts = machine._stated_parts(held.target, len(held))
    counted, problems, parts = _stated(machine, new)
    used = leaving[held.coef[leaving].any(axis=1)]
    nearly, computed = {}, 0
    for j, problem in enumerate(problems):
        before, cells_before = _cells(old_parts, j, len(held))
        inside = np.isin(before, used)
        members, cells = _cells(parts, j, len(new))
        left = ~np.isin(before, leaving)
        place = np.cumsum(left) - 1
        kept = held.rows.pop(j, {})
        going = [i for i in np.flatnonzero(inside).tolist() if i in kept]
        gone = [kept[i][: len(left)][left] for i in going]
        new.rows[j] = _shorter(kept, left, place)
        if not inside.any():
            continue
        beta = held.coef[_cells_of(cells_before, inside)]
        if len(gone) == len(beta):
            rows = np.array(gone)
        else:
            some = double(take(held.points, before[inside]))
            rows = held.kernel(some, double(take(new.points, members)))
            computed += len(beta)
        near = _near(machine, new, j, problem, cells)
        near.function -= beta @ rows
        near.moved += float(np.abs(beta).sum())
        near.added += len(beta)
        near.balance()
        nearly[j] = near
    _settle(machine, new, counted, problems, parts, nearly, rows=computed)


def _longer(
    rows: dict[int, np.ndarray],
    before: np.ndarray,
    members: np.ndarray,
    known: np.ndarray,
) -> dict[int, np.ndarray]:
    """Rows of K with the values of points that came to those there were before.

    Parameters
    ----------
    before, members : the points of a problem, as they were and as they are
    known : kernel values of those before with those that came
    """
    n, size = len(before), len(members)
    at_the_end = np.array_equal(members[:n], before)
    place = np.empty(int(members.max()) + 1, dtype=int)
    place[members] = np.arange(size)
    old, fresh = place[before], np.delete(np.arange(size), place[before])
    out = {}
    for i, row in rows.items():
        wide = row
        if not at_the_end or len(row) < size:
            wide = with_room(np.empty(size))
            wide[old] = row[:n]
        wide[fresh] = known[i]
        out[int(old[i])] = wide
    return out


def _shorter(
    rows: dict[int, np.ndarray], left: np.ndarray, place: np.ndarray
) -> dict[int, np.ndarray]:
    """Rows of K without the points that leave, in the room they have.

    Parameters
    ----------
    left : which points of the problem stay, and
    place : their new numbers
    """
    stay = np.flatnonzero(left)
    gone = np.flatnonzero(~left)
    out = {}
    for i, row in rows.items():
        if not left[i]:
            continue
        if len(gone) == 1:  # a move of memory, in place
            row[gone[0] : len(stay)] = row[gone[0] + 1 : len(left)]
        else:
            row[: len(stay)] = row[stay]
        out[int(place[i])] = row
    return out


def leave_one_out(machine: Any) -> np.ndarray:
    """What the machine predicts for each of its points without having learnt from it.

    Points without a coefficient change nothing when they leave; each of the others is
    taken out of the kept solution by itself.
    """
    held = _held(machine, "leave_one_out")
    _, problems, parts = _stated(machine, held)
    values = np.array(machine._function(held.points), dtype=float)
    values = values.reshape(len(held), -1)
    for j, problem in enumerate(problems):
        members, cells = _cells(parts, j, len(held))
        near = _near(machine, held, j, problem, cells)
        coef = held.coef[cells]
        for place in np.flatnonzero(coef).tolist():
            values[members[place], j] = _without(machine, near, place)
    return machine._predicted(values)


def _without(machine: Any, near: Nearly, place: int) -> float:
    """f at a point of a problem, fitted without that point."""
    problem = near.problem
    alone = machine._alone(problem, place)
    if alone is not None:
        return alone
    lower, upper = np.array(problem.lower), np.array(problem.upper)
    at = np.array([place])
    if problem.index is not None:
        at = np.flatnonzero(problem.index == place)
    lower[at] = upper[at] = 0.0
    one = replace(
        near,
        problem=replace(problem, lower=lower, upper=upper),
        value=near.value.copy(),
        function=near.function.copy(),
    )
    one.move(at, np.zeros(len(at)))
    one.balance()
    found = one.refined(machine._tolerance, tight)
    coef, bias = one.problem.decision(found)
    factor = 1 / one.problem.unscaling(coef)
    return float(factor * found.function[place] + bias)


def _begin(machine: Any, X: Points, y: Any, sample_weight: Any) -> None:
    """Fit, and keep the points."""
    name = type(machine).__name__
    if hasattr(machine, "support_"):
        raise ValueError(
            f"{name} was fitted by `fit`, which keeps support vectors alone. Begin "
            f"with {name}(...).add(X, y): it fits, and keeps all points."
        )
    machine._validate_params()
    _check_can(machine, name)
    X, y = machine._new_points(X, y, True)
    if isinstance(X, Blocks):
        raise ValueError(f"{name}.add keeps points in memory; got {X!r}. Use fit.")
    weight = _checked_weight(machine, sample_weight, X)
    counted = machine._weighted_gram(X, sample_weight)
    machine._note_classes(y, counted)
    parts = machine._stated_parts(y, count(X))
    problems = machine._stated_problems(counted, y, parts)
    shape = count(X), multiclass.width(parts)
    points = machine._own(counted.gram.X, X)
    many = len(problems)
    held = Kept(
        points,
        y,
        weight,
        counted.gram.kernel,
        np.zeros(shape),
        np.zeros(shape),
        [problem.total for problem in problems],
        np.zeros(many),
        np.zeros(many, dtype=int),
    )
    counted, problems, parts = _stated(machine, held)
    nearly, runs = {}, []
    for j, problem in enumerate(problems):
        found = machine._auto().solve(problem)
        _, cells = _cells(parts, j, len(held))
        beta = problem.coef(found.value)
        held.coef[cells] = beta
        held.function[cells] = problem.gram.double() @ beta
        held.moved[j] = float(np.abs(found.value).sum())
        nearly[j] = _near(machine, held, j, problem, cells)
        runs.append(found.run)
    _settle(machine, held, counted, problems, parts, nearly, runs=runs)


def _check_can(machine: Any, name: str) -> None:
    """Refuse what no point can be added to."""
    if machine._precomputed:
        raise ValueError(
            f'{name}(kernel="precomputed").add has no kernel values of new points with '
            "old ones. Use kernel=Precomputed(K) with indices as points."
        )
    if getattr(machine, "_calibrates", False):
        raise ValueError(
            f"{name}(probability=True) fits probabilities on all points; add would "
            "leave them behind. Use probability=False, or fit."
        )
    if isinstance(machine.kernel, Kernel) and to_be_weighed(machine.kernel):
        raise ValueError(
            f"{name}.add goes on with the kernel as it is, and the weights of a "
            "MultipleKernel are learnt from all points. Fit, and add to a machine with "
            "these: MultipleKernel(kernels, weights=fitted.kernel_weights_)."
        )
    if np.isinf(float(getattr(machine, "C", 1.0))):
        raise ValueError(f"{name}.add needs a finite C; got C=inf.")


def _held(machine: Any, name: str) -> Kept:
    held: Kept | None = machine.__dict__.get("_held")
    if held is None:
        kind = type(machine).__name__
        raise ValueError(
            f"{kind}.{name} needs the points of the fit, which `fit` does not keep. "
            f"Begin with {kind}(...).add(X, y): it fits, and keeps them."
        )
    return held


def _checked_weight(machine: Any, sample_weight: Any, X: Points) -> np.ndarray:
    if sample_weight is None:
        return np.ones(count(X))
    weight = machine._checked_weight(sample_weight, X)
    if not (weight > 0).all():
        i = int(np.argmin(weight > 0))
        raise ValueError(
            f"{type(machine).__name__}.add needs weights > 0; point {i} has "
            f"{weight[i]:g}. Leave it out."
        )
    return np.asarray(weight, dtype=float)


def _extended(cells: np.ndarray, m: int) -> np.ndarray:
    return np.vstack([cells, np.zeros((m, cells.shape[1]))])


def _stated(
    machine: Any, held: Kept
) -> tuple[WeightedGram, list[BoxQP], Sequence[Any]]:
    """The problems on the points that are kept, their totals as first resolved."""
    gram = Gram(held.kernel, held.points)
    counted = WeightedGram(gram, np.arange(len(held)), held.weight)
    parts = machine._stated_parts(held.target, len(held))
    problems = machine._stated_problems(counted, held.target, parts)
    return counted, list(map(_with_total, problems, held.totals)), parts


def _with_total(problem: BoxQP, total: Any) -> BoxQP:
    return problem if problem.total is None else replace(problem, total=total)


def _cells(parts: Any, j: int, n: int) -> tuple[np.ndarray, tuple[Any, Any]]:
    """The points of problem j, and their cells."""
    rows, columns = multiclass.cells(parts, j)
    members = np.arange(n)[rows]
    return members, (members, np.broadcast_to(columns, members.shape))


def _cells_of(cells: tuple[Any, Any], some: np.ndarray) -> tuple[Any, Any]:
    return cells[0][some], cells[1][some]


def _near(
    machine: Any, held: Kept, j: int, problem: BoxQP, cells: tuple[Any, Any]
) -> Nearly:
    """Problem j with its coefficients and gradients."""
    coef, function = held.coef[cells], np.array(held.function[cells])
    # `nu_svr` has two variables for each point.
    value = problem.sign * coef if not problem.tube_is_found else problem.split(coef)
    rows = RowStore(problem.gram, machine.cache_size, held.rows.get(j))
    value = problem.snapped(value, slack=1e-13)
    return Nearly(
        problem, value, function, rows, float(held.moved[j]), int(held.added[j])
    )


def _settle(
    machine: Any,
    held: Kept,
    counted: WeightedGram,
    problems: Sequence[BoxQP],
    parts: Sequence[Any],
    nearly: dict[int, Nearly],
    *,
    rows: int = 0,
    runs: Sequence[Run] = (),
) -> None:
    """Solve the problems that changed; set f and what is kept of it."""
    solutions, kept = [], {}
    moved, added = held.moved.copy(), held.added.copy()
    first = min(nearly, default=-1)
    for j, problem in enumerate(problems):
        _, cells = _cells(parts, j, len(held))
        near = nearly.get(j) or _near(machine, held, j, problem, cells)
        found = near.refined(machine._tolerance, tight)
        if runs:
            # Those that will move first when a point comes.
            near.rows.hold(near.free()[: near.rows.most])
            spent = replace(found.run, rows=near.rows.computed)
            found = replace(found, run=spent.after(runs[j]))
        elif j == first:
            spent = replace(found.run, rows=found.run.rows + rows)
            found = replace(found, run=spent)
        held.coef[cells], held.function[cells] = problem.coef(near.value), near.function
        moved[j], added[j], kept[j] = near.moved, near.added, near.rows.kept
        solutions.append((problem, found))
    numbers = range(len(problems))
    columns = machine._gathered(counted.gram, solutions, parts, numbers)
    machine._finish(counted, held.target, parts, columns)
    machine._held = replace(held, moved=moved, added=added, rows=kept)
    machine._warn_unless_optimal(machine._certificate)
