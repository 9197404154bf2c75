"""What paths need of their kernels, weights and ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.gram import Gram
from mercer.kernels.checks import is_number
from mercer.native import lapack


def check_psd(name: str, gram: Gram) -> None:
    known = gram.kernel.psd
    if known is None:
        K = np.array(gram.double().dense(), dtype=float, order="F")
        # What rounding can do to an eigenvalue, and more.
        np.fill_diagonal(K, K.diagonal() + 1e-8 * np.abs(K.diagonal()).max(initial=1))
        known = lapack.factor(K)
    if not known:
        raise ValueError(
            f"{name} needs a positive semidefinite kernel, whose problems are convex; "
            f"{gram.kernel!r} is none. Choose another, or `mercer.repair` its matrix."
        )


def largest(gram: Gram) -> float:
    return float(np.max(np.abs(gram.diag()), initial=0.0)) or 1.0


def number_of(value: Any) -> float:
    """A number, or one in an array of its own; NaN for anything else."""
    value = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
    return float(value) if is_number(value) else np.nan


def checked_end(name: str, value: Any) -> float:
    number = number_of(value)
    if not number > 0:
        raise ValueError(
            f"A path needs {name} > 0, inf for the whole of it; got {name}={value!r}."
        )
    return number


def check_most(most: Any) -> None:
    """Refuse a largest number of breakpoints that is none."""
    whole = isinstance(most, int | np.integer) and not isinstance(most, bool)
    if not whole or most < 1:
        raise ValueError(
            f"A path needs a whole number max_breakpoints ≥ 1; got {most!r}."
        )


def check_weights(name: str, index: np.ndarray, n: int) -> None:
    if len(index) < n:
        raise ValueError(
            f"{name} needs weights > 0; {n - len(index)} of {n} points have none. "
            "Leave these points out."
        )
