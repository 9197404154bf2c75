"""Explanations drawn: letters, trees, molecules coloured by what they add to f(x)."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from mercer.data.graphs import Graph
from mercer.data.trees import Tree
from mercer.plots.base import DIVERGING, Display, axes_or_new, ink
from mercer.plots.structures import plot_graph, plot_string, plot_tree

LONGEST = 120  # tokens of a sequence that are drawn
LARGEST = 150  # nodes of a tree or a graph that is drawn
STROKES = {"single": 1, "double": 2, "triple": 3, "aromatic": 1.5}


def plot_explanation(explanation: Any, ax: Axes | None = None) -> Display:
    """An `Explanation`: the point coloured by what adds to f(x), or bars of the parts.

    The letters of a string, the nodes of a tree and the atoms of a graph have the sum
    of the parts that they are in, each divided evenly over its places: one colour
    speaks for f > 0, the other for f < 0. Points of other kinds, and large ones, have a
    bar for each part.

    Parameters
    ----------
    explanation : of `mercer.explain`

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mercer import SVC, Spectrum, explain
    >>> from mercer.plots import plot_explanation
    >>> machine = SVC(kernel=Spectrum(2)).fit(["abab", "bbaa"], [1, 0])
    >>> [explanation] = explain(machine, ["abba"])
    >>> display = plot_explanation(explanation)
    >>> [text.get_text() for text in display.artists_["tokens"]]
    ['a', 'b', 'b', 'a']
    """
    draw = {"sequence": _sequence, "tree": _tree, "graph": _graph}.get(explanation.kind)
    found = None if draw is None else draw(explanation, ax)
    display = _bars(explanation, ax) if found is None else found
    display.ax_.set_title(explanation.heading())
    return display


def _sequence(explanation: Any, ax: Axes | None) -> Display | None:
    tokens = list(explanation.point)
    if not 0 < len(tokens) <= LONGEST:
        return None
    longest = max(len(str(token)) for token in tokens)
    ax = _axes(ax, max(4.0, 0.12 * (longest + 1) * len(tokens)), 1.7)
    weights = _weights(explanation, len(tokens))
    display = plot_string(explanation.point, weights, ax)
    if len(tokens) > 20:  # a number under every token would be a blur
        ticks = range(0, len(tokens), 10)
        ax.set_xticks([t + 1 for t in ticks], [str(t) for t in ticks])
    else:
        ax.set_xticks(range(1, len(tokens) + 1), map(str, range(len(tokens))))
    return display


def _tree(explanation: Any, ax: Axes | None) -> Display | None:
    tree = Tree(explanation.point)
    if tree.size > LARGEST:
        return None
    ax = _axes(ax, max(4.0, 0.75 * len(tree.leaves)), max(3.0, 0.62 * tree.depth))
    return plot_tree(tree, _weights(explanation, tree.size), ax)


def _graph(explanation: Any, ax: Axes | None) -> Display | None:
    graph = Graph.of(explanation.point)
    n = len(graph.nodes)
    if not 0 < n <= LARGEST:
        return None
    ax = _axes(ax, max(4.0, 1.6 * n**0.5), max(3.5, 1.2 * n**0.5))
    strokes = [STROKES.get(str(label), 1) for label in graph.edge_colours]
    return plot_graph(graph, _weights(explanation, n), ax, strokes=strokes)


def _weights(explanation: Any, size: int) -> np.ndarray:
    """What each token or node adds; around 0, so that colours are of two kinds."""
    weights = np.zeros(size)
    for item, value in explanation.items.items():
        weights[item] += value
    return weights


def _bars(explanation: Any, ax: Axes | None) -> Display:
    """A bar for each part, the largest on top, then the bias."""
    rows = [(part.name, part.value) for part in explanation.parts]
    rows.append(("bias", explanation.bias))
    ax = _axes(ax, 6.5, 1.0 + 0.32 * len(rows))
    names, values = zip(*rows, strict=True)
    colours = [
        "0.6" if name in ("rest", "bias") else DIVERGING(0.85 if value > 0 else 0.15)
        for name, value in rows
    ]
    bars = ax.barh(range(len(rows)), values, color=colours)
    shown = [name if len(name) <= 40 else f"{name[:39]}…" for name in names]
    ax.set_yticks(range(len(rows)), shown)
    ax.invert_yaxis()
    ax.axvline(0, color=ink(), linewidth=0.8)
    ax.set_xlabel("what it adds to f(x)")
    return Display(ax, {"bars": bars})


def _axes(ax: Axes | None, width: float, height: float) -> Axes:
    """The given axes, or new ones of a size that suits the point."""
    if ax is not None:
        return axes_or_new(ax)
    size = min(width, 16.0), min(height, 10.0)
    return plt.figure(figsize=size, layout="constrained").gca()
