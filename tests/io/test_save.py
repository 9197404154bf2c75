"""Model files: what is loaded is what was saved, to the last bit."""

import copy
import inspect
import json
import subprocess
import sys
import warnings
from dataclasses import is_dataclass
from pathlib import Path
from types import FunctionType

import catalog
import model_cases
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn.base
import write_fixtures
from looped import looped
from model_cases import CASES, case, three, vectors
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

import mercer
from mercer import RBF, SVC, BlockFunction, Kernel, KernelRidge, Precomputed
from mercer.data.frames import is_frame
from mercer.data.points import field
from mercer.io import classes, load_expansion
from mercer.kernels.operators import Sum

ANSWERS = (
    "predict decision_function predict_proba predict_log_proba transform "
    "inverse_transform kneighbors score_samples get_feature_names_out"
).split()


def answers(machine, new):
    """All that a machine says of new points."""
    found = {}
    for name in ANSWERS:
        method = getattr(machine, name, None)
        if method is None:
            continue
        given = [] if name == "get_feature_names_out" else [new]
        if name == "inverse_transform":
            given = [machine.transform(new)]
        found[name] = method(*given)
    return found


def same(a, b):
    """Equal to the last bit, and of the same types."""
    if sp.issparse(a):
        return same([*sp.find(a)], [*sp.find(b)]) and a.shape == b.shape
    if is_frame(a):
        return type(a) is type(b) and a.equals(b)
    if isinstance(a, np.ndarray) and a.dtype != object:
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if isinstance(a, list | tuple | np.ndarray):
        equal = all(same(x, y) for x, y in zip(a, b, strict=True))
        return type(a) is type(b) and equal
    return type(a) is type(b) and (a == b or a != a)


@pytest.fixture(autouse=True)
def no_disk(monkeypatch):
    """Waiting for the disk takes most of the time of these tests."""
    monkeypatch.setattr("os.fsync", lambda number: None)


def trip(machine, tmp_path):
    path = tmp_path / "machine.mercer"
    mercer.save(machine, path)
    return mercer.load(path)


@looped("name", [*CASES])
def test_loaded_machine_says_the_same_to_the_last_bit(name, tmp_path):
    machine, new = case(name)
    loaded = trip(machine, tmp_path)
    assert type(loaded) is type(machine)
    mine, theirs = machine.get_params(), loaded.get_params()
    for parameter in mine:
        if isinstance(mine[parameter], np.random.RandomState):
            assert same(*(p[parameter].rand(3) for p in (mine, theirs)))
        elif isinstance(mine[parameter], Kernel):
            assert mine[parameter] == theirs[parameter]
        else:
            assert same(mine[parameter], theirs[parameter]), parameter
    if new is None:
        return
    check_is_fitted(loaded)
    expected, found = answers(machine, new), answers(loaded, new)
    assert expected and expected.keys() == found.keys()
    for answer, values in expected.items():
        assert same(values, found[answer]), answer
    assert vars(loaded).keys() == machine.__getstate__().keys() - {"_version"}
    for attribute in ("run_", "certificate_"):
        if hasattr(machine, attribute):
            assert repr(getattr(loaded, attribute)) == repr(getattr(machine, attribute))


@looped("name", [*CASES])
def test_f_alone_is_that_of_the_machine(name, tmp_path):
    machine, new = case(name)
    if not hasattr(machine, "expansion_"):
        return
    path = tmp_path / "machine.mercer"
    mercer.save(machine, path)
    X = machine._validated_points(new, reset=False)
    assert same(load_expansion(path)(X), machine.expansion_(X))


def public(table):
    names = {name for some in table.values() for name in some.split()}
    return {name: getattr(mercer, name) for name in names}


def test_every_machine_has_a_case_and_every_kernel_a_place():
    found = [getattr(mercer, name) for name in mercer.__all__ if name[0].isupper()]
    machines = {
        kind.__name__ for kind in found if hasattr(kind, "get_metadata_routing")
    }
    machines -= {"KernelSearchCV"}  # its best machine is saved
    assert machines == public(classes.MACHINES).keys()
    assert {type(case(name)[0]).__name__ for name in CASES} == machines
    abstract = {"Kernel", "PairKernel", "FeatureKernel"}
    kernels = {kind.__name__ for kind in found if issubclass(kind, Kernel)} - abstract
    assert kernels == public(classes.KERNELS).keys()


