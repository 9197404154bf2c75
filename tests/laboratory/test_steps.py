"""Recorded runs are those of the algorithms: laws of every step, and their ends."""

import numpy as np
import pytest
from labclient import answer, copied_numbers, refusal
from numpy.testing import assert_allclose

from mercer import SVC, KernelPerceptron, OneClassSVM, parse
from mercer.laboratory.datasets import dataset_state

BLOBS = dataset_state("blobs", 24)
DATA = np.array(BLOBS["points"])
X, SIDES = DATA[:, :2], np.where(DATA[:, 2] > 0, 1, -1)
SMALL = {"grid": [6, 5]}
# A round of k-means is a fit that ends after it, and says so.
pytestmark = pytest.mark.filterwarnings("ignore:KernelKMeans stopped")


def run(client, algorithm, state, **more):
    head, arrays = answer(client, "steps", algorithm=algorithm, **state, **SMALL | more)
    assert head["frames"] == len(head["steps"]) + 1
    return head, arrays


def test_smo_moves_pairs_to_the_optimum(client):
    head, arrays = run(client, "smo", BLOBS)
    alpha, dual, primal = arrays["alpha"], arrays["dual"], arrays["primal"]
    assert (np.count_nonzero(np.diff(alpha, axis=0), axis=1) <= 2).all()
    assert_allclose(alpha @ SIDES, 0, atol=1e-5)
    assert (np.diff(dual) > -1e-6).all() and (primal >= dual - 1e-6).all()
    machine = SVC(kernel="linear", C=1.0, tol=1e-6).fit(X, SIDES)
    assert head["converged"]
    assert_allclose(dual[-1], machine.certificate_.dual, rtol=1e-3)
    f = machine.decision_function(np.array([[x, y] for y in _axis("y", 5)
                                            for x in _axis("x", 6)]))  # fmt: skip
    assert_allclose(arrays["decision"][-1].ravel(), f, atol=0.02)


def _axis(name, number):
    return np.linspace(*BLOBS["view"][name], number)


def test_a_step_of_smo_is_clipped_to_its_ends(client):
    head, arrays = run(
        client, "smo", BLOBS | {"machine": {"name": "SVC", "params": {"C": 0.1}}}
    )
    for t, step in enumerate(head["steps"]):
        (a, b), (c, d) = step["before"], step["after"]
        low, high = step["ends"]
        assert low - 1e-9 <= d <= high + 1e-9
        assert_allclose(c - a, step["slope"] * (d - b), atol=1e-9)
        assert_allclose(arrays["alpha"][t][[step["i"], step["j"]]], [a, b], atol=1e-6)
        wanted = step["wanted"][1]
        assert_allclose(d, np.clip(wanted, low, high), atol=1e-9)
    assert any(step["clipped"] for step in head["steps"])


def test_landscape_is_least_where_a_step_wants_to_go(client):
    head, arrays = run(client, "smo", BLOBS)
    step, W = head["steps"][0], arrays["landscape"][0]
    places = np.linspace(*step["frame"], len(W))
    # Of the first pair the line is αᵢ = αⱼ: the diagonal of the square.
    assert step["slope"] == 1 and step["before"] == [0, 0]
    near = places[np.argmin(np.diag(W))]
    assert_allclose(near, step["wanted"][1], atol=places[1] - places[0])


def test_smo_of_one_class_ends_where_the_machine_does(client):
    ring = dataset_state("ring", 30)
    _, arrays = run(client, "smo", ring)
    machine = OneClassSVM(kernel=parse("RBF(2)"), nu=0.1, tol=1e-6)
    machine.fit(np.array(ring["points"])[:, :2])
    assert_allclose(arrays["dual"][-1], machine.certificate_.dual, rtol=1e-3)


def test_coordinate_ascent_goes_along_axes_downhill(client):
    hill = {"Q": [[1, 0.75], [0.75, 1]], "linear": [0, 0], "start": [2, -2]}
    _, arrays = run(client, "coordinate", BLOBS | {"points": []}, quadratic=hill)
    path = arrays["path"]
    assert_allclose(path[0], [2, -2])
    assert_allclose(path[1], [1.5, -2])
    assert (np.count_nonzero(np.diff(path, axis=0), axis=1) == 1).all()
    assert (np.diff(arrays["objective"]) < 0).all()
    assert_allclose(path[-1], 0, atol=0.01)
    walls = hill | {"lower": [-3, -3], "upper": [3, -0.6]}
    _, arrays = run(client, "coordinate", BLOBS | {"points": []}, quadratic=walls)
    assert_allclose(arrays["path"][-1], [0.45, -0.6], atol=1e-3)


