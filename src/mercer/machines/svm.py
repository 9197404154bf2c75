"""Support vector machines: SVC, NuSVC, SVR, NuSVR, OneClassSVM, SVDD.

Drop-ins for scikit-learn's machines of the same names, on points and kernels of any
kind; every fit carries the certificate of its optimality. SVDD is from Tax and Duin,
Machine Learning 54 (2004).
"""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from mercer.data.points import Points, double
from mercer.expansion import Expansion
from mercer.kernels.base import finite
from mercer.machines.kinds import Classifier, OneClass, Regressor
from mercer.machines.support import COMMON_CONSTRAINTS, FRACTION
from mercer.outcomes import Certificate
from mercer.solvers.boxqp import certified, nu_svc, nu_svr, one_class, svc, svdd, svr
from mercer.solvers.class_pairs import nu_svc_pairs, svc_pairs

RELATIVE_SLACK = 1e-10  # relative; what the boundary of one class is moved outwards
_BOX = [Interval(Real, 0, None, closed="right")]


class SVC(Classifier):
    """min ½‖f‖² + C Σᵢ wᵢ max(0, 1 - yᵢ f(xᵢ)): the widest margin, with a price on it.

    A drop-in for scikit-learn's SVC that takes any kernel on any points, and knows how
    far from optimal it is at most.

    Parameters
    ----------
    C : > 0; inf is the hard margin: classes that meet are refused, with the proof
    kernel : a kernel; a word of scikit-learn ("linear", "poly", "rbf", "sigmoid",
        "precomputed", ...); or a function of two sets of points, giving their matrix
    degree, gamma, coef0 : of the kernels named by a word; gamma "scale" is
        1 / (d · var X), "auto" 1/d
    shrinking : accepted, and without effect on the solution
    probability : whether `fit` prepares `predict_proba`, at the price of five more
        fits; scikit-learn's default word "deprecated" means no
    tol : yᵢ f(xᵢ) is right to within tol
    cache_size : megabytes for rows of the kernel matrix; None for a share of what is
        free
    class_weight : a dict of factors of C; "balanced" for n / (k nᵢ), nᵢ the rows of
        class i whatever their weights, as scikit-learn's
    verbose : whether to print how far the solver is: iterations, the gap, support
        vectors, the violation and seconds
    max_iter : steps of the solver; -1 for its own budget
    decision_function_shape : "ovr", scores of classes; "ovo", values of pairs
    break_ties : whether `predict` follows the scores where pairs won are equal
    random_state : of the folds for probabilities
    fit_intercept : whether f has a bias; without one, the matrix is held in memory
    multiclass : "ovo", every class against every other; "ovr", each against the rest
    solver : what solves the `BoxQP`; None for SMO(tol, cache_size, max_iter).
        SMO(time_limit=60) gives each two-class problem a minute
    warm_start : whether `fit` starts from the last solution, on points known from it.
        A fit that max_iter, a time limit or a callback ended goes on where it was, also
        when the machine was saved and loaded in between
    callback : a function of a `Progress` (of `mercer.solvers`), called after every
        round of the solver; the fit stops where it returns True, with a warning that
        states the gap. Problems are then solved one after another. Callbacks of
        scikit-learn's (1.9) are set by `set_callbacks`

    Attributes
    ----------
    expansion_ : f itself, a column for each two-class problem
    certificate_ : primal, dual, gap, violation, margin, and what it took
    support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_, classes_,
    class_weight_, fit_status_, n_iter_, shape_fit_, probA_, probB_ : as scikit-learn's

    Examples
    --------
    >>> from mercer import SVC, Subsequence
    >>> texts, y = ["kernel", "kennel", "cabbage", "baggage"], [1, 1, 0, 0]
    >>> machine = SVC(kernel=Subsequence(2)).fit(texts, y)
    >>> machine.predict(["colonel", "garbage"]).tolist()
    [1, 0]
    >>> bool(machine.certificate_.gap < 1e-6)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **Classifier._parameter_constraints,
        "C": _BOX,
        "fit_intercept": ["boolean"],
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: Any = "deprecated",
        tol: float = 1e-3,
        cache_size: float | None = 200,
        class_weight: Any = None,
        verbose: Any = False,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        fit_intercept: bool = True,
        multiclass: str = "ovo",
        solver: Any = None,
        warm_start: bool = False,
        callback: Any = None,
    ):
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.fit_intercept = fit_intercept
        self.multiclass = multiclass
        self.solver = solver
        self.warm_start = warm_start
        self.callback = callback

    def _problem(self, gram, sign, weight):
        return svc(gram, sign, self._upper(weight), bias=self.fit_intercept)

    def _pair_problems(self, gram, members, pairs, weight):
        upper = self._upper(weight)
        return svc_pairs(gram, members, pairs, upper, bias=self.fit_intercept)

    @property
    def _pairs_apply(self):
        return bool(
            np.isfinite(float(self.C))
        )  # hard margins have a solver of their own


class NuSVC(Classifier):
    """min ½‖f‖² - νρ + mean of max(0, ρ - yᵢ f(xᵢ)), then f/ρ: SVC by share of errors.

    A drop-in for scikit-learn's NuSVC. At most the fraction ν of the points lies inside
    the margin, and at least that fraction are support vectors.

    Parameters
    ----------
    nu : in (0, 1], at most twice the share of the smaller of any two classes; where
        only `class_weight` makes it too large, all of that class is inside the margin,
        and a warning says so
    class_weight : factors of the points of each class, as of `sample_weight`

    The others, and the attributes, are those of SVC; there is always a bias.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from mercer import NuSVC
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> machine = NuSVC(nu=0.2).fit(X, y)
    >>> len(machine.support_) >= 0.2 * len(X), machine.score(X, y) > 0.9
    (True, True)
    """

    _parameter_constraints: ClassVar[dict] = {
        **Classifier._parameter_constraints,
        "nu": FRACTION,
    }
    _one_class: ClassVar[str] = (
        "specified nu is infeasible: all samples with positive weights belong to the "
        "same class, and NuSVC needs two."
    )

    def __init__(
        self,
        *,
        nu: float = 0.5,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: Any = "deprecated",
        tol: float = 1e-3,
        cache_size: float | None = 200,
        class_weight: Any = None,
        verbose: Any = False,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        multiclass: str = "ovo",
        solver: Any = None,
        warm_start: bool = False,
        callback: Any = None,
    ):
        self.nu = nu
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.multiclass = multiclass
        self.solver = solver
        self.warm_start = warm_start
        self.callback = callback

    def _problem(self, gram, sign, weight):
        return nu_svc(gram, sign, self.nu, weight)

    def _pair_problems(self, gram, members, pairs, weight):
        return nu_svc_pairs(gram, members, pairs, self.nu, weight)

    def _check_weights(self, classes, counts, totals):
        k, least, both = self._lightest(totals)
        # As LIBSVM has it: ν (n + m) / 2 ≤ min(n, m) for every two classes.
        if self.nu <= 2 * least / both * (1 + 1e-12):
            return
        said = (
            f"specified nu is infeasible: NuSVC(nu={self.nu:g}) needs nu ≤ "
            f"{_rounded_down(2 * least / both)}, twice the share of the smaller of two "
            f"classes in their weight; class {classes[k]} has {least:.4g} of "
            f"{both:.4g}. "
        )
        _, least, both = self._lightest(counts)
        if self.nu > 2 * least / both * (1 + 1e-12):
            raise ValueError(
                f'{said}Lower nu, or balance the classes with class_weight="balanced".'
            )
        # LIBSVM does not see class_weight here, and gives a machine.
        warnings.warn(
            f"{said}This comes of class_weight, and all of that class is inside the "
            "margin. Lower nu, or leave out class_weight.",
            UserWarning,
            stacklevel=5,
        )

    def _lightest(self, totals) -> tuple[int, float, float]:
        """The class that bears least beside another: its number, weight, of how much.

        One against the rest, it may be the rest that bears less.
        """
        if self.multiclass == "ovr" and len(totals) > 2:
            smaller = np.minimum(totals, totals.sum() - totals)
            k = int(np.argmin(smaller))
            return k, smaller[k], totals.sum()
        k = int(np.argmin(totals))
        return k, totals[k], totals[k] + totals.max()


def _rounded_down(number: float) -> str:
    """Four digits of a number > 0, never more than it is."""
    unit = 10.0 ** (np.floor(np.log10(number)) - 3)
    return f"{np.floor(number / unit) * unit:.4g}"


class SVR(Regressor):
    """min ½‖f‖² + C Σᵢ wᵢ max(0, |yᵢ - f(xᵢ)| - ε): what is within ε costs nothing.

    A drop-in for scikit-learn's SVR that takes any kernel on any points, several
    targets at once, and knows how far from optimal it is at most.

    Parameters
    ----------
    C : > 0, the price of a unit outside the tube; inf is a hard tube, and as f is
        within tol of it, the certificate has a dual and no finite primal
    epsilon : ≥ 0, half the width of the tube

    The others, and the attributes, are those of SVC; with q targets `expansion_` has a
    column, and `dual_coef_`, `coef_` and `intercept_` a row, for each.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SVR
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> machine = SVR(C=100, epsilon=0.1).fit(X, np.sin(X[:, 0]))
    >>> bool(np.abs(machine.predict(X) - np.sin(X[:, 0])).max() < 0.12)
    True
    >>> len(machine.support_) < 25, bool(machine.certificate_.gap < 1e-6)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict] = {
        **COMMON_CONSTRAINTS,
        "C": _BOX,
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
    }

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        epsilon: float = 0.1,
        shrinking: bool = True,
        cache_size: float | None = 200,
        verbose: Any = False,
        max_iter: int = -1,
        fit_intercept: bool = True,
        solver: Any = None,
        warm_start: bool = False,
        callback: Any = None,
    ):
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.C = C
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.warm_start = warm_start
        self.callback = callback

    def _problem(self, gram, target, weight):
        upper = self._upper(weight)
        return svr(gram, target, upper, self.epsilon, bias=self.fit_intercept)


