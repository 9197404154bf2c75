"""Graphs: the folders of the TU Dortmund collection, edge lists, networkx.

Morris et al., "TUDataset: a collection of benchmark datasets for learning with graphs"
(2020), says what the files of such a folder hold.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mercer.data.graphs import Graph
from mercer.io.dataset import Dataset
from mercer.io.files import (
    Source,
    decoded,
    finite,
    lines,
    most_bytes,
    refused,
    refusing,
    shown,
)
from mercer.io.strings import Labels, as_labels, label_table
from mercer.kernels.node import Diffusion

_WHOLE = re.compile(r"[+-]?\d{1,18}")


# Folders of the TU collection


class _Folder:
    """The files of a data set, in a folder or in a zip, by their endings."""

    def __init__(self, path: Source, limit: float | None):
        self.path = Path(path)
        self.limit = most_bytes() if limit is None else limit
        self.archive: zipfile.ZipFile | None = None
        if self.path.is_dir():
            names = [str(p) for p in sorted(self.path.rglob("*_*.txt"))]
        else:
            with refusing(path, "is neither a folder nor a zip"):
                self.archive = zipfile.ZipFile(self.path)
            names = sorted(self.archive.namelist())
        first = [name for name in names if name.endswith("_A.txt")]
        if len(first) != 1:
            raise refused(
                path,
                f"has {len(first)} files ..._A.txt with edges; one data set has one.",
            )
        self.prefix = first[0].removesuffix("A.txt")
        self.names = set(names)

    def has(self, ending: str) -> bool:
        return f"{self.prefix}{ending}.txt" in self.names

    def lines(self, ending: str) -> tuple[str, list[str]]:
        """The name of a file, for errors, and its lines."""
        name = f"{self.prefix}{ending}.txt"
        if name not in self.names:
            raise refused(self.path, f"has no file {Path(name).name}.")
        if self.archive is None:
            return name, [line for _, line in lines(name, self.limit)]
        shown_name = f"{self.path}:{name}"
        # Memory is taken for what a zip says of itself: a damaged one says anything.
        member, size = self.archive.getinfo(name), self.path.stat().st_size
        if member.file_size > self.limit:
            raise refused(
                shown_name,
                f"has more than {self.limit:,.0f} bytes. Pass a larger limit.",
            )
        if member.compress_size > size:
            raise refused(shown_name, "cannot be unpacked: the zip is cut or damaged.")
        with refusing(shown_name, "cannot be unpacked"):
            data = self.archive.read(name)
        return shown_name, decoded(data, shown_name).removesuffix("\n").split("\n")

    def whole(self, ending: str, most: int | None = None) -> np.ndarray:
        """A whole number on each line; with `most`, each of 1..most."""
        name, found = self.lines(ending)
        cells = [line.strip() for line in found]
        for number, cell in enumerate(cells, start=1):
            if not _WHOLE.fullmatch(cell):
                raise refused(name, f"{shown(cell)} is no whole number.", number)
            if most is not None and not 1 <= int(cell) <= most:
                raise refused(name, f"{cell} is not in 1..{most}.", number)
        return np.array([int(cell) for cell in cells], dtype=np.int64)


def read_tu(
    path: Source, *, attributes: bool = False, limit: float | None = None
) -> Dataset:
    """Graphs in the format of the TU Dortmund collection, from a folder or its zip.

    Labels of nodes and edges are read where there are any; the target is the class of
    each graph, or its first attribute where it has no class.

    Parameters
    ----------
    path : of the folder with NAME_A.txt, NAME_graph_indicator.txt, ..., or of a zip
    attributes : whether the attributes of nodes and edges, vectors, become part of
        their labels: the tuple (label, number, ...). Our graph kernels ask whether
        labels are equal, so without it these files are left aside, with a warning that
        names them
    limit : bytes that a file may have, unpacked; None for half of the memory

    Examples
    --------
    >>> from mercer.io import read_tu
    >>> read_tu("MUTAG.zip").kernel  # doctest: +SKIP
    Normalized(kernel=WeisfeilerLehman(iterations=3))
    """
    folder = _Folder(path, limit)
    owner = folder.whole("graph_indicator")
    steps = np.diff(owner, prepend=0)
    target, note = _graph_target(folder, int(owner.max(initial=0)))
    # A graph may have no nodes where a target tells that it is there.
    wrong = (steps < 0) | (steps > (1 if target is None else len(target)))
    wrong[:1] |= owner[:1] < 1
    if wrong.any() or not len(owner):
        name, _ = folder.lines("graph_indicator")
        at = int(np.argmax(wrong)) + 1 if len(owner) else None
        raise refused(name, "graphs are numbered 1, 2, ... in this order.", at)
    edges, where = _edges(folder, owner)
    node_labels, *notes = _labels(folder, "node", len(owner), attributes)
    edge_labels, *more = _labels(folder, "edge", len(edges), attributes)
    graphs = _graphs(owner, node_labels, edges, edge_labels, where)
    notes = [*filter(None, [note]), *notes, *more]
    return Dataset(graphs, target, kind="graphs", notes=tuple(notes))


def _labels(folder: _Folder, what: str, n: int, attributes: bool) -> Any:
    """What stands for each node or edge, then notes."""
    labels = _per_line(folder, f"{what}_labels", n, f"{what}s")
    ending = f"{what}_attributes"
    if not folder.has(ending):
        return (labels,)
    if not attributes:
        name = Path(f"{folder.prefix}{ending}.txt").name
        warnings.warn(
            f"{name} of {folder.path} is not used: graph kernels ask whether labels "
            "are equal. Pass attributes=True to make these numbers part of the labels.",
            stacklevel=3,
        )
        return labels, f"{name} was not used"
    vectors = _vectors(folder, ending, n, f"{what}s")
    if labels is None:
        return (vectors,)
    pairs = zip(labels, vectors, strict=True)
    return ([(label, *vector) for label, vector in pairs],)


def _vectors(
    folder: _Folder, ending: str, n: int, what: str
) -> list[tuple[float, ...]]:
    """The numbers of each node or edge, as many on every line."""
    name, found = folder.lines(ending)
    if len(found) != n:
        raise refused(name, f"{len(found)} lines for {n} {what}.")
    vectors: list[tuple[float, ...]] = []
    for number, line in enumerate(found, start=1):
        values = []
        for column, cell in enumerate(line.split(","), start=1):
            value = finite(cell)
            if value is None:
                reason = f"{shown(cell.strip())} is no finite number."
                raise refused(name, reason, number, column)
            values.append(value)
        if vectors and len(values) != len(vectors[0]):
            reason = f"{len(values)} numbers, where line 1 has {len(vectors[0])}."
            raise refused(name, reason, number)
        vectors.append(tuple(values))
    return vectors


def _per_line(folder: _Folder, ending: str, n: int, what: str) -> list[Hashable] | None:
    """A label for each node or edge; several numbers on a line are one label."""
    if not folder.has(ending):
        return None
    name, found = folder.lines(ending)
    if len(found) != n:
        raise refused(name, f"{len(found)} lines for {n} {what}.")
    labels: list[Hashable] = []
    for number, line in enumerate(found, start=1):
        parts = [part.strip() for part in line.split(",")]
        if not all(_WHOLE.fullmatch(part) for part in parts):
            raise refused(name, f"{shown(line)} is no label (a number).", number)
        whole = tuple(int(part) for part in parts)
        labels.append(whole[0] if len(whole) == 1 else whole)
    return labels


def _edges(folder: _Folder, owner: np.ndarray) -> tuple[np.ndarray, str]:
    """(m, 2) nodes from 0 on, of one graph each."""
    name, found = folder.lines("A")
    edges = np.zeros((len(found), 2), dtype=np.int64)
    for number, line in enumerate(found, start=1):
        parts = line.split(",")
        if len(parts) != 2 or not all(_WHOLE.fullmatch(p.strip()) for p in parts):
            raise refused(name, f"{shown(line)} is no edge 'u, v'.", number)
        u, v = (int(part.strip()) for part in parts)
        for node in (u, v):
            if not 1 <= node <= len(owner):
                raise refused(name, f"node {node} is not in 1..{len(owner)}.", number)
        if owner[u - 1] != owner[v - 1]:
            raise refused(name, f"nodes {u} and {v} are of two graphs.", number)
        edges[number - 1] = u - 1, v - 1
    return edges, name


def _graphs(
    owner: np.ndarray,
    node_labels: list[Hashable] | None,
    edges: np.ndarray,
    edge_labels: list[Hashable] | None,
    name: str,
) -> list[Graph]:
    """The graphs, whose nodes are numbered from 0 on in each."""
    n = int(owner[-1])
    start = np.searchsorted(owner, np.arange(1, n + 2))
    of_edge = owner[edges[:, 0]] - 1 if len(edges) else np.zeros(0, dtype=np.int64)
    order = np.argsort(of_edge, kind="stable")
    cut = np.searchsorted(of_edge[order], np.arange(n + 1))
    graphs = []
    for g in range(n):
        some = order[cut[g] : cut[g + 1]]
        pairs = (edges[some] - start[g]).tolist()
        first, last = int(start[g]), int(start[g + 1])
        labels = None if node_labels is None else node_labels[first:last]
        kinds = None if edge_labels is None else [edge_labels[e] for e in some]
        try:
            graphs.append(
                Graph(pairs, labels, nodes=range(last - first), edge_labels=kinds)
            )
        except ValueError as error:
            raise refused(name, f"graph {g + 1}: {error}") from error
    return graphs


def _graph_target(folder: _Folder, n: int) -> tuple[np.ndarray | None, str]:
    for ending in ("graph_labels", "graph_attributes"):
        if not folder.has(ending):
            continue
        name, found = folder.lines(ending)
        if len(found) != n:
            raise refused(name, f"{len(found)} lines for {n} graphs.")
        if ending == "graph_labels":
            return folder.whole(ending), ""
        values = []
        for number, line in enumerate(found, start=1):
            value = finite(line.split(",")[0])
            if value is None:
                raise refused(name, f"{shown(line)} is no number.", number)
            values.append(value)
        return np.array(values), "the target is the first attribute of each graph"
    return None, ""


# Edge lists: the points are the nodes of one graph


def read_edges(
    path: Source, *, labels: Labels | None = None, limit: float | None = None
) -> Dataset:
    """An edge list, `u v` or `u v weight` on each line: the points are its nodes.

    The kernel is `Diffusion` on the graph. Cells are divided by white space or commas;
    a line that begins with # or % is a comment.

    Parameters
    ----------
    path : of the file, which may be compressed
    labels : of nodes, for the target: a mapping, or a table with nodes in its first
        column, labels in its second; points are then the nodes that have a label
    limit : bytes that the file may have, unpacked; None for half of the memory

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from mercer.io import read_edges
    >>> path = pathlib.Path(tempfile.mkdtemp(), "friends.edges")
    >>> _ = path.write_text("ann bob\\nbob cleo 2\\n")
    >>> data = read_edges(path)
    >>> data.points, data.kernel.graph
    (['ann', 'bob', 'cleo'], <Graph of 3 nodes and 2 edges>)
    """
    edges: list[tuple[Any, ...]] = []
    for number, line in lines(path, limit):
        text = line.strip()
        if not text or text[0] in "#%":
            continue
        parts = text.replace(",", " ").split()
        if len(parts) not in (2, 3):
            raise refused(path, f"{shown(text)} is no edge 'u v [weight]'.", number)
        if len(parts) == 2:
            edges.append((parts[0], parts[1], 1.0))
            continue
        weight = _positive(parts[2])
        if weight is None:
            raise refused(
                path, f"the weight {shown(parts[2])} is no number > 0.", number, 3
            )
        edges.append((parts[0], parts[1], weight))
    if not edges:
        raise refused(path, "has no edges.")
    try:
        graph = Graph(edges)
    except ValueError as error:
        raise refused(path, str(error)) from error
    points, target = list(graph.nodes), None
    if labels is not None:
        known = label_table(labels)
        strange = [name for name in known if name not in graph.index]
        if strange:
            raise refused(
                path, f"has no node {shown(strange[0])}, which the labels name."
            )
        points = [node for node in points if node in known]
        target = as_labels([known[str(node)] for node in points])
    return Dataset(points, target, tuple(map(str, points)), "nodes", Diffusion(graph))


def _positive(text: str) -> float | None:
    weight = finite(text)
    return weight if weight is not None and weight > 0 else None


# Graphs of networkx


def from_networkx(
    graphs: Iterable[Any],
    target: str | Sequence[Any] | None = None,
    *,
    label: str = "label",
    edge_label: str | None = "label",
    weight: str | None = "weight",
) -> Dataset:
    """networkx graphs as a `Dataset`.

    Parameters
    ----------
    target : the attribute of each graph (`graph.graph[target]`), or a list of targets
    label, edge_label, weight : attributes of nodes and edges, as of
        `Graph.from_networkx`

    Examples
    --------
    >>> import networkx
    >>> from mercer.io import from_networkx
    >>> graphs = [networkx.cycle_graph(4), networkx.path_graph(4)]
    >>> from_networkx(graphs, ["ring", "chain"]).points
    [<Graph of 4 nodes and 4 edges>, <Graph of 4 nodes and 3 edges>]
    """
    given = list(graphs)
    points = []
    for i, graph in enumerate(given):
        try:
            points.append(
                Graph.from_networkx(
                    graph, label=label, edge_label=edge_label, weight=weight
                )
            )
        except (ValueError, AttributeError) as error:
            raise ValueError(f"Graph {i}: {error}") from error
    if isinstance(target, str):
        bare = [i for i, graph in enumerate(given) if target not in graph.graph]
        if bare:
            raise ValueError(f"Graph {bare[0]} has no attribute {target!r}.")
        target = [graph.graph[target] for graph in given]
    if target is not None and len(target) != len(points):
        raise ValueError(f"There are {len(points)} graphs and {len(target)} targets.")
    return Dataset(
        points, None if target is None else np.asarray(target), kind="graphs"
    )
