"""Tables: what is read, and what is refused, with its place."""

import bz2
import csv
import gzip
import io
import lzma
import random
import zipfile

import numpy as np
import pytest
from looped import looped

from mercer import SVC
from mercer.io import read, read_csv, read_numpy, read_parquet, tables


@pytest.fixture
def table(tmp_path):
    """Writes a table, and returns its path."""

    def write(text, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_numbers_are_read_to_the_last_bit(table):
    X = np.random.default_rng(0).normal(size=(40, 7)) * 10.0 ** np.arange(-150, 151, 50)
    text = "\n".join(",".join(map(repr, row)) for row in X.tolist())
    data = read_csv(table(text))
    np.testing.assert_array_equal(data.points, X)
    assert data.kind == "numbers" and data.target is None


@pytest.mark.parametrize("divider", [",", ";", "|", "\t", " "])
def test_the_divider_is_told_by_the_rows(table, divider):
    rows = [["a", "b", "y"], ["1", "2.5", "no"], ["-3", "4e2", "yes"]]
    data = read_csv(table("\n".join(divider.join(row) for row in rows)), "y")
    assert data.points.tolist() == [[1, 2.5], [-3, 400]]
    assert data.names == ("a", "b") and data.target.tolist() == ["no", "yes"]


@looped(
    "text, header",
    [
        ("a,b\n1,2\n3,4", True),
        ("1,2\n3,4", False),
        ("x,1\ny,2\nx,3", False),
        ("word,number\nx,1\ny,2", True),
        ("class,text\nA,one\nA,two\nB,three\nB,four", True),
        ("A,one\nA,two\nB,three\nB,four", False),
    ],
)
def test_a_header_is_told_by_what_is_below(table, text, header):
    lines = text.split("\n")
    data = read_csv(table(text))
    assert len(data) == len(lines) - header
    assert data.names[0] == (lines[0].split(",")[0] if header else "column0")


def test_quoted_cells_hold_dividers_quotes_and_line_ends(table):
    text = 'text,y\n"a, ""b""\nc",1\nplain "quotes",2\n"",3\n'
    data = read_csv(table(text), "y", types={"text": "text"}, missing="keep")
    assert data.points == ['a, "b"\nc', 'plain "quotes"', ""]


def test_tabs_divide_without_rules_for_quotes(table):
    text = 'ham\t"Hello" she said\nspam\t"all of it"\nham\tno "end\n'
    data = read_csv(table(text, "data.tsv"), 0, types={"column1": "text"})
    assert data.points == ['"Hello" she said', "all of it", 'no "end']


def test_the_standard_writer_is_read_back(table):
    rng = random.Random(0)
    letters = ["a", "ü", '"', ",", "\n", " ", "x1", "\t"]
    rows = [
        ["".join(rng.choices(letters, k=rng.randrange(1, 9))) + "z", str(i % 7)]
        for i in range(300)
    ]
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator="\n").writerows(rows)
    path = table(written.getvalue())
    data = read_csv(path, 1, header=False, divider=",", types={"column0": "text"})
    assert data.points == [row[0] for row in rows]


def test_records_have_a_kernel_for_each_kind_of_column(table):
    lines = ["age,colour,text,y"]
    lines += [
        f"{i},{'red' if i % 2 else 'blue'},some words {i},{i % 2}" for i in range(30)
    ]
    data = read_csv(table("\n".join(lines)), "y")
    assert data.kind == "records"
    assert data.types == {"age": "numbers", "colour": "words", "text": "text"}
    assert data.points[1] == {"age": 1.0, "colour": "red", "text": "some words 1"}
    machine = SVC(kernel=data.kernel, C=10).fit(data.points, data.target)
    assert machine.score(data.points, data.target) == 1
    # Equal words in the sum of the kernel, beside the two others.
    kernel = data.kernel.resolve(data.points)
    same = kernel.value(data.points[1], data.points[1])
    np.testing.assert_allclose(same, 3)


