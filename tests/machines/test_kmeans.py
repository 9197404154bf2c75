"""KernelKMeans: k-means where that exists, the definition everywhere."""

import gzip
import itertools
import os
import pickle
import re
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from checks import machine_checks
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs, make_circles
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score

from mercer.gram import Gram
from mercer.kernels.algebra import Conformal, Normalized
from mercer.kernels.nystrom import Nystrom
from mercer.kernels.radial import RBF
from mercer.kernels.string import Subsequence
from mercer.kernels.substring import Spectrum
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import PairFunction, Precomputed
from mercer.machines.kmeans import KernelKMeans
from mercer.native.threads import set_threads, threads
from mercer.outcomes import Progress
from mercer.solvers.auto import clusters_on_features
from mercer.solvers.cluster_states import ClusterState, FeatureState
from mercer.solvers.clusters import KernelLloyd, drawn_start
from mercer.solvers.features import features_of
from mercer.solvers.partition import Partition

folder = Path(__file__).resolve().parents[3] / "shared" / "data"
DATA = Path(os.environ.get("MERCER_DATA", folder))
X = make_blobs(120, centers=4, cluster_std=2.0, random_state=5)[0]
NEW = make_blobs(40, centers=4, cluster_std=3.0, random_state=6)[0]
WEIGHT = np.random.default_rng(1).uniform(0.2, 3, size=len(X))
WORDS = ["abab", "ababa", "baba", "cdcd", "cdcdc", "dcdc", "efef", "efefe", "fefe"]


