"""The coefficients of a machine along its path."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from mercer.plots.base import COLOURS, Display, axes_or_new, ink

FINE = 400  # values of the parameter between which lines are drawn


def plot_alpha_path(
    path: Any, ax: Axes | None = None, *, curve: Any = None, most: int = 200
) -> Display:
    """αᵢ of every point along a path, on a logarithmic axis, with its breakpoints.

    Shares of the bound, where the path is in C: a point that is always at its bound is
    a line at 1.

    Parameters
    ----------
    path : of `svm_path`, `svr_path` or `nu_path`
    curve : the `ErrorCurve` of `path.cross_validated()`, drawn as a thick line against
        the axis on the right
    most : lines at most; of more points, so many at equal distances

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import make_moons
    >>> from mercer import RBF
    >>> from mercer.paths import svm_path
    >>> from mercer.plots import plot_alpha_path
    >>> X, y = make_moons(30, noise=0.2, random_state=0)
    >>> display = plot_alpha_path(svm_path(RBF(1.0), X, y, C_max=10))
    >>> display.ax_.get_xlabel(), len(display.artists_["lines"])
    ('C', 30)
    """
    ax = axes_or_new(ax)
    turns = path.breakpoints
    low = float(turns[0]) / 2 if len(turns) else max(path.domain[0], 1e-3)
    high = float(turns[-1]) * 2 if len(turns) else 1.0
    low, high = max(low, path.domain[0]), min(high, path.domain[1])
    # Breakpoints themselves are among the values, so that corners are sharp.
    inside = turns[(turns > low) & (turns < high)]
    some = inside[:: max(1, len(inside) // FINE)]
    values = np.unique(np.concatenate([np.geomspace(low, high, FINE), some]))
    values = np.clip(values, low, high)
    alpha = path.alpha(values)
    label = "α"
    if path.parameter == "C":
        alpha, label = alpha / values[:, None], "α / C"
    shown = np.unique(np.linspace(0, alpha.shape[1] - 1, most).astype(int))
    sign = np.sign(path.signs[shown])
    lines = [
        ax.plot(
            values, alpha[:, i], color=COLOURS[0 if s < 0 else 1], lw=0.7, alpha=0.6
        )[0]
        for i, s in zip(shown.tolist(), sign, strict=True)
    ]
    ax.set_xscale("log")
    ax.set_xlim(low, high)
    ax.set_xlabel(path.parameter)
    ax.set_ylabel(label)
    marks = ax.plot(
        inside, np.zeros(len(inside)), "|", color=ink(), ms=5, clip_on=False
    )
    artists: dict[str, Any] = {"lines": lines, "breakpoints": marks[0]}
    if curve is not None:
        artists["error"] = _draw_error(ax, curve, low, high)
    return Display(ax, artists)


def _draw_error(ax: Axes, curve: Any, low: float, high: float) -> Any:
    """The error as steps, against an axis of its own."""
    right = ax.twinx()
    edges = np.clip(curve.edges, low, high)
    steps = right.stairs(curve.errors, edges, baseline=None, color=ink(), lw=1.8)
    right.set_ylabel("cross-validated error")
    right.set_ylim(bottom=0)
    return steps
