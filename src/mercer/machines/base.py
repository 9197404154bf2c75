"""Machine: what every estimator shares. One way in, one way out, warnings.

KernelEstimator is the way in alone, for estimators without an expansion.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import pickle
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils._param_validation import InvalidParameterError, StrOptions
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from mercer.data.blocks import Blocks, as_blocks
from mercer.data.copies import owned, shares
from mercer.data.points import (
    FOR_STRINGS,
    Points,
    a_string,
    as_points,
    brief,
    check_file,
    check_nesting,
    column_names,
    count,
    describe,
    holds_numbers,
    is_frame,
    sound,
    take,
    vectors,
)
from mercer.expansion import Expansion
from mercer.gram import Gram
from mercer.kernels.approximate import Nystrom
from mercer.kernels.base import Kernel, version, warn_of_version
from mercer.kernels.checks import is_finite, is_number
from mercer.kernels.vector import Linear
from mercer.kernels.ways import Precomputed
from mercer.machines.checks import (
    LARGEST_WEIGHT,
    LARGEST_WHOLE,
    MOST,
    Limits,
    borrowed,
    check_numbers,
    check_squares,
    checked_weight,
    filled,
    holds_rows,
    is_scalar,
    is_structured,
    limits_of,
    reads_names,
)
from mercer.machines.labels import check_classes
from mercer.machines.trials import plan_of, planned
from mercer.machines.words import AS_KERNELS, MADE, WORDS, as_kernel, nearest_word
from mercer.native import memory
from mercer.native.clock import Clock, OutOfTime, breakable, current, running
from mercer.outcomes import Certificate, Run, Status
from mercer.planning import Plan, least_memory, made
from mercer.solvers.features import ComputedRows
from mercer.solvers.resume import Reached, begun, keeping, reading
from mercer.solvers.roads import Road

ALWAYS = 2000  # points that every fit has room for, and that none takes long with
ANNOUNCED = 10.0  # seconds of a fit that `verbose` announces


class HasRun(Protocol):
    """What a solver returned: it knows how it ended."""

    @property
    def run(self) -> Run: ...


@dataclass(frozen=True, eq=False)
class WeightedGram:
    """The points that count: their Gram, their places in X, and how often each does."""

    gram: Gram
    index: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True, eq=False)
class FitData(WeightedGram):
    """A fit that is ready: the points that count, with their targets."""

    target: np.ndarray
    # X, y and sample_weight, all checked, for callbacks
    given: tuple[Points, np.ndarray, Any]


@dataclass(frozen=True, eq=False)
class Dual:
    """coef of f = Σᵢ coefᵢ k(xᵢ, ·) on points of a fit; None where these are not kept.

    It is `expansion_` itself, unless that is reduced to landmarks.
    """

    coef: np.ndarray
    points: Points | None

    @property
    def n_outputs(self) -> int:
        return 1 if self.coef.ndim == 1 else self.coef.shape[1]


def outside() -> int:
    """The stacklevel at which a warning names the code that called the library."""
    frame, level = sys._getframe(1), 1
    # Code run by `exec` may have no name.
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    return level


_INSIDE = ("mercer", "sklearn")


def _all_or_nothing(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A fit that an error or Ctrl-C ends leaves the machine as it was before."""

    @wraps(fit)
    def whole(self: Machine, *args: Any, **options: Any) -> Any:
        before, begin = dict(self.__dict__), time.perf_counter()
        self.__dict__.pop("run_", None)
        reached = self._left_by_error(args, options)
        try:
            with timed(self), keeping(reached):
                fitted = fit(self, *args, **options)
        except BaseException as error:
            self.__dict__.clear()
            self.__dict__.update(before)
            if isinstance(error, OSError) and reached.source is not None:
                self._interrupted = _fit_key(self, args, options), reached
                text = _text_of(error).rstrip(".")
                raise OSError(error.errno, f"{text}. {_KEPT}") from error
            if isinstance(error, OutOfTime):
                raise TimeoutError(_LATE.format(machine=self, error=error)) from error
            if isinstance(error, MemoryError) and not hasattr(error, "plan"):
                self._explain(error, *args, **options)
            raise
        self.__dict__.pop("_interrupted", None)
        # A machine without a solver reports its time alone.
        self.__dict__.setdefault("run_", Run(seconds=time.perf_counter() - begin))
        return fitted

    return whole


