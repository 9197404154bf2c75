"""What comes in: bad inputs are refused in words, and what was learnt is the machine's.

Laws over all machines of the catalogue.
"""

import contextlib
import copy
import numbers
import pickle
import re
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import catalog
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import has_fit_parameter

import mercer
from mercer import (
    RBF,
    RVC,
    RVR,
    SVC,
    SVR,
    Anova,
    Bilinear,
    BlockFunction,
    Centered,
    DotProduct,
    Exp,
    Fisher,
    Gram,
    KernelHuberRegression,
    KernelKMeans,
    KernelKNNClassifier,
    KernelLogisticRegression,
    KernelPCA,
    KernelPerceptron,
    KernelRidge,
    KernelSGDClassifier,
    Linear,
    MatrixExponential,
    Mismatch,
    Normalized,
    NuSVR,
    On,
    PairFunction,
    ParzenClassifier,
    ParzenDensity,
    Polynomial,
    PolynomialOf,
    PowerSeries,
    Precomputed,
    RankOne,
    RegularizedMachine,
    Scaled,
    Sigmoid,
    SparseKernelClassifier,
    SparseKernelRegressor,
    Spectrum,
    Subsequence,
    SubsetTree,
    Sum,
    WeightedSubstrings,
)
from mercer.data.copies import is_mapped
from mercer.kernels import base
from mercer.machines import regularization_path
from mercer.machines.checks import limits_of
from mercer.machines.parzen import Parzen
from mercer.native import memory
from mercer.solvers import SMO
from mercer.theory import rademacher

MACHINES = catalog.machines + catalog.window_machines
STREAMING = [m for m in MACHINES if hasattr(m.values[0], "partial_fit")]
PARTS = 2
N, D = 24, 4
rng = np.random.default_rng(8)
POINTS = rng.normal(size=(N, D)).round(3)
POINTS[np.abs(POINTS) < 0.4] = 0
NEW = rng.normal(size=(6, D))
LABELS = (POINTS[:, 0] + POINTS[:, 1] > 0).astype(int)
FRAME = pd.DataFrame({"word": ["ab", "bb", "a", "ba"] * 2, "age": np.arange(8.0)})


# Bad inputs


