"""Machines on Dask collections agree with the same machines on points in memory."""

import gc
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone

from mercer import (
    RBF,
    SVC,
    SVDD,
    SVR,
    FeatureMap,
    Gram,
    Graph,
    KernelKMeans,
    KernelKNNClassifier,
    KernelKNNRegressor,
    KernelLogisticRegression,
    KernelPCA,
    KernelQuantileRegression,
    KernelRidge,
    KernelSearchCV,
    KernelSGDClassifier,
    KernelSGDRegressor,
    Linear,
    Normalized,
    NuSVC,
    NuSVR,
    Nystroem,
    Nystrom,
    On,
    OneClassSVM,
    ParzenClassifier,
    ParzenDensity,
    Polynomial,
    PolynomialCountSketch,
    RandomFourier,
    RBFSampler,
    RegularizedMachine,
    Sigmoid,
    Spectrum,
    Subsequence,
    WeisfeilerLehman,
    check,
    losses,
)
from mercer.data.partitions import Once, Question
from mercer.solvers import decomposition

dask = pytest.importorskip("dask", reason="the extra dask is not installed")
pytest.importorskip("distributed", reason="the extra dask is not installed")
da = pytest.importorskip("dask.array")
db = pytest.importorskip("dask.bag")

from distributed import Client, LocalCluster  # noqa: E402

from mercer import distributed  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # what Dask warns of is not ours

N = 300
CUTS = {1: (N,), 2: (100, 200), 5: (120, 0, 1, 150, 29)}  # sizes of partitions


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            memory_limit="1GB",
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def small_sets(monkeypatch):
    """Working sets of which several rounds are made."""
    monkeypatch.setattr(decomposition, "FIRST", 100)
    monkeypatch.setattr(decomposition, "JOIN", 50)


def points(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3))
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    return X, f + 0.2 * rng.normal(size=N), np.where(f > 0, 1, -1)


MACHINES = {
    "svc": (SVC(kernel=RBF(0.3), tol=1e-6), "side"),
    "svc of landmarks": (SVC(kernel=Nystrom(RBF(0.3), 25), tol=1e-6), "side"),
    "svc linear": (SVC(kernel="linear", tol=1e-6), "side"),
    "svr": (SVR(kernel=RBF(0.3), tol=1e-6), "target"),
    "svr of landmarks": (SVR(kernel=Nystrom(RBF(0.3), 25), tol=1e-6), "target"),
    "nu_svc": (NuSVC(kernel=RBF(0.3), nu=0.3, tol=1e-6), "side"),
    "one_class": (OneClassSVM(kernel=RBF(0.3), nu=0.2, tol=1e-6), None),
    "svdd": (SVDD(kernel=RBF(0.3), nu=0.2, tol=1e-6), None),
    "ridge": (KernelRidge(kernel=Nystrom(RBF(), 25)), "target"),
    "ridge linear": (KernelRidge(kernel=Linear()), "target"),
    "ridge of any kernel": (KernelRidge(kernel=RBF(0.3)), "target"),
    "logistic of any kernel": (
        KernelLogisticRegression(kernel=RBF(0.3), tol=1e-8),
        "side",
    ),
    "quantile of any kernel": (
        KernelQuantileRegression(kernel=RBF(0.3), tol=1e-8),
        "target",
    ),
    "logistic": (
        KernelLogisticRegression(kernel=Nystrom(RBF(0.3), 25), tol=1e-8),
        "side",
    ),
    "quantile": (
        KernelQuantileRegression(kernel=Nystrom(RBF(0.3), 25), tol=1e-8),
        "target",
    ),
}


def fitted(machine, X, y):
    return clone(machine).fit(X) if y is None else clone(machine).fit(X, y)


LONG = ("svr of landmarks", "nu_svc", "svdd", "quantile of any kernel", "svc linear")
LONG += ("logistic", "ridge linear")  # as others of their kind


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.cluster] if name in LONG else [])
        for name in MACHINES
    ],
)
def test_objective_is_that_of_points_in_memory(client, small_sets, name):
    machine, what = MACHINES[name]
    X, target, side = points()
    # Sorted by class, so that partitions of one class are among them.
    order = np.argsort(side, kind="stable")
    X, y = X[order], {"side": side[order], "target": target[order], None: None}[what]
    here = fitted(machine, X, y).certificate_
    y = None if y is None else da.from_array(y, chunks=70)
    for cuts in [CUTS[2]] if name != "svc" else CUTS.values():
        dX = da.from_array(X, chunks=(cuts, 3))
        there = fitted(machine, dX, y)
        assert there.run_.status == "optimal"
        found = there.certificate_
        scale = abs(here.primal) + abs(here.dual)
        assert abs(found.dual - here.dual) <= 1e-6 * scale
        assert abs(found.primal - here.primal) <= 1e-6 * scale


@pytest.mark.parametrize("kernel", [RBF(0.1), RBF(0.1) + Linear()], ids=repr)
def test_kernel_values_of_long_points_are_kept(client, small_sets, kernel):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((N, 80)) < 0.2, rng.random((N, 80)), 0.0)
    side = np.where(X[:, :20].sum(axis=1) > 2, 1, -1)
    here = SVC(kernel=kernel, C=10).fit(X, side)
    there = SVC(kernel=kernel, C=10).fit(da.from_array(X, chunks=(100, 80)), side)
    assert there.run_.status == "optimal"
    for a, b in ((here, there), (there, here)):
        assert a.certificate_.dual <= b.certificate_.primal
    K, beta = kernel(X), np.zeros(N)
    beta[there.support_] = there.dual_coef_.ravel()
    f = K @ beta + there.intercept_
    np.testing.assert_allclose(there.decision_function(X), f, atol=1e-8)


def words(n=N):
    rng = np.random.default_rng(1)
    return ["".join(rng.choice(list("ACGT"), rng.integers(5, 12))) for _ in range(n)]


