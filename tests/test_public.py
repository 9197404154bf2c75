"""The public face: names that load when used, and a README whose snippets run."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mercer

ROOT = Path(__file__).parents[1]
SOURCE = Path(mercer.__file__).parent


def test_importing_the_package_imports_nothing_heavy():
    code = "import mercer, sys; print(*sorted(sys.modules))"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in output.stdout.split()}
    assert not loaded & {"numpy", "scipy", "sklearn", "narwhals", "matplotlib"}


@pytest.mark.parametrize("name", mercer.__all__)
def test_public_name_is_there(name):
    assert getattr(mercer, name) is not None
    assert name in dir(mercer)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Mercer'"):
        _ = mercer.Mercer


def test_type_checkers_see_the_same_names():
    tree = ast.parse((SOURCE / "__init__.pyi").read_text(encoding="utf-8"))
    imported = {
        alias.asname
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == set(mercer.__all__) - {"__version__"}


def test_every_public_name_has_its_place_in_the_coverage_page():
    page = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    missing = [name for name in mercer.__all__ if f"`{name}" not in page]
    assert missing == ["__version__"]


def test_readme_snippets_run():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    snippets = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(snippets) >= 5
    names: dict = {}
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), names)
