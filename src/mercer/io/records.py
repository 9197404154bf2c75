"""Values as JSON and arrays, and back: what a model file says of a machine.

None, truth values, whole numbers, finite floats and texts are themselves in JSON, and a
list is a list. Everything else is an object with one key that names its kind:

    {"float": "nan"}                    also "inf", "-inf"
    {"array": "3", ...}                 numbers, in the array "3" of the file
    {"tuple": [...]}                    also dict, frozenset, slice, range, bytes, ...
    {"texts": "4", "lengths": "5"}      a long list of texts, in two arrays
    {"object": 7}                       what is in place 7 of the list of objects

An object is {"class": "RBF", "parts": {"gamma": 0.5}}, with a class of the table in
`classes.py`, or a long list. It refers only to objects before it: nothing is nested
however deep a kernel is, nothing contains itself, and what stands in two places is
written once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.blocks import Blocks
from mercer.data.checks import describe
from mercer.data.frames import frame_columns_by_name, frame_of_columns, is_frame
from mercer.io import classes
from mercer.io.container import is_storable
from mercer.kernels.base import Kernel
from mercer.native import sparsity

DEEPEST = 100  # lists in lists that are written and read
LONG = 16  # entries from which on a list of equal types is an array
MOST_WEIGHT = 64  # values for each byte of a file: what stands in many places counts
_FLOATS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}
_PLAIN = (bool, int, str, type(None))


class Writer:
    """Takes values apart into `objects`, which are JSON, and `arrays`."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.arrays: dict[str, np.ndarray] = {}
        self._records: dict[int, Any] = {}  # by the id of what they are of
        self._kept: list[Any] = []  # so that no id is used twice
        self._open: set[int] = set()  # what is being written

    def record(self, value: Any, where: str, depth: int = 0) -> Any:
        """The JSON of a value; `where` it stands is for errors."""
        kind = type(value)
        if kind in _PLAIN:
            return _whole(value, where) if kind is int else value
        if kind is float:
            return value if np.isfinite(value) else {"float": str(value)}
        if id(value) in self._records:
            return self._records[id(value)]
        if depth > DEEPEST or id(value) in self._open:
            raise TypeError(
                f"{where} is nested deeper than the {DEEPEST} levels that a model file "
                "can hold, or contains itself. Make it flat; trees are points as Tree."
            )
        self._open.add(id(value))
        found = self._composed(value, where, depth)
        self._open.discard(id(value))
        if not isinstance(value, tuple | np.generic):
            self._records[id(value)] = found
            self._kept.append(value)
        return found

    def _composed(self, value: Any, where: str, depth: int) -> Any:
        kind = next((one for one in type(value).__mro__ if one in _WRITTEN), None)
        if kind is not None and (kind is type(value) or kind in _OPEN):
            return _WRITTEN[kind](self, value, where, depth)
        if sp.issparse(value):
            return self._sparse(value, where)
        if is_frame(value):
            return self._frame(value, where, depth)
        name = classes.name_of(type(value))
        if name is not None:
            return self._object(name, value, where)
        function = classes.function_name(value) if callable(value) else None
        if function is not None:
            return {"function": function}
        raise TypeError(_why_not(value, where))

    def _number(self, array: np.ndarray) -> str:
        name = str(len(self.arrays))
        self.arrays[name] = array
        return name

    def _object(self, name: str, value: Any, where: str) -> dict[str, int]:
        parts = {
            part: self.record(inner, f"{where}.{part}")
            for part, inner in classes.parts_of(value).items()
        }
        return self._put({"class": name, "parts": parts})

    def _put(self, record: Any) -> dict[str, int]:
        self.objects.append(record)
        return {"object": len(self.objects) - 1}

    def _list(self, value: Sequence[Any], where: str, depth: int) -> Any:
        """A list; a long one has a place of its own, or is an array."""
        if len(value) < LONG:
            return self._each(value, where, depth)
        kinds = set(map(type, value))
        if kinds == {str}:
            return self._put(self._texts(value))
        if kinds == {float}:
            return self._put({"floats": self._number(np.array(value))})
        if kinds == {int} and -(2**63) <= min(value) and max(value) < 2**63:
            return self._put({"ints": self._number(np.array(value, np.int64))})
        return self._put(self._each(value, where, depth))

    def _each(self, values: Sequence[Any], where: str, depth: int) -> list[Any]:
        return [
            self.record(value, f"{where}[{i}]", depth + 1)
            for i, value in enumerate(values)
        ]

    def _texts(self, value: Sequence[str]) -> dict[str, str]:
        parts = [text.encode("utf-8", "surrogatepass") for text in value]
        lengths = np.array([len(part) for part in parts], np.int64)
        letters = np.frombuffer(b"".join(parts), np.uint8)
        return {"texts": self._number(letters), "lengths": self._number(lengths)}

    def _tuple(self, value: tuple[Any, ...], where: str, depth: int) -> Any:
        if type(value) is not tuple:  # a named one
            name = classes.name_of(type(value))
            if name is None:
                raise TypeError(_why_not(value, where))
            return self._object(name, value, where)
        return {"tuple": self._list(value, where, depth)}

    def _dict(self, value: dict[Any, Any], where: str, depth: int) -> Any:
        keys = self._list(list(value), f"{where} (its keys)", depth)
        inner = [
            self.record(part, f"{where}[{key!r:.40}]", depth + 1)
            for key, part in value.items()
        ]
        return {"dict": keys, "values": inner}

    def _frozenset(self, value: frozenset[Any], where: str, depth: int) -> Any:
        return {"frozenset": self._each(list(value), where, depth)}

    def _slice(self, value: slice, where: str, depth: int) -> Any:
        ends = (value.start, value.stop, value.step)
        return {"slice": self._each(ends, where, depth)}

    def _range(self, value: range, where: str, depth: int) -> Any:
        return {"range": [value.start, value.stop, value.step]}

    def _bytes(self, value: bytes, where: str, depth: int) -> Any:
        return {"bytes": value.hex()}

    def _dtype(self, value: np.dtype[Any], where: str, depth: int) -> Any:
        _check_dtype(value, where)
        return {"dtype": value.str}

    def _scalar(self, value: np.generic, where: str, depth: int) -> Any:
        return {"scalar": self._array(np.asarray(value), where, depth)}

    def _array(self, value: np.ndarray, where: str, depth: int) -> Any:
        value = np.asarray(value)  # of a memory-mapped or other array, the numbers
        if value.dtype == object:
            record = self._list(value.ravel().tolist(), where, depth)
            return {"objects": record, "shape": list(value.shape)}
        _check_dtype(value.dtype, where)
        found = {}
        turned = value.ndim > 1 and value.flags.f_contiguous
        if turned and not value.flags.c_contiguous:
            # The order decides how BLAS sums, so it is kept.
            value, found["order"] = value.T, "F"
        if not is_storable(value.dtype):
            found["dtype"] = value.dtype.newbyteorder("<").str
            value = _as_numbers(value)
        return {"array": self._number(value), **found}

    def _sparse(self, value: Any, where: str) -> Any:
        if value.format != "csr" or value.ndim != 2:
            raise TypeError(
                f"{where} is {describe(value)}; model files hold sparse matrices in "
                "the format CSR. Convert it, X.tocsr(), and fit again."
            )
        sparsity.check(value)
        parts = (value.data, value.indices, value.indptr)
        return {
            "csr": [self._array(part, where, 0) for part in parts],
            "shape": list(value.shape),
            "kind": "array" if isinstance(value, sp.sparray) else "matrix",
        }

    def _frame(self, value: Any, where: str, depth: int) -> Any:
        library, columns = frame_columns_by_name(value)
        return {
            "frame": library,
            "columns": [
                [
                    self.record(name, f"{where} (names of columns)", depth + 1),
                    kind,
                    self.record(column, f"{where}[{name!r}]", depth + 1),
                ]
                for name, kind, column in columns
            ],
        }

    def _random_state(self, value: Any, where: str, depth: int) -> Any:
        name, *state = value.get_state()
        return {"random_state": name, "state": self._each(state, where, depth)}