def graphs(n=N):
    rng = np.random.default_rng(2)
    found = []
    for size in rng.integers(3, 7, size=n).tolist():
        edges = [(i, int(rng.integers(i))) for i in range(1, size)]
        found.append(Graph(edges, labels="".join(rng.choice(list("CNO"), size))))
    return found


def as_bag(some, cuts):
    """A bag with partitions of these sizes."""
    parts = np.split(np.arange(len(some)), np.cumsum(cuts)[:-1])
    return db.from_delayed([dask.delayed([some[i] for i in part]) for part in parts])


# Explicit maps other than landmarks, whose columns all partitions agree on.
WAVES, LETTERS, NODES = RandomFourier(RBF(), 20), Spectrum(2), WeisfeilerLehman(2)
MAPPED = {
    "svc of waves": (SVC(kernel=WAVES, tol=1e-6), "side"),
    "ridge of strings": (KernelRidge(kernel=LETTERS), "target"),
    "logistic of graphs": (KernelLogisticRegression(kernel=NODES, tol=1e-8), "side"),
    "svr of strings, wide": (SVR(kernel=Spectrum(5), tol=1e-6), "target"),
    "svc of strings": (SVC(kernel=Normalized(LETTERS), tol=1e-6), "side"),
    "svc of graphs": (SVC(kernel=NODES, tol=1e-6), "side"),
    "svr of waves": (SVR(kernel=WAVES, tol=1e-6), "target"),
    "nu_svr of waves": (NuSVR(kernel=WAVES, tol=1e-6), "target"),
    "nu_svr of strings, wide": (NuSVR(kernel=Spectrum(5), tol=1e-6), "target"),
    "one_class of graphs": (OneClassSVM(kernel=NODES, nu=0.2, tol=1e-6), None),
    "svdd of waves": (SVDD(kernel=WAVES, nu=0.2, tol=1e-6), None),
    "ridge of products": (KernelRidge(kernel=Polynomial(2)), "target"),
    "ridge of strings, wide": (KernelRidge(kernel=Spectrum(5)), "target"),
    "logistic of waves": (KernelLogisticRegression(kernel=WAVES, tol=1e-8), "side"),
    "logistic of a sum": (
        KernelLogisticRegression(kernel=LETTERS + 2 * Spectrum(3), tol=1e-8),
        "side",
    ),
    "quantile of graphs": (
        KernelQuantileRegression(kernel=NODES, tol=1e-8),
        "target",
    ),
}
QUICK = list(MAPPED)[:3]


@pytest.mark.parametrize(
    "name, cuts",
    [(name, 5) for name in QUICK]
    + [
        pytest.param(name, cuts, marks=pytest.mark.cluster)
        for name in MAPPED
        for cuts in CUTS
    ],
)
def test_explicit_maps_have_the_same_columns_in_all_partitions(client, name, cuts):
    machine, what = MAPPED[name]
    X, target, side = points()
    cuts = CUTS[cuts]
    if isinstance(machine.kernel, RandomFourier | Polynomial):
        here, there = X, da.from_array(X, chunks=(cuts, 3))
    else:
        here = graphs() if machine.kernel is NODES else words()
        there = as_bag(here, cuts)
    y = {"side": side, "target": target, None: None}[what]
    a, b = fitted(machine, here, y), fitted(machine, there, y)
    assert b.run_.status == "optimal"
    scale = abs(a.certificate_.primal) + abs(a.certificate_.dual)
    assert abs(a.certificate_.dual - b.certificate_.dual) <= 1e-6 * scale
    again = pickle.loads(pickle.dumps(b))
    said = "predict" if what == "target" else "decision_function"
    np.testing.assert_allclose(
        getattr(again, said)(here), getattr(a, said)(here), atol=1e-4
    )


