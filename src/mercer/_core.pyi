"""
The native core: blocks of Gram matrices. Called by mercer.vectors only.
"""

from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


class Recipe:
    def __init__(self, part: str, finish: str, scale: float, offset: float, degree: int, cumulative: bool) -> None: ...

class PointsFloat:
    """Points packed for the core."""

    @property
    def shape(self) -> tuple: ...

    @property
    def nbytes(self) -> int: ...

@overload
def pack(X: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> PointsFloat: ...

@overload
def pack(X: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> PointsDouble: ...

@overload
def pack_csr(start: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], column: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], value: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], d: int) -> PointsFloat: ...

@overload
def pack_csr(start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], column: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], value: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], d: int) -> PointsFloat: ...

@overload
def pack_csr(start: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], column: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], value: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], d: int) -> PointsDouble: ...

@overload
def pack_csr(start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], column: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], value: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], d: int) -> PointsDouble: ...

@overload
def block(recipe: Recipe, X: PointsFloat, Y: PointsFloat | None, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def block(recipe: Recipe, X: PointsDouble, Y: PointsDouble | None, out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def complete(recipe: Recipe, X: PointsFloat, Y: PointsFloat | None, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def complete(recipe: Recipe, X: PointsDouble, Y: PointsDouble | None, out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def product(recipe: Recipe, X: PointsFloat, Y: PointsFloat, v: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def product(recipe: Recipe, X: PointsDouble, Y: PointsDouble, v: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def diag(recipe: Recipe, X: PointsFloat, out: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def diag(recipe: Recipe, X: PointsDouble, out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def rows(recipe: Recipe, X: PointsFloat, which: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def rows(recipe: Recipe, X: PointsDouble, which: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def direct(recipe: Recipe, X: PointsFloat, Y: PointsFloat) -> bool: ...

@overload
def direct(recipe: Recipe, X: PointsDouble, Y: PointsDouble) -> bool: ...

@overload
def gemm(capsule: object, X: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], Y: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> bool: ...

@overload
def gemm(capsule: object, X: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], Y: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> bool: ...

@overload
def exp(x: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def exp(x: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

class PointsDouble:
    """Points packed for the core."""

    @property
    def shape(self) -> tuple: ...

    @property
    def nbytes(self) -> int: ...

def widen(X: PointsFloat) -> PointsDouble: ...

def threads() -> int: ...

def set_threads(count: int) -> None: ...

def instruction_set() -> str: ...
