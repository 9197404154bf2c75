"""Classes as a machine is given them: what y may hold, what each class counts.

And methods that only some settings of a machine have, with the reason where they are
missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import update_wrapper, wraps
from numbers import Number
from types import MethodType
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from mercer.multiclass import Classes
from mercer.native.interruptible import SORTING, interruptible
from mercer.native.memory import available_memory, check_room
from mercer.native.sorting import distinct

# More than this are never found within hours, however much memory there is.
MOST_NUMBERS = 2.0**31


def check_classes(machine: object, y: np.ndarray) -> None:
    """Refuse a y whose entries are not classes: strings or numbers, not measurements.

    Parameters
    ----------
    y : (n,) array
    """
    if y.dtype.kind in "iubUS":  # whole numbers and strings are classes for sure
        return
    if y.dtype.kind == "O":
        _check_one_kind(machine, y)  # all strings, then, which are classes
    else:
        interruptible(check_classification_targets, y, work=SORTING * len(y))


def encoded(
    machine: object, y: np.ndarray, what: str = "a function", scheme: str = "ovr"
) -> tuple[Classes, np.ndarray]:
    """The classes of y, two at least and few enough, and the number of each point's.

    Parameters
    ----------
    y : (n,) array that passed `check_classes`, of the points that count
    what : the machine has for each class
    """
    names, label = classes_of(y)
    check_two(machine, names)
    if scheme == "ovr":
        check_columns(machine, len(names), len(y), what)
    return Classes(names, scheme), label.ravel()


class _Targets(Protocol):
    """What `labelled` reads of a `FitData`, which is defined above this file."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def target(self) -> np.ndarray: ...

    @property
    def weight(self) -> np.ndarray: ...


_Data = TypeVar("_Data", bound=_Targets)


def labelled(machine: Any, data: _Data, weighted: bool = False) -> _Data:
    """The data of a fit with the number of its class as each target; sets `classes_`.

    Parameters
    ----------
    data : a `FitData` whose targets passed `check_classes`
    weighted : whether the machine has `class_weight`; sets `class_weight_`
    """
    classes, label = encoded(machine, data.target)
    machine.classes_ = classes.names
    if not weighted:
        return replace(data, target=label)
    factors = class_factors(machine, classes.names, data.target, data.weight)
    machine.class_weight_ = factors
    weight = data.weight
    if np.any(factors != 1):
        weight = weight * factors[label]
    return replace(data, target=label, weight=weight)


def check_two(machine: object, names: Sequence[Any] | np.ndarray) -> None:
    """Refuse fewer than two classes, in scikit-learn's words and the way out."""
    if len(names) < 2:
        only = f", {np.asarray(names)[0:1].tolist()[0]!r}" if len(names) else ""
        raise ValueError(
            "The number of classes has to be greater than one; got "
            f"{len(names)} class{only}. {type(machine).__name__} needs points of two "
            "classes at least, with a weight > 0."
        )


def check_known(machine: object, y: np.ndarray, names: np.ndarray) -> None:
    """Refuse classes that are not among those it began with."""
    new = distinct(y[~np.isin(y, names)])
    if len(new):
        raise ValueError(
            f"{type(machine).__name__} began with the classes {_some(names.tolist())}; "
            f"y holds {_some(new.tolist())}, which are not among the classes. Name all "
            "of them in the first call, or begin anew."
        )


def check_same(machine: Any, n: int, names: np.ndarray | None = None) -> None:
    """Refuse to `certify` by other data than those of the fit, as far as it shows.

    Parameters
    ----------
    n : how many points there are
    names : the classes of y, of a classifier
    """
    needs = f"{type(machine).__name__}.certify needs the points and targets of its fit"
    support = vars(machine).get("support_", np.empty(0, int))  # none on features
    last = int(support.max(initial=-1))
    if last >= n:
        raise ValueError(f"{needs}: f stands on point {last} of them, and X holds {n}.")
    if names is not None and not np.array_equal(names, machine.classes_):
        known, found = (_some(some.tolist()) for some in (machine.classes_, names))
        raise ValueError(f"{needs}: its classes were {known}, and y holds {found}.")


