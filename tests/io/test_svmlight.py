import bz2
import gzip
import io
import locale
import lzma

import naive_svmlight
import numpy as np
import pytest
import scipy.sparse as sp
from looped import looped
from sklearn.datasets import load_svmlight_file

from mercer.data import as_blocks
from mercer.io import SvmlightBlocks, read_svmlight, write_svmlight
from mercer.io.svmlight import Dialect, MalformedLine, parsed_parts

SMALL = b"+1 1:0.5 3:2e-1\n-1 2:.25 # a comment\n1 1:-7. 2:1E2 3:+4\n"


def written(numbers, rng):
    """Each number in one of many spellings, none of which changes it."""
    forms = ["{!r}", "{:.17g}", "{:.25e}", "{:.30g}", "+{!r}", "{:.20E}"]
    return [
        rng.choice(forms).format(float(number)).replace("+-", "-") for number in numbers
    ]


def awkward(rng, n):
    """Numbers that are hard to read: of all sizes, halfway, subnormal."""
    bits = rng.integers(0, 2**63, size=n, dtype=np.uint64).view(float)
    bits = bits[np.isfinite(bits)]
    near = rng.integers(1, 10**6, size=n) / 10.0 ** rng.integers(0, 9, size=n)
    return np.concatenate([bits, near, [5e-324, 1.7976931348623157e308, 0.1, 1 / 3]])


def text_of(rng, n=300):
    numbers = written(awkward(rng, n), rng)
    rng.shuffle(numbers)
    lines = []
    while len(numbers) > 6:
        entries = [numbers.pop() for _ in range(rng.integers(0, 6))]
        columns = np.sort(rng.choice(40, size=len(entries), replace=False)) + 1
        words = [f"{j}:{v}" for j, v in zip(columns, entries, strict=True)]
        lines.append(" ".join([numbers.pop(), *words]))
    return ("\n".join(lines) + "\n").encode()


def same(X, Y):
    return (
        X.shape == Y.shape
        and np.array_equal(X.indptr, Y.indptr)
        and np.array_equal(X.indices, Y.indices)
        and X.data.tobytes() == Y.data.tobytes()
    )


def test_numbers_are_those_of_scikit_learn_to_the_last_bit(rng):
    text = text_of(rng)
    X, y, query = read_svmlight(io.BytesIO(text))
    theirs = load_svmlight_file(io.BytesIO(text))
    assert X.indices.dtype == X.indptr.dtype == np.int32
    assert same(X, theirs[0]) and y.tobytes() == theirs[1].tobytes() and query is None


@looped(
    "number",
    [
        "9007199254740993",  # halfway between two doubles
        "9007199254740992.99999999999999999999999999999",
        "0.1000000000000000055511151231257827",
        "1e22",
        "1e23",
        "123456789012345",
        "1234567890123456",
        "12345678.9012345",
        "0.00000000000001",
        "2.2250738585072011e-308",
        "2.4703282292062328e-324",  # just above half of the least
        "2.4703282292062327e-324",  # just below
        "1e-400",
        "-0",
        "-1e-999999999999999999999",
        "0e999999999999999999999",
        "00000000000000000000000000001",
        "179769313486231580793728971405301e276",
        ".5",
        "5.",
        "+.5e+0",
    ],
)
def test_a_decimal_is_read_to_the_nearest_double(number):
    [found] = read_svmlight(io.BytesIO(f"0 1:{number}\n".encode())).X.data
    assert found.tobytes() == np.float64(float(number)).tobytes()


