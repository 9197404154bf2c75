"""Many small cases in one test: pytest takes longer to handle a test than they do."""

import copy
import functools
import inspect

import numpy as np
import pytest


def looped(names, cases, ids=None):
    """`pytest.mark.parametrize` in one test, which names every case that fails.

    For cases of a few milliseconds. Several decorators of this kind make all
    combinations. What a fixture gives is copied for each case, as far as cases could
    change it.

    Parameters
    ----------
    names : of the parameters, "kernel, points" or ("kernel", "points")
    cases : a value for each, or values of several parameters, or `pytest.param`
    ids : names of the cases, or a function that gives the name of a value, or None
    """
    together = isinstance(names, str) and "," not in names
    names = names.replace(",", " ").split() if isinstance(names, str) else list(names)
    cases = [_case(given, together) for given in cases]
    assert cases, f"there are no cases of {names}"
    assert all(len(values) == len(names) for values, _ in cases)
    if ids is not None and not callable(ids):
        named = zip(cases, ids, strict=True)
        cases = [(values, own or title) for (values, own), title in named]

    def decorate(test):
        parameters = inspect.signature(test).parameters
        assert set(names) <= set(parameters), f"{test} takes no {names}"

        @functools.wraps(test)
        def loop(**fixtures):
            failures = []
            for number, (values, title) in enumerate(cases):
                given = {name: _own(value) for name, value in fixtures.items()}
                given |= zip(names, values, strict=True)
                try:
                    test(**given)
                except (Exception, pytest.fail.Exception) as error:
                    title = title or _title(values, ids)
                    error.add_note(f"in case {number} of {', '.join(names)}: {title}")
                    failures.append(error)
            if len(failures) == 1:
                raise failures[0]
            if failures:
                title = f"{len(failures)} of {len(cases)} cases"
                raise BaseExceptionGroup(title, failures)

        kept = [own for name, own in parameters.items() if name not in names]
        loop.__signature__ = inspect.Signature(kept)
        del loop.__wrapped__  # pytest would look for parameters there
        return loop

    return decorate


def _case(given, together):
    """The values of a case and its name, None if it has none of its own."""
    if isinstance(given, type(pytest.param())):
        assert not given.marks, "a mark is for a test, not for a part of it"
        return given.values, given.id
    return ((given,) if together else tuple(given)), None


def _title(values, ids):
    parts = [(ids(value) if callable(ids) else None) or repr(value) for value in values]
    return "-".join(part if len(part) < 200 else f"{part[:200]}..." for part in parts)


def _own(value):
    changes = isinstance(value, np.ndarray | np.random.Generator)
    return copy.deepcopy(value) if changes else value