def classes_of(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes that occur in y, sorted, and the number of that of each point.

    Parameters
    ----------
    y : (n,) array that passed `check_classes`
    """
    if y.dtype.kind != "O":
        work = SORTING * float(len(y))
        classes, label = interruptible(np.unique, y, return_inverse=True, work=work)
        return classes, label
    # numpy would sort all n objects, and Ctrl-C would have to wait.
    classes = np.array(sorted(set(y)), dtype=object)
    number = {name: i for i, name in enumerate(classes)}
    return classes, np.fromiter((number[name] for name in y), np.intp, len(y))


def _check_one_kind(machine: object, y: np.ndarray) -> None:
    """Refuse objects that have no order: strings beside numbers, or None."""
    kinds, name = [_kind(value) for value in y], type(machine).__name__
    if set(kinds) == {"a string"}:
        return
    if set(kinds) == {"a number"}:
        raise ValueError(
            f"Unknown label type: unknown. {name} got numbers as an array of objects; "
            "pass y.astype(int), y.astype(float) or y.astype(str)."
        )
    named = kinds[0] in ("a string", "a number")
    i = next(i for i, kind in enumerate(kinds) if kind != kinds[0]) if named else 0
    raise ValueError(
        f"{name} needs classes that are all numbers or all strings; "
        f"point {i} has {y[i]!r}, which is {kinds[i]}"
        + (f", and point 0 has {y[0]!r}" if i else "")
        + ". Name every class in the same way, and leave out points without one."
    )


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "a string"
    if isinstance(value, Number) and value == value:
        return "a number"
    return "missing" if _is_missing(value) else f"of type {type(value).__name__}"


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)  # NaN
    except TypeError:  # pandas.NA is neither equal to itself nor different
        return True


def class_factors(
    machine: Any, classes: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None
) -> np.ndarray:
    """What `class_weight` says that the points of each class count, (k,).

    Parameters
    ----------
    classes : (k,) array
    y : the classes of the points, for "balanced": n / (k nᵢ)
    weight : how often each point counts there; None for once
    """
    given = machine.class_weight
    if given is None:
        return np.ones(len(classes))
    if isinstance(given, dict):
        _check_class_weight(machine, given, classes)
    return compute_class_weight(given, classes=classes, y=y, sample_weight=weight)


def _check_class_weight(
    machine: object, given: dict[Any, float], classes: np.ndarray
) -> None:
    known = set(np.asarray(classes).tolist())
    strange = [one for one in given if one not in known]
    plain = [one for one in known if one not in given]
    # Where all classes have a weight, others may be those of another fold.
    if strange and plain:
        raise ValueError(
            f"The classes, {_some(strange)}, of class_weight are not in y, and of its "
            f"classes {_some(plain)} are not in class_weight. {type(machine).__name__} "
            "needs the names of y, as they are there: 1 is not '1'."
        )


def _some(names: list[Any]) -> str:
    return str(names[:5]) if len(names) <= 5 else f"{str(names[:5])[:-1]}, ...]"


LITTLE = (
    2.0**26
)  # bytes for which the memory is not looked at: that takes a millisecond
OTHERS = "KernelKNNClassifier takes any number of classes."


def check_columns(
    machine: object, n_classes: int, n: int, what: str = "a function"
) -> None:
    """Refuse a column of n numbers for each of too many classes, before there is one.

    Parameters
    ----------
    what : the machine has for each class
    """
    if n_classes > 2:
        known = f"{what} for each of {n_classes} classes"
        _check_room(machine, known, 3.0 * n_classes * n, n, OTHERS)


def check_pairs(machine: object, n_classes: int, n: int) -> None:
    """The same for a function for every two classes."""
    pairs = n_classes * (n_classes - 1) // 2
    # β and F of a point in its n_classes - 1 problems, and the report of each.
    numbers = 6.0 * (n_classes - 1) * n + 32.0 * pairs
    way_out = f'multiclass="ovr" has {n_classes} functions. {OTHERS}'
    known = f"a function for each of {pairs} pairs of {n_classes} classes"
    _check_room(machine, known, numbers, n, way_out)


def _check_room(
    machine: object, known: str, numbers: float, n: int, way_out: str
) -> None:
    needed = 8.0 * numbers
    if needed < LITTLE:
        return
    free = available_memory()
    if needed > free or numbers > MOST_NUMBERS:
        raise ValueError(
            f"{type(machine).__name__} has {known}, over {n} points: "
            f"{needed / 1e9:.3g} GB to find them, where {free / 1e9:.3g} GB are free, "
            f"and hours. {way_out} Or tell groups of classes apart first."
        )


def check_table(machine: object, m: int, n_classes: int) -> None:
    """Refuse a table of m points and n_classes that there is no memory for."""
    needed = 16.0 * m * n_classes
    if needed >= LITTLE:
        check_room(
            needed,
            f"{type(machine).__name__} gives a number for each of {m} points and "
            f"{n_classes} classes,",
            "Ask for fewer points at a time, or for predict.",
        )


class _AvailableIf:
    """A method that is there if check(machine) is true; else an AttributeError."""

    def __init__(self, method: Callable[..., Any], check: Callable[[Any], bool]):
        self.method, self.check = method, check
        # An object that is no function takes over the name and the docstring of one.
        update_wrapper(self, method)  # type: ignore[arg-type]

    def _checked(self, machine: Any, owner: type) -> None:
        missing = f"This {owner.__name__!r} has no attribute {self.method.__name__!r}"
        try:
            there = self.check(machine)
        except AttributeError as reason:
            raise AttributeError(f"{missing}: {reason}") from reason
        if not there:
            raise AttributeError(missing)

    def __get__(self, machine: Any, owner: type) -> Callable[..., Any]:
        if machine is not None:
            self._checked(machine, owner)
            return MethodType(self.method, machine)

        @wraps(self.method)
        def unbound(machine: Any, *args: Any, **kwargs: Any) -> Any:
            self._checked(machine, owner)
            return self.method(machine, *args, **kwargs)

        return unbound


_Method = TypeVar("_Method", bound=Callable[..., Any])


def available_if(check: Callable[[Any], bool]) -> Callable[[_Method], _Method]:
    """A method that only some settings have; the error is what `check` raises.

    As scikit-learn's decorator of this name, which keeps the reason to itself.
    """

    def made(method: _Method) -> Any:
        return _AvailableIf(method, check)

    return made
