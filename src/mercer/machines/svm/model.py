"""A fitted support vector machine: its certificate, and scikit-learn's attributes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils._sparse import _align_api_if_sparse
from sklearn.utils.validation import check_is_fitted

from mercer import multiclass
from mercer.data.points import Points, count, double, take
from mercer.gram import Gram
from mercer.kernels.base import Kernel, row_blocks
from mercer.kernels.vector import Linear
from mercer.machines.base import Machine, WeightedGram, biases
from mercer.machines.labels import check_same
from mercer.maps import FeatureExpansion, Features, explicit, has_quick_map
from mercer.native.vectors import symmetric_product
from mercer.outcomes import Certificate, together
from mercer.solvers.box_certificate import certified
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.multiple import (
    KernelShares,
    over_weights,
    piece,
    sizes_of,
    squares,
    squares_rounding,
)


class SupportVectorModel(Machine):
    """f on its support vectors, by scikit-learn's names for what it is made of."""

    support_: np.ndarray
    kernel_weights_: np.ndarray  # of a `MultipleKernel`
    kernel_shares_: KernelShares
    _certificate: Certificate  # primal and dual perhaps still to be completed
    shape_fit_: tuple[int, ...]
    fit_status_: int
    _sparse: bool  # whether the points were

    # The certificate, reported and recomputed

    @property
    def certificate_(self) -> Certificate:
        """How good f is: dual ≤ optimum ≤ primal, and what it took.

        Where nearly all support vectors are at their bound, what `fit` sums in double
        suffices for the violation and the gap; ‖f‖², half of which primal and dual have
        in common, is summed when they are first asked for.
        """
        check_is_fitted(self)
        found = self._certificate
        if not np.isnan(found.square):
            f = self.expansion_
            gram = Gram(f.kernel, double(f.points)).with_one_width()
            coef = np.asarray(f.coef, dtype=float)
            values = symmetric_product(gram.kernel.native(gram.X), gram.X, coef)
            found = self._certificate = found.completed(float(coef @ values))
        return found

    def _recomputed(
        self,
        X: Points,
        counted: WeightedGram,
        problems: Sequence[BoxQP],
        parts: Sequence[Any],
    ) -> Certificate:
        """The certificate from the points and f alone, in float64, by dense blocks."""
        check_same(self, count(X))
        f = self._of_points
        coef = np.zeros((count(X), f.n_outputs))
        coef[self.support_] = f.coef.reshape(-1, f.n_outputs)
        coef = coef[counted.index]
        bias = np.atleast_1d(self.expansion_.bias)
        values, indefinite = dense_values(counted.gram, coef)
        found, solved = [], []
        for j, problem in enumerate(problems):
            members, _ = multiclass.cells(parts, j)
            beta = coef[members, j]
            # f of a problem on some points is 0 off them: the column is already theirs.
            function = problem.unscaling(beta) * values[members, j]
            value, level = problem.inverse(beta, bias[j], function)
            found.append(certified(problem, value, function, level, indefinite))
            solved.append(piece(problem, value, np.arange(len(coef))[members]))
        if not hasattr(self, "kernel_weights_"):
            return together(found)
        kernels, norm = self.kernel_shares_.kernels, float(self.kernel.norm)
        grams = [Gram(kernel, double(counted.gram.X)) for kernel in kernels]
        return over_weights(
            together(found),
            self.kernel_weights_,
            squares(grams, solved),
            norm,
            squares_rounding(sizes_of(grams), solved),
        )

    # scikit-learn's attributes, read from f

    @property
    def _function(self) -> Any:
        """f: an `Expansion`, or of many classes a `PairExpansion`."""
        return self.expansion_

    @property
    def support_vectors_(self) -> Points:
        """The support vectors; for "precomputed" an empty (0, 0) array."""
        if self._precomputed:
            return np.empty((0, 0))
        points = self._dual_function.points
        if points is None:
            raise AttributeError(
                f"{type(self).__name__} keeps what f needs, expansion_.points, and not "
                "its support vectors: these are X[support_], X the points it was "
                "fitted on."
            )
        return points

    @property
    def _dual_function(self) -> Any:
        """f on the support vectors: `_function`, unless that is on landmarks."""
        return self.__dict__.get("_dual") or self._function

    @property
    def dual_coef_(self) -> np.ndarray:
        """The coefficients, a row for each function; sparse where the points are."""
        rows = np.ascontiguousarray(self._dual_rows())
        if not self._sparse:
            return rows
        return _align_api_if_sparse(sp.csr_array(rows))

    @property
    def intercept_(self) -> np.ndarray:
        """The biases, one for each function."""
        return biases(self._function)

    @property
    def coef_(self) -> np.ndarray:
        """w of f(x) = ⟨w, φ(x)⟩ + b, a row for each function.

        φ(x) = x for the linear kernel. Of another kernel that is given as an object,
        and has an explicit map, the columns are those that occur in the support
        vectors, with the names `feature_names_`.
        """
        if hasattr(self, "approximation_"):
            coef = self.expansion_.coef
            rows = self.approximation_.weights_of(coef.reshape(len(coef), -1)).T
            rows = np.ascontiguousarray(rows)
            rows.flags.writeable = False
            return rows
        f = self._function
        if isinstance(f, FeatureExpansion):
            rows = np.array(f.coef.reshape(-1, f.n_outputs).T)
            rows.flags.writeable = False
            return rows
        features = None if self._is_linear else self._explicit
        pairs = isinstance(f, multiclass.PairExpansion)
        coef = f.matrix() if pairs else f.coef.reshape(-1, f.n_outputs)
        if features is not None:
            weights = features.matrix.T @ coef
            rows = np.ascontiguousarray(np.asarray(weights).T)
            rows.flags.writeable = False
            return rows
        rows = coef.T @ f.points
        if self._sparse:
            rows = _align_api_if_sparse(sp.csr_array(rows))
            rows.data.flags.writeable = False
        else:
            rows.flags.writeable = False
        return rows

    @property
    def feature_names_(self) -> list[str]:
        """What the columns of `coef_` stand for."""
        if self._is_linear and hasattr(self, "feature_names_in_"):
            return [str(name) for name in self.feature_names_in_]
        if hasattr(self, "approximation_"):
            return self.approximation_.feature_names()
        if isinstance(self._function, FeatureExpansion):
            return list(self._function.names)
        return list(self._explicit.names())

    @property
    def _is_linear(self) -> bool:
        return isinstance(self.kernel, Linear) or (
            isinstance(self.kernel, str) and self.kernel == "linear"
        )

    @property
    def _explicit(self) -> Features:
        """The explicit map of the support vectors; AttributeError without one."""
        named = isinstance(self.kernel, Kernel) or self._is_linear
        if not named:
            raise AttributeError("coef_ is only available when using a linear kernel")
        f = self._function
        if not has_quick_map(f.kernel):
            raise AttributeError("coef_ is only available when using a linear kernel")
        return explicit(f.kernel, f.points)

    @abstractmethod
    def _dual_rows(self) -> np.ndarray:
        """dual_coef_ as an array."""


def dense_values(gram: Gram, coef: np.ndarray) -> tuple[np.ndarray, bool]:
    """K coef, every block a float64 matrix that numpy multiplies.

    And whether two of the points have k(x, y)² > k(x, x) k(y, y): K is indefinite.
    """
    points = double(gram.X)
    used = np.flatnonzero(coef.any(axis=1))
    values, indefinite = np.zeros(coef.shape), False
    unknown = gram.kernel.psd is None
    size = np.sqrt(np.abs(gram.diag())) if unknown else np.empty(0)
    for rows in row_blocks(len(coef), max(1, len(used)), 64.0):
        block = gram.kernel(take(points, rows), take(points, used))
        block = np.asarray(block, dtype=float)
        values[rows] = block @ coef[used]
        if unknown:
            most = (1 + 1e-6) * np.outer(size[rows], size[used])
            indefinite |= bool(np.any(np.abs(block) > most))
    return values, indefinite