def test_columns_are_chosen_by_name_and_by_number(table):
    path = table("id,a,b,y\nn1,1,2,0\nn2,3,4,1\n")
    for chosen in ({"drop": ["id"]}, {"drop": [0]}, {"columns": ["a", 2]}):
        data = read_csv(path, -1, **chosen)
        assert data.points.tolist() == [[1, 2], [3, 4]] and data.target_name == "y"


def test_numbers_with_a_comma_need_to_be_named(table):
    path = table("a;b\n1,5;2\n2,5;3\n")
    with pytest.raises(ValueError, match=r"line 2, column 1 \('a'\).*decimal=','"):
        read_csv(path)
    assert read_csv(path, decimal=",").points.tolist() == [[1.5, 2], [2.5, 3]]


def test_targets_are_whole_numbers_numbers_or_words(table):
    path = table("a,i,f,w\n1,1,0.5,x\n2,2,1,y\n")
    kinds = [read_csv(path, name).target.dtype.kind for name in "ifw"]
    assert kinds == ["i", "f", "U"]


MALFORMED = [
    ("", "has no rows"),
    ("a,\n1,2", "line 1, column 2: the column has no name"),
    ("a,b\n1,2\n3\n", r"line 3: 1 cell, where line 1 has 2"),
    ("a,b\n1,2\n3,4,5\n", r"line 3: 3 cells"),
    ("a,b\n1,2\n\n3,4\n", "line 3: the line is empty"),
    ("a,a\n1,2\n", r"line 1, column 2: the name 'a' stands for column 1"),
    ('a,b\n"1,2\n3,4\n', r"line 2, column 1: a quote opens here"),
    ('a,b\n1,"2"x\n3,4\n', r"line 2, column 6: 'x' follows a closing quote"),
    ("a,b\n" + "1,2\n" * 20 + "1,two\n", r"line 22, column 2 \('b'\): 'two' is no"),
    ("a,b\n" + "1,2\n" * 20 + "1,inf\n", r"line 22, column 2 \('b'\): 'inf' is no"),
    ("a,b\n" + "1,2\n" * 20 + "1,1_0\n", r"line 22, column 2 \('b'\): '1_0' is no"),
    ("a,b\n1,2\n3,\n,6\n", r"line 3, column 2 \('b'\): a value is missing, one of 2"),
    ("a,b\n1,2\n3,NA\n", r"line 3, column 2 \('b'\): a value is missing"),
    (b"a,b\n1,2\n3,\xff\n", r"line 3, column 3: the byte 0xff is no UTF-8"),
    (b"a,b\n1,\x002\n", "line 2: a zero byte"),
    (b"\x1f\x8bnot gzip at all", "damaged"),
    (gzip.compress(b"a,b\n1,2\n" * 99)[:-9], "damaged or cut off"),
    (bz2.compress(b"a,b\n1,2\n" * 99)[:-9], "damaged or cut off"),
    (lzma.compress(b"a,b\n1,2\n" * 99)[:-9], "damaged or cut off"),
]


@looped("content, reason", MALFORMED)
def test_what_is_malformed_is_refused_with_its_place(table, content, reason):
    path = table(content)
    with pytest.raises(ValueError, match=reason) as caught:
        read_csv(path)
    assert str(caught.value).startswith(str(path))


def test_missing_values_are_dropped_or_kept_when_asked_for(table):
    path = table("a,w\n1,x\n,y\n3,\n4,x\n")
    dropped = read_csv(path, missing="drop", types={"w": "words"})
    assert [point["a"] for point in dropped.points] == [1, 4]
    assert "2 rows with missing values were left out" in dropped.notes
    kept = read_csv(path, missing="keep", types={"w": "words"})
    assert np.isnan(kept.points[1]["a"]) and kept.points[2]["w"] == ""


def test_names_without_rows_are_refused(table):
    with pytest.raises(ValueError, match="no rows below"):
        read_csv(table("a,b\n"), header=True)