def test_of_a_search_its_best_machine_is_saved(tmp_path):
    X, y = np.arange(8.0)[:, None], [0, 1] * 4
    search = mercer.KernelSearchCV(mercer.SVC(), {"C": [1, 2]}, cv=2).fit(X, y)
    with pytest.raises(TypeError, match="best_estimator_"):
        mercer.save(search, tmp_path / "search")
    mercer.save(search.best_estimator_, tmp_path / "best")
    assert mercer.load(tmp_path / "best").C == search.best_params_["C"]


def test_densities_losses_and_solvers_have_a_place_too():
    densities = [getattr(mercer.densities, name) for name in mercer.densities.__all__]
    losses = [part for part in vars(mercer.losses).values() if is_dataclass(part)]
    solvers = [getattr(mercer.solvers, name) for name in mercer.solvers.__all__]
    needed = [
        *(kind for kind in (*densities, *losses) if not inspect.isabstract(kind)),
        *(kind for kind in solvers if hasattr(kind, "solve")),
    ]
    assert len(needed) > 30
    assert [kind for kind in needed if classes.name_of(kind) is None] == []


def holds_function(kernel):
    return any(
        isinstance(part, FunctionType) or part is list
        for node in kernel._distinct()
        for part in vars(node).values()
    )


@looped("kernel, points", catalog.all_kernels + catalog.learning_kernels)
def test_kernels_are_loaded_as_they_were_or_refused_by_name(kernel, points, tmp_path):
    path = tmp_path / "kernel.mercer"
    for one in (kernel, kernel.resolve(points(0, 12))):
        if holds_function(one):
            with pytest.raises(
                TypeError, match=r"is a function of your own, .*no code"
            ):
                mercer.save(one, path)
            continue
        mercer.save(one, path)
        loaded = mercer.load(path)
        assert loaded == one and repr(loaded) == repr(one)
    if not holds_function(one):
        expected, found = (k(points(1, 5), points(0, 12)) for k in (one, loaded))
        assert same(expected, found)


def test_every_kernel_but_those_of_functions_is_in_the_catalogue_of_files():
    entries = catalog.all_kernels + catalog.learning_kernels
    written = {
        type(node).__name__
        for entry in entries
        if not holds_function(entry.values[0])
        for node in entry.values[0]._distinct()
    }
    of_functions = {"BlockFunction", "PairFunction", "FeatureFunction", "RankOne"}
    of_functions |= {"Conformal", "Pullback", "Convolution", "Radial"}
    assert written | of_functions == public(classes.KERNELS).keys()


def test_functions_of_numpy_have_names(tmp_path):
    loaded = trip(mercer.Radial(np.cos, "cityblock"), tmp_path)
    assert loaded.function is np.cos


STREAMS = [name for name in CASES if "streamed" in name or "budget" in name]


