"""What a graph is made from, lists of edges, labels and matrices: checked and numbered.

In a matrix an entry that is not 0 is an edge between its row and its column, and its
weight. The graph is undirected: an edge is there if either of A(i, j) and A(j, i) is
not 0, so that what `kneighbors_graph` returns is read as it is; where both are, they
must agree.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.checks import check_label, describe
from mercer.native import sparsity
from mercer.native.interruptible import SORTING, interruptible
from mercer.native.sorting import distinct
from mercer.native.sparsity import Vectors

# Relative tolerance between A(i, j) and A(j, i), one distance rounded twice.
AGREE = 1e-9


def is_matrix(x: Any) -> bool:
    """Whether x is an array or a sparse matrix, of any shape."""
    return isinstance(x, np.ndarray) or sp.issparse(x)


def edges_of(A: Vectors, who: str = "A graph") -> tuple[np.ndarray, np.ndarray]:
    """The edges of A as (m, 2) places, smaller first and sorted, and their weights."""
    n = square_side(A, who)
    kind = A.dtype.kind
    if kind not in "biuf":
        raise TypeError(
            f"{who} needs real numbers in an adjacency matrix, the weights of the "
            f"edges; got dtype {A.dtype}."
        )
    rows, columns, weights = _entries(A, who)
    weights = weights.astype(float, copy=False)
    _check_weights(who, rows, columns, weights)
    lower, higher = np.minimum(rows, columns), np.maximum(rows, columns)
    # The two directions of an edge stand side by side once its key is sorted.
    key = lower.astype(np.int64) * n + higher
    order = np.argsort(key, kind="stable")
    key, weights = key[order], weights[order]
    first = np.append(True, key[1:] != key[:-1])[: len(key)]
    edge = np.cumsum(first) - 1
    smallest, largest = np.full((2, int(first.sum())), np.inf)
    largest[:] = 0
    np.minimum.at(smallest, edge, weights)
    np.maximum.at(largest, edge, weights)
    _check_agreement(who, key[first], n, smallest, largest)
    ends = np.empty((len(largest), 2), dtype=np.intp)
    np.divmod(key[first], n or 1, out=(ends[:, 0], ends[:, 1]), casting="unsafe")
    return ends, largest


def square_side(A: Vectors, who: str = "A graph") -> int:
    """n of an (n, n) matrix; other shapes are refused."""
    if A.ndim == 2 and A.shape[0] == A.shape[1]:
        return A.shape[0]
    hint = (
        " A list of edges is given as a list: edges.tolist()."
        if A.ndim == 2 and A.shape[1] in (2, 3) and not sp.issparse(A)
        else " One graph among many is a matrix in a list: [A]."
    )
    raise ValueError(
        f"{who} needs a square adjacency matrix; got shape {A.shape}.{hint}"
    )


def _entries(A: Vectors, who: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, columns, weights) of the entries that are not 0; duplicates added up."""
    if not sp.issparse(A):
        if np.ma.is_masked(A):
            raise ValueError(
                f"{who} needs all entries of an adjacency matrix; some are masked. "
                "Fill them in first: A.filled(0)."
            )
        A = np.asarray(A)
        rows, columns = np.nonzero(A)
        return rows, columns, A[rows, columns]
    sparsity.check(A)
    A = sp.csr_array(A, copy=True)
    A.sum_duplicates()
    A.eliminate_zeros()
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    return rows, A.indices, A.data


def _check_weights(
    who: str, rows: np.ndarray, columns: np.ndarray, weights: np.ndarray
) -> None:
    right = np.isfinite(weights) & (weights > 0)
    if right.all():
        return
    at = int(np.argmin(right))
    raise ValueError(
        f"{who} needs finite weights ≥ 0 in an adjacency matrix, 0 for no edge; the "
        f"entry ({rows[at]}, {columns[at]}) is {float(weights[at])!r}."
    )