_WRITTEN: dict[type, Callable[..., Any]] = {
    np.ndarray: Writer._array,
    np.generic: Writer._scalar,
    list: Writer._list,
    tuple: Writer._tuple,
    dict: Writer._dict,
    frozenset: Writer._frozenset,
    slice: Writer._slice,
    range: Writer._range,
    bytes: Writer._bytes,
    np.dtype: Writer._dtype,
    np.random.RandomState: Writer._random_state,
}
_OPEN = (np.ndarray, np.generic, np.dtype, tuple)  # classes made from them, too


def _whole(value: int, where: str) -> int:
    if value.bit_length() > 4096:
        raise TypeError(f"{where} is a whole number of more than 4096 bits.")
    return value


def _check_dtype(dtype: np.dtype[Any], where: str) -> None:
    if not is_storable(dtype) and dtype.kind not in "USMmc":
        raise TypeError(
            f"{where} is an array of {dtype}, which model files do not hold. Convert "
            "the points to float64 and fit again."
        )


def _as_numbers(array: np.ndarray) -> np.ndarray:
    """Texts as their letters, dates as their counts, complex numbers as two."""
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    if array.dtype.kind in "Mm":
        return array.view("<i8")
    unit = _UNITS[array.dtype.kind]
    many = array.dtype.itemsize // unit.itemsize
    return array.reshape(-1).view(unit).reshape(*array.shape, many)


