"""The two other ways to write a kernel, and the kernels made of a user's function.

Kernel         __call__(X, Y=None)   a formula on whole blocks
PairKernel     pair(x, y)            an algorithm on two objects
FeatureKernel  features(X)           an explicit map, k(x, y) = ⟨φ(x), φ(y)⟩
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer.data.checks import check_nesting, describe
from mercer.data.points import Points, as_points, count, each, vectors
from mercer.kernels.base import BLOCK_MB, Kernel, Rule, as_factor, row_blocks
from mercer.kernels.checks import are_finite, finite
from mercer.native import sparsity
from mercer.native.clock import tick
from mercer.native.interruptible import elementwise, interruptible, multiply
from mercer.native.sparsity import Vectors

# A column that fills this share of the matrix of products is quicker as a dense one.
HEAVY = 1 / 50
PIECE_MB = 4.0  # of a product that is computed between checks for Ctrl-C
PIECE = 64  # pairs of points between two looks at the clock
MIRROR = 512  # rows of a matrix that are mirrored at a time


class PairKernel(Kernel):
    """k(x, y) by an algorithm on two objects: fill in `pair`, which is symmetric.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from mercer import PairKernel
    >>> @dataclass
    ... class CommonWords(PairKernel):
    ...     def pair(self, x, y):
    ...         return len(set(x.split()) & set(y.split()))
    ...
    >>> CommonWords()(["a rose is", "a rose"]).tolist()
    [[3.0, 2.0], [2.0, 2.0]]
    """

    @abstractmethod
    def pair(self, x: Any, y: Any) -> float:
        """k(x, y)."""

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        X = each(as_points(X))
        if Y is None:
            # Half the work, and symmetric bit for bit.
            K = np.empty((len(X), len(X)))
            for i, x in enumerate(X):
                K[i, i:] = K[i:, i] = self._row(
                    x, X, i, (i / len(X)) * (2 - i / len(X))
                )
            return K
        Y = each(as_points(Y))
        values = [self._row(x, Y, 0, i / len(X)) for i, x in enumerate(X)]
        return np.array(values, dtype=float).reshape(len(X), len(Y))

    def _row(self, x: Any, Y: Any, first: int, done: float) -> list[float]:
        """k(x, y) of the points from the first on; `done` is the share of all rows."""
        row: list[float] = []
        for begin in range(first, len(Y), PIECE):
            row += [self.pair(x, y) for y in Y[begin : begin + PIECE]]
            tick("kernel values", done)
        return row

    def diag(self, X: Points) -> np.ndarray:
        return np.array([self.pair(x, x) for x in each(as_points(X))], dtype=float)


class FeatureKernel(Kernel):
    """k(x, y) = ⟨φ(x), φ(y)⟩ with an explicit φ: fill in `features`.

    Examples
    --------
    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> from mercer import FeatureKernel
    >>> @dataclass
    ... class Lengths(FeatureKernel):
    ...     def features(self, X):
    ...         return np.array([[1.0, len(x)] for x in X])
    ...
    >>> Lengths()(["a", "abc"]).tolist()
    [[2.0, 4.0], [4.0, 10.0]]
    """

    _is_slow = False

    @abstractmethod
    def features(self, X: Points) -> Vectors:
        """Φ, the (n, p) float array or sparse matrix whose rows are φ(xᵢ)."""

    def feature_names(self, X: Points) -> list[str]:
        """A name for each column of `features(X)`."""
        return [f"φ{j}" for j in range(self.features(X).shape[1])]

    def aligned(self, X: Points, Y: Points | None = None) -> tuple[Vectors, Vectors]:
        """Φ(X) and Φ(Y) in the same columns.

        Replace it where a map has a column for whatever occurs in its points.
        """
        left = self.features(X)
        return left, left if Y is None else self.features(Y)

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return inner_products(*self.aligned(X, Y))

    def diag(self, X: Points) -> np.ndarray:
        features = self.features(X)
        if sp.issparse(features):
            return np.asarray(features.multiply(features).sum(axis=1)).ravel()
        return np.einsum("ij,ij->i", features, features)

    def matmul(
        self,
        X: Points,
        Y: Points | None,
        V: npt.ArrayLike,
        *,
        block_mb: float = BLOCK_MB,
    ) -> np.ndarray:
        left, right = self.aligned(X, Y)
        return np.asarray(left @ (right.T @ np.asarray(V, dtype=float)))

    def rule(self) -> Rule:
        return Rule(True, "an inner product ⟨φ(x), φ(y)⟩ by construction")


@dataclass
class BlockFunction(Kernel):
    """k(X, Y) = function(X, Y), a user's formula on whole blocks.

    Parameters
    ----------
    function : takes two datasets of n and m points, returns the (n, m) array
    psd : True if you vouch that it is a kernel, False if you know it is not

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import BlockFunction
    >>> k = BlockFunction(lambda X, Y: (1 + X @ Y.T) ** 2, psd=True)
    >>> k(np.array([[1.0], [2.0]])).tolist()
    [[4.0, 9.0], [9.0, 25.0]]
    """

    function: Callable[[Points, Points], Any]
    psd: bool | None = None  # given by the user here; other kernels derive it

    def __post_init__(self) -> None:
        check_callable(self, "function", self.function)
        check_verdict(self, self.psd)

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        X = as_points(X)
        Y = X if Y is None else as_points(Y)
        block = dense(self.function(X, Y))
        if block.shape != (count(X), count(Y)):
            raise ValueError(
                f"The function of BlockFunction must return one row per point of X and "
                f"one column per point of Y, shape {(count(X), count(Y))}; it returned "
                f"shape {block.shape}. For a function of two points use PairFunction."
            )
        return block

    def rule(self) -> Rule:
        return vouched(self.psd)


@dataclass
class PairFunction(PairKernel):
    """k(x, y) = function(x, y), a user's symmetric function of two points.

    Parameters
    ----------
    function : takes two points, returns a number
    psd : True if you vouch that it is a kernel, False if you know it is not

    Examples
    --------
    >>> from mercer import PairFunction
    >>> k = PairFunction(lambda s, t: len(set(s) & set(t)), psd=True)
    >>> k(["abc", "bcd"]).tolist()
    [[3.0, 2.0], [2.0, 3.0]]
    """

    function: Callable[[Any, Any], Any]
    psd: bool | None = None  # given by the user here; other kernels derive it

    def __post_init__(self) -> None:
        check_callable(self, "function", self.function)
        check_verdict(self, self.psd)

    def pair(self, x: Any, y: Any) -> float:
        value = self.function(x, y)
        try:
            return float(value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                "The function of PairFunction takes two points and must return a "
                f"number; it returned {describe(value)}. For a function of whole "
                "datasets use BlockFunction."
            ) from error

    def rule(self) -> Rule:
        return vouched(self.psd)


@dataclass
class FeatureFunction(FeatureKernel):
    """k(x, y) = ⟨phi(x), phi(y)⟩ for a user's map.

    Parameters
    ----------
    phi : takes a dataset of n points, returns an (n, p) array or sparse matrix

    Examples
    --------
    >>> from mercer import FeatureFunction
    >>> k = FeatureFunction(lambda X: [[len(s), s.count("a")] for s in X])
    >>> k.value("banana", "ananas")
    45.0
    """

    phi: Callable[[Points], Any]

    def __post_init__(self) -> None:
        check_callable(self, "phi", self.phi)

    def features(self, X: Points) -> Vectors:
        return mapped(self, "phi", self.phi, X)


@dataclass
class RankOne(FeatureKernel):
    """k(x, y) = f(x) f(y), a single feature.

    Parameters
    ----------
    f : takes a dataset of n points, returns n numbers

    Examples
    --------
    >>> from mercer import RankOne
    >>> RankOne(lambda X: [len(s) for s in X]).value("one", "three")
    15.0
    """

    f: Callable[[Points], Any]

    def __post_init__(self) -> None:
        check_callable(self, "f", self.f)

    def features(self, X: Points) -> Vectors:
        return numbers_at(self, "f", self.f, X)[:, None]

    def feature_names(self, X: Points) -> list[str]:
        return ["f(x)"]


@dataclass
class Precomputed(Kernel):
    """k(i, j) = matrix[i, j], kernel values that were computed elsewhere.

    A point is a whole number, the index of a reference point, or a row: its kernel
    values against all the reference points. Rows need no matrix: `k(rows, index)` is
    `rows[:, index]`, and `k(rows)` of a square matrix is that matrix.

    Parameters
    ----------
    matrix : (N, N) array, or None where only rows are ever compared with indices
    psd : True if you vouch that it is positive semidefinite; `check` tests it

    Examples
    --------
    >>> from mercer import Precomputed
    >>> k = Precomputed([[2.0, 1.0], [1.0, 3.0]])
    >>> k([0, 1], [1]).tolist()
    [[1.0], [3.0]]
    """

    matrix: Any = None
    psd: bool | None = None  # given by the user here; other kernels derive it

    _shared = ("matrix",)
    _is_slow = False

    def __post_init__(self) -> None:
        check_verdict(self, self.psd)
        if sp.issparse(self.matrix):
            sparsity.check(self.matrix)
        shape = np.shape(self.matrix)
        if self.matrix is not None and (len(shape) != 2 or shape[0] != shape[1]):
            raise ValueError(
                f"Precomputed needs a square matrix of kernel values; got shape "
                f"{shape}."
            )

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        X = self._indices_or_rows(X)
        Y = X if Y is None else self._indices_or_rows(Y)
        if X.ndim == 1:
            return self._between(X, Y)
        if Y.ndim == 1:
            _check_indices(Y, X.shape[1])
            return X[:, Y]
        if Y.shape != (X.shape[1], X.shape[1]):
            raise ValueError(
                f"Precomputed compares rows of kernel values with reference points: "
                f"rows of length {X.shape[1]} need the square matrix of as many "
                f"reference points, or their indices; got shape {Y.shape}."
            )
        return X

    def _between(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        if Y.ndim == 2:
            return self(Y, X).T
        if self.matrix is None:
            raise ValueError(
                "Precomputed() without its matrix cannot compare two reference "
                "points; make it Precomputed(K)."
            )
        _check_indices(X, self._size())
        _check_indices(Y, self._size())
        matrix = self.matrix if sp.issparse(self.matrix) else np.asarray(self.matrix)
        rows = interruptible(
            matrix.__getitem__, X, work=100.0 * len(X) * matrix.shape[1]
        )
        if np.array_equal(Y, np.arange(self._size())):
            return dense(rows)  # all columns as they stand: half of the copying
        work = 100.0 * len(X) * len(Y)
        return dense(interruptible(lambda: rows[:, Y], work=work))

    def matmul(
        self,
        X: Points,
        Y: Points | None,
        V: npt.ArrayLike,
        *,
        block_mb: float = BLOCK_MB,
    ) -> np.ndarray:
        """k(X, Y) @ V; of rows and many of their points, without picking columns."""
        rows = self._indices_or_rows(X)
        places = rows if Y is None else self._indices_or_rows(Y)
        n = rows.shape[1] if rows.ndim == 2 else 0
        if not n or places.ndim == 2 or 2 * len(places) < n:
            return super().matmul(X, Y, V, block_mb=block_mb)
        _check_indices(places, n)
        V = as_factor(V, len(places))
        wide = np.zeros((n, *V.shape[1:]))
        np.add.at(wide, places, V)
        found = multiply(rows, wide)
        if are_finite(found):
            return found
        # 0 times what is missing in a column that is not asked for is no number.
        return super().matmul(X, Y, V, block_mb=block_mb)

    def whole(self, X: Points) -> np.ndarray | None:
        """The matrix itself, where X are all its points in order; else None."""
        given = self.matrix
        if not isinstance(given, np.ndarray) or given.dtype.kind != "f":
            return None
        if not isinstance(X, np.ndarray) or X.ndim != 1 or X.dtype.kind not in "iu":
            return None
        if not np.array_equal(X, np.arange(len(given))):
            return None
        return finite(given, self)

    def diag(self, X: Points) -> np.ndarray:
        X = self._indices_or_rows(X)
        if X.ndim == 2:
            return np.diagonal(self(X)).copy()
        if self.matrix is None:
            return self._between(X, X)
        _check_indices(X, self._size())
        if sp.issparse(self.matrix):
            return dense(self.matrix.diagonal())[X]
        return dense(np.diagonal(self.matrix))[X]

    def rule(self) -> Rule:
        if self.psd is None:
            return Rule(None, "numbers from elsewhere; `check` tests this matrix")
        return vouched(self.psd, "numbers from elsewhere")

    def _size(self) -> int:
        """N, the number of reference points; 0 where it is not known."""
        return 0 if self.matrix is None else np.shape(self.matrix)[0]

    def _indices_or_rows(self, X: Points) -> np.ndarray:
        X = as_points(X)
        if isinstance(X, list):
            check_nesting(X)
            X = np.asarray(X)
        if getattr(X, "ndim", 2) == 2:
            rows = dense(vectors(X, "Precomputed"))
            if not self._is_index_column(X, rows):
                return self._checked(rows)
            X = rows[:, 0].astype(np.intp)
        if X.ndim != 1 or (X.dtype.kind not in "iu" and X.size):
            raise TypeError(
                "Precomputed compares indices (whole numbers) or rows of kernel "
                f"values; got an array of shape {X.shape} and dtype {X.dtype}."
            )
        return X.astype(np.intp)

    def _is_index_column(self, X: Points, rows: np.ndarray) -> bool:
        """Whether (n, 1) points are indices: whole, and too short to be rows."""
        if rows.shape[1] != 1 or not np.array_equal(rows, np.rint(rows)):
            return False
        whole = getattr(X, "dtype", np.dtype(float)).kind in "iu"
        return whole or self._size() > 1

    def _checked(self, rows: np.ndarray) -> np.ndarray:
        if self._size() not in (0, rows.shape[1]):
            raise ValueError(
                f"Precomputed has {self._size()} reference points; rows of kernel "
                f"values must be as long, got length {rows.shape[1]}."
            )
        return rows


def _check_indices(index: np.ndarray, n: int) -> None:
    if index.size and not (0 <= index.min() and index.max() < n):
        raise IndexError(
            f"Precomputed has {n} reference points, numbered 0 to {n - 1}; got an "
            f"index from {index.min()} to {index.max()}."
        )


def inner_products(left: Vectors, right: Vectors) -> np.ndarray:
    """left @ rightᵀ as an array; columns that are almost full go through BLAS."""
    if not (sp.issparse(left) and sp.issparse(right)):
        block = dense(multiply(left, right.T))
        return mirrored(block) if left is right else block
    own, left, right = left is right, sp.csr_array(left), sp.csr_array(right)
    (n, p), m = left.shape, right.shape[0]
    share = np.bincount(left.indices, minlength=p).astype(float)
    share *= np.bincount(right.indices, minlength=p)
    heavy = share > HEAVY * n * m
    full, rest = (
        [part[:, chosen] for part in (left, right)] for chosen in (heavy, ~heavy)
    )
    across, transposed = full[1].toarray().T, sp.csr_array(rest[1].T)
    out = np.empty((n, m), dtype=np.result_type(left.dtype, right.dtype))
    for rows in row_blocks(n, m, PIECE_MB):
        np.matmul(full[0][rows].toarray(), across, out=out[rows])
        if transposed.nnz:
            out[rows] += (rest[0][rows] @ transposed).toarray()
    return mirrored(out) if own else out


def mirrored(K: np.ndarray) -> np.ndarray:
    """K, written to: what is below its diagonal becomes what is above, bit for bit.

    A BLAS may round (i, j) and (j, i) differently.
    """
    if not K.flags.writeable:
        K = K.copy()
    for i in range(0, len(K), MIRROR):
        rows = slice(i, i + MIRROR)
        K[i + MIRROR :, rows] = K[rows, i + MIRROR :].T
        K[rows, rows] = np.triu(K[rows, rows]) + np.triu(K[rows, rows], 1).T
    return K


def vouched(psd: bool | None, what: str = "a user's function") -> Rule:
    """The rule of a kernel whose validity only its user knows."""
    if psd is None:
        return Rule(None, f"{what}; pass psd=True if you can vouch for it")
    known = "a kernel" if psd else "no kernel"
    return Rule(psd, f"{what}, {known} as stated by the user (psd={psd})")


def check_verdict(kernel: Kernel, psd: object) -> None:
    """Refuse a psd that is not True, False or None."""
    if not (psd is None or isinstance(psd, bool)):
        raise TypeError(
            f"{type(kernel).__name__} needs psd=True, False or None; got psd={psd!r}."
        )


def dense(block: Any) -> np.ndarray:
    """A block of kernel values as a float array."""
    if sp.issparse(block):
        block = sparsity.as_csr(block).toarray()
    return _floating(np.asarray(block))


def _floating(values: Vectors) -> Vectors:
    """Values of any real type in a precision we compute in."""
    if values.dtype in (np.float64, np.float32):
        return values
    if values.dtype.kind == "c":
        raise TypeError("Kernel values and features are real; got complex numbers.")
    return elementwise(lambda values: values.astype(float), values)


def check_callable(kernel: Kernel, name: str, function: object) -> None:
    """Refuse what cannot be called."""
    if not callable(function):
        raise TypeError(
            f"{type(kernel).__name__} needs a function {name}; got "
            f"{describe(function)}."
        )


def mapped(
    kernel: Kernel, name: str, function: Callable[[Points], Any], X: Points
) -> Vectors:
    """function(X), checked to have one row per point."""
    X = as_points(X)
    image = function(X)
    check_nesting(image)
    image = sparsity.as_csr(image) if sp.issparse(image) else np.asarray(image)
    shape = image.shape
    if len(shape) != 2 or shape[0] != count(X):
        raise ValueError(
            f"{name} of {type(kernel).__name__} takes a whole dataset and must return "
            f"one row per point, ({count(X)}, p); it returned shape {shape}. For a "
            f"function of one point write lambda X: [{name}(x) for x in X]."
        )
    # @ of booleans is a logical or, and of small integers it overflows.
    return _floating(image)


def numbers_at(
    kernel: Kernel, name: str, function: Callable[[Points], Any], X: Points
) -> np.ndarray:
    """function(X), checked to be one number per point."""
    X = as_points(X)
    image = dense(function(X))
    if image.shape != (count(X),):
        raise ValueError(
            f"{name} of {type(kernel).__name__} takes a whole dataset and must return "
            f"one number per point, ({count(X)},); it returned shape {image.shape}. "
            f"For a function of one point write lambda X: [{name}(x) for x in X]."
        )
    return image
