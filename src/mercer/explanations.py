"""Explanations: f(x) as a sum of parts that can be read, with nothing left over.

explain(machine, X)   for each point the parts of f, by features, coordinates or points
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from mercer import _html, plots
from mercer.contributions.features import by_features, has_features
from mercer.contributions.models import Model, OnFeatures, OnPoints
from mercer.contributions.parts import Described, Found, Part
from mercer.contributions.shapley import by_coordinates, has_coordinates
from mercer.data.blocks import Blocks
from mercer.data.points import (
    Points,
    as_points,
    brief,
    count,
    double,
    each,
    take,
)
from mercer.kernels.algebra import On
from mercer.kernels.base import Kernel, Scaled, Sum
from mercer.kernels.graph import ShortestPath, WeisfeilerLehman
from mercer.kernels.slopes import slopes, slopes_of_square
from mercer.kernels.string import Subsequence, WeightedDegree
from mercer.kernels.substring import Mismatch, Spectrum, WeightedSubstrings
from mercer.kernels.tree import MatchingNodes, Subtree, TaggedTree
from mercer.kernels.vector import is_vectors
from mercer.machines.base import Machine
from mercer.maps import WITH_A_MAP, FeatureExpansion, dense_columns

WAYS = ("features", "coordinates", "terms", "points")
LONGEST_NAME = 60  # letters of a name in a table
SHOWN_PLACES = 4  # of a part, in a table
MOST_NUMBERS = 2**26  # of an explicit map that is made without being asked for


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """f(x) = bias + Σ values of the parts, for one point and one output of a machine.

    Parameters
    ----------
    point : x
    output : which function it is: "EI against N" is positive for EI; empty where there
        is only one
    by : what the parts are: "features", "coordinates", "terms" or "points"
    bias : what f is before any part counts
    total : f(x), as the machine computes it
    kind : "sequence", "tree" or "graph" of points whose items are tokens or nodes; else
        "other"

    Attributes
    ----------
    parts : the largest, by size, and the sum of all others as `rest`, where there are
        more than were asked for
    n_parts : how many there are in all; None where not all were looked at
    gradient : (d,) array, ∂f/∂x of vectors; None of other points

    Examples
    --------
    >>> from mercer import SVC, Spectrum, explain
    >>> X, y = ["abab", "baba", "bbaa", "aabb"], [1, 1, 0, 0]
    >>> machine = SVC(kernel=Spectrum(2), C=10).fit(X, y)
    >>> [explanation] = explain(machine, ["abb"])
    >>> print(explanation)
    f(x) = -0.5 for 1 against 0, 2 parts by features
            +0.5  substring 'ab'  at 0-1
            -0.5  substring 'bb'  at 1-2
            -0.5  bias
    """

    point: Any
    output: str
    by: str
    bias: float
    total: float
    kind: str
    _found: Found = field(repr=False)
    _column: int = 0
    _n: int = 10
    _slope: Callable[[], np.ndarray | None] = field(default=lambda: None, repr=False)

    @property
    def n_parts(self) -> int | None:
        """How many parts there are in all; None where not all were looked at."""
        return None if self._found.rest[self._column] else len(self._values)

    @property
    def _values(self) -> np.ndarray:
        return self._found.values[:, self._column]

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The largest parts, and `rest`, the sum of the others."""
        values = self._values
        order = np.argsort(-np.abs(values), kind="stable")
        chosen, others = order[: self._n], order[self._n :]
        out = [self._part(j) for j in chosen.tolist()]
        unlisted = float(self._found.rest[self._column])
        if len(others) or unlisted:
            out.append(Part("rest", float(values[others].sum()) + unlisted))
        return tuple(out)

    def _part(self, j: int) -> Part:
        name, places = self._found.described(j)
        return Part(name, float(self._values[j]), places)

    def top(self, n: int) -> Explanation:
        """The same with the n largest of the parts that were found."""
        return replace(self, _n=_checked_number(n))

    @cached_property
    def gradient(self) -> np.ndarray | None:
        """∂f/∂x of vectors; None of other points."""
        return self._slope()

    @cached_property
    def items(self) -> dict[Any, float]:
        """What each token, node or column adds to f(x), of all parts that have places.

        Where not all parts were looked at (`n_parts` is None), of the heaviest.
        A part is divided over its places by their shares, a place evenly over its
        items.
        """
        out: dict[Any, float] = {}
        for j in range(len(self._values)):
            part = self._part(j)
            for place in part.places:
                for item in place.items:
                    share = part.value * place.share / len(place.items)
                    out[item] = out.get(item, 0.0) + share
        return out

    def plot(self, ax: Any = None) -> Any:
        """The point coloured by `items`, or bars of the parts: a `Display`.

        Strings, trees and graphs are drawn; of other points the parts are.
        """
        return plots.plot_explanation(self, ax)

    def rows(self) -> list[tuple[str, str, str]]:
        """Value, name and places of each part, the bias last, as text."""
        table = [
            (f"{part.value:+.4g}", _short(part.name), place_text(part, self.kind))
            for part in self.parts
        ]
        return [*table, (f"{self.bias:+.4g}", "bias", "")]

    def heading(self) -> str:
        """f(x), and which function it is."""
        name = f" for {self.output}" if self.output else ""
        return f"f(x) = {self.total:.4g}{name}"

    def _title(self) -> str:
        number = self.n_parts
        of = "the heaviest parts" if number is None else f"{number:,} parts"
        return f"{self.heading()}, {of} by {self.by}"

    def __str__(self) -> str:
        rows = self.rows()
        width = min(LONGEST_NAME, max(len(name) for _, name, _ in rows))
        lines = [
            f"{value:>12}  {name:<{width}}  {places}".rstrip()
            for value, name, places in rows
        ]
        return "\n".join([self._title(), *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(name, value, places) for value, name, places in self.rows()]
        return _html.table(rows, [self._title()])


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def place_text(part: Part, kind: str) -> str:
    """The places of a part, such as "at 3-5, 9-11"; columns have names instead."""
    some = part.places[:SHOWN_PLACES]
    of_fields = any(isinstance(item, tuple) for p in some for item in p.items)
    if not some or (kind == "other" and not of_fields):
        return ""
    if part.name.endswith(f" at {some[0].items[0]}"):  # a name that says it
        return ""
    texts = [_items_text(place.items) for place in some]
    more = f", … ({len(part.places)} places)" * (len(part.places) > SHOWN_PLACES)
    return f"at {', '.join(texts)}{more}"


def _items_text(items: tuple[Any, ...]) -> str:
    fields = {item[0] for item in items if isinstance(item, tuple)}
    if len(fields) == 1 and all(isinstance(item, tuple) for item in items):
        return _items_text(tuple(item[1] for item in items))
    whole = len(items) > 1 and all(isinstance(item, int) for item in items)
    if whole and items == tuple(range(items[0], items[0] + len(items))):
        return f"{items[0]}-{items[-1]}"
    return " ".join(map(str, items))


# From a machine to its parts


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
    n = _checked_number(n)
    if by is not None and by not in WAYS:
        raise ValueError(f"by is one of {', '.join(WAYS)}, or None; got {brief(by)}.")
    function = _function(machine, X)
    if columns is not None:
        function = replace(function, columns=[str(name) for name in columns])
    several = function.several and output is None
    function = function.only(output)
    found, way = _found(function, by, n)
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
                _kind(function.kernel) if way == "features" else "other",
                parts,
                j,
                n,
                function.slope(i, j),
            )
            for j in range(len(function.outputs))
        ]
        out.append(some if several else some[0])
    return out


