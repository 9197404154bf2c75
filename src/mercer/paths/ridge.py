"""KernelRidge for every λ."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from sklearn.base import clone

from mercer.data.points import Points, count
from mercer.gram import Gram
from mercer.machines.ridge import KernelRidge
from mercer.native import lapack
from mercer.outcomes import Run, Solution, Status, Watch
from mercer.paths.checks import (
    check_psd,
    check_weights,
    number_of,
)
from mercer.solvers.linear import LinearSystem, WeightedSystem


@dataclass(frozen=True, eq=False)
class _GivenSystem:
    """Stands in for a solver of a `LinearSystem`: its solution is known."""

    value: np.ndarray
    tol: float = 1e-4

    def solve(
        self,
        problem: LinearSystem,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Solution:
        begin, system = time.perf_counter(), WeightedSystem(problem)
        z = system.scaled(self.value)
        image = system.root * (system.gram.double() @ (system.root * z))
        numbers, error = system.certified(z, image, self.tol)
        good = numbers["violation"] + error <= self.tol
        status = Status.OPTIMAL if good else Status.IMPRECISE
        run = Run(status, 0, time.perf_counter() - begin)
        return Solution(value=self.value, bias=0.0, **numbers, run=run)


class RidgePath:
    """KernelRidge for every λ > 0, from one eigendecomposition; made by `ridge_path`.

    Attributes
    ----------
    kernel : of all machines, with what it learnt from the points
    eigenvalues : of W^½KW^½, ascending; those below 0 by rounding are 0

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF
    >>> from mercer.paths import ridge_path
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(50 * X[:, 0])
    >>> path = ridge_path(RBF(1.0), X, y)
    >>> reg, error = path.best
    >>> machine = path(reg)
    >>> bool(np.isclose(np.mean((machine.loo_predictions_ - y) ** 2), error))
    True
    """

    def __init__(self, machine: KernelRidge, given: tuple[Any, ...], gram: Gram):
        self._machine, self._given, self.kernel = machine, given, gram.kernel
        _, y, weight = given
        target = np.asarray(y, dtype=float)
        self._shape, self._target = target.shape, target.reshape(len(target), -1)
        ones = np.ones(len(target)) if weight is None else np.asarray(weight, float)
        self._weight, self._root = ones, np.sqrt(ones)[:, None]
        G = self._root * np.asarray(gram.double().dense(), dtype=float) * self._root.T
        values, self._vectors = lapack.eigh(np.asfortranarray(G))
        self.eigenvalues = np.maximum(values, 0.0)
        self._projected = self._vectors.T @ (self._root * self._target)

    def __repr__(self) -> str:
        n, best = len(self._target), self.best
        return (
            f"<path of KernelRidge in alpha: {n} points, least error at {best[0]:.3g}>"
        )

    def _checked(self, reg: Any) -> float:
        number = number_of(reg)
        if not 0 < number < np.inf:
            raise ValueError(f"A path of KernelRidge needs 0 < λ < ∞; got {reg!r}.")
        return number

    def coef(self, reg: float) -> np.ndarray:
        """c of (K + λW⁻¹) c = y, in the shape of y."""
        inner = self._projected / (self.eigenvalues + self._checked(reg))[:, None]
        return (self._root * (self._vectors @ inner)).reshape(self._shape)

    def __call__(self, reg: float) -> KernelRidge:
        """The fitted machine at λ, with its certificate."""
        machine = clone(self._machine)
        known = _GivenSystem(self.coef(reg))
        machine.set_params(alpha=self._checked(reg), solver=known)
        return machine.fit(*self._given).set_params(solver=None)

    def loo_predictions(self, reg: float) -> np.ndarray:
        """What fits without each point say of it: yᵢ - cᵢ / [(K + λW⁻¹)⁻¹]ᵢᵢ."""
        scale = 1 / (self.eigenvalues + self._checked(reg))
        diagonal = self._weight * (self._squares @ scale)
        coef = self.coef(reg).reshape(self._target.shape)
        return (self._target - coef / diagonal[:, None]).reshape(self._shape)

    @cached_property
    def _squares(self) -> np.ndarray:
        return self._vectors**2

    def loo_errors(self, regs: npt.ArrayLike) -> np.ndarray:
        """The weighted mean of squared leave-one-out errors at each λ."""
        shares = self._weight / (self._weight.sum() * self._target.shape[1])
        found = []
        for reg in np.atleast_1d(np.asarray(regs, dtype=float)).tolist():
            left_out = self.loo_predictions(reg).reshape(self._target.shape)
            found.append(float(np.sum(shares @ (left_out - self._target) ** 2)))
        return np.array(found)

    @cached_property
    def best(self) -> tuple[float, float]:
        """The λ of least leave-one-out error, to a thousandth, and that error.

        Between the largest eigenvalue times 1e-12 and times 100.
        """
        largest = float(self.eigenvalues.max(initial=0.0)) or 1.0
        grid = largest * np.geomspace(1e-12, 100, 85)
        errors = self.loo_errors(grid)
        k = int(np.argmin(errors))
        low, high = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
        found = minimize_scalar(
            lambda log: float(self.loo_errors(np.exp(log))[0]),
            bounds=(float(np.log(low)), float(np.log(high))),
            method="bounded",
            options={"xatol": 1e-3},
        )
        if found.fun < errors[k]:
            return float(np.exp(found.x)), float(found.fun)
        return float(grid[k]), float(errors[k])


def ridge_path(
    kernel: Any,
    X: Points,
    y: Any,
    *,
    sample_weight: npt.ArrayLike | None = None,
) -> RidgePath:
    """KernelRidge for every λ: coefficients and leave-one-out errors in time n² each.

    Parameters
    ----------
    kernel : a kernel, or a word of KernelRidge's; it learns from all points once
    y : (n,) array, or (n, q) for q targets
    sample_weight : n numbers > 0; None for ones

    Examples
    --------
    >>> from mercer.paths import ridge_path
    >>> path = ridge_path("linear", [[1], [2], [3], [4]], [1, 2, 3, 4])
    >>> path(1.0).predict([[3]]).round(3).tolist()
    [2.903]
    """
    machine = KernelRidge(kernel=kernel)
    machine._validate_params()
    X, y = machine._validated(X, y, multi_output=True, y_numeric=True)
    weight = None
    if sample_weight is not None:
        weight = machine._checked_weight(sample_weight, X)
        check_weights("ridge_path", np.flatnonzero(weight > 0), count(X))
    X = machine._kept(X)
    gram = machine._gram(X, machine._weighted_points(X, None)[0], weight)
    check_psd("ridge_path", gram)
    if not machine._precomputed:
        machine.set_params(kernel=gram.kernel)
    return RidgePath(machine, (X, np.array(y, dtype=float), weight), gram)
