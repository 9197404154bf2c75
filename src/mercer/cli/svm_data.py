"""Points and their Gram matrix as LIBSVM's tools read them from a file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.cli.options import Refused, TrainOptions
from mercer.cli.svm_text import DIALECT, malformed
from mercer.gram import Gram
from mercer.io.libsvm import KERNEL_TYPES, kernel_of
from mercer.io.svmlight import MalformedLine, gathered, opened, parsed_parts
from mercer.kernels.base import Kernel
from mercer.kernels.ways import Precomputed

# A sparse array takes longer for an entry: one is held with its zeros where that takes
# at most so much memory, or so many times that of its entries.
DENSE_MB = 64.0
DENSE_TIMES = 10.0


@dataclass(frozen=True, eq=False)
class Data:
    """Points of a file, or some of them.

    Parameters
    ----------
    X : (n, d) sparse array; column j has index j
    y : (n,) array, the labels
    gram : of these points
    """

    X: sp.csr_array
    y: np.ndarray
    gram: Gram

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: np.ndarray) -> Data:
        """Some of the points."""
        return Data(self.X[index], self.y[index], self.gram.take(index))

    @cached_property
    def serial(self) -> np.ndarray:
        """The numbers of points of a precomputed kernel, in column 0."""
        return self.X[:, [0]].toarray().ravel().astype(np.int64)


def read_file(path: str) -> tuple[sp.csr_array, np.ndarray]:
    """The points of a file, column j being index j, and their labels."""
    try:
        with opened(path) as source:
            X, y, _ = gathered(parsed_parts(source, path, DIALECT), path)
    except MalformedLine as error:
        raise malformed(error) from error
    except OSError as error:
        raise Refused(f"can't open input file {path}") from error
    except ValueError as error:
        raise Refused(str(error)) from error
    if not len(y):
        raise Refused(f"{path} holds no points.")
    return X, y


def largest_index(X: sp.csr_array) -> int:
    """The largest index of a file; 0 where there are no entries."""
    return max(0, X.shape[1] - 1)


def data_of(X: sp.csr_array, y: np.ndarray, options: TrainOptions) -> Data:
    """The points with their Gram matrix; `options.gamma` is known."""
    if options.kernel_type == 4:
        return Data(X, y, _precomputed(X))
    return Data(X, y, Gram(kernel(options), points(X)))


def kernel(options: TrainOptions) -> Kernel:
    """The kernel of these options; Refused where there is none."""
    word = KERNEL_TYPES[options.kernel_type]
    try:
        return kernel_of(word, options.degree, options.gamma, options.coef0)
    except ValueError as error:
        raise Refused(f"ERROR: {error}") from error


def points(X: sp.csr_array) -> Any:
    """The same points as an array where that is quicker, without an unused column 0."""
    dense, held = 8.0 * X.shape[0] * X.shape[1], 12.0 * X.nnz
    if dense > max(DENSE_MB * 2**20, DENSE_TIMES * held):
        return X
    array = X.toarray()
    unused = array.shape[1] > 1 and not array[:, 0].any()
    return np.ascontiguousarray(array[:, 1:]) if unused else array


def _precomputed(X: sp.csr_array) -> Gram:
    first = X[:, [0]].toarray().ravel() if X.shape[1] else np.zeros(X.shape[0])
    begins = X.indptr[:-1][np.diff(X.indptr) > 0]
    if len(begins) < X.shape[0] or X.indices[begins].any():
        raise Refused("Wrong input format: first column must be 0:sample_serial_number")
    serial = first.astype(np.int64)
    if not ((serial > 0) & (serial < X.shape[1])).all():
        raise Refused("Wrong input format: sample_serial_number out of range")
    K = X.toarray()[:, serial]
    return Gram(Precomputed(K), np.arange(len(K)))
