"""Numbers from theory: geometry in feature space, Mercer's expansion, mistake bounds.

The integral operator is discretised by Gauss–Legendre quadrature and its
eigenfunctions are extended off the nodes by Nyström's formula (Atkinson, The Numerical
Solution of Integral Equations of the Second Kind, 1997, chapter 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.interruptible import elementwise
from mercer.kernels.algebra import Normalized
from mercer.kernels.base import Constant, Kernel, row_blocks
from mercer.kernels.kinds import Precomputed
from mercer.lapack import eigh
from mercer.points import Points, as_points, count
from mercer.solvers.losses import Hinge
from mercer.solvers.perceptron import Mistakes, Rosenblatt, Sides
from mercer.solvers.problems import svc
from mercer.solvers.smo import SMO

STEP = 10 ** (1 / 8)  # from one C to the next along the path of SVMs
LONGEST = 160  # steps: twenty powers of ten
UPHILL = 12  # steps in a row with a growing bound that end the walk
STEPS = 30_000  # of the solver at one C
HELD = 4000  # points whose matrix is kept along the path
VALLEYS = 3  # how many of the best steps are refined
MOST_NODES = 4000  # eigenvalues of a matrix of this size take some ten seconds


def feature_norms(kernel: Kernel, X: Points) -> np.ndarray:
    """‖φ(xᵢ)‖ = √k(xᵢ, xᵢ), an (n,) array."""
    squares = kernel.diag(X)
    if not kernel.psd and (squares < 0).any():
        i = int(np.argmin(squares))
        raise ValueError(
            f"{kernel} has no feature space: k(x, x) is {squares[i]:.6g} at point {i}."
        )
    # For a kernel a negative square can only be rounding.
    return np.sqrt(np.maximum(squares, 0))


def feature_distances(kernel: Kernel, X: Points, Y: Points | None = None) -> np.ndarray:
    """‖φ(xᵢ) - φ(yⱼ)‖ = √(k(x, x) - 2 k(x, y) + k(y, y)), an (n, m) array."""
    if not kernel.psd:
        feature_cosines(kernel, X, Y)  # refuses where the square would be negative
    return elementwise(np.sqrt, kernel.sqdist(X, Y))


def feature_cosines(kernel: Kernel, X: Points, Y: Points | None = None) -> np.ndarray:
    """k(xᵢ, yⱼ) / √(k(xᵢ, xᵢ) k(yⱼ, yⱼ)), an (n, m) array of numbers in [-1, 1].

    Points with φ(x) = 0 count as alike: 1 among themselves, 0 against all others.
    """
    cosines = Normalized(kernel)(X, Y)
    if not kernel.psd:
        largest = float(elementwise(_largest, cosines))
        if largest > 1 + 1e3 * np.finfo(cosines.dtype).eps:
            raise ValueError(
                f"{kernel} has no feature space on these points: |k(x, y)| is "
                f"{largest:.6g} times √(k(x, x) k(y, y)), against Cauchy and Schwarz."
            )
    return elementwise(lambda cosines: np.clip(cosines, -1, 1), cosines)


def _largest(values: np.ndarray) -> float:
    return np.abs(values).max(initial=0)


def feature_angles(kernel: Kernel, X: Points, Y: Points | None = None) -> np.ndarray:
    """arccos of `feature_cosines`, an (n, m) array in radians from 0 to π."""
    return elementwise(np.arccos, feature_cosines(kernel, X, Y))


@dataclass(frozen=True, eq=False, repr=False)
class MercerExpansion:
    """k(x, z) = Σⱼ λⱼ φⱼ(x) φⱼ(z) on a box, cut off after some terms.

    Attributes
    ----------
    kernel, low, high : k and the box, corners (d,)
    eigenvalues : (p,) array λⱼ, decreasing
    trace : ∫ k(x, x) dx, the sum of all eigenvalues, those left out included
    nodes, weights : (N, d) and (N,) arrays, the quadrature
    """

    kernel: Kernel
    low: np.ndarray
    high: np.ndarray
    eigenvalues: np.ndarray
    trace: float
    nodes: np.ndarray
    weights: np.ndarray
    _extension: np.ndarray  # φⱼ(x) = Σᵢ k(x, zᵢ) extensionᵢⱼ

    def eigenfunctions(self, X) -> np.ndarray:
        """φⱼ(xᵢ) = (1/λⱼ) ∫ k(xᵢ, z) φⱼ(z) dz, an (n, p) array; ∫ φᵢ φⱼ = 1 or 0.

        Parameters
        ----------
        X : (n, d) array of points of the box; (n,) will do on an interval
        """
        return self.kernel.matmul(self._points(X), self.nodes, self._extension)

    def reconstruct(self, X, Y=None) -> np.ndarray:
        """Σⱼ λⱼ φⱼ(x) φⱼ(y) over the p terms kept, an (n, m) array."""
        left = self.eigenfunctions(X)
        right = left if Y is None else self.eigenfunctions(Y)
        return (left * self.eigenvalues) @ right.T

    def sup_error(self, n_grid: int | None = None) -> float:
        """max |k(x, z) - Σⱼ λⱼ φⱼ(x) φⱼ(z)|, measured on a uniform grid of the box.

        The true supremum may lie between the grid points; a finer grid comes closer.

        Parameters
        ----------
        n_grid : grid points along each axis, ends included; None for some 2,000 in all
        """
        d = len(self.low)
        if n_grid is None:
            n_grid = max(3, int(2000 ** (1 / d)))
        grid = _tensor(list(np.linspace(self.low, self.high, n_grid).T))
        right = self.eigenfunctions(grid)
        worst = 0.0
        for rows in row_blocks(len(grid), len(grid), 16.0):
            truncated = (right[rows] * self.eigenvalues) @ right.T
            error = np.abs(self.kernel(grid[rows], grid) - truncated)
            worst = max(worst, float(error.max()))
        return worst

    def _points(self, X) -> np.ndarray:
        X = np.asarray(X, dtype=float)
        d = len(self.low)
        if X.ndim == 1 and d == 1:
            X = X[:, None]
        if X.ndim != 2 or X.shape[1] != d:
            raise ValueError(
                f"This Mercer expansion lives on a box in {d} dimensions; its points "
                f"are an (n, {d}) array. Got shape {X.shape}."
            )
        return X

    def __repr__(self) -> str:
        box = " × ".join(
            f"[{low:g}, {high:g}]"
            for low, high in zip(self.low, self.high, strict=True)
        )
        p = len(self.eigenvalues)
        share = self.eigenvalues.sum() / self.trace if self.trace else 1.0
        return (
            f"MercerExpansion of {self.kernel!r} on {box}: {p} eigenvalue"
            f"{'s' * (p != 1)}, {share:.4%} of the trace {self.trace:.6g}"
        )


def mercer_expansion(
    kernel: Kernel,
    low=0.0,
    high=1.0,
    n_components: int = 10,
    n_nodes: int = 200,
) -> MercerExpansion:
    """λⱼ φⱼ(x) = ∫ k(x, z) φⱼ(z) dz over a box, ‖φⱼ‖ = 1 in L₂: k = Σⱼ λⱼ φⱼ φⱼ.

    Smooth kernels reach rounding error with few nodes. A kink of k on the diagonal, as
    that of min(x, z), leaves an error in λⱼ relative to λⱼ of about (j / n_nodes)².
    Signs are fixed by the first value that is not small being positive; where an
    eigenvalue is multiple, its eigenfunctions are some orthonormal basis.

    Parameters
    ----------
    kernel : continuous, symmetric, positive semidefinite, on points of d numbers
    low, high : corners of the box: numbers for an interval, else (d,) arrays
    n_components : number of terms; fewer where the other eigenvalues are zero to
        within N · eps · λ₁
    n_nodes : Gauss–Legendre nodes along each axis, N = n_nodesᵈ in all
    """
    low, high = _box(low, high)
    if not n_nodes >= 1:
        raise ValueError(f"mercer_expansion needs n_nodes ≥ 1; got {n_nodes!r}.")
    N = n_nodes ** len(low)
    if N > MOST_NODES:
        most = int(MOST_NODES ** (1 / len(low)) + 1e-9)
        raise ValueError(
            f"n_nodes={n_nodes} along {len(low)} axes are {N:,} nodes; the expansion "
            f"takes up to {MOST_NODES:,}. Use n_nodes={most} or fewer."
        )
    if not 1 <= n_components <= N:
        raise ValueError(
            f"mercer_expansion needs 1 ≤ n_components ≤ {N} (nodes); got "
            f"n_components={n_components!r}."
        )
    nodes, weights = _quadrature(low, high, n_nodes)
    root = np.sqrt(weights)
    # √W K √W has the eigenvalues of the quadrature and is symmetric.
    K = kernel(nodes).astype(float) * np.multiply.outer(root, root)
    eigenvalues, vectors = eigh(K)
    tolerance = N * np.finfo(float).eps * np.abs(eigenvalues).max()
    if eigenvalues[0] < -tolerance:
        raise ValueError(
            f"Mercer's theorem needs a positive semidefinite kernel; {kernel} has "
            f"the eigenvalue {eigenvalues[0]:.6g} on this box."
        )
    kept = np.flatnonzero(eigenvalues > tolerance)[::-1][:n_components]
    eigenvalues, vectors = eigenvalues[kept], _signed(vectors[:, kept], root)
    return MercerExpansion(
        kernel=kernel,
        low=low,
        high=high,
        eigenvalues=eigenvalues,
        trace=float(weights @ kernel.diag(nodes)),
        nodes=nodes,
        weights=weights,
        _extension=root[:, None] * vectors / eigenvalues,
    )


def _box(low, high) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.broadcast_arrays(
        np.atleast_1d(np.asarray(low, dtype=float)), np.asarray(high, dtype=float)
    )
    if low.ndim != 1 or not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
        raise ValueError(
            "A box has finite corners with low < high along every axis, numbers or "
            f"(d,) arrays; got low={low.tolist()}, high={high.tolist()}."
        )
    return low, high


def _quadrature(low, high, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (N, d) and weights (N,) of the tensor Gauss–Legendre rule on a box."""
    at, weight = np.polynomial.legendre.leggauss(n_nodes)
    half = (high - low) / 2
    nodes = _tensor(list((low + high)[:, None] / 2 + np.outer(half, at)))
    return nodes, _tensor(list(np.outer(half, weight))).prod(axis=1)


