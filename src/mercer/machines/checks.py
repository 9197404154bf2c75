"""What machines check of data and parameters, and how they read them."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import _fit_context, is_regressor
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import Interval, make_constraint
from sklearn.utils.validation import _check_sample_weight

from mercer.data.checks import brief, check_ending, check_nesting, describe
from mercer.data.copies import is_foreign, shares
from mercer.data.frames import frame_columns, holds_numbers, is_frame, is_series
from mercer.data.given import is_gap
from mercer.data.partitions import is_collection
from mercer.data.points import Points, count
from mercer.kernels.algebra import On
from mercer.kernels.base import Kernel
from mercer.kernels.checks import is_finite, is_number
from mercer.native.sorting import distinct

LARGEST_WEIGHT = 1e100  # of a point or a class: sums and squares of it are numbers
LARGEST_WHOLE = 2**63 - 1  # what the compiled core counts with
LEAST, MOST = 1e-140, 1e140  # sizes whose squares are numbers
# What targets may be beside numbers: lists of them, or for other checks to name.
_TARGETS = (str, bytes, list, tuple, np.ndarray)

_P = ParamSpec("_P")
_R = TypeVar("_R")


def checked_parameters(fit: Callable[_P, _R]) -> Callable[_P, _R]:
    """A fit that begins with scikit-learn's checks of the machine's parameters."""
    return _fit_context(prefer_skip_nested_validation=True)(fit)


# Of `time_limit`, seconds: any fit ends, so inf is as good as None.
TIME_LIMIT: list[Any] = [Interval(numbers.Real, 0, None, closed="right"), None]


class Limits(NamedTuple):
    """Of a parameter: a whole number, for the core to count with, or one of a size."""

    whole: bool
    least: float = 0.0


@cache
def limits_of(machine: Any) -> dict[str, Limits]:
    """Those of the parameters of a class, which are asked for at every fit."""
    found = {}
    for name, known in machine._parameter_constraints.items():
        ranges = [one for one in known if isinstance(one, Interval)]
        if any(one.type is numbers.Integral for one in ranges):
            found[name] = Limits(whole=True)
        elif ranges:
            # A tolerance is compared, no more.
            tiny = name == "tol" or any(0 in one for one in ranges)
            found[name] = Limits(whole=False, least=0.0 if tiny else LEAST)
    return found


@cache
def _constraints_of(machine: Any) -> dict[str, list[Any]]:
    """Those of a class, made once: scikit-learn makes them anew at every fit."""
    return {
        name: [make_constraint(one) for one in known]
        for name, known in machine._parameter_constraints.items()
        if known != "no_validation"
    }


@cache
def _sound_defaults_of(machine: Any) -> dict[str, Any]:
    """The defaults of a class that keep to its constraints."""
    given = inspect.signature(machine).parameters
    return {
        name: given[name].default
        for name, known in _constraints_of(machine).items()
        if name in given
        and any(one.is_satisfied_by(given[name].default) for one in known)
    }


def satisfied(machine: object) -> bool:
    """Whether every parameter keeps to the constraints of its class."""
    kind: Any = type(machine)
    defaults = _sound_defaults_of(kind)
    for name, known in _constraints_of(kind).items():
        value = getattr(machine, name, None)
        if name in defaults and value is defaults[name]:
            continue
        if not any(one.is_satisfied_by(value) for one in known):
            return False
    return True


def checked_weight(
    machine: object, sample_weight: Any, X: Points, **checks: Any
) -> np.ndarray:
    """A number for each point, as scikit-learn checks them."""
    check_numbers(machine, "sample_weight", sample_weight)
    if is_scalar(sample_weight):
        number = float(sample_weight)
        if not np.isfinite(number):
            raise ValueError(
                f"{type(machine).__name__} needs sample_weight as finite numbers, one "
                f"for each point or one for all; got {number!r} (NaN or infinity)."
            )
        sample_weight = np.full(count(X), number)
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, **checks)
    least = weight[weight > 0].min(initial=np.inf)
    if least < LEAST:
        raise ValueError(
            f"{type(machine).__name__} divides by sums of sample_weight, which need "
            f"weights of 0, or of {LEAST:g} and more; got {least:.6g}. Divide the "
            "weights by their mean."
        )
    if weight.max(initial=0.0) > LARGEST_WEIGHT:
        raise ValueError(
            f"{type(machine).__name__} needs sample_weight below {LARGEST_WEIGHT:g}, "
            f"or sums of them overflow; got {weight.max():.6g}. Divide the weights by "
            "their mean."
        )
    return weight


def is_scalar(value: Any) -> bool:
    """Whether a number, or an array of one without an axis, stands for many."""
    return is_number(value) or (isinstance(value, np.ndarray) and value.ndim == 0)


def check_numbers(machine: object, name: str, values: Any) -> None:
    """Refuse what no check of scikit-learn's says clearly: words, complex, sparse."""
    what = "targets" if name == "y" else "numbers"
    needs = f"{type(machine).__name__} needs {name} as an array of {what}"
    check_ending(values, f"{needs}, one for each point")
    if sp.issparse(values):
        raise ValueError(
            f"{needs}; got a sparse matrix of shape {values.shape}. Pass "
            f"{name}.toarray()."
        )
    if isinstance(values, str):
        hint = ""
        if values == "balanced":
            hint = " A machine with class_weight balances classes by that."
        raise ValueError(f"{needs}, one for each point; got {brief(values)}.{hint}")
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"{needs}; got a masked array with masked entries. Leave those points out."
        )
    if isinstance(values, Mapping):
        raise TypeError(f"{needs}, one for each point; got a dict, {values!r:.60}.")
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    if kind == "O" and is_series(values):
        values = values.to_numpy()
        kind = values.dtype.kind
    if kind == "O" and isinstance(values, Sequence | np.ndarray):
        numeric = name == "sample_weight" or is_regressor(machine)
        for i, value in enumerate(values):
            if isinstance(value, float) or (
                type(value) is int and -MOST < value < MOST
            ):
                continue
            which = f"{needs}; {name}[{i}] is"
            if is_gap(value):
                raise ValueError(
                    f"{which} missing ({value!r}), as NaN would be. Leave the point "
                    "out."
                )
            if name == "sample_weight" and isinstance(value, str):
                raise ValueError(f"{which} the string {value!r}.")
            if isinstance(value, complex | np.complexfloating):
                kind = "c"
            if type(value) is int and not is_finite(value):
                raise ValueError(f"{which} a whole number beyond the largest float.")
            if numeric and not isinstance(value, (*_TARGETS, numbers.Number)):
                raise TypeError(f"{which} {describe(value)}.")
        words = {isinstance(value, str) for value in values}
        if isinstance(values, list | tuple) and name == "y" and len(words) == 2:
            if not numeric and all(isinstance(v, str | int | float) for v in values):
                # numpy would make strings of the numbers beside them.
                first = isinstance(values[0], str)
                i = [isinstance(v, str) for v in values].index(not first)
                kind_of = "a number" if first else "a string"
                raise ValueError(
                    f"{type(machine).__name__} needs classes that are all numbers or "
                    f"all strings; point {i} has {brief(values[i])}, which is "
                    f"{kind_of}, and point 0 has {brief(values[0])}. Name every class "
                    "in the same way."
                )
        lengths = {len(v) if isinstance(v, list | tuple) else -1 for v in values}
        if len(lengths) > 1 and (numeric or -1 not in lengths):
            raise ValueError(f"{needs}; got lists of different lengths.")
    elif kind == "O" and not hasattr(values, "__array__"):
        if not (values is None or is_number(values)):
            raise TypeError(f"{needs}, one for each point; got {describe(values)}.")
    if kind in "mM" and (name == "sample_weight" or is_regressor(machine)):
        raise TypeError(
            f"{needs}; got times of dtype {values.dtype}. Pass numbers, as days since "
            "a date."
        )
    if kind == "c":
        raise ValueError(
            f"Complex data not supported: {needs}, real ones; got complex numbers. "
            f"Pass {name}.real, or their absolute values."
        )


