"""LIBSVM's tools and ours, side by side.

Theirs are taken from the folder MERCER_LIBSVM names, else from PATH.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from looped import looped

from mercer.calibration import platt
from mercer.cli.libsvm import main
from mercer.cli.svm_train import Random, folds_of
from mercer.io import read_libsvm_model, write_svmlight

FOLDER = os.environ.get("MERCER_LIBSVM")
THEIRS = {
    tool: shutil.which(tool, path=FOLDER)
    for tool in ("svm-train", "svm-predict", "svm-scale")
}
with_theirs = pytest.mark.skipif(
    not all(THEIRS.values()),
    reason="LIBSVM's tools are not on PATH (Debian: libsvm-tools)",
)
KERNELS = ["-t 0", "-t 1 -g 0.5 -r 1 -d 2", "-t 2 -g 0.4", "-t 3 -g 0.02", "-t 4"]


def theirs(tool, *words, cwd):
    """Exit code, standard output and error of one of LIBSVM's tools."""
    done = subprocess.run(
        [THEIRS[tool], *map(str, words)], cwd=cwd, capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def ours(capsys, tmp_path, monkeypatch):
    """The same of ours, in the same folder."""
    monkeypatch.chdir(tmp_path)

    def call(tool, *words):
        code = main([tool, *map(str, words)])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def write_points(
    path, n=60, classes=0, seed=0, zeros=0.3, precomputed=False, shift=0.0
):
    """Points about as many centres as there are classes; numbers where there are 0."""
    rng = np.random.default_rng(seed)
    k = max(classes, 1)
    label = rng.integers(0, k, size=n)
    X = rng.normal(size=(n, 4)) + shift + 1.5 * np.eye(4)[label % 4] * (classes > 0)
    X[rng.random(X.shape) < zeros] = 0
    X = np.round(X, 3)
    y = label + 1.0 if classes > 2 else np.where(label > 0, 1.0, -1.0)
    if not classes:
        y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)
    if precomputed:
        square = np.sum(X**2, axis=1)
        K = np.exp(-0.3 * (square[:, None] + square - 2 * X @ X.T))
        K = np.column_stack([np.arange(1, n + 1), (K + K.T) / 2])
        write_svmlight(path, K, y, zero_based=True)
    else:
        write_svmlight(path, X, y)
    return path


def numbers(text, word):
    """All numbers that follow `word =` in what svm-train prints."""
    return np.array(
        re.findall(rf"\b{word} = (-?[0-9.e+-]+|nan|inf)", text), dtype=float
    )


@with_theirs
@looped("probability", [0, 1])
@looped("kernel", KERNELS)
@looped("svm_type", range(5))
def test_models_are_libsvm_s(ours, tmp_path, svm_type, kernel, probability):
    if svm_type == 2 and probability and theirs_is_old():
        return  # before 3.31 it had none for one class
    classes = {0: 3, 1: 2}.get(svm_type, 0)
    precomputed = kernel == "-t 4"
    data = write_points(
        tmp_path / "data",
        classes=classes,
        precomputed=precomputed,
        shift=2.0 * (svm_type == 2),  # no half-space holds points about 0
    )
    options = f"-s {svm_type} {kernel} -e 1e-5 -b {probability}".split()
    code, said, _ = theirs("svm-train", *options, data, "their.model", cwd=tmp_path)
    assert code == 0
    code, out, err = ours("svm-train", *options, data, "our.model")
    assert (code, err) == (0, "")
    if not probability:
        for word, tolerance in (("obj", 1e-4), ("rho", 1e-3), ("nu", 1e-3)):
            expected, found = numbers(said, word), numbers(out, word)
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=1e-3)
    for word in ("#iter", "nSV", "nBSV", *(["Total nSV"] if classes else [])):
        assert said.count(word) == out.count(word) > 0
    expected, found = read_libsvm_model("their.model"), read_libsvm_model("our.model")
    assert expected.label.tolist() == found.label.tolist()
    for name in ("rho", "probA", "probB"):
        one, other = getattr(expected, name), getattr(found, name)
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=2e-3)
    flags = ["-b", "1"] if probability else []
    for model in ("their.model", "our.model"):
        first = theirs("svm-predict", *flags, data, model, "their.out", cwd=tmp_path)
        second = ours("svm-predict", *flags, data, model, "our.out")
        assert first == second, (model, first, second)
        assert Path("our.out").read_bytes() == Path("their.out").read_bytes()


