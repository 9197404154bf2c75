"""What the fits of a search share: a kernel matrix, features, or nothing.

Candidates with one and the same kernel form a group. Where nothing is learnt from a
fold, the kernel values of all points with each other are computed once for the group:
those of a fold are a part of them. Where a width is learnt from each fold, the squared
distances or inner products are computed once, and where all of a kernel is learnt, the
values once for a fold. The choice between these is an estimate of time and memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import _safe_split

from mercer.data.checks import brief
from mercer.data.partitions import Slices
from mercer.data.points import Points, as_points, count, double, take
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.checks import are_finite
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.radial import RBF
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import Precomputed
from mercer.machines.checks import is_structured
from mercer.machines.estimator import KernelEstimator
from mercer.machines.regularized import (
    KernelHuberRegression,
    KernelLogisticRegression,
    KernelQuantileRegression,
    RegularizedMachine,
)
from mercer.machines.ridge import KernelRidge
from mercer.machines.svm.base import SupportVectorMachine
from mercer.machines.words import as_kernel
from mercer.maps import explicit, has_quick_map
from mercer.native import memory
from mercer.native.sorting import distinct
from mercer.native.threads import at_most
from mercer.solvers.auto.costs import on_features
from mercer.solvers.held_rows import HeldRows, Offer
from mercer.solvers.smo import SINGLE_FROM

# Multiplications for a kernel value from which on a held matrix is read in less time
# than a compiled kernel computes its rows: a guess from fits on 20 columns, where it is
# not.
DEAR = 100.0
MANY = 10  # fits of a group; fewer may need fewer rows than K has
# Of machines that need no k(x, x) of new points: fitted on the values of a fold alone.
_BY_ROWS = (
    SupportVectorMachine,
    KernelRidge,
    KernelLogisticRegression,
    RegularizedMachine,
    KernelQuantileRegression,
    KernelHuberRegression,
)
_WITHOUT_GAMMA = ("linear", "cosine", "additive_chi2", "precomputed")


@dataclass(frozen=True, eq=False)
class View:
    """What a machine is given in one fold.

    Attributes
    ----------
    kernel : to set in the machine; None to leave it as it is
    train, test : points of the fold as that kernel reads them
    looked_at : the kernel values among `train`, where they were found to be finite
    """

    kernel: Any
    train: Points
    test: Points
    looked_at: np.ndarray | None = None


@dataclass(eq=False)
class Task:
    """Points and targets with their folds, as a search is given them."""

    X: Points
    y: Any
    folds: Sequence[tuple[np.ndarray, np.ndarray]]
    fit_params: dict[str, Any] = field(default_factory=dict)
    score_params: dict[str, Any] = field(default_factory=dict)
    workers: int = 1
    rooms: list[np.ndarray] = field(default_factory=list)  # for matrices, to be reused
    parts: dict[int, tuple[Any, Any]] = field(  # of y, by fold
        default_factory=dict, init=False
    )

    @property
    def n(self) -> int:
        return count(self.X)

    @property
    def largest(self) -> int:
        """The points of the largest fold."""
        return max(len(train) for train, _ in self.folds)

    @property
    def whole(self) -> Points:
        """All points, as they were given."""
        return self.X.collection if isinstance(self.X, Slices) else self.X

    def targets(self, k: int) -> tuple[Any, Any]:
        """Those of the fit and of the score in fold k; None where there are none."""
        if self.y is None:
            return None, None
        if k not in self.parts:
            train, test = (_safe_indexing(self.y, some) for some in self.folds[k])
            self.parts[k] = train, test
        return self.parts[k]

    def split(self, machine: Any, k: int) -> View:
        """The points of fold k as they are."""
        train, test = self.folds[k]
        if isinstance(self.X, Slices):
            return View(None, self.X[train], self.X[test])
        X_train, _ = _safe_split(machine, self.X, None, train)
        X_test, _ = _safe_split(machine, self.X, None, test, train)
        return View(None, X_train, X_test)


class Group:
    """Candidates of one kernel, and what their fits share; here nothing.

    Parameters
    ----------
    machine : one of them, as a machine
    """

    word = "nothing"
    begins_beside = False  # whether others are to begin while this computes its K
    fits_apart = False  # whether fits side by side have their own threads

    def __init__(self, task: Task, machine: Any):
        self.task, self.machine = task, machine
        self.members: list[int] = []
        self.lock = Lock()

    def view(self, k: int) -> View:
        """What a machine is given in fold k; computed when it is first asked for."""
        return self.task.split(self.machine, k)

    def rows(self, k: int) -> Offer | None:
        """Kernel rows that the solves in fold k read; None where they compute them."""
        return None

    def release(self) -> None:
        """All folds are done: what was computed is no longer needed."""


class SharedRows(Group):
    """K of all points in single precision, of which the solves of all folds read rows.

    Machines have their points; kernel values in double are computed from these.
    """

    word = "kernel rows in single precision for all folds"
    fits_apart = True

    def __init__(self, task: Task, machine: Any, kernel: Kernel):
        super().__init__(task, machine)
        self.kernel = kernel
        self._rows: HeldRows | None = None

    def view(self, k: int) -> View:
        with self.lock:
            if self._rows is None and len(self.members) * len(self.task.folds) >= MANY:
                X = np.ascontiguousarray(double(as_points(self.task.X)))
                with at_most(0):
                    self._rows = HeldRows(self.kernel, X, self._room())
        return super().view(k)

    def _room(self) -> np.ndarray:
        try:
            return self.task.rooms.pop()  # memory that was never touched takes time
        except IndexError:
            return np.empty((self.task.n, self.task.n), dtype=np.float32)

    def rows(self, k: int) -> Offer | None:
        rows = self._rows
        return None if rows is None else Offer(rows, self.task.folds[k][0])

    def release(self) -> None:
        if self._rows is not None:
            self.task.rooms.append(self._rows.matrix)
        self._rows = None


class SharedMatrix(Group):
    """K of all points, of which the matrix of each fold is a part."""

    word = "one kernel matrix for all folds"
    begins_beside = fits_apart = True

    def __init__(self, task: Task, machine: Any, kernel: Kernel):
        super().__init__(task, machine)
        self.kernel = kernel
        self._matrix: np.ndarray | None = None

    def matrix(self) -> np.ndarray:
        with self.lock:
            if self._matrix is None:
                self._matrix = self._computed()
            return self._matrix

    def _computed(self) -> np.ndarray:
        X = double(as_points(self.task.X))
        return np.ascontiguousarray(Gram(self.kernel, X).dense(), dtype=float)

    def view(self, k: int) -> View:
        train, test = self.task.folds[k]
        return _of_matrix(self.machine, self.kernel, self.matrix(), train, test)

    def release(self) -> None:
        self._matrix = None


class GivenMatrix(SharedMatrix):
    """K that was given in place of points."""

    word = "the kernel matrix that was given"

    def _computed(self) -> np.ndarray:
        X = self.task.X
        return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float)


class SharedFeatures(Group):
    """Φ of all points, with K = ΦΦᵀ: each fold has some of its rows."""

    word = "the features of all points for all folds"

    def __init__(self, task: Task, machine: Any, kernel: Kernel):
        super().__init__(task, machine)
        self.kernel = kernel
        self._features: Any = None

    def view(self, k: int) -> View:
        with self.lock:
            if self._features is None:
                found = explicit(self.kernel, as_points(self.task.X)).matrix
                self._features = sp.csr_array(found) if sp.issparse(found) else found
        train, test = self.task.folds[k]
        return View(Linear(), self._features[train], self._features[test])

    def release(self) -> None:
        self._features = None


class LearntKernel(Group):
    """A kernel that learns from each fold: its values are computed once in a fold.

    Those of Gaussians, polynomials and sigmoids follow from squared distances or inner
    products, which are computed once for all folds.
    """

    word = "squared distances or inner products for all folds"

    def __init__(self, task: Task, machine: Any):
        super().__init__(task, machine)
        self._base: np.ndarray | None = None

    def view(self, k: int) -> View:
        train, test = self.task.folds[k]
        X = double(as_points(self.task.X))
        kernel = self.machine._resolved(take(X, train), None)
        with self.lock:
            if self._base is None and _base_of(kernel) is not None:
                by = Gram(Linear(), X)
                # Of float64 points the core has distances without cancellation.
                self._base = (
                    Linear().sqdist(X) if isinstance(kernel, RBF) else by.dense()
                )
        order = np.concatenate([train, test])
        if self._base is None:
            K = kernel(take(X, order))
        else:
            K = _from_base(kernel, self._base[np.ix_(order, order)])
        places = np.arange(len(order))
        return _of_matrix(
            self.machine, kernel, K, places[: len(train)], places[len(train) :]
        )

    def release(self) -> None:
        self._base = None


def _base_of(kernel: Kernel) -> str | None:
    if isinstance(kernel, RBF):
        return "squares"
    return "products" if isinstance(kernel, Polynomial | Sigmoid) else None


def _from_base(kernel: Any, base: np.ndarray) -> np.ndarray:
    """Kernel values from squared distances or inner products, which are written to."""
    if isinstance(kernel, RBF):
        base *= -kernel._resolved("gamma")
        return np.exp(base, out=base)
    base *= kernel.scale
    base += kernel.offset
    if isinstance(kernel, Sigmoid):
        return np.tanh(base, out=base)
    return np.power(base, kernel.degree, out=base)


def _of_matrix(
    machine: Any, kernel: Kernel, K: np.ndarray, train: np.ndarray, test: np.ndarray
) -> View:
    """A fold by its places in K."""
    if isinstance(machine, _BY_ROWS):
        word = "precomputed" if "precomputed" in machine._words() else Precomputed()
        # Rows and then columns: half the time of both at once.
        own, new = (K.take(some, axis=0).take(train, axis=1) for some in (train, test))
        return View(word, own, new, own if are_finite(own) else None)
    return View(Precomputed(K, kernel.psd), train[:, None], test[:, None])


# Which of them


def groups_of(task: Task, machines: Sequence[Any]) -> list[Group]:
    """The candidates by their kernels, with what each group shares."""
    groups: list[Group] = []
    keys: list[tuple[Any, ...]] = []
    for number, machine in enumerate(machines):
        key = _key(task, machine)
        # Kernels compare by value, and need not be hashable.
        at = next((i for i, one in enumerate(keys) if _equal(one, key)), None)
        if at is None:
            at = len(groups)
            keys.append(key)
            groups.append(_group(task, machine, key))
        groups[at].members.append(number)
    return groups


def _equal(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(one) == len(other) and all(
        a is b or (type(a) is type(b) and bool(a == b))
        for a, b in zip(one, other, strict=True)
    )


def _key(task: Task, machine: Any) -> tuple[Any, ...]:
    """What two candidates of a group have in common."""
    # What is in partitions stays there: nothing of it is shared.
    alone = isinstance(task.X, Slices) or 0 in getattr(task.X, "shape", ())
    if alone or not isinstance(machine, KernelEstimator):
        return ("ordinary",)
    if machine._precomputed:
        return ("given",)
    try:
        kernel = fixed_kernel(machine, task.X)
        machine._resolved(as_points(task.X), None)
    except (TypeError, ValueError):  # points that each fit refuses in its own words
        return ("ordinary",)
    if kernel is not None:
        return ("fixed", kernel)
    words = [getattr(machine, name, None) for name in ("gamma", "degree", "coef0")]
    named = isinstance(machine.kernel, str)
    return ("learnt", machine.kernel, *(map(str, words) if named else ()))


def fixed_kernel(machine: Any, X: Points) -> Kernel | None:
    """The kernel of a machine, where nothing of it is learnt from points; else None."""
    kernel = machine.kernel
    points = as_points(X)
    if isinstance(kernel, str):
        gamma = getattr(machine, "gamma", None)
        if gamma == "scale" and kernel not in _WITHOUT_GAMMA:
            return None
        if not hasattr(machine, "gamma"):
            made = as_kernel(kernel)
            return made if made.resolve(points) is made else None
        found: Kernel = machine._resolved(points, None)
        return found
    if kernel is None:
        return None
    if isinstance(kernel, Kernel):
        resolved = kernel.resolve(points)
        return kernel if resolved is kernel or resolved == kernel else None
    found = machine._resolved(points, None)
    return found


def check_kernel(machine: Any, X: Points) -> None:
    """Refuse a kernel that does not compare such points."""
    if not isinstance(machine, KernelEstimator) or machine._precomputed:
        return
    if not (isinstance(machine.kernel, str | Kernel) or callable(machine.kernel)):
        raise TypeError(
            "KernelSearchCV needs kernels such as RBF(), functions of points, or words "
            f"such as 'rbf'; got kernel={brief(machine.kernel)}."
        )
    points = as_points(X)
    try:
        if isinstance(machine.kernel, str) and is_structured(X):
            machine._validated_points(X)
        kernel = machine._resolved(points, None)
        kernel(take(points, slice(0, 1)))
    except (TypeError, ValueError, IndexError) as error:
        raise type(error)(
            f"KernelSearchCV cannot try kernel={machine.kernel!r} on these points: "
            f"{error}"
        ) from error


def _group(task: Task, machine: Any, key: tuple[Any, ...]) -> Group:
    kind, n = key[0], task.n
    if kind == "ordinary":
        return Group(task, machine)
    # For each worker K, and the part of a fold.
    room = task.workers * 8.0 * n * (n + task.largest)
    if not memory.keeps(room):
        return Group(task, machine)
    if kind == "given":
        return GivenMatrix(task, machine, Precomputed())
    X = as_points(task.X)
    if kind == "learnt":
        weighted = task.fit_params.get("sample_weight") is not None
        rows = isinstance(machine, SupportVectorMachine) and not _is_dear(X)
        native = machine._resolved(X, None).native(X) is not None
        if weighted or (native and (rows or not isinstance(machine, _BY_ROWS))):
            return Group(task, machine)
        return LearntKernel(task, machine)
    kernel: Kernel = key[1]
    some = take(X, task.folds[0][0])
    if has_quick_map(kernel) and not isinstance(machine, _BY_ROWS):
        return Group(task, machine)  # neighbours at equal distances are to stay so
    if has_quick_map(kernel):
        if on_features(Gram(kernel, some)) is not None:
            own = isinstance(kernel, Linear)  # whose features the points are
            return (Group if own else SharedFeatures)(
                *_given(task, machine, kernel, own)
            )
    if kernel.native(X) is not None:
        held = isinstance(machine, _BY_ROWS) and not isinstance(
            machine, SupportVectorMachine
        )
        if not (held or (isinstance(machine, SupportVectorMachine) and _is_dear(X))):
            if _reads_rows(task, machine):
                return SharedRows(task, machine, kernel)
            return Group(task, machine)
    return SharedMatrix(task, machine, kernel)


def _reads_rows(task: Task, machine: Any) -> bool:
    """Whether fits of a compiled kernel on vectors read rows in single precision.

    With several classes there is a problem for each pair of them, on a part of a fold.
    """
    X = as_points(task.X)
    if not isinstance(machine, SupportVectorMachine) or not isinstance(X, np.ndarray):
        return False
    if hasattr(machine, "class_weight") and len(distinct(np.asarray(task.y))) != 2:
        return False
    # A worker that is done goes on with the next kernel.
    room = min(2, task.workers) * 4.0 * task.n**2
    return task.largest > SINGLE_FROM and memory.keeps(room)


def _given(task: Task, machine: Any, kernel: Kernel, own: bool) -> tuple[Any, ...]:
    return (task, machine) if own else (task, machine, kernel)


def _is_dear(X: Points) -> bool:
    """Whether a value of a compiled kernel takes long on these vectors."""
    if sp.issparse(X):
        # A sparse product takes about four times as long for each entry.
        return 4.0 * X.nnz / max(1, X.shape[0]) > DEAR
    return getattr(X, "ndim", 1) == 2 and float(X.shape[1]) > DEAR
