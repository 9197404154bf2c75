"""explain(machine, X): for each point of X the parts of f(x)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from mercer.data.checks import brief
from mercer.data.points import Points, each
from mercer.explanations.explanation import Explanation, checked_number
from mercer.explanations.functions import Function, chosen, functions_of
from mercer.explanations.items import kind_of
from mercer.explanations.ways import WAYS, found_by

PLACED = ("features", "items")  # ways whose parts are in the letters, nodes or atoms


def explain(
    machine: Any,
    X: Points,
    *,
    by: str | None = None,
    n: int = 10,
    output: str | int | None = None,
    columns: Sequence[str] | None = None,
) -> list[Any]:
    """An `Explanation` of f(x) for each point of X: parts that add up to it.

    With several outputs (pairs of classes, classes against the rest, targets,
    components, squared distances from clusters) a list of one for each.

    Parameters
    ----------
    machine : fitted, with an `expansion_`; a pipeline that ends with one, or a search
        that found one. Of a GaussianProcessClassifier the mean of the latent f is
        explained, before it is made a probability
    by : "features", the coordinates of φ with their places, of kernels with an explicit
        map; "items", the letters, nodes or atoms that these are made of, with their
        shares of features and bias; "coordinates", the Shapley values of columns, of
        products and sums over coordinates such as RBF; "terms", the kernels of a sum;
        "points", those that f is an expansion on. None for the first of these that the
        kernel has but items, term by term
    n : how many parts are listed; the others are summed up in one, `rest`
    output : the number or the name of one output; None for all
    columns : names for the coordinates of vectors; None for those of the fit

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidge, RBF, explain
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> machine = KernelRidge(alpha=0.1, kernel=RBF(1.0)).fit(X, [0.0, 2.0, 0.1, 2.1])
    >>> [explanation] = explain(machine, [[1.0, 0.0]])
    >>> sorted(part.name for part in explanation.parts)
    ['x0', 'x1']
    >>> total = explanation.bias + sum(part.value for part in explanation.parts)
    >>> bool(np.isclose(total, machine.predict([[1.0, 0.0]])[0]))
    True
    """
    n = checked_number(n)
    if by is not None and by not in WAYS:
        raise ValueError(f"by is one of {', '.join(WAYS)}, or None; got {brief(by)}.")
    functions = functions_of(machine, X)
    if columns is not None:
        names = _names_of(functions[0].X, columns)
        functions = [replace(function, columns=names) for function in functions]
    one = len(functions) == 1 and not functions[0].several
    each_function = [
        _explained(function, by, n) for function in chosen(functions, output)
    ]
    out = [list(chain(*some)) for some in zip(*each_function, strict=True)]
    return [some[0] for some in out] if one or output is not None else out


def _explained(function: Function, by: str | None, n: int) -> list[list[Explanation]]:
    """For each point an explanation of each output."""
    totals = function.values()  # first: points that the kernel is not for are named
    found, way = found_by(function, by, n)
    points = each(function.X)
    return [
        [
            Explanation(
                points[i],
                function.outputs[j],
                way,
                float(function.bias[j] + parts.base[j]),
                float(totals[i, j]),
                kind_of(function.kernel) if way in PLACED else "other",
                parts,
                j,
                n,
                function.slope(i, j),
            )
            for j in range(len(function.outputs))
        ]
        for i, parts in enumerate(found)
    ]


def _names_of(X: Points, columns: Sequence[str]) -> list[str]:
    """The names that were given, one for each column of vectors."""
    if isinstance(columns, str):
        raise ValueError(
            f"columns is a list of names, one for each column; got {brief(columns)}."
        )
    names = [str(name) for name in columns]
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if len(shape) == 2 and len(names) != shape[1]:
        raise ValueError(
            f"columns names the {shape[1]} columns of X, each once; got {len(names)} "
            f"names: {brief(names)}."
        )
    return names
