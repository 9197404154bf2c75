"""Sums of kernel values between points in partitions and some of them: K(X, Y) V.

In single precision each partition has its points packed once for the core, and keeps
values that take longer to compute than to read. Either is the result of a task, which
is made anew from its arguments where its holder is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.partitions import Once, Partitions, Remote, taken
from mercer.data.points import Points, count, double
from mercer.kernels.base import Kernel
from mercer.kernels.vector import Linear
from mercer.native.clock import tick
from mercer.native.sparsity import Vectors
from mercer.native.vectors import Packed, Recipe, block, middle, product
from mercer.solvers.computed_rows import SHORT
from mercer.solvers.smo import LARGEST, ValueErrors, packed_errors, value_errors

SAMPLE = (
    512  # points that tell where the middle of all is, and how many zeros they have
)
STRIP = 2**17  # kept values that are multiplied at a time, in double
SINGLE_UNIT = 2.0**-24  # half of the last place of single precision


class PartitionedValues:
    """K(X, Y) V of points in partitions with some of them, Y.

    Attributes
    ----------
    size, entry_error : of values in double, as in `ValueErrors`
    quick : whether the core computes values in the time that reading them would take
    single : whether single precision has room for the values
    """

    def __init__(self, kernel: Kernel, X: Partitions):
        self.kernel, self.X = kernel, X
        self.room = X.remote.room()
        self._narrow: _Narrowing | None = None
        self._packed: Remote | None = None
        self._unit = 1.0  # of values that are rounded once
        # Products of Linear take time linear in the numbers of X, without any values.
        linear = isinstance(kernel, Linear)
        if X.ndim == 2 and not linear:
            sample = X.fetched(np.arange(0, len(X), -(-len(X) // SAMPLE)))
            self._narrow = _Narrowing.of(kernel, sample)
        if self._narrow is not None:
            self._packed = self._held(sample)
        errors = self._errors()
        self.size = max(one.largest for one in errors)
        self.entry_error = max(one.entry_error for one in errors)
        self.compiled = all(one.compiled for one in errors)
        if not self.size < np.inf:
            raise ValueError(
                f"{kernel} is not finite on these points: the largest k(x, x) is "
                f"{self.size}. Scale the data, or choose a kernel that grows less."
            )
        self.single = self.size < LARGEST
        # Of long points kernel values take longer to compute than to read.
        self.quick = self.compiled and max(X.shape[1:], default=0) <= SHORT
        if self.quick or linear:
            self.room = 0.0
        if self._narrow is not None:
            self._unit = self._typical_error(self._narrow, sample)
        self._blocks: list[Remote] = []  # of float32 kernel values
        self._columns: list[np.ndarray] = []  # whose they are
        self._known = np.zeros(len(X), dtype=bool)
        self._all_kept = True

    def _held(self, sample: Vectors) -> Remote | None:
        """The points packed in single precision, where there is room for that."""
        wide = 6.0 * sample.shape[1]  # bytes of a point, and what packing adds
        if sp.issparse(sample):
            wide = 12.0 * sample.nnz / count(sample)
        if wide * len(self.X) > self.room / 2:
            return None
        self.room -= wide * len(self.X)
        return self.X.remote.derived(_PackedPart, shared=(self._narrow,))

    def _errors(self) -> list[ValueErrors]:
        if self._packed is not None:
            found = self._packed.each(_errors_packed, shared=(self.kernel,))
            if all(one.largest < LARGEST for one in found):
                return found
        return self.X.remote.each(_errors, shared=(self.kernel,))

    def _typical_error(self, narrow: _Narrowing, sample: Vectors) -> float:
        """Of a kept value, in units of 2⁻²⁴ times the largest: what to expect.

        Errors of sums go with the root of the number of terms (record 0011): this is no
        less than what the core expects of its rows.
        """
        filled = sample.nnz if sp.issparse(sample) else np.count_nonzero(sample)
        terms = float(sample.shape[1])
        if 3.0 * filled < terms * count(sample) and narrow.origin is None:
            terms = filled / count(sample)
        root = np.sqrt(terms)
        share = (root + 4) / (sample.shape[1] + 4)
        return float(4 + root + self.entry_error * share)

    def packed(self, Y: Points) -> Points | Packed:
        """Points in memory as `values` reads them again and again."""
        return Y if self._narrow is None else self._narrow.packed(Y)

    def values(self, Y: Points, Z: Points | Packed, out: np.ndarray) -> None:
        """K(Y, Z) among points in memory, in single precision, Z as from `packed`."""
        if self._narrow is None:
            out[:] = self.kernel(double(Y), double(Z))
        else:
            block(self._narrow.recipe, self._narrow.packed(Y), Z, out=out)

    def multiplied(self, Y: Points, some: np.ndarray, V: np.ndarray) -> np.ndarray:
        """K(Y, Y[some]) V of points in memory, of a compiled kernel, in single."""
        if self._narrow is None:
            return _narrow_product(Y, self.kernel, (taken(Y, some), V))
        Z = self._narrow.packed(taken(Y, some))
        return product(self._narrow.recipe, self._narrow.packed(Y), Z, V)

    def exactly(
        self, Y: Points, V: np.ndarray, at: np.ndarray | None = None
    ) -> np.ndarray:
        """In double precision.

        Parameters
        ----------
        at : places of X in ascending order; None for all
        """
        if not len(V):
            return np.zeros(len(self.X) if at is None else len(at))
        tick("products with kernel values")
        shared = self.kernel, Once((Y, V))
        if at is None:
            return np.concatenate(self.X.remote.each(_product, shared=shared))
        found = self.X.remote.each(_product_at, self.X.remote.split(at), shared)
        return np.concatenate([one for one in found if one is not None])

    def error(self, V: np.ndarray) -> float | None:
        """What to expect `added` to be off by at a point, after all that was added up.

        None where not all values were kept: sums of others are in single precision too.

        Parameters
        ----------
        V : what it has come to
        """
        if not self._all_kept:
            return None
        return SINGLE_UNIT * self._unit * self.size * float(np.linalg.norm(V))

    def added(
        self, index: np.ndarray, V: np.ndarray, points: Callable[[np.ndarray], Points]
    ) -> np.ndarray:
        """In single precision, where the kernel is compiled or values are kept.

        Parameters
        ----------
        index : the places of Y
        points : gives the points of some places
        """
        out = np.zeros(len(self.X))
        new = index[~self._known[index]]
        if len(new) and 4.0 * len(new) * len(self.X) <= self.room:
            self._keep(new, points(new))
        kept = self._known[index]
        if not kept.all():
            self._all_kept = False
            out += self._computed(points(index[~kept]), V[~kept])
        every = np.zeros(len(self.X))
        every[index[kept]] = V[kept]
        used = [i for i, own in enumerate(self._columns) if every[own].any()]
        if used:
            tick("products with kernel values")
            parts = tuple(every[self._columns[i]] for i in used)
            blocks = [self._blocks[i] for i in used]
            arguments = [(parts,)] * len(self.X.names)
            found = blocks[0].each(_combined, arguments, beside=blocks[1:])
            out += np.concatenate(found)
        return out

    def _computed(self, Y: Points, V: np.ndarray) -> np.ndarray:
        """K(X, Y) V of values that nobody keeps."""
        tick("products with kernel values")
        if self._narrow is not None:
            shared = self._narrow, Once((self._narrow(Y), V))
            found = self._holder().each(_packed_product, shared=shared)
        else:
            call = _narrow_product if self.compiled else _product
            found = self.X.remote.each(call, shared=(self.kernel, Once((Y, V))))
        return np.concatenate(found)

    def _holder(self) -> Remote:
        return self.X.remote if self._packed is None else self._packed

    def _keep(self, index: np.ndarray, Y: Points) -> None:
        self.room -= 4.0 * len(index) * len(self.X)
        if self._narrow is not None:
            shared = self._narrow, Once(self._narrow(Y))
            made = self._holder().derived(_packed_values, shared=shared)
        else:
            made = self.X.remote.derived(_values, shared=(self.kernel, Once(Y)))
        self._blocks.append(made)
        self._columns.append(index)
        self._known[index] = True


class _Narrowing:
    """Points to single precision: they are moved to the middle first, unseen by k.

    Parameters
    ----------
    recipe : of the kernel
    origin : that is subtracted; None for nothing
    """

    def __init__(self, recipe: Recipe, origin: np.ndarray | None):
        self.recipe, self.origin = recipe, origin

    @classmethod
    def of(cls, kernel: Kernel, sample: Vectors) -> _Narrowing | None:
        """That of points like these; None where the core has no values of k."""
        recipe = kernel.native(sample)
        if recipe is None:
            return None
        moves = recipe.part in ("square", "absolute") and not sp.issparse(sample)
        return cls(recipe, middle(sample) if moves else None)

    def __call__(self, X: Vectors) -> Vectors:
        if self.origin is not None:
            X = X - self.origin.astype(X.dtype)
        with np.errstate(over="ignore"):  # infinite in single precision: `single` tells
            return X.astype(np.float32, copy=False)

    def packed(self, X: Vectors) -> Packed:
        return Packed(self(X), only_core=True)


class _PackedPart:
    """The points of a partition in single precision, packed for the core.

    What travels are the points, of which there is one copy with those who hold both.
    """

    def __init__(self, part: Vectors, narrow: _Narrowing):
        self.part, self.narrow = part, narrow
        self.points = narrow.packed(part)

    def __reduce__(self) -> Any:
        return type(self), (self.part, self.narrow)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.points.nbytes


def _packed(part: Vectors | _PackedPart, narrow: _Narrowing) -> Packed:
    return part.points if isinstance(part, _PackedPart) else narrow.packed(part)


def _errors(part: Points, kernel: Kernel) -> ValueErrors:
    return value_errors(kernel, part)


def _errors_packed(part: _PackedPart, kernel: Kernel) -> ValueErrors:
    kernel.native(part.part)  # refuses points that are none of this kernel
    return packed_errors(part.narrow.recipe, part.points)


def _product(
    part: Points, kernel: Kernel, sent: tuple[Points, np.ndarray]
) -> np.ndarray:
    """K(part, Y) V in double precision."""
    Y, V = sent
    return kernel.matmul(double(part), double(Y), V)


def _product_at(
    part: Points, places: np.ndarray, kernel: Kernel, sent: tuple[Points, np.ndarray]
) -> np.ndarray:
    return _product(taken(part, places), kernel, sent)


def _narrow_product(
    part: Vectors, kernel: Kernel, sent: tuple[Vectors, np.ndarray]
) -> np.ndarray:
    Y, V = sent
    return kernel.matmul(part.astype(np.float32), Y.astype(np.float32), V)


def _packed_product(
    part: Vectors | _PackedPart, narrow: _Narrowing, sent: tuple[Vectors, np.ndarray]
) -> np.ndarray:
    Y, V = sent
    return product(narrow.recipe, _packed(part, narrow), Packed(Y, only_core=True), V)


def _packed_values(
    part: Vectors | _PackedPart, narrow: _Narrowing, Y: Vectors
) -> np.ndarray:
    """K(Y, part) in single precision: few long rows are computed sooner than many."""
    return block(narrow.recipe, Packed(Y, only_core=True), _packed(part, narrow))


def _values(part: Points, kernel: Kernel, Y: Points) -> np.ndarray:
    values = np.asarray(kernel(double(part), double(Y)), dtype=np.float32)
    return np.ascontiguousarray(values.T)


def _combined(*sent: Any) -> np.ndarray:
    """Σ v block of the blocks of kernel values of a partition, summed in double."""
    *blocks, parts = sent
    out = np.zeros(blocks[0].shape[1])
    step = max(1, STRIP // len(out))
    # One piece of memory for all: workers of Dask return it to the system at each turn.
    wide = np.empty((step, len(out)))
    for values, v in zip(blocks, parts, strict=True):
        for begin in range(0, len(v), step):
            some = v[begin : begin + step]
            if some.any():
                strip = wide[: len(some)]
                strip[:] = values[begin : begin + step]
                out += some @ strip
    return out