def _kind(kernel: Kernel) -> str:
    """What the items of points of a kernel are."""
    kinds = {kind for some, kind in _KINDS if isinstance(kernel, some)}
    if isinstance(kernel, On):  # items of one field of a record
        return "other"
    kinds |= set() if kinds else {_kind(child) for child in kernel.children()}
    return kinds.pop() if len(kinds) == 1 else "other"


_KINDS: tuple[tuple[Any, str], ...] = (
    (Spectrum | Mismatch | WeightedSubstrings, "sequence"),
    (Subsequence | WeightedDegree, "sequence"),
    (Subtree | MatchingNodes | TaggedTree, "tree"),
    (WeisfeilerLehman | ShortestPath, "graph"),
)


def _checked_number(n: Any) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n is how many parts are listed, 1 or more; got {brief(n)}.")
    return int(n)


@dataclass(frozen=True, eq=False)
class _Function:
    """f(x) = square · k(x, x) + Σᵢ coefᵢ k(xᵢ, x) + bias, and the points to explain.

    Parameters
    ----------
    f : what has its values, without the square
    bias : (c,) array
    measured : whose k(x, x) it is
    """

    f: Any
    X: Points
    coef: np.ndarray
    bias: np.ndarray
    outputs: list[str]
    several: bool
    columns: list[str] | None
    names: Callable[[int], str]
    square: float = 0.0
    measured: Kernel | None = None
    chosen: tuple[int, ...] | None = None

    @property
    def kernel(self) -> Kernel:
        return self.f.kernel

    @cached_property
    def model(self) -> Model:
        if isinstance(self.f, FeatureExpansion):
            known = dict(zip(self.f.keys, self.coef, strict=True))
            return OnFeatures(known, self.coef.shape[1])
        return OnPoints(double(self.f.points), self.coef)

    def squares(self) -> np.ndarray:
        """square · k(x, x) of the points."""
        if not self.square or self.measured is None:
            return np.zeros(count(self.X))
        return self.square * np.asarray(self.measured.diag(self.X), dtype=float)

    def values(self) -> np.ndarray:
        """f at the points, (m, c)."""
        if isinstance(self.model, OnFeatures):
            every = np.asarray(self.f(self.X) - self.f.bias)
            inner = every.reshape(count(self.X), self.f.n_outputs)
            inner = inner if self.chosen is None else inner[:, self.chosen]
        else:
            inner = self.kernel.matmul(self.X, self.model.points, self.coef)
        return inner + self.squares()[:, None] + self.bias

    def only(self, output: str | int | None) -> _Function:
        """The function with one of its outputs; None for all."""
        if output is None:
            return self
        c = len(self.outputs)
        if output in self.outputs:
            j = self.outputs.index(str(output))
        elif isinstance(output, int | np.integer) and 0 <= output < c:
            j = int(output)
        else:
            raise ValueError(
                f"This machine has no output {brief(output)}; its outputs, 0 to "
                f"{c - 1}, are {', '.join(map(repr, self.outputs))}."
            )
        return replace(
            self,
            coef=self.coef[:, [j]],
            bias=self.bias[[j]],
            outputs=[self.outputs[j]],
            chosen=(j,),
        )

    def slope(self, i: int, j: int) -> Callable[[], np.ndarray | None]:
        """∂f/∂x at point i."""

        def gradient() -> np.ndarray | None:
            if not (is_vectors(self.X) and isinstance(self.model, OnPoints)):
                return None
            Z, points = (_dense(part) for part in (self.X[[i]], self.model.points))
            W = self.coef[:, j][None]
            slope = slopes(self.kernel, Z, points, W)[0]
            if self.square and self.measured is not None:
                slope = slope + self.square * slopes_of_square(self.measured, Z)[0]
            return slope

        return gradient