@looped(
    "text, line, column, reason",
    [
        (b"x 1:2\n", 1, 1, "'x' is not a label"),
        (b"1:2 3:4\n", 1, 1, "'1:2' stands where a label is to be"),
        (b"1 1:1\n2 2:1 1:1\n", 2, 7, "index 1 comes after 2; indices ascend"),
        (b"1 3:1 3:2\n", 1, 7, "index 3 is there twice"),
        (b"1 -3:1\n", 1, 3, "'-3:1' has a negative index"),
        (b"1 9007199254740993:1\n", 1, 3, "has too large an index"),
        (b"1 99999999999999999999999999:1\n", 1, 3, "has too large an index"),
        (b"1 1:1 2\n", 1, 7, "'2' is not index:value"),
        (b"1 1:1 :2\n", 1, 7, "':2' is not index:value"),
        (b"1 1: 2:3\n", 1, 5, "a value is missing"),
        (b"1 1:", 1, 5, "a value is missing"),
        (b"1 1:2:3\n", 1, 5, "'2:3' is not a value"),
        (b"1 1:abc\n", 1, 5, "'abc' is not a value"),
        (b"1 1:0x10\n", 1, 5, "'0x10' is not a value"),
        (b"1 1:1_0\n", 1, 5, "'1_0' is not a value"),
        (b"1 1:1,5\n", 1, 5, "'1,5' is not a value"),
        (b"1 1:+-1\n", 1, 5, "'+-1' is not a value"),
        (b"1 1:nan\n", 1, 5, "'nan' is not a finite number"),
        (b"1 1:-inf\n", 1, 5, "'-inf' is not a finite number"),
        (b"nan 1:1\n", 1, 1, "'nan' is not a finite number"),
        (b"1 1:1e400\n", 1, 5, "'1e400' is beyond the largest number"),
        (b"1 1.5:2\n", 1, 3, "'1.5:2' is not index:value"),
        (b"1 qid:x 1:2\n", 1, 3, "'qid:x' is not qid: and a whole number"),
        (b"1 1:2 qid:3\n", 1, 7, "'qid:3' stands where index:value is to be"),
        (b"1,2 1:2\n", 1, 1, "'1,2' is not a label"),
        (b"1 1:2\r-1 1:3\n", 1, 7, "'-1' is not index:value"),
        (b"1 1:2\x00\n", 1, 5, r"'2\x00' is not a value"),
        (b"\xef\xbb\xbf1 1:2\n", 1, 1, r"'\xef\xbb\xbf1' is not a label"),
        (b"\n\n# only\n1 a:2\n", 4, 3, "'a:2' is not index:value"),
    ],
)
def test_a_malformed_line_is_named(text, line, column, reason, tmp_path):
    path = tmp_path / "points.svm"
    path.write_bytes(text)
    with pytest.raises(MalformedLine) as caught:
        read_svmlight(path)
    assert str(caught.value).startswith(f"{path}, line {line}, column {column}: ")
    assert reason in str(caught.value)


@looped("text", [b"", b"\n \n# nothing\n"])
def test_a_file_without_points_is_refused(text):
    with pytest.raises(ValueError, match="holds no points"):
        read_svmlight(io.BytesIO(text))


@looped(
    "text",
    [
        SMALL.replace(b"\n", b"\r\n"),
        SMALL.replace(b" ", b"\t "),
        SMALL.replace(b" ", b"\f"),
        SMALL.replace(b"\n", b" \n"),
        SMALL[:-1],
        b"# head\n\n" + SMALL,
        SMALL.replace(b"2:.25 #", b"2:.25#"),
    ],
)
def test_spaces_and_ends_of_lines_may_vary(text):
    X, y, _ = read_svmlight(io.BytesIO(text))
    assert X.toarray().tolist() == [[0.5, 0, 0.2], [0, 0.25, 0], [-7, 100, 4]]
    assert y.tolist() == [1, -1, 1]


def test_columns_are_counted_from_0_or_1():
    one, zero = b"1 1:2 3:4\n", b"1 0:2 3:4\n"
    assert read_svmlight(io.BytesIO(one)).X.shape == (1, 3)
    assert read_svmlight(io.BytesIO(zero)).X.shape == (1, 4)
    assert read_svmlight(io.BytesIO(one), zero_based=True).X.shape == (1, 4)
    assert read_svmlight(io.BytesIO(one), n_features=7).X.shape == (1, 7)
    with pytest.raises(ValueError, match="has the index 0"):
        read_svmlight(io.BytesIO(zero), zero_based=False)
    with pytest.raises(ValueError, match="column 3 of n_features=2"):
        read_svmlight(io.BytesIO(one), n_features=2)
    with pytest.raises(ValueError, match="zero_based is True, False"):
        read_svmlight(io.BytesIO(one), zero_based="one")


def test_large_indices_make_wide_columns():
    X = read_svmlight(io.BytesIO(b"1 1:2\n1 5:1 9007199254740992:3\n")).X
    assert X.shape == (2, 2**53) and X.indices.tolist() == [0, 4, 2**53 - 1]


