"""Points in the partitions of Dask collections, and what is computed where they are.

`partitions(dX)` gives `mercer.data.partitions.Partitions` of a Dask array, data frame
or bag; machines make them themselves. What a partition is asked for is a task of the
cluster whose arguments are in the graph: where a worker is lost, the scheduler makes
its partitions and their results anew, on others. All state of a fit is with the driver,
some numbers for each point.

Tasks are waited for with an eye on the cluster. A scheduler that does not answer, or
workers that are gone or have no memory left, are an error after `PATIENCE` seconds.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import numpy as np
import scipy.sparse as sp

try:
    import dask
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph
    from distributed import Client, Future, default_client, get_worker, wait
    from distributed.protocol.pickle import dumps
except ImportError as error:
    raise ImportError(
        "Points in partitions need Dask and its scheduler: install mercer[dask], or "
        '"dask[array]" and "distributed".'
    ) from error

from mercer.data.partitions import (
    Arguments,
    Once,
    Partitions,
    Remote,
    joined,
    taken,
)
from mercer.data.points import vectors
from mercer.native import memory
from mercer.native.clock import tick

PATIENCE = 45.0  # seconds without an answer or a worker, before that is an error
LOOK = 0.2  # seconds between two looks at what is waited for
ASK = 5.0  # seconds between two questions to the scheduler
FAN_IN = 4  # sums that are added at a time
KEPT = 0.25  # of the memory of workers, for kernel values that are kept
NO_CLIENT = (
    "These points are in a Dask collection, and there is no client of a cluster to "
    "compute on them. Start one, as with Client(n_workers=4): or name yours, as "
    "fit(X, y, client=client). For points that fit into memory here, pass X.compute()."
)


class ClusterError(ConnectionError):
    """A cluster that cannot go on with what it was asked for.

    What a fit has reached by then is kept by the machine: the same call goes on from
    there, once the cluster is there again.
    """


def partitions(
    X: Any, client: Client | None = None, *, records: bool = False
) -> Partitions:
    """The points of a Dask collection, computed and held by the workers.

    Parameters
    ----------
    X : array of n rows in dense or CSR blocks; data frame, whose rows are vectors where
        all columns are numbers, else records; or bag of n points of any kind
    client : of the cluster; None for the current one
    records : whether rows of a data frame are records in any case

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from mercer.distributed import partitions
    >>> with Client(processes=False, dashboard_address=":0"):  # doctest: +SKIP
    ...     print(partitions(da.ones((6, 2), chunks=(4, 2))))
    <6 points of 2 numbers in 2 partitions>
    """
    client = _client(client)
    X = _of_whole_rows(X) if hasattr(X, "numblocks") else X
    if getattr(X, "ndim", None) not in (1, 2) and not _is_bag(X):
        raise ValueError(
            f"Points are an (n, d) Dask array, a data frame or a bag; got {X!r}."
        )
    with quiet():
        prepare = dask.delayed(_prepared, pure=True)
        parts = [prepare(part, records) for part in _delayed(X)]
        futures = client.compute(parts)
    remote = _Futures(client, futures, list(range(len(futures) + 1)))
    shapes = remote.each(_described)
    filled = [number for number, one in enumerate(shapes) if one.n]
    if not filled:
        raise ValueError(f"There are no points in the {len(shapes)} partitions of X.")
    names = [f"Partition {number}" for number in filled]
    shapes = [shapes[number] for number in filled]
    bounds = np.cumsum([0, *(one.n for one in shapes)]).tolist()
    remote = _Futures(client, [futures[number] for number in filled], bounds)
    found = _alike(remote, shapes, names)
    found.source = tuple(map(str, X.__dask_keys__()))
    if hasattr(X, "columns"):
        found.columns = [str(name) for name in X.columns]
    return found


def using(client: Client) -> AbstractContextManager[Any]:
    """While it is entered, this client is the current one."""
    if not isinstance(client, Client):
        raise TypeError(
            f"client is a distributed.Client, as Client(address); got {client!r}."
        )
    return client.as_current()


def kept(collection: Any) -> Any:
    """The same, which the workers of the current client compute now, and hold."""
    return _client(None).persist(collection)


def threads_of(client: Client) -> int:
    """How many tasks the workers run at once."""
    with using(client):
        return max(1, sum(client.nthreads().values()))


def completed(
    client: Client,
    call: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    shared: Sequence[Any] = (),
) -> Iterator[tuple[int, Any]]:
    """The number and the result of each call(*arguments, *shared), as they come."""
    found = _Futures(_client(client), [], [0])
    held = [found._load(one) for one in shared]
    tasks = found._mapped(call, [], list(arguments), held)
    left = {task: i for i, task in enumerate(tasks)}
    watch = _Watch(client)
    try:
        while left:
            watch(list(left), "FIRST_COMPLETED")
            for task in [one for one in left if one.done()]:
                yield left.pop(task), found._results([task], [task])[0]
    finally:
        for task in (*left, *held):
            task.release()


def gathered(values: Any) -> Any:
    """Targets or weights of a Dask collection as an array, in order."""
    client = _client(None)
    with quiet():
        futures = client.compute([dask.delayed(part) for part in _delayed(values)])
    remote = _Futures(client, futures, list(range(len(futures) + 1)))
    parts = [np.asarray(part) for part in remote.each(_plain)]
    filled = [part for part in parts if len(part)]
    return np.concatenate(filled or parts[:1])


def lazily(
    call: Callable[[Any], Any],
    X: Any,
    outputs: int | None = None,
    held: Partitions | None = None,
) -> Any:
    """call(points) of each partition, computed when the collection it gives is.

    Of an array, an array with its chunks of rows; of a data frame, a series or a frame
    with its index; of a bag, a bag.

    Parameters
    ----------
    call : of points in memory; gives an array, or CSR, with a row for each
    outputs : of how many arrays a call gives a tuple, each a collection then; None for
        one array, no tuple
    held : partitions that are asked too: `call` is an `Across`, and a task compares a
        partition of X with one of these. None for none
    """
    if outputs is not None or held is not None:
        return _from_tasks(call, X, outputs, held)
    machine = dask.delayed(call, pure=False)
    if _is_bag(X):
        return X.map_partitions(_listed, machine)
    if _is_frame(X):
        like = _row(call(_example(X)))
        return X.map_partitions(_indexed, machine, like[:0], meta=_meta(X, like))
    X = _of_whole_rows(X)
    like = _row(call(_example(X)))
    options = {"dtype": like.dtype, "meta": like[:0]}
    if like.ndim == 1:
        return X.map_blocks(_called, machine, like[:0], drop_axis=1, **options)
    chunks = X.chunks[0], (like.shape[1],)
    return X.map_blocks(_called, machine, like[:0], chunks=chunks, **options)


def _from_tasks(call: Any, X: Any, outputs: int | None, held: Partitions | None) -> Any:
    """`lazily` by a task for each partition, and one for each with each held one."""
    X = _rows(X)
    points = [] if held is None else _as_delayed(held)
    likes: list[Any] = [None] * (outputs or 1)
    if not _is_bag(X):
        example = _example(X)
        found = call(example) if held is None else _across_now(call, example, held)
        likes = [_row(one) for one in (found if outputs else (found,))]
    machine = dask.delayed(call, pure=False)
    answer, whole, formed = (
        dask.delayed(one, pure=False) for one in (_answer, _whole, _formed)
    )
    done: list[list[Any]] = [[] for _ in likes]
    for part in _delayed(X):
        answers = None
        if held is not None:
            answers = [answer(machine, part, *one) for one in enumerate(points)]
        found = whole(machine, part, answers)
        for number, like in enumerate(likes):
            place = None if outputs is None else number
            empty = None if like is None else like[:0]
            done[number].append(formed(part, found, place, empty))
    made = [_assembled(X, *some) for some in zip(done, likes, strict=True)]
    return made[0] if outputs is None else tuple(made)


def _as_delayed(held: Partitions) -> list[Any]:
    """Partitions as parts of a graph, of which the workers hold the results."""
    assert isinstance(held.remote, _Futures)
    here, there = (one.scheduler.address for one in (_client(None), held.remote.client))
    if here != there:
        raise ClusterError(
            f"The points of this machine are with the workers of {there}, and the "
            f"current client is that of {here}. Name theirs, as predict(X, "
            "client=client), or fit the machine again."
        )
    return [Delayed(one.key, {one.key: one}) for one in held.remote.futures]


def _across_now(call: Any, X: Any, held: Partitions) -> Any:
    """What an `Across` says of points in memory."""
    numbers = [(X, number) for number in range(len(held.names))]
    return call.whole(X, held.remote.each(_answer_of, numbers, (Once(call),)))


def _answer_of(part: Any, X: Any, number: int, call: Any) -> Any:
    return call.part(X, part, number)


def _answer(call: Any, X: Any, number: int, part: Any) -> Any:
    """What one of the held partitions says of one of X; None where that is empty."""
    X = _points_of(X)
    with memory.sharing(_share_of_memory()):
        return call.part(X, part, number) if _size(X) else None


def _whole(call: Any, X: Any, answers: list[Any] | None) -> Any:
    X = _points_of(X)
    if not _size(X):
        return None
    with memory.sharing(_share_of_memory()):
        return call(X) if answers is None else call.whole(X, answers)


def _formed(part: Any, found: Any, place: int | None, empty: Any) -> Any:
    """One of the results of a partition, as a partition of its collection."""
    found = found if found is None or place is None else found[place]
    if hasattr(part, "index") and hasattr(part, "iloc"):
        return _meta_of(part, empty if found is None else _row(found))
    if empty is None:
        return [] if found is None else _rows_of(found)
    return empty if found is None else _row(found)


def _assembled(X: Any, parts: list[Any], like: Any) -> Any:
    """A collection with the partitions of X, of which these are the values."""
    if _is_bag(X):
        return dask.bag.from_delayed(parts)
    if _is_frame(X):
        return dask.dataframe.from_delayed(
            parts, meta=_meta(X, like), divisions=X.divisions, verify_meta=False
        )
    chunks = X.chunks[0], *((one,) for one in like.shape[1:])
    return _array_of(parts, chunks, like.dtype, like[:0])


def _array_of(parts: list[Any], chunks: Any, dtype: Any, meta: Any) -> Any:
    """An array of which these are the blocks, one below another."""
    name, zeros = f"mercer-rows-{_number()}", (0,) * (len(chunks) - 1)
    keys = {(name, i, *zeros): one.key for i, one in enumerate(parts)}
    graph = HighLevelGraph.from_collections(name, keys, dependencies=parts)
    return dask.array.Array(graph, name, chunks, dtype=dtype, meta=meta)


def _points_of(part: Any) -> Any:
    """A partition as a dataset: that of a bag as a list."""
    return part if hasattr(part, "shape") else list(part)


def _size(X: Any) -> int:
    return X.shape[0] if hasattr(X, "shape") else len(X)


def _row(found: Any) -> Any:
    """Rows as an array or CSR."""
    return sp.csr_array(found) if sp.issparse(found) else np.asarray(found)


def _rows_of(found: Any) -> list[Any]:
    """One by one."""
    if sp.issparse(found):
        found = sp.csr_array(found)
        return [found[i : i + 1] for i in range(found.shape[0])]
    return list(found)


def sizes(X: Any) -> list[int]:
    """How many points each partition has, counted where that is not known."""
    chunks = getattr(X, "chunks", None)
    if chunks is not None and not np.isnan(chunks[0]).any():
        return [int(size) for size in chunks[0]]
    client = _client(None)
    with quiet():
        futures = client.compute([dask.delayed(part) for part in _delayed(_rows(X))])
    return _Futures(client, futures, list(range(len(futures) + 1))).each(_counted)


def cut(X: Any, places: Sequence[np.ndarray]) -> Any:
    """Some points of each partition, by their places there, as a collection."""
    X = _rows(X)
    take = dask.delayed(_cut, pure=True)
    parts = [take(*both) for both in zip(_delayed(X), places, strict=True)]
    if _is_bag(X):
        return dask.bag.from_delayed(parts)
    if _is_frame(X):
        return dask.dataframe.from_delayed(parts, meta=X._meta, verify_meta=False)
    chunks = tuple(len(some) for some in places), *X.chunks[1:]
    return _array_of(parts, chunks, X.dtype, X._meta)


def brought(X: Any) -> Any:
    """All points of a collection in memory here: for a few."""
    client = _client(None)
    with quiet():
        if _is_frame(X):
            futures = [client.compute(X)]
        else:
            futures = client.compute([dask.delayed(part) for part in _delayed(X)])
    remote = _Futures(client, futures, list(range(len(futures) + 1)))
    parts = remote.each(_points_of)
    return joined([part for part in parts if _size(part)] or parts[:1])


def _rows(X: Any) -> Any:
    return X if _is_bag(X) or _is_frame(X) else _of_whole_rows(X)


def _counted(part: Any) -> int:
    return _size(_points_of(part))


def _cut(part: Any, places: np.ndarray) -> Any:
    if hasattr(part, "iloc"):
        return part.iloc[places]
    return taken(_points_of(part), places)


def _of_whole_rows(X: Any) -> Any:
    return X.rechunk({1: -1}) if X.ndim == 2 and X.numblocks[1] > 1 else X


def _example(X: Any) -> Any:
    """A point as those of a data frame or an array."""
    if _is_frame(X):
        return X._meta_nonempty.iloc[:1]  # in later rows text is missing
    if X.ndim != 2:
        raise ValueError(f"Points are an (n, d) Dask array; got {X!r}.")
    zeros = np.zeros((1, X.shape[1]), X.dtype)
    return sp.csr_array(zeros) if sp.issparse(X._meta) else zeros


def _meta(X: Any, like: np.ndarray) -> Any:
    """An empty series or frame with results of this kind."""
    if sp.issparse(like):
        raise TypeError(
            "Sparse rows are no columns of a data frame. Pass the points as an array, "
            "X.to_dask_array(lengths=True)."
        )
    frame = X._meta if hasattr(X._meta, "columns") else X._meta.to_frame()
    if like.ndim == 1:
        column = frame.iloc[:0, 0]
        return type(column)(like[:0], index=column.index, name=None)
    return type(frame)(like[:0], index=frame.index[:0])


def _called(part: Any, call: Callable[[Any], Any], empty: np.ndarray) -> np.ndarray:
    return _row(call(part)) if part.shape[0] else empty


def _indexed(part: Any, call: Callable[[Any], Any], empty: np.ndarray) -> Any:
    found = _called(part, call, empty)
    return _meta_of(part, found)


def _meta_of(part: Any, found: np.ndarray) -> Any:
    frame = part if hasattr(part, "columns") else part.to_frame()
    if found.ndim == 1:
        kind = type(frame.iloc[:0, 0])
        return kind(found, index=frame.index)
    return type(frame)(found, index=frame.index)


def _listed(part: Any, call: Callable[[Any], Any]) -> list[Any]:
    points = list(part)
    return _rows_of(call(points)) if points else []


def _client(client: Client | None) -> Client:
    if client is None:
        try:
            client = default_client()
        except ValueError:
            raise ClusterError(NO_CLIENT) from None
    if client.asynchronous:
        raise ClusterError(
            "An asynchronous client cannot be waited for in fit. Use Client(address)."
        )
    return client


@contextmanager
def quiet() -> Iterator[None]:
    """Arguments belong into the graph, which is what rebuilds results: no warning."""
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "4 GB"}):
        yield


# Partitions as they come


class _Shape:
    """What a partition holds."""

    def __init__(self, part: Any):
        self.n = part.shape[0] if hasattr(part, "shape") else len(part)
        self.d = part.shape[1] if hasattr(part, "shape") else None
        self.single = getattr(part, "dtype", None) == np.float32
        self.sparse = sp.issparse(part)


def _is_bag(X: Any) -> bool:
    return type(X).__name__ == "Bag"


def _is_frame(X: Any) -> bool:
    """Whether it is a data frame, or a series of points."""
    return hasattr(X, "to_dask_array")


def _delayed(X: Any) -> list[Any]:
    """The partitions of a collection, in the order of their points."""
    if _is_bag(X):
        # A bag's own keys mean another task whenever a graph around them is optimised,
        # which must not be while the results of an earlier one are held.
        X = X.map_partitions(_as_list, _number())
    parts = X.to_delayed()
    return list(np.ravel(parts)) if isinstance(parts, np.ndarray) else list(parts)


def _as_list(part: Any, name: str) -> list[Any]:
    return list(part)


def _prepared(part: Any, records: bool) -> Any:
    """A partition as points: an array of floats, CSR, or a list."""
    if hasattr(part, "columns") and hasattr(part, "to_dict"):  # a data frame
        numeric = all(kind.kind in "biuf" for kind in map(_dtype, part.dtypes))
        if records or not numeric:
            return part.to_dict("records")
        part = part.to_numpy(dtype=_common(part.dtypes), na_value=np.nan)
    if sp.issparse(part) or (isinstance(part, np.ndarray) and part.ndim == 2):
        return np.ascontiguousarray(vectors(part)) if _dense(part) else vectors(part)
    if isinstance(part, np.ndarray) or hasattr(part, "__array__"):
        return np.asarray(part).tolist()
    return list(part)


def _dtype(kind: Any) -> np.dtype[Any]:
    return getattr(kind, "numpy_dtype", None) or (
        kind if isinstance(kind, np.dtype) else np.dtype(object)
    )


def _common(kinds: Any) -> Any:
    return np.float32 if all(kind == np.float32 for kind in kinds) else np.float64


def _dense(part: Any) -> bool:
    return isinstance(part, np.ndarray)


def _described(part: Any) -> _Shape:
    return _Shape(part)


def _plain(part: Any) -> Any:
    if hasattr(part, "to_numpy"):
        return part.to_numpy()
    return np.asarray(list(part) if not hasattr(part, "__array__") else part)


def _alike(remote: _Futures, shapes: list[_Shape], names: list[str]) -> Partitions:
    """The same in one precision and format, of one width."""
    n, widths = remote.bounds[-1], [one.d for one in shapes]
    for name, width in zip(names, widths, strict=True):
        if width != widths[0]:
            raise ValueError(
                f"{name} has {_columns(width)}, and {names[0]} {_columns(widths[0])}. "
                "Points of all partitions have the same columns."
            )
    if widths[0] is None:
        return Partitions(remote, (n,), np.dtype(object), names)
    single = all(one.single for one in shapes)
    sparse = any(one.sparse for one in shapes)
    dtype = np.dtype(np.float32 if single else np.float64)
    odd = [one.single != single or one.sparse != sparse for one in shapes]
    if any(odd):
        remote = remote.derived(_cast, [(dtype, sparse)] * len(odd))
    return Partitions(remote, (n, widths[0]), dtype, names, sparse)


def _columns(width: int | None) -> str:
    return "points that are no vectors" if width is None else f"{width} columns"


def _cast(part: Any, dtype: np.dtype[Any], sparse: bool) -> Any:
    part = sp.csr_array(part) if sparse and not sp.issparse(part) else part
    return part.astype(dtype, copy=False)


# Tasks


class _Futures(Remote):
    """Objects of the workers, by futures that the graph rebuilds."""

    def __init__(self, client: Client, futures: list[Future], bounds: list[int]):
        self.client, self.futures, self.bounds = client, futures, bounds
        self._shared: dict[int, tuple[Any, Future]] = {}

    def each(
        self,
        call: Callable[..., Any],
        arguments: Arguments | None = None,
        shared: Sequence[Any] = (),
        beside: Sequence[Remote] = (),
    ) -> list[Any]:
        tasks = self._submitted(call, arguments, shared, beside)
        made = [task for task in tasks if task is not None]
        found = iter(self._results(made, made))
        return [None if task is None else next(found) for task in tasks]

    def total(
        self,
        call: Callable[..., Any],
        arguments: Arguments | None = None,
        shared: Sequence[Any] = (),
    ) -> Any:
        level = self._submitted(call, arguments, shared)
        sums = [task for task in level if task is not None]
        if not sums:
            return None
        every = list(sums)
        while len(sums) > 1:
            sums = [
                self.client.submit(
                    _sum, *sums[i : i + FAN_IN], key=f"mercer-sum-{_number()}"
                )
                for i in range(0, len(sums), FAN_IN)
            ]
            every += sums
        return self._results(sums, every)[0]

    def derived(
        self,
        call: Callable[..., Any],
        arguments: Arguments | None = None,
        shared: Sequence[Any] = (),
        sizes: Sequence[int] | None = None,
    ) -> _Futures:
        tasks = self._submitted(call, arguments, shared)
        futures = [task for task in tasks if task is not None]
        bounds = self.bounds
        if sizes is not None:
            bounds = [int(place) for place in np.cumsum([0, *sizes])]
        made = _Futures(self.client, futures, bounds)
        made._shared = self._shared
        return made

    def zipped(
        self,
        other: Remote,
        call: Callable[..., Any],
        arguments: Arguments,
        shared: Sequence[Any] = (),
    ) -> _Futures:
        tasks = self._submitted(call, arguments, shared, [other])
        made = _Futures(self.client, [task for task in tasks if task], self.bounds)
        made._shared = self._shared
        return made

    def crossed(
        self,
        other: Remote,
        number: int,
        call: Callable[..., Any],
        arguments: tuple[Any, ...],
        shared: Sequence[Any] = (),
    ) -> list[Any]:
        assert isinstance(other, _Futures)
        n = len(self.futures)
        same = _Futures(self.client, [other.futures[number]] * n, self.bounds)
        return self.each(call, [arguments] * n, shared, [same])

    def room(self) -> float:
        found = self.client.scheduler_info(n_workers=-1)["workers"].values()
        limits = [float(worker.get("memory_limit") or 0) for worker in found]
        return KEPT * sum(limits)

    def holders(self) -> list[str]:
        found = self.client.who_has(self.futures)
        holders = (found.get(future.key, ()) for future in self.futures)
        return [str(next(iter(one), "")) for one in holders]

    def _submitted(
        self,
        call: Callable[..., Any],
        arguments: Arguments | None,
        shared: Sequence[Any],
        beside: Sequence[Remote] = (),
    ) -> list[Future | None]:
        arguments = [()] * len(self.futures) if arguments is None else arguments
        chosen = [i for i, some in enumerate(arguments) if some is not None]
        every = [one.futures for one in (self, *beside) if isinstance(one, _Futures)]
        held = [[objects[i] for i in chosen] for objects in every]
        sent = [arguments[i] for i in chosen]
        tasks = self._mapped(call, held, sent, [self._share(one) for one in shared])
        found: list[Future | None] = [None] * len(arguments)
        for i, task in zip(chosen, tasks, strict=True):
            found[i] = task
        return found

    def _mapped(
        self,
        call: Callable[..., Any],
        held: Sequence[Sequence[Future]],
        sent: Sequence[tuple[Any, ...] | None],
        shared: Sequence[Future],
    ) -> list[Future]:
        """One task for each of the arguments, in one message to the scheduler."""
        n = len(sent)
        with quiet():
            return self.client.map(
                _task,
                [call] * n,
                [len(held)] * n,
                *held,
                [_Sent(one) for one in sent],
                *([one] * n for one in shared),
                pure=False,
                key=_name(call),
            )

    def _share(self, one: Any) -> Future:
        """What all partitions are sent, once; part of the graph."""
        if isinstance(one, Once):
            return self._load(one.value)
        found = self._shared.get(id(one))
        if found is None:
            found = self._shared[id(one)] = one, self._load(one)
        return found[1]

    def _load(self, one: Any) -> Future:
        key = f"mercer-shared-{_number()}"
        with quiet():
            return self.client.submit(_loaded, dumps(one), key=key)

    def _results(self, tasks: list[Future], every: list[Future]) -> list[Any]:
        """What the tasks come to, waited for; of all that led to them nothing is left.

        That is so too where an error or Ctrl-C ends the waiting.
        """
        try:
            _Watch(self.client)(tasks)
            return self.client.gather(tasks)
        except Exception as error:
            raised = _explained(error)
            if raised is error:
                raise
            raise raised from error
        finally:
            for task in every:
                task.release()


class _Watch:
    """Waits for tasks while the cluster can make them."""

    def __init__(self, client: Client):
        self.client = client
        self.answered = self.working = self.asked = time.monotonic()

    def __call__(self, tasks: list[Future], when: str = "ALL_COMPLETED") -> None:
        while True:
            with suppress(TimeoutError), self.client.as_current():
                wait(tasks, timeout=LOOK, return_when=when)
                return
            tick()
            if any(task.status in ("error", "cancelled") for task in tasks):
                return  # which gather tells
            if time.monotonic() - self.asked >= ASK:
                self.ask()

    def ask(self) -> None:
        """Look at the scheduler and its workers."""
        now = self.asked = time.monotonic()
        if self.client.status == "closed":
            raise ClusterError(
                "The connection to the scheduler was lost. Start a new client, and fit "
                "again."
            )
        try:
            scheduler: Any = self.client.scheduler
            found = self.client.sync(
                scheduler.identity, n_workers=-1, callback_timeout=ASK
            )
            workers = list(found["workers"].values())
            self.answered = time.monotonic()
        except (OSError, TimeoutError):
            workers = None
        if workers is None:
            if now - self.answered > PATIENCE:
                raise ClusterError(
                    f"The scheduler has not answered for {PATIENCE:.0f} seconds. Look "
                    "at its process and at the network, and fit again."
                )
            return
        if any(one.get("status", "running") == "running" for one in workers):
            self.working = time.monotonic()
        elif now - self.working > PATIENCE:
            state = (
                f"all {len(workers)} workers have been without memory (paused)"
                if workers
                else "there has been no worker"
            )
            raise ClusterError(
                f"For {PATIENCE:.0f} seconds {state}. Add workers, or give each more "
                "memory or smaller partitions, and fit again."
            )


def _explained(error: BaseException) -> BaseException:
    """The error in words for the user, where it is the cluster's."""
    name = type(error).__name__
    if name == "KilledWorker":
        return ClusterError(
            "A partition was lost with its worker again and again, most likely for "
            "lack of memory. Give workers more memory, or make partitions smaller "
            f"(X.rechunk, repartition). {error}"
        )
    if name in ("FutureCancelledError", "FuturesCancelledError", "CancelledError"):
        return ClusterError(
            "The cluster has lost points or results and does not make them anew: data "
            "that was scattered is lost with its worker, partitions that find no "
            "memory end their workers again and again, and all is lost where the "
            "cluster is restarted. Load points by a graph (da.from_zarr, "
            "dd.read_parquet, from_delayed), in smaller partitions, and fit again. "
            f"{error}"
        )
    if isinstance(error, OSError) and name == "CommClosedError":
        return ClusterError(f"The connection to the cluster was lost. {error}")
    return error


