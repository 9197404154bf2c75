"""One search under way: rungs of points, groups of candidates, fits side by side."""

from __future__ import annotations

import contextvars
import math
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
from sklearn import config_context, get_config
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params

from mercer.data.partitions import Slices, completed, threads_of
from mercer.native import memory
from mercer.native.sorting import distinct
from mercer.native.threads import at_most, one_blas_thread, threads
from mercer.search.journal import Journal, Key
from mercer.search.judging import Rules, judge_fold
from mercer.search.sharing import Group, Task, groups_of
from mercer.search.table import Table

KEEP = 3  # one in so many candidates goes on to a rung of so many times more points
LEAST = 20  # points of a class, at the least, in the smallest rung
REFIT_GROWTH = 1.6  # (5/4)²: by what a fit on all points takes longer than in a fold


class Results:
    """What was judged, in the order of `cv_results_`."""

    def __init__(self) -> None:
        self.params: list[dict[str, Any]] = []
        self.out: list[dict[str, Any]] = []
        self.columns: dict[str, list[int]] = {}


class Run:
    """One search under way.

    Parameters
    ----------
    search : with its parameters
    begin : when it began, by `time.perf_counter`
    client : whose workers judge; None for this process
    """

    def __init__(
        self,
        search: Any,
        candidates: Sequence[dict[str, Any]],
        scorer: Any,
        begin: float,
        random: np.random.RandomState,
        client: Any = None,
    ):
        self.client = client
        self.search, self.candidates, self.begin = search, candidates, begin
        self.random, self.skipped = random, 0
        self.words: dict[str, int] = {}
        self.refit_seconds = 0.0
        limit = search.time_limit
        self.limit = limit if limit is not None and math.isfinite(limit) else None
        self.rules = Rules(
            scorer,
            search.error_score,
            search.return_train_score,
            search.warm_start,
            self._left,
        )
        self.table = Table(search, begin)

    def _left(self) -> float | None:
        """Seconds that are left for fits, those of the last fit set aside."""
        if self.limit is None:
            return None
        used = time.perf_counter() - self.begin
        return self.limit - used - self.refit_seconds

    def rungs(self, task: Task) -> list[Task]:
        """The points that candidates are judged on: all, or more and more of them."""
        if not self.search.halving:
            return [task]
        n = task.n
        sizes: list[int] = []
        classes = 1
        if task.y is not None and is_classifier(self.search.machine):
            classes = len(distinct(np.asarray(task.y)))
        least = max(LEAST * classes, 2 * len(task.folds) * classes)
        size, many = float(n), len(self.candidates)
        while not sizes or (many > 1 and size / KEEP >= least):
            if sizes:
                size, many = size / KEEP, math.ceil(many / KEEP)
            sizes.append(int(size))
        order = self.random.permutation(n)
        return [
            task if size == n else self._smaller(task, np.sort(order[:size]))
            for size in reversed(sizes)
        ]

    def _smaller(self, task: Task, chosen: np.ndarray) -> Task:
        """The task on some of its points, with the same folds."""
        if isinstance(task.X, Slices):
            X, y = Slices(task.X[chosen]), _safe_indexing(task.y, chosen)
        else:
            X, y = _safe_split(self.search.machine, task.X, task.y, chosen)
        place = np.full(task.n, -1)
        place[chosen] = np.arange(len(chosen))
        folds = []
        for fold in task.folds:
            train, test = (place[part] for part in fold)
            folds.append((train[train >= 0], test[test >= 0]))
        fit_params, score_params = (
            _check_method_params(task.X, params=some, indices=chosen)
            for some in (task.fit_params, task.score_params)
        )
        return Task(X, y, folds, fit_params, score_params, task.workers)

    def judged(self, rungs: Sequence[Task], journal: Journal) -> Results:
        """The results of all rungs; each leaves a third of its candidates to the next.

        With a time limit, of the candidates that were judged on all folds by then.
        """
        results = Results()
        left = list(range(len(self.candidates)))
        for rung, task in enumerate(rungs):
            done = self._judge_rung(rung, task, left, journal)
            if not done and not results.params:
                fewer = "or take fewer points or folds"
                if not self.search.halving:
                    fewer = "take fewer points or folds, or pass halving=True"
                raise TimeoutError(
                    f"KernelSearchCV(time_limit={self.search.time_limit:g}) ended "
                    "before a single candidate was judged on all folds. Raise "
                    f"time_limit, {fewer}."
                )
            self.skipped += len(left) - len(done)
            for number in done:
                results.params.append(self.candidates[number])
                known = (journal.get((rung, number, k)) for k in range(len(task.folds)))
                results.out += [dict(one) for one in known if one is not None]
                if self.search.halving:
                    results.columns.setdefault("iter", []).append(rung)
                    results.columns.setdefault("n_resources", []).append(task.n)
            if len(done) < len(left):
                break
            left = self._best(rung, task, done, journal)
        return results

    def _best(
        self, rung: int, task: Task, done: Sequence[int], journal: Journal
    ) -> list[int]:
        """A third of the candidates of a rung, those with the best scores."""
        scores = [self._mean(rung, number, task, journal) for number in done]
        order = sorted(range(len(done)), key=lambda i: -scores[i])
        return sorted(done[i] for i in order[: math.ceil(len(done) / KEEP)])

    def _mean(self, rung: int, number: int, task: Task, journal: Journal) -> float:
        """The mean score of a candidate; -∞ where a fit failed."""
        scores = []
        for k in range(len(task.folds)):
            found = (journal.get((rung, number, k)) or {})["test_scores"]
            if isinstance(found, dict):
                refit = self.search.refit
                found = found[refit] if refit in found else next(iter(found.values()))
            scores.append(found)
        mean = float(np.mean(scores))
        return mean if math.isfinite(mean) else -math.inf

    def _judge_rung(
        self, rung: int, task: Task, numbers: Sequence[int], journal: Journal
    ) -> list[int]:
        """The candidates that were judged on all folds of these points."""
        machine = clone(self.search.machine)
        made = [
            clone(machine).set_params(**clone(self.candidates[number], safe=False))
            for number in numbers
        ]
        groups = groups_of(task, made)
        for group in groups:
            self.words[group.word] = self.words.get(group.word, 0) + 1
            group.members = [numbers[i] for i in group.members]
        if self.limit is not None:
            groups = [groups[i] for i in self.random.permutation(len(groups))]
        self.table.begin(len(numbers) * len(task.folds), task, len(numbers))
        if self.client is not None:
            self._judge_elsewhere(rung, task, groups, machine, journal)
            return self._complete(rung, task, numbers, journal)
        works = in_order(groups, len(task.folds), task.workers)
        waiting = {id(group): len(task.folds) for group in groups}

        def work(group: Group, k: int) -> None:
            keys: list[Key] = [(rung, number, k) for number in group.members]
            for key in keys:
                if journal.get(key) is not None:
                    self.table.add(self.candidates[key[1]], key, journal)
            wanted = [
                number for _, number, _ in keys if not journal.get((rung, number, k))
            ]
            judging = judge_fold(group, k, machine, self.candidates, wanted, self.rules)
            for number, result in judging:
                journal.put((rung, number, k), result)
                self._set_aside(task, result)
                self.table.add(self.candidates[number], (rung, number, k), journal)
            waiting[id(group)] -= 1
            if waiting[id(group)] == 0:
                group.release()

        _side_by_side(works, work, task.workers)
        return self._complete(rung, task, numbers, journal)

    def _complete(
        self, rung: int, task: Task, numbers: Sequence[int], journal: Journal
    ) -> list[int]:
        """The candidates that were judged on all folds."""
        return [
            number
            for number in numbers
            if all(journal.get((rung, number, k)) for k in range(len(task.folds)))
        ]

    def _judge_elsewhere(
        self,
        rung: int,
        task: Task,
        groups: Sequence[Group],
        machine: Any,
        journal: Journal,
    ) -> None:
        """Judge on the workers of the client, a task for each kernel.

        One for each kernel and fold, where these are too few for all workers.
        """
        every = range(len(task.folds))
        few = len(groups) < threads_of(self.client)
        parts = [(k,) for k in every] if few else [tuple(every)]
        works = []
        for group in groups:
            for part in parts:
                keys: list[Key] = [(rung, i, k) for k in part for i in group.members]
                for key in keys:
                    if journal.get(key) is not None:
                        self.table.add(self.candidates[key[1]], key, journal)
                wanted = {
                    k: [i for i in group.members if not journal.get((rung, i, k))]
                    for k in part
                }
                works.append((group.members, wanted))
        alone = replace(task, workers=1)
        rules = replace(self.rules, left=_Left(self._left()))
        shared = alone, machine, list(self.candidates), rules
        for _, found in completed(self.client, judged_part, works, shared):
            for k, number, result in found:
                journal.put((rung, number, k), result)
                self._set_aside(task, result)
                self.table.add(self.candidates[number], (rung, number, k), journal)

    def _set_aside(self, task: Task, result: dict[str, Any]) -> None:
        """Time for the last fit, as long as the longest of those that were judged."""
        if self.limit is not None and self.search.refit:
            self.refit_seconds = max(
                self.refit_seconds, REFIT_GROWTH * float(result["fit_time"])
            )

    def sharing(self) -> str:
        """What was shared, and by how many groups of candidates."""
        parts = [
            f"{n} kernel{'s' * (n != 1)}: {word}" for word, n in self.words.items()
        ]
        return "; ".join(parts)