def test_several_labels_and_queries():
    text = b"2,1 qid:4 1:1\n 3:1\n7\n"
    with pytest.raises(ValueError, match="has qid on 1 of its 3 points"):
        read_svmlight(io.BytesIO(text), multilabel=True)
    text = text.replace(b"qid:4 ", b"")
    X, y, _ = read_svmlight(io.BytesIO(text), multilabel=True)
    theirs = load_svmlight_file(io.BytesIO(text), multilabel=True)
    assert y == [(1.0, 2.0), (), (7.0,)] == theirs[1] and same(X, theirs[0])
    _, _, query = read_svmlight(io.BytesIO(b"1 qid:-3 1:1\n2 qid:9\n"))
    assert query.tolist() == [-3, 9]


def test_not_finite_numbers_are_read_where_they_are_allowed():
    X = read_svmlight(io.BytesIO(b"inf 1:nan 2:-inf\n"), allow_nan=True)
    assert np.isnan(X.X.data[0]) and X.X.data[1] == -np.inf and X.y[0] == np.inf


def test_parts_of_a_file_give_the_whole(rng):
    text = text_of(rng, 200)
    whole = read_svmlight(io.BytesIO(text))
    for chunk in (1, 7, 64, 1000):
        parts = list(parsed_parts(io.BytesIO(text), "", Dialect(), chunk))
        assert sum(part.rows for part in parts) == len(whole.y)
        values = [np.empty(part.entries) for part in parts]
        for part, value in zip(parts, values, strict=True):
            part.values(value)
        assert np.concatenate(values).tobytes() == whole.X.data.tobytes()


def test_a_fault_in_a_later_piece_has_its_line():
    lines = [b"1 1:0.25 2:3 7:1e-3\n"] * 60_000  # pieces of a quarter of a megabyte
    assert read_svmlight(io.BytesIO(b"".join(lines))).X.shape == (60_000, 7)
    lines[50_000] = b"1 1:0.25 x\n"
    lines[59_000] = b"\xff\n"
    with pytest.raises(MalformedLine, match="line 50001, column 10: 'x' is not index"):
        read_svmlight(io.BytesIO(b"".join(lines)))
    for chunk in (1000, 300_000):
        with pytest.raises(MalformedLine, match="line 50001, column 10"):
            list(parsed_parts(io.BytesIO(b"".join(lines)), "", Dialect(), chunk))


def test_mutated_text_is_read_as_the_twin_reads_it(rng):
    pieces = [b":", b" ", b"\n", b"#", b",", b"-", b"+", b".", b"e", b"0", b"9", b"1:2"]
    pieces += [
        b"qid:",
        b"\r",
        b"\x00",
        b"\xff",
        b"nan",
        b"inf",
        b"1e999",
        b"99999999999",
    ]
    base = text_of(rng, 30) + b"1 qid:2 1:3 # four\n3,4 1:1\n2:3 4:5\n"
    lines = base.split(b"\n")
    refused = 0
    for _ in range(3000):
        some = rng.choice(len(lines), size=3)
        text = bytearray(b"\n".join(lines[i] for i in some))
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(0, len(text) + 1))
            text[at : at + int(rng.integers(0, 3))] = pieces[rng.integers(len(pieces))]
        text = bytes(text)
        options = {"multilabel": bool(rng.integers(2)), "blank": bool(rng.integers(2))}
        refused += check_against_twin(text, options)
    assert 300 < refused < 2700


def check_against_twin(text, options):
    """Whether the text is refused, by both alike."""
    parsed = Dialect(**options).parsed(text)
    try:
        rows = naive_svmlight.parsed(text, **options)
    except naive_svmlight.Malformed as error:
        assert parsed.error[0] == error.args[0], text
        return True
    assert parsed.error[0] == 0, (text, parsed.error)
    labels, values = np.empty(parsed.n_labels), np.empty(parsed.entries)
    columns = np.empty(parsed.entries, dtype=np.int64)
    parsed.labels(labels)
    parsed.values(values)
    parsed.columns(columns, 0)
    assert parsed.rows == len(rows)
    assert parsed.with_query == sum(row[1] is not None for row in rows)
    flat = [entry for row in rows for entry in row[2]]
    assert columns.tolist() == [index for index, _ in flat]
    expected = np.array([value for _, value in flat])
    assert values.tobytes() == expected.tobytes(), text
    expected = np.array([label for row in rows for label in row[0]])
    assert labels.tobytes() == expected.tobytes(), text
    return False


