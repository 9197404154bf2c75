"""svm-predict: what a LIBSVM model says of the points of a file, digit for digit.

The file is read and answered some megabytes at a time.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse as sp

from mercer.cli.options import PredictOptions, Refused
from mercer.cli.svm_text import DIALECT, malformed, regression_scores, shown
from mercer.io.libsvm import LibsvmModel, read_libsvm_model
from mercer.io.svmlight import MalformedLine, formatted, gathered, opened, parsed_parts

CHUNK = 2**22  # bytes of text that are answered at a time


def run(options: PredictOptions) -> int:
    """Write the predictions, and print how many are right."""
    path = options.data_file
    if not Path(path).is_file():
        raise Refused(f"can't open input file {path}")
    try:
        with opened(path) as source, open(options.output_file, "wb") as output:
            _predict(options, _model(options), source, output)
    except MalformedLine as error:
        raise malformed(error) from error
    except OSError as error:
        place = error.filename or options.output_file
        kind = "input" if place == path else "output"
        raise Refused(f"can't open {kind} file {place}") from error
    return 0


def _model(options: PredictOptions) -> LibsvmModel:
    """The model; Refused where it is none, or lacks probabilities asked for."""
    path = options.model_file
    try:
        model = read_libsvm_model(path)
    except OSError as error:
        raise Refused(f"can't open model file {path}") from error
    except ValueError as error:
        raise Refused(f"can't open model file {path}\n{error}") from error
    if options.probability and not model.has_probabilities:
        raise Refused("Model does not support probabiliy estimates")
    return model


@dataclass
class _Answered:
    """What was predicted so far, and the labels of the file."""

    predicted: list[np.ndarray] = field(default_factory=list)
    label: list[np.ndarray] = field(default_factory=list)

    def joined(self) -> tuple[np.ndarray, np.ndarray]:
        if not self.label:
            return np.empty(0), np.empty(0)
        return np.concatenate(self.predicted), np.concatenate(self.label)


def _predict(
    options: PredictOptions, model: LibsvmModel, source: IO[bytes], output: IO[bytes]
) -> None:
    said: list[str] = []
    probable = bool(options.probability) and not model.is_regression
    if not options.probability and model.has_probabilities:
        said.append(
            "Model supports probability estimates, but disabled in prediction.\n"
        )
    elif options.probability and model.is_regression:
        said.append(
            "Prob. model for test data: target value = predicted value + z,\n"
            "z: Laplace distribution e^(-|z|/sigma)/(2sigma),"
            f"sigma={model.probA[0]:g}\n"
        )
    if probable and model.is_classifier:
        output.write(f"labels {' '.join(map(str, model.label))}\n".encode())
    elif probable:
        output.write(b"label normal outlier\n")
    answered = _Answered()
    for parsed in parsed_parts(source, options.data_file, DIALECT, CHUNK):
        X, y, _ = gathered([parsed], options.data_file)
        predicted, text = _answer(model, X, probable)
        output.write(text)
        answered.predicted.append(predicted)
        answered.label.append(y)
    said.append(_summary(model, *answered.joined()))
    if not options.quiet:
        sys.stdout.write("".join(said))


def _answer(
    model: LibsvmModel, X: sp.csr_array, probable: bool
) -> tuple[np.ndarray, bytes]:
    """What is predicted of some points, and the lines that say so."""
    values = model.values(X)
    nothing = sp.csr_array((X.shape[0], 0))
    if not probable:
        predicted = model.decided(values)
        return predicted, formatted(nothing, predicted, label_precision=17)
    p, late = model.probabilities(values)
    if model.is_classifier:
        predicted = model.label[np.argmax(p, axis=1)].astype(float)
    else:
        predicted = model.decided(values)
    for _ in range(late):
        sys.stdout.write("Exceeds max_iter in multiclass_prob\n")
    columns = np.column_stack([predicted, p])
    return predicted, formatted(nothing, columns, label_precision=6)


def _summary(model: LibsvmModel, predicted: np.ndarray, y: np.ndarray) -> str:
    if model.is_regression:
        error, correlation = regression_scores(predicted, y)
        return (
            f"Mean squared error = {error} (regression)\n"
            f"Squared correlation coefficient = {correlation} (regression)\n"
        )
    right, total = int(np.count_nonzero(predicted == y)), len(y)
    share = right / total * 100 if total else float("nan")
    return f"Accuracy = {shown(share)}% ({right}/{total}) (classification)\n"
