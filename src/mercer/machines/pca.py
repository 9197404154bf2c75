"""Machines that give points new coordinates: kernel principal components.

Schölkopf, Smola and Müller, Nonlinear component analysis as a kernel eigenvalue
problem, Neural Computation 10 (1998).
"""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError, PositiveSpectrumWarning
from sklearn.utils import Tags, check_array, check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer.data.checks import describe
from mercer.data.given import sound
from mercer.data.partitions import Partitions
from mercer.data.points import Points, count, double, precision
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.kernels.base import BLOCK_MB, Kernel, row_blocks
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear, about_the_middle, has_widths, is_vectors
from mercer.machines.base import NO_PAIRWISE_MATRIX, Machine
from mercer.machines.checks import TIME_LIMIT, checked_parameters
from mercer.machines.progress import CallbackSupportMixin, reporting, watching
from mercer.machines.words import WORDS, as_scikit_learn_kernel
from mercer.machines.wrappers import outside
from mercer.native.clock import breakable, seconds_left
from mercer.native.interruptible import multiply
from mercer.native.memory import check_room
from mercer.solvers.auto import AutoComponents, components_road
from mercer.solvers.cholesky import Cholesky
from mercer.solvers.components import Components, Eigenpairs
from mercer.solvers.eigen import Arpack, BlockKrylov, Lapack
from mercer.solvers.limits import solve_within
from mercer.solvers.linear import LinearSystem
from mercer.solvers.preimage import descents, distances, fixed_points, linear_points
from mercer.solvers.roads import Road

SINGLE = float(np.finfo(np.float32).max)
SOLVERS = ("auto", "dense", "arpack", "randomized", "krylov")
# What counts as negative, and as 0, relative to λ₁; of kernel values in double and in
# single precision, as in scikit-learn.
NEGATIVE = {"double": 1e-5, "single": 5e-3}
ZERO = {"double": 1e-12, "single": 2e-7}


