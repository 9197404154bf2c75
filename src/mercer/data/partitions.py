"""Points in partitions that other processes hold: what is computed travels to them.

`Partitions` are `Blocks` whose rows are elsewhere. Nothing here knows who holds them:
a library of distributed collections has a module that opens them (`OPENERS`), loaded
when the first collection comes, and what it gives fills in `Partitions`.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from mercer.data.blocks import TAKEN_MB, Blocks
from mercer.native.memory import block_mb
from mercer.native.sorting import distinct

# The library whose collections are opened, and the module that opens them.
OPENERS = {"dask": "mercer.distributed", "distributed": "mercer.distributed"}

Arguments = Sequence[tuple[Any, ...] | None]  # of each partition; None for no call


def is_collection(X: Any) -> bool:
    """Whether X is a collection of a library that computes elsewhere."""
    return _package(X) in OPENERS


def _package(X: Any) -> str:
    return type(X).__module__.partition(".")[0]


def _opener(X: Any) -> Any:
    if _package(X) not in OPENERS:
        raise TypeError(
            f"client is a distributed.Client, as Client(address); got {X!r}."
        )
    return importlib.import_module(OPENERS[_package(X)])


def as_partitions(X: Any, records: bool = False) -> Partitions:
    """A distributed collection as points in partitions.

    Parameters
    ----------
    records : whether rows of a data frame are read by the names of its columns
    """
    return _opener(X).partitions(X, records=records)


def in_memory(values: Any) -> Any:
    """Targets or weights: those of a distributed collection as an array, in order."""
    return _opener(values).gathered(values) if is_collection(values) else values


def lazily(
    call: Callable[[Any], Any],
    X: Any,
    outputs: int | None = None,
    held: Partitions | None = None,
) -> Any:
    """call(points) of each partition of a collection, when its result is asked for.

    Parameters
    ----------
    outputs : of how many arrays a call gives a tuple; None for one array, no tuple
    held : partitions that the call needs as well, an `Across`; None for none
    """
    return _opener(X).lazily(call, X, outputs, held)


def computing_on(X: Any, client: Any) -> AbstractContextManager[Any]:
    """While it is entered, collections are computed by this client; None for any.

    Parameters
    ----------
    X : the points, of whose library the client is
    """
    if client is None:
        return nullcontext()
    if X is not None and not is_collection(X):
        raise TypeError(
            f"client={client!r} computes the points of a distributed collection; these "
            f"are a {type(X).__name__}. Leave it out, or pass a Dask array, data frame "
            "or bag."
        )
    return _opener(client).using(client)


def kept(collection: Any) -> Any:
    """The same, computed now by the current client, whose workers hold it."""
    return _opener(collection).kept(collection)


def threads_of(client: Any) -> int:
    """How many tasks the workers of a client run at once."""
    return _opener(client).threads_of(client)


def completed(
    client: Any,
    call: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    shared: Sequence[Any] = (),
) -> Iterator[tuple[int, Any]]:
    """The number and the result of each call(*arguments, *shared), as they come.

    They are tasks of the client's workers, which are sent what is shared once.
    """
    return _opener(client).completed(client, call, arguments, shared)


class Slices:
    """A distributed collection of which some points, by their places, are one too.

    Attributes
    ----------
    collection : all of it
    shape : (n,)
    """

    def __init__(self, collection: Any):
        self.collection = collection
        sizes = _opener(collection).sizes(collection)
        self._bounds = np.cumsum([0, *sizes])
        self.shape = (int(self._bounds[-1]),)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, places: Any) -> Any:
        """Some of the points, in ascending order of their places, as a collection."""
        places = np.arange(len(self))[places]
        cuts = np.searchsorted(places, self._bounds)
        split = [
            places[low:high] - begin
            for (low, high), begin in zip(pairwise(cuts), self._bounds, strict=False)
        ]
        return _opener(self.collection).cut(self.collection, split)

    def some(self, n: int) -> Any:
        """About n of the points, evenly from first to last, in memory here."""
        chosen = np.linspace(0, len(self) - 1, min(n, len(self))).astype(np.intp)
        part = self[distinct(chosen)]
        return _opener(part).brought(part)

    @property
    def origin(self) -> str:
        """What tells the collection from others: the keys of its graph."""
        return repr(self.collection.__dask_keys__())


class Across(Protocol):
    """A call of points that is made of what partitions elsewhere say of them."""

    def __call__(self, X: Any) -> Any:
        """What is said of points that are here."""
        ...

    def part(self, X: Any, part: Any, number: int) -> Any:
        """What the points of one partition, that of this number, say of X."""
        ...

    def whole(self, X: Any, answers: Sequence[Any]) -> Any:
        """What is said of X, by what all partitions said."""
        ...


class Once(NamedTuple):
    """A shared argument of one call, which is not kept for others."""

    value: Any


class Remote(ABC):
    """An object for each partition, held where the partition is.

    What is called must be a function that other processes can import. `shared`
    arguments are sent once to each of these, and are to stay as they are.

    Attributes
    ----------
    bounds : where the points of each partition begin, and n
    """

    bounds: list[int]

    @abstractmethod
    def each(
        self,
        call: Callable[..., Any],
        arguments: Arguments | None = None,
        shared: Sequence[Any] = (),
        beside: Sequence[Remote] = (),
    ) -> list[Any]:
        """call(object, *arguments, *shared) of each partition; None where none is.

        Parameters
        ----------
        beside : others whose objects of the same partition come after the first
        """

    @abstractmethod
    def total(
        self,
        call: Callable[..., Any],
        arguments: Arguments | None = None,
        shared: Sequence[Any] = (),
    ) -> Any:
        """The sum of the arrays that `each` gives, added up in a tree of fixed order.

        None where there is no call.
        """

    @abstractmethod
    def derived(
        self,
        call: Callable[..., Any],
        arguments: Arguments | None = None,
        shared: Sequence[Any] = (),
        sizes: Sequence[int] | None = None,
    ) -> Remote:
        """The results of `each` as objects that stay where they are.

        They are computed anew where their holder is lost.

        Parameters
        ----------
        sizes : how many points each of them has; None for as many as before
        """

    @abstractmethod
    def zipped(
        self,
        other: Remote,
        call: Callable[..., Any],
        arguments: Arguments,
        shared: Sequence[Any] = (),
    ) -> Remote:
        """call(object, that of the other, *arguments, *shared), staying there."""

    @abstractmethod
    def crossed(
        self,
        other: Remote,
        number: int,
        call: Callable[..., Any],
        arguments: tuple[Any, ...],
        shared: Sequence[Any] = (),
    ) -> list[Any]:
        """call(object, that of the other's partition of this number, ...) of each."""

    def room(self) -> float:
        """Bytes that its holders may keep beside these objects; 0 if not known."""
        return 0.0

    def holders(self) -> list[str]:
        """Who holds each object; "" where that is not known."""
        return [""] * (len(self.bounds) - 1)

    def slices(self, *arrays: Any) -> list[tuple[Any, ...]]:
        """The rows of n-row arrays that belong to each partition; None stays None."""
        return [
            tuple(None if array is None else array[begin:end] for array in arrays)
            for begin, end in pairwise(self.bounds)
        ]

    def split(self, index: np.ndarray, *arrays: np.ndarray) -> Arguments:
        """The places within each partition, and the rows of arrays beside the index.

        None for partitions that have none of these places.
        """
        owner = np.searchsorted(self.bounds, index, "right") - 1
        order = np.argsort(owner, kind="stable")
        cuts = np.searchsorted(owner[order], np.arange(len(self.bounds)))
        found: list[tuple[Any, ...] | None] = []
        for number, (low, high) in enumerate(pairwise(cuts.tolist())):
            some = order[low:high]
            places = index[some] - self.bounds[number]
            rows = (array[some] for array in arrays)
            found.append((places, *rows) if len(some) else None)
        return found


class Question(Exception):
    """What partitions are asked that are not here: see `Awaited`."""

    def __init__(
        self,
        call: Callable[..., Any],
        arguments: Arguments | None,
        shared: Sequence[Any],
    ):
        super().__init__("These partitions are with others.")
        self.call, self.arguments, self.shared = call, arguments, shared

    def answered(self, part: Any, number: int) -> Any:
        """What the partition of this number answers; None where it is not asked."""
        own = () if self.arguments is None else self.arguments[number]
        if own is None:
            return None
        shared = (one.value if isinstance(one, Once) else one for one in self.shared)
        return self.call(part, *own, *shared)


class Awaited(Remote):
    """Objects that are elsewhere: what `each` is asked is raised, or answered already.

    A function that asks partitions once is so divided into three: up to its question,
    the answer of each partition, and the rest of it.

    Parameters
    ----------
    answers : of each object; None to raise the `Question`
    """

    def __init__(self, bounds: list[int], answers: Sequence[Any] | None = None):
        self.bounds, self.answers = bounds, answers

    def each(
        self,
        call: Callable[..., Any],
        arguments: Arguments | None = None,
        shared: Sequence[Any] = (),
        beside: Sequence[Remote] = (),
    ) -> list[Any]:
        if self.answers is None:
            raise Question(call, arguments, shared)
        return list(self.answers)

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise TypeError("These partitions are elsewhere: ask by `each`, once.")

    total = derived = zipped = crossed = _refused


class Partitions(Blocks):
    """n points in partitions elsewhere: vectors, or objects of any kind.

    Parameters
    ----------
    remote : the points of each partition, none of them empty
    shape : (n, d) of vectors, (n,) of other points
    dtype : float32 or float64 of vectors, object of others
    names : what each partition is called, for a message
    sparse : whether vectors are rows of CSR
    """

    def __init__(
        self,
        remote: Remote,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        names: Sequence[str],
        sparse: bool = False,
    ):
        self.remote, self.names, self.sparse = remote, list(names), sparse
        self.columns: list[str] | None = None  # of a data frame
        self.source: Any = id(remote)  # what tells the collection from others
        self.shape = shape  # type: ignore[assignment]
        self.dtype = dtype
        self.ndim = len(shape)

    def _bounds(self) -> list[int]:
        return self.remote.bounds

    def _place(self, number: int) -> str:
        return self.names[number]

    def origin(self) -> tuple[Any, ...]:
        return (self.shape, self.source)

    def _run(self, begin: int, end: int) -> Any:
        return self[np.arange(begin, end)]

    def __getitem__(self, index: Any) -> Any:
        """Some of the points, brought here: not more than find room for a block."""
        places = np.arange(len(self))[index]
        places = np.atleast_1d(places)
        if not self._is_few(len(places)):
            raise TypeError(
                f"{len(places):,} of {self!r} are not brought to one machine. A "
                "support vector machine on any kernel, or a machine on Nystrom(kernel, "
                "size) or Linear(), computes where they are."
            )
        return self.fetched(places)

    def fetched(self, places: np.ndarray) -> Any:
        """The points of these places, in this order, in memory here."""
        if not len(places):
            kind = np.empty((0, *self.shape[1:]), self.dtype)
            return kind if self.ndim == 2 else []
        parts = [
            one
            for one in self.remote.each(taken, self.remote.split(places))
            if one is not None
        ]
        owner = np.searchsorted(self.remote.bounds, places, "right") - 1
        back = np.argsort(np.argsort(owner, kind="stable"), kind="stable")
        return taken(joined(parts), back)

    def _is_few(self, n: int) -> bool:
        wide = max([1, *self.shape[1:]])
        return 8.0 * n * wide <= block_mb(TAKEN_MB) * 2**20

    def take(self, index: Any) -> Any:
        """Some of the points: here, where they are few, else where they are.

        Those that stay are in the order of their places.
        """
        places = np.atleast_1d(np.arange(len(self))[index])
        if self._is_few(len(places)):
            return self.fetched(places)
        if not np.all(np.diff(places) > 0):
            raise ValueError(
                "Points in partitions are taken in their order, once each."
            )
        split = self.remote.split(places)
        sizes = [len(one[0]) for one in split if one is not None]
        remote = self.remote.derived(taken, split, sizes=sizes)
        names = [n for n, one in zip(self.names, split, strict=True) if one is not None]
        shape = len(places), *self.shape[1:]
        return Partitions(remote, shape, self.dtype, names, self.sparse)

    def double(self) -> Partitions:
        if self.dtype != np.float32:
            return self
        wide = self.remote.derived(_doubled)
        return Partitions(wide, self.shape, np.dtype(float), self.names, self.sparse)

    def mapped(self, call: Callable[..., Any], *arguments: Any) -> Partitions:
        """Other points that a call makes of those of each partition, one of each."""
        remote = self.remote.derived(call, [arguments] * len(self.names))
        first = remote.each(_kind, [()] + [None] * (len(self.names) - 1))[0]
        wide, dtype, sparse = first
        return Partitions(remote, (len(self), *wide), dtype, self.names, sparse)

    def check(self, missing: bool = False) -> None:
        if self.ndim != 2:
            return
        shared = [(missing,)] * len(self.names)
        for number, found in enumerate(self.remote.each(_first_odd, shared)):
            if found is not None:
                i, j, value = found
                raise ValueError(
                    f"{self.names[number]} has {value} in column {j} of its row {i} "
                    f"(point {self.remote.bounds[number] + i}). Points are finite "
                    "numbers: fill in what is missing, or leave the row out."
                )

    def each(
        self, call: Callable[..., Any], *rows: Any, shared: Sequence[Any] = ()
    ) -> list[Any]:
        return self.remote.each(call, self.remote.slices(*rows), shared)

    def total(
        self, call: Callable[..., Any], *rows: Any, shared: Sequence[Any] = ()
    ) -> Any:
        """The sum of what `each` gives, added up in a tree."""
        return self.remote.total(call, self.remote.slices(*rows), shared)

    def awaited(self, answers: Sequence[Any] | None = None) -> Partitions:
        """The same without their points, which can be sent: `Awaited`."""
        remote = Awaited(self.remote.bounds, answers)
        return Partitions(remote, self.shape, self.dtype, self.names, self.sparse)

    def __reduce__(self) -> Any:
        if isinstance(self.remote, Awaited):
            made = self.remote, self.shape, self.dtype, self.names, self.sparse
            return Partitions, made
        raise TypeError(
            f"{self!r} are with the workers of a cluster, and neither saved nor sent "
            "with a machine. To save it, fit it on points in memory."
        )

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"{self!r} are not brought to one machine, one by one.")

    def __array__(self, *args: Any, **options: Any) -> np.ndarray:
        raise TypeError(f"{self!r} are not brought to one machine.")

    def __repr__(self) -> str:
        what = f" of {self.shape[1]} numbers" if self.ndim == 2 else ""
        return f"<{len(self):,} points{what} in {len(self.names)} partitions>"