@pytest.mark.parametrize(
    "kernel",
    [
        LETTERS,
        pytest.param(Spectrum(5), marks=pytest.mark.cluster),
        pytest.param(Normalized(LETTERS), marks=pytest.mark.cluster),
    ],
    ids=repr,
)
def test_components_of_strings_are_those_of_points_in_memory(client, kernel):
    machine, some = KernelPCA(2, kernel=kernel), words()
    here, there = clone(machine).fit(some), clone(machine).fit(as_bag(some, CUTS[5]))
    np.testing.assert_allclose(there.eigenvalues_, here.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(there.transform(some), here.transform(some), atol=1e-7)


def test_weights_of_features_have_their_names(client):
    some, target = words(), points()[1]
    machine = SVR(kernel=LETTERS).fit(as_bag(some, CUTS[2]), target)
    here = SVR(kernel=LETTERS).fit(some, target)
    assert sorted(machine.feature_names_) == sorted(here.feature_names_)
    order = np.argsort(machine.feature_names_), np.argsort(here.feature_names_)
    np.testing.assert_allclose(
        machine.coef_[:, order[0]], here.coef_[:, order[1]], atol=1e-2
    )


def test_landmarks_are_those_of_points_in_memory(client):
    X, _, _ = points()
    dX = da.from_array(X, chunks=(CUTS[5], 3))
    for kernel in (Nystrom(RBF(), 30), Nystrom(RBF(0.3), error=0.05)):
        here, there = kernel.resolve(X), kernel.resolve(distributed.partitions(dX))
        np.testing.assert_array_equal(here.landmarks, there.landmarks)
        assert there.trace_error == pytest.approx(here.trace_error, rel=1e-6)


def other_kinds():
    """Points that are no dense vectors: the kernel, and the points here and there."""
    X, _, _ = points()
    rng = np.random.default_rng(1)
    sparse = np.where(np.abs(X) > 1, X, 0.0)
    rows = da.from_array(sparse, chunks=(110, 3)).map_blocks(sp.csr_array)
    words = ["".join(rng.choice(list("ACGT"), 9)) for _ in range(N)]
    bag = db.from_sequence(words, npartitions=3)
    wide = da.from_array(X[:150], chunks=(60, 3))
    narrow = da.from_array(X[150:].astype(np.float32), chunks=(60, 3))
    both = np.vstack([X[:150], X[150:].astype(np.float32)])
    return {
        "sparse": (RBF(0.3), sp.csr_array(sparse), rows),
        "sparse, linear": (Linear(), sp.csr_array(sparse), rows),
        "two precisions": (
            RBF(0.3),
            both,
            da.concatenate([wide, narrow.map_blocks(np.copy)]),
        ),
        "strings": (Spectrum(2), words, bag),
        "strings, landmarks": (Nystrom(Spectrum(2), 10), words, bag),
    }


@pytest.mark.parametrize(
    "name",
    [
        "sparse",
        "two precisions",
        "strings",
        pytest.param("sparse, linear", marks=pytest.mark.cluster),
        pytest.param("strings, landmarks", marks=pytest.mark.cluster),
    ],
)
def test_points_of_other_kinds(client, name):
    kernel, here, there = other_kinds()[name]
    side = points()[2]
    machine = SVC(kernel=kernel, tol=1e-6)
    a, b = fitted(machine, here, side), fitted(machine, there, side)
    assert b.certificate_.dual == pytest.approx(a.certificate_.dual, rel=1e-6)
    found = np.asarray(b.predict(there).compute())
    np.testing.assert_array_equal(found, a.predict(here))


def test_data_frames_keep_their_index_and_names(client):
    dd = pytest.importorskip("dask.dataframe", reason="dask[dataframe] is missing")
    pd = pytest.importorskip("pandas")
    X, _, side = points()
    frame = pd.DataFrame(X, columns=list("abc"), index=np.arange(N)[::-1])
    frame["side"] = side
    collection = dd.from_pandas(frame, npartitions=3, sort=False)
    collection = collection[collection.a > -1.0]  # of unknown sizes
    frame = frame[frame.a > -1.0]
    names = list("abc")
    there = SVC(kernel=RBF(0.3)).fit(collection[names], collection.side)
    here = SVC(kernel=RBF(0.3)).fit(frame[names], frame.side)
    assert there.feature_names_in_.tolist() == names
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        found = there.predict(collection[names]).compute()
    assert found.index.equals(frame.index)
    np.testing.assert_array_equal(found, here.predict(frame[names]))
    with pytest.warns(UserWarning, match="valid feature names"):
        values = there.decision_function(collection[names].to_dask_array())
        expected = here.decision_function(frame[names].to_numpy())
    np.testing.assert_allclose(values.compute(), expected, atol=1e-2)
    kernel = On("a", RBF(0.5)) + On(["b", "c"], RBF(0.3))
    there = SVC(kernel=kernel, tol=1e-6).fit(collection[names], collection.side)
    here = SVC(kernel=kernel, tol=1e-6).fit(frame[names], frame.side)
    dual = here.certificate_.dual
    assert there.certificate_.dual == pytest.approx(dual, rel=1e-6)


def test_predictions_are_lazy_and_have_the_partitions_of_the_points(client):
    X, target, side = points()
    dX = da.from_array(X, chunks=(CUTS[5], 3))
    three = np.digitize(target, [-0.5, 0.5])
    for machine, y, methods in [
        (SVC(kernel=RBF(0.3)), three, ["predict", "decision_function"]),
        (KernelLogisticRegression(kernel=RBF(0.3)), side, ["predict_proba"]),
        (KernelRidge(kernel=RBF(0.3)), target, ["predict"]),
    ]:
        machine.fit(X, y)
        for method in methods:
            found = getattr(machine, method)(dX)
            assert isinstance(found, da.Array) and found.chunks[0] == dX.chunks[0]
            expected = getattr(machine, method)(X)
            assert found.dtype == expected.dtype and found.shape == expected.shape
            np.testing.assert_allclose(found.compute(), expected, atol=1e-12)
    score = machine.score(dX, da.from_array(target, chunks=80))
    assert score == pytest.approx(machine.score(X, target))


def test_a_later_fit_does_not_change_what_was_asked(client):
    X, _, side = points()
    machine = SVC(kernel=RBF(0.3)).fit(X, side)
    before, expected = machine.predict(da.from_array(X)), machine.predict(X)
    machine.fit(X, -side)
    np.testing.assert_array_equal(before.compute(), expected)


def test_what_is_wrong_is_said_with_its_partition(client):
    X, _, side = points()
    bad = X.copy()
    bad[205, 1] = np.nan
    with pytest.raises(ValueError, match=r"Partition 2 has nan in column 1.*row 5"):
        SVC().fit(da.from_array(bad, chunks=(100, 3)), side)
    ragged = [dask.delayed(np.ones)((4, d)) for d in (2, 3)]
    parts = [da.from_delayed(one, (4, 2), float) for one in ragged]
    with pytest.raises(ValueError, match="Partition 1 has 3 columns"):
        SVC().fit(da.concatenate(parts), np.arange(8) % 2)
    with pytest.raises(ValueError, match="no points"):
        SVC().fit(da.ones((0, 2)), [])
    with pytest.raises(ValueError, match="inconsistent"):
        SVC().fit(da.from_array(X, chunks=(100, 3)), side[:-1])
    dX = da.from_array(X, chunks=(100, 3))
    with pytest.raises(ValueError, match="Nystrom"):
        KernelPCA(kernel=RBF(0.3)).fit(dX)
    with pytest.raises(TypeError, match="not brought to one machine"):
        np.asarray(distributed.partitions(dX))
    with pytest.raises(ZeroDivisionError):
        SVC().fit(dX.map_blocks(_divided, dtype=float), side)


def _divided(part):
    raise ZeroDivisionError


def test_without_a_client_the_error_says_how_to_start_one():
    X, _, side = points()
    current = distributed.default_client
    distributed.default_client = _no_client
    try:
        with pytest.raises(distributed.ClusterError, match="client=client"):
            SVC().fit(da.from_array(X, chunks=(100, 3)), side)
    finally:
        distributed.default_client = current


def test_a_client_that_is_named_is_the_one_that_computes(client, monkeypatch):
    X, target, _ = points()
    dX = da.from_array(X, chunks=(100, 3))
    machine = KernelRidge(kernel=Linear())
    here = clone(machine).fit(X, target)
    other = Client(client.scheduler.address, set_as_default=False)
    used = []
    submitted = Client.map

    def counted(self, *args, **options):
        used.append(self)
        return submitted(self, *args, **options)

    monkeypatch.setattr(Client, "map", counted)
    with other:
        machine.fit(dX, da.from_array(target, chunks=70), client=other)
        assert used and all(one is other for one in used)
        found = machine.predict(dX, client=other)
        np.testing.assert_allclose(other.compute(found).result(), here.predict(X))
        assert machine.score(dX, target, client=other) == pytest.approx(
            here.score(X, target)
        )
    with pytest.raises(TypeError, match="client is a distributed"):
        machine.fit(dX, target, client="tcp://somewhere")
    with pytest.raises(TypeError, match="Leave it out"):
        machine.fit(X, target, client=client)


def _no_client():
    raise ValueError("No clients found")


def tasks_of(client):
    """Tasks of ours that the scheduler knows, points of users left out."""
    return client.run_on_scheduler(_ours)


def _ours(dask_scheduler):
    return sorted(str(key) for key in dask_scheduler.tasks if "mercer" in str(key))


def emptied(client):
    """Whether nothing of ours is left with the cluster, after a moment."""
    import time

    for _ in range(100):
        gc.collect()
        if not tasks_of(client):
            return True
        time.sleep(0.1)
    return False


def test_the_machine_is_an_ordinary_one_and_leaves_nothing_behind(client):
    X, target, side = points()
    dX = da.from_array(X, chunks=(100, 3)).persist()
    for machine, y in [
        (SVC(kernel=RBF(0.3)), side),
        (SVC(kernel=Nystrom(RBF(0.3), 20)), side),
        (KernelRidge(kernel=Linear()), target),
        (KernelRidge(kernel=Nystrom(RBF(0.3), 20)), target),
    ]:
        machine.fit(dX, y)
        assert emptied(client)
        again = pickle.loads(pickle.dumps(machine))
        np.testing.assert_array_equal(again.predict(X), machine.predict(X))


class Stopped(Exception):
    pass


@pytest.mark.parametrize("kernel", [RBF(0.3), Nystrom(RBF(0.3), 20)], ids=repr)
def test_an_interrupted_fit_leaves_no_task_behind(
    client, small_sets, monkeypatch, kernel
):
    X, _, side = points()
    dX = da.from_array(X, chunks=(100, 3)).persist()
    looks = iter(range(10**6))
    watch = distributed._Watch.__call__

    def interrupted(self, tasks):
        if next(looks) == 9:
            raise KeyboardInterrupt
        watch(self, tasks)

    monkeypatch.setattr(distributed._Watch, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        SVC(kernel=kernel).fit(dX, side)
    assert emptied(client)


def test_what_was_reached_is_kept_where_the_cluster_is_lost(
    client, small_sets, monkeypatch
):
    X, _, side = points()
    dX = da.from_array(X, chunks=(100, 3)).persist()
    looks = iter(range(10**6))
    watch = distributed._Watch.__call__

    def lost(self, tasks):
        if next(looks) == 12:
            raise distributed.ClusterError("The cluster is gone.")
        watch(self, tasks)

    machine = SVC(kernel=RBF(0.3), tol=1e-6)
    monkeypatch.setattr(distributed._Watch, "__call__", lost)
    with pytest.raises(distributed.ClusterError, match="goes on from there"):
        machine.fit(dX, side)
    monkeypatch.setattr(distributed._Watch, "__call__", watch)
    machine.fit(dX, side)
    fresh = SVC(kernel=RBF(0.3), tol=1e-6).fit(dX, side)
    assert machine.certificate_.dual == pytest.approx(fresh.certificate_.dual, rel=1e-6)
    assert machine.run_.iterations < fresh.run_.iterations


@pytest.mark.cluster
@pytest.mark.parametrize("kernel", [Nystrom(RBF(0.3), 25), WAVES], ids=repr)
def test_a_fit_on_a_map_starts_from_the_file_of_an_earlier_one(
    client, tmp_path, kernel
):
    from mercer.io import load, save

    X, _, side = points()
    dX = da.from_array(X, chunks=(150, 3))
    first = SVC(kernel=kernel, tol=1e-6, warm_start=True).fit(dX, side)
    save(first, tmp_path / "first.mercer")
    later = load(tmp_path / "first.mercer").fit(dX, side)
    assert later.certificate_.dual == pytest.approx(first.certificate_.dual, rel=1e-6)
    assert later.run_.iterations < first.run_.iterations
    other = load(tmp_path / "first.mercer").fit(da.from_array(-X, chunks=150), side)
    fresh = SVC(kernel=kernel, tol=1e-6).fit(da.from_array(-X, chunks=150), side)
    assert other.run_.iterations == fresh.run_.iterations  # these are other points


def test_a_fit_goes_on_from_the_file_of_one_that_was_stopped(
    client, small_sets, tmp_path
):
    from mercer.io import load, save

    X, _, side = points()
    dX = da.from_array(X, chunks=(100, 3)).persist()
    seen = []

    def stop(progress):
        seen.append(progress)
        return progress.round >= 3

    machine = SVC(kernel=RBF(0.3), tol=1e-6, callback=stop, warm_start=True)
    with pytest.warns(UserWarning, match="stopped"):
        machine.fit(dX, side)
    assert seen and machine.run_.status == "stopped"
    machine.callback = None
    save(machine, tmp_path / "part.mercer")
    later = load(tmp_path / "part.mercer").fit(dX, side)
    fresh = SVC(kernel=RBF(0.3), tol=1e-6).fit(dX, side)
    assert later.certificate_.dual == pytest.approx(fresh.certificate_.dual, rel=1e-6)
    assert later.run_.iterations < fresh.run_.iterations


def test_products_with_a_gram_are_those_of_points_in_memory(client):
    X, _, _ = points()
    dX = da.from_array(X, chunks=(CUTS[5], 3))
    V = np.random.default_rng(1).normal(size=(N, 2))
    K, some = RBF(0.3)(X), X[:7]
    np.testing.assert_allclose(Gram(RBF(0.3), dX) @ V, K @ V, atol=1e-12)
    np.testing.assert_allclose(Gram(RBF(0.3), dX, some) @ V[:7], K[:, :7] @ V[:7])
    np.testing.assert_allclose(Gram(RBF(0.3), some, dX) @ V, K[:7] @ V, atol=1e-12)
    np.testing.assert_allclose(Gram(RBF(0.3), dX).diag(), K.diagonal())


def test_components_are_those_of_points_in_memory(client):
    X, _, _ = points()
    dX = da.from_array(X, chunks=(CUTS[5], 3))
    machine = KernelPCA(3, kernel=Nystrom(RBF(0.3), 40))
    here, there = clone(machine).fit(X), clone(machine).fit(dX)
    np.testing.assert_allclose(there.eigenvalues_, here.eigenvalues_, rtol=1e-9)
    found = there.transform(dX)
    assert found.chunks == ((*CUTS[5],), (3,))
    np.testing.assert_allclose(found.compute(), here.transform(X), atol=1e-8)
    assert emptied(client)


ANY = {
    "vectors": KernelPCA(3, kernel=RBF(0.3)),
    "vectors, one by one": KernelPCA(3, kernel=RBF(0.3), eigen_solver="arpack"),
    "strings": KernelPCA(2, kernel=Subsequence(2, 0.5)),
}


@pytest.mark.parametrize(
    "name, cuts",
    [("vectors", 5)]
    + [
        pytest.param(name, cuts, marks=pytest.mark.cluster)
        for name in ANY
        for cuts in CUTS
    ],
)
def test_components_of_any_kernel_are_those_of_points_in_memory(client, name, cuts):
    machine, X = ANY[name], points()[0]
    here = words() if name == "strings" else X
    there = da.from_array(X, chunks=(CUTS[cuts], 3))
    there = as_bag(here, CUTS[cuts]) if name == "strings" else there
    a, b = clone(machine).fit(here), clone(machine).fit(there)
    assert b.run_.status == "optimal"
    np.testing.assert_allclose(b.eigenvalues_, a.eigenvalues_, rtol=1e-9)
    assert_lazily(b.transform, there, a.transform(here), atol=1e-7)
    known = a.reconstruction_error(here)
    assert_lazily(b.reconstruction_error, there, known, atol=1e-7)
    with pytest.raises(ValueError, match="n_components"):
        clone(machine).set_params(n_components=None).fit(there)


def test_transformers_have_the_columns_of_all_partitions(client):
    some, X = words(), points()[0]
    bag, dX = as_bag(some, CUTS[5]), da.from_array(X, chunks=(CUTS[5], 3))
    here, there = FeatureMap(LETTERS).fit(some), FeatureMap(LETTERS).fit(bag)
    a, b = here.get_feature_names_out(), there.get_feature_names_out()
    assert sorted(a) == sorted(b)
    found = sp.vstack(there.transform(bag).compute()).toarray()
    known = here.transform(some).toarray()
    np.testing.assert_array_equal(found[:, np.argsort(b)], known[:, np.argsort(a)])
    machine = Nystroem(RBF(0.3), n_components=9, random_state=0)
    known = clone(machine).fit_transform(X)
    assert_lazily(clone(machine).fit(dX).transform, dX, known, atol=1e-9)
    for other in (RBFSampler(), PolynomialCountSketch()):
        with pytest.raises(TypeError, match="FeatureMap"):
            other.fit(dX)
        with pytest.raises(TypeError, match="FeatureMap"):
            other.fit(X).transform(dX)


def test_scores_of_a_machine_with_a_loss_are_those_of_points_in_memory(client):
    X, target, side = points()
    dX = da.from_array(X, chunks=(CUTS[2], 3))
    for loss, y in ((losses.Hinge(), side), (losses.Squared(), target)):
        machine = RegularizedMachine(loss, kernel=Nystrom(RBF(0.3), 20)).fit(X, y)
        found = machine.score(dX, da.from_array(y, chunks=70))
        assert found == pytest.approx(machine.score(X, y))


GROUPS = {
    "strings": KernelKMeans(2, kernel=Normalized(LETTERS), random_state=0),
    "landmarks": KernelKMeans(3, kernel=Nystrom(RBF(0.3), 20), random_state=0),
    "waves": KernelKMeans(3, kernel=WAVES, random_state=0),
    "vectors": KernelKMeans(3, kernel=Linear(), random_state=0),
    "cut": KernelKMeans(
        3, kernel=Nystrom(RBF(0.3), 20), normalized_cut=True, random_state=0
    ),
    "one by one": KernelKMeans(
        3, kernel=WAVES, algorithm="hartigan", shift=0.1, random_state=0
    ),
    "given": KernelKMeans(2, kernel=LETTERS, init=words(2)),
    "any kernel": KernelKMeans(3, kernel=RBF(0.3), random_state=0),
    "any kernel, random": KernelKMeans(
        3, kernel=RBF(0.3), init="random", n_init=3, random_state=0
    ),
    "any kernel, cut": KernelKMeans(
        3, kernel=RBF(0.3), normalized_cut=True, random_state=0
    ),
    "any kernel, one by one": KernelKMeans(
        3, kernel=RBF(0.3), algorithm="hartigan", shift=0.1, random_state=0
    ),
    "any kernel, given": KernelKMeans(3, kernel=RBF(0.3), init=points()[0][:3]),
    "indefinite": KernelKMeans(
        3, kernel=Sigmoid(1.0, -1.0), shift=50.0, algorithm="hartigan", random_state=0
    ),
    "subsequences": KernelKMeans(2, kernel=Subsequence(2, 0.5), random_state=0),
}


@pytest.mark.parametrize(
    "name, cuts",
    [("strings", 5), ("any kernel", 5)]
    + [
        pytest.param(name, cuts, marks=pytest.mark.cluster)
        for name in GROUPS
        for cuts in CUTS
    ],
)
def test_clusters_are_those_of_points_in_memory(client, name, cuts):
    machine, cuts, X = GROUPS[name], CUTS[cuts], points()[0]
    of_strings = name in ("strings", "given", "subsequences")
    here = words() if of_strings else X
    there = as_bag(here, cuts) if of_strings else da.from_array(X, chunks=(cuts, 3))
    a, b = clone(machine).fit(here), clone(machine).fit(there)
    assert b.run_.status == "optimal"
    assert b.inertia_ == pytest.approx(a.inertia_, rel=1e-9)
    np.testing.assert_array_equal(b.labels_, a.labels_)
    np.testing.assert_array_equal(np.asarray(b.predict(there).compute()), a.labels_)
    np.testing.assert_allclose(b.transform(here), a.transform(here), atol=1e-9)
    assert b.score(there) == pytest.approx(a.score(here), rel=1e-9)


def test_a_stream_is_learnt_a_partition_after_another(client):
    X, target, side = points()
    weight, cuts = np.linspace(0.5, 2, N), CUTS[5]
    dX = da.from_array(X, chunks=(cuts, 3))
    here, there = (KernelSGDClassifier(kernel=RBF(0.3)) for _ in range(2))
    for part in np.split(np.arange(N), np.cumsum(cuts)[:-1]):
        if len(part):
            here.partial_fit(X[part], side[part], [-1, 1], sample_weight=weight[part])
    dy = da.from_array(side, chunks=70)
    there.partial_fit(dX, dy, classes=[-1, 1], sample_weight=weight)
    np.testing.assert_array_equal(there.decision_function(X), here.decision_function(X))
    with pytest.raises(ValueError, match="inconsistent"):
        KernelSGDRegressor().partial_fit(dX, target[:-1])
    with pytest.raises(ValueError, match="partial_fit"):
        KernelSGDRegressor().fit(dX, target)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(0.3),
        pytest.param(LETTERS, marks=pytest.mark.cluster),
        pytest.param(Linear(), marks=pytest.mark.cluster),
        pytest.param(RBF(0.3) + Polynomial(2), marks=pytest.mark.cluster),
        pytest.param(Normalized(LETTERS), marks=pytest.mark.cluster),
    ],
    ids=repr,
)
def test_neighbours_are_those_of_points_in_memory(client, kernel):
    X, _, side = points()
    X = np.round(2 * X)  # of which many are equal, and many at the same distance
    of_strings = kernel is LETTERS or isinstance(kernel, Normalized)
    here = words() if of_strings else X
    cuts = CUTS[5]
    there = as_bag(here, cuts) if of_strings else da.from_array(X, chunks=(cuts, 3))
    a, b = (
        KernelKNNClassifier(7, kernel=kernel).fit(some, side) for some in (here, there)
    )
    for known, found in zip(a.kneighbors(here), b.kneighbors(here), strict=True):
        np.testing.assert_allclose(found, known, atol=1e-7)
    np.testing.assert_array_equal(b.predict(here), a.predict(here))
    with pytest.raises(TypeError, match="points in memory"):
        pickle.dumps(b)
    assert_lazily(b.predict, there, a.predict(here))
    for known, found in zip(a.kneighbors(here), b.kneighbors(there), strict=True):
        assert found.npartitions == there.npartitions
        np.testing.assert_allclose(np.asarray(found.compute()), known, atol=1e-7)
    found = a.kneighbors(there, return_distance=False)
    np.testing.assert_array_equal(np.asarray(found.compute()), known)