# Where an error in reading points ends a fit.
_KEPT = (
    "What was learnt until then is kept: when the points can be read again, the same "
    "call of fit goes on from there."
)
_SILENT = ("verbose", "callback", "time_limit")  # parameters that f does not depend on


def _text_of(error: OSError) -> str:
    """What happened, without the number that a new error shows again."""
    return str(error if error.strerror is None else error.strerror)


def _fit_key(machine: Any, args: Any, options: Any) -> str | None:
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
        self: Machine, X: Points, y: Any, sample_weight: npt.ArrayLike | None = None
    ) -> float:
        if y is None:
            raise ValueError(
                f"{type(self).__name__}.score compares predictions with y, one for "
                "each point; got None."
            )
        check_numbers(self, "y", y)
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
        with self._naming_strings(None, y if is_regressor(self) else None):
            return score(self, X, y, sample_weight=sample_weight)

    return checked


class KernelEstimator(BaseEstimator, ABC):
    """An estimator with a parameter `kernel`: how it checks parameters and points.

    A fitted one owns what it learnt: it keeps copies of the points and of its kernel,
    so that arrays, frames and lists may be edited after `fit`. Shared are memory-mapped
    arrays, whose files must stay as they are (a file that is cut ends the process that
    reads it, unless that is seen at the door); the matrix of `Precomputed(K)`;
    functions; and objects that cannot be copied.
    """

    kernel: Any
    run_: Run  # how the last fit ended, and what it took

    # Whether a fit on an explicit map reads its points a block at a time.
    _streams: ClassVar[bool] = False
    # What to say of kernel values that are none of the points with each other.
    _not_square: ClassVar[str] = (
        "Precomputed matrix must be a square matrix. Input is a {n}x{m} matrix."
    )
    # The largest values of parameters, where they are not squared.
    _largest: ClassVar[dict[str, float]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in {"fit", "fit_transform"} & vars(cls).keys():
            setattr(cls, name, _all_or_nothing(getattr(cls, name)))
        if getattr(cls, "score", None) in (ClassifierMixin.score, RegressorMixin.score):
            cls.score = checked_score(cls.score)

    @classmethod
    @cache  # scikit-learn reads the signature anew in every fit, a tenth of a small one
    def _get_param_names(cls) -> list[str]:
        return list(super()._get_param_names())

    def _left_by_error(self, args: Any, options: Any) -> Reached:
        """What this fit goes on from, where an error in reading points ended the last.

        That is of the same parameters, targets and weights; whether of the same points
        shows when these are read.
        """
        key, reached = self.__dict__.get("_interrupted", (None, None))
        if reached is None or key is None or key != _fit_key(self, args, options):
            return Reached()
        return reached

    def _validate_params(self) -> None:
        """scikit-learn's checks of the parameters, before a fit, and a few more."""
        self._check_kernel_parameter()
        self._check_class_weight()
        super()._validate_params()
        for name, limits in limits_of(type(self)).items():
            self._check_size(name, limits)
        if isinstance(self.kernel, Kernel):
            self._warn_of_words()

    # Plans

    def plan(self, X: Points, y: Any = None, *, pilot: bool = False) -> Plan:
        """What `fit` would do on these points, before it does it: a `Plan`.

        Its road, the kernel values to compute, memory and seconds; where memory is
        missing or ten minutes are too few, the ways out. All are estimates. Seconds
        come from fits on some of the points, for about a second; nothing is learnt.

        Parameters
        ----------
        X, y : as of `fit`; without y the seconds are a wider guess
        pilot : whether to estimate what a way out loses, by the score of fits on up
            to 5,000 points, a fifth of them left out
        """
        return planned(self, X, y, pilot)

    def _road(self, X: Points, y: Any) -> Road:
        """How `fit` would solve its problems; of an unfitted copy, which it changes.

        All machines here fill it in; one of a user's own need not, and has no plan.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not say how it is fitted, so it has no plan. "
            "Fill in its method _road, which returns a Road, or fit without a plan."
        )

    def _check_room(self, road: Callable[[], Road], n: int) -> None:
        """Refuse a fit that has no room at all; announce a long one, with `verbose`."""
        verbose = getattr(self, "verbose", False)
        if n <= ALWAYS or (memory.fits(16.0 * n**2) and not verbose):
            return
        name, chosen = type(self).__name__, road()
        if not memory.fits(least_memory(chosen)):
            raise MemoryError(f"{name} has no room for K: {8e-9 * n**2:.3g} GB.")
        if verbose:
            plan = made(name, chosen)
            if plan.seconds[1] > ANNOUNCED:
                print(f"[{name}] {plan.summary()}", flush=True)

    def _explain(
        self, error: MemoryError, X: Points, y: Any = None, *_: Any, **__: Any
    ) -> None:
        """Raise the error again with the plan of the fit, where that has no room."""
        try:
            plan = plan_of(self, X, y)
        except Exception:  # whatever it is, it must not hide what ended the fit
            return
        if not plan.fits:
            explained = MemoryError(f"{error}\n{plan}")
            explained.plan = plan  # type: ignore[attr-defined]
            raise explained from error

    def _check_size(self, name: str, limits: Limits) -> None:
        """Refuse a number that no float holds, or with a square that none holds."""
        value: Any = getattr(self, name, None)
        if not is_number(value):
            return
        if limits.whole:
            if value > LARGEST_WHOLE:
                raise InvalidParameterError(
                    f"The {name!r} parameter of {type(self).__name__} must be at most "
                    f"{LARGEST_WHOLE} (2**63 - 1). Got {value}."
                )
            return
        least, most = limits.least, self._largest.get(name, MOST)
        if value in (0.0, np.inf) or (is_finite(value) and least <= abs(value) <= most):
            return
        shown = f"{value!r}" if is_finite(value) else "one beyond every float"
        sizes = f"{least:g} to {most:g}" if least else f"at most {most:g}"
        raise InvalidParameterError(
            f"The {name!r} parameter of {type(self).__name__} must be of size "
            f"{sizes}, to be computed with. Got {shown}."
        )

    def _warn_of_words(self) -> None:
        """Say that gamma, degree and coef0 are of kernels that are named by a word."""
        known = inspect.signature(type(self)).parameters
        for name in ("gamma", "degree", "coef0"):
            if name not in known:
                continue
            value, default = getattr(self, name), known[name].default
            if value is not default and value != default:
                warnings.warn(
                    f"{type(self).__name__}({name}={value!r}) has no effect beside "
                    f"the kernel object {self.kernel}, which has parameters of "
                    "its own: set them there.",
                    UserWarning,
                    stacklevel=4,
                )

    def _check_class_weight(self) -> None:
        weights = getattr(self, "class_weight", None)
        for name, weight in weights.items() if isinstance(weights, dict) else []:
            if not (is_number(weight) and 0 <= weight <= LARGEST_WEIGHT):
                raise InvalidParameterError(
                    f"The 'class_weight' parameter of {type(self).__name__} must have "
                    f"finite numbers ≥ 0. Got {weight!r} for the class {name!r}."
                )

    def _check_kernel_parameter(self) -> None:
        kernel, name = self.kernel, type(self).__name__
        begin = f"The 'kernel' parameter of {name} must be a kernel object, as RBF()"
        if isinstance(kernel, type) and issubclass(kernel, Kernel):
            raise InvalidParameterError(
                f"{begin}. Got the class {kernel.__name__}: write "
                f"kernel={kernel.__name__}()."
            )
        words, known = self._words(), self._parameter_constraints.get("kernel", [None])
        if (
            callable(kernel)
            or (kernel is None and None in known)
            or (isinstance(kernel, str) and kernel in words)
        ):
            return
        if hasattr(kernel, "fit") and hasattr(kernel, "transform"):
            made = AS_KERNELS.get(type(kernel).__name__)
            advice = f" The kernel of that kind is {made}." if made else ""
            raise InvalidParameterError(
                f"{begin}. Got the transformer {brief(kernel)}, which comes before a "
                f"machine: make_pipeline(transformer, {name}(kernel='linear')).{advice}"
            )
        near = nearest_word(kernel) if isinstance(kernel, str) else ""
        ways = [repr(near)] if near in words else []
        ways += [MADE[near]] if near in MADE else []
        meant = f" Did you mean {' or '.join(ways)}?" if ways else ""
        raise InvalidParameterError(
            f"{begin}, a function, or one of the words {', '.join(sorted(words))}. Got "
            f"{brief(kernel)}.{meant}"
        )

    def _words(self) -> set[str]:
        """The words for kernels that this machine takes."""
        options = [
            one.options
            for one in self._parameter_constraints.get("kernel", [])
            if isinstance(one, StrOptions)
        ]
        return set().union(*options) if options else set(WORDS)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__() | {"_version": version()}
        state.pop("_interrupted", None)
        if "approximation_" in state:
            # f needs the landmarks alone.
            state["approximation_"] = state["approximation_"].slim()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        warn_of_version(type(self).__name__, state.pop("_version", "an unknown one"))
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._finite == "allow-nan"
        tags.input_tags.pairwise = self._precomputed
        return tags

    @property
    def _precomputed(self) -> bool:
        """Whether X holds kernel values, a row per point, instead of points."""
        if isinstance(self.kernel, Precomputed):
            return self.kernel.matrix is None
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    @property
    def _finite(self) -> bool | str:
        """What scikit-learn checks of vectors: some kernels take NaN as missing."""
        missing = isinstance(self.kernel, Kernel) and self.kernel.missing
        return "allow-nan" if missing else True

    def _validated_points(self, X: Points, reset: bool = True) -> Points:
        """The points of a `fit` without targets, or new ones, checked once."""
        given, X = X, self._sound(X)
        if isinstance(X, Blocks):
            X = self._checked_blocks(X, reset)
        elif self._takes_vectors(X):
            self._check_columns(X)
            with self._naming_strings(X):
                X = validate_data(
                    self,
                    X,
                    accept_sparse="csr",
                    ensure_all_finite=self._finite,
                    reset=reset,
                )
            X = self._of_floats(filled(X) if self._precomputed else X)
        else:
            X = self._structured(X, reset=reset)
        if reset:
            self._borrows = borrowed(X, given)
        return X

    def _validated(
        self, X: Points, y: Any, **y_checks: Any
    ) -> tuple[Points, np.ndarray]:
        """The points and targets of `fit`, checked once."""
        given, X = X, self._sound(X)
        check_numbers(self, "y", y)
        if not isinstance(X, Blocks) and self._takes_vectors(X):
            y_checks = {"ensure_all_finite": self._finite} | y_checks
            self._check_columns(X)
            with self._naming_strings(X, y if y_checks.get("y_numeric") else None):
                X, y = validate_data(self, X, y, accept_sparse="csr", **y_checks)
            X = self._of_floats(filled(X) if self._precomputed else X)
        else:
            reset = y_checks.pop("reset", True)
            copied = copy.copy(self)  # checking y alone deletes the names of columns
            y = validate_data(copied, y=y, **y_checks)
            if isinstance(X, Blocks):
                X = self._checked_blocks(X, reset)
            else:
                X = self._structured(X, reset=reset)
            check_consistent_length(X, y)
        if y_checks.get("y_numeric") and y.dtype.kind not in "biuf":
            with self._naming_strings(X, y):
                y = y.astype(float)
        self._borrows = borrowed(X, given)
        return X, y

    def _sound(self, X: Points) -> Points:
        """X for a first reader; what is not in memory as `Blocks`.

        Of arrays that are mapped from files, those that find no room, if the kernel can
        be read in blocks.
        """
        if isinstance(X, np.memmap):
            check_file(X)
            large = not memory.keeps(2.0 * 8 * X.size)
            X = as_blocks(X) if large and self._reads_blocks else X
        found = as_blocks(X) if not isinstance(X, np.memmap) else None
        return sound(X) if found is None else found

    @property
    def _reads_blocks(self) -> bool:
        """Whether the explicit map of the kernel is computed a block at a time."""
        linear = isinstance(self.kernel, str) and self.kernel == "linear"
        mapped = linear or isinstance(self.kernel, Nystrom | Linear)
        return mapped and self._streams

    def _checked_blocks(self, X: Blocks, reset: bool) -> Blocks:
        """Points that are read in blocks, each block checked."""
        name = type(self).__name__
        if reset and not self._reads_blocks:
            raise ValueError(
                f"{name}(kernel={brief(self.kernel)}) compares points in memory; got "
                f"{X!r}. Support vector machines, KernelRidge and regularised machines "
                "with kernel=Nystrom(kernel, size), or Linear(), read them in blocks; "
                "or pass an array."
            )
        d = X.shape[1]
        if reset:
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_ = d
        elif d != self.n_features_in_:
            raise ValueError(
                f"X has {d} features, but {name} is expecting {self.n_features_in_} "
                "features as input."
            )
        known = reset and reading(X.origin())
        checked = begun() if reset else {}
        if not (known and checked.get("checked")):
            X.check(missing=self._finite == "allow-nan")
        checked["checked"] = True
        return X

    @contextmanager
    def _naming_strings(self, X: Points, y: Any = None) -> Iterator[None]:
        """Where vectors or targets are refused for what they hold, say so."""
        try:
            yield
        except (ValueError, TypeError, OverflowError) as error:
            found = a_string(X)
            target = None if found or y is None else a_string(y)
            if target is not None:
                raise ValueError(
                    f"{type(self).__name__} needs y as an array of numbers; {target} "
                    "is a string. Use a classifier for classes."
                ) from error
            if found is None:
                if holds_rows(X):  # of which ours name the one that is none
                    vectors(
                        X if isinstance(X, np.ndarray) else list(X),
                        f"{type(self).__name__}(kernel={brief(self.kernel)})",
                    )
                raise
            raise self._about_string(found) from error

    def _of_floats(self, X: Points) -> Points:
        """Numbers that are objects as floats; those that are none are named."""
        objects = isinstance(X, np.ndarray) and X.dtype == object
        return vectors(X, type(self).__name__) if objects else X

    def _check_columns(self, X: Points) -> None:
        """Refuse a data frame without columns, or with strings as categories."""
        if not is_frame(X):
            return
        if not column_names(X):
            raise ValueError(
                f"{type(self).__name__} needs at least one column; got a data frame "
                "that has none."
            )
        found = None if holds_numbers(X) else a_string(X)
        if found is not None:
            raise self._about_string(found)

    def _about_string(self, found: str) -> ValueError:
        return ValueError(
            f"{type(self).__name__}(kernel={brief(self.kernel)}) compares vectors; "
            f"{found} is a string. {FOR_STRINGS}: pass such a kernel, as "
            "kernel=Spectrum(3), or encode the strings as numbers."
        )

    _borrows = True  # whether the points of a fit are in memory of the user's

    def _own(self, points: Points, X: Points) -> Points:
        """Points to keep, of the checked points X: a copy, unless they are one."""
        return owned(points) if self._borrows and shares(points, X) else points

    def _kept(self, X: Points) -> Points:
        """The checked points X, in memory of the machine's own from here on."""
        X, self._borrows = self._own(X, X), False
        return X

    def _takes_vectors(self, X: Points) -> bool:
        """Whether X is for scikit-learn to check: vectors, or a kernel that needs them.

        Points of other kinds reach the kernel untouched; it knows what it compares.
        """
        named = isinstance(self.kernel, str) or self._precomputed
        by_columns = (
            is_frame(X) and isinstance(self.kernel, Kernel) and reads_names(self.kernel)
        )
        taken = named or not (by_columns or is_structured(X))
        if taken:
            check_nesting(X)
        return taken

    def _structured(self, X: Points, reset: bool) -> Points:
        """Points that are not vectors: counted, and their columns named, if any."""
        if reset:
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
        if is_frame(X):
            validate_data(self, X, skip_check_array=True, reset=reset)
        X = as_points(X)
        if count(X) == 0:
            raise ValueError(
                f"{type(self).__name__} needs at least one point; got an empty dataset."
            )
        return X

    def _check_square(self, X: Points) -> None:
        """Refuse kernel values that are not those of the points with each other."""
        if self._precomputed and X.shape[1] != X.shape[0]:
            n, m = X.shape
            raise ValueError(
                f"{self._not_square.format(n=n, m=m)} {type(self).__name__} learns "
                "from the kernel values of its points with each other; with points use "
                "another kernel."
            )


class Machine(KernelEstimator):
    """f(x) = Σᵢ coefᵢ k(xᵢ, x) + bias behind scikit-learn's `fit` and `predict`.

    A machine has a parameter `kernel` and fills in `fit`, which ends with
    `expansion_`; all it says of new points is read from there.
    """

    expansion_: Expansion
    approximation_: Nystrom  # the kernel of the fit, where f is reduced to landmarks

    # What to do about a solution that is not optimal, where a status means more to this
    # machine than `Status.advice` says ("" for silence); {machine} and {solution} may
    # stand in it.
    _advice: ClassVar[dict[str, str]] = {}

    @abstractmethod
    def fit(self, X: Points, y: Any) -> Self:
        """Learn f from the points X and the targets y; returns self."""

    def _values(self, X: Points) -> np.ndarray:
        """f at new points."""
        check_is_fitted(self)
        return self.expansion_(self._validated_points(X, reset=False))

    # From data to a Gram

    def _weighted_gram(
        self, X: Points, sample_weight: npt.ArrayLike | None
    ) -> WeightedGram:
        """The points of weight > 0, with a kernel that has learnt from them."""
        points, index, weight = self._weighted_points(X, sample_weight)
        gram = self._gram(X, points, None if sample_weight is None else weight)
        return WeightedGram(gram, index, weight)

    def _gram(
        self, X: Points, points: Points, weight: np.ndarray | None = None
    ) -> Gram:
        """K of points of X, where X holds kernel values of their places."""
        if self._precomputed:
            return Gram(Precomputed(X), points)
        kept = begun()
        if "kernel" not in kept:
            with breakable():  # there is no f without a kernel
                kept["kernel"] = self._resolved(points, weight)
        return Gram(kept["kernel"], points)

    def _weighted_points(
        self, X: Points, sample_weight: npt.ArrayLike | None
    ) -> tuple[Points, np.ndarray, np.ndarray]:
        """The points of weight > 0, their places and weights.

        Where X holds kernel values, the places are the points.
        """
        n = count(X)
        self._check_square(X)
        index, weight = np.arange(n), np.ones(n)
        if sample_weight is not None:
            weight = self._checked_weight(sample_weight, X)
            index = np.flatnonzero(weight > 0)
            weight = weight[index]
        if isinstance(X, Blocks) and len(index) < n:
            raise ValueError(
                f"{type(self).__name__} reads these points in blocks, and "
                f"{n - len(index)} of them have weight 0. Leave them out of the blocks."
            )
        if self._precomputed:
            return index, index, weight
        return (X if len(index) == n else take(X, index)), index, weight

    def _fit_data(
        self,
        X: Points,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        **y_checks: Any,
    ) -> FitData:
        """X, y and the weights, checked once, with a kernel that learnt from them.

        With `y_numeric` the targets are numbers, else classes.
        """
        X, y = self._validated(X, y, **y_checks)
        (check_squares if y_checks.get("y_numeric") else check_classes)(self, y)
        counted = self._weighted_gram(X, sample_weight)
        return FitData(
            counted.gram,
            counted.index,
            counted.weight,
            y[counted.index],
            (X, y, sample_weight),
        )

    def _checked_weight(
        self, sample_weight: npt.ArrayLike | None, X: Points
    ) -> np.ndarray:
        """A number ≥ 0 for each point, not all of them 0."""
        return checked_weight(self, sample_weight, X, ensure_non_negative=True)

    def _resolved(self, points: Points, weight: np.ndarray | None) -> Kernel:
        """What the parameter `kernel` stands for, having learnt from these points."""
        return as_kernel(self.kernel).resolve(points, weight)

    # From coefficients to f

    def _expanded(
        self,
        gram: Gram,
        X: Points,
        coef: np.ndarray,
        bias: Any = 0.0,
        chosen: np.ndarray | None = None,
    ) -> Expansion:
        """f with these coefficients at points of the Gram, in memory of its own.

        Parameters
        ----------
        X : the checked points of the fit
        chosen : the numbers of the points that coef belongs to; None for all
        """
        self.__dict__.pop("_dual", None)
        # Kernel values of new points come with them: no need for the old ones.
        kernel = Precomputed() if self._precomputed else gram.kernel
        # All points, in a file perhaps, are not copied only to be taken.
        if isinstance(gram.X, Blocks):
            every_coef = np.zeros((gram.shape[0], *coef.shape[1:]))
            every_coef[slice(None) if chosen is None else chosen] = coef
            if not isinstance(kernel, Linear):
                return Expansion(kernel, gram.X, every_coef, bias)
            # ⟨w, x⟩ is k(w, x): one point for each output.
            w = np.atleast_2d(ComputedRows(kernel, gram.X).pull(every_coef).T)
            ones = np.eye(len(w)) if coef.ndim == 2 else np.ones(1)
            self._dual = Dual(coef, None)
            return Expansion(kernel, w, ones, bias)
        every = chosen is None or np.array_equal(chosen, np.arange(gram.shape[0]))
        points = gram.X if every else take(gram.X, chosen)
        return Expansion(kernel, self._own(points, X), coef, bias)

    def _on_landmarks(
        self, f: Expansion, coef: np.ndarray, weights: np.ndarray | None = None
    ) -> Expansion:
        """The same f as an expansion of k on the landmarks, if its kernel is Nystrom.

        That is small to store and quick to evaluate. What f was on the points of the
        fit that count, coef, is kept as numbers alone, with the points for a warm
        start.

        Parameters
        ----------
        weights : f in the coordinates of φ, where the solver has found them
        """
        self.__dict__.pop("approximation_", None)
        if not isinstance(f.kernel, Nystrom):
            return f
        stored = getattr(self, "warm_start", False) and len(f.coef) == len(coef)
        self.approximation_ = f.kernel
        self._dual = Dual(coef, f.points if stored else None)
        if weights is None:
            landmarks, coef = f.kernel.reduced(f.points, f.coef)
        else:
            landmarks = f.kernel.base_points()
            coef = f.kernel.base_coefficients(weights)
        return Expansion(f.kernel.kernel, landmarks, coef, f.bias)

    @property
    def _of_points(self) -> Dual:
        """The coefficients of f on the points of the fit that count, and these."""
        dual: Dual | None = self.__dict__.get("_dual")
        if dual is not None:
            return dual
        return Dual(self.expansion_.coef, self.expansion_.points)

    def _way_on(self, status: Status) -> str:
        """How what was learnt so far is gone on from, where this machine can."""
        if status.at_the_end:
            return ""
        if hasattr(self, "partial_fit"):
            return " partial_fit goes on from here."
        if hasattr(self, "warm_start"):
            return " With warm_start=True the next fit goes on from here."
        return ""

    def _warn_unless_optimal(self, solution: HasRun) -> None:
        """Say how a fit ended that did not come to its end, and what to do about it."""
        status = solution.run.status
        advice = self._advice.get(status, status.advice)
        if advice and status != Status.OPTIMAL:
            message = (
                f"{type(self).__name__} stopped after {solution.run.iterations} "
                f"iterations with status {status!r}{_how_far(solution)}. "
                + advice.format(machine=self, solution=solution)
                + self._way_on(status)
                + _how_many(solution)
            )
            # Up to the user's call: here, fit, scikit-learn's wrapper of fit.
            warnings.warn(message, ConvergenceWarning, stacklevel=outside())


def _how_far(solution: HasRun) -> str:
    """What is known of the way left to the optimum."""
    words = ("violation", "rounding", "gap")
    numbers = ((word, getattr(solution, word, None)) for word in words)
    return "".join(
        f", {word} " + ("not known" if np.isnan(value) else f"{value:.2g}")
        for word, value in numbers
        if value is not None
    )


def _how_many(solution: HasRun) -> str:
    """Of several problems, how many were solved."""
    parts = solution.parts if isinstance(solution, Certificate) else ()
    if not parts:
        return ""
    done = sum(part.status.at_the_end for part in parts)
    return f" Of its {len(parts)} problems {done} were solved to tol."


def dual_rows(f: Expansion | Dual) -> np.ndarray:
    """The coefficients of f as scikit-learn's SVC has them, a row for each output."""
    return f.coef.reshape(len(f.coef), f.n_outputs).T


def biases(f: Expansion) -> np.ndarray:
    """The biases of f, (q,): one for each output."""
    return np.array(np.atleast_1d(f.bias))


# In scikit-learn's words, where its machine calls pairwise_kernels.
NO_PAIRWISE_MATRIX = (
    "Precomputed metric requires shape (n_queries, n_indexed). Got ({n}, {m}) for {n} "
    "indexed."
)
