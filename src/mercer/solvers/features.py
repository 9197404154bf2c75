"""Φ with K = ΦΦᵀ, where a kernel has a finite explicit map: products in linear time.

features_of(gram)    Φ of a Gram, made once and kept with it
FeatureRows          Φ by its rows, less a common offset
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.gram import Gram
from mercer.maps import explicit
from mercer.native.interruptible import interruptible, multiply
from mercer.solvers.rounding import LAST, UNIT

BLOCK = 2**18  # numbers of a block of rows, which stays in the caches
RUN = 1024  # rows whose terms are added one after another; then the sums of these
FAR = 1e3  # a mean so many standard deviations from 0 takes digits away


class FeatureRows:
    """Φ - 1cᵀ, (n, p), by its rows: products in float64, and how far they can be off.

    Parameters
    ----------
    matrix : Φ, float64 array or CSR
    center : c, which is subtracted where it is read; None for 0
    """

    def __init__(self, matrix: Any, center: np.ndarray | None = None):
        self.matrix, self.center = matrix, center
        self.sparse = sp.issparse(matrix)
        self._across: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def entries(self) -> int:
        """How many numbers a product reads."""
        return int(self.matrix.nnz) if self.sparse else int(self.matrix.size)

    @property
    def across(self) -> Any:
        """Φᵀ; that of CSR is kept, as its products take half the time."""
        if not self.sparse:
            return self.matrix.T
        if self._across is None:
            self._across = sp.csr_array(self.matrix.T)
        return self._across

    def centered(self) -> FeatureRows:
        """The same less the mean of its rows, where that is far from 0.

        Of sparse rows nothing is subtracted: they would not be sparse any more.
        """
        if self.sparse or not len(self.matrix):
            return self
        mean, square = np.zeros((2, self.shape[1]))
        first = self.matrix[0].copy()
        for rows in self._blocks():
            part = self.matrix[rows] - first
            mean += part.sum(axis=0)
            square += np.einsum("ij,ij->j", part, part)
        n = len(self.matrix)
        spread = np.sqrt(np.maximum(square / n - (mean / n) ** 2, 0.0))
        mean = first + mean / n
        far = np.abs(mean) > FAR * spread
        # A column that is constant is 0 then, and no part of the problem.
        return FeatureRows(self.matrix, np.where(far, mean, 0.0)) if far.any() else self

    def times(self, w: np.ndarray) -> np.ndarray:
        """(Φ - 1cᵀ) w."""
        if self.center is None:
            return np.asarray(multiply(self.matrix, w))
        out = np.empty(len(self.matrix))
        for rows in self._blocks():
            out[rows] = (self.matrix[rows] - self.center) @ w
        return out

    def pull(self, v: np.ndarray) -> np.ndarray:
        """(Φ - 1cᵀ)ᵀ v."""
        if self.sparse:
            return np.asarray(self.across @ v)
        n, p = self.shape
        if self.center is None:
            whole = n - n % RUN
            runs = (n // RUN, RUN)
            part = self.matrix[:whole].reshape(*runs, p)
            sums = interruptible(
                np.matmul, v[:whole].reshape(runs[0], 1, RUN), part, work=float(n) * p
            )
            return sums[:, 0].sum(axis=0) + v[whole:] @ self.matrix[whole:]
        sums = [
            v[rows] @ (self.matrix[rows] - self.center)
            for rows in (slice(begin, begin + RUN) for begin in range(0, n, RUN))
        ]
        return np.sum(sums, axis=0) if n else np.zeros(p)

    def take(self, index: np.ndarray) -> FeatureRows:
        """Some of the rows, copied."""
        some = self.matrix[index]
        return FeatureRows(some if self.center is None else some - self.center)

    def weighted(self, index: np.ndarray, weight: np.ndarray, border) -> np.ndarray:
        """UᵀDU of the rows U = [Φ, border] of this index, a block of them at a time."""
        p = self.shape[1]
        out = np.zeros((p + border.shape[1],) * 2)
        step = max(64, BLOCK // max(p, 1)) if not self.sparse else len(index) or 1
        for begin in range(0, len(index), step):
            part = slice(begin, begin + step)
            U = self.take(index[part]).matrix
            if self.sparse:
                scaled = sp.csr_array(U.T.multiply(weight[part]))
                out[:p, :p] += (scaled @ U).toarray()
                out[:p, p:] += scaled @ border[part]
                out[p:, :p] = out[:p, p:].T
                out[p:, p:] += (border[part].T * weight[part]) @ border[part]
            else:
                U = np.hstack([U, border[part]])
                U *= np.sqrt(weight[part])[:, None]
                out += U.T @ U
        return out

    def rounding(self, coef: np.ndarray, w: np.ndarray) -> float:
        """How far F = Φ(Φᵀcoef) can be off at a point, w = Φᵀcoef.

        |Φ|(|Φ|ᵀ|coef|) with what adding n and p numbers does (`rounding.py`).
        """
        size, p = np.abs(coef), self.shape[1]
        terms = np.count_nonzero(coef)
        if not self.sparse:
            terms = (np.sqrt(min(terms, RUN)) + np.sqrt(terms / RUN)) ** 2
        pulled = np.zeros(p)
        for rows, part in self._magnitudes():
            pulled += part.T @ size[rows]
        off = (np.sqrt(terms) + LAST) * pulled + (np.sqrt(p) + LAST) * np.abs(w)
        most = 0.0
        for _, part in self._magnitudes():
            most = max(most, float(np.max(part @ off, initial=0.0)))
        return UNIT * most

    def _magnitudes(self) -> Iterator[tuple[slice, Any]]:
        """|Φ - 1cᵀ|, a block of rows at a time."""
        for rows in self._blocks():
            part = self.matrix[rows]
            if self.center is not None:
                part = part - self.center
            yield rows, abs(part)

    def _blocks(self) -> Iterator[slice]:
        n, p = self.shape
        wide = self.entries / n if self.sparse and n else p
        step = max(64, int(BLOCK / max(wide, 1)))
        for begin in range(0, n, step):
            yield slice(begin, min(begin + step, n))


def features_of(gram: Gram) -> FeatureRows:
    """Φ of the points of a Gram, made when it is first asked for and kept with it."""
    if gram._features is None:
        rows = _of_origin(gram)
        if rows is None:
            rows = FeatureRows(explicit(gram.kernel, gram.X).matrix)
        gram._features = rows
    return gram._features


def _of_origin(gram: Gram) -> FeatureRows | None:
    """Rows of Φ of the Gram whose points these were taken from, where it has them."""
    if gram._origin is None:
        return None
    origin, index = gram._origin
    rows = origin._features
    # Where Φ are the points themselves, they have been taken already.
    return None if rows is None or rows.matrix is origin.X else rows.take(index)
