"""What is checked of parameters, points and values of kernels."""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

import numpy as np

from mercer.data.checks import brief, check_finite
from mercer.data.points import Points, as_points, count, precision, vectors
from mercer.kernels.cache import through_cache
from mercer.native import memory
from mercer.native.interruptible import elementwise, interruptible

Values = Callable[..., np.ndarray]  # what computes values of a kernel
Method = TypeVar("Method", bound=Values)

HIGHEST = 2**53  # the largest exponent that float64 distinguishes from the next
FEW = 10_000  # numbers that are looked at one by one, which is quicker than a sum
LARGE = 2**28  # bytes of a block above which available memory is checked first

# Whether kernel values are looked at before they are returned: those of the kernel that
# was asked, once, and not those of the kernels that it is made of.
_CHECKING: ContextVar[bool] = ContextVar("checking", default=True)


@contextmanager
def unchecked() -> Iterator[None]:
    """Kernel values that are not finite numbers are returned as they are."""
    token = _CHECKING.set(False)
    try:
        yield
    finally:
        _CHECKING.reset(token)


# A matrix of kernel values that was looked at, and is read again and again.
_LOOKED_AT: ContextVar[np.ndarray | None] = ContextVar("looked_at", default=None)


@contextmanager
def known_finite(matrix: np.ndarray | None) -> Iterator[None]:
    """Within, the numbers of this array are taken to be finite."""
    token = _LOOKED_AT.set(matrix)
    try:
        yield
    finally:
        _LOOKED_AT.reset(token)


def guarded_call(call: Values) -> Values:
    """A kernel's `__call__` with its points converted and the memory checked first."""
    looked_at = checked(call)

    @functools.wraps(call)
    def guarded(
        self: Any, X: Points, Y: Points | None = None, **options: Any
    ) -> np.ndarray:
        own = Y is None or Y is X
        X = as_points(X)
        if Y is not None:
            Y = X if own else as_points(Y)
        n = count(X)
        m = n if own else count(Y)
        if 4 * n * m > LARGE:
            check_room(self, X, X if own else Y)
        if options:
            return looked_at(self, X, Y, **options)
        return through_cache(self, X, Y, functools.partial(looked_at, self))

    return guarded


def checked(method: Method) -> Method:
    """A method of a kernel that refuses values which are not finite numbers."""

    @functools.wraps(method)
    def refusing(self: Any, X: Points, *more: Any, **options: Any) -> np.ndarray:
        if not _CHECKING.get():
            return method(self, X, *more, **options)
        token = _CHECKING.set(False)
        try:
            # What overflows is refused below, in words.
            with np.errstate(over="ignore", invalid="ignore"):
                values = method(self, X, *more, **options)
        finally:
            _CHECKING.reset(token)
        return finite(values, self, X, *more)

    return refusing  # type: ignore[return-value]  # it takes what the method takes


GUARDS: dict[str, Callable[[Values], Values]] = {
    "__call__": guarded_call,
    "diag": checked,
    "sqdist": checked,
    "matmul": checked,
}


def check_room(kernel: Any, X: Points, Y: Points) -> None:
    """Refuse, with a MemoryError, a matrix larger than the memory there is."""
    n, m = count(X), count(Y)
    single = precision(X) == precision(Y) == np.float32
    memory.check_room(
        (4.0 if single else 8.0) * n * m,
        f"The {n} × {m} matrix k(X, Y) of {kernel} takes",
        "Gram(kernel, X, Y) does not store it: multiply it (K @ V), or read it in "
        "blocks (K.rows(index)); or take fewer points.",
    )


def finite(values: np.ndarray, kernel: Any, *given: Any) -> np.ndarray:
    """These values of a kernel, or sums of them, refused unless all are finite.

    Parameters
    ----------
    given : what they are values of: points, and the factors of a product
    """
    if are_finite(values):
        return values
    for points in given:
        _refuse_gaps(points, kernel)
    single = getattr(values, "dtype", None) == np.float32
    raise ValueError(
        f"The kernel {kernel} has values that are not finite numbers on these points"
        ": they overflow, or are NaN. Scale the points, or choose another kernel, such "
        "as one of lower degree or Normalized(kernel)"
        + ("; float64 points have a wider range." if single else ".")
    )


def are_finite(values: np.ndarray) -> bool:
    """Whether all numbers of an array are finite."""
    if values is _LOOKED_AT.get() and values is not None:
        return True
    if np.size(values) > FEW:
        # A sum is quicker. NaN and ∞ stay in it; finite numbers may overflow it.
        with np.errstate(over="ignore", invalid="ignore"):
            total = interruptible(np.sum, values, work=10.0 * np.size(values))
        if np.isfinite(total):
            return True
    return bool(elementwise(lambda block: np.isfinite(block).all(), values))