class _Sent:
    """Arguments that are sent as they are, whatever Dask would see in them."""

    def __init__(self, values: tuple[Any, ...] | None):
        self.values = values


def _task(call: Callable[..., Any], held: int, *rest: Any) -> Any:
    """A call on a worker, which has a share of the memory there."""
    objects, sent, shared = rest[:held], rest[held].values, rest[held + 1 :]
    with memory.sharing(_share_of_memory()):
        return call(*objects, *sent, *shared)


def _share_of_memory() -> float:
    """Of what this machine has left, the part that a task of this worker may keep."""
    try:
        worker = get_worker()
    except ValueError:
        return 1.0
    limit = worker.memory_manager.memory_limit
    left = memory.available_memory()
    share = 1.0 if not limit or not left else min(1.0, limit / left)
    return share / max(1, worker.state.nthreads)


def _loaded(sent: bytes) -> Any:
    return pickle.loads(sent)


def _sum(*parts: Any) -> Any:
    """The sum of arrays, or of tuples of arrays."""
    if isinstance(parts[0], tuple):
        return tuple(_sum(*some) for some in zip(*parts, strict=True))
    out = parts[0] + parts[1] if len(parts) > 1 else parts[0]
    for part in parts[2:]:
        out = out + part
    return out


_counter = iter(range(2**62))


def _number() -> str:
    return f"{id(_counter):x}-{time.time_ns():x}-{next(_counter)}"


def _name(call: Callable[..., Any]) -> str:
    return f"mercer-{getattr(call, '__name__', 'call').strip('_')}"
