"""The one place that chooses how a problem is solved: by what, how exactly, K held.

Each class here is itself a solver. A machine states a problem, hands it to one of them
and reads the solution; a solver of the user's own takes the place of what is chosen.
"""

from mercer.solvers.auto.components import AutoComponents, components_road
from mercer.solvers.auto.costs import (
    clusters_on_features,
    on_features,
    steps_on_features,
)
from mercer.solvers.auto.holding import (
    held_for_many,
    held_for_passes,
    held_for_rows,
    road_of_evidence,
    road_of_passes,
)
from mercer.solvers.auto.l1 import AutoL1
from mercer.solvers.auto.linear import AutoLinear, BySize, linear_road
from mercer.solvers.auto.penalized import AutoPenalized
from mercer.solvers.auto.smo import AutoSMO, Problems

__all__ = [
    "AutoComponents",
    "AutoL1",
    "AutoLinear",
    "AutoPenalized",
    "AutoSMO",
    "BySize",
    "Problems",
    "clusters_on_features",
    "components_road",
    "held_for_many",
    "held_for_passes",
    "held_for_rows",
    "linear_road",
    "on_features",
    "road_of_evidence",
    "road_of_passes",
    "steps_on_features",
]