def taken(part: Any, places: np.ndarray) -> Any:
    """Some points of an array, CSR or list."""
    if isinstance(part, np.ndarray) or sp.issparse(part):
        return part[places]
    return [part[i] for i in places]


def joined(parts: Sequence[Any]) -> Any:
    """The points of several partitions one after another."""
    if len(parts) == 1:
        return parts[0]
    if any(sp.issparse(part) for part in parts):
        return sp.vstack(parts, format="csr")
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [point for part in parts for point in part]


def _kind(part: Any) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    """The width of points, () of other than vectors, their dtype, if they are CSR."""
    if not hasattr(part, "shape"):
        return (), np.dtype(object), False
    single = part.dtype == np.float32
    dtype = np.dtype(np.float32 if single else np.float64)
    return part.shape[1:], dtype, sp.issparse(part)


def _doubled(part: Any) -> Any:
    return part.astype(np.float64)


def _first_odd(part: Any, missing: bool) -> tuple[int, int, float] | None:
    """Row, column and value of the first number that is not finite."""
    entries = part.data if sp.issparse(part) else part
    good = np.isfinite(entries)
    if missing:
        good |= np.isnan(entries)
    if good.all():
        return None
    if sp.issparse(part):
        at = int(np.flatnonzero(~good)[0])
        row = int(np.searchsorted(part.indptr, at, "right")) - 1
        return row, int(part.indices[at]), float(entries[at])
    i, j = np.argwhere(~good)[0].tolist()
    return i, j, float(part[i, j])