@pytest.mark.parametrize("part", range(PARTS))
def test_every_machine_refuses_every_bad_input_in_every_method(part):
    script = Path(__file__).with_name("bad_inputs.py")
    command = [sys.executable, "-X", "faulthandler", script, str(part), str(PARTS)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
        lines, rest = run.stdout.splitlines(), run.stderr
    except subprocess.TimeoutExpired as stopped:
        lines, rest = (stopped.stdout or b"").decode().splitlines(), "no answer"
    begun = [line.removeprefix("begin ") for line in lines if line.startswith("begin")]
    ended = [line.removeprefix("end ") for line in lines if line.startswith("end")]
    assert len(begun) > 1000
    assert lines[-1] == "done", f"{begun[-1]} took the process with it: {rest[-2000:]}"
    cells = zip(begun, ended, strict=True)
    assert {cell: end for cell, end in cells if end != "'ok'"} == {}


# Kernel values that are not numbers


def asked(kernel, X):
    """All that a kernel says of these points, by name."""
    return {
        "k(X)": lambda: kernel(X),
        "k(X, Y)": lambda: kernel(X, X[::-1]),
        "value": lambda: kernel.value(X[0], X[1]),
        "diag": lambda: kernel.diag(X),
        "sqdist": lambda: kernel.sqdist(X),
        "sqdist to others": lambda: kernel.sqdist(X, X[::-1]),
        "matmul": lambda: kernel.matmul(X, None, np.ones(len(X))),
        "Gram": lambda: Gram(kernel, X) @ np.ones(len(X)),
    }


@looped("dtype", [np.float32, np.float64])
@looped("scale", [1e10, 1e30, 1e160, 1e300])
@looped("kernel, points", catalog.vector_kernels)
def test_kernel_values_are_finite_or_refused(kernel, points, scale, dtype):
    X = points(1)
    kernel = kernel.resolve(X)
    with np.errstate(over="ignore"):
        X = (X * scale).astype(dtype)
    if np.isfinite(X).all():
        for name, ask in asked(kernel, X).items():
            try:
                assert np.isfinite(ask()).all(), name
            except ValueError as error:
                # Some have words of their own, as one that needs shares of 1.
                assert re.search("finite|beyond|needs|compares", str(error))


@looped("form", [np.array, sp.csr_array])
@looped("bad", [np.nan, np.inf])
@looped("kernel, points", catalog.vector_kernels)
def test_kernels_do_not_pass_over_what_is_missing(kernel, points, bad, form):
    X = points(1)
    kernel = kernel.resolve(X)
    if kernel.missing and np.isnan(bad):
        return
    X[1, 0] = bad
    # Of bounded functions of ⟨x, y⟩, ∞ has a value: tanh(∞) = 1.
    bounded = np.isinf(bad) and isinstance(kernel, Sigmoid | Scaled | DotProduct)
    constant = isinstance(kernel, Polynomial) and kernel.degree == 0
    for name, ask in asked(kernel, form(X)).items():
        if name == "value" or (form is sp.csr_array and name == "sqdist to others"):
            continue  # of two points only; of rows that the form cannot turn round
        try:
            assert np.isfinite(ask()).all(), name
            assert bounded or constant, name
        except (ValueError, TypeError) as error:
            assert re.search("finite|missing|NaN|sparse|array", str(error))


@pytest.mark.parametrize(
    "kernel",
    [
        Anova(2000),
        Anova(2000, cumulative=True),
        Polynomial(300),
        PowerSeries([0.0] * 300 + [1.0]),
        Exp(Linear()),
        Linear() ** 300,
        Polynomial(200) * Polynomial(200),
        Polynomial(300) + RBF(1.0),
        1e300 * Polynomial(10),
        Normalized(Polynomial(300) + RBF(1.0)),
        Centered(Polynomial(300), np.ones((2, 4000))),
        BlockFunction(lambda X, Y: np.exp(X @ Y.T)),
        PairFunction(lambda x, y: float(x @ y) * 1e305),
        RankOne(lambda X: np.exp(X.sum(axis=1))),
    ],
    ids=lambda kernel: repr(kernel)[:40],
)
def test_a_kernel_that_overflows_says_so(kernel):
    X = 1 + np.random.default_rng(0).uniform(size=(4, 4000))
    asks = asked(kernel, X)
    for name in ("k(X)", "k(X, Y)", "sqdist", "value", "matmul", "Gram"):
        with pytest.raises(ValueError, match=r"not finite numbers .*overflow.*Scale"):
            asks[name]()


# A fitted machine owns what it learnt


def squared_distance_kernel(a, b):
    return float(np.exp(-np.sum((np.array(a["x"]) - np.array(b["x"])) ** 2)))


def precomputed(points):
    return POINTS @ points.T + 1


def objects(points):
    return [{"x": list(row)} for row in points.tolist()]


def framed(points):
    return pd.DataFrame(points.copy(), columns=[f"c{j}" for j in range(D)])


def overwrite_frame(X):
    X.iloc[:, :] = 5.0


def overwrite_objects(X):
    for point in X:
        point["x"][:] = [9.0] * D


def overwrite_sparse(X):
    X.data[:] = 7
    X.indices[:] = 0


def overwrite(X):
    X[...] = 5


# How the points are given, and how they are edited afterwards
FORMS = {
    "array": (np.array, overwrite),
    "single": (partial(np.array, dtype=np.float32), overwrite),
    "view": (lambda X: np.hstack([X, X])[:, :D], overwrite),
    "csr": (sp.csr_array, overwrite_sparse),
    "frame": (framed, overwrite_frame),
    "objects": (objects, overwrite_objects),
    "precomputed": (lambda X: precomputed(X).T.copy(), overwrite),
}


def outputs(machine, X):
    """All that a machine says of new points, and of those it has seen."""
    said = {}
    for method in ("predict", "decision_function", "predict_proba", "score_samples",
                   "transform", "reconstruction_error"):  # fmt: skip
        if hasattr(machine, method):
            if method == "reconstruction_error" and machine.kernel == "precomputed":
                continue
            said[method] = np.asarray(getattr(machine, method)(X))
    if hasattr(machine, "kneighbors"):
        said["neighbours"] = np.hstack(machine.kneighbors(None, 3))
    if hasattr(type(machine), "loo_predictions_"):
        said["left out"] = copy.copy(machine).loo_predictions_
        machine.__dict__.pop("loo_predictions_", None)
    return said


def made(machine, form):
    machine = clone(machine)
    if form == "objects":
        machine.set_params(kernel=PairFunction(squared_distance_kernel))
    if form == "precomputed":
        machine.set_params(kernel="precomputed")
    return machine


PROCESSES = ("GaussianProcessRegressor", "GaussianProcessClassifier")
NOT_TAKEN = {
    ("ParzenDensity", "objects"),  # a density is of vectors
    ("ParzenDensity", "precomputed"),
    ("SVDD", "precomputed"),  # needs k(x, x)
    *((name, "precomputed") for name in PROCESSES),
}


@looped(
    "machine, form",
    [
        pytest.param(*entry.values, form, id=f"{entry.id}-{form}")
        for entry in MACHINES
        for form in FORMS
        if (type(entry.values[0]).__name__, form) not in NOT_TAKEN
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_edits_of_the_data_after_fit_change_nothing(machine, form):
    machine = made(machine, form)
    make, edit = FORMS[form]
    for weighted in (False, True):
        X, new = make(POINTS), make(NEW)
        y = LABELS.copy() if is_classifier(machine) else POINTS[:, 0] ** 2 + 0.5
        weight = rng.integers(1, 4, size=N).astype(float)
        if weighted and not has_weights(machine):
            continue
        machine.fit(X, y, **({"sample_weight": weight} if weighted else {}))
        before = outputs(machine, new)
        edit(X)
        y[:], weight[:] = 1, 99
        after = outputs(machine, new)
        for key, said in before.items():
            assert_array_equal(after[key], said, err_msg=key)


def has_weights(machine):
    return has_fit_parameter(machine, "sample_weight")


@pytest.mark.parametrize("form", ["array", "csr", "frame", "objects"])
@pytest.mark.parametrize("machine", STREAMING)
def test_edits_of_a_batch_change_nothing(machine, form):
    machine = made(machine, form)
    make, edit = FORMS[form]
    classes = {"classes": [0, 1]} if is_classifier(machine) else {}
    for points in (POINTS, POINTS + 0.25):
        X, y = make(points), LABELS.copy()
        machine.partial_fit(X, y, **classes)
        before = outputs(machine, make(NEW))
        edit(X)
        y[:] = 1
        after = outputs(machine, make(NEW))
        for key, said in before.items():
            assert_array_equal(after[key], said, err_msg=key)


@pytest.mark.parametrize("machine", [KernelRidge(kernel=Centered(RBF())),
                                     SVC(kernel=Centered(RBF()))])  # fmt: skip
def test_a_kernel_owns_the_points_it_learnt_from(machine):
    X = POINTS.copy()
    machine.fit(X, LABELS)
    before = machine.predict(NEW)
    X[:] = 5
    assert_array_equal(machine.predict(NEW), before)


def overwritten(value, seen):
    """Edit all that a parameter of a kernel holds, in place; whether there was any."""
    if id(value) in seen or (callable(value) and not isinstance(value, base.Kernel)):
        return False
    seen.add(id(value))
    if isinstance(value, base.Kernel):
        # A fitted machine may share this matrix: so it is documented.
        named = {} if isinstance(value, Precomputed) else value.get_params(deep=False)
        return any([overwritten(part, seen) for part in named.values()])
    if sp.issparse(value):
        value.data[:] = 7
        return True
    if isinstance(value, np.ndarray):
        value.setflags(write=True)
        value[...] = "zz" if value.dtype.kind in "OU" else 7
        return True
    if isinstance(value, list):
        nested = any([overwritten(part, seen) for part in value])
        if not nested and value:
            value[:] = [7 if isinstance(part, float) else part for part in value[:1]]
        return nested or bool(value)
    if hasattr(value, "__dict__"):
        return any([overwritten(part, seen) for part in vars(value).values()])
    return False


def with_editable_parameters():
    more = [
        catalog.entry(Fisher(catalog.CHAIN, np.eye(24) + 0.1), catalog.words),
        catalog.entry(
            MatrixExponential(sp.csr_array(catalog.GRAM), 0.1), catalog.indices
        ),
        catalog.entry(PolynomialOf(RBF(0.5), np.array([1.0, 2.0])), catalog.vectors),
        catalog.entry(
            Sum(Linear(), 2.0 * Exp(PowerSeries([0.5, 0.1]))), catalog.vectors
        ),
        catalog.entry(
            Centered(Spectrum(2), ["ab", "bc", "a"], np.ones(3)), catalog.words
        ),
    ]
    both = catalog.all_kernels + catalog.learning_kernels + more
    return [e for e in both if overwritten(copy.deepcopy(e.values[0]), set())]


KEEPERS = [
    SVC(C=3.0),
    KernelRidge(alpha=0.3),
    KernelPCA(2),
    KernelKNNClassifier(2),
    KernelKMeans(2, random_state=0),
    KernelPerceptron(max_iter=3),
    KernelSGDClassifier("logistic", shuffle=False),
    KernelLogisticRegression(),
    ParzenClassifier(method="mean"),
    SparseKernelClassifier(C=2.0),
    RVC(),
]


def by_turns(machines, kernels, each=3):
    """Every kernel with some of the machines, one after another: a machine copies its
    kernel, whichever it is, and a kernel is copied by all of them alike."""
    return [
        pytest.param(
            machine, *kernel.values, id=f"{type(machine).__name__}-{kernel.id}"
        )
        for i, kernel in enumerate(kernels)
        for machine in (machines[(each * i + t) % len(machines)] for t in range(each))
    ]


@looped("machine, kernel, points", by_turns(KEEPERS, with_editable_parameters()))
@pytest.mark.filterwarnings("ignore")
def test_edits_of_the_kernel_after_fit_change_nothing(machine, kernel, points):
    kernel = copy.deepcopy(kernel)
    X, new = points(1, 14), points(2, 5)
    fitted = clone(machine).set_params(kernel=kernel).fit(X, LABELS[:14])
    # Whatever is computed when it is first asked for, is so after the edit.
    before = outputs(copy.deepcopy(fitted), new)
    assert overwritten(kernel, set())
    after = outputs(fitted, new)
    for key, said in before.items():
        assert_allclose(after[key], said, rtol=1e-9, atol=1e-12, err_msg=key)


def test_a_node_that_stands_in_several_places_is_owned_once():
    matrix = np.eye(3)
    node = Bilinear(matrix)
    kernel = (node + node * node).owned()
    assert kernel.left is kernel.right.left is kernel.right.right
    assert kernel.left is not node
    assert not np.shares_memory(kernel.left.A, matrix)


@pytest.mark.parametrize(
    "machine",
    [KernelRidge(), KernelPCA(2), KernelKNNClassifier(), KernelLogisticRegression()],
)
def test_a_memory_mapped_array_is_shared(machine, tmp_path):
    np.save(tmp_path / "X.npy", POINTS)
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    machine.fit(X, LABELS)
    kept = getattr(machine, "expansion_", None)
    assert is_mapped(machine._points if kept is None else kept.points)


CUT = """
import os, sys
sys.path.insert(0, "tests")
import catalog, numpy as np, scipy.sparse as sp
from mercer import RBF
from sklearn.base import clone

where = sys.argv[1]
points = np.random.default_rng(0).normal(size=(3000, 8))

def opened(how):
    name = os.path.join(where, f"{how}.npy")
    if how == "offset":
        points.tofile(name)
        X = np.memmap(name, float, "r", offset=64_000, shape=(2000, 8))
    else:
        np.save(name, points)
        X = np.load(name, mmap_mode="r")
        X = {"view": X[::2, :3], "plain": np.asarray(X)}.get(how, X)
    if how == "sparse":
        flat = X.reshape(-1)
        index = np.tile(np.arange(8), 3000)
        X = sp.csr_array((flat, index, np.arange(0, 24_001, 8)), shape=(3000, 8))
    # Half of what the array needs, on a border of pages.
    os.truncate(name, 73_728)
    return X

small = np.random.default_rng(1).normal(size=(20, 8))
asked = 0
for how in ("load", "view", "plain", "offset", "sparse"):
    X = opened(how)
    y = np.arange(X.shape[0]) % 2
    tries = []
    for case in catalog.machines + catalog.window_machines:
        machine = clone(case.values[0])
        tries.append(lambda machine=machine: machine.fit(X, y))
        fitted = clone(machine).fit(small[:, : X.shape[1]], np.arange(20) % 2)
        for method in ("predict", "transform", "decision_function"):
            if hasattr(fitted, method):
                tries.append(lambda f=fitted, method=method: getattr(f, method)(X))
    if how in ("load", "view", "offset"):
        tries += [lambda: RBF(1.0)(X), lambda: RBF().resolve(X)]
    for one in tries:
        try:
            one()
        except ValueError as error:
            assert "it was cut after" in str(error), error
            asked += 1
        else:
            raise AssertionError(how)
print(asked)
"""


def test_a_memory_map_of_a_file_that_was_cut_is_refused(tmp_path):
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CUT, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert int(found.stdout) > 5 * len(MACHINES)


def test_points_that_are_a_copy_already_are_not_copied_again():
    mixed = framed(POINTS).astype({"c1": "float32"})
    for given in (POINTS.tolist(), sp.csc_array(POINTS), mixed, mixed.astype(object)):
        machine = KernelRidge()
        checked = machine._validated_points(given)
        assert not machine._borrows
        assert machine._own(checked, checked) is checked
    machine = SVC().fit(POINTS, LABELS)
    taken = POINTS[machine.support_]
    assert machine._own(taken, POINTS) is taken


def test_without_copy_X_kernel_pca_keeps_the_points_themselves():
    X = POINTS.copy()
    assert KernelPCA(2, copy_X=False).fit(X).X_fit_ is X
    assert not np.shares_memory(KernelPCA(2).fit(X).X_fit_, X)


@looped("kernel", [{}, {"kernel": "precomputed"}])
@looped("machine", MACHINES)
@pytest.mark.filterwarnings("ignore")
def test_a_machine_is_cloned_copied_shown_and_listed(machine, kernel):
    made = clone(machine).set_params(**kernel)
    y = LABELS if is_classifier(machine) else POINTS[:, 0] ** 2 + 0.5
    X = POINTS @ POINTS.T if made.kernel == "precomputed" else POINTS
    # These need k(x, x) or vectors, and refuse kernel values in words at fit.
    refusing = ("SVDD", "ParzenDensity", *PROCESSES)
    if type(machine).__name__ in refusing and X is not POINTS:
        with pytest.raises(ValueError, match=r"SVDD|vectors|window|density|k\(x, x\)"):
            clone(made).fit(X, y)
        X, made = POINTS, clone(machine)
    for fitted in (made, clone(made).fit(X, y)):
        for one in (fitted, copy.copy(fitted), copy.deepcopy(fitted), clone(fitted)):
            assert repr(one) and vars(one) and one._repr_html_()
            listed = dir(one)
            assert "fit" in listed and "kernel" in listed
            for name in {*listed, *object.__dir__(one)}:
                # Whatever else it raises would end tab completion and notebooks.
                with contextlib.suppress(AttributeError):
                    getattr(one, name)


# One matrix, however it is stored


def messy(X):
    """The same points with stored zeros, columns out of order and parts to be added."""
    X = sp.csr_array(X)
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    half = X.data / 2
    zeros = np.arange(X.shape[0])
    row = np.concatenate([row, row, zeros])
    column = np.concatenate([X.indices, X.indices, np.full(len(zeros), 2)])
    data = np.concatenate([half, half, np.zeros(len(zeros))])
    order = np.random.default_rng(1).permutation(len(row))
    order = order[np.argsort(row[order], kind="stable")]
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=X.shape[0]))])
    return sp.csr_array((data[order], column[order], start), shape=X.shape)