def _dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float)


def _function(machine: Any, X: Points) -> _Function:
    if isinstance(machine, Pipeline):
        check_is_fitted(machine)
        columns = None
        if len(machine) > 1:
            columns = _columns_out(machine[:-1], X)
            X = machine[:-1].transform(X)
        function = _function(machine[-1], X)
        return function if columns is None else replace(function, columns=columns)
    if not isinstance(machine, Machine):
        raise TypeError(
            f"explain takes a machine of this library, or a pipeline that ends with "
            f"one; got {brief(machine)}."
        )
    check_is_fitted(machine)
    f, scale, bias, square = machine._as_sum()
    X = double(machine._validated_points(as_points(X), reset=False))
    if isinstance(getattr(f, "points", None), Blocks):
        raise ValueError(
            f"The {type(machine).__name__} stands on points that are read in blocks. "
            "Fit it on points in memory, or on Nystrom(kernel, size)."
        )
    coef = scale * f.coef.reshape(len(f.coef), f.n_outputs)
    columns = getattr(machine, "feature_names_in_", None)
    return _Function(
        f,
        X,
        coef,
        np.broadcast_to(np.asarray(bias, dtype=float), (f.n_outputs,)),
        machine._output_names(),
        f.coef.ndim == 2,
        None if columns is None else [str(name) for name in columns],
        _point_names(machine, len(f.coef)),
        square,
        getattr(machine, "approximation_", f.kernel),
    )


def _columns_out(steps: Pipeline, X: Points) -> list[str] | None:
    try:
        return [str(name) for name in steps.get_feature_names_out()]
    except (AttributeError, ValueError):  # steps that do not name what they make
        return None


def _point_names(machine: Any, n: int) -> Callable[[int], str]:
    if hasattr(machine, "approximation_"):
        return lambda i: f"landmark {i}"
    index = getattr(machine, "support_", None)
    if index is None or len(index) != n:
        return lambda i: f"point {i}"
    return lambda i: f"point {int(index[i])}"


# The ways to take f apart


def _found(function: _Function, by: str | None, n: int) -> tuple[list[Found], str]:
    """The parts of each point, and what they are."""
    way = by or _way(function)
    if way == "mixed":
        found, way = _mixed(function.kernel, function.model, function, n), "terms"
    else:
        _check_way(way, function)
        found = _ROADS[way](function, n)
    squares = function.squares()
    if function.square:
        c = len(function.bias)
        found = [
            Found.joined([parts, Found.single("k(x, x)", np.full(c, square))])
            for parts, square in zip(found, squares.tolist(), strict=True)
        ]
    return found, way


