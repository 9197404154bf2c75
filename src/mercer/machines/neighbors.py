"""The k nearest neighbours in feature space, classes and numbers.

Cover and Hart, IEEE Transactions on Information Theory 13 (1967). These machines rank
distances: alone among all they have no expansion.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from sklearn.base import (
    ClassifierMixin,
    MultiOutputMixin,
    RegressorMixin,
    is_regressor,
)
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer.data.partitions import Partitions
from mercer.data.points import Points, count, double
from mercer.gram import Gram
from mercer.kernels.base import BLOCK_MB, Kernel, row_blocks
from mercer.machines.base import Machine
from mercer.machines.checks import checked_parameters
from mercer.machines.labels import (
    check_classes,
    check_table,
    classes_of,
)
from mercer.machines.words import WORDS
from mercer.solvers.nearest import SearchTree, nearest, nearest_of_partitions
from mercer.solvers.roads import Road

SINGLE = 1e30  # k(x, x) that is left to single precision


class NearestNeighbors(Machine):
    """‖φ(x) - φ(y)‖² = k(x, x) - 2 k(x, y) + k(y, y), the least of them."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "weights": [StrOptions({"uniform", "distance"}), callable],
        "kernel": [Kernel, StrOptions(set(WORDS)), callable, None],
    }

    _solves_partitions: ClassVar[bool] = True
    n_neighbors: int
    weights: Any
    kernel_: Kernel
    n_samples_fit_: int

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        kernel: Any = None,
        weights: str | Callable[[np.ndarray], np.ndarray] = "uniform",
    ):
        self.n_neighbors = n_neighbors
        self.kernel = kernel
        self.weights = weights

    @abstractmethod
    def fit(self, X: Points, y: Any) -> Self: ...

    def _remember(self, X: Points) -> None:
        """Keep the points and the kernel, with what it learns from them."""
        gram = self._weighted_gram(self._kept(X), None).gram
        self.kernel_ = gram.kernel.copied()
        self._points = gram.X if self._precomputed else self._check_lengths(gram.X)
        self.n_samples_fit_ = count(X)
        self._tree = SearchTree()

    def _road(self, X: Points, y: Any) -> Road:
        numeric = is_regressor(self)
        checks = {"multi_output": True} if numeric else {}
        X, y = self._validated(X, y, y_numeric=numeric, **checks)
        return Road("points", self._weighted_gram(X, None).gram)

    def _check_lengths(self, X: Points) -> Points:
        """The points, in float64 where float32 cannot hold k(x, x).

        Refuses those where that overflows too: they have no distances.
        """
        wide = double(X)
        lengths = np.asarray(Gram(self.kernel_, wide).diag(), dtype=float)
        return wide if np.abs(lengths).max(initial=0.0) > SINGLE else X

    @overload
    def kneighbors(
        self,
        X: Points | None = None,
        n_neighbors: int | None = None,
        return_distance: Literal[True] = True,
    ) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def kneighbors(
        self,
        X: Points | None = None,
        n_neighbors: int | None = None,
        *,
        return_distance: Literal[False],
    ) -> np.ndarray: ...

    def kneighbors(
        self,
        X: Points | None = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The nearest training points of each point of X: distances, and their numbers.

        Two (m, n_neighbors) arrays, from the nearest on. Points tie where what ranks
        them is the same number, and then come in the order of their numbers: in
        float64, summed over coordinates in one order, without fused multiply-adds

            Σ (xᵢ - yᵢ)²                    Linear, and kernels of ‖x - y‖
            Σ |xᵢ - yᵢ|                     kernels of that sum
            k(x, x) - 2 k(x, y) + k(y, y)   Polynomial and Exponential
            Σ (φᵢ(x) - φᵢ(y))²              explicit features, also Normalized ones

        so that processor, threads, tiles, float32 or float64, dense or sparse make no
        difference. Other kernels are ranked by k(x, y) of the two points alone: what
        its own functions (exp of numpy, a BLAS) round differently on two processors
        can break a tie differently there.

        Parameters
        ----------
        X : m points; None for the training points, each without itself. For
            "precomputed" the (m, n) matrix of kernel values with the training points.
            Of a Dask collection, both are lazy collections with its partitions
        n_neighbors : None for the machine's own
        return_distance : False for the numbers alone
        """
        squares, index = self._nearest(X, n_neighbors)
        return (self._distances(squares, X), index) if return_distance else index

    def _nearest(
        self, X: Points | None, n_neighbors: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        if not isinstance(k, Integral) or k < 1:
            raise ValueError(
                f"{type(self).__name__} needs a whole number n_neighbors ≥ 1; got "
                f"n_neighbors={k!r}."
            )
        if X is not None:
            X = self._validated_points(X, reset=False)
            if not self._precomputed:
                X = self._check_lengths(X)
        most = self.n_samples_fit_ - (X is None)
        if k > most:
            others = "other " if X is None else ""
            raise ValueError(
                f"{type(self).__name__} was fitted on {self.n_samples_fit_} points; "
                f"n_neighbors={k} asks for more than the {most} {others}points there "
                "are. Lower n_neighbors."
            )
        if isinstance(self._points, Partitions):
            if X is None:
                raise ValueError(
                    f"{type(self).__name__} was fitted on points in partitions, which "
                    "are not compared with each other unless they are passed, each "
                    "then its own nearest. Pass points, in memory or a collection."
                )
            return nearest_of_partitions(self.kernel_, X, self._points, int(k))
        if X is None:
            return nearest(self.kernel_, self._points, None, int(k), tree=self._tree)
        known = not self._precomputed
        return nearest(
            self.kernel_, X, self._points, int(k), with_own=known, tree=self._tree
        )

    def _distances(self, squares: np.ndarray, X: Points | None) -> np.ndarray:
        """√ of the squares, unless they are none."""
        name = type(self).__name__
        if X is not None and self._precomputed:
            raise ValueError(
                f'{name}(kernel="precomputed") ranks new points by k(x, y) and '
                "k(y, y), but their distances need k(x, x), which is not in the "
                'matrix. Use weights="uniform" and return_distance=False; or '
                "Precomputed(K) with K on all points, and indices as points."
            )
        if (squares < 0).any():
            raise ValueError(
                f"{name} found the squared distance {squares.min():.6g}: "
                f"{self.kernel_!r} is indefinite on these points, which can be ranked "
                'but have no distances. Use weights="uniform" and '
                "return_distance=False, or a kernel."
            )
        return np.sqrt(squares)

    def _weighted(self, X: Points | None) -> tuple[np.ndarray | None, np.ndarray]:
        """The weights of the neighbours, None where they are equal; their numbers."""
        squares, index = self._nearest(X)
        if isinstance(self.weights, str) and self.weights == "uniform":
            return None, index
        distances = self._distances(squares, X)
        if callable(self.weights):
            weights = np.asarray(self.weights(distances), dtype=float)
            if weights.shape != distances.shape:
                raise ValueError(
                    f"weights takes an array of distances and must return a number for "
                    f"each, shape {distances.shape}; it returned shape {weights.shape}."
                )
            return weights, index
        with np.errstate(divide="ignore"):
            weights = 1 / distances
        # Points at distance 0 outweigh all others, and count alike.
        at = np.isinf(weights)
        some = at.any(axis=1)
        weights[some] = at[some]
        return weights, index


class KernelKNNClassifier(ClassifierMixin, NearestNeighbors):
    """The class of most of the k points with the least k(x, x) - 2 k(x, y) + k(y, y).

    With a linear kernel it is scikit-learn's KNeighborsClassifier. Nothing but the
    points is learnt, and nothing n × n is stored. There is no `expansion_`: the votes
    are no function of the kernel's space. Of points at exactly the same distance the
    first ones count; `kneighbors` says what is the same.

    Linear kernels and those of ‖x - y‖ or Σ|xᵢ - yᵢ| search dense vectors of up to 16
    coordinates by a k-d tree, where some searches show that it pays. It is made when
    500 points have been searched for, and is not saved; neighbours do not change by it.

    Parameters
    ----------
    n_neighbors : how many points have a vote
    kernel : a kernel, None for RBF(), a word ("rbf", "linear", ...), the kernel of that
        name with its defaults, or a function of two sets of points, giving their
        matrix; "precomputed" takes kernel values for points
    weights : "uniform", "distance" for 1/distance, or a function that takes an array of
        distances and returns as many weights

    Attributes
    ----------
    classes_ : the classes, sorted
    kernel_ : the kernel with all it learnt
    n_samples_fit_ : the number of training points
    n_features_in_, feature_names_in_ : of vectors and of data frames

    Examples
    --------
    >>> from mercer import KernelKNNClassifier, Spectrum
    >>> texts, y = ["abab", "baba", "cdcd", "dcdc"], ["ab", "ab", "cd", "cd"]
    >>> machine = KernelKNNClassifier(1, kernel=Spectrum(2)).fit(texts, y)
    >>> machine.predict(["ababab", "dcd"]).tolist()
    ['ab', 'cd']
    """

    classes_: np.ndarray

    @checked_parameters
    def fit(self, X: Points, y: Any) -> Self:
        """Remember the points X and their classes y; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : (n,) array of classes
        """
        X, y = self._validated(X, y)
        check_classes(self, y)
        classes, label = classes_of(y)
        self._remember(X)
        self.classes_, self._label = classes, label
        return self

    def predict_proba(self, X: Points | None) -> np.ndarray:
        """The share of the neighbours' weight that each class has, (m, classes).

        X None stands for the training points, each judged by the others.
        """
        weights, index = self._weighted(X)
        check_table(self, len(index), len(self.classes_))
        return self._shares(weights, index)

    def _shares(self, weights: np.ndarray | None, index: np.ndarray) -> np.ndarray:
        n_classes, m = len(self.classes_), len(index)
        place = self._label[index] + n_classes * np.arange(m)[:, None]
        votes = np.bincount(
            place.ravel(),
            None if weights is None else weights.ravel(),
            minlength=m * n_classes,
        ).reshape(m, n_classes)
        total = votes.sum(axis=1, keepdims=True)
        return votes / np.where(total == 0, 1, total)

    def predict(self, X: Points | None) -> np.ndarray:
        """The class with most votes; of equal ones the first in `classes_`."""
        weights, index = self._weighted(X)
        chosen = np.empty(len(index), dtype=int)
        for rows in row_blocks(len(index), len(self.classes_), BLOCK_MB):
            some = None if weights is None else weights[rows]
            chosen[rows] = np.argmax(self._shares(some, index[rows]), axis=1)
        return self.classes_[chosen]


class KernelKNNRegressor(MultiOutputMixin, RegressorMixin, NearestNeighbors):
    """f(x) = Σᵢ wᵢ yᵢ / Σᵢ wᵢ over the k points nearest to x in feature space.

    With a linear kernel it is scikit-learn's KNeighborsRegressor. Nothing but the
    points is learnt, and nothing n × n is stored. There is no `expansion_`: f is no
    function of the kernel's space. Of points at exactly the same distance the first
    ones count; `kneighbors` says what is the same. In few dimensions a k-d tree is
    searched, as in `KernelKNNClassifier`.

    Parameters
    ----------
    n_neighbors : how many points are averaged
    kernel : a kernel, None for RBF(), a word ("rbf", "linear", ...), the kernel of that
        name with its defaults, or a function of two sets of points, giving their
        matrix; "precomputed" takes kernel values for points
    weights : "uniform", "distance" for 1/distance, or a function that takes an array of
        distances and returns as many weights

    Attributes
    ----------
    kernel_ : the kernel with all it learnt
    n_samples_fit_ : the number of training points
    n_features_in_, feature_names_in_ : of vectors and of data frames

    Examples
    --------
    >>> from mercer import KernelKNNRegressor
    >>> X, y = [[0], [1], [2], [10]], [0.0, 1.0, 2.0, 10.0]
    >>> machine = KernelKNNRegressor(2, kernel="linear").fit(X, y)
    >>> machine.predict([[0.4], [9]]).tolist()
    [0.5, 6.0]
    """

    @checked_parameters
    def fit(self, X: Points, y: Any) -> Self:
        """Remember the points X and their targets y; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : (n,) array, or (n, q) for q targets
        """
        X, y = self._validated(X, y, multi_output=True, y_numeric=True)
        self._remember(X)
        self._target = np.array(y, dtype=float)
        return self

    def predict(self, X: Points | None) -> np.ndarray:
        """The mean target of the neighbours: (m,), or (m, q) for q targets.

        X None stands for the training points, each judged by the others.
        """
        weights, index = self._weighted(X)
        target = self._target[index]
        if weights is None:
            return target.mean(axis=1)
        weights = weights.reshape(weights.shape + (1,) * (target.ndim - 2))
        return (weights * target).sum(axis=1) / weights.sum(axis=1)
