"""Φ with K = ΦΦᵀ, where a kernel has a finite explicit map, and problems on it.

features_of(gram)    Φ of a Gram, made once and kept with it
partitioned_of(gram) the same of points in partitions, where it can be made
rows_of(gram)        the same for descent, in as few entries as it can be
placed_of(gram)      the same for products with vectors, in as little time as it can be
solution_on(...)     the solution of a `BoxQP` whose β was found on features
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer.data.blocks import Blocks
from mercer.data.partitions import Partitions
from mercer.data.points import Points, count, precision
from mercer.gram import Gram
from mercer.kernels.algebra import Normalized
from mercer.kernels.base import Kernel
from mercer.kernels.nystrom import Nystrom
from mercer.kernels.operators import Scaled
from mercer.kernels.string import WeightedDegree
from mercer.kernels.vector import Linear
from mercer.maps import dense_columns, explicit
from mercer.native import memory
from mercer.native.clock import breakable, tick
from mercer.outcomes import Run, Solution
from mercer.solvers.box_certificate import solution_of
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.feature_rows import (
    FeatureRows,
    PackedRows,
    PlacedRows,
    PlacedTries,
    SparseRows,
)
from mercer.solvers.partitioned_rows import (
    PartitionedRows,
    computed_rows,
    partitioned_rows,
)
from mercer.solvers.rounding import UNIT


def features_of(gram: Gram, once: bool = False) -> FeatureRows:
    """Φ of the points of a Gram, made when it is first asked for and kept with it.

    Where there is no room for it, or the points themselves are not in memory, its rows
    are computed whenever they are read.

    Parameters
    ----------
    once : whether it is read a few times only; of landmarks with a compiled kernel,
        kernel values then take less time than Φ itself
    """
    if gram._features is None and once and _is_quick(gram):
        gram._features = computed_rows(gram.kernel, gram.X)
    if gram._features is None:
        rows = _of_origin(gram)
        if rows is None:
            tick("features")
            rows = _made(gram.kernel, gram.X)
        gram._features = rows
    return gram._features


def partitioned_of(gram: Gram) -> PartitionedRows | None:
    """Φ of points in partitions, as of `features_of`; None where it cannot be made."""
    if gram._features is None:
        gram._features = partitioned_rows(gram.kernel, gram.X)
    return gram._features


def rows_of(gram: Gram) -> FeatureRows:
    """Φ of the points of a Gram for descent, in as few entries as it can be."""
    if isinstance(gram.X, Partitions):
        return features_of(gram)
    if gram._packed is None and gram._features is None:
        packed = _packed_map(gram.kernel, gram.X)
        gram._packed = None if packed is None else PackedRows(packed)
    return features_of(gram) if gram._packed is None else gram._packed


def placed_of(gram: Gram) -> FeatureRows:
    """Φ of the points of a Gram for products with vectors alone.

    By the tries of a weighted degree kernel, where these can be: of other kernels, as
    `rows_of` has it.
    """
    if gram._placed is None:
        tries = _placed_map(gram.kernel, gram.X)
        gram._placed = rows_of(gram) if tries is None else PlacedRows(tries)
    return gram._placed


def packed_entries(kernel: Kernel, X: Points) -> float | None:
    """How many entries Φ has at most, of maps that the core packs; None of others."""
    while isinstance(kernel, Scaled | Normalized):
        kernel = kernel.kernel
    return kernel.most_entries(X) if isinstance(kernel, WeightedDegree) else None


def placed_numbers(kernel: Kernel, X: Points) -> float | None:
    """How many places all points have, of maps that are tries; None of others."""
    while isinstance(kernel, Scaled | Normalized):
        kernel = kernel.kernel
    if not (isinstance(kernel, WeightedDegree) and kernel.can_be_placed(X)):
        return None
    return kernel.most_entries(X) / int(kernel.degree)


def _packed_map(kernel: Kernel, X: Points) -> SparseRows | None:
    """The rows as the core packs them, where it knows the map."""
    found = _factored(kernel, X)
    if found is None:
        return None
    tick("features")
    return found.kernel.packed(X, found.factor)


def _placed_map(kernel: Kernel, X: Points) -> PlacedTries | None:
    """The tries of the stretches at their places, where the core can make them."""
    found = _factored(kernel, X)
    if found is None:
        return None
    tick("features")
    return found.kernel.placed(X, found.factor)


class _Factored(NamedTuple):
    """A weighted degree kernel, and what each φ(x) is multiplied by; None for 1."""

    kernel: WeightedDegree
    factor: np.ndarray | None


def _factored(kernel: Kernel, X: Points) -> _Factored | None:
    """The weighted degree kernel that is scaled or normalized; None for others."""
    if not has_tries(kernel):
        return None
    factor = np.ones(count(X))
    while isinstance(kernel, Scaled | Normalized):
        if isinstance(kernel, Scaled):
            factor *= np.sqrt(float(kernel.factor))
        else:
            squares = kernel.kernel.diag(X)
            if not squares.all():
                return None  # points without any part are alike
            factor /= np.sqrt(squares)
        kernel = kernel.kernel
    assert isinstance(kernel, WeightedDegree)
    return _Factored(kernel, None if np.all(factor == 1) else factor)


def has_tries(kernel: Kernel) -> bool:
    """Whether it is a weighted degree kernel, scaled or normalized or as it is."""
    while isinstance(kernel, Scaled | Normalized):
        kernel = kernel.kernel
    return isinstance(kernel, WeightedDegree)


def _is_quick(gram: Gram) -> bool:
    """Whether products with Φ are quick without it."""
    kernel = gram.kernel
    if gram._origin is not None or not isinstance(kernel, Nystrom):
        return False
    compiled = kernel.kernel.native(kernel.base_points()) is not None
    return compiled and kernel.is_well_conditioned


def _made(kernel: Kernel, X: Points) -> FeatureRows:
    if isinstance(X, Partitions):
        return computed_rows(kernel, X)
    columns = dense_columns(kernel, X)
    if columns is not None and is_computed(kernel, X, columns):
        return computed_rows(kernel, X)
    with breakable():  # there is nothing to solve without them
        return FeatureRows(explicit(kernel, X).matrix)


def is_computed(kernel: Kernel, X: Points, columns: int) -> bool:
    """Whether Φ, of so many columns, is computed when it is read, and not kept."""
    if isinstance(X, Blocks):
        return True
    there = isinstance(kernel, Linear) and precision(X) == np.float64
    return not there and not memory.keeps(8.0 * count(X) * columns)


def _of_origin(gram: Gram) -> FeatureRows | None:
    """Rows of Φ of the Gram whose points these were taken from, where it has them."""
    if gram._origin is None:
        return None
    origin, index = gram._origin
    rows = origin._features
    # Where Φ are the points themselves, they have been taken already.
    if rows is None or (not rows.computed and rows.matrix is origin.X):
        return None
    return rows.take(index)


# Problems on features


def check_bounds(solver: object, problem: BoxQP) -> None:
    """Refuse bounds that a solver on features cannot work with."""
    if not problem.has_finite_bounds:
        raise ValueError(
            f"{type(solver).__name__} needs finite bounds; this BoxQP has infinite "
            "ones. Choose a finite C, or let AutoSMO choose the solver."
        )


def totals_of(problem: BoxQP) -> np.ndarray:
    """What β sums to in each group; empty where nothing is fixed."""
    if problem.total is None:
        return np.empty(0)
    return np.atleast_1d(np.asarray(problem.total, dtype=float))


def settled(problem: BoxQP, beta: np.ndarray) -> np.ndarray:
    """β at its bounds, where rounding keeps it off them, with the sums asked for.

    A variable that rounding keeps off its bound would pass for a free one.
    """
    value = problem.snapped(problem.sign * beta, slack=1e-13)
    value = problem.balanced(value, overwrite=True)
    value *= problem.sign
    return value


class Evaluated(NamedTuple):
    """β with w = Φᵀβ and F = Φw, summed from β alone in double precision."""

    beta: np.ndarray
    w: np.ndarray
    function: np.ndarray


def solution_on(
    rows: FeatureRows,
    problem: BoxQP,
    beta: np.ndarray,
    run: Run,
    tol: float,
    known: Evaluated | None = None,
) -> Solution:
    """The solution with these β, F = Φ(Φᵀβ) summed afresh, and its certificate.

    Parameters
    ----------
    run : with the status "optimal" where the solver came to its end; what is stated
        follows from the violation
    known : of rows that are computed; read where its β are these
    """
    value = problem.sign * settled(problem, beta)
    if problem.tube_is_found:
        # As `certify` does it, from coef and the bias alone.
        coef = problem.coef(value)
        function = rows.times(rows.pull(coef))
        rho = float(np.mean(problem.level(value, function)))
        value = problem.balanced(problem.split(coef, function, rho))
    coef = problem.coef(value)
    if known is not None and np.array_equal(problem.sign * value, known.beta):
        w, function = known.w, known.function
        rounding = rows.rounding(coef, w)
    else:
        w, function, rounding = rows.evaluated(coef)
    if rows.center is not None:
        # What all φ(x) have in common adds the same to F at all points.
        common = float(rows.center @ w)
        function += common
        rounding += UNIT * (abs(common) + float(np.abs(rows.center) @ np.abs(w)))
    rounding += 2 * UNIT * float(np.max(np.abs(problem.target), initial=0.0))
    # ΦΦᵀ is semidefinite.
    return solution_of(problem, value, function, rounding, tol, run, refuted=False)
