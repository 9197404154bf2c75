"""Every command, run in this process; looks of the terminal are kept as text."""

import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
from looped import looped

import mercer as library
from mercer import (
    RBF,
    SVC,
    SVR,
    KernelRidge,
    NuSVC,
    NuSVR,
    OneClassSVM,
    Sigmoid,
)
from mercer.cli.completion import bash, zsh
from mercer.cli.conversion import as_libsvm, from_libsvm
from mercer.cli.main import COMMANDS, main, make_parser
from mercer.io import libsvm, load, read_csv


def masked(text):
    """A text with # for its numbers, so that it is the same on every computer."""
    text = re.sub(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?", "#", text)
    text = re.sub(r"(# to )?# (ms|s|min)\b", "# s", text)
    return re.sub(r"(/\S*)/", "", text)


TRAINED = """\
data         rings.csv: # points of # numbers
note         # rows of # cells, divided by comma
target       place: # classes: in (#), out (#)
plan         SVC on # points: rows, about # s, # MB
machine      SVC(C=#)
kernel       RBF(gamma=#)
proof        positive semidefinite: e^{-γ‖x‖²} e^{#γ⟨x, y⟩} e^{-γ‖y‖²}: a Conformal \
of an Exp of a scaled Linear
solver       optimal: # steps, # s
certificate  # ≤ optimum ≤ #, gap # (# of it), violation #
support      # of # points
training     accuracy #, balanced accuracy #
validation   accuracy # ± # over # folds, balanced accuracy #
model        model.mercer, # bytes
"""


def test_train_predict_and_evaluate(mercer, rings, tmp_path):
    model, said = tmp_path / "model.mercer", tmp_path / "said.csv"
    trained = ("train", rings, "--target", "place", "--C", "10", "--cv", "3")
    code, out, err = mercer(*trained, "-o", model)
    assert (code, err) == (0, "")
    assert masked(out) == TRAINED
    direct = SVC(C=10, kernel=RBF())
    data = read_csv(rings, "place")
    direct.fit(data.points, data.target)
    code, out, _ = mercer("predict", model, rings, "--values", "-o", said)
    assert code == 0 and "60 predictions" in out
    read = read_csv(said)
    values = np.array([row["value"] for row in read.points])
    np.testing.assert_array_equal(values, direct.decision_function(data.points))
    code, out, _ = mercer("evaluate", model, rings)
    assert code == 0 and "accuracy 1.0000" in out and "true \\ predicted" in out
    _, found, _ = mercer("evaluate", model, rings, "--json")
    assert found["accuracy"] == 1 and found["confusion"] == [[30, 0], [0, 30]]
    _, found, _ = mercer("info", model, "--json")
    assert found["machine"] == "SVC" and found["layout"]["types"]["a"] == "numbers"


def test_train_tells_programs_all_and_says_nothing_when_quiet(mercer, rings, tmp_path):
    words = ("train", rings, "--target", "place", "--no-plan", "--kernel", "RBF(1.0)")
    _, found, err = mercer(*words, "--json")
    assert found["status"] == "optimal" and found["psd"] is True and err == ""
    assert found["certificate"]["gap"] < 0.1 and found["kernel"] == "RBF(gamma=1.0)"
    assert mercer(*words, "--quiet") == (0, "", "")


def test_the_report_is_one_page_that_loads_nothing(mercer, rings, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    page = tmp_path / "report.html"
    code, _, _ = mercer("train", rings, "--target", "place", "--report", page, "-q")
    text = page.read_text(encoding="utf-8")
    assert code == 0 and text.startswith("<!doctype html>")
    assert "prefers-color-scheme: dark" in text and "<svg" in text
    assert text.count("data:image/png;base64,") >= 4  # regions and Gram, both looks
    assert not re.search(r"""(src|href)=["']?(https?:|//)""", text)
    assert "Certificate" in text and "true \\ predicted" in text


def test_numbers_are_learnt_by_any_machine(mercer, rings, tmp_path):
    code, out, _ = mercer(
        "train", rings, "--target", "b", "--drop", "place", "--machine", "KernelRidge",
        "--alpha", "0.1", "--kernel", "RBF(0.5)", "--scale", "standard", "--set",
        "warm_start=True", "-o", tmp_path / "r.mercer",
    )  # fmt: skip
    assert code == 0 and "KernelRidge(alpha=0.1, warm_start=True)" in out
    data = read_csv(rings, "b", drop=["place"])
    X = (data.points - data.points.mean(0)) / data.points.std(0)
    direct = KernelRidge(alpha=0.1, kernel=RBF(0.5)).fit(X, data.target)
    _, found, _ = mercer("predict", tmp_path / "r.mercer", rings, "--json")
    np.testing.assert_allclose(found["prediction"], direct.predict(X), rtol=1e-12)


@pytest.mark.parametrize("scale", ["standard", "range"])
@pytest.mark.parametrize("target, machine", [("place", "SVC"), ("b", "SVR")])
def test_a_model_of_scaled_columns_takes_plain_ones(
    mercer, rings, tmp_path, scale, target, machine
):
    model = tmp_path / "scaled.mercer"
    words = ("train", rings, "--target", target, "--machine", machine, "--no-plan")
    if target == "b":
        words += ("--drop", "place")
    assert mercer(*words, "--scale", scale, "--cv", "3", "-o", model)[0] == 0
    _, found, _ = mercer("predict", model, rings, "--json")
    loaded = load(model)
    drop = ["place"] if target == "b" else []
    points = read_csv(rings, target, drop=drop).points
    assert type(loaded[-1]).__name__ == machine
    np.testing.assert_array_equal(loaded.predict(points), found["prediction"])
    pytest.importorskip("onnx", reason="onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    assert mercer("convert", model, tmp_path / "scaled.onnx")[0] == 0
    session = runtime.InferenceSession(tmp_path / "scaled.onnx")
    [said] = session.run(["predict"], {"X": points})
    if target == "place":
        assert said.tolist() == found["prediction"]
    else:
        np.testing.assert_allclose(said, found["prediction"], rtol=1e-9)


def test_records_and_strings_choose_their_kernels(mercer, tmp_path):
    mixed = tmp_path / "mixed.csv"
    rows = [f"{i},{'red' if i % 2 else 'blue'},{i % 2}" for i in range(20)]
    mixed.write_text("\n".join(["size,colour,y", *rows]))
    model = tmp_path / "mixed.mercer"
    words = ("train", mixed, "--target", "y", "--no-plan")
    code, out, _ = mercer(*words, "-o", model)
    assert code == 0 and "On(field=['size']" in out and "1.0000" in out
    few = tmp_path / "few.csv"
    few.write_text("colour,size\nred,3\n")
    _, found, _ = mercer("predict", model, few, "--json")
    assert found["prediction"] == [1]
    named = ("--kernel", "On('size', RBF(1.0))", "--drop", "colour")
    assert mercer(*words, *named)[0] == 0
    fasta = tmp_path / "s.fa"
    fasta.write_text(
        "".join(f">s{i} c={i % 2}\n{'ACGT'[i % 2 :] * 5}\n" for i in range(8))
    )
    code, out, _ = mercer("train", fasta, "--target", r"c=(\d)", "--no-plan")
    assert code == 0 and "Spectrum" in out and "8 sequences" in out


def test_plan_check_gram_and_info(mercer, rings, tmp_path):
    code, out, _ = mercer("plan", rings, "--target", "place")
    assert code == 0 and "SVC on 60 points" in out and "memory" in out
    _, found, _ = mercer("plan", rings, "--target", "place", "--json")
    assert found["fits"] is True and found["points"] == 60
    code, out, _ = mercer("check", "RBF(1.0) * Linear()")
    assert code == 0 and "is a kernel" in out
    code, out, _ = mercer("check", "Sigmoid(1.0, 1.0)", rings, "--drop", "place")
    assert code == 1 and "Not positive semidefinite" in out
    matrix = tmp_path / "K.npy"
    words = ("gram", rings, "--drop", "place", "--kernel", "RBF(0.5)", "-o")
    assert mercer(*words, matrix)[0] == 0
    X = read_csv(rings, drop=["place"]).points
    np.testing.assert_array_equal(np.load(matrix), RBF(0.5)(X))
    assert mercer(*words, tmp_path / "K.csv")[0] == 0
    np.testing.assert_array_equal(read_csv(tmp_path / "K.csv").points, RBF(0.5)(X))
    code, out, _ = mercer("info", rings, "--target", "place")
    assert code == 0 and "a: numbers" in out and "2 classes" in out


def test_bench_compares_with_the_peers_that_are_there(mercer, rings):
    words = ("bench", rings, "--target", "place", "--kernel", "RBF(0.5)", "--json")
    _, found, _ = mercer(*words)
    [row] = found["rows"]
    assert row["peer"] == "scikit-learn" and row["agreement"] == 1 and row["ratio"] > 0


@looped("classes", [2, 3])
def test_models_of_libsvm_are_converted_both_ways(classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.digitize(X[:, 0], [0.0] if classes == 2 else [-0.5, 0.5])
    machines = [
        SVC(kernel=RBF(0.5), C=5),
        SVC(kernel="poly", coef0=1.0),
        NuSVC(kernel="linear", nu=0.2),
    ]
    for machine in machines:
        machine.fit(X, y)
        model = as_libsvm(machine, libsvm)
        assert model.predict(X).tolist() == machine.predict(X).tolist()
        again = from_libsvm(model)
        np.testing.assert_allclose(
            again.decision_function(X), machine.decision_function(X), atol=1e-9
        )
        assert again.predict(X).tolist() == machine.predict(X).tolist()


def test_models_of_one_f_are_converted_both_ways():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + 0.1
    kernel = Sigmoid(0.1, 0.5)
    for machine in (SVR(kernel=kernel), NuSVR(kernel="rbf"), OneClassSVM(nu=0.3)):
        machine.fit(X, y)
        f = getattr(machine, "decision_function", machine.predict)
        model = as_libsvm(machine, libsvm)
        np.testing.assert_allclose(model.values(X).ravel(), f(X), atol=1e-9)
        again = from_libsvm(model)
        np.testing.assert_allclose(again.predict(X), machine.predict(X), atol=1e-9)
    with pytest.raises(ValueError, match="LIBSVM has no KernelRidge"):
        as_libsvm(KernelRidge().fit(X, y), libsvm)
    with pytest.raises(ValueError, match="LIBSVM has no kernel"):
        as_libsvm(SVR(kernel=RBF(1.0) + RBF(2.0)).fit(X, y), libsvm)


def test_convert_writes_what_the_suffix_says(mercer, rings, tmp_path):
    model, text = tmp_path / "m.mercer", tmp_path / "m.model"
    words = ("train", rings, "--target", "b", "--drop", "place", "--no-plan", "-q")
    assert mercer(*words, "--kernel", "RBF(0.5)", "-o", model)[0] == 0
    assert mercer("convert", model, text)[0] == 0
    assert text.read_text().startswith("svm_type epsilon_svr")
    code, _, _ = mercer("convert", text, tmp_path / "back.mercer")
    assert code == 0
    X = read_csv(rings, "b", drop=["place"]).points
    machines = [library.load(p) for p in (model, tmp_path / "back.mercer")]
    np.testing.assert_allclose(
        machines[0].predict(X), machines[1].predict(X), atol=1e-9
    )
    code, _, err = mercer("convert", model, tmp_path / "m.pmml")
    assert code == 1 and "--to" in err


@looped(
    "words, reason",
    [
        (
            ["train", "nothing.csv"],
            "nothing.csv: There is no such file. Check the name",
        ),
        (
            ["train", "{}"],
            "has no target yet: name it with --target. Its columns are a",
        ),
        (["train", "{}", "--target", "z"], "no column 'z' for target"),
        (["train", "{}", "--target", "place", "--machine", "SVX"], "Did you mean SV"),
        (["train", "{}", "--target", "place", "--kernel", "RBF(-1)"], "gamma > 0"),
        (["train", "{}", "--target", "place", "--kernel", "RBG(1)"], "RBG"),
        (
            ["train", "{}", "--target", "place", "--set", "cc=1"],
            "has no parameter 'cc'",
        ),
        (["train", "{}", "--target", "place", "--alpha", "1"], "no parameter 'alpha'"),
        (["train", "{}", "--target", "place", "--machine", "SVR"], "learns numbers"),
        (["train", "{}", "--target", "place", "-o", "/no/m"], "There is no folder /no"),
        (["train", "{}", "--target", "place", "--resume"], "--checkpoint FILE"),
        (["train", "{}", "--target", "place", "--cv", "40"], "40 points of each class"),
        (["predict", "{}", "{}"], "rings.csv"),
        (["check", "RBF("], "Cannot read the text"),
        (["train", "{}", "--labels", "x"], "--labels is not for files"),
    ],
)
def test_errors_are_one_line_with_the_remedy(mercer, rings, words, reason):
    code, _, err = mercer(*(word.format(rings) for word in words), *(["-q"]))
    assert code == 1 and err.startswith("mercer: ") and err.count("\n") == 1
    assert reason in err


def test_the_tools_of_libsvm_are_commands_too(capsys):
    assert main(["svm-train"]) == 1
    assert "svm-train" in capsys.readouterr().out


def test_debug_shows_where_an_error_arose(rings):
    with pytest.raises(ValueError, match="no column 'z'"):
        main(["train", str(rings), "--target", "z", "--debug"])


@looped(
    "words",
    [
        [],
        ["train"],
        ["nothing"],
        ["train", "x", "--cv", "1"],
        ["train", "x", "--every", "soon"],
        ["train", "x", "--tar", "y"],
    ],
)
def test_wrong_usage_ends_with_2(capsys, words):
    assert main(words) == 2
    assert "usage: mercer" in capsys.readouterr().err


def test_every_command_has_help_and_a_module(capsys):
    for name in COMMANDS:
        assert main([name, "--help"]) == 0
        assert f"usage: mercer {name}" in capsys.readouterr().out
    names = next(a for a in make_parser()._actions if a.dest == "command").choices
    assert set(names) == set(COMMANDS)


def test_completion_knows_all_commands_and_options():
    for text in (bash(), zsh()):
        for word in ("train", "svm-train", "--checkpoint", "--json", "standard"):
            assert word in text


@pytest.mark.parametrize("shell, text", [("bash", bash()), ("zsh", zsh())])
def test_shells_read_the_completion(shell, text):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-n"], input=text, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")


@looped(
    "words, found",
    [
        (["tra"], ["train"]),
        (["train", "--sc"], ["--scale"]),
        (["train", "--scale", ""], ["none", "standard", "range"]),
        (["train", "my"], ["my data.csv"]),
        (["convert", "--to", "o"], ["onnx"]),
        (["svm-train", "my"], ["my data.csv"]),
    ],
)
def test_bash_completes(tmp_path, words, found):
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    (tmp_path / "my data.csv").touch()
    script = bash() + (
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mercer\n'
        "printf '%s\\n' \"${COMPREPLY[@]}\"\n"
    )
    done = subprocess.run(
        ["bash", "-c", script, "bash", "mercer", *words],
        capture_output=True, text=True, cwd=tmp_path, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == found


def test_zsh_completes(tmp_path):
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    # What completes is called as zsh would, with its own functions replaced by print.
    script = zsh().replace("#compdef mercer", "") + (
        "_describe() { print -l $commands }\n"
        '_arguments() { print -l -- "$@" }\n_files() { print files }\n'
        'words=("$@"); CURRENT=$#; _mercer\n'
    )
    script = "compdef() { }\n" + script

    def completed(*words):
        done = subprocess.run(
            ["zsh", "-fc", script, "zsh", "mercer", *words],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.splitlines()

    assert "train:learn a machine from a file of data" in completed("")
    found = completed("train", "--")
    assert any(line.endswith(":scale:(none standard range)") for line in found)
    assert any(line.startswith("--output[the model file]:") for line in found)
    assert completed("svm-train", "") == ["files"]


def test_help_loads_neither_numpy_nor_scipy():
    code = (
        "import sys\nfrom mercer.cli.main import main\n"
        "assert main(['--help']) == 0 and main(['train', '--help']) == 0\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "assert not loaded & {'numpy', 'scipy', 'sklearn', 'rich'}, loaded"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "learn a machine" in done.stdout


def test_explain_shows_parts_that_add_up(mercer, rings, tmp_path):
    model, page = tmp_path / "model.mercer", tmp_path / "page.html"
    assert mercer("train", rings, "--target", "place", "-o", model, "-q")[0] == 0
    code, out, err = mercer("explain", model, rings, "--points", "2")
    assert (code, err) == (0, "")
    assert out.count("for out against in, 2 parts by coordinates") == 2
    code, found, _ = mercer("explain", model, rings, "--json", "--html", page)
    assert code == 0 and len(found["explanations"]) == 5
    data = read_csv(rings, "place")
    values = library.load(model).decision_function(data.points[:5])
    for one, value in zip(found["explanations"], values, strict=True):
        total = one["bias"] + sum(part["value"] for part in one["parts"])
        np.testing.assert_allclose([total, one["total"]], value, atol=1e-9)
        assert {part["name"] for part in one["parts"]} == {"a", "b"}
    text = page.read_text()
    assert text.count("<h2>") == 5 and text.count("data:image/png") == 10
    code, _, err = mercer("explain", model, rings, "--by", "features")
    assert code == 1 and 'use by="coordinates"' in err
    assert mercer("explain", model, rings, "--parts", "0")[0] == 2


def test_tune_tries_kernels_and_writes_the_best(mercer, rings, tmp_path):
    model, scores = tmp_path / "best.mercer", tmp_path / "scores"
    words = ("tune", rings, "--target", "place", "--cv", "3", "--json")
    tried = ("--try", "C=1,10", "--try", "kernel=RBF(0.5),Linear()")
    code, found, err = mercer(*words, *tried, "--resume", scores, "-o", model)
    assert (code, err) == (0, "")
    assert found["tried"] == 4 and len(found["results"]) == 4
    assert found["best_params"]["kernel"] == "RBF(gamma=0.5)"
    assert found["best_score"] == 1.0
    best = library.load(model)
    assert best.kernel == RBF(0.5) and best.C == found["best_params"]["C"]
    code, _judged, _ = mercer("evaluate", model, rings, "--json")
    assert code == 0
    assert len(scores.read_bytes().splitlines()) == 1 + 4 * 3
    code, again, _ = mercer(*words, *tried, "--resume", scores)
    assert code == 0 and again["results"] == found["results"]
    code, _other, _ = mercer(*shlex.split(found["train"])[1:], "--json")
    assert code == 0


def test_tune_has_kernels_and_numbers_of_its_own(mercer, rings):
    words = ("tune", rings, "--target", "place", "--cv", "2", "--json", "--draw", "5")
    code, found, _ = mercer(*words, "--C", "3")
    assert code == 0 and found["tried"] == 5
    assert set(found["best_params"]) == {"kernel"}
    code, _, err = mercer("tune", rings, "--target", "place", "--try", "kernel=")
    assert code == 1 and "--try needs NAME=VALUE" in err
    code, _, err = mercer("tune", rings, "--target", "place", "--try", "D=1,2")
    assert code == 1 and "no parameter 'D'" in err