class NuSVR(Regressor):
    """SVR whose ε is found so that a fraction ν of the points is not inside the tube.

    A drop-in for scikit-learn's NuSVR, for any kernel and several targets.

    Parameters
    ----------
    nu : in (0, 1], at most the fraction outside the tube, at least that of support
        vectors
    C : > 0 and finite, the price of a unit outside the tube

    The others, and the attributes, are those of SVR; there is always a bias.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import NuSVR
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> machine = NuSVR(nu=0.2, C=100).fit(X, np.sin(X[:, 0]))
    >>> len(machine.support_) >= 0.2 * len(X), machine.score(X, np.sin(X[:, 0])) > 0.99
    (True, True)
    """

    _parameter_constraints: ClassVar[dict] = {
        **COMMON_CONSTRAINTS,
        "C": _BOX,
        "nu": FRACTION,
    }

    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        tol: float = 1e-3,
        cache_size: float | None = 200,
        verbose: Any = False,
        max_iter: int = -1,
        solver: Any = None,
        warm_start: bool = False,
        callback: Any = None,
    ):
        self.nu = nu
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.tol = tol
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.solver = solver
        self.warm_start = warm_start
        self.callback = callback

    def _problem(self, gram, target, weight):
        if np.isinf(float(self.C)):
            raise ValueError(
                "NuSVR(C=inf) has no solution: its coefficients sum to ν C n / 2. "
                "Choose a finite C, or SVR(C=inf, epsilon=...) for a tube that holds "
                "every point."
            )
        return nu_svr(gram, target, self._upper(weight), self.nu)