def test_a_missing_column_is_named_with_those_that_are_there(table):
    path = table("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"no column 'z' for target.*'a', 'b'"):
        read_csv(path, "z")


@pytest.mark.parametrize("packed", [gzip, bz2, lzma])
def test_a_file_that_unpacks_to_too_much_is_refused(table, packed):
    path = table(packed.compress(b"1,2\n" * 10**6), "bomb.csv.gz")
    with pytest.raises(ValueError, match=r"more than 1,000,000 bytes when unpacked"):
        read_csv(path, limit=10**6)
    assert len(read_csv(table(packed.compress(b"1,2\n"), "good.csv"))) == 1


def test_marks_and_line_ends_of_other_systems_are_read(table):
    for content in (b"\xef\xbb\xbfa,b\r\n1,2\r\n", "a,b\r1,2\r".encode("utf-16")):
        data = read_csv(table(content), "b")
        assert data.names == ("a",) and data.points.tolist() == [[1.0]]


def test_damage_anywhere_is_an_error_with_a_place_or_a_table(table):
    rng = random.Random(0)
    good = 'a,b,y\n1,2.5,"x, 1"\n-3,4e2,"y ""q"""\n5,6,z\n' * 3
    letters = [*'",;\t\n \0x1.-e', "ü", "\r"]
    for _ in range(400):
        text = list(good)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text))
            text[at : at + rng.randrange(2)] = rng.choice(letters)
        path = table("".join(text))
        try:
            data = read_csv(path)
        except ValueError as error:
            assert str(error).startswith(str(path)), error
        else:
            assert len(data) == len(data.points)


def test_numpy_files_are_read_without_pickles(tmp_path):
    X, y = np.arange(12.0).reshape(4, 3), np.array(["a", "b", "a", "b"])
    np.savez(tmp_path / "a.npz", X=X, y=y, other=X)
    np.save(tmp_path / "b.npy", X)
    assert read(tmp_path / "a.npz").target.tolist() == y.tolist()
    data = read(tmp_path / "b.npy", target=-1)
    assert data.points.tolist() == X[:, :2].tolist()
    assert data.target.tolist() == X[:, 2].tolist()
    np.save(tmp_path / "c.npy", np.array([{}, []], dtype=object))
    np.savez(tmp_path / "d.npz", X=np.array([{}], dtype=object))
    for name in ("c.npy", "d.npz"):
        with pytest.raises(ValueError, match=r"[cd]\.np"):
            read(tmp_path / name)
    X[1, 2] = np.nan
    np.save(tmp_path / "e.npy", X)
    with pytest.raises(ValueError, match="row 1, column 2: nan is no finite"):
        read_numpy(tmp_path / "e.npy")


def test_damaged_arrays_are_refused_by_name(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(3), y=np.arange(3))
    np.save(tmp_path / "a.npy", np.eye(3))
    rng = random.Random(0)
    for name in ("a.npz", "a.npy"):
        good = (tmp_path / name).read_bytes()
        for number in range(120):
            bad = bytearray(good)
            for _ in range(number % 4):
                bad[rng.randrange(len(bad))] = rng.choice(b"\x00\xff({'1")
            del bad[rng.randrange(2 * len(bad)) :]
            (tmp_path / f"bad{name}").write_bytes(bad)
            try:
                read(tmp_path / f"bad{name}")
            except ValueError as error:
                assert f"bad{name}" in str(error)


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "zeros.npz", X=np.zeros((1000, 1000)))
    with pytest.raises(ValueError, match="unpacks to 8,0"):
        read_numpy(tmp_path / "zeros.npz", limit=10**6)
    with zipfile.ZipFile(tmp_path / "zeros.npz") as archive:
        assert archive.infolist()[0].compress_size < 10**6