class KernelPCA(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    Machine,
):
    """fⱼ(x) = ⟨uⱼ, φ(x) - μ⟩, uⱼ = Σᵢ vᵢⱼ (φ(xᵢ) - μ) / √λⱼ, where K̃ vⱼ = λⱼ vⱼ.

    μ is the mean of φ over the training points, K̃ their Gram matrix less that mean;
    each uⱼ has length 1, so fⱼ(x) is a coordinate of x in feature space. A drop-in for
    scikit-learn's KernelPCA that takes any kernel on any points, says how exact its
    components are, finds them without storing K, and knows how far a point is from
    them (`reconstruction_error`) and which point is near given coordinates
    (`preimage`).

    Parameters
    ----------
    n_components : how many; None for all whose eigenvalue is not 0
    kernel : a kernel; a word of scikit-learn ("linear", "rbf", "poly", "sigmoid",
        "cosine", "precomputed", ...); a function of two points that returns a number;
        None for RBF()
    gamma, degree, coef0 : of the kernels named by a word; gamma None is 1/d
    kernel_params : keyword arguments of a function
    alpha : the ridge of the inverse transform
    fit_inverse_transform : whether to learn the inverse transform, by ridge regression
        of the points on their coordinates; `preimage` needs none
    eigen_solver : "dense" (LAPACK), "arpack", "krylov" (a few products with a block of
        vectors, K in memory or not), "randomized" (so many such products as
        `iterated_power` says), "auto" for what is quickest; or a solver, such as
        BlockKrylov(tol=1e-8)
    tol : ‖K̃vⱼ - λⱼvⱼ‖ ≤ tol·λ₁ ends "krylov"; 0 stands for 1e-10, and beyond 4,000
        points, whose kernel values are in single precision, for 1e-6. For "arpack" the
        accuracy of the eigenvalues, 0 that of the machine
    max_iter : products at most of "krylov", by default 100; iterations of "arpack"
    iterated_power : products of "randomized" but one; "auto" for 7, or 4 where a tenth
        of all components or more is sought
    remove_zero_eig : whether to leave out components of eigenvalue 0
    random_state : of what is random in "krylov", "randomized" and "arpack"
    copy_X : False to keep X itself, which must then stay as it is, and not a copy
    n_jobs : without effect; `mercer.native.vectors` has the number of threads
    cache_size : MB for kernel values of "krylov" and "randomized", which compute anew
        what does not fit; None for a quarter of the memory that is free
    verbose : whether to print how far the fit is
    callback : called with a `Progress` after every product; returns True to stop
    time_limit : seconds; None for no limit. "auto", "krylov" and "randomized" then end
        with the best they have, the status "time_limit" and a warning with the
        residual. "dense", and "auto" where more than half of all components are sought,
        have nothing before they have all, the others nothing before their first
        product: a TimeoutError says so. "arpack" and the inverse transform have no
        limit

    Attributes
    ----------
    expansion_ : f itself, an output for each component; on `Nystrom` one of its kernel
        on the landmarks, and the kernel of the components is `approximation_`
    eigenvalues_, eigenvectors_ : λ, (c,), and v, (n, c): of length 1, their largest
        entry positive
    residuals_ : ‖K̃vⱼ - λⱼvⱼ‖, (c,)
    rounding_ : how far a residual can be off by rounding
    run_ : how the solver ended, products taken and seconds
    X_fit_ : the training points (for "precomputed" the training matrix)
    gamma_ : what gamma stands for, of vectors
    dual_coef_, X_transformed_fit_ : of the inverse transform
    n_features_in_, feature_names_in_ : of vectors and of data frames

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import KernelPCA
    >>> X, _ = load_iris(return_X_y=True)
    >>> machine = KernelPCA(2, kernel="rbf", gamma=0.1).fit(X)
    >>> machine.transform(X).shape, machine.eigenvalues_.round(2).tolist()
    ((150, 2), [45.2, 12.07])
    >>> bool(machine.residuals_.max() < 1e-8)
    True
    """

    _output_word = "component"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "kernel": [StrOptions(set(WORDS)), callable, None],
        "gamma": [Interval(Real, 0, None, closed="left"), None],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "fit_inverse_transform": ["boolean"],
        "eigen_solver": [StrOptions(set(SOLVERS)), HasMethods("solve")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "iterated_power": [
            Interval(Integral, 0, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "remove_zero_eig": ["boolean"],
        "random_state": ["random_state"],
        "copy_X": ["boolean"],
        "n_jobs": [None, Integral],
        "cache_size": [Interval(Real, 0, None, closed="neither"), None],
        "verbose": ["verbose"],
        "callback": [callable, None],
        "time_limit": TIME_LIMIT,
    }

    _not_square = NO_PAIRWISE_MATRIX

    _solves_partitions: ClassVar[bool] = True

    X_fit_: Points
    _found: Eigenpairs
    gamma_: float
    X_transformed_fit_: np.ndarray

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kernel: Any = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        alpha: float = 1.0,
        fit_inverse_transform: bool = False,
        eigen_solver: Any = "auto",
        tol: float = 0,
        max_iter: int | None = None,
        iterated_power: Any = "auto",
        remove_zero_eig: bool = False,
        random_state: Any = None,
        copy_X: bool = True,
        n_jobs: int | None = None,
        cache_size: float | None = None,
        verbose: Any = False,
        callback: Any = None,
        time_limit: float | None = None,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.alpha = alpha
        self.fit_inverse_transform = fit_inverse_transform
        self.eigen_solver = eigen_solver
        self.tol = tol
        self.max_iter = max_iter
        self.iterated_power = iterated_power
        self.remove_zero_eig = remove_zero_eig
        self.random_state = random_state
        self.copy_X = copy_X
        self.n_jobs = n_jobs
        self.cache_size = cache_size
        self.verbose = verbose
        self.callback = callback
        self.time_limit = time_limit

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    # Learning

    @checked_parameters
    def fit(self, X: Points, y: Any = None) -> Self:
        """Learn the components of the points X; returns self.

        Parameters
        ----------
        X : n points; for "precomputed" the (n, n) matrix of their kernel values
        y : ignored
        """
        if self.fit_inverse_transform and self._precomputed:
            raise ValueError("Cannot fit_inverse_transform with a precomputed kernel.")
        X = self._validated_points(X)
        self._borrows &= self.copy_X  # where it is not copied, the user keeps it as is
        X = self._kept(X)
        gram, problem = self._problem(X)
        self._check_room(lambda: self._road_of(problem), gram.shape[0])
        with watching(self, [""], X, None, None) as watcher:
            solver = self._solver(problem)
            direct = breakable() if isinstance(solver, Lapack) else nullcontext()
            with reporting(watcher) as watch, direct:
                found = solve_within(solver, problem, seconds_left(), watch=watch)
            shown = self._shown(found, gram.kernel)
            inverse = None
            if self.fit_inverse_transform:
                inverse = self._inverse_of(X, _coordinates(shown))
            self._store(X, gram, shown, inverse)
        if self.eigen_solver != "randomized" or found.status in (
            "stopped",
            "time_limit",
        ):
            self._warn_unless_optimal(found)
        return self

    def _road(self, X: Points, y: Any) -> Road:
        return self._road_of(self._problem(self._validated_points(X))[1])

    def _problem(self, X: Points) -> tuple[Gram, Components]:
        """The Gram of the points, and what is asked of it."""
        gram, wanted = self._weighted_gram(X, None).gram, self.n_components
        if type(gram.kernel) is Linear:
            gram = Gram(about_the_middle(X), X)
        n = count(X)
        return gram, Components(
            gram.double(), None if wanted is None else min(n, wanted)
        )

    def _road_of(self, problem: Components) -> Road:
        solver = self._solver(problem)
        if isinstance(solver, AutoComponents):
            return solver.road(problem)
        return components_road(problem, solver)

    def _resolved(self, points: Points, weight: np.ndarray | None) -> Kernel:
        return self._as_kernel(points, self.gamma).resolve(points, weight)

    def _as_kernel(self, X: Points, gamma: float | None) -> Kernel:
        return as_scikit_learn_kernel(
            self.kernel,
            X,
            gamma=gamma,
            degree=self.degree,
            coef0=self.coef0,
            parameters=self.kernel_params,
        )

    def _solver(self, problem: Components) -> Any:
        """What finds the components of this problem."""
        word, n, c = self.eigen_solver, problem.gram.shape[0], problem.count
        if not isinstance(word, str):
            return word
        if word == "dense":
            return Lapack()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if word == "arpack":
            return Arpack(self.tol, self.max_iter, seed)
        extra, most = None, self.max_iter or 100
        if word == "randomized":
            power = self.iterated_power
            if power == "auto":
                power = 7 if c < 0.1 * n else 4
            extra, most = 10, power + 1
        krylov = BlockKrylov(self.tol, most, extra, self.cache_size, seed=seed)
        return AutoComponents(krylov) if word == "auto" else krylov

    def _shown(self, found: Eigenpairs, kernel: Kernel) -> Eigenpairs:
        """The components with negative and tiny eigenvalues refused or set to 0."""
        values, least = found.values, found.least
        largest = max(float(np.max(values, initial=0.0)), 0.0)
        rounding = len(found.means) * np.finfo(float).eps * np.abs(found.means).max()
        clear = max(NEGATIVE[found.run.precision] * largest, 1e-10, rounding)
        where = (
            f"{kernel} is no kernel on these points: K̃ has the eigenvalue {least:.6g}"
        )
        if kernel.psd is True:
            where = (
                f"{kernel} is a kernel, but in double precision K̃ of these points "
                f"has the eigenvalue {least:.6g}: centre or scale the points"
            )
        # As scikit-learn's: of both signs the largest, or none.
        of_both_signs = self.eigen_solver == "randomized" and -least > values.min()
        if largest == 0 and least < -clear:
            raise ValueError(
                f"All eigenvalues are negative (maximum is {values.max():g}). Either "
                "the matrix is not PSD, or there was an issue while computing the "
                f"eigendecomposition of the matrix. {where}."
            )
        if min(values.min(initial=0.0), least * of_both_signs) < -clear:
            raise ValueError(
                f"There are significant negative eigenvalues "
                f"({-least / largest:g} of the maximum positive). Either the "
                "matrix is not PSD, or there was an issue while computing the "
                f"eigendecomposition of the matrix. {where}. Ask for fewer "
                "components, or `repair` the matrix."
            )
        if least < -clear:
            warnings.warn(
                f"{where}, beside {largest:.6g} as the largest. The components of "
                "positive eigenvalues are given; lengths and reconstruction errors in "
                "feature space may be negative. `repair` makes K semidefinite.",
                PositiveSpectrumWarning,
                stacklevel=outside(),
            )
        zero = values <= max(ZERO[found.run.precision] * largest, rounding)
        values = np.where(zero, 0.0, values)
        found = replace(found, values=values)
        if self.remove_zero_eig or self.n_components is None:
            return found.take(np.flatnonzero(values > 0))
        return found

    def _store(
        self, X: Points, gram: Gram, found: Eigenpairs, inverse: Expansion | None
    ) -> None:
        values, vectors = found.values, found.vectors
        scale = np.divide(
            1, np.sqrt(values), out=np.zeros_like(values), where=values > 0
        )
        coef = (vectors - vectors.mean(axis=0)) * scale
        # Σᵢ coefᵢⱼ = 0: what is left of the mean is the same for all points.
        bias = -found.means @ coef
        for name in ("gamma_", "X_transformed_fit_", "_inverse"):
            self.__dict__.pop(name, None)
        if is_vectors(X) and not self._precomputed:
            self.gamma_ = 1 / X.shape[1] if self.gamma is None else self.gamma
        f = self._expanded(gram, X, coef, bias)
        self.expansion_ = self._on_landmarks(f, coef)
        self.X_fit_, self._found, self.run_ = X, found, found.run
        if isinstance(X, Partitions):  # which are no part of the machine
            self.X_fit_ = getattr(self.expansion_, "points", None)
        if inverse is not None:
            self._inverse = inverse
            self.X_transformed_fit_ = inverse.points

    @property
    def eigenvalues_(self) -> np.ndarray:
        return self._found.values

    @property
    def eigenvectors_(self) -> np.ndarray:
        return self._found.vectors

    @property
    def residuals_(self) -> np.ndarray:
        return self._found.residuals

    @property
    def rounding_(self) -> float:
        return self._found.rounding

    # Coordinates

    def transform(self, X: Points) -> np.ndarray:
        """The coordinates f(x) of the m points of X, (m, c).

        For "precomputed", X is the (m, n) matrix of kernel values between the new
        points and the training points.
        """
        check_is_fitted(self)
        X = self._validated_points(X, reset=False)
        return _narrowed(self.expansion_(X), X)

    def fit_transform(self, X: Points, y: Any = None, **params: Any) -> np.ndarray:
        """`fit`, and the coordinates of the training points, √λⱼ vᵢⱼ."""
        self.fit(X, y, **params)
        return _narrowed(_coordinates(self._found), self.X_fit_)

    def reconstruction_error(
        self, X: Points, diag: npt.ArrayLike | None = None
    ) -> np.ndarray:
        """‖φ(x) - μ‖² - Σⱼ fⱼ(x)², the squared distance of x from the components, (m,).

        In feature space; large for a point that is unlike the training points.

        Parameters
        ----------
        X : m points; for "precomputed" their kernel values with the training points
        diag : the m numbers k(x, x), needed for "precomputed" only
        """
        check_is_fitted(self)
        X = self._validated_points(X, reset=False)
        f, kernel, n = self.expansion_, self._kernel_of_fit, len(self._found.means)
        if diag is None:
            if self._precomputed:
                raise ValueError(
                    "reconstruction_error needs k(x, x), which a row of kernel values "
                    "with the training points does not hold. Pass diag."
                )
            diag = kernel.diag(double(X))
        coef = np.column_stack([self._of_points.coef, np.full(n, 1 / n)])
        self._check_points("reconstruction_error")
        points = f.points if f.kernel is kernel else self.X_fit_
        both = Expansion(kernel, points, coef, np.append(f.bias, 0.0))(X)
        mean = self._found.means.mean()
        squares = np.asarray(diag, dtype=float) - 2 * both[:, -1] + mean
        errors = squares - np.sum(both[:, :-1] ** 2, axis=1)
        # Rounding can leave -1e-16 where nothing is left over.
        small = 1e-6 * (np.abs(diag) + abs(mean))
        return np.where((errors < 0) & (errors > -small), 0.0, errors)

    def _check_points(self, method: str) -> None:
        """Refuse what needs the points of a fit where they are not kept."""
        if self.X_fit_ is None or count(self.X_fit_) != len(self._found.means):
            raise ValueError(
                f"{method} needs the points of the fit, which were in partitions and "
                "are not kept. Fit on points in memory, or on a kernel without an "
                "explicit map, with n_components."
            )

    # And back

    def _inverse_of(self, X: Points, Z: np.ndarray) -> Expansion:
        """The ridge regression of the points on their coordinates."""
        if sp.issparse(X):
            raise NotImplementedError(
                "Inverse transform not implemented for sparse matrices! Pass a dense "
                "array, X.toarray(), or fit_inverse_transform=False."
            )
        if isinstance(X, Partitions):
            raise ValueError(
                f"fit_inverse_transform learns points in memory; got {X!r}. Fit with "
                "fit_inverse_transform=False, and find points by preimage."
            )
        if not is_vectors(X):
            raise ValueError(
                "fit_inverse_transform learns vectors; the points are of another kind."
            )
        # The 1/d of the points, not of their coordinates.
        gamma = 1 / X.shape[1] if self.gamma is None else self.gamma
        kernel = self._as_kernel(Z, gamma).resolve(Z)
        problem = LinearSystem(Gram(kernel, Z), X.astype(float), float(self.alpha))
        return Expansion(kernel, Z, Cholesky().solve(problem).value)

    @property
    def dual_coef_(self) -> np.ndarray:
        if "_inverse" not in vars(self):
            raise AttributeError("dual_coef_ belongs to fit_inverse_transform=True.")
        return self._inverse.coef

    def inverse_transform(self, X: npt.ArrayLike) -> np.ndarray:
        """Points with about the coordinates X, (m, c).

        With fit_inverse_transform=True by the regression learnt, as in scikit-learn;
        else, where the kernel is an object and not one of scikit-learn's words, which
        ask for that regression, their `preimage`.
        """
        check_is_fitted(self)
        if self.fit_inverse_transform:
            return self._inverse(self._checked_coordinates(X))
        if isinstance(self.kernel, str):
            raise NotFittedError(
                "The fit_inverse_transform parameter was not"
                " set to True when instantiating and hence "
                "the inverse transform is not available. preimage(Z) needs no "
                "regression, and with a kernel object, such as Linear() for 'linear', "
                "is what inverse_transform gives."
            )
        return self.preimage(X)

    @overload
    def preimage(
        self,
        Z: npt.ArrayLike,
        method: str | None = None,
        *,
        restarts: int = 5,
        return_distance: Literal[False] = False,
    ) -> np.ndarray: ...

    @overload
    def preimage(
        self,
        Z: npt.ArrayLike,
        method: str | None = None,
        *,
        restarts: int = 5,
        return_distance: Literal[True],
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def preimage(
        self,
        Z: npt.ArrayLike,
        method: str | None = None,
        *,
        restarts: int = 5,
        return_distance: bool = False,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Points whose φ is near P = Σⱼ zⱼuⱼ + μ, the point of the coordinates z.

        P rarely is the φ of a point: `return_distance` says how far φ(y) is from it.

        Parameters
        ----------
        Z : (m, c) coordinates
        method : "linear" for the linear kernel, y = x̄ + Uz, exactly; "fixed_point"
            for the Gaussian kernel and "gradient" for any kernel of vectors, where
            ‖φ(y) - P‖ no longer falls; "learned" for the regression of
            `inverse_transform`. None for the first of these that there is
        restarts : how many of the nearest training points the search begins at
        return_distance : whether to return ‖φ(y) - P‖ as well

        Returns
        -------
        (m, d) array, and the (m,) distances in feature space if asked for;
        "fixed_point" and "gradient" are never further away than the nearest training
        point
        """
        check_is_fitted(self)
        Z = self._checked_coordinates(Z)
        method = self._preimage_method(method)
        if method == "learned":
            found = self._inverse(Z)
        else:
            found = np.empty((len(Z), self.X_fit_.shape[1]))
            for rows in row_blocks(
                len(Z), self.X_fit_.shape[0] * (restarts + 2), BLOCK_MB
            ):
                found[rows] = self._preimages(Z[rows], method, restarts)
        return (found, self.preimage_distance(Z, found)) if return_distance else found

    def preimage_distance(self, Z: npt.ArrayLike, Y: npt.ArrayLike) -> np.ndarray:
        """‖φ(yᵢ) - P(zᵢ)‖ for the m points Y and the m coordinates Z, (m,).

        In feature space, in double precision; what rounding may have taken from it is
        added, about 1e-7 of the lengths of the φ(x).
        """
        check_is_fitted(self)
        self._check_points("preimage_distance")
        Z, Y = self._checked_coordinates(Z), np.asarray(Y, dtype=float)
        X = self._dense_points()
        if Y.shape != (len(Z), X.shape[1]):
            raise ValueError(
                f"preimage_distance needs a point for each of the {len(Z)} rows of "
                f"coordinates, shape {(len(Z), X.shape[1])}; got shape {Y.shape}."
            )
        return distances(self._kernel_of_fit, X, self._weights_of(Z), Y)

    @property
    def _kernel_of_fit(self) -> Kernel:
        """The kernel whose components these are, which `expansion_` may not have."""
        kernel: Kernel = getattr(self, "approximation_", self.expansion_.kernel)
        return kernel

    def _preimage_method(self, method: str | None) -> str:
        """The word for how pre-images are found, checked against the kernel."""
        kernel = self._kernel_of_fit
        self._check_points("preimage")
        if self._precomputed or not is_vectors(self.X_fit_):
            what = "kernel values" if self._precomputed else "of another kind"
            raise ValueError(
                f"A pre-image is a vector; the training points are {what}. Look for "
                "the training points whose coordinates are nearest instead."
            )
        learned = "_inverse" in vars(self)
        if method is None:
            if isinstance(kernel, Linear):
                return "linear"
            if isinstance(kernel, RBF) and not has_widths(kernel.gamma):
                return "fixed_point"
            return "learned" if learned else "gradient"
        if method not in ("linear", "fixed_point", "gradient", "learned"):
            raise ValueError(
                "preimage knows method linear, fixed_point, gradient and learned; got "
                f"{method!r}."
            )
        if method == "learned" and not learned:
            raise NotFittedError(
                "preimage by method='learned' is the regression of "
                "fit_inverse_transform=True, which was not asked for at fit."
            )
        for word, name, kind in (
            ("linear", "linear", Linear),
            ("fixed_point", "Gaussian", RBF),
        ):
            widths = isinstance(kernel, RBF) and has_widths(kernel.gamma)
            if method == word and (widths or not isinstance(kernel, kind)):
                raise ValueError(
                    f"preimage by {word} is for the {name} kernel; this machine has "
                    f"{kernel}. Use method='gradient', which takes any kernel."
                )
        return method

    def _preimages(self, Z: np.ndarray, method: str, restarts: int) -> np.ndarray:
        X, weight, kernel = self.X_fit_, self._weights_of(Z), self._kernel_of_fit
        if method == "linear":
            return linear_points(X, weight)
        X = self._dense_points()
        # ⟨φ(xᵢ), P⟩, up to a number that is the same for all i.
        closeness = multiply(Z, _coordinates(self._found).T) + self._found.means
        far = np.asarray(kernel.diag(X), dtype=float) - 2 * closeness
        start = np.argsort(far, axis=1, kind="stable")[:, : max(1, restarts)]
        search: Any = fixed_points if method == "fixed_point" else descents
        return search(kernel, X, weight, start)

    def _weights_of(self, Z: np.ndarray) -> np.ndarray:
        """γ of P = Σᵢ γᵢ φ(xᵢ), (m, n)."""
        return multiply(Z, self._of_points.coef.T) + 1 / len(self._found.means)

    def _dense_points(self) -> np.ndarray:
        """The training points as a float64 array, refused where that is too large."""
        X = self.X_fit_
        if sp.issparse(X):
            check_room(
                16.0 * X.shape[0] * X.shape[1],
                f"Pre-images are dense; {X.shape[0]:,} training points with "
                f"{X.shape[1]:,} columns take as such",
                "Take fewer columns, or the linear kernel, which needs none of it.",
            )
            X = X.toarray()
        if np.isnan(X).any():
            raise ValueError(
                "A pre-image is compared with the training points, which have missing "
                "values (NaN) here. Fill them in before fit."
            )
        return np.asarray(X, dtype=float)

    def _checked_coordinates(self, Z: Any) -> np.ndarray:
        components = len(self.eigenvalues_)
        try:
            Z = check_array(sound(Z), dtype=[np.float64, np.float32], input_name="X")
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(
                f"{type(self).__name__} needs coordinates as an (m, {components}) "
                f"array of finite numbers; got {describe(Z)}."
            ) from error
        if Z.shape[1] != len(self.eigenvalues_):
            raise ValueError(
                f"{type(self).__name__} has {len(self.eigenvalues_)} components; got "
                f"coordinates of shape {Z.shape}."
            )
        return Z


def _narrowed(values: np.ndarray, X: Points) -> np.ndarray:
    """In the precision of the points, unless that cannot hold them."""
    if precision(X) == np.float64 or np.abs(values).max(initial=0.0) > SINGLE:
        return values
    return values.astype(np.float32)


def _coordinates(found: Eigenpairs) -> np.ndarray:
    """√λⱼ vᵢⱼ, the coordinates of the training points."""
    return found.vectors * np.sqrt(found.values)
