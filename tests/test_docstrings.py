"""Every public name has a `>>>` example in its docstring, and the examples run."""

import doctest
import importlib
import inspect
import sys

import pytest

PACKAGES = [
    "mercer",
    "mercer.data",
    "mercer.densities",
    "mercer.io",
    "mercer.kernels",
    "mercer.machines",
    "mercer.solvers",
    "mercer.theory",
    "mercer.losses",
    "mercer.plots",
]
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def public_objects():
    """The public classes and functions, each once, by where they are defined."""
    found = {}
    for package in map(importlib.import_module, PACKAGES):
        own = [name for name in vars(package) if not name.startswith("_")]
        for name in getattr(package, "__all__", own):
            thing = getattr(package, name)
            home = getattr(thing, "__module__", "")
            defined = inspect.isclass(thing) or inspect.isroutine(thing)
            if defined and home.startswith("mercer"):
                found[f"{home}.{name}"] = thing
    return found


PUBLIC = public_objects()


def examples_of(name, thing):
    """The docstring tests of a name and of its methods; they import what they use."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [
        test
        for test in finder.find(thing, name, module=False, globs={})
        if test.examples
    ]


def test_public_names_have_an_example():
    assert [
        n for n, thing in PUBLIC.items() if ">>>" not in (thing.__doc__ or "")
    ] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_are_true(name):
    for test in examples_of(name, PUBLIC[name]):
        report = []
        runner = doctest.DocTestRunner(verbose=False, optionflags=OPTIONS)
        failures, _ = runner.run(test, out=report.append)
        assert not failures, "".join(report)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def test_a_false_example_is_found():
    def false():
        """
        >>> 1 + 1
        3
        """

    [test] = examples_of("false", false)
    assert doctest.DocTestRunner().run(test, out=lambda text: None).failed == 1


def test_all_packages_are_searched():
    homes = {name.rpartition(".")[0] for name in PUBLIC}
    assert {"mercer.losses", "mercer.kernels.radial", "mercer.outcomes"} <= homes
    assert len(PUBLIC) > 150
