"""Parameterized: a dataclass of parameters, some of which may be such objects too.

Kernels are that: values with parameters by name, which are copied, compared, pickled
and written by them. What they compute is not known here.
"""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from mercer.data.checks import brief
from mercer.data.copies import owned, same_value
from mercer.kernels.checks import is_number

LONGEST_TEXT = 300  # letters of a kernel within an error message
MOST_WRITTEN = 1000  # numbers of an array that are written as a list
_LISTS = (list, tuple)


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    """The names of the parameters of a class, found once."""
    if not is_dataclass(kind):
        raise TypeError(
            f"A kernel is a dataclass of its parameters: write @dataclass above "
            f"class {kind.__name__}."
        )
    return tuple(part.name for part in fields(kind))


class Parameterized:
    """A value: a dataclass of parameters, a tree where some are `Parameterized`."""

    # Parameters that `owned` does not copy: documented as shared, or read only once.
    _shared: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # @dataclass writes an __eq__ that compares tuples and fails on arrays, and a
        # __repr__ without operators, unless the class has its own.
        for name in ("__eq__", "__repr__"):
            if name not in cls.__dict__:
                setattr(cls, name, getattr(cls, name))

    # Parameters, by scikit-learn's conventions

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; with `deep` also those of the kernels inside."""
        params = self._parameters()
        if deep:
            for name, child in self._named_kernels():
                inner = {"": child} if name not in params else {}
                inner |= {f"__{key}": one for key, one in child.get_params().items()}
                params |= {f"{name}{key}": one for key, one in inner.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Change parameters in place (`left__gamma=2` reaches inside); returns self.

        A value that is refused leaves the kernel as it was.
        """
        own = self._parameters()
        inner: dict[str, dict[str, Any]] = {}
        for key, setting in params.items():
            name, nested, rest = key.partition("__")
            if name not in own:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; "
                    f"it has {', '.join(own) or 'none'}."
                )
            if nested:
                inner.setdefault(name, {})[rest] = setting
            else:
                own[name] = setting
        for name, settings in inner.items():
            if name in dict(self._kernel_fields()) and isinstance(
                own[name], list | tuple
            ):
                own[name] = _with_parts(self, name, own[name], settings)
                continue
            if not isinstance(own[name], Parameterized):
                raise ValueError(
                    f"{type(self).__name__} cannot set {name}__{next(iter(settings))}: "
                    f"{name} is not a kernel but {brief(own[name])}."
                )
            own[name] = copy.copy(own[name]).set_params(**settings)
        changed = type(self)(**own)  # checks them
        if any(part is self for part in changed._distinct()):
            raise ValueError(
                f"{type(self).__name__} cannot be a part of itself. Pass a copy of it, "
                "copy.deepcopy(kernel)."
            )
        self.__dict__.clear()
        self.__dict__.update(changed.__dict__)
        return self

    def _parameters(self) -> dict[str, Any]:
        kind: Any = type(self)
        return {name: getattr(self, name) for name in _field_names(kind)}

    def _kernel_fields(self) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        kind: Any = type(self)
        for name in _field_names(kind):
            setting = getattr(self, name)
            if isinstance(setting, Parameterized):
                found.append((name, setting))
            elif isinstance(setting, _LISTS) and setting:
                if all(isinstance(part, Parameterized) for part in setting):
                    found.append((name, setting))
        return found

    def _named_kernels(self) -> Iterator[tuple[str, Any]]:
        """The kernels inside by their names in `get_params`; of a list by number."""
        for name, child in self._kernel_fields():
            if isinstance(child, Parameterized):
                yield name, child
            else:
                yield from ((f"{name}__{i}", part) for i, part in enumerate(child))

    def _parts(self) -> list[Any]:
        """The kernels this one is made of."""
        return [
            kernel
            for _, child in self._kernel_fields()
            for kernel in (child if isinstance(child, list | tuple) else [child])
        ]

    def _distinct(self) -> Iterator[Any]:
        """This kernel and all inside it, each once."""
        seen, waiting = set(), [self]
        while waiting:
            kernel = waiting.pop()
            if id(kernel) not in seen:
                seen.add(id(kernel))
                waiting += kernel._parts()
                yield kernel

    def _resolved(self, name: str) -> Any:
        """The parameter `name`, which must not be None any more."""
        setting = getattr(self, name)
        if setting is None:
            kind = type(self).__name__
            raise ValueError(
                f"{kind}({name}=None) learns {name} from data: call "
                f"{kind}().resolve(X) first, or pass a number."
            )
        return setting

    # Equal ones

    def copied(self) -> Self:
        """An equal kernel that `set_params` on this one does not reach.

        Arrays and functions are shared; `owned` copies the arrays too.
        """
        kernel = self.__copy__()
        for name, child in self._kernel_fields():
            if isinstance(child, Parameterized):
                kernel.__dict__[name] = child.copied()
            else:
                kernel.__dict__[name] = type(child)(part.copied() for part in child)
        return kernel

    def owned(self) -> Self:
        """An equal kernel that no edit of this one or of its arrays and lists reaches.

        Shared are functions, memory-mapped arrays and the matrix of `Precomputed`.
        """
        return self._owned({})

    def _owned(self, copies: dict[int, Any]) -> Self:
        """`copies` are those made so far: a node in several places is copied once."""
        if id(self) in copies:
            return copies[id(self)]
        kernel = copies[id(self)] = copy.copy(self)
        inside = dict(self._kernel_fields())
        for name, setting in self._parameters().items():
            if name in self._shared or setting is None:
                continue
            if isinstance(setting, Parameterized):
                new: Any = setting._owned(copies)
            elif name in inside:
                new = type(setting)(part._owned(copies) for part in setting)
            elif callable(setting):
                continue
            else:
                new = owned(setting)
            kernel.__dict__[name] = new
        return kernel

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_version": version()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        warn_of_version(type(self).__name__, state.pop("_version", "an unknown one"))
        self.__dict__.update(state)

    def __copy__(self) -> Self:
        kernel = object.__new__(type(self))
        kernel.__dict__.update(self.__dict__)
        return kernel

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, theirs = self._parameters(), other._parameters()
        return all(_equal(mine[name], theirs[name]) for name in mine)

    __hash__ = None  # type: ignore[assignment]  # set_params changes a kernel in place

    def __repr__(self) -> str:
        return self._call()

    def __format__(self, spec: str) -> str:
        """As in an error message: a long one is cut."""
        text = repr(self)
        whole = len(text) <= LONGEST_TEXT
        return format(text if whole else f"{text[:LONGEST_TEXT]} ...", spec)

    def _call(self, without: Sequence[str] = ()) -> str:
        """The constructor call, without some of its parameters."""
        inside = ", ".join(
            f"{name}={written(setting)}"
            for name, setting in self._parameters().items()
            if name not in without
        )
        return f"{type(self).__name__}({inside})"