class OneClassSVM(OneClass):
    """min ½‖f‖² - ρνn + Σᵢ wᵢ max(0, ρ - f(xᵢ)): f > ρ where the points are.

    A drop-in for scikit-learn's OneClassSVM. At most the fraction ν of the points is
    left outside, and at least that fraction are support vectors.

    Parameters
    ----------
    nu : in (0, 1]

    The others are those of SVC.

    Attributes
    ----------
    offset_ : ρ, as an array of one
    expansion_ : f - ρ

    The others are those of SVC.

    Examples
    --------
    >>> from mercer import OneClassSVM
    >>> X = [[0, 0], [0, 1], [1, 0], [1, 1], [0.5, 0.5]]
    >>> machine = OneClassSVM(nu=0.1).fit(X)
    >>> machine.predict([[0.5, 0.6], [5, 5]]).tolist()
    [1, -1]
    """

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        nu: float = 0.5,
        shrinking: bool = True,
        cache_size: float | None = 200,
        verbose: Any = False,
        max_iter: int = -1,
        solver: Any = None,
        warm_start: bool = False,
        callback: Any = None,
    ):
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.nu = nu
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.solver = solver
        self.warm_start = warm_start
        self.callback = callback

    def _problem(self, gram, weight):
        return one_class(gram, self.nu, weight)

    def _learn(self, X, counted, coef, bias, found):
        # A little more than the level of the free points: they are on the boundary, and
        # rounding is not to decide on which side of it.
        moved = RELATIVE_SLACK * abs(bias)
        found = self._loosened(found, moved, counted.weight)
        self._store(X, counted, np.arange(len(coef)), coef, bias + moved, found)
        self.offset_ = -self.intercept_

    def _depth(self, X):
        return self.expansion_(X)

    def certify(self, X: Points, y=None, sample_weight=None) -> Certificate:
        """The certificate of f, recomputed in float64 from the training data alone.

        Parameters
        ----------
        X, sample_weight : as they were given to `fit`; y is ignored
        """
        check_is_fitted(self)
        X = self._validated_points(X, reset=False)
        counted = self._weighted_gram(X, sample_weight)
        problem = self._problem(counted.gram, counted.weight)
        return self._recomputed(X, counted, [(problem, slice(None))])


