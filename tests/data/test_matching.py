"""Points of an earlier set are found again, by value."""

import numpy as np
import pandas as pd
import scipy.sparse as sp
from looped import looped
from numpy.testing import assert_array_equal

from mercer.data.matching import carried_over
from mercer.data.points import take

VECTORS = np.array([[0.0, 1], [2, 0], [0, 1], [3, 4], [5, 6]])
FORMS = {
    "array": VECTORS,
    "csr": sp.csr_array(VECTORS),
    "frame": pd.DataFrame(VECTORS, columns=["a", "b"]),
    "strings": ["ab", "c", "ab", "d", "e"],
    "lists": [[0, [1]], [2], [0, [1]], [3], [4]],
    "dicts": [{"x": 0}, {"x": 2}, {"x": 0}, {"x": 3}, {"x": 4}],
}
ROWS = np.array([[1.0, 2], [3, 4], [5, 6]])


@looped("form", FORMS)
def test_rows_go_with_their_points(form):
    points = FORMS[form]
    known = take(points, np.array([0, 1, 2]))
    places = np.array([0, 1, 2])
    found = carried_over(ROWS, known, points, places)
    assert_array_equal(found, [*ROWS, [0, 0], [0, 0]])
    order = np.array([4, 2, 1, 0])  # the first copy of a point takes the first row
    found = carried_over(ROWS, known, take(points, order), places)
    assert_array_equal(found, [[0, 0], ROWS[0], ROWS[1], ROWS[2]])


@looped("form", FORMS)
def test_points_that_are_gone_leave_nothing(form):
    points = FORMS[form]
    known, places = take(points, np.array([0, 1, 2])), np.array([0, 1, 2])
    found = carried_over(ROWS, known, take(points, np.array([3, 0])), places)
    assert_array_equal(found, [[0, 0], ROWS[0]])
