"""What is around every fit and score: all or nothing, the clock, checks, warnings."""

from __future__ import annotations

import copy
import hashlib
import inspect
import pickle
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import wraps
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, is_regressor
from sklearn.utils.validation import check_is_fitted

from mercer.data.checks import describe
from mercer.data.given import sound
from mercer.data.partitions import (
    Partitions,
    Question,
    computing_on,
    in_memory,
    is_collection,
    kept,
    lazily,
)
from mercer.data.points import Points, count
from mercer.kernels.checks import is_number
from mercer.machines.checks import (
    are_classes,
    check_numbers,
    checked_weight,
    is_scalar,
)
from mercer.native.clock import Clock, OutOfTime, current, running
from mercer.outcomes import Run
from mercer.solvers.resume import keeping


def outside() -> int:
    """The stacklevel at which a warning names the code that called the library."""
    frame, level = sys._getframe(1), 1
    # Code run by `exec` may have no name.
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    return level


_INSIDE = ("mercer", "sklearn")


def all_or_nothing(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A fit that an error or Ctrl-C ends leaves the machine as it was before.

    It takes a keyword more, `client`: that of a distributed X, where it is not the
    current one.
    """

    @wraps(fit)
    def whole(self: Any, *args: Any, client: Any = None, **options: Any) -> Any:
        with computing_on(args[0] if args else options.get("X"), client):
            return fitted(self, *args, **options)

    def fitted(self: Any, *args: Any, **options: Any) -> Any:
        before, begin = dict(self.__dict__), time.perf_counter()
        # Targets and weights are some numbers for each point, wherever these are.
        args = (*args[:1], *map(in_memory, args[1:]))
        options = {k: v if k == "X" else in_memory(v) for k, v in options.items()}
        self.__dict__.pop("run_", None)
        reached = self._left_by_error(args, options)
        try:
            with timed(self), keeping(reached):
                found = fit(self, *args, **options)
        except BaseException as error:
            self.__dict__.clear()
            self.__dict__.update(before)
            if isinstance(error, OutOfTime):
                raise TimeoutError(_LATE.format(machine=self, error=error)) from error
            if isinstance(error, OSError) and reached.source is not None:
                self._interrupted = fit_key(self, args, options), reached
                text = _text_of(error).rstrip(".")
                told = f"{text}. {_KEPT}"
                if error.errno is None:
                    raise type(error)(told) from error
                raise OSError(error.errno, told) from error
            if isinstance(error, MemoryError) and not hasattr(error, "plan"):
                self._explain(error, *args, **options)
            raise
        self.__dict__.pop("_interrupted", None)
        # A machine without a solver reports its time alone.
        self.__dict__.setdefault("run_", Run(seconds=time.perf_counter() - begin))
        return found

    return whole


def streamed(partial_fit: Any) -> Any:
    """A partial_fit that takes a distributed collection as a stream of its partitions.

    They come to this machine one after another, each a batch. An error leaves what was
    learnt from those before it.
    """
    if not inspect.isfunction(partial_fit):  # available_if has it inside
        partial_fit.method = streamed(partial_fit.method)
        return partial_fit

    @wraps(partial_fit)
    def batches(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        client = options.pop("client", None)
        with computing_on(X, client):
            if not is_collection(X):
                return partial_fit(self, X, *args, **options)
            X, args = self._sound(X), tuple(map(in_memory, args))
            options = {name: in_memory(value) for name, value in options.items()}
            _check_lengths(self, len(X), args, options)
            for begin, end in pairwise(X.remote.bounds):
                part = X.fetched(np.arange(begin, end))
                some = slice(begin, end)
                rest = (y if j != 0 else y[some] for j, y in enumerate(args))
                of_part = {
                    name: value[some] if name in PER_POINT and np.ndim(value) else value
                    for name, value in options.items()
                }
                partial_fit(self, part, *rest, **of_part)
            return self

    return batches


PER_POINT = ("y", "sample_weight")  # options with a value for each point


def _check_lengths(machine: Any, n: int, args: Any, options: dict[str, Any]) -> None:
    """Refuse targets or weights that are not as many as the points."""
    given = {"y": args[0]} if args else {}
    given |= {name: options[name] for name in PER_POINT if name in options}
    for name, values in given.items():
        if np.ndim(values) and len(values) != n:
            raise ValueError(
                f"{type(machine).__name__}.partial_fit needs {name} for each of the "
                f"{n} points, or the numbers of samples are inconsistent; got "
                f"{len(values)}."
            )


# What is said of new points, a row for each.
LAZY = {"predict", "decision_function", "predict_proba", "predict_log_proba"}
LAZY |= {"transform", "score_samples", "kneighbors", "reconstruction_error"}
LAZY |= {"_costs"}  # which scores are sums of
# Options with which there are two things for each row, unless they are False.
PAIRED = ("return_distance", "return_std")


def lazy(name: str, method: Any) -> Any:
    """A method of points that, of a distributed collection, gives a lazy one.

    With the keyword `client` it is computed at once, and held by the client's workers.
    """
    if not inspect.isfunction(method):  # available_if has it inside
        method.method = lazy(name, method.method)
        return method

    @wraps(method)
    def called(self: Any, *args: Any, client: Any = None, **options: Any) -> Any:
        X = args[0] if args else options.get("X")
        with computing_on(X, client):
            if not is_collection(X):
                return method(self, *args, **options)
            check_is_fitted(self)
            given = inspect.signature(method).bind(self, *args, **options)
            given.apply_defaults()
            given.arguments.pop("self")
            given.arguments.pop("X")
            outputs = 2 if any(map(given.arguments.get, PAIRED)) else None
            # A later fit changes the machine, not what was asked of it now.
            asked = _Asked(copy.copy(self), name, dict(given.arguments), outputs)
            held = [k for k, one in vars(self).items() if isinstance(one, Partitions)]
            if not held:
                found = lazily(asked, X, outputs)
            else:
                [place] = held
                points = getattr(self, place)
                across = _AskedAcross(asked.awaiting(place, None), place)
                found = lazily(across, X, outputs, points)
            return found if client is None else kept(found)

    return called


@dataclass(frozen=True, eq=False)
class _Asked:
    """What a fitted machine is asked of points.

    Attributes
    ----------
    outputs : of how many arrays it gives a tuple; None for one array, no tuple
    """

    machine: Any
    method: str
    options: dict[str, Any]
    outputs: int | None = None

    def __call__(self, X: Points) -> Any:
        found = getattr(self.machine, self.method)(X, **self.options)
        if isinstance(found, tuple) and len(found) != self.outputs:
            raise TypeError(
                f"{type(self.machine).__name__}.{self.method} of points in partitions "
                "gives a row for each point; ask for one thing at a time."
            )
        return found

    def awaiting(self, place: str, answers: Any) -> _Asked:
        """The same of a machine whose partitions are elsewhere."""
        machine = copy.copy(self.machine)
        setattr(machine, place, getattr(machine, place).awaited(answers))
        return replace(self, machine=machine)


@dataclass(frozen=True, eq=False)
class _AskedAcross:
    """The same of a machine that holds points in partitions, which it asks once.

    Attributes
    ----------
    asked : of the machine without these points
    place : the attribute that they are
    """

    asked: _Asked
    place: str

    def __call__(self, X: Points) -> Any:
        return self.asked(X)

    def part(self, X: Points, part: Points, number: int) -> Any:
        try:
            self.asked(X)
        except Question as question:
            return question.answered(part, number)
        raise AssertionError("the machine did not ask its points")

    def whole(self, X: Points, answers: Any) -> Any:
        return self.asked.awaiting(self.place, answers)(X)


def answering_here(machine: Any) -> Any:
    """A copy of a machine whose answers to a collection come to this process.

    They are some numbers for each point, for a score.
    """
    copied = copy.copy(machine)
    for name in LAZY:
        if hasattr(machine, name):
            setattr(copied, name, _brought(getattr(machine, name)))
    return copied


def _brought(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)  # scikit-learn tells methods by their names
    def brought(X: Points, **options: Any) -> Any:
        return in_memory(method(X, **options))

    return brought


def of_collections(score: Callable[..., float]) -> Callable[..., float]:
    """A score of a machine's own, which takes the keyword `client` too."""

    @wraps(score)
    def scored(self: Any, *args: Any, client: Any = None, **options: Any) -> float:
        with computing_on(args[0] if args else options.get("X"), client):
            return score(self, *args, **options)

    return scored


# Where an error in reading points ends a fit.
_KEPT = (
    "What was learnt until then is kept: when the points can be read again, the same "
    "call of fit goes on from there."
)
_SILENT = ("verbose", "callback", "time_limit")  # parameters that f does not depend on


def _text_of(error: OSError) -> str:
    """What happened, without the number that a new error shows again."""
    return str(error if error.strerror is None else error.strerror)


def fit_key(machine: Any, args: Any, options: Any) -> str | None:
    """What tells a fit from others, beside its points; None where nothing does."""
    known = machine.get_params()
    chosen = {name: known[name] for name in known.keys() - set(_SILENT)}
    try:
        told = pickle.dumps((sorted(chosen.items()), args[1:], options))
        return hashlib.sha256(told).hexdigest()
    except Exception:  # of a function, say: the next fit starts afresh
        return None


# Where nothing that was computed until then makes a machine.
_LATE = (
    "{machine.__class__.__name__}(time_limit={machine.time_limit:g}) has nothing to "
    "return. {error} Raise time_limit, take fewer points (or landmarks, or features), "
    "or choose a kernel that takes less time."
)


def timed(machine: Any, seconds: float | None = None) -> AbstractContextManager[Any]:
    """The clock of a fit, with the machine's `verbose` and `time_limit`, or less time.

    A fit that is part of another one of the same machine has its clock.
    """
    clock = current()
    limit: Any = getattr(machine, "time_limit", None) if seconds is None else seconds
    if seconds is None and clock is not None and clock.owner is machine:
        return nullcontext()
    # What is no number is refused in fit; infinity is none that ends anything.
    seconds = limit if is_number(limit) and 0 < limit < np.inf else None
    verbose = bool(getattr(machine, "verbose", False))
    if seconds is None and not verbose and clock is None:
        return nullcontext()
    name = type(machine).__name__

    def report(text: str) -> None:
        print(f"[{name}] {text}", flush=True)

    return running(Clock(seconds, report if verbose else None, machine))


def checked_score(score: Callable[..., float]) -> Callable[..., float]:
    """scikit-learn's score, of targets and weights that are checked as those of fit."""

    @wraps(score)
    def checked(
        self: Any,
        X: Points,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        *,
        client: Any = None,
    ) -> float:
        with computing_on(X, client):
            return scored(self, X, y, sample_weight)

    def scored(
        self: Any, X: Points, y: Any, sample_weight: npt.ArrayLike | None
    ) -> float:
        if y is None:
            raise ValueError(
                f"{type(self).__name__}.score compares predictions with y, one for "
                "each point; got None."
            )
        y, sample_weight = in_memory(y), in_memory(sample_weight)
        check_numbers(self, "y", y)
        if is_collection(X):
            return score(answering_here(self), X, y, sample_weight=sample_weight)
        X = sound(X)
        # Of what is no dataset at all, predict says so.
        counted = not isinstance(X, str | bytes) and (
            hasattr(X, "__len__") or hasattr(X, "shape")
        )
        if counted and (is_scalar(y) or count(y) != count(X)):
            got = describe(y) if is_scalar(y) else f"{count(y)} targets"
            raise ValueError(
                f"{type(self).__name__}.score needs y with one target for each of the "
                f"{count(X)} points, or the numbers of samples are inconsistent; got "
                f"{got}."
            )
        if counted and sample_weight is not None:
            sample_weight = checked_weight(
                self, sample_weight, X, ensure_non_negative=True
            )
        if score is ClassifierMixin.score and sample_weight is None and are_classes(y):
            found = self.predict(X)
            if found.dtype.kind == y.dtype.kind and found.shape == y.shape:
                return float(np.mean(found == y))  # scikit-learn's, without its checks
        with self._naming_strings(None, y if is_regressor(self) else None):
            return score(self, X, y, sample_weight=sample_weight)

    return checked
