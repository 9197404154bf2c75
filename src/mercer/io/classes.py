"""The classes that model files name: a fixed table, and what is written of each.

Of a dataclass or named tuple its fields are written, and reading calls the class with
them, so that its own checks are made; fields that a later release adds have defaults.
What is held besides (caches) is made anew. The others are listed here with what they
need. A class that is not in the table is neither written nor read.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from mercer.data.points import as_points, count

MACHINES = {
    "mercer.machines.svm": "SVC NuSVC SVR NuSVR OneClassSVM SVDD",
    "mercer.machines.ridge": "KernelRidge",
    "mercer.machines.regularized": (
        "KernelLogisticRegression RegularizedMachine KernelQuantileRegression "
        "KernelHuberRegression"
    ),
    "mercer.machines.sparse": "SparseKernelClassifier SparseKernelRegressor",
    "mercer.machines.rvm": "RVC RVR",
    "mercer.machines.gp": "GaussianProcessRegressor GaussianProcessClassifier",
    "mercer.machines.perceptron": "Perceptron KernelPerceptron",
    "mercer.machines.sgd": "KernelSGDClassifier KernelSGDRegressor",
    "mercer.machines.neighbors": "KernelKNNClassifier KernelKNNRegressor",
    "mercer.machines.parzen": "ParzenDensity ParzenClassifier",
    "mercer.machines.kmeans": "KernelKMeans",
    "mercer.machines.pca": "KernelPCA",
    "mercer.machines.maps": "FeatureMap Nystroem RBFSampler PolynomialCountSketch",
}
KERNELS = {
    "mercer.kernels.operators": "Sum Product Scaled Power Constant",
    "mercer.kernels.ways": (
        "BlockFunction PairFunction FeatureFunction RankOne Precomputed"
    ),
    "mercer.kernels.algebra": (
        "Exp PolynomialOf Conformal Normalized Pullback On Centered"
    ),
    "mercer.kernels.vector": "Linear Polynomial Exponential PowerSeries Bilinear",
    "mercer.kernels.dotproduct": "DotProduct Sigmoid",
    "mercer.kernels.coordinate": "Anova ChiSquared Intersection Spline",
    "mercer.kernels.radial": "RBF Laplacian Matern RationalQuadratic Radial",
    "mercer.kernels.window": "RadialWindow ProductWindow",
    "mercer.kernels.explicit": "GaussianSeries",
    "mercer.kernels.string": "Subsequence WeightedDegree EditSimilarity",
    "mercer.kernels.substring": "Spectrum Mismatch WeightedSubstrings",
    "mercer.kernels.tree": "Subtree SubsetTree PartialTree TaggedTree",
    "mercer.kernels.convolution": "Convolution",
    "mercer.kernels.multiple": "MultipleKernel",
    "mercer.kernels.graph": "WeisfeilerLehman ShortestPath",
    "mercer.kernels.walk": "RandomWalk",
    "mercer.kernels.node": "Diffusion MatrixExponential",
    "mercer.kernels.generative": "Fisher Natural",
    "mercer.kernels.distance": "FromDistance",
    "mercer.kernels.nystrom": "Nystrom",
    "mercer.kernels.random_features": "RandomFourier PolynomialSketch",
}
# Of scikit-learn: a pipeline that scales columns before a machine.
SCALERS = {"sklearn.preprocessing": "StandardScaler MinMaxScaler"}
PIPELINE = {"sklearn.pipeline": "Pipeline"}
_PARTS = {
    "mercer.data.trees": "Tree",
    "mercer.data.graphs": "Graph",
    "mercer.data.parts": "Parts",
    "mercer.densities.base": "Fit",
    "mercer.densities.normals": "Normals",
    "mercer.densities.categories": "Categories",
    "mercer.densities.gaussian": "Gaussian GaussianMixture",
    "mercer.densities.chain": "MarkovChain",
    "mercer.densities.hmm": "HMM",
    "mercer.kernels.generative": "Information",
    "mercer.kernels.window": "WindowIntegral",
    "mercer.gram": "Gram",
    "mercer.maps": "ColumnIndex FeatureExpansion",
    "mercer.expansion": "Expansion",
    "mercer.multiclass": "PairExpansion",
    "mercer.outcomes": "Status Run Certificate Certificates Solution",
    "mercer.losses": (
        "ZeroOne PerceptronLoss Hinge SquaredHinge Logistic Squared "
        "EpsilonInsensitive Huber Quantile"
    ),
    "mercer.solvers.smo": "SMO",
    "mercer.solvers.semismooth": "SemismoothNewton",
    "mercer.solvers.chunking": "Chunking",
    "mercer.solvers.feature_descent": "FeatureDescent",
    "mercer.solvers.auto": "AutoSMO AutoL1 AutoLinear AutoPenalized AutoComponents",
    "mercer.solvers.coordinate": "CoordinateAscent",
    "mercer.solvers.linear": "LinearSystem",
    "mercer.solvers.multiple": "KernelShares",
    "mercer.solvers.cholesky": "Cholesky",
    "mercer.solvers.conjugate_gradient": "ConjugateGradient",
    "mercer.solvers.normal_equations": "NormalEquations",
    "mercer.solvers.newton": "Newton",
    "mercer.solvers.l1": "CoordinateDescent",
    "mercer.solvers.perceptron": "PerceptronRule PerceptronSolution Weights",
    "mercer.solvers.sgd": "SGD SGDSnapshot",
    "mercer.solvers.sgd_features": "Sums Terms Primal",
    "mercer.solvers.components": "Eigenpairs",
    "mercer.solvers.eigen": "BlockKrylov Lapack Arpack Covariance",
    "mercer.solvers.clusters": "KernelLloyd",
    "mercer.solvers.partition": "Clustering",
    "mercer.solvers.bayes": "Posterior",
    "mercer.solvers.evidence": "EvidenceAscent",
    "mercer.solvers.nearest": "SearchTree",
    "mercer.solvers.windows": (
        "_Gaussian _Laplacian _Matern _RationalQuadratic _Shaped _Product"
    ),
    "mercer.solvers.ascent": "FreeParameters Step",
    "mercer.solvers.gaussian": "NormalEvidence LogisticEvidence Mode",
    "mercer.machines.base": "Dual",
    "mercer.machines.gp.classifier": "BinaryProcess ManyProcesses",
    "mercer.machines.perceptron": "_Support _Made _Primal",
    "mercer.machines.sgd.base": "_Functions",
    "mercer.machines.parzen": "Trial",
    "mercer.machines.sparse.base": "SparsePath",
}
_HOMES = {
    name: module
    for table in (MACHINES, KERNELS, SCALERS, PIPELINE, _PARTS)
    for module, names in table.items()
    for name in names.split()
}
_IS_ESTIMATOR = {
    name
    for table in (MACHINES, SCALERS, PIPELINE)
    for names in table.values()
    for name in names.split()
}
_IS_KERNEL = {name for names in KERNELS.values() for name in names.split()}

# What machines hold after a fit, beside their parameters. A new attribute is a new word
# here; files that have words a release does not know are refused by it.
LEARNT = frozenset(
    """
    L_ X_fit_ X_train_ X_transformed_fit_ _borrows _calls _certificate _dual
    _expansion _f
    _found _functions _gamma _groups _handed _inverse _keys _label _n_features_out
    _names _pair_function _places _points _primal _problem _selected _sigmoid
    _sklearn_output_config _sparse _square _state _supports _target _tree _unit
    _starts _volume _weight _weights _windows _y_train_mean _y_train_std alpha_
    approximation_ bandwidth_ base_estimator_ bitHash_ curve_
    log_marginal_likelihood_value_ n_classes_ noise_ theta_ y_train_
    certificate_ class_weight_ classes_ component_indices_ components_ data_layout_
    data_max_ data_min_ data_range_ expansion_ feature_names_ feature_names_in_
    fit_status_ gamma_ indexHash_ inertia_ inertia_history_ integral_ kernel_
    kernel_shares_ kernel_weights_ labels_ loo_predictions_ loss_curve_ mean_ min_
    n_features_in_ n_iter_ n_samples_fit_ n_samples_seen_ normalization_
    normalized_cut_ offset_ posterior_ priors_ radius_ random_offset_
    random_weights_ reg_ relevance_ rounding_ run_ scale_ shape_fit_ support_
    trials_ var_
    """.split()
)

# Machines that compare new points by k̃, not by the k of f alone.
_ON_APPROXIMATION = frozenset({"SVDD", "KernelKMeans", "KernelPCA"})

# Functions that parts of machines hold; numpy's are those of one number.
_FUNCTIONS = frozenset(
    {
        "mercer.machines.perceptron._later",
        "mercer.machines.perceptron._Support.then",
        "mercer.solvers.sgd_features.Terms.then",
        *(
            f"numpy.{name}"
            for name in "absolute arctan cos cosh exp exp2 expm1 log1p sin sinh sqrt "
            "square tanh".split()
        ),
    }
)


class Codec(NamedTuple):
    """How a class that is no dataclass is taken apart, and made of its parts."""

    parts: Callable[[Any], dict[str, Any]]
    made: Callable[[type, dict[str, Any]], Any]


def is_kernel(name: str) -> bool:
    return name in _IS_KERNEL


def name_of(kind: type) -> str | None:
    """The name of a class in the table; None where it is not there."""
    name = kind.__name__
    return name if name in _HOMES and class_of(name) is kind else None


@cache
def class_of(name: str) -> type:
    """The class of a name; a KeyError where the table has none."""
    return getattr(importlib.import_module(_HOMES[name]), name)


def function_name(function: Any) -> str | None:
    """The name of a function in the table; None where it is not there."""
    if isinstance(function, np.ufunc):
        name = f"numpy.{function.__name__}"
    else:
        module = getattr(function, "__module__", "")
        name = f"{module}.{getattr(function, '__qualname__', '')}"
    known = name in _FUNCTIONS and function_of(name) is function
    return name if known else None


def function_of(name: str) -> Any:
    """The function of a name; a KeyError where the table has none."""
    if name not in _FUNCTIONS:
        raise KeyError(name)
    if name.startswith("numpy."):
        return getattr(np, name.removeprefix("numpy."))
    module = name
    while module not in _MODULES:
        module = module.rpartition(".")[0]
    found: Any = importlib.import_module(module)
    for part in name.removeprefix(f"{module}.").split("."):
        found = getattr(found, part)
    return found


_MODULES = frozenset(_HOMES.values())


def parts_of(value: Any) -> dict[str, Any]:
    """What is written of an object of a class in the table, by name."""
    kind: Any = type(value)
    name = kind.__name__
    if name in _IS_ESTIMATOR:
        return _state(value)
    if name in _CODECS:
        return _CODECS[name].parts(value)
    parts = {field: getattr(value, field) for field in _fields(kind)}
    for extra in _EXTRAS.get(name, ()):
        if extra in value.__dict__:
            parts[extra] = value.__dict__[extra]
    return parts


def made_of(name: str, parts: dict[str, Any]) -> Any:
    """The object of a class in the table with these parts; refused where wrong."""
    kind = class_of(name)
    if name in _IS_ESTIMATOR:
        return _machine(kind, parts)
    if name in _CODECS:
        return _CODECS[name].made(kind, parts)
    known, extras = _fields(kind), _EXTRAS.get(name, {})
    check_names(name, parts, {*known, *extras}, {n for n in known if known[n]})
    value = kind(**{field: parts[field] for field in parts if field in known})
    if name in _CHECKS:
        _CHECKS[name](value)
    for extra, check in extras.items():
        if extra in parts:
            check(value, parts[extra])
            value.__dict__[extra] = parts[extra]
    return value


def check_names(
    kind: str, given: Mapping[str, Any], known: set[str], needed: set[str]
) -> None:
    """Refuse a part that a class does not have, or the lack of one."""
    odd, absent = sorted(given.keys() - known), sorted(needed - given.keys())
    if odd:
        raise ValueError(
            f"{kind} has no {odd[0]!r} in this release; a later one may have it"
        )
    if absent:
        raise ValueError(f"{kind} needs {absent[0]!r}, which is not there")


@cache
def _fields(kind: type) -> dict[str, bool]:
    """The fields that make an object, and whether each must be given."""
    if is_dataclass(kind):
        return {
            one.name: one.default is MISSING and one.default_factory is MISSING
            for one in fields(kind)
            if one.init
        }
    defaults = kind._field_defaults  # type: ignore[attr-defined]  # a named tuple
    return {name: name not in defaults for name in kind._fields}  # type: ignore[attr-defined]


# Machines


def _state(machine: Any) -> dict[str, Any]:
    """Parameters and what was learnt, as pickle would keep it."""
    state = dict(machine.__getstate__())
    # `_held`: points that `add` keeps; a model file is for predictions.
    for name in ("_version", "_sklearn_version", "_held"):
        state.pop(name, None)
    if type(machine).__name__ in _ON_APPROXIMATION and "approximation_" in state:
        state["approximation_"] = machine.approximation_  # with its triangle
    known = LEARNT | set(machine.get_params(deep=False))
    odd = sorted(state.keys() - known)
    if odd:
        raise TypeError(
            f"{type(machine).__name__} has the attribute {odd[0]!r}, which model files "
            f"do not know. Delete it before saving: del machine.{odd[0]}."
        )
    return state


def _machine(kind: Any, parts: dict[str, Any]) -> Any:
    parameters = set(kind._get_param_names())
    check_names(kind.__name__, parts, {*LEARNT, *parameters}, set())
    machine = kind(**{name: parts[name] for name in parts.keys() & parameters})
    learnt = {name: parts[name] for name in parts if name not in parameters}
    machine.__dict__.update(learnt)
    return machine


# Classes with parts of their own


def _attributes(*names: str) -> Codec:
    """Attributes that the constructor takes by the same names."""

    def made(kind: type, parts: dict[str, Any]) -> Any:
        check_names(kind.__name__, parts, set(names), set(names))
        return kind(**parts)

    return Codec(lambda value: {name: getattr(value, name) for name in names}, made)


def _tree(kind: type, parts: dict[str, Any]) -> Any:
    check_names("Tree", parts, {"labels", "arity"}, {"labels", "arity"})
    labels, arity = parts["labels"], parts["arity"]
    whole = isinstance(labels, tuple) and isinstance(arity, tuple)
    if not whole or not all(type(many) is int and many >= 0 for many in arity):
        raise ValueError("Tree needs labels and numbers of children, in tuples")
    hash(labels)
    pending = 1  # nodes that were announced and have not come
    for many in arity:
        if not pending:
            break
        pending += many - 1
    if pending or len(labels) != len(arity) or sum(arity) != len(arity) - 1:
        raise ValueError("Tree needs as many nodes as their numbers of children say")
    tree: Any = object.__new__(kind)
    object.__setattr__(tree, "labels", labels)
    object.__setattr__(tree, "arity", arity)
    return tree


_GRAPH = ("nodes", "labels", "ends", "weights", "edge_labels")


def _graph(kind: type, parts: dict[str, Any]) -> Any:
    check_names("Graph", parts, set(_GRAPH), set(_GRAPH))
    nodes, labels, ends, weights, edge_labels = (parts[name] for name in _GRAPH)
    if not isinstance(nodes, range) and not (
        isinstance(nodes, tuple) and len(set(nodes)) == len(nodes)
    ):
        raise ValueError("Graph needs nodes that differ, in a tuple")
    n = len(nodes)
    _check_array("Graph", "ends", ends, "i", (None, 2))
    _check_array("Graph", "weights", weights, "f", (len(ends),))
    first, last = ends.T
    if not ((first >= 0) & (first <= last) & (last < n)).all():
        raise ValueError(f"Graph needs ends of edges among its {n} nodes")
    if not ((weights > 0) & (weights < np.inf)).all():
        raise ValueError("Graph needs weights > 0")
    for names, many in ((labels, n), (edge_labels, len(ends))):
        if names is not None and not (isinstance(names, tuple) and len(names) == many):
            raise ValueError("Graph needs a label for each node, or edge, or none")
        hash(names)
    graph: Any = object.__new__(kind)
    graph._nodes, graph._labels = nodes, labels
    graph._ends, graph._weights = ends, weights
    graph._name_edges(None, None)
    if edge_labels is not None:
        graph._edge_labels = edge_labels
    return graph


def _column_index(kind: Any, parts: dict[str, Any]) -> Any:
    check_names("ColumnIndex", parts, {"size", "place"}, {"size", "place"})
    size, place = parts["size"], parts["place"]
    if type(size) is not int or size < 0:
        raise ValueError("ColumnIndex needs a number of columns")
    if place is not None and (
        len(place) != size or sorted(place.values()) != list(range(size))
    ):
        raise ValueError(f"ColumnIndex needs the places 0 to {size - 1}, each once")
    index = kind()
    index._size, index._place = size, place
    return index


def _status(kind: type, parts: dict[str, Any]) -> Any:
    check_names("Status", parts, {"word"}, {"word"})
    return kind(parts["word"])


_CODECS = {
    "Tree": Codec(lambda tree: {"labels": tree.labels, "arity": tree.arity}, _tree),
    "Graph": Codec(lambda g: {name: getattr(g, name) for name in _GRAPH}, _graph),
    "Gram": _attributes("kernel", "X", "Y", "block_mb"),
    "Parts": _attributes("joined", "parts"),
    "Certificates": _attributes("columns"),
    "Sums": _attributes("rows"),
    "SearchTree": _attributes(),
    "ColumnIndex": Codec(
        lambda index: {"size": index._size, "place": index._place}, _column_index
    ),
    "Status": Codec(lambda status: {"word": str(status)}, _status),
}


# Checks where compiled code would trust what a class does not check itself


def _check_array(
    who: str, name: str, array: Any, kinds: str, shape: tuple[int | None, ...]
) -> None:
    fits = (
        isinstance(array, np.ndarray)
        and array.dtype.kind in kinds
        and array.ndim == len(shape)
        and all(
            want in (None, have) for have, want in zip(array.shape, shape, strict=True)
        )
    )
    if not fits:
        raise ValueError(f"{who} needs an array {name} of another shape or type")


def _check_pairs(f: Any) -> None:
    n = count(as_points(f.points))
    _check_array("PairExpansion", "coef", f.coef, "f", (n, None))
    _check_array("PairExpansion", "label", f.label, "i", (n,))
    k = f.coef.shape[1] + 1
    _check_array("PairExpansion", "bias", f.bias, "f", (k * (k - 1) // 2,))
    within = not n or (f.label[0] >= 0 and f.label[-1] < k)
    if not within or (np.diff(f.label) < 0).any():
        raise ValueError(f"PairExpansion needs labels from 0 to {k - 1}, sorted")


def _check_factor(kernel: Any, factor: Any) -> None:
    """Of Nystrom: the kernel, the landmarks that have a feature, their triangle."""
    if not isinstance(factor, tuple) or len(factor) != 3:
        raise ValueError("Nystrom needs the triangle of its landmarks")
    _, index, lower = factor
    _check_array("Nystrom", "index", index, "i", (None,))
    _check_array("Nystrom", "triangle", lower, "f", (len(index), len(index)))
    m = count(as_points(kernel.landmarks)) if kernel.landmarks is not None else 0
    if len(index) and not 0 <= index.min() <= index.max() < m:
        raise ValueError(f"Nystrom has {m} landmarks, and a feature of another")


def _check_measured(kernel: Any, measured: Any) -> None:
    if not isinstance(measured, tuple) or len(measured) != 2:
        raise ValueError("Nystrom needs its error with the kernel it is of")


_CHECKS: dict[str, Callable[[Any], None]] = {"PairExpansion": _check_pairs}
# Beside fields: what would not come out the same, to the last bit, if made anew.
_EXTRAS: dict[str, dict[str, Callable[[Any, Any], None]]] = {
    "Nystrom": {"_factor": _check_factor, "_measured": _check_measured}
}
