"""SVC and NuSVC: classes by the widest margin, priced by C or by a share of errors.

Drop-ins for scikit-learn's machines of the same names, on points and kernels of any
kind; every fit carries the certificate of its optimality.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mercer.gram import Gram
from mercer.machines.svm.base import BOX, FRACTION
from mercer.machines.svm.classifier import Classifier
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.class_pairs import PairProblems, nu_svc_pairs, svc_pairs
from mercer.solvers.programs import nu_svc, svc


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
        vectors, the violation and seconds; before it, what takes long. There is a line
        every two seconds at least
    max_iter : steps of the solver; -1 for its own budget
    decision_function_shape : "ovr", scores of classes; "ovo", values of pairs
    break_ties : whether `predict` follows the scores where pairs won are equal
    random_state : of the folds for probabilities
    fit_intercept : whether f has a bias; without one, the matrix is held in memory
    multiclass : "ovo", every class against every other; "ovr", each against the rest
    solver : what solves the `BoxQP`; None for SMO(tol, cache_size, max_iter), or for
        many points of a kernel with an explicit map `SemismoothNewton` or
        `FeatureDescent` or `Chunking`, where these are cheaper
    warm_start : whether `fit` starts from the last solution, on points known from it.
        A fit that max_iter, a time limit or a callback ended goes on where it was, also
        when the machine was saved and loaded in between
    callback : a function of a `Progress` (of `mercer.solvers`), called after every
        round of the solver; the fit stops where it returns True, with a warning that
        states the gap. Problems are then solved one after another. Callbacks of
        scikit-learn's (1.9) are set by `set_callbacks`
    time_limit : seconds; None for no limit. The fit then ends with the best it has,
        its certificate and the status "time_limit", and a warning states the gap. Its
        problems (pairs of classes, classes, targets, folds) share the time by their
        sizes, what one does not need being for the others; with warm_start=True the
        next fit goes on from here. Where not even f = 0 can be judged in that time, as
        with landmarks of `Nystrom` to be chosen first or a start of `NuSVC` on a slow
        kernel, a TimeoutError says so

    Attributes
    ----------
    expansion_ : f itself, a column for each two-class problem
    certificate_ : primal, dual, gap, violation, margin, and what it took
    kernel_weights_, kernel_shares_ : of a `MultipleKernel`, what it learnt, as a table
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Classifier._parameter_constraints,
        "C": BOX,
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
        time_limit: float | None = None,
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
        self.time_limit = time_limit

    def _problem(self, gram: Gram, sign: np.ndarray, weight: np.ndarray) -> BoxQP:
        return svc(gram, sign, self._upper(weight), bias=self.fit_intercept)

    def _pair_problems(
        self,
        gram: Gram,
        members: Sequence[np.ndarray],
        pairs: np.ndarray,
        weight: np.ndarray,
    ) -> PairProblems:
        upper = self._upper(weight)
        return svc_pairs(gram, members, pairs, upper, bias=self.fit_intercept)


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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
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
        time_limit: float | None = None,
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
        self.time_limit = time_limit

    def _problem(self, gram: Gram, sign: np.ndarray, weight: np.ndarray) -> BoxQP:
        return nu_svc(gram, sign, self.nu, weight)

    def _pair_problems(
        self,
        gram: Gram,
        members: Sequence[np.ndarray],
        pairs: np.ndarray,
        weight: np.ndarray,
    ) -> PairProblems:
        return nu_svc_pairs(gram, members, pairs, self.nu, weight)

    def _check_weights(
        self, classes: np.ndarray, counts: np.ndarray, totals: np.ndarray
    ) -> None:
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

    def _lightest(self, totals: np.ndarray) -> tuple[int, float, float]:
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
