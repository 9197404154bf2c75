"""Points that are strings, trees or graphs, drawn and coloured by weights.

Places of nodes are those of least stress: distances in the picture near to the numbers
of steps in the graph (Gansner, Koren and North 2004).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.patches import PathPatch
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D
from scipy.sparse.csgraph import shortest_path

from mercer.data.graphs import Graph
from mercer.data.trees import Tree, child_places
from mercer.plots.base import Display, axes_or_new, ink, letters_on, paper, shades_of

ROUNDS = 300  # of the stress of a graph and of moving its nodes apart
APART = 0.75  # the least distance of two nodes, where neighbours are 1 apart


def plot_string(
    string: str | Sequence[Hashable],
    weights: npt.ArrayLike | None = None,
    ax: Axes | None = None,
    *,
    names: Sequence[str] | None = None,
    bar: bool = False,
) -> Display:
    """The tokens of a string in a row of boxes, coloured by a weight for each.

    Several weightings of one string are rows below each other: where a subsequence
    stands, what a machine makes of each place. A line runs from the first token that is
    not 0 to the last.

    Parameters
    ----------
    string : a text or a sequence of n tokens
    weights : (n,) or (rows, n) numbers; None for no colours
    names : of the rows, at their left
    bar : whether to draw the scale of the colours

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mercer.plots import plot_string
    >>> display = plot_string("fast food", [0, 1, 0, 0, 0, 1, 0, 0, 1], names=["afd"])
    >>> [text.get_text() for text in display.artists_["tokens"][:5]]
    ['f', 'a', 's', 't', '␣']
    """
    tokens = ["␣" if token == " " else str(token) for token in string]
    given = np.zeros((1, len(tokens))) if weights is None else np.asarray(weights)
    rows = np.atleast_2d(given.astype(float))
    if rows.shape[1] != len(tokens):
        raise ValueError(
            f"plot_string needs a weight for each of the {len(tokens)} tokens; got "
            f"shape {given.shape}."
        )
    if names is not None and len(names) != len(rows):
        raise ValueError(f"names needs {len(rows)} of them, one per row; got {names}.")
    ax = axes_or_new(ax)
    colours = shades_of(rows)
    texts = []
    for r, row in enumerate(rows):
        used = np.flatnonzero(row)
        if len(used):
            ends = used[[0, -1]] + 1
            ax.plot(ends, [r, r], color="0.6", lw=1.5, zorder=1)
        for place, (token, weight) in enumerate(zip(tokens, row, strict=True), 1):
            face = colours.to_rgba(weight) if weight else paper()
            edge = "0.4" if weight else "0.8"
            box = {"boxstyle": "round,pad=0.3", "fc": face, "ec": edge}
            shade = letters_on(face) if weight or weights is None else "0.55"
            style: dict[str, Any] = {"ha": "center", "va": "center", "color": shade}
            style |= {"family": "monospace", "bbox": box, "zorder": 2}
            texts.append(ax.text(place, r, token, **style))
    ax.set(xlim=(0.3, len(tokens) + 0.7), ylim=(len(rows) - 0.4, -0.6))
    ax.set_xticks(range(1, len(tokens) + 1))
    ax.set_yticks(range(len(rows)), names or [""] * len(rows))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    artists: dict[str, Any] = {"tokens": texts, "colours": colours}
    if bar:
        artists["bar"] = ax.figure.colorbar(colours, ax=ax, label="weight")
    return Display(ax, artists)


def plot_tree(
    tree: Any,
    weights: npt.ArrayLike | None = None,
    ax: Axes | None = None,
    *,
    bar: bool = False,
) -> Display:
    """A tree from its root down, leaves evenly spaced, parents above their children.

    Parameters
    ----------
    tree : a Tree, or what makes one: "(S (NP you) (VP sleep))"
    weights : a number for each node in preorder, for its colour; None for no colours
    bar : whether to draw the scale of the colours

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mercer.plots import plot_tree
    >>> display = plot_tree("(S (NP you) (VP sleep))", [0, 1, 2, 0, 1])
    >>> display.artists_["places"].tolist()
    [[0.5, 0.0], [0.0, -1.0], [0.0, -2.0], [1.0, -1.0], [1.0, -2.0]]
    """
    tree = Tree(tree)
    places = _tree_places(tree)
    values = _node_weights(weights, tree.size, "tree")
    ax = axes_or_new(ax)
    children = child_places(tree.arity)
    for node, below in enumerate(children):
        for child in below:
            ax.plot(*places[[node, child]].T, color="0.6", lw=1.3, zorder=1)
    colours = shades_of(np.zeros(1) if values is None else values)
    texts = []
    for node, ((x, y), label) in enumerate(zip(places, tree.labels, strict=True)):
        face = paper() if values is None else colours.to_rgba(values[node])
        box = {"boxstyle": "round,pad=0.3", "fc": face, "ec": "0.5"}
        if not children[node] and values is None:
            box["ec"] = "none"
        style: dict[str, Any] = {"ha": "center", "va": "center", "bbox": box}
        shade = ink() if values is None else letters_on(face)
        texts.append(ax.text(x, y, str(label), color=shade, zorder=2, **style))
    (left, low), (right, high) = places.min(axis=0), places.max(axis=0)
    ax.set(xlim=(left - 0.6, right + 0.6), ylim=(low - 0.5, high + 0.5))
    ax.axis("off")
    artists: dict[str, Any] = {"places": places, "labels": texts, "colours": colours}
    if bar:
        artists["bar"] = ax.figure.colorbar(colours, ax=ax, label="weight")
    return Display(ax, artists)


def plot_graph(
    graph: Any,
    weights: Mapping[Any, float] | npt.ArrayLike | None = None,
    ax: Axes | None = None,
    *,
    places: npt.ArrayLike | None = None,
    strokes: npt.ArrayLike | None = None,
    norm: Any = None,
    bar: bool = False,
) -> Display:
    """A graph with distances near to the numbers of steps, nodes coloured by weights.

    Nodes are discs that do not overlap, with their labels, or their names where there
    are none.

    Parameters
    ----------
    graph : a Graph, or what makes one
    weights : a number for each of the n nodes, in their order or {node: number}, for
        its colour; None for no colours
    places : (n, 2) places of the nodes; None to find them
    strokes : how many lines each of the m edges has, 1, 2 or 3, as chemists draw bonds;
        1.5 for a full and a dashed one; None for 1
    norm : of matplotlib, from weights to colours, such as LogNorm(); None for even ones
    bar : whether to draw the scale of the colours

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mercer import Graph
    >>> from mercer.plots import plot_graph
    >>> water = Graph([(0, 1), (0, 2)], labels="OHH")
    >>> display = plot_graph(water, weights=[2.0, -1.0, -1.0])
    >>> display.artists_["places"].shape, len(display.artists_["edges"])
    ((3, 2), 2)
    """
    graph = Graph.of(graph, "plot_graph", "the graph")
    n, m = len(graph.nodes), len(graph.ends)
    if isinstance(weights, Mapping):
        weights = [weights[node] for node in graph.nodes]
    values = _node_weights(weights, n, "graph")
    found = _graph_places(graph) if places is None else np.asarray(places, dtype=float)
    if found.shape != (n, 2):
        raise ValueError(f"places needs shape ({n}, 2); got {found.shape}.")
    lines = np.ones(m) if strokes is None else np.asarray(strokes, dtype=float)
    if lines.shape != (m,):
        raise ValueError(f"strokes needs {m} numbers, one per edge; got {lines.shape}.")
    ax = axes_or_new(ax)
    radius = _radius(found)
    edges = [
        _draw_edge(found[list(ends)], count, 0.25 * radius, ax)
        for ends, count in zip(graph.ends, lines, strict=True)
    ]
    colours = shades_of(np.zeros(1) if values is None else values, norm)
    faces = np.tile(paper(), n) if values is None else colours.to_rgba(values)
    size = np.full(n, 2 * radius)
    discs = EllipseCollection(
        size, size, np.zeros(n), units="xy", offsets=found, zorder=2,
        facecolors=faces, edgecolors="0.3", transOffset=ax.transData,
    )  # fmt: skip
    ax.add_collection(discs)
    shown = graph.nodes if graph.labels is None else graph.labels
    for (x, y), label, face in zip(found, shown, faces, strict=True):
        shade = ink() if values is None else letters_on(face)
        _draw_label(str(label), x, y, radius, shade, ax)
    low, high = found.min(axis=0) - 1.3 * radius, found.max(axis=0) + 1.3 * radius
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    ax.axis("off")
    artists: dict[str, Any] = {"places": found, "nodes": discs, "edges": edges}
    artists["colours"] = colours
    if bar:
        artists["bar"] = ax.figure.colorbar(colours, ax=ax, shrink=0.8, label="weight")
    return Display(ax, artists)


def _node_weights(weights: Any, n: int, kind: str) -> np.ndarray | None:
    if weights is None:
        return None
    values = np.asarray(weights, dtype=float)
    if values.shape != (n,):
        raise ValueError(
            f"plot_{kind} needs {n} weights, one per node; got shape {values.shape}."
        )
    return values


def _tree_places(tree: Tree) -> np.ndarray:
    """(n, 2): leaves at 0, 1, 2, ..., each parent above the middle of its children."""
    children = child_places(tree.arity)
    places = np.zeros((tree.size, 2))
    for node, below in enumerate(children):  # parents come first
        places[below, 1] = places[node, 1] - 1
    leaves = [node for node, below in enumerate(children) if not below]
    places[leaves, 0] = np.arange(len(leaves))
    for node in range(tree.size - 1, -1, -1):
        if children[node]:
            places[node, 0] = places[[children[node][0], children[node][-1]], 0].mean()
    return places


def _graph_places(graph: Graph) -> np.ndarray:
    """(n, 2) places of least stress, neighbours about 1 apart, none too near."""
    n = len(graph.nodes)
    if n < 2:
        return np.zeros((n, 2))
    steps = shortest_path(graph.adjacency(), directed=False, unweighted=True)
    steps[np.isinf(steps)] = 1 + np.max(steps, where=np.isfinite(steps), initial=1)
    place = _scaled(steps)
    pull = 1 / (steps + np.eye(n)) ** 2 - np.eye(n)
    inverse = np.linalg.pinv(np.diag(pull.sum(axis=1)) - pull)
    for _ in range(ROUNDS):
        gaps = place[:, None] - place
        unit = gaps / np.maximum(np.linalg.norm(gaps, axis=2), 1e-9)[..., None]
        place = inverse @ ((pull * steps)[..., None] * unit).sum(axis=1)
    return _moved_apart(place)


def _scaled(steps: np.ndarray) -> np.ndarray:
    """Where the stress begins: the two main coordinates of classical scaling."""
    n = len(steps)
    centring = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centring @ steps**2 @ centring)
    # The larger one runs across: pictures are wider than high.
    place = vectors[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 0.1))
    # Nodes that the two coordinates do not tell apart begin on a small circle.
    angle = 2 * np.pi * np.arange(n) / n
    return place + 0.05 * np.column_stack([np.cos(angle), np.sin(angle)])


def _moved_apart(place: np.ndarray) -> np.ndarray:
    """Pairs of nodes nearer than APART pushed away from each other."""
    for _ in range(ROUNDS):
        gaps = place[:, None] - place
        distance = np.linalg.norm(gaps, axis=2) + 2 * APART * np.eye(len(place))
        lack = np.maximum(0, APART - distance)
        if not lack.any():
            break
        unit = gaps / np.maximum(distance, 1e-9)[..., None]
        place = place + 0.5 * (lack[..., None] * unit).sum(axis=1)
    return place


def _radius(place: np.ndarray) -> float:
    """Of discs that do not touch."""
    if len(place) < 2:
        return 0.3
    gaps = np.linalg.norm(place[:, None] - place, axis=2)
    gaps[np.diag_indices(len(place))] = np.inf
    return 0.32 * float(gaps.min())


def _draw_edge(ends: np.ndarray, count: float, step: float, ax: Axes) -> list[Any]:
    """Parallel lines between two places; the last is dashed where half of it counts."""
    along = ends[1] - ends[0]
    across = np.array([-along[1], along[0]]) / max(float(np.hypot(*along)), 1e-9)
    whole = int(np.ceil(count))
    lines = []
    for k in range(whole):
        shift = (2 * k - (whole - 1)) * step * across
        dash = "--" if k == whole - 1 and count < whole else "-"
        style: dict[str, Any] = {"color": "0.55", "lw": 1.6, "ls": dash, "zorder": 1}
        lines.extend(ax.plot(*(ends + shift).T, **style))
    return lines


def _draw_label(
    text: str, x: float, y: float, radius: float, colour: str, ax: Axes
) -> None:
    """A text that fits into a disc whatever the size of the picture."""
    if not text.strip():
        return
    path = TextPath((0, 0), text, size=1.0)
    box = path.get_extents()
    # As high as a capital letter would be, so that all labels are of one size.
    scale = min(0.95 * radius / 0.73, 1.5 * radius / max(box.width, 1e-9))
    middle = Affine2D().translate(-(box.x0 + box.x1) / 2, -(box.y0 + box.y1) / 2)
    drawn = middle.scale(scale).translate(x, y).transform_path(path)
    ax.add_patch(PathPatch(drawn, facecolor=colour, edgecolor="none", zorder=3))
