"""Fits and scores of candidates in a fold, each fit from the one before along C."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from traceback import format_exc
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection._validation import _score
from sklearn.utils.validation import _check_method_params

from mercer.data.copies import same_value
from mercer.data.partitions import Slices
from mercer.kernels.checks import known_finite
from mercer.machines.svm.base import MANY_AT_BOUND, SupportVectorMachine
from mercer.machines.wrappers import answering_here
from mercer.native.clock import Clock, OutOfTime, breakable, running
from mercer.native.sorting import distinct
from mercer.outcomes import Status
from mercer.search.answers import answering, leaves_open
from mercer.search.sharing import Group, Task, View
from mercer.solvers.held_rows import Offer, searching

EXACT = 1e-5  # of tol: a violation that is made of rounding
MANY_STEPS = 1  # for each variable, from which on a start from a smaller C is worth it


@dataclass(frozen=True, eq=False)
class Rules:
    """How candidates are judged, as scikit-learn's searches have it.

    Attributes
    ----------
    scorer : of a machine, points and targets
    error_score : the score of a fit that failed; "raise" to let it end the search
    with_train : whether the points of the fit are scored too
    warm : whether a fit starts from the one before it along C
    left : seconds that are left for all; None without a limit
    """

    scorer: Any
    error_score: Any
    with_train: bool
    warm: bool
    left: Callable[[], float | None]


class TimeIsUp(Exception):
    """A fit that the time limit of the search cut short: it is not judged."""


def judge_fold(
    group: Group,
    k: int,
    machine: Any,
    candidates: Sequence[dict[str, Any]],
    wanted: Sequence[int],
    rules: Rules,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The results of some candidates of a group in fold k, with their numbers."""
    task = group.task
    view: View | None = None
    offer: Offer | None = None
    alone = _has_one_problem(machine, task)
    for chain in _chains(candidates, wanted, _goes_along_c(machine, rules)):
        fitted = None
        for number in chain:
            left = rules.left()
            if left is not None and left <= 0:
                return
            begin = time.time()
            if view is None:
                try:
                    with running(Clock(left)), breakable():
                        view, offer = group.view(k), group.rows(k)
                except OutOfTime:
                    return
            known = _is_solved_beyond(fitted, task)
            # Where kernel rows are held, a start saves little of a fit.
            warm = _starts_near(fitted, alone and offer is None)
            # Where tol leaves a label open, it is to be that of a fit on its own.
            test = task.folds[k][1]
            tries = not (warm or leaves_open(fitted, offer, test)) and (
                _is_narrow(fitted)
            )
            fitted = _prepared(machine, fitted, candidates[number], view, warm or tries)
            try:
                with searching(offer), known_finite(view.looked_at):
                    result = _judged(
                        fitted, task, k, view, rules, begin, known, offer, tries
                    )
            except TimeIsUp:
                return
            yield number, result


def _goes_along_c(machine: Any, rules: Rules) -> bool:
    """Whether candidates that differ in C alone are judged by growing C."""
    return rules.warm and isinstance(machine, SupportVectorMachine)


def _has_one_problem(machine: Any, task: Task) -> bool:
    """Whether a machine is the solution of one problem, as of two classes."""
    if not hasattr(machine, "class_weight"):
        return True
    return len(distinct(np.asarray(task.y))) == 2


def _is_solved_beyond(before: Any, task: Task) -> bool:
    """Whether the machine before solves the problem of every larger C as well.

    It does where no coefficient is at its bound: no condition of optimality then names
    the bound. Weights make bounds of their own, and probabilities fits of their own.
    """
    if before is None or not hasattr(before, "support_"):
        return False
    weighted = task.fit_params.get("sample_weight") is not None
    if weighted or getattr(before, "class_weight", None) is not None:
        return False
    if getattr(before, "probability", False) not in (False, "deprecated"):
        return False
    sizes = np.abs(before._of_points.coef)
    inside = bool(np.all(sizes < (1 - 1e-9) * before.C))
    return inside and before.run_.status == Status.OPTIMAL


def _chains(
    candidates: Sequence[dict[str, Any]], wanted: Sequence[int], along_c: bool
) -> list[list[int]]:
    """Candidates that differ in C alone, by growing C; others one by one."""
    if not along_c:
        return [[number] for number in wanted]
    chains: list[list[int]] = []
    for number in wanted:
        chain = next(
            (c for c in chains if _differ_in_c(candidates, c[0], number)), None
        )
        if chain is None:
            chains.append([number])
        else:
            chain.append(number)
    for chain in chains:
        chain.sort(key=lambda number: _size(candidates[number].get("C", 0.0)))
    return chains


def _size(C: Any) -> float:
    """What candidates are put in order by; one that is no number, which fails, last."""
    return float(C) if isinstance(C, Real) else math.inf


def _differ_in_c(candidates: Sequence[dict[str, Any]], one: int, other: int) -> bool:
    """Whether two candidates both have a C, and are equal but for it."""
    mine, theirs = candidates[one], candidates[other]
    if mine.keys() != theirs.keys() or "C" not in mine:
        return False
    return all(
        mine[name] is theirs[name] or same_value(mine[name], theirs[name])
        for name in mine
        if name != "C"
    )


def _starts_near(before: Any, alone: bool) -> bool:
    """Whether a fit starts from the one before it, at a smaller C, whatever it finds.

    Parameters
    ----------
    alone : whether the machine is the solution of one problem, whose kernel rows are
        not held: a start then saves more than it could change of what tol leaves open
    """
    return before is not None and ((alone and _is_settled(before)) or _is_hard(before))


