"""explain(machine, X): for each point of X the parts of f(x)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mercer.data.checks import brief
from mercer.data.points import Points, each
from mercer.explanations.explanation import Explanation, checked_number
from mercer.explanations.functions import function_of
from mercer.explanations.ways import WAYS, found_by
from mercer.kernels.algebra import On
from mercer.kernels.base import Kernel
from mercer.kernels.graph import ShortestPath, WeisfeilerLehman
from mercer.kernels.string import Subsequence, WeightedDegree
from mercer.kernels.substring import Mismatch, Spectrum, WeightedSubstrings
from mercer.kernels.tree import MatchingNodes, Subtree, TaggedTree


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
    machine : fitted, with an `expansion_`; or a pipeline that ends with one
    by : "features", the coordinates of φ with their places, of kernels with an explicit
        map; "coordinates", the Shapley values of columns, of products and sums over
        coordinates such as RBF; "terms", the kernels of a sum; "points", those that f
        is an expansion on. None for the first of these that the kernel has, term by
        term
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
    function = function_of(machine, X)
    if columns is not None:
        function = replace(function, columns=[str(name) for name in columns])
    several = function.several and output is None
    function = function.only(output)
    found, way = found_by(function, by, n)
    totals = function.values()
    points = each(function.X)
    out: list[Any] = []
    for i, parts in enumerate(found):
        some = [
            Explanation(
                points[i],
                function.outputs[j],
                way,
                float(function.bias[j] + parts.base[j]),
                float(totals[i, j]),
                kind_of(function.kernel) if way == "features" else "other",
                parts,
                j,
                n,
                function.slope(i, j),
            )
            for j in range(len(function.outputs))
        ]
        out.append(some if several else some[0])
    return out


def kind_of(kernel: Kernel) -> str:
    """What the items of points of a kernel are."""
    kinds = {kind for some, kind in _KINDS if isinstance(kernel, some)}
    if isinstance(kernel, On):  # items of one field of a record
        return "other"
    kinds |= set() if kinds else {kind_of(child) for child in kernel.children()}
    return kinds.pop() if len(kinds) == 1 else "other"


_KINDS: tuple[tuple[Any, str], ...] = (
    (Spectrum | Mismatch | WeightedSubstrings, "sequence"),
    (Subsequence | WeightedDegree, "sequence"),
    (Subtree | MatchingNodes | TaggedTree, "tree"),
    (WeisfeilerLehman | ShortestPath, "graph"),
)
