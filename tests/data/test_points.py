"""points.py: what a dataset is, for every container that users bring."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from looped import looped
from numpy.testing import assert_array_equal

from mercer.data.checks import describe
from mercer.data.points import (
    as_points,
    column_names,
    concatenate,
    count,
    each,
    field,
    one,
    pair,
    precision,
    take,
    vectors,
)

LIBRARIES = looped("library", [pd, pl], ids=["pandas", "polars"])

VALUES = np.array([[0.0, 1.0], [2.0, 0.0], [3.0, 4.0], [5.0, 6.0]])
DATASETS = {
    "array": VALUES,
    "csr_matrix": sp.csr_matrix(VALUES),
    "csr_array": sp.csr_array(VALUES),
    "pandas": pd.DataFrame(VALUES, columns=["a", "b"], index=[9, 8, 7, 6]),
    "polars": pl.DataFrame(VALUES, schema=["a", "b"]),
    "lists": VALUES.tolist(),
    "strings": ["w", "xx", "yyy", ""],
    "tuples": [(1, "a"), (2, "b"), (3, "c"), (4, "d")],
    "dicts": [{"a": i} for i in range(4)],
    "objects": np.array(["w", "xx", None, 3.5], dtype=object),
}
ANY_DATASET = looped("X", DATASETS.values(), ids=DATASETS.keys())


def plain(X):
    """The points of any dataset as plain lists and dicts."""
    X = X.toarray() if sp.issparse(X) else X
    return X.tolist() if isinstance(X, np.ndarray) else list(each(X))


# as_points


@ANY_DATASET
def test_datasets_are_kept_as_they_are(X):
    assert as_points(X) is X
    assert count(X) == 4


@looped("form", ["coo", "csc", "lil", "dok", "bsr", "dia"])
def test_other_sparse_formats_become_csr(form):
    X = as_points(sp.csr_array(VALUES).asformat(form))
    assert X.format == "csr"
    assert_array_equal(X.toarray(), VALUES)


def test_tuples_and_ranges_of_points_become_lists():
    assert as_points(("ab", "c")) == ["ab", "c"]
    assert as_points(range(3)) == [0, 1, 2]


def test_a_matrix_becomes_an_array():
    matrix = VALUES.view(np.matrix)
    assert type(as_points(matrix)) is np.ndarray
    assert type(vectors(matrix)) is np.ndarray


def test_a_masked_array_is_refused_where_something_is_masked():
    whole = np.ma.masked_array(VALUES, mask=np.zeros_like(VALUES, bool))
    assert_array_equal(vectors(whole), VALUES)
    with pytest.raises(ValueError, match="masked entries"):
        as_points(np.ma.masked_equal(VALUES, 0))


@LIBRARIES
def test_a_series_of_text_is_a_list_with_none_for_gaps(library):
    assert as_points(library.Series(["a", None, "c"])) == ["a", None, "c"]


@LIBRARIES
def test_a_series_of_numbers_is_an_array(library):
    assert_array_equal(as_points(library.Series([1, 2])), [1, 2])


@looped("single", ["word", b"word", {"a": 1}, {"a", "b"}, 3.5, None, np.float64(2)])
def test_a_single_point_is_refused_with_the_advice_to_wrap_it(single):
    with pytest.raises(TypeError, match="Wrap a single point in a list"):
        as_points(single)


def test_a_generator_is_refused():
    with pytest.raises(TypeError, match="generator"):
        as_points(x for x in "ab")


def test_an_array_without_dimension_is_refused():
    with pytest.raises(ValueError, match=r"single value np.float64\(3.0\)"):
        as_points(np.array(3.0))


# take, one, concatenate, each


@ANY_DATASET
@looped(
    "index",
    [
        slice(1, 3),
        slice(None, None, -2),
        slice(0, 0),
        np.array([2, 0, 2]),
        [3, -1],
        [],
        np.array([], dtype=int),
        np.array([True, False, True, False]),
    ],
    ids=str,
)
def test_take_is_numpy_indexing(X, index):
    expected = [plain(X)[i] for i in np.arange(4)[index]]
    taken = take(X, index)
    assert plain(taken) == expected
    assert count(taken) == len(expected)


@ANY_DATASET
def test_take_keeps_the_container(X):
    assert type(take(X, [1, 2])) is type(X)


def test_take_refuses_a_mask_of_another_length():
    with pytest.raises(IndexError):
        take(["a", "b"], np.array([True, False, True]))


@looped(
    "x, expected",
    [
        ("word", ["word"]),
        ((1, "a"), [(1, "a")]),
        ({"a": 1}, [{"a": 1}]),
        (None, [None]),
    ],
)
def test_one_object_is_a_list_of_it(x, expected):
    assert one(x) == expected


@looped("x", [2, 2.0, np.float32(2), np.int64(2), np.array(2.0)])
def test_one_number_is_a_vector_of_dimension_one(x):
    assert one(x).shape == (1, 1)


def test_one_vector_is_a_row():
    assert_array_equal(one(VALUES[1]), VALUES[1:2])
    for sparse in (sp.csr_matrix(VALUES[1]), sp.coo_array(VALUES[1])):
        assert_array_equal(one(sparse).toarray(), VALUES[1:2])


def test_one_sparse_matrix_with_many_rows_is_one_object():
    adjacency = sp.csr_array(np.eye(3))
    assert one(adjacency) == [adjacency]


@ANY_DATASET
def test_concatenate_puts_the_second_after_the_first(X):
    joined = concatenate(X, take(X, [0, 2]))
    assert plain(joined) == plain(X) + plain(take(X, [0, 2]))


def test_concatenate_joins_dense_and_sparse():
    joined = concatenate(VALUES, sp.csr_array(VALUES))
    assert_array_equal(joined.toarray(), np.vstack([VALUES, VALUES]))


def test_concatenate_refuses_a_frame_and_an_array():
    with pytest.raises(TypeError, match="DataFrame and a ndarray"):
        concatenate(DATASETS["pandas"], VALUES)


@LIBRARIES
def test_rows_of_a_frame_are_dicts(library):
    frame = library.DataFrame({"a": [1, 2], "note": ["x", None]})
    assert each(frame) == [{"a": 1, "note": "x"}, {"a": 2, "note": None}]


def test_rows_of_csr_are_one_row_matrices():
    rows = each(sp.csr_array(VALUES))
    assert [row.shape for row in rows] == [(1, 2)] * 4
    assert_array_equal(rows[2].toarray(), VALUES[2:3])


# field


@looped("name", [0, -1, np.int64(1), [1, 0], [1], slice(0, 1)])
@looped("kind", ["array", "csr_matrix", "csr_array"])
def test_field_of_an_array_is_its_columns(kind, name):
    columns = [name] if isinstance(name, int | np.integer) else name
    part = field(DATASETS[kind], name)
    part = part.toarray() if sp.issparse(part) else part
    assert_array_equal(part, VALUES[:, columns])


def test_field_of_an_array_keeps_float32():
    assert field(VALUES.astype(np.float32), 0).dtype == np.float32


@looped("name", [2, -3, [0, 7], slice(5, 6)])
@looped("kind", ["array", "csr_array"])
def test_field_refuses_columns_an_array_does_not_have(kind, name):
    with pytest.raises(IndexError, match="points with 2 columns"):
        field(DATASETS[kind], name)


@looped("name", ["a", ["a", "b"]])
def test_field_refuses_names_on_an_array(name):
    with pytest.raises(TypeError, match="Pass a data frame"):
        field(VALUES, name)


MIXED = {
    "size": [1.5, None, 3.0],
    "count": [1, 2, 3],
    "open": [True, False, True],
    "note": ["x", None, "zz"],
}


@LIBRARIES
@looped(
    "name, expected",
    [
        ("size", [[1.5], [np.nan], [3.0]]),
        ("count", [[1], [2], [3]]),
        ("open", [[1], [0], [1]]),
        (0, [[1.5], [np.nan], [3.0]]),
        (["count", "open"], [[1, 1], [2, 0], [3, 1]]),
        (slice(0, 2), [[1.5, 1], [np.nan, 2], [3.0, 3]]),
        ([1, "open"], [[1, 1], [2, 0], [3, 1]]),
    ],
    ids=str,
)
def test_field_of_a_frame_is_an_array_of_its_numbers(library, name, expected):
    part = field(library.DataFrame(MIXED), name)
    assert isinstance(part, np.ndarray)
    assert_array_equal(part, expected)


@LIBRARIES
@looped("name", ["note", -1, 3])
def test_field_of_a_frame_is_a_list_of_its_texts(library, name):
    assert field(library.DataFrame(MIXED), name) == ["x", None, "zz"]


@LIBRARIES
def test_field_of_a_frame_with_mixed_columns_is_a_list_of_records(library):
    part = field(library.DataFrame(MIXED), ["count", "note"])
    assert part == [(1, "x"), (2, None), (3, "zz")]


@LIBRARIES
@looped("name", ["nota", 4, -5, ["count", "nota"], slice(4, 6)])
def test_field_names_the_columns_a_frame_has(library, name):
    with pytest.raises(KeyError, match=r"\['size', 'count', 'open', 'note'\]"):
        field(library.DataFrame(MIXED), name)


@LIBRARIES
def test_field_of_a_frame_without_rows(library):
    frame = library.DataFrame(MIXED)[:0]
    assert field(frame, ["size", "count"]).shape == (0, 2)
    assert field(frame, "note") == []


def test_field_of_a_frame_numbered_from_zero_counts_from_both_ends():
    frame = pd.DataFrame(VALUES)
    assert_array_equal(field(frame, 1), VALUES[:, [1]])
    assert_array_equal(field(frame, -1), VALUES[:, [1]])


def test_field_of_a_frame_with_numbers_for_names_goes_by_name():
    frame = pd.DataFrame(VALUES, columns=[1, 2])
    assert_array_equal(field(frame, 1), VALUES[:, [0]])
    with pytest.raises(KeyError, match=r"\[1, 2\]"):
        field(frame, 0)


def test_field_of_a_categorical_column_is_a_list_of_its_labels():
    frame = pd.DataFrame({"colour": pd.Categorical(["red", None, "blue"])})
    assert field(frame, "colour") == ["red", None, "blue"]


def test_field_of_dates_is_a_list():
    day = datetime.datetime(2020, 1, 2)
    assert field(pl.DataFrame({"day": [day, None]}), "day") == [day, None]
    assert field(pd.DataFrame({"day": [day, None]}), "day") == [pd.Timestamp(day), None]


def test_field_of_nullable_numbers_has_nan_for_gaps():
    frame = pd.DataFrame(
        {
            "n": pd.array([1, None], dtype="Int64"),
            "b": pd.array([True, None], dtype="boolean"),
        }
    )
    assert_array_equal(field(frame, ["n", "b"]), [[1, 1], [np.nan, np.nan]])


def test_field_of_a_column_of_vectors_is_a_list_of_them():
    frame = pl.DataFrame({"v": [[1.0, 2.0], [3.0, 4.0]]})
    assert_array_equal(vectors(field(frame, "v")), [[1, 2], [3, 4]])


RECORDS = [("aa", 1.0, 2), ("b", 2.5, 3)]


@looped(
    "X",
    [
        RECORDS,
        np.array(RECORDS, dtype=object),
        [dict(enumerate(record)) for record in RECORDS],
    ],
    ids=["tuples", "object array", "dicts"],
)
def test_field_of_records(X):
    assert field(X, 0) == ["aa", "b"]
    assert_array_equal(field(X, 1), [[1.0], [2.5]])
    assert_array_equal(field(X, [1, 2]), [[1, 2], [2.5, 3]])
    assert field(X, [0, 2]) == [("aa", 2), ("b", 3)]


def test_field_of_records_by_name_and_slice():
    assert field([{"a": "x", "b": 1}, {"a": "y"}], "a") == ["x", "y"]
    assert_array_equal(field(RECORDS, slice(1, 3)), [[1, 2], [2.5, 3]])
    assert field(RECORDS, -1).dtype.kind == "i"


def test_field_of_a_structured_array():
    X = np.array([("aa", 1.5), ("b", 2.5)], dtype=[("word", "U2"), ("size", float)])
    assert field(X, "word") == ["aa", "b"]
    assert_array_equal(field(X, "size"), [[1.5], [2.5]])


def test_field_of_ragged_records_stays_a_list():
    assert field([(0, 1, 2), (0, 1)], slice(1, None)) == [(1, 2), (1,)]


@looped("name", ["b", 1])
def test_field_names_the_record_that_lacks_it(name):
    with pytest.raises(KeyError, match=r"point 1 \(a dict \({'a': 0}\)\)"):
        field([{"a": 0, "b": 1, 1: 2}, {"a": 0}], name)
    with pytest.raises(KeyError, match="point 0"):
        field(["x"], "b")


# vectors


def test_vectors_are_not_copied():
    for X in (VALUES, VALUES.astype(np.float32), VALUES[:, ::-1], VALUES.T):
        assert vectors(X) is X
    frozen = VALUES.copy()
    frozen.flags.writeable = False
    assert vectors(frozen) is frozen


@looped(
    "dtype, expected",
    [
        (np.int64, np.float64),
        (np.uint8, np.float64),
        (bool, np.float64),
        (np.float16, np.float64),
        (np.float32, np.float32),
        (np.longdouble, np.float64),
        (object, np.float64),
        (">f8", np.float64),
        (">f4", np.float32),
        (">i2", np.float64),
    ],
)
def test_vectors_are_of_single_or_double_precision(dtype, expected):
    given = VALUES.astype(dtype)
    X = vectors(given)
    assert X.dtype == expected
    assert_array_equal(X, given.astype(float))


@looped("dtype, expected", [(int, "f8"), (bool, "f8"), ("f4", "f4")])
def test_sparse_vectors_are_of_single_or_double_precision(dtype, expected):
    X = vectors(sp.csr_array(VALUES.astype(dtype)))
    assert X.dtype == expected
    assert_array_equal(X.toarray(), VALUES.astype(dtype))


def test_sparse_duplicates_are_added_up_in_a_copy():
    given = sp.csr_array(([1.0, 2.0, 3.0], [1, 0, 1], [0, 3]), shape=(1, 2))
    X = vectors(given)
    assert X.has_sorted_indices
    assert X.nnz == 2
    assert_array_equal(X.toarray(), [[2, 4]])
    assert given.nnz == 3


@LIBRARIES
def test_frames_of_numbers_and_booleans_are_vectors(library):
    frame = library.DataFrame({"a": [1, 2], "b": [True, False], "c": [0.5, None]})
    assert_array_equal(vectors(frame), [[1, 1, 0.5], [2, 0, np.nan]])
    single = library.DataFrame({"a": np.array([1, 2], "f4"), "b": np.zeros(2, "f4")})
    assert vectors(single).dtype == np.float32


DAY = datetime.datetime(2020, 1, 2)


@LIBRARIES
@looped("values", [["x", "y"], ["1", "2"], [DAY, DAY]], ids=str)
def test_frames_with_other_columns_are_refused_by_column(library, values):
    frame = library.DataFrame({"a": [1.0, 2.0], "b": values})
    with pytest.raises(TypeError, match=r"RBF .* column 'b' .*On\(\[...\]"):
        vectors(frame, "RBF")


def test_lists_of_vectors_are_vectors():
    for X in (VALUES.tolist(), list(VALUES), [tuple(x) for x in VALUES]):
        assert_array_equal(vectors(X), VALUES)
    assert vectors(list(VALUES.astype("f4"))).dtype == np.float32
    rows = list(map(sp.csr_array, VALUES[:, None]))
    assert_array_equal(vectors(rows).toarray(), VALUES)


@looped(
    "X, error, message",
    [
        (["ab", "cd"], TypeError, r"point 0 is the string 'ab'"),
        ([[1.0], None], TypeError, "point 1 is a NoneType"),
        ([{"a": 1}], TypeError, "point 0 is a dict"),
        ([[1.0, 2.0], [1.0, "3"]], TypeError, r"point 1 holds the string"),
        ([[1.0, None]], TypeError, "point 0 holds a NoneType"),
        ([[1, 2], [1, 2, 3]], ValueError, r"point 0 .*\(2,\) and point 1 .*\(3,\)"),
        ([1.0, 2.0], ValueError, r"shape \(2,\). Use np.reshape\(X, \(-1, 1\)\)"),
        (np.arange(3.0), ValueError, r"shape \(3,\)"),
        (np.zeros((2, 2, 2)), ValueError, r"shape \(2, 2, 2\)"),
        ([], ValueError, r"np.empty\(\(0, d\)\)"),
        (np.array([["a", "b"]]), TypeError, "the string 'a'"),
        (np.array([[1j]]), TypeError, "complex128"),
        (sp.csr_array([[1j]]), TypeError, "complex128"),
        ([[1j, 2]], TypeError, "point 0 holds a complex"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), TypeError, "datetime64"),
        (np.array([[DAY, 1.0]], dtype=object), TypeError, "holds a datetime"),
        (np.array([[1.0, "2"]], dtype=object), TypeError, "holds the string"),
        ([sp.csr_array(np.eye(2))], ValueError, "sparse matrix of shape"),
        (pd.Series([1.0, 2.0]), ValueError, r"shape \(2,\)"),
    ],
    ids=str,
)
def test_what_is_no_vector_is_refused_by_name(X, error, message):
    with pytest.raises(error, match=f"^RBF .*{message}"):
        vectors(X, "RBF")


def test_not_a_number_passes():
    assert np.isnan(vectors([[np.nan, 1.0]])[0, 0])


def test_no_points_of_a_dimension_are_vectors():
    assert vectors(np.empty((0, 3))).shape == (0, 3)
    assert vectors(sp.csr_array((0, 3))).shape == (0, 3)
    assert vectors(pd.DataFrame({"a": np.empty(0)})).shape == (0, 1)


# pair, precision, column_names, describe


def test_pair_stands_none_for_the_same_points():
    assert pair(VALUES, None)[1] is None
    assert pair(VALUES, VALUES)[1] is None
    assert pair(VALUES, VALUES.copy())[1] is not None


def test_pair_refuses_two_dimensions():
    with pytest.raises(ValueError, match=r"RBF .* X has 2 columns and Y has 3"):
        pair(VALUES, np.zeros((1, 3)), "RBF")


def test_precision_is_single_only_for_single_arrays():
    single = VALUES.astype(np.float32)
    assert precision(single) is precision(sp.csr_array(single)) is np.float32
    frame = pd.DataFrame({"dtype": [1.0]})
    assert precision(VALUES) is precision(["a"]) is precision(frame) is np.float64


@LIBRARIES
def test_columns_are_named_by_the_frame_or_numbered(library):
    assert column_names(library.DataFrame({"a": [1], "b": [2]})) == ["a", "b"]
    assert column_names(VALUES) == ["x0", "x1"]


def test_describe_gives_the_value_where_it_is_short():
    assert describe("ab") == "a str ('ab')"
    assert describe(3) == "an int (3)"
    assert describe("a" * 100) == "a str"