# The checks let a fit have few steps, and some of their points coincide.
@pytest.mark.filterwarnings("ignore:KernelKMeans stopped")
@machine_checks(
    [
        KernelKMeans(n_clusters=2),
        KernelKMeans(n_clusters=2, kernel=Linear(), init="random", n_init=3),
        KernelKMeans(n_clusters=2, kernel=RBF(0.1), normalized_cut=True),
        KernelKMeans(n_clusters=2, kernel="precomputed"),
    ]
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


# The definition


def inertia(K, label, weight=None):
    """Σ_c Σᵢⱼ wᵢwⱼ ‖φ(xᵢ) - φ(xⱼ)‖² / (2 Σw) over the pairs of each cluster."""
    K, weight = np.asarray(K, float), np.ones(len(K)) if weight is None else weight
    total = 0.0
    for c in np.unique(label):
        inside = np.flatnonzero(label == c)
        pairs = [(i, j) for i in inside for j in inside]
        square = sum(
            weight[i] * weight[j] * (K[i, i] - 2 * K[i, j] + K[j, j]) for i, j in pairs
        )
        total += square / (2 * weight[inside].sum())
    return total


def cut(A, label, weight=None):
    """Σ_c (weight of the edges between c and the rest) / (that of all edges of c)."""
    weight = np.ones(len(A)) if weight is None else weight
    A = A * np.outer(weight, weight)
    return sum(
        A[label == c][:, label != c].sum() / A[label == c].sum()
        for c in np.unique(label)
    )


def partitions(n, k):
    """The labels of every partition of n points into k clusters, once."""
    for label in itertools.product(range(k), repeat=n):
        firsts = [label.index(c) for c in range(k) if c in label]
        if len(firsts) == k and firsts == sorted(firsts):
            yield np.array(label)


def quiet(machine, *data, **options):
    """The machine, fitted without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return machine.fit(*data, **options)


# k-means


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("cache_size", [None, 0])
@pytest.mark.parametrize("seed", range(4))
def test_linear_kernel_is_k_means_from_the_same_start(dtype, cache_size, seed):
    start = X[np.random.default_rng(seed).choice(len(X), 4, replace=False)]
    ours = KernelKMeans(4, kernel=Linear(), init=start, cache_size=cache_size)
    ours.fit(X.astype(dtype))
    reference = KMeans(4, init=start, n_init=1, tol=0, algorithm="lloyd").fit(X)
    assert_array_equal(ours.labels_, reference.labels_)
    assert ours.n_iter_ == reference.n_iter_
    rtol = 1e-10 if dtype is np.float64 else 1e-4
    assert_allclose(ours.inertia_, reference.inertia_, rtol=rtol)
    assert_allclose(ours.transform(NEW), reference.transform(NEW), rtol=10 * rtol)
    assert_array_equal(ours.predict(NEW), reference.predict(NEW))
    assert_allclose(ours.score(NEW), reference.score(NEW), rtol=10 * rtol)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_weighted_linear_kernel_is_weighted_k_means(container):
    start = container(X[:4])
    ours = KernelKMeans(4, kernel="linear", init=start)
    ours.fit(container(X), sample_weight=WEIGHT)
    reference = KMeans(4, init=X[:4], n_init=1, tol=0, algorithm="lloyd")
    reference.fit(X, sample_weight=WEIGHT)
    assert_array_equal(ours.labels_, reference.labels_)
    assert_allclose(ours.inertia_, reference.inertia_, rtol=1e-10)
    centroids = ours.expansion_.coef.T @ X
    assert_allclose(centroids, reference.cluster_centers_, rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_polynomial_kernel_is_k_means_on_its_monomials(seed):
    kernel = Polynomial(2, scale=0.1)
    features = kernel.features(X)
    chosen = np.random.default_rng(seed).choice(len(X), 3, replace=False)
    ours = KernelKMeans(3, kernel=kernel, init=X[chosen]).fit(X)
    reference = KMeans(3, init=features[chosen], n_init=1, tol=0, algorithm="lloyd")
    reference.fit(features)
    assert_array_equal(ours.labels_, reference.labels_)
    assert_allclose(ours.inertia_, reference.inertia_, rtol=1e-9)
    new = kernel.features(NEW)
    assert_allclose(ours.transform(NEW), reference.transform(new), rtol=1e-7)


# The best partition


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("weight", [None, [1, 4, 1, 2, 0.5, 1, 3]], ids=["1", "w"])
@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_many_starts_find_the_best_partition(k, weight, init):
    points = np.random.default_rng(k).normal(size=(7, 2))
    weight = None if weight is None else np.array(weight)
    K = RBF(0.7)(points)
    machine = KernelKMeans(k, kernel=RBF(0.7), init=init, n_init=40, random_state=0)
    machine.set_params(algorithm="hartigan")
    machine.fit(points, sample_weight=weight)
    best = min(inertia(K, label, weight) for label in partitions(7, k))
    assert_allclose(machine.inertia_, best, rtol=1e-10)
    assert_allclose(inertia(K, machine.labels_, weight), best, rtol=1e-10)


@pytest.mark.parametrize("weight", [None, [1, 4, 1, 2, 0.5, 1, 3]], ids=["1", "w"])
@pytest.mark.parametrize("shift", [0.0, 0.05])
def test_many_starts_find_the_least_normalised_cut(weight, shift):
    points = np.random.default_rng(8).normal(size=(7, 2))
    weight = None if weight is None else np.array(weight)
    A = RBF(0.7)(points)
    machine = KernelKMeans(
        2, kernel=RBF(0.7), normalized_cut=True, n_init=40, random_state=0, shift=shift
    ).fit(points, sample_weight=weight)
    best = min(cut(A, label, weight) for label in partitions(7, 2))
    assert_allclose(machine.normalized_cut_, best, rtol=1e-10)
    assert_allclose(cut(A, machine.labels_, weight), best, rtol=1e-10)


# Steps


def weighted_points(draw):
    n = draw(st.integers(2, 12))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    points = rng.integers(-3, 4, size=(n, 2)).astype(float)  # some coincide
    return points, rng.uniform(0.1, 3, size=n), draw(st.integers(1, n))


@settings(max_examples=25)
@given(st.composite(weighted_points)(), st.booleans(), st.sampled_from([0.0, 0.3]))
def test_objective_never_rises_and_ends_where_no_point_would_move(data, cutting, shift):
    points, weight, k = data
    steps = []
    machine = KernelKMeans(k, kernel=RBF(0.3), normalized_cut=cutting, random_state=0)
    machine.set_params(callback=steps.append, shift=shift)
    quiet(machine, points, sample_weight=weight)
    history = machine.inertia_history_
    assert (np.diff(history) <= 1e-12 * history[0]).all()
    if not cutting:  # a cut begins with steps of another objective
        assert_allclose([s.objective for s in steps[: len(history)]], history)
    assert machine.run_.status in ("optimal", "few")
    assert machine.inertia_ == history[-1]
    if shift == 0:
        distances = machine.transform(points)
        own = distances[np.arange(len(points)), machine.labels_]
        assert_allclose(own**2, distances.min(axis=1) ** 2, atol=1e-12)
    if not cutting:
        K = RBF(0.3)(points)
        expected = inertia(K, machine.labels_, weight)
        assert_allclose(machine.inertia_, expected, atol=1e-10)


@pytest.mark.parametrize("cache_size", [None, 0])
def test_steps_multiply_only_the_rows_of_points_that_moved(cache_size):
    steps: list[Progress] = []
    KernelKMeans(
        4, kernel=RBF(0.05), init=X[:4], cache_size=cache_size, callback=steps.append
    ).fit(X)
    assert len(steps) > 4
    moved = [step.violation for step in steps]
    assert moved[0] == len(X) and moved[-1] == 0
    assert max(moved[2:]) < len(X) / 3
    assert steps[-1].rows == sum(moved)


def test_centroids_after_many_steps_are_the_means_of_their_clusters():
    machine = KernelKMeans(4, kernel=RBF(0.05), random_state=1).fit(X)
    indicator = np.eye(4)[machine.labels_]
    assert_allclose(machine.expansion_.coef, indicator / indicator.sum(axis=0))
    assert_allclose(machine.expansion_.norm() ** 2, -2 * machine.expansion_.bias)


def test_distances_are_those_of_the_definition():
    machine = KernelKMeans(3, kernel=RBF(0.05), random_state=0)
    machine.fit(X, sample_weight=WEIGHT)
    across, K = RBF(0.05)(NEW, X), RBF(0.05)(X)
    for c in range(3):
        share = np.where(machine.labels_ == c, WEIGHT, 0)
        share /= share.sum()
        expected = 1 - 2 * across @ share + share @ K @ share
        assert_allclose(machine.transform(NEW)[:, c] ** 2, expected, atol=1e-12)
    assert_array_equal(machine.predict(NEW), np.argmin(machine.transform(NEW), axis=1))
    assert_array_equal(machine.predict(X), machine.labels_)
    assert_allclose(machine.score(X, sample_weight=WEIGHT), -machine.inertia_)


def test_no_step_computes_the_whole_matrix_where_there_is_no_room_for_it():
    points = np.random.default_rng(0).normal(size=(6000, 3)).astype(np.float32)
    tracemalloc.start()
    machine = KernelKMeans(3, cache_size=0, random_state=0, max_iter=4)
    quiet(machine, points)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6 < 4 * 6000**2


def test_many_float32_points_keep_a_float32_matrix(monkeypatch):
    machine = KernelKMeans(3)
    narrow = X.astype(np.float32)
    assert (
        machine._prepared(narrow, narrow, None)[0].rows(slice(0, 2)).dtype == np.float64
    )
    monkeypatch.setattr("mercer.machines.kmeans.DOUBLE", len(X) - 1)
    assert (
        machine._prepared(narrow, narrow, None)[0].rows(slice(0, 2)).dtype == np.float32
    )
    machine.set_params(cache_size=len(X) ** 2 * 4 / 2**20)
    assert machine._prepared(narrow, narrow, None)[0].is_held
    assert not machine._prepared(X, X, None)[0].is_held


# On features


def first_column(points):
    return 1 + np.abs(points[:, 0])


SPARSE = sp.csr_array(np.where(np.abs(X) > 4, X, 0).repeat(3, axis=1))
ON_FEATURES = [
    (Linear(), X, {}),
    (Linear(), X.astype(np.float32) + 1e3, {}),
    (Linear(), X, {"sample_weight": np.round(WEIGHT)}),
    (Polynomial(2, 0.1), X, {"algorithm": "hartigan", "sample_weight": WEIGHT}),
    (Polynomial(2, 0.1), X, {"normalized_cut": True, "shift": 0.5}),
    (Conformal(Linear(), first_column) + Linear() ** 2, X, {"init": "random"}),
    (Nystrom(RBF(0.1), 12), X, {"init": X[:4]}),
    (Linear(), SPARSE, {"shift": 1.0}),
    (Linear() * Linear(), SPARSE, {"init": SPARSE[:4], "algorithm": "hartigan"}),
    (Normalized(Spectrum(2)), WORDS * 6, {"normalized_cut": True}),
    (Spectrum(2), WORDS * 6, {"init": WORDS[::2][:4]}),
    (Spectrum(1) * Spectrum(2), WORDS, {"init": np.arange(9) % 4}),
]


@pytest.mark.parametrize("kernel, points, options", ON_FEATURES)
def test_clusters_on_features_are_those_of_the_gram_matrix(
    kernel, points, options, monkeypatch
):
    options = {"random_state": 3, **options}
    data = {k: options.pop(k) for k in ("sample_weight",) if k in options}
    roads = []
    for chosen in (False, True):
        road = "mercer.machines.kmeans.clusters_on_features"
        monkeypatch.setattr(road, lambda gram, k, chosen=chosen: chosen)
        machine = KernelKMeans(4, kernel=kernel, n_init=1, **options)
        roads.append(quiet(machine, points, **data))
    gram, features = roads
    assert_array_equal(features.labels_, gram.labels_)
    scale = np.abs(gram.inertia_history_).max()
    off = gram.rounding_ + features.rounding_
    assert abs(features.inertia_ - gram.inertia_) <= off + 1e-12 * scale
    assert 0 < features.rounding_ < 1e-9 * max(scale, 1)
    assert len(features.inertia_history_) == len(gram.inertia_history_)
    assert_allclose(features.inertia_history_, gram.inertia_history_, atol=1e-7 * scale)
    new = points[:5]
    assert_array_equal(features.predict(new), gram.predict(new))
    size = np.abs(gram.transform(new)).max()
    assert_allclose(features.transform(new), gram.transform(new), atol=1e-6 * size)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_many_points_are_clustered_on_features_without_their_matrix(container):
    points = make_blobs(20000, n_features=3, centers=5, random_state=1)[0]
    start = points[:5].copy()
    machine = KernelKMeans(5, kernel=Linear(), init=start)
    points = container(points)
    tracemalloc.start()
    machine.fit(points)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6 < 4 * 20000**2
    theirs = KMeans(5, init=start, n_init=1, tol=0).fit(points)
    assert_array_equal(machine.labels_, theirs.labels_)
    assert_allclose(machine.inertia_, theirs.inertia_, rtol=1e-9)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("shift", [0.0, 2.0])
@pytest.mark.parametrize("k, d", [(1, 3), (2, 1), (7, 3), (9, 20), (33, 5)])
def test_points_go_in_the_core_where_their_distances_tell(scaled, shift, k, d):
    points = np.random.default_rng(k).normal(size=(3000, d)) + 3
    gram = Gram(Linear(), points)
    random = np.random.default_rng(d)
    weight = random.uniform(0.5, 2, size=3000)
    scale = random.uniform(0.5, 2, size=3000) if scaled else None
    problem = Partition(gram, k, weight, scale, shift, features_of(gram))
    state = FeatureState(problem, random.integers(0, k, 3000))
    for step in range(12):
        label = state.nearest()
        assert_array_equal(label, state._refilled(ClusterState._nearest_label(state)))
        if step == 5:  # labels that no step has given
            label = random.permutation(label)
            label[label == k - 1] = 0  # and an empty cluster
            state.label = label
            state.sums = state._summed()
            state._centre()
        elif not state.move(label):
            break


def test_the_number_of_threads_changes_no_label():
    points = np.random.default_rng(2).normal(size=(5000, 25))
    gram = Gram(Linear(), points)
    start = np.arange(5000) % 9
    before, found = threads(), []
    try:
        for number in (1, 3):
            set_threads(number)
            problem = Partition(gram, 9, np.ones(5000), features=features_of(gram))
            state = FeatureState(problem, start)
            for _ in range(4):
                state.move(state.nearest())
            found.append([state.label, state.bounds.upper, state.bounds.lower])
    finally:
        set_threads(before)
    for one, three in zip(*found, strict=True):
        assert_array_equal(one, three)


def test_few_distances_are_computed_once_clusters_are_found():
    points = make_blobs(4000, n_features=3, centers=4, random_state=2)[0]
    gram = Gram(Linear(), points)
    problem = Partition(gram, 4, np.ones(4000), features=features_of(gram))
    state = FeatureState(problem, KMeans(4, n_init=1).fit_predict(points))
    assert state.bounds is None
    for _ in range(2):
        state.move(state.nearest())
    lower = state.bounds.lower
    before = lower.copy()
    state.nearest()
    # A bound that was not computed anew can only have sunk.
    assert np.mean(lower <= before) > 0.9
    assert np.isfinite(state.bounds.upper).all()


@pytest.mark.parametrize("normalized_cut", [False, True])
@pytest.mark.parametrize("kernel", [Linear(), Nystrom(RBF(0.05), 30)])
def test_machines_on_a_map_end_on_centroids_or_landmarks(kernel, normalized_cut):
    points = make_blobs(6000, n_features=3, centers=5, random_state=1)[0]
    points -= points.min(axis=0) - 1
    options = {"init": points[:5], "normalized_cut": normalized_cut, "max_iter": 30}
    machine = quiet(KernelKMeans(5, kernel=kernel, **options), points)
    f = machine.expansion_
    assert len(f.coef) == (5 if isinstance(kernel, Linear) else 30)
    fitted = getattr(machine, "approximation_", f.kernel)
    assert isinstance(fitted, type(kernel))
    weight = fitted(points).sum(axis=0) if normalized_cut else np.ones(6000)
    share = np.eye(5)[machine.labels_] * (1 if normalized_cut else weight[:, None])
    volume = np.eye(5)[machine.labels_].T @ weight
    on_points = fitted(points[:50], points) @ (share / volume)
    assert_allclose(f(points[:50]) - f.bias, on_points, rtol=1e-6)
    assert_allclose(f.norm() ** 2, -2 * f.bias, rtol=1e-6)
    assert_array_equal(machine.predict(points), machine.labels_)
    assert_allclose(-machine.score(points), machine.inertia_, rtol=1e-6)
    again = pickle.loads(pickle.dumps(machine))
    assert_allclose(again.transform(points), machine.transform(points))
    assert len(pickle.dumps(machine)) < 200_000


def test_the_choice_of_features_goes_by_what_they_cost():
    rng = np.random.default_rng(0)
    many = rng.normal(size=(3000, 20))
    assert clusters_on_features(Gram(Linear(), many), 8)
    assert not clusters_on_features(Gram(Linear(), many[:500]), 8)
    assert not clusters_on_features(Gram(Linear(), many).held(), 8)
    assert not clusters_on_features(Gram(RBF(1.0), many), 8)
    gram = Gram(Polynomial(4), many)  # 10,626 columns
    assert not clusters_on_features(gram, 8) and gram._features is None
    texts = ["".join(rng.choice(list("acgt"), 30)) for _ in range(1500)]
    assert clusters_on_features(Gram(Spectrum(3), texts), 2)


# Starts


def test_a_start_does_not_depend_on_the_order_of_points():
    order = np.random.default_rng(3).permutation(len(X))
    for init in ("k-means++", "random"):
        machine = KernelKMeans(4, kernel=RBF(0.1), init=init, n_init=1, random_state=2)
        first = clone(machine).fit(X)
        second = clone(machine).fit(X[order])
        assert_array_equal(second.labels_, first.labels_[order])


@pytest.mark.parametrize("init", ["k-means++", "random"])
@pytest.mark.parametrize("cutting", [False, True])
def test_weight_2_is_the_row_twice_and_weight_0_no_row(init, cutting):
    times = np.random.default_rng(0).integers(0, 4, size=len(X))
    machine = KernelKMeans(4, kernel=RBF(), init=init, n_init=2, random_state=0)
    machine.set_params(normalized_cut=cutting)
    weighted = clone(machine).fit(X, sample_weight=times)
    repeated = clone(machine).fit(np.repeat(X, times, axis=0))
    assert weighted.expansion_.kernel.gamma == pytest.approx(
        repeated.expansion_.kernel.gamma
    )
    assert_allclose(weighted.inertia_, repeated.inertia_, rtol=1e-9)
    assert_allclose(weighted.transform(NEW), repeated.transform(NEW), rtol=1e-7)
    present = times > 0
    assert_array_equal(
        np.repeat(weighted.labels_, times)[: len(repeated.labels_)], repeated.labels_
    )
    assert_array_equal(weighted.labels_[~present], weighted.predict(X[~present]))


def test_weight_2_is_the_word_twice():
    times = np.array([2, 1, 1, 3, 1, 1, 0, 2, 1])
    machine = KernelKMeans(3, kernel=Spectrum(2), random_state=0)
    weighted = clone(machine).fit(WORDS, sample_weight=times)
    repeated = clone(machine).fit(np.repeat(WORDS, times).tolist())
    assert_allclose(weighted.inertia_, repeated.inertia_)
    assert_array_equal(weighted.predict(WORDS), repeated.predict(WORDS))


def test_k_means_plus_plus_takes_a_point_of_every_far_group():
    groups = np.repeat([[0.0], [100.0], [200.0], [300.0]], 5, axis=0)
    groups += np.random.default_rng(0).normal(size=groups.shape)
    problem = Partition(Gram(Linear(), groups), 4, np.ones(20))
    for seed in range(20):
        random = np.random.RandomState(seed)
        label = drawn_start(problem, random, spread=True, key=groups[:, 0])
        assert adjusted_rand_score(label, np.repeat(range(4), 5)) == 1


@pytest.mark.parametrize("spread, share", [(True, 9 / 11), (False, 1 / 3)])
def test_points_are_drawn_by_weight_and_squared_distance(spread, share):
    # After the point 0, the points 1 and 3 have 2 · 1 and 1 · 9, or 2 and 1.
    gram = Gram(Linear(), np.array([[0.0], [1.0], [3.0]]))
    problem = Partition(gram, 2, np.array([1e12, 2.0, 1.0]))
    drawn, random = [], FirstTrial(0)
    for _ in range(800):
        label = drawn_start(problem, random, spread=spread, key=np.zeros(3))
        drawn.append(label[1] == 0)  # 1 is nearer to 0 than to 3
    assert_allclose(np.mean(drawn), share, atol=0.05)


class FirstTrial(np.random.RandomState):
    """Draws once, and gives all candidates this draw."""

    def uniform(self, size):
        return np.full(size, super().uniform())


def test_start_may_be_labels_or_points_or_places():
    points = X[[3, 50, 90]]
    by_points = KernelKMeans(3, kernel=RBF(0.05), init=points).fit(X)
    label = np.argmin(RBF(0.05).sqdist(X, points), axis=1)
    by_labels = KernelKMeans(3, kernel=RBF(0.05), init=label).fit(X)
    by_list = KernelKMeans(3, kernel=RBF(0.05), init=label.tolist()).fit(X)
    machine = KernelKMeans(3, kernel="precomputed", init=[3, 50, 90])
    by_places = machine.fit(RBF(0.05)(X))
    for other in (by_labels, by_list, by_places):
        assert_array_equal(other.labels_, by_points.labels_)
        assert_allclose(other.inertia_history_, by_points.inertia_history_)
    assert_array_equal(by_places.predict(RBF(0.05)(NEW, X)), by_points.predict(NEW))


def test_places_are_those_in_the_matrix_where_some_points_do_not_count():
    weight = np.ones(len(X))
    weight[:10] = 0
    K = RBF(0.05)(X)
    machine = KernelKMeans(3, kernel="precomputed", init=[13, 50, 90])
    machine.fit(K, sample_weight=weight)
    rest = KernelKMeans(3, kernel=RBF(0.05), init=X[[13, 50, 90]]).fit(X[10:])
    assert_array_equal(machine.labels_[10:], rest.labels_)
    assert_array_equal(machine.labels_, rest.predict(X))


def test_words_are_clustered_from_words():
    machine = KernelKMeans(3, kernel=Spectrum(2), init=["abab", "cdcd", "efef"])
    machine.fit(WORDS)
    assert_array_equal(machine.labels_, [0, 0, 0, 1, 1, 1, 2, 2, 2])
    assert_array_equal(machine.predict(["bab", "cdc", "fef"]), [0, 1, 2])


# Points that move alone


@pytest.mark.parametrize("seed", range(5))
def test_hartigan_ends_where_no_point_gains_by_moving_alone(seed):
    points, weight = X[:40], WEIGHT[:40]
    K = RBF(0.3)(points)
    start = np.random.default_rng(seed).integers(0, 3, size=40)
    lloyd = KernelKMeans(3, kernel=RBF(0.3), init=start)
    lloyd.fit(points, sample_weight=weight)
    machine = clone(lloyd).set_params(algorithm="hartigan")
    machine.fit(points, sample_weight=weight)
    assert machine.inertia_ <= lloyd.inertia_ + 1e-12
    assert (np.diff(machine.inertia_history_) <= 1e-12).all()
    reached = inertia(K, machine.labels_, weight)
    assert_allclose(machine.inertia_, reached)
    for i, c in itertools.product(range(0, 40, 3), range(3)):
        label = machine.labels_.copy()
        label[i] = c
        assert inertia(K, label, weight) >= reached - 1e-10


def test_hartigan_lowers_the_objective_of_an_indefinite_matrix_too():
    for seed in range(5):
        K = indefinite(seed)
        machine = KernelKMeans(3, kernel="precomputed", init=np.arange(20) % 3)
        machine.set_params(algorithm="hartigan").fit(K)
        assert machine.run_.status == "optimal"
        assert (np.diff(machine.inertia_history_) <= 1e-9).all()
        assert_allclose(machine.inertia_, inertia(K, machine.labels_))


# Clusters without points


def test_an_empty_cluster_starts_again_at_the_farthest_point():
    points = np.array([[0.0], [1.0], [2.0], [8.0], [50.0]])
    machine = KernelKMeans(3, kernel=Linear(), init=[0, 0, 0, 0, 0]).fit(points)
    assert_array_equal(machine.labels_, [2, 2, 2, 0, 1])  # 50, then 0, from 12.2
    assert (np.diff(machine.inertia_history_) < 0).all()


@pytest.mark.parametrize("algorithm", ["lloyd", "hartigan"])
def test_a_cluster_that_loses_its_points_starts_again(algorithm):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        points = rng.normal(size=(12, 1)) ** 3
        start = rng.integers(0, 5, size=12)
        machine = KernelKMeans(5, kernel=Linear(), init=start, algorithm=algorithm)
        machine.fit(points)
        assert_array_equal(np.unique(machine.labels_), range(5))
        assert (np.diff(machine.inertia_history_) <= 1e-12).all()


def test_fewer_points_than_clusters_that_differ_are_told():
    points = np.repeat([[0.0, 1.0], [2.0, 0.0], [5.0, 5.0]], 4, axis=0)
    machine = KernelKMeans(5, kernel=RBF(0.5), random_state=0)
    with pytest.warns(ConvergenceWarning, match="found 3 clusters instead of n_clust"):
        machine.fit(points)
    assert machine.run_.status == "few"
    assert_array_equal(np.unique(machine.labels_), [0, 1, 2])
    assert machine.transform(points).shape == (12, 3)
    assert len(machine.get_feature_names_out()) == 3
    assert_allclose(machine.inertia_, 0, atol=1e-12)
    assert adjusted_rand_score(machine.labels_, np.repeat([0, 1, 2], 4)) == 1


def test_one_point_is_one_cluster():
    machine = KernelKMeans(1).fit([[1.0, 2.0]])
    assert_array_equal(machine.labels_, [0])
    assert machine.inertia_ == 0
    assert_allclose(machine.transform([[1.0, 2.0]]), [[0]], atol=1e-7)


def test_as_many_clusters_as_points_leave_nothing():
    machine = KernelKMeans(7, kernel=RBF(1.0), random_state=0).fit(X[:7])
    assert sorted(machine.labels_) == list(range(7))
    assert_allclose(machine.inertia_, 0, atol=1e-12)


# Invariances


def rotation():
    return np.linalg.qr(np.random.default_rng(0).normal(size=(2, 2)))[0]


@pytest.mark.parametrize(
    "kernel, image",
    [
        (RBF(0.05), X + np.array([30.0, -7.0])),
        (RBF(0.05), X @ rotation()),
        (Polynomial(3, scale=0.01), X @ rotation()),
        (Linear(), X + np.array([3.0, -7.0])),
        (7.0 * RBF(0.05), X),
        (RBF(0.05) + 3.0, X),
    ],
    ids=str,
)
def test_maps_that_move_all_of_feature_space_change_no_cluster(kernel, image):
    plain = kernel if not np.array_equal(image, X) else RBF(0.05)
    second = KernelKMeans(4, kernel=kernel, init=image[:4]).fit(image)
    first = KernelKMeans(4, kernel=plain, init=X[:4]).fit(X)
    assert_array_equal(second.labels_, first.labels_)
    factor = getattr(kernel, "factor", 1.0)
    assert_allclose(second.inertia_, factor * first.inertia_, rtol=1e-7)


def test_two_rings_are_two_clusters_of_a_gaussian_but_not_of_k_means():
    rings, which = make_circles(200, factor=0.3, noise=0.04, random_state=0)
    machine = KernelKMeans(2, kernel=Linear(), n_init=10, random_state=0)
    assert adjusted_rand_score(clone(machine).fit_predict(rings), which) < 0.1
    machine.set_params(kernel=RBF(5.0))
    assert adjusted_rand_score(clone(machine).fit_predict(rings), which) == 1
    # Where the Gaussian is narrow the cut still sees the rings, the means do not.
    machine.set_params(kernel=RBF(20.0))
    assert adjusted_rand_score(clone(machine).fit_predict(rings), which) < 0.5
    machine.set_params(normalized_cut=True, n_init=30)
    cutting = clone(machine).fit(rings)
    assert adjusted_rand_score(cutting.labels_, which) == 1
    assert_allclose(cutting.normalized_cut_, cut(RBF(20.0)(rings), which), rtol=1e-9)
    assert_array_equal(cutting.predict(rings), cutting.labels_)
    assert_allclose(cutting.score(rings), -cutting.inertia_)


# What is no kernel


def indefinite(seed):
    A = np.random.default_rng(seed).normal(size=(20, 20))
    return A + A.T


def test_steps_that_raise_the_objective_are_taken_back_and_told():
    ends = set()
    for seed in range(10):
        machine = KernelKMeans(3, kernel="precomputed", random_state=seed)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            machine.fit(indefinite(seed))
        history = machine.inertia_history_
        assert (np.diff(history) <= 1e-9).all()
        told = [str(w.message) for w in said]
        assert any("indefinite" in t for t in told) == (
            machine.run_.status == "indefinite"
        )
        ends.add(machine.run_.status)
    assert "indefinite" in ends


def test_a_shift_by_the_smallest_eigenvalue_makes_every_step_go_down():
    for seed in range(5):
        K = indefinite(seed)
        shift = -np.linalg.eigvalsh(K)[0]
        start = np.arange(20) % 3
        machine = KernelKMeans(3, kernel="precomputed", init=start, shift=shift)
        machine.fit(K)
        assert machine.run_.status == "optimal"
        shifted = KernelKMeans(3, kernel="precomputed", init=start)
        shifted.fit(K + shift * np.eye(20))
        assert_array_equal(shifted.labels_, machine.labels_)
        history = machine.inertia_history_ + shift * (20 - 3)
        assert_allclose(shifted.inertia_history_, history)


# Callbacks


def test_lines_name_the_starts_and_say_how_they_ended(capsys):
    machine = KernelKMeans(3, n_init=2, random_state=0, verbose=True).fit(X)
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("[KernelKMeans start 1] iteration        1   inertia ")
    assert out[-1].startswith("[KernelKMeans start 2] iteration ")
    assert all("points moved" in line for line in out)
    assert machine.run_.status == "optimal"


def test_a_function_can_stop_the_fit_at_the_best_so_far():
    machine = KernelKMeans(4, kernel=RBF(0.05), random_state=1, n_init=5)
    machine.set_params(callback=lambda step: step.iterations == 3)
    with pytest.warns(ConvergenceWarning, match="after 3 .*'stopped'") as said:
        machine.fit(X)
    assert said[0].filename == __file__
    assert machine.run_.status == "stopped" and machine.n_iter_ == 3
    assert len(machine.inertia_history_) == 3
    assert_allclose(machine.inertia_, inertia(RBF(0.05)(X), machine.labels_))


def test_too_few_steps_are_told():
    machine = KernelKMeans(4, kernel=RBF(0.05), random_state=1, max_iter=2)
    with pytest.warns(ConvergenceWarning, match="after 2 .*Raise max_iter"):
        machine.fit(X)
    assert machine.run_.status == "max_iter"


def test_tol_ends_a_start_when_a_step_gains_little():
    full = KernelKMeans(4, kernel=RBF(0.05), random_state=1).fit(X)
    early = clone(full).set_params(tol=0.01).fit(X)
    assert early.run_.status == "optimal" and early.n_iter_ < full.n_iter_
    history = early.inertia_history_
    assert (history[:-2] - history[1:-1] > 0.01 * history[:-2]).all()
    assert history[-2] - history[-1] <= 0.01 * history[-2]


def test_an_interrupted_fit_leaves_what_was_learnt_before():
    machine = KernelKMeans(3, random_state=0).fit(X)
    label = machine.labels_

    def interrupt(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        machine.set_params(n_clusters=5, callback=interrupt).fit(X)
    assert machine.labels_ is label
    assert_array_equal(machine.predict(X), label)


def test_callbacks_of_scikit_learn_see_the_starts_and_their_steps():
    seen = []

    class Recorder:
        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context, *, metadata=None):
            seen.append((context.task_name, metadata))

        def on_fit_task_end(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

    machine = KernelKMeans(3, n_init=2, random_state=0)
    machine.set_callbacks(Recorder()).fit(X)
    names = [name for name, _ in seen]
    assert names.count("solve start 1") == names.count("solve start 2") == 1
    inertias = [about["objective"] for name, about in seen if name == "round"]
    assert machine.inertia_ in inertias


# Refusals


def test_distances_need_lengths_that_rows_of_kernel_values_do_not_have():
    K = RBF(0.05)(X)
    machine = KernelKMeans(3, kernel="precomputed", random_state=0).fit(K)
    assert not hasattr(machine, "transform") and not hasattr(machine, "score")
    with pytest.raises(AttributeError) as error:
        _ = machine.transform
    assert "Precomputed(K)" in str(error.value.__cause__)
    known = KernelKMeans(3, kernel=Precomputed(K), random_state=0).fit(np.arange(120))
    assert_array_equal(known.labels_, machine.labels_)
    assert known.transform(np.arange(5)).shape == (5, 3)


@looped(
    "options, data, message",
    [
        ({"n_clusters": 5}, X[:3], "n_samples=3 < n_clusters=5"),
        ({"init": X[:2]}, X, "n_clusters=8 points, or of 120 whole numbers"),
        ({"init": np.arange(120)}, X, "labels from 0 to n_clusters - 1 = 7"),
        ({"kernel": "precomputed"}, X, "must be a square matrix"),
        (
            {"kernel": "precomputed", "n_clusters": 2, "init": [0, 500]},
            RBF(0.1)(X),
            "places of points",
        ),
        (
            {"kernel": Linear(), "normalized_cut": True},
            X - X.mean(axis=0),
            r"degree Σⱼ k\(xᵢ, xⱼ\) > 0; point \d+ has -",
        ),
        ({"shift": -1.0}, X, "shift"),
        ({"init": "kmeans"}, X, "init"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_way_out(options, data, message):
    with pytest.raises(ValueError, match=message):
        KernelKMeans(**options).fit(data)


def test_negative_weights_and_a_machine_without_fit_are_refused():
    with pytest.raises(ValueError, match="sample_weight"):
        KernelKMeans(2).fit(X, sample_weight=-WEIGHT)
    with pytest.raises(NotFittedError):
        KernelKMeans(2).predict(X)


def test_a_function_gives_the_matrix_of_two_sets_of_points():
    def common(a, b):
        return len(set(a) & set(b))

    def block(X, Y):
        return np.array([[common(x, y) for y in Y] for x in X], dtype=float)

    by_function = KernelKMeans(3, kernel=block, random_state=0).fit(WORDS)
    kernel = PairFunction(common)
    by_kernel = KernelKMeans(3, kernel=kernel, random_state=0).fit(WORDS)
    assert_array_equal(by_function.labels_, by_kernel.labels_)
    assert_array_equal(by_function.labels_[::3], by_function.labels_[1::3])


def test_solver_starts_from_any_labels():
    problem = Partition(Gram(RBF(0.05), X).held(), 4, WEIGHT)
    found = KernelLloyd().solve(problem, start=np.zeros(len(X), dtype=int))
    assert len(found.volume) == 4
    assert_allclose(found.volume.sum(), WEIGHT.sum())
    assert_allclose(
        found.inertia, inertia(RBF(0.05)(X), found.label, WEIGHT), rtol=1e-9
    )


# Real data


def test_spam_is_a_cluster_of_the_normalised_cut():
    file = DATA / "sms_spam.tsv.gz"
    if not file.exists():
        pytest.skip(f"no {file.name} in {DATA}: set MERCER_DATA to the folder it is in")
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()[:800]
    kinds, texts = zip(*(line.split("\t", 1) for line in lines), strict=True)
    words = [tuple(re.findall(r"[a-z]+|\d|[^\w\s]", text.lower())) for text in texts]
    kernel = Normalized(Subsequence(2, 0.5))
    machine = KernelKMeans(2, kernel=kernel, n_init=5, random_state=0)
    machine.set_params(normalized_cut=True).fit(words)
    assert adjusted_rand_score(kinds, machine.labels_) > 0.7
    assert_array_equal(machine.predict(words[:50]), machine.labels_[:50])


@pytest.mark.parametrize(
    "offset, dtype",
    [(2.0**8, np.float32), (2.0**20, np.float32)]
    + [(2.0**e, np.float64) for e in (8, 20, 30, 40)],
)
def test_clusters_far_from_the_origin_are_those_at_it(offset, dtype):
    rng = np.random.default_rng(0)
    near = rng.standard_normal((90, 3)) + 4.0 * np.repeat(np.eye(3), 30, axis=0)
    X = (near + offset).astype(dtype)
    moved = X.astype(float) - offset  # what rounding to these digits left of them
    far = KernelKMeans(3, kernel=Linear(), random_state=0).fit(X)
    own = [moved[far.labels_ == c] for c in range(3)]
    inertia = sum(np.sum((part - part.mean(axis=0)) ** 2) for part in own)
    assert_allclose(far.inertia_, inertia, rtol=1e-9)
    assert far.rounding_ <= 1e-9 * inertia
    assert_array_equal(far.predict(X), far.labels_)
    assert_allclose(far.score(X), -inertia, rtol=1e-9)
