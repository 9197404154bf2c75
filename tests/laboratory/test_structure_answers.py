"""Strings, trees and graphs: Gram matrices, predictions, and what matched in place."""

import pytest
from labclient import answer, copied_numbers
from numpy.testing import assert_allclose

from mercer import SVC, Graph, Tree, parse
from mercer.laboratory.structures import CATALOG

CASES = [
    (kind, one["formula"])
    for kind, make in CATALOG.items()
    for one in make()["kernels"]
]


def point(kind, value):
    if kind == "trees":
        return Tree(value)
    if kind == "graphs":
        return Graph(value["edges"], labels=value["labels"])
    return value


@pytest.mark.parametrize("kind, kernel", CASES)
def test_places_and_bias_add_up_to_f(client, kind, kernel):
    [state, *_] = [one["state"] for one in CATALOG[kind]()["examples"]]
    head, arrays = answer(client, "structures", **state | {"kernel": kernel})
    items = [point(kind, item["value"]) for item in state["items"]]
    assert_allclose(arrays["gram"], parse(kernel).resolve(items)(items), rtol=1e-5)
    known = [i for i, item in enumerate(state["items"]) if item["label"] is not None]
    labels = [state["items"][i]["label"] for i in known]
    machine = SVC(kernel=parse(kernel).resolve(items), C=10)
    machine.fit([items[i] for i in known], labels)
    values = machine.decision_function(items)
    for row, value in zip(head["items"], values, strict=True):
        assert_allclose(row["value"], value, atol=1e-6)
        assert row["predicted"] == int(value > 0)
        if head["exact"]:
            assert_allclose(sum(row["places"]) + head["bias"], value, atol=1e-6)
        for part in row["parts"]:
            for place in part["places"]:
                assert all(0 <= one < len(row["places"]) for one in place)
    assert head["exact"] == (kernel[:4] not in ("Edit", "Rand"))


@pytest.mark.parametrize("kind, kernel", CASES)
def test_what_two_have_in_common_adds_up_to_k(client, kind, kernel):
    [state, *_] = [one["state"] for one in CATALOG[kind]()["examples"]]
    left, right = (state["items"][i]["value"] for i in (0, 1))
    asked = {"kind": kind, "kernel": kernel, "left": left, "right": right}
    head, _ = answer(client, "match", **asked)
    both = [point(kind, left), point(kind, right)]
    value = parse(kernel).resolve(both)(both)[0, 1]
    assert_allclose(head["value"], value, rtol=1e-9)
    if head["left_places"] is not None:
        assert_allclose(sum(head["left_places"]), value, atol=1e-9)
        assert_allclose(sum(head["right_places"]), value, atol=1e-9)


def test_fast_food_has_afd_at_its_places(client):
    asked = {"kind": "strings", "left": "fast food", "right": "afd"}
    head, _ = answer(client, "match", kernel="Subsequence(3, 0.5)", **asked)
    [part] = head["parts"]
    assert part["left"] == [[1, 5, 8]] and part["right"] == [[0, 1, 2]]
    assert part["contribution"] == head["value"] == 0.5**8 * 0.5**3


@pytest.mark.parametrize("kind", CATALOG)
def test_copied_code_gives_the_same_classes(client, kind):
    [state, *_] = [one["state"] for one in CATALOG[kind]()["examples"]]
    copied_numbers(client, structures=state)


def test_trees_come_back_with_their_parents(client):
    items = [{"value": "(S (NP (D the) (N dog)) (VP barks))"}]
    head, _ = answer(
        client, "structures", kind="trees", kernel="Subtree(0.5)", items=items
    )
    [tree] = head["trees"]
    assert tree["labels"] == ["S", "NP", "D", "the", "N", "dog", "VP", "barks"]
    assert tree["parents"] == [-1, 0, 1, 2, 1, 4, 0, 6]
    assert head["items"][0]["value"] is None and head["note"]


@pytest.mark.parametrize(
    "change",
    [
        {"items": []},
        {"items": [{"value": 3}]},
        {"items": [{"value": "a" * 401}]},
        {"items": [{"value": "a" * 400}] * 16},
        {"items": [{"value": "a", "label": 6}]},
        {"items": [{"value": "a", "other": 6}]},
        {"kernel": "RBF(1)"},
        {"kernel": "Mismatch(5, 3)"},
        {"machine": {"name": "RVC"}},
        {"kind": "trees", "kernel": "Subtree()", "items": [{"value": "(a"}]},
        {"kind": "trees", "kernel": "Subtree()", "items": [{"value": "(a " * 201}]},
        {"kind": "graphs", "kernel": "ShortestPath()"},
        {"kind": "graphs", "items": [{"value": {"labels": [], "edges": []}}]},
        {"kind": "graphs", "items": [{"value": {"labels": ["a"], "edges": [[0, 1]]}}]},
        {"kind": "graphs", "items": [{"value": {"labels": ["a"], "edges": [[0, 0]]}}]},
        {"kind": "graphs", "items": [{"value": {"labels": ["a"], "edges": [0]}}]},
    ],
)
def test_what_is_no_structure_is_refused(client, change):
    items = [{"value": "aba", "label": 0}, {"value": "bab", "label": 1}]
    body = {"kind": "strings", "items": items, "kernel": "Spectrum(2)"} | change
    assert client.post("/api/structures", json=body).status_code == 400