def theirs_is_old():
    return b"prob_density_marks" not in Path(THEIRS["svm-predict"]).read_bytes()


@with_theirs
@looped(
    "options, classes",
    [
        ("-v 5", 3),
        ("-v 3 -s 1 -n 0.3", 2),
        ("-v 4 -s 2", 0),
        ("-v 60 -c 10", 2),
        ("-v 5 -b 1", 3),
        ("-v 5 -s 3 -p 0.05", 0),
        ("-v 7 -s 4 -c 5", 0),
        ("-v 5 -w1 3 -w-1 0.5 -c 2", 2),
    ],
)
def test_cross_validation_judges_the_same_folds(ours, tmp_path, options, classes):
    data = write_points(tmp_path / "data", n=60, classes=classes)
    words = [*options.split(), "-e", "1e-6", data]
    _, said, _ = theirs("svm-train", *words, cwd=tmp_path)
    code, out, _ = ours("svm-train", *words)
    assert code == 0
    pattern = r"(Cross Validation [A-Za-z ]*) = ([0-9.e-]+)(%?)"
    expected, found = re.findall(pattern, said), re.findall(pattern, out)
    assert len(found) == len(expected) > 0
    for (word, value, sign), (own_word, own, own_sign) in zip(
        expected, found, strict=True
    ):
        assert (word, sign) == (own_word, own_sign)
        np.testing.assert_allclose(float(own), float(value), rtol=1e-4)


ODD = {
    "empty": "1\n-1\n1\n",
    "far": "1 1:1 3000000:2\n-1 2:1 4000000:2\n1 2000000000:1\n",
    "few": "1 5:1\n-1\n-1 2:3\n1 1:1 5:2\n",
    "fractions": "1.7 1:1\n2.2 1:2\n1.2 1:3\n2.9 1:1.5\n",
}


@with_theirs
@looped(
    "points, options",
    [
        ("few", "-t 1 -r -1 -d 3"),  # no kernel
        ("few", "-t 1 -d 0"),
        ("few", "-s 3 -t 3 -r -2"),
        ("empty", ""),
        ("empty", "-t 3"),
        ("empty", "-s 3 -t 0"),
        ("far", ""),
        ("far", "-s 2"),
        ("fractions", ""),
    ],
)
def test_odd_points_are_no_exception(ours, tmp_path, points, options):
    (tmp_path / "data").write_text(ODD[points])
    words = [*options.split(), "-e", "1e-6", "data"]
    _, said, _ = theirs("svm-train", *words, "their.model", cwd=tmp_path)
    code, out, err = ours("svm-train", *words, "our.model")
    assert (code, err) == (0, "")
    np.testing.assert_allclose(numbers(out, "obj"), numbers(said, "obj"), rtol=1e-5)
    first = theirs("svm-predict", "data", "our.model", "their.out", cwd=tmp_path)
    assert first == ours("svm-predict", "data", "our.model", "our.out")
    assert Path("our.out").read_bytes() == Path("their.out").read_bytes()


def test_random_numbers_are_those_of_the_gnu_c_library():
    random = Random()
    # As the manual of `rand` has them for the seed 1.
    first = [1804289383, 846930886, 1681692777, 1714636915, 1957747793, 424238335]
    assert [random() for _ in range(6)] == first


def test_folds_are_stratified():
    y = np.repeat([1.0, 2.0, 3.0], [50, 20, 5])
    folds = folds_of(y, 5, True, Random())
    assert sorted(np.concatenate(folds)) == list(range(75))
    for fold in folds:
        assert np.bincount(y[fold].astype(int))[1:].tolist() == [10, 4, 1]


def test_platt_s_sigmoid_is_where_its_likelihood_is_largest(rng):
    f = rng.normal(size=200)
    sign = np.where(rng.random(200) < 1 / (1 + np.exp(-2 * f + 0.5)), 1.0, -1.0)
    A, B = platt(f, sign)
    above, below = np.sum(sign > 0), np.sum(sign < 0)
    target = np.where(sign > 0, (above + 1) / (above + 2), 1 / (below + 2))
    p = 1 / (1 + np.exp(A * f + B))
    assert abs(f @ (target - p)) < 1e-6 and abs(np.sum(target - p)) < 1e-6
    # Values that tell nothing, or all; and one class alone.
    for values in (np.zeros(6), np.array([3.0, 2, 1, -1, -2, -3]) * 1e6):
        A, B = platt(values, np.repeat([1.0, -1.0], 3))
        assert np.isfinite([A, B]).all() and A <= 0
    assert np.isfinite(platt(np.ones(4), np.ones(4))).all()