@looped("compress, suffix", [(gzip, ".gz"), (bz2, ".bz2"), (lzma, ".xz")])
def test_compressed_files_are_read_and_written(compress, suffix, tmp_path):
    path = tmp_path / f"points{suffix}"
    path.write_bytes(compress.compress(SMALL))
    X, y, _ = read_svmlight(path)
    write_svmlight(path, X, y)
    assert same(read_svmlight(path).X, X)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="is damaged"):
        read_svmlight(path)
    path.write_bytes(b"no " + data)
    with pytest.raises(ValueError, match="is damaged"):
        read_svmlight(path)


def test_a_compressed_file_may_not_hold_too_much(tmp_path):
    path = tmp_path / "points.gz"
    path.write_bytes(gzip.compress(b"1 1:1\n" * 400_000))
    with pytest.raises(ValueError, match="more than 2 MB of text"):
        read_svmlight(path, max_text_mb=2)
    assert len(read_svmlight(path).y) == 400_000


def test_a_file_is_a_stream_of_blocks(tmp_path, rng):
    X = sp.random_array((50, 8), density=0.4, random_state=rng, format="csr")
    y = rng.normal(size=50)
    path = tmp_path / "points.svm"
    write_svmlight(path, X, y)
    stream = SvmlightBlocks(path, n_features=8)
    blocks = as_blocks(stream)
    assert blocks.shape == (50, 8) and np.array_equal(blocks[10:20], X[10:20].toarray())
    assert np.array_equal(stream.target(), y)


@looped("zero_based", [False, True])
def test_what_is_written_reads_back_the_same(zero_based, rng):
    numbers = awkward(rng, 500)
    signs = rng.choice([-1.0, 1.0], size=len(numbers))
    X = sp.csr_array((signs * numbers)[: len(numbers) // 8 * 8].reshape(-1, 8))
    X.data[::7] = 0
    y = np.resize(numbers, X.shape[0])
    query = rng.integers(-5, 5, size=len(y))
    file = io.BytesIO()
    write_svmlight(file, X, y, query_id=query, zero_based=zero_based)
    X.eliminate_zeros()
    file.seek(0)
    found = read_svmlight(file, zero_based=zero_based, n_features=8)
    assert same(found.X, X) and found.y.tobytes() == y.tobytes()
    assert np.array_equal(found.query_id, query)
    file.seek(0)
    theirs = load_svmlight_file(file, zero_based=zero_based, n_features=8)
    assert same(found.X, theirs[0])


def test_numbers_are_written_with_the_fewest_digits():
    file = io.BytesIO()
    numbers = [[0.1, 1e22, -3.0, 123456789.0, 5e-324, 0.0]]
    write_svmlight(file, numbers, [1 / 3])
    expected = "0.3333333333333333 1:0.1 2:1e+22 3:-3 4:123456789 5:5e-324\n"
    assert file.getvalue().decode() == expected
    file = io.BytesIO()
    write_svmlight(file, np.ones((2, 1)), [(1.0, 2.5), ()])
    assert file.getvalue() == b"1,2.5 1:1\n 1:1\n"


@looped(
    "X, y, reason",
    [
        ([[1.0]], [1, 2], "needs y of each point"),
        ([[np.nan]], [1], "needs finite numbers"),
        ([[1.0]], [np.inf], "needs finite numbers"),
    ],
)
def test_what_cannot_be_written_is_refused(X, y, reason):
    with pytest.raises(ValueError, match=reason):
        write_svmlight(io.BytesIO(), X, y)


def test_the_locale_does_not_matter():
    names = ["de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"]
    before = locale.setlocale(locale.LC_NUMERIC)
    for name in names:
        try:
            locale.setlocale(locale.LC_NUMERIC, name)
            break
        except locale.Error:
            continue
    else:
        pytest.skip("no locale with a decimal comma is installed")
    try:
        X = read_svmlight(io.BytesIO(b"1.5 1:0.25 2:1234567890.123456789012345\n")).X
    finally:
        locale.setlocale(locale.LC_NUMERIC, before)
    assert X.data.tolist() == [0.25, 1234567890.123456789012345]
