"""The pictures of a report: drawn by `mercer.plots` in both looks, or as SVG.

Without matplotlib only the latter are there. A picture that cannot be drawn of some
points is left out: a report is about the machine.
"""

from __future__ import annotations

import base64
import importlib
import io
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mercer.data.points import Points, take
from mercer.kernels.base import Kernel
from mercer.machines.pca import KernelPCA

MOST = 300  # points of a Gram matrix that is drawn
MOST_MAPPED = 1000  # points of a map


def _palette() -> tuple[str, ...]:
    """The colours of classes in all pictures, which matplotlib is not needed for."""
    style = Path(__file__).parents[1] / "plots" / "light.mplstyle"
    cycle = next(line for line in style.read_text().splitlines() if "cycle" in line)
    return tuple(f"#{code}" for code in re.findall(r"\b[0-9a-fA-F]{6}\b", cycle))


COLOURS = _palette()


def of(made: Any) -> list[tuple[str, str]]:
    """(caption, HTML) of each picture of a training."""
    drawn = [
        _convergence(made),
        _regions(made),
        _gram(made),
        _map(made),
        _predictions(made),
    ]
    return [picture for picture in drawn if picture is not None]


def both_looks(draw: Callable[[Any], Any], caption: str) -> tuple[str, str] | None:
    """A picture of matplotlib, light and dark, as one element; None without it.

    Parameters
    ----------
    draw : called with `mercer.plots`; returns a `Display`
    """
    try:
        plots = importlib.import_module("mercer.plots")
        pyplot = importlib.import_module("mercer.plots.base").plt
    except ImportError:
        return None
    found = {}
    for look in ("light", "dark"):
        with warnings.catch_warnings(), pyplot.style.context(f"mercer.plots.{look}"):
            warnings.simplefilter("ignore")
            try:
                figure = draw(plots).figure_
            except (ValueError, TypeError):  # of points that this picture is not for
                pyplot.close("all")
                return None
            stream = io.BytesIO()
            figure.savefig(stream, format="png", dpi=110, bbox_inches="tight")
            pyplot.close(figure)
        data = base64.b64encode(stream.getvalue()).decode()
        found[look] = f"data:image/png;base64,{data}"
    body = (
        f'<picture><source srcset="{found["dark"]}" '
        'media="(prefers-color-scheme: dark)">'
        f'<img src="{found["light"]}" alt="{caption}"></picture>'
    )
    return caption, body


def _convergence(made: Any) -> tuple[str, str] | None:
    history = list(made.history)
    if len(history) < 3:
        return None
    name = history[-1].problem
    caption = "How the solver came to its end" + (
        f", class pair {name}" if name else ""
    )
    tol = getattr(made.machine, "tol", None)
    return both_looks(lambda plots: plots.plot_convergence(history, tol=tol), caption)


def _regions(made: Any) -> tuple[str, str] | None:
    X = made.data.points
    if not (
        isinstance(X, np.ndarray) and X.shape[1] == 2 and made.data.target is not None
    ):
        return None
    some = _chosen(made, MOST_MAPPED)
    points, y = X[some], made.data.target[some]
    return both_looks(
        lambda plots: plots.plot_regions(made.machine, points, y),
        "What the machine says in the plane of the two columns",
    )


def _gram(made: Any) -> tuple[str, str] | None:
    kernel = made.kernel
    if kernel is None:
        return None
    some = _chosen(made, MOST)
    points = take(made.data.points, some)
    y = made.data.target
    classes = made.training is not None and made.training.classes is not None
    order = y[some] if classes else None
    words = f"Kernel values of {len(some)} points" + " by class" * classes
    return both_looks(lambda plots: plots.plot_gram(kernel, points, order), words)


def _chosen(made: Any, most: int) -> np.ndarray:
    """Some of the points, in their order."""
    n = len(made.data)
    rng = np.random.default_rng(0)
    return np.sort(rng.permutation(n)[:most])


def _map(made: Any) -> tuple[str, str] | None:
    """The first two kernel principal components, as the kernel sees the points."""
    kernel = made.kernel
    if kernel is None or made.data.target is None or not kernel.psd:
        return None
    some = _chosen(made, MOST_MAPPED)
    places = _components(kernel, take(made.data.points, some))
    if places is None:
        return None
    y = made.data.target[some]
    if made.training is not None and made.training.classes is not None:
        values, codes = np.unique(y, return_inverse=True)
        if len(values) > len(COLOURS):
            return None
        colours = [COLOURS[c] for c in codes]
        words = "; ".join(str(value) for value in values)
        legend = "".join(_key(j, str(value)) for j, value in enumerate(values))
    else:
        share = (y - y.min()) / max(float(np.ptp(y)), 1e-300)
        colours = [f"hsl({260 - 220 * s:.0f} 70% 52%)" for s in share]
        words, legend = "colour by target", ""
    caption = f"The points as the kernel sees them: two principal components ({words})"
    return caption[:200], _scatter(places, colours) + f"<div>{legend}</div>"


def _key(j: int, name: str) -> str:
    shown = name.replace("&", "&amp;").replace("<", "&lt;")
    return f'<span style="color:{COLOURS[j]}">&#9679;</span> <small>{shown}</small> '


def _components(kernel: Kernel, points: Points) -> np.ndarray | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return KernelPCA(2, kernel=kernel).fit_transform(points)
        except (ValueError, TypeError):
            return None


def _predictions(made: Any) -> tuple[str, str] | None:
    """What was said against what is true, of numbers."""
    scores = made.validation or made.training
    if scores is None or scores.classes is not None:
        return None
    true, said = np.asarray(scores.true, dtype=float), np.asarray(scores.predicted)
    some = _chosen(made, MOST_MAPPED)
    places = np.column_stack([true[some], said[some]])
    how = "by cross-validation" if made.validation else "on the training data"
    body = _scatter(places, ["var(--accent)"] * len(some), diagonal=True)
    return f"Predicted (upwards) against true values (to the right), {how}", body


def _scatter(places: np.ndarray, colours: list[str], diagonal: bool = False) -> str:
    """Points in a square, as SVG in the colours of the page."""
    if places.shape[1] < 2:
        places = np.column_stack([places[:, 0], np.zeros(len(places))])
    low, high = places.min(axis=0), places.max(axis=0)
    if diagonal:
        low, high = np.full(2, low.min()), np.full(2, high.max())
    size = np.where(high > low, high - low, 1.0)
    at = 12 + 376 * (places - low) / size
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{400 - y:.1f}" r="3" fill="{colour}" '
        'fill-opacity=".75"/>'
        for (x, y), colour in zip(at.tolist(), colours, strict=True)
    )
    line = '<path d="M12 388L388 12" stroke="var(--soft)" fill="none"/>' * diagonal
    return (
        '<svg viewBox="0 0 400 400" xmlns="http://www.w3.org/2000/svg" role="img">'
        '<rect x="1" y="1" width="398" height="398" fill="none" stroke="var(--rule)"/>'
        f"{line}{dots}</svg>"
    )
