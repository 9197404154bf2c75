"""BoxQP: min ½ αᵀQα + linearᵀα in a box, with signᵀα fixed; one program for every SVM.

Signs live here, and in `programs` where they are given, and nowhere else: what comes in
are classes ±1 and targets, what goes out are the coefficients and the bias of f.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import fsum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mercer import _core
from mercer.gram import Gram
from mercer.kernels.ways import Precomputed
from mercer.outcomes import Solution
from mercer.solvers.rounding import UNIT
from mercer.solvers.variables import FEW, PART, combined, is_one, mended, per_variable

RUN = 256  # numbers that are summed one after another; longer sums are sums of sums
ENTRY_ERROR = 8.0  # of a kernel value, in units, where nothing is known of the kernel


class _Ends(NamedTuple):
    """Of a group: its total, the largest slope down and the least slope up, and the sum
    and number of the slopes of free variables.
    """

    total: float | None
    down: float
    up: float
    of_free: float
    n_free: int


class Bracket(NamedTuple):
    """dual ≤ optimum ≤ primal, and how far these and their gap can be off."""

    primal: float
    dual: float
    rounding: float


class Judged(NamedTuple):
    """What is to be said of α and F; how far the objectives can be off, and how far F.

    The objectives are those of `Bracket`.
    """

    level: tuple[float, ...]
    violation: float
    primal: float
    dual: float
    error: float
    rounding: float


Plain = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class BoxQP:
    """min ½ αᵀQα + linearᵀα + Σₜ tubeₜ|αₜ|,  lower ≤ α ≤ upper,  signᵀα = total,

    Qₛₜ = signₛ signₜ K[indexₛ, indexₜ]: one program for the whole SVM family, made by
    `svc`, `nu_svc`, `hulls`, `svr`, `nu_svr`, `one_class`, `svdd`, or by `quadratic`
    for a program of one's own. Variable t stands for point index[t] with sign[t].

    In the signed variables β = sign∘α, F = Kβ is the function at the points, and the
    gradient is F - target with target = -sign∘linear. At the optimum it has, on the
    free variables of a group, one common value, the level of that group.

    Parameters
    ----------
    gram : the Gram of n points
    linear, sign, lower, upper : a number for each variable, or one for all; signs ±1
    total : what signᵀα is; a pair with `group`; None for no such condition
    index : the point of each variable; None where variable t is point t
    tube : a number ≥ 0 for each variable, or one for all; None for 0
    group : 0 or 1 for each variable: signᵀα is fixed in each group by itself
    unit_margin : whether f is scaled so that the two levels are at distance 2
    surplus : where all of a group is at its bound, its level is open to one side; it is
        put so much further out, relative to the distance of the levels
    scale : γ of `quadratic`, by which the user's variables were multiplied

    Examples
    --------
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import SMO, BoxQP
    >>> gram = Gram(Linear(), [[1.0, 0.0], [0.0, 1.0]])
    >>> problem = BoxQP(gram, linear=0.0, sign=1, lower=0.0, upper=1.0, total=1.0)
    >>> SMO(tol=1e-9).solve(problem).value.round(6).tolist()
    [0.5, 0.5]
    """

    gram: Gram
    linear: Any
    sign: Any
    lower: Any
    upper: Any
    total: Any = 0.0
    index: Any = None
    tube: Any = None
    group: Any = None
    unit_margin: bool = False
    surplus: float = 0.0
    scale: Any = None

    def __post_init__(self) -> None:
        n = self.gram.shape[0]
        index = np.arange(n) if self.index is None else np.asarray(self.index)
        for name in ("linear", "sign", "lower", "upper", "tube"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, per_variable(name, given, len(index)))
        if index.size and not (0 <= index.min() and index.max() < n):
            raise ValueError(f"BoxQP has {n} points; its index goes beyond them.")
        if not np.all(np.abs(self.sign) == 1):
            raise ValueError("BoxQP needs signs +1 and -1.")
        if not np.all(self.lower <= self.upper):
            t = int(np.argmin(self.lower <= self.upper))
            raise ValueError(
                f"BoxQP needs lower ≤ upper; variable {t} has lower={self.lower[t]:g} "
                f"and upper={self.upper[t]:g}."
            )
        if self.tube is not None and not np.all(self.tube >= 0):
            raise ValueError("BoxQP needs tube ≥ 0: -|α| is not convex.")
        if np.size(self.total) != (1 if self.group is None else 2):
            raise ValueError(
                "BoxQP needs one total, or a pair of them with a group of 0 and 1 for "
                f"each variable; got total={self.total!r}."
            )

    def __len__(self) -> int:
        """How many variables there are."""
        return len(self.linear)

    @cached_property
    def target(self) -> np.ndarray:
        """-sign∘linear: the gradient in β is F - target, plus what the tube adds."""
        if is_one(self.linear) and self.linear[0] == -1.0:
            return self.sign
        if is_one(self.linear) and self.linear[0] == 0.0:
            return np.broadcast_to(0.0, self.linear.shape)
        return -self.sign * self.linear

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The lower and the upper bounds of β = sign∘α."""
        high = combined(np.multiply, self.sign, self.upper)
        if is_one(self.lower) and self.lower[0] == 0:
            low = np.broadcast_to(0.0, high.shape)
        else:
            low = combined(np.multiply, self.sign, self.lower)
        return combined(np.minimum, low, high), combined(np.maximum, low, high)

    @cached_property
    def has_finite_bounds(self) -> bool:
        return all(bool(np.isfinite(ends).all()) for ends in self.bounds)

    @cached_property
    def plain(self) -> Plain | None:
        """target, bounds and tube where the core sums over them, else None.

        Variables are then points, of one group, with finite bounds, and not many.
        """
        as_points = self.index is None and self.group is None
        if not as_points or len(self) > FEW or not self.has_finite_bounds:
            return None
        tube = np.empty(0) if self.tube is None else self.tube
        target, low, high, tube = map(
            np.ascontiguousarray, (self.target, *self.bounds, tube)
        )
        return target, low, high, tube

    def groups(self) -> Iterator[tuple[np.ndarray | slice, float | None]]:
        """The variables of each group, and what their β sum to."""
        if self.group is None:
            yield slice(None), None if self.total is None else float(self.total)
            return
        group = np.asarray(self.group)
        for g in (0, 1):
            yield np.flatnonzero(group == g), float(self.total[g])

    def coef(self, value: np.ndarray) -> np.ndarray:
        """βᵢ = Σ signₜ αₜ over the variables of point i, (n,)."""
        beta = self.sign * np.asarray(value, dtype=float)
        if self.index is None:
            return beta
        return np.bincount(self.index, weights=beta, minlength=self.gram.shape[0])

    def decision(self, solution: Solution) -> tuple[np.ndarray, float]:
        """coef and bias of f: F - ρ, ρ the level, or the mean of the two levels.

        With `unit_margin` both are divided by half the distance of the levels, so that
        |f| = 1 on the free points.
        """
        coef, level = self.coef(solution.value), solution.level
        factor = 1.0
        if self.unit_margin and level[0] > level[1]:
            factor = 2 / (level[0] - level[1])
        return factor * coef, -factor * float(np.mean(level))

    def inverse(
        self, coef: np.ndarray, bias: float, function: np.ndarray | None = None
    ) -> tuple[np.ndarray, tuple[float, ...] | None]:
        """α and levels from which `decision` makes this coef and this bias.

        Parameters
        ----------
        function : F at the points, which tells what coef and bias do not: the tube of
            `nu_svr`, and levels that are as near as rounding can tell. Without it the
            levels of `nu_svr` are None
        """
        factor = self.unscaling(coef)
        rho = -factor * bias
        if self.tube_is_found:
            tube = None if function is None else self.tube_levels(function, rho)
            return self.split(coef, function, rho), tube
        if not self.unit_margin:
            return self.sign * coef, (rho,)
        # What was scaled has lost digits.
        value = self.snapped(factor * self.sign * coef)
        if function is not None:
            level = self.level(value, function)
            if self.is_flat(level):
                return value, level
        return value, (rho + factor, rho - factor)

    @property
    def tube_is_found(self) -> bool:
        """Whether each point has two variables, of two groups, as in `nu_svr`."""
        return self.index is not None and self.group is not None

    def is_flat(self, level: Sequence[float]) -> bool:
        """Whether two levels are as near to each other as rounding can tell."""
        largest = self.total[0] * float(np.abs(self.gram.diag()).max(initial=0))
        return not level[0] - level[1] > 1e-9 * largest

    def split(
        self, coef: np.ndarray, function: np.ndarray | None = None, rho: float = 0.0
    ) -> np.ndarray:
        """α of `nu_svr` with this coef: of the two α of a point one is 0, if it can be.

        What the totals lack is on both variables of a point alike, which leaves coef as
        it is: first where f is nearest to the target, the only place where an optimum
        has both.
        """
        n = len(coef)
        above, below = np.maximum(coef, 0), np.maximum(-coef, 0)
        missing = fsum([self.total[0], *(-above).tolist()])
        if missing <= 1e-13 * self.total[0]:
            return np.concatenate([above, below])  # rounding
        order: Any = slice(None)
        if function is not None:
            distance = np.abs(self.target[:n] - function + rho)
            # A solver makes distances equal; rounding is not to choose among them.
            share = distance / max(float(distance.max()), np.finfo(float).tiny)
            order = np.argsort(np.round(share, 6), kind="stable")
        upper = np.minimum(*np.split(self.upper, 2))
        room = np.maximum(upper - np.maximum(above, below), 0)[order]
        both = np.zeros(n)
        both[order] = np.clip(missing - (np.cumsum(room) - room), 0, room)
        # Rounding is not to leave a variable just inside a bound that it should be at.
        full = (both > 0) & (both == np.maximum(upper - np.maximum(above, below), 0))
        above = np.where(full & (above >= below), upper, above + both)
        below = np.where(full & (coef < 0), upper, below + both)
        return np.concatenate([above, below])

    def tube_levels(self, function: np.ndarray, rho: float) -> tuple[float, float]:
        """ρ ∓ ε with the ε ≥ 0 that is best for f = F - ρ, of `nu_svr`.

        Σᵢ upperᵢ max(0, |yᵢ - f(xᵢ)| - ε) + ε ν Σupper is least where the points beyond
        the tube have the share ν of all upper: ε is a quantile of the distances.
        """
        n = len(function)
        distance = np.abs(self.target[:n] - function + rho)
        order = np.argsort(-distance, kind="stable")
        beyond = np.cumsum(self.upper[:n][order])
        outside = int(np.searchsorted(beyond, 2 * self.total[0], side="right"))
        inner = distance[order[outside]] if outside < n else 0.0
        return rho - float(inner), rho + float(inner)

    def joining(
        self,
        value: np.ndarray,
        function: np.ndarray,
        level: tuple[float, ...],
        known: np.ndarray,
        goal: float,
        most: int,
    ) -> np.ndarray:
        """The `most` points outside a working set whose slopes ask the most to move.

        Parameters
        ----------
        level : of each group, by the variables of the working set
        known : (n,) array, whether each point is in the set
        goal : half of it is what a slope may be off
        """
        n = self.gram.shape[0]
        place = np.arange(n) if self.index is None else np.asarray(self.index)
        below, above = self.slopes(value, function)
        rho = np.array([0.0] if self.total is None else level)
        rho = rho[np.zeros(len(value), int) if self.group is None else self.group]
        excess = np.maximum(below - rho, rho - above)
        excess[known[place]] = 0
        asking = np.flatnonzero(excess > goal / 2)
        order = asking[np.argsort(-excess[asking], kind="stable")]
        _, first = np.unique(place[order], return_index=True)
        return place[order[np.sort(first)[:most]]]

    def near(self, value: np.ndarray, function: np.ndarray, reach: float) -> np.ndarray:
        """Whether a slope of each point could be among those that decide, (n,) bools.

        Those of other points keep their distance from the extreme ones of their group
        where F is off by up to `reach`, at both together.
        """
        n = self.gram.shape[0]
        place = np.arange(n) if self.index is None else np.asarray(self.index)
        down, up = [], []
        for group in self._ends(value, function):
            free = group.total is None  # where slopes are held against 0
            down.append(max(group.down, 0.0) if free else group.down)
            up.append(min(group.up, 0.0) if free else group.up)
        own = np.zeros(len(value), int) if self.group is None else self.group
        below, above = self.slopes(value, function)
        close = above - reach < np.array(down)[own]
        close |= below + reach > np.array(up)[own]
        found = np.zeros(n, dtype=bool)
        found[place[close]] = True
        return found

    def snapped(self, value: npt.ArrayLike, slack: float = 1e-9) -> np.ndarray:
        """α with what rounding took off a bound put back: within `slack` of that bound.

        At 0 it is a share of the other bound, or of the largest α if that is less: all
        α may be tiny, and none of them 0.
        """
        value = np.array(value, dtype=float)
        lower, upper = map(np.ascontiguousarray, (self.lower, self.upper))
        _core.snap(value, lower, upper, slack)
        return value

    def balanced(self, value: npt.ArrayLike, overwrite: bool = False) -> np.ndarray:
        """α with signᵀα = total without an error, in each group where that can be.

        What rounding left over is taken off free variables, from a large one to the
        smallest: the last digit of each is finer than that of the one before. It cannot
        be where a bound has finer digits than all of them; what is then missed is less
        than the last digit of the smallest, and `bracket` allows for it.

        Parameters
        ----------
        overwrite : whether the array of α given may be the one returned
        """
        value, (low, high) = np.asarray(value, dtype=float), self.bounds
        beta = np.multiply(self.sign, value, out=value if overwrite else None)
        for members, total in self.groups():
            if total is None:
                continue
            part = np.ascontiguousarray(beta[members])
            least, most = (np.ascontiguousarray(ends[members]) for ends in (low, high))
            _core.balance(part, least, most, total)
            beta[members] = part
            del part, least, most
        beta *= self.sign
        return beta

    def unscaling(self, coef: np.ndarray) -> float:
        """By what coef must be multiplied to give β: 1 without `unit_margin`."""
        if not self.unit_margin:
            return 1.0
        weight = float(np.sum(coef[self.sign > 0]))
        return self.total[0] / weight if weight > 0 else 1.0

    def start(self, near: np.ndarray | None = None) -> np.ndarray:
        """A feasible α close to `near`, or to 0; ValueError if there is none."""
        near = np.zeros(len(self)) if near is None else np.asarray(near, dtype=float)
        near = self.snapped(near, slack=1e-13)
        beta = self.sign * np.clip(near, self.lower, self.upper)
        low, high = self.bounds
        for members, total in self.groups():
            if total is not None:
                beta[members] = mended(
                    beta[members], total, low[members], high[members]
                )
        return self.sign * beta

    def variables(self, value: np.ndarray) -> np.ndarray:
        """The variables of the quadratic given to `quadratic`."""
        return value if self.scale is None else value / self.scale

    def padded(self) -> BoxQP:
        """The same problem without total, as one with total 0 and a variable more.

        That variable belongs to a point whose kernel values are all 0: it takes up
        whatever the others sum to, at no cost. Holds the matrix K in memory.
        """
        n = self.gram.shape[0]
        matrix = np.zeros((n + 1, n + 1))
        matrix[:n, :n] = self.gram.dense()
        index = np.arange(n) if self.index is None else self.index
        room = float(np.sum(np.maximum(np.abs(self.lower), np.abs(self.upper))))
        return BoxQP(
            Gram(Precomputed(matrix, self.gram.kernel.psd), np.arange(n + 1)),
            linear=np.append(self.linear, 0.0),
            sign=np.append(self.sign, 1.0),
            lower=np.append(self.lower, -room),
            upper=np.append(self.upper, room),
            index=np.append(index, n),
            tube=None if self.tube is None else np.append(self.tube, 0.0),
        )

    # Optimality

    def refuted(
        self, value: np.ndarray, function: np.ndarray, least: float | None = None
    ) -> bool:
        """Whether K is known to be indefinite: then no primal bounds the optimum.

        By the rule of the kernel, by a negative k(x, x), or by βᵀKβ < 0.

        Parameters
        ----------
        least : min k(x, x), if it is known
        """
        verdict = self.gram.kernel.psd
        if verdict is not None:
            return not verdict
        coef = self.coef(value)
        square, size = coef @ function, np.abs(coef) @ np.abs(function)
        least = np.min(self.gram.diag(), initial=0) if least is None else least
        if least < 0:
            return True
        # Beyond what rounding in single precision leaves of a square that is 0.
        if square >= -1e-6 * size:
            return False
        # And beyond what it leaves in double where F is 0 at every point.
        largest = float(np.max(np.abs(self.gram.diag()), initial=0.0))
        off = float(np.abs(coef).sum()) * self.rounding(value, size=largest)
        return bool(square < -off)

    def slopes(
        self, value: np.ndarray, function: np.ndarray, part: slice = slice(None)
    ) -> tuple[np.ndarray, np.ndarray]:
        """What a little less and a little more of each βₜ costs, per unit of βₜ.

        ±∞ at the bound beyond which βₜ cannot go.

        Parameters
        ----------
        part : the variables that are asked about
        """
        beta = self.sign[part] * value[part]
        low, high = (ends[part] for ends in self.bounds)
        gradient = self._at_variables(function, part)
        gradient -= self.target[part]
        below = above = gradient
        if self.tube is not None:
            tube = self.tube[part]
            below = gradient + np.where(beta > 0, tube, -tube)
            above = gradient + np.where(beta < 0, -tube, tube)
        return np.where(beta > low, below, -np.inf), np.where(
            beta < high, above, np.inf
        )

    def violation(self, value: np.ndarray, function: np.ndarray) -> float:
        """The most that moving weight between two variables of a group gains, per unit.

        At most 0 at the optimum, where every slope down is below every slope up.
        """
        most = 0.0
        for found in self._ends(value, function):
            gain = found.down - found.up
            if found.total is None:
                gain = max(found.down, -found.up)
            most = max(most, float(gain))
        return most

    def level(self, value: np.ndarray, function: np.ndarray) -> tuple[float, ...]:
        """The common gradient on the free variables of each group.

        With none free: the midpoint of the interval that optimality leaves, or its end
        (and `surplus`) where it has but one. The levels of `nu_svr` are then moved
        apart, or together, to where the primal is least.
        """
        found, opened = [], []
        for group in self._ends(value, function):
            if group.total is None:
                found.append(0.0)
            elif group.n_free:
                found.append(group.of_free / group.n_free)
            else:
                ends = np.array([group.down, group.up])
                found.append(float(np.mean(ends[np.isfinite(ends)])))
                opened += [len(found) - 1] * bool(np.isinf(ends).any())
        if self.surplus and len(opened) == 1:
            one = opened[0]
            found[one] += self.surplus * (found[one] - found[1 - one])
        if self.tube_is_found:
            return self.tube_levels(function, float(np.mean(found)))
        return tuple(found)

    def _ends(self, value: np.ndarray, function: np.ndarray) -> list[_Ends]:
        """Where the slopes of each group end, some variables at a time."""
        if self.plain is not None:
            total = None if self.total is None else float(self.total)
            F = np.ascontiguousarray(function, dtype=float)
            return [_Ends(total, *_core.box_ends(self.sign * value, F, *self.plain))]
        totals = [total for _, total in self.groups()]
        down, up = [-np.inf] * len(totals), [np.inf] * len(totals)
        free: list[list[float]] = [[] for _ in totals]
        counts = [0] * len(totals)
        for part in self._parts():
            below, above = self.slopes(value, function, part)
            for g in range(len(totals)):
                lower, upper = below, above
                if self.group is not None:
                    own = np.asarray(self.group)[part] == g
                    lower, upper = below[own], above[own]
                down[g] = max(down[g], float(np.max(lower, initial=-np.inf)))
                up[g] = min(up[g], float(np.min(upper, initial=np.inf)))
                inside = lower[np.isfinite(lower) & (lower == upper)]
                free[g].append(float(np.sum(inside)))
                counts[g] += len(inside)
        return [
            _Ends(totals[g], down[g], up[g], fsum(free[g]), counts[g])
            for g in range(len(totals))
        ]

    def _parts(self) -> Iterator[slice]:
        """All variables, some at a time: sums over them take no memory."""
        for begin in range(0, len(self), PART):
            yield slice(begin, min(begin + PART, len(self)))

    def rounding(
        self,
        value: np.ndarray,
        entry_error: float = ENTRY_ERROR,
        moved: float = 0.0,
        size: float | None = None,
    ) -> float:
        """How far F = Kβ, summed in double, can be off at a point.

        Parameters
        ----------
        entry_error : of a kernel value, in units of 2⁻⁵³ max k(x, x)
        moved : Σ|Δβ| over all that was added to F, where it was not summed afresh
        size : max k(x, x), if it is known
        """
        coef = np.abs(self.coef(value))
        terms = int(np.count_nonzero(coef))
        # Of two variables of a point coef is the difference, and rounded.
        weight = max(float(np.abs(value).sum()), moved)
        if size is None:
            size = float(np.max(np.abs(self.gram.diag()), initial=0.0))
        error = entry_error + min(terms, RUN) + terms / RUN
        target = float(np.max(np.abs(self.target), initial=0.0))
        return UNIT * (error * size * weight + 2 * target)

    def violation_rounding(self, rounding: float) -> float:
        """How far the violation can be off where F can by `rounding` at each point.

        It is a difference of F at two points, unless nothing is fixed.
        """
        return rounding if self.total is None else 2 * rounding

    def objectives(
        self,
        value: np.ndarray,
        function: np.ndarray,
        level: Sequence[float],
        rounding: float | None = None,
    ) -> tuple[float, float]:
        """(primal, dual) of the machine: dual ≤ -(the minimum here) ≤ primal.

        primal = ½ βᵀKβ + Σₜ max { s b - tubeₜ|b| : b in its bounds } - Σ level·total
        with s = target - F + level: for `svc` the hinge loss times C, and so on. Where
        a bound is infinite, the condition is hard: f that misses the margin of an `svc`
        by a little is divided by what it reaches of it, so that primal bounds the
        optimum all the same; of other problems primal is then ∞.
        Either is moved outwards by what rounding may have done to it.

        Parameters
        ----------
        rounding : how far `function` can be off; None for `rounding(value)`
        """
        return self.bracket(value, function, level, rounding)[:2]

    def bracket(
        self,
        value: np.ndarray,
        function: np.ndarray,
        level: Sequence[float],
        rounding: float | None = None,
    ) -> Bracket:
        """The `objectives`, and how far they can be from those of exact arithmetic."""
        if rounding is None:
            rounding = self.rounding(value)
        reached = self._reached(function, level, rounding)
        if self.plain is not None:
            F, rho = np.ascontiguousarray(function, dtype=float), float(level[0])
            beta = self.sign * value
            sums: Sequence[float]
            sums = _core.box_sums(beta, F, *self.plain, rho, rounding)
        else:
            sums = self._sums(value, function, level, rounding, reached)
        square, linear, loss, weight, losing, size, losses = sums
        constant = fsum(
            rho * (total or 0.0)
            for (_, total), rho in zip(self.groups(), level, strict=True)
        )
        losses += abs(constant)
        dual = linear - square / 2
        scale = np.inf if reached == 0 else reached**-2
        primal = scale * square / 2 + loss - constant
        primal = np.inf if reached == 0 else primal
        digits = UNIT * (min(len(self), RUN) + len(self) / RUN + 4)
        below = weight * rounding + digits * size
        above = min(scale, 4.0) * below + losing * rounding + digits * losses
        below += self._imbalance(value, function)
        return Bracket(primal + above, dual - below, 2 * (above + below))

    def _sums(
        self,
        value: np.ndarray,
        function: np.ndarray,
        level: Sequence[float],
        rounding: float,
        reached: float,
    ) -> Sequence[float]:
        """The sums of `bracket`, some variables at a time."""
        found = [
            self._bracket_of(part, value, function, level, rounding, reached)
            for part in self._parts()
        ]
        return [fsum(column) for column in zip(*found, strict=True)] or [0.0] * 7

    def _bracket_of(
        self,
        part: slice,
        value: np.ndarray,
        function: np.ndarray,
        level: Sequence[float],
        rounding: float,
        reached: float,
    ) -> tuple[float, ...]:
        """What some of the variables add to the sums of `bracket`."""
        beta, target = self.sign[part] * value[part], self.target[part]
        low, high = (ends[part] for ends in self.bounds)
        tube: Any = 0.0 if self.tube is None else self.tube[part]
        F = self._at_variables(function, part)
        size = np.abs(beta)
        square = float(beta @ F)
        linear = float(target @ beta) - float(np.sum(tube * size))
        surplus = self._surplus(part, F, level)
        if 0 < reached < 1:
            surplus = target - (target - surplus) / reached
        loss = np.maximum(_reach(surplus, low, tube), _reach(surplus, high, tube))
        inside = (low <= 0) & (high >= 0)
        loss = np.where(inside, np.maximum(loss, 0), loss)
        # An error of F counts with β in the square, and with the bound where there is a
        # loss, or would be one if F were off by that much.
        rising, falling = surplus + rounding > tube, -surplus + rounding > tube
        ends = np.maximum(
            np.where(rising | ~inside, np.abs(high), 0.0),
            np.where(falling | ~inside, np.abs(low), 0.0),
        )
        losing = float(np.sum(ends[np.isfinite(ends)]))
        of_terms = float((np.abs(target) + np.abs(F)) @ size)
        losses = float(np.sum(np.abs(loss)[np.isfinite(loss)]))
        lost = float(np.sum(loss))
        return square, linear, lost, float(np.sum(size)), losing, of_terms, losses

    def _surplus(
        self, part: slice, F: np.ndarray, level: Sequence[float]
    ) -> np.ndarray:
        """s = target - F + level of some variables."""
        if self.group is None:
            return self.target[part] - F + level[0]
        return self.target[part] - F + np.asarray(level)[np.asarray(self.group)[part]]

    def judged(
        self,
        beta: np.ndarray,
        function: np.ndarray,
        entry_error: float,
        moved: float,
        size: float,
    ) -> tuple[np.ndarray, Judged] | None:
        """α of a `plain` problem, put right, and what is to be said of it, all at once.

        None where F has first to follow what is put right.

        Parameters
        ----------
        beta, function : what a solver found, and F = Kβ
        entry_error, moved, size : as of `rounding`
        """
        assert self.plain is not None
        beta, total = np.array(beta), np.nan if self.total is None else self.total
        settled, level, *numbers = _core.judge_box(
            beta, function, *self.plain, float(total), entry_error, size, moved
        )
        return (self.sign * beta, Judged((level,), *numbers)) if settled else None

    def _imbalance(self, value: np.ndarray, function: np.ndarray) -> float:
        """What the dual can gain by missing the sums that are fixed.

        Some variable has room for what is missing, though perhaps not the digits: with
        that much more or less of it β is feasible, and its dual below the optimum.
        """
        gain = 0.0
        for members, total in self.groups():
            if total is None:
                continue
            sign, some = self.sign[members], value[members]
            if len(some) <= PART:
                excess = _core.exact_excess(sign * some, total)
            else:
                starts = range(0, len(some), PART)
                parts = (slice(i, i + PART) for i in starts)
                betas = ((sign[part] * some[part]).tolist() for part in parts)
                excess = fsum(chain([-total], chain.from_iterable(betas)))
            if not excess:
                continue
            low, high = (ends[members] for ends in self.bounds)
            moved = sign * some - excess
            fits = (low <= moved) & (moved <= high)
            slope = np.abs(self._at_variables(function) - self.target)[members]
            slope += 0.0 if self.tube is None else self.tube[members]
            most = np.min(slope[fits]) if fits.any() else np.max(slope)
            gain += abs(excess) * float(most)
        return 2 * gain  # and its square, and the rounding of these

    def _reached(
        self, function: np.ndarray, level: Sequence[float], rounding: float
    ) -> float:
        """The least share of its hard margin that f reaches, rounding included.

        1 where all conditions hold, or none is hard; 0 where no multiple of f meets
        them, or only one of more than twice its size.
        """
        if self.has_finite_bounds:
            return 1.0
        low, high = self.bounds
        tube = np.zeros(len(self)) if self.tube is None else self.tube
        surplus = self._surplus(slice(None), self._at_variables(function), level)
        excess = np.maximum(
            np.where(np.isinf(high), surplus - tube, -np.inf),
            np.where(np.isinf(low), -surplus - tube, -np.inf),
        )
        missed = excess + rounding > 0
        if not missed.any():
            return 1.0
        margin = np.where(np.isinf(high[missed]), 1.0, -1.0) * self.target[missed]
        plain = not tube.any() and not np.any(self.total) and self.group is None
        if not plain or not np.all(margin > 0):
            return 0.0
        share = 1 - float(np.max((excess[missed] + rounding) / margin))
        return share if share > 0.5 else 0.0

    def _at_variables(
        self, function: np.ndarray, part: slice = slice(None)
    ) -> np.ndarray:
        F = np.asarray(function, dtype=float)
        return F[part].copy() if self.index is None else F[self.index[part]]


def _reach(surplus: np.ndarray, bound: np.ndarray, tube: np.ndarray) -> np.ndarray:
    """s b - tube|b| at a bound b; at an infinite one 0: its condition is hard."""
    finite = np.where(np.isfinite(bound), bound, 0.0)
    return surplus * finite - tube * np.abs(finite)