def test_coordinate_ascent_of_a_machine_without_bias(client):
    head, arrays = run(client, "coordinate", BLOBS, most=400)
    machine = SVC(kernel="linear", C=1.0, fit_intercept=False, tol=1e-6).fit(X, SIDES)
    assert head["converged"]
    assert_allclose(-arrays["objective"][-1], machine.certificate_.dual, rtol=1e-3)


@pytest.mark.parametrize(
    "change",
    [
        {"Q": [[1, 2], [2, 1]]},
        {"Q": [[1, 0], [1, 1]]},
        {"Q": [[1, 0]]},
        {"Q": [[0, 0], [0, 0]]},
        {"start": [1]},
        {"lower": [3, 3]},
    ],
)
def test_quadratics_that_are_none_are_refused(client, change):
    hill = {"Q": [[1, 0], [0, 1]], "linear": [0, 0], "start": [2, -2]} | change
    body = BLOBS | {"algorithm": "coordinate", "quadratic": hill}
    refusal(client.post("/api/steps", json=body), 400, "field")


def test_perceptron_counts_its_mistakes(client):
    state = BLOBS | {"kernel": "Polynomial(3)"}
    state["machine"] = {"name": "KernelPerceptron", "params": {"random_state": 4}}
    head, arrays = run(client, "perceptron", state, most=400)
    machine = KernelPerceptron(parse("Polynomial(3)"), random_state=4)
    machine.fit(X, SIDES)
    assert [s["point"] for s in head["steps"]] == machine.mistakes_[:400].tolist()
    assert_allclose(arrays["counts"][-1].sum(), len(head["steps"]))
    for t, step in enumerate(head["steps"]):
        assert SIDES[step["point"]] * step["value"] <= 0
        assert (
            arrays["counts"][t + 1][step["point"]]
            == arrays["counts"][t][step["point"]] + 1
        )
    assert len(head["steps"]) <= head["bound"]["value"]


def test_primal_weights_are_the_dual_counts(client):
    state = dataset_state("line", 20)
    state["machine"] = {"name": "KernelPerceptron", "params": {"fit_intercept": True}}
    _, arrays = run(client, "perceptron", state)
    data = np.array(state["points"])
    signed = arrays["counts"] * np.where(data[:, 2] > 0, 1, -1)
    assert_allclose(arrays["weights"][:, :2], signed @ data[:, :2], atol=1e-4)
    assert_allclose(arrays["weights"][:, 2], signed.sum(axis=1))


def test_sgd_lowers_its_objective(client):
    head, arrays = run(client, "sgd", BLOBS, most=20)
    assert arrays["objective"][0] == 1 and arrays["objective"][-1] < 0.6
    assert arrays["coef"].shape == (21, 24)
    assert head["steps"][-1]["updates"] == 20 * head["stride"]


def test_kmeans_rounds_never_raise_the_inertia(client):
    state = dataset_state("unlabelled", 60)
    head, arrays = run(client, "kmeans", state)
    inertia = [step["inertia"] for step in head["steps"]]
    assert head["converged"] and inertia and (np.diff(inertia) <= 0).all()
    moved = (np.diff(arrays["assigned"], axis=0) != 0).sum(axis=1)
    assert moved.tolist() == [step["moved"] for step in head["steps"]]
    assert arrays["winner"].shape == (head["frames"], 5, 6)


def test_kernel_pca_rebuilds_points_component_by_component(client):
    state = dataset_state("cloud", 30) | {"kernel": "Linear()"}
    head, arrays = run(client, "pca", state)
    places = np.array(state["points"])[:, :2]
    errors = [np.abs(back - places).max() for back in arrays["reconstruction"]]
    assert errors[1] < 1e-4 < errors[0]
    assert_allclose(sum(step["share"] for step in head["steps"]), 1, rtol=1e-6)


def test_runs_that_cannot_be_shown_are_refused(client):
    def refused(algorithm, state):
        body = state | {"algorithm": algorithm}
        return refusal(client.post("/api/steps", json=body), 400, "points")

    refused("smo", dataset_state("clusters", 30))
    refused("smo", dataset_state("moons", 300))
    refused("perceptron", dataset_state("clusters", 30))
    body = BLOBS | {"algorithm": "dance"}
    assert client.post("/api/steps", json=body).status_code == 400


@pytest.mark.parametrize(
    "algorithm, data",
    [
        ("smo", "blobs"),
        ("smo", "ring"),
        ("coordinate", "blobs"),
        ("perceptron", "blobs"),
        ("sgd", "blobs"),
        ("kmeans", "unlabelled"),
        ("pca", "cloud"),
    ],
)
def test_code_of_a_run_gives_the_numbers_of_its_last_step(client, algorithm, data):
    asked = dataset_state(data, 24) | {"algorithm": algorithm, "most": 60}
    copied_numbers(client, steps=asked)
