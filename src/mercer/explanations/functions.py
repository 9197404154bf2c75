"""What a machine says of points, as a function that can be taken apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from mercer.contributions.models import Model, OnFeatures, OnPoints
from mercer.data.blocks import Blocks
from mercer.data.checks import brief
from mercer.data.points import Points, as_points, count, double
from mercer.kernels.base import Kernel
from mercer.kernels.slopes import slopes, slopes_of_square
from mercer.kernels.vector import is_vectors
from mercer.machines.base import Machine
from mercer.maps import FeatureExpansion


@dataclass(frozen=True, eq=False)
class Function:
    """f(x) = square · k(x, x) + Σᵢ coefᵢ k(xᵢ, x) + bias, and the points to explain.

    Parameters
    ----------
    f : what has its values, without the square
    bias : (c,) array
    measured : whose k(x, x) it is
    """

    f: Any
    X: Points
    coef: np.ndarray
    bias: np.ndarray
    outputs: list[str]
    several: bool
    columns: list[str] | None
    names: Callable[[int], str]
    square: float = 0.0
    measured: Kernel | None = None
    chosen: tuple[int, ...] | None = None

    @property
    def kernel(self) -> Kernel:
        return self.f.kernel

    @cached_property
    def model(self) -> Model:
        if isinstance(self.f, FeatureExpansion):
            known = dict(zip(self.f.keys, self.coef, strict=True))
            return OnFeatures(known, self.coef.shape[1])
        return OnPoints(double(self.f.points), self.coef)

    def squares(self) -> np.ndarray:
        """square · k(x, x) of the points."""
        if not self.square or self.measured is None:
            return np.zeros(count(self.X))
        return self.square * np.asarray(self.measured.diag(self.X), dtype=float)

    def values(self) -> np.ndarray:
        """f at the points, (m, c)."""
        if isinstance(self.model, OnFeatures):
            every = np.asarray(self.f(self.X) - self.f.bias)
            inner = every.reshape(count(self.X), self.f.n_outputs)
            inner = inner if self.chosen is None else inner[:, self.chosen]
        else:
            inner = self.kernel.matmul(self.X, self.model.points, self.coef)
        return inner + self.squares()[:, None] + self.bias

    def only(self, output: str | int | None) -> Function:
        """The function with one of its outputs; None for all."""
        if output is None:
            return self
        c = len(self.outputs)
        if output in self.outputs:
            j = self.outputs.index(str(output))
        elif isinstance(output, int | np.integer) and 0 <= output < c:
            j = int(output)
        else:
            raise ValueError(
                f"This machine has no output {brief(output)}; its outputs, 0 to "
                f"{c - 1}, are {', '.join(map(repr, self.outputs))}."
            )
        return replace(
            self,
            coef=self.coef[:, [j]],
            bias=self.bias[[j]],
            outputs=[self.outputs[j]],
            chosen=(j,),
        )

    def slope(self, i: int, j: int) -> Callable[[], np.ndarray | None]:
        """∂f/∂x at point i."""

        def gradient() -> np.ndarray | None:
            if not (is_vectors(self.X) and isinstance(self.model, OnPoints)):
                return None
            Z, points = (_dense(part) for part in (self.X[[i]], self.model.points))
            W = self.coef[:, j][None]
            slope = slopes(self.kernel, Z, points, W)[0]
            if self.square and self.measured is not None:
                slope = slope + self.square * slopes_of_square(self.measured, Z)[0]
            return slope

        return gradient


def _dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float)


def function_of(machine: Any, X: Points) -> Function:
    if isinstance(machine, Pipeline):
        check_is_fitted(machine)
        columns = None
        if len(machine) > 1:
            columns = _columns_out(machine[:-1], X)
            X = machine[:-1].transform(X)
        function = function_of(machine[-1], X)
        return function if columns is None else replace(function, columns=columns)
    if not isinstance(machine, Machine):
        raise TypeError(
            f"explain takes a machine of this library, or a pipeline that ends with "
            f"one; got {brief(machine)}."
        )
    check_is_fitted(machine)
    f, scale, bias, square = machine._as_sum()
    X = double(machine._validated_points(as_points(X), reset=False))
    if isinstance(getattr(f, "points", None), Blocks):
        raise ValueError(
            f"The {type(machine).__name__} stands on points that are read in blocks. "
            "Fit it on points in memory, or on Nystrom(kernel, size)."
        )
    coef = scale * f.coef.reshape(len(f.coef), f.n_outputs)
    columns = getattr(machine, "feature_names_in_", None)
    return Function(
        f,
        X,
        coef,
        np.broadcast_to(np.asarray(bias, dtype=float), (f.n_outputs,)),
        machine._output_names(),
        f.coef.ndim == 2,
        None if columns is None else [str(name) for name in columns],
        _point_names(machine, len(f.coef)),
        square,
        getattr(machine, "approximation_", f.kernel),
    )


def _columns_out(steps: Pipeline, X: Points) -> list[str] | None:
    try:
        return [str(name) for name in steps.get_feature_names_out()]
    except (AttributeError, ValueError):  # steps that do not name what they make
        return None


def _point_names(machine: Any, n: int) -> Callable[[int], str]:
    if hasattr(machine, "approximation_"):
        return lambda i: f"landmark {i}"
    index = getattr(machine, "support_", None)
    if index is None or len(index) != n:
        return lambda i: f"point {i}"
    return lambda i: f"point {int(index[i])}"