def assert_lazily(method, there, known, **tolerance):
    """What a method says of a collection is a lazy one, with its partitions."""
    found = method(there)
    assert dask.is_dask_collection(found)
    assert found.npartitions == there.npartitions
    if hasattr(there, "chunks"):
        assert found.chunks[0] == there.chunks[0]
        assert found.dtype == known.dtype
    tolerance = tolerance or {"rtol": 0, "atol": 0}
    np.testing.assert_allclose(np.asarray(found.compute()), known, **tolerance)


def test_a_machine_of_partitions_brings_no_points_here(client, monkeypatch):
    X, target, _ = points()
    dX = da.from_array(X, chunks=(CUTS[5], 3))
    machine = KernelKNNRegressor(4, kernel=RBF(0.3), weights="distance").fit(dX, target)

    def brought(self, places):
        raise AssertionError("points came to one machine")

    monkeypatch.setattr(distributed.Partitions, "fetched", brought)
    here = KernelKNNRegressor(4, kernel=RBF(0.3), weights="distance").fit(X, target)
    assert_lazily(machine.predict, dX, here.predict(X), rtol=1e-9)
    assert machine.score(dX, target) == pytest.approx(here.score(X, target))
    with pytest.raises(ValueError, match="a collection"):
        machine.kneighbors()
    current = distributed.default_client
    monkeypatch.setattr(distributed, "default_client", _no_client)
    with pytest.raises(distributed.ClusterError, match="client=client"):
        machine.predict(dX)
    monkeypatch.setattr(distributed, "default_client", current)
    del machine
    assert emptied(client)


