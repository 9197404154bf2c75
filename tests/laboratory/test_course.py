"""The catalog and the course: every example of the mission is one click."""

import pytest
from labclient import answer

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


def test_exclusive_or_has_the_multipliers_of_the_course(client):
    head, arrays = answer(client, "fit", **EXAMPLES["E1"]["state"])
    assert arrays["alpha"].tolist() == [0.125] * 4
    assert round(head["certificate"]["margin"], 6) == 1.414214


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
