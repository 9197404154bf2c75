"""The page is told what the library says of a fit, and the copied code says it too."""

import numpy as np
import pytest
from labclient import answer, copied_numbers
from numpy.testing import assert_allclose

from mercer import SVC, SVR, GaussianProcessRegressor, KernelPCA, parse
from mercer.laboratory.datasets import DATASETS, dataset_state
from mercer.laboratory.offers import OFFERS

DATA = {one.task: name for name, one in reversed(DATASETS.items())}
SMALL = {"grid": [9, 7]}


def state_of(machine, n=40):
    task = OFFERS[machine].tasks[0]
    state = dataset_state("moons" if task == "classify" else DATA[task], n)
    kernel = OFFERS[machine].kernel or "RBF(1)"
    return state | {"machine": {"name": machine}, "kernel": kernel}


def cells(state, columns, rows):
    across = np.linspace(*state["view"]["x"], columns)
    up = np.linspace(*state["view"]["y"], rows)
    return np.array([[x, y] for y in up for x in across])


@pytest.mark.parametrize("name", DATASETS)
def test_data_sets_are_fitted_as_they_come(client, name):
    state = client.get(f"/api/datasets/{name}").json()
    head, arrays = answer(client, "fit", **state, **SMALL)
    assert head["task"] == state["task"] and not head["warnings"]
    assert all(np.isfinite(values).all() for values in arrays.values())


def test_decision_and_duals_are_those_of_the_machine(client):
    state = dataset_state("blobs", 60)
    head, arrays = answer(client, "fit", **state, **SMALL)
    data = np.array(state["points"])
    X, y = data[:, :2], data[:, 2].astype(int)
    machine = SVC(kernel="linear", C=1.0).fit(X, y)
    assert_allclose(
        arrays["decision"].ravel(), machine.decision_function(cells(state, 9, 7)),
        rtol=1e-5, atol=1e-5,
    )  # fmt: skip
    assert_allclose(arrays["value"], machine.decision_function(X), atol=1e-5)
    alpha = np.zeros(len(X))
    alpha[machine.support_] = np.abs(machine.dual_coef_[0])
    assert_allclose(arrays["alpha"], alpha, atol=1e-6)
    slack = np.maximum(0, 1 - np.where(y, 1, -1) * machine.decision_function(X))
    assert_allclose(arrays["slack"], slack, atol=1e-5)
    counts = [int((arrays["kkt"] == kind).sum()) for kind in (1, 2)]
    found = machine.certificate_
    assert counts == [found.n_free, found.n_bound]
    assert_allclose(head["certificate"]["dual"], found.dual, rtol=1e-6)
    assert head["score"]["value"] == machine.score(X, y)
    assert head["upper"] == 1.0 and head["margins"] == [-1, 0, 1]


def test_several_classes_have_a_winner_each(client):
    state = dataset_state("six", 90)
    _, arrays = answer(client, "fit", **state, **SMALL)
    data = np.array(state["points"])
    machine = SVC(kernel=parse("RBF(1)"), C=10.0, break_ties=True)
    machine.fit(data[:, :2], data[:, 2].astype(int))
    assert arrays["decision"].shape == (6, 7, 9)
    predicted = machine.predict(cells(state, 9, 7)).reshape(7, 9)
    assert (arrays["winner"] == predicted).all()


def test_regression_has_its_band(client):
    state = dataset_state("sinc", 30)
    data = np.array(state["points"])
    X, y = data[:, :1], data[:, 1]
    across = np.linspace(*state["view"]["x"], 9)[:, None]
    head, arrays = answer(client, "fit", **state, **SMALL)
    mean = SVR(kernel=parse("RBF(0.3)"), C=10.0).fit(X, y).predict(across)
    assert head["band"] == "tube"
    assert_allclose(arrays["mean"], mean, atol=1e-5)
    assert_allclose(arrays["high"] - arrays["low"], 0.2, rtol=1e-4)
    process = {"machine": {"name": "GaussianProcessRegressor"}}
    head, arrays = answer(client, "fit", **state | process, **SMALL)
    machine = GaussianProcessRegressor(parse("RBF(0.3)"), alpha=0.01, optimizer=None)
    mean, deviation = machine.fit(X, y).predict(across, return_std=True)
    assert head["band"] == "deviation"
    assert_allclose(arrays["high"], mean + 2 * deviation, atol=1e-5)


def test_components_are_those_of_kernel_pca(client):
    state = dataset_state("three-clusters", 30)
    head, arrays = answer(client, "fit", **state, **SMALL)
    X = np.array(state["points"])[:, :2]
    machine = KernelPCA(8, kernel=parse("RBF(10)")).fit(X)
    assert_allclose(head["eigenvalues"], machine.eigenvalues_)
    assert_allclose(arrays["scores"], machine.transform(X), atol=1e-5)
    assert arrays["components"].shape == (8, 7, 9)


@pytest.mark.parametrize("machine", OFFERS)
def test_copied_code_gives_the_numbers_on_the_page(client, machine):
    state = state_of(machine)
    numbers, _ = copied_numbers(client, state=state)
    head, _ = answer(client, "fit", **state, **SMALL)
    if head["score"] is not None:
        assert_allclose(numbers[head["score"]["name"]], head["score"]["value"])
    if head["certificate"] is not None:
        assert_allclose(numbers["dual"], head["certificate"]["dual"], rtol=1e-6)


@pytest.mark.parametrize("machine", ["SVC", "OneClassSVM"])
def test_copied_code_of_the_dual_gives_its_bounds_and_spectrum(client, machine):
    state = state_of(machine, 12)
    numbers, _ = copied_numbers(client, duality=state)
    _, arrays = answer(client, "gram", **state)
    greatest = arrays["eigenvalues"][0]
    assert_allclose(numbers["greatest eigenvalue of K"], greatest, rtol=1e-5)
    if machine != "OneClassSVM":
        head, _ = answer(client, "bounds", **state)
        rows = [one for one in head["bounds"] if one["name"] in numbers]
        assert rows
        for one in rows:
            assert_allclose(numbers[one["name"]], one["value"], rtol=1e-6)


def test_sliders_reach_the_fit(client):
    state = dataset_state("moons", 40)
    head, one = answer(client, "fit", **state, set={"gamma": 0.5}, **SMALL)
    assert head["kernel"] == "RBF(gamma=0.5)"
    _, other = answer(client, "fit", **state | {"kernel": "RBF(0.5)"}, **SMALL)
    assert (one["decision"] == other["decision"]).all()


def test_numbers_beyond_single_precision_stay_finite(client):
    state = dataset_state("blobs", 20) | {"kernel": "Polynomial(9)"}
    wide = {"x": [-1e6, 1e6], "y": [-1e6, 1e6]}
    _, arrays = answer(client, "fit", **state | {"view": wide}, **SMALL)
    assert np.isfinite(arrays["decision"]).all()


def test_many_points_of_slow_machines_are_refused(client):
    points = [[0.001 * i, 0.0, i % 2] for i in range(2500)]
    state = state_of("RVC") | {"points": points}
    found = client.post("/api/fit", json=state)
    assert found.json()["error"]["place"]["field"] == "/points"
    state = state_of("SVC") | {"points": points, "kernel": "RBF(1) + Linear()**3"}
    assert client.post("/api/fit", json=state).status_code == 400
