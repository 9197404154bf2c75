"""The words for kernels: scikit-learn's ("rbf", "poly", ...), as kernels.

They are turned into kernels here and nowhere else; nothing below this file knows them.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel as GaussianProcessKernel
from sklearn.metrics.pairwise import (
    additive_chi2_kernel,
    polynomial_kernel,
    sigmoid_kernel,
)

from mercer.data.checks import brief
from mercer.data.copies import owned
from mercer.data.points import Points, vectors
from mercer.kernels.algebra import Conformal, Normalized
from mercer.kernels.base import Kernel
from mercer.kernels.coordinate import ChiSquared
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.operators import Constant
from mercer.kernels.radial import RBF, Laplacian
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import BlockFunction, PairFunction, Precomputed

# Other names of the kernels that scikit-learn names by a word.
_ALIASES = {
    "gaussian": "rbf",
    "gauss": "rbf",
    "squared_exponential": "rbf",
    "quadratic": "poly",
    "cubic": "poly",
    "tanh": "sigmoid",
    "chi_squared": "chi2",
    "laplace": "laplacian",
    "dot": "linear",
}
Function = Callable[..., Any]  # of two points or two sets of them: kernel values
MADE = {
    "rbf": "RBF()",
    "poly": "Polynomial(3)",
    "linear": "Linear()",
    "laplacian": "Laplacian()",
    "sigmoid": "Sigmoid()",
    "chi2": "ChiSquared(1.0)",
}
# The kernels that do what transformers of scikit-learn do.
AS_KERNELS = {
    "Nystroem": "Nystrom(kernel, size)",
    "RBFSampler": "RandomFourier(RBF(gamma), size)",
    "PolynomialCountSketch": "PolynomialSketch(Polynomial(degree), size)",
}


def nearest_word(word: str) -> str:
    """The word for a kernel that was meant, "" where none comes near."""
    plain = word.lower().replace(" ", "_").replace("-", "_")
    near = difflib.get_close_matches(plain, [*WORDS, *_ALIASES], 1, 0.6)
    return _ALIASES.get(near[0], near[0]) if near else ""


def as_kernel(kernel: Kernel | str | Function | None) -> Kernel:
    """What the parameter `kernel` of a machine stands for, owned by the machine.

    A word is the kernel of that name with its own defaults; a function takes two sets
    of points and gives their matrix; None is RBF(). The drop-ins for scikit-learn's
    machines use `as_scikit_learn_kernel`.
    """
    if isinstance(kernel, str):
        _check_word(kernel)
        return _OWN_WORDS[kernel]()
    return _as_object(kernel, BlockFunction)


def as_scikit_learn_kernel(
    kernel: Kernel | str | Function | None,
    X: Points,
    *,
    gamma: float | None = None,
    degree: float = 3,
    coef0: float = 1,
    parameters: dict[str, Any] | None = None,
    function: Callable[[Function], Kernel] = PairFunction,
) -> Kernel:
    """What the parameter `kernel` stands for in a drop-in, on the points X.

    Parameters
    ----------
    kernel : a kernel; one of scikit-learn's words; a function; or None for RBF()
    gamma, degree, coef0 : of the words; gamma None is 1/d, and 1 for "chi2"
    parameters : keyword arguments of the function
    function : what a function is: PairFunction takes two points, BlockFunction two sets
    """
    if isinstance(kernel, str):
        _check_word(kernel)
        if gamma is None:
            gamma = 1.0 if kernel == "chi2" else 1 / X.shape[1]
        return _WORDS[kernel](float(gamma), degree, coef0)
    return _as_object(kernel, function, parameters)


def _check_word(word: str) -> None:
    if word not in _WORDS:
        raise ValueError(
            f"The words for kernels are {', '.join(sorted(_WORDS))}; got "
            f"kernel={brief(word)}. Any other kernel is an object, such as Matern()."
        )


def _as_object(
    kernel: Kernel | Function | None,
    function: Callable[[Function], Kernel],
    parameters: dict[str, Any] | None = None,
) -> Kernel:
    """A kernel that shares no array with the parameter; every fit comes by here."""
    if kernel is None:
        return RBF()
    if isinstance(kernel, Kernel):
        return kernel.owned()
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        raise TypeError(
            f"A kernel is an object; got the class {kernel.__name__}. Write "
            f"{kernel.__name__}()."
        )
    if isinstance(kernel, GaussianProcessKernel):
        # scikit-learn's own kernel objects are called on whole blocks.
        return BlockFunction(clone(kernel))
    return function(partial(kernel, **owned(parameters)) if parameters else kernel)


def _constant_at_zero(make: Callable[[float], Kernel]) -> Callable[..., Kernel]:
    """exp(-γ d(x, y)) is 1 everywhere at γ = 0, which our kernels do not take."""
    return lambda gamma, degree, coef0: make(gamma) if gamma > 0 else Constant(1.0)


def _polynomial(gamma: float, degree: float, coef0: float) -> Kernel:
    if gamma > 0 and coef0 >= 0 and degree == int(degree):
        return Polynomial(int(degree), scale=gamma, offset=float(coef0))
    # What scikit-learn allows beyond the kernels; validity unknown.
    return BlockFunction(
        partial(polynomial_kernel, degree=degree, gamma=gamma, coef0=coef0)
    )


def _sigmoid(gamma: float, degree: float, coef0: float) -> Kernel:
    if gamma > 0:
        return Sigmoid(gamma, float(coef0))
    return BlockFunction(partial(sigmoid_kernel, gamma=gamma, coef0=coef0))


def _inverse_norms(X: Points) -> np.ndarray:
    """1/‖x‖, and 0 for x = 0."""
    X = vectors(X)
    square = X.multiply(X) if sp.issparse(X) else np.square(X)
    norms = np.sqrt(np.asarray(square.sum(axis=1), dtype=float).ravel())
    return np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)


_WORDS: dict[str, Callable[..., Kernel]] = {
    "linear": lambda gamma, degree, coef0: Linear(),
    "poly": _polynomial,
    "polynomial": _polynomial,
    "rbf": _constant_at_zero(RBF),
    "laplacian": _constant_at_zero(Laplacian),
    "chi2": _constant_at_zero(ChiSquared),
    "additive_chi2": lambda gamma, degree, coef0: BlockFunction(
        additive_chi2_kernel, psd=False
    ),
    "sigmoid": _sigmoid,
    # Normalized(Linear()) makes zero vectors alike; scikit-learn's cosine is 0 there.
    "cosine": lambda gamma, degree, coef0: Conformal(Linear(), _inverse_norms),
    "precomputed": lambda gamma, degree, coef0: Precomputed(),
}
WORDS = frozenset(_WORDS)

# The same words in machines that are nobody's drop-ins: kernels with their defaults.
_OWN_WORDS: dict[str, Callable[[], Kernel]] = {
    "linear": Linear,
    "poly": partial(Polynomial, 3),
    "polynomial": partial(Polynomial, 3),
    "rbf": RBF,
    "laplacian": Laplacian,
    "chi2": ChiSquared,
    "additive_chi2": partial(BlockFunction, additive_chi2_kernel, psd=False),
    "sigmoid": Sigmoid,
    "cosine": lambda: Normalized(Linear()),
    "precomputed": Precomputed,
}
