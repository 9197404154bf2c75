"""KernelEstimator: what every estimator shares; its parameters and points, checked."""

from __future__ import annotations

import copy
import inspect
import warnings
from abc import ABC
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import InvalidParameterError, StrOptions
from sklearn.utils.validation import check_consistent_length, validate_data

from mercer.data.blocks import Blocks, as_blocks
from mercer.data.checks import brief, check_file, check_nesting
from mercer.data.copies import owned, shares
from mercer.data.frames import holds_numbers, is_frame
from mercer.data.given import sound
from mercer.data.partitions import (
    Partitions,
    as_partitions,
    computing_on,
    is_collection,
)
from mercer.data.points import (
    FOR_STRINGS,
    Points,
    a_string,
    as_points,
    column_names,
    count,
    vectors,
)
from mercer.kernels.base import Kernel
from mercer.kernels.checks import is_finite, is_number
from mercer.kernels.nystrom import Nystrom
from mercer.kernels.parameters import version, warn_of_version
from mercer.kernels.vector import Linear
from mercer.kernels.ways import Precomputed
from mercer.machines.checks import (
    LARGEST_WEIGHT,
    LARGEST_WHOLE,
    MOST,
    Limits,
    are_classes,
    borrowed,
    check_numbers,
    filled,
    holds_rows,
    is_structured,
    limits_of,
    reads_names,
    satisfied,
)
from mercer.machines.trials import plan_of, planned
from mercer.machines.words import AS_KERNELS, MADE, WORDS, nearest_word
from mercer.machines.wrappers import (
    LAZY,
    all_or_nothing,
    checked_score,
    fit_key,
    lazy,
    streamed,
)
from mercer.maps import has_quick_map
from mercer.native import memory
from mercer.outcomes import Run
from mercer.planning import Plan, least_memory, made
from mercer.solvers.resume import Reached, begun, reading
from mercer.solvers.roads import Road