def _way(function: _Function) -> str:
    """The finest way that a kernel has."""
    kernel = function.kernel
    if isinstance(function.model, OnFeatures):
        return "features"
    if has_features(kernel):
        width = dense_columns(kernel, take(function.X, slice(0, 1))) or 0
        if width * (len(function.coef) + count(function.X)) <= MOST_NUMBERS:
            return "features"
        return "coordinates" if has_coordinates(kernel) else "points"
    terms = [term for _, term in _flat(kernel)]
    if len(terms) > 1 and (
        any(map(has_features, terms)) or not has_coordinates(kernel)
    ):
        return "mixed"
    return "coordinates" if has_coordinates(kernel) else "points"


def _check_way(way: str, function: _Function) -> None:
    kernel = function.kernel
    there = [
        name
        for name, known in (
            ("features", has_features(kernel)),
            ("coordinates", has_coordinates(kernel)),
            ("terms", True),
            ("points", True),
        )
        if known
    ]
    if isinstance(function.model, OnFeatures):
        there = ["features"]
    if way in there:
        return
    what = {
        "features": f"Kernels with features: {WITH_A_MAP}.",
        "coordinates": "Kernels with coordinates: RBF, Laplacian, Exponential, "
        "ChiSquared, Spline, Linear, Intersection; On; their sums and products.",
    }.get(way, "The machine stands on features, not on points.")
    ways = " or ".join(f'by="{name}"' for name in there)
    raise ValueError(f'{kernel} cannot be taken apart by="{way}"; use {ways}. {what}')


def _features(function: _Function, n: int) -> list[Found]:
    return by_features(function.kernel, function.model, function.X, n, function.columns)


def _coordinates(function: _Function, n: int) -> list[Found]:
    assert isinstance(function.model, OnPoints)
    return by_coordinates(function.kernel, function.model, function.X, function.columns)


def _points(function: _Function, n: int) -> list[Found]:
    model = function.model
    assert isinstance(model, OnPoints)
    out = []
    for i in range(count(function.X)):
        values = function.kernel(take(function.X, slice(i, i + 1)), model.points)[0]
        table = np.asarray(values, dtype=float)[:, None] * model.coef
        used = np.flatnonzero(table.any(axis=1))
        out.append(Found.of(table[used], _point_describer(function, used)))
    return out


def _point_describer(
    function: _Function, used: np.ndarray
) -> Callable[[int], Described]:
    return lambda j: (function.names(int(used[j])), ())


def _terms(function: _Function, n: int) -> list[Found]:
    model, X = function.model, function.X
    assert isinstance(model, OnPoints)
    terms = _flat(function.kernel)
    values = np.array(
        [scale * kernel.matmul(X, model.points, model.coef) for scale, kernel in terms]
    )
    names = [_term_name(kernel) for _, kernel in terms]
    return [Found.of(values[:, i], lambda j: (names[j], ())) for i in range(count(X))]


def _flat(kernel: Kernel, scale: float = 1.0) -> list[tuple[float, Kernel]]:
    """The terms of a sum, with their factors."""
    if isinstance(kernel, Sum):
        return _flat(kernel.left, scale) + _flat(kernel.right, scale)
    if isinstance(kernel, Scaled):
        return _flat(kernel.kernel, scale * float(kernel.factor))
    return [(scale, kernel)]


def _term_name(kernel: Kernel) -> str:
    if isinstance(kernel, On):
        return f"{kernel.field}: {brief(kernel.kernel)}"
    return brief(kernel)


def _mixed(kernel: Kernel, model: Model, function: _Function, n: int) -> list[Found]:
    """The terms of a sum, each in the finest way that it has."""
    assert isinstance(model, OnPoints)
    per_term = []
    for scale, term in _flat(kernel):
        inner = model.scaled(scale)
        if has_features(term):
            found = by_features(term, inner, function.X, n, function.columns)
        elif has_coordinates(term):
            found = by_coordinates(term, inner, function.X, function.columns)
        else:
            values = term.matmul(function.X, inner.points, inner.coef)
            found = [Found.single(_term_name(term), value) for value in values]
        per_term.append(found)
    return [Found.joined(parts) for parts in zip(*per_term, strict=True)]


_ROADS: dict[str, Callable[[_Function, int], list[Found]]] = {
    "features": _features,
    "coordinates": _coordinates,
    "terms": _terms,
    "points": _points,
}


def parts_of(explanations: Sequence[Any]) -> list[Explanation]:
    """The explanations in one row, whatever the number of outputs."""
    flat: list[Explanation] = []
    for one in explanations:
        flat += one if isinstance(one, list) else [one]
    return flat
