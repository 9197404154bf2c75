"""The different values of an array."""

import ast
from pathlib import Path

import numpy as np
from looped import looped
from numpy.testing import assert_array_equal

import mercer
from mercer.native.sorting import distinct

PACKAGE = Path(mercer.__file__).parent


@looped(
    "values",
    [
        [],
        [3, 1, 2, 1, 3],
        [[2.5, -0.0], [0.0, 2.5]],
        np.array(["b", "a", "b"]),
        np.array(["b", "a", "b"], dtype=object),
        [True, False, True],
        np.arange(7, dtype=np.uint8)[::-1],
    ],
    ids=repr,
)
def test_values_are_those_of_numpy(values):
    assert_array_equal(distinct(values), np.unique(values))


def test_nothing_below_the_pictures_hashes_without_the_lock():
    # A daemon thread in numpy's hashing takes the process along when Python ends.
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if "plots" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            given = {word.arg for word in node.keywords}
            hashes = called == "np.unique" and not any(
                str(word).startswith("return_") for word in given
            )
            if hashes or called in ("np.union1d", "np.setdiff1d"):
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert not found
