"""AutoComponents: how `Components` are found."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mercer.data.partitions import Partitions
from mercer.native import memory
from mercer.native.clock import OutOfTime, breakable
from mercer.outcomes import Watch
from mercer.solvers.components import Components, Eigenpairs
from mercer.solvers.eigen import (
    DOUBLE,
    ROUGH,
    WIDEST,
    Arpack,
    BlockKrylov,
    Covariance,
    Lapack,
)
from mercer.solvers.limits import TimeLimit, solve_within
from mercer.solvers.roads import Road, by_matrix, on_map

# LAPACK is the quicker one up to so many points, and where more than this share of all
# components is sought, with kernel values in double or in single precision.
DENSE = 800
DENSE_SHARE = {"double": 1 / 30, "single": 1 / 16}


@dataclass(frozen=True)
class AutoComponents:
    """Find `Components` by what is quickest.

    `Covariance` where there are few explicit features, `Lapack` for few points and for
    many of the components, else `BlockKrylov`.

    Parameters
    ----------
    krylov : the `BlockKrylov` of that case
    time_limit : seconds; None for no limit. It takes the place of `Lapack` where there
        is no time for that, unless all components are sought
    """

    krylov: BlockKrylov = field(default_factory=BlockKrylov)
    time_limit: float | None = None

    def solve(
        self,
        problem: Components,
        *,
        start: np.ndarray | None = None,
        watch: Watch | None = None,
    ) -> Eigenpairs:
        """The components; `watch` returns True to stop."""
        limit = TimeLimit(None, self.time_limit)
        solver = self.chosen(problem)
        direct = breakable() if isinstance(solver, Lapack) else nullcontext()
        try:
            with direct:
                return solve_within(
                    solver, problem, limit.left, start=start, watch=watch
                )
        except OutOfTime:
            if problem.count > problem.gram.shape[0] // 2:
                raise  # no method has some of so many before it has all
        return solve_within(self.krylov, problem, limit.left, start=start, watch=watch)

    def road(self, problem: Components) -> Road:
        """How they would be found."""
        return components_road(problem, self.chosen(problem))

    def chosen(self, problem: Components) -> Any:
        n, features = problem.gram.shape[0], problem.features
        if features is not None and features.shape[1] <= WIDEST:
            return Covariance()
        if isinstance(problem.gram.X, Partitions):
            return self.krylov  # which needs products with Φ alone
        share = DENSE_SHARE["double" if n <= DOUBLE else "single"]
        dense = n <= DENSE or problem.count > share * n
        return Lapack() if dense else self.krylov


def components_road(problem: Components, solver: Any) -> Road:
    """That of a solver of `Components`."""
    gram, n = problem.gram, problem.gram.shape[0]
    parameters = {"eigen_solver": solver}
    if isinstance(solver, Covariance):
        return on_map(gram, solver, parameters=parameters)
    if not isinstance(solver, BlockKrylov | Arpack):
        return by_matrix(gram, solver, parameters=parameters)
    single = False
    if n > DOUBLE and isinstance(solver, BlockKrylov):
        single, rough = True, solver.tol or ROUGH
        parameters = {"eigen_solver": replace(solver, tol=rough, precision="single")}
    kept = (4.0 if single else 8.0) * n * (n + 512) / 2
    room = memory.room_to_keep(getattr(solver, "cache_mb", None))
    options: dict[str, Any] = {"single": single, "parameters": parameters}
    return Road("products", gram, solver, kept=min(kept, room), **options)
