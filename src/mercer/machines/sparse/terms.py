"""What a sparse f is a sum of: kernel functions of points, or features.

Either states the problems of a fit, knows the coefficients of an earlier f, and makes
f of the few coefficients that are not 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.data.matching import carried_over
from mercer.data.points import count
from mercer.expansion import Expansion
from mercer.losses import Loss
from mercer.machines.base import FitData
from mercer.maps import FeatureExpansion, explicit
from mercer.native.sorting import distinct
from mercer.outcomes import Certificate, Solution
from mercer.solvers.lasso import L1Problem, certificate
from mercer.solvers.lasso_features import Design, FeatureProblem, feature_certificate


class PointTerms:
    """f = Σⱼ coefⱼ k(xⱼ, ·) + bias over the points that count."""

    def __init__(self, machine: Any, data: FitData):
        self.machine, self.data, self.gram = machine, data, data.gram

    def problem(
        self, target: np.ndarray, loss: Loss, reg: float, weight: np.ndarray
    ) -> L1Problem:
        bias = self.machine.fit_intercept
        return L1Problem(self.gram, target, loss, reg, weight, bias)

    def certificate(self, problem: L1Problem, solution: Solution) -> Certificate:
        return certificate(problem, solution)

    def before(self, n_outputs: int) -> np.ndarray | None:
        """coef of the last fit at these points, (n, q); None to start afresh."""
        f = getattr(self.machine, "expansion_", None)
        if not isinstance(f, Expansion) or f.n_outputs != n_outputs:
            return None
        rows = f.coef.reshape(-1, n_outputs)
        return carried_over(rows, f.points, self.gram.X, self.machine._places)

    def of(self, f: Expansion) -> np.ndarray:
        """coef of f, which was learnt from these data, at all points, (n, q)."""
        coef = np.zeros((count(self.data.given[0]), f.n_outputs))
        coef[self.machine.support_] = f.coef.reshape(-1, f.n_outputs)
        return coef[self.data.index]

    def expansion(
        self, used: np.ndarray, coef: np.ndarray, bias: float | np.ndarray
    ) -> Expansion:
        return self.machine._expanded(self.gram, self.data.given[0], coef, bias, used)

    def store(
        self, used: np.ndarray, coef: np.ndarray, bias: float | np.ndarray
    ) -> None:
        machine = self.machine
        machine.expansion_ = self.expansion(used, coef, bias)
        machine.support_ = self.data.index[used].astype(np.int32)
        machine._places = used
        machine.__dict__.pop("feature_names_", None)


class FeatureTerms:
    """f = Σⱼ coefⱼ φⱼ + bias over the coordinates of an explicit map."""

    def __init__(self, machine: Any, data: FitData):
        if machine._precomputed:
            raise ValueError(
                f"{type(machine).__name__}(on='features') needs points and the "
                "explicit map of a kernel; a matrix of kernel values has none. To "
                "choose columns of X itself, use kernel='linear'."
            )
        names = getattr(machine, "feature_names_in_", None)
        kernel = data.gram.kernel
        self.machine = machine
        self.design = Design(kernel, explicit(kernel, data.gram.X, names))

    def problem(
        self, target: np.ndarray, loss: Loss, reg: float, weight: np.ndarray
    ) -> L1Problem:
        bias, design = self.machine.fit_intercept, self.design  # type: Any, Any
        return FeatureProblem(design, target, loss, reg, weight, bias)

    def certificate(self, problem: L1Problem, solution: Solution) -> Certificate:
        return feature_certificate(solution)

    def before(self, n_outputs: int) -> np.ndarray | None:
        """coef of the last fit at these features, (p, q); None to start afresh."""
        f = getattr(self.machine, "expansion_", None)
        if not isinstance(f, FeatureExpansion) or f.n_outputs != n_outputs:
            return None
        return self.of(f)

    def of(self, f: FeatureExpansion) -> np.ndarray:
        """coef of f at all features of these points, (p, q)."""
        return f.at(self.design.keys).reshape(-1, f.n_outputs)

    def expansion(
        self, used: np.ndarray, coef: np.ndarray, bias: float | np.ndarray
    ) -> FeatureExpansion:
        keys, names = self.design.keys, self.design.features.names()
        return FeatureExpansion(
            self.design.kernel.copied(),
            [keys[j] for j in used],
            [names[j] for j in used],
            coef,
            bias,
        )

    def store(
        self, used: np.ndarray, coef: np.ndarray, bias: float | np.ndarray
    ) -> None:
        machine = self.machine
        for name in ("support_", "_places"):
            machine.__dict__.pop(name, None)
        machine.expansion_ = self.expansion(used, coef, bias)
        machine.feature_names_ = np.array(self.design.features.names(), dtype=object)
        machine._selected = used


class Columns:
    """The coefficients and biases of solution after solution, without their zeros."""

    def __init__(self) -> None:
        self.places: list[np.ndarray] = []
        self.values: list[np.ndarray] = []
        self.bias: list[float] = []

    def add(self, solution: Solution) -> None:
        places = np.flatnonzero(solution.value)
        self.places.append(places)
        self.values.append(solution.value[places])
        self.bias.append(float(solution.bias))

    def packed(self, single: bool = False) -> Sequence[Any]:
        """What any column uses, coef there, (s, q) or (s,) of a single one, and bias.

        Parameters
        ----------
        single : whether there is one column, which then is no axis
        """
        used = distinct(np.concatenate(self.places))
        coef = np.zeros((len(used), len(self.bias)))
        for j, (places, values) in enumerate(
            zip(self.places, self.values, strict=True)
        ):
            coef[np.searchsorted(used, places), j] = values
        if single:
            return used, coef[:, 0], self.bias[0]
        return used, coef, np.array(self.bias)
