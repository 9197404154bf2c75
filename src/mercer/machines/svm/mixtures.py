"""Support vector machines of several kernels, whose weights are learnt with f."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.data.points import Points
from mercer.gram import Gram
from mercer.machines.base import WeightedGram
from mercer.native.clock import breakable, seconds_left
from mercer.native.threads import blas_for
from mercer.solvers.auto import AutoSMO
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.multiple import (
    BoxFamily,
    Mixture,
    held_grams,
    to_be_weighed,
    weighted_road,
)
from mercer.solvers.roads import Road
from mercer.solvers.weights import WeightSearch, equal_weights


def weighed(
    machine: Any, counted: WeightedGram, state: Callable[[Gram], Sequence[BoxQP]]
) -> WeightedGram:
    """The same; of a `MultipleKernel`, the Gram of its sum with learnt weights.

    Parameters
    ----------
    state : gives the problems on a Gram of these points
    """
    before = machine.__dict__.pop("kernel_weights_", None)
    for name in ("_mixture", "kernel_shares_"):
        machine.__dict__.pop(name, None)
    kernel = to_be_weighed(counted.gram.kernel)
    if kernel is None or not machine._weighs_kernels:
        return counted
    n, norm = len(kernel.kernels), float(kernel.norm)
    start = equal_weights(n, norm)
    if machine.warm_start and before is not None and len(before) == n:
        start = np.maximum(before, 1e-6 * before.max())
    with breakable():  # there is no f without kernel values
        grams = held_grams(kernel, counted.gram)
    solver = partial(_solver, machine)
    family = BoxFamily(grams, state, solver, machine.tol, machine._watching())
    with blas_for(counted.gram.shape[0]):
        found = WeightSearch(norm, machine._tolerance).solve(family, start)
    machine._mixture = Mixture(kernel, grams, found)
    return replace(counted, gram=machine._mixture.gram)


def _solver(machine: Any, tol: float) -> AutoSMO:
    """What solves the problems of one choice of weights."""
    left = seconds_left()
    return AutoSMO(
        tol,
        cache_mb=None,  # K is in memory already
        max_iter=machine.max_iter,
        solver=machine.solver,
        time_limit=None if left is None else left / 2,
    )


def fitted_gram(
    machine: Any, X: Points, sample_weight: npt.ArrayLike | None
) -> WeightedGram:
    """`_weighted_gram` of a machine, with the weights of kernels that `fit` learnt."""
    counted: WeightedGram = machine._weighted_gram(X, sample_weight)
    kernel = to_be_weighed(counted.gram.kernel)
    if kernel is None:
        return counted
    gram = Gram(kernel.total(machine.kernel_weights_), counted.gram.X)
    return replace(counted, gram=gram)


def road_on(
    machine: Any,
    gram: Gram,
    state: Callable[[Gram], Sequence[BoxQP]],
    n_problems: int | None = None,
) -> Road:
    """How the problems on a Gram would be solved, several kernels among them."""
    kernel = to_be_weighed(gram.kernel)
    auto: AutoSMO = machine._auto()
    if kernel is None or not machine._weighs_kernels:
        return auto.road(state(gram), n_problems)
    some = Gram(kernel.total(np.ones(len(kernel.kernels))), gram.X)
    return weighted_road(kernel, auto.road(state(some), n_problems))
