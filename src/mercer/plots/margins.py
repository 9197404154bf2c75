"""The geometry of a line that separates two classes in the plane."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Polygon
from sklearn.utils.validation import check_is_fitted

from mercer.data.points import Points
from mercer.plots.base import (
    COLOURS,
    STRONG,
    Display,
    axes_or_new,
    draw_points,
    frame_of,
    ink,
    last_step,
    legend_beside,
    name_axes,
    one_each,
    paper,
    plane_of,
)


def plot_margin(
    machine: Any,
    X: Points,
    y: Any,
    ax: Axes | None = None,
    *,
    slacks: bool = False,
    distances: bool = False,
    legend: bool = True,
) -> Display:
    """The line f(x) = ⟨w, x⟩ + b = 0 and its margin, f = ±1, 1/‖w‖ away on either side.

    Slacks are segments of the length ξᵢ/‖w‖ from a point to the line f = yᵢ of its
    class, with their ξᵢ = max(0, 1 - yᵢ f(xᵢ)); a point with ξᵢ > 1 is misplaced.
    Distances are arrows: |b|/‖w‖ from the origin to the line, 1/‖w‖ across the margin,
    |f(x)|/‖w‖ from the furthest point x on the side where the origin is not, and w, at
    a right angle to the line.

    Parameters
    ----------
    machine : a fitted machine of two classes with `coef_` and `intercept_`, as
        SVC(kernel="linear") has
    X, y : (n, 2) points to draw, and their classes
    slacks : whether to draw ξᵢ where it is not 0
    distances : whether to draw w and the three distances
    legend : whether to say beside the picture what is what

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from mercer import SVC
    >>> from mercer.plots import plot_margin
    >>> X, y = np.array([[0.0, 0.0], [0.0, 1.0], [2.0, 0.0], [2.0, 1.0]]), [0, 0, 1, 1]
    >>> machine = SVC(C=np.inf, kernel="linear").fit(X, y)
    >>> display = plot_margin(machine, X, y, distances=True)
    >>> sorted(text.get_text() for text in display.artists_["distances"])
    ['1/‖w‖ = 1.00', 'w', '|b|/‖w‖ = 1.00', '|f(x)|/‖w‖ = 1.00']
    """
    check_is_fitted(machine)
    last = last_step(machine)
    if machine is not last or not hasattr(last, "coef_") or len(last.classes_) != 2:
        raise ValueError(
            f"plot_margin draws a line between two classes; {type(last).__name__} has "
            'none here. Pass SVC(kernel="linear") on two classes, or use plot_regions.'
        )
    values = plane_of(X, "plot_margin")
    y = one_each(y, len(values))
    w, b = np.ravel(last.coef_), float(np.ravel(last.intercept_)[0])
    side = np.where(y == last.classes_[1], 1, -1)
    ax = axes_or_new(ax)
    xi = np.maximum(0, 1 - side * (values @ w + b))
    xi[xi <= last.tol] = 0  # points on the margin, but for what the solver leaves
    home = values + (side * xi)[:, None] * w / (w @ w)
    seen = [values] + [home] * slacks + [np.zeros((1, 2))] * distances
    frame = frame_of(np.vstack(seen))
    artists: dict[str, Any] = {"lines": _draw_lines(w, b, frame, ax)}
    draw_points(values, y, last.classes_, ax)
    if slacks:
        artists["slacks"] = _draw_slacks(values, home, xi, ax)
    if distances:
        # On the other side of the line than the origin: its arrow is there already.
        far = values[np.argmax((values @ w + b) * (-1 if b > 0 else 1))]
        artists["distances"] = _draw_distances(w, b, far, frame, ax)
    (left, low), (right, high) = frame
    ax.set(xlim=(left, right), ylim=(low, high), aspect="equal")
    name_axes(X, ax)
    if legend:
        legend_beside(ax)
    return Display(ax, artists)


def _draw_lines(w: np.ndarray, b: float, frame: np.ndarray, ax: Axes) -> list[Any]:
    """f = 0, f = ±1 and the band between, from edge to edge of the frame."""
    feet = [(level - b) * w / (w @ w) for level in (-1, 0, 1)]
    along = np.array([-w[1], w[0]]) / np.linalg.norm(w)
    reach = 2 * np.linalg.norm(frame[1] - frame[0]) + np.linalg.norm(feet[1])
    ends = [foot + np.outer([-reach, reach], along) for foot in feet]
    band = np.vstack([ends[0], ends[2][::-1]])
    ax.add_patch(Polygon(band, color="0.5", alpha=0.12, lw=0, zorder=0))
    styles = (("--", 1.1, "f = ±1"), ("-", 2.0, "f = 0"), ("--", 1.1, None))
    return [
        ax.plot(*end.T, ls, color=ink(), lw=lw, label=label, zorder=2)[0]
        for end, (ls, lw, label) in zip(ends, styles, strict=True)
    ]


def _draw_slacks(
    X: np.ndarray, home: np.ndarray, xi: np.ndarray, ax: Axes
) -> list[Any]:
    """From each point to where its margin is, with ξ beside the point."""
    drawn = []
    inside, misplaced = "0.4", STRONG
    for x, end, slack in zip(X, home, xi, strict=True):
        if not slack:
            continue
        colour = misplaced if slack > 1 else inside
        [line] = ax.plot(*np.transpose([x, end]), color=colour, lw=1.6, zorder=3)
        drawn.append(line)
        above = 1 if x[1] >= end[1] else -1
        box = {"fc": paper(), "ec": "none", "alpha": 0.7, "pad": 0.5}
        style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": "small"}
        style |= {"textcoords": "offset points", "bbox": box, "zorder": 5}
        ax.annotate(f"{slack:.2f}", x, (0, 10 * above), color=colour, **style)
    for colour, label in (
        (inside, "0 < ξ ≤ 1: inside the margin"),
        (misplaced, "ξ > 1: misplaced"),
    ):
        ax.plot([], [], color=colour, lw=1.6, label=label)
    return drawn


def _draw_distances(
    w: np.ndarray, b: float, far: np.ndarray, frame: np.ndarray, ax: Axes
) -> list[Any]:
    """Arrows for |b|/‖w‖, 1/‖w‖, |f(x)|/‖w‖ and w, and what they measure."""
    length = float(np.linalg.norm(w))
    foot, unit = -b * w / length**2, w / length
    start, end = _within(foot, np.array([-unit[1], unit[0]]), frame)
    size = float(np.linalg.norm(frame[1] - frame[0]))
    across = start + 0.82 * (end - start)
    arrow = start + 0.28 * (end - start)
    ax.plot(0, 0, "+", color=ink(), ms=11, mew=2, zorder=4)
    ax.annotate("origin", (0, 0), (0, -14), textcoords="offset points", ha="center")
    reach = f"|f(x)|/‖w‖ = {abs(far @ w + b) / length:.2f}"
    texts = []
    for a, c, colour, text, head in (
        (np.zeros(2), foot, STRONG, f"|b|/‖w‖ = {abs(b) / length:.2f}", "<->"),
        (
            across,
            across + unit / length,
            COLOURS[2],
            f"1/‖w‖ = {1 / length:.2f}",
            "<->",
        ),
        (far, far - (far @ w + b) * w / length**2, "0.35", reach, "<->"),
        (arrow, arrow + 0.16 * size * unit, ink(), "w", "-|>"),
    ):
        style = {
            "arrowstyle": head,
            "color": colour,
            "lw": 2,
            "shrinkA": 0,
            "shrinkB": 0,
        }
        ax.annotate("", tuple(c), tuple(a), arrowprops=style, zorder=5)
        place = tuple(c if head == "-|>" else (a + c) / 2)
        box = {"fc": paper(), "ec": "none", "alpha": 0.6, "pad": 1}
        where = (9, 5) if head == "-|>" else (12, -14)
        options: dict[str, Any] = {"textcoords": "offset points", "bbox": box}
        texts.append(ax.annotate(text, place, where, color=colour, zorder=6, **options))
    return texts


def _within(
    foot: np.ndarray, along: np.ndarray, frame: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The ends of a line's part in the frame; the foot twice where it has none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        hits = np.sort((frame - foot) / along, axis=0)
    low, high = np.nanmax(hits[0]), np.nanmin(hits[1])
    if not low < high:
        return foot, foot
    return foot + low * along, foot + high * along