def test_parquet_is_read_as_a_table(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    columns = {"a": [1.5, 2.0, 3.0], "w": ["x", "y", "x"], "y": [1, 0, 1]}
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    data = read_parquet(tmp_path / "t.parquet", "y")
    assert data.points[0] == {"a": 1.5, "w": "x"} and data.target.tolist() == [1, 0, 1]
    columns["a"][1] = None
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(
        ValueError, match=r"line 2, column 1 \('a'\): a value is missing"
    ):
        read(tmp_path / "t.parquet", "y")


# Tables of numbers alone, which the core reads: the same as cell by cell


def both_ways(path, monkeypatch, **options):
    """What is read, or refused, by the core and cell by cell."""
    found = []
    for quick in (True, False):
        with monkeypatch.context() as patch:
            if not quick:
                patch.setattr(tables, "_plain_table", lambda *given: None)
            try:
                data = read_csv(path, **options)
            except ValueError as error:
                found.append(str(error))
                continue
            X = data.points
            X = X.tobytes() if isinstance(X, np.ndarray) else repr(X)
            y = None if data.target is None else data.target.tolist()
            found.append((X, y, data.names, data.notes, dict(data.types)))
    return found


def test_the_core_reads_a_table_of_numbers(table, monkeypatch):
    monkeypatch.setattr(tables, "split_rows", None)  # of the other way
    X = np.random.default_rng(0).normal(size=(300, 4)) * 10.0 ** np.arange(-9, 9).take(
        [0, 5, 9, 17]
    )
    lines = [",".join(map(repr, row)) for row in X.tolist()]
    for end in ("\n", "\r\n"):
        read_back = read_csv(table(end.join(["a,b,c,y", *lines]) + end), "y")
        np.testing.assert_array_equal(read_back.points, X[:, :3])
        np.testing.assert_array_equal(read_back.target, X[:, 3])
    bare = read_csv(table("\n".join(lines).replace(",", " \t"), "data.txt"))
    np.testing.assert_array_equal(bare.points, X)


@looped(
    "text",
    [
        "1,2\n3,4",
        "\ufeffa,b\n1,2\n",
        " 1 ,\t2\n+3.,-.5e-3\n1e-400,-1e-400\n5e-324,1.7976931348623157e308\n",
        "1;2\n3;4\n",
        "1\t2\n3\t4\n",
        "1 2\n 3   4 \n",
        "1\n2\n",
        "a\n1\n",
        "a,b\n",
        "a,a\n1,2\n",
        "a,\n1,2\n",
        "nan,b\n1,2\n",
        "1,2\n\n3,4\n",
        "1,2\n3,4\n\n",
        "1,2\n3\n",
        "1,2\n3,\n",
        "1,2\n3,1e400\n",
        "1,2\n3,0x1\n",
        "1,2\n3,1_0\n",
        "1,inf\n3,4\n",
        "a\rb,c\n1,2\n",
        "a,b\rc\n1,2\n",
        '"1",2\n3,4\n',
        "1,2\n3,\u0664\n",
        "1,2\n3,4\0\n",
        "\n1,2\n",
        "a,b\nred,1\nblue,2\nred,3\nblue,4\n",
        "2020,2021\n1,2\n",
    ],
)
def test_both_ways_read_the_same(table, monkeypatch, text):
    for options in ({}, {"target": "b"}, {"target": 0}, {"header": True}):
        core, cells = both_ways(table(text), monkeypatch, **options)
        assert core == cells, (text, options)


def test_both_ways_read_damaged_tables_alike(table, monkeypatch):
    good, rng = (
        "a,b,y\n1,2.5,0\n-3e-2,+4,1\n.5,6.,0\n1e300,5e-324,1\n",
        random.Random(5),
    )
    pieces = [*',;\t \n\r".e-+_019x\u0661', "nan", "1e400", "\r\n", "1e-400"]
    for _ in range(150):
        text = list(good)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text))
            text[at : at + rng.randrange(2)] = rng.choice(pieces)
        core, cells = both_ways(table("".join(text)), monkeypatch)
        assert core == cells, text


def test_a_long_first_line_asks_for_no_more_memory_than_the_file_has(table):
    with pytest.raises(ValueError, match=r"line 2: 1 cell|line 2: the line is empty"):
        read_csv(table("1" + ",1" * 10**6 + "\n" * 10**6 + "1"))
