"""LIBSVM's model files, read and written, and what they predict to the last digit.

    svm_type c_svc          parameters of the kernel and of f,
    kernel_type rbf         a word and its values on each line
    gamma 0.5
    ...
    SV                      then a support vector on each line:
    0.25 1:0.5 3:2          its coefficients, and its entries

Numbers are written with 17 digits, those of support vectors with as many as it takes to
read back the same: a model that is written and read is the same model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import _core
from mercer.expansion import Expansion
from mercer.io.svmlight import Dialect, MalformedLine, formatted, gathered, opened
from mercer.kernels.base import Kernel
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.operators import Constant
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import BlockFunction, Precomputed
from mercer.multiclass import pair_of
from mercer.native.sorting import distinct

SVM_TYPES = ("c_svc", "nu_svc", "one_class", "epsilon_svr", "nu_svr")
KERNEL_TYPES = ("linear", "polynomial", "rbf", "sigmoid", "precomputed")
LARGEST = 2**31 - 1  # LIBSVM's indices and counts have 32 bits
MARKS = 10  # of the probabilities of a one-class machine
MOST_CLASSES = 10_000  # k(k - 1)/2 numbers are held


@dataclass(frozen=True, eq=False)
class LibsvmModel:
    """f of a LIBSVM model: Σᵢ coefᵢ k(xᵢ, x) - rho, one for each pair of classes.

    Parameters
    ----------
    svm_type, kernel_type : one of `SVM_TYPES` and `KERNEL_TYPES`
    degree, gamma, coef0 : of the kernel, where it has them
    rho : (k(k - 1)/2,) array; one number for a single f
    coef : (k - 1, n) array; of a support vector of class i, row r is its coefficient in
        the pair of i and the r-th of the other classes. (1, n) for a single f
    vectors : (n, d) sparse array; column j holds the entries of index j
    serial : of a precomputed kernel the numbers of the support vectors, from 1; no
        vectors then
    label, n_support : (k,) arrays: the classes, and how many support vectors they have;
        empty for a single f
    probA, probB : of p = 1 / (1 + exp(A f + B)), for each pair; of regression probA
        alone, the scale of the Laplace distribution of the errors. Empty for none
    marks : 10 values of f between which one-class probabilities grow; empty for none

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from mercer.io import LibsvmModel
    >>> vectors, one = sp.csr_array([[0, 2.0]]), np.ones(1)
    >>> f = LibsvmModel("epsilon_svr", "linear", one, one[None], vectors)
    >>> f.predict([[0, 3.0], [0, 0]]).tolist()  # 2 x - 1
    [5.0, -1.0]
    """

    svm_type: str
    kernel_type: str
    rho: np.ndarray
    coef: np.ndarray
    vectors: sp.csr_array
    degree: int = 3
    gamma: float = 0.0
    coef0: float = 0.0
    serial: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    label: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    n_support: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    probA: np.ndarray = field(default_factory=lambda: np.empty(0))
    probB: np.ndarray = field(default_factory=lambda: np.empty(0))
    marks: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def is_classifier(self) -> bool:
        """Whether f tells classes apart."""
        return self.svm_type in ("c_svc", "nu_svc")

    @property
    def is_regression(self) -> bool:
        """Whether f is what is predicted."""
        return self.svm_type in ("epsilon_svr", "nu_svr")

    @property
    def has_probabilities(self) -> bool:
        """Whether it holds what LIBSVM's `-b 1` needs."""
        if self.is_classifier:
            return bool(self.probA.size and self.probB.size)
        return bool(self.probA.size if self.is_regression else self.marks.size)

    # What it predicts, with LIBSVM's roundings

    def values(self, X: Any) -> np.ndarray:
        """f at m points, (m, k(k - 1)/2) or (m, 1); sums in LIBSVM's order.

        Parameters
        ----------
        X : (m, d) array or sparse array, of which column j has index j; of a
            precomputed kernel, column j holds the values with point j, from 1
        """
        X = sp.csr_array(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        if len(self.label) == 1:
            return np.empty((X.shape[0], 0))
        vectors, serial = _parts(self.vectors), self.serial
        rows = _parts(X)
        # Indices may be far apart: those that there are keep their order.
        used = distinct(np.concatenate([vectors[1], serial, rows[1]]))
        first = np.empty(0, dtype=np.int64)
        if self.is_classifier:
            first = np.concatenate([[0], np.cumsum(self.n_support)]).astype(np.int64)
        out = np.empty((X.shape[0], len(self.rho)))
        _core.ordered_values(
            KERNEL_TYPES.index(self.kernel_type),
            self.gamma,
            self.coef0,
            self.degree,
            vectors[0],
            np.searchsorted(used, vectors[1]),
            vectors[2],
            np.searchsorted(used, serial),
            first,
            np.ascontiguousarray(self.coef, dtype=float),
            self.rho,
            rows[0],
            np.searchsorted(used, rows[1]),
            rows[2],
            len(used),
            out,
        )
        return out

    def decided(self, values: np.ndarray) -> np.ndarray:
        """What values of f stand for: a class, ±1, or the number itself, (m,)."""
        if self.is_regression:
            return values[:, 0]
        if not self.is_classifier:
            return np.where(values[:, 0] > 0, 1.0, -1.0)
        k = len(self.label)
        votes = np.zeros((len(values), k), dtype=np.int64)
        first, second = np.triu_indices(k, 1)
        for pair, (i, j) in enumerate(zip(first, second, strict=True)):
            won = values[:, pair] > 0
            votes[:, i] += won
            votes[:, j] += ~won
        return self.label[np.argmax(votes, axis=1)].astype(float)

    def predict(self, X: Any) -> np.ndarray:
        """The class of each point, ±1 of a one-class machine, or f, (m,)."""
        return self.decided(self.values(X))

    def probabilities(self, values: np.ndarray) -> tuple[np.ndarray, int]:
        """p of each class from values of f, (m, k), and how many are not converged.

        Of a one-class machine p of a normal point and of an outlier, in tenths.
        """
        if not self.is_classifier:
            f = values[:, 0]
            normal = np.searchsorted(self.marks, f, side="right") / MARKS
            normal = np.where(f < self.marks[0], 0.001, normal)
            # LIBSVM's own step at the last mark: 0 at it, 0.999 beyond.
            normal = np.where(f == self.marks[-1], 0.0, normal)
            normal = np.where(f > self.marks[-1], 0.999, normal)
            return np.column_stack([normal, 1 - normal]), 0
        k = len(self.label)
        out = np.ones((len(values), k))
        if k == 1:
            return out, 0
        values = np.ascontiguousarray(values)
        late = _core.ordered_probabilities(values, self.probA, self.probB, out)
        return out, late

    # Ours and theirs

    @property
    def kernel(self) -> Kernel:
        """The kernel, as one of ours."""
        return kernel_of(self.kernel_type, self.degree, self.gamma, self.coef0)

    def expansion(self) -> Expansion:
        """f as an expansion; of more than two classes a column for each pair.

        Of two classes f > 0 stands for the first, as in LIBSVM. A point of it has a
        column for each index of the file, from index 0 on; of a precomputed kernel it
        is a row of kernel values, from point 1 on.
        """
        coef = self.coef.T
        if self.is_classifier and len(self.label) > 2:
            coef = np.zeros((self.coef.shape[1], len(self.rho)))
            own = np.repeat(np.arange(len(self.label)), self.n_support)
            np.put_along_axis(coef, pair_of(len(self.label))[own], self.coef.T, axis=1)
        points: Any = self.vectors
        if self.kernel_type == "precomputed":
            points = self.serial - 1
        single = coef.shape[1] == 1
        return Expansion(
            self.kernel,
            points,
            coef[:, 0] if single else coef,
            -float(self.rho[0]) if single else -self.rho,
        )


def _parts(X: sp.csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        np.ascontiguousarray(X.indptr, dtype=np.int64),
        np.ascontiguousarray(X.indices, dtype=np.int64),
        np.ascontiguousarray(X.data, dtype=float),
    )


def kernel_of(kernel_type: str, degree: int, gamma: float, coef0: float) -> Kernel:
    """LIBSVM's kernel as one of ours."""
    if kernel_type == "linear":
        return Linear()
    if kernel_type == "precomputed":
        return Precomputed()
    if gamma == 0:  # as where all points are 0
        value = {
            "polynomial": float(coef0) ** degree,
            "rbf": 1.0,
            "sigmoid": float(np.tanh(coef0)),
        }[kernel_type]
        if value >= 0:
            return Constant(value)
        return BlockFunction(_Constant(value), False)
    if kernel_type == "rbf":
        return RBF(gamma)
    if kernel_type == "sigmoid":
        return Sigmoid(gamma, coef0)
    if coef0 < 0:
        return BlockFunction(_Powers(degree, gamma, coef0))
    return Polynomial(degree, gamma, coef0)


@dataclass(frozen=True)
class _Powers:
    """(gamma ⟨x, y⟩ + coef0)^degree with coef0 < 0, which need not be a kernel."""

    degree: int
    gamma: float
    coef0: float

    def __call__(self, X: Any, Y: Any) -> np.ndarray:
        return (self.gamma * Linear()(X, Y) + self.coef0) ** self.degree


@dataclass(frozen=True)
class _Constant:
    """The same number for all pairs."""

    value: float

    def __call__(self, X: Any, Y: Any) -> np.ndarray:
        return np.full((X.shape[0], Y.shape[0]), self.value)


# Writing


def write_libsvm_model(model: LibsvmModel, path: str | PathLike[str]) -> None:
    """Write a model file that LIBSVM reads.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from mercer.io import LibsvmModel, read_libsvm_model, write_libsvm_model
    >>> vectors = sp.csr_array([[0.0, 1.5]])
    >>> model = LibsvmModel("one_class", "rbf", np.ones(1), np.ones((1, 1)), vectors)
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model"
    ...     write_libsvm_model(model, path)
    ...     print(path.read_text().splitlines()[-1])
    ...     read_libsvm_model(path).svm_type
    1 1:1.5
    'one_class'
    """
    coef, vectors = model.coef.T, model.vectors
    if model.kernel_type == "precomputed":
        n = len(model.serial)
        ends, columns = np.arange(n + 1), np.zeros(n, dtype=np.int64)
        vectors = sp.csr_array((model.serial.astype(float), columns, ends), (n, 1))
    lines = formatted(vectors, coef, label_precision=17, trailing_space=True)
    with open(path, "wb") as file:
        file.write("".join(f"{line}\n" for line in _header(model)).encode())
        file.write(lines)


def _header(model: LibsvmModel) -> Iterator[str]:
    def numbers(word: str, values: np.ndarray) -> str:
        shown = "%d" if values.dtype.kind in "iu" else "%.17g"
        return " ".join([word, *(shown % value for value in values.tolist())])

    kind = model.kernel_type
    yield f"svm_type {model.svm_type}"
    yield f"kernel_type {kind}"
    if kind == "polynomial":
        yield f"degree {model.degree}"
    if kind in ("polynomial", "rbf", "sigmoid"):
        yield f"gamma {model.gamma:.17g}"
    if kind in ("polynomial", "sigmoid"):
        yield f"coef0 {model.coef0:.17g}"
    yield f"nr_class {len(model.label) if model.is_classifier else 2}"
    yield f"total_sv {model.coef.shape[1]}"
    yield numbers("rho", model.rho)
    for word, values in [
        ("label", model.label),
        ("probA", model.probA),
        ("probB", model.probB),
        ("prob_density_marks", model.marks),
        ("nr_sv", model.n_support),
    ]:
        if values.size:
            yield numbers(word, values)
    yield "SV"


# Reading


def read_libsvm_model(path: str | PathLike[str]) -> LibsvmModel:
    """The model of a file that LIBSVM, or `write_libsvm_model`, has written.

    Every line is checked: a ValueError names the file and the line it cannot read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from mercer.io import read_libsvm_model
    >>> text = "svm_type one_class\\nkernel_type linear\\nnr_class 2\\ntotal_sv 1\\n"
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model"
    ...     _ = path.write_text(text + "rho 0.5\\nSV\\n1 1:2\\n")
    ...     read_libsvm_model(path).predict([[0, 1.0], [0, 0.1]]).tolist()
    [1.0, -1.0]
    """
    with opened(path) as file:
        text = file.read()
    return _Reader(text, str(path)).model()


class _Reader:
    """A model file, line by line."""

    def __init__(self, text: bytes, name: str) -> None:
        self.text, self.name = text, name
        self.line, self.column = 0, 1
        self.words: dict[str, Any] = {}

    def model(self) -> LibsvmModel:
        rest = self._read_header()
        words, kind = self.words, self.words["kernel_type"]
        classifier = words["svm_type"] in ("c_svc", "nu_svc")
        n, k = words["total_sv"], words["nr_class"]
        if not classifier and k != 2:
            raise self._wrong(f"nr_class {k} does not fit {words['svm_type']}, needs 2")
        if classifier and int(words["nr_sv"].sum()) != n:
            raise self._wrong(f"nr_sv does not add up to total_sv {n}")
        coef, vectors = self._read_vectors(rest, n, max(0, k - 1))
        serial = np.empty(0, dtype=np.int64)
        if kind == "precomputed":
            serial, vectors = self._serial(vectors), sp.csr_array((0, 0))
        names = {"prob_density_marks": "marks", "nr_sv": "n_support"}
        given = {
            names.get(word, word): value
            for word, value in words.items()
            if word not in ("nr_class", "total_sv")
        }
        return LibsvmModel(coef=coef, vectors=vectors, serial=serial, **given)

    def _wrong(self, reason: str) -> ValueError:
        return MalformedLine(self.name, self.line, self.column, reason)

    def _read_header(self) -> int:
        """Fill `words`; returns where the support vectors begin."""
        at, end = 0, len(self.text)
        while at < end:
            stop = self.text.find(b"\n", at)
            stop = end if stop < 0 else stop
            self.line += 1
            word, _, rest = self.text[at:stop].partition(b" ")
            at = stop + 1
            name = word.strip().decode("ascii", "backslashreplace")
            if name == "SV":
                self._check_complete()
                return min(at, end)
            if name not in READ:
                raise self._wrong(f"{name[:30]!r} is not a word of a model file")
            if name in self.words:
                raise self._wrong(f"{name} is there twice")
            self.words[name] = self._value(name, rest)
        self.line += 1
        raise self._wrong("the file ends before its support vectors")

    def _value(self, name: str, text: bytes) -> Any:
        given = text.decode("ascii", "backslashreplace").split()
        convert, length = READ[name]
        if callable(length):
            if "nr_class" not in self.words:
                raise self._wrong(f"{name} comes before nr_class")
            length = length(self.words["nr_class"])
            if name in ("rho", "probA") and not self._is_classifier():
                length = 1
        if len(given) != (1 if length is None else length):
            needed = 1 if length is None else length
            raise self._wrong(f"{name} has {len(given)} values, and needs {needed}")
        try:
            values = [convert(one) for one in given]
        except ValueError as error:
            raise self._wrong(f"{name} cannot be read: {error}") from None
        return values[0] if length is None else np.array(values, dtype=_type(convert))

    def _is_classifier(self) -> bool:
        return self.words.get("svm_type") in ("c_svc", "nu_svc")

    def _check_complete(self) -> None:
        needed = ["svm_type", "kernel_type", "nr_class", "total_sv", "rho"]
        needed += {
            "polynomial": ["degree", "gamma", "coef0"],
            "rbf": ["gamma"],
            "sigmoid": ["gamma", "coef0"],
        }.get(self.words.get("kernel_type", ""), [])
        if self._is_classifier():
            needed += ["label", "nr_sv"]
        for name in needed:
            if name not in self.words:
                raise self._wrong(f"{name} is missing above this line")

    def _read_vectors(
        self, at: int, n: int, width: int
    ) -> tuple[np.ndarray, sp.csr_array]:
        """coef, (width, n), and the support vectors."""
        body = self.text[at:]
        if not n:
            if body.strip():
                self.line += 1
                raise self._wrong("there are more support vectors than total_sv says")
            return np.empty((width, 0)), sp.csr_array((0, 0))
        # Coefficients are to lines what labels are; with commas between they are lists.
        several = width != 1
        lines = body.split(b"\n")
        if lines and not lines[-1].strip():
            lines.pop()
        if len(lines) != n:
            self.line += min(len(lines), n) + 1
            raise self._wrong(f"there are {len(lines)} support vectors, of {n}")
        if several:
            lines = [self._joined(line, width, i) for i, line in enumerate(lines)]
        dialect = Dialect(several, query=False, blank=False, largest=LARGEST)
        parsed = dialect.parsed(b"\n".join(lines))
        line, self.column, reason = parsed.error
        if line:
            self.line += line
            raise self._wrong(reason)
        labels = np.empty(parsed.n_labels)
        parsed.labels(labels)
        data = gathered([parsed], self.name, multilabel=several)
        return np.ascontiguousarray(labels.reshape(n, width).T), data.X

    def _joined(self, line: bytes, width: int, number: int) -> bytes:
        words = line.split(None, width)
        if len(words) < width or any(b":" in one or b"," in one for one in words[:-1]):
            self.line += number + 1
            raise self._wrong(f"there are fewer than {width} coefficients")
        last, _, rest = words[width - 1], b"", b""
        if len(words) > width:
            rest = words[width]
        if b":" in last:
            self.line += number + 1
            raise self._wrong(f"there are fewer than {width} coefficients")
        return b",".join([*words[: width - 1], last]) + b" " + rest

    def _serial(self, vectors: sp.csr_array) -> np.ndarray:
        """The numbers of the support vectors, given as 0:number."""
        good = np.diff(vectors.indptr) == 1
        if vectors.nnz:
            good[good] &= vectors.indices[vectors.indptr[:-1][good]] == 0
        serial = vectors.data[vectors.indptr[:-1][good]]
        good[good] &= (serial == np.trunc(serial)) & (serial >= 1) & (serial <= LARGEST)
        if not good.all():
            self.line, self.column = self.line + 1 + int(np.argmin(good)), 1
            raise self._wrong("a precomputed support vector is 0: and its number")
        return vectors.data.astype(np.int64)


def _number(text: str) -> float:
    value = float(text)
    if not np.isfinite(value) or "_" in text:
        raise ValueError(f"{text[:30]!r} is not a finite number")
    return value


def _whole(least: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if "_" in text or len(text) > 11 or not least <= int(text) <= LARGEST:
            raise ValueError(f"{text[:30]!r} is not a whole number from {least} on")
        return int(text)

    return convert


def _one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text[:30]!r} is none of {', '.join(words)}")
        return text

    return convert


def _classes(text: str) -> int:
    k = _whole(1)(text)
    if k > MOST_CLASSES:
        raise ValueError(f"{k} classes are more than {MOST_CLASSES}")
    return k


def _type(convert: Any) -> Any:
    return float if convert is _number else np.int64


# How a word is read, and how many values follow it: None for one, or a function of the
# number of classes.
READ: dict[str, tuple[Callable[[str], Any], Any]] = {
    "svm_type": (_one_of(SVM_TYPES), None),
    "kernel_type": (_one_of(KERNEL_TYPES), None),
    "degree": (_whole(0), None),
    "gamma": (_number, None),
    "coef0": (_number, None),
    "nr_class": (_classes, None),
    "total_sv": (_whole(0), None),
    "rho": (_number, lambda k: k * (k - 1) // 2),
    "label": (_whole(-LARGEST - 1), lambda k: k),
    "probA": (_number, lambda k: k * (k - 1) // 2),
    "probB": (_number, lambda k: k * (k - 1) // 2),
    "prob_density_marks": (_number, MARKS),
    "nr_sv": (_whole(0), lambda k: k),
}