def _prepared(
    machine: Any, before: Any, params: dict[str, Any], view: View, warm: bool
) -> Any:
    """The machine of a candidate, or that of the one before it with another C."""
    if before is not None:
        return before.set_params(C=params["C"], warm_start=warm)
    made = clone(machine).set_params(**clone(params, safe=False))
    return made if view.kernel is None else made.set_params(kernel=view.kernel)


def _is_settled(machine: Any) -> bool:
    """Whether few support vectors are at their bound, C: a start there is worth it.

    Where most are, f is hardly larger than tol, and what tol leaves open depends on the
    start: scores are to be those of a fit on its own.
    """
    if not hasattr(machine, "support_"):
        return False
    sizes = np.abs(machine._of_points.coef)
    bounded = np.count_nonzero(sizes >= (1 - 1e-9) * machine.C)
    return bool(bounded < MANY_AT_BOUND * np.count_nonzero(sizes))


def _is_narrow(machine: Any) -> bool:
    """Whether every point is a support vector.

    As where the kernel hardly knows two points as alike: what tol leaves open of a
    coefficient then shows in f at its own point, and hardly anywhere else.
    """
    return hasattr(machine, "support_") and len(machine.support_) == int(
        machine.shape_fit_[0]
    )


def _is_hard(machine: Any) -> bool:
    """Whether a fit took many steps, or began near, and came to the very optimum.

    The active-set method does both: it needs few steps from the optimum at another C,
    and leaves nothing open that could depend on the start.
    """
    if not hasattr(machine, "support_") or machine.run_.status != Status.OPTIMAL:
        return False
    if not machine._certificate.violation <= EXACT * machine._tolerance:
        return False
    variables = machine.shape_fit_[0] * max(
        1, len(getattr(machine, "classes_", ())) - 1
    )
    many = machine.run_.iterations > MANY_STEPS * variables
    return bool(many or machine.warm_start)


def _judged(
    machine: Any,
    task: Task,
    k: int,
    view: View,
    rules: Rules,
    begin: float,
    known: bool,
    offer: Offer | None,
    tries: bool,
) -> dict[str, Any]:
    """What scikit-learn's `_fit_and_score` returns, of points that are already split.

    A machine that is `known` to be what a fit would give is only scored. One that
    `tries` a start is fitted afresh where that leaves a label open. Raises
    TimeIsUp where the time limit of the search ended the fit.
    """
    train, test = task.folds[k]
    y_train, y_test = task.targets(k)
    fit_params = _check_method_params(task.X, params=task.fit_params, indices=train)
    targets = () if y_train is None else (y_train,)
    result: dict[str, Any] = {"fit_error": None}
    checked = view.kernel is not None  # kernel values that were found to be finite
    with (
        Limited(machine, rules.left()) as limited,
        config_context(**({"assume_finite": True} if checked else {})),
    ):
        try:
            if not known:
                machine.fit(view.train, *targets, **fit_params)
                if tries and leaves_open(machine, offer, test):
                    machine.set_params(warm_start=False)
                    machine.fit(view.train, *targets, **fit_params)
        except Exception as error:
            if limited.ended(error):
                raise TimeIsUp from error
            if rules.error_score == "raise":
                raise
            result |= _failed(rules)
            result["fit_error"] = format_exc()
        if not known and result["fit_error"] is None and limited.ended(None):
            raise TimeIsUp
        result["fit_time"] = time.time() - begin
        if result["fit_error"] is None:
            able = answering(machine, offer, test, view.test)
            result |= _scored(able, task, view, y_train, y_test, train, test, rules)
    result["n_test_samples"] = len(test)
    result["score_time"] = (
        0.0
        if result["fit_error"]
        else time.time() - begin - result["fit_time"] - result.pop("train_time", 0.0)
    )
    return result


def _scored(
    machine: Any,
    task: Task,
    view: View,
    y_train: Any,
    y_test: Any,
    train: np.ndarray,
    test: np.ndarray,
    rules: Rules,
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    params = _check_method_params(task.X, params=task.score_params, indices=test)
    args = rules.scorer, params, rules.error_score
    if isinstance(task.X, Slices):
        machine = answering_here(machine)
    found["test_scores"] = _score(machine, view.test, y_test, *args)
    if rules.with_train:
        begin = time.time()
        params = _check_method_params(task.X, params=task.score_params, indices=train)
        args = rules.scorer, params, rules.error_score
        found["train_scores"] = _score(machine, view.train, y_train, *args)
        found["train_time"] = time.time() - begin
    return found


def _failed(rules: Rules) -> dict[str, Any]:
    """Scores of a fit that failed."""
    names = getattr(rules.scorer, "_scorers", None)
    scores: Any = rules.error_score
    if names is not None:
        scores = dict.fromkeys(names, rules.error_score)
    found = {"test_scores": scores}
    return found | ({"train_scores": scores} if rules.with_train else {})


class Limited:
    """A machine whose fits end with the time of the search, where it can end them."""

    def __init__(self, machine: Any, left: float | None):
        self.machine, self.left = machine, left
        self.own = getattr(machine, "time_limit", None)
        self.sets = left is not None and "time_limit" in machine.get_params(deep=False)

    def __enter__(self) -> Limited:
        if self.sets:
            assert self.left is not None
            least = self.left if self.own is None else min(self.own, self.left)
            self.machine.set_params(time_limit=max(least, 1e-3))
        return self

    def __exit__(self, *_: object) -> None:
        if self.sets:
            self.machine.set_params(time_limit=self.own)

    def ended(self, error: BaseException | None) -> bool:
        """Whether the fit came to the limit of the search, and not to its own."""
        if not self.sets or (self.own is not None and self.own <= (self.left or 0.0)):
            return False
        if error is not None:
            return isinstance(error, TimeoutError)
        run = getattr(self.machine, "run_", None)
        return run is not None and run.status == Status.TIME_LIMIT