@pytest.mark.cluster
def test_points_of_another_cluster_are_asked_for_by_its_client(client):
    X, target, _ = points()
    dX = da.from_array(X, chunks=(100, 3))
    machine = KernelKNNRegressor(4, kernel=RBF(0.3)).fit(dX, target)
    options = {"processes": False, "n_workers": 1, "dashboard_address": ":0"}
    with Client(**options, set_as_default=False) as other:
        with pytest.raises(distributed.ClusterError, match="Name theirs"):
            machine.predict(dX, client=other)
    found = machine.predict(dX, client=client)
    np.testing.assert_allclose(found.compute(), machine.predict(X))


def test_what_partitions_are_asked_is_answered_elsewhere(client):
    X = points()[0]
    held = distributed.partitions(da.from_array(X, chunks=(CUTS[5], 3)))
    weight = np.arange(N)

    def asked(points):
        return np.concatenate(points.each(_scaled, weight, shared=[Once(2.0)]))

    absent = pickle.loads(pickle.dumps(held.awaited()))
    with pytest.raises(Question) as raised:
        asked(absent)
    parts = np.split(X, np.cumsum([120, 1, 150]))
    answers = [raised.value.answered(part, i) for i, part in enumerate(parts)]
    expected = 2 * weight * X.sum(axis=1)
    np.testing.assert_allclose(asked(held.awaited(answers)), expected)
    np.testing.assert_allclose(asked(held), expected)
    with pytest.raises(TypeError, match="elsewhere"):
        absent.total(_scaled, weight)