_UNITS: dict[str, np.dtype[Any]] = {
    "U": np.dtype("<u4"),
    "S": np.dtype("|u1"),
    "c": np.dtype("<f8"),
}


def _why_not(value: Any, where: str) -> str:
    """Why a value cannot be written, and the way out."""
    kind = type(value)
    full = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, Kernel):
        return (
            f"{where} is a kernel of a class of your own, {full}. A model file holds "
            "no code: use kernels of the library, or Precomputed(K) with its values."
        )
    if isinstance(value, Blocks):
        return (
            f"{where} is {value!r}, points that are read from elsewhere. Fit with "
            "kernel=Nystrom(...), which keeps its landmarks alone, or on an array."
        )
    if callable(value) and not hasattr(value, "fit"):
        name = getattr(value, "__qualname__", full)
        return (
            f"{where} is a function of your own, {name}. A model file holds no code: "
            "use a kernel of the library, or Precomputed(K) with its values; set a "
            "callback to None."
        )
    if all(hasattr(value, name) for name in ("nodes", "edges", "is_directed")):
        return (
            f"{where} is of the class {full}, which model files do not know. Fit on "
            "points Graph.from_networkx(graph)."
        )
    return (
        f"{where} is of the class {full}, which model files do not know. They hold "
        "numbers, texts, lists, arrays, CSR matrices, data frames, Tree and Graph "
        "points, and what mercer itself makes: convert it and fit again."
    )