@looped("name", STREAMS)
def test_learning_goes_on_after_a_trip_as_without(name, tmp_path):
    machine, new = CASES[name]()
    loaded = trip(machine, tmp_path)
    X, y = catalog.vectors(8, 10), three(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in (machine, loaded):
            for rows in (slice(4), slice(4, 10)):
                one.partial_fit(X[rows], y[rows])
    expected, found = answers(machine, new), answers(loaded, new)
    assert all(same(expected[answer], found[answer]) for answer in expected)
    assert same(machine.expansion_.coef, loaded.expansion_.coef)


def test_fit_goes_on_from_a_loaded_machine(tmp_path):
    machine = SVC(gamma=0.5, warm_start=True).fit(vectors(), three())
    loaded = trip(machine, tmp_path)
    for one in (machine, loaded):
        one.set_params(C=1.5).fit(vectors(), three())
    assert same(machine.dual_coef_, loaded.dual_coef_)


def test_leave_one_out_of_a_loaded_ridge_is_the_same(tmp_path):
    machine = KernelRidge(kernel=RBF(0.5)).fit(vectors(), model_cases.numbers())
    loaded = trip(machine, tmp_path)
    assert same(loaded.loo_predictions_, machine.loo_predictions_)


def test_what_stands_in_two_places_is_written_once(tmp_path):
    K = np.eye(300)
    mercer.save(Sum(Precomputed(K), Precomputed(K)), tmp_path / "twice")
    assert (tmp_path / "twice").stat().st_size < 1.1 * K.nbytes
    loaded = mercer.load(tmp_path / "twice")
    assert loaded.left.matrix is loaded.right.matrix


def test_order_of_numbers_in_memory_is_kept(tmp_path):
    A = np.asfortranarray(catalog.METRIC + 0.0)
    loaded = trip(mercer.Bilinear(A), tmp_path)
    assert loaded.A.flags.f_contiguous and not loaded.A.flags.c_contiguous
    assert loaded.A.flags.writeable


def test_values_of_every_kind_are_kept(tmp_path):
    dates = np.array(["2020-01-01", "NaT"], "datetime64[D]")
    for weight in (
        {("a", 1): float("inf"), b"\x00": (None, [True]), frozenset([2]): {}},
        {1.5: slice(0, None), "x": range(3), "y": np.dtype("<f4"), "z": np.float32(2)},
        {"long": list(range(100)), "floats": [0.1] * 20, "words": ["a\ud800", ""] * 9},
        {"big": 2**70, "nan": float("nan"), "minus": -0.0, "dates": dates},
        {"bytes": np.array([b"ab", b"c"]), "complex": np.array([1 + 2j]), "of": 3.0},
    ):
        machine = SVC()
        machine.class_weight = weight
        loaded = trip(machine, tmp_path).class_weight
        assert loaded.keys() == weight.keys()
        assert all(same(loaded[key], weight[key]) for key in weight)


PANDAS = {
    "word": catalog.words(3, 12),
    "gap": [1.5, None] * 6,
    "truth": [True, False] * 6,
    "small": np.arange(12, dtype="f4"),
    "kind": pd.Categorical(["x", "y"] * 6),
    "whole": pd.array([1, None] * 6, dtype="Int64"),
    "tokens": [["a", "b"], ("c",)] * 6,
    "text": ["a", None] * 6,
}
POLARS = PANDAS | {
    "kind": pl.Series(["x", "y"] * 6, dtype=pl.Enum(["x", "y"])),
    "whole": [1, None] * 6,
    "tokens": [["a", "b"], ["c"]] * 6,
}


@looped("frame", [pd.DataFrame(PANDAS), pl.DataFrame(POLARS)])
def test_columns_of_every_kind_are_kept(frame, tmp_path):
    kernel = mercer.On("word", mercer.Spectrum(1)) * mercer.On(
        ["truth", "small"], RBF(0.1)
    )
    machine = SVC(kernel=kernel).fit(frame, model_cases.KINDS)
    loaded = trip(machine, tmp_path)
    mine, theirs = (one.expansion_.points for one in (machine, loaded))
    assert type(mine) is type(theirs) and list(mine.columns) == list(theirs.columns)
    for name in PANDAS:
        assert same(field(mine, name), field(theirs, name)), name
    assert same(machine.decision_function(frame), loaded.decision_function(frame))


def test_a_deep_kernel_is_no_deep_file(tmp_path):
    kernel = RBF(0.5)
    for _ in range(150):
        kernel = kernel + RBF(0.5)
    assert trip(kernel, tmp_path)._nodes == kernel._nodes


class OwnKernel(RBF):
    pass


class OwnMachine(SVC):
    pass


def watched(*args, **options):
    return False


def with_note():
    machine = SVC()
    machine.note = "mine"
    return machine


def nested(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


def round_about():
    value = []
    value.append(value)
    return value


@looped(
    "made, error, words",
    [
        (lambda: SVC(kernel=OwnKernel()), TypeError, "SVC.kernel is a kernel of a cla"),
        (lambda: OwnMachine(), TypeError, "save writes machines.*OwnMachine"),
        (lambda: "SVC", TypeError, "save writes machines, kernels"),
        (lambda: SVC(callback=watched), TypeError, "SVC.callback is a .*watched"),
        (
            lambda: SVC(kernel=2 * BlockFunction(watched)),
            TypeError,
            r"SVC.kernel.kernel.function is a function of your own, watched",
        ),
        (lambda: SVC(kernel=lambda X, Y: X @ Y.T), TypeError, "kernel is a function"),
        (with_note, TypeError, "attribute 'note'.*del machine.note"),
        (
            lambda: mercer.Centered(RBF(), [Exception()]),
            TypeError,
            r"Centered.reference\[0\] is of the class builtins.Exception",
        ),
        (lambda: SVC(class_weight={"x": nested(500)}), TypeError, "deeper than the"),
        (lambda: SVC(class_weight={"x": round_about()}), TypeError, "contains itself"),
        (lambda: SVC(class_weight={0: 2**5000}), TypeError, "more than 4096 bits"),
        (
            lambda: Precomputed(np.eye(2, dtype=np.longdouble)),
            TypeError,
            "Precomputed.matrix is an array of .*Convert",
        ),
        (
            lambda: mercer.MatrixExponential(sp.csc_array(np.eye(2))),
            TypeError,
            "hold sparse matrices in the format CSR",
        ),
    ],
)
def test_what_no_file_can_hold_is_refused_with_the_way_out(
    made, error, words, tmp_path
):
    path = tmp_path / "machine.mercer"
    with pytest.raises(error, match=words):
        mercer.save(made(), path)
    assert not path.exists() and not [*tmp_path.glob(".*")]


def test_machines_without_f_say_so(tmp_path):
    path = tmp_path / "neighbours.mercer"
    mercer.save(case("KernelKNNClassifier")[0], path)
    with pytest.raises(
        ValueError, match=r"neighbours.mercer' holds no f .* mercer.load"
    ):
        load_expansion(path)


def test_f_is_read_without_scikit_learn(tmp_path):
    paths = []
    for i, name in enumerate(["SVC", "SVC of many classes", "on trees", "RVR"]):
        paths.append(str(tmp_path / f"{i}.mercer"))
        mercer.save(case(name)[0], paths[-1])
    code = (
        "import sys; from mercer.io import load_expansion\n"
        "for path in sys.argv[1:]: print(load_expansion(path).n_outputs)\n"
        "assert 'sklearn' not in sys.modules and 'mercer.machines' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *paths], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3", "780", "1", "1"]


def test_saving_leaves_the_machine_as_it_is(tmp_path):
    machine, _ = case("SVC on landmarks")
    before = copy.copy(vars(machine))
    mercer.save(machine, tmp_path / "a")
    assert vars(machine).keys() == before.keys()
    mercer.save(machine, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


RELEASES = sorted((Path(__file__).parent / "fixtures").iterdir())


@looped("folder", RELEASES)
def test_files_of_all_releases_are_read(folder):
    expected = json.loads((folder / "expected.json").read_text())
    assert expected
    for name, said in expected.items():
        new = mercer.load(folder / said.pop("points")).points
        found = write_fixtures.said(mercer.load(folder / name), new)
        assert found.keys() == said.keys()
        for answer, values in said.items():
            values, now = np.array(values), np.array(found[answer])
            if values.dtype.kind in "biuf":
                assert_allclose(now, values, rtol=1e-9, atol=1e-9, err_msg=name)
            else:
                assert (now == values).all(), name


# Pipelines


PIPELINES = [
    make_pipeline(StandardScaler(), SVC()),
    make_pipeline(StandardScaler(with_mean=False), KernelRidge(kernel=RBF(0.5))),
    make_pipeline(MinMaxScaler((-1, 1), clip=True), SVC(kernel=RBF(0.5))),
]


@looped("pipeline", PIPELINES)
def test_pipelines_that_scale_say_the_same(pipeline, tmp_path):
    X = vectors() * [1.0, 10.0, 1e-3]
    pipeline = sklearn.base.clone(pipeline).fit(X, three())
    mercer.save(pipeline, tmp_path / "scaled.mercer")
    loaded = mercer.load(tmp_path / "scaled.mercer")
    assert repr(loaded) == repr(pipeline)
    for name in ("predict", "decision_function", "transform"):
        if hasattr(pipeline, name):
            said = getattr(loaded, name)(X * 1.5), getattr(pipeline, name)(X * 1.5)
            assert same(*said)
    with pytest.raises(ValueError, match="holds no f"):
        load_expansion(tmp_path / "scaled.mercer")


def test_pipelines_with_other_steps_are_refused_by_their_class(tmp_path):
    pipeline = make_pipeline(RobustScaler(), SVC()).fit(vectors(), three())
    with pytest.raises(TypeError, match="RobustScaler, which model files do not know"):
        mercer.save(pipeline, tmp_path / "robust.mercer")