def _scaled(part, weight, factor):
    return factor * weight * part.sum(axis=1)


def test_a_density_is_the_sum_over_partitions(client):
    X = points()[0]
    dX, weight = da.from_array(X, chunks=(CUTS[5], 3)), np.linspace(1, 2, N)
    for kernel in (None, "epanechnikov"):
        machine = ParzenDensity(0.7, kernel=kernel)
        here = clone(machine).fit(X, sample_weight=weight)
        there = clone(machine).fit(dX, sample_weight=weight)
        far = np.vstack([X, [[40.0, 0.0, 0.0]]])
        np.testing.assert_allclose(there.score_samples(far), here.score_samples(far))
        assert_lazily(there.score_samples, dX, here.score_samples(X), rtol=1e-9)
        assert there.score(dX) == pytest.approx(here.score(X), rel=1e-9)
    with pytest.raises(ValueError, match="needs a bandwidth"):
        ParzenDensity().fit(dX)
    distant = np.array([[1e200, 0.0, 0.0]])
    with pytest.raises(ValueError, match="so far from the others"):
        ParzenDensity(0.7).fit(dX).score_samples(distant)
    # A point that is near one partition may be at any distance from the others.
    both = da.from_array(np.vstack([X[:100], X[:50] + 1e200]), chunks=(100, 3))
    there, here = ParzenDensity(0.7).fit(both), ParzenDensity(0.7).fit(both.compute())
    np.testing.assert_allclose(there.score_samples(X[:5]), here.score_samples(X[:5]))