def _with_parts(
    kernel: Parameterized, name: str, parts: Any, settings: dict[str, Any]
) -> Any:
    """A list of kernels with parameters of some, or some of them, changed."""
    new = list(parts)
    for key, setting in settings.items():
        number, nested, rest = key.partition("__")
        if not (number.isdecimal() and int(number) < len(new)):
            raise ValueError(
                f"{type(kernel).__name__} cannot set {name}__{key}: {name} holds "
                f"{len(new)} kernels, numbered from 0."
            )
        i = int(number)
        new[i] = copy.copy(new[i]).set_params(**{rest: setting}) if nested else setting
    return type(parts)(new)


def version() -> str:
    """The version of the package; imported late, as the package imports this file."""
    return importlib.import_module("mercer").__version__


def warn_of_version(name: str, made_by: str) -> None:
    """Warn where something was pickled by another version of the package."""
    if made_by != version():
        warnings.warn(
            f"{name} was pickled by mercer {made_by} and is read by mercer "
            f"{version()}, which may give other results, or none. Fit it again, or "
            "read it with the version that wrote it.",
            UserWarning,
            stacklevel=3,
        )


def _equal(a: Any, b: Any) -> bool:
    """Equality of parameters; a list of numbers equals the array of them."""
    a, b = (c.tolist() if _is_numbers(c) else c for c in (a, b))
    return same_value(a, b)


def _is_numbers(setting: Any) -> bool:
    """Whether a parameter is an array that is written as a list of numbers."""
    listed = isinstance(setting, np.ndarray) and setting.ndim == 1
    return listed and setting.dtype.kind in "iuf"


def written(setting: Any) -> str:
    """A parameter as it is written in a constructor call; long data by its size."""
    if _is_numbers(setting) and len(setting) <= MOST_WRITTEN:
        return written(setting.tolist())
    if isinstance(setting, np.generic):
        return repr(setting.item())
    if isinstance(setting, str | Parameterized):
        return repr(setting)
    if callable(setting):
        return getattr(setting, "__name__", repr(setting))
    if isinstance(setting, list | tuple):
        items = [written(part) for part in setting]
        if sum(map(len, items)) > 2000 and not all(map(is_number, setting)):
            return f"<{type(setting).__name__} of {len(setting)}>"
        inside = ", ".join(items) + (
            "," if type(setting) is tuple and len(items) == 1 else ""
        )
        return f"[{inside}]" if isinstance(setting, list) else f"({inside})"
    if sp.issparse(setting) or (isinstance(setting, np.ndarray) and setting.size > 16):
        return f"<{' × '.join(map(str, setting.shape))} {setting.dtype}>"
    if hasattr(setting, "equals"):  # data frames
        return f"<{' × '.join(map(str, setting.shape))} {type(setting).__name__}>"
    return " ".join(repr(setting).split())