class Reader:
    """Puts values together again, of classes in the table alone.

    Parameters
    ----------
    objects, arrays : as of a `Writer`
    size : bytes of the file, which bound how much may come out of it
    """

    def __init__(self, objects: Any, arrays: dict[str, np.ndarray], size: int) -> None:
        if not isinstance(objects, list):
            raise ValueError("it has no list of objects")
        self._records, self._arrays = objects, arrays
        self._most = MOST_WEIGHT * size + 10_000
        self._values: dict[int, Any] = {}
        self._weights: dict[int, int] = {}
        self._weight = 0
        self._views: dict[Any, np.ndarray] = {}  # arrays in other types and orders

    def value(self, record: Any) -> Any:
        """What a record says, with all objects that it refers to."""
        needed = _references(record)
        for place in range(len(self._records) - 1, -1, -1):
            if place in needed:
                needed |= _references(self._records[place])
        absent = [place for place in needed if not 0 <= place < len(self._records)]
        if absent:
            raise ValueError(f"it refers to the object {absent[0]}, which is not there")
        for place in sorted(needed - self._values.keys()):
            self._weight = 1
            self._values[place] = self._made(place)
            self._weights[place] = self._weight
        self._weight = 0
        return self._read(record, 0)

    def _made(self, place: int) -> Any:
        record = self._records[place]
        if any(other >= place for other in _references(record)):
            raise ValueError(f"the object {place} refers to one that comes after it")
        if not isinstance(record, dict) or "class" not in record:
            return self._read(record, 0)
        name, parts = _entries(record, "class", "parts")
        if not isinstance(name, str) or not isinstance(parts, dict):
            raise ValueError(f"the object {place} is of no class")
        try:
            kind = classes.class_of(name)
        except KeyError:
            raise ValueError(
                f"the object {place} is of the class {name[:80]!r}, which this release "
                "does not know; a later one may"
            ) from None
        inner = {part: self._read(parts[part], 0) for part in parts}
        try:
            return classes.made_of(name, inner)
        except MemoryError:
            raise
        except Exception as error:
            raise ValueError(
                f"the object {place} is no {kind.__name__}: {error}"
            ) from error

    def _read(self, record: Any, depth: int) -> Any:
        self._weigh(1)
        if record is None or isinstance(record, bool | int | float | str):
            return record
        if depth > DEEPEST:
            raise ValueError(f"lists are nested deeper than {DEEPEST} levels")
        if isinstance(record, list):
            return [self._read(one, depth + 1) for one in record]
        kind = next(iter(record), "")
        if kind not in _READ:
            raise ValueError(f"a value is of the kind {kind[:80]!r}, which is unknown")
        try:
            return _READ[kind](self, record, depth)
        except (ValueError, MemoryError, RecursionError, ImportError):
            raise
        except Exception as error:  # data frames have errors of their own
            raise ValueError(f"a value of the kind {kind!r} is damaged: {error}") from (
                error
            )

    def _weigh(self, weight: int) -> None:
        self._weight += weight
        if self._weight > self._most:
            raise ValueError("it stands for more values than its size allows")

    def _object(self, record: Any, depth: int) -> Any:
        [place] = _entries(record, "object")
        self._weigh(self._weights[place])
        return self._values[place]

    def _float(self, record: Any, depth: int) -> float:
        [word] = _entries(record, "float")
        return float(_FLOATS[word])

    def _tuple(self, record: Any, depth: int) -> tuple[Any, ...]:
        [inner] = _entries(record, "tuple")
        return tuple(self._listed(inner, depth))

    def _listed(self, record: Any, depth: int) -> list[Any]:
        found = self._read(record, depth + 1)
        if type(found) is not list:
            raise ValueError("a list is none")
        return found

    def _frozenset(self, record: Any, depth: int) -> frozenset[Any]:
        [inner] = _entries(record, "frozenset")
        return frozenset(self._listed(inner, depth))

    def _dict(self, record: Any, depth: int) -> dict[Any, Any]:
        keys, values = (
            self._listed(part, depth) for part in _entries(record, "dict", "values")
        )
        found = dict(zip(keys, values, strict=True))
        if len(found) < len(keys):
            raise ValueError("a dict has a key twice")
        return found

    def _slice(self, record: Any, depth: int) -> slice:
        [inner] = _entries(record, "slice")
        return slice(*self._listed(inner, depth))

    def _range(self, record: Any, depth: int) -> range:
        [ends] = _entries(record, "range")
        found = range(*ends)
        self._weigh(len(found))  # it may be made a list
        return found

    def _bytes(self, record: Any, depth: int) -> bytes:
        [text] = _entries(record, "bytes")
        return bytes.fromhex(text)

    def _dtype(self, record: Any, depth: int) -> np.dtype[Any]:
        [text] = _entries(record, "dtype")
        return _dtype(text)

    def _function(self, record: Any, depth: int) -> Any:
        [name] = _entries(record, "function")
        return classes.function_of(name)

    def _scalar(self, record: Any, depth: int) -> Any:
        [inner] = _entries(record, "scalar")
        array = self._read(inner, depth + 1)
        if not isinstance(array, np.ndarray) or array.shape:
            raise ValueError("a number is none")
        return array[()]

    def _numbers(self, name: Any) -> np.ndarray:
        array = self._arrays[name]
        self._weigh(1)
        return array

    def _array(self, record: Any, depth: int) -> np.ndarray:
        name, dtype, order = _entries(record, "array", "dtype?", "order?")
        key = name, dtype, order
        if key not in self._views:
            array = self._numbers(name)
            if dtype is not None:
                array = _of_numbers(array, _dtype(dtype))
            if order not in (None, "F"):
                raise ValueError(f"an array is in the order {order!r:.40}")
            self._views[key] = array if order is None else array.T
        return self._views[key]

    def _objects(self, record: Any, depth: int) -> np.ndarray:
        inner, shape = _entries(record, "objects", "shape")
        values = self._listed(inner, depth)
        array = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):
            array[i] = value
        return array.reshape([_size(one) for one in shape])

    def _texts(self, record: Any, depth: int) -> list[str]:
        letters, lengths = (
            self._numbers(name) for name in _entries(record, "texts", "lengths")
        )
        if letters.dtype != np.uint8 or lengths.dtype != np.int64:
            raise ValueError("texts are in arrays of other types")
        if letters.ndim != 1 or lengths.ndim != 1 or (lengths < 0).any():
            raise ValueError("texts have lengths that are none")
        ends = np.cumsum(lengths).tolist()
        if (ends[-1] if ends else 0) != len(letters) or ends != sorted(ends):
            raise ValueError("texts have other lengths than their letters")
        self._weigh(len(ends))
        data = letters.tobytes()
        begins = [0, *ends[:-1]]
        return [
            data[begin:end].decode("utf-8", "surrogatepass")
            for begin, end in zip(begins, ends, strict=True)
        ]

    def _floats(self, record: Any, depth: int) -> list[float]:
        return self._typed(_entries(record, "floats"), np.float64)

    def _ints(self, record: Any, depth: int) -> list[int]:
        return self._typed(_entries(record, "ints"), np.int64)

    def _typed(self, names: list[Any], dtype: Any) -> list[Any]:
        array = self._numbers(names[0])
        if array.dtype != dtype or array.ndim != 1:
            raise ValueError("a list of numbers is in an array of another type")
        self._weigh(len(array))
        return array.tolist()

    def _csr(self, record: Any, depth: int) -> Any:
        parts, shape, kind = _entries(record, "csr", "shape", "kind")
        data, indices, indptr = (self._read(part, depth + 1) for part in parts)
        rows, columns = (_size(one) for one in shape)
        made = {"array": sp.csr_array, "matrix": sp.csr_matrix}[kind]
        if len(indptr) != rows + 1:  # an empty one would be made of the shape alone
            raise ValueError("a sparse matrix has another number of rows")
        found = made((data, indices, indptr), shape=(rows, columns))
        sparsity.check(found)
        return found

    def _frame(self, record: Any, depth: int) -> Any:
        library, columns = _entries(record, "frame", "columns")
        read = [
            (self._read(name, depth + 1), kind, self._read(column, depth + 1))
            for name, kind, column in columns
        ]
        return frame_of_columns(library, read)

    def _random_state(self, record: Any, depth: int) -> Any:
        name, state = _entries(record, "random_state", "state")
        random = np.random.RandomState()
        random.set_state((name, *self._listed(state, depth)))
        return random


