"""The bound on a perceptron's mistakes: M ≤ R²‖w‖² + 2 Σξᵢ, for any w without bias.

Novikoff's theorem (1962) with slack variables, Freund and Schapire, Machine Learning 37
(1999).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from mercer.data.points import Points, as_points, count
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.operators import Constant
from mercer.kernels.ways import Precomputed
from mercer.losses import Hinge
from mercer.native.sorting import distinct
from mercer.solvers.perceptron import (
    PerceptronProblem,
    PerceptronRule,
    PerceptronSolution,
)
from mercer.solvers.programs import svc
from mercer.solvers.smo import SMO

STEP = 10 ** (1 / 8)  # from one C to the next along the path of SVMs
LONGEST = 160  # steps: twenty powers of ten
UPHILL = 12  # steps in a row with a growing bound after which the path ends
STEPS = 30_000  # of the solver at one C
HELD = 4000  # points whose matrix is kept along the path
VALLEYS = 3  # how many of the best steps are refined


@dataclass(frozen=True, eq=False)
class MistakeBound:
    """M ≤ R²‖w‖² + 2 Σξᵢ: what a perceptron can miss, for any w without bias.

    The sum runs over the mistakes, a point that was missed twice counting twice;
    ξᵢ = max(0, 1 - yᵢ w(xᵢ)). It holds for every order of the points and for any
    number of passes: ⟨f, w⟩ grows by at least 1 - ξᵢ with each mistake, and ‖f‖² by at
    most R². For several functions each number is an array, one for each.

    Attributes
    ----------
    mistakes : M
    radius : R, the largest √k(x, x)
    norm : ‖w‖; its inverse is the margin γ, so that R²‖w‖² = R²/γ²
    slacks : ξᵢ of each mistake, in their order; a list of arrays for several functions
    comparator : w
    C : of the bias-free SVM that w is, one per function; None for a w that was given

    Examples
    --------
    >>> from mercer import Expansion, Linear
    >>> from mercer.theory import mistake_bound
    >>> X, y = [[2.0, 0.0], [-1.0, 1.0], [1.0, 1.0], [-2.0, 0.0]], [1, -1, 1, -1]
    >>> w = Expansion(Linear(), [[1.0, 0.0]], [1.0])
    >>> found = mistake_bound(Linear(), X, y, comparator=w)
    >>> found.mistakes, round(found.margin, 4), round(found.bound, 4)
    (1, 1.0, 4.0)
    """

    mistakes: Any
    radius: float
    norm: Any
    slacks: Any
    comparator: Expansion
    C: Any = None

    @property
    def slack(self) -> float | np.ndarray:
        """Σξᵢ over the mistakes."""
        if isinstance(self.slacks, list):
            return np.array([part.sum() for part in self.slacks])
        return float(self.slacks.sum())

    @property
    def bound(self) -> float | np.ndarray:
        """R²‖w‖² + 2 Σξᵢ."""
        return (self.radius * self.norm) ** 2 + 2 * self.slack

    @property
    def sharp(self) -> float | np.ndarray:
        """The largest M with M ≤ R‖w‖√M + Σξᵢ, from which the bound follows."""
        reach = self.radius * self.norm
        return ((reach + np.sqrt(reach**2 + 4 * self.slack)) / 2) ** 2

    @property
    def margin(self) -> float | np.ndarray:
        """γ = 1/‖w‖, ∞ for w = 0."""
        with np.errstate(divide="ignore"):
            margin = 1 / np.asarray(self.norm, dtype=float)
        return margin if margin.ndim else float(margin)

    def __repr__(self) -> str:
        def written(number: npt.ArrayLike) -> str:
            return np.array2string(np.asarray(number), precision=6)

        return (
            f"MistakeBound: {written(self.mistakes)} mistakes ≤ R²‖w‖² + 2Σξ = "
            f"{written((self.radius * self.norm) ** 2)} + {written(2 * self.slack)} = "
            f"{written(self.bound)}"
        )


def mistake_bound(
    machine: Any,
    X: Points,
    y: npt.ArrayLike,
    comparator: Any = None,
    C: float = 1.0,
    max_iter: int = 100,
    best: bool = False,
) -> MistakeBound:
    """M ≤ R²‖w‖² + 2 Σξᵢ for the mistakes of a perceptron; a `MistakeBound`.

    A bias is a component of w like any other: the kernel is then k + 1. The bound holds
    for every w, so for the least over all w; `best` looks for it among the bias-free
    SVMs of all C, from w = 0 up to the C where R²‖w‖² alone exceeds the bound found, or
    where the bound has grown over more than a power of ten.

    Parameters
    ----------
    machine : a fitted `Perceptron` or `KernelPerceptron`; or a kernel, for the plain
        perceptron with it over X, as the points come
    X, y : all the points the machine was given, and their classes
    comparator : w: an `Expansion` of the machine's kernel without bias, or a machine
        that is one; a column per class for more than two. None for the bias-free SVM
    C : of that SVM; any C gives a bound that holds
    max_iter : passes, where a kernel is given
    best : whether to choose C, for each function its own, so that the bound is least;
        never above the bound at the C given

    Examples
    --------
    >>> from mercer import Linear
    >>> from mercer.theory import mistake_bound
    >>> X, y = [[2.0, 0.0], [-1.0, 1.0], [1.0, 1.0], [-2.0, 0.0]], [1, -1, 1, -1]
    >>> found = mistake_bound(Linear(), X, y)
    >>> found.mistakes, bool(found.mistakes <= found.bound)
    (1, True)
    """
    if best and comparator is not None:
        raise ValueError(
            "best=True chooses w among SVMs, and comparator gives it; pass one of them."
        )
    X, y = as_points(X), np.asarray(y)
    classes = getattr(machine, "classes_", None)
    sign = _against_the_rest(y, distinct(y) if classes is None else classes)
    if isinstance(machine, Kernel):
        kernel = machine.resolve(X)
        found = PerceptronRule(max_iter).solve(PerceptronProblem(Gram(kernel, X), sign))
        parts = _by_column(found)
    else:
        kernel, X = _closed(machine, X)
        parts = machine.mistakes_
        parts = parts if isinstance(parts, list) else [parts]
    gram = Gram(kernel, X)
    _check_all_points(parts, count(X), len(y))
    radius = float(np.sqrt(max(0.0, float(np.max(gram.diag())))))
    chosen: Any = None
    if comparator is None:
        columns = _svm_columns(gram, sign, parts, radius, C, best)
        chosen = np.array([found.C for found in columns])
        coef = np.column_stack([found.coef for found in columns])
        comparator = Expansion(kernel, X, coef)
    w = _comparator(comparator, machine, kernel, sign.shape[1])
    slack = Hinge().value(sign, w(X).reshape(sign.shape))
    slacks = [slack[part, c] for c, part in enumerate(parts)]
    single = len(parts) == 1
    if single and chosen is not None:
        chosen = float(chosen[0])
    return MistakeBound(
        mistakes=len(parts[0]) if single else np.array([len(part) for part in parts]),
        radius=radius,
        norm=float(np.squeeze(w.norm())) if single else w.norm(),
        slacks=slacks[0] if single else slacks,
        comparator=w,
        C=chosen,
    )


def _closed(machine: Any, X: Points) -> tuple[Kernel, Points]:
    """The kernel of a machine and its points; for kernel values, the matrix and places.

    Rows of kernel values are compared with places only; among themselves by the matrix.
    """
    kernel = machine.kernel_
    if not machine._precomputed:
        return kernel, X
    values = Precomputed(np.asarray(X, dtype=float))
    known = values if isinstance(kernel, Precomputed) else values + Constant(1.0)
    return known, np.arange(count(X))


def _against_the_rest(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """(n, q) array of ±1: the second of two classes, or each against the rest."""
    if len(classes) < 2:
        raise ValueError(
            f"mistake_bound needs two classes or more; y holds {len(classes)}."
        )
    positive = classes[1:] if len(classes) == 2 else classes
    return np.where(y[:, None] == np.asarray(positive), 1.0, -1.0)


def _by_column(found: PerceptronSolution) -> list[np.ndarray]:
    return [found.point[found.column == c] for c in range(found.n_outputs)]


def _check_all_points(parts: list[np.ndarray], n: int, n_targets: int) -> None:
    last = max((int(part.max(initial=-1)) for part in parts), default=-1)
    if n != n_targets or last >= n:
        raise ValueError(
            f"mistake_bound needs all the points the machine was given, in order, and "
            f"a class for each; got {n} points and {n_targets} classes, and point "
            f"{last} was missed."
        )


# The bias-free SVM, at one C or at the best


class _Comparator(NamedTuple):
    """A bias-free SVM and the bound it gives."""

    C: float
    coef: np.ndarray
    norm_part: float  # R²‖w‖²
    bound: float


def _svm_columns(
    gram: Gram,
    sign: np.ndarray,
    parts: list[np.ndarray],
    radius: float,
    C: float,
    best: bool,
) -> list[_Comparator]:
    """For every column of signs the SVM at C, or the one of the least bound."""
    if best and gram.shape[0] <= HELD:
        gram = gram.held()  # read by every step of the path
    paths = [
        _Path(gram, side, np.bincount(part, minlength=len(side)), radius)
        for side, part in zip(sign.T, parts, strict=True)
    ]
    return [path.best(float(C)) if best else path.at(float(C)) for path in paths]


def _rises(bounds: list[float]) -> bool:
    return all(later > before for before, later in pairwise(bounds))


class _Path:
    """R²‖w‖² + 2 Σᵢ nᵢ ξᵢ of w = argmin ½‖w‖² + C Σᵢ ξᵢ, nᵢ mistakes at xᵢ, over C."""

    def __init__(self, gram: Gram, side: np.ndarray, often: np.ndarray, radius: float):
        self.gram, self.side = gram, side
        self.often, self.radius = often, radius
        self.solver = SMO()
        self.value: np.ndarray | None = None

    def at(self, C: float) -> _Comparator:
        """The SVM at C, starting from the last one computed."""
        problem = svc(self.gram, self.side, np.full(len(self.side), C), bias=False)
        start = None if self.value is None else problem.start(self.value)
        self.value = value = self.solver.solve(problem, start=start).value
        return self._judged(C, problem.coef(value))

    def _judged(self, C: float, coef: np.ndarray) -> _Comparator:
        values = np.asarray(self.gram @ coef)
        norm_part = self.radius**2 * max(0.0, float(coef @ values))
        slack = float(self.often @ Hinge().value(self.side, values))
        return _Comparator(C, coef, norm_part, norm_part + 2 * slack)

    def best(self, C: float) -> _Comparator:
        """The least bound of any C, the one given included."""
        given = self.at(C)
        if not self.radius > 0:
            return given
        # Any w gives a bound, also one that SMO has not brought to its optimum.
        self.solver, self.value = SMO(tol=1e-6, max_iter=STEPS), None
        walked = self._walk(min(given.bound, 2.0 * self.often.sum()))
        found = [given, self._before_the_first_bend(walked[0].C), *walked]
        # Refine a local minimum that lies between two steps.
        bounds = np.array([one.bound for one in walked])
        for i in np.argsort(bounds, kind="stable")[:VALLEYS]:
            ends = walked[max(i - 1, 0)].C, walked[min(i + 1, len(walked) - 1)].C
            if ends[0] < ends[1]:
                found += self._refined(*ends)
        return min(found, key=lambda one: one.bound)

    def _walk(self, least: float) -> list[_Comparator]:
        """SVMs of growing C, until R²‖w‖², which grows with C, exceeds a bound."""
        C = 1 / (len(self.side) * self.radius**2)  # up to here every αᵢ is C
        walked = [self.at(C)]
        for _ in range(LONGEST):
            last = walked[-1]
            least = min(least, last.bound)
            separated = np.abs(last.coef).max(initial=0) < last.C
            if last.norm_part >= least or separated:
                break  # beyond, the bound only grows, or w stays as it is
            if len(walked) > UPHILL and _rises([one.bound for one in walked[-UPHILL:]]):
                break
            C *= STEP
            walked.append(self.at(C))
        return walked

    def _before_the_first_bend(self, most: float) -> _Comparator:
        """The least bound of w = C Σᵢ yᵢ k(xᵢ, ·), C ≤ most: a parabola in C."""
        unit = self._judged(1.0, np.asarray(self.side, dtype=float))
        reached = self.side * np.asarray(self.gram @ self.side)
        fall = float(self.often @ reached)
        C = float(np.clip(fall / unit.norm_part, 0, most)) if unit.norm_part else 0.0
        return self._judged(C, C * self.side)

    def _refined(self, low: float, high: float) -> list[_Comparator]:
        found = []

        def bound(log_C: float) -> float:
            found.append(self.at(float(np.exp(log_C))))
            return found[-1].bound

        ends = np.log(low), np.log(high)
        minimize_scalar(bound, bounds=ends, method="bounded", options={"xatol": 1e-6})
        return found


def _comparator(w: Any, machine: object, kernel: Kernel, q: int) -> Expansion:
    """w as an expansion, checked to be one the bound is about."""
    w = getattr(w, "expansion_", w)
    if isinstance(w, Expansion) and w.kernel == getattr(machine, "kernel_", None):
        w = Expansion(kernel, w.points, w.coef, w.bias)
    if not isinstance(w, Expansion):
        raise TypeError(
            f"comparator is an Expansion, or a machine with one; got {w!r}."
        )
    if np.any(w.bias != 0):
        raise ValueError(
            f"The bound is about w without bias; the comparator has bias {w.bias}. Fit "
            "it with fit_intercept=False, on the kernel k + 1 for a bias within w."
        )
    if not w.kernel == kernel or w.n_outputs != q:
        raise ValueError(
            f"The comparator lives in the space of the perceptron: kernel {kernel}, "
            f"{q} output(s); got {w.kernel!r} and {w.n_outputs}."
        )
    return w
