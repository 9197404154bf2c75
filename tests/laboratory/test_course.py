"""The catalog and the course: every example of the mission is one click."""

import numpy as np
import pytest
from labclient import answer, copied_numbers
from numpy.testing import assert_allclose

from mercer.laboratory.course import course

EXAMPLES = {one["id"]: one for one in course()["examples"]}
ROUTES = {
    "plane": "fit",
    "step": "steps",
    "structures": "structures",
    "figure": "figure",
}


def test_all_examples_have_three_questions(client):
    found = client.get("/api/course").json()
    assert list(EXAMPLES) == [f"E{k}" for k in range(1, 21)]
    assert found["examples"] == list(EXAMPLES.values())
    assert all(len(one["questions"]) == 3 for one in EXAMPLES.values())
    listed = [e for chapter in found["chapters"] for e in chapter["examples"]]
    assert sorted(listed) == sorted(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_answered(client, name):
    one = EXAMPLES[name]
    head, _ = answer(client, ROUTES[one["tab"]], **one["state"])
    assert not head.get("note")
    if one["panel"] in ("gram", "features", "bounds", "path"):
        answer(client, one["panel"], **one["state"])


CODES = {"plane": "state", "step": "steps"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_code_of_an_example_gives_its_numbers(client, name):
    one = EXAMPLES[name]
    asked = {CODES.get(one["tab"], one["tab"]): one["state"]}
    _, told = copied_numbers(client, **asked)
    if one["tab"] == "figure":
        head, _ = answer(client, "figure", **one["state"])
        assert head["numbers"] == told


def test_exclusive_or_has_the_multipliers_of_the_course(client):
    asked = EXAMPLES["E1"]["state"]
    head, arrays = answer(client, "fit", **asked["state"])
    assert arrays["alpha"].tolist() == [0.125] * 4
    assert round(head["certificate"]["margin"], 6) == 1.414214
    head, arrays = answer(client, "figure", **asked)
    assert head["numbers"]["error in coordinates 2 and 6"] == 0
    points = arrays["points"]
    two = np.sqrt(2) * np.column_stack([points[:, 0], points.prod(axis=1)])
    assert_allclose(arrays["mapped"], two, rtol=1e-6)


def test_disc_and_ellipse_are_decided_by_two_signs(client):
    head, arrays = answer(client, "figure", **EXAMPLES["E2"]["state"])
    numbers = head["numbers"]
    assert numbers["error of the rule"] == numbers["points at (+1, -1)"] == 0
    assert sum(list(numbers.values())[1:]) == len(arrays["points"])


def test_widest_of_three_lines_is_the_last(client):
    head, arrays = answer(client, "figure", **EXAMPLES["E16"]["state"])
    first, second, widest, _ = head["numbers"].values()
    assert 0 < min(first, second) and max(first, second) < widest
    segments = arrays["segments"].astype(float)
    lengths = np.linalg.norm(segments[:, :2] - segments[:, 2:], axis=1)
    assert_allclose(lengths, widest, rtol=1e-3)


def test_slack_ends_on_the_margin(client):
    _, arrays = answer(client, "fit", **EXAMPLES["E17"]["state"])
    points = np.array(EXAMPLES["E17"]["state"]["points"])
    far = arrays["slack"] > 0
    assert far.any() and not far.all()
    # f is affine, so its values at the points tell it.
    A = np.column_stack([points[:, :2], np.ones(len(points))])
    w = np.linalg.lstsq(A, arrays["value"], rcond=None)[0]
    f = arrays["foot"][far] @ w[:2] + w[2]
    assert_allclose(f, np.where(points[far, 2] == 1, 1, -1), atol=1e-5)
    state = EXAMPLES["E15"]["state"]
    head, arrays = answer(client, "fit", **state)
    over = arrays["slack"] > 0
    edge = arrays["foot"][over, 1] - arrays["value"][over]
    assert_allclose(np.abs(edge), state["machine"]["params"]["epsilon"], atol=1e-5)
    assert_allclose(head["slack"], arrays["slack"].sum(), rtol=1e-5)


def test_three_clusters_have_the_eigenvalues_of_the_course(client):
    head, arrays = answer(client, "figure", **EXAMPLES["E9"]["state"])
    values = list(head["numbers"].values())
    assert len(values) == 8 and all(20 < one < 25 for one in values[:2])
    assert 3.5 < values[2] < 4.6
    assert {one["field"] for one in head["panels"]} <= arrays.keys()


def test_catalog_offers_what_the_routes_take(client):
    catalog = client.get("/api/catalog").json()
    for task in catalog["tasks"]:
        assert set(task["machines"]) <= catalog["machines"].keys()
    for kernel in catalog["kernels"]:
        found = client.post("/api/kernel", json={"kernel": kernel["formula"]})
        assert found.status_code == 200, kernel
    for machine in catalog["machines"].values():
        for one in machine["parameters"]:
            if one["kind"] in ("number", "integer"):
                assert one["low"] <= one["default"] <= one["high"]