_READ: dict[str, Callable[[Reader, Any, int], Any]] = {
    name: getattr(Reader, f"_{name}")
    for name in "object float array scalar objects texts floats ints tuple dict "
    "frozenset slice range bytes dtype function csr frame random_state".split()
}


def _references(record: Any) -> set[int]:
    """The objects that a record names, itself and what is in it."""
    found, pending = set(), [record]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending += one
        elif isinstance(one, dict):
            if one.keys() == {"object"} and type(one["object"]) is int:
                found.add(one["object"])
            pending += one.values()
    return found


def _entries(record: Any, *names: str) -> list[Any]:
    """The entries of a record by name, and no others; those with ? may be absent."""
    known = {name.removesuffix("?") for name in names}
    needed = {name for name in names if not name.endswith("?")}
    if not needed <= record.keys() <= known:
        raise ValueError(f"a value has the entries {sorted(record)[:5]}")
    return [record.get(name.removesuffix("?")) for name in names]


def _size(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"a length is {value!r:.40}")
    return value


def _dtype(text: Any) -> np.dtype[Any]:
    """A type of numbers, texts or dates; no records, which could hold anything."""
    if not isinstance(text, str) or len(text) > 20 or text[1:2] not in set("biufcUSMm"):
        raise ValueError(f"an array is of the type {text!r:.40}")
    return np.dtype(text)


def _of_numbers(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """What `_as_numbers` made of an array, as it was."""
    if dtype.kind in "Mm" and array.dtype == "<i8":
        return array.view(dtype)
    unit = _UNITS.get(dtype.kind)
    if unit is None or array.dtype != unit or not array.ndim:
        raise ValueError(f"an array of {array.dtype} stands for one of {dtype}")
    if array.shape[-1] * unit.itemsize != dtype.itemsize or not dtype.itemsize:
        raise ValueError(f"an array of shape {array.shape} stands for one of {dtype}")
    if dtype.kind == "U" and array.size and array.max() > 0x10FFFF:
        raise ValueError("an array of texts has letters that there are not")
    return array.reshape(-1).view(dtype).reshape(array.shape[:-1])