WINDOWS = {
    "windows": ParzenClassifier(0.7),
    "windows that end": ParzenClassifier(0.7, kernel="epanechnikov"),
    "priors": ParzenClassifier(0.7, priors=[0.2, 0.5, 0.3]),
    "means": ParzenClassifier(method="mean", kernel=RBF(0.3)),
    "means on landmarks": ParzenClassifier(method="mean", kernel=Nystrom(RBF(0.3), 20)),
    "means of vectors": ParzenClassifier(method="mean", kernel=Linear()),
    "means of strings": ParzenClassifier(method="mean", kernel=LETTERS),
    "means of subsequences": ParzenClassifier(
        method="mean", kernel=Subsequence(2, 0.5)
    ),
}


@pytest.mark.parametrize(
    "name, cuts",
    [("windows", 5), ("means", 5)]
    + [
        pytest.param(name, cuts, marks=pytest.mark.cluster)
        for name in WINDOWS
        for cuts in CUTS
    ],
)
def test_classes_of_windows_are_those_of_points_in_memory(client, name, cuts):
    machine, (X, target, _) = WINDOWS[name], points()
    y, weight = np.digitize(target, [-0.5, 0.5]), np.linspace(1, 2, N)
    order = np.argsort(y, kind="stable")  # so that partitions lack classes
    y, here = y[order], X[order]
    there = da.from_array(here, chunks=(CUTS[cuts], 3))
    if "strings" in name or "subsequences" in name:
        here = words()
        there = as_bag(here, CUTS[cuts])
    for labels in (y, np.where(y > 0, "b", "a")):
        if labels is not y and machine.priors is not None:
            continue
        a, b = (clone(machine).fit(some, labels, weight) for some in (here, there))
        assert_array_equal(np.asarray(b.predict(there).compute()), a.predict(here))
        known = a.decision_function(here)
        assert_lazily(b.decision_function, there, known, atol=1e-9)
        np.testing.assert_allclose(b.decision_function(here), known, atol=1e-9)
        if machine.method == "density":
            assert_lazily(b.predict_proba, there, a.predict_proba(here), atol=1e-9)
    if machine.method == "density":
        with pytest.raises(ValueError, match="needs a bandwidth"):
            ParzenClassifier("loo").fit(there, y)
    else:
        pickle.dumps(b)  # it is an ordinary machine


