"""KernelKMeans: clusters in feature space, whose centroids are expansions."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer.data.partitions import Partitions, in_memory
from mercer.data.points import Points, count, double, take
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.kernels.nystrom import Nystrom
from mercer.kernels.vector import Linear, about_the_middle
from mercer.kernels.ways import Precomputed
from mercer.machines.base import KernelSum, Machine
from mercer.machines.checks import TIME_LIMIT, checked_parameters, checked_weight
from mercer.machines.labels import available_if
from mercer.machines.progress import CallbackSupportMixin, Watcher, reporting, watching
from mercer.machines.words import WORDS
from mercer.machines.wrappers import of_collections
from mercer.native import memory
from mercer.native.clock import breakable, seconds_left
from mercer.solvers.auto import clusters_on_features
from mercer.solvers.clusters import KernelLloyd, drawn_start
from mercer.solvers.feature_rows import FeatureRows
from mercer.solvers.features import features_of
from mercer.solvers.limits import solve_within
from mercer.solvers.partition import Clustering, Partition, weighted_sums
from mercer.solvers.partitioned_rows import PartitionedRows
from mercer.solvers.roads import Road, by_matrix, on_map

DOUBLE = 4000  # up to so many points kernel values are in double precision
LARGEST = 1e30  # k(x, x) that is left to single precision
STARTS = 10  # of init="random", where n_init is "auto"


def _knows_lengths(machine: Machine) -> bool:
    if machine._precomputed:
        raise AttributeError(
            "Rows of kernel values do not tell k(x, x), which distances need. Use "
            "kernel=Precomputed(K) with the indices of points in K, or predict, which "
            "needs no distances."
        )
    return True


class KernelKMeans(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    Machine,
):
    """min Σᵢ wᵢ ‖φ(xᵢ) - μ_c(i)‖², μ_c = Σ wᵢφ(xᵢ) / Σ wᵢ over the points of cluster c.

    k-means in the feature space of a kernel, on points of any kind. A centroid is an
    expansion: with f_c(x) = ⟨μ_c, φ(x)⟩ - ½‖μ_c‖² the squared distance from it is
    k(x, x) - 2 f_c(x), and x belongs to the cluster where f_c is largest. Many points
    of a kernel with few explicit features are clustered on these, without K.

    With `normalized_cut=True` they minimise the normalised cut Σ_c cut(c) / vol(c) of
    the graph with edges k(xᵢ, xⱼ) ≥ 0, where vol(c) sums the degrees dᵢ = Σⱼ k(xᵢ, xⱼ)
    of the points of c, and cut(c) the edges that leave it. It is the same objective
    with weights dᵢ and φ(xᵢ)/dᵢ for φ(xᵢ): the kernel D⁻¹KD⁻¹ + σD⁻¹ of Dhillon, Guan
    and Kulis (2004), σ being `shift`. Starts that are drawn go through k-means first.

    Parameters
    ----------
    n_clusters : k
    kernel : a kernel; None for RBF(); a word ("linear", "rbf", ..., "precomputed"), the
        kernel of that name with its defaults; or a function of two sets of points,
        giving their matrix
    init : "k-means++" (in feature space), "random" (points as centroids), k points, or
        n labels from 0 to k - 1; for "precomputed" points are given by their places
    n_init : starts, of which the best end is kept; "auto" is 10 for "random", else 1
    max_iter : steps of one start
    tol : a start ends when a step gains at most tol times the objective; with 0 it ends
        when no point is nearer to another centroid than to its own
    algorithm : "lloyd" moves every point to its nearest centroid, step by step, as
        k-means does; "hartigan" goes on with points that gain by moving alone, which
        finds lower ends, most of all where k(x, x) is large beside k(x, y)
    normalized_cut : whether to minimise the normalised cut instead
    shift : σ ≥ 0, added to k(xᵢ, xᵢ) in units of 1/wᵢ: changes no optimum, makes an
        indefinite kernel positive (by -σ ≤ its smallest eigenvalue) and moves rarer
    random_state : for "k-means++" and "random"
    cache_size : MB for K, which is kept where it fits and computed anew in blocks where
        it does not; None for a quarter of the memory that is free
    verbose : whether to print how far the fit is
    callback : called with a `Progress` after every step; True stops the fit
    time_limit : seconds; None for no limit. The fit then ends with the best it has, the
        status "time_limit" and a warning, also where starts were left out. Where there
        was no time for K, a TimeoutError says so

    Attributes
    ----------
    expansion_ : f, a column for each cluster; `expansion_.norm()` are the ‖μ_c‖. It is
        on the points, but where clusters were found on features on the centroids of
        `Linear` and on the landmarks of `Nystrom`, which is then `approximation_`
    labels_ : the cluster of every point of `fit`
    inertia_ : the objective, without what `shift` adds
    rounding_ : how far it can be off by rounding
    inertia_history_ : the objective at the start and after every step; never rises
    normalized_cut_ : Σ_c cut(c) / vol(c), where that is minimised
    n_iter_ : steps of the start that was kept
    run_ : what it took; its status is "optimal", "few" (clusters), "max_iter",
        "stopped" or "indefinite"
    n_features_in_, feature_names_in_ : of vectors and of data frames

    Where fewer points than k differ there are fewer clusters, and a warning says so.

    Examples
    --------
    >>> from mercer import KernelKMeans, Spectrum
    >>> texts = ["abab", "baba", "cdcd", "dcdc"]
    >>> machine = KernelKMeans(2, kernel=Spectrum(2), n_init=5, random_state=0)
    >>> labels = machine.fit(texts).labels_.tolist()
    >>> labels[0] == labels[1] != labels[2] == labels[3]
    True
    >>> round(machine.inertia_, 6)
    2.0
    """

    _solves_partitions: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "kernel": [StrOptions(set(WORDS)), callable, None],
        "init": [StrOptions({"k-means++", "random"}), "array-like", "sparse matrix"],
        "n_init": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "algorithm": [StrOptions({"lloyd", "hartigan"})],
        "normalized_cut": ["boolean"],
        "shift": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "cache_size": [Interval(Real, 0, None, closed="left"), None],
        "verbose": ["verbose"],
        "callback": [callable, None],
        "time_limit": TIME_LIMIT,
    }

    _advice: ClassVar[dict[str, str]] = {
        "indefinite": (
            "The next step would have raised the objective: on these points the kernel "
            "is indefinite. Use algorithm='hartigan', or a shift of minus its smallest "
            "eigenvalue."
        ),
        "few": (
            "It found {solution.volume.size} clusters instead of n_clusters="
            "{machine.n_clusters}: no more points differ in feature space. Lower "
            "n_clusters."
        ),
    }

    labels_: np.ndarray
    inertia_: float
    rounding_: float
    inertia_history_: np.ndarray
    normalized_cut_: float
    n_iter_: int

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        kernel: Any = None,
        init: Any = "k-means++",
        n_init: Any = "auto",
        max_iter: int = 300,
        tol: float = 0.0,
        algorithm: str = "lloyd",
        normalized_cut: bool = False,
        shift: float = 0.0,
        random_state: Any = None,
        cache_size: float | None = None,
        verbose: Any = False,
        callback: Any = None,
        time_limit: float | None = None,
    ):
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.algorithm = algorithm
        self.normalized_cut = normalized_cut
        self.shift = shift
        self.random_state = random_state
        self.cache_size = cache_size
        self.verbose = verbose
        self.callback = callback
        self.time_limit = time_limit

    @checked_parameters
    def fit(
        self, X: Points, y: Any = None, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Learn the clusters of the points X; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : ignored
        sample_weight : n numbers ≥ 0, or one for all; weight 2 is the row twice, weight
            0 no row
        """
        X = self._validated_points(X)
        self._check_number(count(X))
        points, index, weight = self._weighted_points(X, sample_weight)
        share = None if sample_weight is None else weight
        gram, features = self._prepared(X, points, share)
        problem = self._problem(gram, features, weight)
        start = self._given_start(problem, index, count(X))
        names = [f"start {i + 1}" for i in range(self._starts)]
        names = names if len(names) > 1 else [""]
        with watching(self, names, X, None, sample_weight) as watcher:
            best = self._best(problem, start, watcher)
            self._store(X, points, problem, index, best)
        self._warn_unless_optimal(cast(Any, best))
        return self

    # From data to a problem

    def _check_number(self, n: int) -> None:
        if n < self.n_clusters:
            raise ValueError(
                f"{type(self).__name__} needs a point for each cluster; got "
                f"n_samples={n} < n_clusters={self.n_clusters}. Lower n_clusters."
            )

    def _prepared(
        self, X: Points, points: Points, weight: np.ndarray | None
    ) -> tuple[Gram, FeatureRows | None]:
        """Of the points that count: Φ where it is small, or K where there is room."""
        n = count(points)
        if self._precomputed:
            K = X if n == len(X) else X[np.ix_(points, points)]
            # Whole numbers in a single column would be taken for places.
            narrow = K.dtype == np.float32 and n > DOUBLE
            K = K if narrow else K.astype(float, copy=False)
            return Gram(Precomputed(), K).held(), None  # what is kept are places in X
        gram = self._gram(X, points, weight)
        if type(gram.kernel) is Linear and not self.normalized_cut:
            gram = Gram(about_the_middle(points), points)
        wide = gram.double()
        if clusters_on_features(wide, self.n_clusters):
            return wide, features_of(wide)
        there = isinstance(points, Partitions)
        if there or n <= DOUBLE or not _fits_single(gram):
            gram = wide
        if not self._keeps(gram):
            return gram, None
        with breakable():  # there is no partition without distances
            return gram.held(), None

    def _keeps(self, gram: Gram) -> bool:
        if isinstance(gram.X, Partitions):
            return False  # products are computed where the points are
        size = float(gram.shape[0]) ** 2 * gram.rows([0]).dtype.itemsize
        return memory.keeps(size, self.cache_size)

    def _road(self, X: Points, y: Any) -> Road:
        X = self._validated_points(X)
        self._check_number(count(X))
        gram, solver = self._weighted_gram(X, None).gram, self._solver()
        if clusters_on_features(gram.double(), self.n_clusters):
            return on_map(gram, solver, n_problems=self._starts)
        there = isinstance(X, Partitions)
        single = not there and count(X) > DOUBLE and _fits_single(gram)
        gram = gram if single else gram.double()
        if self._precomputed or self._keeps(gram):
            single = bool(gram.rows([0]).dtype == np.float32)
            return by_matrix(gram, solver, n_problems=self._starts, single=single)
        return Road("products", gram, solver, self._starts)

    def _solver(self) -> KernelLloyd:
        return KernelLloyd(self.max_iter, self.tol, self.algorithm == "hartigan")

    def _problem(
        self, gram: Gram, features: FeatureRows | None, weight: np.ndarray
    ) -> Partition:
        """What to minimise."""
        k, shift = int(self.n_clusters), float(self.shift)
        if not self.normalized_cut:
            return Partition(gram, k, weight, shift=shift, features=features)
        degree = weighted_sums(gram, weight, features)
        if not (degree > 0).all():
            i = int(np.argmin(degree))
            raise ValueError(
                f"{type(self).__name__}(normalized_cut=True) needs points of degree "
                f"Σⱼ k(xᵢ, xⱼ) > 0; point {i} has {degree[i]:.6g}. Use a kernel "
                "without negative values, such as RBF."
            )
        scale = 1 / degree
        return Partition(gram, k, weight * degree, scale, shift, features)

    # Starts

    def _key(self, problem: Partition) -> np.ndarray:
        """Numbers that tell the points apart."""
        if problem.scale is not None:
            return 1 / problem.scale
        # Where K is not in memory, sums over it would cost as much as a step. Points in
        # partitions are drawn as in a process that has room for K.
        there = isinstance(problem.gram.X, Partitions)
        if problem.gram.is_held or there or problem.features is not None:
            return weighted_sums(problem.gram, problem.weight, problem.features)
        return problem.gram.diag()

    @property
    def _starts(self) -> int:
        if not isinstance(self.init, str):
            return 1
        if isinstance(self.n_init, str):
            return STARTS if self.init == "random" else 1
        return int(self.n_init)

    def _best(
        self,
        problem: Partition,
        start: np.ndarray | None,
        watcher: Watcher | None,
    ) -> Clustering:
        """The best end of all starts, or of the one that is given."""
        random = check_random_state(self.random_state)
        solver = self._solver()
        plain = problem.unscaled() if self.normalized_cut else problem
        key = self._key(problem) if start is None else np.empty(0)
        best: Clustering | None = None
        for _ in range(self._starts):
            if start is None:
                spread = self.init == "k-means++"
                label = drawn_start(plain, random, spread=spread, key=key)
            else:
                label = start
            with reporting(watcher) as watch:
                options: dict[str, Any] = {"start": label, "watch": watch}
                if start is None and self.normalized_cut:
                    # φ(x)/d is longest where points are rare: no place to start from.
                    label = solve_within(solver, plain, seconds_left(), **options).label
                options["start"] = label
                found = solve_within(solver, problem, seconds_left(), **options)
            # Ends that differ by rounding are one: the first.
            if best is None or found.inertia < best.inertia - 1e-12 * abs(best.inertia):
                best = found
            if found.status in ("stopped", "time_limit"):
                break
        assert best is not None
        if found.status == "time_limit":
            # Not of all starts, even where this one came to its end.
            return replace(best, run=replace(best.run, status=found.status))
        wide = problem.gram.double()
        if wide is problem.gram or best.status == "stopped":
            return best  # as on features, which are in double precision
        # What single precision found goes on, or is confirmed, in double.
        wide = wide.held() if self._precomputed else wide
        exact, left = replace(problem, gram=wide), seconds_left()
        more = solve_within(solver, exact, left, start=best.label)
        history = best.history + more.history
        run = more.run.after(replace(best.run, iterations=best.run.iterations - 1))
        return replace(more, run=run, history=history)

    def _given_start(self, problem: Partition, index: np.ndarray, n: int) -> Any:
        """The first cluster of each of the points that count; None to draw it."""
        if isinstance(self.init, str):
            return None
        k, name = self.n_clusters, type(self).__name__
        if _are_labels(self.init, n):
            label = np.asarray(self.init)
            if label.min() < 0 or label.max() >= k:
                raise ValueError(
                    f"{name} needs labels from 0 to n_clusters - 1 = {k - 1} as init; "
                    f"got labels from {label.min()} to {label.max()}."
                )
            return label[index]
        if count(self.init) != k:
            raise ValueError(
                f"{name} needs init of n_clusters={k} points, or of {n} whole numbers, "
                f"the label of each point; got {count(self.init)} values."
            )
        if not self._precomputed:
            points = self._validated_points(self.init, reset=False)
            return problem.nearest_of(points)
        places = np.asarray(self.init)
        if places.ndim != 1 or not np.isin(places, index).all():
            raise ValueError(
                f"{name} with kernel values needs as init the places of points of "
                f"weight > 0 among the {n} of X; got {self.init!r}."
            )
        places = np.searchsorted(index, places)
        return np.argmin(problem.distances(places), axis=0)

    # From a partition to f

    def _store(
        self,
        X: Points,
        points: Points,
        problem: Partition,
        index: np.ndarray,
        best: Clustering,
    ) -> None:
        """Set what was learnt."""
        self.expansion_ = self._centroids(X, points, problem, best)
        self._volume = best.volume if self.normalized_cut else None
        self.inertia_, self.n_iter_ = best.inertia, best.run.iterations
        self.rounding_ = best.rounding
        self.inertia_history_ = np.array(best.history)
        self.run_ = best.run
        self.__dict__.pop("normalized_cut_", None)
        if self.normalized_cut:
            self.normalized_cut_ = float(np.sum(1 - best.norm * best.volume))
        self.labels_ = np.empty(count(X), dtype=np.int32)
        self.labels_[index] = best.label
        absent = np.delete(np.arange(count(X)), index)
        if len(absent):
            self.labels_[absent] = self._clusters(take(X, absent))

    def _centroids(
        self, X: Points, points: Points, problem: Partition, best: Clustering
    ) -> Any:
        """f, on the centroids or on landmarks where the kernel's map allows that."""
        kernel, bias, w = problem.gram.kernel, -best.norm / 2, best.centroids
        self.__dict__.pop("approximation_", None)
        if w is not None and isinstance(kernel, Nystrom):
            self.approximation_ = kernel
            coef = kernel.base_coefficients(w.T)
            return Expansion(kernel.kernel, kernel.base_points(), coef, bias)
        if w is not None and isinstance(kernel, Linear):
            return Expansion(kernel, w, np.eye(len(w)), bias)  # ⟨w, x⟩ is k(w, x)
        if w is not None and isinstance(problem.features, PartitionedRows):
            return problem.features.function(w.T, bias)
        n, k = len(problem), len(best.volume)
        coef = np.zeros((n, k))
        coef[np.arange(n), best.label] = problem.mass / best.volume[best.label]
        gram = Gram(kernel, points)  # the points as they were given
        return self._expanded(gram, X, coef, bias)

    # New points

    def predict(self, X: Points) -> np.ndarray:
        """The cluster of each of the m points of X: where the centroid is nearest.

        For "precomputed", X is the (m, n) matrix of kernel values between the new
        points and the training points.
        """
        check_is_fitted(self)
        return self._clusters(self._validated_points(X, reset=False))

    def transform(self, X: Points) -> np.ndarray:
        """The (m, k) array of distances ‖φ(x) - μ_c‖ of m points from the centroids."""
        return np.sqrt(self._squares(X)[0])

    @available_if(_knows_lengths)
    @of_collections
    def score(
        self, X: Points, y: Any = None, sample_weight: npt.ArrayLike | None = None
    ) -> float:
        """-Σᵢ wᵢ min_c ‖φ(xᵢ) - μ_c‖², the objective on the points of X, negative."""
        costs = in_memory(self._costs(X))
        weight = checked_weight(self, in_memory(sample_weight), costs)
        return -float(weight @ costs)

    def _costs(self, X: Points) -> np.ndarray:
        """min_c ‖φ(x) - μ_c‖² of each point, over its scale."""
        squares, scale = self._squares(X)
        return squares.min(axis=1) / scale

    def _squares(self, X: Points) -> tuple[np.ndarray, np.ndarray]:
        """Squared distances of new points from the centroids, and their scales."""
        check_is_fitted(self)
        X = self._validated_points(X, reset=False)
        values, scale = self._scaled(X)
        kernel = getattr(self, "approximation_", self.expansion_.kernel)
        lengths = scale**2 * kernel.diag(double(X))
        # Rounding can leave -1e-17 here; sqrt would turn it into NaN.
        return np.maximum(lengths[:, None] - 2 * values, 0), scale

    def _clusters(self, X: Points) -> np.ndarray:
        return np.argmax(self._scaled(X)[0], axis=1).astype(np.int32)

    def _scaled(self, X: Points) -> tuple[np.ndarray, np.ndarray]:
        """f at checked points with sφ(x) for φ(x), and s: 1, or of a cut 1/degree."""
        f = self.expansion_
        values = f(X)
        if self._volume is None:
            return values, np.ones(len(values))
        # The centroids have all points between them, so they know the degree.
        inner = values - f.bias
        degree = inner @ self._volume
        # A point that k joins to no other, as exp(-1000) = 0 does, has no degree.
        scale = 1 / np.maximum(degree, np.finfo(float).tiny)
        return inner * scale[:, None] + f.bias, scale

    _output_word = "cluster"

    def _as_sum(self) -> KernelSum:
        """‖φ(x) - μ_c‖² = k(x, x) - 2 f_c(x)."""
        if self._volume is not None:
            raise TypeError(
                "Distances of a normalised cut are divided by the degree of a point, "
                "and so no sum that could be taken apart."
            )
        f = self.expansion_
        return KernelSum(f, -2.0, -2 * np.asarray(f.bias), 1.0)

    @property
    def _n_features_out(self) -> int:
        return self.expansion_.n_outputs


# Only here: scikit-learn puts its `set_output` around them when the class is made, and
# would hide that they may not be there.
for _name in ("transform", "fit_transform"):
    _method = getattr(KernelKMeans, _name)
    setattr(KernelKMeans, _name, available_if(_knows_lengths)(_method))


def _fits_single(gram: Gram) -> bool:
    """Whether the range of single precision is enough for the kernel values."""
    try:
        return float(np.max(gram.diag(), initial=0.0)) < LARGEST
    except ValueError:  # not finite; in double precision they may be
        return False


def _are_labels(init: Any, n: int) -> bool:
    """Whether init is a whole number for each of the n points."""
    if hasattr(init, "dtype"):
        return init.dtype.kind in "iu" and init.shape == (n,)
    return len(init) == n and all(isinstance(value, Integral) for value in init)
