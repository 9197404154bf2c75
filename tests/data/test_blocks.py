"""Points in files and streams: read as arrays are, and machines learn the same."""

import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier

from mercer import (
    RBF,
    SVC,
    SVR,
    KernelHuberRegression,
    KernelKNNClassifier,
    KernelLogisticRegression,
    KernelQuantileRegression,
    KernelRidge,
    Linear,
    NuSVC,
    Nystrom,
    OneClassSVM,
    RegularizedMachine,
    losses,
)
from mercer.data import as_blocks
from mercer.data import blocks as module
from mercer.data.points import take

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4300, 5))
SIDE = X[:, 0] * X[:, 1] > 0


class Stream:
    """Points in seven blocks, and what is wrong with one of them."""

    def __init__(self, points=X, change=None):
        self.points, self.change = points, change

    def blocks(self):
        for number, block in enumerate(np.array_split(self.points, 7)):
            yield block if self.change is None else self.change(number, block.copy())


def sources(folder):
    """The same points as a file, a folder of files, a memory map and a stream."""
    np.save(folder / "whole.npy", X)
    (folder / "parts").mkdir()
    for i, part in enumerate(np.array_split(X, 3)):
        np.save(folder / "parts" / f"{i}.npy", part)
    mapped = np.load(folder / "whole.npy", mmap_mode="r")
    return {
        "file": str(folder / "whole.npy"),
        "folder": folder / "parts",
        "map": mapped,
        "stream": Stream(),
    }


