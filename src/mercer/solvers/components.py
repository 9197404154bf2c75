"""What kernel PCA asks of a Gram matrix, and what a solver answers.

Components    K̃ v = λ v for the largest λ, K̃ = H K H, H = I - 11ᵀ/n
Eigenpairs    λ and v, each with its residual
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from mercer.data.partitions import Partitions
from mercer.gram import Gram
from mercer.kernels.vector import Linear
from mercer.kernels.ways import FeatureKernel
from mercer.native.interruptible import elementwise
from mercer.outcomes import Run, Status
from mercer.solvers.features import partitioned_of
from mercer.solvers.partitioned_rows import PartitionedRows
from mercer.solvers.rounding import UNIT, SumRounding


@dataclass(frozen=True, eq=False)
class Components:
    """K̃ v = λ v for the largest λ: what kernel PCA asks of a Gram.

    Parameters
    ----------
    gram : the Gram of n points
    n_components : how many; None for all, of which a solver may leave out those of
        eigenvalue 0

    Examples
    --------
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import Components, Lapack
    >>> problem = Components(Gram(Linear(), [[0.0], [1.0], [2.0]]), n_components=1)
    >>> Lapack().solve(problem).values.round(6).tolist()
    [2.0]
    """

    gram: Gram
    n_components: int | None = None

    def __post_init__(self) -> None:
        n, m = self.gram.shape
        if n != m:
            raise ValueError(
                f"Components needs the square Gram of one set of points; got {n} × "
                f"{m}. Make it with Gram(kernel, X)."
            )
        if self.n_components is not None and not 1 <= self.n_components <= n:
            raise ValueError(
                f"Components needs n_components from 1 to n = {n}, or None for all; "
                f"got {self.n_components!r}."
            )

    @property
    def count(self) -> int:
        return self.n_components or self.gram.shape[0]

    @cached_property
    def features(self) -> Any:
        """Φ with K = ΦΦᵀ, where it has fewer columns than half the points; else None.

        None also where more components are sought than there are columns.
        """
        gram = self.gram
        if isinstance(gram.X, Partitions):
            gram.diag()
            return self._partitioned()
        if not isinstance(gram.kernel, FeatureKernel | Linear):
            return None
        gram.diag()  # refuses what overflows
        features = gram.kernel.features(gram.X)
        n, p = features.shape
        missing = self.n_components is not None and self.n_components > p
        return None if 2 * p >= n or missing else features

    def _partitioned(self) -> PartitionedRows | None:
        """Φ of points in partitions; None where there is none, or no room for it."""
        features, c = partitioned_of(self.gram), self.n_components
        if features is None and c is None:
            raise ValueError(
                f"All {self.gram.shape[0]:,} components of {self.gram.X!r} are not "
                "sought, as they would take all of K. Pass n_components, or use "
                "Nystrom(kernel, size)."
            )
        if features is not None and c is not None and c > features.shape[1]:
            raise ValueError(
                f"Components of {self.gram.X!r} are those of an explicit map, of which "
                f"{self.gram.kernel} has {features.shape[1]} columns; got "
                f"n_components={c!r}. Use fewer components."
            )
        return features


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """λ₁ ≥ λ₂ ≥ ... and unit vectors with K̃ vⱼ = λⱼ vⱼ, each with its residual.

    Attributes
    ----------
    values, vectors : (c,) and (n, c) arrays; the largest entry of a vector is positive
    residuals : ‖K̃vⱼ - λⱼvⱼ‖, (c,); some eigenvalue of K̃ is no further from λⱼ
    means : (n,), the mean of each row of K
    least : the least eigenvalue met on the way, which the least of all cannot exceed
    run : its iterations are products with K; its status "optimal", "max_iter",
        "stopped", or "imprecise" where rounding is in the way; its precision that of
        the kernel values that were searched. Values, residuals and means are of kernel
        values in double precision
    rounding : how far a residual can be off by rounding

    Examples
    --------
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import Components, Lapack
    >>> found = Lapack().solve(Components(Gram(Linear(), [[0.0], [1.0], [2.0]]), 1))
    >>> found.values.round(6).tolist(), found.means.round(6).tolist()
    ([2.0], [0.0, 1.0, 2.0])
    >>> found.vectors.shape, bool(found.residuals.max() < 1e-9)
    ((3, 1), True)
    """

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray
    means: np.ndarray
    least: float
    run: Run = field(default_factory=Run)
    rounding: float = 0.0

    @property
    def status(self) -> Status:
        """How the search ended."""
        return self.run.status

    @property
    def violation(self) -> float:
        """The largest residual, relative to λ₁."""
        return self._share(float(np.max(self.residuals, initial=0.0)))

    def within(self, tol: float) -> bool:
        """Whether the residuals are at most tol times λ₁, rounding included."""
        return self.violation + self._share(self.rounding) <= tol

    def _share(self, size: float) -> float:
        first = float(np.max(np.abs(self.values), initial=0.0))
        return size / first if first > 0 else 0.0

    def take(self, index: np.ndarray | slice) -> Eigenpairs:
        """Some of the components."""
        return replace(
            self,
            values=self.values[index],
            vectors=self.vectors[:, index],
            residuals=self.residuals[index],
        )


def eigenpairs(
    gram: Gram,
    values: np.ndarray,
    vectors: np.ndarray,
    images: np.ndarray,
    means: np.ndarray,
    **facts: Any,
) -> Eigenpairs:
    """With residuals, and with the sign that makes the largest entry positive.

    Parameters
    ----------
    images : K̃ v, in double precision; rounding is bounded for such
    """
    vectors = vectors * _signs(vectors)
    images = images * _signs(images, vectors)
    residuals = elementwise(lambda A, V: _norms(A - V * values), images, vectors)
    # H K H v: v less its mean, and what comes of it less its own.
    error = SumRounding(gram.double())(vectors) + 4 * UNIT * np.abs(images)
    rounding = float(np.max(_norms(error), initial=0.0))
    facts = {"rounding": rounding, **facts}
    return Eigenpairs(np.array(values), vectors, residuals, means, **facts)


def _norms(columns: np.ndarray) -> np.ndarray:
    """The lengths of the columns, though their squares may be no numbers."""
    size = np.abs(columns).max(axis=0, initial=0.0)
    size = np.where(size > 0, size, 1.0)
    return size * np.linalg.norm(columns / size, axis=0)


def _signs(vectors: np.ndarray, like: np.ndarray | None = None) -> np.ndarray:
    if like is not None:
        return np.where(np.einsum("ij,ij->j", vectors, like) < 0, -1.0, 1.0)
    sizes = np.abs(vectors)
    # Of several that are equal to rounding the first decides, not the rounding.
    place = np.argmax(sizes >= (1 - 1e-6) * sizes.max(axis=0, initial=0.0), axis=0)
    return np.where(vectors[place, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
