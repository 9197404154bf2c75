"""Mercer's condition on data: verdict and witness, repairs, empirical features.

A kernel is a function all of whose Gram matrices are symmetric and positive
semidefinite. One matrix can refute it; no matrix can prove it. `Kernel.proof` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer._html import table
from mercer.data.checks import describe
from mercer.data.partitions import Partitions
from mercer.data.points import Points
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.native import sparsity
from mercer.native.interruptible import elementwise, multiply
from mercer.native.lapack import eigh, eigvalsh


@dataclass(frozen=True, eq=False, repr=False)
class Check:
    """The verdict of `check`; `bool(check)` is `psd`, and its repr is a sentence.

    Attributes
    ----------
    psd : symmetric, and no eigenvalue below -tolerance
    smallest, largest : eigenvalues of (K + Kᵀ)/2
    tolerance : n · eps · |λ|max, with eps that of the precision of K
    asymmetry : max |Kᵢⱼ - Kⱼᵢ|, at `where` = (i, j)
    witness : (n,) unit vector c with cᵀKc = smallest < 0, or None
    n : number of points
    kernel : what made the matrix, or None

    Examples
    --------
    >>> from mercer import check
    >>> verdict = check([[1.0, 2.0], [2.0, 1.0]])
    >>> verdict.psd, round(verdict.smallest, 4), round(verdict.largest, 4)
    (False, -1.0, 3.0)
    """

    psd: bool
    smallest: float
    largest: float
    tolerance: float
    asymmetry: float
    where: tuple[int, int]
    witness: np.ndarray | None
    n: int
    kernel: Kernel | None = None

    def __bool__(self) -> bool:
        return self.psd

    def __repr__(self) -> str:
        if not self.psd:
            faults = filter(None, [self._asymmetric(), self._negative()])
            return f"Not positive semidefinite: {'; '.join(faults)}."
        return (
            f"Positive semidefinite {self._where}: the smallest eigenvalue is "
            f"{self.smallest:.3g}, not below -{self.tolerance:.3g}. This is evidence, "
            f"not a proof; {self._proof()}."
        )

    def _repr_html_(self) -> str:
        rows = {
            "positive semidefinite": "yes, here" if self.psd else "no",
            "points": self.n,
            "smallest eigenvalue": f"{self.smallest:.6g}",
            "largest eigenvalue": f"{self.largest:.6g}",
            "tolerance": f"{self.tolerance:.3g}",
            "asymmetry": f"{self.asymmetry:.3g}",
        }
        return table(rows.items(), [repr(self)])

    @property
    def _where(self) -> str:
        if self.kernel is None:
            return f"in this {self.n} × {self.n} matrix"
        return "on this point" if self.n == 1 else f"on these {self.n} points"

    def _proof(self) -> str:
        if self.kernel is None:
            return "for a kernel, k.proof() states what is known of all points"
        verdict = {
            True: "gives the rule for all points",
            None: "states what is known of all points",
            False: "says that other points refute it",
        }[self.kernel.psd]
        return f"k.proof() {verdict}, k = {self.kernel!r}"

    def _asymmetric(self) -> str:
        if self.asymmetry <= self.tolerance:
            return ""
        i, j = self.where
        return (
            f"not symmetric, K[{i}, {j}] and K[{j}, {i}] differ by "
            f"{self.asymmetry:.3g}, more than {self.tolerance:.3g}"
        )

    def _negative(self) -> str:
        if self.witness is None:
            return ""
        if self.n <= 6:
            vector = f"c = ({', '.join(f'{entry:.2f}' for entry in self.witness)})"
        else:
            vector = "the unit vector c in `witness`"
        return (
            f"{self._where} the smallest eigenvalue is {self.smallest:.3g}, below "
            f"-{self.tolerance:.3g}; {vector} gives cᵀKc = {self.smallest:.3g}"
        )


def check(kernel: Kernel | Gram | Any, points: Points | None = None) -> Check:
    """Is K symmetric, and cᵀKc ≥ 0 for all c, to within n · eps · |λ|max?

    The answer is about these points. A failure refutes the kernel, with a witness;
    a success is evidence and never a proof.

    Parameters
    ----------
    kernel : a kernel, with `points`; or alone an (n, n) array or a `Gram`
    points : of any kind; of a Dask collection, kernel values are computed where it is

    Examples
    --------
    >>> from mercer import RBF, check
    >>> bool(check(RBF(gamma=1.0), [[0.0], [1.0], [3.0]]))
    True
    >>> round(check([[1.0, 2.0], [2.0, 1.0]]).smallest, 4)
    -1.0
    """
    if isinstance(kernel, Kernel):
        if points is None:
            raise TypeError(
                f"check needs points to try {kernel} on: check(kernel, points). "
                "kernel.proof() needs none."
            )
        return _examined(*_square(Gram(kernel, points)), kernel)
    if points is not None:
        raise TypeError(
            f"check takes a kernel and points, or a matrix alone; got points with "
            f"{describe(kernel)}."
        )
    made_by = kernel.kernel if isinstance(kernel, Gram) else None
    return _examined(*_square(kernel), made_by)


def _values(gram: Gram) -> np.ndarray:
    """The matrix of a Gram, with both halves computed where they may differ."""
    if gram.Y is not None or gram.kernel.psd or isinstance(gram.X, Partitions):
        return gram.dense()
    # k(X) may mirror one half, which would hide an asymmetric function.
    gram.check_memory()
    return gram.kernel(gram.X, gram.X)


def _examined(K: np.ndarray, eps: float, kernel: Kernel | None = None) -> Check:
    n = len(K)
    i, j = sorted(divmod(elementwise(lambda K: int(np.argmax(np.abs(K - K.T))), K), n))
    asymmetry = float(np.abs(K[i, j] - K[j, i]))
    S = _symmetric(K)
    eigenvalues = eigvalsh(S)
    tolerance = _tolerance(eigenvalues, eps)
    indefinite = eigenvalues[0] < -tolerance
    witness = None
    if indefinite:
        witness = eigh(S, subset_by_index=[0, 0])[1][:, 0]
        witness *= np.copysign(1, witness[np.argmax(np.abs(witness) > 0.1 / n)])
        witness.setflags(write=False)
    return Check(
        psd=bool(not indefinite and asymmetry <= tolerance),
        smallest=float(eigenvalues[0]),
        largest=float(eigenvalues[-1]),
        tolerance=tolerance,
        asymmetry=asymmetry,
        where=(i, j),
        witness=witness,
        n=n,
        kernel=kernel,
    )


def _tolerance(eigenvalues: np.ndarray, eps: float) -> float:
    return float(len(eigenvalues) * eps * np.abs(eigenvalues).max())


def _symmetric(K: np.ndarray) -> np.ndarray:
    return elementwise(lambda K: (K + K.T) / 2, K)


def _asymmetry(K: np.ndarray) -> float:
    return float(elementwise(lambda K: np.abs(K - K.T).max(), K))


def _square(K: Any) -> tuple[np.ndarray, float]:
    """K as a float64 array, and eps of the precision it came in."""
    if isinstance(K, Gram):
        K = _values(K)
    K = np.asarray(sparsity.as_csr(K).toarray() if sp.issparse(K) else K)
    if K.ndim != 2 or K.shape[0] != K.shape[1] or K.shape[0] == 0:
        raise ValueError(
            f"A Gram matrix is square, (n, n) with n ≥ 1; got shape {K.shape}."
        )
    if K.dtype.kind not in "fiub":
        raise TypeError(f"A Gram matrix holds real numbers; got dtype {K.dtype}.")
    if not elementwise(lambda K: np.isfinite(K).all(), K):
        i, j = map(int, np.argwhere(~np.isfinite(K))[0])
        raise ValueError(
            f"A Gram matrix holds finite numbers; K[{i}, {j}] is {K[i, j]}."
        )
    precision = K.dtype if K.dtype.kind == "f" else np.float64
    K = elementwise(partial(np.array, dtype=float), K)
    return K, max(np.finfo(precision).eps, np.finfo(float).eps)


@dataclass(frozen=True, eq=False, repr=False)
class Repair:
    """A matrix made positive semidefinite by `repair`; np.asarray(...) is `matrix`.

    Attributes
    ----------
    matrix : (n, n) array that passes `check`
    how : "clip", "flip" or "shift"
    change : Frobenius norm of matrix - K, with K as it was given
    smallest_before : smallest eigenvalue of (K + Kᵀ)/2
    asymmetry : max |Kᵢⱼ - Kⱼᵢ| of K as it was given
    needed : False where no eigenvalue was negative beyond rounding; none was changed

    Examples
    --------
    >>> from mercer import repair
    >>> fixed = repair([[1.0, 2.0], [2.0, 1.0]])
    >>> fixed.needed, round(fixed.smallest_before, 4), round(fixed.change, 4)
    (True, -1.0, 1.0)
    """

    matrix: np.ndarray
    how: str
    change: float
    smallest_before: float
    asymmetry: float
    needed: bool

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray:
        return np.array(self.matrix, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        n = len(self.matrix)
        symmetrised = (
            f"It was asymmetric by {self.asymmetry:.3g} and was symmetrised first, "
            "(K + Kᵀ)/2. "
            if self.asymmetry
            else ""
        )
        if not self.needed:
            return (
                f"{symmetrised}Nothing to repair in this {n} × {n} matrix: the "
                f"smallest eigenvalue is {self.smallest_before:.3g}."
            )
        what = {
            "clip": "negative eigenvalues set to 0",
            "flip": "negative eigenvalues changed in sign",
            "shift": "the smallest eigenvalue subtracted from the diagonal",
        }[self.how]
        return (
            f"{symmetrised}Repaired by {self.how}, {what}: the smallest eigenvalue was "
            f"{self.smallest_before:.3g}; the {n} × {n} matrix moved by "
            f"{self.change:.3g} in Frobenius norm."
        )

    def _repr_html_(self) -> str:
        n = len(self.matrix)
        rows = {
            "repaired": f"by {self.how}" if self.needed else "nothing to repair",
            "matrix": f"{n} × {n}",
            "smallest eigenvalue before": f"{self.smallest_before:.6g}",
            "change in Frobenius norm": f"{self.change:.3g}",
            "asymmetry before": f"{self.asymmetry:.3g}",
        }
        return table(rows.items(), [repr(self)])


def repair(K: Gram | npt.ArrayLike, how: str = "clip") -> Repair:
    """The matrix S max(D, 0) Sᵀ, S |D| Sᵀ or K - λmin I, for K = S D Sᵀ indefinite.

    An asymmetric K is replaced by (K + Kᵀ)/2 first, and the result says so. A matrix
    that passes `check` is left as it is.

    Parameters
    ----------
    K : (n, n) array or `Gram`
    how : "clip", the nearest positive semidefinite matrix in Frobenius norm; "flip",
        which keeps the size of every eigenvalue; "shift", which keeps what is off the
        diagonal

    Examples
    --------
    >>> from mercer import repair
    >>> repair([[1.0, 2.0], [2.0, 1.0]]).matrix.round(4).tolist()
    [[1.5, 1.5], [1.5, 1.5]]
    >>> repair([[1.0, 2.0], [2.0, 1.0]], how="shift").matrix.round(4).tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """
    if how not in ("clip", "flip", "shift"):
        raise ValueError(f'repair goes by "clip", "flip" or "shift"; got {how!r}.')
    K, eps = _square(K)
    S = _symmetric(K)
    eigenvalues, vectors = eigh(S)
    smallest = eigenvalues[0]
    needed = bool(smallest < -_tolerance(eigenvalues, eps))
    if not needed:
        matrix = S
    elif how == "shift":
        matrix = _passing(_lifted(S, -smallest))
    else:
        mended = np.abs(eigenvalues) if how == "flip" else np.maximum(eigenvalues, 0)
        matrix = _passing(_symmetric(multiply(vectors * mended, vectors.T)))
    return Repair(
        matrix=matrix,
        how=how,
        change=float(elementwise(lambda A, B: np.linalg.norm(A - B), matrix, K)),
        smallest_before=float(smallest),
        asymmetry=_asymmetry(K),
        needed=needed,
    )


def _passing(K: np.ndarray) -> np.ndarray:
    """K, lifted by n · eps · λmax on the diagonal where rounding makes it fail."""
    while not (verdict := _examined(K, np.finfo(float).eps)):
        K = _lifted(K, max(verdict.tolerance, np.finfo(float).tiny))
    return K


def _lifted(K: np.ndarray, shift: float) -> np.ndarray:
    """K + shift · I."""
    K = elementwise(np.copy, K)
    K[np.diag_indices(len(K))] += shift
    return K


@dataclass(frozen=True, eq=False, repr=False)
class EmpiricalFeatures:
    """Φ = S √D with K = S D Sᵀ = Φ Φᵀ: coordinates that reproduce the kernel values.

    Attributes
    ----------
    features : (n, p) array Φ, columns by decreasing eigenvalue
    eigenvalues : (p,) array, those above the tolerance

    Examples
    --------
    >>> from mercer.theory import empirical_features
    >>> found = empirical_features([[2.0, 1.0], [1.0, 2.0]])
    >>> found
    EmpiricalFeatures of 2 points in 2 dimensions
    >>> found.eigenvalues.round(4).tolist()
    [3.0, 1.0]
    """

    features: np.ndarray
    eigenvalues: np.ndarray

    def transform(self, K_new: npt.ArrayLike) -> np.ndarray:
        """K_new S D^(-½), the (m, p) features of new points, by their kernel values.

        They are the projections of φ(x) on the span of the training points, so that
        `transform(K_new) @ features.T` is K_new, and `transform(K)` is `features`.

        Parameters
        ----------
        K_new : (m, n) array k(new, training)
        """
        K_new = np.asarray(K_new, dtype=float)
        n = len(self.features)
        if K_new.ndim != 2 or K_new.shape[1] != n:
            raise ValueError(
                f"transform needs the kernel values of new points against the {n} "
                f"training points, an (m, {n}) array k(new, training); got shape "
                f"{K_new.shape}."
            )
        return multiply(K_new, self.features / self.eigenvalues)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray:
        return np.array(self.features, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        n, p = self.features.shape
        return f"EmpiricalFeatures of {n} points in {p} dimensions"


def empirical_features(
    K: Gram | npt.ArrayLike, tolerance: float | None = None
) -> EmpiricalFeatures:
    """Φ = S √D for K = S D Sᵀ, an explicit feature map on n points: K = Φ Φᵀ.

    Parameters
    ----------
    K : (n, n) array or `Gram`, symmetric positive semidefinite
    tolerance : eigenvalues up to this one are left out; None for n · eps · λmax

    Examples
    --------
    >>> from mercer.theory import empirical_features
    >>> Phi = empirical_features([[2.0, 1.0], [1.0, 2.0]]).features
    >>> (Phi @ Phi.T).round(4).tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    """
    K, eps = _square(K)
    eigenvalues, vectors = eigh(_symmetric(K))
    rounding = _tolerance(eigenvalues, eps)
    if tolerance is None:
        tolerance = rounding
    elif not tolerance >= 0:
        raise ValueError(f"empirical_features needs tolerance ≥ 0; got {tolerance!r}.")
    slack = max(rounding, tolerance)
    if eigenvalues[0] < -slack or _asymmetry(K) > slack:
        raise ValueError(
            "Features with K = ΦΦᵀ exist for positive semidefinite K only. "
            f"{_examined(K, eps)!r} Use repair(K), which names what it changes."
        )
    kept = np.flatnonzero(eigenvalues > tolerance)[::-1]
    eigenvalues = eigenvalues[kept]
    features = elementwise(lambda S: S[:, kept] * np.sqrt(eigenvalues), vectors)
    return EmpiricalFeatures(features, eigenvalues)
