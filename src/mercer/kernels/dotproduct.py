"""Functions of ⟨x, y⟩ that need not be kernels, and the search for points that show it.

The conditions on f(⟨x, y⟩) are from Burges, "Geometry and invariance in kernel based
methods" (1999).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mercer.data.points import Points
from mercer.kernels import latex
from mercer.kernels.base import Rule
from mercer.kernels.checks import (
    Range,
    check_positive,
)
from mercer.kernels.vector import TransformedKernel, inverse_variance
from mercer.kernels.ways import check_callable, dense


@dataclass
class DotProduct(TransformedKernel):
    """k(x, y) = function(⟨x, y⟩) for a function of one's own.

    Its rule tests three conditions that a kernel meets on t in [0, t_max]: f ≥ 0,
    f′ ≥ 0 and f′ + t f″ ≥ 0. They are necessary, not sufficient. It also looks for
    points with ‖x‖² ≤ t_max and an indefinite Gram matrix.

    Parameters
    ----------
    function : takes an array of numbers t, returns f(t) for each
    t_max : the largest ‖x‖² for which the conditions are tested

    Examples
    --------
    >>> from mercer import DotProduct
    >>> DotProduct(lambda t: (1 + t) ** 2).value([1, 2], [3, 1])
    36.0
    >>> DotProduct(lambda t: 1 - t).psd
    False
    """

    function: Callable[[np.ndarray], Any]
    t_max: float = 1.0

    def __post_init__(self) -> None:
        check_callable(self, "function", self.function)
        check_positive(self, "t_max", self.t_max)

    def transform(self, sums: np.ndarray) -> np.ndarray:
        image = dense(self.function(sums))
        if image.shape != sums.shape:
            raise ValueError(
                f"The function of DotProduct takes an array of numbers and must return "
                f"one for each, shape {sums.shape}; it returned shape {image.shape}. "
                "Use numpy's functions, or np.vectorize."
            )
        return image

    def rule(self) -> Rule:
        return self._verdict

    @cached_property
    def _verdict(self) -> Rule:
        found = indefinite(self.transform, candidate_points(self.t_max))
        if found is not None:
            return Rule(False, f"f(⟨x, y⟩) is not a kernel: {found}")
        broken = self._broken_conditions()
        holds = (
            f"but {' and '.join(broken)}, which a kernel never does"
            if broken
            else "f ≥ 0, f′ ≥ 0 and f′ + t f″ ≥ 0 hold"
        )
        return Rule(
            None,
            f"f(⟨x, y⟩) of the user's: {holds} on a grid of [0, {self.t_max}]. These "
            "conditions are necessary, not sufficient: whether it is a kernel is open",
        )

    def _broken_conditions(self) -> list[str]:
        # In u = ln t they read: f ≥ 0, f increases, f is convex. On a grid even in u
        # first and second differences decide that without an error of discretisation.
        t = self.t_max * np.geomspace(1e-6, 1, 200)
        f = self.transform(t)
        slack = 1e-12 * np.abs(f).max()
        tests = {"f ≥ 0": f, "f′ ≥ 0": np.diff(f), "f′ + t f″ ≥ 0": np.diff(f, 2)}
        return [
            f"{condition} fails at t = {t[np.argmax(value < -slack)]:.3g}"
            for condition, value in tests.items()
            if (value < -slack).any()
        ]


@dataclass
class Sigmoid(TransformedKernel):
    """k(x, y) = tanh(gamma ⟨x, y⟩ + offset), which is not positive semidefinite.

    Parameters
    ----------
    gamma : float > 0, or None for 1 / (d · var X), fixed by `resolve`

    Examples
    --------
    >>> from mercer import Sigmoid
    >>> k = Sigmoid(gamma=0.5, offset=-1)
    >>> round(k.value([1, 1], [2, 2]), 4), k.psd
    (0.7616, False)
    """

    smooth = Range.positive("gamma") | Range.any("offset")

    gamma: float | None = None
    offset: float = 0.0

    def __post_init__(self) -> None:
        check_positive(self, "gamma", self.gamma, optional=True)
        if not math.isfinite(self.offset):
            raise ValueError(f"Sigmoid needs a finite offset; got {self.offset!r}.")

    def transform(self, sums: np.ndarray) -> np.ndarray:
        return np.tanh(float(self._resolved("gamma")) * sums + float(self.offset))

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> Sigmoid:
        if self.gamma is not None:
            return self
        return Sigmoid(inverse_variance(self, "gamma", X, weight), self.offset)

    def rule(self) -> Rule:
        known = self if self.gamma is not None else Sigmoid(1.0, self.offset)
        case = "" if self.gamma is not None else "with gamma=1, for one, "
        unit = 1 / math.sqrt(known._resolved("gamma"))
        # tanh saturates: a point and a multiple far out, or two opposite ones and 0.
        sets = {
            False: [[[0.3], [9.0]], [[0.0], [1.0], [-1.0]]],
            True: [[[0.0]]],
        }[self.offset < 0]
        far = math.sqrt(20 + 2 * max(self.offset, 0))
        scaled = [unit * (far if len(s) == 3 else 1) * np.array([s]) for s in sets]
        return Rule(False, f"{case}{indefinite(known.transform, scaled)}")

    def _formula(self, x: str, y: str) -> latex.Formula:
        gamma, offset = latex.factor(self.gamma, r"\gamma"), float(self.offset)
        sign = "-" if offset < 0 else "+"
        shift = f" {sign} {latex.number(abs(offset))}" if offset else ""
        text = rf"\tanh\left({gamma}{latex.inner(x, y)}{shift}\right)"
        return latex.Formula(text, latex.FUNCTION)


def candidate_points(t_max: float) -> Iterable[np.ndarray]:
    """(B, n, d) arrays, B sets of n points with ‖x‖² ≤ t_max, for `indefinite`."""
    reach = 0.999 * math.sqrt(t_max)  # so that rounding does not leave the ball
    half = np.geomspace(1e-3, 1, 16)
    line = reach * np.concatenate([-half[::-1], [0], half])
    first, second = np.triu_indices(len(line), 1)
    yield line[:, None, None]
    yield np.stack([line[first], line[second]], axis=1)[:, :, None]
    rng = np.random.default_rng(0)
    for d in (1, 2, 3):
        sets = rng.normal(size=(64, 6, d))
        lengths = np.linalg.norm(sets, axis=2, keepdims=True)
        yield reach * sets / lengths * rng.uniform(size=lengths.shape) ** (1 / d)


def indefinite(
    f: Callable[[np.ndarray], np.ndarray], sets: Iterable[np.ndarray]
) -> str | None:
    """Points on which f(⟨x, y⟩) is indefinite, in words; None if there are none."""
    worst, words = -1e-9, None
    for batch in sets:
        if worst < -1e-3:
            break  # clear enough, and on as few points as possible
        batch = _rounded(batch)
        size, n, _ = batch.shape
        inner = (batch @ batch.transpose(0, 2, 1)).reshape(-1, n)
        grams = f(inner).astype(float).reshape(size, n, n)
        largest = np.abs(grams).max(axis=(1, 2))
        usable = np.isfinite(largest) & (largest > 0)
        if not usable.any():
            continue
        lowest = np.full(size, np.inf)
        lowest[usable] = np.linalg.eigvalsh(grams[usable])[:, 0]
        relative = lowest / np.where(usable, largest, 1)
        i = int(np.argmin(relative))
        if relative[i] < worst:
            worst = relative[i]
            words = (
                f"the points {batch[i].tolist()} give a Gram matrix with the "
                f"eigenvalue {lowest[i]:.4g}"
            )
    return words


def _rounded(batch: np.ndarray) -> np.ndarray:
    """The numbers to four digits, so that they can be read and typed."""
    return np.vectorize(lambda v: float(f"{v:.4g}"))(batch)
