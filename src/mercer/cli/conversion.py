"""`mercer convert`: a model as ours, as LIBSVM's text, or as ONNX."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.cli.live import Console
from mercer.cli.settings import last_step
from mercer.expansion import Expansion
from mercer.io.models import load, save
from mercer.kernels.base import Kernel
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear, Polynomial, one_width
from mercer.machines.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from mercer.multiclass import PairExpansion
from mercer.outcomes import Certificate, Run, Status

_FORMATS = {
    ".mercer": "mercer",
    ".onnx": "onnx",
    ".model": "libsvm",
    ".libsvm": "libsvm",
}
_TYPES: dict[str, Any] = {
    "c_svc": SVC,
    "nu_svc": NuSVC,
    "one_class": OneClassSVM,
    "epsilon_svr": SVR,
    "nu_svr": NuSVR,
}
_NAMES = {made: name for name, made in _TYPES.items()}


def run(options: argparse.Namespace) -> int:
    """Convert a model."""
    console = Console(options)
    to = options.to or _FORMATS.get(Path(options.output).suffix.lower())
    if to is None:
        raise ValueError(
            f"The format of {options.output} is not known by its suffix: "
            f"{', '.join(_FORMATS)}. Say it with --to."
        )
    whole = machine_in(options.source)
    machine = last_step(whole)
    if whole is not machine and to == "libsvm":
        console.warn(
            "the model scales columns first; LIBSVM's format does not hold that, and "
            "points are to be scaled before."
        )
    if to == "mercer":
        save(whole, options.output)
    elif to == "onnx":
        importlib.import_module("mercer.io.onnx").save_onnx(whole, options.output)
    else:
        libsvm = importlib.import_module("mercer.io.libsvm")
        libsvm.write_libsvm_model(as_libsvm(machine, libsvm), options.output)
    size = Path(options.output).stat().st_size
    name = type(machine).__name__
    console.rows([("written", f"{options.output}: {name} as {to}, {size:,} bytes")])
    console.tell(machine=name, format=to, output=options.output, bytes=size)
    console.end()
    return 0


def machine_in(path: str) -> Any:
    """The machine of a model file, ours or LIBSVM's."""
    with Path(path).open("rb") as stream:
        head = stream.read(16)
    if head.startswith((b"svm_type", b"kernel_type", b"degree", b"gamma")):
        libsvm = importlib.import_module("mercer.io.libsvm")
        return from_libsvm(libsvm.read_libsvm_model(path))
    if path.lower().endswith(".onnx"):
        raise ValueError(
            f"{path}: ONNX is a format to write; a machine cannot be made of it."
        )
    return load(path)


# Ours to LIBSVM's


def as_libsvm(machine: Any, libsvm: Any) -> Any:
    """A support vector machine as a `LibsvmModel`, whose values are the same."""
    name = type(machine).__name__
    if type(machine) not in _NAMES:
        raise ValueError(
            f"LIBSVM has no {name}; {', '.join(t.__name__ for t in _NAMES)} can be "
            "written for it."
        )
    kernel = machine.expansion_.kernel
    coef = np.asarray(sp.csr_array(np.atleast_2d(_dense(machine.dual_coef_))).todense())
    rho = -np.atleast_1d(np.asarray(machine.intercept_, dtype=float))
    options: dict[str, Any] = {}
    if hasattr(machine, "classes_"):
        classes = machine.classes_
        if classes.dtype.kind not in "biu":
            raise ValueError(
                "LIBSVM's classes are whole numbers; these are "
                f"{', '.join(map(str, classes[:5]))}. Train with numbers."
            )
        options["label"] = classes.astype(np.int64)
        options["n_support"] = np.asarray(machine.n_support_, dtype=np.int64)
        if len(classes) == 2:  # LIBSVM's f is positive for the first class
            coef, rho = -coef, -rho
    vectors = sp.csr_array(_dense(machine.support_vectors_))
    return libsvm.LibsvmModel(
        _NAMES[type(machine)], rho=rho, coef=coef, vectors=vectors,
        **_kernel_words(kernel), **options,
    )  # fmt: skip


def _dense(values: Any) -> np.ndarray:
    return np.asarray(values.todense() if sp.issparse(values) else values, dtype=float)


def _kernel_words(kernel: Kernel) -> dict[str, Any]:
    """A kernel in LIBSVM's words."""
    if isinstance(kernel, Linear):
        return {"kernel_type": "linear"}
    if isinstance(kernel, RBF):
        return {"kernel_type": "rbf", "gamma": one_width(kernel, "gamma", "LIBSVM")}
    if isinstance(kernel, Polynomial):
        return {
            "kernel_type": "polynomial",
            "degree": int(kernel.degree),
            "gamma": kernel.scale,
            "coef0": kernel.offset,
        }
    if isinstance(kernel, Sigmoid):
        return {
            "kernel_type": "sigmoid",
            "gamma": kernel.gamma,
            "coef0": kernel.offset,
        }
    raise ValueError(
        f"LIBSVM has no kernel {kernel!r:.100}; Linear, RBF, Polynomial and Sigmoid "
        "can be written for it."
    )


# LIBSVM's to ours


def from_libsvm(model: Any) -> Any:
    """A machine that says what the model says."""
    if model.kernel_type == "precomputed":
        raise ValueError(
            "The model has a precomputed kernel, and no points; mercer svm-predict "
            "reads it."
        )
    machine = _TYPES[model.svm_type](kernel=model.kernel)
    X = model.vectors.toarray()
    n = len(X)
    none = np.nan
    machine.__dict__.update(
        support_=np.arange(n, dtype=np.int32),
        n_features_in_=X.shape[1],
        shape_fit_=X.shape,
        fit_status_=0,
        run_=Run(Status.GIVEN),
        _certificate=Certificate(none, none, none, n, 0, none, Run(Status.GIVEN)),
        _places=np.arange(n),
        _unit=1.0,
        _sparse=False,
    )
    bias = -np.asarray(model.rho, dtype=float)
    if not model.is_classifier:
        coef = model.coef[0]
        machine.expansion_ = Expansion(model.kernel, X, coef, float(bias[0]))
        return machine
    return _classifier(machine, model, X, bias)


def _classifier(machine: Any, model: Any, X: np.ndarray, bias: np.ndarray) -> Any:
    """The machine with its classes in order, as LIBSVM's need not be."""
    labels, sizes = np.asarray(model.label), np.asarray(model.n_support)
    machine.classes_ = np.sort(labels)
    if len(labels) == 2:
        sign = -1.0 if labels[0] < labels[1] else 1.0
        f = Expansion(model.kernel, X, sign * model.coef[0], float(sign * bias[0]))
        machine.expansion_ = f
    else:
        if not np.array_equal(labels, machine.classes_):
            raise ValueError(
                f"The model has its classes in the order {labels.tolist()}; only those "
                "in rising order become a machine. mercer svm-predict reads it."
            )
        label = np.repeat(np.arange(len(labels)), sizes)
        machine._pair_function = PairExpansion(
            model.kernel, X, label, np.ascontiguousarray(model.coef.T), bias
        )
    machine._label = np.repeat(np.searchsorted(machine.classes_, labels), sizes)
    return machine