TWO = "1 1:1\n-1 1:2\n"


@with_theirs
@looped(
    "text, options, code",
    [
        ("1 1:1\nx 1:2\n", "", 1),
        ("1 1:1\n1 2:1 1:1\n", "", 1),
        ("1 1:a\n", "", 1),
        ("1 a:1\n", "", 1),
        ("1 1:1\n\n-1 1:2\n", "", 1),
        (TWO, "-c 0", 1),
        (TWO, "-c -1", 1),
        (TWO, "-s 5", 1),
        (TWO, "-t 7", 1),
        (TWO, "-g -1", 1),
        (TWO, "-t 1 -d -1", 1),
        (TWO, "-m 0", 1),
        (TWO, "-e 0", 1),
        (TWO, "-s 1 -n 2", 1),
        (TWO + "1 1:3\n1 1:4\n", "-s 1 -n 0.9", 1),
        (TWO, "-s 3 -p -1", 1),
        (TWO, "-h 2", 1),
        (TWO, "-b 2", 1),
        (TWO, "-t 4", 1),
        ("1 0:3 1:1\n-1 0:1 1:2\n", "-t 4", 1),
        (TWO, "-w7 2", 0),
        (TWO, "-v 5", 0),
    ],
)
def test_what_is_wrong_is_said_in_libsvm_s_words(ours, tmp_path, text, options, code):
    (tmp_path / "data").write_text(text)
    words = ["-q", *options.split(), "data", "m"]
    expected = theirs("svm-train", *words, cwd=tmp_path)
    found = ours("svm-train", *words)
    assert expected[0] == found[0] == code and expected[2]
    # Versions differ in whether they name the numbers of folds and of points.
    words, own = (re.sub(r" \(\d+\)", "", text) for text in (expected[2], found[2]))
    assert own.startswith(words)


@with_theirs
@looped(
    "tool, words",
    [
        ("svm-train", ""),
        ("svm-train", "-c"),
        ("svm-train", "-q"),
        ("svm-train", "-x 1 data"),
        ("svm-train", "--what data"),
        ("svm-train", "-v 1 data"),
        ("svm-train", "-c 1"),
        ("svm-predict", ""),
        ("svm-predict", "data model"),
        ("svm-predict", "-z data model out"),
        ("svm-scale", ""),
        ("svm-scale", "-z 1 data"),
        ("svm-scale", "one two"),
        ("svm-scale", "-l 2 data"),
        ("svm-scale", "-y 3 1 data"),
        ("svm-scale", "-s a -r b data"),
        ("svm-scale", "nowhere"),
        ("svm-train", "nowhere"),
        ("svm-predict", "nowhere model out"),
        ("svm-predict", "data nowhere out"),
        ("svm-predict", "data model no/where"),
        ("svm-predict", "-b 1 data model out"),
    ],
)
def test_wrong_command_lines_end_alike(ours, tmp_path, tool, words):
    write_points(tmp_path / "data", n=10, classes=2)
    ours("svm-train", "-q", "data", "model")
    expected = theirs(tool, *words.split(), cwd=tmp_path)
    found = ours(tool, *words.split())
    assert found[0] == 1 == min(abs(expected[0]), 1)
    assert found[2].splitlines()[:1] == expected[2].splitlines()[:1]
    assert found[1].startswith("Usage: ") == expected[1].startswith("Usage: ")


@looped(
    "words", ["-c x data", "-s 1.5 data", "-v two data", "-wx 2 data", "-g 1..2 data"]
)
def test_a_value_that_is_no_number_is_refused(ours, words):
    code, out, err = ours("svm-train", *words.split())
    assert code == 1 and out.startswith("Usage: svm-train") and "needs a" in err


