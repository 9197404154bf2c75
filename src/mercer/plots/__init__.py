"""Pictures: Gram matrices and spectra; what a machine learnt; how a solve went; losses.

Every `plot_` function draws on a matplotlib Axes (a new one unless given as `ax`) and
returns a `Display` of it; none shows a window or writes a file. Classes have COLOURS
and MARKERS, everywhere the same; `plt.style.use("mercer.plots.light")` gives all of a
script this look. The functions are loaded when they are first used: without matplotlib
this module can be imported, and says then what to install.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer.plots.base import COLOURS, DIVERGING, MARKERS, Display, show_or_save
    from mercer.plots.curves import plot_band, plot_probabilities, plot_tube
    from mercer.plots.explanations import plot_explanation
    from mercer.plots.gram import plot_gram, plot_spectrum
    from mercer.plots.losses import plot_losses
    from mercer.plots.maps import plot_feature_map
    from mercer.plots.margins import plot_margin
    from mercer.plots.paths import plot_alpha_path
    from mercer.plots.regions import (
        plot_clusters,
        plot_component,
        plot_density,
        plot_regions,
    )
    from mercer.plots.runs import (
        plot_ascent,
        plot_convergence,
        plot_mistakes,
        plot_path,
        plot_sgd_bound,
    )
    from mercer.plots.search import plot_search
    from mercer.plots.smo import plot_smo_path, plot_smo_step
    from mercer.plots.structures import plot_graph, plot_string, plot_tree
    from mercer.plots.weights import plot_kernel_weights

_NAMES = {
    "base": "COLOURS DIVERGING MARKERS Display show_or_save",
    "curves": "plot_band plot_probabilities plot_tube",
    "explanations": "plot_explanation",
    "gram": "plot_gram plot_spectrum",
    "losses": "plot_losses",
    "maps": "plot_feature_map",
    "margins": "plot_margin",
    "paths": "plot_alpha_path",
    "regions": "plot_clusters plot_component plot_density plot_regions",
    "runs": "plot_ascent plot_convergence plot_mistakes plot_path plot_sgd_bound",
    "search": "plot_search",
    "smo": "plot_smo_path plot_smo_step",
    "structures": "plot_graph plot_string plot_tree",
    "weights": "plot_kernel_weights",
}
_HOME = {name: file for file, names in _NAMES.items() for name in names.split()}

__all__ = [
    "COLOURS",
    "DIVERGING",
    "MARKERS",
    "Display",
    "plot_alpha_path",
    "plot_ascent",
    "plot_band",
    "plot_clusters",
    "plot_component",
    "plot_convergence",
    "plot_density",
    "plot_explanation",
    "plot_feature_map",
    "plot_gram",
    "plot_graph",
    "plot_kernel_weights",
    "plot_losses",
    "plot_margin",
    "plot_mistakes",
    "plot_path",
    "plot_probabilities",
    "plot_regions",
    "plot_search",
    "plot_sgd_bound",
    "plot_smo_path",
    "plot_smo_step",
    "plot_spectrum",
    "plot_string",
    "plot_tree",
    "plot_tube",
    "show_or_save",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME and name not in _NAMES:
        raise AttributeError(f"module 'mercer.plots' has no attribute {name!r}")
    importlib.import_module("mercer.plots.base")  # its error says what to install
    if name not in _HOME:
        return importlib.import_module(f"mercer.plots.{name}")
    value = getattr(importlib.import_module(f"mercer.plots.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
