"""RandomFourier and PolynomialSketch: maps of vectors that are drawn at random.

Rahimi and Recht, Random features for large-scale kernel machines (2007), with
frequencies that are orthogonal within a block: Yu et al., Orthogonal random features
(2016). Pham and Pagh, Fast and scalable polynomial kernels via explicit feature maps
(2013).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.fft import irfft, rfft

from mercer.data.checks import describe
from mercer.data.points import Points, double, vectors, width
from mercer.kernels.approximate import Approximation
from mercer.kernels.base import Kernel, Rule, check_kernels
from mercer.kernels.checks import Range, check_whole
from mercer.kernels.explicit import check_columns, check_degree
from mercer.kernels.radial import RBF, Laplacian, Matern
from mercer.kernels.vector import Linear, Polynomial
from mercer.native.interruptible import multiply
from mercer.native.sparsity import Vectors

# Random Fourier features


@dataclass
class RandomFourier(Approximation):
    """k̃(x, y) = 1/p Σⱼ cos⟨ωⱼ, x - y⟩, j = 1..p, size = 2p, ωⱼ random frequencies.

    φ(x) holds cos⟨ωⱼ, x⟩/√p and sin⟨ωⱼ, x⟩/√p, and so has length 1. By Bochner's
    theorem the mean of k̃ is k for ω from the Fourier transform of k: a normal
    distribution for RBF, Student's t with 2ν degrees of freedom for Matern, Cauchy's in
    every coordinate for Laplacian. `resolve` draws them.

    Parameters
    ----------
    kernel : RBF, Matern or Laplacian
    size : the number of columns, even: a cosine and a sine of each frequency
    seed : of the frequencies
    orthogonal : whether blocks of d frequencies are orthogonal to each other, which
        lowers the error of RBF and Matern. It does not apply to Laplacian, whose
        frequencies are independent in every coordinate
    frequencies : (d, size / 2) array, of the kernel of scale 1: RBF(0.5), Laplacian(1),
        Matern(nu, 1); None to draw them for the dimension of the data

    Examples
    --------
    >>> from mercer import RandomFourier, RBF
    >>> k = RandomFourier(RBF(gamma=0.5), size=2000).resolve([[0.0, 0.0]])
    >>> abs(k.value([0, 0], [1, 1]) - RBF(gamma=0.5).value([0, 0], [1, 1])) < 0.05
    True
    """

    kernel: Kernel
    size: int
    seed: int = 0
    orthogonal: bool = True
    frequencies: Any = None

    def __post_init__(self) -> None:
        check_kernels(self, self.kernel)
        if type(self.kernel) not in (RBF, Matern, Laplacian):
            raise TypeError(
                "RandomFourier knows the Fourier transforms of RBF, Matern and "
                f"Laplacian; got {self.kernel}. Sums and products of such kernels are "
                "written outside, as 2 * RandomFourier(...); Nystrom takes any kernel."
            )
        check_whole(self, "size", self.size, least=2)
        check_columns("RandomFourier", self.size, f"Use {self.kernel} itself.")
        if self.size % 2:
            raise ValueError(
                f"RandomFourier needs an even size, a cosine and a sine for each "
                f"frequency; got size={self.size}."
            )
        check_whole(self, "seed", self.seed, least=0)
        if not isinstance(self.orthogonal, bool | np.bool_):
            raise TypeError(
                f"RandomFourier needs orthogonal=True or False; got "
                f"{describe(self.orthogonal)}."
            )
        if self.frequencies is not None:
            W = np.asarray(self.frequencies)
            if W.ndim != 2 or W.shape[1] != self.size // 2 or W.dtype.kind not in "iuf":
                raise ValueError(
                    f"RandomFourier(size={self.size}) needs a (d, {self.size // 2}) "
                    f"array of frequencies; got shape {W.shape}. Pass None to draw "
                    "them anew."
                )
            if not np.isfinite(W).all():
                raise ValueError("RandomFourier needs finite frequencies.")

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> RandomFourier:
        kernel = self.kernel.resolve(X, weight)
        drawn = self.frequencies
        if drawn is None:
            drawn = self._drawn(kernel, width(X, "RandomFourier"))
        elif kernel is self.kernel:
            return self
        return RandomFourier(kernel, self.size, self.seed, self.orthogonal, drawn)

    def _drawn(self, kernel: Kernel, d: int) -> np.ndarray:
        rng, p = np.random.default_rng(self.seed), self.size // 2
        if isinstance(kernel, Laplacian):
            return rng.standard_cauchy((d, p))
        W = _orthogonal(rng, d, p) if self.orthogonal else rng.normal(size=(d, p))
        if isinstance(kernel, Matern) and kernel.nu != math.inf:
            W = W / np.sqrt(rng.gamma(kernel.nu, size=p) / kernel.nu)
        return W

    def smooth_parameters(self) -> dict[str, Range]:
        # The order of a Matern is in the frequencies, which are drawn.
        found = super().smooth_parameters()
        return {name: one for name, one in found.items() if name != "kernel__nu"}

    def _scale(self) -> float:
        """What frequencies are multiplied by, where coordinates are not scaled."""
        if isinstance(self.kernel, RBF):
            return math.sqrt(2 * self.kernel._after("gamma"))
        if isinstance(self.kernel, Laplacian):
            return self.kernel._after("gamma")
        assert isinstance(self.kernel, Matern)
        return 1 / self.kernel._after("length")

    def _width(self) -> int:
        if self.frequencies is None:
            raise self._unresolved("the dimension of the frequencies", "frequencies")
        return int(self.size)

    def _mapped(self, X: Points) -> np.ndarray:
        X = double(vectors(X, "RandomFourier"))
        W = np.asarray(self.frequencies, dtype=float)
        _check_dimension(self, X, len(W))
        factors = self.kernel._stretch()  # type: ignore[attr-defined]
        W = W if factors is None else factors[:, None] * W
        angles = multiply(X, W * self._scale())
        waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        return waves / math.sqrt(self.size // 2)

    def feature_names(self, X: Points | None = None) -> list[str]:
        """cos or sin, and the number of the frequency."""
        self._width()
        return [f"{f}{j}" for f in ("cos", "sin") for j in range(self.size // 2)]

    def rule(self) -> Rule:
        note = (
            "; orthogonal does not apply to Laplacian, whose coordinates are "
            "independent"
            if self.orthogonal and isinstance(self.kernel, Laplacian)
            else ""
        )
        return Rule(
            True,
            "an inner product by construction: cos⟨ω, x - y⟩ is that of (cos, sin) of "
            f"⟨ω, x⟩ and of ⟨ω, y⟩{note}",
        )


def _orthogonal(rng: np.random.Generator, d: int, p: int) -> np.ndarray:
    """(d, p) normal vectors, those within a block of d at right angles."""
    blocks = []
    while p > 0 and d > 0:
        width = min(d, p)
        Q, R = np.linalg.qr(rng.normal(size=(d, width)))
        # With these signs every rotation is as likely as every other.
        Q = Q * np.where(R.diagonal() < 0, -1.0, 1.0)
        blocks.append(Q * np.sqrt(rng.chisquare(d, size=width)))
        p -= width
    return np.hstack(blocks) if blocks else np.zeros((d, p))


# Sketches of products of coordinates


@dataclass
class PolynomialSketch(Approximation):
    """k̃(x, y) = ⟨φ(x), φ(y)⟩, φ a count sketch of all products of `degree` coordinates.

    Every product lands in one of `size` columns with a random sign. The sketch is the
    cyclic convolution of `degree` sketches of (√scale x, √offset), computed by fast
    Fourier transforms without the products. The mean of k̃ over the seeds is k.

    Parameters
    ----------
    kernel : Polynomial or Linear
    size : the number of columns
    seed : of the columns and signs
    hashes : (degree, d + 1) whole numbers, the column h of each coordinate and of the
        offset, or -1 - h where its sign is -; None to draw them for the dimension of
        the data

    Examples
    --------
    >>> from mercer import Polynomial, PolynomialSketch
    >>> k = PolynomialSketch(Polynomial(2), size=1000).resolve([[1.0, 2.0]])
    >>> k.features([[1.0, 2.0]]).shape, round(k.value([1.0, 2.0], [3.0, 1.0]))
    ((1, 1000), 36)
    """

    kernel: Kernel
    size: int
    seed: int = 0
    hashes: Any = None

    def __post_init__(self) -> None:
        check_kernels(self, self.kernel)
        if type(self.kernel) not in (Polynomial, Linear):
            raise TypeError(
                f"PolynomialSketch approximates Polynomial and Linear; got "
                f"{self.kernel}. Nystrom takes any kernel."
            )
        check_whole(self, "size", self.size, least=1)
        check_columns("PolynomialSketch", self.size, f"Use {self.kernel} itself.")
        check_whole(self, "seed", self.seed, least=0)
        check_degree("PolynomialSketch", self._degree)
        if self.hashes is not None:
            H = np.asarray(self.hashes)
            if H.ndim != 2 or len(H) != self._degree or H.dtype.kind not in "iu":
                raise ValueError(
                    f"PolynomialSketch needs hashes of shape ({self._degree}, d + 1), "
                    f"whole numbers, one row for each factor of {self.kernel}; got "
                    f"shape {H.shape}. Pass None to draw them anew."
                )
            if H.size and not -self.size <= H.min() <= H.max() < self.size:
                raise ValueError(
                    f"PolynomialSketch(size={self.size}) needs hashes from "
                    f"{-self.size} to {self.size - 1}; got {H.min()} to {H.max()}."
                )

    @property
    def _degree(self) -> int:
        return int(self.kernel.degree) if isinstance(self.kernel, Polynomial) else 1

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> PolynomialSketch:
        kernel = self.kernel.resolve(X, weight)
        hashes = self.hashes
        if hashes is None:
            shape = self._degree, width(X, "PolynomialSketch") + 1
            rng = np.random.default_rng(self.seed)
            hashes = rng.integers(-int(self.size), int(self.size), size=shape)
        elif kernel is self.kernel:
            return self
        return PolynomialSketch(kernel, self.size, self.seed, hashes)

    def _width(self) -> int:
        if self.hashes is None:
            raise self._unresolved("the dimension of the hashes", "hashes")
        return int(self.size)

    def _mapped(self, X: Points) -> np.ndarray:
        X = double(vectors(X, "PolynomialSketch"))
        H = np.asarray(self.hashes, dtype=np.int64)
        _check_dimension(self, X, H.shape[1] - 1)
        scale, offset = 1.0, 0.0
        if isinstance(self.kernel, Polynomial):
            scale = float(self.kernel._resolved("scale"))
            offset = float(self.kernel.offset)
        X = X * math.sqrt(scale)
        return tensor_sketch(
            X, np.where(H < 0, ~H, H), np.where(H < 0, -1.0, 1.0), self.size, offset
        )

    def feature_names(self, X: Points | None = None) -> list[str]:
        """The number of the column."""
        return [f"sketch{j}" for j in range(self._width())]

    def rule(self) -> Rule:
        return Rule(
            True, "an inner product by construction: of sketches of all products"
        )


def tensor_sketch(
    X: Vectors, columns: np.ndarray, signs: np.ndarray, size: int, offset: float
) -> np.ndarray:
    """The (n, size) sketches of the products of (x, √offset), a factor for each hash.

    Parameters
    ----------
    X : (n, d) array or CSR
    columns, signs : (factors, d + 1), where each coordinate goes and its sign; with
        offset 0 their last column is not read
    """
    n, d = X.shape
    transformed = np.ones((n, size // 2 + 1), dtype=complex)
    for column, sign in zip(columns, signs, strict=True):
        spread = sp.csr_array((sign[:d], (np.arange(d), column[:d])), shape=(d, size))
        sketch = X @ spread
        sketch = sketch.toarray() if sp.issparse(sketch) else np.asarray(sketch)
        if offset:
            sketch[:, column[d]] += sign[d] * math.sqrt(offset)
        transformed *= rfft(sketch, axis=1)
    return irfft(transformed, size, axis=1)


def _check_dimension(kernel: Kernel, X: Vectors, d: int) -> None:
    if X.shape[1] != d:
        raise ValueError(
            f"{type(kernel).__name__} was resolved on points with {d} columns; these "
            f"have {X.shape[1]}."
        )
