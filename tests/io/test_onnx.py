"""ONNX: machines on vectors say the same in onnxruntime, to 1e-9."""

import catalog
import model_cases
import numpy as np
import pytest
from looped import looped
from model_cases import CASES, case, fitted, numbers, three, vectors
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

import mercer
from mercer import RBF, SVC, KernelRidge, Linear, Nystrom, Polynomial
from mercer.io import classes, save_onnx, to_onnx
from mercer.io import onnx as onnx_module
from mercer.io.formulas import _FORMULAS
from mercer.losses import Hinge

pytest.importorskip("onnx", reason="onnx is absent (the extra onnx)")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is absent")

METHODS = "predict decision_function predict_proba score_samples transform".split()


def computed(model, X):
    """The outputs of a model by name."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = runtime.InferenceSession(model.SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X}), strict=True))


def agree(machine, X):
    found = computed(to_onnx(machine), np.ascontiguousarray(X, float))
    expected = {name for name in METHODS if hasattr(machine, name)}
    assert found.keys() == expected, (found.keys(), expected)
    for name, values in found.items():
        mine = getattr(machine, name)(X)
        mine = mine.toarray() if hasattr(mine, "toarray") else np.asarray(mine)
        assert values.shape == mine.shape, name
        if mine.dtype.kind == "f":
            assert_allclose(values, mine, rtol=1e-9, atol=1e-9, err_msg=name)
        else:
            assert_array_equal(values, mine.astype(values.dtype), err_msg=name)


ON_VECTORS = [
    name
    for name in CASES
    if not name.startswith(("on ", "of a chain", "of hidden", "not fitted"))
    and "words" not in name
    and name not in ("KernelKNNRegressor", "GaussianProcessClassifier")
]


@looped("name", [*ON_VECTORS, "on CSR"])
def test_machines_say_the_same(name):
    machine, new = case(name)
    new = new.toarray() if hasattr(new, "toarray") else np.asarray(new)
    agree(machine, new.astype(float))


@looped(
    "machine",
    [
        SVC(decision_function_shape="ovo", break_ties=False),
        SVC(break_ties=True),
        SVC(probability=True, multiclass="ovr", random_state=0),
        mercer.KernelKNNRegressor(3),
        mercer.KernelKNNRegressor(3, weights="distance", kernel=Linear()),
        mercer.KernelKNNClassifier(3, weights="distance", kernel=mercer.Laplacian()),
        mercer.KernelKNNClassifier(3, kernel=Polynomial(2)),
        mercer.KernelPerceptron(variant="voted", random_state=0, max_iter=3),
        mercer.KernelPerceptron(fit_intercept=True, random_state=0, max_iter=3),
        mercer.SparseKernelClassifier(kernel=Polynomial(2), on="features"),
        mercer.KernelKMeans(3, normalized_cut=True, random_state=0),
        mercer.ParzenClassifier(kernel=mercer.RadialWindow("biweight", 0.4)),
        mercer.ParzenDensity(kernel=mercer.RationalQuadratic(2.0)),
        mercer.ParzenDensity(kernel=mercer.ProductWindow("gaussian")),
        mercer.RegularizedMachine(Hinge(), reg=0.1),
        mercer.FeatureMap(Linear()),
        mercer.FeatureMap(Polynomial(3, 0.5, 0)),
        mercer.FeatureMap(mercer.PolynomialSketch(Polynomial(2), 9)),
        mercer.PolynomialCountSketch(n_components=7, coef0=1.0, random_state=0),
        mercer.Nystroem(kernel="poly", n_components=5, random_state=0),
        mercer.RVC(kernel=Nystrom(RBF(0.5), 6)),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_variants_say_the_same(machine):
    regresses = type(machine).__name__.endswith("Regressor")
    fitted(machine, vectors(), numbers() if regresses else three())
    agree(machine, catalog.vectors(2, 9))


@looped("seed", range(3))
def test_probabilities_of_several_classes_agree(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(60, 2)), rng.integers(5, size=60)
    machine = SVC(probability=True, random_state=0, C=10.0).fit(X, y)
    agree(machine, rng.normal(size=(40, 2)))


def ridge(kernel, points):
    return fitted(KernelRidge(0.5, kernel=kernel), points(0, 12), np.arange(12.0))


def written(kernel):
    nodes = [*kernel._distinct()]
    orders = (0.5, 1.5, 2.5, float("inf"))
    odd = [n for n in nodes if isinstance(n, mercer.Matern) and n.nu not in orders]
    functions = any(callable(getattr(n, "function", None)) for n in nodes)
    return not odd and not functions and all(type(n) in _FORMULAS for n in nodes)


VECTORS = [
    entry
    for entry in (*catalog.all_kernels, *catalog.learning_kernels)
    if entry.values[1] in (catalog.vectors, catalog.histograms)
]


@looped("kernel, points", VECTORS)
def test_every_kernel_of_vectors_is_written_or_refused_by_name(kernel, points):
    kernel = kernel.resolve(points(5, 12))
    machine = ridge(kernel, points)
    if written(kernel):
        agree(machine, points(1, 6))
        return
    with pytest.raises(TypeError, match="cannot be written in ONNX"):
        to_onnx(machine)


def test_few_kernels_of_vectors_are_refused():
    refused = {type(e.values[0]).__name__ for e in VECTORS if not written(e.values[0])}
    assert refused == {
        *("Matern", "Radial", "RadialWindow", "DotProduct", "Fisher"),
        *("BlockFunction", "FeatureFunction", "RankOne", "Conformal", "Pullback"),
    }


def test_a_common_offset_costs_no_digits():
    X = vectors() + 1e5
    agree(KernelRidge(0.5, kernel=RBF(0.5)).fit(X, numbers()), X[:5] + 0.1)


@looped(
    "name, words",
    [
        ("on words", "Subsequence.*no vectors.*mercer.save"),
        ("on trees", "SubsetTree.*no vectors"),
        ("on graphs", "WeisfeilerLehman.*no vectors"),
        ("on records", "no vectors"),
        ("on pandas", "no vectors|by name"),
    ],
)
def test_structured_points_are_refused(name, words):
    with pytest.raises(TypeError, match=words):
        to_onnx(case(name)[0])


def test_probabilities_that_are_integrals_are_refused():
    with pytest.raises(TypeError, match=r"integrals.*mercer\.save"):
        to_onnx(case("GaussianProcessClassifier")[0])


def test_what_is_no_machine_is_refused():
    with pytest.raises(TypeError, match="writes fitted machines"):
        to_onnx(RBF(1.0))
    labels = np.array([1, "a", None], dtype=object)[:2]
    machine = SVC().fit(vectors(), three() > 0)
    machine.classes_ = labels
    with pytest.raises(TypeError, match="classes are numbers or texts"):
        to_onnx(machine)


def test_models_are_written_to_files(tmp_path):
    machine, new = model_cases.case("KernelRidge")
    save_onnx(machine, tmp_path / "ridge.onnx")
    session = runtime.InferenceSession(tmp_path / "ridge.onnx")
    [values] = session.run(["predict"], {"X": new})
    assert_allclose(values, machine.predict(new), rtol=1e-9, atol=1e-9)


def test_every_machine_can_be_written():
    names = {name for some in classes.MACHINES.values() for name in some.split()}
    assert onnx_module._WRITTEN.keys() == names


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(onnx_module, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install mercer\[onnx\]"):
        to_onnx(case("KernelRidge")[0])


@looped(
    "scaler",
    [
        StandardScaler(),
        StandardScaler(with_mean=False),
        StandardScaler(with_std=False),
        MinMaxScaler((-1, 1)),
        MinMaxScaler(clip=True),
    ],
)
def test_the_scaling_of_a_pipeline_is_part_of_the_model(scaler):
    X = vectors() * [1.0, 10.0, 0.1]
    agree(make_pipeline(clone(scaler), SVC(kernel=RBF(0.5))).fit(X, three()), X * 1.5)
    agree(make_pipeline(clone(scaler), KernelRidge()).fit(X, numbers()), X * 1.5)


def test_a_pipeline_with_another_step_is_refused():
    machine = make_pipeline(RobustScaler(), SVC()).fit(vectors(), three())
    with pytest.raises(TypeError, match="pipelines of a StandardScaler or a MinMax"):
        to_onnx(machine)