class _Left:
    """Seconds that are left, from when a worker first asks; None without a limit."""

    def __init__(self, seconds: float | None):
        self.seconds, self.begin = seconds, -1.0

    def __call__(self) -> float | None:
        if self.seconds is None:
            return None
        if self.begin < 0:
            self.begin = time.perf_counter()
        return self.seconds - (time.perf_counter() - self.begin)


def judged_part(
    members: Sequence[int],
    wanted: dict[int, list[int]],
    task: Task,
    machine: Any,
    candidates: Sequence[dict[str, Any]],
    rules: Rules,
) -> list[tuple[int, int, dict[str, Any]]]:
    """Fold, number and result of candidates of one kernel in some folds of a task."""
    folds = list(wanted)
    part = replace(task, folds=[task.folds[k] for k in folds])
    made = [
        clone(machine).set_params(**clone(candidates[i], safe=False)) for i in members
    ]
    group = groups_of(part, made)[0]
    return [
        (k, number, result)
        for place, k in enumerate(folds)
        for number, result in judge_fold(
            group, place, machine, candidates, wanted[k], rules
        )
    ]


def in_order(
    groups: Sequence[Group], n_folds: int, workers: int
) -> list[tuple[Group, int]]:
    """Groups and folds, one work each, so that no worker waits for another one's K.

    Groups whose K takes one thread begin side by side, as many as there are workers.
    """
    works: list[tuple[Group, int]] = []
    for beside, some in groupby(groups, key=lambda group: group.begins_beside):
        left, width = list(some), workers if beside else 1
        for at in range(0, len(left), width):
            first = left[at : at + width]
            works += [(group, k) for k in range(n_folds) for group in first]
    return works


def _side_by_side(works: Sequence[tuple[Group, int]], work: Any, workers: int) -> None:
    """Do all works, some at once; an error or Ctrl-C ends those that wait."""
    if workers == 1 or len(works) == 1:
        for one in works:
            work(*one)
        return
    config = get_config()

    def inside(group: Group, k: int) -> None:
        # Threads of short fits would only be in each other's way.
        most = max(1, threads() // workers) if group.fits_apart else threads()
        with config_context(**config), memory.sharing(1 / workers), at_most(most):
            work(group, k)

    # Where workers take all cores, threads of BLAS would be in their way too.
    full = workers >= threads()
    with (
        one_blas_thread() if full else nullcontext(),
        ThreadPoolExecutor(workers, "mercer-search") as pool,
    ):
        futures: set[Future[None]] = {
            pool.submit(contextvars.copy_context().run, inside, group, k)
            for group, k in works
        }
        try:
            while futures:
                done, futures = wait(futures, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
