"""Numerical derivatives of kernels with respect to a parameter, to about ten digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.data.points import Points
from mercer.kernels.base import Kernel

WIDEST = 2.0**-6  # step of numerical derivatives, relative to the parameter
HALVINGS = 24  # of it, at most
PRECISE = 1e-11  # relative error that ends them


def by_differences(
    kernel: Kernel, name: str, X: Points, Y: Points | None
) -> np.ndarray:
    """∂k(X, Y)/∂θ of a named parameter; of a list of p numbers (p, n, m)."""
    setting = kernel.get_params()[name]
    allowed = kernel.smooth_parameters()[name]

    def slope(changed: Callable[[float], Any], at: float) -> np.ndarray:
        # At the ends of the range to the one side there is.
        side = (at == allowed.low) - (at == allowed.high)
        return differenced(lambda v: moved(kernel, name, changed(v))(X, Y), at, side)

    if np.ndim(setting) == 0:
        return slope(float, float(setting))
    entries = [float(part) for part in setting]
    return np.stack(
        [
            slope(lambda v, r=r: [*entries[:r], v, *entries[r + 1 :]], at)  # type: ignore[misc]
            for r, at in enumerate(entries)
        ]
    )


def differenced(
    function: Callable[[float], np.ndarray], at: float, side: int = 0
) -> np.ndarray:
    """function′(at) by differences, extrapolated to steps of 0 (Ridders, 1982).

    Steps are halved until two extrapolations agree to 1e-11 of the largest entry, or
    rounding outgrows what halving gains; a step that the function refuses is halved
    too. About ten digits are right where the function is smooth.

    Parameters
    ----------
    side : 0 for central differences, 1 or -1 for those to the right or left
    """
    step = WIDEST * (abs(at) or 1.0)
    base = 2.0 if side else 4.0  # what an error of the lowest order shrinks by
    start = np.asarray(function(at), dtype=float) if side else 0.0
    before: list[np.ndarray] = []
    best, least = None, math.inf
    for _ in range(HALVINGS):
        try:
            end = np.asarray(function(at + (side or 1) * step), dtype=float)
            back = start if side else np.asarray(function(at - step), dtype=float)
        except ValueError:
            if before:
                raise
            step /= 2
            continue
        row = [(end - back) / (side * step if side else 2 * step)]
        for order, coarse in enumerate(before, 1):
            row.append(row[-1] + (row[-1] - coarse) / (base**order - 1))
        if before:
            scale = float(np.abs(row[-1]).max(initial=0.0))
            error = float(np.abs(row[-1] - before[-1]).max(initial=0.0))
            if error <= least:
                best, least = row[-1], error
            if least <= PRECISE * scale or error > 4 * least:
                break
        before = row
        step /= 2
    if best is None:
        function(at + (side or 1) * step)  # says why
        raise ValueError(f"There is no derivative at {at!r}.")
    return best


def moved(kernel: Kernel, path: str, setting: Any) -> Kernel:
    """The kernel with another value of a parameter; what is not changed is shared."""
    name, nested, rest = path.partition("__")
    parameters = kernel._parameters()
    if nested:
        child = parameters[name]
        if isinstance(child, Kernel):
            setting = moved(child, rest, setting)
        else:
            number, nested, rest = rest.partition("__")
            part = moved(child[int(number)], rest, setting)
            setting = type(child)(
                part if i == int(number) else other for i, other in enumerate(child)
            )
    return type(kernel)(**(parameters | {name: setting}))
