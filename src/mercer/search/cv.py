"""KernelSearchCV: cross-validated search over machines and kernels, with shared work.

A drop-in for scikit-learn's GridSearchCV and RandomizedSearchCV over machines of this
library, and usable over any estimator. Starts from the solution at a smaller C: DeCoste
and Wagstaff, KDD 2000. Successive halving: Jamieson and Talwalkar, AISTATS 2016.
"""

from __future__ import annotations

import copy
import inspect
import math
import time
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context, clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._validation import (
    _insert_error_scores,
    _warn_or_raise_about_fit_failures,
)
from sklearn.utils import check_random_state, indexable
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.parallel import Parallel
from sklearn.utils.validation import _check_method_params, _num_samples

from mercer import plots
from mercer.data.partitions import Slices, computing_on, in_memory, is_collection
from mercer.data.points import Points
from mercer.machines.checks import TIME_LIMIT
from mercer.machines.wrappers import answering_here
from mercer.search.journal import Journal, digest, text_of
from mercer.search.judging import Limited
from mercer.search.run import Results, Run
from mercer.search.sharing import Task, check_kernel
from mercer.search.spaces import SAMPLE, candidates_of


class KernelSearchCV(BaseSearchCV):
    """The best parameters, and kernel, of a machine by their scores on left-out folds.

    It gives what GridSearchCV gives on the same grid and folds, in less time: kernel
    values are computed once for all folds and all values of C wherever nothing is
    learnt from a fold (`sharing_` says what was shared), and each fit of a support
    vector machine starts from the one at the next smaller C.

    Parameters
    ----------
    machine : of mercer, or a pipeline or another estimator, whose fits share nothing
    space : {parameter: list of values, or distribution}; a list of such; a list of
        kernels; None for kernels that suit the points, and a few values of C or of what
        else the machine is tuned by
    cv : folds, as of GridSearchCV
    scoring, refit, error_score, return_train_score : as of GridSearchCV
    n_iter : how many candidates are drawn, where the space has distributions; None for
        all of a grid
    time_limit : seconds for the whole search and the last fit; None for no limit. What
        was judged on all folds by then is what `cv_results_` has, and the best of it is
        returned. Candidates are then tried in a random order
    halving : whether to judge all on some of the points, a third of them on three times
        as many, and so on (successive halving); `cv_results_` has the columns "iter"
        and "n_resources" then
    n_jobs : fits at once, in threads of this process; None for one, -1 for all cores
    resume : a file that every score is written to, so that the same search goes on from
        there after it was ended in any way; None for no file
    warm_start : whether fits start from the one at the next smaller C
    verbose : whether to print how far the search is, and a table of the best in the end
    random_state : of the candidates that are drawn, of their order under a time limit,
        and of the points of halving

    Attributes
    ----------
    best_estimator_, best_params_, best_score_, best_index_, cv_results_, scorer_,
    n_splits_, refit_time_, multimetric_, classes_, n_features_in_ : as of GridSearchCV
    sharing_ : what the fits shared, in words
    n_skipped_ : candidates that the time limit left out
    command_ : the line of Python that repeats the search

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from mercer import RBF, SVC, KernelSearchCV
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> space = {"C": [1.0, 10.0], "kernel": [RBF(0.5), RBF(2.0)]}
    >>> search = KernelSearchCV(SVC(), space).fit(X, y)
    >>> search.best_params_, round(float(search.best_score_), 2)
    ({'C': 1.0, 'kernel': RBF(gamma=2.0)}, 0.97)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSearchCV._parameter_constraints,
        "machine": [HasMethods(["fit"])],
        "n_iter": [Interval(Integral, 1, None, closed="left"), None],
        "time_limit": TIME_LIMIT,
        "halving": ["boolean"],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "error_score": [*BaseSearchCV._parameter_constraints["error_score"], Real],
    }
    del _parameter_constraints["estimator"], _parameter_constraints["pre_dispatch"]

    def __init__(
        self,
        machine: Any,
        space: Any = None,
        *,
        cv: Any = 5,
        scoring: Any = None,
        n_iter: int | None = None,
        time_limit: float | None = None,
        halving: bool = False,
        n_jobs: int | None = None,
        refit: Any = True,
        resume: Any = None,
        warm_start: bool = True,
        error_score: Any = np.nan,
        return_train_score: bool = False,
        verbose: Any = 0,
        random_state: Any = None,
    ):
        self.machine = machine
        self.space = space
        self.cv = cv
        self.scoring = scoring
        self.n_iter = n_iter
        self.time_limit = time_limit
        self.halving = halving
        self.n_jobs = n_jobs
        self.refit = refit
        self.resume = resume
        self.warm_start = warm_start
        self.error_score = error_score
        self.return_train_score = return_train_score
        self.verbose = verbose
        self.random_state = random_state

    @property
    def estimator(self) -> Any:
        """The machine, by the name that scikit-learn's searches know it."""
        return self.machine

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    def fit(
        self, X: Points, y: Any = None, *, client: Any = None, **params: Any
    ) -> Self:
        """Judge all candidates and fit the best one to all points; returns self.

        Parameters
        ----------
        X, y : points and targets of the machine's `fit`
        client : of a Dask cluster, whose workers judge the candidates on points that
            are sent to them, in place of n_jobs threads; None for this process. Where
            X is a Dask array, data frame or bag, each fit is one on its partitions
        **params : of the machine's `fit`, such as sample_weight, which the folds
            divide; `groups` are for the folds themselves
        """
        there = is_collection(X)
        with computing_on(X if there else None, client):
            y = in_memory(y)
            params = {name: in_memory(value) for name, value in params.items()}
            X = Slices(X) if there else X
            return self._searched(X, y, None if there else client, params)

    def _searched(self, X: Points, y: Any, client: Any, params: dict[str, Any]) -> Self:
        begin = time.perf_counter()
        scorers, metric = self._get_scorers()
        X, y = indexable(X, y)
        params = _check_method_params(X, params=params)
        routed = self._get_routed_params_for_fit(params)
        folds = self._folds(X, y, routed.splitter.split)
        task = Task(
            X,
            y,
            folds,
            dict(routed.estimator.fit),
            dict(routed.scorer.score),
            Parallel(self.n_jobs)._effective_n_jobs(),
        )
        random = check_random_state(self.random_state)
        some = X.some(SAMPLE) if isinstance(X, Slices) else X
        candidates = candidates_of(self.machine, self.space, some, self.n_iter, random)
        self._check_kernels(candidates, some)
        context = self._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        run = Run(self, candidates, scorers, begin, random, client)
        about = self._about(task, candidates)
        with Journal(self.resume, about) as journal:
            rungs = run.rungs(task)
            results = run.judged(rungs, journal)
        self.sharing_, self.n_skipped_ = run.sharing(), run.skipped
        self._conclude(results, metric, scorers)
        self.command_ = self._command()
        if self.refit:
            self._refit(task, begin, context)
        run.table.end(self, time.perf_counter() - begin)
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _folds(
        self, X: Points, y: Any, split_params: dict[str, Any]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        cv = check_cv(self.cv, y, classifier=is_classifier(self.machine))
        self._checked_cv_orig = cv
        self.n_splits_ = cv.get_n_splits(X, y, **split_params)
        n = _num_samples(X)
        folds = [
            tuple(_as_places(part, n) for part in fold)
            for fold in cv.split(X, y, **split_params)
        ]
        if isinstance(X, Slices):  # whose points stay in their order
            folds = [tuple(np.sort(part) for part in fold) for fold in folds]
        if len(folds) != self.n_splits_:
            raise ValueError(
                "cv.split and cv.get_n_splits return inconsistent results. Expected "
                f"{self.n_splits_} splits, got {len(folds)}"
            )
        if not folds:
            raise ValueError(
                "No fits were performed. Was the CV iterator empty? Were there no "
                "candidates?"
            )
        return folds  # type: ignore[return-value]

    def _check_kernels(self, candidates: Sequence[dict[str, Any]], X: Points) -> None:
        """Refuse kernels that the space names and the points are not for."""
        seen: list[Any] = []
        for one in candidates:
            kernel = one.get("kernel")
            if kernel is None or any(kernel is other for other in seen):
                continue
            seen.append(kernel)
            check_kernel(clone(self.machine).set_params(kernel=kernel), X)

    def _about(
        self, task: Task, candidates: Sequence[dict[str, Any]]
    ) -> dict[str, str]:
        """What a journal tells this search from others by."""
        if self.resume is None:
            return {}
        places = [np.concatenate(fold) for fold in task.folds]
        options = {
            name: digest(value) if np.ndim(value) else text_of(value)
            for name, value in (task.fit_params | task.score_params).items()
        }
        return {
            "machine": text_of(self.machine),
            "candidates": text_of(list(candidates)),
            "scoring": text_of(self.scoring),
            "halving": repr((self.halving, self.return_train_score)),
            "points": digest(task.X),
            "targets": digest(task.y),
            "folds": digest(np.concatenate([np.array([*map(len, places)]), *places])),
            "options": text_of(options),
        }

    # From results to attributes

    def _conclude(self, results: Results, metric: str, scorers: Any) -> None:
        """Set GridSearchCV's attributes."""
        out = results.out
        _warn_or_raise_about_fit_failures(out, self.error_score)
        if callable(self.scoring):
            _insert_error_scores(out, self.error_score)
        first = out[0]["test_scores"]
        self.multimetric_ = isinstance(first, dict)
        if callable(self.scoring) and self.multimetric_:
            self._check_refit_for_multimetric(first)
            metric = self.refit
        found = self._format_results(
            results.params, self.n_splits_, out, results.columns
        )
        self.cv_results_ = found
        self.scorer_ = getattr(scorers, "_scorers", scorers)
        for name in ("best_index_", "best_score_", "best_params_", "refit_time_"):
            self.__dict__.pop(name, None)
        if self.refit or not self.multimetric_:
            self.best_index_ = self._best_index(found, metric)
            if not callable(self.refit):
                self.best_score_ = found[f"mean_test_{metric}"][self.best_index_]
            self.best_params_ = found["params"][self.best_index_]

    def _best_index(self, found: dict[str, Any], metric: str) -> int:
        """As GridSearchCV has it; with halving, among those of the last rung."""
        if "iter" not in found or callable(self.refit):
            return int(self._select_best_index(self.refit, metric, found))
        last = np.flatnonzero(found["iter"] == np.max(found["iter"]))
        return int(last[np.argmin(found[f"rank_test_{metric}"][last])])

    def _refit(self, task: Task, begin: float, context: Any) -> None:
        """The best machine, fitted to all points."""
        params = clone(self.best_params_, safe=False)
        machine = clone(self.machine).set_params(**params)
        left = None
        if self.time_limit is not None and math.isfinite(self.time_limit):
            left = max(self.time_limit - (time.perf_counter() - begin), 1e-2)
        start = time.time()
        targets = () if task.y is None else (task.y,)
        with (
            context.subcontext("refit").propagate_callback_context(machine),
            Limited(machine, left),
        ):
            machine.fit(task.whole, *targets, **task.fit_params)
        self.refit_time_ = time.time() - start
        self.best_estimator_ = machine
        if hasattr(machine, "feature_names_in_"):
            self.feature_names_in_ = machine.feature_names_in_

    def score(
        self, X: Points, y: Any = None, *, client: Any = None, **params: Any
    ) -> float:
        """The score of the best machine on these points, by `scoring`.

        Parameters
        ----------
        X, y : points and targets; of a Dask collection, what the machine says of the
            points is found where they are
        client : of a distributed X; None for the current one
        **params : of the scorer
        """
        with computing_on(X, client):
            if not is_collection(X):
                return float(super().score(X, y, **params))
            known = copy.copy(self)
            known.best_estimator_ = answering_here(self.best_estimator_)
            y, params = in_memory(y), {k: in_memory(v) for k, v in params.items()}
            return float(super(KernelSearchCV, known).score(X, y, **params))

    def _command(self) -> str:
        """The line of Python that repeats the search."""
        known = inspect.signature(type(self)).parameters
        given = [f"{self.machine!r}"]
        if self.space is not None:
            given.append(_shown(self.space))
        for name, parameter in known.items():
            value = getattr(self, name)
            silent = name in ("machine", "space", "verbose", "resume", "n_jobs")
            if not silent and not _same(value, parameter.default):
                given.append(f"{name}={value!r}")
        return " ".join(f"KernelSearchCV({', '.join(given)}).fit(X, y)".split())

    def plot(self, x: str | None = None, y: str | None = None, ax: Any = None) -> Any:
        """The scores as a heat map, or a line: `mercer.plots.plot_search`.

        Parameters
        ----------
        x, y : the parameters along the axes; None for those with most values
        """
        return plots.plot_search(self, x, y, ax=ax)


def _shown(space: Any) -> str:
    """A space as text; arrays as lists."""
    if isinstance(space, dict):
        return "{" + ", ".join(f"{k!r}: {_shown(v)}" for k, v in space.items()) + "}"
    if isinstance(space, np.ndarray):
        return repr(space.tolist())
    return repr(space)


def _same(value: Any, default: Any) -> bool:
    if isinstance(value, float) and isinstance(default, float):
        return value == default or (math.isnan(value) and math.isnan(default))
    return value is default or (type(value) is type(default) and value == default)


def _as_places(part: Any, n: int) -> np.ndarray:
    """The numbers of the points of a part of a fold."""
    part = np.asarray(part)
    return np.flatnonzero(part) if part.dtype == bool else part.astype(np.intp)
