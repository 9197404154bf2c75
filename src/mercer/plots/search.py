"""Scores of a search over two parameters, or over one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from mercer.plots.base import COLOURS, STRONG, Display, axes_or_new, letters_on

LONGEST = 32  # letters of a value along an axis
FEW = 144  # cells that have room for their scores


def plot_search(
    search: Any, x: str | None = None, y: str | None = None, ax: Axes | None = None
) -> Display:
    """Mean scores of a search as a heat map; with one parameter, a line with its error.

    Where several candidates share a cell, it has the best of them. The best of all is
    framed.

    Parameters
    ----------
    search : a `KernelSearchCV` or GridSearchCV that is fitted
    x, y : the parameters along the axes; None for those with most values

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import make_moons
    >>> from mercer import SVC, KernelSearchCV
    >>> from mercer.plots import plot_search
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> search = KernelSearchCV(SVC(), {"C": [1, 10], "gamma": [0.5, 1, 2]}).fit(X, y)
    >>> plot_search(search).ax_.get_xlabel()
    'gamma'
    """
    results = _last_rung(search.cv_results_)
    metric = search.refit if isinstance(search.refit, str) else "score"
    if f"mean_test_{metric}" not in results:
        raise ValueError(
            "A picture of a search with several scores needs to know which one: pass "
            "refit='name of the score' to the search."
        )
    values = _values(results["params"])
    names = sorted(values, key=lambda name: -len(values[name]))
    chosen = [name for name in (x, y) if name is not None]
    for name in chosen:
        if name not in values:
            raise ValueError(
                f"The search did not vary {name!r}; it varied {', '.join(values)}."
            )
    names = [*chosen, *(name for name in names if name not in chosen)]
    names = [name for name in names if len(values[name]) > 1][:2] or names[:1]
    ax = axes_or_new(ax)
    draw = _line if len(names) == 1 else _map
    return draw(ax, results, metric, names, values)


def _last_rung(results: dict[str, Any]) -> dict[str, Any]:
    """The results on most points, where candidates were halved."""
    if "iter" not in results:
        return results
    last = np.asarray(results["iter"]) == np.max(results["iter"])
    return {
        name: [one for one, there in zip(column, last, strict=True) if there]
        for name, column in results.items()
    }


def _values(params: Any) -> dict[str, list[Any]]:
    """The values of each parameter, numbers in order, others as they came."""
    found: dict[str, list[Any]] = {}
    for one in params:
        for name, value in one.items():
            known = found.setdefault(name, [])
            if not any(_same(value, other) for other in known):
                known.append(value)
    for known in found.values():
        if all(isinstance(value, int | float) for value in known):
            known.sort()
    return found


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and bool(one == other))


def _place(value: Any, known: list[Any]) -> int:
    return next(i for i, other in enumerate(known) if _same(value, other))


def _text(value: Any) -> str:
    text = f"{value:.3g}" if isinstance(value, float) else str(value)
    text = _plain(text) if "(" in text else text
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _plain(text: str) -> str:
    """A kernel as people write it: without names of parameters, and without None."""
    return re.sub(r"(, )?None|\b\w+=(?=\S)", "", re.sub(r"\b\w+=None", "None", text))


def _map(
    ax: Axes, results: Any, metric: str, names: list[str], values: dict[str, list[Any]]
) -> Display:
    across, down = names
    scores = np.full((len(values[down]), len(values[across])), np.nan)
    for params, score in zip(
        results["params"], results[f"mean_test_{metric}"], strict=True
    ):
        if across in params and down in params:
            i = _place(params[down], values[down])
            j = _place(params[across], values[across])
            scores[i, j] = np.nanmax([scores[i, j], score])
    image = ax.imshow(scores, cmap="viridis", aspect="auto", origin="lower")
    bar = ax.figure.colorbar(image, ax=ax, label=f"mean {metric} over the folds")
    longest = max(len(_text(value)) for value in values[across])
    ax.set_xticks(range(len(values[across])), map(_text, values[across]))
    if longest * len(values[across]) > 60:
        ax.tick_params(axis="x", labelrotation=45)
        for label in ax.get_xticklabels():
            label.set_horizontalalignment("right")
    ax.set_yticks(range(len(values[down])), map(_text, values[down]))
    ax.set(xlabel=across, ylabel=down)
    best = np.unravel_index(np.nanargmax(scores), scores.shape)
    frame = ax.add_patch(_frame(best))
    if scores.size <= FEW:
        for (i, j), score in np.ndenumerate(scores):
            if np.isfinite(score):
                colour = letters_on(image.to_rgba(score)[:3])
                ax.text(
                    j, i, f"{score:.3f}", ha="center", va="center", color=colour, size=8
                )
    return Display(ax, {"image": image, "bar": bar, "best": frame})


def _frame(best: Any) -> Any:
    corner = best[1] - 0.5, best[0] - 0.5
    return Rectangle(corner, 1, 1, fill=False, edgecolor=STRONG, linewidth=3)


def _line(
    ax: Axes, results: Any, metric: str, names: list[str], values: dict[str, list[Any]]
) -> Display:
    [name] = names
    known = values[name]
    mean = np.full(len(known), -np.inf)
    deviation = np.zeros(len(known))
    for i, params in enumerate(results["params"]):
        at = _place(params[name], known)
        if results[f"mean_test_{metric}"][i] > mean[at]:
            mean[at] = results[f"mean_test_{metric}"][i]
            deviation[at] = results[f"std_test_{metric}"][i]
    numbers = all(isinstance(value, int | float) for value in known)
    where = np.asarray(known, dtype=float) if numbers else np.arange(len(known))
    bars = ax.errorbar(where, mean, deviation, fmt="o-", color=COLOURS[0], capsize=3)
    best = int(np.argmax(mean))
    [mark] = ax.plot(where[best], mean[best], "o", color=STRONG, markersize=9, zorder=3)
    if numbers and min(where) > 0 and max(where) > 20 * min(where):
        ax.set_xscale("log")
    if not numbers:
        ax.set_xticks(where, map(_text, known), rotation=30, ha="right")
    ax.set(xlabel=name, ylabel=f"mean {metric} over the folds")
    return Display(ax, {"line": bars, "best": mark})
