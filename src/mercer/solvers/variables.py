"""Numbers of the variables of a `BoxQP`: one for each, or one for all; their sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

PART = 2**16  # variables that are looked at together
FEW = 4096  # variables that have a number each, though it be the same for all


def is_one(values: np.ndarray) -> bool:
    """Whether an array is one number for all: it takes no memory then."""
    return values.ndim == 1 and values.strides == (0,) and len(values) > 0


def combined(operation: Any, *arrays: np.ndarray) -> np.ndarray:
    """operation(*arrays), one number for all where each of them is."""
    if all(map(is_one, arrays)):
        return np.broadcast_to(operation(*(a[0] for a in arrays)), arrays[0].shape)
    return operation(*arrays)


def per_variable(name: str, given: npt.ArrayLike, n: int) -> np.ndarray:
    """What was given under this name, as n numbers; one for all if they are many."""
    if n <= FEW and isinstance(given, float) and given == given:
        return np.full(n, given)
    values = np.asarray(given, dtype=float)
    if not is_one(values):
        values = np.ascontiguousarray(values).reshape(np.shape(given))
    if values.ndim > 1 or (values.ndim == 1 and len(values) != n):
        raise ValueError(
            f"BoxQP needs one {name}, or one for each of its {n} variables; got shape "
            f"{values.shape}."
        )
    if np.isnan(values).any():
        raise ValueError(f"BoxQP needs numbers; {name} has NaN.")
    return values if values.ndim else np.broadcast_to(float(values), (n,))


def mended(
    beta: np.ndarray, total: float, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """β within its bounds with Σβ = total, changed as little as need be.

    What pulls the other way is shrunk first, all of it alike; then the first variables
    are moved up to their bounds.
    """
    missing = total - beta.sum()
    # Rounding is not to take a variable off its bound: it would pass for a free one.
    if abs(missing) <= 1e-14 * np.abs(beta).sum():
        return beta
    homeward = np.clip(0, low, high)
    homeward -= beta
    homeward[(homeward > 0) != (missing > 0)] = 0
    towards = float(homeward.sum())
    if towards:
        homeward *= min(1.0, missing / towards)
        homeward += beta
        beta = homeward
        missing = total - beta.sum()
    else:
        beta = beta.copy()
    left = _move(beta, missing, high if missing > 0 else low)
    if left > 1e-9 * max(1.0, abs(total)):
        raise ValueError(
            f"BoxQP is infeasible: within their bounds the signed variables sum to "
            f"between {low.sum():g} and {high.sum():g}, not to {total:g}."
        )
    return beta


def _move(beta: np.ndarray, missing: float, bound: np.ndarray) -> float:
    """Add what is missing to the first variables, up to their bounds, in place.

    How much finds no room there.
    """
    left = abs(missing)
    for begin in range(0, len(beta), PART):
        part = slice(begin, begin + PART)
        whole = np.abs(bound[part] - beta[part])
        room = np.minimum(whole, left)
        step = np.clip(left - (np.cumsum(room) - room), 0, room)
        # Rounding is not to leave a variable just inside a bound that it should be at.
        full = (step > 0) & (step >= whole * (1 - 1e-12))
        moved = beta[part] + np.sign(missing) * step
        beta[part] = np.where(full, bound[part], moved)
        left = max(0.0, left - float(step.sum()))
        if not left:
            break
    return left