def test_rows_are_those_of_the_array(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ROWS_MB", 0.02)  # some 500 rows
    index = np.array([4000, 3, 3, 1700, 0, 4299])
    for name, source in sources(tmp_path).items():
        points = as_blocks(source)
        assert points.shape == X.shape and len(points) == 4300, name
        assert_array_equal(points[1000:3500], X[1000:3500], name)
        assert_array_equal(points[10:20], X[10:20], name)  # back to the beginning
        assert_array_equal(points[index], X[index], name)
        assert_array_equal(points[::700], X[::700], name)
        assert_array_equal(points[X[:, 0] > 2], X[X[:, 0] > 2], name)
        assert len(points[5:5]) == 0
        whole = np.concatenate([part for _, part in points.parts()])
        assert_array_equal(whole, X, name)
    monkeypatch.setattr(module, "TAKEN_MB", 0.001)
    order = np.random.default_rng(1).permutation(4300)[:3000]
    some = take(points, order)
    assert isinstance(some, module.Blocks)
    assert_array_equal(some[7:2900], X[order[7:2900]])
    assert_array_equal(take(some, np.arange(2000))[5:9], X[order[5:9]])


def test_numbers_have_the_precision_of_the_files(tmp_path):
    np.save(tmp_path / "a.npy", X[:10].astype(np.float32))
    points = as_blocks(tmp_path / "a.npy")
    assert points.dtype == points[:3].dtype == np.float32
    assert points.double()[:3].dtype == np.float64
    np.save(tmp_path / "b.npy", np.arange(20).reshape(4, 5))
    assert as_blocks(tmp_path)[:].dtype == np.float64


@pytest.mark.parametrize("kind", ["file", "folder", "map", "stream"])
def test_machines_learn_the_same_from_blocks(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ROWS_MB", 0.02)
    monkeypatch.setattr(module, "TAKEN_MB", 0.02)
    source, kernel = sources(tmp_path)[kind], Nystrom(RBF(), 20)
    source = as_blocks(source) if kind == "map" else source
    cases = [
        (SVC(kernel=kernel), SIDE),
        (SVC(kernel="linear", C=0.1), X[:, 0] > 0.3),
        (KernelRidge(kernel=kernel), np.sin(X[:, 0])),
        (
            KernelLogisticRegression(kernel=kernel, tol=1e-9),
            np.digitize(X[:, 0], [-1, 1]),
        ),
    ]
    if kind == "stream":
        cases += [
            (SVC(kernel=kernel, tol=1e-8), np.digitize(X[:, 0], [-1, 1])),
            (SVR(kernel=kernel, tol=1e-8), np.column_stack([X[:, 0] ** 2, X[:, 1]])),
            (OneClassSVM(kernel=kernel, nu=0.2, tol=1e-8), None),
            (KernelRidge(kernel=Linear()), X[:, 0] + 1),
        ]
    for machine, y in cases:
        expected = machine.fit(X, y).expansion_(X[:200])
        support = getattr(machine, "support_", None)
        machine.fit(source, y)
        found = machine.expansion_(X[:200])
        assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())
        assert_array_equal(machine.predict(source), machine.predict(X))
        assert machine.n_features_in_ == 5
        if support is not None:
            assert_array_equal(np.sort(machine.support_), np.sort(support))


def test_what_is_wrong_has_its_place(tmp_path):
    def gap(number, block):
        if number == 5:
            block[3, 2] = np.nan
        return block

    def narrow(number, block):
        return block[:, :4] if number == 2 else block

    def empty(number, block):
        return block[:0] if number == 4 else block

    def unreadable(number, block):
        if number == 6:
            raise OSError("the disk is gone")
        return block

    machine = KernelRidge(kernel=Nystrom(RBF(), 20))
    place = X.shape[0] * 5 // 7
    for change, error, message in [
        (
            gap,
            ValueError,
            rf"Block 5 of Stream has nan in column 2 of point {place + 4}",
        ),
        (narrow, ValueError, "Block 2 of Stream has 4 columns"),
        (empty, ValueError, "Block 4 of Stream has no rows"),
        (unreadable, OSError, "Block 6 of Stream cannot be read: the disk is gone"),
    ]:
        with pytest.raises(error, match=message):
            machine.fit(Stream(change=change), X[:, 0])
    assert not hasattr(machine, "expansion_")
    with pytest.raises(ValueError, match=r"Nystrom\(kernel, size\)"):
        KernelKNNClassifier().fit(Stream(), SIDE)
    with pytest.raises(ValueError, match=r"Nystrom\(kernel, size\)"):
        SVC().fit(Stream(), SIDE)
    with pytest.raises(ValueError, match="inconsistent"):
        machine.fit(Stream(), X[:100, 0])
    with pytest.raises(ValueError, match="weight 0"):
        SVC(kernel=Linear()).fit(Stream(), SIDE, sample_weight=X[:, 0] > 0)
    with pytest.raises(FileNotFoundError, match=r"no file .*none\.npy"):
        machine.fit(tmp_path / "none.npy", X[:, 0])
    with pytest.raises(ValueError, match=r"no \.npy files"):
        machine.fit(tmp_path, X[:, 0])
    np.save(tmp_path / "x.npy", np.asfortranarray(X))
    with pytest.raises(ValueError, match="column by column"):
        machine.fit(tmp_path / "x.npy", X[:, 0])
    (tmp_path / "x.npy").write_text("no array")
    with pytest.raises(ValueError, match=r"not an \.npy file"):
        machine.fit(tmp_path / "x.npy", X[:, 0])


def test_a_file_that_is_cut_meanwhile_is_an_error(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, X)
    points = as_blocks(path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(OSError, match=r"x\.npy ends within rows"):
        points[:]


def test_a_map_that_is_cut_meanwhile_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ROWS_MB", 0.02)
    path = tmp_path / "x.npy"
    np.save(path, X)
    mapped = as_blocks(np.load(path, mmap_mode="r"))
    machine = SVC(kernel=Nystrom(RBF(), 20)).fit(mapped, SIDE)
    os.truncate(path, path.stat().st_size // 2)
    for call in (mapped.__getitem__, lambda _: machine.predict(mapped)):
        with pytest.raises(OSError, match=r"Block 0 \(.*x\.npy\).*it was cut"):
            call(slice(0, 5))


class Failing:
    """Points in twenty blocks, of which one cannot be read once."""

    def __init__(self, at=None):
        self.at, self.reads = at, 0

    def blocks(self):
        for block in np.array_split(X, 20):
            self.reads += 1
            if self.reads == self.at:
                raise OSError(5, "the disk is gone")
            yield block


STREAMING = [
    (KernelRidge(kernel=Nystrom(RBF(), 20)), np.sin(X[:, 0])),
    (SVC(kernel=Nystrom(RBF(), 20), tol=1e-8), SIDE),
    (SVC(kernel="linear", C=0.1, tol=1e-8), np.digitize(X[:, 0], [-1, 1])),
    (NuSVC(kernel=Nystrom(RBF(), 20), nu=0.8, tol=1e-8), SIDE),
    (SVR(kernel=Nystrom(RBF(), 20), tol=1e-8), np.sin(X[:, 0])),
    (OneClassSVM(kernel=Nystrom(RBF(), 20), nu=0.2, tol=1e-8), None),
    (KernelLogisticRegression(kernel=Nystrom(RBF(), 20), tol=1e-9), SIDE),
    (KernelQuantileRegression(kernel=Nystrom(RBF(), 20), tol=1e-9), np.sin(X[:, 0])),
    (KernelHuberRegression(kernel=Nystrom(RBF(), 20), tol=1e-9), np.sin(X[:, 0])),
    (
        RegularizedMachine(losses.Hinge(), kernel=Nystrom(RBF(), 20), tol=1e-9),
        np.digitize(X[:, 0] ** 2, [0.5, 2]),
    ),
]
NAMES = [f"{type(machine).__name__}-{i}" for i, (machine, _) in enumerate(STREAMING)]


@pytest.mark.parametrize("machine, y", STREAMING, ids=NAMES)
def test_a_fit_goes_on_where_an_error_in_reading_ended_it(machine, y):
    expected = machine.fit(X, y).expansion_(X[:200])
    whole = Failing()
    machine = clone(machine).fit(whole, y)
    source, machine = Failing(int(0.8 * whole.reads)), clone(machine)
    message = r"Block \d+ of Failing cannot be read: .*disk is gone\. What .* is kept"
    for _ in range(2):
        with pytest.raises(OSError, match=message) as caught:
            machine.fit(source, y)
        assert caught.value.errno == 5
        assert not hasattr(machine, "expansion_")
        source.at = source.reads + 37  # block 17 of a later pass, the next time
    source.at, source.reads = None, 0
    machine.fit(source, y)
    assert source.reads < whole.reads
    found = machine.expansion_(X[:200])
    assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())
    assert "_interrupted" not in vars(machine)


def test_only_the_same_fit_goes_on(tmp_path):
    y, kernel = np.sin(X[:, 0]), Nystrom(RBF(), 20)

    def reads(change):
        source, target = Failing(170), y
        machine = KernelRidge(kernel=kernel)
        with pytest.raises(OSError, match="is kept"):
            machine.fit(source, target)
        source.reads, source.at = 0, None
        if change == "parameter":
            machine.set_params(alpha=2)
        if change == "target":
            target = y + 1
        if change == "points":
            source = Failing()
        if change == "pickle":
            machine = pickle.loads(pickle.dumps(machine))
        machine.fit(source, target)
        fresh = clone(machine).fit(X, target)
        assert_allclose(machine.predict(X), fresh.predict(X), atol=1e-9)
        return source.reads

    every = reads("points")
    assert reads("nothing") < every
    assert [reads(change) for change in ("parameter", "target", "pickle")] == [
        every
    ] * 3


def test_files_that_were_written_meanwhile_are_other_points(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ROWS_MB", 0.02)
    path = tmp_path / "x.npy"
    np.save(path, X)
    machine, y = KernelRidge(kernel=Nystrom(RBF(), 20)), np.sin(X[:, 0])
    read, calls = module._File.read, []

    def failing(self, *rows):
        calls.append(rows)
        if len(calls) == 60:
            raise OSError(5, "the disk is gone")
        return read(self, *rows)

    monkeypatch.setattr(module._File, "read", failing)
    for points in (X, 3 * X):
        calls.clear()
        np.save(path, points)
        with pytest.raises(OSError, match=r"Block \d+ \(.*x\.npy\) cannot be read"):
            machine.fit(path, y)
    np.save(path, X)
    os.utime(path, ns=(1, 1))
    machine.fit(path, y)
    expected = clone(machine).fit(X, y).predict(X)
    assert_allclose(machine.predict(X), expected, atol=1e-9)


def test_reading_errors_of_fitted_machines_have_their_place():
    def gap(number, block):
        block[3, 2] = np.nan if number == 5 else block[3, 2]
        return block

    def unreadable(number, block):
        if number == 6:
            raise OSError(5, "the disk is gone")
        return block

    for machine, y in STREAMING:
        machine = clone(machine).fit(X, y)
        calls = [machine.predict]
        if hasattr(machine, "decision_function"):
            calls.append(machine.decision_function)
        if hasattr(machine, "certify"):
            given = () if y is None else (y,)
            calls.append(lambda X, m=machine, g=given: m.certify(X, *g))
        for call in calls:
            with pytest.raises(ValueError, match="Block 5 of Stream has nan"):
                call(Stream(change=gap))
            with pytest.raises(OSError, match="Block 6 of Stream cannot be read"):
                call(Stream(change=unreadable))


def test_a_stream_that_changes_is_an_error():
    source = Stream()
    points = as_blocks(source)
    points[4000:]
    source.points = X[:3000]
    with pytest.raises(ValueError, match="the same ones in every call"):
        points[:10]


LIMITED = """
    import resource, sys
    import numpy as np
    from sklearn.base import is_classifier
    from mercer import *

    folder, limit, machines = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    kernel = Nystrom(RBF(0.001), 30, method="uniform")
    KernelRidge(kernel=kernel).fit(np.eye(60), np.ones(60))  # everything is loaded
    with open("/proc/self/status") as file:
        used = next(int(line.split()[1]) for line in file if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (1024 * used + limit,) * 2)
    y = np.load(folder + "/../y.npy")
    for number, machine in enumerate(eval(machines)):
        machine.fit(folder, y > 0 if is_classifier(machine) else y)
        values = machine.expansion_(np.load(folder + "/0.npy", mmap_mode="r")[:100])
        np.save(f"{folder}/../{number}.npy", values)
"""
FOUR_TIMES = """
    KernelRidge(kernel=kernel),
    KernelLogisticRegression(kernel=kernel, tol=1e-9),
    SVC(kernel=kernel, tol=1e-8),
    SVR(kernel=kernel, tol=1e-8),
    OneClassSVM(kernel=kernel, nu=0.3, tol=1e-8),
    KernelQuantileRegression(kernel=kernel, tol=1e-9),
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
@pytest.mark.slow
def test_points_of_four_times_the_memory_are_learnt(tmp_path):
    rng = np.random.default_rng(2)
    n, d, limit = 8000, 1000, 16_000_000
    folder = tmp_path / "parts"
    folder.mkdir()
    points = rng.normal(size=(n, d))
    y = points[:, 0] + 0.5 * points[:, 1] ** 2 - 0.5
    for i, part in enumerate(np.array_split(points, 4)):
        np.save(folder / f"{i}.npy", part)
    np.save(tmp_path / "y.npy", y)
    assert points.nbytes > 3.9 * limit
    code, machines = textwrap.dedent(LIMITED), "[" + FOUR_TIMES.strip() + "]"
    subprocess.run(
        [sys.executable, "-c", code, str(folder), str(limit), machines],
        check=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "MERCER_NUM_THREADS": "1"},
    )
    kernel = Nystrom(RBF(0.001), 30, method="uniform")
    for number, machine in enumerate(eval(machines, {**globals(), "kernel": kernel})):
        machine.fit(points, y > 0 if is_classifier(machine) else y)
        expected = machine.expansion_(points[:100])
        found = np.load(tmp_path / f"{number}.npy")
        assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def test_paths_are_no_points_elsewhere():
    assert as_blocks("a string") is None
    assert as_blocks(X) is None and as_blocks([1, 2]) is None
