"""Every page of the site runs: its `>>>` lines are true, its code and pictures work."""

import ast
import bz2
import contextlib
import doctest
import importlib
import importlib.util
import io
import os
import re
import shlex
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from mercer.cli import libsvm
from mercer.cli.main import main
from mercer.solvers import Status

DATA = os.environ.get("MERCER_DATA") or (
    Path(__file__).resolve().parents[2] / "shared" / "data"
)
DOCS = Path(__file__).parent.parent / "docs"
LEFT_OUT = {"decisions", "gallery", "_build"}
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if not LEFT_OUT & set(page.relative_to(DOCS).parts)
)
AS_THEY_ARE = {"changelog", "contributing"}  # files of the repository
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
each_page = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: str(page.relative_to(DOCS).with_suffix(""))
)


class Block(NamedTuple):
    """A fenced block: what stands after its fence, its lines, and where they begin."""

    info: str
    code: str
    line: int


def blocks(text, line=0):
    """The fenced blocks of a page in their order, also those inside of directives."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        opened = re.match(r"\s*(`{3,}|~{3,})\s*([^`]*)$", lines[at])
        at += 1
        if not opened:
            continue
        fence, info = opened[1], opened[2].strip()
        end = at
        closed = re.compile(rf"\s*{fence[0]}{{{len(fence)},}}\s*$")
        while end < len(lines) and not closed.match(lines[end]):
            end += 1
        body = textwrap.dedent("\n".join(lines[at:end])) + "\n"
        if re.match(r"\{(?!plot|code)", info):
            yield from blocks(body, line + at)
        else:
            yield Block(info, body, line + at)
        at = end + 1


def runnable(page):
    """The blocks of a page that are Python."""
    found = list(blocks(page.read_text(encoding="utf-8")))
    return [block for block in found if block.info in ("python", "{plot}")]


def run_page(page):
    """Run a page from top to bottom; what was wrong with its `>>>` lines, as text.

    The page has one namespace, but a picture is on its own unless it has `:context:`,
    as where the site is built.
    """
    report = []
    names = {"__name__": "__main__"}
    drawn = {}
    runner = doctest.DocTestRunner(verbose=False, optionflags=OPTIONS)
    for block in runnable(page):
        if lacking(block):
            continue
        if block.info == "{plot}":
            run_plot(block, page, drawn)
        elif ">>>" in block.code:
            test = doctest.DocTestParser().get_doctest(
                block.code, names, page.stem, str(page), block.line
            )
            runner.run(test, out=report.append, clear_globs=False)
            names |= test.globs
        else:
            run_code(block.code, page, block.line, names)
    return "".join(report)


def lacking(block):
    """The packages that a block needs, tests can do without, and that are absent."""
    needed = ("onnx", "onnxruntime") if "onnxruntime" in block.code else ()
    return [name for name in needed if importlib.util.find_spec(name) is None]


def run_plot(block, page, drawn):
    """Run a picture: `drawn` holds the names of those with a context."""
    plt = pytest.importorskip(
        "matplotlib.pyplot", reason="pages draw with matplotlib: install mercer[plot]"
    )
    plt.switch_backend("Agg")
    options = re.match(r"(\s*:[\w-]+:.*\n)*", block.code)[0]
    context = re.search(r":context:[ ]*([\w-]*)", options)
    if context and context[1] == "reset":
        drawn.clear()
    plt.close("all")
    names = drawn if context else {}
    if not names:
        run_code("import numpy as np\nimport matplotlib.pyplot as plt", page, 0, names)
    code, line = block.code[len(options) :], block.line + options.count("\n")
    with plt.rc_context():
        run_code(code, page, line, names)
    assert plt.get_fignums(), f"line {line} draws nothing"


def run_code(code, page, line, names):
    exec(compile("\n" * line + code, str(page), "exec"), names)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """An empty working directory, one thread of BLAS, and no figures left behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    with threadpool_limits(1):
        yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@each_page
def test_page_runs(page):
    if "import dask" in page.read_text(encoding="utf-8"):
        pytest.importorskip("distributed", reason="the extra dask is not installed")
    assert run_page(page) == ""


@each_page
def test_page_has_a_picture_or_a_runnable_line(page):
    text = page.read_text(encoding="utf-8")
    picture = re.search(r"!\[|\{image\}|\{figure\}|\{benchmark\}|<img", text)
    # The examples of names in the reference run in test_docstrings.py.
    reference = re.search(r"auto(summary|class|function|module)", text)
    assert runnable(page) or picture or reference or page.stem in AS_THEY_ARE


def not_run(text):
    """What names Python after its fence, but not as `runnable` wants it."""
    named = [block.info for block in blocks(text) if re.search(r"\bi?py", block.info)]
    return [info for info in named if info != "python"]


