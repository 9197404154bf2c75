"""Gram matrix, feature space, bounds, path, figures, pasted data."""

import numpy as np
import pytest
from labclient import answer, refusal
from numpy.testing import assert_allclose

from mercer import SVC, bounds, parse
from mercer.laboratory.datasets import dataset_state

STATE = dataset_state("moons", 40)
DATA = np.array(STATE["points"])
X, Y = DATA[:, :2], DATA[:, 2].astype(int)
KERNEL = parse(STATE["kernel"])


def test_gram_is_sorted_by_class_with_its_spectrum(client):
    head, arrays = answer(client, "gram", **STATE)
    order = arrays["order"].astype(int)
    assert (np.diff(Y[order]) >= 0).all()
    assert_allclose(arrays["gram"], KERNEL(X[order]), atol=1e-6)
    values = np.linalg.eigvalsh(KERNEL(X))[::-1]
    assert_allclose(arrays["eigenvalues"], values, atol=1e-5)
    few = head["rank_95"]
    assert values[:few].sum() >= 0.95 * values.sum() > values[: few - 1].sum()


def test_feature_space_has_the_plane_of_f(client):
    state = STATE | {"kernel": "Linear()"}
    head, arrays = answer(client, "features", **state)
    # Two components hold all of a linear kernel, so the plane is f itself.
    assert_allclose(sum(head["explained"]), 1, rtol=1e-6)
    assert_allclose(head["fit_share"], 1, rtol=1e-6)
    machine = SVC(kernel="linear", C=10.0).fit(X, Y)
    plane, scores = arrays["plane"].astype(float), arrays["scores"].astype(float)
    f = machine.decision_function(X)
    assert_allclose(scores @ plane[:3] + plane[3], f, atol=1e-3)


def test_bounds_are_those_of_the_library(client):
    head, _ = answer(client, "bounds", **STATE)
    machine = SVC(kernel=KERNEL, C=10.0).fit(X, Y)
    table = bounds(machine, X, Y, refit=True)
    shown = {one["name"]: one["value"] for one in head["bounds"] + head["measured"]}
    for name in ("training error", "leave-one-out", "margin bound", "support vectors"):
        assert_allclose(shown[name], table[name].value, rtol=1e-3)
    assert "5 folds" in shown and "mistakes of a perceptron" in shown


def test_path_is_that_of_the_machine_at_each_c(client):
    head, arrays = answer(client, "path", **STATE, frames=3, C=[0.01, 10], grid=[6, 5])
    assert_allclose(arrays["C"], [0.01, 10**-0.5, 10], rtol=1e-5)
    assert head["exact"] and arrays["decision"].shape == (3, 5, 6)
    for C, alpha in zip([0.01, 10**-0.5, 10], arrays["alpha"], strict=True):
        machine = SVC(kernel=KERNEL, C=C, tol=1e-8).fit(X, Y)
        assert_allclose(alpha.sum(), np.abs(machine.dual_coef_).sum(), rtol=1e-5)
    regression = dataset_state("sinc", 20)
    _, arrays = answer(client, "path", **regression, frames=2, grid=[6, 5])
    assert arrays["mean"].shape == (2, 6)


@pytest.mark.filterwarnings("ignore:.* stopped after")
@pytest.mark.parametrize("name", ["moons", "six", "sinc", "ring"])
def test_gap_closes(client, name):
    head, arrays = answer(client, "gap", **dataset_state(name, 60))
    primal, dual = arrays["primal"].astype(float), arrays["dual"].astype(float)
    assert head["status"] == "optimal" and len(primal) > 2
    assert (np.diff(arrays["iterations"]) > 0).all()
    slack = 1e-6 * np.abs(dual[-1])
    assert (np.diff(dual) >= -slack).all() and (primal >= dual - slack).all()
    assert primal[-1] - dual[-1] < 0.05 * (primal[0] - dual[0])


def test_views_refuse_what_they_do_not_show(client):
    three = dataset_state("clusters", 12)
    refusal(client.post("/api/path", json=three), 400, "points")
    density = dataset_state("ring-density", 12)
    refusal(client.post("/api/bounds", json=density), 400, "task")
    ridge = dataset_state("powers", 12)
    refusal(client.post("/api/path", json=ridge), 400, "machine")


def test_figures_of_the_course(client):
    _, arrays = answer(client, "figure", name="losses")
    assert (arrays["hinge"] >= arrays["0-1"]).all()
    state = dataset_state("sinc", 8)
    head, arrays = answer(client, "figure", name="bumps", state=state)
    assert_allclose(
        arrays["terms"].sum(axis=0) + head["bias"], arrays["sum"], atol=1e-5
    )
    _, fit = answer(client, "fit", **state)
    assert_allclose(arrays["sum"], fit["mean"], atol=1e-5)
    head, arrays = answer(client, "figure", name="saddle")
    x, multiplier = arrays["x"], arrays["multiplier"]
    least = x[arrays["surface"].argmin(axis=1)]
    assert_allclose(least, multiplier, atol=0.05)
    ellipse = dataset_state("ellipse", 60)
    _, arrays = answer(client, "figure", name="lift", state=ellipse)
    labels = np.array(ellipse["points"])[:, 2]
    f = arrays["scores"] @ arrays["plane"][:3] + arrays["plane"][3]
    assert ((f > 0) == labels).all()


def test_pasted_rows_are_points(client):
    def paste(text):
        return client.post("/api/paste", json={"text": text})

    found = paste("x, y, class\n1, 2, b\n3;4;a\n\n5 6 b").json()
    assert found == {
        "points": [[1.0, 2.0, 1], [3.0, 4.0, 0], [5.0, 6.0, 1]],
        "labels": ["a", "b"],
    }
    assert paste("1\t2\n3\t4").json()["labels"] == ["0"]
    assert paste("1 2 3\n4 5 1").json()["points"] == [[1.0, 2.0, 3], [4.0, 5.0, 1]]
    for text in ("", "x y", "1", "1 2\n3", "1 2 3 4", "1 nan", "1 1e9", "1 2\nx y"):
        assert paste(text).status_code == 400
    many = "\n".join(f"1 2 c{k}" for k in range(7))
    assert "7 different labels" in paste(many).json()["error"]["message"]