def test_names_and_quiet_are_libsvm_s(ours, tmp_path):
    folder = tmp_path / "deep"
    folder.mkdir()
    write_points(folder / "data.txt", classes=2)
    code, out, _ = ours("svm-train", "-q", "deep/data.txt")
    assert (code, out) == (0, "") and (tmp_path / "data.txt.model").exists()
    model = read_libsvm_model("data.txt.model")
    assert model.gamma == 0.25 and model.label.tolist() == [1, -1]
    assert ours("svm-predict", "-q", "deep/data.txt", "data.txt.model", "o")[1] == ""
    _, out, _ = ours("svm-predict", "deep/data.txt", "data.txt.model", "o")
    assert re.fullmatch(r"Accuracy = [0-9.]+% \(\d+/60\) \(classification\)\n", out)
    assert set(Path("o").read_text().split()) == {"1", "-1"}


def test_probabilities_of_one_class_have_marks_on_both_sides(ours, tmp_path):
    data = write_points(tmp_path / "data")
    assert ours("svm-train", "-q", "-s", 2, "-b", 1, data, "m")[0] == 0
    model = read_libsvm_model("m")
    assert np.sum(model.marks < 0) == 5 and (np.diff(model.marks) > 0).all()
    code, _, _ = ours("svm-predict", "-b", 1, data, "m", "o")
    first, *lines = Path("o").read_text().splitlines()
    p = np.array([line.split() for line in lines], dtype=float)
    assert code == 0 and first == "label normal outlier"
    inside = p[:, 0] > 0
    assert (p[inside, 1] >= 0.5).all() and (p[~inside, 1] <= 0.5).all()
    (tmp_path / "few").write_text("1 1:1\n1 1:2\n1 1:3\n")
    code, _, err = ours("svm-train", "-q", "-s", 2, "-b", 1, "few", "m")
    assert code == 0 and "too few to do a probability estimation" in err
    assert ours("svm-predict", "-b", 1, "few", "m", "o")[0] == 1


def test_weights_price_classes(ours, tmp_path):
    data = write_points(tmp_path / "data", classes=2)
    ours("svm-train", "-q", "-c", "2", "-w-1", "3", "-w1", "0.5", data, "m")
    model = read_libsvm_model("m")
    assert np.isclose(model.coef.max(), 1.0) and np.isclose(model.coef.min(), -6.0)


def test_one_class_alone_is_predicted_everywhere(ours, tmp_path):
    (tmp_path / "data").write_text("3 1:1\n3 1:2\n")
    code, out, _ = ours("svm-train", "data", "m")
    assert code == 0 and "WARNING" in out and "Total nSV = 0" in out
    code, out, _ = ours("svm-predict", "data", "m", "o")
    assert (code, out) == (0, "Accuracy = 100% (2/2) (classification)\n")
    assert Path("o").read_text() == "3\n3\n"


SCALINGS = ["", "-l 0", "-l 0 -u 5", "-y 0 1", "-l -2 -u 3 -y -1 1"]


@with_theirs
@looped("options", SCALINGS)
def test_scaled_files_and_ranges_are_libsvm_s(ours, tmp_path, options):
    write_points(tmp_path / "data", n=40, seed=1)
    with (tmp_path / "data").open("a") as file:
        file.write("1.5 2:7 9:2.5\n-3 9:2.5 12:1e-9\n0.1\n")
    write_points(tmp_path / "test", n=20, seed=2, zeros=0.6)
    with (tmp_path / "test").open("a") as file:
        file.write("1 1:100 7:3 15:2\n")
    words = options.split()
    expected = theirs("svm-scale", *words, "-s", "r1", "data", cwd=tmp_path)
    assert main_bytes(ours, "svm-scale", *words, "-s", "r2", "data") == expected
    assert Path("r1").read_bytes() == Path("r2").read_bytes()
    expected = theirs("svm-scale", "-r", "r1", "test", cwd=tmp_path)
    found = main_bytes(ours, "svm-scale", "-r", "r1", "test")
    assert expected[2].count("WARNING") == found[2].count("WARNING")
    assert found == expected


def main_bytes(ours, tool, *words):
    """As `ours`, of a tool that writes bytes."""
    return ours(tool, *words)


