"""Transformers that write φ(x) out: explicit maps, and approximate ones.

FeatureMap(kernel)       φ of any kernel that has one, in the columns of its fit
Nystroem                 φ along the φ of some training points, of any kernel
RBFSampler               waves of random frequencies, for the Gaussian kernel
PolynomialCountSketch    a sketch of all products of coordinates

The last three are drop-ins for scikit-learn's, with its numbers for a `random_state`.
The kernels behind them are `Nystrom`, `RandomFourier` and `PolynomialSketch`.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import (
    _check_feature_names_in,
    check_is_fitted,
    validate_data,
)

from mercer.data.partitions import Partitions, is_collection
from mercer.data.points import Points, column_names, count, double, take
from mercer.gram import Gram
from mercer.kernels.base import BLOCK_MB, Kernel, row_blocks
from mercer.kernels.radial import RBF
from mercer.kernels.random_features import tensor_sketch
from mercer.kernels.vector import Polynomial, inverse_variance, is_vectors
from mercer.kernels.ways import Precomputed
from mercer.machines.base import NO_PAIRWISE_MATRIX
from mercer.machines.checks import (
    TIME_LIMIT,
    checked_parameters,
    refuse_collection,
)
from mercer.machines.estimator import KernelEstimator
from mercer.machines.words import WORDS, as_kernel, as_scikit_learn_kernel
from mercer.machines.wrappers import outside
from mercer.maps import Features, explicit, has_quick_map
from mercer.native.clock import breakable, tick
from mercer.native.interruptible import multiply
from mercer.solvers.eigen import Lapack
from mercer.solvers.partitioned_map import PartitionedMap, mapped, names_of
from mercer.solvers.roads import Road, by_matrix, on_map

SMALLEST = 1e-12  # singular value of the kernel matrix, as in scikit-learn


class FeatureMap(TransformerMixin, KernelEstimator):
    """φ(x) of a kernel with an explicit map, in the columns of the points of `fit`.

    Maps with a column for whatever occurs (substrings, fragments of trees, labels of
    graphs) keep the columns that `fit` saw; others of new points are dropped. What is
    sparse stays sparse (CSR).

    Parameters
    ----------
    kernel : with an explicit map; what it learns from data, `fit` fixes. None for
        Polynomial(2)
    verbose : whether to print what takes long, as landmarks of `Nystrom`
    time_limit : seconds; None for no limit. A map is whole or none: a `fit` that would
        take longer ends with a TimeoutError

    Attributes
    ----------
    kernel_ : the kernel, nothing left to learn
    n_features_in_, feature_names_in_ : of vectors and of data frames

    Examples
    --------
    >>> from mercer import FeatureMap, Spectrum
    >>> machine = FeatureMap(Spectrum(2)).fit(["banana", "bandana"])
    >>> sorted(machine.get_feature_names_out())[:2]
    ["substring 'an'", "substring 'ba'"]
    >>> machine.transform(["cabana", "kiwi"]).sum(axis=1).tolist()
    [3.0, 0.0]
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [StrOptions(set(WORDS)), callable, None],
        "verbose": ["verbose"],
        "time_limit": TIME_LIMIT,
    }

    _solves_partitions: ClassVar[bool] = True

    kernel_: Kernel
    _keys: Sequence[Hashable]
    _names: list[str]

    def __init__(
        self,
        kernel: Any = None,
        *,
        verbose: Any = False,
        time_limit: float | None = None,
    ):
        self.kernel = kernel
        self.verbose = verbose
        self.time_limit = time_limit

    @checked_parameters
    def fit(self, X: Points, y: Any = None) -> Self:
        """Learn the columns of the points X; returns self. y is ignored."""
        self._learn(X)
        return self

    @checked_parameters
    def fit_transform(self, X: Points, y: Any = None) -> Any:
        """`fit`, and Φ of the same points."""
        found = self._learn(X)
        return self.transform(X) if is_collection(X) else found.matrix

    def _learn(self, X: Points) -> Features:
        X = self._validated_points(X)
        there = isinstance(X, Partitions)
        with breakable():
            kernel = self._as_kernel().resolve(X)
            tick("features")
            near = X.fetched(np.arange(1)) if there else X
            found = explicit(kernel, near, self._columns(near))
        self.kernel_, self._keys = kernel, found.keys
        if isinstance(found.keys, range) or not there:
            self._names = found.names()
        else:
            self._keys = self._columns_of(kernel, X).keys
            self._names = names_of(kernel, X, self._keys)
        if not isinstance(self._keys, range):
            self._keys = list(self._keys)
        return found

    def _columns_of(self, kernel: Kernel, X: Partitions) -> PartitionedMap:
        """Φ in the columns that occur in any of the partitions."""
        found = mapped(kernel, X)
        if found is None:
            raise MemoryError(
                f"The explicit map of {kernel} on {X!r} finds no room with the "
                "workers. Add workers, or choose a map of fewer columns: "
                "Nystrom(kernel, size)."
            )
        return found

    def _road(self, X: Points, y: Any) -> Road:
        X = self._validated_points(X)
        gram = Gram(self._as_kernel().resolve(X), X)
        if isinstance(X, Partitions) and not has_quick_map(gram.kernel):
            wide = self._columns_of(gram.kernel, X).points.shape[1]
            kept = 8.0 * len(X) * wide
            return Road("features", gram, kept=kept, columns=wide, wide=wide)
        return on_map(gram, None)

    def _as_kernel(self) -> Kernel:
        return Polynomial(2) if self.kernel is None else as_kernel(self.kernel)

    def transform(self, X: Points) -> Any:
        """Φ of the points X, (n, p) array or CSR, in the columns of `fit`."""
        check_is_fitted(self)
        X = self._validated_points(X, reset=False)
        found = explicit(self.kernel_, X)
        if found.keys == self._keys:
            return found.matrix
        place = {key: j for j, key in enumerate(self._keys)}
        column = np.array([place.get(key, -1) for key in found.keys], dtype=np.intp)
        known = np.flatnonzero(column >= 0)
        shape = found.matrix.shape[1], len(self._keys)
        moves = sp.csr_array((np.ones(len(known)), (known, column[known])), shape=shape)
        moved = found.matrix @ moves
        return sp.csr_array(moved) if sp.issparse(moved) else np.asarray(moved)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns.

        Parameters
        ----------
        input_features : None, or the names of the columns of vectors, as at `fit`
        """
        check_is_fitted(self)
        if hasattr(self, "n_features_in_"):
            _check_feature_names_in(self, input_features)
        return np.array(self._names, dtype=object)

    def _columns(self, X: Points) -> list[str] | None:
        """The names of the columns of vectors, which `fit` may have had as a frame."""
        if not is_vectors(X):
            return None
        names = getattr(self, "feature_names_in_", None)
        return column_names(X) if names is None else list(names)


class Nystroem(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    """φ(x) = k(x, B) K_BB^{-1/2}, B some of the training points, drawn at random.

    A drop-in for scikit-learn's Nystroem that takes any kernel on any points. The
    kernel `Nystrom` chooses its points better and states its error; `FeatureMap` makes
    it a transformer.

    Parameters
    ----------
    kernel : a word of scikit-learn ("rbf", "poly", ..., "precomputed"), a function of
        two points that returns a number, or a kernel
    gamma, coef0, degree : of the kernels named by a word; None for scikit-learn's
        defaults, gamma = 1/d (1 for "chi2"), coef0 = 1, degree = 3
    kernel_params : keyword arguments of a function
    n_components : how many points; all of them where there are fewer, with a warning
    random_state : of the draw
    n_jobs : without effect; `mercer.native.vectors` has the number of threads

    Attributes
    ----------
    components_ : B, for "precomputed" their rows of kernel values
    component_indices_ : their numbers among the training points
    normalization_ : K_BB^{-1/2}, singular values below 1e-12 taken as that
    kernel_ : the kernel, nothing left to learn
    n_features_in_, feature_names_in_ : of vectors and of data frames

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import Nystroem
    >>> X, _ = load_iris(return_X_y=True)
    >>> Nystroem(gamma=0.2, n_components=20, random_state=0).fit_transform(X).shape
    (150, 20)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [StrOptions(set(WORDS)), callable],
        "gamma": [Interval(Real, 0, None, closed="left"), None],
        "coef0": [Interval(Real, None, None, closed="neither"), None],
        "degree": [Interval(Real, 1, None, closed="left"), None],
        "kernel_params": [dict, None],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }
    _not_square = NO_PAIRWISE_MATRIX
    _solves_partitions: ClassVar[bool] = True

    kernel_: Kernel
    components_: Points
    component_indices_: np.ndarray
    normalization_: np.ndarray
    _n_features_out: int

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: float | None = None,
        coef0: float | None = None,
        degree: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        n_components: int = 100,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
        self.n_components = n_components
        self.random_state = random_state
        self.n_jobs = n_jobs

    @checked_parameters
    def fit(self, X: Points, y: Any = None) -> Self:
        """Draw points of X and learn their kernel matrix; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : ignored
        """
        X = self._validated_points(X)
        self._check_square(X)
        n = count(X)
        if self.n_components > n:
            warnings.warn(
                "n_components > n_samples. This is not possible.\n"
                "n_components was set to n_samples, which results in inefficient "
                f"evaluation of the full kernel. Got n_components="
                f"{self.n_components} and {n} samples.",
                UserWarning,
                stacklevel=outside(),
            )
        order = check_random_state(self.random_state).permutation(n)
        chosen = order[: self.n_components].astype(np.int64)
        kernel = self._as_kernel(X).resolve(X)
        there = isinstance(X, Partitions)
        points = X.fetched(chosen) if there else self._own(take(X, chosen), X)
        K = kernel(points, chosen if self._precomputed else None)
        U, S, V = np.linalg.svd(K)
        self.normalization_ = U / np.sqrt(np.maximum(S, SMALLEST)) @ V
        self.kernel_, self.components_, self.component_indices_ = kernel, points, chosen
        self._n_features_out = len(chosen)
        return self

    def _road(self, X: Points, y: Any) -> Road:
        X = self._validated_points(X)
        self._check_square(X)
        m = min(count(X), self.n_components)
        points = np.arange(count(X)) if self._precomputed else X
        kernel = Precomputed(X) if self._precomputed else self._as_kernel(X).resolve(X)
        return by_matrix(Gram(kernel, take(points, np.arange(m))), Lapack())

    def transform(self, X: Points) -> np.ndarray:
        """φ of the points X, (n, components).

        For "precomputed", X holds their kernel values with all training points.
        """
        check_is_fitted(self)
        X = self._validated_points(X, reset=False)
        known = self.component_indices_ if self._precomputed else self.components_
        blocks = [
            multiply(self.kernel_(take(X, rows), known), self.normalization_.T)
            for rows in row_blocks(count(X), len(self.component_indices_), BLOCK_MB)
        ]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    def _warn_of_words(self) -> None:
        """Nothing: `fit` refuses them, as scikit-learn does."""

    def _as_kernel(self, X: Points) -> Kernel:
        given = {
            name: getattr(self, name)
            for name in ("gamma", "coef0", "degree")
            if getattr(self, name) is not None
        }
        more = self.kernel_params or {}
        if isinstance(self.kernel, str) and self.kernel != "precomputed":
            named = {k: more[k] for k in ("gamma", "coef0", "degree") if k in more}
            return as_scikit_learn_kernel(self.kernel, X, **(named | given))
        if given:
            raise ValueError(
                "Don't pass gamma, coef0 or degree to Nystroem if using a callable "
                f"or precomputed kernel; got {', '.join(given)}. A kernel object has "
                "parameters of its own."
            )
        function = self.kernel
        if more and not isinstance(function, str | Kernel):
            # Shared, as in scikit-learn: a function may keep a log in them.
            function = partial(function, **more)
        return as_scikit_learn_kernel(function, X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class RBFSampler(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """φⱼ(x) = √(2/c) cos(⟨wⱼ, x⟩ + bⱼ), so that ⟨φ(x), φ(y)⟩ ≈ exp(-γ‖x - y‖²).

    wⱼ is normal with variance 2γ, bⱼ uniform in [0, 2π], j = 1..c. A drop-in for
    scikit-learn's RBFSampler. The kernel `RandomFourier` has a smaller error for as
    many columns; `FeatureMap` makes it a transformer.

    Parameters
    ----------
    gamma : γ ≥ 0, or "scale" for 1 / (d · var X)
    n_components : c
    random_state : of the draw

    Attributes
    ----------
    random_weights_ : w, (d, c)
    random_offset_ : b, (c,)
    n_features_in_, feature_names_in_ : of the points

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import RBFSampler
    >>> X, _ = load_iris(return_X_y=True)
    >>> RBFSampler(gamma="scale", random_state=0).fit_transform(X).shape
    (150, 100)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "gamma": [StrOptions({"scale"}), Interval(Real, 0.0, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    random_weights_: np.ndarray
    random_offset_: np.ndarray
    _gamma: float
    _n_features_out: int

    def __init__(
        self, *, gamma: Any = 1.0, n_components: int = 100, random_state: Any = None
    ):
        self.gamma = gamma
        self.n_components = n_components
        self.random_state = random_state

    @checked_parameters
    def fit(self, X: Points, y: Any = None) -> Self:
        """Draw w and b for the dimension of X; returns self. y is ignored."""
        refuse_collection(self, X, "FeatureMap(RandomFourier(RBF(gamma), size))")
        X = validate_data(self, X, accept_sparse="csr")
        self._gamma = self.gamma
        if isinstance(self.gamma, str):
            self._gamma = inverse_variance(RBF(), "gamma", X)
        rng = check_random_state(self.random_state)
        shape = X.shape[1], self.n_components
        weights = np.sqrt(2.0 * self._gamma) * rng.normal(size=shape)
        offset = rng.uniform(0, 2 * np.pi, size=self.n_components)
        kind = np.float32 if X.dtype == np.float32 else np.float64
        self.random_weights_ = weights.astype(kind, copy=False)
        self.random_offset_ = offset.astype(kind, copy=False)
        self._n_features_out = self.n_components
        return self

    def transform(self, X: Points) -> np.ndarray:
        """φ of the points X, (n, c)."""
        check_is_fitted(self)
        refuse_collection(self, X, "FeatureMap(RandomFourier(RBF(gamma), size))")
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        angles = np.asarray(multiply(X, self.random_weights_))
        angles += self.random_offset_
        np.cos(angles, out=angles)
        angles *= np.sqrt(2.0 / self.n_components)
        return angles

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class PolynomialCountSketch(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """⟨φ(x), φ(y)⟩ ≈ (γ⟨x, y⟩ + coef0)^degree, φ a sketch of all products.

    A drop-in for scikit-learn's PolynomialCountSketch. The kernel is
    `PolynomialSketch`.

    Parameters
    ----------
    gamma, degree, coef0 : of the polynomial kernel; coef0 ≥ 0
    n_components : the number of columns
    random_state : of the hashes

    Attributes
    ----------
    indexHash_ : (degree, d), the column of each coordinate; one more with coef0
    bitHash_ : (degree, d), its sign
    n_features_in_, feature_names_in_ : of the points

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import PolynomialCountSketch
    >>> X, _ = load_iris(return_X_y=True)
    >>> PolynomialCountSketch(degree=3, random_state=0).fit_transform(X).shape
    (150, 100)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "gamma": [Interval(Real, 0, None, closed="left")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    indexHash_: np.ndarray
    bitHash_: np.ndarray
    _n_features_out: int

    def __init__(
        self,
        *,
        gamma: float = 1.0,
        degree: int = 2,
        coef0: float = 0.0,
        n_components: int = 100,
        random_state: Any = None,
    ):
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.random_state = random_state

    @checked_parameters
    def fit(self, X: Points, y: Any = None) -> Self:
        """Draw the hashes for the dimension of X; returns self. y is ignored."""
        if self.coef0 < 0:
            raise ValueError(
                "PolynomialCountSketch needs coef0 ≥ 0, as its square root is a "
                f"coordinate; got coef0={self.coef0!r}."
            )
        refuse_collection(self, X, "FeatureMap(PolynomialSketch(degree, size))")
        X = validate_data(self, X, accept_sparse="csr")
        rng = check_random_state(self.random_state)
        shape = self.degree, X.shape[1] + (self.coef0 != 0)
        self.indexHash_ = rng.randint(0, high=self.n_components, size=shape)
        self.bitHash_ = rng.choice(a=[-1, 1], size=shape)
        self._n_features_out = self.n_components
        return self

    def transform(self, X: Points) -> np.ndarray:
        """The sketches of the points X, (n, components), in float64."""
        check_is_fitted(self)
        refuse_collection(self, X, "FeatureMap(PolynomialSketch(degree, size))")
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        X = np.sqrt(self.gamma) * double(X)
        out = np.empty((X.shape[0], self.n_components))
        for rows in row_blocks(X.shape[0], self.n_components, BLOCK_MB):
            out[rows] = tensor_sketch(
                X[rows],
                self.indexHash_,
                self.bitHash_.astype(float),
                self.n_components,
                self.coef0,
            )
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
