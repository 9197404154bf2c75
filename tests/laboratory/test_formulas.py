"""Kernels typed on the page: bounds, sliders, proofs, refutations."""

import numpy as np
import pytest
from labclient import refusal

from mercer import parse

POINTS = [[0.1 * i, (0.37 * i) % 1, i % 2] for i in range(12)]


def known(client, kernel, **more):
    found = client.post("/api/kernel", json={"kernel": kernel, **more})
    assert found.status_code == 200, found.text
    return found.json()


@pytest.mark.parametrize(
    "kernel",
    [
        "Linear()**65",
        "Polynomial(1000000)",
        "Nystrom(RBF(1), 100000)",
        "RandomFourier(RBF(1), 1000000)",
        "GaussianSeries(1.0, 5000)",
        " + ".join(["RBF(1)"] * 41),
        "Exp(" * 45 + "Linear()" + ")" * 45,
        "Nystrom(" * 3 + "RBF(1)" + ", 5)" * 3,
        "Centered(2 * Centered(Centered(RBF(1)) + Linear()))",
        "Precomputed([[1, 0], [0, 1]])",
        "PowerSeries([" + "1," * 101 + "])",
        "RBF(1e300)",
        "Spectrum(3)",
        "Diffusion(3)",
    ],
)
def test_kernels_that_would_take_long_are_refused(client, kernel):
    found = client.post("/api/kernel", json={"kernel": kernel})
    assert refusal(found, 400, "kernel")["place"]["field"] == "/kernel"


@pytest.mark.parametrize(
    "kernel, position",
    [("RBF(", 3), ("RBF(1) + Foo()", 9), ("__import__('os')", 0), ("Linear() - 1", 0)],
)
def test_errors_in_a_formula_have_their_place(client, kernel, position):
    found = client.post("/api/kernel", json={"kernel": kernel})
    assert refusal(found, 400, "kernel")["place"]["position"] == position


def test_sliders_change_the_formula(client):
    found = known(client, "2*RBF(0.5) + Linear()**2", points=POINTS)
    sliders = {one["name"]: one for one in found["parameters"]}
    assert list(sliders) == ["left__factor", "left__kernel__gamma", "right__exponent"]
    assert sliders["right__exponent"]["kind"] == "integer"
    gamma = sliders["left__kernel__gamma"]
    assert gamma["low"] < gamma["value"] < gamma["high"] and gamma["scale"] == "log"
    changed = {"left__kernel__gamma": 3.0, "right__exponent": 3}
    again = known(client, found["kernel"], set=changed)
    assert parse(again["kernel"]) == parse("2*RBF(3.0) + Linear()**3")


def test_a_value_that_data_fix_is_shown(client):
    [gamma] = known(client, "RBF()", points=POINTS)["parameters"]
    X = np.array(POINTS)[:, :2]
    assert gamma["value"] is None
    assert np.isclose(gamma["resolved"], parse("RBF()").resolve(X).gamma)


def test_proof_is_a_tree_of_rules(client):
    proof = known(client, "RBF(1) * Sigmoid(1, 0)")["proof"]
    left, right = proof["children"]
    assert (left["psd"], right["psd"]) == (True, False)
    assert proof["psd"] is not True and right["rule"]


@pytest.mark.parametrize("points", [POINTS, []])
def test_refutation_is_a_negative_square(client, points):
    found = known(client, "Sigmoid(1, -1)", points=points)
    assert found["psd"] is False
    witness = found["refutation"]
    vector, places = np.array(witness["vector"]), np.array(witness["points"])
    square = vector @ parse("Sigmoid(1, -1)")(places) @ vector
    assert square < 0 and np.isclose(square, witness["value"])
    if points:
        assert (places == np.array(points)[witness["indices"], :2]).all()


def test_valid_kernels_are_not_refuted(client):
    assert known(client, "Matern(1.5, 1)", points=POINTS)["refutation"] is None