@looped(
    "text",
    ["", "x\n", "z\n1 2\n", "x\n0 1\n1 2\n", "x\n0 1\na 1 2\n", "y\n1\nx\n0 1\n"],
)
def test_a_file_of_ranges_that_is_none_is_refused(ours, tmp_path, text):
    (tmp_path / "r").write_text(text)
    (tmp_path / "data").write_text("1 1:1\n")
    code, _, err = ours("svm-scale", "-r", "r", "data")
    assert code == 1 and err.startswith("ERROR: failed to read scaling parameters\n")


def test_grid_names_the_best_pair(ours, tmp_path):
    data = write_points(tmp_path / "data", n=40, classes=2)
    words = ["-log2c", "-1,3,2", "-log2g", "0,-4,-2", "-v", "4", "-gnuplot", "null"]
    code, out, err = ours("svm-grid", *words, data)
    lines = out.splitlines()
    assert (code, err) == (0, "") and len(lines) == 10
    kept = Path("data.out").read_text().splitlines()
    rates = {}
    for line, said in zip(kept, lines, strict=False):
        c, g, rate = map(float, re.findall(r"=(-?[0-9.]+)", line))
        pattern = (
            rf"\[local\] {c} {g} {rate} \(best c=[0-9.]+, g=[0-9.]+, rate=[0-9.]+\)"
        )
        assert re.fullmatch(pattern, said)
        rates[2**c, 2**g] = rate
    c, g, rate = map(float, lines[-1].split())
    assert rates[c, g] == rate == max(rates.values())
    _, said, _ = ours("svm-train", "-q", "-c", c, "-g", g, "-v", 4, data)
    assert said == f"Cross Validation Accuracy = {rate:g}%\n"
    code, out, _ = ours("svm-grid", *words, "-resume", "data.out", data)
    assert out.count("[resumed]") == 9 and "[local]" not in out
    assert out.splitlines()[-1] == lines[-1]


@looped(
    "words, reason",
    [
        ("", ""),
        ("-c 3 data", "Use -log2c and -log2g."),
        ("-log2c null -log2g null data", "should not be null simultaneously"),
        ("-log2c 1,2 data", "needs begin,end,step"),
        ("-log2c 1,2,0 data", "needs begin,end,step"),
        ("-log2c 0,1,1e-9 data", "more than 10,000"),
        ("nowhere", "dataset not found"),
        ("-svmtrain nowhere data", "svm-train executable not found"),
        ("-resume nowhere -v 5 data", "file for resumption not found"),
    ],
)
def test_grids_that_cannot_be_are_refused(ours, tmp_path, words, reason):
    write_points(tmp_path / "data", n=10, classes=2)
    code, _, err = ours("svm-grid", *words.split())
    assert code == 1 and reason in err


def loaded(*words, cwd):
    """The packages in memory after a tool has run in a process of its own."""
    program = (
        "import json, sys\n"
        "from mercer.cli.libsvm import main\n"
        f"code = main({list(map(str, words))!r})\n"
        "names = {name.split('.')[0] for name in sys.modules}\n"
        "print(json.dumps([code, sorted(names)]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    code, names = json.loads(done.stdout.splitlines()[-1])
    return code, set(names)


def test_help_loads_nothing_that_computes(tmp_path):
    for tool in ("svm-train", "svm-grid"):
        code, names = loaded(tool, "--help", cwd=tmp_path)
        assert code == 0 and not names & {"numpy", "scipy", "sklearn"}


def test_tools_go_without_scikit_learn(tmp_path):
    write_points(tmp_path / "data", classes=3)
    code, names = loaded("svm-train", "-q", "-b", 1, "-v", 3, "data", cwd=tmp_path)
    assert code == 0 and "numpy" in names and "sklearn" not in names


def test_sparse_and_dense_points_make_the_same_machine(ours, tmp_path, monkeypatch):
    data = write_points(tmp_path / "data", classes=3, zeros=0.7)
    ours("svm-train", "-q", "-e", "1e-9", data, "dense.model")
    monkeypatch.setattr("mercer.cli.svm_data.DENSE_MB", 0.0)
    monkeypatch.setattr("mercer.cli.svm_data.DENSE_TIMES", 0.0)
    ours("svm-train", "-q", "-e", "1e-9", data, "sparse.model")
    one, other = read_libsvm_model("dense.model"), read_libsvm_model("sparse.model")
    assert (abs(one.vectors - other.vectors)).nnz == 0
    np.testing.assert_allclose(one.coef, other.coef, atol=1e-6)
    assert sp.issparse(one.vectors)
