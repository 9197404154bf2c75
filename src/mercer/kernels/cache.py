"""Kernel values that are kept from one call to the next, where that is asked for.

Within `gram_cache` the values of slow kernels are kept for each pair of points, by the
values of the points. So the fits of a plain GridSearchCV share them: the matrix of a
fold is made of values that other folds, or fits at another C, have computed. Kernels on
vectors that the core computes, and those of explicit features, are not kept: that takes
as long as computing them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock
from typing import Any

import numpy as np

from mercer.data.matching import keys_of
from mercer.data.points import Points, as_points, count, take

_inside: ContextVar[bool] = ContextVar("mercer_cache", default=False)
Compute = Callable[[Points, Points | None], np.ndarray]


@contextmanager
def gram_cache(mb: float = 1000.0) -> Iterator[ValueCache]:
    """Within, values of slow kernels are kept, in so many megabytes at most.

    For all threads of this process. Processes that scikit-learn starts (n_jobs) have
    none unless each calls `set_gram_cache`; share it by threads, with
    `joblib.parallel_backend("threading")`.

    Parameters
    ----------
    mb : megabytes; the kernels that were used last stay

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from mercer import SVC, Subsequence, gram_cache
    >>> texts, y = ["aba", "abab", "bab", "cdc", "dcd", "cdcd"], [0, 0, 0, 1, 1, 1]
    >>> search = GridSearchCV(SVC(kernel=Subsequence(2)), {"C": [1, 10]}, cv=3)
    >>> with gram_cache(100) as cache:
    ...     fitted = search.fit(texts, y)
    >>> cache.computed <= 36  # of 6 texts with each other
    True
    """
    before = _State.cache
    cache = set_gram_cache(mb)
    assert cache is not None
    try:
        yield cache
    finally:
        _State.cache = before


def set_gram_cache(mb: float | None) -> ValueCache | None:
    """Keep values of slow kernels from now on, as within `gram_cache`; None ends it.

    >>> from mercer import set_gram_cache
    >>> cache = set_gram_cache(100)
    >>> set_gram_cache(None) is None
    True
    """
    if mb is not None and not mb > 0:
        raise ValueError(f"A cache needs mb > 0, megabytes, or None; got mb={mb!r}.")
    _State.cache = None if mb is None else ValueCache(2.0**20 * mb)
    return _State.cache


class _State:
    """The cache in use, of the whole process; None for none."""

    cache: ValueCache | None = None


class ValueCache:
    """Values of slow kernels by kernel and pair of points.

    Parameters
    ----------
    limit : bytes

    Attributes
    ----------
    computed : values that were computed
    found : values that were there
    """

    def __init__(self, limit: float):
        self.limit = limit
        self.computed = self.found = 0
        self._tables: list[_Table] = []  # the one used last at the end
        self._lock = RLock()

    @property
    def bytes(self) -> int:
        """That the values take."""
        return sum(table.values.nbytes for table in self._tables)

    def matrix(self, kernel: Any, X: Points, Y: Points, compute: Compute) -> np.ndarray:
        """k(X, Y), of which only values that are not known yet are computed."""
        with self._lock:
            table = self._table(kernel)
            keys, others = keys_of(X), None if Y is X else keys_of(Y)
            if not self._make_room(table, keys, others):
                return compute(X, None if Y is X else Y)
            rows = table.places(keys)
            columns = rows if others is None else table.places(others)
            self._complete(table, rows, columns, X, Y, compute)
            return table.values[np.ix_(rows, columns)].astype(table.dtype, copy=False)

    def _table(self, kernel: Any) -> _Table:
        for at, table in enumerate(self._tables):
            if type(table.kernel) is type(kernel) and table.kernel == kernel:
                self._tables.append(self._tables.pop(at))
                return self._tables[-1]
        self._tables.append(_Table(kernel.owned()))
        return self._tables[-1]

    def _make_room(
        self, table: _Table, keys: list[Hashable], others: list[Hashable] | None
    ) -> bool:
        """Whether the points fit; tables that were not used for long give way."""
        new = {key for key in (*keys, *(others or ())) if key not in table.place}
        size = len(table.place) + len(new)
        need = 8.0 * size**2
        if need > self.limit:
            return False
        while self.bytes - table.values.nbytes + need > self.limit:
            self._tables.pop(0)
        table.grow(size, self.limit - (self.bytes - table.values.nbytes))
        return True

    def _complete(
        self,
        table: _Table,
        rows: np.ndarray,
        columns: np.ndarray,
        X: Points,
        Y: Points,
        compute: Compute,
    ) -> None:
        """Compute what is missing, in few blocks that have little else in them."""
        missing = np.isnan(table.values[np.ix_(rows, columns)])
        self.found += int(missing.size - missing.sum())
        own = Y is X
        # Of equal points one will do.
        rows, first = np.unique(rows, return_index=True)
        X = take(X, first)
        if own:
            columns, Y = rows, X
        else:
            columns, first = np.unique(columns, return_index=True)
            Y = take(Y, first)
        missing = np.isnan(table.values[np.ix_(rows, columns)])
        if missing.all() and own:
            self._put(table, rows, rows, compute(X, None))
            return
        while missing.any():
            counts = missing.sum(axis=1)
            # Of a new point all is missing, of known ones only what is with it.
            chosen = np.flatnonzero(2 * counts >= counts.max())
            wanted = np.flatnonzero(missing[chosen].any(axis=0))
            block = compute(take(X, chosen), take(Y, wanted))
            self._put(table, rows[chosen], columns[wanted], block)
            missing = np.isnan(table.values[np.ix_(rows, columns)])

    def _put(
        self, table: _Table, rows: np.ndarray, columns: np.ndarray, block: np.ndarray
    ) -> None:
        self.computed += block.size
        table.dtype = block.dtype
        # What is not finite is refused by whoever asked, and would be asked for again.
        block = np.where(np.isnan(block), np.inf, block)
        table.values[np.ix_(rows, columns)] = block
        table.values[np.ix_(columns, rows)] = block.T


class _Table:
    """Values of one kernel on the points that it has met; NaN where none is known."""

    def __init__(self, kernel: Any):
        self.kernel = kernel
        self.place: dict[Hashable, int] = {}
        self.values = np.empty((0, 0))
        self.dtype: Any = np.dtype(float)

    def places(self, keys: list[Hashable]) -> np.ndarray:
        """Where these points are; new ones come at the end."""
        place = self.place
        return np.array([place.setdefault(key, len(place)) for key in keys], dtype=int)

    def grow(self, size: int, limit: float) -> None:
        """Room for so many points, and for some more within the limit."""
        n = len(self.values)
        if size <= n:
            return
        most = max(size, min(int(1.5 * n), int((limit / 8) ** 0.5)))
        values = np.full((most, most), np.nan)
        values[:n, :n] = self.values
        self.values = values


def through_cache(
    kernel: Any, X: Points, Y: Points | None, compute: Compute
) -> np.ndarray:
    """k(X, Y) by the cache in use, if there is one and the kernel is worth keeping."""
    cache = _State.cache
    if cache is None or _inside.get() or not kernel._is_slow:
        return compute(X, Y)
    X = as_points(X)
    other = X if Y is None or Y is X else as_points(Y)
    if not (count(X) and count(other)) or kernel.native(X) is not None:
        return compute(X, Y)
    token = _inside.set(True)
    try:
        return cache.matrix(kernel, X, other, compute)
    finally:
        _inside.reset(token)
