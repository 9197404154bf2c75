"""What the L1 machines share: from problems to f on few points, and paths of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer.data.points import Points, brief, count, take
from mercer.expansion import Expansion
from mercer.kernels.base import Kernel, row_blocks
from mercer.kernels.ways import Precomputed
from mercer.machines.base import WORDS, WeightedGram, as_kernel
from mercer.machines.progress import Watcher
from mercer.machines.support import SMALL, SupportVectorMachine, early
from mercer.maps import FeatureExpansion, explicit
from mercer.multiclass import Classes
from mercer.outcomes import Certificate, Solution, Status, together
from mercer.solvers.l1 import CoordinateDescent
from mercer.solvers.lasso import L1Problem, certificate
from mercer.solvers.lasso_features import Design, FeatureProblem, feature_certificate

ROUNDING = 1e-12  # relative gap of problems so small that it costs nothing


@dataclass(frozen=True, eq=False)
class SparsePath:
    """f for one penalty after another, from the first that leaves a point to the last.

    `path[i]` is the expansion of step i; `len(path)` is how many steps there are. With
    on="features" it stands on features, and `path[i].selected()` names them.

    Attributes
    ----------
    parameter : (steps,) array, the C or alpha of each step
    expansion : all of them as one, the outputs of step after step, on the points that
        any of them uses
    certificates : one for each step
    classes : of a classifier, else None
    """

    parameter: np.ndarray
    expansion: Expansion | FeatureExpansion
    certificates: tuple[Certificate, ...]
    classes: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.parameter)

    def __getitem__(self, step: int) -> Expansion | FeatureExpansion:
        f, step = self.expansion, range(len(self))[step]
        outputs = self._outputs
        chosen = slice(step * outputs, (step + 1) * outputs)
        coef, bias = f.coef[:, chosen], f.bias[chosen]
        if isinstance(f, FeatureExpansion):
            used = np.flatnonzero(coef.any(axis=1)).tolist()
            keys, names = [f.keys[j] for j in used], [f.names[j] for j in used]
            coef = coef[used, 0] if outputs == 1 else coef[used]
            bias = bias[0] if outputs == 1 else bias
            return FeatureExpansion(f.kernel, keys, names, coef, bias)
        if outputs == 1:
            coef, bias = coef[:, 0], bias[0]
        return Expansion(f.kernel, f.points, coef, bias).pruned()

    @property
    def _outputs(self) -> int:
        return self.expansion.n_outputs // len(self)

    @property
    def n_support(self) -> np.ndarray:
        """(steps,) array, on how many points, or features, f stands."""
        used = self.expansion.coef.reshape(-1, len(self), self._outputs) != 0
        return used.any(axis=2).sum(axis=0)

    def values(self, X: Points) -> np.ndarray:
        """f at m points for every step, (steps, m), or (steps, m, c) of c outputs."""
        all_steps = self.expansion(X).reshape(count(X), len(self), self._outputs)
        values = np.moveaxis(all_steps, 1, 0)
        return values[..., 0] if self._outputs == 1 else values

    def predict(self, X: Points) -> np.ndarray:
        """What each step says of m points, (steps, m): their classes, or `values`."""
        values = self.values(X)
        if self.classes is None:
            return values
        return Classes(self.classes).chosen(values)


class SparseMachine(SupportVectorMachine):
    """f(x) = Σⱼ coefⱼ k(xⱼ, x) + bias, most coefⱼ being 0, by a `L1Problem`."""

    _parameter_constraints: ClassVar[dict] = {
        "kernel": [StrOptions(set(WORDS)), callable, None],
        "on": [StrOptions({"points", "features"})],
        "fit_intercept": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "cache_size": [Interval(Real, 0, None, closed="neither"), None],
        "solver": [HasMethods("solve"), None],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "callback": [callable, None],
    }

    _advice: ClassVar[dict[str, str]] = {
        "max_iter": (
            "{name} stopped after {solution.run.iterations} Newton steps with gap "
            "{solution.gap:.2g}: at most so much could the objective "
            "{solution.primal:.4g} still fall. Raise max_iter or tol, or penalise more."
        ),
        "stopped": (
            "{name} was stopped after {solution.run.iterations} Newton steps with gap "
            "{solution.gap:.2g}: at most so much could the objective "
            "{solution.primal:.4g} still fall. With warm_start=True, fit goes on."
        ),
        "stalled": (
            "{name} found no way down from the objective {solution.primal:.4g}, with "
            "gap {solution.gap:.2g}: rounding hides what is left. Raise tol, penalise "
            "more, or scale the kernel."
        ),
    }

    # Of the kernels named by a word.
    gamma = "scale"
    degree = 3
    coef0 = 0.0

    on: str
    fit_intercept: bool

    # From data to problems

    def _resolved(self, points, weight) -> Kernel:
        return as_kernel(self.kernel).resolve(points, weight)

    def _weighted_gram(self, X, sample_weight) -> WeightedGram:
        """The points that count, by their Gram or by their explicit features."""
        counted = super()._weighted_gram(X, sample_weight)
        if self.on == "points":
            return counted
        if self._precomputed:
            raise ValueError(
                f"{type(self).__name__}(on='features') needs points and the explicit "
                "map of a kernel; a matrix of kernel values has none. To choose "
                "columns of X itself, use kernel='linear'."
            )
        kernel, points = counted.gram.kernel, counted.gram.X
        names = getattr(self, "feature_names_in_", None)
        design: Any = Design(kernel, explicit(kernel, points, names))
        return replace(counted, gram=design)

    def _problem(self, counted: WeightedGram, *parts) -> L1Problem:
        """The problem on the points that count, or on their features."""
        kind: Any = FeatureProblem if self.on == "features" else L1Problem
        return kind(counted.gram, *parts, self.fit_intercept)

    def _check_symmetric(self, X) -> None:
        """Refuse kernel values that depend on which of two points comes first."""
        if self._precomputed and not _is_symmetric(X):
            i, j = np.unravel_index(np.argmax(np.abs(X - X.T)), X.shape)
            raise ValueError(
                f"{type(self).__name__} needs a symmetric matrix of kernel values; "
                f"K[{i}, {j}] = {X[i, j]:g} and K[{j}, {i}] = {X[j, i]:g}. Pass "
                "(K + K.T) / 2."
            )

    # From problems to solutions

    def _fit_columns(
        self, X, counted: WeightedGram, problems: Sequence[L1Problem], single: bool
    ):
        """Solve the problems and store f, a column for each."""
        if self.on == "features":
            return self._fit_weights(X, counted, problems, single)
        n_columns = len(problems)
        if isinstance(getattr(self, "expansion_", None), FeatureExpansion):
            near = None
        else:
            near = self._coefficients_before(counted.gram.X, n_columns)
        if near is not None:
            near /= self._growth()  # these do not grow with C
        coef = np.zeros((len(counted.index), n_columns))
        bias, found = np.zeros(n_columns), []
        solve = self._solving(counted)
        for j, problem in enumerate(problems):
            start = None if near is None else near[:, j]
            solution = self._solved_one(problem, start, solve)
            coef[:, j], bias[j] = solution.value, float(solution.bias)
            found.append(certificate(problem, solution))
        if single:
            coef, bias = coef[:, 0], bias[0]
        self._store(X, counted, np.arange(len(coef)), coef, bias, found)
        self.__dict__.pop("feature_names_", None)
        return found

    def _fit_weights(self, X, counted: WeightedGram, problems, single: bool):
        """Solve the problems on features and keep f, a column for each."""
        design: Any = counted.gram
        coef, bias, found = np.zeros((design.width, len(problems))), [], []
        before = getattr(self, "expansion_", None) if self.warm_start else None
        near = None
        if isinstance(before, FeatureExpansion) and before.n_outputs == len(problems):
            near = before.at(design.keys).reshape(coef.shape)
        solve = self._solving(counted)
        for j, problem in enumerate(problems):
            start = None if near is None else near[:, j]
            solution = self._solved_one(problem, start, solve)
            coef[:, j] = solution.value
            bias.append(float(solution.bias))
            found.append(feature_certificate(solution))
        names = np.array(design.features.names(), dtype=object)
        used = np.flatnonzero(coef.any(axis=1))
        chosen = coef[used, 0] if single else coef[used]
        for name in ("support_", "_places", "_label"):
            self.__dict__.pop(name, None)
        weights: Any = FeatureExpansion(
            design.kernel.copied(),
            [design.keys[j] for j in used],
            names[used].tolist(),
            chosen,
            bias[0] if single else np.array(bias),
        )
        self.expansion_ = weights
        self.feature_names_, self._selected = names, used
        self._certificate = together(found)
        self.run_ = self._certificate.run
        self.fit_status_ = int(early(self._certificate))
        self.shape_fit_ = X.shape if hasattr(X, "shape") else (count(X),)
        self._sparse = False
        self._unit = getattr(self, "C", 1.0)
        return found

    def selected_features(self) -> list[tuple[str, Any]]:
        """(name, weight) of every feature that f stands on, the heaviest first.

        Of on="features" only; with several classes or targets the weight is an array.
        """
        return self._weights().selected()

    def _weights(self) -> FeatureExpansion:
        check_is_fitted(self)
        f: Any = self.expansion_
        if not isinstance(f, FeatureExpansion):
            raise AttributeError(
                f"This {type(self).__name__} stands on points, not on features: use "
                "on='features'."
            )
        return f

    @property
    def coef_(self) -> np.ndarray:
        """w, a row for each function: of on="features", or of a linear kernel."""
        f: Any = getattr(self, "expansion_", None)
        if not isinstance(f, FeatureExpansion):
            return super().coef_
        rows = np.zeros((f.n_outputs, len(self.feature_names_)))
        rows[:, self._selected] = f.coef.reshape(-1, f.n_outputs).T
        return rows

    def _solving(self, counted: WeightedGram) -> Callable[..., Solution]:
        """What solves the problems on these points, which share what is read of K."""
        if self.solver is not None:
            return self.solver.solve
        tol = min(self.tol, ROUNDING) if len(counted.index) <= SMALL else self.tol
        solver = CoordinateDescent(tol, self.max_iter, self.cache_size)
        return partial(solver.solve, columns=solver.columns(counted.gram))

    def _solved_one(self, problem: L1Problem, start, solve) -> Solution:
        reporting: Any = nullcontext()
        if self._watcher is not None:
            reporting = self._watcher.problem()
        with reporting as watch:
            solution = solve(problem, start=start, watch=watch)
        goal = self._tolerance * problem.of_constant()
        enough = solution.gap + solution.rounding <= goal
        if solution.status in ("stalled", "max_iter", "stopped") and enough:
            return solution.ended(Status.OPTIMAL)
        return solution

    # Paths

    def _traced(
        self,
        counted: WeightedGram,
        problems: Sequence[L1Problem],
        regs: np.ndarray,
        names: Sequence[str],
    ) -> tuple[np.ndarray, Any, tuple[Certificate, ...]]:
        """The regs, f of all of them side by side, and their certificates."""
        if self.on == "features":
            return self._traced_weights(counted, problems, regs, names)
        solve, found = self._solving(counted), []
        starts: list[np.ndarray | None] = [None] * len(problems)
        coef = np.zeros((len(counted.index), len(regs), len(problems)))
        bias = np.zeros((len(regs), len(problems)))
        with self._following(names, len(regs)):
            for i, reg in enumerate(regs):
                parts = []
                for j, problem in enumerate(problems):
                    problem = replace(problem, reg=float(reg))
                    solution = self._solved_one(problem, starts[j], solve)
                    starts[j] = coef[:, i, j] = solution.value
                    bias[i, j] = solution.bias
                    parts.append(certificate(problem, solution))
                found.append(together(parts))
        for part in found:
            if part.status != "optimal":
                self._warn_unless_optimal(part)
                break
        used = np.flatnonzero(coef.any(axis=(1, 2)))
        points = counted.gram.X
        kernel, points = counted.gram.kernel, self._own(take(points, used), points)
        kernel = Precomputed() if self._precomputed else kernel
        flat = coef[used].reshape(len(used), -1)
        return regs, Expansion(kernel, points, flat, bias.ravel()), tuple(found)

    def _traced_weights(self, counted: WeightedGram, problems, regs, names):
        """The same on features."""
        design: Any = counted.gram
        solve, found = self._solving(counted), []
        starts: list[np.ndarray | None] = [None] * len(problems)
        columns, bias = [], np.zeros((len(regs), len(problems)))
        with self._following(names, len(regs)):
            for i, reg in enumerate(regs):
                parts = []
                for j, problem in enumerate(problems):
                    problem = replace(problem, reg=float(reg))
                    solution = self._solved_one(problem, starts[j], solve)
                    starts[j], bias[i, j] = solution.value, solution.bias
                    columns.append(sp.csc_array(solution.value[:, None]))
                    parts.append(feature_certificate(solution))
                found.append(together(parts))
        for part in found:
            if part.status != "optimal":
                self._warn_unless_optimal(part)
                break
        coef = sp.csr_array(sp.hstack(columns))
        used = np.flatnonzero(np.diff(coef.indptr))
        every = design.features.names()
        f = FeatureExpansion(
            design.kernel.copied(),
            [design.keys[j] for j in used],
            [every[j] for j in used],
            coef[used].toarray(),
            bias.ravel(),
        )
        return regs, f, tuple(found)

    @contextmanager
    def _following(self, names: Sequence[str], steps: int) -> Iterator[None]:
        """While the problems of a path are solved, report their progress."""
        if self.verbose or self.callback is not None:
            every = (
                f"step {i + 1} {name}".strip() for i in range(steps) for name in names
            )
            self._watcher = Watcher(self, None, every)
        try:
            yield
        finally:
            self.__dict__.pop("_watcher", None)

    # The certificate, recomputed

    def _recertified(
        self, X, counted: WeightedGram, problems: Sequence[L1Problem]
    ) -> Certificate:
        """The certificate from the points and f alone."""
        f = self.expansion_
        if isinstance(f, FeatureExpansion):
            design: Any = counted.gram
            weights = f.at(design.keys).reshape(design.width, -1)
            biases = np.atleast_1d(f.bias)
            return together(
                [
                    problem.certified(weights[:, j], biases[j])
                    for j, problem in enumerate(problems)
                ]
            )
        coef = np.zeros((count(X), f.n_outputs))
        coef[self.support_] = f.coef.reshape(-1, f.n_outputs)
        coef, bias = coef[counted.index], np.atleast_1d(f.bias)
        return together(
            [
                problem.certified(coef[:, j], bias[j])
                for j, problem in enumerate(problems)
            ]
        )

    def _dual_rows(self) -> np.ndarray:
        f = self.expansion_
        if isinstance(f, FeatureExpansion):
            raise AttributeError(
                f"This {type(self).__name__} stands on features, not on points: "
                "coef_ has their weights."
            )
        return f.coef.reshape(-1, f.n_outputs).T

    @abstractmethod
    def path(self, X: Points, y, sample_weight=None) -> SparsePath:
        """f for one penalty after another."""


def _is_symmetric(K: np.ndarray) -> bool:
    """Whether K = Kᵀ but for rounding, looked at in blocks."""
    return all(
        np.allclose(K[rows], K[:, rows].T, rtol=1e-6, atol=1e-12)
        for rows in row_blocks(len(K), len(K), 4.0)
        if not np.array_equal(K[rows], K[:, rows].T)
    )


def evenly(most: float, n_steps: int, ratio: float) -> np.ndarray:
    """n_steps penalties from `most` down to ratio times it."""
    if not (n_steps >= 1 and 0 < ratio < 1):
        raise ValueError(
            f"path needs n_steps ≥ 1 and 0 < ratio < 1; got n_steps={n_steps!r} and "
            f"ratio={ratio!r}."
        )
    if not most > 0:
        raise ValueError(
            "path begins at the least penalty that leaves no point; here every one "
            "does, as the best constant cannot be improved. Give the penalties."
        )
    return most * np.geomspace(1.0, ratio, n_steps)


def positive(values, name: str) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    if values.ndim != 1 or not values.size or not np.all(values > 0):
        raise ValueError(f"path needs {name} > 0, one or more; got {brief(values)}.")
    return values
