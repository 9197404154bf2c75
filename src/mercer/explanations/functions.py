"""What a machine says of points, as a function that can be taken apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from mercer.contributions.models import Model, OnFeatures, OnPoints
from mercer.data.blocks import Blocks
from mercer.data.checks import brief
from mercer.data.points import Points, as_points, count, double
from mercer.kernels.base import Kernel
from mercer.kernels.slopes import slopes, slopes_of_square
from mercer.kernels.vector import is_vectors
from mercer.kernels.ways import Precomputed
from mercer.machines.base import KernelSum, Machine
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

    def only(self, j: int) -> Function:
        """The function with one of its outputs."""
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
            of_vectors = is_vectors(self.X) and not _is_of_places(self.kernel)
            if not (of_vectors and isinstance(self.model, OnPoints)):
                return None
            Z, points = (_dense(part) for part in (self.X[[i]], self.model.points))
            W = self.coef[:, j][None]
            slope = slopes(self.kernel, Z, points, W)[0]
            if self.square and self.measured is not None:
                slope = slope + self.square * slopes_of_square(self.measured, Z)[0]
            return slope

        return gradient


def chosen(functions: list[Function], output: str | int | None) -> list[Function]:
    """The function that has this output, with no other; None for all."""
    if output is None:
        return functions
    of = [(f, j) for f in functions for j in range(len(f.outputs))]
    names = [f.outputs[j] for f, j in of]
    if output in names:
        place = names.index(str(output))
    elif isinstance(output, int | np.integer) and 0 <= output < len(of):
        place = int(output)
    else:
        raise ValueError(
            f"This machine has no output {brief(output)}; its outputs, 0 to "
            f"{len(of) - 1}, are {', '.join(map(repr, names))}."
        )
    function, j = of[place]
    return [function.only(j)]


def _is_of_places(kernel: Kernel) -> bool:
    """Whether points are numbers of rows of a matrix, along which nothing changes."""
    some = map(_is_of_places, kernel.children())
    return isinstance(kernel, Precomputed) or any(some)


def _dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float)


def functions_of(machine: Any, X: Points) -> list[Function]:
    """What a machine says of the points, a function for each of its kernels."""
    if isinstance(machine, Pipeline):
        check_is_fitted(machine)
        columns = None
        if len(machine) > 1:
            columns = _columns_out(machine[:-1], X)
            X = machine[:-1].transform(X)
        functions = functions_of(machine[-1], X)
        if columns is None:
            return functions
        return [replace(function, columns=columns) for function in functions]
    if isinstance(machine, BaseSearchCV):
        check_is_fitted(machine, "cv_results_")
        if not hasattr(machine, "best_estimator_"):
            raise ValueError(
                f"{type(machine).__name__}(refit={machine.refit!r}) keeps no fitted "
                "machine. Use refit=True, or fit one with best_params_."
            )
        return functions_of(machine.best_estimator_, X)
    if not isinstance(machine, Machine):
        raise TypeError(
            f"explain takes a machine of this library, or a pipeline or a search that "
            f"ends with one; got {brief(machine)}."
        )
    check_is_fitted(machine)
    sums, outputs = machine._as_sums(), machine._output_names()
    X = double(machine._validated_points(as_points(X), reset=False))
    functions = []
    for part in sums:
        functions.append(_function(machine, part, X, outputs[: part.f.n_outputs]))
        outputs = outputs[part.f.n_outputs :]
    return functions


def _function(
    machine: Machine, part: KernelSum, X: Points, outputs: list[str]
) -> Function:
    f = part.f
    if isinstance(getattr(f, "points", None), Blocks):
        raise ValueError(
            f"The {type(machine).__name__} stands on points that are read in blocks. "
            "Fit it on points in memory, or on Nystrom(kernel, size)."
        )
    columns = getattr(machine, "feature_names_in_", None)
    return Function(
        f,
        X,
        part.scale * f.coef.reshape(len(f.coef), f.n_outputs),
        np.broadcast_to(np.asarray(part.bias, dtype=float), (f.n_outputs,)),
        outputs,
        f.coef.ndim == 2,
        None if columns is None else [str(name) for name in columns],
        _point_names(machine, part),
        part.square,
        getattr(machine, "approximation_", f.kernel),
    )


def _columns_out(steps: Pipeline, X: Points) -> list[str] | None:
    try:
        return [str(name) for name in steps.get_feature_names_out()]
    except (AttributeError, ValueError):  # steps that do not name what they make
        return None


def _point_names(machine: Machine, part: KernelSum) -> Callable[[int], str]:
    if hasattr(machine, "approximation_"):
        return lambda i: f"landmark {i}"
    index = getattr(machine, "support_", None) if part.places is None else part.places
    if index is None or len(index) != len(part.f.coef):
        return lambda i: f"point {i}"
    return lambda i: f"point {int(index[i])}"