def _refuse_gaps(points: Any, kernel: Any) -> None:
    """Name a number among the points that is not finite, rather than the kernel."""
    if points is None or kernel.missing:
        return
    if not isinstance(points, np.ndarray):
        try:
            points = vectors(points)
        except (TypeError, ValueError):  # points of another kind
            return
    check_finite(points, type(kernel).__name__)


class Range(NamedTuple):
    """What a smooth parameter of a kernel may be: a number, or a list of numbers.

    Parameters
    ----------
    low, high : the ends; from 0 on it is learnt on a logarithmic scale
    learnt : whether what learns parameters learns this one without being told to
    optional : whether None says that the kernel does without it
    """

    low: float
    high: float
    learnt: bool = True
    optional: bool = False

    @classmethod
    def positive(cls, *names: str, **options: bool) -> dict[str, Range]:
        """Parameters > 0."""
        return {name: cls(0.0, math.inf, **options) for name in names}

    @classmethod
    def not_negative(cls, *names: str, **options: bool) -> dict[str, Range]:
        """Parameters ≥ 0; of those that are 0 nothing is learnt, as their ln is -∞."""
        return cls.positive(*names, **options)

    @classmethod
    def share(cls, *names: str, **options: bool) -> dict[str, Range]:
        """Parameters in (0, 1]."""
        return {name: cls(0.0, 1.0, **options) for name in names}

    @classmethod
    def any(cls, *names: str, **options: bool) -> dict[str, Range]:
        """Parameters of both signs."""
        return {name: cls(-math.inf, math.inf, **options) for name in names}


def is_number(value: object) -> bool:
    """Whether value is a real number; True and False are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Whether value is a number that a float can hold."""
    try:
        return is_number(value) and math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


def check_whole(
    node: object, name: str, number: Any, least: int, most: float = math.inf
) -> None:
    """Refuse anything but a whole number from least to most."""
    whole = isinstance(number, numbers.Integral) and not isinstance(number, bool)
    if not (whole and number >= least):
        raise ValueError(
            f"{type(node).__name__} needs a whole number {name} ≥ {least}; "
            f"got {name}={brief(number)}."
        )
    if number > most:
        raise ValueError(
            f"{type(node).__name__} needs a whole number {name} ≤ {most:,}; got "
            f"{name}={brief(number)}. Choose a smaller one."
        )


def check_positive(
    node: object, name: str, number: Any, optional: bool = False
) -> None:
    """Refuse anything but a finite number > 0 (or None, where it may be learnt)."""
    if optional and number is None:
        return
    if not (is_finite(number) and number > 0):
        raise ValueError(
            f"{type(node).__name__} needs {name} > 0; got {name}={brief(number)}."
        )


def check_widths(node: object, name: str, widths: Any, optional: bool = False) -> None:
    """Refuse anything but a number > 0, or a list of them, one for each coordinate."""
    if isinstance(widths, float) and 0 < widths < math.inf:
        return  # as nearly always, and soon known
    if not (isinstance(widths, list | tuple | np.ndarray) and np.ndim(widths) == 1):
        check_positive(node, name, widths, optional)
    elif len(widths) == 0 or not all(is_finite(w) and w > 0 for w in widths):
        raise ValueError(
            f"{type(node).__name__} needs {name} > 0 for every coordinate; got "
            f"{name}={brief(widths)}."
        )


def check_weights(node: object, weights: Any, count: int | None = None) -> None:
    """Refuse anything but finite numbers ≥ 0, `count` of them where that is given."""
    name = type(node).__name__
    listed = isinstance(weights, list | tuple | np.ndarray) and np.ndim(weights) == 1
    if not listed or len(weights) == 0 or (count and len(weights) != count):
        wanted = f"{count} weights" if count else "a list of weights"
        raise ValueError(
            f"{name} needs {wanted}, one for each length from 1 on; got "
            f"weights={brief(weights)}."
        )
    for r, weight in enumerate(weights, 1):
        if not (is_finite(weight) and weight >= 0):
            raise ValueError(
                f"{name} needs weights ≥ 0, or the sum need not be a kernel; the "
                f"weight of length {r} is {weight!r}."
            )
    if not any(weights):
        raise ValueError(f"{name} needs a weight > 0; got weights={brief(weights)}.")


def check_coefficients(node: object, coefficients: Any) -> None:
    """Refuse a negative coefficient: its power series need not be a kernel."""
    name = type(node).__name__
    if not isinstance(coefficients, list | tuple | np.ndarray) or (
        np.ndim(coefficients) != 1 or len(coefficients) == 0
    ):
        raise ValueError(
            f"{name} needs a list of coefficients, the constant first; "
            f"got {brief(coefficients)}."
        )
    for n, coefficient in enumerate(coefficients):
        if not (is_finite(coefficient) and coefficient >= 0):
            raise ValueError(
                f"{name} needs coefficients ≥ 0, or the result need not be a kernel; "
                f"the coefficient of power {n} is {coefficient!r}."
            )