@each_page
def test_all_python_of_a_page_is_run(page):
    assert not_run(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("info", ["pycon", "python3", "{code-block} python", "ipython"])
def test_python_that_is_not_run_is_found(info):
    assert not_run(f"```{info}\n>>> 1\n```\n") == [info]


class Command(NamedTuple):
    """A line for the shell, and the lines that the page shows under it."""

    line: str
    shown: str


def commands(text):
    """The commands of a page, in their order, but for those that install."""
    found = []
    for block in blocks(text):
        if block.info == "sh":
            found += [Command(line, "") for line in block.code.splitlines() if line]
        elif block.info == "console":
            for line, shown in re.findall(
                r"^\$ (.+\n)((?:(?!\$ ).*\n)*)", block.code, re.M
            ):
                found.append(Command(line.strip(), shown))
    return [one for one in found if not one.line.startswith("pip ")]


def run_command(line):
    """What a command prints; it is called in this process, and has to succeed."""
    line, _, file = (part.strip() for part in line.partition(" > "))
    name, *arguments = shlex.split(line)
    raw = io.BytesIO()
    said = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(said):
        if name == "mercer":
            code = main(arguments)
        else:
            code = libsvm.main([name.removeprefix("mercer-"), *arguments])
    assert not code, line
    if file:
        Path(file).write_bytes(raw.getvalue())
        return ""
    return raw.getvalue().decode()


def a_table(n, target=True):
    """Rows of a, b and y = "yes" where a and b have one sign."""
    values = np.random.default_rng(n).normal(size=(n, 2))
    rows = [
        f"{a:.4f},{b:.4f}" + (f",{'yes' if a * b > 0 else 'no'}" if target else "")
        for a, b in values
    ]
    return "\n".join(["a,b,y" if target else "a,b", *rows]) + "\n"


@pytest.fixture
def files_of_the_pages():
    """What the commands of the pages read, in the working directory."""
    for name, n in ("data", 60), ("test", 20):
        Path(f"{name}.csv").write_text(a_table(n))
    Path("new.csv").write_text(a_table(5, target=False))
    heart = Path(DATA, "heart_scale.svm.bz2")
    if heart.exists():
        Path("heart").write_bytes(bz2.decompress(heart.read_bytes()))


WITH_COMMANDS = [page for page in PAGES if commands(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_commands_of_a_page_run(page, files_of_the_pages):
    text = page.read_text(encoding="utf-8")
    if " heart" in text and not Path("heart").exists():
        pytest.skip("heart_scale.svm.bz2 is not in MERCER_DATA")
    checker = doctest.OutputChecker()
    for line, shown in commands(text):
        said = run_command(line)
        # Where a page shows nothing, a command may say something all the same.
        assert not shown or checker.check_output(shown, said, OPTIONS), (line, said)


def test_pages_with_commands_are_found():
    assert {page.stem for page in WITH_COMMANDS} >= {"command", "libsvm_tools"}


def test_a_command_that_fails_is_found():
    with pytest.raises(AssertionError, match="mercer predict"):
        run_command("mercer predict nothing.mercer nothing.csv")


def test_commands_are_taken_apart():
    text = "```console\n$ a > b\nsaid\nmore\n$ pip install c\n```\n```sh\nd\n```\n"
    assert commands(text) == [("a > b", "said\nmore\n"), ("d", "")]


@each_page
def test_blocks_that_are_not_run_are_known(page):
    """Code in a language without a test would be shown; bare fences are results."""
    known = {"python", "{plot}", "sh", "console", ""}
    found = {
        block.info
        for block in blocks(page.read_text(encoding="utf-8"))
        if not block.info.startswith("{")
    }
    assert found <= known


def test_pages_are_found():
    assert PAGES


def test_every_public_name_is_in_the_reference():
    pages = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    listed = set(re.findall(r"^   (\w+)$", pages, re.MULTILINE))
    public = {
        name
        for module in (
            "",
            ".data",
            ".densities",
            ".io",
            ".paths",
            ".plots",
            ".solvers",
            ".theory",
        )
        for name in importlib.import_module(f"mercer{module}").__all__
        if not name.startswith("_")
    }
    modules = {
        "data",
        "densities",
        "io",
        "losses",
        "paths",
        "planning",
        "plots",
        "solvers",
        "theory",
    }
    assert public - modules - listed == set()


def test_every_departure_has_its_reason():
    text = (DOCS / "departures.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split("|") for line in text.splitlines() if "|" in line]
    assert len(rows) > 40
    assert [row[0] for row in rows if not row[3].strip()] == []


GUIDE = (DOCS / "guide" / "certificates.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("status", list(Status), ids=str)
def test_every_status_is_explained(status):
    assert re.search(rf"^\| [^|]*`{status}`", GUIDE, flags=re.MULTILINE)


def strings_in(call):
    """The text of a message in the source, without what is put into it."""
    parts = (part.value for part in ast.walk(call) if isinstance(part, ast.Constant))
    return " ".join("".join(part for part in parts if isinstance(part, str)).split())


def test_every_warning_of_the_library_is_explained():
    """Those of a status by its row, each other one by words of its own."""
    explained = re.findall(r'^\| "(.+?)"', GUIDE, flags=re.MULTILINE)
    calls = [
        strings_in(call)
        for file in (DOCS.parent / "src" / "mercer").rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "warnings.warn"
    ]
    of_a_status = [text for text in calls if not text]
    assert len(of_a_status) == 1
    for text in set(calls) - set(of_a_status):
        assert sum(words in text for words in explained) == 1, text


PAGE = """
# Title

```python
>>> a = 1
>>> a + 1
{sum}
```

:::{{dropdown}} Solution
```python
b = a + 1
assert b == {b}
```
:::

````{{note}}
```{{plot}}
:alt: A line.
:context: reset

c = plt.plot([0, 1])
```
````

```{{plot}}
:context:
plt.plot([1, 0])
assert len(c) == {lines}
```
"""


def written(folder, **values):
    page = folder / "page.md"
    page.write_text(PAGE.format(**{"sum": 2, "b": 2, "lines": 1} | values))
    return page


def test_a_true_page_passes(tmp_path):
    pytest.importorskip("matplotlib")
    assert run_page(written(tmp_path)) == ""


def test_a_false_doctest_in_a_page_is_found(tmp_path):
    pytest.importorskip("matplotlib")
    report = run_page(written(tmp_path, sum=3))
    assert "line 6" in report and "Expected:\n    3" in report


@pytest.mark.parametrize("false", [{"b": 3}, {"lines": 2}])
def test_false_code_in_a_page_is_found(tmp_path, false):
    pytest.importorskip("matplotlib")
    with pytest.raises(AssertionError):
        run_page(written(tmp_path, **false))
