"""Road: how a problem would be solved, before it is.

rows        kernel rows on demand, by SMO and its like
matrix      K in memory, factored or multiplied
products    K never stored, multiplied in tiles, by conjugate gradients and others
features    on an explicit map Φ, K = ΦΦᵀ
landmarks   on the map of an approximation: `Nystrom`, `RandomFourier`, ...
points      no kernel values: the points are kept
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mercer.gram import Gram
from mercer.kernels.approximate import Approximation
from mercer.kernels.base import Kernel
from mercer.kernels.operators import Scaled
from mercer.kernels.ways import Precomputed
from mercer.maps import dense_columns
from mercer.solvers.computed_rows import COMPUTED_MB
from mercer.solvers.feature_rows import PackedRows, PlacedRows
from mercer.solvers.features import is_computed, placed_of, rows_of


@dataclass(frozen=True, eq=False)
class Road:
    """How the problems of a fit would be solved.

    Parameters
    ----------
    name : rows, matrix, products, features, landmarks or points
    gram : of the points
    solver : what would solve them; None for an algorithm of the machine's own
    n_problems : that are solved on these points
    kept : bytes of kernel values, or of Φ, that are held at most
    columns, wide : of Φ, and how many of them a point has that are not 0
    single : whether kernel values are in single precision
    largest : the points of the largest of several problems; 0 for all
    parameters : of the machine, with which a smaller problem takes the same road

    Examples
    --------
    >>> from mercer import Gram, RBF
    >>> from mercer.solvers import LinearSystem
    >>> from mercer.solvers.auto import AutoLinear
    >>> road = AutoLinear().road(LinearSystem(Gram(RBF(1), [[0.0], [1.0]]), [0, 1], 1))
    >>> road.name, type(road.solver).__name__
    ('matrix', 'Cholesky')
    """

    name: str
    gram: Gram
    solver: Any = None
    n_problems: int = 1
    kept: float = 0.0
    columns: int = 0
    wide: float = 0.0
    single: bool = False
    largest: int = 0
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """How many points there are."""
        return self.gram.shape[0]

    @property
    def itemsize(self) -> int:
        """Bytes of a kernel value."""
        return 4 if self.single else 8


def on_map(gram: Gram, solver: Any, placed: bool = False, **options: Any) -> Road:
    """The road over the explicit map of a kernel; Φ is made where only it can tell.

    Parameters
    ----------
    placed : whether the solver asks for products with vectors alone
    """
    n, p = gram.shape[0], dense_columns(gram.kernel, gram.X)
    wide = float(p or 0)
    kept = 8.0 * n * wide
    if p is not None and is_computed(gram.kernel, gram.X, p):
        kept = 2.0**20 * COMPUTED_MB
    if p is None:
        rows = placed_of(gram) if placed else rows_of(gram)
        p, wide = rows.shape[1], rows.entries / max(1, n)
        kept = (12.0 if rows.sparse else 8.0) * rows.entries
        if isinstance(rows, PackedRows):
            kept = 5.0 * rows.entries
        if isinstance(rows, PlacedRows):
            kept = float(rows.tries.bytes)
    name = "landmarks" if _has_landmarks(gram.kernel) else "features"
    return Road(name, gram, solver, kept=kept, columns=p, wide=wide, **options)


def _has_landmarks(kernel: Kernel) -> bool:
    if isinstance(kernel, Scaled):
        return _has_landmarks(kernel.kernel)
    return isinstance(kernel, Approximation)


def by_matrix(gram: Gram, solver: Any, **options: Any) -> Road:
    """The road with K in memory, in double precision unless said otherwise."""
    there = gram.is_held or isinstance(gram.kernel, Precomputed)
    size = 4.0 if options.get("single") else 8.0
    kept = 0.0 if there else size * gram.shape[0] ** 2
    return Road("matrix", gram, solver, kept=kept, **options)
