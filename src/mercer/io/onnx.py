"""Machines on vectors as ONNX models, of ordinary operators in double precision.

The input is X, (n, d) of float64; there is an output for each method the machine has:
predict, decision_function, predict_proba, score_samples, transform. Needs the package
onnx to write a model; any runtime of ONNX evaluates it, without mercer.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.data.checks import brief, describe
from mercer.io import classes
from mercer.io.container import Path, replacing
from mercer.io.formulas import (
    distances,
    features,
    known_points,
    logarithm,
    sketch,
    values,
)
from mercer.io.operations import Against, Graph, Own, Value
from mercer.kernels.base import Kernel
from mercer.kernels.parameters import version
from mercer.kernels.ways import Precomputed
from mercer.maps import FeatureExpansion

# An extra, which may be absent.
onnx: Any = importlib.import_module("onnx") if find_spec("onnx") else None

OPSET, IR = 18, 8  # of 2022; older runtimes read neither CumSum nor Gather of texts
CLEAR = 1e-7  # p of a pair stays between this and 1 minus this

Outputs = dict[str, Value]


def to_onnx(machine: Any) -> Any:
    """The machine as an `onnx.ModelProto`: its methods are outputs of one model.

    The operators are elementary (MatMul, Exp, ...) and in float64; what they compute
    agrees with the machine's own methods to about 1e-9. Classes are whole numbers or
    texts, as in `classes_`. Kernels of distances other than RBF hold n · m · d numbers
    for n new points, m points of f and d coordinates: pass new points in batches.

    Parameters
    ----------
    machine : fitted on vectors, or on kernel values (kernel="precomputed"); or a
        pipeline of a StandardScaler or a MinMaxScaler with one at its end. Kernels of
        strings, trees, graphs and densities, and functions of your own, are refused

    Examples
    --------
    >>> import mercer
    >>> from mercer.io import to_onnx
    >>> machine = mercer.SVC().fit([[0.0], [1.0], [2.0]], ["a", "a", "b"])
    >>> model = to_onnx(machine)  # doctest: +SKIP
    >>> [output.name for output in model.graph.output]  # doctest: +SKIP
    ['predict', 'decision_function']
    """
    if onnx is None:
        raise ImportError(
            "to_onnx needs the package onnx: pip install mercer[onnx]. mercer.save "
            "needs nothing."
        )
    steps = [step for _, step in getattr(machine, "steps", [("", machine)])]
    *before, last = steps
    names = [classes.name_of(type(step)) for step in before]
    name = classes.name_of(type(last))
    if name not in _WRITTEN or not all(one in _SCALED for one in names):
        raise TypeError(
            f"to_onnx writes fitted machines of mercer, and pipelines of a "
            "StandardScaler or a MinMaxScaler with one at the end; got "
            f"{describe(machine)}."
        )
    check_is_fitted(machine)
    if not hasattr(machine, "n_features_in_"):
        known_points(None, f"{name}(kernel={brief(last.kernel)})")
    graph = Graph(int(machine.n_features_in_))
    X = Value(graph, "X")
    for kind, step in zip(names, before, strict=True):
        X = _SCALED[str(kind)](step, X)
    return _model(str(name), graph, _WRITTEN[str(name)](last, X))


def save_onnx(machine: Any, path: Path) -> None:
    """Write `to_onnx(machine)` to a file, whole or not at all.

    Examples
    --------
    >>> import mercer
    >>> from mercer.io import save_onnx
    >>> machine = mercer.KernelRidge().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> save_onnx(machine, "ridge.onnx")  # doctest: +SKIP
    """
    model = to_onnx(machine).SerializeToString()
    with replacing(path) as file:
        file.write(model)


def _model(name: str, graph: Graph, outputs: Outputs) -> Any:
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    needed, arrays = graph.needed([value.name for value in outputs.values()])
    nodes = [
        helper.make_node(kind, inputs, made, **attributes)
        for kind, inputs, made, attributes in needed
    ]
    # Outputs have the names of methods; what has no name of its own is renamed.
    nodes += [
        helper.make_node("Identity", [value.name], [method])
        for method, value in outputs.items()
    ]
    inputs = [
        helper.make_tensor_value_info("X", onnx.TensorProto.DOUBLE, [None, graph.d])
    ]
    ends = [
        onnx.ValueInfoProto(name=method)  # types follow from the operators
        for method in outputs
    ]
    constants = [_tensor(numpy_helper, array, name) for name, array in arrays.items()]
    made = helper.make_graph(nodes, name, inputs, ends, initializer=constants)
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(
        made, opset_imports=opsets, producer_name="mercer", producer_version=version()
    )
    model.ir_version = IR
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def _tensor(numpy_helper: Any, array: np.ndarray, name: str) -> Any:
    if array.dtype.kind != "O":
        return numpy_helper.from_array(array, name)
    texts = [text.encode() for text in array.ravel().tolist()]
    kind = onnx.TensorProto.STRING
    return onnx.helper.make_tensor(name, kind, array.shape, texts)


# Scalers


def _standard(scaler: Any, X: Value) -> Value:
    X = X - scaler.mean_ if scaler.with_mean else X
    return X / scaler.scale_ if scaler.with_std else X


def _range(scaler: Any, X: Value) -> Value:
    X = X * scaler.scale_ + scaler.min_
    if not scaler.clip:
        return X
    low, high = scaler.feature_range
    return X.at_least(float(low)).op("Min", float(high))


_SCALED = {"StandardScaler": _standard, "MinMaxScaler": _range}


# f


def _function(f: Any, X: Value) -> Value:
    """f at the points of X, (n,) or (n, q)."""
    if isinstance(f, FeatureExpansion):
        chosen = features(f.kernel, X, X.graph.d).taken(list(f.keys), axis=1)
        return chosen @ f.coef + f.bias
    if not len(f.coef):
        empty = X.taken([0], axis=1) * 0.0
        flat = empty.sum(1) if f.coef.ndim == 1 else empty
        return flat + f.bias
    return _kernel_values(f, X) @ f.coef + f.bias


def _kernel_values(f: Any, X: Value) -> Value:
    return _against(f.kernel, f.points, X)


def _against(kernel: Kernel, points: Any, X: Value) -> Value:
    if isinstance(kernel, Precomputed) or _holds_precomputed(kernel):
        return values(kernel, Against(X, np.asarray(points, float).reshape(-1, 1)))
    return values(kernel, Against(X, known_points(points, type(kernel).__name__)))


def _holds_precomputed(kernel: Kernel) -> bool:
    return any(isinstance(part, Precomputed) for part in kernel._distinct())


# Classes


def _named(machine: Any, index: Value) -> Value:
    """The classes of these numbers."""
    names = np.asarray(machine.classes_)
    if names.dtype.kind in "US" or names.dtype == object:
        if not all(isinstance(name, str) for name in names.tolist()):
            raise TypeError(
                f"{type(machine).__name__} has the classes {names[:5].tolist()}; in "
                "ONNX classes are numbers or texts."
            )
        return index.graph.constant(names.astype(object), object).taken(index)
    dtype = {"b": bool, "f": float}.get(names.dtype.kind, np.int64)
    return index.graph.constant(names, dtype).taken(index)


def _argmax(values: Value) -> Value:
    return values.op("ArgMax", axis=1, keepdims=0)


def _winners(f: Value, machine: Any) -> Value:
    """Of two classes the second where f ≥ 0; else that of the largest value."""
    if len(machine.classes_) == 2:
        return f.op("GreaterOrEqual", 0.0).op("Cast", to=7)  # int64
    return _argmax(f)


def _by_sides(machine: Any, f: Value) -> Outputs:
    """What machines say that tell each class from the rest."""
    found = {"predict": _named(machine, _winners(f, machine)), "decision_function": f}
    if hasattr(machine, "predict_proba"):
        found["predict_proba"] = _probabilities(machine, f)
    return found


def _both(second: Value) -> Value:
    return (1.0 - second).unsqueezed(1).op("Concat", second.unsqueezed(1), axis=1)


def _probabilities(machine: Any, f: Value) -> Value:
    if len(machine.classes_) == 2:
        return _both(f.op("Sigmoid"))
    p = f.op("Sigmoid").at_least(np.finfo(float).tiny)
    return _agreeing(p / p.sum(1, keep=True), _winners(f, machine), machine)


def _agreeing(p: Value, winner: Value, machine: Any) -> Value:
    """p moved as little as need be so that the largest is that of the winner.

    The others above the level of the winner are pooled with it, the largest first, as
    long as the next is above the level reached.
    """
    k = len(machine.classes_)
    mine = p.graph.constant(np.eye(k)).taken(winner)
    own = (p * mine).sum(1, keep=True)
    others, _ = p.graph.largest(p - mine * 2.0, k)
    before = others.op("CumSum", p.graph.constant(1, np.int64), exclusive=1)
    level = (own + before) / np.arange(1.0, k + 1)
    pooled = others.op("Greater", level).op("Cast", to=11)  # float64
    total = own + (others * pooled).sum(1, keep=True)
    reached = total / (pooled.sum(1, keep=True) + 1.0)
    return p.op("Min", reached) * (1.0 - mine) + mine * reached


# Machines


def _of_numbers(machine: Any, X: Value) -> Outputs:
    return {"predict": _function(machine.expansion_, X)}


def _refused_process(machine: Any, X: Value) -> Outputs:
    raise TypeError(
        "The probabilities of GaussianProcessClassifier are integrals over its "
        "deviations, for which ONNX has no operators. Use mercer.save; or write a "
        "KernelLogisticRegression with the same kernel."
    )


def _of_classes(machine: Any, X: Value) -> Outputs:
    return _by_sides(machine, _function(machine.expansion_, X))


def _regularized(machine: Any, X: Value) -> Outputs:
    f = _function(machine.expansion_, X)
    if machine._loss().of_sides:
        return _by_sides(machine, f)
    return {"predict": f}


def _logistic(machine: Any, X: Value) -> Outputs:
    f = _function(machine.expansion_, X)
    two = len(machine.classes_) == 2
    return {
        "predict": _named(machine, _winners(f, machine)),
        "decision_function": f,
        "predict_proba": _both(f.op("Sigmoid")) if two else f.op("Softmax", axis=1),
    }


def _svc(machine: Any, X: Value) -> Outputs:
    f, k = _function(machine.expansion_, X), len(machine.classes_)
    pairs = k > 2 and machine.multiclass == "ovo"
    decision = f
    if not pairs:
        winner = _winners(f, machine)
    else:
        scores = _scores(f, k)
        decision = scores if machine.decision_function_shape == "ovr" else f
        winner = _argmax(scores if machine.break_ties else _votes(f, k))
    found = {"predict": _named(machine, winner), "decision_function": decision}
    if machine._sigmoid.size:
        found["predict_proba"] = _calibrated(machine, f, winner, pairs)
    return found


def _sides(k: int) -> tuple[np.ndarray, np.ndarray]:
    """(pairs, k) arrays: which class of each pair is the first, and the second."""
    first, second = np.triu_indices(k, 1)
    return np.eye(k)[first], np.eye(k)[second]


def _votes(f: Value, k: int) -> Value:
    """Pairs won by each class; f = 0 is for the second."""
    first, second = _sides(k)
    wins = f.op("Greater", 0.0).op("Cast", to=11)
    return wins @ first + (1.0 - wins) @ second


def _scores(f: Value, k: int) -> Value:
    first, second = _sides(k)
    lost = f.op("Less", 0.0).op("Cast", to=11)
    won = (1.0 - lost) @ first + lost @ second
    confidence = f @ (first - second)
    return won + confidence / ((confidence.op("Abs") + 1.0) * 3.0)


def _calibrated(machine: Any, f: Value, winner: Value, pairs: bool) -> Value:
    two = len(machine.classes_) == 2
    A, B = machine._sigmoid[:, 0] if two else machine._sigmoid
    p = (-(f * A + f.op("Abs") * B)).op("Sigmoid")
    if two:
        p = _both(p)
    elif pairs:
        p = _coupled(p, len(machine.classes_))
    else:
        p = p.at_least(np.finfo(float).tiny)
        p = p / p.sum(1, keep=True)
    return _agreeing(p, winner, machine)


def _coupled(pairs: Value, k: int) -> Value:
    """p of each class that agrees best with its pairs: Q p = λ1, Σ p = 1.

    (Q + 11ᵀ) p is a multiple of 1 too, and Q + 11ᵀ is positive definite: elimination
    needs no pivots.
    """
    first, second = np.triu_indices(k, 1)
    r = pairs.at_least(CLEAR).op("Min", 1 - CLEAR)
    # Rows of (1 - r, r): which of them is r_ij for each i, j; the last column is 0.
    every = (1.0 - r).op("Concat", r, (r.taken([0], axis=1) * 0.0), axis=1)
    place = np.full((k, k), 2 * len(first))
    place[first, second] = np.arange(len(first)) + len(first)
    place[second, first] = np.arange(len(first))
    R = every.taken(place, axis=1)
    turned = R.op("Transpose", perm=[0, 2, 1])
    squares = (R * R).sum(1).unsqueezed(1) * np.eye(k)
    M = squares - turned * R + 1.0
    ones = M.taken([0], axis=2) * 0.0 + 1.0
    M = M.op("Concat", ones, axis=2)
    for j in range(k):
        column = M.taken([j], axis=2)
        row = M.taken([j], axis=1)
        row = row / row.taken([j], axis=2)
        M = M - (column - np.eye(k)[:, [j]]) * row
    p = M.taken([k], axis=2).sum(2).at_least(0.0)
    return p / p.sum(1, keep=True)


def _one_class(machine: Any, X: Value) -> Outputs:
    f = _function(machine.expansion_, X)
    offset = float(np.ravel(machine.offset_)[0])
    if type(machine).__name__ == "SVDD":
        kernel = getattr(machine, "approximation_", machine.expansion_.kernel)
        own = values(kernel, Own(X, machine.n_features_in_))
        f = f * 2.0 - own - (machine._square + offset)
    inside = f.op("Greater", 0.0).op("Cast", to=7)
    two = f.graph.constant(2, np.int64)
    one = f.graph.constant(1, np.int64)
    return {
        "predict": inside.op("Mul", two).op("Sub", one),
        "decision_function": f,
        "score_samples": f + offset,
    }


def _rvc(machine: Any, X: Value) -> Outputs:
    f = machine.expansion_
    mean = _function(f, X)
    K = _kernel_values(f, X) if len(f.coef) else None
    spread = []
    for posterior, places in zip(machine._posteriors(), machine._places, strict=True):
        ones = X.taken([0], axis=1) * 0.0 + 1.0
        parts = [] if K is None else [K.taken(places, axis=1)]
        parts += [ones] * (len(posterior.alpha) > len(places))
        if not parts:
            spread.append(ones * 0.0)
            continue
        columns = parts[0].op("Concat", *parts[1:], axis=1)
        variance = ((columns @ posterior.covariance) * columns).sum(1, keep=True)
        spread.append(variance.at_least(0.0))
    every = spread[0].op("Concat", *spread[1:], axis=1)
    variance = every.sum(1) if f.coef.ndim == 1 else every
    return _by_sides(machine, mean / (variance * (np.pi / 8) + 1.0).sqrt())


def _perceptron(machine: Any, X: Value) -> Outputs:
    if getattr(machine, "variant", "") != "voted":
        return _of_classes(machine, X)
    found, f = machine._mistakes, machine.expansion_
    K = _kernel_values(f, X)
    votes = []
    for c in range(found.n_outputs):
        chosen = np.flatnonzero(found.column == c)
        place = np.searchsorted(machine.support_, found.point[chosen])
        lasted = np.diff(np.append(found.time[chosen], found.rounds))
        steps = K.taken(place, axis=1) * found.side[chosen].astype(float)
        signs = steps.op("CumSum", X.graph.constant(1, np.int64)).op("Sign")
        votes.append(signs @ lasted[:, None].astype(float))
    every = votes[0].op("Concat", *votes[1:], axis=1)
    every = every.sum(1) if len(votes) == 1 else every
    # Whole numbers, which are equal where they are; their shares may not be.
    winner = _named(machine, _winners(every, machine))
    return {"predict": winner, "decision_function": every * (1 / found.rounds)}


def _neighbors(machine: Any, X: Value) -> Outputs:
    if callable(machine.weights):
        raise TypeError(
            f"{type(machine).__name__} has weights of your own function, which cannot "
            'be written in ONNX. Use "uniform" or "distance".'
        )
    points = known_points(machine._points, type(machine).__name__)
    key, square = distances(machine.kernel_, Against(X, points))
    _, index = X.graph.largest(key, int(machine.n_neighbors), smallest=True)
    classify = hasattr(machine, "classes_")
    known: np.ndarray = (
        np.eye(len(machine.classes_))[machine._label] if classify else machine._target
    )
    flat = known.reshape(len(known), -1).astype(float)
    chosen = X.graph.constant(flat).taken(index)
    weights = _neighbor_weights(machine, square, index)
    shares = (chosen * weights).sum(1) / weights.sum(1)
    if not classify:
        return {"predict": shares if known.ndim > 1 else shares.sum(1)}
    return {
        "predict": _named(machine, _argmax(shares)),
        "predict_proba": shares,
    }


def _neighbor_weights(machine: Any, square: Value, index: Value) -> Value:
    """(n, k, 1): 1, or 1 / distance; those at distance 0 outweigh all others."""
    near = square.op("GatherElements", index, axis=1)
    if machine.weights == "uniform":
        return (near * 0.0 + 1.0).unsqueezed(2)
    at = near.op("LessOrEqual", 0.0).op("Cast", to=11)
    some = at.sum(1, keep=True).op("Greater", 0.0)
    inverse = 1.0 / near.sqrt().at_least(1e-150)
    return at.where(some, inverse).unsqueezed(2)


def _log_sums(machine: Any, X: Value, points: Any, weight: np.ndarray) -> Value:
    """ln Σⱼ weightⱼ k(x, yⱼ), (n,)."""
    kernel = machine._windows.kernel
    pairs = Against(X, known_points(points, type(machine).__name__))
    logs = logarithm(kernel, pairs)
    if logs is None:
        return (values(kernel, pairs) @ weight).log()
    axes = X.graph.constant([1], np.int64)
    logs = logs + np.log(weight)
    return logs.op("ReduceLogSumExp", axes, keepdims=0)


def _density(machine: Any, X: Value) -> Outputs:
    logs = _log_sums(machine, X, machine._points, machine._weight)
    constant = math.log(machine._weight.sum()) + machine._log_volume
    return {"score_samples": logs - constant}


def _parzen_classifier(machine: Any, X: Value) -> Outputs:
    if machine.method == "mean":
        return _of_classes(machine, X)
    columns = []
    for points, weight in machine._groups:
        logs = _log_sums(machine, X, points, weight) - math.log(weight.sum())
        columns.append(logs.unsqueezed(1))
    every = columns[0].op("Concat", *columns[1:], axis=1)
    with np.errstate(divide="ignore"):
        priors = np.log(machine.priors_)
    lost = (every + priors).op("ReduceMax", X.graph.constant([1], np.int64))
    # Where no class has a window, the priors decide.
    beyond = lost.op("Less", -1e308)
    every = (every.op("Max", -1e308) * 0.0).where(beyond, every)
    joint = every + (priors - machine._windows.log_volume(machine.n_features_in_))
    two = len(machine.classes_) == 2
    f = joint @ np.array([-1.0, 1.0]) if two else joint
    return {
        "predict": _named(machine, _winners(f, machine)),
        "decision_function": f,
        "predict_proba": joint.op("Softmax", axis=1),
    }


def _clusters(machine: Any, X: Value) -> Outputs:
    f = machine.expansion_
    inner = _function(f, X)
    scale: Any = None
    if machine._volume is not None:
        degree = (inner - f.bias) @ np.asarray(machine._volume, float)
        scale = (1.0 / degree.at_least(np.finfo(float).tiny)).unsqueezed(1)
        inner = (inner - f.bias) * scale + f.bias
    found = {"predict": _argmax(inner)}
    if machine._precomputed:
        return found
    kernel = getattr(machine, "approximation_", f.kernel)
    own = values(kernel, Own(X, machine.n_features_in_)).unsqueezed(1)
    lengths = own if scale is None else own * scale * scale
    found["transform"] = (lengths - inner * 2.0).at_least(0.0).sqrt()
    return found


def _feature_map(machine: Any, X: Value) -> Outputs:
    return {"transform": features(machine.kernel_, X, machine.n_features_in_)}


def _nystroem(machine: Any, X: Value) -> Outputs:
    known = machine.component_indices_ if machine._precomputed else machine.components_
    K = _against(machine.kernel_, known, X)
    return {"transform": K @ machine.normalization_.T}


def _sampler(machine: Any, X: Value) -> Outputs:
    angles = X @ machine.random_weights_ + machine.random_offset_
    return {"transform": angles.op("Cos") * math.sqrt(2.0 / machine.n_components)}


def _count_sketch(machine: Any, X: Value) -> Outputs:
    scaled = X * math.sqrt(machine.gamma)
    columns, signs = machine.indexHash_, machine.bitHash_
    size, offset = int(machine.n_components), float(machine.coef0)
    d = machine.n_features_in_
    return {"transform": sketch(scaled, d, columns, signs, size, offset)}


_WRITTEN: dict[str, Callable[[Any, Value], Outputs]] = {
    **dict.fromkeys(["SVC", "NuSVC"], _svc),
    **dict.fromkeys(["OneClassSVM", "SVDD"], _one_class),
    **dict.fromkeys(
        "SVR NuSVR KernelRidge KernelQuantileRegression KernelHuberRegression "
        "SparseKernelRegressor RVR KernelSGDRegressor "
        "GaussianProcessRegressor".split(),
        _of_numbers,
    ),
    **dict.fromkeys(["SparseKernelClassifier", "KernelSGDClassifier"], _of_classes),
    **dict.fromkeys(["Perceptron", "KernelPerceptron"], _perceptron),
    **dict.fromkeys(["KernelKNNClassifier", "KernelKNNRegressor"], _neighbors),
    "GaussianProcessClassifier": _refused_process,
    "RegularizedMachine": _regularized,
    "KernelLogisticRegression": _logistic,
    "RVC": _rvc,
    "ParzenDensity": _density,
    "ParzenClassifier": _parzen_classifier,
    "KernelKMeans": _clusters,
    "KernelPCA": lambda machine, X: {"transform": _function(machine.expansion_, X)},
    "FeatureMap": _feature_map,
    "Nystroem": _nystroem,
    "RBFSampler": _sampler,
    "PolynomialCountSketch": _count_sketch,
}