def check_squares(machine: object, y: np.ndarray) -> None:
    """Refuse targets whose squares are no numbers any more, or 0."""
    largest = float(np.abs(y).max(initial=0.0))
    if 0 < largest < LEAST or largest > MOST:
        raise ValueError(
            f"{type(machine).__name__} squares its targets, which leaves the range of "
            f"numbers: the largest |y| is {largest:.3g}. Divide y by that, and "
            "multiply predictions by it."
        )


def columns_of(y: np.ndarray) -> np.ndarray:
    """Targets as float64 columns; a single column is one target, with a warning."""
    single = y.ndim == 1 or y.shape[1] == 1
    y = column_or_1d(y, warn=True) if single else y
    return np.asarray(y, dtype=np.float64).reshape(len(y), -1)


def holds_rows(X: Points) -> bool:
    """Whether X is a list of sequences, or a table of objects, that numpy reads."""
    if isinstance(X, np.ndarray):
        return X.dtype == object and X.ndim == 2
    some = isinstance(X, list | tuple) and len(X) > 0
    return some and isinstance(X[0], list | tuple | np.ndarray)


def is_structured(X: Points) -> bool:
    """Whether X holds points that are not vectors of numbers."""
    if sp.issparse(X):
        return False
    if is_frame(X):
        return not holds_numbers(X)
    if isinstance(X, list | tuple):
        X = _array_of_sequences(X)
        if X is None:
            return True
    elif not isinstance(X, np.ndarray):
        if not hasattr(X, "__array__"):
            return hasattr(X, "__len__")
        X = np.asarray(X)
    if X.ndim == 1:
        # Whole numbers may be the nodes of a graph, or the indices of a matrix.
        return X.dtype.kind not in "fc"
    if X.ndim == 2 and X.dtype.kind == "O":
        return any(isinstance(value, str | bytes) for value in X.flat)
    return X.ndim > 2 or X.dtype.kind not in "biufcO"


