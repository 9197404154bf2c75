"""Points in the coordinates of a feature map, and planes that separate them there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from matplotlib.axes import Axes
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from mercer.data.points import Points, as_points
from mercer.kernels.base import Kernel
from mercer.plots.base import (
    COLOURS,
    MARKERS,
    SMALLEST,
    Display,
    axes_or_new,
    draw_points,
    frame_of,
    ink,
    one_each,
)

SURFACE = 40  # grid points along each axis of the image of the plane
OBLIQUE = 55.0  # degrees between the normal of a plane and the view on it


def plot_feature_map(
    features: Kernel | Callable[[Any], Any],
    X: Points,
    y: Any = None,
    ax: Axes | None = None,
    *,
    columns: Sequence[int] | None = None,
    plane: tuple[Sequence[float], float] | None = None,
    surface: bool = False,
    names: Sequence[str] | None = None,
) -> Display:
    """The points x as φ(x), in two or three coordinates of the map φ.

    In three coordinates the picture is turned so that a plane is seen from the side and
    not edge-on; points behind the plane are drawn behind it.

    Parameters
    ----------
    features : a kernel with an explicit map, or a function from points to (n, p) arrays
    X : the points
    y : their classes; None for points without colour
    ax : an Axes, with projection="3d" for three coordinates; None for a new one
    columns : two or three coordinates of φ, from 0; None where φ has so many
    plane : (w, b), to draw ⟨w, z⟩ + b = 0 in these coordinates, a line where they are
        two
    surface : whether to draw the image of all the plane of X, for three coordinates
    names : of the coordinates; None for those that the kernel has

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mercer import Polynomial
    >>> from mercer.plots import plot_feature_map
    >>> X, y = [[1, 1], [-1, -1], [-1, 1], [1, -1]], [-1, -1, 1, 1]
    >>> display = plot_feature_map(
    ...     Polynomial(2), X, y, columns=[1, 4], plane=([0, 1], 0)
    ... )
    >>> display.artists_["places"].round(2).tolist()
    [[1.41, 1.41], [-1.41, 1.41], [-1.41, -1.41], [1.41, -1.41]]
    """
    phi = _map_of(features)
    Z = phi(X)
    chosen = list(range(Z.shape[1]) if columns is None else columns)
    if len(chosen) not in (2, 3):
        raise ValueError(
            f"plot_feature_map draws two or three coordinates; got {len(chosen)} of "
            f"the {Z.shape[1]} that φ has. Choose them with columns=."
        )
    Z = Z[:, chosen]
    if y is not None:
        y = one_each(y, len(Z))
    if plane is not None and len(plane[0]) != len(chosen):
        raise ValueError(
            f"plane=(w, b) needs a w of {len(chosen)} numbers; got {len(plane[0])}."
        )
    if names is None and isinstance(features, Kernel):
        every = features.feature_names(as_points(X))  # type: ignore[attr-defined]
        names = [str(every[column]) for column in chosen]
    if len(chosen) == 2:
        return _draw_flat(Z, y, axes_or_new(ax), plane, names)
    if ax is None:
        ax = plt.figure(layout="constrained").add_subplot(projection="3d")
    if not hasattr(ax, "get_zlim"):
        raise ValueError(
            'Three coordinates need axes made with projection="3d", or no ax at all.'
        )
    display = _draw_solid(Z, y, ax, plane, names)
    if surface:
        display.artists_["surface"] = _draw_surface(phi, X, chosen, ax)
    return display


def _map_of(features: Any) -> Callable[[Any], np.ndarray]:
    """X to the (n, p) array of its features."""
    call = (
        getattr(features, "features", None)
        if isinstance(features, Kernel)
        else features
    )
    if call is None:
        raise ValueError(
            f"plot_feature_map needs an explicit map; {features!r} has none. Take "
            "Nystrom(k, m), or a function."
        )

    def phi(X: Any) -> np.ndarray:
        given = as_points(X) if isinstance(features, Kernel) else np.asarray(X)
        Z = call(given)
        return np.asarray(Z.toarray() if sp.issparse(Z) else Z, dtype=float)

    return phi


def _draw_flat(
    Z: np.ndarray, y: np.ndarray | None, ax: Axes, plane: Any, names: Any
) -> Display:
    low, high = frame_of(Z)
    artists: dict[str, Any] = {"places": Z}
    if plane is not None:
        sides = [np.linspace(a, b, 200) for a, b in zip(low, high, strict=True)]
        value = np.add.outer(plane[0][1] * sides[1], plane[0][0] * sides[0]) + plane[1]
        shade: dict[str, Any] = {"colors": COLOURS[:2], "alpha": 0.15}
        ax.contourf(*sides, value, [-np.inf, 0, np.inf], **shade)
        artists["plane"] = ax.contour(*sides, value, [0], colors=ink(), linewidths=1.8)
    draw_points(Z, y, [] if y is None else np.unique(y), ax)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    if names is not None:
        ax.set(xlabel=names[0], ylabel=names[1])
    return Display(ax, artists)


def _draw_solid(
    Z: np.ndarray, y: np.ndarray | None, ax: Any, plane: Any, names: Any
) -> Display:
    kind = np.zeros(len(Z)) if y is None else y
    artists: dict[str, Any] = {"places": Z, "points": []}
    near = np.ones(len(Z), dtype=bool)
    if plane is not None:
        w, b = np.asarray(plane[0], dtype=float), plane[1]
        turn = np.degrees(np.arctan2(w[1], w[0])) - 180 + OBLIQUE
        ax.view_init(elev=18, azim=turn)
        tilt, turn = np.radians([18.0, turn])
        view = [np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)]
        near = (Z @ w + b) * (w @ view) > 0
        patch = Poly3DCollection(
            [_section(w, b, frame_of(Z))], color="0.35", alpha=0.3, zorder=2
        )
        artists["plane"] = ax.add_collection3d(patch)
    # What is behind the plane is drawn before it, the rest after it.
    ax.computed_zorder = False
    for k, name in enumerate(np.unique(kind)):
        colour = "grey" if y is None else COLOURS[k % len(COLOURS)]
        marker = MARKERS[k % len(MARKERS)]
        for front, zorder in ((False, 1), (True, 4)):
            some = (kind == name) & (near == front)
            style = {"color": colour, "marker": marker, "s": SMALLEST, "lw": 0}
            style |= {"zorder": zorder, "depthshade": False}
            artists["points"].append(ax.scatter(*Z[some].T, **style))
        if y is not None:
            ax.plot([], [], [], marker, color=colour, label=str(name))
    low, high = frame_of(Z)
    ax.set_box_aspect(None, zoom=1.2)  # the corners of the box leave room
    ax.set(**{f"{a}lim": (low[i], high[i]) for i, a in enumerate("xyz")})
    if names is not None:
        ax.set(xlabel=names[0], ylabel=names[1], zlabel=names[2])
    return Display(ax, artists)


def _draw_surface(phi: Any, X: Points, chosen: list[int], ax: Any) -> Any:
    """The image of the plane as a faint net."""
    low, high = frame_of(np.asarray(X, dtype=float))
    sides = np.meshgrid(*(np.linspace(low[i], high[i], SURFACE) for i in (0, 1)))
    Z = phi(np.column_stack([side.ravel() for side in sides]))[:, chosen]
    shape = (3, SURFACE, SURFACE)
    style = {"color": "0.7", "lw": 0.4, "rcount": 20, "ccount": 20, "zorder": 0}
    # Beyond the frame of the points the net would cover the axes.
    limits = np.transpose([ax.get_xlim(), ax.get_ylim(), ax.get_zlim()])
    Z[((Z < limits[0]) | (Z > limits[1])).any(axis=1)] = np.nan
    return ax.plot_wireframe(*Z.T.reshape(shape), **style)


def _section(w: np.ndarray, b: float, frame: np.ndarray) -> np.ndarray:
    """The polygon in which the plane ⟨w, z⟩ + b = 0 cuts a box."""
    corners = np.array(list(product(*frame.T)))
    found = []
    for p, q in product(corners, repeat=2):
        f, g = p @ w + b, q @ w + b
        if np.count_nonzero(p != q) == 1 and f * g <= 0 and f != g:
            found.append(p + f / (f - g) * (q - p))
    if not found:
        return np.zeros((0, 3))
    places = np.unique(np.round(found, 12), axis=0)
    across = np.linalg.svd(w[None])[2][1:]
    x, y = across @ (places - places.mean(axis=0)).T
    return places[np.argsort(np.arctan2(y, x))]
