"""Losses, and their conjugates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from mercer.losses import Loss, ZeroOne
from mercer.plots.base import COLOURS, Display, axes_or_new

STEPS = 601  # points of a curve, 0 and ±1 among them


def plot_losses(
    losses: Sequence[Loss | ZeroOne],
    ax: Axes | None = None,
    *,
    reach: float = 3.0,
    conjugate: bool = False,
) -> Display:
    """ℓ(y, f) against y f for losses of a side, against y - f for those of a number.

    A dot marks what counts where a loss jumps: at y f = 0 the 0-1 loss is 1.

    Parameters
    ----------
    losses : all of one of the two kinds
    reach : the curves go from -reach to reach
    conjugate : whether to draw ℓ*(1, u), or ℓ*(0, u), against u instead, where finite

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mercer.losses import Hinge, Logistic
    >>> from mercer.plots import plot_losses
    >>> display = plot_losses([Hinge(), Logistic()])
    >>> display.ax_.get_xlabel(), display.ax_.get_legend_handles_labels()[1]
    ('y f', ['Hinge()', 'Logistic()'])
    """
    losses = list(losses)
    if not losses or len({loss.of_sides for loss in losses}) > 1:
        raise ValueError(
            "plot_losses needs losses of one kind, of sides or of numbers: the axis is "
            f"y f or y - f; got {losses!r}. Draw the kinds side by side."
        )
    ax = axes_or_new(ax)
    sides = losses[0].of_sides
    for k, loss in enumerate(losses):
        style: dict[str, Any] = {
            "color": COLOURS[k % len(COLOURS)],
            "label": repr(loss),
        }
        if conjugate and isinstance(loss, Loss):
            _draw_conjugate(loss, reach, ax, style)
        elif not conjugate:
            _draw_loss(loss, reach, ax, style)
    target = "1" if sides else "0"
    name = "y f" if sides else "y − f"
    across, up = ("u", f"ℓ*({target}, u)") if conjugate else (name, "loss")
    ax.set(xlabel=across, ylabel=up)
    ax.legend(fontsize="small")
    return Display(ax, {"lines": list(ax.lines)})


def _draw_loss(
    loss: Loss | ZeroOne, reach: float, ax: Axes, style: dict[str, Any]
) -> None:
    # Both sides of 0, where the 0-1 loss jumps, and the corners at ±1.
    line = np.linspace(-reach, reach, STEPS)
    if isinstance(loss, ZeroOne):
        for part in (line[line <= 0], line[line > 0]):
            ax.plot(part, loss.value(1.0, part), lw=2.2, **style)
            style = style | {"label": None}
        ax.plot([0], [1], "o", ms=6, **style)
        return
    values = loss.value(1.0, line) if loss.of_sides else loss.value(line, 0.0)
    ax.plot(line, values, lw=2, **style)


def _draw_conjugate(loss: Loss, reach: float, ax: Axes, style: dict[str, Any]) -> None:
    target = 1.0 if loss.of_sides else 0.0
    least, largest = (float(end) for end in loss.slopes(np.array(target)))
    line = np.linspace(max(least, -reach), min(largest, reach), STEPS)
    ax.plot(line, loss.conjugate(target, line), lw=2, **style)
    # Beyond the last slope the conjugate is infinite.
    ends = [end for end in (least, largest) if abs(end) <= reach]
    ax.plot(
        ends,
        loss.conjugate(target, np.array(ends)),
        "o",
        ms=5,
        **style | {"label": None},
    )