def test_a_kernel_is_checked_on_partitions(client):
    X = points()[0]
    dX = da.from_array(X, chunks=(CUTS[5], 3))
    assert check(RBF(0.3), dX)
    found, known = check(Sigmoid(1.0, -1.0), dX), check(Sigmoid(1.0, -1.0), X)
    assert not found and found.smallest == pytest.approx(known.smallest)


def test_a_search_is_judged_by_the_workers_or_on_partitions(client):
    X, _, side = points()
    space = {"C": [0.1, 1.0], "kernel": [RBF(0.3), RBF()]}
    search = KernelSearchCV(SVC(), space, cv=2)
    here = clone(search).fit(X, side)
    there = clone(search).fit(X, side, client=client)
    assert there.best_params_ == here.best_params_
    scores = "split0_test_score", "split1_test_score"
    for name in scores:
        assert_array_equal(there.cv_results_[name], here.cv_results_[name])
    assert emptied(client)
    search.set_params(space={"kernel": [Nystrom(RBF(0.3), 10)]})
    here = clone(search).fit(X, side)
    there = clone(search).fit(da.from_array(X, chunks=(110, 3)), side)
    for name in scores:
        assert_array_equal(there.cv_results_[name], here.cv_results_[name])
    with pytest.raises(ZeroDivisionError):
        broken = KernelSearchCV(SVC(kernel=_not_a_kernel), {"C": [1.0]}, cv=2)
        broken.set_params(error_score="raise").fit(X, side, client=client)


def _not_a_kernel(X, Y):
    raise ZeroDivisionError


def searched(kind):
    """Points here and there, and kernels for them."""
    X, some = points()[0], words()
    if kind == "strings":
        return some, as_bag(some, CUTS[5]), [LETTERS, Subsequence(2, 0.5)]
    if kind == "graphs":
        return graphs(), as_bag(graphs(), CUTS[5]), [NODES]
    if kind == "sparse":
        X = np.where(np.abs(X) > 1, X, 0.0)
        rows = da.from_array(X, chunks=(CUTS[5], 3)).map_blocks(sp.csr_array)
        return sp.csr_array(X), rows, [RBF(0.3), Nystrom(RBF(0.3), 10)]
    dd = pytest.importorskip("dask.dataframe", reason="dask[dataframe] is missing")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "w": some})
    kernels = [On("a", RBF(0.3)) + On("w", LETTERS)]
    if kind == "frame":
        frame, kernels = frame[["a", "b"]], [RBF(0.3), On("b", RBF(0.3))]
    there = dd.from_pandas(frame, npartitions=3)
    return frame, there[there.a > -1.0], kernels  # of unknown sizes


NEIGHBOURS = KernelKNNClassifier(), {"n_neighbors": [3, 7]}
VECTORS = SVC(tol=1e-6), {"C": [0.1, 1.0]}


@pytest.mark.parametrize(
    "kind, tried",
    [("strings", NEIGHBOURS)]
    + [
        pytest.param(kind, tried, marks=pytest.mark.cluster)
        for kind in ("strings", "graphs", "sparse", "frame", "records")
        for tried in (NEIGHBOURS, VECTORS)
    ],
)
def test_a_search_on_a_collection_has_the_scores_of_points_in_memory(
    client, kind, tried, tmp_path
):
    here, there, kernels = searched(kind)
    side = points()[2]
    if kind in ("frame", "records"):
        side = side[(here.a > -1.0).to_numpy()]
        here = here[here.a > -1.0]
    machine, space = tried
    kernels = kernels[:1] if tried is NEIGHBOURS else kernels
    space = {**space, "kernel": kernels}
    # Ranks of f would depend on rounding, where it is the same at many points.
    scoring = "roc_auc" if tried is NEIGHBOURS else "accuracy"
    search = KernelSearchCV(machine, space, cv=2, scoring=scoring)
    a = clone(search).fit(here, side)
    search.set_params(resume=tmp_path / "journal")
    b = clone(search).fit(there, da.from_array(side, chunks=70))
    for name in ("split0_test_score", "split1_test_score"):
        np.testing.assert_allclose(b.cv_results_[name], a.cv_results_[name])
    found = b.score(there, da.from_array(side, chunks=70))
    assert found == pytest.approx(a.score(here, side))
    if kind == "records":
        names = b.best_estimator_.feature_names_in_
        assert_array_equal(names, a.best_estimator_.feature_names_in_)
    assert b.predict(there).npartitions == there.npartitions
    again = clone(search).fit(there, side)  # from its journal
    assert_array_equal(
        again.cv_results_["mean_fit_time"], b.cv_results_["mean_fit_time"]
    )


def test_a_plan_says_who_holds_what_and_what_travels(client):
    X, _, side = points()
    dX = da.from_array(X, chunks=(100, 3))
    for kernel in (RBF(0.3), Nystrom(RBF(0.3), 20)):
        plan = SVC(kernel=kernel).plan(dX, side)
        assert "hold 3 partitions" in plan.holds and "a number" in plan.travels
        assert plan.holds in str(plan) and plan.travels in str(plan)
    told = {
        KernelKNNClassifier(kernel=RBF(0.3)): "nothing in the fit",
        KernelKMeans(kernel=RBF(0.3)): "each partition goes to every other",
        Nystroem(RBF(0.3), n_components=9): "9 points come here",
    }
    for machine, text in told.items():
        assert text in machine.plan(dX, side).travels
    assert not SVC().plan(X, side).travels


def test_few_points_are_brought_to_the_driver(client, monkeypatch):
    brought = []
    fetched = distributed.Partitions.fetched

    def counted(self, places):
        brought.append(len(places))
        return fetched(self, places)

    monkeypatch.setattr(distributed.Partitions, "fetched", counted)
    X, target, _ = points()
    dX = da.from_array(X, chunks=(100, 3))
    KernelRidge(kernel=Nystrom(RBF(0.3), 20, method="uniform")).fit(dX, target)
    assert sum(brought) <= 25