def _tensor(axes: list[np.ndarray]) -> np.ndarray:
    """Every choice of one number from each axis, an (N, d) array."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def _signed(vectors: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Columns whose function, vector / root, is positive where first it is large."""
    values = vectors / root[:, None]
    size = np.abs(values)
    first = np.argmax(size > 0.1 * size.max(axis=0), axis=0)
    return vectors * np.sign(np.take_along_axis(values, first[None], axis=0))


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
    """

    mistakes: Any
    radius: float
    norm: Any
    slacks: Any
    comparator: Expansion
    C: Any = None

    @property
    def slack(self):
        """Σξᵢ over the mistakes."""
        if isinstance(self.slacks, list):
            return np.array([part.sum() for part in self.slacks])
        return float(self.slacks.sum())

    @property
    def bound(self):
        """R²‖w‖² + 2 Σξᵢ."""
        return (self.radius * self.norm) ** 2 + 2 * self.slack

    @property
    def sharp(self):
        """The largest M with M ≤ R‖w‖√M + Σξᵢ, from which the bound follows."""
        reach = self.radius * self.norm
        return ((reach + np.sqrt(reach**2 + 4 * self.slack)) / 2) ** 2

    @property
    def margin(self):
        """γ = 1/‖w‖, ∞ for w = 0."""
        with np.errstate(divide="ignore"):
            margin = 1 / np.asarray(self.norm, dtype=float)
        return margin if margin.ndim else float(margin)

    def __repr__(self) -> str:
        def written(number):
            return np.array2string(np.asarray(number), precision=6)

        return (
            f"MistakeBound: {written(self.mistakes)} mistakes ≤ R²‖w‖² + 2Σξ = "
            f"{written((self.radius * self.norm) ** 2)} + {written(2 * self.slack)} = "
            f"{written(self.bound)}"
        )


def mistake_bound(
    machine: Any,
    X: Points,
    y,
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
    """
    if best and comparator is not None:
        raise ValueError(
            "best=True chooses w among SVMs, and comparator gives it; pass one of them."
        )
    X, y = as_points(X), np.asarray(y)
    classes = getattr(machine, "classes_", None)
    sign = _against_the_rest(y, np.unique(y) if classes is None else classes)
    if isinstance(machine, Kernel):
        kernel = machine.resolve(X)
        found = Rosenblatt(max_iter).solve(Sides(Gram(kernel, X), sign))
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


