"""Pictures: Gram matrices and spectra; what a machine learnt; how a solve went; losses.

Every function draws on a matplotlib Axes (a new one unless given) and returns it;
none shows a window or writes a file.
"""

import mercer.plots.base  # noqa: F401  (the first: it tells what to install)
from mercer.plots.curves import plot_band, plot_probabilities, plot_tube
from mercer.plots.gram import plot_gram, plot_spectrum
from mercer.plots.losses import plot_losses
from mercer.plots.regions import (
    plot_clusters,
    plot_component,
    plot_density,
    plot_regions,
)
from mercer.plots.runs import plot_convergence, plot_mistakes, plot_path, plot_sgd_bound

__all__ = [
    "plot_band",
    "plot_clusters",
    "plot_component",
    "plot_convergence",
    "plot_density",
    "plot_gram",
    "plot_losses",
    "plot_mistakes",
    "plot_path",
    "plot_probabilities",
    "plot_regions",
    "plot_sgd_bound",
    "plot_spectrum",
    "plot_tube",
]
