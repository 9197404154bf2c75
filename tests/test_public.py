"""The public face: names that load when used, and a README whose snippets run."""

import importlib
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


PACKAGES = [
    "mercer",
    *(f"mercer.{name}" for name in "data densities io kernels machines".split()),
    *(f"mercer.{name}" for name in "solvers theory".split()),
]
NAMES = [
    pytest.param(package, name, id=f"{package.__name__}.{name}")
    for package in map(importlib.import_module, PACKAGES)
    for name in package.__all__
]


def test_public_names_are_there():
    for package, name in (param.values for param in NAMES):
        assert getattr(package, name) is not None, (package, name)
        assert name in dir(package), (package, name)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Mercer'"):
        _ = mercer.Mercer


def test_type_checkers_see_the_same_names():
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "public_names.py", "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_public_name_has_its_place_in_the_coverage_page():
    page = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    missing = [param.id for param in NAMES if f"`{param.values[1]}" not in page]
    assert missing == ["mercer.__version__"]


def test_readme_snippets_run():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    snippets = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(snippets) >= 5
    names: dict = {}
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), names)