def _closed(machine, X: Points) -> tuple[Kernel, Points]:
    """The kernel of a machine and its points; for kernel values, the matrix and places.

    Rows of kernel values are compared with places only; among themselves by the matrix.
    """
    kernel = machine.kernel_
    if not machine._precomputed:
        return kernel, X
    values = Precomputed(np.asarray(X, dtype=float))
    known = values if isinstance(kernel, Precomputed) else values + Constant(1.0)
    return known, np.arange(count(X))


def _against_the_rest(y, classes) -> np.ndarray:
    """(n, q) array of ±1: the second of two classes, or each against the rest."""
    if len(classes) < 2:
        raise ValueError(
            f"mistake_bound needs two classes or more; y holds {len(classes)}."
        )
    positive = classes[1:] if len(classes) == 2 else classes
    return np.where(y[:, None] == np.asarray(positive), 1.0, -1.0)


def _by_column(found: Mistakes) -> list[np.ndarray]:
    return [found.point[found.column == c] for c in range(found.n_outputs)]


def _check_all_points(parts, n: int, n_targets: int) -> None:
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


def _svm_columns(gram, sign, parts, radius, C, best) -> list[_Comparator]:
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

    def __init__(self, gram: Gram, side, often: np.ndarray, radius: float):
        self.gram, self.side = gram, side
        self.often, self.radius = often, radius
        self.solver = SMO()
        self.value: np.ndarray | None = None

    def at(self, C: float) -> _Comparator:
        """The SVM at C, from the last one that was asked for."""
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
        # Any w gives a bound: one that is found in time will do.
        self.solver, self.value = SMO(tol=1e-6, max_iter=STEPS), None
        walked = self._walk(min(given.bound, 2.0 * self.often.sum()))
        found = [given, self._before_the_first_bend(walked[0].C), *walked]
        # Where a valley lies between two steps, look for its ground.
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


def _comparator(w, machine, kernel: Kernel, q: int) -> Expansion:
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
