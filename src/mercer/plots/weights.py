"""How much each of several kernels matters."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from mercer._html import shortened
from mercer.plots.base import COLOURS, Display, axes_or_new

SHOWN = 20  # kernels, those with the largest shares


def plot_kernel_weights(machine: Any, ax: Axes | None = None) -> Display:
    """A pair of bars for each kernel of a `MultipleKernel`: its shares of trace and f.

    The kernel with the largest share of f is at the top; of many, the first 20 are
    drawn, and the others added up.

    Parameters
    ----------
    machine : one that has learnt the weights of a `MultipleKernel`

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mercer import RBF, SVC, Linear, MultipleKernel
    >>> from mercer.plots import plot_kernel_weights
    >>> X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0]
    >>> machine = SVC(kernel=MultipleKernel([Linear(), RBF(1.0)])).fit(X, y)
    >>> display = plot_kernel_weights(machine)
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['RBF(gamma=1.0)', 'Linear()']
    """
    shares = getattr(machine, "kernel_shares_", None)
    if shares is None:
        raise ValueError(
            "plot_kernel_weights draws a machine that has learnt the weights of its "
            f"kernels; {type(machine).__name__} has none. Fit it with "
            "kernel=MultipleKernel([...])."
        )
    order, rest = shares.order[:SHOWN], shares.order[SHOWN:]
    every = shares.names()
    names = [shortened(every[i]) for i in order]
    names += [f"{len(rest)} others"] * bool(len(rest))
    ax = axes_or_new(ax)
    places, bars = np.arange(len(names)), {}
    for shift, name, values in (
        (-0.2, "of ‖f‖²", shares.of_norm),
        (0.2, "of the trace", shares.of_trace),
    ):
        widths = [*values[order], *([values[rest].sum()] * bool(len(rest)))]
        colour = COLOURS[1] if shift < 0 else COLOURS[0]
        bars[name] = ax.barh(places + shift, widths, 0.38, color=colour, label=name)
    ax.set(xlabel="share", yticks=places)
    ax.set_yticklabels(names)
    ax.invert_yaxis()
    ax.legend(loc="lower right")
    return Display(ax, bars)