class SVDD(OneClass):
    """min R² + Σᵢ wᵢ ξᵢ / νn, ‖φ(xᵢ) - c‖² ≤ R² + ξᵢ: the smallest ball of most points.

    At most the fraction ν of the points is left outside the ball. Where k(x, x) is
    constant, it is OneClassSVM in other units.

    Parameters
    ----------
    nu : in (0, 1]

    The others are those of SVC; "precomputed" rows do not tell k(x, x) of new points,
    so use Precomputed(K) with indices as points.

    Attributes
    ----------
    expansion_ : the centre c, a mean of the points
    radius_ : R
    offset_ : -R²; `score_samples` is -‖φ(x) - c‖²

    The others are those of SVC.

    Examples
    --------
    >>> from mercer import SVDD
    >>> machine = SVDD(nu=0.01, kernel="linear").fit([[0, 0], [2, 0], [1, 0.5]])
    >>> round(machine.radius_, 3)
    1.0
    >>> machine.predict([[1, 0.9], [1, 1.1]]).tolist()
    [1, -1]
    """

    _f_is_expansion: ClassVar[bool] = False  # that is the centre

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        nu: float = 0.5,
        shrinking: bool = True,
        cache_size: float | None = 200,
        verbose: Any = False,
        max_iter: int = -1,
        solver: Any = None,
        warm_start: bool = False,
        callback: Any = None,
    ):
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.nu = nu
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.solver = solver
        self.warm_start = warm_start
        self.callback = callback

    def _problem(self, gram, weight):
        if self._precomputed:
            raise ValueError(
                "SVDD measures ‖φ(x) - c‖², which needs k(x, x) of new points; rows of "
                "kernel values do not hold it. Use kernel=Precomputed(K) with indices "
                "as points, or OneClassSVM."
            )
        return svdd(gram, self.nu, weight)

    def _learn(self, X, counted, coef, bias, found):
        total = self.nu * counted.weight.sum()
        self._store(X, counted, np.arange(len(coef)), coef / total, 0.0, found)
        self._unit = 1 / total  # the next fit starts from the variables, not the mean
        # ‖φ(x) - c‖² = k(x, x) - 2 c(x) + ‖c‖², and k(x, x) - 2 c(x) is 2 bias / T on
        # the sphere.
        self._square = self._centre.inner(self._centre)
        moved = RELATIVE_SLACK * abs(self._square)
        square = self._square + 2 * bias / total + moved
        found = self._loosened(found, total / 2 * moved, counted.weight)
        self._certificate = found[0]
        # Below 0 by rounding, or where the kernel is indefinite.
        self.radius_, self.offset_ = float(np.sqrt(max(0.0, square))), -float(square)

    @property
    def _centre(self) -> Expansion:
        """c, whose values are float64: they cancel against k(x, x) in a distance."""
        c = self.expansion_
        return Expansion(c.kernel, double(c.points), c.coef, c.bias)

    def _depth(self, X):
        c, X = self._centre, double(X)
        own = finite(np.asarray(c.kernel.diag(X), dtype=float), c.kernel)
        return 2 * c(X) - own - self._square - self.offset_

    def certify(self, X: Points, y=None, sample_weight=None) -> Certificate:
        """The certificate of the ball, recomputed in float64 from the training data.

        Parameters
        ----------
        X, sample_weight : as they were given to `fit`; y is ignored
        """
        check_is_fitted(self)
        X = self._validated_points(X, reset=False)
        counted = self._weighted_gram(X, sample_weight)
        problem = self._problem(counted.gram, counted.weight)
        coef = np.zeros((len(counted.index), 1))
        places = np.searchsorted(counted.index, self.support_)
        coef[places, 0] = problem.total * self.expansion_.coef
        values, indefinite = self._dense_values(counted.gram, coef)
        level = problem.total / 2 * (self._square + self.offset_)
        value = problem.snapped(coef[:, 0], slack=1e-13)
        return certified(problem, value, values[:, 0], (level,), indefinite)
