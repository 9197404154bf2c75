"""The different values of an array, by sorting."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def distinct(values: npt.ArrayLike) -> np.ndarray:
    """The different values in ascending order, as `np.unique` gives them.

    numpy's own hashes them, from version 2.3 on, in C++ and without Python's lock: a
    daemon thread in it when the interpreter ends takes the process along.
    """
    values = np.sort(np.ravel(values))
    different = np.ones(len(values), dtype=bool)
    different[1:] = values[1:] != values[:-1]
    return values[different]