def _check_agreement(
    who: str, key: np.ndarray, n: int, smallest: np.ndarray, largest: np.ndarray
) -> None:
    differ = largest - smallest > AGREE * largest
    if not differ.any():
        return
    at = int(np.argmax(differ))
    i, j = divmod(int(key[at]), n)
    raise ValueError(
        f"{who} is undirected, but its adjacency matrix has the weights "
        f"{smallest[at]:g} and {largest[at]:g} between the nodes {i} and {j}, one each "
        "way. Pass (A + A.T) / 2, or the larger of A and A.T."
    )


def shape_of(x: Any) -> str:
    """x for an error message, matrices by their shape."""
    if is_matrix(x):
        return f"an array of shape {x.shape}"
    return describe(x)


# Lists


def listed(items: Any, what: str) -> list[Any]:
    if sp.issparse(items) or (isinstance(items, np.ndarray) and items.ndim == 2):
        if sp.issparse(items) or items.shape[1] not in (2, 3):
            raise TypeError(
                f"A graph needs a list of {what}; got a matrix of shape {items.shape}. "
                "Graph.from_adjacency reads the weights of edges from a matrix."
            )
    if isinstance(items, np.ndarray):
        return items.tolist()
    if isinstance(items, bytes) or not isinstance(items, Iterable):
        raise TypeError(f"A graph needs a list of {what}; got {describe(items)}.")
    return list(items)


def named(
    edges: list[Any], labels: Any, nodes: Any
) -> tuple[Sequence[Hashable], tuple[Hashable, ...] | None]:
    """The nodes, and their labels in the same order."""
    if nodes is None and labels is None:
        ends = (end for edge in edges for end in pair(edge))
        return tuple(hashable(ends, "node")), None
    if nodes is None and not isinstance(labels, Mapping):
        labels = tuple(listed(labels, "labels"))
        hashable(labels, "label")
        return range(len(labels)), labels
    names = tuple(hashable(labels if nodes is None else nodes, "node"))
    if labels is None:
        return names, None
    if not isinstance(labels, Mapping):
        in_order = listed(labels, "labels")
        if len(in_order) != len(names):
            raise ValueError(
                f"Each node of a graph has one label; got {len(in_order)} labels for "
                f"{len(names)} nodes."
            )
        labels = dict(zip(names, in_order, strict=True))
    if labels.keys() != set(names):
        odd = next(iter(labels.keys() ^ set(names)))
        raise ValueError(
            f"Each node of a graph has one label; {odd!r} is among the "
            f"{'labels' if odd in labels else 'nodes'} only."
        )
    hashable(labels.values(), "label")
    return names, tuple(labels[node] for node in names)


def pair(edge: Any) -> tuple[Any, Any]:
    """The two ends of an edge."""
    try:
        u, v, *_ = edge
    except (TypeError, ValueError):
        raise TypeError(
            f"An edge is a pair (u, v) or a triple (u, v, weight); got "
            f"{describe(edge)}."
        ) from None
    return u, v


def hashable(names: Iterable[Any], what: str) -> dict[Hashable, None]:
    """The names without repetition, in order."""
    names = list(names)
    for name in names:
        if type(name) is tuple:  # its hash could take exponential time
            check_label(name, f"The {what}s of a graph are; one of them")
    try:
        return dict.fromkeys(names)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        raise TypeError(
            f"The {what}s of a graph must be hashable (numbers, strings, tuples); "
            f"{error}. Make a tuple of a list or an array."
        ) from None


