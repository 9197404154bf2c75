"""Whether K is held in memory, for rows, for many problems, or for many passes.

With the roads of machines that ask for no more than that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.data.blocks import Blocks
from mercer.gram import Gram
from mercer.kernels.operators import Constant, Sum
from mercer.kernels.ways import Precomputed
from mercer.native import memory
from mercer.native.clock import OutOfTime, breakable
from mercer.solvers.auto.costs import on_features
from mercer.solvers.bayes import FEW as FEW_BASES
from mercer.solvers.bayes import affordable as room_for_matrix
from mercer.solvers.newton import Newton
from mercer.solvers.primal import has_small_map
from mercer.solvers.roads import Road, by_matrix, on_map
from mercer.solvers.smo import matrix_bytes


def held_for_rows(gram: Gram, n_problems: int, cache_mb: float | None) -> Gram:
    """The same, K in memory where several problems would compute its rows anew."""
    holds = holds_for_rows(gram, n_problems, cache_mb)
    return _held_in_time(gram) if holds else gram


def holds_for_rows(gram: Gram, n_problems: int, cache_mb: float | None) -> bool:
    """Whether `held_for_rows` holds K."""
    if n_problems == 1 or isinstance(gram.X, Blocks):
        return False
    scaled = gram.with_one_width()
    if scaled.kernel.native(scaled.X) is not None:
        return False
    if on_features(gram) or isinstance(gram.kernel, Precomputed):
        return False
    return 8.0 * gram.shape[0] ** 2 <= matrix_bytes(cache_mb)


def _held_in_time(gram: Gram, double: bool = False) -> Gram:
    """The same with K in memory, or without where that takes half of the time."""
    try:
        with breakable(0.5):
            return gram.held_in_double() if double else gram.held()
    except OutOfTime:
        return gram


def held_for_many(gram: Gram, by_map: bool = False) -> Gram:
    """The same Gram with K in memory, where several problems would each compute it.

    Parameters
    ----------
    by_map : whether an explicit map, where it is small, stands in for K
    """
    holds = holds_for_many(gram, by_map)
    return _held_in_time(gram, double=True) if holds else gram


def holds_for_many(gram: Gram, by_map: bool = False) -> bool:
    """Whether `held_for_many` holds K."""
    if isinstance(gram.kernel, Precomputed) or gram.is_held:
        return False
    if isinstance(gram.X, Blocks):
        return False
    if by_map and has_small_map(gram, Newton.direct):
        return False
    return memory.keeps(8.0 * gram.shape[0] ** 2)


def held_for_passes(gram: Gram) -> Gram:
    """K as a matrix that its points are places in, where it is slow, for many passes.

    Where the core computes kernel values itself, or K does not fit, the same Gram.
    """
    if not _holds_for_passes(gram):
        return gram
    held, n = _held_in_time(gram), gram.shape[0]
    return Gram(Precomputed(held.dense()), np.arange(n)) if held.is_held else gram


def _holds_for_passes(gram: Gram) -> bool:
    kernel = gram.kernel
    if isinstance(kernel, Sum) and isinstance(kernel.right, Constant):
        kernel = kernel.left  # k + 1 is as slow as k
    slow = kernel.native(gram.X) is None and not isinstance(kernel, Precomputed)
    return slow and memory.keeps(8.0 * gram.shape[0] ** 2)


def road_of_passes(gram: Gram, solver: Any, many: bool = True) -> Road:
    """That of a machine which visits its points one after another.

    Parameters
    ----------
    many : whether it does so more than once, and holds a slow K
    """
    held = many and _holds_for_passes(gram)
    return by_matrix(gram, solver) if held else Road("rows", gram, solver)


def road_of_evidence(gram: Gram, solver: Any) -> Road:
    """That of `EvidenceAscent`, which looks at all kernel values again and again."""
    gram = gram.double()
    if has_small_map(gram, FEW_BASES):
        return on_map(gram, solver)
    if room_for_matrix(gram):
        return by_matrix(gram, solver)
    return Road("products", gram, solver)
