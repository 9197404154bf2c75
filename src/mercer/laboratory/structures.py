"""Strings, trees and graphs: Gram matrix, prediction, and what matched, in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.data.graphs import Graph
from mercer.data.trees import Tree
from mercer.explanations.explaining import explain
from mercer.kernels.base import Kernel
from mercer.laboratory.fields import Fields, is_number, shown
from mercer.laboratory.formulas import read_kernel
from mercer.laboratory.frames import Answer
from mercer.laboratory.jobs import Job
from mercer.laboratory.offers import Offer, read_machine
from mercer.laboratory.refusals import Refusal
from mercer.laboratory.state import MOST_CLASSES
from mercer.machines.ridge import KernelRidge

KINDS = ("strings", "trees", "graphs")
MOST_ITEMS = 60
LONGEST = 400  # letters of a string
LONGEST_TREE = 1000  # letters of its text
MOST_NODES = 60  # of a graph; of a tree 200
MOST_TREE_NODES = 200
MOST_EDGES = 400
MOST_LETTERS = 6000  # of all strings
MOST_EXPLAINED = 120  # letters or nodes of an item that is taken apart
EXPLAINING = 5.0  # seconds of a job after which no further item is
MOST_PARTS = 30
MOST_PLACES = 12  # occurrences of a part
MACHINES = (
    "SVC",
    "KernelLogisticRegression",
    "KernelPerceptron",
    "KernelKNNClassifier",
)


@dataclass(frozen=True, eq=False)
class Structures:
    """What a request holds: points of one kind, some with labels."""

    kind: str
    items: list[Any]
    labels: list[int | None]
    kernel: Kernel
    offer: Offer
    params: dict[str, Any]

    @property
    def known(self) -> list[int]:
        """The numbers of those with a label."""
        return [i for i, label in enumerate(self.labels) if label is not None]

    @property
    def y(self) -> list[int]:
        """Their labels."""
        return [label for label in self.labels if label is not None]


def read_structures(fields: Fields) -> Structures:
    """The strings, trees or graphs of a request."""
    kind = fields.choice("kind", KINDS)
    given = fields.items("items", 1, MOST_ITEMS)
    items, labels = [], []
    for i, one in enumerate(given):
        inner = Fields(one, ("value", "label"), f"{fields.place}/items/{i}")
        items.append(read_item(inner, "value", kind))
        label = inner.value.get("label")
        if label is not None:
            label = inner.whole("label", 0, MOST_CLASSES - 1)
        labels.append(label)
    if kind == "strings" and sum(map(len, items)) > MOST_LETTERS:
        fields.refuse("items", f"has more than {MOST_LETTERS} letters in all")
    kernel = read_kernel(fields, kind)
    if not fields.has("machine"):
        fields.value = {**fields.value, "machine": {"name": "SVC", "params": {"C": 10}}}
    offer, params = read_machine(fields, "classify")
    if offer.name not in MACHINES:
        fields.refuse("machine", f"needs one of {', '.join(MACHINES)} here")
    return Structures(kind, items, labels, kernel, offer, params)


def read_item(fields: Fields, name: str, kind: str) -> Any:
    """A string, a tree or a graph."""
    if kind == "graphs":
        return _graph(fields.inner(name, ("labels", "edges", "places")))
    text = fields.text(name, LONGEST if kind == "strings" else LONGEST_TREE)
    if kind == "strings":
        return text
    try:
        tree = Tree(text)
    except ValueError as error:
        raise Refusal(str(error), code="tree", field=f"{fields.place}/{name}") from None
    if tree.size > MOST_TREE_NODES:
        fields.refuse(
            name, f"has {tree.size} nodes; at most {MOST_TREE_NODES} are taken"
        )
    return tree


def _graph(fields: Fields) -> Graph:
    labels = fields.items("labels", 1, MOST_NODES)
    for label in labels:
        if not isinstance(label, str) or len(label) > 12:
            fields.refuse("labels", "needs texts of at most 12 letters, one for a node")
    edges = []
    for edge in fields.items("edges", 0, MOST_EDGES):
        pair: Any = edge if isinstance(edge, list) and len(edge) == 2 else [None]
        whole = all(is_number(end) and end == int(end) for end in pair)
        if not whole or not all(0 <= end < len(labels) for end in pair):
            fields.refuse(
                "edges",
                f"needs pairs of nodes from 0 to {len(labels) - 1}; got {shown(edge)}",
            )
        if pair[0] == pair[1]:
            fields.refuse("edges", f"has an edge from node {pair[0]} to itself")
        edges.append((int(pair[0]), int(pair[1])))
    return Graph(edges, labels=dict(enumerate(labels)), nodes=range(len(labels)))


# Answers


def structures(given: Structures, job: Job) -> Answer:
    """The Gram matrix of all, and what a machine says of each and why."""
    kernel = given.kernel.resolve(given.items)
    K = np.asarray(kernel(given.items), dtype=float)
    job.check()
    head: dict[str, Any] = {
        "kernel": repr(kernel),
        "machine": {"name": given.offer.name, "params": given.params},
        "classes": sorted(set(given.y)),
        "bias": None,
        "score": None,
        "exact": False,
        "note": None,
    }
    rows: list[dict[str, Any]] = [
        {"label": label, "value": None, "predicted": None, "parts": [], "places": None}
        for label in given.labels
    ]
    if len(set(given.y)) < 2:
        head["note"] = "Give two classes of labels, and a machine is fitted."
    else:
        _judge(given, kernel, job, head, rows)
    if given.kind == "trees":
        head["trees"] = [_nodes(tree) for tree in given.items]
    head["items"], head["warnings"] = rows, job.warnings
    return Answer(head, {"gram": K})


def fitted_machine(given: Structures, kernel: Kernel, job: Job) -> Any:
    """The machine, fitted to the items with a label."""
    machine = job.of(given.offer.make(given.params, kernel=kernel, callback=job.watch))
    return machine.fit([given.items[i] for i in given.known], given.y)


def _judge(
    given: Structures,
    kernel: Kernel,
    job: Job,
    head: dict[str, Any],
    rows: list[dict[str, Any]],
) -> None:
    """Fill in what the machine says of each item."""
    machine = fitted_machine(given, kernel, job)
    job.check()
    predicted = np.asarray(machine.predict(given.items))
    hits = [predicted[i] == given.labels[i] for i in given.known]
    head["score"] = {"name": "accuracy", "value": float(np.mean(hits))}
    values = None
    if hasattr(machine, "decision_function"):
        values = np.asarray(machine.decision_function(given.items))
    for i, row in enumerate(rows):
        row["predicted"] = int(predicted[i])
        row["value"] = None if values is None else values[i].tolist()
    if values is None or values.ndim > 1 or not hasattr(machine, "expansion_"):
        head["note"] = "What matched is shown for two classes."
        return
    head["bias"] = float(np.ravel(machine.expansion_.bias)[0])
    head["exact"] = True
    for item, row in zip(given.items, rows, strict=True):
        job.check()
        if size_of(item) > MOST_EXPLAINED or job.spent > EXPLAINING:
            head["note"] = "What matched is not shown of all: they are long, or many."
            continue
        [found] = explain(machine, [item], n=MOST_PARTS)
        head["exact"] &= found.by == "features" and found.n_parts is not None
        row["parts"] = [_part(part) for part in found.parts if part.name != "rest"]
        row["places"] = _places(found, size_of(item)) if found.items else None


def size_of(item: Any) -> int:
    """How many letters or nodes it has."""
    if isinstance(item, Graph):
        return len(item.nodes)
    return item.size if isinstance(item, Tree) else len(item)


def _places(found: Any, size: int) -> list[float]:
    """What each letter or node adds to f."""
    out = [0.0] * size
    for place, value in found.items.items():
        if isinstance(place, int) and 0 <= place < size:
            out[place] += value
    return out


def _part(part: Any, factor: float = 1.0) -> dict[str, Any]:
    return {
        "text": part.name,
        "contribution": part.value * factor,
        "places": [list(place.items) for place in part.places[:MOST_PLACES]],
    }


def _nodes(tree: Tree) -> dict[str, Any]:
    """Labels and parents in preorder."""
    parents, waiting = [], [(-1, 1)]
    for number, children in enumerate(tree.arity):
        parent, left = waiting.pop()
        parents.append(parent)
        if left > 1:
            waiting.append((parent, left - 1))
        if children:
            waiting.append((number, children))
    return {"labels": [str(label) for label in tree.labels], "parents": parents}


def match(left: Any, right: Any, kernel: Kernel, job: Job) -> Answer:
    """k(left, right) taken apart: what both have, and where it is in each."""
    kernel = kernel.resolve([left, right])
    K = np.asarray(kernel([left, right]), dtype=float)
    value, size = float(K[0, 1]), float(np.sqrt(K[0, 0] * K[1, 1]))
    short = max(size_of(left), size_of(right)) <= MOST_EXPLAINED
    here = _taken_apart(kernel, left, right, job) if short else None
    there = _taken_apart(kernel, right, left, job) if here else None
    head: dict[str, Any] = {
        "kernel": repr(kernel),
        "value": value,
        "normalized": value / size if size > 0 else None,
        "parts": [],
        "left_places": None,
        "right_places": None,
    }
    if here is None or there is None:
        head["note"] = (
            f"{kernel!r} has no features to be listed."
            if short
            else f"Features are listed up to {MOST_EXPLAINED} letters or nodes."
        )
        return Answer(head, {"gram": K})
    (in_right, factor), (in_left, other) = here, there
    places = {part.name: _part(part, other)["places"] for part in in_left.parts}
    for part in in_right.parts:
        if part.name != "rest" and part.value:
            one = _part(part, factor)
            one |= {"left": places.get(part.name, []), "right": one.pop("places")}
            head["parts"].append(one)
    sums = [(in_left, left, other), (in_right, right, factor)]
    named = ("left_places", "right_places")
    for name, (found, item, times) in zip(named, sums, strict=True):
        head[name] = [times * one for one in _places(found, size_of(item))]
    return Answer(head, {"gram": K})


def _taken_apart(
    kernel: Kernel, known: Any, x: Any, job: Job
) -> tuple[Any, float] | None:
    """k(known, ·) at x by features, up to a factor; None where it has none.

    A ridge machine on a single point is such a function: f = coef · k(known, ·).
    """
    job.check()
    machine = KernelRidge(alpha=1.0, kernel=kernel).fit([known], [1.0])
    coef = float(np.ravel(machine.dual_coef_)[0])
    [found] = explain(machine, [x], n=MOST_PARTS)
    return (found, 1 / coef) if found.by == "features" else None


# What the page begins with

_WORDS = (("fast food", 0), ("slow food", 0), ("soft food", 0), ("fast car", 1),
          ("slow car", 1), ("red car", 1), ("food car", None))  # fmt: skip
_ACIDS = (("GIGKFLHSAKKFGKAFVGEIMNS", 0), ("KWKLFKKIEKVGQNIRDGIIKAGPAVAVVGQ", 0),
          ("GLFDIIKKIAESF", 0), ("MKTAYIAKQRQISFVKSHFSRQ", 1),
          ("MSDNGPQNQRNAPRITFGGPSD", 1), ("MEEPQSDPSVEPPLSQETFSDL", 1),
          ("GIGKFLKKAKKFGKAFVKILKK", None))  # fmt: skip
_SENTENCES = (
    ("(S (NP (D the) (N dog)) (VP (V runs)))", 0),
    ("(S (NP (D a) (N cat)) (VP (V sleeps)))", 0),
    ("(S (NP (D the) (N cat)) (VP (V runs)))", 0),
    ("(SQ (V does) (NP (D the) (N dog)) (VP (V run)))", 1),
    ("(SQ (V is) (NP (D a) (N cat)) (ADJ asleep))", 1),
    ("(SQ (V does) (NP (N he)) (VP (V sleep)))", 1),
    ("(SQ (V does) (NP (D the) (N cat)) (VP (V sleep)))", None),
)
_MOLECULES = (
    ("CCO", [[0, 1], [1, 2]], 0),
    ("CCCO", [[0, 1], [1, 2], [2, 3]], 0),
    ("CCOC", [[0, 1], [1, 2], [1, 3]], 0),
    ("CCCCCC", [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0]], 1),
    ("CCCCCN", [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0]], 1),
    ("CCCCCO", [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [4, 5]], 1),
    ("CCCCCCO", [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0], [5, 6]], None),
)


def _texts(kind: str, kernel: str, rows: Any) -> dict[str, Any]:
    items = [{"value": value, "label": label} for value, label in rows]
    return {"kind": kind, "kernel": kernel, "items": items}


def _graphs(kernel: str) -> dict[str, Any]:
    items = [
        {"value": {"labels": list(labels), "edges": edges}, "label": label}
        for labels, edges, label in _MOLECULES
    ]
    return {"kind": "graphs", "kernel": kernel, "items": items}


def amino_acids() -> dict[str, Any]:
    """Short proteins: antimicrobial ones, and beginnings of others."""
    return _texts("strings", "Normalized(Spectrum(2))", _ACIDS)


def fast_food() -> dict[str, Any]:
    """Food and cars, by subsequences."""
    return _texts("strings", "Subsequence(3, 0.5)", _WORDS)


CATALOG: dict[str, Callable[[], dict[str, Any]]] = {
    "strings": lambda: {
        "kernels": [
            {"formula": "Spectrum(2)", "title": "Spectrum: substrings of k letters"},
            {"formula": "Subsequence(3, 0.5)", "title": "Subsequences, gaps decay"},
            {"formula": "WeightedSubstrings(0.5)", "title": "All substrings"},
            {"formula": "Mismatch(3, 1)", "title": "Spectrum with mismatches"},
            {"formula": "WeightedDegree(3)", "title": "Same substring, same place"},
            {"formula": "Normalized(Spectrum(2))", "title": "Normalised spectrum"},
            {"formula": "EditSimilarity(1.0)", "title": "Edit similarity (no kernel)"},
        ],
        "examples": [
            {"title": "Food and cars", "state": fast_food()},
            {"title": "Amino acids", "state": amino_acids()},
        ],
    },
    "trees": lambda: {
        "kernels": [
            {"formula": "SubsetTree(0.4)", "title": "Fragments: rules kept whole"},
            {"formula": "Subtree(0.4)", "title": "Complete subtrees"},
            {"formula": "PartialTree(0.4, 0.4)", "title": "Partial trees"},
            {"formula": "Normalized(SubsetTree(0.4))", "title": "Normalised fragments"},
        ],
        "examples": [
            {
                "title": "Sentences and questions",
                "state": _texts("trees", "SubsetTree(0.4)", _SENTENCES),
            }
        ],
    },
    "graphs": lambda: {
        "kernels": [
            {"formula": "WeisfeilerLehman(2)", "title": "Weisfeiler–Lehman"},
            {"formula": "ShortestPath()", "title": "Shortest paths"},
            {"formula": "RandomWalk(0.05)", "title": "Random walks"},
            {
                "formula": "Normalized(WeisfeilerLehman(2))",
                "title": "Normalised Weisfeiler–Lehman",
            },
        ],
        "examples": [
            {"title": "Chains and rings", "state": _graphs("WeisfeilerLehman(2)")}
        ],
    },
}