def numbered(
    edges: list[Any], nodes: Sequence[Hashable]
) -> tuple[np.ndarray, np.ndarray]:
    """The places of the ends of the edges, smaller first, and the weights; sorted."""
    n, place = len(nodes), {node: i for i, node in enumerate(nodes)}
    try:
        places = ((place[u], place[v]) for u, v in edges)
        both = (i * n + j if i <= j else j * n + i for i, j in places)
        keys = _sorted(np.fromiter(both, np.intp, len(edges)))
        weights = np.ones(len(keys))
    except (TypeError, ValueError, KeyError):  # not all plain pairs of nodes
        weighted = _weighted(edges, place)
        keys = _sorted(np.fromiter(weighted, np.intp, len(weighted)))
        weights = np.array([weighted[key] for key in keys.tolist()])
    ends = np.empty((len(keys), 2), dtype=np.intp)
    np.divmod(keys, n or 1, out=(ends[:, 0], ends[:, 1]))
    return ends, weights


def _sorted(keys: np.ndarray) -> np.ndarray:
    """The different keys in order."""
    return interruptible(distinct, keys, work=float(SORTING) * len(keys))


def _weighted(edges: list[Any], place: dict[Hashable, int]) -> dict[int, float]:
    """The weight of each edge, by its place in the matrix of all pairs."""
    weights: dict[int, float] = {}
    for k, edge in enumerate(edges):
        u, v = pair(edge)
        for end in hashable((u, v), "node"):
            if end not in place:
                raise ValueError(
                    f"Edge {k} ends in {end!r}, which is none of the {len(place)} "
                    "nodes. Give every node a label, or list it in nodes."
                )
        i, j = sorted((place[u], place[v]))
        weight = 1.0 if len(edge) == 2 else _weight(k, edge)
        if weights.setdefault(i * len(place) + j, weight) != weight:
            raise ValueError(
                f"The edge between {u!r} and {v!r} is given twice, with the weights "
                f"{weights[i * len(place) + j]:g} and {weight:g}. Give it once."
            )
    return weights


def labels_of_edges(
    given: Any, edges: list[Any] | None, index: dict[Hashable, int], ends: np.ndarray
) -> tuple[Hashable, ...]:
    """The labels of the edges in the order of their ends."""
    if isinstance(given, Mapping):
        labelled = list(given.items())
    elif edges is None:
        raise TypeError(
            "The edges of an adjacency matrix have no order: edge_labels is "
            f"{{(u, v): label}}; got {describe(given)}."
        )
    else:
        labels = listed(given, "labels")
        if len(labels) != len(edges):
            raise ValueError(
                f"Each edge of a graph has one label; got {len(labels)} labels for "
                f"{len(edges)} edges."
            )
        labelled = [(pair(e), label) for e, label in zip(edges, labels, strict=True)]
    hashable((label for _, label in labelled), "edge label")
    n = len(index)
    wanted = (ends[:, 0] * n + ends[:, 1]).tolist()
    edge_of = dict.fromkeys(wanted)
    found: dict[int, Hashable] = {}
    for edge, label in labelled:
        u, v = pair(edge)
        i, j = sorted((index.get(u, -1), index.get(v, -1)))
        if i < 0 or i * n + j not in edge_of:
            raise ValueError(
                f"The label {label!r} is for an edge between {u!r} and {v!r}, which "
                "the graph does not have."
            )
        if found.setdefault(i * n + j, label) != label:
            raise ValueError(
                f"The edge between {u!r} and {v!r} is given twice, with the labels "
                f"{found[i * n + j]!r} and {label!r}. Give it once."
            )
    bare = next((key for key in wanted if found.get(key) is None), None)
    if bare is not None:
        u, v = (list(index)[i] for i in divmod(bare, n))
        raise ValueError(
            f"Either all edges of a graph have a label or none; the edge between {u!r} "
            f"and {v!r} has none."
        )
    return tuple(found[key] for key in wanted)


def _weight(i: int, edge: Any) -> float:
    *_, weight = edge
    try:
        number = float(weight) if len(edge) == 3 else np.nan
    except (TypeError, ValueError):
        number = np.nan
    if not (number > 0 and np.isfinite(number)):
        raise ValueError(
            f"Edge {i} is {edge!r}: an edge is (u, v) or (u, v, weight), its weight a "
            "finite number > 0. Leave edges of weight 0 out."
        )
    return number