@looped(
    "machine, kernel",
    [
        pytest.param(*entry.values, kernel, id=f"{entry.id}-{kernel}")
        for entry in MACHINES
        for kernel in (None, Polynomial(2))
        # A density has its own kernels.
        if kernel is None or type(entry.values[0]).__name__ != "ParzenDensity"
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_stored_zeros_order_and_repetition_change_nothing(machine, kernel):
    machine = clone(machine)
    if "shuffle" in machine.get_params():
        machine.set_params(shuffle=True, random_state=0)
    if kernel is not None:
        machine.set_params(kernel=kernel)
    y = LABELS if is_classifier(machine) else POINTS[:, 0] ** 2 + 0.5
    clean = outputs(clone(machine).fit(sp.csr_array(POINTS), y), sp.csr_array(NEW))
    other = clone(machine).fit(messy(POINTS), y)
    for key, said in outputs(other, messy(NEW)).items():
        assert_array_equal(said, clean[key], err_msg=key)


@looped("form", ["csc", "lil", "dok"])
@looped("machine", MACHINES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_sparse_points_of_any_format_are_points(machine, form):
    y = LABELS if is_classifier(machine) else POINTS[:, 0] ** 2 + 0.5
    X = sp.csr_array(POINTS)
    clean = outputs(clone(machine).fit(X, y), X)
    found = outputs(clone(machine).fit(X.asformat(form), y), X.asformat(form))
    assert clean and found.keys() == clean.keys()
    for key, said in found.items():
        assert_array_equal(said, clean[key], err_msg=key)


def test_what_scipy_remembers_of_a_matrix_is_not_trusted():
    X = messy(POINTS)
    X.has_canonical_format = X.has_sorted_indices = True
    expected = SVC().fit(sp.csr_array(POINTS), LABELS).decision_function(NEW)
    assert_array_equal(SVC().fit(X, LABELS).decision_function(NEW), expected)


# Columns of a frame


def test_on_names_what_is_missing_at_fit_and_at_predict():
    kernel = On("age", RBF()) + On("word", Spectrum(1))
    gaps = FRAME.assign(age=FRAME["age"].where(FRAME["age"] != 3))
    with pytest.raises(ValueError, match=r"On\('age', RBF\).*point 3 .*missing"):
        SVC(kernel=kernel).fit(gaps, [0, 1] * 4)
    machine = SVC(kernel=kernel).fit(FRAME, [0, 1] * 4)
    with pytest.raises(ValueError, match=r"On\('age', RBF\).*point 3 .*missing"):
        machine.predict(gaps)
    with pytest.raises(ValueError, match=r"On\('age', RBF\).*point 3 .*missing"):
        columns = {name: gaps[name].tolist() for name in gaps}
        machine.predict(pl.DataFrame(columns).fill_nan(None))


def test_a_frame_of_numbers_has_names_for_on():
    frame = FRAME.assign(height=FRAME["age"] ** 2)[["age", "height"]]
    named = SVR(kernel=On("age", RBF(0.1))).fit(frame, FRAME["age"])
    alone = SVR(kernel=RBF(0.1)).fit(frame[["age"]].to_numpy(), FRAME["age"])
    assert_array_equal(named.predict(frame), alone.predict(frame[["age"]].to_numpy()))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("kernel", [Spectrum(1), Subsequence(2), SubsetTree()])
def test_a_frame_of_one_column_is_the_list_of_what_it_holds(kernel, frame):
    words = FRAME["word"].tolist()
    column = frame({"word": words})
    assert_array_equal(kernel(column), kernel(words))
    labels = [0, 1] * 4
    said = SVC(kernel=kernel).fit(column, labels).decision_function(column)
    assert_array_equal(
        said, SVC(kernel=kernel).fit(words, labels).decision_function(words)
    )


# Words


CLASS_WEIGHTED = [m for m in MACHINES if "class_weight" in m.values[0].get_params()]
KERNEL_MACHINES = [m for m in MACHINES if "kernel" in m.values[0].get_params()]


@looped("machine", KERNEL_MACHINES)
def test_a_wrong_kernel_parameter_is_answered_with_what_was_meant(machine):
    machine = clone(machine)
    with pytest.raises(ValueError, match=r"class RBF: write kernel=RBF\(\)"):
        machine.set_params(kernel=RBF).fit(POINTS, LABELS)
    # Of densities it is the word for a window.
    word = "rbff" if isinstance(machine, Parzen) else "gaussian"
    with pytest.raises(ValueError, match=rf"'{word}'.*Did you mean.*RBF\(\)"):
        machine.set_params(kernel=word).fit(POINTS, LABELS)
    with pytest.raises(ValueError, match=r"kernel object, as RBF\(\).*Got 3"):
        machine.set_params(kernel=3).fit(POINTS, LABELS)


@pytest.mark.parametrize("machine", KERNEL_MACHINES)
def test_parameters_of_words_beside_a_kernel_object_are_warned_of(machine, recwarn):
    machine = clone(machine).set_params(kernel=RBF(0.5))
    machine.fit(POINTS, LABELS)
    assert not [w for w in recwarn if "no effect" in str(w.message)]
    for name in {"gamma", "degree", "coef0"} & machine.get_params().keys():
        other = clone(machine).set_params(**{name: 7})
        with pytest.warns(UserWarning, match=f"{name}=7.* has no effect .*RBF"):
            other.fit(POINTS, LABELS)


def whole_numbers():
    """Each parameter of a machine that is a whole number."""
    for entry in MACHINES:
        (machine,) = entry.values
        for name, limits in limits_of(type(machine)).items():
            if limits.whole:
                yield pytest.param(machine, name, id=f"{entry.id}-{name}")


@looped("machine, name", list(whole_numbers()))
def test_a_whole_number_beyond_64_bits_is_refused(machine, name):
    other = clone(machine).set_params(**{name: 2**64})
    with pytest.raises(ValueError, match=rf"{name}.*{2**64}"):
        other.fit(POINTS, LABELS)


def real_parameters(machine):
    known = machine._parameter_constraints
    return [
        name
        for name in machine.get_params(deep=False)
        if any(getattr(one, "type", None) is numbers.Real for one in known[name])
    ]


@looped(
    "machine, name",
    [
        pytest.param(entry.values[0], name, id=f"{entry.id}-{name}")
        for entry in MACHINES
        for name in real_parameters(entry.values[0])
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_numbers_of_any_size_are_used_or_named(machine, name):
    for value in (10**400, 2**64, 1e-320, 1e-200, 1e200, 1e308):
        other = clone(machine).set_params(**{name: value})
        try:
            other.fit(POINTS, LABELS)
        except ValueError as error:
            named = re.search(rf"{name}|not finite|needs reg or norm", str(error))
            assert named, (value, error)
        else:
            ways = ("predict", "transform", "score_samples")
            answer = next(getattr(other, way) for way in ways if hasattr(other, way))
            assert not np.isnan(answer(NEW)).any(), value


@looped("machine", MACHINES)
def test_a_size_that_is_refused_is_outside_the_sizes_that_are_named(machine):
    known = machine._parameter_constraints
    for name in machine.get_params(deep=False):
        if not any(getattr(one, "type", None) is numbers.Real for one in known[name]):
            continue
        for value in (1e-320, 1e-200, 1e-141, 1e141, 1e200):
            try:
                clone(machine).set_params(**{name: value})._validate_params()
            except ValueError as error:
                said = re.search(r"of size (?:(\S+) to|at most) (\S+),", str(error))
                if said:
                    low, high = float(said[1] or 0), float(said[2])
                    assert not low <= value <= high


@looped("weight", [1.0, 2, np.float32(0.5), np.array(3.0)])
@looped("machine", [m for m in MACHINES if has_weights(m.values[0])])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_one_weight_is_that_of_all_points(machine, weight):
    y = LABELS if is_classifier(machine) else POINTS[:, 0] ** 2 + 0.5
    one = clone(machine).fit(POINTS, y, sample_weight=weight)
    many = clone(machine).fit(POINTS, y, sample_weight=np.full(N, float(weight)))
    found = outputs(many, NEW)
    for key, said in outputs(one, NEW).items():
        assert_array_equal(said, found[key], err_msg=key)


@looped("most", [1, 2, 3, 5])
@looped("machine", [m for m in MACHINES if hasattr(m.values[0], "max_iter")])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_of_few_steps_ends(machine, most):
    fitted = clone(machine).set_params(max_iter=most).fit(POINTS, LABELS)
    said = outputs(fitted, NEW)
    assert said and all(np.isfinite(value).all() for value in said.values())


@pytest.mark.parametrize("noise", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("kernel", [RBF(0.3), RBF(1e-3), Linear(), Polynomial(3)])
def test_a_known_noise_may_be_tiny(kernel, noise):
    machine = RVR(kernel, noise=noise, max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isfinite(machine.fit(POINTS, LABELS).predict(NEW)).all()
    with pytest.raises(ValueError, match=r"noise=1e-100 .*rounded by"):
        machine.set_params(noise=1e-100).fit(POINTS, LABELS)


@looped(
    "X, says",
    [
        ([[1.0, 2.0]] * (N - 1) + [[1.0]], "one length"),
        ([[1.0, 10**400]] * N, "beyond the largest float"),
        ([([(0, 1)], ["a", "b"])] * N, "holds|string"),
        (pd.DataFrame(), "column"),
        (pl.Series(np.ones(N)), "2D"),
        (pd.DataFrame({"a": pd.Categorical(["u", "v"] * (N // 2))}), "string|Categor"),
    ],
    ids=["ragged", "whole", "graphs", "empty", "series", "categories"],
)
@looped("machine", MACHINES)
def test_points_that_numpy_cannot_hold_are_named(machine, X, says):
    with pytest.raises((ValueError, TypeError), match=says):
        clone(machine).fit(X, LABELS)


@looped("machine", [m for m in MACHINES if hasattr(m.values[0], "certify")])
def test_certify_leaves_the_machine_as_it_is(machine):
    machine = clone(machine).fit(POINTS, LABELS)
    with pytest.raises(ValueError, match="3 features"):
        machine.certify(POINTS[:, :3], LABELS)
    with pytest.raises((ValueError, TypeError)):
        machine.certify([{"a": 1}] * N, LABELS)
    with pytest.raises(ValueError, match=r"certify needs the points|inconsistent"):
        few = np.unique(LABELS, return_index=True)[1]
        machine.certify(POINTS[few], LABELS[few])
    if is_classifier(machine):
        named = np.where(LABELS == LABELS[0], "a", "b")
        with pytest.raises(
            ValueError, match=r"its classes were .*y holds \['a', 'b'\]"
        ):
            machine.certify(POINTS, named)
    assert machine.n_features_in_ == D


def test_a_solver_without_an_end_of_its_own_may_count_to_any_number():
    endless = SVC(solver=SMO(max_iter=2**64)).fit(POINTS, LABELS)
    assert_array_equal(
        endless.decision_function(NEW),
        SVC(solver=SMO()).fit(POINTS, LABELS).decision_function(NEW),
    )


def test_a_degree_beyond_64_bits_is_refused():
    with pytest.raises(ValueError, match=str(2**64)):
        Polynomial(2**64)


@looped("weight", [np.inf, np.nan, -1.0, "a", 1e300])
@looped("machine", CLASS_WEIGHTED)
def test_class_weights_are_finite_numbers(machine, weight):
    machine = clone(machine).set_params(class_weight={0: weight})
    with pytest.raises(ValueError, match=r"class_weight.*≥ 0.*for the class 0"):
        machine.fit(POINTS, LABELS)


def test_a_constant_target_is_learnt():
    for constant in (0.0, 0.1, 3.0, -1e5):
        y = np.full(N, constant)
        for machine in (SparseKernelRegressor(), RVR()):
            said = machine.fit(POINTS, y).predict(NEW)
            np.testing.assert_allclose(said, constant, rtol=1e-9)
        assert np.isfinite(RVR(fit_intercept=False).fit(POINTS, y).predict(NEW)).all()


@looped(
    "ask, says",
    [
        (lambda: NuSVR(C=np.inf).fit(POINTS, LABELS), r"NuSVR\(C=inf\).*finite C"),
        (lambda: KernelHuberRegression().fit(POINTS, LABELS * 1e-310), r"is 1e-310"),
        (lambda: KernelHuberRegression().fit(POINTS, LABELS * 1e300), r"is 1e\+300"),
        (lambda: Anova(5)(POINTS), r"Anova\(order=5\).*have 4"),
        (lambda: Anova(5, RBF(1.0)).diag(POINTS), r"Anova\(order=5\).*have 4"),
        (lambda: SVC(kernel=Anova(5)).fit(POINTS, LABELS), r"Anova\(order=5\).*have 4"),
        (lambda: KernelSGDClassifier().fit(POINTS, LABELS, np.full(N, 1e15)), "visits"),
        (lambda: On("w", Linear())(pd.DataFrame([[1, 2]], columns=["w", "w"])), "'w'"),
    ],
)  # fmt: skip
def test_the_error_names_the_argument(ask, says):
    with pytest.raises(ValueError, match=says):
        ask()


def test_strings_are_told_which_kernels_compare_them():
    for ask in (
        lambda: RBF(1.0)(["a", "b"]),
        lambda: RBF(1.0)(np.array(["a", "b"])),
        lambda: Linear()(np.array([["a"], ["b"]])),
        lambda: SVC().fit(["a", "b"], [0, 1]),
        lambda: SVC(kernel=RBF()).fit(["a", "b"], [0, 1]),
        lambda: KernelRidge().fit(FRAME, FRAME["age"]),
        lambda: KernelPerceptron().fit(FRAME, [0, 1] * 4),
        lambda: ParzenDensity().fit([b"a", b"b"]),
    ):
        with pytest.raises((TypeError, ValueError), match=r"Spectrum.*compare strings"):
            ask()


@pytest.mark.parametrize("kernel", [RBF(1.0), RBF(1.0) + Linear(), Spectrum(2)])
def test_a_matrix_larger_than_the_memory_is_refused_before_it_is_made(
    kernel, monkeypatch
):
    monkeypatch.setattr(memory, "available_memory", lambda: 1e6)
    X = ["ab"] * 9000 if isinstance(kernel, Spectrum) else np.zeros((9000, 1))
    with pytest.raises(MemoryError, match=r"9000 × 9000 .*0\.648 GB; .*K\.rows"):
        kernel(X)
    with pytest.raises(MemoryError, match=r"9000 × 9000 .*Gram"):
        kernel(X, X[:])


# Files, and what is not there


def test_a_machine_or_kernel_of_another_version_warns(monkeypatch, recwarn):
    fitted = SVC(kernel=RBF(0.5)).fit(POINTS, LABELS)
    texts = [pickle.dumps(fitted), pickle.dumps(RBF(0.5))]
    for text in texts:
        pickle.loads(text)
    assert not len(recwarn)
    monkeypatch.setattr(mercer, "__version__", "99.0")
    for text in texts:
        with pytest.warns(UserWarning, match=r"pickled by mercer .* read by mercer 99"):
            again = pickle.loads(text)
    assert again == RBF(0.5)


def test_all_names_can_be_imported_without_matplotlib():
    script = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from mercer import *\n"
        "try:\n    plots.plot_gram\n"
        "except ImportError as error:\n    print(error)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "mercer[plot]" in run.stdout


LONG = [1.0] * 10**5
LONG_MESSAGES = {
    "coefficients": lambda: PowerSeries([*LONG, -1.0]),
    "coefficients of a kernel": lambda: PolynomialOf(RBF(1.0), [LONG, LONG]),
    "weights that overflow": lambda: WeightedSubstrings(LONG),
    "weights of another number": lambda: Spectrum(2, LONG),
    "weights of zeros": lambda: WeightedSubstrings(weights=[0.0] * 10**6),
    "weights in a matrix": lambda: WeightedSubstrings(weights=np.ones((900, 900))),
    "parts": lambda: Sum(RBF(1.0), LONG),
    "gamma": lambda: RBF([*LONG, -1.0]),
    "degree": lambda: Polynomial(LONG),
    "huge degree": lambda: Polynomial(-(10**4000)),
    "alphabet": lambda: Mismatch(2, 1, ["a", "a"] * 10**5),
    "field": lambda: On([1.5] * 10**6, RBF(1.0)),
    "kernel": lambda: SVC(kernel="rbf" * 10**5).fit(POINTS, LABELS),
    "a list as kernel": lambda: SVC(kernel=LONG).fit(POINTS, LABELS),
    "strings": lambda: SVC(kernel=PowerSeries(LONG)).fit(["a"] * N, LABELS),
    "overflow": lambda: KernelRidge(kernel=PowerSeries(LONG)).fit(POINTS + 9, LABELS),
    "a kernel without a map": lambda: SparseKernelRegressor(
        kernel=PowerSeries(LONG), on="features"
    ).fit(POINTS, LABELS),
    "values": lambda: regularization_path(
        KernelLogisticRegression(), POINTS, LABELS, [*LONG, -1.0]
    ),
    "nested values": lambda: regularization_path(
        KernelLogisticRegression(), POINTS, LABELS, [LONG, "a"]
    ),
}


@pytest.mark.parametrize("ask", LONG_MESSAGES)
@pytest.mark.filterwarnings("ignore")
def test_a_message_does_not_print_all_of_a_long_list(ask):
    with pytest.raises((ValueError, TypeError)) as caught:
        LONG_MESSAGES[ask]()
    assert len(str(caught.value)) < 1000


@looped("machine", [KernelRidge(), RBF(), SVC(), RegularizedMachine, None, "ridge"])
def test_a_path_of_what_has_none_is_refused(machine):
    with pytest.raises(TypeError, match=r"regularization_path fits .* got \w+\."):
        regularization_path(machine, POINTS, LABELS, [1.0])


@looped("gram", [RBF(1.0), POINTS @ POINTS.T, None, SVC()])
def test_a_complexity_is_that_of_a_gram(gram):
    with pytest.raises(TypeError, match=r"needs the Gram of the points; got an? "):
        rademacher(gram)
