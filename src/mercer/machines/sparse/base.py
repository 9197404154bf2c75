"""What the sparse machines share: from problems to f on few points, and paths of f."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer.data.checks import brief
from mercer.data.points import Points, count
from mercer.expansion import Expansion
from mercer.kernels.base import row_blocks
from mercer.kernels.vector import Linear
from mercer.machines.base import FitData, Machine, biases, dual_rows
from mercer.machines.checks import TIME_LIMIT
from mercer.machines.labels import check_same
from mercer.machines.progress import CallbackSupportMixin, Watcher, reporting, watching
from mercer.machines.sparse.terms import Columns, FeatureTerms, PointTerms
from mercer.machines.words import WORDS
from mercer.machines.wrappers import outside
from mercer.maps import FeatureExpansion
from mercer.multiclass import Classes
from mercer.native.clock import is_over, seconds_left
from mercer.outcomes import Certificate, together
from mercer.solvers.auto import AutoL1
from mercer.solvers.lasso import L1Problem
from mercer.solvers.limits import Shares, solve_within
from mercer.solvers.roads import Road


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
        if outputs == 1:
            coef, bias = coef[:, 0], bias[0]
        if isinstance(f, Expansion):
            return Expansion(f.kernel, f.points, coef, bias).pruned()
        used = np.flatnonzero(coef.reshape(len(coef), -1).any(axis=1)).tolist()
        keys, names = [f.keys[j] for j in used], [f.names[j] for j in used]
        return FeatureExpansion(f.kernel, keys, names, coef[used], bias)

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


class SparseMachine(CallbackSupportMixin, Machine):
    """f(x) = Σⱼ coefⱼ k(xⱼ, x) + bias, most coefⱼ being 0, by a `L1Problem`."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
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
        "time_limit": TIME_LIMIT,
    }

    on: str
    fit_intercept: bool
    tol: float
    max_iter: int
    cache_size: float | None
    solver: Any
    warm_start: bool
    verbose: Any
    callback: Any
    time_limit: float | None

    certificate_: Certificate
    support_: np.ndarray
    feature_names_: np.ndarray
    _places: np.ndarray  # of the points of `support_` among those that counted
    _selected: np.ndarray  # the numbers of the features that f stands on

    @property
    @abstractmethod
    def _reg(self) -> float:
        """The factor of ‖coef‖₁."""

    @abstractmethod
    def _prepared(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None, reset: bool = True
    ) -> FitData:
        """The data of a fit, checked."""

    @abstractmethod
    def _problems(
        self, terms: PointTerms | FeatureTerms, data: FitData, reg: float
    ) -> list[L1Problem]:
        """What is to be solved, a problem for each function."""

    @abstractmethod
    def _names(self, data: FitData) -> list[str]:
        """The problems as a reader knows them."""

    def _terms(self, data: FitData) -> PointTerms | FeatureTerms:
        self._check_symmetric(data.given[0])
        return (FeatureTerms if self.on == "features" else PointTerms)(self, data)

    def _check_symmetric(self, X: Points) -> None:
        """Refuse kernel values that depend on which of two points comes first."""
        if self._precomputed and not _is_symmetric(X):
            i, j = np.unravel_index(np.argmax(np.abs(X - X.T)), X.shape)
            raise ValueError(
                f"{type(self).__name__} needs a symmetric matrix of kernel values; "
                f"K[{i}, {j}] = {X[i, j]:g} and K[{j}, {i}] = {X[j, i]:g}. Pass "
                "(K + K.T) / 2."
            )

    def _solver(self) -> AutoL1:
        return AutoL1(self.tol, self.max_iter, self.cache_size, self.solver)

    def _road(self, X: Points, y: Any) -> Road:
        data = self._prepared(X, y, None)
        problems = self._problems(self._terms(data), data, self._reg)
        return self._solver().road(problems[0], data.gram, len(problems))

    def _learn(self, data: FitData) -> None:
        """Solve the problems and keep what was found."""
        terms = self._terms(data)
        problems = self._problems(terms, data, self._reg)
        start = terms.before(len(problems)) if self.warm_start else None
        solver, columns, names = self._solver(), Columns(), self._names(data)
        with watching(self, names, *data.given) as watcher:

            def solve(j: int, seconds: float | None, before: Any) -> Any:
                near = None if start is None else start[:, j]
                near = near if before is None else before.value
                solver.time_limit = seconds
                with reporting(watcher, names[j]) as watch:
                    found = solver.solve(problems[j], start=near, watch=watch)
                if before is None:
                    return found
                return replace(found, run=found.run.after(before.run))

            solutions = Shares(seconds_left(), np.ones(len(problems))).solve(solve)
            for solution in solutions:
                columns.add(solution)
            pairs = zip(problems, solutions, strict=True)
            found = [terms.certificate(*pair) for pair in pairs]
            terms.store(*columns.packed(single=len(problems) == 1))
            self.certificate_ = together(found)
            self.run_ = self.certificate_.run
        self._warn_unless_optimal(self.certificate_)

    # Paths

    def _traced(
        self,
        X: Points,
        y: Any,
        sample_weight: npt.ArrayLike | None,
        regs: np.ndarray | None,
        n_steps: int,
        ratio: float,
    ) -> SparsePath:
        """The path over these regs, or over n_steps of them, as far as time goes."""
        self._validate_params()
        machine = clone(self)
        data = machine._prepared(X, y, sample_weight)
        terms = machine._terms(data)
        problems = machine._problems(terms, data, 1.0)
        if regs is None:
            most = max(problem.largest_reg() for problem in problems)
            regs = _evenly(most, n_steps, ratio)
        watcher = None
        if self.verbose or self.callback is not None:
            names = machine._names(data)
            steps = (f"step {i + 1} {name}" for i in range(len(regs)) for name in names)
            watcher = Watcher(machine, None, map(str.strip, steps))
        solver, columns = machine._solver(), Columns()
        found: list[Certificate] = []
        last: list[np.ndarray | None] = [None] * len(problems)
        for reg in regs:
            if found and is_over():
                warnings.warn(
                    f"{type(self).__name__}(time_limit={self.time_limit:g}) ended its "
                    f"path after {len(found)} of {len(regs)} steps. Raise time_limit, "
                    "or take fewer steps.",
                    ConvergenceWarning,
                    stacklevel=outside(),
                )
                regs = regs[: len(found)]
                break
            parts = []
            for j, problem in enumerate(problems):
                problem = replace(problem, reg=float(reg))
                options: dict[str, Any] = {"start": last[j]}
                with reporting(watcher) as watch:
                    options["watch"] = watch
                    solution = solve_within(solver, problem, seconds_left(), **options)
                last[j] = solution.value
                columns.add(solution)
                parts.append(terms.certificate(problem, solution))
            found.append(together(parts))
        for part in found:
            if part.status != "optimal":
                machine._warn_unless_optimal(part)
                break
        f, classes = terms.expansion(*columns.packed()), vars(machine).get("classes_")
        return SparsePath(regs, f, tuple(found), classes)

    @abstractmethod
    def path(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None = None
    ) -> SparsePath:
        """f for one penalty after another."""

    # The certificate, recomputed

    def certify(
        self, X: Points, y: Any, sample_weight: npt.ArrayLike | None = None
    ) -> Certificate:
        """The certificate of f, recomputed from the training data and all of K.

        Parameters
        ----------
        X, y, sample_weight : as they were given to `fit`
        """
        check_is_fitted(self)
        machine = copy.copy(self)  # checking data sets attributes
        data = machine._prepared(X, y, sample_weight, reset=False)
        check_same(self, count(data.given[0]), vars(machine).get("classes_"))
        terms, f = machine._terms(data), self.expansion_  # type: Any, Any
        problems = machine._problems(terms, data, self._reg)
        parts = zip(problems, terms.of(f).T, self.intercept_, strict=True)
        return together(
            [problem.certified(coef, float(bias)) for problem, coef, bias in parts]
        )

    # What f stands on

    @property
    def dual_coef_(self) -> np.ndarray:
        """The coefficients at `support_`, (q, s): a row for each function."""
        f: Any = self.expansion_
        if isinstance(f, FeatureExpansion):
            raise AttributeError(
                f"This {type(self).__name__} stands on features, not on points: "
                "coef_ has their weights."
            )
        return dual_rows(f)

    @property
    def intercept_(self) -> np.ndarray:
        """The biases, one for each function."""
        return biases(self.expansion_)

    @property
    def support_vectors_(self) -> Points:
        """The points that f stands on; for "precomputed" an empty (0, 0) array."""
        if self._precomputed:
            return np.empty((0, 0))
        return self.expansion_.points

    @property
    def coef_(self) -> np.ndarray:
        """w, a row for each function: of on="features", or of a linear kernel."""
        f: Any = getattr(self, "expansion_", None)
        if isinstance(f, FeatureExpansion):
            rows = np.zeros((f.n_outputs, len(self.feature_names_)))
            rows[:, self._selected] = f.coef.reshape(-1, f.n_outputs).T
            return rows
        if not (isinstance(self.kernel, Linear) or self.kernel == "linear"):
            raise AttributeError("coef_ is only available when using a linear kernel")
        return self.dual_coef_ @ f.points

    def selected_features(self) -> list[tuple[str, Any]]:
        """(name, weight) of every feature that f stands on, the heaviest first.

        Of on="features" only; with several classes or targets the weight is an array.
        """
        check_is_fitted(self)
        f: Any = self.expansion_
        if not isinstance(f, FeatureExpansion):
            raise AttributeError(
                f"This {type(self).__name__} stands on points, not on features: use "
                "on='features'."
            )
        return f.selected()


def _is_symmetric(K: np.ndarray) -> bool:
    """Whether K = Kᵀ but for rounding, looked at in blocks."""
    return all(
        np.allclose(K[rows], K[:, rows].T, rtol=1e-6, atol=1e-12)
        for rows in row_blocks(len(K), len(K), 4.0)
        if not np.array_equal(K[rows], K[:, rows].T)
    )


def _evenly(most: float, n_steps: int, ratio: float) -> np.ndarray:
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


def positive(values: Sequence[float], name: str) -> np.ndarray:
    """The penalties of a path as the user gave them."""
    penalties = np.asarray(values, dtype=float)
    if penalties.ndim != 1 or not penalties.size or not np.all(penalties > 0):
        raise ValueError(f"path needs {name} > 0, one or more; got {brief(penalties)}.")
    return penalties
