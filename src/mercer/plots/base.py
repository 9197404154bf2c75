"""What the pictures share: what they return, colours, points, support vectors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import is_outlier_detector
from sklearn.pipeline import Pipeline

from mercer.data.frames import is_frame
from mercer.data.points import Points

try:
    import matplotlib.pyplot as plt
    from matplotlib import rc_params_from_file
    from matplotlib.animation import FuncAnimation
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize, to_rgb
    from matplotlib.figure import Figure, SubFigure
except ImportError as error:
    raise ImportError(
        'mercer.plots draws with matplotlib. Install it: pip install "mercer[plot]".'
    ) from error

STYLE = Path(__file__).with_name("light.mplstyle")
# Of the classes, in their order; told apart with every kind of colour vision.
COLOURS: list[str] = rc_params_from_file(str(STYLE), use_default_template=False)[
    "axes.prop_cycle"
].by_key()["color"]
STRONG = COLOURS[6]  # of what is to be seen first and is no class
# From the first class to the second, white where neither is meant.
DIVERGING = LinearSegmentedColormap.from_list(
    "mercer", [COLOURS[0], "white", COLOURS[1]]
)
GROWING = LinearSegmentedColormap.from_list("mercer_growing", ["white", COLOURS[1]])
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<", ">", "p"]
# Grid points along each axis where a machine is evaluated. Even: lines that cross in
# the middle of the picture, where f is 0 by rounding only, cross between grid points.
GRID = 400
SMALLEST, LARGEST = 24, 120  # the area of a point, and of the heaviest support vector
FEW = 40  # points; fewer than these are drawn larger
CROWD = 25  # support vectors; of more than these the heaviest are drawn smaller


@dataclass(frozen=True)
class Display:
    """What a plot function returns: where it drew, and what, by name.

    Attributes
    ----------
    ax_ : the Axes that was drawn on
    artists_ : {name: what matplotlib made of it}
    frames_ : how many frames the picture has as an animation; 0 for one that stands

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from mercer.plots import plot_gram
    >>> display = plot_gram(np.eye(3))
    >>> display.ax_.get_xlabel(), sorted(display.artists_)
    ('point', ['bar', 'image'])
    >>> display.figure_ is display.ax_.figure
    True
    """

    ax_: Axes
    artists_: dict[str, Any] = field(default_factory=dict, repr=False)
    frames_: int = 0
    draw_frame_: Callable[[int], Any] | None = field(default=None, repr=False)

    @property
    def figure_(self) -> Figure | SubFigure:
        """The figure of `ax_`."""
        return self.ax_.figure

    def animate(self, seconds: float = 0.2) -> FuncAnimation:
        """The frames one after another: `.save("x.gif")` or `.to_jshtml()` it.

        Parameters
        ----------
        seconds : of each frame
        """
        if self.draw_frame_ is None:
            raise ValueError("This picture does not move; plot_smo_path has frames.")
        options: dict[str, Any] = {"interval": 1000 * seconds, "repeat": False}
        figure: Any = self.ax_.get_figure(root=True)
        return FuncAnimation(figure, self.draw_frame_, frames=self.frames_, **options)


def shades_of(weights: np.ndarray, norm: Any = None) -> ScalarMappable:
    """Colours of weights: around white where some are negative, else from white on."""
    weights = np.asarray(weights, dtype=float)
    signed = weights.size and np.nanmin(weights) < 0
    if norm is None:
        most = np.nanmax(np.abs(weights), initial=0) or 1.0
        norm = Normalize(-most if signed else 0.0, most)
    colours = ScalarMappable(norm, DIVERGING if signed else GROWING)
    colours.set_array(weights)
    return colours


def letters_on(colour: Any) -> str:
    """Black or white, whichever is read better on a colour."""
    return "black" if np.dot(to_rgb(colour), [0.299, 0.587, 0.114]) > 0.5 else "white"


def axes_or_new(ax: Axes | None) -> Axes:
    return plt.figure(layout="constrained").gca() if ax is None else ax


def legend_beside(ax: Axes) -> None:
    """A legend outside of the axes where the layout makes room for it."""
    if ax.figure.get_layout_engine() is None:
        ax.legend(fontsize="small")
    else:
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)}
        ax.legend(fontsize="small", borderaxespad=0, frameon=False, **place)


def plane_of(X: Points, who: str) -> np.ndarray:
    """The points of X as an (n, 2) array."""
    values = np.asarray(X, dtype=float)
    if values.ndim != 2 or values.shape[1] != 2:
        raise ValueError(
            f"{who} draws points of the plane, (n, 2); got shape {values.shape}."
        )
    return values


def line_of(X: Points, who: str) -> np.ndarray:
    """The points of X as an (n, 1) array."""
    values = np.asarray(X, dtype=float)
    if values.ndim != 2 or values.shape[1] != 1:
        raise ValueError(
            f"{who} draws a function on the line, (n, 1); got shape {values.shape}."
        )
    return values


def name_axes(X: Points, ax: Axes) -> None:
    """The names of the columns of a data frame, on its axes."""
    if is_frame(X):
        ax.set(**dict(zip(("xlabel", "ylabel"), X.columns, strict=False)))


def ink() -> str:
    """The colour of lines and letters: dark on light pages, light on dark ones."""
    return plt.rcParams["text.color"]


def paper() -> str:
    """The colour behind them."""
    return plt.rcParams["axes.facecolor"]


def show_or_save() -> list[Path]:
    """The figures of a script: in windows, or in files where it was run with --save.

    `python script.py --save DIR` writes every open figure to DIR/script_1.png, ...,
    says where, and opens no window. The names of the files are returned.

    Examples
    --------
    >>> from mercer.plots import show_or_save
    >>> show_or_save()  # no figure is open
    []
    """
    if "--save" not in sys.argv:
        plt.show()
        return []
    place = sys.argv.index("--save") + 1
    if place == len(sys.argv):
        raise ValueError("--save needs the folder for the pictures: --save DIR.")
    folder = Path(sys.argv[place])
    folder.mkdir(parents=True, exist_ok=True)
    name = Path(sys.argv[0]).stem.removeprefix("plot_")
    files = []
    for k, number in enumerate(plt.get_fignums(), start=1):
        files.append(folder / f"{name}_{k}.png")
        figure = plt.figure(number)
        # Axes of equal aspect have their size, and room for titles, after one layout.
        figure.draw_without_rendering()
        figure.savefig(files[-1])
        print(f"wrote {files[-1]}")
    return files


class Support(NamedTuple):
    """Support vectors: where they are drawn, of which class, |α|, and at the bound?"""

    place: np.ndarray
    label: np.ndarray
    weight: np.ndarray
    bound: np.ndarray


def support_of(machine: Any, values: np.ndarray) -> Support:
    """The support vectors of a machine; none, where it is not made of them.

    Free ones have yᵢ f(xᵢ) = 1 to the tolerance of the solver, those at their bound
    less: that distinguishes them for any weights of points and classes.
    """
    last = last_step(machine)
    if not hasattr(last, "n_support_") or hasattr(last, "approximation_"):
        nothing = np.zeros(0)
        return Support(np.zeros((0, 2)), nothing.astype(int), nothing, nothing > 0)
    f = last.expansion_
    place = f.points if machine is last else of_fit(last, values)
    coef = f.coef.reshape(len(f.coef), -1)
    weight = np.abs(coef).max(axis=1, initial=0)
    if is_outlier_detector(last):
        # What the coefficients sum to is the unit of f; SVDD has divided it by νn.
        tol = last.tol * coef.sum() / (last.nu * last.shape_fit_[0])
        bound = last.decision_function(f.points) < -tol
        return Support(place, np.zeros(len(coef), dtype=int), weight, bound)
    label = np.repeat(np.arange(len(last.classes_)), last.n_support_)
    reached = np.sign(coef) * f(f.points).reshape(coef.shape)
    bound = ((coef != 0) & (reached < 1 - last.tol)).any(axis=1)
    return Support(place, label, weight, bound)


def of_fit(last: Any, values: np.ndarray) -> np.ndarray:
    """The support vectors among the points of `fit`, as they are drawn."""
    if last.shape_fit_[0] != len(values):
        raise ValueError(
            f"{type(last).__name__} knows its support vectors by their places among "
            f"the {last.shape_fit_[0]} points of `fit`; got {len(values)} points. Pass "
            "those of `fit`."
        )
    return values[last.support_]


def last_step(machine: Any) -> Any:
    return machine[-1] if isinstance(machine, Pipeline) else machine


def frame_of(values: np.ndarray) -> np.ndarray:
    """The lower and the upper corner of a picture with room around the points."""
    low, high = values.min(axis=0), values.max(axis=0)
    room = np.where(high > low, 0.12 * (high - low), 1.0)
    return np.array([low - room, high + room])


def like(X: Points, values: np.ndarray) -> Points:
    """Values in a data frame with the columns of X, if X is one."""
    if not is_frame(X):
        return values
    return type(X)(dict(zip(X.columns, values.T, strict=True)))


def one_each(y: npt.ArrayLike, n: int) -> np.ndarray:
    y = np.asarray(y)
    if y.shape != (n,):
        raise ValueError(f"y needs {n} values, one per point; got shape {y.shape}.")
    return y


def draw_points(
    values: np.ndarray,
    y: np.ndarray | None,
    classes: Sequence[Any] | np.ndarray,
    ax: Axes,
) -> None:
    area = SMALLEST * min(3.0, max(1.0, FEW / max(1, len(values))))
    if y is None:
        x1, x2 = values.T
        ax.scatter(x1, x2, s=area, color="grey", linewidths=0, label="point")
        return
    names = np.unique(y) if len(classes) < 2 else classes
    for k, name in enumerate(names):
        x1, x2 = values[y == name].T
        ax.scatter(
            x1,
            x2,
            s=area,
            color=COLOURS[k % len(COLOURS)],
            marker=MARKERS[k % len(MARKERS)],
            linewidths=0,
            label=str(name),
        )


def draw_support(support: Support, ax: Axes, marker: str | None = None) -> None:
    """Free support vectors filled, those at their bound with a ring around them."""
    heaviest = support.weight.max(initial=0) or 1.0
    # Many large rings would hide the points they are around.
    room = (LARGEST - SMALLEST) * min(1.0, CROWD / max(1, len(support.weight)))
    area = SMALLEST + 14 + room * support.weight / heaviest
    for k in np.unique(support.label):
        free = (support.label == k) & ~support.bound
        x1, x2 = support.place[free].T
        ax.scatter(
            x1,
            x2,
            s=area[free],
            color=COLOURS[k % len(COLOURS)],
            marker=marker or MARKERS[k % len(MARKERS)],
            edgecolors=ink(),
            zorder=4,
        )
    bound = support.bound
    ring: dict[str, Any] = {"edgecolors": ink(), "facecolors": "none", "zorder": 4}
    ring["linewidths"] = 0.9
    x1, x2 = support.place[bound].T
    ax.scatter(x1, x2, s=area[bound], **ring)
    # A handle for the legend only: in the picture each class has its colour.
    for some, colour, name in (
        (~bound, "lightgrey", "free support vector"),
        (bound, "none", "support vector at its bound"),
    ):
        if some.any():
            style = ring | {"facecolors": colour, "s": LARGEST / 2}
            ax.scatter([], [], **style, label=name)


def draw_relevance(machine: object, places: np.ndarray, ax: Axes) -> None:
    """Rings around the relevance vectors among the points of `fit`, if there are."""
    chosen = getattr(machine, "relevance_", np.empty(0, dtype=int))
    if len(chosen) and chosen.max() < len(places):
        x1, x2 = places[chosen].T
        ax.scatter(
            x1,
            x2,
            s=LARGEST,
            facecolors="none",
            edgecolors=ink(),
            linewidths=1.6,
            zorder=5,
            label="relevance vector",
        )