def _array_of_sequences(X: Sequence[Any]) -> np.ndarray | None:
    """A list of equally long sequences of numbers, or of numbers, as an array."""
    first = X[0] if len(X) else None
    if isinstance(first, list | tuple | np.ndarray):
        first = first[0] if len(first) else None
    if not isinstance(first, numbers.Number):
        return None
    check_nesting(X)
    try:
        return np.array(X)
    except ValueError:  # sequences of different lengths
        return None


def reads_names(kernel: Kernel) -> bool:
    """Whether a part of the kernel reads a column of a data frame by its name."""
    if isinstance(kernel, On):
        names = kernel.field if isinstance(kernel.field, list) else [kernel.field]
        if any(isinstance(name, str) for name in names):
            return True
    return any(map(reads_names, kernel.children()))


def are_classes(y: Any) -> bool:
    """Whether these are classes for sure: whole numbers or strings, one for each."""
    return type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "iubUS"


def borrowed(X: Points, given: Points) -> bool:
    """Whether an edit of what was given may change the checked points X."""
    if not (isinstance(X, np.ndarray) or sp.issparse(X)) or X.dtype == object:
        return True
    if isinstance(given, list | tuple):
        return False  # read into an array
    if isinstance(given, np.ndarray) or sp.issparse(given):
        return shares(X, given)
    if is_frame(given):
        return any(shares(X, column) for column in frame_columns(given))
    return is_foreign(X)


def filled(X: Points) -> np.ndarray:
    return X.toarray() if sp.issparse(X) else X


def index_of(index: Any, n: int, name: str) -> np.ndarray:
    """The numbers of points that are to leave, checked: each there, and named once."""
    given = np.atleast_1d(np.asarray(index))
    if given.dtype == bool and given.shape == (n,):
        given = np.flatnonzero(given)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise TypeError(
            f"{name}.remove takes the number of a point, several of them, or a boolean "
            f"for each of its {n} points; got {index!r}."
        )
    beyond = given[(given < -n) | (given >= n)]
    if len(beyond):
        raise IndexError(
            f"{name}.remove: there is no point {beyond[0]}; the machine has {n} "
            f"points, 0 to {n - 1}, in the order in which they came."
        )
    given = np.where(given < 0, given + n, given)
    if len(distinct(given)) < len(given):
        raise ValueError(
            f"{name}.remove got a point twice: {brief(given.tolist())}. Name each once."
        )
    if len(given) == n:
        raise ValueError(f"{name}.remove would leave no point; it has {n}.")
    return given


def check_kind(machine: Any, known: Points, X: Points) -> None:
    """Refuse points that are of another type than those the machine has."""
    kinds = [
        "sparse" if sp.issparse(Z) else "array" if isinstance(Z, np.ndarray) else "list"
        for Z in (known, X)
    ]
    frames = [is_frame(Z) for Z in (known, X)]
    if frames[0] != frames[1] or (not frames[0] and kinds[0] != kinds[1]):
        raise TypeError(
            f"{type(machine).__name__}.add needs points of the type that the machine "
            f"has, {type(known).__name__}; got {type(X).__name__}. Bring them to that "
            "type first."
        )


def refuse_collection(machine: Any, X: Any, instead: str) -> None:
    """Refuse a distributed collection, which scikit-learn would bring to one machine.

    Parameters
    ----------
    instead : what takes one
    """
    if is_collection(X):
        raise TypeError(
            f"{type(machine).__name__} takes points in memory; got the "
            f"Dask {type(X).__name__}. {instead} takes it as it is; for points that "
            "fit into memory here, pass X.compute()."
        )