PARTS = " partial_fit takes a collection, a partition after another."
IN_BLOCKS = (
    "Support vector machines, KernelRidge and regularised machines with "
    "kernel=Nystrom(kernel, size), or Linear(), read them in blocks; or pass an array."
)
ELSEWHERE = (
    "Support vector machines, KernelRidge, regularised machines, neighbours, Parzen "
    "windows, KernelKMeans, KernelPCA and FeatureMap compute where these are; for "
    "points that fit into memory here, pass X.compute()."
)
ALWAYS = 2000  # points that every fit has room for, and that none takes long with
ANNOUNCED = 10.0  # seconds of a fit that `verbose` announces


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
            setattr(cls, name, all_or_nothing(getattr(cls, name)))
        if "partial_fit" in vars(cls):
            cls.partial_fit = streamed(vars(cls)["partial_fit"])
        for name in LAZY & vars(cls).keys():
            setattr(cls, name, lazy(name, vars(cls)[name]))
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
        if reached is None or key is None or key != fit_key(self, args, options):
            return Reached()
        return reached

    def _validate_params(self) -> None:
        """scikit-learn's checks of the parameters, before a fit, and a few more."""
        self._check_kernel_parameter()
        self._check_class_weight()
        if not satisfied(self):
            super()._validate_params()
        for name, limits in limits_of(type(self)).items():
            self._check_size(name, limits)
        if isinstance(self.kernel, Kernel):
            self._warn_of_words()

    # Plans

    def plan(
        self, X: Points, y: Any = None, *, pilot: bool = False, client: Any = None
    ) -> Plan:
        """What `fit` would do on these points, before it does it: a `Plan`.

        Its road, the kernel values to compute, memory and seconds; where memory is
        missing or ten minutes are too few, the ways out. All are estimates. Seconds
        come from fits on some of the points, for about a second; nothing is learnt.

        Parameters
        ----------
        X, y : as of `fit`; without y the seconds are a wider guess
        pilot : whether to estimate what a way out loses, by the score of fits on up
            to 5,000 points, a fifth of them left out
        client : of a distributed X; None for the current one
        """
        with computing_on(X, client):
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
        for name, default in _defaults_of_words(type(self)).items():
            value = getattr(self, name)
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
        if self._needs_no_look(X, reset):
            return X
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
        if not y_checks and are_classes(y) and self._needs_no_look(X, True, len(y)):
            return X, y
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
            if y_checks or not are_classes(y):
                # Of a copy: checking y alone deletes the names of columns.
                y = validate_data(copy.copy(self), y=y, **y_checks)
            if isinstance(X, Blocks):
                X = self._checked_blocks(X, reset)
            else:
                X = self._structured(X, reset=reset)
            check_consistent_length(X, y)
        if y_checks.get("y_numeric") and y.dtype.kind not in "biuf":
            with self._naming_strings(None, y):
                y = y.astype(float)
        self._borrows = borrowed(X, given)
        return X, y

    def _needs_no_look(self, X: Points, reset: bool, n: int | None = None) -> bool:
        """Whether scikit-learn would find nothing: an array whose numbers are known.

        They are, with `assume_finite=True`; a search has looked at its kernel values.

        Parameters
        ----------
        n : how many there are to be; None for one at least
        """
        if type(X) is not np.ndarray or X.dtype != np.float64 or X.ndim != 2:
            return False
        if not (get_config()["assume_finite"] and X.size and n in (None, len(X))):
            return False
        if reset:
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_, self._borrows = X.shape[1], True
            return True
        known = getattr(self, "n_features_in_", None) == X.shape[1]
        return known and not hasattr(self, "feature_names_in_")

    def _sound(self, X: Points) -> Points:
        """X for a first reader; what is not in memory as `Blocks`.

        Of arrays that are mapped from files, those that find no room, if the kernel can
        be read in blocks.
        """
        if is_collection(X):
            named = isinstance(self.kernel, Kernel) and reads_names(self.kernel)
            return as_partitions(X, records=named)
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

    # Whether a fit on any kernel computes where the partitions of its points are.
    _solves_partitions: ClassVar[bool] = False

    @property
    def _maps_partitions(self) -> bool:
        """The same on an explicit map."""
        return self._streams

    def _reads_partitions(self, X: Blocks) -> bool:
        """Whether X is in partitions, and what the kernel needs is computed there."""
        if not isinstance(X, Partitions):
            return False
        linear = isinstance(self.kernel, str) and self.kernel == "linear"
        quick = isinstance(self.kernel, Kernel) and has_quick_map(self.kernel)
        mapped = (linear or quick) and self._maps_partitions
        return mapped or self._solves_partitions

    def _checked_blocks(self, X: Blocks, reset: bool) -> Blocks:
        """Points that are read in blocks, each block checked."""
        name = type(self).__name__
        if reset and not (self._reads_partitions(X) or self._reads_blocks):
            there = isinstance(X, Partitions)
            streams = PARTS if hasattr(self, "partial_fit") else ""
            raise ValueError(
                f"{name}(kernel={brief(self.kernel)}) compares points in memory; got "
                f"{X!r}. {ELSEWHERE if there else IN_BLOCKS}{streams}"
            )
        d = X.shape[1] if X.ndim == 2 else None
        if reset:
            self.__dict__.pop("feature_names_in_", None)
            self.__dict__.pop("n_features_in_", None)
            if d is not None:
                self.n_features_in_ = d
            columns = getattr(X, "columns", None)
            if columns is not None:
                self.feature_names_in_ = np.array(columns, dtype=object)
                self.n_features_in_ = len(columns)  # also of records
        elif d is not None and d != self.n_features_in_:
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


@cache
def _defaults_of_words(kind: type) -> dict[str, Any]:
    """What gamma, degree and coef0 are where nobody gives them, as far as there are."""
    known = inspect.signature(kind).parameters
    words = ("gamma", "degree", "coef0")
    return {name: known[name].default for name in words if name in known}
